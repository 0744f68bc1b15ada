"""Tastes of raters and loadings of items, against the full model and Gaussian conditioning."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import ordinalgp
from ordinalgp import CollaborativeOrdinalGP
from ordinalgp.collaborative import hierarchy, low_rank
from ordinalgp.collaborative.batch import Batch
from ordinalgp.collaborative.low_rank import ItemParameters, LowRankEM, LowRankState, Tastes
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.posterior import Moments, Sites

M, K = 12, 2


def known_items(rng, V=0.0):
    theta = np.column_stack([rng.normal(size=(M, K)), 0.5 * rng.normal(size=M)])
    own = rng.uniform(0.1, 0.8, M)
    spread = V * np.tile(np.eye(K + 1), (M, 1, 1))
    return ItemParameters(theta, own, np.zeros(K + 1), np.ones(K + 1), spread)


def raters(rng, n=9):
    index = [rng.permutation(M)[: 1 + j % M] for j in range(n)]
    return index, [rng.integers(0, 4, len(each)) for each in index]


def inferred(items, index, y, sweeps=60):
    center = OrdinalProbit.from_thresholds([-1.0, 0.0, 1.2], 1.0)
    shared = hierarchy.SharedThresholds(center, 5.0)
    batch = Batch.of(index, y)
    J, N = len(index), len(batch.by)
    none = Tastes(np.zeros((J, K)), np.tile(np.eye(K), (J, 1, 1)))
    zero = Moments(np.zeros(N), np.ones(N))
    theta = np.tile(center.theta, (J, 1))
    rest = none, zero, np.zeros((2, N)), 0.0, 0.0
    state = LowRankState(items, theta, shared, Sites.flat(N), *rest)
    return LowRankEM(batch, M), LowRankEM(batch, M).infer(state, sweeps), shared


def test_known_items_are_the_full_model_with_their_covariance():
    """EP with the deviations as noise is EP on the latent values, whose prior is W W' + diag(d)."""
    rng = np.random.default_rng(0)
    items, (index, y) = known_items(rng), raters(rng)
    _, state, shared = inferred(items, index, y)
    W = items.theta[:, :K]
    prior = hierarchy.Prior(items.theta[:, K], W @ W.T + np.diag(items.own))
    every = np.arange(M)
    for j, (own, levels) in enumerate(zip(index, y, strict=True)):
        rater = hierarchy.Rater(own, levels, shared.center)
        _, found = hierarchy.infer_rater(prior, rater, shared, 1e-10)
        rest = np.setdiff1d(every, rater.items)
        expected = found.posterior.predict(
            prior.covariance[np.ix_(rest, rater.items)], np.diagonal(prior.covariance)[rest]
        )
        at = low_rank.seen(np.full(len(rest), j), rest, items, state.tastes)
        assert_allclose(at.mean, prior.mean[rest] + expected.mean, atol=1e-7)
        assert_allclose(at.var + items.own[rest], expected.var, atol=1e-7)


def test_tastes_are_those_of_gaussian_conditioning():
    rng = np.random.default_rng(1)
    items, (index, y) = known_items(rng), raters(rng)
    batch = Batch.of(index, y)
    sites = Sites(rng.uniform(0.1, 2.0, len(batch.by)), rng.normal(size=len(batch.by)))
    found = low_rank.tastes(batch, items, sites)
    for j, own in enumerate(index):
        rows = slice(*batch.begins[j : j + 2])
        W, h = items.theta[own, :K], items.theta[own, K]
        # Observations nu / tau of h + W z with the variance 1 / tau.
        S = W @ W.T + np.diag(1 / sites.tau[rows])
        gain = W.T @ np.linalg.inv(S)
        assert_allclose(found.mean[j], gain @ (sites.nu[rows] / sites.tau[rows] - h), atol=1e-9)
        assert_allclose(found.covariance[j], np.eye(K) - gain @ W, atol=1e-9)


def test_moments_of_products_against_draws():
    rng = np.random.default_rng(2)
    items, (index, y) = known_items(rng, V=0.05), raters(rng)
    _, state, _ = inferred(items, index, y, sweeps=3)
    by, which = np.array([0, 3, 8]), np.array([1, 5, 7])
    at = low_rank.seen(by, which, items, state.tastes)
    for place, (j, i) in enumerate(zip(by, which, strict=True)):
        z = rng.multivariate_normal(state.tastes.mean[j], state.tastes.covariance[j], 400_000)
        theta = rng.multivariate_normal(items.theta[i], items.V[i], 400_000)
        g = np.sum(theta[:, :K] * z, axis=1) + theta[:, K]
        assert_allclose(at.mean[place], g.mean(), atol=6 * g.std() / 632)
        assert_allclose(at.var[place], g.var(), rtol=0.02)


def test_items_are_weighted_least_squares():
    """The step of an item is ridge regression on the moments of the tastes."""
    rng = np.random.default_rng(3)
    items, (index, y) = known_items(rng, V=0.02), raters(rng)
    em, state, _ = inferred(items, index, y, sweeps=3)
    new = em._next_items(state)
    batch = em.batch
    for i in range(M):
        H, b = np.eye(K + 1), np.zeros(K + 1)
        for row in np.flatnonzero(batch.index == i):
            j = batch.by[row]
            x = np.append(state.tastes.mean[j], 1.0)
            second = np.outer(x, x)
            second[:K, :K] += state.tastes.covariance[j]
            H, b = H + state.sites.tau[row] * second, b + state.sites.nu[row] * x
        assert_allclose(new.theta[i], np.linalg.solve(H, b), atol=1e-9)
        assert_allclose(new.V[i], np.linalg.inv(H), atol=1e-9)


def test_whitening_keeps_what_pairs_look_like():
    rng = np.random.default_rng(4)
    items, (index, y) = known_items(rng), raters(rng)
    _, state, _ = inferred(items, index, y, sweeps=3)
    found = state.tastes
    new = low_rank._whitened(items, found)
    mean = found.mean.mean(axis=0)
    off = found.mean - mean
    C = found.covariance.mean(axis=0) + off.T @ off / len(off)
    W, U = items.theta[:, :K], new.theta[:, :K]
    assert_allclose(U @ U.T, W @ C @ W.T, atol=1e-10)
    assert_allclose(new.theta[:, K], items.theta[:, K] + W @ mean, atol=1e-10)


# ---------------------------------------------------------------------------- estimator


def simulate(n=80, m=60, each=30, seed=0, tastes=2, noise=0.6):
    rng = np.random.default_rng(seed)
    z, W, h = rng.normal(size=(n, tastes)), rng.normal(size=(m, tastes)), 0.7 * rng.normal(size=m)
    by = np.repeat(np.arange(n), each)
    index = np.concatenate([rng.permutation(m)[:each] for _ in range(n)])
    shift = 0.4 * rng.normal(size=n)
    u = h[index] + np.sum(W[index] * z[by], axis=1) + shift[by] + noise * rng.normal(size=len(by))
    return by, index, np.digitize(u, [-1.5, -0.5, 0.5, 1.5]) + 1


@pytest.fixture(scope="module")
def data():
    by, index, y = simulate()
    test = np.random.default_rng(9).random(len(by)) < 0.2
    return (by[~test], index[~test], y[~test]), (by[test], index[test], y[test])


@pytest.fixture(scope="module")
def fitted(data):
    return CollaborativeOrdinalGP(rank=2, tol=1e-4).fit(*data[0])


def log_score(model, pairs):
    by, index, y = pairs
    proba = model.category_proba(by, index)
    return -np.mean(np.log(proba[np.arange(len(y)), np.searchsorted(model.categories_, y)]))


def test_it_predicts_as_well_as_the_full_covariance(data, fitted):
    full = CollaborativeOrdinalGP(rank="full", tol=1e-3).fit(*data[0])
    shares = np.bincount(data[0][2], minlength=6)[1:] / len(data[0][2])
    baseline = -np.mean(np.log(shares[data[1][2] - 1]))
    assert log_score(fitted, data[1]) < log_score(full, data[1]) + 0.01
    assert log_score(fitted, data[1]) < baseline - 0.2
    assert fitted.rank_ == 2
    assert full.rank_ is None


def test_the_objective_rises(fitted):
    assert np.all(np.diff(fitted.objective_path_[1:]) > 0)


def test_the_number_of_tastes_is_found(data):
    train = Batch.of(
        *zip(
            *[(data[0][1][data[0][0] == j], data[0][2][data[0][0] == j] - 1) for j in range(80)],
            strict=True,
        )
    )
    center = OrdinalProbit.from_counts(np.bincount(train.y).astype(float), 1.0, 1.3)
    shared = hierarchy.SharedThresholds(center, 5.0)
    found = low_rank.LowRankSearch(train, 60, shared, 30, 1e-3).fit(None)
    best = max(found.left_out, key=found.left_out.get)
    assert best in (2, 4)
    assert found.state.items.theta.shape[1] == best + 1


def test_many_items_have_tastes_by_default():
    rng = np.random.default_rng(0)
    by, index = np.repeat(np.arange(40), 50), rng.integers(0, 1500, 2000)
    y = rng.integers(1, 4, 2000)
    model = CollaborativeOrdinalGP(max_iter=8, tol=1.0).fit(by, index, y)
    assert model.rank_ == 1 or model.rank_ in low_rank.RANKS
    assert not hasattr(model, "covariance_")
    assert model.loadings_.shape == (len(model.items_), model.rank_)
    few = CollaborativeOrdinalGP(max_iter=1, tol=1.0).fit(by[:50], index[:50], y[:50])
    assert few.rank_ is None


def test_a_new_rater_is_as_one_of_the_fit(data, fitted):
    by, index, y = data[0]
    own = by == 7
    model = CollaborativeOrdinalGP(rank=2, tol=1e-4).fit(*data[0])
    model.add_rater(index[own], y[own], rater="again")
    rest = np.setdiff1d(np.arange(60), index[own])
    again = model.category_proba(["again"] * len(rest), rest)
    assert_allclose(again, fitted.category_proba([7] * len(rest), rest), atol=0.03)
    model.add_rater([], [], rater="nobody")
    proba = model.category_proba(["nobody"] * 60, np.arange(60))
    assert_allclose(proba.sum(axis=1), 1.0)
    assert set(model.recommend("again", 3)) <= set(rest)


def test_a_rating_tells_of_its_own_item(fitted, data):
    by, index, _ = data[0]
    rated = fitted.latent_mean_and_variance(by[:200], index[:200])[1]
    unrated = fitted.latent_mean_and_variance(data[1][0], data[1][1])[1]
    assert rated.mean() < 0.95 * unrated.mean()
    assert np.all(rated > 0)


def test_save_and_load(fitted, data, tmp_path):
    fitted.save(tmp_path / "tastes.ogp")
    again = ordinalgp.load(tmp_path / "tastes.ogp")
    assert_allclose(again.category_proba(*data[1][:2]), fitted.category_proba(*data[1][:2]), rtol=0)
    assert again.rank_scores_ == fitted.rank_scores_
    assert again.add_rater([0], [5], rater="new") == "new"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": "gaussian"}, "needs likelihood='ordinal'"),
        ({"prior": "fixed"}, "needs prior='learned'"),
        ({"kernel": np.eye(60)}, "without item_features"),
        ({"rater_smoothing": 0}, "rater_smoothing above 0"),
    ],
)
def test_what_tastes_need(data, options, message):
    with pytest.raises(ValueError, match=message):
        CollaborativeOrdinalGP(rank=2, **options).fit(*data[0])


def test_bad_ranks_and_items_are_explained(data, fitted):
    for rank in (0, 1.5, "some"):
        with pytest.raises((ValueError, TypeError), match="rank"):
            CollaborativeOrdinalGP(rank=rank).fit(*data[0])
    with pytest.raises(ValueError, match="Unknown item 999"):
        fitted.predict([0], [999])


def test_a_file_whose_parts_disagree_is_refused(fitted):
    model = fitted._result
    fields = {name: getattr(model, name) for name in model.__dataclass_fields__}
    fields |= {"begins": model.begins[:-1]}
    with pytest.raises(ValueError, match="disagree"):
        type(model).restored(**fields)
    assert replace(model).rank == 2
