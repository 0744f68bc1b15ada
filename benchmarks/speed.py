"""Cost of one evidence evaluation, in Cholesky factorisations of the same order.

Run alone on the machine: ``make bench``. Every figure is a ratio of two times measured in
this process, so that it can be compared between machines.
"""

import gc
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack
from sklearn.datasets import load_digits
from sklearn.gaussian_process.kernels import RBF

from ordinalgp import OrdinalGPClassifier

LIMITS = {"ep": 25.0, "laplace": 12.0}


def real_rows(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """N rows of d standardised pixel sums, with the ink of the image as ordered target.

    The 8 x 8 digits come with scikit-learn. Each set of columns is a random mixture of pixels,
    so that any n up to 1,797 and any d up to 61 is had from real data; for larger n the same
    images are shifted by one pixel.
    """
    images = load_digits().images
    shifted = [np.roll(images, step, axis=2) for step in (0, 1)]
    pixels = np.concatenate(shifted).reshape(-1, 64)
    rng = np.random.default_rng(0)
    pixels = pixels[rng.permutation(len(pixels))[:n]]
    pixels = pixels[:, pixels.std(axis=0) > 0]
    mixed = pixels @ rng.normal(size=(pixels.shape[1], d))
    X = (mixed - mixed.mean(axis=0)) / mixed.std(axis=0)
    ink = pixels @ rng.uniform(size=pixels.shape[1])
    return X, np.digitize(ink, np.quantile(ink, [0.2, 0.4, 0.6, 0.8]))


def cholesky_seconds(n: int, repeats: int = 7) -> float:
    """Median time of dpotrf on a random positive definite matrix, factored in place."""
    rng = np.random.default_rng(1)
    A = rng.normal(size=(n, n))
    matrix = np.asfortranarray(A @ A.T + n * np.eye(n))
    times = []
    for _ in range(repeats):
        copy = matrix.copy(order="F")
        start = time.perf_counter()
        lapack.dpotrf(copy, lower=1, overwrite_a=1, clean=0)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def peak_matrices(run: Callable[[], object], n: int) -> float:
    """Peak memory that numpy asked for, in n x n arrays of doubles."""
    gc.collect()
    tracemalloc.start()
    run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / (8.0 * n * n)


def cost_per_evaluation(
    model: OrdinalGPClassifier, X: np.ndarray, y: np.ndarray
) -> tuple[float, int]:
    """Seconds per evaluation averaged over a whole fit, and how many there were."""
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    evaluations = len(model.evidence_path_) + 1  # fit evaluates once more at the optimum
    return seconds / evaluations, evaluations


def main() -> None:
    print("one evidence evaluation with gradient, averaged over a fit, in dpotrf(n)")
    print(
        f"{'n':>5} {'model':>8} {'dpotrf':>10} {'evals':>6} {'ratio':>7} {'limit':>6} {'n x n':>6}"
    )
    for n in (500, 1000, 2000):
        X, y = real_rows(n, 9)
        for inference, limit in LIMITS.items():
            unit = cholesky_seconds(n)
            seconds, count = cost_per_evaluation(OrdinalGPClassifier(inference=inference), X, y)
            unit = 0.5 * (unit + cholesky_seconds(n))
            model = OrdinalGPClassifier(inference=inference, optimizer=None)
            memory = peak_matrices(lambda model=model, X=X, y=y: model.fit(X, y), n)
            print(
                f"{n:5d} {inference:>8} {1e3 * unit:8.1f}ms {count:6d} {seconds / unit:7.1f} "
                f"{limit:6.0f} {memory:6.1f}"
            )
    print("\nARD against isotropic kernel, 60 inputs, one evaluation averaged over a fit")
    for inference in LIMITS:
        X, y = real_rows(1000, 60)
        one, _ = cost_per_evaluation(
            OrdinalGPClassifier(RBF(np.sqrt(60)), inference=inference), X, y
        )
        kernel = RBF(np.full(60, np.sqrt(60.0)))
        many, _ = cost_per_evaluation(OrdinalGPClassifier(kernel, inference=inference), X, y)
        print(f"n = 1000 {inference:>8}: ratio {many / one:.2f} (limit 1.5)")


if __name__ == "__main__":
    main()
