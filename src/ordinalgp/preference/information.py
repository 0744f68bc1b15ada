"""How much the answer to a question would tell: expected information gain of a threshold model.

For an observation y of u ~ N(mean, var), the mutual information is H[E p(y|u)] - E H[p(y|u)]
(BALD, [Houlsby11]_). The first term is an entropy of predictive probabilities. In the second,
H[p(y|u)] is a bump of u about the noise wide around every threshold. A sum of normal densities fits
it, and the mean of each under another normal is one more normal density: a closed form for all
(mean, var), where quadrature over a wide posterior would miss the narrow bump.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, xlogy

from ordinalgp._typing import FloatArray
from ordinalgp.core.likelihoods import OrdinalProbit

_SPACING = 0.6  # between the densities, in units of the noise; their width is the same
_REACH = 7.0  # where the entropy of a threshold is below 1e-10
_BLOCK = 2**15  # observations at a time: their densities stay in the cache


def _entropy(z: FloatArray) -> FloatArray:
    """Entropy (nats) of the levels cut at standardised thresholds ``z``, the last axis."""
    edges = np.concatenate([np.zeros((*z.shape[:-1], 1)), ndtr(z), np.ones((*z.shape[:-1], 1))], -1)
    p = np.diff(edges, axis=-1)
    total: FloatArray = -xlogy(p, p).sum(axis=-1)
    return total


@dataclass(frozen=True, eq=False)
class InformationGain:
    """Mutual information between u and the level of one observation of it, in nats."""

    thresholds: FloatArray
    noise: float
    centres: FloatArray
    heights: FloatArray

    @classmethod
    def of(cls, likelihood: OrdinalProbit) -> "InformationGain":
        """Fit the entropy of ``likelihood`` once, for any number of questions."""
        b, s = likelihood.thresholds, likelihood.noise
        u, centres = (_near(b, s, step) for step in (_SPACING / 3, _SPACING))
        bumps = np.exp(-0.5 * ((u[:, None] - centres) / (_SPACING * s)) ** 2)
        heights = np.linalg.lstsq(bumps, _entropy((b - u[:, None]) / s), rcond=1e-10)[0]
        return cls(b, s, centres, np.asarray(heights, dtype=np.float64))

    def __call__(self, mean: FloatArray, var: FloatArray) -> FloatArray:
        """Information gain at posterior moments of u, all shapes (m,)."""
        out = np.empty(len(mean))
        for i in range(0, len(mean), _BLOCK):
            part = slice(i, i + _BLOCK)
            out[part] = self._block(mean[part], var[part])
        return out

    def _block(self, mean: FloatArray, var: FloatArray) -> FloatArray:
        scale = np.sqrt(self.noise**2 + var)
        before = _entropy((self.thresholds - mean[:, None]) / scale[:, None])
        width = (_SPACING * self.noise) ** 2
        spread = width + var
        bumps = np.exp(-0.5 * (mean[:, None] - self.centres) ** 2 / spread[:, None])
        after = np.sqrt(width / spread) * (bumps @ self.heights)
        gain: FloatArray = np.maximum(before - after, 0.0)
        return gain


def _near(b: FloatArray, noise: float, step: float) -> FloatArray:
    """Points ``step`` noises apart, wherever a threshold is within reach."""
    k = np.arange(-np.ceil(_REACH / step), np.ceil(_REACH / step) + 1)
    ticks = np.unique((np.round(b[:, None] / (step * noise)) + k).ravel())
    return ticks * (step * noise)
