"""Draw the tree of "Which estimator": ``python docs/make_decision_tree.py``.

The picture is put into the page as it is, so that it takes the colours of the page, light or dark.
"""

from html import escape
from pathlib import Path

TARGET = Path(__file__).parent / "_static" / "which-estimator.svg"
TABLES = "../guide/tables-and-command-line.html"
LINE = 19  # height of a line of text
HALF = 100  # half the width of a box

# name: (x, y of its middle, lines, page that an answer leads to)
BOXES = {
    "data": (330, 30, ["What do your data say?"], None),
    "table": (150, 150, ["Does the table have", "words, gaps or dates?"], None),
    "pairs": (510, 150, ["PreferenceGP"], "../guide/comparisons.html"),
    "raters": (750, 150, ["Collaborative-", "OrdinalGP"], "../guide/raters.html"),
    "goal": (270, 270, ["What matters most?"], None),
    "TableModel": (104, 400, ["TableModel, or", "ordinalgp fit"], TABLES),
    "mixture": (318, 400, ["StackedOrdinalGP"], "../guide/mixtures.html"),
    "scale": (533, 400, ["Does one scale", "fit everybody?"], None),
    "sparse": (750, 400, ["SparseBayes-", "OrdinalClassifier"], "../guide/sparse-models.html"),
    "gp": (424, 525, ["OrdinalGPClassifier"], "../guide/probabilities.html"),
    "sequential": (641, 525, ["SequentialOrdinalGP"], "../guide/mixtures.html#sequential-models"),
}  # fmt: skip
# (from, to, words on the arrow, height at which the arrow turns)
ARROWS = [
    ("data", "table", ["a level per row:", "grades, stages, stars"], 62),
    ("data", "pairs", ["A is better than B"], 62),
    ("data", "raters", ["who rated what,", "and how high"], 62),
    ("table", "TableModel", ["yes"], 200),
    ("table", "goal", ["no"], 200),
    ("goal", "mixture", ["predictions"], 318),
    ("goal", "scale", ["a model to", "look into"], 318),
    ("goal", "sparse", ["a small model"], 318),
    ("scale", "gp", ["yes"], 452),
    ("scale", "sequential", ["no, or do not know"], 452),
]
STYLE = """
.box { fill: var(--pst-color-surface, #f3f4f5); stroke: var(--pst-color-border, #999); }
.answer { fill: var(--pst-color-primary-bg, #d6ebee); stroke: var(--pst-color-primary, #0a7d91); }
.arrow { fill: none; stroke: var(--pst-color-text-muted, #666); stroke-width: 1.5; }
.head { fill: var(--pst-color-text-muted, #666); }
text { fill: var(--pst-color-text-base, currentColor); font: 16px system-ui, sans-serif;
       text-anchor: middle; }
.note { font-size: 15px; fill: var(--pst-color-text-muted, #666); }
.answer-text { font-weight: 600; }
a:hover .answer { stroke-width: 2.5; }
"""


def height(name: str) -> int:
    """Return half the height of a box."""
    return 13 + LINE * len(BOXES[name][2]) // 2


def text(x: float, y: float, lines: list[str], kind: str) -> str:
    """Return lines of text around a middle."""
    top = y - LINE * (len(lines) - 1) / 2 + 5
    return "".join(
        f'<text x="{x}" y="{top + i * LINE:g}" class="{kind}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )


def box(name: str) -> str:
    """Return a box; an answer is a link."""
    x, y, lines, page = BOXES[name]
    half, kind = height(name), "answer" if page else "box"
    shape = (
        f'<rect x="{x - HALF}" y="{y - half}" width="{2 * HALF}" height="{2 * half}" '
        f'rx="{6 if page else half}" class="{kind}"/>'
    )
    drawn = shape + text(x, y, lines, "answer-text" if page else "")
    return f'<a href="{page}">{drawn}</a>' if page else drawn


def arrow(start: str, end: str, words: list[str], turn: int) -> str:
    """Return an arrow that goes down, across and down, with words above its head."""
    x0, y0 = BOXES[start][0], BOXES[start][1] + height(start)
    x1, y1 = BOXES[end][0], BOXES[end][1] - height(end)
    line = f'<path d="M{x0} {y0} V{turn} H{x1} V{y1 - 6}" class="arrow"/>'
    head = f'<path d="M{x1 - 4} {y1 - 8} h8 l-4 8 z" class="head"/>'
    label = "".join(
        f'<text x="{x1 + 8}" y="{turn + 19 + i * 17}" class="note" style="text-anchor: start">'
        f"{escape(word)}</text>"
        for i, word in enumerate(words)
    )
    return line + head + label


def main() -> None:
    """Write the picture."""
    parts = [arrow(*each) for each in ARROWS] + [box(name) for name in BOXES]
    TARGET.write_text(
        '<div class="diagram"><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 884 556" '
        f'role="img" aria-labelledby="tree-title"><title id="tree-title">Which estimator</title>'
        f"<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg></div>\n",
        encoding="utf-8",
        newline="\n",
    )


if __name__ == "__main__":
    main()
