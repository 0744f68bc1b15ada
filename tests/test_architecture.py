"""The rules of the style guide that a machine can check: imports, sizes, documentation."""

import ast
import importlib
import inspect
import io
import sys
import tokenize
from pathlib import Path

import pytest

import ordinalgp

PACKAGE = Path(ordinalgp.__file__).parent
SOURCES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
SOURCES["kernels"] = SOURCES.pop("kernels.__init__")  # a layer of the core that users import
# From left to right; a module imports from modules to its left, never from its own place or
# the right. logit and bound continue likelihoods and objectives; problem, laplace and ep are
# the parts of inference.
LAYERS = [
    {"_typing"},
    {"core.special", "core.room", "kernels._common", "core.factors", "core.soft_margin"},
    {"kernels._differences", "kernels._inner_products"},
    {"kernels"},
    {"core.triangle", "core.posterior"},
    {"core.upstream", "core.gram"},
    {"core.likelihoods", "core.projections", "core.contraction", "core.columns", "core.cross"},
    {"core.logit", "core.margins", "core.information", "core.foresight"},
    {"core.few_projections", "core.many_projections"},
    {"core.gaussian"},
    {"core.problem"},
    {"core.laplace", "core.copies"},
    {"core.ep"},
    {"core.inference"},
    {"core.objectives"},
    {"core.bound"},
    {"core.search", "core.raters", "core.relevance"},
    {"core.hierarchy", "core.inducing"},
    {"core.least_squares", "core.streaming", "core.induced_evidence", "core.sparse_bayes"},
    {"core.likelihood_step"},
]
PLACE = {name: place for place, layer in enumerate(LAYERS) for name in layer}
ALONE = {"decisions", "metrics", "_validation"}
LONGEST = 300


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


CORE = sorted(name for name in SOURCES if name.startswith("core.") and "__init__" not in name)


KERNELS = [name for name in SOURCES if name.split(".")[0] == "kernels"]


def test_the_sources_are_found():
    assert {"gp", "core.inference", "core.special"} <= set(SOURCES)
    assert ours(PACKAGE / "gp.py") >= {"_large", "core.search"}
    assert "scipy" in foreign(PACKAGE / "core" / "special.py")


@pytest.mark.parametrize("name", CORE)
def test_core_has_its_place(name):
    assert name in PLACE, f"add {name} to LAYERS, as far left as its imports allow"


@pytest.mark.parametrize("name", [*CORE, *KERNELS, "_typing"])
def test_core_imports_only_from_its_left(name):
    for other in ours(SOURCES[name]):
        assert other in PLACE, f"{name} imports {other}, which is outside of core"
        assert PLACE[other] < PLACE[name], f"{name} imports {other}, which is not to its left"


@pytest.mark.parametrize("name", CORE)
def test_core_knows_only_numbers(name):
    allowed = {"numpy", "scipy"} | set(sys.stdlib_module_names)
    allowed |= {
        "core.gram": {"sklearn"},
        "core.contraction": {"sklearn"},
        "core.cross": {"sklearn"},
        "core.search": {"joblib"},
        "core.hierarchy": {"joblib"},
    }.get(name, set())
    assert foreign(SOURCES[name]) <= allowed


@pytest.mark.parametrize("name", ["core.gram", "core.contraction"])
def test_core_knows_scikit_learns_kernels_and_nothing_else_of_it(name):
    names = {other for other in imported(SOURCES[name]) if other.startswith("sklearn")}
    assert names == {"sklearn.gaussian_process", "sklearn.gaussian_process.kernels"}


@pytest.mark.parametrize("name", [name for name in SOURCES if name.split(".")[0] in ALONE])
def test_helpers_stand_alone(name):
    own = name.split(".")[0]
    assert {other.split(".")[0] for other in ours(SOURCES[name])} <= {"_typing", own}


@pytest.mark.parametrize("name", SOURCES)
def test_extras_are_imported_on_use(name):
    """Only numpy, scipy, scikit-learn and joblib are there in every installation."""
    always = {"numpy", "scipy", "sklearn", "joblib"} | set(sys.stdlib_module_names)
    if name.startswith("cli.") and name != "cli.main":
        always |= {"typer", "rich"}  # the commands, which main imports on use
    assert foreign(SOURCES[name], when="at once") <= always


def test_no_module_imports_one_that_imports_it():
    reach = {name: ours(path, when="at once") for name, path in SOURCES.items()}
    for name in reach:
        seen, todo = set(), set(reach[name])
        while todo:
            seen |= todo
            todo = set().union(*(reach[other] for other in todo)) - seen
        assert name not in seen, f"{name} imports itself through {sorted(seen)}"


def code_lines(path):
    """Lines that hold code: no blank lines, comments or docstrings."""
    text = path.read_text(encoding="utf-8")
    documented = set()
    for node in ast.walk(ast.parse(text)):
        # A string that stands alone documents the module, class, function or field before it.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            documented |= set(range(node.lineno, node.end_lineno + 1))
    silent = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


@pytest.mark.parametrize("name", SOURCES)
def test_modules_are_short(name):
    assert code_lines(SOURCES[name]) <= LONGEST


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
