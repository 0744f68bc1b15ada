"""Forecast of how many more answers settle the best items, from the posterior.

The k items with the largest means are *settled* as far as they are the k best. Their certainty is
the probability that one of them is, averaged over the k. An item that judges can hardly tell from
the k-th best is as good as one of them, so that nobody is asked for ever about equal items.

To look ahead, true utilities are drawn from the posterior. Each draw then answers the pairs that
would be asked: an answer about a f is a Gaussian observation of it with the precision that answers
have on average. All draws share the covariances, so that a step is one update of the covariance,
and one of the mean of every draw. The forecast is the median over draws of the first step at which
their best items are settled.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from ordinalgp._typing import FloatArray
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.linalg import square_root
from ordinalgp.preference.suggestions import Questions

SETTLED = 0.9
"""certainty at which the best items count as settled"""
_LEAD = 0.2  # of the better of two items that can hardly be told apart, in shares of answers
_FUTURES = 50  # draws of the true utilities
_DRAWS = 50  # of the utilities as they seem then, for every future
_STEPS_PER_DOUBLING = 6  # of the number of answers, at which certainty is computed


@dataclass(frozen=True)
class Outlook:
    """Certainty of the best items now, and the answers that it takes to settle them."""

    top: int
    """number of best items"""
    certainty: float
    """mean probability that one of them belongs to the best"""
    remaining: int | None
    """about so many more answers until they are settled; None if that is not to be expected from
    any number of the pairs that are left"""
    beyond: bool = False
    """whether it takes more than ``remaining`` answers"""

    @property
    def settled(self) -> bool:
        """Whether the best items are settled."""
        return self.certainty >= SETTLED


def hardly_different(likelihood: OrdinalProbit) -> float:
    """Difference of utilities that gives the better item six answers of ten, and the other four.

    With ties the better item has a fifth of the answers more than the other.
    """
    half = likelihood.n_levels // 2

    def lead(difference: float) -> float:
        p = likelihood.probabilities(np.array([difference]), np.zeros(1))[0]
        return float(p[-half:].sum() - p[:half].sum()) - _LEAD

    widest = 10 * likelihood.noise + float(np.max(np.abs(likelihood.thresholds)))
    return float(brentq(lead, 0.0, widest))


def certainties(means: FloatArray, residuals: FloatArray, top: int, slack: float) -> FloatArray:
    """Mean probability that an item of the ``top`` largest is one of them, for each row of means.

    Utilities are a row of ``means``, (futures, n), plus one of ``residuals``, (draws, n). What is
    below the ``top`` best by no more than ``slack`` counts as one of them.
    """
    n = means.shape[1]
    declared = np.argpartition(-means, top - 1, axis=1)[:, :top]
    true = means[:, None] + residuals.reshape(-1, len(residuals), n)
    last = -np.partition(-true, top - 1, axis=2)[:, :, top - 1]
    found = np.take_along_axis(true, np.broadcast_to(declared[:, None], (*last.shape, top)), axis=2)
    return np.asarray(np.mean(found >= last[:, :, None] - slack, axis=(1, 2)))


def outlook(
    questions: Questions, plan: Iterable[int], top: int, rng: np.random.RandomState
) -> Outlook:
    """Certainty of the best items, and how many pairs of ``plan`` it takes to settle them."""
    mean, root = questions.mean, square_root(questions.covariance)
    top, slack = min(top, len(mean)), hardly_different(questions.likelihood)
    draws = rng.standard_normal((_FUTURES * _DRAWS, root.shape[1])) @ root.T
    now = float(certainties(mean[None], draws, top, slack)[0])
    if now >= SETTLED:
        return Outlook(top, now, 0)
    residuals = rng.standard_normal((_DRAWS, len(mean)))
    before, steps = np.full(_FUTURES, now), 0
    passed = np.full(_FUTURES, np.inf)
    for step, means, covariance in _followed(questions, plan, mean + draws[:_FUTURES], rng):
        F = square_root(covariance)
        then = certainties(means, residuals[:, : F.shape[1]] @ F.T, top, slack)
        new = np.isinf(passed) & (then >= SETTLED)
        share = (SETTLED - before[new]) / (then[new] - before[new])
        passed[new] = steps + (step - steps) * share
        before, steps = then, step
        if np.isfinite(passed).mean() > 0.5:
            return Outlook(top, now, max(1, round(float(np.median(passed)))))
    if steps >= len(questions.left):
        return Outlook(top, now, None)
    return Outlook(top, now, steps, beyond=True)


def _followed(
    questions: Questions, plan: Iterable[int], true: FloatArray, rng: np.random.RandomState
) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """Posterior means for each true utility, and their covariance, after numbers of answers.

    These are ever further apart; the last is all of the plan.
    """
    means, step, due = np.repeat(questions.mean[None], len(true), axis=0), 0, 1.0
    for step, which in enumerate(plan, start=1):
        tau, column = questions.expected_precision(which), questions.covariances(which)
        i, j = questions.left[which], questions.right[which]
        seen = true[:, i] - true[:, j] + rng.standard_normal(len(true)) / np.sqrt(tau)
        gain = column * tau / (1.0 + tau * max(column[i] - column[j], 0.0))
        means += (seen - (means[:, i] - means[:, j]))[:, None] * gain
        questions = questions.answered(which)
        if step >= due:
            yield step, means, questions.covariance
            due = max(step + 1.0, step * 2.0 ** (1 / _STEPS_PER_DOUBLING))
    if step and step < due - 1:
        yield step, means, questions.covariance
