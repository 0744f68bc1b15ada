"""
New raters
==========

Somebody new arrives with two or three ratings. ``add_rater`` places them among the known raters
without a new fit. How many ratings does it take until predictions are personal?
"""

# %%
# Known and new people
# --------------------
# The model learns from sixty people. Twenty others come later, and rate items one by one.
import matplotlib.pyplot as plt
import numpy as np

from ordinalgp import CollaborativeOrdinalGP
from ordinalgp.datasets import make_ratings

data = make_ratings(80, 40, n_features=1, observed=1.0, agreement=0.3, random_state=0)
table = np.empty((80, 40), dtype=int)
table[data.raters, data.items] = data.ratings
rng = np.random.default_rng(0)
seen = (data.raters < 60) & (rng.random(len(data.ratings)) < 0.5)
model = CollaborativeOrdinalGP(tol=1e-3, decision="median")
model.fit(data.raters[seen], data.items[seen], data.ratings[seen])

# %%
# More ratings, better predictions
# --------------------------------
# Each new rater gives 0, 1, 2, 4, ... ratings of random items. The error is that of twenty other
# items. With no rating, the model predicts for a typical rater.
counts = [0, 1, 2, 4, 8, 16, 20]
errors = np.empty((len(counts), 20))
for newcomer in range(20):
    own = table[60 + newcomer]
    order = rng.permutation(40)
    test = order[20:]
    for k, count in enumerate(counts):
        given = order[:count]
        name = model.add_rater(
            given, own[given], rater=f"new {newcomer}, {count} ratings"
        )
        errors[k, newcomer] = np.mean(
            np.abs(model.predict([name] * 20, test) - own[test])
        )
mean, error = errors.mean(axis=1), errors.std(axis=1, ddof=1) / np.sqrt(20)
for count, value in zip(counts, mean, strict=True):
    print(f"{count:2} ratings: mean absolute error {value:.2f} stars")

# %%
# One newcomer
# ------------
# Right: the probabilities of the ratings that newcomer 0 will give to twenty items, before any
# rating and after twenty. White dots are the ratings that they gave. The items are in the order of
# a feature that the model does not know.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(
    1, 3, figsize=(10.5, 4), layout="constrained", width_ratios=[1.2, 1, 1]
)
axes[0].fill_between(counts, mean - error, mean + error, color="C0", alpha=0.2, lw=0)
axes[0].plot(counts, mean, "o-", color="C0")
axes[0].set(
    xlabel="ratings given by the new rater", ylabel="mean absolute error (stars)"
)
axes[0].set_title("Twenty new raters, mean ± standard error")
items = np.argsort(data.item_features[:, 0])[::2]
for ax, count in zip(axes[1:], (0, 20), strict=True):
    name = f"new 0, {count} ratings"
    p = model.category_proba([name] * len(items), items)
    shown = ax.imshow(
        p.T, origin="lower", cmap="cividis", vmin=0, vmax=1, aspect="auto"
    )
    ax.plot(table[60, items] - 1, "o", color="white", mec="black")
    ax.set(xlabel="items", title=f"after {count} ratings")
    ax.set_yticks(range(5), [f"{star} ★" for star in range(1, 6)])
    ax.set_xticks([])
figure.colorbar(shown, ax=axes[2], label="probability")
plt.show()
