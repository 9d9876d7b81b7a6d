"""Feature maps: from the observations of a log to the features of a linear value function.

    >>> import numpy as np
    >>> from gradtd.features import make_features
    >>> observations = np.random.default_rng(0).normal(size=(1000, 2))
    >>> features = make_features("fourier", order=3).fit(observations)
    >>> features.describe()
    'Fourier features of order 3 of 2 observations, 16 in all'
    >>> features.transform(observations).shape
    (1000, 16)

A new map is a short class and its name in ``FEATURES``.
"""

from __future__ import annotations

from gradtd.features.base import Features
from gradtd.features.cells import Aggregation, Grouped, OneHot
from gradtd.features.choose import FEATURES, default_features, from_dict, make_features
from gradtd.features.cosines import Cosines, Fourier, Rbf
from gradtd.features.polynomial import Identity, Polynomial
from gradtd.features.tiles import Tiles
from gradtd.features.wrapped import Function, Transformer, fit_varying

__all__ = [
    "FEATURES",
    "Aggregation",
    "Cosines",
    "Features",
    "Fourier",
    "Function",
    "Grouped",
    "Identity",
    "OneHot",
    "Polynomial",
    "Rbf",
    "Tiles",
    "Transformer",
    "default_features",
    "fit_varying",
    "from_dict",
    "make_features",
]
