"""The choice between inducing points and neighbours, by rows held out of short fits.

Neighbours follow a rough function the better the more rows there are, so that a sample of rows says
little of them. Their short fit has all rows, but only near a few places, and some of these rows are
held out. Inducing points predict the same rows from a sample of all. The full fit of the better one
goes on from its short fit.
"""

import time
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.kernel_matrix import cross_covariance
from ordinalgp.core.search import Limits, Task
from ordinalgp.many_rows.block_evidence import BlockEvidence, Patch
from ordinalgp.many_rows.blocked_rows import LocalRows
from ordinalgp.many_rows.blocks import coordinates, feature_weights
from ordinalgp.many_rows.chunks import ArrayRows, Chunk
from ordinalgp.many_rows.induced_evidence import InducedTask
from ordinalgp.many_rows.inducing import greedy_points
from ordinalgp.many_rows.learned import Learned
from ordinalgp.many_rows.neighbour_stages import NeighbourStages
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.many_rows.stages import Stages, on_own_rows
from ordinalgp.models.training_rows import merge_rows
from ordinalgp.runtime.progress import Progress
from ordinalgp.validation.options import fit_generator


@dataclass(frozen=True, eq=False)
class Place:
    """The rows around a place, of which some are held out."""

    kept: IntArray
    held: IntArray

    @classmethod
    def around(cls, Z: FloatArray, centre: int, limits: ManyRowsSettings, rng: Any) -> Self:
        """Rows around one of them, in coordinates ``Z``; those held out are among the nearest."""
        size = min(limits.block_rows + limits.halo_rows, len(Z) - 1)
        distance = np.sum((Z - Z[centre]) ** 2, axis=1)
        near = np.argpartition(distance, size)[: size + 1]
        near = near[np.argsort(distance[near], kind="stable")]
        inner = rng.permutation(min(limits.block_rows, len(near)))
        held = np.isin(np.arange(len(near)), inner[: max(1, len(inner) // 4)])
        return cls(near[~held], near[held])


@dataclass(frozen=True, eq=False)
class Contest:
    """Short fits of both approximations to rows in memory."""

    points: Stages
    neighbours: NeighbourStages

    def winner(self) -> Stages | NeighbourStages:
        """The better one, to be fitted in full."""
        began, limits = time.perf_counter(), self.points.settings
        rng = fit_generator(self.points.options.search.random_state)
        rows = self._rows()
        stage = self.points.on_subset(rows.sample(limits.subset_rows, rng))
        first, points = stage.task, replace(self.points, first=stage)
        same = self.points.options.kernel is not None
        if same and self._explained(first, rows, rng):
            return points
        start = stage if same else self._searched(self.neighbours.starting_task(rows.rows, rng))
        places = self._places(start.task, rows, rng)
        near_places = [self._local(start.task, rows, place.kept) for place in places]
        climbed = self._climbed(start, near_places)
        held = np.concatenate([place.held for place in places])
        of_points = self._score_of_points(first, rows, held, rng)
        scores = of_points, self._score(climbed.task, rows, places)
        near = scores[1] < scores[0] - limits.choice_margin
        self._report(scores, len(held), near, time.perf_counter() - began)
        return replace(self.neighbours, first=climbed) if near else points

    def _rows(self) -> ArrayRows:
        """All rows that have weight."""
        every = self.neighbours.rows.rows
        used = np.flatnonzero(every.counts > 0)
        return ArrayRows(every.take(used), self.points.settings.chunk_rows)

    def _explained(self, first: Task, rows: ArrayRows, rng: Any) -> bool:
        """Whether the inducing points leave nothing unexplained, which is then the exact model."""
        most = self.points.points
        if not (self.points.auto and isinstance(most, int)):
            return False
        enough = self.points.settings.unexplained_variance * first.likelihood.noise**2
        X = rows.sample(self.points.settings.candidates_per_point * most, rng).X
        return len(greedy_points(first.kernel, X, most, enough)) < most

    # ------------------------------------------------------------------------ neighbours

    def _searched(self, start: Task) -> Learned:
        """A subset's task after a short search."""
        search, steps = self.neighbours.options.search, self.points.settings.choice_steps
        if search.optimizer is None:
            return Learned(start, None, float(start.counts.sum()))
        task, found = search.search_evidence(start, [start.theta], Limits(steps))
        return Learned.of(task, found, float(start.counts.sum()))

    def _places(self, task: Task, rows: ArrayRows, rng: Any) -> list[Place]:
        """Places of which no row is held out twice."""
        limits, X = self.points.settings, rows.rows.X
        Z = coordinates(X, feature_weights(task.kernel, task.X))
        centres = rng.choice(len(X), limits.choice_places)
        found = [Place.around(Z, centre, limits, rng) for centre in centres]
        held = np.unique(np.concatenate([place.held for place in found]))
        seen = np.zeros(len(X), dtype=bool)
        places = []
        for place in found:
            own = place.held[~seen[place.held]]
            seen[own] = True
            places.append(Place(np.setdiff1d(place.kept, held, assume_unique=True), own))
        return places

    def _local(self, task: Task, rows: ArrayRows, some: IntArray) -> LocalRows:
        """Some rows, equal ones merged."""
        part = rows.rows.take(some)
        merged = merge_rows(part.X, part.codes, part.counts, task.kernel)
        return LocalRows(merged.X, merged.latent, merged.codes, merged.counts)

    def _climbed(self, start: Learned, local: list[LocalRows]) -> Learned:
        """The hyperparameters after a short climb of the evidence at the places."""
        search, limits = self.neighbours.options.search, self.points.settings
        patches = tuple(Patch(rows, 0) for rows in local)
        evidence = BlockEvidence.like(start.task, patches=patches, n_jobs=search.n_jobs)
        if search.optimizer is None:
            return replace(start, task=evidence)
        ends = start.limits(limits.trial_steps, limits.refine_gain, evidence.n_rows)
        found = search.search(evidence, [evidence.theta], ends)
        return Learned.of(evidence, found, evidence.n_rows)

    def _score(self, task: BlockEvidence, rows: ArrayRows, places: list[Place]) -> float:
        """Log score of the rows held out, each predicted from the rows around its place."""
        found = []
        for patch, place in zip(task.patches, places, strict=True):
            local, X = patch.rows.task(task), rows.rows.X[place.held]
            posterior = local.infer(local.problem()).posterior
            cross = cross_covariance(task.kernel, X, patch.rows.X)
            found.append(posterior.predict(cross, task.kernel.diag(X)))
        mean, var = (np.concatenate([getattr(at, name) for at in found]) for name in _PARTS)
        held = np.concatenate([place.held for place in places])
        return _log_score(task.likelihood, Moments(mean, var), rows.rows.take(held))

    # ------------------------------------------------------------------------ inducing points

    def _score_of_points(self, first: Task, rows: ArrayRows, held: IntArray, rng: Any) -> float:
        """Log score of the same rows by inducing points and a sample of the others."""
        limits, rest = self.points.settings, np.ones(rows.n_rows, dtype=bool)
        rest[held] = False
        sample = ArrayRows(rows.rows.take(rest)).sample(limits.choice_rows, rng)
        Z = self.points.points
        if isinstance(Z, int):
            Z = sample.X[greedy_points(first.kernel, sample.X, min(Z, limits.choice_points))]
        task = InducedTask.like(first, Z).on(sample).relaxed()
        new = rows.rows.take(held)
        cross = cross_covariance(first.kernel, new.X, Z)
        found = on_own_rows(task)[0].predict(cross, first.kernel.diag(new.X))
        return _log_score(first.likelihood, found, new)

    def _report(self, scores: tuple[float, float], n: int, near: bool, seconds: float) -> None:
        words = f"log score of {n} held-out rows: {scores[0]:.3f} with inducing points"
        text = f"{words}, {scores[1]:.3f} with neighbours; {_NAMES[near]} chosen"
        self.points.options.search.report(Progress("model", 1, 1, None, seconds, text, True))


_PARTS = ("mean", "var")
_NAMES = ("inducing points", "neighbours")


def _log_score(likelihood: Any, at: Moments, rows: Chunk) -> float:
    """Mean of minus the log probability of the rows' levels."""
    logs = likelihood.log_expectation(rows.codes, at.mean, at.var).value
    return float(-np.average(logs, weights=rows.counts))
