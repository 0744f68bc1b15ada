"""Kernel discriminant learning for ordinal regression: ``KernelDiscriminantOrdinal``."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.optimize import nnls

from ordinalgp._typing import FINITE, Axes, FloatArray
from ordinalgp.baselines.cuts import (
    CutClassifier,
    CutModel,
    LevelRows,
    kernel_expansion,
    median_cuts,
)
from ordinalgp.persistence import saved_as
from ordinalgp.runtime.warning import warn_user
from ordinalgp.validation.options import check_number

_ROUNDING_SHARE = 1e-14  # of the largest squared distance of neighbouring means


@saved_as("model.discriminant")
@dataclass(frozen=True, eq=False)
class DiscriminantModel(CutModel):
    """A discriminant direction, cut halfway between the means of neighbouring levels."""

    separation: Annotated[float, Axes("", *FINITE)]
    """distance of the closest two neighbouring means"""


@saved_as("estimator.discriminant")
class KernelDiscriminantOrdinal(CutClassifier):
    """Classifier for ordered levels by a discriminant direction (KDLOR).

    The direction keeps the means of neighbouring levels in order and as far apart as possible,
    relative to the variance within levels. Thresholds lie halfway between the means. It gives
    labels, no probabilities; a baseline of [Li18]_. See [Sun10]_.

    Parameters
    ----------
    kernel : scikit-learn kernel, default=None
        Similarity of two rows. None is the Gaussian kernel with squared length scale equal to the
        number of features, meant for standardised inputs. It is kept as it is: choose its
        width with ``GridSearchCV``.
    regularization : float, default=1e-3
        Added to the variance within levels per unit of squared coefficients, so that the direction
        is determined (the paper's u).
    rank : int, "auto" or None, default="auto"
        Largest number of rows whose kernel functions make up the model. None takes all rows.
        "auto" takes all up to 2,000 distinct rows, and 1,000 above.
    categories : sequence, default=None
        Levels from lowest to highest. None takes them from an ordered pandas or polars
        categorical, or sorts numbers. Strings without an order are an error.

    Attributes
    ----------
    thresholds_ : ndarray of shape (n_categories - 1,)
        Cuts between consecutive levels.
    centres_ : ndarray of shape (n_centres, n_features)
        Rows whose kernel functions make up the latent function.
    coefficients_ : ndarray of shape (n_centres,)
        Their weights.
    separation_ : float
        Distance of the closest two neighbouring means on the latent scale, which has unit variance
        within levels, regularisation included.
    kernel_ : scikit-learn kernel
        The kernel.
    categories_ : ndarray
        All levels in rank order.
    classes_ : ndarray
        Observed labels, sorted as scikit-learn sorts them.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if the input had them.

    Notes
    -----
    The paper's trade-off C between variance and distance only scales the latent function and its
    thresholds. No label depends on it, so there is no such parameter. ``sample_weight`` counts
    copies.

    References
    ----------
    .. [Sun10] B.-Y. Sun, J. Li, D. D. Wu, X.-M. Zhang and W.-B. Li, "Kernel discriminant learning
       for ordinal regression", IEEE Transactions on Knowledge and Data Engineering 22, 2010.
    .. [Li18] C. Li and M. de Rijke, "Incremental sparse Bayesian ordinal regression", Neural
       Networks 106, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp import KernelDiscriminantOrdinal
    >>> X = np.linspace(-2, 2, 60)[:, None]
    >>> y = np.digitize(X[:, 0] ** 3, [-1, 1])
    >>> KernelDiscriminantOrdinal().fit(X, y).predict([[-1.8], [0.0], [1.8]])
    array([0, 1, 2])
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        regularization: float = 1e-3,
        rank: Any = "auto",
        categories: Any = None,
    ) -> None:
        self.kernel = kernel
        self.regularization = regularization
        self.rank = rank
        self.categories = categories

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("regularization", self.regularization, above=0)

    def _solve(self, data: LevelRows) -> DiscriminantModel:
        rows = data.rows
        features = self._features(data.kernel, rows.inputs)
        G, copies = features.matrix, np.bincount(rows.latent, rows.counts).astype(float)
        mean, within = _moments(G[rows.latent], data.codes, rows.counts)
        S = G.T @ (copies[:, None] * G)
        direction = _direction(np.diff(mean, axis=0).T, within, S, self.regularization)
        weights = S @ direction
        cuts = 0.5 * (mean[1:] + mean[:-1]) @ weights
        if not weights.any():
            _warn_of_the_median()
            cuts = median_cuts(np.bincount(data.codes, rows.counts).astype(float))
        dual = copies * (G @ direction)
        expansion = kernel_expansion(features, rows.inputs, weights, dual)
        separation = float(np.min(np.diff(mean @ weights)))
        return DiscriminantModel(data.kernel, *expansion, data.thresholds(cuts), separation)

    def _publish(self, model: Any) -> None:
        super()._publish(model)
        self.separation_ = model.separation


def _direction(apart: FloatArray, within: FloatArray, S: FloatArray, u: float) -> FloatArray:
    """The best v, (m,), where P^-1 G v are the coefficients of the rows' kernel functions.

    Input i stands for 1/P_i rows, and B is the scatter within levels. Over all rows the paper's
    H + u I is then u P + G B G'. Its inverse is applied in features:
    (u P + G B G')^-1 G = P^-1 G (u I + B S)^-1, where S = G'P^-1 G.
    """
    inner = within @ S
    inner.flat[:: len(inner) + 1] += u
    solved = np.linalg.solve(inner, apart)
    Q = apart.T @ (S @ solved)
    share = _simplex(Q)
    direction: FloatArray = solved @ share
    square = share @ (apart.T @ (S @ direction))
    if not square > _ROUNDING_SHARE * np.max(np.diagonal(Q)):
        return np.zeros_like(direction)
    return direction / np.sqrt(square)


def _warn_of_the_median() -> None:
    warn_user(
        "No direction was found that puts the means of all levels in order, as where two levels "
        "have the same inputs: every row gets the median level. Join such levels, use another "
        "kernel, or raise regularization.",
        UserWarning,
    )


def _moments(G: FloatArray, codes: Any, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean features of every level, (r, m), and their scatter around them, (m, m)."""
    total = np.bincount(codes, counts)
    mean = np.stack([counts[codes == k] @ G[codes == k] for k in range(len(total))])
    mean /= total[:, None]
    centred = G - mean[codes]
    return mean, centred.T @ (counts[:, None] * centred)


def _simplex(Q: FloatArray) -> FloatArray:
    """Minimise a'Qa over a >= 0 with sum 1 (the dual of [Sun10]_).

    For a >= 0 the least a'Qa with sum t is t^2 times that with sum 1. So a penalty on the sum
    changes the length of the answer, not its direction, and non-negative least squares finds it.
    """
    size, axes = np.linalg.eigh(0.5 * (Q + Q.T))
    root = np.sqrt(np.maximum(size, 0.0))[:, None] * axes.T
    root /= max(np.abs(root).max(), np.finfo(float).tiny)
    p = len(Q)
    share: FloatArray = nnls(np.vstack([root, np.ones(p)]), np.append(np.zeros(p), 1.0))[0]
    return share / share.sum()
