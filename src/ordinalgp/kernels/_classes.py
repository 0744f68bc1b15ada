"""Kernels of the papers that scikit-learn lacks: functions of differences, and inner products."""

from abc import abstractmethod
from numbers import Integral
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels as sk

from ordinalgp._typing import FloatArray

Bounds = tuple[float, float] | ArrayLike | Literal["fixed"]
_Values = tuple[FloatArray, FloatArray | None]  # K and dK / dtheta, (n, m) and (n, m, p)
_FURTHEST = 1e140  # in length scales: sums of differences, and of squares, stay finite


def _check_one_per_feature(name: str, values: FloatArray, rows: FloatArray) -> None:
    """Refuse arrays of another length than the rows."""
    if values.size not in (1, rows.shape[1]):
        raise ValueError(
            f"{name} has {values.size} values, but X has {rows.shape[1]} features. "
            "Give one value per feature, or a single number for all of them."
        )


def _shown(values: float | ArrayLike) -> str:
    """One number, or a list of them, with three digits."""
    shown = [f"{value:.3g}" for value in np.ravel(values)]
    return f"[{', '.join(shown)}]" if len(shown) > 1 else shown[0]


class _RowKernel(sk.Kernel):
    """Base class: a kernel computed from rows that are prepared once."""

    @abstractmethod
    def _values(self, left: FloatArray, right: FloatArray, slope: bool) -> _Values:
        """Return the kernel, and its slope in theta where asked for; None: it has no theta."""

    def _rows(self, X: ArrayLike) -> FloatArray:
        """Return the rows of ``X`` as the kernel compares them."""
        return np.atleast_2d(np.asarray(X, dtype=float))

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
        if eval_gradient and Y is not None:
            raise ValueError(
                "eval_gradient=True was given together with Y, but the gradient is defined for "
                "k(X, X) only. Leave out Y or set eval_gradient=False."
            )
        left = self._rows(X)
        right = left if Y is None else self._rows(Y)
        K, slope = self._values(left, right, eval_gradient)
        if not eval_gradient:
            return K
        return K, np.empty((*K.shape, 0)) if slope is None else slope[:, :, : self.n_dims]


class _Differences(sk.StationaryKernelMixin, sk.NormalizedKernelMixin, _RowKernel):
    """A function of the differences between rows."""


class Independent(_Differences):
    r"""Kernel of independent values per distinct row: ``k(x, x') = 1`` if ``x = x'``, else 0.

    Use it for items without features, with the item's number as the only column. Added to another
    kernel, it models a deviation of each item that its features do not explain. Unlike noise
    (``WhiteKernel``), the value of a row is the same in training and in prediction.

    Examples
    --------
    >>> from ordinalgp.kernels import Independent
    >>> Independent()([[0.0], [1.0]], [[1.0], [2.0]])
    array([[0., 0.],
           [1., 0.]])
    """

    def __init__(self) -> None:
        pass  # scikit-learn reads the parameters, none here, from this signature

    def _values(self, left: FloatArray, right: FloatArray, slope: bool) -> _Values:
        same = np.ones((len(left), len(right)), dtype=bool)
        for a, b in zip(left.T, right.T, strict=True):
            same &= a[:, None] == b
        return same.astype(float), None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _LengthScales(_Differences):
    """Differences in units of length scales, one for all features or one per feature."""

    length_scale: float | ArrayLike
    length_scale_bounds: Bounds

    @property
    def anisotropic(self) -> bool:
        """Whether each feature has a length scale of its own."""
        return np.size(self.length_scale) > 1

    @property
    def hyperparameter_length_scale(self) -> sk.Hyperparameter:
        """The specification that optimisers read."""
        return sk.Hyperparameter(
            "length_scale", "numeric", self.length_scale_bounds, int(np.size(self.length_scale))
        )

    def _rows(self, X: ArrayLike) -> FloatArray:
        rows, scale = super()._rows(X), np.asarray(self.length_scale, dtype=float)
        _check_one_per_feature("length_scale", scale, rows)
        with np.errstate(over="ignore"):
            return np.clip(rows / scale, -_FURTHEST, _FURTHEST)


class Additive(_LengthScales):
    r"""Kernel of sums of functions of few features each: ``k = mean_g RBF(x_g, x'_g)``.

    Each group g of neighbouring features, by default a single feature, has a smooth function of
    its own; these are added. Examples are the positions of a molecule or the questions of a form.
    With many features and few rows this learns more than one function of all features. Add ``RBF``
    for interactions. Where all functions share one length scale, standardise the inputs.

    Parameters
    ----------
    length_scale : float or array of shape (n_features,), default=1.0
        The length scale of every function, or of each feature; about the square root of ``size`` is
        a good start.
    length_scale_bounds : pair of floats, array of pairs or "fixed", default=(1e-5, 1e5)
        Bounds of the search for it; "fixed" keeps it as given.
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
        self,
        length_scale: float | ArrayLike = 1.0,
        length_scale_bounds: Bounds = (1e-5, 1e5),
        size: int = 1,
    ) -> None:
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds
        self.size = size

    def groups(self, n_features: int) -> list[slice]:
        """Return the features of each function.

        Parameters
        ----------
        n_features : int
            The number of features.

        Returns
        -------
        groups : list of slices
            One range of neighbouring features per function.
        """
        if not isinstance(self.size, Integral) or self.size < 1:
            raise ValueError(f"size must be a whole number from 1 on, but is {self.size!r}.")
        if n_features % self.size:
            raise ValueError(
                f"size is {self.size}, but X has {n_features} features, which cannot be divided "
                "into groups of it. Give a size that divides their number, such as 1."
            )
        return [slice(i, i + self.size) for i in range(0, n_features, self.size)]

    def _values(self, left: FloatArray, right: FloatArray, slope: bool) -> _Values:
        groups = self.groups(left.shape[1])
        K = np.zeros((len(left), len(right)))
        slopes = np.zeros((*K.shape, int(np.size(self.length_scale)) if slope else 0))
        for g in groups:
            r2 = cdist(left[:, g], right[:, g], "sqeuclidean")
            part = np.exp(-0.5 * r2) / len(groups)
            K += part
            if not slope:
                continue
            if self.anisotropic:  # r ~ 1 / length_scale
                slopes[:, :, g] = part[:, :, None] * (left[:, None, g] - right[None, :, g]) ** 2
            else:
                slopes[:, :, 0] += part * r2
        return K, slopes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(length_scale={_shown(self.length_scale)}, size={self.size})"


class Exponential(_LengthScales):
    r"""Exponential kernel of absolute differences: ``k = exp(-sum_d |x_d - x'_d| / length_d)``.

    It is the product of one exponential kernel per feature. Functions have kinks. This suits
    steps, features with heavy tails, and features with few values, such as answers on a scale.
    Where all features share one length scale, standardise the inputs.

    Parameters
    ----------
    length_scale : float or array of shape (n_features,), default=1.0
        The sum of differences over which correlation falls to 1/e, or that of each feature; some
        multiple of the number of standardised features is a good start.
    length_scale_bounds : pair of floats, array of pairs or "fixed", default=(1e-5, 1e5)
        Bounds of the search for it; "fixed" keeps it as given.

    Examples
    --------
    >>> from ordinalgp.kernels import Exponential
    >>> Exponential(2.0)([[0.0, 0.0], [1.0, 1.0]]).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """

    def __init__(
        self,
        length_scale: float | ArrayLike = 1.0,
        length_scale_bounds: Bounds = (1e-5, 1e5),
    ) -> None:
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds

    def _values(self, left: FloatArray, right: FloatArray, slope: bool) -> _Values:
        distance = cdist(left, right, "cityblock")
        K = np.exp(-distance)
        if not slope:
            return K, None
        gaps = np.abs(left[:, None] - right) if self.anisotropic else distance[:, :, None]
        return K, K[:, :, None] * gaps

    def __repr__(self) -> str:
        return f"{type(self).__name__}(length_scale={_shown(self.length_scale)})"


class _InnerProduct(_RowKernel):
    """A kernel ``k(x, x') = z(x) z(x')``: the inner product of explicit features ``z``."""

    def diag(self, X: ArrayLike) -> FloatArray:
        """Return the diagonal of ``k(X, X)``, of shape (n,).

        Parameters
        ----------
        X : array of shape (n, n_features)
            The argument of the kernel.
        """
        Z = self._rows(X)
        return np.einsum("ij,ij->i", Z, Z)

    def is_stationary(self) -> bool:
        """Whether the kernel depends on differences only: it does not."""
        return False


class ARDLinear(_InnerProduct):
    r"""Linear kernel with one relevance per feature, ``k(x, x') = sum_d relevance_d x_d x'_d``.

    The automatic relevance determination (ARD) linear kernel of section 6.4 of [Chu05]_: a feature
    whose relevance goes to zero has left the model. There is no bias; add a ``ConstantKernel`` for
    one.

    Parameters
    ----------
    relevance : float or array of shape (n_features,), default=1.0
        The weight of each feature; a number is shared by all of them.
    relevance_bounds : pair of floats, array of pairs or "fixed", default=(1e-5, 1e5)
        Bounds of the search for the relevance; "fixed" keeps it as given.

    References
    ----------
    .. [Chu05] Chu, W. and Ghahramani, Z. (2005). Gaussian processes for ordinal regression.
       Journal of Machine Learning Research 6, 1019-1041.

    Examples
    --------
    >>> from ordinalgp.kernels import ARDLinear
    >>> kernel = ARDLinear(relevance=[1.0, 0.5])
    >>> kernel([[1.0, 2.0], [3.0, 4.0]])
    array([[ 3.,  7.],
           [ 7., 17.]])
    >>> 2.0 * kernel + 1.0
    1.41**2 * ARDLinear(relevance=[1, 0.5]) + 1**2
    """

    def __init__(
        self,
        relevance: float | ArrayLike = 1.0,
        relevance_bounds: Bounds = (1e-5, 1e5),
    ) -> None:
        self.relevance = relevance
        self.relevance_bounds = relevance_bounds

    @property
    def anisotropic(self) -> bool:
        """Whether each feature has a relevance of its own."""
        return np.size(self.relevance) > 1

    @property
    def hyperparameter_relevance(self) -> sk.Hyperparameter:
        """The specification that optimisers read."""
        return sk.Hyperparameter(
            "relevance", "numeric", self.relevance_bounds, int(np.size(self.relevance))
        )

    def _rows(self, X: ArrayLike) -> FloatArray:
        rows, relevance = super()._rows(X), np.asarray(self.relevance, dtype=float)
        _check_one_per_feature("relevance", relevance, rows)
        return rows * np.sqrt(relevance)

    def _values(self, left: FloatArray, right: FloatArray, slope: bool) -> _Values:
        K = left @ right.T
        if not slope or not self.anisotropic:
            return K, K[:, :, np.newaxis]
        return K, left[:, np.newaxis] * right

    def __repr__(self) -> str:
        return f"{type(self).__name__}(relevance={_shown(self.relevance)})"


class Correlation(_InnerProduct):
    r"""Pearson correlation between rows of ratings, some of them missing.

    Rows are items, such as movies, and columns are raters; NaN marks a missing rating. Each row
    becomes z-scores, ``z = (x - mean) / std``, with the mean and the standard deviation of its
    observed entries. A missing rating gets the row's mean, so its z-score is 0 (section 6.3 of
    [Chu05]_). Then, with ``n_i`` the number of ratings in row i,

    .. math:: k(x_i, x_j) = \sum_u z_{iu} z_{ju} / \sqrt{n_i n_j}

    Equation (20) of the paper is the sum alone, whose diagonal is ``n_i``: rows with more ratings
    would have a larger prior variance. After division by :math:`\sqrt{n_i n_j}`, every row has unit
    variance, and rows without missing ratings have their Pearson correlation. The matrix stays
    positive semi-definite: it is the Gram matrix of unit vectors.

    A row that is constant or has no ratings has no correlation with anything: its z-scores are 0,
    and so is its variance.

    Parameters
    ----------
    missing : {"mean"}, default="mean"
        Missing ratings are replaced by the mean of their row.

    References
    ----------
    .. [Chu05] Chu, W. and Ghahramani, Z. (2005). Gaussian processes for ordinal regression.
       Journal of Machine Learning Research 6, 1019-1041.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp.kernels import Correlation
    >>> ratings = np.array([[1.0, 2.0, 3.0], [5.0, 4.0, 3.0], [2.0, np.nan, 4.0]])
    >>> print(Correlation()(ratings).round(3) + 0.0)
    [[ 1. -1.  1.]
     [-1.  1. -1.]
     [ 1. -1.  1.]]
    """

    accepts_missing = True

    def __init__(self, missing: Literal["mean"] = "mean") -> None:
        self.missing = missing

    def _rows(self, X: ArrayLike) -> FloatArray:
        """Z-scores divided by ``sqrt(n_i)``: centred rows of unit length, or of length 0."""
        if self.missing != "mean":
            raise ValueError(
                f"missing is {self.missing!r}, but only 'mean' is known. "
                "For another way to fill gaps, fill them in X beforehand."
            )
        X = super()._rows(X)
        seen = ~np.isnan(X)
        # Counting from the row's least value makes a constant row exactly 0, not rounding noise.
        low = np.min(X, axis=1, initial=np.inf, where=seen, keepdims=True)
        above = np.where(seen, X - np.where(np.isinf(low), 0.0, low), 0.0)
        mean = above.sum(axis=1, keepdims=True) / np.maximum(seen.sum(axis=1, keepdims=True), 1)
        centred = np.where(seen, above - mean, 0.0)
        length = np.linalg.norm(centred, axis=1, keepdims=True)
        return centred / np.where(length == 0.0, 1.0, length)

    def _values(self, left: FloatArray, right: FloatArray, slope: bool) -> _Values:
        return left @ right.T, None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
