"""
Careful and careless judges
===========================

Twenty people compare essays. Most are careful, a few click almost at random. The model gives each
judge a noise of their own, so that careless votes count less, and says who is careless.
"""

# %%
# Votes of twenty judges
# ----------------------
# Every judge compares 60 random pairs. Three of them hardly look.
import matplotlib.pyplot as plt
import numpy as np

from ordinalgp import PreferenceGP

rng = np.random.default_rng(4)
quality = np.sort(rng.normal(size=15))
essays = [f"essay {letter}" for letter in "ABCDEFGHIJKLMNO"]
noise = np.exp(rng.normal(-0.4, 0.3, size=20))
noise[[3, 8, 17]] = [6.0, 4.0, 9.0]
judge = np.repeat(np.arange(20), 60)
left = rng.integers(0, 15, size=len(judge))
right = (left + rng.integers(1, 15, size=len(judge))) % 15
difference = quality[left] - quality[right] + noise[judge] * rng.normal(size=len(judge))
pairs = [(essays[a], essays[b]) for a, b in zip(left, right, strict=True)]
votes = np.where(difference > 0, 1, -1)

# %%
# Two models
# ----------
# One takes all votes alike, the other knows whose they are. Utilities are brought to the scale of
# the true quality.
alike = PreferenceGP("independent").fit(essays, pairs, votes)
judged = PreferenceGP("independent").fit(essays, pairs, votes, judges=judge)


def error(model):
    utility = model.predict(essays)
    utility = utility - utility.mean()
    truth = quality - quality.mean()
    scale = (utility @ truth) / (utility @ utility)
    return np.sqrt(np.mean((scale * utility - truth) ** 2))


print(f"root mean square error, all judges alike: {error(alike):.3f}")
print(f"root mean square error, with judges:      {error(judged):.3f}")

# %%
# Who is careless?
# ----------------
# Intervals have the true noise, relative to the typical judge's, with a probability of 90 %.
found = judged.judge_reliability(0.9)
typical = np.exp(np.mean(np.log(noise)))
place = np.arange(20)
fig, ax = plt.subplots(figsize=(7, 5), layout="constrained")
width = [found.factor - found.low, found.high - found.factor]
ax.errorbar(
    found.factor, place, xerr=width, fmt="o", capsize=3, label="found, 90 % interval"
)
ax.plot(noise[found.judges] / typical, place, "kx", label="true")
ax.set(xscale="log", yticks=place, xlabel="noise, in units of the typical judge's")
ax.set_yticklabels([f"judge {name}" for name in found.judges])
ax.legend(loc="lower right")
plt.show()
