"""Pictures of preferences show what the model says."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from ordinalgp import PreferenceGP
from ordinalgp.datasets import make_sine_comparisons
from ordinalgp.plots import ComparisonCurveDisplay, ComparisonDisplay, RankingDisplay

plt = pytest.importorskip("matplotlib.pyplot")
NAMES = list("abcdef")
PAIRS = [("a", "b"), ("b", "c"), ("a", "c"), ("d", "e"), ("c", "f"), ("d", "f"), ("e", "f")]


@pytest.fixture(autouse=True)
def closed_figures():
    plt.close("all")
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model():
    outcomes = [1, 1, 1, 0, 1, 1, 1]
    return PreferenceGP("independent", noise=0.5, random_state=0).fit(NAMES, PAIRS, outcomes)


def image(display):
    display.figure_.canvas.draw()
    return np.asarray(display.figure_.canvas.buffer_rgba())


@pytest.mark.parametrize("display", [RankingDisplay, ComparisonDisplay])
def test_draws_on_the_axes_given_or_on_its_own(display, model):
    _, ax = plt.subplots()
    drawn = display.from_estimator(model, NAMES, ax=ax)
    assert drawn.ax_ is ax
    assert drawn.plot().ax_ is not ax
    assert image(drawn).std() > 10


def test_ranking_has_the_items_in_order_with_their_intervals(model):
    display = RankingDisplay.from_estimator(model, NAMES, coverage=0.8)
    ranking = model.rank(NAMES)
    assert display.names == ranking.items.tolist()
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == display.names
    x, y = display.intervals_.lines[0].get_data()
    assert_allclose(x, ranking.mean - ranking.mean.mean())
    assert_array_equal(y, np.arange(6))
    mean, covariance = model.latent_mean_and_covariance(NAMES)
    draws = np.random.default_rng(0).multivariate_normal(mean, covariance, 200_000)
    sd = (draws - draws.mean(axis=1, keepdims=True)).std(axis=0)[ranking.order]
    assert_allclose(display.half_width, norm.ppf(0.9) * sd, rtol=0.01)
    texts = [text.get_text().strip() for text in display.ax_.texts]
    assert texts[0] == f"{ranking.best_proba[0]:.0%}"


def test_the_matrix_holds_all_comparisons(model):
    display = ComparisonDisplay.from_estimator(model, NAMES)
    best, worst = display.names[0], display.names[-1]
    proba = model.comparison_proba([best], [worst])[0]
    assert_allclose(display.proba[0, -1], proba[2])
    assert np.all(np.isnan(np.diagonal(display.proba)))
    tie = ComparisonDisplay.from_estimator(model, NAMES, level=0)
    assert_allclose(tie.proba[0, -1], proba[1])
    assert_allclose(tie.proba, tie.proba.T)
    with pytest.raises(ValueError, match="level must be one of"):
        ComparisonDisplay.from_estimator(model, NAMES, level=2)


def test_only_the_best_are_shown_and_rows_can_be_named():
    X, pairs = make_sine_comparisons(40, random_state=0)
    model = PreferenceGP(random_state=0).fit(X, pairs)
    names = [f"item {i}" for i in range(50)]
    order = model.rank(X).order
    display = RankingDisplay.from_estimator(model, X, names=names, n_best=5)
    assert display.names == [names[i] for i in order[:5]]
    assert RankingDisplay.from_estimator(model, X, n_best=3).names == [str(i) for i in order[:3]]
    assert ComparisonDisplay.from_estimator(model, X, n_best=4).proba.shape == (4, 4)


def test_the_learning_curve_is_that_of_fits():
    X, pairs = make_sine_comparisons(60, random_state=1)
    model = PreferenceGP(random_state=3)
    display = ComparisonCurveDisplay.from_estimator(
        model, X, pairs, sizes=[6, 45], n_repetitions=2, label="sine"
    )
    order = np.random.RandomState(3).permutation(60)
    fitted = PreferenceGP().fit(X, pairs[order[:6]])
    assert_allclose(display.errors[0, 0], 1 - fitted.score(X, pairs[order[6:]]))
    assert_allclose(display.line_.get_ydata(), 100 * display.errors.mean(axis=1))
    assert display.ax_.get_legend().get_texts()[0].get_text() == "sine"
    with pytest.raises(ValueError, match="sizes must be from 1 to 59"):
        ComparisonCurveDisplay.from_estimator(model, X, pairs, sizes=[60])
