"""Agreement between judges: how often two of them prefer the same item of a pair."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

Pair = tuple[int, int]


@dataclass(frozen=True)
class JudgeRecord:
    """A judge's answers, and those about pairs that other judges answered too."""

    judge: str
    answers: int
    shared: int
    """comparisons with answers of others to the same pair"""
    same: int
    """those that prefer the same item, or are both ties"""


@dataclass(eq=False)
class Agreement:
    """Counts of equal answers, kept up to date one answer at a time.

    Of a judge who answers a pair again only the last answer counts.
    """

    _sides: defaultdict[Pair, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    """preference of each judge for the first item of a pair: 1, 0 or -1"""
    _answers: Counter[str] = field(default_factory=Counter)
    _shared: Counter[str] = field(default_factory=Counter)
    _same: Counter[str] = field(default_factory=Counter)
    _both: Counter[tuple[str, str]] = field(default_factory=Counter)
    _equal: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, pair: Pair, judge: str, side: int) -> None:
        """Count an answer."""
        self.remove(pair, judge)
        self._change(pair, judge, side, 1)
        self._sides[pair][judge] = side

    def remove(self, pair: Pair, judge: str) -> None:
        """Take an answer back."""
        sides = self._sides.get(pair, {})
        if judge in sides:
            self._change(pair, judge, sides.pop(judge), -1)

    def _change(self, pair: Pair, judge: str, side: int, by: int) -> None:
        self._answers[judge] += by
        for other, theirs in self._sides.get(pair, {}).items():
            both = (min(judge, other), max(judge, other))
            self._both[both] += by
            self._equal[both] += by * (side == theirs)
            for each in both:
                self._shared[each] += by
                self._same[each] += by * (side == theirs)

    @property
    def judges(self) -> list[JudgeRecord]:
        """All judges with answers, the busiest first."""
        found = [
            JudgeRecord(judge, n, self._shared[judge], self._same[judge])
            for judge, n in self._answers.items()
            if n
        ]
        return sorted(found, key=lambda each: (-each.answers, each.judge))

    @property
    def overall(self) -> tuple[int, int]:
        """Comparisons of two judges' answers to a pair, and those that are equal."""
        return sum(self._both.values()), sum(self._equal.values())

    def between(self) -> Iterator[tuple[str, str, int, int]]:
        """Every two judges, the pairs that both answered, and those answered equally."""
        for a, b in combinations(sorted(self._answers), 2):
            if self._both[a, b]:
                yield a, b, self._both[a, b], self._equal[a, b]
