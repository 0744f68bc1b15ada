"""The demo, run as users run it."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ordinalgp
from ordinalgp.datasets import load_demo

DEMO = Path(__file__).resolve().parents[1] / "examples" / "demo.py"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Output and folder of one run that nobody was warned about."""
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("demo")
    env = os.environ | {"PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, str(DEMO)]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    return done.stdout, folder / "demo-output"


def table(text):
    """Mean scores of each model, from the printed table."""
    line = re.compile(r"^  (\w.*?) {2,}((?:[\d.]+ ± [\d.]+ *){4})$", re.MULTILINE)
    return {
        name: [float(value) for value in re.findall(r"([\d.]+) ±", values)]
        for name, values in line.findall(text)
    }


def test_the_table_has_every_model(run):
    scores = table(run[0])
    assert list(scores) == [
        "level frequencies",
        "multinomial logistic",
        "ordinal GP, Laplace",
        "ordinal GP, EP",
    ]
    for gp in ("ordinal GP, Laplace", "ordinal GP, EP"):
        pairs = zip(scores[gp], scores["level frequencies"], strict=True)
        assert all(ours < naive for ours, naive in pairs)


def test_every_step_reports(run):
    text = run[0]
    for heading in ("1  Compare", "2  Look inside", "3  Predict", "4  Keep"):
        assert heading in text
    for word in ("RBF(length_scale=", "noise", "(mild | moderate)", "leaving out", "Done in"):
        assert word in text
    assert len(re.findall(r"[░▒▓█]{48}  0\.\d\d$", text, re.MULTILINE)) == 5


def test_the_files_are_there(run):
    folder, demo = run[1], load_demo()
    model = ordinalgp.load(folder / "model.ogp")
    assert tuple(model.categories_) == demo.categories
    with (folder / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 148
    for row in rows:
        assert demo.y[int(row["row"])] == row["true"]
        probabilities = [float(row[f"p_{level}"]) for level in demo.categories]
        assert sum(probabilities) == pytest.approx(1, abs=1e-5)
        assert row["predicted"] == demo.categories[probabilities.index(max(probabilities))]
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")
