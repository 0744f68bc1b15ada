"""Adding one row to a support vector machine beside refits: ``python -m benchmarks.one_row``.

Processor time of ``partial_fit`` and ``remove_rows`` with one row, of both algorithms, as shares of
a refit of :class:`ordinalgp.OrdinalSVC` with the same margins. Means over several rows.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from ordinalgp import IncrementalOrdinalSVC, OrdinalSVC


def make_rows(n: int) -> tuple[Any, Any]:
    """Five noisy levels of a smooth function of five inputs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    f = X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * X[:, 2] ** 2 + 0.3 * rng.normal(size=n)
    return X, np.argsort(np.argsort(f)) * 5 // n


def seconds(function: Callable[[], Any]) -> float:
    """Processor time of a call."""
    began = time.process_time()
    function()
    return time.process_time() - began


def measure(n: int, repeats: int, cost: float) -> dict[str, float]:
    """Seconds per row of each way, with ``n`` rows."""
    X, y = make_rows(n + repeats)
    kernel, new = RBF(2.0), range(n, n + repeats)
    path = IncrementalOrdinalSVC(kernel, algorithm="path", C=cost)
    working = IncrementalOrdinalSVC(kernel, algorithm="working_set", C=1.0)
    times = {"path, fit": seconds(lambda: path.fit(X[:n], y[:n]))}
    working.fit(X[:n], y[:n])

    def each(method: Callable[..., Any]) -> float:
        one = [seconds(lambda i=i: method(X[i : i + 1], y[i : i + 1])) for i in new]  # type: ignore[misc]
        return float(np.mean(one))

    times["path, one row more"] = each(path.partial_fit)
    times["path, one row less"] = each(path.remove_rows)
    times["working set, one row more"] = each(working.partial_fit)
    batch = OrdinalSVC(kernel, constraints="sum_of_margins", C=cost, rank=None)
    times["refit, sum of margins"] = seconds(lambda: batch.fit(X[:n], y[:n]))
    times["refit, implicit"] = seconds(
        lambda: OrdinalSVC(kernel, C=1.0, rank=None).fit(X[:n], y[:n])
    )
    return times


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 1000, 2000, 4000])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--cost", type=float, default=0.05)
    arguments = parser.parse_args()
    for number, n in enumerate(arguments.rows):
        times = measure(n, arguments.repeats, arguments.cost)
        if not number:
            print("| rows | " + " | ".join(times) + " |\n|" + "---|" * (len(times) + 1))
        print(f"| {n:,} | " + " | ".join(f"{s:.4f}" for s in times.values()) + " |", flush=True)


if __name__ == "__main__":
    main()
