"""Normal draws that are the same on every processor."""

import numpy as np


def normal_draws(rng, covariance, *size):
    """Draw from N(0, covariance), of shape (*size, n), by the symmetric square root.

    numpy and scipy draw by eigenvectors, whose signs depend on the BLAS; this root is unique.
    """
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return rng.normal(size=(*size, len(covariance))) @ root
