"""Summary and scores of a fitted table model, as numbers and words that JSON can hold."""

from typing import Any

import numpy as np

from ordinalgp import metrics
from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.decisions import (
    RULES,
    decide,
    interval_scores,
    interval_threshold,
)
from ordinalgp.decisions import intervals as runs
from ordinalgp.sequential import SequentialOrdinalGP
from ordinalgp.stacking import StackedOrdinalGP
from ordinalgp.tables.cross_validation import HeldOut, frequencies
from ordinalgp.tables.importance import ImportanceSettings
from ordinalgp.tables.model import TableModel
from ordinalgp.tables.monotone import agreements
from ordinalgp.validation.labels import class_positions

RULE = (
    "Numbers (mean ± standard deviation) are centred and scaled; missing ones are filled with the "
    "median, and a 0/1 feature marks where they were. A nominal column becomes one 0/1 feature per "
    "value; missing is a value of its own, and one more stands for values unseen in training. "
    "Ordered values are numbered from 0, and then treated as numbers."
)
"""encoding of the columns in words"""
_IMPORTANCE = (
    "Importance is the rise of the log score when a column is shuffled among rows that the model "
    "has not seen, ± standard error. A column within two standard errors of zero may have no "
    "influence. Columns with the same information stand in for each other, so that each of them "
    "seems unimportant."
)
DECISIONS = (
    "The error rate is that of the most probable level, the mean absolute error that of the "
    "median level."
)
"""decisions behind the errors of :func:`scores`, in words"""
LEAVE_ONE_OUT = (
    "Each row is predicted from all others. This flatters the model: its hyperparameters have "
    "seen these rows."
)
"""leave-one-out in words"""
SCORES = {
    "zero_one_error": "error rate",
    "absolute_error": "mean absolute error",
    "ranked_probability_score": "ranked probability score",
    "log_score": "log score",
}
"""scores and their names; lower is better in all of them"""
ERRORS = {
    "zero_one_error": "error rate",
    "absolute_error": "mean absolute error",
    "macro_absolute_error": "mean absolute error, averaged over levels",
}
"""errors of decisions and their names"""
COVERAGES = (0.5, 0.8, 0.9, 0.95)
"""nominal coverages of the intervals that are tried on known levels"""


def scores(codes: IntArray, probabilities: FloatArray) -> dict[str, float]:
    """Scores of probabilities in rank order; each error with the decision that minimises it."""
    order = {"categories": np.arange(probabilities.shape[1])}
    # A probability that underflows leaves the log score large, and a number.
    probabilities = np.maximum(probabilities, np.finfo(float).tiny)
    mode, median = (decide(probabilities, rule) for rule in ("mode", "median"))
    return {
        "zero_one_error": metrics.zero_one_error(codes, mode, **order),
        "absolute_error": metrics.mean_absolute_error(codes, median, **order),
        "ranked_probability_score": metrics.ranked_probability_score(codes, probabilities, **order),
        "log_score": metrics.log_score(codes, probabilities, **order),
    }


def decisions(model: TableModel, codes: IntArray, p: FloatArray) -> list[dict[str, Any]]:
    """Errors of every decision rule on rows with known ranks."""
    order = {"categories": np.arange(p.shape[1])}
    chosen = {rule: decide(p, rule, model.level_counts_) for rule in RULES}
    return [
        {
            "decision": rule,
            "zero_one_error": metrics.zero_one_error(codes, ranks, **order),
            "absolute_error": metrics.mean_absolute_error(codes, ranks, **order),
            "macro_absolute_error": metrics.macro_mean_absolute_error(codes, ranks, **order),
        }
        for rule, ranks in chosen.items()
    ]


def interval_ranks(model: TableModel, p: FloatArray, coverage: float) -> IntArray:
    """Ranks of the lowest and the highest level of each row's interval, (n, 2)."""
    found = model.classifier_.interval_from_proba(p, coverage)
    return class_positions(model.categories_, found.ravel()).reshape(found.shape)


def intervals(model: TableModel, codes: IntArray, p: FloatArray) -> list[dict[str, float]]:
    """Share of rows inside their intervals, and the mean number of levels, per coverage."""
    told = []
    for coverage in COVERAGES:
        lower, upper = interval_ranks(model, p, coverage).T
        inside = float(np.mean((lower <= codes) & (codes <= upper)))
        levels = float(np.mean(upper - lower + 1))
        told.append({"coverage": coverage, "inside": inside, "levels": levels})
    return told


def baseline(model: TableModel, n: int) -> FloatArray:
    """Naive prediction for ``n`` rows: shares of the levels in training, half a row added each."""
    return np.tile(frequencies(model.level_counts_), (n, 1))


def importance(model: TableModel) -> dict[str, tuple[float, float]] | None:
    """Importance of each column with its standard error, if it was measured."""
    found = model.importance_
    return None if found is None else found.as_dict()


def importance_in_words(n_columns: int) -> str:
    """Meaning of the importance of a table's columns."""
    most = ImportanceSettings().measured
    if n_columns <= most:
        return _IMPORTANCE
    return (
        f"{_IMPORTANCE} Only the {most} columns that are most associated with the target in other "
        "rows are shuffled; the rest count as zero."
    )


def summarise(model: TableModel) -> dict[str, Any]:
    """Levels, thresholds, noise, columns, and scores, decisions and intervals of unseen rows."""
    classifier, known = model.classifier_, importance(model) or {}
    found = getattr(classifier, "log_marginal_likelihood_value_", None)
    return {
        "target": model.target,
        "model": type(classifier).__name__,
        "inference": getattr(classifier, "inference", None),
        "rows": int(model.level_counts_.sum()),
        "features": len(model.encoder_.features),
        "levels": _levels(model),
        "thresholds": model.thresholds_.tolist() if hasattr(model, "thresholds_") else None,
        "noise": float(classifier.likelihood_.noise) if hasattr(model, "likelihood_") else None,
        "kernel": str(classifier.kernel_) if hasattr(classifier, "kernel_") else None,
        "weights": classifier.weights_ if isinstance(classifier, StackedOrdinalGP) else None,
        "mixture": meaning_of_weights(classifier)
        if isinstance(classifier, StackedOrdinalGP)
        else None,
        "log_evidence": None if found is None else float(found),
        "monotone": agreements(model),
        "converged": bool(getattr(classifier, "converged_", True)),
        "columns": [
            {
                "name": column.name,
                "kind": column.kind,
                "rule": column.rule,
                "missing": column.missing,
                "filled_with": column.filler,
                "importance": known.get(column.name, (None, None))[0],
                "importance_error": known.get(column.name, (None, None))[1],
            }
            for column in model.encoder_.columns
        ],
    } | _validation(model)


def meaning_of_weights(classifier: StackedOrdinalGP) -> str:
    """Sentence that says what the weights of a mixture mean."""
    weights, prior = classifier.weights_, classifier.prior_weights_
    sequential = [n for n, m in classifier.models_.items() if isinstance(m, SequentialOrdinalGP)]
    share = sum(weights[name] for name in sequential)
    # As if all models had counted the same before the rows were seen.
    fair = sum(weights[name] / prior[name] for name in sequential)
    fair /= sum(weights[name] / prior[name] for name in classifier.models_)
    if fair >= 2 / 3:
        meaning = "one scale for all levels does not fit well here"
    elif fair <= 1 / 3:
        meaning = "one scale for all levels fits well here"
    else:
        meaning = "one scale for all levels, and one per step, fit about equally well"
    return f"Sequential models have {100 * share:.0f} % of the weight: {meaning}."


def _levels(model: TableModel) -> list[dict[str, Any]]:
    counts, n = model.level_counts_.tolist(), float(model.level_counts_.sum())
    counts = [int(count) if count == int(count) else count for count in counts]
    cuts: list[Any] = [None] * (len(counts) - 1)
    ends = [None, *(model.thresholds_.tolist() if hasattr(model, "thresholds_") else cuts), None]
    levels = zip(model.categories_.tolist(), counts, ends, ends[1:], strict=False)
    return [
        {"level": level, "rows": count, "share": count / n, "from": low, "to": high}
        for level, count, low, high in levels
    ]


def scored_rows(model: TableModel) -> tuple[IntArray, FloatArray]:
    """Ranks and probabilities of the rows that a model is judged by.

    They are predicted by models that have not seen them, else by leave-one-out; or there are none.
    """
    held = model.held_out_
    return (model.codes_, model.loo_proba_) if held is None else (held.codes, held.proba)


def _validation(model: TableModel) -> dict[str, Any]:
    """Scores, decisions and intervals of the rows that a model is judged by."""
    found: dict[str, Any] = dict.fromkeys(
        ("cross_validation", "leave_one_out", "decisions", "intervals")
    )
    codes, p = scored_rows(model)
    if not len(p):
        return found
    held = model.held_out_
    if held is not None:
        found["cross_validation"] = _cross_validation(held)
        found["intervals"] = held_out_intervals(model, held)
    else:
        both = {"model": scores(codes, p), "baseline": scores(codes, baseline(model, len(p)))}
        found["leave_one_out"] = both | {"method": LEAVE_ONE_OUT}
        found["intervals"] = intervals(model, codes, p)
    return found | {"decisions": decisions(model, codes, p)}


def _cross_validation(held: HeldOut) -> dict[str, Any]:
    mean, error = held.gain
    return {
        "folds": held.n_folds,
        "models": len(held.counts),
        "rows": len(held.codes),
        "together": held.together,
        "method": _method(held),
        "model": scores(held.codes, held.proba),
        "baseline": scores(held.codes, held.baseline),
        "gain": {"log_score": mean, "standard_error": error},
        "verdict": _verdict(mean, error),
    }


def _method(held: HeldOut) -> str:
    """Sentence that says how the rows were predicted."""
    n, k = f"{len(held.codes):,}", held.n_folds
    if not k:
        return f"{n} rows, drawn at random, were kept out of the fit and then predicted."
    what = {"rows": "row", "copies": "row with all its copies", "groups": "group of rows"}
    if len(held.counts) == 1:
        said = (
            f"One {what[held.together]} in {k} was predicted by a model that was fitted without "
            f"them, {n} rows in all."
        )
    else:
        said = f"{k} folds: each {what[held.together]} is predicted by a model fitted without it."
    return f"{said} Slightly pessimistic, since that model had {k - 1} rows of {k} to learn from."


def _verdict(mean: float, error: float) -> str:
    """Sentence that compares a log score with that of the level frequencies."""
    size = f"{abs(mean):.3f} ± {error:.3f}"
    if mean > 2 * error:
        return f"Its log score is {size} below that of the level frequencies (± standard error)."
    side = "below" if mean >= 0 else "above"
    return (
        "These rows do not show that it predicts better than the level frequencies: its log score "
        f"is {size} {side} theirs (± standard error)."
    )


def held_out_intervals(model: TableModel, held: HeldOut) -> list[dict[str, float]]:
    """The same as :func:`intervals`; lengths are chosen on other folds, or on the other half."""
    part = held.fold if len(held.counts) > 1 else np.arange(len(held.codes)) % 2
    shares, own = model.level_counts_, np.arange(len(held.codes))
    known = interval_scores(held.proba, shares)[own, held.codes]
    told = []
    for coverage in COVERAGES:
        inside, levels = np.zeros((2, len(own)))
        for one in np.unique(part):
            here, others = part == one, known[part != one]
            threshold = interval_threshold(others, coverage, np.ones(len(others)))
            lower, upper = runs(held.proba[here], threshold, shares)
            inside[here] = (lower <= held.codes[here]) & (held.codes[here] <= upper)
            levels[here] = upper - lower + 1
        row = {"inside": float(inside.mean()), "levels": float(levels.mean())}
        told.append({"coverage": coverage} | row)
    return told
