"""
Pipelines, searches and scorers
===============================

All models are scikit-learn estimators. They work in pipelines, in ``GridSearchCV`` and in
``cross_validate``. What scikit-learn lacks are scores that know the order of the levels, and
``ordinalgp.metrics`` has them.
"""

# %%
# A search over pipelines
# -----------------------
# We search over the kernel and over the number of principal components of the breast cancer data.
# Its outcome is binary, so we grade the size of the tumour instead: the mean radius of the cell
# nuclei in four levels of equally many rows, predicted from the texture and shape columns.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from ordinalgp import OrdinalGPClassifier
from ordinalgp.kernels import Additive
from ordinalgp.metrics import make_ordinal_scorer

cells = load_breast_cancer()
words = ("texture", "smoothness", "symmetry", "fractal", "compactness", "concavity")
chosen = [
    i for i, name in enumerate(cells.feature_names) if any(w in name for w in words)
]
rows = np.random.default_rng(0).choice(len(cells.data), 240, replace=False)
X, radius = cells.data[rows][:, chosen], cells.data[rows, 0]
y = np.digitize(radius, np.quantile(radius, [0.25, 0.5, 0.75]))
print(X.shape, "levels", np.bincount(y))

# %%
# ``make_ordinal_scorer`` turns a score into a ``scoring`` of scikit-learn. The scorer takes the
# order of the levels from the model. In scikit-learn a higher score is better, so errors are
# negated.
pipeline = Pipeline([
    ("scale", StandardScaler()),
    ("reduce", PCA(whiten=True)),
    ("gp", OrdinalGPClassifier(inference="laplace")),
])  # fmt: skip
kernels = {
    "RBF": RBF(2.0),
    "Matern 3/2": Matern(2.0, nu=1.5),
    "Additive": Additive(2.0),
}
search = GridSearchCV(
    pipeline,
    {"gp__kernel": list(kernels.values()), "reduce__n_components": [2, 4, 8]},
    scoring={
        "ranked": make_ordinal_scorer("ranked_probability_score"),
        "absolute": make_ordinal_scorer("mean_absolute_error"),
    },
    refit="ranked",
    cv=StratifiedKFold(3, shuffle=True, random_state=0),
)
search.fit(X, y)
print("best:", search.best_params_)

# %%
# All nine pipelines
# ------------------
# Two scores of the same folds; lower is better. Each mark is one fold. The number of
# components matters more than the kernel.
plt.style.use("tableau-colorblind10")
results = search.cv_results_
labels = {
    "ranked": "ranked probability score",
    "absolute": "mean absolute error (levels)",
}
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharex=True)
for ax, (score, label) in zip(axes, labels.items(), strict=True):
    for place, (name, kernel) in enumerate(kernels.items()):
        of = [
            k
            for k, each in enumerate(results["params"])
            if each["gp__kernel"] is kernel
        ]
        sizes = [results["params"][k]["reduce__n_components"] for k in of]
        x = np.log2(sizes) + 0.08 * (place - 1)
        folds = np.array([-results[f"split{i}_test_{score}"][of] for i in range(3)])
        color, marker = ("C0", "C1", "C3")[place], "os^"[place]
        ax.plot(x, folds.mean(axis=0), color=color, label=name)
        ax.plot(np.tile(x, 3), folds.ravel(), marker, color=color, ms=5, alpha=0.8)
    ax.set(xlabel="principal components", ylabel=label)
    ax.set_xticks(np.log2([2, 4, 8]), ["2", "4", "8"])
axes[0].legend()
plt.show()
