"""Parameters of single raters: thresholds and noise, with a distribution that all raters share.

A rater with many ratings has parameters of its own. One with few stays near the common centre,
which is estimated from all raters. ``strength`` counts about as much as so many ratings. Both
classes here have the same methods: updates of one rater's parameters, and of the centre.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.optimize import minimize

from ordinalgp._typing import FloatArray
from ordinalgp.core.gaussian import Moments, Sites
from ordinalgp.core.likelihoods import NOISE_BOUNDS, Gaussian, OrdinalProbit
from ordinalgp.core.problem import Approximation, Problem, match

_M_STEP_ITERATIONS = 4  # of L-BFGS-B per M-step; the next E-step moves the cavities anyway
_NEWTON_STEP_LENGTHS = (1.0, 0.5, 0.25, 0.125)  # tried until the objective rises
_SMALLEST_GAIN = 1e-10  # expected gain in log probability that rounding may hide


@dataclass(frozen=True, eq=False)
class _PenalisedValue:
    """Penalised log probability of one rater's ratings at some theta, and its slopes."""

    theta: FloatArray
    value: float
    slopes: FloatArray
    """of each rating, (r, m)"""
    penalty_slope: FloatArray

    @property
    def slope(self) -> FloatArray:
        """Slope of the value."""
        total: FloatArray = self.slopes.sum(axis=1) - self.penalty_slope
        return total


@dataclass(frozen=True, eq=False)
class SharedThresholds:
    """theta_j ~ N(theta_0, I / strength) for theta = [log noise, b_1, log gaps].

    Prior covariance, noise and thresholds share one scale. It is fixed by log noise = 0 at the
    centre: the typical rater has noise 1.
    """

    center: OrdinalProbit
    strength: float

    def first_sites(self, problem: Problem, last: Sites | None) -> Sites | None:
        """Sites from which inference starts: the rater's last ones."""
        return last

    def m_step(self, problem: Problem, found: Approximation) -> OrdinalProbit:
        """Maximise the summed log Z_m at fixed cavities, less the distance from the centre.

        The slope of the first step is that of EP's evidence itself. The paper's expected log
        likelihood has the same fixed points up to EP's error, and needs quadrature.
        """
        at, bounds = found.at, self.center.bounds

        def loss(theta: FloatArray) -> tuple[float, FloatArray]:
            here = self._evaluate(problem, at, theta)
            return -here.value, -here.slope

        start = np.clip(problem.likelihood.theta, bounds[:, 0], bounds[:, 1])
        options = {"maxiter": _M_STEP_ITERATIONS}
        best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return self.center.clone_with_theta(best.x)

    def single_step(self, problem: Problem, found: Approximation) -> OrdinalProbit:
        """One damped Newton step on the objective of :meth:`m_step`: a few evaluations.

        The curvature is that of the penalty and of the ratings' own slopes. Without a penalty it
        may vanish in the direction of levels that the rater does not use. Then, and where no
        step length raises the objective, it is :meth:`m_step`.
        """
        if self.strength == 0.0:
            return self.m_step(problem, found)
        lower, upper = self.center.bounds.T
        here = self._evaluate(problem, found.at, np.clip(problem.likelihood.theta, lower, upper))
        curvature = here.slopes @ here.slopes.T + self.strength * np.eye(len(here.theta))
        step = np.linalg.solve(curvature, here.slope)
        if step @ here.slope <= _SMALLEST_GAIN:
            return self.center.clone_with_theta(here.theta)
        for length in _NEWTON_STEP_LENGTHS:
            theta = np.clip(here.theta + length * step, lower, upper)
            if self._evaluate(problem, found.at, theta).value > here.value:
                return self.center.clone_with_theta(theta)
        return self.m_step(problem, found)

    def _evaluate(self, problem: Problem, at: Moments, theta: FloatArray) -> _PenalisedValue:
        likelihood, off = self.center.clone_with_theta(theta), theta - self.center.theta
        value, slopes = likelihood.value_and_slope(problem.y, at.mean, at.var)
        penalty = 0.5 * self.strength * (off @ off)
        return _PenalisedValue(theta, float(value.sum() - penalty), slopes, self.strength * off)

    def log_density(self, likelihood: OrdinalProbit) -> float:
        """Log density of a rater's parameters, without constants: 0 at the centre."""
        off = likelihood.theta - self.center.theta
        return float(-0.5 * self.strength * (off @ off))

    def with_center_of(self, likelihoods: list[OrdinalProbit]) -> Self:
        """Centre at the mean of the raters' theta, with the noise kept at 1."""
        if self.strength == 0.0:
            return self
        theta = np.mean([likelihood.theta for likelihood in likelihoods], axis=0)
        theta[0] = 0.0
        return replace(self, center=self.center.clone_with_theta(theta))


@dataclass(frozen=True, eq=False)
class SharedNoise:
    """Noise of each rater as if it had ``strength`` more ratings of mean square center.noise^2.

    CGPR of [Yu06]_ has one noise variance for all users; here each rater has its own. All updates
    are exact, so EM never lowers the penalised log likelihood.
    """

    center: Gaussian
    strength: float

    def first_sites(self, problem: Problem, last: Sites | None) -> Sites:
        """The exact sites: a Gaussian likelihood is its own site."""
        at = Moments(np.zeros(len(problem.y)), np.zeros(len(problem.y)))
        return match(problem.smooth(at), at)

    def m_step(self, problem: Problem, found: Approximation) -> Gaussian:
        """Expected mean square of y - f over the rated items (section 3.1 of [Yu06]_)."""
        squares = np.sum((problem.y - found.marginal.mean) ** 2 + found.marginal.var)
        total = self.strength * self.center.noise**2 + squares
        return Gaussian(
            float(np.clip(np.sqrt(total / (self.strength + len(problem.y))), *NOISE_BOUNDS))
        )

    def single_step(self, problem: Problem, found: Approximation) -> Gaussian:
        """The M-step itself, which is cheap."""
        return self.m_step(problem, found)

    def log_density(self, likelihood: Gaussian) -> float:
        """strength / 2 (log q - q + 1) for q = center^2 / noise^2."""
        ratio = (self.center.noise / likelihood.noise) ** 2
        return float(0.5 * self.strength * (np.log(ratio) - ratio + 1.0))

    def with_center_of(self, likelihoods: list[Gaussian]) -> Self:
        """Centre at the harmonic mean of the raters' noise variances."""
        if self.strength == 0.0:
            return self
        precision = np.mean([likelihood.noise**-2.0 for likelihood in likelihoods])
        return replace(self, center=Gaussian(float(precision**-0.5)))


RaterDistribution = SharedThresholds | SharedNoise
"""common distribution of the raters' parameters"""
