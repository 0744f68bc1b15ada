"""Kernels of linear combinations of features."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ordinalgp._typing import FloatArray
from ordinalgp.kernels._around import AroundKernel

_SHOWN = 16  # entries of a matrix that is shown in full


class Projected(AroundKernel):
    r"""Kernel of linear combinations of features, ``k(x, x') = kernel(x P, x' P)``.

    The matrix P is given and is not searched for. Its columns are the directions of the feature
    space that matter. Principal components or a Mahalanobis distance are examples. The length
    scales of the inner kernel belong to the combinations.

    Parameters
    ----------
    kernel : kernel
        The kernel of the combinations.
    projection : array of shape (n_features, n_combinations)
        The matrix P.

    Examples
    --------
    A function of the sum of two features:

    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from ordinalgp.kernels import Projected
    >>> kernel = Projected(RBF(1.0), [[1.0], [1.0]])
    >>> kernel
    Projected(RBF(length_scale=1), projection=[[1.0], [1.0]])
    >>> kernel([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]).round(3)
    array([[1.   , 1.   , 0.607],
           [1.   , 1.   , 0.607],
           [0.607, 0.607, 1.   ]])
    """

    _fixed = "projection"

    def __init__(self, kernel: Any, projection: ArrayLike) -> None:
        self.kernel = kernel
        self.projection = projection

    def combinations(self, X: ArrayLike) -> FloatArray:
        """Return the linear combinations of features that the inner kernel compares.

        Parameters
        ----------
        X : array of shape (n, n_features)
            Rows.

        Returns
        -------
        combinations : array of shape (n, n_combinations)
        """
        rows = np.atleast_2d(np.asarray(X, dtype=float))
        P = np.asarray(self.projection, dtype=float)
        if P.ndim != 2 or not np.isfinite(P).all():
            raise ValueError(
                "projection must be a matrix of finite numbers, of shape (n_features, "
                f"n_combinations), but is {self.projection!r:.80}."
            )
        if rows.shape[1] != len(P):
            raise ValueError(
                f"projection has {len(P)} rows, but X has {rows.shape[1]} features. Give one row "
                "per feature."
            )
        # Row by row alike: products of matrices round rows by their number and place.
        return np.asarray(np.einsum("il,lk->ik", rows, P))

    def _compare(self, X: FloatArray, Y: ArrayLike | None, eval_gradient: bool) -> Any:
        right = None if Y is None else self.combinations(Y)
        return self.kernel(self.combinations(X), right, eval_gradient)

    def diag(self, X: ArrayLike) -> FloatArray:
        """Return the diagonal of ``k(X, X)``, of shape (n,).

        Parameters
        ----------
        X : array of shape (n, n_features)
            The argument of the kernel.
        """
        return np.asarray(self.kernel.diag(self.combinations(X)))

    def __repr__(self) -> str:
        P = np.asarray(self.projection)
        shown = P.tolist() if P.size <= _SHOWN else f"matrix of shape {P.shape}"
        return f"Projected({self.kernel}, projection={shown})"
