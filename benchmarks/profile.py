"""Shares of the parts of a fit in its time, by number of rows: a table, and docs/profile.png.

``python -m benchmarks.profile`` fits EP to 8 inputs and 4 levels. Processor time of the parts is
measured around the functions that do the work; a part does not contain the parts inside it.
"""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.speed import generated
from ordinalgp import OrdinalGPClassifier
from ordinalgp.core import ep, linalg, objectives, search
from ordinalgp.core.likelihoods import OrdinalProbit

SIZES = (50, 300, 1000, 4000)
PICTURE = Path(__file__).parents[1] / "docs" / "profile.png"
# Functions of each part. What lies inside another one counts to its own part.
PARTS: dict[str, list[tuple[Any, str]]] = {
    "kernel matrix": [(search, "kernel_matrix")],
    "factorisations": [
        (linalg, "_factor"),
        (linalg, "_invert"),
        (linalg.Triangle, "upper_inverse"),
    ],
    "sweeps": [(ep, "_survey"), (ep, "_relax"), (ep, "_respond"), (ep, "update_in_turn")],
    "likelihood": [(OrdinalProbit, "log_expectation"), (OrdinalProbit, "theta_derivatives")],
    "gradient": [(search, "kernel_slope"), (objectives, "_ep_slopes")],
    "search": [(search, "minimise"), (search, "evidence_curvature")],
}
OTHER = "checks and the rest"


class Clock:
    """Processor time of parts, each without the parts inside it."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys([*PARTS, OTHER], 0.0)
        self._open = [OTHER]
        self._since = time.process_time()

    def _turn(self) -> None:
        now = time.process_time()
        self.seconds[self._open[-1]] += now - self._since
        self._since = now

    @contextmanager
    def part(self, name: str) -> Any:
        """Count the block to a part."""
        self._turn()
        self._open.append(name)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its time counted to a part."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.part(name):
                return function(*args, **kwargs)

        return timed


def profile(n: int) -> dict[str, float]:
    """Seconds of each part of a fit: the fastest of some fits."""
    X, y = generated(n, 8)
    y = np.minimum(y, 3)
    runs = [_profile(X, y) for _ in range(max(1, min(20, 3000 // n)))]
    return min(runs, key=lambda parts: sum(parts.values()))


def _profile(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    clock = Clock()
    with ExitStack() as stack:
        for name, functions in PARTS.items():
            for owner, function in functions:
                timed = clock.around(name, getattr(owner, function))
                stack.enter_context(patch.object(owner, function, timed))
        with clock.part(OTHER):
            OrdinalGPClassifier(inducing=None).fit(X, y)
    return clock.seconds


def draw(table: dict[int, dict[str, float]], path: Path) -> None:
    """Stacked bars of the shares, one bar per number of rows."""
    parts = [*PARTS, OTHER]
    shades = plt.get_cmap("viridis")(np.linspace(0.95, 0.05, len(parts)))
    figure, axes = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
    names = [f"{n:,} rows\n{sum(found.values()):.2g} s" for n, found in table.items()]
    left = np.zeros(len(table))
    for part, shade in zip(parts, shades, strict=True):
        share = np.array([100 * row[part] / sum(row.values()) for row in table.values()])
        axes.barh(names, share, left=left, color=shade, edgecolor="white", label=part)
        dark = shade[:3] @ [0.3, 0.6, 0.1] < 0.5
        for place, (start, width) in enumerate(zip(left, share, strict=True)):
            if width >= 5:
                ink = "white" if dark else "black"
                centre = {"ha": "center", "va": "center"}
                axes.text(start + width / 2, place, f"{width:.0f}", color=ink, **centre)
        left += share
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), xlabel="share of the processor time of a fit with EP, in percent")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path, dpi=150)


def main(sizes: list[int]) -> None:
    """Print the table and draw the picture."""
    table = {}
    print(f"{'rows':>6} {'seconds':>8} " + " ".join(f"{part:>19}" for part in [*PARTS, OTHER]))
    for n in sizes:
        table[n] = found = profile(n)
        total = sum(found.values())
        shares = " ".join(f"{100 * seconds / total:18.1f}%" for seconds in found.values())
        print(f"{n:>6} {total:>8.3f} {shares}", flush=True)
    draw(table, PICTURE)


if __name__ == "__main__":
    main([int(n) for n in sys.argv[1:]] or list(SIZES))
