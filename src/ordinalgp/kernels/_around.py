"""Common parts of kernels around another kernel."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process import kernels as sk

from ordinalgp._typing import FloatArray


class AroundKernel(sk.Kernel):
    """Kernel with the hyperparameters of an inner one, and an array that is not searched for."""

    kernel: Any
    _fixed: ClassVar[str]
    """name of the array"""

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
        found = {"kernel": self.kernel, self._fixed: getattr(self, self._fixed)}
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
        return self._compare(np.atleast_2d(np.asarray(X, dtype=float)), Y, eval_gradient)

    @abstractmethod
    def _compare(self, X: FloatArray, Y: ArrayLike | None, eval_gradient: bool) -> Any:
        """The kernel of checked rows, and its gradient if asked."""

    def is_stationary(self) -> bool:
        """Whether the kernel depends on differences only."""
        return bool(self.kernel.is_stationary())

    def __eq__(self, other: object) -> bool:
        """Whether the other kernel is of this kind, with the same array and inner kernel."""
        if type(other) is not type(self):
            return False
        arrays = getattr(self, self._fixed), getattr(other, self._fixed)
        return bool(self.kernel == other.kernel and np.array_equal(*arrays))

    __hash__ = None  # type: ignore[assignment]  # as that of every kernel
