"""From probabilities of ordered levels to one level."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ordinalgp._typing import FloatArray, IntArray


def decide(probabilities: ArrayLike, rule: Any = "mode") -> IntArray:
    """Choose the level of least expected loss in each row of ``probabilities``.

    Parameters
    ----------
    probabilities : array-like of shape (n, r)
        Probability of each level, columns from lowest to highest. With no rows, only ``rule``
        is checked.
    rule : {"mode", "median", "mean"} or array-like of shape (r, r), default="mode"
        The loss that the choice makes small:

        - "mode": zero-one loss, so the most probable level
        - "median": absolute difference of ranks, so the first level that is reached with
          probability one half
        - "mean": squared difference of ranks, so the level nearest to the expected rank
        - a matrix: ``cost[i, j]`` is the cost of choosing level j when level i is true

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

    When it is ten times worse to choose too high a level than too low a one:

    >>> import numpy as np
    >>> true, chosen = np.indices((4, 4))
    >>> decide(probabilities, np.where(chosen > true, 10, 1) * abs(chosen - true))
    array([0, 1])
    """
    table = _check_probabilities(probabilities)
    if not isinstance(rule, str):
        return (table @ _check_costs(rule, table.shape[1])).argmin(axis=1)
    if rule not in _RULES:
        raise _bad_rule(rule)
    return _RULES[rule](table)


_RULES: dict[str, Callable[[FloatArray], IntArray]] = {
    "mode": lambda table: table.argmax(axis=1),
    "median": lambda table: (table.cumsum(axis=1) >= 0.5).argmax(axis=1),
    # The nearest level to the expected rank; ceil(x - 1/2) rounds halves down.
    "mean": lambda table: np.ceil(table @ np.arange(table.shape[1]) - 0.5).astype(np.intp),
}


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
        f"The decision rule must be one of {', '.join(map(repr, _RULES))} or a matrix of costs, "
        f"but {rule!r} was given."
    )
