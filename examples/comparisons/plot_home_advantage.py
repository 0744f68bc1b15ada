"""
Home advantage
==============

Teams play better at home, and answers shown first are chosen more often. ``position_bias`` learns
this advantage together with the strengths. Ignoring it is unfair to those who had to travel.
"""

# %%
# A league with an unfair schedule
# --------------------------------
# Ten teams with known strengths. The first five play most of their games at home.
import matplotlib.pyplot as plt
import numpy as np

from ordinalgp import PreferenceGP

teams = [f"team {letter}" for letter in "ABCDEFGHIJ"]
rng = np.random.default_rng(3)
strength = np.linspace(0.6, -0.6, 10)[rng.permutation(10)]
advantage, games = 0.6, []
while len(games) < 300:
    one, two = rng.choice(10, 2, replace=False)
    if one < 5 <= two or rng.random() < 0.25:  # the first five are mostly at home
        games.append((one, two))
home, away = np.array(games).T
margin = strength[home] - strength[away] + advantage + rng.normal(size=300)
result = np.where(np.abs(margin) < 0.3, 0, np.sign(margin)).astype(int)
print(f"home wins {np.mean(result > 0):.0%}, draws {np.mean(result == 0):.0%}, "
      f"away wins {np.mean(result < 0):.0%}")  # fmt: skip

# %%
# With and without the advantage
# ------------------------------
# Utilities are divided by the noise of a game, the unit in which the true strengths are given, and
# centred.
models, found = {}, {}
for bias in ("none", "learned"):
    model = PreferenceGP(kernel="independent", position_bias=bias)
    model.fit(teams, [(teams[i], teams[j]) for i, j in games], result)
    unit = np.sqrt(2) * model.noise_
    utility, variance = model.latent_mean_and_variance(teams)
    found[bias] = (utility - utility.mean()) / unit, np.sqrt(variance) / unit
    models[bias] = model
    print(
        f"position_bias={bias!r:10} log evidence {model.log_marginal_likelihood_value_:.1f}"
    )
learned = models["learned"].position_bias_ / (np.sqrt(2) * models["learned"].noise_)
print(f"learned advantage {learned:.2f}, true advantage {advantage}")

# %%
# Who is overrated?
# -----------------
# Without the advantage, the five home teams are too high and the others too low. With it, the
# points gather around the diagonal. Bars are one standard deviation.
plt.style.use("tableau-colorblind10")
true = strength - strength.mean()
titles = {"none": "Advantage ignored", "learned": f"Advantage learned: {learned:.2f}"}
figure, axes = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained", sharey=True)
for ax, (bias, (mean, sd)) in zip(axes, found.items(), strict=True):
    ax.plot([-0.8, 0.8], [-0.8, 0.8], color="C3", ls="--", lw=1)
    for group, color, marker, label in [
        (slice(0, 5), "C1", "^", "mostly at home"),
        (slice(5, 10), "C0", "o", "mostly away"),
    ]:
        ax.errorbar(
            true[group], mean[group], sd[group], fmt=marker, color=color, label=label
        )
    error = np.sqrt(np.mean((mean - true) ** 2))
    ax.set(
        title=f"{titles[bias]}\nroot mean squared error {error:.2f}",
        xlabel="true strength",
    )
axes[0].set_ylabel("estimated strength")
axes[0].legend()
plt.show()
