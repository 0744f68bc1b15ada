"""The README and the pages of the guide: their examples run and print what is shown."""

import re
from pathlib import Path

import numpy as np
import pytest

from papers.__main__ import EXPERIMENTS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = sorted(
    page
    for folder in ("start", "guide")
    for page in (ROOT / "docs" / folder).glob("*.md")
    if page.name != "index.md"
)
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
NUMBER = r"-?\d+\.?\d*"
FILES = {
    "comparing-and-explaining.md": {"compare.png", "row.png"},
    "pictures.md": {"contours.png", "latent.png", "calibration.png"},
    "saving.md": {"model.ogp", "grades.ogp"},
    "tables-and-command-line.md": {"grades.ogp"},
}


def words_and_numbers(text):
    text = re.sub(r"([\[\]])", r" \1 ", text)  # numpy's padding changes with the last digit
    return re.sub(NUMBER, "#", text).split(), np.array(re.findall(NUMBER, text), dtype=float)


@pytest.mark.parametrize("page", [ROOT / "README.md", *GUIDE], ids=lambda page: page.name)
def test_every_example_runs_and_prints_what_it_shows(page, tmp_path, monkeypatch, capsys):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.close("all")
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert len(blocks) == text.count("```python")
    assert sum(shown != "" for _, shown in blocks) == text.count("```text")
    names: dict[str, object] = {}
    for code, shown in blocks:
        exec(compile(code, page.name, "exec"), names)
        printed, numbers = words_and_numbers(capsys.readouterr().out)
        words, expected = words_and_numbers(shown)
        assert printed == words
        np.testing.assert_allclose(numbers, expected, rtol=0.05, atol=0.02)
    plt.close("all")
    assert FILES.get(page.name, set()) <= {path.name for path in tmp_path.iterdir()}


def test_most_pages_have_examples_and_the_readme_is_short():
    assert len(README.splitlines()) <= 120
    shown = [page for page in GUIDE if BLOCK.search(page.read_text(encoding="utf-8"))]
    assert len(shown) >= 9
    assert FILES.keys() <= {page.name for page in GUIDE}


def test_the_index_links_every_page_of_the_guide():
    for page in GUIDE:
        index = (page.parent / "index.md").read_text(encoding="utf-8")
        assert f"]({page.name})" in index, f"{page.name} is not explained in its index"
        assert re.search(rf"^(.*<)?{page.stem}>?$", index, re.MULTILINE), f"no entry of {page.name}"


@pytest.mark.parametrize("command", ["demo", "test"])
def test_the_two_commands_are_named_and_exist(command):
    assert f"make {command}" in README
    assert re.search(rf"^{command}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def anchors(page):
    """Anchors of the headings of a page, as GitHub makes them."""
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"^```{include} (.*)$", text, re.MULTILINE):
        text += (page.parent / name).read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def source_of(goal):
    """The example behind a page of the gallery, which is made by ``make docs``; else ``goal``."""
    gallery = ROOT / "docs" / "gallery"
    if not (goal := goal.resolve()).is_relative_to(gallery):
        return goal
    example = ROOT / "examples" / goal.relative_to(gallery)
    return example.with_name("GALLERY_HEADER.rst" if goal.stem == "index" else f"{goal.stem}.py")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
        goal = source_of(page.parent / target) if target else page
        assert goal.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(goal), f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_pages_ask_to_run_is_there(page):
    text = page.read_text(encoding="utf-8")
    for module in re.findall(r"python -m (benchmarks\.\w+)", text):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists(), f"{page.name} names {module}"
    for name in re.findall(r"python -m papers ([a-z]+(?:-\w+)*)", text):
        assert name in EXPERIMENTS, f"{page.name} names the table {name}"


CLAIM = re.compile(r"^- (\*\*\d.*?)\((docs/results/[\w-]+\.md)\)", re.MULTILINE | re.DOTALL)


def test_the_numbers_of_the_readme_are_on_the_pages_that_it_names():
    claims = CLAIM.findall(README)
    assert len(claims) == 3
    for claim, page in claims:
        shown = (ROOT / page).read_text(encoding="utf-8")
        for number in re.findall(r"\*\*([\d.]+)\*\*", claim):
            assert re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", shown), f"{page}: {number}"
