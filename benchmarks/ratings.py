"""Ratings beside Surprise and cornac: errors, log score, time; growth of an iteration.

``python -m benchmarks.ratings``, one thread, processor time. Needs MovieLens among the benchmark
data and the extra ``peers``; a package that is not there is left out, and said. The page is
``docs/results/ratings.md``.
"""

import csv
import gzip
import json
import resource
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr
from threadpoolctl import threadpool_limits

from ordinalgp import CollaborativeOrdinalGP
from ordinalgp.collaborative.batch import Batch
from ordinalgp.collaborative.hierarchy import SharedThresholds
from ordinalgp.collaborative.low_rank import LowRankEM
from ordinalgp.core.likelihoods import OrdinalProbit
from papers.data import LEVELS, ROOT, data_folder
from papers.runner import open_results, read_records, version_stamp

RESULTS = ROOT / "benchmarks" / "results" / "ratings.jsonl"
PAGE = ROOT / "docs" / "results" / "ratings.md"
PACKAGES = {"scikit-surprise": "surprise", "cornac": "cornac"}
CASES = {"300 movies": 300, "all movies": 0}
# raters, items, ratings each
FULL = [(100, 300, 30), (200, 300, 30), (400, 300, 30), (200, 600, 30), (200, 300, 60)]
TASTES = [(500, 2000, 50), (1000, 2000, 50), (500, 4000, 50), (500, 8000, 50), (500, 2000, 100)]


def load(top: int, seed: int = 0, least: int = 10) -> dict[str, Any]:
    """Ratings of the most rated movies by raters with some of them; a fifth is the test."""
    path = data_folder() / "movielens_small_ratings.csv.gz"
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
    users, items = (np.array([int(r[k]) for r in rows]) for k in ("user_id", "movie_id"))
    stars = np.array([float(r["target"]) for r in rows])
    if top:
        ids, counts = np.unique(items, return_counts=True)
        kept = np.isin(items, ids[np.argsort(-counts, kind="stable")[:top]])
        ids, counts = np.unique(users[kept], return_counts=True)
        kept &= np.isin(users, ids[counts >= least])
        users, items, stars = users[kept], items[kept], stars[kept]
    test = np.zeros(len(users), dtype=bool)
    test[np.random.default_rng(seed).permutation(len(users))[: len(users) // 5]] = True
    known = np.isin(users, users[~test]) & np.isin(items, items[~test])
    parts = {"train": ~test, "test": test & known}
    return {k: (users[v], items[v], stars[v]) for k, v in parts.items()}


def scored(mean: np.ndarray, median: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Mean absolute error of a level, of the mean, and root mean square error of the mean."""
    return {
        "mae": float(np.mean(np.abs(median - truth))),
        "mae_of_mean": float(np.mean(np.abs(mean - truth))),
        "rmse": float(np.sqrt(np.mean((mean - truth) ** 2))),
    }


def rounded(values: np.ndarray) -> np.ndarray:
    """The nearest levels."""
    return np.clip(np.round(2 * values) / 2, LEVELS[0], LEVELS[-1])


def log_score(proba: np.ndarray, truth: np.ndarray) -> float:
    return -float(np.mean(np.log(proba[np.arange(len(truth)), np.searchsorted(LEVELS, truth)])))


def measure_ours(data: dict[str, Any], name: str, options: dict[str, Any]) -> dict[str, Any]:
    start = time.process_time()
    model = CollaborativeOrdinalGP(**options, n_jobs=1).fit(*data["train"])
    fitted = time.process_time()
    users, items, truth = data["test"]
    proba = model.category_proba(users, items)
    times = {"fit": fitted - start, "predict": time.process_time() - fitted}
    mean, median = proba @ LEVELS, LEVELS[(np.cumsum(proba, axis=1) >= 0.5).argmax(axis=1)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    more = {"log_score": log_score(proba, truth), "rank": model.rank_, "peak_gb": peak}
    return {"model": name} | times | scored(mean, median, truth) | more


def measure_means(data: dict[str, Any]) -> dict[str, Any]:
    """Shrunk means of raters and items, and normal errors about them."""
    users, items, stars = data["train"]
    start, mean = time.process_time(), stars.mean()
    of_item, of_rater = dict[int, float](), dict[int, float]()
    for _ in range(10):
        for own, keys, other, others in (
            (of_item, items, of_rater, users),
            (of_rater, users, of_item, items),
        ):
            rest = stars - mean - np.array([other.get(k, 0.0) for k in others.tolist()])
            ids, place = np.unique(keys, return_inverse=True)
            total, n = np.bincount(place, rest), np.bincount(place)
            own.update(zip(ids.tolist(), (total / (n + 5.0)).tolist(), strict=True))

    def predicted(u: np.ndarray, i: np.ndarray) -> np.ndarray:
        pairs = zip(u.tolist(), i.tolist(), strict=True)
        return mean + np.array([of_rater.get(a, 0.0) + of_item.get(b, 0.0) for a, b in pairs])

    sd = float(np.std(stars - predicted(users, items)))
    fitted = time.process_time()
    u, i, truth = data["test"]
    at = predicted(u, i)
    cuts = ndtr(((LEVELS[1:] + LEVELS[:-1]) / 2 - at[:, None]) / sd)
    edges = np.column_stack([np.zeros(len(at)), cuts, np.ones(len(at))])
    proba = np.maximum(np.diff(edges, axis=1), 1e-12)
    times = {"fit": fitted - start, "predict": time.process_time() - fitted}
    found = scored(np.clip(at, LEVELS[0], LEVELS[-1]), rounded(at), truth)
    return (
        {"model": "means of raters and items"}
        | times
        | found
        | {"log_score": log_score(proba, truth)}
    )


def measure_peers(data: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    users, items, truth = data["test"]
    if find_spec("surprise"):
        import pandas as pd
        from surprise import SVD, Dataset, KNNBaseline, Reader, SVDpp

        frame = pd.DataFrame(dict(zip("uis", data["train"], strict=True)))
        rated = Dataset.load_from_df(frame, Reader(rating_scale=(0.5, 5))).build_full_trainset()
        algorithms = (SVD(random_state=0), SVDpp(random_state=0), KNNBaseline(verbose=False))
        for algorithm in algorithms:
            start = time.process_time()
            algorithm.fit(rated)
            fitted = time.process_time()
            pairs = zip(users.tolist(), items.tolist(), strict=True)
            mean = np.array([algorithm.predict(a, b).est for a, b in pairs])
            times = {"fit": fitted - start, "predict": time.process_time() - fitted}
            name = {"model": f"Surprise {type(algorithm).__name__}"}
            found.append(name | times | scored(mean, rounded(mean), truth))
    if find_spec("cornac"):
        import cornac

        rows = list(zip(*(part.tolist() for part in data["train"]), strict=True))
        rated = cornac.data.Dataset.from_uir(rows, seed=0)
        for name, options in (
            ("cornac PMF", {}),
            ("cornac PMF, linear", {"variant": "linear", "max_iter": 200}),
            ("cornac MF with biases", None),
        ):
            model = (
                cornac.models.MF(seed=0, verbose=False)
                if options is None
                else cornac.models.PMF(seed=0, verbose=False, **options)
            )
            start = time.process_time()
            model.fit(rated)
            fitted = time.process_time()
            who = [rated.uid_map[u] for u in users.tolist()]
            what = [rated.iid_map[i] for i in items.tolist()]
            mean = np.array([model.rate(a, b) for a, b in zip(who, what, strict=True)], dtype=float)
            mean = np.clip(mean, LEVELS[0], LEVELS[-1])
            times = {"fit": fitted - start, "predict": time.process_time() - fitted}
            found.append({"model": name} | times | scored(mean, rounded(mean), truth))
    return found


def measure_case(name: str, top: int) -> list[dict[str, Any]]:
    data = load(top)
    users, items, stars = data["train"]
    sizes = {"raters": len(np.unique(users)), "items": len(np.unique(items))}
    sizes |= {"ratings": len(stars), "tested": len(data["test"][2])}
    ours: dict[str, dict[str, Any]] = {"ordinalgp, tastes": {"rank": "auto", "tol": 3e-4}}
    if top:
        ours = {"ordinalgp": {}, "ordinalgp, 16 tastes": {"rank": 16, "tol": 3e-4}}
    found = [*measure_peers(data), measure_means(data)]
    found += [measure_ours(data, label, options) for label, options in ours.items()]
    return [{"part": "errors", "case": name} | sizes | record for record in found]


def simulate(n: int, m: int, each: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    items = np.concatenate([rng.permutation(m)[:each] for _ in range(n)])
    raters = np.repeat(np.arange(n), each)
    taste = rng.normal(size=(n, 3)) @ rng.normal(size=(3, m)) / 2 + rng.normal(size=m)
    u = taste[raters, items] + rng.normal(size=len(items))
    return raters, items, np.digitize(u, [-1.5, -0.5, 0.5, 1.5])


def measure_growth() -> list[dict[str, Any]]:
    """Processor time of one iteration of EM, as a difference of two fits."""
    records = []
    for n, m, each in FULL:
        rows, K = simulate(n, m, each), 0.9 * np.eye(m) + 0.1

        def fit(iterations: int, rows: Any = rows, K: Any = K) -> float:
            start = time.process_time()
            options = {"max_iter": iterations, "tol": 0.0, "rank": "full", "n_jobs": 1}
            CollaborativeOrdinalGP(K, **options).fit(*rows)
            return time.process_time() - start

        fit(1)
        case = {"raters": n, "items": m, "each": each, "kind": "full covariance"}
        records.append({"part": "growth"} | case | {"seconds": (fit(5) - fit(1)) / 4})
    for n, m, each in TASTES:
        _, index, y = simulate(n, m, each)
        begins = np.arange(1, n) * each
        batch = Batch.of(np.split(index, begins), np.split(y, begins))
        center = OrdinalProbit.from_counts(np.bincount(y).astype(float), 1.0, 1.3)
        em = LowRankEM(batch, m)
        state = em.step(em.start(8, SharedThresholds(center, 5.0)))
        start = time.process_time()
        for _ in range(3):
            state = em.step(state)
        case = {"raters": n, "items": m, "each": each, "kind": "8 tastes"}
        records.append({"part": "growth"} | case | {"seconds": (time.process_time() - start) / 3})
    return records


def page(records: list[dict[str, Any]]) -> str:
    """The page of the results."""
    lines = [
        "# Ratings beside other tools",
        "",
        "How good and how fast is `CollaborativeOrdinalGP` on ratings, beside Surprise and cornac? "
        "`python -m benchmarks.ratings` computes this page, in one run, with one thread.",
        "",
        "Ratings are those of MovieLens (ml-latest-small). A fifth of them is the test, drawn at "
        "random; those of raters and movies without training ratings are left out.",
    ]
    lines += [f"- {r['reason']}" for r in records if r["part"] == "absent"]
    for case in CASES:
        rows = [r for r in records if r["part"] == "errors" and r["case"] == case]
        if not rows:
            continue
        first = rows[0]
        known = [r for r in rows if r["model"] == "Surprise SVDpp"]
        unit = known[0]["fit"] + known[0]["predict"] if known else None
        lines += [
            "",
            f"## {case[0].upper()}{case[1:]}",
            "",
            f"{first['ratings']:,} training ratings of {first['items']:,} movies by "
            f"{first['raters']:,} raters; {first['tested']:,} are predicted.",
            "",
            "| model | MAE | RMSE | log score | seconds | in SVD++ |",
            "|---|---|---|---|---|---|",
        ]
        for r in rows:
            score = f"{r['log_score']:.3f}" if "log_score" in r else "none"
            seconds = r["fit"] + r["predict"]
            ratio = "" if unit is None else f"{seconds / unit:.1f}"
            rank = f" ({r['rank']})" if r.get("rank") and "16" not in r["model"] else ""
            cells = f"{r['mae']:.4f} | {r['rmse']:.4f} | {score} | {seconds:.1f} | {ratio}"
            lines.append(f"| {r['model']}{rank} | {cells} |")
    peak = max((r.get("peak_gb", 0.0) for r in records), default=0.0)
    lines += [
        "",
        "MAE is that of a level: the median for ours, the nearest one for the others. RMSE is that "
        "of the mean. Lower is better. Seconds are processor time of fit and predictions. The log "
        "score of the means has normal errors about them, in the levels' own cells. The peak "
        f"memory of the whole run was {peak:.2f} GB.",
        "",
        "## Growth of an iteration",
        "",
        "| covariance | raters | items | ratings each | seconds per iteration |",
        "|---|---|---|---|---|",
    ]
    for r in records:
        if r["part"] == "growth":
            cells = f"{r['raters']} | {r['items']} | {r['each']} | {r['seconds']:.3f}"
            lines.append(f"| {r['kind']} | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    warnings.simplefilter("ignore")
    RESULTS.parent.mkdir(exist_ok=True)
    absent = [
        {"part": "absent", "reason": f"{name} is not installed, and so not measured."}
        for name, module in PACKAGES.items()
        if not find_spec(module)
    ]
    parts: dict[str, Callable[[], list[dict[str, Any]]]] = {"growth": measure_growth}
    for name, top in CASES.items():
        parts[name] = lambda name=name, top=top: measure_case(name, top)
    # An interrupted run goes on; to begin anew, remove the file.
    records = read_records(RESULTS) if RESULTS.exists() else []
    done = {record.get("case", record["part"]) for record in records}
    with open_results(RESULTS) as results, threadpool_limits(1):
        for part, measure in ({"absent": lambda: absent} | parts).items():
            for record in measure() if part not in done else []:
                results.write(json.dumps(record | version_stamp()).encode() + b"\n")
                results.flush()
                print(record, flush=True)
    Path(PAGE).write_text(page(read_records(RESULTS)), encoding="utf-8")


if __name__ == "__main__":
    main()
