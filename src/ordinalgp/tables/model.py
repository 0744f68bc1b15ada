"""A classifier together with the encoding of its table: what ``ordinalgp fit`` saves."""

from collections.abc import Collection
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray
from ordinalgp.gp import OrdinalGPClassifier
from ordinalgp.kernels import ARDLinear, Exponential
from ordinalgp.models.default_kernel import gaussian_kernel
from ordinalgp.tables.cells import BadCell, BadRows, Table, as_table
from ordinalgp.tables.encoding import Encoder, inspect, learn
from ordinalgp.validation.labels import class_positions
from ordinalgp.validation.options import check_option

KERNELS = ("rbf", "ard", "linear", "exponential")


class TableModel(BaseEstimator):
    """A classifier of ordered levels for tables with named columns.

    Numbers are scaled, nominal columns become 0/1 features, gaps are filled and marked; all of it
    is learned in ``fit``, saved with the model and repeated in ``predict``.
    :mod:`ordinalgp.tables.encoding` states the rule.

    Parameters
    ----------
    classifier : estimator, default=None
        Any classifier of this package; None is ``OrdinalGPClassifier()``.
    kernel : {"rbf", "ard", "linear", "exponential"}, default=None
        Kernel for the encoded features: one length scale, a length scale for each feature, a
        linear kernel with a relevance for each, or functions with kinks and one length scale. It
        is where a search begins; ``SparseBayesOrdinalClassifier`` keeps it. None keeps the
        classifier's own.
    nominal, numeric : collections of str, default=()
        Columns that are to be nominal or numeric whatever they look like.
    target : str, default=None
        Name of the target column, which new tables may have or not.

    Attributes
    ----------
    classifier_ : estimator
        The fitted classifier, on encoded features.
    encoder_ : Encoder
        The encoding of each column.
    spread_ : ndarray of shape (n_features,)
        Standard deviation of each encoded feature in training.
    codes_ : ndarray of shape (n_samples,)
        Rank of each training row; of a sample of them after ``fit_chunks``.
    level_counts_ : ndarray of shape (n_categories,)
        Training rows of each level.
    loo_proba_ : ndarray of shape (n_samples, n_categories)
        Leave-one-out probabilities in rank order; no rows if the classifier has none.
    latent_mean_, latent_variance_ : ndarrays of shape (n_samples,)
        Posterior of the latent function at the training rows.

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

    _state_spec: ClassVar[dict[str, tuple[Any, ...]]] = {
        "classifier_": ("O", ""),
        "columns": ("O", "columns"),
        "codes_": ("i", "n", 0, np.inf),
        "level_counts_": ("i", "r", 0, np.inf),
        "loo_proba_": ("f", "loo r", 0.0, 2.0),
        "spread_": ("f", "d", 0.0, np.inf),
        "latent_mean_": ("f", "n", -np.inf, np.inf),
        "latent_variance_": ("f", "n", 0.0, np.inf),
    }

    latent_mean_: FloatArray
    latent_variance_: FloatArray

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
            What texts of numbers have for a decimal point.

        Returns
        -------
        TableModel
            The fitted model itself.
        """
        table = as_table(X)
        kinds, bad = inspect(table, self.nominal, self.numeric, decimal)
        _refuse(table, bad)
        encoder = learn(table, kinds, decimal)
        features, _ = encoder.encode(table, decimal)
        classifier = OrdinalGPClassifier() if self.classifier is None else clone(self.classifier)
        if self.kernel is not None:
            classifier.set_params(kernel=kernel_named(self.kernel, features.shape[1]))
        self.classifier_, self.encoder_ = classifier.fit(features, y), encoder
        self.spread_ = features.std(axis=0)
        place = class_positions(self.categories_, self.classes_)
        rank = dict(zip(self.classes_.tolist(), place.tolist(), strict=True))
        self.codes_ = np.array([rank[label] for label in np.asarray(y).tolist()], dtype=np.intp)
        self.level_counts_ = np.bincount(self.codes_, minlength=len(self.categories_))
        self.latent_mean_, self.latent_variance_ = classifier.latent_mean_and_variance(features)
        self.loo_proba_ = np.zeros((0, len(self.categories_)))
        if hasattr(classifier, "loo_proba"):
            self.loo_proba_ = np.zeros((len(features), len(self.categories_)))
            self.loo_proba_[:, place] = classifier.loo_proba()
        return self

    def fit_chunks(self, encoded: Any) -> Self:
        """Fit the classifier to rows that were encoded into a file.

        Parameters
        ----------
        encoded : ordinalgp.tables.large.Encoded
            What ``encode_file`` returned. Of its rows only a sample is kept.

        Returns
        -------
        TableModel
            The fitted model itself.
        """
        classifier = clone(self.classifier)
        if self.kernel is not None:
            n_features = len(encoded.encoder.features)
            classifier.set_params(kernel=kernel_named(self.kernel, n_features))
        self.classifier_ = classifier.fit(encoded.chunks, None)
        self.encoder_, self.spread_ = encoded.encoder, encoded.sample.std(axis=0)
        self.codes_ = class_positions(self.categories_, encoded.sample_labels)
        self.level_counts_ = np.zeros(len(self.categories_), dtype=np.intp)
        self.level_counts_[class_positions(self.categories_, encoded.levels)] = encoded.counts
        moments = classifier.latent_mean_and_variance(encoded.sample)
        self.latent_mean_, self.latent_variance_ = moments
        self.loo_proba_ = np.zeros((0, len(self.categories_)))
        return self

    @property
    def categories_(self) -> NDArray[Any]:
        """All levels in rank order."""
        return self.classifier_.categories_

    @property
    def classes_(self) -> NDArray[Any]:
        """Observed levels, sorted as scikit-learn sorts them."""
        return self.classifier_.classes_

    @property
    def thresholds_(self) -> FloatArray:
        """Cuts between consecutive levels, on the latent scale."""
        return self.classifier_.thresholds_

    @property
    def noise_(self) -> float:
        """Standard deviation of the noise added to the latent function."""
        return self.classifier_.noise_

    def encode(self, X: Any) -> FloatArray:
        """Features of the rows of a table, as the classifier takes them.

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
        _refuse(table, bad)
        return features

    def predict(self, X: Any) -> NDArray[Any]:
        """Most suitable level under the classifier's ``decision`` rule.

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

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model, encoding included, to a file for :func:`ordinalgp.load`.

        Parameters
        ----------
        path : str or path-like
            Where to, for example "model.ogp"; written whole or not at all.
        """
        from ordinalgp.persistence import save

        save(self, path)

    def _get_state(self) -> dict[str, Any]:
        kept = {name: getattr(self, name) for name in self._state_spec if name != "columns"}
        return kept | {"columns": self.encoder_.to_state()}

    def _set_state(self, state: dict[str, Any]) -> None:
        for name in self._state_spec.keys() - {"columns"}:
            setattr(self, name, state[name])
        self.encoder_ = Encoder.from_state(state["columns"])
        n, r = len(self.codes_), len(self.categories_)
        agree = (
            self.loo_proba_.shape in ((n, r), (0, r))
            and bool(np.all(self.codes_ < r))
            and len(self.encoder_.features) == len(self.spread_)
            and len(self.spread_) == self.classifier_.n_features_in_
        )
        if not agree:
            raise ValueError("the classifier, its columns and its training rows disagree")


def kernel_named(name: str, n_features: int) -> Any:
    """The kernel that a word stands for, at the start of the search."""
    check_option("kernel", name, KERNELS)
    if name == "linear":
        return ARDLinear(np.full(n_features, 1 / n_features))
    bounds = (1e-3, 1e5)
    if name == "exponential":
        return Exponential(2.0 * n_features, length_scale_bounds=bounds)
    return gaussian_kernel(n_features, bounds, per_feature=name == "ard")


def _refuse(table: Table, bad: list[BadCell]) -> None:
    BadRows().drop(table, bad)
