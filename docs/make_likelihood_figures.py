"""Draw Figures 1 of Chu and Ghahramani (2005) and of Li and de Rijke (2018).

``python docs/make_likelihood_figures.py`` writes ``likelihood.png`` and ``one-weight.png``.
"""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from ordinalgp.core.likelihoods import OrdinalProbit

FOLDER = Path(__file__).parent
PROBIT = OrdinalProbit.from_thresholds([-3.0, 3.0], 1.0)
GRID = np.linspace(-8.0, 8.0, 400)
STYLES = (("tab:blue", "-"), ("tab:green", "--"), ("tab:red", ":"))


def curves(level: int) -> Any:
    """Log likelihood of a level along the grid, and its derivatives."""
    y = np.full(len(GRID), level)
    return PROBIT.log_expectation(y, GRID, np.zeros_like(GRID))


def name_levels(figure: Any, ax: Any) -> None:
    """Put the legend below the panels, where it covers nothing."""
    place = {"loc": "outside lower center", "ncols": len(STYLES), "frameon": False}
    figure.legend(*ax.get_legend_handles_labels(), **place)


def likelihood(path: Path) -> None:
    """Draw the likelihood of three levels, and two derivatives of the loss -log p."""
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.3), layout="constrained")
    titles = ("likelihood, eq. (5)", "first derivative of the loss, (6)", "second derivative, (7)")
    for level, (color, line) in enumerate(STYLES):
        found = curves(level)
        style = {"color": color, "linestyle": line, "label": f"y = {level + 1}"}
        for ax, values in zip(axes, (np.exp(found.value), -found.d1, -found.d2), strict=True):
            ax.plot(GRID, values, **style)
    for ax, title in zip(axes, titles, strict=True):
        ax.set(xlabel="latent value f", title=title)
    axes[1].axhline(0.0, color="0.7", lw=0.8, zorder=0)
    axes[2].set_ylim(-0.05, 1.1)
    axes[2].axhline(1.0, color="0.7", lw=0.8, zorder=0)
    name_levels(figure, axes[0])
    figure.savefig(path, dpi=110)
    plt.close(figure)


def one_weight(path: Path, alpha: float = 0.1) -> None:
    """Draw the log posterior of one weight, whose function is 1 at the row, and its slopes."""
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.3), layout="constrained")
    titles = ("log posterior", "first derivative", "second derivative")
    for level, (color, line) in enumerate(STYLES):
        found = curves(level)
        joint = found.value - 0.5 * alpha * GRID**2
        log_posterior = joint - np.log(np.trapezoid(np.exp(joint), GRID))
        slopes = (log_posterior, found.d1 - alpha * GRID, found.d2 - alpha)
        for ax, values in zip(axes, slopes, strict=True):
            ax.plot(GRID, values, color=color, linestyle=line, label=f"y = {level + 1}")
    for ax, title in zip(axes, titles, strict=True):
        ax.set(xlabel="weight w", title=title)
        ax.axhline(0.0, color="0.7", lw=0.8, zorder=0)
    axes[0].set_ylim(-20, 1)
    axes[2].set_ylim(-1.3, 0.1)
    name_levels(figure, axes[0])
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    likelihood(FOLDER / "likelihood.png")
    one_weight(FOLDER / "one-weight.png")
