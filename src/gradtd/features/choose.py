"""Makes the feature map that the user specified, or the default one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.checks import InputError
from gradtd.core.parsing import parse_settings
from gradtd.features.actions import ActionFeatures, restore_actions
from gradtd.features.base import Features
from gradtd.features.cells import Aggregation, Grouped, OneHot, distinct_values
from gradtd.features.cosines import Cosines, Fourier, Rbf
from gradtd.features.network import NetworkFeatures
from gradtd.features.polynomial import Identity, Polynomial
from gradtd.features.table import Table
from gradtd.features.tiles import Tiles
from gradtd.features.wrapped import Function, Selected, Transformer, restore_selected

FEATURES: dict[str, type[Features]] = {
    kind.name: kind for kind in (Identity, Polynomial, Fourier, Rbf, Cosines, Tiles, Aggregation, OneHot, Grouped)
}
"""Feature maps by name, as on the command line; transformers and functions are passed as objects."""


def make_features(name_or_spec: Any, **parameters: Any) -> Features:
    """Make a feature map, not fitted yet, from a name, the command line's ``name:parameter=value,...``, or an object.

    Parameters
    ----------
    name_or_spec : str or object
        A name (``identity``, ``polynomial``, ``fourier``, ``rbf``, ``tiles``, ``aggregation``, ``one-hot``,
        ``grouped``), with optional parameters: ``"fourier:order=5"``. Or an object: a `Features` (returned as it
        is), a scikit-learn transformer, or a function from observations to features.
    **parameters
        The parameters of the named map.

    >>> make_features("fourier:order=5")
    Fourier(order=5)
    >>> make_features("rbf", n=20, width="median")
    Rbf(n=20, width='median', seed=0)
    """
    if isinstance(name_or_spec, str):
        return _named(name_or_spec, parameters)
    if parameters:
        raise InputError(f"only features given by name take parameters; got {', '.join(parameters)} with an object.")
    if isinstance(name_or_spec, Features):
        return name_or_spec
    if isinstance(name_or_spec, type):
        raise InputError(
            f"features needs an object, got the class {name_or_spec.__name__}: write {name_or_spec.__name__}()."
        )
    if callable(getattr(name_or_spec, "fit", None)) and callable(getattr(name_or_spec, "transform", None)):
        return Transformer(name_or_spec)
    if callable(name_or_spec):
        return Function(name_or_spec)
    raise InputError(
        f"features must be a name ({', '.join(FEATURES)}), a feature map, a transformer or a function, got "
        f"{type(name_or_spec).__name__}."
    )


def fit_features(given: Any, observations: Any) -> Features:
    """The feature map from `make_features`, fitted to the observations unless it is already fitted."""
    made = make_features(given)
    return made if made.fitted else made.fit(observations)


def _named(spec: str, parameters: Mapping[str, Any]) -> Features:
    name, settings = parse_settings("features", spec, "fourier:order=3")
    kind = FEATURES[checks.known_name("features", name.replace("_", "-"), FEATURES)]
    for key in settings:
        if key in parameters:
            raise InputError(f"features {spec!r}: the parameter {key} is given twice.")
    given = dict(parameters) | settings
    for key in given:
        checks.known_name(f"parameter of {kind.name} features", key, kind.parameter_names())
    return kind(**given)


def from_dict(stored: Mapping[str, Any]) -> Features:
    """Restore a feature map from ``to_dict``; its features are identical, byte for byte.

    >>> fitted = make_features("fourier").fit([[0.0], [1.0]])
    >>> again = from_dict(fitted.to_dict())
    >>> again.describe(), (again.transform([[0.3]]) == fitted.transform([[0.3]])).all()
    ('Fourier features of order 3 of 1 observation, 4 in all', np.True_)
    """
    if not isinstance(stored, Mapping) or "name" not in stored:
        raise InputError("stored features must be a dictionary with a name, as to_dict returns it.")
    name = stored["name"].item() if isinstance(stored["name"], np.ndarray) else stored["name"]
    if name == ActionFeatures.name:
        return restore_actions(stored, from_dict)
    if name == NetworkFeatures.name:
        return NetworkFeatures._restored(stored)
    if name == Selected.name:
        return restore_selected(stored, from_dict)
    return FEATURES[checks.known_name("features", name, FEATURES)]._restored(stored)


def default_features(observations: Any) -> Features:
    """The default features for these observations, not fitted yet.

    A discrete observation: one-hot up to 1000 values; with more, most values are too rare to learn each separately, so
    100 bins of neighbouring numbers (use one-hot if the numbers are labels without order). A single column with at most
    100 distinct whole numbers: one-hot. 1, 2 or 3 continuous columns: fourier of order 5, 3 and 3, that is 6, 16 or 64
    features. 4 to 10 columns: rbf with 10 to 50 features, depending on the length of the log (on CartPole, polynomials
    of order 2 were biased). More columns: identity.

    >>> default_features([3, 1, 4, 1, 5]), default_features([[0.5, 1.0], [0.25, 2.0]])
    (OneHot(most=100000), Fourier(order=3))
    """
    table = Table(observations)
    if table.discrete:
        return Aggregation(bins=100) if distinct_values(table, 1000) is None else OneHot()
    if table.n_columns == 1 and _few_whole_values(table):
        return OneHot()
    if table.n_columns <= 3:
        return Fourier(order=5 if table.n_columns == 1 else 3)
    return Rbf(n=min(50, max(10, table.n_rows // 40))) if table.n_columns <= 10 else Identity()


def _few_whole_values(table: Table) -> bool:
    values = distinct_values(table, 100)
    return values is not None and bool((values[0] == np.floor(values[0])).all())
