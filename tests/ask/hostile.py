"""Tables of items that someone made to do harm, or by accident; drawn by hypothesis.

``python -m tests.ask.hostile --tables 1000`` shows each of so many in a browser.
"""

import argparse
import csv
import io
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.ask.common import ThreadServer, new_key
from tests.chromium import SLOWEST, chromium

from ordinalgp.ask import Answer, Survey, levels_for
from ordinalgp.ask.exports import answers_csv, ranking_csv
from ordinalgp.ask.items import LONGEST_NAME, LONGEST_TEXT, read_items
from ordinalgp.ask.service import Service
from ordinalgp.ask.store import Store
from ordinalgp.preference import read_store
from ordinalgp.tables.cells import cell_text
from ordinalgp.tables.files import TableFile

NASTY = [
    "<script>window.hacked=1</script>", "<img src=x onerror=window.hacked=2>", "</textarea><b>",
    "=1+1", "-1", "+1", "@SUM(A1)", "=HYPERLINK(\"http://evil\")", "' OR 1=1 --", "\\u0000", "%00",
    "../../etc/passwd", "../x.png", "a\x00.png", "C:\\x.png", "file:///etc/passwd", "a.svg",
    "\N{RIGHT-TO-LEFT OVERRIDE}gnp.exe", "\N{RIGHT-TO-LEFT ISOLATE}abc", "\u05e9\u05dc\u05d5\u05dd",
    "\u0645\u0631\u062d\u0628\u0627", "\N{ZERO WIDTH SPACE}", "\N{ZERO WIDTH JOINER}", "\ufeff",
    "Z" + "\u0351\u0328\u0353" * 40, "\N{FAMILY}" * 30, "\U0001f468\u200d\U0001f469", "x.JPG",
    "\u2028", "\u2029", "\x85", "\x1b[31mred\x1b[0m", "\x07", "\x7f", "NaN", "inf", "1e999", "NULL",
    "", " ", "\t", "\n", "\r\n", "a\nb", 'quo"te', "com,ma", "semi;colon", "None", "true", "#REF!",
    "constructor", "__proto__", "toString", "{{7*7}}", "${7*7}", "%s%n", "{0.__class__}",
]  # fmt: skip

anything = st.text(st.characters(codec="utf-8"), max_size=40)
cells = st.one_of(
    st.sampled_from(NASTY),
    anything,
    st.builds(lambda text, n: text * n, st.sampled_from(NASTY), st.integers(2, 500)),
    st.builds(lambda n: "word " * n, st.integers(2, 50_000)),
    st.integers(-(10**30), 10**30).map(str),
    st.floats().map(str),
)


@st.composite
def tables(draw):
    """Bytes of a file: a table of strange cells, some rows of which are equal.

    Most have different names of columns, and a name for every item; else they are refused.
    """
    careless = draw(st.integers(0, 7)) == 7
    names = st.one_of(st.sampled_from(["name", "text", "price", *NASTY]), anything)
    unique = None if careless else str.strip
    head = draw(st.lists(names, min_size=1, max_size=4, unique_by=unique))
    rows = draw(st.lists(st.lists(cells, min_size=len(head), max_size=len(head)), max_size=6))
    rows += [draw(st.sampled_from(rows)) for _ in range(draw(st.integers(1, 3))) if rows]
    if not careless:
        rows = [[cell_text(row[0]) or "item", *row[1:]] for row in rows or 2 * [head]]
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=draw(st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])))
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


def items_of(content, folder):
    """Items of a file, or None if it was refused in words."""
    path = Path(folder) / f"{new_key()}.csv"
    path.write_bytes(content)
    try:
        return read_items(TableFile(path))
    except ValueError as error:
        message = str(error)
        assert len(message) > 20
        assert message.rstrip().endswith((".", "?", "!", ")", "'", ":")), message[-80:]
        return None
    finally:
        path.unlink()


def check_items(items):
    """Facts that must hold for all items."""
    assert len(set(items.names)) == len(items.names) >= 2
    for name in items.names:
        assert 0 < len(name) <= LONGEST_NAME
        assert name.isprintable() or all(ord(c) >= 0xA0 or c.isprintable() for c in name)
        assert "\n" not in name
    for parts in items.parts:
        assert parts
        for part in parts:
            assert len(part.text) <= LONGEST_TEXT
            assert not set(part.text) & {"\x00", "\x1b", "\r", "\x7f", "\x85"}


def check_service(items, folder):
    """Answers about the items are kept, shown and exported."""
    path = Path(folder) / f"{new_key()}.db"
    survey = Survey(levels=levels_for(3), named_judges=True)
    with Store.open(path, items, survey) as store:
        service = Service(items, store)
        question = service.question("page", "\u202eeugduj")
        sides = {side: question[side]["item"] for side in ("left", "right")}
        answer = Answer(new_key(), **sides, outcome=1, judge="=1+1")
        assert store.record(answer)
        service.recorded(answer)
        shown = json.loads(json.dumps([service.question("page", "x"), service.state()]))
        assert shown[1]["answers"] == 1
        rows = list(csv.reader(io.StringIO(answers_csv(service).decode("utf-8-sig"))))
        assert [len(row) for row in rows] == [7, 7]
        assert not any(cell.lstrip()[:1] in ("=", "+", "@") for cell in rows[1])
        assert len(ranking_csv(service).splitlines()) == 1
    found = read_store(path)
    names = [items.names[store.numbers.index(number)] for number in sides.values()]
    assert found.named_comparisons.tolist() == [names]


KNOWN = "() => [...document.querySelectorAll('.content *')].map(n => n.tagName)"


def check_page(items, folder, page):
    """The page shows the items' texts as they are, and nothing of them runs."""
    with ThreadServer(items, Path(folder) / f"{new_key()}.db") as running:
        page.goto(running.address)
        page.wait_for_selector("#choices button:enabled")
        client = running.client()
        client.page = page.evaluate("() => JSON.parse(sessionStorage.page)")
        question = client.question()
        for side in ("left", "right"):
            texts = [part["text"] for part in question[side]["parts"] if "image" not in part]
            assert page.locator(f"#{side}-content .text").all_text_contents() == texts
        page.keyboard.press("ArrowLeft")
        page.wait_for_function("() => !document.getElementById('undo').disabled")
        assert running.n_answers == 1
        assert page.evaluate("() => window.hacked") is None
        assert set(page.evaluate(KNOWN)) <= {"DIV", "SPAN", "IMG"}
        width = page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        assert width[0] <= width[1]


def main():
    """Show many tables in a browser."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=1000)
    number = parser.parse_args().tables
    counts, began = Counter(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(SLOWEST)
        dialogs = []
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))

        @settings(
            max_examples=number,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(tables())
        def look(content):
            items = items_of(content, folder)
            counts["refused" if items is None else "shown"] += 1
            if items is not None:
                check_items(items)
                check_service(items, folder)
                check_page(items, folder, page)

        look()
        context.close()
    print(f"{dict(counts)}, dialogs: {dialogs}, {time.monotonic() - began:.0f} s")
    sys.exit(bool(dialogs))


if __name__ == "__main__":
    main()
