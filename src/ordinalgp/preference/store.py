"""File of answers that ``ordinalgp ask`` keeps: its tables, and its reader.

It is a SQLite database. Items have names and, if they were given, features. An answer names the
two items by their numbers; its outcome is positive where the left was preferred, 0 for a tie, and
NULL where the judge skipped the pair.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.request import pathname2url

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray, IntArray

APPLICATION = 0x4F474153  # "OGAS", in the header of the file
SCHEMA = 1
TABLES = """
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE items (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    content TEXT NOT NULL,
    features TEXT
);
CREATE TABLE answers (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    left_item INTEGER NOT NULL REFERENCES items,
    right_item INTEGER NOT NULL REFERENCES items,
    outcome INTEGER,
    judge TEXT NOT NULL,
    time TEXT NOT NULL,
    seconds REAL,
    CHECK (left_item <> right_item)
);
CREATE TABLE withdrawn (key TEXT PRIMARY KEY);
"""
"""``content`` is a digest of what was shown, ``value`` and ``features`` are JSON; ``withdrawn`` has
the keys of answers that were taken back, so that a late copy of one is not kept again"""


@dataclass(frozen=True, eq=False)
class StoredAnswers:
    """Answers of a file that ``ordinalgp ask`` wrote, as :func:`read_store` returns them.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp import PreferenceGP
    >>> from ordinalgp.preference import StoredAnswers
    >>> answers = StoredAnswers(
    ...     question="Which is better?",
    ...     items=np.array(["milk", "tea"]),
    ...     X=None,
    ...     feature_names=[],
    ...     comparisons=np.array([[1, 0]]),
    ...     outcomes=np.array([1]),
    ...     levels=[-1, 1],
    ...     judges=np.array(["Ann"]),
    ...     times=np.array(["2025-01-01T12:00:00"], dtype="datetime64[ms]"),
    ...     seconds=np.array([2.5]),
    ... )
    >>> len(answers)
    1
    >>> model = PreferenceGP("independent", levels=answers.levels)
    >>> model = model.fit(answers.items, answers.named_comparisons, answers.outcomes)
    >>> print(*model.rank(answers.items).items)
    tea milk
    """

    question: str
    """the question that was asked"""
    items: NDArray[Any]
    """names, each different"""
    X: FloatArray | None
    """encoded features of the items, or None"""
    feature_names: list[str]
    """names of the columns of ``X``"""
    comparisons: IntArray
    """rows of ``items``, left and right, (m, 2)"""
    outcomes: IntArray
    """one of ``levels`` for each comparison"""
    levels: list[int]
    """possible outcomes, from right to left preferred"""
    judges: NDArray[Any]
    """name of the judge of each comparison, empty where judges were not named"""
    times: NDArray[np.datetime64]
    """time of each answer, UTC"""
    seconds: FloatArray
    """time that the judge took; NaN where unknown"""

    def __len__(self) -> int:
        return len(self.comparisons)

    @property
    def named_comparisons(self) -> NDArray[Any]:
        """Names of the items of each comparison, (m, 2)."""
        return self.items[self.comparisons]


def read_store(path: str | PathLike[str]) -> StoredAnswers:
    """Read the answers that ``ordinalgp ask`` has collected, also while it is running.

    Parameters
    ----------
    path : str or path-like
        The file, for example "items.answers.db". It is not changed.

    Returns
    -------
    StoredAnswers
        Items and comparisons for :class:`~ordinalgp.PreferenceGP`. Skipped pairs are left out.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from ordinalgp.ask import Answer, Store, Survey, named_items
    >>> from ordinalgp.preference import read_store
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "drinks.answers.db"
    ...     with Store.open(path, named_items(["milk", "tea"]), Survey()) as store:
    ...         _ = store.record(Answer("a-random-key-of-the-page", left=2, right=1, outcome=1))
    ...     answers = read_store(path)
    >>> answers.named_comparisons.tolist(), answers.outcomes.tolist(), answers.levels
    ([['tea', 'milk']], [1], [-1, 0, 1])
    """
    with reading(path) as database:
        settings = read_settings(database)
        items = database.execute("SELECT id, name, features FROM items ORDER BY id").fetchall()
        answers = database.execute(
            "SELECT left_item, right_item, outcome, judge, time, seconds FROM answers "
            "WHERE outcome IS NOT NULL ORDER BY number"
        ).fetchall()
    row = {number: at for at, (number, *_) in enumerate(items)}
    try:
        pairs = [(row[left], row[right]) for left, right, *_ in answers]
        return StoredAnswers(
            question=str(settings["question"]),
            items=np.array([name for _, name, _ in items], dtype=np.str_),
            X=_features([features for *_, features in items], len(settings["features"])),
            feature_names=[str(name) for name in settings["features"]],
            comparisons=np.array(pairs, dtype=np.intp).reshape(-1, 2),
            outcomes=_outcomes([outcome for _, _, outcome, *_ in answers], settings["levels"]),
            levels=[int(level) for level in settings["levels"]],
            judges=np.array([judge for *_, judge, _, _ in answers], dtype=np.str_),
            times=np.array([_time(time) for *_, time, _ in answers], dtype="datetime64[ms]"),
            seconds=np.array([_seconds(each) for *_, each in answers], dtype=np.float64),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{str(path)!r} is damaged: its items, answers and settings disagree ({error})."
        ) from error


def _features(cells: list[str | None], width: int) -> FloatArray | None:
    if not width:
        return None
    X = np.array([json.loads(cell or "[]") for cell in cells], dtype=np.float64)
    if X.shape != (len(cells), width) or not np.isfinite(X).all():
        raise ValueError(f"items need {width} finite features")
    return X


def _outcomes(found: list[Any], levels: list[int]) -> IntArray:
    outcomes = np.array(found, dtype=np.intp)
    if not np.isin(outcomes, levels).all():
        raise ValueError(f"outcomes must be among {levels}")
    return outcomes


def _time(text: str) -> str:
    return text.removesuffix("Z").removesuffix("+00:00")


def _seconds(value: float | None) -> float:
    return float("nan") if value is None else float(value)


@contextmanager
def reading(path: str | PathLike[str]) -> Iterator[sqlite3.Connection]:
    """One consistent view of a file of answers, which is not changed."""
    file = Path(path)
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise ValueError(f"{str(path)!r} {what}, where a file of ordinalgp ask is needed.")
    address = f"file:{pathname2url(str(file.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as database:
            database.execute("PRAGMA query_only = ON")
            database.execute("PRAGMA trusted_schema = OFF")
            database.execute("BEGIN")
            check_schema(database, path)
            yield database
    except sqlite3.Error as error:
        raise unreadable(path, error) from error


def unreadable(path: str | PathLike[str], error: sqlite3.Error) -> ValueError:
    """The error of SQLite in words."""
    return ValueError(
        f"{str(path)!r} cannot be read as answers of ordinalgp ask: {error}. Name another file, or "
        "check that its folder can be written to."
    )


def check_schema(database: sqlite3.Connection, path: str | PathLike[str]) -> None:
    """Raise unless this is a file of answers, of a schema that is known."""
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (schema,) = database.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise ValueError(
            f"{str(path)!r} is a database of another program, not one of ordinalgp ask. Name "
            "another file."
        )
    if not 1 <= schema <= SCHEMA:
        raise ValueError(
            f"{str(path)!r} has schema {schema}, but this version of ordinalgp reads up to "
            f"{SCHEMA}. Update ordinalgp."
        )


def read_settings(database: sqlite3.Connection) -> dict[str, Any]:
    """Settings of a file of answers, by name."""
    rows = database.execute("SELECT key, value FROM settings")
    return {key: json.loads(value) for key, value in rows}
