"""Names from data are drawn letter by letter, whatever matplotlib's mathematics makes of them."""

import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from ordinalgp import OrdinalGPClassifier, PreferenceGP, SparseBayesOrdinalClassifier, plots
from ordinalgp.kernels import Additive
from ordinalgp.tables import TableModel, compare, explain

plt = pytest.importorskip("matplotlib.pyplot")
FEATURES = ["cost $x^2$ in $", r"a\$b_{c} $\frac$"]
LEVELS = ["_low $1", r"$mid_{x}$ ^ \alpha", "high $_$ $"]
ITEMS = ["$1 item", "$\\bad", "a$b$c", "_d_$e$"]
GRID = np.random.default_rng(0).normal(size=(40, 2))
CODES = np.digitize(GRID[:, 0], [-0.5, 0.5])
Y = np.array(LEVELS)[CODES]
TABLE = dict(zip(FEATURES, GRID.T, strict=True))
PAIRS = [(ITEMS[i], ITEMS[j]) for i, j in [(0, 1), (1, 2), (2, 3), (0, 3)]]


def classifier(kernel=None):
    given = {"categories": LEVELS, "optimizer": None}
    return OrdinalGPClassifier(RBF(1.0) if kernel is None else kernel, **given).fit(GRID, Y)


def preferences():
    return PreferenceGP("independent", noise=0.5, optimizer=None).fit(ITEMS, PAIRS)


def curve():
    model = PreferenceGP("independent", noise=0.5, optimizer=None)
    options = {"sizes": [2, 3], "n_repetitions": 1}
    return plots.ComparisonCurveDisplay.from_estimator(model, ITEMS, PAIRS, **options)


def relevance_vectors():
    model = SparseBayesOrdinalClassifier(RBF(1.0), categories=LEVELS, random_state=0)
    draw = plots.RelevanceVectorsDisplay.from_estimator
    return draw(model.fit(GRID, Y), GRID, Y, feature_names=FEATURES)


def effects():
    draw = plots.EffectDisplay.from_estimator
    return draw(classifier(Additive([1.0, 1.0])), GRID, feature_names=FEATURES)


def contour():
    draw = plots.ContourDisplay.from_estimator
    return draw(classifier(), GRID, Y, feature_names=FEATURES)


def relevance():
    draw = plots.RelevanceDisplay.from_estimator
    return draw(classifier(RBF([1.0, 2.0])), GRID, feature_names=FEATURES)


def table_model(**given):
    quick = OrdinalGPClassifier(RBF(1.0), optimizer=None)
    model = TableModel(quick, categories=LEVELS, kernel="rbf", **given)
    return model.fit(TABLE, Y)


def importance():
    return plots.ImportanceDisplay.from_estimator(table_model(folds=2))


def explanation():
    found = explain(table_model(), {name: cells[:1] for name, cells in TABLE.items()})
    return plots.ExplanationDisplay.from_explanations(found)


def model_comparison():
    found = compare(TABLE, Y, categories=LEVELS, models=["logistic", "frequencies"], cv=2)
    return plots.ModelComparisonDisplay.from_comparison(found)


DRAWN = {
    "CalibrationDisplay": (
        lambda: plots.CalibrationDisplay.from_estimator(classifier(), GRID, Y, kind="level"),
        LEVELS,
    ),
    "ComparisonCurveDisplay": (curve, []),
    "ComparisonDisplay": (
        lambda: plots.ComparisonDisplay.from_estimator(preferences(), ITEMS),
        ITEMS,
    ),
    "ConfusionDisplay": (
        lambda: plots.ConfusionDisplay.from_estimator(classifier(), GRID, Y),
        LEVELS,
    ),
    "ContourDisplay": (contour, LEVELS + FEATURES),
    "EffectDisplay": (effects, FEATURES + LEVELS[1:2]),
    "EvidenceDisplay": (
        lambda: plots.EvidenceDisplay.from_estimator(OrdinalGPClassifier().fit(GRID, CODES)),
        [],
    ),
    "ExplanationDisplay": (explanation, [*FEATURES, LEVELS[1]]),
    "ImportanceDisplay": (importance, FEATURES),
    "IntervalDisplay": (
        lambda: plots.IntervalDisplay.from_estimator(classifier(), GRID, Y),
        LEVELS,
    ),
    "LatentDisplay": (lambda: plots.LatentDisplay.from_estimator(classifier(), GRID, Y), LEVELS),
    "ModelComparisonDisplay": (model_comparison, []),
    "PosteriorDisplay": (
        lambda: plots.PosteriorDisplay.from_estimator(
            classifier(), GRID, Y, feature=1, feature_names=FEATURES
        ),
        [*LEVELS, FEATURES[1]],
    ),
    "RankingDisplay": (lambda: plots.RankingDisplay.from_estimator(preferences(), ITEMS), ITEMS),
    "RelevanceDisplay": (relevance, FEATURES),
    "RelevanceVectorsDisplay": (relevance_vectors, LEVELS + FEATURES),
}


@pytest.fixture(autouse=True)
def closed_figures():
    plt.close("all")
    plt.switch_backend("Agg")
    yield
    plt.close("all")


def drawn_text(figure):
    """All text of a figure as a reader sees it, from an SVG file that has letters as letters."""
    content = io.BytesIO()
    with plt.rc_context({"svg.fonttype": "none"}):
        figure.savefig(content, format="svg")
    found = ElementTree.fromstring(content.getvalue())
    lines = ["".join(each.itertext()) for each in found.iter() if each.tag.endswith("}text")]
    return re.sub("[\u200b\n]", "", " ".join(lines))


def test_every_display_is_here():
    assert set(DRAWN) == set(plots.__all__)


@pytest.mark.parametrize("name", DRAWN)
def test_names_are_literal(name):
    draw, wanted = DRAWN[name]
    text = drawn_text(draw().figure_)
    for each in wanted:
        assert each in text, each


def test_a_name_with_an_underscore_is_in_the_legend():
    legend = contour().ax_.get_legend()
    assert len(legend.get_texts()) == len(LEVELS)


def test_settings_of_matplotlib_stay():
    before = dict(plt.rcParams)
    contour()
    assert dict(plt.rcParams) == before
