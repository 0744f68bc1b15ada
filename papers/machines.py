"""Support vector machines of Chu and Ghahramani (2005), tuned as in section 6 of the paper."""

import warnings
from collections.abc import Callable, Iterable
from functools import cache
from itertools import product
from typing import Literal, Self

import numpy as np
from sklearn.gaussian_process.kernels import RBF, DotProduct, Kernel
from sklearn.model_selection import StratifiedKFold

from ordinalgp import OrdinalSVC
from ordinalgp.baselines.soft_margin import margins, solve_margins
from ordinalgp.core.linalg import Features, pivoted_cholesky
from papers.data import FloatArray, IntArray

_COARSE = np.linspace(-3, 3, 7)
_FINE = np.linspace(-0.8, 0.8, 9)
_SEARCH_TOL = 1e-5  # relative gap of the fits that are only compared
_LEFT_OUT = 1e-3  # of a margin, by the features that a fit does without
Node = tuple[float, float]
"""log10 of the penalty C and of the kernel's width"""


class SupportVectors:
    """Support vector machine of Chu and Ghahramani (2005), with its way of tuning.

    The paper's own is that of Shashua and Levin (2003) with a fixed margin, whose thresholds may
    come out unordered. Explicit or implicit constraints (Chu and Keerthi 2007) put them in order.

    C and the width kappa of exp(-kappa |x - x'|^2 / 2) are chosen by 5-fold cross-validation. As in
    section 6 of the paper the first grid is 7 x 7 over log10 from -3 to 3, the second 9 x 9 about
    its best node in steps of 0.2. A linear kernel has no width. The paper does not say which error
    it validates: here the absolute one, and of equals the first, with the smallest C.
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
            split = StratifiedKFold(5, shuffle=True, random_state=self.seed).split(X, y)
            folds = [Fold(X, y, a, b, self.similarity, self.constraints) for a, b in split]
            C, kappa = best_node(product(_COARSE, widths), folds)
            self.node_ = best_node(product(C + _FINE, kappa + near), folds)
            machine = OrdinalSVC(
                self.similarity(self.node_[1]),
                constraints=self.constraints,
                C=float(10.0 ** self.node_[0]),
            )
            self.machine_ = machine.fit(X, y)
        self.classes_ = self.machine_.classes_
        return self

    def predict(self, X: FloatArray) -> IntArray:
        """Levels."""
        labels: IntArray = self.machine_.predict(X)
        return labels

    def similarity(self, width: float) -> Kernel:
        """Kernel with log10 of a width."""
        return RBF(10.0 ** (-width / 2)) if self.kernel == "rbf" else DotProduct(0.0, "fixed")


class Fold:
    """Rows that train and rows that judge; machines of one width share its features."""

    def __init__(
        self,
        X: FloatArray,
        y: IntArray,
        train: IntArray,
        test: IntArray,
        similarity: Callable[[float], Kernel],
        constraints: str,
    ) -> None:
        self.X, self.X_test, self.y_test = X[train], X[test], y[test]
        self.levels, self.codes = np.unique(y[train], return_inverse=True)
        self.similarity, self.constraints = similarity, constraints
        self.features = cache(self._features)

    def _features(self, width: float) -> tuple[Features, FloatArray]:
        """Features of a width, and the share of the kernel that each of them began to explain."""
        kernel, X = self.similarity(width), self.X
        found = pivoted_cholesky(lambda j: kernel(X, X[j : j + 1])[:, 0], kernel.diag(X))
        return found, found.matrix[found.pivots, np.arange(len(found.pivots))] ** 2

    def error(self, node: Node) -> float:
        """Sum of absolute errors on the rows that judge."""
        C, width = node
        cost = 10.0**C
        features, explained = self.features(width)
        # A function of variance v that a fit does without is at most v times the sum of all costs.
        m = max(1, int(np.sum(explained > _LEFT_OUT / (cost * len(self.X)))))
        rows = np.arange(len(self.X))
        wanted = margins(self.codes, np.full(len(rows), cost), rows, self.constraints)
        found = solve_margins(features.matrix[:, :m], wanted, tol=_SEARCH_TOL)
        some = Features(features.matrix[:, :m], features.pivots[:m], complete=False)
        centres = self.X[some.pivots]
        f = self.similarity(width)(self.X_test, centres) @ some.expansion(found.weights)
        labels = self.levels[np.sum(f[:, None] > found.cuts, axis=1)]
        return float(np.abs(labels - self.y_test).sum())


def best_node(nodes: Iterable[Node], folds: list[Fold]) -> Node:
    """Node with the smallest sum of errors; of equals the first.

    Those near the middle come first, as a node whose errors on some folds are above the best sum
    needs no others.
    """
    listed = [(float(C), float(width)) for C, width in nodes]
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
