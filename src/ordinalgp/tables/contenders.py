"""Models that ``compare`` sets side by side: ours, and those that people use instead.

Every contender learns from the rows of one fold and returns a function from a table to
probabilities. Its encoding and all of its settings come from these rows alone. Rows of one group
stay together in the inner folds too.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.gp import OrdinalGPClassifier
from ordinalgp.least_squares import LeastSquaresOrdinalClassifier
from ordinalgp.metrics.row_losses import log_losses
from ordinalgp.sequential import SequentialOrdinalGP
from ordinalgp.sparse import SparseBayesOrdinalClassifier
from ordinalgp.stacking import StackedOrdinalGP
from ordinalgp.tables.cells import Table, gaps
from ordinalgp.tables.dates import days
from ordinalgp.tables.encoding import Encoder, learn
from ordinalgp.tables.folds import Folds, make_folds
from ordinalgp.tables.model import TableModel

_INNER_FOLDS = 3
_PENALTIES = tuple(10.0 ** np.array([-3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 2]))
_TREES = 500
_LEAVES = (1, 4, 12, 36)  # least rows of a forest's leaf
_MOST_ROUNDS = 200  # of boosting
_BOOSTED_LEAVES = (5, 20)
_LEARNING_RATE = 0.05
_MOST_NATIVE_VALUES = 255  # of a nominal column that scikit-learn's boosting splits by value


def rows_of(table: Table, rows: IntArray) -> Table:
    """Some rows of a table, in its order."""
    mask = np.zeros(len(table), dtype=bool)
    mask[rows] = True
    return table.take(mask)


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Parsed training rows of one fold."""

    table: Table
    codes: IntArray
    n_levels: int
    groups: IntArray | None
    """group of each row; rows of one group stay together"""
    seed: int

    @cached_property
    def encoder(self) -> Encoder:
        """Encoding learned from these rows."""
        return learn(self.table)

    def encode(self, table: Table) -> FloatArray:
        """Features of rows; a nominal value that these rows lack is none of the known ones."""
        return self.encoder.encode(table)[0]

    @cached_property
    def features(self) -> FloatArray:
        """Features of these rows."""
        return self.encode(self.table)

    @cached_property
    def inner_folds(self) -> Folds:
        """Folds in which contenders choose their settings."""
        table = None if self.groups is not None else self.table
        return make_folds(self.codes, _INNER_FOLDS, self.groups, table, self.seed)

    def complete(self, p: FloatArray, classes: Any, n_rows: int | None = None) -> FloatArray:
        """Probabilities of all levels in rank order, from those of the observed ones.

        Levels that training lacked share the probability 1 / (n + 1), as if one more row had
        one of them.
        """
        n = len(self.codes) if n_rows is None else n_rows
        full = np.zeros((len(p), self.n_levels))
        full[:, np.asarray(classes, dtype=np.intp)] = p
        unseen = np.setdiff1d(np.arange(self.n_levels), classes)
        if len(unseen):
            full *= n / (n + 1)
            full[:, unseen] = 1 / ((n + 1) * len(unseen))
        return full


Predict = Callable[[Table], FloatArray]
Learn = Callable[[TrainingRows], Predict]


@dataclass(frozen=True, eq=False)
class Contender:
    """A model to compare."""

    label: str
    learn: Learn
    needs: tuple[str, ...] = ()
    """packages of which one must be installed"""
    ours: bool = False

    @property
    def absent(self) -> str | None:
        """Reason why it cannot be used, if so."""
        if not self.needs or any(find_spec(package) for package in self.needs):
            return None
        return f"needs {' or '.join(self.needs)}, not installed"


# ----------------------------------------------------------------------------------------- ours


@dataclass(frozen=True, eq=False)
class Ours:
    """A classifier of this package in a :class:`TableModel`, as ``ordinalgp fit`` makes it."""

    classifier: Any
    kernel: str | None = None

    def __call__(self, rows: TrainingRows) -> Predict:
        """Fit the table model."""
        levels = list(range(rows.n_levels))
        options = {"categories": levels, "random_state": rows.seed}
        classifier = clone(self.classifier).set_params(**options)
        # The kinds of the columns are known, and must not be found again from fewer rows.
        kinds = {name: cells.dtype.kind for name, cells in rows.table.columns.items()}
        ordered = rows.table.levels
        nominal = [name for name, kind in kinds.items() if kind == "O" and name not in ordered]
        numeric = [name for name, kind in kinds.items() if kind == "f"]
        model = TableModel(classifier, kernel=self.kernel, nominal=nominal, numeric=numeric)
        model.fit(rows.table, rows.codes)
        return partial(_table_proba, model)


def _table_proba(model: TableModel, table: Table) -> FloatArray:
    """Probabilities of rows; a nominal value that training lacks is none of the known ones."""
    features, _ = model.encoder_.encode(table)
    p: FloatArray = model.classifier_.category_proba(features)
    return p


@dataclass(frozen=True, eq=False)
class Given:
    """Classifier that the user gives, on the encoded features."""

    estimator: Any

    def __call__(self, rows: TrainingRows) -> Predict:
        """Fit a clone."""
        fitted = clone(self.estimator).fit(rows.features, rows.codes)
        return lambda table: rows.complete(
            fitted.predict_proba(rows.encode(table)), fitted.classes_
        )


# ---------------------------------------------------------------------------------------- peers


def chosen(rows: TrainingRows, make: Callable[[Any], Any], grid: Sequence[Any]) -> Any:
    """Setting of the grid with the lowest log score over the inner folds."""
    X, y = rows.features, rows.codes
    totals = np.zeros(len(grid))
    for train, test in rows.inner_folds:
        for at, setting in enumerate(grid):
            model = make(setting).fit(X[train], y[train])
            p = rows.complete(model.predict_proba(X[test]), model.classes_, len(train))
            totals[at] += log_losses(y[test], p).sum()
    return grid[int(np.argmin(totals))]


def logistic(rows: TrainingRows) -> Predict:
    """Multinomial logistic regression with a ridge penalty chosen by inner folds."""

    def make(penalty: float) -> Any:
        return LogisticRegression(C=penalty, max_iter=5000)

    best = chosen(rows, make, _PENALTIES)
    return Given(make(best))(rows)


class Forest:
    """Random forest, and one more tree that gives all levels the same probability.

    Without that tree a level that no tree votes for would have probability zero, and the log score
    would be infinite.
    """

    def __init__(self, least_leaf: int, n_trees: int, seed: int) -> None:
        self.forest = RandomForestClassifier(
            n_trees, min_samples_leaf=least_leaf, random_state=seed
        )

    def fit(self, X: FloatArray, y: IntArray) -> "Forest":
        """Grow the trees."""
        self.classes_ = self.forest.fit(X, y).classes_
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Average of all trees."""
        shares: FloatArray = self.forest.predict_proba(X)
        n = self.forest.n_estimators
        return (n * shares + 1 / shares.shape[1]) / (n + 1)


def forest(rows: TrainingRows) -> Predict:
    """Random forest of 500 trees; inner folds choose the least size of a leaf."""
    few = chosen(rows, lambda leaf: Forest(leaf, _TREES // 5, rows.seed), _LEAVES)
    fitted = Forest(few, _TREES, rows.seed).fit(rows.features, rows.codes)
    return lambda table: rows.complete(fitted.predict_proba(rows.encode(table)), fitted.classes_)


@dataclass(frozen=True, eq=False)
class NativeColumns:
    """Columns as trees take them: numbers with gaps, and codes of nominal values."""

    values: dict[str, list[str] | None]
    """values of each nominal column in training, None for numbers"""

    @classmethod
    def of(cls, table: Table) -> "NativeColumns":
        """Take the values from training rows."""
        return cls(
            {
                name: sorted(set(cells[~gaps(cells)].tolist())) if cells.dtype == object else None
                for name, cells in table.columns.items()
            }
        )

    @property
    def nominal(self) -> list[int]:
        """Places of the nominal columns that boosting can split by value."""
        values = enumerate(self.values.values())
        return [at for at, each in values if each is not None and len(each) <= _MOST_NATIVE_VALUES]

    def numbers(self, table: Table) -> FloatArray:
        """Numbers and codes; NaN for gaps and for values that training lacks."""
        return np.column_stack(
            [_codes(table.columns[name], values) for name, values in self.values.items()]
        )

    def cells(self, table: Table) -> NDArray[Any]:
        """Numbers, and texts of nominal values, in one array of objects."""
        columns = [
            _codes(table.columns[name], None).astype(object)
            if values is None
            else np.array([str(cell) for cell in table.columns[name]], dtype=object)
            for name, values in self.values.items()
        ]
        return np.column_stack(columns)


def _codes(cells: NDArray[Any], values: list[str] | None) -> FloatArray:
    if values is None:
        return days(cells) if cells.dtype.kind == "M" else cells.astype(float)
    place = {value: float(at) for at, value in enumerate(values)}
    return np.array([place.get(cell, np.nan) for cell in cells.tolist()])


def boosting(rows: TrainingRows) -> Predict:
    """Histogram gradient boosting; inner folds choose the rounds, up to 200, and the leaves."""
    native = NativeColumns.of(rows.table)
    X, y = native.numbers(rows.table), rows.codes

    def make(leaf: int, rounds: int) -> Any:
        return HistGradientBoostingClassifier(
            learning_rate=_LEARNING_RATE,
            max_iter=rounds,
            min_samples_leaf=leaf,
            categorical_features=native.nominal or None,
            early_stopping=False,
            random_state=rows.seed,
        )

    totals = np.zeros((len(_BOOSTED_LEAVES), _MOST_ROUNDS))
    for train, test in rows.inner_folds:
        for at, leaf in enumerate(_BOOSTED_LEAVES):
            model = make(leaf, _MOST_ROUNDS).fit(X[train], y[train])
            stages = model.staged_predict_proba(X[test])
            full = (rows.complete(p, model.classes_, len(train)) for p in stages)
            totals[at] += [log_losses(y[test], p).sum() for p in full]
    best, rounds = divmod(int(np.argmin(totals)), _MOST_ROUNDS)
    fitted = make(_BOOSTED_LEAVES[best], rounds + 1).fit(X, y)
    return lambda table: rows.complete(fitted.predict_proba(native.numbers(table)), fitted.classes_)


def ordinal_logistic(rows: TrainingRows) -> Predict:
    """Proportional odds: mord's with a penalty chosen by inner folds, else statsmodels'."""
    if not find_spec("mord"):
        return Given(ProportionalOdds())(rows)
    machine = import_module("mord").LogisticAT
    best = chosen(rows, lambda penalty: Recoded(machine(alpha=penalty)), _PENALTIES)
    fitted = Recoded(machine(alpha=best)).fit(rows.features, rows.codes)
    return lambda table: rows.complete(fitted.predict_proba(rows.encode(table)), fitted.classes_)


class Recoded:
    """Estimator that needs levels 0, ..., r - 1 without holes, given any."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: FloatArray, y: IntArray) -> "Recoded":
        """Fit the codes of the observed levels."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.estimator.fit(X, codes)
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Probabilities of the observed levels."""
        p: FloatArray = self.estimator.predict_proba(X)
        return p


class ProportionalOdds:
    """statsmodels' ``OrderedModel`` behind scikit-learn's two methods, without collinear inputs."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """No parameters."""
        return {}

    def fit(self, X: FloatArray, y: IntArray) -> "ProportionalOdds":
        """Maximise the likelihood."""
        model = import_module("statsmodels.miscmodels.ordinal_model").OrderedModel
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.inputs_ = _independent(X)
        self.result_ = model(codes, X[:, self.inputs_], distr="logit").fit(
            method="bfgs", disp=False, maxiter=1000
        )
        if not np.isfinite(self.result_.params).all():
            raise ValueError("the likelihood has no maximum, because the levels are separable")
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Probabilities of the observed levels."""
        found = self.result_.model.predict(self.result_.params, exog=X[:, self.inputs_])
        p = np.clip(np.asarray(found, dtype=float), 1e-15, 1.0)
        return p / p.sum(axis=1, keepdims=True)


def _independent(X: FloatArray) -> list[int]:
    """Columns, from the left, that are no linear combination of a constant and earlier ones."""
    kept: list[int] = []
    basis = [np.full(len(X), len(X) ** -0.5)]
    for at, column in enumerate(X.T):
        rest = column - sum((b @ column) * b for b in basis)
        rest = rest - sum((b @ rest) * b for b in basis)
        if np.linalg.norm(rest) > 1e-8 * max(float(np.linalg.norm(column)), 1e-300):
            kept.append(at)
            basis.append(rest / np.linalg.norm(rest))
    return kept


def catboost(rows: TrainingRows) -> Predict:
    """CatBoost with its own treatment of nominal columns; inner folds choose the rounds."""
    native = NativeColumns.of(rows.table)
    X, y = native.cells(rows.table), rows.codes
    machine = import_module("catboost").CatBoostClassifier
    nominal = [at for at, each in enumerate(native.values.values()) if each is not None]

    def make(rounds: int) -> Any:
        return machine(
            iterations=rounds,
            learning_rate=_LEARNING_RATE,
            loss_function="MultiClass",
            random_seed=rows.seed,
            thread_count=1,
            verbose=False,
            allow_writing_files=False,
            cat_features=nominal,
        )

    totals = np.zeros(_MOST_ROUNDS)
    for train, test in rows.inner_folds:
        model = make(_MOST_ROUNDS).fit(X[train], y[train])
        stages = model.staged_predict_proba(X[test])
        full = (rows.complete(p, np.ravel(model.classes_), len(train)) for p in stages)
        totals += [log_losses(y[test], p).sum() for p in full]
    fitted = make(1 + int(np.argmin(totals))).fit(X, y)
    classes = np.ravel(fitted.classes_)
    return lambda table: rows.complete(fitted.predict_proba(native.cells(table)), classes)


def frequencies(rows: TrainingRows) -> Predict:
    """Share of every level in training, whatever the columns say."""
    counts = np.bincount(rows.codes, minlength=rows.n_levels)
    seen = np.flatnonzero(counts)
    p = rows.complete((counts[seen] / counts.sum())[None, :], seen)
    return lambda table: np.repeat(p, len(table), axis=0)


_ORDINAL_LOGISTIC = ("mord", "statsmodels")
CONTENDERS = {
    "auto": Contender("mixture", Ours(StackedOrdinalGP()), ours=True),
    "gp": Contender("Gaussian process", Ours(OrdinalGPClassifier(), "ard"), ours=True),
    "sequential": Contender("sequential GP", Ours(SequentialOrdinalGP(), "ard"), ours=True),
    "laplace": Contender(
        "Laplace GP", Ours(OrdinalGPClassifier(inference="laplace"), "ard"), ours=True
    ),
    "least-squares": Contender(
        "least-squares GP", Ours(LeastSquaresOrdinalClassifier(), "ard"), ours=True
    ),
    "sparse": Contender("sparse Bayes", Ours(SparseBayesOrdinalClassifier("auto")), ours=True),
    "logistic": Contender("logistic regression", logistic),
    "ordinal-logistic": Contender("ordinal logistic", ordinal_logistic, _ORDINAL_LOGISTIC),
    "forest": Contender("random forest", forest),
    "boosting": Contender("gradient boosting", boosting),
    "catboost": Contender("CatBoost", catboost, ("catboost",)),
    "frequencies": Contender("level frequencies", frequencies),
}
"""models by the words of ``--models``"""
DEFAULT = tuple(name for name in CONTENDERS if name not in ("laplace", "least-squares", "sparse"))
"""models that are compared unless others are named"""


def contenders(models: Any) -> dict[str, Contender]:
    """Contenders by name: all usual ones, some by name, or estimators of the user."""
    if models is None:
        models = DEFAULT
    if isinstance(models, str):
        models = [models]
    given = models if isinstance(models, dict) else dict.fromkeys(models)
    found = {}
    for name, estimator in given.items():
        if estimator is not None:
            found[str(name)] = Contender(str(name), Given(estimator))
        elif name in CONTENDERS:
            found[name] = CONTENDERS[name]
        else:
            raise ValueError(
                f"models names {name!r}, but the known ones are {', '.join(CONTENDERS)}. Give "
                "your own as a dict of names and estimators."
            )
    if not found:
        raise ValueError("models is empty. Name at least one model.")
    return found


def quietly(work: Callable[[], Any]) -> tuple[Any, tuple[str, ...]]:
    """Result of some work, and the messages of its warnings, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = work()
    return result, unique(str(w.message) for w in caught if issubclass(w.category, UserWarning))


def unique(texts: Iterable[str]) -> tuple[str, ...]:
    """Texts, each once, in their order."""
    return tuple(dict.fromkeys(texts))
