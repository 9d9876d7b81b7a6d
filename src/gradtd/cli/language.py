"""Sentences of the library in the language of the command line: options where they name Python's parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

Said = str | Callable[[re.Match[str]], str]


def _columns(found: re.Match[str]) -> str:
    """``columns={"reward": "r"}`` as it is typed."""
    try:
        given: dict[str, Any] = ast.literal_eval(found["dictionary"].replace("...", "'...'"))
    except (ValueError, SyntaxError):
        return "--column ours=theirs"
    return " ".join(_column(ours, theirs) for ours, theirs in given.items())


def _column(ours: str, theirs: Any) -> str:
    if ours == "observation" and theirs is not None:
        return f"--observation {','.join(theirs) if isinstance(theirs, list) else theirs}"
    return f"--column {ours}={'none' if theirs is None else theirs}"


def _option(name: str) -> Callable[[re.Match[str]], str]:
    return lambda found: f"--{name} {found['value']}"


_WORD = r"""=(?P<quote>['"]?)(?P<value>[\w.+-]+)(?P=quote)"""
SPOKEN: tuple[tuple[str, Said], ...] = (
    (r"columns=(?P<dictionary>\{[^}]*\})", _columns),
    (r"columns\[(?P<quote>['\"])(?P<value>\w+)(?P=quote)\]", lambda found: f"--column {found['value']}=..."),
    (r"columns must be a dictionary", "--column must map one name"),
    (r"""duplicates=["']drop["']""", "--drop-duplicates"),
    (r"""read with log_probabilities=["']convert["']""", "give --log-probabilities"),
    (r"""log_probabilities=["']convert["']""", "--log-probabilities"),
    (r"""(, |: )(use )?order=["']sort["']""", ""),
    (r"behaviour= \([^)]*\)", "--behaviour with the name of a column of probabilities"),
    (
        r"target= as a function .* to evaluate the policy",
        "--target: the name of a column of probabilities of the actions taken, uniform, FILE.py:FUNCTION, or the word "
        "behaviour to evaluate the policy",
    ),
    (r"target= as a function of observations", "--target FILE.py:FUNCTION, a function of observations"),
    (r"target= as a policy", "--target as a policy"),
    (r"target=\[['\"](?P<value>\w+)['\"], \.\.\.\]", lambda found: f"--target-probabilities {found['value']},..."),
    (r"target=gradtd\.logs\.Probabilities\(now, after\)", "--next-target-probabilities next_0,next_1"),
    (r"(: |, )read the log with keep=", ""),
    (r" to keep;", ";"),
    (r"give block=T0", "give --block T0"),
    (r"clip=", "--clip"),
    (r"""interval=["']percentile["']""", "--percentile"),
    (r"""or interval=["']student["']""", "or leave --percentile out"),
    (r"one_step=True", "--one-step"),
    (r"in_parts=True", "--in-parts"),
    (r"in_parts=False", "--in-memory"),
    (r"own_refits=True", "--own-refits"),
    (r"whiten=False", "--no-whiten"),
    (r"(?<![-\w])capacity" + _WORD, lambda found: f"--set capacity={found['value']}"),
    *(
        (rf"(?<!--column )(?<!--set )(?<![-\w]){name}" + _WORD, _option(option))
        for name, option in (
            ("algorithm", "algorithm"),
            ("behaviour", "behaviour"),
            ("target", "target"),
            ("features", "features"),
            ("block", "block"),
            ("updates", "updates"),
            ("resamples", "resamples"),
            ("level", "level"),
            ("lam", "lam"),
            ("trace", "trace"),
            ("values", "values"),
            ("action_features", "action-features"),
            ("samples", "samples"),
        )
    ),
)
"""What a sentence says in Python, as a pattern, and how the command line says it; the first that fits comes first."""


def spoken(sentence: str) -> str:
    """A sentence of the library as the command line says it.

    >>> spoken('say which they are, columns={"observation": ["x", "v"]}.')
    'say which they are, --observation x,v.'
    >>> spoken("give more of them, or take algorithm='lstd'.")
    'give more of them, or take --algorithm lstd.'
    """
    for pattern, said in SPOKEN:
        sentence = re.sub(pattern, said, sentence)
    return sentence
