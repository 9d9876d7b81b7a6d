"""Damaged and careless tables: each is refused, or read right, or its log carries the sign that the verdict needs."""

import numpy as np
import pytest

from gradtd.core.checks import InputError
from gradtd.logs import ratios, read_log
from logs.test_read import small, without_next
from naive.evaluation import real_walk, walk


def known(**changes):
    return read_log(without_next(**changes)).ends_known


def test_ends_are_known_only_where_they_are_marked():
    """A column truncated that is False everywhere marks nothing; one unfinished episode is what logs have."""
    none = [0, 0, 0, 0, 0]
    assert known()
    assert not known(terminated=None, truncated=none)
    assert not known(terminated=none, truncated=none)
    assert known(terminated=None, truncated=[0, 0, 1, 0, 1])
    assert known(terminated=None, truncated=[0, 0, 1, 0, 0])
    assert known(terminated=none, truncated=[0, 0, 1, 0, 0])
    assert known(terminated=none, truncated=None)
    assert not known(terminated=None, truncated=None)


def test_a_column_of_bytes_with_a_known_name_is_not_passed_over(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {name: pa.array(np.asarray(values)) for name, values in small().items()}
    columns["terminated"] = pa.array([b"0", b"0", b"1", b"0", b"0"])
    parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
    with pytest.raises(InputError, match=r"column 'terminated' looks like the terminated, but contains bytes"):
        read_log(tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet", columns={"terminated": None})
    assert not log.terminated.any()


@pytest.mark.parametrize("name", ["reward", "target", "rho", "t", "terminated"])
def test_a_nested_column_with_a_known_name_is_refused(name):
    table = without_next(**{name: {"inside": [1, 2, 3, 4, 5]}})
    with pytest.raises(InputError, match=rf"column '{name}' looks like .* columns=.*: None"):
        read_log(table)
    read_log(without_next(infos={"inside": [1, 2, 3, 4, 5]}))


@pytest.mark.parametrize("name", ["reward", "obs_0", "terminated", "action", "action_prob", "episode"])
def test_masked_numbers_are_missing(name):
    table = without_next()
    dtype = float if name not in ("episode", "action") else int
    table[name] = np.ma.array(np.asarray(table[name], dtype), mask=[0, 1, 0, 0, 0])
    with pytest.raises(InputError, match=rf"column '{name}' .*row 1|lacks a value in row 1.*'{name}' \(1\)"):
        read_log(table)


def test_a_mask_without_marks_changes_nothing():
    plain, masked = read_log(small()), read_log({k: np.ma.array(v) for k, v in small().items()})
    assert masked.reward.tobytes() == plain.reward.tobytes()
    assert masked.observations.tobytes() == plain.observations.tobytes()
    assert not isinstance(masked.reward, np.ma.MaskedArray)


def test_a_masked_next_observation_is_none():
    """Masked where nothing follows, it says that there is none; masked in part, it is refused."""
    after = np.ma.array([[1.0, 5.5], [2.0, 6.0], [0.0, 0.0], [11.0, 7.0], [12.0, 9.0]])
    now = np.array([[0.0, 5.0], [1.0, 5.5], [2.0, 6.0], [10.0, 6.5], [11.0, 7.0]])
    table = small(**{f"{w}obs_{k}": None for w in ("", "next_") for k in (0, 1)}) | {"obs": now}
    whole = after.copy()
    whole[2] = np.ma.masked
    assert read_log(table | {"next_obs": whole}).next_row.tolist() == [1, 2, 2, 4, 5]
    part = after.copy()
    part[2, 0] = np.ma.masked
    with pytest.raises(InputError, match="'next_obs' has rows that are masked in part"):
        read_log(table | {"next_obs": part})


def test_ratios_beside_probabilities_must_be_theirs():
    log = walk(30)
    right = log["target"] / log["action_prob"]
    assert ratios(read_log(log | {"rho": right})).rho == pytest.approx(right)
    assert ratios(read_log(log | {"rho": np.round(right, 3)})).rho == pytest.approx(right)
    wrong = right.copy()
    wrong[7] *= 1.5
    with pytest.raises(
        InputError, match=r"disagree with its probabilities in 1 of \d+ steps: in step 7 .*\"rho\": None"
    ):
        ratios(read_log(log | {"rho": wrong}))
    assert ratios(read_log(log | {"rho": wrong}, columns={"rho": None})).rho == pytest.approx(right)
    assert ratios(read_log(log | {"rho": wrong}, columns={"target": None})).rho == pytest.approx(wrong)


@pytest.mark.parametrize("make", [walk, real_walk])
def test_strangers(make):
    """0 for next observations as they should be, about 1 for shuffled ones, at least one half for a constant."""
    rng = np.random.default_rng(0)
    table = make(300)
    assert read_log(table).strangers == 0.0
    after = [name for name in table if name.startswith("next_obs")]
    order = rng.permutation(len(table["t"]))
    assert read_log(table | {name: table[name][order] for name in after}).strangers > 0.8
    assert read_log(table | {name: np.full_like(table[name], table[name][0]) for name in after}).strangers >= 0.45
    assert read_log({k: v for k, v in table.items() if k not in after}).strangers == 0.0


def test_next_observations_that_were_rounded_are_no_strangers():
    table = real_walk(100)
    rounded = {name: table[name].astype(np.float32).astype(float) for name in ("next_obs_0", "next_obs_1")}
    log = read_log(table | rounded)
    assert log.strangers < 1e-10
    assert any("differ from the observation of the following row" in note for note in log.notes)


def test_gaps_in_t_make_no_strangers():
    """Where t says that rows are missing, the next observation need not be that of the row after."""
    table = walk(300)
    kept = np.random.default_rng(1).random(len(table["t"])) < 0.6
    assert read_log({name: values[kept] for name, values in table.items()}).strangers == 0.0


def test_columns_that_changed_places_are_refused():
    table = walk(60, cut=4)
    swapped = table | {"obs": table["next_obs"], "next_obs": table["obs"]}
    with pytest.raises(InputError, match="'obs' and 'next_obs' are swapped"):
        read_log(swapped)
    mended = read_log(swapped, columns={"observation": "next_obs", "next_observation": "obs"})
    assert mended.observations.tobytes() == read_log(table).observations.tobytes()


def test_columns_of_one_policy_are_no_targets():
    """pi_0 is the probability of action 0, whatever was done; the error says what to give."""
    table = {k: v for k, v in walk(30).items() if k != "target"}
    n = len(table["t"])
    table |= {"pi_0": np.full(n, 0.3), "pi_1": np.full(n, 0.7), "p_1": np.full(n, 0.3), "p_2": np.full(n, 0.3)}
    log = read_log(table, keep=["pi_0", "p_1"])
    assert log.of_every_action == ("pi_0",)
    with pytest.raises(InputError, match=r"'pi_0' is one of several that sum to 1 .* give all columns"):
        ratios(log, "pi_0")
    ratios(log, "p_1")
