"""Add, re-estimate and delete basis functions at fixed curvature (section 4.3 of [Li18]_).

At the mode of the weights the log likelihood is replaced by its quadratic expansion, with
curvatures H = diag(counts * tau) and slopes delta. The evidence of the weights' precisions alpha is
then that of a linear Gaussian model. Its targets are t = Phi w + H^-1 delta. Their covariance is
C = H^-1 + Phi A^-1 Phi'; eq. (17) prints alpha for 1/alpha. The best alpha of one basis function,
all others fixed, has a closed form. An infinite alpha means that the function is not in the model.

Differences of nearly equal numbers are avoided. Slopes are taken relative to the expansion point.
Inside the model S = alpha (1 - beta), where beta = alpha Sigma_jj comes from a matrix whose
eigenvalues are at least one.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ordinalgp._typing import BoolArray, FloatArray, IntArray
from ordinalgp.core.linalg import Triangle

ADD, RE_ESTIMATE, DELETE = "add", "re-estimate", "delete"
# Precisions stay in this range: below, weights of a million times the noise that nearly cancel
# (smooth functions, sharp levels) have lost their digits; above, the weight is zero.
_ALPHA_RANGE = (1e-12, 1e10)
# Where all precisions move at once, a weight with a prior standard deviation of a thousandth of the
# noise leaves; the evidence has the last word.
_LARGEST_SHARED_ALPHA = 1e6
# A column whose part outside the span of the model is a smaller share of it has lost its digits.
_LEAST_NEW_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class Expansion:
    """Second-order expansion of the log likelihood in the weights of P basis functions."""

    gram: FloatArray
    """Phi' H Phi, (P, P)"""
    slope: FloatArray
    """Phi' delta, the log likelihood's gradient at ``point``, (P,)"""
    point: FloatArray
    """weights at which it was expanded, (P,)"""
    height: float
    """log likelihood there"""


@dataclass(frozen=True, eq=False)
class Gains:
    """The best move of every basis function, each of shape (P,)."""

    gain: FloatArray
    """change of the log evidence; at most zero where there is no move"""
    alpha: FloatArray
    """precision after the move: infinite for a deletion"""


class WeightPosterior:
    """Posterior of the weights in an expansion, for given precisions."""

    def __init__(self, expansion: Expansion, alpha: FloatArray) -> None:
        self.expansion, self.alpha = expansion, alpha
        self.inside: IntArray = np.flatnonzero(np.isfinite(alpha))
        self._root = alpha[self.inside] ** -0.5
        inner = expansion.gram[np.ix_(self.inside, self.inside)]
        self._inner = self._root[:, None] * inner * self._root
        self._triangle = Triangle(lambda: self._inner + np.eye(len(self._inner)))

    @cached_property
    def _half(self) -> FloatArray:
        """L^-1 A^-1/2, so that Sigma is its Gram matrix: eq. (10) without the inverse of A."""
        return self._triangle.inverse * self._root

    @property
    def covariance(self) -> FloatArray:
        """Sigma of the weights inside, in the order of ``inside``."""
        return self._half.T @ self._half

    @cached_property
    def _step(self) -> FloatArray:
        """Posterior mean less the expansion point, over all P."""
        e, inside = self.expansion, self.inside
        step = -e.point  # weights outside the model are zero
        gone = np.isinf(self.alpha) & (e.point != 0)
        force = e.slope[inside] - self.alpha[inside] * e.point[inside]
        force += e.gram[np.ix_(inside, gone)] @ e.point[gone]
        step[inside] = self._half.T @ (self._half @ force)
        return step

    @property
    def mean(self) -> FloatArray:
        """Posterior mean of all weights: eq. (11); zero outside the model."""
        mean = self.expansion.point + self._step
        mean[np.isinf(self.alpha)] = 0.0
        return mean

    @property
    def value(self) -> float:
        """Log evidence at fixed curvature; Laplace's own where the point is its mode."""
        e, step, inside = self.expansion, self._step, self.inside
        quadratic = e.slope @ step - 0.5 * step @ (e.gram @ step)
        prior = 0.5 * self.alpha[inside] @ self.mean[inside] ** 2
        return float(e.height + quadratic - prior - self._triangle.half_log_det)

    def _explained(self, cross: FloatArray) -> FloatArray:
        """phi'H Phi Sigma Phi'H phi of functions with ``cross`` = Phi'H phi, (inside, k)."""
        half = self._half @ cross
        return np.einsum("ij,ij->j", half, half)

    def entry_gains(self, Q: FloatArray, D: FloatArray, cross: FloatArray) -> FloatArray:
        """Gains of adding functions with this Q, D = phi'H phi and ``cross`` = Phi'H phi."""
        S = D - self._explained(cross)
        gain = best_moves(np.full_like(S, np.inf), S, Q, np.ones_like(S)).gain
        return np.where(S <= _LEAST_NEW_SHARE * D, 0.0, gain)

    def gains(self) -> Gains:
        """The best move of every basis function of the expansion."""
        e, inside = self.expansion, self.inside
        Q = e.slope - e.gram @ self._step
        D = np.diagonal(e.gram)
        S = D - self._explained(e.gram[inside])
        beta = np.ones_like(D)
        inverse = self._triangle.full_inverse()
        beta[inside] = np.diagonal(inverse)
        # 1 - beta = diag(B^-1 (B - I)): nothing cancels where the data say little.
        share = np.einsum("ij,ij->i", inverse, self._inner)
        S[inside] = self.alpha[inside] * np.clip(share, 0.0, 1.0)
        Q[inside] = self.alpha[inside] * self.mean[inside]
        found = best_moves(self.alpha, S, Q, beta)
        found.gain[np.isinf(self.alpha) & (S <= _LEAST_NEW_SHARE * D)] = 0.0
        if len(inside) == 1:  # the last one stays: a model has at least one function
            found.gain[inside[np.isinf(found.alpha[inside])]] = 0.0
        return found


def best_moves(alpha: FloatArray, S: FloatArray, Q: FloatArray, beta: FloatArray) -> Gains:
    """Best precisions by eq. (21), and the gain of each; beta = (alpha - S) / alpha.

    The change of eq. (20) is the same for all moves, where 1 / alpha is zero outside the model.
    """
    excess = Q**2 - beta * S
    wanted = (excess > 0) & (S > 0)
    target = np.full_like(alpha, np.inf)
    np.divide(S**2, excess, out=target, where=wanted)
    target[wanted] = np.clip(target[wanted], *_ALPHA_RANGE)
    change = 1 / target - 1 / alpha
    growth = beta + S / target  # 1 + S change
    return Gains(0.5 * (Q**2 * change / growth - np.log(growth)), target)


@dataclass(frozen=True, eq=False)
class MoveSequence:
    """Moves of basis functions, one after the other, and the posterior after the last."""

    posterior: WeightPosterior
    kinds: list[str]
    places: list[int]
    """function that each move was of; empty where all moved at once"""
    values: list[float]
    """log evidence at fixed curvature after each move"""


def improve(
    now: WeightPosterior, tol: float, *, max_adds: int, max_moves: int, frozen: BoolArray
) -> MoveSequence:
    """Take the best move, again and again, until none gains more than ``tol``."""
    kinds: list[str] = []
    places: list[int] = []
    values: list[float] = []
    for _ in range(max_moves):
        found = now.gains()
        found.gain[frozen] = 0.0
        if kinds.count(ADD) >= max_adds:
            found.gain[np.isinf(now.alpha)] = 0.0
        best = int(np.argmax(found.gain))
        if found.gain[best] <= tol:
            break
        after = now.alpha.copy()
        after[best] = found.alpha[best]
        left = DELETE if np.isinf(after[best]) else RE_ESTIMATE
        kinds.append(ADD if np.isinf(now.alpha[best]) else left)
        places.append(best)
        now = WeightPosterior(now.expansion, after)
        values.append(now.value)
    return MoveSequence(now, kinds, places, values)


def shrink(old: WeightPosterior) -> MoveSequence:
    """Re-estimate all precisions at once, and delete those that the evidence sends to infinity.

    MacKay's fixed point alpha = (1 - alpha Sigma_jj)/mu_j^2; where the evidence would fall, the
    EM step alpha = 1/(mu_j^2 + Sigma_jj), under which it cannot.
    """
    alpha, inside, mean = old.alpha, old.inside, old.mean[old.inside]
    var = np.diagonal(old.covariance)
    known: FloatArray = np.clip(1.0 - alpha[inside] * var, 0.0, 1.0)
    for share, extra in ((known, 0 * var), (np.ones_like(var), var)):
        after = alpha.copy()
        with np.errstate(divide="ignore", invalid="ignore"):
            after[inside] = np.clip(share / (mean**2 + extra), _ALPHA_RANGE[0], None)
        after[~(after < _LARGEST_SHARED_ALPHA)] = np.inf
        if not np.isfinite(after).any():  # a model has at least one function
            strongest = inside[np.argmax(np.abs(mean))]
            after[strongest] = alpha[strongest]
        new = WeightPosterior(old.expansion, after)
        if new.value >= old.value:
            break
    best = _without_useless(new)
    kinds = [RE_ESTIMATE] if best is new else [RE_ESTIMATE, DELETE]
    return MoveSequence(best, kinds, [], [new.value, best.value][: len(kinds)])


def _without_useless(solution: WeightPosterior) -> WeightPosterior:
    """Delete useless functions, as many at once as do not lower the evidence."""
    found = solution.gains()
    useless = solution.inside[np.isinf(found.alpha[solution.inside])]
    useless = useless[np.argsort(-found.gain[useless], kind="stable")][: len(solution.inside) - 1]
    while len(useless):
        after = solution.alpha.copy()
        after[useless] = np.inf
        fewer = WeightPosterior(solution.expansion, after)
        if fewer.value >= solution.value:
            return fewer
        useless = useless[: len(useless) // 2]
    return solution
