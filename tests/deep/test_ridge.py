"""The automatic ridge: its equations in NumPy, and what it does with errors that are noise or explained."""

from importlib.util import find_spec

import numpy as np
import pytest

if not (find_spec("jax") and find_spec("optax")):
    pytest.skip("needs gradtd[deep]", allow_module_level=True)

import jax

from gradtd.deep.ridge import GRID, TEMPER, confirmed, evidence_ridge


def by_eigenvalues(K, errors):
    m, kbar = len(K), np.trace(K) / len(K)
    size, Q = np.linalg.eigh(K / kbar)
    along, fits, shares = Q.T @ errors, [], []
    for ridge in GRID:
        spread = size + ridge
        fits.append(-0.5 * (m * np.log((along**2 / spread).sum()) + np.log(spread).sum()))
        shares.append(Q @ (along / spread) / kbar)
    weight = np.exp(TEMPER * (np.array(fits) - max(fits)))
    return weight / weight.sum() @ np.array(shares)


@pytest.mark.parametrize("explained", [0.0, 0.5, 3.0])
def test_it_is_the_average_over_ridges_by_their_tempered_likelihood(explained):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20, 6))
    K, errors = rows @ rows.T, explained * rows @ rng.normal(size=6) + rng.normal(size=20)
    with jax.enable_x64(True):
        np.testing.assert_allclose(evidence_ridge(K, errors), by_eigenvalues(K, errors), rtol=1e-8)
    K32, e32 = K.astype(np.float32), errors.astype(np.float32)
    np.testing.assert_allclose(evidence_ridge(K32, e32), by_eigenvalues(K, errors), rtol=2e-3, atol=1e-4)


def test_errors_that_are_explained_are_corrected_and_noise_is_not():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(32, 5))
    K, w = rows @ rows.T, rng.normal(size=5)
    errors = rows @ w
    noise = rng.normal(size=32)
    with jax.enable_x64(True):
        found, other = (K @ np.asarray(evidence_ridge(K, one)) for one in (errors, noise))
    assert np.linalg.norm(found - errors) < 0.01 * np.linalg.norm(errors)
    assert np.linalg.norm(other) < 0.2 * np.linalg.norm(noise)


def test_a_correction_is_used_as_far_as_the_other_batch_confirms_it():
    rng = np.random.default_rng(2)
    h, noise = rng.normal(size=(2, 200))
    noise -= h * (noise @ h) / (h @ h)
    with jax.enable_x64(True):
        np.testing.assert_allclose(confirmed(h, 0.4 * h + noise), 0.4 * h, rtol=1e-9)
        np.testing.assert_allclose(confirmed(h, 3.0 * h + noise), h, rtol=1e-9)
        np.testing.assert_allclose(confirmed(h, noise - h), 0 * h, atol=0)
        np.testing.assert_allclose(confirmed(0 * h, noise), 0 * h, atol=0)
