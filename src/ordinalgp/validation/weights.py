"""Sample weights."""

import numpy as np
from numpy.typing import ArrayLike

from ordinalgp._typing import FloatArray, IntArray

_MOST_COPIES = 2.0**53


def check_weights(
    sample_weight: ArrayLike | None, n: int, codes: IntArray | None = None
) -> FloatArray:
    """Return ``n`` finite, non-negative weights; None means ones, a number means that for all.

    With ``codes`` the rows of positive weight must still be of two classes.
    """
    if sample_weight is None:
        return np.ones(n)
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold numbers, but {error}.") from None
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must be a number or have shape ({n},), one weight for each row, "
            f"but has shape {weights.shape}."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise ValueError(
            f"sample_weight must be finite and not negative, but row {bad[0]} is "
            f"{weights[bad[0]]}. Use 0 to leave a row out."
        )
    if not weights.any():
        raise ValueError("sample_weight is zero for every row. Give some row a positive weight.")
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if total > _MOST_COPIES:
        raise ValueError(
            f"sample_weight counts copies of rows, but sums to {total:.2g}, and beyond "
            f"{_MOST_COPIES:.0e} one copy more or less is lost in rounding. Give smaller weights."
        )
    if codes is not None and len(np.unique(codes[weights > 0])) < 2:
        raise ValueError(
            "sample_weight leaves rows of one class only, but at least 2 classes are needed. "
            "Give a positive weight to a row of another class."
        )
    return weights
