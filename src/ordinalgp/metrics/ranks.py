"""Labels as ranks, checks of the inputs of a metric, and the levels of a fitted model."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.validation.labels import class_positions, declared_order, label_values, show
from ordinalgp.validation.weights import check_weights


def rank_order(categories: Any, *labels: Any) -> NDArray[Any]:
    """Levels from lowest to highest: as given, as declared by the first labels, or as numbers."""
    order = declared_order(labels[0]) if categories is None else values(categories)
    if order is not None:
        return order
    observed = distinct(*labels)
    if observed.dtype.kind not in "biuf":
        raise ValueError(
            f"The labels {observed[:8].tolist()} have no order of their own. Name the levels from "
            "lowest to highest, e.g. categories=['low', 'mid', 'high']."
        )
    return observed


def values(labels: Any) -> NDArray[Any]:
    """Labels of any kind as a one-dimensional array."""
    return column_or_1d(np.asarray(labels))


def distinct(*labels: Any) -> NDArray[Any]:
    """All labels that occur, sorted."""
    return np.unique(np.concatenate([values(each) for each in labels]))


def ranks(labels: Any, order: NDArray[Any]) -> IntArray:
    """Place of each label in ``order``, by value."""
    given = label_values(labels, "y")
    found = class_positions(order, given)
    unknown = [f"row {row} is {show(given[[row]])}" for row in np.flatnonzero(found < 0)[:1]]
    if unknown or len(set(order.tolist())) < len(order):
        raise ValueError(
            f"Labels must be among the levels {order[:8].tolist()}, each named once, "
            f"but {unknown[0] if unknown else 'one is repeated'}. "
            "Name every level in categories=[...], of the metric or of the model."
        )
    return found


def label_ranks(y_true: Any, y_pred: Any, order: NDArray[Any]) -> tuple[IntArray, IntArray]:
    """True and predicted labels as ranks, (n,) each."""
    _check_rows(y_true, y_pred)
    return ranks(y_true, order), ranks(y_pred, order)


def probability_ranks(
    y_true: Any, probabilities: ArrayLike, categories: Any
) -> tuple[IntArray, FloatArray]:
    """True labels as ranks, (n,), and checked probabilities, (n, r)."""
    order, table = rank_order(categories, y_true), np.asarray(probabilities, dtype=np.float64)
    _check_rows(y_true, table)
    if table.ndim != 2 or table.shape[1] != len(order):
        raise ValueError(
            f"probabilities must have one column for each of the {len(order)} levels "
            f"{order[:8].tolist()}, but has shape {table.shape}. "
            "Name every level, also those that y_true lacks, in categories=[...]."
        )
    bad = np.flatnonzero(~(np.abs(table.sum(axis=1) - 1) < 1e-5) | (table < 0).any(axis=1))
    if len(bad):
        raise ValueError(
            "Each row of probabilities must be non-negative and sum to one, "
            f"but row {bad[0]} is {table[bad[0]].tolist()}."
        )
    return ranks(y_true, order), table


def _check_rows(labels: Any, predictions: Any) -> None:
    check_consistent_length(labels, predictions)
    if not len(values(labels)):
        raise ValueError("At least one row is needed, but y_true is empty.")


def weighted_mean(losses: NDArray[Any], sample_weight: Any) -> float:
    """Weighted mean; rows of weight zero are left out, even if their loss is infinite."""
    weights = check_weights(sample_weight, len(losses))
    return float(np.average(losses[weights > 0], weights=weights[weights > 0]))


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
