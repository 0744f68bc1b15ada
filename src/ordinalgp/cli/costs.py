"""Costs of wrong decisions, from a file: ``--decision costs.csv``."""

from pathlib import Path
from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.cli import common
from ordinalgp.decisions import RULES
from ordinalgp.tables.cells import BadInput, numbers, texts


def check_decision(decision: str) -> None:
    """Raise unless ``--decision`` is a rule, or a file that is there."""
    if decision not in RULES and not Path(decision).is_file():
        raise BadInput(
            f"--decision must be one of {', '.join(RULES)}, or a file of costs, but there is "
            f"neither such a rule nor a file {decision!r}."
        )


def decision_rule(decision: str, levels: list[Any]) -> Any:
    """The rule of ``--decision``: its word, or the costs of a file."""
    return decision if decision in RULES else read_costs(Path(decision), levels)


def read_costs(path: Path, levels: list[Any]) -> FloatArray:
    """Costs of a file, with a row per true level and a column per predicted one.

    The first column and the header name the levels, in any order.
    """
    table = common.table_file(path, "error", None, None, None).read()
    names = [str(level) for level in levels]
    first, *predicted = table.columns
    true = [str(cell) for cell in texts(table.columns[first]).tolist()]
    for found, what in ((predicted, "columns"), (true, "rows")):
        if sorted(found) != sorted(names):
            raise BadInput(
                f"{path} must have one of its {what} for each of the levels {', '.join(names)}, "
                f"but it has {', '.join(found) or 'none'}. Its first column names the true level, "
                "its header the predicted ones."
            )
    cost = np.empty((len(names), len(names)))
    for place, name in enumerate(names):
        values, wrong = numbers(table.columns[name], table.decimal or ".")
        if np.any(wrong | ~np.isfinite(values)):
            raise BadInput(f"{path} needs a number in every cell of the column {name}.")
        cost[:, place] = values[[true.index(level) for level in names]]
    return cost
