"""A common interface for tables: named columns, read in pieces of about ten thousand rows.

Pieces keep memory small: the reader copies each piece to its final place and frees it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gradtd.core.checks import InputError
from gradtd.logs.column_names import listed

PIECE = 16_384
"""Rows per piece."""


class Piece(NamedTuple):
    """Consecutive rows of a column: numbers (rows,) or (rows, k), or codes into ``labels`` if it is text.

    ``ordered`` says that the labels are ordered categories.
    """

    values: NDArray[Any]
    missing: NDArray[np.bool_] | None = None
    labels: tuple[str, ...] | None = None
    ordered: bool = False


class Table(Protocol):
    """Named columns. ``kinds`` maps a column to whole, real, truth, text, time, list, nested or object.

    ``sure`` says whether all values of a column of type whole are known to be whole.
    """

    name: str
    kinds: dict[str, str]
    sure: bool

    def pieces(self, columns: Sequence[str]) -> Iterator[dict[str, Piece]]: ...


class ArrayTable:
    """A dictionary of arrays, such as d4rl's. Nested dictionaries are ignored.

    ``notes`` describe how its columns were made, and ``warnings`` the guesses.
    """

    sure = True
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __init__(self, source: Mapping[Any, Any], name: str = "arrays") -> None:
        self.name = name
        self.arrays = {str(key): _array(source, key) for key in source}
        self.kinds = {key: "nested" if a is None else _array_kind(a) for key, a in self.arrays.items()}

    def pieces(self, columns: Sequence[str]) -> Iterator[dict[str, Piece]]:
        chosen = {name: self._column(name) for name in columns}
        lengths = {name: len(values) for name, values in chosen.items()}
        rows = next(iter(lengths.values()), 0)
        for name, length in lengths.items():
            if length != rows:
                first = next(iter(lengths))
                raise InputError(f"all columns need the same length: {first!r} has {rows}, {name!r} has {length}.")
        for begin in range(0, rows, PIECE):
            yield {name: _numpy_piece(name, values[begin : begin + PIECE]) for name, values in chosen.items()}

    def _column(self, name: str) -> NDArray[Any]:
        array = self.arrays[name]
        if array is None or array.dtype.kind not in "biufUM" or array.ndim == 0:
            what = "something nested" if array is None else f"{array.dtype} of shape {array.shape}"
            if array is not None and array.dtype == object:
                what = "values of several kinds or lengths"
            raise InputError(f"column {name!r} must be an array of numbers or text, one entry per row, got {what}.")
        return array.reshape(len(array), -1) if array.ndim > 2 else array


def _array(source: Mapping[Any, Any], key: Any) -> NDArray[Any] | None:
    value = plain_array(source[key])
    if isinstance(value, Mapping):
        return None
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype.kind == "O"):
        refuse_cut_text(str(key), value)
    if isinstance(value, list | tuple) and 0 < sum(isinstance(one, str) for one in value if one is not None) < sum(
        one is not None for one in value
    ):
        return np.array([*value, None], object)[:-1]  # NumPy would turn numbers into text, and merge the ids 1 and "1"
    try:
        array = np.asanyarray(value) if np.ma.isMA(value) else np.asarray(value)
    except ValueError:  # rows of different lengths, or None among them
        array = np.empty(len(value), object)
        array[:] = value
    return _of_objects(array) if array.dtype == object and array.ndim else array


def plain_array(value: Any) -> Any:
    """Turn a tensor into an array. Any other value is returned unchanged."""
    if hasattr(value, "detach"):
        value = value.detach()
    return value.cpu().numpy() if hasattr(value, "cpu") and hasattr(value, "numpy") else value


def _of_objects(array: NDArray[Any]) -> NDArray[Any]:
    """Turn Python values into numbers, text or lists. None is missing. Mixed types are unchanged."""
    gone = np.array([one is None for one in array.reshape(len(array), -1).T[0]])
    there = [one for one, lost in zip(array, gone, strict=True) if not lost]
    if array.ndim > 1 or not there:
        return array if there else np.full(len(array), np.nan)
    if len({isinstance(one, str) for one in there}) > 1:
        return array
    try:
        known = np.array(there)
    except ValueError:
        return array
    if known.dtype.kind not in "biufUM":
        return array
    filled = np.zeros((len(array), *known.shape[1:]), known.dtype)
    filled[~gone] = known
    mask = np.broadcast_to(gone.reshape(-1, *[1] * (known.ndim - 1)), filled.shape)
    return np.ma.MaskedArray(filled, mask) if gone.any() else filled


def _array_kind(array: NDArray[Any]) -> str:
    if array.ndim > 1:
        return "list"
    return {"b": "truth", "i": "whole", "u": "whole", "f": "real", "U": "text", "M": "time"}.get(
        array.dtype.kind, "object"
    )


def _numpy_piece(name: str, values: NDArray[Any]) -> Piece:
    if isinstance(values, np.ma.MaskedArray):
        return _masked_piece(name, values)
    if values.dtype.kind == "U":
        labels, codes = np.unique(values, return_inverse=True)
        return Piece(codes.astype(np.int64), None, tuple(labels.tolist()))
    if values.dtype.kind == "M":
        return Piece(values.astype(np.int64), np.isnat(values))
    return Piece(values)


def _masked_piece(name: str, values: np.ma.MaskedArray[Any, Any]) -> Piece:
    """Read a masked array. Masked values are missing. Rows of several numbers must be masked as a whole."""
    piece = _numpy_piece(name, np.asarray(values.data))
    masked = np.ma.getmaskarray(values).reshape(len(values), -1)
    missing: NDArray[np.bool_] = np.asarray(masked.all(axis=1))
    if (masked.any(axis=1) & ~missing).any():
        raise InputError(f"column {name!r} has rows that are masked in part: mask a row as a whole, or fill it.")
    if piece.missing is not None:
        missing |= piece.missing
    return Piece(piece.values, missing if missing.any() else None, piece.labels)


class FrameTable:
    """A pandas or polars frame, or an Arrow table, read through Arrow."""

    sure = True

    def __init__(self, frame: Any, name: str = "frame") -> None:
        import pyarrow as pa

        self.name, self.columns, self.index = name, {}, None
        self.ordered: frozenset[str] = frozenset()
        self.by_letters: frozenset[str] = frozenset()  # categories from astype("category"), without a chosen order
        if not isinstance(frame, pa.Table) and not type(frame).__module__.startswith("polars"):
            self._from_pandas(frame)
        else:
            table, unknown = (frame, []) if isinstance(frame, pa.Table) else _polars_table(frame)
            refuse_same_names(name, table.column_names)
            self.columns = dict(zip(table.column_names, table.columns, strict=True)) | dict.fromkeys(unknown)
        pairs = list(_without_structs(self.columns))
        refuse_same_names(name, [label for label, _ in pairs])
        self.columns = dict(pairs)
        self.kinds = {k: "object" if c is None else arrow_kind(c.type) for k, c in self.columns.items()}

    def _from_pandas(self, frame: Any) -> None:
        """Take the columns of a pandas frame, the order of its categories, and an index for matching policies."""
        import pyarrow as pa

        labels = [".".join(map(str, label)) if isinstance(label, tuple) else str(label) for label in frame.columns]
        refuse_same_names(self.name, labels)
        for position, label in enumerate(labels):
            try:
                self.columns[label] = pa.chunked_array([pa.array(frame.iloc[:, position], from_pandas=True)])
            except (pa.ArrowException, ValueError, TypeError, NotImplementedError, OverflowError):
                self.columns[label] = None  # refused only if it is used
        kinds = zip(labels, frame.dtypes, strict=True)
        categories = {label: kind for label, kind in kinds if type(kind).__name__ == "CategoricalDtype"}
        self.ordered = frozenset(categories)
        self.by_letters = frozenset(
            label
            for label, kind in categories.items()
            if not kind.ordered and list(kind.categories) == sorted(kind.categories)
        )
        self._take_index(frame, labels)
        plain = type(frame.index).__name__ == "RangeIndex" and (frame.index.start, frame.index.step) == (0, 1)
        self.index = None if plain else frame.index

    def _take_index(self, frame: Any, labels: Sequence[str]) -> None:
        """Turn named index levels into columns, as after set_index(["episode", "t"])."""
        import pyarrow as pa

        for level, name in enumerate(frame.index.names):
            if name is not None and str(name) not in labels:
                values = frame.index.get_level_values(level)
                try:
                    self.columns[str(name)] = pa.chunked_array([pa.array(values, from_pandas=True)])
                except (pa.ArrowException, ValueError, TypeError, NotImplementedError, OverflowError):
                    self.columns[str(name)] = None

    def pieces(self, columns: Sequence[str]) -> Iterator[dict[str, Piece]]:
        for name in columns:
            if self.columns[name] is None:
                raise InputError(f"column {name!r} of the frame has Python objects: convert it to numbers or text.")
        rows = len(self.columns[columns[0]]) if columns else 0
        for begin in range(0, rows, PIECE):
            pieces = {name: arrow_piece(name, self.columns[name].slice(begin, PIECE)) for name in columns}
            yield {k: piece._replace(ordered=True) if k in self.ordered else piece for k, piece in pieces.items()}


def _without_structs(columns: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Columns of records as one column per field, by dotted names: obs.x, obs.v."""
    from pyarrow import types

    for name, column in columns.items():
        if column is None or not types.is_struct(column.type):
            yield name, column
        else:
            fields = {f"{name}.{field.name}": part for field, part in zip(column.type, column.flatten(), strict=True)}
            yield from _without_structs(fields)


def _polars_table(frame: Any) -> tuple[Any, list[str]]:
    """An Arrow table of the supported columns, and the names of the others, which are refused if used."""
    whole = frame.collect() if hasattr(frame, "collect") else frame
    unknown = [name for name, kind in whole.schema.items() if str(kind) in ("Object", "Int128", "UInt128")]
    return whole.drop(unknown).to_arrow(), unknown


def refuse_merged(name: str, values: NDArray[Any]) -> None:
    """Refuse ids that are not exact: floats from 2**53 on, and unsigned integers beyond the signed range."""
    bits = min(np.finfo(values.dtype).nmant + 1, 53) if values.dtype.kind == "f" else 0  # 24 in single precision
    if bits and (np.abs(values, dtype=np.float64) >= 2.0**bits).any():
        raise InputError(
            f"column {name!r} contains numbers of 2**{bits} and more as floats, which are not exact: write them as "
            f"whole numbers to Parquet, or as text."
        )
    if values.dtype == np.uint64 and (values >= np.uint64(2**63)).any():
        raise InputError(f"column {name!r} contains numbers of 2**63 and more: use smaller numbers, or text.")


class Spellings:
    """The numbers of a column and their spellings. Only spellings such as 007 are kept as text."""

    def __init__(self, column: str) -> None:
        self.column = column
        self.plain: list[NDArray[Any]] = []
        self.odd: dict[float, str] = {}

    def numbers(self, coded: Any, kind: Any) -> Any:
        """Convert coded text to numbers of this type."""
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow import csv

        words = pc.utf8_trim_whitespace(coded.dictionary)
        none = pc.is_in(words, pa.array(csv.ConvertOptions().null_values))
        words = pc.if_else(none, pa.scalar(None, pa.string()), words)
        numbers = words.cast(kind)
        refuse_merged(self.column, numbers.drop_null().to_numpy(zero_copy_only=False))
        plain = pc.equal(numbers.cast(pa.int64(), safe=False).cast(pa.string()), words).fill_null(True)
        self.plain.append(numbers.filter(pc.and_kleene(plain, numbers.is_valid())).to_numpy(zero_copy_only=False))
        odd = pc.invert(plain)
        for number, word in zip(numbers.filter(odd).to_pylist(), words.filter(odd).to_pylist(), strict=True):
            if self.odd.setdefault(number, word) != word:
                self._refuse(self.odd[number], word)
        return numbers.take(coded.indices)

    def refuse_met_again(self) -> None:
        """Refuse a number that was written as 007 in one row and as 7 in another."""
        plain = np.concatenate([np.zeros(0), *self.plain]) if self.odd else np.zeros(0)
        for number in np.intersect1d(plain, list(self.odd)).tolist():
            self._refuse(self.odd[number], str(int(number)))

    def _refuse(self, word: str, other: str) -> None:
        raise InputError(
            f"column {self.column!r} has one number in two spellings, {word!r} and {other!r}: write ids in one way, "
            f"or put a letter before them if they are different ids."
        )


def refuse_cut_text(name: str, values: Any) -> None:
    """Refuse text that ends in NUL characters, which NumPy drops, so that two ids could become one."""
    if any(isinstance(one, str) and one.endswith("\0") for one in values):
        raise InputError(f"column {name!r} contains text that ends in a NUL character, which arrays drop: remove it.")


def refuse_same_names(name: str, columns: Sequence[str]) -> None:
    """Refuse several columns with the same name."""
    if len(set(columns)) < len(columns):
        raise InputError(f"{name!r} has several columns with the same name: {listed(columns)}. Rename them.")


def with_column(table: Any, name: str, values: NDArray[Any]) -> Any:
    """An Arrow table with this column added or replaced."""
    import pyarrow as pa

    at = table.schema.get_field_index(name)
    return table.append_column(name, pa.array(values)) if at < 0 else table.set_column(at, name, pa.array(values))


def arrow_kind(kind: Any) -> str:
    """The type of a column with this Arrow type."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return arrow_kind(kind.value_type)
    if types.is_boolean(kind):
        return "truth"
    if types.is_integer(kind) or (types.is_decimal(kind) and kind.scale <= 0):
        return "whole"
    if types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind):
        return "real"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_temporal(kind) and not types.is_interval(kind):
        return "time"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return "list" if arrow_kind(kind.value_type) in ("whole", "real", "truth", "list") else "nested"
    return "nested"


def arrow_piece(name: str, column: Any) -> Piece:
    """Consecutive rows of an Arrow column as numbers or codes."""
    import pyarrow as pa

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # returned by older releases for several chunks
        array = pa.concat_arrays(array.chunks)
    kind = arrow_kind(array.type)
    if kind == "nested":
        raise InputError(f"column {name!r} must contain numbers, text or lists of numbers, got {array.type}.")
    if pa.types.is_dictionary(array.type) and (kind != "text" or array.dictionary.null_count):
        array = array.dictionary_decode()
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if kind == "list":
        return _list_piece(name, array, missing)
    if kind == "text":
        coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return Piece(codes, missing, tuple(coded.dictionary.to_pylist()), bool(coded.type.ordered))
    if pa.types.is_null(array.type):
        return Piece(np.zeros(len(array)), missing)
    if kind == "time":
        array = array.cast(
            pa.int32() if pa.types.is_date32(array.type) or pa.types.is_time32(array.type) else pa.int64()
        )
    if pa.types.is_decimal(array.type):
        try:
            array = array.cast(pa.int64() if kind == "whole" else pa.float64())
        except pa.ArrowInvalid:
            raise InputError(f"column {name!r} contains whole numbers beyond 64 bits: convert it to text.") from None
    if missing is not None:
        array = array.fill_null(False if kind == "truth" else 0)
    return Piece(_flags(array) if kind == "truth" else array.to_numpy(zero_copy_only=False), missing)


def _flags(array: Any) -> NDArray[np.bool_]:
    """Truth values, unpacked from Arrow's bits."""
    if not len(array):
        return np.zeros(0, bool)
    bits = np.frombuffer(array.buffers()[1], np.uint8)
    first, skipped = divmod(array.offset, 8)
    bits = bits[first : first + -(-(skipped + len(array)) // 8)]
    return np.unpackbits(bits, bitorder="little")[skipped : skipped + len(array)].view(np.bool_)


def _list_piece(name: str, array: Any, missing: NDArray[np.bool_] | None) -> Piece:
    """Lists of equal length as a matrix. Nested lists, such as images, are flattened."""
    import pyarrow.compute as pc

    inner, width = array if missing is None else array.drop_null(), 1
    while arrow_kind(inner.type) == "list":
        lengths = pc.unique(pc.list_value_length(inner)).to_pylist()
        if len(lengths) > 1 or lengths in ([0], [None]):
            raise InputError(
                f"the lists in column {name!r} must have the same length, got {listed(sorted(lengths, key=str))}."
            )
        width *= lengths[0] if lengths else 1
        inner = inner.flatten()
    flat = inner.to_numpy(zero_copy_only=False).reshape(-1, width)
    if missing is None:
        return Piece(flat)
    values = np.zeros((len(array), width))
    values[~missing] = flat
    return Piece(values, missing)
