"""
Asking the right questions
==========================

Comparisons are expensive: each one takes somebody's time. ``suggest_pairs`` names the pairs whose
answers would tell most about the utilities. We compare it with asking about random pairs.
"""

# %%
# Forty items with a hidden utility
# ---------------------------------
# A person compares two items and errs a little. After every five answers the model is fitted again,
# and chooses the next five questions. The score is the share of all pairs that the model puts in
# the right order.
import matplotlib.pyplot as plt
import numpy as np

from ordinalgp import PreferenceGP

ITEMS, BATCH, ROUNDS = 40, 5, 10


def person(rng):
    X = rng.uniform(-2, 2, size=(ITEMS, 2))
    return X, 1.5 * np.sin(1.5 * X[:, 0]) + X[:, 1]


def answer(pairs, utility, rng):
    difference = (
        utility[pairs[:, 0]] - utility[pairs[:, 1]] + 0.3 * rng.normal(size=len(pairs))
    )
    return np.where(difference > 0, 1, -1)


def ordered(model, X, utility):
    found = model.predict(X)
    i, j = np.triu_indices(len(X), 1)
    return np.mean((found[i] - found[j]) * (utility[i] - utility[j]) > 0)


def learn(ask, seed):
    rng = np.random.default_rng(seed)
    X, utility = person(rng)
    pairs = np.array([rng.choice(ITEMS, 2, replace=False) for _ in range(BATCH)])
    outcomes, scores = answer(pairs, utility, rng), []
    for _ in range(ROUNDS):
        model = PreferenceGP("features").fit(X, pairs, outcomes)
        scores.append(ordered(model, X, utility))
        new = ask(model, X, rng)
        pairs = np.vstack([pairs, new])
        outcomes = np.concatenate([outcomes, answer(new, utility, rng)])
    return scores, X, utility, pairs


def informative(model, X, rng):
    return model.suggest_pairs(X, n=BATCH)


def random(model, X, rng):
    return np.array([rng.choice(ITEMS, 2, replace=False) for _ in range(BATCH)])


# %%
# Learning curves
# ---------------
# Lines are means over six people, bands their standard errors. Thirty questions of the model order
# more pairs correctly than fifty random ones.
plt.style.use("tableau-colorblind10")
figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4.2), layout="constrained", width_ratios=[1.2, 1]
)
asked = BATCH * np.arange(1, ROUNDS + 1)
for name, ask, color in [
    ("suggest_pairs", informative, "C0"),
    ("random pairs", random, "C1"),
]:
    runs = [learn(ask, seed) for seed in range(6)]
    scores = np.array([run[0] for run in runs])
    mean, error = scores.mean(axis=0), scores.std(axis=0, ddof=1) / np.sqrt(len(scores))
    left.fill_between(asked, mean - error, mean + error, color=color, alpha=0.2, lw=0)
    left.plot(asked, mean, "o-", color=color, label=name)
    print(f"{name:14} after 10, 30, 50 answers: {mean[[1, 5, 9]].round(3)}")
    if ask is informative:
        _, X, utility, pairs = runs[0]
left.set(xlabel="answers", ylabel="pairs in the right order")
left.legend(loc="lower right")

# The questions asked of the first person
right.plot(*X[pairs].transpose(2, 1, 0), color="C3", lw=0.7, alpha=0.6)
dots = right.scatter(
    *X.T, c=utility, s=60, cmap="viridis", edgecolors="black", zorder=3
)
figure.colorbar(dots, ax=right, label="true utility")
right.set(
    xlabel="first feature",
    ylabel="second feature",
    title="Questions to the first person",
)
plt.show()
