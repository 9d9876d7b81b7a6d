"""Named tuples made from field names, the form in which values enter compiled code.

A rule says what it keeps as a plain dictionary; compiled code wants a type with named fields.
The classes are made here on demand and found again by name, so that a compiled kernel, which
remembers its argument types by reference, can be loaded from disk in another process.
"""

from __future__ import annotations

import sys
from collections import namedtuple
from typing import Any

_PREFIX = "Record__"


def __getattr__(name: str) -> type[tuple[Any, ...]]:
    if not name.startswith(_PREFIX):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made: type[tuple[Any, ...]] = namedtuple(name, name.removeprefix(_PREFIX).split("__"), module=__name__)  # type: ignore[misc]  # noqa: PYI024
    globals()[name] = made
    return made


def record(**fields: Any) -> Any:
    """A named tuple with these fields; the same field names always give the same class.

    >>> record(theta=1.0, w=2.0).w
    2.0
    >>> type(record(theta=1.0)) is type(record(theta=3.0))
    True
    """
    return getattr(sys.modules[__name__], _PREFIX + "__".join(fields))(**fields)
