"""
A utility function from comparisons
===================================

Nobody can say how good a cup of coffee is on a scale from 0 to 1, but everybody can say which of
two is better. With features of the items, comparisons determine a whole function, also for items
that nobody has compared.
"""

# %%
# Sugar in the coffee
# -------------------
# Thirty cups with different amounts of sugar are compared forty times. The answers are graded:
# "much better" says more than "better". The true utility has its peak at 8 grams.
import matplotlib.pyplot as plt
import numpy as np

from ordinalgp import PreferenceGP

levels = ["much worse", "worse", "better", "much better"]
rng = np.random.default_rng(0)
sugar = np.sort(rng.uniform(0, 20, 30))


def utility(grams):
    return 2 * np.exp(-(((grams - 8) / 5) ** 2)) - 0.03 * grams


pairs = np.array([rng.choice(30, 2, replace=False) for _ in range(40)])
difference = utility(sugar[pairs[:, 0]]) - utility(sugar[pairs[:, 1]])
answers = np.array(levels)[
    np.digitize(difference + 0.3 * rng.normal(size=40), [-0.8, 0, 0.8])
]
model = PreferenceGP("features", levels=levels).fit(sugar[:, None] / 5, pairs, answers)
print("margins between the answers:", model.margins_.round(2))

# %%
# The function
# ------------
# Comparisons determine differences only: the height and the unit of a utility are free. We bring
# the truth to the scale of the model by a shift and the ratio of the noises. The band is wide
# because it includes the free height. Differences are known much better, as the right picture
# shows: the probability that one cup is better than another, for any two amounts of sugar. It is
# one half along the diagonal, and where two different cups are equally good.
plt.style.use("tableau-colorblind10")
grid = np.linspace(0, 20, 200)
mean, variance = model.latent_mean_and_variance(grid[:, None] / 5)
sd = np.sqrt(variance)
unit = np.sqrt(2) * model.noise_ / 0.3
truth = utility(grid) * unit
truth += np.mean(mean - truth)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
left.fill_between(
    grid, mean - 1.64 * sd, mean + 1.64 * sd, color="C0", alpha=0.2, label="90 % band"
)
left.plot(grid, mean, color="C0", label="utility from comparisons")
left.plot(grid, truth, color="C1", ls="--", label="true utility")
left.plot(sugar, np.full(30, -2.2), "|", color="black", ms=10)
left.set(xlabel="sugar (g)", ylabel="utility")
left.set_ylim(-2.4, 4.2)
left.legend(loc="upper right")

side = np.linspace(0, 20, 41)
one, two = (each.ravel()[:, None] / 5 for each in np.meshgrid(side, side))
better = model.comparison_proba(one, two)[:, 2:].sum(axis=1).reshape(41, 41)
shown = right.pcolormesh(
    side, side, better, cmap="PuOr_r", vmin=0, vmax=1, rasterized=True
)
lines = right.contour(
    side, side, better, levels=[0.1, 0.5, 0.9], colors="black", linewidths=0.8
)
right.clabel(lines, fmt=lambda p: f"{p:.0%}")
figure.colorbar(shown, ax=right, label="P(first cup is better)")
right.set(
    xlabel="sugar in the first cup (g)",
    ylabel="sugar in the second cup (g)",
    aspect="equal",
)
plt.show()
