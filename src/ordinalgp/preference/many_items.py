"""Comparisons of many items: sparse linear algebra in place of a matrix of items x items.

A comparison joins two items, so that the precision which comparisons add is sparse. If items have
no features, the prior is diagonal and nothing is approximated. Otherwise the function of the
features is represented by inducing items, chosen by pivoted Cholesky; what they leave of each
item's variance counts as a value of its own (FITC, [Snelson06]_). Hyperparameters then come from
the items with the most comparisons among each other.
"""

import heapq
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.gaussian_process.kernels import ConstantKernel, Product, Sum

from ordinalgp._typing import Axes, FloatArray, IntArray, Tagged
from ordinalgp.core.curvature import evidence_curvature
from ordinalgp.core.gaussian import Moments, Posterior, Sites
from ordinalgp.core.hyperparameters import n_free
from ordinalgp.core.kernel_matrix import cross_covariance, kernel_matrix
from ordinalgp.core.linalg import Workspace, factor_with_nugget, invert_lower, pivoted_cholesky
from ordinalgp.core.objectives import ep_evidence
from ordinalgp.core.problem import Problem, Start
from ordinalgp.core.projections import Differences
from ordinalgp.core.search import SearchResult, Step, Task
from ordinalgp.core.sparse_precision import (
    DiagonalPlusLowRank,
    ProjectionGraph,
    SparsePrecisionPosterior,
)
from ordinalgp.kernels import Independent
from ordinalgp.models.effects import Reference
from ordinalgp.models.exact import SearchSummary, SupportedModel, warn_unfinished
from ordinalgp.persistence import saved_as
from ordinalgp.preference.comparisons import Observations
from ordinalgp.runtime.progress import Progress, Report
from ordinalgp.validation.memory import check_memory

_SOLUTIONS = 256  # at a time
_MANY_ITEMS = 2000  # whose sweeps take long enough to be reported


@dataclass(frozen=True)
class ManyItemsSettings:
    """Sizes of the approximation for items with features."""

    search_items: int = 1000
    """items from which hyperparameters are learned"""
    inducing: int = 300
    """most items that represent the function of the features"""
    enough: float = 1e-3
    """share of an item's variance below which no further inducing items are needed"""


def most_compared(observed: Observations, most: int) -> tuple[IntArray, Observations]:
    """At most so many items with many comparisons among each other, and those comparisons.

    Items with the fewest comparisons are left out one after the other. This looks at who was
    compared, never at the outcomes.
    """
    left, right = observed.projection.matrix.indices.reshape(-1, 2).T  # type: ignore[attr-defined]
    n = observed.projection.shape[1]
    near: list[set[int]] = [set() for _ in range(n)]
    for a, b in zip(left.tolist(), right.tolist(), strict=True):
        near[a].add(b)
        near[b].add(a)
    queue = [(len(others), item) for item, others in enumerate(near)]
    heapq.heapify(queue)
    kept = np.ones(n, dtype=bool)
    remaining = n
    while remaining > most:
        size, item = heapq.heappop(queue)
        if not kept[item] or size != len(near[item]):
            continue
        kept[item] = False
        remaining -= 1
        for other in near[item]:
            near[other].discard(item)
            heapq.heappush(queue, (len(near[other]), other))
    inside = kept[left] & kept[right]
    place = np.cumsum(kept) - 1
    pairs = Differences(place[left[inside]], place[right[inside]], remaining)
    levels, codes, counts = observed.levels, observed.codes[inside], observed.counts[inside]
    return np.flatnonzero(kept), Observations(levels, pairs, codes, counts)


def tell_search(report: Report, n_items: int, some: int, n_comparisons: int) -> None:
    """Report the data of a search, which may be those of some items only."""
    who = f"{n_items} items" if some == n_items else f"the {some} most compared of {n_items} items"
    text = f"hyperparameters from {who}, {n_comparisons} distinct comparisons"
    report(Progress("pass", 1, 1, None, 0.0, text))


def split_own(kernel: Any) -> tuple[float, Any]:
    """Variance of the items' own values, and the rest of the kernel or None."""
    if isinstance(kernel, Independent):
        return 1.0, None
    if type(kernel) is Sum:
        (own, rest), (more, other) = split_own(kernel.k1), split_own(kernel.k2)
        parts = [part for part in (rest, other) if part is not None]
        return own + more, Sum(*parts) if len(parts) == 2 else next(iter(parts), None)
    if type(kernel) is Product:
        for constant, factor in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if type(constant) is ConstantKernel and isinstance(factor, Independent):
                return float(constant.constant_value), None
    return 0.0, kernel


@dataclass(frozen=True, eq=False)
class PriorParts:
    """Prior of the utilities: own values of variance ``own``, and the function of the features."""

    own: float
    smooth: Any
    """kernel of the function, or None"""
    Z: FloatArray
    """inducing items, (k, d)"""
    inverse_factor: FloatArray
    """L^-1 with kernel(Z) = L L', (k, k)"""

    @classmethod
    def of(cls, kernel: Any, Z: FloatArray) -> Self:
        """The prior of a kernel with these inducing items."""
        own, smooth = split_own(kernel)
        if smooth is None:
            return cls(own, None, Z[:0], np.zeros((0, 0)))
        return cls(own, smooth, Z, invert_lower(factor_with_nugget(kernel_matrix(smooth, Z))))

    def at(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Variances of own values, (n,), and features U of the function, (n, k)."""
        if self.smooth is None:
            return np.full(len(X), self.own), np.zeros((len(X), 0))
        root = cross_covariance(self.smooth, X, self.Z) @ self.inverse_factor.T
        left = self.smooth.diag(X) - np.einsum("nk,nk->n", root, root)
        return self.own + np.maximum(left, 0.0), root


def inducing_items(kernel: Any, X: FloatArray, settings: ManyItemsSettings) -> IntArray:
    """Rows of ``X`` that represent the function of the features; none if there is no function."""
    smooth = split_own(kernel)[1]
    if smooth is None:
        return np.empty(0, dtype=np.intp)
    diagonal = smooth.diag(X)

    def column(row: int) -> FloatArray:
        return cross_covariance(smooth, X, X[row : row + 1])[:, 0]

    enough = settings.enough * float(np.max(diagonal))
    return pivoted_cholesky(column, diagonal, settings.inducing, enough).pivots


@saved_as("task.many_items")
@dataclass(frozen=True, eq=False)
class ManyItemsTask(Task):
    """An evidence of comparisons, by sparse linear algebra; its gradient is the likelihood's."""

    inducing: Annotated[IntArray, Axes("P", 0, "N")] = field(
        default_factory=lambda: np.empty(0, dtype=np.intp)
    )
    """rows of X"""
    graph: ProjectionGraph | None = field(default=None, metadata={"saved": False})

    @classmethod
    def restored(cls, **saved: Any) -> Self:
        """From a file: the graph follows from the comparisons."""
        projection = saved["projection"]
        if not isinstance(projection, Differences) or projection.shape[1] != len(saved["X"]):
            raise ValueError("the comparisons and the items disagree")
        return cls(**saved, graph=ProjectionGraph.of(projection))

    @classmethod
    def like(cls, task: Task, inducing: IntArray, graph: ProjectionGraph) -> Self:
        """The same task with other linear algebra."""
        parts = {each.name: getattr(task, each.name) for each in fields(Task)}
        return cls(**parts, inducing=inducing, graph=graph)

    @property
    def prior(self) -> PriorParts:
        """The prior at the task's own hyperparameters."""
        return PriorParts.of(self.kernel, self.X[self.inducing])

    def problem(self, workspace: Workspace | None = None) -> Problem:
        """The inference problem at the task's own hyperparameters."""
        assert self.graph is not None
        K = DiagonalPlusLowRank(*self.prior.at(self.X), self.graph)
        return Problem(K, self.projection, self.y, self.likelihood, self.counts)

    def step(self, start: Start | None = None, workspace: Workspace | None = None) -> Step:
        """Approximate evidence, and its gradient where the kernel has no hyperparameters."""
        if n_free(self.kernel):
            raise ValueError(
                "solver='sparse' has no gradient in the hyperparameters of a kernel. Use "
                "solver='dense', which takes a few thousand items."
            )
        problem = self.problem()
        approximation = self.infer(problem, start)
        value = ep_evidence(problem, approximation).usable_value
        gradient = problem.theta_derivatives(approximation).value @ problem.counts
        curvature = partial(evidence_curvature, self.kernel, self.X, problem, approximation)
        return Step(value, gradient, approximation.start, approximation.converged, curvature)


@dataclass(frozen=True, eq=False)
class _WatchedProblem(Problem):
    """A problem that reports every sweep."""

    report: Any = None
    began: float = field(default_factory=time.perf_counter)
    sweeps: list[int] = field(default_factory=list)

    def condition(self, sites: Sites) -> Posterior:
        """Posterior under Gaussian sites."""
        self.sweeps.append(1)
        n, m = len(self.sweeps), len(self.y)
        seconds = time.perf_counter() - self.began
        text = f"inference, sweep {n} over {m} distinct comparisons ({seconds:.0f} s)"
        if len(self.K) > _MANY_ITEMS:
            self.report(Progress("pass", n, n, None, seconds, text))
        return super().condition(sites)


@dataclass(frozen=True, eq=False)
class _Queries:
    """Rows to predict: items of the fit by their place, and new ones by their prior."""

    place: IntArray
    """row among the items of the fit; -1 for new items, (k,)"""
    mean: FloatArray
    features: FloatArray
    """H with the covariance of own values + H H', (k, p)"""
    own: FloatArray
    """variance of a new item's own value; 0 for others, (k,)"""


@saved_as("model.many_items")
@dataclass(frozen=True, eq=False)
class ManyItemsGP(SupportedModel):
    """Utilities of many items, their posterior by sparse linear algebra."""

    task: Annotated[Any, Tagged("task")]
    sites: Sites
    summary: SearchSummary
    search_items: Annotated[int, Axes(low=1)]
    """number of items from which hyperparameters were learned"""
    posterior: SparsePrecisionPosterior = field(metadata={"saved": False})
    derives: ClassVar[bool] = True

    @classmethod
    def restored(
        cls, task: Any, sites: Sites, summary: SearchSummary, search_items: int, *, derive: bool
    ) -> Self:
        """The model, if asked for with its posterior derived; one factorisation."""
        if not isinstance(task, ManyItemsTask) or len(sites.tau) != len(task.y):
            raise ValueError("the comparisons and the rest of the model disagree")
        assert task.graph is not None
        check_memory(len(task.graph.order.core), n_matrices=4)
        posterior: Any = task.posterior(sites) if derive else None
        return cls(task, sites, summary, search_items, posterior)

    @classmethod
    def infer(
        cls, task: ManyItemsTask, found: SearchResult, search_items: int, report: Report
    ) -> Self:
        """Infer at the hyperparameters found."""
        plain = task.problem()
        parts = {each.name: getattr(plain, each.name) for each in fields(Problem)}
        problem = _WatchedProblem(**parts, report=report)
        final = task.infer(problem, found.start)
        warn_unfinished(task, final)
        value = ep_evidence(problem, final).usable_value + task.log_prior
        converged = bool(final.converged and found.converged)
        summary = SearchSummary(value, found.path, converged, final.n_sweeps)
        posterior: Any = final.posterior
        return cls(task, final.sites, summary, search_items, posterior)

    @property
    def residual_share(self) -> float:
        """Share of the variance of the function of the features that inducing items leave."""
        prior = self.task.prior
        if prior.smooth is None:
            return 0.0
        variance, _ = prior.at(self.task.X)
        return float(np.mean(variance - prior.own) / np.mean(prior.smooth.diag(self.task.X)))

    def _queries(self, X: FloatArray) -> _Queries:
        known = {(row + 0.0).tobytes(): at for at, row in enumerate(self.task.X)}
        place = np.array([known.get((row + 0.0).tobytes(), -1) for row in X], dtype=np.intp)
        posterior, new = self.posterior, place < 0
        mean, features, own = posterior.mean[place], posterior.features[place], np.zeros(len(X))
        if np.any(new):
            prior = self.task.prior
            own[new], root = prior.at(X[new])
            mean[new] = 0.0
            if root.shape[1]:
                _, trained = prior.at(self.task.X)
                mean[new] = root @ (trained.T @ posterior.weights)
                features[new] = root @ posterior.root_inverse.T
        return _Queries(place, mean, features, own)

    def latent(self, X: FloatArray) -> Moments:
        """Posterior moments of the utilities of rows."""
        at = self._queries(X)
        own = np.where(at.place < 0, at.own, self.posterior.own_variances[at.place])
        return Moments(at.mean, own + np.einsum("kp,kp->k", at.features, at.features))

    def joint(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Joint posterior mean and covariance of rows."""
        check_memory(len(X), n_matrices=4)
        at = self._queries(X)
        covariance = at.features @ at.features.T
        covariance += Independent()(X) * np.sqrt(np.outer(at.own, at.own))
        known = np.flatnonzero(at.place >= 0)
        for some in np.array_split(known, len(known) // _SOLUTIONS + 1):
            seen = np.zeros((len(self.task.X), len(some)))
            seen[at.place[some], np.arange(len(some))] = 1.0
            covariance[np.ix_(known, some)] += self.posterior.own(seen)[at.place[known]]
        return at.mean, (covariance + covariance.T) / 2

    def differences(self, rows: FloatArray, pairs: IntArray) -> Moments:
        """Posterior moments of the differences of pairs of rows."""
        at = self._queries(rows)
        i, j = pairs.T
        features = at.features[i] - at.features[j]
        var = np.einsum("mp,mp->m", features, features)
        var += np.where((rows[i] == rows[j]).all(axis=1), 0.0, at.own[i] + at.own[j])
        for start in range(0, len(pairs), _SOLUTIONS):
            block = slice(start, start + _SOLUTIONS)
            seen = self._seen(at.place[i[block]]) - self._seen(at.place[j[block]])
            var[block] += np.einsum("nm,nm->m", seen, self.posterior.own(seen))
        return Moments(at.mean[i] - at.mean[j], np.maximum(var, 0.0))

    def _seen(self, place: IntArray) -> FloatArray:
        """Columns that pick the items at these places; zero for new items, (N, m)."""
        known = np.flatnonzero(place >= 0)
        cells = np.ones(len(known)), (place[known], known)
        return sparse.csr_array(cells, shape=(len(self.task.X), len(place))).toarray()

    def draws(self, X: FloatArray, n: int, block: int, rng: Any) -> Iterator[NDArray[Any]]:
        """``n`` draws of the utilities of rows, about so many numbers at a time, (draws, rows)."""
        at = self._queries(X)
        N, p = len(self.task.X), at.features.shape[1]
        _, same = np.unique(X, axis=0, return_inverse=True)
        size = max(1, block // N)
        for start in range(0, n, size):
            k = min(size, n - start)
            own, shared = rng.standard_normal((N, k)), rng.standard_normal((p, k))
            f = self.posterior.own_draw(own)[at.place]
            new = np.flatnonzero(at.place < 0)
            if len(new):
                fresh = rng.standard_normal((int(same.max()) + 1, k))[same.ravel()[new]]
                f[new] = np.sqrt(at.own[new])[:, None] * fresh
            yield (at.mean[:, None] + f + at.features @ shared).T

    @property
    def reference(self) -> Reference:
        """The items, as often as each was compared."""
        counts = np.abs(self.task.projection.matrix).T @ self.task.counts
        return Reference(self.task.X, counts / counts.sum())

    def left_out(self) -> Moments:
        """Moments of every comparison without one copy of itself."""
        return self.task.left_out(self.posterior, self.sites)
