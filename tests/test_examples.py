"""The gallery's examples: they compile, and the gallery finds them with a title and a text.

The documentation runs them (``make docs``).
"""

import ast
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FOLDERS = sorted(path for path in EXAMPLES.iterdir() if path.is_dir() and any(path.glob("*.py")))
SCRIPTS = sorted(EXAMPLES.rglob("*.py"))
# What `pip install ordinalgp[all]` brings along: an example needs nothing else, and no network.
PACKAGES = {"matplotlib", "numpy", "ordinalgp", "pathlib", "scipy", "sklearn", "tempfile", "time"}
HEADING = re.compile(r"\A\n?(?P<title>\S.*)\n(?P<rule>[=-])(?P=rule)+\n\n(?P<text>\S.*)", re.DOTALL)


def name_of(path):
    return str(path.relative_to(EXAMPLES))


def heading_of(text):
    """Title and first paragraph; the rule under the title must be as long as the title."""
    found = HEADING.match(text)
    assert found, f"no title in {text[:60]!r}"
    assert len(text.lstrip("\n").splitlines()[1]) >= len(found["title"])
    return found["title"], found["text"].split("\n\n")[0]


def test_there_are_at_least_twenty():
    assert len(SCRIPTS) >= 20


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_an_example_compiles_and_explains_itself(path):
    source = path.read_text(encoding="utf-8")
    compile(source, str(path), "exec")
    title, text = heading_of(ast.get_docstring(ast.parse(source), clean=False))
    assert len(title) <= 60
    assert len(text.split()) >= 20
    assert source.count("\n# %%\n") >= 2  # cells with an explanation each
    assert "plt.show()" in source


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_an_example_needs_no_other_package(path):
    used = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            used |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            used.add(node.module.split(".")[0])
    assert used - PACKAGES == set()


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_the_gallery_lists_an_example(path):
    """Sphinx-gallery runs plot_*.py, in folders with a header."""
    assert path.name.startswith("plot_")
    assert path.parent in FOLDERS
    assert path.parent.parent == EXAMPLES


@pytest.mark.parametrize("folder", [EXAMPLES, *FOLDERS], ids=lambda folder: folder.name)
def test_a_folder_has_a_heading(folder):
    heading_of((folder / "GALLERY_HEADER.rst").read_text(encoding="utf-8"))


def test_titles_are_unique():
    docstrings = (ast.get_docstring(ast.parse(p.read_text(encoding="utf-8"))) for p in SCRIPTS)
    titles = [text.splitlines()[0] for text in docstrings]
    assert len(set(titles)) == len(titles)
