"""Twelve logs of twelve makes, typed as a stranger would: the first attempt works, or leads to the second."""

import json

import numpy as np
import pytest

import gradtd
from gradtd.core.checks import InputError
from logs.test_makes import buffer, rllib_lines

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

RNG = np.random.default_rng(12)
N = 120
ROWS = np.arange(N)


def d3rlpy_npz(folder):
    arrays = {"observations": RNG.normal(size=(N, 3)).astype("f4"), "actions": RNG.integers(0, 2, (N, 1))}
    arrays |= {"rewards": RNG.normal(size=(N, 1)), "terminals": (ROWS % 6 == 5).astype("f4")}
    np.savez(folder / "dataset.npz", **arrays, timeouts=np.zeros(N))
    return folder / "dataset.npz", [{}], 20


def rllib_json(folder):
    (folder / "output.json").write_text("\n".join(map(json.dumps, rllib_lines())))
    return folder / "output.json", [{}], 3


def sb3_buffer(folder):
    return buffer(), [{}], 5


def minari_dataset(folder):
    from logs.test_formats import Dataset, Episode

    data = Dataset()
    data.episodes = [Episode(k, RNG.normal(size=(5, 2)), RNG.integers(0, 2, 4)) for k in range(6)]
    data.iterate_episodes = lambda: iter(data.episodes)
    return data, [{}], 6


def recommender_lines(folder):
    rows = [
        {
            "session_id": f"s{k // 4}",
            "ts": f"2024-05-01T10:{k % 60:02d}:00Z",
            "state": {"age": 0.1 * k, "taste": [1, 2]},
        }
        | {"item": "abc"[k % 3], "click": k % 2, "propensity": 1 / 3}
        for k in range(N)
    ]
    (folder / "events.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder / "events.jsonl", [{}, {"columns": {"action": "item", "reward": "click"}}], 30


def patients(folder):
    table = pd.DataFrame({"patient_id": ROWS // 5, "day": ROWS % 5, "state.sex": np.where(ROWS % 2, "m", "f")})
    table["state.lactate"] = np.where(ROWS % 11, RNG.normal(size=N), np.nan)
    table = table.assign(action=np.where(ROWS % 3, "none", "fluids"), reward=1.0, terminated=ROWS % 5 == 4)
    table.to_csv(folder / "patients.csv", index=False)
    return folder / "patients.csv", [{}, {"missing": "indicator"}], 24


def sorted_events(folder):
    table = pd.DataFrame({"user_id": ROWS % 8, "timestamp": pd.date_range("2024-01-01", periods=N, freq="min")})
    table = table.assign(state=RNG.normal(size=N), act=ROWS % 2, rew=1.0, done=ROWS // 8 % 3 == 2)
    return table, [{}], 40


def images(folder):
    rows = [{"obs": RNG.random((2, 3)).tolist(), "action": 1, "reward": 0.5, "done": bool(k % 4 == 3)} for k in ROWS]
    (folder / "images.json").write_text(json.dumps({"data": rows}))
    return folder / "images.json", [{}], 30


def real_actions(folder):
    table = {"obs": RNG.normal(size=(N, 2)), "act": RNG.normal(size=(N, 2)), "rew": RNG.normal(size=N)}
    return table | {"done": ROWS % 5 == 4, "logp": np.full(N, -1.0)}, [{}, {"log_probabilities": "convert"}], 24


def bandit(folder):
    table = pd.DataFrame({"context": RNG.normal(size=N), "arm": ROWS % 3, "reward": ROWS % 2, "pscore": 1 / 3})
    return table, [{}], N


def row_per_episode(folder):
    table = pd.DataFrame({"id": ROWS, "x": RNG.normal(size=N), "action": ROWS % 2, "return": 1.0})
    return table, [{}, {"columns": {"observation": "x", "reward": "return"}}], N


def polars_frame(folder):
    table = {"traj_id": ROWS // 4, "step": ROWS % 4, "s": RNG.normal(size=N), "a": ROWS % 2, "r": 1.0 * ROWS}
    return pl.DataFrame(table | {"is_terminal": ROWS % 4 == 3}).lazy(), [{}], 30


MAKES = [
    *(d3rlpy_npz, rllib_json, sb3_buffer, minari_dataset, recommender_lines, patients),
    *(sorted_events, images, real_actions, bandit, row_per_episode, polars_frame),
]


@pytest.mark.parametrize("make", MAKES, ids=lambda make: make.__name__)
def test_at_most_two_attempts(make, tmp_path):
    source, attempts, episodes = make(tmp_path)
    assert len(attempts) <= 2
    *first, last = attempts
    for options in first:
        with pytest.raises(InputError) as caught:
            gradtd.read_log(source, **options)
        for name, value in last.items():  # the message names what the second attempt says
            words = value if name == "columns" else [f"{name}={value!r}"]
            said = str(caught.value).replace('"', "'")
            assert any(f"columns={{'{word}'" in said or word in said for word in words)
    log = gradtd.read_log(source, **last)
    assert log.n_episodes == episodes
    assert log.understood.columns
    assert log.observations.dtype == np.float64


def test_the_first_report_is_told_right():
    """The five wrong numbers, through evaluate: now right, or with a warning that names the cure."""
    rng = np.random.default_rng(0)
    words = np.array(["none", "low", "high"])
    act = rng.integers(0, 3, 900)
    table = pd.DataFrame({"episode": np.arange(900) // 3, "obs": np.arange(900) % 3, "reward": (act == 2) / 1.0})
    table = table.assign(action=pd.Categorical(words[act], words, ordered=True), terminated=np.arange(900) % 3 == 2)
    table = table.assign(pscore=1 / 3, t=np.arange(900) % 3)
    always = np.tile([0.0, 0.0, 1.0], (900, 1))  # it always takes high, which is worth 1
    for target in (always, pd.DataFrame(always, columns=words), "high"):
        found = gradtd.evaluate(table, target, 0.0)
        assert found.value == pytest.approx(1, abs=0.2)
        assert found.interval[0] <= 1 <= found.interval[1] + 1e-6
    plain = gradtd.evaluate(table.assign(action=words[act]), always, 0.0)
    assert plain.value == pytest.approx(0, abs=1e-9)
    assert any("guessed for the probabilities: high, low, none" in one for one in plain.warnings)
    shuffled = table.sample(frac=1, random_state=1)
    found = gradtd.evaluate(shuffled, pd.Series(always[np.arange(900), act]), 0.0)
    assert found.interval[0] <= 1 <= found.interval[1] + 1e-6
