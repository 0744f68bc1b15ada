"""
Intervals instead of a single level
===================================

When one level is too much to promise, predict a run of neighbouring levels that should contain the
true one. ``predict_interval`` chooses the run, and leave-one-out on the training rows decides how
long it must be. Here we check on new rows whether the promise holds.
"""

# %%
# Fit on half of the patients, and predict the other half.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from ordinalgp import OrdinalGPClassifier
from ordinalgp.datasets import load_demo
from ordinalgp.plots import IntervalDisplay

demo = load_demo()
Z = StandardScaler().fit_transform(demo.X)
Z, Z_new, y, y_new = train_test_split(
    Z, demo.y, test_size=0.5, stratify=demo.y, random_state=0
)
model = OrdinalGPClassifier(categories=demo.categories).fit(Z, y)
print(model.predict_interval(Z_new[:3], coverage=0.8))

# %%
# One bar per row
# ---------------
# Sixty of the new patients, with intervals for a coverage of 80 %. A mark outside of its bar is a
# broken promise; one in five is expected.
figure, ax = plt.subplots(figsize=(10, 3.6), layout="constrained")
IntervalDisplay.from_estimator(model, Z_new, y_new, coverage=0.8, ax=ax)
plt.show()

# %%
# Promised and kept
# -----------------
# Repeat it for other coverages. The intervals always contain the most probable level, so they
# cannot cover less than the share of rows for which that level is right; that is why the curve
# does not follow the diagonal down to the left. Shorter intervals are worth more, so the right
# picture shows their length.
rank = {level: place for place, level in enumerate(demo.categories)}
true = np.array([rank[level] for level in y_new])
promised = np.linspace(0.3, 0.98, 18)
kept, length = [], []
for coverage in promised:
    ends = model.predict_interval(Z_new, coverage=coverage)
    low, high = (np.array([rank[level] for level in side]) for side in ends.T)
    kept.append(np.mean((low <= true) & (true <= high)))
    length.append(np.mean(high - low + 1))
error = np.sqrt(promised * (1 - promised) / len(true))

plt.style.use("tableau-colorblind10")
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.fill_between(promised, promised - 2 * error, promised + 2 * error, color="C2", alpha=0.4,
                  label="promise ± 2 standard errors")  # fmt: skip
left.axhline(
    model.score(Z_new, y_new), color="C3", ls=":", label="most probable level alone"
)
left.plot(promised, kept, "o-", color="C0", label="new rows inside")
left.set(
    xlabel="promised coverage", ylabel="share of new rows inside", ylim=(0.25, 1.02)
)
left.legend(loc="lower right")
right.plot(promised, length, "s-", color="C1")
right.set(xlabel="promised coverage", ylabel="mean number of levels", ylim=(0.9, 4.1))
plt.show()
