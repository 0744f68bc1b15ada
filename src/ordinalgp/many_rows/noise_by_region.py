"""Predictive distributions that are wider where the rows near by were hard to predict.

One noise for all rows is too small in some regions and too large in others, and a few rows lie
further out than a normal distribution allows. Leave-one-out predictions show both, at no cost. So
the sum of latent value and noise, which is N(m, s^2) to the model, becomes

    m + c s T,    T with Student's t distribution of ``dof`` degrees of freedom.

A common log c and ``dof`` maximise the leave-one-out probability of all rows. In each place, the
nearest rows then move log c by one Newton step, from their slopes and curvatures, against a prior
that has the curvature of ``PRIOR_ROWS`` rows.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr, stdtr
from scipy.stats import t

from ordinalgp._typing import FINITE, POSITIVE, Axes, FloatArray, IntArray
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.likelihoods import Thresholds
from ordinalgp.persistence import saved_as

PRIOR_ROWS = 50.0
_STEP = 0.5  # of log c, in which slopes and curvatures are measured
_FARTHEST = 1.5  # of log c from the common one
_DOF = (2.0, 100.0)  # of which the last is as good as normal
_LOG_C = (-2.0, 2.0)
_NARROW = 1e-4  # levels of which the density is as good as constant, to nine digits
_SAMPLE = 20_000  # observations that tell the common values


@saved_as("neighbours.noise")
@dataclass(frozen=True, eq=False)
class NoiseByRegion:
    """Student's t in place of the normal distribution, with a scale that differs by region."""

    log_scale: Annotated[float, Axes("", *FINITE)]
    """the common log c"""
    dof: Annotated[float, Axes("", *POSITIVE)]
    slopes: Annotated[FloatArray, Axes("M", *FINITE)]
    """of the log probability of each observation in log c"""
    curvatures: Annotated[FloatArray, Axes("M", *FINITE)]

    @classmethod
    def learn(cls, likelihood: Thresholds, left: Moments, y: IntArray, counts: FloatArray) -> Self:
        """Learn from observations, each predicted from the others by ``left``."""
        some = np.unique(np.linspace(0, len(y) - 1, min(len(y), _SAMPLE)).astype(np.intp))
        part, known = Moments(left.mean[some], left.var[some]), counts[some]

        def loss(at: FloatArray) -> float:
            logs = log_probability(likelihood, part, y[some], at[0], np.exp(at[1]))
            return float(-(known @ logs) / known.sum())

        bounds = [_LOG_C, tuple(np.log(_DOF))]
        found = minimize(loss, [0.0, np.log(10.0)], bounds=bounds, method="L-BFGS-B")
        log_scale, dof = float(found.x[0]), float(np.exp(found.x[1]))
        steps = (log_scale + step for step in (-_STEP, 0.0, _STEP))
        low, mid, high = (log_probability(likelihood, left, y, each, dof) for each in steps)
        return cls(log_scale, dof, (high - low) / (2 * _STEP), (2 * mid - low - high) / _STEP**2)

    @property
    def typical(self) -> float:
        """Mean curvature of a row, above zero."""
        return max(float(np.mean(self.curvatures)), np.finfo(float).tiny)

    def log_scales(self, slopes: FloatArray, curvatures: FloatArray) -> FloatArray:
        """Log c of places whose near rows have these sums of slopes and curvatures."""
        # Far from its maximum the log probability of a row may curve upwards.
        held = np.maximum(curvatures, 0.0) + PRIOR_ROWS * self.typical
        return self.log_scale + np.clip(slopes / held, -_FARTHEST, _FARTHEST)

    def probabilities(
        self, likelihood: Thresholds, at: Moments, log_scales: FloatArray
    ) -> FloatArray:
        """Probability of every level, (m, r)."""
        r, m = likelihood.n_levels, len(at.mean)
        each = Moments(np.repeat(at.mean, r), np.repeat(at.var, r))
        levels, scales = np.tile(np.arange(r), m), np.repeat(log_scales, r)
        found = np.exp(log_probability(likelihood, each, levels, scales, self.dof)).reshape(m, r)
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def draws(
        self,
        likelihood: Thresholds,
        mean: FloatArray,
        moves: FloatArray,
        log_scales: FloatArray,
        rng: Any,
    ) -> FloatArray:
        """Probabilities of the levels under draws of the latent function, (n, m, r).

        ``moves`` are draws of its difference to the mean, (n, m). Student's t is a normal
        distribution whose precision was drawn from a gamma distribution.
        """
        precision = rng.gamma(self.dof / 2, 2 / self.dof, size=moves.shape)
        scale = np.exp(log_scales) / np.sqrt(precision)
        f, sd = mean + scale * moves, scale * likelihood.noise
        below = ndtr((likelihood.thresholds - f[..., None]) / sd[..., None])
        ends = np.zeros((*f.shape, 1)), np.ones((*f.shape, 1))
        return np.diff(np.concatenate([ends[0], below, ends[1]], axis=-1), axis=-1)


def log_probability(
    likelihood: Thresholds, at: Moments, y: IntArray, log_scale: FloatArray | float, dof: float
) -> FloatArray:
    """Log probability of the levels ``y`` under Student's t, (m,)."""
    scale = np.sqrt(at.var + likelihood.noise**2) * np.exp(log_scale)
    low, high, width = likelihood.edges(y, at.mean, scale)
    # On the lower side neither term is close to one.
    flip = low + high > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    mass = stdtr(dof, high) - stdtr(dof, low)
    narrow = width < _NARROW
    mass[narrow] = width[narrow] * t.pdf(0.5 * (low + high)[narrow], dof)
    return np.log(np.maximum(mass, np.finfo(float).tiny))
