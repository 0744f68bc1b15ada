"""Pictures of the page: ``python -m tests.ask.picture`` takes that of the README and the guide.

``--all FOLDER`` takes pictures of all sizes, light and dark, to look at.
"""

import argparse
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image
from tests.ask.common import ServerProcess, wait_for, write_items
from tests.chromium import chromium

TARGET = Path(__file__).resolve().parents[2] / "docs" / "asking.png"
SIZES = {"desk": (1180, 640), "tablet": (820, 1100), "phone": (375, 740)}
# From the best to the worst, as the simulated judges see it.
ESSAYS = {
    "A letter to my grandmother": "I have kept your recipes, but not your patience.",
    "The last bus": "It leaves at ten past eleven, and everybody on it has a reason.",
    "What the river took": "We counted the chairs first.",
    "On being left-handed": "Scissors were the first to tell me that the world is for others.",
    "Nine kinds of rain": "In our valley nobody asks whether it rains. We ask which of them it is.",
    "My brother's bicycle": "It was red until he painted it, and his until I learned to ride.",
    "How to lose at chess": "Begin with a plan. Tell nobody. Forget it by the tenth move.",
    "The museum of small things": "A button, a ticket, a key: my desk is full of exhibits.",
    "Why I do not run": "Everyone who runs past me looks as if they would rather walk.",
    "A summer job": "I sold ice cream for six weeks and learned to say no in four languages.",
    "My favourite season": "There are four seasons. My favourite season is the summer season.",
    "Technology today": "Since the dawn of time, technology has been important to society.",
}
JUDGES = {"Ana": 0.25, "Ben": 0.3, "Chiara": 0.9}  # with their noise


@contextmanager
def essays(folder, rounds):
    """A server with essays, after so many answers of each judge."""
    columns = {"title": list(ESSAYS), "opening": list(ESSAYS.values())}
    path = write_items(folder / "essays.csv", columns)
    utility = dict(zip(ESSAYS, np.linspace(2, -2, len(ESSAYS)).tolist(), strict=True))
    rng, told = np.random.default_rng(0), 0
    question = ("--question", "Which opening is better?", "--judges")
    with ServerProcess(path, *question) as server:
        clients = {name: server.client(judge=name) for name in JUDGES}
        for _ in range(rounds):
            for name, noise in JUDGES.items():
                answer(clients[name], utility, noise, rng)
                told += 1
                if told > 6:
                    wait_for(lambda n=told: analysed(clients["Ana"]) >= n)
        yield server


def answer(client, utility, noise, rng):
    """Answer the next pair."""
    question = client.question()
    left, right = (utility[question[side]["name"]] for side in ("left", "right"))
    difference = left - right + noise * rng.standard_normal()
    client.answer(question, 0 if abs(difference) < 0.1 else int(np.sign(difference)))


def analysed(client):
    """Number of answers behind the ranking."""
    ranking = client.state()["ranking"]
    return 0 if ranking is None else ranking["answers"]


def take(browser, address, path, size, scheme, judge=""):
    """Save a picture of the page."""
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        has_touch=size == "phone",
        device_scale_factor=1,
    )
    page = context.new_page()
    page.goto(address)
    if judge:
        page.fill("#judge-name", judge)
        page.keyboard.press("Enter")
        page.wait_for_selector("#choices button:enabled")
        page.wait_for_selector("#ranking-rows tr")
    page.wait_for_timeout(700)  # until the bar stands still
    page.screenshot(path=path, full_page=size != "desk")
    context.close()


def main():
    """Take the picture, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    folder = parser.parse_args().all
    with (
        tempfile.TemporaryDirectory() as scratch,
        chromium() as browser,
        essays(Path(scratch), 6) as server,
    ):
        if folder is None:
            take(browser, server.address, TARGET, "desk", "light", "Ana")
            Image.open(TARGET).convert("RGB").quantize(64).save(TARGET, optimize=True)
            return
        for size in SIZES:
            for scheme in ("light", "dark"):
                path = folder / f"{size}-{scheme}.png"
                take(browser, server.address, path, size, scheme, "Ana")
        take(browser, server.address, folder / "name.png", "desk", "light")


if __name__ == "__main__":
    main()
