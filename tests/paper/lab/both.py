"""The settings that the page and the library both run."""

from __future__ import annotations

from pathlib import Path

from gradtd.paper.lab import OFFERED

HERE = Path(__file__).parent
SPLITS = ("odd-even", "coin", "episode-index", "none")


def settings(lam=0.0):
    """One setting of every algorithm offered, with every split it takes: as the page and as the library say it."""
    numbers = {"alpha": 0.03, "eta": 2.0, "batch_size": 9, "start": 40}
    takes = {
        "td": ("alpha",), "tdrc": ("alpha", "eta"), "gtd2": ("alpha", "eta"), "tdc": ("alpha", "eta"),
        "htd": ("alpha", "eta"), "minibatch_td": ("alpha", "batch_size"), "lstd": (),
        "impression_gtd": ("alpha", "batch_size"), "impression_gtd_auto": ("batch_size",), "expected_gtd": ("alpha",),
    }  # fmt: skip
    splits = {"impression_gtd": SPLITS, "impression_gtd_auto": SPLITS, "expected_gtd": SPLITS[:2]}
    for algorithm in OFFERED:
        given = {name: numbers[name] for name in takes[algorithm]}
        if algorithm != "lstd":
            given["start"] = numbers["start"]
        for split in splits.get(algorithm, (None,)):
            hyper = given | ({"split": split} if split else {}) | {"lam": lam}
            setting = {"algorithm": algorithm, "eta": 1.0, **hyper}
            auto = {"alpha": "auto"} if algorithm == "impression_gtd_auto" else {}
            yield setting, algorithm.removesuffix("_auto"), hyper | auto
