"""Draw the pictures of the README with the package itself: ``python docs/make_figures.py``."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ordinalgp import LeastSquaresOrdinalClassifier, OrdinalGPClassifier
from ordinalgp.datasets import make_five_ranks_1d, make_three_ranks
from ordinalgp.plots import ContourDisplay, LatentDisplay, PosteriorDisplay

FOLDER = Path(__file__).parent


def three_ranks(path: Path) -> None:
    """Draw a model of three named ranks over the plane, and its latent scale."""
    levels = ["low", "middle", "high"]
    X, rank = make_three_ranks(150, noise=0.3, random_state=0)
    y = [levels[r - 1] for r in rank]
    model = OrdinalGPClassifier(categories=levels).fit(X, y)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 4.6), layout="constrained", width_ratios=[1.25, 1]
    )
    names = ("first input", "second input")
    ContourDisplay.from_estimator(model, X, y, feature_names=names, resolution=200, ax=left)
    left.set_title("Levels over the inputs")
    LatentDisplay.from_estimator(model, X, y, ax=right)
    right.set_title("The same rows on the latent scale")
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


if __name__ == "__main__":
    three_ranks(FOLDER / "three-ranks.png")
    five_ranks(FOLDER / "five-ranks.png")
