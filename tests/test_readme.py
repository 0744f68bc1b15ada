"""What the README says is true: its examples run and print what it shows."""

import re
from pathlib import Path

import numpy as np
import pytest

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


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), f"{name} links to {target}"
