"""Files that are written whole or not at all."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Open a draft beside ``path``, moved there when all is written; a failure leaves no trace."""
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {str(target.parent)!r}. Create it first.")
    if target.is_dir():
        raise IsADirectoryError(f"{str(target)!r} is a folder, where a file is to be written.")
    draft = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with draft.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, draft)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
