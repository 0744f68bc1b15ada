"""Check built pages: internal links lead somewhere, and nothing is loaded from the network.

``python tools/check_site.py docs/_build/html`` prints every problem, and exits with code 1 if
there is one. ``make docs`` runs it.
"""

import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

# Attributes whose address a browser loads by itself when it shows a page.
LOADED = {
    ("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src"),
    ("audio", "src"), ("embed", "src"), ("object", "data"), ("use", "href"),
}  # fmt: skip
LOADED_RELATIONS = {"stylesheet", "icon", "preload", "modulepreload", "preconnect", "dns-prefetch"}
REMOTE = re.compile(r"(https?:)?//")
# Addresses that a stylesheet or a script loads.
STYLE = re.compile(r"(?:url\(\s*|@import\s+)[\"']?((?:https?:)?//[^\"')\s]+)")


@dataclass
class Page(HTMLParser):
    """Addresses and anchors of one page."""

    path: Path
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the addresses and anchors of a tag."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        for name, value in values.items():
            if (tag, name) in LOADED or (tag == "link" and name == "href" and loads(values)):
                self.loaded.append(value)
            elif tag == "a" and name == "href":
                self.links.append(value)
        self.loaded += STYLE.findall(values.get("style", ""))


def loads(values: dict[str, str]) -> bool:
    """Tell whether a browser loads the target of a ``link`` tag."""
    return bool(LOADED_RELATIONS & set(values.get("rel", "").split()))


def is_external(address: str) -> bool:
    """Tell whether an address leaves the site, or is no address of a file."""
    return bool(REMOTE.match(address)) or address.startswith(("mailto:", "data:", "javascript:"))


def broken(page: Page, pages: dict[Path, Page], root: Path) -> list[str]:
    """Return internal addresses of a page that lead nowhere."""
    found = []
    for address in page.links + page.loaded:
        if is_external(address):
            continue
        file, anchor = urldefrag(address)
        file = unquote(file.split("?")[0])
        base = root if file.startswith("/") else page.path.parent
        goal = (base / file.lstrip("/")).resolve() if file else page.path
        if goal.is_dir():
            goal /= "index.html"
        if not goal.exists() or (
            anchor and goal in pages and unquote(anchor) not in pages[goal].anchors
        ):
            found.append(f"{page.path.relative_to(root)}: {address} leads nowhere")
    return found


def remote(page: Page, root: Path) -> list[str]:
    """Return what a page loads from the network."""
    where = page.path.relative_to(root)
    return [f"{where}: loads {address}" for address in page.loaded if REMOTE.match(address)]


def remote_in_styles(root: Path) -> list[str]:
    """Return what stylesheets load from the network."""
    return [
        f"{path.relative_to(root)}: loads {address}"
        for path in sorted(root.rglob("*.css"))
        for address in STYLE.findall(path.read_text(encoding="utf-8"))
    ]


def problems(root: Path) -> list[str]:
    """Return all problems of the pages below a folder."""
    root = root.resolve()
    found = (path for path in root.rglob("*.html") if "_static" not in path.parts)
    pages = {path: Page(path) for path in sorted(found)}
    if not pages:
        return [f"{root} has no pages. Build them first, with `make docs`."]
    bad = remote_in_styles(root)
    for page in pages.values():
        bad += broken(page, pages, root) + remote(page, root)
    return bad


def main() -> int:
    """Print the problems of the folder that the first argument names."""
    found = problems(Path(sys.argv[1]))
    print("\n".join(found) or "All internal links lead somewhere, and nothing is loaded remotely.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
