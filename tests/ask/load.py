"""Many judges at once: is every answer kept, and how long do they wait for the next pair?

``python -m tests.ask.load --minutes 1`` prints the figures.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
from tests.ask.common import AsyncClient, Client, ServerProcess, make_feature_items, new_key

from ordinalgp.preference import read_store

LOOK_EVERY = 1.5  # seconds between a page's looks at the ranking


@dataclass
class Figures:
    """Times and faults that the judges saw."""

    waits: list[float] = field(default_factory=list)
    """seconds from each answer to its next pair"""
    looks: list[float] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    """left and right item and outcome of every answer that was kept, by its key"""
    revisions: set[int] = field(default_factory=set)
    """numbers of answers behind the rankings that were seen"""
    problems: list[str] = field(default_factory=list)

    def quantile(self, q):
        """A quantile of the waits, in milliseconds."""
        return float(1000 * np.quantile(self.waits, q))


async def judge_pairs(client, number, utility, pace, until, figures, rng):
    """Answer at random moments, so many times a second."""
    asked = urlencode({"page": client.page, "judge": client.judge})
    status, content = await client.request("GET", f"/api/question?{asked}")
    question = json.loads(content)["question"]
    while True:
        await asyncio.sleep(rng.exponential(1 / pace))
        if time.monotonic() > until:
            return
        sides = [question[side]["item"] for side in ("left", "right")]
        difference = utility[number[sides[0]]] - utility[number[sides[1]]]
        difference += 0.3 * rng.standard_normal()
        outcome = 0 if abs(difference) < 0.1 else int(np.sign(difference))
        given = {"key": new_key(), "page": client.page, "judge": client.judge}
        given |= {"left": sides[0], "right": sides[1], "outcome": outcome, "seconds": 2.0}
        began = time.perf_counter()
        status, content = await client.request("POST", "/api/answers", given)
        figures.waits.append(time.perf_counter() - began)
        if status != 200:
            figures.problems.append(f"{status} {content[:200]!r}")
            continue
        figures.acknowledged.append((*sides, outcome))
        question = json.loads(content)["question"]


async def look(client, until, figures, rng):
    """Look at the ranking again and again."""
    await asyncio.sleep(rng.uniform(0, LOOK_EVERY))
    known = ""
    while time.monotonic() < until:
        began = time.perf_counter()
        status, content = await client.request("GET", f"/api/state?known={known}")
        figures.looks.append(time.perf_counter() - began)
        if status == 200:
            state = json.loads(content)
            known = state["revision"]
            if state["ranking"]:
                figures.revisions.add(state["ranking"]["answers"])
        await asyncio.sleep(LOOK_EVERY)


async def run(port, number, utility, judges, rate, seconds, seed=0):
    """Let all judges answer for so many seconds."""
    figures, until = Figures(), time.monotonic() + seconds
    token = Client(port).begin().token
    tasks, clients = [], []
    for j in range(judges):
        rng = np.random.default_rng([seed, j])
        one, other = (AsyncClient(port, token, f"Judge {j}") for _ in range(2))
        clients += [one, other]
        tasks.append(judge_pairs(one, number, utility, rate / judges, until, figures, rng))
        tasks.append(look(other, until, figures, rng))
    await asyncio.gather(*tasks)
    for client in clients:
        client.close()
    return figures


def load(folder, *, items=1000, features=20, judges=50, rate=20.0, seconds=60.0, warm=True):
    """Figures of a new server, and the answers that it kept."""
    path, utility = make_feature_items(Path(folder) / "items.csv", items, features)
    options = ("--features", "all", "--judges") if features else ("--judges",)
    with ServerProcess(path, *options) as server:
        number = {i + 1: i for i in range(items)}  # a new store numbers items in their order
        if warm:  # until the process of the analysis has started
            client = server.client(judge="first")
            question = client.question()
            for _ in range(8):
                question = client.answer(question, 1)["question"]
            while client.state()["ranking"] is None:
                time.sleep(0.1)
        figures = asyncio.run(run(server.port, number, utility, judges, rate, seconds))
        assert server.stop() == 0
    return figures, read_store(server.store)


def main():
    """Print the figures of one run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--judges", type=int, default=50)
    parser.add_argument("--rate", type=float, default=20.0, help="answers a second, all together")
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--features", type=int, default=20)
    given = parser.parse_args()
    print(f"load of the machine before: {os.getloadavg()}")
    with tempfile.TemporaryDirectory() as folder:
        figures, kept = load(
            folder,
            items=given.items,
            features=given.features,
            judges=given.judges,
            rate=given.rate,
            seconds=60 * given.minutes,
        )
    n = len(figures.waits)
    print(f"{n} answers by {given.judges} judges, {n / (60 * given.minutes):.1f} a second")
    print(f"refused: {len(figures.problems)} {figures.problems[:3]}")
    known = kept.judges != "first"
    print(f"acknowledged {len(figures.acknowledged)}, kept {known.sum()}")
    for q in (0.5, 0.9, 0.99, 1.0):
        print(f"answer to next pair, quantile {q}: {figures.quantile(q):.1f} ms")
    print(f"ranking, quantile 0.99: {1000 * np.quantile(figures.looks, 0.99):.1f} ms")
    print(f"{len(figures.revisions)} rankings; the last is of {max(figures.revisions)} answers")
    print(f"load of the machine after: {os.getloadavg()}")
    sys.exit(int(bool(figures.problems) or known.sum() != len(figures.acknowledged)))


if __name__ == "__main__":
    main()
