"""Tables on disk: Parquet files and folders, CSV. See data_files for nested formats. Nothing is unpickled."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.checks import InputError
from gradtd.core.parsing import by_number
from gradtd.logs.column_names import listed
from gradtd.logs.data_files import JSON, PACKED, open_data_file, open_json_folder, unpacked_suffix
from gradtd.logs.tables import PIECE, Piece, Spellings, Table, arrow_kind, arrow_piece

Casts = tuple[tuple[str, Any], ...]
"""Columns and the Arrow types to cast them to."""
PARQUET = (".parquet", ".pq")
NO_TEXT = {"strings_can_be_null": True, "quoted_strings_can_be_null": False}  # as pandas writes missing text
MARK = b"gradtd columns"
"""Metadata key of the digest of the column list, which Parquet's page checksums do not protect."""
BLOCK = 1 << 22
"""Block size for reading CSV files, in bytes."""
CONVERT = {
    ".pkl": "pandas.read_pickle({0!r})",
    ".pickle": "pandas.read_pickle({0!r})",
    ".joblib": "joblib.load({0!r})",
    ".pt": "torch.load({0!r})",
    ".pth": "torch.load({0!r})",
    ".npy": "dict(zip(names, numpy.load({0!r}).T))",
    ".xlsx": "pandas.read_excel({0!r})",
    ".xls": "pandas.read_excel({0!r})",
    ".tsv": "pandas.read_csv({0!r}, sep='\\t')",
    ".txt": "pandas.read_csv({0!r})",
    ".dat": "pandas.read_csv({0!r})",
    ".feather": "pandas.read_feather({0!r})",
    ".arrow": "pandas.read_feather({0!r})",
    ".ipc": "pandas.read_feather({0!r})",
    ".orc": "pandas.read_orc({0!r})",
    ".mat": "scipy.io.loadmat({0!r}, squeeze_me=True)",
    ".sas7bdat": "pandas.read_sas({0!r})",
    ".dta": "pandas.read_stata({0!r})",
    ".sav": "pandas.read_spss({0!r})",
    ".db": "pandas.read_sql('select * from log', 'sqlite:///{0}')",
    ".sqlite": "pandas.read_sql('select * from log', 'sqlite:///{0}')",
}
"""Unsupported formats, and code that loads them."""
_PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".pth")
_BY_THE_WAY = ("_SUCCESS", "_metadata", "_common_metadata")


def mark_of(schema: Any, rows: int) -> bytes:
    """A digest of the names and types of columns, and of the number of rows."""
    told = [*((field.name, str(field.type)) for field in schema), rows]
    return hashlib.sha256(repr(told).encode()).hexdigest().encode()


def open_path(path: Path) -> Table:
    """The table in a file or folder."""
    if not path.exists() and any(mark in str(path) for mark in "*?["):
        return ParquetTable(path.name, _matching(path))
    if not path.exists():
        raise InputError(f"there is no file or folder {str(path)!r}.")
    if path.is_dir():
        found = sorted(path.iterdir(), key=lambda one: by_number(one.name))
        paths = [one for one in found if not one.name.startswith(".") and one.name not in _BY_THE_WAY]
        if paths and all(unpacked_suffix(one) in JSON for one in paths):
            return open_json_folder(path, paths)
        return ParquetTable(path.name, _parquet_files(path))
    if not path.is_file():
        raise InputError(
            f"{str(path)!r} is a pipe or a device, which gradtd cannot read twice: save it to a file first."
        )
    ending = path.suffix.lower()
    if ending in PARQUET:
        return ParquetTable(path.name, [path])
    if unpacked_suffix(path) == ".csv":
        return CsvTable(path)
    if (table := open_data_file(path)) is not None:
        return table
    load = CONVERT.get(ending, "pandas.DataFrame(...)").format(path.name)
    why = " may contain pickled objects, which gradtd does not load" if ending in _PICKLES else " is not read directly"
    raise InputError(
        f"{path.name!r}{why}. gradtd reads .parquet, .csv, .json, .jsonl, .npz and .h5 files and folders of Parquet or "
        f"JSON files. Load it yourself: gradtd.read_log({load})."
    )


def _number(told: Any) -> float:
    """A number from a file's statistics, where half-precision numbers are stored as bytes."""
    return float(np.frombuffer(told, np.float16)[0] if isinstance(told, bytes) else told)


def _matching(pattern: Path) -> list[Path]:
    """Parquet files that match a pattern, sorted by the numbers in their names."""
    found = [Path(name) for name in sorted(glob(str(pattern), recursive=True), key=by_number)]
    if not found:
        raise InputError(f"no file matches the pattern {str(pattern)!r}: check the folder and the pattern.")
    for path in found:
        if path.suffix.lower() not in PARQUET or not path.is_file():
            raise InputError(
                f"the pattern {pattern.name!r} must match only Parquet files, but also matches "
                f"{path.name!r}: make it narrower."
            )
    return found


def _parquet_files(folder: Path) -> list[Path]:
    found = []
    for path in sorted(folder.iterdir(), key=lambda p: by_number(p.name)):
        if path.name.startswith(".") or path.name in _BY_THE_WAY:
            continue
        if path.suffix.lower() not in PARQUET or not path.is_file():
            raise InputError(
                f"the folder {folder.name!r} must contain only Parquet files, but has {path.name!r}: move that "
                f"file out."
            )
        found.append(path)
    if not found:
        raise InputError(f"the folder {str(folder)!r} has no Parquet file.")
    return found


class ParquetTable:
    """One or more Parquet files, read in batches."""

    sure = True

    def __init__(self, name: str, paths: list[Path]) -> None:
        self.name, self.paths = name, paths
        self.kinds: dict[str, str] = {}
        found: dict[str, dict[Any, Path]] = {}
        for path in paths:
            fields = reading(path, self._fields, path)
            here = {field.name: arrow_kind(field.type) for field in fields}
            if len(here) < len(fields):
                raise InputError(
                    f"{path.name!r} has several columns with the same name: {listed(field.name for field in fields)}."
                )
            for field in fields:
                found.setdefault(field.name, {}).setdefault(field.type, path)
            self.kinds = self.kinds or here
            if missing := set(self.kinds) - set(here):
                raise InputError(f"{path.name!r} lacks the column {min(missing)!r} that {paths[0].name!r} has.")
            for column, kind in self.kinds.items():
                if {kind, here[column]} == {"whole", "real"}:
                    self.kinds[column] = "real"
                elif kind != here[column]:
                    raise InputError(
                        f"column {column!r} is {kind} in {paths[0].name!r}, {here[column]} in {path.name!r}."
                    )
        self.casts = tuple(
            (column, common_type(column, kind, found[column]))
            for column, kind in self.kinds.items()
            if len(found[column]) > 1 and kind != "nested"
        )
        """Casts for columns whose Arrow type differs between files."""

    def _fields(self, path: Path) -> list[Any]:
        with self._open(path) as file:
            schema = file.schema_arrow
            said = (schema.metadata or {}).get(MARK)
            if said is not None and said != mark_of(schema, file.metadata.num_rows):
                raise ValueError("its list of columns differs from the one that was written")
            return list(schema)

    @staticmethod
    def _open(path: Path) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        # An open file, since Arrow takes a name with a colon for a URL. Without the two options, Arrow keeps the whole
        # file in memory. Files from write_log have checksums, so that damage is detected.
        file = pa.OSFile(str(path))
        return pq.ParquetFile(file, buffer_size=1 << 18, pre_buffer=False, page_checksum_verification=True)

    def size(self) -> int:
        """Approximate size: rows times columns."""
        return sum(sum(self.group_sizes(path)) for path in self.paths) * len(self.kinds)

    def ranges(self, columns: Sequence[str]) -> Any:
        """Minimum and maximum of these columns (two rows) from the files' statistics, or None if not stored."""
        low, high = np.full(len(columns), np.inf), np.full(len(columns), -np.inf)
        for path in self.paths:
            with reading(path, self._open, path) as file:
                names = file.schema_arrow.names
                for group in range(file.metadata.num_row_groups if set(columns) <= set(names) else 0):
                    told = file.metadata.row_group(group)
                    if told.num_columns != len(names):
                        return None
                    for k, name in enumerate(columns):
                        stats = told.column(names.index(name)).statistics
                        if stats is None or not stats.has_min_max:
                            return None
                        least, most = _number(stats.min), _number(stats.max)
                        low[k], high[k] = min(low[k], least), max(high[k], most)
        return np.array([low, high]) if np.isfinite([low, high]).all() else None

    def entries(self, columns: Sequence[str]) -> int:
        """The number of values in these columns, including those of lists. A tiny file may expand to any number of
        values."""
        lists = {name for name in columns if self.kinds[name] == "list"}
        total = sum(sum(self.group_sizes(path)) for path in self.paths) * (len(set(columns)) - len(lists))
        for path in self.paths if lists else ():
            with reading(path, self._open, path) as file:
                groups = (file.metadata.row_group(k) for k in range(file.metadata.num_row_groups))
                parts = (group.column(k) for group in groups for k in range(group.num_columns))
                total += sum(part.num_values for part in parts if part.path_in_schema.split(".")[0] in lists)
        return total

    def pieces(self, columns: Sequence[str]) -> Iterator[dict[str, Piece]]:
        rows = min(PIECE, max(1024, 2**18 // max(len(columns), 1)))  # about 2 MB at a time
        for path in self.paths:
            with reading(path, self._open, path) as file:
                for batch in batches_of(file, path, rows, columns, self.casts):
                    yield reading(path, _pieces, batch, columns)

    @classmethod
    def group_sizes(cls, path: Path) -> list[int]:
        """Number of rows of each row group."""
        with reading(path, cls._open, path) as file:
            told = file.metadata
            return [told.row_group(group).num_rows for group in range(told.num_row_groups)]


class CsvTable:
    """A CSV file with a header, read in blocks.

    Types come from the first block. Whole numbers are read as floats, since a later block may contain 0.5, unless they
    are too large for a float. A column that is empty in the first block may contain numbers later.
    """

    sure = False

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self.name, self.path = path.name, path
        _refuse_other_headers(path)
        first = reading(path, self._first_block)
        fields = first.schema
        names = reading(path, lambda: list(fields.names))  # a name that spans two lines may not be UTF-8
        if len(set(names)) < len(names):
            raise InputError(f"{path.name!r} has several columns with the same name: {listed(names)}.")
        self.kinds = {field.name: arrow_kind(field.type) for field in fields}
        self.types = {field.name: field.type for field in fields}
        for field in fields:
            if pa.types.is_null(field.type) or (self.kinds[field.name] == "whole" and _fits(first[field.name])):
                self.types[field.name] = pa.float64()
        self._ids: set[str] = set()

    def keep_apart(self, name: str) -> None:
        """Refuse a column with numbers written in two ways, such as 007 and 7, because they may be two ids."""
        if self.kinds[name] in ("whole", "real"):
            self._ids.add(name)

    def _stream(self) -> Any:
        """The open file, decompressed according to its name."""
        import pyarrow as pa

        packed = PACKED.get(self.path.suffix.lower())
        return pa.CompressedInputStream(pa.OSFile(str(self.path)), packed) if packed else pa.OSFile(str(self.path))

    def _first_block(self) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        # Threads would also read later blocks.
        with csv.open_csv(self._stream(), csv.ReadOptions(block_size=BLOCK, use_threads=False)) as reader:
            try:
                return reader.read_next_batch()
            except StopIteration:
                return pa.RecordBatch.from_pylist([], schema=reader.schema)

    def pieces(self, columns: Sequence[str]) -> Iterator[dict[str, Piece]]:
        import pyarrow as pa
        from pyarrow import csv

        apart = {name: Spellings(name) for name in columns if name in self._ids}
        text = dict.fromkeys(apart, pa.dictionary(pa.int32(), pa.string()))

        def ids(name: str, column: Any) -> Any:
            return apart[name].numbers(column, self.types[name]) if name in apart else column

        options = csv.ConvertOptions(column_types=self.types | text, include_columns=list(columns), **NO_TEXT)
        blocks = csv.ReadOptions(block_size=BLOCK, use_threads=False)
        reader = reading(self.path, lambda: csv.open_csv(self._stream(), read_options=blocks, convert_options=options))
        with reader:
            while (batch := reading(self.path, next, reader, None)) is not None:
                yield reading(self.path, lambda: {n: arrow_piece(n, ids(n, batch.column(n))) for n in columns})
        for one in apart.values():
            one.refuse_met_again()


def _refuse_other_headers(path: Path) -> None:
    """Check that the header is UTF-8 and separated by commas."""
    if path.suffix.lower() in PACKED:
        return
    with reading(path, path.open, "rb") as file:
        header = file.readline(BLOCK)
    try:
        header.decode()
    except UnicodeDecodeError:
        raise InputError(f"the header of {path.name!r} is not UTF-8: save the file with that encoding.") from None
    other = next((name for mark, name in ((b";", "semicolons"), (b"\t", "tabs")) if mark in header), None)
    if other and b"," not in header:
        sign = ";" if other == "semicolons" else "\\t"
        raise InputError(
            f"the header of {path.name!r} is separated by {other}: save the file with commas, or load it "
            f"yourself: gradtd.read_log(pandas.read_csv({path.name!r}, sep='{sign}'))."
        )


def _fits(column: Any) -> bool:
    """Whether floats represent these whole numbers exactly."""
    values = column.drop_null().to_numpy(zero_copy_only=False)
    return not len(values) or int(np.abs(values).max()) < 2**53


def _pieces(batch: Any, columns: Sequence[str]) -> dict[str, Piece]:
    return {name: arrow_piece(name, batch.column(name)) for name in columns}


UNITS = ("s", "ms", "us", "ns")


def common_type(column: str, kind: str, found: Mapping[Any, Path]) -> Any:
    """One Arrow type for a column whose type differs between files. ``found`` maps each type to a file that has it."""
    import pyarrow as pa
    from pyarrow import types

    if kind != "time":
        known = {"real": pa.float64(), "whole": pa.int64(), "truth": pa.bool_(), "text": pa.string()}
        return known.get(kind, pa.list_(pa.float64()))
    # Times are compared as whole numbers, so all files need one unit. The finest unit loses nothing.
    families = {"timestamp": types.is_timestamp, "time": types.is_time, "duration": types.is_duration}
    family = {one: next((name for name, is_one in families.items() if is_one(one)), "timestamp") for one in found}
    if len(set(family.values())) > 1:
        several = " and ".join(f"{one} in {path.name!r}" for one, path in found.items())
        raise InputError(f"column {column!r} is {several}: write the same type of time to all files.")
    unit = max((getattr(one, "unit", "ms") for one in found), key=UNITS.index)  # dates have a unit of days or ms
    if family.popitem()[1] == "time":
        return pa.time64("us" if unit in ("s", "ms") else unit)
    return pa.duration(unit) if types.is_duration(next(iter(found))) else pa.timestamp(unit)


def batches_of(
    file: Any,
    path: Path,
    rows: int,
    columns: Sequence[str],
    casts: Casts = (),
    group: int | None = None,
) -> Iterator[Any]:
    """Arrow tables of these columns of an open Parquet file, or of a row group of it, in the types of ``casts``.

    All Parquet reading goes through here, so columns, order and types are always the same.
    """
    import pyarrow as pa

    wanted, groups = dict(casts), None if group is None else [group]
    found = reading(path, partial(file.iter_batches, rows, row_groups=groups, columns=list(columns), use_threads=False))
    while (batch := reading(path, next, found, None)) is not None:
        arrays = (_cast(name, batch.column(name), wanted.get(name), path) for name in columns)
        yield pa.table(list(arrays), names=list(columns))  # without nullability, so that schemas match


def _cast(name: str, array: Any, kind: Any, path: Path) -> Any:
    import pyarrow as pa

    if kind is None and pa.types.is_string_view(array.type):
        kind = pa.string()  # a type that Arrow's take supports
    if kind is None or array.type == kind:
        return array
    try:
        return array.cast(kind)
    except pa.ArrowInvalid as error:
        gist = " ".join(str(error).split()).rstrip(".")
        raise InputError(
            f"column {name!r} of {path.name!r} cannot be converted to {kind}, its type in other files: {gist}."
        ) from None


def reading(path: Path, read: Callable[..., Any], *arguments: Any) -> Any:
    """Call ``read`` and turn any error of Arrow into one message about the file.

    On damaged files Arrow raises its own errors and Python's: UnicodeDecodeError, IndexError, MemoryError and others.
    """
    try:
        return read(*arguments)
    except InputError:
        raise
    except Exception as error:
        gist = " ".join(str(error).split()).rstrip(".")
        kind = "Parquet" if path.suffix.lower() in PARQUET else "CSV"
        raise InputError(f"{path.name!r} cannot be read as {kind}; it may be damaged or truncated: {gist}.") from None
