"""Equations of columns of which some say what others say: the solution is that of the columns that differ."""

import numpy as np
import pytest

from gradtd.evaluation.fits import Equations, solve

PIECES, LENGTH, OWN = 100, 4, 3


def rows(kind, features):
    """Three columns and two beside them; the last is one of those, or a sum of them, or no step has it."""
    last = {
        "all differ": features[..., 4],
        "beside, a sum of others": features[..., 0] - 2 * features[..., 1],
        "beside, always 0": np.zeros(features.shape[:-1]),
        "own, nearly another": features[..., 0] + 1e-3 * np.roll(features[..., 4], 1),
        "own, the same as another": features[..., 1],
    }[kind]
    place = 2 if kind.startswith("own") else 4
    made = features.copy()
    made[..., place] = last
    return made


@pytest.mark.parametrize(
    ("kind", "rank", "used"),
    [
        ("all differ", 5, [0, 1, 2, 3, 4]),
        ("beside, a sum of others", 4, [0, 1, 2, 3]),
        ("beside, always 0", 4, [0, 1, 2, 3]),
        ("own, nearly another", 5, [0, 1, 2, 3, 4]),
        ("own, the same as another", 4, [0, 1, 3, 4]),
    ],
)
def test_redundant_columns_change_nothing(kind, rank, used):
    rng = np.random.default_rng(0)
    n = PIECES * LENGTH
    x, after = (rows(kind, rng.normal(size=(n, 5))) for _ in range(2))
    rho, reward = rng.choice([0.5, 1.5], n), rng.normal(size=n)
    z, y = rho[:, None] * x, 0.9 * after - x
    tenth, first = np.arange(n) // (n // 10), x[::LENGTH]
    sums = Equations(
        np.array([z[tenth == g].T @ y[tenth == g] for g in range(10)]),
        np.array([z[tenth == g].T @ reward[tenth == g] for g in range(10)]),
        x.T @ x,
        first.reshape(10, -1, 5).sum(axis=1),
        np.full(10, PIECES / 10),
        (1 - rho) @ x,
    )
    found = solve("it", sums, np.arange(OWN), np.arange(OWN, 5))
    A, b, start = (z.T @ y)[np.ix_(used, used)], (z.T @ reward)[used], first[:, used].mean(axis=0)
    theta, left = np.linalg.solve(A, -b), np.linalg.solve(A.T, start)
    assert found.rank == rank
    assert found.value == pytest.approx(start @ theta, rel=1e-5)
    np.testing.assert_allclose(x @ found.theta, x[:, used] @ theta, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(x @ found.left, x[:, used] @ left, rtol=1e-4, atol=1e-7)
    lack = np.linalg.lstsq(x[:, used].T @ x[:, used], ((1 - rho) @ x)[used], rcond=None)[0]
    np.testing.assert_allclose(x @ found.missing, x[:, used] @ lack, rtol=1e-4, atol=1e-6)
    without = [np.flatnonzero(tenth != g) for g in range(10)]
    values = [
        first[some[::LENGTH] // LENGTH][:, used].mean(axis=0)
        @ np.linalg.solve(z[some][:, used].T @ y[some][:, used], -(z[some][:, used].T @ reward[some]))
        for some in without
    ]
    assert found.bias == pytest.approx(9 * (np.mean(values) - start @ theta), rel=1e-4)
