"""Values of actions straight from the equations: lists and loops, one step after the other."""

import numpy as np


def pair_features(obs_features, n_actions, state, action):
    """Features of the observation times one for each action, column j A + a."""
    row = np.zeros(obs_features.shape[1] * n_actions)
    for j in range(obs_features.shape[1]):
        row[j * n_actions + action] = obs_features[state, j]
    return row


def expected_features(obs_features, policy, state):
    """What the target expects: the sum over its actions."""
    A = policy.shape[1]
    row = np.zeros(obs_features.shape[1] * A)
    for a in range(A):
        row += policy[state, a] * pair_features(obs_features, A, state, a)
    return row


def lstdq(table, gamma, obs_features, policy, lam=0.0, c=None):
    """A = sum of e (gamma x' - x)', b = sum of r e; the value is the mean of the expectations where episodes start.

    ``table`` has one row per step, in order, with the next observation; returns value, theta and sandwich error. The
    trace is e = x + gamma lam c e, with c of the action of the same step, and e = x where an episode starts.
    """
    A = policy.shape[1]
    d = obs_features.shape[1] * A
    M, b, starts, residuals = np.zeros((d, d)), np.zeros(d), [], []
    names = ("episode", "obs", "next_obs", "action", "reward", "terminated")
    steps = list(zip(*(table[name] for name in names), strict=True))
    last, trace, traces = None, np.zeros(d), []
    for i, (e, s, after, a, r, over) in enumerate(steps):
        x = pair_features(obs_features, A, s, a)
        y = -x if over else gamma * expected_features(obs_features, policy, after) - x
        trace = x if e != last or c is None else x + gamma * lam * c[i] * trace
        traces.append(trace)
        M += np.outer(trace, y)
        b += r * trace
        if e != last:
            starts.append(expected_features(obs_features, policy, s))
        last = e
    theta = -np.linalg.pinv(M) @ b
    mean = np.mean(starts, axis=0)
    left = np.linalg.pinv(M).T @ mean
    value, E = float(mean @ theta), len(starts)
    k = -1
    last = None
    for i, (e, s, after, a, r, over) in enumerate(steps):
        if e != last:
            k += 1
            residuals.append(0.0)
        last = e
        x = pair_features(obs_features, A, s, a)
        y = -x if over else gamma * expected_features(obs_features, policy, after) - x
        residuals[k] += (r + y @ theta) * (traces[i] @ left)
    psi = np.array([start @ theta - value for start in starts]) - E * np.array(residuals)
    return value, theta, float(np.sqrt((psi**2).sum() / (E * (E - 1))))


def exact(P, r, start, policy, gamma):
    """The value of a policy by linear algebra, and its values of actions."""
    S, A = r.shape
    model = np.zeros((S * A, S * A))
    for s in range(S):
        for a in range(A):
            for t in range(S):
                for b in range(A):
                    model[s * A + a, t * A + b] = P[s, a, t] * policy[t, b]
    Q = np.linalg.solve(np.eye(S * A) - gamma * model, r.reshape(-1)).reshape(S, A)
    return float(start @ (policy * Q).sum(axis=1)), Q
