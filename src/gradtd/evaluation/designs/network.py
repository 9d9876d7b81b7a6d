"""Rows for features that a network learned: its last layer, those of other training seeds, cosines and waves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradtd.evaluation.designs.base import GIVEN, Ladder
from gradtd.evaluation.designs.real import RealDesign, real_design
from gradtd.evaluation.limits import DEFAULT, Limits


def network_design(
    observations: Any, tables: Sequence[Any], n_steps: int, n_pieces: int, limits: Limits = DEFAULT
) -> RealDesign:
    """The network's columns are the only headline. They are checked with cosines beside them, and by other seeds.

    Parameters
    ----------
    observations
        Real numbers, one row per observation.
    tables
        Columns of the network of every training seed, whitened or not; the first is the one reported.
    n_steps, n_pieces
        Sizes of the log.
    limits
        How many columns there may be.
    """
    base = np.concatenate(tables, axis=1)
    made = real_design(observations, base, n_steps, n_pieces, limits)
    d, own = base.shape[1], np.arange(tables[0].shape[1])
    cosines = {name: columns for name, columns in made.ladder.rungs.items() if name != GIVEN}
    rungs = {GIVEN: own} | {f"network and {name}": np.r_[own, columns] for name, columns in cosines.items()}
    edges = np.cumsum([0, *(table.shape[1] for table in tables)])
    checkers = {f"training seed {k}": np.arange(edges[k], edges[k + 1]) for k in range(1, len(tables))}
    checkers["networks of all seeds"] = np.arange(d)
    ladder = Ladder(rungs, checkers | made.ladder.checkers, (GIVEN,), complete=False, endless=True)
    return replace(made, ladder=ladder, table=base)
