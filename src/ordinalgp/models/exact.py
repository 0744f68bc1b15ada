"""Exact Gaussian process models: the search for hyperparameters, and its result."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ordinalgp._typing import Axes, FloatArray, IntArray, Tagged
from ordinalgp.core.gaussian import Moments, Posterior, Sites
from ordinalgp.core.hyperprior import HyperPrior, LogPrior
from ordinalgp.core.kernel_matrix import cross_covariance
from ordinalgp.core.likelihoods import ORDINAL_MEMBERS, OrdinalProbit, Thresholds
from ordinalgp.core.linalg import symmetric_root
from ordinalgp.core.ordinal_logit import OrdinalLogit
from ordinalgp.core.problem import Approximation
from ordinalgp.core.projections import Identity, RowSelection
from ordinalgp.core.search import (
    USUAL_LIMITS,
    Limits,
    ObjectiveName,
    Search,
    SearchResult,
    Task,
    perturbed,
)
from ordinalgp.models.absent_levels import with_half_rows
from ordinalgp.models.default_kernel import rescaled_start, starting_kernel
from ordinalgp.models.effects import Effects, Reference, effects
from ordinalgp.models.training_rows import RowIndex, merge_rows
from ordinalgp.persistence import saved_as
from ordinalgp.runtime.progress import Progress, Report
from ordinalgp.runtime.warning import warn_user
from ordinalgp.validation import options
from ordinalgp.validation.memory import check_memory

LIKELIHOODS: dict[str, type[Thresholds]] = {"probit": OrdinalProbit, "logit": OrdinalLogit}
# Noise at the start, in prior standard deviations of the latent function. Of the paper's start and
# of level frequencies with noise 1, 0.5 and 0.3 the last lost least evidence on seven data sets.
_START_NOISE = 0.3
_PREDICT_BLOCK = 2**23  # numbers in one block of cross-covariances: 64 MB

saved_as("sites")(Sites)
saved_as("hyperprior.normal")(HyperPrior)
saved_as("likelihood.probit")(OrdinalProbit)
saved_as("likelihood.logit")(OrdinalLogit)
saved_as("projection.identity")(Identity)
saved_as("projection.rows")(RowSelection)
saved_as("task.evidence")(Task)


@dataclass(frozen=True, eq=False)
class SearchOptions(Search):
    """Options of the search for hyperparameters, as the estimators' parameters have them."""

    n_restarts: int
    random_state: Any

    @classmethod
    def of(cls, estimator: Any, report: Report) -> Self:
        """The options of an estimator."""
        starts = estimator.n_restarts_optimizer, estimator.random_state
        return cls(estimator.optimizer, estimator.n_jobs, report, *starts)

    def starts(
        self, task: Any, *, default: bool, towards: "WarmStart | None" = None
    ) -> list[FloatArray]:
        """The first start, for the default kernel to the scale of the inputs, and random ones.

        The first one is moved ``towards`` the hyperparameters of another fit.
        """
        first = rescaled_start(task) if default else task.theta
        if towards is not None:
            first = towards.between(first)
        rng = options.fit_generator(self.random_state)
        return [first] + [perturbed(task, first, rng) for _ in range(self.n_restarts)]

    def maximise(
        self,
        task: Task,
        limits: Limits = USUAL_LIMITS,
        *,
        default: bool,
        towards: "WarmStart | None" = None,
    ) -> tuple[Task, SearchResult]:
        """Search the hyperparameters of a task, which may come back with narrower bounds."""
        starts = self.starts(task, default=default, towards=towards)
        bounded, found = self.search_evidence(task, starts, limits)
        if bounded is not task:
            # Mended, so that a report will do: small data without noise would warn at every fit.
            low = bounded.likelihood.noise_bounds[0] * bounded.likelihood.unit
            text = f"false maximum of Laplace's evidence left: noise of at least {low:.3g}"
            self.report(Progress("search", len(found.path), None, found.value, 0.0, text, True))
        return bounded, found


@dataclass(frozen=True, eq=False)
class GPOptions:
    """Options of a Gaussian process classifier."""

    kernel: Any
    """None: the default one, scaled to the inputs"""
    likelihood: Any
    """a word of LIKELIHOODS, or where the search begins"""
    objective: ObjectiveName
    max_sweeps: int
    tol: float
    search: SearchOptions
    hyperprior: LogPrior | None = None
    noise_bounds: tuple[float, float] | None = None
    steps: int = 200
    """most steps of the search"""
    towards: "WarmStart | None" = None
    """a fit towards which the search begins, between its hyperparameters and the usual start"""

    def near(self, start: "WarmStart") -> Self:
        """The options with the search begun at another model's hyperparameters, or on the way."""
        if start.share < 1:
            return replace(self, towards=start, steps=start.steps)
        model = start.model
        parts = {"kernel": model.kernel, "likelihood": model.likelihood}
        return replace(self, **parts, steps=start.steps)

    def starting_task(
        self, X: FloatArray, codes: IntArray, weights: FloatArray, n_levels: int
    ) -> tuple[Task, RowIndex]:
        """The task at the start of the search, equal rows merged."""
        kernel = starting_kernel(self.kernel, X)
        rows = merge_rows(X, codes, weights, kernel)
        observed = np.bincount(rows.codes, rows.counts, minlength=n_levels).astype(float)
        # Inputs of zero under a linear kernel have no variance; any scale will do for them.
        latent_var = float(np.mean(kernel.diag(rows.X))) or 1.0
        likelihood = self._starting_likelihood(observed, latent_var)
        likelihood = with_noise_bounds(likelihood, self.noise_bounds)
        data = rows.X, kernel, likelihood, rows.projection, rows.codes, rows.counts
        limits = self.objective, self.max_sweeps, float(self.tol)
        task = Task(*data, *limits, hyperprior=self.hyperprior)
        return task, rows.index

    def _starting_likelihood(self, observed: FloatArray, latent_var: float) -> Any:
        """The likelihood at the start, of the observed frequencies of levels or as given."""
        if isinstance(self.likelihood, str):
            cls = LIKELIHOODS[self.likelihood]
            noise = _START_NOISE * np.sqrt(latent_var) / cls.noise_sd
            return cls.from_counts(observed, noise, latent_var)
        if self.likelihood.n_levels != len(observed):
            raise ValueError(
                f"likelihood is for {self.likelihood.n_levels} levels, but there are "
                f"{len(observed)}. Give one with {len(observed) - 1} thresholds, or a word."
            )
        return self.likelihood

    def search_task(self, task: Task) -> tuple[Task, SearchResult]:
        """Search the hyperparameters of a task, which may come back with narrower bounds."""
        default = self.kernel is None
        limits = Limits(self.steps)
        return self.search.maximise(task, limits, default=default, towards=self.towards)

    def fit_exact(
        self, X: FloatArray, codes: IntArray, weights: FloatArray, n_levels: int
    ) -> "ExactGP":
        """The exact model of some rows."""
        task, index = self.starting_task(X, codes, weights, n_levels)
        check_memory(len(task.X))
        task, found = self.search_task(task)
        model = ExactGP.infer(task, index, found)
        if self.search.optimizer is None:
            return model
        # Outside of the search: a level without rows has no part in the evidence.
        counts = np.bincount(task.y, task.counts, minlength=n_levels).astype(float)
        link = with_half_rows(model.likelihood, model.left_out(), task.counts, counts)
        if link is model.likelihood:
            return model
        theta = np.concatenate([model.kernel.theta, link.theta])
        return ExactGP.infer(task, index, replace(found, theta=theta))


def with_noise_bounds(likelihood: Any, noise_bounds: Any) -> Any:
    """The likelihood whose noise stays within bounds in the search; None: within its own.

    Bounds are for the standard deviation of the noise in prior standard deviations of the latent
    function at the start.
    """
    if noise_bounds is None:
        return likelihood
    if not hasattr(likelihood, "noise_bounds"):
        raise TypeError(
            "noise_bounds needs a threshold model, but likelihood is a "
            f"{type(likelihood).__name__}. Use noise_bounds=None, or inherit from "
            "ordinalgp.core.likelihoods.Thresholds."
        )
    scale = likelihood.noise_unit / getattr(likelihood, "unit", 1.0)
    low, high = (scale * float(bound) for bound in noise_bounds)
    return replace(likelihood, noise_bounds=(low, high))


def check_noise_bounds(noise_bounds: Any) -> None:
    """Raise ValueError unless these are None or two positive numbers, the lower one first."""
    if noise_bounds is None:
        return
    pair = np.shape(noise_bounds) == (2,) and np.asarray(noise_bounds).dtype.kind in "iuf"
    if not pair or not 0 < noise_bounds[0] <= noise_bounds[1] < np.inf:
        raise ValueError(
            "noise_bounds must be None or a pair of positive numbers, the lower one first, but is "
            f"{noise_bounds!r}. Use for example (0.1, 10.0)."
        )


@dataclass(frozen=True, eq=False)
class WarmStart:
    """A fitted model, at or towards whose hyperparameters a search begins."""

    model: Any
    steps: int = 200
    """most steps of the search"""
    share: float = 1.0
    """of the way from the usual start to the model's hyperparameters, most of them logarithms"""

    def between(self, first: FloatArray) -> FloatArray:
        """The start on the way; the usual one where the model has other hyperparameters."""
        theta = np.asarray(self.model.task.theta)
        return first + self.share * (theta - first) if theta.shape == first.shape else first


def check_search(estimator: Any, words: Sequence[str] = ()) -> None:
    """Raise unless the parameters of a search are right; ``words`` may stand for a kernel."""
    if isinstance(estimator.kernel, str) and words:
        options.check_option("kernel", estimator.kernel, words)
    elif estimator.kernel is not None:
        options.check_kernel(estimator.kernel)
    if estimator.optimizer is not None and not callable(estimator.optimizer):
        options.check_option("optimizer", estimator.optimizer, ("fmin_l_bfgs_b",))
    options.check_whole("n_restarts_optimizer", estimator.n_restarts_optimizer, least=0)
    check_noise_bounds(estimator.noise_bounds)
    prior = estimator.hyperprior
    if prior is not None and (isinstance(prior, type) or not hasattr(prior, "log_density")):
        raise TypeError(
            "hyperprior must be None or an object with the method log_density(kernel, likelihood), "
            f"but {prior!r:.80} was given. Use for example ordinalgp.hyperpriors.HyperPrior()."
        )


def check_likelihood(likelihood: Any) -> None:
    """Raise unless this is a word for a likelihood, or has all that one needs."""
    if isinstance(likelihood, str):
        options.check_option("likelihood", likelihood, tuple(LIKELIHOODS))
        return
    lacking = [name for name in ORDINAL_MEMBERS if not hasattr(likelihood, name)]
    if lacking or isinstance(likelihood, type):
        what = f"the class {likelihood.__name__}" if isinstance(likelihood, type) else likelihood
        raise TypeError(
            f"likelihood must be one of {', '.join(map(repr, LIKELIHOODS))} or an object with the "
            f"members of OrdinalLikelihood, but {what!r:.80} lacks "
            f"{', '.join(lacking) or 'parameters'}."
        )


def check_inference(estimator: Any) -> None:
    """Raise unless the parameters of approximate inference are right."""
    options.check_option("inference", estimator.inference, ("ep", "laplace"))
    options.check_whole("max_sweeps", estimator.max_sweeps, least=1)
    options.check_number("tol", estimator.tol, above=0)


@saved_as("summary.search")
@dataclass(frozen=True, eq=False)
class SearchSummary:
    """Outcome of a search and of the final inference."""

    value: float
    """objective at the hyperparameters found"""
    path: Annotated[FloatArray, Axes("evaluations")]
    """objective at every evaluation of the winning search"""
    converged: bool
    n_iter: int
    """sweeps or Newton steps of the final inference"""


class LatentModel(ABC):
    """A fitted Gaussian process, as predictions and leave-one-out need it."""

    task: Any
    """rows, kernel and likelihood with the hyperparameters found"""
    summary: SearchSummary

    @property
    def kernel(self) -> Any:
        """Kernel with the hyperparameters found."""
        return self.task.kernel

    @property
    def likelihood(self) -> Any:
        """Likelihood with the parameters found."""
        return self.task.link

    @abstractmethod
    def latent(self, X: FloatArray) -> Moments:
        """Posterior moments at new rows."""

    def probabilities(self, X: FloatArray) -> FloatArray:
        """Probability of every level at new rows, (n, r)."""
        found = self.latent(X)
        return np.asarray(self.likelihood.probabilities(found.mean, found.var))

    def log_probabilities(self, X: FloatArray) -> FloatArray:
        """Log probability of every level at new rows, (n, r); it never underflows."""
        found = self.latent(X)
        levels = range(self.likelihood.n_levels)
        ranks = (np.full(len(found.mean), level) for level in levels)
        expected = (self.likelihood.log_expectation(y, found.mean, found.var) for y in ranks)
        return np.column_stack([each.value for each in expected])

    @abstractmethod
    def joint(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Joint posterior mean and covariance of new rows, less the prior mean."""

    def probability_draws(self, X: FloatArray, n: int, rng: Any) -> FloatArray:
        """Probabilities of the levels under ``n`` draws of the latent function, (n, rows, r)."""
        # This root changes continuously with the covariance: equal seeds make similar draws.
        root = symmetric_root(self.joint(X)[1])
        f = self.latent(X).mean + rng.standard_normal((n, len(X))) @ root
        return probabilities_along(self.likelihood, f)

    @abstractmethod
    def left_out(self) -> Moments:
        """Latent moments of each observation, one copy of it left out."""

    def left_out_probabilities(self) -> FloatArray:
        """Probability of every level at each training row without itself, (n, r)."""
        left = self.left_out()
        return np.asarray(self.likelihood.probabilities(left.mean, left.var))

    def evaluate(self, theta: FloatArray | None) -> tuple[float, FloatArray]:
        """Objective and gradient at other hyperparameters; None: at those found."""
        return evaluate_at(self.task, theta)

    @abstractmethod
    def check(self, n_features: int, n_levels: int) -> None:
        """Raise ValueError unless the parts of a saved model agree."""


class SupportedModel(LatentModel):
    """A model whose posterior follows from covariances with one set of inputs, its support."""

    posterior: Any

    def latent(self, X: FloatArray) -> Moments:
        """Posterior moments, block by block: memory stays flat in the rows of ``X``."""
        return latent_in_blocks(self.posterior, self.kernel, self.task.support, X)

    @property
    @abstractmethod
    def reference(self) -> Reference:
        """Rows over which the functions of features have mean zero."""

    def effects(self, X: FloatArray, groups: Mapping[str, Sequence[int]]) -> Effects:
        """Posterior of the own functions of groups of features."""
        return effects(self, X, groups, self.reference)

    def check(self, n_features: int, n_levels: int) -> None:
        """Raise ValueError unless the parts of a saved model agree."""
        check_rows(self.task.support, self.kernel, n_features)
        if self.likelihood.n_levels != n_levels:
            raise ValueError("the likelihood and the levels disagree")
        if self.posterior is not None:  # it is derived once all else is known to be right
            found = self.latent(self.task.support[:1])
            check_finite(found.mean, found.var)


@saved_as("model.exact")
@dataclass(frozen=True, eq=False)
class ExactGP(SupportedModel):
    """A Gaussian process on all training rows: the task at the hyperparameters found, and sites.

    The posterior follows from these, so that a saved model has it to the last bit.
    """

    task: Annotated[Any, Tagged("task")]
    sites: Sites
    rows: RowIndex
    summary: SearchSummary
    posterior: Posterior = field(metadata={"saved": False})
    derives: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Complete the posterior, which is then only read."""
        if self.posterior is not None:
            self.posterior.observed()

    @classmethod
    def restored(
        cls, task: Any, sites: Sites, rows: RowIndex, summary: SearchSummary, *, derive: bool
    ) -> Self:
        """The model, if asked for with its posterior derived; one factorisation."""
        check_memory(len(task.X), n_matrices=4)
        if task.projection.shape != (len(task.y), len(task.X)):
            raise ValueError("the projection and the rows disagree")
        posterior: Any = task.posterior(sites) if derive else None
        return cls(task, sites, rows, summary, posterior)

    @classmethod
    def infer(cls, task: Task, rows: RowIndex, found: SearchResult) -> Self:
        """Infer once more at the hyperparameters found."""
        task = task.at(found.theta)
        value, final = task.value_and_posterior(found.start)
        warn_unfinished(task, final)
        converged = bool(final.converged and found.converged)
        summary = SearchSummary(value, found.path, converged, final.n_sweeps)
        return cls(task, final.sites, rows, summary, final.posterior)

    def latent(self, X: FloatArray) -> Moments:
        """Posterior moments, the prior mean of the task included."""
        found = super().latent(X)
        return Moments(self.task.prior_mean + found.mean, found.var)

    def joint(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Joint posterior mean and covariance of new rows."""
        cross = self.kernel(X, self.task.support)
        covariance = self.posterior.predict_covariance(cross, self.kernel(X))
        return cross @ self.posterior.weights, (covariance + covariance.T) / 2

    @property
    def reference(self) -> Reference:
        """The training rows, as often as each counts."""
        counts = self.task.projection.adjoint(self.task.counts)
        return Reference(self.task.X, counts / counts.sum())

    def left_out(self) -> Moments:
        """Latent moments of every observation without one copy of itself."""
        return self.task.left_out(self.posterior, self.sites)

    def left_out_probabilities(self) -> FloatArray:
        """Probability of every level at each training row without itself, (n, r)."""
        proba = super().left_out_probabilities()[self.rows.observation]
        if len(self.rows.left_out):  # rows of weight zero had no part in the fit
            proba[self.rows.observation < 0] = self.probabilities(self.rows.left_out)
        return proba

    def check(self, n_features: int, n_levels: int) -> None:
        """Raise ValueError unless the parts of a saved model agree."""
        super().check(n_features, n_levels)
        unused = int(np.sum(self.rows.observation < 0))
        if self.rows.left_out.shape != (unused, n_features):
            raise ValueError("the rows that were left out disagree with the others")


def evaluate_at(task: Any, theta: FloatArray | None) -> tuple[float, FloatArray]:
    """Objective of a task and its gradient; None: at the task's own hyperparameters."""
    theta = task.theta if theta is None else np.asarray(theta, dtype=float)
    if theta.shape != task.theta.shape:
        raise ValueError(
            f"theta must have shape {task.theta.shape}: {task.kernel.n_dims} kernel and "
            f"{len(task.likelihood.theta)} likelihood parameters, but has {theta.shape}."
        )
    if not np.all(np.isfinite(theta)):
        raise ValueError(f"theta must be finite, but is {theta.tolist()}.")
    step = task.evaluate(theta)
    return step.value, step.gradient


def warn_unfinished(task: Task, final: Approximation) -> None:
    """Warn if the inference of a task has not converged."""
    if not final.has_cavities:
        warn_without_cavity(f"the smallest is {task.counts.min():.2g}")
    elif not final.converged:
        moves = f"{task.objective.split()[0]}: sites still move by {final.change:.1e}"
        limits = f"> tol={task.tol:.1e} after {final.n_sweeps} sweeps; raise max_sweeps."
        warn_user(f"{moves} {limits}", ConvergenceWarning)


def warn_without_cavity(which: str) -> None:
    """Warn that weights below one leave observations without a cavity."""
    warn_user(
        f"EP has no cavity for some observations, because of their weights below one ({which}): "
        "the evidence and its gradient are inexact. Use larger weights, or "
        'inference="laplace".',
        ConvergenceWarning,
    )


def probabilities_along(likelihood: Any, f: FloatArray) -> FloatArray:
    """P(level | f) of many values, of the shape of ``f`` and one axis more.

    Steps of 1/50 of the noise leave errors below 3e-5 between the points where it is evaluated.
    """
    low, span = float(f.min()), float(np.ptp(f))
    steps = int(span / (0.02 * likelihood.noise)) + 1
    if steps > f.size:
        found = np.asarray(likelihood.probabilities(f.ravel(), np.zeros(f.size)))
        return found.reshape(*f.shape, -1)
    points = np.linspace(low, low + span, steps + 1)
    table = np.asarray(likelihood.probabilities(points, np.zeros(len(points))))
    place = (f - low) / (span or 1.0) * steps  # in this order also where the span is subnormal
    before = np.minimum(place.astype(np.intp), steps - 1)
    share = (place - before)[..., None]
    return (1 - share) * table[before] + share * table[before + 1]


def check_rows(X: FloatArray, kernel: Any, n_features: int) -> None:
    """Raise unless saved inputs are ones that the kernel takes."""
    options.check_kernel(kernel)
    gaps = options.allows_missing(kernel) or not np.isnan(X).any()
    if X.shape[1] != n_features or np.isinf(X).any() or not gaps:
        raise ValueError("the inputs and the rest of the model disagree")


def check_finite(*predictions: FloatArray) -> None:
    """Raise unless the predictions of a saved model, at one of its inputs, are numbers."""
    if not all(np.isfinite(each).all() for each in predictions):
        raise ValueError("its predictions are not finite")


def latent_in_blocks(
    posterior: Any, kernel: Any, support: FloatArray, X: FloatArray, size: int = _PREDICT_BLOCK
) -> Moments:
    """Posterior moments at new rows, less the prior mean, by their covariance with ``support``.

    ``size`` is the number of covariances computed at a time.
    """
    block = max(1, size // len(support))
    parts = (X[i : i + block] for i in range(0, len(X), block))
    covariances = ((cross_covariance(kernel, part, support), kernel.diag(part)) for part in parts)
    found = [posterior.predict(*pair) for pair in covariances]
    return Moments(*(np.concatenate([getattr(p, k) for p in found]) for k in ("mean", "var")))
