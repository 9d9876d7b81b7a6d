"""The loggers for MLflow and Weights & Biases in docs/pipeline.md, run with both libraries and without a network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"
TRACKERS = ("mlflow-skinny==3.17.2", "wandb==0.31.0")
USE = """
import mlflow, pathlib, gradtd

result = gradtd.evaluate(gradtd.sample_log("random_walk_tabular", 100), gamma=1.0)
card = gradtd.write_card(result, "card.html", question="Deploy?")
log_to_mlflow(result, card)
run = mlflow.search_runs(output_format="list")[0]
assert run.data.metrics["value"] == result.value
assert run.data.tags["verdict"] == result.verdict
files = mlflow.artifacts.list_artifacts(run_id=run.info.run_id)
assert {file.path for file in files} == {"card.html", "evaluation.json"}
log_to_wandb(result, card)
kept = b"".join(path.read_bytes() for path in pathlib.Path("wandb").rglob("*.wandb"))
assert b"verdict" in kept and b"card" in kept
"""


@pytest.mark.slow
def test_loggers_of_the_page_work_offline(tmp_path):
    """The trackers go into a folder of this test: nothing else needs them."""
    folder = tmp_path / "trackers"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(folder)]
    if subprocess.run([*pip, *TRACKERS], capture_output=True, check=False).returncode:
        pytest.skip("MLflow and Weights & Biases cannot be installed here")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    loggers = next(block for block in blocks if "def log_to_mlflow" in block)
    script = tmp_path / "use.py"
    script.write_text(loggers + USE)
    # gradtd's own libraries come first, so that the trackers' copies do not replace them
    bootstrap = f"import sys, runpy; sys.path.append({str(folder)!r}); runpy.run_path({str(script)!r})"
    settings = {
        "MLFLOW_TRACKING_URI": f"file:{tmp_path / 'mlruns'}",
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "HOME": str(tmp_path),
    }
    command = [sys.executable, "-W", "ignore", "-c", bootstrap]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
