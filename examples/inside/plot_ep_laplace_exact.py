"""
EP, Laplace, and the exact answer
=================================

The posterior of a Gaussian process with ordered levels has no closed form. Expectation propagation
(EP), the default, and Laplace's approximation replace it by a normal distribution. For a handful of
rows the exact answer can be computed: the probability of all labels is that of a box under a
multivariate normal distribution, which scipy can integrate.
"""

# %%
# The exact evidence
# ------------------
# A label says that the latent value plus noise lies between two thresholds. With latent covariance
# K and noise variance s², the evidence is the probability of a box under N(0, K + s² I).
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF

from ordinalgp import OrdinalGPClassifier
from ordinalgp.core.likelihoods import OrdinalProbit

x = np.array([-2.0, -1.5, -0.6, -0.1, 0.5, 0.9, 1.6, 2.1])[:, None]
y = np.array([0, 0, 1, 0, 1, 2, 2, 1])
thresholds = np.array([-0.5, 0.6])
kernel = RBF(1.0, "fixed")


def box(K, levels, noise):
    ends = np.concatenate([[-np.inf], thresholds, [np.inf]])
    low, high = ends[levels], ends[np.asarray(levels) + 1]
    normal = multivariate_normal(
        np.zeros(len(K)), K + noise**2 * np.eye(len(K)), seed=0
    )
    return normal.cdf(high, lower_limit=low)


def approximate(inference, noise):
    likelihood = OrdinalProbit.from_thresholds(thresholds, noise)
    return OrdinalGPClassifier(
        kernel, likelihood=likelihood, inference=inference, optimizer=None
    ).fit(x, y)


noises = np.geomspace(0.15, 3, 14)
exact = np.log([box(kernel(x), y, noise) for noise in noises])
evidence = {
    name: np.array(
        [approximate(name, noise).log_marginal_likelihood_value_ for noise in noises]
    )
    for name in ("ep", "laplace")
}
for name, values in evidence.items():
    print(
        f"{name:8} largest error of the log evidence: {np.abs(values - exact).max():.3f}"
    )

# %%
# The exact predictions
# ---------------------
# The probability of a level at a new place is a ratio of two boxes: that of the old labels with the
# new one, and that of the old labels alone.
grid = np.linspace(-3.5, 3.5, 24)[:, None]
noise = 0.3


def exact_probabilities(place):
    K = kernel(np.vstack([x, place]))
    joint = np.array([box(K, np.append(y, level), noise) for level in range(3)])
    return joint / joint.sum()


truth = np.array([exact_probabilities(place[None]) for place in grid])
models = {name: approximate(name, noise) for name in ("ep", "laplace")}
found = {name: model.category_proba(grid) for name, model in models.items()}
for name, p in found.items():
    print(f"{name:8} largest error of a probability: {np.abs(p - truth).max():.4f}")

# %%
# Which one to trust
# ------------------
# Left: EP's evidence lies on the exact curve, while Laplace's is off, and most where the noise is
# small. The evidence decides about the hyperparameters, so its errors matter. Right: predicted
# probabilities against the exact ones, with the same hyperparameters.
plt.style.use("tableau-colorblind10")
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.4), layout="constrained")
left.plot(
    noises, exact, color="C3", lw=5, alpha=0.35, label="exact (box under a normal)"
)
left.plot(noises, evidence["ep"], "o", color="C0", label="EP")
left.plot(noises, evidence["laplace"], "^", color="C1", label="Laplace")
left.set(xscale="log", xlabel="noise", ylabel="log evidence of eight labels")
ticks = [0.2, 0.5, 1, 2]
left.set_xticks(ticks, [str(tick) for tick in ticks])
left.set_xticks([], minor=True)
left.legend(loc="lower center")
right.plot([0, 1], [0, 1], color="C3", lw=1, ls="--")
right.plot(truth.ravel(), found["laplace"].ravel(), "^", color="C1", label="Laplace")
right.plot(truth.ravel(), found["ep"].ravel(), "o", color="C0", ms=5, label="EP")
right.set(xlabel="exact probability", ylabel="approximate probability", aspect="equal")
right.set_title(f"24 places, three levels, noise {noise}")
right.legend()
plt.show()
