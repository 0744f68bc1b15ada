"""Files that are written whole or not at all, and never in the place of something else."""

import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from ordinalgp.runtime.scratch import draft_name, hold, remove_abandoned

AnyPath = str | PathLike[str]


@contextmanager
def whole_file(path: AnyPath) -> Iterator[BinaryIO]:
    """Open a draft that becomes ``path`` when all is written; a failure leaves no trace.

    A device, a pipe or the standard output is not replaced: all is written into it at the end.
    """
    check_place(path)
    if is_stream(path):
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            _pour(file, path)
        return
    target = Path(path).resolve()
    draft = _draft(target)
    try:
        with draft.open("xb") as file:
            hold(file)
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, draft)
        _replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def check_output(path: AnyPath, inputs: Iterable[AnyPath] = ()) -> None:
    """Raise unless a file can be written at ``path`` that is none of ``inputs``; leave no trace."""
    shown = os.fspath(path)
    for given in inputs:
        if is_same_file(path, given):
            raise ValueError(
                f"The output {shown!r} is the input {os.fspath(given)!r}, which would be lost. "
                "Give the output another name."
            )
    check_place(path)
    if is_stream(path):
        return
    target = Path(path).resolve()
    remove_abandoned(target.parent)
    _try(target, repr(shown))


def check_folder(path: AnyPath) -> None:
    """Raise unless ``path`` is a folder to write into, or can be made one; leave no trace."""
    folder = Path(path).absolute()
    while not folder.exists() and not folder.is_symlink():
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(f"{str(folder)!r} is not a folder, so nothing can be put into it.")
    _try(folder.resolve() / "file", f"A file in {str(folder)!r}")


def check_different(path: AnyPath, other: AnyPath) -> None:
    """Raise if two outputs are one file, of which the first would be lost."""
    if Path(path).resolve() == Path(other).resolve() and not is_stream(path):
        raise ValueError(
            f"Two outputs have the name {os.fspath(other)!r}, so one would be lost. "
            "Give one of them another name."
        )


def _try(target: Path, what: str) -> None:
    """Raise, with ``what`` for a subject, unless a file can be put beside ``target``."""
    draft = _draft(target)
    try:
        draft.open("xb").close()
    except OSError as error:
        raise OSError(
            f"{what} cannot be written: {error.strerror}. Choose another place."
        ) from error
    finally:
        draft.unlink(missing_ok=True)


def is_same_file(path: AnyPath, other: AnyPath) -> bool:
    """Whether two paths lead to one regular file, through links too."""
    with suppress(OSError):
        return stat.S_ISREG(os.stat(path).st_mode) and os.path.samefile(path, other)
    return False


def check_place(path: AnyPath) -> None:
    """Raise unless ``path`` has a folder, and is nothing that must not be overwritten."""
    shown = os.fspath(path)
    mode = _mode(path)
    if mode is None:
        # As the system reads it, too: "a/../b" is no place if there is no folder "a".
        for folder in (Path(path).parent, Path(path).resolve().parent):
            if not folder.is_dir():
                found = str(folder.absolute())
                raise FileNotFoundError(f"There is no folder {found!r}. Create it first.")
    elif stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{shown!r} is a folder, where a file is to be written.")
    elif stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        what = "a disk" if stat.S_ISBLK(mode) else "a socket"
        raise OSError(f"{shown!r} is {what}, where a file is to be written. Name a file.")
    elif not os.access(path, os.W_OK):
        raise PermissionError(f"{shown!r} is protected against writing. Choose another name.")


def _mode(path: AnyPath) -> int | None:
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_stream(path: AnyPath) -> bool:
    """Whether there is a device, a pipe or the standard output at ``path``."""
    mode = _mode(path)
    special = mode is not None and not stat.S_ISREG(mode)
    return special or _open_stream(path) is not None


def _open_stream(path: AnyPath) -> int | None:
    """The standard output or error if ``path`` leads there, which may be a file of the shell."""
    for stream in (1, 2):
        with suppress(OSError):
            found = os.fstat(stream)
            # Windows numbers no pipes and consoles, so that zeros would all look the same.
            if found.st_ino and os.path.samestat(os.stat(path), found):
                return stream
    return None


def _pour(file: BinaryIO, path: AnyPath) -> None:
    """Write all into what is at ``path``; an open stream goes on where it is."""
    stream = _open_stream(path)
    sys.stdout.flush()
    with open(path if stream is None else os.dup(stream), "wb") as target:
        shutil.copyfileobj(file, target)


def _replace(draft: Path, target: Path) -> None:
    """Put the draft in the place of ``target``; on Windows this fails while another has it open."""
    try:
        os.replace(draft, target)
    except PermissionError as error:
        raise PermissionError(
            f"{str(target)!r} cannot be replaced: {error.strerror}. If another program has it "
            "open, close it there, or choose another name."
        ) from error


def _draft(target: Path) -> Path:
    return target.with_name(draft_name(secrets.token_hex(8)))
