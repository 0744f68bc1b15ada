"""Answers are kept once, taken back for good, and read again; files that do not fit are refused."""

import sqlite3
import stat
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ordinalgp.ask import Answer, Items, Store, Survey, levels_for, named_items
from ordinalgp.ask.store import Refused, ServerLock, Withdrawn
from ordinalgp.preference import read_store
from ordinalgp.tables.cells import BadInput

NAMES = ["tea", "milk", "water"]


def key(n):
    return f"key-{n:020}"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "drinks.answers.db"


@pytest.fixture
def store(path):
    with Store.open(path, named_items(NAMES), Survey("Which tastes better?")) as opened:
        yield opened


def test_an_answer_is_kept_once_however_often_it_is_sent(store):
    answer = Answer(key(1), 1, 2, 1, "Ann", 2.5)
    assert store.record(answer)
    assert not store.record(answer)
    later = Answer(key(1), 1, 2, 1, "Ann", 9.0)  # the page does not measure the time again
    assert not store.record(later)
    assert list(store.answers()) == [answer]


def test_a_key_belongs_to_one_answer(store):
    store.record(Answer(key(1), 1, 2, 1))
    for other in (Answer(key(1), 2, 1, 1), Answer(key(1), 1, 2, -1), Answer(key(1), 1, 2, 1, "B")):
        with pytest.raises(Refused, match="Another answer has this key"):
            store.record(other)
    assert len(list(store.answers())) == 1


def test_what_is_taken_back_is_gone_and_stays_away(store, path):
    store.record(Answer(key(1), 1, 2, 1, "Ann"))
    store.record(Answer(key(2), 2, 3, -1, "Ann"))
    assert store.withdraw(key(1)) == Answer(key(1), 1, 2, 1, "Ann")
    assert store.withdraw(key(1)) is None
    with pytest.raises(Withdrawn):  # a copy that was on its way
        store.record(Answer(key(1), 1, 2, 1, "Ann"))
    assert store.withdraw(key(3)) is None  # it overtook the answer
    with pytest.raises(Withdrawn):
        store.record(Answer(key(3), 1, 2, 1, "Ann"))
    assert [answer.key for answer in store.answers()] == [key(2)]
    assert len(read_store(path)) == 1


@pytest.mark.parametrize(
    "answer",
    [
        Answer("short", 1, 2, 1),
        Answer("x" * 65, 1, 2, 1),
        Answer("robert'); DROP TABLE--", 1, 2, 1),
        Answer(key(1), 1, 1, 1),
        Answer(key(1), 1, 4, 1),
        Answer(key(1), 0, 2, 1),
        Answer(key(1), 1, 2, 2),
    ],
)
def test_answers_that_make_no_sense_are_refused(store, answer):
    with pytest.raises(Refused):
        store.record(answer)
    assert list(store.answers()) == []


def test_commits_are_synchronous_and_logged_ahead(store):
    expected = {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1, "foreign_keys": 1}
    for name, value in expected.items():
        assert store._database.execute(f"PRAGMA {name}").fetchone() == (value,)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_the_file_is_its_owners_only(store, path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_read_is_what_was_answered(path):
    X = np.array([[0.1, -2.0], [1 / 3, 5e-324], [1e300, 0.0]])
    parts = named_items(NAMES).parts
    items = Items(NAMES, parts, X, ("a", "b"))
    with Store.open(path, items, Survey("Which?", levels=levels_for(5))) as store:
        store.record(Answer(key(1), 1, 2, 2, "Ann", 2.5))
        store.record(Answer(key(2), 3, 1, None, "Ann"))
        store.record(Answer(key(3), 3, 2, -1, "Bo", None))
        found = read_store(path)  # while the server runs
    again = read_store(path)
    for answers in (found, again):
        assert answers.question == "Which?"
        assert answers.items.tolist() == NAMES
        assert_array_equal(answers.X, X)
        assert answers.feature_names == ["a", "b"]
        assert answers.comparisons.tolist() == [[0, 1], [2, 1]]
        assert answers.named_comparisons.tolist() == [["tea", "milk"], ["water", "milk"]]
        assert answers.outcomes.tolist() == [2, -1]
        assert answers.levels == [-2, -1, 0, 1, 2]
        assert answers.judges.tolist() == ["Ann", "Bo"]
        assert answers.seconds[0] == 2.5
        assert np.isnan(answers.seconds[1])
        assert abs(answers.times[0] - np.datetime64("now")) < np.timedelta64(1, "h")


def test_a_file_without_answers_can_be_read(store, path):
    found = read_store(path)
    assert (len(found), found.X, found.comparisons.shape) == (0, None, (0, 2))


# ------------------------------------------------------------------------- files that do not fit


def test_items_may_be_added_but_not_lost(path):
    with Store.open(path, named_items(NAMES), Survey()) as store:
        store.record(Answer(key(1), 1, 3, 1))
    with Store.open(path, named_items(["beer", *NAMES]), Survey()) as store:
        assert store.numbers == [4, 1, 2, 3]  # earlier items keep their numbers
        assert store.notes == [f"Added 'beer' to {path}."]
    with Store.open(path, named_items(["water", "tea"]), Survey()) as store:
        assert "Removed 'milk', 'beer'" in store.notes[0]
    with pytest.raises(BadInput, match=r"answers about 'water', which the file of items does not"):
        Store.open(path, named_items(["tea", "milk"]), Survey())
    with pytest.raises(BadInput, match="does not list any of"):
        Store.open(path, named_items(["cake", "pie"]), Survey())
    assert read_store(path).named_comparisons.tolist() == [["tea", "water"]]
    assert read_store(path).items.tolist() == ["tea", "water"]


def test_changed_items_are_named(path):
    with Store.open(path, named_items(NAMES), Survey()):
        pass
    changed = Items(NAMES, named_items(["tea!", "milk", "water"]).parts)
    with Store.open(path, changed, Survey()) as store:
        assert store.notes == ["Changed since the last time: 'tea'. Earlier answers are kept."]
    with Store.open(path, changed, Survey()) as store:
        assert store.notes == []


def test_another_scale_is_refused_once_there_are_answers(path):
    items = named_items(NAMES)
    with Store.open(path, items, Survey(levels=levels_for(5))):
        pass
    with Store.open(path, items, Survey()) as store:
        store.record(Answer(key(1), 1, 2, 0))
    with pytest.raises(BadInput, match=r"answers with ties.*would be 5 grades.*--ties"):
        Store.open(path, items, Survey(levels=levels_for(5)))
    with pytest.raises(BadInput, match=r"would be no ties"):
        Store.open(path, items, Survey(levels=(-1, 1)))


def test_one_server_at_a_time(path, store):
    with pytest.raises(BadInput, match="is in use by another server"):
        Store.open(path, named_items(NAMES), Survey())
    store.record(Answer(key(1), 1, 2, 1))  # the first is not disturbed
    store.close()
    with Store.open(path, named_items(NAMES), Survey()) as second:
        assert len(list(second.answers())) == 1


def test_a_failed_start_leaves_no_lock(path):
    with Store.open(path, named_items(NAMES), Survey()) as store:
        store.record(Answer(key(1), 1, 2, 1))
    with pytest.raises(BadInput):
        Store.open(path, named_items(["cake", "pie"]), Survey())
    ServerLock.take(path).release()


def test_files_of_others_are_refused(tmp_path):
    items = named_items(NAMES)
    text = tmp_path / "text.db"
    text.write_text("no database, but a text that is long enough to be one\n" * 100)
    with pytest.raises(ValueError, match="cannot be read as answers of ordinalgp ask"):
        Store.open(text, items, Survey())
    with pytest.raises(ValueError, match="cannot be read as answers of ordinalgp ask"):
        read_store(text)
    assert text.read_text().startswith("no database")
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE songs (title)")
    database.close()
    before = other.read_bytes()
    for use in (lambda: Store.open(other, items, Survey()), lambda: read_store(other)):
        with pytest.raises(ValueError, match="a database of another program"):
            use()
    assert other.read_bytes() == before
    with pytest.raises(ValueError, match="does not exist"):
        read_store(tmp_path / "none.db")
    with pytest.raises(ValueError, match="is a folder"):
        read_store(tmp_path)
    with pytest.raises(BadInput, match="cannot be a file of answers"):
        Store.open(tmp_path / "nowhere" / "a.db", items, Survey())


def test_a_newer_schema_is_refused(path, store):
    store.close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    for use in (lambda: Store.open(path, named_items(NAMES), Survey()), lambda: read_store(path)):
        with pytest.raises(ValueError, match=r"has schema 99.*Update ordinalgp"):
            use()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE answers SET outcome = 7",
        "UPDATE answers SET outcome = 'x'",
        "UPDATE answers SET left_item = 99",
        "UPDATE answers SET time = 'noon'",
        "UPDATE items SET features = '[1, 2]'",
        "UPDATE items SET features = '[1e999]'",
        "DELETE FROM settings WHERE key = 'levels'",
        "DELETE FROM items",
    ],
)
def test_damaged_files_are_refused_in_words(path, damage):
    items = Items(NAMES, named_items(NAMES).parts, np.ones((3, 1)), ("a",))
    with Store.open(path, items, Survey()) as store:
        store.record(Answer(key(1), 1, 2, 1))
    with sqlite3.connect(path) as database:
        database.execute(damage)
    database.close()
    with pytest.raises(ValueError, match=r"is damaged|cannot be read"):
        read_store(path)
