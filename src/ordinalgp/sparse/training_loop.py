"""Sparse Bayesian learning: Laplace's mode, thresholds and moves of basis functions in turn.

One round finds the mode of the weights (eqs. (6)-(11) of [Li18]_) and the thresholds that maximise
the evidence (section 4.2), expands the likelihood there, scores every candidate in one pass over
the columns, and then takes all good moves among the best candidates at that fixed curvature.
Algorithm 1 of the paper takes one move a round; a move costs nothing in N here, a round O(N C M).
"""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.optimize import minimize

from ordinalgp._typing import BoolArray, FloatArray, IntArray
from ordinalgp.core.inference import infer
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.objectives import Evaluation, laplace_evidence
from ordinalgp.core.problem import Approximation, Problem, Start
from ordinalgp.core.projections import Basis
from ordinalgp.sparse.basis_matrix import Columns
from ordinalgp.sparse.moves import Expansion, Improved, Solution, entry_gains, improve, shrink

START, LINEARISE, THRESHOLDS = "start", "linearise", "thresholds"
_ALIKE = 0.95  # cosine of what two columns add, above which only the better one enters a round
_FIRST_ADDS, _MOST_ADDS = 4, 64  # in a round: as many as the model has, within these
_ONE_BY_ONE = 128  # functions from which on batch training only moves all of them at once
_ATTEMPTS = 12  # at a round that keeps the evidence from falling
_SEARCH_STEPS, _LAST_STEPS = 2, 50  # for the thresholds, in a round and at the end
_FLAT = 1e-3  # slope of the evidence in every threshold's parameter at which a search is over


@dataclass(frozen=True, eq=False)
class SparseTask:
    """What stays the same while basis functions come and go."""

    columns: Columns
    y: IntArray
    counts: FloatArray
    tol: float
    max_rounds: int
    max_basis: int


@dataclass(frozen=True, eq=False)
class Relevant:
    """Basis functions in the model: their places among the candidates, precisions, weights."""

    index: IntArray
    alpha: FloatArray
    weights: FloatArray
    likelihood: OrdinalProbit


@dataclass(eq=False)
class Path:
    """The log evidence after every step, and what the step was."""

    values: list[float] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)

    def extend(self, kinds: list[str], values: list[float]) -> None:
        """Add steps."""
        self.kinds += kinds
        self.values += values

    def then(self, later: "Path") -> "Path":
        """Both, where the later training goes on with the model of this one."""
        if not self.kinds:
            return later
        return Path(self.values + later.values, [*self.kinds, LINEARISE, *later.kinds[1:]])


@dataclass(frozen=True, eq=False)
class Trained:
    """The model found."""

    model: Relevant
    covariance: FloatArray
    value: float
    path: Path
    largest_gain: float
    """of any move that is left"""
    n_rounds: int
    converged: bool


@dataclass(frozen=True, eq=False)
class _Round:
    """A model at its mode, with the columns of its functions."""

    model: Relevant
    phi: FloatArray
    found: Approximation
    values: list[float]
    """log evidence at the mode, before and after the search for thresholds"""
    curvature: FloatArray
    slope: FloatArray
    height: float

    def expansion(self, phi: FloatArray) -> Expansion:
        """Second order in the weights of ``phi``, whose first columns are the model's."""
        point = np.zeros(phi.shape[1])
        point[: len(self.model.weights)] = self.model.weights
        gram = Basis(phi).scatter(self.curvature)
        return Expansion(gram, phi.T @ self.slope, point, self.height)


@dataclass(frozen=True, eq=False)
class _Pool:
    """What the moves of a round choose from: the model's functions, then candidates."""

    index: IntArray
    phi: FloatArray
    alpha: FloatArray
    expansion: Expansion


def train(task: SparseTask, model: Relevant, *, grow: bool) -> Trained:
    """Improve ``model`` until no move gains more than the tolerance.

    ``grow`` is the incremental algorithm (ISBOR); without it functions only leave (SBOR).
    """
    path, done, shrinking = Path(), False, True
    now = _settle(task, model, task.columns(model.index))
    path.extend([START, THRESHOLDS], now.values)
    for n_rounds in range(1, task.max_rounds + 1):  # noqa: B007 (read after the loop)
        pool = _pool(task, now, grow=grow)
        here = Solution(pool.expansion, pool.alpha)
        left = float(np.max(here.gains().gain))
        step = None
        if not grow and shrinking:  # each alone gains little while there are many of a kind
            moved = shrink(pool.expansion, pool.alpha)
            left = max(left, moved.values[-1] - here.value)
            step = _settle(task, *_outcome(now, pool, moved.solution)), moved
            shrinking = step[0].values[-1] > now.values[-1] or len(pool.alpha) > _ONE_BY_ONE
        elif left > task.tol:
            step = _advance(task, now, pool)
        if left <= task.tol or step is None:  # nothing gains, or nothing keeps its promise
            last, now = now.values[-1], _settle(task, now.model, now.phi, _LAST_STEPS)
            path.extend([LINEARISE, THRESHOLDS], now.values)
            if now.values[-1] - last <= task.tol:
                done = now.found.converged
                break
            continue
        now, moved = step
        path.extend(moved.kinds, moved.values)
        path.extend([LINEARISE, THRESHOLDS], now.values)
    covariance = Solution(now.expansion(now.phi), now.model.alpha).covariance
    return Trained(now.model, covariance, now.values[-1], path, left, n_rounds, done)


def _advance(task: SparseTask, now: _Round, pool: _Pool) -> tuple[_Round, Improved] | None:
    """Take good moves, a quarter as many where they do not raise the evidence at the new mode.

    A single move that fails its promise is left out, and the others are tried without it.
    """
    refused = np.zeros(len(pool.alpha), dtype=bool)
    most = 2 * len(pool.alpha) + 50
    for _ in range(_ATTEMPTS):
        moved = _moves(task, pool, most, refused)
        if not moved.kinds:
            break
        new = _settle(task, *_outcome(now, pool, moved.solution))
        if new.values[-1] > now.values[-1]:
            return new, moved
        if len(moved.kinds) == 1:
            refused[moved.places] = True
        most = max(1, min(len(moved.kinds), 64) // 4)
    return None


def _moves(task: SparseTask, pool: _Pool, most: int, refused: BoolArray) -> Improved:
    size = int(np.isfinite(pool.alpha).sum())
    adds = max(0, min(max(size, _FIRST_ADDS), _MOST_ADDS, task.max_basis - size))
    limits = {"max_adds": adds, "max_moves": most}
    return improve(pool.expansion, pool.alpha, task.tol / 10, **limits, frozen=refused)


def _outcome(now: _Round, pool: _Pool, solution: Solution) -> tuple[Relevant, FloatArray]:
    keep = solution.inside
    weights, alpha = solution.mean[keep], solution.alpha[keep]
    model = Relevant(pool.index[keep], alpha, weights, now.model.likelihood)
    return model, pool.phi[:, keep]


# ------------------------------------------------------------------- mode and thresholds


def _problem(task: SparseTask, model: Relevant, phi: FloatArray) -> Problem:
    return Problem(np.diag(1 / model.alpha), Basis(phi), task.y, model.likelihood, task.counts)


def _settle(
    task: SparseTask, model: Relevant, phi: FloatArray, steps: int = _SEARCH_STEPS
) -> _Round:
    """Find the mode, and then the thresholds."""
    problem = _problem(task, model, phi)
    start = Start(None, model.alpha * model.weights)  # type: ignore[arg-type]
    first = _evaluate(problem, start)
    best = _best_thresholds(problem, model.likelihood, first, steps)
    likelihood = model.likelihood.clone_with_theta(best.theta)
    smoothed = best.found.smoothed
    settled = replace(model, weights=best.found.posterior.mean, likelihood=likelihood)
    curvature, slope = -task.counts * smoothed.d2, task.counts * smoothed.d1
    height = float(task.counts @ smoothed.value)
    values = [first.value, best.value]
    return _Round(settled, phi, best.found, values, curvature, slope, height)


@dataclass(frozen=True, eq=False)
class _Point:
    """Evidence, gradient in the thresholds, and the mode behind them."""

    theta: FloatArray
    value: float
    gradient: FloatArray
    found: Approximation


def _evaluate(problem: Problem, start: Start) -> _Point:
    found = infer(problem, smoothing="mode", start=start)
    evaluation: Evaluation = laplace_evidence(problem, found)
    # The noise stays one: noise, thresholds and weights share one scale, which alpha sets.
    gradient = evaluation.d_likelihood[1:]
    return _Point(problem.likelihood.theta, evaluation.value, gradient, found)


def _best_thresholds(
    problem: Problem, likelihood: OrdinalProbit, first: _Point, steps: int
) -> _Point:
    """BFGS from ``first``; the best point seen."""
    best = last = first
    low, high = likelihood.bounds[1:].T

    def cost(free: FloatArray) -> tuple[float, FloatArray]:
        nonlocal best, last
        theta = np.concatenate([first.theta[:1], np.clip(free, low, high)])
        if not np.array_equal(theta, last.theta):
            at = replace(problem, likelihood=likelihood.clone_with_theta(theta))
            last = replace(_evaluate(at, last.found.start), theta=theta)
        if last.value > best.value:
            best = last
        return -last.value, -last.gradient * ((low <= free) & (free <= high))

    options = {"maxiter": steps, "gtol": _FLAT, "hess_inv0": _bend(problem, likelihood, first)}
    minimize(cost, first.theta[1:], jac=True, method="BFGS", options=options)
    return best


def _bend(problem: Problem, likelihood: OrdinalProbit, at: _Point) -> FloatArray:
    """Inverse Hessian of the log joint density in the thresholds, the weights following them.

    Without the log determinant's part it is not the evidence's own, but near it.
    """
    own, cross = likelihood.threshold_curvature(problem.y, at.found.at.mean, problem.counts)
    follow = problem.projection.adjoint(cross.T)  # (M, r - 1)
    profile = own - follow.T @ at.found.posterior.covary(follow)
    size, axes = np.linalg.eigh(0.5 * (profile + profile.T))
    least = 1e-6 * max(float(np.trace(own)), 1.0)  # some directions the weights follow freely
    inverse: FloatArray = (axes / np.maximum(size, least)) @ axes.T
    return 0.5 * (inverse + inverse.T)


# ---------------------------------------------------------------------------- candidates


def _pool(task: SparseTask, now: _Round, *, grow: bool) -> _Pool:
    """The model's functions and the best candidates that are unlike each other."""
    chosen = _entrants(task, now) if grow else np.empty(0, dtype=np.intp)
    phi = np.column_stack([now.phi, task.columns(chosen)]) if len(chosen) else now.phi
    alpha = np.concatenate([now.model.alpha, np.full(len(chosen), np.inf)])
    index = np.concatenate([now.model.index, chosen])
    return _Pool(index, phi, alpha, now.expansion(phi))


def _entrants(task: SparseTask, now: _Round) -> IntArray:
    gain = score_candidates(task.columns, now)
    gain[now.model.index] = 0.0
    size = len(now.model.index)
    wanted = 2 * min(max(size, _FIRST_ADDS), _MOST_ADDS) if size < task.max_basis else 0
    ranked = np.argsort(-gain, kind="stable")[: 8 * wanted]
    ranked = ranked[gain[ranked] > task.tol / 10]
    sample, inside = task.columns.sample(ranked), task.columns.sample(now.model.index)
    return ranked[_unlike(sample, inside, wanted)]


def _unlike(sample: FloatArray, inside: FloatArray, most: int) -> IntArray:
    """Places of columns, in order, that add to the model something else than all before them.

    What counts is the part outside the span of the columns ``inside``: smooth functions are all
    alike in the part that the model has already.
    """
    span = np.linalg.qr(inside)[0]
    sample = sample - span @ (span.T @ sample)
    norm = np.linalg.norm(sample, axis=0)
    unit = sample / np.where(norm > 0, norm, 1.0)
    cosine = np.abs(unit.T @ unit)
    chosen: list[int] = []
    for place in range(sample.shape[1]):
        if len(chosen) < most and np.all(cosine[place, chosen] < _ALIKE):
            chosen.append(place)
    return np.array(chosen, dtype=np.intp)


def score_candidates(columns: Columns, now: _Round) -> FloatArray:
    """Gain of adding each candidate: Q and S of eq. (20) in one pass over the columns."""
    solution = Solution(now.expansion(now.phi), now.model.alpha)
    weighted = now.curvature[:, None] * now.phi
    gain = np.empty(columns.n_candidates)
    for part, block in columns.blocks():
        Q = block @ now.slope  # at the mode, phi'C^-1 t is phi'delta
        D = np.square(block) @ now.curvature
        S = D - solution.explained((block @ weighted).T)
        gain[part] = entry_gains(S, Q, D)
    return gain
