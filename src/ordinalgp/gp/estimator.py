"""Gaussian process ordinal regression: ``OrdinalGPClassifier``."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray
from ordinalgp.core.search import objective_named
from ordinalgp.many_rows import stages
from ordinalgp.many_rows.approximations import Approximation, asked, check_approximation
from ordinalgp.many_rows.chunks import ArrayRows, Chunk
from ordinalgp.many_rows.fitting import ManyRowsFit
from ordinalgp.many_rows.further_rows import with_further_rows
from ordinalgp.many_rows.model import InducedGP
from ordinalgp.many_rows.neighbour_model import NeighbourGP
from ordinalgp.many_rows.passes import with_rows
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.models import exact
from ordinalgp.models.base import Fitted, OrdinalClassifier, Signature, learn_further
from ordinalgp.models.monotone import MonotoneGP
from ordinalgp.models.monotone_steps import check_monotone, directions
from ordinalgp.persistence import saved_as
from ordinalgp.runtime.progress import reporter
from ordinalgp.validation.options import check_option

_MONOTONE = ("monotone_evidence_", "free_log_marginal_likelihood_value_")


@saved_as("estimator.gp")
class OrdinalGPClassifier(OrdinalClassifier):
    """Classifier for ordered levels with a Gaussian process prior.

    A latent function of the inputs has a Gaussian process prior. Thresholds cut its value, plus
    noise, into levels. The hyperparameters (kernel, noise, thresholds) maximise the approximate
    evidence, so that no cross-validation is needed. See [Chu05]_.

    Parameters
    ----------
    kernel : scikit-learn kernel, default=None
        Covariance of the latent function. None is the Gaussian kernel of the paper with unit
        variance and squared length scale equal to the number of features at the start, meant
        for standardised inputs. With neighbours it is a kernel of rough functions with a length
        scale per feature, plus smooth functions of single features. :mod:`ordinalgp.kernels` has
        more.
    likelihood : {"probit", "logit"} or likelihood object, default="probit"
        Noise of the latent function: normal, or logistic (proportional odds). Logistic noise
        needs quadrature and costs several times more. The search can also start from an object
        with the members of ``ordinalgp.core.likelihoods.OrdinalLikelihood``. With inducing points
        it must be a threshold model, ``ordinalgp.core.likelihoods.Thresholds``.
    inference : {"ep", "laplace"}, default="ep"
        Expectation propagation (EP), or Laplace's approximation at the posterior mode. Laplace is
        up to a third cheaper per fit. With few rows its evidence can have a false maximum at
        small noise, where predictions tend to the lowest and highest levels. EP's evidence shows
        it: where Laplace's is larger by 0.02 per row, the search is repeated with more noise until
        they agree, unless ``noise_bounds`` are given. ``verbose=1`` says so.
    objective : {"evidence", "bound"}, default="evidence"
        Objective of the search. "bound" is the variational lower bound of the paper's
        Appendix C, for EP only.
    approximation : {"auto", "exact", "inducing", "neighbours"}, default="auto"
        Approximation for many rows. "inducing" summarises the latent function by its values at
        some points (FITC, [Snelson06]_), and suits smooth functions. "neighbours" infers blocks of
        rows and predicts a row from the rows near it, and suits rough functions [Vecchia88]_.
        "exact" uses all rows at once; its cost grows with the cube of their number. "auto" is
        exact up to 2,000 rows. Above, short fits predict held-out rows to choose one of the
        others. Laplace integrates out what inducing points leave over first.
        Except for "exact", ``X`` may be a memory map or a dask array. With ``y=None`` it may also
        be a function that returns a new iterator of chunks ``(X, y)``, or of functions that read
        one chunk each; "auto" then takes inducing points.
    inducing : {"auto", None}, int or array of shape (m, n_features), default="auto"
        Number of inducing points, or the points themselves, which chooses
        ``approximation="inducing"``; None chooses "exact". "auto" adds points until nowhere more
        than 1e-4 of the noise variance is left unexplained, but at most 512. A given number is
        used in full, unless fewer points explain all variance.
    neighbours : "auto" or int, default="auto"
        Number of rows from which a new row is predicted, which chooses
        ``approximation="neighbours"``. "auto" is 200. New rows near each other are predicted
        together, from up to three times as many.
    categories : sequence, default=None
        Levels from lowest to highest. None takes them from an ordered pandas or polars
        categorical, or sorts numbers. Strings without an order are an error.
    decision : {"mode", "median", "balanced", "mean"} or array of shape (r, r), default="mode"
        Turns probabilities into a label: the most probable level (least zero-one error), the
        median (least absolute error), the least absolute error averaged over levels, the level
        nearest the mean rank, or the least expected cost under ``cost[true, predicted]``. With
        "balanced" rare levels count as much as common ones; probabilities stay as they are.
    hyperprior : prior object, default=None
        Prior on the hyperparameters, whose log density the search adds to the objective. None is
        flat. If the kernel has one length scale per feature, use
        :class:`ordinalgp.hyperpriors.HyperPrior`.
    noise_bounds : pair of floats, default=None
        Range that the search may visit for the standard deviation of the noise, in prior standard
        deviations of the latent function at the start of the search. None is about (0.001, 1000).
    monotone : dict of str and int, or array of shape (n_features,), default=None
        Features along which the latent mean must not fall (1) or rise (-1), by name or one number
        per feature; 0 and other names are free. The kernel must add up functions of single
        features, such as :class:`ordinalgp.kernels.Additive`. For EP and the exact model only;
        see the notes.
    optimizer : {"fmin_l_bfgs_b"}, callable or None, default="fmin_l_bfgs_b"
        Search for the hyperparameters; None keeps the kernel as given. A callable is called
        like scikit-learn's: ``optimizer(obj_func, initial_theta, bounds)``.
    n_restarts_optimizer : int, default=0
        Additional searches from random starts; the best is kept.
    max_sweeps : int, default=100
        Largest number of EP sweeps or Newton steps for one set of hyperparameters.
    tol : float, default=1e-6
        Inference stops when no site moves further than this many posterior standard deviations.
    checkpoint : str or path-like, default=None
        Checkpoint folder of a fit over many rows, written after every pass; an interrupted fit
        resumes from it. Removed when the fit is complete.
    n_jobs : int, default=None
        Number of restarts or chunks processed in parallel by joblib.
    random_state : int, RandomState instance or None, default=None
        Seed of the random starts, and above 2,000 rows of the samples of rows. None
        is a fixed seed: two fits of the same rows are equal.
    verbose : int, default=0
        1 prints every search and, with many rows, every pass with its rows per second. 2 also
        prints every evaluation. Both print on the error stream.

    Attributes
    ----------
    kernel_ : scikit-learn kernel
        Kernel with the learned hyperparameters.
    likelihood_ : likelihood object
        Ordinal likelihood with the learned parameters.
    thresholds_ : ndarray of shape (n_categories - 1,)
        Cuts between consecutive levels, on the latent scale.
    noise_ : float
        Scale of the noise added to the latent function; for normal noise its standard deviation.
    log_marginal_likelihood_value_ : float
        The objective at the learned hyperparameters: log evidence or bound, plus the log density
        of the ``hyperprior``.
    evidence_path_ : ndarray
        The objective at every evaluation of the winning search.
    converged_ : bool
        Whether both the inference and the search converged. If not, fit again with
        ``kernel=model.kernel_``, which continues the search, or with fewer length scales.
    n_iter_ : int
        Sweeps or Newton steps of the final inference; with many rows, passes over all of them.
    approximation_ : str
        The approximation used: "exact", "inducing" or "neighbours".
    inducing_points_ : ndarray of shape (m, n_features)
        Inducing points, if the model has them.
    monotone_evidence_ : ndarray of shape (n_features,)
        With ``monotone``: log Bayes factor of each constrained feature, taken alone, against a free
        function. Below about -3 the data object. 0 for features that are free.
    free_log_marginal_likelihood_value_ : float
        With ``monotone``: the objective of the model without it.
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
    ``sample_weight`` counts copies: a row of weight 2 gives the same model as two equal rows, and
    repeated rows cost nothing extra. With a ``WhiteKernel``, copies are observations of different
    latent values, so weights are powers of the likelihood instead. EP may not converge, and then
    warns, if weights far below one meet very small noise.

    With ``monotone``, the prior is that of functions that do not fall from knot to knot along the
    features named: virtual observations as in [Riihimaki10]_, of differences in place of
    derivatives. The kernel is that of the free model, lengthened where its functions are too rough
    for knots to follow; noise and thresholds are searched again, by the evidence under this prior.
    A fit takes two to three times as long. Knots are added until the latent mean does not fall on
    a fine grid. Beyond the training range it stays as it is at the edge. So the latent mean is
    monotone for all inputs, and with it the median level. Draws of the latent function may fall a
    little, and where the variance changes, so may a probability.

    References
    ----------
    .. [Chu05] W. Chu and Z. Ghahramani, "Gaussian processes for ordinal regression",
       Journal of Machine Learning Research 6, 2005.
    .. [Riihimaki10] J. Riihimäki and A. Vehtari, "Gaussian processes with monotonicity
       information", AISTATS 2010.
    .. [Snelson06] E. Snelson and Z. Ghahramani, "Sparse Gaussian processes using
       pseudo-inputs", Advances in Neural Information Processing Systems 18, 2006.
    .. [Vecchia88] A. V. Vecchia, "Estimation and model identification for continuous spatial
       processes", Journal of the Royal Statistical Society B 50, 1988.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp import OrdinalGPClassifier
    >>> X = np.linspace(-2, 2, 30)[:, None]
    >>> y = np.digitize(X[:, 0] ** 3, [-1, 1])
    >>> model = OrdinalGPClassifier().fit(X, y)
    >>> model.predict([[-1.8], [0.0], [1.8]])
    array([0, 1, 2])
    >>> bool(model.category_proba([[0.0]])[0, 1] > 0.9)
    True
    """

    _has_left_out = True
    _start: exact.WarmStart | None = None
    many_rows_settings: ClassVar[ManyRowsSettings] = ManyRowsSettings()

    def __init__(
        self,
        kernel: Any = None,
        *,
        likelihood: Any = "probit",
        inference: str = "ep",
        objective: str = "evidence",
        approximation: str = "auto",
        inducing: Any = "auto",
        neighbours: Any = "auto",
        categories: Any = None,
        decision: Any = "mode",
        hyperprior: Any = None,
        noise_bounds: Any = None,
        monotone: Any = None,
        optimizer: Any = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        max_sweeps: int = 100,
        tol: float = 1e-6,
        checkpoint: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.inference = inference
        self.objective = objective
        self.approximation = approximation
        self.inducing = inducing
        self.neighbours = neighbours
        self.categories = categories
        self.decision = decision
        self.hyperprior = hyperprior
        self.noise_bounds = noise_bounds
        self.monotone = monotone
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_sweeps = max_sweeps
        self.tol = tol
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------------ fitting

    def _check_parameters(self) -> None:
        exact.check_search(self)
        exact.check_inference(self)
        exact.check_likelihood(self.likelihood)
        check_option("objective", self.objective, ("evidence", "bound"))
        check_monotone(self.monotone)
        if self.monotone is not None and (self.inference, self.objective) != ("ep", "evidence"):
            raise ValueError(
                f"monotone was given with inference={self.inference!r} and "
                f"objective={self.objective!r}, but needs the defaults 'ep' and 'evidence'."
            )
        if self.inference == "laplace" and self.objective == "bound":
            raise ValueError(
                "objective='bound' is defined for EP, but inference='laplace' was given. "
                "Use inference='ep' or objective='evidence'."
            )
        choice = self.approximation, self.inducing, self.neighbours
        check_approximation(*choice)
        if self.objective == "bound" and asked(*choice) & {"inducing", "neighbours"}:
            raise ValueError(
                "objective='bound' is defined for the exact model, but another approximation was "
                "asked for. Use objective='evidence' or approximation='exact'."
            )

    def _options(self) -> exact.GPOptions:
        objective = objective_named(self.inference, self.objective)
        search = exact.SearchOptions.of(self, reporter(self.verbose))
        parts = self.kernel, self.likelihood, objective, self.max_sweeps, self.tol
        options = exact.GPOptions(*parts, search, self.hyperprior, self.noise_bounds)
        return options if self._start is None else options.near(self._start)

    def _learn(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Fitted:
        choice = self.approximation, self.inducing, self.neighbours
        wanted = Approximation.requested(*choice, X, self.many_rows_settings)
        if wanted.name != "exact":
            self._check_exact("Use approximation='exact', or fit at most 2,000 rows.")
            return self._learn_from_many_rows(X, y, sample_weight, classes, wanted)
        X, levels, weights = self._check_rows(X, y, sample_weight, classes)
        signature, options = self._signature(levels), self._options()
        signs = directions(self.monotone, signature.n_features, signature.feature_names.tolist())
        model = options.fit_exact(X, levels.codes, weights, len(levels.categories))
        if np.any(signs):
            model = MonotoneGP.constrained(model, signs, options.search)
        return Fitted(signature, model, rows=(levels.codes, weights))

    def _check_exact(self, advice: str) -> None:
        """Raise where monotone columns meet a model that is not exact."""
        if self.monotone is not None:
            raise ValueError(
                "monotone needs the exact model of all rows, but an approximation was chosen. "
                f"{advice}"
            )

    def _learn_from_many_rows(
        self, X: Any, y: Any, sample_weight: Any, classes: Any, wanted: Approximation
    ) -> Fitted:
        settings = self.many_rows_settings
        rows: Any = stages.remote_rows(X, y, sample_weight, self.categories, self.n_jobs)
        if rows is not None:
            none = np.empty(0, dtype=object)
            signature = Signature(rows.categories, rows.classes, rows.counts, rows.n_features, none)
        else:  # in the precision that they have, to save memory
            kinds = (np.float64, np.float32)
            X, levels, weights = self._check_rows(X, y, sample_weight, classes, precisions=kinds)
            rows = ArrayRows(Chunk(X, levels.codes, weights), settings.chunk_rows)
            signature = self._signature(levels)
        changeable = ("n_jobs", "verbose", "checkpoint", "decision")
        params = {k: v for k, v in self.get_params().items() if k not in changeable}
        size, options = (signature.n_features, len(signature.categories)), self._options()
        fit = ManyRowsFit(rows, *size, wanted, options, settings, self.checkpoint, params)
        return Fitted(signature, fit.fit())

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from further rows, as one more chunk.

        The first call is ``fit``. Later calls keep the hyperparameters and the inducing points,
        and update the posterior. If the first model is exact, its rows become the inducing
        points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Further inputs.
        y : array-like of shape (n_samples,)
            Their levels, among those of the first call, of ``classes`` or of ``categories``.
        classes : array-like, default=None
            Numbers that ``y`` can hold, also in later calls; words are named by ``categories``.
        sample_weight : array-like of shape (n_samples,), default=None
            Number of times that each row counts.

        Returns
        -------
        self
            The estimator itself.
        """
        numbers = classes is not None and np.asarray(classes).dtype.kind in "biuf"
        learn_further(self, X, y, sample_weight, np.unique(classes) if numbers else None)
        return self

    def _with_rows(self, X: Any, y: Any, sample_weight: Any) -> Fitted:
        self._check_exact("Later calls of partial_fit choose one: fit all rows at once.")
        model, found = self._result.model, self._check_later_rows(X, y, sample_weight)
        signature = self._later_signature(*found[1:])
        if isinstance(model, NeighbourGP):
            return Fitted(signature, with_further_rows(model, Chunk(*found), self.n_jobs))
        stages.check_threshold_model(self.likelihood)
        points = InducedGP.from_exact(model) if isinstance(model, exact.ExactGP) else model
        return Fitted(signature, with_rows(points, ArrayRows(Chunk(*found))))

    def _publish(self, model: exact.ExactGP | InducedGP | NeighbourGP) -> None:
        self.kernel_, self.likelihood_ = model.kernel, model.likelihood
        self.thresholds_, self.noise_ = model.likelihood.thresholds, model.likelihood.noise
        self.log_marginal_likelihood_value_ = model.summary.value
        self.evidence_path_ = model.summary.path
        self.converged_, self.n_iter_ = model.summary.converged, model.summary.n_iter
        for name in ("inducing_points_", *_MONOTONE):
            self.__dict__.pop(name, None)
        if isinstance(model, MonotoneGP):
            self.monotone_evidence_ = model.agreement
            self.free_log_marginal_likelihood_value_ = model.free_value
        self.approximation_ = "exact"
        if isinstance(model, InducedGP):
            self.approximation_, self.inducing_points_ = "inducing", model.task.Z
        elif isinstance(model, NeighbourGP):
            self.approximation_ = "neighbours"

    # ------------------------------------------------------------------------ evidence

    def log_marginal_likelihood(
        self, theta: Any = None, eval_gradient: bool = False
    ) -> float | tuple[float, FloatArray]:
        """Objective of the search at given hyperparameters.

        Parameters
        ----------
        theta : array-like of shape (n_hyperparameters,), default=None
            ``[kernel.theta, likelihood.theta]`` with likelihood.theta = [log noise, first
            threshold in units of the starting kernel's standard deviation, log gaps between
            thresholds]. None means those found by ``fit``.
        eval_gradient : bool, default=False
            Whether to return the gradient in ``theta`` as well.

        Returns
        -------
        value : float
            Log evidence, or the bound if ``objective="bound"``, plus the log density of the
            ``hyperprior``.
        gradient : ndarray of shape (n_hyperparameters,)
            Only if ``eval_gradient`` is true.
        """
        check_is_fitted(self)
        if theta is None and not eval_gradient:
            return self.log_marginal_likelihood_value_
        value, gradient = self._result.model.evaluate(theta)
        return (value, gradient) if eval_gradient else value
