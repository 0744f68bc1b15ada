"""Classifier with the encoding of its table: the model that ``ordinalgp fit`` saves."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FINITE, Axes, FloatArray, IntArray, Tagged
from ordinalgp.gp import OrdinalGPClassifier
from ordinalgp.kernels import Additive, ARDLinear, Exponential
from ordinalgp.kernels.per_column import per_column
from ordinalgp.models.default_kernel import gaussian_kernel
from ordinalgp.models.effects import Effects
from ordinalgp.persistence import save, saved_as
from ordinalgp.stacking import StackedOrdinalGP
from ordinalgp.tables.cells import BadRows, as_table
from ordinalgp.tables.encoding import Encoder, learn, parse_columns
from ordinalgp.tables.training import EncodedFile
from ordinalgp.validation.labels import class_positions
from ordinalgp.validation.options import check_option

KERNELS = ("rbf", "ard", "linear", "exponential", "additive")
_SAMPLE_ROWS = 100  # of the training rows, over which reports average


@saved_as("result.table")
@dataclass(frozen=True, eq=False)
class TableResult:
    """The result of a fit: classifier, encoding, and predictions of the training rows."""

    classifier: Annotated[Any, Tagged("estimator")]
    """fitted, on encoded features"""
    encoder: Encoder
    spread: Annotated[FloatArray, Axes("d", 0.0, np.inf)]
    """standard deviation of each feature"""
    level_counts: Annotated[IntArray, Axes("r", 0)]
    """training rows of each level"""
    codes: Annotated[IntArray, Axes("n", 0, "r")]
    """rank of each training row, or of a sample"""
    latent_mean: Annotated[FloatArray, Axes("latent", *FINITE)]
    """posterior of the latent function at these rows; no rows where there is no such function"""
    latent_variance: Annotated[FloatArray, Axes("latent", 0.0, np.inf)]
    loo_proba: Annotated[FloatArray, Axes("loo r", 0.0, 2.0)]
    """leave-one-out probabilities in rank order, or no rows"""
    sample: Annotated[FloatArray, Axes("sampled d", *FINITE)]
    """features of some training rows"""

    def check(self) -> None:
        """Raise ValueError unless the parts agree."""
        fits = (
            hasattr(self.classifier, "category_proba")
            and len(self.latent_mean)
            == (len(self.codes) if hasattr(self.classifier, "latent_mean_and_variance") else 0)
            and len(self.level_counts) == len(self.classifier.categories_)
            and len(self.loo_proba) in (0, len(self.codes))
            and len(self.spread) == self.classifier.n_features_in_
        )
        if not fits:
            raise ValueError("the classifier, its columns and its training rows disagree")
        self.encoder.check(len(self.spread))


@saved_as("estimator.table")
class TableModel(BaseEstimator):
    """Classifier of ordered levels for tables with named columns.

    Numbers are scaled, nominal columns become 0/1 features, and missing values are filled and
    marked. ``fit`` learns this encoding, ``save`` stores it and ``predict`` applies it. Its rules
    are in :mod:`ordinalgp.tables.encoding`.

    Parameters
    ----------
    classifier : estimator, default=None
        Classifier of this package with probabilities. None is ``StackedOrdinalGP()``, a mixture of
        models; with a ``kernel``, or rows in chunks, ``OrdinalGPClassifier()``.
    kernel : {"rbf", "ard", "linear", "exponential", "additive"}, default=None
        Kernel for the encoded features: one length scale; one length scale per column; a linear
        kernel with one relevance per column; functions with kinks and one length scale; or a sum
        of one function per column. A search starts from it; ``SparseBayesOrdinalClassifier``
        keeps it. None keeps the classifier's own.
    nominal, numeric : collections of str, default=()
        Columns that are nominal or numeric whatever their cells look like.
    target : str, default=None
        Name of the target column, which new tables may or may not have.

    Attributes
    ----------
    classifier_ : estimator
        The fitted classifier, on encoded features.
    encoder_ : Encoder
        The encoding of each column.
    categories_ : ndarray of shape (n_categories,)
        All levels in rank order.
    classes_ : ndarray of shape (n_classes,)
        Observed levels, sorted as scikit-learn sorts them.
    likelihood_ : likelihood
        Ordinal likelihood with the learned parameters, for a classifier with a latent function.
    thresholds_ : ndarray of shape (n_categories - 1,)
        Cuts between consecutive levels, on the latent scale, if there is one.
    noise_ : float
        Scale of the noise added to the latent function, if there is one.
    spread_ : ndarray of shape (n_features,)
        Standard deviation of each encoded feature in training.
    codes_ : ndarray of shape (n_samples,)
        Rank of each training row; of a sample of them after ``fit_chunks``.
    level_counts_ : ndarray of shape (n_categories,)
        Training rows of each level.
    loo_proba_ : ndarray of shape (n_samples, n_categories)
        Leave-one-out probabilities in rank order; no rows if the classifier has none.
    latent_mean_, latent_variance_ : ndarrays of shape (n_samples,)
        Posterior of the latent function at the training rows; empty without such a function.
    sample_ : ndarray of shape (n_sampled, n_features)
        Encoded features of at most 100 training rows, drawn at random.

    Examples
    --------
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.tables import TableModel
    >>> table = {"hours": [1, 2, 3, 5, None, 8], "tutor": ["no", "no", "yes", "no", "yes", "yes"]}
    >>> grades = ["poor", "poor", "fair", "fair", "good", "good"]
    >>> classifier = OrdinalGPClassifier(categories=["poor", "fair", "good"])
    >>> model = TableModel(classifier).fit(table, grades)
    >>> model.encoder_.features
    ['hours', 'hours missing', 'tutor = no', 'tutor = yes']
    >>> model.predict({"tutor": ["no", "yes"], "hours": [1.5, 7.5]}).tolist()
    ['poor', 'good']
    """

    classifier_: Any
    encoder_: Encoder
    thresholds_: FloatArray
    _result: TableResult

    def __init__(
        self,
        classifier: Any = None,
        *,
        kernel: str | None = None,
        nominal: Collection[str] = (),
        numeric: Collection[str] = (),
        target: str | None = None,
    ) -> None:
        self.classifier = classifier
        self.kernel = kernel
        self.nominal = nominal
        self.numeric = numeric
        self.target = target

    def fit(self, X: Any, y: Any, *, decimal: str = ".") -> Self:
        """Learn the encoding of the columns, then fit the classifier.

        Parameters
        ----------
        X : DataFrame, Table or dict of columns
            The features.
        y : array-like of shape (n_samples,)
            Ordered levels, as the classifier takes them.
        decimal : str, default="."
            Decimal point of numbers that are given as texts.

        Returns
        -------
        TableModel
            The fitted model itself.
        """
        table, bad = parse_columns(as_table(X), self.nominal, self.numeric, decimal)
        BadRows().drop(table, bad)
        encoder = learn(table)
        features, _ = encoder.encode(table)
        classifier = self._unfitted(encoder).fit(features, y)
        codes = class_positions(classifier.categories_, np.asarray(y))
        counts = np.bincount(codes, minlength=len(classifier.categories_)).astype(np.intp)
        loo = np.zeros((0, len(counts)))
        if hasattr(classifier, "loo_proba"):
            loo = np.zeros((len(features), len(counts)))
            observed = class_positions(classifier.categories_, classifier.classes_)
            loo[:, observed] = classifier.loo_proba()
        mean, var = _latent(classifier, features)
        parts = classifier, encoder, features.std(axis=0), counts, codes, mean, var, loo
        self._keep(TableResult(*parts, _sample(features)))
        return self

    def fit_chunks(self, encoded: EncodedFile) -> Self:
        """Fit the classifier to rows that were encoded into a file.

        Parameters
        ----------
        encoded : ordinalgp.tables.training.EncodedFile
            The return value of ``encode_file``. Only a sample of its rows is kept.

        Returns
        -------
        TableModel
            The fitted model itself.
        """
        encoder, sample = encoded.encoder, encoded.sample
        classifier = self._unfitted(encoder, chunks=True).fit(encoded.chunks, None)
        levels = classifier.categories_
        codes = class_positions(levels, encoded.sample_labels)
        counts = np.zeros(len(levels), dtype=np.intp)
        counts[class_positions(levels, encoded.levels)] = encoded.counts
        loo = np.zeros((0, len(levels)))
        mean, var = _latent(classifier, sample)
        parts = classifier, encoder, sample.std(axis=0), counts, codes, mean, var, loo
        self._keep(TableResult(*parts, _sample(sample)))
        return self

    def _unfitted(self, encoder: Encoder, *, chunks: bool = False) -> Any:
        """The classifier to fit, which knows the features that belong to one column."""
        if self.classifier is not None:
            classifier = clone(self.classifier)
        elif chunks or self.kernel is not None:
            classifier = OrdinalGPClassifier()
        else:
            classifier = StackedOrdinalGP(random_state=0)
        if self.kernel is not None:
            if "kernel" not in classifier.get_params(deep=False):
                raise ValueError(
                    f"kernel={self.kernel!r} was given, but {type(classifier).__name__} mixes "
                    "models with kernels of their own. Give OrdinalGPClassifier(), or no kernel."
                )
            n_features, owner = len(encoder.features), encoder.owner
            classifier.set_params(kernel=kernel_named(self.kernel, n_features, owner))
        elif isinstance(classifier, StackedOrdinalGP) and _takes_groups(classifier):
            classifier.set_params(feature_groups=encoder.owner)
        return classifier

    def _keep(self, result: TableResult) -> None:
        """Set the fitted attributes of a result."""
        self._result = result
        self.classifier_, self.encoder_ = result.classifier, result.encoder
        fitted = result.classifier
        self.categories_, self.classes_ = fitted.categories_, fitted.classes_
        for name in ("likelihood_", "noise_", "thresholds_"):
            self.__dict__.pop(name, None)
            if hasattr(fitted, name):
                setattr(self, name, getattr(fitted, name))
        self.spread_, self.codes_ = result.spread, result.codes
        self.level_counts_, self.loo_proba_ = result.level_counts, result.loo_proba
        self.latent_mean_, self.latent_variance_ = result.latent_mean, result.latent_variance
        self.sample_ = result.sample

    def _restore(self, result: Any) -> None:
        """Become the fitted model of a file."""
        if not isinstance(result, TableResult):
            raise ValueError("the result is not a table model's")
        result.check()
        self._keep(result)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a result."""
        return hasattr(self, "_result")

    def encode(self, X: Any) -> FloatArray:
        """Encode the rows of a table as the classifier's features.

        Parameters
        ----------
        X : DataFrame, Table or dict of columns
            The rows; columns that the model does not use are ignored.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Named by ``encoder_.features``.
        """
        check_is_fitted(self)
        table = as_table(X)
        features, bad = self.encoder_.encode(table)
        BadRows().drop(table, bad)
        return features

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the level of each row by the classifier's ``decision`` rule.

        Parameters
        ----------
        X : DataFrame, Table or dict of columns
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels, of the kind that ``fit`` was given.
        """
        features = self.encode(X)
        return self.classifier_.predict(features)

    def category_proba(self, X: Any) -> FloatArray:
        """Probability of every level, columns in the order of ``categories_``.

        Parameters
        ----------
        X : DataFrame, Table or dict of columns
            The rows.

        Returns
        -------
        ndarray of shape (n_samples, n_categories)
            Rows sum to one.
        """
        features = self.encode(X)
        return self.classifier_.category_proba(features)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> NDArray[Any]:
        """Predict a run of levels for each row that contains its level with some probability.

        Parameters
        ----------
        X : DataFrame, Table or dict of columns
            The rows.
        coverage : float, default=0.9
            Share of rows, between 0 and 1, whose interval should contain their level.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lowest and highest label of each interval; see the classifier's own method.
        """
        features = self.encode(X)
        return self.classifier_.predict_interval(features, coverage)

    @available_if(lambda self: hasattr(self.classifier_, "latent_mean_and_variance"))
    def latent_mean_and_variance(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of the latent function, without noise.

        Parameters
        ----------
        X : DataFrame, Table or dict of columns
            The rows.

        Returns
        -------
        mean, variance : ndarrays of shape (n_samples,)
            On the scale of ``thresholds_``.
        """
        features = self.encode(X)
        return self.classifier_.latent_mean_and_variance(features)

    def effects(self, X: Any) -> Effects:
        """Posterior of each column's own function, for kernels with an additive part.

        Parameters
        ----------
        X : DataFrame, Table or dict of columns
            The rows.

        Returns
        -------
        Effects
            One column of ``mean`` and ``std`` per column of the table: the sum over its features.
        """
        features = self.encode(X)
        found: Effects = self.classifier_.effects(features, groups=self.encoder_.groups)
        return found

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model, encoding included, to a file for :func:`ordinalgp.load`.

        Parameters
        ----------
        path : str or path-like
            File to write, for example "model.ogp"; a failure leaves no part of it.
        """
        save(self, path)


def _latent(classifier: Any, features: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Latent moments of rows, or of none for a classifier without a latent function."""
    if not hasattr(classifier, "latent_mean_and_variance"):
        return np.empty(0), np.empty(0)
    mean, var = classifier.latent_mean_and_variance(features)
    return mean, var


def _sample(features: FloatArray) -> FloatArray:
    """Some of the rows, drawn at random, in their order."""
    if len(features) <= _SAMPLE_ROWS:
        return features
    rows = np.random.default_rng(0).choice(len(features), _SAMPLE_ROWS, replace=False)
    return features[np.sort(rows)]


def _takes_groups(mixture: StackedOrdinalGP) -> bool:
    """Whether a mixture has the default models, and no other columns of its features."""
    return mixture.models is None and mixture.feature_groups is None


def kernel_named(name: str, n_features: int, groups: Sequence[int] | None = None) -> Any:
    """Kernel that a word stands for, at the start of the search.

    ``groups`` is the column of each feature; None: each is a column of its own.
    """
    check_option("kernel", name, KERNELS)
    bounds = (1e-3, 1e5)
    if name == "exponential":
        return Exponential(2.0 * n_features, length_scale_bounds=bounds)
    if name == "rbf":
        return gaussian_kernel(n_features, bounds)
    columns = np.arange(n_features) if groups is None else np.asarray(groups)
    n = len(np.unique(columns))
    if name == "linear":
        return per_column(ARDLinear(np.full(n, 1 / n)), columns)
    if name == "additive":
        return per_column(Additive(1.0, length_scale_bounds=bounds), columns)
    return per_column(gaussian_kernel(n, bounds, per_feature=True), columns)
