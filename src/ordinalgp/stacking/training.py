"""Fitting a mixture: all models on few rows, the better ones on more.

1. Up to ``full_rows`` different rows, every model is fitted on all of them.
2. Above, every model is fitted on a subset of ``screen_rows`` first. Those that would have next
   to no weight are dropped. The others are fitted on all rows; their searches begin at the
   subset's hyperparameters and take few steps.
3. Above ``exact_rows``, a subset of that many rows takes the place of all rows. Then models that
   can use inducing points or neighbours are fitted on all rows as well; sequential ones up to
   ``kept_rows``. Of
   both versions the one that predicts the other rows better is kept, and these rows choose the
   weights.

Equal rows are merged before anything else, so that weights equal copies. A place is the number of
a row among these different rows.
"""

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.gp import OrdinalGPClassifier
from ordinalgp.many_rows.approximations import asked
from ordinalgp.models.exact import WarmStart
from ordinalgp.runtime.progress import Progress, Report, listening, silent
from ordinalgp.runtime.warning import warn_user
from ordinalgp.sequential import SequentialOrdinalGP
from ordinalgp.stacking.directions import with_directions
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
    certain: float = 0.25
    """leave-one-out log score below which the models for certain rows are fitted too"""
    rounds: int = 3
    """fits that learn directions of the inputs"""
    more_rounds: int = 1
    """fits that learn directions from those of a subset"""
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
    """A fitted model, and its probabilities of training rows without themselves."""

    name: str
    model: Any
    places: IntArray
    """of the training rows, ascending"""
    left_out: FloatArray
    """probabilities of every level at the training rows without themselves"""

    def unseen(self, X: FloatArray, places: IntArray) -> FloatArray:
        """Probabilities of rows, each without itself; those without a place, -1, are new."""
        known = np.isin(places, self.places)
        proba = np.empty((len(X), self.left_out.shape[1]))
        proba[known] = self.left_out[np.searchsorted(self.places, places[known])]
        if not known.all():
            proba[~known] = self.model.category_proba(X[~known])
        return proba


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
    prior: dict[str, float] = field(default_factory=dict)
    """weights that the rows' weights are pulled towards, in proportion; 1 where none is given"""
    for_certain: tuple[str, ...] = ()
    """models that are fitted only where the others find left-out rows almost certain"""
    directed: tuple[str, ...] = ()
    """models whose kernels compare rows along learned directions; the first one learns them"""
    towards: dict[str, WarmStart] = field(default_factory=dict)
    """fits towards which searches begin that would begin at the usual start"""

    def fit(self, rows: Rows) -> MixtureModel:
        """Fit the models, and mix them."""
        different, places = rows.merged()
        every = np.arange(len(different.X))
        if len(every) <= self.settings.exact_rows:
            found, judges = self._on_few(different, every), every
        else:
            inside = different.drawn(self.settings.exact_rows, self.rng)
            subset = different.take(inside)
            small = self._on_few(subset, inside)
            small = self._of_use(small, subset, self.settings.least_weight)
            large = self._on_many(small, different)
            outside = np.setdiff1d(every, inside)
            judges = np.sort(self.rng.permutation(outside)[: self.settings.judge_rows])
            found = self._better(small, large, different.take(judges), judges)
        judge = different.take(judges)
        return self._mixture(found, judge, self._unseen(found, judge, judges), rows, places)

    def _on_few(self, rows: Rows, places: IntArray) -> list[Candidate]:
        """Models of all these rows; those that a subset finds useless are not fitted."""
        limits = self.settings
        if len(rows.X) <= limits.full_rows:
            return self._fit_first(rows, places)
        drawn = rows.drawn(limits.screen_rows, self.rng)
        subset, note = rows.take(drawn), f" on {limits.screen_rows} rows"
        found = self._fit_first(subset, places[drawn], note)
        # As many rows as there are in all, with the subset's predictions.
        scale = float(np.sum(rows.weights) / np.sum(subset.weights))
        scaled = replace(subset, weights=scale * subset.weights)
        found = self._of_use(found, scaled, limits.screen_weight)
        return self._fit_again(found, rows, places)

    def _fit_first(self, rows: Rows, places: IntArray, note: str = "") -> list[Candidate]:
        """All models; those for certain rows only if the others say that rows are certain."""
        usual = {name: m for name, m in self.models.items() if name not in self.for_certain}
        found = self._fit_all(usual, rows, places, note=note)
        tables = [each.left_out for each in found]
        mean = _mean(self._weights(found, tables, rows), tables)
        more = {name: self.models[name] for name in self.for_certain if name in self.models}
        if more and _log_score(mean, rows) < self.settings.certain:
            found += self._fit_all(more, rows, places, note=note, fatal=False)
        return found

    def _of_use(self, found: list[Candidate], rows: Rows, least: float) -> list[Candidate]:
        """Models with at least this weight in the mixture of their training rows."""
        weights = self._weights(found, [each.left_out for each in found], rows)
        least = min(least, float(np.max(weights)))
        return [each for each, weight in zip(found, weights, strict=True) if weight >= least]

    def _on_many(self, small: list[Candidate], rows: Rows) -> list[Candidate]:
        """Models of all rows, more than an exact model takes; where a subset's are of use."""
        found = [each for each in small if self._can_take(each.model, len(rows.X))]
        every, note = np.arange(len(rows.X)), f" on all {len(rows.X)} rows"
        return self._fit_again(found, rows, every, note, fatal=False)

    def _can_take(self, model: Any, n_rows: int) -> bool:
        """Whether a model can be fitted on so many rows, and leave each of them out."""
        known = n_rows <= self.settings.kept_rows or not isinstance(model, SequentialOrdinalGP)
        if not isinstance(model, _SEARCHED):
            return False
        words = asked(model.approximation, model.inducing, model.neighbours)
        return known and "exact" not in words

    def _better(
        self, small: list[Candidate], large: list[Candidate], judge: Rows, judges: IntArray
    ) -> list[Candidate]:
        """Of the versions of each model, the one that predicts the rows ``judge`` better."""
        best: dict[str, tuple[float, Candidate]] = {}
        versions = [*small, *large]
        for each, proba in zip(versions, self._unseen(versions, judge, judges), strict=True):
            score = _log_score(proba, judge)
            if each.name not in best or score < best[each.name][0]:
                best[each.name] = score, each
        return [each for _, each in best.values()]

    def _unseen(self, found: list[Candidate], rows: Rows, places: IntArray) -> list[FloatArray]:
        """Probabilities by each of the models of rows, each row without itself."""
        return [each.unseen(self._seen(each.name, rows).X, places) for each in found]

    def _mixture(
        self,
        found: list[Candidate],
        judge: Rows,
        judged: list[FloatArray],
        rows: Rows,
        places: IntArray,
    ) -> MixtureModel:
        """The mixture whose weights predict the rows ``judge`` best, from predictions of them."""
        fitted = self._weights(found, judged, judge)
        fitted[fitted < min(self.settings.least_weight, float(np.max(fitted)))] = 0.0
        fitted /= np.sum(fitted)
        mean = _mean(fitted, judged)
        exponent = 1.0  # a single model is as cautious as it is
        if np.sum(fitted > 0) > 1:
            exponent = sharpness(mean, judge.codes, judge.weights)
        left_out = np.empty((0, len(rows.categories)))
        if len(rows.X) <= self.settings.kept_rows:
            left_out = sharpened(_mean(fitted, self._unseen(found, rows, places)), exponent)
        by_name = {each.name: w for each, w in zip(found, fitted, strict=True)}
        weights = np.array([by_name.get(name, 0.0) for name in self.models])
        self._report_weights(dict(zip(self.models, weights, strict=True)))
        kept = [each for each in found if by_name[each.name] > 0]
        return MixtureModel(
            names=tuple(self.models),
            weights=weights,
            models=tuple(each.model for each in kept),
            views=tuple(self._view(each.name) for each in kept),
            inputs=self.inputs,
            left_out=left_out,
            sharpness=exponent,
            log_score=_log_score(sharpened(mean, exponent), judge),
        )

    def _view(self, name: str) -> View:
        return self.views.get(name, "standardised")

    def _seen(self, name: str, rows: Rows) -> Rows:
        """Rows as a model sees them."""
        if self.inputs is None:
            return rows
        return replace(rows, X=self.inputs.seen(rows.X, self._view(name)))

    def _report_weights(self, weights: dict[str, float]) -> None:
        shown = ", ".join(f"{name} {w:.2f}" for name, w in weights.items() if w > 0)
        n = len(weights)
        self.report(Progress("model", n, n, None, 0.0, f"weights: {shown}", done=True))

    def _weights(self, found: list[Candidate], tables: list[FloatArray], rows: Rows) -> FloatArray:
        """Weights of models with these probabilities of the rows, each row left out."""
        own = np.arange(len(rows.codes)), rows.codes
        proba = np.column_stack([table[own] for table in tables])
        prior = np.array([self.prior.get(each.name, 1.0) for each in found])
        return mixture_weights(proba, rows.weights, self.shrinkage, prior)

    def _fit_all(
        self,
        models: dict[str, Any],
        rows: Rows,
        places: IntArray,
        starts: dict[str, Any] | None = None,
        note: str = "",
        *,
        fatal: bool = True,
    ) -> list[Candidate]:
        """Fit each of the models; those that fail are left out, with a warning."""
        found, failed, fits = [], [], []
        starts = starts or {}
        if len(rows.X) <= self.settings.exact_rows:
            models, starts = self._directed(models, rows, starts)
        for name, model in models.items():
            start = self._start_of(name, starts)
            fits.append(
                delayed(_fit_one)(self._prepared(model, rows), start, self._seen(name, rows))
            )
        for name, model, left_out, problem in self._run(fits, models, note):
            if problem:
                failed.append(f"{name!r} ({problem})")
            else:
                found.append(Candidate(name, model, places, left_out))
        if failed and not found and fatal:
            raise ValueError(f"None of the models could be fitted: {'; '.join(failed)}.")
        if failed:
            warn_user(f"Models that failed have no weight: {'; '.join(failed)}.", UserWarning)
        return found

    def _directed(
        self, models: dict[str, Any], rows: Rows, starts: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Models with directions learned from the rows, and starts of the others."""
        names = [name for name in self.directed if name in models]
        if not names:
            return models, starts
        others = {name: start for name, start in starts.items() if name not in names}
        known = next((starts[name].kernel for name in names if name in starts), None)
        rounds = self.settings.rounds if known is None else self.settings.more_rounds
        first = self.directed[0]
        learner, seen = self._prepared(self.models[first], rows), self._seen(first, rows)
        with contextlib.suppress(Exception):  # then the models take what directions there are
            learner = quietly(with_directions, learner, seen, rounds, known)
        new = {name: clone(models[name]).set_params(kernel=learner.kernel) for name in names}
        return models | new, others

    def _fit_again(
        self,
        found: list[Candidate],
        rows: Rows,
        places: IntArray,
        note: str = "",
        *,
        fatal: bool = True,
    ) -> list[Candidate]:
        """Fit models of a subset to more rows, from the hyperparameters found there."""
        models = {each.name: self.models[each.name] for each in found}
        starts = {each.name: each.model for each in found}
        return self._fit_all(models, rows, places, starts, note, fatal=fatal)

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
        quietly(model.fit, rows.X, rows.labels, sample_weight=rows.weights)
        model.__dict__.pop("_start", None)
        return model, _left_out(model, rows), ""
    except Exception as error:  # whatever it is, the other models can do without this one
        return None, None, f"{type(error).__name__}: {error}"


def quietly(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call without reports, or warnings that a search has not converged: weights decide."""
    with warnings.catch_warnings(), listening(silent):
        warnings.simplefilter("ignore", ConvergenceWarning)
        return call(*arguments, **options)


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


def _mean(weights: FloatArray, tables: list[FloatArray]) -> FloatArray:
    """Weighted mean of probabilities of the same rows."""
    return np.asarray(sum(w * table for w, table in zip(weights, tables, strict=True)))


def _log_score(proba: Any, rows: Rows) -> float:
    """Mean of minus the log probability of the rows' levels."""
    own = np.maximum(proba[np.arange(len(rows.codes)), rows.codes], np.finfo(float).tiny)
    return float(-np.average(np.log(own), weights=rows.weights))
