"""Large logs: what `evaluate` holds in memory, what it reports on the way, and products that go chunk by chunk."""

import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from gradtd.core.checks import InputError
from gradtd.evaluation.designs.log_features import refuse_useless
from gradtd.evaluation.estimators.products import cross, rows_at, times, values_of
from gradtd.features import make_features

N, K = 200_000, 20
EVALUATE = """
import json, sys
import gradtd

def memory(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key)) * 1024

def evaluate(path, **more):
    return gradtd.evaluate(path, gamma=0.9, features="identity", algorithm="lstd", **more)

evaluate(sys.argv[1])    # imports and compiles
before, heard = memory("VmHWM"), []
result = evaluate(sys.argv[2], progress=lambda *told: heard.append(told))
print(json.dumps({"grown": memory("VmHWM") - before, "heard": heard, "value": result.value}))
"""


def write_log(path, n):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    told = {
        "episode": np.arange(n) // 100,
        "reward": rng.normal(1, 1, n),
        "terminated": np.arange(n) % 100 == 99,
        "rho": rng.choice([0.5, 1.5], n),
    }
    pq.write_table(pa.table(told | {f"obs_{k}": rng.normal(size=n) for k in range(K)}), path, row_group_size=20_000)
    return path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_below_four_times_the_features_and_progress_is_told(tmp_path):
    """Measured growth: 3.1 times; observations stay for the checks, and the behaviour's value is fitted too."""
    small, large = write_log(tmp_path / "small.parquet", N // 10), write_log(tmp_path / "large.parquet", N)
    command = [sys.executable, "-c", EVALUATE, str(small), str(large)]
    told = json.loads(subprocess.check_output(command))
    assert 1.0 < told["grown"] / (N * (K + 1) * 8) < 4.0
    assert abs(told["value"] - 1 / (1 - 0.9 * 0.99)) < 0.1  # TD's solution for noise: a constant that ends every 100
    assert list(dict.fromkeys(what for what, _, _ in told["heard"])) == ["reading", "least squares", "refitting"]
    for phase in ("reading", "least squares", "refitting"):
        done = [(done, total) for what, done, total in told["heard"] if what == phase]
        assert all(a[0] < b[0] and a[1] == b[1] for a, b in pairwise(done))
        assert done[-1][0] == done[-1][1]


@pytest.mark.parametrize("n", [1, 99, 4096, 10_001])
@pytest.mark.parametrize("d", [1, 8, 51, 200])
def test_products_in_small_parts_are_the_products(n, d):
    rng = np.random.default_rng(n + d)
    x, y, W = rng.normal(size=(n, d)), rng.normal(size=(n, d + 1)), rng.normal(size=(d, d))
    np.testing.assert_allclose(cross(x, y), np.einsum("ni,nj->ij", x, y), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(times(x, W), np.einsum("ni,ij->nj", x, W), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(values_of(x, W[0]), (x * W[0]).sum(axis=1), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("rows", [[2, 3, 4], [4, 3, 2], [2, 2, 4], [5], [0, 2, 1, 3]])
def test_rows_that_follow_each_other_are_not_copied(rows):
    table = np.arange(12.0).reshape(6, 2)
    found = rows_at(table, np.array(rows, np.uint32))
    np.testing.assert_array_equal(found, table[rows])
    assert np.shares_memory(found, table) == (rows in ([2, 3, 4], [5]))


def test_a_feature_that_changes_late_is_no_constant():
    """The search for constant features stops early, but not before it knows."""
    late = np.ones((50_000, 1))
    late[-1] = 2.0
    refuse_useless(make_features("identity"), late)
    refuse_useless(make_features("identity"), np.hstack([np.ones_like(late), late]))
    with pytest.raises(InputError, match="all features are constant"):
        refuse_useless(make_features("identity"), np.ones((50_000, 1)))
    fitted = make_features("identity").fit(np.random.default_rng(0).normal(size=(10, 2)))
    with pytest.raises(InputError, match="2 features are constant"):
        refuse_useless(fitted, np.hstack([np.ones_like(late), late, 3 * np.ones_like(late)]))
