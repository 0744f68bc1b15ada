"""Published figures that our models reach, paper by paper: ``python -m papers.closing``.

The page is made from the records alone. A figure is *beaten* if our mean, rounded as the paper
prints its own, is at or below it, and *reached* if it is at most one published standard deviation
above. Every figure that is not reached is listed with its cause, or with "not known".
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from papers.data import ROOT
from papers.isbor import SIZES
from papers.models import MODELS
from papers.order_relations import PAIRS, PREFERENCES
from papers.pages import Page, Table, entries, to_markdown
from papers.runner import DATASETS, Record, read_records, version_stamp
from papers.statistics import Figure, figure, published, select

_DECIDED = {"zero_one": "zero_one", "absolute": "absolute_median"}
_CHANCE = "chance: within two standard errors of the published mean"
_SINGLE_KERNEL = (
    "no hyperparameters of the paper's kernel give it; with a value per item it is within one sd "
    "([preferences](../preferences.md))"
)
_SWD = (
    "no model has it on random splits; the code of SVOR's authors has 45.5 "
    "([sparse models](../sparse.md))"
)
_NO_MARGIN = (
    "with the paper's costs no threshold has a margin, and every row gets the median level; the "
    "paper's scale of margins is not known ([sparse models](../sparse.md))"
)
# By paper, model (all if it is empty) and beginning of the place; the first that fits counts.
_CAUSES = {
    ("Wang and McKenna", "", ""): _SINGLE_KERNEL,
    ("Li and de Rijke", "ISVOR", ""): _NO_MARGIN,
    ("Li and de Rijke", "", "swd"): _SWD,
}
_NOT_KNOWN = "not known"


@dataclass(frozen=True)
class Cell:
    """One published figure and ours."""

    paper: str
    label: str
    where: str
    digits: int
    """of the published mean, in percent"""
    found: Figure

    @property
    def beaten(self) -> bool:
        """At or below the published mean."""
        assert self.found.published is not None
        return round(self.found.mean, self.digits) <= self.found.published[0]

    @property
    def reached(self) -> bool:
        """At most one published standard deviation above it."""
        return self.beaten or self.found.excess <= 1.0

    @property
    def cause(self) -> str:
        """Reason why it is not reached, as far as that is known."""
        if abs(self.found.standard_errors) < 2:
            return _CHANCE
        known = (
            cause
            for (paper, label, place), cause in _CAUSES.items()
            if (paper, label or self.label) == (self.paper, self.label)
            and self.where.startswith(place)
        )
        return next(known, _NOT_KNOWN)


def _records(folder: Path, name: str) -> list[Record]:
    return read_records(folder / f"{name}.jsonl")


def rating_cells(folder: Path) -> Iterator[Cell]:
    """Tables 2 and 3 of Chu and Ghahramani, and 3 and 4 of Srijith et al."""
    records = _records(folder, "gpor")
    for paper, tables, models, digits in (
        ("Chu and Ghahramani", ("gpor-table2", "gpor-table3"), ("svm", "map", "ep"), 2),
        ("Srijith et al.", ("plsor-table3", "plsor-table4"), ("plsor",), 0),
    ):
        for (table, bins), dataset, model in product(
            zip(tables, (5, 10), strict=True), DATASETS, models
        ):
            some = select(records, dataset=dataset, bins=bins, model=model)
            for error, measure in _DECIDED.items():
                pair = published(table)["figures"][dataset][error].get(model)
                # A machine without probabilities has one decision, whatever the error.
                ours = figure(some, measure, pair) or figure(some, error, pair)
                if pair is not None and ours is not None:
                    where = f"{dataset}, {bins} bins, {error.replace('_', '-')}"
                    kept = 2 if error == "zero_one" else digits
                    yield Cell(paper, MODELS[model].label, where, kept, ours)


def comparison_cells(folder: Path) -> Iterator[Cell]:
    """Table 1 of Wang and McKenna."""
    records = _records(folder, "order")
    for dataset, printed in published("order-table1")["figures"].items():
        for model, pair in printed.items():
            some = select(records, dataset=dataset, model=model, size=PAIRS[dataset][0])
            ours = figure(some, "zero_one", pair)
            if ours is not None:
                label = PREFERENCES[model].label
                yield Cell("Wang and McKenna", label, f"{dataset}, wrong order", 2, ours)


def sparse_cells(folder: Path) -> Iterator[Cell]:
    """Table 3 of Li and de Rijke."""
    records = _records(folder, "isbor")
    for dataset, printed in published("isbor-table3")["figures"]["absolute"].items():
        for model, pair in printed.items():
            name = "isvor-path" if model == "isvor" else model
            some = select(records, dataset=dataset, model=name, size=SIZES[dataset][0])
            ours = figure(some, "absolute_median", pair)
            if ours is not None:
                label = "GPOR" if model == "ep" else MODELS[name].label
                yield Cell("Li and de Rijke", label, f"{dataset}, absolute", 0, ours)


def all_cells(folder: Path) -> list[Cell]:
    """Every published figure that a record of ours stands beside."""
    return [*rating_cells(folder), *comparison_cells(folder), *sparse_cells(folder)]


def make_page(folder: Path) -> Page:
    """Counts per paper and model, and the figures that are missed."""
    cells = all_cells(folder)
    rows = []
    for paper, label in dict.fromkeys((c.paper, c.label) for c in cells):
        mine = [c for c in cells if (c.paper, c.label) == (paper, label)]
        trials = sorted({c.found.n for c in mine})
        n = str(trials[0]) if len(trials) == 1 else f"{trials[0]}–{trials[-1]}"
        counts = (len(mine), sum(c.beaten for c in mine), sum(c.reached for c in mine))
        rows.append(entries(paper, label, n, *map(str, counts)))
    total = [len(cells), sum(c.beaten for c in cells), sum(c.reached for c in cells)]
    rows.append(entries("all", "", "", *map(str, total)))
    header = ["paper", "model", "partitions", "figures", "beaten", "reached"]
    counted = Table("Figures of the papers' own models", header, rows, _NOTE)
    return Page("Published figures that we reach", [_made(), counted, _missed(cells)])


_NOTE = (
    "Beaten: our mean, rounded as the paper prints its own, is at or below the published one. "
    "Reached: at most one published standard deviation above. Absolute errors are of the median "
    "level. The papers of Yu et al. used EachMovie, which was withdrawn, so that none of their "
    "figures can be compared: [their tables](collaborative-table1.md) have the same shape on "
    "MovieLens. Figures of models that were not run at the paper's size are not counted."
)


def _missed(cells: list[Cell]) -> Table:
    rows = []
    for c in cells:
        if not c.reached:
            assert c.found.published is not None
            theirs = f"{c.found.published[0]:.2f}±{c.found.published[1]:.2f}"
            shown = f"{c.found.mean:.2f}±{c.found.sd:.2f}", theirs, f"{c.found.excess:+.1f}"
            rows.append(entries(c.paper, c.label, c.where, *shown, c.cause))
    header = ["paper", "model", "figure", "ours, %", "published, %", "excess, sd", "cause"]
    return Table("Figures that are not reached", header, rows)


def _made() -> str:
    commit = version_stamp().get("commit", "an installed package")
    return (
        f"Made by `python -m papers.closing` (page by {commit}) from the records in "
        "`papers/results`, which name the commits of their fits."
    )


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=Path, default=ROOT / "papers" / "results")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results")
    given = parser.parse_args()
    text = to_markdown(make_page(given.records))
    (given.output / "closing.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    _main()
