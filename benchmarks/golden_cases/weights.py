"""What every rule finds: by `learn`, `run`, `sweep`, the `Learner` and the `Horde`, on streams of each kind."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import gradtd
from golden_cases.recording import digest

PROBLEMS = ("boyan_chain", "random_walk_tabular", "random_walk_dependent", "baird", "garnet", "two_state")
WITHOUT_STEP_SIZE = ("lstd", "emphatic_lstd", "krylov_gtd")
BATCHES = {"batch_size": 4}
RULES: dict[str, dict[str, Any]] = {
    "impression_gtd": {"alpha": 0.05, "m1": 3, "m2": 5},
    "direct_gtd": {"alpha": 0.02, "gap": 0.4},
    "krylov_gtd": {"M": 16, "every": 50},
    "nasa": {"alpha": 0.02, "a": 2.0, "b": 3.0, "beta": 0.7},
    "svrg_gtd": {"alpha": 0.02, "M": 6} | BATCHES,
    **{
        name: {"alpha": 0.02} | BATCHES
        for name in (
            "shrunken_r1_gtd",
            "shrunken_at_td",
            "minibatch_td",
            "minibatch_tdc",
            "minibatch_tdc_replay",
            "saga_gtd",
        )
    },
}
"""Settings of the rules that need some of their own; all others take alpha=.02."""
Arrays = dict[str, np.ndarray]
Work = Callable[[], np.ndarray]


OFTEN = ("td", "tdrc", "impression_gtd", "lstd")
"""Rules whose rarer kinds of streams are compiled, too. Others run as plain Python there: compiling takes minutes."""


def compiled(name: str) -> bool:
    return name in OFTEN


def settings_of(name: str) -> dict[str, Any]:
    return RULES.get(name, {} if name in WITHOUT_STEP_SIZE else {"alpha": 0.02})


def weight_cases() -> Iterator[tuple[str, Callable[[], tuple[Any, Arrays]]]]:
    """Draws of every problem, then every rule on every kind of stream, then what few rules have."""
    for name in gradtd.PROBLEMS:
        yield f"sample {name}", lambda n=name: together(_draws(n))
    for name in gradtd.ALGORITHMS:
        for kind in (_dense, _traces, _sparse, _online, _runs):
            yield f"{kind.__name__[1:]} {name}", lambda k=kind, n=name: together(k(n))
    yield from _variants()


def together(works: Mapping[str, Work]) -> tuple[Any, Arrays]:
    """The digest of every array, or the sentence that refuses a setting; and the arrays."""
    told, arrays = {}, {}
    for name, work in works.items():
        try:
            made = np.asarray(work())
        except gradtd.InputError as error:
            told[name] = f"refused: {error}"
            continue
        told[name] = digest(made)
        arrays[name] = made
    return told, arrays


@cache
def stream(kind: str = "dense", steps: int = 400, on_policy: bool = False) -> gradtd.Stream:
    """Episodes of 5 to 25 steps, a third of them cut off, random features, ratios, discounts and rewards."""
    rng = np.random.default_rng([5, len(kind), steps])
    lengths: list[int] = []
    while sum(lengths) < steps:
        lengths.append(min(int(rng.integers(5, 26)), steps - sum(lengths)))
    columns = 40 if "sparse" in kind else 6
    rows = steps + len(lengths)
    table = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < (0.1 if "sparse" in kind else 0.7))
    episode = np.repeat(np.arange(len(lengths)), lengths)
    row = np.arange(steps) + episode
    discount = 0.6 + 0.4 * rng.random(steps)
    last = np.append(episode[1:] != episode[:-1], True)
    discount[last & (episode % 3 > 0)] = 0.0
    features: Any = table.astype(np.float32) if "float32" in kind else table
    return gradtd.Stream.from_arrays(
        features=scipy.sparse.csr_array(features) if "sparse" in kind else features,
        row=row,
        next_row=row + 1,
        reward=rng.normal(size=steps),
        discount=discount,
        rho=np.ones(steps) if on_policy else 2 * rng.random(steps),
        target=rng.random(steps),
        episode=episode,
        name=kind,
    )


@cache
def sampled(problem: str, steps: int = 600) -> gradtd.Stream:
    return gradtd.sample(problem, steps, seed=3)


def learned(given: Callable[[], gradtd.Stream], name: str, **hyper: Any) -> Work:
    """Weights at several steps, and step-sizes where the rule chooses them."""

    def work() -> np.ndarray:
        stream = given()
        found = gradtd.learn(stream, name, snapshots=[len(stream) // 3, len(stream)], **settings_of(name) | hyper)
        return np.append(np.ravel(found.thetas), found.diverged_at)

    return work


def _draws(problem: str) -> dict[str, Work]:
    steps = lambda: np.frombuffer(np.asarray(sampled(problem).steps).tobytes(), np.uint8)  # noqa: E731
    return {
        "steps": steps,
        "features": lambda: np.asarray(_dense_table(sampled(problem).features)),
        "another seed": lambda: np.asarray(gradtd.sample(problem, 200, seed=8).steps["reward"]),
    }


def _dense_table(features: Any) -> Any:
    return features.toarray() if scipy.sparse.issparse(features) else features


def _dense(name: str) -> dict[str, Work]:
    works = {"random": learned(stream, name), "seed": learned(stream, name, seed=9)}
    works["theta0"] = learned(stream, name, theta0=np.linspace(-1, 1, 6))
    works["average"] = learned(stream, name, average="tail")
    works["two passes"] = learned(lambda: stream("dense", 200), name, passes=2)
    works |= {problem: learned(lambda p=problem: sampled(p), name) for problem in PROBLEMS}
    if name not in WITHOUT_STEP_SIZE:
        works["decay"] = learned(stream, name, p=0.5, t0=50.0)
        works["start"] = learned(stream, name, start=60)
    works["float32"] = learned(lambda: stream("float32", 80), name, compile=compiled(name))
    return works


def _traces(name: str) -> dict[str, Work]:
    works = {}
    for lam, trace in ((0.4, "rho"), (0.8, "rho"), (0.4, "clipped"), (0.8, "tree")):
        given = {} if trace == "rho" else {"trace": trace}
        works[f"{lam} {trace}"] = learned(stream, name, lam=lam, **given)
        works[f"{lam} {trace} boyan"] = learned(lambda: sampled("boyan_chain"), name, lam=lam, **given)
    return works


def _sparse(name: str) -> dict[str, Work]:
    sparse, narrow = lambda: stream("sparse"), lambda: stream("sparse float32", 80)
    works = {"plain": learned(sparse, name), "average": learned(sparse, name, average="uniform")}
    works["theta0"] = learned(sparse, name, theta0=np.linspace(-1, 1, 40))
    works["float32"] = learned(narrow, name, compile=compiled(name))
    works |= {f"lam {lam}": learned(sparse, name, lam=lam) for lam in (0.4, 0.8)}
    return works


def _online(name: str) -> dict[str, Work]:
    return {
        "learner": lambda: _by_steps(name, stream("dense", 150)),
        "learner traces": lambda: _by_steps(name, stream("dense", 150), lam=0.4),
        "learner of parts": lambda: _by_parts(name, stream()),
        "learner sparse": lambda: _by_parts(name, stream("sparse")),
        "learner saved": lambda: _saved(name),
        "horde": lambda: _horde(name),
    }


def _by_steps(name: str, given: gradtd.Stream, **more: Any) -> np.ndarray:
    learner = gradtd.Learner(given.n_features, name, capacity=80, **settings_of(name) | more)
    for step in given.steps:
        learner.update(
            given.features[step["row"]],
            step["reward"],
            given.features[step["next_row"]],
            rho=step["rho"],
            discount=step["discount"],
            episode=int(step["episode"]),
        )
    return np.append(learner.theta, learner.updates)


def _by_parts(name: str, given: gradtd.Stream) -> np.ndarray:
    learner = gradtd.Learner(given.n_features, name, capacity=None, **settings_of(name))
    return np.ravel([learner.partial_fit(part).theta for part in given.parts(100)])


def _saved(name: str) -> np.ndarray:
    """Half of the steps, a file, and the rest."""
    learner = gradtd.Learner(6, name, **settings_of(name))
    with tempfile.TemporaryDirectory() as folder:
        learner.partial_fit(stream("dense", 200)).save(Path(folder) / "learner.npz")
        return gradtd.Learner.load(Path(folder) / "learner.npz").partial_fit(stream("dense", 250)).theta


def _horde(name: str) -> np.ndarray:
    """Three demons on one stream, one of them with another discount, one with another policy."""
    given = stream("dense", 200)
    horde = gradtd.Horde(
        6, {"one": {}, "two": {"seed": 4}, "three": {"capacity": 100}}, name, threads=1, **settings_of(name)
    )
    horde.partial_fit(given, discount={"two": 0.5 * given.steps["discount"]}, rho={"three": np.ones(len(given))})
    return np.concatenate(list(horde.theta.values()))


def _runs(name: str) -> dict[str, Work]:
    given: dict[str, Any] = {"steps": 300, "runs": 3, "threads": 1, "progress": False, "snapshots": [100, 300]}
    works: dict[str, Work] = {
        problem: lambda p=problem: gradtd.run(p, name, **given, **settings_of(name)).thetas
        for problem in ("random_walk_tabular", "boyan_chain")
    }
    if name not in WITHOUT_STEP_SIZE:
        rest = {key: value for key, value in settings_of(name).items() if key != "alpha"}
        works["sweep"] = lambda: np.array(
            [
                found.thetas
                for found in gradtd.sweep("boyan_chain", name, {"alpha": [0.01, 0.1]}, **given | {"runs": 2}, **rest)
            ]
        )
    return works


ROOT = np.random.default_rng(5).normal(size=(6, 6))
TWO_SIZES = {"alpha": 0.05, "m1": 3, "m2": 5}


def _variants() -> Iterator[tuple[str, Callable[[], tuple[Any, Arrays]]]]:
    """Settings that a rule of its own has: Impression GTD's above all."""
    impression: dict[str, dict[str, Any]] = {
        "single pair": {"alpha": 0.05, "batch_size": 1},
        "both": TWO_SIZES | {"directions": "both"},
        "averaged": TWO_SIZES | {"directions": "averaged"},
        "mspbe": TWO_SIZES | {"similarity": "mspbe", "ridge": 0.5},
        "U": TWO_SIZES | {"similarity": ROOT @ ROOT.T + np.eye(6)},
        "auto": {"alpha": "auto", "m1": 3, "m2": 5},
        "auto default": {"alpha": "auto"},
        "auto both": {"alpha": "auto", "directions": "both", "batch_size": 4},
        "auto mspbe": {"alpha": "auto", "similarity": "mspbe", "batch_size": 4},
        "auto traces": {"alpha": "auto", "lam": 0.4, "batch_size": 4},
        "auto clipped": {"alpha": "auto", "lam": 0.8, "trace": "clipped", "batch_size": 4},
        "auto no average": {"alpha": "auto", "average": "none", "batch_size": 4},
        "coin": TWO_SIZES | {"split": "coin"},
        "episode-index": TWO_SIZES | {"split": "episode-index"},
        "no split": TWO_SIZES | {"split": "none"},
        "capacity": TWO_SIZES | {"capacity": 40},
        "without replacement": TWO_SIZES | {"replacement": False, "fill": 10},
        "block": TWO_SIZES | {"block": 7},
        "large batches": {"alpha": 0.05, "batch_size": 64},
    }
    others: dict[str, tuple[str, dict[str, Any]]] = {
        "expected_gtd one": ("expected_gtd", {"alpha": 0.05, "buffers": "one"}),
        "expected_gtd both": ("expected_gtd", {"alpha": 0.05, "buffers": "both"}),
        "lstd batch": ("lstd", {"solver": "batch", "ridge": 1.0}),
        "emphatic_lstd batch": ("emphatic_lstd", {"solver": "batch", "ridge": 1.0}),
        "krylov_gtd window": ("krylov_gtd", {"M": 8, "K": 3, "window": 120}),
        "krylov_gtd all": ("krylov_gtd", {"M": 8, "every": 0}),
        "true_online_td": ("true_online_td", {"alpha": 0.02, "lam": 0.6}),
        "true_online_gtd": ("true_online_gtd", {"alpha": 0.02, "lam": 0.6, "eta": 2.5}),
        "gtd2 eta": ("gtd2", {"alpha": 0.02, "eta": 2.5}),
        "tdrc eta": ("tdrc", {"alpha": 0.02, "eta": 2.5, "beta": 0.6}),
        "capacity minibatch_td": ("minibatch_td", {"alpha": 0.02, "batch_size": 4, "capacity": 30}),
    }
    named = {f"impression_gtd {name}": ("impression_gtd", given) for name, given in impression.items()}
    for name, (rule, given) in (named | others).items():
        yield f"variant {name}", lambda r=rule, g=given: together(_variant(r, g))
    sparse_auto = learned(lambda: stream("sparse"), "impression_gtd", alpha="auto")
    yield "variant impression_gtd sparse auto", lambda: together({"sparse": sparse_auto})
    for rule in ("td", "minibatch_td"):
        on_policy = lambda: stream("dense", 400, True)  # noqa: E731
        works = {"random": learned(on_policy, rule, alpha="auto"), "off-policy": learned(stream, rule, alpha="auto")}
        yield f"variant {rule} auto", lambda w=works: together(w)


def _variant(rule: str, given: dict[str, Any]) -> dict[str, Work]:
    """One setting by itself: on a dense and on a sparse stream, and over runs."""

    def weights(of: gradtd.Stream, compile: bool | None = None) -> np.ndarray:
        found = gradtd.learn(of, rule, snapshots=[len(of) // 2, len(of)], compile=compile, **given)
        return np.append(np.ravel(found.thetas), np.ravel(found.alphas))

    works: dict[str, Work] = {"random": lambda: weights(stream())}
    if not isinstance(given.get("similarity"), np.ndarray):
        works["sparse"] = lambda: weights(stream("sparse", 120), compile=False)
        works["boyan"] = lambda: weights(sampled("boyan_chain"))
        works["baird"] = lambda: weights(sampled("baird"))
    return works
