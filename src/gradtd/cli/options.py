"""Parts that the commands share: numbers and settings, shell completion, help panels.

Commands import computing code inside their functions, so that help appears at once.
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
"""How the help shows a numeric option."""


def number(text: Any) -> float:
    """A number or a fraction. See `numeric`."""
    found = parse_value(text) if isinstance(text, str) else text
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise typer.BadParameter(f"{text!r} is not a number; write for example 0.25, 1e-3 or 1/16.")
    try:
        return float(found)
    except OverflowError:
        raise typer.BadParameter(f"{text!r} is beyond the largest number, 1.8e308.") from None


def numeric(help: str, panel: str | None = None) -> Any:
    """An option that takes a number or a fraction."""
    return typer.Option(help=help, parser=number, metavar=NUMBER, rich_help_panel=panel)


def step_size(text: Any) -> float | str:
    """A number, or the word auto."""
    return "auto" if text == "auto" else number(text)


METHOD, SIZE, OUTPUT, MACHINE = "Method", "Amount of data", "Output", "Machine"
"""Names of the panels in which the help shows options."""
FLAG = " "
"""How the help shows a flag, after which Typer would write <bool>."""
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
    help="Save the fitted features and the sums of every part of a Parquet log in this folder. A restart continues "
    "after a kill, and reads only files added since.",
    rich_help_panel=MACHINE,
)
JSON: Any = typer.Option("--json", metavar=FLAG, help="Print one JSON object instead of text.", rich_help_panel=OUTPUT)


BEHAVIOUR: Any = typer.Option(
    help="The behaviour policy: a column with its probabilities of the actions taken, or estimate to "
    "fit them. By default the log's column behaviour."
)
THREADS: Any = typer.Option(help="Number of threads. By default one for each core.", rich_help_panel=MACHINE)
RUN_THREADS: Any = typer.Option(
    help="Number of threads, by default one for each core. The result does not depend on it.", rich_help_panel=MACHINE
)


def block_length(panel: str) -> Any:
    """The option for blocks, in a panel of a command."""
    return typer.Option(
        help="Count every block of this many steps as one independent episode. For a log of one long episode.",
        rich_help_panel=panel,
    )


LOG = "Log format"
"""The panel of options for reading logs."""
COLUMN: Any = typer.Option(
    help="The role of a column whose name is not recognised: --column reward=r. "
    "none excludes a column: --column t=none. May be given several times.",
    rich_help_panel=LOG,
)
OBSERVATION: Any = typer.Option(help="The columns of the observation, separated by commas: x,v.", rich_help_panel=LOG)
ONE_STEP: Any = typer.Option(
    "--one-step",
    help="Treat every row as an episode of one step, as in the log of a bandit. The default if no column says which "
    "rows form an episode.",
    rich_help_panel=LOG,
)
LOG_PROBABILITIES: Any = typer.Option(
    "--log-probabilities",
    help="Probability columns contain logarithms: exponentiate them.",
    rich_help_panel=LOG,
)
DROP_DUPLICATES: Any = typer.Option("--drop-duplicates", help="Drop duplicate rows.", rich_help_panel=LOG)
ACTIONS: Any = typer.Option(
    help="All actions in the order of the probabilities, separated by commas: none,low,high.",
    rich_help_panel=LOG,
)
TIME_LIMIT: Any = typer.Option(
    help="The environment's step limit: an end at exactly that step counts as truncated.",
    rich_help_panel=LOG,
)
MISSING: Any = typer.Option(
    help="Missing values: refuse them, drop the rows, or add indicator columns (indicator).",
    metavar="WORD",
    rich_help_panel=LOG,
)


def with_options(**groups: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of these functions to a command, which receives their results as parameters."""

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
        )  # Typer reads the options from the signature
        with_groups.__annotations__ = {one.name: one.annotation for one in every}
        return with_groups

    return decorate


def named_columns(column: list[str] | None, observation: str | None) -> dict[str, Any] | None:
    """Parse the mapping of columns."""
    found: dict[str, Any] = {}
    for text in column or []:
        ours, sign, theirs = text.partition("=")
        if not (ours and sign and theirs):
            raise InputError(f"--column takes NAME=COLUMN, for example reward=r; got {text!r}.")
        found[ours] = None if theirs.lower() == "none" else theirs
    if observation:
        found["observation"] = [name.strip() for name in observation.split(",")]
    return found or None


def listed_actions(text: str | None) -> list[Any] | None:
    """Parse a list of actions, as numbers if all of them are."""
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
    """Parse ``name=value``, where the value is a number, true, false, none or a word."""
    name, sign, value = text.partition("=")
    if not sign or not name or not value:
        raise InputError(f"--set takes name=value, got {text!r}.")
    return name, parsing.parse_value(value)


def hyper_parameters(algorithm: str, texts: Iterable[str], **options: Any) -> dict[str, Any]:
    """Parse the settings of an algorithm, with valid and unique names.

    ``options`` are settings with an option of their own, or None if not given. lam is also passed to algorithms without
    traces, whose message explains why they have none.
    """
    from gradtd.algorithms import as_algorithm
    from gradtd.running.settings import TRACES, parameters

    hyper: dict[str, Any] = {}
    own = {name: value for name, value in options.items() if value is not None}
    for name, value in (*own.items(), *map(setting, texts)):
        known = {**TRACES, **parameters(as_algorithm(algorithm))}
        checks.known_name(f"hyper-parameter of {algorithm}", name, known)
        if name in hyper:
            both = f"together with --{name}: leave one of them out" if name in own else "twice"
            raise InputError(f"--set {name} is given {both}.")
        hyper[name] = value
    return hyper


def first_line(text: str | None) -> str:
    """The first line of a docstring, for the help."""
    return (text or "").strip().partition("\n")[0].replace("``", "")


def described() -> dict[str, Mapping[str, str]]:
    """All problems, algorithms and metrics, with one line about each."""
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
    """Names of problems, for shell completion."""
    return _beginning(described()["Problems"], incomplete)


PROBLEM: Any = typer.Argument(
    help="Name of a problem, with optional parameters: boyan_chain, random_walk_tabular:n=19. gradtd list shows them.",
    metavar="PROBLEM",
    autocompletion=complete_problem,
)


def complete_algorithm(incomplete: str) -> list[tuple[str, str]]:
    """Names of algorithms, for shell completion."""
    return _beginning(described()["Algorithms"], incomplete)


def complete_metric(incomplete: str) -> list[tuple[str, str]]:
    """Names of metrics, for shell completion."""
    return _beginning(described()["Metrics"], incomplete)


def complete_any(incomplete: str) -> list[tuple[str, str]]:
    """Names of problems, algorithms and metrics, for shell completion."""
    return [pair for names in described().values() for pair in _beginning(names, incomplete)]


def complete_setting(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """Names of the hyper-parameters of the algorithm typed before, for shell completion."""
    from gradtd.algorithms import ALGORITHMS
    from gradtd.running.settings import parameters

    algorithm = ctx.params.get("algorithm")
    if algorithm in ALGORITHMS:
        known = parameters(ALGORITHMS[algorithm])
        yield from _beginning({f"{name}=": parameter.help for name, parameter in known.items()}, incomplete)
