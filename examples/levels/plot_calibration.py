"""
Can the probabilities be trusted?
=================================

A model says "severe with 30 %". Among all rows for which it says so, are about 30 % severe? A
calibration plot answers this on rows that the model has not seen. We set the Gaussian process
beside naive Bayes, a classifier that is known for probabilities that are too extreme.
"""

# %%
# Held-out probabilities
# ----------------------
# Ten folds predict each of the 442 patients by a model that was fitted without them. Labels are
# numbered in their order first: scikit-learn's ``cross_val_predict`` would else number them
# alphabetically.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ordinalgp import OrdinalGPClassifier
from ordinalgp.datasets import load_demo
from ordinalgp.metrics import log_score, ranked_probability_score
from ordinalgp.plots import CalibrationDisplay

demo = load_demo()
rank = np.array([demo.categories.index(level) for level in demo.y])
models = {
    "Gaussian process": OrdinalGPClassifier(),
    "naive Bayes": GaussianNB(),
}
folds = StratifiedKFold(10, shuffle=True, random_state=0)
held_out = {
    name: cross_val_predict(
        make_pipeline(StandardScaler(), model),
        demo.X,
        rank,
        cv=folds,
        method="predict_proba",
    )
    for name, model in models.items()
}

# %%
# What is said, and what happens
# ------------------------------
# Each point is a fifth of the rows. Below the diagonal the model overestimates the probability;
# above it, it underestimates it. Bars are 90 % intervals of the observed frequency. Naive Bayes
# runs flatter than the diagonal: when it says 80 %, it is right far less often.
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharey=True)
for ax, (name, probabilities) in zip(axes, held_out.items(), strict=True):
    CalibrationDisplay.from_predictions(demo.y, probabilities, demo.categories, ax=ax)
    score = log_score(rank, probabilities)
    ranked = ranked_probability_score(rank, probabilities)
    ax.set_title(
        f"{name}\nlog score {score:.2f}, ranked probability score {ranked:.3f}"
    )
plt.show()

# %%
# Both scores in the titles are lower for better probabilities. They punish overconfidence, which
# the error rate does not see:
for name, probabilities in held_out.items():
    print(f"{name}: error rate {np.mean(probabilities.argmax(axis=1) != rank):.3f}")
