"""Feature maps refuse bad input in one sentence that says what was given, what is allowed and what to do."""

import numpy as np
import pytest

from gradtd import InputError
from gradtd.features import FEATURES, from_dict, make_features

REAL = np.random.default_rng(0).normal(size=(300, 2)) * [3.0, 0.1] + [5.0, -1000.0]
GRID = np.random.default_rng(1).integers(0, 5, size=(300, 2))


class Doubling:
    """The least that counts as a transformer."""

    def fit(self, x):
        return self

    def transform(self, x):
        return np.hstack([x, 2 * x])


def with_value(value, at=(7, 1)):
    log = REAL.copy()
    log[at] = value
    return log


def fit(spec, observations):
    return lambda: make_features(spec).fit(observations)


def transform(spec, observations):
    return lambda: make_features(spec).fit(REAL).transform(observations)


def stored(spec, **changes):
    entries = make_features(spec).fit(REAL if spec != "one-hot" else GRID).to_dict() | changes
    return lambda: from_dict({key: value for key, value in entries.items() if value is not ...})


CONSTANT = np.column_stack([REAL, np.full(300, 4.0)])

BAD = [
    (fit("fourier", with_value(np.nan)), "row 7, column 1 is nan"),
    (fit("one-hot", with_value(np.inf)), "row 7, column 1 is inf"),
    (fit(np.sin, with_value(np.nan)), "row 7, column 1 is nan"),
    (fit(Doubling(), with_value(np.nan)), "row 7, column 1 is nan"),
    (transform("tiles", with_value(-np.inf)), "row 7, column 1 is -inf"),
    *((fit(spec, CONSTANT), "observation column 2 is 4 in every row") for spec in FEATURES if spec != "cosines"),
    (fit("fourier", np.zeros(9)), "the observation is 0 in every row"),
    (fit("identity", np.full((5, 2), 3.0)), r"column 0 is 3 in every row \(so are 1\)"),
    *((transform(spec, REAL[:, :1]), "fitted on 2 columns of observations and got 1") for spec in FEATURES),
    (transform(lambda x: x, REAL[:, :1]), "fitted on 2 columns"),
    (fit("one-hot:most=50", REAL), "more than 50 distinct observations: continuous numbers rarely repeat"),
    (fit("one-hot:most=20", GRID), "more than 20 distinct observations"),
    (fit("one-hot", np.random.default_rng(0).integers(0, 99, (999, 12))), "too many combinations of 12"),
    (fit("one-hot", np.array([1, 2**63], np.uint64)), r"below 2\*\*63, but row 1"),
    (fit("identity", np.zeros((0, 2))), r"at least one row and one column, got shape \(0, 2\)"),
    (fit("identity", []), "at least one row"),
    (transform("rbf", np.zeros((0, 2))), "at least one row"),
    (fit("identity", np.ma.masked_greater(REAL, 5.0)), "masked entries"),
    (fit("identity", 3.0), "must have 2 dimensions"),
    (fit("identity", np.zeros((2, 2, 2))), "must have 2 dimensions"),
    (fit("identity", [[1.0], [1.0, 2.0]]), "rows of different lengths"),
    (fit("identity", [["a"], ["b"]]), "real numbers, got <U1"),
    (fit("identity", np.array([[-1e200], [1e200]])), "goes from -1e.200 to 1e.200, which cannot be scaled"),
    (fit("identity", np.array([[0.0], [1e-200]])), "which cannot be scaled"),
    (lambda: make_features("furier"), "did you mean 'fourier'"),
    (lambda: make_features("fourier:ordre=2"), "unknown parameter of fourier features 'ordre': did you mean 'order'"),
    (lambda: make_features("fourier", ordre=2), "did you mean 'order'"),
    (lambda: make_features("fourier:3"), "must read name:parameter=value"),
    (lambda: make_features("fourier:order=2", order=3), "given twice"),
    (lambda: make_features("fourier:order=0"), "order must be between 1 and 100000, got 0"),
    (lambda: make_features("fourier:order=many"), "order must be a whole number"),
    (lambda: make_features("rbf:width=mean"), "a number greater than 0 or 'median', got 'mean'"),
    (lambda: make_features("rbf:width=0"), "width must be greater than 0"),
    (lambda: make_features("tiles:hashing=0"), "hashing must be between 1"),
    (lambda: make_features("tiles:bias=maybe"), "bias must be True or False"),
    (lambda: make_features("aggregation:by=size"), "by must be one of quantiles, width"),
    (lambda: make_features(3), r"features must be a name \(identity, .*got int"),
    (lambda: make_features(np.sin, order=3), "got order with an object"),
    (lambda: make_features(Doubling), "the class Doubling: write Doubling"),
    (fit("fourier:order=9", np.random.default_rng(0).normal(size=(9, 6))), r"10\^6, more than 100000: use order=5 or"),
    (fit("fourier", np.random.default_rng(0).normal(size=(9, 40))), "more than 100000: use rbf features"),
    (fit("fourier", np.random.default_rng(0).normal(size=(2, 9000))), "use rbf features"),
    (fit("polynomial:order=5", np.random.default_rng(0).normal(size=(9, 40))), "lower the order"),
    (fit("tiles", np.random.default_rng(0).normal(size=(9, 10))), r"more than 2\*\*31 features: let tiles share"),
    (fit("aggregation", np.random.default_rng(0).normal(size=(9, 6))), r"has 10\^6 cells.*tiles with hashing"),
    (fit(lambda x: x[:, 0], REAL), "must have 2 dimensions, got shape"),
    (fit(lambda x: x[:5], REAL), r"one row per observation, \(300, d\); got \(5, 2\)"),
    (fit(lambda x: x * np.nan, REAL), r"does not return features: features must be finite: features\[0, 0\] is nan"),
    (fit(lambda x: np.array([["a"]] * len(x)), REAL), "does not return features"),
    (transform(lambda x: np.zeros((len(x), len(x))), REAL[:5]), "returned 300 features in fit and now returns 5"),
    (lambda: make_features(np.sin).fit(REAL).to_dict(), "the function sin cannot be stored.*use one of"),
    (lambda: make_features(Doubling()).fit(REAL).to_dict(), "the transformer Doubling cannot be stored"),
    (lambda: from_dict({"order": 3}), "a dictionary with a name"),
    (lambda: from_dict({"name": "furier"}), "did you mean 'fourier'"),
    (stored("fourier", low=...), "lack low"),
    (stored("fourier", spread=np.ones(2)), "unknown entry of stored fourier features 'spread'"),
    (stored("fourier", low=np.zeros(3)), "low needs 2 for columns, got 3"),
    (stored("fourier", low=np.full(2, np.nan)), "low must be finite"),
    (stored("tiles", high=np.full(2, -1e9)), "low must be below high"),
    (stored("tiles", n_columns=0), "n_columns must be at least 1"),
    (stored("identity", sd=np.zeros(2)), "sd must be greater than 0"),
    (stored("rbf", n=99), "frequencies needs 99 for n, got 100"),
    (stored("aggregation", bins_a_column=np.array([10, 11])), "edges must increase"),
    (stored("aggregation", bins_a_column=np.array([-10, 30])), "edges must increase"),
    (stored("one-hot", values=np.array([[1, 2], [0, 3]])), "distinct rows in increasing order"),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_bad_input_gets_a_sentence(case):
    action, words = BAD[case]
    with pytest.raises(InputError, match=words) as caught:
        action()
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_a_fitted_map_cannot_be_changed():
    fitted = make_features("identity").fit(REAL)
    with pytest.raises(AttributeError):
        fitted.bias = False
    with pytest.raises(ValueError, match="read-only"):
        fitted.learned["mean"][0] = 3.0


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("varies", lambda was: was[:0]),
        ("varies", lambda was: was + 5),
        ("varies", lambda was: was[::-1]),
        ("varies", lambda was: was * 1.0),
        ("counts", lambda was: was + 1000),
        ("counts", lambda was: was - 1000),
        ("knots", lambda was: was[:, ::-1]),
        ("span", lambda was: -was),
    ],
)
def test_stored_cosines_that_compiled_code_cannot_read(name, change):
    stored = make_features("cosines:n=6").fit(np.random.default_rng(0).normal(size=(40, 2))).to_dict()
    with pytest.raises(InputError, match="stored cosines features"):
        from_dict(stored | {name: change(stored[name])})


@pytest.mark.parametrize("kind", ["tiles", "fourier"])
def test_stored_ranges_that_cannot_be_scaled(kind):
    stored = make_features(kind).fit([[0.0], [1.0]]).to_dict()
    with pytest.raises(InputError, match="too far apart"):
        from_dict(stored | {"low": np.array([-1.7e308]), "high": np.array([1.7e308])})
