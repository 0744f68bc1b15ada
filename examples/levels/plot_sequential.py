"""
A survey where one scale is not enough
======================================

"Is the government doing too little, the right amount, or too much?" Some people are torn: they
answer both "too little" and "too much" more often than others, and hardly ever "the right amount".
No shift along a single scale can say this. A sequential model asks two questions instead, each with
a latent function of its own.
"""

# %%
# Generated answers
# -----------------
# Interest in politics runs from -2 to 2. Indifferent people choose the middle. With rising interest
# people move to both ends, and the true probabilities are known.
import matplotlib.pyplot as plt
import numpy as np

from ordinalgp import OrdinalGPClassifier, SequentialOrdinalGP
from ordinalgp.metrics import log_score

answers = ["too little", "right", "too much"]


def truth(x):
    middle = 0.85 - 0.75 / (1 + np.exp(-3 * (x - 0.3)))
    return np.column_stack([0.55 * (1 - middle), middle, 0.45 * (1 - middle)])


rng = np.random.default_rng(0)
interest = rng.uniform(-2, 2, size=500)
y = np.array(answers)[[rng.choice(3, p=p) for p in truth(interest)]]
models = {
    "thresholds": OrdinalGPClassifier(categories=answers),
    "sequential": SequentialOrdinalGP(categories=answers),
}
for model in models.values():
    model.fit(interest[:, None], y)
for step in models["sequential"].steps_:
    print(f"of {answers[step.low : step.high]}: at least {answers[step.cut]!r}?")

# %%
# The truth and two models
# ------------------------
# The threshold model can only move people up or down, or call everything noise: it gives
# nearly the same answer at both ends. The sequential model finds the people who are torn.
grid = np.linspace(-2, 2, 200)
shown = {"truth": truth(grid)}
shown |= {name: model.category_proba(grid[:, None]) for name, model in models.items()}
titles = {
    "truth": "Truth",
    "thresholds": "One latent scale",
    "sequential": "One function per step",
}
colors = plt.get_cmap("viridis")([0.05, 0.5, 0.95])
figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained", sharey=True)
for ax, (name, p) in zip(axes, shown.items(), strict=True):
    ax.stackplot(grid, p.T, colors=colors, alpha=0.5)
    for k, answer in enumerate(answers):
        at = 60 if k == 1 else 165
        ax.text(
            grid[at],
            p[at, : k + 1].sum() - p[at, k] / 2,
            answer,
            ha="center",
            va="center",
        )
    ax.set(title=titles[name], xlabel="interest in politics", ylim=(0, 1), xlim=(-2, 2))
axes[0].set_ylabel("probability (heights add up to 1)")
plt.show()

# %%
# Evidence and new rows agree
# ---------------------------
# The log evidence compares the two models without a test set; higher is better. The log score of
# 5,000 new answers (lower is better) confirms it.
new = rng.uniform(-2, 2, size=5000)
y_new = np.array(answers)[[rng.choice(3, p=p) for p in truth(new)]]
for name, model in models.items():
    score = log_score(y_new, model.category_proba(new[:, None]), categories=answers)
    print(
        f"{name}: log evidence {model.log_marginal_likelihood_value_:.0f}, log score {score:.3f}"
    )
