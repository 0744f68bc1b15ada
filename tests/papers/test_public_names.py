"""The experiments use public names of the library alone, and find files in one place."""

import ast
import importlib

import pytest

from papers.data import ROOT

PUBLIC = {
    "ordinalgp",
    *(f"ordinalgp.{name}" for name in ("datasets", "decisions", "hyperpriors", "imputation")),
    *(f"ordinalgp.{name}" for name in ("kernels", "metrics", "model_selection", "plots", "tables")),
}
SOURCES = sorted([*(ROOT / "papers").glob("*.py"), *(ROOT / "tests" / "papers").glob("*.py")])


def imports(path):
    """Modules that a file imports, each with the names that it takes from it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module, [alias.name for alias in node.names]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_only_public_names_of_the_library_are_imported(path):
    for module, names in imports(path):
        assert module.split(".")[0] != "benchmarks", "benchmarks may use papers, not the reverse"
        if module.split(".")[0] == "ordinalgp":
            assert module in PUBLIC
            loaded = importlib.import_module(module)
            known = getattr(loaded, "__all__", dir(loaded))
            # A public module can be taken from the package itself.
            assert all(n in known or f"{module}.{n}" in PUBLIC for n in names), (module, names)
            assert not [name for name in names if name.startswith("_")]


def test_parent_folders_are_counted_in_one_place():
    places = {
        path.relative_to(ROOT).as_posix()
        for folder in ("papers", "benchmarks", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if '/ "shared"' in path.read_text(encoding="utf-8")
    }
    assert places == {"papers/data.py", "tests/papers/test_public_names.py"}
