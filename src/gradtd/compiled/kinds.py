"""One name for several functions: which is meant follows from the kind of an argument, once, when code is compiled.

A table of features is dense or sparse (`rows`), and so is a vector that a rule keeps (`vectors`). A rule is written
once; the functions that it calls know what they are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gradtd.core.arrays import Plain

DENSE, NOTHING = "", "NoneType"


class Choice(NamedTuple):
    """Which function is meant, by the kind of the argument at ``place``: its class, `NOTHING` or `DENSE`."""

    place: int
    functions: Mapping[str, Plain]


BY_KIND: dict[Plain, Choice] = {}
"""All functions that were made by `by_kind`; the engine chooses among theirs when it compiles."""


def by_kind(place: int, dense: Plain, **others: Plain) -> Plain:
    """One function out of several: ``dense`` for arrays, the others for records of the class that they are named by.

    One named NoneType is for nothing. A branch on it in one function would have to have one type of result.
    """
    functions = {DENSE: dense, **others}

    def apply(*arguments: Any) -> Any:
        found = arguments[place]
        return functions[type(found).__name__ if isinstance(found, tuple | None) else DENSE](*arguments)

    apply.__doc__ = dense.__doc__
    BY_KIND[apply] = Choice(place, functions)
    return apply


def by_storage(dense: Plain, sparse: Plain) -> Plain:
    """One function out of two, which reads with the one that fits the storage of the features, its first argument."""
    return by_kind(0, dense, SparseRows=sparse)
