"""The approximation that three parameters ask for."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import _num_samples

from ordinalgp._typing import FloatArray
from ordinalgp.many_rows.dask_rows import is_dask
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.validation.options import check_option, check_whole

Name = Literal["exact", "inducing", "neighbours", "choice"]
_WORDS = ("auto", "exact", "inducing", "neighbours")


@dataclass(frozen=True, eq=False)
class Approximation:
    """The approximation of a fit, or a choice between two."""

    name: Name
    points: int | FloatArray
    """number of inducing points, or the points"""
    fewer: bool
    """whether fewer points may do"""
    neighbours: int

    @classmethod
    def requested(
        cls, approximation: Any, inducing: Any, neighbours: Any, X: Any, settings: ManyRowsSettings
    ) -> "Approximation":
        """The approximation asked for, with rows ``X``; the parameters have been checked."""
        words = asked(approximation, inducing, neighbours)
        chunks = callable(X) or is_dask(X)
        if "exact" in words and chunks:
            what = "a dask array" if is_dask(X) else "a factory of chunks"
            raise ValueError(
                "The exact model was asked for, which needs all rows at once, but X is "
                f"{what}. Use approximation='auto'."
            )
        name: Any = next(iter(words), "inducing" if chunks else "choice")
        if name == "choice" and _num_samples(X) <= settings.exact_rows:
            name = "exact"
        fewer = isinstance(inducing, str) or inducing is None
        points: Any = settings.auto_points if fewer else _points(inducing)
        near = settings.auto_neighbours if isinstance(neighbours, str) else int(neighbours)
        return cls(name, points, fewer, near)


def asked(approximation: Any, inducing: Any, neighbours: Any) -> set[str]:
    """The approximations that the parameters name: one, or none for a choice by the rows."""
    words = {approximation} - {"auto"}
    if inducing is None:
        words.add("exact")
    elif not isinstance(inducing, str):
        words.add("inducing")
    if not isinstance(neighbours, str):
        words.add("neighbours")
    return words


def check_approximation(approximation: Any, inducing: Any, neighbours: Any) -> None:
    """Raise unless the parameters are right and name no more than one approximation."""
    check_option("approximation", approximation, _WORDS)
    if isinstance(inducing, str):
        check_option("inducing", inducing, ("auto",))
    elif inducing is not None and np.ndim(inducing) == 0:
        check_whole("inducing", inducing, least=1)
    if isinstance(neighbours, str):
        check_option("neighbours", neighbours, ("auto",))
    else:
        check_whole("neighbours", neighbours, least=1)
    if len(asked(approximation, inducing, neighbours)) > 1:
        given = "points" if np.ndim(inducing) else repr(inducing)
        raise ValueError(
            f"approximation={approximation!r}, inducing={given} and neighbours={neighbours!r} "
            "name different approximations. Set only one of them, and leave the others 'auto'."
        )


def _points(inducing: Any) -> int | FloatArray:
    """A number, or finite points without repetitions."""
    if np.ndim(inducing) == 0:
        return int(inducing)
    Z = np.asarray(inducing, dtype=float)
    if Z.ndim != 2 or len(Z) == 0 or not np.all(np.isfinite(Z)):
        raise ValueError(
            f"inducing must be a finite array of shape (m, n_features), but has shape "
            f"{Z.shape} or holds NaN or infinity."
        )
    return np.unique(Z, axis=0)
