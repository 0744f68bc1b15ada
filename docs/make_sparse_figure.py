"""Draw docs/sparse.png, Figure 2 of Li and de Rijke (2018), from ``papers/results``."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
STYLES = {
    "isbor": ("ISBOR", "0.1", "-", "o"),
    "isbor-given": ("ISBOR, given width 1.5", "0.6", "-", "o"),
    "sbor": ("SBOR", "tab:red", "--", "D"),
    "svor": ("SVOR", "tab:blue", "-", "s"),
    "isvor": ("ISVOR", "tab:blue", "--", "s"),
    "kdlor": ("KDLOR", "tab:orange", "-", "^"),
    "ep": ("exact EP", "tab:green", ":", "x"),
}


def records() -> pd.DataFrame:
    """All fits of the synthetic set."""
    whole = pd.read_json(ROOT / "papers" / "results" / "isbor.jsonl", lines=True)
    return whole[(whole["dataset"] == "isbor_synthetic") & (whole["split"] == 1)]


def main() -> None:
    """Draw error and time against the number of rows."""
    found = records()
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    for model, (label, color, line, marker) in STYLES.items():
        rows = found[found["model"] == model].sort_values("size")
        if len(rows):
            style = {"color": color, "linestyle": line, "marker": marker, "markersize": 4}
            axes[0].plot(rows["size"], rows["absolute_median"], label=label, **style)
            axes[1].plot(rows["size"], rows["fit_seconds"], **style)
    axes[0].set(xlabel="training rows", ylabel="mean absolute error", ylim=(0, None))
    axes[1].set(
        xlabel="training rows",
        ylabel="processor time (s)",
        xscale="log",
        yscale="log",
        ylim=(0.3, 100),
    )
    axes[0].legend(frameon=False, fontsize=8)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(ROOT / "docs" / "sparse.png", dpi=150)


if __name__ == "__main__":
    main()
