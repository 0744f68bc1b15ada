"""
Save, load, and watch
=====================

A model that is used for months meets rows that differ from those of its training. This example
saves a model, loads it as a service would, and watches two signals week by week: how well the
model predicts, and how unsure it is. The second needs no labels.
"""

# %%
# Save and load
# -------------
# The file is a zip of JSON and arrays. It has no pickle in it, and loading it executes nothing. The
# encoding of the columns is part of the file.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ordinalgp
from ordinalgp import OrdinalGPClassifier
from ordinalgp.metrics import log_score
from ordinalgp.tables import TableModel

levels = ["low", "medium", "high"]


def week(n, shift, rng):
    """Orders of a shop: satisfaction depends on the price, the delay and the region."""
    price, delay = rng.gamma(4, 10, n), rng.gamma(2, 1, n) + shift
    region = rng.choice(["north", "south"], n)
    refund = 3 / (
        1 + np.exp(-2 * (delay - 7))
    )  # after a week, which hardly occurs in training
    pleased = 3 - 0.02 * price - 0.3 * delay + 0.5 * (region == "south") + refund
    y = np.array(levels)[np.digitize(pleased + 0.4 * rng.normal(size=n), [1.0, 1.8])]
    return {"price": price, "delay": delay, "region": region}, y


rng = np.random.default_rng(0)
table, y = week(300, 0.0, rng)
model = TableModel(OrdinalGPClassifier(categories=levels)).fit(table, y)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "satisfaction.ogp"
    model.save(path)
    print(f"{path.name}: {path.stat().st_size / 1024:.0f} kB, 300 training rows")
    service = ordinalgp.load(path)
new, _ = week(5, 0.0, rng)
print("same predictions:", np.array_equal(service.predict(new), model.predict(new)))

# %%
# Watch
# -----
# From week 13 on, deliveries take longer every week: rows leave the region that the model knows.
weeks = np.arange(1, 21)
scores, doubts = [], []
for number in weeks:
    rows, truth = week(150, 0.5 * max(0, number - 12), rng)
    scores.append(log_score(truth, service.category_proba(rows), categories=levels))
    _, variance = service.latent_mean_and_variance(rows)
    doubts.append(np.mean(np.sqrt(variance)))

# %%
# Two signals
# -----------
# The log score needs the true levels, which often come late. The latent standard deviation, the
# model's own uncertainty about its function, is known at once. Both leave the grey band, the range
# of the first twelve weeks, in week 15.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(2, 1, figsize=(9, 6), layout="constrained", sharex=True)
signals = [
    (scores, "log score (lower is better)", "C1"),
    (doubts, "mean latent sd", "C0"),
]
for ax, (values, label, color) in zip(axes, signals, strict=True):
    ax.axhspan(min(values[:12]), max(values[:12]), color="C2", alpha=0.35, lw=0)
    ax.axvline(12.5, color="C3", ls="--", lw=1)
    ax.plot(weeks, values, "o-", color=color)
    ax.set_ylabel(label)
axes[0].set_title("Predictions get worse", loc="right")
axes[1].set_title("The model knows that it does not know", loc="right")
axes[1].set_xticks(range(0, 21, 4))
axes[1].set_xlabel("week (dashed: deliveries begin to slow down)")
plt.show()
