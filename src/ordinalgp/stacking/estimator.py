"""Mixtures of ordinal models: ``StackedOrdinalGP``."""

from typing import Any, ClassVar

import numpy as np

from ordinalgp._typing import IntArray
from ordinalgp.models.base import Fitted, OrdinalClassifier
from ordinalgp.models.exact import WarmStart
from ordinalgp.persistence import saved_as
from ordinalgp.runtime.progress import reporter
from ordinalgp.stacking.default_models import (
    DIRECTED,
    PRIOR_WEIGHTS,
    SHARP,
    VIEWS,
    default_models,
)
from ordinalgp.stacking.inputs import Inputs
from ordinalgp.stacking.model import MixtureModel
from ordinalgp.stacking.training import Rows, StackingSettings, Training, starts_towards
from ordinalgp.validation.options import check_number, fit_generator


@saved_as("estimator.stacked")
class StackedOrdinalGP(OrdinalClassifier):
    """Classifier for ordered levels that mixes the predictions of several models.

    No kernel has to be chosen. The models are fitted one by one, and their probabilities are
    averaged. The weights are those with which the mixture predicts left-out rows best, pulled
    towards prior weights.

    Parameters
    ----------
    models : dict of str and estimators, default=None
        Classifiers by name, each with ``loo_proba`` and ``category_proba``. None is a set of
        threshold models (:class:`OrdinalGPClassifier`) and sequential models
        (:class:`SequentialOrdinalGP`) with several kernels. It scales the inputs itself: numbers
        are standardised, columns of two values become 0 and 1, and two of the models see normal
        scores of columns with heavy tails.
    feature_groups : array-like of shape (n_features,), default=None
        Column that each feature belongs to, as numbers or names, for the default models. Features
        of one column, such as the 0/1 features of a nominal one, share a length scale and a
        function (:class:`ordinalgp.kernels.PerColumn`). None: each feature is a column.
    shrinkage : float, default=8.0
        Strength of the pull towards prior weights, in nats per nat of divergence: the weights
        maximise the leave-one-out log likelihood of the mixture less ``shrinkage`` times their
        Kullback-Leibler divergence from the prior weights. These are equal for ``models`` of your
        own. 0 trusts the rows alone.
    categories : sequence, default=None
        Levels from lowest to highest, for all models. None takes them from an ordered pandas or
        polars categorical, or sorts numbers. Strings without an order are an error.
    decision : {"mode", "median", "balanced", "mean"} or array of shape (r, r), default="mode"
        Turns probabilities into a label: the most probable level (least zero-one error), the
        median (least absolute error), the least absolute error averaged over levels, the level
        nearest the mean rank, or the least expected cost under ``cost[true, predicted]``. With
        "balanced" rare levels count as much as common ones; probabilities stay as they are.
    n_jobs : int, default=None
        Number of models fitted in parallel by joblib.
    random_state : int, RandomState instance or None, default=None
        Seed of the subsets of rows above 600 rows, and of models without a seed of their own. None
        is a fixed seed: two fits of the same rows are equal.
    verbose : int, default=0
        1 prints every fitted model, and the weights, on the error stream.

    Attributes
    ----------
    models_ : dict of str and estimators
        The fitted models with positive weight. Models below a weight of 0.001 are not kept. Those
        of the default set are fitted on scaled inputs.
    weights_ : dict of str and float
        Weight of every name in ``models``, 0 for those not fitted or not kept; they sum to one.
    prior_weights_ : dict of str and float
        Weights, in proportion, towards which ``weights_`` are pulled; 1 for ``models`` of your own.
    sharpness_ : float
        Exponent of the averaged probabilities, at least 1. An average is more cautious than its
        parts; where left-out rows show that levels are almost certain, it is sharpened.
    loo_log_score_ : float
        Leave-one-out log score of the mixture: the mean of minus the log probability of the level
        of a left-out row; lower is better. It is slightly optimistic, because the weights and
        the hyperparameters have seen the row.
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
    Four of the default models, the sharp and the directed ones, are for data almost without noise.
    They are fitted only where the leave-one-out log score of the others is below 0.25. Two of them
    learn directions of the inputs from earlier fits; up to 300 features.

    Up to 600 different rows every model is fitted on all rows. Above, all are fitted on 450 rows
    first, and only those with a weight of at least 0.02 there are fitted on all rows, with short
    searches that begin at the hyperparameters of the subset. Above 2,000 rows a subset of 2,000
    takes the place of all rows. Then models that are not asked to be exact are fitted on all rows
    as well, with inducing points or neighbours, and kept if they predict rows outside the subset
    better. ``verbose=1`` prints what was chosen.

    A model that raises, or whose probabilities are not finite, has no weight and causes a warning.
    ``sample_weight`` counts copies for every model and for the weights.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp import StackedOrdinalGP
    >>> X = np.linspace(-2, 2, 30)[:, None]
    >>> y = np.digitize(X[:, 0] ** 3, [-1, 1])
    >>> model = StackedOrdinalGP().fit(X, y)
    >>> model.predict([[-1.8], [0.0], [1.8]])
    array([0, 1, 2])
    >>> round(sum(model.weights_.values()), 6)
    1.0
    """

    _has_latent = False
    _has_left_out = True
    _settings: ClassVar[StackingSettings] = StackingSettings()
    _start: WarmStart | None = None

    def __init__(
        self,
        models: Any = None,
        *,
        feature_groups: Any = None,
        shrinkage: float = 8.0,
        categories: Any = None,
        decision: Any = "mode",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.models = models
        self.feature_groups = feature_groups
        self.shrinkage = shrinkage
        self.categories = categories
        self.decision = decision
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        check_number("shrinkage", self.shrinkage, least=0)
        if self.models is None:
            return
        if not isinstance(self.models, dict) or not self.models:
            raise TypeError(
                "models must be a dict of names and estimators, or None for the default set, but "
                f"{self.models!r:.80} was given."
            )
        if self.feature_groups is not None:
            raise ValueError(
                "feature_groups was given together with models, but only the default models use "
                "it. Leave it out, and use ordinalgp.kernels.PerColumn in the models' kernels."
            )
        for name, model in self.models.items():
            lacking = [each for each in ("loo_proba", "category_proba") if not hasattr(model, each)]
            if lacking or isinstance(model, type) or not isinstance(name, str):
                raise TypeError(
                    "models must hold names and estimators with loo_proba and category_proba, but "
                    f"{name!r} is {model!r:.80}. Use for example OrdinalGPClassifier()."
                )

    def _learn(self, X: Any, y: Any, sample_weight: Any) -> Fitted:
        X, levels, weights = self._check_rows(X, y, sample_weight)
        rows = Rows(X, levels.codes, weights, levels.categories)
        rng, report = fit_generator(self.random_state), reporter(self.verbose)
        options = float(self.shrinkage), self.n_jobs, rng, report, self._settings
        towards = {} if self._start is None else starts_towards(self._start)
        if self.models is None:
            inputs, groups = Inputs.learn(X, weights), self._groups(X.shape[1])
            models = default_models(X.shape[1], groups)
            special = PRIOR_WEIGHTS, SHARP, DIRECTED
            training = Training(models, *options, inputs, VIEWS, *special, towards)
        else:
            training = Training(self.models, *options, towards=towards)
        return Fitted(self._signature(levels), training.fit(rows))

    def _groups(self, n_features: int) -> IntArray | None:
        """Columns of features as numbers from 0 on; None if each is a column of its own."""
        if self.feature_groups is None:
            return None
        given = np.asarray(self.feature_groups)
        if given.shape != (n_features,):
            raise ValueError(
                f"feature_groups has shape {given.shape}, but X has {n_features} features. Give "
                "the column of each feature, as a number or a name."
            )
        names, groups = np.unique(given, return_inverse=True)
        return None if len(names) == n_features else groups

    def _publish(self, model: MixtureModel) -> None:
        weights = model.weights.tolist()
        self.weights_ = dict(zip(model.names, weights, strict=True))
        prior = PRIOR_WEIGHTS if self.models is None else {}
        self.prior_weights_ = {name: prior.get(name, 1.0) for name in model.names}
        names = [name for name, weight in self.weights_.items() if weight > 0]
        self.models_ = dict(zip(names, model.models, strict=True))
        self.sharpness_ = model.sharpness
        self.loo_log_score_ = model.log_score
