"""``ordinalgp fit`` on a table that is read in batches: the model of the table read at once."""

import json
import os
import re
import signal
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ordinalgp import OrdinalGPClassifier, load
from ordinalgp.cli.common import ProgressView
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.tables import TableModel
from ordinalgp.tables.encoding import learn, parse_columns, read_target
from ordinalgp.tables.files import TableFile
from ordinalgp.tables.training import BatchSettings, Source, encode_file

pd = pytest.importorskip("pandas", reason="tables are an extra")
pytest.importorskip("pyarrow", reason="tables are an extra")
runner_module = pytest.importorskip("typer.testing", reason="the command line is an extra")

N = 1500


def make_table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(50, 10, n), rng.integers(0, 7, n)
    colour = rng.choice(["red", "green", "blue"], n)
    latent = 0.1 * (x - 50) + (colour == "red") + 0.3 * rng.normal(size=n)
    grade = np.array(["low", "mid", "high"])[np.digitize(latent, [-0.5, 0.8])]
    gaps = rng.random(n) < 0.05
    frame = {"x": np.where(gaps, np.nan, x), "z": z, "colour": colour, "grade": grade}
    return pd.DataFrame(frame)


BATCHES = BatchSettings(large_rows=1000, batch_rows=400)
FEW_ROWS = {"exact_rows": 200, "auto_points": 20, "subset_rows": 100, "sample_rows": 300}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(OrdinalGPClassifier, "many_rows_settings", ManyRowsSettings(**FEW_ROWS))


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "big.parquet"
    make_table().to_parquet(path)
    return path


def run(*arguments, batches=BATCHES):
    from ordinalgp.cli.main import build

    return runner_module.CliRunner().invoke(build(), [str(a) for a in arguments], obj=batches)


LEVELS = ["--categories", "low,mid,high", "--folds", "0"]


def test_some_rows_are_kept_out_of_the_fit_and_scored(table, tmp_path):
    """A fifth of these rows; a fit of the others gives the same predictions of them."""
    options = ["--target", "grade", *LEVELS[:2], "--json", "-o", tmp_path / "m.ogp"]
    told = json.loads(run("fit", table, *options).stdout)
    model = load(tmp_path / "m.ogp")
    held = model.held_out_
    assert len(held.codes) == 300
    assert held.counts.sum() == told["rows"] == 1500 - len(held.codes)
    all_counts = held.counts[0] + np.bincount(held.codes, minlength=3)
    grades = make_table()["grade"].value_counts()
    assert_array_equal(all_counts, [grades[level] for level in ("low", "mid", "high")])
    found = told["cross_validation"]
    assert "kept out of the fit" in found["method"]
    assert found["model"]["log_score"] < found["baseline"]["log_score"]
    assert len(model.classifier_._result.interval_scores.scores) == len(held.codes)
    named = [column["name"] for column in told["columns"]]
    assert list(model.importance_.columns) == named


def test_rows_that_are_kept_out_are_not_in_the_chunks(table, tmp_path):
    source = Source(TableFile(table), "grade", ["low", "mid", "high"])
    whole = encode_file(source, tmp_path, lambda text: None, BATCHES)
    part = whole.holding_out(100)
    X, codes = part.held_rows()
    kept = [read() for read in part.chunks()]
    everything = np.vstack([read()[0] for read in whole.chunks()])
    fitted = np.vstack([rows for rows, _ in kept])
    assert len(fitted) + len(X) == len(everything) == 1500
    order = np.lexsort(everything.T)
    both = np.vstack([fitted, X])
    labels = np.concatenate([*(y for _, y in kept), whole.levels[codes]])
    again = np.lexsort(both.T)
    assert_array_equal(both[again], everything[order])
    truth = np.concatenate([read()[1] for read in whole.chunks()])
    assert_array_equal(np.sort(labels), np.sort(truth))


def test_batches_give_the_model_of_the_whole_table(table, tmp_path):
    told = run("fit", table, "--target", "grade", *LEVELS, "-o", tmp_path / "batches.ogp")
    assert told.exit_code == 0, told.output
    assert "read 1,500 rows" in told.stderr
    assert "pass 2: 1,500 rows" in told.stderr
    assert "rows/s" in told.stderr
    rows, new = make_table(), make_table(100, seed=1)
    batches = load(tmp_path / "batches.ogp")
    # Batches always take inducing points; a whole table may take neighbours.
    classifier = OrdinalGPClassifier(
        approximation="inducing", categories=["low", "mid", "high"], random_state=0
    )
    whole = TableModel(classifier, kernel="ard").fit(rows.drop(columns="grade"), rows["grade"])
    assert_array_equal(batches.level_counts_, whole.level_counts_)
    assert batches.encoder_.features == whole.encoder_.features
    # The searches start from encodings that differ by rounding.
    assert_allclose(batches.category_proba(new), whole.category_proba(new), atol=1e-4)
    assert_array_equal(sorted(path.name for path in tmp_path.iterdir())[:1], ["batches.ogp"])


def test_the_encoding_is_that_of_all_rows(table, tmp_path):
    source = Source(TableFile(table), "grade", ["low", "mid", "high"])
    encoded = encode_file(source, tmp_path, lambda text: None, BATCHES)
    everything = TableFile(table).read()
    features = everything.without(["grade"])
    whole = learn(parse_columns(features)[0])
    for got, expected in zip(encoded.encoder.columns, whole.columns, strict=True):
        assert got.name == expected.name
        if got.kind == "nominal":
            assert got == expected
        else:
            names = ("median", "mean", "scale", "low", "high", "missing")
            numbers = [[getattr(c, name) for name in names] for c in (got, expected)]
            assert_allclose(numbers[0], numbers[1], rtol=1e-12)
    parts = [read() for read in encoded.chunks()]
    assert_allclose(np.vstack([X for X, _ in parts]), whole.encode(features)[0], atol=1e-12)
    labels = read_target(everything, "grade", ["low", "mid", "high"])[0]
    assert_array_equal(np.concatenate([y for _, y in parts]), labels)


def test_memory_does_not_grow_with_the_rows(tmp_path):
    settings = BatchSettings(batch_rows=400, sample_rows=500)
    peaks = []
    for n in (4000, 16_000):
        path, folder = tmp_path / f"{n}.parquet", tmp_path / str(n)
        folder.mkdir()
        make_table(n).to_parquet(path, row_group_size=400)
        source = Source(TableFile(path), "grade", ["low", "mid", "high"])
        tracemalloc.start()
        encode_file(source, folder, lambda text: None, settings)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.25 * peaks[0]


def spoiled(tmp_path):
    frame = make_table()
    frame["x"] = frame["x"].astype(object)
    frame.loc[777, "x"] = "many"
    frame.loc[1200, "grade"] = "middling"
    path = tmp_path / "bad.parquet"
    frame["x"] = frame["x"].map(lambda value: None if value != value else str(value))
    frame.to_parquet(path)
    return path


def test_bad_rows_are_named_by_their_place_in_the_file(tmp_path):
    path = spoiled(tmp_path)
    told = run("fit", path, "--target", "grade", *LEVELS, "-o", tmp_path / "m.ogp")
    assert told.exit_code == 2
    assert "row 778, column x: 'many' is not a number" in told.stderr
    assert not (tmp_path / "m.ogp").exists()


def test_bad_rows_can_be_left_out(tmp_path):
    options = ["--on-bad-rows", "skip", "--json", "-o", tmp_path / "m.ogp"]
    told = run("fit", spoiled(tmp_path), "--target", "grade", *LEVELS, *options)
    assert told.exit_code == 0, told.output
    result = json.loads(told.stdout)
    assert result["rows"] == N - 2
    assert result["skipped_rows"] == 2
    assert "row 1201, column grade: 'middling' is not a level" in told.stderr


def probabilities(path):
    return load(path).category_proba(make_table(100, seed=1))


def test_an_interrupted_fit_goes_on(table, tmp_path, monkeypatch):
    folder, show = tmp_path / "notes", ProgressView.show
    options = ["fit", table, "--target", "grade", *LEVELS]
    assert run(*options, "-o", tmp_path / "whole.ogp").exit_code == 0

    def stop(self, progress):
        show(self, progress)
        if progress.stage == "pass" and progress.step == 2:
            raise KeyboardInterrupt

    options += ["-o", tmp_path / "m.ogp"]
    with monkeypatch.context() as patch:
        patch.setattr(ProgressView, "show", stop)
        told = run(*options)
        assert told.exit_code == 130
        assert "nothing was kept. With --checkpoint FOLDER" in told.stderr
        told = run(*options, "--checkpoint", folder)
        assert told.exit_code == 130
        assert f"the same command resumes from {folder}" in told.stderr
    assert (folder / "state.npz").exists()
    assert not (tmp_path / "m.ogp").exists()
    told = run(*options, "--checkpoint", folder)
    assert told.exit_code == 0, told.output
    assert "pass 1:" not in told.stderr
    assert not folder.exists()
    assert_allclose(probabilities(tmp_path / "m.ogp"), probabilities(tmp_path / "whole.ogp"))


SLEEPER = f"""
import sys, time
from ordinalgp import OrdinalGPClassifier
from ordinalgp.cli.main import build
from ordinalgp.cli.common import ProgressView
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.tables.training import BatchSettings
show = ProgressView.show
def wait(self, progress):
    show(self, progress)
    time.sleep(60 if progress.stage == "pass" and progress.step == 2 else 0)
ProgressView.show = wait
OrdinalGPClassifier.many_rows_settings = ManyRowsSettings(**{FEW_ROWS})
build()(sys.argv[1:], obj={BATCHES})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_stops_the_command_itself(table, tmp_path):
    """A signal to a process of its own, which waits for it after its second pass."""
    folder = tmp_path / "notes"
    options = ["fit", table, "--target", "grade", *LEVELS, "-o", tmp_path / "m.ogp"]
    options = [str(option) for option in (*options, "--checkpoint", folder)]
    command = [sys.executable, "-c", SLEEPER, *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if re.match(r"pass 2: 1,500 rows, [\d,]+ rows/s", line):
                process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert line.startswith(f"Interrupted: the same command resumes from {folder}")
    told = run(*options)
    assert told.exit_code == 0, told.output
    assert "pass 1:" not in told.stderr


STUCK = f"""
import sys, time
from ordinalgp import OrdinalGPClassifier
from ordinalgp.cli.main import build
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.many_rows.site_store import Slot
from ordinalgp.tables.training import BatchSettings
write = Slot.write
def write_and_wait(slot, sites):
    done = write(slot, sites)
    if slot.old is not None and slot.start == 400:  # the second chunk of the second pass
        print("in the middle", file=sys.stderr, flush=True)
        time.sleep(60)
    return done
Slot.write = write_and_wait
OrdinalGPClassifier.many_rows_settings = ManyRowsSettings(**{FEW_ROWS})
build()(sys.argv[1:], obj={BATCHES})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_process_killed_in_the_middle_of_a_pass_resumes(table, tmp_path):
    """SIGKILL, which nothing can catch, while some chunks of a pass have new sites."""
    folder, model = tmp_path / "notes", tmp_path / "m.ogp"
    options = ["fit", table, "--target", "grade", *LEVELS]
    assert run(*options, "-o", tmp_path / "whole.ogp").exit_code == 0
    options = [str(option) for option in (*options, "-o", model, "--checkpoint", folder)]
    command = [sys.executable, "-c", STUCK, *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line.startswith("in the middle"):
                process.kill()
        assert process.wait() == -signal.SIGKILL
    assert (folder / "state.npz").exists()
    assert not model.exists()
    told = run(*options)
    assert told.exit_code == 0, told.output
    assert "pass 1:" not in told.stderr
    assert "pass 2:" in told.stderr
    assert_allclose(probabilities(model), probabilities(tmp_path / "whole.ogp"), atol=1e-12)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_the_scratch_of_a_killed_fit_goes_at_the_next_start(table, tmp_path):
    options = [str(each) for each in ("fit", table, "--target", "grade", *LEVELS)]
    options += ["-o", str(tmp_path / "m.ogp")]
    command = [sys.executable, "-c", STUCK, *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line.startswith("in the middle"):
                process.kill()
        assert process.wait() == -signal.SIGKILL
    (scratch,) = tmp_path.glob("ordinalgp-scratch-*")
    assert (scratch / "X.bin").stat().st_size > 0
    os.utime(scratch / "lock", (0, 0))
    told = run(*options)
    assert told.exit_code == 0, told.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["big.parquet", "m.ogp"]


def test_what_cannot_be_used_is_said(table, tmp_path):
    output = ["-o", tmp_path / "m.ogp"]
    for options, message in [
        (["--target", "mark"], "There is no target column 'mark'"),
        (["--target", "grade", *LEVELS, "--drop", "y"], "--drop names 'y'"),
        (["--target", "grade"], "texts without an order"),
        (["--target", "grade", *LEVELS, "--drop", "x,z,colour"], "no columns beside the target"),
    ]:
        told = run("fit", table, *options, *output)
        assert told.exit_code == 2
        assert message in told.stderr


def test_small_tables_are_read_at_once(table):
    assert BATCHES.is_large(table)
    assert not BatchSettings(large_rows=N + 1).is_large(table)
    assert not BATCHES.is_large(table.with_name("absent.parquet"))
