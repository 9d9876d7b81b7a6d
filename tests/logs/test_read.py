"""Reading a log: what the rows of a table mean, against a slow reading row by row; and what is refused."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradtd.core.checks import InputError
from gradtd.logs import Log, read_log

ARRAYS = ("observations", "row", "next_row", "reward", "terminated", "truncated", "episode")
MAYBE = ("action", "behaviour", "target", "rho")


def assert_same_log(one, other):
    for name in (*ARRAYS, *MAYBE):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None), name
        if a is not None:
            assert a.dtype == b.dtype, name
            assert a.shape == b.shape, name
            assert a.tobytes() == b.tobytes(), name
    assert one.action_labels == other.action_labels
    assert one.observation_names == other.observation_names


def small(**changes):
    """Two episodes, the first terminated after 3 steps, the second truncated after 2; next observations given."""
    table = {
        "episode": [0, 0, 0, 1, 1],
        "t": [0, 1, 2, 0, 1],
        "obs_0": [0.0, 1.0, 2.0, 10.0, 11.0],
        "obs_1": [5.0, 5.5, 6.0, 6.5, 7.0],
        "next_obs_0": [1.0, 2.0, 3.0, 11.0, 12.0],
        "next_obs_1": [5.5, 6.0, 8.0, 7.0, 9.0],
        "action": [0, 1, 0, 2, 1],
        "reward": [1.0, 2.0, 3.0, 4.0, 5.0],
        "terminated": [0, 0, 1, 0, 0],
        "truncated": [0, 0, 0, 0, 1],
        "action_prob": [0.5, 0.25, 0.5, 0.5, 0.1],
    }
    return {k: v for k, v in {**table, **changes}.items() if v is not None}


def without_next(**changes):
    return small(next_obs_0=None, next_obs_1=None, **changes)


def test_observations_are_stored_once():
    log = read_log(small())
    assert log.row.tolist() == [0, 1, 2, 3, 4]
    assert log.next_row.tolist() == [1, 2, 5, 4, 6]
    assert log.observations.shape == (7, 2)
    assert log.observations[5:].tolist() == [[3.0, 8.0], [12.0, 9.0]]
    assert log.observations.flags.c_contiguous
    assert log.observation_names == ("0", "1")
    assert (len(log), log.n_episodes, log.starts.tolist()) == (5, 2, [0, 3])
    assert log.terminated.tolist() == [False, False, True, False, False]
    assert log.truncated.tolist() == [False, False, False, False, True]
    assert log.behaviour.tolist() == [0.5, 0.25, 0.5, 0.5, 0.1]
    assert log.notes == ()
    assert "5 steps, 2 episodes (1 terminated, 1 truncated), 2 observed numbers" in repr(log)
    assert read_log(log) is log


def test_next_observations_that_differ_are_kept_and_counted():
    log = read_log(small(next_obs_0=[1.0, 2.25, 3.0, 11.0, 12.0]))
    assert log.next_row.tolist() == [1, 5, 6, 4, 7]
    assert log.observations[5].tolist() == [2.25, 6.0]
    assert any(note.startswith("Next observations inside an episode") and note.endswith(": 1.") for note in log.notes)


def test_a_truncated_last_step_without_a_next_observation_is_dropped():
    log = read_log(without_next())
    assert len(log) == 4
    assert log.next_row.tolist() == [1, 2, 2, 4]  # the terminated step stays where it is
    assert log.observations[4].tolist() == [11.0, 7.0]
    assert log.truncated.tolist() == [False, False, False, True]
    assert any(
        note.startswith("Last steps of truncated episodes dropped") and note.endswith(": 1.") for note in log.notes
    )


def test_an_unfinished_episode_is_truncated():
    log = read_log(small(truncated=None))
    assert log.truncated.tolist() == [False, False, False, False, True]
    assert any(note == "Episodes without an end in the log, counted as truncated: 1." for note in log.notes)


def test_an_episode_of_which_nothing_remains_disappears():
    log = read_log({"episode": [0, 1, 1], "obs": [1, 2, 3], "reward": [0, 0, 0], "terminated": [0, 0, 1]})
    assert log.episode.tolist() == [0, 0]
    assert log.observations.tolist() == [2, 3]
    assert "Episodes dropped, since none of their steps remained: 1." in log.notes
    with pytest.raises(InputError, match="every episode has a single row without an end"):
        read_log({"episode": [0, 1], "obs": [1, 2], "reward": [0, 0]})


def test_terminated_wins_over_truncated_but_not_done():
    both = read_log(small(truncated=[0, 0, 1, 0, 1]))
    assert both.terminated[2]
    assert not both.truncated[2]
    assert any("both terminated and truncated" in note for note in both.notes)
    table = small(done=[0, 0, 1, 0, 1], terminated=None)
    done = read_log(table)
    assert (done.terminated[4], done.truncated[4]) == (False, True)
    assert any("both done and truncated, counted as truncated" in note for note in done.notes)
    assert read_log({**table, "truncated": [0] * 5}).terminated[4]
    assert read_log(table, columns={"terminated": "done"}).terminated[4]  # the user's own word


def test_ends_inside_an_episode_are_refused():
    with pytest.raises(InputError, match="row 1 is terminated, but row 2 continues"):
        read_log(small(terminated=[0, 1, 1, 0, 0]))
    with pytest.raises(InputError, match="row 3 is truncated, but row 4 continues"):
        read_log(small(truncated=[0, 0, 0, 1, 1]))


def test_gaps_give_no_false_successor():
    log = read_log(without_next(t=[0, 1, 3, 0, 1]))
    assert log.reward.tolist() == [1.0, 3.0, 4.0]  # the step before the gap and the cut-off one are gone
    assert log.observations[log.next_row].tolist() == [[1.0, 5.5], [2.0, 6.0], [11.0, 7.0]]
    assert any(note.startswith("Gaps in t") and note.endswith(": 1.") for note in log.notes)
    given = read_log(small(t=[0, 1, 3, 0, 1], next_obs_0=[1.0, 1.5, 3.0, 11.0, 12.0]))
    assert len(given) == 5
    assert given.observations[given.next_row[1]].tolist() == [1.5, 6.0]
    every_fourth = read_log(small(t=[0, 4, 8, 4, 8]))
    assert every_fourth.notes == ()


def test_a_clock_orders_but_does_not_count():
    log = read_log(small(t=[0.1, 0.25, 3.7, 0.0, 0.2]))
    assert len(log) == 5
    assert any("does not count steps" in note for note in log.notes)
    dates = np.array(["2026-01-01", "2026-01-03", "2026-02-01", "2026-01-01", "2026-01-02"], "datetime64[D]")
    assert_same_log(log, read_log(small(t=dates)))


def test_missing_next_observations():
    """Missing after the last step of an episode means none; NaN elsewhere is an error."""
    nan = float("nan")
    log = read_log(small(next_obs_0=[1.0, 2.0, nan, 11.0, nan], next_obs_1=[5.5, 6.0, nan, 7.0, nan]))
    assert_same_log(log, read_log(without_next()))
    with pytest.raises(InputError, match=r"'next_obs_0' must be finite: row 1 is nan inside"):
        read_log(small(next_obs_0=[1.0, nan, 3.0, 11.0, 12.0], next_obs_1=[5.5, nan, 8.0, 7.0, 9.0]))
    with pytest.raises(InputError, match="next observation of row 4 lacks 'next_obs_0', but not all"):
        read_log(small(terminated=[0, 0, 1, 0, 1], next_obs_0=[1.0, 2.0, 3.0, 11.0, nan]))
    with pytest.raises(InputError, match="'next_obs_1' of the observation must be finite: row 3 is nan"):
        read_log(small(next_obs_1=[5.5, 6.0, 8.0, nan, 9.0]))


def shuffled(table, seed):
    order = np.random.default_rng(seed).permutation(len(table["reward"]))
    return {name: np.asarray(values)[order] for name, values in table.items()}


def test_order():
    log = read_log(small())
    mixed = shuffled(small(), 3)
    assert_same_log(log, read_log(mixed))
    assert any("sorted" in note for note in read_log(mixed).notes)
    with pytest.raises(InputError, match=r'read_log\(order="sort"\)'):
        read_log(mixed, order="refuse")
    apart = small(episode=[0, 0, 1, 0, 1], t=None)
    with pytest.raises(InputError, match="rows 0 and 3 have the same 'episode', with rows of other"):
        read_log(apart)
    backwards = small(episode=["b", "b", "b", "a", "a"])
    assert read_log(backwards).reward.tolist() == [4, 5, 1, 2, 3]
    assert read_log(backwards, order="refuse").reward.tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(InputError, match="t falls from 2 to 1 at row 2"):
        read_log(small(t=[0, 2, 1, 0, 1]), order="refuse")


def test_duplicates():
    doubled = {name: [*values, values[1]] for name, values in small().items()}
    with pytest.raises(InputError, match="rows 1 and 5 have the same episode and t"):
        read_log(doubled)
    log = read_log(doubled, duplicates="drop")
    assert_same_log(log, read_log(small()))
    assert "Rows dropped because they equal the previous row in every column read: 1." in log.notes
    doubled["obs_1"][5] += 1
    with pytest.raises(InputError, match="rows 1 and 5 have the same episode and t but differ"):
        read_log(doubled, duplicates="drop")


@st.composite
def tables(draw):
    """Episodes with gaps, every kind of end, with or without next observations, some of which differ."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    with_next, step = draw(st.booleans()), draw(st.sampled_from([1, 3]))
    rows, number = [], 0
    for episode in range(draw(st.integers(1, 5))):
        length = int(rng.integers(1, 7))
        seen = rng.integers(0, 3, (length + 1, 2)).astype(float)
        end = rng.integers(0, 3)
        for t in range(length):
            last = t == length - 1
            after = seen[t + 1] + (rng.random() < 0.2)
            flags = (last and end == 1, last and end == 2)
            rows.append((episode * 7 - 3, t * step, seen[t], after, float(number), *flags))
            number += 1
    kept = [row for row in rows if rng.random() < 0.85] or rows
    return [kept[i] for i in rng.permutation(len(kept))], with_next


def naive(rows, with_next):
    """Row by row: (observation, next observation, reward, terminated, truncated, episode) of every step."""
    episodes = {}
    for row in sorted(rows, key=lambda row: row[:2]):
        episodes.setdefault(row[0], []).append(row)
    steps_of_t = [b[1] - a[1] for rows in episodes.values() for a, b in itertools.pairwise(rows)]
    stride = min(steps_of_t, default=1)
    result, number = [], 0
    for rows in episodes.values():
        mine = []
        for i, (_, t, seen, after, reward, terminated, truncated) in enumerate(rows):
            following = rows[i + 1] if i + 1 < len(rows) and rows[i + 1][1] - t == stride else None
            if with_next:
                leads_to = after
            elif following is not None:
                leads_to = following[2]
            elif terminated:
                leads_to = seen
            else:
                continue
            mine.append([seen, leads_to, reward, terminated, truncated, number])
        if mine:
            mine[-1][4] = not mine[-1][3]
            result.extend(mine)
            number += 1
    return result


@settings(max_examples=150, deadline=None)
@given(tables())
def test_reading_equals_the_slow_reading(drawn):
    rows, with_next = drawn
    episode, t, seen, after, reward, terminated, truncated = map(np.array, zip(*rows, strict=True))
    table = {"episode": episode, "t": t, "obs": seen, "reward": reward, "done_": terminated, "timeout": truncated}
    if with_next:
        table["next_obs"] = after
    expected = naive(rows, with_next)
    mapping = {"terminated": "done_"}
    if not expected:
        with pytest.raises(InputError, match="single row without an end"):
            read_log(table, columns=mapping)
        return
    log = read_log(table, columns=mapping)
    found = (log.observations[log.row], log.observations[log.next_row], log.reward, log.terminated)
    for values, wanted in zip((*found, log.truncated, log.episode), zip(*expected, strict=True), strict=True):
        np.testing.assert_array_equal(values, np.array(wanted))
    np.testing.assert_array_equal(log.row, np.arange(len(log)))
    assert set(log.row) | set(log.next_row) == set(range(len(log.observations)))  # nothing is stored in vain
    assert_same_log(log, read_log(shuffled(table, 1), columns=mapping))


def test_names_are_recognised_in_any_case():
    for episode, t, seen, reward, end, cut, chance, wish in [
        ("episode_id", "step", "observation", "Reward", "terminal", "timeout", "pscore", "target_prob"),
        ("EPS_ID", "timestep", "obs", "rewards", "terminateds", "truncateds", "behavior_prob", "evaluation_prob"),
        ("traj_id", "time", "State", "r", "terminals", "timeouts", "propensity", "target"),
    ]:
        log = read_log(
            {episode: [4, 4], t: [0, 1], seen: [0, 1], reward: [1, 2], end: [0, 1], cut: [0, 0]}
            | {chance: [0.5, 1.0], wish: [0.0, 1.0], "ratio": [0, 1]}
        )
        assert log.behaviour.tolist() == [0.5, 1.0]
        assert log.target.tolist() == [0.0, 1.0]
        assert log.rho.tolist() == [0.0, 1.0]
        assert log.observations.dtype == np.int64
        assert log.observations.tolist() == [0, 1]


def test_several_observation_columns_in_numeric_order():
    table = small(obs_0=None, obs_1=None, next_obs_0=None, next_obs_1=None)
    many = read_log({**table, **{f"state_{k}": np.arange(5.0) + 100 * k for k in (10, 9, 2)}})
    assert many.observation_names == ("2", "9", "10")
    assert many.observations[0].tolist() == [200.0, 900.0, 1000.0]
    words = {"obs.x": range(5), "obs.v": range(5, 10), "next_obs.v": range(6, 11), "next_obs.x": range(1, 6)}
    log = read_log({**table, **words})
    assert log.observation_names == ("x", "v")
    assert log.observations[log.next_row].tolist() == [[k + 1, k + 6] for k in range(5)]
    mapped = read_log({**table, "x": range(5), "v": range(5, 10)}, columns={"observation": ["v", "x"]})
    assert mapped.observation_names == ("v", "x")
    assert mapped.observations[0].tolist() == [5.0, 0.0]


def test_actions_are_coded():
    assert read_log(small(action=[0, 3, 0, 2, 1])).action.tolist() == [0, 3, 0, 2, 1]  # they index a policy's table
    text = read_log(small(action=["up", "down", "up", "up", "left"]))
    assert text.action_labels == ("down", "left", "up")
    assert text.action.tolist() == [2, 0, 2, 2, 1]
    assert read_log(small(action=[-1, 1, 1, -1, 1])).action_labels == (-1, 1)
    real = read_log(small(action=[0.5, 1, 2, 0, 1], action_prob=[3.0] * 5))
    assert real.action.dtype == np.float64
    assert real.behaviour.tolist() == [3.0] * 5
    assert read_log(small(action=np.ones((5, 2)))).action.shape == (5, 2)


def test_d4rl_episodes_are_cut_after_terminals_and_timeouts():
    seen = np.arange(12.0).reshape(6, 2)
    table = {"observations": seen, "next_observations": seen + 2, "actions": np.zeros((6, 3)), "rewards": np.ones(6)}
    table |= {"terminals": [0, 1, 0, 0, 0, 0], "timeouts": [0, 0, 0, 1, 0, 0], "infos": {"qpos": np.ones(6)}}
    log = read_log(table)
    assert log.episode.tolist() == [0, 0, 1, 1, 2, 2]
    assert log.truncated.tolist() == [False, False, False, True, False, True]
    assert np.array_equal(log.observations[log.next_row], seen + 2)
    assert any("no episode column" in note for note in log.notes)
    with pytest.raises(InputError, match="no episode column and no terminated or truncated column"):
        read_log({k: v for k, v in table.items() if k not in ("terminals", "timeouts")})
    with pytest.raises(InputError, match="t falls from 3 to 0 at row 4"):
        read_log({**table, "timeouts": [0] * 6, "t": [0, 1, 2, 3, 0, 1]})


def test_log_probabilities():
    logs = np.log(small()["action_prob"])
    with pytest.raises(InputError, match=r"'action_prob' contains logarithms .* log_probabilities="):
        read_log(small(action_prob=logs))
    with pytest.raises(InputError, match="'action_logp' is named as logarithms"):
        read_log(small(action_prob=None, action_logp=logs))
    for table in (small(action_prob=logs), small(action_prob=None, action_logp=logs)):
        log = read_log(table, log_probabilities="convert")
        np.testing.assert_allclose(log.behaviour, small()["action_prob"], rtol=1e-15)
        assert any("converted" in note for note in log.notes)
    both = read_log(small(action_logp=logs))  # as RLlib writes them
    assert both.behaviour.tolist() == small()["action_prob"]
    never = small(target_logp=[0.0, -np.inf, -1, -1, -1])
    assert read_log(never, log_probabilities="convert").target.tolist()[:2] == [1.0, 0.0]


def test_logarithms_in_a_kept_column_are_converted_where_it_is_read():
    """Also in a log that was read before; a column that is not kept, and one that holds none, stay as they are."""
    table = small(mine=[-1.0, -np.inf, 0, -2, -1], plain=[0.5, 0, 1, 1, 0.5])
    log = read_log(table, keep=["mine", "plain"], log_probabilities="convert")
    np.testing.assert_allclose(log.extra["mine"], np.exp(table["mine"]), rtol=1e-15)
    assert log.extra["plain"].tolist() == table["plain"]
    assert [note for note in log.notes if "converted" in note] == [
        "Column 'mine' contained logarithms of probabilities: converted."
    ]
    with pytest.raises(InputError, match="column 'mine' must be finite"):
        read_log(table, keep="mine")
    before = read_log(small(mine=[-1.0, -3, 0, -2, -1], other=[-1.0] * 5), keep=["mine", "other"])
    again = read_log(before, keep="mine", log_probabilities="convert")
    np.testing.assert_allclose(again.extra["mine"], np.exp(before.extra["mine"]), rtol=1e-15)
    assert again.extra["other"].tolist() == [-1.0] * 5
    assert read_log(before, keep="mine") is before


@pytest.mark.parametrize(
    ("changes", "options", "sentence"),
    [
        ({"reward": [1, 2, np.nan, 4, 5]}, {}, r"column 'reward' must be finite: row 2 is nan"),
        ({"reward": list("abcde")}, {}, "'reward' must contain one number per row, got text"),
        ({"reward": None}, {}, "no reward column"),
        ({"reward": [1, 2, 3]}, {}, "same length: 'episode' has 5, 'reward' has 3"),
        ({"obs_0": [1.0] * 4, "obs_1": [1.0] * 4}, {}, "same length: 'obs_0' has 4, the reward has 5"),
        ({"obs_0": [1.0] * 6, "obs_1": [1.0] * 6}, {}, "same length: 'obs_0' has 6, the reward has 5"),
        ({"next_obs_0": [1.0] * 5, "next_obs_1": [1.0] * 6}, {}, "same length: 'next_obs_0' has 5, 'next_obs_1' has 6"),
        ({"reward": np.array([1, 2, 3, 4, None])}, {}, "'reward' has no value in row 4"),
        ({"obs_1": [1, 2, 3, np.inf, 5]}, {}, "'obs_1' of the observation must be finite: row 3 is inf"),
        ({"obs_1": list("abcde")}, {}, "one of the columns 'obs_1' and 'next_obs_1' contains text"),
        ({"obs_0": None, "obs_1": None}, {}, r"no observation column was found among episode, t, .*columns="),
        ({"next_obs_1": None}, {}, "the observation has 2 columns .* and the next observation 1"),
        ({"Reward": [0] * 5}, {}, "'reward' and 'Reward' both look like the reward"),
        ({"state": [0] * 5}, {}, "'obs_0' and 'state' both look like the observation"),
        ({"action_prob": [0.5, 0.0, 0.5, 0.5, 0.1]}, {}, "above 0 since the action was taken: row 1 is 0.0"),
        ({"action_prob": [0.5, -0.1, 0.5, 0.5, 0.1]}, {}, "row 1 is -0.1"),
        ({"action_prob": [0.5, 1.5, 0.5, 0.5, 0.1]}, {}, "must be at most 1: row 1 is 1.5"),
        ({"action_prob": [0.5, np.nan, 0.5, 0.5, 0.1]}, {}, r"'action_prob' must be finite: row 1 is nan"),
        ({"target": [0.5, -0.1, 0.5, 0.5, 0.1]}, {}, "'target' must be at least 0: row 1"),
        ({"rho": [0.5, -0.1, 0.5, 0.5, 0.1]}, {}, "'rho' must not be negative: row 1"),
        ({"terminated": [0, 0, 2, 0, 0]}, {}, "true or false, or 1 or 0"),
        ({"episode": [0, 0, np.nan, 1, 1]}, {}, r"'episode' must be finite: row 2 is nan"),
        ({}, {"columns": {"reward": "gain"}}, "no column 'gain' for 'reward'; the columns are episode"),
        ({}, {"columns": {"rewardd": "reward"}}, "did you mean 'reward'"),
        ({}, {"columns": {"observation": []}}, "takes one column or several"),
        ({}, {"columns": {"reward": ["t", "reward"]}}, r"columns=\{'reward': ...\} takes one column, got"),
        ({"reward": np.arange(5).astype("datetime64[s]")}, {}, "one number per row, got times"),
        ({"reward": np.ones((5, 2))}, {}, r"the rewards have the shape \(5, 2\), steps by environments"),
        ({"action": np.array([1, "a", None, 2, 3], object)}, {}, "'action' must be an array of numbers or text"),
        ({}, {"columns": "reward"}, "columns must be a dictionary"),
        ({}, {"keep": "colour"}, "no column 'colour' to keep"),
        ({}, {"order": "random"}, "order must be one of"),
        ({k: [] for k in small()}, {}, "has no rows"),
    ],
)
def test_bad_input_is_one_sentence(changes, options, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        read_log(small(**changes), **options)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_mapping_settles_what_is_doubtful():
    log = read_log(small(Reward=[9] * 5), columns={"reward": "Reward"}, keep=["reward"])
    assert log.reward.tolist() == [9.0] * 5
    assert log.extra["reward"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert read_log(small(), columns={"behaviour": None}).behaviour is None
    assert_same_log(read_log(small(reward=np.arange(5.0)[:, None])), read_log(small(reward=np.arange(5.0))))
    assert isinstance(log, Log)
    with pytest.raises(InputError, match="a log is read from a path"):
        read_log(7)
