"""``ordinalgp evaluate``: score a model on rows whose levels are known."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.text import Text

from ordinalgp import metrics
from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.cli import common
from ordinalgp.cli.predict import tell_new_columns
from ordinalgp.cli.show import grid, print_scores
from ordinalgp.decisions import decide
from ordinalgp.runtime.threads import threads_for
from ordinalgp.tables import TableModel
from ordinalgp.tables.cells import BadInput
from ordinalgp.tables.reading import TableFile
from ordinalgp.tables.summary import baseline, scores
from ordinalgp.tables.target import read_target
from ordinalgp.validation.labels import class_positions


def register(app: typer.Typer) -> None:
    """Add the command."""
    common.command(app, "evaluate", "ordinalgp evaluate model.ogp test.csv --plots plots")(evaluate)


def evaluate(
    model: Annotated[Path, typer.Argument(help="Model file that ordinalgp fit wrote.")],
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file that has the target column.")],
    target: Annotated[
        str | None,
        typer.Option("--target", "-t", help="Target column, if its name differs from training."),
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder for plots of calibration and confusion."),
    ] = None,
    on_bad_rows: common.OnBadRows = "error",
    separator: common.Separator = None,
    decimal: common.Decimal = ".",
    encoding: common.Encoding = "utf-8-sig",
    as_json: common.Json = False,
) -> None:
    """Score a model on rows whose levels are known, beside a naive baseline."""
    file = common.table_file(table, on_bad_rows, separator, decimal, encoding)
    fitted = common.load_model(model)
    with threads_for(len(fitted.codes_)):
        codes, p = _predict_known(fitted, file, target or fitted.target or "")
    if not len(codes):
        raise BadInput(f"{table} has no rows that can be used.")
    result = evaluation(fitted, codes, p)
    common.tell_skipped(file.bad)
    if plots is not None:
        result["plots"] = _draw(plots, fitted, codes, p)
    if as_json:
        common.print_json(result | {"skipped_rows": file.bad.skipped})
        return
    _print(result)


def _predict_known(model: TableModel, file: TableFile, target: str) -> tuple[IntArray, FloatArray]:
    """Ranks of the rows of a file, and their probabilities."""
    levels = model.categories_.tolist()
    codes, proba = [np.empty(0, dtype=np.intp)], [np.empty((0, len(levels)))]
    for number, table in enumerate(file.chunks()):
        labels, _, bad = read_target(table, target, levels, file.style.decimal)
        features, wrong = model.encoder_.encode(table, file.style.decimal)
        good = file.bad.drop(table, bad + wrong)
        if number == 0:
            tell_new_columns(model, table, [target])
        codes.append(class_positions(model.categories_, labels[good]))
        if good.any():
            proba.append(model.classifier_.category_proba(features[good]))
    return np.concatenate(codes), np.vstack(proba)


def evaluation(model: TableModel, codes: IntArray, p: FloatArray) -> dict[str, Any]:
    """Scores, confusion and calibration of probabilities in rank order."""
    levels = model.categories_.tolist()
    order, mode = {"categories": np.arange(len(levels))}, decide(p, "mode")
    confusion = np.zeros((len(levels), len(levels)), dtype=int)
    np.add.at(confusion, (codes, mode), 1)
    observed = np.bincount(codes, minlength=len(levels))
    at_most = np.cumsum(observed)
    return {
        "rows": len(codes),
        "levels": levels,
        "scores": {"model": scores(codes, p), "baseline": scores(codes, baseline(model, len(p)))},
        "macro_absolute_error": metrics.macro_mean_absolute_error(
            codes, decide(p, "median"), **order
        ),
        "weighted_kappa": _kappa(codes, mode, order),
        "confusion": confusion.tolist(),
        "calibration": [
            {
                "level": level,
                "expected": float(p[:, k].sum()),
                "observed": int(observed[k]),
                "expected_up_to": float(p[:, : k + 1].sum()),
                "observed_up_to": int(at_most[k]),
            }
            for k, level in enumerate(levels)
        ],
    }


def _kappa(codes: IntArray, mode: IntArray, order: dict[str, Any]) -> float | None:
    """Weighted kappa; not defined where all true and predicted levels are the same one."""
    one_level = len(np.unique(np.concatenate([codes, mode]))) < 2
    return None if one_level else metrics.weighted_kappa(codes, mode, **order)


def _print(result: dict[str, Any]) -> None:
    print(f"{result['rows']} rows (lower is better):\n")
    print_scores(result["scores"])
    kappa = result["weighted_kappa"]
    print(
        f"\nMean absolute error averaged over levels {result['macro_absolute_error']:.3f}; "
        f"weighted kappa {'not defined' if kappa is None else format(kappa, '.3f')}.\n"
    )
    levels = [str(level) for level in result["levels"]]
    table = grid("true \\ predicted", *levels)
    for level, counts in zip(levels, result["confusion"], strict=True):
        table.add_row(Text(level), *map(str, counts))
    common.console().print(table)
    print("\nCalibration: expected and observed rows at each level, and up to it:\n")
    table = grid("level", "expected", "observed", "expected up to", "observed up to")
    for row in result["calibration"]:
        numbers = f"{row['expected']:.1f}", str(row["observed"])
        up_to = f"{row['expected_up_to']:.1f}", str(row["observed_up_to"])
        table.add_row(Text(str(row["level"])), *numbers, *up_to)
    common.console().print(table)
    for path in result.get("plots", []):
        print(f"Plot: {path}")


def _draw(folder: Path, model: TableModel, codes: IntArray, p: FloatArray) -> list[str]:
    from ordinalgp.plots import CalibrationDisplay, ConfusionDisplay
    from ordinalgp.plots.base import file_axes

    folder.mkdir(parents=True, exist_ok=True)
    levels = model.categories_
    truth, found = levels[codes], levels[decide(p, "mode")]
    displays: dict[str, Any] = {
        f"{name}.png": CalibrationDisplay.from_predictions(
            truth, p, levels, kind=kind, ax=file_axes()
        )
        for name, kind in (("calibration", "level"), ("cumulative-calibration", "cumulative"))
    }
    shown = ConfusionDisplay.from_predictions(truth, found, levels, ax=file_axes())
    displays["confusion.png"] = shown
    for name, display in displays.items():
        display.figure_.savefig(folder / name, dpi=120)
    return [str(folder / name) for name in displays]
