"""Every command on files of every kind, and on tables and options drawn by chance."""

from collections import Counter

import pytest

pytest.importorskip("typer")
hypothesis = pytest.importorskip("hypothesis")
from tests import fuzz_tables, messy_files  # noqa: E402


@pytest.mark.parametrize("file", messy_files.FILES, ids=lambda file: file.name)
def test_every_command_answers(file, tmp_path):
    for package in file.extra:
        pytest.importorskip(package)
    path = tmp_path / file.name
    file.write(path)
    for arguments in messy_files.commands(file, path, fast=True):
        code, out, err = fuzz_tables.call(arguments)
        assert "Traceback" not in out + err
        if file.refused:
            assert code == 2
            assert file.refused in err
            assert not path.with_suffix(".ogp").exists()
            return
        assert code == 0, f"{arguments[0]}: {err}"


def drawn(n):
    """So many examples, always the same ones."""
    return hypothesis.settings(
        max_examples=n,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )


@drawn(12)
@hypothesis.given(fuzz_tables.cases)
@pytest.mark.filterwarnings("ignore")
def test_tables_drawn_by_chance_get_answers_or_clear_errors(tmp_path_factory, case):
    """More of them: ``python -m tests.fuzz_tables --minutes 60``."""
    fuzz_tables.check(case, tmp_path_factory.mktemp("drawn"), Counter())


@drawn(20)
@hypothesis.given(fuzz_tables.rankings)
@pytest.mark.filterwarnings("ignore")
def test_so_do_comparisons_drawn_by_chance(tmp_path_factory, case):
    fuzz_tables.check_ranking(case, tmp_path_factory.mktemp("drawn"), Counter())
