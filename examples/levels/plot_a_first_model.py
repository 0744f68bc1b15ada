"""
A first model: grades of wine
=============================

How strong is a wine, judged by everything but its alcohol? The wine data of scikit-learn have 178
Italian wines with 13 measurements. They have no quality scores, so we grade the wines by alcohol
into four levels, and predict the level from the other twelve measurements.
"""

# %%
# The levels
# ----------
# The cuts are round numbers. The levels have an order, but the model does not know how far they are
# apart.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ordinalgp import OrdinalGPClassifier
from ordinalgp.metrics import mean_absolute_error
from ordinalgp.plots import ConfusionDisplay, ContourDisplay

wine = load_wine(as_frame=False)
grades = ["light", "medium", "full", "strong"]
y = np.array(grades)[np.digitize(wine.data[:, 0], [12.25, 13.0, 13.75])]
X, names = wine.data[:, 1:], wine.feature_names[1:]
for grade in grades:
    print(f"{grade:7} {np.sum(y == grade)} wines")

# %%
# A first model
# -------------
# Standardise the inputs; the model learns its kernel, its noise and the thresholds between the
# levels. ``categories`` gives the order of the levels, lowest first.
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
model = make_pipeline(StandardScaler(), OrdinalGPClassifier(categories=grades))
model.fit(X_train, y_train)
predicted = model.predict(X_test)
print(f"right level: {np.mean(predicted == y_test):.0%} of {len(y_test)} new wines")
print(
    f"mean distance: {mean_absolute_error(y_test, predicted, categories=grades):.2f} levels"
)

# %%
# Two measurements, and all twelve
# --------------------------------
# The left picture uses two measurements only, so that the whole model can be seen: thin lines are
# heights of the latent mean, and thick lines the thresholds between levels. The right picture
# counts the predictions of the model with all twelve measurements for the wines that it has not
# seen. Nearly all mistakes are off by one level.
two = [names.index("color_intensity"), names.index("proline")]
small = make_pipeline(StandardScaler(), OrdinalGPClassifier(categories=grades)).fit(
    X[:, two], y
)
figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4.4), layout="constrained", width_ratios=[1.25, 1]
)
ContourDisplay.from_estimator(
    small, X[:, two], y, feature_names=["colour intensity", "proline"], ax=left
)
left.set_title("Two measurements, all wines")
ConfusionDisplay.from_predictions(y_test, predicted, grades, ax=right)
right.set_title("Twelve measurements, new wines")
plt.show()
