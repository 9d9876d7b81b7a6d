"""The policy that `improve` returns, which is a function of observations and is saved without pickle."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.files import read_arrays, reading, write_arrays
from gradtd.features import Features, from_dict
from gradtd.improvement.action_bins import ActionBins
from gradtd.improvement.behaviour_model import BehaviourModel
from gradtd.improvement.policy_iteration import Learned, moved

if TYPE_CHECKING:
    from gradtd.logs import Log

FORMAT = "gradtd policy 1"


@dataclass(frozen=True, eq=False)
class ImprovedPolicy:
    """A policy learned from a log: the behaviour with probability moved to better actions. Made by `gradtd.improve`.

    When called with observations, it returns the probabilities of all actions, one row per observation.
    `gradtd.evaluate` takes it as ``target``, on this log or another.

    Parameters
    ----------
    actions
        The actions of the log, in the order of the probabilities.
    states
        The discrete observations in its table, in order; None for continuous observations.
    table
        The probabilities in these states, an array (states, actions).
    elsewhere
        The probabilities in all other states: the shares of the actions in the log.
    features
        The feature map of continuous observations.
    used
        The features of this map that are used.
    model
        The softmax model of the behaviour policy.
    halves
        The policies learned from each half of the episodes.
    components
        The names of the observation's components in the log. `gradtd.evaluate` refuses a log with other components or
        in another order.
    bins
        The bins of a continuous action, which are then the actions; None for discrete actions.
    """

    actions: tuple[Any, ...]
    states: Any = None
    table: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    elsewhere: Floats = field(default_factory=lambda: np.zeros(0))
    features: Features | None = None
    used: Integers | None = None
    model: BehaviourModel | None = None
    halves: tuple[Learned, ...] = ()
    components: tuple[str, ...] = ()
    bins: ActionBins | None = None

    def __call__(self, observations: Any, behaviour: Any = None) -> Floats:
        """The probabilities of all actions, one row per observation.

        Parameters
        ----------
        observations
            As in the log: (rows,) for discrete observations, (rows, k) otherwise.
        behaviour
            The behaviour's probabilities at these observations, (rows, actions), if available. The policy is defined
            relative to the behaviour, and was evaluated with these. Without them, it uses the probabilities recorded in
            the log. In each state, the rest is divided equally among actions never taken there; states outside the log
            get the overall shares of the actions.
        """
        given = None if behaviour is None else np.asarray(behaviour, np.float64)
        if self.states is not None:
            seen = np.ravel(np.asarray(observations))
            at = np.minimum(np.searchsorted(self.states, seen), len(self.states) - 1)
            met = (self.states[at] == seen)[:, None]
            if given is None:
                return np.where(met, self.table[at], self.elsewhere)
            changed = [moved(given, half.known[at], half.best[at]) for half in self.halves]
            return np.where(met, np.mean(changed, axis=0), given)
        assert self.features is not None
        assert self.model is not None
        made = self.features.transform(observations)
        rows = np.asarray(made if isinstance(made, np.ndarray) else made.toarray())
        rows = rows if self.used is None else rows[:, self.used]
        chance = self.model(rows) if given is None else given
        return np.asarray(np.mean([half.elsewhere(rows, chance) for half in self.halves], axis=0))

    def knows(self, observations: Any) -> Any:
        """Whether each state occurs in the log; always True for continuous observations.

        Parameters
        ----------
        observations
            As in the log.
        """
        seen = np.asarray(observations)
        return np.isin(np.ravel(seen), self.states) if self.states is not None else np.ones(len(seen), bool)

    def act(self, observations: Any, rng: np.random.Generator) -> Any:
        """Draw one action for every observation; a continuous one from the log's actions in its bin.

        Parameters
        ----------
        observations
            As in the log.
        rng
            A NumPy generator.
        """
        cumulative = self(observations).cumsum(axis=1)
        drawn = (rng.random(len(cumulative))[:, None] * cumulative[:, -1:] >= cumulative).sum(axis=1)
        return np.array(self.actions)[drawn] if self.bins is None else self.bins.draw(drawn, rng)

    def for_log(self, log: Log) -> Any:
        """The same policy with its probabilities in the order of another log's actions."""
        if len(self.components) > 1 and self.components != log.observation_names:
            raise InputError(
                f"the policy was learned from observations of {', '.join(self.components)}, but those of this log are "
                f"{', '.join(log.observation_names)}: name the same columns in the same order, "
                'columns={"observation": [...]}.'
            )
        labels = log.action_labels
        wanted = list(range(max(log.n_actions, len(self.actions)))) if labels is None else list(labels)
        lacking = [action for action in self.actions if action not in wanted]
        if lacking:
            raise InputError(
                f"the policy takes actions that are not in the log: {', '.join(map(str, lacking[:5]))}. "
                "Give all actions of the log in order, actions=[...]."
            )
        place = [wanted.index(action) for action in self.actions]

        def ordered(observations: Any) -> Floats:
            own = self(observations)
            every = np.zeros((len(own), len(wanted)))
            every[:, place] = own
            return every

        return ordered

    def save(self, path: str | Path) -> Path:
        """Write the policy to one ``.npz`` file with a checksum; `gradtd.load_policy` reads it. No pickle is used.

        Parameters
        ----------
        path
            The file to write; its name ends in ``.npz``.
        """
        target = checks.file_to_write("a policy", Path(path), ".npz")
        header: dict[str, Any] = {"format": FORMAT, "actions": [_plain(action) for action in self.actions]}
        header["components"] = list(self.components)
        binned = {} if self.bins is None else {f"bins.{name}": values for name, values in vars(self.bins).items()}
        if self.states is not None:
            own = {name: np.stack([getattr(half, name) for half in self.halves]) for name in ("known", "best")}
            own |= {"states": self.states, "table": self.table, "elsewhere": self.elsewhere} | binned
            return write_arrays(target, own, header | {"least": [half.least for half in self.halves]})
        assert self.features is not None
        assert self.model is not None
        described = self.features.to_dict()
        arrays = {f"features.{k}": v for k, v in described.items() if isinstance(v, np.ndarray)}
        arrays["behaviour"] = self.model.weights
        if self.used is not None:
            arrays["used"] = self.used
        for name in ("weights", "inverse", "spread"):
            arrays[name] = np.stack([getattr(half, name) for half in self.halves])
        header |= {
            "features": {k: v for k, v in described.items() if not isinstance(v, np.ndarray)},
            "least": [half.least for half in self.halves],
        }
        return write_arrays(target, arrays | binned, header)

    def __repr__(self) -> str:
        what = f"{len(self.states)} states" if self.states is not None else f"{self.features!r}"
        return f"ImprovedPolicy({len(self.actions)} actions, {what})"


def load_policy(path: str | Path) -> ImprovedPolicy:
    """Read a policy that `ImprovedPolicy.save` wrote. Other files and modified files are refused.

    Parameters
    ----------
    path
        The file.
    """
    with reading(path, "a policy that gradtd saved"):
        header, arrays = read_arrays(Path(path))
        if header.get("format") != FORMAT:
            raise InputError(
                f"{str(path)!r} is not a policy that gradtd saved: its format is {header.get('format')!r} instead "
                f"of {FORMAT!r}."
            )
        actions = tuple(header["actions"])
        if any(not isinstance(action, str | int | float) for action in actions) or len(set(actions)) < len(actions):
            raise ValueError("no actions")
        restored = (_restored_table if "states" in arrays else _restored_linear)(actions, header, arrays)
        components = tuple(map(str, header.get("components", ())))
        return replace(restored, components=components, bins=_restored_bins(len(actions), arrays))


def _restored_bins(n_actions: int, arrays: dict[str, Any]) -> ActionBins | None:
    if "bins.edges" not in arrays:
        return None
    edges = checks.finite_array("edges", arrays["bins.edges"], 1)
    quantiles = checks.finite_array("quantiles", arrays["bins.quantiles"], 2)
    sizes = (len(edges) + 1, len(quantiles), quantiles.shape[1] > 1)
    if sizes != (n_actions, n_actions, True) or (np.diff(edges) <= 0).any():
        raise ValueError("no bins")
    return ActionBins(edges, quantiles)


def _restored_table(actions: tuple[Any, ...], header: dict[str, Any], arrays: dict[str, Any]) -> ImprovedPolicy:
    states = arrays["states"]
    table = checks.finite_array("table", arrays["table"], 2)
    elsewhere = checks.finite_array("elsewhere", arrays["elsewhere"], 1)
    both = np.vstack([table, elsewhere])
    if table.shape != (len(states), len(actions)) or (both < 0).any() or np.abs(both.sum(axis=1) - 1).max() > 1e-6:
        raise ValueError("no probabilities")
    if states.ndim != 1 or states.dtype.kind not in "if" or not (states[1:] > states[:-1]).all():
        raise ValueError("no states")
    known, best, n = arrays["known"], arrays["best"], len(header["least"])
    if known.shape != (n, *table.shape) or known.dtype.kind != "b" or best.shape != (n, len(states)) or n == 0:
        raise ValueError("sizes differ")
    if best.dtype.kind != "i" or best.min() < -1 or best.max() >= len(actions):
        raise ValueError("no actions")
    least = [checks.number_above("least", one, 0) for one in header["least"]]
    return ImprovedPolicy(
        actions, states, table, elsewhere, halves=tuple(map(Learned, known, best.astype(np.int64), least))
    )


def _restored_linear(actions: tuple[Any, ...], header: dict[str, Any], arrays: dict[str, Any]) -> ImprovedPolicy:
    own = {k.removeprefix("features."): v for k, v in arrays.items() if k.startswith("features.")}
    features = from_dict(dict(header["features"]) | own)
    used = arrays.get("used")
    d, A = features.n_features if used is None else len(used), len(actions)
    if used is not None and (used.dtype.kind != "i" or used.min() < 0 or used.max() >= features.n_features):
        raise ValueError("no features")
    weights = checks.finite_array("weights", arrays["weights"], 3)
    inverse = checks.finite_array("inverse", arrays["inverse"], 4)
    spread = checks.finite_array("spread", arrays["spread"], 2)
    behaviour = checks.finite_array("behaviour", arrays["behaviour"], 2)
    n, least = len(weights), [checks.number_above("least", one, 0) for one in header["least"]]
    shapes = (weights.shape, inverse.shape, spread.shape, behaviour.shape, len(least))
    if shapes != ((n, d, A), (n, A, d, d), (n, A), (d, A), n) or n == 0:
        raise ValueError("sizes differ")
    nothing = np.zeros((0, A), bool), np.zeros(0, np.int64)
    halves = tuple(Learned(*nothing, least[k], weights[k], inverse[k], spread[k]) for k in range(n))
    return ImprovedPolicy(actions, None, features=features, used=used, model=BehaviourModel(behaviour), halves=halves)


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
