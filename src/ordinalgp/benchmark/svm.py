"""The support vector machine of the figures of Chu and Ghahramani (2005), with their model choice.

The paper compares with Shashua and Levin (2003), whose thresholds may come out unordered. Chu and
Keerthi (2007) mend that by explicit constraints: the same machine where the order is right.
skordinal has it, by these authors' own code.
"""

import importlib
import warnings
from collections.abc import Iterable
from itertools import product
from typing import Any, Literal

import numpy as np
from sklearn.model_selection import StratifiedKFold

from ordinalgp._typing import FloatArray, IntArray

_COARSE = np.linspace(-3, 3, 7)
_FINE = np.linspace(-0.8, 0.8, 9)
Node = tuple[float, float]
"""log10 of the penalty C and of the kernel's width"""


class SupportVectors:
    """Explicit constraints; C and the width by 5-fold cross-validation on two grids.

    As in section 6 of the paper the first grid is 7 x 7 over log10 from -3 to 3, the second 9 x 9
    about its best node in steps of 0.2. A linear kernel has no width. The paper does not say which
    error it validates: here the absolute one, and of equals the first, with the smallest C.
    """

    classes_: IntArray

    def __init__(self, kernel: Literal["rbf", "linear"] = "rbf", seed: int = 0) -> None:
        self.kernel, self.seed = kernel, seed

    def fit(self, X: FloatArray, y: IntArray) -> "SupportVectors":
        """Choose C and width, then fit all rows."""
        widths = _COARSE if self.kernel == "rbf" else _COARSE[:1]
        coarse = self._best(X, y, product(_COARSE, widths))
        near = _FINE if self.kernel == "rbf" else [0.0]
        fine = ((coarse[0] + c, coarse[1] + g) for c, g in product(_FINE, near))
        self.node_ = self._best(X, y, fine)
        self.machine_ = self._machine(self.node_).fit(self._scaled(X), y)
        self.classes_ = self.machine_.classes_
        return self

    def predict(self, X: FloatArray) -> IntArray:
        """Levels."""
        labels: IntArray = self.machine_.predict(self._scaled(X))
        return labels

    def projection(self, X: FloatArray) -> FloatArray:
        """Values of the discriminant function, which ``machine_.thresholds_`` cut into levels."""
        values: FloatArray = self.machine_.predict_projection(self._scaled(X))
        return values

    def _scaled(self, X: FloatArray) -> FloatArray:
        """The library divides inner products by the number of inputs: undone here."""
        return X * np.sqrt(X.shape[1]) if self.kernel == "linear" else X

    def _machine(self, node: Node) -> Any:
        C, gamma = (float(10.0**exponent) for exponent in node)
        machine = importlib.import_module("skordinal.classifiers").SVOR
        return machine(kernel=self.kernel, C=C, gamma=gamma, constraints="explicit")

    def _best(self, X: FloatArray, y: IntArray, nodes: Iterable[Node]) -> Node:
        Z = self._scaled(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a level with fewer rows than folds
            folds = StratifiedKFold(5, shuffle=True, random_state=self.seed)
            parts = list(folds.split(Z, y))

        def error(node: Node) -> float:
            wrong = [
                np.abs(self._machine(node).fit(Z[a], y[a]).predict(Z[b]) - y[b]).sum()
                for a, b in parts
            ]
            return float(np.sum(wrong))

        return min(nodes, key=error)
