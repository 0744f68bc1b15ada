"""Storage of the sites of a fit over chunks, and checkpoints to resume it from."""

import hashlib
import os
import shutil
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray

SITE_COLUMNS = 5  # precision and shift of the site; mean and variance of the row left out; residual
_BYTES = 8 * SITE_COLUMNS
_READ_BYTES = 2**22


@dataclass(frozen=True, eq=False)
class Slot:
    """Place of one chunk's sites, read and written in a pass; it can be sent to a worker."""

    start: int
    stop: int
    old: FloatArray | Path | None
    """sites of the last pass: the chunk's own, or the file of all; None in the first pass"""
    new: Path | None = None

    def read(self) -> FloatArray | None:
        """Sites of the last pass, (c, 5), or None."""
        if not isinstance(self.old, Path):
            return self.old
        count, offset = SITE_COLUMNS * (self.stop - self.start), _BYTES * self.start
        return np.fromfile(self.old, count=count, offset=offset).reshape(-1, SITE_COLUMNS)

    def write(self, sites: FloatArray) -> FloatArray | None:
        """Put the sites into the file, or hand them back where there is none."""
        if self.new is None:
            return sites
        with self.new.open("r+b") as file:
            file.seek(_BYTES * self.start)
            file.write(np.ascontiguousarray(sites).data)
        return None


@dataclass(eq=False)
class SiteStore:
    """Two copies of the sites, one read and one written in a pass, so that a pass can fail.

    In memory, or in files of a folder: then workers read and write them, and ``save`` makes a
    checkpoint.
    """

    n_rows: int
    folder: Path | None = None
    fingerprint: str = ""
    passes: int = 0

    def __post_init__(self) -> None:
        if self.folder is None:
            self._copies = [np.empty((self.n_rows, SITE_COLUMNS)) for _ in (0, 1)]
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        for which in (0, 1):
            with self._path(which).open("ab") as file:
                file.truncate(_BYTES * self.n_rows)

    def _path(self, which: int) -> Path:
        assert self.folder is not None
        return self.folder.absolute() / f"sites-{which % 2}.bin"

    def slot(self, start: int, stop: int) -> Slot:
        """The place of some rows."""
        if self.folder is None:
            old = self._copies[self.passes % 2][start:stop]
            return Slot(start, stop, old if self.passes else None)
        old_path = self._path(self.passes) if self.passes else None
        return Slot(start, stop, old_path, self._path(self.passes + 1))

    def put(self, slot: Slot, sites: FloatArray) -> None:
        """Keep sites that a worker handed back."""
        self._copies[(self.passes + 1) % 2][slot.start : slot.stop] = sites

    def finish_pass(self) -> None:
        """Let the next pass read what this one has written."""
        self.passes += 1

    def left_out(self) -> FloatArray:
        """Latent mean and variance of every row left out, (n_rows, 2)."""
        found = self.slot(0, self.n_rows).read()
        return np.empty((0, 2)) if found is None else found[:, 2:4].copy()

    def save(self, **state: Any) -> None:
        """Write a checkpoint, whole or not at all; nothing without a folder."""
        if self.folder is None:
            return
        draft = self.folder / ".state.npz"  # one of a killed process is written over
        known: dict[str, Any] = {
            "fingerprint": self.fingerprint,
            "passes": self.passes,
            "checksum": self._sum(),
        }
        try:
            np.savez(draft, **known, **state)
            os.replace(draft, self.folder / "state.npz")
        finally:
            draft.unlink(missing_ok=True)

    def load(self) -> dict[str, Any]:
        """Return the saved state, or nothing; a checkpoint of another fit is refused."""
        path = None if self.folder is None else self.folder / "state.npz"
        if path is None or not path.exists():
            return {}
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                state = {name: file[name] for name in file.files}
            mark, passes = str(state.pop("fingerprint")), int(state.pop("passes"))
            checksum = int(state.pop("checksum"))
        except (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError) as error:
            raise self._damaged("state.npz cannot be read") from error
        if mark != self.fingerprint:
            raise ValueError(
                f"The checkpoint in {str(self.folder)!r} belongs to a fit with other parameters or "
                "other rows. Delete the folder to start again, or name another one."
            )
        self.passes = passes
        if self._sum() != checksum:
            name = self._path(passes).name
            raise self._damaged(f"{name} is not as it was written with state.npz")
        return state

    def _sum(self) -> int:
        """Checksum of the sites that the next pass reads."""
        found = 0
        with self._path(self.passes).open("rb") as file:
            while block := file.read(_READ_BYTES):
                found = zlib.crc32(block, found)
        return found

    def _damaged(self, reason: str) -> ValueError:
        return ValueError(
            f"The checkpoint in {str(self.folder)!r} is damaged: {reason}. Delete the folder to "
            "start again."
        )

    def remove(self) -> None:
        """Delete the files; the fit is complete."""
        if self.folder is not None:
            for name in ("state.npz", ".state.npz", "sites-0.bin", "sites-1.bin"):
                (self.folder / name).unlink(missing_ok=True)
            if not any(self.folder.iterdir()):
                shutil.rmtree(self.folder, ignore_errors=True)


def fingerprint_of(params: dict[str, Any], n_rows: int, first: Any) -> str:
    """Digest of what must not change between an interrupted fit and its continuation."""
    digest = hashlib.sha256(repr((sorted(params.items(), key=str), n_rows)).encode())
    for array in (first.X, first.codes, first.counts):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
