"""Eligibility traces: every rule with lam equals its naive twin, and traces are what their definition says."""

import functools
import importlib.util
import itertools
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse

import gradtd
from algorithms.test_algorithms import (
    CASES,
    COMPILED,
    THETA0,
    TWO_SIZES,
    D,
    T,
    assert_same,
    learn,
    random_stream,
    step_size_of,
    twin_of,
)
from gradtd import ALGORITHMS
from gradtd.compiled import engine
from gradtd.compiled.traces import DROPPED, KINDS, Tracing, traces_of
from gradtd.core.stream import Stream
from gradtd.estimates import add_trace, td_error
from gradtd.running.settings import set_up
from naive import rules as naive
from naive import traces as naive_traces
from naive.true_online import online_lambda_return

LAMBDAS = (0.3, 0.8, 1.0)


def with_soft_ends(sparse=False):
    """The stream of the other tests with some discounts of 0 within episodes, and the target's probabilities."""
    stream = random_stream(sparse)
    rng = np.random.default_rng(17)
    steps = stream.steps.copy()
    steps["discount"][rng.random(T) < 0.06] = 0.0
    return Stream(stream.features, steps, "soft ends", rng.random(T))


STREAM, SPARSE = with_soft_ends(), with_soft_ends(sparse=True)
TRACED = {case: of for case, of in CASES.items() if ALGORITHMS[of[0]].traces is True and "kernel" not in case}
WITH_CHOICE = [case for case in COMPILED if case in TRACED and "trace" not in ALGORITHMS[TRACED[case][0]].parameters]
WITH_SPARSE = ["impression_gtd", "impression_gtd auto", "r1_gtd", "tdc", "saga_gtd", "direct_gtd", "krylov_gtd"]
WITH_DENSE = ["td", "etd", "htd", "tdrc", "gtd2_mp", "svrg_gtd", "expected_gtd", *WITH_SPARSE[:2]]
"""What is compiled with traces, by how features are stored: enough for every function that reads traces."""
LONG_TO_COMPILE = {
    *(("impression_gtd auto", True), ("impression_gtd auto", False), ("saga_gtd", True), ("svrg_gtd", False)),
    ("krylov_gtd", True),
}


@functools.cache
def expected(case, lam, trace):
    name, settings = TRACED[case]
    return twin_of(name, settings, stream=STREAM, lam=lam, trace=trace)


@functools.cache
def found(case, lam, trace="rho", sparse=False, compile=False):
    name, settings = TRACED[case]
    chosen = {} if name == "vtrace" else {"trace": trace}
    return learn(SPARSE if sparse else STREAM, name, compile=compile, lam=lam, **chosen, **settings)


def bound_of(case):
    """1e-12, but for Krylov GTD: its conjugate directions amplify rounding, here up to 1.5e-11 (lam = 0: 9e-12)."""
    return 1e-10 if TRACED[case][0] == "krylov_gtd" else 1e-12


def kind_of(case):
    return "clipped" if TRACED[case][0] == "vtrace" else "rho"


@pytest.mark.parametrize("lam", [0.8, pytest.param(1.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", TRACED)
def test_rule_with_traces_equals_its_naive_twin_after_every_step(case, lam):
    twin = expected(case, lam, kind_of(case))
    assert np.abs(np.diff(twin[-50:], axis=0)).max() > 1e-6, "the twin does not learn"
    assert_same(found(case, lam, kind_of(case)), twin, bound_of(case))


@pytest.mark.parametrize(("case", "trace"), list(zip(WITH_CHOICE, itertools.cycle(["clipped", "tree"]))))
def test_the_ratio_in_the_trace_is_the_one_that_was_named(case, trace):
    """Rules read a table that is tested below, so each has one kind, and every other rule the same."""
    twin = expected(case, 0.8, trace)
    assert np.abs(twin - expected(case, 0.8, "rho")).max() > 1e-6
    assert_same(found(case, 0.8, trace), twin, bound_of(case))


@pytest.mark.parametrize(
    ("case", "sparse"),
    [
        pytest.param(*given, marks=[pytest.mark.slow] * (given in LONG_TO_COMPILE))
        for given in [*((case, False) for case in WITH_DENSE), *((case, True) for case in WITH_SPARSE)]
    ],
)
def test_compiled_rules_with_traces_equal_interpreted_ones(case, sparse):
    kind = kind_of(case)
    assert_same(found(case, 0.8, kind, sparse, compile=True), found(case, 0.8, kind), bound_of(case))


def functions_of(case, **more):
    """All functions that a rule calls, itself included."""
    name, settings = TRACED[case]
    rule = set_up(ALGORITHMS[name], step_size_of(name) | settings | more, n_steps=T).algorithm
    return set(engine._reachable([part for part in (rule.update, rule.observe) if part]))


def functions_on_traces(cases):
    """The functions of these rules in which traces are named, or which are called where there are traces only."""
    found = set()
    for case in cases:
        traced, plain = functions_of(case, lam=0.8), functions_of(case)
        found |= {function for function in traced if "traces" in function.__code__.co_names} | (traced - plain)
    return {(function.__module__, function.__qualname__) for function in found}


def test_compiled_rules_use_every_function_on_traces():
    """What else a rule calls has the same types without traces, and is compiled in `test_algorithms`."""
    everything = functions_on_traces(TRACED)
    assert functions_on_traces(WITH_DENSE + WITH_SPARSE) == everything
    shared = {(module, name) for module, name in everything if module == "gradtd.estimates"}
    assert len(shared) > 8
    assert shared <= functions_on_traces(WITH_DENSE)


@pytest.mark.parametrize("case", TRACED)
def test_sparse_traces_give_the_weights_of_dense_ones(case):
    assert_same(found(case, 0.8, kind_of(case), sparse=True), found(case, 0.8, kind_of(case)), bound_of(case))


@pytest.mark.parametrize("name", [name for name, rule in ALGORITHMS.items() if rule.traces is True])
def test_lam_0_is_the_rule_without_traces_to_the_last_bit(name):
    small = {"batch_size": 4} if "batch" in ALGORITHMS[name].draws else {}
    plain = learn(STREAM, name, compile=False, **small)
    assert learn(STREAM, name, compile=False, lam=0.0, **small).tobytes() == plain.tobytes()


@pytest.mark.parametrize("name", [name for name, rule in ALGORITHMS.items() if "lam" not in rule.parameters])
def test_a_rule_takes_lam_or_says_why_not(name):
    small = {"batch_size": 4} if "batch" in ALGORITHMS[name].draws else {}
    settings = {"compile": False} | step_size_of(name) | small
    if ALGORITHMS[name].traces is True:
        with pytest.raises(gradtd.InputError, match="lam must be a number in"):
            gradtd.learn(STREAM, name, lam=1.2, **settings)
        return
    gradtd.learn(STREAM, name, lam=0, **settings)
    with pytest.raises(gradtd.InputError, match=f"{name} takes lam=0 only, got 0.5: "):
        gradtd.learn(STREAM, name, lam=0.5, **settings)


def test_what_is_not_offered_is_refused():
    with pytest.raises(gradtd.InputError, match="kernel as similarity"):
        gradtd.learn(STREAM, "impression_gtd", alpha=0.1, lam=0.5, similarity=lambda x, y: x @ y)
    with pytest.raises(gradtd.InputError, match="trace='tree' needs the target's probability"):
        gradtd.learn(random_stream(), "td", alpha=0.1, lam=0.5, trace="tree")
    for name, other, why in (("vtrace", "rho", "clips both ratios"), ("etd", "clipped", "with the full ratio")):
        with pytest.raises(gradtd.InputError, match=f"trace must be .* here, got {other!r}: .*{why}"):
            gradtd.learn(STREAM, name, alpha=0.1, lam=0.5, trace=other)


def test_a_rule_without_the_option_takes_the_kind_that_it_has():
    """Other words are refused with a sentence on traces, and never taken for a misspelt parameter."""
    settings = {"alpha": 0.03, "lam": 0.5, "compile": False, "snapshots": [T]}
    plain = gradtd.learn(STREAM, "true_online_td", **settings)
    assert gradtd.learn(STREAM, "true_online_td", trace="rho", **settings).theta.tobytes() == plain.theta.tobytes()
    with pytest.raises(
        gradtd.InputError, match="true_online_td takes trace='rho' only, got 'tree': it computes its traces"
    ):
        gradtd.learn(STREAM, "true_online_td", trace="tree", **settings)
    for name in ("true_online_td", "residual_gradient"):
        with pytest.raises(gradtd.InputError, match="trace must be one of rho, clipped, tree; got 'retrace'"):
            gradtd.learn(STREAM, name, trace="retrace", **settings | {"lam": 0})


def _own_rule(state, stream, now, hyper):
    delta = td_error(stream, now.t, state.theta)
    add_trace(stream, now.t, now.alpha * stream.steps[now.t].rho * delta, state.theta)


def test_a_rule_of_ones_own_reads_traces_when_it_says_so():
    rule = gradtd.Algorithm("own", _own_rule, traces=True)
    settings = {"alpha": 0.03, "lam": 0.8, "theta0": THETA0, "snapshots": 1, "compile": False}
    assert_same(gradtd.learn(STREAM, rule, **settings).thetas, found("td", 0.8))
    with pytest.raises(gradtd.InputError, match=r"own takes lam=0 only, got 0\.8: it does not read traces"):
        gradtd.learn(STREAM, gradtd.Algorithm("own", _own_rule), **settings)


# The table of traces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_traces_are_their_definition(kind, compile):
    for lam in (*LAMBDAS, 1.0):
        wanted = np.array(naive_traces.summed(naive.samples_of(STREAM), lam, kind))
        stream = with_soft_ends()
        np.testing.assert_allclose(traces_of(stream, Tracing(lam, kind), compile), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("compile", [True, False])
def test_emphatic_traces_are_their_definition(compile):
    samples = naive.samples_of(STREAM, lam=0.7)
    wanted = np.array(naive_traces.emphatic(samples))
    made = traces_of(with_soft_ends(), Tracing(0.7, "rho", True), compile)
    np.testing.assert_allclose(STREAM.steps["rho"][:, None] * made, wanted, rtol=1e-12, atol=1e-12)


def as_dense(rows, d):
    return scipy.sparse.csr_array((rows.data, rows.indices, rows.begin), shape=(len(rows.begin) - 1, d)).toarray()


@pytest.mark.parametrize("compile", [True, False])
def test_sparse_traces_drop_what_has_decayed_and_stay_within_their_bound(compile):
    """One long episode, each step with features of its own, which decay until they are below the bound."""
    n = 150
    rng = np.random.default_rng(2)
    table = scipy.sparse.csr_array(scipy.sparse.eye(n + 1) * 3.0)
    stream = Stream.from_arrays(
        features=table, row=np.arange(n), next_row=np.arange(1, n + 1), reward=0.0, discount=0.9,
        rho=rng.uniform(0.2, 1.4, n), episode=np.zeros(n, int),
    )  # fmt: skip
    made = traces_of(stream, Tracing(0.7), compile)
    dense = Stream(table.toarray(), stream.steps)
    wanted = traces_of(dense, Tracing(0.7), compile)
    constant = traces_of(Stream(np.ones((n + 1, 1)), stream.steps), Tracing(0.7), compile)
    error = np.abs(as_dense(made, n + 1) - wanted)
    assert DROPPED == 1e-16, "as docs/traces.md says"
    assert (error <= DROPPED * 3.0 * constant).all()
    assert error.max() > 0
    entries = np.diff(made.begin)
    assert entries.max() < 130, "nothing was dropped"
    for a, b in zip(made.begin, made.begin[1:], strict=False):
        assert (np.diff(made.indices[a:b].astype(int)) > 0).all()


def test_a_trace_that_has_overflown_ends_with_its_episode():
    n = 2000
    stream = Stream.from_arrays(
        features=np.ones((1, 1)), row=np.zeros(n, int), next_row=np.zeros(n, int), reward=0.0, discount=1.0, rho=2.0,
        episode=(np.arange(n) >= n - 2).astype(int),
    )  # fmt: skip
    for compile in (True, False):
        made = traces_of(Stream(stream.features, stream.steps), Tracing(1.0), compile)
        assert np.isinf(made[-3, 0])
        np.testing.assert_array_equal(made[-2:, 0], [1.0, 3.0])


@pytest.mark.parametrize("name", ["true_online_td", "true_online_gtd", "htd", "td"])
def test_a_wild_episode_leaves_the_sparse_traces_of_others_alone(name):
    """Ratios of 30 let the traces of the first episode grow to 1e22, while nothing is learned from it."""
    rng = np.random.default_rng(0)
    n, d = 60, 12
    table = np.zeros((n + 1, d))
    table[np.arange(n + 1), rng.integers(0, d, n + 1)] = rng.normal(size=n + 1)
    rho, reward = rng.uniform(0.2, 1.5, n), rng.normal(size=n)
    rho[1:18], reward[:20] = 30.0, 0.0
    dense = Stream.from_arrays(
        features=table, row=np.arange(n), next_row=np.arange(1, n + 1), reward=reward, discount=0.9, rho=rho,
        episode=np.arange(n) // 20,
    )  # fmt: skip
    sparse = Stream(scipy.sparse.csr_array(table), dense.steps)
    found, wanted = (gradtd.learn(stream, name, alpha=0.03, lam=0.9, compile=False).theta for stream in (sparse, dense))
    assert np.abs(wanted).max() > 1e-2
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14)


def test_what_is_not_a_number_is_kept_in_a_sparse_trace():
    """The emphasis overflows, and a feature of the other sign meets what is left of the one before."""
    n = 6
    rows, steps = np.arange(n), np.ones((n + 1, 1))
    steps[1::2] = -1.0
    stream = Stream.from_arrays(
        features=steps, row=rows, next_row=rows + 1, reward=0.0, discount=1.0, rho=1e120, episode=np.zeros(n, int)
    )
    with np.errstate(all="ignore"):
        dense = traces_of(stream, Tracing(0.5, "rho", True), False)
        sparse = traces_of(Stream(scipy.sparse.csr_array(steps), stream.steps), Tracing(0.5, "rho", True), False)
    assert np.isnan(dense).any()
    np.testing.assert_array_equal(as_dense(sparse, 1), dense)


def test_traces_run_on_from_block_to_block():
    """One long episode in blocks of 9 steps; were a block an episode, its first steps would have other traces."""
    steps = STREAM.steps.copy()
    steps["episode"] = 0
    long = Stream(STREAM.features, steps)
    steps["episode"] = np.arange(T) // 9
    cut = Stream(STREAM.features, steps)
    settings = TWO_SIZES | {"block": 9}
    twin, other = (twin_of("impression_gtd", settings, stream=one, lam=0.8, trace="rho") for one in (long, cut))
    assert np.abs(twin - other).max() > 1e-3
    assert_same(learn(long, "impression_gtd", compile=False, lam=0.8, **settings), twin)


def test_traces_take_one_more_row_of_floats_per_step():
    """Also while those of another lam are made, and while a rule learns from them: there is one table at a time."""
    n, d = 20_000, 64
    stream = gradtd.sample("random_walk_tabular", n, seed=1)
    wide = Stream(np.tile(stream.features, (1, 13))[:, :d], stream.steps)
    for lam in (0.0, 0.5):  # compiled before anything is counted
        gradtd.learn(wide, "td", alpha=0.01, lam=lam, snapshots=[n])
    wide = Stream(wide.features, wide.steps)
    tracemalloc.start()
    peaks = []
    for lam in (0.0, 0.5, 0.9):
        tracemalloc.reset_peak()
        gradtd.learn(wide, "td", alpha=0.01, lam=lam, snapshots=[n])
        peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    row = 8 * n * d
    assert row <= peaks[1] - peaks[0] < 1.2 * row  # for a moment numbers per step, too: what is taken over, and weights
    assert row <= peaks[2] - peaks[0] < 1.2 * row


# True online -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.0, *LAMBDAS])
@pytest.mark.parametrize("name", ["true_online_td", "true_online_gtd"])
def test_true_online_rules_equal_their_twins(name, lam):
    settings = {"lam": lam} | ({"eta": 2.5} if name == "true_online_gtd" else {})
    assert_same(learn(STREAM, name, compile=False, **settings), twin_of(name, settings, stream=STREAM))


@pytest.mark.parametrize("lam", [0.0, *LAMBDAS])
def test_true_online_td_is_the_online_lambda_return_algorithm_on_policy(lam):
    steps = STREAM.steps.copy()
    steps["rho"] = 1.0
    stream = Stream(STREAM.features, steps)
    forward = np.array(list(online_lambda_return(naive.samples_of(stream), THETA0, 0.03, lam)))
    assert_same(learn(stream, "true_online_td", compile=False, lam=lam), forward)
    if lam > 0:
        assert np.abs(learn(stream, "td", compile=False, lam=lam) - forward).max() > 1e-4


def test_true_online_rules_without_traces_are_td_and_tdc():
    assert_same(learn(STREAM, "true_online_td", compile=False), learn(STREAM, "td", compile=False))
    tdc = learn(STREAM, "tdc", compile=False, eta=2.0)
    assert_same(learn(STREAM, "true_online_gtd", compile=False, eta=2.0), tdc)


def test_the_stream_has_what_a_wrong_end_would_show_on():
    steps = STREAM.steps
    last = np.append(np.diff(steps["episode"]) > 0, True)
    assert (steps["discount"][~last] == 0).sum() > 5
    assert (steps["discount"][last] > 0).any()
    assert (steps["discount"][last] == 0).any()
    assert STREAM.n_features == D


def test_the_benchmark_tells_medians_beside_means():
    """One run far away moves the mean alone; the best constant is that of the least mean at every step."""
    spec = importlib.util.spec_from_file_location("traces", Path(__file__).parents[2] / "benchmarks" / "traces.py")
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    exact = gradtd.exact("random_walk_tabular")
    thetas = exact.theta_star + np.array([1.0, 1.0, 10.0])[:, None, None] * np.array([1.0, 2.0])[:, None]
    result = SimpleNamespace(thetas=np.broadcast_to(thetas, (3, 2, 5)), diverged=0, given={"alpha": 1}, steps=[1, 2])
    np.testing.assert_allclose(benchmark._errors(exact, result), [[4, 8], [1, 2]])
    result.diverged = 1
    assert np.isinf(benchmark._errors(exact, result)).all()
    constants = np.array([[[3.0, 1.0], [1.0, 9.0]], [[2.0, 5.0], [7.0, 4.0]]])  # constant, mean or median, step
    np.testing.assert_array_equal(benchmark._taken(constants, constants[:, 0].argmin(axis=0)), [[2, 1], [7, 9]])
