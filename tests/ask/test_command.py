"""The command, its messages, and its process: ports, locks, signals and what is left behind."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.ask.common import DRINKS, Client, ServerProcess, wait_for, write_items

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("typer")

from ordinalgp.ask import server as server_module
from ordinalgp.ask.server import Server, is_loopback, open_socket
from ordinalgp.cli.main import build
from ordinalgp.preference import read_store


@pytest.fixture
def drinks(tmp_path):
    return write_items(tmp_path / "drinks.csv", {"drink": DRINKS})


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs the command without serving; returns exit code, output and errors."""
    monkeypatch.setattr(Server, "run", lambda self: None)

    def run(*words):
        with pytest.raises(SystemExit) as stopped:
            build()(["ask", *map(str, words)])
        told = capsys.readouterr()
        return stopped.value.code, told.out, told.err

    return run


def test_it_says_where_the_page_is_and_what_to_do_then(command, drinks, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    code, out, err = command(drinks, "--port", 0)
    assert code == 0
    assert f"Answers are saved in {drinks.with_name('drinks.answers.db')}" in out
    address = next(line for line in out.splitlines() if line.startswith("Open "))[5:]
    assert address.startswith("http://127.0.0.1:")
    assert opened == [address]
    assert "12 items; shown: drink." in err
    assert "ordinalgp rank --store" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--grades", "5", "--no-ties"], "--grades 5 has a tie"),
        (["--grades", "4", "--ties"], "--grades 4 has no tie"),
        (["--strategy", "best"], "--strategy must be one of auto, information"),
        (["--name", "cost"], "no column 'cost' for --name"),
        (["--features", "all"], "no column of numbers for --features all"),
        (["--show", "drink,cost"], "no column 'cost' for --show"),
        (["--host", "no.such.host.invalid"], "There is no host 'no.such.host.invalid'"),
        (["--store", "nowhere/a.db"], "cannot be a file of answers"),
        (["--grades", "9"], "Invalid value for '--grades'"),
        (["--port", "70000"], "Invalid value for '--port'"),
    ],
)
def test_wrong_options_are_named(command, drinks, words, message):
    code, out, err = command(drinks, "--no-open", "--port", 0, *words)
    assert code == 2
    assert message in " ".join(err.split())
    assert out == ""


def test_missing_packages_are_named(command, drinks, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, _, err = command(drinks, "--no-open")
    assert code == 2
    assert "pip install 'ordinalgp[ask]'" in err


def test_a_port_in_use_is_named(command, drinks):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, _, err = command(drinks, "--no-open", "--port", port)
    assert code == 2
    assert f"Port {port} is in use" in err
    assert f"--port {port + 1}" in err
    assert not drinks.with_name("drinks.answers.db").exists()


def test_options_of_the_store_are_kept_and_others_refused(command, drinks):
    from ordinalgp.ask import Answer, Store, Survey, named_items

    path = drinks.with_name("drinks.answers.db")
    survey = Survey("Which is nicer?", levels=(-1, 1))
    with Store.open(path, named_items(DRINKS), survey) as store:
        store.record(Answer("k" * 20, 1, 2, 1))
    common = [drinks, "--no-open", "--port", 0]
    code, out, _ = command(*common)
    assert code == 0
    assert "1 answers so far" in out
    found = read_store(path)
    assert (found.question, found.levels) == ("Which is nicer?", [-1, 1])
    code, _, err = command(*common, "--ties")
    assert code == 2
    assert "Start with --no-ties, or with another --store" in err
    assert command(*common, "--question", "Which is better now?")[0] == 0
    assert read_store(path).question == "Which is better now?"
    drinks.write_text("drink\nSoup\nStew\n")
    code, _, err = command(*common)
    assert code == 2
    assert "which the file of items does not list" in err


def test_a_name_for_the_network_gets_a_token_and_a_warning(command, drinks):
    code, out, err = command(drinks, "--no-open", "--port", 0, "--host", "0.0.0.0")
    assert code == 0
    address = next(line for line in out.splitlines() if line.startswith("Open "))
    assert "?token=" in address
    assert len(address.partition("token=")[2]) == 40
    assert "not encrypted" in err
    _, again, _ = command(drinks, "--no-open", "--port", 0, "--host", "0.0.0.0")
    assert again.partition("token=")[2].split()[0] == address.partition("token=")[2]


def test_hosts_of_this_machine():
    local = ("localhost", "127.0.0.1", "::1", "127.5.5.5")
    assert all(map(is_loopback, local))
    assert not any(map(is_loopback, ("0.0.0.0", "192.168.1.2", "::", "example.org")))
    with open_socket("127.0.0.1", 0) as sock:
        assert sock.getsockname()[0] == "127.0.0.1"
    assert server_module._own_address(socket.AF_INET)


# --------------------------------------------------------------------------------- processes


def processes_of(store):
    """Processes of servers of a store and of their analyses; Linux only."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
                ours = str(store).encode() in words
                if ours or str(store).encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


def test_the_whole_life_of_a_server(drinks, monkeypatch):
    """Start, answers, a second server, reading meanwhile, Ctrl-C, and what is left."""
    monkeypatch.setenv("ORDINALGP_TEST_STORE", str(drinks.with_name("drinks.answers.db")))
    with ServerProcess(drinks, "--judges") as server:
        client = server.client(judge="Ann")
        question = client.question()
        for _ in range(12):
            question = client.answer(question, 1)["question"]
        second = subprocess.run(
            [sys.executable, "-m", "ordinalgp", "ask", drinks, "--no-open", "--port", "0"],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert second.returncode == 2
        assert "is in use by another server" in second.stderr
        state = wait_for(lambda: (s := client.state())["progress"] and s)
        assert state["ranking"]["answers"] <= 12 == state["answers"]
        assert len(state["ranking"]["rows"]) == 12
        assert state["progress"]["top"] == 5
        assert len(read_store(server.store)) == 12
        assert server.stop() == 0
        log = server.log.read_text()
    assert "Traceback" not in log
    assert "Stopped. Rank the answers with" in log
    names = {path.name for path in drinks.parent.iterdir()}
    assert not {name for name in names if name.endswith(("-wal", "-shm"))}
    if sys.platform == "linux":
        wait_for(lambda: not processes_of(server.store))
    assert len(read_store(server.store)) == 12


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_killed_server_leaves_no_process(drinks, monkeypatch):
    monkeypatch.setenv("ORDINALGP_TEST_STORE", str(drinks.with_name("drinks.answers.db")))
    with ServerProcess(drinks) as server:
        client = server.client()
        client.answer(client.question(), 1)
        wait_for(lambda: len(processes_of(server.store)) >= 2)  # the analysis runs
        server.kill()
        wait_for(lambda: not processes_of(server.store))


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_an_analysis_that_dies_is_started_again(drinks, monkeypatch):
    monkeypatch.setenv("ORDINALGP_TEST_STORE", str(drinks.with_name("drinks.answers.db")))
    with ServerProcess(drinks) as server:
        client = server.client()
        question = client.question()
        for _ in range(7):
            question = client.answer(question, 1)["question"]
        wait_for(lambda: client.state()["ranking"])
        for pid in processes_of(server.store):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"spawn_main" in words:
                os.kill(pid, signal.SIGKILL)
        for _ in range(3):
            question = client.answer(question, 1)["question"]
        wait_for(lambda: client.state()["ranking"]["answers"] == 10)
        assert client.state()["failure"] is None
        assert server.stop() == 0


def test_a_signal_to_end_is_as_good_as_ctrl_c(drinks):
    if sys.platform == "win32":
        pytest.skip("Windows has no such signal")
    with ServerProcess(drinks) as server:
        Client(server.port).begin()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=60) == 0
        assert "Stopped" in server.log.read_text()


def test_a_connection_that_says_nothing_blocks_nobody(drinks):
    with ServerProcess(drinks) as server, socket.create_connection(("127.0.0.1", server.port)) as s:
        s.sendall(b"POST /api/answers HTTP/1.1\r\nhost: 127.0.0.1\r\n")
        client = server.client()
        began = time.monotonic()
        client.answer(client.question(), 1)
        assert time.monotonic() - began < 5
        with closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
            connection.request("GET", "/", headers={"x": "y" * 20_000})
            assert connection.getresponse().status == 431
        assert server.stop() == 0
