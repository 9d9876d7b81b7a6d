"""``gradtd theory`` as typed, the summary behind it and the simulation in its picture."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

import gradtd
from gradtd import InputError, theory
from gradtd.cli.app import app
from naive.theory import simulate, small_law

KEYS = {"norm_A", "mu", "S", "L_max", "m_paper", "alpha_paper", "alpha_star", "rho", "floor"}


def _run(*arguments):
    return CliRunner().invoke(app, ["theory", *arguments], catch_exceptions=False)


@pytest.mark.parametrize("problem", ["boyan_chain", "random_walk_dependent", "baird", "collision", "two_state"])
def test_json_has_the_promised_keys_and_numbers(problem):
    found = json.loads(_run(problem, "--batch-size", "10", "--json").stdout)
    exact, law = gradtd.exact(problem), theory.law(problem)
    values = np.linalg.svd(exact.A, compute_uv=False)
    values = values[values > 1e-9 * values[0]]
    assert set(found) >= KEYS
    assert found["norm_A"] == pytest.approx(values[0])
    assert found["mu"] == pytest.approx(values[-1] ** 2)
    assert found["S"] == pytest.approx(np.trace(law.V_A))
    assert found["m_paper"] == math.ceil(found["S"] / (math.sqrt(2 * found["mu"]) * found["norm_A"]))
    assert found["alpha"] == found["alpha_paper"] == pytest.approx(1 / (found["S"] / 2 + 4 * values[0] ** 2))
    assert found["alpha_star"] == pytest.approx(theory.stability_threshold(problem, 10))
    assert found["rho"] == pytest.approx(theory.rate(problem, found["alpha"], 10))
    assert found["floor"] == pytest.approx(theory.floor(problem, found["alpha"], 10))
    assert [row["algorithm"] for row in found["table_1"]] == ["impression_gtd", "expected_gtd", "at_td", "r1_gtd"]


@pytest.mark.parametrize("trace", ["rho", "clipped"])
def test_traces(trace, tmp_path):
    typed = ("random_walk_dependent", "--batch-size", "16", "--lam", "0.4", "--trace", trace)
    found = json.loads(_run(*typed, "--json").stdout)
    (row,) = theory.lambdas("random_walk_dependent", 16, [0.4], trace=trace)
    assert found["alpha_star"] == pytest.approx(row.alpha_star)
    assert found["alpha"] == pytest.approx(row.alpha_star / 4)
    assert found["floor"] == pytest.approx(row.floor)
    assert found["alpha_corrected"] < found["alpha_star"]
    assert found["alpha_paper"] is None
    assert found["notes"][0] == "the paper has no constants for lambda above 0, so its column is empty."
    picture = tmp_path / "it.svg"
    shown = _run(*typed, "--plot", str(picture), "--steps", "50", "--runs", "3").stdout
    assert f"lam 0.4 ({trace})" in shown
    assert picture.read_text().count("<svg") == 1


def test_traces_without_a_finite_variance_are_refused():
    shown = CliRunner().invoke(app, ["theory", "baird", "--lam", "0.8"])
    assert isinstance(shown.exception, InputError)
    assert "variance" in str(shown.exception)


def test_known_value_and_a_given_step_size():
    found = json.loads(_run("boyan_chain", "--batch-size", "10", "--alpha", "10", "--json").stdout)
    assert found["alpha"] / found["alpha_star"] == pytest.approx(0.126, abs=5e-4)
    assert found["floor"] <= found["floor_bound"]
    assert found["q_paper"] is None
    assert "Theorem 2 does not apply to alpha = 10" in found["notes"][0]


def test_an_unstable_step_size_has_no_floor_and_a_sentence():
    found = json.loads(_run("boyan_chain", "--batch-size", "4", "--alpha", "50", "--json").stdout)
    assert found["floor"] is None
    assert found["rho"] > 1
    assert "alpha = 50 is not stable in mean square with batches of 4" in found["notes"][0]
    assert "alpha* = 32.01" in found["notes"][0]


def test_deficient_rank_is_noted():
    found = json.loads(_run("baird", "--json").stdout)
    assert (found["rank"], found["features"]) == (7, 8)
    assert any("A has rank 7 of 8" in note for note in found["notes"])


def test_a_table_for_people():
    output = _run("boyan_chain", "--batch-size", "32").stdout
    for words in (
        "as printed",
        "corrected",
        "exact",
        "largest step-size",
        "114.571",
        "Table 1",
        "at_td",
        "Theorem 1: not",
    ):
        assert words in output
    unstable = _run("boyan_chain", "--batch-size", "1", "--alpha", "3").stdout
    assert "not stable in mean square" in unstable


@pytest.mark.parametrize("arguments", [["boyan_chain"], ["garnet", "--alpha", "1"], ["boyan_chain", "--alpha", "500"]])
def test_picture(tmp_path, arguments):
    path = tmp_path / "theory.svg"
    output = _run(*arguments, "--batch-size", "8", "--plot", str(path), "--steps", "60", "--runs", "4").stdout
    assert f"picture: {path}" in output
    text = path.read_text()
    assert "</svg>" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["boyan_chian"], "did you mean 'boyan_chain'"),
        (["boyan_chain", "--batch-size", "0"], "--batch-size must be at least 1, got 0."),
        (["boyan_chain", "--alpha", "0"], "--alpha must be greater than 0, got 0.0."),
        (["boyan_chain", "--alpha", "-2"], "--alpha must be greater than 0, got -2.0."),
        (["boyan_chain", "--alpha", "nan"], "--alpha must be finite, got nan."),
        (["boyan_chain", "--plot", "x.gif"], ".png, .svg or .pdf, got 'x.gif'"),
        (["boyan_chain", "--plot", "no/such/x.png"], "there is no folder"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(arguments, message, monkeypatch, capsys):
    from gradtd.cli import app as cli

    monkeypatch.setattr("sys.argv", ["gradtd", "theory", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert "Traceback" not in printed
    assert printed.count("\n") == 1


def test_summary_of_a_stream():
    found = theory.summary(gradtd.sample("random_walk_dependent", 5000), 8)
    exact = theory.summary("random_walk_dependent", 8)
    assert found["alpha_star"] == pytest.approx(exact["alpha_star"], rel=0.1)
    json.dumps(found, allow_nan=False)


def test_summary_without_a_solution_leaves_the_corrected_layer_empty():
    from naive.theory import law_of

    law = law_of([[1, 0.5], [0.3, 1], [1, -1]], [[-1, 0], [-0.7, 0], [-0.2, 0]], c=[1.0, -2.0, 0.5])
    found = theory.summary(law, 8)
    assert found["floor"] > 0
    assert found["kappa_half"] is None
    assert any("no solution" in note for note in found["notes"])


@pytest.mark.parametrize("symmetric", [False, True])
def test_simulation_is_that_of_the_naive_twin(symmetric):
    """The same draws in the same order, so the same errors."""
    law = small_law(5)
    options = {"steps": [0, 1, 7], "runs": 6, "seed": 3, "symmetric": symmetric}
    ours = theory.simulate(law, 0.1, 3, 2, theta0=[1.0, -1.0], **options)
    naive = simulate(law, 0.1, 3, 2, theta0=np.array([1.0, -1.0]), **options)
    np.testing.assert_allclose(ours, naive, rtol=1e-10)


def test_simulation_that_diverges_stays_finite():
    errors = theory.simulate("boyan_chain", 1e6, 2, steps=[200], runs=3)
    assert np.isfinite(errors).all()
    with pytest.raises(InputError, match="runs must be at least 1"):
        theory.simulate("boyan_chain", 1, 2, steps=2, runs=0)
