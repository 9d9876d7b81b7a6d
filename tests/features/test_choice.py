"""Which feature map a user gets: by default, by name, by the command line's form."""

import numpy as np
import pytest

import gradtd
from gradtd import features
from gradtd.features import default_features, make_features

REAL = np.random.default_rng(0).normal(size=(300, 2))
GRID = np.random.default_rng(1).integers(0, 5, size=(300, 2))
LABELS = np.arange(300) % 89


@pytest.mark.parametrize(
    ("observations", "kind", "size"),
    [
        (LABELS, "one-hot", 89),
        (np.arange(1000), "one-hot", 1000),
        (np.arange(1001), "aggregation", 100),
        (np.arange(100.0)[:, None], "one-hot", 100),
        (np.arange(101.0)[:, None], "fourier", 6),
        (np.arange(50) / 10, "fourier", 6),
        (REAL, "fourier", 16),
        (GRID, "fourier", 16),
        (np.random.default_rng(0).normal(size=(50, 3)), "fourier", 64),
        (np.random.default_rng(0).normal(size=(50, 4)), "rbf", 11),
        (np.random.default_rng(0).normal(size=(4000, 10)), "rbf", 51),
        (np.random.default_rng(0).normal(size=(50, 11)), "identity", 12),
    ],
)
def test_defaults_suit_the_observations(observations, kind, size):
    chosen = default_features(observations)
    assert not chosen.fitted
    assert chosen.name == kind
    assert chosen.fit(observations).n_features == size


def test_specs_say_what_parameters_say():
    assert repr(make_features("rbf:n=20, width=median")) == repr(make_features("rbf", n=20, width="median"))
    assert repr(make_features("rbf:width=0.5", seed=2)) == repr(features.Rbf(width=0.5, seed=2))
    assert repr(make_features("tiles:hashing=none,bias=True")) == repr(features.Tiles(bias=True))
    assert make_features("one_hot").name == "one-hot"
    mine = features.Fourier(order=2)
    assert make_features(mine) is mine
    assert gradtd.make_features is make_features
    assert isinstance(mine, gradtd.Features)
