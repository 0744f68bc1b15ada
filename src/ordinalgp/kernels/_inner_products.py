"""Inner products of explicit features: linear functions, and correlation."""

from abc import abstractmethod
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from ordinalgp._typing import FloatArray
from ordinalgp.kernels._common import Bounds, refuse_gradient


class _InnerProduct(Kernel):
    """A kernel ``k(x, x') = z(x) z(x')`` that is the inner product of explicit features ``z``."""

    @abstractmethod
    def _features(self, X: FloatArray) -> FloatArray:
        """Return ``z(X)``, one row of features for each row of ``X``."""

    @abstractmethod
    def _gradient(self, K: FloatArray, Z: FloatArray) -> FloatArray:
        """Return dK / dtheta, of shape (n, n, n_dims), from ``K = Z Z'``."""

    def _z(self, X: ArrayLike) -> FloatArray:
        return self._features(np.atleast_2d(np.asarray(X, dtype=float)))

    @overload
    def __call__(
        self, X: ArrayLike, Y: ArrayLike | None = ..., eval_gradient: Literal[False] = ...
    ) -> FloatArray: ...
    @overload
    def __call__(
        self, X: ArrayLike, Y: None = ..., *, eval_gradient: Literal[True]
    ) -> tuple[FloatArray, FloatArray]: ...
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
            Whether to return the gradient too. Beware of its size: training never asks for it.

        Returns
        -------
        K : array of shape (n, m)
        K_gradient : array of shape (n, n, n_dims)
            Only with ``eval_gradient=True``.
        """
        Z = self._z(X)
        if Y is None:
            K = Z @ Z.T
            return (K, self._gradient(K, Z)) if eval_gradient else K
        refuse_gradient(eval_gradient)
        return Z @ self._z(Y).T

    def diag(self, X: ArrayLike) -> FloatArray:
        """Return the diagonal of ``k(X, X)``, of shape (n,).

        Parameters
        ----------
        X : array of shape (n, n_features)
            The argument of the kernel.
        """
        Z = self._z(X)
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
    relevance_bounds : pair of floats, array of shape (n_features, 2) or "fixed", \
            default=(1e-5, 1e5)
        Where the optimiser may look for the relevance; "fixed" keeps it as given.

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
    def hyperparameter_relevance(self) -> Hyperparameter:
        """The specification that optimisers read."""
        return Hyperparameter(
            "relevance", "numeric", self.relevance_bounds, int(np.size(self.relevance))
        )

    def _features(self, X: FloatArray) -> FloatArray:
        relevance = np.asarray(self.relevance, dtype=float)
        if relevance.size not in (1, X.shape[1]):
            raise ValueError(
                f"relevance has {relevance.size} values, but X has {X.shape[1]} features. "
                "Give one value per feature, or a single number for all of them."
            )
        return X * np.sqrt(relevance)

    def _gradient(self, K: FloatArray, Z: FloatArray) -> FloatArray:
        if self.hyperparameter_relevance.fixed:
            return np.empty((*K.shape, 0))
        return Z[:, np.newaxis] * Z if self.anisotropic else K[:, :, np.newaxis]

    def __repr__(self) -> str:
        values = [f"{value:.3g}" for value in np.ravel(self.relevance)]
        shown = f"[{', '.join(values)}]" if self.anisotropic else values[0]
        return f"{type(self).__name__}(relevance={shown})"


class Correlation(_InnerProduct):
    r"""Pearson correlation between rating rows with gaps.

    Rows are what is compared (movies, say) and columns are those who rated them; NaN marks a rating
    that was not given. Each row becomes z-scores, ``z = (x - mean) / std`` with the mean and the
    standard deviation over its own observed entries, and a gap gets the row's mean, so its z-score
    is 0 (section 6.3 of [Chu05]_). Then, with ``n_i`` the number of ratings in row i,

    .. math:: k(x_i, x_j) = \sum_u z_{iu} z_{ju} / \sqrt{n_i n_j}

    Equation (20) of the paper is the sum alone, whose diagonal is ``n_i``: a much-rated row would
    have a larger prior variance for no other reason than its number of ratings. Divided by
    :math:`\sqrt{n_i n_j}`, every row has unit variance and rows without gaps have their Pearson
    correlation. The matrix stays positive semi-definite: it is the Gram matrix of unit vectors.

    A row that is constant or has no ratings has no correlation with anything: its z-scores are 0,
    and so is its variance.

    Parameters
    ----------
    missing : {"mean"}, default="mean"
        How gaps are filled: with the mean of their row.

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

    def _features(self, X: FloatArray) -> FloatArray:
        """Z-scores divided by ``sqrt(n_i)``: centred rows of unit length, or of length 0."""
        if self.missing != "mean":
            raise ValueError(
                f"missing is {self.missing!r}, but only 'mean' is known. "
                "For another way to fill gaps, fill them in X beforehand."
            )
        seen = ~np.isnan(X)
        # Counting from the row's least value makes a constant row exactly 0, not rounding noise.
        low = np.min(X, axis=1, initial=np.inf, where=seen, keepdims=True)
        above = np.where(seen, X - np.where(np.isinf(low), 0.0, low), 0.0)
        mean = above.sum(axis=1, keepdims=True) / np.maximum(seen.sum(axis=1, keepdims=True), 1)
        centred = np.where(seen, above - mean, 0.0)
        length = np.linalg.norm(centred, axis=1, keepdims=True)
        return centred / np.where(length == 0.0, 1.0, length)

    def _gradient(self, K: FloatArray, Z: FloatArray) -> FloatArray:
        return np.empty((*K.shape, 0))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
