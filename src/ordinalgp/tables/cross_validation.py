"""Predictions of a table's rows by models that have not seen them.

Leave-one-out at the hyperparameters of all rows flatters a model: the hyperparameters have seen
the rows that they are judged by. Here the rows are split into folds. For each fold, the encoding
of the columns, the hyperparameters and, of a mixture, the choice of models are learned from the
other folds alone. Scores are slightly pessimistic, since each model learns from fewer rows.

A search begins halfway between its usual start and the hyperparameters of all rows. It saves
steps, but does not begin where all rows ended.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from ordinalgp._typing import Axes, FloatArray, IntArray
from ordinalgp.models.exact import WarmStart
from ordinalgp.persistence import saved_as
from ordinalgp.runtime.progress import Progress, listening, reporter, silent
from ordinalgp.runtime.warning import warn_user
from ordinalgp.tables.cells import Table, gaps
from ordinalgp.tables.encoding import Encoder, learn
from ordinalgp.tables.folds import copies, group_numbers, make_folds
from ordinalgp.tables.importance import (
    Importance,
    ImportanceSettings,
    increases,
    losses,
    mean_and_error,
    most_associated,
)
from ordinalgp.validation.options import check_whole

Unit = Literal["rows", "copies", "groups"]

_HALFWAY = 0.5


@dataclass(frozen=True)
class ValidationSettings:
    """Sizes that decide how many models are fitted."""

    all_folds_rows: int = 5000
    """rows up to which every fold is predicted; above, one of them"""
    held_out_rows: int = 2000
    """rows that are kept out of a fit of a large file"""
    importance: ImportanceSettings = field(default_factory=ImportanceSettings)


@saved_as("result.held_out")
@dataclass(frozen=True, eq=False, repr=False)
class HeldOut:
    """Rows with known levels, and their predictions by models that have not seen them.

    Attributes
    ----------
    counts : ndarray of shape (n_models, n_categories)
        Rows of each level that a model was fitted on; with weights, their total weight.
    codes : ndarray of shape (n_held,)
        Rank of each row.
    rows : ndarray of shape (n_held,)
        Place of each row in the training table; -1 for rows that no model was fitted on.
    fold : ndarray of shape (n_held,)
        Model that predicted the row, from 0.
    unit : ndarray of shape (n_held,)
        Group of each row: rows of one group are in one fold.
    proba : ndarray of shape (n_held, n_categories)
        Probabilities in rank order.
    n_folds : int
        Parts into which the table was split; 0 if rows were kept out of the fit itself.
    together : {"rows", "copies", "groups"}
        Rows that were not separated by the folds: none, copies, or those of a group.
    importance : Importance
        Importance of the columns for these predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp.tables import TableModel
    >>> hours = np.random.default_rng(0).normal(size=60)
    >>> model = TableModel(kernel="rbf", folds=3).fit({"hours": hours}, np.digitize(hours, [-1, 1]))
    >>> model.held_out_.proba.shape
    (60, 3)
    """

    counts: Annotated[FloatArray, Axes("models r", 0.0, np.inf)]
    codes: Annotated[IntArray, Axes("held", 0, "r")]
    rows: Annotated[IntArray, Axes("held", -1)]
    fold: Annotated[IntArray, Axes("held", 0, "models")]
    unit: Annotated[IntArray, Axes("held", 0)]
    proba: Annotated[FloatArray, Axes("held r", 0.0, 2.0)]
    n_folds: Annotated[int, Axes(low=0)]
    together: Unit
    importance: Importance

    def __repr__(self) -> str:
        """The size and the score; the arrays are too long to print."""
        mean, error = self.gain
        return (
            f"<HeldOut: {len(self.codes)} rows, {self.n_folds} folds, log score {mean:.3f} ± "
            f"{error:.3f} below that of the level frequencies>"
        )

    @property
    def baseline(self) -> FloatArray:
        """Naive predictions of the same rows, (n_held, n_categories): the level frequencies.

        They are those of the rows that each model was fitted on. Half a row is added to every
        level, so that one that these rows lack has a probability.
        """
        shares = frequencies(self.counts)
        return np.asarray(shares[self.fold])

    @property
    def gain(self) -> tuple[float, float]:
        """Mean by which the log score is below that of the baseline, and its standard error."""
        differences = losses(self.baseline, self.codes) - losses(self.proba, self.codes)
        mean, error = mean_and_error(differences, self.unit, self.fold)
        return float(mean), float(error)

    def check(self, columns: Sequence[str], n_levels: int) -> None:
        """Raise ValueError unless the parts agree."""
        fits = self.proba.shape[1] == n_levels and self.importance.columns == tuple(columns)
        if not fits or not len(self.codes):
            raise ValueError("the rows that were held out and the columns disagree")


def frequencies(counts: Any) -> FloatArray:
    """Shares of levels with so many rows, (..., r), half a row added to each."""
    added = np.asarray(counts, dtype=float) + 0.5
    return np.asarray(added / added.sum(axis=-1, keepdims=True))


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """Rows of a fit. Those of weight zero are not among the parsed ones."""

    table: Table
    """parsed, without bad cells"""
    all_codes: IntArray
    categories: NDArray[Any]
    all_weights: FloatArray
    """number of times that each row counts"""

    @property
    def places(self) -> IntArray:
        """Places of the parsed rows among all rows."""
        return np.flatnonzero(self.all_weights > 0)

    @property
    def codes(self) -> IntArray:
        """Ranks of the parsed rows."""
        return np.asarray(self.all_codes[self.places])

    @property
    def weights(self) -> FloatArray | None:
        """Weights of the parsed rows; None if all are one."""
        found = self.all_weights[self.places]
        return None if np.all(found == 1) else found

    def counts(self, places: IntArray) -> FloatArray:
        """Total weight of each level among some of the parsed rows."""
        weights = self.all_weights[self.places][places]
        found = np.bincount(self.codes[places], weights, minlength=len(self.categories))
        return np.asarray(found, dtype=float)

    def take(self, places: IntArray) -> Table:
        """Some of the rows, in their order."""
        mask = np.zeros(len(self.codes), dtype=bool)
        mask[places] = True
        return self.table.take(mask)

    def encoded(self, train: IntArray, test: IntArray) -> tuple[Encoder, FloatArray, FloatArray]:
        """Encoding learned from the rows ``train``, and both parts encoded."""
        known, new = self.take(train), self.take(test)
        absent = [name for name, cells in known.columns.items() if gaps(cells).all()]
        encoder = learn(known.without(absent), self.all_weights[self.places][train])
        # Values that only the test rows have are none of the known ones.
        return encoder, encoder.encode(known)[0], encoder.encode(new)[0]


@dataclass(frozen=True, eq=False)
class Fold:
    """A classifier to fit, its rows, and the rows that it has to predict."""

    classifier: Any
    X: FloatArray
    labels: NDArray[Any]
    weights: FloatArray | None
    X_test: FloatArray
    codes_test: IntArray
    groups: Mapping[str, Sequence[int]]
    """features of each column"""
    chosen: IntArray
    """test rows whose columns are permuted"""
    repetitions: int
    seed: int

    def run(self) -> tuple[FloatArray | None, FloatArray | None, str]:
        """Probabilities and increases of the test rows, or the reason why there are none."""
        try:
            with warnings.catch_warnings(), listening(silent):
                warnings.simplefilter("ignore", ConvergenceWarning)  # the model of all rows warns
                weights = {} if self.weights is None else {"sample_weight": self.weights}
                fitted = self.classifier.fit(self.X, self.labels, **weights)
            return *self.predicted(fitted.category_proba), ""
        except Exception as error:  # the model of all rows is there, and must not be lost
            return None, None, f"{type(error).__name__}: {error}"

    def predicted(self, predict: Callable[[FloatArray], FloatArray]) -> Any:
        """Probabilities of the test rows, and increases of the loss of some of them."""
        rng = np.random.default_rng(self.seed)
        parts = self.X_test, self.codes_test, self.groups, self.repetitions, rng, self.chosen
        return predict(self.X_test), increases(predict, *parts)


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Options of a cross-validation."""

    rows: TrainingTable
    unfitted: Callable[[Encoder], Any]
    """makes the classifier for an encoding"""
    fitted: Any
    """the classifier of all rows, towards whose hyperparameters searches begin"""
    n_folds: int
    n_jobs: int | None = None
    settings: ValidationSettings = field(default_factory=ValidationSettings)

    def run(self, groups: Any = None) -> HeldOut:
        """Predict all rows, or those of one fold, by models that were fitted without them.

        All rows of one of the ``groups`` are in one fold; without groups, all copies of a row.
        """
        rows, n = self.rows, len(self.rows.codes)
        if groups is not None:
            together: Unit = "groups"
            units = group_numbers(groups, len(rows.all_codes))[rows.places]
        else:
            units = copies(rows.table, rows.codes)
            together = "copies" if len(np.unique(units)) < n else "rows"
        belonging = {"table": rows.table} if groups is None else {"groups": units}
        splits = make_folds(rows.codes, self.n_folds, **belonging)
        if n > self.settings.all_folds_rows:
            splits = splits[:1]
        folds = [self._fold(*split, number, len(splits)) for number, split in enumerate(splits)]
        counts = [rows.counts(train) for train, _ in splits]
        results = list(self._run(folds))
        _warn_of_failures([problem for *_, problem in results])
        proba = [
            np.tile(frequencies(count), (len(test), 1)) if p is None else p
            for (p, *_), (_, test), count in zip(results, splits, counts, strict=True)
        ]
        held = np.concatenate([test for _, test in splits])
        fold_of = np.zeros(n, dtype=np.intp)
        for number, (_, test) in enumerate(splits):
            fold_of[test] = number
        changed = [
            (test[fold.chosen], _of_columns(change, list(fold.groups), list(rows.table.columns)))
            for (_, change, _), (_, test), fold in zip(results, splits, folds, strict=True)
            if change is not None
        ]
        order = np.argsort(held)
        held = held[order]
        return HeldOut(
            np.array(counts),
            rows.codes[held],
            rows.places[held],
            fold_of[held],
            units[held],
            np.vstack(proba)[order],
            self.n_folds,
            together,
            _importance(tuple(rows.table.columns), changed, units, fold_of),
        )

    def _fold(self, train: IntArray, test: IntArray, number: int, n_models: int) -> Fold:
        """A fold, ready to be fitted in any process."""
        rows = self.rows
        encoder, X, X_test = rows.encoded(train, test)
        classifier = self.unfitted(encoder).set_params(categories=rows.categories)
        begin_halfway(classifier, self.fitted)
        weights = None if rows.weights is None else rows.weights[train]
        labels = rows.categories[rows.codes[train]]
        settings = self.settings.importance
        groups = most_associated(X, rows.codes[train], encoder.groups, settings.measured)
        most, repetitions = settings.for_columns(len(rows.table.columns))
        chosen = some_rows(len(test), -(-most // n_models), seed=number)
        known = X, labels, weights, X_test, rows.codes[test]
        return Fold(classifier, *known, groups, chosen, repetitions, number)

    def _run(self, folds: list[Fold]) -> Iterator[Any]:
        """Results of all folds, each reported when it is there."""
        report, began = reporter(0), time.perf_counter()
        workers = min(effective_n_jobs(self.n_jobs), len(folds))
        parallel = Parallel(workers, return_as="generator")
        found = (f.run() for f in folds) if workers == 1 else parallel(map(_delayed_run, folds))
        report(Progress("fold", 0, len(folds), None, 0.0))
        for number, result in enumerate(found, 1):
            seconds, done = time.perf_counter() - began, number == len(folds)
            report(Progress("fold", number, len(folds), None, seconds, done=done))
            yield result


def hold_out(
    classifier: Any,
    encoder: Encoder,
    X: FloatArray,
    codes: IntArray,
    counts: FloatArray,
    settings: ValidationSettings | None = None,
) -> HeldOut:
    """Predictions of encoded rows that the classifier was fitted without.

    ``counts`` are the rows of each level that it was fitted on.
    """
    settings = settings or ValidationSettings()
    limits = settings.importance
    most, repetitions = limits.for_columns(len(encoder.columns))
    if len(encoder.columns) > limits.measured:
        most = min(most, max(1, len(X) // 2))  # the other rows choose the columns
    chosen = some_rows(len(X), most, seed=0)
    others = np.delete(np.arange(len(X)), chosen) if len(X) > 1 else chosen
    groups = most_associated(X[others], codes[others], encoder.groups, limits.measured)
    fold = Fold(None, X, codes, None, X, codes, groups, chosen, repetitions, 0)
    proba, change = fold.predicted(classifier.category_proba)
    places, zeros = np.arange(len(X)), np.zeros(len(X), dtype=np.intp)
    names = tuple(column.name for column in encoder.columns)
    change = _of_columns(change, list(groups), names)
    importance = _importance(names, [(chosen, change)], places, zeros)
    parts = codes, zeros - 1, zeros, places, proba
    return HeldOut(counts[None, :], *parts, 0, "rows", importance)


def calibrate(classifier: Any, held: HeldOut) -> None:
    """Calibrate a classifier's intervals by rows that were predicted by models without them.

    On 150 rows of a survey with one length scale per feature, intervals for a coverage of 90 %
    held 75 % of new rows when calibrated by leave-one-out, and 92 % by folds.
    """
    classifier._calibrate_by(held.proba, held.codes, np.ones(len(held.codes)))


def check_folds(folds: Any) -> None:
    """Raise ValueError unless this is a number of folds: 0, or at least 2."""
    check_whole("folds", folds, least=0)
    if folds == 1:
        raise ValueError("folds must be 0 or at least 2, but is 1. Use 5, or 0 to have none.")


def begin_halfway(classifier: Any, fitted: Any) -> None:
    """Let a search begin halfway to the hyperparameters of a fit, where a classifier can."""
    searches = getattr(classifier, "optimizer", True) is not None
    if hasattr(type(classifier), "_start") and searches and type(fitted) is type(classifier):
        classifier._start = WarmStart(fitted._result.model, share=_HALFWAY)


def some_rows(n: int, most: int, seed: int) -> IntArray:
    """Places of at most so many of ``n`` rows, drawn at random, ascending."""
    drawn = np.random.default_rng(seed).permutation(n)[:most]
    return np.sort(drawn).astype(np.intp)


def _delayed_run(fold: Fold) -> Any:
    return delayed(fold.run)()


def _of_columns(change: FloatArray, known: list[str], names: Sequence[str]) -> FloatArray:
    """Increases for all columns of a table; one without values, or not measured, has none."""
    found = np.zeros((len(change), len(names)))
    found[:, [names.index(name) for name in known]] = change
    return found


def _importance(
    names: tuple[str, ...],
    changed: list[tuple[IntArray, FloatArray]],
    units: IntArray,
    fold_of: IntArray,
) -> Importance:
    """Importance from rows, and the increases of their losses."""
    if not changed:
        return Importance(names, *np.zeros((2, len(names))))
    rows = np.concatenate([rows for rows, _ in changed])
    values = np.vstack([change for _, change in changed])
    return Importance(names, *mean_and_error(values, units[rows], fold_of[rows]))


def _warn_of_failures(problems: list[str]) -> None:
    failed = [problem for problem in problems if problem]
    if failed:
        warn_user(
            f"{len(failed)} of {len(problems)} folds could not be fitted; their rows are predicted "
            f"by the level frequencies. The first said: {failed[0]}",
            UserWarning,
        )
