"""The zip file of a model: bounded reads, and writes that are whole or not at all."""

import io
import json
import math
import zipfile
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp.persistence.codec import NPY_KINDS
from ordinalgp.persistence.registry import Refused

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DEFLATE_RATIO = 1032  # bytes that one byte of a deflated stream can become, at most
_LARGEST_DOCUMENT = 64 * 2**20  # bytes of model.json
_LARGEST_HEADER = 2**16  # bytes before the values of a .npy file


def write_zip(file: Any, members: dict[str, bytes]) -> None:
    """Write all members; equal models make equal files, as no time is recorded."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)


def npy_bytes(array: NDArray[Any]) -> bytes:
    """An array as a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


@dataclass(frozen=True, eq=False)
class Archive:
    """A model file in memory, where damaged addresses lead nowhere."""

    zip: zipfile.ZipFile

    @classmethod
    def read(cls, content: bytes) -> "Archive":
        """Open a zip file and check its directory."""
        archive = cls(zipfile.ZipFile(io.BytesIO(content)))
        for member in archive.zip.infolist():
            if member.compress_type not in _METHODS:
                raise ValueError(f"{member.filename} is compressed in an unknown way")
            if member.file_size > _DEFLATE_RATIO * (member.compress_size + 1):
                raise Refused(
                    f"its member {member.filename!r} claims {member.file_size / 1e9:.1f} GB, more "
                    "than its bytes can hold. Do not trust its source."
                )
        return archive

    def document(self) -> dict[str, Any]:
        """The content of model.json."""
        try:
            size = self.zip.getinfo("model.json").file_size
        except KeyError:
            raise Refused(
                "it is a zip file without model.json, so not a model. Check the path."
            ) from None
        if size > _LARGEST_DOCUMENT:
            raise Refused("its model.json is larger than any model's. Do not trust its source.")
        document = json.loads(self.zip.read("model.json"))
        return document if isinstance(document, dict) else {}

    def array(self, name: str) -> "NpyMember":
        """An array beside model.json, its values not yet read."""
        return NpyMember(self.zip, self.zip.getinfo(f"arrays/{name}.npy"))


@dataclass(frozen=True, eq=False)
class NpyMember:
    """A .npy file in an archive; the header must account for every byte before any is kept."""

    zip: zipfile.ZipFile
    info: zipfile.ZipInfo

    @cached_property
    def _header(self) -> tuple[int, tuple[int, ...], bool, np.dtype[Any]]:
        with self.zip.open(self.info) as file:
            stream = io.BytesIO(file.read(_LARGEST_HEADER))
        name = self.info.filename
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError(f"{name} has an unknown version of the .npy format")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        if dtype.kind not in NPY_KINDS:
            raise ValueError(f"{name} has dtype {dtype}")
        found, needed = self.info.file_size - stream.tell(), math.prod(shape) * dtype.itemsize
        if found != needed or min(shape, default=0) < 0:
            raise ValueError(f"{name} of shape {shape} needs {needed} bytes, but has {found}")
        return stream.tell(), shape, fortran, dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape by the header."""
        return self._header[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type by the header."""
        return self._header[3]

    def read(self) -> NDArray[Any]:
        """Read the values."""
        begin, shape, fortran, dtype = self._header
        with self.zip.open(self.info) as file:
            file.read(begin)
            values = np.frombuffer(bytearray(file.read()), dtype)
        return values.reshape(shape, order="F" if fortran else "C")
