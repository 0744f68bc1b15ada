"""Outputs: nothing is destroyed, and what cannot be written is said before the work begins."""

import errno
import io
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest
from tests.table_cases import LEVELS, school, write_csv

import ordinalgp
from ordinalgp import OrdinalGPClassifier
from ordinalgp.runtime.files import check_output, whole_file
from ordinalgp.tables import TableModel

pytest.importorskip("typer")
pytest.importorskip("matplotlib")
from ordinalgp.cli.common import _is_closed_pipe
from ordinalgp.cli.main import _tolerate, build

posix = pytest.mark.skipif(os.name == "nt", reason="pipes, devices and sockets of Unix")
FIT = ("-t", "grade", "--categories", ",".join(LEVELS), "--kernel", "rbf")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table, a model, and comparisons of items."""
    made = tmp_path_factory.mktemp("ready")
    columns, grade = school(30)
    table = columns | {"grade": [LEVELS[g - 1] for g in grade]}
    write_csv(made / "train.csv", table)
    (made / "items.csv").write_text("item\na\nb\nc\n")
    (made / "duels.csv").write_text("winner,loser\na,b\nb,c\n")
    classifier = OrdinalGPClassifier(optimizer=None, categories=LEVELS)
    model = TableModel(classifier, kernel="rbf", target="grade")
    model.fit(columns, table["grade"]).save(made / "model.ogp")
    return made


@pytest.fixture
def ready(capsys, folder, tmp_path, monkeypatch):
    """Call the command in a copy of the folder; gives exit code, output and errors."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)

    def call(*args):
        with pytest.raises(SystemExit) as stopped:
            build()([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return call


@pytest.fixture
def no_work(monkeypatch):
    """Fail if a file is read or a model fitted: the output is checked first."""

    def never(*args, **options):
        raise AssertionError("the work began before the output was checked")

    monkeypatch.setattr("ordinalgp.tables.files.TableFile.chunks", never)
    monkeypatch.setattr("ordinalgp.load", never)


COMMANDS = {
    "fit": ("fit", "train.csv", *FIT),
    "predict": ("predict", "model.ogp", "train.csv"),
    "rank": ("rank", "items.csv", "duels.csv"),
    "report": ("report", "model.ogp"),
}


def read_in_background(path):
    """Thread that reads a pipe to its end, and the list that its content is put into."""
    found = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()), daemon=True)
    reader.start()
    return reader, found


@posix
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("link", [False, True])
def test_a_pipe_is_written_through(command, link, ready, tmp_path):
    pipe, regular = tmp_path / "pipe", tmp_path / "regular"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    reader, found = read_in_background(pipe)
    code, _, err = ready(*COMMANDS[command], "-o", "link" if link else "pipe")
    reader.join(20)
    assert (code, stat.S_ISFIFO(pipe.stat().st_mode)) == (0, True), err
    assert ready(*COMMANDS[command], "-o", regular)[0] == 0
    assert found == [regular.read_bytes()]


@posix
def test_a_device_is_written_through(tmp_path):
    import pty

    main, node = pty.openpty()
    device = os.ttyname(node)
    with whole_file(device) as file:
        file.write(b"written")
    assert os.read(main, 100) == b"written"
    assert stat.S_ISCHR(os.stat(device).st_mode)
    os.close(main)
    os.close(node)


@posix
def test_a_null_device_stays_one(ready, tmp_path):
    null = tmp_path / "null"
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        null.write_bytes(b"")
    except OSError:
        pytest.skip("only root makes devices")
    for command in COMMANDS.values():
        code, _, err = ready(*command, "-o", "null")
        assert code == 0, err
        assert stat.S_ISCHR(null.stat().st_mode)


@posix
def test_models_in_python_are_written_through_too(tmp_path):
    X = np.linspace(-2, 2, 12)[:, None]
    model = OrdinalGPClassifier(optimizer=None).fit(X, np.digitize(X[:, 0], [-1, 1]))
    os.mkfifo(tmp_path / "pipe")
    reader, found = read_in_background(tmp_path / "pipe")
    model.save(tmp_path / "pipe")
    reader.join(20)
    (tmp_path / "copy.ogp").write_bytes(found[0])
    assert ordinalgp.load(tmp_path / "copy.ogp").predict([[1.9]]) == model.predict([[1.9]])


@posix
def test_a_failure_writes_nothing_into_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    hold = os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK)
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "pipe") as file:
        _ = file.write(b"half") // 0
    with pytest.raises(BlockingIOError):
        os.read(hold, 10)
    os.close(hold)


@posix
def test_sockets_are_refused_and_left(ready, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a short name: sockets have no long ones
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        code, _, err = ready(*COMMANDS["report"], "-o", "socket")
        assert code == 2
        assert "'socket' is a socket, where a file is to be written" in err
        assert stat.S_ISSOCK((tmp_path / "socket").stat().st_mode)


@posix
def test_the_output_may_be_the_standard_output(ready, tmp_path):
    """As a pipe, and as a file that a shell appends to: what was in it stays."""
    command = [sys.executable, "-m", "ordinalgp", *COMMANDS["predict"]]
    printed = ready(*COMMANDS["predict"])[1].encode()
    piped = subprocess.run([*command, "-o", "/dev/stdout"], capture_output=True, check=True).stdout
    assert piped.startswith(printed)
    with (tmp_path / "log").open("w") as log:
        log.write("before\n")
    with (tmp_path / "log").open("a") as log:
        subprocess.run([*command, "-o", "/dev/stdout"], stdout=log, check=True)
    assert (tmp_path / "log").read_bytes() == b"before\n" + piped


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("fit", "train.csv"),
        ("predict", "train.csv"),
        ("predict", "model.ogp"),
        ("rank", "items.csv"),
        ("rank", "duels.csv"),
        ("report", "model.ogp"),
    ],
)
@pytest.mark.parametrize("way", ["name", "symbolic", "hard", "roundabout"])
def test_inputs_are_never_overwritten(command, name, way, ready, no_work, tmp_path):
    (tmp_path / "sub").mkdir()
    output = {"name": name, "roundabout": f"sub/../{name}"}.get(way, "link.csv")
    if way == "symbolic":
        (tmp_path / output).symlink_to(name)
    elif way == "hard":
        os.link(tmp_path / name, tmp_path / output)
    before = (tmp_path / name).read_bytes()
    code, out, err = ready(*COMMANDS[command], "-o", output)
    assert (code, out) == (2, "")
    assert f"The output '{output}' is the input '{name}', which would be lost." in err
    assert (tmp_path / name).read_bytes() == before


@posix
def test_a_way_through_a_folder_that_is_not_there_spares_the_input(ready, no_work, tmp_path):
    """As a name it is no file, but without "nowhere/.." it is the input."""
    before = (tmp_path / "train.csv").read_bytes()
    code, _, err = ready(*COMMANDS["fit"], "-o", "nowhere/../train.csv")
    assert code == 2
    assert "There is no folder" in err
    assert (tmp_path / "train.csv").read_bytes() == before


def test_costs_are_inputs_too(ready, no_work, tmp_path):
    (tmp_path / "costs.csv").write_text("true,poor,fair,good\n")
    command = (*COMMANDS["predict"], "--decision", "costs.csv", "-o")
    code, _, err = ready(*command, "costs.csv")
    assert (code, "The output 'costs.csv' is the input 'costs.csv'" in err) == (2, True)


@pytest.mark.parametrize("command", ["rank", "compare", "explain"])
def test_two_outputs_have_two_names(command, ready, no_work, tmp_path):
    start = {
        "rank": ("rank", "items.csv", "duels.csv"),
        "compare": ("compare", "train.csv", "-t", "grade", "--categories", ",".join(LEVELS)),
        "explain": ("explain", "model.ogp", "train.csv", "--row", "1"),
    }[command]
    (tmp_path / "link").symlink_to(".")
    code, _, err = ready(*start, "-o", "out.png", "--plot", "link/out.png")
    assert (code, "Two outputs have the name 'link/out.png'" in err) == (2, True)
    code, _, err = ready("rate", "train.csv", "-o", "out.csv", "--raters", "link/out.csv")
    assert (code, "Two outputs have the name 'link/out.csv'" in err) == (2, True)


def test_pictures_of_rows_spare_inputs(ready, tmp_path):
    shutil.copy(tmp_path / "train.csv", tmp_path / "row-3.svg")
    before = (tmp_path / "row-3.svg").read_bytes()
    code, _, err = ready("explain", "model.ogp", "row-3.svg", "--plot", "row.svg")
    assert (code, "The output 'row-3.svg' is the input" in err) == (2, True)
    assert (tmp_path / "row-3.svg").read_bytes() == before


@pytest.mark.parametrize("command", COMMANDS)
def test_the_output_is_checked_before_the_work(command, ready, no_work, tmp_path):
    before = sorted(tmp_path.iterdir())
    code, _, err = ready(*COMMANDS[command], "-o", "nowhere/out")
    assert (code, "There is no folder" in err) == (2, True)
    code, _, err = ready(*COMMANDS[command], "-o", ".")
    assert (code, "'.' is a folder, where a file is to be written" in err) == (2, True)
    code, _, err = ready(*COMMANDS[command], "-o", "train.csv/out")
    assert (code, "There is no folder" in err) == (2, True)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_protected_places_are_refused_before_the_work(command, ready, no_work, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    (tmp_path / "kept.csv").write_text("as it was")
    (tmp_path / "kept.csv").chmod(0o400)
    if os.access(tmp_path / "closed", os.W_OK):
        pytest.skip("root may write everywhere")
    code, _, err = ready(*COMMANDS[command], "-o", "closed/out.csv")
    assert (code, "'closed/out.csv' cannot be written" in err) == (2, True)
    code, _, err = ready(*COMMANDS[command], "-o", "kept.csv")
    assert (code, "'kept.csv' is protected against writing" in err) == (2, True)
    assert (tmp_path / "kept.csv").read_text() == "as it was"


UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv of Linux")
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ((*COMMANDS["fit"], "-o", "closed/out.ogp"), "'closed/out.ogp' cannot be written: Permi"),
        ((*COMMANDS["fit"], "-o", "kept.csv"), "'kept.csv' is protected against writing"),
        ((*COMMANDS["fit"], "-o", "m.ogp", "--checkpoint", "closed/a"), "closed' cannot be wri"),
        (("demo", "-o", "closed"), "closed' cannot be written: Permission denied"),
    ],
)
def test_even_root_is_told_of_protected_places(command, said, ready, tmp_path):
    """In a process without root's right to write everywhere."""
    (tmp_path / "kept.csv").write_text("as it was")
    (tmp_path / "kept.csv").chmod(0o400)
    (tmp_path / "closed").mkdir(mode=0o500)
    start = UNPRIVILEGED if os.geteuid() == 0 else []
    told = subprocess.run(
        [*start, sys.executable, "-m", "ordinalgp", *command], capture_output=True, text=True
    )
    assert (told.returncode, said in told.stderr) == (2, True), told.stderr
    assert (tmp_path / "kept.csv").read_text() == "as it was"
    assert not list((tmp_path / "closed").iterdir())


def test_a_full_disk_is_said_before_the_work(tmp_path, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.open", full)
    with pytest.raises(OSError, match="cannot be written: No space left on device"):
        check_output(tmp_path / "out.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("command", ["fit", "predict", "report"])
def test_a_disk_that_is_full_at_the_end_is_said_in_words(command, ready):
    code, _, err = ready(*COMMANDS[command], "-o", "/dev/full")
    assert code == 2
    assert "The output cannot be written: No space left on device. Free some space" in err
    assert "Errno" not in err


def test_errors_of_the_operating_system_are_said_in_words(ready, monkeypatch):
    def broken(*args, **options):
        raise OSError(5, "Input/output error", "train.csv")

    monkeypatch.setattr("ordinalgp.tables.files.TableFile.chunks", broken)
    code, _, err = ready(*COMMANDS["predict"])
    assert code == 2
    assert "'train.csv' cannot be read or written: Input/output error." in err
    assert "Errno" not in err


def test_plots_need_a_folder_and_spare_inputs(ready, tmp_path):
    evaluate = ("evaluate", "model.ogp", "train.csv", "--plots")
    code, _, err = ready(*evaluate, "train.csv")
    assert (code, "train.csv' is not a folder" in err) == (2, True)
    (tmp_path / "plots").mkdir()
    os.link(tmp_path / "model.ogp", tmp_path / "plots" / "confusion.png")
    code, _, err = ready(*evaluate, "plots")
    assert (code, "is the input 'model.ogp', which would be lost" in err) == (2, True)
    code, out, err = ready(*evaluate, "new/plots", "--json")
    assert code == 0, err
    for path in json.loads(out)["plots"]:
        assert (tmp_path / path).read_bytes()[:4] == b"\x89PNG"


def test_demo_and_checkpoint_need_folders(ready, tmp_path):
    code, _, err = ready("demo", "-o", "train.csv/demo")
    assert (code, "train.csv' is not a folder" in err) == (2, True)
    code, _, err = ready(*COMMANDS["fit"], "--checkpoint", "train.csv")
    assert (code, "train.csv' is not a folder" in err) == (2, True)


def test_predictions_are_no_spreadsheet(ready, no_work):
    code, _, err = ready(*COMMANDS["predict"], "-o", "out.xlsx")
    assert (code, "tables are written as .csv, .csv.gz, .tsv or .parquet" in err) == (2, True)


@pytest.mark.parametrize(
    ("platform", "error", "closed"),
    [
        ("linux", BrokenPipeError(errno.EPIPE, "Broken pipe"), True),
        ("win32", OSError(errno.EINVAL, "Invalid argument"), True),
        ("win32", OSError(errno.EINVAL, "Invalid argument", "a?b.csv"), False),
        ("linux", OSError(errno.EINVAL, "Invalid argument"), False),
    ],
)
def test_a_reader_who_leaves_is_no_error(monkeypatch, platform, error, closed):
    monkeypatch.setattr(sys, "platform", platform)
    assert _is_closed_pipe(error) is closed


@pytest.mark.parametrize(
    ("platform", "terminal", "written"),
    [("win32", False, "±λ".encode()), ("win32", True, b"\xb1?"), ("linux", False, b"\xb1?")],
)
def test_streams_take_every_character(monkeypatch, platform, terminal, written):
    """As UTF-8 into files and pipes of Windows; else what the encoding lacks becomes ?."""
    bytes_ = io.BytesIO()
    stream = io.TextIOWrapper(bytes_, encoding="cp1252")
    monkeypatch.setattr(stream.buffer, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    _tolerate(stream)
    stream.write("±λ")
    stream.flush()
    assert bytes_.getvalue() == written
