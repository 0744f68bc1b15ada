"""Section 6.4 of Chu and Ghahramani (2005): genes are eliminated by their relevance."""

import os
import time
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.benchmark.models import MODELS
from ordinalgp.benchmark.protocol import Cell, Split, draw_training_rows, fetch, standardise
from ordinalgp.benchmark.report import Part, Table, best_of, entries, mean_sd
from ordinalgp.benchmark.scoring import Record, score
from ordinalgp.benchmark.summary import figure, select
from ordinalgp.benchmark.tables import present
from ordinalgp.kernels import ARDLinear

if TYPE_CHECKING:
    from ordinalgp.benchmark.experiments import Experiment

SIMULATED = "simulated-12600"
DATASETS = ("gene_glucose", "gene_cervical_stage", SIMULATED)
_INFERENCE = {"map": "laplace", "ep": "ep"}


def simulate(seed: int) -> tuple[FloatArray, IntArray]:
    """52 tumours, 12,600 genes and levels of 26, 20 and 6 as in the paper; 20 genes matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(52, 12_600))
    latent = X[:, :20].sum(axis=1) / np.sqrt(20) + 0.3 * rng.normal(size=52)
    y = np.empty(52, dtype=np.intp)
    y[np.argsort(latent)] = np.repeat([1, 2, 3], [26, 20, 6])
    return X, y


def load(cell: Cell, data_home: str | os.PathLike[str] | None = None) -> Split:
    """Two halves with the same shares of the levels; the same for every model."""
    seed = Cell(cell.dataset, cell.bins, cell.split, "").seed
    if cell.dataset == SIMULATED:
        X, y = simulate(seed)
    else:
        data = fetch(cell.dataset, data_home)
        X, y = data.numeric, data.target.astype(np.intp)
        if cell.dataset == "gene_glucose":
            X = np.log2(X + 1)  # raw intensities
    train = draw_training_rows(y, len(y) // 2, seed)
    X_train, X_test = standardise(X, train)
    return Split(X_train, y[train], X_test, y[~train], "drawn")


def compute(cell: Cell, data_home: str | os.PathLike[str] | None = None) -> Record:
    """Halve the genes from all to one; at each number score a plain linear kernel.

    Relevances come from the training half alone: the paper does not say from which rows its were,
    and from all of them the test error would be flattered.
    """
    data = load(cell, data_home)
    kept = np.arange(data.X_train.shape[1])
    steps, first_seconds = [], None
    while True:
        step, relevance, seconds = _step(data, kept, cell)
        steps.append(step)
        first_seconds = seconds if first_seconds is None else first_seconds
        if len(kept) == 1:
            break
        kept = kept[np.argsort(-relevance)[: (len(kept) + 1) // 2]]
    hits = int(np.sum(steps_kept(steps, 20) < 20)) if cell.dataset == SIMULATED else None
    shown = [{k: v for k, v in step.items() if k != "kept"} for step in steps]
    return {"steps": shown, "ard_seconds": first_seconds, "true_genes_kept": hits}


def steps_kept(steps: Sequence[Record], at_least: int) -> IntArray:
    """Return the genes of the last step that still had ``at_least`` of them."""
    kept: IntArray = [step["kept"] for step in steps if step["genes"] >= at_least][-1]
    return kept


def _step(data: Split, kept: IntArray, cell: Cell) -> tuple[Record, FloatArray, float]:
    from ordinalgp import OrdinalGPClassifier

    X, d = data.X_train[:, kept], len(kept)
    options: dict[str, Any] = {"inference": _INFERENCE[cell.model], "random_state": cell.seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # relevances at their bound: eliminated
        plain = OrdinalGPClassifier(ARDLinear(1 / d, (1e-6, 1e3)), **options).fit(X, data.y_train)
        begin = time.process_time()
        start = np.full(d, 1 / d)
        ard = OrdinalGPClassifier(ARDLinear(start, (1e-8, 1e3)), **options).fit(X, data.y_train)
        seconds = round(time.process_time() - begin, 3)
    test = Split(X, data.y_train, data.X_test[:, kept], data.y_test, data.partition)
    levels = np.unique(np.concatenate([data.y_train, data.y_test]))
    step = {"genes": d, **score(plain, test, levels), "kept": kept}
    return step, np.atleast_1d(ard.kernel_.relevance), seconds


def page(records: Sequence[Record], experiment: "Experiment") -> list[Part]:
    """Errors over the number of genes, one table for each data set."""
    parts: list[Part] = []
    for dataset in present(experiment.datasets, records, "dataset"):
        models = present(list(MODELS), select(records, dataset=dataset), "model")
        rows = []
        found = {m: select(records, dataset=dataset, model=m) for m in models}
        for place, step in enumerate(found[models[0]][0]["steps"]):
            at = {m: [r["steps"][place] for r in found[m]] for m in models}
            errors = {k: [figure(at[m], k) for m in models] for k in ("zero_one", "absolute")}
            cells = [
                mean_sd(f, bold=bold)
                for each in errors.values()
                for f, bold in zip(each, best_of(each), strict=True)
            ]
            rows.append([*entries(f"{step['genes']:,}"), *cells])
        header = [f"{e} %, {MODELS[m].label}" for e in ("zero-one", "absolute") for m in models]
        parts.append(Table(dataset, ["genes", *header], rows, _note(found)))
    parts.append(
        "Relevances are learned on the training half by an ARD linear kernel, the less relevant "
        "half of the genes is left out, and so on; the errors are those of a plain linear kernel "
        "on the genes kept, on the other half of the rows. The paper's microarray (Singh et al. "
        "2002) is not available with its scores, so that figures are not compared digit by digit."
    )
    return parts


def _note(found: dict[str, list[Record]]) -> str:
    texts = []
    for model, records in found.items():
        seconds = np.median([r["ard_seconds"] for r in records])
        text = f"{MODELS[model].label}: {len(records)} trials, median processor time of the ARD fit"
        text += f" with all genes {seconds:.1f} s"
        hits = [r["true_genes_kept"] for r in records if r["true_genes_kept"] is not None]
        if hits:
            text += (
                f"; of the 20 genes that matter {np.mean(hits):.1f} are among the last 20 or more"
            )
        texts.append(text)
    return ". ".join(texts) + "."
