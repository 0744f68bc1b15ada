"""The command starts at once, and the package imports what is used when it is used."""

import inspect
import subprocess
import sys
from importlib import import_module

import pytest
from tests.saved_models import GOLDEN

import ordinalgp

pytest.importorskip("typer")
from ordinalgp.cli.main import COMMANDS

HEAVY = ("numpy", "scipy", "sklearn", "pandas", "matplotlib", "joblib")


def modules_after(code):
    """Names of the packages that a new process has imported after running some code."""
    show = "print('\\n' + ' '.join({name.split('.')[0] for name in sys.modules}))"
    code = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\n{show}"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return found.stdout, set(found.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("argument", ["--version", "--help", "-h"])
def test_version_and_help_import_no_numbers(argument):
    code = f"from ordinalgp.cli.main import main; sys.argv[1:] = ['{argument}']; main()"
    printed, modules = modules_after(code)
    assert "ordinalgp" in printed
    assert not modules & set(HEAVY)


def test_importing_the_package_imports_no_numbers():
    assert not modules_after("import ordinalgp")[1] & set(HEAVY)


def test_public_names_and_modules_are_found_when_used():
    assert set(ordinalgp.__all__) <= set(dir(ordinalgp))
    names = [*ordinalgp.__all__, "kernels.__all__", "metrics.__all__", "tables.__all__"]
    uses = ", ".join(f"ordinalgp.{name}" for name in names)
    code = f"import ordinalgp; assert all(({uses}))"
    assert "numpy" in modules_after(code)[1]


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'OrdinalGP'"):
        ordinalgp.OrdinalGP  # noqa: B018


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_are_listed_with_the_first_sentence_of_their_help(name):
    function = getattr(import_module(f"ordinalgp.cli.{COMMANDS[name].module}"), name)
    first = inspect.cleandoc(function.__doc__).split("\n\n")[0]
    assert COMMANDS[name].summary == " ".join(first.split())
    assert COMMANDS[name].example.split()[0] == name


def test_model_files_are_read_without_an_estimator_imported_first():
    for file in ("table.ogp", "collaborative.ogp"):
        code = f"import ordinalgp; ordinalgp.load({str(GOLDEN / file)!r})"
        assert "sklearn" in modules_after(code)[1]


def test_a_wrong_command_gets_a_suggestion(capsys, monkeypatch):
    from ordinalgp.cli.main import build

    with pytest.raises(SystemExit) as stopped:
        build()(["fot"])
    assert stopped.value.code == 2
    assert "'fit'" in capsys.readouterr().err
