"""Synthetic problems of the papers.

.. [Chu05] W. Chu and Z. Ghahramani, "Gaussian processes for ordinal regression", Journal of
   Machine Learning Research 6, 2005.
.. [Srijith12] P. K. Srijith, S. Shevade and S. Sundararajan, "A probabilistic least squares
   approach to ordinal regression", AI 2012: Advances in Artificial Intelligence, 2012.
.. [Li18] C. Li and M. de Rijke, "Incremental sparse Bayesian ordinal regression", Neural Networks
   106, 2018.
.. [Wang10] R. Wang and S. J. McKenna, "Gaussian process learning from order relationships using
   expectation propagation", International Conference on Pattern Recognition, 2010.
.. [Yu06] S. Yu, K. Yu, V. Tresp and H.-P. Kriegel, "Collaborative ordinal regression",
   International Conference on Machine Learning, 2006.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.validation.options import check_number, check_whole

_THREE_RANKS_CUTS = (-0.75, 0.75)
_ADDITIVE_CUTS = (-1.0, 0.0, 1.0)
_FIVE_RANKS_RANGES = np.array([(2, 4), (4, 6), (8, 14), (14, 18), (18, 20)], dtype=float)
_PRODUCT_CUTS = (-60, -9, 15, 60)


def make_three_ranks(
    n_samples: int = 100, *, noise: float = 0.2, random_state: Any = None
) -> tuple[FloatArray, IntArray]:
    """Draw points in the plane in three ranks with wavy borders.

    A problem like that of Figure 2 of [Chu05]_, whose formula is not printed. Points are uniform
    on the square from -2 to 2, and ``x_2 + sin(2 x_1)`` plus normal noise is cut at -0.75 and
    0.75.

    Parameters
    ----------
    n_samples : int, default=100
        Number of points.
    noise : float, default=0.2
        Standard deviation of the noise; 0 makes the borders sharp.
    random_state : int, RandomState instance or None, default=None
        Seed of the points and the noise.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        The points.
    y : ndarray of shape (n_samples,)
        Ranks 1, 2 and 3.

    Examples
    --------
    >>> from ordinalgp.datasets import make_three_ranks
    >>> X, y = make_three_ranks(60, noise=0.0, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((60, 2), [1, 2, 3])
    """
    X, errors = _square(n_samples, (-2, 2), noise, random_state)
    return X, 1 + np.digitize(X[:, 1] + np.sin(2 * X[:, 0]) + errors, _THREE_RANKS_CUTS)


def _square(
    n_samples: int, ends: tuple[float, float], noise: float, random_state: Any
) -> tuple[FloatArray, FloatArray]:
    """Uniform points of a square, and the noise of each."""
    check_whole("n_samples", n_samples, least=1)
    check_number("noise", noise, least=0)
    rng = check_random_state(random_state)
    return rng.uniform(*ends, size=(n_samples, 2)), noise * rng.normal(size=n_samples)


def make_additive_ranks(
    n_samples: int = 200, *, noise: float = 0.5, random_state: Any = None
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Draw points in four ranks, by a sum of one function per feature.

    Features are uniform from -2 to 2. The sum of a wave ``sin(2 x)``, a line ``0.7 x``, a valley
    ``0.6 x^2`` and nothing (the last feature has no effect), plus normal noise, is cut into four
    ranks. Each function is shifted to mean zero over the points.

    Parameters
    ----------
    n_samples : int, default=200
        Number of points.
    noise : float, default=0.5
        Standard deviation of the noise; 0 makes the borders sharp.
    random_state : int, RandomState instance or None, default=None
        Seed of the points and the noise.

    Returns
    -------
    X : ndarray of shape (n_samples, 4)
        The points.
    y : ndarray of shape (n_samples,)
        Ranks 1 to 4.
    effects : ndarray of shape (n_samples, 4)
        The value of each feature's function at each point.

    Examples
    --------
    >>> from ordinalgp.datasets import make_additive_ranks
    >>> X, y, effects = make_additive_ranks(60, random_state=0)
    >>> X.shape, sorted(set(y.tolist())), effects.shape
    ((60, 4), [1, 2, 3, 4], (60, 4))
    """
    check_whole("n_samples", n_samples, least=1)
    check_number("noise", noise, least=0)
    rng = check_random_state(random_state)
    X = rng.uniform(-2, 2, size=(n_samples, 4))
    wave, line, valley, nothing = X.T
    effects = np.column_stack([np.sin(2 * wave), 0.7 * line, 0.6 * valley**2, 0 * nothing])
    effects -= effects.mean(axis=0)
    latent = effects.sum(axis=1) + noise * rng.normal(size=n_samples)
    return X, 1 + np.digitize(latent, _ADDITIVE_CUTS), effects


def make_five_ranks_1d(
    counts: Sequence[int] = (2, 3, 10, 5, 1), *, random_state: Any = None
) -> tuple[FloatArray, IntArray]:
    """Draw points on a line in five ranks, with a gap and very uneven counts.

    The problem of Figure 1 of [Srijith12]_: ranks 1 to 5 lie in [2, 4], [4, 6], [8, 14], [14, 18]
    and [18, 20]. The paper mentions 20 points, but its counts, the default here, sum to 21.

    Parameters
    ----------
    counts : sequence of 5 ints, default=(2, 3, 10, 5, 1)
        Number of points of each rank.
    random_state : int, RandomState instance or None, default=None
        Seed of the points, which are uniform in the interval of their rank.

    Returns
    -------
    X : ndarray of shape (n_samples, 1)
        The points, ascending.
    y : ndarray of shape (n_samples,)
        Ranks 1 to 5.

    Examples
    --------
    >>> from ordinalgp.datasets import make_five_ranks_1d
    >>> X, y = make_five_ranks_1d(random_state=0)
    >>> y
    array([1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 5])
    """
    if np.ndim(counts) != 1 or len(counts) != 5:
        raise ValueError(f"counts must have one number per rank, 5 in all, but is {counts}.")
    codes = np.repeat(np.arange(5), counts)
    x = check_random_state(random_state).uniform(*_FIVE_RANKS_RANGES[codes].T)
    return np.sort(x)[:, None], codes + 1


def make_product_ranks(
    n_samples: int = 1000, *, noise: float = 0.5, random_state: Any = None
) -> tuple[FloatArray, IntArray]:
    """Draw points in a square with five ranks of a product.

    They are those of section 5.1.1 of [Li18]_.

    Points are uniform on the square from 0 to 10, and ``10 (x_1 - 5) (x_2 - 5)`` plus normal noise
    is cut at -60, -9, 15 and 60. The paper prints 0.5 in place of 5, which would give almost all
    points the highest rank. With 5 the shares are the reported ones (0.21, 0.21, 0.19, 0.18, 0.21).

    Parameters
    ----------
    n_samples : int, default=1000
        Number of points; the paper has 21,000.
    noise : float, default=0.5
        Standard deviation of the noise.
    random_state : int, RandomState instance or None, default=None
        Seed of the points and the noise.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        The points.
    y : ndarray of shape (n_samples,)
        Ranks 1 to 5.

    Examples
    --------
    >>> from ordinalgp.datasets import make_product_ranks
    >>> X, y = make_product_ranks(500, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((500, 2), [1, 2, 3, 4, 5])
    """
    X, errors = _square(n_samples, (0, 10), noise, random_state)
    return X, 1 + np.digitize(10 * (X[:, 0] - 5) * (X[:, 1] - 5) + errors, _PRODUCT_CUTS)


@dataclass(frozen=True, eq=False)
class Ratings:
    """Result of :func:`make_ratings`: one rating per row, and the truth behind the ratings.

    Examples
    --------
    >>> from ordinalgp.datasets import make_ratings
    >>> data = make_ratings(n_raters=4, n_items=6, random_state=0)
    >>> data.utilities.shape
    (4, 6)
    >>> len(data.raters) == len(data.items) == len(data.ratings)
    True
    """

    raters: IntArray = field(repr=False)
    """rater of each rating, of shape (n,)"""
    items: IntArray = field(repr=False)
    """item of each rating, of shape (n,)"""
    ratings: IntArray = field(repr=False)
    """levels 1 to n_levels, of shape (n,)"""
    item_features: FloatArray = field(repr=False)
    """features of the items, of shape (n_items, n_features)"""
    utilities: FloatArray = field(repr=False)
    """utility of every item for every rater, without noise, of shape (n_raters, n_items)"""
    thresholds: FloatArray = field(repr=False)
    """thresholds between the levels of each rater, of shape (n_raters, n_levels - 1)"""


def make_ratings(
    n_raters: int = 30,
    n_items: int = 50,
    *,
    n_features: int = 3,
    n_levels: int = 5,
    observed: float = 0.4,
    agreement: float = 0.7,
    noise: float = 0.3,
    random_state: Any = None,
) -> Ratings:
    """Draw ratings of items by raters with a common taste and thresholds of their own.

    The model of [Yu06]_: a rater's utility of the items is a Gaussian process around a function
    that all raters share. The utility plus noise is cut at the rater's own thresholds.

    Parameters
    ----------
    n_raters, n_items : int, default=30 and 50
        Size of the table of ratings.
    n_features : int, default=3
        Number of features per item, standard normal. The utility has a Gaussian kernel with
        length scale 1.
    n_levels : int, default=5
        Number of levels.
    observed : float, default=0.4
        Share of the table that is rated; the rest is missing at random. Every rater and every
        item has at least one rating.
    agreement : float in [0, 1], default=0.7
        Share of the utility's variance that all raters have in common.
    noise : float, default=0.3
        Standard deviation of the noise of a rating.
    random_state : int, RandomState instance or None, default=None
        Seed of all random draws.

    Returns
    -------
    Ratings
        Columns ``raters``, ``items`` and ``ratings``, with ``item_features`` and the truth.

    Examples
    --------
    >>> from ordinalgp.datasets import make_ratings
    >>> table = make_ratings(10, 20, random_state=0)
    >>> len(table.ratings) == len(table.raters) == len(table.items)
    True
    >>> table.utilities.shape, table.thresholds.shape
    ((10, 20), (10, 4))
    """
    for name, share in (("observed", observed), ("agreement", agreement)):
        if not 0 <= share <= 1:
            raise ValueError(f"{name} must be a share between 0 and 1, but is {share}.")
    sizes = {"n_raters": n_raters, "n_items": n_items, "n_features": n_features}
    for name, size in sizes.items():
        check_whole(name, size, least=1)
    check_whole("n_levels", n_levels, least=2)
    check_number("noise", noise, least=0)
    rng = check_random_state(random_state)
    features = rng.normal(size=(n_items, n_features))
    squared = np.sum((features[:, None] - features[None]) ** 2, axis=2)
    root = np.linalg.cholesky(np.exp(-squared / 2) + 1e-9 * np.eye(n_items))
    shared, own = root @ rng.normal(size=n_items), rng.normal(size=(n_raters, n_items)) @ root.T
    utilities = np.sqrt(agreement) * shared + np.sqrt(1 - agreement) * own
    middle = rng.normal(scale=0.3, size=(n_raters, 1))
    spread = rng.uniform(0.7, 1.3, size=(n_raters, 1))
    cuts = middle + spread * np.linspace(-1, 1, n_levels + 1)[1:-1]
    noisy = utilities + noise * rng.normal(size=utilities.shape)
    levels = 1 + np.sum(noisy[:, :, None] > cuts[:, None, :], axis=2)
    raters, items = np.nonzero(_seen(rng, n_raters, n_items, observed))
    return Ratings(raters, items, levels[raters, items], features, utilities, cuts)


def _seen(rng: Any, n_raters: int, n_items: int, observed: float) -> Any:
    """Mask of the rated cells of the table; no row and no column is empty."""
    seen = rng.uniform(size=(n_raters, n_items)) < observed
    seen[np.arange(n_raters), rng.randint(n_items, size=n_raters)] = True
    seen[rng.randint(n_raters, size=n_items), np.arange(n_items)] = True
    return seen


def make_sine_comparisons(
    n_comparisons: int = 30, *, n_items: int = 50, random_state: Any = None
) -> tuple[FloatArray, IntArray]:
    """Draw points on a line and compare random pairs of them by their sine.

    The problem of Figure 1 of [Wang10]_: items are uniform on [-pi, pi), and of two different
    random items the one with the larger sine is preferred. A pair can be drawn more than once.

    Parameters
    ----------
    n_comparisons : int, default=30
        Number of comparisons.
    n_items : int, default=50
        Number of items, at least 2.
    random_state : int, RandomState instance or None, default=None
        Seed of the items, then of the pairs: with more comparisons, the first ones are the same.

    Returns
    -------
    X : ndarray of shape (n_items, 1)
        The items.
    comparisons : ndarray of shape (n_comparisons, 2)
        Rows of ``X``, the preferred one first.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp.datasets import make_sine_comparisons
    >>> X, comparisons = make_sine_comparisons(20, random_state=0)
    >>> left, right = np.sin(X[comparisons, 0]).T
    >>> bool(np.all(left > right))
    True
    """
    check_whole("n_items", n_items, least=2)
    check_whole("n_comparisons", n_comparisons, least=0)
    rng = check_random_state(random_state)
    X = rng.uniform(-np.pi, np.pi, size=(n_items, 1))
    first, step = rng.randint([0, 1], [n_items, n_items], size=(n_comparisons, 2)).T
    pairs = np.column_stack([first, (first + step) % n_items])  # never an item with itself
    order = np.argsort(-np.sin(X[pairs, 0]), axis=1, kind="stable")
    return X, np.take_along_axis(pairs, order, axis=1)
