"""Comparisons by several judges, each with a noise of its own.

Judge j adds noise of the standard deviation noise * exp(x_j), with x_j ~ N(0, spread^2). So the
noise of the typical judge is ``noise``, and a judge with few votes is taken for a typical one. The
factors are hyperparameters: a search maximises the evidence plus the log density of all x_j.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ordinalgp._typing import FINITE, LABELS, POSITIVE, Axes, FloatArray, IntArray, Tagged
from ordinalgp.core.gaussian import Posterior
from ordinalgp.core.likelihoods import Likelihood, OrdinalProbit, Smoothed, ThetaDerivatives
from ordinalgp.core.posterior import Moments
from ordinalgp.core.problem import Start, match
from ordinalgp.core.search import SearchResult, Task, climb_by_metric
from ordinalgp.core.truncated_normal import Interval, cut_normal
from ordinalgp.persistence import saved_as
from ordinalgp.preference.symmetric_thresholds import LEAST_CURVATURE, SymmetricProbit
from ordinalgp.runtime.progress import Report

_SPREAD, _SPREAD_WEIGHT = 0.5, 4.0  # before any judge is known, and for how many judges it counts
_BOUNDS = (-5.0, 5.0)  # of x_j
_ROUNDS, _SETTLED = 6, 0.05  # of the search with a new spread, and its relative change at the end


@dataclass(frozen=True, eq=False)
class RowsAndGroups:
    """A matrix (p + J, M): p rows, and one row whose entries belong to J groups of columns."""

    rows: FloatArray
    """(p, M)"""
    row: FloatArray
    """(M,)"""
    group: IntArray
    """of each column, (M,)"""
    n_groups: int

    def __matmul__(self, v: FloatArray) -> FloatArray:
        """Matrix times vector."""
        groups = np.bincount(self.group, self.row * v, self.n_groups)
        return np.concatenate([self.rows @ v, groups])

    def __mul__(self, v: Any) -> "RowsAndGroups":
        """Columns times the entries of a vector, or all times a number."""
        return replace(self, rows=self.rows * v, row=self.row * v)

    __rmul__ = __mul__

    def __add__(self, other: "RowsAndGroups") -> "RowsAndGroups":
        return replace(self, rows=self.rows + other.rows, row=self.row + other.row)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        """Return the whole matrix."""
        groups = np.zeros((self.n_groups, len(self.row)))
        groups[self.group, np.arange(len(self.row))] = self.row
        return np.concatenate([self.rows, groups])


@saved_as("likelihood.judged")
@dataclass(frozen=True, eq=False)
class JudgedComparisons(Likelihood):
    """Graded comparisons, each with the noise of its judge. theta = [that of one, all x_j]."""

    each: Annotated[Any, Tagged("likelihood")]
    """a `SymmetricProbit`: of the typical judge"""
    judges: Annotated[NDArray[Any], Axes("judges", kinds=LABELS)]
    log_factors: Annotated[FloatArray, Axes("judges", *FINITE)]
    by: Annotated[IntArray, Axes("by", 0, "judges")]
    """judge of each observation"""

    @classmethod
    def restored(cls, **saved: Any) -> Self:
        """From a file."""
        if not isinstance(saved["each"], SymmetricProbit):
            raise ValueError("judges need the probit likelihood")
        return cls(**saved)

    # Predictions are for the typical judge.

    @property
    def noise(self) -> float:
        """Noise of one item for the typical judge."""
        return float(self.each.noise)

    @property
    def margins(self) -> FloatArray:
        """Thresholds without the bias."""
        return np.asarray(self.each.margins)

    @property
    def bias(self) -> float:
        """Advantage of the left side."""
        return float(self.each.bias)

    @property
    def unit(self) -> float:
        """Prior standard deviation of a utility at the start."""
        return float(self.each.unit)

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return int(self.each.n_levels)

    @property
    def spelled_out(self) -> Any:
        """The threshold model of the typical judge."""
        return self.each.spelled_out

    def probabilities(self, mean: FloatArray, var: FloatArray) -> FloatArray:
        """P(y) of every level for the typical judge, shape (m, n_levels)."""
        return np.asarray(self.each.probabilities(mean, var))

    @property
    def theta(self) -> FloatArray:
        """[theta of one comparison, log factors]."""
        return np.concatenate([self.each.theta, self.log_factors])

    @property
    def bounds(self) -> FloatArray:
        """Search bounds of theta, shape (p + J, 2)."""
        return np.concatenate([self.each.bounds, np.tile(_BOUNDS, (len(self.judges), 1))])

    @property
    def bias_place(self) -> int:
        """Place of the bias in theta, if it is there."""
        return len(self.each.theta) - 1

    def clone_with_theta(self, theta: FloatArray) -> Self:
        """Return the same likelihood with other parameters."""
        p = len(theta) - len(self.judges)
        each = self.each.clone_with_theta(theta[:p])
        return replace(self, each=each, log_factors=np.asarray(theta[p:], dtype=float))

    def of_rows(self, rows: Any) -> Self:
        """The likelihood of some observations."""
        return replace(self, by=self.by[rows])

    @property
    def squares(self) -> FloatArray:
        """Squared noise factor of each observation."""
        return np.exp(2.0 * self.log_factors)[self.by]

    def _shifted(self, var: FloatArray) -> FloatArray:
        """The variance that makes the typical judge's noise that of each observation's judge."""
        return var + self.spelled_out.noise**2 * (self.squares - 1.0)

    def log_expectation(self, y: IntArray, mean: FloatArray, var: FloatArray) -> Smoothed:
        """Log probability of the levels ``y`` for u ~ N(mean, var)."""
        found: Smoothed = self.spelled_out.log_expectation(y, mean, self._shifted(var))
        return found

    def theta_derivatives(
        self, y: IntArray, mean: FloatArray, var: FloatArray, known: Smoothed | None = None
    ) -> ThetaDerivatives:
        """Derivatives in theta: a factor acts on its judge's rows as the common noise does."""
        inner = self.spelled_out.theta_derivatives(y, mean, self._shifted(var), known)
        squares = self.squares
        for part in (inner.value, inner.d1, inner.d2):
            part[0] *= squares  # d log s / d log noise has the noise of the judge
        chained = self.each.chained(inner)
        parts = zip(
            (chained.value, chained.d1, chained.d2), (inner.value, inner.d1, inner.d2), strict=True
        )
        split = [RowsAndGroups(all_, own[0], self.by, len(self.judges)) for all_, own in parts]
        return ThetaDerivatives(*split)  # type: ignore[arg-type]

    def information(self, y: IntArray, u: FloatArray) -> "Information":
        """Minus the second derivatives of log p(y|u), edges taken as linear in theta and u."""
        probit: OrdinalProbit = self.spelled_out
        s = probit.noise * np.sqrt(self.squares)
        cut = cut_normal(*probit.edges(y, u, s))
        return Information.of(self, y, cut, s)


@dataclass(frozen=True, eq=False)
class Information:
    """Curvature of single observations in [log noise of its judge, thresholds, u].

    A symmetric matrix for each of M observations, of which the parts are kept.
    """

    likelihood: JudgedComparisons
    noise_noise: FloatArray
    """(M,)"""
    noise_cuts: FloatArray
    """(r - 1, M)"""
    cuts_cuts: tuple[FloatArray, FloatArray]
    """diagonals, (r - 1, M), and neighbours, (r - 2, M)"""
    noise_u: FloatArray
    cuts_u: FloatArray

    @classmethod
    def of(cls, likelihood: JudgedComparisons, y: IntArray, cut: Interval, s: FloatArray) -> Self:
        """From the cut normal distributions."""
        z_lo, z_hi = cut.mean - cut.below, cut.mean + cut.above
        low = cut.lo_density * (cut.lo_density - z_lo)
        high = cut.hi_density * (cut.hi_density + z_hi)
        cross = -cut.lo_density * cut.hi_density
        low_along, high_along = low * z_lo + cross * z_hi, cross * z_lo + high * z_hi
        r, every = likelihood.n_levels, np.arange(len(y))
        noise_cuts, diagonal, cuts_u = np.zeros((3, r + 1, len(y)))
        for at, along, own, other in ((y, low_along, low, cross), (y + 1, high_along, high, cross)):
            noise_cuts[at, every] = -along / s
            diagonal[at, every] = own / s**2
            cuts_u[at, every] = -(own + other) / s**2
        neighbours = np.zeros((r, len(y)))
        neighbours[y, every] = cross / s**2
        return cls(
            likelihood,
            low_along * z_lo + high_along * z_hi,
            noise_cuts[1:-1],
            (diagonal[1:-1], neighbours[1:-1]),
            (low_along + high_along) / s,
            cuts_u[1:-1],
        )

    def in_theta(self, counts: FloatArray) -> FloatArray:
        """Sum over observations, in [log noise, thresholds, log factors], (r + J, r + J)."""
        r, J, by = len(self.noise_cuts) + 1, len(self.likelihood.judges), self.likelihood.by
        total = np.zeros((r + J, r + J))
        noise = np.bincount(by, counts * self.noise_noise, J)
        mixed = np.array([np.bincount(by, counts * row, J) for row in self.noise_cuts])
        total[0, 0], total[0, r:] = noise.sum(), noise
        total[0, 1:r], total[1:r, r:] = mixed.sum(axis=1), mixed
        total[1:r, 1:r] = np.diag(self.cuts_cuts[0] @ counts)
        total[1:r, 1:r] += np.diag(self.cuts_cuts[1] @ counts, 1)
        total = np.triu(total) + np.triu(total, 1).T
        total[r:, r:] = np.diag(noise)
        return total

    def with_u(self, counts: FloatArray) -> RowsAndGroups:
        """Each observation's curvature in u and each of [log noise, thresholds, log factors]."""
        likelihood, noise = self.likelihood, counts * self.noise_u
        rows = np.concatenate([noise[None], counts * self.cuts_u])
        return RowsAndGroups(rows, noise, likelihood.by, len(likelihood.judges))


@saved_as("hyperprior.judges")
@dataclass(frozen=True)
class JudgePrior:
    """Independent x_j ~ N(0, spread^2) for the log noise factors of the judges."""

    spread: Annotated[float, Axes("", *POSITIVE)]

    def log_density(self, kernel: Any, likelihood: JudgedComparisons) -> tuple[float, FloatArray]:
        """Log density, and its gradient in [kernel.theta, likelihood.theta]."""
        x, precision = likelihood.log_factors, self.spread**-2.0
        constant = 0.5 * len(x) * np.log(precision / (2 * np.pi))
        before = np.zeros(kernel.n_dims + len(likelihood.each.theta))
        return float(constant - 0.5 * precision * (x @ x)), np.concatenate([before, -precision * x])


def judged(task: Task, judges: NDArray[Any], by: IntArray) -> Task:
    """The task with a noise factor for each judge, all one at the start."""
    likelihood = JudgedComparisons(task.likelihood, judges, np.zeros(len(judges)), by)
    return replace(task, likelihood=likelihood, hyperprior=JudgePrior(_SPREAD))


def curvature(task: Task, posterior: Posterior) -> FloatArray:
    """Minus the curvature of the objective in the likelihood's theta, near enough.

    The information of the comparisons, less what the utilities take up of it, and the precision of
    the prior. See `vote_search` for the scale of all utilities.
    """
    likelihood, A = task.likelihood, task.projection
    each, p = likelihood.each, len(likelihood.each.theta)
    found = likelihood.information(task.y, A.apply(posterior.mean))
    probit, J = likelihood.spelled_out, len(likelihood.judges)
    r = probit.n_levels
    cuts = np.zeros((r, r))  # from [log noise, thresholds] to theta of the threshold model
    cuts[0, 0], cuts[1:, 1] = 1.0, probit.unit
    cuts[1:, 2:] = np.tril(np.ones((r - 1, r - 2)), -1) * probit.gaps
    chain = np.zeros((r + J, p + J))
    chain[:r, :p], chain[r:, p:] = cuts @ each.jacobian(), np.eye(J)
    own, mixed = chain.T @ found.in_theta(task.counts) @ chain, found.with_u(task.counts)
    shared = np.column_stack([A.adjoint(row) for row in mixed.rows])
    left, right = A.sides  # type: ignore[attr-defined]
    n, by = A.shape[1], mixed.group
    groups = np.bincount(left * J + by, mixed.row, n * J)
    groups = (groups - np.bincount(right * J + by, mixed.row, n * J)).reshape(n, J)
    shared = np.column_stack([shared, groups]) @ chain
    total = own - shared.T @ posterior.covary(shared)
    if each.free_noise:
        scale = np.concatenate([each.scale_direction, np.zeros(J)])
        dual = scale / (scale @ scale)
        total += (posterior.weights @ posterior.mean) * np.outer(dual, dual)
    total.flat[: p * (p + J + 1) : p + J + 1] += LEAST_CURVATURE
    total.flat[p * (p + J + 1) :: p + J + 1] += task.hyperprior.spread**-2.0  # type: ignore[union-attr]
    return np.asarray((total + total.T) / 2)


def search_judges(
    task: Task, report: Report, first: Start | None = None
) -> tuple[Task, SearchResult]:
    """Maximise the evidence of judged comparisons; learn the spread of the judges as well."""
    mode = replace(task, objective="laplace evidence")
    posterior = mode.infer(mode.problem(), first).posterior
    u = task.projection.apply(posterior.mean)
    at = Moments(u, np.zeros_like(u))
    sites = match(task.likelihood.log_expectation(task.y, at.mean, at.var), at)
    start, metric = Start(sites, posterior.weights), curvature(task, posterior)
    J, path = len(task.likelihood.judges), np.empty(0)
    for _ in range(_ROUNDS):
        found = climb_by_metric(task, metric, start, report)
        if not np.isfinite(found.value):
            break
        path = np.concatenate([path, found.path])
        task, start = task.at(found.theta), found.start
        problem = task.relaxed().problem()
        metric = curvature(task, task.infer(problem, start).posterior)
        x, var = task.likelihood.log_factors, np.diagonal(np.linalg.inv(metric))[-J:]
        total = np.sum(x**2 + var) + _SPREAD_WEIGHT * _SPREAD**2
        last: Any = task.hyperprior
        spread = float(np.sqrt(total / (J + _SPREAD_WEIGHT)))
        if abs(np.log(spread / last.spread)) <= _SETTLED:
            break
        metric.flat[(len(metric) - J) * (len(metric) + 1) :: len(metric) + 1] += (
            spread**-2.0 - last.spread**-2.0
        )
        task = replace(task, hyperprior=JudgePrior(spread))
    return task, replace(found, path=path)


@dataclass(frozen=True, eq=False)
class Reliability:
    """Noise factors of judges, the most careful one first.

    All arrays have one entry for each judge.

    Examples
    --------
    >>> from ordinalgp import PreferenceGP
    >>> games = [(0, 1), (1, 2), (0, 2)] * 20
    >>> careful, careless = [1] * 60, [1, -1] * 30
    >>> judges = ["Ann"] * 60 + ["Bob"] * 60
    >>> model = PreferenceGP("independent").fit(3, games * 2, careful + careless, judges=judges)
    >>> found = model.judge_reliability()
    >>> found.judges.tolist(), found.votes.tolist()
    (['Ann', 'Bob'], [60.0, 60.0])
    >>> bool(found.high[0] < found.factor[1])
    True
    """

    judges: NDArray[Any]
    factor: FloatArray
    """noise of the judge, in units of the typical judge's"""
    low: FloatArray
    high: FloatArray
    votes: FloatArray
    """number of comparisons, weights included"""


def reliability(task: Task, posterior: Posterior, coverage: float) -> Reliability:
    """Noise factors with intervals of a normal density of their logarithms."""
    likelihood = task.likelihood
    x, J = likelihood.log_factors, len(likelihood.judges)
    sd = np.sqrt(np.diagonal(np.linalg.inv(curvature(task, posterior)))[-J:])
    half = ndtri(0.5 + coverage / 2) * sd
    votes = np.bincount(likelihood.by, task.counts, J).astype(float)
    order = np.argsort(x, kind="stable")
    columns = np.exp(x), np.exp(x - half), np.exp(x + half), votes
    return Reliability(likelihood.judges[order], *(column[order] for column in columns))
