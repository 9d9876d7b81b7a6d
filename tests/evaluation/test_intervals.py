"""Intervals, faults and the errors of dependent pieces, from influences that are known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from gradtd.evaluation.fits import Fit
from gradtd.evaluation.intervals import as_dependent, faults, freedom_of, inflation, interval, paired_error
from gradtd.evaluation.limits import DEFAULT


def fit_of(psi, value=1.0, bias=0.0):
    return Fit("it", value, np.asarray(psi, np.float64), bias, 3)


def test_errors_of_dependent_blocks():
    """An autoregression of .8 has 9 times the variance; independent ones 1, within what 4000 of them tell."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=4000)
    slow = np.zeros(4000)
    for t in range(1, 4000):
        slow[t] = 0.8 * slow[t - 1] + noise[t]
    assert inflation(noise) < 1.3
    assert 5 < inflation(slow) < 11
    assert inflation(slow, replace(DEFAULT, most_lags=1)) < 3
    assert as_dependent(fit_of(slow)).error == pytest.approx(fit_of(slow).error * np.sqrt(inflation(slow)))
    assert inflation(np.zeros(50)) == 1.0


def test_correlations_count_with_weights_that_fall_to_half():
    """Newey-West by a loop: up to the first lag that could be chance, lag k of u with 1 - k / (2 u + 2)."""
    psi = np.convolve(np.random.default_rng(4).normal(size=403), np.ones(4), "valid")
    psi -= psi.mean()
    r = [(psi[k:] * psi[:-k]).mean() / (psi**2).mean() for k in range(1, 41)]
    used = next(k for k in range(40) if r[k] <= 2 / np.sqrt(400))
    assert used == 3
    wanted = 1 + 2 * sum(r[k] * (1 - (k + 1) / (2 * used + 2)) for k in range(used))
    assert inflation(psi) == pytest.approx(wanted)


def test_an_interval_of_normal_influences_is_student_s():
    psi = np.random.default_rng(1).normal(size=3000)
    fit = fit_of(psi - psi.mean())
    assert fit.error == pytest.approx(psi.std(ddof=1) / np.sqrt(3000))
    assert fit.effective == pytest.approx(1000, rel=0.1)  # E / kurtosis
    freedom = freedom_of(fit)
    assert freedom == pytest.approx(1000, rel=0.1)  # a third of E, as kurtosis 3 gives 2 E / 2
    low, high = interval(fit, 0.9, replace(DEFAULT, skew_share=0.0))
    assert high - 1.0 == pytest.approx(stats.t.ppf(0.95, freedom) * fit.error)
    assert high - 1.0 == pytest.approx(1.0 - low)


def test_the_side_of_the_skew_is_longer():
    psi = np.random.default_rng(2).exponential(size=200)
    fit = fit_of(psi - psi.mean())
    low, high = interval(fit)
    assert fit.skew == pytest.approx(stats.skew(psi) / np.sqrt(200), rel=1e-6)
    assert (high - 1.0) - (1.0 - low) == pytest.approx(DEFAULT.skew_share * fit.skew * fit.error)


@pytest.mark.parametrize(
    ("fit", "fault"),
    [
        (fit_of(np.r_[-1.0, 1.0, -1.0, 1.0]), ""),
        (fit_of(np.r_[-1.0, 1.0, -1.0, 1.0], value=np.nan), "no number"),
        (fit_of([np.inf, 0.0, 1.0]), "no number"),
        (fit_of(np.zeros(9)), "no width"),
        (fit_of(np.r_[9.0, np.full(90, -0.1)]), "depends on 1.0 pieces"),
        (fit_of(np.r_[-1.0, 1.0, -1.0, 1.0], bias=1.0), "refits are biased by"),
    ],
)
def test_faults(fit, fault):
    with np.errstate(invalid="ignore"):
        made = faults(fit)
    assert len(made) == bool(fault)
    assert fault in "".join(made)


def test_the_error_of_a_difference():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 400))
    both = fit_of(a - a.mean()), fit_of(a + 0.1 * b - (a + 0.1 * b).mean())
    assert paired_error(*both) == pytest.approx((0.1 * b).std(ddof=1) / 20)
    assert paired_error(both[0], both[0]) == 0.0
    fewer = replace(both[1], psi=both[1].psi[:100])  # a fit of the first pieces alone
    assert paired_error(both[0], fewer) == pytest.approx(np.hypot(both[0].error, fewer.error))
