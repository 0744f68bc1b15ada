"""
Thresholds and the latent scale
===============================

A model of ordered levels has one hidden scale. Every row has a place on it, and thresholds cut the
scale into levels. This example draws that scale for stages of diabetes progression: 442 patients
with ten measurements each, from the data that come with scikit-learn.
"""

# %%
# Fit
# ---
# The learned thresholds need not be equally far apart: here "marked" is wider than "moderate".
import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ordinalgp import OrdinalGPClassifier
from ordinalgp.datasets import load_demo
from ordinalgp.plots import LatentDisplay

demo = load_demo()
model = make_pipeline(StandardScaler(), OrdinalGPClassifier(categories=demo.categories))
model.fit(demo.X, demo.y)
gp = model[-1]
print("thresholds", gp.thresholds_.round(2), "noise", round(gp.noise_, 2))

# %%
# Where the rows lie, and what the scale means
# --------------------------------------------
# Each curve in the upper picture is the density of the rows of one level. They overlap: the ten
# measurements do not determine the stage. The lower picture shows how a place on the scale becomes
# probabilities. On a threshold, the levels below and the levels above are equally probable; the
# noise decides how soft the transition is.
figure, (above, below) = plt.subplots(
    2, 1, figsize=(8, 7), layout="constrained", sharex=True, height_ratios=[1, 1]
)
LatentDisplay.from_estimator(model, demo.X, demo.y, ax=above)
above.set(xlabel="", title="Rows of each level on the latent scale")

place = np.linspace(*above.get_xlim(), 300)
probabilities = gp.likelihood_.probabilities(place, np.zeros_like(place))
colors = plt.get_cmap("viridis")(np.linspace(0.05, 0.95, len(demo.categories)))
below.stackplot(place, probabilities.T, colors=colors, alpha=0.45)
for threshold in gp.thresholds_:
    below.axvline(threshold, color="black", ls="--", lw=1)
for level, p in zip(demo.categories, probabilities.T, strict=True):
    at = np.argmin(np.abs(place - np.average(place, weights=p**3)))
    top = probabilities[at, : demo.categories.index(level) + 1].sum()
    below.text(place[at], top - p[at] / 2, level, ha="center", va="center", fontsize=10)
below.set(
    xlabel="latent value", ylabel="probability (heights add up to 1)", ylim=(0, 1)
)
below.set_title("Probability of each level, for a known latent value")
plt.show()

# %%
# A patient's own place is not known exactly. The variance of the latent value adds to the noise,
# and makes the probabilities more cautious.
mean, variance = gp.latent_mean_and_variance(model[:-1].transform(demo.X[:3]))
for row in range(3):
    shown = ", ".join(
        f"{p:.0%}" for p in gp.category_proba(model[:-1].transform(demo.X))[row]
    )
    print(
        f"patient {row}: {mean[row]:+.2f} ± {variance[row] ** 0.5:.2f} on the scale; {shown}"
    )
