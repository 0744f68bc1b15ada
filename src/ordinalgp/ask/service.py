"""The survey while it runs: answers come in, and pairs, rankings and exports go out.

Methods run in the thread of the server's event loop, and never wait. Only `snapshot` may, and runs
in another thread, as do `Store.record` and `Store.withdraw`.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ordinalgp.ask.agreement import Agreement
from ordinalgp.ask.analysis import Analysis, Snapshot, Wishes
from ordinalgp.ask.background import Failure, Result
from ordinalgp.ask.forecast import Outlook
from ordinalgp.ask.items import Items
from ordinalgp.ask.questions import Questioner
from ordinalgp.ask.store import Answer, Store

_SHOWN = 30  # items of the ranking that a page gets without asking for all
_MOST_SHOWN = 1000
_JUDGES_SHOWN = 100
_POOL = 12, 400  # fewest and most pairs that an analysis chooses
_PACE_WINDOW = 30.0  # seconds over which the pace of answers is measured

State = dict[str, Any]


@dataclass(eq=False)
class Service:
    """A survey with its store, questioner and last analysis."""

    items: Items
    store: Store
    changed: Callable[[], None] = lambda: None
    """called when there is something new to analyse"""
    clock: Callable[[], float] = time.monotonic
    questioner: Questioner = field(init=False)
    agreement: Agreement = field(default_factory=Agreement)
    analysis: Analysis | None = None
    outlook: tuple[int, Outlook] | None = None
    """with the number of answers that it is about"""
    failure: str | None = None
    revision: int = 0
    """grows with everything that a page may show"""
    _encoded: dict[bool, tuple[int, bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take up the answers of the store."""
        self.questioner = Questioner(len(self.items))
        self.row = {number: row for row, number in enumerate(self.store.numbers)}
        self.counts = np.zeros(len(self.items), dtype=np.intp)
        self.n_answers = self.n_skipped = 0
        self._recent: list[float] = []
        for answer in self.store.answers():
            self._count(answer, 1)

    # ------------------------------------------------------------------------ answers

    def recorded(self, answer: Answer) -> None:
        """Take up an answer that is new in the store."""
        self._count(answer, 1)
        now = self.clock()
        self._recent = [at for at in self._recent if now - at < _PACE_WINDOW] + [now]
        self._news()

    def withdrawn(self, answer: Answer) -> None:
        """Take up that an answer is gone."""
        self._count(answer, -1)
        self._news()

    def _news(self) -> None:
        self.revision += 1
        self.changed()

    def _count(self, answer: Answer, by: int) -> None:
        left, right = self.row[answer.left], self.row[answer.right]
        note = self.questioner.seen if by > 0 else self.questioner.unseen
        note(answer.judge, left, right)
        if answer.side is None:
            self.n_skipped += by
            return
        self.n_answers += by
        self.counts[[left, right]] += by
        if by > 0:
            self.agreement.add(answer.pair, answer.judge, answer.side)
        else:
            self.agreement.remove(answer.pair, answer.judge)

    # ------------------------------------------------------------------------ questions

    def question(self, page: str, judge: str) -> State | None:
        """The pair that a page is to show; None if its judge has seen all."""
        pair = self.questioner.next(page, judge, self.clock())
        if self.questioner.ready == 0 and self.analysis is not None:
            self.changed()
        if pair is None:
            return None
        left, right = (self._card(row) for row in pair)
        return {"left": left, "right": right}

    def question_again(self, page: str, answer: Answer) -> State | None:
        """The pair of an answer that was taken back, on the same sides."""
        left, right = self.row[answer.left], self.row[answer.right]
        self.questioner.show_again(page, answer.judge, left, right, self.clock())
        return self.question(page, answer.judge)

    def _card(self, row: int) -> State:
        number, parts = self.store.numbers[row], []
        for place, part in enumerate(self.items.parts[row]):
            shown: State = {"label": part.label, "text": part.text}
            if part.image is not None:
                shown["image"] = f"/image/{number}/{place}"
            if part.shortened:
                shown["shortened"] = True
            parts.append(shown)
        return {"item": number, "name": self.items.names[row], "parts": parts}

    # ------------------------------------------------------------------------ analyses

    def wishes(self) -> Wishes:
        """Pairs to choose, and those to leave out."""
        now, (fewest, most) = self.clock(), _POOL
        recent = [at for at in self._recent if now - at < _PACE_WINDOW]
        wanted = min(max(2 * len(recent), fewest), most)
        return Wishes(self.questioner.pending(now), self.questioner.finished(now), wanted)

    def snapshot(self, wishes: Wishes) -> Snapshot | None:
        """The request for the next analysis; None if there is nothing to learn from yet.

        It reads the store, and may be called in any thread.
        """
        given = [answer for answer in self.store.answers() if answer.outcome is not None]
        if not any(answer.outcome for answer in given):
            return None
        pairs = [(self.row[answer.left], self.row[answer.right]) for answer in given]
        outcomes = np.array([answer.outcome for answer in given], dtype=np.intp)
        return Snapshot(np.array(pairs, dtype=np.intp), outcomes, wishes)

    def take(self, result: Result) -> None:
        """Show the result of an analysis, and ask by it."""
        if isinstance(result, Analysis):
            self.analysis, self.failure = result, None
            self.questioner.take(result)
        elif isinstance(result, Failure):
            self.failure = result.reason
        elif self.analysis is not None:
            self.outlook = self.analysis.n_answers, result
        self.revision += 1

    # ------------------------------------------------------------------------ the page

    def session(self) -> State:
        """Facts that a page asks for once."""
        survey = self.store.survey
        levels = list(reversed(survey.levels))
        return {
            "store": self.store.identity,
            "question": survey.question,
            "answers": [
                {"outcome": outcome, "label": label}
                for outcome, label in zip(levels, survey.labels, strict=True)
            ],
            "named_judges": survey.named_judges,
            "items": len(self.items),
            "pairs": self.questioner.n_pairs,
        }

    def state(self, everything: bool = False) -> State:
        """Progress, ranking and agreement as a page shows them."""
        return {
            "revision": self.revision,
            "answers": self.n_answers,
            "skipped": self.n_skipped,
            "progress": self._progress(),
            "ranking": self._ranking(_MOST_SHOWN if everything else _SHOWN),
            "agreement": self._agreement(),
            "failure": self.failure,
        }

    def encoded_state(self, everything: bool = False) -> bytes:
        """The state as JSON, made once for each revision."""
        known = self._encoded.get(everything)
        if known is None or known[0] != self.revision:
            text = json.dumps(self.state(everything), allow_nan=False)
            known = self._encoded[everything] = self.revision, text.encode()
        return known[1]

    def _progress(self) -> State | None:
        if self.outlook is None:
            return None
        at, found = self.outlook
        remaining = found.remaining
        if remaining:  # some of them have been given since
            remaining = max(1, remaining - max(0, self.n_answers - at))
        return {
            "top": found.top,
            "certainty": round(found.certainty, 3),
            "settled": found.settled,
            "remaining": remaining,
            "beyond": found.beyond,
        }

    def _ranking(self, most: int) -> State | None:
        if self.analysis is None:
            return None
        found, n = self.analysis, min(most, len(self.items))
        rows = [
            {
                "item": self.store.numbers[row],
                "name": self.items.names[row],
                "low": int(found.low[place]),
                "high": int(found.high[place]),
                "comparisons": int(self.counts[row]),
            }
            for place, row in enumerate(found.order[:n].tolist())
        ]
        return {"items": len(self.items), "answers": found.n_answers, "rows": rows}

    def _agreement(self) -> State | None:
        if not self.store.survey.named_judges:
            return None
        shared, same = self.agreement.overall
        judges = [
            {"judge": r.judge, "answers": r.answers, "shared": r.shared, "same": r.same}
            for r in self.agreement.judges[:_JUDGES_SHOWN]
        ]
        return {"shared": shared, "same": same, "judges": judges}
