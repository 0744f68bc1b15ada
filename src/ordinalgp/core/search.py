"""One hyperparameter search for all models: L-BFGS-B on [kernel.theta, likelihood.theta]."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import minimize

from ordinalgp._typing import FloatArray
from ordinalgp.core.bound import ep_bound
from ordinalgp.core.contraction import kernel_slope
from ordinalgp.core.gram import kernel_matrix
from ordinalgp.core.inference import infer
from ordinalgp.core.objectives import Evaluation, ep_evidence, laplace_evidence
from ordinalgp.core.problem import Approximation, Problem, Smoothing, Start
from ordinalgp.core.projections import Projection
from ordinalgp.core.room import Room

Objective = Callable[[Problem, Approximation], Evaluation]
Optimizer = str | Callable[..., tuple[FloatArray, float]] | None

_FAILURES = (np.linalg.LinAlgError, FloatingPointError, OverflowError)
# A relative gain of the objective below this ends the search: 1e-6 in a log evidence of 100,
# far below any difference that matters between models.
_RELATIVE_GAIN = 1e-8
_MAX_ITERATIONS = 200
# EP's evidence is stationary in the sites, so sites off by 1e-4 leave it off by 1e-8: enough to
# compare hyperparameters. Laplace's is as exact after a last Newton step of 1e-3, which leaves
# the mode off by its square. The final inference uses the user's tolerance, and so does the
# bound, which is not stationary.
SEARCH_TOL: dict[Any, float] = {ep_evidence: 1e-4, laplace_evidence: 1e-3}


@dataclass(frozen=True, eq=False)
class Trainable(ABC):
    """Hyperparameters [kernel.theta, likelihood.theta] with an objective to climb."""

    X: Any
    kernel: Any
    likelihood: Any

    @property
    def theta(self) -> FloatArray:
        """[kernel.theta, likelihood.theta] at the start."""
        return np.concatenate([self.kernel.theta, self.likelihood.theta])

    @property
    def bounds(self) -> FloatArray:
        """Search bounds, shape (p, 2)."""
        return np.vstack([np.reshape(self.kernel.bounds, (-1, 2)), self.likelihood.bounds])

    def at(self, theta: FloatArray) -> Self:
        """Return the same task at other hyperparameters."""
        p = self.kernel.n_dims
        kernel = self.kernel.clone_with_theta(theta[:p])
        likelihood = self.likelihood.clone_with_theta(theta[p:])
        return replace(self, kernel=kernel, likelihood=likelihood)

    def relaxed(self) -> Self:
        """Return the task at the precision that a search needs."""
        return self

    @abstractmethod
    def evaluate(
        self, theta: FloatArray, start: Start | None = None
    ) -> tuple[float, FloatArray, Any]:
        """Objective, gradient in theta, and an answer whose ``start`` the next one may use."""


@dataclass(frozen=True, eq=False)
class Task(Trainable):
    """An evidence to maximise: everything that stays the same while hyperparameters vary."""

    projection: Projection
    y: Any
    counts: FloatArray
    smoothing: Smoothing = "cavity"
    objective: Objective = ep_evidence
    max_sweeps: int = 100
    tol: float = 1e-6
    room: Room | None = None

    def relaxed(self) -> Self:
        """Return the task at the precision that a search needs, with room of its own."""
        tol = max(self.tol, SEARCH_TOL.get(self.objective, 0.0))
        return replace(self, tol=tol, room=Room())

    def problem(self) -> Problem:
        """The inference problem at the task's own hyperparameters."""
        K = kernel_matrix(self.kernel, self.X, self.room)
        A, room = self.projection, self.room
        return Problem(K, A, self.y, self.likelihood, self.counts, room=room)

    def infer(self, problem: Problem, start: Start | None = None) -> Approximation:
        """Approximate the posterior."""
        return infer(
            problem,
            smoothing=self.smoothing,
            start=start,
            max_sweeps=self.max_sweeps,
            tol=self.tol,
        )

    def settle(self, start: Start | None = None) -> tuple[float, Approximation]:
        """The objective at the task's own hyperparameters, without its gradient."""
        problem = self.problem()
        found = self.infer(problem, start)
        return _value(self.objective(problem, found)), found

    def evaluate(
        self, theta: FloatArray, start: Start | None = None
    ) -> tuple[float, FloatArray, Approximation]:
        """Objective, gradient in theta, and the approximation behind them."""
        task = self.at(theta)
        problem = task.problem()
        evaluation = self.objective(problem, task.infer(problem, start))
        slope = kernel_slope(task.kernel, self.X, evaluation.upstream, problem.K, self.room)
        gradient = np.concatenate([slope, evaluation.d_likelihood])
        return _value(evaluation), gradient, evaluation.approximation


def _value(evaluation: Evaluation) -> float:
    """The objective; minus infinity where rounding left nothing of it, so that a search turns."""
    return evaluation.value if evaluation.approximation.has_evidence else -np.inf


def objective_named(inference: str, objective: str) -> tuple[Smoothing, Objective]:
    """Translate the estimators' words to a smoothing rule and an objective."""
    if inference == "laplace":
        return "mode", laplace_evidence
    return "cavity", ep_evidence if objective == "evidence" else ep_bound


@dataclass(frozen=True, eq=False)
class Found:
    """The best hyperparameters of a search."""

    theta: FloatArray
    value: float
    path: FloatArray
    """objective at every evaluation of the winning start"""
    start: Start | None
    converged: bool
    message: str


@dataclass(eq=False)
class _Ascent:
    """The objective as the optimiser calls it: warm-started, and safe where it fails."""

    task: Trainable
    label: str
    verbose: int
    best: FloatArray | None = None
    value: float = -np.inf
    start: Start | None = None
    path: list[float] = field(default_factory=list)
    failures: int = 0
    unit: float = 1.0

    def scaled(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Like a call, in units that make the first slope at most one.

        Where all parameters are bounded, L-BFGS-B's first step is as long as the slope:
        from a poor start, straight into a corner of the bounds.
        """
        first = not self.path
        value, gradient = self(theta)
        if first:
            self.unit = max(1.0, float(np.linalg.norm(gradient)))
        return value / self.unit, gradient / self.unit

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the objective and minus its gradient."""
        try:
            value, gradient, found = self.task.evaluate(theta, self.start)
            finite = bool(np.isfinite(value) and np.all(np.isfinite(gradient)))
        except _FAILURES:
            finite = False
        if not finite:
            return self._fail(theta)
        self.path.append(value)
        if value > self.value or self.best is None:
            self.best, self.value, self.start = theta.copy(), value, found.start
        if self.verbose > 1:
            _say(f"{self.label} evaluation {len(self.path):3d}: {value:.6f}")
        return -value, -gradient

    def as_scikit_learn(self, theta: Any, eval_gradient: bool = True) -> Any:
        """The signature that scikit-learn hands to optimisers of the user's own."""
        value, gradient = self(np.asarray(theta, dtype=float))
        return (value, gradient) if eval_gradient else value

    def _fail(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Look worse than the best by as much as the best is bad: the line search steps back."""
        self.failures += 1
        if self.best is None:
            return 1e10, np.zeros_like(theta)
        return -self.value + max(1.0, abs(self.value)), np.zeros_like(theta)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _climb(
    task: Trainable,
    theta: FloatArray,
    optimizer: Optimizer,
    label: str,
    verbose: int,
    max_iterations: int,
) -> Found:
    """Search from one start."""
    ascent = _Ascent(task.relaxed(), label, verbose)
    bounds = task.bounds
    theta = np.clip(theta, bounds[:, 0], bounds[:, 1])
    if callable(optimizer):
        optimizer(ascent.as_scikit_learn, theta, bounds)
        message, converged = "user's optimizer", True
    else:
        message, converged = _lbfgs(ascent, theta, bounds, max_iterations)
    if ascent.best is None:
        return Found(theta, -np.inf, np.empty(0), None, False, "no finite value was found")
    if verbose:
        _say(f"{label} best {ascent.value:.6f} after {len(ascent.path)} evaluations ({message})")
    return Found(ascent.best, ascent.value, np.array(ascent.path), ascent.start, converged, message)


def _lbfgs(
    ascent: _Ascent, theta: FloatArray, bounds: FloatArray, max_iterations: int
) -> tuple[str, bool]:
    """Run L-BFGS-B; where failed evaluations broke its line search, begin again at the best."""
    options = {"ftol": _RELATIVE_GAIN, "gtol": 1e-7, "maxiter": max_iterations}
    for _ in range(3):
        failures, value = ascent.failures, ascent.value
        result = minimize(
            ascent.scaled, theta, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
        broken = result.status == 2 and ascent.failures > failures
        if not broken or ascent.best is None or ascent.value <= value:
            break
        theta = ascent.best
    # Status 2 without failures: the line search met rounding, that is, the top.
    return str(result.message), result.status != 1


def maximise(
    task: Trainable,
    starts: Sequence[FloatArray],
    *,
    optimizer: Optimizer = "fmin_l_bfgs_b",
    n_jobs: int | None = None,
    verbose: int = 0,
    max_iterations: int = _MAX_ITERATIONS,
) -> Found:
    """Climb from every start and keep the best; starts run in parallel through joblib."""
    if optimizer is None or len(task.theta) == 0:
        return Found(starts[0], -np.inf, np.empty(0), None, True, "not optimised")
    # One start needs no other process, which would take a second or two to begin.
    found = Parallel(n_jobs=n_jobs if len(starts) > 1 else 1)(
        delayed(_climb)(
            task, theta, optimizer, f"start {i + 1}/{len(starts)}:", verbose, max_iterations
        )
        for i, theta in enumerate(starts)
    )
    return max(found, key=lambda result: result.value)


def perturbed(task: Trainable, theta: FloatArray, rng: np.random.RandomState) -> FloatArray:
    """A random start near ``theta``: a factor of about four either way, within bounds."""
    bounds = task.bounds
    return np.clip(theta + 1.5 * rng.standard_normal(len(theta)), bounds[:, 0], bounds[:, 1])
