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
from ordinalgp.benchmark.report import Entry, Part, Table, best_of, entries, mean_sd
from ordinalgp.benchmark.scoring import Record, score
from ordinalgp.benchmark.summary import figure, select
from ordinalgp.benchmark.tables import present
from ordinalgp.kernels import ARDLinear

if TYPE_CHECKING:
    from ordinalgp.benchmark.experiments import Experiment

SIMULATED = "simulated-12600"
DATASETS = ("gene_glucose", "gene_cervical_stage", SIMULATED)
_TRUE_GENES = 40
_INFERENCE = {"map": "laplace", "ep": "ep"}


def simulate(seed: int) -> tuple[FloatArray, IntArray]:
    """52 tumours, 12,600 genes and levels of 26, 20 and 6 as in the paper.

    The first 40 genes are co-expressed: each follows, with a correlation of 0.8, the state that
    decides the level. The others are noise.
    """
    rng = np.random.default_rng(seed)
    X, state = rng.normal(size=(52, 12_600)), rng.normal(size=52)
    X[:, :_TRUE_GENES] = 0.8 * state[:, None] + 0.6 * X[:, :_TRUE_GENES]
    latent = state + 0.2 * rng.normal(size=52)
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
    steps: list[Record] = []
    ard_seconds, rng = None, np.random.default_rng(cell.seed)
    while not steps or steps[-1]["genes"] > 1:
        step, relevance, seconds = _step(data, kept, cell)
        if cell.dataset == SIMULATED:
            step["true_genes"] = int(np.sum(kept < _TRUE_GENES))
        steps.append(step)
        ard_seconds = seconds if ard_seconds is None else ard_seconds
        # Many relevances are at their lower bound: chance decides among them, not the column.
        order = np.lexsort((rng.random(len(kept)), -relevance))
        kept = kept[order[: (len(kept) + 1) // 2]]
    return {"steps": steps, "ard_seconds": ard_seconds}


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
    step = {"genes": d, **score(plain, test, levels)}
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
            true = [
                Entry(f"{np.mean([s['true_genes'] for s in at[m]]):.1f}")
                for m in models
                if "true_genes" in step
            ]
            rows.append([*entries(f"{step['genes']:,}"), *cells, *true])
        header = [f"{e} %, {MODELS[m].label}" for e in ("zero-one", "absolute") for m in models]
        if dataset == SIMULATED:
            header += [f"of the {_TRUE_GENES}, {MODELS[m].label}" for m in models]
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
        texts.append(text)
    return ". ".join(texts) + "."
