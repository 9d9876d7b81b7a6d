"""The size and the shape of one or two source trees, and how much of them a command passes through.

    python benchmarks/house.py [--source src] [--source OTHER_TREE/src] [--list] [--no-trace]

Counted for every room and in total: files, lines, statements, comment lines, import lines, files above 400 lines. For
the whole tree: modules that one other module imports, class names that stand in several places, module names that
differ by an inflection, and module names that several folders have. ``--list`` names them.

Then the table of docs/architecture.md: files, functions and calls of gradtd behind a command. Each command runs in a
fresh process with one thread, after a run that has compiled what it needs. Counted are calls of Python functions that
stand in a file of gradtd. Not counted are imports, comprehensions, and what runs compiled.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).resolve()
LONGEST = 400
"""Lines that a file may have."""
COUNTS = ("files", "lines", "statements", "comment lines", "import lines", f"files above {LONGEST}")
ENDINGS = re.compile("(ations?|isons?|ings?|ions?|tics?|ors?|ers?|ed|es|s|e)$")
"""What a word may end with and still be the same one."""
COMMANDS = {
    "gradtd run boyan_chain impression_gtd": "--runs 2 --steps 1000 --threads 1",
    "gradtd evaluate log.parquet --gamma .99": "--resamples 5 --threads 1",
}
"""What is traced, and the arguments that make it small."""

LOG = "import gradtd; gradtd.write_log(gradtd.sample_log('random_walk_tabular', 300), 'log.parquet')"


@dataclass(frozen=True)
class Module:
    """One file of the package: its name with dots, and what stands in it."""

    name: str
    path: Path
    lines: int
    statements: int
    comments: int
    import_lines: int
    classes: tuple[str, ...]
    imports: frozenset[str]

    @property
    def room(self) -> str:
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else "gradtd"

    @property
    def stem(self) -> str:
        return self.name.rsplit(".", 1)[-1]

    @property
    def numbers(self) -> Counter[str]:
        counts = (1, self.lines, self.statements, self.comments, self.import_lines, int(self.lines > LONGEST))
        return Counter(dict(zip(COUNTS, counts, strict=True)))


def read_tree(source: Path) -> list[Module]:
    """Every Python file of the package that stands in a folder."""
    files = sorted((source / "gradtd").rglob("*.py"))
    if not files:
        raise SystemExit(f"{source} holds no package gradtd.")
    return [read_module(source, path) for path in files]


def read_module(source: Path, path: Path) -> Module:
    text = path.read_text()
    tree = ast.parse(text)
    name = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
    nodes = list(ast.walk(tree))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    stub = path.with_suffix(".pyi")  # where names are loaded on first use, it says from where
    wanted = imports + [
        node for node in (ast.walk(ast.parse(stub.read_text())) if stub.exists() else ()) if is_import(node)
    ]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return Module(
        name=name,
        path=path,
        lines=len(text.splitlines()),
        statements=sum(isinstance(node, ast.stmt) and not is_text(node) for node in nodes),
        comments=comment_lines(text),
        import_lines=sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in imports),
        classes=tuple(node.name for node in nodes if isinstance(node, ast.ClassDef)),
        imports=frozenset(imported for node in wanted for imported in imported_names(node, package)),
    )


def is_import(node: ast.AST) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def is_text(node: ast.AST) -> bool:
    """A docstring, or a sentence below a constant: no statement that does anything."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def comment_lines(text: str) -> int:
    """Lines that are a comment, or end with one, for people and not for a tool."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found = (token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT)
    return sum(not comment.startswith(("noqa", "type:", "fmt:", "pragma", "!")) for comment in found)


def imported_names(node: ast.Import | ast.ImportFrom, package: str) -> Iterable[str]:
    """The modules that a line may import: ``from a import b`` may mean a.b, or a name in a."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    stem = ".".join([*base, *([node.module] if node.module else [])])
    yield stem
    yield from (f"{stem}.{alias.name}" for alias in node.names)


def single_importers(modules: Sequence[Module]) -> list[str]:
    """Modules, packages aside, that exactly one other module imports."""
    importers: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for name in module.imports:
            importers[name].add(module.name)
    plain = [module.name for module in modules if module.path.name != "__init__.py"]
    found = {name: importers[name] - {name} for name in plain}
    return [f"{name} <- {next(iter(by))}" for name, by in found.items() if len(by) == 1]


def repeated_classes(modules: Sequence[Module]) -> list[str]:
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for name in module.classes:
            places[name].append(module.name)
    return [f"{name}: {', '.join(where)}" for name, where in sorted(places.items()) if len(where) > 1]


def root_of(stem: str) -> str:
    """A word without its ending: plan and planning, rule and rules, fits and fitted have one root."""
    for _ in range(2):
        shorter = ENDINGS.sub("", stem)
        if len(shorter) < 3 or shorter == stem:
            break
        stem = re.sub(r"([b-df-hj-np-tv-z])\1$", r"\1", shorter)
    return stem


def inflected(modules: Sequence[Module]) -> list[str]:
    """Pairs of module names with one root, packages aside."""
    stems = sorted({module.stem for module in modules if module.path.name != "__init__.py"})
    return [f"{a} / {b}" for a, b in combinations(stems, 2) if root_of(a) == root_of(b)]


def shared_stems(modules: Sequence[Module]) -> list[str]:
    """Module names that several folders have."""
    stems = Counter(module.stem for module in modules if module.path.name != "__init__.py")
    return [f"{stem} ({count})" for stem, count in sorted(stems.items()) if count > 1]


class Tracer:
    """A profile function that counts calls by (file, function)."""

    def __init__(self, package: Path) -> None:
        self.root = f"{package}{os.sep}"
        self.calls: Counter[tuple[str, str]] = Counter()
        self._local = threading.local()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        code, change = frame.f_code, 1 if event == "call" else -1
        if code.co_name == "<module>":
            self._local.importing = getattr(self._local, "importing", 0) + change
        elif change == 1 and not getattr(self._local, "importing", 0) and self._counts(frame) and not _resumed(frame):
            self.calls[code.co_filename.removeprefix(self.root), code.co_qualname] += 1

    def _counts(self, frame: FrameType) -> bool:
        """Functions of the package; the bodies of classes and comprehensions are parts of other code."""
        code = frame.f_code
        plain = code.co_name == "<lambda>" or not code.co_name.startswith("<")
        return plain and bool(code.co_flags & inspect.CO_NEWLOCALS) and code.co_filename.startswith(self.root)


def _resumed(frame: FrameType) -> bool:
    """Whether a generator goes on; its first entry is the call."""
    return bool(frame.f_code.co_flags & inspect.CO_GENERATOR) and frame.f_code.co_code[frame.f_lasti + 1] != 0


def trace(words: list[str]) -> None:
    """Run one command in this process and print what it passed through, as JSON on the last line."""
    import gradtd

    try:
        from gradtd.cli.app import main
    except ImportError:  # a tree from before the command line was a package
        from gradtd.cli import main  # type: ignore[attr-defined, no-redef]
    tracer = Tracer(Path(gradtd.__file__).parent)
    sys.argv = ["gradtd", *words]
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    found = [[file, name, count] for (file, name), count in sorted(tracer.calls.items())]
    print("\n" + json.dumps(found))


def passed_through(source: Path) -> dict[str, list[tuple[str, str, int]]]:
    """Every command, traced in the tree whose package stands in ``source``."""
    environment = {**os.environ, "PYTHONPATH": str(source.resolve()), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:

        def python(*words: str) -> str:
            return subprocess.run(
                [sys.executable, *words], cwd=folder, env=environment, check=True, capture_output=True, text=True
            ).stdout

        python("-c", LOG)
        found = {}
        for command, small in COMMANDS.items():
            words = [*command.split()[1:], *small.split()]
            python("-m", "gradtd", *words)
            found[command] = json.loads(python(str(HERE), "--here", *words).splitlines()[-1])
    return found


def main() -> None:
    if sys.argv[1:2] == ["--here"]:
        trace(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, action="append", help="a folder that holds the package gradtd")
    parser.add_argument("--list", action="store_true", help="name what is counted, and show the calls by file")
    parser.add_argument("--no-trace", action="store_true", help="leave out the commands, which take a minute")
    options = parser.parse_args()
    sources = options.source or [HERE.parents[1] / "src"]
    trees = [read_tree(source) for source in sources]
    show_rooms(sources, trees)
    show_shape(sources, trees, options.list)
    if not options.no_trace:
        show_commands(sources, options.list)


def show_rooms(sources: Sequence[Path], trees: Sequence[Sequence[Module]]) -> None:
    """One row for every room of any tree, with the counts of all trees beside each other."""
    print("trees: " + ", ".join(map(str, sources)))
    print(f"\n| room | {' | '.join(COUNTS)} |\n|{'---|' * (len(COUNTS) + 1)}")
    for room in [*sorted({module.room for tree in trees for module in tree}), "in total"]:
        sums = [sum((m.numbers for m in tree if room in (m.room, "in total")), Counter[str]()) for tree in trees]
        print(f"| {room} | " + " | ".join(" -> ".join(str(one[name]) for one in sums) for name in COUNTS) + " |")


def show_shape(sources: Sequence[Path], trees: Sequence[Sequence[Module]], names: bool) -> None:
    """What is told of a tree as a whole."""
    long = [[f"{m.name} ({m.lines})" for m in tree if m.lines > LONGEST] for tree in trees]
    rows = {
        "modules with one importer": [single_importers(tree) for tree in trees],
        "class names in several places": [repeated_classes(tree) for tree in trees],
        "module names that differ by an inflection": [inflected(tree) for tree in trees],
        "module names in several folders": [shared_stems(tree) for tree in trees],
        f"files above {LONGEST} lines": long,
    }
    print(f"\n| | {' | '.join(map(str, sources))} |\n|{'---|' * (len(sources) + 1)}")
    for what, listed in rows.items():
        print(f"| {what} | {' | '.join(str(len(one)) for one in listed)} |")
    for what, listed in rows.items() if names else ():
        for source, one in zip(sources, listed, strict=True):
            print(f"\n{what}, {source}:" + "".join(f"\n    {line}" for line in one))


def show_commands(sources: Sequence[Path], names: bool) -> None:
    """The table of docs/architecture.md."""
    print("\n| command | tree | files | functions | calls | outside the engine |\n|---|---|---|---|---|---|")
    for source in sources:
        for command, calls in passed_through(source).items():
            by_file: Counter[str] = Counter()
            for file, _, count in calls:
                by_file[file] += count
            engine = sum(count for file, count in by_file.items() if file.endswith("engine.py"))
            numbers = (len(by_file), len(calls), by_file.total(), by_file.total() - engine)
            print(f"| `{command}` | {source} | " + " | ".join(map(str, numbers)) + " |")
            if names:
                print("\n".join(f"    {count:6} {file}" for file, count in sorted(by_file.items())))


if __name__ == "__main__":
    main()
