"""Options of `gradtd evaluate` for pipelines: conditions that set the exit code, and a card."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gradtd.cli.options import NUMBER, OUTPUT, number
from gradtd.core import checks
from gradtd.core.checks import InputError

if TYPE_CHECKING:
    from gradtd.evaluation import Evaluation, Evaluations

FAILED = 3
"""The exit code of an evaluation that does not meet a condition."""
BEHAVIOUR = "behaviour"

REQUIRE = typer.Option(
    metavar="VERDICT",
    help="Exit with code 3 if the verdict is worse than this: usable or unchecked.",
    rich_help_panel=OUTPUT,
)
AT_LEAST = typer.Option(
    help="Exit with code 3 if the lower end of the interval is below this number.",
    parser=number,
    metavar=NUMBER,
    rich_help_panel=OUTPUT,
)
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
    """Conditions on an evaluation, and the card about it."""

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
        if self.better_than == BEHAVIOUR and BEHAVIOUR not in targets:
            targets = {**(targets or {"target": None}), BEHAVIOUR: BEHAVIOUR}
        if self.better_than is not None and self.better_than not in targets:
            raise InputError(
                f"--better-than {self.better_than}: also give that target, --target {self.better_than}=..."
            )
        if self.card is not None:
            checks.file_to_write("--card", self.card, ".html")
            if not (self.question or "").strip():
                raise InputError("--card needs --question: the decision that needs the value, in one sentence.")
            if len(set(targets) - {BEHAVIOUR}) > 1:
                raise InputError("--card is about one target, besides the behaviour: evaluate the others one by one.")
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
        if self.better_than is not None and isinstance(found, Evaluations):
            for difference in found.compare(against=self.better_than).differences:
                if difference.low is None or not difference.low > 0:
                    ends = "none" if difference.low is None else f"{difference.low:.5g} to {difference.high:.5g}"
                    yield (
                        f"{difference.first} is not shown to be better than {self.better_than}: the interval of the "
                        f"difference is {ends}."
                    )
