"""What the commands share: numbers and settings as they are typed, names for the shell to complete, help panels.

The modules of the commands import what computes inside their functions, so that help appears at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from inspect import Signature, signature
from typing import Annotated, Any

import typer

from gradtd.core import checks, parsing
from gradtd.core.checks import InputError
from gradtd.core.parsing import parse_value, whole_numbers

NUMBER: Any = "NUMBER"
"""How help shows an option that takes a number."""


def number(text: Any) -> float:
    """A number or a fraction; for ``typer.Option(parser=number, metavar=NUMBER)``."""
    found = parse_value(text) if isinstance(text, str) else text
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise typer.BadParameter(f"{text!r} is not a number; write for example 0.25, 1e-3 or 1/16.")
    return float(found)


def step_size(text: Any) -> float | str:
    """A number, or the word auto."""
    return "auto" if text == "auto" else number(text)


METHOD, SIZE, OUTPUT, MACHINE = "Method", "Amount of data", "Output", "Machine"
"""Panels in which the help shows options."""
FLAG = " "
"""How help shows an option that takes no value; Typer would write <bool> behind it."""
SCHEDULER: Any = typer.Option(
    "--scheduler",
    metavar="ADDRESS",
    help="Address of a Dask scheduler whose workers do the work, or local:2 for two processes. "
    r"Needs gradtd\[cluster].",
    rich_help_panel=MACHINE,
)
CHECKPOINT: Any = typer.Option(
    "--checkpoint",
    metavar="FOLDER",
    help="Keep what was fitted and the sums of every part of a Parquet log in this folder. Started again it goes on "
    "where it was killed, and reads only files that were added since.",
    rich_help_panel=MACHINE,
)
JSON: Any = typer.Option("--json", metavar=FLAG, help="Print one JSON object instead of text.", rich_help_panel=OUTPUT)


BEHAVIOUR: Any = typer.Option(
    help="The policy that made the log: a column with its probabilities of the actions taken, or the word estimate to "
    "fit them. By default the log's column behaviour."
)
THREADS: Any = typer.Option(help="Threads to compute on. By default one for each core.", rich_help_panel=MACHINE)
RUN_THREADS: Any = typer.Option(
    help="Number of threads, by default one for each core. The result does not depend on it.", rich_help_panel=MACHINE
)


def block_length(panel: str) -> Any:
    """The option, in a panel of the command's."""
    return typer.Option(
        help="Count every so many steps as one independent episode. For a log of one long episode.",
        rich_help_panel=panel,
    )


LOG = "Log format"
"""The panel of options that say how a log is read."""
COLUMN: Any = typer.Option(
    help="Says which column is which, where names are not recognised, as ours=theirs: --column reward=r. "
    "With none for a column that is not to be used: --column t=none. May be given several times.",
    rich_help_panel=LOG,
)
OBSERVATION: Any = typer.Option(
    help="The columns of the observation, with commas between them: x,v.", rich_help_panel=LOG
)
ONE_STEP: Any = typer.Option(
    "--one-step",
    help="Every row is an episode of one step, as in the log of a bandit. Found out where nothing tells which rows "
    "belong together.",
    rich_help_panel=LOG,
)
LOG_PROBABILITIES: Any = typer.Option(
    "--log-probabilities",
    help="Columns of probabilities hold their logarithms: take exp of them.",
    rich_help_panel=LOG,
)
DROP_DUPLICATES: Any = typer.Option(
    "--drop-duplicates", help="Drop rows that repeat another one of the log.", rich_help_panel=LOG
)
ACTIONS: Any = typer.Option(
    help="All actions in the order that probabilities have, with commas between them: none,low,high.",
    rich_help_panel=LOG,
)
TIME_LIMIT: Any = typer.Option(
    help="Steps after which the game cuts an episode off: an end at that step counts as truncated.",
    rich_help_panel=LOG,
)
MISSING: Any = typer.Option(
    help="Missing values: refuse them, drop the rows, or mark them in a column of their own (indicator).",
    metavar="WORD",
    rich_help_panel=LOG,
)


def with_options(**groups: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command that takes the options of these functions, and gets what they return in parameters of their names."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        shared = {name: signature(group, eval_str=True).parameters for name, group in groups.items()}
        own = signature(command, eval_str=True).parameters
        every = [one for name, own_one in own.items() for one in shared.get(name, {name: own_one}).values()]

        @wraps(command)
        def with_groups(**typed: Any) -> None:
            values = {
                name: groups[name](**{one: typed.pop(one) for one in options}) for name, options in shared.items()
            }
            command(**typed, **values)

        vars(with_groups)["__signature__"] = Signature(
            [one.replace(kind=one.KEYWORD_ONLY) for one in every]
        )  # what Typer reads the options from
        with_groups.__annotations__ = {one.name: one.annotation for one in every}
        return with_groups

    return decorate


def named_columns(column: list[str] | None, observation: str | None) -> dict[str, Any] | None:
    """The columns as they were typed."""
    found: dict[str, Any] = {}
    for text in column or []:
        ours, sign, theirs = text.partition("=")
        if not (ours and sign and theirs):
            raise InputError(f"--column takes ours=theirs, for example reward=r; got {text!r}.")
        found[ours] = None if theirs.lower() == "none" else theirs
    if observation:
        found["observation"] = [name.strip() for name in observation.split(",")]
    return found or None


def listed_actions(text: str | None) -> list[Any] | None:
    """Actions as they were typed; numbers where all of them are."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    return whole_numbers(words) or words


def log_format(
    column: Annotated[list[str] | None, COLUMN] = None,
    observation: Annotated[str | None, OBSERVATION] = None,
    one_step: Annotated[bool, ONE_STEP] = False,
    actions: Annotated[str | None, ACTIONS] = None,
    time_limit: Annotated[int | None, TIME_LIMIT] = None,
    missing: Annotated[str, MISSING] = "refuse",
    log_probabilities: Annotated[bool, LOG_PROBABILITIES] = False,
    drop_duplicates: Annotated[bool, DROP_DUPLICATES] = False,
) -> Any:
    """How the log is to be read: a `LogFormat`."""
    from gradtd.evaluation.options import LogFormat

    return LogFormat(
        columns=named_columns(column, observation),
        one_step=True if one_step else None,
        actions=listed_actions(actions),
        time_limit=time_limit,
        missing=missing,
        log_probabilities="convert" if log_probabilities else "refuse",
        duplicates="drop" if drop_duplicates else "refuse",
    )


def setting(text: str) -> tuple[str, Any]:
    """``name=value``, the value a number, true, false, none or a word."""
    name, sign, value = text.partition("=")
    if not sign or not name or not value:
        raise InputError(f"--set takes name=value, got {text!r}.")
    return name, parsing.parse_value(value)


def hyper_parameters(algorithm: str, texts: Iterable[str], **options: Any) -> dict[str, Any]:
    """The settings of an algorithm, each of a name that it has, and given once.

    ``options`` have options of their own beside --set; None where they are not typed. A rule without traces is asked
    for lam all the same, and says why it has none.
    """
    from gradtd.algorithms import as_algorithm
    from gradtd.running.settings import TRACES, parameters

    hyper: dict[str, Any] = {}
    own = {name: value for name, value in options.items() if value is not None}
    for name, value in (*own.items(), *map(setting, texts)):
        known = {**TRACES, **parameters(as_algorithm(algorithm))}
        checks.known_name(f"hyper-parameter of {algorithm}", name, known)
        if name in hyper:
            both = f"beside --{name}: leave one of them out" if name in own else "twice"
            raise InputError(f"--set {name} is given {both}.")
        hyper[name] = value
    return hyper


def first_line(text: str | None) -> str:
    """The first line of a docstring, as help shows it."""
    return (text or "").strip().partition("\n")[0].replace("``", "")


def described() -> dict[str, Mapping[str, str]]:
    """Everything that has a name, with one line about it."""
    from gradtd.algorithms import ALGORITHMS
    from gradtd.problems import PROBLEMS
    from gradtd.problems.metrics import METRICS

    return {
        "Problems": {name: first_line(make.__doc__) for name, make in PROBLEMS.items()},
        "Algorithms": {name: first_line(rule.summary) for name, rule in ALGORITHMS.items()},
        "Metrics": {name: first_line(metric.__doc__) for name, metric in METRICS.items()},
    }


def _beginning(names: Mapping[str, str], incomplete: str) -> list[tuple[str, str]]:
    return [(name, text) for name, text in names.items() if name.startswith(incomplete)]


def complete_problem(incomplete: str) -> list[tuple[str, str]]:
    """Names of problems, for the shell."""
    return _beginning(described()["Problems"], incomplete)


def complete_algorithm(incomplete: str) -> list[tuple[str, str]]:
    """Names of algorithms, for the shell."""
    return _beginning(described()["Algorithms"], incomplete)


def complete_metric(incomplete: str) -> list[tuple[str, str]]:
    """Names of metrics, for the shell."""
    return _beginning(described()["Metrics"], incomplete)


def complete_any(incomplete: str) -> list[tuple[str, str]]:
    """Names of problems, algorithms and metrics, for the shell."""
    return [pair for names in described().values() for pair in _beginning(names, incomplete)]


def complete_setting(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """Names of the hyper-parameters of the algorithm that was typed before, for the shell."""
    from gradtd.algorithms import ALGORITHMS
    from gradtd.running.settings import parameters

    algorithm = ctx.params.get("algorithm")
    if algorithm in ALGORITHMS:
        known = parameters(ALGORITHMS[algorithm])
        yield from _beginning({f"{name}=": parameter.help for name, parameter in known.items()}, incomplete)
