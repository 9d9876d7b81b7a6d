"""From what a file says to settings: every combination of the values that were given."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from gradtd.algorithms import as_algorithm
from gradtd.core import checks, spelled
from gradtd.core.algorithm import Algorithm
from gradtd.core.checks import InputError
from gradtd.problems import as_problem
from gradtd.problems.base import Problem
from gradtd.running.settings import parameters


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
    """Problems by the names that the table gives them.

    ``given`` is a list of names (``"random_walk_tabular:n=9"``) and problems, or a table whose keys are names and whose
    values are tables of parameters, where a list stands for several of them.
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
            raise InputError(f"the problem {label!r} is given twice: leave one of them out, or name it otherwise.")
        found[label] = as_problem(one)
    return found


def _with_parameters(name: str, table: Any) -> Iterator[str]:
    if not isinstance(table, Mapping):
        raise InputError(f"problems.{name} must be a table of parameters, for example n = [9, 19]; got {table!r}.")
    for values in combinations(table):
        told = ",".join(f"{key}={value}" for key, value in values.items())
        yield f"{name}:{told}" if told else name


def settings_of(problems: Iterable[str], given: Any, own: Mapping[str, Algorithm] | None = None) -> list[Setting]:
    """Every setting, sorted, none twice; ``own`` has the rules that are not ours."""
    if not isinstance(given, Mapping) or not given:
        raise InputError("algorithms must be a table with one entry for each, for example [algorithms.td]; got none.")
    labels = list(problems)
    found = {
        Setting(problem, rule.name, hyper)
        for key, tables in given.items()
        for rule in ((own or {}).get(key) or as_algorithm(key),)
        for table in (tables if isinstance(tables, (list, tuple)) else [tables])
        for hyper in _hypers(rule, table)
        for problem in labels
    }
    return sorted(found, key=_order)


def _order(setting: Setting) -> tuple[Any, ...]:
    """By problem, algorithm and hyper-parameters, numbers by their size and before words."""
    values = [(name, isinstance(v, str), v) for name, v in setting.given.items()]
    return setting.problem, setting.algorithm, [name for name, *_ in values], values


def _hypers(rule: Algorithm, table: Any) -> Iterator[str]:
    if not isinstance(table, Mapping):
        raise InputError(
            f"algorithms.{rule.name} must be a table of hyper-parameters, for example alpha = [0.1, 0.2]; "
            f"got {table!r}."
        )
    for name in table:
        checks.known_name(f"hyper-parameter of {rule.name}", name, parameters(rule))
    for values in combinations(table):
        try:
            yield json.dumps(values, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError):
            raise InputError(
                f"hyper-parameters of a sweep must be numbers, words, true or false; those of {rule.name} are {values}."
            ) from None


def combinations(table: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the values of a table: a list stands for several, a word may spell a number (``"1/16"``).

    >>> list(combinations({"alpha": ["1/16", 5], "batch_size": 16}))
    [{'alpha': 0.0625, 'batch_size': 16}, {'alpha': 5, 'batch_size': 16}]
    """
    lists = {name: list(v) if isinstance(v, (list, tuple)) else [v] for name, v in table.items()}
    for name, values in lists.items():
        if not values:
            raise InputError(f"{name} is an empty list: give it at least one value, or leave it out.")
    for chosen in itertools.product(*lists.values()):
        yield {name: _plain(value) for name, value in zip(lists, chosen, strict=True)}


def _plain(value: Any) -> Any:
    """A value as it is spelled in one way only: 5 and 5.0 are the same setting."""
    found = spelled.value(value) if isinstance(value, str) else value
    return int(found) if isinstance(found, float) and found.is_integer() else found
