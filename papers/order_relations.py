"""Wang and McKenna (2010): Table 1, Figure 2, and what was measured beside them.

All items are standardised together and pairs with equal targets are left out. Two errors are kept:
on pairs that were not trained on, and on pairs drawn from all, as the paper seems to have done for
its table (it says of its Figure 2 only that training pairs were excluded).

Beside the paper: its pairs drawn in another way (``order-readings``), other kernels
(``order-kernels``), pairs asked for instead of drawn (``order-active``, ``order-remoteness``),
and real comparisons (``order-real``).
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
)
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import StandardScaler

from ordinalgp import PreferenceGP
from ordinalgp.datasets import make_sine_comparisons
from ordinalgp.kernels import Additive, Independent
from ordinalgp.model_selection import ComparisonClassifier, ComparisonKFold
from papers.data import FloatArray, Home, IntArray, data_folder, fetch_benchmark, standardise
from papers.models import Build, Model
from papers.pages import (
    Panel,
    Part,
    Table,
    beside_published,
    best_of,
    draw_curves,
    entries,
    mean_sd,
)
from papers.runner import Cell, Experiment, Record, fit_quietly
from papers.statistics import figure, present, published, select, sizes_of

PAIRS = {
    "pyrimidines": (100,),
    "triazines": (300,),
    "machine_cpu": (500,),
    "boston_housing": (700,),
}
CURVE = {"boston_housing": tuple(range(100, 1001, 100))}
_TESTS = 20_000
LITTLE = 0.1  # noise of a comparison beside that of its items, which is one
_SCALE, _LENGTH = (1e-4, 1e6), (1e-2, 1e4)


# ---------------------------------------------------------------------------------- models


def _preference(
    inference: str,
    *,
    gamma: float,
    ard: bool = False,
    own: bool = False,
    items: bool = False,
    sums: bool = False,
) -> Build:
    """The kernel of section 3, gamma exp(-d^2 / 2 l^2) for noise 1, from the paper's start.

    ``ard`` has a length scale for each input; ``items`` gives the noise to the items, the same in
    every comparison, instead of to the comparisons, and so has the paper's two hyperparameters;
    ``own`` has noise in both, that of the items to be learned, and starts where ``items`` does:
    from a small variance of the items its search often ends at a lower maximum; ``sums`` adds
    functions of one input each.
    """

    def build(seed: int, n_inputs: int) -> Any:
        start = np.sqrt(n_inputs)
        length = np.full(n_inputs, start) if ard else start
        unit = LITTLE**-2 if own else 1.0  # in which the noise of comparisons is one
        kernel = ConstantKernel(gamma * unit, _SCALE) * RBF(length, _LENGTH)
        if own:
            kernel += ConstantKernel(unit, _SCALE) * Independent()
        if items:
            kernel += Independent()
        if sums:
            kernel += ConstantKernel(gamma * unit, _SCALE) * Additive(1.0, _LENGTH)
        return PreferenceGP(kernel, noise=LITTLE if items else 1.0, inference=inference)

    return build


@dataclass
class BoTorch:
    """PairwiseGP of BoTorch, hyperparameters by its own fit."""

    kernel: str | None = None
    """a kernel of gpytorch with a free amplitude and no priors; its own by default"""
    start: bool = False
    """begin at gamma = e and squared length scale d, as the paper does"""
    ard: bool = False
    cube: bool = False
    """scale the inputs to the unit cube"""

    def fit(self, X: FloatArray, pairs: IntArray) -> "BoTorch":
        """Fit to pairs, winner first."""
        torch = importlib.import_module("torch")
        models = importlib.import_module("botorch.models.pairwise_gp")
        torch.set_num_threads(1)
        self._low = X.min(axis=0) if self.cube else 0.0
        self._span = np.where(np.ptp(X, axis=0) > 0, np.ptp(X, axis=0), 1.0) if self.cube else 1.0
        data = self._inputs(X), torch.tensor(pairs.copy())
        self._model = models.PairwiseGP(*data, covar_module=self._kernel(X.shape[1]))
        objective = models.PairwiseLaplaceMarginalLogLikelihood
        fit = importlib.import_module("botorch.fit").fit_gpytorch_mll
        fit(objective(self._model.likelihood, self._model))
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Posterior mean."""
        with importlib.import_module("torch").no_grad():
            mean: FloatArray = self._model.posterior(self._inputs(X)).mean.squeeze(-1).numpy()
        return mean

    def _inputs(self, X: FloatArray) -> Any:
        torch = importlib.import_module("torch")
        return torch.tensor((X - self._low) / self._span, dtype=torch.double)

    def _kernel(self, d: int) -> Any:
        if self.kernel is None:
            return None
        kernels = importlib.import_module("gpytorch.kernels")
        base = getattr(kernels, self.kernel)(ard_num_dims=d if self.ard else None)
        kernel = kernels.ScaleKernel(base)
        if self.start:
            kernel.outputscale, kernel.base_kernel.lengthscale = np.e, np.sqrt(d)
        return kernel


def _botorch(label: str, *given: Any, **options: Any) -> Model:
    return Model(f"BoTorch, {label}", lambda *_: BoTorch(*given, **options), "botorch")


# log gamma is 0 at the start, or 1 where the name has a 2. BoTorch needs an environment of its own.
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
    "default": Model("PreferenceGP()", lambda *_: PreferenceGP()),
}
_OURS = tuple(PREFERENCES)
PREFERENCES |= {
    "botorch": _botorch("defaults"),
    "botorch-paper": _botorch("kernel of the paper", "RBFKernel", start=True),
    "botorch-cube": _botorch("unit cube, defaults", cube=True),
    "botorch-rbf": _botorch("kernel of the paper, its own start", "RBFKernel"),
    "botorch-cube-rbf": _botorch("unit cube, kernel of the paper", "RBFKernel", cube=True),
    "botorch-ard": _botorch("length scales without a prior", "RBFKernel", start=True, ard=True),
    "botorch-cube-ard": _botorch(
        "unit cube, length scales without a prior", "RBFKernel", ard=True, cube=True
    ),
    "botorch-matern": _botorch("Matern 5/2", "MaternKernel"),
}


# ---------------------------------------------------------------------- Table 1 and Figure 2


def load_items(name: str, data_home: Home = None) -> tuple[FloatArray, FloatArray]:
    """Standardised items and their targets."""
    data = fetch_benchmark(name, data_home)
    X, _ = standardise(data.features(), np.ones(len(data.target), dtype=np.bool_))
    return X, data.target


def draw_pairs(y: FloatArray, m: int, seed: int) -> tuple[IntArray, IntArray]:
    """Random pairs with different targets, winner first: ``m`` to train on, others to test."""
    left, right = np.triu_indices(len(y), 1)
    pairs = np.column_stack([left, right])[y[left] != y[right]]
    pairs = np.random.default_rng(seed).permutation(pairs)[: m + _TESTS]
    pairs = _winner_first(y, pairs)
    return pairs[:m], pairs[m:]


def _winner_first(y: FloatArray, pairs: IntArray) -> IntArray:
    return np.where((y[pairs[:, 0]] > y[pairs[:, 1]])[:, None], pairs, pairs[:, ::-1])


def wrong_order(utility: FloatArray, pairs: IntArray) -> float:
    """Share of pairs, winner first, in the wrong order; equal utilities count half."""
    difference = utility[pairs[:, 0]] - utility[pairs[:, 1]]
    return float(np.mean(difference < 0) + np.mean(difference == 0) / 2)


def overall_error(utility: FloatArray, train: IntArray, test: IntArray) -> float:
    """Error on pairs drawn from all: those trained on count by their share."""
    share = len(train) / (len(utility) * (len(utility) - 1) / 2)
    return (1 - share) * wrong_order(utility, test) + share * wrong_order(utility, train)


def _fit(cell: Cell, X: FloatArray, pairs: IntArray) -> tuple[Any, Record]:
    """A fitted model, and what it says about its fit."""
    model = PREFERENCES[cell.model].build(cell.seed, X.shape[1])
    facts: Record = {"fit_seconds": round(fit_quietly(model, X, pairs), 4)}
    if hasattr(model, "log_marginal_likelihood_value_"):
        facts |= {
            "evidence": float(model.log_marginal_likelihood_value_),
            "noise": float(model.noise_),
            "kernel": str(model.kernel_),
            "converged": bool(model.converged_),
            "n_evaluations": len(model.evidence_path_),
        }
    return model, facts


def winning(model: PreferenceGP, X: FloatArray, pairs: IntArray) -> FloatArray:
    """Probability that the first of each pair is preferred."""
    return model.comparison_proba(X[pairs[:, 0]], X[pairs[:, 1]])


def compute(cell: Cell, data_home: Home = None) -> Record:
    """Fit ``cell.size`` random pairs and order the others."""
    X, y = load_items(cell.dataset, data_home)
    train, test = draw_pairs(y, cell.size, cell.split)
    model, facts = _fit(cell, X, train)
    if hasattr(model, "comparison_proba"):
        proba = np.maximum(winning(model, X, test), 1e-300)
        facts["log_score"] = float(-np.mean(np.log(proba)))
    u = model.predict(X)
    errors = {"zero_one": wrong_order(u, test), "zero_one_all": overall_error(u, train, test)}
    return errors | facts


def table_page(records: Sequence[Record], experiment: Experiment) -> list[Part]:
    """Error on other and on all pairs beside the paper's, one row for each set and model."""
    source = published("order-table1")
    rows = []
    for dataset in present(experiment.datasets, records, "dataset"):
        found = select(records, dataset=dataset)
        models = present(PREFERENCES, found, "model")
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


def curve_page(records: Sequence[Record], experiment: Experiment) -> list[Part]:
    """Error against the number of pairs."""
    source = published("order-figure2")
    models = present(PREFERENCES, records, "model")
    rows = []
    for size in sizes_of(records):
        row = entries(str(size))
        for model in models:
            found = select(records, size=size, model=model)
            theirs = source["figures"].get(str(size), {}).get(model)
            row += entries(str(len(found))) + beside_published(figure(found, "zero_one", theirs))
        rows.append(row)
    labels = [PREFERENCES[m].label for m in models]
    columns = [x for name in labels for x in ("n", f"{name} %", "published", "diff/se")]
    note = (
        "Share of the pairs not trained on in the wrong order. The paper draws this curve and "
        f"prints its end alone. Published: {source['source']}."
    )
    return [Table("Boston: error against the number of pairs", ["pairs", *columns], rows, note)]


def draw(folder: Path, records: Sequence[Record]) -> list[Part]:
    """Draw Figure 2."""
    panel = Panel("zero_one", "pairs not trained on, wrong %", 100.0)
    caption = "Boston: error against the number of comparisons"
    return draw_curves(
        folder / "order-figure2.png", caption, records, PREFERENCES, [panel], x="comparisons"
    )


# ------------------------------------------------------- Table 1 with pairs drawn otherwise


def draw_with_replacement(y: FloatArray, m: int, seed: int) -> tuple[IntArray, IntArray]:
    """Pairs of two random items to train on, winner first, and as drawn to test.

    The paper says of its sine that each label comes from two random samples of the items. Read so,
    an item may meet itself and a pair may come again, in training and in testing. As in the paper
    the second wins unless the first is better. An item beside itself says nothing and is left out
    of training, so a few fewer than ``m`` remain.
    """
    rng = np.random.default_rng(seed)
    train, test = rng.integers(len(y), size=(m, 2)), rng.integers(len(y), size=(_TESTS, 2))
    train = _winner_first(y, train)
    return train[train[:, 0] != train[:, 1]], test


def disagreement(utility: FloatArray, y: FloatArray, pairs: IntArray) -> float:
    """Share of pairs for which "the first is better" is true of one only.

    An item beside itself is always right, and equal targets are when the first is not better.
    """
    said, true = (v[pairs[:, 0]] > v[pairs[:, 1]] for v in (utility, y))
    return float(np.mean(said != true))


def compute_reading(cell: Cell, data_home: Home = None) -> Record:
    """Error of one repetition, and the number of pairs trained on."""
    X, y = load_items(cell.dataset, data_home)
    train, test = draw_with_replacement(y, cell.size, cell.split)
    model, facts = _fit(cell, X, train)
    return {"zero_one": disagreement(model.predict(X), y, test), "trained": len(train)} | facts


def chance_below(errors: FloatArray, limit: float, size: int = 20, draws: int = 100_000) -> float:
    """Share of random groups of ``size`` repetitions whose mean is at or below ``limit``."""
    rng = np.random.default_rng(0)
    means = np.concatenate([rng.choice(errors, (1000, size)).mean(1) for _ in range(draws // 1000)])
    return float(np.mean(means <= limit))


def readings_page(records: Sequence[Record], experiment: Experiment) -> list[Part]:
    """The table's 20 repetitions, and all of them with the chances that 20 come out as low."""
    rows = []
    for dataset, model in product(experiment.datasets, experiment.registry):
        found = select(records, dataset=dataset, model=model)
        if not found:
            continue
        first = 100 * np.array([r["zero_one"] for r in found if r["split"] <= 20])
        every = 100 * np.array([r["zero_one"] for r in found])
        theirs, sd = published("order-table1")["figures"][dataset]["gpep2"]
        elsewhere = published("order-botorch")["figures"][dataset]
        row = [dataset, PREFERENCES[model].label, str(len(first))]
        row += [f"{first.mean():.2f}±{first.std():.2f}" if len(first) else "–"]
        row += [f"{theirs:.2f}±{sd:.2f}", str(len(every)), f"{every.mean():.2f}"]
        error = np.hypot(sd, every.std()) / np.sqrt(20)
        chances = (f"{chance_below(every, x):.2%}" for x in (theirs, elsewhere))
        more = [f"{(every.mean() - theirs) / error:+.1f}", *chances]
        seconds = figure(found, "fit_seconds")
        row += more if len(every) > 20 else ["–"] * 3
        rows.append(entries(*row, "–" if seconds is None else f"{seconds.mean:.2f}"))
    header = ["data", "model", "n", "error %", "published", "all", "error %", "diff/se"]
    header += ["20 as published", "20 as BoTorch's", "fit, CPU s"]
    note = (
        "Pairs are drawn with replacement. The last shares say how often 20 of the repetitions "
        "have a mean at or below that published for GPEP2, or that of BoTorch measured elsewhere."
    )
    return [Table("Errors on pairs drawn with replacement", header, rows, note)]


# ---------------------------------------------------------------------------- other kernels


def _gaussian(d: int) -> Any:
    return ConstantKernel(np.e, _SCALE) * RBF(np.sqrt(d), _LENGTH)


def _own(d: int) -> Any:
    return ConstantKernel(0.1, _SCALE) * Independent()


def _linear(d: int) -> Any:
    return ConstantKernel(1 / d, (1e-8, 1e4)) * DotProduct(0.0, "fixed")


def _matern(d: int) -> Any:
    return ConstantKernel(np.e, _SCALE) * Matern(np.sqrt(d), _LENGTH, nu=2.5)


def _quadratic(d: int) -> Any:
    return ConstantKernel(np.e, _SCALE) * RationalQuadratic(np.sqrt(d), 1.0, _LENGTH, _LENGTH)


def _additive(d: int) -> Any:
    return ConstantKernel(np.e, _SCALE) * Additive(1.0, _LENGTH)


def _groups(d: int) -> Any:
    """A sum over the places of a molecule where something is attached, 9 or 10 features each."""
    size = {27: 9, 60: 10}[d]
    return ConstantKernel(np.e, _SCALE) * Additive(np.sqrt(size), _LENGTH, size)


_TERMS: dict[str, Callable[[int], Any]] = {
    "rbf": _gaussian,
    "own": _own,
    "lin": _linear,
    "mat52": _matern,
    "rq": _quadratic,
    "add": _additive,
    "groups": _groups,
    "items": lambda d: _gaussian(d) + Independent(),
}
KERNELS = {
    "usual": ("rbf", "rbf+own", "rbf+lin", "rbf+lin+own", "mat52", "mat52+own", "rq"),
    "gaussian": ("rbf", "rbf+own"),
    "rough": ("rbf", "rbf+own", "mat52+own"),
    "sums": (
        *("rbf", "rbf+own", "add+own", "add+rbf", "add+rbf+own"),
        *("groups+own", "groups+rbf+own"),
    ),
    "groups": ("rbf", "rbf+own", "add+own", "add+rbf", "groups+own", "groups+rbf+own"),
    "additive": ("rbf+own", "add+own", "add+rbf+own"),
    "items": ("items", "items+add", "rbf+own"),
}
"""kernels that are compared on the same pairs; "items" have noise of their own, which is one,
instead of that of comparisons"""
_EVERY_KERNEL = tuple(dict.fromkeys(kernel for each in KERNELS.values() for kernel in each))


def kernel_of(name: str, d: int) -> Any:
    """Add up the terms of a name such as "rbf+own"."""
    first, *others = (_TERMS[term](d) for term in name.split("+"))
    return sum(others, first)


def _kernel_noise(name: str) -> float:
    return LITTLE if name.startswith("items") else 1.0


def probability_scores(p: FloatArray) -> dict[str, float]:
    """Error and log score of probabilities of what happened."""
    error = np.mean(p < 0.5) + np.mean(p == 0.5) / 2
    return {"zero_one": float(error), "log_score": float(-np.mean(np.log(p)))}


def _averaged(evidence: Sequence[float], proba: Sequence[FloatArray]) -> dict[str, float]:
    """Scores of the average of predictions in proportion to their evidences."""
    share = np.exp(np.array(evidence) - np.max(evidence))
    return probability_scores(share / share.sum() @ np.array(proba))


def compute_kernels(cell: Cell, data_home: Home = None) -> Record:
    """Every kernel of a set on the same pairs, the one of the largest evidence, their average."""
    X, y = load_items(cell.dataset, data_home)
    train, test = draw_pairs(y, cell.size, cell.split)
    if cell.model == "grid":
        return _over_hyperparameters(X, train, test)
    found, proba = {}, []
    for kernel in KERNELS[cell.model]:
        model = PreferenceGP(kernel_of(kernel, X.shape[1]), noise=_kernel_noise(kernel))
        fit_quietly(model, X, train)
        u = model.predict(X)
        proba.append(winning(model, X, test))
        found[kernel] = probability_scores(proba[-1]) | {
            "evidence": float(model.log_marginal_likelihood_value_),
            "zero_one": wrong_order(u, test),
            "zero_one_all": overall_error(u, train, test),
        }
    evidence = [found[kernel]["evidence"] for kernel in found]
    best = list(found)[int(np.argmax(evidence))]
    return {"kernels": found, "best": best, "average": _averaged(evidence, proba)}


def _over_hyperparameters(X: FloatArray, train: IntArray, test: IntArray) -> Record:
    """Average over a grid of hyperparameters by their evidence, and the best by the test pairs."""
    d = X.shape[1]
    model = PreferenceGP(kernel_of("rbf+own", d), noise=1.0)
    fit_quietly(model, X, train)
    lengths = np.log(d) / 2 + np.linspace(-1.5, 2.0, 7)
    evidence, proba = [], []
    for theta in product(np.linspace(-1, 9, 7), lengths, np.linspace(-5, 6, 6)):
        kernel = model.kernel_.clone_with_theta(np.array(theta))
        given = PreferenceGP(kernel, noise=1.0, optimizer=None).fit(X, train)
        evidence.append(float(given.log_marginal_likelihood_value_))
        proba.append(winning(given, X, test))
    return {
        "maximum": probability_scores(winning(model, X, test)),
        "average": _averaged(evidence, proba),
        "best_by_test": float(np.mean(np.array(proba) < 0.5, axis=1).min()),
    }


def kernels_page(records: Sequence[Record], experiment: Experiment) -> list[Part]:
    """Means of every kernel, and what choosing or averaging among a set of them gives."""
    rows, chosen = [], []
    for dataset in present(experiment.datasets, records, "dataset"):
        found = select(records, dataset=dataset)
        for kernel in _EVERY_KERNEL:  # the last counts where a repetition has a kernel twice
            each = {
                r["split"]: r["kernels"][kernel] for r in found if kernel in r.get("kernels", ())
            }
            keys = ("zero_one", "zero_one_all", "log_score", "evidence")
            means = [f"{np.mean([f[k] for f in each.values()]):.4f}" for k in keys if each]
            rows += [entries(dataset, kernel, str(len(each)), *means)] * bool(each)
        for name in present(KERNELS, found, "model"):
            several = select(found, model=name)
            best = np.mean([r["kernels"][r["best"]]["zero_one"] for r in several])
            average = np.mean([r["average"]["zero_one"] for r in several])
            texts = (str(len(several)), f"{best:.4f}", f"{average:.4f}", "–")
            chosen.append(entries(dataset, name, *texts))
        grid = select(found, model="grid")
        if grid:
            top, mean = (np.mean([r[k]["zero_one"] for r in grid]) for k in ("maximum", "average"))
            least = np.mean([r["best_by_test"] for r in grid])
            figures = (f"{x:.4f}" for x in (top, mean, least))
            chosen.append(entries(dataset, "grid of hyperparameters", str(len(grid)), *figures))
    header = ["data", "kernel", "n", "other pairs", "all pairs", "log score", "log evidence"]
    second = ["data", "kernels", "n", "largest evidence", "average by evidence", "best by the test"]
    return [
        Table("Errors of kernels", header, rows),
        Table("Errors of choosing among kernels", second, chosen),
    ]


# -------------------------------------------------------- pairs asked for instead of drawn


@dataclass(frozen=True)
class Plan:
    """Questions about a problem: ``first`` random pairs, then batches up to ``last`` pairs."""

    first: int
    last: dict[str, int]
    """by choice and at random"""
    batch: Callable[[str, int], int]
    """pairs asked for next, by strategy, when there are n"""
    levels: tuple[int, ...]
    """numbers of random pairs at which choice is compared"""


def _growing(strategy: str, n: int) -> int:
    """A tenth or a quarter of what there is; random pairs need only points of a curve."""
    return {
        "information": min(max(n // 10, 5), 20),
        "prediction": min(max(n // 4, 5), 40),
        "random": min(max(n // 2, 10), 60),
    }[strategy]


PLANS = {
    "sine": Plan(
        6,
        {"choice": 36, "random": 60},
        lambda strategy, n: 6 if strategy == "random" else 3,
        (27, 38, 49, 60),
    ),
    "boston": Plan(
        10,
        {"choice": 360, "random": 700},
        _growing,
        (60, 80, 100, 150, 200, 250, 300, 400, 500, 600, 700),
    ),
}
STRATEGIES = ("information", "prediction")
# The kernel of the paper; the estimator's own, with values of the items' own; the same from another
# start; one that is never as smooth as a linear utility, nor without anything common.
_ASKING: dict[str, Callable[[int], Any]] = {
    "features": lambda d: "features",
    "default": lambda d: None,
    "own": lambda d: (
        RBF(np.sqrt(d), (1e-3, 1e5)) + ConstantKernel(0.1, (1e-4, 1e4)) * Independent()
    ),
    "bounded": lambda d: RBF(np.sqrt(d), (np.sqrt(d) / 10, 3 * np.sqrt(d))),
}


def _asking(kernel: str) -> Build:
    return lambda seed, d: PreferenceGP(_ASKING[kernel](d), random_state=seed)


ASKED = {
    f"{kernel}-{strategy}": Model(f"{kernel}, {strategy}", _asking(kernel))
    for kernel, strategy in product(_ASKING, (*STRATEGIES, "random"))
}


def compute_active(cell: Cell, data_home: Home = None) -> Record:
    """Number of comparisons and error after each batch; pairs with equal targets are not asked."""
    seed, plan, strategy = cell.split, PLANS[cell.dataset], cell.model.partition("-")[2]
    if cell.dataset == "boston":
        X, y = load_items("boston_housing", data_home)
    else:
        X, _ = make_sine_comparisons(1, random_state=seed)
        y = np.sin(X[:, 0])
    last = plan.last["random" if strategy == "random" else "choice"]
    pairs, _ = draw_pairs(y, plan.first, seed)
    _, test = draw_pairs(y, 0, seed + 10_000)
    left, right = np.triu_indices(len(y), 1)
    tied = np.column_stack([left, right])[y[left] == y[right]]
    path: list[tuple[int, float]] = []
    while True:
        model = ASKED[cell.model].build(seed + len(pairs), X.shape[1])
        fit_quietly(model, X, pairs)
        path.append((len(pairs), wrong_order(model.predict(X), test)))
        if len(pairs) >= last:
            return {"path": path}
        batch = min(plan.batch(strategy, len(pairs)), last - len(pairs))
        known = np.vstack([pairs, tied])
        new = model.suggest_pairs(X, batch, strategy=strategy, exclude=known)
        pairs = np.vstack([pairs, _winner_first(y, new)])


def asking_curve(
    records: Sequence[Record], dataset: str, model: str
) -> tuple[FloatArray, FloatArray, int] | None:
    """Sizes, mean error over repetitions at each, and the number of repetitions."""
    paths = [r["path"] for r in select(records, dataset=dataset, model=model)]
    if not paths:
        return None
    grid = np.arange(PLANS[dataset].first, min(path[-1][0] for path in paths) + 1)
    each = [np.interp(grid, *np.transpose(path)) for path in paths]
    return grid.astype(float), np.mean(each, axis=0), len(paths)


def savings(
    records: Sequence[Record], dataset: str, strategy: str, kernel: str = "features"
) -> list[tuple[float, int, float, float]]:
    """Error, comparisons at random, and the shares of them that choice needs.

    The shares are where the mean curve of choice first comes down to the error, and from where on
    it stays there; NaN where the curve ends before.
    """
    found = [asking_curve(records, dataset, f"{kernel}-{way}") for way in (strategy, "random")]
    if None in found:
        return []
    (grid, chosen, _), (sizes, random, _) = (f for f in found if f is not None)
    rows = []
    for size in PLANS[dataset].levels:
        target = random[sizes == size][0]
        above = np.append(chosen > target, False)
        first, last = np.flatnonzero(~above)[0], np.flatnonzero(np.append(True, above[:-1]))[-1]
        steps = np.append(grid, np.nan)
        rows.append((float(target), size, steps[first] / size, steps[last] / size))
    return rows


def active_page(records: Sequence[Record], experiment: Experiment) -> list[Part]:
    """One row for each number of random pairs, two shares for each strategy."""
    rows = []
    for dataset, kernel in product(PLANS, _ASKING):
        each = [savings(records, dataset, strategy, kernel) for strategy in STRATEGIES]
        last = PLANS[dataset].last["choice"]
        for place, size in enumerate(PLANS[dataset].levels if any(each) else ()):
            error = next(found[place][0] for found in each if found)
            shares = [_share(found, place, last / size) for found in each]
            texts = (f"{100 * error:.1f}", str(size), *(text for pair in shares for text in pair))
            rows.append(entries(dataset, kernel, *texts))
    names = [f"{s}, {when}" for s in STRATEGIES for when in ("first", "from then on")]
    note = (
        "An error that random pairs reach, their number, and the shares of it that chosen pairs "
        "need to come down to it first, and to stay there."
    )
    header = ["data", "kernel", "error %", "random pairs", *names]
    return [Table("Comparisons saved by asking", header, rows, note)]


def _share(found: Sequence[tuple[float, int, float, float]], place: int, most: float) -> list[str]:
    """Both shares of one number of pairs; dashes for a strategy that was not run."""
    if not found:
        return ["–", "–"]
    return [f"above {most:.0%}" if np.isnan(s) else f"{s:.0%}" for s in found[place][2:]]


def compute_remoteness(cell: Cell, data_home: Home = None) -> Record:
    """Mean distance from the centre of the items that Boston is asked about after some pairs."""
    X, y = load_items("boston_housing", data_home)
    radius = np.linalg.norm(X, axis=1)
    pairs, _ = draw_pairs(y, cell.size, cell.split)
    model = PreferenceGP(_ASKING["bounded"](X.shape[1]))
    fit_quietly(model, X, pairs)
    new = model.suggest_pairs(X, 10, strategy=cell.model, exclude=pairs)
    return {"radius": float(radius[new].mean()), "radius_of_all": float(radius.mean())}


def remoteness_page(records: Sequence[Record], experiment: Experiment) -> list[Part]:
    """Mean distance of the items asked about from the centre, beside that of all."""
    rows = []
    for model in present(experiment.registry, records, "model"):
        found = select(records, model=model)
        means = (np.mean([r[key] for r in found]) for key in ("radius", "radius_of_all"))
        rows.append(entries(model, str(len(found)), *(f"{mean:.3f}" for mean in means)))
    return [Table("Distance from the centre", ["strategy", "n", "asked about", "all items"], rows)]


# ---------------------------------------------------------------------------- real comparisons

Folds = list[tuple[IntArray, IntArray]]


@dataclass(frozen=True)
class Problem:
    """Real comparisons, the items and models for them, and which are held out together."""

    models: dict[str, tuple[PreferenceGP, Any]]
    """a model and its items, by label"""
    pairs: IntArray
    target: FloatArray
    folds: Folds


def _table(name: str, data_home: Home) -> Any:
    import pandas as pd

    return pd.read_csv(data_folder(data_home) / name)


def _folds(pairs: IntArray, n: int = 5, **options: Any) -> Folds:
    return list(ComparisonKFold(n, random_state=0, **options).split(pairs))


def _codes(games: Any, columns: Sequence[str], names: Any) -> IntArray:
    """Places of the items of some columns among ``names``."""
    place = {name: place for place, name in enumerate(names)}
    return np.column_stack([[place[name] for name in games[column]] for column in columns])


def chameleons(data_home: Home, held_out: str = "pairs") -> Problem:
    """35 chameleons with 7 features, 106 contests; features can also predict new animals."""
    items = _table("chameleons_items.csv", data_home)
    games = _table("chameleons_pairs.csv", data_home)
    X = StandardScaler().fit_transform(items.drop(columns="item"))
    pairs = _codes(games, ("item_a", "item_b"), items["item"])
    own = ConstantKernel(0.1, (1e-4, 1e4)) * Independent()
    models = {
        "featureless": (PreferenceGP("independent"), len(X)),
        "features": (PreferenceGP("features"), X),
        "features and own": (PreferenceGP(RBF(np.sqrt(7)) + own), X),
        "default": (PreferenceGP(), X),
    }
    folds = _folds(pairs, 10) if held_out == "pairs" else _folds(pairs, 7, hold_out="items")
    return Problem(models, pairs, games["target"].to_numpy(), folds)


def cems(data_home: Home) -> Problem:
    """6 schools and 303 students: an item is a school as seen by students of one profile."""
    users = _table("cems_users.csv", data_home)
    games = _table("cems_pairs.csv", data_home).merge(users, on="user")
    schools = np.unique(games[["item_a", "item_b"]])
    profile = ["stud", "fra", "spa", "ita"]
    students = (games[profile] == games[profile].iloc[0]).to_numpy(dtype=float)
    kinds, kind = np.unique(students, axis=0, return_inverse=True)
    number = kind.ravel()[:, None] * len(schools)
    pairs = number + _codes(games, ("item_a", "item_b"), schools)
    onehot = np.tile(np.eye(len(schools)), (len(kinds), 1))
    X = np.hstack([2 * onehot, np.repeat(kinds, len(schools), axis=0)])
    folds = list(GroupKFold(5).split(games, groups=games["user"]))
    models = {
        "schools only": (PreferenceGP("features"), 2 * onehot),
        "schools and students": (PreferenceGP("features"), X),
        "default": (PreferenceGP(), X),
    }
    return Problem(models, pairs, games["target"].to_numpy(), folds)


def _league(games: Any, home: str, away: str, target: Any) -> Problem:
    teams = np.unique(games[[home, away]])
    pairs = _codes(games, (home, away), teams)
    learned = PreferenceGP("independent", position_bias="learned")
    models = {
        "teams": (PreferenceGP("independent"), len(teams)),
        "teams and home": (learned, len(teams)),
    }
    return Problem(models, pairs, target.to_numpy(), _folds(pairs, 5, hold_out="comparisons"))


def football(data_home: Home) -> Problem:
    """1,900 matches of 29 teams, the home team first; a quarter are draws."""
    games = _table("football_pairs.csv", data_home)
    return _league(games, "item_a", "item_b", games["target"])


def icehockey(data_home: Home) -> Problem:
    """1,083 games of 58 teams, the home team first where there is one."""
    games = _table("icehockey_pairs.csv", data_home)
    return _league(games, "item_b", "item_a", 1 - games["target"])


def car_choice(data_home: Home, n_people: int = 120) -> Problem:
    """The car that each of some people chose, against the five others that they were shown."""
    import pandas as pd

    cars = _table("car_choice.csv.gz", data_home)
    cars = cars[cars["choice_set"] < n_people].reset_index(drop=True)
    features = cars.drop(columns=["choice_set", "alternative", "target"])
    X = StandardScaler().fit_transform(pd.get_dummies(features, dtype=float))
    pairs = np.array(
        [
            (best, other)
            for best in cars.index[cars["target"] == 1]
            for other in cars.index[cars["choice_set"] == cars["choice_set"][best]]
            if other != best
        ]
    )
    folds = list(GroupKFold(3).split(pairs, groups=cars["choice_set"].to_numpy()[pairs[:, 0]]))
    models = {
        "featureless": (PreferenceGP("independent"), len(X)),
        "features": (PreferenceGP(RBF(np.sqrt(X.shape[1]), (1e-1, 1e3))), X),
        "default": (PreferenceGP(), X),
    }
    return Problem(models, pairs, np.ones(len(pairs)), folds)


_FEATURES = ("featureless", "features", "features and own", "default")
PROBLEMS: dict[str, tuple[Callable[[Home], Problem], str, tuple[str, ...]]] = {
    "chameleons": (chameleons, "pairs", _FEATURES),
    "chameleons-items": (lambda home: chameleons(home, "items"), "items", _FEATURES),
    "cems": (cems, "students", ("schools only", "schools and students", "default")),
    "icehockey": (icehockey, "games", ("teams", "teams and home")),
    "football": (football, "games", ("teams", "teams and home")),
    "car_choice": (car_choice, "people", ("featureless", "features", "default")),
}
"""how each is read, what is held out together, and the labels of its models"""


def compute_real(cell: Cell, data_home: Home = None) -> Record:
    """Log score and accuracy of the held-out comparisons, and whether ties are calibrated."""
    problem = PROBLEMS[cell.dataset][0](data_home)
    model, X = problem.models[cell.model]
    y = np.round(2 * problem.target - 1).astype(int)
    parts, truth = [], []
    for train, test in problem.folds:
        fitted = ComparisonClassifier(model, X)
        fit_quietly(fitted, problem.pairs[train], y[train])
        parts.append(fitted.category_proba(problem.pairs[test]))
        truth.append(np.searchsorted(fitted.categories_, y[test]))
    proba, codes = np.vstack(parts), np.concatenate(truth)
    rows = np.arange(len(codes))
    loss = -np.log(proba[rows, codes])
    top = np.isclose(proba, proba.max(axis=1, keepdims=True))  # equal chances share it
    record = {
        "log_score": float(loss.mean()),
        "log_score_se": float(loss.std() / np.sqrt(len(loss))),
        "accuracy": float(np.mean(top[rows, codes] / top.sum(axis=1))),
    }
    if proba.shape[1] == 3:
        record["ties"] = int(np.sum(codes == 1))
        record["ties_expected"] = float(proba[:, 1].sum())
        record["ties_sd"] = float(np.sqrt((proba[:, 1] * (1 - proba[:, 1])).sum()))
    return record


def real_page(records: Sequence[Record], experiment: Experiment) -> list[Part]:
    """Held-out log scores with and without features, and ties seen beside those expected."""
    rows = []
    for r in select(records):
        name = r["dataset"].removesuffix("-items")
        score = f"{r['log_score']:.4f}±{r['log_score_se']:.4f}"
        ties = ""
        if "ties" in r:
            ties = f"{r['ties']} of {r['ties_expected']:.0f}±{r['ties_sd']:.0f} expected"
        held_out = PROBLEMS[r["dataset"]][1]
        rows.append(entries(name, held_out, r["model"], score, f"{r['accuracy']:.1%}", ties))
    note = "Means of -ln p(outcome) over comparisons that were held out; lower is better."
    header = ["data", "held out", "model", "log score", "right", "ties seen"]
    return [Table("Real comparisons", header, rows, note)]


def _real_cells(trials: int) -> list[Cell]:
    return [Cell(name, 0, 1, label) for name, (*_, labels) in PROBLEMS.items() for label in labels]


_ANY = Model("", lambda *_: None)  # a name that ``compute`` understands
_LABELS = tuple(dict.fromkeys(label for *_, labels in PROBLEMS.values() for label in labels))
EXPERIMENTS = (
    Experiment(
        "order-table1",
        "Wang and McKenna (2010), Table 1: learning from comparisons",
        compute,
        table_page,
        _OURS,
        results="order",
        published=("order-table1",),
        registry=PREFERENCES,
        sizes=PAIRS,
    ),
    Experiment(
        "order-figure2",
        "Wang and McKenna (2010), Figure 2: error against the number of comparisons",
        compute,
        curve_page,
        ("gpep2", "gpep2-own"),
        results="order",
        published=("order-figure2",),
        draw=draw,
        registry=PREFERENCES,
        sizes=CURVE,
    ),
    Experiment(
        "order-readings",
        "Wang and McKenna (2010), Table 1 with pairs drawn with replacement",
        compute_reading,
        readings_page,
        ("gpla", "gpep2", "gpep2-own"),
        registry=PREFERENCES,
        sizes=PAIRS,
    ),
    Experiment(
        "order-kernels",
        "Kernels for Table 1 of Wang and McKenna (2010), on repetitions that it does not report",
        compute_kernels,
        kernels_page,
        ("usual",),
        first=101,
        registry=dict.fromkeys((*KERNELS, "grid"), _ANY),
        sizes=PAIRS,
    ),
    Experiment(
        "order-active",
        "Comparisons saved by asking for the most informative ones",
        compute_active,
        active_page,
        ("features-information", "features-prediction", "features-random"),
        datasets=tuple(PLANS),
        registry=ASKED,
    ),
    Experiment(
        "order-remoteness",
        "Distance from the centre of the items that Boston is asked about",
        compute_remoteness,
        remoteness_page,
        STRATEGIES,
        trials=5,
        first=101,
        registry=dict.fromkeys(STRATEGIES, _ANY),
        sizes={"boston_housing": (40, 100)},
    ),
    Experiment(
        "order-real",
        "Real comparisons: with and without features, and whether ties are calibrated",
        compute_real,
        real_page,
        _LABELS,
        datasets=tuple(PROBLEMS),
        trials=1,
        registry=dict.fromkeys(_LABELS, _ANY),
        grid=_real_cells,
    ),
)
