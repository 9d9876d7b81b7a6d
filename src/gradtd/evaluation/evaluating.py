"""`evaluate`: a log in, a value with an interval and a verdict out."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Any

from gradtd.algorithms import ALGORITHMS
from gradtd.core import checks
from gradtd.core.algorithm import Algorithm
from gradtd.core.checks import InputError
from gradtd.core.progress import NamedProgress, Progress
from gradtd.evaluation.diagnosing import diagnose
from gradtd.evaluation.methods import COMPUTED, Settings, for_pictures, make_case, solve
from gradtd.evaluation.preparing import Prepared, kept_columns, prepare_log
from gradtd.evaluation.result import Evaluation, number_or_nan
from gradtd.evaluation.verdict import judge
from gradtd.logs import Ratios, ratios, read_log
from gradtd.running.workers import n_threads

MOST_RESAMPLES = 10_000


def evaluate(
    log: Any,
    *,
    gamma: float,
    target: Any = None,
    features: Any = None,
    algorithm: Algorithm | str = "impression_gtd",
    behaviour: Any = None,
    clip: float | None = None,
    level: float = 0.95,
    resamples: int | None = None,
    interval: str = "student",
    updates: int | None = None,
    block: int | None = None,
    whiten: bool = True,
    columns: Mapping[str, Any] | None = None,
    log_probabilities: str = "refuse",
    duplicates: str = "refuse",
    seed: int = 0,
    threads: int | None = None,
    progress: NamedProgress | None = None,
    **hyper: Any,
) -> Any:
    """What is a policy worth, from a log of another one? Returns an `Evaluation`.

    ``log`` is whatever `gradtd.read_log` reads, ``columns``, ``log_probabilities`` and ``duplicates`` are handed to it.
    ``target`` is the policy to evaluate: a function of observations or a table that gives action probabilities, the
    name of a column of probabilities, "behaviour" for the log's own policy; by default the log's target or ratio
    column. A dictionary of targets is evaluated in one go and gives a dictionary of evaluations. ``behaviour``
    overrides the log's own probabilities, ``"estimate"`` fits them; ``clip`` cuts ratios. ``features`` is a name such
    as "fourier", a feature map, a scikit-learn transformer or a function; the default suits the observations.

    ``algorithm`` is any rule of the library with its ``hyper`` parameters, or an importance-sampling estimator
    (is, wis, pdis, wpdis, dr, wdr, monte_carlo). A rule is fitted until its value stands still, or for ``updates``
    steps. The interval at ``level`` comes from refits on ``resamples`` resamples of whole episodes: "student" (value
    -+ t times their deviation) or "percentile"; with ``resamples=0`` from the sandwich error of least squares. Where a
    log has one long episode, ``block`` is the number of steps that count as one. Features are whitened (C = I) before
    learning, which leaves the values that can be represented as they are and makes step-sizes comparable;
    ``whiten=False`` learns on them as given. ``progress(what, done, total)`` hears how far it is.

    >>> import gradtd
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> log = {"episode": np.repeat(np.arange(200), 2), "obs": np.tile([0, 1], 200), "terminated": np.tile([0, 1], 200),
    ...        "reward": rng.normal(1, 1, 400), "rho": rng.choice([0.5, 1.5], 400)}
    >>> result = gradtd.evaluate(log, gamma=0.9)      # each step is worth 1, so the truth is 1.9
    >>> result.interval[0] < 1.9 < result.interval[1], result.verdict
    (True, 'usable')
    """
    settings = Settings(
        gamma=checks.fraction("gamma", gamma),
        algorithm=known_method(algorithm, hyper),
        hyper=hyper,
        level=_level(level),
        resamples=None if resamples is None else checks.whole_number("resamples", resamples, 0, MOST_RESAMPLES),
        interval=checks.one_of("interval", interval, ("student", "percentile")),
        updates=None if updates is None else checks.whole_number("updates", updates, 1),
        seed=checks.whole_number("seed", seed, 0),
        threads=n_threads(threads),
    )
    if updates is not None and settings.computed:
        raise InputError(f"{settings.method} makes no updates, got updates={updates}: leave it out.")
    if block is not None:
        block = checks.whole_number("block", block, 1)
    targets = dict(target) if isinstance(target, Mapping) else {"target": target}
    if not targets:
        raise InputError("target must name at least one policy to evaluate, got an empty dictionary.")
    read = read_log(
        log,
        columns=columns,
        keep=kept_columns(*targets.values(), behaviour),
        log_probabilities=log_probabilities,
        duplicates=duplicates,
        progress=_part(progress, "reading"),
    )
    weights = {
        name: ratios(read, policy, behaviour=behaviour, clip=clip, seed=seed) for name, policy in targets.items()
    }
    ready = prepare_log(read, features, block, whiten)
    del read  # and with it the observations, unless they are the caller's: features are all that is needed from here on
    if not isinstance(target, Mapping):
        return _evaluate_one(ready, "target", weights["target"], settings, progress)
    return _evaluate_all(ready, weights, settings, progress)


def _evaluate_all(
    ready: Prepared, weights: Mapping[str, Ratios], settings: Settings, progress: NamedProgress | None
) -> dict[str, Evaluation]:
    """Every target on the same features, as many at a time as there are threads; an error or Ctrl-C stops them all."""
    alone = replace(settings, threads=1)
    stop = Event()

    def heard(what: str, done: int, total: int) -> None:
        if stop.is_set():
            raise CancelledError
        if progress:
            progress(what, done, total)

    with ThreadPoolExecutor(settings.threads) as pool:
        made = [pool.submit(_evaluate_one, ready, name, found, alone, heard) for name, found in weights.items()]
        try:
            return dict(zip(weights, [future.result() for future in made], strict=True))
        finally:
            stop.set()


def _evaluate_one(
    ready: Prepared, name: str, found: Ratios, settings: Settings, progress: NamedProgress | None
) -> Evaluation:
    stream = ready.stream(found.rho, settings.gamma)
    case = make_case(stream, settings, _part(progress, "least squares"))
    solved = solve(case, _part(progress, "refitting"))
    diagnostics = diagnose(ready, found, case, solved)
    headline, verdict = solved.headline, judge(diagnostics, solved.estimates)
    return Evaluation(
        value=number_or_nan(headline.value),
        interval=(number_or_nan(headline.low), number_or_nan(headline.high)),
        level=settings.level,
        method=headline.method,
        gamma=settings.gamma,
        episodes=case.n_episodes,
        steps=len(stream),
        verdict=verdict.word,
        reasons=verdict.reasons,
        warnings=(*found.notes, *verdict.warnings),
        notes=ready.notes,
        estimates=solved.estimates,
        diagnostics=diagnostics,
        theta=ready.weights(solved.theta),
        features=ready.features,
        resampled=solved.resampled,
        pictured=for_pictures(case, solved.theta),
        target=name,
        log=ready.log.name,
    )


def known_method(algorithm: Algorithm | str, hyper: Mapping[str, Any]) -> Algorithm | str:
    """A rule or the name of one or of an estimator; refused where it is neither, or takes no hyper-parameters."""
    if not isinstance(algorithm, str | Algorithm):
        raise InputError(f"algorithm must be a name or an Algorithm, got {type(algorithm).__name__}.")
    method = algorithm
    if isinstance(algorithm, str):
        method = checks.known_name("algorithm", algorithm, [*ALGORITHMS, *COMPUTED])
    name = method if isinstance(method, str) else method.name
    if hyper and name in COMPUTED:
        raise InputError(f"{name} takes no hyper-parameters here, got {', '.join(hyper)}.")
    return method


def _level(level: Any) -> float:
    if not 0 < checks.number("level", level) < 1:
        raise InputError(f"level must lie between 0 and 1, for example 0.95, got {level!r}.")
    return float(level)


def _part(progress: NamedProgress | None, what: str) -> Progress | None:
    return None if progress is None else lambda done, total: progress(what, done, total)
