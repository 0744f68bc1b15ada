"""The zip file of a model: bounded reads, and writes that are whole or not at all."""

import io
import json
import math
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ordinalgp.persistence.registry import Refused

NPY_KINDS = "biufUSMm"
"""kinds of arrays that .npy files hold without pickle"""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# Bytes that a file may unpack to beyond its own size. Features that are mostly 0 deflate better;
# where that makes much memory of a small file, they are stored.
_FREE_BYTES = 64 * 2**20
_LARGEST_READ = 2**20  # bytes of the zip's directory, and of one step through a member
_KEPT_IN_MEMORY = 2**20  # bytes of a member that is not worth a file
_LARGEST_DOCUMENT = 16 * 2**20  # bytes of model.json
_MOST_VALUES = 750_000  # numbers, words, lists and objects in model.json
_LARGEST_HEADER = 2**16  # bytes before the values of a .npy file
_LONGEST_EMPTY = 10**7  # axis of an array without values


def write_zip(file: BinaryIO, members: dict[str, bytes]) -> None:
    """Write all members; equal models make equal files, as no time is recorded."""
    _check_document(members["model.json"])
    for method in reversed(_METHODS):  # members that deflate too well are stored as they are
        file.seek(0)
        file.truncate()
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in members.items():
                archive.writestr(zipfile.ZipInfo(name), content, method)
        if sum(map(len, members.values())) <= _most_bytes(file.tell()):
            return


def _most_bytes(file_size: int) -> int:
    """Bytes that a file of this size may unpack to."""
    return _FREE_BYTES + file_size


def npy_bytes(array: NDArray[Any]) -> bytes:
    """An array as a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


@dataclass(frozen=True, eq=False)
class _BoundedFile:
    """A file as zipfile needs it, without large reads: a directory of 1 GB is not taken in."""

    file: BinaryIO

    def read(self, size: int = -1) -> bytes:
        """Read some bytes; refuse if they are too many."""
        found = self.file.read(_LARGEST_READ + 1 if size < 0 else min(size, _LARGEST_READ + 1))
        if len(found) > _LARGEST_READ:
            raise Refused("its directory is larger than any model's. Do not trust its source.")
        return found

    def seek(self, place: int, whence: int = 0) -> int:
        """Go to a place."""
        if whence == io.SEEK_SET and place < 0:
            raise zipfile.BadZipFile("an address in it leads out of the file")
        return self.file.seek(place, whence)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the file's own."""
        return getattr(self.file, name)


@dataclass(frozen=True, eq=False)
class Archive:
    """A model file whose directory was checked: sizes are known, nothing is unpacked."""

    zip: zipfile.ZipFile
    on_disk: bool = False
    """whether arrays stay on disk, in files without a name"""
    given: set[str] = field(default_factory=set)
    """names of the arrays that were asked for"""

    @classmethod
    def open(cls, file: BinaryIO) -> "Archive":
        """Open a zip file and check its directory; arrays of a large one stay on disk."""
        archive: Any = _BoundedFile(file)
        size = file.seek(0, io.SEEK_END)
        opened = cls(zipfile.ZipFile(archive), size > _FREE_BYTES)
        opened._check_directory(_most_bytes(size))
        return opened

    def in_memory(self) -> "Archive":
        """The same file, of whose arrays none was asked for."""
        return Archive(self.zip)

    def _check_directory(self, most: int) -> None:
        members = self.zip.infolist()
        if len({member.filename for member in members}) < len(members):
            raise ValueError("two of its members have the same name")
        for member in members:
            if member.compress_type not in _METHODS:
                raise ValueError(f"{member.filename} is compressed in an unknown way")
        claimed = sum(member.file_size for member in members)
        if claimed > most:
            raise Refused(
                f"its members claim {claimed / 1e9:.1f} GB, more than a model file of its size "
                "unpacks to. Do not trust its source."
            )

    def document(self) -> dict[str, Any]:
        """The content of model.json."""
        try:
            member = self.zip.getinfo("model.json")
        except KeyError:
            raise Refused(
                "it is a zip file without model.json, so not a model. Check the path."
            ) from None
        steps = islice(_steps(self.zip, member), 1 + _LARGEST_DOCUMENT // _LARGEST_READ)
        text = b"".join(steps)
        _check_document(text)
        document = json.loads(text)
        return document if isinstance(document, dict) else {}

    def array(self, name: str) -> "NpyMember":
        """An array beside model.json, its values not yet read; each can be had once."""
        if name in self.given:
            raise ValueError(f"the array {name} has two places in model.json")
        self.given.add(name)
        member = NpyMember.of(self.zip, self.zip.getinfo(f"arrays/{name}.npy"))
        large = member.info.file_size > _KEPT_IN_MEMORY
        return replace(member, on_disk=self.on_disk and large)


def _check_document(text: bytes) -> None:
    """Raise unless a document takes little memory when it is parsed."""
    if len(text) > _LARGEST_DOCUMENT or sum(map(text.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise Refused(
            f"model.json has more than {_LARGEST_DOCUMENT / 2**20:.0f} MB or {_MOST_VALUES:,} "
            "values, the most that it may have. Use fewer or shorter names."
        )


def _steps(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """The content of a member, step by step."""
    with archive.open(member) as file:
        while step := file.read(_LARGEST_READ):
            yield step


@dataclass(frozen=True, eq=False)
class NpyMember:
    """A .npy file in an archive; the header must account for every byte before any is kept."""

    zip: zipfile.ZipFile
    info: zipfile.ZipInfo
    begin: int
    """bytes before the values"""
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    on_disk: bool = False

    @classmethod
    def of(cls, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> "NpyMember":
        """Read the header alone."""
        with archive.open(info) as file:
            stream = io.BytesIO(file.read(_LARGEST_HEADER))
        name = info.filename
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError(f"{name} has an unknown version of the .npy format")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        if dtype.kind not in NPY_KINDS:
            raise ValueError(f"{name} has dtype {dtype}")
        found, needed = info.file_size - stream.tell(), math.prod(shape) * dtype.itemsize
        if found != needed or min(shape, default=0) < 0:
            raise ValueError(f"{name} of shape {shape} needs {needed} bytes, but has {found}")
        if needed == 0 and max(shape, default=0) > _LONGEST_EMPTY:
            raise ValueError(f"{name} has shape {shape}, but no values")
        return cls(archive, info, stream.tell(), shape, fortran, dtype)

    def read(self) -> NDArray[Any]:
        """Read the values."""
        if self.on_disk:
            with suppress(OSError):  # where a disk has no room, memory may have some
                return self._mapped()
        content, filled = bytearray(self.info.file_size), 0
        for step in _steps(self.zip, self.info):
            content[filled : filled + len(step)] = step
            filled += len(step)
        values = np.frombuffer(content, self.dtype, offset=self.begin)
        return values.reshape(self.shape, order="F" if self.fortran else "C")

    def _mapped(self) -> NDArray[Any]:
        """The values in a file without a name, which is gone when they are."""
        with tempfile.TemporaryFile() as file:
            for step in _steps(self.zip, self.info):
                file.write(step)
            file.flush()
            order: Any = "F" if self.fortran else "C"
            return np.asarray(np.memmap(file, self.dtype, "r", self.begin, self.shape, order))
