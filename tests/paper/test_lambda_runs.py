"""The reproduction over lambda: jobs that run what they say, and a section that only draws."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

import gradtd
from gradtd.output.pages import render
from gradtd.paper import jobs, lambda_runs
from gradtd.paper.figures import FIGURES, PAPER_PROBLEMS, RIVALS
from gradtd.paper.jobs import Kept, Reproduction, Store
from gradtd.paper.lambda_runs import FAMILIES, LAMBDAS, RECORDED, LambdaJob, lambda_jobs, lambda_sections, lambda_table
from gradtd.paper.reproduce import Plan, chosen_figures
from gradtd.problems.metrics import rmsve
from gradtd.running.settings import parameters


def test_a_job_takes_the_best_step_size_of_other_seeds(monkeypatch):
    monkeypatch.setattr(jobs, "GRID", (2.0**-12, 2.0**-5, 2.0**5))
    job = LambdaJob("random_walk_tabular", 2, "TD", 0.4)
    kept = job.compute(1)
    assert kept.told["alpha"] == 2.0**-5 == kept.arrays["alpha"][kept.arrays["area"].argmin()]
    result = gradtd.run("random_walk_tabular", "td", alpha=2.0**-5, lam=0.4, runs=2, steps=5000, snapshots=RECORDED)
    np.testing.assert_array_equal(kept.arrays["rmsve"], rmsve(gradtd.exact("random_walk_tabular"), result.thetas))
    assert kept.told["bias"] == pytest.approx(0.0, abs=1e-12)
    assert kept.told["finite"]


def test_what_the_results_depend_on_is_in_the_key(monkeypatch):
    job = LambdaJob("boyan_chain", 3, "TD", 0.4)
    others = [{"lam": 0.8}, {"runs": 4}, {"family": "TDRC"}, {"problem": "baird"}]
    keys = [job.key(), *(replace(job, **other).key() for other in others)]
    monkeypatch.setattr(lambda_runs, "GRID", (1.0,))
    keys.append(job.key())
    assert len({str(key) for key in keys}) == len(keys)


def test_all_figures_bring_lambda_and_one_does_not():
    whole, one = (Plan(chosen_figures(names), 8) for names in ((), ("rwtab",)))
    found = [job for job in whole.jobs({}) if isinstance(job, LambdaJob)]
    assert len(found) == len(PAPER_PROBLEMS) * len(FAMILIES) * len(LAMBDAS)
    assert {job.runs for job in found} == {2}
    assert not any(isinstance(job, LambdaJob) for job in one.jobs({}))


def test_every_family_takes_lam():
    for line in FAMILIES.values():
        assert "lam" in parameters(gradtd.ALGORITHMS[line.algorithm])
    assert {gradtd.ALGORITHMS[name].name for name in RIVALS} <= {line.algorithm for line in FAMILIES.values()}


@pytest.fixture
def drawn(tmp_path):
    """Errors made up: with lambda they are 1 / (1 + lambda) of what they were, in every run."""
    found, rng = Reproduction(8, np.arange(3), FIGURES), np.random.default_rng(0)
    base = rng.uniform(1, 2, (4, len(RECORDED)))
    for problem in ("random_walk_tabular", "baird"):
        found.lambdas[problem] = {
            (family, lam): Kept(
                {"rmsve": base / (1 + lam)},
                {"bias": 0.1, "finite": problem != "baird" or lam < 0.42} | ({"alpha": 0.5} if job.swept else {}),
            )
            for (family, lam), job in lambda_jobs(problem, 8).items()
        }
    store = Store(tmp_path / "out")
    titles = {"random_walk_tabular": "the walk", "baird": "Baird"}
    return found, store, lambda_sections(found, titles, store)


def test_the_section_says_what_was_found(drawn):
    found, store, (walk, baird) = drawn
    assert walk["words"][0].startswith("Impression GTD is best with lambda 0.95: 0.51 times the error of lambda 0; ")
    assert (walk["infinite"], baird["infinite"]) == ([], [0.8, 0.95])
    assert store.path("figures/lambda_baird.svg").exists()
    ends = [row["cells"][0]["end"] for row in walk["rows"]]
    tail = found.lambdas["baird"]["TD", 0.0].arrays["rmsve"][:, RECORDED > 4500]
    assert ends == pytest.approx([tail.mean()] * len(FAMILIES))
    text = render(
        "report.html", summary={"counts": {}, "first_counts": {}, "by_reading": {"A1": []}},
        lambdas=[walk, baird], lambda_values=LAMBDAS, lambda_steps=5000,
        threads=(1,), run_steps=1, seconds=1.0, readings={}, steps=1, runs=8, versions={},
    )  # fmt: skip
    assert "At lambda 0.8 and 0.95 the trace has an infinite variance" in text
    store.write_table("curves/lambda.parquet", lambda_table(found))
    table = pq.read_table(store.path("curves/lambda.parquet")).to_pydict()
    assert len(table["lambda"]) == 2 * len(FAMILIES) * len(LAMBDAS)
    assert table["alpha"][0] == 0.5
