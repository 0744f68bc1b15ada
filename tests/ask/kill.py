"""Servers that are killed again and again while judges answer: is every answer kept once?

``python -m tests.ask.kill --kills 50`` prints what was found.
"""

import argparse
import asyncio
import json
import random
import sqlite3
import sys
import tempfile
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

from tests.ask.common import DRINKS, AsyncClient, Client, ServerProcess, new_key, write_items
from tests.ask.judge import Judge
from tests.chromium import SLOWEST, chromium

from ordinalgp.preference import read_store


def kept(store):
    """Answers in a file, by key: left, right, outcome; as SQLite has them."""
    with closing(sqlite3.connect(store)) as database:
        rows = database.execute("SELECT key, left_item, right_item, outcome FROM answers")
        found = rows.fetchall()
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert len({key for key, *_ in found}) == len(found)
    return {key: tuple(rest) for key, *rest in found}


def page_through(folder, kills, browser, seed=0):
    """A judge at a page answers between, before and during kills; returns what was wrong."""
    names = [f"{drink} {i}" for drink in DRINKS for i in range(4)]
    path = write_items(Path(folder) / "drinks.csv", {"drink": names})
    utility = {name: place for place, name in enumerate(names)}
    rng, problems = random.Random(seed), []
    with ServerProcess(path) as server:
        context = browser.new_context()
        context.set_default_timeout(SLOWEST)
        page = context.new_page()
        judge = Judge(page, utility).open(server.address)
        n = 0
        for kill in range(kills):
            judge.answer()
            n += 1
            outcome = judge.outcome()
            moment = kill % 3
            if moment == 0:  # dead before the answer
                server.kill()
                page.keyboard.press({1: "ArrowLeft", 0: "t", -1: "ArrowRight"}[outcome])
            else:  # dead during or just after it
                page.keyboard.press({1: "ArrowLeft", 0: "t", -1: "ArrowRight"}[outcome])
                time.sleep(rng.uniform(0, 0.02) if moment == 1 else rng.uniform(0, 0.2))
                server.kill()
            page.wait_for_selector("#notice:not([hidden]):not(.good)")
            said = page.locator("#notice").text_content()
            if "does not answer" not in said:
                problems.append(f"kill {kill}: the page said {said!r}")
            server.start()
            page.wait_for_selector("#notice.good", state="attached")
            said = page.locator("#notice").text_content()
            if "Connected again" not in said:
                problems.append(f"kill {kill}: the page said {said!r}")
            page.wait_for_selector("#choices button:enabled")
            n += 1
            acknowledged = judge.kept()
            if len(acknowledged) != n:
                problems.append(f"kill {kill}: {len(acknowledged)} of {n} acknowledged")
        acknowledged = judge.kept()
        context.close()
        server.kill()
    found = kept(server.store)
    if set(found) != set(acknowledged) or len(acknowledged) != n:
        problems.append(f"kept {len(found)}, acknowledged {len(acknowledged)}, answered {n}")
    answers = read_store(server.store)
    for (left, right), outcome in zip(answers.named_comparisons, answers.outcomes, strict=True):
        if outcome != (1 if utility[left] > utility[right] else -1):
            problems.append(f"{left} and {right}: {outcome}")
    return n, problems


async def _hammer(port, token, page, acknowledged, sent, stopped, rng):
    """Answer as fast as it goes; send each answer until there is a reply."""
    client = AsyncClient(port, token, "")
    client.page = page
    while not stopped.is_set():
        left, right = rng.sample(range(1, 13), 2)
        given = {"key": new_key(), "page": page, "left": left, "right": right}
        given |= {"outcome": rng.choice([-1, 0, 1]), "seconds": 1.0}
        sent[given["key"]] = left, right, given["outcome"]
        while not stopped.is_set():
            try:
                status, content = await client.request("POST", "/api/answers", given)
            except (OSError, EOFError, IndexError, ValueError):
                await asyncio.sleep(0.05)
                continue
            if status == 200 and json.loads(content)["kept"] == given["key"]:
                acknowledged.add(given["key"])
                if rng.random() < 0.3:  # a copy that was on its way twice
                    with suppress(OSError, EOFError, IndexError, ValueError):
                        await client.request("POST", "/api/answers", given)
                break
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.01)
    client.close()


def hammer_through(folder, kills, judges=6, seed=0):
    """Fast clients answer while the server is killed at any moment; returns what was wrong."""
    path = write_items(Path(folder) / "fast.csv", {"drink": DRINKS})
    acknowledged, sent, stopped = set(), {}, threading.Event()
    rng = random.Random(seed)
    with ServerProcess(path) as server:
        token = Client(server.port).begin().token

        async def all_judges():
            tasks = [
                _hammer(server.port, token, f"page {j}", acknowledged, sent, stopped,
                        random.Random(f"{seed} {j}"))
                for j in range(judges)
            ]  # fmt: skip
            await asyncio.gather(*tasks)

        thread = threading.Thread(target=asyncio.run, args=(all_judges(),))
        thread.start()
        try:
            for _ in range(kills):
                before = len(acknowledged)
                while len(acknowledged) < before + 5:
                    time.sleep(0.005)
                time.sleep(rng.uniform(0, 0.3))
                server.kill()
                server.start()
            time.sleep(0.3)
        finally:
            stopped.set()
            thread.join()
        server.kill()
    found = kept(server.store)
    lost = acknowledged - set(found)
    changed = [key for key, content in found.items() if sent.get(key) != content]
    return len(acknowledged), len(found), len(lost), len(changed)


def main():
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        began = time.monotonic()
        n, problems = page_through(folder, given.kills, browser)
        print(f"page: {given.kills} kills, {n} answers, problems: {problems or 'none'}")
        print(f"{time.monotonic() - began:.0f} s")
    with tempfile.TemporaryDirectory() as folder:
        acknowledged, found, lost, changed = hammer_through(folder, given.kills)
        print(
            f"six fast clients: {given.kills} kills, {acknowledged} acknowledged, {found} kept, "
            f"{lost} lost, {changed} not as sent"
        )
    sys.exit(bool(problems or lost or changed))


if __name__ == "__main__":
    main()
