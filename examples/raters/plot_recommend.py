"""
Missing ratings and recommendations
===================================

In a table of ratings most cells are empty. The collaborative model learns what the raters have in
common, fills the gaps with probabilities, and recommends what a rater has not seen.
"""

# %%
# A table with gaps
# -----------------
# Forty raters, thirty items, and two fifths of the ratings. Tastes depend on one feature of the
# items, say how sad a film is. The generator knows the utilities of all cells.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF

from ordinalgp import CollaborativeOrdinalGP
from ordinalgp.datasets import make_ratings

data = make_ratings(40, 30, n_features=1, observed=0.4, agreement=0.5, random_state=1)
train = np.random.default_rng(0).random(len(data.ratings)) < 0.8
model = CollaborativeOrdinalGP(kernel=RBF(1.0), decision="median")
model.fit(
    data.raters[train], data.items[train], data.ratings[train], data.item_features
)

# %%
# Held-out ratings
# ----------------
# A fifth of the ratings was kept back. The mean absolute error, in stars, beside two simple rules.
raters, items, truth = (
    column[~train] for column in (data.raters, data.items, data.ratings)
)


def average_of(column, which):
    known = {each: data.ratings[train & (column == each)] for each in np.unique(column)}
    return np.array([known[each].mean() if len(known[each]) else 3.0 for each in which])


guesses = {
    "the rater's mean": average_of(data.raters, raters).round(),
    "the item's mean": average_of(data.items, items).round(),
    "the model": model.predict(raters, items),
}
for name, guess in guesses.items():
    print(f"{name:17} mean absolute error {np.mean(np.abs(guess - truth)):.2f}")

# %%
# Filling the table
# -----------------
# Left: the ratings that the model has seen. Middle: the expected rating of each cell. Right: the
# true utilities, without noise. Items are sorted by their feature, raters by their mean.
everyone, everything = np.unique(data.raters), np.unique(data.items)
who, what = (each.ravel() for each in np.meshgrid(everyone, everything, indexing="ij"))
probabilities = model.category_proba(who, what)
expected = (probabilities @ model.categories_).reshape(40, 30)
seen = np.full((40, 30), np.nan)
seen[data.raters[train], data.items[train]] = data.ratings[train]
rows, columns = np.argsort(expected.mean(axis=1)), np.argsort(data.item_features[:, 0])
figure, axes = plt.subplots(
    1, 3, figsize=(10.5, 4.6), layout="constrained", sharey=True
)
pictures = [(seen, "observed", (1, 5)), (expected, "expected rating", (1, 5))]
for ax, (values, title, (low, high)) in zip(axes, pictures, strict=False):
    shown = ax.imshow(
        values[rows][:, columns], cmap="viridis", vmin=low, vmax=high, aspect="auto"
    )
    ax.set(title=title, xlabel="items, sorted by feature")
figure.colorbar(shown, ax=axes[:2], label="stars", shrink=0.8)
shown = axes[2].imshow(data.utilities[rows][:, columns], cmap="cividis", aspect="auto")
axes[2].set(title="true utility", xlabel="items, sorted by feature")
figure.colorbar(shown, ax=axes[2], label="utility", shrink=0.8)
axes[0].set_ylabel("raters, sorted")
plt.show()

# %%
# What to see next
# ----------------
# ``recommend`` names unseen items with the best expected rating. The true ranks of these items
# among all that the rater has not seen are printed beside them.
for rater in (0, 1, 2):
    chosen = model.recommend(rater, n=3)
    unseen = np.setdiff1d(everything, data.items[train & (data.raters == rater)])
    best = unseen[np.argsort(-data.utilities[rater, unseen])].tolist()
    ranks = [best.index(item) + 1 for item in chosen.tolist()]
    print(
        f"rater {rater}: items {chosen.tolist()}, true ranks {ranks} of {len(unseen)}"
    )
