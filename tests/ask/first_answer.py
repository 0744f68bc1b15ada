"""Two commands in an empty environment, and the time until the first answer is kept.

``python -m tests.ask.first_answer`` installs the package from this folder.
"""

import os
import subprocess
import tempfile
import time
import venv
from pathlib import Path

from tests.ask.common import DRINKS, ServerProcess, write_items
from tests.ask.judge import Judge
from tests.chromium import chromium

from ordinalgp.preference import read_store

ROOT = Path(__file__).resolve().parents[2]


def main():
    """Print how long each step takes."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        environment = Path(folder) / "environment"
        venv.create(environment, with_pip=True)
        python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
        began = time.monotonic()
        command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*command, f"{ROOT}[ask]"], check=True)
        installed = time.monotonic()
        print(f"pip install '.[ask]': {installed - began:.1f} s")
        path = write_items(Path(folder) / "drinks.csv", {"drink": DRINKS})
        with ServerProcess(path, python=python) as server:
            judge = Judge(browser.new_page(), dict.fromkeys(DRINKS, 0)).open(server.address)
            shown = time.monotonic()
            judge.press("ArrowLeft")
            answered = time.monotonic()
            assert server.stop() == 0
        assert len(read_store(server.store)) == 1
        print(f"ordinalgp ask drinks.csv: {shown - installed:.1f} s to the first pair")
        print(f"first answer to the next pair: {answered - shown:.2f} s")


if __name__ == "__main__":
    main()
