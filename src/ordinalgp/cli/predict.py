"""``ordinalgp predict``: levels and probabilities for the rows of a table, chunk by chunk."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ordinalgp._typing import FloatArray
from ordinalgp.cli import common
from ordinalgp.cli.fit import DECISIONS
from ordinalgp.decisions import decide
from ordinalgp.runtime.threads import threads_for
from ordinalgp.tables import TableModel
from ordinalgp.tables.cells import BadInput, Table, texts
from ordinalgp.tables.reading import TableFile
from ordinalgp.tables.writing import CsvWriter, Rows, Writer, table_writer


def register(app: typer.Typer) -> None:
    """Add the command."""
    example = "ordinalgp predict model.ogp new.csv -o predictions.csv"
    common.command(app, "predict", example)(predict)


def predict(
    model: Annotated[Path, typer.Argument(help="Model file that ordinalgp fit wrote.")],
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file with the same columns.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help=".csv, .csv.gz, .tsv or .parquet file (default: print)"
        ),
    ] = None,
    decision: Annotated[
        str | None,
        typer.Option(metavar="|".join(DECISIONS), help="Decision rule, instead of the model's."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,...", help="Columns of the table to copy to the output."),
    ] = None,
    on_bad_rows: common.OnBadRows = "error",
    separator: common.Separator = None,
    decimal: common.Decimal = ".",
    encoding: common.Encoding = "utf-8-sig",
    as_json: common.Json = False,
) -> None:
    """Predict the level of every row, with all probabilities and the latent function.

    The table is read and written in chunks, so it may be larger than memory.
    """
    if decision is not None:
        common.check_choice("--decision", decision, DECISIONS)
    file = common.table_file(table, on_bad_rows, separator, decimal, encoding)
    fitted = common.load_model(model)
    if decision is not None:
        fitted.classifier_.set_params(decision=decision)
    lines_of_json = as_json and output is None
    opened: Any = nullcontext(_Lines() if lines_of_json else CsvWriter(sys.stdout))
    counts: Counter[str] = Counter()
    writing: Any = table_writer(output) if output else opened
    with threads_for(len(fitted.codes_)), writing as writer:
        for chunk in predictions(fitted, file, common.words(keep)):
            writer.write(chunk)
            counts.update(map(str, chunk["level"]))
    common.tell_skipped(file.bad)
    if output is None:
        return
    levels = {str(level): counts[str(level)] for level in fitted.categories_.tolist()}
    if as_json:
        told = {"rows": counts.total(), "skipped_rows": file.bad.skipped, "levels": levels}
        common.print_json(told | {"output": str(output)})
        return
    print(f"{counts.total():,} rows predicted, in {output}: ", end="")
    print(", ".join(f"{level} {count:,}" for level, count in levels.items()))


class _Lines(Writer):
    """Writer that prints one JSON object per row."""

    def write(self, chunk: Rows) -> None:
        """Print rows."""
        for values in zip(*chunk.values(), strict=True):
            print(json.dumps(dict(zip(chunk, values, strict=True)), ensure_ascii=False))


def predictions(model: TableModel, file: TableFile, keep: list[str]) -> Iterator[Rows]:
    """Predict a file chunk by chunk; print notes on its columns with the first."""
    filled: Counter[str] = Counter()
    for number, table in enumerate(file.chunks()):
        features, bad = model.encoder_.encode(table, file.style.decimal)
        good = file.bad.drop(table, bad)
        if number == 0:
            _check_kept(model, table, keep)
            tell_new_columns(model, table, keep)
        kept = table.take(good)
        filled.update(model.encoder_.newly_missing(kept))
        yield _predicted(model, kept, features[good], keep)
    for name, count in filled.items():
        common.note(f"Column {name}: {count} missing values were filled; training had none.")


def tell_new_columns(model: TableModel, table: Table, known: list[str]) -> None:
    """Name the columns that the model does not use."""
    used = {column.name for column in model.encoder_.columns} | {model.target, *known}
    new = [name for name in table.columns if name not in used]
    if new:
        common.note(f"Columns ignored, as the model was trained without: {', '.join(new)}.")


def _predicted(model: TableModel, table: Table, features: FloatArray, keep: list[str]) -> Rows:
    classifier, levels = model.classifier_, model.categories_
    rows: Rows = {table.unit: table.lines.tolist()}
    rows |= {name: texts(table.columns[name]).tolist() for name in keep}
    if not len(features):
        p, mean, var = np.empty((0, len(levels))), np.empty(0), np.empty(0)
    else:
        mean, var = classifier.latent_mean_and_variance(features)
        p = classifier.likelihood_.probabilities(mean, var)
    rows["level"] = levels[decide(p, classifier.decision)].tolist()
    rows |= {f"p_{level}": p[:, place].tolist() for place, level in enumerate(levels.tolist())}
    return rows | {"latent_mean": mean.tolist(), "latent_sd": np.sqrt(var).tolist()}


def _check_kept(model: TableModel, table: Table, keep: list[str]) -> None:
    probabilities = {f"p_{level}" for level in model.categories_.tolist()}
    taken = probabilities | {table.unit, "level", "latent_mean", "latent_sd"}
    for name in keep:
        if name not in table.columns:
            raise BadInput(
                f"--keep names {name!r}, but the columns are {', '.join(table.columns)}."
            )
        if name in taken:
            raise BadInput(f"--keep {name}: the output already has a column of that name.")
