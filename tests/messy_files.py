"""Twenty messy tables, as people have them, and every command on each.

``python -m tests.messy_files FOLDER`` writes the files, runs ``fit``, ``evaluate``, ``predict``,
``report``, ``compare`` and ``explain`` on each, and prints all that a user would read.
"""

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

WORDS = ["low", "mid", "high"]
ORDER = ("--categories", "low,mid,high")


@dataclass(frozen=True)
class MessyFile:
    """A way to write a table, and the options that its user gives."""

    name: str
    write: Callable[[Path], None]
    options: tuple[str, ...] = ("--target", "grade", *ORDER)
    reading: tuple[str, ...] = ()
    """options that each command needs to read the file"""
    refused: str = ""
    """what the error says, where no model can be made of the file"""
    extra: tuple[str, ...] = field(default=())
    """packages without which it cannot be read"""


def columns(n=60, seed=0):
    """Numbers, counts, a nominal column and a grade that depends on them."""
    rng = np.random.default_rng(seed)
    age, dose = rng.normal(50, 12, n).round(1), rng.gamma(2.0, 3.0, n).round(2)
    town = rng.choice(["Köln", "Aix", "São Paulo"], n)
    latent = 0.08 * (age - 50) + 0.3 * (dose - 6) + (town == "Aix") + rng.normal(size=n)
    grade = np.array(WORDS)[np.digitize(latent, [-0.7, 1.0])]
    return {"age": age.tolist(), "dose": dose.tolist(), "town": town.tolist(), "grade": list(grade)}


def text(table, separator=",", decimal=".", gap="", end="\n", pad=""):
    """A table as text."""
    rows = [list(table), *zip(*table.values(), strict=True)]

    def cell(value):
        if value is None:
            return gap
        return str(value).replace(".", decimal) if isinstance(value, float) else str(value)

    glue = f"{pad}{separator}{pad}"
    return end.join(glue.join(map(cell, row)) for row in rows) + end


def with_gaps(table, every=7, names=("age", "town")):
    """The table with None in some cells."""
    return {
        name: [None if name in names and i % every == 3 else v for i, v in enumerate(values)]
        for name, values in table.items()
    }


def as_text(made, encoding="utf-8"):
    """A writer of text in an encoding."""
    return lambda path: path.write_bytes(made.encode(encoding))


def _xlsx(path):
    from openpyxl import Workbook

    book = Workbook()
    table = with_gaps(columns())
    for row in [list(table), *zip(*table.values(), strict=True)]:
        book.active.append(row)
    book.save(path)


def _parquet(path):
    import pandas as pd

    frame = pd.DataFrame(with_gaps(columns())).convert_dtypes()
    frame["grade"] = pd.Categorical(frame["grade"], WORDS, ordered=True)
    frame["seen"] = pd.date_range("2024-01-01", periods=len(frame))
    frame.to_parquet(path)


def _dates(path):
    table = columns()
    table["visited"] = [f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(60)]
    path.write_text(text(table))


def _ragged(path):
    lines = text(columns()).splitlines()
    lines[5] += ",more"
    lines[9] = "51.2"
    lines.insert(12, "")
    path.write_text("\n".join(lines))


def _ids(path):
    table = {"id": [f"P-{i:04d}" for i in range(60)], "row": list(range(60))} | columns()
    path.write_text(text(table))


def _quotes(path):
    lines = ['"age, in years","dose ""x""",town,grade']
    for age, dose, town, grade in zip(*columns().values(), strict=True):
        lines.append(f'{age},{dose},"{town}\nsecond line, with comma",{grade}')
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _wide(path):
    rng = np.random.default_rng(1)
    table = columns(40)
    noise = {f"gene {i}": rng.normal(size=40).round(3).tolist() for i in range(1500)}
    path.write_text(text({"grade": table.pop("grade")} | table | noise))


def _numbers(path):
    table = columns()
    table["grade"] = [0.5 * (1 + WORDS.index(g)) for g in table["grade"]]
    path.write_text(text(table))


def _metric(path):
    table = columns()
    rng = np.random.default_rng(2)
    table["grade"] = [round(2 * a + rng.normal(), 3) for a in table["age"]]
    path.write_text(text(table))


def _dollar(path):
    table = columns()
    names = {"age": "cost $x^2$ in $", "dose": "a_b\\c", "town": "<script>town</script>"}
    path.write_text(text({names.get(name, name): v for name, v in table.items()}))


def _constant(path):
    table = with_gaps(columns(), 1, ("empty",)) | {"one": [1] * 60, "empty": [None] * 60}
    path.write_text(text(table | {"huge": [1e300 * (-1) ** i for i in range(60)]}))


def _repeated(path):
    table = columns(12)
    path.write_text(text({name: values * 6 for name, values in table.items()}))


def _booleans(path):
    table = columns()
    table["smoker"] = [["TRUE", "FALSE"][i % 2] for i in range(60)]
    table["share"] = [f"{i}%" for i in range(60)]
    path.write_text(text(table))


def _gzip(path):
    path.write_bytes(gzip.compress(text(columns()).encode()))


def _no_signal(path):
    rng = np.random.default_rng(3)
    table = columns(80)
    table["grade"] = [WORDS[i] for i in rng.integers(0, 3, 80)]
    path.write_text(text(table))


SEMICOLON = text(with_gaps(columns()), ";", ",", "#N/A")
FILES = [
    MessyFile("utf8-bom.csv", as_text(text(columns()), "utf-8-sig")),
    MessyFile("utf16.csv", as_text(text(with_gaps(columns()), "\t"), "utf-16")),
    MessyFile("latin1.csv", as_text(text(columns()), "latin-1"), reading=("--encoding", "latin-1")),
    MessyFile("german-excel.csv", as_text(SEMICOLON, "utf-8-sig")),
    MessyFile("blanks.csv", as_text(text(columns(), ";", pad="  "))),
    MessyFile("pipes.txt", as_text(text(with_gaps(columns()), "|", gap="n/a", end="\r\n"))),
    MessyFile(
        "minus-999.csv",
        as_text(text(with_gaps(columns()), gap="-999")),
        reading=("--missing", "-999"),
    ),
    MessyFile("gzip.csv.gz", _gzip),
    MessyFile("excel.xlsx", _xlsx, extra=("openpyxl",)),
    MessyFile("nullable.parquet", _parquet, ("--target", "grade"), extra=("pandas", "pyarrow")),
    MessyFile("dates.csv", _dates),
    MessyFile("ragged.csv", _ragged, reading=("--on-bad-rows", "skip")),
    MessyFile("ids.csv", _ids),
    MessyFile("quotes.csv", _quotes),
    MessyFile("wide.csv", _wide),
    MessyFile("half-steps.csv", _numbers, ("--target", "grade")),
    MessyFile("metric-target.csv", _metric, ("--target", "grade", "--cut", "4")),
    MessyFile("dollar-names.csv", _dollar),
    MessyFile("constant-and-huge.csv", _constant),
    MessyFile("repeated-rows.csv", _repeated),
    MessyFile("booleans-percent.csv", _booleans),
    MessyFile("no-signal.csv", _no_signal),
    MessyFile("empty.csv", as_text(""), refused="is empty"),
    MessyFile("header-only.csv", as_text("age,grade\n"), refused="no rows"),
    MessyFile("one-level.csv", as_text("age,grade\n1,low\n2,low\n"), refused="at least 2"),
    MessyFile(
        "not-a-table.csv",
        lambda path: path.write_bytes(bytes(range(256)) * 40),
        refused="not a text file",
    ),
]


def commands(file: MessyFile, path: Path, fast: bool = False):
    """Arguments of every command, in order; fast ones for tests."""
    model, folder = path.with_suffix(".ogp"), path.parent
    reading, quick = file.reading, ("--model", "laplace", "--folds", "0") if fast else ()
    out = str(folder / f"{path.name}.predictions.csv")
    page = str(folder / f"{path.name}.html")
    compared = ("--models", "gp,logistic", "--folds", "2") if fast else ()
    yield ["fit", str(path), *file.options, *reading, *quick, "-o", str(model)]
    yield ["evaluate", str(model), str(path), *reading]
    yield ["predict", str(model), str(path), *reading, "-o", out]
    yield ["report", str(model), "-o", page]
    yield ["explain", str(model), str(path), *reading, "--row", "1"]
    yield ["compare", str(path), *file.options, *reading, *compared]


def _main(folder: Path, only: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for file in FILES:
        if only and file.name not in only:
            continue
        path = folder / file.name
        file.write(path)
        for arguments in commands(file, path):
            shown = " ".join(argument.replace(f"{folder}{os.sep}", "") for argument in arguments)
            print(f"\n$ ordinalgp {shown}", flush=True)
            command = [sys.executable, "-m", "ordinalgp", *arguments]
            done = subprocess.run(command, capture_output=True, text=True, timeout=900)
            print(done.stderr + done.stdout + f"[exit code {done.returncode}]", flush=True)
            wrong = done.returncode != (2 if file.refused else 0) or "Traceback" in done.stderr
            failed += [f"{file.name}: {arguments[0]}"] * wrong
            if file.refused:
                break
    print(f"\n{len(FILES)} files; {len(failed)} commands failed: {failed}")


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2:])
