"""A value of its own for every distinct row."""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import Kernel, NormalizedKernelMixin, StationaryKernelMixin

from ordinalgp._typing import FloatArray
from ordinalgp.kernels._common import refuse_gradient


class Independent(StationaryKernelMixin, NormalizedKernelMixin, Kernel):
    r"""Every distinct row has a value of its own: ``k(x, x') = 1`` if ``x = x'``, else 0.

    For items without features, with numbers that tell them apart as the only column; and, added to
    another kernel, for what is particular to an item beyond its features. Unlike ``WhiteKernel``,
    which is new noise at each call, it remembers: the same row has the same value again.

    Examples
    --------
    >>> from ordinalgp.kernels import Independent
    >>> Independent()([[0.0], [1.0]], [[1.0], [2.0]])
    array([[0., 0.],
           [1., 0.]])
    """

    def __init__(self) -> None:
        pass  # scikit-learn reads the parameters, none here, from this signature

    def __call__(
        self, X: ArrayLike, Y: ArrayLike | None = None, eval_gradient: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return ``k(X, Y)``, and its gradient, which has no entries, if asked.

        Parameters
        ----------
        X : array of shape (n, n_features)
            The left argument.
        Y : array of shape (m, n_features), default=None
            The right argument; None means ``X``.
        eval_gradient : bool, default=False
            Whether to return the gradient too.

        Returns
        -------
        K : array of shape (n, m)
        K_gradient : array of shape (n, n, 0)
            Only with ``eval_gradient=True``.
        """
        refuse_gradient(eval_gradient and Y is not None)
        left = np.atleast_2d(np.asarray(X, dtype=float))
        right = left if Y is None else np.atleast_2d(np.asarray(Y, dtype=float))
        same = np.ones((len(left), len(right)), dtype=bool)
        for a, b in zip(left.T, right.T, strict=True):
            same &= a[:, None] == b
        K = same.astype(float)
        return (K, np.empty((*K.shape, 0))) if eval_gradient else K

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
