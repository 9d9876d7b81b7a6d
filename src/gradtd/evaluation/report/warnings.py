"""What could not be checked, and what to know of an estimate even so."""

from __future__ import annotations

from gradtd.evaluation.limits import (
    ELSEWHERE,
    FEW_STEPS,
    FEWEST_STEPS,
    ILL_CONDITIONED,
    MOVED,
    MOVING,
    PLAIN,
    ROBUST_WARNS,
    UNSEEN_PAIRS,
)
from gradtd.evaluation.report.estimate import ENDED_BY_A_CUT, ESTIMATORS
from gradtd.evaluation.report.rule import Kind, Rule, above, far_from_robust, narrower
from gradtd.evaluation.trust.deciding import RICHER

WARNINGS: tuple[Rule, ...] = (
    Rule(
        "not checked",
        "no fits could be made to check the features",
        lambda e: bool(e.d.not_checked),
        "whether the features can represent the value was not checked: {d.not_checked}.",
        Kind.UNCHECKED,
    ),
    Rule(
        "rows taken alone",
        "nothing tells which rows belong together, and gamma is above 0",
        lambda e: e.d.rows_alone is True and e.d.gamma > 0,
        "nothing in the log tells which rows belong together, so each was taken as an episode of one step: say so, "
        "one_step=True, or give the column that numbers the episodes.",
        Kind.UNCHECKED,
    ),
    Rule(
        "no richer features",
        f"no fit with {RICHER:g} times the columns is sound and narrow enough to check the features",
        lambda e: e.d.richer_checks == 0 and e.d.complete is False,
        "whether the features can represent the value is not known: the log is too small for any richer ones; collect "
        "more episodes, or take fewer features.",
        Kind.UNCHECKED,
    ),
    Rule(
        "no memory",
        "neither a fit with traces nor doubly robust is sound and narrow enough",
        lambda e: e.d.memory_checks == 0,
        "whether the observations tell all that matters is not known: the ratios are too wild for fits that look "
        "several steps ahead; collect more episodes, or evaluate a target nearer to the behaviour.",
        Kind.UNCHECKED,
    ),
    Rule(
        "a sample says too little",
        "a log was read in parts, and its sample does not tell of missing choices and rare surprises",
        lambda e: bool(e.d.undecided),
        "the log was read in parts, and {d.undecided}: the sample of its episodes says too little about it; read it "
        "into memory, in_parts=False, or evaluate a target nearer to the behaviour.",
        Kind.UNCHECKED,
    ),
    Rule(
        "a plain interval",
        f"the interval by refits is less than one in {PLAIN:g} times as wide as that of the checks",
        narrower,
        "this interval is about the solution in these features; with what the checks leave open it is "
        "{d.hull_low:.5g} to {d.hull_high:.5g}, which algorithm='auto' reports.",
        Kind.WARNING,
    ),
    Rule(
        "estimated behaviour",
        "the behaviour was estimated from the log",
        lambda e: e.d.estimated_behaviour is True,
        "the behaviour's probabilities are estimated: the interval takes them for known, and what the model of them "
        "cannot represent is not in it.",
        Kind.WARNING,
    ),
    Rule(
        "rarely seen in the state",
        f"the target takes actions that the log never took in that state, with a probability above {UNSEEN_PAIRS:.0%}",
        lambda e: above(e.d.unseen_pairs, UNSEEN_PAIRS) and e.d.lacking is not None and e.d.values is None,
        "in the states it visited the log never took what the target would do {d.unseen_pairs:.1%} of the time: the "
        "features fill that in from other states.",
        Kind.WARNING,
    ),
    Rule(
        "undetermined directions",
        "the log does not determine some directions of feature space",
        lambda e: e.d.undetermined_directions > 0,
        "{d.undetermined_directions} of the {d.features_used} directions of feature space are not determined by the "
        "log; the solution of least norm is taken.",
        Kind.WARNING,
    ),
    Rule(
        "ill-conditioned",
        f"the condition number of A is above {ILL_CONDITIONED:g}",
        lambda e: above(e.d.condition_A, ILL_CONDITIONED),
        "the equations are ill-conditioned ({d.condition_A:.1e}): fewer features would do.",
        Kind.WARNING,
    ),
    Rule(
        "moving a little",
        f"the value moved by {MOVED:g} to {MOVING:g} standard errors in the second half of the updates",
        lambda e: above(e.d.moved, MOVED) and not above(e.d.moved, MOVING),
        "the value still moved by {d.moved:.2f} standard errors in the second half of the updates.",
        Kind.WARNING,
    ),
    Rule(
        "leading elsewhere",
        f"more than {ELSEWHERE:.0%} of the steps do not lead to the observation of the row after",
        lambda e: e.d.leading_elsewhere > ELSEWHERE,
        "the next observation of {d.leading_elsewhere:.0%} of the steps is not the observation of the row after: check "
        "that the two columns are not mixed up, and that no rows are missing.",
        Kind.WARNING,
    ),
    Rule(
        "many features",
        f"{FEWEST_STEPS} to {FEW_STEPS} steps for every feature in use",
        lambda e: FEWEST_STEPS * e.d.features_used <= e.d.steps < FEW_STEPS * e.d.features_used,
        "the log has {d.steps} steps for {d.features_used} features: fewer features would make the interval more "
        "reliable.",
        Kind.WARNING,
    ),
    Rule(
        "features not checked",
        "a value function without refits",
        lambda e: e.d.lacking is None and e.d.from_dr is None and e.d.method not in ESTIMATORS,
        "without refits the value was not compared with the doubly robust estimate: whether the features can represent "
        "it is not known; give resamples, or fewer features.",
        Kind.WARNING,
    ),
    Rule(
        "features may not represent it",
        f"more than {ROBUST_WARNS:g} standard errors from doubly robust",
        lambda e: e.d.lacking is None and above(e.d.from_dr, ROBUST_WARNS) and not far_from_robust(e),
        "the doubly robust estimate is {d.from_dr:.1f} standard errors away: the features may not be able to represent "
        "the value, and the interval is then about the best fit in these features.",
        Kind.WARNING,
    ),
    Rule(
        "every episode cut off",
        "no episode terminated, and the method goes on behind the cuts with a value function",
        lambda e: e.d.truncated > 0 and e.d.terminated == 0 and e.d.method not in ENDED_BY_A_CUT,
        "every episode was cut off: rewards beyond the cut are known through the value function only; where episodes "
        "do end by themselves, the value is wrong, and the log needs a column terminated.",
        Kind.WARNING,
    ),
)
"""Every rule, in the order in which their sentences are shown."""
