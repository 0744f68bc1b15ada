"""The demo, the commands it prints, and the transcript of both in the guide."""

import csv
import io
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest

import ordinalgp
from ordinalgp.datasets import load_demo

for package in ("typer", "matplotlib", "jinja2"):
    pytest.importorskip(package)
from ordinalgp.cli.demo import _check_own  # noqa: E402
from ordinalgp.cli.main import build  # noqa: E402

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
PAGE = (GUIDE / "tables-and-command-line.md").read_text(encoding="utf-8")
OURS = ["GP, Laplace", "GP, EP", "mixture of GPs"]
NUMBER = r"-?\d+\.\d+"
PROGRAM = re.compile(
    r"^\S+(?: -m ordinalgp)? (?=(?:evaluate|predict|explain|compare|fit|report) )", re.MULTILINE
)


class Screen(io.StringIO):
    encoding = "utf-8"  # a StringIO has none, and the demo draws bars in what there is


def call(line):
    """What a command prints, typed in this folder; nobody is warned about anything."""
    out, err = Screen(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as stopped:
        build()(shlex.split(line))
    assert stopped.value.code in (0, None), err.getvalue()
    assert "Warning" not in err.getvalue()
    return out.getvalue()


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Folder and output of the demo, and then of every command that it printed."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "80")
        outputs = {"demo": call("demo")}
        for text in PROGRAM.split(outputs["demo"].partition("Now try")[2])[1:]:
            line = text.split("\n")[0]
            outputs[line] = call(line)
        yield folder, outputs


def table(text):
    """Mean scores of each model, from the printed table."""
    line = re.compile(r"^(\w.*?) {2,}((?:[\d.]+ ± [\d.]+ *){4})$", re.MULTILINE)
    return {
        name: [float(value) for value in re.findall(r"([\d.]+) ±", values)]
        for name, values in line.findall(text)
    }


def test_the_table_has_every_model_and_ours_beat_the_naive_one(demo):
    scores = table(demo[1]["demo"])
    assert list(scores) == ["naive baseline", "linear model", *OURS]
    for gp in OURS:
        assert all(a < b for a, b in zip(scores[gp], scores["naive baseline"], strict=True))


def test_every_printed_command_was_run(demo):
    commands = [line.split()[0] for line in demo[1]]
    assert commands == ["demo", "evaluate", "predict", "explain", "compare", "fit", "report"]
    files = {path.name for path in (demo[0] / "demo-output").iterdir()}
    assert files >= {"train.csv", "test.csv", "model.ogp", "predictions.csv", "report.html"}
    assert files >= {"again.csv", "laplace.ogp", "laplace.html"}


def test_the_files_are_right(demo):
    folder, data = demo[0] / "demo-output", load_demo()
    model = ordinalgp.load(folder / "model.ogp")
    with (folder / "test.csv").open(encoding="utf-8", newline="") as file:
        held = list(csv.DictReader(file))
    with (folder / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(held) == 148
    columns = {name: [float(row[name]) for row in held] for name in data.feature_names}
    found = [[float(row[f"p_{level}"]) for level in data.categories] for row in rows]
    np.testing.assert_allclose(found, model.category_proba(columns), rtol=0, atol=1e-12)
    assert [row["stage"] for row in rows] == [row["stage"] for row in held]
    again = (folder / "again.csv").read_text()
    assert len(again.splitlines()) == 149
    patients = {(tuple(x), y) for x, y in zip(data.X.tolist(), data.y.tolist(), strict=True)}
    for row in held:
        measured = tuple(float(row[name]) for name in data.feature_names)
        assert (measured, row["stage"]) in patients


def test_files_of_others_are_not_overwritten(tmp_path, capsys):
    (tmp_path / "train.csv").write_text("age,grade\n1,low\n")
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(SystemExit) as stopped:
        build()(["demo", "-o", str(tmp_path)])
    err = capsys.readouterr().err
    assert stopped.value.code == 2
    assert f"{tmp_path} has train.csv, report.html, which the demo would overwrite" in err
    assert (tmp_path / "train.csv").read_text() == "age,grade\n1,low\n"


def test_a_demo_may_be_repeated_in_its_folder(demo):
    _check_own(demo[0] / "demo-output", load_demo())


def normal(text):
    """Without what differs between machines: folders, seconds, sizes, ends of lines."""
    text = PROGRAM.sub("ordinalgp ", text)
    text = re.sub(r"(all files are in) \S+", r"\1 FOLDER", text)
    text = re.sub(r"\d+(\.\d+)? s\.", "SECONDS", text)
    text = re.sub(r"\([\d,]+ kB\)", "(SIZE)", text)
    return [line.rstrip() for line in text.splitlines()]


def alike(shown, printed):
    if re.sub(NUMBER, "#", shown).split() != re.sub(NUMBER, "#", printed).split():
        return False
    numbers = (np.array(re.findall(NUMBER, text), dtype=float) for text in (shown, printed))
    return np.allclose(*numbers, rtol=0.05, atol=0.011)


def test_the_transcript_of_the_guide_is_what_is_printed(demo):
    """Lines between "..." follow each other in the output as they do on the page."""
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    seen = []
    for block in blocks:
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            line = shlex.join(shlex.split(command)[1:])
            seen.append(line.split()[0])
            assert_shown(normal(shown), normal(demo[1][line]))
    assert seen == ["demo", "predict", "evaluate"]


def assert_shown(shown, printed):
    at, free = 0, False
    while shown and not shown[-1]:
        shown.pop()
    for line in shown:
        if line.strip() == "...":
            free = True
            continue
        fits = [i for i in range(at, len(printed)) if alike(line, printed[i])]
        assert fits, f"the page shows {line!r}, which is not printed after line {at}"
        assert free or fits[0] == at, f"the page leaves out {printed[at]!r} before {line!r}"
        at, free = fits[0] + 1, False
    assert free or not any(printed[at:]), f"the page leaves out {printed[at:]}"
