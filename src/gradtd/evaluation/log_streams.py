"""Makes a `gradtd.Stream` from a log: in memory, or in a folder that `gradtd.learn` memory-maps."""

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
from gradtd.evaluation.chunks import ChunkReader, Folder, LogChunk, find_states, observed, open_folder, read_sample
from gradtd.evaluation.designs.base import known_chances, rows_of_log, stream_of
from gradtd.evaluation.settings import Settings
from gradtd.features import Features, make_features
from gradtd.features.choose import fit_features
from gradtd.logs import ratios
from gradtd.logs.files import ParquetTable
from gradtd.logs.given_policies import read_beside
from gradtd.logs.policies import GivenPolicy
from gradtd.logs.row_policies import kept_columns
from gradtd.logs.sources import open_table


def log_stream(
    log: Any,
    *,
    gamma: float,
    features: Any,
    target: GivenPolicy | None = None,
    behaviour: GivenPolicy | None = None,
    **reading: Any,
) -> Stream:
    """Turn a log into the `gradtd.Stream` that `learn`, `Learner.partial_fit` and the theory accept.

    Parameters
    ----------
    log
        Anything that `gradtd.read_log` reads.
    gamma
        The discount factor, 0 to 1.
    features
        A fitted map, or one to be fitted to this log, in the forms of `gradtd.evaluate`.
    target
        The policy to evaluate, in the forms of `gradtd.evaluate`. By default the log's target or ratio column.
    behaviour
        The behaviour policy, if the log lacks its probabilities; "estimate" fits one.
    **reading
        Passed to `gradtd.read_log`, for example ``log_probabilities="convert"``.

    >>> import gradtd
    >>> log_stream(gradtd.sample_log("random_walk_tabular", 100), gamma=1, features="one-hot")
    Stream(random_walk_tabular: 884 steps, 100 episodes, 7 features, dense)
    """
    discount = checks.fraction("gamma", gamma)
    read, policies = read_beside(log, {"target": target, "behaviour": behaviour}, **reading)
    fitted = fit_features(features, read.observations)
    found = ratios(read, policies["target"], behaviour=policies["behaviour"])
    table = fitted.rows(read.observations)
    rows = rows_of_log(read, table.shape[1])
    return stream_of(read, table, rows, read.episode, found.rho, discount, known_chances(read, found))


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
    """A log as a `gradtd.Stream` in a folder, memory-mapped instead of read into memory. `Stream.open` opens it again.

    Parquet is read part by part. Episodes keep the order of the log.

    Parameters
    ----------
    log
        Anything that `gradtd.read_log` reads.
    folder
        The folder to write, which must not exist.
    gamma
        The discount factor, 0 to 1.
    features
        A fitted map, or one in the forms of `gradtd.evaluate`. If the log is read in parts, a map that is not fitted is
        fitted to a sample of its episodes and to the ranges stored in the files, or to all states. Sparse features stay
        sparse.
    target
        The policy to evaluate; for Parquet the name of a column, or a function of observations. By default the log's
        target or ratio column.
    behaviour
        The behaviour policy, if the log lacks its probabilities.
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
    settings = Settings(
        gamma=checks.fraction("gamma", gamma),
        features=features,
        behaviour=behaviour,
        columns=columns,
        log_probabilities=log_probabilities,
        duplicates=duplicates,
    )
    table = open_table(log) if isinstance(log, (str, Path)) else None
    if isinstance(table, ParquetTable):
        _from_parts(table, Path(folder), target, settings, progress)
    else:
        given = {"columns": columns, "log_probabilities": log_probabilities, "duplicates": duplicates}
        save_stream(
            log_stream(log, gamma=gamma, features=features, target=target, behaviour=behaviour, **given), folder
        )
    return open_stream(folder)


def _from_parts(
    table: ParquetTable, folder: Path, target: Any, settings: Settings, progress: StageProgress | None
) -> None:
    keep = tuple(kept_columns(target, settings.behaviour))
    with ExitStack() as stack:
        writer = Writer(folder, table.name)
        source = open_folder(table, settings, keep, stack, progress)
        reader = source.reader(settings, target, ThreadExecutor(1))
        features = _fitted(settings.features, source, reader)
        stack.enter_context(writing(folder))
        stack.enter_context(writer)
        episodes = done = 0
        for part in source.seen.parts():
            for chunk in reader.chunks(part):
                if not isinstance(chunk, LogChunk):
                    continue
                log, found = chunk.log, chunk.ratios
                made = features.transform(log.observations)
                rows = rows_of_log(log, made.shape[1])
                stream = stream_of(log, made, rows, log.episode + episodes, found.rho, settings.gamma)
                writer.add(stream.features, np.asarray(stream.steps), known_chances(log, found))
                episodes += int(log.episode[-1]) + 1
            done += len(part)
            if progress:
                progress("storing", done, source.seen.rows)


def _fitted(features: Any, source: Folder, reader: ChunkReader) -> Features:
    made = make_features(features)
    if made.fitted:
        return made
    log, _ = read_sample(source.seen, reader)
    if log.discrete_observations:
        return made.fit(find_states(source.seen, reader, ThreadExecutor(1)).values)
    return made.fit(observed(source.table, log))
