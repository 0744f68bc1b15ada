"""Gaussian process ordinal regression: ``OrdinalGPClassifier``."""

import warnings
from dataclasses import replace
from os import PathLike
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ordinalgp._base import OrdinalClassifier
from ordinalgp._rows import MergedRows, merge_rows
from ordinalgp._typing import FloatArray, IntArray
from ordinalgp._validation import (
    allows_missing,
    check_kernel,
    check_memory,
    check_option,
    check_weights,
    class_positions,
)
from ordinalgp.core.gaussian import Moments, Sites
from ordinalgp.core.inference import cavities
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.search import Found, Task, maximise, objective_named, perturbed

_PREDICT_BLOCK = 2**23  # numbers in one block of cross-covariances: 64 MB
_OBJECTIVES = ("ep evidence", "ep bound", "laplace evidence")

_FINITE = (-np.finfo(float).max, np.inf)
_POSITIVE = (np.nextafter(0.0, 1.0), np.inf)
_ATTRIBUTES: dict[str, tuple[Any, ...]] = {  # saved as they are
    "categories_": ("biufUSMO", "r"),
    "classes_": ("biufUSMO", "k"),
    "log_marginal_likelihood_value_": ("f", ""),
    "evidence_path_": ("f", "evaluations"),
    "converged_": ("b", ""),
    "n_iter_": ("i", ""),
}
_STATE: dict[str, tuple[Any, ...]] = _ATTRIBUTES | {
    "feature_names": ("O", "names"),
    "inputs": ("f", "N d"),
    "latent": ("i", "M", 0, "N"),
    "codes": ("i", "M", 0, "r"),
    "counts": ("f", "M", *_POSITIVE),
    "observation": ("i", "n", -1, "M"),
    "tau": ("f", "M", 0.0, np.inf),
    "nu": ("f", "M", *_FINITE),
    "kernel": ("O", ""),
    "noise": ("f", "", *_POSITIVE),
    "first": ("f", "", *_FINITE),
    "gaps": ("f", "gaps", *_POSITIVE),
    "objective": ("U", ""),
    "max_sweeps": ("iu", ""),
    "tol": ("iuf", ""),
}


class OrdinalGPClassifier(OrdinalClassifier):
    """Classifier for ordered levels with a Gaussian process prior.

    A latent function with a Gaussian process prior runs over the inputs; thresholds cut its
    noisy value into levels. Hyperparameters (kernel, noise, thresholds) maximise the
    approximate evidence, so nothing needs to be cross-validated. See [Chu05]_.

    Parameters
    ----------
    kernel : scikit-learn kernel, default=None
        Covariance of the latent function. None is the Gaussian kernel of the paper with unit
        variance and squared length scale equal to the number of features at the start, meant
        for standardised inputs. :mod:`ordinalgp.kernels` has more.
    inference : {"ep", "laplace"}, default="ep"
        Expectation propagation, the more accurate, or Laplace's approximation, the faster.
    objective : {"evidence", "bound"}, default="evidence"
        What the search maximises. "bound" is the variational lower bound of the paper's
        Appendix C, for EP only.
    inducing : {"auto", None}, default="auto"
        Inducing points for many rows. Only exact inference is available in this version:
        both values mean exact, and more rows than memory allows raise a ``MemoryError``.
    categories : sequence, default=None
        Levels from lowest to highest. None takes them from an ordered pandas or polars
        categorical, or sorts numbers; strings without an order raise.
    decision : {"mode", "median", "mean"} or array of shape (r, r), default="mode"
        Turns probabilities into a label: the most probable level (least zero-one error), the
        median (least absolute error), the level nearest the mean rank, or the least expected
        cost under ``cost[true, predicted]``.
    optimizer : {"fmin_l_bfgs_b"}, callable or None, default="fmin_l_bfgs_b"
        Search for the hyperparameters; None keeps the kernel as given. A callable is called
        like scikit-learn's: ``optimizer(obj_func, initial_theta, bounds)``.
    n_restarts_optimizer : int, default=0
        Additional searches from random starts; the best is kept.
    max_sweeps : int, default=100
        Largest number of EP sweeps or Newton steps for one set of hyperparameters.
    tol : float, default=1e-6
        Inference stops when no site moves further than this many posterior standard deviations.
    n_jobs : int, default=None
        Number of restarts run at once, through joblib.
    random_state : int, RandomState instance or None, default=None
        Draws the random starts.
    verbose : int, default=0
        1 reports every search, 2 every evaluation, on the error stream.

    Attributes
    ----------
    kernel_ : scikit-learn kernel
        The kernel with its hyperparameters found.
    likelihood_ : OrdinalProbit
        The ordinal likelihood with its parameters found.
    thresholds_ : ndarray of shape (n_categories - 1,)
        Cuts between consecutive levels, on the latent scale.
    noise_ : float
        Standard deviation of the noise added to the latent function.
    log_marginal_likelihood_value_ : float
        The objective (log evidence or bound) at the hyperparameters found.
    evidence_path_ : ndarray
        The objective at every evaluation of the winning search.
    converged_ : bool
        Whether both the inference and the search settled.
    n_iter_ : int
        Sweeps or Newton steps of the final inference.
    categories_ : ndarray
        All levels in rank order.
    classes_ : ndarray
        Observed labels, sorted as scikit-learn sorts them.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features, where the input had them.

    Notes
    -----
    ``sample_weight`` counts copies: weight 2 gives the model of the row written twice, and
    repeated rows cost nothing extra. With a ``WhiteKernel`` copies are different observations
    of different latent values, so there weights are powers of the likelihood instead.

    References
    ----------
    .. [Chu05] W. Chu and Z. Ghahramani, "Gaussian processes for ordinal regression",
       Journal of Machine Learning Research 6, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp import OrdinalGPClassifier
    >>> X = np.linspace(-2, 2, 30)[:, None]
    >>> y = np.digitize(X[:, 0] ** 3, [-1, 1])
    >>> model = OrdinalGPClassifier().fit(X, y)
    >>> model.predict([[-1.8], [0.0], [1.8]])
    array([0, 1, 2])
    >>> model.category_proba([[0.0]]).round(2)
    array([[0., 1., 0.]])
    """

    _state_spec = _STATE

    def __init__(
        self,
        kernel: Any = None,
        *,
        inference: str = "ep",
        objective: str = "evidence",
        inducing: Any = "auto",
        categories: Any = None,
        decision: Any = "mode",
        optimizer: Any = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        max_sweeps: int = 100,
        tol: float = 1e-6,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.inference = inference
        self.objective = objective
        self.inducing = inducing
        self.categories = categories
        self.decision = decision
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_sweeps = max_sweeps
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find hyperparameters and posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training inputs; standardise them for the default kernel.
        y : array-like of shape (n_samples,)
            Ordered levels: numbers, booleans, an ordered categorical, or any labels named
            by ``categories``.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        OrdinalGPClassifier
            The fitted estimator itself.
        """
        self._check_parameters()
        X = self._check_inputs(X, reset=True)
        levels = self._read_levels(X, y)
        weights = check_weights(sample_weight, len(X))
        check_memory(len(X))
        kernel = self._starting_kernel(X)
        rows = merge_rows(X, levels.codes, weights, kernel)
        task = self._task(rows, kernel, len(levels.categories))
        found = maximise(
            task,
            self._starts(task),
            optimizer=self.optimizer,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        return self._settle(task, rows, found)

    def _check_parameters(self) -> None:
        check_option("inference", self.inference, ("ep", "laplace"))
        check_option("objective", self.objective, ("evidence", "bound"))
        if self.kernel is not None:
            check_kernel(self.kernel)
        if self.inference == "laplace" and self.objective == "bound":
            raise ValueError(
                "objective='bound' is defined for EP, but inference='laplace' was given. "
                "Use inference='ep' or objective='evidence'."
            )
        if self.optimizer is not None and not callable(self.optimizer):
            check_option("optimizer", self.optimizer, ("fmin_l_bfgs_b",))
        if self.inducing is not None:
            try:
                check_option("inducing", self.inducing, ("auto",))
            except ValueError as error:
                raise ValueError(
                    f"{error} Inducing points are not part of this version; "
                    "inducing=None and 'auto' both fit the exact model."
                ) from None

    def _check_inputs(self, X: Any, *, reset: bool) -> FloatArray:
        gaps = self.kernel is not None and allows_missing(self.kernel)
        checked: FloatArray = validate_data(
            self,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite="allow-nan" if gaps else True,
        )
        return checked

    def _starting_kernel(self, X: FloatArray) -> Any:
        if self.kernel is not None:
            return self.kernel.clone_with_theta(self.kernel.theta)
        return RBF(np.sqrt(X.shape[1]), length_scale_bounds=(1e-3, 1e5))

    def _task(self, rows: MergedRows, kernel: Any, n_levels: int) -> Task:
        smoothing, objective = objective_named(self.inference, self.objective)
        observed = np.bincount(rows.codes, rows.counts, minlength=n_levels)
        latent_var = float(np.mean(kernel.diag(rows.X)))
        likelihood = OrdinalProbit.from_counts(observed, np.sqrt(latent_var), latent_var)
        return Task(
            rows.X,
            kernel,
            likelihood,
            rows.projection,
            rows.codes,
            rows.counts,
            smoothing=smoothing,
            objective=objective,
            max_sweeps=self.max_sweeps,
            tol=self.tol,
        )

    def _starts(self, task: Task) -> list[FloatArray]:
        rng = check_random_state(self.random_state)
        return [task.theta] + [
            perturbed(task, task.theta, rng) for _ in range(self.n_restarts_optimizer)
        ]

    def _settle(self, task: Task, rows: MergedRows, found: Found) -> Self:
        """Infer once more at the hyperparameters found, and keep the results."""
        value, _, final = task.evaluate(found.theta, found.start)
        if not final.converged:
            warnings.warn(
                f"{self.inference}: sites still move by {final.change:.1e} > tol={self.tol:.1e} "
                f"after {final.n_sweeps} sweeps; raise max_sweeps.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.log_marginal_likelihood_value_ = value
        self.evidence_path_ = found.path
        self.converged_ = bool(final.converged and found.converged)
        self.n_iter_ = final.n_sweeps
        self._observation = rows.observation
        self._keep(task.at(found.theta), final.sites)
        return self

    def _keep(self, task: Task, sites: Sites) -> None:
        """Set everything that follows from the hyperparameters and the sites."""
        self._fitted_task, self._sites = task, sites
        self.kernel_, self.likelihood_ = task.kernel, task.likelihood
        self.thresholds_ = task.likelihood.thresholds  # type: ignore[attr-defined]
        self.noise_ = task.likelihood.noise  # type: ignore[attr-defined]
        self._posterior = task.problem().condition(sites)

    # --------------------------------------------------------------------- prediction

    def latent_mean_and_variance(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of the latent function, without noise.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        mean, variance : ndarrays of shape (n_samples,)
            On the scale of ``thresholds_``.
        """
        check_is_fitted(self)
        X = self._check_inputs(X, reset=False)
        block = max(1, _PREDICT_BLOCK // len(self._fitted_task.X))
        parts = [self._latent(X[i : i + block]) for i in range(0, len(X), block)]
        return np.concatenate([p.mean for p in parts]), np.concatenate([p.var for p in parts])

    def _latent(self, X: FloatArray) -> Moments:
        cross = self.kernel_(X, self._fitted_task.X)
        return self._posterior.predict(cross, self.kernel_.diag(X))

    def _level_proba(self, X: Any) -> FloatArray:
        return self.likelihood_.probabilities(*self.latent_mean_and_variance(X))

    def loo_proba(self) -> FloatArray:
        """Leave-one-out probabilities of the training rows, without refitting.

        Each row is predicted from the posterior with its own site removed (one copy of it,
        if it was repeated), at the hyperparameters found from all rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        marginal = self._posterior.observed()
        cavity = cavities(marginal, self._sites)
        proba = self.likelihood_.probabilities(cavity.mean, cavity.var)
        return self._in_class_order(proba[self._observation])

    # ------------------------------------------------------------------------ evidence

    def log_marginal_likelihood(
        self, theta: Any = None, eval_gradient: bool = False
    ) -> float | tuple[float, FloatArray]:
        """Objective of the search at given hyperparameters.

        Parameters
        ----------
        theta : array-like of shape (n_hyperparameters,), default=None
            ``[kernel.theta, likelihood.theta]`` with likelihood.theta = [log noise, first
            threshold, log gaps between thresholds]. None means those found by ``fit``.
        eval_gradient : bool, default=False
            Whether to return the gradient in ``theta`` as well.

        Returns
        -------
        value : float
            Log evidence, or the bound if ``objective="bound"``.
        gradient : ndarray of shape (n_hyperparameters,)
            Only if ``eval_gradient`` is true.
        """
        check_is_fitted(self)
        if theta is None and not eval_gradient:
            return self.log_marginal_likelihood_value_
        task = self._fitted_task
        theta = task.theta if theta is None else np.asarray(theta, dtype=float)
        if theta.shape != task.theta.shape:
            raise ValueError(
                f"theta must have shape {task.theta.shape}: {task.kernel.n_dims} kernel and "
                f"{len(task.likelihood.theta)} likelihood parameters, but has {theta.shape}."
            )
        value, gradient, _ = task.evaluate(theta)
        return (value, gradient) if eval_gradient else value

    # ------------------------------------------------------------------------- keeping

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator to a file, for :func:`ordinalgp.load`.

        The file is a zip of JSON and arrays, without pickle. It is written beside ``path`` and
        moved there when complete, so that a failure leaves no file, or the old one untouched.

        Parameters
        ----------
        path : str or path-like
            Where to; any suffix, for example "model.ogp".

        Notes
        -----
        The file holds the training inputs. Kernels of scikit-learn and of
        :mod:`ordinalgp.kernels` can be saved; kernels of your own and a callable ``optimizer``
        raise a ``TypeError``. A ``RandomState`` given as ``random_state`` belongs to the running
        program and comes back as None; predictions do not depend on it.
        """
        from ordinalgp.persistence import save

        save(self, path)

    def _get_state(self) -> dict[str, Any]:
        """Collect what a file keeps: all but the n x n factor."""
        self._check_parameters()
        task, likelihood = self._fitted_task, cast(OrdinalProbit, self.likelihood_)
        named = {objective_named(*words.split()): words for words in _OBJECTIVES}
        return {name: getattr(self, name) for name in _ATTRIBUTES} | {
            "feature_names": getattr(self, "feature_names_in_", np.empty(0, dtype=object)),
            "inputs": task.X,
            "latent": task.projection.apply(np.arange(float(len(task.X)))).astype(np.intp),
            "codes": task.y,
            "counts": task.counts,
            "observation": self._observation,
            "tau": self._sites.tau,
            "nu": self._sites.nu,
            "kernel": task.kernel,
            "noise": likelihood.noise,
            "first": likelihood.first,
            "gaps": likelihood.gaps,
            "objective": named[task.smoothing, task.objective],
            "max_sweeps": task.max_sweeps,
            "tol": task.tol,
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        """Become the fitted estimator of a file; one Cholesky factorisation."""
        self._check_parameters()
        _check_parts(state)
        rows = MergedRows(
            *(state[key] for key in ("inputs", "latent", "codes", "counts", "observation"))
        )
        smoothing, objective = objective_named(*state["objective"].split())
        task = replace(
            self._task(rows, state["kernel"], len(state["categories_"])),
            likelihood=OrdinalProbit(state["noise"], state["first"], state["gaps"]),
            smoothing=smoothing,
            objective=objective,
            max_sweeps=state["max_sweeps"],
            tol=state["tol"],
        )
        for name in _ATTRIBUTES:
            setattr(self, name, state[name])
        self.n_features_in_ = rows.X.shape[1]
        if len(state["feature_names"]):
            self.feature_names_in_ = state["feature_names"]
        self._observation = rows.observation
        self._keep(task, Sites(state["tau"], state["nu"]))


def _check_parts(state: dict[str, Any]) -> None:
    """Raise unless the parts of a saved state agree, and fit into memory."""
    kernel, X = state["kernel"], state["inputs"]
    check_kernel(kernel)
    check_memory(len(X), n_matrices=4)
    parts = {
        "gaps": len(state["gaps"]) + 2 == len(state["categories_"]),
        "classes_": np.all(class_positions(state["categories_"], state["classes_"]) >= 0),
        "feature_names": len(state["feature_names"]) in (0, X.shape[1]),
        "inputs": not np.isinf(X).any() and (allows_missing(kernel) or not np.isnan(X).any()),
        "kernel": np.all(np.isfinite(kernel.theta)),
        "objective": state["objective"] in _OBJECTIVES,
    }
    wrong = [name for name, fits in parts.items() if not fits]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} and the rest of the state disagree")
