"""A Parquet file of a million rows through the command line: time, rows per second, memory.

``python -m benchmarks.large_cli [rows]`` writes Friedman's function of ``benchmarks.large`` as a
Parquet file, fits it with ``ordinalgp fit``, fits it again with a checkpoint and Ctrl-C in
mid-pass, resumes, and predicts a second file with both models. Each command is a process
of its own, whose processor time and peak memory the system reports when it ends.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.large import best_possible, friedman
from ordinalgp.metrics import log_score
from papers.data import ROOT
from papers.runner import version_stamp

RECORDS = ROOT / "benchmarks" / "results" / "large-cli.jsonl"
TEST_ROWS, BATCH = 500_000, 250_000


def write(path: Path, n: int, seed: int) -> float:
    """Write rows with a grade from 1 to 5; return the best possible log score."""
    writer, scores = None, []
    for start in range(0, n, BATCH):
        X, y, f = friedman(min(BATCH, n - start), seed + start)
        columns = {f"x{j + 1}": X[:, j] for j in range(X.shape[1])} | {"grade": y + 1}
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
        scores.append(best_possible(f, y))
    assert writer is not None
    writer.close()
    return float(np.mean(scores))


def command(*arguments: Any, stop_at: str | None = None) -> dict[str, Any]:
    """Run ``ordinalgp``; Ctrl-C when a line of its progress begins with ``stop_at``."""
    call = [sys.executable, "-m", "ordinalgp", *map(str, arguments)]
    began, told = time.perf_counter(), []
    process = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        told.append(line.rstrip())
        print("  " + told[-1], file=sys.stderr)
        if stop_at is not None and line.startswith(stop_at):
            time.sleep(1.0)  # in the middle of the next pass
            process.send_signal(signal.SIGINT)
    _, status, used = os.wait4(process.pid, 0)
    rates = [line for line in told if "rows/s" in line]
    return {
        "exit": os.waitstatus_to_exitcode(status),
        "seconds": round(time.perf_counter() - began, 1),
        "processor": round(used.ru_utime + used.ru_stime, 1),
        "peak GB": round(used.ru_maxrss / 2**20, 3),
        "told": [re.sub(r", log evidence.*", "", line) for line in rates],
        "last": told[-1] if told else "",
    }


def scored(predictions: Path, truth: Path) -> tuple[float, np.ndarray]:
    """Log score of a file of predictions, and its probabilities."""
    proba = pd.read_parquet(predictions)[[f"p_{level}" for level in range(1, 6)]].to_numpy()
    grades = pd.read_parquet(truth, columns=["grade"])["grade"].to_numpy()
    return float(log_score(grades - 1, proba, categories=range(5))), proba


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=float, default=1e6)
    n = int(parser.parse_args().rows)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        big, new, model = folder / "big.parquet", folder / "new.parquet", folder / "model.ogp"
        write(big, n, 10)
        best = write(new, TEST_ROWS, 1)
        fit = ["fit", big, "--target", "grade", "-o"]
        found = {"fit": command(*fit, model)}
        found["predict"] = command("predict", model, new, "-o", folder / "a.parquet")
        again = [*fit, folder / "again.ogp", "--checkpoint", folder / "notes"]
        found["interrupted"] = command(*again, stop_at=f"pass 1: {n:,} rows")
        found["resumed"] = command(*again)
        command("predict", folder / "again.ogp", new, "-o", folder / "b.parquet")
        (score, one), (_, other) = (scored(folder / f"{x}.parquet", new) for x in "ab")
    record = {
        "rows": n,
        "test rows": TEST_ROWS,
        "log score": score,
        "best": best,
        "resumed differs by": float(np.max(np.abs(one - other))),
        **found,
    }
    with RECORDS.open("a") as file:
        file.write(json.dumps(record | version_stamp()) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
