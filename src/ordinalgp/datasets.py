"""Data to try the models on: the papers' synthetic problems, and real rows that need no network.

.. [Chu05] W. Chu and Z. Ghahramani, "Gaussian processes for ordinal regression", Journal of
   Machine Learning Research 6, 2005.
.. [Srijith12] P. K. Srijith, S. Shevade and S. Sundararajan, "A probabilistic least squares
   approach to ordinal regression", AI 2012: Advances in Artificial Intelligence, 2012.
.. [Wang10] R. Wang and S. J. McKenna, "Gaussian process learning from order relationships using
   expectation propagation", ICPR 2010.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes
from sklearn.utils import check_random_state

from ordinalgp._typing import FloatArray, IntArray

__all__ = [
    "DemoData",
    "load_demo",
    "make_five_ranks_1d",
    "make_sine_comparisons",
    "make_three_ranks",
]

_THREE_RANKS_CUTS = (-0.75, 0.75)
_FIVE_RANKS_RANGES = np.array([(2, 4), (4, 6), (8, 14), (14, 18), (18, 20)], dtype=float)
_DEMO_CUTS = (100, 150, 250)
_DEMO_FEATURES = (
    *("age", "sex", "body mass index", "blood pressure", "total cholesterol"),
    *("LDL", "HDL", "cholesterol / HDL", "log triglycerides", "glucose"),
)
_DEMO_TEXT = """Stages of diabetes progression, made from scikit-learn's own data.

442 patients with ten measurements each (Efron, Hastie, Johnstone and Tibshirani, "Least angle
regression", 2004), in their original units. The target of the original, a score of disease
progression one year later (25 to 346), is cut at 100, 150 and 250 into the stages mild (147 rows),
moderate (91), marked (139) and severe (65). The cuts are round numbers of ours, not clinical ones.
"""


@dataclass(frozen=True, eq=False)
class DemoData:
    """What :func:`load_demo` returns."""

    X: FloatArray = field(repr=False)
    """measurements, of shape (442, 10)"""
    y: NDArray[Any] = field(repr=False)
    """stage of each row, strings, of shape (442,)"""
    feature_names: tuple[str, ...]
    """name of each column of ``X``"""
    categories: tuple[str, ...]
    """the stages from lowest to highest"""
    description: str = field(repr=False)
    """where the rows come from and how they became ordinal"""


def load_demo() -> DemoData:
    """Load real rows with four ordered, named levels; nothing is downloaded.

    Returns
    -------
    DemoData
        Arrays ``X`` and ``y`` with ``feature_names``, ``categories`` and a ``description``.

    Examples
    --------
    >>> from ordinalgp.datasets import load_demo
    >>> demo = load_demo()
    >>> demo.X.shape, demo.y[0]
    ((442, 10), ...'marked'...)
    >>> demo.categories
    ('mild', 'moderate', 'marked', 'severe')
    """
    X, progression = load_diabetes(return_X_y=True, scaled=False)
    categories = ("mild", "moderate", "marked", "severe")
    y = np.array(categories)[np.digitize(progression, _DEMO_CUTS)]
    return DemoData(X, y, _DEMO_FEATURES, categories, _DEMO_TEXT)


def make_three_ranks(
    n_samples: int = 100, *, noise: float = 0.2, random_state: Any = None
) -> tuple[FloatArray, IntArray]:
    """Draw points of the plane in three ranks with wavy borders.

    A problem like that of Figure 2 of [Chu05]_, which does not print its formula: points are
    uniform on the square from -2 to 2, and ``x_2 + sin(2 x_1)`` plus normal noise is cut at -0.75
    and 0.75.

    Parameters
    ----------
    n_samples : int, default=100
        Number of points.
    noise : float, default=0.2
        Standard deviation of the noise; 0 makes the borders sharp.
    random_state : int, RandomState instance or None, default=None
        Draws the points and the noise.

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
    rng = check_random_state(random_state)
    X = rng.uniform(-2, 2, size=(n_samples, 2))
    latent = X[:, 1] + np.sin(2 * X[:, 0]) + noise * rng.normal(size=n_samples)
    return X, 1 + np.digitize(latent, _THREE_RANKS_CUTS)


def make_five_ranks_1d(
    counts: Sequence[int] = (2, 3, 10, 5, 1), *, random_state: Any = None
) -> tuple[FloatArray, IntArray]:
    """Draw points of the line in five ranks, with a gap and very uneven counts.

    The problem of Figure 1 of [Srijith12]_: ranks 1 to 5 lie in [2, 4], [4, 6], [8, 14], [14, 18]
    and [18, 20]. The paper speaks of 20 points, but the counts it lists, the default here, are 21.

    Parameters
    ----------
    counts : sequence of 5 ints, default=(2, 3, 10, 5, 1)
        Number of points of each rank.
    random_state : int, RandomState instance or None, default=None
        Draws the points, uniformly in the interval of their rank.

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
    if len(counts) != 5:
        raise ValueError(f"counts must hold a number for each of the 5 ranks, but is {counts}.")
    codes = np.repeat(np.arange(5), counts)
    x = check_random_state(random_state).uniform(*_FIVE_RANKS_RANGES[codes].T)
    return np.sort(x)[:, None], codes + 1


def make_sine_comparisons(
    n_comparisons: int = 30, *, n_items: int = 50, random_state: Any = None
) -> tuple[FloatArray, IntArray]:
    """Draw points of the line and compare random pairs of them by their sine.

    The problem of Figure 1 of [Wang10]_: items are uniform on [-pi, pi), and of two different
    random items the one with the larger sine is preferred. A pair can be drawn more than once.

    Parameters
    ----------
    n_comparisons : int, default=30
        Number of comparisons.
    n_items : int, default=50
        Number of items, at least 2.
    random_state : int, RandomState instance or None, default=None
        Draws the items, then the pairs: more comparisons continue fewer.

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
    if n_items < 2:
        raise ValueError(f"n_items must be at least 2 to compare any, but is {n_items}.")
    rng = check_random_state(random_state)
    X = rng.uniform(-np.pi, np.pi, size=(n_items, 1))
    first, step = rng.randint([0, 1], [n_items, n_items], size=(n_comparisons, 2)).T
    pairs = np.column_stack([first, (first + step) % n_items])  # never an item with itself
    order = np.argsort(-np.sin(X[pairs, 0]), axis=1, kind="stable")
    return X, np.take_along_axis(pairs, order, axis=1)
