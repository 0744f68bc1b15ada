"""``ordinalgp explain``: columns that move the predictions of single rows."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.text import Text
from typer import Argument, Option

from ordinalgp.cli import common
from ordinalgp.cli.compare import check_outputs, draw
from ordinalgp.cli.saved_model import (
    ON_NEW_VALUES,
    Model,
    OnNewValues,
    Surprises,
    tell_new_columns,
)
from ordinalgp.tables import TableModel
from ordinalgp.tables.cells import BadInput, Table
from ordinalgp.tables.explanation import Change, Explanations, RowExplanation
from ordinalgp.tables.explanation import explain as explained
from ordinalgp.tables.files import Rows, TableFile, table_writer

_HALF = 6  # characters of the longest bar, to either side
_ROWS = "Number of rows to explain, from the first on."
_ROW = "Row to explain: 1 is the first below the header (may be given several times)."
_MOST_CELL = 16  # characters of a value
_MOST_NAME = 22  # characters of a column's name: all fit into 80


def explain(
    model: Model,
    table: Annotated[Path, Argument(help="CSV, Parquet or Excel file with the same columns.")],
    row: Annotated[list[int] | None, Option(help=_ROW)] = None,
    rows: Annotated[int, Option(min=1, help=_ROWS)] = 3,
    columns: Annotated[int, Option(min=1, help="Number of columns to print per row.")] = 10,
    coverage: Annotated[float, Option(help="Coverage of the intervals of levels.")] = 0.9,
    background: Annotated[
        int, Option(min=1, help="Training rows that stand for the average, up to 100.")
    ] = 100,
    output: Annotated[
        Path | None, common.output("CSV or Parquet file: one line per row and column.")
    ] = None,
    plot: Annotated[
        Path | None, Option(metavar="FILE", help="Picture to draw (.png, .svg).")
    ] = None,
    on_bad_rows: common.OnBadRows = "error",
    on_new_values: OnNewValues = "use",
    separator: common.Separator = None,
    decimal: common.Decimal = None,
    encoding: common.Encoding = None,
    missing: common.Missing = None,
    sheet: common.Sheet = None,
    as_json: common.Json = False,
) -> None:
    """Explain predictions: which columns move a row, and how far the next level is.

    The contribution of a column is its Shapley value: how much the expected level changes when the
    column gets the value of the row in place of that of a training row, averaged over training
    rows and over the orders in which the columns change. Contributions add up to the difference
    between the row and the average. "higher at" and "lower at" are the nearest values of the column
    alone, within the training range, at which another level is predicted.
    """
    check_outputs(output, plot, [model, table])
    common.check_coverage(coverage)
    common.check_choice("--on-new-values", on_new_values, tuple(ON_NEW_VALUES))
    file = common.table_file(table, on_bad_rows, separator, decimal, encoding, missing, sheet)
    fitted = common.load_model(model).set_params(on_new_values=ON_NEW_VALUES[on_new_values])
    file = common.as_in_training(file, fitted)
    chosen, n = _chosen(fitted, file, row, rows)
    pictures = [] if plot is None else _pictures(plot, chosen.lines.tolist())
    for each in pictures:
        check_outputs(output, each, [model, table])
    options: dict[str, Any] = {"coverage": coverage, "max_background": background}
    found = explained(fitted, chosen, decimal=file.style.usual_decimal, **options)
    common.tell_skipped(file.bad)
    if output is not None:
        with table_writer(output) as writer:
            writer.write(_columns_of(found.records()))
    _draw(found, pictures)
    if as_json:
        common.print_json(_json(found) | {"skipped_rows": file.bad.skipped})
        return
    _print(found, chosen.unit, columns)
    for path in [*([output] if output else []), *pictures]:
        common.tell(f"Written: {path}")
    if row is None and len(chosen) < n:
        common.note(f"{len(chosen)} of {n:,} rows were explained; --rows or --row choose others.")


def _columns_of(records: list[dict[str, Any]]) -> Rows:
    """Columns of one type each: values of numbers and of nominal columns are texts."""
    columns = {name: [record[name] for record in records] for name in records[0]}
    for name in ("value", "higher_value", "lower_value"):
        columns[name] = [None if each is None else full(each) for each in columns[name]]
    return columns


def full(value: Any) -> str:
    """Cell of a table with all of its digits; whole numbers have no point."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _chosen(
    model: TableModel, file: TableFile, row: list[int] | None, rows: int
) -> tuple[Table, int]:
    """Rows to explain, and the number of rows in the file."""
    whole = file.read()
    tell_new_columns(model, whole, [])
    mask = np.zeros(len(whole), dtype=bool)
    if row is None:
        mask[:rows] = True
    else:
        wrong = [each for each in row if not 1 <= each <= len(whole)]
        if wrong:
            raise BadInput(
                f"--row {wrong[0]} was given, but {file.path} has the rows 1 to {len(whole)}."
            )
        mask[np.array(row) - 1] = True
    table = whole.take(mask)
    surprises = Surprises(model)
    _, bad = surprises.encode(table, file.style.usual_decimal)
    kept = table.take(file.bad.drop(table, bad))
    if not len(kept):
        raise BadInput(f"{file.path} has no rows that can be used among those to explain.")
    surprises.add(kept)
    surprises.tell()
    return kept, len(whole)


def _print(found: Explanations, unit: str, shown: int) -> None:
    out = common.console()
    for number, row in enumerate(found.rows):
        if number:
            out.print()
        out.print(
            Text.assemble(
                (f"{unit.capitalize()} {row.line}: {row.level}", "bold"), _sure(found, row)
            )
        )
        out.print(Text(_levels(found, row)))
        out.print(Text(_expected(found, row)))
        if row.latent is not None:
            out.print(Text(_latent(row)))
        out.print()
        out.print(_contributions(found, row, shown))
        _print_changes(row, shown)
    how = "exact"
    if not found.exact:
        most = f"{max(found.errors.max(), 1e-4):.1g}"
        how = f"over random orders of columns, with standard errors of at most {most}"
    out.print(
        f"\nContributions to the expected level are Shapley values over {found.n_background} "
        f"training rows, {how}.",
        style="dim",
    )


def _print_changes(row: RowExplanation, most: int) -> None:
    table, out = _changes(row, most), common.console()
    if not table.rows:
        out.print(f"\nNo column alone changes the level from {row.level}.", markup=False)
        return
    out.print("\nNearest value of a column alone at which another level is predicted:\n")
    out.print(table)
    without = sum(each.higher is None and each.lower is None for each in row.columns[:most])
    if without:
        others = "other column" + "s" * (without > 1)
        out.print(f"\nNo value of {without} {others} changes the level.")


def _sure(found: Explanations, row: RowExplanation) -> str:
    ends = f"{row.lower}" if row.lower == row.upper else f"{row.lower} to {row.upper}"
    p = row.probabilities[found.categories.tolist().index(row.level)]
    return f" ({p:.1%}); {found.coverage:.0%} interval: {ends}"


def _levels(found: Explanations, row: RowExplanation) -> str:
    pairs = zip(found.categories.tolist(), row.probabilities, strict=True)
    return "   ".join(f"{level} {p:.1%}" for level, p in pairs)


def _expected(found: Explanations, row: RowExplanation) -> str:
    levels = found.categories.tolist()
    ranks = [f"{value:g}" for value in found.scale]
    same = ranks == [str(level) for level in levels]
    where = "" if same else f" ({ranks[0]} is {levels[0]}, {ranks[-1]} is {levels[-1]})"
    return (
        f"Expected level {row.expected:.2f}{where}; average of the training rows "
        f"{found.average:.2f}."
    )


def _latent(row: RowExplanation) -> str:
    at = row.latent
    assert at is not None
    sides = (("up", at.to_higher), ("down", at.to_lower))
    told = [f"{distance:.2f} {side}" for side, distance in sides if distance is not None]
    return (
        f"Latent mean {at.mean:.2f} ± {at.sd:.2f}; to the next threshold in units of the noise: "
        f"{', '.join(told)}."
    )


def _contributions(found: Explanations, row: RowExplanation, most: int) -> Any:
    """Contributions of one row; columns beyond ``most`` are added up."""
    table = common.grid("column", "value", "expected level", "", f"P({row.level})", left=2)
    table.columns[3].justify = "left"
    table.columns[3].no_wrap = True
    largest = max(max((abs(each.contribution) for each in row.columns), default=0.0), 1e-12)
    for each in row.columns[:most]:
        error = f" ±{each.error:.2f}" if _shows_errors(found) else ""
        cells = [
            short(each.column, _MOST_NAME),
            cell(each.value),
            f"{signed(each.contribution)}{error}",
            bar(each.contribution / largest),
            percent(each.probability_contribution),
        ]
        table.add_row(*map(Text, cells))
    for name, some in (
        (f"{len(row.columns) - most} more", row.columns[most:]),
        ("sum", row.columns),
    ):
        if some:
            total = sum(each.contribution for each in some)
            share = sum(each.probability_contribution for each in some)
            blank = " " * 6 if _shows_errors(found) else ""
            table.add_row(name, "", f"{signed(total)}{blank}", "", percent(share))
    return table


def _shows_errors(found: Explanations) -> bool:
    """Whether a standard error is more than 0.00 in print."""
    return bool(found.errors.max() >= 0.005)


def _changes(row: RowExplanation, most: int) -> Any:
    """Nearest values of single columns that change the level, for columns that have any."""
    table = common.grid("column", "value", "higher at", "lower at", left=4)
    for each in row.columns[:most]:
        if each.higher is not None or each.lower is not None:
            cells = [short(each.column, _MOST_NAME), cell(each.value)]
            table.add_row(*map(Text, [*cells, _change(each.higher), _change(each.lower)]))
    return table


def signed(value: float) -> str:
    """Number with its sign and two digits after the point; 0.00 has no sign."""
    text = f"{value:+.2f}"
    return "0.00" if text in ("+0.00", "-0.00") else text


def percent(share: float) -> str:
    """Percentage with its sign and one digit after the point; 0.0% has no sign."""
    text = f"{100 * share:+.1f}%"
    return "0.0%" if text in ("+0.0%", "-0.0%") else text


def bar(share: float) -> str:
    """Bar to the left or to the right of a line; 1 is the longest."""
    size = round(_HALF * abs(share))
    left, right = (size, 0) if share < 0 else (0, size)
    return f"{'▒' * left:>{_HALF}}│{'█' * right}"


def cell(value: Any) -> str:
    """Cell of a table as a short text."""
    if value is None:
        return "missing"
    return short(f"{value:.6g}" if isinstance(value, float) else str(value), _MOST_CELL)


def short(text: str, most: int) -> str:
    """Text, cut to a number of characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _change(change: Change | None) -> str:
    return "none" if change is None else f"{cell(change.value)} ({change.level})"


def _json(found: Explanations) -> dict[str, Any]:
    levels = found.categories.tolist()
    rows = [
        {
            "line": row.line,
            "level": row.level,
            "lower": row.lower,
            "upper": row.upper,
            "probabilities": dict(zip(map(str, levels), row.probabilities.tolist(), strict=True)),
            "expected_level": row.expected,
            "latent": None if row.latent is None else asdict(row.latent),
            "columns": [asdict(each) for each in row.columns],
        }
        for row in found.rows
    ]
    return {
        "levels": levels,
        "scale": found.scale.tolist(),
        "coverage": found.coverage,
        "average_expected_level": found.average,
        "average_probabilities": found.average_probabilities.tolist(),
        "background_rows": found.n_background,
        "exact": found.exact,
        "rows": rows,
    }


def _pictures(path: Path, lines: list[int]) -> list[Path]:
    """One picture per row; of several, each has its line in its name."""
    if len(lines) == 1:
        return [path]
    return [path.with_stem(f"{path.stem}-{line}") for line in lines]


def _draw(found: Explanations, pictures: list[Path]) -> None:
    """Draw the picture of each row."""
    from ordinalgp.plots import ExplanationDisplay
    from ordinalgp.plots.base import file_axes

    for at, path in enumerate(pictures):
        height = 0.36 * min(len(found.rows[at].columns), 13) + 1.7
        display = ExplanationDisplay.from_explanations(found, row=at, ax=file_axes((7.0, height)))
        draw(path, display)
