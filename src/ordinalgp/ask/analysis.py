"""Model of the answers so far: the ranking, the pairs to ask next, and how long it will take."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.ask.forecast import Outlook, outlook
from ordinalgp.ask.survey import Strategy
from ordinalgp.hyperpriors import HyperPrior
from ordinalgp.preference import PreferenceGP
from ordinalgp.preference.ranking import joint_draws, standings, utilities
from ordinalgp.preference.suggestions import STRATEGIES, Questions, candidate_pairs
from ordinalgp.runtime.progress import silent

# Prior of the log noise of an item, in prior standard deviations of the utility: median 0.4, from
# 0.12 to 1.3 with 95 %. After 10 or 20 answers evidence alone often finds no noise at all, or
# nothing but noise, and probabilities are then far off. Chosen on simulated judges with noise of
# 0.2 to 1, of other seeds than in the tests: medians of 0.4 to 0.6 and deviations of 0.4 to 0.7
# differed little.
_NOISE = float(np.log(0.4)), 0.6
_SEARCH_GROWTH = 1.2  # number of answers, relative to the last search, at which to search again
_FEWEST_FOR_SEARCH = 6  # answers
_MOST_PREDICTED = 150  # items from which on predictive information takes too long
_MOST_CANDIDATES = 20_000  # pairs among which the next are chosen
_MOST_JOINT = 1200  # items among which pairs are chosen
_MOST_PLANNED = 400  # answers that are looked ahead
_FEWEST_DRAWS = 800  # of the ranking
_COVERAGE = 0.9  # of the intervals of ranks


@dataclass(frozen=True, eq=False)
class Wishes:
    """Pairs that an analysis is to choose."""

    pending: IntArray
    """pairs that judges look at now, (p, 2)"""
    finished: IntArray
    """pairs that all judges have seen, (a, 2)"""
    wanted: int
    """number of pairs to choose"""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Answers at one moment, by rows of the items."""

    pairs: IntArray
    """left and right item, (m, 2)"""
    outcomes: IntArray
    wishes: Wishes


@dataclass(frozen=True, eq=False)
class Analysis:
    """Ranking, and pairs to ask next, after a number of answers."""

    n_answers: int
    order: IntArray
    """rows of the items, the best first"""
    mean: FloatArray
    """utility of each item in this order"""
    sd: FloatArray
    low: IntArray
    """best and worst rank of the item's interval"""
    high: IntArray
    best: FloatArray
    """probability of being the best"""
    pairs: IntArray
    """pairs to ask next, the most telling first, (k, 2)"""


@dataclass(frozen=True, eq=False)
class Utilities:
    """Joint posterior of the utilities of some items."""

    rows: IntArray
    mean: FloatArray
    covariance: FloatArray


@dataclass(eq=False)
class Analyst:
    """Fits the model again and again, as answers come in.

    Hyperparameters are searched when the answers have grown by a fifth. In between, only the
    posterior is computed.
    """

    n_items: int
    X: FloatArray | None
    levels: Sequence[int]
    top: int
    strategy: Strategy = "auto"
    rng: np.random.RandomState = field(default_factory=lambda: np.random.RandomState(0))
    _model: PreferenceGP | None = None
    _searched: int = 0
    """number of answers at the last search"""

    @property
    def items(self) -> Any:
        """The items as the model takes them: features, or numbers as names."""
        return np.arange(self.n_items) if self.X is None else self.X

    def analyse(self, snapshot: Snapshot) -> Iterator[Analysis | Outlook]:
        """Ranking and next pairs after these answers, one of which was no tie; then the outlook."""
        model = self._fit(snapshot)
        joint = self._joint(model)
        questions = self._questions(model, joint, snapshot.wishes)
        chosen = self._choose(questions, snapshot.wishes.wanted)
        pairs = np.column_stack([questions.left[chosen], questions.right[chosen]])
        order, mean, sd, low, high, best = self._ranking(model, joint)
        n = len(snapshot.pairs)
        yield Analysis(n, order, mean, sd, low, high, best, joint.rows[pairs])
        yield outlook(questions, self._plan(questions), self.top, self.rng)

    # ------------------------------------------------------------------------ fitting

    def _fit(self, snapshot: Snapshot) -> PreferenceGP:
        n = len(snapshot.pairs)
        search = n >= max(_FEWEST_FOR_SEARCH, _SEARCH_GROWTH * self._searched)
        if search or self._model is None or n < _FEWEST_FOR_SEARCH:
            model = self._new_model(n)
        else:
            model = self._model_as_it_was(self._model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unfinished search is good enough to ask on
            model.fit(self.items, snapshot.pairs, snapshot.outcomes)
        if search:
            self._model, self._searched = model, n
        return model

    def _new_model(self, n_answers: int) -> PreferenceGP:
        """A model that searches its hyperparameters, where there are answers enough."""
        kernel, levels = "independent" if self.X is None else None, list(self.levels)
        if n_answers < _FEWEST_FOR_SEARCH:
            noise = float(np.exp(_NOISE[0]))
            return PreferenceGP(kernel, levels=levels, noise=noise, optimizer=None)
        prior = HyperPrior(length_scales=None, noise=_NOISE)
        return PreferenceGP(kernel, levels=levels, hyperprior=prior)

    def _model_as_it_was(self, known: PreferenceGP) -> PreferenceGP:
        """A model with the hyperparameters of an earlier one."""
        kernel, levels = "independent" if self.X is None else known.kernel_, list(self.levels)
        return PreferenceGP(kernel, levels=levels, likelihood=known.likelihood_, optimizer=None)

    # ------------------------------------------------------------------------ utilities

    def _joint(self, model: PreferenceGP) -> Utilities:
        """Joint posterior of all items; of many, of the most promising ones and some others."""
        rows = np.arange(self.n_items)
        if self.n_items > _MOST_JOINT:
            mean, var = model.latent_mean_and_variance(self.items)
            best, others = np.split(np.argsort(-mean - np.sqrt(var)), [_MOST_JOINT // 2])
            rows = np.append(best, self.rng.choice(others, _MOST_JOINT // 2, replace=False))
        return Utilities(rows, *model.latent_mean_and_covariance(self.items[rows]))

    def _ranking(self, model: PreferenceGP, joint: Utilities) -> tuple[Any, ...]:
        """Order, means, deviations, intervals of ranks, and probabilities of being the best."""
        if len(joint.rows) == self.n_items:
            mean, var = joint.mean, np.diagonal(joint.covariance)
            draws: Iterable[FloatArray] = joint_draws(mean, joint.covariance, self.rng)
        else:
            rows = np.arange(self.n_items)[:, None] if self.X is None else self.X
            found, draws = utilities(model._result.model, rows.astype(float), self.rng)
            mean, var = found.mean, found.var
        order = np.argsort(-mean, kind="stable")
        drawn = standings(_enough(draws), self.n_items, silent)
        low, high = drawn.interval(_COVERAGE)[:, order]
        sd = np.sqrt(np.maximum(var, 0.0))
        return order, mean[order], sd[order], low, high, drawn.best_share[order]

    # ------------------------------------------------------------------------ questions

    def _questions(self, model: PreferenceGP, joint: Utilities, wishes: Wishes) -> Questions:
        """Pairs that may be asked, as if the pending ones had been answered."""
        place = np.full(self.n_items, -1)
        place[joint.rows] = np.arange(len(joint.rows))
        both = (place[pairs].reshape(-1, 2) for pairs in (wishes.finished, wishes.pending))
        finished, pending = (pairs[(pairs >= 0).all(axis=1)] for pairs in both)
        first, second = pending.T
        likelihood = model.likelihood_.spelled_out
        questions = Questions(first, second, joint.mean, joint.covariance, likelihood)
        for which in range(len(pending)):
            questions = questions.answered(which)
        left, right = candidate_pairs(len(joint.rows), np.concatenate([finished, pending]))
        if len(left) > _MOST_CANDIDATES:
            some = self.rng.choice(len(left), _MOST_CANDIDATES, replace=False)
            left, right = left[some], right[some]
        return replace(questions, left=left, right=right)

    def _choose(self, questions: Questions, wanted: int) -> IntArray:
        """Places of the pairs to ask next."""
        n = min(wanted, len(questions.left))
        strategy = self.strategy
        if strategy == "auto":
            small = self.X is not None and len(questions.mean) <= _MOST_PREDICTED
            strategy = "prediction" if small else "information"
        if strategy == "random":
            return self.rng.choice(len(questions.left), n, replace=False)
        return STRATEGIES[strategy](questions, n)

    def _plan(self, questions: Questions) -> IntArray:
        """Places of the pairs that will probably be asked."""
        n = min(_MOST_PLANNED, len(questions.left))
        if self.strategy == "random":
            return self.rng.choice(len(questions.left), n, replace=False)
        return STRATEGIES["information"](questions, n)


def _enough(draws: Iterable[FloatArray]) -> Iterator[FloatArray]:
    """The first blocks of draws, until there are enough."""
    n = 0
    for block in draws:
        yield block
        n += len(block)
        if n >= _FEWEST_DRAWS:
            return
