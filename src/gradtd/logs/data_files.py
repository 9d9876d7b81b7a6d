"""Files of nested data: JSON, JSON lines, NumPy's .npz and HDF5. Nothing in them is ever unpickled."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.checks import InputError
from gradtd.core.memory_limits import refuse_beyond_memory
from gradtd.core.parsing import whole_numbers
from gradtd.logs.column_names import listed, role_of
from gradtd.logs.nested import columns_of
from gradtd.logs.tables import Table

JSON = (".json", ".jsonl", ".ndjson")
HDF5 = (".h5", ".hdf5", ".hdf")
PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
"""The compression of a text file by its last suffix."""
DEEPEST = 20
"""Maximum depth of groups in an HDF5 file."""


AT_ONCE = 2**24
"""Number of bytes to decompress before the size is checked."""
JSON_TAKES = 6
"""Minimum memory for reading a JSON text, as a multiple of its size."""


def unpacked_suffix(path: Path) -> str:
    """The suffix that determines the format: .jsonl for log.jsonl.gz."""
    ending = path.suffix.lower()
    return Path(path.stem).suffix.lower() if ending in PACKED else ending


def is_data_file(path: Path) -> bool:
    """Whether the suffix is that of a nested format."""
    return unpacked_suffix(path) in (*JSON, *HDF5, ".npz")


def open_data_file(path: Path) -> Table | None:
    """The table in a file of nested data. None if the suffix is not that of such a file."""
    ending = unpacked_suffix(path)
    if ending in JSON:
        return _table(read_json(path), path)
    if ending == ".npz":
        return _table(_read_npz(path), path)
    if ending in HDF5:
        return _table(_read_hdf5(path), path)
    return None


def open_json_folder(folder: Path, paths: list[Path]) -> Table:
    """Several JSON files as one log, as RLlib writes them."""
    records: list[Any] = []
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path.name!r} in the folder {folder.name!r} is not a file: move it out of the folder.")
        found = read_json(path)
        records += found if isinstance(found, list) else [found]
    return _table(records, folder)


def _table(data: Any, path: Path) -> Table:
    found = columns_of(data)
    if found is None:
        raise InputError(f"{path.name!r} contains {type(data).__name__}, not rows, columns or episodes.")
    _refuse_packed(found.values, path)
    return found.table(path.name)


def _refuse_packed(columns: Mapping[str, Any], path: Path) -> None:
    """Refuse columns that RLlib compressed, because they contain pickles."""
    for name, values in columns.items():
        if role_of(name) in ("observation", "next_observation"):
            first = next(iter(values), None) if isinstance(values, list | np.ndarray) else values
            if isinstance(first, str) and first.startswith("BCJNGGhA"):
                raise InputError(
                    f"column {name!r} of {path.name!r} is compressed by RLlib as a pickle, and gradtd never "
                    'unpickles a log: write it with output_config={"compress_columns": []}.'
                )


def read_json(path: Path) -> Any:
    """The contents of a JSON file: one value, or one per line."""
    text = _text(path)
    try:
        return _records(json.loads(text, object_pairs_hook=_object))
    except RecursionError:
        raise InputError(f"{path.name!r} is nested too deeply to be a log.") from None
    except InputError as error:
        raise InputError(f"{path.name!r}: {error}") from None
    except ValueError as error:
        whole = error
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) < 2:
        raise InputError(f"{path.name!r} cannot be read as JSON; it may be damaged or truncated: {whole}.") from None
    found = []
    for number, line in lines:
        try:
            found.append(json.loads(line, object_pairs_hook=_object))
        except InputError as error:
            raise InputError(f"{path.name!r}, line {number}: {error}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path.name!r} cannot be read as JSON; it may be damaged or truncated: line {number}: {error}."
            ) from None
    return found


def _text(path: Path) -> str:
    import pyarrow as pa

    packed = PACKED.get(path.suffix.lower())
    try:
        with pa.OSFile(str(path)) as file:
            raw = _unpacked(pa.CompressedInputStream(file, packed), path) if packed else file.read()
        return str(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InputError(f"{path.name!r} is not UTF-8: save the file with that encoding.") from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path.name!r} cannot be read; it may be damaged or truncated: {error}.") from None


def _unpacked(stream: Any, path: Path) -> bytes:
    """Decompress a file. A file that would not fit into memory is refused first."""
    parts: list[bytes] = []
    size = 0
    while part := stream.read(AT_ONCE):
        parts.append(part)
        size += len(part)
        # Memory for the bytes, the decoded text and the parsed objects.
        refuse_beyond_memory(
            JSON_TAKES * size, f"{path.name!r}, unpacked,", "write it as Parquet, which is read in parts"
        )
    return b"".join(parts)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Duplicate names are refused, since the intended value is unknown."""
    found = dict(pairs)
    if len(found) < len(pairs):
        again = next(name for k, (name, _) in enumerate(pairs) if name in dict(pairs[:k]))
        raise InputError(f"the name {again!r} occurs twice in one object: give each value a different name.")
    return found


def _records(data: Any) -> Any:
    """pandas' JSON layouts: columns of numbered rows, or the three parts of "split"."""
    if not isinstance(data, dict):
        return data
    if set(data) >= {"columns", "data"} and isinstance(data["data"], list):
        names, rows = data["columns"], data["data"]
        if not isinstance(names, list) or any(not isinstance(row, list) or len(row) != len(names) for row in rows):
            raise InputError("every row of data must be a list with one entry for each of the columns.")
        return [_object(list(zip(map(str, names), row, strict=True))) for row in rows]
    values = list(data.values())
    by_number = all(isinstance(one, dict) and one and whole_numbers(one) is not None for one in values)
    if by_number and any(role_of(name) for name in data):
        rows = sorted(values[0], key=int)
        for name, one in data.items():  # rows are ordered by their number
            if one.keys() != values[0].keys():
                raise InputError(
                    f"the column {name!r} has different row numbers from {next(iter(data))!r}: give all columns the "
                    f"same rows."
                )
        return {name: [one[row] for row in rows] for name, one in data.items()}
    return data


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path) as members:
            size = sum(member.file_size for member in members.infolist())
            if len(set(names := members.namelist())) < len(names):
                raise InputError(
                    f"{path.name!r} has two arrays with the same name: {listed(names)}. Save it again with distinct "
                    f"names."
                )
        refuse_beyond_memory(size, f"{path.name!r}, unpacked,", "write it as Parquet, which is read in parts")
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except InputError:
        raise
    except ValueError as error:
        if "pickle" not in str(error).lower():
            raise InputError(f"{path.name!r} cannot be read as .npz; it may be damaged: {_gist(error)}.") from None
        raise InputError(
            f"{path.name!r} contains pickled objects, which gradtd does not load. If you trust the file, convert it: "
            f"gradtd.read_log(dict(numpy.load({path.name!r}, allow_pickle=True)))."
        ) from None
    except Exception as error:
        raise InputError(f"{path.name!r} cannot be read as .npz; it may be damaged: {_gist(error)}.") from None


def _read_hdf5(path: Path) -> Any:
    try:
        import h5py
    except ImportError:
        raise InputError(f"{path.name!r} is HDF5, which needs h5py: pip install h5py.") from None
    try:
        with h5py.File(path, "r") as file:
            found = _group(file, h5py, 0)
    except InputError:
        raise
    except Exception as error:  # h5py raises many types of errors on damaged files
        raise InputError(
            f"{path.name!r} cannot be read as HDF5; it may be damaged or truncated: {_gist(error)}."
        ) from None
    return _numbered(found)


def _group(group: Any, h5py: Any, depth: int) -> dict[str, Any]:
    """Groups as dictionaries. Links to other files are ignored."""
    if depth > DEEPEST:
        raise InputError("the file's groups are nested too deeply for a log. Write a flatter file.")
    found: dict[str, Any] = {}
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            continue
        item = group[name]
        if isinstance(item, h5py.Group):
            found[name] = _group(item, h5py, depth + 1)
        elif isinstance(item, h5py.Dataset) and item.external is None and not item.is_virtual:
            text = h5py.check_string_dtype(item.dtype) is not None
            advice = "write it as Parquet, which is read in parts"
            refuse_beyond_memory(float(item.size or 0) * item.dtype.itemsize, f"the array {name!r}", advice)
            found[name] = np.asarray(item.asstr()[()] if text else item[()])
            if text:
                found[name] = found[name].astype(str)
    return found


def _numbered(found: dict[str, Any]) -> Any:
    """Collects numbered arrays (observations_0, rewards_0, ...), as in d3rlpy's ReplayBuffer files, into episodes."""
    if "rewards_0" not in found or "rewards" in found:
        return found
    stems = [name[:-2] for name in found if name.endswith("_0")]
    count = sum(name.startswith("rewards_") for name in found)
    return [{stem: found[f"{stem}_{k}"] for stem in stems if f"{stem}_{k}" in found} for k in range(count)]


def _gist(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")[:300] or type(error).__name__
