"""Items are read from tables as they are; pictures are found in their folder only."""

import os
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.ask.common import write_items

from ordinalgp.ask.images import LARGEST, ImageFolder
from ordinalgp.ask.items import LONGEST_NAME, LONGEST_TEXT, clean_name, named_items, read_items
from ordinalgp.tables.cells import BadInput
from ordinalgp.tables.files import TableFile

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
JPEG = b"\xff\xd8\xff\xe0" + bytes(20)


def read(path, **options):
    return read_items(TableFile(path), **options)


@pytest.fixture
def posters(tmp_path):
    (tmp_path / "pics").mkdir()
    (tmp_path / "pics" / "a.png").write_bytes(PNG)
    (tmp_path / "pics" / "b.jpg").write_bytes(JPEG)
    columns = {
        "title": ["Alpha", "Beta"],
        "picture": ["pics/a.png", "pics/b.jpg"],
        "remark": ["", "in <b>bold</b>"],
        "price": [3, 4.5],
    }
    return write_items(tmp_path / "posters.csv", columns)


def test_texts_and_pictures_are_shown_and_numbers_are_not(posters):
    items = read(posters)
    assert items.names == ["Alpha", "Beta"]
    shown = [
        [(p.label, p.text, p.image and p.image.as_posix()) for p in one] for one in items.parts
    ]
    assert shown[0] == [("", "Alpha", None), ("picture", "a", "pics/a.png")]
    assert shown[1] == [("", "Beta", None), ("picture", "b", "pics/b.jpg"),
                        ("remark", "in <b>bold</b>", None)]  # fmt: skip
    assert items.X is None


def test_columns_can_be_chosen(posters):
    items = read(posters, show=["price", "title"], name="remark" and "picture")
    assert items.names == ["pics/a.png", "pics/b.jpg"]
    assert [(p.label, p.text) for p in items.parts[1]] == [("price", "4.5"), ("title", "Beta")]
    for option in ("name", "show", "features"):
        given = "cost" if option == "name" else ["cost"]
        with pytest.raises(BadInput, match=f"no column 'cost' for --{option}"):
            read(posters, **{option: given})


def test_features_are_standardised(tmp_path):
    columns = {"name": list("abcd"), "x": [1, 2, 3, 4], "y": [0, 0, 0, 8], "kind": list("uvuv")}
    path = write_items(tmp_path / "items.csv", columns)
    items = read(path, features=["all"])
    assert items.feature_names == ("x", "y")
    assert_allclose(items.X.mean(axis=0), 0, atol=1e-12)
    assert_allclose(items.X.std(axis=0), 1)
    some = read(path, features=["x"])
    assert_allclose(some.X, items.X[:, :1])
    assert "kind = u" in read(path, features=["kind"]).feature_names
    with pytest.raises(BadInput, match="no column of numbers"):
        read(write_items(tmp_path / "texts.csv", {"name": ["a", "b"]}), features=["all"])


def test_equal_names_get_numbers(tmp_path):
    path = write_items(tmp_path / "items.csv", {"name": ["tea", "tea", "tea (2)", " tea"]})
    items = read(path)
    assert items.names == ["tea", "tea (2)", "tea (2) (2)", "tea (3)"]
    assert "3 names" in items.notes[1]


def test_names_fit_on_a_line_and_texts_stay_as_they_are(tmp_path):
    text = "one\ntwo\x00\x1b[31m \N{RIGHT-TO-LEFT OVERRIDE}abc"
    items = named_items([text, "x" * 1000])
    assert items.names[0] == "one two [31m abc"
    assert len(items.names[1]) == LONGEST_NAME
    assert items.parts[0][0].text == "one\ntwo\ufffd\ufffd[31m \N{RIGHT-TO-LEFT OVERRIDE}abc"
    family = "\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN}"
    assert clean_name(family) == family  # joined letters and signs keep their marks


@pytest.mark.parametrize("where", ["name", "text"])
def test_cells_of_ten_megabytes(tmp_path, where):
    long = "word " * 2_000_000
    columns = {"name": ["a", "b"], "text": ["c", "d"]}
    columns[where][0] = long
    items = read(write_items(tmp_path / "items.csv", columns))
    assert max(len(name) for name in items.names) <= LONGEST_NAME
    longest = max((part for one in items.parts for part in one), key=lambda part: len(part.text))
    assert len(longest.text) == LONGEST_TEXT
    assert longest.shortened
    assert "1 cells have more than 100,000 characters" in items.notes[-1]


def test_tables_that_are_no_items(tmp_path):
    with pytest.raises(BadInput, match="1 item to compare"):
        read(write_items(tmp_path / "one.csv", {"name": ["a"]}))
    with pytest.raises(BadInput, match=r"line 3, column name: the name is missing"):
        read(write_items(tmp_path / "gap.csv", {"name": ["a", "", "c"], "x": list("def")}))
    with pytest.raises(BadInput, match="more than people read"):
        read(write_items(tmp_path / "wide.csv", {f"c{i}": ["a", "b"] for i in range(20)}))
    with pytest.raises(BadInput, match="at most 5,000"):
        read(write_items(tmp_path / "many.csv", {"name": [f"n{i}" for i in range(5001)]}))


# --------------------------------------------------------------------------------- pictures


@dataclass(frozen=True)
class Undefended(ImageFolder):
    """The same without a look at where a path leads."""

    def holds(self, resolved):
        return True


@pytest.fixture
def tree(tmp_path):
    """A folder of items with pictures in it, and secrets outside of it."""
    inside = tmp_path / "inside"
    (inside / "pics").mkdir(parents=True)
    for path in (inside / "a.png", inside / "pics" / "b.png", tmp_path / "secret.png"):
        path.write_bytes(PNG)
    sibling = tmp_path / "inside too"
    sibling.mkdir()
    (sibling / "c.png").write_bytes(PNG)
    try:
        (inside / "link.png").symlink_to(tmp_path / "secret.png")
        (inside / "folder").symlink_to(tmp_path)
        (inside / "good.png").symlink_to(inside / "a.png")
    except OSError:
        pytest.skip("links cannot be made here")
    return inside.resolve()


OUTSIDE = [
    "../secret.png", "pics/../../secret.png", "link.png", "folder/secret.png", "./.././secret.png",
    "../inside too/c.png", "{parent}/secret.png", "pics/..//..//secret.png",
]  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE)
def test_paths_do_not_leave_the_folder(tree, path):
    path = path.format(parent=tree.parent)
    with pytest.raises(ValueError, match="is outside of the folder"):
        ImageFolder(tree).find(path)
    assert Undefended(tree).find(path).path.read_bytes() == PNG  # the defence is what stops it


@pytest.mark.parametrize(
    "path", ["a.png", "pics/b.png", "pics/../a.png", "good.png", "{tree}/a.png"]
)
def test_paths_inside_are_found(tree, path):
    found = ImageFolder(tree).find(path.format(tree=tree))
    assert found.media_type == "image/png"
    assert found.path.is_relative_to(tree)


def test_what_is_no_picture_is_refused(tree):
    (tree / "page.png").write_text("<html><script>alert(1)</script></html>")
    (tree / "photo.jpg").write_bytes(PNG)
    (tree / "drawing.svg").write_text("<html></html>")
    (tree / "folder.png").mkdir()
    (tree / "passwd").write_text("root")
    (tree / "disguised.png").symlink_to(tree / "passwd")
    reasons = {
        "page.png": "does not hold a PNG picture",
        "photo.jpg": "does not hold a JPG picture",
        "drawing.svg": "does not hold a SVG picture",
        "folder.png": "is not a file",
        "disguised.png": "is no picture",
        "none.png": "there is no file",
        "a\0.png": "there is no file",
        "x" * 5000 + ".png": "there is no file",
    }
    for path, reason in reasons.items():
        assert reason in ImageFolder(tree).problem(path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
def test_pipes_are_not_waited_for(tree):
    os.mkfifo(tree / "pipe.png")
    assert "is not a file" in ImageFolder(tree).problem("pipe.png")


def test_huge_pictures_are_refused(tree):
    with (tree / "huge.png").open("wb") as file:
        file.write(PNG)
        file.truncate(LARGEST + 1)
    assert "50 MB" in ImageFolder(tree).problem("huge.png")


def test_missing_pictures_are_named_by_line(tmp_path, posters):
    columns = {"title": ["A", "B"], "picture": ["pics/a.png", "../x.png"]}
    with pytest.raises(BadInput, match=r"line 3, column picture: there is no file '../x.png'"):
        read(write_items(tmp_path / "bad.csv", columns))
    remote = {"title": ["A", "B"], "picture": ["http://x.org/a.png", "https://x.org/b.png"]}
    items = read(write_items(tmp_path / "remote.csv", remote))
    assert items.parts[0][1].image is None  # addresses are text: nothing is loaded from elsewhere
    assert np.all([part.image is None for one in items.parts for part in one])
