"""Fitting a rule to a whole log, and refitting it on resamples."""

import numpy as np
import pytest

from gradtd import InputError
from gradtd.core.algorithm import Algorithm
from gradtd.evaluation.estimators import rule_fits
from gradtd.evaluation.estimators.bootstrap import Resamples, draw_resamples
from gradtd.evaluation.estimators.rule_fits import LARGEST, SMALLEST, first_count, fit_rule, refit_rule, suited
from gradtd.running.session import Session
from naive.evaluation import altered, episodes_of, join, lstd_value, random_stream, solved


def good_stream(episodes=60, seed=4):
    return random_stream(seed, episodes=episodes, n_features=2, zeros=False)


def fitted(stream, rule="impression_gtd", hyper=None, updates=None, **change):
    found = solved(stream)
    start = stream.features[stream.steps["row"][stream.begins[:-1]]].mean(axis=0)
    how = {"start": start, "near": found.value, "error": found.error, "seed": 0} | change
    return fit_rule(stream, rule, suited(rule, hyper or {}, found.sums), updates=updates, **how), found, start


def test_a_fit_arrives_at_the_least_squares_solution():
    stream = good_stream()
    made, found, start = fitted(stream)
    assert abs(start @ made.theta - found.value) <= rule_fits.NEAR * found.error
    assert made.moved <= rule_fits.STILL * found.error
    assert (made.diverged, made.fixed) == (False, False)


def test_a_fit_that_stands_still_elsewhere_goes_on():
    """Against a wrong value to arrive at, it takes all the updates it may; with updates given, just those."""
    stream = good_stream()
    first = first_count(stream, Session("td", {"alpha": 0.05}, n_steps=len(stream)).setup)
    made, _, _ = fitted(stream, "td", {"alpha": 0.05}, near=1e9)
    assert made.updates == rule_fits.MOST * first
    short, _, _ = fitted(stream, "td", {"alpha": 0.05}, updates=7, near=1e9)
    assert (short.updates, short.fixed) == (7, True)


def test_how_many_updates_a_first_fit_makes():
    stream = good_stream()
    n = len(stream)
    passes = -(-rule_fits.UPDATES // n)
    assert first_count(stream, Session("td", {"alpha": 0.1}, n_steps=n).setup) == n * passes
    assert first_count(stream, Session("krylov_gtd", {}, n_steps=n).setup) == n
    assert first_count(stream, Session("impression_gtd", {"batch_size": 8}, n_steps=n).setup) == rule_fits.UPDATES
    many = random_stream(0, episodes=4000)
    wanted = int(len(many) / (2 * 1 * rule_fits.NOISE))  # so many batches add 1/32 of the variance of n steps
    assert (
        first_count(many, Session("impression_gtd", {"m1": 1, "m2": 8}, n_steps=len(many)).setup)
        == wanted
        > rule_fits.UPDATES
    )


def test_batches_suit_the_log():
    found = solved(good_stream()).sums
    chosen = suited("impression_gtd", {}, found)
    size = 4 * found.square / (found.A**2).sum()
    assert chosen["split"] == "none"
    assert chosen["batch_size"] == np.clip(2.0 ** round(np.log2(size)), SMALLEST, LARGEST)
    assert suited("impression_gtd", {"split": "coin", "batch_size": 5}, found) == {"split": "coin", "batch_size": 5}
    assert suited("td", {"alpha": 1}, found) == {"alpha": 1}


@pytest.mark.parametrize(
    ("rule", "hyper"),
    [("impression_gtd", {}), pytest.param("tdrc", {"alpha": 0.05, "average": "tail"}, marks=pytest.mark.slow)],
)
def test_refits_follow_their_resamples(rule, hyper):
    """Each within 1 standard error of the solution of its own resampled log, and half as far from it as the fit."""
    stream = good_stream()
    begins, episodes = stream.begins, episodes_of(stream)
    made, found, start = fitted(stream, rule, hyper)
    resamples = draw_resamples(len(episodes), 8, 2)
    values = refit_rule(stream, begins, resamples, made, error=found.error, seed=0, threads=1)
    wanted = []
    for r in range(8):
        taken = [episodes[e] for e, count in enumerate(resamples.counts[r]) for _ in range(count)]
        wanted.append(lstd_value(join(stream, taken)))
    away = np.abs(values - wanted)
    assert away.max() < found.error
    assert away.mean() < 0.5 * np.abs(start @ made.theta - np.array(wanted)).mean()
    again = refit_rule(stream, begins, resamples, made, error=found.error, seed=0, threads=2)
    assert again.tobytes() == values.tobytes()


def test_refits_keep_copies_of_an_episode_together(monkeypatch):
    """What the buffers are dealt by are the numbers of the original episodes."""
    monkeypatch.setenv("GRADTD_INTERPRET", "1")  # few updates: compiling takes longer
    stream = good_stream(12)
    seen = []
    inner = Session.over
    monkeypatch.setattr(Session, "over", lambda *a, **k: seen.append((a[1], k["unit"])) or inner(*a, **k))
    made, found, _ = fitted(stream, hyper={"split": "odd-even", "batch_size": 4, "alpha": 0.1}, updates=200)
    counts = np.array([[2, 0, 3, 1, 0, 1, 1, 0, 2, 0, 1, 1]], np.int32)
    drawn = Resamples(counts, np.arange(13))
    refit_rule(stream, stream.begins, drawn, made, error=found.error, seed=0, threads=1)
    (whole, unit), (again, units) = seen
    assert whole is stream
    assert unit is None
    lengths = [len(episode) for episode in episodes_of(stream)]
    assert units.tolist() == [e for e in range(12) for _ in range(counts[0, e]) for _ in range(lengths[e])]
    assert len(again) == len(units)


@pytest.mark.parametrize("episodes", [2, 3, 5])
def test_a_very_short_log_can_be_fitted(episodes):
    """The batch of the default settings fits into the log, also where A is all noise."""
    stream = random_stream(1, episodes=episodes, n_features=1, zeros=False)
    made, found, _ = fitted(stream)
    assert suited("impression_gtd", {}, found.sums)["batch_size"] == max(1, len(stream) // 2) < SMALLEST
    assert np.isfinite(made.theta).all()
    made, _, _ = fitted(altered(stream, rho=0.0), error=1.0)
    assert made.theta.tolist() == [0.0]


def test_refits_that_fail_are_lost_and_counted():
    """A resample that is all one episode cannot fill two buffers, and a rule that diverges leaves no value."""
    stream = good_stream(12)
    begins = stream.begins
    counts = np.array([np.eye(12, dtype=np.int32)[1] * 12, np.ones(12, np.int32)], np.int32)
    made, found, _ = fitted(stream, hyper={"split": "coin", "batch_size": 2, "alpha": 0.01}, updates=50)
    drawn = Resamples(counts, np.arange(13))
    values = refit_rule(stream, begins, drawn, made, error=found.error, seed=0, threads=1)
    assert np.isnan(values).tolist() == [True, False]
    wild, _, _ = fitted(stream, "td", {"alpha": 1e6}, updates=500)
    assert wild.diverged
    values = refit_rule(stream, begins, drawn, wild, error=found.error, seed=0, threads=1)
    assert np.isnan(values).all()


@pytest.mark.parametrize("rule", ["krylov_gtd", "saga_gtd", "svrg_gtd", "direct_gtd"])
@pytest.mark.parametrize("updates", [3, 10_000])
def test_rules_that_read_stored_steps_take_one_pass(rule, updates):
    hyper = {} if rule == "krylov_gtd" else {"alpha": 0.01}
    with pytest.raises(InputError, match=f"{rule} takes one pass over a log, got n_updates={updates}: leave it out."):
        fitted(good_stream(), rule, hyper, updates=updates)


def test_a_bounded_buffer_is_refused():
    with pytest.raises(InputError, match="capacity=64 would leave only the last steps"):
        fitted(good_stream(), hyper={"capacity": 64})


def test_a_rule_of_the_user_is_fitted_too(monkeypatch):
    monkeypatch.setenv("GRADTD_INTERPRET", "1")

    def halfway(state, stream, now, hyper):
        """theta <- (theta + 1) / 2."""
        for k in range(state.theta.shape[0]):
            state.theta[k] = 0.5 * (state.theta[k] + 1.0)

    made, _, _ = fitted(good_stream(), Algorithm("halfway", halfway, step_size=False), updates=60)
    assert made.theta == pytest.approx([1, 1])


def test_sparse_features_are_refused_where_a_rule_needs_dense_ones():
    stream = random_stream(4, episodes=40, sparse=True)
    hyper = {"alpha": 0.1, "batch_size": 4, "similarity": lambda x, z: 1.0}
    with pytest.raises(InputError, match="needs dense features, but those of stream are sparse"):
        fit_rule(stream, "impression_gtd", hyper, start=np.zeros(3), near=0.0, error=1.0, seed=0, updates=10)
