"""The checks of cells, made from sparse sums, say what those of a dense table say."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

from gradtd.evaluation.preparing import prepare_log
from gradtd.evaluation.trust.checking import all_fits
from gradtd.evaluation.trust.deciding import decide
from gradtd.evaluation.trust.enriching import are_cells, discrete_wide
from gradtd.evaluation.trust.records import Traced, record_of
from gradtd.features import make_features
from gradtd.logs import read_log


def table_of(seed, states=90, episodes=300, cut=0.2):
    """Walks among states with jumps, rare states, zero ratios in one of them, some episodes cut off."""
    rng = np.random.default_rng(seed)
    length = rng.integers(2, 15, episodes)
    n, ends = int(length.sum()), np.cumsum(length) - 1
    seen = np.abs(rng.normal(0, states / 3, n)).astype(int) % states
    for t in range(1, n):
        if t - 1 not in ends and rng.random() < 0.7:
            seen[t] = (seen[t - 1] + rng.integers(0, 3)) % states
    last = np.zeros(n, bool)
    last[ends] = True
    was_cut = last & np.repeat(rng.random(episodes) < cut, length)
    rho = rng.choice([0.8, 1.0, 1.2], n)
    rho[seen == 45] = 0.0
    return {
        "episode": np.repeat(np.arange(episodes), length),
        "obs": seen,
        "next_obs": np.where(last, rng.integers(0, states + 1, n), np.r_[seen[1:], 0]),
        "reward": np.sin(seen) + rng.normal(size=n),
        "terminated": last & ~was_cut,
        "truncated": was_cut,
        "rho": rho,
    }


def both(seed, features="one-hot", lam=0.0):
    """The decision's input with a sparse table, and with the same table dense."""
    log = read_log(table_of(seed))
    ready = prepare_log(log, make_features(features), None)
    wide = discrete_wide(log, log.observations.reshape(-1), ready.table, log.episode)
    record = record_of(log, log.episode, log.rho, 0.95, wide, False)
    if lam:
        decay = np.r_[0.0, lam * record.discount[:-1]]
        decay[record.begins[:-1]] = 0.0
        record = replace(record, traced=Traced(lam, decay))
    return record, wide, replace(wide, table=wide.table.toarray())


@pytest.mark.parametrize("features", ["one-hot", "aggregation:bins=9"])
@pytest.mark.parametrize(("seed", "lam"), [(0, 0.0), (1, 0.0), (2, 0.7)])
def test_sparse_checks_are_dense_checks(seed, lam, features, monkeypatch):
    monkeypatch.setattr("gradtd.features.cells._DENSE_LIMIT", 5)
    record, wide, dense = both(seed, features, lam)
    assert wide.sparse
    assert not dense.sparse
    assert wide.complete == (features == "one-hot")
    ours, theirs = all_fits(record, wide), all_fits(record, dense)
    for kind in ("plain", "traced", "robust", "timed"):
        found, wanted = getattr(ours, kind), getattr(theirs, kind)
        assert list(found) == list(wanted)
        assert bool(found) == (kind != "timed" or lam == 0)
        for name, fit in wanted.items():
            assert found[name].columns == fit.columns
            if kind == "timed":  # what a state is worth that no ratio reaches, nobody knows; exact in test_clock.py
                assert found[name].value == pytest.approx(fit.value, abs=0.1 * fit.error)
                assert found[name].error == pytest.approx(fit.error, rel=0.02)
                continue
            assert found[name].value == pytest.approx(fit.value, rel=1e-6, abs=1e-8)
            assert found[name].error == pytest.approx(fit.error, rel=1e-5)
            assert found[name].bias == pytest.approx(fit.bias, rel=1e-3, abs=1e-6)
            assert found[name].lack == pytest.approx(fit.lack, rel=1e-5, abs=1e-8)
            assert found[name].spread == pytest.approx(fit.spread, rel=1e-5)
    assert decide(record, wide).word == decide(record, dense).word


def test_what_cells_are():
    one = scipy.sparse.csr_array([[0.0, 2.0], [0.0, 0.0], [1.0, 0.0]])
    assert are_cells(one)
    assert not are_cells(one.toarray())
    assert not are_cells(scipy.sparse.csr_array([[1.0, 1.0]]))
