"""Summary and scores of a fitted table model, as numbers and words that JSON can hold."""

from typing import Any

import numpy as np

from ordinalgp import metrics
from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.decisions import RULES, decide
from ordinalgp.kernels.relevance import relevance_shares
from ordinalgp.sequential import SequentialOrdinalGP
from ordinalgp.stacking import StackedOrdinalGP
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
    """Naive prediction for ``n`` rows: the share of every level in training."""
    return np.tile(model.level_counts_ / model.level_counts_.sum(), (n, 1))


def relevance(model: TableModel) -> dict[str, float] | None:
    """Share of each column, over its features, in the distance between rows by the kernel."""
    kernel = getattr(model.classifier_, "kernel_", None)
    shares = relevance_shares(kernel, model.spread_, model.encoder_.owner)
    if shares is None:
        return None
    names = [column.name for column in model.encoder_.columns]
    return dict(zip(names, shares.tolist(), strict=True))


def summarise(model: TableModel) -> dict[str, Any]:
    """Levels, thresholds, noise, columns, and leave-one-out scores, decisions and intervals."""
    classifier, shares = model.classifier_, relevance(model)
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
        "mixture": _mixture(classifier) if isinstance(classifier, StackedOrdinalGP) else None,
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
                "relevance": None if shares is None else shares[column.name],
            }
            for column in model.encoder_.columns
        ],
    } | _leave_one_out(model)


def _mixture(classifier: StackedOrdinalGP) -> str:
    """Sentence that says what the weights of a mixture mean."""
    share = sum(
        classifier.weights_[name]
        for name, model in classifier.models_.items()
        if isinstance(model, SequentialOrdinalGP)
    )
    if share >= 2 / 3:
        meaning = "the columns do not move everybody along one scale"
    elif share <= 1 / 3:
        meaning = "the columns move nearly everybody along one scale"
    else:
        meaning = "one scale, and a scale per step, predict about equally well"
    return f"{100 * share:.0f} % sequential: {meaning}."


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


def _leave_one_out(model: TableModel) -> dict[str, Any]:
    """Scores, decisions and intervals of the left-out training rows, if there are any."""
    codes, p = model.codes_, model.loo_proba_
    if not len(p):
        return {"leave_one_out": None, "decisions": None, "intervals": None}
    both = {"model": scores(codes, p), "baseline": scores(codes, baseline(model, len(p)))}
    rest = {"decisions": decisions(model, codes, p), "intervals": intervals(model, codes, p)}
    return {"leave_one_out": both} | rest
