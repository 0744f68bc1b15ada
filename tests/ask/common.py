"""A server in a process of its own, and clients of it."""

import asyncio
import csv
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import numpy as np

DRINKS = (
    "Tea with milk", "Espresso", "Mango lassi", "Sparkling water", "Hot chocolate", "Ginger ale",
    "Orange juice", "Filter coffee", "Elderflower cordial", "Cold brew", "Kombucha", "Mint tea",
)  # fmt: skip


def write_items(path, columns):
    """Write columns as a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


class ServerProcess:
    """``ordinalgp ask`` in a process of its own."""

    def __init__(self, items, *options, port=0, store=None, python=sys.executable):
        self.items, self.options, self.python = Path(items), options, python
        self.store = Path(store) if store else self.items.with_name(f"{self.items.stem}.answers.db")
        self.port = port
        self.log = self.items.with_name("server.log")
        self.process = None

    def start(self):
        """Start it, on the port that it had before if it was started before."""
        command = [self.python, "-m", "ordinalgp", "ask", self.items, "--no-open", "--json"]
        command += ["--store", self.store, "--port", self.port, *self.options]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [str(part) for part in command], stdout=subprocess.PIPE, stderr=log, text=True
            )
        line = self.process.stdout.readline()
        assert line, f"the server did not start: {self.log.read_text()}"
        self.told = json.loads(line)
        self.address = self.told["address"]
        self.port = urlsplit(self.address).port
        return self

    def kill(self):
        """End it as a crash would."""
        self.process.kill()
        self.process.wait(timeout=30)
        self.process.stdout.close()

    def stop(self):
        """End it as Ctrl-C does, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        return code

    def __enter__(self):
        return self.start()

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.kill()
        self.process.stdout.close()

    def client(self, **options):
        """A client that knows the token of the page."""
        return Client(self.port, **options).begin()


@dataclass
class Client:
    """A page without a browser."""

    port: int
    judge: str = ""
    page: str = field(default_factory=lambda: os.urandom(8).hex())
    token: str = ""

    def request(self, method, path, content=None, headers=None):
        """Status, headers and content of one request."""
        body = None if content is None else json.dumps(content).encode()
        given = {"content-type": "application/json"} if body is not None else {}
        if self.token:
            given["x-ordinalgp-token"] = self.token
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, path, body, given | (headers or {}))
            response = connection.getresponse()
            content = response.read()
            return response.status, {k.lower(): v for k, v in response.getheaders()}, content

    def json(self, method, path, content=None):
        """The content of a request that must succeed."""
        status, _, found = self.request(method, path, content)
        assert status == 200, (status, found)
        return json.loads(found)

    def begin(self):
        """Learn the token."""
        self.session = self.json("GET", "/api/session")
        self.token = self.session["token"]
        return self

    def question(self):
        """The pair to answer."""
        asked = urlencode({"page": self.page, "judge": self.judge})
        return self.json("GET", f"/api/question?{asked}")["question"]

    def answer(self, question, outcome, key=None, **more):
        """Send an answer; the reply has the next pair."""
        return self.json("POST", "/api/answers", self.given(question, outcome, key, **more))

    def given(self, question, outcome, key=None, **more):
        """The content of an answer."""
        sides = {side: question[side]["item"] for side in ("left", "right")}
        whose = {"page": self.page, "judge": self.judge, "key": key or new_key()}
        return {**whose, **sides, "outcome": outcome, "seconds": 1.0, **more}

    def state(self, everything=False):
        """Progress and ranking."""
        return self.json("GET", "/api/state" + ("?all=1" if everything else ""))


def new_key():
    """A random name of an answer."""
    return os.urandom(16).hex()


def wait_for(condition, seconds=120.0):
    """Wait until a condition holds, and return its value."""
    until = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)


class AsyncClient:
    """A page without a browser, which keeps its connection open; many of them fit into a loop."""

    def __init__(self, port, token="", judge=""):
        self.port, self.token, self.judge = port, token, judge
        self.page = os.urandom(8).hex()
        self._streams = None

    async def request(self, method, path, content=None):
        """Status and content of one request; raises OSError if there is no answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self._streams
        body = b"" if content is None else json.dumps(content).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        head += f"x-ordinalgp-token: {self.token}\r\n\r\n"
        try:
            writer.write(head.encode() + body)
            await writer.drain()
            return await self._response(reader)
        except (OSError, EOFError):
            self.close()
            raise

    async def _response(self, reader):
        status = int((await reader.readline()).split()[1:2][0]) if not reader.at_eof() else 0
        length = 0
        while (line := await reader.readline()).strip():
            name, _, value = line.decode().partition(":")
            if name.lower() == "content-length":
                length = int(value)
        return status, await reader.readexactly(length)

    def close(self):
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


def utilities_of(n, seed=0):
    """Utilities of simulated items."""
    return np.random.default_rng(seed).standard_normal(n)


def make_feature_items(path, n=1000, d=20, seed=0):
    """A file of items with features, and their utilities, which the features explain in part."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    utility = X @ rng.standard_normal(d) / np.sqrt(d) + 0.4 * rng.standard_normal(n)
    columns = {"name": [f"Item {i:04}" for i in range(n)]}
    columns |= {f"x{j}": [f"{v:.6f}" for v in X[:, j]] for j in range(d)}
    return write_items(path, columns), utility / utility.std()


class ThreadServer:
    """The application in a thread of the test, without analyses, with defences to choose."""

    def __init__(self, items, path, survey=None, names=(), change=lambda defences: defences):
        from ordinalgp.ask import Store, Survey
        from ordinalgp.ask.security import defences
        from ordinalgp.ask.server import open_socket
        from ordinalgp.ask.service import Service

        self.sock = open_socket("127.0.0.1", 0)
        self.port = self.sock.getsockname()[1]
        self.store = Store.open(path, items, survey or Survey())
        self.service = Service(items, self.store)
        self.defences = change(defences(self.store.secret, names, self.port))

    def __enter__(self):
        import uvicorn

        from ordinalgp.ask.application import build

        app = build(self.service, self.defences)
        config = uvicorn.Config(app, ws="none", lifespan="off", log_level="warning", http="h11")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=asyncio.run, args=(self._server.serve(sockets=[self.sock]),), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(timeout=30)
        self.store.close()
        self.sock.close()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}/"

    def client(self, **options):
        """A client that knows the token of the page."""
        return Client(self.port, **options).begin()

    @property
    def n_answers(self):
        return len(list(self.store.answers()))
