"""Check a built wheel and sdist: ``python tools/check_dist.py dist [tests ...]``.

The wheel must be pure and below 1 MB, and hold the package alone. It is installed in an empty
environment, where the tests of the unpacked sdist are collected, and some of them run.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

MOST_BYTES = 1_000_000
TESTS = ("tests/gp", "tests/test_readme.py", "tests/cli/test_cli.py")


def find(folder: Path, pattern: str) -> Path:
    """The one file of a kind."""
    found = list(folder.glob(pattern))
    if len(found) != 1:
        sys.exit(f"{folder} must hold one {pattern}, but has {len(found)}. Run: make dist")
    return found[0].resolve()


def check_wheel(wheel: Path) -> None:
    """Exit unless the wheel is small, pure, and holds nothing but the package."""
    size = wheel.stat().st_size
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    others = sorted({name.split("/")[0] for name in names} - {"ordinalgp"})
    if not wheel.name.endswith("-py3-none-any.whl"):
        sys.exit(f"{wheel.name} is not pure.")
    if size >= MOST_BYTES:
        sys.exit(f"{wheel.name} has {size:,} bytes; at most {MOST_BYTES:,} are allowed.")
    if len(others) != 1 or not others[0].endswith(".dist-info"):
        sys.exit(f"{wheel.name} holds more than the package: {', '.join(others)}.")
    if "ordinalgp/py.typed" not in names:
        sys.exit(f"{wheel.name} lacks py.typed.")
    print(f"{wheel.name}: {size / 1000:.0f} kB, {len(names)} files")


def try_out(wheel: Path, sdist: Path, tests: tuple[str, ...]) -> None:
    """Install the wheel in an empty environment, and run tests of the sdist there."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (root,) = Path(folder).iterdir()
        environment = Path(folder) / "environment"
        venv.create(environment, with_pip=True)
        python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
        quiet = "--quiet", "--disable-pip-version-check"
        subprocess.run([python, "-m", "pip", "install", *quiet, f"{wheel}[test]"], check=True)
        told = "import ordinalgp; print(ordinalgp.__version__, ordinalgp.__file__)"
        subprocess.run([python, "-c", told], check=True, cwd=folder)
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        subprocess.run([*command, "--collect-only", "-qq", "tests"], check=True, cwd=root)
        subprocess.run([*command, *tests], check=True, cwd=root)


def main() -> None:
    """Check the files of a folder."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "dist")
    wheel, sdist = find(folder, "*.whl"), find(folder, "*.tar.gz")
    check_wheel(wheel)
    try_out(wheel, sdist, tuple(sys.argv[2:]) or TESTS)


if __name__ == "__main__":
    main()
