"""Likelihoods of graded comparisons: threshold models of a difference, symmetric about zero.

[Wang10]_ has two levels and the threshold 0; ties and grades add pairs of thresholds -c, +c. All
formulas are those of the threshold models; this module only maps their parameters.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from scipy.special import ndtri

from ordinalgp._typing import FINITE, POSITIVE, Axes, FloatArray, IntArray
from ordinalgp.core.likelihoods import OrdinalProbit, Smoothed, ThetaDerivatives, Thresholds
from ordinalgp.core.ordinal_logit import OrdinalLogit
from ordinalgp.persistence import saved_as

LEAST_CURVATURE = 1e-2
"""of an evidence in each parameter, most of them logarithms, where it tells nothing of them"""
_SLOPE_STEP = 0.02  # of a hyperparameter: slopes carry the tolerance of the inference
_FLAT = 1e-3  # smallest curvature of a maximum, after scaling to a diagonal of ones


@dataclass(frozen=True)
class SymmetricThresholds:
    """Level of a noisy difference u = f(left) - f(right), where swapping the sides swaps levels.

    theta = [log noise, log steps, bias / unit]. ``steps`` lead from zero outwards, one for each
    pair of thresholds; with an odd number of levels the first is half the width of the tie.
    ``bias`` is added to u, in favour of the left; it is in theta only if ``biased``.
    Subclasses name the threshold model, and its noise.
    """

    model: ClassVar[type[Thresholds]]
    noise_factor: ClassVar[float]
    """noise of a difference, in units of the noise of one item"""

    noise: Annotated[float, Axes("", *POSITIVE)]
    steps: Annotated[FloatArray, Axes("steps", *POSITIVE)]
    n_levels: Annotated[int, Axes(low=2)] = 2
    bias: Annotated[float, Axes("", *FINITE)] = 0.0
    biased: bool = False
    free_noise: bool = True
    unit: Annotated[float, Axes("", *POSITIVE)] = 1.0
    noise_bounds: tuple[float, float] | None = None

    @classmethod
    def restored(cls, **saved: Any) -> Self:
        """From a file: one step for each pair of thresholds."""
        if len(saved["steps"]) != (saved["n_levels"] - 1) // 2:
            raise ValueError("the likelihood and the levels disagree")
        return cls(**saved)

    @classmethod
    def from_counts(
        cls,
        counts: FloatArray,
        noise: float,
        latent_var: float = 1.0,
        *,
        biased: bool = False,
        free_noise: bool = True,
    ) -> Self:
        """Margins that give the observed frequencies of levels, both signs together, a priori."""
        r, unit = len(counts), float(np.sqrt(latent_var))
        even = (counts + counts[::-1]) / 2 + 0.5
        upper = np.cumsum(even / even.sum())[r // 2 : r - 1]
        sd = cls.model.noise_sd * cls.noise_factor * noise
        margins = np.hypot(sd, np.sqrt(2) * unit) * ndtri(np.minimum(upper, 1 - 1e-15))
        steps = np.maximum(np.diff(margins, prepend=0.0), 1e-3 * unit)
        return cls(noise, steps, r, biased=biased, free_noise=free_noise, unit=unit)

    @property
    def noise_place(self) -> int | None:
        """Place of log noise in theta; None where it is kept."""
        return 0 if self.free_noise else None

    @property
    def noise_unit(self) -> float:
        """The noise whose standard deviation is that of a utility at the start."""
        return float(np.sqrt(2)) * self.unit / (self.noise_factor * self.model.noise_sd)

    @property
    def margins(self) -> FloatArray:
        """Thresholds without the bias, shape (n_levels - 1,)."""
        outward = np.cumsum(self.steps)
        return np.concatenate([-outward[::-1], [0.0] * (1 - self.n_levels % 2), outward])

    @cached_property
    def spelled_out(self) -> Thresholds:
        """The same likelihood as a threshold model of the difference."""
        gaps = np.concatenate([self.steps[::-1], self.steps])
        if self.n_levels % 2:
            h = len(self.steps)
            gaps = np.concatenate([gaps[: h - 1], 2 * self.steps[:1], gaps[h + 1 :]])
        first = -float(np.sum(self.steps)) - self.bias
        noise = self.noise_factor * self.noise
        return self.model(noise, first, gaps, self.unit, self.noise_bounds)

    @property
    def theta(self) -> FloatArray:
        """[log noise if free, log steps, bias / unit if biased]."""
        noise = [np.log(self.noise)] if self.free_noise else []
        bias = [self.bias / self.unit] if self.biased else []
        return np.concatenate([noise, np.log(self.steps), bias])

    @property
    def scale_direction(self) -> FloatArray:
        """The change of theta that multiplies noise, steps and bias by one more factor."""
        bias = [self.bias / self.unit] if self.biased else []
        return np.concatenate([np.ones(len(self.theta) - len(bias)), bias])

    @property
    def bounds(self) -> FloatArray:
        """Search bounds of theta, shape (p, 2)."""
        noise, first, gaps = np.split(self.spelled_out.bounds, [1, 2])
        free = noise[: int(self.free_noise)], gaps[: len(self.steps)], first[: int(self.biased)]
        return np.concatenate(free)

    def clone_with_theta(self, theta: FloatArray) -> Self:
        """Return the same likelihood with other parameters."""
        start = int(self.free_noise)
        noise = float(np.exp(theta[0])) if self.free_noise else self.noise
        bias = float(theta[-1] * self.unit) if self.biased else self.bias
        steps = np.exp(theta[start : start + len(self.steps)])
        return replace(self, noise=noise, steps=steps, bias=bias)

    def jacobian(self) -> FloatArray:
        """d spelled_out.theta / d theta, (n_levels, p): every gap is a multiple of one step."""
        h, gaps = len(self.steps), self.spelled_out.gaps
        step_of_gap = np.abs(np.arange(len(gaps)) - (len(gaps) - 1) / 2).astype(int)
        columns = np.zeros((h, self.n_levels))
        columns[:, 1] = -self.steps / self.unit  # the first threshold is -sum(steps)
        columns[:, 2:] = step_of_gap == np.arange(h)[:, None]
        unit = np.eye(2, self.n_levels)
        noise, bias = unit[: int(self.free_noise)], -unit[1 : 1 + int(self.biased)]
        return np.concatenate([noise, columns, bias]).T

    def log_expectation(self, y: IntArray, mean: FloatArray, var: FloatArray) -> Smoothed:
        """Log probability of the levels ``y`` for u ~ N(mean, var); with two levels, (6)."""
        return self.spelled_out.log_expectation(y, mean, var)

    def theta_derivatives(
        self, y: IntArray, mean: FloatArray, var: FloatArray, known: Smoothed | None = None
    ) -> ThetaDerivatives:
        """Derivatives in theta, by the chain rule from those of the threshold model."""
        return self.chained(self.spelled_out.theta_derivatives(y, mean, var, known))

    def chained(self, inner: ThetaDerivatives) -> ThetaDerivatives:
        """Derivatives in theta, from those in theta of the threshold model."""
        J = self.jacobian().T
        return ThetaDerivatives(J @ inner.value, J @ inner.d1, J @ inner.d2)

    def probabilities(self, mean: FloatArray, var: FloatArray) -> FloatArray:
        """P(y) of every level for u ~ N(mean, var), shape (m, n_levels)."""
        return self.spelled_out.probabilities(mean, var)

    def of_rows(self, rows: Any) -> Self:
        """The same for all observations."""
        return self


@saved_as("likelihood.symmetric_probit")
class SymmetricProbit(SymmetricThresholds):
    """Normal noise of variance noise^2 per item, 2 noise^2 per difference: (2) of [Wang10]_."""

    model = OrdinalProbit
    noise_factor = float(np.sqrt(2))


@saved_as("likelihood.symmetric_logit")
class SymmetricLogit(SymmetricThresholds):
    """Gumbel noise of scale ``noise`` per item: logistic noise of that scale per difference.

    With two levels and noise 1 it is the pairwise likelihood of RankNet, section 4 of [Yu06]_, and
    the Bradley-Terry model.
    """

    model = OrdinalLogit
    noise_factor = 1.0


LIKELIHOODS = {"probit": SymmetricProbit, "logit": SymmetricLogit}
"""likelihoods of a comparison by name"""


def last_parameter_sd(
    evaluate: Callable[[FloatArray], tuple[float, FloatArray]], theta: FloatArray
) -> float:
    """Standard deviation of the last parameter under a normal density with this log curvature.

    The curvature is that of central differences of the slopes. Where it has no maximum in all
    parameters, as on a ridge, those before the last are held.
    """
    steps = _SLOPE_STEP * np.eye(len(theta))
    slopes = [[evaluate(theta + sign * step)[1] for sign in (1, -1)] for step in steps]
    curvature = -np.array([(up - down) / (2 * _SLOPE_STEP) for up, down in slopes])
    curvature = 0.5 * (curvature + curvature.T)
    scale = np.sqrt(np.maximum(np.diagonal(curvature), np.finfo(float).tiny))
    size, axes = np.linalg.eigh(curvature / np.outer(scale, scale))
    if size[0] > _FLAT:
        return float(np.sqrt(np.sum(axes[-1] ** 2 / size)) / scale[-1])
    return float(1.0 / scale[-1])
