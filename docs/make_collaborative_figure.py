"""Draw docs/collaborative.png from the records of ``benchmarks.collaborative_tables``."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
# Individual models dashed, collaborative ones solid; metric light, ordinal dark.
STYLES = {
    "GPR": ("0.6", "--", "o"),
    "CGPR": ("0.6", "-", "o"),
    "GPOR": ("0.1", "--", "s"),
    "CGPOR": ("0.1", "-", "s"),
    "biased means": ("0.4", ":", "x"),
    "mean, MAP": ("0.6", "--", "o"),
    "mean, EP": ("0.1", "--", "s"),
    "low rank, MAP": ("0.6", "-", "o"),
    "low rank, EP": ("0.1", "-", "s"),
}


def draw(ax: plt.Axes, experiment: str, score: str, title: str, fallback: str = "") -> None:
    """Draw mean and standard error of one score, a line for each model."""
    path = ROOT / "benchmarks" / "results" / f"collaborative-{experiment}.jsonl"
    records = pd.read_json(path, lines=True)
    if fallback:
        records[score] = records[score].fillna(records[fallback])
    for model, (color, line, marker) in STYLES.items():
        rows = records[records["model"] == model]
        if len(rows):
            found = rows.groupby("size")[score].agg(["mean", "sem"])
            ax.errorbar(
                found.index,
                found["mean"],
                found["sem"],
                color=color,
                linestyle=line,
                marker=marker,
                markersize=4,
                capsize=2,
                label=model,
            )
    ax.set(title=title, xlabel="training movies")
    ax.legend(fontsize=8, frameon=False)


def main() -> None:
    """Draw both experiments side by side."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    draw(axes[0], "movielens", "zero_one_mode", "100 raters: zero-one error", "zero_one_rounded")
    draw(axes[1], "movielens", "absolute_median", "100 raters: absolute error", "absolute_rounded")
    draw(axes[2], "figure3", "absolute_median", "one active user: absolute error")
    for ax in axes[1:]:
        ax.set_ylabel("stars")
    figure.savefig(ROOT / "docs" / "collaborative.png", dpi=110)


if __name__ == "__main__":
    main()
