"""Every algorithm once more, the slow and obvious way: matrices written out, nothing in place.

Each twin is a generator over the steps of a `Log` that yields theta after every step. It is written from
the equation of the paper (labels in the docstrings) or of the work named there, with

    A_k = rho e y',   b_k = rho r e,   C_k = x x',   D_k = rho gamma (1 - lam) e x_next',   y = gamma x_next - x,

so the ratio stands once in every estimate, and the second step-size is eta alpha. The trace e is x where lam is 0.
``alphas`` is an iterator of step-sizes; each update takes one.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from naive import traces
from naive.auto import impression_gtd_auto
from naive.extragradient import gtd2_mp, sthtd_mp
from naive.stored import krylov_gtd, saga_gtd, svrg_gtd
from naive.true_online import true_online_gtd, true_online_td


@dataclass
class Sample:
    """One step, with the matrices it is a sample of."""

    x: np.ndarray
    x_next: np.ndarray
    reward: float
    discount: float
    rho: float
    episode: int
    target: float = 1.0
    lam: float = 0.0

    def __post_init__(self):
        self.y = self.discount * self.x_next - self.x
        self.C = np.outer(self.x, self.x)
        self.trace(self.x)

    def trace(self, e):
        """Let e be the trace of the step."""
        self.e = e
        self.A = self.rho * np.outer(e, self.y)
        self.b = self.rho * self.reward * e
        self.D = self.rho * self.discount * (1 - self.lam) * np.outer(e, self.x_next)

    def delta(self, theta):
        return self.reward + self.discount * (self.x_next @ theta) - self.x @ theta


@dataclass
class Log:
    """The steps of a stream, at which of them a rule learns, and the step indices drawn for it there."""

    samples: list
    learns: np.ndarray
    first: np.ndarray
    second: np.ndarray
    table: np.ndarray | None = None
    next_row: np.ndarray | None = None

    def __iter__(self):
        return zip(itertools.count(), self.samples, self.learns, strict=False)

    def batch(self, indices):
        return [self.samples[i] for i in indices]


def table_of(stream):
    return stream.features if isinstance(stream.features, np.ndarray) else stream.features.toarray()


def samples_of(stream, lam=0.0, trace="rho"):
    """The steps of a stream, each with its trace."""
    table = table_of(stream)
    target = np.ones(len(stream)) if stream.target is None else stream.target
    samples = [
        Sample(
            table[int(s["row"])],
            table[int(s["next_row"])],
            *(s[k].item() for k in ("reward", "discount", "rho", "episode")),
            probability,
            lam,
        )
        for s, probability in zip(np.asarray(stream.steps), target, strict=True)
    ]
    for k, e in zip(samples, traces.summed(samples, lam, trace), strict=True):
        k.trace(e)
    return samples


def mean_A(samples):
    return sum(k.A for k in samples) / len(samples)


def mean_b(samples):
    return sum(k.b for k in samples) / len(samples)


# One step-size ---------------------------------------------------------------------------------------


def td(log, theta, alphas):
    """TD(0), Section 2.1."""
    for _, k, learns in log:
        if learns:
            theta = theta + next(alphas) * (k.A @ theta + k.b)
        yield theta


def vtrace(log, theta, alphas):
    """TD with min(rho, 1) for rho."""
    for _, k, learns in log:
        if learns:
            clipped = 1.0 if k.rho > 1.0 else k.rho
            A, b = clipped * np.outer(k.e, k.y), clipped * k.reward * k.e
            theta = theta + next(alphas) * (A @ theta + b)
        yield theta


def etd(log, theta, alphas):
    """Emphatic TD(lambda) with interest 1, from its trace z, which holds the ratio."""
    for (_, k, learns), z in zip(log, traces.emphatic(log.samples), strict=True):
        if learns:
            theta = theta + next(alphas) * k.delta(theta) * z
        yield theta


def residual_gradient(log, theta, alphas):
    """Baird's gradient of rho delta^2 / 2."""
    for _, k, learns in log:
        if learns:
            theta = theta - next(alphas) * (k.rho * np.outer(k.y, k.y) @ theta + k.rho * k.reward * k.y)
        yield theta


def minibatch_td(log, theta, alphas):
    """Mini-batch TD, Section 4."""
    for t, _, learns in log:
        if learns:
            batch = log.batch(log.first[t])
            theta = theta + next(alphas) * (mean_A(batch) @ theta + mean_b(batch))
        yield theta


# The framework: theta - alpha A1'(A2 theta + b2), eq. alg:generic_gtd -----------------------------------


def impression_gtd(log, theta, alphas, directions="one", similarity="correlation", ridge=1.0, alpha=None):
    """Eq. imgtd and one_update; other similarities as in the generic loss N(theta) of Section 4."""
    if alpha == "auto":
        yield from impression_gtd_auto(log, theta, alphas, directions, similarity, ridge)
        return

    def direction(one, two, theta, weight):
        if callable(similarity):
            pairs = itertools.product(one, two)
            total = sum(i.rho * i.y * similarity(i.x, j.x) * j.rho * j.delta(theta) for i, j in pairs)
            return total / (len(one) * len(two))
        return mean_A(one).T @ weight @ (mean_A(two) @ theta + mean_b(two))

    d = len(theta)
    for t, _, learns in log:
        if learns:
            weight = np.eye(d)
            if isinstance(similarity, np.ndarray):
                weight = np.linalg.inv(similarity)
            elif similarity == "mspbe":
                C = (ridge * np.eye(d) + sum(k.C for k in log.samples[: t + 1])) / (t + 1)
                weight = np.linalg.inv(C)
            b1, b2 = log.batch(log.first[t]), log.batch(log.second[t])
            there, back = direction(b1, b2, theta, weight), direction(b2, b1, theta, weight)
            total = {"one": there, "both": there + back, "averaged": (there + back) / 2}[directions]
            theta = theta - next(alphas) * total
        yield theta


def _two_buffers(log, t):
    """Algorithm 1: odd episodes to buffer 1, even ones to buffer 2."""
    seen = log.samples[: t + 1]
    return [k for k in seen if k.episode % 2 == 1], [k for k in seen if k.episode % 2 == 0]


def expected_gtd(log, theta, alphas, buffers="two"):
    """Eq. expectedGTD, its form for two buffers (Section 5) and the descent of the empirical NEU (Section 4)."""
    for t, _, learns in log:
        one, two = _two_buffers(log, t)
        if learns:
            assert one
            assert two
            A1, b1, A2, b2 = mean_A(one), mean_b(one), mean_A(two), mean_b(two)
            if buffers == "one":
                A, b = mean_A(one + two), mean_b(one + two)
                total = A.T @ (A @ theta + b)
            elif buffers == "two":
                total = A1.T @ (A2 @ theta + b2)
            else:
                total = (A1.T @ (A2 @ theta + b2) + A2.T @ (A1 @ theta + b1)) / 2
            theta = theta - next(alphas) * total
        else:
            assert not (one and two)
        yield theta


def at_td(log, theta, alphas):
    """Eq. attd."""
    for t, k, learns in log:
        if learns:
            theta = theta - next(alphas) * mean_A(log.samples[: t + 1]).T @ (k.A @ theta + k.b)
        yield theta


def r1_gtd(log, theta, alphas):
    """Eq. R1-GTD."""
    for t, k, learns in log:
        if learns:
            seen = log.samples[: t + 1]
            theta = theta - next(alphas) * k.A.T @ (mean_A(seen) @ theta + mean_b(seen))
        yield theta


def shrunken_r1_gtd(log, theta, alphas):
    """Section 4: batch 1 is the latest step."""
    for t, k, learns in log:
        if learns:
            batch = log.batch(log.first[t])
            theta = theta - next(alphas) * k.A.T @ (mean_A(batch) @ theta + mean_b(batch))
        yield theta


def shrunken_at_td(log, theta, alphas):
    """Its counterpart: batch 2 is the latest step."""
    for t, k, learns in log:
        if learns:
            theta = theta - next(alphas) * mean_A(log.batch(log.first[t])).T @ (k.A @ theta + k.b)
        yield theta


def direct_gtd(log, theta, alphas, gap=1.0):
    """Qian and Zhang: the gradient from step t, the TD update from step t - f(t), f(t) = 1 + floor(gap ln(t+1)^2)."""
    for t, k, learns in log:
        f = 1 + int(np.floor(gap * np.log(t + 1) ** 2))
        if learns and t - f >= 0:
            earlier = log.samples[t - f]
            theta = theta - next(alphas) * k.A.T @ (earlier.A @ theta + earlier.b)
        yield theta


# Two step-sizes: each pair of new values is computed from the old pair ----------------------------------


def gtd(log, theta, alphas, eta=1.0):
    """Eq. gtd."""
    u = np.zeros_like(theta)
    for _, k, learns in log:
        if learns:
            alpha = next(alphas)
            theta, u = theta - alpha * k.A.T @ u, u + eta * alpha * (k.A @ theta + k.b - u)
        yield theta


def gtd2(log, theta, alphas, eta=1.0):
    """Eq. gtd2."""
    w = np.zeros_like(theta)
    for _, k, learns in log:
        if learns:
            alpha = next(alphas)
            theta, w = theta - alpha * k.A.T @ w, w + eta * alpha * (k.A @ theta + k.b - k.C @ w)
        yield theta


def tdc(log, theta, alphas, eta=1.0):
    """Eq. tdc."""
    w = np.zeros_like(theta)
    for _, k, learns in log:
        if learns:
            alpha = next(alphas)
            td_update = k.A @ theta + k.b
            theta, w = theta + alpha * (td_update - k.D.T @ w), w + eta * alpha * (td_update - k.C @ w)
        yield theta


def tdc_transposed(log, theta, alphas, eta=1.0):
    """The display before eq. tdc, as printed: -theta, not -C theta."""
    w = np.zeros_like(theta)
    for _, k, learns in log:
        if learns:
            alpha = next(alphas)
            theta, w = theta - alpha * k.A.T @ w, w + eta * alpha * (-theta + k.D @ theta + k.b - k.C @ w)
        yield theta


def tdc_transposed_corrected(log, theta, alphas, eta=1.0):
    """The same with the -C theta that h = C^{-1}((D - C) theta + b) asks for."""
    w = np.zeros_like(theta)
    for _, k, learns in log:
        if learns:
            alpha = next(alphas)
            after, here = k.rho * k.discount * np.outer(k.e, k.x_next), np.outer(k.e, k.x)
            theta, w = theta - alpha * k.A.T @ w, w + eta * alpha * (after @ theta + k.b - here @ theta - k.C @ w)
        yield theta


def tdrc(log, theta, alphas, eta=1.0, beta=1.0):
    """Ghiassian et al. (2020): TDC with -beta w in the second update."""
    w = np.zeros_like(theta)
    for _, k, learns in log:
        if learns:
            alpha = next(alphas)
            td_update = k.A @ theta + k.b
            theta, w = theta + alpha * (td_update - k.D.T @ w), w + eta * alpha * (td_update - k.C @ w - beta * w)
        yield theta


def htd(log, theta, alphas, eta=1.0):
    """White and White (2016), from their traces e, which holds the ratios, and e_mu, which has none.

    theta += alpha (delta e + (x - gamma x_next) (e - e_mu).w);  w += eta alpha (delta e - (x - gamma x_next) e_mu.w)
    """
    w = np.zeros_like(theta)
    for (_, k, learns), e_mu in zip(log, traces.summed(log.samples, log.samples[0].lam, "none"), strict=True):
        if learns:
            alpha = next(alphas)
            e = k.rho * k.e
            new_theta = theta + alpha * (k.delta(theta) * e - np.outer(k.y, e - e_mu) @ w)
            w = w + eta * alpha * (k.delta(theta) * e + np.outer(k.y, e_mu) @ w)
            theta = new_theta
        yield theta


def nasa(log, theta, alphas, a=1.0, b=1.0, beta=1.0):
    """Section 2.3: g = argmax g'z - beta/2 |g|^2 = z / beta; z from the old u; u from the new theta."""
    z, u = np.zeros_like(theta), np.zeros_like(theta)
    for _, k, learns in log:
        if learns:
            tau = next(alphas)
            theta = theta - tau * z / beta
            z = (1 - a * tau) * z + a * tau * k.A.T @ u
            u = (1 - b * tau) * u + b * tau * (k.A @ theta + k.b)
        yield theta


def minibatch_tdc(log, theta, alphas, eta=1.0):
    """Xu and Liang (2021): eq. tdc averaged over m new steps, every m steps."""
    m = log.first.shape[1]
    new = {t: log.samples[t + 1 - m : t + 1] for t in range(m - 1, len(log.samples), m)}
    return _tdc_in_batches(log, theta, alphas, eta, new)


def minibatch_tdc_replay(log, theta, alphas, eta=1.0):
    """Eq. tdc averaged over a drawn batch, every step."""
    return _tdc_in_batches(log, theta, alphas, eta, {t: log.batch(log.first[t]) for t in range(len(log.samples))})


def _tdc_in_batches(log, theta, alphas, eta, batches):
    """Both directions averaged over a batch, at the old theta and w."""
    w = np.zeros_like(theta)
    for t, _, learns in log:
        batch = batches.get(t)
        if learns and batch:
            alpha = next(alphas)
            td_update = mean_A(batch) @ theta + mean_b(batch)
            C, D = (sum(getattr(k, name) for k in batch) / len(batch) for name in "CD")
            theta, w = theta + alpha * (td_update - D.T @ w), w + eta * alpha * (td_update - C @ w)
        yield theta


# Second order ------------------------------------------------------------------------------------------


def lstd(log, theta, alphas, solver="recursive", ridge=1e-3):
    """sum of (A_k theta + b_k) + ridge (theta0 - theta) = 0, whichever way it is solved."""
    d = len(theta)
    centre = theta
    for t, _, learns in log:
        if learns:
            seen = log.samples[: t + 1]
            system = sum(k.A for k in seen) - ridge * np.eye(d)
            theta = np.linalg.lstsq(system, -sum(k.b for k in seen) - ridge * centre, rcond=1e-10)[0]
        yield theta


def emphatic_lstd(log, theta, alphas, solver="recursive", ridge=1e-3):
    """LSTD with the trace of emphatic TD: sum of z (delta) + ridge (theta0 - theta) = 0."""
    d = len(theta)
    centre, A, b = theta, np.zeros((d, d)), np.zeros(d)
    for (_, k, learns), z in zip(log, traces.emphatic(log.samples), strict=True):
        A, b = A + np.outer(z, k.y), b + k.reward * z
        if learns:
            theta = np.linalg.lstsq(A - ridge * np.eye(d), -b - ridge * centre, rcond=1e-10)[0]
        yield theta


def newton_td(log, theta, alphas, ridge=1.0):
    """Eq. 2ndordertd, with A_t the mean over all steps so far and -ridge I added to their sum."""
    d = len(theta)
    for t, k, learns in log:
        if learns:
            A = (sum(j.A for j in log.samples[: t + 1]) - ridge * np.eye(d)) / (t + 1)
            theta = theta - next(alphas) * np.linalg.solve(A, k.A @ theta + k.b)
        yield theta


def lspe(log, theta, alphas, ridge=1.0):
    """h = C^{-1}(A theta + b), Section 2.2, with means over all steps so far and ridge I added to the sum of C_k."""
    d = len(theta)
    for t, _, learns in log:
        if learns:
            seen = log.samples[: t + 1]
            C = (sum(k.C for k in seen) + ridge * np.eye(d)) / (t + 1)
            theta = theta + next(alphas) * np.linalg.solve(C, mean_A(seen) @ theta + mean_b(seen))
        yield theta


# Control: rows of features by state and action, the next row is that of the first action ------------------


def _after(log, t, theta, n_actions, epsilon):
    """The mean of the next rows over the policy that is epsilon-greedy by theta."""
    rows = log.table[log.next_row[t] : log.next_row[t] + n_actions]
    policy = np.full(n_actions, epsilon / n_actions)
    policy[np.argmax(rows @ theta)] += 1 - epsilon
    return policy @ rows


def _of_policy(log, t, theta, n_actions, epsilon):
    """A_k, b_k and D_k of a step under the policy that is epsilon-greedy by theta."""
    k = log.samples[t]
    ahead = k.discount * _after(log, t, theta, n_actions, epsilon)
    return k.rho * np.outer(k.x, ahead - k.x), k.rho * k.reward * k.x, k.rho * np.outer(k.x, ahead)


def q_learning(log, theta, alphas, n_actions=1):
    """Watkins (1989)."""
    yield from expected_sarsa(log, theta, alphas, n_actions, epsilon=0.0)


def expected_sarsa(log, theta, alphas, n_actions=1, epsilon=0.1):
    """van Seijen et al. (2009)."""
    for t, _, learns in log:
        if learns:
            A, b, _ = _of_policy(log, t, theta, n_actions, epsilon)
            theta = theta + next(alphas) * (A @ theta + b)
        yield theta


def greedy_gq(log, theta, alphas, n_actions=1, epsilon=0.0, eta=1.0):
    """Maei et al. (2010)."""
    w = np.zeros_like(theta)
    for t, k, learns in log:
        if learns:
            alpha = next(alphas)
            A, b, D = _of_policy(log, t, theta, n_actions, epsilon)
            theta, w = theta + alpha * (A @ theta + b - D.T @ w), w + eta * alpha * (A @ theta + b - k.C @ w)
        yield theta


def impression_gq(log, theta, alphas, n_actions=1, epsilon=0.0):
    """Algorithm 1 with the greedy policy's next features in both batches."""
    for t, _, learns in log:
        if learns:
            one, two = (
                [_of_policy(log, i, theta, n_actions, epsilon) for i in drawn[t]] for drawn in (log.first, log.second)
            )
            A1, A2, b2 = (np.mean([k[part] for k in of], axis=0) for of, part in ((one, 0), (two, 0), (two, 1)))
            theta = theta - next(alphas) * A1.T @ (A2 @ theta + b2)
        yield theta


TWINS = {
    twin.__name__: twin
    for twin in (
        impression_gtd, expected_gtd, at_td, r1_gtd, shrunken_r1_gtd, shrunken_at_td, direct_gtd,
        td, vtrace, etd, residual_gradient, minibatch_td,
        gtd, gtd2, tdc, tdc_transposed, tdc_transposed_corrected, tdrc, htd, nasa, minibatch_tdc, minibatch_tdc_replay,
        lstd, emphatic_lstd, newton_td, lspe, krylov_gtd, svrg_gtd, saga_gtd,
        true_online_td, true_online_gtd, gtd2_mp, sthtd_mp,
        q_learning, expected_sarsa, greedy_gq, impression_gq,
    )
}  # fmt: skip


# What the loop adds ------------------------------------------------------------------------------------


def decaying(alpha, t0, p):
    """The step-size of update n."""
    return (alpha / (1 + n / t0) ** p for n in itertools.count())


def averages(thetas, begin, power=0):
    """After every step the average of the iterates after step ``begin``, the n-th with weight n (n+1) ... (n+power-1).

    Shamir and Zhang (2013): their recursion with (power + 1) / (n + power) has these weights. Up to ``begin``
    the iterate itself.
    """
    for t in range(len(thetas)):
        if t < begin:
            yield thetas[t]
        else:
            n = np.arange(1.0, t - begin + 2)
            weights = np.prod([n + i for i in range(power)], axis=0) * np.ones_like(n)
            yield weights @ thetas[begin : t + 1] / weights.sum()
