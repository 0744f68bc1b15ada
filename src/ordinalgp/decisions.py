"""From probabilities of ordered levels to one level, or to a run of levels."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ordinalgp._typing import FloatArray, IntArray


def decide(
    probabilities: ArrayLike, rule: Any = "mode", frequencies: ArrayLike | None = None
) -> IntArray:
    """Choose the level of least expected loss in each row of ``probabilities``.

    Parameters
    ----------
    probabilities : array-like of shape (n, r)
        Probability of each level, columns from lowest to highest. With no rows, only ``rule``
        is checked.
    rule : {"mode", "median", "balanced", "mean"} or array-like of shape (r, r), default="mode"
        The loss that the choice makes small:

        - "mode": zero-one loss, so the most probable level
        - "median": absolute difference of ranks, so the first level that is reached with
          probability one half
        - "balanced": absolute difference of ranks, averaged over levels, so that rare levels
          count as much as common ones; the median of p_i / frequency_i, renormalised
        - "mean": squared difference of ranks, so the level nearest to the expected rank
        - a matrix: ``cost[i, j]`` is the cost of choosing level j when level i is true

    frequencies : array-like of shape (r,), default=None
        Frequencies of the levels, or counts, which "balanced" needs. A level of frequency zero
        has no part in the average over levels.

    Returns
    -------
    ndarray of shape (n,)
        Codes 0..r-1; of equally good levels the lowest.

    Examples
    --------
    >>> from ordinalgp.decisions import decide
    >>> probabilities = [[0.4, 0.25, 0.35, 0.0], [0.0, 0.4, 0.15, 0.45]]
    >>> decide(probabilities)
    array([0, 3])
    >>> decide(probabilities, "median")
    array([1, 2])

    Where four of five rows have the lowest level:

    >>> decide(probabilities, "balanced", frequencies=[16, 2, 1, 1])
    array([2, 3])

    When it is ten times worse to choose too high a level than too low a one:

    >>> import numpy as np
    >>> true, chosen = np.indices((4, 4))
    >>> decide(probabilities, np.where(chosen > true, 10, 1) * abs(chosen - true))
    array([0, 1])
    """
    table = _check_probabilities(probabilities)
    if not isinstance(rule, str):
        return (table @ _check_costs(rule, table.shape[1])).argmin(axis=1)
    if rule not in RULES:
        raise _bad_rule(rule)
    return _RULES[rule](_balanced(table, frequencies) if rule == "balanced" else table)


_RULES: dict[str, Callable[[FloatArray], IntArray]] = {
    "mode": lambda table: table.argmax(axis=1),
    "median": lambda table: (table.cumsum(axis=1) >= 0.5).argmax(axis=1),
    "balanced": lambda table: _RULES["median"](table),
    # The nearest level to the expected rank; ceil(x - 1/2) rounds halves down.
    "mean": lambda table: np.ceil(table @ np.arange(table.shape[1]) - 0.5).astype(np.intp),
}
RULES = tuple(_RULES)
"""words for decision rules"""


def _balanced(table: FloatArray, frequencies: ArrayLike | None) -> FloatArray:
    """Probabilities if all levels were equally frequent: p_i / pi_i, renormalised.

    The absolute error averaged over the levels is sum_i E[|i - decision| ; y = i] / (r pi_i), so
    that each row's decision minimises sum_i (p_i / pi_i) |i - decision|.
    """
    shares = _check_frequencies(frequencies, table.shape[1])
    weights = np.divide(1.0, shares, out=np.zeros_like(shares), where=shares > 0)
    balanced = table * weights
    # A row that has probability only where no frequency is stays as it is.
    return _renormalised(np.where(balanced.any(axis=1, keepdims=True), balanced, table))


def _check_frequencies(frequencies: ArrayLike | None, n_levels: int) -> FloatArray:
    """Frequencies of the levels, summing to one."""
    if frequencies is None:
        raise ValueError(
            "The decision rule 'balanced' needs the frequencies of the levels, but none were "
            "given. Pass frequencies, for example the number of training rows of each level."
        )
    counts = np.asarray(frequencies, dtype=np.float64)
    proper = counts.shape == (n_levels,) and np.isfinite(counts).all() and (counts >= 0).all()
    if not proper or not counts.any():
        raise ValueError(
            f"frequencies must be {n_levels} non-negative numbers, one per level and not all "
            f"zero, but {counts.tolist()} was given."
        )
    return counts / counts.sum()


def interval_scores(probabilities: ArrayLike, frequencies: ArrayLike | None = None) -> FloatArray:
    """Probability that a growing run of levels has before each level joins it.

    The run begins with the most probable level and grows by the more probable of its two
    neighbours. Of equally probable levels the lower one joins first.

    Parameters
    ----------
    probabilities : array-like of shape (n, r)
        Probability of each level, columns from lowest to highest.
    frequencies : array-like of shape (r,), default=None
        Frequencies of the levels, or counts. Levels of frequency zero never join: the others are
        neighbours across them, and their probabilities are scaled up to sum to one.

    Returns
    -------
    ndarray of shape (n, r)
        Zero for the most probable level, and rising with the distance from it; infinite for
        levels that never join. Levels whose score is at most a threshold are a run.

    Examples
    --------
    >>> from ordinalgp.decisions import interval_scores
    >>> interval_scores([[0.05, 0.2, 0.5, 0.25]]).round(2)
    array([[0.95, 0.75, 0.  , 0.5 ]])
    """
    table = _check_probabilities(probabilities)
    scores = np.full(table.shape, np.inf)
    shares = np.ones(table.shape[1])
    if frequencies is not None:
        shares = _check_frequencies(frequencies, table.shape[1])
    scores[:, shares > 0] = _mass_before(_renormalised(table[:, shares > 0]))
    return scores


def _mass_before(table: FloatArray) -> FloatArray:
    """Scores of all levels, one joining level of every row at a time."""
    n, r = table.shape
    rows, scores = np.arange(n), np.zeros((n, r))
    # A column of -1 beyond each end: levels that never join.
    padded = np.full((n, r + 2), -1.0)
    padded[:, 1:-1] = table
    low = high = table.argmax(axis=1)
    mass = table[rows, low]
    for _ in range(r - 1):
        below, above = padded[rows, low], padded[rows, high + 2]
        down = below >= above
        low, high = low - down, high + ~down
        scores[rows, np.where(down, low, high)] = mass
        mass = mass + np.where(down, below, above)
    return scores


def interval_threshold(
    scores: ArrayLike, coverage: float, sample_weight: ArrayLike | None = None
) -> float:
    """Threshold on :func:`interval_scores` under which intervals have a coverage.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Scores of the true levels of some rows, predicted by models that had not seen them.
    coverage : float
        Share of new rows whose interval should have their level in it.
    sample_weight : array-like of shape (n,), default=None
        Number of times that each row counts.

    Returns
    -------
    float
        The ceil((n + 1) coverage)-th smallest score; infinite where there are fewer scores.

    Examples
    --------
    >>> from ordinalgp.decisions import interval_threshold
    >>> interval_threshold([0.0, 0.7, 0.2, 0.0, 0.9, 0.4, 0.0], coverage=0.75)
    0.7
    """
    order = np.argsort(scores, kind="stable")
    weights = np.ones(len(order)) if sample_weight is None else np.asarray(sample_weight)[order]
    up_to = weights.cumsum()
    total = up_to[-1] if len(up_to) else 0.0
    # 20 * 0.9 is 18.000000000000004 in floating point, and must remain 18.
    wanted = np.ceil((total + 1.0) * coverage * (1.0 - 1e-12))
    place = int(np.searchsorted(up_to, wanted))
    return float(np.asarray(scores)[order[place]]) if place < len(order) else np.inf


def intervals(
    probabilities: ArrayLike, threshold: float, frequencies: ArrayLike | None = None
) -> tuple[IntArray, IntArray]:
    """Runs of the levels whose :func:`interval_scores` are at most a threshold.

    Parameters
    ----------
    probabilities : array-like of shape (n, r)
        Probability of each level, columns from lowest to highest.
    threshold : float
        Largest score; infinity takes all levels.
    frequencies : array-like of shape (r,), default=None
        As in :func:`interval_scores`.

    Returns
    -------
    lower, upper : ndarrays of shape (n,)
        Codes 0..r-1 of the lowest and the highest level of each run.

    Examples
    --------
    >>> from ordinalgp.decisions import intervals
    >>> intervals([[0.05, 0.2, 0.5, 0.25]], 0.6)
    (array([2]), array([3]))
    """
    inside = interval_scores(probabilities, frequencies) <= threshold
    return inside.argmax(axis=1), inside.shape[1] - 1 - inside[:, ::-1].argmax(axis=1)


def _renormalised(table: FloatArray) -> FloatArray:
    """Rows scaled to sum to one; rows of zeros become uniform."""
    total = table.sum(axis=1, keepdims=True)
    return np.divide(table, total, out=np.full_like(table, 1 / table.shape[1]), where=total > 0)


def _check_probabilities(probabilities: ArrayLike) -> FloatArray:
    table = np.asarray(probabilities, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] == 0:
        raise ValueError(
            "probabilities must have one row per case and one column per level, "
            f"but has shape {table.shape}. Reshape a single row with [row]."
        )
    bad = np.flatnonzero(~(np.abs(table.sum(axis=1) - 1) < 1e-5) | (table < 0).any(axis=1))
    if len(bad):
        raise ValueError(
            "Each row of probabilities must be non-negative and sum to one, "
            f"but row {bad[0]} is {table[bad[0]].tolist()}."
        )
    return table


def _check_costs(rule: Any, n_levels: int) -> FloatArray:
    try:
        costs = np.asarray(rule, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise _bad_rule(rule) from error
    if costs.ndim == 0:
        raise _bad_rule(rule)
    if costs.shape != (n_levels, n_levels):
        raise ValueError(
            f"A cost matrix for {n_levels} levels must have shape ({n_levels}, {n_levels}), "
            f"but has shape {costs.shape}. Give cost[true, chosen] for every pair of levels."
        )
    if not np.isfinite(costs).all():
        row, column = np.argwhere(~np.isfinite(costs))[0]
        raise ValueError(
            f"Costs must be finite, but cost[{row}, {column}] is {costs[row, column]}. "
            "Use a large number for a choice that must not be made."
        )
    return costs


def _bad_rule(rule: Any) -> ValueError:
    return ValueError(
        f"The decision rule must be one of {', '.join(map(repr, RULES))} or a matrix of costs, "
        f"but {rule!r} was given."
    )
