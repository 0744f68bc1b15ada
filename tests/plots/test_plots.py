"""Displays draw the model: thresholds where they are, every level by its name."""

import subprocess
import sys
from copy import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ordinalgp import (
    LeastSquaresOrdinalClassifier,
    OrdinalGPClassifier,
    OrdinalSVC,
    SparseBayesOrdinalClassifier,
)
from ordinalgp.datasets import make_five_ranks_1d, make_three_ranks
from ordinalgp.kernels import ARDLinear
from ordinalgp.plots import (
    CalibrationDisplay,
    ConfusionDisplay,
    ContourDisplay,
    EvidenceDisplay,
    LatentDisplay,
    PosteriorDisplay,
    RelevanceDisplay,
)
from ordinalgp.plots.base import colors_of
from ordinalgp.plots.predictions import _interval

plt = pytest.importorskip("matplotlib.pyplot")
LEVELS = ["low", "middle", "high"]
UNLABELLED = [ContourDisplay, LatentDisplay, PosteriorDisplay]
DISPLAYS = [*UNLABELLED, CalibrationDisplay, ConfusionDisplay]


@pytest.fixture(autouse=True)
def closed_figures():
    plt.close("all")
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


@pytest.mark.parametrize("display", UNLABELLED)
def test_without_labels(display, fitted):
    model, X, _ = fitted
    assert image(display.from_estimator(model, X)).std() > 10


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_levels_are_in_order_in_greyscale(n):
    luminance = colors_of(n)[:, :3] @ [0.2126, 0.7152, 0.0722]
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


@pytest.mark.parametrize("display", UNLABELLED)
def test_rows_that_cannot_be_drawn(display, fitted):
    model, X, y = fitted
    with pytest.raises(ValueError, match="a level for each of the 60 rows, but has 3"):
        display.from_estimator(model, X, y[:3])
    with pytest.raises(ValueError, match="Expected 2D array"):
        display.from_estimator(model, X[:, 0], y)
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        display.from_estimator(model, X[:0], y[:0])
    baseline = OrdinalSVC(categories=LEVELS).fit(X, y)
    with pytest.raises(TypeError, match="OrdinalSVC has no latent function"):
        display.from_estimator(baseline, X, y)


@pytest.mark.parametrize("display", [CalibrationDisplay, ConfusionDisplay])
def test_as_many_levels_as_rows(display, fitted):
    model, X, y = fitted
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        display.from_estimator(model, X, y[:3])


@pytest.mark.parametrize(
    ("display", "options", "message"),
    [
        (ContourDisplay, {"features": (0, 7)}, "no feature 7: they are 0 to 1"),
        (ContourDisplay, {"features": (0,)}, "features must be two"),
        (ContourDisplay, {"resolution": 1}, "resolution must be a number of at least 2"),
        (ContourDisplay, {"feature_names": ["a"]}, "must name all 2 features, but has 1"),
        (PosteriorDisplay, {"feature": -3}, "no feature -3"),
        (PosteriorDisplay, {"resolution": 2.5}, "resolution must be a whole number"),
        (CalibrationDisplay, {"n_groups": 0}, "n_groups must be a number of at least 1"),
    ],
)
def test_options_that_cannot_be_drawn(display, options, message, fitted):
    with pytest.raises(ValueError, match=message):
        display.from_estimator(*fitted, **options)


def test_probabilities_that_are_none():
    with pytest.raises(ValueError, match="sum to one, but row 0"):
        CalibrationDisplay.from_predictions([0, 1], [[2, 3, 4], [1, 1, 1]], [0, 1, 2])


def test_a_model_without_a_path(fitted):
    _, X, y = fitted
    with pytest.raises(TypeError, match="OrdinalSVC keeps no path"):
        EvidenceDisplay.from_estimator(OrdinalSVC(categories=LEVELS).fit(X, y))


# --------------------------------------------------------------------------- latent scale


def test_lines_are_the_thresholds(fitted):
    display = LatentDisplay.from_estimator(*fitted)
    at = [line.get_xdata()[0] for line in display.lines_]
    assert_array_equal(at, fitted[0].thresholds_)
    names = [label.get_text().split("\n")[0] for label in display.ax_.get_yticklabels()]
    assert names == LEVELS


@pytest.fixture(scope="module")
def on_ranks(fitted):
    _, X, y = fitted
    model = LeastSquaresOrdinalClassifier(categories=LEVELS, n_restarts_optimizer=0)
    return model.fit(X, y), X, y


@pytest.mark.parametrize("model", ["fitted", "on_ranks"])
@pytest.mark.parametrize("labelled", [True, False])
def test_each_density_has_area_one_and_the_right_mean(labelled, model, request):
    model, X, y = request.getfixturevalue(model)
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


# ---------------------------------------------------------------------------- calibration


def test_calibration_points_are_groups_of_equal_size():
    p = np.linspace(0.05, 0.95, 20)
    y = np.where(np.arange(20) % 2, "b", "a")
    display = CalibrationDisplay.from_predictions(
        y, np.column_stack([1 - p, p]), ["a", "b"], n_groups=4
    )
    for k, level in enumerate("ab"):
        rows = np.argsort([1 - p, p][k]).reshape(4, 5)
        assert_allclose(display.predicted[k], [1 - p, p][k][rows].mean(axis=1))
        assert_allclose(display.observed[k], (y[rows] == level).mean(axis=1))
        drawn = display.points_[k].lines[0].get_xydata()
        assert_allclose(drawn, np.column_stack([display.predicted[k], display.observed[k]]))
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["b", "a"]


def test_cumulative_calibration_is_of_the_level_or_lower(fitted):
    model, X, y = fitted
    display = CalibrationDisplay.from_estimator(model, X, y, kind="cumulative", n_groups=1)
    assert display.names == ["low or lower", "middle or lower"]
    p = model.category_proba(X)
    assert_allclose(np.ravel(display.predicted), p.cumsum(axis=1).mean(axis=0)[:2])
    assert_allclose(np.ravel(display.observed), [np.mean(y == "low"), np.mean(y != "high")])
    with pytest.raises(ValueError, match="kind must be one of 'level', 'cumulative'"):
        CalibrationDisplay.from_estimator(model, X, y, kind="both")


def test_intervals_are_wilsons():
    from scipy.stats import binomtest

    for hits, n in ((0, 5), (3, 10), (10, 10)):
        found = _interval(np.array([hits / n]), np.array([n]))
        truth = binomtest(hits, n).proportion_ci(0.9, method="wilson")
        assert_allclose(np.ravel(found), [truth.low, truth.high], atol=1e-4)


# ------------------------------------------------------------------------------ confusion


def test_confusion_counts_and_distances(fitted):
    from sklearn.metrics import confusion_matrix

    model, X, y = fitted
    display = ConfusionDisplay.from_estimator(model, X, y)
    assert_array_equal(display.matrix, confusion_matrix(y, model.predict(X), labels=LEVELS))
    rank = {level: at for at, level in enumerate(LEVELS)}
    far = [abs(rank[a] - rank[b]) for a, b in zip(y, model.predict(X), strict=True)]
    assert_allclose(display.distances, [far.count(k) / len(y) for k in range(3)])
    for axis in (display.ax_.get_xticklabels(), display.ax_.get_yticklabels()):
        assert [label.get_text() for label in axis] == LEVELS
    shares = display.image_.get_array()
    assert_allclose(shares.sum(axis=1), 1)


# --------------------------------------------------------------------- relevance, evidence


def test_relevance_is_the_share_of_squared_distance():
    from scipy.spatial.distance import pdist

    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3)) * [1.0, 10.0, 0.1]
    y = 1 + np.digitize(X[:, 0], [-0.5, 0.5])
    model = OrdinalGPClassifier(RBF([1.0, 10.0, 0.1])).fit(X, y)
    display = RelevanceDisplay.from_estimator(model, X, feature_names=["a", "b", "c"])
    scaled = X / model.kernel_.length_scale
    parts = [np.mean(pdist(scaled[:, [j]], "sqeuclidean")) for j in range(3)]
    assert_allclose(display.shares, np.divide(parts, sum(parts)))
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names[-1] == "a"
    assert sorted(names) == ["a", "b", "c"]
    assert_allclose(display.bars_[-1].get_width(), 100 * display.shares.max())


def test_relevance_of_a_linear_kernel_in_a_compound_and_a_pipeline():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2)) * [1.0, 100.0]
    y = 1 + np.digitize(X[:, 0], [-0.5, 0.5])
    kernel = ARDLinear([1.0, 1.0]) + 1.0
    pipeline = make_pipeline(StandardScaler(), OrdinalGPClassifier(kernel)).fit(X, y)
    display = RelevanceDisplay.from_estimator(pipeline, X)
    assert display.shares[0] > 0.9
    learned = pipeline[-1].kernel_.k1.relevance
    assert_allclose(display.shares, learned / np.sum(learned))


def test_kernels_without_relevance_are_refused(fitted):
    with pytest.raises(ValueError, match="treats all features alike"):
        RelevanceDisplay.from_estimator(fitted[0], fitted[1])


def test_the_evidence_path_ends_at_the_evidence(fitted):
    model = fitted[0]
    display = EvidenceDisplay.from_estimator(model)
    steps, best = display.line_.get_data()
    assert_array_equal(steps, np.arange(1, len(model.evidence_path_) + 1))
    assert np.all(np.diff(best) >= 0)
    assert_allclose(best[-1], model.log_marginal_likelihood_value_, rtol=1e-6)
    bare = OrdinalGPClassifier(optimizer=None).fit(*make_three_ranks(30, random_state=0))
    with pytest.raises(ValueError, match="without a search"):
        EvidenceDisplay.from_estimator(bare)


@pytest.mark.parametrize("kind", ["level", "cumulative"])
@pytest.mark.parametrize("size", [(6.4, 4.8), (7.2, 4.3), (5.0, 5.0)])
def test_labels_and_legend_of_calibration_are_inside_the_figure(kind, size):
    levels = np.array(["mild", "moderate", "marked", "severe"])
    p = np.random.default_rng(0).dirichlet([2, 1, 2, 1], 60)
    truth = levels[p.argmax(axis=1)]
    ax = plt.subplots(figsize=size, layout="constrained")[1]
    CalibrationDisplay.from_predictions(truth, p, levels, kind=kind, ax=ax)
    ax.figure.draw_without_rendering()
    box, (width, height) = ax.get_tightbbox(), ax.figure.bbox.size
    pad = 5  # pixels: the legend's own border is not counted by the layout
    assert min(box.x0, box.y0, width - box.x1, height - box.y1) > -pad


def test_steps_of_a_sparse_model_are_marked_by_their_kind():
    model = SparseBayesOrdinalClassifier(random_state=0).fit(*make_three_ranks(40, random_state=0))
    display = EvidenceDisplay.from_estimator(model)
    lines = {line.get_label(): line for line in display.ax_.get_lines()}
    kinds = set(model.evidence_moves_)
    assert set(lines) == {*kinds, "best so far"}
    assert {"start", "add", "thresholds", "linearise"} <= kinds
    for kind in kinds:
        steps, values = lines[kind].get_data()
        assert_array_equal(model.evidence_moves_[steps - 1], kind)
        assert_array_equal(values, model.evidence_path_[steps - 1])


# ------------------------------------------------------------------------------ posterior


def test_the_posterior_along_a_feature(fitted):
    model, X, y = fitted
    display = PosteriorDisplay.from_estimator(model, X, y, feature=1, feature_names=["a", "b"])
    queries = np.column_stack([np.full(200, np.median(X[:, 0])), display.x])
    mean, var = model.latent_mean_and_variance(queries)
    assert_allclose(display.line_.get_ydata(), mean)
    assert_allclose(display.sd**2, var)
    assert display.ax_.get_xlabel() == "b"
    named = {text.get_text() for text in display.ax_.texts}
    assert named == set(LEVELS)
    bands = display.ax_.collections[:2]
    assert len(bands) == 2


def test_the_expected_level_along_a_feature():
    X, y = make_five_ranks_1d(random_state=0)
    model = OrdinalGPClassifier().fit(X, y)
    display = PosteriorDisplay.from_estimator(model, X, y, kind="levels")
    rng = np.random.default_rng(0)
    at = [20, 100, 180]
    p = model.category_proba(display.x[at, None])
    for k, place in enumerate(at):  # by drawing levels, not by the same sums
        draws = rng.choice(5, size=100_000, p=p[k])
        assert_allclose(display.mean[place], draws.mean(), atol=0.02)
        assert_allclose(display.sd[place], draws.std(), atol=0.02)
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == list("12345")
    with pytest.raises(ValueError, match="kind must be one of 'latent', 'levels'"):
        PosteriorDisplay.from_estimator(model, X, y, kind="both")
