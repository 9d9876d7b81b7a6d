"""Which policies can be excluded and which are tied with the best, at a stated error rate.

All paired differences hold together: the largest of their t values has a quantile of its own, which is drawn from the
correlations of their influences (a max-t, or Tukey, procedure). So the best of many policies is not called best because
there were many.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from gradtd.core.arrays import Floats

DRAWS = 20_000


def simultaneous_level(psi: Floats, level: float) -> float:
    """The level of each single interval at which all of them hold together with the level asked for.

    Parameters
    ----------
    psi
        Influences of the episodes on each quantity, (quantities, episodes). Rows of zeros do not count.
    level
        The level that all intervals are to hold at together.

    >>> rng = np.random.default_rng(0)
    >>> one = rng.standard_normal(500)
    >>> round(simultaneous_level(np.array([one, one]), 0.95), 2)         # the same quantity twice
    0.95
    >>> 0.97 < simultaneous_level(rng.standard_normal((2, 500)), 0.95) < 0.98
    True
    """
    size = np.sqrt((psi**2).sum(axis=1))
    rows = psi[size > 0] / size[size > 0, None]
    if len(rows) < 2:
        return level
    root = np.linalg.svd(rows, full_matrices=False)
    drawn = np.random.default_rng(0).standard_normal((DRAWS, len(root[1]))) @ (root[0] * root[1]).T
    largest = np.quantile(np.abs(drawn).max(axis=1), level)
    return float(max(level, 2 * NormalDist().cdf(float(largest)) - 1))
