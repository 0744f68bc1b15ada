"""Appendix A of Chu and Ghahramani (2005), line by line: evidence (21), gradients (22) to (25).

Matrices are inverted and diagonal matrices are matrices, as on the page. Variables are
[ln kappa, ln sigma, b_1, ln Delta_2, ..., ln Delta_{r-1}]; the kernel is the Gaussian (1).
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm


@dataclass(frozen=True)
class Parameters:
    """kappa, sigma, b_1 and Delta_2..Delta_{r-1}."""

    kappa: float
    sigma: float
    b1: float
    Delta: np.ndarray

    @property
    def b(self):
        """b_0 = -inf, b_1, ..., b_{r-1}, b_r = +inf."""
        inner = self.b1 + np.concatenate([[0.0], np.cumsum(self.Delta)])
        return np.concatenate([[-np.inf], inner, [np.inf]])


def covariance(X, kappa):
    """Eq. (1): exp(-kappa/2 |x - x'|^2), and its derivative in kappa."""
    square = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=-1)
    Sigma = np.exp(-0.5 * kappa * square)
    return Sigma, -0.5 * square * Sigma


def ratios(f, y, q):
    """s_rho and v_rho of the appendix, rho = 0..3, each of shape (4, n)."""
    z1, z2 = (q.b[y] - f) / q.sigma, (q.b[y - 1] - f) / q.sigma
    mass = norm.cdf(z1) - norm.cdf(z2)
    s, v = np.zeros((4, len(f))), np.zeros((4, len(f)))
    for rho in range(4):
        s[rho] = power_times_pdf(z1, rho) / mass
        v[rho] = (power_times_pdf(z1, rho) - power_times_pdf(z2, rho)) / mass
    return s, v, mass


def power_times_pdf(z, rho):
    """z^rho N(z; 0, 1), which is 0 at infinity."""
    finite = np.where(np.isinf(z), 0.0, z)
    return np.where(np.isinf(z), 0.0, finite**rho * norm.pdf(finite))


def map_estimate(Sigma, y, q, n_steps=100):
    """Minimise (9) by the Newton-Raphson formula of footnote 3, halving steps that climb."""

    def loss(f):
        return -np.sum(np.log(ratios(f, y, q)[2])) + 0.5 * f @ np.linalg.solve(Sigma, f)

    f = np.zeros(len(y))
    for _ in range(n_steps):
        _, v, _ = ratios(f, y, q)
        Lambda = np.diag((v[0] ** 2 + v[1]) / q.sigma**2)  # (7)
        slope = v[0] / q.sigma  # (6): derivative of the loss
        step = np.linalg.solve(np.linalg.inv(Sigma) + Lambda, slope + np.linalg.solve(Sigma, f))
        while loss(f - step) > loss(f) + 1e-12 * abs(loss(f)):
            step = step / 2
        f = f - step
        if np.abs(step).max() < 1e-13:
            break
    return f


def appendix_a(X, y, q):
    """Minus the log evidence, its gradient, and the MAP estimate; ``y`` holds levels 1..r."""
    Sigma, dSigma = covariance(X, q.kappa)
    f = map_estimate(Sigma, y, q)
    s, v, mass = ratios(f, y, q)
    sigma = q.sigma
    Lambda = (v[0] ** 2 + v[1]) / sigma**2
    inverse_Lambda, identity = np.diag(1 / Lambda), np.eye(len(y))
    value = (
        -np.sum(np.log(mass))
        + 0.5 * f @ np.linalg.solve(Sigma, f)
        + 0.5 * np.linalg.slogdet(identity + Sigma @ np.diag(Lambda))[1]
    )
    inner = np.linalg.inv(inverse_Lambda + Sigma)  # (Lambda^-1 + Sigma)^-1
    spread = inverse_Lambda @ inner @ Sigma  # stands before dLambda in every trace
    dLambda_df = (2 * v[0] ** 3 + 3 * v[0] * v[1] + v[2] - v[0]) / sigma**3
    weights = np.linalg.solve(Sigma, f)

    # (22)
    df = inverse_Lambda @ inner @ dSigma @ weights
    d_kappa = (
        0.5 * np.trace(inner @ dSigma)
        - 0.5 * weights @ dSigma @ weights
        + 0.5 * np.trace(spread @ np.diag(dLambda_df * df))
    )
    # (23)
    psi = (v[0] - v[0] * v[1] - v[2]) / sigma**2
    df = inverse_Lambda @ inner @ Sigma @ psi
    bracket = 2 * v[0] * v[2] + 2 * v[0] ** 2 * v[1] - v[1] + v[1] ** 2 + v[3]
    dLambda = -2 / sigma * Lambda + bracket / sigma**3 + dLambda_df * df
    d_sigma = np.sum(v[1] / sigma) + 0.5 * np.trace(spread @ np.diag(dLambda))
    # (24)
    df = inverse_Lambda @ inner @ Sigma @ Lambda
    dLambda = -dLambda_df + dLambda_df * df
    d_b1 = np.sum(-v[0] / sigma) + 0.5 * np.trace(spread @ np.diag(dLambda))
    # (25)
    d_Delta = []
    phi = (s[0] - 2 * v[0] * s[1] - 2 * v[0] ** 2 * s[0] - s[2] - v[1] * s[0]) / sigma**3
    for iota in range(2, len(q.Delta) + 2):
        above, equal = y > iota, y == iota
        loss = np.where(above, -v[0] / sigma, np.where(equal, -s[0] / sigma, 0.0))
        psi = np.where(above, Lambda, np.where(equal, (v[0] * s[0] + s[1]) / sigma**2, 0.0))
        df = inverse_Lambda @ inner @ Sigma @ psi
        dLambda = np.where(above, -dLambda_df, np.where(equal, phi, 0.0)) + dLambda_df * df
        d_Delta.append(np.sum(loss) + 0.5 * np.trace(spread @ np.diag(dLambda)))
    gradient = np.array([q.kappa * d_kappa, sigma * d_sigma, d_b1, *(q.Delta * d_Delta)])
    return value, gradient, f
