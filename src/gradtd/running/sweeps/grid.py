"""Turns a sweep file into settings: every combination of the given values."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from gradtd.algorithms import as_algorithm
from gradtd.core import checks, parsing
from gradtd.core.algorithm import Algorithm
from gradtd.core.checks import InputError
from gradtd.problems import as_problem
from gradtd.problems.base import Problem
from gradtd.running.settings import parameters

MOST_SETTINGS = 100_000
"""Maximum number of settings; each has a file and a row of the page."""


class Setting(NamedTuple):
    """One algorithm on one problem with the hyper-parameters that were given, as JSON in the order of their names."""

    problem: str
    algorithm: str
    hyper: str

    @property
    def given(self) -> dict[str, Any]:
        return dict(json.loads(self.hyper))

    def __str__(self) -> str:
        return f"{self.problem} {self.algorithm} {self.hyper}"


def problems_of(given: Any) -> dict[str, Problem]:
    """Problems by their names in the results.

    ``given`` is a list of names (``"random_walk_tabular:n=9"``) and problems, or a table whose keys are names and whose
    values are tables of parameters, where a list means several of them.
    """
    if isinstance(given, (str, Problem)):
        given = [given]
    if isinstance(given, Mapping):
        given = [name for key, table in given.items() for name in _with_parameters(key, table)]
    if not isinstance(given, Iterable) or not (listed := list(given)):
        raise InputError(f'problems must be a list such as ["boyan_chain", "random_walk_tabular:n=9"]; got {given!r}.')
    found: dict[str, Problem] = {}
    for one in listed:
        label = one.name if isinstance(one, Problem) else str(one).replace(" ", "")
        if label in found:
            raise InputError(f"the problem {label!r} is given twice: leave one of them out, or rename it.")
        found[label] = as_problem(one)
    return found


def _with_parameters(name: str, table: Any) -> Iterator[str]:
    if not isinstance(table, Mapping):
        raise InputError(f"problems.{name} must be a table of parameters, for example n = [9, 19]; got {table!r}.")
    _refuse_many(count_of(table))
    for values in combinations(table):
        told = ",".join(f"{key}={value}" for key, value in values.items())
        yield f"{name}:{told}" if told else name


def settings_of(problems: Iterable[str], given: Any, own: Mapping[str, Algorithm] | None = None) -> list[Setting]:
    """All settings, sorted and without duplicates. ``own`` holds custom rules."""
    if not isinstance(given, Mapping) or not given:
        raise InputError(f"algorithms must be a table with one entry for each, such as [algorithms.td]; got {given!r}.")
    labels = list(problems)
    rules = {key: (own or {}).get(key) or as_algorithm(key) for key in given}
    tables = {key: list(told) if isinstance(told, (list, tuple)) else [told] for key, told in given.items()}
    for key, several in tables.items():
        if not several:
            raise InputError(f"algorithms.{key} is an empty list: give it at least one table of hyper-parameters.")
    _refuse_many(len(labels) * sum(_count(rules[key], table) for key, several in tables.items() for table in several))
    found = {
        Setting(problem, rule.name, hyper)
        for key, rule in rules.items()
        for table in tables[key]
        for hyper in _hypers(rule, table)
        for problem in labels
    }
    return sorted(found, key=_order)


def _order(setting: Setting) -> tuple[Any, ...]:
    """The sort key: problem, algorithm and hyper-parameters, with numbers by size and before words."""
    values = [(name, v is None, isinstance(v, str), v) for name, v in setting.given.items()]
    return setting.problem, setting.algorithm, [name for name, *_ in values], values


def _count(rule: Algorithm, table: Any) -> int:
    """Check a table of hyper-parameters, and count the settings that it describes."""
    if not isinstance(table, Mapping):
        raise InputError(
            f"algorithms.{rule.name} must be a table of hyper-parameters, for example alpha = [0.1, 0.2]; "
            f"got {table!r}."
        )
    for name in table:
        checks.known_name(f"hyper-parameter of {rule.name}", name, parameters(rule))
    return count_of(table)


def _refuse_many(count: int) -> None:
    if count > MOST_SETTINGS:
        raise InputError(f"a sweep has at most {MOST_SETTINGS} settings, this one has {count}: split it into several.")


def _hypers(rule: Algorithm, table: Mapping[str, Any]) -> Iterator[str]:
    for values in combinations(table):
        if not all(_is_plain(value) for value in values.values()):
            raise InputError(
                f"hyper-parameters of a sweep must be finite numbers, words, true or false; those of {rule.name} are "
                f"{values}."
            )
        yield json.dumps(values, sort_keys=True)


def _is_plain(value: Any) -> bool:
    """Whether a value is valid JSON and sortable."""
    return isinstance(value, (str, int, NoneType)) or (isinstance(value, float) and math.isfinite(value))


def combinations(table: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the values of a table. A list means several values; a word may be a number (``"1/16"``).

    >>> list(combinations({"alpha": ["1/16", 5], "batch_size": 16}))
    [{'alpha': 0.0625, 'batch_size': 16}, {'alpha': 5, 'batch_size': 16}]
    """
    lists = _lists(table)
    for chosen in itertools.product(*lists.values()):
        yield {name: _plain(value) for name, value in zip(lists, chosen, strict=True)}


def count_of(table: Mapping[str, Any]) -> int:
    """The number of combinations of the values of a table."""
    return math.prod(len(values) for values in _lists(table).values())


def _lists(table: Mapping[str, Any]) -> dict[str, list[Any]]:
    lists = {name: list(v) if isinstance(v, (list, tuple, np.ndarray)) else [v] for name, v in table.items()}
    for name, values in lists.items():
        if not values:
            raise InputError(f"{name} is an empty list: give it at least one value, or leave it out.")
    return lists


def _plain(value: Any) -> Any:
    """The normal form of a value: 5 and 5.0 are the same setting."""
    found = parsing.parse_value(value) if isinstance(value, str) else value
    found = found.item() if isinstance(found, np.generic) else found
    return int(found) if isinstance(found, float) and found.is_integer() else found
