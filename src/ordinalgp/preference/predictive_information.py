"""How much the answer to one question tells of the answers to all others.

This is the mutual information of two observations y and y' of jointly normal u and u' with
covariance c (expected predictive information gain, [Bickford23]_). By Price's theorem the
derivative of P(y, y') in c is d2P / dmean dmean', so P(y, y') = P P' + c dP dP' + O(c^2), and

    information = c^2 J J' / 2 + O(c^3),    J = sum over y of (dP / dmean)^2 / P,

where J is Fisher's information of an answer on its mean. Over observations u_k = a_k f of
f ~ N(., C) the squared covariances with u = a f add up to a (C L C) a', L = sum_k J_k a_k' a_k:
two matrix products serve for all pairs of items.
"""

import numpy as np
from scipy.special import ndtr

from ordinalgp._typing import FloatArray
from ordinalgp.core.likelihoods import OrdinalProbit

_BLOCK = 2**15  # observations at a time: their temporaries stay in the cache
_NEVER = 1e-12  # a level that is less probable tells nothing; its J is below 1e-10 of a unit


def answer_information(likelihood: OrdinalProbit, mean: FloatArray, var: FloatArray) -> FloatArray:
    """Fisher's information J of an answer on the mean of u ~ N(mean, var), all shapes (m,)."""
    out = np.empty(len(mean))
    for i in range(0, len(mean), _BLOCK):
        part = slice(i, i + _BLOCK)
        s2 = likelihood.noise**2 + var[part]
        z = (likelihood.thresholds - mean[part, None]) / np.sqrt(s2)[:, None]
        out[part] = _standardised(z) / s2
    return out


def _standardised(z: FloatArray) -> FloatArray:
    """Return J in units of 1/s^2 for thresholds ``z`` in units of s, the last axis."""
    ends = np.zeros((len(z), 1))
    p = np.diff(np.hstack([ends, ndtr(z), ends + 1.0]), axis=1)
    slope = np.diff(np.hstack([ends, np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi), ends]), axis=1)
    known = p > _NEVER
    total: FloatArray = np.sum(np.where(known, slope**2, 0.0) / np.where(known, p, 1.0), axis=1)
    return total


def pair_predictive_information(J: FloatArray, covariance: FloatArray) -> FloatArray:
    """C L C for the differences of all pairs of items; ``J`` symmetric, both of shape (n, n).

    A question about a f has its own J times a (C L C) a' / 2 nats to tell of all of them. The
    diagonal of ``J``, an item beside itself, does not count.
    """
    laplacian = np.diag(J.sum(axis=0)) - J
    return covariance @ laplacian @ covariance
