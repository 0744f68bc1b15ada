"""
Which model for my table?
=========================

Is a Gaussian process worth it, or would logistic regression do? ``compare`` sets our models beside
what people use instead, on your own rows, by cross-validation. It says how far each model is behind
the best, and whether chance can explain it.
"""

# %%
# A table
# -------
# A table is a data frame or, as here, a dict of columns. We take five columns of 200 diabetes
# patients, and make one of them nominal, with some gaps, as tables have them.
import matplotlib.pyplot as plt
import numpy as np

from ordinalgp.datasets import load_demo
from ordinalgp.plots import ModelComparisonDisplay
from ordinalgp.tables import compare

demo = load_demo()
rng = np.random.default_rng(0)
names = ["body mass index", "blood pressure", "log triglycerides", "HDL", "sex"]
table = {name: demo.X[:200, demo.feature_names.index(name)] for name in names}
table["sex"] = np.where(table["sex"] == 1, "a", "b")
table["HDL"] = np.where(rng.random(200) < 0.1, np.nan, table["HDL"])

# %%
# Compare
# -------
# Each model learns the encoding of the columns, and chooses its settings, from the training rows of
# a fold alone. The name "auto" stands for the mixture of models that ``ordinalgp fit`` fits.
result = compare(
    table,
    demo.y[:200],
    categories=demo.categories,
    models=["auto", "gp", "sequential", "logistic", "frequencies"],
    cv=3,
)
for row in result.table():
    print(
        f"{row['name']:20} log score {row['log_score']:.3f}, {row['fit_seconds']:.2f} s per fit"
    )
print(result.recommendation)

# %%
# Differences, with their errors
# ------------------------------
# Bars are standard errors of the difference from the best model. They are small compared with the
# spread of the scores over rows, because all models predict the same rows.
ModelComparisonDisplay.from_comparison(result)
plt.show()
