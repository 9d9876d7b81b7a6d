"""Parses targets: a column, several columns, a word, or a function in a file."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradtd.core.checks import InputError
from gradtd.logs import Probabilities


def targets(given: list[str], tables: list[str], after: list[str]) -> dict[str, Any]:
    """A dictionary of all targets by name, as ``evaluate`` takes them. ``tables`` are columns with the probabilities of
    every action.

    >>> targets(["p_new", "cautious=pi_0,pi_1", "behaviour"], [], [])["p_new"]
    'p_new'
    """
    found: dict[str, Any] = {}
    for text in given:
        name, spec = _named(text)
        _add(found, name, _policy(spec))
    for text in tables:
        name, spec = _named(text)
        _add(found, name, Probabilities(_columns("--target-probabilities", spec)))
    for text in after:
        name, spec = _named(text)
        chosen = name if "=" in text else next((n for n, p in found.items() if isinstance(p, Probabilities)), name)
        if not isinstance(found.get(chosen), Probabilities) or found[chosen].after is not None:
            raise InputError(
                f"--next-target-probabilities {text} has no target with probabilities of every action: give "
                "--target-probabilities NAME=pi_0,pi_1 and --next-target-probabilities NAME=next_0,next_1."
            )
        found[chosen] = replace(found[chosen], after=_columns("--next-target-probabilities", spec))
    return found


def _add(found: dict[str, Any], name: str, policy: Any) -> None:
    if name in found:
        raise InputError(f"two targets have the name {name!r}: name them, --target NAME={name}.")
    found[name] = policy


def _named(text: str) -> tuple[str, str]:
    """Split ``NAME=SPEC``. Without a name, the name is the last part of the specification."""
    name, sign, spec = text.partition("=")
    if not sign:
        return text.rpartition(":")[2] if ".py:" in text else text, text
    if not name or not spec:
        raise InputError(f"--target takes a target or NAME=TARGET, got {text!r}.")
    return name, spec


def _policy(spec: str) -> Any:
    if ".py:" in spec or spec.endswith(".py"):
        return from_file(spec)
    if spec.endswith(".npz"):
        from gradtd.improvement.policy import load_policy

        return load_policy(spec)
    return Probabilities(_columns("--target", spec)) if "," in spec else spec


def _columns(option: str, spec: str) -> list[str]:
    names = [name.strip() for name in spec.split(",")]
    if len(names) < 2 or not all(names):
        raise InputError(f"{option} takes one column per action, separated by commas, pi_0,pi_1; got {spec!r}.")
    return names


def from_file(spec: str) -> Callable[..., Any]:
    """The function of a Python file, ``policies.py:careful``. The file is executed."""
    file, _, name = spec.rpartition(":") if ".py:" in spec else (spec, "", "")
    path = Path(file)
    if not path.is_file():
        raise InputError(f"--target {spec}: there is no file {file!r}.")
    if not name:
        raise InputError(f"--target {spec} also needs the name of the function: {spec}:FUNCTION.")
    module_spec = importlib.util.spec_from_file_location(path.stem, path)
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    sys.path.insert(0, str(path.resolve().parent))  # so that it can import modules next to it
    try:
        module_spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a script that exits must not end the evaluation with success
        raise InputError(f"--target {spec}: the file raised an error: {_told(error)}.") from error
    finally:
        sys.path.pop(0)
    function = getattr(module, name, None)
    if not callable(function):
        has = [n for n, thing in vars(module).items() if callable(thing) and not n.startswith("_")]
        raise InputError(f"--target {spec}: {file} has no function {name!r}; it has {', '.join(has) or 'none'}.")

    def asked(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (Exception, SystemExit) as error:
            raise InputError(f"--target {spec} failed: {_told(error)}.") from error

    return asked


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(".: ")
