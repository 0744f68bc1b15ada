"""
When mistakes do not cost the same
==================================

The most probable level is the best prediction only if all mistakes cost the same. The probabilities
do not depend on costs, so one fitted model serves all of them: the decision is changed after the
fit. We compare decisions for stages of disease, where the highest stage is rare and missing it is
expensive.
"""

# %%
# Four decisions
# --------------
# "balanced" counts each level the same, however rare it is. The cost matrix has a row per true
# level and a column per predicted one: a level too low costs three, a level too high costs one.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from ordinalgp import OrdinalGPClassifier
from ordinalgp.datasets import load_demo
from ordinalgp.metrics import (
    macro_mean_absolute_error,
    mean_absolute_error,
    zero_one_error,
)
from ordinalgp.plots import ConfusionDisplay

demo = load_demo()
Z = StandardScaler().fit_transform(demo.X)
Z, Z_new, y, y_new = train_test_split(
    Z, demo.y, test_size=0.5, stratify=demo.y, random_state=0
)
model = OrdinalGPClassifier(categories=demo.categories).fit(Z, y)

true, predicted = np.indices((4, 4))
cost = np.where(predicted < true, 3 * (true - predicted), predicted - true)
print(cost)

# %%
# Each decision is best at what it is for
# ---------------------------------------
# Lower is better in each column. If the probabilities are right, each decision has the lowest
# expected loss of its own kind.
decisions = {"mode": "mode", "median": "median", "balanced": "balanced", "costs": cost}
rank = {level: place for place, level in enumerate(demo.categories)}
answers = {}
print(f"{'decision':9} error rate  absolute error  balanced error  mean cost")
for name, decision in decisions.items():
    answers[name] = model.set_params(decision=decision).predict(Z_new)
    paid = [cost[rank[t], rank[p]] for t, p in zip(y_new, answers[name], strict=True)]
    print(
        f"{name:9} {zero_one_error(y_new, answers[name]):10.3f}"
        f" {mean_absolute_error(y_new, answers[name], categories=demo.categories):15.3f}"
        f" {macro_mean_absolute_error(y_new, answers[name], categories=demo.categories):15.3f}"
        f" {np.mean(paid):10.3f}"
    )

# %%
# Where the predictions go
# ------------------------
# The most probable level is never "moderate", and too low for half of the severe patients. With the
# cost matrix the predictions move up: fewer severe patients are missed, at the price of more
# alarms for mild ones.
figure, axes = plt.subplots(2, 2, figsize=(9.5, 8.4), layout="constrained")
for ax, name in zip(axes.ravel(), answers, strict=True):
    ConfusionDisplay.from_predictions(y_new, answers[name], demo.categories, ax=ax)
    ax.set_title(f"decision: {name}")
plt.show()
