"""Classifier with the encoding of its table: the model that ``ordinalgp fit`` saves."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ordinalgp._typing import FINITE, Axes, FloatArray, IntArray, Tagged
from ordinalgp.decisions import decide
from ordinalgp.gp import OrdinalGPClassifier
from ordinalgp.kernels import Additive, ARDLinear, Exponential
from ordinalgp.kernels.per_column import per_column
from ordinalgp.models.base import NoLeaveOneOut, check_decision
from ordinalgp.models.default_kernel import gaussian_kernel
from ordinalgp.models.effects import Effects, LevelEffects
from ordinalgp.persistence import save, saved_as
from ordinalgp.runtime.warning import warn_user
from ordinalgp.stacking import StackedOrdinalGP
from ordinalgp.tables.cells import BadInput, BadRows, Table
from ordinalgp.tables.cross_validation import (
    CrossValidation,
    HeldOut,
    TrainingTable,
    ValidationSettings,
    calibrate,
    check_folds,
    hold_out,
)
from ordinalgp.tables.encoding import Encoder, describe_new_values, learn, parse_columns
from ordinalgp.tables.frames import as_table, column_name, has_names, label_values
from ordinalgp.tables.monotone import feature_directions
from ordinalgp.tables.reading import Reading
from ordinalgp.tables.training import EncodedFile
from ordinalgp.validation.labels import class_positions, count_levels, encode_levels
from ordinalgp.validation.options import check_option
from ordinalgp.validation.weights import check_weights

ON_NEW_VALUES = ("use", "error")
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
    level_counts: Annotated[FloatArray, Axes("r", 0.0, np.inf)]
    """total weight of the training rows of each level"""
    codes: Annotated[IntArray, Axes("n", 0, "r")]
    """rank of each training row, or of a sample"""
    latent_mean: Annotated[FloatArray, Axes("latent", *FINITE)]
    """posterior of the latent function at these rows; no rows where there is no such function"""
    latent_variance: Annotated[FloatArray, Axes("latent", 0.0, np.inf)]
    loo_proba: Annotated[FloatArray, Axes("loo r", 0.0, 2.0)]
    """leave-one-out probabilities in rank order, or no rows"""
    sample: Annotated[FloatArray, Axes("sampled d", *FINITE)]
    """features of some training rows"""
    named: bool = True
    """whether the columns had names: those of an array have none"""
    held_out: HeldOut | None = None
    """predictions by models that had not seen the rows, if asked for"""

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
        if self.held_out is not None:
            names = [column.name for column in self.encoder.columns]
            self.held_out.check(names, len(self.level_counts))


@saved_as("estimator.table")
class TableModel(ClassifierMixin, BaseEstimator):
    """Classifier of ordered levels for data frames and other tables with named columns.

    Numbers are scaled, nominal columns become 0/1 features, and missing values are filled and
    marked. ``fit`` learns this encoding, ``save`` stores it and ``predict`` applies it. Its rules
    are in :mod:`ordinalgp.tables.encoding`; :mod:`ordinalgp.tables.frames` says how the types of
    pandas, polars and pyarrow are read.

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
    categories : sequence, default=None
        Levels from lowest to highest. None keeps the classifier's own; without any, they are those
        of an ordered categorical, or the numbers themselves.
    decision : {"mode", "median", "balanced", "mean"} or array of shape (r, r), default=None
        Rule that turns probabilities into a label; see the classifier. None keeps its own.
    nominal, numeric : collections of str, default=()
        Columns that are nominal or numeric whatever their cells look like.
    on_new_values : {"use", "error"}, default="use"
        Treatment of values of nominal columns that training did not have. "use" predicts them as
        none of the known values, as far from each of them as they are from each other, and warns;
        "error" raises an error that names the rows.
    monotone : mapping from str to int, default=None
        Numeric columns along which the latent mean must not fall (1) or rise (-1). For
        ``OrdinalGPClassifier``, which is then the default, with ``kernel="additive"``.
    target : str, default=None
        Name of the target column, which tables may or may not have. It is never a feature.
    reading : Reading, default=None
        Conventions of the training file that later files share: words for a missing value, the
        decimal mark, borders at which the target was cut. ``ordinalgp fit`` sets it.
    folds : int, default=0
        Folds of a cross-validation that ``fit`` adds: scores of rows that the models have not seen,
        and the importance of the columns. It takes three to five times as long as the fit. Above
        5,000 rows one of the folds is predicted. 0 has none, for use inside ``cross_val_score``.
    n_jobs : int, default=None
        Number of folds fitted in parallel by joblib.

    Attributes
    ----------
    classifier_ : estimator
        The fitted classifier, on encoded features.
    encoder_ : Encoder
        The encoding of each column. Its ``features`` are the names of the encoded features.
    decision_ : str or ndarray of shape (r, r)
        Rule in force: ``decision``, else that of the classifier. Both can be set after ``fit``.
    categories_ : ndarray of shape (n_categories,)
        All levels in rank order.
    classes_ : ndarray of shape (n_classes,)
        Observed levels, sorted as scikit-learn sorts them.
    n_features_in_ : int
        Number of columns seen during fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if they had any.
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
        Training rows of each level; with weights, their total weight.
    loo_proba_ : ndarray of shape (n_samples, n_categories)
        Leave-one-out probabilities in rank order; no rows if the classifier has none.
    latent_mean_, latent_variance_ : ndarrays of shape (n_samples,)
        Posterior of the latent function at the training rows; empty without such a function.
    sample_ : ndarray of shape (n_sampled, n_features)
        Encoded features of at most 100 training rows, drawn at random.
    held_out_ : HeldOut or None
        With ``folds``: probabilities of rows by models that have not seen them.
    importance_ : Importance or None
        With ``folds``: loss of log score when a column is permuted, with its standard error.

    Notes
    -----
    Columns are found by their names, in any order, and others are ignored. Arrays are read too:
    their columns are x0, x1, ..., and are found by their places.

    Examples
    --------
    >>> from ordinalgp.tables import TableModel
    >>> table = {"hours": [1, 2, 3, 5, None, 8], "tutor": ["no", "no", "yes", "no", "yes", "yes"]}
    >>> grades = ["poor", "poor", "fair", "fair", "good", "good"]
    >>> model = TableModel(kernel="rbf", categories=["poor", "fair", "good"]).fit(table, grades)
    >>> model.encoder_.features
    ['hours', 'hours missing', 'tutor = no', 'tutor = yes', 'tutor new']
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
        categories: Any = None,
        decision: Any = None,
        nominal: Collection[str] = (),
        numeric: Collection[str] = (),
        on_new_values: str = "use",
        monotone: Mapping[str, int] | None = None,
        target: str | None = None,
        reading: Reading | None = None,
        folds: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.classifier = classifier
        self.kernel = kernel
        self.categories = categories
        self.decision = decision
        self.nominal = nominal
        self.numeric = numeric
        self.on_new_values = on_new_values
        self.monotone = monotone
        self.target = target
        self.reading = reading
        self.folds = folds
        self.n_jobs = n_jobs

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        decimal: str | None = None,
        groups: Any = None,
    ) -> Self:
        """Learn the encoding of the columns, then fit the classifier.

        Parameters
        ----------
        X : DataFrame, Table, dict of columns, list of dicts or array
            The features, ``n_samples`` rows.
        y : array-like of shape (n_samples,)
            Ordered levels, as the classifier takes them.
        sample_weight : array-like of shape (n_samples,), default=None
            Number of times that each row counts, in the encoding and in the classifier.
        decimal : {".", ","}, default=None
            Decimal mark of numbers that are given as texts; None finds it.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, such as a person, for ``folds``: rows of one group are in one fold.

        Returns
        -------
        TableModel
            The fitted model itself.
        """
        check_option("on_new_values", self.on_new_values, ON_NEW_VALUES)
        check_folds(self.folds)
        if y is None:
            raise ValueError("TableModel requires y to be passed, but the target y is None.")
        table = self._without_target(self._table(X))
        weights = check_weights(sample_weight, len(table))
        encoder, features, parsed = self._learn_encoding(table, weights, decimal, has_names(X))
        classifier, codes = self._fit_classifier(encoder, features, y, sample_weight)
        counts = count_levels(codes, weights, len(classifier.categories_))
        mean, var = _latent(classifier, features)
        spread, loo = _spread(features, weights), _left_out(classifier, len(features))
        sample, held = _sample(features[weights > 0]), None
        if self.folds:
            rows = TrainingTable(parsed, codes, classifier.categories_, weights)
            run = CrossValidation(rows, self._unfitted, classifier, self.folds, self.n_jobs)
            held = run.run(groups)
            calibrate(classifier, held)
        parts = classifier, encoder, spread, counts, codes, mean, var, loo, sample
        self._keep(TableResult(*parts, has_names(X), held))
        return self

    def _without_target(self, table: Table) -> Table:
        """The columns that are features."""
        if self.target is None or column_name(self.target) not in table.columns:
            return table
        features = table.without([column_name(self.target)])
        if not features.columns:
            raise BadInput(f"There are no columns beside the target {self.target}.")
        return features

    def _learn_encoding(
        self, table: Table, weights: FloatArray, decimal: str | None, named: bool
    ) -> tuple[Encoder, FloatArray, Table]:
        """Encoding of the rows that count, features of all rows, and parsed rows that count."""
        counted = table if weights.all() else table.take(weights > 0)
        nominal, numeric = (list(map(column_name, n)) for n in (self.nominal, self.numeric))
        parsed, bad = parse_columns(counted, nominal, numeric, decimal)
        BadRows().drop(counted, bad)
        _tell_left_out(parsed, named)
        encoder = learn(parsed, weights[weights > 0])
        rows = parsed if counted is table else table
        features, bad = encoder.encode(rows, parsed.decimal)
        BadRows().drop(rows, bad)
        return encoder, features, parsed

    def _fit_classifier(
        self, encoder: Encoder, features: FloatArray, y: Any, sample_weight: Any
    ) -> tuple[Any, IntArray]:
        """The fitted classifier, and the rank of each row."""
        labels, order = label_values(y)
        classifier = self._unfitted(encoder)
        if order is not None and classifier.categories is None:
            classifier.set_params(categories=order)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        classifier.fit(features, labels, **weights)
        return classifier, encode_levels(labels, classifier.categories_).codes

    def fit_chunks(self, encoded: EncodedFile) -> Self:
        """Fit the classifier to rows that were encoded into a file.

        Parameters
        ----------
        encoded : ordinalgp.tables.training.EncodedFile
            The return value of ``encode_file``. Only a sample of its rows is kept. With ``folds``,
            2,000 rows are not fitted; the scores are those of their predictions.

        Returns
        -------
        TableModel
            The fitted model itself.
        """
        check_folds(self.folds)
        encoder, sample = encoded.encoder, encoded.sample
        if self.folds:
            encoded = encoded.holding_out(ValidationSettings().held_out_rows)
        classifier = self._unfitted(encoder, chunks=True).fit(encoded.chunks, None)
        levels = classifier.categories_
        codes = class_positions(levels, encoded.sample_labels)
        known, counts = class_positions(levels, encoded.levels), np.zeros(len(levels))
        counts[known] = encoded.counts
        held = None
        if len(encoded.held):
            X, places = encoded.held_rows()
            counts[known] -= np.bincount(places, minlength=len(known))
            held = hold_out(classifier, encoder, X, known[places], counts)
            calibrate(classifier, held)
        loo = np.zeros((0, len(levels)))
        mean, var = _latent(classifier, sample)
        parts = classifier, encoder, sample.std(axis=0), counts, codes, mean, var, loo
        self._keep(TableResult(*parts, _sample(sample), held_out=held))
        return self

    def _unfitted(self, encoder: Encoder, *, chunks: bool = False) -> Any:
        """The classifier to fit, which knows the features that belong to one column."""
        if self.classifier is not None:
            classifier = clone(self.classifier)
        elif chunks or self.kernel is not None or self.monotone:
            classifier = OrdinalGPClassifier()
        else:
            classifier = StackedOrdinalGP(random_state=0)
        additive = self.classifier is None and self.monotone
        word = "additive" if self.kernel is None and additive else self.kernel
        if word is not None:
            if "kernel" not in classifier.get_params(deep=False):
                raise ValueError(
                    f"kernel={word!r} was given, but {type(classifier).__name__} mixes "
                    "models with kernels of their own. Give OrdinalGPClassifier(), or no kernel."
                )
            n_features, owner = len(encoder.features), encoder.owner
            classifier.set_params(kernel=kernel_named(word, n_features, owner))
        elif isinstance(classifier, StackedOrdinalGP) and _takes_groups(classifier):
            classifier.set_params(feature_groups=encoder.owner)
        if self.monotone:
            self._set_directions(classifier, encoder)
        given = {"categories": self.categories, "decision": self.decision}
        return classifier.set_params(**{name: v for name, v in given.items() if v is not None})

    def _set_directions(self, classifier: Any, encoder: Encoder) -> None:
        """Tell the classifier to fit its monotone features."""
        if "monotone" not in classifier.get_params(deep=False):
            raise ValueError(
                f"monotone was given, but {type(classifier).__name__} has no monotone columns. "
                "Give OrdinalGPClassifier(), or no classifier."
            )
        named = {column_name(name): sign for name, sign in (self.monotone or {}).items()}
        classifier.set_params(monotone=feature_directions(encoder, named))

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
        self.sample_, self.held_out_ = result.sample, result.held_out
        self.importance_ = None if result.held_out is None else result.held_out.importance
        names = [column.name for column in result.encoder.columns]
        self.n_features_in_ = len(names)
        self.__dict__.pop("feature_names_in_", None)
        if result.named:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _restore(self, result: Any) -> None:
        """Become the fitted model of a file."""
        if not isinstance(result, TableResult):
            raise ValueError("the result is not a table model's")
        if self.classifier is not None and not hasattr(self.classifier, "fit"):
            raise ValueError("classifier is not an estimator")
        self._reading  # noqa: B018 - of the right type
        result.check()
        self._keep(result)
        check_decision(self.decision_, len(self.categories_))

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a result."""
        return hasattr(self, "_result")

    def __sklearn_tags__(self) -> Any:
        """Tags: missing values, categories and texts are read."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    @property
    def _reading(self) -> Reading:
        if isinstance(self.reading, Reading | None):
            return self.reading or Reading()
        raise ValueError(f"reading must be a Reading or None, but is {self.reading!r:.100}.")

    def _table(self, X: Any) -> Table:
        return as_table(X).without_words(self._reading.missing)

    def _read(self, X: Any) -> Table:
        """The columns of a table by the names of training."""
        table = self._table(X)
        known = [column.name for column in self.encoder_.columns]
        if self._result.named and has_names(X):
            return table
        if len(table.columns) != len(known):
            raise BadInput(
                f"X has {len(table.columns)} features, but TableModel is expecting {len(known)} "
                f"features as input. Give the columns {', '.join(known)}, in this order."
            )
        if self._result.named or list(table.columns) != known:
            told = "does not have valid feature names, but TableModel was fitted with feature names"
            if has_names(X):
                told = "has feature names, but TableModel was fitted without feature names"
            warn_user(f"X {told}. Columns are found by their places.", UserWarning)
        return table.renamed(known)

    def encode(self, X: Any) -> FloatArray:
        """Encode the rows of a table as the classifier's features.

        Parameters
        ----------
        X : DataFrame, Table, dict of columns, list of dicts or array
            The rows; columns that the model does not use are ignored.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Named by ``encoder_.features``.
        """
        check_is_fitted(self)
        table = self._read(X)
        decimal = self._reading.decimal
        features, bad = self.encoder_.encode(table, decimal, new_values=self.on_new_values)
        BadRows().drop(table, bad)
        if new := describe_new_values(self.encoder_.new_values(table)):
            warn_user(
                f"X has values that training did not have: {', '.join(new)}. They count as none of "
                "the known ones; on_new_values='error' refuses them.",
                UserWarning,
            )
        return features

    @property
    def decision_(self) -> Any:
        """Rule in force: ``decision``, else that of the ``classifier``, set before or after."""
        if self.decision is not None:
            return self.decision
        return getattr(self.classifier, "decision", self.classifier_.decision)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the level of each row by the ``decision`` rule.

        Parameters
        ----------
        X : DataFrame, Table, dict of columns, list of dicts or array
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels, of the kind that ``fit`` was given.
        """
        proba = self.category_proba(X)
        return self.categories_[decide(proba, self.decision_, self.level_counts_)]

    def category_proba(self, X: Any) -> FloatArray:
        """Probability of every level, columns in the order of ``categories_``.

        Parameters
        ----------
        X : DataFrame, Table, dict of columns, list of dicts or array
            The rows.

        Returns
        -------
        ndarray of shape (n_samples, n_categories)
            Rows sum to one.
        """
        features = self.encode(X)
        return self.classifier_.category_proba(features)

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of every class, columns in the order of ``classes_``.

        Parameters
        ----------
        X : DataFrame, Table, dict of columns, list of dicts or array
            The rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to one; see the classifier's own method.
        """
        features = self.encode(X)
        return self.classifier_.predict_proba(features)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithm of :meth:`predict_proba`.

        Parameters
        ----------
        X : DataFrame, Table, dict of columns, list of dicts or array
            The rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log probabilities, columns in the order of ``classes_``.
        """
        features = self.encode(X)
        return self.classifier_.predict_log_proba(features)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy: the share of rows whose level is predicted exactly.

        Parameters
        ----------
        X : DataFrame, Table, dict of columns, list of dicts or array
            The rows.
        y : array-like of shape (n_samples,)
            True levels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        float
            Accuracy; :mod:`ordinalgp.metrics` has scores that respect the order.
        """
        predicted, truth = self.predict(X), column_or_1d(np.asarray(label_values(y)[0]))
        check_consistent_length(predicted, truth)
        weights = check_weights(sample_weight, len(truth))
        return float(np.average(predicted == truth, weights=weights))

    @available_if(lambda self: hasattr(self.classifier_, "loo_proba"))
    def loo_proba(self) -> FloatArray:
        """Leave-one-out probabilities of the training rows, without refitting.

        The encoding is that of all rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        return self.classifier_.loo_proba()

    @available_if(lambda self: hasattr(self.classifier_, "loo_category_proba"))
    def loo_category_proba(self) -> FloatArray:
        """Leave-one-out probabilities as in :meth:`loo_proba`, columns in rank order.

        Returns
        -------
        ndarray of shape (n_samples, n_categories)
            Columns in the order of ``categories_``, as :mod:`ordinalgp.metrics` takes them.
        """
        check_is_fitted(self)
        return self.classifier_.loo_category_proba()

    def predict_interval(self, X: Any, coverage: float = 0.9) -> NDArray[Any]:
        """Predict a run of levels for each row that contains its level with some probability.

        Parameters
        ----------
        X : DataFrame, Table, dict of columns, list of dicts or array
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

    @available_if(lambda self: hasattr(self.classifier_, "sample_proba"))
    def sample_proba(self, X: Any, n_samples: int = 1, random_state: Any = None) -> FloatArray:
        """Draw probabilities of the levels from the posterior, jointly over rows.

        Parameters
        ----------
        X : DataFrame, Table, dict of columns, list of dicts or array
            The rows.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=None
            Seed of the draws.

        Returns
        -------
        ndarray of shape (n_samples, n_rows, n_categories)
            Columns in the order of ``categories_``.
        """
        features = self.encode(X)
        return self.classifier_.sample_proba(features, n_samples, random_state)

    @available_if(lambda self: hasattr(self.classifier_, "latent_mean_and_variance"))
    def latent_mean_and_variance(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of the latent function, without noise.

        Parameters
        ----------
        X : DataFrame, Table, dict of columns, list of dicts or array
            The rows.

        Returns
        -------
        mean, variance : ndarrays of shape (n_samples,)
            On the scale of ``thresholds_``.
        """
        features = self.encode(X)
        return self.classifier_.latent_mean_and_variance(features)

    @available_if(lambda self: hasattr(self.classifier_, "effects"))
    def effects(self, X: Any) -> Effects | LevelEffects:
        """Effect of each column: its own latent function, or average probabilities along it.

        The classifier's ``effects``, with the features of a column together. A single model with
        an additive kernel has functions, mixtures and sequential models have probabilities.

        Parameters
        ----------
        X : DataFrame, Table, dict of columns, list of dicts or array
            The rows.

        Returns
        -------
        Effects or LevelEffects
            One column of ``mean`` and ``std`` per column of the table.
        """
        features = self.encode(X)
        found: Effects | LevelEffects = self.classifier_.effects(
            features, groups=self.encoder_.groups
        )
        return found

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model, encoding included, to a file for :func:`ordinalgp.load`.

        Parameters
        ----------
        path : str or path-like
            File to write, for example "model.ogp"; a failure leaves no part of it.
        """
        save(self, path)


def _tell_left_out(parsed: Table, named: bool) -> None:
    """Warn of columns that are no features; those of an array are found by their places."""
    if parsed.left_out and not (named and parsed.columns):
        why = "\n".join(parsed.left_out.values())
        told = "No column is left to learn from. Give others, or keep one as its message says."
        if not named:
            told = "But an array cannot lack a column at prediction. Drop it, or give a DataFrame."
        raise BadInput(f"{why}\n{told}")
    for reason in parsed.left_out.values():
        warn_user(reason, UserWarning)


def _latent(classifier: Any, features: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Latent moments of rows, or of none for a classifier without a latent function."""
    if not hasattr(classifier, "latent_mean_and_variance"):
        return np.empty(0), np.empty(0)
    mean, var = classifier.latent_mean_and_variance(features)
    return mean, var


def _left_out(classifier: Any, n_rows: int) -> FloatArray:
    """Leave-one-out probabilities in rank order, or of no rows where there are none."""
    levels = classifier.categories_
    if not hasattr(classifier, "loo_proba"):
        return np.zeros((0, len(levels)))
    try:
        found = classifier.loo_proba()
    except NoLeaveOneOut:
        return np.zeros((0, len(levels)))
    loo = np.zeros((n_rows, len(levels)))
    loo[:, class_positions(levels, classifier.classes_)] = found
    return loo


def _spread(features: FloatArray, weights: FloatArray) -> FloatArray:
    """Standard deviation of each feature over weighted rows."""
    mean = np.average(features, axis=0, weights=weights)
    return np.sqrt(np.average((features - mean) ** 2, axis=0, weights=weights))


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
