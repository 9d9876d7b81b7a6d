"""What reading understood is shown, and a guess that moves the value is a warning."""

import json

import numpy as np
import pytest

from gradtd.core.checks import InputError
from gradtd.logs import Understood, ratios, read_log

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
    assert "columns={'user': 'user_id'}" in warning
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
    assert any("importance ratio because of its name" in one for one in read_log(table).understood.warnings)
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
    assert "episodes: 18 of 36 rows, 2 rows each; by 'user_id', cut after rows with 'done' ?" in text
    assert "ends: 18 terminated, 0 truncated" in text
    again = json.loads(json.dumps(told.to_dict()))
    assert Understood.from_dict(again) == told
    assert again["episodes"] == 18
    assert again["columns"][0]["why"] == "by name"


def test_all_faults_are_told_at_once():
    with pytest.raises(InputError) as caught:
        read_log({"a": [1], "done": [True]}, keep=["pi"], columns={"t": "when"})
    text = str(caught.value)
    assert text.startswith("the log has 4 faults:\n1. there is no column 'when' for 't'")
    assert "4. no reward column was found" in text


def shuffled():
    rows = np.random.default_rng(0).permutation(30)
    frame = pd.DataFrame(doses() | {"t": np.arange(30), "b": np.full(30, 0.5)})
    return frame.iloc[rows], rows


def test_a_series_goes_by_its_index():
    frame, rows = shuffled()
    chance = pd.Series(np.arange(30) / 30, index=np.arange(30))
    log = read_log(frame, columns={"behaviour": "b"})
    assert np.allclose(ratios(log, chance).rho, np.arange(30) / 15)  # rows are sorted by t, which is the index
    assert np.allclose(ratios(log, chance.iloc[rows]).rho, np.arange(30) / 15)
    assert np.allclose(
        ratios(read_log(doses() | {"b": np.full(30, 0.5)}, columns={"behaviour": "b"}), chance).rho, chance * 2
    )
    with pytest.raises(InputError, match="the index of target differs from that of the log's table"):
        ratios(log, pd.Series(np.full(30, 0.5), index=np.arange(30) + 7))


def test_a_frame_of_probabilities_goes_by_its_names():
    frame, _ = shuffled()
    log = read_log(frame, columns={"behaviour": "b"})
    for stem in ("", "pi_"):
        table = pd.DataFrame({f"{stem}none": 0.7, f"{stem}low": 0.2, f"{stem}high": 0.1}, index=np.arange(30))
        found = ratios(log, table)
        assert np.allclose(found.rho, np.tile([1.4, 0.4, 0.2], 10))
        assert found.notes == ()
    kept = frame.assign(pi_none=0.7, pi_low=0.2, pi_high=0.1)
    names = ["pi_none", "pi_low", "pi_high"]
    log = read_log(kept, keep=names, columns={"behaviour": "b"})
    assert np.allclose(ratios(log, names).rho, np.tile([1.4, 0.4, 0.2], 10))


def test_probabilities_by_position_of_text_actions_are_a_warning():
    log = read_log(pd.DataFrame(doses() | {"b": 0.5}), columns={"behaviour": "b"})
    given = np.tile([0.7, 0.2, 0.1], (30, 1))
    for target in (given, lambda seen: np.tile([0.7, 0.2, 0.1], (len(seen), 1)), pd.DataFrame(given)):
        assert any("guessed for the probabilities: high, low, none" in note for note in ratios(log, target).notes)
    said = read_log(pd.DataFrame(doses() | {"b": 0.5}), columns={"behaviour": "b"}, actions=["none", "low", "high"])
    assert ratios(said, given).notes == ()
    assert np.allclose(ratios(said, given).rho, np.tile([1.4, 0.4, 0.2], 10))


def patients():
    return pd.DataFrame(
        {
            "patient": np.repeat(np.arange(10), 3),
            "t": np.tile(np.arange(3), 10),
            "obs.sex": np.where(np.repeat(np.arange(10), 3) % 2, "m", "f"),
            "obs.lactate": np.where(np.arange(30) % 10 == 4, np.nan, np.arange(30.0)),
            "reward": 1.0,
            "terminated": np.tile([False, False, True], 10),
        }
    )


def test_missing_values_are_counted_and_refused():
    with pytest.raises(InputError, match=r"'obs.lactate' \(3\).*missing='drop'.*missing='indicator'"):
        read_log(patients())


def test_text_is_one_hot_and_missing_values_get_an_indicator():
    log = read_log(patients(), missing="indicator")
    assert log.observation_names == ("sex=f", "sex=m", "lactate", "lactate missing")
    assert log.observations.shape == (30, 4)
    assert log.observations[3].tolist() == [0, 1, 3, 0]
    assert log.observations[4].tolist() == [0, 1, np.nanmean(patients()["obs.lactate"]), 1]
    assert any(
        "'obs.lactate', filled with the mean and marked by an indicator column: 3." in note for note in log.notes
    )
    assert any("'obs.sex' of the observation is text" in line for line in log.understood.lines())


def test_rows_with_missing_values_are_dropped_with_the_step_that_leads_there():
    frame = patients().drop(columns=["obs.sex"])
    log = read_log(frame, missing="drop")
    lost = np.flatnonzero(frame["obs.lactate"].isna())  # 4, 14, 24: the second, third and first row of an episode
    assert "Rows dropped because a value is missing: 3." in log.notes
    assert "Episodes whose first row was dropped, so that they begin later: 1." in log.notes
    assert len(log) == 30 - 3 - 2
    assert not np.isin(log.observations[log.row, 0], lost).any()
    after = log.observations[log.next_row, 0][~log.terminated]
    assert (after == log.observations[log.row, 0][~log.terminated] + 1).all()
    lost_reward = patients().drop(columns=["obs.lactate"]).assign(reward=[np.nan, *[1.0] * 29])
    assert len(read_log(lost_reward, missing="drop")) == 29


def test_next_observations_may_have_gaps_of_their_own():
    table = {"episode": [0, 0, 1, 1], "obs_0": [1.0, np.nan, 3.0, 4.0], "obs_1": [1.0, 2.0, 3.0, 4.0]}
    table |= {"next_obs_0": [np.nan, np.nan, 4.0, np.nan], "next_obs_1": [2.0, np.nan, 4.0, 9.0]}
    table |= {"reward": [1, 1, 1, 1], "terminated": [0, 1, 0, 0]}
    log = read_log(table, missing="indicator")
    assert len(log) == 4
    assert log.observations[log.next_row[0]].tolist() == log.observations[1].tolist()
    assert log.observations[log.next_row[3]].tolist()[1:] == [1.0, 9.0]


def test_the_shares_of_actions_are_those_of_the_log_and_of_the_target():
    log = read_log(pd.DataFrame(doses() | {"b": 1 / 3}), columns={"behaviour": "b"}, actions=["none", "low", "high"])
    given = np.tile([0.7, 0.2, 0.1], (30, 1))
    taken = np.tile([0.7, 0.2, 0.1], 10)  # the same policy by the actions taken
    for target in (given, taken):
        told = log.understood.with_target(ratios(log, target).shares, log.action_labels)
        assert np.allclose(told.target_shares, [0.7, 0.2, 0.1])
        line = "share of each action, log -> target: none: 33.3% -> 70.0%, low: 33.3% -> 20.0%, high: 33.3% -> 10.0%"
        assert line in told.lines()
    own = ratios(log, "behaviour").shares
    assert np.allclose(own, 1 / 3)


def test_an_action_that_only_the_target_takes_has_a_share():
    log = read_log({"obs": [0, 0], "act": [0, 2], "rew": [1, 1], "pscore": [0.5, 0.5]})
    told = log.understood.with_target(ratios(log, [[0.5, 0, 0, 0.5]]).shares, None)
    assert told.actions == ((0, 1), (2, 1), (3, 0))
    assert told.target_shares == (0.5, 0.0, 0.5)


def test_misspelled_arguments_get_the_nearest_spelling():
    with pytest.raises(InputError, match="read_log has no argument 'column': did you mean 'columns'"):
        read_log(doses(), column={})


def test_rows_without_time_jump_nowhere():
    log = read_log({"context": [0.1, 0.2, 0.3], "arm": [0, 1, 1], "reward": [1, 0, 1]})
    assert log.understood.warnings == ()
    assert "episodes: 3 of 3 rows, 1 row each; every row is an episode of one step ?" in log.understood.lines()
