"""``ordinalgp rank``: rank items from comparisons of pairs."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.text import Text
from typer import Argument, Option

import ordinalgp
from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.cli import common
from ordinalgp.runtime.threads import threads_for
from ordinalgp.tables.cells import BadCell, BadInput, BadRows, Table, texts
from ordinalgp.tables.encoding import learn, parse_columns, read_target
from ordinalgp.tables.files import Rows, TableFile, records, table_writer
from ordinalgp.tables.model import KERNELS, kernel_named

_MOST_SHOWN = 10  # items printed
_KERNELS = ("auto", *KERNELS, "none")

Items = Annotated[Path, Argument(help="File with one row per item: its name, then features.")]
Comparisons = Annotated[
    Path, Argument(help="File with one row per comparison: preferred item, other item.")
]
Output = Annotated[Path | None, common.output(".csv, .tsv or .parquet file.")]
Name = Annotated[str | None, Option(help="Column with the items' names (default: the first).")]
Left = Annotated[str | None, Option(help="Column with the left item (default: the first).")]
Right = Annotated[str | None, Option(help="Column with the right item (default: the second).")]
Outcome = Annotated[
    str | None, Option(help="Column with outcomes: 1 left, 0 tie, -1 right (default: left won).")
]
Outcomes = Annotated[
    list[str] | None,
    Option(metavar="RIGHT,...,LEFT", help="Outcomes, from right preferred to left preferred."),
]
Kernel = Annotated[
    str,
    common.one_of(
        _KERNELS,
        "Kernel over the features; auto adds a value of each item's own, none ignores features.",
    ),
]
Drop = Annotated[list[str] | None, common.names("Features to leave out.")]


def rank(
    items: Items,
    comparisons: Comparisons,
    output: Output = None,
    name: Name = None,
    left: Left = None,
    right: Right = None,
    outcome: Outcome = None,
    levels: Outcomes = None,
    kernel: Kernel = "auto",
    drop: Drop = None,
    on_bad_rows: common.OnBadRows = "error",
    separator: common.Separator = None,
    decimal: common.Decimal = ".",
    encoding: common.Encoding = "utf-8-sig",
    as_json: common.Json = False,
) -> None:
    """Rank items from comparisons of pairs, best first.

    Features of the items, if there are any, share information between similar items. They also
    rank items that were never compared. What they do not explain is a value of each item's own.
    """
    common.check_choice("--kernel", kernel, _KERNELS)
    reading = on_bad_rows, separator, decimal, encoding
    item_file, pair_file = (common.table_file(path, *reading) for path in (items, comparisons))
    table = item_file.read()
    key = _column(table, name, 0, items)
    table, names = _named_items(table, key, item_file.bad)
    names, X = _features(table.without([key, *common.words(drop)]), names, kernel, item_file)
    duels, bad = pair_file.read(), pair_file.bad
    sides = [_column(duels, given, at, comparisons) for at, given in enumerate((left, right))]
    pairs, outcomes, order = _pairs(duels, sides, names, outcome, common.words(levels), bad)
    start = _kernel(kernel, X)
    model = ordinalgp.PreferenceGP(start, levels=order, random_state=0)
    known = names if X is None else X
    with threads_for(len(names)), common.showing_progress():
        model.fit(known, np.array(names)[pairs] if X is None else pairs, outcomes)
        ranked = _rows(names, model.rank(known))
    common.tell_skipped(item_file.bad)
    common.tell_skipped(bad)
    _tell(model, ranked, len(pairs), output, as_json)


def _kernel(word: str, X: FloatArray | None) -> Any:
    if X is None:
        return "independent"
    return None if word == "auto" else kernel_named(word, X.shape[1])


def _column(table: Table, given: str | None, place: int, path: Path) -> str:
    names = list(table.columns)
    if given is None and place < len(names):
        return names[place]
    if given not in names:
        wanted = f"no column {given!r}" if given else f"fewer than {place + 1} columns"
        raise BadInput(f"{path} has {wanted}. Its columns are {', '.join(names)}.")
    return str(given)


def _named_items(table: Table, column: str, rows: BadRows) -> tuple[Table, list[str]]:
    """Rows whose items have a name of their own."""
    cells = texts(table.columns[column])
    seen: set[str] = set()
    bad = []
    for line, cell in zip(table.lines.tolist(), cells.tolist(), strict=True):
        if cell is None or cell in seen:
            reason = "the name is missing" if cell is None else f"{cell!r} was named before"
            bad.append(BadCell(line, column, reason))
        seen.add(cell)
    good = rows.drop(table, bad)
    return table.take(good), cells[good].tolist()


def _features(
    table: Table, names: list[str], kernel: str, file: TableFile
) -> tuple[list[str], FloatArray | None]:
    """Items without those of bad rows, and encoded features, or None if there are none to use."""
    if kernel == "none" or not table.columns:
        return names, None
    parsed, bad = parse_columns(table, decimal=file.style.decimal)
    good = file.bad.drop(table, bad)
    kept = list(compress(names, good))
    parsed = parsed.take(good)
    encoder = learn(parsed)
    for column in encoder.columns:
        filled = f"; {column.missing} missing -> {column.filler}" if column.missing else ""
        common.note(f"Feature {column.name}: {column.rule}{filled}")
    return kept, encoder.encode(parsed)[0]


def _pairs(
    table: Table,
    sides: list[str],
    names: list[str],
    outcome: str | None,
    levels: Sequence[str],
    rows: BadRows,
) -> tuple[IntArray, Any, list[Any] | None]:
    """Row numbers of the items compared, outcomes and their order, without bad rows."""
    place = {item: at for at, item in enumerate(names)}
    found, bad = [], []
    compared = replace(table, columns={side: texts(table.columns[side]) for side in sides})
    for side in sides:
        found.append([place.get(cell, -1) for cell in compared.columns[side].tolist()])
        bad += compared.bad_cells(side, np.array(found[-1]) < 0, _unknown)
    outcomes, order = None, None
    if outcome is not None:
        outcomes, order, wrong = read_target(table, outcome, levels or None)
        bad += wrong
    pairs = np.array(found, dtype=np.intp).T
    same = (pairs[:, 0] == pairs[:, 1]) & ~np.isin(table.lines, [cell.line for cell in bad])
    bad += table.bad_cells(sides[1], same, lambda cell: "an item cannot be compared with itself")
    good = rows.drop(table, bad)
    return pairs[good], None if outcomes is None else outcomes[good], order


def _unknown(cell: str | None) -> str:
    return "the item is missing" if cell is None else f"there is no item {cell!r}"


def _rows(names: list[str], ranking: Any) -> Rows:
    return {
        "rank": list(range(1, len(names) + 1)),
        "item": [names[at] for at in ranking.order.tolist()],
        "utility": ranking.mean.tolist(),
        "utility_sd": ranking.sd.tolist(),
        "probability_best": ranking.best_proba.tolist(),
    }


def _tell(model: Any, rows: Rows, n_pairs: int, output: Path | None, as_json: bool) -> None:
    if output is not None:
        with table_writer(output) as writer:
            writer.write(rows)
    if as_json:
        told = {"comparisons": n_pairs, "noise": float(model.noise_), "ranking": records(rows)}
        evidence = {"log_evidence": float(model.log_marginal_likelihood_value_)}
        common.print_json(told | evidence | {"converged": bool(model.converged_)})
        return
    print(f"{len(rows['item'])} items, {n_pairs} comparisons; noise sd {model.noise_:.3f}\n")
    table = common.grid("rank", "item", "utility", "± sd", "probability of being best", left=2)
    for values in list(zip(*rows.values(), strict=True))[:_MOST_SHOWN]:
        place, item, mean, sd, best = values
        numbers = f"{mean:.3f}", f"{sd:.3f}", f"{best:.1%}"
        table.add_row(str(place), Text(item), *numbers)
    common.console().print(table)
    if len(rows["item"]) > _MOST_SHOWN:
        print(f"... and {len(rows['item']) - _MOST_SHOWN} more{'' if output else '; all with -o'}.")
    if output is not None:
        print(f"\nSaved in {output}.")
