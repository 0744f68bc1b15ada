"""Scorers for cross-validation and searches of scikit-learn."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sklearn.utils.metadata_routing import MetadataRequest

from ordinalgp.metrics.fitted import category_proba, model_order
from ordinalgp.metrics.labels import (
    macro_mean_absolute_error,
    mean_absolute_error,
    weighted_kappa,
    zero_one_error,
)
from ordinalgp.metrics.probabilities import log_score, ranked_probability_score

_ON_LABELS = (zero_one_error, mean_absolute_error, macro_mean_absolute_error, weighted_kappa)
_ON_PROBABILITIES = (ranked_probability_score, log_score)
_METRICS: dict[str, Any] = {metric.__name__: metric for metric in _ON_LABELS + _ON_PROBABILITIES}


def make_ordinal_scorer(metric: str, **options: Any) -> "OrdinalScorer":
    """Make a scorer from one of this module's metrics, for ``cross_val_score`` and searches.

    The result is called as ``scorer(estimator, X, y, sample_weight=None)``. Higher is better, so
    errors are negated. The order of the levels is the model's own ``categories_``, also inside a
    pipeline or a search. For a model without it, it is the order of its numeric ``classes_``.

    Parameters
    ----------
    metric : str
        Name of a metric of this module.
    **options
        Options of the metric, such as ``weights="linear"``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> from ordinalgp.metrics import make_ordinal_scorer
    >>> y = np.repeat([1, 2, 3], 10)
    >>> scoring = make_ordinal_scorer("weighted_kappa")
    >>> cross_val_score(LogisticRegression(), 5.0 * y[:, None], y, scoring=scoring)
    array([1., 1., 1., 1., 1.])
    """
    if metric not in _METRICS:
        raise ValueError(f"metric must be one of {', '.join(_METRICS)}, but {metric!r} was given.")
    return OrdinalScorer(metric, options)


@dataclass(frozen=True, eq=False)
class OrdinalScorer:
    """Scorer for cross-validation and searches; made by :func:`make_ordinal_scorer`."""

    metric: str
    options: Mapping[str, Any]
    sample_weight_request: bool | str | None = None

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score a fitted ``estimator`` on rows ``X`` with labels ``y``; higher is better."""
        metric, order = _METRICS[self.metric], model_order(estimator)
        on_labels = metric in _ON_LABELS
        predicted = estimator.predict(X) if on_labels else category_proba(estimator, X, order)
        value = metric(y, predicted, categories=order, sample_weight=sample_weight, **self.options)
        return value if metric is weighted_kappa else -value

    def set_score_request(self, *, sample_weight: bool | str | None) -> "OrdinalScorer":
        """Return a scorer that requests weights (True, False or their name) as metadata."""
        return replace(self, sample_weight_request=sample_weight)

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata that this scorer requests."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="sample_weight", alias=self.sample_weight_request)
        return request
