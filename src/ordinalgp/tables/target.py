"""Target column: labels, and the order of their levels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp.tables.cells import BadCell, BadInput, Table, gaps, number, numbers, texts

_MOST_LEVELS = 50  # different values of a target


def read_target(
    table: Table, target: str, categories: Sequence[Any] | None = None, decimal: str = "."
) -> tuple[NDArray[Any], list[Any] | None, list[BadCell]]:
    """Labels of the column ``target``, the order of levels if one is declared, and bad cells.

    The order is ``categories``, else that of the file, else (None) that of the numbers.
    Labels of bad cells are placeholders.
    """
    if target not in table.columns:
        raise BadInput(
            f"There is no target column {target!r}. The columns are {', '.join(table.columns)}."
        )
    cells, order = table.columns[target], categories or table.levels.get(target)
    if order is None:
        return _own_order(table, target, decimal)
    levels = _as_labels(order)
    if isinstance(levels[0], str):
        labels, wrong = texts(cells), np.zeros(len(cells), dtype=bool)
        labels = np.where(gaps(cells), levels[0], labels).astype(str)
    else:
        labels, wrong = numbers(cells, decimal)
    known = np.isin(labels, levels) & ~wrong
    names = ", ".join(map(str, levels))
    bad = _bad(table, target, ~known, f"is not a level ({names})")
    labels = np.where(known, labels, levels[0])
    return labels.astype(np.asarray(levels).dtype), levels, bad


def _own_order(table: Table, target: str, decimal: str) -> tuple[Any, None, list[BadCell]]:
    cells = table.columns[target]
    labels, wrong = numbers(cells, decimal)
    present = ~gaps(cells)
    if not present.any():
        raise BadInput(f"The target column {target} has no values at all.")
    if 2 * wrong.sum() >= present.sum():
        raise BadInput(_no_order(target, sorted(set(texts(cells[present]).tolist()))))
    bad = _bad(table, target, wrong | ~present, "is not a number, as the other levels are")
    fine = labels[~wrong & present]
    _refuse_measurements(target, fine)
    whole = bool(np.all(fine % 1 == 0))
    labels = np.where(wrong | ~present, fine[0], labels)
    return labels.astype(np.int64) if whole else labels, None, bad


def _as_labels(order: Sequence[Any]) -> list[Any]:
    """Levels as numbers where all of them are, whole numbers where possible; else as texts."""
    parsed = [number(str(level)) for level in order]
    if any(value is None for value in parsed):
        return [str(level) for level in order]
    values = [float(value) for value in parsed if value is not None]
    return [int(v) for v in values] if all(v == int(v) for v in values) else values


def _bad(table: Table, target: str, where: Any, reason: str) -> list[BadCell]:
    absent = gaps(table.columns[target])
    return table.bad_cells(
        target,
        where | absent,
        lambda cell: "the target is missing" if _is_gap(cell) else f"{_shown(cell)} {reason}",
    )


def _is_gap(cell: Any) -> bool:
    return cell is None or cell != cell


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else f"{value:g}"


def _no_order(target: str, found: list[str]) -> str:
    if len(found) > _MOST_LEVELS:
        return f"The target column {target} has {len(found)} different texts, too many for levels."
    return (
        f"The levels of {target} are texts without an order: {', '.join(found)}.\n"
        "Name them from lowest to highest, for example (put them into the right order):\n"
        f"  --categories {','.join(found)}"
    )


def _refuse_measurements(target: str, labels: Any) -> None:
    n = len(np.unique(labels))
    if n > _MOST_LEVELS:
        raise BadInput(
            f"The target column {target} has {n} different numbers, where a few ordered levels "
            "are needed. Bin it into levels first."
        )
