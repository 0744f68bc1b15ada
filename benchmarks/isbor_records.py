"""Hand the fits of ``benchmarks.isbor_tables`` to the pages of ``ordinalgp benchmark``.

``python -m benchmarks.isbor_records`` writes ``isbor-table3.jsonl`` and ``isbor-figure2.jsonl``
from ``isbor.jsonl``, under the names that the command uses. Afterwards
``python -m ordinalgp.benchmark isbor-table3 --report-only --output benchmarks/results --pages
docs/results`` makes the page, and the same for ``isbor-figure2``.
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.isbor_tables import ROOT, SETS, read
from ordinalgp import __version__

RESULTS = ROOT / "benchmarks" / "results"
NAMES = {name: file.split(".")[0] for name, (file, _) in SETS.items()}
NAMES["synthetic"] = "isbor_synthetic"
MODELS = ("isbor", "isbor-auto", "sbor", "ep")


def renamed(record: dict[str, Any]) -> dict[str, Any]:
    """One fit, as the command would have recorded it."""
    published = (record["dataset"], record["n_train"]) in (("BS", 468), ("synthetic", 1000))
    kept = {} if record["n_relevance"] is None else {"n_relevance": record["n_relevance"]}
    return {
        "dataset": NAMES[record["dataset"]],
        "bins": 0,
        "split": record["split"],
        "model": record["model"],
        "size": record["n_train"],
        "absolute": record["mae"],
        "absolute_median": record["mae_median"],
        "fit_seconds": record["cpu"],
        "partition": "published" if published else "drawn",
        "evidence": record["evidence"],
        "kernel": record["kernel"],
        **kept,
        "n_iter": record["rounds"],
        "converged": record["converged"],
        "n_test": record["n_test"],
        "seconds": record["cpu"],
        "version": __version__,
    }


def chosen(records: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The fits of each page: the paper's sizes, and the sizes of the synthetic set."""
    found = [r for r in records if r["model"] in MODELS]
    sizes = {name: n for name, (_, n) in SETS.items()}
    grown = range(1000, 10_001, 1000)
    synthetic = [r for r in found if (r["dataset"], r["split"]) == ("synthetic", 1)]
    return {
        "isbor-table3": [r for r in found if r["n_train"] == sizes.get(r["dataset"])],
        "isbor-figure2": [r for r in synthetic if r["n_train"] in grown],
    }


def main() -> None:
    """Write both files anew."""
    for name, records in chosen(read(RESULTS / "isbor.jsonl")).items():
        lines = [json.dumps(renamed(record)) + "\n" for record in records]
        Path(RESULTS / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
