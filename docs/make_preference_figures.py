"""Draw the pictures of docs/preferences.md: ``python docs/make_preference_figures.py [name ...]``.

``sine`` is Figure 1 of Wang and McKenna (2010); ``learning`` their Figure 2 and the gain of asking
for informative pairs, from the files that ``python -m papers order-figure2`` and ``order-active``
wrote; ``football`` is a ranking of real teams.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from ordinalgp import PreferenceGP
from ordinalgp.datasets import make_sine_comparisons
from ordinalgp.plots import ComparisonCurveDisplay, ComparisonDisplay, RankingDisplay

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))


def sine() -> None:
    """Predictions from 1, 5, 20 and 30 labels, and the evidence surface for 30."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    X, pairs = make_sine_comparisons(30, random_state=1)
    grid = np.linspace(-np.pi, np.pi, 100)[:, None]
    left.plot(grid, np.sin(grid), color="black", lw=3, alpha=0.2, label="sine")
    for k, style in zip((1, 5, 20, 30), (":", "-.", "--", "-"), strict=True):
        u = PreferenceGP("features").fit(X, pairs[:k]).predict(grid)
        left.plot(grid, 2 * (u - u.min()) / np.ptp(u) - 1, style, color="black", label=f"k = {k}")
    left.set(xlabel="x", ylabel="utility, scaled to [-1, 1]")
    left.legend()
    model = PreferenceGP(ConstantKernel(1.0) * RBF(1.0), noise=1.0).fit(X, pairs)
    log_l, log_gamma = np.linspace(-2.5, 2.5, 31), np.linspace(-2, 8, 31)
    Z = [[model.log_marginal_likelihood([g, s]) for s in log_l] for g in log_gamma]
    levels = np.linspace(-21, np.max(Z), 15)
    filled = right.contourf(log_l, log_gamma, Z, levels=levels, extend="min")
    figure.colorbar(filled, label="log evidence (EP)")
    right.set(xlabel="log length scale", ylabel="log γ = -2 log σ")
    figure.savefig(FOLDER / "sine-comparisons.png", dpi=110)
    print("best log gamma and log length scale", model.kernel_.theta)


def learning() -> None:
    """Error against the number of pairs, at random and by choice."""
    from papers.data import RESULTS
    from papers.order_relations import asking_curve
    from papers.runner import read_records
    from papers.statistics import select

    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    records = read_records(RESULTS / "order.jsonl")
    records = select(records, dataset="boston_housing", model="gpep2")
    sizes = sorted({r["size"] for r in records})
    errors = [[r["zero_one"] for r in select(records, size=size)] for size in sizes]
    n = min(map(len, errors))
    ComparisonCurveDisplay(np.array(sizes), np.array([e[:n] for e in errors])).plot(ax=axes[0])
    axes[0].set_title(f"Boston, {n} repetitions")
    records = read_records(RESULTS / "order-active.jsonl")
    lines = [
        ("random", "features", "--", "0.5"),
        ("information", "features", "-.", "tab:orange"),
        ("prediction", "features", ":", "tab:blue"),
        ("prediction", "bounded", "-", "black"),
    ]
    for ax, name, title in zip(axes[1:], ("sine", "boston"), ("Sine", "Boston"), strict=True):
        for strategy, model, style, color in lines:
            found = asking_curve(records, name, f"{model}-{strategy}")
            if found is not None:
                sizes, error, count = found
                label = strategy if model == "features" else f"{strategy}, {model}"
                ax.plot(sizes, 100 * error, style, color=color, label=label)
                ax.set_title(f"{title}, {count} repetitions")
        ax.set(xlabel="comparisons", ylabel="wrong pairs (%)", ylim=(0, None))
        ax.legend()
    figure.savefig(FOLDER / "preference-learning.png", dpi=110)


def football() -> None:
    """The English Premier League 2008-2013."""
    import pandas as pd

    from papers.data import data_folder

    games = pd.read_csv(data_folder() / "football_pairs.csv")
    pairs = games[["item_a", "item_b"]].to_numpy()
    teams = np.unique(pairs.astype(str))
    model = PreferenceGP("independent", position_bias="learned", random_state=0)
    model.fit(teams, pairs, np.round(2 * games["target"] - 1).astype(int))
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.5), layout="constrained")
    RankingDisplay.from_estimator(model, teams, n_best=20, ax=left)
    ComparisonDisplay.from_estimator(model, teams, n_best=10, ax=right)
    figure.savefig(FOLDER / "football-ranking.png", dpi=110)
    print("bias", model.position_bias_, "margins", model.margins_, "noise", model.noise_)


if __name__ == "__main__":
    for name in sys.argv[1:] or ("sine", "learning", "football"):
        globals()[name]()
