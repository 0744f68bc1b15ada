"""
Effects that only rise or only fall
===================================

Often the direction of an effect is known before the data are seen: more of a dose does not do less.
With few rows, telling the model helps, and the picture becomes one that experts believe. The data
can also object, and the model says so.
"""

# %%
# Forty patients
# --------------
# The true effect of the dose rises and then stays level. Age lowers the outcome.
import matplotlib.pyplot as plt
import numpy as np

from ordinalgp import OrdinalGPClassifier
from ordinalgp.kernels import Additive
from ordinalgp.metrics import log_score


def patients(n, rng):
    X = np.column_stack([rng.uniform(0, 10, n), rng.uniform(-2, 2, n)])
    effect = 3 * np.tanh(X[:, 0] / 4) - 0.6 * X[:, 1]
    return X, np.digitize(effect + rng.normal(size=n), [1.0, 2.0, 3.0])


rng = np.random.default_rng(5)
X, y = patients(40, rng)
scale = np.array([3.0, 1.0])  # so that both columns vary by about one
models = {
    "free": OrdinalGPClassifier(Additive()),
    "dose rises, age falls": OrdinalGPClassifier(Additive(), monotone=[1, -1]),
    "dose falls (wrong)": OrdinalGPClassifier(Additive(), monotone=[-1, 0]),
}
for model in models.values():
    model.fit(X / scale, y)

# %%
# The same rows under three assumptions
# -------------------------------------
# The free function falls again for high doses, where the rows happen to say so. The second model
# keeps what is known, and has a narrower band there. The third obeys a wrong assumption: no
# falling function of the dose explains anything, and everything is noise to it. Effects are drawn
# in units of each model's noise, which makes the three comparable.
plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained", sharey=True)
styles = {
    "free": ("C0", "--"),
    "dose rises, age falls": ("C1", "-"),
    "dose falls (wrong)": ("C3", ":"),
}
for at, (ax, name) in enumerate(zip(axes, ["dose", "age"], strict=True)):
    grid = np.repeat(X.mean(axis=0)[None], 100, axis=0)
    grid[:, at] = np.linspace(X[:, at].min(), X[:, at].max(), 100)
    for label, (color, dash) in styles.items():
        model = models[label]
        found = model.effects(grid / scale)
        mean, sd = found.mean[:, at] / model.noise_, found.std[:, at] / model.noise_
        band = {"color": color, "alpha": 0.18, "lw": 0}
        ax.fill_between(grid[:, at], mean - 1.64 * sd, mean + 1.64 * sd, **band)
        ax.plot(grid[:, at], mean, color=color, ls=dash, lw=2.2, label=label)
    ax.plot(X[:, at], np.full(len(X), -4.3), "|", color="black")
    ax.set_xlabel(name)
axes[0].set_ylabel("effect, in units of noise (90 % band)")
axes[1].legend(loc="upper right")
plt.show()

# %%
# Do the data object?
# -------------------
# ``monotone_evidence_`` is the log Bayes factor of each constraint against a free function. Above
# zero the data speak for it; far below zero they object. The log score on 2,000 new patients (lower
# is better) says what the assumptions are worth here.
X_new, y_new = patients(2000, rng)
for name, model in models.items():
    score = log_score(y_new, model.category_proba(X_new / scale), categories=range(4))
    factors = getattr(model, "monotone_evidence_", None)
    said = "" if factors is None else f"   log Bayes factors {np.round(factors, 1)}"
    print(f"{name:22} log score {score:.3f}{said}")
