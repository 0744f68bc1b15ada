"""
A first model
=============

Fit a model to patients with four ordered stages of a disease, and look at its probabilities.

The data are part of the package: 442 patients with ten measurements each. The stages run from
*mild* to *severe*.
"""

# %%
# Fit
# ---
# ``categories`` gives the order of the levels, lowest first.

from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ordinalgp import OrdinalGPClassifier
from ordinalgp.datasets import load_demo
from ordinalgp.plots import CalibrationDisplay, LatentDisplay

demo = load_demo()
X, X_new, y, y_new = train_test_split(demo.X, demo.y, stratify=demo.y, random_state=0)
model = make_pipeline(StandardScaler(), OrdinalGPClassifier(categories=demo.categories))
model.fit(X, y)
print(model.predict(X_new[:5]))

# %%
# The latent scale
# ----------------
# Each new patient has a place on one scale. The dashed thresholds cut it into the four stages.

LatentDisplay.from_estimator(model, X_new, y_new)

# %%
# Can the probabilities be trusted?
# ---------------------------------
# Where the points lie near the diagonal, an event that gets a probability of 30 % happens in
# about 30 % of the cases.

CalibrationDisplay.from_estimator(model, X_new, y_new)
