"""The survey: the question, the possible answers, and who answers."""

from dataclasses import dataclass
from typing import Literal

MOST_GRADES = 7  # that fit side by side on a telephone
Strategy = Literal["auto", "information", "prediction", "random"]
STRATEGIES: tuple[Strategy, ...] = ("auto", "information", "prediction", "random")
# From the weakest preference to the strongest, by the number of grades of one side.
_STRENGTHS = {1: ("",), 2: ("slightly", "clearly"), 3: ("slightly", "clearly", "by far")}


@dataclass(frozen=True)
class Survey:
    """Settings of ``ordinalgp ask``.

    Examples
    --------
    >>> from ordinalgp.ask import Survey, levels_for
    >>> survey = Survey("Which essay is better?", levels=levels_for(4))
    >>> survey.levels
    (-2, -1, 1, 2)
    >>> survey.labels
    ('left clearly', 'left slightly', 'right slightly', 'right clearly')
    """

    question: str = "Which is better?"
    """question above each pair"""
    levels: tuple[int, ...] = (-1, 0, 1)
    """possible outcomes, from right to left preferred"""
    named_judges: bool = False
    """whether judges give their names"""
    top: int = 5
    """number of best items that are to be settled"""
    strategy: Strategy = "auto"
    """how pairs are chosen"""

    @property
    def labels(self) -> tuple[str, ...]:
        """Words for the outcomes, from left to right preferred."""
        strengths = _STRENGTHS[len(self.levels) // 2]
        words = {0: "equal"}
        for place, strength in enumerate(strengths, start=1):
            words |= {place: f"left {strength}".strip(), -place: f"right {strength}".strip()}
        return tuple(words[level] for level in reversed(self.levels))

    def top_of(self, n_items: int) -> int:
        """Number of best items among so many, at most half of them."""
        return min(self.top, max(1, n_items // 2))


def levels_for(grades: int) -> tuple[int, ...]:
    """Outcomes of a number of grades, symmetric about zero; an odd number has a tie.

    Parameters
    ----------
    grades : int
        Number of possible answers, from 2 to 7.

    Returns
    -------
    tuple of int
        Outcomes, from right to left preferred.

    Examples
    --------
    >>> from ordinalgp.ask import levels_for
    >>> levels_for(2), levels_for(5)
    ((-1, 1), (-2, -1, 0, 1, 2))
    """
    if not 2 <= grades <= MOST_GRADES:
        raise ValueError(f"The number of grades must be from 2 to {MOST_GRADES}, not {grades}.")
    half = grades // 2
    middle = (0,) * (grades % 2)
    return (*range(-half, 0), *middle, *range(1, half + 1))
