"""The pair that each judge sees next: there is always one ready, and different judges see others.

Pairs come from the last analysis, the most telling first. Where it has none left, the item that
was asked about least is shown beside one near it in the ranking.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ordinalgp._typing import IntArray
from ordinalgp.ask.analysis import Analysis

Pair = tuple[int, int]
_LEASE = 120.0  # seconds for which a pair that one judge looks at is not shown to others
_PRESENT = 900.0  # seconds since the last question after which a judge has left
_SHARED_EVERY = 8  # every so many questions of a named judge another judge has answered
_MOST_LEASES = 2000  # pages
_NEAR = 8  # places in the ranking within which a partner is drawn


@dataclass(frozen=True)
class Lease:
    """A pair that is on a page now."""

    judge: str
    left: int
    right: int
    since: float

    @property
    def pair(self) -> Pair:
        """Both items, the smaller first."""
        return ordered(self.left, self.right)


def ordered(i: int, j: int) -> Pair:
    """A pair with the smaller item first."""
    return (i, j) if i < j else (j, i)


@dataclass(eq=False)
class Questioner:
    """Pairs of items, by their rows, for any number of pages and judges.

    Nothing in it waits: each call takes a millisecond or less.
    """

    n_items: int
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    _pool: list[Pair] = field(default_factory=list)
    _seen: defaultdict[str, set[Pair]] = field(default_factory=lambda: defaultdict(set))
    """pairs that each judge has answered or skipped"""
    _judges: defaultdict[Pair, set[str]] = field(default_factory=lambda: defaultdict(set))
    """judges who have seen each pair"""
    _shared: dict[Pair, None] = field(default_factory=dict)
    """pairs that one named judge has answered, the oldest first"""
    _leases: dict[str, Lease] = field(default_factory=dict)
    """pair on each page"""

    def __post_init__(self) -> None:
        """No item was asked about, and no ranking is known."""
        self._asked = np.zeros(self.n_items)
        self._place: IntArray | None = None

    @property
    def n_pairs(self) -> int:
        """Number of all pairs."""
        return self.n_items * (self.n_items - 1) // 2

    def take(self, analysis: Analysis) -> None:
        """Ask by this analysis from now on."""
        self._pool = [ordered(i, j) for i, j in analysis.pairs.tolist()]
        self._place = np.argsort(analysis.order)

    @property
    def ready(self) -> int:
        """Number of pairs in the pool."""
        return len(self._pool)

    # ---------------------------------------------------------------------- what is known

    def seen(self, judge: str, left: int, right: int) -> None:
        """Note that a judge has answered or skipped a pair."""
        pair = ordered(left, right)
        self._seen[judge].add(pair)
        self._judges[pair].add(judge)
        self._asked[[left, right]] += 1
        if len(self._judges[pair]) == 1 and judge:
            self._shared[pair] = None
        else:
            self._shared.pop(pair, None)

    def unseen(self, judge: str, left: int, right: int) -> None:
        """Forget that a judge has answered or skipped a pair: it was taken back."""
        pair = ordered(left, right)
        self._seen[judge].discard(pair)
        self._judges[pair].discard(judge)
        self._asked[[left, right]] -= 1
        self._shared.pop(pair, None)

    def pending(self, now: float) -> IntArray:
        """Pairs that are on pages now."""
        live = [lease.pair for lease in self._leases.values() if now - lease.since < _LEASE]
        return np.array(live, dtype=np.intp).reshape(-1, 2)

    def finished(self, now: float) -> IntArray:
        """Pairs that all judges who are there have seen."""
        there = {each.judge for each in self._leases.values() if now - each.since < _PRESENT}
        found = [pair for pair, judges in self._judges.items() if there <= judges]
        return np.array(found, dtype=np.intp).reshape(-1, 2)

    # ---------------------------------------------------------------------- the next pair

    def next(self, page: str, judge: str, now: float) -> Pair | None:
        """Left and right item for a page, or None if its judge has seen all pairs."""
        held = self._leases.get(page)
        if held is not None and held.judge == judge and held.pair not in self._seen[judge]:
            self._leases[page] = Lease(judge, held.left, held.right, now)
            return held.left, held.right
        self._leases.pop(page, None)
        self._drop_old_leases(now)
        if len(self._seen[judge]) >= self.n_pairs:
            return None
        pair = self._choose(judge, {tuple(pair) for pair in self.pending(now).tolist()})
        left, right = pair if self.rng.random() < 0.5 else pair[::-1]
        self._leases[page] = Lease(judge, left, right, now)
        return left, right

    def show_again(self, page: str, judge: str, left: int, right: int, now: float) -> None:
        """Put a pair on a page whose answer was taken back, or that the page still shows."""
        self._leases[page] = Lease(judge, left, right, now)

    def _drop_old_leases(self, now: float) -> None:
        """Forget pages that are gone, so that they do not pile up."""
        if len(self._leases) > _MOST_LEASES:
            kept = {p: each for p, each in self._leases.items() if now - each.since < _PRESENT}
            newest = sorted(kept.items(), key=lambda item: -item[1].since)[: _MOST_LEASES // 2]
            self._leases = dict(newest)

    def _choose(self, judge: str, pending: set[Pair]) -> Pair:
        seen = self._seen[judge]
        if judge and len(seen) % _SHARED_EVERY == _SHARED_EVERY - 1:
            for pair in self._shared:
                if pair not in seen and pair not in pending:
                    return pair
        for place, pair in enumerate(self._pool):
            if pair not in seen and pair not in pending:
                del self._pool[place]
                return pair
        return self._fallback(seen, pending)

    def _fallback(self, seen: set[Pair], pending: set[Pair]) -> Pair:
        """The item asked about least that has a partner left, and a partner.

        Pairs that another judge has seen come later, and pairs that one looks at now last.
        """
        by_need = np.lexsort((self.rng.random(self.n_items), self._asked))
        tests = (
            lambda pair: pair in seen or pair in pending or bool(self._judges.get(pair)),
            lambda pair: pair in seen or pair in pending,
            lambda pair: pair in seen,
        )
        for avoided in tests:
            for i in by_need.tolist():
                j = self._partner(i, avoided)
                if j is not None:
                    return ordered(i, j)
        raise AssertionError("a judge who has not seen all pairs has one left")

    def _partner(self, i: int, avoided: Callable[[Pair], bool]) -> int | None:
        """An item near another one in the ranking, or without one an item asked about little.

        None if all pairs of the item are avoided.
        """
        chance = self.rng.random(self.n_items)
        order = self._asked + chance
        if self._place is not None:
            order = np.abs(self._place - self._place[i]) + _NEAR * chance
        for j in np.argsort(order).tolist():
            if j != i and not avoided(ordered(i, j)):
                return int(j)
        return None
