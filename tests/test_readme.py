"""What the README says is true: its examples run and print what it shows."""

import re
from pathlib import Path

import numpy as np
import pytest

from papers.__main__ import EXPERIMENTS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
NUMBER = r"-?\d+\.?\d*"


def words_and_numbers(text):
    return re.sub(NUMBER, "#", text).split(), np.array(re.findall(NUMBER, text), dtype=float)


def test_every_example_runs_and_prints_what_it_shows(tmp_path, monkeypatch, capsys):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.close("all")
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(README)
    assert len(blocks) == README.count("```python") > 5
    assert sum(shown != "" for _, shown in blocks) == README.count("```text") > 3
    names: dict[str, object] = {}
    for code, shown in blocks:
        exec(compile(code, "README.md", "exec"), names)
        printed, numbers = words_and_numbers(capsys.readouterr().out)
        if shown:
            words, expected = words_and_numbers(shown)
            assert printed == words
            np.testing.assert_allclose(numbers, expected, rtol=0.05, atol=0.02)
    plt.close("all")
    assert {"model.ogp", "contours.png", "latent.png"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("command", ["demo", "test"])
def test_the_two_commands_are_named_and_exist(command):
    assert f"make {command}" in README
    assert re.search(rf"^{command}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_pages_ask_to_run_is_there(page):
    text = page.read_text(encoding="utf-8")
    for module in re.findall(r"python -m (benchmarks\.\w+)", text):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists(), f"{page.name} names {module}"
    for name in re.findall(r"python -m papers ([a-z]+(?:-\w+)*)", text):
        assert name in EXPERIMENTS, f"{page.name} names the table {name}"
