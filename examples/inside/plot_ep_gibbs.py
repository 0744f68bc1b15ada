"""
EP and Laplace against a long Gibbs sampler
===========================================

With hundreds of rows no integral gives the exact answer, but a Markov chain does, up to its own
random error. Here is one for 200 patients of the demo data. How far are EP and Laplace from it?
"""

# %%
# A model with fixed hyperparameters
# ----------------------------------
# The hyperparameters are those that EP finds. Both approximations and the chain then have the same
# posterior to describe.
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.preprocessing import StandardScaler

from ordinalgp import OrdinalGPClassifier
from ordinalgp.datasets import load_demo

demo = load_demo()
rows = np.random.default_rng(0).permutation(len(demo.y))
train, new = rows[:200], rows[200:]
scaler = StandardScaler().fit(demo.X[train])
X, X_new = scaler.transform(demo.X[train]), scaler.transform(demo.X[new])
y = np.array([list(demo.categories).index(level) for level in demo.y[train]])

models = {"EP": OrdinalGPClassifier(categories=range(4)).fit(X, y)}
found = models["EP"]
models["Laplace"] = OrdinalGPClassifier(
    found.kernel_,
    likelihood=found.likelihood_,
    inference="laplace",
    optimizer=None,
    categories=range(4),
).fit(X, y)

# %%
# The chain
# ---------
# Albert and Chib's sampler alternates between two simple draws: the noisy values z, each normal and
# cut to the interval of its level, and the latent function f given z, jointly normal. The mean of f
# at new rows is linear in z.
K, K_new = found.kernel_(X), found.kernel_(X_new, X)
noise, thresholds = found.noise_, found.thresholds_
low = np.concatenate([[-np.inf], thresholds])[y]
high = np.concatenate([thresholds, [np.inf]])[y]
gain = np.linalg.solve(K + noise**2 * np.eye(len(y)), np.column_stack([K, K_new.T])).T
to_f, to_new = gain[: len(y)], gain[len(y) :]
covariance = K - to_f @ K
root = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(y)))
rest = np.sqrt(
    1.0 - np.einsum("ij,ij->i", to_new, K_new) + noise**2
)  # of a new outcome


def chain(seed, draws=20_000, burn_in=500):
    """Mean and second moment of f, and mean probabilities of new rows, over a chain."""
    rng = np.random.default_rng(seed)
    f = np.zeros(len(y))
    total, square, probabilities = np.zeros(len(y)), np.zeros(len(y)), 0.0
    for draw in range(draws + burn_in):
        ends = ndtr((low - f) / noise), ndtr((high - f) / noise)
        z = f + noise * ndtri(rng.uniform(*ends))
        mean = to_f @ z
        f = mean + root @ rng.standard_normal(len(y))
        if draw >= burn_in:
            total, square = total + mean, square + mean**2
            below = ndtr((thresholds - (to_new @ z)[:, None]) / rest[:, None])
            probabilities = probabilities + np.diff(below, axis=1, prepend=0, append=1)
    mean = total / draws
    variance = square / draws - mean**2 + np.diagonal(covariance)
    return mean, np.sqrt(variance), probabilities / draws


chains = [chain(seed) for seed in range(2)]
mean, sd, probabilities = (sum(parts) / 2 for parts in zip(*chains, strict=True))
own = [np.abs(a - b).max() / 2 for a, b in zip(*chains, strict=True)]
print(f"random error of the chains: mean {own[0]:.4f}, sd {own[1]:.4f}, p {own[2]:.4f}")

# %%
# The comparison
# --------------
# EP is as close to the chains as these are to each other. Laplace puts its normal at the mode, which
# lies off the mean where a level is at an end.
for name, model in models.items():
    m, v = model.latent_mean_and_variance(X)
    errors = m - mean, np.sqrt(v) - sd, model.category_proba(X_new) - probabilities
    largest = [np.abs(error).max() for error in errors]
    print(
        f"{name:8} largest error: mean {largest[0]:.4f}, sd {largest[1]:.4f}, "
        f"probability of a new row {largest[2]:.4f}"
    )

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(1, 3, figsize=(11, 3.9), layout="constrained")
for (name, model), marker in zip(models.items(), "o^", strict=True):
    m, v = model.latent_mean_and_variance(X)
    axes[0].plot(mean, m - mean, marker, ms=4, label=name)
    axes[1].plot(sd, np.sqrt(v) - sd, marker, ms=4)
    p = model.category_proba(X_new)
    axes[2].plot(probabilities.ravel(), (p - probabilities).ravel(), marker, ms=3)
axes[0].set(xlabel="mean of f by the chains", ylabel="approximation minus chains")
axes[1].set(xlabel="standard deviation of f by the chains")
axes[2].set(xlabel="probability of a level for a new row")
for ax, title in zip(
    axes, ["means", "standard deviations", "probabilities"], strict=True
):
    ax.axhline(0, color="black", lw=0.8)
    ax.set_title(title)
figure.legend(loc="outside lower center", ncols=2)
plt.show()
