"""Scratch files: gone at the end, those of killed processes at the next start, no others ever."""

import os
import signal
import subprocess
import sys
import time

import pytest

from ordinalgp.runtime.files import check_output, whole_file
from ordinalgp.runtime.scratch import remove_abandoned, scratch_folder

posix = pytest.mark.skipif(os.name == "nt", reason="signals and locks of Unix")


def age(*paths):
    """Make files look an hour old."""
    for path in paths:
        os.utime(path, times=(time.time() - 3600,) * 2)


def test_a_scratch_folder_ends_with_its_block(tmp_path):
    with scratch_folder(tmp_path) as folder:
        (folder / "X.bin").write_bytes(b"rows")
        assert folder.parent == tmp_path
    with pytest.raises(ZeroDivisionError), scratch_folder(tmp_path) as folder:
        _ = (folder / "X.bin").write_bytes(b"rows") // 0
    assert not list(tmp_path.iterdir())


WAITER = """
import sys, time
from pathlib import Path
from ordinalgp.runtime.files import whole_file
from ordinalgp.runtime.scratch import scratch_folder
place = Path(sys.argv[1])
with scratch_folder(place) as folder, whole_file(place / "out.csv") as file:
    (folder / "X.bin").write_bytes(b"rows")
    print("begun", flush=True)
    time.sleep(60)
"""


@posix
def test_what_a_killed_process_has_left_is_removed_at_the_next_start(tmp_path):
    command = [sys.executable, "-c", WAITER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        left = sorted(tmp_path.iterdir())
        age(*left, *tmp_path.glob("*/*"))
        remove_abandoned(tmp_path)  # the process lives, and holds its locks
        assert sorted(tmp_path.iterdir()) == left
        assert len(left) == 2
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert sorted(tmp_path.iterdir()) == left
    check_output(tmp_path / "out.csv")
    assert not list(tmp_path.iterdir())


@posix
def test_new_files_are_spared_as_they_may_not_be_locked_yet(tmp_path):
    folder = tmp_path / "ordinalgp-scratch-abc"
    folder.mkdir()
    (folder / "lock").touch()
    remove_abandoned(tmp_path)
    assert (folder / "lock").exists()
    age(folder / "lock")
    remove_abandoned(tmp_path)
    assert not folder.exists()


def test_files_of_others_are_spared(tmp_path):
    """Those that only look like ours, and what somebody has put among ours."""
    theirs = [
        tmp_path / ".ordinalgp-draft.tmp",
        tmp_path / f".{8 * 'ab'}.tmp",
        tmp_path / "ordinalgp-scratch-notes.txt",
        tmp_path / "ordinalgp-scratch-no-lock" / "X.bin",
        tmp_path / "ordinalgp-scratch-a" / "letter.txt",
        tmp_path / "ordinalgp-scratch-a" / "deep" / "X.bin",
    ]
    ours = [tmp_path / "ordinalgp-scratch-a" / "lock", tmp_path / "ordinalgp-scratch-a" / "X.bin"]
    for path in (*theirs, *ours):
        path.parent.mkdir(exist_ok=True)
        path.write_text("kept")
        age(path)
    remove_abandoned(tmp_path)
    assert all(path.read_text() == "kept" for path in theirs)
    assert not any(path.exists() for path in ours)


@posix
def test_links_are_not_followed(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    for name in ("lock", "X.bin"):
        (outside / name).write_text("kept")
        age(outside / name)
    (inside / "ordinalgp-scratch-link").symlink_to(outside)
    (inside / "ordinalgp-scratch-b").mkdir()
    (inside / "ordinalgp-scratch-b" / "lock").symlink_to(outside / "lock")
    (inside / f".ordinalgp-{8 * 'ab'}.tmp").symlink_to(outside / "X.bin")
    os.mkfifo(inside / f".ordinalgp-{8 * 'cd'}.tmp")
    before = sorted(inside.rglob("*"))
    remove_abandoned(inside)
    assert sorted(inside.rglob("*")) == before
    assert (outside / "lock").read_text() == (outside / "X.bin").read_text() == "kept"


def test_a_folder_that_cannot_be_read_is_no_error(tmp_path):
    remove_abandoned(tmp_path / "nowhere")
    assert not list(tmp_path.iterdir())


def test_files_that_are_written_for_long_are_not_taken_for_abandoned(tmp_path):
    with whole_file(tmp_path / "out") as file:
        file.write(b"half, ")
        file.flush()
        age(*tmp_path.iterdir())
        check_output(tmp_path / "out")
        file.write(b"whole")
    assert (tmp_path / "out").read_bytes() == b"half, whole"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
