"""
Far from the data
=================

What does a model say about a row unlike any that it has seen? A Gaussian process becomes uncertain
and returns to what it believed before the data. A linear model does the opposite: the farther the
row, the more certain it is.
"""

# %%
# Two clouds of rows
# ------------------
# The rows have three levels and lie between -3 and -1 or between 1 and 3. Nothing is known about
# the gap between the clouds, or about what lies beyond them.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from ordinalgp import OrdinalGPClassifier
from ordinalgp.plots import PosteriorDisplay

rng = np.random.default_rng(0)
x = np.concatenate([rng.uniform(-3, -1, 60), rng.uniform(1, 3, 60)])[:, None]
y = np.digitize(
    0.5 * x[:, 0] + 0.6 * np.sin(4 * x[:, 0]) + 0.2 * rng.normal(size=120), [-0.7, 0.7]
)
gp = OrdinalGPClassifier().fit(x, y)
linear = LogisticRegression().fit(x, y)

# %%
# What each model says
# --------------------
# Above, the latent function of the Gaussian process. The band is narrow where there are rows. In
# the gap and beyond the clouds it widens, until the model is back at its prior: mean zero, standard
# deviation one. Below, the probabilities. Far to the right the Gaussian process gives every level a
# fair chance. Logistic regression is almost certain there, although it has never seen such a row.
wide = np.linspace(-8, 8, 400)[:, None]
figure, axes = plt.subplots(
    3, 1, figsize=(9, 9), layout="constrained", sharex=True, height_ratios=[1.4, 1, 1]
)
PosteriorDisplay.from_estimator(gp, wide, feature_names=["input"], ax=axes[0])
axes[0].plot(
    x[:, 0], np.full(len(x), axes[0].get_ylim()[0] + 0.1), "|", color="black", ms=10
)
axes[0].set(title="Latent function of the Gaussian process; ticks are rows", xlabel="")

colors = plt.get_cmap("viridis")([0.05, 0.5, 0.95])
models = {"Gaussian process": gp, "Logistic regression": linear}
for ax, (name, model) in zip(axes[1:], models.items(), strict=True):
    ax.stackplot(wide[:, 0], model.predict_proba(wide).T, colors=colors, alpha=0.55)
    ax.axvspan(-3, -1, ymax=0.05, color="black")
    ax.axvspan(1, 3, ymax=0.05, color="black")
    ax.set(
        title=f"{name}; black bars: where the rows are",
        ylim=(0, 1),
        ylabel="probability",
    )
axes[2].legend(["level 0", "level 1", "level 2"], loc="upper left")
axes[2].set(xlabel="input", xlim=(-8, 8))
plt.show()

# %%
# In numbers, inside a cloud, in the gap, and far away:
for place in (2.0, 0.0, 8.0):
    print(
        f"at {place}: latent sd {np.sqrt(gp.latent_mean_and_variance([[place]])[1][0]):.2f}, "
        f"Gaussian process {gp.category_proba([[place]])[0].round(2)}, "
        f"logistic regression {linear.predict_proba([[place]])[0].round(2)}"
    )
