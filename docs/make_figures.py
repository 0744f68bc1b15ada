"""Draw the pictures of the README with the package itself: ``python docs/make_figures.py``."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from ordinalgp import OrdinalGPClassifier
from ordinalgp.datasets import make_three_ranks
from ordinalgp.plots import ContourDisplay, LatentDisplay

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


if __name__ == "__main__":
    three_ranks(FOLDER / "three-ranks.png")
