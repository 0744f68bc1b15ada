"""Tables 3 and 5 and the synthetic set of Li and de Rijke (2018) beside ours.

``python -m benchmarks.isbor_tables`` fits every data set, split and model, and appends each result
to a file as soon as it is there. Stop it at any time: the same command goes on where it was. Times
are those of the process on one thread, and only comparable within one run on one machine.

Sizes are the paper's. Balance scale has published splits; the others are drawn at random (seed =
number of the split), and every row that is not trained on is tested on: for Bank 192 rows where the
paper has 50. Inputs are standardised by the training rows; metric targets are cut into five levels
of equal frequency; Marketing is one-hot (74 columns), with a missing answer as all zeros.
"""

import argparse
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF

from ordinalgp import OrdinalGPClassifier, SparseBayesOrdinalClassifier, metrics
from ordinalgp.benchmark.baselines import BASELINES
from ordinalgp.benchmark.protocol import Split, data_folder, standardise
from ordinalgp.decisions import decide

ROOT = Path(__file__).resolve().parents[1]
Array = NDArray[np.float64]

# name: (file, training rows)
SETS = {
    "BS": ("balance_scale.csv", 468),
    "SWD": ("swd.csv", 750),
    "Marketing": ("marketing.csv", 6744),
    "Bank": ("bank8fm.csv", 8000),
    "Computer": ("computer_small.csv", 8092),
    "CalHouse": ("california_housing.csv", 20490),
    "Census": ("census_house16h.csv.gz", 22584),
}
# The paper's Table 3 (mean absolute error) and Table 5 (relevance or support vectors).
PAPER_MAE: dict[str, list[float | None]] = {
    "kdlor": [0.17, 0.58, 1.60, 0.21, 0.39, 0.46, 0.63],
    "ep": [0.03, 0.41, None, None, None, None, None],
    "svor": [0.00, 0.41, 0.83, 0.20, 0.40, 0.63, None],
    "sbor": [0.04, 0.52, 1.45, 0.34, 0.44, None, 0.60],
    "isvor": [0.36, 0.56, 1.20, 0.80, 0.36, 0.87, 0.65],
    "isbor": [0.02, 0.43, 1.74, 0.19, 0.37, 0.50, 0.63],
}
PAPER_KEPT: dict[str, list[float | None]] = {
    "svor": [60.2, 718.9, 3756.0, 5685.1, 3373.1, 12788.3, None],
    "isvor": [283.3, 454.1, 10185.1, 8128.5, 7739.5, 23919.8, 28348.5],
    "sbor": [9.0, 104.8, 51.3, 16.6, 3056.1, None, 1001.0],
    "isbor": [17.0, 58.5, 51.1, 44.8, 30.9, 84.8, 73.0],
}
_METRIC = ("Bank", "Computer", "CalHouse", "Census")
_OTHERS = ("svor", "svor-explicit", "isvor", "kdlor")


class Cell(NamedTuple):
    """One fit."""

    dataset: str
    n_train: int
    split: int
    model: str


def load(cell: Cell) -> Split:
    """Read a data set and split it."""
    synthetic = cell.dataset == "synthetic"
    file = "isbor_synthetic.csv.gz" if synthetic else SETS[cell.dataset][0]
    table = pd.read_csv(data_folder() / file)
    y = table.pop("target").to_numpy()
    if cell.dataset in _METRIC:
        y = np.searchsorted(np.quantile(y, [0.2, 0.4, 0.6, 0.8]), y)
    X = _one_hot(table) if cell.dataset == "Marketing" else table.to_numpy(dtype=float)
    train = _train_rows(cell, len(X))
    X_train, X_test = standardise(X, train)
    codes = np.unique(y, return_inverse=True)[1]
    return Split(X_train, codes[train], X_test, codes[~train], "drawn")


def _one_hot(table: pd.DataFrame) -> Array:
    words = table.drop(columns="sex").astype("category")
    encoded = pd.concat([table["sex"] - 1, pd.get_dummies(words)], axis=1)
    values: Array = encoded.to_numpy(dtype=float)
    return values


def _train_rows(cell: Cell, n: int) -> NDArray[np.bool_]:
    folder = data_folder() / "partitions"
    train = np.zeros(n, dtype=bool)
    if cell.dataset == "BS":
        splits = pd.read_csv(folder / "balance_scale_splits_holdout.csv")
        return splits[f"split_{cell.split}"].to_numpy() == 1
    if cell.dataset == "synthetic" and cell.n_train == 1000:
        rows = pd.read_csv(folder / "isbor_synthetic_train_rows_1000.csv")
        train[rows[f"split_{cell.split}"].to_numpy()] = True
        return train
    train[np.random.RandomState(cell.split).permutation(n)[: cell.n_train]] = True
    return train


def build(name: str, n_inputs: int) -> Any:
    """Make an unfitted model; halves are ISBOR, too."""
    if name == "ep":
        return OrdinalGPClassifier()
    if name == "isbor-given":  # without the search for a width, which looks at 2,000 rows at most
        return SparseBayesOrdinalClassifier(RBF(1.5), decision="median", random_state=0)
    return BASELINES["isbor" if name == "halves" else name].build(0, n_inputs)


def run_cell(cell: Cell) -> dict[str, Any]:
    """Fit and score one cell."""
    data = load(cell)
    model = build(cell.model, data.X_train.shape[1])
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # recorded below
        _fit(model, data, cell.model)
    cpu = time.process_time() - begin
    found = getattr(model, "fitted", model)  # a search keeps its estimator there
    mode, median = _errors(found, data)
    return cell._asdict() | {
        "mae": mode,
        "mae_median": median,
        "n_test": len(data.y_test),
        "n_relevance": _n_kept(found),
        "rounds": int(getattr(found, "n_iter_", 1)),
        "kernel": str(found.kernel_),
        "evidence": getattr(found, "log_marginal_likelihood_value_", None),
        "converged": bool(getattr(found, "converged_", True)),
        "cpu": round(cpu, 2),
    }


def _errors(model: Any, data: Split) -> tuple[float, float]:
    """Mean absolute error with the most probable level, and with the paper's rule.

    The level whose thresholds hold the latent mean (section 3.1) is the median level, as the noise
    and the posterior are symmetric. Models without probabilities know this rule alone.
    """
    if not hasattr(model, "category_proba"):
        guesses = [model.predict(data.X_test)] * 2
    else:
        proba = model.category_proba(data.X_test)
        guesses = [model.categories_[decide(proba, rule)] for rule in ("mode", "median")]
    mode, median = (metrics.mean_absolute_error(data.y_test, guess) for guess in guesses)
    return mode, median


def _n_kept(model: Any) -> int | None:
    for name in ("relevance_", "support_"):
        if hasattr(model, name):
            return len(getattr(model, name))
    return None


def _fit(model: Any, data: Split, how: str) -> None:
    """Fit all rows at once, or one half and then the other."""
    if how != "halves":
        model.fit(data.X_train, data.y_train)
        return
    for half in np.array_split(np.random.RandomState(0).permutation(len(data.y_train)), 2):
        model.partial_fit(data.X_train[half], data.y_train[half])


def cells(splits: int, large_splits: int) -> list[Cell]:
    """Every fit, the tables first, split by split, so that a part of the run is a table already."""
    small, large = ("BS", "SWD"), ("Marketing", "Bank", "Computer", "CalHouse", "Census")
    every = range(1, large_splits + 1)
    kinds = ("isbor", "isbor-auto")
    out = [_cell(name, split, k) for k in kinds for split in every for name in (*small, *large)]
    later = range(large_splits + 1, splits + 1)
    out += [_cell(name, split, k) for k in kinds for split in later for name in small]
    sizes = range(1000, 10001, 1000)
    out += [Cell("synthetic", n, 1, model) for model in ("isbor", "isbor-given") for n in sizes]
    twice = range(1, 2 * large_splits + 1)
    models = ("halves", "isbor-cv", *_OTHERS, "ep", "sbor")
    out += [_cell(name, split, model) for model in models for split in twice for name in small]
    more = range(twice.stop, splits + 1)
    out += [_cell("SWD", split, model) for model in ("ep", *_OTHERS, "sbor") for split in more]
    out += [_cell(name, split, "halves") for split in (1, 2, 3) for name in large]
    out += [_cell("Bank", split, "halves") for split in every[3:]]
    # The larger sets at sizes that the kernel baselines, with their searches, can do.
    out += [Cell(name, 1000, 1, model) for model in ("svor", "isvor", "kdlor") for name in large]
    both = [("synthetic", n) for n in (1000, 2000, 4000)]
    out += [Cell(*which, 1, model) for which in both for model in (*_OTHERS, "sbor", "halves")]
    out += [Cell(*which, 1, "ep") for which in both[:2]]
    out += [_cell(name, 1, "sbor") for name in large]
    out += [Cell("synthetic", 1000, split, "isbor") for split in range(2, 6)]
    # Running times side by side: sizes that exact inference can do, too.
    timed = [(name, n) for n in (1000, 2000) for name in large]
    out += [Cell(*which, 1, model) for which in timed for model in (*kinds, "sbor", "ep")]
    return out


def _cell(name: str, split: int, model: str) -> Cell:
    return Cell(name, SETS[name][1], split, model)


def run(path: Path, wanted: list[Cell]) -> None:
    """Compute what ``path`` lacks, one line each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done = {Cell(*(r[f] for f in Cell._fields)) for r in read(path)}
    for cell in wanted:
        if cell not in done:
            record = run_cell(cell)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            print(record, flush=True)


def read(path: Path) -> list[dict[str, Any]]:
    """All records so far."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def report(records: list[dict[str, Any]]) -> str:
    """Tables in Markdown."""
    groups = defaultdict(list)
    for record in records:
        groups[record["dataset"], record["n_train"], record["model"]].append(record)
    order = {name: place for place, name in enumerate([*SETS, "synthetic"])}
    lines = [
        "| set | rows | model | splits | MAE | paper | MAE, mode | vectors | paper | CPU s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, n, model in sorted(groups, key=lambda key: (order[key[0]], *key[1:])):
        lines.append(_line(name, n, model, groups[name, n, model]))
    return "\n".join(lines) + "\n\n" + paired(records) + growth(records)


def _line(name: str, n: int, model: str, found: list[dict[str, Any]]) -> str:
    mode, median, kept, cpu = (
        np.array([np.nan if r[key] is None else r[key] for r in found])
        for key in ("mae", "mae_median", "n_relevance", "cpu")
    )
    parts = [name, str(n), model, str(len(found)), f"{median.mean():.3f} ({median.std():.3f})"]
    parts += [_published(PAPER_MAE, name, model), f"{mode.mean():.3f}", f"{kept.mean():.1f}"]
    parts += [_published(PAPER_KEPT, name, model), f"{cpu.mean():.1f}"]
    return "| " + " | ".join(parts) + " |"


def _published(table: dict[str, list[float | None]], name: str, model: str) -> str:
    values = dict(zip(SETS, table.get(model, []), strict=False))
    value = values.get(name)
    return "" if value is None else f"{value:g}"


def paired(records: list[dict[str, Any]]) -> str:
    """ISBOR's error less that of other models on the same splits, with its standard error."""
    errors: dict[tuple[str, int, str], dict[int, float]] = defaultdict(dict)
    for r in records:
        errors[r["dataset"], r["n_train"], r["model"]][r["split"]] = r["mae_median"]
    lines = ""
    for name, n, model in sorted(errors):
        ours, theirs = errors.get((name, n, "isbor"), {}), errors[name, n, model]
        both = sorted(set(ours) & set(theirs))
        if model != "isbor" and len(both) >= 2:
            gap = np.array([ours[split] - theirs[split] for split in both])
            error = gap.std(ddof=1) / np.sqrt(len(gap))
            lines += f"{name}, {n} rows, {len(gap)} splits: ISBOR less {model} "
            lines += f"{gap.mean():+.4f} (standard error {error:.4f}).\n"
    return lines


def growth(records: list[dict[str, Any]]) -> str:
    """Exponents of the cost in N on the synthetic set, whole and for each round."""
    lines = ""
    for model in ("isbor", "isbor-given"):
        key = "synthetic", 1, model
        found = [r for r in records if (r["dataset"], r["split"], r["model"]) == key]
        if len(found) >= 3:
            n, cpu, rounds = (np.log([r[k] for r in found]) for k in ("n_train", "cpu", "rounds"))
            whole, each = np.polyfit(n, cpu, 1)[0], np.polyfit(n, cpu - rounds, 1)[0]
            lines += f"Cost of {model} grows as N^{whole:.2f}, per round as N^{each:.2f}.\n"
    return lines


def main() -> None:
    """Run and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks" / "results" / "isbor.jsonl"
    )
    parser.add_argument("--splits", type=int, default=20, help="of BS and SWD")
    parser.add_argument("--large-splits", type=int, default=5, help="of the other sets")
    parser.add_argument("--datasets", nargs="+", help="only these")
    parser.add_argument("--models", nargs="+", help="only these")
    parser.add_argument("--rows", nargs="+", type=int, help="only these numbers of training rows")
    parser.add_argument("--report", action="store_true", help="only print the tables")
    options = parser.parse_args()
    wanted = [
        cell
        for cell in cells(options.splits, options.large_splits)
        if options.datasets is None or cell.dataset in options.datasets
        if options.models is None or cell.model in options.models
        if options.rows is None or cell.n_train in options.rows
    ]
    if not options.report:
        run(options.output, wanted)
    files = options.output.parent.glob(f"{options.output.stem}*.jsonl")
    print(report([r for file in sorted(files) for r in read(file) if "n_train" in r]))


if __name__ == "__main__":
    main()
