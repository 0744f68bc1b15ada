"""Worth of each part of the default mixture, on tasks that no reported table has.

``python -m benchmarks.mixture noisy`` fits the default models to the tasks of
``benchmarks.other_tasks`` and mixes them in other ways: without one of the models, with other
weights, or with models that have other priors. It prints mean differences in log score, error
rate (most probable level) and absolute error (median level) from the default. ``certain`` does so
for rules without noise. Fits are kept in ``--keep``, so that an interrupted run goes on.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.other_tasks import Task, certain_tasks, noisy_tasks
from ordinalgp.decisions import decide
from ordinalgp.hyperpriors import HyperPrior
from ordinalgp.runtime.progress import silent
from ordinalgp.stacking.default_models import (
    DIRECTED,
    PRIOR_WEIGHTS,
    SHARP,
    VIEWS,
    default_models,
)
from ordinalgp.stacking.inputs import Inputs
from ordinalgp.stacking.training import Rows, StackingSettings, Training
from ordinalgp.stacking.weights import mixture_weights, sharpened, sharpness
from papers.data import FloatArray, IntArray

SHRINKAGE = 8.0
NO_GAPS = "without the prior on gaps: "


class Fits(NamedTuple):
    """Models of one task: probabilities of left-out training rows and of test rows."""

    y: IntArray
    y_test: IntArray
    left_out: dict[str, FloatArray]
    test: dict[str, FloatArray]


def models_of(n_features: int) -> dict[str, Any]:
    """The default models, and threshold models without the prior on gaps."""
    models = default_models(n_features)
    for name, model in default_models(n_features).items():
        prior = model.hyperprior
        if getattr(prior, "gaps", None):
            plain = HyperPrior(prior.length_scales, prior.noise)
            models[NO_GAPS + name] = model.set_params(hyperprior=plain)
    return models


def fit(task: Task, split: int, folder: Path) -> Fits:
    """Fit all models to one split of a task, or read what an earlier run kept."""
    kept, drawn = folder / f"{task.name}, {split}.npz".replace("/", "_"), task.draw(split)
    if not kept.is_file():
        rows = Rows(drawn.X, drawn.y, np.ones(len(drawn.y)), np.unique(drawn.y))
        models, views = models_of(drawn.X.shape[1]), dict(VIEWS)
        views |= {NO_GAPS + name: view for name, view in VIEWS.items()}
        training = Training(
            models,
            SHRINKAGE,
            None,
            np.random.RandomState(0),
            silent,
            StackingSettings(),
            Inputs.learn(drawn.X, rows.weights),
            views,
            PRIOR_WEIGHTS,
            SHARP,
            DIRECTED,
        )
        found = training._fit_first(rows, np.arange(len(drawn.y)))
        tables = {f"left out {each.name}": each.left_out for each in found}
        for each in found:
            seen = training.inputs.seen(drawn.X_test, views.get(each.name, "standardised"))
            tables[f"test {each.name}"] = each.model.category_proba(seen)
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(kept, **tables)
    with np.load(kept) as tables:
        parts = [
            {key.removeprefix(kind): tables[key] for key in tables if key.startswith(kind)}
            for kind in ("left out ", "test ")
        ]
    return Fits(drawn.y, drawn.y_test, *parts)


def scores(fits: Fits, prior: dict[str, float], shrinkage: float = SHRINKAGE) -> FloatArray:
    """Log score, error rate and absolute error of the mixture of the models with a prior weight."""
    names, rows = [name for name in prior if name in fits.test], np.arange(len(fits.y))
    own = np.column_stack([fits.left_out[name][rows, fits.y] for name in names])
    counts = np.ones(len(rows))
    w = mixture_weights(own, counts, shrinkage, np.array([prior[name] for name in names]))
    left_out = sum(a * fits.left_out[name] for a, name in zip(w, names, strict=True))
    test = sum(a * fits.test[name] for a, name in zip(w, names, strict=True))
    proba = sharpened(test, sharpness(left_out, fits.y, counts))
    true = np.maximum(proba[np.arange(len(proba)), fits.y_test], 1e-300)
    wrong = decide(proba, "mode") != fits.y_test
    away = np.abs(decide(proba, "median") - fits.y_test)
    return np.array([-np.mean(np.log(true)), np.mean(wrong), np.mean(away)])


def mixtures() -> Iterator[tuple[str, Callable[[Fits], FloatArray]]]:
    """Ways to mix, by name; the default first."""
    names = list(default_models(2))
    default = {name: PRIOR_WEIGHTS.get(name, 1.0) for name in names}
    yield "default", lambda fits: scores(fits, default)
    yield "equal prior weights", lambda fits: scores(fits, dict.fromkeys(names, 1.0))
    for shrinkage in (2.0, 32.0):
        yield f"shrinkage {shrinkage:g}", lambda fits, s=shrinkage: scores(fits, default, s)
    plain = {
        NO_GAPS + name if name.endswith("thresholds") and name not in SHARP else name: weight
        for name, weight in default.items()
    }
    yield NO_GAPS.rstrip(": "), lambda fits: scores(fits, plain)
    for name in names:
        others = {key: weight for key, weight in default.items() if key != name}
        yield f"without {name}", lambda fits, others=others: scores(fits, others)


def main() -> None:
    """Fit, mix and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", choices=["noisy", "certain"])
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("benchmark-results/mixture"))
    options = parser.parse_args()
    tasks = noisy_tasks() if options.tasks == "noisy" else certain_tasks()
    ways = dict(mixtures())
    found = []
    for task in sorted(tasks, key=lambda task: task.size):
        each = [fit(task, split, options.keep) for split in range(options.splits)]
        found.append([np.mean([way(fits) for fits in each], axis=0) for way in ways.values()])
        print(f"{task.name:45} {found[-1][0].round(4)}", flush=True)
    table = np.array(found)
    print(f"\n{len(table)} tasks, default: {table[:, 0].mean(axis=0).round(4)}; differences:")
    for place, name in enumerate(ways):
        gap = table[:, place] - table[:, 0]
        spread = gap.std(axis=0) / np.sqrt(len(gap))
        shown = ", ".join(
            f"{a:+.4f} ± {b:.4f}" for a, b in zip(gap.mean(axis=0), spread, strict=True)
        )
        print(f"{name:40} {shown}; log score lower on {np.sum(gap[:, 0] < 0)}")


if __name__ == "__main__":
    main()
