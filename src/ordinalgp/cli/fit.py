"""``ordinalgp fit``: fit a model to a table."""

import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import ordinalgp
from ordinalgp.cli import common
from ordinalgp.cli.progress import showing_progress
from ordinalgp.cli.show import print_summary
from ordinalgp.runtime.threads import threads_for
from ordinalgp.tables import TableModel
from ordinalgp.tables.cells import BadRows
from ordinalgp.tables.encoding import NumberColumn
from ordinalgp.tables.large import BatchSettings, encode_file
from ordinalgp.tables.model import KERNELS
from ordinalgp.tables.source import Source
from ordinalgp.tables.summary import summarise

DECISIONS = ("mode", "median", "mean")
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gp": ("OrdinalGPClassifier", {"inference": "ep"}),
    "laplace": ("OrdinalGPClassifier", {"inference": "laplace"}),
    "least-squares": ("LeastSquaresOrdinalClassifier", {}),
    "sparse": ("SparseBayesOrdinalClassifier", {}),
}
"""words for ``--model``: estimator, and parameters that the word fixes"""
_SPARSE_KERNELS = {"rbf": "gaussian", "exponential": "exponential", "auto": "auto"}

TableFile = Annotated[Path, typer.Argument(help="CSV (any separator, also .gz) or Parquet file.")]
Target = Annotated[str, typer.Option("--target", "-t", help="Column with the levels.")]
Categories = Annotated[
    list[str] | None,
    typer.Option(metavar="LOW,...,HIGH", help="Levels from lowest to highest."),
]
Kernel = Annotated[
    str | None,
    typer.Option(
        metavar="|".join((*KERNELS, "auto")),
        help="rbf: one length scale; ard: one per feature, which shows the columns that matter "
        "(default); linear; exponential: functions with kinks. "
        "For sparse: rbf, exponential, or auto, the better of the two (default).",
    ),
]
Decision = Annotated[
    str,
    typer.Option(
        metavar="|".join(DECISIONS),
        help="Level to predict: the most probable one, the median, or the one nearest the mean.",
    ),
]
Drop = Annotated[list[str] | None, typer.Option(metavar="NAME,...", help="Columns to leave out.")]
Nominal = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME,...", help="Columns to treat as nominal, whatever they look like."),
]
Numeric = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME,...", help="Columns to treat as numbers, whatever they look like."),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Checkpoint folder for large tables; an interrupted fit resumes from it.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    example = "ordinalgp fit grades.csv --target grade --categories low,mid,high -o model.ogp"
    common.command(app, "fit", example)(fit)


def fit(
    context: typer.Context,
    table: TableFile,
    target: Target,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file.")] = Path("model.ogp"),
    categories: Categories = None,
    model: Annotated[str, typer.Option(help=f"One of {', '.join(MODELS)}.")] = "gp",
    kernel: Kernel = None,
    decision: Decision = "mode",
    drop: Drop = None,
    nominal: Nominal = None,
    numeric: Numeric = None,
    on_bad_rows: common.OnBadRows = "error",
    checkpoint: Checkpoint = None,
    separator: common.Separator = None,
    decimal: common.Decimal = ".",
    encoding: common.Encoding = "utf-8-sig",
    as_json: common.Json = False,
) -> None:
    """Fit a model to a table, print a summary, and save the model.

    Numbers are scaled and nominal columns encoded; missing values are filled with the median or
    the most frequent value and marked. All of it is part of the saved model. Large tables (Parquet
    from 100,000 rows, text from 128 MB on) are read in batches and need no more memory than
    smaller ones.
    """
    started = time.perf_counter()
    common.check_choice("--decision", decision, DECISIONS)
    file = common.table_file(table, on_bad_rows, separator, decimal, encoding)
    rows = file.bad
    source = Source(
        table,
        target,
        common.words(categories) or None,
        tuple(common.words(drop)),
        tuple(common.words(nominal)),
        tuple(common.words(numeric)),
        file.style,
    )
    classifier, word = _unfitted(model, kernel, decision=decision, random_state=0)
    batches = context.obj if isinstance(context.obj, BatchSettings) else BatchSettings()
    if batches.is_large(table) and "inducing" in classifier.get_params():
        classifier.set_params(checkpoint=checkpoint)
        fitted = fit_large(source, rows, classifier, word, output, batches)
    else:
        fitted = fit_small(source, rows, classifier, word)
    _finish(fitted, source, rows, output, started, as_json)


def _unfitted(name: str, kernel: str | None, **options: Any) -> tuple[Any, str | None]:
    """Unfitted estimator of that name, and the kernel to give it once its features are known.

    The sparse model finds the width of its functions itself, so it takes their kind alone.
    """
    cls, fixed = MODELS[common.check_choice("--model", name, tuple(MODELS))]
    sparse = name == "sparse"
    allowed, usual = (tuple(_SPARSE_KERNELS), "auto") if sparse else (KERNELS, "ard")
    word = common.check_choice("--kernel", usual if kernel is None else kernel, allowed)
    if sparse:
        return getattr(ordinalgp, cls)(_SPARSE_KERNELS[word], **options), None
    return getattr(ordinalgp, cls)(**fixed, **options), word


def _finish(
    fitted: TableModel, source: Source, rows: BadRows, output: Path, started: float, as_json: bool
) -> None:
    """Save the model and print a summary."""
    fitted.save(output)
    seconds = time.perf_counter() - started
    common.tell_skipped(rows)
    _tell_counters(fitted)
    summary, dropped = summarise(fitted), list(source.drop)
    if as_json:
        told = {"skipped_rows": rows.skipped, "dropped_columns": dropped, "seconds": seconds}
        common.print_json(summary | told | {"output": str(output)})
        return
    print_summary(summary, dropped=dropped)
    print(f"\nSaved in {output} after {seconds:.1f} s.")


def fit_small(source: Source, rows: BadRows, classifier: Any, kernel: str | None) -> TableModel:
    """Fit a table that is read as a whole."""
    X, y, order = source.read(rows)
    classifier.set_params(categories=order)
    model = TableModel(classifier, kernel=kernel, **_columns(source))
    with threads_for(len(X)), showing_progress():
        return model.fit(X, y, decimal=source.style.decimal)


def fit_large(
    source: Source,
    rows: BadRows,
    classifier: Any,
    kernel: str | None,
    output: Path,
    settings: BatchSettings,
) -> TableModel:
    """Fit a table in batches; its encoded rows lie in a scratch folder beside the model."""
    scratch = tempfile.TemporaryDirectory(dir=output.absolute().parent)
    with _stoppable(classifier), scratch as folder, showing_progress():
        encoded = encode_file(source, rows, Path(folder), common.note, settings)
        classifier.set_params(categories=encoded.categories, n_jobs=-1)
        model = TableModel(classifier, kernel=kernel, **_columns(source))
        model.fit_chunks(encoded)
    for fitted in (model.classifier, model.classifier_):
        fitted.set_params(checkpoint=None, n_jobs=None)
    return model


@contextmanager
def _stoppable(classifier: Any) -> Iterator[None]:
    """After Ctrl-C print how to resume, and exit with code 130."""
    # A shell starts background jobs with SIGINT ignored; a fit must be stoppable there too.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        folder = classifier.checkpoint
        told = "nothing was kept. With --checkpoint FOLDER a fit can resume from its last pass"
        if folder is not None and (Path(folder) / "state.npz").exists():
            told = f"the same command resumes from {folder}"
        common.note(f"\nInterrupted: {told}.")
        raise typer.Exit(130) from None


def _columns(source: Source) -> dict[str, Any]:
    return {name: getattr(source, name) for name in ("target", "nominal", "numeric")}


def _tell_counters(model: TableModel) -> None:
    """Name columns that seem to number the rows."""
    n = int(model.level_counts_.sum())
    for column in model.encoder_.columns:
        if not isinstance(column, NumberColumn) or n < 10 or column.missing:
            continue
        steps = column.high - column.low == n - 1
        if steps and np.isclose(column.scale, np.sqrt((n**2 - 1) / 12), rtol=1e-9):
            common.note(f"Column {column.name} numbers the rows. If it has no meaning, --drop it.")
