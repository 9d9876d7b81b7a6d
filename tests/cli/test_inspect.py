"""``gradtd inspect``: what was understood, before anything is computed."""

import json

import numpy as np
from typer.testing import CliRunner

from gradtd.cli.app import app


def log_file(folder):
    rows = [f"{k // 3},{k * 0.5},{('none', 'low', 'high')[k % 3]},1,{int(k % 3 == 2)}" for k in range(9)]
    (folder / "log.csv").write_text("\n".join(["episode,obs,act,rew,done", *rows]) + "\n")
    return str(folder / "log.csv")


def test_it_says_what_was_understood_and_shows_the_first_rows(tmp_path):
    made = CliRunner().invoke(app, ["inspect", log_file(tmp_path), "--rows", "2"])
    assert made.exit_code == 0, made.output
    assert "action       act  (by name ?)" in made.output
    assert "actions in order: high (3), low (3), none (3); alphabetical order ?" in made.output
    assert made.output.rstrip().splitlines()[-1].split() == ["0", "0.5", "low", "1", "False", "False"]


def test_what_is_said_is_not_marked_and_json_has_the_same(tmp_path):
    said = ["--actions", "none,low,high", "--column", "action=act", "--json"]
    made = CliRunner().invoke(app, ["inspect", log_file(tmp_path), *said])
    told = json.loads(made.output)["understood"]
    assert [one["action"] for one in told["actions"]] == ["none", "low", "high"]
    assert {"role": "action", "columns": ["act"], "why": "said", "guessed": False} in told["columns"]
    assert np.sum([one["count"] for one in told["actions"]]) == 9
