"""Figure 2 of Chu and Ghahramani (2005): three ranks in the plane, with less and more noise."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ordinalgp.benchmark.models import MODELS, find_models
from ordinalgp.benchmark.protocol import Cell, Split
from ordinalgp.benchmark.report import Part, Picture, Table, best_of, entries, mean_sd
from ordinalgp.benchmark.scoring import Record, score
from ordinalgp.benchmark.summary import figure, select
from ordinalgp.benchmark.svm import SupportVectors
from ordinalgp.benchmark.tables import present
from ordinalgp.datasets import make_three_ranks

if TYPE_CHECKING:
    from ordinalgp.benchmark.experiments import Experiment

NOISE = {"three-ranks-low-noise": 0.1, "three-ranks-high-noise": 0.6}
_TRAINING, _TEST = 60, 2000


def load(cell: Cell) -> Split:
    """Draw training and test points; every model of a trial gets the same ones."""
    seed = Cell(cell.dataset, cell.bins, cell.split, "").seed
    noise = NOISE[cell.dataset]
    X, y = make_three_ranks(_TRAINING + _TEST, noise=noise, random_state=seed)
    return Split(X[:_TRAINING], y[:_TRAINING], X[_TRAINING:], y[_TRAINING:], "drawn")


def compute(cell: Cell, data_home: str | os.PathLike[str] | None = None) -> Record:
    """Fit one model to one draw; the data are generated, so that ``data_home`` is not used."""
    data = load(cell)
    model = find_models([cell.model])[cell.model].build(cell.seed, 2)
    model.fit(data.X_train, data.y_train)
    found = score(model, data, np.array([1, 2, 3]))
    return found | ({"noise": float(model.noise_)} if hasattr(model, "noise_") else {})


def page(records: Sequence[Record], experiment: "Experiment") -> list[Part]:
    """Errors on fresh points; the paper shows the pictures alone."""
    rows = []
    for dataset in present(experiment.datasets, records, "dataset"):
        models = present(list(MODELS), select(records, dataset=dataset), "model")
        found = [select(records, dataset=dataset, model=m) for m in models]
        figures = [figure(each, "zero_one") for each in found]
        for model, each, zero_one, bold in zip(
            models, found, figures, best_of(figures), strict=True
        ):
            scores = [mean_sd(figure(each, m), digits=3) for m in ("log_score", "rps")]
            name = entries(dataset, MODELS[model].label, str(len(each)))
            rows.append([*name, mean_sd(zero_one, bold=bold), *scores])
    note = (
        f"{_TRAINING} training and {_TEST} test points of a problem like the paper's, which does "
        "not print its formula: x2 + sin(2 x1) plus noise of standard deviation "
        f"{' or '.join(f'{v:g}' for v in NOISE.values())}, cut at -0.75 and 0.75. The support "
        "vector machine is Chu and Keerthi's form of Shashua and Levin's, its width and penalty "
        "by 5-fold cross-validation on the paper's two grids; it gives no probabilities."
    )
    header = ["data", "model", "n", "zero-one %", "log score", "ranked probability score"]
    return [Table("Errors on fresh points", header, rows, note)]


def draw(folder: Path, records: Sequence[Record]) -> list[Part]:
    """Draw the contours of the models for both noises, of the first draw."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return ['No figure: it needs matplotlib, pip install "ordinalgp[plot]".']
    from ordinalgp.plots import ContourDisplay

    models = [name for name in ("svm", "map", "ep") if MODELS[name].is_available]
    wide = (4.5 * len(models), 8)
    pictures, axes = plt.subplots(2, len(models), figsize=wide, layout="constrained")
    for row, (dataset, noise) in zip(axes, NOISE.items(), strict=True):
        for ax, name in zip(row, models, strict=True):
            data = load(Cell(dataset, 3, 1, name))
            model: Any = MODELS[name].build(0, 2).fit(data.X_train, data.y_train)
            if name == "svm":
                _draw_projection(model, data, ax)
            else:
                ContourDisplay.from_estimator(model, data.X_train, data.y_train, ax=ax)
            ax.set_title(f"{MODELS[name].label}, noise {noise:g}")
    pictures.savefig(folder / "gpor-figure2.png", dpi=110)
    plt.close(pictures)
    caption = "Three ranks: contours of the discriminant (SVM) or latent mean at the thresholds"
    return [Picture("gpor-figure2.png", caption)]


def _draw_projection(model: SupportVectors, data: Split, ax: Any) -> None:
    """Contours of the discriminant function at its thresholds, and the training points."""
    from ordinalgp.plots import ContourDisplay
    from ordinalgp.plots.base import span

    x0, x1 = np.meshgrid(*(span(column, 100) for column in data.X_train.T))
    values = model.projection(np.column_stack([x0.ravel(), x1.ravel()])).reshape(x0.shape)
    cuts, levels = np.sort(model.machine_.thresholds_), np.array([1, 2, 3])
    names = ["feature 0", "feature 1"]
    display = ContourDisplay(x0, x1, values, cuts, levels, data.X_train, data.y_train - 1, names)
    display.plot(ax=ax)
