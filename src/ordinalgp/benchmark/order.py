"""Table 1 and Figure 2 of Wang and McKenna (2010): learning from comparisons.

All items are standardised together and pairs with equal targets are left out. Two errors are kept:
on pairs that were not trained on, and on pairs drawn from all, as the paper seems to have done for
its table (it says of its Figure 2 only that training pairs were excluded).
"""

import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.benchmark.models import Model
from ordinalgp.benchmark.pictures import Panel, draw_curves
from ordinalgp.benchmark.protocol import Cell, fetch, standardise
from ordinalgp.benchmark.report import Part, Table, beside_published, best_of, entries, mean_sd
from ordinalgp.benchmark.scoring import Record
from ordinalgp.benchmark.summary import figure, published, select
from ordinalgp.benchmark.tables import present
from ordinalgp.kernels import Additive, Independent

if TYPE_CHECKING:
    from ordinalgp.benchmark.experiments import Experiment

PAIRS = {
    "pyrimidines": (100,),
    "triazines": (300,),
    "machine_cpu": (500,),
    "boston_housing": (700,),
}
CURVE = {"boston_housing": tuple(range(100, 1001, 100))}
_TESTS = 20_000
LITTLE = 0.1  # noise of a comparison beside that of its items, which is one


def _preference(
    inference: str,
    *,
    gamma: float,
    ard: bool = False,
    own: bool = False,
    items: bool = False,
    sums: bool = False,
) -> Callable[[int, int], Any]:
    """The kernel of section 3, gamma exp(-d^2 / 2 l^2) for noise 1, from the paper's start.

    ``ard`` has a length scale for each input; ``items`` gives the noise to the items, the same in
    every comparison, instead of to the comparisons, and so has the paper's two hyperparameters;
    ``own`` has noise in both, that of the items to be learned, and starts where ``items`` does:
    from a small variance of the items its search often ends at a lower maximum; ``sums`` adds
    functions of one input each.
    """

    def build(seed: int, n_inputs: int) -> Any:
        from ordinalgp import PreferenceGP

        start = np.sqrt(n_inputs)
        length = np.full(n_inputs, start) if ard else start
        unit = LITTLE**-2 if own else 1.0  # in which the noise of comparisons is one
        kernel = ConstantKernel(gamma * unit, (1e-4, 1e6)) * RBF(length, (1e-2, 1e4))
        if own:
            kernel += ConstantKernel(unit, (1e-4, 1e6)) * Independent()
        if items:
            kernel += Independent()
        if sums:
            kernel += ConstantKernel(gamma * unit, (1e-4, 1e6)) * Additive(1.0, (1e-2, 1e4))
        return PreferenceGP(kernel, noise=LITTLE if items else 1.0, inference=inference)

    return build


# log gamma is 0 at the start, or 1 where the name has a 2.
PREFERENCES = {
    "gpla": Model("GPLA", _preference("laplace", gamma=1.0)),
    "gpla2": Model("GPLA2", _preference("laplace", gamma=np.e)),
    "gpep": Model("GPEP", _preference("ep", gamma=1.0)),
    "gpep2": Model("GPEP2", _preference("ep", gamma=np.e)),
    "gpep2-ard": Model("GPEP2, length scales", _preference("ep", gamma=np.e, ard=True)),
    "gpep2-own": Model("GPEP2 and own", _preference("ep", gamma=np.e, own=True)),
    "gpep2-sums": Model("GPEP2, own, sums", _preference("ep", gamma=np.e, own=True, sums=True)),
    "gpep2-items": Model("GPEP2, noise of items", _preference("ep", gamma=np.e, items=True)),
    "gpep2-items-sums": Model(
        "GPEP2, noise of items, sums", _preference("ep", gamma=np.e, items=True, sums=True)
    ),
}


def load_items(
    name: str, data_home: str | os.PathLike[str] | None = None
) -> tuple[FloatArray, FloatArray]:
    """Standardised items and their targets."""
    data = fetch(name, data_home)
    X, _ = standardise(data.features(), np.ones(len(data.target), dtype=np.bool_))
    return X, data.target


def draw_pairs(y: FloatArray, m: int, seed: int) -> tuple[IntArray, IntArray]:
    """Random pairs with different targets, winner first: ``m`` to train on, others to test."""
    left, right = np.triu_indices(len(y), 1)
    pairs = np.column_stack([left, right])[y[left] != y[right]]
    pairs = np.random.default_rng(seed).permutation(pairs)[: m + _TESTS]
    pairs = np.where((y[pairs[:, 0]] > y[pairs[:, 1]])[:, None], pairs, pairs[:, ::-1])
    return pairs[:m], pairs[m:]


def wrong_order(utility: FloatArray, pairs: IntArray) -> float:
    """Share of pairs, winner first, in the wrong order; equal utilities count half."""
    difference = utility[pairs[:, 0]] - utility[pairs[:, 1]]
    return float(np.mean(difference < 0) + np.mean(difference == 0) / 2)


def compute(cell: Cell, data_home: str | os.PathLike[str] | None = None) -> Record:
    """Fit ``cell.size`` random pairs and order the others."""
    X, y = load_items(cell.dataset, data_home)
    train, test = draw_pairs(y, cell.size, cell.split)
    model = PREFERENCES[cell.model].build(cell.seed, X.shape[1])
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # recorded below
        model.fit(X, train)
    seconds = time.process_time() - begin
    proba = model.comparison_proba(X[test[:, 0]], X[test[:, 1]])
    error, trained = (wrong_order(model.predict(X), pairs) for pairs in (test, train))
    share = cell.size / (len(y) * (len(y) - 1) / 2)  # of all pairs were trained on
    return {
        "zero_one": error,
        "zero_one_all": (1 - share) * error + share * trained,
        "log_score": float(-np.mean(np.log(np.maximum(proba, 1e-300)))),
        "evidence": float(model.log_marginal_likelihood_value_),
        "noise": float(model.noise_),
        "kernel": str(model.kernel_),
        "converged": bool(model.converged_),
        "n_evaluations": len(model.evidence_path_),
        "fit_seconds": round(seconds, 4),
    }


# ----------------------------------------------------------------------------------- pages


def table_page(records: Sequence[Record], experiment: "Experiment") -> list[Part]:
    """Error on other and on all pairs beside the paper's, one row for each set and model."""
    source = published("order-table1")
    rows = []
    for dataset in present(experiment.datasets, records, "dataset"):
        found = select(records, dataset=dataset)
        models = present(list(PREFERENCES), found, "model")
        each = [select(found, model=m) for m in models]
        theirs = [source["figures"][dataset].get(m) for m in models]
        others, everyone = (
            [figure(r, key, t) for r, t in zip(each, theirs, strict=True)]
            for key in ("zero_one", "zero_one_all")
        )
        for place, model in enumerate(models):
            name = entries(dataset, str(PAIRS[dataset][0]), PREFERENCES[model].label)
            error = beside_published(others[place], bold=best_of(others)[place])
            overall = beside_published(everyone[place])
            scores = [mean_sd(figure(each[place], k), digits=3) for k in ("log_score", "evidence")]
            n = entries(str(len(each[place])))
            rows.append([*name, *n, *error, overall[0], overall[2], *scores])
    header = ["data", "pairs", "model", "n", "other pairs, %", "published", "diff/se"]
    header += ["all pairs, %", "diff/se", "log score", "log evidence"]
    note = (
        "Share of pairs in the wrong order, mean±standard deviation over the repetitions run. "
        f"Other pairs: up to {_TESTS:,} that were not trained on; all pairs: drawn from all, "
        "trained on or not. A 2 in the name is the start log gamma = 1. Models without a "
        "published figure are ours. Log score: mean -ln p on other pairs. Published: "
        f"{source['source']}."
    )
    return [Table("Errors on pairs", header, rows, note)]


def curve_page(records: Sequence[Record], experiment: "Experiment") -> list[Part]:
    """Error against the number of pairs."""
    source = published("order-figure2")
    models = present(list(PREFERENCES), records, "model")
    rows = []
    for size in sorted({r["size"] for r in records if "error" not in r}):
        row = entries(str(size))
        for model in models:
            found = select(records, size=size, model=model)
            theirs = source["figures"].get(str(size), {}).get(model)
            row += entries(str(len(found))) + beside_published(figure(found, "zero_one", theirs))
        rows.append(row)
    labels = [PREFERENCES[m].label for m in models]
    columns = [x for name in labels for x in ("n", f"{name} %", "published", "diff/se")]
    header = ["pairs", *columns]
    note = (
        "Share of the pairs not trained on in the wrong order. The paper draws this curve and "
        f"prints its end alone. Published: {source['source']}."
    )
    return [Table("Boston: error against the number of pairs", header, rows, note)]


def draw(folder: Path, records: Sequence[Record]) -> list[Part]:
    """Draw Figure 2."""
    panel = Panel("zero_one", "pairs not trained on, wrong %", 100.0)
    caption = "Boston: error against the number of comparisons"
    return draw_curves(
        folder / "order-figure2.png", caption, records, PREFERENCES, [panel], x="comparisons"
    )
