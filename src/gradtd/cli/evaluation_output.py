"""What `gradtd evaluate` prints and writes: text, files, a card, and the exit code of a gate."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gradtd.cli.messages import typed
from gradtd.cli.options import OUTPUT, numeric
from gradtd.core import checks
from gradtd.core.checks import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from gradtd.evaluation import Evaluation, Evaluations

AS_JSON = typer.Option("--json", help="Print one JSON object instead of text.", rich_help_panel=OUTPUT)
VERBOSE = typer.Option("--verbose", help="Also print all diagnostics and the table of checks.", rich_help_panel=OUTPUT)
PAGE = typer.Option(help="Write one self-contained HTML page to this file, with all plots.", rich_help_panel=OUTPUT)
PLOT = typer.Option(
    help="Draw the intervals of all methods, or the paired differences of several targets, to this file (.png, "
    ".svg, .pdf).",
    rich_help_panel=OUTPUT,
)
SAVE = typer.Option(help="Save the evaluation to this .npz file, for gradtd.load_evaluation.", rich_help_panel=OUTPUT)
AS_LONG_AS_IT_IS = 10_000
"""A line width that prevents wrapping."""
Files = tuple[Path | None, Path | None, Path | None]
"""The paths of the requested page, plot and saved file."""


def check_outputs(inputs: Sequence[str], files: Files, card: Path | None, several: bool) -> None:
    """Refuse impossible outputs before the work begins. ``inputs`` are the log and the files of targets."""
    page, plot, save = files
    if several and save:
        raise InputError("--save takes one target: use --page for several.")
    if page is not None and card is not None and page.resolve() == card.resolve():
        raise InputError(f"--page and --card are the same file {str(page)!r}: give another name for one of them.")
    if plot is not None:
        checks.picture_file("--plot", plot)
    for name, path, ending in (("--page", page, ".html"), ("--save", save, ".npz")):
        if path is not None:
            for k, given in enumerate(inputs):
                what = "the target" if k else "the log"
                refuse_same_file(name, checks.file_to_write(name, path, ending), given, what)


def refuse_same_file(name: str, path: Path, given: str, what: str = "the log") -> None:
    """Raise an error if an output would replace a file that the command reads."""
    if path.exists() and Path(given).exists() and path.samefile(given):
        raise InputError(f"{name} {str(path)!r} is {what}, which it would replace: give another name.")


def show(found: Evaluation | Evaluations, files: Files, as_json: bool, verbose: bool) -> None:
    """Write the requested files and print the result."""
    from gradtd.evaluation import Evaluations
    from gradtd.output.evaluation_page import write_page
    from gradtd.output.evaluation_text import on_terminal

    page, plot, save = files
    several = isinstance(found, Evaluations)
    named = found if isinstance(found, Evaluations) else {"target": found}
    evaluations = Evaluations({name: _typed(evaluation) for name, evaluation in named.items()})
    comparison = evaluations.compare() if several else None
    if save is not None:
        evaluations["target"].save(save)
    if plot is not None:
        (comparison or evaluations["target"]).plot(plot)
    if page is not None:
        write_page(evaluations, page, "gradtd " + shlex.join(sys.argv[1:]), comparison)
    if as_json:
        told = {name: evaluation.to_dict() for name, evaluation in evaluations.items()}
        every = {"targets": told, "comparison": comparison.to_dict()} if comparison else told["target"]
        print(json.dumps(every))
        return
    for name, evaluation in evaluations.items():
        open_console().print(on_terminal(evaluation, f"{name}: " if several else "", verbose, typed))
    if comparison:
        open_console().print(comparison)
    for what, path in (("page", page), ("picture", plot), ("saved", save)):
        if path is not None:
            print(f"{what}: {checks.printable(str(path))}")


def _typed(evaluation: Evaluation) -> Evaluation:
    """The evaluation with parameters in its text written as options."""
    said: dict[str, Any] = {
        name: tuple(map(typed, getattr(evaluation, name))) for name in ("reasons", "warnings", "notes")
    }
    return replace(evaluation, **said)


def open_console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = AS_LONG_AS_IT_IS  # readers of a file or a pipe wrap lines themselves
    return console


FAILED = 3
"""The exit code of an evaluation that does not meet a condition."""
BEHAVIOUR = "behaviour"

REQUIRE = typer.Option(
    metavar="VERDICT",
    help="Exit with code 3 if the verdict is worse than this: usable or unchecked.",
    rich_help_panel=OUTPUT,
)
AT_LEAST = numeric("Exit with code 3 if the lower end of the interval is below this number.", OUTPUT)
BETTER_THAN = typer.Option(
    metavar="TARGET",
    help="Exit with code 3 unless the whole interval of the paired difference from this target is above 0: "
    "behaviour, or the name of another target.",
    rich_help_panel=OUTPUT,
)
CARD = typer.Option(
    help="Write an evaluation card for signature to this .html file, and as JSON next to it. Needs --question.",
    rich_help_panel=OUTPUT,
)
QUESTION = typer.Option(
    help="The decision that needs the value, in one sentence: the card's title.", rich_help_panel=OUTPUT
)


@dataclass(frozen=True)
class Gate:
    """The conditions on an evaluation, and its card."""

    require: str | None
    at_least: float | None
    better_than: str | None
    card: Path | None
    question: str | None

    def check(self, targets: dict[str, Any]) -> dict[str, Any]:
        """Refuse conditions that cannot be met before the work begins. Returns the targets, and the behaviour if
        needed.
        """
        if self.require is not None:
            checks.one_of("--require", self.require, ("usable", "unchecked"))
        if self.at_least is not None:
            checks.number("--at-least", self.at_least)
        if self.better_than == BEHAVIOUR and BEHAVIOUR not in targets:
            targets = {**(targets or {"target": None}), BEHAVIOUR: BEHAVIOUR}
        if self.better_than == BEHAVIOUR and targets[BEHAVIOUR] != BEHAVIOUR:
            raise InputError(f"--better-than {BEHAVIOUR} is the policy of the log: give the target another name.")
        if self.better_than in targets and len(targets) == 1:
            raise InputError(f"--better-than {self.better_than}: that is the only target. Give another one to compare.")
        if self.better_than is not None and self.better_than not in targets:
            raise InputError(
                f"--better-than {self.better_than}: also give that target, --target {self.better_than}=..."
            )
        if self.card is not None:
            from gradtd.output.card import refuse_other_json

            refuse_other_json(checks.file_to_write("--card", self.card, ".html"))
            if not (self.question or "").strip():
                raise InputError("--card needs --question: the decision that needs the value, in one sentence.")
            if len(set(targets) - {BEHAVIOUR}) > 1:
                raise InputError(
                    "--card is about one target, apart from the behaviour: evaluate the others one by one."
                )
        elif self.question is not None:
            raise InputError("--question is the title of a card: add --card card.html.")
        return targets

    def write_card(self, found: Evaluation | Evaluations, log: str) -> None:
        if self.card is None:
            return
        from gradtd.output.card import write_card

        about = next(iter(self._asked(found).values()))
        data = [log] if Path(log).exists() else []
        command = "gradtd " + shlex.join(sys.argv[1:])
        write_card(about, self.card, question=self.question or "", data=data, command=command)

    def end(self, found: Evaluation | Evaluations) -> None:
        """Exit with code 3 if a condition is not met, and print it."""
        failed = list(self._failures(found))
        for sentence in failed:
            print(f"gradtd: {sentence}", file=sys.stderr)
        if failed:
            raise typer.Exit(FAILED)

    def _asked(self, found: Evaluation | Evaluations) -> dict[str, Evaluation]:
        """The targets of the conditions: all except the one they are compared with."""
        from gradtd.evaluation import Evaluation

        if isinstance(found, Evaluation):
            return {"target": found}
        return {name: one for name, one in found.items() if name != self.better_than}

    def _failures(self, found: Evaluation | Evaluations) -> Any:
        from gradtd.evaluation import Evaluations
        from gradtd.evaluation.report.comparison import WORDS

        for name, one in self._asked(found).items():
            if self.require is not None and WORDS.index(one.verdict) > WORDS.index(self.require):
                yield f"the verdict of {name} is {one.verdict}, which does not meet --require {self.require}."
            low = one.interval[0]
            if self.at_least is not None and not low >= self.at_least:
                yield f"the interval of {name} begins at {low:.5g}, below --at-least {self.at_least:g}."
            elif self.at_least is not None and one.verdict == "not usable":
                yield f"the verdict of {name} is not usable, which does not meet --at-least {self.at_least:g}."
        if self.better_than is not None and isinstance(found, Evaluations):
            for difference in found.compare(against=self.better_than).differences:
                if difference.verdict == "not usable":
                    yield (
                        f"{difference.first} is not shown to be better than {self.better_than}: the verdict of the "
                        "difference is not usable."
                    )
                elif difference.low is None or not difference.low > 0:
                    ends = "none" if difference.low is None else f"{difference.low:.5g} to {difference.high:.5g}"
                    yield (
                        f"{difference.first} is not shown to be better than {self.better_than}: the interval of the "
                        f"difference is {ends}."
                    )
