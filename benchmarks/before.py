"""Speed and results against an older commit, in alternating processes with one thread.

``python -m benchmarks.before`` unpacks the sources of the commit that speed was first stated for,
or of another one: ``python -m benchmarks.before main~20``. It prints

- processor times of whole fits, old and new, and 5,000 rows in factorisations of 1,000;
- on the first three partitions of nine sets, the largest differences of evidence and of
  predictions at the hyperparameters that the new search found, and where each search ended.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from papers.runner import DATASETS, Cell, cholesky_seconds, load_split

ROOT = Path(__file__).parents[1]
COMMIT = "e98605d"
ONE = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
SMALL_LIMIT = 1 / 3  # of the old time, EP on 100 rows
MANY_LIMIT = 8.0 / 19.6  # of the old time, 5,000 rows
EVIDENCE_LIMIT, PREDICTION_LIMIT = 1e-8, 1e-6
FITS = (
    *(("ep", n, 9) for n in (50, 100, 300)),
    *(("ep", 1000, 2), ("laplace", 100, 3), ("laplace", 1000, 2)),
    *(("least squares", 100, 5), ("least squares", 1000, 2), ("default", 5000, 1)),
)


class Version:
    """A process that runs the sources of one commit."""

    def __init__(self, source: Path) -> None:
        environment = os.environ | ONE | {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
        command = [sys.executable, "-m", "benchmarks.before_worker"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, env=environment, cwd=ROOT
        )

    def ask(self, *question: Any) -> Any:
        """The answer to a question."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """Let the process end."""
        self._process.communicate()


def compare_speed(old: Version, new: Version) -> None:
    """Print processor times of whole fits."""
    print("A whole fit, 8 inputs and 4 levels: milliseconds of the processor, old and new")
    unit = np.inf
    for name, n, times in FITS:
        found = [[v.ask("seconds", name, n, times) for v in (old, new)] for _ in range(3)]
        unit = min(unit, cholesky_seconds(1000))
        before, now = (min(pair[k] for pair in found) for k in (0, 1))
        limit = {("ep", 100): SMALL_LIMIT, ("default", 5000): MANY_LIMIT}.get((name, n))
        text = "" if limit is None else f" (limit {limit:.2f})"
        cost = f"{now / unit:6.1f} dpotrf(1000)"
        both, ratio = f"{1e3 * before:9.1f} {1e3 * now:9.1f}", f"ratio {now / before:.2f}"
        print(f"{name:>14} {n:>5} {both}, {cost}, {ratio}{text}", flush=True)


def compare_results(old: Version, new: Version, names: Iterable[str]) -> None:
    """Print differences at the same hyperparameters, and of the ends of the searches."""
    print("\nLargest differences on three partitions of each set. At the new hyperparameters:")
    print(f"objective, relative (limit {EVIDENCE_LIMIT:g}); test probabilities (limit", end=" ")
    print(f"{PREDICTION_LIMIT:g}). Then what the new search gained, least and most")
    for name in names:
        for dataset in DATASETS:
            values, predictions, gains = [], [], []
            for split in (1, 2, 3):
                data = load_split(Cell(dataset, 5, split, ""))
                rows = [part.tolist() for part in (data.X_train, data.y_train, data.X_test)]
                found = new.ask("fitted", name, rows, None)
                ask = "fitted", name, rows, found["theta"]
                here, there = new.ask(*ask), old.ask(*ask)
                scale = max(1.0, abs(there["value"]))
                values.append(abs(here["value"] - there["value"]) / scale)
                differences = np.subtract(here["predictions"], there["predictions"])
                predictions.append(float(np.abs(differences).max()))
                gains.append(found["end"] - there["end"])
            both = f"{max(values):8.1e} {max(predictions):8.1e}"
            gained = f"{min(gains):+.1e} {max(gains):+.1e}"
            print(f"{name:>14} {dataset:>16} {both}   {gained}", flush=True)


def main(commit: str) -> None:
    """Compare the sources of a commit with those of this folder."""
    archive = ["git", "archive", commit, "src"]
    sources = subprocess.run(archive, cwd=ROOT, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(sources)) as archived:
            archived.extractall(folder, filter="data")
        old, new = Version(Path(folder) / "src"), Version(ROOT / "src")
        compare_speed(old, new)
        compare_results(old, new, ("ep", "laplace"))
        old.end()
        new.end()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else COMMIT)
