"""The clock: polynomials of the time since the start."""

import numpy as np

from gradtd.evaluation.designs.log_features import clock_of, since_start, time_rows


def test_steps_since_the_start():
    begins = np.array([0, 4, 5, 9])
    whole = np.r_[0:4, 0, 0:4]
    for start in range(9):
        for stop in range(start + 1, 10):
            assert (since_start(begins, start, stop) == whole[start:stop]).all()


def test_the_clock_has_a_column_less_than_times():
    assert clock_of(np.array([0, 0, 2])).shape == (2, 1)
    assert clock_of(np.array([0, 7])).shape == (1, 0)
    assert clock_of(np.bincount([9, 4, 4, 30])).shape == (30, 4)


def test_the_clock_stops_at_its_last_time():
    clock = clock_of(np.array([0, 0, 0, 2]))
    rho, discount = np.array([2.0, 1.0, 3.0]), np.array([0.5, 0.9, 0.9])
    rows = time_rows(clock, np.array([0, 2, 7]), rho, discount)
    np.testing.assert_allclose(rows.t, clock[[0, 2, 2]])
    np.testing.assert_allclose(rows.y, discount[:, None] * clock[[1, 2, 2]] - clock[[0, 2, 2]])
    np.testing.assert_allclose(rows.z, rho[:, None] * clock[[0, 2, 2]])
