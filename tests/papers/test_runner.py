"""A grid that survives interruptions: nothing finished is lost, doubled or computed again."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest

from papers.data import ROOT, DataUnavailableError
from papers.runner import Cell, by_cell, cell_of, read_records, run, version_stamp

SOURCES = os.pathsep.join(map(str, (ROOT, ROOT / "src")))
ENVIRONMENT = os.environ | {"PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}

# ------------------------------------------------------------------- interrupted and resumed

# The real command with a slow fake in place of the fit; every call leaves a line in a log.
SCRIPT = """
import dataclasses, time
from papers.__main__ import EXPERIMENTS, main

def compute(cell, data_home):
    with open({log!r}, "a") as log:
        log.write(repr(tuple(cell)) + "\\n")
    time.sleep({pause})
    return dict.fromkeys(["zero_one", "absolute", "absolute_median", "log_score"], 0.5)

real = EXPERIMENTS["gpor-table2"]
models = ("map", "ep", "stacked")
EXPERIMENTS["gpor-table2"] = dataclasses.replace(real, compute=compute, models=models)
raise SystemExit(main())
"""
posix = pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
CELLS = 2 * 20 * 3  # data sets, splits, models


class Grid:
    """A run of the fake grid as its own process."""

    def __init__(self, folder: Path) -> None:
        self.output, self.log, self.error = (folder / name for name in ("out", "log", "error"))
        self.results = self.output / "gpor.jsonl"

    def start(self, pause: float, jobs: int = 1) -> subprocess.Popen:
        script = SCRIPT.format(log=str(self.log), pause=pause)
        options = ["gpor-table2", "--datasets", "diabetes,stocks", "--jobs", str(jobs)]
        with open(self.error, "w") as error:
            return subprocess.Popen(
                [sys.executable, "-c", script, *options, "--output", self.output],
                env=ENVIRONMENT,
                stdout=subprocess.DEVNULL,
                stderr=error,
                start_new_session=True,
            )

    def finished(self) -> list[Cell]:
        found = read_records(self.results) if self.results.exists() else []
        return [cell_of(record) for record in found]

    def calls(self) -> Counter:
        return Counter(self.log.read_text().splitlines())

    def interrupt_after(self, n: int, number: signal.Signals, jobs: int) -> int:
        return interrupt(self.start(pause=0.02, jobs=jobs), self.results, n, number, self.error)


def interrupt(process, results, n, number, error) -> int:
    """Send a signal as soon as ``n`` records are there, and wait for the end."""
    while not results.exists() or len(read_records(results)) < n:
        assert process.poll() is None, error.read_text()
        time.sleep(0.005)
    process.send_signal(number)
    status = process.wait(timeout=60)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # workers outlive a killed parent
    return status


@posix
@pytest.mark.parametrize("number", ["SIGINT", "SIGKILL"])
def test_an_interrupted_run_resumes_without_computing_anything_twice(tmp_path, number):
    grid = Grid(tmp_path)
    status = grid.interrupt_after(5, getattr(signal, number), jobs=2)
    kept, calls = grid.finished(), grid.calls()
    assert 5 <= len(kept) < CELLS
    if number == "SIGINT":
        assert status == 130
        assert "the same command goes on from here" in grid.error.read_text()
        assert "Traceback" not in grid.error.read_text()

    with open(grid.results, "a") as file:  # a kill can tear the line that is being written
        file.write('{"dataset": "stocks", "bins": 5, "spl')
    assert grid.start(pause=0.0).wait(timeout=60) == 0, grid.error.read_text()
    finished = grid.finished()
    assert finished[: len(kept)] == kept
    assert len(finished) == len(set(finished)) == CELLS
    computed_again = set(grid.calls() - calls)
    assert not {repr(tuple(cell)) for cell in kept} & computed_again


@posix
def test_the_real_command_goes_on_after_both_signals(tmp_path):
    """Real fits: interrupted by SIGINT, then killed, then left to finish."""
    output, error = tmp_path / "out", tmp_path / "error"
    results, cells = output / "gpor-figure2.jsonl", 2 * 6 * 2
    command = [sys.executable, "-m", "papers", "gpor-figure2", "--trials", "6"]
    command += ["--models", "map,ep"]

    def start():
        with open(error, "w") as stream:
            return subprocess.Popen(
                [*command, "--output", output],
                env=ENVIRONMENT,
                stdout=subprocess.DEVNULL,
                stderr=stream,
                start_new_session=True,
            )

    assert interrupt(start(), results, 2, signal.SIGINT, error) == 130
    first = results.read_bytes()
    interrupt(start(), results, 5, signal.SIGKILL, error)
    second = results.read_bytes()
    assert second.startswith(first)
    kept = second[: second.rfind(b"\n") + 1]
    assert 5 <= kept.count(b"\n") < cells
    assert start().wait(timeout=120) == 0, error.read_text()
    assert results.read_bytes().startswith(kept)
    found = [cell_of(record) for record in read_records(results)]
    assert len(found) == len(set(found)) == cells
    # The last bar counts what was missing, no more.
    assert re.findall(r"\d+/(\d+)", error.read_text())[-1] == str(cells - kept.count(b"\n"))
    assert not [r for r in read_records(results) if "error" in r]
    assert (output / "gpor-figure2.md").is_file()


# -------------------------------------------------------------------------------- the file

CELL = Cell("diabetes", 5, 1, "ep")


def write(path: Path, records: list[dict]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def refuse(cell):
    pytest.fail("was computed")


def test_a_finished_file_is_left_alone(tmp_path):
    path = tmp_path / "out"
    write(path, [CELL._asdict() | {"zero_one": 0.5}])
    before = path.read_bytes()
    assert run([CELL, CELL], refuse, path)[0]["zero_one"] == 0.5
    assert path.read_bytes() == before


def test_a_file_of_a_torn_line_only_starts_anew(tmp_path):
    (tmp_path / "out").write_text('{"dataset": "dia')
    run([CELL], lambda cell: {"zero_one": 0.25}, tmp_path / "out", progress=StringIO())
    (record,) = read_records(tmp_path / "out")
    assert cell_of(record) == CELL
    assert record["zero_one"] == 0.25
    assert record["seconds"] >= 0
    assert version_stamp().items() <= record.items()


def test_two_runs_do_not_share_a_file(tmp_path):
    def nested(cell):
        with pytest.raises(ValueError, match="Another run writes to"):
            run([], refuse, tmp_path / "out")
        return {"refused": True}

    (record,) = run([CELL], nested, tmp_path / "out", progress=StringIO())
    assert record["refused"]


def test_a_damaged_line_is_named_not_dropped(tmp_path):
    (tmp_path / "out").write_text('{"dataset": "dia\n{}\n')
    with pytest.raises(ValueError, match="not JSON"):
        read_records(tmp_path / "out")


def test_a_failing_fit_is_a_record_with_its_message_and_can_be_repeated(tmp_path):
    def broken(cell):
        raise ValueError("no such luck")

    path, quiet = tmp_path / "out", StringIO()
    (record,) = run([CELL], broken, path, progress=quiet)
    assert record["error"] == "ValueError: no such luck"
    assert run([CELL], refuse, path)[0] == record
    (record,) = run([CELL], lambda cell: {"zero_one": 0.5}, path, failed="again", progress=quiet)
    assert "error" not in record
    assert len(read_records(path)) == 2
    assert by_cell(read_records(path)) == {CELL: record}  # the last line counts
    run([CELL], refuse, path, failed="again")


@pytest.mark.parametrize("jobs", [1, 2])
def test_absent_data_end_the_run_and_are_no_result(tmp_path, jobs):
    def absent(cell):
        raise DataUnavailableError("nowhere")

    with pytest.raises(DataUnavailableError, match="nowhere"):
        run([CELL, CELL._replace(split=2)], absent, tmp_path / "out", jobs=jobs)
    assert read_records(tmp_path / "out") == []


def test_results_come_in_the_order_of_the_grid_and_pandas_reads_them(tmp_path):
    pandas = pytest.importorskip("pandas")
    cells = [Cell("toy", 5, split, model) for split in (2, 1) for model in ("ep", "map")]
    bar = StringIO()
    records = run(
        cells,
        lambda cell: {"log_score": 1.0 / (cell.split - 1 or 0.5)},
        tmp_path / "out",
        progress=bar,
    )
    assert [cell_of(record) for record in records] == cells
    assert bar.getvalue().count("\r") == 4
    assert bar.getvalue().split()[-5:] == ["4/4,", "0.0", "min", "left", "(toy)"]
    frame = pandas.read_json(tmp_path / "out", lines=True)
    assert frame.groupby("split").log_score.mean().to_dict() == {1: 2.0, 2: 1.0}


def test_an_infinite_score_is_read_back(tmp_path):
    pandas = pytest.importorskip("pandas")
    run([CELL], lambda cell: {"log_score": float("inf")}, tmp_path / "out", progress=StringIO())
    assert read_records(tmp_path / "out")[0]["log_score"] == float("inf")
    assert pandas.read_json(tmp_path / "out", lines=True).log_score[0] == float("inf")


def test_seeds_belong_to_cells():
    cells = [Cell(d, b, s, m) for d in "ab" for b in (5, 10) for s in (1, 2) for m in ("x", "y")]
    assert len({cell.seed for cell in cells}) == len(cells)
    assert all(0 <= cell.seed < 2**32 for cell in cells)
    assert Cell("diabetes", 5, 1, "ep").seed == 1872057353  # the same on every machine and day
