"""Real data with ordered, named levels that need no download."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes

from ordinalgp._typing import FloatArray

_DEMO_CUTS = (100, 150, 250)
_DEMO_FEATURES = (
    *("age", "sex", "body mass index", "blood pressure", "total cholesterol"),
    *("LDL", "HDL", "cholesterol / HDL", "log triglycerides", "glucose"),
)
_DEMO_TEXT = """Stages of diabetes progression, made from scikit-learn's own data.

442 patients with ten measurements each (Efron, Hastie, Johnstone and Tibshirani, "Least angle
regression", 2004), in their original units. The original target is a score of disease progression
one year later (25 to 346). It is cut at 100, 150 and 250 into the stages mild (147 rows), moderate
(91), marked (139) and severe (65). The cuts are round numbers chosen here, not clinical limits.
"""


@dataclass(frozen=True, eq=False)
class DemoData:
    """Result of :func:`load_demo`.

    Examples
    --------
    >>> from ordinalgp.datasets import load_demo
    >>> demo = load_demo()
    >>> demo.X.shape, demo.categories
    ((442, 10), ('mild', 'moderate', 'marked', 'severe'))
    """

    X: FloatArray = field(repr=False)
    """measurements, of shape (442, 10)"""
    y: NDArray[Any] = field(repr=False)
    """stage of each row, strings, of shape (442,)"""
    feature_names: tuple[str, ...]
    """name of each column of ``X``"""
    categories: tuple[str, ...]
    """the stages from lowest to highest"""
    description: str = field(repr=False)
    """source of the rows, and the cuts that made them ordinal"""


def load_demo() -> DemoData:
    """Load real data with four ordered, named levels, without a download.

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
