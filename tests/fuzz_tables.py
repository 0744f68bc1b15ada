"""Random tables and options on the command line: only answers, or errors that say what to do.

``python -m tests.fuzz_tables --minutes 60 --seed 1`` tries as many as so many minutes of processor
time allow, and prints the failures; the files of each failure are kept. One case in six is a file
of comparisons to rank.
"""

import argparse
import contextlib
import csv
import gzip
import io
import math
import os
import shlex
import shutil
import signal
import tempfile
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

SECONDS = 120  # of processor time, after which a command counts as hanging
NAMES = [
    "age", "dose", "town", "x y", "a,b", "q'uote", 'q"uote', "$x^2$", "Größe", "", "level", "line",
    "p_low", "lower", "target", "grade", "grade ", "missing", "-o", "--drop", "=1+1", "名前",
    "\ufeff", "a" * 300, "1", "nan", "<b>", "col\nnew", "{}", "%s", "[bold]",
]  # fmt: skip
NUMBERS = [
    "0", "1", "2", "3", "-1", "2.5", "1e308", "-1e308", "1e-320", "1e400", "inf", "nan", "-0", "+3",
    "1_000", "1,5", "1.000,5", "1,000.5", "٣", "0x10", "5%", "$5", "1e5", "NaN", "5 ", "'5",
]  # fmt: skip
WORDS = [
    "low",
    "mid",
    "high",
    "yes",
    "no",
    "A",
    "b",
    "Köln",
    "none",
    "None",
    "[red]",
    "a;b",
    "x" * 40,
]
UNITS = [
    "5%",
    "12 %",
    "$5",
    "-$5",
    "€1,234.50",
    "1'000",
    "1,234,567",
    "7 kg",
    "(5)",
    "1e-3",
    "3E+2",
]
MORE_DATES = [
    "2024-01-31T10:00:00Z", "2024-01-31T10:00:00+02:00", "31-Jan-2024", "Jan 31, 2024", "2024-01",
    "1/2/2024", "10:30", "20240131", "2024-W05",
]  # fmt: skip
FLAGS = [["yes", "no"], ["TRUE", "FALSE"], ["Y", "n", "N"], ["0", "1"], ["t", "f", ""]]
GAPS = ["", "NA", "n/a", "#N/A", "?", "NULL", " ", "<NA>", "-999"]
DATES = ["2024-01-31", "2023-02-28 10:00", "31.12.2024", "2024-13-45", "1700000000"]
MODELS = ["laplace", "gp", "least-squares", "sparse", "sequential", "auto"]


INNER = [
    "Error: [Errno", "Expected 2D array", "could not convert", "object has no", "NoneType",
    "zero-size", "out of bounds", "unsupported", "not supported between", "ufunc", "Found array",
    "must be 1-dimensional", "positional argument", "only integer scalar", "broadcast",
]  # fmt: skip
"""parts of messages that no user should read: they come from inside"""


class Hang(BaseException):
    """A command that did not end in time."""


@dataclass(frozen=True)
class Case:
    """A table as bytes, another one for predictions, and the words after the file's name."""

    suffix: str
    first: bytes
    second: bytes
    options: tuple[str, ...]
    reading: tuple[str, ...]
    later: tuple[str, ...]
    """a further command on the model"""
    using: tuple[str, ...] = ()
    """options of ``predict``"""


def _mostly(usual, unusual, often=9):
    return st.integers(0, often).flatmap(lambda k: unusual if k == 0 else usual)


ABOVE = [
    "Survey 2024\n",
    "Survey{0}{0}\n\n",
    "# ours\n",
    "\n\n",
    "sep={0}\n",
    " \n",
    "\ufeff",
    "1\n",
]
LEVELS = [["low", "mid", "high"], ["1", "2", "3"], ["0.5", "1", "1.5", "2"], ["no", "yes"]]


@st.composite
def _column(draw, n, wild):
    """Cells of one column: of one kind, with some of another."""
    numbers = st.floats(-1e3, 1e3).map(lambda x: f"{x:.4g}")
    unit = draw(st.sampled_from(["%", " %", "$", " €", " kg", ""]))
    marks = st.just(draw(st.sampled_from([",", ".", "'", " ", "\u202f"])))
    kinds = {
        "number": numbers,
        "integer": st.integers(0, 5).map(str),
        "word": st.sampled_from(WORDS[: draw(st.integers(1, len(WORDS)))]),
        "date": st.sampled_from(DATES[:1]),
        "text": st.text(max_size=6),
        "mixed": st.one_of(numbers, st.sampled_from(WORDS), st.sampled_from(NUMBERS)),
        "constant": st.just(draw(st.sampled_from([*NUMBERS, *WORDS, ""]))),
        "dates": st.sampled_from([*DATES, *MORE_DATES]),
        "unit": st.sampled_from(UNITS[: draw(st.integers(1, len(UNITS)))]),
        "same unit": numbers.map(lambda x: f"{x}{unit}"),
        "thousands": st.integers(0, 10**9).map(lambda x: f"{x:,}".replace(",", draw(marks))),
        "huge": st.integers(-(10**40), 10**40).map(str),
        "tiny": st.floats(0, 1e-300).map(repr),
        "flag": st.sampled_from(draw(st.sampled_from(FLAGS))),
        "id": st.integers(0, 10**6).map(lambda x: f"P-{x:07d}"),
        "date of many": st.dates().map(str),
    }
    usual = ["number", "number", "integer", "word", "flag", "same unit", "date of many", "huge"]
    kind = draw(st.sampled_from(list(kinds) if wild else usual))
    gaps = st.sampled_from(GAPS[:8])
    odd = st.one_of(gaps, st.sampled_from(NUMBERS), st.sampled_from(WORDS)) if wild else gaps
    cell = _mostly(kinds[kind], odd, draw(st.sampled_from([3, 30, 1000])))
    return draw(st.lists(cell, min_size=n, max_size=n))


@st.composite
def _target(draw, n, levels, wild):
    """Cells of the target: a few levels, mostly."""
    odd = st.one_of(st.sampled_from(GAPS), st.sampled_from(NUMBERS), st.text(max_size=3))
    cell = _mostly(st.sampled_from(levels), odd, 20 if wild else 2000)
    return draw(st.lists(cell, min_size=n, max_size=n))


@st.composite
def _written(draw, names, n, style, levels, wild):
    """A table with these columns as bytes, mostly well-formed."""
    separator, quoting, end, encoding = style
    columns = [
        draw(_target(n, levels, wild) if name == "grade" else _column(n, wild)) for name in names
    ]
    out = io.StringIO()
    options = {"quoting": quoting, "lineterminator": end, "escapechar": "\\"}
    writer = csv.writer(out, delimiter=separator, **options)
    writer.writerow(names)
    for row in map(list, zip(*columns, strict=True)):
        writer.writerow(row[: len(row) // 2] if wild and draw(st.integers(0, 50)) == 0 else row)
    above = draw(_mostly(st.just(""), st.sampled_from(ABOVE), 5 if wild else 40)).format(separator)
    return (above + out.getvalue()).encode(encoding, errors="replace")


def _damaged(content, place, kind):
    at = place % max(1, len(content))
    if kind == "cut":
        return content[:at]
    return content[:at] + bytes([place % 256]) + content[at + 1 :] if kind == "byte" else content


@st.composite
def _tables(draw, wild):
    """Names of the columns, the levels, and two tables with them."""
    usual = st.lists(st.sampled_from(NAMES[:14]), min_size=1, max_size=5, unique=True)
    names = draw(st.lists(st.sampled_from(NAMES), max_size=6) if wild else usual)
    names = [*names, *(["grade"] * draw(st.integers(0, 20).map(bool)) if wild else ["grade"])]
    levels = draw(st.sampled_from(LEVELS))
    style = (
        draw(st.sampled_from([",", ",", ";", "\t", "|"])),
        draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
        draw(st.sampled_from(["\n", "\r\n"])),
        draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"] + ["latin-1"] * wild)),
    )
    n = draw(st.integers(0, 9) if wild else st.integers(8, 30))
    first = draw(_written(names, n, style, levels, wild))
    if wild:
        kind = draw(st.sampled_from(["", "", "", "cut", "byte"]))
        first = _damaged(first, draw(st.integers(0, 10**6)), kind)
    other = _written(names, draw(st.integers(0, 8)), style, levels, draw(st.booleans()))
    return names, levels, first, first if draw(st.booleans()) else draw(other)


def _option(name, values):
    return st.sampled_from(values).map(lambda value: (name, value))


def _reading(draw, wild):
    """Options of all commands that read the file."""
    skip = draw(st.sampled_from([(), ("--on-bad-rows", "skip")]))
    odd = st.one_of(
        _option("--separator", [",", ";", "tab", " ", "xx", ""]),
        _option("--decimal", [",", ".", "x"]),
        _option("--encoding", ["utf-8", "latin-1", "utf-16", "nonsense"]),
        _option("--missing", ["-999", "none,x", ""]),
    )
    usual = st.one_of(st.just(()), _option("--missing", ["-999", "none,b"]))
    return (*skip, *draw(odd if wild else usual))


def _training(draw, names, levels, wild):
    """Options of a fit."""
    right = ("--categories", ",".join(levels))
    order = draw(_mostly(st.just(right), _option("--categories", ["low,low", "x", ",", "1,2"])))
    order = order if wild or levels[0] in ("low", "no") else ()
    name = names[:-1] or ["age"]
    name = [*name, *NAMES[:3]] if wild else name
    options = st.one_of(
        *(_option(option, name) for option in ("--drop", "--nominal", "--numeric", "--groups")),
        _option("--increasing", name),
        _option("--kernel", ["ard", "rbf", "additive", "linear", "exponential", "auto"]),
        _option("--decision", ["mode", "median", "balanced", "mean"]),
        _option("--cut", ["2", "5"] + ["0", "-1", "x"] * wild),
        _option("--cut-at", ["1,2", "0.7"] + ["x", "2,1", ""] * wild),
        st.just(("--json",)),
    )
    more = draw(st.lists(options, max_size=3 if wild else 1))
    model = draw(st.sampled_from(MODELS[:4] * 3 + MODELS))
    folds = draw(st.sampled_from(["0", "0", "0", "2", "3"]))
    target = draw(_mostly(st.just("grade"), st.sampled_from(name), 20)) if wild else "grade"
    flat = [word for pair in more for word in pair]
    return ("--target", target, "--model", model, "--folds", folds, *order, *flat)


@st.composite
def _cases(draw):
    wild = draw(st.integers(0, 3)) == 0
    names, levels, first, second = draw(_tables(wild))
    suffix = draw(st.sampled_from([".csv", ".csv", ".txt", ".csv.gz"]))
    if suffix.endswith("gz"):
        first, second = gzip.compress(first), gzip.compress(second)
    later = draw(st.sampled_from(["", "", "report", "explain", "compare"]))
    training = _training(draw, names, levels, wild)
    if not wild and draw(st.integers(0, 4)) == 0:
        suffix = draw(st.sampled_from([".parquet", ".xlsx"]))
        first, second = (draw(_typed(names, levels, suffix, n)) for n in (20, 5))
    reading = _reading(draw, wild) if suffix not in (".parquet", ".xlsx") else ()
    using = _using(draw, names, wild)
    return Case(suffix, first, second, training, reading, (later,) if later else (), using)


@st.composite
def _typed(draw, names, levels, suffix, n):
    """A table with types as Parquet or Excel."""
    import pandas as pd

    n = draw(st.integers(max(2, n // 2), n))
    columns = {name: draw(_typed_column(n)) for name in names}
    ranks = draw(st.lists(st.integers(0, len(levels) - 1), min_size=n, max_size=n))
    grade = pd.Categorical.from_codes(ranks, levels, ordered=draw(st.booleans()))
    columns["grade"] = grade if draw(st.booleans()) else pd.Series(grade).astype(str)
    frame, file = pd.DataFrame(columns), io.BytesIO()
    if suffix == ".parquet":
        frame.to_parquet(file)
    else:
        frame.to_excel(file, index=False)
    return file.getvalue()


@st.composite
def _typed_column(draw, n):
    import pandas as pd

    kinds = {
        "float64": st.one_of(st.none(), st.floats(-1e6, 1e6)),
        "Int64": st.one_of(st.none(), st.integers(-(2**60), 2**60)),
        "boolean": st.one_of(st.none(), st.booleans()),
        "string": st.one_of(st.none(), st.sampled_from(WORDS)),
        "category": st.sampled_from(WORDS[:3]),
        "datetime64[s]": st.one_of(st.none(), st.sampled_from(["2024-01-31", "1969-12-31 23:59"])),
        "timedelta64[s]": st.integers(0, 10**6),
    }
    kind = draw(st.sampled_from(list(kinds)))
    cells = draw(st.lists(kinds[kind], min_size=n, max_size=n))
    if kind == "datetime64[s]":
        return pd.Series(pd.to_datetime(cells, format="mixed"))
    if kind == "timedelta64[s]":
        return pd.Series(pd.to_timedelta(cells, unit="s"))
    return pd.Series(cells, dtype=kind)


def _using(draw, names, wild):
    """Options of ``predict``."""
    options = st.one_of(
        st.just(()),
        _option("--keep", [*names[:3], "grade"] if names else ["grade"]),
        _option("--coverage", ["0.5", "1", "0"] + ["2", "x"] * wild),
        _option("--decision", ["median", "balanced"] + ["nowhere.csv"] * wild),
        _option("--on-new-values", ["use", "stop"]),
    )
    return tuple(draw(options))


cases = _cases()
ITEMS = ["a", "b", "c", "Köln", "1", "2.0", "tie", "x,y", "none", "[red]"]
SIDES = [("left", "right"), ("winner", "loser"), ("item_a", "item_b"), ("A", "B"), ("x", "grade")]
OUTCOMES = [
    ["1", "-1", "0"], ["1", "0"], ["1", "0.5", "0"], ["2", "1"], ["3", "2", "-1", "-2"],
    ["left", "right", "tie"], ["win", "loss"], ["ja", "nein"], ["yes", "no", "both"], ["1"],
    ["better", "same", "worse"], ["1e400", "nan", "5"], [str(k) for k in range(30)],
]  # fmt: skip


@dataclass(frozen=True)
class Ranking:
    """Items, or none, comparisons of them, and options."""

    items: bytes | None
    comparisons: bytes
    options: tuple[str, ...]


@st.composite
def _rankings(draw):
    return draw(_wild_rankings() if draw(st.integers(0, 3)) == 0 else _usual_rankings())


KNOWN_OUTCOMES = [
    (["1", "-1", "0"], ()),
    (["1", "0.5", "0"], ()),
    (["1", "0"], ("--levels", "0,1")),
    (["left", "right", "tie"], ()),
    (["L", "R"], ("--levels", "R,L")),
    (["win", "loss", "draw"], ("--levels", "loss,draw,win")),
    (["better", "same", "worse"], ("--levels", "worse,same,better")),
    (["3", "2", "-1", "-2"], ()),
    (["1", "2", "3", "4", "5", "6"], ("--levels", "1,2,3,4,5,6")),
]  # fmt: skip
"""outcomes, and the options that they need"""


@st.composite
def _usual_rankings(draw):
    """Comparisons that can be ranked, if an item is not only compared with itself."""
    names = draw(st.lists(st.sampled_from(ITEMS), min_size=2, max_size=8, unique=True))
    pair = st.permutations(names).map(lambda order: tuple(order[:2]))
    pairs = draw(st.lists(pair, min_size=6, max_size=25))
    sides = draw(st.sampled_from(SIDES[:4]))
    columns, rows, options = list(sides), [list(pair) for pair in pairs], ()
    kind = draw(st.sampled_from(["none", "outcome", "outcome", "outcome", "winner"]))
    if kind == "outcome" and sides != ("winner", "loser"):
        words, options = draw(st.sampled_from(KNOWN_OUTCOMES))
        columns.append(draw(st.sampled_from(["outcome", "result"])))
        options = ("--outcome", columns[-1], *options)
        rows = [[*row, draw(st.sampled_from(words))] for row in rows]
    elif kind == "winner" and sides != ("winner", "loser"):
        columns.append("winner")
        rows = [[*row, row[draw(st.integers(0, 1))]] for row in rows]
    if draw(st.booleans()):
        columns.append("when")
        rows = [[*row, draw(st.sampled_from(DATES[:2]))] for row in rows]
        options = options or (("--outcome", "none") if len(columns) == 3 else ())
    listed = draw(_listed_items(names)) if draw(st.booleans()) else None
    more = st.one_of(
        _option("--next", ["1"]),
        _option("--coverage", ["0.5", "0.99"]),
        _option(
            "--kernel", ["auto", "none"] if listed is None else ["rbf", "ard", "none", "linear"]
        ),
        _option("--max-sweeps", ["1", "50"]),
        st.just(("--position-bias",)),
        st.just(("--json",)),
    )
    flat = [
        word for pair in draw(st.lists(more, max_size=2, unique_by=lambda x: x[0])) for word in pair
    ]
    return Ranking(listed, _csv(columns, rows), (*options, *flat))


@st.composite
def _listed_items(draw, names):
    """A table of the items, perhaps with others, and with features of any kind."""
    others = [name for name in ITEMS if name not in names]
    known = (
        [*names, *draw(st.lists(st.sampled_from(others), max_size=2, unique=True))]
        if others
        else names
    )
    n, more = len(known), draw(st.integers(0, 2))
    columns = [draw(_column(n, False)) for _ in range(more)]
    return _csv(["name", "x", "age"][: 1 + more], list(zip(known, *columns, strict=True)))


@st.composite
def _wild_rankings(draw):
    """Comparisons of any kind; most are refused."""
    names = draw(st.lists(st.sampled_from(ITEMS), min_size=2, max_size=8, unique=True))
    columns = [*draw(st.sampled_from(SIDES)), *draw(st.lists(st.sampled_from(NAMES), max_size=2))]
    more = draw(st.sampled_from([[], ["outcome"], ["target"], ["winner"], ["wer"], ["line"]]))
    words = draw(st.sampled_from(OUTCOMES))
    outcome = _mostly(st.sampled_from(words), st.sampled_from(GAPS + ITEMS), 30)
    item = _mostly(st.sampled_from(names), st.sampled_from(GAPS + ITEMS), 30)
    cell = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(WORDS))
    kinds = [item, item, *([cell] * (len(columns) - 2)), *([outcome] * len(more))]
    rows = draw(st.lists(st.tuples(*kinds), max_size=25))
    listed = None
    if draw(st.booleans()):
        known = names + draw(st.lists(st.sampled_from(ITEMS), max_size=2))
        extra = st.tuples(cell, st.floats(-9, 9).map(str))
        listed = _csv(["name", "x", "age"], [(name, *draw(extra)) for name in known])
    options = st.one_of(
        _option("--outcome", [*more, *columns, "none"]),
        _option("--levels", [",".join(words), ",".join(words[::-1]), "0,1", "x"]),
        *(_option(side, columns) for side in ("--left", "--right")),
        _option("--kernel", ["auto", "rbf", "ard", "linear", "none", "x"]),
        _option("--drop", ["x", "age", "name", "y"]),
        _option("--on-bad-rows", ["skip", "error"]),
        _option("--missing", ["none", "0"]),
        _option("--max-sweeps", ["1", "0"]),
        st.just(("--json",)),
    )
    flat = [word for pair in draw(st.lists(options, max_size=3)) for word in pair]
    return Ranking(listed, _csv([*columns, *more], rows), tuple(flat))


def _csv(names, rows):
    out = io.StringIO()
    csv.writer(out).writerows([names, *rows])
    return out.getvalue().encode()


rankings = _rankings()


@contextlib.contextmanager
def _time_limit():
    """Raise Hang after SECONDS of processor time; a pause by other processes is no hang."""
    if not hasattr(signal, "setitimer"):  # on Windows
        yield
        return

    def stop(number, frame):
        raise Hang(f"not done after {SECONDS} s of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def call(arguments):
    """Exit code and both outputs of a command; whatever else it raises is a failure."""
    from ordinalgp.cli.main import build

    out, err, code = io.StringIO(), io.StringIO(), 0
    with _time_limit(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            build()(list(arguments))
        except SystemExit as stopped:
            code = stopped.code or 0
    return code, out.getvalue(), err.getvalue()


def check(case, folder, outcomes):
    """Fit, evaluate, predict, and one more command; raise AssertionError at a bad answer."""
    first, second = folder / f"first{case.suffix}", folder / f"second{case.suffix}"
    first.write_bytes(case.first)
    second.write_bytes(case.second)
    model, out = folder / "m.ogp", folder / "out.csv"
    code = _answer(["fit", str(first), *case.options, *case.reading, "-o", str(model)], outcomes)
    if case.later == ("compare",):
        _answer(_comparison(case, first), outcomes)
    if code:
        assert not model.exists(), "an error left a model"
        return
    _answer(["evaluate", str(model), str(second), *case.reading], outcomes)
    predict = ["predict", str(model), str(second), *case.reading, *case.using, "-o", str(out)]
    if not _answer(predict, outcomes):
        _check_predictions(out)
    if case.later == ("report",):
        code = _answer(["report", str(model), "-o", str(folder / "r.html")], outcomes)
        assert code == 0, "a model that was fitted has no report"
    if case.later == ("explain",):
        _answer(["explain", str(model), str(second), *case.reading, "--row", "1"], outcomes)


def check_ranking(case, folder, outcomes):
    """Rank; raise AssertionError at a bad answer."""
    out, files = folder / "out.csv", [folder / "comparisons.csv"]
    files[0].write_bytes(case.comparisons)
    if case.items is not None:
        files.insert(0, folder / "items.csv")
        files[0].write_bytes(case.items)
    code = _answer(["rank", *map(str, files), *case.options, "-o", str(out)], outcomes)
    assert out.exists() == (code == 0)
    if code:
        return
    with out.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["rank"]) for row in rows] == list(range(1, len(rows) + 1))
    values = [float(row["utility"]) for row in rows]
    assert all(map(math.isfinite, values))
    assert values == sorted(values, reverse=True)
    assert abs(sum(float(row["probability_best"]) for row in rows) - 1) < 1e-3


def _comparison(case, first):
    own = ("--model", "--folds", "--kernel", "--decision", "--increasing", "--json")
    kept, words = [], iter(case.options)
    for word in words:
        if word in own:
            next(words) if word != "--json" else None
        else:
            kept.append(word)
    models = ("--models", "gp,logistic", "--folds", "2", "--jobs", "1")
    return ["compare", str(first), *kept, *case.reading, *models]


def _answer(arguments, outcomes):
    code, out, err = call(arguments)
    told = f"{shlex.join(arguments)}\n{out}\n{err}"
    assert code in (0, 2), f"exit code {code}: {told}"
    assert "Traceback" not in out + err, told
    if code == 2:
        assert "Error" in err, told
        reason = err[err.index("Error") :].strip()
        assert len(reason) > len("Error: ") + 8, told
        for inner in INNER:
            assert inner not in err, told
    outcomes[(arguments[0], code)] += 1
    return code


def _check_predictions(path):
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    if not rows:
        return
    names = rows[0]
    own = names.index("upper")  # before it are columns of --keep, which may have any name
    places = [at for at, name in enumerate(names) if at > own and name.startswith("p_")]
    for row in rows[1:]:
        p = [float(row[at]) for at in places]
        assert all(math.isfinite(x) and x >= 0 for x in p), f"probabilities {p}"
        assert abs(sum(p) - 1) < 1e-9, f"probabilities {p}"


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    given_ = parser.parse_args()
    outcomes, places, failures, number = Counter(), Counter(), 0, 0

    def used():
        return sum(os.times()[:4]) / 60

    def one(case):
        nonlocal failures, number
        if used() > given_.minutes:
            return
        number += 1
        folder = Path(tempfile.mkdtemp())
        try:
            (check if isinstance(case, Case) else check_ranking)(case, folder, outcomes)
        except (Exception, Hang) as error:
            failures += 1
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__} {os.path.basename(frame.filename)}:{frame.lineno}"
            places[place] += 1
            if places[place] <= 3:
                kept = given_.keep / f"{given_.seed}-{number}"
                shutil.copytree(folder, kept, dirs_exist_ok=True)
                (kept / "case.txt").write_text(
                    f"{case!r}\n{shlex.join(case.options)}\n{traceback.format_exc()}"
                )
                print(
                    f"FAILURE {number}: {place}: {str(error)[:1500]}\n  kept in {kept}", flush=True
                )
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    start = given_.seed
    while used() < given_.minutes:
        run = settings(
            max_examples=100,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=quiet,
        )(given(_mostly(cases, rankings, 5))(one))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seed(start)(run)()
        start += 1
        told = f"{number} cases, seeds {given_.seed} to {start - 1}, {failures} failures"
        told += f", {used():.1f} minutes of processor time"
        print(f"{told}: {dict(outcomes)}", flush=True)
    print(f"places of failures: {dict(places)}")


if __name__ == "__main__":
    _main()
