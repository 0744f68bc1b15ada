"""
Raters who use the scale differently
====================================

One person gives five stars to everything, another has never given more than three. Averages of such
ratings are unfair to items that met the harsh raters. The collaborative model gives each rater
thresholds of their own, and learns them together with the items.
"""

# %%
# Generous and harsh raters
# -------------------------
# Forty raters judge thirty films. The true quality is known. Generous raters mostly watched the
# first fifteen films, harsh raters the others.
import matplotlib.pyplot as plt
import numpy as np

from ordinalgp import CollaborativeOrdinalGP

rng = np.random.default_rng(0)
n_raters, n_films = 40, 30
quality = rng.normal(size=n_films)
generous = np.arange(n_raters) < 20
shift = np.where(generous, -0.8, 0.8) + 0.3 * rng.normal(
    size=n_raters
)  # of the thresholds
width = rng.uniform(0.6, 1.4, n_raters)  # wide: hardly ever an extreme rating
cuts = shift[:, None] + width[:, None] * np.array([-1.2, -0.4, 0.4, 1.2])
watched = rng.random((n_raters, n_films)) < np.where(
    generous[:, None] == (np.arange(n_films) < 15), 0.6, 0.15
)
raters, films = np.nonzero(watched)
felt = quality[films] + 0.6 * rng.normal(size=len(films))
stars = 1 + np.sum(felt[:, None] > cuts[raters], axis=1)
model = CollaborativeOrdinalGP(kernel=0.2 * np.eye(n_films) + 0.3).fit(
    raters, films, stars
)
print(f"{len(stars)} ratings, {model.n_iter_} iterations")

# %%
# Scales, raters and films
# ------------------------
# In the first picture each line is one rater's scale, cut by the thresholds that were learned. The
# second has the raters' mean thresholds beside the truth: learned ones are drawn towards those of a
# typical rater, more so the fewer ratings there are. The third compares two estimates of a film's
# quality. Mean stars mix up quality and audience; the model's mean is for a typical rater.
found = np.array([model.thresholds_[rater] for rater in range(n_raters)])
order = np.argsort(found.mean(axis=1))
colors = plt.get_cmap("viridis")(np.linspace(0.05, 0.95, 5))
figure, axes = plt.subplots(
    1, 3, figsize=(11, 4.2), layout="constrained", width_ratios=[1.3, 1, 1]
)
low, high = found.min() - 1, found.max() + 1
for line, rater in enumerate(order):
    ends = np.concatenate([[low], found[rater], [high]])
    for k in range(5):
        axes[0].plot(
            ends[k : k + 2], [line, line], color=colors[k], lw=4, solid_capstyle="butt"
        )
axes[0].set(xlabel="latent scale", ylabel="rater, generous to harsh", xlim=(low, high))
axes[0].set_title("Learned scales (dark: one star, light: five)")

plt.style.use("tableau-colorblind10")
for group, color, marker, label in [
    (generous, "C0", "o", "generous"),
    (~generous, "C1", "^", "harsh"),
]:
    axes[1].plot(
        cuts[group].mean(axis=1),
        found[group].mean(axis=1),
        marker,
        color=color,
        label=label,
    )
axes[1].set(
    xlabel="true mean threshold", ylabel="learned mean threshold", title="Raters"
)
axes[1].legend()

mean_stars = np.array([stars[films == film].mean() for film in range(n_films)])
place = np.array([np.flatnonzero(model.items_ == film)[0] for film in range(n_films)])
fair = model.mean_[place]


def standard(values):
    return (values - values.mean()) / values.std()


for name, values, color, marker in [
    ("mean stars", mean_stars, "C1", "^"),
    ("model", fair, "C0", "o"),
]:
    r = np.corrcoef(quality, values)[0, 1]
    axes[2].plot(
        quality,
        standard(values),
        marker,
        color=color,
        label=f"{name} (correlation {r:.2f})",
    )
axes[2].plot([-2.5, 2.5], [-2.5, 2.5], color="C3", ls="--", lw=1)
axes[2].set(xlabel="true quality", ylabel="estimate, standardised", title="Films")
axes[2].set_ylim(-2.9, 4)
axes[2].legend(loc="upper left")
plt.show()
