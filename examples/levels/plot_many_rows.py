"""
A million rows
==============

Exact inference costs the cube of the number of rows. Above 2,000 rows the model therefore keeps up
to 512 inducing points, places that summarise the latent function, and passes over the rows in
chunks. Here a million rows are fitted on one core while this page is built.
"""

# %%
# A function with fine structure
# ------------------------------
# Two inputs and five levels. The more rows, the more of the structure can be seen.
from time import process_time

import matplotlib.pyplot as plt
import numpy as np

from ordinalgp import OrdinalGPClassifier
from ordinalgp.metrics import log_score


def latent(X):
    return np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.5 * np.sin(X[:, 0] * X[:, 1])


def draw(n, rng):
    X = rng.uniform(-3, 3, size=(n, 2))
    return X, np.digitize(latent(X) + 0.5 * rng.normal(size=n), [-0.9, -0.3, 0.3, 0.9])


rng = np.random.default_rng(0)
X_new, y_new = draw(5000, rng)
sizes, models, seconds, scores = [300, 3000, 1_000_000], [], [], []
for n in sizes:
    X, y = draw(n, rng)
    start = process_time()
    model = OrdinalGPClassifier(inducing=None if n <= 300 else 150, random_state=0).fit(
        X, y
    )
    seconds.append(process_time() - start)
    models.append(model)
    scores.append(log_score(y_new, model.category_proba(X_new), categories=range(5)))
    print(
        f"{n:9,} rows: {n / seconds[-1]:8,.0f} rows per second, log score {scores[-1]:.3f}"
    )

# %%
# Time grows more slowly than the number of rows: the kernel is learned on samples of the rows, and
# only the passes see them all. No model can do better than the true probabilities:
mean = latent(X_new)
best = models[-1].likelihood_.from_thresholds([-0.9, -0.3, 0.3, 0.9], noise=0.5)
truth = best.probabilities(mean, np.zeros_like(mean))
print(
    f"log score of the true probabilities: {log_score(y_new, truth, categories=range(5)):.3f}"
)

# %%
# What more rows show
# -------------------
# The expected level over the plane. Dots are the inducing points, which spread over the inputs.
side = np.linspace(-3, 3, 100)
grid = np.column_stack([each.ravel() for each in np.meshgrid(side, side)])
noiseless = best.probabilities(latent(grid), np.zeros(len(grid)))
figure, axes = plt.subplots(
    2, 2, figsize=(8.4, 7.6), layout="constrained", sharex=True, sharey=True
)
pictures = [model.category_proba(grid) for model in models] + [noiseless]
titles = [f"{n:,} rows, log score {s:.3f}" for n, s in zip(sizes, scores, strict=True)]
for ax, p, title in zip(axes.ravel(), pictures, [*titles, "truth"], strict=True):
    expected = (p @ np.arange(5)).reshape(100, 100)
    shown = ax.pcolormesh(
        side, side, expected, cmap="viridis", vmin=0.3, vmax=3.7, rasterized=True
    )
    ax.set(title=title, aspect="equal")
axes[1, 0].plot(
    *models[2].inducing_points_.T, ".", color="white", ms=3, mec="black", mew=0.3
)
figure.supxlabel("first input")
figure.supylabel("second input")
figure.colorbar(shown, ax=axes, label="expected level")
plt.show()
