"""Rewrites messages for the command line: ``in_parts=False`` in the library becomes ``--in-memory``.

The library writes parameters as in a call, ``name=value`` in one word. Its messages are therefore exact in Python and
easy to convert here, word by word.
"""

from __future__ import annotations

import ast
from typing import Any

OPTIONS = (
    *("algorithm", "behaviour", "target", "features", "value_function", "level", "lam", "trace", "clip", "resamples"),
    *("block_length", "n_updates", "action_features", "action_samples", "actions", "time_limit", "missing"),
    *("history", "since", "confounding", "against", "by", "trained_on", "time_column"),
)
"""Parameters of `gradtd.evaluate` whose option has the same name and takes the same value."""
FLAGS = {
    "one_step=True": "--one-step",
    "in_parts=True": "--in-parts",
    "in_parts=False": "--in-memory",
    "own_refits=True": "--own-refits",
    "anytime=True": "--anytime",
    "whiten=False": "--no-whiten",
    "with_time=True": "--with-time",
    "duplicates='drop'": "--drop-duplicates",
    "log_probabilities='convert'": "--log-probabilities",
    "interval_method='percentile'": "--percentile",
    "interval_method='student'": "no --percentile",
}
SETTINGS = ("capacity",)
"""Hyper-parameters, which are options of --set."""
TYPED = ("--column", "--set")
"""Options after which the next word is not converted."""
COLUMNS = "columns={"


def typed(message: str) -> str:
    """A message of the library, with parameters written as options.

    >>> typed('name the columns, columns={"observation": ["x", "v"]}.')
    'name the columns, --observation x,v.'
    >>> typed("give more of them, or use algorithm='lstd'.")
    'give more of them, or use --algorithm lstd.'
    """
    words = _with_columns(message).split(" ")
    before = ["", *words]
    return " ".join(word if last in TYPED else _word(word) for last, word in zip(before, words, strict=False))


def _word(word: str) -> str:
    """Convert one word, keeping the punctuation around it."""
    left, core = word[: len(word) - len(word.lstrip("("))], word.lstrip("(")
    core = core.rstrip(".,;:)")
    right = word[len(left) + len(core) :]
    name, _, value = core.replace('"', "'").partition("=")
    if f"{name}={value}" in FLAGS:
        return left + FLAGS[f"{name}={value}"] + right
    if not value or name not in (*OPTIONS, *SETTINGS):
        return word
    if name in SETTINGS:
        return f"{left}--set {name}={value}{right}"
    if value.startswith("["):  # a list of names is written with commas
        value = value.strip("[]").replace("'", "")
    return f"{left}--{name.replace('_', '-')} {value.strip(chr(39))}{right}"


def _with_columns(message: str) -> str:
    """Write ``columns={"reward": "r"}`` as ``--column reward=r``."""
    before, found, rest = message.partition(COLUMNS)
    if not found:
        return message
    inside, _, after = rest.partition("}")
    try:
        given: dict[str, Any] = ast.literal_eval("{" + inside.replace("...", "'...'") + "}")
    # a name in the log that only looks like an option
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return before + found + _with_columns(rest)
    said = " ".join(_column(ours, theirs) for ours, theirs in given.items())
    return before + said + _with_columns(after)


def _column(ours: str, theirs: Any) -> str:
    if ours == "observation" and theirs is not None:
        return f"--observation {','.join(theirs) if isinstance(theirs, list) else theirs}"
    return f"--column {ours}={'none' if theirs is None else theirs}"
