"""Draw the pictures of the README and the guide: ``python docs/make_figures.py``."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ordinalgp import LeastSquaresOrdinalClassifier, OrdinalGPClassifier
from ordinalgp.datasets import load_demo, make_five_ranks_1d, make_three_ranks
from ordinalgp.kernels import Additive
from ordinalgp.plots import ContourDisplay, EffectDisplay, LatentDisplay, PosteriorDisplay

FOLDER = Path(__file__).parent
LEVELS = ["low", "middle", "high"]
CUT = 0.8  # the first input on the dashed line


def three_levels() -> tuple[Any, Any, Any]:
    """Rows of three named levels over the plane, and a model of them."""
    X, rank = make_three_ranks(150, noise=0.3, random_state=0)
    y = [LEVELS[r - 1] for r in rank]
    return OrdinalGPClassifier(categories=LEVELS).fit(X, y), X, y


def three_ranks(path: Path) -> None:
    """Draw the levels over the plane, and their probabilities on a line through it."""
    model, X, y = three_levels()
    with plt.rc_context({"font.size": 12}):
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(11, 4.8), layout="constrained", sharey=True, width_ratios=[1.3, 1]
        )
        names = ("first input", "second input")
        ContourDisplay.from_estimator(model, X, y, feature_names=names, resolution=200, ax=left)
        left.axvline(CUT, color="black", ls="--", lw=1.5)
        left.set_title("150 training rows and the learned boundaries")
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "frameon": False}
        left.legend(ncols=3, **below)
        draw_probabilities(right, model, np.linspace(*left.get_ylim(), 300))
        figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_probabilities(ax: Any, model: Any, second: Any) -> None:
    """Fill the probability of each level along the dashed line, with the level's name in it."""
    line = np.column_stack([np.full_like(second, CUT), second])
    probabilities = model.category_proba(line)
    ends = probabilities.cumsum(axis=1)
    colors = mpl.colormaps["viridis"](np.linspace(0.05, 0.95, len(LEVELS)))
    for k, (name, color) in enumerate(zip(LEVELS, colors, strict=True)):
        start = ends[:, k] - probabilities[:, k]
        ax.fill_betweenx(second, start, ends[:, k], color=color, alpha=0.45, lw=0)
        ax.plot(ends[:, k], second, color="black", lw=1.2)
        y = np.average(second, weights=probabilities[:, k] ** 2)
        x = np.interp(y, second, (start + ends[:, k]) / 2)
        ax.text(x, y, name, ha="center", va="center", fontsize=14)
    ax.set(xlim=(0, 1), xlabel="probability (widths add up to 1)")
    ax.set_title("Probability of each level on the dashed line")


def latent_scale(path: Path) -> None:
    """Draw the same rows on the latent scale."""
    model, X, y = three_levels()
    figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
    LatentDisplay.from_estimator(model, X, y, ax=ax)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def five_ranks(path: Path) -> None:
    """Draw Figure 1 of Srijith et al. (2012): mean and confidence of EP and of least squares."""
    X, y = make_five_ranks_1d(random_state=0)
    models = {
        "Expectation propagation": OrdinalGPClassifier(),
        "Probabilistic least squares": LeastSquaresOrdinalClassifier(),
    }
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
    for ax, (name, model) in zip(axes, models.items(), strict=True):
        fitted = make_pipeline(StandardScaler(), model).fit(X, y)
        PosteriorDisplay.from_estimator(fitted, X, y, kind="levels", feature_names=["x"], ax=ax)
        ax.set_title(name)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def effects(path: Path) -> None:
    """Draw the functions of six columns of the demo data."""
    demo = load_demo()
    classifier = OrdinalGPClassifier(Additive(), categories=demo.categories)
    model = make_pipeline(StandardScaler(), classifier).fit(demo.X, demo.y)
    shown = {"feature_names": demo.feature_names, "max_features": 6, "max_rows": len(demo.X)}
    display = EffectDisplay.from_estimator(model, demo.X, **shown)
    display.figure_.savefig(path, dpi=110)
    plt.close(display.figure_)


if __name__ == "__main__":
    three_ranks(FOLDER / "three-ranks.png")
    latent_scale(FOLDER / "latent-scale.png")
    five_ranks(FOLDER / "five-ranks.png")
    effects(FOLDER / "effects.png")
