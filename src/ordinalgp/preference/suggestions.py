"""Questions to ask next: greedy batches of pairs, by the information of their answers.

Two strategies measure it. The first is the mutual information of an observation y and its
u ~ N(mean, var), H[E p(y|u)] - E H[p(y|u)] (BALD, [Houlsby11]_). The first term is an entropy of
predictive probabilities. In the second, H[p(y|u)] is a bump of u about the noise wide around every
threshold. A sum of normal densities fits it, and the mean of each under another normal is one more
normal density. This is a closed form for all (mean, var), where quadrature over a wide posterior
would miss the narrow bump.

The second is the mutual information of two observations y and y' of jointly normal u and u' with
covariance c (expected predictive information gain, [Bickford23]_). By Price's theorem the
derivative of P(y, y') in c is d2P / dmean dmean', so P(y, y') = P P' + c dP dP' + O(c^2), and

    information = c^2 J J' / 2 + O(c^3),    J = sum over y of (dP / dmean)^2 / P,

where J is Fisher's information of an answer on its mean. Over observations u_k = a_k f of
f ~ N(., C) the squared covariances with u = a f add up to a (C L C) a', L = sum_k J_k a_k' a_k:
two matrix products serve for all pairs of items.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import ndtr, xlogy

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.problem import match
from ordinalgp.preference.ranking import differences

_SPACING = 0.6  # between the densities, in units of the noise; their width is the same
_REACH = 7.0  # distance, in units of the noise, at which a threshold's entropy is below 1e-10
_SMALLEST_PROBABILITY = 1e-12  # of a level that counts; the J of a rarer one is below 1e-10
_BLOCK = 2**15  # observations at a time: their temporaries stay in the cache
_REFRESHED_PAIRS = 2048  # pairs whose gain is computed again at a time

# ------------------------------------------------------------------------------- information


def _in_blocks(
    function: Callable[[FloatArray, FloatArray], FloatArray], mean: FloatArray, var: FloatArray
) -> FloatArray:
    """Evaluate ``function(mean, var)`` block by block, all shapes (m,)."""
    out = np.empty(len(mean))
    for i in range(0, len(mean), _BLOCK):
        part = slice(i, i + _BLOCK)
        out[part] = function(mean[part], var[part])
    return out


def _steps(values: FloatArray, last: float) -> FloatArray:
    """Differences of ``values`` along the last axis, with 0 before them and ``last`` after."""
    ends = np.zeros((*values.shape[:-1], 1))
    return np.diff(np.concatenate([ends, values, ends + last], axis=-1), axis=-1)


def _entropy(z: FloatArray) -> FloatArray:
    """Entropy (nats) of the levels cut at standardised thresholds ``z``, the last axis."""
    p = _steps(ndtr(z), 1.0)
    return np.asarray(-xlogy(p, p).sum(axis=-1))


@dataclass(frozen=True, eq=False)
class InformationGain:
    """Mutual information between u and the level of one observation of it, in nats."""

    thresholds: FloatArray
    noise: float
    centres: FloatArray
    heights: FloatArray

    @classmethod
    def of(cls, likelihood: OrdinalProbit) -> Self:
        """Fit the entropy of ``likelihood`` once, for any number of questions."""
        b, s = likelihood.thresholds, likelihood.noise
        u, centres = (_near(b, s, step) for step in (_SPACING / 3, _SPACING))
        bumps = np.exp(-0.5 * ((u[:, None] - centres) / (_SPACING * s)) ** 2)
        heights = np.linalg.lstsq(bumps, _entropy((b - u[:, None]) / s), rcond=1e-10)[0]
        return cls(b, s, centres, np.asarray(heights, dtype=np.float64))

    def __call__(self, at: Moments) -> FloatArray:
        """Information gain at posterior moments of u, of shape (m,)."""
        return _in_blocks(self._block, at.mean, at.var)

    def _block(self, mean: FloatArray, var: FloatArray) -> FloatArray:
        scale = np.sqrt(self.noise**2 + var)
        before = _entropy((self.thresholds - mean[:, None]) / scale[:, None])
        width = (_SPACING * self.noise) ** 2
        spread = width + var
        bumps = np.exp(-0.5 * (mean[:, None] - self.centres) ** 2 / spread[:, None])
        after = np.sqrt(width / spread) * (bumps @ self.heights)
        return np.maximum(before - after, 0.0)


def _near(b: FloatArray, noise: float, step: float) -> FloatArray:
    """Points ``step`` noises apart, wherever a threshold is within reach."""
    k = np.arange(-np.ceil(_REACH / step), np.ceil(_REACH / step) + 1)
    ticks = np.unique((np.round(b[:, None] / (step * noise)) + k).ravel())
    return ticks * (step * noise)


def answer_information(likelihood: OrdinalProbit, at: Moments) -> FloatArray:
    """Fisher's information J of an answer on the mean of u ~ N(mean, var), of shape (m,)."""

    def block(mean: FloatArray, var: FloatArray) -> FloatArray:
        s2 = likelihood.noise**2 + var
        z = (likelihood.thresholds - mean[:, None]) / np.sqrt(s2)[:, None]
        p, slope = _steps(ndtr(z), 1.0), _steps(np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi), 0.0)
        known = p > _SMALLEST_PROBABILITY
        return np.sum(np.where(known, slope**2, 0.0) / np.where(known, p, 1.0), axis=1) / s2

    return _in_blocks(block, at.mean, at.var)


def pair_predictive_information(J: FloatArray, covariance: FloatArray) -> FloatArray:
    """C L C for the differences of all pairs of items; ``J`` symmetric, both of shape (n, n).

    A question about a f has its own J times a (C L C) a' / 2 nats to tell of all of them. The
    diagonal of ``J``, an item beside itself, does not count.
    """
    laplacian = np.diag(J.sum(axis=0)) - J
    return covariance @ laplacian @ covariance


# ------------------------------------------------------------------------------- batches


def candidate_pairs(n_items: int, excluded: IntArray | None) -> tuple[IntArray, IntArray]:
    """All pairs of ``n_items`` items but the ``excluded``, given in either order."""
    left, right = np.triu_indices(n_items, 1)
    allowed = np.ones((n_items, n_items), dtype=bool)
    if excluded is not None:
        i, j = excluded.T
        allowed[i, j] = allowed[j, i] = False
    kept = allowed[left, right]
    return left[kept], right[kept]


@dataclass(frozen=True, eq=False)
class Questions:
    """Pairs of items that may be asked about, under the joint posterior of all utilities."""

    left: IntArray
    right: IntArray
    mean: FloatArray
    covariance: FloatArray
    likelihood: OrdinalProbit

    def moments(self, which: Any = slice(None)) -> Moments:
        """Moments of the difference of each pair ``which``."""
        return differences(self.mean, self.covariance, self.left[which], self.right[which])

    def expected_precision(self, which: int) -> float:
        """Precision that an answer about a pair adds to its difference, averaged over answers.

        It is that of EP's site. An answer not yet given moves the mean either way, but shrinks the
        variance by about the same whichever it is.
        """
        likelihood, levels = self.likelihood, np.arange(self.likelihood.n_levels)
        at = self.moments([which])
        spread = Moments(np.repeat(at.mean, len(levels)), np.repeat(at.var, len(levels)))
        sites = match(likelihood.log_expectation(levels, spread.mean, spread.var), spread)
        return float(likelihood.probabilities(at.mean, at.var)[0] @ sites.tau)

    def covariances(self, which: int) -> FloatArray:
        """Covariances of all utilities with the difference of a pair, (n,)."""
        found: FloatArray = self.covariance[:, self.left[which]]
        return found - self.covariance[:, self.right[which]]

    def answered(self, which: int) -> Self:
        """The posterior as an answer would shrink it: the mean stays, the covariance does not."""
        tau, column = self.expected_precision(which), self.covariances(which)
        var = column[self.left[which]] - column[self.right[which]]
        lost = np.outer(column * (tau / (1.0 + tau * max(var, 0.0))), column)
        return replace(self, covariance=self.covariance - lost)


def most_predictive(questions: Questions, n: int) -> IntArray:
    """Choose ``n`` pairs by the information of each answer on the outcomes of all pairs of items.

    Pairs are chosen one after the other, each as if those before it had been answered.
    """
    left, right, mean = questions.left, questions.right, questions.mean
    i, j = np.triu_indices(len(mean), 1)
    chosen: list[int] = []
    for _ in range(n):
        J = np.zeros_like(questions.covariance)
        at = differences(mean, questions.covariance, i, j)
        J[i, j] = J[j, i] = answer_information(questions.likelihood, at)
        shared = pair_predictive_information(J, questions.covariance)
        gains = J[left, right] * differences(mean, shared, left, right).var
        gains[chosen] = -np.inf
        chosen.append(int(np.argmax(gains)))
        questions = questions.answered(chosen[-1])
    return np.array(chosen, dtype=np.intp)


def most_informative(questions: Questions, n: int, refresh: int = _REFRESHED_PAIRS) -> IntArray:
    """Choose ``n`` pairs one after the other, each as if those before it had been answered.

    With two levels gains only fall: a stale gain is an upper bound, and few need to be computed
    again. With more levels a narrower posterior can make an answer more telling, and all are
    computed again.
    """
    gain_of = InformationGain.of(questions.likelihood)
    gains = gain_of(questions.moments())
    order = np.argsort(-gains, kind="stable")
    fresh = refresh if questions.likelihood.n_levels == 2 else len(order)
    chosen: list[int] = []
    while len(chosen) < n:
        best = _refreshed_best(questions, gain_of, gains, order, fresh)
        chosen.append(best)
        gains[best] = -np.inf
        questions = questions.answered(best)
        order = order[np.argsort(-gains[order], kind="stable")]
    return np.array(chosen, dtype=np.intp)


def _refreshed_best(
    questions: Questions, gain_of: InformationGain, gains: FloatArray, order: IntArray, fresh: int
) -> int:
    """Bring gains up to date from the top until none below can be larger; return the best."""
    best, top = -1, -np.inf
    for i in range(0, len(order), fresh):
        which = order[i : i + fresh]
        if gains[which[0]] <= top:
            break
        live = which[np.isfinite(gains[which])]
        gains[live] = gain_of(questions.moments(live))
        here = live[np.argmax(gains[live])]
        if gains[here] > top:
            best, top = int(here), float(gains[here])
    return best


STRATEGIES = {"information": most_informative, "prediction": most_predictive}
"""functions that choose pairs, by name"""
