"""What reading understood is shown, and a guess that moves the value is a warning."""

import json

import numpy as np
import pytest

from gradtd.core.checks import InputError
from gradtd.logs import read_log

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")


def doses(order=("none", "low", "high"), rows=30):
    """Actions 0, 1, 2 in turn, as text."""
    labels = [order[k % 3] for k in range(rows)]
    return {"episode": np.arange(rows) // 3, "obs": np.zeros(rows), "reward": np.ones(rows), "act": labels} | {
        "terminated": np.arange(rows) % 3 == 2
    }


def visits():
    """Three users in turn, one row a minute; each has episodes of two steps, and everything is worth its user."""
    rows = 36
    user, k = np.arange(rows) % 3, np.arange(rows) // 3
    return pd.DataFrame(
        {
            "user_id": [f"u{one}" for one in user],
            "timestamp": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(rows), "min"),
            "state": user * 100.0 + k,
            "rew": 1.0 * user,
            "done": k % 2 == 1,
        }
    )


def games(limit=200, of_ten=4):
    lengths = [limit if k % 10 < of_ten else 20 + 7 * (k % 13) for k in range(40)]
    last = np.cumsum(lengths) - 1
    done = np.zeros(sum(lengths), bool)
    done[last] = True
    return {"obs": np.arange(len(done), dtype=float), "rew": np.ones(len(done)), "done": done}


@pytest.mark.parametrize(
    "column",
    [
        lambda v: pd.Categorical(v, ["none", "low", "high"], ordered=True),
        lambda v: pd.Categorical(v, ["none", "low", "high"]),
    ],
    ids=["ordered", "as listed"],
)
def test_categories_keep_their_order(column):
    table = doses()
    log = read_log(pd.DataFrame(table | {"act": column(table["act"])}))
    assert log.action_labels == ("none", "low", "high")
    assert log.action[:3].tolist() == [0, 1, 2]
    assert log.understood.actions == (("none", 10), ("low", 10), ("high", 10))
    assert log.understood.order == "categories"


def test_categories_keep_their_order_in_polars_and_in_files(tmp_path):
    frame = pl.DataFrame(doses()).with_columns(pl.col("act").cast(pl.Enum(["none", "low", "high"])))
    frame.write_parquet(tmp_path / "log.parquet")
    for source in (frame, tmp_path / "log.parquet"):
        assert read_log(source).action_labels == ("none", "low", "high")


def test_a_category_that_was_never_taken_keeps_its_place():
    frame = pd.DataFrame(doses(("none", "high", "none")))
    log = read_log(frame.assign(act=pd.Categorical(frame["act"], ["none", "low", "high"])))
    assert log.n_actions == 3
    assert log.understood.actions == (("none", 20), ("low", 0), ("high", 10))


def test_text_actions_are_alphabetical_and_marked_as_guessed_unless_said():
    assert read_log(doses()).understood.order_guessed
    assert any(
        "high (10), low (10), none (10); alphabetical order ?" in li for li in read_log(doses()).understood.lines()
    )
    said = read_log(doses(), actions=["none", "low", "high"])
    assert said.action_labels == ("none", "low", "high")
    assert not said.understood.order_guessed
    with pytest.raises(InputError, match="does not list: high"):
        read_log(doses(), actions=["none", "low"])


def test_users_whose_rows_are_mixed_are_told_apart():
    log = read_log(visits())
    assert log.n_episodes == 18
    seen = log.observations[log.row, 0]
    after = log.observations[log.next_row, 0]
    assert (after[~log.terminated] == seen[~log.terminated] + 1).all()
    assert (seen // 100 == log.reward).all()
    (warning,) = log.understood.warnings
    assert "columns={\"user\": 'user_id'}" in warning
    assert read_log(visits(), columns={"user": "user_id"}).understood.warnings == ()


def test_users_are_told_apart_in_parts_too(tmp_path):
    from gradtd.logs.files import ParquetTable
    from gradtd.logs.parts import bring_together, survey
    from gradtd.logs.read import LogReader

    visits().to_parquet(tmp_path / "log.parquet")
    (tmp_path / "out").mkdir()
    table = ParquetTable("log", [tmp_path / "log.parquet"])
    reader = LogReader().for_chunks(table.kinds)
    needed = ["user_id", *reader.needed(table.kinds)]
    seen = survey(table, "user_id")
    assert not seen.grouped
    files = bring_together(seen, ["user_id", "timestamp"], needed, tmp_path / "out")
    (part,) = survey(ParquetTable("log", files), "user_id").parts()
    ((rows, begins, _),) = list(part.chunks(needed))
    log = reader.read_chunk(rows, begins, "log")
    whole = read_log(visits())
    assert log.n_episodes == 18
    assert sorted(zip(log.observations[:, 0], log.reward, strict=False)) == sorted(
        zip(whole.observations[:, 0], whole.reward, strict=False)
    )


def test_a_number_of_seconds_is_a_time_and_no_count():
    frame = visits()
    frame["timestamp"] = (np.arange(len(frame)) ** 2 // 2) + 1_700_000_000  # whole, uneven, and shared by two rows
    log = read_log(frame)
    assert (len(log), log.n_episodes) == (36, 18)


def test_a_column_of_episodes_goes_before_one_of_users():
    frame = visits().assign(episode=np.arange(36) % 3 * 6 + np.arange(36) // 6)
    log = read_log(frame)
    assert log.n_episodes == 18
    assert log.understood.warnings == ()
    assert "user_id" in log.understood.unread


def test_many_ends_at_one_length_are_a_warning():
    (warning,) = read_log(games()).understood.warnings
    assert "16 of 40 episodes end after exactly 200 steps" in warning
    assert "time_limit=200" in warning
    assert read_log(games(), columns={"terminated": "done"}).understood.warnings == ()
    assert read_log(games(of_ten=0)).understood.warnings == ()


def test_ends_at_the_limit_are_cuts_where_the_limit_is_said():
    log = read_log(games(), time_limit=200)
    assert (int(log.terminated.sum()), int(log.truncated.sum())) == (24, 16)
    assert log.understood.warnings == ()
    with pytest.raises(InputError, match="more than time_limit=100 rows"):
        read_log(games(), time_limit=100)


def test_a_weight_is_a_ratio_by_name_only():
    table = doses() | {"weight": np.ones(30)}
    assert any("importance ratio by its name" in one for one in read_log(table).understood.warnings)
    assert read_log(table, columns={"rho": "weight"}).understood.warnings == ()
    assert read_log(table, columns={"rho": None}).rho is None


def test_a_column_that_marks_beginnings():
    log = read_log({"obs": np.arange(6.0), "act": [0, 1] * 3, "rew": np.ones(6), "reset": [1, 0, 0, 1, 0, 0]})
    assert log.n_episodes == 2
    assert "'reset'" in log.understood.told_apart


@pytest.mark.parametrize("name", ["rew", "Reward", "rewards", "REW", "Reward "])
@pytest.mark.parametrize("obs", ["ob", "State", "nextState", "next state"])
def test_names_as_people_write_them(name, obs):
    table = {"episodeId": [0, 0, 1, 1], "observation": np.arange(4.0), name: np.ones(4), "isDone": [0, 1, 0, 1]}
    log = read_log(table | ({obs: np.arange(4.0) + 1} if "ext" in obs else {}))
    assert (log.n_episodes, len(log)) == (2, 4)


def test_a_bandit_may_have_a_timestamp_and_users():
    table = {"timestamp": [3, 1, 2], "user_id": [1, 2, 1], "context": [0.1, 0.2, 0.3], "arm": [0, 1, 1]}
    log = read_log(table | {"reward": [1, 0, 1], "pscore": [0.5, 0.5, 0.5]}, one_step=True)
    assert log.n_episodes == 3
    assert log.reward.tolist() == [1, 0, 1]


def test_it_is_shown_as_text_and_as_json():
    told = read_log(visits()).understood
    text = str(told)
    assert "user         user_id  (by name ?)" in text
    assert "episodes: 18 of 36 rows, 2 rows each; rows of one 'user_id', cut after rows with 'done' ?" in text
    assert "ends: 18 terminated, 0 truncated" in text
    again = json.loads(json.dumps(told.to_dict()))
    assert again["episodes"] == 18
    assert again["columns"][0]["why"] == "by name"


def test_all_faults_are_told_at_once():
    with pytest.raises(InputError) as caught:
        read_log({"a": [1], "done": [True]}, keep=["pi"], columns={"t": "when"})
    text = str(caught.value)
    assert text.startswith("the log has 4 faults:\n1. there is no column 'when' for 't'")
    assert "4. no reward column was found" in text
