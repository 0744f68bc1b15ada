"""CollaborativeOrdinalGP: its limits, its ids, its errors, and what it saves."""

import io
import json
import time
import zipfile

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from tests.reference.draws import normal_draws

import ordinalgp
from ordinalgp import CollaborativeOrdinalGP, OrdinalGPClassifier, load
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.runtime.progress import listening

pytestmark = pytest.mark.filterwarnings(
    "ignore:EM still gained:sklearn.exceptions.ConvergenceWarning"
)


def simulate(n=8, m=12, seed=0, levels=4, share=0.6, noise=0.3):
    """Long-format ratings of one taste with personal deviations, and item features."""
    rng = np.random.default_rng([seed, 1])
    X = rng.normal(size=(m, 2))
    K = RBF(1.5)(X) + 1e-9 * np.eye(m)
    h = 1.5 * normal_draws(rng, K)
    f = h + 0.7 * normal_draws(rng, K, n)
    cuts = np.quantile(f, np.arange(1, levels) / levels) + rng.normal(0, 0.2, (n, 1))
    y = 1 + np.sum((f + noise * rng.normal(size=f.shape))[:, :, None] > cuts[:, None], axis=2)
    raters, items = np.nonzero(rng.random(f.shape) < share)
    return raters, items, y[raters, items], X


FAST = {"tol": 1e-3, "max_iter": 15}


@pytest.fixture(scope="module")
def fitted():
    raters, items, ratings, X = simulate()
    return CollaborativeOrdinalGP(RBF(1.5), **FAST).fit(raters, items, ratings, X)


# ---------------------------------------------------------------------------- exact limits


def one_rater(seed, m, noise, max_iter=300):
    """GPOR and one rater's model of the same ratings, both with the same fixed prior."""
    _, items, ratings, X = simulate(1, m, seed=seed, levels=3, share=1.0, noise=noise)
    gpor = OrdinalGPClassifier(RBF(1.5, "fixed")).fit(X[items], ratings)
    options = {"prior": "fixed", "rater_smoothing": 0.0, "max_iter": max_iter, "tol": 1e-9}
    alone = CollaborativeOrdinalGP(RBF(1.5), **options).fit(["me"] * len(items), items, ratings, X)
    return gpor, alone


@pytest.mark.parametrize("seed", range(3))
def test_one_rater_with_a_fixed_prior_is_gpor(seed):
    """Thresholds and noise of one rater alone: the evidence's maximum of OrdinalGPClassifier.

    With 50 ratings and noise as large as the utility, the maximum is inside the bounds. EM creeps
    towards one at a bound of the noise, and gets no closer than 1e-3 in evidence in 300 steps.
    """
    gpor, alone = one_rater(seed, 50, noise=1.0)
    assert_allclose(alone.objective_path_[-1], gpor.log_marginal_likelihood_value_, atol=1e-4)
    new = np.random.default_rng(1).normal(size=(6, 2))
    ours = alone.predict_proba(
        ["me"] * 6,
        [f"new {i}" for i in range(6)],
        dict(zip([f"new {i}" for i in range(6)], new, strict=True)),
    )
    assert_allclose(ours, gpor.predict_proba(new), atol=5e-3)
    assert_allclose(alone.thresholds_["me"], gpor.thresholds_, atol=0.02 * gpor.noise_)


@pytest.mark.parametrize("seed", range(3))
def test_the_objective_of_one_rater_is_the_evidence(seed):
    """At the rater's own parameters, wherever EM stopped; never above the maximum."""
    gpor, alone = one_rater(seed, 25, noise=0.3, max_iter=30)
    b = alone.thresholds_["me"]
    theta = np.concatenate([[np.log(alone.noise_["me"]), b[0]], np.log(np.diff(b))])
    value = alone.objective_path_[-1]
    assert_allclose(value, gpor.log_marginal_likelihood(theta), atol=1e-4)
    assert np.all(np.diff(alone.objective_path_) > 0)
    assert value < gpor.log_marginal_likelihood_value_ + 1e-4


def test_probabilities_match_ratios_of_box_probabilities():
    K = np.array([[1.5, 0.8, 0.3], [0.8, 1.2, 0.5], [0.3, 0.5, 1.0]])
    raters, items, ratings = ["a", "a", "b"], [0, 1, 2], [1, 3, 2]
    model = CollaborativeOrdinalGP(K, max_iter=0).fit(raters, items, ratings)
    b = np.concatenate([[-30.0], model.thresholds_["a"], [30.0]])
    S = model.covariance_ + model.noise_["a"] ** 2 * np.eye(3)

    def probability(levels):
        i = np.arange(len(levels))
        lower, upper = b[np.array(levels) - 1], b[np.array(levels)]
        return multivariate_normal.cdf(upper, np.zeros(len(i)), S[np.ix_(i, i)], lower_limit=lower)

    exact = [probability([1, 3, level]) / probability([1, 3]) for level in (1, 2, 3)]
    assert_allclose(model.predict_proba(["a"], [2])[0], exact, atol=5e-3)


def test_gaussian_predictions_are_those_of_gaussian_conditioning():
    raters, items, ratings, X = simulate(5, 10)
    model = CollaborativeOrdinalGP(RBF(1.5), likelihood="gaussian", **FAST)
    model.fit(raters, items, ratings, X)
    own = raters == 2
    i, s = items[own], model.noise_[2]
    K, h = model.covariance_, model.mean_
    # items_ are 0..9 in order here
    gain = K[:, i] @ np.linalg.inv(K[np.ix_(i, i)] + s**2 * np.eye(len(i)))
    mean, var = model.latent_mean_and_variance([2] * 10, np.arange(10))
    assert_allclose(mean, h + gain @ (ratings[own] - h[i]), atol=1e-8)
    assert_allclose(var, np.diagonal(K - gain @ K[i]), atol=1e-8)


@pytest.mark.parametrize("likelihood", ["ordinal", "gaussian"])
@pytest.mark.parametrize("prior", ["fixed", "learned"])
def test_a_new_item_is_predicted_as_if_it_had_been_there_unrated(prior, likelihood):
    """The extension of section 5: given the fitted items, a new one follows the start."""
    raters, items, ratings, X = simulate(6, 10)
    known = items < 9
    options = {"prior": prior, "likelihood": likelihood, "covariance_smoothing": 5.0, "max_iter": 6}
    data = raters[known], items[known], ratings[known]
    there = CollaborativeOrdinalGP(RBF(1.5), tol=0.0, **options).fit(*data, X)
    later = CollaborativeOrdinalGP(RBF(1.5), tol=0.0, **options).fit(*data, X[:9])
    expected = there.latent_mean_and_variance(np.arange(6), [9] * 6)
    found = later.latent_mean_and_variance(np.arange(6), ["new"] * 6, {"new": X[9]})
    assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_learning_from_others_helps():
    """Held-out ratings of raters with few of their own are more probable."""
    raters, items, ratings, X = simulate(24, 20, seed=1, share=0.4)
    test = np.random.default_rng(0).random(len(raters)) < 0.3
    scores = {}
    for prior in ("fixed", "learned"):
        model = CollaborativeOrdinalGP(RBF(1.5), prior=prior, **FAST)
        model.fit(raters[~test], items[~test], ratings[~test], X)
        proba = model.category_proba(raters[test], items[test])
        scores[prior] = np.mean(np.log(proba[np.arange(test.sum()), ratings[test] - 1]))
    assert scores["learned"] > scores["fixed"] + 0.05


# ---------------------------------------------------------------------------- the long format


def test_ids_may_be_anything_and_their_order_does_not_matter():
    raters, items, ratings, _ = simulate(4, 6)
    plain = CollaborativeOrdinalGP(**FAST).fit(raters, items, ratings)
    names = {0: "zoe", 1: ("a", 1), 2: 7, 3: "b"}
    titles = [f"film {i}" for i in items]
    shuffle = np.random.default_rng(0).permutation(len(raters))
    who = [names[raters[k]] for k in shuffle]
    named = CollaborativeOrdinalGP(**FAST)
    named.fit(who, pd.Series([titles[k] for k in shuffle]), pd.Series(ratings[shuffle]))
    pairs = [(r, i) for r in range(4) for i in np.unique(items)]
    ours = named.predict_proba([names[r] for r, _ in pairs], [f"film {i}" for _, i in pairs])
    assert_allclose(ours, plain.predict_proba(*zip(*pairs, strict=True)), atol=1e-6)
    assert set(named.thresholds_) == set(names.values())


REPEATED = [0, 1, 1, 1, 2, 4, 4]  # item of each rating of one rater
STARS = np.array([2, 5, 4, 4, 1, 3, 2])
COVARIANCE = RBF(1.5)(np.arange(5.0)[:, None])


def test_repeated_ratings_are_rows_of_an_exact_gaussian_process():
    """One rater with a fixed prior is scikit-learn's regression with repeated rows."""
    options = {"likelihood": "gaussian", "prior": "fixed", "rater_smoothing": 1e9, "max_iter": 0}
    model = CollaborativeOrdinalGP(COVARIANCE, **options)
    model.fit(np.zeros(7, dtype=int), REPEATED, STARS)
    mean, var = model.latent_mean_and_variance(np.zeros(5, dtype=int), np.arange(5))
    exact = GaussianProcessRegressor(RBF(1.5), alpha=model.noise_[0] ** 2, optimizer=None)
    exact.fit(np.array(REPEATED, dtype=float)[:, None], STARS - STARS.mean())
    wanted, sd = exact.predict(np.arange(5.0)[:, None], return_std=True)
    assert_allclose(mean, wanted + STARS.mean(), rtol=1e-4)
    assert_allclose(var, sd**2, rtol=1e-3)


def test_repeated_ratings_are_copies_of_an_ordinal_process():
    """The same for levels, against the classifier that merges equal rows."""
    options = {"prior": "fixed", "rater_smoothing": 1e9, "max_iter": 0}
    model = CollaborativeOrdinalGP(COVARIANCE, **options)
    model.fit(np.zeros(7, dtype=int), REPEATED, STARS)
    likelihood = OrdinalProbit.from_thresholds(model.thresholds_[0], model.noise_[0])
    exact = OrdinalGPClassifier(RBF(1.5), likelihood=likelihood, optimizer=None)
    exact.fit(np.array(REPEATED, dtype=float)[:, None], STARS)
    ours = model.predict_proba(np.zeros(5, dtype=int), np.arange(5))
    assert_allclose(ours, exact.predict_proba(np.arange(5.0)[:, None]), atol=1e-5)


@pytest.mark.parametrize("likelihood", ["ordinal", "gaussian"])
def test_all_of_several_ratings_count(likelihood, tmp_path):
    raters, items, ratings, _ = simulate(4, 6)
    other = np.where(ratings == 1, 4, 1)
    three = ([*raters] * 3, [*items] * 3, [*other, *ratings, *ratings])
    options = {"likelihood": likelihood, "max_iter": 3, "tol": 1e-2}
    model = CollaborativeOrdinalGP(**options).fit(*three)
    assert sum(len(rater.index) for rater in model._result.raters) == 3 * len(raters)
    assert_array_equal(model._result.counts, np.bincount(three[2])[1:])
    # The order of ratings, first or last, makes no difference.
    turned = CollaborativeOrdinalGP(**options).fit(*(column[::-1] for column in three))
    ours, theirs = (each.predict_proba(raters, items) for each in (model, turned))
    assert_allclose(ours, theirs, atol=1e-6)
    model.save(tmp_path / "model.ogp")
    assert_array_equal(load(tmp_path / "model.ogp").predict_proba(raters, items), ours)


def test_an_added_rater_may_repeat_itself():
    raters, items, ratings, _ = simulate(6, 6)
    model = CollaborativeOrdinalGP(max_iter=2, tol=1.0).fit(raters, items, ratings)
    once = model.add_rater([items[0]], [4])
    often = model.add_rater([items[0]] * 4, [4] * 4)
    sd = [np.sqrt(model.latent_mean_and_variance([who], [items[0]])[1][0]) for who in (once, often)]
    assert sd[1] < 0.8 * sd[0]


def test_levels_may_be_half_stars_names_or_partly_unused():
    raters, items, ratings, _ = simulate(4, 6)
    stars = CollaborativeOrdinalGP(categories=np.arange(1, 11) / 2, max_iter=2)
    stars.fit(raters, items, ratings / 2)
    assert stars.category_proba(raters, items).shape == (len(raters), 10)
    assert set(stars.predict(raters, items)) <= set(np.arange(1, 11) / 2)
    assert np.all(np.diff(stars.thresholds_[0]) > 0)
    names = np.array(["bad", "fair", "good", "best"])
    named = CollaborativeOrdinalGP(categories=names, max_iter=2)
    named.fit(raters, items, names[ratings - 1])
    plain = CollaborativeOrdinalGP(max_iter=2).fit(raters, items, ratings)
    assert_allclose(named.category_proba(raters, items), plain.predict_proba(raters, items))
    order = [names.tolist().index(name) for name in named.classes_]
    assert_allclose(
        named.predict_proba(raters, items), plain.predict_proba(raters, items)[:, order]
    )
    assert list(named.predict(raters, items)) == list(names[plain.predict(raters, items) - 1])


@pytest.mark.parametrize("likelihood", ["ordinal", "gaussian"])
@pytest.mark.parametrize("rater_smoothing", [0.0, 5.0])
def test_thin_raters_and_unrated_items(likelihood, rater_smoothing):
    """One rating, one level only, and an item that nobody rated."""
    raters, items, ratings, X = simulate(4, 6)
    keep = items != 5
    raters = np.concatenate([raters[keep], [10, 11, 11, 11]])
    items = np.concatenate([items[keep], [0, 1, 2, 3]])
    ratings = np.concatenate([ratings[keep], [4, 2, 2, 2]])
    model = CollaborativeOrdinalGP(
        RBF(1.0), likelihood=likelihood, rater_smoothing=rater_smoothing, **FAST
    ).fit(raters, items, ratings, X)
    proba = model.predict_proba(np.repeat([10, 11], 6), np.tile(np.arange(6), 2))
    assert np.isfinite(proba).all()
    assert_allclose(proba.sum(axis=1), 1.0)
    assert np.isfinite(model.objective_path_).all()
    assert 5 in model.recommend(0, n=6)


def test_correlation_start_is_the_cosine_of_centred_ratings():
    others = pd.DataFrame(
        [[1.0, 5.0, np.nan], [2.0, 4.0, 1.0], [np.nan, 3.0, 5.0], [np.nan] * 3], index=list("abcd")
    )
    model = CollaborativeOrdinalGP(max_iter=0)
    model.fit(["r", "r", "s"], ["a", "b", "c"], [1, 2, 3], item_features=others)
    Z = (others - others.mean()).fillna(0.0).to_numpy()
    cosine = (Z[0] @ Z[1]) / np.linalg.norm(Z[0]) / np.linalg.norm(Z[1])
    assert_allclose(model.covariance_[0, 1], 0.5 * cosine + 0.3)
    assert_allclose(np.diagonal(model.covariance_), 1.3)
    assert_allclose(model.covariance_[3, :3], 0.3)
    assert list(model.items_) == list("abcd")


def test_a_matrix_is_taken_as_it_is():
    raters, items, ratings, X = simulate(4, 6)
    K = (ConstantKernel(2.0) * RBF(1.5))(X)
    by_matrix = CollaborativeOrdinalGP(K, max_iter=2).fit(raters, items, ratings)
    by_kernel = CollaborativeOrdinalGP(ConstantKernel(2.0) * RBF(1.5), max_iter=2)
    by_kernel.fit(raters, items, ratings, X)
    assert_allclose(by_matrix.predict_proba(raters, items), by_kernel.predict_proba(raters, items))
    frame = pd.DataFrame(K, index=[f"i{i}" for i in range(6)])
    named = CollaborativeOrdinalGP(frame, max_iter=2)
    named.fit(raters, [f"i{i}" for i in items], ratings)
    assert_allclose(named.covariance_, by_matrix.covariance_)


# ------------------------------------------------------------------------- recommend, add_rater


def test_recommend_sorts_unrated_items_by_expected_rating(fitted):
    raters, items, _, _ = simulate()
    mine = set(items[raters == 3])
    best = fitted.recommend(3, n=100)
    assert set(best) == set(range(12)) - mine
    assert np.all(np.diff(fitted.expected_rating([3] * len(best), best)) <= 0)
    assert list(fitted.recommend(3, n=2)) == list(best[:2])


def test_an_added_rater_equals_a_fitted_one_under_the_same_prior():
    """With a fixed prior and no sharing, a rater fitted with others or added later is the same."""
    raters, items, ratings, X = simulate(3)
    options = {"prior": "fixed", "rater_smoothing": 0.0, "tol": 1e-6, "max_iter": 60}
    everyone = CollaborativeOrdinalGP(RBF(1.5), categories=[1, 2, 3, 4], **options)
    everyone.fit(raters, items, ratings, X)
    others = clone(everyone).fit(*(c[raters != 2] for c in (raters, items, ratings)), X)
    before = others.predict_proba([0, 1], [3, 4])
    own = raters == 2
    assert others.add_rater(items[own], ratings[own], rater=2) == 2
    pairs = [2] * 12, np.arange(12)
    assert_allclose(others.predict_proba(*pairs), everyone.predict_proba(*pairs), atol=5e-3)
    assert_allclose(others.predict_proba([0, 1], [3, 4]), before, rtol=0)


def test_adding_a_rater_takes_less_than_an_iteration(fitted):
    raters, items, ratings, X = simulate(60, 12)
    model = CollaborativeOrdinalGP(RBF(1.5), max_iter=0)
    begin = time.process_time()
    model.fit(raters, items, ratings, X)
    once = time.process_time() - begin
    begin = time.process_time()
    new = [model.add_rater([1, 2, 3], [4, 1, 2]) for _ in range(3)]
    assert time.process_time() - begin < once
    assert new == [60, 61, 62]
    assert model.raters_[-1] == 62


def test_a_rater_without_ratings_is_typical(fitted):
    new = fitted.add_rater([], [], rater="nobody")
    mean, var = fitted.latent_mean_and_variance([new] * 12, np.arange(12))
    assert_allclose(mean, fitted.mean_)
    assert_allclose(var, np.diagonal(fitted.covariance_))


# ------------------------------------------------------------------------------- bad input

GOOD = ["a", "a", "b"], ["x", "y", "x"], [1, 2, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"raters": ["a", "b"]}, "different lengths .*raters 2, items 3, ratings 3"),
        ({"ratings": [1.0, np.nan, 2.0]}, "ratings must not have missing values, but row 1"),
        ({"ratings": [1.0, np.inf, 2.0]}, "ratings must be finite, but row 1"),
        ({"ratings": [2, 2, 2]}, "ratings has 1 class"),
        ({"ratings": ["low", "high", "low"]}, "ratings must say how its labels are ordered"),
        ({"raters": ["a", None, "b"]}, "raters must hold ids .* row 1 is None"),
        ({"items": [1.0, float("nan"), 2.0]}, "items must hold ids .* row 1 is nan"),
        ({"items": [["x"], ["y"], ["x"]]}, "items must hold ids .* row 0"),
        ({"raters": "aab"}, "raters must be a column of ids"),
        ({"item_features": {"x": [1.0]}}, "Unknown item 'y' in row 1 .* row for every rated item"),
        ({"item_features": {"x": [1.0], "y": [1.0, 2.0]}}, "one row for each item|inhomogeneous"),
        ({"item_features": {"x": [np.inf], "y": [1.0]}}, "finite, but those of item 'x'"),
    ],
)
def test_bad_ratings_are_explained(change, message):
    columns = dict(zip(("raters", "items", "ratings"), GOOD, strict=True)) | change
    with pytest.raises(ValueError, match=message):
        CollaborativeOrdinalGP().fit(**columns)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"kernel": "corelation"}, ValueError, "Did you mean 'correlation'"),
        ({"kernel": 3}, TypeError, "kernel must be one scikit-learn kernel"),
        ({"kernel": RBF()}, ValueError, "item_features is None"),
        ({"kernel": np.ones((2, 3))}, ValueError, "must be square"),
        ({"kernel": -np.eye(3)}, ValueError, "positive definite"),
        ({"likelihood": "poisson"}, ValueError, "likelihood must be one of"),
        ({"prior": "free"}, ValueError, "prior must be one of"),
        ({"rater_smoothing": -1}, ValueError, "rater_smoothing must be a number of at least"),
        ({"covariance_smoothing": "m"}, ValueError, "covariance_smoothing must be a number"),
        ({"decision": "best"}, ValueError, "decision rule must be one of"),
        ({"max_iter": 10.0}, ValueError, "max_iter must be a whole number, but is 10.0"),
    ],
)
def test_bad_parameters_are_explained(options, error, message):
    with pytest.raises(error, match=message):
        CollaborativeOrdinalGP(**options).fit(["a", "a", "b"], [0, 1, 0], [1, 2, 3])


def test_unknown_ids_and_levels_are_explained(fitted):
    with pytest.raises(ValueError, match=r"Unknown rater 'who' in row 1 .*add_rater"):
        fitted.predict([0, "who"], [1, 1])
    with pytest.raises(ValueError, match=r"Unknown item 99 in row 0 .*item_features"):
        fitted.predict([0], [99])
    with pytest.raises(ValueError, match=r"Unknown item 99 .*Give its item_features"):
        fitted.predict([0], [99], {98: [0.0, 0.0]})
    with pytest.raises(ValueError, match="must have 2 columns as in fit, but have 1"):
        fitted.predict([0], [99], {99: [0.0]})
    with pytest.raises(ValueError, match="Unknown rater 'who'"):
        fitted.recommend("who")
    with pytest.raises(ValueError, match="Unknown level 9"):
        fitted.add_rater([0], [9])
    with pytest.raises(ValueError, match="Rater 0 is known already"):
        fitted.add_rater([0], [1], rater=0)
    with pytest.raises(ValueError, match="different lengths"):
        fitted.predict([0, 1], [1])
    with pytest.raises(NotFittedError):
        CollaborativeOrdinalGP().predict([0], [0])


def test_a_failed_fit_leaves_the_old_model_whole(fitted):
    before = fitted.predict_proba([0, 1], [2, 3])
    with pytest.raises(ValueError):
        fitted.fit([1], [2], [np.nan])
    assert_allclose(fitted.predict_proba([0, 1], [2, 3]), before, rtol=0)


@pytest.mark.filterwarnings("default")
def test_an_unfinished_fit_warns(capsys):
    raters, items, ratings, _ = simulate(4, 6)
    with pytest.warns(ConvergenceWarning, match=r"EM still gained .* Raise max_iter") as caught:
        model = CollaborativeOrdinalGP(max_iter=1, tol=0.0, verbose=1).fit(raters, items, ratings)
    assert [warning.filename for warning in caught] == [__file__]
    assert not model.converged_
    assert model.n_iter_ == 1
    assert "iteration 1/1" in capsys.readouterr().err


def test_every_iteration_is_reported(capsys):
    raters, items, ratings, _ = simulate(4, 6)
    steps = []
    with listening(steps.append):
        model = CollaborativeOrdinalGP(max_iter=3, tol=0.0).fit(raters, items, ratings)
    assert [(step.stage, step.step, step.total) for step in steps] == [
        ("em", iteration, 3) for iteration in range(4)
    ]
    assert_allclose([step.value for step in steps], model.objective_path_, rtol=0)
    assert [step.done for step in steps] == [False, False, False, True]
    assert capsys.readouterr().err == ""


# ---------------------------------------------------------------------- saving and workers


@pytest.mark.parametrize("likelihood", ["ordinal", "gaussian"])
def test_a_saved_model_gives_the_same_numbers(likelihood, tmp_path):
    raters, items, ratings, X = simulate(4, 6)
    who = [("r", int(r)) if r else "first" for r in raters]
    features = {f"i{i}": x for i, x in enumerate(X)}
    model = CollaborativeOrdinalGP(RBF(1.5), likelihood=likelihood, **FAST)
    model.fit(who, [f"i{i}" for i in items], ratings, features)
    model.add_rater(["i1"], [2], rater="late")
    model.add_rater([], [], rater="empty")
    model.save(tmp_path / "model.ogp")
    loaded = ordinalgp.load(tmp_path / "model.ogp")
    pairs = ["first", ("r", 2), "late", "empty", "first"], ["i0", "i5", "i3", "i2", "new"]
    new = {"new": [0.3, 0.1]}
    assert np.array_equal(loaded.predict_proba(*pairs, new), model.predict_proba(*pairs, new))
    assert list(loaded.recommend("late", 3)) == list(model.recommend("late", 3))
    assert loaded.thresholds_.keys() == model.thresholds_.keys()
    assert np.array_equal(loaded.objective_path_, model.objective_path_)
    one, two = (each.add_rater(["i4", "i2"], [1, 3], rater="z") for each in (model, loaded))
    assert one == two
    assert np.array_equal(loaded.thresholds_["z"], model.thresholds_["z"])


def test_parameters_changed_after_fit_do_not_change_the_fit(tmp_path):
    raters, items, ratings, X = simulate(4, 6)
    model = CollaborativeOrdinalGP(RBF(1.5), likelihood="gaussian", **FAST)
    model.fit(raters, items, ratings, X)
    pairs = [0, 1, 2], [0, "new", 3], {"new": [0.3, 0.1]}
    before = model.predict_proba(*pairs)
    model.set_params(kernel__length_scale=9.0, likelihood="ordinal", rater_smoothing=0.0)
    model.save(tmp_path / "model.ogp")
    for each in (model, ordinalgp.load(tmp_path / "model.ogp")):
        assert np.array_equal(each.predict_proba(*pairs), before)


def edited(path, change):
    """A model file whose arrays and document went through ``change``."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    arrays = {
        name[len("arrays/result.") : -len(".npy")]: np.load(io.BytesIO(content))
        for name, content in members.items()
        if name.endswith(".npy")
    }
    document = json.loads(members["model.json"])
    change(document["result"]["fields"], arrays)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.json", json.dumps(document))
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array)
            archive.writestr(f"arrays/result.{name}.npy", buffer.getvalue())


def put(name, value):
    return lambda fields, arrays: arrays.update({name: value(arrays[name])})


def ids(fields, name):
    return fields[name]["fields"]["values"]["items"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put("begins", lambda a: a[::-1]), "ids, begins, gaps, levels"),
        (put("begins", lambda a: a + 1), "ids, begins, gaps, levels"),
        (put("begins", lambda a: a[:-1]), "ids, begins, gaps, levels"),
        (put("index", lambda a: a + 100), "index must lie from 0 to below 6"),
        (put("codes", lambda a: a + 100), "codes must lie from 0 to below 4"),
        (put("tau", lambda a: -1 - a), "tau must lie from 0.0"),
        (put("nu", lambda a: a + np.nan), "nu must lie from"),
        (put("noise", lambda a: 0 * a), "noise must lie from"),
        (put("gaps", lambda a: a[:, 1:]), "gaps has kind f and shape"),
        (put("classes", lambda a: a + 7), "ids, begins, gaps, levels"),
        (put("prior.covariance", lambda a: a[1:]), r"covariance has kind f and shape \(5, 6\)"),
        (put("prior.covariance", lambda a: -a), "is not positive definite"),
        (put("prior.covariance", lambda a: a + np.triu(a, 1)), "items is not symmetric"),
        (put("covariance.features", lambda a: a[1:]), r"features has kind f and shape \(5, 2\)"),
        (put("covariance.features", lambda a: a + np.nan), "the inputs and the rest of the model"),
        (put("noise", lambda a: a[:-1]), "has kind f and shape"),
        (put("paths", lambda a: a[:-1]), "the rest of the model disagree"),
        (lambda fields, _: ids(fields, "rater_ids").__setitem__(1, 0), "ids are repeated"),
        (lambda fields, _: ids(fields, "items").pop(), "ids, begins"),
        (lambda fields, _: ids(fields, "items").__setitem__(0, ["list"]), "unhashable"),
        (lambda fields, _: fields["shared"].update(tag="poisson"), "'poisson' is unknown"),
        (lambda fields, _: fields.update(shared=fields["items"]), "shared is not what it must be"),
        (lambda fields, _: fields["shared"]["fields"].pop("strength"), "unknown: .'strength'"),
    ],
)
def test_a_file_whose_parts_disagree_is_refused(change, reason, tmp_path):
    raters, items, ratings, X = simulate(4, 6)
    model = CollaborativeOrdinalGP(RBF(1.5), max_iter=0).fit(raters, items, ratings, X)
    model.save(tmp_path / "model.ogp")
    edited(tmp_path / "model.ogp", change)
    with pytest.raises(ValueError, match=rf"cannot be loaded: .*{reason}"):
        ordinalgp.load(tmp_path / "model.ogp")


@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_gives_the_same_numbers():
    distributed = pytest.importorskip("distributed", reason="dask is an extra")
    raters, items, ratings, X = simulate(6, 8)
    model = CollaborativeOrdinalGP(RBF(1.5), max_iter=3, tol=0.0)
    serial = clone(model).fit(raters, items, ratings, X)
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    )
    with cluster, distributed.Client(cluster), joblib.parallel_config(backend="dask"):
        there = clone(model).set_params(n_jobs=2).fit(raters, items, ratings, X)
    assert np.array_equal(there.objective_path_, serial.objective_path_)
    assert np.array_equal(there.covariance_, serial.covariance_)
    assert_allclose(there.predict_proba(raters, items), serial.predict_proba(raters, items), rtol=0)
