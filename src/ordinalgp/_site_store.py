"""Where a fit over chunks keeps its sites, and what it can go on from after an interruption."""

import hashlib
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray

_COLUMNS = 4  # precision and shift of the site; mean and variance of the row left out


@dataclass(eq=False)
class SiteStore:
    """Two copies of the sites, one read and one written in a pass, so that a pass can fail.

    In memory, or in a folder: then they are memory maps, and ``save`` makes a checkpoint.
    """

    n_rows: int
    folder: Path | None = None
    fingerprint: str = ""
    current: int = 0

    def __post_init__(self) -> None:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
        self._copies = [self._open(i) for i in (0, 1)]

    def _open(self, which: int) -> FloatArray:
        shape = (self.n_rows, _COLUMNS)
        if self.folder is None:
            return np.zeros(shape)
        path = self.folder / f"sites-{which}.npy"
        if path.exists():
            return np.lib.format.open_memmap(path, mode="r+")
        return np.lib.format.open_memmap(path, mode="w+", dtype=float, shape=shape)

    @property
    def old(self) -> FloatArray:
        """Sites of the last finished pass, (n_rows, 4)."""
        return self._copies[self.current]

    @property
    def new(self) -> FloatArray:
        """Sites of the pass under way."""
        return self._copies[1 - self.current]

    def finish_pass(self) -> None:
        """What was written is now what is read."""
        self.current = 1 - self.current

    def save(self, **state: Any) -> None:
        """Write a checkpoint, whole or not at all; nothing without a folder."""
        if self.folder is None:
            return
        for copy in self._copies:
            if isinstance(copy, np.memmap):
                copy.flush()
        draft = self.folder / f".{secrets.token_hex(8)}.npz"
        try:
            np.savez(draft, fingerprint=self.fingerprint, current=self.current, **state)
            os.replace(draft, self.folder / "state.npz")
        finally:
            draft.unlink(missing_ok=True)

    def load(self) -> dict[str, Any]:
        """What was saved, or nothing; a checkpoint of another fit is refused."""
        path = None if self.folder is None else self.folder / "state.npz"
        if path is None or not path.exists():
            return {}
        with np.load(path, allow_pickle=False) as file:
            state = {name: file[name] for name in file.files}
        if str(state.pop("fingerprint")) != self.fingerprint:
            raise ValueError(
                f"The checkpoint in {str(self.folder)!r} belongs to a fit with other parameters or "
                "other rows. Delete the folder to begin anew, or name another one."
            )
        self.current = int(state.pop("current"))
        return state

    def remove(self) -> None:
        """Delete the files; the fit is complete."""
        self._copies = [np.asarray(copy) for copy in self._copies]
        if self.folder is not None:
            for name in ("state.npz", "sites-0.npy", "sites-1.npy"):
                (self.folder / name).unlink(missing_ok=True)
            if not any(self.folder.iterdir()):
                shutil.rmtree(self.folder, ignore_errors=True)


def fingerprint_of(params: dict[str, Any], n_rows: int, first: Any) -> str:
    """Digest of what must not change between an interrupted fit and its continuation."""
    digest = hashlib.sha256(repr((sorted(params.items(), key=str), n_rows)).encode())
    for array in (first.X, first.codes, first.counts):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
