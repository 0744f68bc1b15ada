"""
A kernel of your own: the globe
===============================

Inputs are longitude and latitude. A kernel of these two numbers believes that 179° east and 179°
west are far apart, and that a degree of longitude is as long at the poles as at the equator. A
kernel of the distance through the globe knows better, and takes twenty lines.
"""

# %%
# The kernel
# ----------
# A kernel is a scikit-learn kernel: parameters, values, and the gradient in the logarithms of the
# parameters. The length scale is then learned like any other. Without a gradient rule of its own,
# the engine uses ``eval_gradient``.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    Hyperparameter,
    Kernel,
    NormalizedKernelMixin,
)

from ordinalgp import OrdinalGPClassifier
from ordinalgp.metrics import log_score


def on_globe(X):
    longitude, latitude = np.radians(X).T
    x, y = np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude)
    return np.column_stack([x, y, np.sin(latitude)])


class Globe(NormalizedKernelMixin, Kernel):
    """Gaussian kernel of the straight distance between two places on the globe."""

    def __init__(self, length_scale=0.5, length_scale_bounds=(0.05, 5.0)):
        self.length_scale, self.length_scale_bounds = length_scale, length_scale_bounds

    @property
    def hyperparameter_length_scale(self):
        return Hyperparameter("length_scale", "numeric", self.length_scale_bounds)

    def __call__(self, X, Y=None, eval_gradient=False):
        one, two = on_globe(X), on_globe(X if Y is None else Y)
        squared = np.maximum(2 - 2 * one @ two.T, 0) / self.length_scale**2
        K = np.exp(-squared / 2)
        return (K, (K * squared)[:, :, None]) if eval_gradient else K

    def is_stationary(self):
        return True


# %%
# Places in four climates
# -----------------------
# The true function is smooth on the globe. A quarter of the places is far north or far south.
def climate(X):
    east, north, up = on_globe(X).T
    return 1.5 * east * up + np.sin(3 * north) - 1.2 * up**2 + 0.8 * east


rng = np.random.default_rng(0)


def draw(n):
    X = np.column_stack(
        [rng.uniform(-180, 180, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))]
    )
    return X, np.digitize(climate(X) + 0.25 * rng.normal(size=n), [-1.2, -0.4, 0.4])


X, y = draw(200)
X_new, y_new = draw(4000)
models = {
    "kernel of the numbers": OrdinalGPClassifier(RBF([30.0, 30.0], (1.0, 1e3))).fit(
        X, y
    ),
    "kernel of the globe": OrdinalGPClassifier(Globe()).fit(X, y),
}
for name, model in models.items():
    score = log_score(y_new, model.category_proba(X_new), categories=range(4))
    print(
        f"{name}: log evidence {model.log_marginal_likelihood_value_:.0f}, log score {score:.3f}"
    )

# %%
# No seam, no poles
# -----------------
# Expected levels on a map with the date line in the middle. The plain kernel has a seam there: both
# sides of the line are the same meridian, but differ. The globe kernel joins them.
shown_at, latitude = np.linspace(-179, 179, 180), np.linspace(-89, 89, 90)


def around(longitude):
    """Longitudes with the date line at zero, or back again."""
    return longitude % 360 - 180


grid = np.column_stack(
    [each.ravel() for each in np.meshgrid(around(shown_at), latitude)]
)
pictures = {
    name: model.category_proba(grid) @ np.arange(4) for name, model in models.items()
}
pictures["truth"] = np.digitize(climate(grid), [-1.2, -0.4, 0.4])
edge = np.abs(
    np.diff(pictures["kernel of the numbers"].reshape(90, 180)[:, 89:91], axis=1)
).mean()
print(
    f"mean step of the expected level at the date line: {edge:.2f} with the plain kernel"
)
figure, axes = plt.subplots(
    1,
    3,
    figsize=(11, 2.7),
    layout="constrained",
    subplot_kw={"projection": "mollweide"},
)
for ax, (name, values) in zip(axes, pictures.items(), strict=True):
    ax.grid(False)
    shown = ax.pcolormesh(
        np.radians(shown_at), np.radians(latitude), values.reshape(90, 180),
        cmap="viridis", vmin=0, vmax=3, rasterized=True,
    )  # fmt: skip
    if name != "truth":
        ax.plot(
            np.radians(around(X[:, 0])),
            np.radians(X[:, 1]),
            ".",
            color="white",
            ms=3,
            mec="black",
            mew=0.3,
        )
    ax.set_title(name, pad=14)
    ax.set_xticklabels([])
    ax.set_yticklabels([])
figure.colorbar(shown, ax=axes, label="expected level", shrink=0.8)
plt.show()
