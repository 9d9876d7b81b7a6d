"""Criteria of claims, on curves made so that the answer is known."""

import numpy as np
import pytest

from gradtd.paper import criteria
from gradtd.paper.claims import CLAIMS
from gradtd.paper.criteria import Claim
from gradtd.paper.explanations import floors_ordered, widths_of_its_own_best, widths_of_the_common_best
from gradtd.paper.figures import BESIDE, EXTRA, FIGURES
from gradtd.paper.judge_claims import CHANGES, verdict

STEPS = np.arange(0, 10_001, 25)


def curves(spread=0.01, runs=40, diverged=None, **means):
    """Curves around given means; what varies from run to run is shared by all lines, as in a paired experiment."""
    rng = np.random.default_rng(1)
    shared = 1 + 0.3 * rng.standard_normal((runs, 1))
    values = {
        label: (mean * np.ones(len(STEPS)))
        * np.maximum(shared + spread * rng.standard_normal((runs, len(STEPS))), 0.01)
        for label, mean in means.items()
    }
    return criteria.Curves(STEPS, values, dict.fromkeys(means, 0) | (diverged or {}))


FALLING = np.exp(-STEPS / 1000)


@pytest.mark.parametrize(
    ("criterion", "holds", "fails"),
    [
        (criteria.lower("a", "b"), {"a": 1.0, "b": 1.1}, {"a": 1.1, "b": 1.0}),
        (criteria.lower("a", "b", factor=0.8), {"a": 0.7, "b": 1.0}, {"a": 0.9, "b": 1.0}),
        (criteria.lower("a", "b", "c"), {"a": 1.0, "b": 1.1, "c": 2.0}, {"a": 1.0, "b": 1.1, "c": 0.9}),
        (criteria.close("a", "b", within=0.1), {"a": 1.05, "b": 1.0}, {"a": 1.2, "b": 1.0}),
        (criteria.top(["a", "b"], ["c"], after=0), {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 4, "c": 3}),
        (criteria.ordered(["a", "b", "c"], after=0), {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 3, "c": 2}),
        (
            criteria.overtaken("a", "b", about=7000),
            {"a": np.maximum(1 - STEPS / 10_000, 0.4), "b": 1.15 - 0.9 * STEPS / 8400},
            {"a": 1 - 0.5 * STEPS / 10_000, "b": 2 - STEPS / 10_000},
        ),
        (criteria.falls_to("a", 0.01), {"a": FALLING}, {"a": 1 - 0.5 * STEPS / 10_000}),
        (criteria.dips("a", 0.05), {"a": 1 + 0.5 * np.cos(STEPS / 2500)}, {"a": FALLING + 0.1}),
        (
            criteria.deeper(["a", "b"]),
            {"a": FALLING + 0.2, "b": FALLING + 0.1},
            {"a": FALLING + 0.1, "b": FALLING + 0.2},
        ),
        (
            criteria.steeper(["a"], ["b"]),
            {"a": np.exp(-STEPS / 100), "b": np.exp(-STEPS / 500)},
            {"a": np.exp(-STEPS / 500), "b": np.exp(-STEPS / 100)},
        ),
        (criteria.shrinking_gain(["a", "b", "c"], 0), {"a": 4, "b": 2, "c": 1.5}, {"a": 4, "b": 3.5, "c": 1}),
        (criteria.linear_rate("a", after=0, share=0.01), {"a": FALLING}, {"a": 1 / (1 + STEPS)}),
        (criteria.straight_after_bias("a"), {"a": np.exp(-STEPS / 2000)}, {"a": 0.5 + 5 / (1 + STEPS / 100)}),
        (criteria.not_straight_after_bias("a"), {"a": 0.5 + 5 / (1 + STEPS / 100)}, {"a": np.exp(-STEPS / 2000)}),
        (criteria.stays_near("a", 0.2, 1.5, 2000), {"a": 1.0 + 0 * STEPS}, {"a": 5.0 + 0 * STEPS}),
        (criteria.like("a", "b", 1.5, 2000), {"a": 1.0, "b": 1.2}, {"a": 1.0, "b": 3.0}),
    ],
)
def test_a_criterion_holds_and_fails_where_it_should(criterion, holds, fails):
    assert criterion(curves(spread=0.001, **holds)).holds is True
    found = criterion(curves(spread=0.001, **fails))
    assert found.holds is False
    assert found.measured


def test_what_the_interval_leaves_open_is_undecided():
    rng = np.random.default_rng(2)
    values = {label: 1 + 0.3 * rng.standard_normal((20, 1)) + np.zeros((20, len(STEPS))) for label in "ab"}
    found = criteria.lower("a", "b")(criteria.Curves(STEPS, values, {"a": 0, "b": 0}))
    assert found.holds is None


def test_pairing_by_run_decides_what_unpaired_runs_would_not():
    """A difference of 2 % under a spread of 30 % between runs that both lines share."""
    assert criteria.lower("a", "b")(curves(a=1.0, b=1.02)).holds is True


@pytest.mark.slow
def test_intervals_of_the_bootstrap_cover_a_known_mean():
    """95 % intervals for the mean of 40 normal numbers, 400 times; fewer than 90 % covering has probability < 1e-5."""
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(400):
        values = 1 + 0.1 * rng.standard_normal((40, 1)) * np.ones((40, len(STEPS)))
        _, many = criteria.Curves(STEPS, {"a": values}, {"a": 0}).over("a", 0, np.inf)
        low, high = criteria.interval(many)
        covered += low <= 1 <= high
    assert covered / 400 > 0.9


def test_a_diverged_line_is_unsteady():
    steady = curves(a=1.0, b=1.0)
    assert criteria.unsteady("a", "b", 2.0)(steady).holds is False
    assert criteria.unsteady("a", "b", 2.0)(curves(a=1.0, b=1.0, diverged={"a": 3})).holds is True
    assert criteria.unsteady("a", "b", 2.0)(curves(a=9.0, b=1.0)).holds is True


def test_crossing_steps_come_with_an_interval():
    found = criteria.overtaken("a", "b", about=5000)(curves(spread=0.02, a=0.5, b=1 - STEPS / 10_000))
    assert found.holds is True
    assert "at step" in found.measured
    assert "[" in found.measured


def test_what_is_shown_beside_decides_nothing():
    main, other = criteria.lower("a", "b"), criteria.lower("b", "a")
    found = criteria.beside(main, ("the other way", other))(curves(spread=0.001, a=1.0, b=1.1))
    assert found.holds is True
    assert "(the other way: b / a = 1.1" in found.measured


def test_since_when_a_line_leads():
    line = criteria.leads_since("a", "b")
    assert "from step 50" in line(curves(spread=0.0, a=1 - STEPS / 10_000, b=0.5)).measured
    assert "throughout" in line(curves(spread=0.0, a=0.1, b=0.5)).measured
    assert "not ahead" in line(curves(spread=0.0, a=0.6, b=0.5)).measured
    assert line(curves(a=0.1, b=0.5)).holds is None


def test_floors_are_those_of_theory():
    """The independent look had .003, .030, .157 and .327 for the squared distance; these are RMSVE."""
    found = floors_ordered("boyan_chain", 16, (0.1, 1, 5, 10))(curves(a=1.0))
    assert found.holds is True
    assert "0.0225 (alpha 0.1), 0.0713 (alpha 1), 0.162 (alpha 5), 0.234 (alpha 10)" in found.measured
    assert floors_ordered("boyan_chain", 16, (1, 0.1))(curves(a=1.0)).holds is False


def test_a_range_of_step_sizes_counts_where_the_error_is_small():
    """One that never learns has the widest range about its own best, and none about the common best."""

    def swept(error):
        return {"error": np.array(error), "diverged": np.zeros(len(error), int)}

    good, stuck = swept([0.5, 0.1, 0.1, 0.1, 0.5]), swept([0.5] * 5)
    sweeps = {"problem": {"impression_gtd": good} | dict.fromkeys(("gtd", "gtd2", "tdc", "tdrc", "htd"), stuck)}
    assert widths_of_its_own_best(sweeps).holds is False
    found = widths_of_the_common_best(sweeps)
    assert found.holds is True
    assert "impression_gtd 3.0, gtd 0.0" in found.measured
    assert "of its own best" in found.measured


def test_changed_claims_keep_their_old_criterion_and_a_reason():
    """Every change leads to claims that are there, each old claim stands once, and halves come from one sentence."""
    ids = [claim.id for claim in CLAIMS]
    assert len(ids) == len(set(ids)) == 60
    became = [name for change in CHANGES for name in change.now]
    assert set(became) <= set(ids)
    assert len(became) == len(set(became))
    old = [change.before.id for change in CHANGES]
    assert len({*old, *(set(ids) - set(became))}) == 50
    for change in CHANGES:
        assert change.why.endswith(".")
        assert all(name.startswith(change.before.id.rstrip("abcde")) for name in change.now)


def test_a_changed_claim_keeps_its_old_verdict_beside_the_new_one():
    """alpha 2 leads at first and ends above alpha 1; alpha .25 never arrives."""
    means = {"2": np.exp(-STEPS / 500) + 0.3, "1": np.exp(-STEPS / 2000) + 0.1, "0.5": 1.5, "0.25": 2 - STEPS / 10_000}
    drawn = curves(spread=0.001, **{f"Impression GTD alpha={alpha}": mean for alpha, mean in means.items()})
    claim = next(claim for claim in CLAIMS if claim.id == "I8")
    found = verdict(claim, {("fig:rwinv_alpha", "A1"): drawn}, {})
    assert found["verdict"] == "reproduces"
    assert (found["before"]["id"], found["before"]["verdict"]) == ("I8", "does not reproduce")
    assert found["before"]["why"].startswith("The paper states no step-sizes here")
    unchanged = next(claim for claim in CLAIMS if claim.id == "D7a")
    assert not any("D7a" in change.now for change in CHANGES)
    lines = {f"Impression GTD alpha={a}": FALLING + k for k, a in enumerate(("0.5", "0.1", "0.05", "0.025"))}
    assert verdict(unchanged, {("fig:rwdep_stepsize", "A1"): curves(**lines)}, {})["before"] is None


PAPER_LABELS = [
    "boyan_rmse",
    "boyan_rmse_imGTD_bsz",
    "boyan_rmse_imGTD_stepsize",
    "rmsve_boyan_batchsize_linear_rate",
    "rwtab",
    "rwtab_batch",
    "rwtab_alpha",
    "rwinvpbe",
    "rwinvrmsve",
    "rwinv_batchsize",
    "rwinv_alpha",
    "rwdep_pbe",
    "rwdep_rmsve",
    "rwdep_batchsize",
    "rwdep_stepsize",
    "baird_results",
]


def test_all_16_figures_of_the_paper_are_there():
    assert [figure.name for figure in FIGURES] == PAPER_LABELS


EVERY = [*CLAIMS, *(change.before for change in CHANGES)]


@pytest.mark.parametrize("claim", EVERY, ids=lambda claim: claim.id)
def test_a_claim_speaks_of_lines_that_its_figures_have(claim: Claim):
    known = {figure.label: figure for figure in (*FIGURES, *EXTRA)}
    assert claim.statement.endswith(".")
    for label, criterion in claim.parts:
        lines = {line.label: FALLING + 0.1 * k for k, line in enumerate((*known[label].lines, *BESIDE))}
        assert criterion(curves(**lines)).measured


def test_claims_cover_the_list():
    found = {claim.id.rstrip("abcde") for claim in CLAIMS}
    sections = {"B": 7, "T": 7, "I": 8, "D": 7, "C": 4, "G": 6}
    expected = {f"{letter}{k}" for letter, n in sections.items() for k in range(1, n + 1)}
    assert found == expected
