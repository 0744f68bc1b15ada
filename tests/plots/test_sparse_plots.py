"""The picture of relevance vectors shows the model's own."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ordinalgp import OrdinalGPClassifier, SparseBayesOrdinalClassifier
from ordinalgp.datasets import make_three_ranks
from ordinalgp.plots import RelevanceVectorsDisplay

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def closed_figures():
    plt.close("all")
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    return make_three_ranks(80, random_state=0)


def ring_places(display):
    return np.vstack([ring.get_offsets() for ring in display.rings_])


def test_rings_are_at_the_relevance_vectors(data):
    X, y = data
    model = SparseBayesOrdinalClassifier(RBF(1.5), random_state=0).fit(X, y)
    display = RelevanceVectorsDisplay.from_estimator(model, X, y)
    order = np.argsort(-np.sign(model.weights_), kind="stable")
    assert_allclose(ring_places(display), X[model.relevance_][order])
    up, down = display.rings_
    assert len(up.get_offsets()) == np.sum(model.weights_ > 0)
    assert len(down.get_offsets()) == np.sum(model.weights_ < 0)
    sizes = np.concatenate([ring.get_sizes() for ring in display.rings_])
    assert sizes.argmax() == np.abs(model.weights_[order]).argmax()
    assert_allclose(display.contours_.levels, model.thresholds_)
    assert [t.get_text() for t in display.ax_.get_legend().get_texts()][-3:] == ["3", "2", "1"]


def test_it_draws_on_given_axes_and_again_elsewhere(data):
    X, y = data
    model = SparseBayesOrdinalClassifier(RBF(1.5), random_state=0).fit(X, y)
    _, ax = plt.subplots()
    display = RelevanceVectorsDisplay.from_estimator(model, X, y, ax=ax)
    assert display.ax_ is ax
    assert display.plot() is display
    assert display.ax_ is not ax
    assert len(ring_places(display)) == len(model.relevance_)


def test_a_scaler_before_the_model_is_undone(data):
    X, y = 50 + 10 * data[0], data[1]
    model = make_pipeline(StandardScaler(), SparseBayesOrdinalClassifier(RBF(1.5), random_state=0))
    display = RelevanceVectorsDisplay.from_estimator(model.fit(X, y), X, features=(1, 0))
    rows = X[model[-1].relevance_][:, ::-1]
    order = np.argsort(-np.sign(model[-1].weights_), kind="stable")
    assert_allclose(ring_places(display), rows[order])


def test_other_models_are_refused(data):
    full = OrdinalGPClassifier(RBF(1.5), optimizer=None).fit(*data)
    with pytest.raises(TypeError, match="has no relevance vectors"):
        RelevanceVectorsDisplay.from_estimator(full, *data)
