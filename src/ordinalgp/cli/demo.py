"""``ordinalgp demo``: a tour on real data with ordered levels."""

import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

import numpy as np
from rich.progress import track
from rich.text import Text
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ordinalgp
from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.cli import common
from ordinalgp.cli.saved_model import predictions
from ordinalgp.datasets import DemoData, load_demo
from ordinalgp.runtime.files import check_folder
from ordinalgp.tables import TableModel
from ordinalgp.tables.advice import listed
from ordinalgp.tables.cells import BadInput
from ordinalgp.tables.files import Rows, TableFile, table_writer
from ordinalgp.tables.summary import SCORES, scores, summarise
from ordinalgp.validation.labels import class_positions

SPLITS = 5
_FILES = ("train.csv", "test.csv", "model.ogp", "predictions.csv", "report.html")
_SHADES, _ASCII_SHADES = "░▒▓█", ".:o#"
_BAR_WIDTH = 44


def demo(
    output: Annotated[Path, common.output("Folder for the results.")] = Path("demo-output"),
    as_json: common.Json = False,
) -> None:
    """Fit, compare, predict and report on real data that come with scikit-learn.

    Takes less than a minute, and needs no network and no files.
    """
    started = time.perf_counter()
    check_folder(output)
    data = load_demo()
    _check_own(output, data)
    output.mkdir(parents=True, exist_ok=True)
    splitter = StratifiedShuffleSplit(SPLITS, test_size=1 / 3, random_state=0)
    splits = list(splitter.split(data.X, data.y))
    train, held = splits[0]
    common.note(f"Fitting five models on {SPLITS} splits of real data ...")
    results = _compare(data, splits, quiet=as_json)
    model = _mixture(data, train)
    _keep(model, data, train, held, output)
    seconds = time.perf_counter() - started
    if as_json:
        told = {name: values.mean(axis=0).tolist() for name, values in results.items()}
        common.print_json({"scores": list(SCORES), "models": told, "folder": str(output)})
        return
    _introduce(data)
    _print_comparison(results, len(train), len(held))
    _heading("2  Look inside: the mixture on the first split")
    common.print_summary(summarise(model))
    _print_examples(model, data, held)
    _print_files(output, data)
    print(f"\nDone in {seconds:.0f} s.")


def _check_own(folder: Path, data: DemoData) -> None:
    """Raise if files of somebody else would be lost; an earlier demo has the same columns."""
    theirs = [name for name in _FILES if (folder / name).exists()]
    if not theirs:
        return
    train, header = folder / "train.csv", ",".join([*data.feature_names, "stage"])
    with suppress(OSError, UnicodeDecodeError), train.open(encoding="utf-8") as file:
        if file.readline().rstrip() == header:
            return
    raise BadInput(
        f"The folder {folder} has {listed(theirs)}, which the demo would overwrite. "
        "Name another folder with -o."
    )


def columns(data: DemoData, rows: IntArray) -> Rows:
    """Some rows of the data as a table."""
    return {name: data.X[rows, at].tolist() for at, name in enumerate(data.feature_names)}


def _gp(data: DemoData, train: IntArray, inference: str) -> TableModel:
    """Model fitted to some rows."""
    classifier = ordinalgp.OrdinalGPClassifier(inference=inference, categories=data.categories)
    model = TableModel(classifier, kernel="ard", target="stage")
    return model.fit(columns(data, train), data.y[train])


def _mixture(data: DemoData, train: IntArray) -> TableModel:
    """Mixture of models, as ``ordinalgp fit`` makes it by default."""
    classifier = ordinalgp.StackedOrdinalGP(categories=data.categories, random_state=0)
    return TableModel(classifier, target="stage").fit(columns(data, train), data.y[train])


def _predict_linear(data: DemoData, train: IntArray, held: IntArray, model: Any) -> FloatArray:
    scaled = make_pipeline(StandardScaler(), model).fit(data.X[train], data.y[train])
    # scikit-learn sorts levels by the alphabet.
    found: FloatArray = scaled.predict_proba(data.X[held])
    return found[:, np.searchsorted(scaled.classes_, data.categories)]


def _compare(data: DemoData, splits: list[Any], *, quiet: bool) -> dict[str, FloatArray]:
    """Scores of every model on every split, arrays of shape (splits, scores)."""
    models: dict[str, Callable[[IntArray, IntArray], FloatArray]] = {
        "naive baseline": lambda a, b: _predict_linear(data, a, b, DummyClassifier()),
        "linear model": lambda a, b: _predict_linear(data, a, b, LogisticRegression(max_iter=1000)),
        "GP, Laplace": lambda a, b: _gp(data, a, "laplace").category_proba(columns(data, b)),
        "GP, EP": lambda a, b: _gp(data, a, "ep").category_proba(columns(data, b)),
        "mixture of GPs": lambda a, b: _mixture(data, a).category_proba(columns(data, b)),
    }
    codes = class_positions(np.array(data.categories), data.y)
    screen = common.console()
    hidden = quiet or not screen.is_terminal
    # Even a bar that is hidden prints an empty line, up to rich 14.0.
    shown = splits if hidden else track(splits, "Fitting", console=screen, transient=True)
    found = [
        [list(scores(codes[held], predict(train, held)).values()) for predict in models.values()]
        for train, held in shown
    ]
    return dict(zip(models, np.array(found).swapaxes(0, 1), strict=True))


def _heading(text: str) -> None:
    common.console().print(f"\n{text}\n", style="bold cyan", soft_wrap=True)


def _introduce(data: DemoData) -> None:
    levels = " < ".join(f"{level} ({(data.y == level).sum()})" for level in data.categories)
    common.console().print(f"ordinalgp {ordinalgp.__version__}", style="bold")
    print(data.description.splitlines()[0])
    print(f"{len(data.y)} patients, {data.X.shape[1]} measurements; {levels}")


def _print_comparison(results: dict[str, FloatArray], n_train: int, n_held: int) -> None:
    _heading(f"1  Compare: {SPLITS} splits, {n_train} training rows, {n_held} held out")
    table = common.score_grid()
    means = {name: values.mean(axis=0) for name, values in results.items()}
    best = np.min(list(means.values()), axis=0)
    for name, values in results.items():
        spread = values.std(axis=0, ddof=1)
        cells = [
            Text(f"{mean:.3f} ± {sd:.3f}", style="bold green" if mean == top else "")
            for mean, sd, top in zip(means[name], spread, best, strict=True)
        ]
        table.add_row(Text(name), *cells)
    common.console().print(table)
    mixture, linear = results["mixture of GPs"], results["linear model"]
    wins = (mixture < linear).sum(axis=0)
    told = ", ".join(f"{n} by {name}" for n, name in zip(wins, SCORES.values(), strict=True))
    print("\nLower is better; mean ± standard deviation over the splits. The naive baseline")
    print("predicts the level frequencies; the linear model is logistic regression.")
    print(f"Splits of {SPLITS} on which the mixture beats the linear model:\n{fill(told, 78)}.")


def _print_examples(model: TableModel, data: DemoData, held: IntArray, n: int = 5) -> None:
    _heading(f"3  Predict: the first {n} held-out rows")
    fancy = (sys.stdout.encoding or "").lower().startswith("utf")
    shades = _SHADES if fancy else _ASCII_SHADES
    p, truth = model.category_proba(columns(data, held[:n])), data.y[held[:n]]
    named = zip(shades, data.categories, strict=True)
    print("   ".join(f"{shade} {name}" for shade, name in named))
    print(f"\n{'true':<10}{'predicted':<11}{'probabilities':<{_BAR_WIDTH}}  of the true")
    for row, level in zip(p, truth, strict=True):
        edges = np.rint(_BAR_WIDTH * np.concatenate([[0.0], np.cumsum(row)])).astype(int)
        bar = "".join(s * w for s, w in zip(shades, np.diff(edges), strict=True))
        chosen = data.categories[int(row.argmax())]
        print(f"{level:<10}{chosen:<11}{bar}  {row[data.categories.index(level)]:.2f}")


def _keep(model: TableModel, data: DemoData, train: IntArray, held: IntArray, to: Path) -> None:
    """Write tables, model, predictions and report."""
    from ordinalgp.report import write_report

    for name, rows in (("train.csv", train), ("test.csv", held)):
        with table_writer(to / name) as writer:
            writer.write(columns(data, rows) | {"stage": data.y[rows].tolist()})
    model.save(to / "model.ogp")
    with table_writer(to / "predictions.csv") as writer:
        for chunk in predictions(model, TableFile(to / "test.csv"), ["stage"]):
            writer.write(chunk)
    write_report(model, to / "report.html")


def _print_files(folder: Path, data: DemoData) -> None:
    _heading(f"4  Keep: all files are in {folder.resolve()}")
    print("train.csv, test.csv  rows of the first split")
    print("model.ogp            model of step 2, with the encoding of its columns")
    print("predictions.csv      every held-out row with its probabilities")
    print("report.html          one page with plots: open it in a browser")
    program, order = _program(), ",".join(data.categories)
    _heading("Now try")
    for line in (
        f"evaluate {folder}/model.ogp {folder}/test.csv",
        f"predict {folder}/model.ogp {folder}/test.csv -o {folder}/again.csv",
        f"explain {folder}/model.ogp {folder}/test.csv --row 3",
        f"compare {folder}/train.csv --target stage --categories {order} "
        "--models gp,logistic --folds 3",
        f"fit {folder}/train.csv --target stage --categories {order} --model laplace "
        f"-o {folder}/laplace.ogp",
        f"report {folder}/laplace.ogp -o {folder}/laplace.html",
    ):
        print(f"{program} {line}")


def _program() -> str:
    """Shortest way to call the command from this folder."""
    beside = Path(sys.executable).parent / "ordinalgp"
    found = shutil.which("ordinalgp")
    if found is not None and Path(found) == beside:
        return "ordinalgp"
    if beside.exists():
        here = Path.cwd()
        return str(beside.relative_to(here)) if beside.is_relative_to(here) else str(beside)
    return f"{sys.executable} -m ordinalgp"
