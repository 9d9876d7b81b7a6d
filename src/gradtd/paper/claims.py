"""The paper's statements about its experiments, each with the criterion that tests it.

The criteria were written before the curves were computed. `gradtd.paper.judge_claims` lists those that were changed
afterwards, with their first version and the reason. "Much" means at least a fifth. "Small" or "slightly" means less
than 15 %, and "close" within 10 %. "Far off" and "biased" mean at least twice the error. "After the initial stage"
means from the middle of the run on. "In the end" means over the last 1000 steps.
"""

from __future__ import annotations

from gradtd.paper.claims_walks import WALKS
from gradtd.paper.criteria import (
    BASELINES,
    IM,
    MUCH,
    TWO,
    Claim,
    Criterion,
    alphas,
    at,
    beside,
    close,
    every,
    falls_to,
    like,
    linear_rate,
    lower,
    not_straight_after_bias,
    ordered,
    shrinking_gain,
    sizes,
    starts_later,
    stays_near,
    steeper,
    straight_after_bias,
    top,
    unsteady,
)
from gradtd.paper.explanations import (
    explain_b6,
    explain_b7,
    explain_c3,
    explain_g2,
    floors_ordered,
    widths_of_the_common_best,
)
from gradtd.paper.figures import FRAMEWORK

FRAMEWORK_FIGURES = [f"extra:framework_{problem}" for problem in FRAMEWORK]


def on_all(labels: list[str], criterion: Criterion) -> tuple[tuple[str, Criterion], ...]:
    """The same criterion for several figures."""
    return tuple((label, criterion) for label in labels)


BOYAN: tuple[Claim, ...] = (
    Claim("B1", "HTD is almost the same as TD.", at("fig:boyan_rmse", close("HTD", "TD", within=0.05))),
    Claim(
        "B2",
        "TD and TDRC are the best two baselines after about 1500 steps.",
        at("fig:boyan_rmse", top(TWO, ("TDC", "GTD2", "GTD"), after=1500)),
    ),
    Claim(
        "B3",
        "Impression GTD (m 10, alpha 10) converges fastest of all compared algorithms.",
        at("fig:boyan_rmse", lower(IM, "TD", "TDRC", "TDC", "GTD2", "GTD", "MiniBatchTD", after=500)),
    ),
    Claim(
        "B4a",
        "At every batch size (4 to 128, alpha 5) it drops more steeply than TD and TDRC.",
        at("fig:boyan_rmse_imGTD_bsz", steeper(sizes(4, 8, 16, 32, 64, 128), TWO)),
    ),
    Claim(
        "B4b",
        "Batch sizes 32, 64 and 128 are significantly faster than TD and TDRC.",
        at("fig:boyan_rmse_imGTD_bsz", top(sizes(32, 64, 128), TWO, after=1000)),
    ),
    Claim(
        "B4c",
        "The gain shrinks after batch size 32.",
        at("fig:boyan_rmse_imGTD_bsz", shrinking_gain(sizes(16, 32, 64), after=1000)),
    ),
    Claim(
        "B4d",
        "Larger batches start later.",
        at("fig:boyan_rmse_imGTD_bsz", starts_later(sizes(4, 8, 16, 32, 64, 128))),
    ),
    Claim(
        "B5",
        "Step-sizes .1, 1, 5 and 10 (m 16) are all faster than TD.",
        at("fig:boyan_rmse_imGTD_stepsize", top(alphas(0.1, 1, 5, 10), ["TD"], after=1000)),
    ),
    Claim(
        "B6",
        "A larger step-size leaves a larger bias.",
        at(
            "fig:boyan_rmse_imGTD_stepsize",
            beside(
                every(floors_ordered("boyan_chain", 16, (0.1, 1, 5, 10)), ordered(alphas(1, 5, 10), after=9000)),
                ("with alpha .1, which has not converged", ordered(alphas(0.1, 1), after=9000)),
            ),
        ),
        explain=explain_b6,
    ),
    Claim(
        "B7a",
        "With its bias subtracted, TD stays at about .08.",
        at("fig:rmsve_boyan_batchsize_linear_rate", stays_near("TD", 0.08, 1.5, 2000)),
    ),
    Claim(
        "B7b",
        "With its bias subtracted, batch size 4 looks like TD.",
        at("fig:rmsve_boyan_batchsize_linear_rate", like(f"{IM} m=4", "TD", 2.0, 2000)),
    ),
    Claim(
        "B7c",
        "With its bias subtracted, a large batch (128) falls on a straight line: a linear rate.",
        at("fig:rmsve_boyan_batchsize_linear_rate", straight_after_bias(f"{IM} m=128")),
        explain=explain_b7,
    ),
    Claim(
        "B7d",
        "Batch size 128 is close to Expected GTD.",
        at("fig:rmsve_boyan_batchsize_linear_rate", like(f"{IM} m=128", "Expected GTD", 1.5, 1000)),
    ),
    Claim(
        "B7e",
        "With its bias subtracted, TD is not linear.",
        at("fig:rmsve_boyan_batchsize_linear_rate", not_straight_after_bias("TD")),
    ),
)

BAIRD: tuple[Claim, ...] = (
    Claim(
        "C1",
        "TDRC with alpha .04 or .05 has a much larger variance or diverges.",
        at(
            "fig:baird_results", every(unsteady("TDRC alpha=.04", "TDRC", 2.0), unsteady("TDRC alpha=.05", "TDRC", 2.0))
        ),
    ),
    Claim(
        "C2a",
        "GTD and TDC are slow: TDRC is ahead of them.",
        at("fig:baird_results", lower("TDRC", "GTD", "TDC", after=5000)),
    ),
    Claim(
        "C2b",
        "The other baselines (except TDRC) are slower than GTD and TDC.",
        at("fig:baird_results", top(("GTD", "TDC"), ("TD", "GTD2", "HTD", "Vtrace"), after=5000)),
    ),
    Claim(
        "C3a",
        "Impression GTD (m 10) drops steeply, all the way to near zero.",
        at("fig:baird_results", falls_to(alphas(0.05)[0], 0.01)),
        explain=explain_c3,
    ),
    Claim(
        "C3b",
        "With alpha .001 it is slower and also gets near zero.",
        at("fig:baird_results", falls_to(alphas(0.001)[0], 0.01)),
        explain=explain_c3,
    ),
    Claim(
        "C4",
        "Its error falls at a linear rate to zero.",
        at("fig:baird_results", linear_rate(alphas(0.05)[0], after=500, share=0.01)),
        explain=explain_c3,
    ),
)

ACROSS: tuple[Claim, ...] = (
    Claim(
        "G1",
        "Impression GTD is the fastest of all compared algorithms, on every problem.",
        (
            ("fig:boyan_rmse", lower(IM, "TD", "TDRC", "TDC", "GTD2", "GTD", "MiniBatchTD", after=500)),
            ("fig:rwtab", lower(IM, *BASELINES, "MiniBatchTD", after=500)),
            ("fig:rwinvrmsve", lower(IM, *BASELINES, after=500)),
            ("fig:rwdep_rmsve", lower(IM, *BASELINES, after=500)),
            ("fig:baird_results", lower(alphas(0.05)[0], "TDRC", "TDC", "GTD", after=500)),
        ),
    ),
    Claim(
        "G2a",
        "A'TD is slower than R1-GTD.",
        on_all(FRAMEWORK_FIGURES, lower("R1-GTD", "A'TD", until=3000)),
        explain=explain_g2(until=3000),
    ),
    Claim(
        "G2b",
        "A'TD has a larger bias than R1-GTD.",
        on_all(FRAMEWORK_FIGURES, lower("R1-GTD", "A'TD", after=9000)),
        explain=explain_g2(after=9000),
    ),
    Claim(
        "G3",
        "Expected GTD starts to learn earlier than A'TD and R1-GTD.",
        on_all(FRAMEWORK_FIGURES, lower("Expected GTD", "A'TD", "R1-GTD", until=1000)),
    ),
    Claim(
        "G4",
        "A small MSPBE does not imply a small RMSVE, nor the reverse.",
        (
            ("fig:rwinvpbe", lower("TDRC", "GTD2", after=4000)),
            ("fig:rwinvrmsve", lower("GTD2", "TDRC", after=4000)),
        ),
    ),
    Claim(
        "G5",
        "Well-performing step-sizes of Impression GTD span a larger range than those of the two-step-size methods.",
        sweep=widths_of_the_common_best,
    ),
    Claim(
        "G6",
        "Sampling from one buffer that ignores episodes is biased; independence sampling is not.",
        at("extra:careless", lower("independent", "careless", after=9000, factor=MUCH)),
    ),
)

CLAIMS: tuple[Claim, ...] = (*BOYAN, *WALKS, *BAIRD, *ACROSS)
