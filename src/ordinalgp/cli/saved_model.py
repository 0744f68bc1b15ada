"""Commands on a saved model: ``ordinalgp predict``, ``evaluate`` and ``report``."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.text import Text
from typer import Argument, Option

import ordinalgp
from ordinalgp import metrics
from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.cli import common
from ordinalgp.cli.costs import check_decision, decision_rule
from ordinalgp.decisions import RULES, decide
from ordinalgp.runtime.extras import import_extra
from ordinalgp.runtime.files import check_folder, check_output, whole_file
from ordinalgp.tables import TableModel
from ordinalgp.tables.advice import listed
from ordinalgp.tables.cells import BadCell, BadInput, Table, composed, gaps, texts
from ordinalgp.tables.cuts import Cuts
from ordinalgp.tables.encoding import describe_new_values, read_target
from ordinalgp.tables.files import (
    CsvWriter,
    Rows,
    TableFile,
    Writer,
    check_table_output,
    records,
    table_writer,
)
from ordinalgp.tables.summary import DECISIONS, baseline, decisions, intervals, scores
from ordinalgp.validation.labels import class_positions

_MOST_SEARCHED = 20_000  # rows of a file that are compared with those of training
_PLOTS = ("calibration", "cumulative-calibration", "confusion")

Model = Annotated[Path, Argument(help="Model file that ordinalgp fit wrote.")]
ON_NEW_VALUES = {"use": "use", "stop": "error"}
OnNewValues = Annotated[
    str,
    common.one_of(
        tuple(ON_NEW_VALUES),
        "Nominal values that training did not have: use them as none of the known ones and count "
        "them, or treat their rows as bad ones.",
    ),
]


def predict(
    model: Model,
    table: Annotated[Path, Argument(help="CSV, Parquet or Excel file with the same columns.")],
    output: Annotated[
        Path | None, common.output(".csv, .csv.gz, .tsv or .parquet file (default: print)")
    ] = None,
    decision: Annotated[
        str | None,
        common.one_of(
            (*RULES, "FILE"),
            "Decision rule, instead of the model's; or a file of costs, with a row per true level "
            "and a column per predicted one.",
        ),
    ] = None,
    coverage: Annotated[
        float, Option(help="Share of rows whose level should lie between lower and upper.")
    ] = 0.9,
    keep: Annotated[
        list[str] | None, common.names("Columns of the table to copy to the output.")
    ] = None,
    on_bad_rows: common.OnBadRows = "error",
    on_new_values: OnNewValues = "use",
    separator: common.Separator = None,
    decimal: common.Decimal = None,
    encoding: common.Encoding = None,
    missing: common.Missing = None,
    sheet: common.Sheet = None,
    ratings: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Ratings of raters whom a model of ordinalgp rate does not know.",
        ),
    ] = None,
    as_json: common.Json = False,
) -> None:
    """Predict the level of every row, with an interval, all probabilities and the latent function.

    The table is read and written in chunks, so it may be larger than memory. For a model of
    ordinalgp rate it has a rater and an item in each row.
    """
    if decision is not None:
        check_decision(decision)
    common.check_coverage(coverage)
    common.check_choice("--on-new-values", on_new_values, tuple(ON_NEW_VALUES))
    if output is not None:
        costs = [] if decision is None or decision in RULES else [Path(decision)]
        check_table_output(output, [model, table, *costs])
    file = common.table_file(table, on_bad_rows, separator, decimal, encoding, missing, sheet)
    loaded = ordinalgp.load(model)
    if isinstance(loaded, ordinalgp.CollaborativeOrdinalGP):
        if decision is not None:
            loaded.set_params(decision=decision_rule(decision, loaded.categories_.tolist()))
        _predict_ratings(loaded, file, ratings, coverage, output, as_json)
        return
    if ratings is not None:
        raise BadInput("--ratings is for models of ordinalgp rate.")
    fitted = common.table_model(loaded, model)
    fitted.set_params(on_new_values=ON_NEW_VALUES[on_new_values])
    file = common.as_in_training(file, fitted)
    if decision is not None:
        fitted.set_params(decision=decision_rule(decision, fitted.categories_.tolist()))
    printed = _JsonLines() if as_json else CsvWriter(sys.stdout)
    writing: Any = table_writer(output) if output else nullcontext(printed)
    counts: Counter[str] = Counter()
    with writing as writer:
        for chunk in predictions(fitted, file, common.words(keep), coverage):
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
    counted = ", ".join(f"{level}: {count:,}" for level, count in levels.items())
    common.tell(f"{counts.total():,} rows predicted, in {output}: {counted}")


def _predict_ratings(
    model: ordinalgp.CollaborativeOrdinalGP,
    file: TableFile,
    ratings: Path | None,
    coverage: float,
    output: Path | None,
    as_json: bool,
) -> None:
    """Predict ratings for pairs of a rater and an item."""
    from ordinalgp.cli.rate import predict_pairs

    rows = predict_pairs(model, file, ratings, coverage)
    printed = _JsonLines() if as_json else CsvWriter(sys.stdout)
    writing: Any = table_writer(output) if output else nullcontext(printed)
    with writing as writer:
        writer.write(rows)
    common.tell_skipped(file.bad)
    if output is None:
        return
    if as_json:
        common.print_json({"rows": len(rows["level"]), "output": str(output)})
        return
    common.tell(f"{len(rows['level']):,} ratings predicted, in {output}.")


class _JsonLines(Writer):
    """Writer that prints one JSON object per row."""

    def write(self, chunk: Rows) -> None:
        """Print rows."""
        for row in records(chunk):
            print(json.dumps(row, ensure_ascii=False))


def predictions(
    model: TableModel, file: TableFile, keep: Sequence[str], coverage: float = 0.9
) -> Iterator[Rows]:
    """Predict a file chunk by chunk; print notes on its columns with the first."""
    surprises = Surprises(model)
    for number, table in enumerate(file.chunks()):
        features, bad = surprises.encode(table, file.style.usual_decimal)
        good = file.bad.drop(table, bad)
        if number == 0:
            _check_kept(model, table, keep)
            tell_new_columns(model, table, keep)
        kept = table.take(good)
        surprises.add(kept)
        yield _predicted(model, kept, features[good], keep, coverage)
    surprises.tell()


class Surprises:
    """Cells that training had none of: missing values of numbers, new values of other columns."""

    def __init__(self, model: TableModel) -> None:
        self._encoder, self._policy = model.encoder_, model.on_new_values
        self._filled: Counter[str] = Counter()
        self._new: dict[str, list[str | None]] = {}

    def encode(self, table: Table, decimal: str | None) -> tuple[FloatArray, list[BadCell]]:
        """Features, and bad cells by the policy of the model."""
        return self._encoder.encode(table, decimal, new_values=self._policy)

    def add(self, table: Table) -> None:
        """Count those of rows that are used."""
        self._filled.update(self._encoder.newly_missing(table))
        for name, cells in self._encoder.new_values(table).items():
            self._new.setdefault(name, []).extend(cells)

    def tell(self) -> None:
        """Print how many there were."""
        for name, count in self._filled.items():
            told = "1 missing value was" if count == 1 else f"{count} missing values were"
            common.note(f"Column {name}: {told} filled; training had none.")
        if self._new:
            told = ", ".join(describe_new_values(self._new))
            common.note(
                f"Values that training did not have: {told}. They count as none of the known ones; "
                "--on-new-values stop refuses them."
            )


def tell_new_columns(model: TableModel, table: Table, known: Sequence[str]) -> None:
    """Name the columns that the model does not use."""
    used = {column.name for column in model.encoder_.columns} | {model.target, *known}
    new = [name for name, cells in table.columns.items() if name not in used and _has_any(cells)]
    if new:
        common.note(f"Columns ignored, as the model was trained without: {listed(new)}.")


def _has_any(cells: Any) -> bool:
    return not gaps(cells).all()


def _predicted(
    model: TableModel, table: Table, features: FloatArray, keep: Sequence[str], coverage: float
) -> Rows:
    classifier, levels = model.classifier_, model.categories_
    rows: Rows = {table.unit: table.lines.tolist()}
    rows |= {name: texts(table.columns[name]).tolist() for name in keep}
    p, latent = np.empty((0, len(levels))), {}
    if hasattr(classifier, "latent_mean_and_variance"):
        mean, var = np.empty((2, 0))
        if len(features):
            mean, var = classifier.latent_mean_and_variance(features)
            p = classifier.likelihood_.probabilities(mean, var)
        latent = {"latent_mean": mean.tolist(), "latent_sd": np.sqrt(var).tolist()}
    elif len(features):
        p = classifier.category_proba(features)
    rows["level"] = levels[decide(p, model.decision_, model.level_counts_)].tolist()
    lower, upper = classifier.interval_from_proba(p, coverage).T.tolist()
    rows |= {"lower": lower, "upper": upper}
    rows |= {f"p_{level}": p[:, place].tolist() for place, level in enumerate(levels.tolist())}
    return rows | latent


def _check_kept(model: TableModel, table: Table, keep: Sequence[str]) -> None:
    table.require(keep, "--keep names {name}, but the columns are {columns}.")
    probabilities = {f"p_{level}" for level in model.categories_.tolist()}
    for name in keep:
        fixed = {table.unit, "level", "lower", "upper", "latent_mean", "latent_sd"}
        if name in probabilities | fixed:
            raise BadInput(f"--keep {name}: the output already has a column of that name.")


def evaluate(
    model: Model,
    table: Annotated[Path, Argument(help="CSV, Parquet or Excel file that has the target column.")],
    target: Annotated[
        str | None,
        Option("--target", "-t", help="Target column, if its name differs from training."),
    ] = None,
    plots: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Folder for plots of calibration and confusion."),
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
    """Score a model on rows whose levels are known, beside a naive baseline.

    Use rows that the model was not fitted to: on its own training rows any model looks too good.
    """
    common.check_choice("--on-new-values", on_new_values, tuple(ON_NEW_VALUES))
    if plots is not None:
        _check_plots(plots, [model, table])
    file = common.table_file(table, on_bad_rows, separator, decimal, encoding, missing, sheet)
    fitted = common.load_model(model).set_params(on_new_values=ON_NEW_VALUES[on_new_values])
    file = common.as_in_training(file, fitted)
    target = composed(target or fitted.target or "")
    if not target:
        raise BadInput(f"{model} does not name its target column. Give it: --target COLUMN.")
    codes, p = _predict_known(fitted, file, target)
    if not len(codes):
        raise BadInput(f"{table} has no rows that can be used.")
    result = evaluation(fitted, codes, p)
    common.tell_skipped(file.bad)
    if plots is not None:
        result["plots"] = _draw(plots, fitted, codes, p)
    if as_json:
        common.print_json(result | {"skipped_rows": file.bad.skipped})
        return
    _print_evaluation(result)


def _predict_known(model: TableModel, file: TableFile, target: str) -> tuple[IntArray, FloatArray]:
    """Ranks of the rows of a file, and their probabilities."""
    levels = model.categories_.tolist()
    borders = () if model.reading is None else model.reading.borders
    cuts = Cuts(borders) if borders else None
    codes, proba = [np.empty(0, dtype=np.intp)], [np.empty((0, len(levels)))]
    surprises, training = Surprises(model), TrainingRows(model)
    for number, table in enumerate(file.chunks()):
        labels, _, bad = read_target(table, target, levels, cuts=cuts)
        features, wrong = surprises.encode(table, file.style.usual_decimal)
        good = file.bad.drop(table, bad + wrong)
        surprises.add(table.take(good))
        if number == 0:
            tell_new_columns(model, table, [target])
        codes.append(class_positions(model.categories_, labels[good]))
        if good.any():
            proba.append(model.classifier_.category_proba(features[good]))
            training.add(features[good])
    surprises.tell()
    training.tell()
    return np.concatenate(codes), np.vstack(proba)


class TrainingRows:
    """Search in a file for rows that the model was fitted on: its scores would be too good."""

    def __init__(self, model: TableModel) -> None:
        self._sample = {hash(row.tobytes()) for row in np.ascontiguousarray(model.sample_)}
        self._hashes: list[int] = []

    def add(self, features: FloatArray) -> None:
        """Note the encoded rows of a chunk, as long as there are not too many."""
        some = np.ascontiguousarray(features[: _MOST_SEARCHED - len(self._hashes)])
        self._hashes += [hash(row.tobytes()) for row in some]

    def tell(self) -> None:
        """Warn if many of the training rows are in the file, and chance repeats few rows."""
        found, looked_for = len(self._sample.intersection(self._hashes)), len(self._sample)
        differ = len(set(self._hashes)) >= 0.95 * len(self._hashes)
        if differ and found >= max(0.3 * looked_for, 5):
            common.note(
                f"Warning: {found} of {looked_for} training rows that were looked for are in this "
                "file. On rows that it was fitted on, any model looks too good: evaluate others, "
                "or see the scores by folds that ordinalgp fit prints."
            )


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
        "decisions": decisions(model, codes, p),
        "intervals": intervals(model, codes, p),
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


def _print_evaluation(result: dict[str, Any]) -> None:
    common.console().print(f"{result['rows']} rows (lower is better). {DECISIONS}\n")
    common.print_scores(result["scores"])
    kappa = result["weighted_kappa"]
    common.tell(f"\nWeighted kappa {'not defined' if kappa is None else format(kappa, '.3f')}.\n")
    common.print_decisions(result["decisions"])
    common.tell("\nIntervals (ordinalgp predict --coverage):\n")
    common.print_intervals(result["intervals"])
    common.tell()
    levels = [str(level) for level in result["levels"]]
    table = common.grid("true \\ predicted", *levels)
    for level, counts in zip(levels, result["confusion"], strict=True):
        table.add_row(Text(level), *map(str, counts))
    common.console().print(table)
    common.tell("\nCalibration: expected and observed rows at each level, and up to it:\n")
    table = common.grid("level", "expected", "observed", "expected up to", "observed up to")
    for row in result["calibration"]:
        numbers = f"{row['expected']:.1f}", str(row["observed"])
        up_to = f"{row['expected_up_to']:.1f}", str(row["observed_up_to"])
        table.add_row(Text(str(row["level"])), *numbers, *up_to)
    common.console().print(table)
    for path in result.get("plots", []):
        common.tell(f"Plot: {path}")


def _draw(folder: Path, model: TableModel, codes: IntArray, p: FloatArray) -> list[str]:
    from ordinalgp.plots import CalibrationDisplay, ConfusionDisplay
    from ordinalgp.plots.base import file_axes

    levels = model.categories_
    truth, found = levels[codes], levels[decide(p, "mode")]
    calibration = partial(CalibrationDisplay.from_predictions, truth, p, levels)
    displays: dict[str, Any] = {
        "calibration": calibration,
        "cumulative-calibration": partial(calibration, kind="cumulative"),
        "confusion": partial(ConfusionDisplay.from_predictions, truth, found, levels),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name in _PLOTS:
        with whole_file(folder / f"{name}.png") as file:
            displays[name](ax=file_axes()).figure_.savefig(file, format="png", dpi=120)
    return [str(folder / f"{name}.png") for name in _PLOTS]


def _check_plots(folder: Path, inputs: Sequence[Path]) -> None:
    """Raise unless the plots can be drawn into the folder; nothing in it may be an input."""
    import_extra("matplotlib", "Plots need", "plot")
    check_folder(folder)
    if folder.is_dir():
        for name in _PLOTS:
            check_output(folder / f"{name}.png", inputs)


def report(
    model: Model,
    output: Annotated[Path, common.output("HTML file to write.")] = Path("report.html"),
    as_json: common.Json = False,
) -> None:
    """Write one page about a model: summary, plots, and how to read them.

    The page is a single file that needs no network.
    """
    from ordinalgp.report import write_rating_report, write_report

    check_output(output, [model])
    fitted = ordinalgp.load(model)
    if isinstance(fitted, ordinalgp.CollaborativeOrdinalGP):
        write_rating_report(fitted, output)
    else:
        write_report(common.table_model(fitted, model), output)
    size = output.stat().st_size if output.is_file() else None
    if as_json:
        common.print_json({"output": str(output), "bytes": size})
        return
    told = "" if size is None else f" ({size / 1024:,.0f} kB). Open it in a browser"
    common.tell(f"Written to {output}{told}.")
