"""Curvatures that stages hand to each other grow with the rows."""

import numpy as np
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF

from ordinalgp import OrdinalGPClassifier
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.projections import Identity
from ordinalgp.core.search import SearchResult, Task
from ordinalgp.many_rows.block_evidence import BlockEvidence, Patch
from ordinalgp.many_rows.blocked_rows import LocalRows
from ordinalgp.many_rows.learned import Learned
from ordinalgp.models.exact import SearchOptions
from ordinalgp.runtime.progress import silent

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
Y = np.digitize(X[:, 0] + 0.3 * RNG.normal(size=N), [-0.5, 0.5])
ROWS = LocalRows(X, np.arange(N), Y, np.full(N, 2.0))


def exact_task(counts):
    likelihood = OrdinalProbit.from_thresholds([-0.5, 0.5], 0.4)
    return Task(X, RBF(1.0), likelihood, Identity(N), Y, np.full(N, counts))


def options():
    return SearchOptions.of(OrdinalGPClassifier(random_state=0), silent)


def test_rows_of_halos_do_not_count():
    task = exact_task(2.0)
    blocks = BlockEvidence.like(task, patches=(Patch(ROWS, 0), Patch(ROWS, 20)), scale=3.0)
    assert blocks.n_rows == 3.0 * 2.0 * (60 + 40)


def test_a_search_that_knows_the_curvatures_finds_the_same_in_fewer_evaluations():
    task = exact_task(1.0)
    found = options().search(task, [task.theta])
    learned = Learned.of(task, found, 60.0)
    assert_allclose(learned.task.theta, found.theta, atol=1e-12)
    # The same rows four times over, as one block: their curvatures are some four times as large.
    often = LocalRows(X, np.arange(N), Y, np.full(N, 4.0))
    blocks = BlockEvidence.like(learned.task, patches=(Patch(often, 0),))
    limits = learned.limits(50, 1e-9, blocks.n_rows)
    assert_allclose(limits.curvature, 4.0 * found.curvature)
    plain = options().search(blocks, [blocks.theta])
    fast = options().search(blocks, [blocks.theta], limits)
    assert_allclose(fast.value, plain.value, atol=1e-5)
    assert len(fast.path) < len(plain.path)


def test_without_curvatures_a_search_begins_without():
    unknown = SearchResult(exact_task(1.0).theta, 0.0, np.empty(0), None, True, "")
    assert Learned.of(exact_task(1.0), unknown, 60.0).limits(5, 1e-5, 100.0).curvature is None
