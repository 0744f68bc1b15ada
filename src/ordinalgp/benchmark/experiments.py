"""A command is one entry here: which cells it has, how one is computed, and how they are shown.

To add a table: write its page (a function from the experiment and its records to parts of a page),
put the paper's figures into ``published.json``, and add an :class:`Experiment` to ``EXPERIMENTS``.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from ordinalgp.benchmark import genes, three_ranks
from ordinalgp.benchmark.models import MODELS
from ordinalgp.benchmark.peers import PEERS, peers_page
from ordinalgp.benchmark.protocol import DATASETS, Cell
from ordinalgp.benchmark.report import Part
from ordinalgp.benchmark.scoring import Record, fit_and_score
from ordinalgp.benchmark.tables import errors_page, ranks_page

Compute = Callable[[Cell, str | os.PathLike[str] | None], Record]


@dataclass(frozen=True)
class Experiment:
    """One command: a grid of cells, what computes one, and what shows them."""

    name: str
    title: str
    datasets: tuple[str, ...]
    bins: tuple[int, ...]
    models: tuple[str, ...]
    """the models of the command; others can be asked for by name"""
    trials: int
    """how many partitions make it complete"""
    results: str
    """name of the results file; commands that share cells share it"""
    compute: Compute
    page: Callable[[Sequence[Record], "Experiment"], list[Part]]
    published: tuple[str, ...] = ()
    """tables of ``published.json`` beside which ours are shown"""
    draw: Callable[[Path], list[Part]] | None = None
    """draws pictures into a folder"""
    other_models: tuple[str, ...] = tuple(MODELS)

    def cells(
        self,
        *,
        trials: int | None = None,
        models: Sequence[str] | None = None,
        datasets: Sequence[str] | None = None,
    ) -> list[Cell]:
        """All fits of the command, or those of some data sets, models and first partitions."""
        n = self.trials if trials is None else trials
        if n < 1:
            raise ValueError(f"The number of trials must be at least 1, but is {n}.")
        sets = _chosen("data set", datasets, self.datasets)
        names = _chosen("model", models, self.models, self.other_models)
        return [Cell(*c) for c in product(sets, self.bins, range(1, n + 1), names)]


def _chosen(
    what: str, given: Sequence[str] | None, default: Sequence[str], others: Sequence[str] = ()
) -> Sequence[str]:
    """What was given, in the order of the default; what is unknown is named."""
    if given is None:
        return default
    known = list(dict.fromkeys([*default, *others]))
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ValueError(f"There is no {what} {unknown} here. Choose from: {', '.join(known)}.")
    return [name for name in known if name in given]


def find_experiment(name: str) -> Experiment:
    """Look up a command by its name."""
    if name not in EXPERIMENTS:
        raise ValueError(f"There is no benchmark {name!r}. Choose from: {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]


def _ordinal(name: str, title: str, **options: Any) -> Experiment:
    """A table of errors on the nine sets of Chu and Ghahramani, on their partitions."""
    defaults: dict[str, Any] = {
        "datasets": DATASETS,
        "trials": 20,
        "results": "gpor",
        "compute": fit_and_score,
        "page": errors_page,
        "published": (name,),
    }
    return Experiment(name, title, **defaults | options)


_GPOR, _PLSOR = ("map", "ep"), ("map", "ep", "plsor")
EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        _ordinal(
            "gpor-table2",
            "Chu and Ghahramani (2005), Table 2: nine data sets in 5 bins",
            bins=(5,),
            models=_GPOR,
        ),
        _ordinal(
            "gpor-table3",
            "Chu and Ghahramani (2005), Table 3: nine data sets in 10 bins",
            bins=(10,),
            models=_GPOR,
        ),
        Experiment(
            "gpor-figure2",
            "Chu and Ghahramani (2005), Figure 2: three ranks in the plane",
            datasets=tuple(three_ranks.NOISE),
            bins=(3,),
            models=_GPOR,
            trials=20,
            results="gpor-figure2",
            compute=three_ranks.compute,
            page=three_ranks.page,
            draw=three_ranks.draw,
            other_models=(*_PLSOR, "ep-bound"),
        ),
        Experiment(
            "gpor-genes",
            "Chu and Ghahramani (2005), section 6.4: genes eliminated by their relevance",
            datasets=genes.DATASETS,
            bins=(0,),
            models=_GPOR,
            trials=20,
            results="gpor-genes",
            compute=genes.compute,
            page=genes.page,
            other_models=(),
        ),
        _ordinal(
            "plsor-table3",
            "Srijith et al. (2012), Table 3: nine data sets in 5 bins",
            bins=(5,),
            models=_PLSOR,
        ),
        _ordinal(
            "plsor-table4",
            "Srijith et al. (2012), Table 4: nine data sets in 10 bins",
            bins=(10,),
            models=_PLSOR,
        ),
        _ordinal(
            "plsor-table5",
            "Srijith et al. (2012), Table 5: average ranks and Friedman's test",
            bins=(5, 10),
            models=_PLSOR,
            page=ranks_page,
        ),
        _ordinal(
            "peers",
            "Our models beside other libraries",
            bins=(5,),
            models=PEERS,
            trials=20,
            results="peers",
            page=peers_page,
            published=(),
        ),
    )
}
