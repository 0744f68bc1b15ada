"""Options, messages and plain errors that the commands share."""

import csv
import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import ordinalgp
from ordinalgp.tables import TableModel
from ordinalgp.tables.cells import BadInput, BadRows
from ordinalgp.tables.files import Format, TableFile

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Separator = Annotated[
    str | None, typer.Option(help="Separator of cells: , ; | tab ... (default: detected)")
]
Decimal = Annotated[str, typer.Option(help="Decimal point of numbers: . or ,")]
Encoding = Annotated[str, typer.Option(help="Encoding of text files.")]
OnBadRows = Annotated[
    str,
    typer.Option(
        metavar="error|skip",
        help="Rows with unreadable cells: stop and name them, or skip and count them.",
    ),
]


def one_of(allowed: Sequence[str], text: str) -> Any:
    """Option whose value is one of several words."""
    return typer.Option(metavar="|".join(allowed), help=text)


def output(text: str) -> Any:
    """Option with the file or folder to write."""
    return typer.Option("--output", "-o", help=text)


def names(text: str) -> Any:
    """Option with comma-separated names of columns."""
    return typer.Option(metavar="NAME,...", help=text)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Report bad input on the error stream, exit with code 2; show warnings as notes."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            yield
        for warning in caught:
            if issubclass(warning.category, UserWarning):  # among them what did not converge
                note(f"Warning: {warning.message}")
    except BrokenPipeError:  # whoever reads the output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        print(f"Error: {error}", file=sys.stderr)
        raise typer.Exit(2) from error


def note(text: str) -> None:
    """Print a note on the error stream."""
    print(text, file=sys.stderr)


def console() -> Console:
    """Console that results are printed on."""
    return Console(highlight=False, soft_wrap=False)


def print_json(result: Any) -> None:
    """Print a result as JSON."""
    print(json.dumps(result, ensure_ascii=False, allow_nan=False))


def words(given: Sequence[str] | None) -> tuple[str, ...]:
    """Split comma-separated options, given once or several times; quotes protect commas."""
    found = (word.strip() for row in csv.reader(given or [], skipinitialspace=True) for word in row)
    return tuple(word for word in found if word)


def check_choice(name: str, value: str, allowed: Sequence[str]) -> str:
    """Return ``value``, or raise an error that lists what is allowed."""
    if value not in allowed:
        raise BadInput(f"{name} must be one of {', '.join(allowed)}, but {value!r} was given.")
    return value


def table_file(
    path: Path, on_bad_rows: str, separator: str | None, decimal: str, encoding: str
) -> TableFile:
    """File to read, as the options say."""
    policy = check_choice("--on-bad-rows", on_bad_rows, ("error", "skip"))
    style = Format(_separator_named(separator), decimal, encoding)
    return TableFile(path, style, BadRows(policy, str(path)))


def tell_skipped(rows: BadRows) -> None:
    """Print the rows that were skipped."""
    if rows.skipped:
        note(f"{rows.skipped} bad rows of {rows.source} were skipped, among them:")
        for example in rows.examples:
            note(f"  {example}")


def load_model(path: Path) -> TableModel:
    """Read a model that ``ordinalgp fit`` wrote."""
    model = ordinalgp.load(path)
    if not isinstance(model, TableModel):
        raise BadInput(
            f"{path} holds a {type(model).__name__} that was saved from Python, without the "
            "encoding of a table. Use it from Python, or make a model with ordinalgp fit."
        )
    return model


def _separator_named(separator: str | None) -> str | None:
    """Separator from its name or character on the command line."""
    named = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
    found = named.get(separator, separator) if separator else None
    if found is not None and len(found) != 1:
        raise BadInput(f"--separator must be one character or tab, but {separator!r} was given.")
    return found
