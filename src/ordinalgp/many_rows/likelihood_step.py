"""Steps of noise and thresholds after a sweep, and with them of the scale and place of all.

The rows' part is a Newton step at fixed cavities. It alone would creep: when noise, thresholds and
latent function grow in proportion by c, no row's probability changes, so that rows hold each of
them where the others are, and only the prior tells the scale. That movement is therefore made by
all of them together, sites included. In the old units the prior of the inducing values becomes
N(0, I/c^2) and a residual r/c^2; with the sites held, sum of tau a a' = T and of nu a = s,

    E(c) = m log c - log |c^2 I + T| / 2 + s' (c^2 I + T)^-1 s / 2,

and the residuals' share is one more parameter, log c, of the rows' Newton step.

Nor does a row's probability change when thresholds and latent function are shifted by the same d.
With the sites carried along, nu + d tau, and sum of tau a = t,

    E(d) = (s + d t)' (I + T)^-1 (s + d t) / 2 - d sum of nu - d^2 sum of tau / 2,

a parabola, whose top is one step away.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from ordinalgp._typing import FloatArray
from ordinalgp.core.likelihoods import Thresholds
from ordinalgp.core.search import Trainable
from ordinalgp.many_rows.inducing import InducedPosterior, SweepSums

_REACH = 0.5  # of log c in one step


@dataclass(frozen=True, eq=False)
class LikelihoodStep:
    """A step of the likelihood, and of what moves with it."""

    change: FloatArray
    """of likelihood.theta, the shift in it, before the change of scale"""
    offset: float
    """d, by which thresholds and latent function are shifted together"""
    weight: FloatArray
    """t: the shift of the posterior grows by d t"""
    log_scale: float
    """log c, by which noise, thresholds and latent function then grow together"""
    gain: float
    """nats that all of it promises"""

    @classmethod
    def none(cls, p: int) -> "LikelihoodStep":
        """Stay, with p parameters."""
        return cls(np.zeros(p), 0.0, np.zeros(1), 0.0, 0.0)

    def part(self, share: float) -> "LikelihoodStep":
        """Some of the way."""
        moves = ("change", "offset", "log_scale")
        return replace(self, **{name: share * getattr(self, name) for name in moves})

    def carry(self, posterior: InducedPosterior) -> InducedPosterior:
        """The posterior after its sites moved along."""
        return posterior.shifted(self.offset * self.weight).rescaled(self.log_scale)


@dataclass(frozen=True, eq=False)
class ScaleEvidence:
    """E(c) of the module's text, as a function of x = log c."""

    values: FloatArray
    """eigenvalues of T"""
    shift: FloatArray
    """s in its eigenvectors"""

    @classmethod
    def of(cls, posterior: InducedPosterior) -> "ScaleEvidence":
        """With the sites of a posterior."""
        values, vectors = np.linalg.eigh(posterior.precision)
        return cls(np.maximum(values - 1.0, 0.0), posterior.shift @ vectors)

    @property
    def determined(self) -> float:
        """Number of inducing values that the rows determine rather than the prior."""
        return float(np.sum(self.values / (1.0 + self.values)))

    def value(self, x: float) -> float:
        """E, up to a constant."""
        total = np.exp(2.0 * x) + self.values
        return float(np.sum(x - 0.5 * np.log(total) + 0.5 * self.shift**2 / total))

    def slope(self, x: float) -> float:
        """dE/dx: the number of determined values less the squared length of the mean."""
        square = np.exp(2.0 * x)
        total = square + self.values
        return float(np.sum(self.values / total - square * (self.shift / total) ** 2))


@dataclass(frozen=True, eq=False)
class ShiftEvidence:
    """E(d) of the module's text: its slope at 0, and minus its second derivative."""

    weight: FloatArray
    slope: float
    curvature: float
    total: float
    """sum of tau, of which the curvature is what the prior leaves"""

    @classmethod
    def of(
        cls, sums: SweepSums, before: InducedPosterior, after: InducedPosterior
    ) -> "ShiftEvidence":
        """With the sites that a sweep found."""
        tau, nu, pull = sums.totals
        weight = before.factor @ sums.weight
        # Laplace's determinant changes with the mode, which lags behind the thresholds.
        slope = weight @ after.mean - nu + sums.pull @ sums.weight - pull
        curvature = tau - float(np.sum((after.inverse_factor @ weight) ** 2))
        return cls(weight, float(slope), curvature, float(tau))

    def best(self, reach: float) -> tuple[float, float]:
        """The shift within reach that maximises E, and what it gains."""
        if self.curvature <= 1e-8 * self.total:  # lost in rounding: no place is better
            return 0.0, 0.0
        d = float(np.clip(self.slope / self.curvature, -reach, reach))
        return d, self.slope * d - 0.5 * self.curvature * d**2


def with_prior(sums: SweepSums, task: Trainable) -> SweepSums:
    """Add the prior on a task's hyperparameters to the sums, as if it were one more row.

    Second derivatives are differences of slopes, as a prior has values and slopes only.
    """
    if task.hyperprior is None:
        return sums
    likelihood, p = task.likelihood, len(task.likelihood.theta)

    def slopes(theta: FloatArray) -> FloatArray:
        moved = likelihood.clone_with_theta(theta)
        return task.hyperprior.log_density(task.kernel, moved)[1][-p:]  # type: ignore[union-attr]

    at, steps = likelihood.theta, 1e-4 * np.eye(p)
    gradient = slopes(at)
    second = np.array([slopes(at - h) - slopes(at + h) for h in steps]) / 2e-4
    values, vectors = np.linalg.eigh((second + second.T) / 2)
    second = (vectors * np.maximum(values, 0.0)) @ vectors.T
    # log c moves log noise and log gaps by itself, the first threshold by as much as that is.
    moves = np.column_stack([np.eye(p), np.where(np.arange(p) == 1, at, 1.0)])
    first = np.array([second[1, 1] / likelihood.unit**2, -gradient[1] / likelihood.unit, 0.0])
    return replace(
        sums,
        evidence=sums.evidence + task.log_prior,
        slopes=sums.slopes + gradient @ moves,
        information=sums.information + moves.T @ second @ moves,
        totals=sums.totals + first,
    )


def likelihood_step(
    sums: SweepSums,
    likelihood: Thresholds,
    before: InducedPosterior,
    after: InducedPosterior,
    *,
    together: bool,
) -> LikelihoodStep:
    """Newton step of the likelihood's parameters at fixed cavities, and of what moves together.

    The sums are those of the posterior ``before`` the pass. Meanwhile the latent values have moved,
    and the slopes with them: without that the latent function and the thresholds would each follow
    where the other was. ``together``: whether shift and scale of everything move too.
    """
    offset = log_scale = more = most = 0.0
    shift = ShiftEvidence.of(sums, before, after)
    if together:
        offset, most = shift.best(max(likelihood.unit, likelihood.noise))
    moved = before.factor.T @ (after.mean - before.mean)
    slopes = sums.slopes + sums.coupling @ (moved + sums.pull)
    gradient = slopes[:-1]
    evidence = ScaleEvidence.of(after.shifted(offset * shift.weight))
    live = _live(gradient, sums, likelihood)
    # Noise that its bound holds stays there while the rest grows.
    turn = np.eye(len(slopes))
    turn[0, -1] = 0.0 if live[0] else -1.0
    slope, information = float(slopes @ turn[:, -1]), turn.T @ sums.information @ turn
    # Beside much noise the rows hardly tell the scale of noise and thresholds alone either.
    along = np.where(np.arange(len(gradient)) == 1, likelihood.theta, 1.0)[live]
    F = information[:-1, :-1][np.ix_(live, live)]
    F = F + evidence.determined * np.outer(along, along)
    cross = information[-1, :-1][live]
    newton, follow = np.linalg.lstsq(F, np.column_stack([gradient[live], cross]), rcond=1e-10)[0].T
    if together:
        # Laplace's determinant changes with the mode, which moves by -2 cov(u) mean.
        slope -= cross @ newton + 2.0 * sums.pull @ (before.inverse_factor @ before.mean)
        curvature = max(information[-1, -1] - cross @ follow, 0.0)
        noise = (newton[0], follow[0]) if live[0] else None
        reach = _scale_reach(likelihood, noise)
        log_scale, more = _best_scale(evidence, slope, curvature, reach)
    full = np.zeros((2, len(gradient)))
    full[:, live] = newton, newton - log_scale * follow
    alone, change = (_within(step, likelihood) for step in full)
    change[1] += offset / likelihood.unit
    change[0] += turn[0, -1] * log_scale
    gain = 0.5 * abs(float(alone @ gradient)) + more + most
    return LikelihoodStep(change, offset, shift.weight, log_scale, gain)


def _live(gradient: FloatArray, sums: SweepSums, likelihood: Thresholds) -> FloatArray:
    """Not a parameter that no row informs (an absent level), nor one held by its bound."""
    informed = np.diagonal(sums.information)[:-1]
    low, high = likelihood.bounds.T
    free = np.where(gradient < 0, likelihood.theta > low, likelihood.theta < high)
    return np.asarray(free & (informed > 1e-12 * np.max(informed)))


def _within(step: FloatArray, likelihood: Thresholds) -> FloatArray:
    """The step, within the bounds and not too long: the noise at most e-fold, and so on."""
    reach = np.ones_like(step)
    reach[1] = max(1.0, likelihood.noise / likelihood.unit)  # the first threshold is no logarithm
    step = step / max(1.0, float(np.max(np.abs(step / reach))))
    low, high = likelihood.bounds.T - likelihood.theta
    return np.clip(step, low, high)


def _scale_reach(likelihood: Thresholds, noise: tuple[float, float] | None) -> tuple[float, float]:
    """Range of x = log c in which log noise + a + x (1 - b), noise = (a, b), is in its bounds.

    Beyond it thresholds would grow without the noise: without signal, noise is at its upper bound.
    """
    if noise is None or noise[1] >= 1.0:  # held by its bound already, or falling as all grows
        return -_REACH, _REACH
    room = (likelihood.bounds[0] - likelihood.theta[0] - noise[0]) / (1.0 - noise[1])
    return max(-_REACH, min(room[0], 0.0)), min(_REACH, max(room[1], 0.0))


def _best_scale(
    evidence: ScaleEvidence, slope: float, curvature: float, reach: tuple[float, float]
) -> tuple[float, float]:
    """The x within reach that maximises E(x) + slope x - curvature x^2 / 2, and what it gains."""

    def uphill(x: float) -> float:
        return evidence.slope(x) + slope - curvature * x

    here = uphill(0.0)
    end = float(reach[1] if here > 0 else reach[0])
    x = end if here * uphill(end) >= 0 else float(brentq(uphill, 0.0, end, xtol=1e-8))
    gain = evidence.value(x) - evidence.value(0.0) + slope * x - 0.5 * curvature * x**2
    return (x, gain) if gain > 0 else (0.0, 0.0)
