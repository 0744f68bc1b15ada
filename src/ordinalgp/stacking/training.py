"""Fitting a mixture: all models on few rows, the better ones on more.

1. Up to ``full_rows`` different rows, every model is fitted on all of them.
2. Above, every model is fitted on a subset of ``screen_rows`` first. Those that would have next
   to no weight are dropped. The others are fitted on all rows; their searches begin at the
   subset's hyperparameters and take few steps.
3. Above ``exact_rows``, a subset of that many rows takes the place of all rows. Then models that
   can use inducing points are fitted on all rows as well; sequential ones up to ``kept_rows``. Of
   both versions the one that predicts other rows better is kept, and weights are those of the
   predictions of these rows.

Equal rows are merged before rows are counted or drawn, so that weights equal copies.
"""

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.gp import OrdinalGPClassifier
from ordinalgp.models.exact import WarmStart
from ordinalgp.runtime.progress import Progress, Report, listening, silent
from ordinalgp.runtime.warning import warn_user
from ordinalgp.sequential import SequentialOrdinalGP
from ordinalgp.stacking.inputs import Inputs, View
from ordinalgp.stacking.model import MixtureModel
from ordinalgp.stacking.weights import mixture_weights, sharpened, sharpness
from ordinalgp.validation.labels import class_positions

_SEARCHED = (OrdinalGPClassifier, SequentialOrdinalGP)  # models whose searches can begin elsewhere


@dataclass(frozen=True)
class StackingSettings:
    """Sizes and limits of the stages."""

    full_rows: int = 600
    """different rows up to which all models are fitted on all rows"""
    screen_rows: int = 450
    """rows on which models are compared first"""
    screen_weight: float = 0.02
    """weight below which a model is dropped there"""
    exact_rows: int = 2000
    """different rows up to which models are exact"""
    judge_rows: int = 4000
    """rows that compare models on a subset with models on all rows"""
    refine_steps: int = 12
    """steps of a search that begins at the hyperparameters of a subset"""
    least_weight: float = 1e-3
    """weight below which a fitted model is not kept"""
    kept_rows: int = 20_000
    """rows whose leave-one-out probabilities are kept"""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a fit."""

    X: FloatArray
    codes: IntArray
    weights: FloatArray
    categories: NDArray[Any]

    @property
    def labels(self) -> NDArray[Any]:
        """Levels as the user names them."""
        return self.categories[self.codes]

    def take(self, places: IntArray) -> "Rows":
        """Some of the rows."""
        parts = self.X[places], self.codes[places], self.weights[places]
        return Rows(*parts, self.categories)

    def merged(self) -> tuple["Rows", IntArray]:
        """Different rows, sorted, with their total weights, and where each row went.

        Rows of weight zero went nowhere, -1.
        """
        used = self.weights > 0
        table = np.column_stack([self.X[used], self.codes[used]])
        _, first, place = np.unique(table, axis=0, return_index=True, return_inverse=True)
        place, found = place.ravel(), self.take(np.flatnonzero(used)[first])
        where = np.full(len(self.X), -1, dtype=np.intp)
        where[used] = place
        totals = np.bincount(place, self.weights[used]).astype(float)
        return replace(found, weights=totals), where

    def drawn(self, n: int, rng: np.random.RandomState) -> IntArray:
        """Places of ``n`` rows, drawn at random within levels, some of each level."""
        order = rng.permutation(len(self.X))
        order = order[np.argsort(self.codes[order], kind="stable")]
        sizes = np.bincount(self.codes)
        rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        share = np.where(rank == 0, -1.0, (rank + 0.5) / np.repeat(sizes, sizes))
        return np.sort(order[np.argsort(share, kind="stable")[:n]])


@dataclass(frozen=True, eq=False)
class Candidate:
    """A fitted model, and probabilities of its training rows without themselves, (n, r)."""

    name: str
    model: Any
    left_out: FloatArray


@dataclass(frozen=True, eq=False)
class Training:
    """Options of a mixture's fit."""

    models: dict[str, Any]
    """unfitted, to be cloned"""
    shrinkage: float
    n_jobs: int | None
    rng: np.random.RandomState
    report: Report
    settings: StackingSettings
    inputs: Inputs | None = None
    """scaling of the inputs; None: every model sees them as given"""
    views: dict[str, View] = field(default_factory=dict)
    """views of models that do not see standardised inputs"""
    towards: dict[str, WarmStart] = field(default_factory=dict)
    """fits towards which searches begin that would begin at the usual start"""

    def fit(self, rows: Rows) -> MixtureModel:
        """Fit the models, and mix them."""
        merged, where = rows.merged()
        if len(merged.X) > self.settings.exact_rows:
            return self._many_rows(rows, merged, where)
        if len(rows.X) > self.settings.exact_rows:  # many copies of few rows
            return self._copies(rows, merged, where)
        found = self._fitted_on(rows, merged)
        return self._mixture(found, rows, rows)

    def _copies(self, rows: Rows, merged: Rows, where: IntArray) -> MixtureModel:
        """The mixture of different rows whose weights count copies; equal to that of all rows."""
        found = self._fitted_on(merged, merged)
        left: Any = [np.empty((0, len(rows.categories)))] * len(found)
        if len(rows.X) <= self.settings.kept_rows:
            left = [_left_out_of_all(each, self._seen(each.name, rows), where) for each in found]
        return self._mixture(found, merged, rows, left)

    def _view(self, name: str) -> View:
        return self.views.get(name, "standardised")

    def _seen(self, name: str, rows: Rows) -> Rows:
        """Rows as a model sees them."""
        if self.inputs is None:
            return rows
        return replace(rows, X=self.inputs.seen(rows.X, self._view(name)))

    def _fitted_on(self, rows: Rows, merged: Rows) -> list[Candidate]:
        """Models of all rows; those that a subset finds useless are not fitted."""
        limits = self.settings
        if len(merged.X) <= limits.full_rows:
            return self._fit_all(self.models, rows)
        subset = merged.take(merged.drawn(limits.screen_rows, self.rng))
        found = self._fit_all(self.models, subset, note=f" on {limits.screen_rows} rows")
        # As many rows as there are in all, with the subset's predictions.
        scale = float(np.sum(rows.weights) / np.sum(subset.weights))
        weights = self._weights(found, replace(subset, weights=scale * subset.weights))
        keep = weights >= min(limits.screen_weight, float(np.max(weights)))
        starts = {each.name: each.model for each, kept in zip(found, keep, strict=True) if kept}
        again = {name: self.models[name] for name in starts}
        return self._fit_all(again, rows, starts)

    def _many_rows(self, rows: Rows, merged: Rows, where: IntArray) -> MixtureModel:
        """Models of a subset, or of all rows where they predict other rows better."""
        limits = self.settings
        inside = merged.drawn(limits.exact_rows, self.rng)
        subset = merged.take(inside)
        small = self._fitted_on(subset, subset)
        weights = self._weights(small, subset)
        small = [c for c, w in zip(small, weights, strict=True) if w >= limits.least_weight]
        can = [c for c in small if self._can_take(c.model, len(rows.X))]
        again = {each.name: self.models[each.name] for each in can}
        starts = {each.name: each.model for each in can}
        note = f" on all {len(rows.X)} rows"
        large = {each.name: each for each in self._fit_all(again, rows, starts, note, fatal=False)}
        # Rows outside the subset judge; each is predicted without itself by either version.
        outside = np.setdiff1d(np.arange(len(merged.X)), inside)
        outside = np.sort(self.rng.permutation(outside)[: limits.judge_rows])
        first_row = np.zeros(len(merged.X), dtype=np.intp)
        first_row[where[where >= 0]] = np.flatnonzero(where >= 0)
        judge, kept = merged.take(outside), []
        for one in small:
            proba = one.model.category_proba(self._seen(one.name, judge).X)
            versions = [(_log_score(proba, judge), proba, one)]
            if one.name in large:
                proba = large[one.name].left_out[first_row[outside]]
                versions.append((_log_score(proba, judge), proba, large[one.name]))
            _, proba, best = min(versions, key=lambda version: version[0])
            kept.append(Candidate(one.name, best, proba))
        if len(rows.X) > limits.kept_rows:
            left: Any = [np.empty((0, len(rows.categories)))] * len(kept)
        else:
            places = np.full(len(merged.X), -1, dtype=np.intp)
            places[inside] = np.arange(len(inside))
            at = np.where(where >= 0, places[where], -1)
            left = [_left_out_of_all(c.model, self._seen(c.name, rows), at) for c in kept]
        flat = [Candidate(each.name, each.model.model, each.left_out) for each in kept]
        return self._mixture(flat, judge, rows, left)

    def _can_take(self, model: Any, n_rows: int) -> bool:
        """Whether a model can be fitted on so many rows, and leave each of them out."""
        known = n_rows <= self.settings.kept_rows or not isinstance(model, SequentialOrdinalGP)
        points = getattr(model, "inducing", None)
        return known and isinstance(points, str) and points == "auto"

    def _mixture(
        self,
        found: list[Candidate],
        judge: Rows,
        rows: Rows,
        left: list[FloatArray] | None = None,
    ) -> MixtureModel:
        """The mixture whose weights predict the rows ``judge`` best."""
        fitted = self._weights(found, judge)
        fitted[fitted < min(self.settings.least_weight, float(np.max(fitted)))] = 0.0
        fitted /= np.sum(fitted)
        by_name = {each.name: w for each, w in zip(found, fitted, strict=True)}
        weights = np.array([by_name.get(name, 0.0) for name in self.models])
        models = {each.name: each.model for each in found}
        tables = [each.left_out for each in found] if left is None else left
        proba = sum(w * table for w, table in zip(fitted, tables, strict=True))
        judged = sum(w * each.left_out for w, each in zip(fitted, found, strict=True))
        self._report_weights(dict(zip(self.models, weights, strict=True)))
        kept = [name for name, w in zip(self.models, weights, strict=True) if w > 0]
        parts = tuple(models[name] for name in kept), tuple(self._view(name) for name in kept)
        exponent = 1.0  # a single model is as cautious as it is
        if len(kept) > 1:
            exponent = sharpness(np.asarray(judged), judge.codes, judge.weights)
        score = _log_score(sharpened(np.asarray(judged), exponent), judge)
        left_out = sharpened(np.asarray(proba), exponent)
        return MixtureModel(
            tuple(self.models), weights, *parts, self.inputs, left_out, exponent, score
        )

    def _report_weights(self, weights: dict[str, float]) -> None:
        shown = ", ".join(f"{name} {w:.2f}" for name, w in weights.items() if w > 0)
        n = len(weights)
        self.report(Progress("model", n, n, None, 0.0, f"weights: {shown}", done=True))

    def _weights(self, found: list[Candidate], rows: Rows) -> FloatArray:
        own = np.arange(len(rows.codes)), rows.codes
        proba = np.column_stack([each.left_out[own] for each in found])
        return mixture_weights(proba, rows.weights, self.shrinkage)

    def _fit_all(
        self,
        models: dict[str, Any],
        rows: Rows,
        starts: dict[str, Any] | None = None,
        note: str = "",
        *,
        fatal: bool = True,
    ) -> list[Candidate]:
        """Fit each of the models; those that fail are left out, with a warning."""
        found, failed, fits = [], [], []
        for name, model in models.items():
            start = self._start_of(name, starts or {})
            fits.append(
                delayed(_fit_one)(self._prepared(model, rows), start, self._seen(name, rows))
            )
        for name, model, left_out, problem in self._run(fits, models, note):
            if problem:
                failed.append(f"{name!r} ({problem})")
            else:
                found.append(Candidate(name, model, left_out))
        if failed and not found and fatal:
            raise ValueError(f"None of the models could be fitted: {'; '.join(failed)}.")
        if failed:
            warn_user(f"Models that failed have no weight: {'; '.join(failed)}.", UserWarning)
        return found

    def _start_of(self, name: str, starts: dict[str, Any]) -> WarmStart | None:
        """Start of a model's search: at its fit to a subset, else towards another fit."""
        start = starts.get(name)
        if isinstance(start, _SEARCHED):
            return WarmStart(start._result.model, self.settings.refine_steps)
        return None if name in starts else self.towards.get(name)

    def _prepared(self, model: Any, rows: Rows) -> Any:
        """A copy of a model, with the mixture's levels and a seed of its own."""
        model = clone(model)
        known = model.get_params(deep=False)
        new: dict[str, Any] = {}
        if "categories" in known:
            new["categories"] = rows.categories
        if "random_state" in known and known["random_state"] is None:
            new["random_state"] = int(self.rng.randint(2**31 - 1))
        return model.set_params(**new)

    def _run(self, fits: list[Any], names: Any, note: str) -> Iterator[Any]:
        """Results of all fits, each reported when it is there."""
        began = time.perf_counter()
        alone = effective_n_jobs(self.n_jobs) == 1
        found = (f(*a, **k) for f, a, k in fits) if alone else Parallel(self.n_jobs)(fits)
        for number, (name, result) in enumerate(zip(names, found, strict=True), 1):
            seconds, text = time.perf_counter() - began, f"{name}{note}"
            self.report(Progress("model", number, len(fits), None, seconds, text))
            yield name, *result


def starts_towards(start: WarmStart) -> dict[str, WarmStart]:
    """Starts towards the models of a fitted mixture, by name; those without weight are not kept."""
    mixture = start.model
    kept = [name for name, w in zip(mixture.names, mixture.weights, strict=True) if w > 0]
    models = zip(kept, mixture.models, strict=True)
    return {
        name: replace(start, model=model._result.model)
        for name, model in models
        if isinstance(model, _SEARCHED)
    }


def _fit_one(model: Any, start: WarmStart | None, rows: Rows) -> tuple[Any, FloatArray | None, str]:
    """A fitted model with its leave-one-out probabilities, or the reason why there is none."""
    try:
        if start is not None and isinstance(model, _SEARCHED) and model.optimizer is not None:
            model._start = start
        with warnings.catch_warnings(), listening(silent):
            warnings.simplefilter("ignore", ConvergenceWarning)  # of searches: weights decide
            model.fit(rows.X, rows.labels, sample_weight=rows.weights)
        model.__dict__.pop("_start", None)
        return model, _left_out(model, rows), ""
    except Exception as error:  # whatever it is, the other models can do without this one
        return None, None, f"{type(error).__name__}: {error}"


def _left_out(model: Any, rows: Rows) -> FloatArray:
    """Leave-one-out probabilities of a model's training rows, in rank order; checked."""
    proba = np.zeros((len(rows.X), len(rows.categories)))
    proba[:, class_positions(rows.categories, model.classes_)] = model.loo_proba()
    new = np.asarray(model.category_proba(rows.X[:1]))
    if new.shape != (1, len(rows.categories)):
        raise ValueError(f"category_proba has {new.shape[1]} columns, not {proba.shape[1]}")
    if not (np.isfinite(proba).all() and np.isfinite(new).all() and (proba >= 0).all()):
        raise ValueError("its probabilities are not finite")
    return proba


def _left_out_of_all(found: Candidate, rows: Rows, at: IntArray) -> FloatArray:
    """Leave-one-out probabilities of all rows; ``at`` is their place in the fit, or -1."""
    if len(found.left_out) == len(rows.X):
        return found.left_out
    proba = np.empty((len(rows.X), len(rows.categories)))
    proba[at >= 0] = found.left_out[at[at >= 0]]
    if np.any(at < 0):
        proba[at < 0] = found.model.category_proba(rows.X[at < 0])
    return proba


def _log_score(proba: Any, rows: Rows) -> float:
    """Mean of minus the log probability of the rows' levels."""
    own = np.maximum(proba[np.arange(len(rows.codes)), rows.codes], np.finfo(float).tiny)
    return float(-np.average(np.log(own), weights=rows.weights))
