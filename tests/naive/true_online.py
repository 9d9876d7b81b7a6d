"""The twins of the true online rules, and the forward view that true online TD equals on-policy."""

import numpy as np


def true_online_td(log, theta, alphas, lam=0.0):
    """van Hasselt, Mahmood and Sutton (2014), without the gradient correction."""
    return _true_online(log, theta, alphas, lam, eta=0.0)


def true_online_gtd(log, theta, alphas, lam=0.0, eta=1.0):
    """van Hasselt, Mahmood and Sutton (2014): e, e_grad and e_w, all anew where an episode begins."""
    return _true_online(log, theta, alphas, lam, eta)


def _true_online(log, theta, alphas, lam, eta):
    d = len(theta)
    w, before, last = np.zeros(d), theta, None
    for _, k, learns in log:
        if not learns:
            yield theta
            continue
        alpha = next(alphas)
        beta = eta * alpha
        if last is None or last.episode != k.episode:
            e = e_grad = e_w = np.zeros(d)
            gamma, rho_before, before = 0.0, 0.0, theta
        else:
            gamma, rho_before = last.discount, last.rho
        x, rho, delta = k.x, k.rho, k.delta(theta)
        e = rho * (gamma * lam * e + alpha * (1 - rho * gamma * lam * (x @ e)) * x)
        e_grad = rho * (gamma * lam * e_grad + x)
        e_w = rho_before * gamma * lam * e_w + beta * (1 - rho_before * gamma * lam * (x @ e_w)) * x
        new = theta + delta * e + (e - alpha * rho * x) * ((theta - before) @ x)
        new = new - (alpha if eta else 0.0) * k.discount * (1 - lam) * (w @ e_grad) * k.x_next
        w = w + rho * delta * e_w - beta * (x @ w) * x
        before, theta, last = theta, new, k
        yield theta


def online_lambda_return(samples, theta, alpha, lam):
    """van Seijen et al. (2016), eq. 12: after every step all updates of the episode anew, with returns up to now."""
    begin = 0
    start = [theta]
    for t, k in enumerate(samples):
        if k.episode != samples[begin].episode:
            begin, start = t, [start[-1]]
        weights = start[0]
        for j in range(begin, t + 1):
            G = _interim_return(samples[j : t + 1], start[j - begin :], lam)
            weights = weights + alpha * (G - weights @ samples[j].x) * samples[j].x
        start.append(weights)
        yield weights


def _interim_return(steps, thetas, lam):
    """The lambda-return from the first of these steps, cut at the last, with the weights of each time."""
    total, G, gamma, share = 0.0, 0.0, 1.0, 1.0
    for n, (k, theta) in enumerate(zip(steps, thetas, strict=True)):
        G = G + gamma * k.reward
        gamma = gamma * k.discount
        n_step = G + gamma * (k.x_next @ theta)
        total += share * (1 - lam) * n_step if n + 1 < len(steps) else share * n_step
        share *= lam
    return total
