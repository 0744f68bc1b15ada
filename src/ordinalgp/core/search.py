"""One hyperparameter search for all models: over [kernel.theta, likelihood.theta]."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import minimize

from ordinalgp._typing import POSITIVE, Axes, FloatArray, IntArray, Tagged
from ordinalgp.core.curvature import differences, evidence_curvature
from ordinalgp.core.ep import cavities
from ordinalgp.core.gaussian import Moments, Posterior, Sites
from ordinalgp.core.hyperparameters import kernel_at, n_free, theta_of
from ordinalgp.core.hyperprior import LogPrior
from ordinalgp.core.inference import infer
from ordinalgp.core.kernel_gradient import kernel_slope
from ordinalgp.core.kernel_matrix import kernel_matrix
from ordinalgp.core.likelihoods import NOISE_BOUNDS
from ordinalgp.core.linalg import Workspace
from ordinalgp.core.objectives import Evaluation, ep_evidence, laplace_evidence
from ordinalgp.core.problem import Approximation, Problem, Smoothing, Start
from ordinalgp.core.projections import Projection
from ordinalgp.core.quasi_newton import (
    FIRST_PRECISION,
    Curvature,
    End,
    Value,
    definite,
    minimise,
)
from ordinalgp.core.trail import Trail
from ordinalgp.core.variational_bound import ep_bound
from ordinalgp.runtime.progress import Progress, Report, silent
from ordinalgp.runtime.threads import one_thread

Objective = Callable[[Problem, Approximation], Evaluation]
ObjectiveName = Literal["ep evidence", "ep bound", "laplace evidence"]
Optimizer = str | Callable[..., tuple[FloatArray, float]] | None

_OBJECTIVES: dict[ObjectiveName, tuple[Smoothing, Objective]] = {
    "ep evidence": ("cavity", ep_evidence),
    "ep bound": ("cavity", ep_bound),
    "laplace evidence": ("mode", laplace_evidence),
}
_FAILURES = (np.linalg.LinAlgError, FloatingPointError, OverflowError)
# Precision of the last slopes of a search. EP's evidence is stationary in the sites, so sites off
# by 1e-5 leave it off by 1e-10, but its slopes by 1e-5. The final inference uses the user's
# tolerance, and so does the bound, which is not stationary.
FINEST = 1e-5
# Hyperparameters of a kernel up to which curvatures are asked for on the way, too: with a length
# scale for each of eight columns they cost more than they save.
_FEW_OF_KERNEL = 4
# Where the curvature is well known at the start, the promise of the next step can be believed.
_STEPS_BY_METRIC, _GAIN_BY_METRIC = 100, 1e-9
# Nats per observation by which Laplace's evidence may exceed EP's at its maximum. Above, the
# maximum is false: at small noise the mode lies where the likelihood is flat, and the curvature
# there misses how soon it ends. docs/results.md names the data that chose the number.
LAPLACE_EXCESS = 0.02


@dataclass(frozen=True, eq=False)
class Step:
    """An evaluation of an objective."""

    value: float
    gradient: FloatArray
    start: Any
    """warm start for the next evaluation: small, so that it can be kept and sent"""
    converged: bool = True
    """whether the inference behind the value has converged"""
    curvature: Callable[[], FloatArray | None] = lambda: None
    """minus the second derivatives here, nearly, if they are known; not after the next step"""


@dataclass(frozen=True, eq=False)
class Trainable(ABC):
    """An objective of rows, and of the hyperparameters [kernel.theta, likelihood.theta]."""

    X: Annotated[FloatArray, Axes("N d")]
    kernel: Annotated[Any, Tagged("kernel")]
    likelihood: Annotated[Any, Tagged("likelihood")]
    hyperprior: Annotated[LogPrior, Tagged("hyperprior")] | None = field(default=None, kw_only=True)
    """on the hyperparameters; None: flat"""

    @property
    def theta(self) -> FloatArray:
        """[kernel.theta, likelihood.theta] at the start."""
        return np.concatenate([theta_of(self.kernel), self.likelihood.theta])

    @property
    def bounds(self) -> FloatArray:
        """Search bounds, shape (p, 2)."""
        return np.vstack([np.reshape(self.kernel.bounds, (-1, 2)), self.likelihood.bounds])

    @property
    def link(self) -> Any:
        """The likelihood that turns latent moments into probabilities."""
        return self.likelihood

    @property
    def support(self) -> FloatArray:
        """Inputs whose covariance with new rows gives predictions."""
        return self.X

    def at(self, theta: FloatArray) -> Self:
        """Return the same task at other hyperparameters."""
        p = n_free(self.kernel)
        kernel = kernel_at(self.kernel, theta[:p])
        likelihood = self.likelihood.clone_with_theta(theta[p:])
        return replace(self, kernel=kernel, likelihood=likelihood)

    def relaxed(self, precision: float = FINEST) -> Self:
        """Return the task with slopes that are right to a precision: by default its own."""
        return self

    @property
    def tells_curvature_often(self) -> bool:
        """Whether curvatures cost less than they save also on the way of a search."""
        return n_free(self.kernel) <= _FEW_OF_KERNEL

    @property
    def log_prior(self) -> float:
        """Log prior density of the task's own hyperparameters; 0 if it is flat."""
        if self.hyperprior is None:
            return 0.0
        return float(self.hyperprior.log_density(self.kernel, self.likelihood)[0])

    def evaluate(
        self, theta: FloatArray, start: Any = None, workspace: Workspace | None = None
    ) -> Step:
        """Objective and gradient, those of the log prior density added."""
        task = self.at(theta)
        step = task.step(start, workspace)
        if self.hyperprior is None:
            return step
        value, gradient = self.hyperprior.log_density(task.kernel, task.likelihood)
        return replace(
            step,
            value=step.value + value,
            gradient=step.gradient + gradient,
            curvature=lambda: self._with_prior(step.curvature(), theta),
        )

    def _with_prior(self, known: FloatArray | None, theta: FloatArray) -> FloatArray | None:
        """The curvature of the rows, if it is known, and that of the log prior density."""
        prior = self.hyperprior
        if known is None or prior is None:
            return known

        def slope(place: FloatArray) -> FloatArray:
            task = self.at(place)
            return prior.log_density(task.kernel, task.likelihood)[1]

        return known - differences(slope, theta, slope(theta))

    @abstractmethod
    def step(self, start: Any = None, workspace: Workspace | None = None) -> Step:
        """Objective of the rows and gradient, at the task's own hyperparameters.

        ``workspace`` is scratch memory of one search.
        """


@dataclass(frozen=True, eq=False)
class ExactTask(Trainable):
    """A task whose latent values are those of all inputs."""

    projection: Annotated[Projection, Tagged("projection")]
    """from inputs to observations, (M, N)"""
    y: Annotated[IntArray, Axes("M", 0, "r")]
    """ranks 0, 1, ..., r - 1 of the observed levels, (M,)"""
    counts: Annotated[FloatArray, Axes("M", *POSITIVE)]


@dataclass(frozen=True, eq=False)
class Task(ExactTask):
    """An evidence to maximise: everything that stays the same while hyperparameters vary."""

    prior_mean: ClassVar[float] = 0.0
    objective: ObjectiveName = "ep evidence"
    max_sweeps: Annotated[int, Axes(low=1)] = 100
    tol: Annotated[float, Axes("", *POSITIVE)] = 1e-6

    def relaxed(self, precision: float = FINEST) -> Self:
        """Return the task with slopes that are right to a precision."""
        return replace(self, tol=max(self.tol, search_tolerance(self.objective, precision)))

    def problem(self, workspace: Workspace | None = None) -> Problem:
        """The inference problem at the task's own hyperparameters."""
        K, A = kernel_matrix(self.kernel, self.X, workspace), self.projection
        return Problem(K, A, self.y, self.likelihood, self.counts, workspace=workspace)

    def infer(self, problem: Problem, start: Start | None = None) -> Approximation:
        """Approximate the posterior."""
        return infer(
            problem, smoothing=self.smoothing, start=start, max_sweeps=self.max_sweeps, tol=self.tol
        )

    @one_thread()  # whose rounding is always the same, also when a file is loaded
    def value_and_posterior(self, start: Start | None = None) -> tuple[float, Approximation]:
        """The objective at the task's own hyperparameters, without its gradient."""
        problem = self.problem()
        found = self.infer(problem, start)
        value = _OBJECTIVES[self.objective][1](problem, found).usable_value
        return value + self.log_prior, found

    def excess_over_ep(self, value: float, start: Start) -> float:
        """Nats per observation by which Laplace's objective exceeds EP's, here; 0 if EP fails.

        EP begins with the sites of Laplace. With a tolerance of 1e-2, its evidence was right to
        1e-3 in all, after 2 to 7 sweeps.
        """
        ep = replace(self, objective="ep evidence", tol=1e-2)
        try:
            excess = value - ep.value_and_posterior(start)[0]
        except _FAILURES:
            return 0.0
        return float(excess / np.sum(self.counts)) if np.isfinite(excess) else 0.0

    @property
    def smoothing(self) -> Smoothing:
        """The moments at which inference smooths the likelihood."""
        return _OBJECTIVES[self.objective][0]

    @one_thread()
    def posterior(self, sites: Sites) -> Posterior:
        """The posterior under Gaussian sites."""
        return self.problem().condition(sites)

    def left_out(self, posterior: Posterior, sites: Sites) -> Moments:
        """Latent moments of every observation without one copy of itself: EP's cavities.

        For Laplace's sites it is the same division.
        """
        return cavities(posterior.observed(), sites, np.minimum(self.counts, 1.0))

    def step(self, start: Start | None = None, workspace: Workspace | None = None) -> Step:
        """Approximate evidence, or bound, and its gradient in theta."""
        problem = self.problem(workspace)
        found = _OBJECTIVES[self.objective][1](problem, self.infer(problem, start))
        slope = kernel_slope(self.kernel, self.X, found.upstream, problem.K, workspace)
        gradient = np.concatenate([slope, found.d_likelihood])
        end = found.approximation
        curvature = partial(evidence_curvature, self.kernel, self.X, problem, end)
        return Step(found.usable_value, gradient, end.start, end.converged, curvature)


def search_tolerance(objective: ObjectiveName, precision: float) -> float:
    """The tolerance of inference with which slopes are right to a precision."""
    if objective == "laplace evidence":
        # After a last Newton step its square is left, and slopes are further off, with little noise
        # by a thousand times. Such slopes cost many times the evaluations (286 instead of 25).
        return float(np.sqrt(1e-4 * precision))
    return precision if objective == "ep evidence" else 0.0


def objective_named(inference: str, objective: str = "evidence") -> ObjectiveName:
    """The objective that the estimators' two words mean."""
    return next(name for name in _OBJECTIVES if name == f"{inference} {objective}")


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The best hyperparameters of a search."""

    theta: FloatArray
    value: float
    path: FloatArray
    """objective at every evaluation of the winning start"""
    start: Any
    converged: bool
    message: str
    curvature: FloatArray | None = None
    """minus the second derivatives at the end, nearly, if the search kept any"""


@dataclass(frozen=True, eq=False)
class Limits:
    """Limits of a search, and knowledge that it begins with."""

    steps: int = 200
    gain: float = 1e-8
    """relative, below which the search ends: 1e-6 in a log evidence of 100, far below any
    difference that matters between models"""
    curvature: FloatArray | None = None
    """minus the second derivatives at the start, nearly, where they are known better than the task
    knows them; positive definite"""


USUAL_LIMITS = Limits()


@dataclass(eq=False)
class _Ascent:
    """The objective as the optimiser calls it: warm-started, and safe where it fails.

    The value of an inference that has not converged may be anything. It only shows the way until
    one has converged; from then on it counts as a failure.
    """

    task: Trainable
    report: Report
    precision: float = FINEST
    """of the slopes"""
    workspace: Workspace = field(default_factory=Workspace)
    trail: Trail = field(default_factory=Trail)
    began: float = field(default_factory=time.perf_counter)
    best: FloatArray | None = None
    value: float = -np.inf
    start: Any = None
    path: list[float] = field(default_factory=list)
    failures: int = 0
    trusted: bool = False
    """whether the inference at the best has converged"""
    last: Step | None = None
    """the last evaluation, unless it failed"""
    end_curvature: FloatArray | None = None

    def precisely(self, theta: FloatArray, precision: float) -> tuple[float, FloatArray]:
        """Like a call, with slopes that are right to a precision."""
        self.precision = max(precision, FINEST)
        return self(theta)

    def curvature(self) -> FloatArray | None:
        """Minus the second derivatives at the last evaluation, nearly, if they are known."""
        if self.last is None:
            return None
        try:
            found = self.last.curvature()
        except _FAILURES:
            return None
        return found if found is not None and np.isfinite(found).all() else None

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the objective and minus its gradient."""
        try:
            start = self.trail.start_at(theta, self.best, self.start)
            task = self.task.relaxed(self.precision)
            step = task.evaluate(theta, start, self.workspace)
            finite = bool(np.isfinite(step.value) and np.all(np.isfinite(step.gradient)))
        except _FAILURES:
            finite = False
        if not finite or (self.trusted and not step.converged):
            return self._fail(theta)
        self.path.append(step.value)
        self.trail.add(theta, step.start)
        self.last = step
        first = self.best is None or (step.converged and not self.trusted)
        if first or step.value > self.value:
            self.best, self.value, self.start = theta.copy(), step.value, step.start
            self.trusted = step.converged
        self.report(self.progress(step.value))
        return -step.value, -step.gradient

    def progress(self, value: float, message: str = "") -> Progress:
        """Evaluations so far; with a message, all of them."""
        seconds = time.perf_counter() - self.began
        done = bool(message)
        return Progress("search", len(self.path), None, value, seconds, message, done)

    def as_scikit_learn(self, theta: Any, eval_gradient: bool = True) -> Any:
        """The signature that scikit-learn hands to optimisers of the user's own."""
        value, gradient = self(np.asarray(theta, dtype=float))
        return (value, gradient) if eval_gradient else value

    def _fail(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Look worse than the best by as much as the best is bad: the line search steps back."""
        self.failures += 1
        self.last = None
        if self.best is None:
            return 1e10, np.zeros_like(theta)
        return -self.value + max(1.0, abs(self.value)), np.zeros_like(theta)


def _climb(
    task: Trainable,
    theta: FloatArray,
    optimizer: Optimizer,
    limits: Limits,
    report: Report = silent,
    start: Any = None,
) -> SearchResult:
    """Search from one place; inference there begins with ``start``."""
    ascent = _Ascent(task, report, start=start)
    bounds = task.bounds
    theta = np.clip(theta, bounds[:, 0], bounds[:, 1])
    if callable(optimizer):
        optimizer(ascent.as_scikit_learn, theta, bounds)
        message, converged = "user's optimizer", True
    else:
        message, converged = _quasi_newton(ascent, theta, bounds, limits)
    if ascent.best is None:
        return SearchResult(theta, -np.inf, np.empty(0), None, False, "no finite value was found")
    if not ascent.trusted:
        message, converged = "inference converged nowhere", False
    report(ascent.progress(ascent.value, message))
    path = np.array(ascent.path)
    found = ascent.best, ascent.value, path, ascent.start
    return SearchResult(*found, converged, message, ascent.end_curvature)


def _quasi_newton(
    ascent: _Ascent, theta: FloatArray, bounds: FloatArray, limits: Limits
) -> tuple[str, bool]:
    """Run an optimiser; where failed evaluations broke its line search, begin again at the best."""
    for _ in range(3):
        failures, value = ascent.failures, ascent.value
        message, end = _run(ascent, theta, bounds, limits)
        broken = end == "line search" and ascent.failures > failures
        if not broken or ascent.best is None or ascent.value <= value:
            break
        theta = ascent.best
    # A line search that failed without failures of the objective met rounding, that is, the top.
    return message, end != "steps"


def _run(ascent: _Ascent, theta: FloatArray, bounds: FloatArray, limits: Limits) -> tuple[str, End]:
    """One search, by the curvatures at its start or, where these are unknown, without."""
    first = ascent.precisely(theta, FIRST_PRECISION)
    told = limits.curvature
    own = ascent.curvature() if told is None else None
    known = told if own is None else definite(own)
    if known is None:
        return _lbfgs(ascent, theta, first, bounds, limits)
    often = told is None and ascent.task.tells_curvature_often
    ask: Curvature = ascent.curvature if often else lambda: None
    ends: Any = {"steps": limits.steps, "gain": limits.gain}
    found = minimise(ascent.precisely, theta, first, known, ask, bounds, **ends)
    ascent.end_curvature = found.curvature
    return found.message, found.end


def _lbfgs(
    ascent: _Ascent, theta: FloatArray, first: Value, bounds: FloatArray, limits: Limits
) -> tuple[str, End]:
    """L-BFGS-B, in units that make the first slope at most one.

    Where all parameters are bounded, its first step is as long as the slope: from a poor start,
    straight into a corner of the bounds.
    """
    ascent.precision = FINEST
    unit = max(1.0, float(np.linalg.norm(first[1])))
    known = {theta.tobytes(): first}

    def scaled(x: FloatArray) -> Value:
        place = x.tobytes()
        value, gradient = known.pop(place) if place in known else ascent(x)
        return value / unit, gradient / unit

    options = {"ftol": limits.gain, "gtol": 1e-7, "maxiter": limits.steps}
    result = minimize(scaled, theta, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    ends: dict[int, End] = {0: "top", 1: "steps"}
    return str(result.message), ends.get(result.status, "line search")


def climb_by_metric(
    task: Trainable, metric: FloatArray, start: Any, report: Report = silent
) -> SearchResult:
    """Search from the task's own hyperparameters, where nearly the curvature is ``metric``."""
    limits = Limits(_STEPS_BY_METRIC, _GAIN_BY_METRIC, metric)
    return _climb(task, task.theta, "fmin_l_bfgs_b", limits, report, start)


@dataclass(frozen=True, eq=False)
class Search:
    """Search for hyperparameters: its optimizer, its processes and its reports."""

    optimizer: Optimizer
    n_jobs: int | None
    report: Report

    def search(
        self, task: Any, starts: Sequence[FloatArray], limits: Limits = USUAL_LIMITS
    ) -> SearchResult:
        """Climb from every start, and keep the best.

        Several starts run in parallel through joblib.
        """
        if self.optimizer is None or len(task.theta) == 0:
            return SearchResult(starts[0], -np.inf, np.empty(0), None, True, "not optimised")
        if len(starts) == 1:  # needs no other process, which takes a second or two to begin
            return _climb(task, starts[0], self.optimizer, limits, self.report)
        began = time.perf_counter()
        climbs = [delayed(_climb)(task, theta, self.optimizer, limits) for theta in starts]
        found = Parallel(n_jobs=self.n_jobs)(climbs)
        for number, result in enumerate(found, 1):  # other processes report when they are done
            n, seconds = len(result.path), time.perf_counter() - began
            text = f"start {number}/{len(starts)}: {result.message}"
            self.report(Progress("search", n, None, result.value, seconds, text, done=True))
        return max(found, key=lambda result: result.value)

    def search_evidence(
        self,
        task: Task,
        starts: Sequence[FloatArray],
        limits: Limits = USUAL_LIMITS,
        first: SearchResult | None = None,
    ) -> tuple[Task, SearchResult]:
        """Search, and do so again with more noise while Laplace's maximum is false.

        ``first`` is the result of a first search that was made elsewhere.

        EP's evidence tells, see ``LAPLACE_EXCESS``. The task that is returned has the bounds of
        noise of the last search.
        """
        found = self.search(task, starts, limits) if first is None else first
        checked = _is_checked(task) and np.isfinite(found.value)
        while checked and _is_false(task, found):
            task = _with_more_noise(task, found.theta)
            found = self.search(task, starts, limits)
        return task, found


def _is_checked(task: Task) -> bool:
    """Whether the maximum is Laplace's, with free noise and no bounds of the user's."""
    free = getattr(task.likelihood, "noise_place", None) is not None
    unbounded = getattr(task.likelihood, "noise_bounds", ()) is None
    return task.objective == "laplace evidence" and free and unbounded


def _is_false(task: Task, found: SearchResult) -> bool:
    """Whether EP contradicts Laplace's maximum; not where noise is far above all else."""
    best = task.at(found.theta)
    small = best.likelihood.noise < best.likelihood.unit
    return small and best.excess_over_ep(found.value, found.start) > LAPLACE_EXCESS


def _with_more_noise(task: Task, theta: FloatArray) -> Task:
    """The task with at least twice the noise of ``theta``."""
    likelihood = task.likelihood
    low = 2.0 * task.at(theta).likelihood.noise / likelihood.unit
    return replace(task, likelihood=replace(likelihood, noise_bounds=(low, NOISE_BOUNDS[1])))


def perturbed(task: Trainable, theta: FloatArray, rng: np.random.RandomState) -> FloatArray:
    """A random start near ``theta``: a factor of about four either way, within bounds."""
    return np.clip(theta + 1.5 * rng.standard_normal(len(theta)), *task.bounds.T)
