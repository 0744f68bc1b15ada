"""Support vector machines of the papers: rough searches and skipped nodes change nothing."""

from functools import partial
from itertools import product

import numpy as np
import pytest

from papers.machines import Fold, SupportVectors, best_node


def make_data(n=90, r=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=n)
    return X, np.argsort(np.argsort(f)) * r // n + 1


@pytest.mark.parametrize("constraints", ["fixed_margin", "implicit"])
def test_a_fold_judges_by_nearly_solved_machines(constraints):
    X, y = make_data()
    train, test = np.arange(60), np.arange(60, 90)
    build = SupportVectors("rbf", 0, constraints).build
    fold = Fold(X, y, train, test, partial(build, tol=1e-5))
    for C, width in product((-1.0, 0.0, 2.0, 3.4), (-2.0, -1.0, 0.0, 1.0)):
        predicted = build((C, width)).fit(X[train], y[train]).predict(X[test])
        assert fold.error((C, width)) == np.abs(predicted - y[test]).sum()


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


def test_few_rows_have_fewer_folds():
    X, y = make_data(11)
    assert np.bincount(y).max() == 4
    machine = SupportVectors("linear", 0, "explicit").fit(X, y)
    assert set(machine.predict(X)) <= {1, 2, 3}
