"""Words and mean length of sentences, page by page.

``python tools/prose.py docs README.md`` prints a line per Markdown page. Code, tables, formulas,
headings, comments and directives do not count. An item of a list and a paragraph end a sentence.
"""

import re
import sys
from pathlib import Path

FENCE = re.compile(r"^(`{3,}|:{3,}).*?^\1 *$", re.DOTALL | re.MULTILINE)
FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$\n]+\$", re.DOTALL)
IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
START_OF_PART = re.compile(r"^\s*([-*]|\d+\.) ")
END_OF_SENTENCE = re.compile(r"(?<=[.!?])[)\"*]*\s+(?=[A-Z`\"(*0-9])")
WORD = re.compile(r"[^\W_]")


def paragraphs(text: str) -> list[str]:
    """Return the running text of a page: items of lists, and paragraphs."""
    text = LINK.sub(r"\1", IMAGE.sub("", FORMULA.sub("x", FENCE.sub("\n", text))))
    parts: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith(("|", "#", "    ", "<", "%")) or not line.strip():
            parts.append([])
            continue
        if START_OF_PART.match(line):
            parts.append([])
        parts[-1].append(START_OF_PART.sub("", line).strip())
    return [" ".join(part) for part in parts if part]


def sentences(text: str) -> list[int]:
    """Return the number of words of each sentence of a page."""
    found = (piece for part in paragraphs(text) for piece in END_OF_SENTENCE.split(part))
    counts = [sum(bool(WORD.search(word)) for word in piece.split()) for piece in found]
    return [count for count in counts if count]


def measure(path: Path) -> tuple[int, float, int]:
    """Return the words of a page, the mean length of its sentences, and the longest."""
    counts = sentences(path.read_text(encoding="utf-8"))
    return sum(counts), sum(counts) / max(len(counts), 1), max(counts, default=0)


def pages(names: list[str]) -> list[Path]:
    """Return the Markdown pages among files and below folders."""
    made = {"_build", "generated", "gallery"}
    found = []
    for name in map(Path, names):
        below = sorted(name.rglob("*.md")) if name.is_dir() else [name]
        found += [page for page in below if not made & set(page.relative_to(name).parts)]
    return found


def main() -> None:
    """Print a table of the pages that the arguments name."""
    print(f"{'page':46} words  words per sentence  longest")
    total, number = 0, 0.0
    for page in pages(sys.argv[1:]):
        words, mean, longest = measure(page)
        total, number = total + words, number + (words / mean if mean else 0)
        print(f"{page!s:46} {words:5}  {mean:18.1f}  {longest:7}")
    print(f"{'all':46} {total:5}  {total / max(number, 1):18.1f}")


if __name__ == "__main__":
    main()
