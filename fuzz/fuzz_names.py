"""Names with control characters, markup and formulas: of columns, targets, labels and files; all is shown as text."""

import io
import warnings
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from typer.testing import CliRunner

import gradtd
from gradtd.cli.app import app
from gradtd.cli.messages import typed
from gradtd.output.evaluation_page import differences_figure, write_page
from gradtd.output.plots import learning_curves
from gradtd.output.svg import svg
from gradtd.output.tables import Table

PIECES = (
    *(
        "\x1b[2J",
        "\x1b]0;x\x07",
        "\x9b31m",
        "\x00",
        "\r",
        "\n",
        "\t",
        "\x7f",
        "\x08",
        "\u202e",
        "\u2066",
        "\u2028",
        "\ufeff",
    ),
    *(
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "</style>",
        "&lt;",
        '"',
        "'",
        "]]>",
        "<!--",
        "{{ 7*7 }}",
        "{% raw %}",
    ),
    *(
        "$",
        "$$",
        "\\frac{",
        "$\\frac{$",
        "_",
        "^",
        "\\",
        "%s",
        "%n",
        "{0}",
        "{d}",
        "{d.__class__}",
        "columns={",
        "}",
        "target=",
    ),
    *(
        "[red]",
        "[/]",
        "[link=x]",
        "`",
        "reward",
        "obs",
        "episode",
        " ",
        "",
        "\u00e9",
        "\u4e2d",
        "\U0001f600",
        "\ud800",
        "x" * 300,
    ),
)
FORBIDDEN = ("\x1b", "\x9b", "\x07", "\x00", "\x08", "\u202e", "\u2066", "\x7f")
MARKUP = ("<script", "<img src=x")
_kept = {}


def prepare(folder):
    """A log, and its evaluation for two targets, which are renamed at every try."""
    warnings.filterwarnings("ignore", "Glyph")  # of scripts that the font lacks
    rng = np.random.default_rng(5)
    n = 160
    table = {"episode": np.repeat(np.arange(n // 4), 4), "reward": rng.normal(size=n), "obs": rng.integers(0, 3, n)}
    table |= {"terminated": np.arange(n) % 4 == 3, "action": rng.integers(0, 2, n), "behaviour": np.full(n, 0.5)}
    _kept["table"] = table
    targets = {name: rng.uniform(0.4, 0.6, n) for name in ("a", "b")}
    _kept["found"] = gradtd.evaluate(
        table, gamma=0.9, target=targets, features="one-hot", machine=gradtd.Machine(threads=1)
    )


def name_of(rng):
    return "".join(PIECES[int(k)] for k in rng.integers(len(PIECES), size=int(rng.integers(1, 4))))


def attempt(seed, number, folder):
    rng = np.random.default_rng([seed, number])
    (tables, columns, evaluations, pictures)[number % 4 if number % 20 < 4 else number % 2](rng, folder)


def safe(text, escapes=False):
    bad = FORBIDDEN[1:] if escapes else FORBIDDEN
    for mark in bad:
        assert mark not in text, f"{mark!r} is shown"


def tables(rng, folder):
    """Tables of words, messages, and messages as the command line has them."""
    names = [name_of(rng) for _ in range(3)]
    table = Table(names[0], names, [names], notes=names)
    for text in (table.text(), table.html(), str(gradtd.InputError(f"column {names[0]} is {names[1]!r}."))):
        safe(text)
    assert not any(mark in table.html() for mark in MARKUP)
    typed(f"column {names[0]}, or {names[1]}")
    shown = io.StringIO()
    Console(file=shown, force_terminal=False, width=500).print(table.rich())
    safe(shown.getvalue())


def columns(rng, folder):
    """A log whose columns and labels have such names, in memory, on disk and on the command line."""
    table = dict(_kept["table"])
    renamed = {key: name_of(rng) if rng.random() < 0.3 else key for key in table}
    table = {renamed[key]: values for key, values in table.items()}
    if rng.random() < 0.4:
        labels = [name_of(rng) for _ in range(3)]
        table[renamed["action"]] = np.array([labels[k % 3] for k in range(160)], object)
    if rng.random() < 0.5:
        gradtd.read_log({key: np.asarray(values) for key, values in table.items()}).understood.lines()
        return
    path = folder / f"{name_of(rng).replace('/', '').replace(chr(0), '')[:40]}log.parquet"
    try:
        pq.write_table(pa.table({key: pa.array(list(values)) for key, values in table.items()}), path)
    except (pa.ArrowException, UnicodeEncodeError, OSError):  # no name for Arrow or the disk
        return
    done = CliRunner().invoke(app, ["-v", "inspect", str(path)])
    path.unlink()
    safe(done.output)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception


def evaluations(rng, folder):
    """Targets of such names, compared on a terminal and a page."""
    found = gradtd.Evaluations(
        dict(zip((name_of(rng) + "1", name_of(rng) + "2"), _kept["found"].values(), strict=True))
    )
    compared = found.compare()
    shown = io.StringIO()
    Console(file=shown, force_terminal=True, width=300).print(compared)
    safe(shown.getvalue(), escapes=True)
    page = write_page(found, folder / "page.html", name_of(rng), compared).read_text(encoding="utf-8")
    safe(page)
    assert not any(mark in page for mark in MARKUP)


def pictures(rng, folder):
    names = [name_of(rng) + str(k) for k in range(2)]
    drawn = learning_curves({name: (np.arange(3), np.ones((2, 3))) for name in names}, title=names[0], metric="rmsve")
    found = gradtd.Evaluations(dict(zip(names, _kept["found"].values(), strict=True)))
    for figure in (drawn, differences_figure(found.compare())):
        text = svg(figure)
        ElementTree.fromstring(text)
        safe(text)
