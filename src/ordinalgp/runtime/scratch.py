"""Scratch folders and drafts, removed at the end; those of killed processes at the next start.

A process locks what it has begun, and the system opens the lock when the process ends, however it
ends. What carries our name and is not locked was left by a process that was killed.
"""

import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

_FOLDER, _LOCK = "ordinalgp-scratch-", "lock"
_DRAFT = re.compile(r"\.ordinalgp-[0-9a-f]{16}\.tmp")
_FILES = re.compile(rf"{_LOCK}|[\w-]+\.bin")  # of a scratch folder
_NEW = 60.0  # seconds in which a file is made and then locked


@contextmanager
def scratch_folder(beside: Path | None = None) -> Iterator[Path]:
    """Make a folder for scratch files; None: where the system keeps temporary files."""
    place = Path(tempfile.gettempdir()) if beside is None else beside
    remove_abandoned(place)
    with tempfile.TemporaryDirectory(prefix=_FOLDER, dir=place) as name:
        folder = Path(name)
        with (folder / _LOCK).open("xb") as file:
            hold(file)
            yield folder


def draft_name(token: str) -> str:
    """Name of a file that is not yet complete."""
    return f".ordinalgp-{token}.tmp"


def hold(file: IO[Any]) -> None:
    """Lock an open file until it is closed, or until the process ends."""
    with suppress(OSError, ImportError):  # on Windows an open file cannot be removed anyway
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


def remove_abandoned(place: Path) -> None:
    """Remove scratch folders and drafts in ``place`` whose processes have ended."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            with suppress(OSError):
                if _DRAFT.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    _remove_unlocked(Path(entry.path))
                elif entry.name.startswith(_FOLDER) and entry.is_dir(follow_symlinks=False):
                    _remove_folder(Path(entry.path))


def _remove_folder(folder: Path) -> None:
    """Remove our files of a folder that nobody has locked, and the folder if it is empty then."""
    if _remove_unlocked(folder / _LOCK):
        for path in folder.iterdir():
            if _FILES.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                path.unlink()
        folder.rmdir()


def _remove_unlocked(path: Path) -> bool:
    """Remove a file of this user that is not new and not locked; tell whether it was."""
    found = path.lstat()
    mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    if not mine or not stat.S_ISREG(found.st_mode) or time.time() - found.st_mtime < _NEW:
        return False
    try:
        import fcntl
    except ImportError:  # where removing an open file raises an error
        path.unlink()
        return True
    with open(os.open(path, os.O_RDWR | os.O_NOFOLLOW), "r+b") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    return True
