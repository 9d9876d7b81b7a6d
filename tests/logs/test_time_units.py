"""Files of one log whose times have different units: the same order, and the same value, at once and in parts."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gradtd
from gradtd.logs import read_log


def _log_of_two_files(folder, first, second):
    """60 episodes of 4 steps, written by two loggers: one wrote the first and third step, the other the rest.

    Reward and observation tell the time, so that another order gives another value.
    """
    folder.mkdir()
    rng = np.random.default_rng(0)
    episode, t = np.repeat(np.arange(60), 4), np.tile(np.arange(4), 60)
    table = {
        "episode": episode,
        "obs": t,
        "reward": np.where(t == 3, 1.0, 0.0) + 0.01 * rng.standard_normal(240),
        "terminated": t == 3,
        "rho": np.ones(240),
    }
    moment = np.datetime64("2024-01-01T00:00:00") + 60 * episode + t
    for name, unit, mine in (("a", first, t % 2 == 0), ("b", second, t % 2 == 1)):
        columns = {key: pa.array(values[mine]) for key, values in table.items()}
        columns["t"] = pa.array(moment[mine].astype("datetime64[us]")).cast(unit)
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return folder


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.timestamp("ms"), pa.timestamp("us")),
        (pa.timestamp("us"), pa.timestamp("ms")),
        (pa.timestamp("ns"), pa.timestamp("ms", "UTC")),
    ],
)
def test_times_of_different_units_give_one_order_and_one_value(tmp_path, first, second):
    folder = _log_of_two_files(tmp_path / "mixed", first, second)
    log = read_log(folder)
    np.testing.assert_array_equal(log.observations[log.row], np.tile(np.arange(4), 60))
    memory = gradtd.evaluate(folder, gamma=0.9, machine=gradtd.Machine(in_parts=False))
    parts = gradtd.evaluate(folder, gamma=0.9, machine=gradtd.Machine(in_parts=True))
    assert memory.value == pytest.approx(0.9**3, abs=0.01)
    assert parts.value == pytest.approx(memory.value, abs=1e-9)


def test_times_and_durations_cannot_be_one_column(tmp_path):
    folder = _log_of_two_files(tmp_path / "mixed", pa.timestamp("ms"), pa.timestamp("ms"))
    table = pq.read_table(folder / "b.parquet")
    other = table.set_column(table.schema.get_field_index("t"), "t", table["t"].cast("int64").cast(pa.duration("ms")))
    pq.write_table(other, folder / "b.parquet")
    with pytest.raises(gradtd.InputError, match=r"'t' is timestamp.* in 'a.parquet' and duration.* in 'b.parquet'"):
        read_log(folder)


def test_a_time_that_does_not_fit_the_finer_unit_is_named(tmp_path):
    folder = _log_of_two_files(tmp_path / "mixed", pa.timestamp("ns"), pa.timestamp("s"))
    table = pq.read_table(folder / "b.parquet")
    late = pa.array(np.full(len(table), 10**11), pa.timestamp("s"))
    pq.write_table(table.set_column(table.schema.get_field_index("t"), "t", late), folder / "b.parquet")
    with pytest.raises(gradtd.InputError, match=r"column 't' of 'b.parquet' cannot be converted to timestamp"):
        read_log(folder)
