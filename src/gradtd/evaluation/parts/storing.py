"""A log of any size as a stream in a folder, which `gradtd.learn` maps instead of reading it into memory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.executors import ThreadExecutor
from gradtd.core.files import writing
from gradtd.core.progress import StageProgress
from gradtd.core.stream import Stream
from gradtd.core.stream_folder import Writer, open_stream, save_stream
from gradtd.evaluation.parts.episodes import grouped, roles_of
from gradtd.evaluation.parts.fitting import fitted, observed, sampled
from gradtd.evaluation.parts.job import Reading
from gradtd.evaluation.parts.preparing import Asked, reading_of
from gradtd.evaluation.parts.states import find_states
from gradtd.evaluation.preparing import known_chances, log_stream, stream_of
from gradtd.features import Features, make_features
from gradtd.logs.files import ParquetTable
from gradtd.logs.parts import Survey
from gradtd.logs.read import open_table
from gradtd.logs.row_policies import kept_columns


def store_stream(
    log: Any,
    folder: str | Path,
    *,
    gamma: float,
    features: Any,
    target: Any = None,
    behaviour: Any = None,
    columns: Mapping[str, Any] | None = None,
    log_probabilities: str = "refuse",
    duplicates: str = "refuse",
    progress: StageProgress | None = None,
) -> Stream:
    """A log as a `gradtd.Stream` in a folder, mapped and not held in memory; `Stream.open` opens it again.

    Parquet is read part by part. Episodes keep the order of the log.

    Parameters
    ----------
    log
        Whatever `gradtd.read_log` reads.
    folder
        The folder to write; it must not be there.
    gamma
        The discount factor, 0 to 1.
    features
        A fitted map, or one in the forms of `gradtd.evaluate`. Where the log is read in parts, a map that is not
        fitted is fitted to a sample of its episodes and to the ranges that the files tell, or to all states. Sparse
        features stay sparse.
    target
        The policy to evaluate; for Parquet the name of a column, or a function of observations. By default the log's
        target or ratio column.
    behaviour
        The policy that made the log, where the log does not say.
    columns, log_probabilities, duplicates
        As in `gradtd.read_log`.
    progress
        A function ``progress(stage, done, total)``.

    >>> import gradtd, pathlib, tempfile
    >>> log = gradtd.sample_log("random_walk_tabular", 100)
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "stream"
    >>> stream = store_stream(log, folder, gamma=1, features="one-hot")
    >>> stream
    Stream(random_walk_tabular: 884 steps, 100 episodes, 7 features, dense)
    >>> gradtd.learn(stream, "td", alpha=0.1).theta.tobytes() == gradtd.learn(
    ...     gradtd.log_stream(log, gamma=1, features="one-hot"), "td", alpha=0.1).theta.tobytes()
    True
    """
    discount = checks.fraction("gamma", gamma)
    asked = Asked(features, behaviour, None, columns, log_probabilities, duplicates)
    table = open_table(log) if isinstance(log, (str, Path)) else None
    if isinstance(table, ParquetTable):
        _from_parts(table, Path(folder), discount, target, asked, progress)
    else:
        given = {"columns": columns, "log_probabilities": log_probabilities, "duplicates": duplicates}
        save_stream(
            log_stream(log, gamma=gamma, features=features, target=target, behaviour=behaviour, **given), folder
        )
    return open_stream(folder)


def _from_parts(
    table: ParquetTable, folder: Path, gamma: float, target: Any, asked: Asked, progress: StageProgress | None
) -> None:
    keep = tuple(kept_columns(target, asked.behaviour))
    roles = roles_of(table, asked, keep)
    with ExitStack() as stack:
        writer = Writer(folder, table.name)
        seen, _, shared = grouped(table, roles, stack, progress)
        reading = reading_of(target, asked, keep, roles, shared)
        features = _fitted(asked.features, table, seen, reading)
        stack.enter_context(writing(folder))
        stack.enter_context(writer)
        episodes = done = 0
        for part in seen.parts():
            for rows, begins, _ in part.chunks(reading.needed):
                read = reading.steps(rows, begins, table.name)
                if read is None:
                    continue
                log, found = read
                made = stream_of(log, features.transform(log.observations), log.episode + episodes, found.rho, gamma)
                writer.add(made.features, np.asarray(made.steps), known_chances(log, found))
                episodes += int(log.episode[-1]) + 1
            done += len(part)
            if progress:
                progress("storing", done, seen.rows)


def _fitted(features: Any, table: ParquetTable, seen: Survey, reading: Reading) -> Features:
    made = make_features(features)
    if made.fitted:
        return made
    log, _ = sampled(table, seen, reading)
    if log.discrete_observations:
        return fitted(made, find_states(seen, reading, table.name, ThreadExecutor(1)).values)
    return fitted(made, observed(table, log))
