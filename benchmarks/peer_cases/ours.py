"""gradtd, and least squares as a user would write it, on a `Task`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradtd
from peer_cases import classic
from peer_cases.cost import measured
from peer_cases.task import Task

Row = dict[str, Any]
ONE_THREAD = gradtd.Machine(threads=1)


def second_order(observations: np.ndarray, states: int) -> np.ndarray:
    """One column per state; or 1, scaled columns, their squares and products."""
    if states:
        return np.eye(states)[observations.astype(int).ravel()]
    x = observations.reshape(len(observations), -1)
    pairs = [x[:, i] * x[:, j] for i in range(x.shape[1]) for j in range(i + 1)] if x.shape[1] <= 20 else []
    return np.column_stack([np.ones(len(x)), x, *pairs])


def _scaled(task: Task) -> tuple[np.ndarray, np.ndarray]:
    if task.states:
        return task.observation, task.next_observation
    mean, deviation = task.observation.mean(0), task.observation.std(0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    return (task.observation - mean) / deviation, (task.next_observation - mean) / deviation


def plain_lstd(task: Task) -> float:
    here, there = (second_order(x, task.states) for x in _scaled(task))
    there = there * ~task.terminated[:, None]
    left = (here * task.rho[:, None]).T @ (here - task.gamma * there)
    theta = np.linalg.lstsq(left, here.T @ (task.rho * task.reward), rcond=None)[0]
    return float((here[task.begins] @ theta).mean())


def plain_lstdq(task: Task) -> float:
    here, there = (second_order(x, task.states) for x in _scaled(task))
    n_actions = task.target.shape[1]

    def pairs(x: np.ndarray, law: np.ndarray) -> np.ndarray:
        return (law[:, :, None] * x[:, None, :]).reshape(len(x), -1)

    taken = pairs(here, np.eye(n_actions)[task.action])
    after = pairs(there, task.next_target) * ~task.terminated[:, None]
    theta = np.linalg.lstsq(taken.T @ (taken - task.gamma * after), taken.T @ task.reward, rcond=None)[0]
    return float((pairs(here[task.begins], task.target[task.begins]) @ theta).mean())


def _gradtd(task: Task, **how: Any) -> Row:
    found = gradtd.evaluate(
        task.as_table(),
        task.law,
        task.gamma,
        progress=False,
        machine=gradtd.Machine(threads=1),
        **how,
    )
    low, high = found.interval
    return {"value": found.value, "low": low, "high": high, "verdict": found.verdict}


def _row(name: str, run: Callable[[], Any]) -> Row:
    """A row with its processor seconds and megabytes."""
    made, cost = measured(run)
    return {"name": name, **(made if isinstance(made, dict) else {"value": made}), **cost}


def rows(task: Task) -> list[Row]:
    """gradtd's rows: its default, and each of its value functions."""
    task.law(task.observation[:1])  # the lookup that answers as the target is not an estimator's cost
    return [
        _row("gradtd", lambda: _gradtd(task)),
        _row("gradtd, state values", lambda: _gradtd(task, value_function="state")),
        _row("gradtd, action values", lambda: _gradtd(task, value_function="action")),
    ]


def other_rows(task: Task) -> list[Row]:
    """Least squares as a user would write it, and the estimators of the COBS study."""
    found = [_row("LSTD, second order", lambda: plain_lstd(task))]
    if task.states * task.target.shape[1] <= 1000:  # as dense equations; with more it is "FQE, tabular"
        found.append(_row("LSTD-Q, second order", lambda: plain_lstdq(task)))
    if task.states:
        values, cost = measured(lambda: classic.estimates(task))
        cost["seconds"] /= len(values)
        found += [{"name": name, "value": value, **cost} for name, value in values.items()]
    return found
