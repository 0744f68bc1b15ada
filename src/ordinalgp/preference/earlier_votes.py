"""Comparisons of an earlier fit, to which others are added."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.gaussian import Sites
from ordinalgp.core.problem import Start
from ordinalgp.core.projections import Differences
from ordinalgp.core.search import Task
from ordinalgp.preference.comparisons import Judges, Outcomes
from ordinalgp.preference.judges import JudgedComparisons, JudgePrior
from ordinalgp.validation.labels import class_positions, label_values, show

_WITH_TIES = np.array([-1, 0, 1])


@dataclass(frozen=True, eq=False)
class EarlierVotes:
    """Comparisons that a model was fitted to, and its hyperparameters."""

    model: Any
    levels: NDArray[Any]
    pairs: IntArray
    """(M, 2)"""
    warm: bool = True
    """whether the utilities can be a start as well"""

    @classmethod
    def of(cls, model: Any, levels: NDArray[Any]) -> Self:
        """The comparisons of a fitted model."""
        projection = model.task.projection
        if not isinstance(projection, Differences):
            raise ValueError(
                "partial_fit adds comparisons of two items, but the last fit was fit_relations. "
                "Call fit_relations with all relations."
            )
        return cls(model, levels, np.column_stack(projection.sides))

    @property
    def items(self) -> FloatArray:
        """The items compared so far."""
        found: FloatArray = self.model.task.X
        return found

    @property
    def kernel(self) -> Any:
        """Kernel with the hyperparameters found."""
        return self.model.kernel

    def names_with(self, known: NDArray[Any], names: NDArray[Any]) -> NDArray[Any]:
        """Names of all items, the new ones at the end."""
        new = names[class_positions(known, names) < 0]
        if len(new) == 0:
            return known
        kinds = {"text" if values.dtype.kind in "OUS" else "numbers" for values in (known, new)}
        if len(kinds) > 1:
            raise ValueError(
                f"Names of items must be of one kind, but known ones are {show(known)} and new "
                f"ones {show(new)}. Give all as strings, or all as numbers."
            )
        return np.concatenate([known, new])

    def levels_for(self, outcomes: Any, levels: Any) -> Any:
        """Levels of old and new outcomes: with ties where either has them."""
        plain = outcomes is not None and np.array_equal(levels, [-1, 1])
        if plain:
            values = label_values(outcomes, "outcomes")
            if values.dtype.kind == "b":
                return None
            return _WITH_TIES if np.any(values == 0) else levels
        return levels

    def joined(self, judges: Judges | None, new: Outcomes) -> tuple[Outcomes, Judges | None]:
        """Outcomes and judges of the old comparisons, then of the new ones."""
        task, old = self.model.task, self.model.likelihood
        codes = class_positions(new.levels, self.levels)[task.y]
        if np.any(codes < 0):
            raise ValueError(
                f"Outcomes so far are {show(self.levels)}, but levels are now {show(new.levels)}. "
                "Keep the levels, or fit to all comparisons."
            )
        outcomes = Outcomes(
            new.levels,
            np.concatenate([codes, new.codes]),
            np.concatenate([task.counts, new.weights]),
        )
        if isinstance(old, JudgedComparisons) != (judges is not None):
            have, lack = ("new", "earlier") if judges is not None else ("earlier", "new")
            raise ValueError(
                f"The {have} comparisons have judges, but the {lack} ones do not. Give judges "
                "always or never."
            )
        if judges is None:
            return outcomes, None
        names, place = np.unique(np.concatenate([old.judges, judges.names]), return_inverse=True)
        n = len(old.judges)
        return outcomes, Judges(names, np.concatenate([place[:n][old.by], place[n:][judges.by]]))

    def anew(self) -> Self:
        """The same for some of the items, of which nothing but hyperparameters is a start."""
        return replace(self, warm=False)

    def task(self, task: Task) -> Task:
        """The task at the hyperparameters found before, as far as it has the same."""
        old = getattr(self.model.likelihood, "each", self.model.likelihood)
        if old.theta.shape != task.likelihood.theta.shape:
            return task
        return replace(task, likelihood=task.likelihood.clone_with_theta(old.theta))

    def with_factors(self, task: Task) -> Task:
        """The task with the factors of judges that are known."""
        old, new = self.model.likelihood, task.likelihood
        place = class_positions(old.judges, new.judges)
        factors = np.where(place < 0, 0.0, old.log_factors[place])
        prior: JudgePrior = self.model.task.hyperprior
        return replace(task, likelihood=replace(new, log_factors=factors), hyperprior=prior)

    def start(self, n_items: int) -> Start | None:
        """Weights of the utilities, zero for new items."""
        if not self.warm:
            return None
        weights = np.zeros(n_items)
        known = self.model.posterior.weights
        weights[: len(known)] = known
        return Start(Sites.flat(0), weights)
