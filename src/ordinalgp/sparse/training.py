"""Sparse Bayesian learning: Laplace's mode, thresholds and moves of basis functions in turn.

One round finds the mode of the weights (eqs. (6)-(11) of [Li18]_) and the thresholds that maximise
the evidence (section 4.2). It expands the likelihood there and scores every candidate in one pass
over the columns. Then it takes all good moves among the best candidates at that fixed curvature.
Algorithm 1 of the paper takes one move per round. Here the cost of a move does not depend on N,
and a round costs O(N C M). The noise stays 1, because noise, thresholds and weights share one
scale; eq. (15) is not used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ordinalgp._typing import FINITE, POSITIVE, Axes, FloatArray, IntArray
from ordinalgp.core.inference import infer
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.objectives import laplace_evidence
from ordinalgp.core.problem import Approximation, Problem, Start
from ordinalgp.core.projections import Basis
from ordinalgp.models.training_rows import NumberedRows
from ordinalgp.persistence import saved_as
from ordinalgp.runtime.progress import Progress, Report, silent
from ordinalgp.sparse.basis_matrix import BasisMatrix
from ordinalgp.sparse.moves import Expansion, MoveSequence, WeightPosterior, improve, shrink

START, LINEARISE, THRESHOLDS = "start", "linearise", "thresholds"
_START_ALPHA = 1e-3  # section 5.1.4 of the paper
_MATRIX_SHARE = 0.75  # of the memory limit, for the basis matrix; the rest is for what it becomes
_LARGEST_COSINE = 0.95  # of what two columns add: above it only the better one enters in a round
_FEWEST_ADDS, _MOST_ADDS = 4, 64  # per round: as many as the model has, within these
_SINGLE_MOVES_BELOW = 128  # functions; with more, batch training moves all of them at once
_MOVE_ATTEMPTS = 12  # per round, to keep the evidence from falling
_ROUND_STEPS, _LAST_STEPS = 2, 50  # of the search for thresholds, in a round and at the end
_USUAL_COUNT = 100.0  # of a row, above which tolerances in nats grow with the counts
_SHORTEST_STEP = 1e-10  # of the inverse Hessian that BFGS begins with
_FLAT_SLOPE = 1e-3  # of the evidence in every threshold's parameter: below, a search ends


@dataclass(frozen=True)
class TrainingLimits:
    """Limits of a training: tolerance, rounds, functions and memory."""

    tol: float
    max_rounds: int
    max_basis: int
    memory: float
    """bytes for the basis matrix and its parts"""


@dataclass(frozen=True, eq=False)
class SparseTask:
    """Data and limits of a training; they stay the same while basis functions come and go."""

    matrix: BasisMatrix
    y: IntArray
    counts: FloatArray
    limits: TrainingLimits

    @classmethod
    def of(
        cls, rows: NumberedRows, candidates: IntArray, kernel: Any, limits: TrainingLimits
    ) -> Self:
        """The training on ``rows`` with functions at ``candidates``."""
        memory = _MATRIX_SHARE * limits.memory
        limits = replace(limits, tol=limits.tol * _tolerance_scale(rows.counts))
        matrix = BasisMatrix(kernel, rows.observed, rows.inputs[candidates], memory)
        return cls(matrix, rows.codes, rows.counts, limits)


def _tolerance_scale(counts: FloatArray) -> float:
    """Factor of tolerances in nats: rows that count thousands of times have large evidence."""
    return max(1.0, float(np.mean(counts)) / _USUAL_COUNT)


@saved_as("basis.active")
@dataclass(frozen=True, eq=False)
class ActiveBasis:
    """Basis functions in the model, with the likelihood that cuts their sum into levels."""

    index: Annotated[IntArray, Axes("P", 0, "C")]
    """places among the candidates"""
    alpha: Annotated[FloatArray, Axes("P", *POSITIVE)]
    """prior precisions of the weights"""
    weights: Annotated[FloatArray, Axes("P", *FINITE)]
    likelihood: OrdinalProbit


@saved_as("path.evidence")
@dataclass(frozen=True, eq=False)
class EvidencePath:
    """Log evidence after every step, and the kind of each step."""

    kinds: Annotated[NDArray[np.str_], Axes("steps", kinds="U")]
    values: Annotated[FloatArray, Axes("steps")]

    @classmethod
    def of(cls, steps: Sequence[tuple[str, float]] = ()) -> Self:
        """The path of some steps."""
        kinds, values = [kind for kind, _ in steps], [value for _, value in steps]
        return cls(np.array(kinds, dtype=np.str_), np.array(values, dtype=float))

    def then(self, later: "EvidencePath") -> "EvidencePath":
        """Both paths, where the later training continues with the model of this one."""
        if not len(self.kinds):
            return later
        kinds = np.concatenate([self.kinds, [LINEARISE], later.kinds[1:]])
        return EvidencePath(kinds, np.concatenate([self.values, later.values]))


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """Basis and covariance of the weights at the end of a training."""

    basis: ActiveBasis
    covariance: FloatArray
    value: float
    path: EvidencePath
    largest_gain: float
    """of any move that is left"""
    n_rounds: int
    converged: bool


@dataclass(frozen=True, eq=False)
class Mode:
    """Posterior mode of the weights, and the likelihood's derivatives there."""

    basis: ActiveBasis
    phi: FloatArray
    """columns of the basis"""
    start_value: float
    """log evidence before the search for thresholds"""
    value: float
    converged: bool
    curvature: FloatArray
    slope: FloatArray
    height: float
    """log likelihood at the mode"""

    def steps(self, kind: str) -> list[tuple[str, float]]:
        """The path's two steps to this mode, the first of this kind."""
        return [(kind, self.start_value), (THRESHOLDS, self.value)]

    def expansion(self, phi: FloatArray) -> Expansion:
        """Second order in the weights of ``phi``, whose first columns are the model's."""
        point = np.zeros(phi.shape[1])
        point[: len(self.basis.weights)] = self.basis.weights
        gram = Basis(phi).scatter(self.curvature)
        return Expansion(gram, phi.T @ self.slope, point, self.height)

    @property
    def posterior(self) -> WeightPosterior:
        """Posterior of the weights in the expansion at the mode."""
        return WeightPosterior(self.expansion(self.phi), self.basis.alpha)


@dataclass(frozen=True, eq=False)
class _TrialBasis:
    """Functions that the moves of a round choose from: the model's, then candidates."""

    index: IntArray
    phi: FloatArray
    posterior: WeightPosterior


def first_basis(
    rows: NumberedRows, inside: IntArray, n_levels: int, alpha: float = _START_ALPHA
) -> ActiveBasis:
    """Functions at the inputs ``inside``, with weights of zero and thresholds by the counts."""
    index = np.unique(inside)
    observed = np.bincount(rows.codes, rows.counts, minlength=n_levels).astype(float)
    likelihood, weights = OrdinalProbit.from_counts(observed), np.zeros(len(index))
    return ActiveBasis(index, np.full(len(index), alpha), weights, likelihood)


def train(
    task: SparseTask, basis: ActiveBasis, *, grow: bool, report: Report = silent
) -> TrainingResult:
    """Improve ``basis`` until no move gains more than the tolerance.

    ``grow`` is the incremental algorithm (ISBOR); without it functions only leave (SBOR).
    """
    begin, tol = perf_counter(), task.limits.tol
    converged, shrinking = False, not grow
    mode = find_mode(task, basis, task.matrix.columns(basis.index))
    path = mode.steps(START)

    def tell(n_rounds: int, *, done: bool) -> None:
        text = f"{len(mode.basis.index)} functions"
        seconds = perf_counter() - begin
        report(Progress("basis", n_rounds, None, mode.value, seconds, text, done))

    for n_rounds in range(1, task.limits.max_rounds + 1):
        trial = _trial_basis(task, mode, grow=grow)
        left = float(np.max(trial.posterior.gains().gain))
        step = None
        if shrinking:  # each alone gains little while there are many of a kind
            moved = shrink(trial.posterior)
            left = max(left, moved.values[-1] - trial.posterior.value)
            step = _mode_after(task, mode, trial, moved), moved
            shrinking = step[0].value > mode.value or len(trial.index) > _SINGLE_MOVES_BELOW
        elif left > tol:
            step = _advance(task, mode, trial)
        if left > tol and step is not None:
            mode, moved = step
            path += [*zip(moved.kinds, moved.values, strict=True), *mode.steps(LINEARISE)]
        else:  # no move gains, or none gains what it promised
            last, mode = mode.value, find_mode(task, mode.basis, mode.phi, _LAST_STEPS)
            path += mode.steps(LINEARISE)
            if mode.value - last <= tol:
                converged = mode.converged
                break
        tell(n_rounds, done=False)
    tell(n_rounds, done=True)
    covariance = mode.posterior.covariance
    steps = EvidencePath.of(path)
    return TrainingResult(mode.basis, covariance, mode.value, steps, left, n_rounds, converged)


def _advance(task: SparseTask, mode: Mode, trial: _TrialBasis) -> tuple[Mode, MoveSequence] | None:
    """Take good moves, and fewer of them while they do not raise the evidence at the new mode.

    A single move that does not gain what it promised is left out, and the others are tried
    without it.
    """
    refused = np.zeros(len(trial.index), dtype=bool)
    most, size = 2 * len(trial.index) + 50, len(mode.basis.index)
    adds = max(0, min(max(size, _FEWEST_ADDS), _MOST_ADDS, task.limits.max_basis - size))
    for _ in range(_MOVE_ATTEMPTS):
        limits = {"max_adds": adds, "max_moves": most}
        moved = improve(trial.posterior, task.limits.tol / 10, **limits, frozen=refused)
        if not moved.kinds:
            break
        new = _mode_after(task, mode, trial, moved)
        if new.value > mode.value:
            return new, moved
        if len(moved.kinds) == 1:
            refused[moved.places] = True
        most = max(1, min(len(moved.kinds), 64) // 4)
    return None


def _mode_after(task: SparseTask, mode: Mode, trial: _TrialBasis, moved: MoveSequence) -> Mode:
    """The mode of the basis that some moves lead to."""
    posterior = moved.posterior
    keep = posterior.inside
    weights, alpha = posterior.mean[keep], posterior.alpha[keep]
    basis = ActiveBasis(trial.index[keep], alpha, weights, mode.basis.likelihood)
    return find_mode(task, basis, trial.phi[:, keep])


# ------------------------------------------------------------------- mode and thresholds


def find_mode(
    task: SparseTask, basis: ActiveBasis, phi: FloatArray, steps: int = _ROUND_STEPS
) -> Mode:
    """Find the mode of the weights, and then the thresholds in at most ``steps`` steps."""
    prior = np.diag(1 / basis.alpha)
    problem = Problem(prior, Basis(phi), task.y, basis.likelihood, task.counts)
    start = Start(None, basis.alpha * basis.weights)  # type: ignore[arg-type]
    first = _evaluate(problem, basis.likelihood, start)
    best = _best_thresholds(problem, first, steps)
    smoothed, counts = best.found.smoothed, task.counts
    basis = replace(basis, weights=best.found.posterior.mean, likelihood=best.likelihood)
    derivatives = -counts * smoothed.d2, counts * smoothed.d1, float(counts @ smoothed.value)
    return Mode(basis, phi, first.value, best.value, bool(best.found.converged), *derivatives)


@dataclass(frozen=True, eq=False)
class _Evidence:
    """Evidence of a likelihood, its gradient in the thresholds, and the mode behind it."""

    likelihood: OrdinalProbit
    value: float
    gradient: FloatArray
    found: Approximation


def _evaluate(problem: Problem, likelihood: OrdinalProbit, start: Start) -> _Evidence:
    problem = replace(problem, likelihood=likelihood)
    found = infer(problem, smoothing="mode", start=start)
    evaluation = laplace_evidence(problem, found)
    # The noise stays one: noise, thresholds and weights share one scale, which alpha sets.
    return _Evidence(likelihood, evaluation.value, evaluation.d_likelihood[1:], found)


def _best_thresholds(problem: Problem, first: _Evidence, steps: int) -> _Evidence:
    """Maximise the evidence in the thresholds by BFGS, and return its best evaluation."""
    best = last = first
    begin = first.likelihood.theta
    low, high = first.likelihood.bounds[1:].T

    def cost(free: FloatArray) -> tuple[float, FloatArray]:
        nonlocal best, last
        if np.array_equal(free, begin[1:]):
            last = first
        else:
            theta = np.concatenate([begin[:1], np.clip(free, low, high)])
            likelihood = first.likelihood.clone_with_theta(theta)
            last = _evaluate(problem, likelihood, last.found.start)
        if last.value > best.value:
            best = last
        return -last.value, -last.gradient * ((low <= free) & (free <= high))

    flat = _FLAT_SLOPE * _tolerance_scale(problem.counts)
    options = {"maxiter": steps, "gtol": flat, "hess_inv0": _inverse_hessian(problem, first)}
    minimize(cost, begin[1:], jac=True, method="BFGS", options=options)
    return best


def _inverse_hessian(problem: Problem, at: _Evidence) -> FloatArray:
    """Inverse Hessian of the log joint density in the thresholds, the weights following them.

    It lacks the part of the log determinant, so it is near the evidence's own, but not equal.
    """
    mean = at.found.at.mean
    own, cross = at.likelihood.threshold_curvature(problem.y, mean, problem.counts)
    follow = problem.projection.adjoint(cross.T)  # (M, r - 1)
    profile = own - follow.T @ at.found.posterior.covary(follow)
    size, axes = np.linalg.eigh(0.5 * (profile + profile.T))
    least = 1e-6 * max(float(np.trace(own)), 1.0)  # some directions the weights follow freely
    steps = 1.0 / np.maximum(size, least)
    # BFGS asks whether it is positive definite up to absolute rounding: weights of a million
    # copies make inverse Hessians smaller than that. It finds the scale of steps again by itself.
    steps = np.maximum(steps, _SHORTEST_STEP)
    inverse: FloatArray = (axes * steps) @ axes.T
    return 0.5 * (inverse + inverse.T)


# ---------------------------------------------------------------------------- candidates


def _trial_basis(task: SparseTask, mode: Mode, *, grow: bool) -> _TrialBasis:
    """The model's functions and, if it may grow, the best candidates unlike each other."""
    chosen = _entrants(task, mode) if grow else np.empty(0, dtype=np.intp)
    phi = np.column_stack([mode.phi, task.matrix.columns(chosen)]) if len(chosen) else mode.phi
    alpha = np.concatenate([mode.basis.alpha, np.full(len(chosen), np.inf)])
    index = np.concatenate([mode.basis.index, chosen])
    return _TrialBasis(index, phi, WeightPosterior(mode.expansion(phi), alpha))


def _entrants(task: SparseTask, mode: Mode) -> IntArray:
    inside, limits = mode.basis.index, task.limits
    gain = score_candidates(task.matrix, mode)
    gain[inside] = 0.0
    size = len(inside)
    wanted = 2 * min(max(size, _FEWEST_ADDS), _MOST_ADDS) if size < limits.max_basis else 0
    ranked = np.argsort(-gain, kind="stable")[: 8 * wanted]
    ranked = ranked[gain[ranked] > limits.tol / 10]
    if not len(ranked):
        return ranked
    sample = task.matrix.sample(ranked)
    return ranked[distinct_columns(sample, task.matrix.sample(inside), wanted)]


def distinct_columns(sample: FloatArray, inside: FloatArray, most: int) -> IntArray:
    """Places of the first columns that differ from each other in the part they add to the model.

    The parts outside the span of the columns ``inside`` are compared, because smooth functions are
    all alike in the part that the model already has.
    """
    span = np.linalg.qr(inside)[0]
    sample = sample - span @ (span.T @ sample)
    norm = np.linalg.norm(sample, axis=0)
    unit = sample / np.where(norm > 0, norm, 1.0)
    cosine = np.abs(unit.T @ unit)
    chosen: list[int] = []
    for place in range(sample.shape[1]):
        if len(chosen) < most and np.all(cosine[place, chosen] < _LARGEST_COSINE):
            chosen.append(place)
    return np.array(chosen, dtype=np.intp)


def score_candidates(matrix: BasisMatrix, mode: Mode) -> FloatArray:
    """Gain of adding each candidate, from its Q and S, in one pass over the columns.

    Q and S are the quantities that [Li18]_ defines without a number between eqs. (20) and (21).
    """
    posterior = mode.posterior
    weighted = mode.curvature[:, None] * mode.phi
    gain = np.empty(matrix.n_candidates)
    for part, block in matrix.blocks():
        Q = block @ mode.slope  # at the mode, phi'C^-1 t is phi'delta
        D = np.square(block) @ mode.curvature
        gain[part] = posterior.entry_gains(Q, D, (block @ weighted).T)
    return gain
