"""What was understood of a log is in every output of its evaluation, in memory and in parts."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

import gradtd

pd = pytest.importorskip("pandas")


def table():
    """Two steps of two actions each; the target takes b more often. Every column goes by a name that is a guess."""
    rng = np.random.default_rng(0)
    act = rng.choice(["a", "b"], 240)
    return pd.DataFrame(
        {
            "user_id": np.repeat(np.arange(120), 2),
            "t": np.tile([0, 1], 120),
            "obs": np.tile([0, 1], 120),
            "act": act,
            "rew": rng.normal(size=240),
            "done": np.tile([False, True], 120),
            "pscore": 0.5,
            "pi": np.where(act == "a", 0.2, 0.8),
            "note": "x",
        }
    )


@pytest.mark.parametrize("in_parts", [False, True])
def test_text_page_json_and_notebook_show_it(tmp_path, in_parts):
    table().to_parquet(tmp_path / "log.parquet")
    found = gradtd.evaluate(tmp_path / "log.parquet", gamma=0.9, target="pi", machine=gradtd.Machine(in_parts=in_parts))
    console = Console(width=1000, record=True, file=io.StringIO())
    console.print(found)
    found.save(tmp_path / "kept.npz")
    shown = {
        "text": console.export_text(),
        "page": found.page(tmp_path / "page.html").read_text(),
        "notebook": found._repr_html_(),
        "kept": str(gradtd.load_evaluation(tmp_path / "kept.npz").understood),
    }
    shares = found.understood.target_shares
    assert np.allclose(shares, [0.2, 0.8], atol=0.1)
    for where, text in shown.items():
        text = text.replace("&#39;", "'").replace("&gt;", ">")
        for line in (
            "observation: obs (by name ?)" if where in ("page", "notebook") else "observation  obs  (by name ?)",
            "action: act (by name ?)" if where in ("page", "notebook") else "action       act  (by name ?)",
            "not read: note",
            "episodes: 120 of 240 rows, 2 rows each; by 'user_id', cut after rows with 'done' ?",
            "ends: 120 terminated, 0 truncated",
            "; alphabetical order ?",
            "share of each action, log -> target: a: ",
            "No column numbers the episodes. Rows of one 'user_id' were grouped",
        ):
            assert line in text, (where, line)
    told = json.loads(json.dumps(found.to_dict()))["understood"]
    assert told["episodes_guessed"]
    assert {"user", "action"} <= {use["role"] for use in told["columns"] if use["guessed"]}
    assert told["target_shares"] == list(shares)
    assert found.warnings[0] == told["warnings"][0]
