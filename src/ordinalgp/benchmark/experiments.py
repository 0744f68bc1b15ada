"""A command is one entry here: which cells it has, how one is computed, and how they are shown.

To add a table: write its page (a function from the experiment and its records to parts of a page),
put the paper's figures into ``published.json``, and add an :class:`Experiment` to ``EXPERIMENTS``.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from ordinalgp.benchmark import collaborative, genes, isbor, one_user, order, three_ranks
from ordinalgp.benchmark.models import MODELS, Model
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
    draw: Callable[[Path, Sequence[Record]], list[Part]] | None = None
    """draws pictures into a folder, from successful records"""
    other_models: tuple[str, ...] = tuple(MODELS)
    registry: Mapping[str, Model] = field(default_factory=lambda: MODELS)
    """where the names of models are looked up"""
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """what is trained on, by data set, where an experiment varies it"""
    largest: Mapping[str, int] = field(default_factory=dict)
    """models that are left out above a size, unless they are asked for by name"""

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
        return [
            Cell(dataset, bins, split, model, size)
            for dataset, bins in product(sets, self.bins)
            for size in self.sizes.get(dataset, (0,))
            for split, model in product(range(1, n + 1), names)
            if models is not None or size <= self.largest.get(model, size)
        ]


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
            models=(*_GPOR, "svm"),
            trials=20,
            results="gpor-figure2",
            compute=three_ranks.compute,
            page=three_ranks.page,
            draw=three_ranks.draw,
            other_models=(*_PLSOR, "ep-bound"),
        ),
        Experiment(
            "gpor-figure3",
            "Chu and Ghahramani (2005), Figure 3: one user's ratings from those of the others",
            datasets=one_user.DATASETS,
            bins=(0,),
            models=tuple(one_user.MODELS),
            trials=20,
            results="gpor-figure3",
            compute=one_user.compute,
            page=one_user.page,
            draw=one_user.draw,
            other_models=(),
            registry=one_user.MODELS,
            sizes=one_user.SIZES,
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
        Experiment(
            "order-table1",
            "Wang and McKenna (2010), Table 1: learning from comparisons",
            datasets=tuple(order.PAIRS),
            bins=(0,),
            models=tuple(order.PREFERENCES),
            trials=20,
            results="order",
            compute=order.compute,
            page=order.table_page,
            published=("order-table1",),
            other_models=(),
            registry=order.PREFERENCES,
            sizes=order.PAIRS,
        ),
        Experiment(
            "order-figure2",
            "Wang and McKenna (2010), Figure 2: error against the number of comparisons",
            datasets=tuple(order.CURVE),
            bins=(0,),
            models=("gpep2", "gpep2-own"),
            trials=20,
            results="order",
            compute=order.compute,
            page=order.curve_page,
            published=("order-figure2",),
            draw=order.draw,
            other_models=tuple(order.PREFERENCES),
            registry=order.PREFERENCES,
            sizes=order.CURVE,
        ),
        Experiment(
            "collaborative-table1",
            "Yu et al. (2006), Tables 1 and 2: raters who learn from each other",
            datasets=tuple(collaborative.SIZES),
            bins=(0,),
            models=tuple(collaborative.MODELS),
            trials=10,
            results="collaborative",
            compute=collaborative.compute,
            page=collaborative.page,
            published=("collaborative-table1",),
            draw=collaborative.draw,
            other_models=(),
            registry=collaborative.MODELS,
            sizes=collaborative.SIZES,
        ),
        Experiment(
            "isbor-table3",
            "Li and de Rijke (2018), Tables 3 and 5: sparse Bayesian ordinal regression",
            datasets=tuple(isbor.SIZES),
            bins=(0,),
            models=("isbor", "isbor-auto", "sbor", "ep"),
            trials=20,
            results="isbor-table3",
            compute=isbor.compute,
            page=isbor.table_page,
            published=("isbor-table3",),
            sizes=isbor.SIZES,
            largest=isbor.LARGEST,
        ),
        Experiment(
            "isbor-figure2",
            "Li and de Rijke (2018), Figure 2: error and time against the number of rows",
            datasets=tuple(isbor.GROWTH),
            bins=(0,),
            models=("isbor", "sbor", "skordinal-svor"),
            trials=30,
            results="isbor-figure2",
            compute=isbor.compute,
            page=isbor.growth_page,
            draw=isbor.draw,
            sizes=isbor.GROWTH,
            largest=isbor.LARGEST,
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
