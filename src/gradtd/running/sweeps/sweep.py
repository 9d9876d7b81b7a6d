"""A sweep: its settings, its runs in a folder from which it can be resumed, and its results."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from gradtd.core import checks
from gradtd.core.algorithm import Algorithm
from gradtd.core.checks import InputError
from gradtd.core.executors import Executor, open_executor
from gradtd.core.files import read_file, reading
from gradtd.core.progress import Progress, progress_bar
from gradtd.core.results_folder import ResultsFolder, in_use
from gradtd.problems.base import Problem
from gradtd.problems.metrics import METRICS
from gradtd.running.sweeps.grid import Setting, problems_of, settings_of
from gradtd.running.sweeps.outcome import Swept, notes_of, tidy, winners_of, write_page
from gradtd.running.sweeps.units import Parts, Task, Unit, Values, block_size, blocks, compute, tasks_of

FORMAT = 2
MADE_BY = "gradtd sweep"
MOST_UNITS = 1_000_000
"""Maximum number of units of work, each of which has a file."""


class Status(NamedTuple):
    """Progress of a sweep: numbers of finished and missing units, including those of the winners once known."""

    done: int
    missing: Sequence[Unit]
    winners_known: bool
    running: bool


@dataclass(frozen=True)
class Sweep:
    """A grid of problems, algorithms, hyper-parameters and seeds, run in a folder and resumable.

    Parameters
    ----------
    problems : list or dict
        Names of problems, with optional parameters (``"random_walk_tabular:n=9"``), or custom problems; or tables of
        parameters by name, in which a list means several values.
    algorithms : dict
        For each algorithm, by name, a table of hyper-parameters in which a list means several values, or a list of such
        tables.
    runs : int
        Independent runs of every setting. Run r uses the same data for every algorithm.
    steps : int
        Number of steps per run.
    metrics : list of str
        Metrics to measure, by their names in `gradtd.METRICS`. The first one chooses the winners.
    at : list of int, optional
        The steps after which the metrics are measured; by default the last one.
    seed : int
        The seed of the runs.
    best : str
        A winner has the least mean of the first metric: at the ``"last"`` step, or over all steps in ``at`` ("mean").
    fresh_runs, fresh_seed : int, optional
        Number of runs and seed for repeating the winners; by default the same number of runs, with the next seed.
    own : list of Algorithm
        Custom rules named in ``algorithms``.
    block : int, optional
        Runs per unit of work; by default about a million steps. Results do not depend on it.

    >>> import gradtd
    >>> grid = gradtd.Sweep(problems=["boyan_chain"], algorithms={"td": {"alpha": ["1/32", "1/16"]}}, runs=2, steps=200)
    >>> [str(setting) for setting in grid.settings]
    ['boyan_chain td {"alpha": 0.03125}', 'boyan_chain td {"alpha": 0.0625}']
    """

    problems: Any
    algorithms: Mapping[str, Any]
    runs: int = 100
    steps: int = 10_000
    metrics: Sequence[str] = ("rmsve",)
    at: Sequence[int] | None = None
    seed: int = 0
    best: str = "last"
    fresh_runs: int | None = None
    fresh_seed: int | None = None
    own: Sequence[Algorithm] = ()
    block: int | None = None

    settings: Sequence[Setting] = field(init=False, repr=False)
    _problems: Mapping[str, Problem] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        checks.one_of("best", self.best, ("last", "mean"))
        runs, steps = checks.whole_number("runs", self.runs, 1), checks.whole_number("steps", self.steps, 1)
        seed = checks.seed_number(self.seed)
        problems = problems_of(self.problems)
        checked = {
            "runs": runs,
            "steps": steps,
            "seed": seed,
            "metrics": _metrics(self.metrics),
            "at": _at(self.at, steps),
            "fresh_runs": runs if self.fresh_runs is None else checks.whole_number("fresh_runs", self.fresh_runs, 1),
            "fresh_seed": _fresh_seed(self.fresh_seed, seed),
            "block": None if self.block is None else checks.whole_number("block", self.block, 1),
            "_problems": problems,
            "settings": settings_of(problems, self.algorithms, {rule.name: rule for rule in self.own}),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        units = len(self.settings) * -(-runs // block_size(steps, self.block))
        if units > MOST_UNITS:
            raise InputError(
                f"a sweep has at most {MOST_UNITS} units of work, this one has {units}: use fewer runs, or a larger "
                "block."
            )

    @classmethod
    def from_file(cls, path: str | Path) -> Sweep:
        """Read a sweep from a TOML file whose keys are the parameters of this class.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        with reading(path, "a sweep in TOML"):
            text = read_file(Path(path)).decode()
        try:
            told = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # TOML's own error, or Python's for numbers and nesting
            raise InputError(f"{str(path)!r} is not TOML: {error}.") from None
        known = [one.name for one in fields(cls) if one.init and one.name != "own"]
        for name in told:
            checks.known_name(f"key in {str(path)!r}", name, known)
        for name in ("problems", "algorithms"):
            if name not in told:
                raise InputError(f"{str(path)!r} has no {name}: a sweep needs problems and algorithms.")
        return cls(**told)

    def run(
        self,
        out: str | Path,
        *,
        threads: int | None = None,
        scheduler: str | None = None,
        progress: bool | Progress | None = None,
    ) -> Swept:
        """Run the sweep in a folder, skipping finished units. Returns the tables.

        Parameters
        ----------
        out : str or Path
            The folder: ``results.parquet``, ``winners.parquet``, ``index.html`` and the finished units.
        threads : int, optional
            By default one for each core. The result does not depend on it.
        scheduler : str, optional
            The address of a Dask scheduler whose workers run the units, or ``"local:2"`` for two processes.
        progress : bool or callable, optional
            As in `gradtd.run`; called after every unit.
        """
        tasks = self._tasks()
        folder = ResultsFolder(Path(out), MADE_BY, FORMAT)
        with (
            folder.locked(),
            open_executor(threads, scheduler) as executor,
            progress_bar("sweep", what=True, progress=progress) as report,
        ):
            work = _Work(Parts(folder.path(".parts")), executor, report)
            found = work.all(self._units(tasks.values()), "sweep")
            winners = winners_of(found, self.metrics[0], self.best)
            again = work.all(self._fresh([tasks[setting] for setting in winners]), "winners on fresh seeds")
            with folder.keeping():
                return self._finish(folder, found, again)

    def status(self, out: str | Path) -> Status:
        """The progress of the sweep in a folder, without running or writing anything.

        Parameters
        ----------
        out : str or Path
            The folder.
        """
        tasks, parts = self._tasks(), Parts(Path(out) / ".parts")
        units = self._units(tasks.values())
        found = {unit: values for unit in units if (values := parts.look(unit)) is not None}
        missing = [unit for unit in units if unit not in found]
        if not missing:
            winners = winners_of(_by_setting(found), self.metrics[0], self.best)
            fresh = self._fresh([tasks[setting] for setting in winners])
            missing = [unit for unit in fresh if parts.look(unit) is None]
            return Status(len(units) + len(fresh) - len(missing), missing, True, in_use(Path(out)))
        return Status(len(found), missing, False, in_use(Path(out)))

    def _tasks(self) -> dict[Setting, Task]:
        rules = {name: name for name in self.algorithms} | {rule.name: rule for rule in self.own}
        measured = {"steps": self.steps, "at": self.at, "metrics": self.metrics}
        return {task.setting: task for task in tasks_of(self.settings, self._problems, rules, **measured)}

    def _units(self, tasks: Any) -> list[Unit]:
        return [unit for task in tasks for unit in blocks(task, self.seed, self.runs, self.block)]

    def _fresh(self, tasks: Sequence[Task]) -> list[Unit]:
        seed, runs = int(self.fresh_seed or 0), int(self.fresh_runs or 0)
        return [unit for task in tasks for unit in blocks(task, seed, runs, self.block)]

    def _finish(self, folder: ResultsFolder, found: dict[Setting, Values], again: dict[Setting, Values]) -> Swept:
        import pyarrow as pa

        at = self.at or ()
        results, winners = tidy(found, at), tidy(again, at)
        folder.write_table("results.parquet", results)
        folder.write_table("winners.parquet", winners)
        swept = Swept(pa.table(results), pa.table(winners), folder.folder, notes_of(found, list(again)))
        write_page(swept, self.metrics[0], self.best)
        return swept


def _metrics(given: Any) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise InputError(f'metrics must be a list of names, for example ["rmsve"]; got {given!r}.')
    if not names or len(set(names)) < len(names):
        raise InputError(f"metrics must have at least one name and no duplicates; got {names}.")
    return tuple(checks.known_name("metric", name, METRICS) for name in names)


def _at(given: Any, steps: int) -> tuple[int, ...]:
    """The steps to measure at. A list is required, since one number means "every n steps" elsewhere."""
    if given is None:
        return (steps,)
    if isinstance(given, str) or not isinstance(given, Iterable) or not (listed := list(given)):
        raise InputError(f"at must be a list of steps, for example [{max(steps // 4, 1)}, {steps}]; got {given!r}.")
    whole = [checks.whole_number("a step in at", step, 0, steps) for step in listed]
    if any(b <= a for a, b in pairwise(whole)):
        raise InputError(f"at must be steps in increasing order, got {whole}.")
    return tuple(whole)


def _fresh_seed(given: Any, seed: int) -> int:
    fresh = seed + 1 if given is None else checks.seed_number(given, "fresh_seed")
    if fresh == seed:
        raise InputError(f"fresh_seed must differ from seed, which is {seed}: winners are run on fresh data.")
    return fresh


class _Work:
    """Runs units, or fetches finished ones, and reports progress."""

    def __init__(self, parts: Parts, executor: Executor, report: Any) -> None:
        self.parts, self.executor, self.report = parts, executor, report

    def all(self, units: Sequence[Unit], what: str) -> dict[Setting, Values]:
        """The outcomes of all settings, in the order of the units."""
        found = {unit: values for unit in units if (values := self.parts.look(unit)) is not None}
        # The longest units first, so that workers finish at about the same time.
        missing = sorted((unit for unit in units if unit not in found), key=lambda unit: -unit.work)
        total, done = sum(unit.work for unit in units), sum(unit.work for unit in found)
        for number, (digest, values) in self.executor.each(compute, missing):
            unit = missing[number]
            if digest != unit.digest:
                raise InputError(
                    "a worker runs another version of gradtd or of a rule: install the same version there."
                )
            try:
                self.parts.keep(unit, values)
            except OSError as error:
                raise InputError(
                    f"cannot write results to {str(self.parts.folder)!r}: {error.strerror or error}; "
                    f"{len(found)} of {len(units)} units are saved: free some space and start again."
                ) from None
            found[unit] = values
            done += unit.work
            if self.report:
                self.report(what, done, total)
        return _by_setting({unit: found[unit] for unit in units})


def _by_setting(found: Mapping[Unit, Values]) -> dict[Setting, Values]:
    """The values of every setting, joined from its blocks."""
    grouped: dict[Setting, list[Values]] = {}
    for unit, values in found.items():
        grouped.setdefault(unit.task.setting, []).append(values)
    return {setting: Values.joined(parts) for setting, parts in grouped.items()}
