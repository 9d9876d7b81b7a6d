"""What features of a log in parts are fitted to: a sample and the ranges that the files tell, or all states."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.evaluation.parts.job import Reading
from gradtd.features import Features, make_features
from gradtd.logs import Log, Ratios
from gradtd.logs.files import ParquetTable
from gradtd.logs.parts import Survey

SAMPLE_ROWS, FEWEST_SAMPLED, MOST_SAMPLED = 4096, 32, 4096
"""Rows, and bounds of episodes, that features are fitted to and missing choices are looked for in."""
MOST_FEATURES = 1000


def sampled(table: ParquetTable, seen: Survey, reading: Reading) -> tuple[Log, Ratios]:
    """The episodes of the sample."""
    count = min(episodes_of_sample(seen), seen.episodes)
    return reading.log(*seen.sample(count, reading.needed), table.name)


def episodes_of_sample(seen: Survey) -> int:
    """How many episodes a sample has, where there are so many: fewer where they are long."""
    return int(np.clip(SAMPLE_ROWS / (seen.rows / seen.episodes), FEWEST_SAMPLED, MOST_SAMPLED))


def observed(table: ParquetTable, log: Log) -> Floats:
    """Real observations of a sample and, behind them, the least and the largest of all, where the files tell them."""
    observations = log.observations
    if len(log.observation_names) != observations.shape[1]:
        return observations
    ranges = table.ranges(log.observation_names)
    return observations if ranges is None else np.r_[observations, ranges]


def fitted(features: Any, observations: Any) -> Features:
    """Features that were named, fitted to these observations where they are not yet."""
    made = make_features(features)
    return made if made.fitted else made.fit(observations)


def refuse_many(features: Features) -> Features:
    """Features whose sums are kept by group must be few."""
    if features.n_features > MOST_FEATURES:
        raise InputError(f"a log is read in parts with at most {MOST_FEATURES} features, got {features.n_features}.")
    return features
