"""Base classes of the classifiers: ordered labels in, decisions and intervals out."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    _num_samples,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from ordinalgp._typing import LABELS, POSITIVE, Axes, FloatArray, IntArray, Tagged
from ordinalgp.decisions import decide, interval_scores, interval_threshold, intervals
from ordinalgp.kernels.feature_share import feature_groups
from ordinalgp.models.effects import DRAWS, Effects, LevelEffects, level_effects
from ordinalgp.persistence import save, saved_as
from ordinalgp.runtime.threads import manage, managed
from ordinalgp.validation.labels import (
    Levels,
    class_positions,
    count_levels,
    encode_levels,
    levels_agree,
)
from ordinalgp.validation.options import allows_missing, check_coverage, check_whole
from ordinalgp.validation.weights import check_weights

_MOST_CALIBRATION_ROWS = 200_000  # leave-one-out probabilities of more rows take much memory
_MOST_SCORES = 2_000  # kept for intervals; their thresholds then err by 0.05 % of the rows


class NoLeaveOneOut(ValueError):
    """A model that does not keep the leave-one-out moments of its training rows."""


@contextmanager
def restore_on_error(estimator: Any) -> Iterator[None]:
    """Restore the previous fit if this one raises, or is interrupted."""
    before = estimator.__dict__.copy()
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


def read_inputs(estimator: Any, X: Any, reset: bool, precisions: Any = (float,)) -> FloatArray:
    """Inputs as numbers; those that a kernel takes with gaps may hold NaN."""
    # None and words are kernels of numbers.
    kernel = getattr(estimator, "kernel", None)
    gaps = isinstance(kernel, Kernel) and allows_missing(kernel)
    allowed = {"dtype": list(precisions), "ensure_all_finite": "allow-nan" if gaps else True}
    return validate_data(estimator, X, reset=reset, **allowed)


def learn_further(estimator: Any, X: Any, y: Any, sample_weight: Any, classes: Any) -> None:
    """Learn from further rows by ``_with_rows``; without a model so far, by ``_learn``."""
    with restore_on_error(estimator):
        estimator._check_parameters()
        if estimator.__sklearn_is_fitted__():
            estimator._keep(estimator._with_rows(X, y, sample_weight))
        else:
            estimator._keep(estimator._learn(X, y, sample_weight, classes))
            estimator._calibrate(y, sample_weight)


@saved_as("labels.signature")
@dataclass(frozen=True, eq=False)
class Signature:
    """Levels and features that a classifier was fitted on."""

    categories: Annotated[NDArray[Any], Axes("r", kinds=LABELS)]
    """all levels in rank order"""
    classes: Annotated[NDArray[Any], Axes("k", kinds=LABELS)]
    """observed labels, sorted"""
    counts: Annotated[FloatArray, Axes("r", 0.0, np.inf)]
    """total weight of the training rows of each level"""
    n_features: int
    feature_names: Annotated[NDArray[Any], Axes("names", kinds="O")]
    """names of the features, or none"""

    def check(self) -> None:
        """Raise ValueError unless the parts agree."""
        if not levels_agree(self.categories, self.classes):
            raise ValueError("categories and classes disagree")
        if not self.counts.any():
            raise ValueError("no level has rows")
        if len(self.feature_names) not in (0, self.n_features):
            raise ValueError("feature names and their number disagree")


@saved_as("result.interval_scores")
@dataclass(frozen=True, eq=False)
class IntervalScores:
    """Interval scores of the training rows, each predicted from the others, ascending."""

    scores: Annotated[FloatArray, Axes("s", 0.0, 2.0)]
    weights: Annotated[FloatArray, Axes("s", *POSITIVE)]
    """number of rows with each score"""

    @classmethod
    def of(cls, scores: FloatArray, weights: FloatArray) -> Self:
        """Scores in order; of very many, groups with their highest score."""
        order = np.argsort(scores, kind="stable")
        order = order[weights[order] > 0]
        groups = min(len(order), _MOST_SCORES)
        first = np.linspace(0, len(order), groups, endpoint=False).astype(np.intp)
        last = np.append(first[1:], len(order)) - 1
        return cls(scores[order][last], np.add.reduceat(weights[order], first))


@saved_as("result.classifier")
@dataclass(frozen=True, eq=False)
class Fitted:
    """The result of a fit: what the classifier was fitted on, and the model."""

    signature: Signature
    model: Annotated[Any, Tagged("model")]
    interval_scores: IntervalScores | None = None
    """for calibrated intervals, where the model has leave-one-out probabilities"""
    rows: tuple[IntArray, FloatArray] | None = field(default=None, metadata={"saved": False})
    """codes and weights of the rows of a fit, until these intervals are calibrated"""


@manage
class LevelClassifier(ClassifierMixin, BaseEstimator, ABC):
    """Base class: validates inputs, encodes ordered labels, predicts and scores.

    Subclasses have the parameter ``categories``, and most of them ``kernel``.
    """

    categories: Any
    categories_: NDArray[Any]
    classes_: NDArray[Any]
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    _result: Fitted

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Manage the threads of the methods that a subclass defines."""
        super().__init_subclass__(**kwargs)
        manage(cls)

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise unless the parameters are of the kinds that they must be."""

    def _check_for_levels(self, n_levels: int) -> None:
        """Raise unless the parameters are right for so many levels."""
        self._check_parameters()

    @abstractmethod
    def _learn(self, X: Any, y: Any, sample_weight: Any) -> Fitted:
        """Find the model of some rows."""

    @abstractmethod
    def _publish(self, model: Any) -> None:
        """Set the fitted attributes of a model."""

    @abstractmethod
    def _predicted_ranks(self, X: Any) -> IntArray:
        """Rank of the predicted level of each row."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows whose levels are known.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training inputs; standardise them for the default kernel.
        y : array-like of shape (n_samples,)
            Ordered levels: numbers, booleans, an ordered categorical, or any labels named
            by ``categories``.
        sample_weight : array-like of shape (n_samples,), default=None
            Number of times that each row counts.

        Returns
        -------
        self
            The fitted estimator itself.
        """
        with restore_on_error(self):
            self._check_parameters()
            self._keep(self._learn(X, y, sample_weight))
            self._calibrate(y, sample_weight)
        return self

    def _calibrate(self, y: Any, sample_weight: Any) -> None:
        """Keep what intervals need of the rows of a fit: nothing without probabilities."""

    def _keep(self, result: Fitted) -> None:
        """Set everything that follows from a result: the one place where a fit leaves traces."""
        at = result.signature
        self._result = result
        self.categories_, self.classes_ = at.categories, at.classes
        self.n_features_in_ = at.n_features
        if len(at.feature_names):
            self.feature_names_in_ = at.feature_names
        self._publish(result.model)

    def _restore(self, result: Any) -> None:
        """Become the fitted estimator of a file."""
        if not isinstance(result, Fitted):
            raise ValueError("the result is not a classifier's")
        at = result.signature
        at.check()
        self._check_for_levels(len(at.categories))
        result.model.check(at.n_features, len(at.categories))
        self._keep(result)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a result."""
        return hasattr(self, "_result")

    def _check_inputs(self, X: Any, *, reset: bool, precisions: Any = (np.float64,)) -> FloatArray:
        """Inputs as numbers, in the first of the precisions unless they have another of them."""
        if hasattr(X, "__next__"):
            raise TypeError(
                f"X is a {type(X).__name__}, which can be read only once, but an array is needed "
                "(for OrdinalGPClassifier, or a function that returns a new iterator of chunks)."
            )
        return read_inputs(self, X, reset, precisions)

    def _encode(self, X: Any, y: Any, classes: Any = None) -> Levels:
        """Encode ``y``, whose levels are ``categories``, else ``classes``, else its own."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        levels = encode_levels(y, classes if self.categories is None else self.categories)
        check_consistent_length(X, levels.codes)
        return levels

    def _check_rows(
        self, X: Any, y: Any, sample_weight: Any, classes: Any = None, **inputs: Any
    ) -> tuple[FloatArray, Levels, FloatArray]:
        """Inputs, levels and weights of the rows of a fit."""
        X = self._check_inputs(X, reset=True, **inputs)
        levels = self._encode(X, y, classes)
        weights = check_weights(sample_weight, len(X), levels.codes)
        counts = count_levels(levels.codes, weights, len(levels.categories))
        return X, replace(levels, counts=counts), weights

    def _check_later_rows(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[FloatArray, IntArray, FloatArray]:
        """Inputs, codes and weights of rows that a fitted model is to learn as well."""
        X = self._check_inputs(X, reset=False)
        labels = column_or_1d(np.asarray(y), warn=True)
        # Together with all known levels, since the labels may all be of one level.
        known = self.categories_.astype(object) if labels.dtype == object else self.categories_
        levels = encode_levels(np.concatenate([labels, known]), self.categories_)
        codes = levels.codes[: len(labels)]
        check_consistent_length(X, codes)
        return X, codes, check_weights(sample_weight, len(X))

    def _signature(self, levels: Levels) -> Signature:
        """Levels, and the features that were checked last."""
        names = getattr(self, "feature_names_in_", np.empty(0, dtype=object))
        kinds = levels.categories, levels.classes, levels.counts
        return Signature(*kinds, self.n_features_in_, names)

    def _later_signature(self, codes: IntArray, weights: FloatArray) -> Signature:
        """The signature with the levels of later rows as well."""
        classes = np.unique(np.append(self.classes_, self.categories_[codes]))
        counts = count_levels(codes, weights, len(self.categories_))
        before = self._result.signature
        return replace(before, classes=classes, counts=before.counts + counts)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the level of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels, of the kind that ``fit`` was given.
        """
        check_is_fitted(self)
        return self.categories_[self._predicted_ranks(X)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy: the share of rows whose level is predicted exactly.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.
        y : array-like of shape (n_samples,)
            True levels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        float
            Accuracy; :mod:`ordinalgp.metrics` has scores that respect the order.
        """
        # scikit-learn's accuracy takes half-star ratings for a continuous target.
        predicted, truth = self.predict(X), column_or_1d(np.asarray(y))
        check_consistent_length(predicted, truth)
        weights = check_weights(sample_weight, len(truth))
        return float(np.average(predicted == truth, weights=weights))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator to a file, for :func:`ordinalgp.load`.

        The file is a zip of JSON and arrays, without pickle. It is written beside ``path`` and
        moved there when complete, so that a failure leaves no file, or the old one untouched.

        Parameters
        ----------
        path : str or path-like
            The file to write; any suffix, for example "model.ogp".

        Notes
        -----
        The file holds the training inputs. Kernels of scikit-learn and of
        :mod:`ordinalgp.kernels` can be saved; kernels of your own and a callable ``optimizer``
        raise a ``TypeError``. A ``RandomState`` given as ``random_state`` belongs to the running
        program and comes back as None; predictions do not depend on it.
        """
        check_is_fitted(self)
        self._check_for_levels(len(self.categories_))
        save(self, path)


class OrdinalClassifier(LevelClassifier):
    """Base class of classifiers with probabilities and decisions.

    Subclasses have the parameter ``decision`` as well; their model has ``probabilities(X)``. With
    one latent function it has ``latent(X)`` too, and ``left_out_probabilities()`` where each
    training row can be left out.
    """

    decision: Any
    _has_latent: ClassVar[bool] = True
    _has_left_out: ClassVar[bool] = False

    def _encode(self, X: Any, y: Any, classes: Any = None) -> Levels:
        levels = super()._encode(X, y, classes)
        check_decision(self.decision, len(levels.categories))
        return levels

    def _check_for_levels(self, n_levels: int) -> None:
        super()._check_for_levels(n_levels)
        check_decision(self.decision, n_levels)

    @available_if(lambda self: self._has_latent)
    @managed
    def latent_mean_and_variance(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of the latent function, without noise.

        Only models with a single latent function have this method.

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
        found = self._result.model.latent(self._check_inputs(X, reset=False))
        return found.mean, found.var

    def category_proba(self, X: Any) -> FloatArray:
        """Probability of every level, columns in the order of ``categories_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        ndarray of shape (n_samples, n_categories)
            Rows sum to one. Levels that were named but never observed have their column.
        """
        check_is_fitted(self)
        return self._result.model.probabilities(self._check_inputs(X, reset=False))

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of every class, columns in the order of ``classes_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            scikit-learn sorts labels, so strings are in alphabetical order here;
            :meth:`category_proba` keeps the rank order. Rows sum to one: levels that were
            named but never observed are left out, and the rest is scaled up.
        """
        return in_class_order(self.category_proba(X), self.categories_, self.classes_)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithm of :meth:`predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log probabilities, columns in the order of ``classes_``. Models with one latent
            function compute them as logarithms, so that small ones keep their digits.
        """
        check_is_fitted(self)
        model = self._result.model
        if hasattr(model, "log_probabilities"):
            found = model.log_probabilities(self._check_inputs(X, reset=False))
            found = found[:, class_positions(self.categories_, self.classes_)]
            return np.asarray(found - logsumexp(found, axis=1, keepdims=True))
        # The smallest normal number stands for what underflows: a log score stays finite.
        return np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))

    @available_if(lambda self: self._has_left_out)
    @managed
    def loo_proba(self) -> FloatArray:
        """Leave-one-out probabilities of the training rows, without refitting.

        Each row is predicted from the posterior with its own part removed (one copy of it,
        if it was repeated), at the hyperparameters found from all rows. Rows of weight zero
        had no part in the fit and are predicted like new ones.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        return in_class_order(self.loo_category_proba(), self.categories_, self.classes_)

    @available_if(lambda self: self._has_left_out)
    @managed
    def loo_category_proba(self) -> FloatArray:
        """Leave-one-out probabilities as in :meth:`loo_proba`, columns in rank order.

        Returns
        -------
        ndarray of shape (n_samples, n_categories)
            Columns in the order of ``categories_``, as :mod:`ordinalgp.metrics` takes them.
        """
        check_is_fitted(self)
        proba: FloatArray = self._result.model.left_out_probabilities()
        return proba

    @available_if(lambda self: _may_have(self, "probability_draws"))
    @managed
    def sample_proba(self, X: Any, n_samples: int = 1, random_state: Any = None) -> FloatArray:
        """Draw probabilities of the levels from the posterior, jointly over rows.

        :meth:`category_proba` is their mean. Their spread is the uncertainty about the
        probabilities, and about any number computed from them.

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
            Query points.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=None
            Seed of the draws. Equal seeds make draws that change smoothly with ``X``.

        Returns
        -------
        ndarray of shape (n_samples, n_samples_X, n_categories)
            Columns in the order of ``categories_``.
        """
        check_is_fitted(self)
        check_whole("n_samples", n_samples, least=1)
        X, rng = self._check_inputs(X, reset=False), check_random_state(random_state)
        return np.asarray(self._result.model.probability_draws(X, n_samples, rng))

    @available_if(lambda self: _may_have(self, "effects") or _may_have(self, "probability_draws"))
    @managed
    def effects(
        self, X: Any, *, groups: Mapping[str, Sequence[int]] | None = None
    ) -> Effects | LevelEffects:
        """Effect of each feature: its own latent function, or average probabilities along it.

        Kernels with a part that is a sum over features (``Additive``, ``ARDLinear`` and
        ``DotProduct``) give each feature a function of its own. Each function is centred: it has
        mean zero over the training rows, or over the inducing points of a model that has them.

        Mixtures and sequential models have no single latent scale. There, the feature is set to
        the value of a row in all rows of ``X``, and the probabilities of the levels are averaged
        over at most 100 of them (partial dependence). Features with more than 40 different values
        are interpolated between 40 quantiles.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows at whose values the effects are evaluated.
        groups : mapping from str to sequences of int, default=None
            Features whose effects are those of one column, by its name; for example the 0/1
            features of a nominal column. None has each feature by itself; features that share a
            function (``PerColumn``) together. One of these in a group stands for all of them.

        Returns
        -------
        Effects or LevelEffects
            ``Effects`` has ``mean`` and ``std`` of shape (n_samples, n_features), or one column
            per group, ``constant`` and ``feature_names``. ``LevelEffects`` has ``mean`` and
            ``std`` of shape (n_samples, n_features, n_categories), ``size`` and
            ``feature_names``.
        """
        check_is_fitted(self)
        X = self._check_inputs(X, reset=False)
        model = self._result.model
        if groups is None:
            names = getattr(self, "feature_names_in_", [f"feature {i}" for i in range(X.shape[1])])
            shared = [[at] for at in range(X.shape[1])]
            if hasattr(model, "effects"):
                shared = feature_groups(model.kernel, X.shape[1])
            groups = {" + ".join(str(names[at]) for at in group): group for group in shared}
        found: Effects | LevelEffects
        if hasattr(model, "effects"):
            found = model.effects(X, groups)
        else:
            found = level_effects(
                self.category_proba,
                lambda rows: self.sample_proba(rows, DRAWS, random_state=0),
                X,
                groups,
            )
        return found

    def _predicted_ranks(self, X: Any) -> IntArray:
        return decide(self.category_proba(X), self.decision, self._result.signature.counts)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> NDArray[Any]:
        """Predict a run of levels for each row that contains its level with some probability.

        The run begins with the most probable level and grows by the more probable of its two
        neighbours. With leave-one-out probabilities it stops where that would have given the
        training rows the coverage; else where its own probability reaches the coverage.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.
        coverage : float, default=0.9
            Share of rows, between 0 and 1, whose interval should contain their level.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lowest and highest label of each interval; both are inside. Every interval has the
            most probable level, and a larger coverage never makes one narrower.

        Notes
        -----
        The score of a training row is the probability of its run before its own level joins, with
        the row left out. Levels join while their score is at most the ceil((n + 1) coverage)-th
        smallest of the n scores, as in conformal prediction; with fewer scores the interval has
        all levels. Weighted rows count as copies. There is no guarantee for finite samples: the
        left-out predictions share the hyperparameters of all rows, and new rows must come from
        the same source as the training rows. The coverage holds on average over rows, not for
        every level or group. More than 200,000 training rows, rows read in chunks, and rows of
        later calls of ``partial_fit`` are not calibrated: the probabilities are then trusted.
        """
        return self.interval_from_proba(self.category_proba(X), coverage)

    def interval_from_proba(self, probabilities: Any, coverage: float = 0.9) -> NDArray[Any]:
        """Intervals of :meth:`predict_interval` for known probabilities.

        Parameters
        ----------
        probabilities : array-like of shape (n_samples, n_categories)
            Probabilities from :meth:`category_proba`.
        coverage : float, default=0.9
            Share of rows, between 0 and 1, whose interval should contain their level.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lowest and highest label of each interval.
        """
        check_is_fitted(self)
        known = self._result.interval_scores
        threshold = nominal_threshold(coverage)
        if known is not None and threshold < np.inf:
            threshold = interval_threshold(known.scores, coverage, known.weights)
        ranks = intervals(probabilities, threshold, self._result.signature.counts)
        return self.categories_[np.column_stack(ranks)]

    def _calibrate(self, y: Any, sample_weight: Any) -> None:
        if not self._has_left_out or y is None or _num_samples(y) > _MOST_CALIBRATION_ROWS:
            return
        try:
            proba = self.loo_category_proba()
        except NoLeaveOneOut:
            return
        if self._result.rows is None:
            codes = encode_levels(y, self.categories_).codes
            weights = check_weights(sample_weight, len(codes))
        else:
            codes, weights = self._result.rows
        if not np.isfinite(proba).all():
            raise ValueError(
                f"The fitted probabilities are not finite, with weights up to {weights.max():.2g} "
                f"on {len(codes)} rows. A weight counts copies of its row: divide sampling "
                "weights by their mean."
            )
        self._calibrate_by(proba, codes, weights)

    def _calibrate_by(self, proba: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        """Calibrate intervals by probabilities, (n, r), of rows that had no part in them."""
        scores = interval_scores(proba, self._result.signature.counts)[np.arange(len(codes)), codes]
        known = IntervalScores.of(scores, weights)
        self._result = replace(self._result, interval_scores=known, rows=None)


def check_decision(rule: Any, n_levels: int) -> None:
    """Raise unless a decision rule is right for so many levels."""
    decide(np.empty((0, n_levels)), rule, np.ones(n_levels))


def nominal_threshold(coverage: float) -> float:
    """Threshold of runs that stop as soon as their own probability is at least the coverage."""
    check_coverage(coverage)
    return np.inf if coverage == 1 else float(np.nextafter(coverage, 0.0))


def _may_have(classifier: Any, method: str) -> bool:
    """Whether the fitted model, if there is one, has a method."""
    fitted = classifier.__sklearn_is_fitted__()
    return not fitted or hasattr(classifier._result.model, method)


def in_class_order(
    proba: FloatArray, categories: NDArray[Any], classes: NDArray[Any]
) -> FloatArray:
    """Probabilities of the observed levels alone, as scikit-learn sorts them; rows sum to one."""
    columns = proba[:, class_positions(categories, classes)]
    return columns / columns.sum(axis=1, keepdims=True)
