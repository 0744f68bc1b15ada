"""``ordinalgp rank``: rank items from comparisons of pairs."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.text import Text
from sklearn.exceptions import ConvergenceWarning
from typer import Argument, Option

import ordinalgp
from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.cli import common
from ordinalgp.cli.compare import check_outputs, draw
from ordinalgp.cli.outcomes import (
    NONE,
    Reading,
    check_overlap,
    left_won,
    outcome_column,
    read,
    sides,
)
from ordinalgp.tables.cells import BadCell, BadInput, BadRows, Table, texts
from ordinalgp.tables.encoding import learn, parse_columns
from ordinalgp.tables.files import Rows, TableFile, records, table_writer
from ordinalgp.tables.model import KERNELS, kernel_named

_MOST_SHOWN = 10  # items printed
_MOST_TO_CHOOSE_FROM = 1000  # items, of which every pair is a candidate to ask next
_KERNELS = ("auto", *KERNELS, "none")

Items = Annotated[
    Path,
    Argument(
        help="File with one row per item: its name, then features. Without the second file, the "
        "comparisons: items are then the names in them."
    ),
]
Comparisons = Annotated[
    Path | None,
    Argument(help="File with one row per comparison: two items, and an outcome if there is one."),
]
Output = Annotated[Path | None, common.output(".csv, .tsv or .parquet file.")]
Name = Annotated[str | None, Option(help="Column with the items' names (default: the first).")]
Left = Annotated[
    str | None, Option(help="Column with the left item (default: by its name, or the first).")
]
Right = Annotated[
    str | None, Option(help="Column with the right item (default: by its name, or the second).")
]
Outcome = Annotated[
    str | None,
    Option(
        help="Column with outcomes: 1 left, 0 tie, -1 right; 1, 0.5, 0; left, tie, right; win, "
        "draw, loss; the winner's name (default: by its name). none: the left item won each time."
    ),
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
Sweeps = Annotated[int, Option(min=1, help="Most sweeps of the inference.")]
Bias = Annotated[
    bool,
    Option("--position-bias", help="Learn an advantage of the left side: shown first, or at home."),
]
Coverage = Annotated[float, Option(help="Probability of the intervals of ranks and of the bias.")]
Next = Annotated[
    int,
    Option("--next", min=0, help="Number of pairs to name that tell most if asked next."),
]
Plot = Annotated[Path | None, Option(metavar="FILE", help="Picture to draw (.png, .svg).")]


def rank(
    items: Items,
    comparisons: Comparisons = None,
    output: Output = None,
    name: Name = None,
    left: Left = None,
    right: Right = None,
    outcome: Outcome = None,
    levels: Outcomes = None,
    kernel: Kernel = "auto",
    drop: Drop = None,
    position_bias: Bias = False,
    coverage: Coverage = 0.9,
    next_pairs: Next = 0,
    plot: Plot = None,
    max_sweeps: Sweeps = 100,
    on_bad_rows: common.OnBadRows = "error",
    separator: common.Separator = None,
    decimal: common.Decimal = None,
    encoding: common.Encoding = None,
    missing: common.Missing = None,
    as_json: common.Json = False,
) -> None:
    """Rank items from comparisons of pairs, best first.

    Features of the items, if there are any, share information between similar items. They also
    rank items that were never compared. What they do not explain is a value of each item's own.
    """
    common.check_choice("--kernel", kernel, _KERNELS)
    common.check_coverage(coverage)
    check_outputs(output, plot, [items] if comparisons is None else [items, comparisons])
    reading = on_bad_rows, separator, decimal, encoding, missing
    pair_file = common.table_file(comparisons or items, *reading)
    item_file = None if comparisons is None else common.table_file(items, *reading)
    if item_file is None:
        _refuse({"--name": name, "--drop": drop, "--kernel": kernel in KERNELS and kernel}, items)
        listed = None
    else:
        listed = _read_items(item_file, name, common.words(drop), kernel)
    read_pairs = (left, right), outcome, common.words(levels)
    listed, compared = _read_comparisons(pair_file, listed, *read_pairs)
    for file in (item_file, pair_file):
        if file is not None:
            common.tell_skipped(file.bad)
    _tell_reading(pair_file.path, items, listed, compared)
    _check_next(next_pairs, len(listed.names))
    options = {"position_bias": "learned" if position_bias else "none", "max_sweeps": max_sweeps}
    leaderboard = _fit(listed, compared, _kernel(kernel, listed), options, coverage, next_pairs)
    if output is not None:
        with table_writer(output) as writer:
            writer.write(leaderboard.rows)
    if plot is not None:
        _draw(leaderboard, plot)
    _tell_unfinished(leaderboard.model)
    if as_json:
        common.print_json(_result(leaderboard))
    else:
        _tell(leaderboard, [path for path in (output, plot) if path is not None])


def _refuse(options: dict[str, Any], path: Path) -> None:
    """Raise if an option is given that needs a file of items."""
    for option, value in options.items():
        if value:
            raise BadInput(
                f"{option} is about a file of items, but {path} is the only file given, and read "
                "as comparisons. Give both files: ordinalgp rank ITEMS COMPARISONS."
            )


def _kernel(word: str, listed: "_Items") -> Any:
    if listed.X is None:
        return "independent"
    return None if word == "auto" else kernel_named(word, listed.X.shape[1], listed.owner)


# ---------------------------------------------------------------------------------- items


@dataclass(frozen=True, eq=False)
class _Items:
    names: list[str]
    X: FloatArray | None
    """encoded features, or None"""
    owner: list[int]
    """column of each feature"""
    unused: list[str]
    """columns that are not used"""


def _read_items(file: TableFile, name: str | None, drop: Sequence[str], kernel: str) -> _Items:
    table = file.read()
    columns = list(table.columns)
    if name is not None and name not in columns:
        raise BadInput(
            f"{file.path} has no column {name!r} for --name. Its columns are {', '.join(columns)}."
        )
    key = columns[0] if name is None else name
    table.require(drop, f"{file.path} has no column {{name}} for --drop. It has {{columns}}.")
    table, names = _named_items(table, key, file.bad)
    features = table.without([key, *drop])
    names, X, owner = _features(features, names, kernel, file)
    unused = list(drop) if X is not None else [*features.columns, *drop]
    return _Items(names, X, owner, unused)


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
) -> tuple[list[str], FloatArray | None, list[int]]:
    """Items without those of bad rows, encoded features or None, and the column of each."""
    if kernel == "none" or not table.columns:
        return names, None, []
    parsed, bad = parse_columns(table)
    common.tell_left_out(parsed.left_out)
    if not parsed.columns:
        return names, None, []
    good = file.bad.drop(table, bad)
    kept = list(compress(names, good))
    parsed = parsed.take(good)
    encoder = learn(parsed)
    for column in encoder.columns:
        filled = f"; {column.missing} missing -> {column.filler}" if column.missing else ""
        common.note(f"Feature {column.name}: {column.rule}{filled}")
    return kept, encoder.encode(parsed)[0], encoder.owner


# ---------------------------------------------------------------------------- comparisons


@dataclass(frozen=True, eq=False)
class _Comparisons:
    """Comparisons as they were read, without bad rows."""

    columns: list[str]
    """with the left and the right item"""
    outcome: str | None
    """column with the outcomes"""
    reading: Reading
    pairs: IntArray
    """row numbers of items, (m, 2)"""
    values: Any
    """outcomes, or None"""
    sides: dict[str, int]
    """number of comparisons that either side won, and of ties"""
    unused: list[str]
    """columns that are not used"""


def _read_comparisons(
    file: TableFile,
    listed: _Items | None,
    given: tuple[str | None, str | None],
    outcome: str | None,
    levels: Sequence[str],
) -> tuple[_Items, _Comparisons]:
    """The items, those of the comparisons if none are listed, and the comparisons."""
    table = file.read()
    decimal = table.decimal or "."
    columns = sides(table, given, None if listed is None else listed.names, file.path)
    if outcome is None:
        outcome = outcome_column(table, columns, levels, decimal, file.path)
    elif outcome == NONE and outcome not in table.columns:
        outcome = None
    reading = left_won(columns)
    if outcome is not None:
        reading = read(table, outcome, columns, levels, decimal)
    if listed is None:
        if given == (None, None):
            check_overlap(table, columns, file.path)
        cells = (cell for side in columns for cell in texts(table.columns[side]).tolist())
        listed = _Items(
            list(dict.fromkeys(cell for cell in cells if cell is not None)), None, [], []
        )
    pairs, bad = _pairs(table, columns, listed.names, reading.bad)
    good = file.bad.drop(table, bad)
    counts = reading.side_counts(good)
    _check_wins(counts, reading, file.path)
    values = None if reading.values is None else reading.values[good]
    unused = [name for name in table.columns if name not in (*columns, outcome)]
    return listed, _Comparisons(columns, outcome, reading, pairs[good], values, counts, unused)


def _pairs(
    table: Table, columns: list[str], names: list[str], bad: list[BadCell]
) -> tuple[IntArray, list[BadCell]]:
    """Row numbers of the items compared, and all bad cells."""
    place = {item: at for at, item in enumerate(names)}
    found, bad = [], list(bad)
    compared = replace(table, columns={side: texts(table.columns[side]) for side in columns})
    for side in columns:
        found.append([place.get(cell, -1) for cell in compared.columns[side].tolist()])
        bad += compared.bad_cells(side, np.array(found[-1]) < 0, _unknown)
    pairs = np.array(found, dtype=np.intp).T
    same = (pairs[:, 0] == pairs[:, 1]) & ~np.isin(table.lines, [cell.line for cell in bad])
    bad += table.bad_cells(columns[1], same, lambda cell: "an item cannot be compared with itself")
    return pairs, bad


def _unknown(cell: str | None) -> str:
    return "the item is missing" if cell is None else f"there is no item {cell!r}"


def _check_wins(counts: dict[str, int], reading: Reading, path: Path) -> None:
    """Raise unless some comparison was won."""
    if not sum(counts.values()):
        raise BadInput(f"{path} has no comparison that can be used.")
    if not counts["left"] + counts["right"]:
        raise BadInput(
            f"All {counts['ties']} comparisons of {path} are ties ({reading.meaning}), which do "
            "not order the items. If some were won, name the outcomes, from right to left "
            "preferred, with --levels."
        )


def _tell_reading(path: Path, item_path: Path, items: _Items, found: _Comparisons) -> None:
    """Print what was read, and what is not used."""
    left, right = found.columns
    source = f"outcomes in {found.outcome}: " if found.outcome else ""
    common.note(
        f"{path}: left item in {left}, right item in {right}; {source}{found.reading.meaning}"
    )
    common.note("Read " + _counted(found.sides) + f", {len(items.names)} items.")
    for name, unused in ((item_path, items.unused), (path, found.unused)):
        if unused:
            common.note(f"Columns of {name} that are not used: {', '.join(unused)}.")


def _counted(counts: dict[str, int]) -> str:
    return f"{counts['left']} left, {counts['ties']} ties, {counts['right']} right"


# -------------------------------------------------------------------------------- ranking


@dataclass(frozen=True, eq=False)
class _Leaderboard:
    """A fitted model, and what is told of it."""

    model: ordinalgp.PreferenceGP
    items: _Items
    found: _Comparisons
    known: Any
    """the items as the model takes them"""
    rows: Rows
    coverage: float
    bias: tuple[float, float] | None
    """interval of the advantage of the left side, if it is learned"""
    ask: list[tuple[str, str]]
    """names of pairs to ask next"""


def _check_next(number: int, n_items: int) -> None:
    if number and n_items > _MOST_TO_CHOOSE_FROM:
        raise BadInput(
            f"--next looks at all pairs of at most {_MOST_TO_CHOOSE_FROM:,} items, but there are "
            f"{n_items:,}. Rank a file with fewer items, or leave --next out."
        )
    if number > n_items * (n_items - 1) // 2:
        raise BadInput(
            f"--next {number} asks for more pairs than the {n_items * (n_items - 1) // 2} that "
            f"{n_items} items have."
        )


def _fit(
    items: _Items,
    found: _Comparisons,
    kernel: Any,
    options: dict[str, Any],
    coverage: float,
    next_pairs: int,
) -> _Leaderboard:
    names, X = items.names, items.X
    order = found.reading.order
    model = ordinalgp.PreferenceGP(kernel, levels=order, random_state=0, **options)
    known = names if X is None else X
    pairs = np.array(names)[found.pairs] if X is None else found.pairs
    with common.showing_progress(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # `_tell_unfinished` names our options
        model.fit(known, pairs, found.values)
        votes = np.bincount(found.pairs.ravel(), minlength=len(names))
        rows = _rows(names, model.rank(known, coverage=coverage), votes)
        learned = model.position_bias == "learned"
        bias = model.position_bias_interval(coverage) if learned else None
        chosen = model.suggest_pairs(known, next_pairs).tolist() if next_pairs else []
    ask = [(names[i], names[j]) for i, j in chosen]
    return _Leaderboard(model, items, found, known, rows, coverage, bias, ask)


def _rows(names: list[str], ranking: Any, votes: IntArray) -> Rows:
    return {
        "rank": list(range(1, len(names) + 1)),
        "item": [names[at] for at in ranking.order.tolist()],
        "utility": ranking.mean.tolist(),
        "utility_sd": ranking.sd.tolist(),
        "rank_low": ranking.rank_low.tolist(),
        "rank_high": ranking.rank_high.tolist(),
        "group": ranking.group.tolist(),
        "probability_best": ranking.best_proba.tolist(),
        "comparisons": votes[ranking.order].tolist(),
    }


def _method(model: ordinalgp.PreferenceGP) -> dict[str, Any]:
    """Linear algebra of the fit, and the size of its approximation."""
    found = model._result.model
    if model.solver_ == "dense":
        return {"solver": "dense"}
    sizes = {"search_items": found.search_items, "inducing_items": len(found.task.inducing)}
    return {"solver": "sparse", **sizes, "variance_left": found.residual_share}


def _draw(board: _Leaderboard, path: Path) -> None:
    from ordinalgp.plots import RankingDisplay
    from ordinalgp.plots.base import file_axes

    shown = min(30, len(board.items.names))
    names, axes = board.items.names, file_axes((7, 0.28 * shown + 1.2))
    display = RankingDisplay.from_estimator(
        board.model, board.known, names=names, coverage=board.coverage, ax=axes
    )
    draw(path, display)


def _tell(board: _Leaderboard, written: list[Path]) -> None:
    model, found, rows = board.model, board.found, board.rows
    head = f"{len(rows['item'])} items, {len(found.pairs)} comparisons ({_counted(found.sides)})"
    common.tell(f"{head}; noise sd {model.noise_:.3f}")
    _tell_method(_method(model), len(board.items.names))
    if board.bias is not None:
        common.tell(_bias_in_words(board))
    common.tell()
    heads = "rank", "item", "utility", "± sd", "ranks", "group", "best", "comparisons"
    table = common.grid(*heads, left=2)
    for row in records(rows)[:_MOST_SHOWN]:
        cells = f"{row['utility']:.3f}", f"{row['utility_sd']:.3f}", _range(row), str(row["group"])
        best = f"{row['probability_best']:.1%}", str(row["comparisons"])
        table.add_row(str(row["rank"]), Text(row["item"]), *cells, *best)
    common.console().print(table)
    if len(rows["item"]) > _MOST_SHOWN:
        rest = "" if written else "; all with -o"
        common.tell(f"... and {len(rows['item']) - _MOST_SHOWN} more{rest}.")
    common.tell(
        f"\nranks: the item's rank lies between these with probability {board.coverage:.0%}\n"
        "group: its first item cannot be told apart from the others (not ahead with 95 %)\n"
        "best: probability of being the best of all"
    )
    if board.ask:
        common.tell("\nTo ask next:")
        for left, right in board.ask:
            common.tell(f"  {left} or {right}")
    if written:
        common.tell(f"\nSaved in {' and '.join(map(str, written))}.")


def _range(row: dict[str, Any]) -> str:
    low, high = row["rank_low"], row["rank_high"]
    return str(low) if low == high else f"{low} to {high}"


def _bias_in_words(board: _Leaderboard) -> str:
    assert board.bias is not None
    low, high = board.bias
    chances = _against_equal(board)
    return (
        f"Left side: advantage {board.model.position_bias_:+.3f} in utility, {board.coverage:.0%} "
        f"interval {low:+.3f} to {high:+.3f}.\nAgainst an equal item it wins with probability "
        f"{chances['wins']:.2f} and loses with {chances['loses']:.2f}."
    )


def _against_equal(board: _Leaderboard) -> dict[str, float]:
    """Probabilities that the left of two equal items is preferred, and that the right is."""
    same = board.known[:1]
    chances = np.ravel(board.model.comparison_proba(same, same))
    if len(chances) == 1:  # without ties and grades
        chances = np.array([1.0 - chances[0], chances[0]])
    half = len(chances) // 2
    return {"wins": float(chances[-half:].sum()), "loses": float(chances[:half].sum())}


def _result(board: _Leaderboard) -> dict[str, Any]:
    """The content of ``--json``."""
    model, items, found = board.model, board.items, board.found
    outcomes = {"column": found.outcome, "meaning": found.reading.meaning, **found.sides}
    bias = None
    if board.bias is not None:
        bias = {
            "advantage": float(model.position_bias_),
            "interval": list(board.bias),
            "against_equal": _against_equal(board),
        }
    return {
        "items": len(items.names),
        "comparisons": len(found.pairs),
        "left_column": found.columns[0],
        "right_column": found.columns[1],
        "outcomes": outcomes,
        "unused_columns": {"items": items.unused, "comparisons": found.unused},
        "noise": float(model.noise_),
        "position_bias": bias,
        "log_evidence": float(model.log_marginal_likelihood_value_),
        "converged": bool(model.converged_),
        "method": _method(model),
        "coverage": board.coverage,
        "ranking": records(board.rows),
        "ask_next": [list(pair) for pair in board.ask],
    }


def _tell_method(method: dict[str, Any], n_items: int) -> None:
    """Print the approximation, if there is one."""
    if n_inducing := method.get("inducing_items"):
        those = "1 item, which leaves" if n_inducing == 1 else f"{n_inducing} items, which leave"
        common.tell(
            f"Many items: hyperparameters from the {method['search_items']} most compared of "
            f"{n_items}; the function of the features is represented by "
            f"{those} {method['variance_left']:.1%} of its variance."
        )


def _tell_unfinished(model: ordinalgp.PreferenceGP) -> None:
    """Print what to do if the fit has not converged."""
    if model.converged_:
        return
    if model.n_iter_ >= model.max_sweeps:
        advice = f"Allow more sweeps: --max-sweeps {10 * model.max_sweeps}."
    elif model.kernel == "independent":
        advice = "The ranking is usable; more comparisons of the same items would settle the noise."
    else:
        advice = "The ranking is usable. To settle it, leave out features with --drop, or use "
        advice += "--kernel none, which has fewer hyperparameters."
    common.note(f"Warning: NOT converged after {model.n_iter_} sweeps. {advice}")
