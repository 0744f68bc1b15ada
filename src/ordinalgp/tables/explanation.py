"""Explanation of single predictions: contributions of the columns, and the way to other levels.

The contribution of a column is its Shapley value. Let v(S) be the average prediction when the
columns in S have the values of the row to explain, and the others those of a training row, over
some training rows. The contribution of a column is the mean of v(S and the column) - v(S) over all
orders in which the columns can be added one by one. All encoded features of one column move
together. Contributions sum to the prediction minus the average prediction of the training rows.

For few columns all sets S are computed. For many, each training row is walked into the row to
explain along random orders, every order also backwards, which leaves the sum exact. A walk takes
one prediction per column, so that wide tables get fewer training rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state, gen_batches

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.decisions import decide
from ordinalgp.tables.cells import BadRows, Table, gaps, objects, texts
from ordinalgp.tables.dates import written
from ordinalgp.tables.encoding import (
    Column,
    DateColumn,
    NominalColumn,
    NumberColumn,
    OrderedColumn,
)
from ordinalgp.tables.frames import as_table
from ordinalgp.tables.model import TableModel
from ordinalgp.tables.summary import interval_ranks
from ordinalgp.validation.options import check_coverage, check_whole

_MOST_EXACT = 6  # columns, up to which all 2^k sets are computed
_PAIRS = 2  # orders per training row, each also backwards; two tell a standard error
_MOST_STEPS = 60_000  # predictions of all walks together, as long as there are a few of them
_FEWEST_ROWS = 4  # training rows of a wide table that are walked nevertheless
_CELLS = 4_000_000  # of the rows that are made and predicted at a time
_BLOCK = 8192  # rows predicted at a time
_MOST_SEARCHED = 100  # columns of a row, by their contributions, whose changes are searched
_FINENESS = 500  # least number of values of a number that are tried
_COARSE = 40  # of them tried first, in each direction

Predict = Callable[[FloatArray], FloatArray]
"""from features to outputs, (n, q)"""


@dataclass(frozen=True)
class Change:
    """New value of one column that changes the predicted level."""

    value: Any
    """number or nominal value"""
    level: Any
    """level that is then predicted"""


Changes = tuple[Change | None, Change | None]
"""to a higher and to a lower level"""


@dataclass(frozen=True)
class ColumnExplanation:
    """One column of one row."""

    column: str
    value: Any
    """number or text, None if it is missing"""
    contribution: float
    """to the expected level"""
    error: float
    """standard error of the contribution, 0 if it is exact"""
    probability_contribution: float
    """to the probability of the predicted level"""
    probability_error: float
    higher: Change | None
    """smallest change of this column alone that leads to a higher level"""
    lower: Change | None
    """smallest change of this column alone that leads to a lower level"""


@dataclass(frozen=True)
class LatentPosition:
    """Latent mean of a row among the thresholds."""

    mean: float
    sd: float
    to_higher: float | None
    """distance to the next threshold above, in units of the noise"""
    to_lower: float | None
    """distance to the next threshold below, in units of the noise"""


@dataclass(frozen=True, eq=False)
class RowExplanation:
    """Prediction of one row, and its columns, the largest contribution first."""

    line: int
    """place of the row in its table, from 1"""
    level: Any
    lower: Any
    """lowest level of the interval"""
    upper: Any
    """highest level of the interval"""
    probabilities: FloatArray
    """in rank order, (r,)"""
    expected: float
    """expected level"""
    columns: tuple[ColumnExplanation, ...]
    latent: LatentPosition | None


@dataclass(frozen=True, eq=False)
class Explanations:
    """Contributions of columns to the predictions of some rows.

    Arrays have one place per row, then one per column in the order of ``columns``. The expected
    level is the mean of the levels if these are consecutive whole numbers; else of their ranks
    from 1. It is the result of :func:`explain`.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp.tables import TableModel, explain
    >>> rng = np.random.default_rng(0)
    >>> table = {"hours": rng.normal(size=60), "noise": rng.normal(size=60)}
    >>> model = TableModel(kernel="rbf").fit(table, np.digitize(table["hours"], [-0.5, 0.5]))
    >>> found = explain(model, {"hours": [2.0], "noise": [0.0]})
    >>> found.rows[0].columns[0].column  # the column that moves this row most
    'hours'
    """

    columns: tuple[str, ...]
    categories: NDArray[Any]
    scale: FloatArray
    """number of each level on the scale of the expected level, (r,)"""
    coverage: float
    """of the intervals"""
    n_background: int
    """training rows that stand for the average"""
    exact: bool
    """whether contributions are exact given these rows"""
    average_probabilities: FloatArray
    """mean over the training rows, (r,)"""
    average_latent: float | None
    probabilities: FloatArray
    """(n, r)"""
    contributions: FloatArray
    """to the expected level, (n, k)"""
    errors: FloatArray
    """standard errors of them, (n, k)"""
    probability_contributions: FloatArray
    """to the probability of each level, (n, k, r)"""
    probability_errors: FloatArray
    """standard errors of them, (n, k, r)"""
    latent_contributions: FloatArray | None
    """to the latent mean, (n, k), for models that have one"""
    rows: tuple[RowExplanation, ...]
    """the same row by row"""

    @property
    def average(self) -> float:
        """Average expected level of the training rows."""
        return float(self.average_probabilities @ self.scale)

    def records(self) -> list[dict[str, Any]]:
        """One mapping per row and column, the largest contribution of each row first."""
        return [
            {
                "line": row.line,
                "level": row.level,
                "column": each.column,
                "value": each.value,
                "contribution": each.contribution,
                "contribution_se": each.error,
                "probability_contribution": each.probability_contribution,
                "probability_contribution_se": each.probability_error,
                "higher_value": each.higher and each.higher.value,
                "higher_level": each.higher and each.higher.level,
                "lower_value": each.lower and each.lower.value,
                "lower_level": each.lower and each.lower.level,
            }
            for row in self.rows
            for each in row.columns
        ]


def explain(
    model: TableModel,
    X: Any,
    *,
    coverage: float = 0.9,
    max_background: int = 100,
    decimal: str | None = None,
    random_state: Any = 0,
) -> Explanations:
    """Explain predictions: contributions of the columns, and the nearest other levels.

    Parameters
    ----------
    model : TableModel
        The fitted model.
    X : DataFrame, Table, dict of columns or list of dicts
        Rows to explain.
    coverage : float, default=0.9
        Coverage of the intervals of levels.
    max_background : int, default=100
        Number of training rows that stand for the average; the model keeps at most 100, and fewer
        are used above 150 columns.
    decimal : str, default=None
        Decimal mark of numbers that are given as texts; None finds it.
    random_state : int, RandomState instance or None, default=0
        Seed of the training rows, if fewer than all are used, and of the orders of columns.

    Returns
    -------
    Explanations
        Shapley values of the columns, exact for up to 6 columns. Above, they come with standard
        errors of the random orders. In both cases they sum to the prediction minus the average.

    Notes
    -----
    The changes that lead to other levels are searched within the range of the training rows, one
    column at a time, for the 100 columns that contribute most. Where a level is predicted only
    between two values that are close together, it may be missed.

    Examples
    --------
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.tables import TableModel, explain
    >>> table = {"hours": [1, 2, 3, 5, 6, 8], "tutor": ["no", "no", "yes", "no", "yes", "yes"]}
    >>> grades = ["poor", "poor", "fair", "fair", "good", "good"]
    >>> classifier = OrdinalGPClassifier(categories=["poor", "fair", "good"])
    >>> model = TableModel(classifier).fit(table, grades)
    >>> row = explain(model, {"hours": [3], "tutor": ["no"]}).rows[0]
    >>> row.level, row.columns[0].column
    ('poor', 'hours')
    """
    check_coverage(coverage)
    check_whole("max_background", max_background, least=1)
    table = as_table(X)
    features, bad = model.encoder_.encode(table, decimal, new_values=model.on_new_values)
    BadRows().drop(table, bad)
    rng = check_random_state(random_state)
    scale = level_scale(model.categories_)
    outputs = _Outputs(model, scale)
    places = [np.array(group, dtype=np.intp) for group in model.encoder_.groups.values()]
    background, most = model.sample_, min(max_background, most_walked(len(places)))
    if len(background) > most:
        some = rng.choice(len(background), most, replace=False)
        background = background[np.sort(some)]
    game = Game(outputs.predict, background, places)
    found = [game.contributions(x, rng) for x in features]
    q = outputs.n_outputs
    phi = np.array([values for values, _ in found]).reshape(len(features), len(places), q)
    se = np.array([errors for _, errors in found]).reshape(phi.shape)
    return _assembled(model, table, features, outputs, game, phi, se, coverage)


def most_walked(n_columns: int) -> int:
    """Number of training rows that walks of that many steps can afford."""
    return max(_FEWEST_ROWS, _MOST_STEPS // (2 * _PAIRS * (n_columns + 1)))


def level_scale(categories: NDArray[Any]) -> FloatArray:
    """Levels as numbers: themselves if they are consecutive whole numbers, else ranks from 1."""
    if categories.dtype.kind in "iuf":
        values = categories.astype(float)
        if np.all(values % 1 == 0) and np.all(np.diff(values) == 1):
            return values
    return np.arange(1.0, len(categories) + 1)


@dataclass(frozen=True, eq=False)
class _Outputs:
    """Outputs of a model that are explained: probabilities, expected level, latent mean."""

    model: TableModel
    scale: FloatArray

    @property
    def has_latent(self) -> bool:
        return hasattr(self.model.classifier_, "latent_mean_and_variance")

    @property
    def n_outputs(self) -> int:
        return len(self.scale) + 1 + self.has_latent

    def predict(self, features: FloatArray) -> FloatArray:
        """All outputs of rows, (n, r + 1) or (n, r + 2)."""
        parts = [
            self._predict(features[at : at + _BLOCK]) for at in range(0, len(features), _BLOCK)
        ]
        return np.vstack([np.empty((0, self.n_outputs)), *parts])

    def _predict(self, features: FloatArray) -> FloatArray:
        classifier = self.model.classifier_
        if not self.has_latent:
            p = classifier.category_proba(features)
            return np.column_stack([p, p @ self.scale])
        mean, var = classifier.latent_mean_and_variance(features)
        p = classifier.likelihood_.probabilities(mean, var)
        return np.column_stack([p, p @ self.scale, mean])

    def levels(self, outputs: FloatArray) -> IntArray:
        """Ranks that the model predicts, by its decision rule."""
        p, model = outputs[:, : len(self.scale)], self.model
        return decide(p, model.decision_, model.level_counts_)


# -------------------------------------------------------------------------------- contributions


@dataclass(frozen=True, eq=False)
class Game:
    """Predictions of rows some of whose columns come from training rows."""

    predict: Predict
    background: FloatArray
    """training rows, (B, d)"""
    places: Sequence[IntArray]
    """features of each column"""
    most_exact: int = _MOST_EXACT
    pairs: int = _PAIRS

    @property
    def exact(self) -> bool:
        """Whether all sets of columns are computed."""
        return len(self.places) <= self.most_exact

    @property
    def average(self) -> FloatArray:
        """Average outputs of the training rows, (q,)."""
        return np.asarray(self.predict(self.background).mean(axis=0))

    def contributions(self, x: FloatArray, rng: Any) -> tuple[FloatArray, FloatArray]:
        """Shapley values of the columns for each output, and standard errors; both (k, q)."""
        if self.exact:
            values = self._exact(x)
            return values, np.zeros_like(values)
        return self._sampled(x, rng)

    def outputs(self, x: FloatArray, rows: IntArray, turn: IntArray, step: IntArray) -> FloatArray:
        """Outputs of training rows whose columns with a ``turn``, (w, k), below ``step`` are x's.

        There is one training row per walk, and for each walk all steps: (w, steps, q).
        """
        when = np.full((len(turn), len(x)), np.iinfo(np.intp).max)
        for column, place in enumerate(self.places):
            when[:, place] = turn[:, column, None]
        walk, at = (each.ravel() for each in np.indices((len(turn), len(step))))
        found = [
            self._mixed(x, rows[walk[some]], when[walk[some]], step[at[some]])
            for some in gen_batches(len(walk), max(1, _CELLS // len(x)))
        ]
        return np.vstack(found).reshape(len(turn), len(step), -1)

    def _mixed(self, x: FloatArray, rows: IntArray, when: IntArray, step: IntArray) -> FloatArray:
        mixed = np.where(when < step[:, None], x, self.background[rows])
        # Few values per column make many equal rows, which are predicted once.
        different, place = np.unique(mixed, axis=0, return_inverse=True)
        return self.predict(different)[place.ravel()]

    def _exact(self, x: FloatArray) -> FloatArray:
        k, n = len(self.places), len(self.background)
        sets = np.arange(2**k)
        member = (sets[:, None] >> np.arange(k)) & 1 == 1
        turn = np.repeat(np.where(member, 0, 1), n, axis=0)
        value = self.outputs(x, np.tile(np.arange(n), len(sets)), turn, np.array([1]))
        value = value.reshape(len(sets), n, -1).mean(axis=1)
        weights = np.array([1 / (k * comb(k - 1, size)) for size in range(k)])
        found = []
        for column in range(k):
            without = sets[~member[:, column]]
            gain = value[without + 2**column] - value[without]
            found.append(weights[member[without].sum(axis=1)] @ gain)
        return np.array(found)

    def _sampled(self, x: FloatArray, rng: Any) -> tuple[FloatArray, FloatArray]:
        """Mean over walks from each training row to ``x``, along orders and their reverses."""
        k, n = len(self.places), len(self.background)
        orders = np.array([rng.permutation(k) for _ in range(n * self.pairs)])
        both = np.stack([orders, orders[:, ::-1]], axis=1).reshape(-1, k)  # (2 n pairs, k)
        turn = np.argsort(both, axis=1)  # when each column joins
        rows = np.repeat(np.arange(n), 2 * self.pairs)
        value = self.outputs(x, rows, turn, np.arange(k + 1))
        gain = np.take_along_axis(np.diff(value, axis=1), turn[:, :, None], axis=1)
        pair = gain.reshape(n, self.pairs, 2, k, -1).mean(axis=2)
        # The training rows are given, so that only the orders within each of them vary.
        spread = pair.var(axis=1, ddof=1) / self.pairs
        return pair.mean(axis=(0, 1)), np.sqrt(spread.sum(axis=0)) / n


# ------------------------------------------------------------------------------ other levels


@dataclass(frozen=True, eq=False)
class Search:
    """Search for the nearest values of single columns that change the level of one row."""

    model: TableModel
    outputs: _Outputs
    x: FloatArray
    """features of the row"""
    level: int
    """its predicted rank"""

    def changes(self, contributions: FloatArray) -> list[Changes]:
        """Changes to a higher and to a lower level, for the columns that contribute most."""
        encoder = self.model.encoder_
        found: list[Changes] = [(None, None)] * len(encoder.columns)
        places = list(encoder.groups.values())
        for at in np.argsort(-np.abs(contributions))[:_MOST_SEARCHED]:
            found[at] = self._column(encoder.columns[at], np.array(places[at]))
        return found

    def _column(self, column: Column, places: IntArray) -> Changes:
        if isinstance(column, NumberColumn):
            return self._number(column, places, float)
        if isinstance(column, DateColumn):
            return self._number(column.days, places, written)
        if isinstance(column, OrderedColumn):
            return self._number(column.ranks, places, lambda rank: column.values[round(rank)])
        return self._nominal(column, places)

    def _levels(self, places: IntArray, encoded: FloatArray) -> IntArray:
        """Predicted ranks of the row with other features of a column."""
        features = np.tile(self.x, (len(encoded), 1))
        features[:, places] = encoded
        return self.outputs.levels(self.outputs.predict(features))

    def _nominal(self, column: NominalColumn, places: IntArray) -> Changes:
        """Among other values, those that lead to the nearest higher and lower level."""
        now = column.decode(self.x[None, places])[0]
        values = objects(value for value in column.values if value != now)
        if not len(values):
            return None, None
        levels = self._levels(places, column.encode(values, ".")[0])
        found: list[Change | None] = []
        for sign in (1, -1):
            away = np.where(sign * (levels - self.level) > 0, np.abs(levels - self.level), np.inf)
            at = int(np.argmin(away))
            known = np.isfinite(away[at])
            found.append(self._change(values[at], levels[at]) if known else None)
        return found[0], found[1]

    def _number(
        self, column: NumberColumn, places: IntArray, show: Callable[[float], Any]
    ) -> Changes:
        """Nearest numbers within the training range, among round ones; a gap is at the median."""
        if column.low == column.high:
            return None, None
        now = float(column.decode(self.x[None, places])[0])
        centre = column.median if np.isnan(now) else now
        whole = _are_whole(column.decode(self.model.sample_[:, places]))
        values = round_values(column.low, column.high, whole=whole)
        best: dict[int, tuple[float, Change]] = {}
        for side in (values[values > centre], values[values < centre][::-1]):
            for sign, (value, rank) in self._nearest(column, places, side).items():
                distance = abs(value - centre)
                if sign not in best or distance < best[sign][0]:
                    best[sign] = distance, self._change(show(value), rank)
        higher, lower = (best[sign][1] if sign in best else None for sign in (1, -1))
        return higher, lower

    def _nearest(
        self, column: NumberColumn, places: IntArray, values: FloatArray
    ) -> dict[int, tuple[float, int]]:
        """First of the values that leads to a higher (1) or lower (-1) level, and that level."""
        if not len(values):
            return {}
        encoded = column.encode(values, ".")[0]
        coarse = np.unique(np.linspace(0, len(values) - 1, _COARSE).round().astype(int))
        signs = np.sign(self._levels(places, encoded[coarse]) - self.level)
        found = {}
        for sign in (1, -1):
            if not np.any(signs == sign):
                continue
            hit = int(np.argmax(signs == sign))
            after = -1 if hit == 0 else int(coarse[hit - 1])
            between = np.arange(after + 1, coarse[hit] + 1)
            levels = self._levels(places, encoded[between])
            at = int(np.argmax(np.sign(levels - self.level) == sign))
            found[sign] = float(values[between[at]]), int(levels[at])
        return found

    def _change(self, value: Any, rank: Any) -> Change:
        return Change(value, self.model.categories_.tolist()[int(rank)])


def _are_whole(values: FloatArray) -> bool:
    present = values[~np.isnan(values)]
    return bool(np.all(present % 1 == 0))


def round_values(low: float, high: float, *, whole: bool = False) -> FloatArray:
    """Both ends, and all multiples of a power of ten between them: at least 500, unless whole."""
    width, size = high / 2 - low / 2, max(abs(low), abs(high))
    if not max(1e-290, 1e-12 * size) < width < 1e290:
        # Powers of ten, or the digits of a double, end here.
        share = np.linspace(0, 1, _FINENESS)
        return np.unique(np.clip(low * (1 - share) + high * share, low, high))
    digits = int(np.floor(np.log10((high - low) / _FINENESS)))
    digits = max(digits, 0) if whole else digits
    first, last = (int(f(end / 10.0**digits)) for f, end in ((np.ceil, low), (np.floor, high)))
    # Whole multiples, divided where the step is below one, so that 0.3 is 0.3.
    steps = np.arange(first, last + 1)
    values = steps * 10.0**digits if digits >= 0 else steps / 10.0**-digits
    return np.unique(np.concatenate([[low], values, [high]]))


# ---------------------------------------------------------------------------------- assembly


def _assembled(
    model: TableModel,
    table: Table,
    features: FloatArray,
    outputs: _Outputs,
    game: Game,
    phi: FloatArray,
    se: FloatArray,
    coverage: float,
) -> Explanations:
    r, average = len(outputs.scale), game.average
    found = outputs.predict(features)
    p = found[:, :r]
    levels = outputs.levels(found)
    ends = interval_ranks(model, p, coverage)
    rows = []
    for at in range(len(table)):
        mask = np.arange(len(table)) == at
        search = Search(model, outputs, features[at], int(levels[at]))
        changes = search.changes(phi[at, :, r])
        values = _values(model, table.take(mask), features[at])
        columns = _columns(model, values, phi[at], se[at], int(levels[at]), r, changes)
        names = model.categories_.tolist()
        low, high = (names[int(end)] for end in ends[at])
        position = _position(model, features[mask]) if outputs.has_latent else None
        parts = int(table.lines[at]), names[int(levels[at])], low, high, p[at]
        rows.append(RowExplanation(*parts, float(found[at, r]), columns, position))
    return Explanations(
        columns=tuple(model.encoder_.groups),
        categories=model.categories_,
        scale=outputs.scale,
        coverage=coverage,
        n_background=len(game.background),
        exact=game.exact,
        average_probabilities=average[:r],
        average_latent=float(average[r + 1]) if outputs.has_latent else None,
        probabilities=p,
        contributions=phi[:, :, r],
        errors=se[:, :, r],
        probability_contributions=phi[:, :, :r],
        probability_errors=se[:, :, :r],
        latent_contributions=phi[:, :, r + 1] if outputs.has_latent else None,
        rows=tuple(rows),
    )


def _values(model: TableModel, row: Table, x: FloatArray) -> list[Any]:
    """Values of the columns of one row: numbers, texts, or None for gaps."""
    values: list[Any] = []
    for column, places in zip(model.encoder_.columns, model.encoder_.groups.values(), strict=True):
        cells = row.columns[column.name]
        if gaps(cells)[0]:
            values.append(None)
        elif isinstance(column, NumberColumn):
            values.append(float(column.decode(x[None, places])[0]))
        else:
            values.append(texts(cells)[0])
    return values


def _columns(
    model: TableModel,
    values: Sequence[Any],
    phi: FloatArray,
    se: FloatArray,
    level: int,
    r: int,
    changes: Sequence[Changes],
) -> tuple[ColumnExplanation, ...]:
    found = []
    for at, name in enumerate(model.encoder_.groups):
        to_mean, to_mode = ((float(phi[at, out]), float(se[at, out])) for out in (r, level))
        found.append(ColumnExplanation(name, values[at], *to_mean, *to_mode, *changes[at]))
    return tuple(sorted(found, key=lambda each: -abs(each.contribution)))


def _position(model: TableModel, features: FloatArray) -> LatentPosition:
    mean, var = (float(each[0]) for each in model.classifier_.latent_mean_and_variance(features))
    cuts, noise = model.thresholds_, float(model.likelihood_.noise)
    above, below = cuts[cuts > mean], cuts[cuts <= mean]
    to_higher = float(above[0] - mean) / noise if len(above) else None
    to_lower = float(mean - below[-1]) / noise if len(below) else None
    return LatentPosition(mean, float(np.sqrt(var)), to_higher, to_lower)
