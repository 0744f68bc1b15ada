"""Appendix B of Chu and Ghahramani (2005), line by line: one site after another, plain loops.

Slow and fragile (cumulative probabilities are subtracted), and therefore easy to compare with
the page: the reference that the engine's parallel EP must agree with where both work.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm


@dataclass(frozen=True)
class SequentialEP:
    """The appendix's m, p, s, h and A after the last sweep, and its evidence."""

    m: np.ndarray
    p: np.ndarray
    log_s: np.ndarray
    h: np.ndarray
    A: np.ndarray
    log_evidence: float
    n_sweeps: int
    change: float


def sequential_ep(Sigma, y, b, sigma, tol=1e-12, max_sweeps=500):
    """Run the updates until no m, p or s changes by more than ``tol``.

    ``Sigma`` is the prior covariance, ``y`` holds levels 1..r, ``b`` the thresholds b_0..b_r.
    """
    n = len(y)
    m, p, log_s = np.zeros(n), np.zeros(n), np.zeros(n)
    A = Sigma.copy()  # (Sigma^-1 + Pi)^-1 with Pi = 0
    h = np.zeros(n)
    n_sweeps, change = 0, np.inf
    while change > tol and n_sweeps < max_sweeps:
        n_sweeps, change = n_sweeps + 1, 0.0
        for i in range(n):
            # Remove the site: variance and mean of f(x_i) under the leave-one-out posterior.
            lam = A[i, i] / (1 - A[i, i] * p[i])
            h_out = h[i] + lam * p[i] * (h[i] - m[i])
            # Incorporate the message P(y_i | f(x_i)).
            scale = np.sqrt(lam + sigma**2)
            z1, z2 = (b[y[i]] - h_out) / scale, (b[y[i] - 1] - h_out) / scale
            Z = norm.cdf(z1) - norm.cdf(z2)
            alpha = -(norm.pdf(z1) - norm.pdf(z2)) / (scale * Z)  # (26)
            beta = -(times_pdf(z1) - times_pdf(z2)) / (2 * (lam + sigma**2) * Z)
            v = alpha**2 - 2 * beta
            p_new = v / (1 - lam * v)
            m_new = h_out + alpha / v
            log_s_new = np.log(Z) + 0.5 * np.log(lam * p_new + 1) + alpha**2 / (2 * v)
            if not p_new > 0:
                continue
            change = max(change, *np.abs([m_new - m[i], p_new - p[i], log_s_new - log_s[i]]))
            eta = (alpha + p[i] * (h[i] - m[i])) / (1 - A[i, i] * p[i])
            rho = (p_new - p[i]) / (1 + (p_new - p[i]) * A[i, i])
            a = A[:, i].copy()
            h = h + eta * a
            A = A - rho * np.outer(a, a)
            m[i], p[i], log_s[i] = m_new, p_new, log_s_new
    value = log_evidence(Sigma, m, p, log_s, A)
    return SequentialEP(m, p, log_s, h, A, value, n_sweeps, change)


def times_pdf(z):
    """z N(z; 0, 1), which is 0 at infinity."""
    return 0.0 if np.isinf(z) else z * norm.pdf(z)


def log_evidence(Sigma, m, p, log_s, A):
    """prod s_i det^1/2(Pi^-1) / det^1/2(Sigma + Pi^-1) exp(B/2), in logarithms."""
    B = (m * p) @ A @ (m * p) - np.sum(p * m**2)
    _, log_det = np.linalg.slogdet(Sigma + np.diag(1 / p))
    return np.sum(log_s) - 0.5 * np.sum(np.log(p)) - 0.5 * log_det + 0.5 * B
