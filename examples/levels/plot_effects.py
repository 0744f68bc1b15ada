"""
What each column does
=====================

With an additive kernel the latent function is a sum of one function per column. Each of these
functions has a posterior of its own: it can be drawn, with a band, on the same scale as the
thresholds between the levels.
"""

# %%
# Functions that we know
# ----------------------
# The generated rows have four columns: a wave, a line, a valley, and a column without effect. The
# truth is dotted in the picture.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ordinalgp import OrdinalGPClassifier
from ordinalgp.datasets import load_demo, make_additive_ranks
from ordinalgp.kernels import Additive
from ordinalgp.plots import EffectDisplay

X, y, truth = make_additive_ranks(300, random_state=0)
model = OrdinalGPClassifier(Additive()).fit(X, y)
names = ["wave", "line", "valley", "nothing"]
display = EffectDisplay.from_estimator(model, X, feature_names=names, n_cols=2)
unit = (
    model.noise_ / 0.5
)  # the model's scale has a unit of its own; the generator's noise is 0.5
for ax, panel in zip(display.axes_, display.panels, strict=True):
    at = names.index(panel.axis.name)
    order = np.argsort(X[:, at])
    (line,) = ax.plot(
        X[order, at], unit * truth[order, at], color="tab:red", ls=":", lw=2.5
    )
display.axes_[0].legend([line], ["truth"], loc="upper left")
plt.show()

# %%
# Columns of real patients
# ------------------------
# The same for stages of diabetes progression. Zero is the average patient, and dashed lines are
# thresholds: a patient who is average in all other columns has the level of the strip in which the
# curve lies. Bands have 90 % coverage at each point.
demo = load_demo()
patients = make_pipeline(
    StandardScaler(), OrdinalGPClassifier(Additive(), categories=demo.categories)
).fit(demo.X, demo.y)
EffectDisplay.from_estimator(
    patients,
    demo.X,
    feature_names=demo.feature_names,
    max_features=6,
    max_rows=len(demo.X),
)
plt.show()

# %%
# Body mass index and blood pressure raise the stage over their whole range; triglycerides rise
# and then level off. An effect in this
# picture is a statement about predictions, not about causes: columns that go together share it.
