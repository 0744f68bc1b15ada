"""Fit one cell of a grid and score it on its test rows."""

import math
import os
import time
import warnings
from typing import Any

import numpy as np

from ordinalgp import metrics
from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.benchmark.models import find_models
from ordinalgp.benchmark.protocol import Cell, Split, load_split
from ordinalgp.decisions import decide

Record = dict[str, Any]


def fit_and_score(cell: Cell, data_home: str | os.PathLike[str] | None = None) -> Record:
    """Fit the cell's model to its training rows and score it on its test rows.

    ``absolute`` counts levels when deciding for the most probable one, as the papers do, and
    ``absolute_median`` when deciding for the median, which minimises it. ``fit_seconds`` is
    processor time.
    """
    data = load_split(cell, data_home)
    return fit_and_score_split(cell, data, _levels(cell, data))


def fit_and_score_split(cell: Cell, data: Split, levels: IntArray) -> Record:
    """Fit the cell's model to the training rows of a split and score it on the others."""
    model = find_models([cell.model])[cell.model].build(cell.seed, data.X_train.shape[1])
    with warnings.catch_warnings():
        # Peers warn of bounds, of classes of one row, of steps that did not converge; ours say in
        # the record whether they did.
        warnings.simplefilter("ignore")
        begin = time.process_time()
        model.fit(data.X_train, data.y_train)
        seconds = time.process_time() - begin
        scores = score(model, data, levels)
    return {
        **scores,
        "fit_seconds": round(seconds, 4),
        "partition": data.partition,
        **_facts(model),
    }


def _levels(cell: Cell, data: Split) -> IntArray:
    """All levels in their order: absolute errors count bins, empty ones too."""
    if cell.bins:
        return np.arange(1, cell.bins + 1)
    return np.unique(np.concatenate([data.y_train, data.y_test]))


def score(model: Any, data: Split, levels: IntArray) -> Record:
    """Errors and, where the model gives probabilities, scores of these."""
    if not hasattr(model, "predict_proba"):
        labels = np.asarray(model.predict(data.X_test))
        missing = dict.fromkeys(("absolute_median", "log_score", "rps"))
        return {**_errors(data.y_test, labels, levels), **missing}
    proba = _on_levels(model.predict_proba(data.X_test), model.classes_, levels)
    mode, median = (levels[decide(proba, rule)] for rule in ("mode", "median"))
    by_median = metrics.mean_absolute_error(data.y_test, median, categories=levels)
    return {
        **_errors(data.y_test, mode, levels),
        "absolute_median": by_median,
        "log_score": metrics.log_score(data.y_test, proba, categories=levels),
        "rps": metrics.ranked_probability_score(data.y_test, proba, categories=levels),
    }


def _errors(y: IntArray, labels: Any, levels: IntArray) -> Record:
    return {
        "zero_one": metrics.zero_one_error(y, labels, categories=levels),
        "absolute": metrics.mean_absolute_error(y, labels, categories=levels),
    }


def _on_levels(proba: FloatArray, classes: Any, levels: IntArray) -> FloatArray:
    """Columns for all levels; one that was not in the training rows has probability zero."""
    table = np.zeros((len(proba), len(levels)))
    table[:, np.searchsorted(levels, classes)] = proba
    return table


def _facts(model: Any) -> Record:
    """What ours say about their fit, as far as they say it."""
    facts: Record = {}
    if hasattr(model, "log_marginal_likelihood_value_"):
        facts["evidence"] = float(model.log_marginal_likelihood_value_)
    if hasattr(model, "loo_log_score_"):
        facts["loo_log_score"] = float(model.loo_log_score_)
    if hasattr(model, "evidence_path_"):
        facts["n_evaluations"] = len(model.evidence_path_)
    if hasattr(model, "noise_"):
        facts |= {"noise": float(model.noise_), "kernel": str(model.kernel_)}
    if hasattr(model, "relevance_"):
        facts |= {"n_relevance": len(model.relevance_), "n_iter": int(model.n_iter_)}
    if hasattr(model, "converged_"):
        facts["converged"] = bool(model.converged_)
    return {k: v for k, v in facts.items() if not (isinstance(v, float) and math.isnan(v))}
