"""Answers in a SQLite file: each is kept in a transaction of its own before it is acknowledged.

A write-ahead log with synchronous writes: what was acknowledged survives a crash of the program
and of the machine. The page names every answer with a random key, so that an answer that is sent
twice is kept once. An answer that is taken back leaves nothing but its key.
"""

import json
import os
import re
import secrets
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, Self

from ordinalgp.ask.items import Items
from ordinalgp.ask.survey import Survey
from ordinalgp.preference.store import (
    APPLICATION,
    SCHEMA,
    TABLES,
    check_schema,
    read_settings,
    unreadable,
)
from ordinalgp.tables.cells import BadInput

_KEY = re.compile(r"[A-Za-z0-9_-]{16,64}")
_PATIENCE = 10.0  # seconds that a write waits for other programs that write
_MOST_NAMED = 3  # items that a message names


@dataclass(frozen=True)
class Answer:
    """An answer of a judge about two items, by their numbers in the store.

    Examples
    --------
    >>> from ordinalgp.ask import Answer
    >>> Answer("a-random-key-of-the-page", left=1, right=2, outcome=-1).skipped
    False
    """

    key: str
    """random name that the page gave it, 16 to 64 letters, digits, ``_`` and ``-``"""
    left: int
    right: int
    outcome: int | None
    """one of the survey's levels, or None where the pair was skipped"""
    judge: str = ""
    seconds: float | None = None
    """time that the judge took"""

    @property
    def skipped(self) -> bool:
        """Whether the judge skipped the pair."""
        return self.outcome is None

    @property
    def pair(self) -> tuple[int, int]:
        """Both items, the smaller number first."""
        return min(self.left, self.right), max(self.left, self.right)

    @property
    def side(self) -> int | None:
        """Sign of the preference for the item with the smaller number; None if skipped."""
        if self.outcome is None:
            return None
        sign = (self.outcome > 0) - (self.outcome < 0)
        return sign if self.left < self.right else -sign


class Refused(Exception):
    """An answer that is not kept; the message says why."""


class Withdrawn(Refused):
    """An answer that was taken back before it arrived."""


class Store:
    """Items, settings and answers in a file, for one server at a time.

    Use :meth:`open`. All methods may be called from any thread.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from ordinalgp.ask import Answer, Store, Survey, named_items
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "drinks.answers.db"
    ...     with Store.open(path, named_items(["milk", "tea"]), Survey()) as store:
    ...         answer = Answer("a-random-key-of-the-page", left=1, right=2, outcome=-1)
    ...         first, again = store.record(answer), store.record(answer)
    ...         kept = len(list(store.answers()))
    ...         _ = store.withdraw(answer.key)
    ...         left = len(list(store.answers()))
    >>> first, again, kept, left
    (True, False, 1, 0)
    """

    def __init__(self, path: Path, database: sqlite3.Connection, lock: "ServerLock") -> None:
        self.path = path
        self._database = database
        self._server_lock = lock
        self._lock = RLock()
        self.numbers: list[int] = []
        """number of each item, in the order of the items"""
        self.survey = Survey()
        self.notes: list[str] = []
        """remarks on what changed since the last time"""

    @classmethod
    def open(cls, path: str | PathLike[str], items: Items, survey: Survey) -> Self:
        """Open or create a file for these items and this survey.

        Parameters
        ----------
        path : str or path-like
            The file. New items are added to those that it has.
        items : Items
            All items, those of the file's answers among them.
        survey : Survey
            What is asked. Its levels must be those of the file, if it has answers.

        Returns
        -------
        Store
            The open store; close it, or use it in a ``with`` statement.
        """
        return cls.opened(path, items, lambda found: survey)

    @classmethod
    def opened(cls, path: str | PathLike[str], items: Items, choose: Any) -> Self:
        """The same, where ``choose`` makes the survey from the settings of the file."""
        file = Path(path)
        if file.is_dir() or not file.absolute().parent.is_dir():
            raise BadInput(f"{path} cannot be a file of answers. Name another with --store.")
        lock = ServerLock.take(file)
        try:
            database = _connect(file)
        except BaseException:
            lock.release()
            raise
        store = cls(file, database, lock)
        try:
            with store.transaction():
                store._prepare(items, choose)
        except sqlite3.Error as error:
            store.close()
            raise unreadable(path, error) from error
        except BaseException:
            store.close()
            raise
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Move all into the main file, and let other servers have it."""
        with self._lock:
            with suppress(sqlite3.Error):  # another program reads: the log stays for the next time
                self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._database.close()
            self._server_lock.release()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is on the disk when the ``with`` block ends, or has not happened."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    # ------------------------------------------------------------------------ opening

    def _prepare(self, items: Items, choose: Any) -> None:
        """Create what is missing, and check that the rest fits."""
        if not self._database.execute("PRAGMA user_version").fetchone()[0]:
            self._create()
        check_schema(self._database, self.path)
        settings = read_settings(self._database)
        self.survey = choose(settings)
        self._check_levels(settings)
        self._keep_items(items)
        self.identity: str = settings["identity"]
        self.secret: str = settings["secret"]
        more = {"question": self.survey.question, "levels": list(self.survey.levels)}
        self._keep_settings(more | {"features": list(items.feature_names)})

    def _create(self) -> None:
        for statement in TABLES.split(";"):
            self._database.execute(statement)
        self._database.execute(f"PRAGMA application_id = {APPLICATION}")
        self._database.execute(f"PRAGMA user_version = {SCHEMA}")
        now = _now()
        self._keep_settings(
            {
                "identity": secrets.token_hex(8),
                "secret": secrets.token_hex(32),
                "created": now,
            }
        )

    def _keep_settings(self, settings: Mapping[str, Any]) -> None:
        rows = [(key, json.dumps(value)) for key, value in settings.items()]
        self._database.executemany("INSERT OR REPLACE INTO settings VALUES (?, ?)", rows)

    def _check_levels(self, settings: Mapping[str, Any]) -> None:
        """Raise if answers were given on another scale."""
        before, now = settings.get("levels"), list(self.survey.levels)
        if before in (None, now) or not self._count():
            return
        raise BadInput(
            f"{self.path} has answers with {_scale(before)}, but now there would be "
            f"{_scale(now)}. Start with {_scale_options(before)}, or with another --store."
        )

    def _count(self) -> int:
        (count,) = self._database.execute("SELECT count(*) FROM answers").fetchone()
        return int(count)

    def _keep_items(self, items: Items) -> None:
        """Bring the items of the file up to date; raise if answers would lose theirs."""
        rows = self._database.execute("SELECT id, name, content FROM items").fetchall()
        known = {name: (number, content) for number, name, content in rows}
        gone = {number: name for name, (number, _) in known.items() if name not in set(items.names)}
        self._drop_items(gone, len(known))
        features = [None] * len(items) if items.X is None else map(json.dumps, items.X.tolist())
        now = zip(items.names, items.digests, features, strict=True)
        added, changed = [], []
        for name, content, encoded in now:
            if name not in known:
                added.append(name)
            elif known[name][1] != content:
                changed.append(name)
            self._database.execute(
                "INSERT INTO items (name, content, features) VALUES (?, ?, ?) ON CONFLICT (name) "
                "DO UPDATE SET content = excluded.content, features = excluded.features",
                (name, content, encoded),
            )
        found = dict(self._database.execute("SELECT name, id FROM items"))
        self.numbers = [found[name] for name in items.names]
        if known and added:
            self.notes.append(f"Added {_some(added)} to {self.path}.")
        if changed:
            self.notes.append(
                f"Changed since the last time: {_some(changed)}. Earlier answers are kept."
            )

    def _drop_items(self, gone: Mapping[int, str], n_known: int) -> None:
        """Remove items that are listed no more; raise if there are answers about one."""
        used = {
            number
            for pair in self._database.execute("SELECT left_item, right_item FROM answers")
            for number in pair
        }
        missed = [name for number, name in gone.items() if number in used]
        if missed:
            raise BadInput(
                f"{self.path} has answers about {_some(missed)}, which the file of items does not "
                f"list{' any of' if len(gone) == n_known else ''}. Put such items back, or begin "
                "a new file of answers with --store."
            )
        self._database.executemany("DELETE FROM items WHERE id = ?", [(n,) for n in gone])
        if gone:
            self.notes.append(f"Removed {_some(list(gone.values()))}: no longer listed.")

    # ------------------------------------------------------------------------ answers

    def record(self, answer: Answer) -> bool:
        """Keep an answer; it is on the disk when this returns.

        Parameters
        ----------
        answer : Answer
            The answer of a judge.

        Returns
        -------
        bool
            Whether the answer is new; False if it was kept before under the same key.
        """
        self._check(answer)
        with self.transaction() as database:
            if database.execute("SELECT 1 FROM withdrawn WHERE key = ?", (answer.key,)).fetchone():
                raise Withdrawn("This answer was taken back.")
            columns = "left_item, right_item, outcome, judge, seconds"
            found = database.execute(
                f"SELECT {columns} FROM answers WHERE key = ?", (answer.key,)
            ).fetchone()
            given = tuple(asdict(answer).values())
            if found is not None:
                if found[:4] != given[1:5]:
                    raise Refused("Another answer has this key.")
                return False
            database.execute(
                f"INSERT INTO answers (key, {columns}, time) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*given, _now()),
            )
        return True

    def _check(self, answer: Answer) -> None:
        if not _KEY.fullmatch(answer.key):
            raise Refused("The key of an answer has 16 to 64 letters, digits, _ and -.")
        if answer.outcome is not None and answer.outcome not in self.survey.levels:
            raise Refused(f"The outcome must be one of {list(self.survey.levels)}.")
        if answer.left == answer.right or {answer.left, answer.right} - set(self.numbers):
            raise Refused("The answer is not about two items of this survey.")

    def withdraw(self, key: str) -> Answer | None:
        """Remove an answer; a copy of it that arrives later is refused.

        Parameters
        ----------
        key : str
            Name of the answer.

        Returns
        -------
        Answer or None
            The answer that was removed; None if there was none.
        """
        if not _KEY.fullmatch(key):
            raise Refused("There is no answer with such a key.")
        with self.transaction() as database:
            database.execute("INSERT OR IGNORE INTO withdrawn VALUES (?)", (key,))
            row = database.execute(
                "DELETE FROM answers WHERE key = ? "
                "RETURNING key, left_item, right_item, outcome, judge, seconds",
                (key,),
            ).fetchone()
        return None if row is None else Answer(*row)

    def answers(self) -> Iterator[Answer]:
        """All answers, the oldest first.

        Yields
        ------
        Answer
            Answers, skipped pairs included.
        """
        yield from (Answer(*row[:-1]) for row in self._rows())

    def dated_answers(self) -> Iterator[tuple[str, Answer]]:
        """All answers with their times, the oldest first."""
        yield from ((row[-1], Answer(*row[:-1])) for row in self._rows())

    def _rows(self) -> Sequence[Any]:
        with self._lock:
            return self._database.execute(
                "SELECT key, left_item, right_item, outcome, judge, seconds, time FROM answers "
                "ORDER BY number"
            ).fetchall()


def _connect(path: Path) -> sqlite3.Connection:
    """Open a database whose commits are on the disk; create the file for its owner only."""
    new = not path.exists()
    try:
        if new:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        database = sqlite3.connect(
            path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
        )
        try:
            if database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                check_schema(database, path)  # before anything of another program is changed
            for pragma in (
                "journal_mode = WAL",
                "synchronous = FULL",
                "fullfsync = ON",
                "foreign_keys = ON",
                "secure_delete = ON",
                "trusted_schema = OFF",
            ):
                database.execute(f"PRAGMA {pragma}")
        except BaseException:
            database.close()
            raise
    except sqlite3.Error as error:
        raise unreadable(path, error) from error
    except OSError as error:
        raise BadInput(
            f"{path} cannot be written: {error.strerror}. Name another file with --store."
        ) from error
    return database


class ServerLock:
    """Mark that a server uses a file, which ends with the process however it ends.

    It is a transaction on an empty database beside the file: SQLite locks files on all systems.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    @classmethod
    def take(cls, path: Path) -> Self:
        """Lock a file, or raise an error if another server has it."""
        beside = path.with_name(path.name + ".lock")
        try:
            database = sqlite3.connect(
                beside, timeout=0.0, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise BadInput(
                f"{beside} cannot be written: {error}. Name another file with --store."
            ) from error
        for attempt in range(10):  # a server that was killed a moment ago may not be gone yet
            try:
                database.execute("BEGIN EXCLUSIVE")
                return cls(database)
            except sqlite3.Error as error:
                problem = error
            if attempt < 9:
                time.sleep(0.1)
        database.close()
        if "locked" not in str(problem):
            raise BadInput(f"{beside} cannot be locked: {problem}.")
        raise BadInput(
            f"{path} is in use by another server of ordinalgp ask. Open that one in the browser, "
            "stop it, or name another file with --store."
        )

    def release(self) -> None:
        """Let other servers have the file."""
        self._database.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _some(names: Sequence[str]) -> str:
    """Some names of a list in words."""
    shown = ", ".join(repr(name) for name in names[:_MOST_NAMED])
    more = len(names) - _MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def _scale(levels: Sequence[int]) -> str:
    tie = "ties" if 0 in levels else "no ties"
    return tie if len(levels) <= 3 else f"{len(levels)} grades"


def _scale_options(levels: Sequence[int]) -> str:
    if len(levels) > 3:
        return f"--grades {len(levels)}"
    return "--ties" if 0 in levels else "--no-ties"
