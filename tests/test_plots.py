"""Displays draw the model: thresholds where they are, every level by its name."""

import subprocess
import sys
from copy import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ordinalgp import OrdinalGPClassifier
from ordinalgp.datasets import make_five_ranks_1d, make_three_ranks
from ordinalgp.plots import ContourDisplay, LatentDisplay
from ordinalgp.plots.base import colors_of as _colors

plt = pytest.importorskip("matplotlib.pyplot")
LEVELS = ["low", "middle", "high"]
DISPLAYS = [ContourDisplay, LatentDisplay]


@pytest.fixture(autouse=True)
def closed_figures():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fitted():
    X, rank = make_three_ranks(60, random_state=0)
    y = np.array(LEVELS)[rank - 1]
    return OrdinalGPClassifier(categories=LEVELS).fit(X, y), X, y


def image(display):
    display.figure_.canvas.draw()
    return np.asarray(display.figure_.canvas.buffer_rgba())


# ------------------------------------------------------------------------------ both displays


@pytest.mark.parametrize("display", DISPLAYS)
def test_draws_on_the_axes_given_or_on_its_own(display, fitted):
    figure, ax = plt.subplots()
    drawn = display.from_estimator(*fitted, ax=ax)
    assert drawn.ax_ is ax
    assert drawn.figure_ is figure
    again = drawn.plot()
    assert again is drawn
    assert drawn.ax_ is not ax
    assert image(drawn).std() > 10


@pytest.mark.parametrize("display", DISPLAYS)
def test_without_labels(display, fitted):
    model, X, _ = fitted
    assert image(display.from_estimator(model, X)).std() > 10


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_levels_are_in_order_in_greyscale(n):
    luminance = _colors(n)[:, :3] @ [0.2126, 0.7152, 0.0722]
    assert np.diff(luminance).min() > 0.04


@pytest.mark.parametrize("display", DISPLAYS)
def test_an_unfitted_model_is_refused(display, fitted):
    with pytest.raises(NotFittedError):
        display.from_estimator(OrdinalGPClassifier(), *fitted[1:])


@pytest.mark.parametrize("display", DISPLAYS)
def test_unknown_levels_are_refused(display, fitted):
    model, X, y = fitted
    with pytest.raises(ValueError, match="row 0 is 'huge'"):
        display.from_estimator(model, X, np.where(np.arange(len(y)) == 0, "huge", y))


@pytest.mark.parametrize("display", DISPLAYS)
def test_without_matplotlib_the_error_names_the_extra(display, fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'ordinalgp\[plot\]'"):
        display.from_estimator(*fitted)


def test_importing_the_package_does_not_import_matplotlib():
    code = "import sys, ordinalgp, ordinalgp.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# -------------------------------------------------------------------------------- contours


def test_borders_are_the_thresholds(fitted):
    model, X, y = fitted
    display = ContourDisplay.from_estimator(model, X, y)
    assert_array_equal(display.contours_.levels, model.thresholds_)
    for threshold, path in zip(model.thresholds_, display.contours_.get_paths(), strict=True):
        mean, _ = model.latent_mean_and_variance(path.vertices)
        assert_allclose(mean, threshold, atol=0.02)
    labels = {text.get_text() for text in display.contours_.labelTexts}
    assert labels == {"low | middle", "middle | high"}


def test_areas_are_the_median_predictions(fitted):
    model, X, y = fitted
    display = ContourDisplay.from_estimator(model, X, y, resolution=30)
    area = np.digitize(display.mean, display.thresholds)
    grid = np.column_stack([display.x0.ravel(), display.x1.ravel()])
    median = copy(model).set_params(decision="median")
    assert_array_equal(np.array(LEVELS)[area.ravel()], median.predict(grid))


def test_the_legend_names_the_levels_highest_on_top(fitted):
    display = ContourDisplay.from_estimator(*fitted)
    legend = display.ax_.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == LEVELS[::-1]
    points = [c for c in display.ax_.collections if c.get_label() in LEVELS]
    shown = np.vstack([c.get_offsets() for c in points])
    assert_array_equal(np.sort(shown, axis=0), np.sort(fitted[1], axis=0))
    shapes = {c.get_paths()[0].vertices.tobytes() for c in points}
    assert len(shapes) == len(LEVELS)


def test_a_border_outside_the_picture_is_left_out():
    X, y = make_three_ranks(60, random_state=0)
    model = OrdinalGPClassifier().fit(X, y)
    low = X[y == 1]
    middle = low[np.argsort(low[:, 1])[:5]]
    display = ContourDisplay.from_estimator(model, middle)
    assert len(display.contours_.labelTexts) == 0


def test_in_a_pipeline_the_axes_are_those_of_its_inputs(fitted):
    _, X, y = fitted
    X = 100 + 50 * X
    pipeline = make_pipeline(StandardScaler(), OrdinalGPClassifier(categories=LEVELS)).fit(X, y)
    display = ContourDisplay.from_estimator(pipeline, X, y, resolution=20)
    assert display.x0.min() < X[:, 0].min() < X[:, 0].max() < display.x0.max()
    corner = np.array([[display.x0[0, 0], display.x1[0, 0]]])
    mean, _ = pipeline[-1].latent_mean_and_variance(pipeline[:-1].transform(corner))
    assert_allclose(display.mean[0, 0], mean[0])


def test_in_a_search(fitted):
    model, X, y = fitted
    search = GridSearchCV(model, {"inference": ["laplace"]}, cv=2).fit(X, y)
    display = ContourDisplay.from_estimator(search, X, y, resolution=20)
    assert_array_equal(display.thresholds, search.best_estimator_.thresholds_)


@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_other_features_stay_at_their_medians(frame):
    rng = np.random.default_rng(0)
    X, y = make_three_ranks(50, random_state=0)
    columns = {"width": X[:, 0], "noise": rng.normal(size=50), "height": X[:, 1]}
    X = pytest.importorskip(frame).DataFrame(columns)
    pipeline = make_pipeline(StandardScaler(), OrdinalGPClassifier()).fit(X, y)
    display = ContourDisplay.from_estimator(
        pipeline, X, y, features=("width", "height"), resolution=10
    )
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("width", "height")
    at = {"width": display.x0[3, 7], "noise": np.median(X["noise"]), "height": display.x1[3, 7]}
    corner = type(X)({name: [value] for name, value in at.items()})
    mean, _ = pipeline[-1].latent_mean_and_variance(pipeline[:-1].transform(corner))
    assert_allclose(display.mean[3, 7], mean[0])


def test_names_given_and_names_unknown(fitted):
    names = ["first", "second"]
    display = ContourDisplay.from_estimator(*fitted, features=("second", 0), feature_names=names)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("second", "first")
    with pytest.raises(ValueError, match="'third', but the features are first, second"):
        ContourDisplay.from_estimator(*fitted, features=("first", "third"), feature_names=names)


# --------------------------------------------------------------------------- latent scale


def test_lines_are_the_thresholds(fitted):
    display = LatentDisplay.from_estimator(*fitted)
    at = [line.get_xdata()[0] for line in display.lines_]
    assert_array_equal(at, fitted[0].thresholds_)
    names = [label.get_text().split("\n")[0] for label in display.ax_.get_yticklabels()]
    assert names == LEVELS


@pytest.mark.parametrize("labelled", [True, False])
def test_each_density_has_area_one_and_the_right_mean(labelled, fitted):
    model, X, y = fitted
    display = LatentDisplay.from_estimator(model, X, y if labelled else None)
    step = display.latent[1] - display.latent[0]
    assert_allclose(display.density.sum(axis=1) * step, 1, atol=5e-3)
    assert_allclose(display.share.sum(), 1)
    mean, _ = model.latent_mean_and_variance(X)
    means = display.density @ display.latent * step
    assert np.all(np.diff(means) > 0)
    # Taken together, the levels are all the rows.
    assert_allclose(display.share @ means, mean.mean(), atol=5e-3)
    if labelled:
        assert_allclose(means, [mean[y == level].mean() for level in LEVELS], atol=5e-3)
        assert_allclose(display.share, [np.mean(y == level) for level in LEVELS])
    else:
        assert_allclose(display.share, model.category_proba(X).mean(axis=0))


def test_levels_without_rows_stay_empty(fitted):
    model, X, y = fitted
    display = LatentDisplay.from_estimator(model, X[y == "low"], y[y == "low"])
    assert_array_equal(display.density[1:], 0)
    assert_array_equal(display.share, [1, 0, 0])
    assert image(display).std() > 10


def test_one_row_and_many_levels():
    X, y = make_five_ranks_1d(random_state=0)
    model = OrdinalGPClassifier().fit(X / 10, y)
    display = LatentDisplay.from_estimator(model, X[:1] / 10)
    assert display.density.shape == (5, 400)
    assert np.isfinite(display.density).all()
    assert image(display).std() > 10
