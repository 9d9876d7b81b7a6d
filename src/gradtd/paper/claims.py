"""What the paper says of its experiments, each sentence with the criterion it is judged by.

The criteria were written down before the curves of the figures were looked at; docs/reproduction.md lists what was
changed afterwards. "Much" means at least a fifth, "small" or
"slightly" less than 15 %, "close" within 10 %; "after the initial stage" means from step 2000 on. A claim is an
entry of `CLAIMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gradtd.paper.criteria import (
    Criterion,
    Curves,
    Outcome,
    close,
    combined,
    deeper,
    dips,
    every,
    falls_to,
    like,
    linear_rate,
    lower,
    not_straight_after_bias,
    ordered,
    overtaken,
    shrinking_gain,
    starts_later,
    stays_near,
    steeper,
    straight_after_bias,
    top,
    unsteady,
)
from gradtd.paper.explanations import IM, Sweeps, alphas, explain_b6, explain_b7, explain_c3, explain_d6, sizes, widths
from gradtd.paper.figures import FRAMEWORK

MUCH = 0.8


@dataclass(frozen=True)
class Claim:
    """A claim: which figures it speaks of, in our words, and for each figure the criterion it must meet.

    ``sweep`` judges by the step-size sweeps instead; ``explain`` says what we think where it does not hold.
    """

    id: str
    statement: str
    parts: tuple[tuple[str, Criterion], ...] = ()
    sweep: Callable[[Sweeps], Outcome] | None = None
    explain: Callable[[Mapping[str, Curves]], str] | None = None

    @property
    def figures(self) -> tuple[str, ...]:
        return tuple(figure for figure, _ in self.parts)

    def judge(self, curves: Mapping[str, Curves]) -> Outcome:
        outcomes = [criterion(curves[figure]) for figure, criterion in self.parts]
        if len(outcomes) > 1:
            names = [figure.partition(":")[2] for figure in self.figures]
            outcomes = [replace(o, measured=f"{n}: {o.measured}") for n, o in zip(names, outcomes, strict=True)]
        return combined(outcomes)


_TWO = ("TD", "TDRC")
_BASE = ("TD", "TDRC", "TDC", "GTD2", "GTD", "HTD", "Vtrace")
_FRAMEWORK = [f"extra:framework_{problem}" for problem in FRAMEWORK]


def _all_figures(labels: Sequence[str], criterion: Criterion) -> tuple[tuple[str, Criterion], ...]:
    return tuple((label, criterion) for label in labels)


CLAIMS: tuple[Claim, ...] = (
    Claim("B1", "HTD is almost the same as TD.", (("fig:boyan_rmse", close("HTD", "TD", within=0.05)),)),
    Claim(
        "B2",
        "TD and TDRC are the best two baselines after about 1500 steps.",
        (("fig:boyan_rmse", top(_TWO, ("TDC", "GTD2", "GTD"), after=1500)),),
    ),
    Claim(
        "B3",
        "Impression GTD (m 10, alpha 10) converges fastest of all compared.",
        (("fig:boyan_rmse", lower(IM, "TD", "TDRC", "TDC", "GTD2", "GTD", "MiniBatchTD", after=500)),),
    ),
    Claim(
        "B4a",
        "At every batch size (4 to 128, alpha 5) it drops more steeply than TD and TDRC.",
        (("fig:boyan_rmse_imGTD_bsz", steeper(sizes(4, 8, 16, 32, 64, 128), _TWO)),),
    ),
    Claim(
        "B4b",
        "Batch sizes 32, 64 and 128 are significantly faster than TD and TDRC.",
        (("fig:boyan_rmse_imGTD_bsz", top(sizes(32, 64, 128), _TWO, after=1000)),),
    ),
    Claim(
        "B4c",
        "The gain shrinks after batch size 32.",
        (("fig:boyan_rmse_imGTD_bsz", shrinking_gain(sizes(16, 32, 64), after=1000)),),
    ),
    Claim(
        "B4d",
        "Larger batches start later.",
        (("fig:boyan_rmse_imGTD_bsz", starts_later(sizes(4, 8, 16, 32, 64, 128))),),
    ),
    Claim(
        "B5",
        "Step-sizes .1, 1, 5 and 10 (m 16) are all faster than TD.",
        (("fig:boyan_rmse_imGTD_stepsize", top(alphas(0.1, 1, 5, 10), ["TD"], after=1000)),),
    ),
    Claim(
        "B6",
        "A larger step-size leaves a larger bias.",
        (("fig:boyan_rmse_imGTD_stepsize", ordered(alphas(0.1, 1, 5, 10), after=9000)),),
        explain=explain_b6,
    ),
    Claim(
        "B7a",
        "Less its bias, TD keeps about .08 and is not linear.",
        (
            (
                "fig:rmsve_boyan_batchsize_linear_rate",
                every(stays_near("TD", 0.08, 1.5, 2000), not_straight_after_bias("TD")),
            ),
        ),
    ),
    Claim(
        "B7b",
        "Less its bias, batch size 4 looks like TD.",
        (("fig:rmsve_boyan_batchsize_linear_rate", like(f"{IM} m=4", "TD", 2.0, 2000)),),
    ),
    Claim(
        "B7c",
        "Less its bias, a large batch (128) falls on a straight line: a linear rate.",
        (("fig:rmsve_boyan_batchsize_linear_rate", straight_after_bias(f"{IM} m=128")),),
        explain=explain_b7,
    ),
    Claim(
        "B7d",
        "Batch size 128 is close to Expected GTD.",
        (("fig:rmsve_boyan_batchsize_linear_rate", like(f"{IM} m=128", "Expected GTD", 1.5, 1000)),),
    ),
    Claim(
        "T1",
        "Impression GTD (m 32, alpha 1) is much faster than all baselines.",
        (("fig:rwtab", lower(IM, *_BASE, after=2000, factor=MUCH)),),
    ),
    Claim(
        "T2",
        "TD, HTD and TDRC are the fastest baselines, with small gaps.",
        (
            (
                "fig:rwtab",
                every(
                    top(("TD", "HTD", "TDRC"), ("TDC", "GTD2", "GTD", "Vtrace"), after=0),
                    close("TDRC", "TD", within=0.15),
                    close("HTD", "TD", within=0.15),
                ),
            ),
        ),
    ),
    Claim("T3", "Vtrace is biased.", (("fig:rwtab", lower("TD", "Vtrace", after=9000, factor=0.5)),)),
    Claim(
        "T4",
        "After 4500 steps every batch size (alpha .5) beats TD.",
        (("fig:rwtab_batch", top(sizes(4, 8, 16, 32, 64), ["TD"], after=4500)),),
    ),
    Claim(
        "T5",
        "Larger batches accelerate more.",
        (("fig:rwtab_batch", ordered(sizes(64, 32, 16, 8, 4), after=0)),),
    ),
    Claim(
        "T6a",
        "At m 8, alpha 1 is overtaken by alpha .5 at about step 7000.",
        (("fig:rwtab_alpha", overtaken(*alphas(1, 0.5), about=7000)),),
    ),
    Claim(
        "T6b",
        "At m 8, alpha 1 is overtaken by alpha .25 at about step 8100.",
        (("fig:rwtab_alpha", overtaken(*alphas(1, 0.25), about=8100)),),
    ),
    Claim(
        "T7",
        "MiniBatchTD (m 8, TD's step-size) beats TD after about 2000 steps and is the fastest in the end.",
        (
            (
                "fig:rwtab_alpha",
                every(
                    lower("MiniBatchTD", "TD", after=2000),
                    lower("MiniBatchTD", *alphas(0.25, 0.5, 1), after=9000),
                ),
            ),
        ),
    ),
    Claim(
        "I1",
        "TDRC has the best RMSPBE over 3000 steps.",
        (("fig:rwinvpbe", lower("TDRC", "TD", "TDC", "GTD2", "GTD", "HTD", "Vtrace", until=3000)),),
    ),
    Claim(
        "I2",
        "As learning goes on TDC gets much better than TDRC.",
        (("fig:rwinvpbe", lower("TDC", "TDRC", after=5000, factor=MUCH)),),
    ),
    Claim("I3", "HTD is close to TD.", (("fig:rwinvpbe", close("HTD", "TD", within=0.1)),)),
    Claim(
        "I4",
        "GTD2 and Vtrace have the largest RMSPBE after 4000 steps.",
        (("fig:rwinvpbe", top(("TD", "TDRC", "TDC", "HTD"), ("GTD2", "Vtrace"), after=4000)),),
    ),
    Claim(
        "I5",
        "In RMSVE GTD2 and TDC are the best baselines.",
        (("fig:rwinvrmsve", top(("GTD2", "TDC"), ("TD", "TDRC", "GTD", "HTD", "Vtrace"), after=2000)),),
    ),
    Claim(
        "I6",
        "Impression GTD (m 32, alpha 1) beats even those after the initial stage.",
        (("fig:rwinvrmsve", lower(IM, "GTD2", "TDC", after=2000)),),
    ),
    Claim(
        "I7",
        "Batch size 8 is slower; 16, 32 and 64 beat GTD2.",
        (
            (
                "fig:rwinv_batchsize",
                every(top(sizes(16, 32, 64), sizes(8), after=2000), top(sizes(16, 32, 64), ["GTD2"], after=2000)),
            ),
        ),
    ),
    Claim(
        "I8",
        "Step-sizes overturn: a large one leads at first and falls behind (m 32).",
        (
            (
                "fig:rwinv_alpha",
                every(
                    lower(*alphas(2, 0.25), until=2000),
                    lower(*alphas(0.25, 2), after=9000),
                ),
            ),
        ),
    ),
    Claim(
        "D1",
        "TDRC is the best baseline in RMSPBE, by a small advantage.",
        (
            (
                "fig:rwdep_pbe",
                every(
                    lower("TDRC", "TD", "TDC", "GTD2", "GTD", "HTD", "Vtrace"),
                    close("TDRC", "TD", within=0.15),
                ),
            ),
        ),
    ),
    Claim(
        "D2",
        "Impression GTD (m 32, alpha .05) is much faster in RMSPBE after about 2500 steps.",
        (("fig:rwdep_pbe", lower(IM, *_BASE, after=2500, factor=MUCH)),),
    ),
    Claim(
        "D3",
        "Vtrace is far off in RMSVE though not in RMSPBE.",
        (
            ("fig:rwdep_rmsve", lower("TDRC", "Vtrace", after=9000, factor=0.5)),
            ("fig:rwdep_pbe", lower("Vtrace", "TDRC", after=9000, factor=2.0)),
        ),
    ),
    Claim(
        "D4",
        "In RMSVE GTD2 and TDC beat TDRC after about 2300 steps, and GTD2 beats TDC.",
        (("fig:rwdep_rmsve", every(top(("GTD2", "TDC"), ["TDRC"], after=2300), lower("GTD2", "TDC", after=2300))),),
    ),
    Claim(
        "D5a",
        "Impression GTD beats GTD2 at every batch size after an initial time.",
        (("fig:rwdep_batchsize", top(sizes(8, 16, 32, 64), ["GTD2"], after=2000)),),
    ),
    Claim(
        "D5b",
        "Larger batches (32, 64) are slightly better than smaller ones (8, 16).",
        (("fig:rwdep_batchsize", top(sizes(32, 64), sizes(8, 16), after=2000)),),
    ),
    Claim(
        "D6",
        "The RMSVE makes a way back: it dips, then rises, for all algorithms.",
        (("fig:rwdep_batchsize", every(*(dips(a, 0.05) for a in (*sizes(8, 16, 32, 64), "GTD2")))),),
        explain=explain_d6,
    ),
    Claim(
        "D7a",
        "alpha .5 is the fastest at first.",
        (("fig:rwdep_stepsize", lower(*alphas(0.5, 0.1, 0.05, 0.025), until=1000)),),
    ),
    Claim(
        "D7b",
        "Among .1, .05 and .025 a smaller step-size has a lower lowest point.",
        (("fig:rwdep_stepsize", deeper(alphas(0.1, 0.05, 0.025))),),
    ),
    Claim(
        "D7c",
        "alpha .025 is the best in the end.",
        (("fig:rwdep_stepsize", lower(*alphas(0.025, 0.5, 0.1, 0.05), after=9000)),),
    ),
    Claim(
        "C1",
        "TDRC with alpha .04 or .05 has a much larger variance or diverges.",
        (
            (
                "fig:baird_results",
                every(unsteady("TDRC alpha=.04", "TDRC", 2.0), unsteady("TDRC alpha=.05", "TDRC", 2.0)),
            ),
        ),
    ),
    Claim(
        "C2",
        "GTD and TDC are slow, and the other baselines (but TDRC) slower still.",
        (
            (
                "fig:baird_results",
                every(
                    lower("TDRC", "GTD", "TDC", after=5000),
                    top(("GTD", "TDC"), ("TD", "GTD2", "HTD", "Vtrace"), after=5000),
                ),
            ),
        ),
    ),
    Claim(
        "C3a",
        "Impression GTD (m 10) drops steeply, all the way to near zero.",
        (("fig:baird_results", falls_to(alphas(0.05)[0], 0.01)),),
        explain=explain_c3,
    ),
    Claim(
        "C3b",
        "With alpha .001 it is slower and also gets near zero.",
        (("fig:baird_results", falls_to(alphas(0.001)[0], 0.01)),),
        explain=explain_c3,
    ),
    Claim(
        "C4",
        "Its error falls at a linear rate to zero.",
        (("fig:baird_results", linear_rate(alphas(0.05)[0], after=500, share=0.01)),),
        explain=explain_c3,
    ),
    Claim(
        "G1",
        "Impression GTD is the fastest of all compared, on every problem.",
        (
            ("fig:boyan_rmse", lower(IM, "TD", "TDRC", "TDC", "GTD2", "GTD", "MiniBatchTD", after=500)),
            ("fig:rwtab", lower(IM, *_BASE, "MiniBatchTD", after=500)),
            ("fig:rwinvrmsve", lower(IM, *_BASE, after=500)),
            ("fig:rwdep_rmsve", lower(IM, *_BASE, after=500)),
            ("fig:baird_results", lower(alphas(0.05)[0], "TDRC", "TDC", "GTD", after=500)),
        ),
    ),
    Claim(
        "G2",
        "A'TD is slower than R1-GTD and has a larger bias.",
        _all_figures(_FRAMEWORK, every(lower("R1-GTD", "A'TD", until=3000), lower("R1-GTD", "A'TD", after=9000))),
    ),
    Claim(
        "G3",
        "Expected GTD has to wait less than A'TD and R1-GTD.",
        _all_figures(_FRAMEWORK, lower("Expected GTD", "A'TD", "R1-GTD", until=1000)),
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
        sweep=widths,
    ),
    Claim(
        "G6",
        "Sampling from one buffer that ignores episodes is biased; independence sampling is not.",
        (("extra:careless", lower("independent", "careless", after=9000, factor=MUCH)),),
    ),
)
