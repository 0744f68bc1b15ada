"""Mixtures: what they are made of, what they predict, what they survive."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.gp.common import LEVELS, in_levels, make_data
from tests.gp.test_scikit_learn import NEEDS_AN_ORDER

from ordinalgp import (
    LeastSquaresOrdinalClassifier,
    OrdinalGPClassifier,
    OrdinalSVC,
    SequentialOrdinalGP,
    StackedOrdinalGP,
    load,
)
from ordinalgp.kernels import Additive, Exponential
from ordinalgp.metrics import log_score
from ordinalgp.runtime.progress import listening
from ordinalgp.stacking.default_models import SHARP, default_models
from ordinalgp.stacking.training import Candidate, Rows, StackingSettings
from ordinalgp.tables.summary import meaning_of_weights


def gp(kernel=None, **options):
    return OrdinalGPClassifier(kernel, **{"optimizer": None, **options})


def quick(**options):
    models = {
        "smooth": gp(RBF(1.5)),
        "rough": gp(Exponential(2.0)),
        "sequential": SequentialOrdinalGP(RBF(1.5), optimizer=None),
    }
    return StackedOrdinalGP(models, **options)


@parametrize_with_checks([quick()], expected_failed_checks=lambda estimator: NEEDS_AN_ORDER)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# ------------------------------------------------------------------------------ the mixture


def test_the_mixture_is_the_sharpened_weighted_mean():
    X, y = make_data(n=40)
    model = quick(shrinkage=3.0).fit(X, y)
    alone = {name: clone(each).fit(X, y) for name, each in model.models.items()}
    assert model.weights_.keys() == alone.keys()
    assert_allclose(sum(model.weights_.values()), 1)
    new = np.random.default_rng(1).normal(size=(7, 2))
    for method, rows in (("category_proba", [new]), ("predict_proba", [new]), ("loo_proba", [])):
        parts = [w * getattr(alone[name], method)(*rows) for name, w in model.weights_.items()]
        power = sum(parts) ** model.sharpness_
        power /= power.sum(axis=1, keepdims=True)
        assert_allclose(getattr(model, method)(*rows), power, atol=1e-10)
    assert_allclose(model.loo_log_score_, log_score(y, model.loo_proba(), categories=[0, 1, 2]))


def test_weights_go_where_the_left_out_rows_are_predicted():
    X, y = make_data(n=80, noise=0.1)
    models = {"good": gp(RBF(1.5)), "poor": gp(RBF(0.01))}
    free = StackedOrdinalGP(models, shrinkage=0.0).fit(X, y)
    assert free.weights_["good"] > 0.95
    equal = StackedOrdinalGP(models, shrinkage=1e8).fit(X, y)
    assert_allclose(list(equal.weights_.values()), 0.5, atol=1e-3)


def test_models_without_weight_are_not_kept(tmp_path):
    X, y = make_data(n=80, noise=0.1)
    models = {"poor": gp(RBF(0.001)), "good": gp(RBF(1.5))}
    model = StackedOrdinalGP(models, shrinkage=0.0).fit(X, y)
    assert model.weights_ == {"poor": 0.0, "good": 1.0}
    assert list(model.models_) == ["good"]
    assert_allclose(model.predict_proba(X), model.models_["good"].predict_proba(X))
    model.save(tmp_path / "model.ogp")
    loaded = load(tmp_path / "model.ogp")
    assert loaded.weights_ == model.weights_
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_levels_with_words_and_absent_levels():
    X, y = make_data(n=40)
    order = ["never", *LEVELS]
    model = quick(categories=order).fit(X, in_levels(y))
    assert model.categories_.tolist() == order
    assert model.classes_.tolist() == sorted(LEVELS)
    assert model.category_proba(X).shape == (40, 4)
    assert_allclose(model.category_proba(X).sum(axis=1), 1)
    assert model.loo_proba().shape == (40, 3)
    for part in model.models_.values():
        assert part.categories_.tolist() == order
    numbers = quick(categories=[-1, 0, 1, 2]).fit(X, y)
    assert_allclose(numbers.category_proba(X), model.category_proba(X), atol=1e-10)


def test_weights_are_copies():
    X, y = make_data(n=25)
    copies = np.random.default_rng(0).integers(1, 4, 25)
    weighted = quick().fit(X, y, copies)
    repeated = quick().fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    assert_allclose(weighted.category_proba(X), repeated.category_proba(X), atol=1e-6)
    loo = np.repeat(weighted.loo_proba(), copies, axis=0)
    assert_allclose(loo, repeated.loo_proba(), atol=1e-6)
    assert_allclose(weighted.loo_log_score_, repeated.loo_log_score_, atol=1e-6)


def test_rows_of_weight_zero_have_no_part():
    X, y = make_data(n=40)
    weights = np.where(np.arange(40) % 5, 1.0, 0.0)
    used = weights > 0
    model, without = quick().fit(X, y, weights), quick().fit(X[used], y[used])
    assert_allclose(model.predict_proba(X), without.predict_proba(X), atol=1e-8)
    assert_allclose(model.loo_proba()[~used], model.predict_proba(X[~used]), atol=1e-8)
    assert_allclose(model.loo_log_score_, without.loo_log_score_, atol=1e-8)


def test_models_in_parallel_are_the_same():
    X, y = make_data(n=30)
    one, two, seen = quick().fit(X, y), quick(n_jobs=2), []
    with listening(seen.append):
        two.fit(X, y)
    assert_allclose(two.predict_proba(X), one.predict_proba(X), atol=1e-8)
    assert [(p.stage, p.step, p.total) for p in seen[:3]] == [("model", k, 3) for k in (1, 2, 3)]
    assert seen[-1].done
    assert seen[-1].text.startswith("weights: smooth 0.")


def test_the_default_models(tmp_path):
    X, y = make_data(n=50, d=3)
    model = StackedOrdinalGP(random_state=0).fit(X, y)
    assert model.weights_.keys() == default_models(3).keys()
    assert model.score(X, y) > 0.8
    model.save(tmp_path / "model.ogp")
    assert_array_equal(load(tmp_path / "model.ogp").predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_sharp_models_are_for_rows_without_noise(noise):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (90, 3)) + 0.01 * rng.normal(size=(90, 3))
    y = ((X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)).astype(int)
    y = np.where(rng.random(90) < noise / 3, 1 - y, y)
    seen = []
    with listening(seen.append):
        model = StackedOrdinalGP(random_state=0).fit(X, y)
    fitted = {p.text for p in seen if not p.done}
    assert set(SHARP) <= default_models(3).keys() == model.weights_.keys()
    assert (set(SHARP) <= fitted) == (noise == 0.0)
    assert sum(model.weights_[name] > 0 for name in SHARP) == (len(SHARP) if noise == 0.0 else 0)


def test_the_default_models_follow_the_scale_of_the_inputs():
    X, y = make_data(n=50, d=3)
    plain = StackedOrdinalGP(random_state=0).fit(X, y)
    scaled = StackedOrdinalGP(random_state=0).fit(1e4 * X, y)
    assert_allclose(scaled.predict_proba(1e4 * X), plain.predict_proba(X), atol=0.02)


def towns(n=24, seed=0):
    """A number, a town of four as 0/1 features, and a switch; levels of all three."""
    rng = np.random.default_rng(seed)
    number, town, switch = rng.normal(size=n), rng.integers(0, 4, n), rng.integers(0, 2, n)
    u = number + np.array([-1.0, 0.0, 1.0, 0.0])[town] + switch * number
    X = np.column_stack([number, np.eye(4)[town], switch])
    return X, np.digitize(u + 0.3 * rng.normal(size=n), [-1.0, 1.0])


def test_features_of_a_column_share_their_length_scale(tmp_path):
    X, y = towns()
    groups = ["number", *4 * ["town"], "switch"]
    model = StackedOrdinalGP(feature_groups=groups, random_state=0).fit(X, y)
    sizes = {name: each.kernel.n_dims for name, each in model.models_.items()}
    alone = {name: each.kernel.n_dims for name, each in default_models(3).items()}
    assert sizes == {name: alone[name] for name in sizes}  # as many as three features have
    assert len(sizes) > 3
    model.save(tmp_path / "model.ogp")
    loaded = load(tmp_path / "model.ogp")
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.feature_groups == groups
    # Other names and another order of the features are the same columns.
    order = [3, 0, 5, 2, 4, 1]
    other = StackedOrdinalGP(feature_groups=[1, 7, 0, 1, 1, 1], random_state=0)
    again = other.fit(X[:, order], y).predict_proba(X[:, order])
    assert_allclose(again, model.predict_proba(X), atol=2e-3)


def test_columns_of_single_features_change_nothing():
    X, y = make_data(n=12, d=2)
    plain, named = (
        StackedOrdinalGP(feature_groups=groups, random_state=0).fit(X, y)
        for groups in (None, ["b", "a"])
    )
    assert_array_equal(named.predict_proba(X), plain.predict_proba(X))
    assert_array_equal(named.loo_proba(), plain.loo_proba())


def test_columns_that_do_not_fit():
    X, y = towns()
    with pytest.raises(ValueError, match=r"feature_groups has shape \(2,\), but X has 6 features"):
        StackedOrdinalGP(feature_groups=[0, 1]).fit(X, y)
    with pytest.raises(ValueError, match=r"only the default models use it.*PerColumn"):
        quick(feature_groups=[0, 1]).fit(X[:, :2], y)


STRANGE = {
    "a row per level": (np.random.default_rng(0).normal(size=(6, 3)), np.arange(6)),
    "constant columns": (
        np.column_stack([np.full((30, 2), 7.0), np.arange(30)]),
        np.arange(30) % 2,
    ),
    "more columns than rows": (np.random.default_rng(0).normal(size=(8, 60)), np.arange(8) % 3),
    "far from zero": (1e9 + np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_the_default_models_on_strange_rows(kind):
    X, y = STRANGE[kind]
    model = StackedOrdinalGP(random_state=0).fit(X, y)
    for proba in (model.category_proba(X), model.category_proba(1e3 * X), model.loo_proba()):
        assert_allclose(proba.sum(axis=1), 1)
        assert np.all(proba >= 0)
    assert np.isfinite(model.loo_log_score_)


# -------------------------------------------------------------------------- what may fail


class Broken(BaseEstimator):
    """A classifier of someone else's, with a fault."""

    def __init__(self, fault="raises"):
        self.fault = fault

    def fit(self, X, y, sample_weight=None):
        if self.fault == "raises":
            raise RuntimeError("no luck today")
        self.classes_, self.n = np.unique(y), len(X)
        return self

    def loo_proba(self):
        value = {"nan": np.nan, "negative": -1.0}.get(self.fault, 0.5)
        return np.full((self.n, len(self.classes_)), value)

    def category_proba(self, X):
        columns = 1 if self.fault == "columns" else len(self.classes_)
        return np.full((len(X), columns), 1 / len(self.classes_))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("raises", "RuntimeError: no luck today"),
        ("nan", "probabilities are not finite"),
        ("negative", "probabilities are not finite"),
        ("columns", "category_proba has 1 columns, not 3"),
    ],
)
def test_a_model_that_fails_does_not_fail_the_mixture(fault, reason):
    X, y = make_data(n=30)
    with pytest.warns(UserWarning, match=f"have no weight: 'bad' .*{reason}"):
        model = StackedOrdinalGP({"bad": Broken(fault), "good": gp(RBF(1.0))}).fit(X, y)
    assert model.weights_ == {"bad": 0.0, "good": 1.0}
    with pytest.raises(ValueError, match=f"None of the models could be fitted: 'bad' .*{reason}"):
        StackedOrdinalGP({"bad": Broken(fault)}).fit(X, y)


def test_models_of_others_take_part_but_are_not_saved(tmp_path):
    X, y = make_data(n=30)
    model = StackedOrdinalGP({"own": Broken("none"), "gp": gp(RBF(1.0))}, shrinkage=1e6).fit(X, y)
    assert model.weights_["own"] > 0.4
    with pytest.raises(TypeError, match="Broken"):
        model.save(tmp_path / "model.ogp")


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ([gp()], "models must be a dict of names and estimators"),
        ({}, "models must be a dict of names and estimators"),
        ({"svm": OrdinalSVC()}, "with loo_proba and category_proba, but 'svm' is OrdinalSVC"),
        ({"class": OrdinalGPClassifier}, "but 'class' is"),
        ({1: gp()}, "but 1 is"),
    ],
)
def test_bad_models(models, message):
    with pytest.raises(TypeError, match=message):
        StackedOrdinalGP(models).fit(*make_data())


def test_bad_shrinkage():
    with pytest.raises(ValueError, match="shrinkage must be a number of at least 0"):
        quick(shrinkage=-1.0).fit(*make_data())


# ------------------------------------------------------------------------------- more rows


def staged(model, **limits):
    model._settings = replace(StackingSettings(), **limits)
    return model


def rows_of(n=200, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.choice(4, n, p=[0.6, 0.3, 0.09, 0.01])
    codes[:4] = range(4)
    return Rows(rng.normal(size=(n, 2)), codes, np.ones(n), np.arange(4))


def test_a_subset_has_every_level_in_its_proportion():
    rows = rows_of()
    places = rows.drawn(50, np.random.RandomState(0))
    assert len(np.unique(places)) == 50
    found, wanted = (np.bincount(c, minlength=4) for c in (rows.codes[places], rows.codes))
    assert np.all(found >= 1)
    assert_allclose(found, wanted / 4, atol=1.5)


def test_equal_rows_are_merged_before_rows_are_counted():
    rows = rows_of(30)
    copies = np.random.default_rng(0).integers(0, 3, 30)
    weighted = replace(rows, weights=copies.astype(float))
    repeated = rows.take(np.repeat(np.arange(30), copies))
    (one, where), (two, _) = weighted.merged(), repeated.merged()
    assert_array_equal(one.X, two.X)
    assert_array_equal(one.weights, two.weights)
    assert_array_equal(where < 0, copies == 0)
    assert_array_equal(one.X[where[copies > 0]], rows.X[copies > 0])


def test_searches_on_all_rows_begin_at_the_subset():
    X, y = make_data(n=120, noise=0.5)
    models = {
        "gp": OrdinalGPClassifier(),
        "sequential": SequentialOrdinalGP(),
        "poor": gp(RBF(0.01)),
        "least squares": LeastSquaresOrdinalClassifier(Matern(nu=1.5)),
    }
    seen = []
    model = staged(StackedOrdinalGP(models, random_state=0), full_rows=100, screen_rows=60)
    with listening(seen.append):
        model.fit(X, y)
    assert [p.text for p in seen[:4]] == [f"{name} on 60 rows" for name in models]
    assert model.weights_["poor"] == 0
    whole = OrdinalGPClassifier().fit(X, y)
    warm = model.models_["gp"]
    assert warm.kernel is None
    assert not hasattr(warm, "_start") or warm._start is None
    value = warm.log_marginal_likelihood_value_
    assert_allclose(value, whole.log_marginal_likelihood_value_, atol=0.05)
    assert len(warm.evidence_path_) < len(whole.evidence_path_) + 5
    steps = SequentialOrdinalGP().fit(X, y)
    value = model.models_["sequential"].log_marginal_likelihood_value_
    assert_allclose(value, steps.log_marginal_likelihood_value_, atol=0.2)


def test_many_rows_are_mixed_on_a_subset(tmp_path):
    X, y = make_data(n=400, noise=0.5, r=3)
    limits = {"full_rows": 60, "screen_rows": 50, "exact_rows": 100, "judge_rows": 150}
    models = {
        "gp": OrdinalGPClassifier(RBF(1.5)),
        "sequential": SequentialOrdinalGP(RBF(1.5)),
        "additive": OrdinalGPClassifier(Additive(1.0), inducing=None),
    }
    model = staged(StackedOrdinalGP(models, random_state=0), **limits).fit(X, y)
    assert_allclose(sum(model.weights_.values()), 1)
    assert model.loo_proba().shape == (400, 3)
    assert_allclose(model.loo_proba().sum(axis=1), 1)
    new, levels = make_data(n=400, noise=0.5, r=3, seed=1)
    whole = OrdinalGPClassifier().fit(X, y)
    scores = [
        log_score(levels, m.category_proba(new), categories=[0, 1, 2]) for m in (model, whole)
    ]
    assert scores[0] < scores[1] + 0.05
    assert_allclose(model.loo_log_score_, scores[0], atol=0.15)
    model.save(tmp_path / "model.ogp")
    assert_array_equal(load(tmp_path / "model.ogp").loo_proba(), model.loo_proba())


def test_many_rows_of_weight_zero_are_predicted_like_new_ones():
    X, y = make_data(n=150)
    weights = np.where(np.arange(150) < 130, 1.0, 0.0)
    limits = {"full_rows": 50, "screen_rows": 40, "exact_rows": 80}
    model = staged(quick(random_state=0), **limits).fit(X, y, sample_weight=weights)
    assert_allclose(model.loo_proba()[130:], model.predict_proba(X[130:]), atol=1e-12)
    moved = np.abs(model.loo_proba() - model.predict_proba(X)).max(axis=1)
    assert np.sum(moved > 1e-6) >= 40  # of the 80 rows that the models know


def test_a_candidate_leaves_out_the_rows_that_it_knows():
    X, _ = make_data(n=20)
    model = OrdinalGPClassifier(RBF(1.0), optimizer=None).fit(X[[2, 5, 7, 9, 11]], [0, 1, 2, 1, 0])
    left_out = model.loo_proba()
    candidate = Candidate("one", model, np.array([2, 5, 7, 9, 11]), left_out)
    places = np.array([9, -1, 2, 8, 9])
    found = candidate.unseen(X[places], places)
    assert_array_equal(found[[0, 2, 4]], left_out[[3, 0, 3]])
    assert_array_equal(found[[1, 3]], model.category_proba(X[[-1, 8]]))


def test_leave_one_out_of_very_many_rows_is_not_kept():
    X, y = make_data(n=150)
    model = staged(
        quick(random_state=0), full_rows=50, screen_rows=40, exact_rows=80, kept_rows=100
    )
    model.fit(X, y)
    with pytest.raises(ValueError, match="kept up to 20,000 rows"):
        model.loo_proba()
    assert np.isfinite(model.loo_log_score_)


def test_effects_of_a_mixture_are_those_of_its_probabilities():
    X, y = make_data(n=30, d=2)
    models = {
        "smooth": OrdinalGPClassifier(RBF(1.5), optimizer=None),
        "steps": SequentialOrdinalGP(RBF(1.5), optimizer=None),
    }
    mixture = StackedOrdinalGP(models).fit(X, y)
    found = mixture.effects(X)
    varied = X.copy()
    varied[:, 1] = X[4, 1]
    own = mixture.category_proba(varied).mean(axis=0)
    assert_allclose(found.mean[4, 1], own, rtol=0, atol=1e-12)
    assert np.all(found.std > 0)


# ------------------------------------------------------------------------- what weights mean


@pytest.mark.parametrize(
    ("weights", "prior", "meaning"),
    [
        ((0.5, 0.5), (1.0, 1.0), "about equally well"),
        ((0.3, 0.7), (1.0, 1.0), "does not fit well"),
        ((0.7, 0.3), (1.0, 1.0), "one scale for all levels fits well"),
        ((0.7, 0.3), (3.0, 1.0), "about equally well"),  # 7/3 to 3 once both count the same
        ((0.5, 0.5), (3.0, 1.0), "does not fit well"),
        ((0.9, 0.1), (3.0, 1.0), "one scale for all levels fits well"),
    ],
)
def test_a_sentence_says_what_weights_mean(weights, prior, meaning):
    names = "smooth", "sequential"
    models = OrdinalGPClassifier(), SequentialOrdinalGP()
    fitted = SimpleNamespace(
        weights_=dict(zip(names, weights, strict=True)),
        prior_weights_=dict(zip(names, prior, strict=True)),
        models_=dict(zip(names, models, strict=True)),
    )
    said = meaning_of_weights(fitted)
    assert said.startswith(f"Sequential models have {100 * weights[1]:.0f} % of the weight: ")
    assert meaning in said


def test_prior_weights_are_equal_for_models_of_ones_own():
    X, y = make_data(n=30)
    assert set(quick().fit(X, y).prior_weights_.values()) == {1.0}
    prior = StackedOrdinalGP(random_state=0).fit(X, y).prior_weights_
    assert prior["smooth thresholds"] == 3 * prior["smooth sequential"]
