"""Sum-of-margins machine with its multipliers, so that rows can join and leave exactly."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ordinalgp._typing import FINITE, Axes, FloatArray, IntArray
from ordinalgp.baselines.cuts import CutModel, LevelRows, nothing_cuts
from ordinalgp.baselines.multiplier_path import MultiplierPath, PathFailure
from ordinalgp.baselines.soft_margin import margins, solve_margins
from ordinalgp.core.linalg import pivoted_cholesky
from ordinalgp.models.training_rows import NumberedRows
from ordinalgp.persistence import saved_as
from ordinalgp.runtime.warning import warn_user

_CONVERGED = 1e-8  # violation of the conditions, relative to the latent values
# Added to the kernel's diagonal, in units of it, where rounding makes the path circle: kernel
# matrices that are singular to all digits. The violation that is reported has none.
_NUGGETS = (0.0, 1e-10, 1e-9, 1e-8)
# Observations from which the batch solution comes first. With fewer the path alone is as fast.
_BATCH_FROM = 200
_BATCH_TOL = 1e-11  # of the batch solution
_AT_BOUND = 1e-6  # share of the cost within which its multipliers are at a bound
_NO_MARGIN = 1e-5  # share of the largest latent value
_NO_FUNCTION = 1e-11  # largest latent value, over the kernel, that is zero but for rounding
_ENOUGH = 1 - 1e-12  # cost of the rows of a level, for margins that are not infinite


@saved_as("model.path_svc")
@dataclass(frozen=True, eq=False)
class PathModel(CutModel):
    """A sum-of-margins machine: all its rows, and the multipliers of the extended set."""

    support: Annotated[IntArray, Axes("S", 0)]
    """support vectors as row numbers"""
    gap: Annotated[float, Axes("", *FINITE)]
    """largest violation of the optimality conditions, in units of the latent function"""
    converged: bool
    n_steps: int
    """changes of the sets in the last training"""
    rows: NumberedRows
    """in the order in which they came"""
    n_rows_seen: Annotated[int, Axes(low=1)]
    cost: Annotated[float, Axes("", *FINITE)]
    multipliers: Annotated[FloatArray, Axes("M 2", 0.0, np.inf)]
    """of each observation, at the cut below its level and at the one above; zero without one"""
    excess: Annotated[FloatArray, Axes("gaps", 0.0, np.inf)]
    """e_j of the cuts between observed levels"""
    edges: Annotated[FloatArray, Axes("edges", *FINITE)]
    """tau of both sides of these cuts"""
    path: MultiplierPath | None = field(default=None, metadata={"saved": False})

    def check(self, n_features: int, n_levels: int) -> None:
        """Raise ValueError unless the parts of a saved model agree."""
        super().check(n_features, n_levels)
        cuts = len(np.unique(self.rows.codes)) - 1
        if len(self.excess) != cuts or len(self.edges) != 2 * cuts:
            raise ValueError("the multipliers and the levels disagree")
        if not np.all(self.rows.first_row < self.n_rows_seen):
            raise ValueError("first_row and the rest of the model disagree")


def solve_path(data: LevelRows, cost: float, *, batch_from: int = _BATCH_FROM) -> PathModel:
    """Solve for all rows, from the batch solution or one open multiplier after the other.

    From ``batch_from`` observations on the batch solution comes first.
    """
    found = _solved(data, cost, batch_from)
    warn_without_margin(found.edges[::2] + found.edges[1::2], found.latent(data.rows.inputs), cost)
    return found


def _solved(data: LevelRows, cost: float, batch_from: int) -> PathModel:
    rows = data.rows
    check_cost(cost, rows.codes, rows.counts)
    if len(rows.codes) >= batch_from and len(data.observed) > 1:
        path = _unsolved(data, cost)
        try:
            _begin_at_batch_solution(path, data, cost)
            return _model(data, cost, path)
        except (PathFailure, np.linalg.LinAlgError):
            pass  # the sets of a nearly singular problem are not found this way
    for nugget in _NUGGETS:
        path = _unsolved(data, cost, nugget)
        try:
            path.start(path.rows[path.rows >= 0])
            path.settle()
            break
        except PathFailure:
            continue
    return _model(data, cost, path)


def _begin_at_batch_solution(path: MultiplierPath, data: LevelRows, cost: float) -> None:
    """Put the multipliers of the interior point method into their sets, and settle them.

    The path then has only those to drive that are in the wrong set: one refit, not fifteen.
    """
    rows = data.rows
    wanted = margins(data.codes, cost * rows.counts, rows.latent, "sum_of_margins")
    kernel, X = data.kernel, rows.inputs
    features = pivoted_cholesky(lambda j: kernel(X, X[j : j + 1])[:, 0], kernel.diag(X), None)
    found = solve_margins(features.matrix, wanted, tol=_BATCH_TOL)
    share = found.multipliers / wanted.cost
    alpha = np.where(share < _AT_BOUND, 0.0, found.multipliers)
    alpha = np.where(share > 1 - _AT_BOUND, wanted.cost, alpha)
    side = 2 * wanted.cut + (wanted.sign > 0)
    inner = (alpha > 0) & (alpha < wanted.cost)
    if len(np.unique(side[inner])) < 2 * path.n_cuts:
        raise PathFailure("an edge that no row between its bounds determines")
    excess = np.bincount(side, found.multipliers, 2 * path.n_cuts)[1::2] - 1.0
    path.alpha[path.rows[wanted.row, (wanted.sign < 0).astype(int)]] = alpha
    path.alpha[: path.n_cuts] = np.where(excess > _AT_BOUND, excess, 0.0)
    own = wanted.sign * (features.matrix @ found.weights)[wanted.input]
    edges = [np.median(own[inner & (side == g)]) for g in range(2 * path.n_cuts)]
    path.resume(np.array(edges))


def add_rows(
    model: PathModel, X: FloatArray, codes: IntArray, weights: FloatArray, n_levels: int
) -> PathModel:
    """Follow the solution as rows join; for a level without rows so far, solve anew."""
    rows = _joined(model.rows, X, codes, weights, model.n_rows_seen)
    data = LevelRows(rows, model.n_rows_seen + len(X), model.kernel, n_levels)
    if set(np.unique(rows.codes)) != set(np.unique(model.rows.codes)):
        return solve_path(data, model.cost)
    try:
        path = _path_of(model)
        path.add_inputs(rows.inputs[len(path.f) :])
        _add_observations(path, data, len(path.rows))
        old = path.rows >= 0
        caps = model.cost * np.repeat(rows.counts[:, None], 2, axis=1)
        path.raise_caps(path.rows[old], caps[old])
        path.settle()
    except PathFailure:
        return solve_path(data, model.cost)
    return _model(data, model.cost, path)


def remove_rows(
    model: PathModel, X: FloatArray, codes: IntArray, weights: FloatArray, n_levels: int
) -> PathModel:
    """Follow the solution as rows leave; where a level loses its last row, solve anew."""
    counts = _left(model.rows, X, codes, weights)
    kept = counts > 0
    rows = model.rows
    data = LevelRows(
        NumberedRows(
            rows.inputs, rows.latent[kept], rows.codes[kept], counts[kept], rows.first_row
        ),
        model.n_rows_seen,
        model.kernel,
        n_levels,
    )
    if len(data.observed) < len(np.unique(rows.codes)):
        return solve_path(_without_orphans(data), model.cost)
    check_cost(model.cost, data.rows.codes, data.rows.counts)
    try:
        path = _path_of(model)
        for at in np.flatnonzero(counts < rows.counts):
            for row in path.rows[at][path.rows[at] >= 0].tolist():
                path.lower_cap(row, model.cost * float(counts[at]))
        path.settle()
    except PathFailure:
        return solve_path(_without_orphans(data), model.cost)
    path.rows = path.rows[kept]
    found = _model(data, model.cost, path)
    if len(data.rows.inputs) > 2 * len(np.unique(data.rows.latent)):
        # The next change begins with a smaller path, from the multipliers.
        return replace(found, rows=_without_orphans(data).rows, path=None)
    return found


# ----------------------------------------------------------------------------- rows


def check_cost(cost: float, codes: IntArray, counts: FloatArray) -> None:
    """Raise where the cost of a level does not bound the margins beside it."""
    total = np.bincount(codes, counts)
    rarest = float(np.min(total[total > 0]))
    if len(np.unique(codes)) > 1 and cost * rarest < _ENOUGH:
        raise ValueError(
            f"C must be at least {1 / rarest:.3g} for sums of margins, as the rarest level counts "
            f"{rarest:g} rows, but C is {cost:g}. With less, wider margins always pay."
        )


def warn_without_margin(margins: FloatArray, f: FloatArray, cost: float) -> None:
    """Warn where thresholds have no margin, so that rows lie on them."""
    if len(margins) and not f.any():
        warn_user(
            f"No threshold has a margin, with C={cost:g}: the latent function is zero, and every "
            "row gets the median level. Lower C.",
            UserWarning,
        )
        return
    none = int(np.sum(margins <= _NO_MARGIN * np.abs(f).max(initial=0.0)))
    if none:
        warn_user(
            f"{none} of {len(margins)} thresholds have no margin, with C={cost:g}: rows that lie "
            "on them may get either level. Lower C.",
            UserWarning,
        )


def _keys(inputs: FloatArray) -> Iterable[Any]:
    """Hashable forms of inputs; equal inputs have equal ones, gaps equal none."""
    for row in inputs + 0.0:  # -0.0 is 0.0
        yield object() if np.isnan(row).any() else row.tobytes()


def _joined(
    old: NumberedRows, X: FloatArray, codes: IntArray, weights: FloatArray, seen: int
) -> NumberedRows:
    """``old`` with more rows behind its own; equal rows are merged."""
    place = {key: i for i, key in enumerate(_keys(old.inputs))}
    known = {pair: i for i, pair in enumerate(zip(old.latent, old.codes, strict=True))}
    counts, first = list(old.counts), list(old.first_row)
    inputs: list[FloatArray] = []
    for number, (key, code, weight) in enumerate(zip(_keys(X), codes, weights, strict=True)):
        if weight <= 0:
            continue
        if key not in place:
            place[key] = len(place)
            inputs.append(X[number])
            first.append(seen + number)
        pair = place[key], code
        if pair in known:
            counts[known[pair]] += weight
        else:
            known[pair] = len(counts)
            counts.append(weight)
    latent, levels = (np.array(each, dtype=np.intp) for each in zip(*known, strict=True))
    stacked = np.vstack([old.inputs, *inputs])
    return NumberedRows(stacked, latent, levels, np.array(counts), np.array(first, dtype=np.intp))


def _left(rows: NumberedRows, X: FloatArray, codes: IntArray, weights: FloatArray) -> FloatArray:
    """Counts of observations without some rows."""
    names = list(_keys(rows.inputs))
    known = {
        (names[i], code): at
        for at, (i, code) in enumerate(zip(rows.latent, rows.codes, strict=True))
    }
    counts = rows.counts.copy()
    for number, (key, code, weight) in enumerate(zip(_keys(X), codes, weights, strict=True)):
        at = known.get((key, code), -1)
        if at < 0 or counts[at] - weight < -1e-9 * weight:
            have = f"only {rows.counts[at]:g} times" if at >= 0 else "not"
            raise ValueError(
                f"row {number} of X with its level is {have} among the training rows, but must be "
                "to be removed. Give rows as fit or partial_fit was given them."
            )
        counts[at] -= weight
    counts[counts < 1e-9 * rows.counts] = 0.0
    if not counts.any():
        raise ValueError(
            "no row would be left, but a model needs one. Keep a row, or fit another model."
        )
    return counts


def _without_orphans(data: LevelRows) -> LevelRows:
    """The same without inputs that no observation is of."""
    rows = data.rows.take(np.arange(len(data.rows.codes)))
    return LevelRows(rows, data.n_rows_seen, data.kernel, data.n_levels)


# ----------------------------------------------------------------------------- paths


def _unsolved(data: LevelRows, cost: float, nugget: float = 0.0) -> MultiplierPath:
    """A path whose rows have their bounds but no multipliers."""
    path = MultiplierPath(data.kernel, len(data.observed) - 1, data.rows.inputs, nugget)
    _add_observations(path, data, 0)
    some = path.rows >= 0
    path.raise_caps(path.rows[some], cost * np.repeat(data.rows.counts[:, None], 2, axis=1)[some])
    return path


def _add_observations(path: MultiplierPath, data: LevelRows, first: int) -> None:
    """Append the rows of the extended set of some observations."""
    codes, latent = data.codes[first:], data.rows.latent[first:]
    rows = np.full((len(codes), 2), -1, dtype=np.intp)
    for column, (some, sign) in enumerate([(codes > 0, 1.0), (codes < path.n_cuts, -1.0)]):
        cuts = codes[some] - (1 - column)
        rows[some, column] = path.add_rows(latent[some], cuts, np.full(len(cuts), sign))
    path.rows = np.vstack([path.rows, rows])


def _path_of(model: PathModel) -> MultiplierPath:
    """A path of its own that starts at a model, of a file too."""
    if model.path is not None and model.path.columns.n_inputs == len(model.path.f):
        return model.path.copy()
    n_levels = len(model.thresholds) + 1
    data = LevelRows(model.rows, model.n_rows_seen, model.kernel, n_levels)
    path = _unsolved(data, model.cost)
    some = path.rows >= 0
    path.alpha[path.rows[some]] = np.minimum(model.multipliers[some], path.cap[path.rows[some]])
    path.alpha[: path.n_cuts] = model.excess
    path.resume(model.edges)
    return path


def _violation(path: MultiplierPath) -> float:
    """Largest violation of a condition, in units of the latent function; infinite if unsolved."""
    off = np.abs(path.violation()).max(initial=0.0)
    off = float(max(off, path.scale * path.infeasible()))
    return off if np.isfinite(off) else float(np.finfo(float).max)


def _model(data: LevelRows, cost: float, path: MultiplierPath) -> PathModel:
    rows = data.rows
    off = _violation(path)
    converged = off <= path.nearly(_CONVERGED)
    if not converged:
        warn_user(
            f"The path ends with a violation of {off:.1e} of its conditions, with C={cost:g}. "
            'Raise C or lower it, or use algorithm="working_set".',
            ConvergenceWarning,
        )
    some = path.rows >= 0
    multipliers = np.zeros((len(rows.codes), 2))
    multipliers[some] = np.maximum(path.alpha[path.rows[some]], 0.0)
    signed = multipliers[:, 0] - multipliers[:, 1]
    coefficients = np.bincount(rows.latent, signed, len(rows.inputs)).astype(float)
    cuts = path.cuts()
    if path.n_cuts and np.abs(path.f).max() <= _NO_FUNCTION * max(1.0, cost) * path.scale:
        coefficients[:] = 0.0
        cuts = nothing_cuts(data.codes, rows.counts)
    used = coefficients != 0
    used[0] |= not used.any()
    support = np.unique(rows.first_row[rows.latent[multipliers.any(axis=1)]])
    return PathModel(
        data.kernel,
        rows.inputs[used],
        coefficients[used],
        data.thresholds(cuts),
        support,
        off,
        converged,
        path.n_events,
        rows,
        data.n_rows_seen,
        cost,
        multipliers,
        np.maximum(path.alpha[: path.n_cuts], 0.0),
        path.tau.copy(),
        path,
    )
