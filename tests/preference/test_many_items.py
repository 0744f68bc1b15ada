"""Rankings of many items: sparse linear algebra against dense, and against choix."""

import functools
import time
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kendalltau
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import ordinalgp
from ordinalgp import PreferenceGP
from ordinalgp.core.sparse_precision import ProjectionGraph
from ordinalgp.kernels import Independent
from ordinalgp.preference.comparisons import encode_outcomes, merge_comparisons
from ordinalgp.preference.many_items import (
    ManyItemsSettings,
    ManyItemsTask,
    inducing_items,
    most_compared,
    split_own,
)
from ordinalgp.runtime.progress import listening
from ordinalgp.runtime.threads import one_thread


def comparisons(n, m, *, seed=0, noise=0.5, tie=0.0, features=False):
    """Random comparisons of items with known utilities."""
    rng = np.random.default_rng(seed)
    X, f = rng.normal(size=(n, 2)), rng.normal(size=n)
    if features:
        f = np.sin(X[:, 0]) + X[:, 1] + 0.3 * f
    left = rng.integers(n, size=m)
    right = (left + 1 + rng.integers(n - 1, size=m)) % n
    u = f[left] - f[right] + noise * rng.normal(size=m)
    outcomes = np.where(np.abs(u) <= tie, 0, np.where(u > 0, 1, -1))
    return X, f, np.column_stack([left, right]), outcomes


@pytest.mark.parametrize(
    ("tie", "options"),
    [
        (0.0, {}),
        (0.3, {}),
        (0.3, {"position_bias": "learned"}),
        (0.0, {"likelihood": "logit", "noise": 1.0}),
    ],
)
def test_without_features_the_solver_changes_only_rounding(tie, options):
    n = 90
    _, _, pairs, outcomes = comparisons(n, 200, tie=tie)
    weights = np.random.default_rng(1).integers(1, 5, size=len(pairs))

    def fitted(solver, **more):
        model = PreferenceGP("independent", solver=solver, random_state=0, **(options | more))
        return model.fit(n, pairs, outcomes, sample_weight=weights)

    # Each search ends within its tolerance of the top.
    found = [fitted(solver) for solver in ("dense", "sparse")]
    values = [model.log_marginal_likelihood_value_ for model in found]
    assert_allclose(*values, rtol=1e-8)
    same = {"likelihood": found[0].likelihood_, "optimizer": None, "tol": 1e-9}
    both = dense, thin = [fitted(solver, **same) for solver in ("dense", "sparse")]
    assert (dense.solver_, thin.solver_) == ("dense", "sparse")
    close = {"rtol": 0, "atol": 1e-8}
    assert_allclose(
        thin.log_marginal_likelihood_value_, dense.log_marginal_likelihood_value_, rtol=1e-10
    )
    more = n + 3  # three of them new
    assert_allclose(thin.predict(more), dense.predict(more), **close)
    for ours, theirs in zip(
        thin.latent_mean_and_covariance(more), dense.latent_mean_and_covariance(more), strict=True
    ):
        assert_allclose(ours, theirs, **close)
    variances = [each.latent_mean_and_variance(more)[1] for each in both]
    assert_allclose(*variances, **close)
    left, right = np.arange(more), np.roll(np.arange(more), 1)
    assert_allclose(
        thin.comparison_proba(left, right), dense.comparison_proba(left, right), **close
    )
    ranks = [each.rank(more) for each in both]
    assert_allclose(ranks[0].sd, ranks[1].sd, **close)
    error = np.hypot(*(rank.best_proba_error for rank in ranks))
    assert np.all(np.abs(ranks[0].best_proba - ranks[1].best_proba) < 5 * error)
    theta = np.concatenate([thin.kernel_.theta, thin.likelihood_.theta]) + 0.1
    (value, slope), (true, true_slope) = (
        each.log_marginal_likelihood(theta, eval_gradient=True) for each in both
    )
    assert_allclose(value, true, rtol=1e-8)
    assert_allclose(slope, true_slope, rtol=1e-5, atol=1e-6)


def learned(solver="dense", n=120, **options):
    X, f, pairs, outcomes = comparisons(n, 500, features=True)
    model = PreferenceGP(solver=solver, random_state=0, **options).fit(X, pairs, outcomes)
    return X, f, pairs, outcomes, model


def test_with_every_item_inducing_the_model_is_the_dense_one():
    *_, dense = learned()
    task = dense._result.model.task
    graph = ProjectionGraph.of(task.projection)
    whole = ManyItemsTask.like(task, np.arange(len(task.X)), graph)
    value, found = whole.value_and_posterior()
    assert_allclose(value, dense.log_marginal_likelihood_value_, rtol=1e-8)
    assert_allclose(found.posterior.mean, dense._result.model.posterior.mean, rtol=0, atol=1e-5)


def test_with_features_the_approximation_is_close():
    X, *_, dense = learned()
    thin = learned("sparse")[-1]
    model = thin._result.model
    assert 10 < len(model.task.inducing) < len(X)
    assert model.residual_share < 1e-3
    assert_allclose(thin.noise_, dense.noise_, rtol=1e-6)  # the search had all items
    queries = np.concatenate([X, X[:5] + 0.1, X[:5] + 0.1])  # the new ones twice
    (ours, spread), (theirs, truth) = (
        each.latent_mean_and_covariance(queries) for each in (thin, dense)
    )
    assert_allclose(ours, theirs, rtol=0, atol=0.02)
    assert_allclose(spread, truth, rtol=0, atol=0.01)
    mean, var = thin.latent_mean_and_variance(queries)
    assert_allclose(mean, ours, rtol=0, atol=1e-10)
    assert_allclose(var, np.diagonal(spread), rtol=0, atol=1e-10)
    proba = [each.comparison_proba(queries[:9], queries[-9:]) for each in (thin, dense)]
    assert_allclose(*proba, rtol=0, atol=0.01)
    assert_allclose(thin.comparison_proba(queries[-1:], queries[-6:-5]), 0.5, atol=1e-12)
    ranks = [each.rank(queries) for each in (thin, dense)]
    assert kendalltau(ranks[0].mean[np.argsort(ranks[0].order)], theirs)[0] > 0.97
    assert np.max(np.abs(ranks[0].best_proba - ranks[1].best_proba)) < 0.05


def test_draws_have_the_joint_posterior():
    X, *_, thin = learned("sparse", n=30)
    model = thin._result.model
    queries = np.concatenate([X[:4], X[:2] + 0.5, X[:1] + 0.5])
    draws = np.concatenate(list(model.draws(queries, 40_000, 2**16, np.random.RandomState(0))))
    mean, covariance = model.joint(queries)
    assert draws.shape == (40_000, 7)
    sd = np.sqrt(np.diagonal(covariance))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * sd / 200)
    error = np.sqrt((covariance**2 + np.outer(sd, sd) ** 2) / 40_000)
    assert np.all(np.abs(np.cov(draws.T) - covariance) < 5 * error)
    assert_allclose(draws[:, 4], draws[:, 6], atol=1e-12)  # one new item, twice


def test_kernels_are_split_into_own_values_and_the_rest():
    rbf = RBF(2.0)
    own, rest = split_own(ConstantKernel(0.3) * Independent() + rbf + Independent())
    assert own == pytest.approx(1.3)
    assert rest == rbf
    assert split_own(Independent()) == (1.0, None)
    assert split_own(rbf * Independent())[0] == 0.0
    X = np.random.default_rng(0).normal(size=(40, 2))
    kernel = ConstantKernel(0.3) * Independent() + rbf
    pivots = inducing_items(kernel, X, ManyItemsSettings())
    left = rbf(X) - rbf(X, X[pivots]) @ np.linalg.solve(rbf(X[pivots]), rbf(X[pivots], X))
    assert np.max(np.diagonal(left)) < 1e-3
    few = inducing_items(kernel, X, ManyItemsSettings(inducing=3))
    assert len(few) == 3


def test_the_most_compared_items_are_those_of_the_dense_part():
    """A complete graph of 8 items, and a long tail of items that were compared twice."""
    dense = [(a, b) for a in range(8) for b in range(a)]
    tail = [(k, k + 1) for k in range(8, 40)] + [(7, 8)]
    pairs = np.array(dense + tail)[np.random.default_rng(0).permutation(len(dense) + len(tail))]
    found = encode_outcomes(None, None, len(pairs))
    observed = merge_comparisons(pairs, found, 41, swapped=True)
    some, among = most_compared(observed, 8)
    assert some.tolist() == list(range(8))
    assert among.projection.shape == (28, 8)
    everything, same = most_compared(observed, 41)
    assert len(everything) == 41
    assert_allclose(same.projection.matrix.toarray(), observed.projection.matrix.toarray())


def test_auto_is_dense_for_few_items_and_sparse_for_many():
    _, _, pairs, outcomes = comparisons(301, 400)
    fast = {"optimizer": None, "random_state": 0}
    assert PreferenceGP("independent", **fast).fit(301, pairs, outcomes).solver_ == "sparse"
    assert PreferenceGP("independent", **fast).fit(1301, pairs, outcomes).solver_ == "sparse"
    small = pairs[(pairs < 300).all(axis=1)]
    assert PreferenceGP("independent", **fast).fit(300, small).solver_ == "dense"
    laplace = PreferenceGP("independent", inference="laplace", **fast)
    assert laplace.fit(301, pairs, outcomes).solver_ == "dense"


def test_the_solver_is_checked():
    _, _, pairs, outcomes = comparisons(20, 30)
    with pytest.raises(ValueError, match="solver must be one of"):
        PreferenceGP(solver="fast").fit(20, pairs, outcomes)
    with pytest.raises(ValueError, match="needs inference='ep'"):
        PreferenceGP(solver="sparse", inference="laplace").fit(20, pairs, outcomes)
    with pytest.raises(ValueError, match="comparisons of two items"):
        PreferenceGP(solver="sparse").fit_relations([[0.0], [1.0], [3.0]], [[1, -2, 1]])
    *_, thin = learned("sparse", n=30)
    with pytest.raises(ValueError, match="no gradient in the hyperparameters of a kernel"):
        thin.log_marginal_likelihood(eval_gradient=True)


def test_models_of_many_items_are_saved(tmp_path):
    X, *_, thin = learned("sparse", n=60)
    thin.save(tmp_path / "model.ogp")
    again = ordinalgp.load(tmp_path / "model.ogp")
    assert again.solver_ == "sparse"
    queries = np.concatenate([X, X + 0.1])
    assert_allclose(again.predict(queries), thin.predict(queries), rtol=0, atol=1e-12)
    assert_allclose(
        again.latent_mean_and_covariance(queries)[1],
        thin.latent_mean_and_covariance(queries)[1],
        rtol=0,
        atol=1e-12,
    )
    assert_allclose(again.rank(queries).best_proba, thin.rank(queries).best_proba)


def test_inconsistent_models_of_many_items_are_refused(tmp_path):
    *_, thin = learned("sparse", n=60)
    model = thin._result.model
    shorter = replace(model.sites, tau=model.sites.tau[:-1], nu=model.sites.nu[:-1])
    parts = model.task, shorter, model.summary, model.search_items
    with pytest.raises(ValueError, match="disagree"):
        type(model).restored(*parts, derive=True)


@pytest.mark.parametrize("seed", range(3))
def test_sparse_linear_algebra_equals_choix(seed, monkeypatch):
    choix = pytest.importorskip("choix")
    ep = choix.ep
    monkeypatch.setattr(ep, "_converged", functools.partial(ep._converged, threshold=1e-11))
    n, alpha = 25, 0.3
    _, _, pairs, outcomes = comparisons(n, 60, seed=seed)
    wins = np.where((outcomes > 0)[:, None], pairs, pairs[:, ::-1])
    # choix's probit has unit noise on the difference and the prior variance 1 / alpha.
    mean, covariance = choix.ep_pairwise(n, wins.tolist(), alpha, model="probit", max_iter=1000)
    model = PreferenceGP("independent", noise=np.sqrt(alpha / 2), tol=1e-10, solver="sparse")
    found, joint = model.fit(n, wins).latent_mean_and_covariance(n)
    assert_allclose(found / np.sqrt(alpha), mean, atol=1e-6)
    assert_allclose(joint / alpha, covariance, atol=1e-6)


def test_rankings_are_as_near_to_the_truth_as_those_of_choix():
    """choix is told the true noise, as the prior precision of its logistic model; we learn it."""
    choix = pytest.importorskip("choix")
    n, noise = 400, 0.5
    agreement = []
    for seed in range(3):
        _, f, pairs, outcomes = comparisons(n, 1600, noise=noise, seed=seed)
        ours = PreferenceGP("independent", random_state=0).fit(n, pairs, outcomes)
        assert ours.solver_ == "sparse"
        wins = np.where((outcomes > 0)[:, None], pairs, pairs[:, ::-1])
        theirs = choix.opt_pairwise(n, wins.tolist(), alpha=3 * noise**2 / np.pi**2)
        agreement.append([kendalltau(each, f)[0] for each in (ours.predict(n), theirs)])
    mean = np.mean(agreement, axis=0)
    assert mean[0] > mean[1] - 0.005


def test_many_items_cost_few_dense_factorisations_and_report_progress():
    """A ranking of 2,100 items against Cholesky factors of 2,100 x 2,100, in processor time."""
    n = 2100
    _, f, pairs, outcomes = comparisons(n, 3200)
    began = time.process_time()
    with one_thread():
        for _ in range(3):
            np.linalg.cholesky(np.eye(n) + 0.1)
    factorisation = (time.process_time() - began) / 3
    seen = []
    began = time.process_time()
    with listening(seen.append), one_thread():
        model = PreferenceGP("independent", random_state=0).fit(n, pairs, outcomes)
        ranking = model.rank(n)
    ratio = (time.process_time() - began) / factorisation
    # Measured: 8 to 13, most of them draws. With dense matrices the fit alone took 195.
    assert ratio < 60
    texts = [each.text for each in seen]
    assert any("the 1000 most compared of 2100 items" in text for text in texts)
    assert any("inference, sweep 1 over" in text for text in texts)
    assert "10000 of 10000 draws" in texts[-1]
    assert_allclose(ranking.best_proba.sum(), 1.0)
    assert kendalltau(model.predict(n), f)[0] > 0.5
