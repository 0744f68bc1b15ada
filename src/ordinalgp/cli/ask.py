"""``ordinalgp ask``: a page in the browser that asks which of two items is better."""

import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

from typer import Argument, Option

from ordinalgp.ask import Store, Survey, levels_for
from ordinalgp.ask.items import clean_name, read_items
from ordinalgp.ask.server import Server, check_packages, is_loopback, open_socket
from ordinalgp.ask.survey import MOST_GRADES, STRATEGIES, Strategy
from ordinalgp.cli import common
from ordinalgp.tables.cells import BadInput

_LONGEST_QUESTION = 300
_DEFAULT_HOST = "127.0.0.1"

Items = Annotated[
    Path, Argument(help="File with one row per item: a name, texts, paths of pictures, numbers.")
]
StoreFile = Annotated[
    Path | None,
    Option("--store", help="File of the answers (default: beside the items, .answers.db)."),
]
Question = Annotated[str | None, Option(help="Question above each pair.")]
Ties = Annotated[bool | None, Option("--ties/--no-ties", help="Whether items may be equal.")]
Grades = Annotated[
    int | None,
    Option(min=2, max=MOST_GRADES, help="Number of possible answers, such as 5: how much better."),
]
Judges = Annotated[bool, Option("--judges", help="Ask for the judge's name, and tell them apart.")]
Name = Annotated[str | None, Option(help="Column with the items' names (default: the first).")]
Features = Annotated[
    list[str] | None,
    common.names("Columns from which similar items are known; all: all columns of numbers."),
]
Show = Annotated[
    list[str] | None, common.names("Columns to show (default: those of texts and pictures).")
]
Top = Annotated[int, Option(min=1, help="Number of best items that are to be settled.")]
Choice = Annotated[
    str,
    common.one_of(STRATEGIES, "How pairs are chosen; auto: by features if they are given."),
]
Host = Annotated[
    str,
    Option(
        help="Address to serve on. Others than this machine's own need the token that is printed."
    ),
]
Port = Annotated[int, Option(min=0, max=65535, help="Port to serve on; 0: any that is free.")]
Open = Annotated[bool, Option("--open/--no-open", help="Open the page in the browser.")]


def ask(
    items: Items,
    store: StoreFile = None,
    question: Question = None,
    ties: Ties = None,
    grades: Grades = None,
    judges: Judges = False,
    name: Name = None,
    features: Features = None,
    show: Show = None,
    top: Top = 5,
    strategy: Choice = "auto",
    host: Host = _DEFAULT_HOST,
    port: Port = 8077,
    open_page: Open = True,
    on_bad_rows: common.OnBadRows = "error",
    separator: common.Separator = None,
    decimal: common.Decimal = None,
    encoding: common.Encoding = None,
    missing: common.Missing = None,
    as_json: common.Json = False,
) -> None:
    """Ask people which of two items is better, and rank the items while they answer.

    A page in the browser shows two items, takes the answer by mouse, touch or key, and chooses the
    pairs that tell most. Every answer is saved at once. Nothing leaves this machine.

    Stop with Ctrl-C; the same command goes on where it ended.
    """
    check_packages()
    common.check_choice("--strategy", strategy, STRATEGIES)
    file = common.table_file(items, on_bad_rows, separator, decimal, encoding, missing)
    listed = read_items(file, name, common.words(features), common.words(show))
    common.tell_skipped(file.bad)
    path = store or items.with_name(f"{items.stem}.answers.db")

    def choose(settings: Mapping[str, Any]) -> Survey:
        levels = _levels(ties, grades, settings.get("levels"))
        kept = question or settings.get("question") or Survey.question
        asked = clean_name(kept, _LONGEST_QUESTION)
        return Survey(asked, levels, judges, top, cast(Strategy, strategy))

    sock = open_socket(host, port)
    with sock, Store.opened(path, listed, choose) as opened:
        server = Server(listed, opened, sock, host)
        _tell(server, as_json=as_json)
        if open_page:
            webbrowser.open(server.address)
        server.run()
    common.note(f"\nStopped. Rank the answers with: ordinalgp rank --store {path}")


def _levels(ties: bool | None, grades: int | None, before: list[int] | None) -> tuple[int, ...]:
    """Possible outcomes by the options, else those of the answers so far, else with ties."""
    if grades is not None:
        if ties is not None and ties != bool(grades % 2):
            what = "no tie" if ties else "a tie"
            raise BadInput(
                f"--grades {grades} has {what}: odd numbers have one in the middle, even ones do "
                "not. Leave out --ties and --no-ties, or choose another number."
            )
        return levels_for(grades)
    if ties is None and before is not None:
        return tuple(before)
    return levels_for(2 if ties is False else 3)


def _tell(server: Server, *, as_json: bool) -> None:
    """Print where the page is."""
    for remark in (*server.items.notes, *server.store.notes):
        common.note(remark)
    found = sum(1 for _ in server.store.answers())
    if as_json:
        path = str(server.store.path)
        common.print_json({"address": server.address, "store": path, "answers": found})
    else:
        so_far = f"{found} answers so far, in" if found else "Answers are saved in"
        print(f"{so_far} {server.store.path}\nOpen {server.address}\nStop with Ctrl-C.")
    sys.stdout.flush()  # a program that reads it waits for it
    if not is_loopback(server.host):
        common.note(
            "Who has this address can answer and see the ranking. What is sent is not encrypted: "
            "use it in networks that you trust."
        )
