"""`evaluate` with traces: value, error, refits and checks are those of LSTD(lam), and its page shows lambda."""

import numpy as np
import pytest

from gradtd import Inference, InputError, evaluate, load_evaluation, log_stream
from gradtd.compiled.traces import Tracing
from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.bootstrap import draw_resamples, resampled
from gradtd.evaluation.estimators.lambda_values import LambdaValues
from gradtd.evaluation.estimators.least_squares import least_squares, refit_least_squares, start_features
from gradtd.evaluation.estimators.products import trace_rows
from naive import rules as naive
from naive.evaluation import random_stream, real_walk, walk, walk_truth

HOW = {"gamma": 0.9, "threads": 1, "progress": False}


def loops(stream, lam, trace, pieces=None):
    """The value of LSTD(lam) and every piece's influence; traces run through the stream's own episodes."""
    samples = naive.samples_of(stream, lam, trace)
    labels = stream.steps["episode"] if pieces is None else pieces
    A, b = naive.mean_A(samples), naive.mean_b(samples)
    theta, share = np.linalg.solve(A, -b), len(set(labels)) / len(samples)
    first = {e: samples[int(np.flatnonzero(labels == e)[0])].x for e in sorted(set(labels))}
    mean = np.mean(list(first.values()), axis=0)
    along = np.linalg.solve(A.T, mean)
    pull = {
        e: sum((k.A @ theta + k.b) @ along for k, of in zip(samples, labels, strict=True) if of == e) for e in first
    }
    return mean @ theta, np.array([x @ theta - mean @ theta - share * pull[e] for e, x in first.items()])


def standard_error(psi):
    return np.sqrt((psi**2).sum() / (len(psi) * (len(psi) - 1)))


def in_pieces(stream, size=3):
    """The stream with its episodes cut into pieces, and the episodes they were."""
    episode = np.asarray(stream.steps["episode"])
    since = np.concatenate([np.arange(n) for n in np.bincount(episode)])
    steps = stream.steps.copy()
    steps["episode"] = np.cumsum(since % size == 0) - 1
    return Stream(stream.features, steps, stream.name, stream.target), episode


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("lam", "trace"), [(0.3, "rho"), (0.8, "clipped"), (1.0, "rho")])
def test_the_solution_and_its_error_are_those_of_the_loops(lam, trace, sparse):
    """Pieces of three steps of longer episodes: traces run on across them."""
    whole = random_stream(3, episodes=30, sparse=sparse, longest=8)
    stream, episode = in_pieces(whole)
    begins = stream.begins
    starts = start_features(stream, begins)
    traces = trace_rows(stream, Tracing(lam, trace), episode)
    found = least_squares(stream, starts, begins, traces=traces)
    value, psi = loops(whole, lam, trace, np.asarray(stream.steps["episode"]))
    assert found.value == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(found.psi, psi, atol=1e-9 * np.abs(psi).max())
    assert found.error == pytest.approx(standard_error(psi), rel=1e-9)
    plain = least_squares(stream, starts, begins)
    assert plain.value == pytest.approx(loops(whole, 0.0, trace, np.asarray(stream.steps["episode"]))[0], rel=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
def test_refits_take_a_step_with_its_trace(sparse):
    stream = random_stream(6, episodes=40, sparse=sparse, zeros=False)
    begins, resamples = stream.begins, draw_resamples(40, 5, 1)
    starts, traces = start_features(stream, begins), trace_rows(stream, Tracing(0.7))
    fit = least_squares(stream, starts, begins, traces=traces)
    found = refit_least_squares(stream, starts, begins, resamples, fit, traces=traces)
    for r in range(5):
        again, _ = resampled(stream, begins, resamples.of_episodes(r))
        assert found[r] == pytest.approx(loops(again, 0.7, "rho")[0], rel=1e-8)
        kept = trace_rows(again, Tracing(0.7))
        wanted = np.array([sample.e for sample in naive.samples_of(again, 0.7)])
        np.testing.assert_allclose(kept if isinstance(kept, np.ndarray) else kept.toarray(), wanted, atol=1e-12)


@pytest.mark.parametrize(
    ("made", "features"),
    [(walk(60, 3, cut=6), "one-hot"), (real_walk(60, 3), "polynomial:order=1")],
    ids=["discrete", "real"],
)
@pytest.mark.parametrize("block", [None, 2])
@pytest.mark.parametrize(("lam", "trace"), [(0.3, "rho"), (0.8, "clipped"), (0.8, "tree")])
def test_the_checks_speak_of_that_fit(made, features, block, lam, trace):
    """Every rung and checker is LSTD(lam), and the fit beside it LSTD of another lambda."""
    how = {"features": features, "block": block, "lam": lam, "trace": trace, "algorithm": "lstd", "resamples": 0}
    result = evaluate(made, **HOW | how)
    whole = log_stream(made, gamma=0.9, features=features)
    pieces = whole.steps["episode"] if block is None else in_pieces(whole, block)[0].steps["episode"]
    value, psi = loops(whole, lam, trace, np.asarray(pieces))
    own, other = (
        next(row for row in result.checks if row.kind == kind and row.name == "the features given")
        for kind in ("rung", "memory")
    )
    assert own.value == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(result.influences, psi, atol=1e-4 * np.abs(psi).max())
    assert abs(other.value - value) > 1e-6


def test_the_row_without_traces():
    log = walk(300, 2)
    plain, result = (evaluate(log, algorithm="lstd", inference=Inference(lam=lam), **HOW) for lam in (0.0, 0.8))
    rows = {row.method: row for row in result.estimates}
    assert rows["lstd_without_traces"].value == plain.value != result.value
    assert "lam = 0.8" in rows["lstd"].note
    assert result.verdict == "unchecked"  # LSTD keeps its own interval, and the checked one is wider


@pytest.mark.slow
def test_rows_beside_and_what_is_told():
    log = walk(300, 2)
    plain, result = evaluate(log, **HOW), evaluate(log, inference=Inference(lam=0.8), **HOW)
    rows = {row.method: row for row in result.estimates}
    assert rows["auto"].value == pytest.approx(rows["lstd"].value)
    assert rows["lstd_without_traces"].value == plain.value != result.value
    assert "lam = 0.8" in rows["auto"].note
    assert (result.diagnostics.lam, result.diagnostics.trace) == (0.8, "rho")
    assert "lam" not in plain.numbers
    assert result.verdict == "usable"


@pytest.mark.slow
def test_a_rule_is_compared_with_the_solution_of_its_lambda():
    result = evaluate(walk(300, 2), algorithm="impression_gtd", inference=Inference(lam=0.8, trace="tree"), **HOW)
    assert result.diagnostics.from_lstd < 0.3
    assert result.diagnostics.hyper["lam"] == 0.8
    refitted = evaluate(walk(300, 2), algorithm="impression_gtd", inference=Inference(lam=0.8, resamples=8), **HOW)
    assert 0.3 < refitted.diagnostics.error_ratio < 3  # eight refits: chi with 7 degrees of freedom, far in its tails


@pytest.mark.slow
def test_a_rule_that_keeps_its_own_traces_can_be_named():
    result = evaluate(walk(300, 2), algorithm="true_online_td", alpha=0.01, inference=Inference(lam=0.8), **HOW)
    assert result.diagnostics.hyper["lam"] == 0.8


def test_features_that_cannot_hold_the_value_are_found_at_every_lambda():
    """Two features for five states: with lam = 0.8 the fit without traces is the one that differs."""
    poor = lambda s: np.c_[s < 2, s >= 2].astype(float)  # noqa: E731
    result = evaluate(walk(1000, 2), algorithm="lstd", features=poor, inference=Inference(lam=0.8), **HOW)
    assert result.verdict == "not usable"


@pytest.mark.slow
def test_intervals_hold_the_value():
    """Of 60 intervals at 95 % fewer than 51 hold it with a probability of 2e-4 where the level is right."""
    held = 0
    for seed in range(60):
        low, high = evaluate(walk(200, seed), features="one-hot", inference=Inference(lam=0.6), **HOW).interval
        held += low < walk_truth() < high
    assert held >= 51


def test_the_page_shows_the_value_against_lambda(tmp_path):
    result = evaluate(walk(100, 1), algorithm="lstd", inference=Inference(lam=0.5, resamples=0), **HOW)
    result.page(tmp_path / "it.html")
    assert (
        "A flat line means that the features suffice; a slope is a sign of bias." in (tmp_path / "it.html").read_text()
    )
    result.save(tmp_path / "it.npz")
    found = LambdaValues.from_arrays(load_evaluation(tmp_path / "it.npz").pictured)
    assert found is not None
    assert found.level == 0.95
    assert found.values[0] == pytest.approx(result.estimates[1].value)
    assert len(found.lams) == 7
    assert LambdaValues.from_arrays(evaluate(walk(100, 1), algorithm="wis", **HOW).pictured) is None


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"lam": 1.5}, r"lam must be a number in \[0, 1\]"),
        ({"lam": 0.5, "trace": "retrace"}, "trace must be one of rho, clipped, tree"),
        ({"lam": 0.5, "algorithm": "wis"}, "wis has no traces, got lam=0.5"),
        ({"lam": 0.5, "algorithm": "residual_gradient", "alpha": 0.1}, "residual_gradient takes lam=0 only"),
        ({"lam": 0.5, "trace": "tree", "target": "behaviour"}, "needs the target's probability of every action"),
    ],
)
def test_refused(how, why):
    with pytest.raises(InputError, match=why):
        evaluate(walk(30), **HOW | how)
