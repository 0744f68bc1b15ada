"""A fitted sparse Bayesian model, with the rows that later training needs."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from ordinalgp._typing import FINITE, Axes, FloatArray, IntArray, Tagged
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.models.exact import check_finite, check_rows
from ordinalgp.models.training_rows import NumberedRows
from ordinalgp.persistence import saved_as
from ordinalgp.sparse.training import ActiveBasis, EvidencePath

_PREDICT_BLOCK = 2**22  # numbers in one block of basis functions: 32 MB


@saved_as("model.sparse")
@dataclass(frozen=True, eq=False)
class SparseModel:
    """A weighted sum of basis functions at some of the training rows."""

    rows: NumberedRows
    n_rows_seen: Annotated[int, Axes(low=1)]
    """rows before equal ones were merged"""
    candidates: Annotated[IntArray, Axes("C", 0, "N")]
    """inputs that offered a basis function, ascending"""
    kernel: Annotated[Any, Tagged("kernel")]
    basis: ActiveBasis
    covariance: Annotated[FloatArray, Axes("P P", *FINITE)]
    """of the weights"""
    value: float
    """log evidence"""
    path: EvidencePath
    width_path: Annotated[FloatArray, Axes("widths two")]
    """widths that were tried, and the criterion of each"""
    width_rows: Annotated[int, Axes(low=0)]
    """rows that chose the width; 0 for a given kernel"""
    converged: bool
    n_rounds: int

    @property
    def likelihood(self) -> OrdinalProbit:
        """Likelihood with its thresholds found."""
        return self.basis.likelihood

    @property
    def relevant(self) -> IntArray:
        """Inputs whose basis functions are in the model."""
        inputs: IntArray = self.candidates[self.basis.index]
        return inputs

    def latent(self, X: FloatArray) -> Moments:
        """Posterior moments, block by block: memory stays flat in the rows of ``X``."""
        weights, vectors = self.basis.weights, self.rows.inputs[self.relevant]
        block, mean, var = max(1, _PREDICT_BLOCK // len(weights)), [], []
        for i in range(0, len(X), block):
            phi = self.kernel(X[i : i + block], vectors)
            mean.append(phi @ weights)
            var.append(np.einsum("ij,ij->i", phi @ self.covariance, phi))
        return Moments(np.concatenate(mean), np.maximum(np.concatenate(var), 0.0))

    def check(self, n_features: int, n_levels: int) -> None:
        """Raise ValueError unless the parts of a saved model agree."""
        check_rows(self.rows.inputs, self.kernel, n_features)
        index, likelihood = self.basis.index, self.likelihood
        parts = {
            "the likelihood": likelihood.n_levels == n_levels and likelihood.noise == 1.0,
            "candidates": np.all(np.diff(self.candidates) > 0),
            "the basis": len(np.unique(index)) == len(index) > 0,
            "first_row": np.all(self.rows.first_row < self.n_rows_seen),
            "width_path": self.width_path.shape[1] == 2,
        }
        wrong = [name for name, fits in parts.items() if not fits]
        if wrong:
            raise ValueError(f"{', '.join(wrong)} and the rest of the model disagree")
        found = self.latent(self.rows.inputs[:1])
        check_finite(found.mean, found.var)
