"""Options of ``gradtd evaluate`` about assumptions that a log cannot show."""

from __future__ import annotations

from typing import Any

import typer

from gradtd.cli.options import FLAG, NUMBER, number

ASSUMPTIONS = "Assumptions"
"""The panel of the help."""
ANYTIME: Any = typer.Option(
    "--anytime",
    metavar=FLAG,
    help="Add an interval that holds at every look at a log that grows.",
    rich_help_panel=ASSUMPTIONS,
)
CONFOUNDING: Any = typer.Option(
    help="Add the interval with a cause that nobody recorded, which changes the odds of every action by at most this "
    "factor: 1.5. And how strong a cause would tip the answer.",
    parser=number,
    metavar=NUMBER,
    rich_help_panel=ASSUMPTIONS,
)
AGAINST: Any = typer.Option(
    help="What the answer tips at: a number, or behaviour for the value of the log's own policy.",
    rich_help_panel=ASSUMPTIONS,
)
BY: Any = typer.Option(
    metavar="COLUMN",
    help="Add the value of every group of starts, by this column, with intervals that hold for all of them.",
    rich_help_panel=ASSUMPTIONS,
)
TRAINED_ON: Any = typer.Option(
    metavar="COLUMN",
    help="A column of 0 and 1 that marks episodes the target was learned from: it is judged on the others.",
    rich_help_panel=ASSUMPTIONS,
)
TIME_COLUMN: Any = typer.Option(
    metavar="COLUMN",
    help="A column of times, where steps are not evenly spaced: gamma is then per unit of time.",
    rich_help_panel=ASSUMPTIONS,
)
