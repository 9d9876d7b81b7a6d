"""Eligibility traces straight from their definitions."""

import numpy as np


def summed(samples, lam, trace):
    """e_t as the sum over the steps k of its episode up to t of lam^(t-k) (product of discounts and c's) x_k."""
    share = [lam * k.discount * _ratio(k, trace) for k in samples]
    found = []
    for t, latest in enumerate(samples):
        e, product = np.zeros_like(latest.x), 1.0  # of the shares of steps k to t - 1
        for k in range(t, -1, -1):
            if samples[k].episode == latest.episode:
                e = e + product * samples[k].x
            product *= share[k - 1]
            if product == 0:
                break
        found.append(e)
    return found


def _ratio(sample, trace):
    """c of White and White (2016) and Munos et al. (2016), without lam."""
    return {"rho": sample.rho, "clipped": min(1.0, sample.rho), "tree": sample.target, "none": 1.0}[trace]


def emphatic(samples):
    """The traces of Sutton, Mahmood and White (2016), eqs. 17 to 20 with interest 1, one step after the other.

    F = rho_{t-1} gamma_t F + 1, M = lam + (1 - lam) F, e = rho_t (gamma_t lam e + M x_t).
    """
    found, before, F, e = [], None, 0.0, 0.0
    for k in samples:
        gamma = before.discount if before is not None and before.episode == k.episode else 0.0
        F = 1.0 if gamma == 0 else before.rho * gamma * F + 1.0
        M = k.lam + (1 - k.lam) * F
        e = k.rho * M * k.x if gamma == 0 else k.rho * (gamma * k.lam * e + M * k.x)
        found.append(e)
        before = k
    return found
