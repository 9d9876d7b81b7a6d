"""Functions with several versions: the type of an argument selects the version when code is compiled.

Tables of features (`rows`) and vectors of a rule (`vectors`) are dense or sparse. A rule is written once; the types of
its arguments select the functions that it calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gradtd.core.arrays import Plain
from gradtd.core.stream_arrays import SparseRows


class Choice(NamedTuple):
    """The function for each type of the argument at ``place``."""

    place: int
    dense: Plain
    records: Mapping[type, Plain]


CHOICES: dict[Plain, Choice] = {}
"""All functions made by `by_type`, with the functions among which the engine chooses when it compiles."""


def by_type(place: int, dense: Plain, records: Mapping[type, Plain]) -> Plain:
    """Combine several functions into one: call ``dense`` if the argument at ``place`` is an array, else its record's.

    The type of None may be among the records. A branch on None in one function would need one type of result.
    """

    def apply(*arguments: Any) -> Any:
        given = arguments[place]
        function = records[type(given)] if isinstance(given, tuple | None) else dense
        return function(*arguments)

    apply.__doc__ = dense.__doc__
    CHOICES[apply] = Choice(place, dense, records)
    return apply


def by_storage(dense: Plain, sparse: Plain) -> Plain:
    """One function out of two, which reads with the one that fits the storage of the features, its first argument."""
    return by_type(0, dense, {SparseRows: sparse})
