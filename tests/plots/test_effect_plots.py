"""Effect displays: curves of the model at the values of each column, in the column's own units."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from tests.table_cases import LEVELS, school

from ordinalgp import (
    OrdinalGPClassifier,
    OrdinalSVC,
    SequentialOrdinalGP,
    SparseBayesOrdinalClassifier,
    StackedOrdinalGP,
)
from ordinalgp.datasets import make_additive_ranks
from ordinalgp.kernels import Additive
from ordinalgp.plots import EffectDisplay
from ordinalgp.tables import TableModel

plt = pytest.importorskip("matplotlib.pyplot")
NAMES = ["wave", "line", "valley", "nothing"]


@pytest.fixture(autouse=True)
def closed_figures():
    plt.close("all")
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def rows():
    X, y, _ = make_additive_ranks(90, random_state=0)
    return X, y


@pytest.fixture(scope="module")
def additive(rows):
    return OrdinalGPClassifier(Additive(1.0), optimizer=None).fit(*rows)


@pytest.fixture(scope="module")
def smooth(rows):
    return OrdinalGPClassifier(RBF(1.5), optimizer=None).fit(*rows)


def panel_of(display, name):
    return next(panel for panel in display.panels if panel.axis.name == name)


# ------------------------------------------------------------------------- on the latent scale


def test_panels_are_the_effects_of_the_model(additive, rows):
    X, _ = rows
    display = EffectDisplay.from_estimator(additive, X, feature_names=NAMES, resolution=11)
    assert display.kind == "latent"
    for at, name in enumerate(NAMES):
        panel = panel_of(display, name)
        queries = np.tile(np.linspace(X[:, at].min(), X[:, at].max(), 11)[:, None], 4)
        found = additive.effects(queries)
        assert_allclose(panel.axis.x, queries[:, 0])
        assert_allclose(panel.mean[:, 0], found.mean[:, at], atol=1e-12)
        band = norm.ppf(0.95) * found.std[:, at]
        assert_allclose(panel.high[:, 0] - panel.mean[:, 0], band)
        assert_allclose(panel.size, additive.effects(X).mean[:, at].std())
    cuts = additive.thresholds_ - additive.latent_mean_and_variance(X)[0].mean()
    assert_allclose(display.thresholds, cuts)
    heights = [line.get_ydata()[0] for line in display.axes_[0].lines]
    assert all(np.abs(np.array(heights) - cut).min() < 1e-9 for cut in cuts)


def test_the_largest_effect_comes_first(additive, smooth, rows):
    for model in (additive, smooth):
        display = EffectDisplay.from_estimator(model, rows[0], feature_names=NAMES, resolution=9)
        sizes = [panel.size for panel in display.panels]
        assert sizes == sorted(sizes, reverse=True)
        assert display.panels[-1].axis.name == "nothing"
        few = EffectDisplay.from_estimator(model, rows[0], max_features=2, resolution=9)
        assert [panel.size for panel in few.panels] == sizes[:2]


def test_a_pipeline_is_drawn_in_the_units_of_its_inputs(additive, rows):
    X, y = rows
    scaled = StandardScaler().fit(X)
    kernel = Additive(1.0 / float(scaled.scale_[0]))  # about the same length in scaled units
    model = make_pipeline(scaled, OrdinalGPClassifier(kernel, optimizer=None)).fit(X, y)
    display = EffectDisplay.from_estimator(model, X, features=[0], resolution=7)
    (panel,) = display.panels
    assert_allclose(panel.axis.x[[0, -1]], [X[:, 0].min(), X[:, 0].max()])
    found = model[-1].effects(scaled.transform(np.tile(panel.axis.x[:, None], 4)))
    assert_allclose(panel.mean[:, 0], found.mean[:, 0], atol=1e-12)


def test_features_of_several_columns_are_drawn_by_probabilities(rows):
    X, y = rows[0][:, :2], rows[1]
    model = make_pipeline(
        PolynomialFeatures(2, include_bias=False), OrdinalGPClassifier(Additive(), optimizer=None)
    ).fit(X, y)
    assert EffectDisplay.from_estimator(model, X, resolution=3).kind == "probability"
    with pytest.raises(ValueError, match=r"features are made of several columns.*'probability'"):
        EffectDisplay.from_estimator(model, X, kind="latent")


# --------------------------------------------------------------------------- by probabilities


def test_probabilities_are_averages_over_the_rows(smooth, rows):
    X, _ = rows
    display = EffectDisplay.from_estimator(smooth, X, feature_names=NAMES, resolution=6)
    assert display.kind == "probability"
    panel = panel_of(display, "valley")
    for value, mean in zip(panel.axis.x, panel.mean, strict=True):
        queries = np.array([[*row[:2], value, row[3]] for row in X])
        assert_allclose(mean, smooth.category_proba(queries).mean(axis=0))
    assert_allclose(panel.mean.sum(axis=1), 1.0)
    assert np.all(panel.low <= panel.mean)
    assert np.all(panel.mean <= panel.high)


def test_bands_hold_the_share_of_the_posterior_that_they_say(rows):
    """Of one feature: the probability of the lowest level is a decreasing function of f."""
    X, y = rows[0][:, :1], rows[1]
    model = OrdinalGPClassifier(RBF(0.7), optimizer=None).fit(X, y)
    (panel,) = EffectDisplay.from_estimator(
        model, X, kind="probability", coverage=0.8, resolution=9
    ).panels
    mean, var = model.latent_mean_and_variance(panel.axis.x[:, None])
    for end, z in ((panel.low, 1.2816), (panel.high, -1.2816)):
        f = mean + z * np.sqrt(var)
        exact = norm.cdf((model.thresholds_[0] - f) / model.noise_)
        assert_allclose(end[:, 0], exact, atol=0.05)


def test_the_size_is_the_probability_that_moves(rows):
    """A column that decides alone between two equal groups moves half of the probability."""
    X = np.repeat([[0.0], [1.0]], 30, axis=0)
    X = np.column_stack([X, np.linspace(-1, 1, 60)])
    forest = RandomForestClassifier(20, random_state=0, max_features=None)
    model = forest.fit(X[:, :1], np.repeat([0, 1], 30))
    (panel,) = EffectDisplay.from_estimator(model, X[:, :1], feature_names=["a"]).panels
    assert panel.size == pytest.approx(0.5)
    assert panel.axis.labels == ["0", "1"]


def test_models_without_a_posterior_have_no_band(rows):
    X, y = rows
    model = RandomForestClassifier(10, random_state=0).fit(X, y)
    display = EffectDisplay.from_estimator(model, X, resolution=5)
    assert all(np.isnan(panel.low).all() for panel in display.panels)
    assert display.axes_[0].get_ylabel() == "probability"
    with pytest.raises(TypeError, match="gives labels alone"):
        EffectDisplay.from_estimator(OrdinalSVC().fit(X, y), X)


@pytest.mark.parametrize(
    "model",
    [
        SequentialOrdinalGP(RBF(1.5), optimizer=None),
        StackedOrdinalGP(
            {
                "smooth": OrdinalGPClassifier(RBF(1.5), optimizer=None),
                "steps": SequentialOrdinalGP(RBF(1.5), optimizer=None),
            }
        ),
    ],
)
def test_sequential_models_and_mixtures_have_bands(model, rows):
    X, y = rows
    model.fit(X, y)
    drawn = model.sample_proba(X[:4], 3000, random_state=0)
    assert_allclose(drawn.sum(axis=2), 1.0)
    assert_allclose(drawn.mean(axis=0), model.category_proba(X[:4]), atol=0.02)
    display = EffectDisplay.from_estimator(model, X, max_features=2, resolution=5, max_rows=30)
    assert display.kind == "probability"
    for panel in display.panels:
        assert np.all(panel.low < panel.high)
        assert np.mean((panel.low <= panel.mean) & (panel.mean <= panel.high)) > 0.9


def test_draws_of_a_mixture_spread_by_its_models_and_their_uncertainty(rows):
    """The law of total variance, with the moments of each model from its own draws."""
    X, y = rows
    parts = {
        "smooth": OrdinalGPClassifier(RBF(2.5), optimizer=None),
        "rough": OrdinalGPClassifier(RBF(0.4), optimizer=None),
    }
    model = StackedOrdinalGP(parts, shrinkage=1e3).fit(X, y)
    plain = replace(model._result.model, sharpness=1.0)  # of averages, not of their powers
    model._result = replace(model._result, model=plain)
    drawn = model.sample_proba(X[:5], 20_000, random_state=0)
    mean, second = 0.0, 0.0
    for name, part in model.models_.items():
        own = part.sample_proba(X[:5], 5000, random_state=1)
        mean = mean + model.weights_[name] * own.mean(axis=0)
        second = second + model.weights_[name] * (own.var(axis=0) + own.mean(axis=0) ** 2)
    assert len(model.models_) == 2
    assert_allclose(drawn.std(axis=0), np.sqrt(second - mean**2), atol=0.015)


# ------------------------------------------------------------------------- columns that are texts


@pytest.fixture(scope="module")
def survey():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "hours": rng.gamma(4, 2, 120),
            "town": rng.choice(["a", "b", "c"], 120),
            "size": pandas.Categorical(
                rng.choice(["small", "mid", "big"], 120), ["small", "mid", "big"], ordered=True
            ),
            "rooms": rng.integers(1, 5, 120),
            "same": 1.0,
        }
    )
    town = frame.town.map({"a": 0.9, "b": -0.9, "c": 0.0})
    y = np.digitize(np.log(frame.hours) + town + 0.2 * rng.normal(size=120), [1.5, 2.4])
    return frame, y


@pytest.mark.parametrize("kernel", [Additive(1.0), RBF(1.5)])
def test_texts_are_in_the_order_of_their_effects(kernel, survey):
    frame, y = survey
    encode = make_column_transformer(
        (StandardScaler(), ["hours", "rooms", "same"]),
        (OneHotEncoder(sparse_output=False), ["town", "size"]),
    )
    model = make_pipeline(encode, OrdinalGPClassifier(kernel, optimizer=None)).fit(frame, y)
    display = EffectDisplay.from_estimator(model, frame, resolution=5, max_rows=60)
    assert {panel.axis.name for panel in display.panels} == {"hours", "town", "size", "rooms"}
    town = panel_of(display, "town")
    assert town.axis.labels == ["b", "c", "a"]
    rank = town.mean @ np.arange(1.0, 1.0 + town.mean.shape[1])
    assert np.all(np.diff(rank) > 0)
    assert panel_of(display, "size").axis.labels == ["small", "mid", "big"]
    assert panel_of(display, "rooms").axis.labels == ["1", "2", "3", "4"]
    assert panel_of(display, "hours").axis.labels is None
    if display.kind == "latent":
        shares = np.array([np.mean(town.axis.rows == at) for at in range(3)])
        assert abs(shares @ town.mean[:, 0]) < 0.1  # centred over all rows, drawn from some


def test_the_most_frequent_of_many_texts_are_drawn():
    pandas = pytest.importorskip("pandas")
    words = np.repeat([f"w{i:02d}" for i in range(20)], np.arange(20, 0, -1))
    frame = pandas.DataFrame({"word": words})
    y = np.arange(len(words)) % 3
    model = make_pipeline(
        OneHotEncoder(sparse_output=False), OrdinalGPClassifier(RBF(1.0), optimizer=None)
    ).fit(frame, y)
    (panel,) = EffectDisplay.from_estimator(model, frame, max_rows=300).panels
    assert sorted(panel.axis.labels) == [f"w{i:02d}" for i in range(12)]


@pytest.mark.parametrize("kernel", ["additive", "rbf"])
def test_tables_are_drawn_by_their_columns(kernel):
    columns, grade = school()
    model = TableModel(OrdinalGPClassifier(categories=LEVELS), kernel=kernel)
    model.fit(columns, np.array(LEVELS)[grade - 1])
    display = EffectDisplay.from_estimator(model, columns, resolution=5)
    assert {panel.axis.name for panel in display.panels} == set(columns)
    tutor = panel_of(display, "tutor")
    assert tutor.axis.labels == ["no", "yes", "missing"]
    if kernel == "additive":
        cells = {name: [column[0]] * 3 for name, column in columns.items()}
        found = model.effects(cells | {"tutor": ["no", "yes", None]})
        assert found.feature_names == list(columns)
        assert_allclose(tutor.mean[:, 0], found.mean[:, 2], atol=1e-12)


def test_polars_frames(rows, additive):
    polars = pytest.importorskip("polars")
    X, y = rows
    frame = polars.DataFrame(X, schema=NAMES)
    model = OrdinalGPClassifier(Additive(1.0), optimizer=None).fit(frame, y)
    display = EffectDisplay.from_estimator(model, frame, resolution=5)
    array = EffectDisplay.from_estimator(additive, X, feature_names=NAMES, resolution=5)
    for one, other in zip(display.panels, array.panels, strict=True):
        assert one.axis.name == other.axis.name
        assert_allclose(one.mean, other.mean)


# --------------------------------------------------------------------------------- drawing


def test_draws_in_the_place_of_given_axes(additive, rows):
    figure, (left, right) = plt.subplots(1, 2, layout="constrained")
    display = EffectDisplay.from_estimator(additive, rows[0], resolution=5, ax=right)
    assert display.figure_ is figure
    figure.canvas.draw()
    assert all(ax.get_position().x0 > left.get_position().x0 for ax in display.axes_)
    again = display.plot()
    assert again is display
    assert display.figure_ is not figure


@pytest.mark.parametrize(("n", "n_cols", "shape"), [(4, 3, (2, 2)), (3, 3, (1, 3)), (4, 1, (4, 1))])
def test_panels_lie_in_rows(n, n_cols, shape, additive, rows):
    display = EffectDisplay.from_estimator(
        additive, rows[0], max_features=n, resolution=3, n_cols=n_cols
    )
    grid = display.axes_[0].get_subplotspec().get_gridspec()
    assert (grid.nrows, grid.ncols) == shape
    assert len(display.axes_) == n


def test_wrong_options_are_refused(additive, smooth, rows):
    X, _ = rows
    wrong = [
        ({"kind": "both"}, "kind must be one of"),
        ({"coverage": 1.0}, "coverage must be a number below 1"),
        ({"max_features": 0}, "max_features must be"),
        ({"features": ["x"]}, "features names 'x'"),
        ({"features": [9]}, "There is no feature 9"),
    ]
    for options, message in wrong:
        with pytest.raises(ValueError, match=message):
            EffectDisplay.from_estimator(additive, X, **options)
    with pytest.raises(ValueError, match="None of the columns has two different values"):
        EffectDisplay.from_estimator(additive, np.ones((5, 4)))
    with pytest.raises(ValueError, match="kind='latent' needs a kernel with a part of each"):
        EffectDisplay.from_estimator(smooth, X, kind="latent")


def test_equal_seeds_draw_equal_pictures(smooth, rows):
    options = {"resolution": 4, "max_rows": 20, "max_features": 1}
    one, two = (EffectDisplay.computed(smooth, rows[0], **options) for _ in range(2))
    assert_array_equal(one.panels[0].low, two.panels[0].low)


def test_a_sparse_model_of_one_column_shows_probabilities():
    """Its kernel is a function of one column, but the model has no latent effect of it."""
    X = np.linspace(-2, 2, 30)[:, None]
    model = SparseBayesOrdinalClassifier().fit(X, np.digitize(X[:, 0], [-0.7, 0.7]))
    display = EffectDisplay.from_estimator(model, X)
    assert display.panels[0].mean.shape[1] == 3
    display.figure_.canvas.draw()
