"""Plans how a Parquet log of any size is cut into parts, without reading all of it.

Only the episode column is read, or the columns that mark ends. 16 bytes are kept per episode. Parts are consecutive
whole episodes. Only the number of rows determines the cuts, so they do not depend on the number of files or workers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradtd.core.arrays import Integers, Words
from gradtd.core.checks import InputError
from gradtd.core.memory_limits import refuse_beyond_memory
from gradtd.core.progress import Progress
from gradtd.logs.column_names import Roles
from gradtd.logs.columns import Column
from gradtd.logs.files import Casts, ParquetTable, batches_of, reading
from gradtd.logs.row_episodes import EpisodeCounter, hash_of, mixed
from gradtd.logs.steps import ENDS
from gradtd.logs.tables import arrow_kind, arrow_piece, refuse_cut_text, refuse_merged

ROWS_OF_A_PART = 1_000_000
"""Approximate number of rows per part: about a second of work, and sums of a few megabytes."""
BATCH, NUMBERS_OF_A_BATCH, FEWEST_ROWS = 100_000, 2**22, 4096
"""Limits of one read: the maximum number of rows, the approximate number of values (34 MB), the minimum of rows."""


class Stretch(NamedTuple):
    """A row group of a file, the log's number of its first row, and the column types on which files must agree."""

    path: Path
    group: int
    first: int
    rows: int
    casts: Casts = ()


@dataclass(frozen=True, eq=False)
class Part:
    """Consecutive whole episodes: their rows, where each begins (the last entry is the end), and their hashes."""

    stretches: tuple[Stretch, ...]
    begins: Integers
    hashes: Words
    labels: Integers | None = None

    def __len__(self) -> int:
        return int(self.begins[-1] - self.begins[0])

    def batches(self, columns: Sequence[str], rows: int | None = None) -> Iterator[Any]:
        """Read the given columns as Arrow tables of limited size."""
        first, last = int(self.begins[0]), int(self.begins[-1])
        for file, stretch in _opened(self.stretches):
            yield from _tables(file, stretch, first, last, columns, rows)

    def chunks(self, columns: Sequence[str], rows: int | None = None) -> Iterator[tuple[Any, Integers, Words]]:
        """`batches` cut between episodes: the tables, where each episode begins in them, and the episodes' hashes."""
        import pyarrow as pa

        _refuse_long(int(np.diff(self.begins).max()), columns)
        enough = rows or _rows_of_a_batch(columns)
        waiting: list[Any] = []
        begin, at, done = int(self.begins[0]), int(self.begins[0]), 0
        for table in self.batches(columns, rows):
            waiting.append(table)
            at += len(table)
            ready = int(np.searchsorted(self.begins, at, "right")) - 1
            if ready > done and (at - begin >= enough or ready == len(self.hashes)):
                whole = pa.concat_tables(waiting)
                cut = int(self.begins[ready]) - begin
                yield whole.slice(0, cut), self.begins[done : ready + 1] - begin, self.hashes[done:ready]
                left = whole.slice(cut).take(np.arange(len(whole) - cut))  # a copy: a slice would keep all rows
                waiting, begin, done = [left], int(self.begins[ready]), ready


def _refuse_long(rows: int, columns: Sequence[str]) -> None:
    """Refuse episodes that do not fit into memory: they are read whole, and a small file can hold a long one."""
    what = f"an episode, or a sample of episodes, of {rows:,} rows"
    refuse_beyond_memory(8.0 * rows * len(columns), what, "cut it into several, or read fewer columns")


def _opened(stretches: Sequence[Stretch]) -> Iterator[tuple[Any, Stretch]]:
    """All stretches, each with its open file. A file is opened once, because reading its metadata takes time."""
    for path, here in itertools.groupby(stretches, key=lambda stretch: stretch.path):
        with reading(path, ParquetTable._open, path) as file:
            yield from ((file, stretch) for stretch in here)


def _read(file: Any, stretch: Stretch, rows: int, columns: Sequence[str]) -> Iterator[Any]:
    return batches_of(file, stretch.path, rows, columns, stretch.casts, stretch.group)


def _tables(
    file: Any, stretch: Stretch, first: int, last: int, columns: Sequence[str], rows: int | None = None
) -> Iterator[Any]:
    """The rows of a stretch that are rows ``first`` to ``last`` of the log, in Arrow tables."""
    at = stretch.first
    for table in _read(file, stretch, rows or _rows_of_a_batch(columns), columns):
        low, high = max(first - at, 0), min(last - at, len(table))
        at += len(table)
        if high > low:
            yield table.slice(low, high - low)
        if at >= last:
            break
    _refuse_short(stretch, at, last)


def _refuse_short(stretch: Stretch, at: int, last: int) -> None:
    """Refuse a file with fewer rows than its metadata state."""
    if at < min(last, stretch.first + stretch.rows):
        raise InputError(
            f"{stretch.path.name!r} has fewer rows than its metadata state: it may be damaged or truncated. Write it "
            "again."
        )


def _rows_of_a_batch(columns: Sequence[str]) -> int:
    return min(BATCH, max(FEWEST_ROWS, NUMBERS_OF_A_BATCH // max(len(columns), 1)))


@dataclass(frozen=True, eq=False)
class Survey:
    """Episode structure of a log: its size, where episodes begin, and whether their rows are together.

    ``labels`` has the group of every episode, -1 for excluded ones; rows and episodes count only the others.
    """

    stretches: tuple[Stretch, ...]
    begins: Integers
    hashes: Words
    grouped: bool
    spanning: int
    labels: Integers | None = None

    @property
    def rows(self) -> int:
        return int(np.diff(self.begins)[self.taken].sum())

    @property
    def episodes(self) -> int:
        return len(self.taken)

    @cached_property
    def taken(self) -> Integers:
        """The numbers of the included episodes."""
        return np.arange(len(self.hashes)) if self.labels is None else np.flatnonzero(self.labels >= 0)

    def column(self, name: str) -> Iterator[tuple[int, Column]]:
        """A column of the files in pieces, each with the number of its first row."""
        for file, stretch in _opened(self.stretches):
            at = stretch.first
            for table in _read(file, stretch, 8 * BATCH, [name]):
                yield at, reading(stretch.path, _column, name, table.column(name))
                at += len(table)

    def shared(self) -> int:
        """Number of episode ids that occur in several files: an episode that continues, or several episodes with one
        id."""
        if self.grouped:
            return self.spanning
        number = np.cumsum([0, *(a.path != b.path for a, b in itertools.pairwise(self.stretches))])
        firsts = np.array([stretch.first for stretch in self.stretches])
        file = number[np.searchsorted(firsts, self.begins[:-1], "right") - 1]
        order = np.lexsort((file, self.hashes))
        same = self.hashes[order][1:] == self.hashes[order][:-1]
        other = same & (file[order][1:] != file[order][:-1])
        return len(np.unique(self.hashes[order][1:][other]))

    def parts(self, rows: int | None = None) -> list[Part]:
        """Cut the log into parts of about this many rows, by default `ROWS_OF_A_PART`."""
        rows = rows or ROWS_OF_A_PART
        last = len(self.hashes)
        wanted = np.arange(0, int(self.begins[-1]) + rows // 2, rows)
        cuts = np.unique(np.searchsorted(self.begins, wanted).clip(0, last))
        cuts = np.unique(np.r_[0, cuts[:-1], last])
        return [self.part(int(a), int(b)) for a, b in itertools.pairwise(cuts)]

    def part(self, first: int, last: int) -> Part:
        """Episodes ``first`` to ``last``, in the order of the log."""
        begins = self.begins[first : last + 1]
        inside = [s for s in self.stretches if s.first < begins[-1] and s.first + s.rows > begins[0]]
        labels = None if self.labels is None else self.labels[first:last]
        return Part(tuple(inside), begins, self.hashes[first:last], labels)

    def sample(self, episodes: int, columns: Sequence[str]) -> tuple[Any, Integers]:
        """Rows of the episodes with the smallest hashes, and where each begins among them.

        The choice and its order do not depend on how the log is cut or ordered.
        """
        import pyarrow as pa

        chosen = self.taken[np.argsort(mixed(self.hashes[self.taken]), kind="stable")[:episodes]]
        _refuse_long(int(np.diff(self.begins)[chosen].sum()), columns)
        found: dict[int, list[Any]] = {int(k): [] for k in chosen}
        placed = np.sort(chosen)
        for file, stretch in _opened(self.stretches):
            end = stretch.first + stretch.rows
            here = placed[(self.begins[placed] < end) & (self.begins[placed + 1] > stretch.first)]
            if not len(here):
                continue
            at = stretch.first
            end = min(end, int(self.begins[here[-1] + 1]))  # later rows are not read
            for table in _tables(file, stretch, at, end, columns):
                low = (self.begins[here] - at).clip(0, len(table))
                lengths = (self.begins[here + 1] - at).clip(0, len(table)) - low
                ends = np.cumsum(lengths)
                # A copy: slices would keep all rows that were read with them.
                rows = table.take(np.repeat(low - ends + lengths, lengths) + np.arange(ends[-1]))
                for k in np.flatnonzero(lengths):
                    found[int(here[k])].append(rows.slice(int(ends[k] - lengths[k]), int(lengths[k])))
                at += len(table)
        rows = pa.concat_tables([table for k in chosen for table in found[int(k)]])
        return rows, np.r_[0, np.cumsum(np.diff(self.begins)[chosen])]


def survey(table: ParquetTable, told: str | Roles, progress: Progress | None = None) -> Survey:
    """Read a log's episode column or, given the roles of its columns, the columns that mark ends."""
    stretches, reader = tuple(_stretches(table)), told if isinstance(told, str) else _Ends(told)
    total = sum(stretch.rows for stretch in stretches)
    begins: list[Integers] = []
    hashes: list[Words] = []
    last: Any = None
    at = spanning = 0
    path: Path | None = None
    for file, stretch in _opened(stretches):
        for ids in _ids(file, stretch, reader):
            new = np.r_[True, ids[1:] != ids[:-1]]
            if last is not None and ids[0] == last:
                new[0] = False
                spanning += stretch.path != path and at == stretch.first
            here = np.flatnonzero(new)
            begins.append(here + at)
            hashes.append(hash_of(ids[here]))
            last, at, path = ids[-1], at + len(ids), stretch.path
            if progress:
                progress(at, total)
        _refuse_short(stretch, at, total)
    if not at:
        raise InputError(f"{table.name!r} has no rows.")
    found = np.concatenate(hashes)
    edges = np.append(np.concatenate(begins), at).astype(np.int64)
    return Survey(stretches, edges, found, len(np.unique(found)) == len(found), int(spanning))


def _stretches(table: ParquetTable) -> Iterator[Stretch]:
    first = 0
    for path in table.paths:
        for group, rows in enumerate(ParquetTable.group_sizes(path)):
            if rows:
                yield Stretch(path, group, first, rows, table.casts)
            first += rows


def _ids(file: Any, stretch: Stretch, told: str | _Ends) -> Iterator[NDArray[Any]]:
    """Yield episode ids, a batch at a time. Text is not coded, because codes would differ between batches."""
    columns, ids = ([told], partial(ids_of, column=told)) if isinstance(told, str) else (told.columns, told.ids)
    for table in _read(file, stretch, 8 * BATCH, columns):
        yield reading(stretch.path, ids, table)


class _Ends:
    """Episode numbers of a log without an episode column, from the columns that mark ends.

    With one-step episodes, every row is an episode.
    """

    def __init__(self, roles: Roles) -> None:
        self.alone, self.counter = roles.alone, EpisodeCounter(roles.clock)
        self.names = {role: roles.single[role] for role in (*ENDS, "t") if role in roles.single}
        self.columns = [roles.single["reward"]] if roles.alone else list(self.names.values())

    def ids(self, table: Any) -> Integers:
        """The number of the episode of each row of the next Arrow table."""
        if self.alone:
            return self.counter.number(np.ones(len(table), bool), None)
        columns = {role: _column(name, table.column(name)) for role, name in self.names.items()}
        try:
            ends = np.logical_or.reduce([columns[role].flags() for role in ENDS if role in columns])
            t = columns["t"].times()[0] if "t" in columns else None
        except InputError as error:
            raise InputError(f"{error} Row 0 there is row {self.counter.rows} of the log.") from None
        return self.counter.number(ends, t)


def _column(name: str, values: Any) -> Column:
    piece = arrow_piece(name, values)
    return Column(name, piece.values, piece.missing, piece.labels, arrow_kind(values.type))


def ids_of(table: Any, column: str) -> NDArray[Any]:
    """Episode ids of an Arrow table."""
    piece = arrow_piece(column, table.column(column))
    real = piece.values.dtype.kind == "f"
    if piece.missing is not None or (real and not np.isfinite(piece.values).all()):
        raise InputError(f"column {column!r} has missing episode ids: drop such rows or fill the ids in.")
    if piece.values.ndim != 1:
        raise InputError(f"column {column!r} must contain one episode id per row.")
    if real:
        refuse_merged(column, piece.values)
    if piece.labels is None:
        return piece.values
    refuse_cut_text(column, piece.labels)
    return np.asarray(np.asarray(piece.labels)[piece.values])


ROWS_OF_A_BUCKET = 500_000


def bring_together(
    survey: Survey, by: list[str], columns: Sequence[str], folder: Path, progress: Progress | None = None
) -> list[Path]:
    """Rewrite these columns to files in a folder in which the rows of every episode are together and sorted.

    The first sort column is the episode. Rows that are equal in all sort columns keep their order.
    """
    count = max(1, -(-survey.rows // ROWS_OF_A_BUCKET))
    raw = [folder / f"raw-{k:06d}.parquet" for k in range(count)]
    _into_buckets(survey, by[0], columns, raw, progress)
    made = []
    for k, path in enumerate(raw):
        if path.exists():
            made.append(_sorted(path, by, folder / f"episodes-{k:06d}.parquet"))
            path.unlink()
        if progress:
            progress(survey.rows + (k + 1) * survey.rows // count, 2 * survey.rows)
    return made


def _into_buckets(
    survey: Survey, column: str, columns: Sequence[str], paths: list[Path], progress: Progress | None
) -> None:
    import pyarrow.parquet as pq

    writers: dict[int, Any] = {}
    done = 0
    with ExitStack() as stack:
        for file, stretch in _opened(survey.stretches):
            for rows in _read(file, stretch, 8 * BATCH, columns):
                bucket = (hash_of(ids_of(rows, column)) % np.uint64(len(paths))).astype(np.int64)
                order = np.argsort(bucket, kind="stable")
                edges = np.searchsorted(bucket[order], np.arange(len(paths) + 1))
                table = rows.take(order)
                for k in np.flatnonzero(np.diff(edges)).tolist():
                    if k not in writers:
                        writers[k] = stack.enter_context(pq.ParquetWriter(paths[k], table.schema))
                    writers[k].write_table(table.slice(edges[k], edges[k + 1] - edges[k]))
                done += len(rows)
                if progress:
                    progress(done, 2 * survey.rows)


def _sorted(path: Path, by: list[str], out: Path) -> Path:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    place = pa.array(np.arange(len(table)))  # Arrow's sort is not stable
    keys = pa.table([_decoded(table[name]) for name in by] + [place], names=[*by, "place"])
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    pq.write_table(table.take(order), out, row_group_size=4 * BATCH)
    return out


def _decoded(column: Any) -> Any:
    """A column that Arrow can sort: dictionary codes are decoded."""
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
