"""
Rough functions: neighbours
===========================

Prices change from one quarter of a city to the next. A few hundred inducing points cannot follow
such a function, however many rows there are. ``approximation="neighbours"`` predicts each new row
from the rows near it, so that more rows show finer structure.
"""

# %%
# A city of many quarters
# -----------------------
# Each quarter has a price level of its own, on top of a trend from the centre outwards. Prices come
# in four classes.
import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import cKDTree

from ordinalgp import OrdinalGPClassifier
from ordinalgp.metrics import log_score

rng = np.random.default_rng(0)
centres, values = rng.uniform(-3, 3, size=(500, 2)), rng.normal(size=500)
quarters = cKDTree(centres)


def price(X):
    return values[quarters.query(X)[1]] - 0.2 * np.linalg.norm(X, axis=1)


def draw(n):
    X = rng.uniform(-3, 3, size=(n, 2))
    return X, np.digitize(price(X) + 0.2 * rng.normal(size=n), [-1.2, -0.5, 0.2])


X, y = draw(5000)
X_new, y_new = draw(2000)

# %%
# Which approximation?
# --------------------
# By default short fits of both approximations predict held-out rows, and the better one is fitted
# in full.
auto = OrdinalGPClassifier().fit(X, y)
print(f"chosen: {auto.approximation_}")
points = OrdinalGPClassifier(approximation="inducing").fit(X, y)
scores = {}
for name, model in {"neighbours": auto, "512 inducing points": points}.items():
    scores[name] = log_score(y_new, model.category_proba(X_new))
    print(f"{name:20s} log score {scores[name]:.3f}")

# %%
# What each of them sees
# ----------------------
# The expected class over the city. Inducing points blur quarters that are smaller than the distance
# between points.
side = np.linspace(-3, 3, 100)
grid = np.column_stack([each.ravel() for each in np.meshgrid(side, side)])
truth = np.digitize(price(grid), [-1.2, -0.5, 0.2])
pictures = [truth, *(m.category_proba(grid) @ np.arange(4) for m in (auto, points))]
titles = ["truth, without noise", *(f"{name}: {s:.3f}" for name, s in scores.items())]
figure, axes = plt.subplots(
    1, 3, figsize=(11.0, 3.9), layout="constrained", sharey=True
)
for ax, picture, title in zip(axes, pictures, titles, strict=True):
    shown = ax.pcolormesh(
        side,
        side,
        picture.reshape(100, 100),
        cmap="viridis",
        vmin=0,
        vmax=3,
        rasterized=True,
    )
    ax.set(title=title, aspect="equal")
figure.colorbar(shown, ax=axes, label="expected class")
plt.show()
