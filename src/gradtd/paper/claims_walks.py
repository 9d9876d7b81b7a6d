"""The paper's statements about the random walks: tabular (T), inverted (I) and dependent features (D)."""

from __future__ import annotations

from gradtd.paper.criteria import (
    BASELINES,
    FAR,
    IM,
    INITIAL,
    MUCH,
    Claim,
    alphas,
    at,
    beside,
    close,
    deeper,
    dips,
    every,
    leads_since,
    lower,
    ordered,
    overtaken,
    sizes,
    top,
)
from gradtd.paper.explanations import explain_d3, explain_d6, explain_i4

_FROM_2000 = "from step 2000"
_SMALL_GAPS = every(close("TDRC", "TD", within=0.15), close("HTD", "TD", within=0.15))

TABULAR: tuple[Claim, ...] = (
    Claim(
        "T1",
        "Impression GTD (m 32, alpha 1) is much faster than all baselines.",
        at("fig:rwtab", lower(IM, *BASELINES, after=2000, factor=MUCH)),
    ),
    Claim(
        "T2a",
        "TD, HTD and TDRC are the fastest baselines.",
        at("fig:rwtab", top(("TD", "HTD", "TDRC"), ("TDC", "GTD2", "GTD", "Vtrace"), after=0)),
    ),
    Claim("T2b", "The gaps between TD, HTD and TDRC are small.", at("fig:rwtab", _SMALL_GAPS)),
    Claim("T3", "Vtrace is biased.", at("fig:rwtab", lower("TD", "Vtrace", after=9000, factor=FAR))),
    Claim(
        "T4",
        "After 4500 steps every batch size (alpha .5) beats TD.",
        at("fig:rwtab_batch", top(sizes(4, 8, 16, 32, 64), ["TD"], after=4500)),
    ),
    Claim(
        "T5",
        "After that, larger batches accelerate more.",
        at(
            "fig:rwtab_batch",
            beside(
                ordered(sizes(64, 32, 16, 8, 4), after=4500),
                ("from step 0", ordered(sizes(64, 32, 16, 8, 4), after=0)),
            ),
        ),
    ),
    Claim(
        "T6a",
        "At m 8, alpha 1 is overtaken by alpha .5 at about step 7000.",
        at("fig:rwtab_alpha", overtaken(*alphas(1, 0.5), about=7000)),
    ),
    Claim(
        "T6b",
        "At m 8, alpha 1 is overtaken by alpha .25 at about step 8100.",
        at("fig:rwtab_alpha", overtaken(*alphas(1, 0.25), about=8100)),
    ),
    Claim(
        "T7a",
        "MiniBatchTD (m 8, TD's step-size) beats TD after about 2000 steps.",
        at("fig:rwtab_alpha", lower("MiniBatchTD", "TD", after=2000)),
    ),
    Claim(
        "T7b",
        "MiniBatchTD (m 8, TD's step-size) is the fastest in the end.",
        at("fig:rwtab_alpha", lower("MiniBatchTD", *alphas(0.25, 0.5, 1), after=9000)),
    ),
)

INVERTED: tuple[Claim, ...] = (
    Claim(
        "I1",
        "TDRC has the best RMSPBE over 3000 steps.",
        at("fig:rwinvpbe", lower("TDRC", "TD", "TDC", "GTD2", "GTD", "HTD", "Vtrace", until=3000)),
    ),
    Claim(
        "I2a",
        "After 3000 steps TDC is better than TDRC in RMSPBE.",
        at("fig:rwinvpbe", lower("TDC", "TDRC", after=3000)),
    ),
    Claim(
        "I2b",
        "As learning continues, TDC becomes much better than TDRC.",
        at("fig:rwinvpbe", lower("TDC", "TDRC", after=5000, factor=MUCH)),
    ),
    Claim("I3", "HTD is close to TD.", at("fig:rwinvpbe", close("HTD", "TD", within=0.1))),
    Claim(
        "I4a",
        "Vtrace has a larger RMSPBE than TD, TDRC, TDC and HTD after 4000 steps.",
        at("fig:rwinvpbe", top(("TD", "TDRC", "TDC", "HTD"), ["Vtrace"], after=4000)),
    ),
    Claim(
        "I4b",
        "GTD2 has a larger RMSPBE than TD, TDRC, TDC and HTD after 4000 steps.",
        at("fig:rwinvpbe", top(("TD", "TDRC", "TDC", "HTD"), ["GTD2"], after=4000)),
        explain=explain_i4,
    ),
    Claim(
        "I5",
        "After the initial stage GTD2 and TDC are the best baselines in RMSVE.",
        at(
            "fig:rwinvrmsve",
            beside(
                top(("GTD2", "TDC"), ("TD", "TDRC", "GTD", "HTD", "Vtrace"), after=INITIAL),
                (_FROM_2000, top(("GTD2", "TDC"), ("TD", "TDRC", "GTD", "HTD", "Vtrace"), after=2000)),
            ),
        ),
    ),
    Claim(
        "I6",
        "Impression GTD (m 32, alpha 1) beats even GTD2 and TDC after the initial stage.",
        at(
            "fig:rwinvrmsve",
            beside(
                lower(IM, "GTD2", "TDC", after=INITIAL),
                (_FROM_2000, lower(IM, "GTD2", "TDC", after=2000)),
                ("when", leads_since(IM, "GTD2", "TDC")),
            ),
        ),
    ),
    Claim(
        "I7a",
        "Batch size 8 is slower than 16, 32 and 64.",
        at("fig:rwinv_batchsize", top(sizes(16, 32, 64), sizes(8), after=2000)),
    ),
    Claim(
        "I7b",
        "Batch sizes 16, 32 and 64 beat GTD2 after the initial stage.",
        at(
            "fig:rwinv_batchsize",
            beside(
                top(sizes(16, 32, 64), ["GTD2"], after=INITIAL),
                (_FROM_2000, top(sizes(16, 32, 64), ["GTD2"], after=2000)),
                ("when", every(*(leads_since(a, "GTD2") for a in sizes(16, 32, 64)))),
            ),
        ),
    ),
    Claim(
        "I8",
        "The order of step-sizes reverses: a large one leads at first and then falls behind (m 32).",
        at(
            "fig:rwinv_alpha",
            beside(
                every(lower(*alphas(2, 1), until=2000), lower(*alphas(1, 2), after=9000)),
                (".25 against 2", lower(*alphas(0.25, 2), after=9000)),
            ),
        ),
    ),
)

DEPENDENT: tuple[Claim, ...] = (
    Claim(
        "D1a",
        "TDRC is the best baseline in RMSPBE.",
        at("fig:rwdep_pbe", lower("TDRC", "TD", "TDC", "GTD2", "GTD", "HTD", "Vtrace")),
    ),
    Claim(
        "D1b",
        "TDRC's advantage over TD is small.",
        at("fig:rwdep_pbe", close("TDRC", "TD", within=0.15)),
    ),
    Claim(
        "D2",
        "Impression GTD (m 32, alpha .05) is much faster in RMSPBE after about 2500 steps.",
        at("fig:rwdep_pbe", lower(IM, *BASELINES, after=2500, factor=MUCH)),
    ),
    Claim(
        "D3",
        "Vtrace is far off in RMSVE but not in RMSPBE.",
        (
            ("fig:rwdep_rmsve", lower("TDRC", "Vtrace", after=9000, factor=FAR)),
            ("fig:rwdep_pbe", lower("Vtrace", "TDRC", after=9000, factor=1 / FAR)),
        ),
        explain=explain_d3,
    ),
    Claim(
        "D4a",
        "In RMSVE GTD2 and TDC beat TDRC after about 2300 steps.",
        at("fig:rwdep_rmsve", top(("GTD2", "TDC"), ["TDRC"], after=2300)),
    ),
    Claim("D4b", "In RMSVE GTD2 beats TDC.", at("fig:rwdep_rmsve", lower("GTD2", "TDC", after=2300))),
    Claim(
        "D5a",
        "Impression GTD beats GTD2 at every batch size after an initial time.",
        at(
            "fig:rwdep_batchsize",
            beside(
                top(sizes(8, 16, 32, 64), ["GTD2"], after=INITIAL),
                (_FROM_2000, top(sizes(8, 16, 32, 64), ["GTD2"], after=2000)),
            ),
        ),
    ),
    Claim(
        "D5b",
        "Larger batches (32, 64) are slightly better than smaller ones (8, 16).",
        at("fig:rwdep_batchsize", top(sizes(32, 64), sizes(8, 16), after=2000)),
    ),
    Claim(
        "D6",
        "The RMSVE dips and then rises, for all algorithms.",
        at("fig:rwdep_batchsize", every(*(dips(a, 0.05) for a in (*sizes(8, 16, 32, 64), "GTD2")))),
        explain=explain_d6,
    ),
    Claim(
        "D7a",
        "alpha .5 is the fastest at first.",
        at("fig:rwdep_stepsize", lower(*alphas(0.5, 0.1, 0.05, 0.025), until=1000)),
    ),
    Claim(
        "D7b",
        "Among .1, .05 and .025 a smaller step-size has a lower lowest point.",
        at("fig:rwdep_stepsize", deeper(alphas(0.1, 0.05, 0.025))),
    ),
    Claim(
        "D7c",
        "alpha .025 is the best in the end.",
        at("fig:rwdep_stepsize", lower(*alphas(0.025, 0.5, 0.1, 0.05), after=9000)),
    ),
)

WALKS: tuple[Claim, ...] = (*TABULAR, *INVERTED, *DEPENDENT)
