"""Votes beside choix, evalica and arena-rank: time, log score, coverage; judges and position bias.

``python -m benchmarks.votes``, one thread, processor time, the sides in turn; the fastest of a few
rounds. Needs the extra ``peers``; a package that is not there is left out, and said. The page is
``docs/results/votes.md``.
"""

import json
import resource
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from threadpoolctl import threadpool_limits

from ordinalgp import PreferenceGP
from papers.data import ROOT
from papers.runner import open_results, read_records, version_stamp

RESULTS = ROOT / "benchmarks" / "results" / "votes.jsonl"
PAGE = ROOT / "docs" / "results" / "votes.md"
SIZES = {"150 x 100,000": (150, 100_000), "50 x 5,000": (50, 5_000)}
NOISE, TIE = 0.7, 0.3  # of one item in one vote; half the width of a tie
PACKAGES = {"choix": "choix", "evalica": "evalica", "arena-rank": "arena_rank"}


def simulate(n: int, m: int, seed: int = 0, bias: float = 0.0, judges: int = 0) -> dict[str, Any]:
    """Votes with ties on items of normal utility, and what made them."""
    rng = np.random.default_rng(seed)
    f, x = rng.normal(size=n), 0.6 * rng.normal(size=judges)
    left = rng.integers(0, n, m)
    right = (left + rng.integers(1, n, m)) % n
    by = rng.integers(0, max(judges, 1), m)
    factor = np.exp(x)[by] if judges else 1.0
    u = f[left] - f[right] + bias + np.sqrt(2) * NOISE * factor * rng.normal(size=m)
    pairs, y = np.column_stack([left, right]), np.digitize(u, [-TIE, TIE]) - 1
    return {"f": f, "x": x, "pairs": pairs, "y": y, "by": by}


def seconds(run: Callable[[], Any]) -> float:
    """Processor time of one call."""
    start = time.process_time()
    run()
    return time.process_time() - start


def winners(data: dict[str, Any], ties: str) -> list[tuple[int, int]]:
    """Winner and loser of each vote; ties are dropped, or won by both."""
    pairs, y = data["pairs"], data["y"]
    kept = pairs if ties == "both" else pairs[y != 0]
    sign = y if ties == "both" else y[y != 0]
    found = np.where(sign[:, None] >= 0, kept, kept[:, ::-1])
    if ties == "both":
        found = np.concatenate([found, pairs[y == 0][:, ::-1]])
    return [(int(a), int(b)) for a, b in found]


def peers(n: int, data: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """Functions that fit each peer to prepared data: log-strengths, and standard errors or None."""
    found: dict[str, Callable[[], Any]] = {}
    if find_spec("choix"):
        import choix

        for ties in ("dropped", "both"):
            rows = winners(data, ties)
            run = partial(choix.ilsr_pairwise, n, rows, alpha=0.01)
            found[f"choix ilsr_pairwise, ties {ties}"] = lambda run=run: (run(), None)
    if find_spec("evalica"):
        import evalica

        left, right = data["pairs"].T.tolist()
        side = {1: evalica.Winner.X, 0: evalica.Winner.Draw, -1: evalica.Winner.Y}
        result = [side[y] for y in data["y"].tolist()]

        def strengths() -> Any:
            scores = evalica.bradley_terry(left, right, result).scores
            return np.log(scores.reindex(range(n)).to_numpy()), None

        found["evalica bradley_terry"] = strengths
    if find_spec("arena_rank"):
        import pandas as pd
        from arena_rank.models.bradley_terry import BradleyTerry
        from arena_rank.utils.data_utils import PairDataset

        words = {1: "model_a", 0: "tie", -1: "model_b"}
        left, right = data["pairs"].T
        columns = {"model_a": left.astype(str), "model_b": right.astype(str)}
        frame = pd.DataFrame(columns | {"winner": [words[y] for y in data["y"].tolist()]})

        def rated() -> Any:
            dataset = PairDataset.from_pandas(frame)
            model = BradleyTerry(n_competitors=len(dataset.competitors))
            told = model.compute_ratings_and_cis(dataset, significance_level=0.1)
            order = np.argsort([int(name) for name in told["competitors"]])
            scale = 1 / model.alpha
            width = np.asarray(told["rating_upper"] - told["rating_lower"])[order] * scale
            return np.asarray(told["ratings"])[order] * scale, width / (2 * 1.6449)

        found["arena-rank BradleyTerry"] = rated
    return found


def ours(n: int, data: dict[str, Any], inference: str) -> PreferenceGP:
    """Our model of the same votes."""
    return PreferenceGP("independent", inference=inference).fit(n, data["pairs"], data["y"])


def measure_times(rounds: int = 5) -> list[dict[str, Any]]:
    """Fastest of some rounds, in which all take turns."""
    records = []
    for name, (n, m) in SIZES.items():
        data = simulate(n, m)
        runs: dict[str, Callable[[], Any]] = peers(n, data)
        for inference in ("laplace", "ep"):
            runs[f"ordinalgp {inference}"] = partial(ours, n, data, inference)
        times: dict[str, list[float]] = {key: [] for key in runs}
        for _ in range(rounds):
            for key, run in runs.items():
                times[key].append(seconds(run))
        for key, values in times.items():
            record = {"part": "time", "case": name, "model": key}
            records.append(record | {"seconds": min(values), "median": float(np.median(values))})
    return records


def measure_large() -> list[dict[str, Any]]:
    """A thousand items, a million votes: the whole way to a ranking, each in a new process."""
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        return [pool.apply(large, (inference,)) for inference in ("laplace", "ep")]


def large(inference: str) -> dict[str, Any]:
    """One fit and its ranking."""
    n, m = 1000, 1_000_000
    data = simulate(n, m)
    start, wall = time.process_time(), time.perf_counter()
    model = ours(n, data, inference)
    model.rank(n)
    took = {"seconds": time.process_time() - start, "wall": time.perf_counter() - wall}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    fit = float(np.corrcoef(model.predict(n), data["f"])[0, 1])
    case = {"part": "large", "model": f"ordinalgp {inference}", "peak_gb": peak}
    return case | took | {"correlation": fit}


def measure_quality(repetitions: int = 8) -> list[dict[str, Any]]:
    """Log score of decided votes that were held out, and coverage of 90 % intervals of the truth.

    Utilities of every model are centred and brought to the scale that fits the truth best, so that
    only relative widths count.
    """
    records = []
    for name, n, m in (("30 x 1,000", 30, 1000), ("150 x 20,000", 150, 20_000)):
        totals: dict[str, list[tuple[float, float, float]]] = {}
        for seed in range(repetitions):
            data, test = simulate(n, m, seed=1000 + seed), simulate(n, 5000, seed=1000 + seed)
            rng = np.random.default_rng(seed)
            f, pairs = data["f"], test["pairs"]
            u = f[pairs[:, 0]] - f[pairs[:, 1]] + np.sqrt(2) * NOISE * rng.normal(size=len(pairs))
            decided = np.abs(u) > TIE
            pairs, won = pairs[decided], u[decided] > 0
            for key, run in peers(n, data).items():
                strength, error = run()
                p = expit(strength[pairs[:, 0]] - strength[pairs[:, 1]])
                totals.setdefault(key, []).append(_quality(p, won, strength, error, f))
            for inference in ("laplace", "ep"):
                model = ours(n, data, inference)
                proba = model.comparison_proba(*pairs.T.tolist())
                p = proba[:, -1] / (proba[:, 0] + proba[:, -1])
                mean, covariance = model.latent_mean_and_covariance(n)
                centre = np.eye(n) - 1.0 / n
                error = np.sqrt(np.diagonal(centre @ covariance @ centre))
                found = _quality(p, won, mean, error, f)
                totals.setdefault(f"ordinalgp {inference}", []).append(found)
        for key, values in totals.items():
            score, spread, inside = np.mean(values, axis=0)
            several = {"log_score": score, "coverage": inside, "error_of_score": spread}
            spread = float(np.std([v[0] for v in values]) / np.sqrt(len(values)))
            several["error_of_score"] = spread
            if np.isnan(inside):
                several["coverage"] = None
            records.append({"part": "quality", "case": name, "model": key} | several)
    return records


def _quality(
    p: np.ndarray, won: np.ndarray, strength: np.ndarray, error: Any, f: np.ndarray
) -> tuple[float, float, float]:
    score = -float(np.mean(np.log(np.where(won, p, 1 - p))))
    if error is None:
        return score, 0.0, np.nan
    centred, truth = strength - strength.mean(), f - f.mean()
    scale = (centred @ truth) / (centred @ centred)
    inside = np.abs(truth - scale * centred) <= 1.6449 * scale * error
    return score, 0.0, float(np.mean(inside))


def measure_recovery(repetitions: int = 12) -> list[dict[str, Any]]:
    """Coverage of the intervals of the position bias and of the judges' noise factors."""
    bias, factors, correlations = [], [], []
    for seed in range(repetitions):
        data = simulate(40, 4000, seed=2000 + seed, bias=0.3, judges=20)
        model = PreferenceGP("independent", position_bias="learned")
        model.fit(40, data["pairs"], data["y"], judges=data["by"])
        # Utilities have the prior's scale: the truth is brought to it by the items' own spread.
        mean = model.predict(40)
        mean, f = mean - mean.mean(), data["f"] - data["f"].mean()
        scale = (f @ mean) / (f @ f)
        low, high = model.position_bias_interval(0.9)
        bias.append(low <= 0.3 * scale <= high)
        found = model.judge_reliability(0.9)
        true = np.exp(data["x"][found.judges])
        factors.append(np.mean((found.low <= true) & (true <= found.high)))
        correlations.append(np.corrcoef(np.log(found.factor), np.log(true))[0, 1])
    several = {"bias_covered": float(np.mean(bias)), "factors_covered": float(np.mean(factors))}
    return [{"part": "recovery", "correlation": float(np.mean(correlations))} | several]


def page(records: list[dict[str, Any]]) -> str:
    """The page of the results."""
    lines = [
        "# Votes beside other tools",
        "",
        "How fast and how good is `PreferenceGP` on votes, beside choix, evalica and arena-rank? "
        "`python -m benchmarks.votes` computes this page, in one run, with one thread.",
        "",
        "Votes are simulated: utilities are normal, the noise of a difference has a standard "
        "deviation of 0.99, and votes within 0.3 of zero are ties.",
    ]
    lines += [f"- {r['reason']}" for r in records if r["part"] == "absent"]
    for case in SIZES:
        rows = [r for r in records if r["part"] == "time" and r["case"] == case]
        unit = {r["model"]: r["seconds"] for r in rows}
        bases = [key for key in unit if key.startswith("choix")]
        lines += ["", f"## Time, {case} votes", ""]
        heads = ["seconds", *(f"in {key}" for key in bases)]
        lines += ["| model | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
        for r in rows:
            ratios = (f"{r['seconds'] / unit[key]:.2f}" for key in bases)
            lines.append(f"| {r['model']} | {r['seconds']:.4f} | " + " | ".join(ratios) + " |")
    lines += [
        "",
        "Seconds of processor time, the fastest of five rounds in which all take turns. choix has "
        "no ties: they are dropped, or count as won by both. Its data are prepared before, those "
        "of the others are not.",
        "",
        "## A thousand items, a million votes",
        "",
        "| model | processor s | clock s | peak GB | correlation with the truth |",
        "|---|---|---|---|---|",
    ]
    for r in records:
        if r["part"] == "large":
            cells = f"{r['seconds']:.1f} | {r['wall']:.1f} | {r['peak_gb']:.2f}"
            lines.append(f"| {r['model']} | {cells} | {r['correlation']:.4f} |")
    lines += [
        "",
        "Fit and `rank`, from arrays of numbers, each in a process of its own.",
        "",
        "## Log score and coverage",
        "",
        "| votes | model | log score | 90 % intervals with the truth, % |",
        "|---|---|---|---|",
    ]
    for r in records:
        if r["part"] == "quality":
            inside = "no intervals" if r["coverage"] is None else f"{100 * r['coverage']:.1f}"
            score = f"{r['log_score']:.4f} ± {r['error_of_score']:.4f}"
            lines.append(f"| {r['case']} | {r['model']} | {score} | {inside} |")
    lines += [
        "",
        "Means of 8 simulated sets. Lower scores are better. They are of votes that were held out "
        "and decided; our probability is that of a win, given no tie. Utilities are centred and "
        "brought to the scale that fits the truth best, for every model.",
        "",
        "## Judges and position bias",
        "",
    ]
    for r in records:
        if r["part"] == "recovery":
            lines.append(
                f"40 items, 4,000 votes, 20 judges, 12 simulated sets. The 90 % interval of the "
                f"bias has the truth in {100 * r['bias_covered']:.0f} % of the sets. Those of the "
                f"judges' noise factors have it in {100 * r['factors_covered']:.0f} % of cases. "
                f"Log factors found correlate with the true ones by {r['correlation']:.2f}."
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    warnings.simplefilter("ignore")
    RESULTS.parent.mkdir(exist_ok=True)
    absent = [
        {"part": "absent", "reason": f"{name} is not installed, and so not measured."}
        for name, module in PACKAGES.items()
        if not find_spec(module)
    ]
    parts: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "time": measure_times,
        "quality": measure_quality,
        "recovery": measure_recovery,
        "large": measure_large,
    }
    # An interrupted run goes on; to begin anew, remove the file.
    done = {record["part"] for record in read_records(RESULTS)} if RESULTS.exists() else set()
    with open_results(RESULTS) as results, threadpool_limits(1):
        for part, measure in ({"absent": lambda: absent} | parts).items():
            for record in measure() if part not in done else []:
                results.write(json.dumps(record | version_stamp()).encode() + b"\n")
                results.flush()
                print(record, flush=True)
    Path(PAGE).write_text(page(read_records(RESULTS)), encoding="utf-8")


if __name__ == "__main__":
    main()
