"""Outcomes of comparisons as people write them: numbers, words or the name of the winner."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import BoolArray, IntArray
from ordinalgp.tables.cells import BadCell, BadInput, Table, gaps, numbers, texts
from ordinalgp.tables.encoding import read_target

NONE = "none"
"""value of --outcome: the left item was preferred in every row"""
_STEMS = "|item|team|player|option|candidate|object|model|name|image|text|id"
_PAIR = re.compile(rf"({_STEMS})[ _]?(a|1|x|left|first|home)", re.IGNORECASE)
_OTHER = {"a": "b", "1": "2", "x": "y", "left": "right", "first": "second", "home": "away"}
_DIRECTED = {
    "winner": "loser",
    "won": "lost",
    "preferred": "other",
    "better": "worse",
    "chosen": "rejected",
}
_RESULTS = ("target", "outcome", "outcomes", "result", "score", "label", "vote", "answer", "choice")
_OUTCOME_NAMES = frozenset((*_RESULTS, "winner", "preferred", "preference", "chosen", "better"))
_TIES = frozenset(["tie", "tied", "draw", "drawn", "equal", "same", "both", "neither", "d", "t"])
_Family = tuple[tuple[str, ...], tuple[str, ...]]
"""words for "right preferred" and for "left preferred\""""
_FAMILIES: tuple[_Family, ...] = (
    (("right",), ("left",)),
    (("r",), ("l",)),
    (("b",), ("a",)),
    (("second", "2nd"), ("first", "1st")),
    (("loss", "lose", "loses", "lost", "l"), ("win", "wins", "won", "w")),
    (("no", "n"), ("yes", "y")),
    (("false", "f"), ("true", "t")),
    (("worse",), ("better",)),
    (("away", "a"), ("home", "h")),
)
_SIDES = {-1: "right", 0: "tie", 1: "left"}
_MOST_SHOWN = 6  # values that a message shows


_UNKNOWN = 9  # code of a cell that is no outcome


Ways = list[tuple[str, str]]
"""possible meanings, and the options that choose each"""


class Ambiguous(BadInput):
    """Outcomes with more than one meaning."""

    def __init__(self, question: str, ways: Ways) -> None:
        super().__init__(f"{question} Use\n" + _listed(ways))
        self.ways = ways


def _listed(ways: Ways) -> str:
    width = max(len(meaning) for meaning, _ in ways) + 1
    return "\n".join(f"  {meaning + ':':{width}}  {options}" for meaning, options in ways)


@dataclass(frozen=True, eq=False)
class Reading:
    """Meaning of a column of outcomes."""

    values: NDArray[Any] | None
    """outcome of each row for `PreferenceGP`; None: the left item was preferred"""
    order: list[Any] | None
    """outcomes from right to left preferred; None: -1, 0, 1"""
    bad: list[BadCell]
    meaning: str
    certain: bool = False
    """whether the values can hardly mean anything else than outcomes"""

    def side_counts(self, good: BoolArray) -> dict[str, int]:
        """Number of comparisons that either side won, and of ties."""
        if self.values is None:
            return {"left": int(good.sum()), "ties": 0, "right": 0}
        order = [-1, 0, 1] if self.order is None else self.order
        places = {value: at - (len(order) - 1) / 2 for at, value in enumerate(order)}
        signs = Counter(np.sign([places[value] for value in self.values[good].tolist()]).tolist())
        return {"left": signs[1.0], "ties": signs[0.0], "right": signs[-1.0]}


def option(name: str, value: Any) -> str:
    """An option of the command line with its value, quoted for the shell."""
    text = str(value)
    return f"{name}={shlex.quote(text)}" if text[:1] == "-" else f"{name} {shlex.quote(text)}"


def _levels_option(levels: Iterable[Any]) -> str:
    words = (f'"{word}"' if "," in str(word) else str(word) for word in levels)
    return option("--levels", ",".join(words))


# -------------------------------------------------------------------------------- columns


def sides(
    table: Table, given: Sequence[str | None], items: Iterable[str] | None, path: Path
) -> list[str]:
    """Columns with the left and the right item: as given, by their names, or the first two."""
    names = list(table.columns)
    for column in given:
        if column is not None and column not in names:
            raise BadInput(f"{path} has no column {column!r}. Its columns are {', '.join(names)}.")
    if len(names) < 2:
        raise BadInput(f"{path} has fewer than 2 columns. Its columns are {', '.join(names)}.")
    found = _known_pair(names) or _columns_of_items(table, items) or names[:2]
    if given[0] in found and given[1] is None:
        found = [column for column in [given[0], *found] if column is not None]
        return list(dict.fromkeys(found))[:2]
    return [found[at] if column is None else column for at, column in enumerate(given)]


def _known_pair(names: Sequence[str]) -> list[str] | None:
    """The first two columns whose names say that they hold the items of a comparison."""
    lower = {name.casefold(): name for name in names}
    for name in names:
        low = name.casefold()
        other = _DIRECTED.get(low)
        if found := _PAIR.fullmatch(low):
            other = low[: found.start(2)] + _OTHER[found[2]]
        if other in lower:
            return [name, lower[other]]
    return None


def is_directed(columns: Sequence[str]) -> bool:
    """Whether the names of the two columns say who won."""
    return _DIRECTED.get(columns[0].casefold()) == columns[1].casefold()


def _columns_of_items(table: Table, items: Iterable[str] | None) -> list[str] | None:
    """The two columns that mostly hold names of items, if there are exactly two."""
    known = None if items is None else set(items)
    if known is None:
        return None
    share = {
        name: np.mean([cell in known for cell in texts(cells)])
        for name, cells in table.columns.items()
    }
    found = [name for name, part in share.items() if part > 0.5]
    return found if len(found) == 2 else None


def check_overlap(table: Table, columns: Sequence[str], path: Path) -> None:
    """Raise if the only file given is probably a list of items, and not of comparisons."""
    left, right = (set(texts(table.columns[side])) - {None} for side in columns)
    if _known_pair(columns) or left & right:
        return
    options = " ".join(map(option, ("--left", "--right"), columns))
    raise BadInput(
        f"{path} does not look like comparisons: no item of the column {columns[0]} is also in the "
        f"column {columns[1]}. If these columns hold the two items of each comparison, say so with "
        f"{options}. If {path} lists items, give a file of comparisons after it."
    )


def outcome_column(
    table: Table, columns: Sequence[str], levels: Sequence[str], decimal: str, path: Path
) -> str | None:
    """The column with outcomes, where none was named; None if there is none."""
    others = [name for name in table.columns if name not in columns]
    if levels:
        fit = [name for name in others if not read(table, name, columns, levels, decimal).bad]
        fit = [name for name in fit if name.casefold() in _OUTCOME_NAMES] or fit
        if len(fit) == 1:
            return fit[0]
        raise BadInput(
            f"--levels names outcomes, but {len(fit) or 'no'} columns of {path} hold only these. "
            "Name the column with --outcome."
        )
    looks = {name: _look(table, name, columns, decimal) for name in others}
    named = [name for name in others if name.casefold() in _OUTCOME_NAMES]
    if is_directed(columns):
        if likely := [name for name in named if looks[name] is not None]:
            raise BadInput(_ask(path, columns, {name: looks[name] for name in likely}))
        return None
    if len(named) == 1:
        return named[0]
    likely = named or [name for name, found in looks.items() if found is not None]
    if len(likely) == 1 and isinstance(found := looks[likely[0]], Reading) and found.certain:
        return likely[0]
    if likely:
        raise BadInput(_ask(path, columns, {name: looks[name] for name in likely}))
    if unknown := {name: few for name in others if (few := _few(table, name))}:
        raise BadInput(_ask_words(table, path, columns, unknown))
    return None


def _few(table: Table, column: str) -> list[str]:
    """Values of a column if they are few and repeat, as outcomes do; else none."""
    found = Counter(cell for cell in texts(table.columns[column]).tolist() if cell is not None)
    several = 2 <= len(found) <= _MOST_SHOWN and found.total() > 2 * len(found)
    return sorted(found) if several else []


def _ask_words(
    table: Table, path: Path, columns: Sequence[str], unknown: dict[str, list[str]]
) -> str:
    """The question whether columns of unknown words have the outcomes."""
    ways = [
        (
            f"{name}, {values[0]} = right, {values[-1]} = left",
            f"{option('--outcome', name)} {_levels_option(values)}",
        )
        for name, found in unknown.items()
        for values in ([found, found[::-1]] if len(found) == 2 else [found])
    ]
    ways.append((f"none, {columns[0]} has the preferred item", f"--outcome {NONE}"))
    return (
        f"{path} has no column that must be the outcomes, but {', '.join(unknown)} may be. Use, "
        "with the values in order, from right preferred to left preferred,\n" + _listed(ways)
    ) + _scores_of_sides(table, list(unknown))


def _scores_of_sides(table: Table, names: Sequence[str]) -> str:
    """Advice for two columns of scores, one per side, such as goals."""
    scores = [name for name in names if not np.any(numbers(table.columns[name])[1])]
    if len(scores) != 2:
        return ""
    return (
        f"\nIf {scores[0]} and {scores[1]} are the scores of the two sides, add a column outcome "
        "with the left score minus the right one."
    )


def _look(
    table: Table, column: str, columns: Sequence[str], decimal: str
) -> Reading | Ambiguous | None:
    """The outcomes that a column may hold; None if it does not look like outcomes."""
    try:
        found = read(table, column, columns, (), decimal)
    except Ambiguous as question:
        return question
    except BadInput:
        return None
    several = len(set(texts(table.columns[column]).tolist())) > 1
    return found if several and not found.bad else None


def _ask(path: Path, columns: Sequence[str], looks: dict[str, Reading | Ambiguous | None]) -> str:
    """The question which column has the outcomes, with the options that answer it."""
    ways: Ways = []
    for name, found in looks.items():
        if isinstance(found, Ambiguous):
            ways += [(f"{name}, {meaning}", options) for meaning, options in found.ways]
        else:
            meaning = f", {found.meaning}" if found is not None else ""
            ways.append((f"{name}{meaning}", option("--outcome", name)))
    ways.append((f"none, {columns[0]} has the preferred item", f"--outcome {NONE}"))
    names = ", ".join(looks)
    head = f"{path} has no column that must be the outcomes, but {names} may be. Which is it? Use"
    return f"{head}\n{_listed(ways)}"


# --------------------------------------------------------------------------------- values


def left_won(columns: Sequence[str]) -> Reading:
    """The reading where every row has the preferred item on the left."""
    return Reading(None, None, [], f"column {columns[0]} has the preferred item", certain=True)


def read(
    table: Table, column: str, columns: Sequence[str], levels: Sequence[str], decimal: str
) -> Reading:
    """Outcomes in a column, with ``levels`` or by what the values must mean."""
    if column not in table.columns:
        names = ", ".join(table.columns)
        raise BadInput(f"There is no column {column!r} for --outcome. The columns are {names}.")
    if levels or column in table.levels:
        return _with_levels(table, column, levels, decimal)
    cells = table.columns[column]
    missing = gaps(cells)
    if missing.all():
        raise BadInput(f"The column {column} of --outcome has no values at all.")
    by_name = _name_codes(table, column, columns)
    if np.all(by_name[~missing] != _UNKNOWN):
        return _by_name(table, column, by_name)
    values, wrong = numbers(cells, decimal)
    if 2 * np.sum(wrong & ~missing) < np.sum(~missing):
        bad = _bad(table, column, wrong, "is not a number, as the other outcomes are")
        return _numeric(column, values, wrong | missing, bad)
    return _words(table, column, columns, missing)


def _with_levels(table: Table, column: str, levels: Sequence[str], decimal: str) -> Reading:
    if levels and (len(levels) < 2 or len(set(levels)) < len(levels)):
        raise BadInput(
            f"--levels must name at least two different outcomes, but is {','.join(levels)!r}. "
            "Begin with the one where the right item is preferred, e.g. --levels 0,1."
        )
    found, order, bad = read_target(table, column, levels or None, decimal)
    assert order is not None
    bad = [replace(cell, reason=cell.reason.replace("target", "outcome")) for cell in bad]
    middle = (len(order) - 1) / 2
    sides = [_SIDES[int(np.sign(at - middle))] for at in range(len(order))]
    meaning = ", ".join(f"{level} = {side}" for level, side in zip(order, sides, strict=True))
    return Reading(found, order, bad, meaning)


def _bad(table: Table, column: str, where: BoolArray, reason: str) -> list[BadCell]:
    def explain(cell: Any) -> str:
        if cell is None or cell != cell:
            return "the outcome is missing"
        return f"{cell!r} {reason}" if isinstance(cell, str) else f"{cell:g} {reason}"

    return table.bad_cells(column, where | gaps(table.columns[column]), explain)


def _shown(found: Counter[Any]) -> str:
    rows = [f"{n} x {value}" for value, n in found.most_common(_MOST_SHOWN)]
    more = len(found) - _MOST_SHOWN
    return ", ".join(rows) + (f" and {more} more values" if more > 0 else "")


def _numeric(column: str, values: NDArray[Any], unusable: BoolArray, bad: list[BadCell]) -> Reading:
    """Numbers: -1, 0, 1; or 0, 0.5, 1; or grades on both sides of zero."""
    fine = values[~unusable]
    found = Counter(int(v) if v == int(v) else float(v) for v in fine.tolist())
    kinds = set(found)
    if kinds <= {-1, 0, 1} and (-1 in kinds or kinds == {1}):
        values = np.where(unusable, 1, values).astype(np.int64)
        meaning = ", ".join(f"{v} = {_SIDES[v]}" for v in (1, 0, -1) if v in kinds)
        return Reading(values, None, bad, meaning)
    if kinds <= {0, 0.5, 1} and 0.5 in kinds:
        values = np.where(unusable, 1, np.round(2 * values - 1)).astype(np.int64)
        return Reading(values, None, bad, "1 = left, 0.5 = tie, 0 = right")
    if min(kinds) < 0 < max(kinds) and len(kinds) <= 2 * _MOST_SHOWN:
        ends = {abs(v) for v in kinds if v}
        order = sorted({-v for v in ends} | ends | ({0} & kinds))
        values = np.where(unusable, order[0], values).astype(np.asarray(order).dtype)
        return Reading(values, order, bad, "negative right, positive left")
    raise _numbers_question(column, found)


def _numbers_question(column: str, found: Counter[Any]) -> BadInput:
    """The question what numbers mean, with the options that answer it."""
    this, kinds = option("--outcome", column), set(found)
    head = f"The column {column} has {_shown(found)}"
    if kinds <= {0, 1}:
        ways = [
            ("0 = the right item was preferred", f"{this} --levels 0,1"),
            ("0 = a tie", f"{this} {_levels_option([-1, 0, 1])}"),
        ]
        doubt = "Does 0 mean that the right item was preferred, or a tie?"
        return Ambiguous(f"{head}, but never -1. {doubt}", ways)
    if len(kinds) > _MOST_SHOWN:
        return BadInput(
            f"{head}, which are too many for outcomes of comparisons. Name the column of outcomes "
            f"with --outcome; --outcome {NONE} if there is none."
        )
    up, down = sorted(kinds), sorted(kinds, reverse=True)
    ways = [
        (f"{order[-1]} = the left item was preferred", f"{this} {_levels_option(order)}")
        for order in (up, down)
    ]
    ways.append(("these are no outcomes", f"--outcome {NONE}"))
    return BadInput(f"{head}. Which means that the left item was preferred? Use\n{_listed(ways)}")


def _words(table: Table, column: str, columns: Sequence[str], missing: BoolArray) -> Reading:
    """Words: the name of the preferred item or of its column, or words for left and right."""
    cells, by_name = texts(table.columns[column]), _name_codes(table, column, columns)
    half = 0.5 * np.sum(~missing)
    if np.sum(by_name != _UNKNOWN) > half:
        return _by_name(table, column, by_name)
    own = ((columns[1].casefold(),), (columns[0].casefold(),))
    families = (own, *_FAMILIES)
    coded = [_family_codes(cells, family) for family in families]
    known = [int(np.sum(codes != _UNKNOWN)) for codes in coded]
    best = [codes for codes, n in zip(coded, known, strict=True) if n == max(known)]
    families = tuple(each for each, n in zip(families, known, strict=True) if n == max(known))
    found = Counter(cell for cell in cells.tolist() if cell is not None)
    if max(known) <= half:
        raise BadInput(_words_question(column, found))
    if families[0] is not own and any(np.any(codes != best[0]) for codes in best):
        raise _sides_question(column, found, families)
    word = {code: cell for cell, code in zip(cells.tolist(), best[0].tolist(), strict=True)}
    meaning = ", ".join(f"{word[code]} = {_SIDES[code]}" for code in (1, 0, -1) if code in word)
    certain = {"left", "right"} <= {str(cell).casefold() for cell in word.values()}
    reason = f"is not an outcome ({meaning})"
    return _coded(table, column, best[0], reason, meaning, certain=certain)


def _coded(
    table: Table, column: str, codes: IntArray, reason: str, meaning: str, *, certain: bool
) -> Reading:
    unknown = codes == _UNKNOWN
    bad = _bad(table, column, unknown, reason)
    return Reading(np.where(unknown, 1, codes), None, bad, meaning, certain)


def _by_name(table: Table, column: str, codes: IntArray) -> Reading:
    """The reading as names of the preferred items."""
    reason = "is neither of the two items, nor a tie"
    return _coded(table, column, codes, reason, "the name of the preferred item", certain=True)


def _name_codes(table: Table, column: str, columns: Sequence[str]) -> IntArray:
    """Side of the item that each cell names; all unknown if only ties are named."""
    rows = zip(*(texts(table.columns[name]) for name in (column, *columns)), strict=True)
    found = np.array([_named(*row) for row in rows], dtype=np.intp)
    return found if np.any(np.abs(found) == 1) else np.full(len(found), _UNKNOWN, dtype=np.intp)


def _named(cell: str | None, left: str | None, right: str | None) -> int:
    """Side of the item that a cell names."""
    if cell is None or left == right:
        return _UNKNOWN
    if cell in (left, right):
        return 1 if cell == left else -1
    return 0 if cell.casefold() in _TIES else _UNKNOWN


def _family_codes(cells: NDArray[Any], family: _Family) -> IntArray:
    """Side of each word under one family of words; all unknown if neither side occurs."""
    right, left = family
    meaning = dict.fromkeys(_TIES, 0) | dict.fromkeys(right, -1) | dict.fromkeys(left, 1)
    codes = [_UNKNOWN if cell is None else meaning.get(cell.casefold(), _UNKNOWN) for cell in cells]
    found = np.array(codes, dtype=np.intp)
    return found if np.any(np.abs(found) == 1) else np.full(len(found), _UNKNOWN, dtype=np.intp)


def _sides_question(column: str, found: Counter[Any], families: Sequence[_Family]) -> Ambiguous:
    """The question which of several families of words is meant."""
    ways = []
    for family in families:
        right, left = (
            next((word for word in found if word.casefold() in side), side[0]) for side in family
        )
        tie = [word for word in found if word not in (right, left)]
        meaning = f"{left} = left, {right} = right"
        levels = _levels_option([right, *tie, left])
        ways.append((meaning, f"{option('--outcome', column)} {levels}"))
    question = f"The column {column} has {_shown(found)}. Which is meant?"
    return Ambiguous(question, list(dict.fromkeys(ways)))


def _words_question(column: str, found: Counter[Any]) -> str:
    this = option("--outcome", column)
    head = f"The column {column} has {_shown(found)}, whose meaning is not known. Name all outcomes"
    some = sorted(map(str, found))[:_MOST_SHOWN]
    if not 2 <= len(found) <= _MOST_SHOWN:
        some = ["worse", "same", "better"]
    return (
        f"{head}, from right preferred to left preferred. Put them into order in\n"
        f"  {this} {_levels_option(some)}\nor, if these are no outcomes, use --outcome {NONE}."
    )
