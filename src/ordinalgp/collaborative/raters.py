"""What a rater owns: thresholds and noise, held together by a distribution that raters share.

A rater with many ratings has parameters of its own; one with few stays near the shared centre,
which is itself estimated from all raters. ``strength`` is worth about so many ratings.
"""

from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from scipy.optimize import minimize

from ordinalgp._typing import FloatArray
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.likelihoods import NOISE_BOUNDS, Gaussian, OrdinalProbit
from ordinalgp.core.problem import Approximation, Problem, Start, match

_STEPS = 4  # of one M-step; the next E-step moves the cavities anyway
_SHARES = (1.0, 0.5, 0.25, 0.125)  # of Newton's step, until the objective rises
_NOTHING = 1e-10  # an expected gain in log probability that rounding may hide


class RaterModel(Protocol):
    """How raters' own parameters are found, and what their common distribution says of them."""

    @property
    def strength(self) -> float:
        """How many ratings the common distribution is worth."""

    def begin(self, problem: Problem, last: Start | None) -> Start | None:
        """Where inference starts, given the rater's last sites."""

    def refit(self, problem: Problem, found: Approximation) -> Any:
        """The rater's next likelihood, given its posterior (M-step for theta_j)."""

    def step(self, problem: Problem, found: Approximation) -> Any:
        """A cheaper step in the same direction, for a rater alone."""

    def log_density(self, likelihood: Any) -> float:
        """Log density of a rater's parameters; 0 at the centre, constants left out."""

    def recentred(self, likelihoods: list[Any]) -> Self:
        """The same with the centre that suits all raters best."""


@dataclass(frozen=True, eq=False)
class _Look:
    """The penalised log probability of one rater's ratings at some theta, and its slopes."""

    theta: FloatArray
    value: float
    slopes: FloatArray
    """of each rating, (r, m)"""
    pull: FloatArray
    """slope of the penalty"""

    @property
    def slope(self) -> FloatArray:
        """Of all of it."""
        total: FloatArray = self.slopes.sum(axis=1) - self.pull
        return total


@dataclass(frozen=True, eq=False)
class SharedThresholds:
    """theta_j ~ N(theta_0, I / strength) for theta = [log noise, b_1, log gaps].

    Prior covariance, noise and thresholds share one scale, which log noise = 0 at the centre
    fixes: the typical rater has noise 1.
    """

    center: OrdinalProbit
    strength: float

    def begin(self, problem: Problem, last: Start | None) -> Start | None:
        """Warm start."""
        return last

    def refit(self, problem: Problem, found: Approximation) -> OrdinalProbit:
        """Climb the summed log Z_m at fixed cavities, less the distance from the centre.

        The slope of the first step is that of EP's evidence itself. The paper's expected log
        likelihood has the same fixed points up to EP's error, and needs quadrature.
        """
        at, bounds = found.at, self.center.bounds

        def loss(theta: FloatArray) -> tuple[float, FloatArray]:
            here = self._look(problem, at, theta)
            return -here.value, -here.slope

        start = np.clip(problem.likelihood.theta, bounds[:, 0], bounds[:, 1])
        options = {"maxiter": _STEPS}
        best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return self.center.clone_with_theta(best.x)

    def step(self, problem: Problem, found: Approximation) -> OrdinalProbit:
        """One damped Newton step of the same climb: a few evaluations, for a rater alone.

        The curvature is that of the penalty and of the ratings' own slopes. Without a penalty it
        may vanish in the direction of levels that the rater does not use: then, and where no share
        of the step climbs, it is :meth:`refit`.
        """
        if self.strength == 0.0:
            return self.refit(problem, found)
        lower, upper = self.center.bounds.T
        here = self._look(problem, found.at, np.clip(problem.likelihood.theta, lower, upper))
        curvature = here.slopes @ here.slopes.T + self.strength * np.eye(len(here.theta))
        step = np.linalg.solve(curvature, here.slope)
        if step @ here.slope <= _NOTHING:
            return self.center.clone_with_theta(here.theta)
        for share in _SHARES:
            theta = np.clip(here.theta + share * step, lower, upper)
            if self._look(problem, found.at, theta).value > here.value:
                return self.center.clone_with_theta(theta)
        return self.refit(problem, found)

    def _look(self, problem: Problem, at: Moments, theta: FloatArray) -> "_Look":
        """What is climbed, at theta."""
        likelihood, off = self.center.clone_with_theta(theta), theta - self.center.theta
        value, slopes = likelihood.value_and_slope(problem.y, at.mean, at.var)
        held = 0.5 * self.strength * (off @ off)
        return _Look(theta, float(value.sum() - held), slopes, self.strength * off)

    def log_density(self, likelihood: OrdinalProbit) -> float:
        """Minus half the squared distance from the centre, times strength."""
        off = likelihood.theta - self.center.theta
        return float(-0.5 * self.strength * (off @ off))

    def recentred(self, likelihoods: list[OrdinalProbit]) -> Self:
        """Mean of the raters' theta, with the noise kept at 1."""
        if self.strength == 0.0:
            return self
        theta = np.mean([likelihood.theta for likelihood in likelihoods], axis=0)
        theta[0] = 0.0
        return replace(self, center=self.center.clone_with_theta(theta))


@dataclass(frozen=True, eq=False)
class SharedNoise:
    """Each rater's noise as if it had ``strength`` more ratings of mean square ``center.noise``^2.

    All updates are exact, so EM never lowers the penalised log likelihood.
    """

    center: Gaussian
    strength: float

    def begin(self, problem: Problem, last: Start | None) -> Start:
        """The exact sites: a Gaussian likelihood is its own, wherever it is smoothed."""
        at = Moments(np.zeros(len(problem.y)), np.zeros(len(problem.y)))
        return Start(match(problem.smooth(at), at), at.mean)

    def refit(self, problem: Problem, found: Approximation) -> Gaussian:
        """Expected mean square of y - f over the rated items (section 3.1 of [Yu06]_)."""
        squares = np.sum((problem.y - found.marginal.mean) ** 2 + found.marginal.var)
        total = self.strength * self.center.noise**2 + squares
        return Gaussian(
            float(np.clip(np.sqrt(total / (self.strength + len(problem.y))), *NOISE_BOUNDS))
        )

    def step(self, problem: Problem, found: Approximation) -> Gaussian:
        """The same: it is cheap."""
        return self.refit(problem, found)

    def log_density(self, likelihood: Gaussian) -> float:
        """Strength / 2 (log q - q + 1) for q = center^2 / noise^2."""
        ratio = (self.center.noise / likelihood.noise) ** 2
        return float(0.5 * self.strength * (np.log(ratio) - ratio + 1.0))

    def recentred(self, likelihoods: list[Gaussian]) -> Self:
        """The harmonic mean of the raters' noise variances maximises their density."""
        if self.strength == 0.0:
            return self
        precision = np.mean([likelihood.noise**-2.0 for likelihood in likelihoods])
        return replace(self, center=Gaussian(float(precision**-0.5)))
