"""Validators, named after what they check. Each raises an error with one complete sentence.

They are used only at the public interface: inside the library values are trusted.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def printable(text: str, lines: bool = False) -> str:
    """A text without control characters and invisible characters, which are escaped as in Python.

    Names of columns, files and targets can contain anything. With ``lines`` line breaks stay.

    >>> printable("safe \x1b[2J name")
    'safe \\\\x1b[2J name'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or (lines and c == "\n") else ascii(c)[1:-1] for c in text)


class InputError(ValueError):
    """Invalid input, explained in one sentence: what was given, which values are allowed, what to do.

    With ``lines``, a list of such sentences, one per line.
    """

    def __init__(self, message: str, lines: bool = False) -> None:
        super().__init__(printable(message, lines))


class RowError(InputError):
    """Invalid input in one row of a table.

    ``row`` is its number, for a caller that knows the source of the table. ``clash`` says why two rows cannot belong to
    one episode, with ``{episode}`` in it, if that is the fault.
    """

    def __init__(self, message: str, row: int, clash: str = "") -> None:
        super().__init__(message)
        self.row, self.clash = row, clash

    def __reduce__(self) -> tuple[Any, ...]:  # workers send errors back pickled
        return type(self), (str(self), self.row, self.clash)


class Faults:
    """Collects the faults of a table and reports them in one message.

    >>> faults = Faults()
    >>> faults.add("there is no reward."); faults.add("there is no action.")
    >>> faults.raise_all()
    Traceback (most recent call last):
    ...
    gradtd.core.checks.InputError: the log has 2 faults:
    1. there is no reward.
    2. there is no action.
    """

    def __init__(self) -> None:
        self.errors: list[InputError] = []

    def add(self, message: str) -> None:
        self.errors.append(InputError(message))

    def attempt(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of ``work``, or None after recording the fault that it raised."""
        try:
            return work(*arguments)
        except InputError as error:
            if str(error) not in map(str, self.errors):
                self.errors.append(error)
        return None

    def raise_all(self) -> None:
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            numbered = (f"{k}. {error}" for k, error in enumerate(self.errors, 1))
            raise InputError("\n".join([f"the log has {len(self.errors)} faults:", *numbered]), lines=True)


class NeverLearnsError(InputError):
    """There is too little data for learning to start."""


def known_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return ``name`` if it is one of ``known``. Otherwise, raise an error that suggests the nearest spelling.

    >>> known_name("problem", "boyan_chian", ["boyan_chain", "baird"])
    Traceback (most recent call last):
    ...
    gradtd.core.checks.InputError: unknown problem 'boyan_chian': did you mean 'boyan_chain'? \
Known: baird, boyan_chain.
    """
    names = sorted(known)
    if name in names:
        return name
    near = difflib.get_close_matches(str(name).lower(), names, n=1, cutoff=0.5)
    hint = f" did you mean {near[0]!r}?" if near else ""
    raise InputError(f"unknown {kind} {name!r}:{hint} Known: {', '.join(names)}.")


MEANT = {"policy": "target", "discount": "gamma", "confidence": "level", "column": "columns", "data": "log"}
"""Argument names used by other libraries, and the names that gradtd uses."""


def meant_argument(name: str, known: Iterable[str]) -> str | None:
    """The argument with the nearest spelling or with the same meaning, or None.

    >>> meant_argument("featuers", ["target", "features"]), meant_argument("policy", ["target"])
    ('features', 'target')
    """
    names = list(known)
    if MEANT.get(name) in names:
        return MEANT[name]
    return next(iter(difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.7)), None)


def refuse_arguments(function: str, unknown: Iterable[str], known: Iterable[str]) -> None:
    """Refuse arguments that a function does not have, and suggest the intended one."""
    names = list(known)
    for name in unknown:
        near = meant_argument(name, names)
        hint = f"did you mean {near!r}?" if near else f"it takes {', '.join(names)}."
        raise InputError(f"{function} has no argument {name!r}: {hint}")


def number(name: str, value: Any) -> float:
    """A finite real number."""
    if isinstance(value, (bool, str)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InputError(f"{name} must be a number, got {value!r}.")
    try:
        found = float(value)
    except OverflowError:
        raise InputError(f"{name} must be at most 1.8e308 in size, got a larger number.") from None
    if not math.isfinite(found):
        raise InputError(f"{name} must be finite, got {value!r}.")
    return found


def number_above(name: str, value: Any, low: float) -> float:
    if number(name, value) <= low:
        raise InputError(f"{name} must be greater than {low:g}, got {value!r}.")
    return float(value)


def number_at_least(name: str, value: Any, low: float) -> float:
    if number(name, value) < low:
        raise InputError(f"{name} must be at least {low:g}, got {value!r}.")
    return float(value)


MOST = 10**12
"""The largest count allowed by default: no array has more entries, and sums of a few counts do not overflow."""


def whole_number(name: str, value: Any, low: int, high: int | None = None) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    allowed = f"at least {low}" if high is None else f"between {low} and {high}"
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(f"{name} must be a whole number, {allowed}; got {_digits(value)}.")
    if value < low or (high is not None and value > high):
        raise InputError(f"{name} must be {allowed}, got {_digits(value)}.")
    if high is None and value > MOST:
        raise InputError(f"{name} must be at most {MOST:.0e}, got {_digits(value)}.")
    return int(value)


def seed_number(value: Any, name: str = "seed") -> int:
    """A seed: a whole number that is not negative, of at most 128 bits."""
    return whole_number(name, value, 0, 2**128 - 1)


def _digits(value: Any) -> str:
    """The repr of a value. For a huge integer its number of bits, since Python refuses to print over 4300 digits."""
    return f"a number of {value.bit_length()} bits" if isinstance(value, int) and abs(value) > 2**256 else repr(value)


def one_of(name: str, value: Any, choices: Iterable[Any]) -> Any:
    allowed = list(choices)
    if not isinstance(value, (str, bool)) or value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(map(str, allowed))}; got {value!r}.")
    return value


def yes_or_no(name: str, value: Any) -> bool:
    """True or False, also as spelled on a command line."""
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def numeric_array(name: str, values: Any, ndim: int, what: str = "real numbers") -> NDArray[Any]:
    """An array of real numbers of the given dimension."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{name} must be an array of numbers, got rows of different lengths.") from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must be an array of {what}, got {array.dtype}.")
    if array.ndim != ndim:
        raise InputError(f"{name} must have {ndim} dimension{'s' * (ndim > 1)}, got shape {array.shape}.")
    return array


def whole_numbers(name: str, values: Any) -> NDArray[np.int64]:
    """A row of whole numbers."""
    array = numeric_array(name, values, 1, "whole numbers")
    if array.dtype.kind == "b":
        raise InputError(f"{name} must contain whole numbers, got truth values; np.flatnonzero makes numbers of them.")
    if array.dtype.kind == "f":
        refuse_where(name, ~(np.abs(array) < 2**53), array, "must contain whole numbers")
        refuse_where(name, array != np.floor(array), array, "must contain whole numbers")
    return array.astype(np.int64)


def finite_array(name: str, values: Any, ndim: int, narrow: bool = False) -> NDArray[np.float64]:
    """A C-contiguous, finite float64 array of the given dimension. With ``narrow``, float32 is also allowed."""
    array = numeric_array(name, values, ndim)
    array = np.ascontiguousarray(array, dtype=stored_kind(array.dtype) if narrow else np.float64)
    refuse_where(name, ~np.isfinite(array), array, "must be finite")
    return array


def refuse_where(name: str, bad: NDArray[np.bool_], values: NDArray[Any], rule: str) -> None:
    """Raise and name the first offending entry if any entry is ``bad``."""
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        index = ", ".join(map(str, where))
        more = int(bad.sum()) - 1
        others = f" (and {more} more)" if more else ""
        raise InputError(f"{name} {rule}: {name}[{index}] is {values[where]}{others}.")


def fraction(name: str, value: Any) -> float:
    """A number in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)) or not 0 <= value <= 1:
        raise InputError(f"{name} must be a number in [0, 1], got {_digits(value)}.")
    return float(value)


def fractions(name: str, values: Any) -> list[float]:
    """A list of numbers in [0, 1]. ``name`` is the name of one of them."""
    try:
        given = [] if isinstance(values, str) else list(values)
    except TypeError:
        given = []
    if not given and not isinstance(values, (list, tuple)):
        raise InputError(f"{name} must be a list of numbers in [0, 1] here, got {values!r}.")
    return [fraction(name, value) for value in given]


def probabilities(name: str, values: Any, ndim: int) -> NDArray[np.float64]:
    """Entries in [0, 1] that sum to one along the last axis."""
    array = finite_array(name, values, ndim)
    refuse_where(name, (array < 0) | (array > 1), array, "must lie in [0, 1]")
    sums = array.sum(axis=-1)
    if not np.allclose(sums, 1.0, rtol=0, atol=1e-9):
        where = np.unravel_index(int(np.abs(sums - 1).argmax()), sums.shape)
        index = "".join(f"{k}, " for k in where) + ":"
        raise InputError(f"{name} must sum to 1 along its last axis: {name}[{index}] sums to {float(sums[where])!r}.")
    return array


def picture_file(name: str, path: Path) -> Path:
    """A file for a plot: of a known type, in an existing folder."""
    return file_to_write(name, path, ".png", ".svg", ".pdf")


def file_to_write(name: str, path: Path, *endings: str) -> Path:
    """A file with one of these endings, in an existing writable folder."""
    if path.suffix.lower() not in endings:
        allowed = " or ".join([", ".join(endings[:-1])] * (len(endings) > 1) + [endings[-1]])
        raise InputError(f"{name} takes a file that ends in {allowed}, got {str(path)!r}.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{name}: there is no folder {str(path.absolute().parent)!r}.")
    if path.is_dir():
        raise InputError(f"{name} takes a file, and {str(path)!r} is a folder: give another name.")
    if not os.access(path.absolute().parent, os.W_OK):
        raise InputError(f"{name}: nothing can be written to the folder {str(path.absolute().parent)!r}: give another.")
    return path


def stored_kind(given: np.dtype[Any]) -> Any:
    """The type in which features are stored: float32 stays float32, everything else becomes float64."""
    return np.float32 if given == np.float32 else np.float64


def feature_table(features: Any, narrow: bool = False) -> Any:
    """A table of finite features, dense or sparse (CSR, a copy), with at least one row and column.

    It is float64, or with ``narrow`` float32 if it was given so.
    """
    if type(features).__module__.startswith("scipy.sparse"):
        import scipy.sparse

        if features.ndim != 2 or features.dtype.kind not in "biuf":
            raise InputError(f"features must be real numbers in 2 dimensions, got {features.dtype} {features.shape}.")
        sparse_structure(features)  # SciPy's code does not check indices either
        table = scipy.sparse.csr_array(features, dtype=stored_kind(features.dtype) if narrow else np.float64, copy=True)
        table.sum_duplicates()
        refuse_where("features.data", ~np.isfinite(table.data), table.data, "must be finite")
    else:
        table = finite_array("features", features, 2, narrow)
    if 0 in table.shape:
        raise InputError(f"features needs at least one row and one column, got shape {table.shape}.")
    return table


def dense_table(features: Any) -> Any:
    """A dense table of features in the form that compiled code reads, as a view that gradtd owns."""
    if features.ndim != 2 or 0 in features.shape:
        raise InputError(f"features needs at least one row and one column, got shape {features.shape}.")
    given = np.asarray(features)
    # A view, so that reshaping the caller's array does not reshape this one.
    return np.ascontiguousarray(given, dtype=stored_kind(given.dtype)).view()


def sparse_structure(features: Any) -> None:
    """The indices of a sparse matrix must be indices of its rows and columns."""
    rows, columns = (int(n) for n in features.shape)
    if features.format in ("csr", "csc", "bsr"):
        major, minor = (columns, rows) if features.format == "csc" else (rows, columns)
        if features.format == "bsr":
            high, wide = features.data.shape[1:]
            major, minor = major // high, minor // wide
        _compressed_structure(features, major, minor)
    elif features.format == "coo":
        for label, values, length in (("row", features.row, rows), ("col", features.col, columns)):
            if len(values) != len(features.data):
                raise InputError(f"features.{label} has {len(values)} entries, features.data has {len(features.data)}.")
            _refuse_outside(f"features.{label}", values, length)


def _compressed_structure(features: Any, major: int, minor: int) -> None:
    indices, begin = np.asarray(features.indices), np.asarray(features.indptr)
    for label, values in (("features.indices", indices), ("features.indptr", begin)):
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise InputError(f"{label} must be a row of whole numbers, got {values.dtype} of shape {values.shape}.")
    if len(begin) != major + 1:
        raise InputError(f"features.indptr needs {major + 1} entries, one more than there are rows; got {len(begin)}.")
    if begin[0] != 0 or (begin[1:] < begin[:-1]).any() or begin[-1] > min(len(indices), len(features.data)):
        raise InputError(
            f"features.indptr must begin with 0, must not decrease, and must end at the number of entries, "
            f"{len(features.data)}: build the matrix again, for example from a coo_array."
        )
    _refuse_outside("features.indices", indices, minor)


def _refuse_outside(name: str, values: Any, length: int) -> None:
    if len(values) and (values.min() < 0 or values.max() >= length):
        refuse_where(name, (values < 0) | (values >= length), values, f"must lie in 0 to {length - 1}")


def number_a_step(name: str, values: Any, length: int) -> NDArray[np.float64]:
    """One number per step. A single number is used for all steps."""
    return finite_array(name, np.full(length, values) if np.ndim(values) == 0 else values, 1)


Check = Callable[[str, Any], Any]
"""Takes the name and the value of a parameter; returns the value to use."""


def above(low: float) -> Check:
    """Make a check that a number is greater than ``low``."""
    return lambda name, value: number_above(name, value, low)


def at_least(low: float) -> Check:
    """The check that a number is at least this."""
    return lambda name, value: number_at_least(name, value, low)


def whole(low: int, high: int | None = None) -> Check:
    """The check that a number is whole and in this range."""
    return lambda name, value: whole_number(name, value, low, high)


def choice(*allowed: str) -> Check:
    """Make a check that a word is one of these."""
    return lambda name, value: one_of(name, value, allowed)


def optional(check: Check) -> Check:
    """The same check, None allowed."""
    return lambda name, value: None if value is None else check(name, value)
