"""The report, looked at by a real browser: Chromium without a screen."""

import json
import re
import struct
from html import unescape

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.chromium import CONTRAST, chromium
from tests.table_cases import LEVELS, school, write_csv

from ordinalgp import OrdinalGPClassifier, SparseBayesOrdinalClassifier
from ordinalgp.tables import TableModel

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
import matplotlib.pyplot as plt

from ordinalgp.report import report_html


@pytest.fixture(scope="module")
def model():
    columns, grade = school()
    y = np.array(LEVELS)[grade - 1]
    columns["<b>odd & name</b>"] = [float(i % 5) for i in range(len(y))]
    classifier = OrdinalGPClassifier(categories=LEVELS)
    return TableModel(classifier, kernel="ard", target="grade", folds=3).fit(columns, y)


@pytest.fixture(scope="module")
def html(model):
    return report_html(model)


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module", params=["light", "dark"])
def page(request, browser, html, tmp_path_factory):
    """The page of a report, with what its browser complained about or asked the network for."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html, encoding="utf-8")
    context = browser.new_context(color_scheme=request.param, offline=True)
    page = context.new_page()
    page.complaints = []
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("request", lambda asked: page.complaints.append(asked.url[:60]))
    page.goto(path.as_uri())
    page.scheme = request.param
    yield page
    context.close()


def test_the_page_loads_without_complaints_and_without_the_network(page):
    page.wait_for_load_state("networkidle")
    asked = [c for c in page.complaints if not c.startswith(("file:", "data:"))]
    assert asked == []


def test_the_images_show_and_have_words(page):
    images = page.evaluate(
        "() => [...document.images].map(i => [i.complete, i.naturalWidth, i.alt, i.offsetWidth])"
    )
    assert len(images) == 10
    for complete, width, alt, shown in images:
        assert complete
        assert width > 300
        assert shown > 300
        assert len(alt) > 30


def test_the_table_of_levels_holds_the_right_numbers(page, model):
    rows = page.evaluate(
        "() => [...document.querySelectorAll('#levels tbody tr')]"
        ".map(r => [...r.cells].map(c => c.textContent.trim()))"
    )
    counts = [int(np.sum(model.codes_ == k)) for k in range(3)]
    assert [row[0] for row in rows] == LEVELS
    assert [int(row[1]) for row in rows] == counts
    shares = [float(row[2].split()[0]) for row in rows]
    assert_allclose(shares, 100 * np.divide(counts, 48), atol=0.05)
    assert_allclose([float(row[3]) for row in rows[1:]], model.thresholds_, atol=5e-4)
    assert_allclose([float(row[4]) for row in rows[:-1]], model.thresholds_, atol=5e-4)
    assert rows[0][3] == rows[-1][4] == ""


def test_every_text_has_enough_contrast(page):
    found = page.evaluate(CONTRAST)
    assert len(found) > 60
    assert min(found)[0] >= 4.5, min(found)


def test_light_is_light_and_dark_is_dark(page):
    shot = page.screenshot()
    background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    brightness = np.mean([int(v) for v in re.findall(r"\d+", background)[:3]])
    assert (brightness > 200) == (page.scheme == "light")
    assert (brightness < 60) == (page.scheme == "dark")
    assert struct.unpack(">II", shot[16:24])[0] > 300


def test_paper_is_white_in_both_schemes(page):
    page.emulate_media(media="print", color_scheme=page.scheme)
    style = "() => [getComputedStyle(document.body).backgroundColor, "
    style += "getComputedStyle(document.images[0]).filter]"
    found = page.evaluate(style)
    page.emulate_media(media="screen", color_scheme=page.scheme)
    assert found == ["rgb(255, 255, 255)", "none"]
    assert page.evaluate(style) != found


def test_the_page_fits_a_telephone(page):
    page.set_viewport_size({"width": 380, "height": 700})
    width = page.evaluate("() => document.documentElement.scrollWidth")
    page.set_viewport_size({"width": 1000, "height": 800})
    assert width <= 380


def test_the_page_is_well_built(page):
    """Headings descend step by step, tables have captions and header cells, names are escaped."""
    levels = page.evaluate(
        "() => [...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1])"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert np.diff(levels).max() == 1
    assert page.evaluate("() => document.documentElement.lang") == "en"
    assert page.evaluate("() => document.querySelectorAll('table:not(:has(caption))').length") == 0
    names = page.evaluate("() => [...document.querySelectorAll('#columns tbody th')]"
                          ".map(c => c.textContent)")  # fmt: skip
    assert "<b>odd & name</b>" in names


# ------------------------------------------------------------------------- without a browser


def test_the_python_in_it_repeats_the_model(model, html, tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    code = re.search(r'<pre id="python"><code>(.*?)</code>', html, re.DOTALL)[1]
    code = unescape(code)
    columns, grade = school()
    columns["<b>odd & name</b>"] = [float(i % 5) for i in range(48)]
    y = [LEVELS[g - 1] for g in grade]
    write_csv(tmp_path / "table.csv", columns | {"grade": y})
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(code, "report", "exec"), names)
    expected = model.category_proba(columns)
    assert_allclose(names["model"].category_proba(columns), expected, rtol=0, atol=1e-12)
    assert "[[" in capsys.readouterr().out


def test_models_without_folds_or_search_have_a_report_too():
    columns = {"x": [1.0, 2, 3, 4, 5, 6], "flat": [1.0] * 6}
    classifier = OrdinalGPClassifier(optimizer=None)
    bare = TableModel(classifier, kernel="rbf").fit(columns, [1, 1, 2, 2, 3, 3])
    page = report_html(bare)
    # latent, confusion, calibration twice, intervals, effects, along x
    assert page.count("<img ") == 7
    assert "Model of ordered levels" in page
    assert "NaN" not in page
    assert "Leave-one-out scores" in page
    assert "This flatters the model" in page
    assert "importance" not in page.lower()


def test_scores_are_those_of_unseen_rows_and_columns_have_their_importance(model, html):
    text = " ".join(unescape(html).split())
    held = model.held_out_
    score = -np.log(held.proba[np.arange(len(held.codes)), held.codes]).mean()
    assert f"log score</th><td>{score:.3f}</td>" in text
    assert "3 folds: each row is predicted by a model fitted without it" in text
    assert "Slightly pessimistic" in text
    for name, (mean, error) in model.importance_.as_dict().items():
        assert f"{name}" in text
        assert f"<td>{mean:.3f} ± {error:.3f}</td>" in text
    assert "Importance of the columns: hours" in text
    assert "relevance" not in text.lower()
    assert "is ignored" not in text


@pytest.mark.parametrize(
    ("kernel", "title"),
    [
        ("additive", "Effect of each column on the latent scale"),
        ("rbf", "Probability of each level"),
    ],
)
def test_the_page_says_what_each_column_does(kernel, title):
    columns, grade = school()
    classifier = OrdinalGPClassifier(optimizer=None, categories=LEVELS)
    fitted = TableModel(classifier, kernel=kernel).fit(columns, np.array(LEVELS)[grade - 1])
    page = unescape(report_html(fitted))
    assert "<h2>What each column does</h2>" in page
    assert title in page
    told = re.search(r'alt="Effects, the largest first: (hours .*?)\."', page)[1]
    names = [part.split(" (")[0] for part in told.split(", ")]
    assert sorted(names) == sorted(columns)  # one panel per column, texts and gaps included


def test_a_table_without_differences_has_no_effects():
    flat = TableModel(OrdinalGPClassifier(optimizer=None)).fit(
        {"flat": [1.0] * 6}, [1, 1, 2, 2, 3, 3]
    )
    assert "What each column does" not in report_html(flat)


def test_a_sparse_model_tells_of_steps_and_not_of_evaluations(html):
    columns, grade = school()
    sparse = TableModel(SparseBayesOrdinalClassifier(random_state=0)).fit(columns, grade)
    steps = len(sparse.classifier_.evidence_path_)
    page = report_html(sparse)
    assert f"Log evidence over {steps} steps" in page
    assert "Functions enter, change and leave" in page
    assert " evaluations, from" in html


def test_a_report_leaves_figures_and_windows_alone(model):
    plt.close("all")
    before = plt.get_backend()
    plt.switch_backend("svg")  # another than reports could do with
    try:
        mine = plt.figure()
        report_html(model)
        assert plt.get_backend() == "svg"
        assert plt.get_fignums() == [mine.number]
    finally:
        plt.close("all")
        plt.switch_backend(before)


def test_a_search_that_failed_is_announced():
    columns = {"x": [1.0, 2, 3, 4, 5, 6]}
    loose = TableModel(OrdinalGPClassifier(), kernel="rbf").fit(columns, [1, 1, 2, 2, 3, 3])
    loose.classifier_.converged_ = False
    html = report_html(loose)
    assert "did not converge" in html
    assert "fit again without columns that say little" in html


def test_the_command_writes_the_same_page(model, html, tmp_path, monkeypatch, capsys):
    pytest.importorskip("typer")
    from ordinalgp.cli.main import build

    monkeypatch.chdir(tmp_path)
    model.save("model.ogp")
    with pytest.raises(SystemExit) as stopped:
        build()(["report", "no.ogp"])
    assert stopped.value.code == 2
    assert "There is no file 'no.ogp'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        build()(["report", "model.ogp", "-o", "page.html", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["bytes"] == (tmp_path / "page.html").stat().st_size
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == html
