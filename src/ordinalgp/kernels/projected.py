"""Kernels of linear combinations of features."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process import kernels as sk

from ordinalgp._typing import FloatArray

_SHOWN = 16  # entries of a matrix that is shown in full


class Projected(sk.Kernel):
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

    def __init__(self, kernel: Any, projection: ArrayLike) -> None:
        self.kernel = kernel
        self.projection = projection

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, with those of the inner kernel as ``kernel__name``.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the inner kernel's parameters.

        Returns
        -------
        params : dict
        """
        found = {"kernel": self.kernel, "projection": self.projection}
        if deep:
            found |= {f"kernel__{name}": value for name, value in self.kernel.get_params().items()}
        return found

    @property
    def hyperparameters(self) -> list[sk.Hyperparameter]:
        """The inner kernel's, which optimisers read."""
        return [
            sk.Hyperparameter(f"kernel__{h.name}", h.value_type, h.bounds, h.n_elements)
            for h in self.kernel.hyperparameters
        ]

    @property
    def theta(self) -> FloatArray:
        """Logarithms of the free hyperparameters of the inner kernel."""
        return np.asarray(self.kernel.theta)

    @theta.setter
    def theta(self, theta: FloatArray) -> None:
        self.kernel.theta = theta

    @property
    def bounds(self) -> FloatArray:
        """Bounds of ``theta``, of shape (n_dims, 2)."""
        return np.asarray(self.kernel.bounds)

    @property
    def requires_vector_input(self) -> bool:
        """Whether rows must be vectors: they must."""
        return True

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

    def __call__(
        self, X: ArrayLike, Y: ArrayLike | None = None, eval_gradient: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return ``k(X, Y)``, and its gradient in ``theta`` if asked.

        Parameters
        ----------
        X : array of shape (n, n_features)
            The left argument.
        Y : array of shape (m, n_features), default=None
            The right argument; None means ``X``.
        eval_gradient : bool, default=False
            Whether to return the gradient too; only without ``Y``.

        Returns
        -------
        K : array of shape (n, m)
        K_gradient : array of shape (n, n, n_dims)
            Only with ``eval_gradient=True``.
        """
        if eval_gradient and Y is not None:
            raise ValueError(
                "eval_gradient=True was given together with Y, but the gradient is defined for "
                "k(X, X) only. Leave out Y or set eval_gradient=False."
            )
        right = None if Y is None else self.combinations(Y)
        found: FloatArray = self.kernel(self.combinations(X), right, eval_gradient)
        return found

    def diag(self, X: ArrayLike) -> FloatArray:
        """Return the diagonal of ``k(X, X)``, of shape (n,).

        Parameters
        ----------
        X : array of shape (n, n_features)
            The argument of the kernel.
        """
        return np.asarray(self.kernel.diag(self.combinations(X)))

    def is_stationary(self) -> bool:
        """Whether the kernel depends on differences only."""
        return bool(self.kernel.is_stationary())

    def __eq__(self, other: object) -> bool:
        """Whether the other kernel has the same projection and an equal inner kernel."""
        if type(other) is not Projected:
            return False
        return bool(
            self.kernel == other.kernel and np.array_equal(self.projection, other.projection)
        )

    __hash__ = None  # type: ignore[assignment]  # as that of every kernel

    def __repr__(self) -> str:
        P = np.asarray(self.projection)
        shown = P.tolist() if P.size <= _SHOWN else f"matrix of shape {P.shape}"
        return f"Projected({self.kernel}, projection={shown})"
