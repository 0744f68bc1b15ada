"""
A leaderboard with ties
=======================

Eight chat assistants are compared by votes: the left answer is better, the right one is, or both
are about the same. Some were compared often, some rarely. A leaderboard should say how sure it is
of each place.
"""

# %%
# Generated votes
# ---------------
# The true strengths are known here, two assistants are equally good, and "Hazel" has only twelve
# votes.
import matplotlib.pyplot as plt
import numpy as np

from ordinalgp import PreferenceGP
from ordinalgp.plots import ComparisonDisplay, RankingDisplay

names = ["Aspen", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Ginkgo", "Hazel"]
strength = np.array([1.2, 0.9, 0.9, 0.4, 0.0, -0.3, -0.8, 0.7])
rng = np.random.default_rng(0)
votes = [tuple(rng.choice(7, 2, replace=False)) for _ in range(500)]
votes += [
    (7, rng.integers(7)) if rng.random() < 0.5 else (rng.integers(7), 7)
    for _ in range(12)
]
left, right = np.array(votes).T
difference = strength[left] - strength[right] + rng.normal(size=len(votes))
outcomes = np.where(np.abs(difference) < 0.4, 0, np.sign(difference)).astype(int)
print(
    {
        word: int(np.sum(outcomes == o))
        for word, o in zip(["right", "tie", "left"], [-1, 0, 1], strict=True)
    }
)

# %%
# Fit, and rank
# -------------
# A tie is an outcome like any other: the model learns the margin within which two assistants count
# as equal.
model = PreferenceGP(kernel="independent", random_state=0)
model.fit(names, [(names[i], names[j]) for i, j in votes], outcomes)
print(
    f"ties within {model.margins_[1]:.2f}, noise of a difference {np.sqrt(2) * model.noise_:.2f}"
)

# %%
# The ranking, with its doubts
# ----------------------------
# Bars hold 90 % of the posterior, and so do the intervals of ranks beside them. Hazel has a wide
# bar, and could be in many places. The right picture shows the probability that the item of a row beats that of a column;
# the rest is ties and losses.
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
RankingDisplay.from_estimator(model, names, ax=axes[0])
ComparisonDisplay.from_estimator(model, names, ax=axes[1])
plt.show()

# %%
# Which assistants can be told apart? The first one of a group is not ahead of any other in it with a
# probability of 95 %. Birch and Cedar, which are equally good, are in one group.
ranking = model.rank(names)
for number in np.unique(ranking.group):
    print(f"group {number}:", *ranking.items[ranking.group == number])

# %%
# What to ask next? The pairs whose votes would tell most about the strengths all involve Hazel:
for i, j in model.suggest_pairs(names, n=3):
    print(names[i], "against", names[j])
