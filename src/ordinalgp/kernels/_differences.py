"""Functions of differences between rows: equal or not, sums over features, exponential decay."""

from abc import abstractmethod
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import (
    Hyperparameter,
    Kernel,
    NormalizedKernelMixin,
    StationaryKernelMixin,
)

from ordinalgp._typing import FloatArray
from ordinalgp.kernels._common import Bounds, refuse_gradient

_FURTHEST = 1e140  # in length scales: sums of differences, and of squares, stay finite


class _Differences(StationaryKernelMixin, NormalizedKernelMixin, Kernel):
    """A function of the differences between rows."""

    @abstractmethod
    def _values(self, left: FloatArray, right: FloatArray, slope: FloatArray | None) -> FloatArray:
        """Return the kernel; into ``slope``, zeros before, goes dK / dtheta where there is one."""

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
            Whether to return the gradient too.

        Returns
        -------
        K : array of shape (n, m)
        K_gradient : array of shape (n, n, n_dims)
            Only with ``eval_gradient=True``.
        """
        refuse_gradient(eval_gradient and Y is not None)
        left = self._rows(X)
        right = left if Y is None else self._rows(Y)
        if not eval_gradient:
            return self._values(left, right, None)
        slope = np.zeros((len(left), len(right)))
        K = self._values(left, right, slope)
        return K, slope[:, :, None][:, :, : self.n_dims]

    def _rows(self, X: ArrayLike) -> FloatArray:
        return np.atleast_2d(np.asarray(X, dtype=float))


class Independent(_Differences):
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

    def _values(self, left: FloatArray, right: FloatArray, slope: FloatArray | None) -> FloatArray:
        same = np.ones((len(left), len(right)), dtype=bool)
        for a, b in zip(left.T, right.T, strict=True):
            same &= a[:, None] == b
        return same.astype(float)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _OneLengthScale(_Differences):
    """Differences in units of one length scale, the only hyperparameter."""

    length_scale: float
    length_scale_bounds: Bounds

    @property
    def hyperparameter_length_scale(self) -> Hyperparameter:
        """The specification that optimisers read."""
        return Hyperparameter("length_scale", "numeric", self.length_scale_bounds)

    def _rows(self, X: ArrayLike) -> FloatArray:
        if np.ndim(self.length_scale):
            raise ValueError(
                f"length_scale must be one number, but has {np.size(self.length_scale)} values. "
                "For a length scale of each feature, scale the features beforehand."
            )
        with np.errstate(over="ignore"):
            return np.clip(super()._rows(X) / self.length_scale, -_FURTHEST, _FURTHEST)


class Additive(_OneLengthScale):
    r"""A sum of functions of one feature each, or of a few: ``k = mean_g RBF(x_g, x'_g)``.

    Each group g of neighbouring features has a smooth function of its own and they are added, as
    the places of a molecule, the questions of a form or the terms of a price often are. With many
    features and few observations this learns more than one function of all of them; add ``RBF``
    for what features do together. One length scale for all, so that inputs should be standardised.

    Parameters
    ----------
    length_scale : float, default=1.0
        The length scale of every function; about the square root of ``size`` is a good start.
    length_scale_bounds : pair of floats or "fixed", default=(1e-5, 1e5)
        Where the optimiser may look for it; "fixed" keeps it as given.
    size : int, default=1
        Number of neighbouring features in a group; it divides the number of features.

    Examples
    --------
    >>> from ordinalgp.kernels import Additive
    >>> Additive()([[0.0, 0.0], [0.0, 9.0]]).round(3)
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    def __init__(
        self, length_scale: float = 1.0, length_scale_bounds: Bounds = (1e-5, 1e5), size: int = 1
    ) -> None:
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds
        self.size = size

    def _values(self, left: FloatArray, right: FloatArray, slope: FloatArray | None) -> FloatArray:
        groups = range(0, left.shape[1], self.size)
        K = np.zeros((len(left), len(right)))
        for i in groups:
            r2 = cdist(left[:, i : i + self.size], right[:, i : i + self.size], "sqeuclidean")
            part = np.exp(-0.5 * r2) / len(groups)
            K += part
            if slope is not None:  # r ~ 1 / length_scale
                slope += part * r2
        return K

    def _rows(self, X: ArrayLike) -> FloatArray:
        rows = super()._rows(X)
        if not isinstance(self.size, Integral) or self.size < 1:
            raise ValueError(f"size must be a whole number from 1 on, but is {self.size!r}.")
        if rows.shape[1] % self.size:
            raise ValueError(
                f"size is {self.size}, but X has {rows.shape[1]} features, which cannot be divided "
                "into groups of it. Give a size that divides their number, such as 1."
            )
        return rows

    def __repr__(self) -> str:
        return f"{type(self).__name__}(length_scale={self.length_scale:.3g}, size={self.size})"


class Exponential(_OneLengthScale):
    r"""Exponential decay with the sum of differences: ``k = exp(-sum_d |x_d - x'_d| / length)``.

    The product of one exponential kernel for each feature. Functions have kinks instead of being
    smooth: the better choice for steps, for features with few values, such as answers on a scale,
    where each combination has something of its own, and for features with heavy tails. One length
    scale for all, so that inputs should be standardised.

    Parameters
    ----------
    length_scale : float, default=1.0
        The sum of differences over which correlation falls to 1/e; some multiple of the number of
        standardised features is a good start.
    length_scale_bounds : pair of floats or "fixed", default=(1e-5, 1e5)
        Where the optimiser may look for it; "fixed" keeps it as given.

    Examples
    --------
    >>> from ordinalgp.kernels import Exponential
    >>> Exponential(2.0)([[0.0, 0.0], [1.0, 1.0]]).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """

    def __init__(
        self, length_scale: float = 1.0, length_scale_bounds: Bounds = (1e-5, 1e5)
    ) -> None:
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds

    def _values(self, left: FloatArray, right: FloatArray, slope: FloatArray | None) -> FloatArray:
        K = cdist(left, right, "cityblock")
        if slope is not None:
            slope += K
        np.exp(np.negative(K, out=K), out=K)
        if slope is not None:
            slope *= K
        return K

    def __repr__(self) -> str:
        return f"{type(self).__name__}(length_scale={self.length_scale:.3g})"
