"""Sparse factors against dense ones, and the posterior on them against the other forms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from ordinalgp.core.elimination import Elimination, SparseFactor
from ordinalgp.core.gaussian import Prior, Sites, condition
from ordinalgp.core.projections import Differences, SparseProjection
from ordinalgp.core.sparse_precision import (
    DiagonalPlusLowRank,
    ProjectionGraph,
    SparsePrecisionPosterior,
)


def graph(kind, seed=0):
    """Edges of a graph, and its number of nodes."""
    rng = np.random.default_rng(seed)
    if kind == "path":
        return np.arange(199), np.arange(1, 200), 200
    if kind == "star":
        return np.zeros(99, dtype=int), np.arange(1, 100), 100
    if kind == "complete":
        return *np.triu_indices(60, 1), 60
    if kind == "grid":
        at = np.arange(400).reshape(20, 20)
        left, right = at[:, :-1].ravel(), at[:, 1:].ravel()
        return np.r_[left, at[:-1].ravel()], np.r_[right, at[1:].ravel()], 400
    n, m = {"sparse": (300, 250), "random": (300, 600), "dense": (120, 3000)}[kind]
    left = rng.integers(n, size=m)
    return left, (left + 1 + rng.integers(n - 1, size=m)) % n, n


KINDS = ["path", "star", "complete", "grid", "sparse", "random", "dense"]


@pytest.mark.parametrize("kind", KINDS)
def test_factors_solutions_and_inverses_are_those_of_dense_matrices(kind):
    i, j, n = graph(kind)
    rng = np.random.default_rng(1)
    w, every = rng.exponential(size=len(i)), np.arange(n)
    laplacian = sparse.coo_array((np.r_[w, w], (np.r_[i, j], np.r_[i, j])), shape=(n, n)).toarray()
    off = sparse.coo_array((np.r_[w, w], (np.r_[i, j], np.r_[j, i])), shape=(n, n)).toarray()
    B = np.eye(n) + laplacian - off
    order = Elimination.of(i, j, n)
    numbers = np.zeros(order.size)
    place = order.place(*np.triu_indices(n)) if kind == "complete" else order.place(i, j)
    assert len(place)
    numbers[order.place(every, every)] = np.diagonal(B)
    numbers[order.place(i, j)] = B[i, j]
    factor = SparseFactor(order, numbers)
    inverse = np.linalg.inv(B)
    assert factor.definite
    assert_allclose(factor.half_log_det, np.linalg.slogdet(B)[1] / 2, rtol=1e-12)
    b = rng.normal(size=(n, 3))
    assert_allclose(factor.solve(b), inverse @ b, rtol=0, atol=1e-12)
    assert_allclose(factor.solve(b[:, 0]), inverse @ b[:, 0], rtol=0, atol=1e-12)
    found = factor.inverse_entries
    assert_allclose(found[order.place(every, every)], np.diagonal(inverse), rtol=0, atol=1e-12)
    assert_allclose(found[order.place(j, i)], inverse[i, j], rtol=0, atol=1e-12)
    root = factor.draw(np.eye(n))
    assert_allclose(root @ root.T, inverse, rtol=0, atol=1e-12)


def test_few_nodes_of_a_sparse_graph_remain():
    """Trees leave no core, a grid of 20 x 20 less than its side, a complete graph stays whole."""
    sizes = {kind: len(Elimination.of(*graph(kind)).core) for kind in KINDS}
    assert sizes["path"] <= 2
    assert sizes["star"] <= 2
    assert sizes["grid"] <= 40
    assert sizes["random"] < 100
    assert sizes["complete"] == 60


def posteriors(kind, columns, seed, scale=1.0):
    """The same posterior by dense and by sparse linear algebra, and the prior covariance."""
    i, j, n = graph(kind, seed)
    rng = np.random.default_rng(seed)
    A = Differences(i, j, n)
    variance, root = rng.exponential(size=n), rng.normal(size=(n, columns))
    if columns:
        variance[:: n // 5] = 0.0  # inducing items have nothing left
    sites = Sites(scale * rng.exponential(size=len(i)), rng.normal(size=len(i)))
    counts, mean = rng.exponential(size=len(i)), rng.normal(size=n)
    K = np.diag(variance) + root @ root.T
    parts = DiagonalPlusLowRank(variance, root, ProjectionGraph.of(A))
    priors = (Prior(each, A, counts, mean) for each in (K, parts))
    return *(condition(prior, sites) for prior in priors), K


@pytest.mark.parametrize("columns", [0, 4])
@pytest.mark.parametrize("kind", ["path", "random", "dense"])
def test_sparse_and_dense_posteriors_are_one(kind, columns):
    dense, thin, K = posteriors(kind, columns, seed=3)
    assert isinstance(thin, SparsePrecisionPosterior)
    close = {"rtol": 1e-9, "atol": 1e-9}
    assert_allclose(thin.mean, dense.mean, **close)
    assert_allclose(thin.weights, dense.weights, **close)
    assert_allclose(thin.half_log_det, dense.half_log_det, **close)
    assert_allclose(thin.observed().mean, dense.observed().mean, **close)
    assert_allclose(thin.observed().var, dense.observed().var, **close)
    every = np.eye(len(K))
    covariance = dense.covary(every)
    assert_allclose(thin.covary(every), covariance, **close)
    assert_allclose(thin.inverse(), dense.inverse(), **close)
    own = thin.own_variances + np.sum(thin.features**2, axis=1)
    assert_allclose(own, np.diagonal(covariance), **close)
    new, old = (each.predict(K[:5], np.diagonal(K)[:5]) for each in (thin, dense))
    assert_allclose(new.mean, old.mean, **close)
    assert_allclose(new.var, old.var, **close)
    joint = [each.predict_covariance(K[:5], K[:5, :5]) for each in (thin, dense)]
    assert_allclose(*joint, **close)
    nu = np.random.default_rng(8).normal(size=len(thin.observed().mean))
    assert_allclose(thin.shifted(nu).mean, dense.shifted(nu).mean, **close)
    draws = thin.own_draw(every)
    assert_allclose(draws @ draws.T + thin.features @ thin.features.T, covariance, **close)


def test_strong_sites_keep_the_digits_of_small_variances():
    """Items that are held together a million times as firmly as the prior: no cancellation."""
    dense, thin, _ = posteriors("random", 0, seed=5, scale=1e8)
    assert_allclose(thin.observed().var, dense.observed().var, rtol=1e-4)


def test_rows_of_three_items_work_too():
    rng = np.random.default_rng(0)
    n, m = 50, 70
    columns = np.array([rng.choice(n, 3, replace=False) for _ in range(m)])
    cells = rng.normal(size=(m, 3)).ravel(), columns.ravel(), np.arange(0, 3 * m + 1, 3)
    A = SparseProjection(sparse.csr_array(cells, shape=(m, n)))
    sites = Sites(rng.exponential(size=m), rng.normal(size=m))
    parts = DiagonalPlusLowRank(np.ones(n), np.zeros((n, 0)), ProjectionGraph.of(A))
    thin, dense = (condition(Prior(K, A, np.ones(m)), sites) for K in (parts, np.eye(n)))
    assert_allclose(thin.observed().var, dense.observed().var, rtol=1e-10)
    assert_allclose(thin.mean, dense.mean, rtol=0, atol=1e-12)
