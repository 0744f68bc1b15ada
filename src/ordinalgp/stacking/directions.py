"""Directions of the inputs along which levels change, learned from fits.

A kernel with a length scale per feature knows which features matter, but not which combinations of
them do. Where levels follow rules almost without noise, fits can tell: with g_i the gradient of
the posterior mean of the latent function at row i, G = mean_i g_i g_i' is large along directions in
which the function changes. A kernel of x P with P = G^(1/4) compares rows along these directions,
and the next fit finds them more clearly. This is the recursive feature machine of
[Radhakrishnan24]_, with P P' = sqrt(G) in place of G, which is more careful.
"""

from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.kernels import Projected

_POWER = 0.25


def with_directions(model: Any, rows: Any, rounds: int, start: Any = None) -> Any:
    """An unfitted copy of ``model`` whose kernel compares rows along learned directions.

    ``model`` has the kernel ``Projected(RBF(...), P)``. It is fitted ``rounds`` times, from the
    directions of ``start``, a kernel, or from the features themselves. ``rows`` has ``X``,
    ``labels`` and ``weights``.
    """
    if start is not None:
        model.set_params(kernel=start)
    for _ in range(rounds):
        model.fit(rows.X, rows.labels, sample_weight=rows.weights)
        found = model._result.model
        inner = found.kernel.kernel
        model.set_params(kernel=Projected(inner, learned_projection(found)))
    return model


def learned_projection(model: Any) -> FloatArray:
    """The matrix P of a fitted Gaussian process with the kernel ``Projected(RBF(l), P)``.

    Its mean square of entries per feature is that of the identity, so that length scales stay.
    """
    kernel, P = model.kernel.kernel, np.asarray(model.kernel.projection)
    Z = model.kernel.combinations(model.task.support)
    weighted = kernel(Z) * model.posterior.weights
    # d mean(z) / dz, of mean(z) = sum_j weights_j k(z, z_j), at the rows z_i.
    slopes = (weighted @ Z - weighted.sum(axis=1, keepdims=True) * Z) / kernel.length_scale**2
    counts = model.reference.weights
    G = P @ (slopes.T @ (counts[:, None] * slopes)) @ P.T
    values, vectors = np.linalg.eigh((G + G.T) / 2)
    size = np.maximum(values, 0.0) ** _POWER
    if not size.any():
        return P
    size *= np.sqrt(len(size) / np.sum(size**2))
    return np.asarray((vectors * size) @ vectors.T)
