"""A fitted mixture of models."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from ordinalgp._typing import Axes, FloatArray, Tagged
from ordinalgp.models.base import NoLeaveOneOut
from ordinalgp.persistence import saved_as
from ordinalgp.stacking.inputs import Inputs, View
from ordinalgp.stacking.weights import sharpened


@saved_as("model.mixture")
@dataclass(frozen=True, eq=False)
class MixtureModel:
    """Models with positive weight, and the mixture's predictions of the training rows."""

    names: tuple[str, ...]
    """of all models, also of those without weight"""
    weights: Annotated[FloatArray, Axes("mixed", 0.0, 1.0 + 1e-9)]
    """weight of each name; they sum to one"""
    models: tuple[Annotated[Any, Tagged("estimator")], ...]
    """fitted classifiers with positive weight, in the order of their names"""
    views: tuple[View, ...]
    """inputs that each of these models sees"""
    inputs: Inputs | None
    """scaling of the inputs; None: all models see them as given"""
    left_out: Annotated[FloatArray, Axes("rows r", 0.0, 1.0 + 1e-9)]
    """probabilities of each training row without itself, or no rows where they were not kept"""
    sharpness: Annotated[float, Axes("", 1.0, 10.0)]
    """exponent of the averaged probabilities"""
    log_score: float
    """mean of minus the log probability of the levels of left-out rows"""

    def probabilities(self, X: FloatArray) -> FloatArray:
        """Probability of every level at new rows, (n, r)."""
        weights = self.weights[self.weights > 0]
        parts = zip(weights, self.models, self._seen(X), strict=True)
        mean = np.asarray(sum(w * model.category_proba(rows) for w, model, rows in parts))
        return sharpened(mean, self.sharpness)

    def _seen(self, X: FloatArray) -> list[FloatArray]:
        """Rows as each of the models sees them."""
        inputs = self.inputs
        return [X if inputs is None else inputs.seen(X, view) for view in self.views]

    def probability_draws(self, X: FloatArray, n: int, rng: Any) -> FloatArray:
        """Draws of models by their weights, and of their probabilities, (n, rows, r).

        Their mean is about that of the mixture. They spread by as much as the models disagree,
        and by what each model does not know. A model without draws has its probabilities.
        """
        weights = self.weights[self.weights > 0]
        counts, seeds = (
            rng.multinomial(n, weights / weights.sum()),
            rng.randint(2**31, size=len(weights)),
        )
        found = []
        parts = zip(self.models, self._seen(X), counts, seeds, strict=True)
        for model, rows, count, seed in parts:
            if count and hasattr(model, "sample_proba"):
                found.append(model.sample_proba(rows, int(count), random_state=int(seed)))
            elif count:
                found.append(np.tile(model.category_proba(rows), (count, 1, 1)))
        return sharpened(np.concatenate(found), self.sharpness)

    def left_out_probabilities(self) -> FloatArray:
        """Probability of every level at each training row without itself, (n, r)."""
        if len(self.left_out) == 0:
            raise NoLeaveOneOut(
                "Leave-one-out probabilities are kept up to 20,000 rows, but the mixture was "
                "fitted on more. Fit fewer rows to have them."
            )
        return self.left_out

    def check(self, n_features: int, n_levels: int) -> None:
        """Raise ValueError unless the parts of a saved mixture agree."""
        fits = (
            len(set(self.names)) == len(self.names) == len(self.weights)
            and abs(np.sum(self.weights) - 1) < 1e-9
            and np.sum(self.weights > 0) == len(self.models) == len(self.views)
            and (self.inputs is None or len(self.inputs.centre) == n_features)
            and self.left_out.shape[1] == n_levels
            and np.isfinite(self.log_score)
        )
        for model in self.models:
            fits = fits and len(getattr(model, "categories_", ())) == n_levels
            fits = fits and hasattr(model, "category_proba") and model.n_features_in_ == n_features
        if not fits:
            raise ValueError("the models and their weights disagree")
