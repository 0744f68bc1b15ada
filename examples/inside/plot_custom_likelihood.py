"""
A likelihood of your own
========================

How long until a customer answers: within a day, a week, a month, or later? Waiting times with
proportional hazards have noise that is not symmetric, and neither normal nor logistic noise fits.
This example writes the matching likelihood, and lets the evidence judge it.
"""

# %%
# The likelihood
# --------------
# A threshold model says P(y <= j | u) = F((b_j - u) / noise). For proportional hazards
# F(t) = 1 - exp(-exp(t)), the complementary log-log link. A class that inherits from ``Thresholds``
# needs two methods. The first is the logarithm of the expected probability for u ~ N(mean, var),
# with three derivatives in the mean; here by Gauss-Hermite quadrature. The second has its
# derivatives in the parameters; here by central differences.
import matplotlib.pyplot as plt
import numpy as np

from ordinalgp import OrdinalGPClassifier
from ordinalgp.core.likelihoods import Smoothed, ThetaDerivatives, Thresholds
from ordinalgp.metrics import log_score

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def distribution(t):
    """F(t) and its first three derivatives."""
    t = np.clip(t, -40, 4)  # beyond, F is 0 or 1 to all digits
    hazard = np.exp(t)
    density = np.exp(t - hazard)
    second = density * (1 - hazard)
    return np.array(
        [-np.expm1(-hazard), density, second, second * (1 - hazard) - density * hazard]
    )


class ProportionalHazards(Thresholds):
    """P(y <= j | u) = 1 - exp(-exp((b_j - u) / noise))."""

    noise_sd = np.pi / np.sqrt(6)  # of a Gumbel variable

    def log_expectation(self, y, mean, var):
        u = mean + np.sqrt(var) * NODES[:, None]
        b = np.concatenate([[-np.inf], self.thresholds, [np.inf]])
        p = distribution((b[y + 1] - u) / self.noise) - distribution(
            (b[y] - u) / self.noise
        )
        p0, p1, p2, p3 = np.einsum("k,dkm->dm", WEIGHTS, p)
        p0 = np.maximum(p0, 1e-300)
        r1, r2, r3 = (
            sign * each / p0
            for sign, each in zip((-1, 1, -1), (p1, p2, p3), strict=True)
        )
        r1, r2, r3 = r1 / self.noise, r2 / self.noise**2, r3 / self.noise**3
        d2 = np.clip(r2 - r1**2, -0.999 / np.maximum(var, 1e-12), 0.0)  # log-concave
        return Smoothed(np.log(p0), r1, d2, r3 - 3 * r1 * r2 + 2 * r1**3)

    def theta_derivatives(self, y, mean, var, known=None):
        slopes = []
        for step in 1e-5 * np.eye(len(self.theta)):
            up, down = (
                self.clone_with_theta(self.theta + sign * step).log_expectation(
                    y, mean, var
                )
                for sign in (1, -1)
            )
            slopes.append(
                [
                    (getattr(up, d) - getattr(down, d)) / 2e-5
                    for d in ("value", "d1", "d2")
                ]
            )
        return ThetaDerivatives(*np.array(slopes).transpose(1, 0, 2))


# %%
# Waiting times
# -------------
# The logarithm of the waiting time is a function of the age of the account plus Gumbel noise.
answers = ["a day", "a week", "a month", "later"]
cuts = np.log([1, 7, 30])


def wait(n, rng):
    age = rng.uniform(0, 6, n)
    log_days = 1.6 + 1.3 * np.sin(age) - 0.1 * age
    noise = np.log(rng.exponential(size=n))
    return age[:, None], np.digitize(log_days + noise, cuts)


rng = np.random.default_rng(0)
age, y = wait(300, rng)
age_new, y_new = wait(5000, rng)
start = ProportionalHazards.from_thresholds([-1.0, 0.0, 1.0], noise=0.5)
models = {
    "normal": OrdinalGPClassifier(likelihood="probit"),
    "logistic": OrdinalGPClassifier(likelihood="logit"),
    "hazards": OrdinalGPClassifier(likelihood=start),
}
for name, model in models.items():
    model.fit(age, y)
    score = log_score(y_new, model.category_proba(age_new), categories=range(4))
    evidence = model.log_marginal_likelihood_value_
    print(
        f"{name:9} log evidence {evidence:.1f} (higher is better), log score {score:.4f} (lower)"
    )

# %%
# What it changes
# ---------------
# Left: the probabilities of the new model over the age of the account, with the truth as black
# lines. Right: how far each likelihood is from the true probabilities, on average over the levels.
grid = np.linspace(0, 6, 200)
place = (cuts[None] - (1.6 + 1.3 * np.sin(grid) - 0.1 * grid)[:, None]).T
reached = distribution(place)[0].T
truth = np.diff(np.column_stack([np.zeros(200), reached, np.ones(200)]), axis=1)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
colors = plt.get_cmap("viridis")(np.linspace(0.05, 0.95, 4))
left.stackplot(
    grid,
    models["hazards"].category_proba(grid[:, None]).T,
    colors=colors,
    alpha=0.55,
    labels=answers,
)
left.plot(grid, reached, color="black", lw=1.5)
left.set(
    xlabel="age of the account (years)", ylabel="probability", ylim=(0, 1), xlim=(0, 6)
)
left.legend(
    loc="center left", bbox_to_anchor=(1, 0.5), title="answer\nwithin", reverse=True
)
plt.style.use("tableau-colorblind10")
for (name, model), color, dash in zip(
    models.items(), ("C1", "C3", "C0"), ("--", ":", "-"), strict=True
):
    error = np.abs(model.category_proba(grid[:, None]) - truth).mean(axis=1)
    right.plot(
        grid,
        error,
        color=color,
        ls=dash,
        lw=2,
        label=f"{name} (mean {error.mean():.3f})",
    )
right.set(
    xlabel="age of the account (years)", ylabel="mean absolute error of probabilities"
)
right.set_ylim(0, 0.085)
right.legend(loc="upper right")
plt.show()
