"""Every rule is its equation: equal to a naive twin step by step, compiled or not, dense or sparse."""

import functools
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import gradtd
from gradtd import ALGORITHMS
from gradtd.compiled import engine
from gradtd.running.settings import set_up
from naive import rules as naive

THETA0 = np.array([0.7, -1.1, 0.4, 0.9])
D = len(THETA0)
ALPHA = 0.03
ROOT = np.random.default_rng(5).normal(size=(D, D))
U = ROOT @ ROOT.T + np.eye(D)


def bell(x, other):
    """A kernel that is not a dot product."""
    total = 0.0
    for k in range(x.shape[0]):
        total += (x[k] - other[k]) ** 2
    return np.exp(-0.5 * total)


def random_stream(sparse=False):
    """200 steps in 15 episodes, a third of them cut off, with random ratios, discounts, rewards and features."""
    rng = np.random.default_rng(11)
    lengths = np.append(rng.integers(8, 19, 14), 0)
    lengths[-1] = 200 - lengths.sum()
    features, columns = [], {name: [] for name in ("row", "next_row", "discount", "episode")}
    for episode, length in enumerate(lengths):
        begin = len(features)
        features += list(rng.normal(size=(length + 1, D)) * (rng.random((length + 1, D)) < 0.6))
        discount = rng.random(length)
        if episode % 3:
            discount[-1] = 0.0
        columns["row"] += range(begin, begin + length)
        columns["next_row"] += range(begin + 1, begin + length + 1)
        columns["discount"] += list(discount)
        columns["episode"] += [episode] * length
    table = np.array(features)
    return gradtd.Stream.from_arrays(
        features=scipy.sparse.csr_array(table) if sparse else table,
        reward=rng.normal(size=200),
        rho=rng.random(200) * 3,
        **columns,
    )


STREAM = random_stream()
SPARSE = random_stream(sparse=True)
T = len(STREAM)

TWO_SIZES = {"m1": 3, "m2": 5}
ENGINE = {"m1", "m2", "split", "fill", "start", "capacity", "replacement", "block", "batch_size", "average"}
AUTO = {"alpha": "auto", "average": "none"}
COMPILED = {
    "impression_gtd": ("impression_gtd", TWO_SIZES),
    "impression_gtd both": ("impression_gtd", TWO_SIZES | {"directions": "both"}),
    "impression_gtd mspbe": ("impression_gtd", TWO_SIZES | {"similarity": "mspbe", "ridge": 0.5}),
    "impression_gtd U": ("impression_gtd", TWO_SIZES | {"similarity": U}),
    "impression_gtd kernel": ("impression_gtd", TWO_SIZES | {"similarity": bell}),
    "impression_gtd auto": ("impression_gtd", TWO_SIZES | AUTO),
    "impression_gtd auto both": ("impression_gtd", TWO_SIZES | AUTO | {"directions": "both"}),
    "impression_gtd auto mspbe": ("impression_gtd", TWO_SIZES | AUTO | {"similarity": "mspbe", "ridge": 0.5}),
    "impression_gtd auto U": ("impression_gtd", TWO_SIZES | AUTO | {"similarity": U}),
    "expected_gtd": ("expected_gtd", {}),
    "expected_gtd one": ("expected_gtd", {"buffers": "one"}),
    "expected_gtd both": ("expected_gtd", {"buffers": "both"}),
    "at_td": ("at_td", {}),
    "r1_gtd": ("r1_gtd", {}),
    "shrunken_r1_gtd": ("shrunken_r1_gtd", {"batch_size": 4}),
    "shrunken_at_td": ("shrunken_at_td", {"batch_size": 4}),
    "direct_gtd": ("direct_gtd", {"gap": 0.4}),
    "td": ("td", {}),
    "vtrace": ("vtrace", {}),
    "etd": ("etd", {}),
    "residual_gradient": ("residual_gradient", {}),
    "minibatch_td": ("minibatch_td", {"batch_size": 4}),
    "gtd": ("gtd", {"eta": 2.5}),
    "gtd2": ("gtd2", {"eta": 2.5}),
    "tdc": ("tdc", {"eta": 2.5}),
    "tdc_transposed": ("tdc_transposed", {"eta": 2.5}),
    "tdc_transposed_corrected": ("tdc_transposed_corrected", {"eta": 2.5}),
    "tdrc": ("tdrc", {"eta": 2.5, "beta": 0.6}),
    "htd": ("htd", {"eta": 2.5}),
    "nasa": ("nasa", {"a": 2.0, "b": 3.0, "beta": 0.7}),
    "minibatch_tdc": ("minibatch_tdc", {"eta": 2.5, "batch_size": 4}),
    "minibatch_tdc_replay": ("minibatch_tdc_replay", {"eta": 2.5, "batch_size": 4}),
    "lstd": ("lstd", {"ridge": 1.0}),
    "emphatic_lstd": ("emphatic_lstd", {"ridge": 1.0}),
    "true_online_td": ("true_online_td", {"lam": 0.6}),
    "true_online_gtd": ("true_online_gtd", {"lam": 0.6, "eta": 2.5}),
    "gtd2_mp": ("gtd2_mp", {"eta": 2.5}),
    "sthtd_mp": ("sthtd_mp", {"eta": 2.5}),
    "lstd batch": ("lstd", {"ridge": 1.0, "solver": "batch"}),
    "newton_td": ("newton_td", {"ridge": 2.0}),
    "lspe": ("lspe", {"ridge": 0.5}),
    "krylov_gtd": ("krylov_gtd", {"M": 16}),
    "svrg_gtd": ("svrg_gtd", {"batch_size": 4, "M": 6, "eta": 2.5}),
    "saga_gtd": ("saga_gtd", {"batch_size": 4, "eta": 2.5}),
    "q_learning": ("q_learning", {}),
    "expected_sarsa": ("expected_sarsa", {}),
    "greedy_gq": ("greedy_gq", {"eta": 2.5}),
    "impression_gq": ("impression_gq", TWO_SIZES),
}
# The same code put together in other ways: interpreted only, since every combination would compile anew.
INTERPRETED = (
    {
        "impression_gtd averaged": ("impression_gtd", TWO_SIZES | {"directions": "averaged"}),
        "impression_gtd single pair": ("impression_gtd", {"batch_size": 1}),
        "impression_gtd auto single pair": ("impression_gtd", {"batch_size": 1} | AUTO),
        "krylov_gtd window": ("krylov_gtd", {"M": 8, "K": 3, "window": 120}),
        "krylov_gtd batches": ("krylov_gtd", {"M": 8, "every": 7}),
        "krylov_gtd batches in a window": ("krylov_gtd", {"M": 2, "K": 2, "every": 9, "window": 60}),
    }
    | {
        f"impression_gtd {similarity} {directions}": (
            "impression_gtd",
            TWO_SIZES | {"directions": directions} | special,
        )
        for directions in ("both", "averaged")
        for similarity, special in {
            "mspbe": {"similarity": "mspbe"},
            "U": {"similarity": U},
            "kernel": {"similarity": bell},
        }.items()
    }
    | {
        f"impression_gtd {split}": ("impression_gtd", TWO_SIZES | {"split": split})
        for split in ("coin", "episode-index", "none")
    }
    | {
        "impression_gtd auto averaged": ("impression_gtd", TWO_SIZES | AUTO | {"directions": "averaged"}),
        "impression_gtd auto mspbe both": (
            "impression_gtd",
            TWO_SIZES | AUTO | {"directions": "both", "similarity": "mspbe"},
        ),
        "impression_gtd auto U averaged": (
            "impression_gtd",
            TWO_SIZES | AUTO | {"directions": "averaged", "similarity": U},
        ),
        "impression_gtd auto episode-index": ("impression_gtd", TWO_SIZES | AUTO | {"split": "episode-index"}),
    }
)
CASES = COMPILED | INTERPRETED
SLOW = {"krylov_gtd", "lstd batch", "impression_gtd U", "impression_gtd mspbe", "impression_gtd both"} | {
    f"impression_gtd auto {variant}" for variant in ("both", "mspbe", "U")
}
"""What takes long to compile; Krylov GTD is compiled in `test_krylov_gtd`, too."""


BEFORE_TRACES = json.loads((Path(__file__).parent / "weights_before_traces.json").read_text())
"""The last weights of these cases, recorded with the code that had no traces yet."""
OF_LIBRARIES = ("kernel", " U", "lstd batch")
"""Their last bits are those of an exponential, or of a factorisation, that another library computes."""


def step_size_of(name):
    return {"alpha": ALPHA} if ALGORITHMS[name].step_size else {}


@functools.cache
def learned(case, compile, sparse=False):
    """The weights after every step."""
    name, settings = CASES[case]
    stream = SPARSE if sparse else STREAM
    return learn(stream, name, compile=compile, **settings)


def learn(stream, name, compile=False, **settings):
    settings = step_size_of(name) | settings
    rule = with_compiled_functions(name, settings) if compile else name
    result = gradtd.learn(stream, rule, theta0=THETA0, seed=3, snapshots=1, compile=False, **settings)
    assert result.diverged == 0
    return result.thetas


def with_compiled_functions(name, settings):
    """A rule whose functions are compiled, for the interpreted loop: to compile the loop around each takes longer."""
    rule = set_up(ALGORITHMS[name], settings, n_steps=T).algorithm
    own = {part: getattr(rule, part) for part in ("update", "observe", "read")}
    return replace(rule, **{part: engine.compile_function(own[part], True) for part in own if own[part]})


def write_down(state, stream, now, hyper):
    """Not a rule: it keeps what the engine hands to rules."""
    t = now.seen - 1
    state.learns[t] = True
    state.first[t] = now.first
    state.second[t] = now.second


def log_of(name, settings, seed=3, stream=None, **traces):
    """The steps of the stream with the batches that the engine draws for an algorithm with these settings."""
    stream = STREAM if stream is None else stream
    draws = ALGORITHMS[name].draws
    batch = settings.get("batch_size", 0) if "batch" in draws else 0
    m1, m2 = settings.get("m1", batch), settings.get("m2", batch)
    kept = {
        "learns": np.zeros(len(stream), bool),
        "first": np.zeros((len(stream), m1), np.uint32),
        "second": np.zeros((len(stream), m2), np.uint32),
    }
    recorder = gradtd.Algorithm("recorder", write_down, init=lambda d, hyper: kept, draws=draws)
    engine = {key: value for key, value in settings.items() if key in ENGINE}
    if "batch" not in draws:
        engine.pop("batch_size", None)
    gradtd.learn(stream, recorder, alpha=1.0, seed=seed, compile=False, **engine)
    return naive.Log(
        naive.samples_of(stream, **traces), **kept, table=naive.table_of(stream), next_row=stream.steps["next_row"]
    )


def twin_of(name, settings, alphas=None, **traces):
    """The weights of the naive twin after every step."""
    own = {key: value for key, value in settings.items() if key not in ENGINE or key in ALGORITHMS[name].parameters}
    alphas = itertools.repeat(1.0 if "alpha" in settings else ALPHA) if alphas is None else alphas
    return np.array(list(naive.TWINS[name](log_of(name, settings, **traces), THETA0, alphas, **own)))


def assert_same(thetas, expected, bound=1e-12):
    """Equal to 1e-12, or another bound, relative to the largest weight where that is above one."""
    scale = np.maximum(1.0, np.abs(expected).max(axis=1, keepdims=True))
    np.testing.assert_array_less(np.abs(thetas - expected) / scale, bound)


@pytest.mark.parametrize("case", CASES)
def test_rule_equals_its_naive_twin_after_every_step(case):
    name, settings = CASES[case]
    expected = twin_of(name, settings)
    assert np.abs(expected).max() < 100
    assert np.abs(np.diff(expected[-50:], axis=0)).max() > 1e-6, "the twin does not learn"
    assert_same(learned(case, compile=False), expected)


@pytest.mark.parametrize("case", [pytest.param(case, marks=[pytest.mark.slow] * (case in SLOW)) for case in COMPILED])
def test_compiled_equals_interpreted(case):
    """The only test in which every rule is compiled; the loop around them is in `test_engine` and `test_loop`."""
    assert_same(learned(case, compile=True), learned(case, compile=False))


@pytest.mark.parametrize("case", BEFORE_TRACES)
def test_without_lam_weights_are_those_from_before_there_were_traces(case):
    recorded = np.array([float.fromhex(number) for number in BEFORE_TRACES[case]])
    found = learned(case, compile=False)[-1]
    if any(word in case for word in OF_LIBRARIES):
        np.testing.assert_allclose(found, recorded, rtol=0, atol=1e-12)
    else:
        assert found.tobytes() == recorded.tobytes()


@pytest.mark.parametrize("case", [case for case in CASES if "kernel" not in case])
def test_sparse_features_give_the_weights_of_dense_ones(case):
    assert_same(learned(case, compile=False, sparse=True), learned(case, compile=False))


@pytest.mark.parametrize("case", ["tdc", "lspe"])
def test_compiled_rules_read_sparse_features(case):
    """With sparse traces (`test_traces`) and with averages (`test_vectors`) more are compiled.

    Together they use every function on rows.
    """
    assert_same(learned(case, compile=True, sparse=True), learned(case, compile=True))


def test_kernel_similarity_refuses_sparse_features():
    with pytest.raises(gradtd.InputError, match="sparse"):
        learned("impression_gtd kernel", compile=False, sparse=True)


def test_random_stream_has_what_a_wrong_sign_or_ratio_would_show_on():
    steps = STREAM.steps
    last = np.append(np.diff(steps["episode"]) > 0, True)
    assert T == 200
    assert STREAM.n_episodes == 15
    assert (steps["discount"][last] == 0).any()
    assert (steps["discount"][last] > 0).any()
    assert steps["rho"].min() < 0.1
    assert steps["rho"].max() > 2.9
    assert scipy.sparse.issparse(SPARSE.features)
    np.testing.assert_array_equal(SPARSE.features.toarray(), STREAM.features)


def test_batches_come_from_the_buffers_that_the_rules_name():
    episodes = STREAM.steps["episode"]
    log = log_of("impression_gtd", TWO_SIZES)
    at = np.flatnonzero(log.learns)
    assert (episodes[log.first[at]] % 2 == 1).all()
    assert (episodes[log.second[at]] % 2 == 0).all()
    other = log_of("shrunken_r1_gtd", {"batch_size": 4})
    at = np.flatnonzero(other.learns)
    assert (episodes[other.first[at]] % 2 != episodes[at, None] % 2).all()
    for drawn in (log.first, log.second, other.first):
        assert (drawn <= np.arange(T)[:, None]).all()


def test_kernel_dot_product_is_correlation():
    def dot_product(x, other):
        return np.dot(x, other)

    kernel = learn(STREAM, "impression_gtd", similarity=dot_product, **TWO_SIZES)
    assert_same(kernel, learned("impression_gtd", compile=False))


@pytest.mark.parametrize("case", ["td", "impression_gtd", "gtd", "minibatch_tdc_replay", "minibatch_tdc"])
def test_step_size_decays_with_the_number_of_updates(case):
    name, settings = CASES[case]
    thetas = learn(STREAM, name, t0=30.0, p=0.7, **settings)
    assert_same(thetas, twin_of(name, settings, naive.decaying(ALPHA, 30.0, 0.7)))


def test_a_chosen_step_size_at_its_lower_bound():
    """From the solution of the whole stream the loss is all noise, and the step-size the least that is allowed."""
    solution = gradtd.learn(STREAM, "lstd", ridge=1e-6, compile=False).theta
    found = gradtd.learn(
        STREAM, "impression_gtd", theta0=solution, seed=3, snapshots=1, compile=False, **TWO_SIZES, **AUTO
    )
    log = log_of("impression_gtd", TWO_SIZES)
    twin = naive.TWINS["impression_gtd"](log, solution, itertools.repeat(1.0), alpha="auto")
    assert_same(found.thetas, np.array(list(twin)))


def test_a_chosen_step_size_decays_too():
    settings = TWO_SIZES | AUTO
    thetas = learn(STREAM, "impression_gtd", compile=False, t0=30.0, p=0.7, **settings)
    assert_same(thetas, twin_of("impression_gtd", settings, naive.decaying(1.0, 30.0, 0.7)))


@pytest.mark.parametrize(
    ("average", "begin", "power"),
    [
        ({"average": "uniform"}, 0, 0),
        ({"average": "uniform", "average_from": 30}, 30, 0),
        ({"average": "tail"}, T // 2, 0),
        ({"average": "tail", "average_from": 150}, 150, 0),
        ({"average": "polynomial"}, 0, 3),
        ({"average": "polynomial", "average_power": 2.0, "average_from": 40}, 40, 2),
    ],
)
def test_averages_weigh_the_iterates_as_they_say(average, begin, power):
    thetas = learn(STREAM, "td", **average)
    iterates = learned("td", compile=False)
    assert_same(thetas, np.array(list(naive.averages(iterates, begin, power))))
    np.testing.assert_array_equal(thetas[:begin], iterates[:begin])


@pytest.mark.parametrize(
    "case",
    ["r1_gtd", "at_td", "impression_gtd mspbe", "etd", "minibatch_tdc", "newton_td", "lspe", "true_online_gtd"],
)
def test_steps_before_the_start_still_count_in_what_a_rule_remembers(case):
    """``start`` delays learning; means "over all steps so far" are still over all of them."""
    name, settings = CASES[case]
    settings = settings | {"start": 45}
    thetas = learn(STREAM, name, compile=False, **settings)
    np.testing.assert_array_equal(thetas[:45], np.tile(THETA0, (45, 1)))
    assert_same(thetas, twin_of(name, settings))


def test_lstd_has_no_start_and_its_batch_form_nothing_to_average():
    with pytest.raises(gradtd.InputError, match="unknown hyper-parameter of lstd 'start'"):
        gradtd.learn(STREAM, "lstd", start=3)
    with pytest.raises(gradtd.InputError, match="nothing to average"):
        gradtd.learn(STREAM, "lstd", solver="batch", average="uniform")


def test_an_average_begins_with_the_first_update():
    """Before the buffers are filled there is nothing to average."""
    thetas, averaged = (learn(STREAM, "impression_gtd", average=a, batch_size=20) for a in ("none", "uniform"))
    first = int(np.flatnonzero((thetas != THETA0).any(axis=1))[0])
    assert first > 30
    np.testing.assert_array_equal(averaged[: first + 1], thetas[: first + 1])
    assert_same(averaged[first:], np.array(list(naive.averages(thetas[first:], 0))))


# Conformance: a new algorithm is tested by existing ------------------------------------------------------


def test_every_algorithm_has_a_twin_and_a_case():
    assert set(naive.TWINS) == set(ALGORITHMS)
    assert {name for name, _ in COMPILED.values()} == set(ALGORITHMS)


@pytest.mark.parametrize("name", ALGORITHMS)
class TestEveryAlgorithm:
    def test_says_what_it_does(self, name):
        algorithm = ALGORITHMS[name]
        doc = algorithm.update.__doc__
        assert doc
        assert doc.splitlines()[0].strip()
        assert algorithm.summary == doc.strip().splitlines()[0]
        assert algorithm.name == name

    def test_is_the_same_for_the_same_seed(self, name):
        small = {"batch_size": 4} if "batch" in ALGORITHMS[name].draws else {}
        runs = [
            gradtd.learn(
                STREAM, name, seed=seed, theta0=THETA0, snapshots=[0, 100, T], compile=False,
                **step_size_of(name), **small,
            )
            for seed in (1, 1, 2)
        ]  # fmt: skip
        assert runs[0].thetas.shape == (3, D)
        assert np.isfinite(runs[0].thetas).all()
        assert runs[0].diverged == 0
        np.testing.assert_array_equal(runs[0].thetas[0], THETA0)
        np.testing.assert_array_equal(runs[0].thetas, runs[1].thetas)
        draws_batches = ALGORITHMS[name].draws in ("one batch", "other batch", "two batches")
        assert (runs[0].thetas != runs[2].thetas).any() == draws_batches
        assert (runs[0].theta != THETA0).all()

    @pytest.mark.parametrize("average", ["none", "uniform"])
    def test_weights_do_not_depend_on_where_snapshots_are_taken(self, name, average):
        for case, (of, settings) in COMPILED.items():
            if of == name and case == name:
                common = {**settings, **step_size_of(name), "average": average, "compile": False, "theta0": THETA0}
                often = gradtd.learn(STREAM, name, snapshots=1, **common)
                seldom = gradtd.learn(STREAM, name, snapshots=[70, T], **common)
                np.testing.assert_array_equal(seldom.thetas, often.thetas[[69, T - 1]], err_msg=case)

    def test_leaves_the_start_weights_of_the_caller_alone(self, name):
        theta0 = THETA0.copy()
        small = {"batch_size": 4} if "batch" in ALGORITHMS[name].draws else {}
        gradtd.learn(STREAM, name, theta0=theta0, compile=False, **step_size_of(name), **small)
        np.testing.assert_array_equal(theta0, THETA0)
