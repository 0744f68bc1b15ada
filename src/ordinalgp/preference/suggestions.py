"""Which pairs to ask about next: greedy batches by what their answers would tell."""

from dataclasses import dataclass

import numpy as np

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.problem import match
from ordinalgp.preference.information import InformationGain
from ordinalgp.preference.predictive_information import (
    answer_information,
    pair_predictive_information,
)

_REFRESHED_PAIRS = 2048  # pairs whose gain is computed again at a time


def differences(mean: FloatArray, covariance: FloatArray, i: IntArray, j: IntArray) -> Moments:
    """Moments of f[i] - f[j] for jointly normal f."""
    own = np.diagonal(covariance)
    var = own[i] + own[j] - 2 * covariance[i, j]
    return Moments(mean[i] - mean[j], np.maximum(var, 0.0))


@dataclass(frozen=True, eq=False)
class Candidates:
    """Pairs of items that may be asked about."""

    left: IntArray
    right: IntArray

    @classmethod
    def among(cls, n_items: int, excluded: IntArray) -> "Candidates":
        """All pairs of ``n_items`` items but the ``excluded``, given in either order."""
        left, right = np.triu_indices(n_items, 1)
        allowed = np.ones((n_items, n_items), dtype=bool)
        allowed[excluded[:, 0], excluded[:, 1]] = allowed[excluded[:, 1], excluded[:, 0]] = False
        kept = allowed[left, right]
        return cls(left[kept], right[kept])

    def moments(self, mean: FloatArray, covariance: FloatArray, which: IntArray) -> Moments:
        """Moments of the difference of each pair ``which``."""
        return differences(mean, covariance, self.left[which], self.right[which])


def most_predictive(
    pairs: Candidates,
    mean: FloatArray,
    covariance: FloatArray,
    likelihood: OrdinalProbit,
    n: int,
) -> IntArray:
    """Choose ``n`` pairs by what each answer tells of the outcomes of all pairs of the items.

    One after the other, each as if those before it had been answered; see `most_informative`.
    """
    covariance = covariance.copy()
    i, j = np.triu_indices(len(mean), 1)
    chosen: list[int] = []
    for _ in range(n):
        at = differences(mean, covariance, i, j)
        J = np.zeros_like(covariance)
        J[i, j] = J[j, i] = answer_information(likelihood, at.mean, at.var)
        told = differences(
            mean, pair_predictive_information(J, covariance), pairs.left, pairs.right
        ).var
        gains = J[pairs.left, pairs.right] * told
        gains[chosen] = -np.inf
        best = int(np.argmax(gains))
        chosen.append(best)
        _answer(pairs, mean, covariance, likelihood, best)
    return np.array(chosen, dtype=np.intp)


def most_informative(
    pairs: Candidates,
    mean: FloatArray,
    covariance: FloatArray,
    likelihood: OrdinalProbit,
    n: int,
    refresh: int = _REFRESHED_PAIRS,
) -> IntArray:
    """Choose ``n`` pairs one after the other, each as if those before it had been answered.

    An answer not yet given moves the mean either way but shrinks the variance by about the same
    whichever it is, so the mean stays and only the covariance is updated. With two levels gains
    then only fall: a stale gain is an upper bound, and few need to be computed again. With more
    levels a narrower posterior can make an answer more telling, and all are computed again.
    """
    gain_of = InformationGain.of(likelihood)
    everything = np.arange(len(pairs.left))
    at = pairs.moments(mean, covariance, everything)
    gains = gain_of(at.mean, at.var)
    order = np.argsort(-gains, kind="stable")
    fresh = refresh if likelihood.n_levels == 2 else len(order)
    covariance = covariance.copy()
    chosen: list[int] = []
    while len(chosen) < n:
        best = _freshest(pairs, mean, covariance, gain_of, gains, order, fresh)
        chosen.append(best)
        gains[best] = -np.inf
        _answer(pairs, mean, covariance, likelihood, best)
        order = order[np.argsort(-gains[order], kind="stable")]
    return np.array(chosen, dtype=np.intp)


def _freshest(
    pairs: Candidates,
    mean: FloatArray,
    covariance: FloatArray,
    gain_of: InformationGain,
    gains: FloatArray,
    order: IntArray,
    fresh: int,
) -> int:
    """Bring gains up to date from the top until none below can be larger; return the best."""
    best, top = -1, -np.inf
    for i in range(0, len(order), fresh):
        which = order[i : i + fresh]
        if gains[which[0]] <= top:
            break
        live = which[np.isfinite(gains[which])]
        if len(live):
            at = pairs.moments(mean, covariance, live)
            gains[live] = gain_of(at.mean, at.var)
            here = live[np.argmax(gains[live])]
            if gains[here] > top:
                best, top = int(here), float(gains[here])
    return best


def _answer(
    pairs: Candidates,
    mean: FloatArray,
    covariance: FloatArray,
    likelihood: OrdinalProbit,
    which: int,
) -> None:
    """Shrink ``covariance`` in place as an answer would, by EP's site averaged over answers."""
    at = pairs.moments(mean, covariance, np.array([which]))
    levels = np.arange(likelihood.n_levels)
    spread = Moments(np.repeat(at.mean, len(levels)), np.repeat(at.var, len(levels)))
    sites = match(likelihood.log_expectation(levels, spread.mean, spread.var), spread)
    tau = float(likelihood.probabilities(at.mean, at.var)[0] @ sites.tau)
    column = covariance[:, pairs.left[which]] - covariance[:, pairs.right[which]]
    covariance -= np.outer(column * (tau / (1.0 + tau * at.var[0])), column)
