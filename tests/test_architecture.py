"""The rules of the style guide that a machine can check: imports, sizes, documentation."""

import ast
import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import ordinalgp

PACKAGE = Path(ordinalgp.__file__).parent
SOURCES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
# The house from its ground to its roof: a part imports parts of earlier lines, and its own folder.
# Parts of one line do not import each other. Of core, the modules have their own order.
LINES = [
    {"_typing"},
    {"runtime"},
    {"validation"},
    {"decisions"},
    {"metrics"},
    {"kernels"},
    {"core.truncated_normal", "core.hyperparameters", "core.hyperprior", "core.linalg"},
    {"core.likelihoods", "core.projections"},
    {"core.ordinal_logit", "core.counted_levels", "core.posterior", "core.elimination"},
    {"core.observation_space", "core.latent_space", "core.sparse_precision"},
    {"core.gaussian"},
    {"core.problem"},
    {"core.laplace", "core.repeated_observations"},
    {"core.ep"},
    {"core.inference"},
    {"core.objectives"},
    {"core.variational_bound"},
    {"core.kernel_tiles"},
    {"core.kernel_matrix"},
    {"core.kernel_gradient"},
    {"core.curvature", "core.quasi_newton", "core.trail"},
    {"core.search"},
    {"imputation", "persistence", "hyperpriors"},
    {"models"},
    {"many_rows"},
    {"gp"},
    {"sequential"},
    {"stacking"},
    {"least_squares", "collaborative", "preference", "sparse", "baselines"},
    {"model_selection"},
    {"datasets"},
    {"plots"},
    {"tables"},
    {"report"},
    {"ask"},
    {"cli"},
    {"__main__"},
]
PLACE = {name: place for place, line in enumerate(LINES) for name in line}


def imported(path, *, when="ever"):
    """Absolute names of the modules that a file imports, anywhere in it or "at once"."""
    package = ("ordinalgp", *path.relative_to(PACKAGE).parent.parts)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = set()
    for node in ast.walk(tree) if when == "ever" else tree.body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            # "from package import module" imports the module as well.
            names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return names


def ours(path, *, when="ever"):
    """Which of our own modules a file imports, without the package's name."""
    names = imported(path, when=when)
    return {name.removeprefix("ordinalgp.") for name in names if "ordinalgp" in name} & set(SOURCES)


def foreign(path, *, when="ever"):
    return {name.split(".")[0] for name in imported(path, when=when)} - {"ordinalgp"}


def part(name):
    """The part of the house that a module belongs to: its folder, or itself in core and alone."""
    return name if name in PLACE else name.split(".")[0]


CORE = sorted(name for name in SOURCES if name.startswith("core."))


def test_the_sources_are_found():
    assert {"gp.estimator", "core.inference", "core.truncated_normal"} <= set(SOURCES)
    assert "core.posterior" in ours(SOURCES["core.gaussian"])
    assert "scipy" in foreign(SOURCES["core.truncated_normal"])


def test_every_part_has_its_line():
    found = {part(name) for name in SOURCES} - {"__init__", "core"}
    assert found <= set(PLACE), "add new folders, and new modules of core, to LINES"
    assert set(PLACE) <= found, "LINES names parts that do not exist"


def test_each_line_imports_only_earlier_lines():
    knots = set()
    for name, path in SOURCES.items():
        if name in ("__init__", "core"):
            continue
        for other in ours(path) - {"__init__", "core"}:
            here, there = part(name), part(other)
            if here != there and PLACE[there] >= PLACE[here]:
                knots.add((name, other))
    assert knots == set()


def test_no_private_module_at_the_root():
    roots = {name for name in SOURCES if "." not in name}
    assert {name for name in roots if name[0] == "_" and name[:2] != "__"} == {"_typing"}


def test_estimators_are_composed_and_not_assembled():
    """Options and one result: a public estimator has few classes of ours above it.

    An incremental machine is the same machine on a working set, so it inherits from it.
    """
    fourth = {"IncrementalOrdinalSVC"}
    estimators = [value for value in PUBLIC.values() if inspect.isclass(value)]
    estimators = [cls for cls in estimators if issubclass(cls, BaseEstimator)]
    assert len(estimators) >= 8
    for cls in estimators:
        own = [base for base in cls.__mro__ if base.__module__.startswith("ordinalgp")]
        assert len(own) <= 3 + (cls.__name__ in fourth), f"{cls.__name__} is assembled from {own}"


def test_no_test_patches_a_private_constant():
    patch = re.compile(r"""setattr\([^)]*["']?[\w.]*\b_[A-Z][A-Z_]+["']""")
    for path in sorted(Path(__file__).parent.rglob("test_*.py")):
        found = patch.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path.name} patches {found and found[0]}"


def test_core_knows_only_numbers():
    allowed = {"numpy", "scipy"} | set(sys.stdlib_module_names)
    more = {
        "core.hyperparameters": {"sklearn"},
        "core.kernel_tiles": {"sklearn"},
        "core.kernel_matrix": {"sklearn"},
        "core.kernel_gradient": {"sklearn"},
        "core.search": {"joblib"},
    }
    for name in CORE:
        assert foreign(SOURCES[name]) <= allowed | more.get(name, set()), name


@pytest.mark.parametrize(
    "name", ["core.hyperparameters", "core.kernel_matrix", "core.kernel_gradient"]
)
def test_core_knows_scikit_learns_kernels_and_nothing_else_of_it(name):
    names = {other for other in imported(SOURCES[name]) if other.startswith("sklearn")}
    assert names == {"sklearn.gaussian_process", "sklearn.gaussian_process.kernels"}


def test_extras_are_imported_on_use():
    """Only the core dependencies are there in every installation."""
    always = {"numpy", "scipy", "sklearn", "joblib", "threadpoolctl"}
    always |= set(sys.stdlib_module_names)
    for name, path in SOURCES.items():
        command = name.startswith("cli.") and name != "cli.main"  # which main imports on use
        allowed = always | ({"typer", "rich"} if command else set())
        allowed |= {"starlette"} if name == "ask.application" else set()  # which the server imports
        assert foreign(path, when="at once") <= allowed, name


def test_no_module_imports_one_that_imports_it():
    folders = {name for name, path in SOURCES.items() if path.name == "__init__.py"}
    reach = {name: ours(path, when="at once") - folders for name, path in SOURCES.items()}
    for name in reach:
        seen, todo = set(), set(reach[name])
        while todo:
            seen |= todo
            todo = set().union(*(reach[other] for other in todo)) - seen
        assert name not in seen, f"{name} imports itself through {sorted(seen)}"


def public():
    """Every name in ``ordinalgp.__all__``, and the public ones of the modules users import."""
    found = {
        f"ordinalgp.{name}": getattr(ordinalgp, name)
        for name in ordinalgp.__all__
        if callable(getattr(ordinalgp, name))
    }
    for module in ("metrics", "decisions", "kernels", "imputation"):
        loaded = importlib.import_module(f"ordinalgp.{module}")
        names = getattr(loaded, "__all__", [name for name in vars(loaded) if name[0] != "_"])
        for name in names:
            value = getattr(loaded, name)
            own = f"{getattr(value, '__module__', '')}.".startswith(f"{loaded.__name__}.")
            if own and (inspect.isfunction(value) or inspect.isclass(value)):
                found[f"{module}.{name}"] = value
    return found


PUBLIC = public()
MADE_BY_A_FUNCTION = {"metrics.OrdinalScorer"}  # its examples are those of make_ordinal_scorer


def test_public_names_are_found():
    assert {"ordinalgp.OrdinalGPClassifier", "metrics.log_score", "decisions.decide"} <= set(PUBLIC)


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - MADE_BY_A_FUNCTION))
def test_public_names_have_examples(name):
    text = inspect.getdoc(PUBLIC[name]) or ""
    heading, _, examples = text.partition("Examples\n--------\n")
    assert heading.strip()
    assert ">>> " in examples


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_names_and_methods_are_documented(name):
    value = PUBLIC[name]
    assert inspect.getdoc(value)
    if inspect.isclass(value):
        for method, member in vars(value).items():
            if not method.startswith("_") and inspect.isfunction(member):
                assert member.__doc__, f"{name}.{method} has no docstring"


def test_the_version_is_public():
    assert "__version__" in ordinalgp.__all__
    assert ordinalgp.__version__.split(".")[0].isdigit()
