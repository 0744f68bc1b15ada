"""Figure 3 of Chu and Ghahramani (2005): one user's ratings from those of the others.

MovieLens stands in for EachMovie. A movie's inputs are the ratings of other users; gaps are filled
by the movie's mean, which the correlation kernel (20) does itself, or by low-rank approximation.
"""

import os
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.benchmark.models import Model
from ordinalgp.benchmark.movielens import LEVELS, load_movies, star_errors
from ordinalgp.benchmark.pictures import Panel, draw_curves
from ordinalgp.benchmark.protocol import Cell
from ordinalgp.benchmark.report import Part, Table, best_of, counts_of, entries, mean_sd
from ordinalgp.benchmark.scoring import Record
from ordinalgp.benchmark.summary import figure, select
from ordinalgp.benchmark.svm import SupportVectors
from ordinalgp.benchmark.tables import present
from ordinalgp.decisions import decide
from ordinalgp.imputation import LowRankImputer
from ordinalgp.kernels import Correlation

if TYPE_CHECKING:
    from ordinalgp.benchmark.experiments import Experiment

ACTIVE, FEATURES = 414, 150
_SIZES = (50, 100, 150, 200, 250, 300)
DATASETS = ("movielens-mean", "movielens-low-rank")
SIZES = dict.fromkeys(DATASETS, _SIZES)


def _correlated(inference: str) -> Callable[[int, int], Any]:
    def build(seed: int, n_inputs: int) -> Any:
        from ordinalgp import OrdinalGPClassifier

        return OrdinalGPClassifier(
            Correlation(), inference=inference, categories=LEVELS, random_state=seed
        )

    return build


class _CorrelatedSupportVectors:
    """The machine with the correlation kernel: a linear one on z-scores. Half stars are codes."""

    def __init__(self, seed: int) -> None:
        self._machine = SupportVectors("linear", seed)

    def fit(self, X: FloatArray, y: FloatArray) -> "_CorrelatedSupportVectors":
        self._machine.fit(Correlation()._z(X), np.rint(2 * y).astype(np.intp))
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        return self._machine.predict(Correlation()._z(X)) / 2


MODELS = {
    "svm": Model("SVM", lambda seed, _: _CorrelatedSupportVectors(seed), "skordinal"),
    "map": Model("MAP", _correlated("laplace")),
    "ep": Model("EP", _correlated("ep")),
}


def load(
    cell: Cell, data_home: str | os.PathLike[str] | None = None
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Inputs and stars of the active user's movies, and a random order of them."""
    data = load_movies(data_home)
    own = data.users == ACTIVE
    rated = ~np.isnan(data.stars[:, own][:, 0])
    others, y = data.stars[rated][:, ~own], data.stars[rated][:, own][:, 0]
    # Among equals the users with more ratings of all movies come first.
    most = np.argsort(-np.sum(~np.isnan(others), axis=0), kind="stable")
    X = others[:, most[:FEATURES]]
    if cell.dataset == "movielens-low-rank":
        X = LowRankImputer(rank=2).fit_transform(X)
    return X, y, np.random.default_rng(cell.split).permutation(len(y))


def compute(cell: Cell, data_home: str | os.PathLike[str] | None = None) -> Record:
    """Train on ``cell.size`` movies, test on the user's others."""
    X, y, order = load(cell, data_home)
    train, test = order[: cell.size], order[cell.size :]
    model = MODELS[cell.model].build(cell.seed, X.shape[1]).fit(X[train], y[train])
    if not hasattr(model, "category_proba"):
        found = star_errors(y[test], only=model.predict(X[test]))
        return {"zero_one": found["zero_one_only"], "stars": found["stars_only"]}
    proba = model.category_proba(X[test])
    mode, median = (LEVELS[decide(proba, rule)] for rule in ("mode", "median"))
    found = star_errors(y[test], mode=mode, median=median)
    return {**found, "zero_one": found["zero_one_mode"], "stars": found["stars_median"]}


def page(records: Sequence[Record], experiment: "Experiment") -> list[Part]:
    """Both errors under both treatments of gaps, sizes down."""
    models = present(list(MODELS), records, "model")
    columns = list(product(present(DATASETS, records, "dataset"), models))
    parts: list[Part] = []
    for measure, title in (
        ("stars", "Absolute error, in stars"),
        ("zero_one", "Zero-one error, %"),
    ):
        rows, digits = [], 4 if measure == "stars" else 2
        for size in sorted({r["size"] for r in records if "error" not in r}):
            found = [
                figure(select(records, size=size, dataset=d, model=m), measure) for d, m in columns
            ]
            cells = [
                mean_sd(f, bold=b, digits=digits)
                for f, b in zip(found, best_of(found, digits=digits), strict=True)
            ]
            rows.append([*entries(str(size), counts_of(found)), *cells])
        names = [
            f"{d.removeprefix('movielens-').replace('-', ' ')}, {MODELS[m].label}"
            for d, m in columns
        ]
        parts.append(Table(title, ["training movies", "n", *names], rows))
    parts.append(
        f"User {ACTIVE} of MovieLens is the target, the {FEATURES} users with the most ratings of "
        "the same movies are the inputs. Gaussian processes decide for the median level in the "
        "first table and for the most probable one in the second; the support vector machine "
        "(Chu and Keerthi's form of Shashua and Levin's, C by 5-fold cross-validation as in the "
        "paper) has one decision. The paper prints no figures, only that the support vector "
        "machine was a bit better with means, and all three about 0.08 better with low rank."
    )
    return parts


def draw(folder: Path, records: Sequence[Record]) -> list[Part]:
    """Draw both errors under both treatments."""
    panels = [
        Panel(measure, label, scale, dataset)
        for measure, label, scale in (
            ("stars", "absolute error, stars", 1.0),
            ("zero_one", "zero-one error, %", 100.0),
        )
        for dataset in DATASETS
    ]
    caption = "One user of MovieLens: errors against the number of training movies"
    path = folder / "gpor-figure3.png"
    return draw_curves(path, caption, records, MODELS, panels, x="training movies")
