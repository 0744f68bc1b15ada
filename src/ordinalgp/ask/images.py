"""Pictures beside a table of items: found inside its folder only, and of known kinds only."""

from dataclasses import dataclass
from pathlib import Path

_KINDS = {
    ".png": ("image/png", (b"\x89PNG\r\n\x1a\n",)),
    ".jpg": ("image/jpeg", (b"\xff\xd8\xff",)),
    ".jpeg": ("image/jpeg", (b"\xff\xd8\xff",)),
    ".gif": ("image/gif", (b"GIF87a", b"GIF89a")),
    ".webp": ("image/webp", (b"RIFF",)),
    ".avif": ("image/avif", (b"\x00\x00\x00",)),
    ".svg": ("image/svg+xml", ()),
}
SUFFIXES = tuple(_KINDS)
LARGEST = 50_000_000
"""bytes of a picture"""
_HEAD = 1024  # bytes in which the beginning of an SVG must be


@dataclass(frozen=True)
class Picture:
    """A file to send."""

    path: Path
    media_type: str


@dataclass(frozen=True)
class ImageFolder:
    """Folder of a table, which paths of pictures are relative to and must not leave."""

    root: Path
    """without links"""

    def find(self, path: str | Path) -> Picture:
        """The picture at a path, or ValueError with the reason why it is not shown."""
        given = str(path)
        try:
            found = (self.root / given).resolve(strict=True)
        except (OSError, ValueError, RuntimeError) as error:
            raise ValueError(f"there is no file {given!r:.200} in {self.root}") from error
        if not self.holds(found):
            raise ValueError(f"{given!r:.200} is outside of the folder {self.root}")
        if not found.is_file():
            raise ValueError(f"{given!r:.200} is not a file")
        size = found.stat().st_size
        if size > LARGEST:
            raise ValueError(
                f"{given!r:.200} has {size / 1e6:.0f} MB, but at most {LARGEST / 1e6:.0f} are shown"
            )
        return Picture(found, self._media_type(found, given))

    def holds(self, resolved: Path) -> bool:
        """Whether a path without links and dots is inside the folder."""
        return resolved.is_relative_to(self.root)

    def problem(self, path: str) -> str | None:
        """The reason why the picture at a path is not shown; None if it is."""
        try:
            self.find(path)
        except ValueError as error:
            return str(error)
        return None

    def _media_type(self, path: Path, given: str) -> str:
        """Kind by the name of the file, which its first bytes must confirm."""
        if path.suffix.lower() not in _KINDS:  # a link to a file of another kind
            raise ValueError(f"{given!r:.200} leads to {path.name!r:.200}, which is no picture")
        media_type, beginnings = _KINDS[path.suffix.lower()]
        try:
            with path.open("rb") as file:
                head = file.read(_HEAD)
        except OSError as error:
            raise ValueError(f"{given!r:.200} cannot be read: {error.strerror}") from error
        fits = b"<svg" in head if not beginnings else head.startswith(beginnings)
        if not fits:
            kind = path.suffix.lower().removeprefix(".").upper()
            raise ValueError(f"{given!r:.200} does not hold a {kind} picture")
        return media_type
