"""Opens every kind of source as a table: paths, frames, arrays, nested data, datasets and buffers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.core.checks import InputError
from gradtd.logs.files import open_path
from gradtd.logs.minari_data import MinariTable, is_dataset, is_dataset_id
from gradtd.logs.nested import open_data, open_mapping
from gradtd.logs.tables import FrameTable, Table


def open_table(source: Any) -> Table:
    """The table for any supported source."""
    try:
        return _open(source)
    except RecursionError:
        raise InputError("the data are nested too deeply for a log. Give a dictionary of arrays.") from None
    except OSError as error:  # an invalid file name
        raise InputError(f"cannot read {str(source)[:80]!r}: {error.strerror or error}.") from None


def _open(source: Any) -> Table:
    if isinstance(source, str) and is_dataset_id(source) and not Path(source).exists():
        return MinariTable(source)
    if isinstance(source, (str, os.PathLike)):
        return open_path(Path(source))
    if hasattr(source, "pieces") and hasattr(source, "kinds"):  # already open
        return source  # type: ignore[no-any-return]
    if isinstance(source, Mapping):
        return open_mapping(source)
    if is_dataset(source):
        return MinariTable(source)
    kind = type(source)
    library = kind.__module__.split(".")[0]
    if (library in ("pandas", "polars") and kind.__name__ in ("DataFrame", "LazyFrame")) or (
        library == "pyarrow" and kind.__name__ == "Table"
    ):
        return FrameTable(source)
    if (found := open_data(source, kind.__name__ if library != "builtins" else "data")) is not None:
        return found
    # A RecordBatch, a Hugging Face Dataset, a DuckDB relation. A Series is a single column and refused.
    if hasattr(source, "to_pandas") and hasattr(frame := source.to_pandas(), "columns"):
        return FrameTable(frame)
    raise InputError(
        "a log is read from a path, a pandas or polars frame, an Arrow table, a dictionary of arrays, a list of steps "
        f"or episodes, a Minari dataset or a replay buffer, got {kind.__name__}: {_conversion(source)}"
    )


def _conversion(source: Any) -> str:
    """A line of code that converts an unsupported source."""
    if isinstance(source, np.ndarray):
        columns = 'columns=["x", "v", "action", "reward", "done"]'
        return f"name its columns, gradtd.read_log(pandas.DataFrame(array, {columns}), ...)."
    if hasattr(source, "compute"):
        return "gradtd.read_log(frame.compute()), or write it as Parquet."
    if hasattr(source, "__next__") or hasattr(source, "__iter__"):
        return "gradtd.read_log(list(source)), with one dictionary per step."
    return 'give a dictionary of arrays, {"episode": ..., "observation": ..., "action": ..., "reward": ...}.'
