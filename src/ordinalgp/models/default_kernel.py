"""The default kernel: a Gaussian one, scaled to the inputs."""

import numpy as np

from ordinalgp._typing import FloatArray


def spread(X: FloatArray) -> float:
    """Root mean square of the columns' standard deviations, also where squares overflow."""
    largest = float(np.max(np.abs(X))) or 1.0
    return largest * float(np.sqrt(np.mean(np.var(X / largest, axis=0))))
