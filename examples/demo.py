"""A tour in one run: fit, compare, look inside, save and draw, on real rows with ordered levels.

``make demo`` runs it. Results go to ``demo-output/`` in the current folder.
"""

import csv
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import ordinalgp
from ordinalgp import OrdinalGPClassifier, metrics
from ordinalgp.datasets import DemoData, load_demo
from ordinalgp.decisions import decide

OUTPUT = Path("demo-output")
SPLITS = 10
SCORES = ("zero-one error", "absolute error", "ranked prob.", "log score")
Split = tuple[np.ndarray, np.ndarray]


def models(demo: DemoData) -> dict[str, Callable[[], Any]]:
    """Name every model of the comparison; inputs are standardised for all of them."""

    def scaled(make: Callable[..., Any], **options: Any) -> Callable[[], Any]:
        return lambda: make_pipeline(StandardScaler(), make(**options))

    return {
        "level frequencies": scaled(DummyClassifier, strategy="prior"),
        "multinomial logistic": scaled(LogisticRegression, max_iter=1000),
        "ordinal GP, Laplace": scaled(
            OrdinalGPClassifier, inference="laplace", categories=demo.categories
        ),
        "ordinal GP, EP": scaled(OrdinalGPClassifier, inference="ep", categories=demo.categories),
    }


def in_rank_order(probabilities: np.ndarray, classes: np.ndarray, demo: DemoData) -> np.ndarray:
    """Sort columns from the alphabetical order of scikit-learn to that of the levels."""
    return probabilities[:, np.searchsorted(classes, demo.categories)]


def scores(y: np.ndarray, probabilities: np.ndarray, demo: DemoData) -> tuple[float, ...]:
    """Score a model; each error with the decision that suits it, for all models alike."""
    order = {"categories": demo.categories}
    levels = np.array(demo.categories)
    return (
        metrics.zero_one_error(y, levels[decide(probabilities, "mode")], **order),
        metrics.mean_absolute_error(y, levels[decide(probabilities, "median")], **order),
        metrics.ranked_probability_score(y, probabilities, **order),
        metrics.log_score(y, probabilities, **order),
    )


def compare(demo: DemoData, splits: list[Split]) -> dict[str, np.ndarray]:
    """Fit and score every model on every split: arrays of shape (splits, scores)."""
    results: dict[str, np.ndarray] = {}
    for name, make in models(demo).items():
        print(f"  {name:<22}", end="", flush=True)
        started, rows = time.perf_counter(), []
        for train, held in splits:
            model = make().fit(demo.X[train], demo.y[train])
            p = in_rank_order(model.predict_proba(demo.X[held]), model.classes_, demo)
            rows.append(scores(demo.y[held], p, demo))
            print(".", end="", flush=True)
        print(f"  {(time.perf_counter() - started) / len(splits):.2f} s a split")
        results[name] = np.array(rows)
    return results


def print_table(results: dict[str, np.ndarray]) -> None:
    """Print means and standard deviations over the splits."""
    print(f"\n  {'':<22}" + "".join(f"{score:>16}" for score in SCORES))
    for name, values in results.items():
        pairs = zip(values.mean(axis=0), values.std(axis=0, ddof=1), strict=True)
        print(f"  {name:<22}" + "".join(f"{f'{m:.3f} ± {s:.3f}':>16}" for m, s in pairs))
    print("  Lower is better; mean ± standard deviation over the splits. The zero-one error is of")
    print("  the most probable level, the absolute error (in levels) of the median level.")
    ep, logistic = results["ordinal GP, EP"], results["multinomial logistic"]
    wins = ", ".join(
        f"{n} ({score})" for n, score in zip((ep < logistic).sum(axis=0), SCORES, strict=True)
    )
    print(f"\n  Splits, of {len(ep)}, where EP scores lower than logistic regression:\n  {wins}.")


def print_inside(model: OrdinalGPClassifier, demo: DemoData, split: Split, held: float) -> None:
    """Print what was learned, and check it without new data."""
    print(f"  kernel        {model.kernel_}, in standard deviations of the inputs")
    print(f"  noise         {model.noise_:.2f}, where the latent function has prior sd 1")
    borders = zip(model.thresholds_, demo.categories, demo.categories[1:], strict=False)
    print("  thresholds    " + ", ".join(f"{b:+.2f} ({lo} | {hi})" for b, lo, hi in borders))
    print(f"  log evidence  {model.log_marginal_likelihood_value_:.1f}", end="")
    print(f", search and inference {'' if model.converged_ else 'not '}converged")
    loo = in_rank_order(model.loo_proba(), model.classes_, demo)
    score = metrics.log_score(demo.y[split[0]], loo, categories=demo.categories)
    print(f"  log score     {score:.3f} leaving out each training row in turn, without refitting;")
    print(f"                {held:.3f} on the held-out rows")


def print_examples(p: np.ndarray, y: np.ndarray, demo: DemoData, n: int = 5) -> None:
    """Print bars of probability for the first rows, lowest level on the left."""
    fancy = (sys.stdout.encoding or "").lower().startswith("utf")
    shades, width = "░▒▓█" if fancy else ".:o#", 48
    print("  " + "   ".join(map(" ".join, zip(shades, demo.categories, strict=True))))
    print(f"\n  {'true':<10}{'predicted':<11}{'probabilities':<{width}}  of the true level")
    for row in range(n):
        edges = np.rint(width * np.concatenate([[0.0], np.cumsum(p[row])])).astype(int)
        bar = "".join(s * w for s, w in zip(shades, np.diff(edges), strict=True))
        predicted = demo.categories[int(p[row].argmax())]
        true = p[row, demo.categories.index(y[row])]
        print(f"  {y[row]:<10}{predicted:<11}{bar}  {true:.2f}")


def write_predictions(path: Path, pipeline: Any, held: np.ndarray, demo: DemoData) -> None:
    """Write a line for each held-out row: levels, probabilities, latent mean and sd."""
    scaled = pipeline[:-1].transform(demo.X[held])
    mean, variance = pipeline[-1].latent_mean_and_variance(scaled)
    p = pipeline[-1].category_proba(scaled)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = [f"p_{level}" for level in demo.categories]
        writer.writerow(["row", "true", "predicted", *names, "latent_mean", "latent_sd"])
        labels = zip(held, demo.y[held], pipeline.predict(demo.X[held]), strict=True)
        for label, *numbers in zip(labels, *p.T, mean, np.sqrt(variance), strict=True):
            writer.writerow([*label, *(f"{number:.6f}" for number in numbers)])


def draw(path: Path, pipeline: Any, held: np.ndarray, demo: DemoData) -> None:
    """Draw the latent function over two measurements, and where the held-out rows lie on it."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from ordinalgp.plots import ContourDisplay, LatentDisplay

    X, y = demo.X[held], demo.y[held]
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
    axes = {"features": ("body mass index", "log triglycerides")}
    names = {"feature_names": demo.feature_names}
    ContourDisplay.from_estimator(pipeline, X, y, **axes, **names, ax=left)
    left.set_title("Latent mean over two measurements, the others at their medians")
    LatentDisplay.from_estimator(pipeline, X, y, ax=right)
    right.set_title("Held-out rows on the latent scale, by true level")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Run the tour."""
    started = time.perf_counter()
    OUTPUT.mkdir(exist_ok=True)
    demo = load_demo()
    levels = " < ".join(f"{level} ({(demo.y == level).sum()})" for level in demo.categories)
    splitter = StratifiedShuffleSplit(SPLITS, test_size=1 / 3, random_state=0)
    splits = list(splitter.split(demo.X, demo.y))
    train, held = splits[0]
    print(f"ordinalgp {ordinalgp.__version__}: {demo.description.splitlines()[0]}")
    print(f"  {demo.X.shape[0]} rows, {demo.X.shape[1]} measurements, levels {levels}")

    sizes = f"{len(train)} rows to learn, {len(held)} held out"
    print(f"\n1  Compare: {SPLITS} random splits, stratified by level, {sizes}")
    results = compare(demo, splits)
    print_table(results)

    print("\n2  Look inside: EP on the first split")
    pipeline = models(demo)["ordinal GP, EP"]().fit(demo.X[train], demo.y[train])
    model = pipeline[-1]
    print_inside(model, demo, splits[0], results["ordinal GP, EP"][0, 3])

    print("\n3  Predict: its first five held-out rows")
    p = in_rank_order(pipeline.predict_proba(demo.X[held]), model.classes_, demo)
    print_examples(p, demo.y[held], demo)

    print("\n4  Keep")
    model.save(OUTPUT / "model.ogp")
    again = ordinalgp.load(OUTPUT / "model.ogp")
    X_held = pipeline[:-1].transform(demo.X[held])
    gap = np.abs(again.category_proba(X_held) - model.category_proba(X_held)).max()
    size = (OUTPUT / "model.ogp").stat().st_size / 1024
    print(f"  {OUTPUT}/model.ogp        the model, {size:.0f} kB; loaded again, its probabilities")
    print(f"{'':<31}differ by at most {gap:.1g}")
    write_predictions(OUTPUT / "predictions.csv", pipeline, held, demo)
    print(f"  {OUTPUT}/predictions.csv  every held-out row with its probabilities")
    draw(OUTPUT / "picture.png", pipeline, held, demo)
    print(f"  {OUTPUT}/picture.png      levels over two measurements, and on the latent scale")
    print(f"\nDone in {time.perf_counter() - started:.0f} s. Files are in {OUTPUT.resolve()}")


if __name__ == "__main__":
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ± is no reason to stop
    with threadpool_limits(1):  # matrices are small: more threads would wait for each other
        main()
