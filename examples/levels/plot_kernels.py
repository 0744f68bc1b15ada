"""
Which kernel?
=============

The kernel says which functions are plausible: smooth ones, rough ones, sums of one function per
column. The log evidence, the probability of the training labels under the model, compares kernels
without a test set.
"""

# %%
# Three worlds, four kernels
# --------------------------
# Each world has 150 rows with six columns, and the latent function is known: a smooth function of
# two columns, a function with steps, and a sum of one function per column.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF

from ordinalgp import OrdinalGPClassifier
from ordinalgp.kernels import Additive, ARDLinear, Exponential
from ordinalgp.metrics import log_score

worlds = {
    "smooth": lambda X: 1.5 * np.sin(X[:, 0] + X[:, 1]),
    "steps": lambda X: 1.2 * (X[:, 0] > 0.5) + 1.2 * (X[:, 1] > -0.5) - 1.2,
    "additive": lambda X: np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 - 0.5 - X[:, 2],
}
kernels = {
    "RBF": RBF(np.full(6, 2.0)),
    "Exponential": Exponential(np.full(6, 2.0)),
    "Additive": Additive(np.full(6, 2.0)),
    "ARDLinear": ARDLinear(np.ones(6)),
}


def draw(world, n, rng):
    X = rng.normal(size=(n, 6))
    return X, np.digitize(worlds[world](X) + 0.3 * rng.normal(size=n), [-0.8, 0.0, 0.8])


evidence, score = np.empty((3, 4)), np.empty((3, 4))
for i, world in enumerate(worlds):
    rng = np.random.default_rng(i)
    X, y = draw(world, 150, rng)
    X_new, y_new = draw(world, 2000, rng)
    for j, kernel in enumerate(kernels.values()):
        model = OrdinalGPClassifier(kernel, categories=range(4)).fit(X, y)
        evidence[i, j] = model.log_marginal_likelihood_value_
        score[i, j] = log_score(y_new, model.category_proba(X_new), categories=range(4))

# %%
# Evidence and new rows agree
# ---------------------------
# Left: log evidence of the training rows (higher is better). Right: log score of 2,000 new rows
# (lower is better). Frames mark the best kernel of each world.
figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
pictures = [
    (evidence, "Log evidence, 150 training rows", 1),
    (score, "Log score, 2,000 new rows", -1),
]
for ax, (values, title, sign) in zip(axes, pictures, strict=True):
    relative = sign * (values - (sign * values).max(axis=1, keepdims=True) * sign)
    spread = relative / np.abs(relative).max(axis=1, keepdims=True)
    ax.imshow(spread, cmap="cividis", vmin=-1.4, vmax=0.2, aspect="auto")
    for i, j in np.ndindex(values.shape):
        text = f"{values[i, j]:.0f}" if sign > 0 else f"{values[i, j]:.2f}"
        best = relative[i, j] == 0
        ax.text(j, i, text, ha="center", va="center", weight="bold" if best else "normal",
                color="black" if spread[i, j] > -0.55 else "white")  # fmt: skip
        if best:
            ax.add_patch(
                plt.Rectangle((j - 0.47, i - 0.46), 0.94, 0.92, fill=False, lw=2.5)
            )
    ax.set_xticks(range(4), list(kernels))
    ax.set_yticks(range(3), list(worlds))
    ax.set_title(title)
plt.show()
