"""Sequential ordinal regression: ``SequentialOrdinalGP``."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.search import objective_named
from ordinalgp.many_rows.approximations import Approximation, check_approximation
from ordinalgp.many_rows.chunks import ArrayRows, Chunk
from ordinalgp.many_rows.fitting import ManyRowsFit
from ordinalgp.many_rows.model import InducedGP
from ordinalgp.many_rows.neighbour_model import NeighbourGP
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.models import exact
from ordinalgp.models.base import Fitted, OrdinalClassifier
from ordinalgp.persistence import saved_as
from ordinalgp.runtime.progress import Progress, reporter, silent
from ordinalgp.sequential.model import SequentialModel, Split, Step, level_probabilities, splits
from ordinalgp.validation.options import check_limit, check_option

_Rows = tuple[FloatArray, IntArray, FloatArray]  # inputs, codes, weights


@saved_as("estimator.sequential")
class SequentialOrdinalGP(OrdinalClassifier):
    """Classifier for ordered levels with one latent function per binary step.

    A threshold model moves everybody along one scale. A sequential model asks a series of
    questions instead, such as "higher than this level?", each with a Gaussian process of its own.
    It can describe groups that choose both the lowest and the highest level more often. With two
    levels it is the same model as :class:`OrdinalGPClassifier`.

    Parameters
    ----------
    kernel : scikit-learn kernel, default=None
        Covariance of the latent functions; each step learns its own hyperparameters. None is the
        Gaussian kernel, as in :class:`OrdinalGPClassifier`.
    direction : {"middle", "up", "down"}, default="middle"
        Order of the questions. "up" begins with the lowest level and asks whether it goes higher,
        P(y > j | y >= j). "down" begins with the highest. "middle" cuts the levels where the rows
        come nearest to halves, and then each part again.
    likelihood : {"probit", "logit"}, default="probit"
        Noise of the latent functions: normal, or logistic.
    inference : {"ep", "laplace"}, default="ep"
        Expectation propagation (EP), or Laplace's approximation at the posterior mode.
    approximation : {"auto", "exact", "inducing", "neighbours"}, default="auto"
        Approximation of steps with many rows, as in :class:`OrdinalGPClassifier`. "auto" is exact
        for steps up to 2,000 rows.
    inducing : {"auto", None} or int, default="auto"
        Number of inducing points for steps with more rows than that. None is exact. "auto" takes
        at most 512.
    neighbours : "auto" or int, default="auto"
        Number of rows from which a new row is predicted, with neighbours. "auto" is 200.
    categories : sequence, default=None
        Levels from lowest to highest. None takes them from an ordered pandas or polars
        categorical, or sorts numbers. Strings without an order are an error.
    decision : {"mode", "median", "balanced", "mean"} or array of shape (r, r), default="mode"
        Turns probabilities into a label: the most probable level (least zero-one error), the
        median (least absolute error), the least absolute error averaged over levels, the level
        nearest the mean rank, or the least expected cost under ``cost[true, predicted]``. With
        "balanced" rare levels count as much as common ones; probabilities stay as they are.
    hyperprior : prior object, default=None
        Prior on the hyperparameters of every step, whose log density the search adds to the
        evidence. None is flat. If the kernel has one length scale per feature, use
        :class:`ordinalgp.hyperpriors.HyperPrior`.
    noise_bounds : pair of floats, default=None
        Range that the search may visit for the standard deviation of the noise, in prior standard
        deviations of the latent function at the start of the search.
    optimizer : {"fmin_l_bfgs_b"}, callable or None, default="fmin_l_bfgs_b"
        Search for the hyperparameters of each step; None keeps the kernel as given.
    n_restarts_optimizer : int, default=0
        Additional searches per step from random starts; the best is kept.
    max_sweeps : int, default=100
        Largest number of EP sweeps or Newton steps for one set of hyperparameters.
    tol : float, default=1e-6
        Inference stops when no site moves further than this many posterior standard deviations.
    n_jobs : int, default=None
        Number of steps fitted in parallel by joblib.
    random_state : int, RandomState instance or None, default=None
        Seed of the random starts, and above 2,000 rows of the samples of rows. None
        is a fixed seed: two fits of the same rows are equal.
    verbose : int, default=0
        1 prints every step and search, 2 also every evaluation, on the error stream.

    Attributes
    ----------
    steps_ : tuple of Step
        The steps. Each has ``low``, ``cut`` and ``high``: of the levels from ``low`` to below
        ``high``, it asks whether the level is at least ``cut``. Its ``model`` is the Gaussian
        process, with ``kernel`` and ``likelihood``, or None if one side has no rows.
    log_marginal_likelihood_value_ : float
        Log evidence, the sum over the steps; with ``hyperprior`` its log density is included.
    converged_ : bool
        Whether inference and search converged in every step. If not, raise ``max_sweeps``, or use
        a kernel with fewer length scales.
    n_iter_ : int
        Largest number of sweeps or Newton steps in the final inference of a step.
    categories_ : ndarray
        All levels in rank order.
    classes_ : ndarray
        Observed labels, sorted as scikit-learn sorts them.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if the input had them.

    Notes
    -----
    Probabilities sum to one by construction. Leave-one-out probabilities are products as well:
    steps that contain a row leave it out, and the others predict it. A step whose rows are all on
    one side is not learned; the other side has probability 1/2 of a row in n + 1.

    Examples
    --------
    People of both extremes tend to the lowest and to the highest level:

    >>> import numpy as np
    >>> from ordinalgp import SequentialOrdinalGP
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(-2, 2, 60)[:, None]
    >>> y = np.where(np.abs(X[:, 0]) > 1, rng.choice([0, 2], 60), 1)
    >>> model = SequentialOrdinalGP().fit(X, y)
    >>> [(step.low, step.cut, step.high) for step in model.steps_]
    [(0, 2, 3), (0, 1, 2)]
    >>> bool(np.all(model.category_proba([[-1.8], [1.8]])[:, 1] < 0.2))
    True
    """

    _has_latent = False
    _has_left_out = True
    _start: exact.WarmStart | None = None
    _settings: ClassVar[ManyRowsSettings] = ManyRowsSettings()

    def __init__(
        self,
        kernel: Any = None,
        *,
        direction: str = "middle",
        likelihood: str = "probit",
        inference: str = "ep",
        approximation: str = "auto",
        inducing: Any = "auto",
        neighbours: Any = "auto",
        categories: Any = None,
        decision: Any = "mode",
        hyperprior: Any = None,
        noise_bounds: tuple[float, float] | None = None,
        optimizer: Any = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        max_sweeps: int = 100,
        tol: float = 1e-6,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.direction = direction
        self.likelihood = likelihood
        self.inference = inference
        self.approximation = approximation
        self.inducing = inducing
        self.neighbours = neighbours
        self.categories = categories
        self.decision = decision
        self.hyperprior = hyperprior
        self.noise_bounds = noise_bounds
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_sweeps = max_sweeps
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        exact.check_search(self)
        exact.check_inference(self)
        check_option("likelihood", self.likelihood, tuple(exact.LIKELIHOODS))
        check_option("direction", self.direction, ("up", "down", "middle"))
        check_limit("inducing", self.inducing)
        check_approximation(self.approximation, self.inducing, self.neighbours)

    def _learn(self, X: Any, y: Any, sample_weight: Any) -> Fitted:
        X, levels, weights = self._check_rows(X, y, sample_weight)
        n_levels = len(levels.categories)
        counts = np.bincount(levels.codes, weights, minlength=n_levels).astype(float)
        direction: Any = self.direction
        parts = splits(counts, direction)
        choice = self.approximation, self.inducing, self.neighbours
        fit = _StepFit(X, levels.codes, weights, self._options(), choice, self._settings)
        fits = [delayed(fit)(split, self._start) for split in parts]
        steps, sides = zip(*self._run(fits), strict=True)
        left_out = np.empty((0, n_levels))
        if len(X) <= self._settings.kept_rows:
            left_out = level_probabilities(steps, n_levels, iter(sides))
        return Fitted(self._signature(levels), SequentialModel(steps, left_out))

    def _options(self) -> exact.GPOptions:
        report = silent if effective_n_jobs(self.n_jobs) > 1 else reporter(self.verbose)
        search = exact.SearchOptions.of(self, report)
        parts = self.kernel, self.likelihood, objective_named(self.inference)
        prior = self.hyperprior, self.noise_bounds
        return exact.GPOptions(*parts, self.max_sweeps, self.tol, search, *prior)

    def _run(self, fits: list[Any]) -> Iterator[Any]:
        """Results of all steps, each reported when it is there."""
        report, began = reporter(self.verbose), time.perf_counter()
        alone = effective_n_jobs(self.n_jobs) == 1
        found = (f(*a, **k) for f, a, k in fits) if alone else Parallel(self.n_jobs)(fits)
        for number, (step, sides) in enumerate(found, 1):
            value, seconds = step.value, time.perf_counter() - began
            done, text = number == len(fits), f"levels {step.low} to {step.high - 1}"
            report(Progress("model", number, len(fits), value, seconds, text, done))
            yield step, sides

    def _publish(self, model: SequentialModel) -> None:
        self.steps_ = model.steps
        found = [step.model.summary for step in model.steps if step.model is not None]
        self.log_marginal_likelihood_value_ = float(sum(summary.value for summary in found))
        self.converged_ = all(summary.converged for summary in found)
        self.n_iter_ = max(summary.n_iter for summary in found)


@dataclass(frozen=True, eq=False)
class _StepFit:
    """Rows and options that all steps are fitted with."""

    X: FloatArray
    codes: IntArray
    weights: FloatArray
    options: exact.GPOptions
    choice: tuple[Any, Any, Any]
    """approximation, number of inducing points, number of neighbours"""
    settings: ManyRowsSettings

    def __call__(self, split: Split, start: exact.WarmStart | None) -> tuple[Step, FloatArray]:
        """A fitted step, and the leave-one-out probabilities of its sides at all rows, (n, 2)."""
        low, cut, high = split
        within = (low <= self.codes) & (self.codes < high)
        sides = (self.codes[within] >= cut).astype(np.intp)
        rows = self.X[within], sides, self.weights[within]
        totals = np.bincount(sides, rows[2], minlength=2).astype(float)
        model = self._model(rows, self._options(split, start)) if totals.all() else None
        step = Step(*split, totals, model)
        kept = len(self.X) <= self.settings.kept_rows
        return step, step.left_out_probabilities(self.X, within) if kept else np.empty((0, 2))

    def _model(
        self, rows: _Rows, options: exact.GPOptions
    ) -> exact.ExactGP | InducedGP | NeighbourGP:
        wanted = Approximation.requested(*self.choice, rows[0], self.settings)
        enough = wanted.name == "inducing" and wanted.points >= len(rows[0])
        if wanted.name == "exact" or enough:
            return options.fit_exact(*rows, 2)
        chunks = ArrayRows(Chunk(*rows), self.settings.chunk_rows)
        return ManyRowsFit(chunks, self.X.shape[1], 2, wanted, options, self.settings).fit()

    def _options(self, split: Split, start: exact.WarmStart | None) -> exact.GPOptions:
        """Options that begin at the same step of another fit, or at one of the same levels."""
        if start is None:
            return self.options
        known = {step.split: step.model for step in start.model.steps if step.model is not None}
        if split in known:
            return self.options.near(replace(start, model=known[split]))
        if start.share < 1:
            return self.options
        for (low, _, high), model in known.items():
            if (low, high) == (split[0], split[2]):
                return replace(self.options, kernel=model.kernel)
        return self.options
