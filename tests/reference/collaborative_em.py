"""Section 3 of Yu, Yu, Tresp and Kriegel (2006), line by line, in plain loops.

It has n posteriors on all m items. This needs n m^2 memory, and is easy to compare with the page.
"""

import numpy as np
from scipy.stats import multivariate_normal


def posterior(h, Sigma, index, y, noise):
    """E-step of 3.1: mean and covariance of one function on all items, Gaussian likelihood."""
    S = Sigma[np.ix_(index, index)] + noise**2 * np.eye(len(index))
    gain = Sigma[:, index] @ np.linalg.inv(S)
    return h + gain @ (y - h[index]), Sigma - gain @ Sigma[index]


def site_posterior(h, Sigma, index, tau, nu):
    """The same with Gaussian sites exp(-tau f^2/2 + nu f), in precision form."""
    precision, shift = np.linalg.inv(Sigma), np.linalg.solve(Sigma, h)
    precision[index, index] += tau
    shift[index] += nu
    covariance = np.linalg.inv(precision)
    return covariance @ shift, covariance


def update(posteriors, h0, Sigma0, for_mean=0.0, for_covariance=0.0):
    """Eq. (3), with the smoothing of a Normal-Inverse-Wishart distribution."""
    n = len(posteriors)
    h = (for_mean * h0 + sum(f for f, _ in posteriors)) / (n + for_mean)
    total = for_covariance * Sigma0 + for_mean * np.outer(h - h0, h - h0)
    for f, C in posteriors:
        total = total + np.outer(f - h, f - h) + C
    return h, total / (n + for_covariance)


def log_likelihood(h, Sigma, raters, noises):
    """Eq. (1) for the Gaussian likelihood."""
    value = 0.0
    for (index, y), noise in zip(raters, noises, strict=True):
        S = Sigma[np.ix_(index, index)] + noise**2 * np.eye(len(index))
        value += multivariate_normal.logpdf(y, h[index], S)
    return value
