"""Support vector machines of the papers: shared features and skipped nodes change nothing."""

from itertools import product

import numpy as np
import pytest

from ordinalgp import OrdinalSVC
from papers.machines import Fold, SupportVectors, best_node


def make_data(n=90, r=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=n)
    return X, np.argsort(np.argsort(f)) * r // n + 1


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("constraints", ["fixed_margin", "implicit", "explicit"])
def test_a_fold_judges_as_the_estimator_does(kernel, constraints):
    X, y = make_data()
    train, test = np.arange(60), np.arange(60, 90)
    similarity = SupportVectors(kernel).similarity
    fold = Fold(X, y, train, test, similarity, constraints)
    for C, width in product((-1.0, 0.0, 2.0, 3.4), (-2.0, -1.0, 0.0, 1.0)):
        machine = OrdinalSVC(similarity(width), constraints=constraints, C=10.0**C)
        predicted = machine.fit(X[train], y[train]).predict(X[test])
        assert fold.error((C, width)) == np.abs(predicted - y[test]).sum()


def test_levels_that_a_fold_lacks_are_not_predicted():
    X, y = make_data(60)
    train = np.flatnonzero(y != 2)
    fold = Fold(X, y, train, np.flatnonzero(y == 2), SupportVectors().similarity, "fixed_margin")
    assert fold.error((0.0, 0.0)) == np.sum(y == 2)  # 1 or 3: one level off


class Table:
    """A fold whose errors are known, and which counts the questions."""

    def __init__(self, errors):
        self.errors, self.asked = errors, 0

    def error(self, node):
        self.asked += 1
        return self.errors[node]


@pytest.mark.parametrize("seed", range(20))
def test_the_best_node_is_that_of_the_whole_table(seed):
    rng = np.random.default_rng(seed)
    nodes = list(product((-1.0, 0.0, 1.0), (-1.0, 0.0, 1.0)))
    folds = [Table({node: float(rng.integers(0, 4)) for node in nodes}) for _ in range(5)]
    total = [sum(fold.errors[node] for fold in folds) for node in nodes]
    assert best_node(iter(nodes), folds) == nodes[int(np.argmin(total))]
    assert sum(fold.asked for fold in folds) < 45
