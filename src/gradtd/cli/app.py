"""The command line, assembled from one file per command: ``gradtd evaluate``, ``run``, ``list`` and so on."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import gradtd
from gradtd.cli import main as main
from gradtd.cli.evaluate import as_now, evaluate
from gradtd.cli.improve import improve
from gradtd.cli.inspect import inspect, sample_log
from gradtd.cli.list import list_
from gradtd.cli.options import FLAG
from gradtd.cli.reproduce import lab, reproduce
from gradtd.cli.run import demo, run
from gradtd.cli.signals import ANEW, Stopped
from gradtd.cli.sweep import sweep
from gradtd.cli.theory import theory
from gradtd.cli.watch import watch
from gradtd.core.checks import one_of, printable


class Commands(TyperGroup):
    """The commands. Ctrl-C or SIGTERM ends any of them with one line."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Stopped as stopped:
            raise _said(stopped) from None
        except KeyboardInterrupt as cause:
            raise _said(Stopped(cause, ANEW)) from None


def _said(stopped: Stopped) -> typer.Exit:
    print(f"\ngradtd: {stopped}", file=sys.stderr)  # on a new line, after the terminal's ^C
    return typer.Exit(stopped.code)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Estimate the value of a policy from data that another policy produced.",
    epilog="To begin:\n\n"
    "gradtd sample-log random_walk_tabular --episodes 300 --out log.parquet\n\n"
    "gradtd evaluate log.parquet --gamma 1",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gradtd {gradtd.__version__}")
        raise typer.Exit()


@app.callback()
def options(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", metavar=FLAG, help="Print the version and exit.", callback=_version, is_eager=True),
    ] = False,
    log_level: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL",
            help="Log progress to stderr: info, or debug, which includes compilation and caches.",
        ),
    ] = None,
) -> None:
    if log_level is not None:
        _log_to_stderr(
            ctx, logging.DEBUG if one_of("--log-level", log_level, ("info", "debug")) == "debug" else logging.INFO
        )


class _Plain(logging.Formatter):
    """Log lines without terminal control characters, which names of files and columns may contain."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), lines=True)


def _log_to_stderr(ctx: typer.Context, level: int) -> None:
    """Show the library's log messages until the command ends."""
    logger, handler = logging.getLogger("gradtd"), logging.StreamHandler()
    handler.setFormatter(_Plain("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)

    def stop() -> None:
        logger.removeHandler(handler)
        logger.setLevel(before)

    ctx.call_on_close(stop)


COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "A policy's value from a log": {
        "evaluate": evaluate,
        "improve": improve,
        "watch": watch,
        "inspect": inspect,
        "sample-log": sample_log,
    },
    "Algorithms on problems": {"list": list_, "run": run, "sweep": sweep, "demo": demo, "theory": theory},
    "The paper": {"reproduce": reproduce, "lab": lab},
}
"""The commands in each panel of the help."""
CONTEXTS = {"evaluate": {"token_normalize_func": as_now}}
"""Commands that parse their options in their own way."""
for panel, commands in COMMANDS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel, context_settings=CONTEXTS.get(name))(command)


if __name__ == "__main__":
    main()
