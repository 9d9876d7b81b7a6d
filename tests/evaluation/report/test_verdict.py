"""Each reason against an estimate and each warning, provoked by a log; and a good log that has neither."""

import json
import re
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest

from gradtd import Machine, evaluate, sample_log
from gradtd.evaluation.estimators.products import condition
from gradtd.evaluation.limits import DEFAULT
from gradtd.evaluation.report.diagnostics import Diagnostics
from gradtd.evaluation.report.estimate import Estimate
from gradtd.evaluation.report.rule import Kind
from gradtd.evaluation.report.verdict import RULES, Verdict, judge, markdown
from naive.evaluation import walk


def verdict(log, **how):
    return evaluate(log, **{"gamma": 0.9, "algorithm": "lstd", "resamples": 20, "threads": 1} | how)


def extreme(episodes=60, behaviour=(0.5, 0.5), target=(0.3, 0.7), seed=0):
    return walk(episodes, seed, behaviour=np.array(behaviour), target=np.array(target))


def test_a_good_log_is_usable():
    for method in ("auto", "impression_gtd"):
        result = verdict(walk(60), algorithm=method, resamples=None)
        assert (result.verdict, result.reasons, result.warnings) == ("usable", (), ())


def test_importance_sampling_over_several_steps_is_unchecked():
    """Nothing checks products of ratios: of 22 usable wis intervals on random problems 16 held the truth."""
    result = verdict(walk(60), algorithm="wis")
    assert (result.verdict, len(result.reasons)) == ("unchecked", 1)
    assert "algorithm='auto', which reports a checked interval" in result.reasons[0]
    own = verdict({k: v for k, v in walk(60).items() if k != "target"}, algorithm="wis", target="behaviour")
    assert own.verdict == "usable"


def test_an_interval_that_no_check_widened_is_unchecked():
    """The word speaks of the interval shown: LSTD's own leaves out a part of the one that the checks decided."""
    log = extreme(60, (0.7, 0.3), (0.3, 0.7), seed=1)
    checked = verdict(log, algorithm="auto")
    for method in ("lstd", "impression_gtd"):
        result = verdict(log, algorithm=method)
        assert result.verdict == "unchecked"
        assert f"{checked.interval[0]:.5g} to {checked.interval[1]:.5g}" in result.reasons[0]


@pytest.mark.parametrize("level", [0.5, 0.8, 0.99])
def test_the_verdict_does_not_depend_on_the_level(level):
    """Ratios that few episodes carry: Student's quantile grows faster than the widths that are compared."""
    log = extreme(60, (0.8, 0.2), (0.3, 0.7))
    plain, other = verdict(log, algorithm="auto"), verdict(log, algorithm="auto", level=level)
    assert (other.verdict, other.value) == (plain.verdict, plain.value)
    assert (np.diff(other.interval) < np.diff(plain.interval)) == (level < 0.95)


def certain(reward):
    """Forty episodes that are all the same."""
    log = {"episode": np.repeat(np.arange(40), 3), "obs": np.tile([0, 1, 2], 40), "rho": np.ones(120)}
    return log | {"reward": np.full(120, reward), "terminated": np.tile([0, 0, 1], 40)}


@pytest.mark.parametrize("reward", [0.0, 1.0])
@pytest.mark.parametrize(("method", "hyper"), [("impression_gtd", {}), ("tdrc", {"alpha": 0.1}), ("lstd", {})])
def test_a_log_without_noise_has_a_value_and_no_interval(method, hyper, reward):
    """There is no error to compare with, so rounding must not be taken for one; that is the only reason."""
    result = verdict(certain(reward), algorithm=method, **hyper)
    assert result.value == pytest.approx(reward * (1 + 0.9 + 0.81), rel=1e-6)
    assert result.verdict == "not usable"
    assert [reason.partition(":")[0] for reason in result.reasons] == ["The interval has no width"]
    assert not any("doubly robust" in warning for warning in result.warnings)


@pytest.mark.parametrize(
    ("log", "how", "reason"),
    [
        (lambda: walk(19), {}, "The log has 19 independent episodes or blocks; an interval needs at least 20"),
        (lambda: extreme(25, (0.9, 0.1), (0.02, 0.98)), {}, "The importance ratios leave an effective sample size of"),
        (lambda: extreme(300, (0.995, 0.005), (0.5, 0.5)), {}, "The largest 1% of the ratios hold"),
        (
            lambda: walk(200) | {"action_prob": np.full(len(walk(200)["t"]), 0.25)},
            {},
            "Check the probability columns",
        ),
        (
            lambda: {k: v for k, v in walk(60).items() if k != "target"},
            {"target": np.tile([0.3, 0.6, 0.1], (5, 1))},
            "The target takes actions that the log never took, with probability 0.1 per step",
        ),
        (
            lambda: walk(60),
            {"algorithm": "td", "alpha": 0.01, "updates": 2},
            "least-squares solution. Give more updates",
        ),
        (lambda: walk(60), {"algorithm": "td", "alpha": 0.01, "updates": 2}, "the refits did not follow their"),
        (
            lambda: walk(60),
            {"algorithm": "impression_gtd", "alpha": 1e-4, "updates": 2},
            "impression_gtd has not converged",
        ),
        (
            lambda: walk(60),
            {"algorithm": "td", "alpha": 1e3},
            "td diverged on this log, so its weights are meaningless",
        ),
        (lambda: walk(60), {"algorithm": "td", "alpha": 1e3}, "100% of the refits failed or diverged"),
        (lambda: walk(200), {"clip": 1.0}, "standard errors off). Clip less"),
        (
            lambda: walk(60),
            {"algorithm": "monte_carlo"},
            "monte_carlo returned no value: the log comes from another policy",
        ),
        (lambda: walk(60), {"algorithm": "wis", "resamples": 0}, "wis returned no interval: 0 refits; an interval"),
    ],
)
def test_each_reason(log, how, reason):
    result = verdict(log(), **how)
    assert result.verdict == "not usable"
    assert any(reason in sentence for sentence in result.reasons), result.reasons


def test_td_diverges_on_bairds_log():
    """Off-policy TD on the counterexample, in pieces of one endless episode; Impression GTD does not diverge."""
    from gradtd.problems import as_problem

    features = as_problem("baird").features
    log = sample_log("baird", steps=1500, seed=1)
    log = replace(log, reward=np.random.default_rng(0).normal(size=1500))  # its own are 0, and so is the solution
    how = {"gamma": 0.99, "block": 20, "features": lambda s: features[s], "whiten": False}
    result = verdict(log, algorithm="td", alpha=0.5, updates=30_000, resamples=3, **how)
    assert any("td diverged on this log, so its weights are meaningless." in reason for reason in result.reasons)
    assert not np.isfinite(result.interval).any()
    stable = verdict(log, algorithm="impression_gtd", alpha=0.01, updates=3000, resamples=3, **how)
    assert not any("diverged" in reason for reason in stable.reasons)


@pytest.mark.parametrize(
    ("log", "how", "warning"),
    [
        (lambda: walk(60), {"features": lambda s: np.c_[np.eye(5)[s], s]}, None),
        (
            lambda: walk(60),
            {"features": lambda s: np.c_[np.eye(5)[s], s], "whiten": False},
            "The log does not determine 1 of the 6 directions of feature space",
        ),
        (
            lambda: walk(60),
            {"features": lambda s: np.c_[np.eye(5)[s][:, :4], (s == 0) + 1e-5 * (s == 4)], "whiten": False},
            "The equations are ill-conditioned",
        ),
        (
            lambda: walk(60),
            {"algorithm": "td", "alpha": 0.01, "updates": 100},
            "standard errors in the second half of the updates",
        ),
        (
            lambda: walk(60, cut=1),
            {},
            "Every episode was truncated, so later rewards come",
        ),
        (
            lambda: {k: v for k, v in walk(60).items() if k != "target"},
            {"target": np.tile([0.3, 0.699, 0.001], (5, 1))},
            "the target takes actions that the log never took, 0.1% of the time",
        ),
        (lambda: walk(60), {"clip": 1.0}, "Ratios clipped to 1"),
    ],
)
def test_each_warning(log, how, warning):
    result = verdict(log(), **how)
    found = [sentence for sentence in result.warnings if warning is None or warning in sentence]
    assert bool(found) == (warning is not None), result.warnings


def test_numbers_of_the_ratios():
    log = walk(60)
    rho = log["target"] / log["action_prob"]
    numbers = verdict(log).numbers
    assert numbers["ess"] == pytest.approx(sum(rho) ** 2 / sum(r * r for r in rho))
    episodes = [rho[log["episode"] == e] for e in range(60)]
    products = [np.prod(episode) for episode in episodes]
    assert numbers["ess_episodes"] == pytest.approx(sum(products) ** 2 / sum(p * p for p in products))
    assert len(rho) >= 200
    assert numbers["top_hundredth_carries"] == pytest.approx(sum(sorted(rho)[-(len(rho) // 100) :]) / sum(rho))
    off = [sum(episode - 1) for episode in episodes]
    assert numbers["mean_ratio_off"] == pytest.approx(sum(off) / np.sqrt(sum(x * x for x in off)))


def test_a_test_or_a_user_may_replace_a_limit():
    few = [Estimate("td", 1.0, 0.5, 1.5, 0.1)]
    assert judge(told(), few).word == "usable"
    stricter = judge(told(), few, replace(DEFAULT, fewest_episodes=101))
    assert stricter.reasons[0].startswith(
        "The log has 100 independent episodes or blocks; an interval needs at least 101."
    )
    assert "fewer than 101 episodes or blocks" in markdown(replace(DEFAULT, fewest_episodes=101))


def test_the_mean_ratio_is_judged_by_episodes():
    """Right ratios: beyond 4 standard errors once in 16 000; as if steps were independent it would be far more often.

    Ratios that are the same for all steps of an episode: their sums vary 10 times as much as those of 10 single steps.
    """
    rng = np.random.default_rng(1)
    rho = np.repeat(rng.choice([0.2, 1.8], 200), 20)
    log = {"episode": np.repeat(np.arange(200), 20), "obs": rng.integers(0, 4, 4000), "rho": rho}
    log |= {"reward": rng.normal(size=4000), "terminated": np.tile(np.arange(20) == 19, 200)}
    assert abs(verdict(log).numbers["mean_ratio_off"]) < 4
    assert abs((rho - 1).sum() / np.sqrt(((rho - 1) ** 2).sum())) > abs(verdict(log).numbers["mean_ratio_off"]) * 3


def test_numbers_of_the_log():
    log = walk(60)
    rho = log["target"] / log["action_prob"]
    numbers = verdict(log).numbers
    assert numbers["largest_ratio"] == pytest.approx(max(rho))
    assert numbers["mean_ratio"] == pytest.approx(np.mean(rho))
    assert (numbers["terminated"], numbers["steps"], numbers["episodes"]) == (60, len(rho), 60)


def test_numbers_of_the_equations():
    result = verdict(walk(60), whiten=False)
    assert result.numbers["neu_end"] < 1e-20 < result.numbers["neu_start"]
    short = verdict(walk(60), algorithm="td", alpha=0.01, updates=2)
    assert short.numbers["neu_end"] == pytest.approx(short.numbers["neu_start"], rel=0.1)


def test_condition_of_the_features():
    """Scaled to mean square one; a direction without variance is left out."""
    C = np.diag([1.0, 1e8, 4.0])
    assert condition(C) == pytest.approx(1.0)
    C = np.array([[1.0, 0.9], [0.9, 1.0]])
    assert condition(C) == pytest.approx(1.9 / 0.1)
    assert condition(np.ones((2, 2))) == pytest.approx(1.0)
    assert condition(np.zeros((2, 2))) == np.inf


def told(**changes):
    """Diagnostics that nothing speaks against, with some of them changed."""
    good = Diagnostics(
        method="td",
        gamma=0.9,
        episodes=100,
        steps=1000,
        features=3,
        features_used=3,
        terminated=100,
        truncated=0,
        leading_elsewhere=0.0,
        ends_known=True,
        unseen_mass=None,
        unseen_pairs=None,
        clipped=0,
        condition_C=1.0,
        on_policy=False,
        ess=900.0,
        ess_episodes=90.0,
        largest_ratio=2.0,
        mean_ratio=1.0,
        mean_ratio_off=1.0,
        top_hundredth_carries=0.02,
        beyond_cuts=0.0,
        resamples=100,
        sandwich_error=0.1,
        from_dr=0.5,
        condition_A=1.0,
        undetermined_directions=0,
        neu_start=1.0,
        neu_end=0.0,
    )
    return replace(good, **changes)


def judged(row=(1.0, 0.5, 1.5), note="", mark="ok", **changes):
    return judge(told(**changes), [Estimate("td", *row, 0.1, note, mark, "few successes")])


REFUSED = {
    "diverged": {"diverged": True},
    "no value": {"row": (None, None, None), "note": "it overflows"},
    "no interval": {"row": (1.0, None, None), "note": "no refits"},
    "few episodes": {"episodes": 19},
    "small sample": {"ess": 49.0},
    "heavy ratios": {"top_hundredth_carries": 0.51},
    "clipped ratios": {"mean_ratio": 0.5, "mean_ratio_off": -4.1, "clipped": 3},
    "wrong ratios": {"mean_ratio": 0.5, "mean_ratio_off": -4.1},
    "doubtful probabilities": {"doubt": "They do not fit"},
    "unseen actions": {"unseen_mass": 0.011},
    "pairs never taken": {"never_taken": 0.21, "values": "action"},
    "pairs never taken matter": {"never_taken_effect": 0.51, "values": "action"},
    "actions out of range": {"outside_range": 0.06, "values": "action"},
    "unseen in the state": {"unseen_pairs": 0.051},
    "ends not known": {"ends_known": False},
    "other equations": {"method": "vtrace", "from_lstd": 1.1},
    "not converged": {"from_lstd": 1.1},
    "refits lost": {"refits_lost": 0.11},
    "poor behaviour model": {"model_moves": 1.1},
    "narrow refits": {"error_ratio": 0.6},
    "too many features": {"features_used": 201},
    "features cannot represent it": {"from_dr": 4.1},
    "an infinite sum": {"gamma": 1, "terminated": 0},
    "heavy products": {"method": "dr", "ess_episodes": 19.0, "steps": 100},
    "rewards after truncations": {"method": "wis", "beyond_cuts": 0.011, "steps": 100},
    "no width": {"row": (1.0, 1.0, 1.0)},
    "few influential episodes": {"effective_pieces": 2.4},
    "biased refits": {"refit_bias": 0.51},
    "choices missing": {"lacking": 0.21, "lacking_moves": 1.1},
    "no TD error yet": {"surprises_met": 0.4},
    "dependent blocks": {"dependence": 3.1},
    "named features are too poor": {"hull_of_limit": 1.01, "hull_times": 2.6, "features_named": True},
    "fits differ": {"hull_of_limit": 1.01, "hull_times": 2.6, "features_named": False},
    "an imprecise check is far away": {"differs": "with pairs of states"},
    "hidden time": {"hidden_time": 5.0},
    "outside the possible range": {"beyond_rewards": 1.1},
    "weak interval": {"mark": "weak"},
    "small marginal sample": {"ess_marginal": 900.0, "ess_marginal_episodes": 9.9},
    "wrong next observations": {"strangers": 0.41},
    "few rewards": {"reward_sample": 2.9, "largest_reward": 1.0},
    "still moving": {"moved": 0.51},
    "hidden state": {"hidden_state": 3.1},
    "not Markov": {"predicted_by": "earlier steps", "predicted_effect": 3.1, "predicted_chance": 1e-4},
    "unseen after cuts": {"unseen_after_cuts": 0.011},
    "rarely visited": {"rarely_visited": 0.13},
    "drift": {"drift": -4.1},
    "value after truncations": {"late_steps_differ": 3.1, "behind_cuts": 0.1},
}
NOT_CHECKED = {
    "a plain interval": {"hull_low": 0.4, "hull_high": 1.5},
    "products of ratios": {"method": "dr"},
    "rewards in the wrong row": {"rewards_late": True},
    "the sample is too small": {"undecided": "it may lack 18% or 22% of the target's choices"},
    "not checked": {"not_checked": "there are too many"},
    "one-step episodes assumed": {"rows_alone": True},
    "no richer features": {"richer_checks": 0, "complete": False},
    "no memory": {"memory_checks": 0},
}
WARNED = {
    "undetermined directions": {"undetermined_directions": 1},
    "ill-conditioned": {"condition_A": 1.1e8},
    "moving a little": {"moved": 0.26},
    "episodes that appear twice": {"repeated": 0.051},
    "first rewards are 0": {"first_rewards_none": True},
    "much after truncations": {"behind_cuts": 0.21},
    "estimated behaviour": {"estimated_behaviour": True},
    "rarely seen in the state": {"unseen_pairs": 0.051, "lacking": 0.1},
    "unexpected next observations": {"leading_elsewhere": 0.51},
    "many features": {"features_used": 199},
    "features not checked": {"from_dr": None},
    "features may not represent it": {"from_dr": 4.1, "ess_episodes": 19.0},
    "every episode truncated": {"terminated": 0, "truncated": 100},
}
JUST_RIGHT = [
    {"episodes": 20, "ess": 50.0, "top_hundredth_carries": 0.5, "mean_ratio_off": -4.0},
    {"top_hundredth_carries": 0.9, "steps": 99},
    {"unseen_mass": 0.01, "unseen_pairs": 0.05, "from_lstd": 1.0, "error_ratio": 0.67, "refits_lost": 0.1},
    {"features_used": 50, "from_dr": 2.0, "condition_A": 1e8, "moved": 0.25, "leading_elsewhere": 0.5},
    {"error_ratio": float("nan"), "from_dr": float("nan"), "moved": float("nan"), "diverged": False},
    {"method": "dr", "from_dr": None, "ess_episodes": 20.0, "beyond_cuts": 0.5, "steps": 100},
    {"ess_marginal": 50.0, "ess_marginal_episodes": 10.0},
    {"method": "wis", "ess_marginal": 5.0, "ess_marginal_episodes": 1.0, "on_policy": True},
    {"strangers": 0.4, "reward_sample": 3.0, "largest_reward": 1.0},
    {"method": "wis", "from_dr": None, "beyond_cuts": 0.01, "terminated": 0, "truncated": 100, "steps": 100},
    {
        "effective_pieces": 2.5,
        "refit_bias": 0.5,
        "lacking": 0.2,
        "lacking_moves": 9.0,
        "surprises_met": 0.5,
        "dependence": 3.0,
        "hull_of_limit": 1.0,
    },
    {"effective_pieces": 2.6, "episodes": 20, "beyond_rewards": 1.0, "richer_checks": 0, "complete": True},
    {"hull_low": 0.45, "hull_high": 1.55, "memory_checks": 1, "refit_bias": 0.0},
    {"refits": 0, "hull_low": 0.6, "hull_high": 1.4, "from_dr": 9.0, "lacking": 0.0},
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_holds_alone_just_beyond_its_threshold(rule):
    """One row of the table at a time: its sentence, its kind, and no other sentence."""
    changes = {Kind.REASON: REFUSED, Kind.UNCHECKED: NOT_CHECKED, Kind.WARNING: WARNED}[rule.kind][rule.name]
    verdict = judged(**changes)
    said, other = verdict.reasons, verdict.warnings
    if rule.kind is Kind.WARNING:
        said, other = other, said
    assert (len(said), len(other)) == (1, 0), verdict
    assert verdict.word == ("usable" if rule.kind is Kind.WARNING else rule.kind.value)
    words = [part for part in re.split(r"\*\w+\*", rule.in_table(DEFAULT).split(" | ")[2].removesuffix(" |")) if part]
    assert all(part in said[0] for part in words)
    assert "{" not in said[0]
    assert "nan" not in said[0]


@pytest.mark.parametrize("changes", JUST_RIGHT)
def test_no_rule_holds_at_its_threshold(changes):
    assert judged(**changes) == Verdict((), (), ())


def test_the_table_in_the_docs_is_the_table_of_the_rules():
    """Made by ``python -c "from gradtd.evaluation.report.verdict import markdown; print(markdown())"``."""
    page = (Path(__file__).parents[3] / "docs" / "evaluate.md").read_text()
    assert page.split("<!-- rules -->\n\n")[1].split("<!-- end of rules -->")[0] == markdown() + "\n"
    assert len({rule.name for rule in RULES}) == len(RULES) == len(REFUSED) + len(NOT_CHECKED) + len(WARNED)


def test_diagnostics_go_through_json():
    """What does not apply is left out; what could not be computed is null, and not a number when it is read back."""
    made = told(error_ratio=float("nan"), moved=0.1, neu_end=float("inf"), updates=7)
    plain = json.loads(json.dumps(made.to_dict() | {"neu_end": None}, allow_nan=False))
    assert "from_lstd" not in plain
    assert (plain["error_ratio"], plain["unseen_mass"], plain["moved"]) == (None, None, 0.1)
    again = Diagnostics.from_dict(plain)
    assert np.isnan([again.error_ratio, again.neu_end]).all()
    assert (again.from_lstd, again.unseen_mass, again.updates) == (None, None, 7)
    assert list(plain) == [name for name in vars(made) if name in plain]
    with pytest.raises(FrozenInstanceError):
        made.ess = 1.0


def test_more_features_than_the_log_can_feed_are_named():
    """Fewer than 5 steps a feature are a reason against it, fewer than 20 a warning."""
    log = sample_log("random_walk_tabular", 60)
    log = replace(
        log,
        observations=np.arange(2 * len(log)),
        row=np.arange(len(log), dtype=np.uint32),
        next_row=np.arange(len(log), 2 * len(log), dtype=np.uint32),
    )
    noise = np.random.default_rng(0).normal(size=(len(log.observations), len(log) // 3))
    result = verdict(log, features=lambda observations: noise[: len(observations)])
    assert any("they fit its noise" in reason for reason in result.reasons)
    few = verdict(log, features=lambda observations: noise[: len(observations), : len(log) // 10])
    assert any("Fewer features would make the interval more reliable" in warning for warning in few.warnings)


def test_features_that_cannot_represent_the_value_are_found():
    """One feature, a 1 in the states left of the start: every other state is taken to be worth nothing."""
    log = sample_log("random_walk_tabular", 1000, seed=2)
    result = verdict(log, gamma=1.0, features=lambda states: (states[:, None] < 2) + 0.001 * (states[:, None] == 2))
    assert result.numbers["from_dr"] > 4
    assert any("gives a different value, and its error" in reason for reason in result.reasons)


def test_a_rule_that_solves_other_equations_is_told_so_not_that_it_has_not_converged():
    log = extreme(400, behaviour=(0.5, 0.5), target=(0.1, 0.9))
    result = verdict(log, algorithm="vtrace", alpha=0.01)
    assert result.numbers["from_lstd"] > 1
    assert any("vtrace does not solve the equations" in reason for reason in result.reasons)
    assert not any("has not converged" in reason for reason in result.reasons)


def without_ends(gamma, **how):
    """Every episode cut off after its first step."""
    return verdict(walk(200, cut=1), gamma=gamma, **how)


def test_a_sum_without_end_is_not_usable():
    said = "gamma is 1 and no episode terminated"
    assert any(said in reason for reason in without_ends(1.0).reasons)
    assert not any(said in reason for reason in without_ends(0.9).reasons)
    assert not any(said in reason for reason in verdict(walk(60), gamma=1.0).reasons)


@pytest.mark.parametrize("method", ["is", "wis", "pdis", "wpdis"])
def test_sums_that_end_at_a_cut_are_not_the_value(method):
    """Half of the walks are cut after three steps: importance sampling knows nothing of what they would still earn."""
    log = walk(200, cut=3)
    result, robust = verdict(log, algorithm=method), verdict(log, algorithm="dr")
    of_three_steps = 0.9**3 * log["truncated"].sum() / 200
    assert result.numbers["beyond_cuts"] == pytest.approx(of_three_steps, rel=1e-12)
    assert any(f"{method} ends its sums at truncations" in reason for reason in result.reasons)
    assert not any("ends its sums" in reason for reason in robust.reasons)
    notes = {row.method: row.note for row in robust.estimates}
    assert "its sums end" in notes[method]
    assert "its sums end" not in notes["dr"] + notes["lstd"]
    whole = verdict(walk(200), algorithm=method)
    assert whole.numbers["beyond_cuts"] == 0
    assert "its sums end" not in "".join(row.note for row in whole.estimates)
    assert not any("was cut off" in warning for warning in result.warnings)


def test_blocks_are_cuts_too():
    result = verdict(walk(60), algorithm="pdis", block=2)
    assert result.numbers["beyond_cuts"] > 0.01
    assert result.verdict == "not usable"


@pytest.mark.parametrize("method", ["is", "wis", "pdis", "wpdis", "dr", "wdr"])
def test_a_few_episodes_that_carry_all_the_weight_are_not_enough(method):
    """Every step is worth something, and the products over an episode nearly nothing, but for a few of them."""
    said = f"The products of ratios leave {method} an effective sample size of"
    log = walk(100, 3, n=15, behaviour=np.array([0.5, 0.5]), target=np.array([0.9, 0.1]))
    result = verdict(log, algorithm=method)
    assert result.numbers["ess_episodes"] < 20 < 50 < result.numbers["ess"]
    assert any(said in reason for reason in result.reasons)
    assert not any("The products of ratios" in reason for reason in verdict(log).reasons)
    assert not any("The products of ratios" in reason for reason in verdict(walk(100), algorithm=method).reasons)


def test_a_log_that_does_not_say_how_its_episodes_ended_is_not_usable():
    log = walk(60)
    silent = {name: column for name, column in log.items() if name not in ("terminated", "truncated")}
    assert any("The log does not say whether its episodes terminated" in r for r in verdict(silent).reasons)
    assert not any("The log does not say" in reason for reason in verdict(log).reasons)


def test_actions_that_the_log_never_took_in_a_state_are_found():
    """In state 1 the behaviour always takes action 0; the target takes the other one there four times in ten."""
    rng = np.random.default_rng(0)
    state = np.tile([0, 1, 2], 200)
    action = np.where(state == 1, 0, rng.integers(0, 2, 600))
    log = {"episode": np.repeat(np.arange(200), 3), "obs": state, "action": action, "reward": rng.normal(size=600)}
    log |= {"terminated": np.tile([0, 0, 1], 200), "action_prob": np.where(state == 1, 1.0, 0.5)}
    result = verdict(log, target=np.array([[0.5, 0.5], [0.6, 0.4], [0.5, 0.5]]))
    assert any("never took in that state, with probability 13.3% per step" in said for said in result.warnings)
    assert any("Check the probability columns" in reason for reason in result.reasons)
    assert result.verdict == "not usable"


def test_an_interval_as_narrow_as_the_regularisation_has_no_width():
    """Equal rewards and no future: the value is exact, and an interval of 1e-9 beside it was called usable."""
    rng, lengths = np.random.default_rng(0), np.full(21, 5)
    n, ends = lengths.sum(), np.arange(lengths.sum()) % 5 == 4
    log = {"episode": np.repeat(np.arange(21), lengths), "reward": np.full(n, 0.5), "terminated": ends}
    log |= {"obs_0": rng.normal(size=n), "obs_1": rng.normal(size=n), "rho": rng.choice([0.5, 1.0, 1.5], n)}
    result = evaluate(log, gamma=0.0, progress=False, machine=Machine(threads=1))
    assert result.value == pytest.approx(0.5, abs=1e-12)
    assert result.verdict == "not usable"
    assert any("The interval has no width" in reason for reason in result.reasons)
