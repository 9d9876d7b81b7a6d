"""The twins of the Mirror-Prox rules: look ahead, then go from where one stood, with one sample."""

import numpy as np


def gtd2_mp(log, theta, alphas, eta=1.0):
    """Liu et al. (2015), Algorithm 2, with identity mirror maps."""
    return _extragradient(log, theta, alphas, eta, lambda k: k.C)


def sthtd_mp(log, theta, alphas, eta=1.0):
    """The same with the symmetric part of the behaviour's Bellman matrix, x (x - gamma x_next)', for C."""

    def metric(k):
        bellman = np.outer(k.x, k.x - k.discount * k.x_next)
        return (bellman + bellman.T) / 2

    return _extragradient(log, theta, alphas, eta, metric)


def _extragradient(log, theta, alphas, eta, metric):
    w = np.zeros_like(theta)
    for _, k, learns in log:
        if learns:
            alpha, M = next(alphas), metric(k)

            def moved(theta, w, at, at_w, k=k, alpha=alpha, M=M):
                return theta - alpha * k.A.T @ at_w, w + eta * alpha * (k.A @ at + k.b - M @ at_w)

            ahead = moved(theta, w, theta, w)
            theta, w = moved(theta, w, *ahead)
        yield theta
