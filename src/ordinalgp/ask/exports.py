"""Answers and ranking as CSV files for a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

from ordinalgp.ask.service import Service

_FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "\N{FULLWIDTH EQUALS SIGN}",
    "\N{FULLWIDTH PLUS SIGN}",
    "\N{FULLWIDTH HYPHEN-MINUS}",
    "\N{FULLWIDTH COMMERCIAL AT}",
)


def safe_text(text: str) -> str:
    """A text that no spreadsheet takes for a formula: such ones get an apostrophe before them."""
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def answers_csv(service: Service) -> bytes:
    """All answers, the oldest first, without skipped pairs."""
    names = dict(zip(service.store.numbers, service.items.names, strict=True))
    labels = dict(
        zip(reversed(service.store.survey.levels), service.store.survey.labels, strict=True)
    )
    header = ["left", "right", "outcome", "in_words", "judge", "time", "seconds"]
    return _csv(header, _answer_rows(service, names, labels))


def _answer_rows(
    service: Service, names: dict[int, str], labels: dict[int, str]
) -> Iterator[list[Any]]:
    for time, answer in service.store.dated_answers():
        if answer.outcome is None:
            continue
        given = answer.outcome, labels[answer.outcome]
        seconds = "" if answer.seconds is None else round(answer.seconds, 3)
        sides = names[answer.left], names[answer.right]
        yield [*map(safe_text, sides), *given, safe_text(answer.judge), time, seconds]


def ranking_csv(service: Service) -> bytes:
    """All items, the best first; only a header before the first analysis."""
    header = ["rank", "item", "utility", "utility_sd", "rank_low", "rank_high"]
    return _csv([*header, "probability_best", "comparisons"], _ranking_rows(service))


def _ranking_rows(service: Service) -> Iterator[list[Any]]:
    found = service.analysis
    if found is None:
        return
    for place, row in enumerate(found.order.tolist()):
        yield [
            place + 1,
            safe_text(service.items.names[row]),
            f"{found.mean[place]:.6f}",
            f"{found.sd[place]:.6f}",
            int(found.low[place]),
            int(found.high[place]),
            f"{found.best[place]:.4f}",
            int(service.counts[row]),
        ]


def _csv(header: list[str], rows: Iterable[list[Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows(rows)
    return b"\xef\xbb\xbf" + text.getvalue().encode("utf-8")  # the mark by which Excel knows UTF-8
