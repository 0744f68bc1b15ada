"""Metrics against loops, identities and scikit-learn; scorers inside its searches."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn import metrics as reference
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from ordinalgp import OrdinalSVC, metrics
from ordinalgp.metrics import make_ordinal_scorer

LEVELS = ["low", "mid", "high", "top"]  # not alphabetical
ON_LABELS = [
    metrics.zero_one_error,
    metrics.mean_absolute_error,
    metrics.macro_mean_absolute_error,
    metrics.weighted_kappa,
]
ON_PROBABILITIES = [metrics.ranked_probability_score, metrics.log_score]


@st.composite
def cases(draw):
    """True ranks, predicted ranks, probabilities and whole weights of a few rows of 4 levels."""
    n = draw(st.integers(4, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    true, predicted = rng.integers(0, 4, size=(2, n))
    true[:4] = rng.permutation(4)
    weights = rng.integers(0, 4, size=n)
    weights[0] = 1
    return true, predicted, rng.dirichlet(np.ones(4), size=n), weights


def test_every_metric_is_under_test_and_can_score():
    names = set(metrics.__all__) - {"OrdinalScorer", "make_ordinal_scorer"}
    assert {metric.__name__ for metric in ON_LABELS + ON_PROBABILITIES} == names
    assert {make_ordinal_scorer(name).metric for name in names} == names


@given(case=cases())
def test_errors_of_labels_are_those_of_a_loop(case):
    true, predicted, _, _ = case
    wrong = sum(t != p for t, p in zip(true, predicted, strict=True)) / len(true)
    distance = sum(abs(t - p) for t, p in zip(true, predicted, strict=True)) / len(true)
    assert metrics.zero_one_error(true, predicted) == pytest.approx(wrong)
    assert metrics.mean_absolute_error(true, predicted) == pytest.approx(distance)


@given(case=cases())
def test_macro_error_is_the_mean_of_the_errors_within_levels(case):
    true, predicted, _, _ = case
    levels = np.arange(4)
    each = [
        metrics.mean_absolute_error(true[true == k], predicted[true == k], categories=levels)
        for k in levels
    ]
    assert metrics.macro_mean_absolute_error(true, predicted) == pytest.approx(np.mean(each))


@given(case=cases())
def test_macro_error_is_the_plain_one_when_levels_are_balanced(case):
    _, predicted, _, _ = case
    true = np.arange(4).repeat(3)
    predicted = np.resize(predicted, 12)
    assert_allclose(
        metrics.macro_mean_absolute_error(true, predicted),
        metrics.mean_absolute_error(true, predicted),
    )


@given(case=cases())
def test_ranked_probability_score_is_the_energy_form(case):
    """Sum over thresholds = E|Y - y| - E|Y - Y'| / 2 for independent Y, Y' of the prediction."""
    true, _, table, _ = case
    gaps = np.abs(np.subtract.outer(range(4), range(4)))
    energy = [row @ gaps[t] - row @ gaps @ row / 2 for t, row in zip(true, table, strict=True)]
    score = metrics.ranked_probability_score(true, table, categories=range(4))
    assert score == pytest.approx(np.mean(energy) / 3)


def test_ranked_probability_score_of_two_levels_is_the_brier_score():
    y, p = np.array([0, 1, 1, 0]), np.array([0.1, 0.7, 0.4, 0.9])
    ours = metrics.ranked_probability_score(y, np.column_stack([1 - p, p]))
    assert ours == pytest.approx(reference.brier_score_loss(y, p))


def test_ranked_probability_score_runs_from_zero_to_one():
    score = metrics.ranked_probability_score
    assert score([1, 2, 3], np.eye(3)) == 0
    assert score([1], [[0, 0, 1]], categories=[1, 2, 3]) == 1


@given(case=cases())
def test_log_score_is_scikit_learns_log_loss(case):
    true, _, table, weights = case
    expected = reference.log_loss(true, table, sample_weight=weights, labels=range(4))
    ours = metrics.log_score(true, table, categories=range(4), sample_weight=weights)
    assert ours == pytest.approx(expected)


def test_log_score_of_an_impossible_label_is_infinite_unless_it_weighs_nothing():
    table = [[1.0, 0.0], [0.5, 0.5]]
    assert metrics.log_score([2, 1], table) == np.inf
    assert metrics.log_score([2, 1], table, sample_weight=[0, 1]) == pytest.approx(np.log(2))


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
@given(case=cases())
def test_kappa_is_one_less_the_ratio_of_observed_to_chance_cost(weights, case):
    true, predicted, _, _ = case
    gaps = np.abs(np.subtract.outer(range(4), range(4)))
    cost = {None: gaps != 0, "linear": gaps, "quadratic": gaps**2}[weights]
    observed = np.mean([cost[t, p] for t, p in zip(true, predicted, strict=True)])
    chance = np.mean([cost[t, p] for t in true for p in predicted])
    ours = metrics.weighted_kappa(true, predicted, weights=weights, categories=range(4))
    assert ours == pytest.approx(1 - observed / chance)


@pytest.mark.parametrize("metric", ON_LABELS + ON_PROBABILITIES, ids=lambda f: f.__name__)
@given(case=cases())
def test_names_in_rank_order_score_like_their_ranks(metric, case):
    true, predicted, table, _ = case
    names = np.array(LEVELS)
    on_labels = metric in ON_LABELS
    by_rank = metric(true, predicted if on_labels else table, categories=range(4))
    by_name = metric(names[true], names[predicted] if on_labels else table, categories=LEVELS)
    assert by_name == pytest.approx(by_rank)


@pytest.mark.parametrize("metric", ON_LABELS + ON_PROBABILITIES, ids=lambda f: f.__name__)
@given(case=cases())
def test_a_weight_is_a_repetition(metric, case):
    true, predicted, table, weights = case
    prediction = predicted if metric in ON_LABELS else table
    if metric is metrics.weighted_kappa:
        weights = np.maximum(weights, 1)
    weighted = metric(true, prediction, categories=range(4), sample_weight=weights)
    repeated = metric(true.repeat(weights), prediction.repeat(weights, 0), categories=range(4))
    assert weighted == pytest.approx(repeated)


def test_an_absent_level_keeps_its_place_only_when_named():
    assert metrics.mean_absolute_error([1, 1], [3, 3]) == 1
    assert metrics.mean_absolute_error([1, 1], [3, 3], categories=[1, 2, 3]) == 2


def test_half_stars_are_levels():
    assert metrics.mean_absolute_error([0.5, 1.0, 1.5], [1.5, 1.0, 1.5]) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(pd.Categorical(["high", "low"], categories=LEVELS, ordered=True)),
        pd.Categorical(["high", "low"], categories=LEVELS, ordered=True),
        pl.Series(["high", "low"], dtype=pl.Enum(LEVELS)),
    ],
    ids=["series", "categorical", "enum"],
)
def test_the_order_that_y_true_declares_is_used(y):
    assert metrics.mean_absolute_error(y, ["low", "low"]) == 1
    assert metrics.ranked_probability_score(y, np.eye(4)[[2, 0]]) == 0


def test_zero_one_error_needs_no_order():
    assert metrics.zero_one_error(["a", "b"], ["a", "c"]) == 0.5


@pytest.mark.parametrize("metric", ON_LABELS[1:], ids=lambda f: f.__name__)
def test_names_without_an_order_raise(metric):
    with pytest.raises(ValueError, match=r"\['high', 'low'\] have no order .*categories=\["):
        metric(["low", "high"], ["low", "low"])


def test_a_label_outside_the_levels_is_named():
    with pytest.raises(ValueError, match=r"row 1 is 'mdi'.*Name every level"):
        metrics.mean_absolute_error(["low", "mdi"], ["low", "mid"], categories=LEVELS)
    with pytest.raises(ValueError, match="row 0 is 1"):
        metrics.zero_one_error([1], ["1"])


def test_a_repeated_level_raises():
    with pytest.raises(ValueError, match="each named once, but one is repeated"):
        metrics.mean_absolute_error([1], [2], categories=[1, 2, 2])


@pytest.mark.parametrize("metric", ON_PROBABILITIES, ids=lambda f: f.__name__)
def test_bad_probabilities_raise(metric):
    with pytest.raises(ValueError, match=r"each of the 2 levels .*has shape \(2, 3\).*categories"):
        metric([1, 3], np.full((2, 3), 1 / 3))
    with pytest.raises(ValueError, match=r"sum to one, but row 1 is \[0.5, 0.4\]"):
        metric([1, 3], [[0.5, 0.5], [0.5, 0.4]])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        metric([1, 3], [[0.5, 0.5]])


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1], r"one weight for each row, but has shape \(1,\)"),
        ([1, -1], "finite and not negative, but row 1 is -1"),
        ([0, 0], "zero for every row. Give some row a positive weight"),
        ([1, np.nan], "finite and not negative, but row 1 is nan"),
    ],
)
def test_bad_weights_raise(weight, message):
    with pytest.raises(ValueError, match=message):
        metrics.mean_absolute_error([1, 2], [1, 2], sample_weight=weight)


class OnlyProba(ClassifierMixin, BaseEstimator):
    """Predicts the frequencies of the training labels: an ordinal model of the least kind."""

    def __init__(self, categories=None, shift=0.0):
        self.categories = categories
        self.shift = shift

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.categories_ = np.array(self.categories)
        counts = np.array([np.sum(y == level) for level in self.categories_]) + self.shift
        self.frequencies_ = counts / counts.sum()
        return self

    def _table(self, X):
        assert X.shape[1] == 2, "the model must see what the pipeline's transformers made"
        return np.tile(self.frequencies_, (len(X), 1))

    def predict_proba(self, X):
        places = [list(self.categories_).index(label) for label in self.classes_]
        return self._table(X)[:, places]

    def predict(self, X):
        return self.categories_[self._table(X).argmax(axis=1)]


class CountOfLevels(OnlyProba):
    """The same with ``category_proba``; without it the scorer must put columns in rank order."""

    def category_proba(self, X):
        return self._table(X)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(20, 2)), np.array(LEVELS[:3])[[0] * 4 + [1] * 11 + [2] * 5]


def wrappers():
    model = CountOfLevels(LEVELS)
    pipeline = make_pipeline(StandardScaler(), "passthrough", model)
    return {
        "model": model,
        "without category_proba": OnlyProba(LEVELS),
        "pipeline": pipeline,
        "one-step pipeline": Pipeline([("model", model)]),
        "search": GridSearchCV(
            model, {"shift": [0.0]}, cv=2, scoring=make_ordinal_scorer("weighted_kappa")
        ),
        "pipeline of a pipeline": make_pipeline(StandardScaler(), pipeline),
        "search over a pipeline": GridSearchCV(
            pipeline,
            {"countoflevels__shift": [0.0]},
            cv=2,
            scoring=make_ordinal_scorer("log_score"),
        ),
    }


@pytest.mark.parametrize("kind", wrappers())
def test_a_scorer_finds_the_order_inside(kind, data):
    X, y = data
    estimator = wrappers()[kind].fit(X, y)
    table = np.tile([0.2, 0.55, 0.25, 0.0], (20, 1))
    expected = {
        "zero_one_error": -9 / 20,
        "mean_absolute_error": -9 / 20,
        "macro_mean_absolute_error": -2 / 3,
        "weighted_kappa": 0.0,
        "ranked_probability_score": -metrics.ranked_probability_score(y, table, categories=LEVELS),
        "log_score": -metrics.log_score(y, table, categories=LEVELS),
    }
    for name, value in expected.items():
        assert make_ordinal_scorer(name)(estimator, X, y) == pytest.approx(value, abs=1e-12)


def test_a_pipeline_with_a_selector_is_scored_on_its_features(data):
    X, y = np.column_stack([data[0], np.zeros(20) + data[0][:, 0]]), data[1]
    estimator = make_pipeline(SelectKBest(k=2), CountOfLevels(LEVELS)).fit(X, y)
    assert np.isfinite(make_ordinal_scorer("log_score")(estimator, X, y))


def test_a_scorer_serves_other_classifiers_with_numeric_labels(data):
    X, y = data[0], np.arange(20) % 3
    model = LogisticRegression().fit(X, y)
    score = make_ordinal_scorer("log_score")(model, X, y)
    assert score == pytest.approx(-reference.log_loss(y, model.predict_proba(X)))


def test_a_scorer_refuses_names_from_a_model_without_an_order(data):
    model = LogisticRegression().fit(*data)
    with pytest.raises(ValueError, match="have no order of their own"):
        make_ordinal_scorer("mean_absolute_error")(model, *data)


def test_options_reach_the_metric(data):
    X, y = data[0], np.arange(20) % 4
    model = LogisticRegression().fit(X, y)
    linear = make_ordinal_scorer("weighted_kappa", weights="linear")(model, X, y)
    expected = reference.cohen_kappa_score(y, model.predict(X), weights="linear")
    assert linear == pytest.approx(expected)


def test_a_scorer_survives_pickling(data):
    X, y = data
    scorer = make_ordinal_scorer("mean_absolute_error")
    model = CountOfLevels(LEVELS).fit(X, y)
    assert pickle.loads(pickle.dumps(scorer))(model, X, y) == scorer(model, X, y)


def test_cross_validation_takes_scorers_as_a_single_and_as_several(data):
    X, y = data
    model = CountOfLevels(LEVELS, shift=1.0)
    scoring = {name: make_ordinal_scorer(name) for name in ("log_score", "weighted_kappa")}
    search = GridSearchCV(model, {"shift": [0.5, 5.0]}, scoring=scoring, refit="log_score", cv=3)
    assert search.fit(X, y).best_params_ == {"shift": 0.5}
    assert np.isfinite(cross_val_score(model, X, y, scoring=scoring["log_score"], cv=3)).all()


def test_weights_are_routed_when_requested(data):
    X, y = data[0], np.arange(20) % 2
    weights = np.linspace(0.1, 2, 20)
    scorer = make_ordinal_scorer("log_score").set_score_request(sample_weight="rows")
    with sklearn.config_context(enable_metadata_routing=True):
        model = LogisticRegression().set_fit_request(sample_weight=False)
        folds = [(np.arange(10), np.arange(10, 20))]
        routed = cross_val_score(model, X, y, scoring=scorer, params={"rows": weights}, cv=folds)
    fitted = LogisticRegression().fit(X[:10], y[:10])
    expected = reference.log_loss(y[10:], fitted.predict_proba(X[10:]), sample_weight=weights[10:])
    assert_allclose(routed, [-expected])


def test_an_unknown_metric_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"one of zero_one_error, .*log_score, but 'mse'"):
        make_ordinal_scorer("mse")


@pytest.mark.parametrize("metric", ON_LABELS)
@pytest.mark.parametrize(
    ("y", "weights", "message"),
    [
        ([], None, "At least one row is needed"),
        ([1.0, np.nan, 2.0], None, "row 1 is nan"),
        (np.array([1, pd.NA, 2], dtype=object), None, "row 1 is <NA>"),
        ([1, 2, 3], [1, np.inf, 1], "finite and not negative, but row 1 is inf"),
        ([1, 2, 3], ["a", "b", "c"], "sample_weight must hold numbers"),
        ([1, 2, 3], [0, 0, 0], "Give some row a positive weight"),
        ([1, 2, 3], [1, 1, -1], "not negative, but row 2"),
    ],
)
def test_labels_and_weights_that_cannot_be_scored(metric, y, weights, message):
    with pytest.raises(ValueError, match=message):
        metric(y, y, sample_weight=weights, categories=[1, 2, 3])


def test_scores_that_one_level_does_not_define():
    with pytest.raises(ValueError, match="not defined if all true and predicted labels are 2"):
        metrics.weighted_kappa([2, 2, 1], [2, 2, 3], sample_weight=[1, 1, 0], categories=[1, 2, 3])
    with pytest.raises(ValueError, match="at least 2 levels"):
        metrics.ranked_probability_score([1, 1], [[1.0], [1.0]])
    with pytest.raises(ValueError, match="At least one row"):
        metrics.log_score([], np.empty((0, 2)), categories=[1, 2])


def test_scorers_say_what_a_model_lacks():
    X, y = np.arange(20.0)[:, None], np.repeat([1, 2], 10)
    scorer = make_ordinal_scorer("log_score")
    with pytest.raises(TypeError, match="OrdinalSVC gives labels alone"):
        scorer(OrdinalSVC().fit(X, y), X, y)
    with pytest.raises(TypeError, match="LinearRegression has no classes_"):
        scorer(LinearRegression().fit(X, y), X, y)
    with pytest.raises(NotFittedError):
        scorer(LogisticRegression(), X, y)
