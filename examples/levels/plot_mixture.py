"""
A mixture instead of a choice
=============================

Which kernel is right for these rows? Often the rows cannot say. A mixture averages the
probabilities of several models, with weights from their leave-one-out predictions, so that nothing
has to be chosen. We repeat it on seven random halves of the same patients.
"""

# %%
# Five models and their mixture
# -----------------------------
# ``StackedOrdinalGP()`` without arguments has a set of models of its own. Here we name five simple
# ones, to see each of them beside the mixture.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from ordinalgp import OrdinalGPClassifier, SequentialOrdinalGP, StackedOrdinalGP
from ordinalgp.datasets import load_demo
from ordinalgp.kernels import Additive, ARDLinear, Exponential
from ordinalgp.metrics import log_score

demo = load_demo()
Z = StandardScaler().fit_transform(demo.X)
models = {
    "smooth": OrdinalGPClassifier(RBF(3.0)),
    "rough": OrdinalGPClassifier(Exponential(3.0)),
    "additive": OrdinalGPClassifier(Additive(1.0)),
    "linear": OrdinalGPClassifier(ARDLinear(np.ones(10))),
    "sequential": SequentialOrdinalGP(RBF(3.0)),
}
scores, weights = [], []
for seed in range(7):
    X, X_new, y, y_new = train_test_split(
        Z, demo.y, test_size=0.5, stratify=demo.y, random_state=seed
    )
    mixture = StackedOrdinalGP(models, categories=demo.categories).fit(X, y)
    every = [*mixture.models_.values(), mixture]
    scores.append(
        [
            log_score(y_new, m.category_proba(X_new), categories=demo.categories)
            for m in every
        ]
    )
    weights.append(list(mixture.weights_.values()))
scores, weights, names = (
    np.array(scores),
    np.array(weights),
    [*mixture.models_, "mixture"],
)

# %%
# As good as the best, without knowing which
# ------------------------------------------
# Scores differ more between halves than between models, so the left picture shows how far each
# model is from the mixture of the same half; each grey line is one half. The mixture is level with
# the best two models, and ahead of the three others. The right picture shows the weights: with 221
# rows, they stay near equal.
plt.style.use("tableau-colorblind10")
behind = scores - scores[:, -1:]
figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4), layout="constrained", width_ratios=[1.3, 1]
)
left.axhline(0, color="C3", lw=1)
left.plot(behind.T, color="C2", lw=0.8)
left.plot(behind.mean(axis=0), "D", color="C1", ms=8, label="mean")
left.set_xticks(range(len(names)), names, rotation=30)
left.set_ylabel("log score minus that of the mixture")
left.legend(loc="upper left")
places = np.arange(len(names) - 1)
right.barh(places, weights.mean(axis=0), color="C0", alpha=0.5)
right.plot(weights.T, np.repeat(places[:, None], 7, axis=1), "o", color="C0", ms=4)
right.set_yticks(places, names[:-1])
right.set(xlabel="weight (dots: seven halves)", xlim=0)
plt.show()

# %%
# In numbers (lower is better), with the standard error over the halves:
for name, column in zip(names, behind.T, strict=True):
    error = column.std(ddof=1) / np.sqrt(len(column))
    print(f"{name:11} {column.mean():+.3f} ± {error:.3f} behind the mixture")
