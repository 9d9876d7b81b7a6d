"""Which features an evaluation is made in, and what the checks say of them, target by target."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np

from gradtd.compiled.traces import Tracing
from gradtd.core.arrays import Floats
from gradtd.evaluation.estimators.products import decays
from gradtd.evaluation.estimators.whitening import AS_DENSE
from gradtd.evaluation.preparing import Prepared, is_auto, pieces_of, prepare_log
from gradtd.evaluation.trust.deciding import Decision, decide
from gradtd.evaluation.trust.enriching import are_cells, discrete_wide, real_wide
from gradtd.evaluation.trust.records import GIVEN, Traced, Wide, record_of
from gradtd.features import Grouped, OneHot, default_features
from gradtd.logs import Log

MOST_CHECKED = 1000
"""Features up to which fits with more of them can be made to check them."""
TOO_MANY = "{} states are too many for this log: the {} seen most have a feature each, and the others share one."


@dataclass(frozen=True, eq=False)
class Plan:
    """A log with what the checks need of it.

    ``ready`` is the log in the features named, ``wide`` the widest table of the checks; where features are to be
    chosen, the former depends on the target and is made when it is known. ``why_not`` says why there are no checks.
    """

    log: Log
    block: int | None
    whiten: bool
    named: bool
    ready: Prepared | None
    wide: Wide | None
    why_not: str = ""
    _made: dict[str, Prepared] = field(default_factory=dict)
    _lock: Any = field(default_factory=Lock)

    def decide(
        self,
        rho: Floats,
        gamma: float,
        level: float,
        tracing: Tracing | None = None,
        target: Floats | None = None,
        threads: int = 1,
    ) -> Decision | None:
        """What the checks say for a target with these ratios, of the fit with these traces."""
        if self.wide is None:
            return None
        pieces = pieces_of(self.log, self.block)
        record = record_of(self.log, pieces, rho, gamma, self.wide, self.block is not None)
        if tracing is not None:
            decay = decays(tracing, rho, record.discount, self.log.episode, target)
            record = replace(record, traced=Traced(tracing.lam, decay))
        return decide(replace(record, threads=threads), self.wide, level)

    @property
    def n_states(self) -> int:
        return len(np.unique(np.asarray(self.log.observations)[self.log.row]))

    def prepared(self, decision: Decision | None) -> Prepared:
        """The log in the features named, or in those chosen."""
        if self.ready is not None and (decision is None or decision.rung == GIVEN):
            return self.ready
        assert decision is not None
        assert self.wide is not None
        with self._lock:
            if decision.rung not in self._made:
                self._made[decision.rung] = self.prepare(decision.rung)
            return self._made[decision.rung]

    def prepare(self, rung: str) -> Prepared:
        """The log in the features of a rung that was chosen."""
        assert self.wide is not None
        n = len(self.wide.rungs[rung])
        if self.wide.cosines is not None:
            return prepare_log(self.log, self.wide.cosines.longer(n), self.block, self.whiten)
        seen = np.asarray(self.log.observations)[self.log.row]
        made = prepare_log(self.log, Grouped(n=n - 1).fit(seen), self.block, self.whiten)
        return replace(made, notes=(*made.notes, TOO_MANY.format(self.n_states, n - 1)))


def make_plan(
    log: Log, features: Any, block: int | None, whiten: bool, checked: bool, as_dense: int = AS_DENSE
) -> Plan:
    """Fit the features and compute them once for all targets, where they do not depend on the target.

    Parameters
    ----------
    log
        The log.
    features
        What was asked for; None or "auto" chooses.
    block
        Steps of a piece, where episodes are cut.
    whiten
        Whether features are whitened.
    checked
        Whether the checks are to be made; features that are to be chosen need them.
    as_dense
        Entries of a sparse table, zeros counted, up to which it is made dense to be whitened.
    """
    pieces = pieces_of(log, block)
    n_pieces, auto = int(pieces[-1]) + 1, is_auto(features)
    default = default_features(log.observations) if auto else None
    discrete = log.discrete_observations or isinstance(default, OneHot)
    if auto and not discrete:
        wide = real_wide(log.observations, None, len(log), n_pieces)
        return Plan(log, block, whiten, False, None, wide)
    ready = prepare_log(log, features, block, whiten, as_dense)
    d = ready.table.shape[1]
    if not checked:
        return Plan(ready.log, block, whiten, not auto, ready, None)
    if d > MOST_CHECKED and not (discrete and are_cells(ready.table)):
        why = f"{d} features are too many to be checked by fits with more of them: take at most {MOST_CHECKED}"
        return Plan(ready.log, block, whiten, not auto, ready, None, why)
    if discrete:
        one_hot = isinstance(default, OneHot)
        wide = discrete_wide(log, log.observations.reshape(len(log.observations)), ready.table, pieces, one_hot)
        return Plan(log if wide.headlines != (GIVEN,) else ready.log, block, whiten, not auto, ready, wide)
    else:
        wide = real_wide(log.observations, ready.table, len(log), n_pieces)
    return Plan(ready.log, block, whiten, not auto, ready, wide)
