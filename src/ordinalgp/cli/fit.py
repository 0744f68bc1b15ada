"""``ordinalgp fit``: fit a model to a table."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from typer import Argument, Option

import ordinalgp
from ordinalgp.cli import common
from ordinalgp.decisions import RULES
from ordinalgp.runtime.files import check_folder, check_output, is_stream
from ordinalgp.runtime.scratch import scratch_folder
from ordinalgp.tables import TableModel
from ordinalgp.tables.advice import COMMAND_LINE, listed
from ordinalgp.tables.cells import BadInput, composed
from ordinalgp.tables.cuts import Cuts
from ordinalgp.tables.encoding import NumberColumn
from ordinalgp.tables.model import KERNELS
from ordinalgp.tables.numerals import number
from ordinalgp.tables.summary import summarise
from ordinalgp.tables.training import BatchSettings, Source, encode_file

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "auto": ("StackedOrdinalGP", {}),
    "gp": ("OrdinalGPClassifier", {"inference": "ep"}),
    "laplace": ("OrdinalGPClassifier", {"inference": "laplace"}),
    "sequential": ("SequentialOrdinalGP", {}),
    "least-squares": ("LeastSquaresOrdinalClassifier", {}),
    "sparse": ("SparseBayesOrdinalClassifier", {}),
}
"""words for ``--model``: estimator, and parameters that the word fixes"""
_HARDLY_A_ROW = 0.05  # rows of a level that a model expects, below which it rules the level out
_PARALLEL_ROWS = 300  # with fewer, to start other processes takes as long as the folds
_SPARSE_KERNELS = {"rbf": "gaussian", "exponential": "exponential", "auto": "auto"}

_MODEL = (
    f"One of {', '.join(MODELS)}. auto mixes models with several kernels by their leave-one-out "
    "predictions (default); with --kernel, and for large tables, the default is gp."
)
Words = list[str] | None
Table = Annotated[Path, Argument(help="CSV (any separator, also .gz), Parquet or Excel file.")]
Target = Annotated[str, Option("--target", "-t", help="Column with the levels.")]
Categories = Annotated[Words, Option(metavar="LOW,...,HIGH", help="Levels from lowest to highest.")]
Kernel = Annotated[
    str | None,
    common.one_of(
        (*KERNELS, "auto"),
        "rbf: one length scale; ard: one per feature (default of gp); linear; exponential: "
        "functions with kinks; additive: one function per feature. For sparse: rbf, exponential, "
        "or auto, the better of the two (default).",
    ),
]
_DECISION = (
    "Level to predict: the most probable one, the median, the median with all levels counting "
    "equally (for rare ones), or the one nearest the mean."
)
Decision = Annotated[str, common.one_of(RULES, _DECISION)]
Drop = Annotated[Words, common.names("Columns to leave out.")]
Nominal = Annotated[Words, common.names("Columns to treat as nominal, whatever they look like.")]
Numeric = Annotated[Words, common.names("Columns to treat as numbers, whatever they look like.")]
Cut = Annotated[
    int | None,
    Option(metavar="N", help="Cut a measured target into N levels with equally many rows."),
]
CutAt = Annotated[
    Words, Option(metavar="BORDER,...", help="Cut a measured target into levels at these borders.")
]
_INCREASING = "Numeric columns along which the level must not fall, all else equal."
Increasing = Annotated[Words, common.names(f"{_INCREASING} Implies --model gp --kernel additive.")]
Decreasing = Annotated[Words, common.names("Numeric columns along which it must not rise.")]
_FOLDS = (
    "Folds of the cross-validation that scores the model and its columns; it takes three to five "
    "times as long as the fit, on one core. 0 skips it. Above 5,000 rows one of the folds is "
    "predicted; of a table read in batches, 2,000 rows are kept out of the fit instead."
)
Folds = Annotated[int, Option(metavar="N", help=_FOLDS)]
_GROUPS = (
    "Column whose equal values mark rows that belong together, such as a person. They stay in "
    "one fold, so that scores are for new persons. The column is not a feature."
)
Groups = Annotated[str | None, Option(metavar="NAME", help=_GROUPS)]
_CHECKPOINT = "Checkpoint folder for large tables; an interrupted fit resumes from it."
Checkpoint = Annotated[Path | None, Option(metavar="FOLDER", help=_CHECKPOINT)]


def fit(
    context: typer.Context,
    table: Table,
    target: Target,
    output: Annotated[Path, common.output("Model file.")] = Path("model.ogp"),
    categories: Categories = None,
    model: Annotated[str | None, Option(help=_MODEL)] = None,
    kernel: Kernel = None,
    decision: Decision = "mode",
    drop: Drop = None,
    nominal: Nominal = None,
    numeric: Numeric = None,
    increasing: Increasing = None,
    decreasing: Decreasing = None,
    folds: Folds = 5,
    groups: Groups = None,
    on_bad_rows: common.OnBadRows = "error",
    checkpoint: Checkpoint = None,
    separator: common.Separator = None,
    decimal: common.Decimal = None,
    encoding: common.Encoding = None,
    missing: common.Missing = None,
    sheet: common.Sheet = None,
    cut: Cut = None,
    cut_at: CutAt = None,
    as_json: common.Json = False,
) -> None:
    """Fit a model to a table, print a summary, and save the model.

    Numbers are scaled, and missing ones filled with the median and marked; nominal columns are
    encoded, with missing as a value of its own. All of it is part of the saved model. Large tables
    (Parquet from 100,000 rows, text from 128 MB on) are read in batches and need no more memory
    than smaller ones.
    """
    started = time.perf_counter()
    common.check_choice("--decision", decision, RULES)
    check_output(output, [table])
    if checkpoint is not None:
        check_folder(checkpoint)
    monotone = _directions(common.words(increasing), common.words(decreasing))
    source = Source(
        common.table_file(table, on_bad_rows, separator, decimal, encoding, missing, sheet),
        composed(target),
        common.words(categories) or None,
        common.words(drop),
        common.words(nominal),
        common.words(numeric),
        cut,
        read_borders(cut_at, cut, categories),
        groups=None if groups is None else composed(groups),
        monotone=tuple(monotone),
    )
    if folds < 0 or folds == 1:
        raise BadInput(f"--folds must be 0 or at least 2, but is {folds}.")
    batches = context.obj if isinstance(context.obj, BatchSettings) else BatchSettings()
    if monotone:
        model, kernel = _for_monotone(model, kernel)
        if batches.is_large(table):
            _check_few()
    if model is None:
        model = "auto" if kernel is None and not batches.is_large(table) else "gp"
    classifier, word = _unfitted(model, kernel, decision=decision, random_state=0)
    kinds: dict[str, Any] = {"nominal": source.nominal, "numeric": source.numeric}
    more: dict[str, Any] = {"monotone": monotone, "folds": folds}
    unfitted = TableModel(classifier, kernel=word, target=source.target, **more, **kinds)
    if batches.is_large(table) and "checkpoint" in classifier.get_params(deep=False):
        classifier.set_params(checkpoint=checkpoint)
        left_out = _fit_large(unfitted, source, output, batches)
    else:
        left_out = _fit_small(unfitted, source)
    unfitted.save(output)
    _tell(unfitted, source, left_out, output, time.perf_counter() - started, as_json)


def read_borders(given: Words, cut: int | None, categories: Words) -> tuple[float, ...]:
    """Borders of levels from the command line."""
    if given is None and cut is None:
        return ()
    if given is not None and cut is not None:
        raise BadInput("Give either --cut or --cut-at.")
    if categories is not None:
        raise BadInput("Give either --categories, or --cut or --cut-at: these name the levels.")
    if cut is not None:
        if cut < 2:
            raise BadInput(f"--cut must be at least 2, but is {cut}.")
        return ()
    found = [number(word) for word in common.words(given)]
    if None in found:
        raise BadInput(
            "--cut-at must be numbers such as 10,20,30, but is " + ",".join(given or []) + "."
        )
    return Cuts.at([value for value in found if value is not None]).borders


def _directions(increasing: Sequence[str], decreasing: Sequence[str]) -> dict[str, int]:
    """1 or -1 for each monotone column."""
    both = sorted(set(increasing) & set(decreasing))
    if both:
        raise BadInput(
            f"Column {', '.join(both)} is in --increasing and in --decreasing. Leave out one."
        )
    return dict.fromkeys(increasing, 1) | dict.fromkeys(decreasing, -1)


def _for_monotone(model: str | None, kernel: str | None) -> tuple[str, str]:
    """Model and kernel that can have monotone columns."""
    if model not in (None, "gp"):
        raise BadInput(
            f"--increasing and --decreasing need --model gp, but --model {model} was given."
        )
    if kernel not in (None, "additive", "linear"):
        raise BadInput(
            "--increasing and --decreasing need one function per column: --kernel additive or "
            f"--kernel linear, but --kernel {kernel} was given."
        )
    return "gp", kernel or "additive"


def _check_few(n_rows: int | None = None) -> None:
    """Raise unless a table is small enough for monotone columns; None: too many rows to count."""
    most = ordinalgp.OrdinalGPClassifier.many_rows_settings.exact_rows
    if n_rows is None or n_rows > most:
        told = "more" if n_rows is None else f"{n_rows:,}"
        raise BadInput(
            f"--increasing and --decreasing take at most {most:,} rows, but the table has {told}. "
            "Fit a sample of the rows; in Python, OrdinalGPClassifier(inducing=None) takes more."
        )


def _unfitted(name: str, kernel: str | None, **options: Any) -> tuple[Any, str | None]:
    """Unfitted estimator of that name, and the kernel to give it once its features are known.

    The sparse model finds the width of its functions itself, so it takes their kind alone.
    """
    cls, fixed = MODELS[common.check_choice("--model", name, tuple(MODELS))]
    if name == "auto":
        if kernel is not None:
            raise BadInput(
                f"--kernel {kernel} was given, but --model auto mixes several kernels. "
                "Use --model gp, or leave out one of the two."
            )
        return getattr(ordinalgp, cls)(**fixed, **options), None
    sparse = name == "sparse"
    allowed, usual = (tuple(_SPARSE_KERNELS), "auto") if sparse else (KERNELS, "ard")
    word = common.check_choice("--kernel", usual if kernel is None else kernel, allowed)
    if sparse:
        return getattr(ordinalgp, cls)(_SPARSE_KERNELS[word], **options), None
    return getattr(ordinalgp, cls)(**fixed, **options), word


def _fit_small(model: TableModel, source: Source) -> dict[str, str]:
    """Fit a table that is read as a whole; gives the columns that were left out, and why."""
    source, (X, y, order), groups = source.read_groups()
    if model.monotone:
        _check_few(len(X))
    common.tell_left_out(X.left_out)
    model.set_params(reading=source.reading(X))
    model.classifier.set_params(categories=order)
    if len(X) > _PARALLEL_ROWS:
        model.set_params(n_jobs=-1)
    with common.showing_progress():
        model.fit(replace(X, left_out={}), y, groups=groups)
    model.set_params(n_jobs=None)
    return X.left_out


def _fit_large(
    model: TableModel, source: Source, output: Path, settings: BatchSettings
) -> dict[str, str]:
    """Fit a table in batches; its encoded rows lie in a scratch folder beside the model."""
    scratch = scratch_folder(None if is_stream(output) else output.absolute().parent)
    with _stoppable(model.classifier), scratch as folder, common.showing_progress():
        encoded = encode_file(source, folder, common.note, settings)
        model.set_params(reading=encoded.reading)
        model.classifier.set_params(categories=encoded.categories, n_jobs=-1)
        model.fit_chunks(encoded)
    for fitted in (model.classifier, model.classifier_):
        fitted.set_params(checkpoint=None, n_jobs=None)
    return encoded.left_out


def _tell(
    model: TableModel,
    source: Source,
    left_out: dict[str, str],
    output: Path,
    seconds: float,
    as_json: bool,
) -> None:
    """Print a summary."""
    bad = source.file.bad
    common.tell_skipped(bad)
    _tell_counters(model)
    _tell_absent(model)
    summary, dropped = summarise(model), list(source.drop)
    if as_json:
        told = {"skipped_rows": bad.skipped, "dropped_columns": dropped, "seconds": seconds}
        told |= {"columns_left_out": left_out}
        common.print_json(summary | told | {"output": str(output)})
        return
    common.print_summary(summary, dropped=dropped)
    if left_out:
        common.tell(f"\nColumns left out automatically: {listed(list(left_out))}.")
    common.tell(f"\nSaved in {output} after {seconds:.1f} s.")


@contextmanager
def _stoppable(classifier: Any) -> Iterator[None]:
    """After Ctrl-C print how to resume, and exit with code 130."""
    common.heed_interrupts()
    try:
        yield
    except KeyboardInterrupt:
        folder = classifier.checkpoint
        told = "nothing was kept. With --checkpoint FOLDER a fit can resume from its last pass"
        if folder is not None and (Path(folder) / "state.npz").exists():
            told = f"the same command resumes from {folder}"
        common.note(f"\nInterrupted: {told}.")
        raise typer.Exit(130) from None


def _tell_counters(model: TableModel) -> None:
    """Name columns that seem to number the rows."""
    n = int(model.level_counts_.sum())
    for column in model.encoder_.columns:
        if not isinstance(column, NumberColumn) or n < 10 or column.missing:
            continue
        steps = column.high - column.low == n - 1
        if steps and np.isclose(column.scale, np.sqrt((n**2 - 1) / 12), rtol=1e-9):
            advice = COMMAND_LINE.leave_out(column.name)
            unless = "unless it means something"
            common.note(f"Column {column.name} numbers the rows. {advice}, {unless}.")


def _tell_absent(model: TableModel) -> None:
    """Name levels without rows, and what the model makes of them."""
    absent = model.level_counts_ == 0
    if not absent.any():
        return
    names = listed(list(map(str, model.categories_[absent].tolist())))
    expected = model.classifier_.category_proba(model.sample_).mean(axis=0)
    n = model.level_counts_.sum()
    if np.any(expected[absent] < _HARDLY_A_ROW / n):
        common.note(
            f"No row has the level {names}, so this model all but rules it out. If it may occur, "
            "use --model gp or sequential, or leave --model out."
        )
    else:
        common.note(
            f"No row has the level {names}: its probability is about that of one row in "
            f"{_rounded(1 / expected[absent].min()):,}. If it cannot occur, leave it out of "
            "--categories."
        )


def _rounded(value: float) -> int:
    """A number with two digits."""
    return int(float(f"{value:.1e}"))
