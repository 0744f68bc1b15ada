"""Likelihoods of one observation given its projected latent value.

A likelihood is one scalar function, log E[p(y|u)] for u ~ N(mean, var), with derivatives.
With ``var = 0`` it is the log likelihood itself (Laplace), with the cavity's moments EP's
tilted normaliser, with the predictive moments the log predictive probability.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Protocol, Self

import numpy as np
from scipy.special import ndtr, ndtri

from ordinalgp._typing import FINITE, POSITIVE, Axes, FloatArray, IntArray
from ordinalgp.core.truncated_normal import Interval, cut_normal, hermite

# Search bounds in natural units; wide enough that a unit-variance latent never meets them
# unless the data leave a parameter undetermined (an absent level, separable classes).
NOISE_BOUNDS = (1e-3, 1e3)
THRESHOLD_BOUNDS = (-1e3, 1e3)
GAP_BOUNDS = (1e-6, 1e3)
_NARROW_GAP = 1e-4  # in units of the noise
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Smoothed:
    """log E[p(y|u)] and its derivatives in the mean, each of shape (m,)."""

    value: FloatArray
    d1: FloatArray
    d2: FloatArray
    d3: FloatArray


@dataclass(frozen=True)
class ThetaDerivatives:
    """Derivatives in theta of ``value``, ``d1`` and ``d2``, each of shape (p, m)."""

    value: FloatArray
    d1: FloatArray
    d2: FloatArray


@dataclass(frozen=True)
class ExpectedLog:
    """E[log p(y|u)] for u ~ N(mean, var), with derivatives in mean, var and theta."""

    value: FloatArray
    d_mean: FloatArray
    d_var: FloatArray
    d_theta: FloatArray


class Likelihood(Protocol):
    """Everything that inference asks of a likelihood.

    Estimators of ordered levels ask for more, :class:`OrdinalLikelihood`, and inducing points for
    a threshold model, :class:`Thresholds`.
    """

    @property
    def theta(self) -> FloatArray:
        """Unconstrained parameters, the twin of ``kernel.theta``."""

    @property
    def bounds(self) -> FloatArray:
        """Search bounds of ``theta``, shape (p, 2)."""

    def clone_with_theta(self, theta: FloatArray) -> Self:
        """Return the same likelihood with other parameters."""

    @abstractmethod
    def log_expectation(self, y: Any, mean: FloatArray, var: FloatArray) -> Smoothed:
        """Log E[p(y|u)] with derivatives in ``mean``."""

    @abstractmethod
    def theta_derivatives(
        self, y: Any, mean: FloatArray, var: FloatArray, known: Smoothed | None = None
    ) -> ThetaDerivatives:
        """Differentiate ``value``, ``d1`` and ``d2`` in ``theta``; ``known`` are these three."""

    def of_rows(self, rows: Any) -> Self:
        """The likelihood of some observations: itself, unless it knows each by its place."""
        return self


class OrdinalLikelihood(Likelihood, Protocol):
    """Everything that estimators ask of the likelihood of ordered levels 0, 1, ..., r - 1."""

    @property
    def n_levels(self) -> int:
        """Number r of levels."""

    @property
    def thresholds(self) -> FloatArray:
        """Cuts between the levels on the latent scale, shape (r - 1,)."""

    @property
    def noise(self) -> float:
        """Scale of the noise added to the latent function."""

    def probabilities(self, mean: FloatArray, var: FloatArray) -> FloatArray:
        """P(y) of every level for u ~ N(mean, var), shape (m, r)."""


_MEMBERS = (*vars(Likelihood), *vars(OrdinalLikelihood))
ORDINAL_MEMBERS = [name for name in _MEMBERS if not name.startswith("_")]
"""names that an ordinal likelihood has"""


def expected_log(
    likelihood: Likelihood, y: Any, mean: FloatArray, var: FloatArray, order: int = 32
) -> ExpectedLog:
    """E[log p(y|u)] by Gauss-Hermite quadrature, as in App. C of [Chu05]_."""
    nodes, log_weights = hermite(order)
    sd = np.sqrt(var)
    u = mean + nodes[:, None] * sd
    ys, flat = np.tile(y, order), u.ravel()
    likelihood = likelihood.of_rows(np.tile(np.arange(len(y)), order))
    point = likelihood.log_expectation(ys, flat, np.zeros_like(flat))
    theta = np.asarray(likelihood.theta_derivatives(ys, flat, np.zeros_like(flat)).value)
    weights = np.exp(log_weights)
    d1, d2 = point.d1.reshape(u.shape), point.d2.reshape(u.shape)
    # The slope of the rule itself; E[d2]/2 is its limit where the spread vanishes.
    wide = sd > 1e-6
    d_var = np.where(wide, (weights * nodes) @ d1 / np.where(wide, sd, 1.0), weights @ d2) / 2
    d_theta = np.einsum("k,pkm->pm", weights, theta.reshape(-1, *u.shape))
    return ExpectedLog(weights @ point.value.reshape(u.shape), weights @ d1, d_var, d_theta)


def fourth_derivative(
    likelihood: Likelihood, y: Any, mean: FloatArray, var: FloatArray, h: FloatArray
) -> FloatArray:
    """Fourth derivative of log E[p(y|u)] in the mean, as the slope of the third over steps h."""
    up, down = (likelihood.log_expectation(y, mean + step, var).d3 for step in (h, -h))
    return (up - down) / (2 * h)


def variance_slopes(at: Smoothed, d4: FloatArray | float) -> ThetaDerivatives:
    """Derivatives in ``var`` of ``value``, ``d1`` and ``d2``, each of shape (1, m).

    E[p] solves the heat equation, dE/dvar = d2E/dmean2 / 2, so that three derivatives in the
    mean are enough for the first two; the last asks for the fourth, ``d4``.
    """
    d1, d2, d3 = at.d1, at.d2, at.d3
    slopes = d2 + d1**2, d3 + 2 * d1 * d2, d4 + 2 * d1 * d3 + 2 * d2**2
    return ThetaDerivatives(*(0.5 * slope[None] for slope in slopes))


@dataclass(frozen=True)
class Thresholds(Likelihood):
    """Base class of threshold models: noise and b_1 < ... < b_{r-1}, packed as in App. A.

    theta = [log noise, b_1 / unit, log gaps]. The gaps are kept, not their sums: a narrow
    level's width would be lost in the difference of two thresholds. ``unit`` is the prior
    standard deviation of the latent function, 1 by default; search bounds are in it.
    """

    noise: Annotated[float, Axes("", *POSITIVE)]
    first: Annotated[float, Axes("", *FINITE)]
    gaps: Annotated[FloatArray, Axes("gaps", *POSITIVE)]
    unit: Annotated[float, Axes("", *POSITIVE)] = 1.0
    noise_bounds: tuple[float, float] | None = None
    """search bounds of the noise, in ``unit``; None: NOISE_BOUNDS"""
    noise_sd: ClassVar[float] = 1.0
    """standard deviation of the noise whose scale is 1"""
    noise_place: ClassVar[int] = 0
    """place of log noise in theta"""

    @property
    def noise_unit(self) -> float:
        """The noise whose standard deviation is that of the latent function at the start."""
        return self.unit / self.noise_sd

    @property
    def gaps_place(self) -> slice:
        """Place of the log gaps in theta."""
        return slice(2, 2 + len(self.gaps))

    @classmethod
    def from_counts(cls, counts: FloatArray, noise: float = 1.0, latent_var: float = 1.0) -> Self:
        """Thresholds that give the observed level frequencies under the prior, for normal noise."""
        share = np.cumsum((counts + 0.5) / np.sum(counts + 0.5))[:-1]
        share = np.clip(share, 1e-15, 1 - 1e-15)  # huge weights round the rest away
        unit = float(np.sqrt(latent_var))
        b = np.hypot(cls.noise_sd * noise, unit) * ndtri(share)
        return cls(noise, float(b[0]), np.maximum(np.diff(b), GAP_BOUNDS[0] * unit), unit)

    @classmethod
    def from_thresholds(cls, thresholds: Any, noise: float, unit: float = 1.0) -> Self:
        """Build from increasing ``thresholds`` of shape (r - 1,)."""
        b = np.asarray(thresholds, dtype=float)
        return cls(float(noise), float(b[0]), np.diff(b), unit)

    @classmethod
    def paper_start(cls, n_levels: int) -> Self:
        """Start as footnote 6 of [Chu05]_: noise 1, b_1 = -1, gaps 2/r."""
        return cls(1.0, -1.0, np.full(n_levels - 2, 2.0 / n_levels))

    @property
    def n_levels(self) -> int:
        """Number r of levels."""
        return len(self.gaps) + 2

    @property
    def thresholds(self) -> FloatArray:
        """b_1 < ... < b_{r-1}."""
        return self.first + np.concatenate([[0.0], np.cumsum(self.gaps)])

    @property
    def theta(self) -> FloatArray:
        """[log noise, b_1 / unit, log gaps], shape (r,)."""
        return np.concatenate([[np.log(self.noise), self.first / self.unit], np.log(self.gaps)])

    @property
    def bounds(self) -> FloatArray:
        """Search bounds of theta, shape (r, 2)."""
        scale = np.log(self.unit)
        gaps = [np.log(GAP_BOUNDS) + scale] * len(self.gaps)
        noise = np.log(self.noise_bounds or NOISE_BOUNDS)
        return np.array([noise + scale, THRESHOLD_BOUNDS, *gaps])

    def clone_with_theta(self, theta: FloatArray) -> Self:
        """Return the same model with other parameters."""
        noise, first = float(np.exp(theta[0])), float(theta[1] * self.unit)
        return replace(self, noise=noise, first=first, gaps=np.exp(theta[2:]))

    def rescaled(self, log_scale: float) -> Self:
        """Noise and thresholds times exp(log_scale); the unit stays."""
        c = float(np.exp(log_scale))
        return replace(self, noise=c * self.noise, first=c * self.first, gaps=c * self.gaps)

    def edges(
        self, y: IntArray, mean: FloatArray, scale: FloatArray | float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Standardised lower edge, upper edge and width of each level ``y``."""
        lower, upper, widths = self._levels
        return (lower[y] - mean) / scale, (upper[y] - mean) / scale, widths[y] / scale

    @cached_property
    def _levels(self) -> FloatArray:
        """Lower edge, upper edge and width of every level, (3, r)."""
        b, ends = self.thresholds, [np.inf]
        lower, upper = np.concatenate([[-np.inf], b]), np.concatenate([b, ends])
        return np.array([lower, upper, np.concatenate([ends, self.gaps, ends])])

    def pack(
        self, y: IntArray, d_lo: FloatArray, d_hi: FloatArray, d_log_noise: FloatArray
    ) -> FloatArray:
        """Chain derivatives in the two edges to theta, shape (r, m)."""
        out = np.empty((self.n_levels, len(y)))
        out[0] = d_log_noise
        out[1] = self.unit * (d_lo + d_hi)
        # Gap j moves every threshold above it: the upper edge of levels above j,
        # the lower edge of those above j + 1.
        j = np.arange(len(self.gaps))[:, None]
        out[2:] = self.gaps[:, None] * ((y > j) * d_hi + (y > j + 1) * d_lo)
        return out

    def probabilities(self, mean: FloatArray, var: FloatArray) -> FloatArray:
        """P(y) of every level, shape (m, r): eq. (18) of [Chu05]_.

        The smallest normal number stands for what underflows: no level is impossible.
        """
        r, m = self.n_levels, len(mean)
        levels = np.tile(np.arange(r), m)
        log_p = self.log_expectation(levels, np.repeat(mean, r), np.repeat(var, r)).value
        log_p = log_p.reshape(m, r)
        p: FloatArray = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        return np.maximum(p / p.sum(axis=1, keepdims=True), _TINY)

    def variance_derivatives(
        self, y: IntArray, mean: FloatArray, var: FloatArray, known: Smoothed | None = None
    ) -> ThetaDerivatives:
        """Derivatives in ``var`` of ``value``, ``d1`` and ``d2``, each of shape (1, m)."""
        at = self.log_expectation(y, mean, var) if known is None else known
        h = 1e-4 * np.sqrt(self.noise**2 + var)
        return variance_slopes(at, fourth_derivative(self, y, mean, var, h))


class SmoothedProbit(Smoothed):
    """Smoothed ordinal probit; sweeps of EP need no third derivative."""

    cut: Interval
    scale: FloatArray
    """standard deviation of noise and smoothing"""

    def __init__(self, cut: Interval, scale: FloatArray) -> None:
        d1 = cut.mean / scale
        d2 = cut.information / scale
        d2 /= -scale
        vars(self).update(d1=d1, d2=d2, cut=cut, scale=scale)

    @property
    def value(self) -> FloatArray:
        """Log of the smoothed likelihood."""
        return self.cut.log_mass

    @cached_property
    def d3(self) -> FloatArray:
        """The third derivative in the mean."""
        return self.cut.third / self.scale**3


class _ProbitThetaDerivatives(ThetaDerivatives):
    """Derivatives in theta; EP needs only those of the value."""

    def __init__(self, link: "OrdinalProbit", y: IntArray, at: SmoothedProbit) -> None:
        vars(self).update(link=link, y=y, at=at)

    link: "OrdinalProbit"
    y: IntArray
    at: SmoothedProbit

    @cached_property
    def value(self) -> FloatArray:
        """That of the log mass: the densities at the edges."""
        cut, s = self.at.cut, self.at.scale
        share = self.link.noise**2 / (s * s)  # d log s / d log noise
        noise = share * (cut.mean * cut.mean - cut.information)
        return self.link.pack(self.y, -cut.lo_density / s, cut.hi_density / s, noise)

    @cached_property
    def d1(self) -> FloatArray:
        """That of the mean of the cut variable: mass added at an edge moves it."""
        cut, s = self.at.cut, self.at.scale
        share = self.link.noise**2 / s**3
        noise = share * (cut.third - 2 * cut.mean * cut.information)
        by_lo, by_hi = cut.lo_density * cut.below / s**2, cut.hi_density * cut.above / s**2
        return self.link.pack(self.y, by_lo, by_hi, noise)

    @cached_property
    def d2(self) -> FloatArray:
        """That of its variance."""
        cut, s = self.at.cut, self.at.scale
        lo_var = -cut.lo_density * (cut.below**2 - cut.var)
        hi_var = cut.hi_density * (cut.above**2 - cut.var)
        stretch = (cut.mean - cut.below) * lo_var + (cut.mean + cut.above) * hi_var
        noise = self.link.noise**2 / s**4 * (2 * cut.information - stretch)
        return self.link.pack(self.y, lo_var / s**3, hi_var / s**3, noise)


class OrdinalProbit(Thresholds):
    """P(y|u) = Phi((b_y - u)/noise) - Phi((b_{y-1} - u)/noise): eq. (5) of [Chu05]_."""

    def variance_derivatives(
        self, y: IntArray, mean: FloatArray, var: FloatArray, known: Smoothed | None = None
    ) -> ThetaDerivatives:
        """Variance acts as noise^2 does, whose logarithm is twice the first parameter."""
        found, scale = self.theta_derivatives(y, mean, var, known), 1.0 / (2.0 * self.noise**2)
        return ThetaDerivatives(*(scale * d[:1] for d in (found.value, found.d1, found.d2)))

    def log_expectation(self, y: IntArray, mean: FloatArray, var: FloatArray) -> Smoothed:
        """Log probability that N(mean, var + noise^2) falls between the thresholds of y.

        With ``var = 0`` this is eq. (5) of [Chu05]_, with derivatives (6) and (7);
        with the predictive variance, eq. (18). ``y`` holds codes 0..r-1, all shapes (m,).
        """
        return self._smoothed(y, mean, var)

    def _smoothed(
        self, y: IntArray, mean: FloatArray, var: FloatArray, known: Smoothed | None = None
    ) -> SmoothedProbit:
        if isinstance(known, SmoothedProbit):
            return known
        s = np.sqrt(var + self.noise**2)
        edges = self._levels.take(y, axis=1)  # and widths
        edges[:2] -= mean
        edges /= s
        return SmoothedProbit(cut_normal(*edges), s)

    def probabilities(self, mean: FloatArray, var: FloatArray) -> FloatArray:
        """P(y) of every level, shape (m, r): eq. (18) of [Chu05]_.

        Differences of the smaller tails, which cost a third of exact logarithms.
        """
        if self.n_levels > 2 and self.gaps.min() < _NARROW_GAP * self.noise:
            return super().probabilities(mean, var)  # here they would leave few digits
        z = (self.thresholds[:, None] - mean) / np.sqrt(var + self.noise**2)
        below, above = ndtr(z), ndtr(-z)
        p = np.empty((self.n_levels, len(mean)))
        p[0], p[-1] = below[0], above[-1]
        right = z[:-1] + z[1:] > 0
        p[1:-1] = np.where(right, above[:-1] - above[1:], below[1:] - below[:-1])
        p /= p.sum(axis=0)
        return np.ascontiguousarray(np.maximum(p, _TINY).T)

    def value_and_slope(
        self, y: IntArray, mean: FloatArray, var: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Log E[p(y|u)], shape (m,), and its derivatives in theta, (r, m), from one cut."""
        at = self._smoothed(y, mean, var)
        return at.value, _ProbitThetaDerivatives(self, y, at).value

    def theta_derivatives(
        self, y: IntArray, mean: FloatArray, var: FloatArray, known: Smoothed | None = None
    ) -> ThetaDerivatives:
        """Derivatives in theta, App. A of [Chu05]_: mass added at an edge moves the moments."""
        return _ProbitThetaDerivatives(self, y, self._smoothed(y, mean, var, known))

    def threshold_curvature(
        self, y: IntArray, mean: FloatArray, counts: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Minus the second derivatives of sum counts log p(y|u): in the thresholds, and with u.

        Shapes (r - 1, r - 1) and (r - 1, m). To first order in theta, as in Gauss-Newton, so that
        the first is positive semi-definite: log p is concave in u and the edges together.
        """
        at = self._smoothed(y, mean, np.zeros_like(mean))
        cut, s = at.cut, at.scale
        lo, hi = cut.lo_density, cut.hi_density
        lo_lo, hi_hi = lo * (lo - (cut.mean - cut.below)), hi * (hi + (cut.mean + cut.above))
        zero, scale = np.zeros_like(mean), counts / s**2
        to_lo, to_hi = (self.pack(y, *d, zero)[1:] for d in ((1 - zero, zero), (zero, 1 - zero)))
        back_lo = to_lo * lo_lo - to_hi * (lo * hi)
        back_hi = to_hi * hi_hi - to_lo * (lo * hi)
        curvature = (scale * back_lo) @ to_lo.T + (scale * back_hi) @ to_hi.T
        return curvature, -scale * (back_lo + back_hi)


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """p(y|u) = N(y; u, noise^2); theta = [log noise]."""

    noise: Annotated[float, Axes("", *POSITIVE)]

    @property
    def theta(self) -> FloatArray:
        """[log noise]."""
        return np.array([np.log(self.noise)])

    @property
    def bounds(self) -> FloatArray:
        """Search bounds of theta, shape (1, 2)."""
        return np.array([np.log(NOISE_BOUNDS)])

    def clone_with_theta(self, theta: FloatArray) -> Self:
        """Return the same likelihood with other noise."""
        return type(self)(float(np.exp(theta[0])))

    def log_expectation(self, y: FloatArray, mean: FloatArray, var: FloatArray) -> Smoothed:
        """Log density of y under N(mean, var + noise^2)."""
        precision = 1 / (self.noise**2 + var)
        d1 = (y - mean) * precision
        value = 0.5 * (np.log(precision / (2 * np.pi)) - d1 * (y - mean))
        return Smoothed(value, d1, -precision * np.ones_like(d1), np.zeros_like(d1))

    def theta_derivatives(
        self, y: FloatArray, mean: FloatArray, var: FloatArray, known: Smoothed | None = None
    ) -> ThetaDerivatives:
        """Noise acts as variance: d/d log noise = 2 noise^2 d/d var."""
        at = self.log_expectation(y, mean, var) if known is None else known
        found, chain = variance_slopes(at, 0.0), 2.0 * self.noise**2
        return ThetaDerivatives(*(chain * d for d in (found.value, found.d1, found.d2)))
