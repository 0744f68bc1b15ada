"""
Leave-one-out without refits
============================

Leave-one-out predicts each row from all others. Done literally, it needs as many fits as there are
rows. A Gaussian process has these predictions as a by-product of one fit: the posterior without a
row follows from the posterior with it.
"""

# %%
# The shortcut and the long way
# -----------------------------
# For 60 rows we can afford both. The long way keeps the hyperparameters and refits the posterior 60
# times.
from time import process_time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from ordinalgp import OrdinalGPClassifier
from ordinalgp.datasets import load_demo
from ordinalgp.metrics import log_score

demo = load_demo()
Z = StandardScaler().fit_transform(demo.X)[:60]
y = np.array([demo.categories.index(level) for level in demo.y[:60]])
model = OrdinalGPClassifier(categories=range(4)).fit(Z, y)

start = process_time()
quick = model.loo_proba()
middle = process_time()
frozen = OrdinalGPClassifier(
    model.kernel_, likelihood=model.likelihood_, optimizer=None, categories=range(4)
)
slow = []
for row in range(len(y)):
    others = np.arange(len(y)) != row
    slow.append(frozen.fit(Z[others], y[others]).category_proba(Z[[row]])[0])
slow = np.array(slow)
end = process_time()
print(f"largest difference of a probability: {np.abs(quick - slow).max():.4f}")
print(
    f"the shortcut takes 1/{(end - middle) / max(middle - start, 1e-6):,.0f} of the time"
)

# %%
# The same predictions
# --------------------
# The left picture compares the two ways. The right one shows why leave-one-out is needed: the
# probability that a fitted model gives to its own training labels is larger than for rows that it
# has not seen.
plt.style.use("tableau-colorblind10")
fitted = model.category_proba(Z)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
left.plot([0, 1], [0, 1], color="C3", lw=1, ls="--")
for level, marker in enumerate("os^D"):
    left.plot(
        slow[:, level], quick[:, level], marker, ms=5, label=demo.categories[level]
    )
left.set(xlabel="60 refits", ylabel="one fit, loo_proba()", aspect="equal")
left.set_title("Leave-one-out probabilities")
left.legend()
rows = np.arange(len(y))
order = np.argsort(fitted[rows, y])
right.plot(fitted[order, y[order]], rows, "o", color="C1", label="with the row itself")
right.plot(quick[order, y[order]], rows, "o", color="C0", label="left out")
right.hlines(
    rows, quick[order, y[order]], fitted[order, y[order]], color="C2", zorder=0
)
right.set(
    xlabel="probability of the true level",
    ylabel="row",
    title="Training rows, seen and unseen",
)
right.legend(loc="lower right")
plt.show()

# %%
# Leave-one-out scores are still a little too good, because the hyperparameters have seen all rows.
print(f"log score: training {log_score(y, fitted, categories=range(4)):.2f}")
print(f"log score: leave-one-out {log_score(y, quick, categories=range(4)):.2f}")
