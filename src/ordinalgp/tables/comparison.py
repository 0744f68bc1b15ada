"""Comparison of models on one table by cross-validation, with the same folds for all of them."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.metrics.row_losses import row_losses
from ordinalgp.runtime.progress import Progress, Report, listening, reporter, silent
from ordinalgp.runtime.threads import one_thread_everywhere
from ordinalgp.tables.cells import BadInput, BadRows, Table, gaps
from ordinalgp.tables.contenders import (
    Contender,
    TrainingRows,
    contenders,
    quietly,
    rows_of,
    unique,
)
from ordinalgp.tables.encoding import parse_columns
from ordinalgp.tables.folds import Folds, copies, group_numbers, make_folds
from ordinalgp.tables.frames import as_table, label_values
from ordinalgp.tables.summary import SCORES
from ordinalgp.validation.labels import encode_levels
from ordinalgp.validation.options import check_whole

_ABOUT_AS_FAST = 1.5  # ratio of times below which they are called about equal
_NAMED_TIES = 3  # models within one standard error that the recommendation names


def compare(
    X: Any,
    y: Any,
    *,
    models: Any = None,
    categories: Any = None,
    cv: Any = 5,
    repeats: int = 1,
    groups: Any = None,
    nominal: Sequence[str] = (),
    numeric: Sequence[str] = (),
    max_rows: int | None = 2000,
    n_jobs: int | None = None,
    random_state: Any = 0,
    verbose: int = 0,
) -> "Comparison":
    """Compare models of this package with usual ones by cross-validation.

    All models predict the same held-out rows. Each learns the encoding of the columns and chooses
    its settings inside the training rows of a fold.

    Parameters
    ----------
    X : DataFrame, Table, dict of columns or list of dicts
        The features.
    y : array-like of shape (n_samples,)
        Ordered levels.
    models : sequence of str, or dict, default=None
        Names of models: "auto" (the mixture that ``ordinalgp fit`` makes), "gp", "sequential",
        "laplace", "least-squares" and "sparse" of this package, and "logistic",
        "ordinal-logistic", "forest", "boosting", "catboost" and "frequencies". None is all but
        "laplace", "least-squares" and "sparse". A dict maps names to classifiers of the user,
        which get the encoded features and ranks from 0; None as a value is the model of that name.
    categories : sequence, default=None
        Levels from lowest to highest. None takes them from an ordered categorical, or sorts
        numbers.
    cv : int, splitter or iterable, default=5
        Number of folds, each with nearly the same shares of the levels; or scikit-learn's splits.
    repeats : int, default=1
        Number of times that an integer ``cv`` is repeated, with other folds.
    groups : array-like of shape (n_samples,), default=None
        Group of each row, such as a person; rows of one group are never split.
    nominal, numeric : sequences of str, default=()
        Columns that are nominal or numeric whatever their cells look like.
    max_rows : int, default=2000
        Number of rows above which a random sample of so many is used; None uses all.
    n_jobs : int, default=None
        Number of fits at a time, by joblib.
    random_state : int, RandomState instance or None, default=0
        Seed of the sample, of the folds and of the models.
    verbose : int, default=0
        1 prints every fit on the error stream.

    Returns
    -------
    Comparison
        Scores with standard errors, times, probabilities and a recommendation.

    Notes
    -----
    The logistic regressions choose their penalty, the forest (500 trees) the least size of its
    leaves, and the boosting its rounds and leaves, by the log score over three inner folds.
    Boosting and CatBoost get nominal columns and gaps as they are; the others get the encoded
    features. A level that the training rows of a fold lack gets a probability of 1 / (n + 1) from
    models that cannot predict it. Times are processor times of one thread.

    Standard errors are those of the mean difference between two models over the rows, or over the
    groups. They do not include that other training rows would give other models.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp.tables import compare
    >>> hours = np.linspace(0, 10, 60)
    >>> grades = np.digitize(hours + np.sin(7 * hours), [3, 7])
    >>> names = ["gp", "logistic", "frequencies"]
    >>> result = compare({"hours": hours}, grades, models=names, cv=3)
    >>> [row["model"] for row in result.table()][-1]
    'frequencies'
    >>> result.probabilities["gp"].shape
    (60, 3)
    """
    plan = ComparisonPlan.of(
        X,
        y,
        models=models,
        categories=categories,
        cv=cv,
        repeats=repeats,
        groups=groups,
        nominal=nominal,
        numeric=numeric,
        max_rows=max_rows,
        random_state=random_state,
    )
    outcomes: list[Outcome] = []
    plan.run(outcomes, n_jobs, reporter(verbose))
    return plan.result(outcomes)


@dataclass(frozen=True, eq=False)
class Outcome:
    """Predictions of the held-out rows of one fold by one model, or the reason of a failure."""

    model: str
    fold: int
    seconds: float
    """processor time of the fit"""
    proba: FloatArray | None = None
    failure: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ComparisonPlan:
    """Rows, folds and models of a comparison."""

    table: Table
    """parsed features"""
    codes: IntArray
    categories: NDArray[Any]
    units: IntArray
    """numbers of the rows, equal ones where rows belong together"""
    groups: IntArray | None
    folds: Folds
    models: dict[str, Contender]
    seed: int
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        *,
        models: Any = None,
        categories: Any = None,
        cv: Any = 5,
        repeats: int = 1,
        groups: Any = None,
        nominal: Sequence[str] = (),
        numeric: Sequence[str] = (),
        max_rows: int | None = 2000,
        random_state: Any = 0,
    ) -> "ComparisonPlan":
        """Check the arguments of :func:`compare`, draw the sample and make the folds."""
        check_whole("repeats", repeats, least=1)
        if max_rows is not None:
            check_whole("max_rows", max_rows, least=4)
        chosen = contenders(models)
        table, bad = parse_columns(as_table(X), nominal, numeric)
        BadRows().drop(table, bad)
        if not table.columns:
            told = " ".join(table.left_out.values())
            raise BadInput(f"None of the columns can be used as a feature. {told}")
        labels, order = label_values(y)
        levels = encode_levels(labels, order if categories is None else categories)
        if len(levels.codes) != len(table):
            raise ValueError(f"X has {len(table)} rows, but y has {len(levels.codes)}.")
        rng = check_random_state(random_state)
        numbers = None if groups is None else group_numbers(groups, len(table))
        units = copies(table, levels.codes) if numbers is None else numbers
        notes = tuple(table.left_out.values())
        table = replace(table, left_out={})
        plan = cls(table, levels.codes, levels.categories, units, numbers, [], chosen, 0, notes)
        plan = plan._sampled(max_rows, rng)
        seed = int(rng.randint(2**31 - 1000))
        return replace(plan, folds=plan._split(cv, repeats, seed), seed=seed)

    def _sampled(self, max_rows: int | None, rng: Any) -> "ComparisonPlan":
        """At most ``max_rows`` rows, in whole groups."""
        n = len(self.codes)
        if max_rows is None or n <= max_rows:
            return self
        place = rng.permutation(int(self.units.max()) + 1)[self.units]
        order = np.argsort(place, kind="stable")
        # The unit that would pass the limit stays out, with those after it.
        kept = np.sort(
            order[np.isin(place[order], np.unique(place[order[max_rows:]]), invert=True)]
        )
        if not len(kept):
            raise BadInput(
                f"One group has more than the {max_rows} rows of the sample. Allow more."
            )
        note = f"{len(kept):,} of {n:,} rows, drawn at random."
        groups = None if self.groups is None else self.groups[kept]
        parts = rows_of(self.table, kept), self.codes[kept], self.units[kept]
        table, codes, units = parts
        units = np.unique(units, return_inverse=True)[1].ravel()
        return replace(
            self, table=table, codes=codes, units=units, groups=groups, notes=(*self.notes, note)
        )

    def _split(self, cv: Any, repeats: int, seed: int) -> Folds:
        if isinstance(cv, int | np.integer):
            check_whole("cv", cv, least=2)
            table = self.table if self.groups is None else None
            rounds = [
                make_folds(self.codes, int(cv), self.groups, table, seed + at)
                for at in range(repeats)
            ]
            return [fold for each in rounds for fold in each]
        splits = check_cv(cv, self.codes, classifier=True).split(
            np.zeros((len(self.codes), 1)), self.codes, self.groups
        )
        return [(np.sort(train), np.sort(test)) for train, test in splits]

    @property
    def usable(self) -> dict[str, Contender]:
        """Models whose packages are installed."""
        return {name: model for name, model in self.models.items() if model.absent is None}

    def run(self, outcomes: list["Outcome"], n_jobs: int | None, report: Report = silent) -> None:
        """Add every outcome to a list, fold by fold, so that an interrupt keeps the others."""
        failed: set[str] = set()
        total, started = len(self.folds) * len(self.usable), time.perf_counter()

        def jobs() -> Iterator[Any]:
            for fold in range(len(self.folds)):
                for name in self.usable:
                    if name not in failed:
                        yield delayed(self.outcome)(name, fold)

        if not self.usable:
            reasons = "; ".join(f"{name} {m.absent}" for name, m in self.models.items())
            raise ImportError(f"None of the models can be used: {reasons}.")
        workers = min(effective_n_jobs(n_jobs), total)
        parallel = Parallel(workers, return_as="generator_unordered", pre_dispatch="n_jobs")
        for outcome in parallel(jobs()):
            outcomes.append(outcome)
            if outcome.failure is not None:
                failed.add(outcome.model)
            report(self._progress(outcome, len(outcomes), total, time.perf_counter() - started))

    def _progress(self, outcome: "Outcome", step: int, total: int, seconds: float) -> Progress:
        where = f"fold {outcome.fold + 1} of {len(self.folds)}"
        text = f"{where}: {self.models[outcome.model].label}, {outcome.seconds:.1f} s"
        value = None
        if outcome.proba is None:
            text += f", failed: {outcome.failure}"
        else:
            test = self.folds[outcome.fold][1]
            value = float(row_losses(self.codes[test], outcome.proba)["log_score"].mean())
            text += f", log score {value:.3f}"
        return Progress("model", step, total, value, seconds, text, step == total)

    def outcome(self, name: str, fold: int) -> "Outcome":
        """Fit one model to the training rows of a fold and predict the others."""
        train, test = self.folds[fold]
        started = time.process_time()  # which does not grow with what else is running
        try:
            with one_thread_everywhere(), listening(silent):
                predict, warned = quietly(lambda: self.models[name].learn(self._training(train)))
                seconds = time.process_time() - started
                p, also = quietly(lambda: predict(rows_of(self.table, test)))
                check_proba(p, len(test), len(self.categories))
        except Exception as error:  # a model that fails must not stop the others
            seconds = time.process_time() - started
            return Outcome(name, fold, seconds, failure=_reason(error))
        return Outcome(name, fold, seconds, p, warnings=unique(warned + also))

    def _training(self, train: IntArray) -> TrainingRows:
        """Training rows of a fold, without columns that have no values there."""
        table = rows_of(self.table, train)
        empty = [name for name, cells in table.columns.items() if gaps(cells).all()]
        groups = None if self.groups is None else self.groups[train]
        kept = table.without(empty)
        return TrainingRows(kept, self.codes[train], len(self.categories), groups, self.seed)

    def result(self, outcomes: Sequence["Outcome"]) -> "Comparison":
        """Result of the folds that all models have finished."""
        failures = {o.model: o.failure for o in outcomes if o.failure is not None}
        absent = {name: m.absent for name, m in self.models.items() if m.absent is not None}
        done = {(o.model, o.fold): o for o in outcomes if o.model not in failures}
        left = [name for name in self.usable if name not in failures]
        folds = [k for k in range(len(self.folds)) if all((name, k) in done for name in left)]
        notes = self.notes
        if not folds and done:  # interrupted in the first fold
            folds = [min(fold for _, fold in done)]
            left = [name for name in left if (name, folds[0]) in done]
        if len(folds) < len(self.folds):
            notes += (f"Interrupted: {len(folds)} of {len(self.folds)} folds are complete.",)
        finished = {name: [done[name, fold] for fold in folds] for name in left if folds}
        for name, parts in finished.items():
            notes += self._warned(name, parts)
        tests = [self.folds[fold][1] for fold in folds]
        none = np.empty(0, dtype=np.intp)
        rows = np.concatenate([none, *tests])
        order = np.argsort(rows, kind="stable")
        number = np.repeat(np.arange(len(folds)), [len(test) for test in tests])
        return Comparison(
            categories=self.categories,
            codes=self.codes,
            units=self.units,
            rows=rows[order],
            folds=number[order],
            probabilities={
                name: np.vstack([np.asarray(part.proba) for part in parts])[order]
                for name, parts in finished.items()
            },
            fit_seconds={
                name: np.array([part.seconds for part in parts]) for name, parts in finished.items()
            },
            labels={name: self.models[name].label for name in finished},
            ours=tuple(name for name in finished if self.models[name].ours),
            failures={name: str(reason) for name, reason in (failures | absent).items()},
            notes=notes,
        )

    def _warned(self, name: str, parts: Sequence["Outcome"]) -> tuple[str, ...]:
        count = sum(bool(part.warnings) for part in parts)
        if not count:
            return ()
        first = next(text for part in parts for text in part.warnings)
        label = self.models[name].label
        return (f"{label}: {count} of {len(parts)} fits gave warnings, for example: {first}",)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scores of several models on the same held-out rows; the result of :func:`compare`.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp.tables import compare
    >>> x = np.linspace(-2, 2, 60)
    >>> grades = np.digitize(x, [-0.7, 0.7])
    >>> result = compare({"x": x}, grades, models=["gp", "frequencies"], cv=3)
    >>> [row["name"] for row in result.table()]  # the best first
    ['Gaussian process', 'level frequencies']
    """

    categories: NDArray[Any]
    """levels in rank order"""
    codes: IntArray
    """rank of each row, (n,)"""
    units: IntArray
    """numbers of the rows, equal ones where rows belong together, (n,)"""
    rows: IntArray
    """row of each held-out prediction, ascending, (m,)"""
    folds: IntArray
    """fold of each held-out prediction, (m,)"""
    probabilities: dict[str, FloatArray]
    """held-out probabilities in rank order by model, (m, r)"""
    fit_seconds: dict[str, FloatArray]
    """processor times of the fits by model, (n_folds,)"""
    labels: dict[str, str]
    """names for people"""
    ours: tuple[str, ...]
    """models of this package"""
    failures: dict[str, str]
    """reasons why models are absent"""
    notes: tuple[str, ...] = ()

    @property
    def scores(self) -> dict[str, str]:
        """Scores and their names; lower is better in all of them."""
        return dict(SCORES)

    @cached_property
    def losses(self) -> dict[str, dict[str, FloatArray]]:
        """Losses of each model by score, one per row, the mean if a row was held out often."""
        seen, place = np.unique(self.rows, return_inverse=True)
        counts = np.bincount(place.ravel(), minlength=len(seen))
        return {
            name: {
                score: np.bincount(place.ravel(), values, len(seen)) / counts
                for score, values in row_losses(self.codes[self.rows], p).items()
            }
            for name, p in self.probabilities.items()
        }

    @cached_property
    def _means(self) -> dict[str, dict[str, float]]:
        return {
            name: {score: float(values.mean()) for score, values in each.items()}
            for name, each in self.losses.items()
        }

    @property
    def models(self) -> list[str]:
        """Models, the lowest log score first."""
        return sorted(self._means, key=lambda name: self._means[name]["log_score"])

    def difference(self, model: str, other: str, score: str) -> tuple[float, float]:
        """Mean of a score of one model minus that of another, and its standard error.

        Rows that belong together, by ``groups`` or as copies, count as one.
        """
        values = self.losses[model][score], self.losses[other][score]
        if not all(np.isfinite(each).all() for each in values):
            return self._means[model][score] - self._means[other][score], float("nan")
        away = values[0] - values[1]
        return float(away.mean()), clustered_error(away, self.units[np.unique(self.rows)])

    def table(self) -> list[dict[str, Any]]:
        """One row per model, the lowest log score first.

        Each score is followed by its difference from the best model of that score and by the
        standard error of this difference; the best has zeros.
        """
        best = {
            score: min(self._means, key=lambda name: self._means[name][score])
            for score in (SCORES if self._means else ())
        }
        rows = []
        for name in self.models:
            row: dict[str, Any] = {"model": name, "name": self.labels[name]}
            for score in SCORES:
                away, error = (0.0, 0.0)
                if name != best[score]:
                    away, error = self.difference(name, best[score], score)
                row |= {score: self._means[name][score], f"{score}_difference": away}
                row[f"{score}_se"] = error
            row["fit_seconds"] = float(self.fit_seconds[name].mean())
            rows.append(row)
        return rows

    @property
    def beats_frequencies(self) -> bool:
        """Whether the best log score is over one standard error below the frequencies'."""
        if "frequencies" not in self.models:
            return True
        away, error = self.difference("frequencies", self.models[0], "log_score")
        return not away <= error  # an infinite difference has no standard error

    @property
    def recommendation(self) -> str:
        """One sentence on the model with the lowest log score and on those as good as it."""
        return recommend(self) if self.probabilities else "No model has finished."


def recommend(result: Comparison) -> str:
    """Sentence on the best model by log score, ties included."""
    names = result.models
    best, rest = names[0], names[1:]
    away = {name: result.difference(name, best, "log_score") for name in rest}
    ties = [name for name in rest if away[name][0] <= away[name][1]]
    if not result.beats_frequencies:
        return (
            "No model predicts better than the level frequencies by more than one standard error: "
            "these columns say little about the level."
        )
    start = f"{_the(result, best, start=True)} has the lowest log score"
    if not rest:
        return f"{start}, and no other model was compared."
    if ties:
        told = f"{start}; {_ties(result, best, ties)}"
    else:
        told = f"{start}; {_the(result, rest[0])} {_behind(away[rest[0]])}"
        mine = next((name for name in rest if name in result.ours), None)
        if best not in result.ours and mine not in (None, rest[0]):
            name = _the(result, str(mine))
            told += f"; the best of ordinalgp, {name}, {_behind(away[str(mine)])}"
    if rest[0] != "frequencies" and _by_chance(away.get("frequencies")):
        difference, error = away["frequencies"]
        told += f"; even the level frequencies are only {difference:.3f} ± {error:.3f} behind"
    return f"{told}."


def _by_chance(away: tuple[float, float] | None) -> bool:
    """Whether a difference is below two of its standard errors."""
    return away is not None and away[0] <= 2 * away[1]


def _ties(result: Comparison, best: str, ties: list[str]) -> str:
    """Clause on models within one standard error, the fastest with its ratio of times."""
    times = {name: float(np.median(result.fit_seconds[name])) for name in (best, *ties)}
    fastest = min(ties, key=times.__getitem__)
    speed = _speed(times[best], times[fastest])
    if len(ties) == 1:
        return f"{_the(result, ties[0])} is within one standard error and {speed}"
    shown = [_the(result, name) for name in ties[:_NAMED_TIES]]
    if len(ties) > _NAMED_TIES:
        shown.append(f"{len(ties) - _NAMED_TIES} more")
    told = f"{', '.join(shown[:-1])} and {shown[-1]} are within one standard error"
    if not speed.endswith("faster"):
        return told
    return f"{told}, of which {_the(result, fastest)} is {speed}"


def _behind(away: tuple[float, float]) -> str:
    """Distance from the best model in words."""
    difference, error = away
    if not np.isfinite(difference):
        return "gave a level that occurred no probability at all"
    chance = ", which chance may explain" if _by_chance(away) else ""
    return f"is {difference:.3f} ± {error:.3f} behind{chance}"


def _the(result: Comparison, name: str, *, start: bool = False) -> str:
    """Name of a model inside a sentence, or at its start."""
    label = result.labels[name]
    bare = name not in result.ours or label.endswith("Bayes")
    text = label if bare else f"the {label}"
    return text[0].upper() + text[1:] if start else text


def _speed(best: float, other: float) -> str:
    ratio = max(best, other, 1e-9) / max(min(best, other), 1e-9)
    if ratio < _ABOUT_AS_FAST:
        return "about as fast"
    shown = f"{ratio:.1f}" if ratio < 10 else f"{float(f'{ratio:.2g}'):,.0f}"
    return f"{shown} times {'faster' if other < best else 'slower'}"


def clustered_error(values: FloatArray, units: IntArray) -> float:
    """Standard error of the mean of values, where those of one unit may depend on each other."""
    numbers = np.unique(units, return_inverse=True)[1].ravel()
    sums = np.bincount(numbers, values - values.mean())
    if len(sums) < 2:
        return float("nan")
    return float(np.sqrt(len(sums) / (len(sums) - 1) * np.sum(sums**2)) / len(values))


def check_proba(p: Any, n: int, n_levels: int) -> None:
    """Raise unless these are probabilities of every row and level."""
    if np.shape(p) != (n, n_levels) or not np.isfinite(p).all():
        raise ValueError("its probabilities are not finite numbers, one per row and level")
    if np.any(p < 0) or np.any(np.abs(np.sum(p, axis=1) - 1) > 1e-5):
        raise ValueError("its probabilities are negative or do not sum to one")


def _reason(error: Exception) -> str:
    """First line of an error, with its kind where the message alone says little."""
    lines = str(error).strip().splitlines()
    known = isinstance(error, ValueError | ImportError) and lines
    return lines[0] if known else ": ".join([type(error).__name__, *lines[:1]])
