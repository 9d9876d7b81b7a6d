"""The log of these pages: a queue with room for nine, a server that is fast (dear) or slow (cheap).

`make()` returns the steps of 300 days of 40 decisions, `truth(policy)` the exact value of a policy [states, actions].
"""

import numpy as np

STATES, GAMMA, DAYS, HOURS = 10, 0.95, 300, 40
SERVES = (0.3, 0.7)
BEHAVIOUR = np.column_stack([np.linspace(0.8, 0.2, STATES), np.linspace(0.2, 0.8, STATES)])
TARGET = np.column_stack([np.linspace(0.9, 0.05, STATES), np.linspace(0.1, 0.95, STATES)])


def dynamics():
    """Transition probabilities [s, a, s'] and mean rewards [s, a]: waiting costs 1 each, fast service costs 2."""
    P, r = np.zeros((STATES, 2, STATES)), np.zeros((STATES, 2))
    for s in range(STATES):
        for a in range(2):
            for arrives, chance in ((0, 0.5), (1, 0.5)):
                for served, share in ((0, 1 - SERVES[a]), (1, SERVES[a])):
                    P[s, a, min(max(s + arrives - served, 0), STATES - 1)] += chance * share
            r[s, a] = -s - 2.0 * a
    return P, r


def truth(policy):
    P, r = dynamics()
    P, r = np.einsum("sa,sat->st", policy, P), (policy * r).sum(1)
    return float(np.linalg.solve(np.eye(STATES) - GAMMA * P, r)[0])


def make(seed=0):
    rng, (P, r) = np.random.default_rng(seed), dynamics()
    rows = []
    for day in range(DAYS):
        s = 0
        for hour in range(HOURS):
            a = int(rng.random() < BEHAVIOUR[s, 1])
            after = int(rng.choice(STATES, p=P[s, a]))
            rows.append((day, hour, s, a, r[s, a], BEHAVIOUR[s, a], after, hour == HOURS - 1))
            s = after
    names = ("episode", "t", "state", "action", "reward", "propensity", "next_state", "truncated")
    return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
