"""Small things at the front door: exit codes, an early Ctrl-C, figures by name, markup, names as recommended."""

import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import gradtd
from gradtd.cli.app import app
from naive.evaluation import walk


def _run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture
def log(tmp_path):
    return gradtd.write_log(gradtd.read_log(walk(60)), tmp_path / "log.parquet")


def test_a_verdict_can_set_the_exit_code(log):
    few = ("evaluate", log, "--gamma", "0.9", "--threads", "1")
    good = gradtd.evaluate(log, None, 0.9, machine=gradtd.Machine(threads=1)).verdict
    assert good == "usable"
    assert _run(*few, "--require", "usable").exit_code == 0
    lstd = (*few, "--algorithm", "lstd", "--resamples", "5")
    assert [_run(*lstd, "--require", word).exit_code for word in ("usable", "unchecked")] == [3, 0]
    assert _run(*few, "--clip", "0.6", "--require", "unchecked").exit_code == 3
    assert _run(*few, "--clip", "0.6").exit_code == 0
    refused = _run(*few, "--require", "good")
    assert "--require must be one of" in str(refused.exception)


@pytest.mark.slow
@pytest.mark.parametrize("module", ["numpy", "typer", "lazy_loader"])
def test_an_early_ctrl_c_leaves_no_traceback(module, tmp_path):
    """A module of that name is found first, and is interrupted while it is loaded."""
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from gradtd.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True)
    if module == "lazy_loader":  # the package itself: nothing of ours has run yet
        assert done.returncode != 0
        return
    assert done.returncode == 130
    assert done.stderr == "\ngradtd: stopped by Ctrl-C. Nothing was saved; run the command again.\n"


def test_a_figure_of_the_paper_runs_by_its_name(tmp_path):
    done = _run("run", "--paper", "rwtab_batch", "--runs", "2", "--steps", "300", "--plot", tmp_path / "it.png")
    assert done.exit_code == 0, done.output
    assert "fig:rwtab_batch" in done.stdout.splitlines()[0]
    assert "impression_gtd alpha=" in done.stdout
    assert (tmp_path / "it.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--paper", "rwtabb"], "unknown figure 'rwtabb': did you mean 'rwtab'"),
        (["--paper", "rwtab", "--alpha", "1"], "--paper sets the problem and the settings"),
        (["boyan_chain", "td", "--paper", "rwtab"], "--paper sets the problem and the settings"),
        (["boyan_chain"], "run takes a problem and an algorithm"),
    ],
)
def test_what_a_figure_does_not_take(arguments, message):
    assert message in str(_run("run", *arguments).exception)


def test_markup_eats_nothing(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert "[algorithms.NAME]" in _run("sweep", "--help").stdout


def test_probabilities_are_importable_as_they_are_recommended():
    assert gradtd.logs.Probabilities is not None


def test_old_options_work_and_say_their_new_names(log):
    old = _run("evaluate", log, "--gamma", "0.9", "--values", "state", "--block", "3", "--algorithm", "lstd")
    new = _run(
        "evaluate", log, "--gamma", "0.9", "--value-function", "state", "--block-length", "3", "--algorithm", "lstd"
    )
    assert old.exit_code == 0, old.output
    assert old.stdout == new.stdout
    assert "gradtd: --block is now --block-length; the old name still works." in old.stderr


def test_the_panels_are_the_records(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    shown = _run("evaluate", "--help").stdout
    order = [shown.index(f" {panel} ─") for panel in ("Options", "Log format", "Inference", "Machine", "Output")]
    assert order == sorted(order)


class Centred:
    """Columns less their means, as PCA and scalers make them."""

    def fit(self, table):
        self.mean = table.mean(axis=0)
        return self

    def transform(self, table):
        return table - self.mean


def test_a_transformer_without_a_constant_gets_one():
    rng = np.random.default_rng(0)
    n = 600
    rows = {"episode": np.arange(n) // 3, "obs_0": rng.normal(size=n), "obs_1": rng.normal(size=n)}
    rows |= {"terminated": np.arange(n) % 3 == 2, "reward": 1 + 0.1 * rng.normal(size=n), "rho": np.ones(n)}
    found = gradtd.evaluate(rows, gamma=1.0, features=Centred())
    assert found.value == pytest.approx(3, abs=0.05)
    assert found.features.n_features == 3
    assert "A constant and features" in found.features.describe()
    again = gradtd.make_features(lambda x: np.c_[np.ones(len(x)), x - x.mean(axis=0)])
    assert gradtd.evaluate(rows, gamma=1.0, features=again).value == pytest.approx(found.value)


def test_a_transformer_that_makes_a_constant_gets_no_other():
    sklearn = pytest.importorskip("sklearn.preprocessing")
    from scipy.sparse import csr_array, issparse

    from gradtd.features.wrapped import Transformer, makes_constant, with_constant

    table = np.random.default_rng(0).integers(0, 3, (50, 2)).astype(float)
    assert Transformer(sklearn.PolynomialFeatures(2)).fit(table).n_features == 6
    assert Transformer(sklearn.OneHotEncoder()).fit(table).n_features == 6
    assert Transformer(sklearn.StandardScaler()).fit(table).n_features == 3
    sparse = csr_array(table)
    assert not makes_constant(sparse)
    assert makes_constant(with_constant(sparse))
    assert issparse(with_constant(sparse))
