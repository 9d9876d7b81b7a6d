"""Small laws to enumerate, and naive twins of the exact theory: expectations by brute force, means by simulation."""

import itertools

import numpy as np

import gradtd
from gradtd import theory


def law_of(phi, d, c=None):
    """The law of equally likely steps with the given phi_k, d_k and c_k (ratio 1, discount 1)."""
    phi, d = np.asarray(phi, float), np.asarray(d, float)
    n = len(phi)
    return theory.law(
        gradtd.Stream.from_arrays(
            features=np.vstack([phi, phi + d]), row=np.arange(n), next_row=n + np.arange(n),
            reward=np.zeros(n) if c is None else c, discount=1.0, episode=np.arange(n),
        )
    )  # fmt: skip


def small_stream(seed, steps=4, d=2):
    """A few steps with random features, ratios, discounts and rewards; two of them share their rows."""
    rng = np.random.default_rng(seed)
    row, next_row = rng.integers(0, 3, (2, steps))
    row[:3] = 0, 1, 2
    row[-1], next_row[-1] = row[0], next_row[0]
    return gradtd.Stream.from_arrays(
        features=rng.normal(size=(3, d)), row=row, next_row=next_row, reward=rng.normal(size=steps),
        discount=rng.uniform(0.2, 1, steps), rho=rng.uniform(0.3, 2, steps), episode=np.arange(steps),
    )  # fmt: skip


def small_law(seed, steps=4, d=2):
    """The empirical law of `small_stream`."""
    return theory.law(small_stream(seed, steps, d))


COUNTEREXAMPLE = law_of(
    phi=[[1, 0], [0, 1], [1, 0], [1, 0]],
    d=[[4, 0], [0, 0.04], [0, 4], [0, -4]],
)
"""The printed L-lambda smoothness fails on it, along the second axis."""


def batches(law, m, replacement=True):
    """All batches of m steps of a small law, as (probability, indices)."""
    n = len(law.p)
    if not replacement:
        assert n == law.n_steps, "every step of the sample must be different"
        subsets = list(itertools.combinations(range(n), m))
        return [(1 / len(subsets), list(k)) for k in subsets]
    return [(np.prod(law.p[list(k)]), list(k)) for k in itertools.product(range(n), repeat=m)]


def estimate(law, k):
    """A and b averaged over the steps of a batch."""
    phi, d, c = law.phi[k], law.d[k], law.c[k]
    return phi.T @ d / len(k), phi.T @ c / len(k)


def gradients(law, theta, m1, m2, *, symmetric=False, replacement=True, second=None):
    """Every value that the update's direction can take at theta, with its probability."""
    second = law if second is None else second
    for p1, k1 in batches(law, m1, replacement):
        A1, b1 = estimate(law, k1)
        for p2, k2 in batches(second, m2, replacement):
            A2, b2 = estimate(second, k2)
            g = A1.T @ (A2 @ theta + b2)
            if symmetric:
                g = (g + A2.T @ (A1 @ theta + b1)) / 2
            yield p1 * p2, g


def mean_square_gradient(law, theta, m1, m2, **options):
    """E|g|^2 by enumeration."""
    return sum(p * (g @ g) for p, g in gradients(law, theta, m1, m2, **options))


def simulate(law, alpha, m1, m2, *, theta0, steps, runs, seed, symmetric=False):
    """|theta_t - theta*|^2 of every run at the given steps, batches drawn from the law; shape (runs, steps)."""
    rng = np.random.default_rng(seed)
    phi, d, c, bounds = law.phi, law.d, law.c, np.cumsum(law.p)
    seen = np.linalg.svd(law.A)[2][: np.linalg.matrix_rank(law.A, tol=1e-9)]
    theta = np.tile(theta0, (runs, 1))

    def draw(m):
        return np.minimum(np.searchsorted(bounds, rng.random((runs, m))), len(bounds) - 1)

    def direction(outer, inner):
        delta = np.einsum("rmd,rd->rm", d[inner], theta) + c[inner]
        u = np.einsum("rm,rmd->rd", delta, phi[inner]) / inner.shape[1]
        along = np.einsum("rmd,rd->rm", phi[outer], u)
        return np.einsum("rm,rmd->rd", along, d[outer]) / outer.shape[1]

    errors = []
    for t in range(max(steps) + 1):
        if t in steps:
            errors.append((((theta - law.theta_star) @ seen.T) ** 2).sum(axis=1))
        one, other = draw(m1), draw(m2)
        g = direction(one, other)
        theta = theta - alpha * ((g + direction(other, one)) / 2 if symmetric else g)
    return np.array(errors).T
