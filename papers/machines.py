"""Support vector machines of Chu and Ghahramani (2005), tuned as in section 6 of the paper."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Literal, Self

import numpy as np
from sklearn.gaussian_process.kernels import RBF, DotProduct
from sklearn.model_selection import StratifiedKFold

from ordinalgp import OrdinalSVC
from papers.data import FloatArray, IntArray

_COARSE = np.linspace(-3, 3, 7)
_FINE = np.linspace(-0.8, 0.8, 9)
_SEARCH_TOL = 1e-5  # relative gap of the fits that are only compared
Node = tuple[float, ...]
"""a point of a grid, such as log10 of the penalty C and of the kernel's width"""


class SupportVectors:
    """Support vector machine of Chu and Ghahramani (2005), with its way of tuning.

    The paper's own is that of Shashua and Levin (2003) with a fixed margin, whose thresholds may
    come out unordered. Explicit or implicit constraints (Chu and Keerthi 2007) put them in order.

    C and the width kappa of exp(-kappa |x - x'|^2 / 2) are chosen by 5-fold cross-validation. As in
    section 6 of the paper the first grid is 7 x 7 over log10 from -3 to 3, the second 9 x 9 about
    its best node in steps of 0.2. A linear kernel has no width. The paper does not say which error
    it validates: here the absolute one, and of equals the first, with the smallest C. Where no
    level has five rows, there are as many folds as the most frequent one has.
    """

    classes_: IntArray

    def __init__(
        self,
        kernel: Literal["rbf", "linear"] = "rbf",
        seed: int = 0,
        constraints: str = "fixed_margin",
    ) -> None:
        self.kernel, self.seed, self.constraints = kernel, seed, constraints

    def fit(self, X: FloatArray, y: IntArray) -> Self:
        """Choose C and width, then fit all rows."""
        widths = _COARSE if self.kernel == "rbf" else _COARSE[:1]
        near = _FINE if self.kernel == "rbf" else np.zeros(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a level with fewer rows than folds; rounding
            n_folds = min(5, int(np.unique(y, return_counts=True)[1].max()))
            split = StratifiedKFold(n_folds, shuffle=True, random_state=self.seed).split(X, y)
            build = partial(self.build, tol=_SEARCH_TOL)
            folds = [Fold(X, y, train, test, build) for train, test in split]
            C, kappa = best_node(product(_COARSE, widths), folds)
            self.node_ = best_node(product(C + _FINE, kappa + near), folds)
            self.machine_ = self.build(self.node_).fit(X, y)
        self.classes_ = self.machine_.classes_
        return self

    def predict(self, X: FloatArray) -> IntArray:
        """Levels."""
        labels: IntArray = self.machine_.predict(X)
        return labels

    def build(self, node: Node, tol: float = 1e-8) -> OrdinalSVC:
        """Make the machine of a node."""
        C, width = node
        kernel = RBF(10.0 ** (-width / 2)) if self.kernel == "rbf" else DotProduct(0.0, "fixed")
        return OrdinalSVC(kernel, constraints=self.constraints, C=float(10.0**C), tol=tol)


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows that train an estimator, and rows that judge it."""

    X: FloatArray
    y: IntArray
    train: IntArray
    test: IntArray
    build: Callable[[Node], Any]

    def error(self, node: Node) -> float:
        """Sum of absolute errors on the rows that judge; infinite where a node is refused."""
        try:
            fitted = self.build(node).fit(self.X[self.train], self.y[self.train])
        except ValueError:  # such as a C that is too small for sums of margins of so few rows
            return np.inf
        return float(np.abs(fitted.predict(self.X[self.test]) - self.y[self.test]).sum())


def best_node(nodes: Iterable[Node], folds: list[Fold]) -> Node:
    """Node with the smallest sum of errors; of equals the first.

    Those near the middle come first, as a node whose errors on some folds are above the best sum
    needs no others.
    """
    listed = [tuple(map(float, node)) for node in nodes]
    middle = np.mean(listed, axis=0)
    far = np.abs(np.array(listed) - middle).sum(axis=1)
    best = np.inf, len(listed)
    for place in np.argsort(far, kind="stable").tolist():
        error = 0.0
        for fold in folds:
            if (error, place) > best:
                break
            error += fold.error(listed[place])
        best = min(best, (error, place))
    return listed[best[1]]
