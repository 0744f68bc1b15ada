"""``ordinalgp rank``: rank items from comparisons of pairs."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.text import Text
from scipy.sparse.csgraph import connected_components
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
from ordinalgp.preference.store import read_store
from ordinalgp.runtime.files import check_output
from ordinalgp.tables.cells import BadCell, BadInput, BadRows, Table, numbers, texts
from ordinalgp.tables.encoding import learn, parse_columns
from ordinalgp.tables.files import (
    Rows,
    TableFile,
    check_table_output,
    records,
    table_writer,
)
from ordinalgp.tables.model import KERNELS, kernel_named

_MOST_SHOWN = 10  # items printed
_MOST_TO_CHOOSE_FROM = 1000  # items, of which every pair is a candidate to ask next
_KERNELS = ("auto", *KERNELS, "none")

Items = Annotated[
    Path | None,
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
Judge = Annotated[
    str | None,
    Option(metavar="NAME", help="Column with who made the comparison. Careless ones count less."),
]
JudgeTable = Annotated[
    Path | None, Option("--judge-table", metavar="FILE", help="Table of the judges to write.")
]
Count = Annotated[
    str | None, Option(metavar="NAME", help="Column with how often a comparison was made.")
]
Model = Annotated[Path | None, Option(metavar="FILE", help="Model to save, for --start.")]
StoreFile = Annotated[
    Path | None,
    Option("--store", metavar="FILE", help="Answers of ordinalgp ask, in place of other files."),
]
Start = Annotated[
    Path | None,
    Option(metavar="FILE", help="Saved model: its comparisons count too, and are not read again."),
]


def rank(
    items: Items = None,
    comparisons: Comparisons = None,
    output: Output = None,
    name: Name = None,
    left: Left = None,
    right: Right = None,
    outcome: Outcome = None,
    levels: Outcomes = None,
    kernel: Kernel = "auto",
    drop: Drop = None,
    judge: Judge = None,
    judge_table: JudgeTable = None,
    count: Count = None,
    position_bias: Bias = False,
    coverage: Coverage = 0.9,
    next_pairs: Next = 0,
    plot: Plot = None,
    store: StoreFile = None,
    model: Model = None,
    start: Start = None,
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
    inputs = [path for path in (items, comparisons, start, store) if path is not None]
    check_outputs(output, plot, inputs)
    if judge_table is not None:
        check_table_output(judge_table, inputs)
        if judge is None:
            raise BadInput("--judge-table needs --judge, the column with who compared.")
    if model is not None:
        check_output(model, [path for path in inputs if path != start])
    earlier = None if start is None else _earlier(start, comparisons, position_bias)
    columns = _Columns((left, right), outcome, common.words(levels), judge, count)
    if store is not None:
        given = [items, comparisons, name, left, right, outcome, levels, drop, count, start]
        listed, compared = _read_store(store, kernel, judge, given)
    else:
        reading = on_bad_rows, separator, decimal, encoding, missing
        files = _files(items, comparisons, reading)
        about = name, common.words(drop), kernel
        listed, compared = _read_files(*files, about, columns, is_new=earlier is None)
    unfitted = earlier or ordinalgp.PreferenceGP(
        _kernel(kernel, listed),
        levels=compared.reading.order,
        position_bias="learned" if position_bias else "none",
        max_sweeps=max_sweeps,
        random_state=0,
    )
    leaderboard = _fit(unfitted, listed, compared, coverage, next_pairs)
    if output is not None:
        with table_writer(output) as writer:
            writer.write(leaderboard.rows)
    if judge_table is not None:
        with table_writer(judge_table) as writer:
            writer.write(leaderboard.judges)
    if plot is not None:
        _draw(leaderboard, plot)
    if model is not None:
        leaderboard.model.save(model)
    _tell_unfinished(leaderboard.model)
    if as_json:
        common.print_json(_result(leaderboard))
    else:
        written = output, judge_table, plot, model
        _tell(leaderboard, [path for path in written if path is not None])


def _files(
    items: Path | None, comparisons: Path | None, reading: tuple[Any, ...]
) -> tuple[TableFile | None, TableFile]:
    """The file of items, if there is one, and that of comparisons."""
    if items is None:
        raise BadInput("Name a file of comparisons, or a file of answers with --store.")
    if comparisons is None:
        return None, common.table_file(items, *reading)
    return common.table_file(items, *reading), common.table_file(comparisons, *reading)


def _read_files(
    item_file: TableFile | None,
    pair_file: TableFile,
    about: tuple[str | None, Sequence[str], str],
    columns: "_Columns",
    *,
    is_new: bool,
) -> tuple["_Items", "_Comparisons"]:
    """Items, by their name, columns to leave out and kernel, and comparisons of tables."""
    name, drop, kernel = about
    if item_file is None:
        options = {"--name": name, "--drop": drop, "--kernel": kernel in KERNELS and kernel}
        _refuse(options, pair_file.path)
        listed = None
    else:
        listed = _read_items(item_file, name, drop, kernel)
    listed, compared = _read_comparisons(pair_file, listed, columns, is_new=is_new)
    for file in (item_file, pair_file):
        if file is not None:
            common.tell_skipped(file.bad)
    _tell_reading(pair_file.path, (item_file or pair_file).path, listed, compared)
    return listed, compared


def _read_store(
    path: Path, kernel: str, judge: str | None, others: Sequence[Any]
) -> tuple["_Items", "_Comparisons"]:
    """Items and comparisons that ``ordinalgp ask`` has collected."""
    if any(others):
        raise BadInput(
            "--store has items and answers, so that no other file is read. Leave out files, and "
            "--name, --left, --right, --outcome, --levels, --drop, --count and --start."
        )
    if judge not in (None, "judge"):
        raise BadInput(f"The column with who answered is judge, but --judge is {judge!r}.")
    found = read_store(path)
    X = None if kernel == "none" else found.X
    listed = _Items(found.items.tolist(), X, list(range(len(found.feature_names))), [])
    reading = Reading(found.outcomes, found.levels, [], "positive = left, negative = right")
    counts = reading.side_counts(np.ones(len(found), dtype=bool))
    _check_wins(counts, reading, path)
    who = found.judges.tolist() if judge else None
    compared = _Comparisons(
        columns=["left", "right"],
        outcome="outcome",
        reading=reading,
        pairs=found.comparisons,
        values=found.outcomes,
        sides=counts,
        unused=[],
        judges=who,
        counts=None,
    )
    common.note(f"{path}: {found.question}")
    common.note("Read " + _counted(counts) + f", {len(found.items)} items.")
    return listed, compared


def _earlier(path: Path, comparisons: Path | None, position_bias: bool) -> ordinalgp.PreferenceGP:
    """The model of earlier comparisons."""
    model = ordinalgp.load(path)
    if not isinstance(model, ordinalgp.PreferenceGP):
        raise BadInput(
            f"{path} holds a {type(model).__name__}, but --start needs a model of comparisons that "
            "ordinalgp rank --model wrote."
        )
    if comparisons is not None or model.kernel != "independent":
        raise BadInput(
            "--start goes on with comparisons of items without features. Give all comparisons at "
            "once to use features."
        )
    if position_bias and model.position_bias == "none":
        raise BadInput(
            f"--position-bias was given, but the model of {path} was fitted without. Leave it "
            "out, or rank all comparisons anew with it."
        )
    return model


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
    judges: list[str] | None
    """who made each comparison"""
    counts: FloatArray | None
    """how often"""


@dataclass(frozen=True, eq=False)
class _Columns:
    """Columns of comparisons, as the command line names them."""

    sides: tuple[str | None, str | None]
    outcome: str | None
    levels: Sequence[str]
    judge: str | None
    count: str | None


def _read_comparisons(
    file: TableFile, listed: _Items | None, named: _Columns, *, is_new: bool
) -> tuple[_Items, _Comparisons]:
    """The items, those of the comparisons if none are listed, and the comparisons."""
    table = file.read()
    decimal = table.decimal or "."
    for option, extra in (("--judge", named.judge), ("--count", named.count)):
        table.require(
            [extra] if extra else [],
            f"{file.path} has no column {{name}} for {option}. It has {{columns}}.",
        )
    extras = [column for column in (named.judge, named.count) if column]
    table, whole = table.without(extras), table
    given, outcome, levels = named.sides, named.outcome, named.levels
    columns = sides(table, given, None if listed is None else listed.names, file.path)
    if outcome is None:
        outcome = outcome_column(table, columns, levels, decimal, file.path)
    elif outcome == NONE and outcome not in table.columns:
        outcome = None
    reading = left_won(columns)
    if outcome is not None:
        reading = read(table, outcome, columns, levels, decimal)
    if listed is None:
        if given == (None, None) and is_new:
            check_overlap(table, columns, file.path)
        cells = (cell for side in columns for cell in texts(table.columns[side]).tolist())
        listed = _Items(
            list(dict.fromkeys(cell for cell in cells if cell is not None)), None, [], []
        )
    pairs, bad = _pairs(table, columns, listed.names, reading.bad)
    who, often, wrong = _judges_and_counts(whole, named, decimal)
    good = file.bad.drop(whole, bad + wrong)
    counts = reading.side_counts(good)
    _check_wins(counts, reading, file.path)
    values = None if reading.values is None else reading.values[good]
    unused = [name for name in table.columns if name not in (*columns, outcome)]
    who = None if who is None else list(compress(who, good))
    often = None if often is None else often[good]
    found = columns, outcome, reading, pairs[good], values, counts, unused, who, often
    return listed, _Comparisons(*found)


def _judges_and_counts(
    table: Table, named: _Columns, decimal: str
) -> tuple[list[str] | None, FloatArray | None, list[BadCell]]:
    """Judge and count of each comparison, and the bad cells."""
    who, often, bad = None, None, list[BadCell]()
    if named.judge is not None:
        who = texts(table.columns[named.judge]).tolist()
        missing = np.array([cell is None for cell in who], dtype=bool)
        bad += table.bad_cells(named.judge, missing, lambda cell: "the judge is missing")
    if named.count is not None:
        often, wrong = numbers(table.columns[named.count], decimal)
        wrong = wrong | ~(often >= 0)
        bad += table.bad_cells(named.count, wrong, lambda cell: f"{cell!r} is not a count")
    return who, often, bad


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
    judges: Rows
    """the judges, the most careful one first; empty if there are none"""
    total: float
    """number of comparisons, earlier ones and counts included"""
    islands: list[list[str]]
    """items that were compared with each other, in one way or another; largest first"""
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
    model: ordinalgp.PreferenceGP,
    items: _Items,
    found: _Comparisons,
    coverage: float,
    next_pairs: int,
) -> _Leaderboard:
    """Fit, or go on with a fitted model, and rank all items."""
    names, X = items.names, items.X
    named = np.array(names)
    pairs = named[found.pairs] if X is None and len(named) else found.pairs
    again = hasattr(model, "items_")
    if not again:
        _check_next(next_pairs, len(names))
    with common.showing_progress(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # `_tell_unfinished` names our options
        learn = model.partial_fit if again else model.fit
        learn(names if X is None else X, pairs, found.values, found.counts, found.judges)
        if again:
            names = [str(name) for name in model.items_.tolist()]
            items = replace(items, names=names)
            _check_next(next_pairs, len(names))
        known = names if X is None else X
        votes, islands = _votes(model, names, found)
        rows = _rows(names, model.rank(known, coverage=coverage), votes)
        learned = model.position_bias == "learned"
        bias = model.position_bias_interval(coverage) if learned else None
        chosen = model.suggest_pairs(known, next_pairs).tolist() if next_pairs else []
        judges = _judges(model, coverage) if found.judges is not None else {}
    ask = [(names[i], names[j]) for i, j in chosen]
    total = float(np.sum(model._result.model.task.counts))
    rest = rows, coverage, bias, judges, total, islands, ask
    return _Leaderboard(model, items, found, known, *rest)


def _votes(
    model: ordinalgp.PreferenceGP, names: list[str], found: _Comparisons
) -> tuple[FloatArray, list[list[str]]]:
    """Number of comparisons of each item, and groups of items that never met another group."""
    task = model._result.model.task
    if len(task.X) != len(names):  # items with equal features are one
        often = None if found.counts is None else np.repeat(found.counts, 2)
        return np.bincount(found.pairs.ravel(), often, len(names)).astype(float), [names]
    joined = abs(task.projection.matrix)
    votes = np.asarray(joined.T @ task.counts)
    _, island = connected_components(joined.T @ joined, directed=False)
    apart: dict[int, list[str]] = {}
    for name, number, count in zip(names, island.tolist(), votes.tolist(), strict=True):
        if count:
            apart.setdefault(number, []).append(name)
    return votes, sorted(apart.values(), key=len, reverse=True)


def _judges(model: ordinalgp.PreferenceGP, coverage: float) -> Rows:
    found = model.judge_reliability(coverage)
    return {
        "judge": found.judges.tolist(),
        "noise_factor": found.factor.tolist(),
        "factor_low": found.low.tolist(),
        "factor_high": found.high.tolist(),
        "votes": [_whole(votes) for votes in found.votes.tolist()],
    }


def _whole(number: float) -> float:
    """An integer where the number is one."""
    return int(number) if float(number).is_integer() else number


def _rows(names: list[str], ranking: Any, votes: FloatArray) -> Rows:
    return {
        "rank": list(range(1, len(names) + 1)),
        "item": [names[at] for at in ranking.order.tolist()],
        "utility": ranking.mean.tolist(),
        "utility_sd": ranking.sd.tolist(),
        "rank_low": ranking.rank_low.tolist(),
        "rank_high": ranking.rank_high.tolist(),
        "group": ranking.group.tolist(),
        "probability_best": ranking.best_proba.tolist(),
        "comparisons": [_whole(count) for count in votes[ranking.order].tolist()],
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
    new = "" if board.total == len(found.pairs) else f"{len(found.pairs)} rows read: "
    head = f"{len(rows['item'])} items, {_whole(board.total)} comparisons "
    common.tell(f"{head}({new}{_counted(found.sides)}); noise sd {model.noise_:.3f}")
    _tell_method(_method(model), len(board.items.names))
    if board.bias is not None:
        common.tell(_bias_in_words(board))
    _tell_islands(board)
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
    if board.judges:
        _tell_judges(board)
    if board.ask:
        common.tell("\nTo ask next:")
        for left, right in board.ask:
            common.tell(f"  {left} or {right}")
    if written:
        common.tell(f"\nSaved in {' and '.join(map(str, written))}.")


def _tell_islands(board: _Leaderboard) -> None:
    """Say which items cannot be compared by what was compared."""
    if len(board.islands) < 2:
        return
    common.tell(f"\nThe items fall into {len(board.islands)} sets that were never compared:")
    for island in board.islands[:_MOST_SHOWN]:
        more = f" and {len(island) - 5} more" if len(island) > 5 else ""
        common.tell(f"  {', '.join(island[:5])}{more}")
    if len(board.islands) > _MOST_SHOWN:
        common.tell(f"  ... and {len(board.islands) - _MOST_SHOWN} more sets")
    what = "the prior" if board.items.X is None else "the features"
    common.tell(
        f"Ranks within a set rest on comparisons, and ranks between sets on {what} alone. "
        "Compare items\nof different sets to connect them."
    )


def _tell_judges(board: _Leaderboard) -> None:
    """Print the judges, of many the most careless ones."""
    rows = records(board.judges)
    common.tell(f"\nJudges: noise in units of the typical judge's, {board.coverage:.0%} interval\n")
    table = common.grid("judge", "noise", "from", "to", "votes")
    for row in rows[-_MOST_SHOWN:]:
        numbers_ = (f"{row[key]:.2f}" for key in ("noise_factor", "factor_low", "factor_high"))
        table.add_row(Text(str(row["judge"])), *numbers_, str(row["votes"]))
    common.console().print(table)
    if len(rows) > _MOST_SHOWN:
        common.tell(
            f"These are the {_MOST_SHOWN} most careless of {len(rows)}; all with --judge-table."
        )


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
        "comparisons": _whole(board.total),
        "rows": len(found.pairs),
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
        "judges": records(board.judges) if board.judges else None,
        "never_compared": board.islands if len(board.islands) > 1 else [],
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
