"""
Which columns matter, and why this row?
=======================================

Two questions about a fitted model of a table. Which columns do its predictions need? And which
columns made it predict this level for this row?
"""

# %%
# Importance
# ----------
# With ``folds``, a table model is scored on rows that it has not seen. The importance of a column
# is what these scores lose when its cells are shuffled.
import matplotlib.pyplot as plt

from ordinalgp.datasets import load_demo
from ordinalgp.plots import ExplanationDisplay, ImportanceDisplay
from ordinalgp.tables import TableModel, explain

demo = load_demo()
table = dict(zip(demo.feature_names, demo.X.T, strict=True))
model = TableModel(kernel="rbf", categories=demo.categories, folds=5).fit(table, demo.y)
gain, error = model.held_out_.gain
print(f"log score {gain:.2f} ± {error:.2f} below that of the level frequencies")

# %%
# Triglycerides, body mass index and blood pressure matter. Columns whose bar includes zero may have
# no influence; or another column says the same, and stands in for them when they are shuffled.
ImportanceDisplay.from_estimator(model)
plt.show()

# %%
# One patient
# -----------
# ``explain`` splits the distance between the average prediction and that of one row into
# contributions of the columns (Shapley values). They say what moves the model, not what would
# happen if somebody changed the column in the world.
chosen = 32
patient = {name: cells[[chosen]] for name, cells in table.items()}
found = explain(model, patient)
row = found.rows[0]
print(f"predicted {row.level}, true {demo.y[chosen]}")
ExplanationDisplay.from_explanations(found, max_columns=8)
plt.show()

# %%
# The nearest value of a single column at which another level would be predicted:
for each in row.columns[:4]:
    for side, change in {"lower": each.lower, "higher": each.higher}.items():
        if change is not None:
            print(f"{each.column} {each.value:.4g}: {side} level at {change.value:.4g}")
