"""The reference has every public name, each with an example; and the check of built pages works."""

import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ordinalgp

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
# Folders whose estimators users import from ordinalgp itself; what else they offer is listed.
INSIDE = {
    "baselines", "collaborative", "gp", "least_squares", "preference", "sequential", "sparse",
    "stacking",
}  # fmt: skip
NOT_FOR_USERS = {"__main__", "persistence"}


def public_names():
    """Public names of the package and of its public modules, as (module, name)."""
    found = (module.name for module in pkgutil.iter_modules(ordinalgp.__path__))
    modules = [name for name in found if name not in NOT_FOR_USERS]
    for module in ["ordinalgp", *(f"ordinalgp.{name}" for name in modules)]:
        inside = module.partition(".")[2] in INSIDE
        for name in getattr(importlib.import_module(module), "__all__", ()):
            if not name.startswith("_") and not (inside and name in ordinalgp.__all__):
                yield module, name


def listed():
    """Names in the reference, as (module, name)."""
    found = set()
    for part in REFERENCE.split(".. currentmodule:: ")[1:]:
        module, _, rest = part.partition("\n")
        block = rest.partition("```")[0]
        found |= {(module.strip(), name) for name in re.findall(r"^   (\w+)$", block, re.MULTILINE)}
    return found


NAMES = list(public_names())


def test_the_reference_lists_every_public_name():
    assert len(NAMES) > 60
    assert listed() == set(NAMES)


@pytest.mark.parametrize(("module", "name"), NAMES, ids=".".join)
def test_every_public_name_has_a_runnable_example(module, name):
    """The suite runs the examples themselves, by --doctest-modules."""
    text = inspect.getdoc(getattr(importlib.import_module(module), name))
    assert re.search(r"^Examples\n--------$", text, re.MULTILINE)
    examples = doctest.DocTestParser().get_examples(text.partition("Examples\n--------")[2])
    assert examples
    assert any(example.want for example in examples) or "Display" in name


def check(folder):
    """Run the check of built pages, and return its exit code and its output."""
    command = [sys.executable, str(ROOT / "tools" / "check_site.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_good_pages_pass(tmp_path):
    (tmp_path / "a.html").write_text('<p id="here"></p><a href="b.html#there">b</a>')
    (tmp_path / "b.html").write_text(
        '<p id="there"></p><a href="a.html#here">a</a><a href="https://example.org">far</a>'
    )
    assert check(tmp_path)[0] == 0


@pytest.mark.parametrize(
    ("tag", "problem"),
    [
        ('<a href="b.html">b</a>', "b.html leads nowhere"),
        ('<a href="#there">there</a>', "#there leads nowhere"),
        ('<img src="picture.png">', "picture.png leads nowhere"),
        ('<script src="https://example.org/x.js"></script>', "loads https://example.org/x.js"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "loads //example.org/x.css"),
        ('<p style="background: url(https://example.org/x)">', "loads https://example.org/x"),
    ],
)
def test_bad_pages_are_named(tmp_path, tag, problem):
    (tmp_path / "a.html").write_text(tag)
    code, printed = check(tmp_path)
    assert code == 1
    assert printed == f"a.html: {problem}\n"


def test_styles_that_load_are_named(tmp_path):
    (tmp_path / "a.html").write_text("<p>")
    (tmp_path / "a.css").write_text("@font-face { src: url('https://example.org/font.woff2') }")
    assert check(tmp_path) == (1, "a.css: loads https://example.org/font.woff2\n")


@pytest.fixture(scope="module")
def prose():
    """The module that measures sentences, which is no part of a package."""
    place = importlib.util.spec_from_file_location("prose", ROOT / "tools" / "prose.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


def test_sentences_are_counted_without_code_and_tables(prose):
    text = "# A title\n\nOne two three. Four `five`\nsix!\n\n- [seven eight](x.md)\n\n| a | b |\n"
    assert prose.sentences(text + "\n```python\nx = 1\n```\n") == [3, 3, 2]


def test_sentences_of_every_page_are_short(prose):
    pages = prose.pages([str(ROOT / "docs"), str(ROOT / "README.md")])
    assert len(pages) > 50
    assert [page.name for page in pages if prose.measure(page)[1] >= 25] == []
