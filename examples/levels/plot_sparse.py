"""
A small model: relevance vectors
================================

The sparse Bayesian model keeps only a few training rows, its relevance vectors, and forgets the
rest. The evidence decides how many. A prediction then costs a few kernel values, and the whole
model can be drawn in one picture.
"""

# %%
# Fit
# ---
# Two thousand rows in five levels, which are cut from a product of the two inputs.
import matplotlib.pyplot as plt
import numpy as np

from ordinalgp import OrdinalGPClassifier, SparseBayesOrdinalClassifier
from ordinalgp.datasets import make_product_ranks
from ordinalgp.metrics import zero_one_error
from ordinalgp.plots import EvidenceDisplay, RelevanceVectorsDisplay

X, y = make_product_ranks(2600, random_state=0)
X_new, y_new, X, y = X[2000:], y[2000:], X[:2000], y[:2000]
model = SparseBayesOrdinalClassifier(random_state=0).fit(X / 5, y)
print(f"{len(model.relevance_)} of {len(X)} rows are kept")
print(f"error rate on new rows: {zero_one_error(y_new, model.predict(X_new / 5)):.3f}")

# %%
# What is kept
# ------------
# Rings are the relevance vectors, on the levels that the model predicts, with 200 of the rows.
# Unlike support vectors they do not lie on the borders: four wide functions, two with a positive
# and two with a negative weight, add up to the whole surface. The right picture follows the
# evidence while rows are added, changed and removed.
figure, (left, right) = plt.subplots(
    1, 2, figsize=(10.5, 4.4), layout="constrained", width_ratios=[1.2, 1]
)
names = ["first input / 5", "second input / 5"]
RelevanceVectorsDisplay.from_estimator(
    model, X[:200] / 5, y[:200], feature_names=names, ax=left
)
left.set_title("Relevance vectors and predicted levels")
EvidenceDisplay.from_estimator(model, ax=right)
right.set_title("The search")
plt.show()

# %%
# Beside the full model
# ---------------------
# A Gaussian process needs all of its training rows to predict; here 400 of them.
full = OrdinalGPClassifier().fit(X[:400] / 5, y[:400])
small = SparseBayesOrdinalClassifier(random_state=0).fit(X[:400] / 5, y[:400])
for name, each in {"Gaussian process": full, "sparse": small}.items():
    kept = len(getattr(each, "relevance_", np.arange(400)))
    error = zero_one_error(y_new, each.predict(X_new / 5))
    print(f"{name:17} of 400 rows: keeps {kept}, error rate {error:.3f}")
