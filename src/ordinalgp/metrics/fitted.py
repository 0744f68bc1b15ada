"""Levels and probabilities of a fitted model, also inside a pipeline or a search."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray
from ordinalgp.metrics.ranks import rank_order, ranks


def unwrap(estimator: Any) -> tuple[list[Any], Any]:
    """Split a search or a pipeline into its transformers and the model."""
    if hasattr(estimator, "best_estimator_"):
        return unwrap(estimator.best_estimator_)
    if not hasattr(estimator, "steps"):
        return [], estimator
    before = [step for _, step in estimator.steps[:-1] if hasattr(step, "transform")]
    inner, model = unwrap(estimator.steps[-1][1])
    return before + inner, model


def model_order(estimator: Any) -> NDArray[Any]:
    """Levels of a model from lowest to highest."""
    _, model = unwrap(estimator)
    if not hasattr(model, "classes_"):
        check_is_fitted(model)
        raise TypeError(f"A classifier is needed, but {type(model).__name__} has no classes_.")
    return rank_order(getattr(model, "categories_", None), model.classes_)


def category_proba(estimator: Any, X: Any, order: NDArray[Any]) -> FloatArray:
    """Probabilities with columns in rank order; zero for levels that the model does not know."""
    transformers, model = unwrap(estimator)
    if hasattr(model, "category_proba"):
        for transformer in transformers:
            X = transformer.transform(X)
        return model.category_proba(X)
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(
            f"Probabilities are needed, but {type(model).__name__} gives labels alone. Use another "
            "model, or a metric of labels such as mean_absolute_error."
        )
    probabilities = estimator.predict_proba(X)
    table = np.zeros((len(probabilities), len(order)))
    table[:, ranks(model.classes_, order)] = probabilities
    return table
