"""docs/papers.md names what there is: every formula of the papers, and code that exists."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

import ordinalgp
import ordinalgp.core

ROOT = next(p for p in Path(__file__).resolve().parents if (p / "pyproject.toml").is_file())
PACKAGE = Path(ordinalgp.__file__).parent
PAGE = ROOT / "docs" / "papers.md"
TEXT = PAGE.read_text(encoding="utf-8")
CODE = re.compile(r"`((?:ordinalgp|papers)(?:\.\w+)+)`")
TEST = re.compile(r"`(tests/[\w/]+\.py)((?:::\w+)+)`")
LINK = re.compile(r"\]\(([^)#:]+)\)")
KEY = r"[A-Z][A-Za-z]+\d\d[a-z]?"
ENTRY = re.compile(rf"^ *\.\. \[({KEY})\]", re.MULTILINE)

# Found by reading: the highest equation, table, figure and algorithm of each paper, and appendices.
# The text of [Chu05] that was read prints no (28); it stands between (27) and (29), in ln kappa.
PAPERS = {
    "Chu05": (30, 3, 4, 0, ("Appendix A", "Appendix B", "Appendix C")),
    "Srijith12": (13, 5, 1, 0, ()),
    "Wang10": (10, 1, 2, 0, ()),
    "Yu06": (3, 2, 0, 0, ("Appendix",)),
    "Li18": (21, 5, 2, 1, ()),
}


def sections():
    """Rows of each paper's table, as lists of four cells."""
    found = {}
    for part in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]:
        (key,) = re.findall(rf"\[({KEY})\]$", part.splitlines()[0])
        lines = [line for line in part.splitlines() if line.startswith("|")]
        found[key] = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines[2:]]
    return found


ROWS = sections()


@cache
def named_in(path):
    """Functions of a test file, and methods of its classes as (class, method)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef)]
    methods = {(c.name, n.name) for c in classes for n in c.body if isinstance(n, ast.FunctionDef)}
    return {(node.name,) for node in [*functions, *classes]} | methods


def resolve(name):
    """Import as much of a dotted name as is a module, and look up the rest by getattr."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if not f"{module}.".startswith(f"{error.name}."):
                raise  # the module is there, something that it imports is not
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise LookupError(name)


def test_the_papers_are_all_there():
    assert list(ROWS) == list(PAPERS)
    assert all(len(row) == 4 for rows in ROWS.values() for row in rows)
    assert len(CODE.findall(TEXT)) > 100
    assert len(TEST.findall(TEXT)) > 100


@pytest.mark.parametrize("key", PAPERS)
def test_every_number_of_a_paper_has_one_row(key):
    equations, *counts, appendices = PAPERS[key]
    expected = [f"({i})" for i in range(1, equations + 1)]
    for word, count in zip(("Table", "Figure", "Algorithm"), counts, strict=True):
        expected += [f"{word} {i}" for i in range(1, count + 1)]
    names = [row[0] for row in ROWS[key]]
    numbered = re.compile(r"\(\d+\)|(Table|Figure|Algorithm) \d+|Appendix( [A-Z])?")
    found = [name for name in names if numbered.fullmatch(name)]
    assert sorted(found) == sorted([*expected, *appendices])
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("key", PAPERS)
def test_a_row_has_code_and_a_witness_or_a_reason(key):
    for name, what, code, witness in ROWS[key]:
        assert what, name
        assert CODE.search(code) or code.startswith("Absent"), name
        assert TEST.search(witness) or LINK.search(witness), name


def exists(name):
    try:
        resolve(name)
    except (LookupError, AttributeError):
        return False
    return True


def test_code_that_is_named_exists():
    assert [name for name in sorted(set(CODE.findall(TEXT))) if not exists(name)] == []


def test_tests_that_are_named_exist():
    wanted = sorted({(file, *names.split("::")[1:]) for file, names in TEST.findall(TEXT)})
    absent = {file for file, *_ in wanted if not (ROOT / file).is_file()}
    assert absent == set()
    assert [test for test in wanted if test[1:] not in named_in(ROOT / test[0])] == []


def test_nothing_that_looks_like_a_name_escapes():
    """What is in backticks and has dots or paths is one of the above."""
    for quoted in re.findall(r"`([^`]+)`", TEXT):
        if quoted.startswith(("ordinalgp", "papers", "tests/")):
            assert quoted == "ordinalgp" or CODE.match(f"`{quoted}`") or TEST.match(f"`{quoted}`")


def test_links_lead_to_files():
    assert [to for to in LINK.findall(TEXT) if not (PAGE.parent / to).is_file()] == []


BIBLIOGRAPHY = ENTRY.findall(ordinalgp.core.__doc__)
SOURCES = sorted(PACKAGE.rglob("*.py"))


def test_the_bibliography_has_every_key_once():
    assert len(set(BIBLIOGRAPHY)) == len(BIBLIOGRAPHY)
    assert list(PAPERS) == BIBLIOGRAPHY[: len(PAPERS)]
    assert set(re.findall(rf"\[({KEY})\](?!\()", TEXT)) <= set(BIBLIOGRAPHY)
    cited = {key for path in SOURCES for key in re.findall(rf"\[({KEY})\]_", read(path))}
    defined = {key for path in SOURCES for key in ENTRY.findall(read(path))}
    assert cited | defined <= set(BIBLIOGRAPHY)


def test_the_engine_has_one_bibliography():
    folder = Path(ordinalgp.core.__file__).parent
    others = [path for path in folder.rglob("*.py") if path != folder / "__init__.py"]
    assert [path.name for path in others if ENTRY.search(read(path))] == []


def read(path):
    return path.read_text(encoding="utf-8")
