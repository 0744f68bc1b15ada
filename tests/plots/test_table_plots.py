"""Plots of comparisons and of explained rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ordinalgp import OrdinalGPClassifier
from ordinalgp.plots import ExplanationDisplay, ModelComparisonDisplay
from ordinalgp.tables import TableModel, compare, explain

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def closed_figures():
    plt.close("all")
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.digitize(X[:, 0] - X[:, 1], [-0.7, 0.7])
    return {"$a$ in $": X[:, 0], "b_{x}": X[:, 1], "c": X[:, 2]}, np.array(["$l", "m", "h$"])[y]


LEVELS = ["$l", "m", "h$"]


def test_comparison_has_points_at_the_scores(table):
    X, y = table
    result = compare(X, y, categories=LEVELS, models=["logistic", "frequencies"], cv=2)
    display = ModelComparisonDisplay.from_comparison(result)
    rows = result.table()
    assert [axes.get_xlabel() for axes in display.axes_] == list(result.scores.values())
    for axes, score in zip(display.axes_, result.scores, strict=True):
        drawn = [line.get_xdata() for line in axes.containers[1].lines[:1]]
        assert_allclose(np.ravel(drawn), [row[score] for row in rows])
    names = [text.get_text() for text in display.axes_[0].get_yticklabels()]
    assert names == [row["name"] for row in rows]
    assert "lower is better" in display.axes_[0].get_title("left")
    display.plot()
    display.figure_.canvas.draw()


def test_comparison_marks_ours_and_skips_infinite_scores():
    values = {"log score": np.array([1.0, 1.2, np.inf])}
    errors = {"log score": np.array([0.0, 0.1, np.nan])}
    display = ModelComparisonDisplay(["$a", "b$", "c"], values, errors, [True, False, False]).plot()
    ours, others = display.axes_[0].containers
    assert_allclose(ours.lines[0].get_xdata(), [1.0])
    assert_allclose(others.lines[0].get_xdata(), [1.2])
    display.figure_.canvas.draw()


@pytest.fixture(scope="module")
def explained(table):
    X, y = table
    model = TableModel(OrdinalGPClassifier(categories=LEVELS)).fit(X, y)
    return explain(model, {name: cells[:3] for name, cells in X.items()})


def test_bars_lead_from_the_average_to_the_row(explained):
    for at, row in enumerate(explained.rows):
        display = ExplanationDisplay.from_explanations(explained, row=at)
        starts = np.array([bar.get_x() for bar in display.bars_])
        widths = np.array([bar.get_width() for bar in display.bars_])
        assert_allclose(starts[0], explained.average)
        assert_allclose(starts[1:], (starts + widths)[:-1], atol=1e-12)
        assert_allclose(starts[-1] + widths[-1], row.expected, atol=1e-9)
        assert_allclose(widths, [each.contribution for each in row.columns], atol=1e-12)


def test_names_with_dollars_are_literal(explained):
    display = ExplanationDisplay.from_explanations(explained)
    display.figure_.canvas.draw()
    names = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert sorted(name.partition(" = ")[0] for name in names) == ["$a$ in $", "b_{x}", "c"]
    texts = [*display.ax_.get_yticklabels(), display.ax_.title, *display.ax_.texts]
    assert not any(text.get_parse_math() for text in texts if "$" in text.get_text())


def test_the_title_is_above_the_names_of_levels(explained):
    display = ExplanationDisplay.from_explanations(explained)
    display.figure_.canvas.draw()
    renderer = display.figure_.canvas.get_renderer()
    (title,) = (
        text
        for text in display.ax_.get_children()
        if getattr(text, "get_text", str)() == display.title
    )
    names = [text for text in display.ax_.texts if text.get_text() in LEVELS]
    assert names
    bottom = title.get_window_extent(renderer).y0
    assert all(text.get_window_extent(renderer).y1 <= bottom for text in names)


def test_columns_beyond_the_limit_are_one_bar(explained):
    display = ExplanationDisplay.from_explanations(explained, max_columns=1)
    assert display.names[1] == "2 more columns"
    total = explained.average + display.contributions.sum()
    assert_allclose(total, explained.rows[0].expected, atol=1e-9)


def test_a_row_that_was_not_explained_is_an_error(explained):
    with pytest.raises(ValueError, match="one of the 3 explained rows, but is 3"):
        ExplanationDisplay.from_explanations(explained, row=3)
