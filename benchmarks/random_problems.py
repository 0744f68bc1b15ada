"""Convergence of EP on random problems, with noise from 0.001 to 1.

``python -m benchmarks.random_problems`` prints how many of 1,000 converge, how many sweeps they
take, and in how many the sites, conditioned on anew, still move although EP says that they do not.
"""

import sys

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from ordinalgp.core.ep import propagate
from ordinalgp.core.inference import infer
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.problem import Problem
from ordinalgp.core.projections import Identity

TOL = 1e-6


def random_problem(seed: int) -> Problem:
    """Rows of a noisy function cut into levels, under hyperparameters that need not fit them."""
    rng = np.random.default_rng(seed)
    n, d, r = rng.integers(5, 120), rng.integers(1, 6), rng.integers(2, 8)
    X = rng.normal(size=(n, d))
    if seed % 3 == 0:
        X = np.round(X)  # equal rows
    f = np.sin(2 * X[:, 0]) + X.sum(axis=1) / 3
    f += 10.0 ** rng.uniform(-3, 0) * rng.normal(size=n)
    y = np.digitize(f, np.quantile(f, np.linspace(0, 1, r + 1)[1:-1]))
    K = RBF(10.0 ** rng.uniform(-0.5, 1.0))(X) * 10.0 ** rng.uniform(-1, 1)
    b = np.sort(rng.normal(size=r - 1)) + 0.05 * np.arange(r - 1)
    likelihood = OrdinalProbit.from_thresholds(b, 10.0 ** rng.uniform(-3, 0))
    counts = rng.integers(1, 4, n).astype(float) if seed % 5 == 0 else np.ones(n)
    return Problem(K, Identity(n), y, likelihood, counts)


def main(number: int) -> None:
    """Print the summary."""
    sweeps, missed, false = [], [], []
    for seed in range(number):
        problem = random_problem(seed)
        found = infer(problem, smoothing="cavity", tol=TOL)
        again = propagate(problem, found.start, 1, TOL)
        sweeps.append(found.n_sweeps)
        if not found.converged:
            missed.append(seed)
        elif again.change > 2 * TOL:
            false.append((seed, again.change))
    print(f"{number} problems: {number - len(missed)} converge; not {missed}")
    print(f"sweeps: mean {np.mean(sweeps):.1f}, median {np.median(sweeps):.0f}, most {max(sweeps)}")
    print(f"said to converge, but not within twice the tolerance: {len(false)} {false}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
