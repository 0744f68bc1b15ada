"""The server: a socket, the application, and the analysis in the background."""

import asyncio
import errno
import ipaddress
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import current_thread, main_thread
from typing import Any

from ordinalgp.ask.analysis import Analyst, Snapshot
from ordinalgp.ask.background import Background, Result
from ordinalgp.ask.items import Items
from ordinalgp.ask.security import LOOPBACK, defences, derived
from ordinalgp.ask.service import Service
from ordinalgp.ask.store import Store
from ordinalgp.runtime.extras import import_extra
from ordinalgp.tables.cells import BadInput

_BACKLOG = 512
_GRACE = 2  # seconds that open requests have when the server is stopped
_PATIENCE = 5.0  # seconds that the analysis waits for the loop
_ANY = ("0.0.0.0", "::")
_OUTSIDE = {int(socket.AF_INET): "192.0.2.1", int(socket.AF_INET6): "2001:db8::1"}  # of nobody


def open_socket(host: str, port: int) -> socket.socket:
    """A listening socket, or an error that says what to do. Port 0 is any that is free."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
    except (socket.gaierror, UnicodeError, OverflowError) as error:
        raise BadInput(f"There is no host {host!r} for --host.") from error
    sock = socket.socket(family, kind, protocol)
    try:
        if sys.platform == "win32":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:  # a server that was killed leaves connections that are ending
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise _unusable(host, port, error) from error
    return sock


def _unusable(host: str, port: int, error: OSError) -> BadInput:
    if error.errno == errno.EADDRINUSE:
        return BadInput(
            f"Port {port} is in use, perhaps by another ordinalgp ask. Choose another one, e.g. "
            f"--port {port + 1}, or --port 0 for any that is free."
        )
    if error.errno == errno.EACCES:
        return BadInput(f"Port {port} is not allowed for you. Choose one above 1023 with --port.")
    return BadInput(f"The server cannot use host {host} and port {port}: {error.strerror}.")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine only."""
    return host in LOOPBACK or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def check_packages() -> None:
    """Raise an error that says how to install what is missing."""
    for package in ("starlette", "uvicorn"):
        import_extra(package, "ordinalgp ask needs", "ask")


@dataclass(eq=False)
class Server:
    """A survey on a socket; :meth:`run` serves until it is stopped."""

    items: Items
    store: Store
    sock: socket.socket
    host: str

    @property
    def port(self) -> int:
        """The port, also where any was asked for."""
        return int(self.sock.getsockname()[1])

    @property
    def names(self) -> frozenset[str]:
        """Names by which the server is known on a network; none if it is not on one."""
        if is_loopback(self.host):
            return frozenset()
        own = {self.host.lower(), socket.gethostname().lower()}
        short = {name.partition(".")[0] for name in own if not _is_address(name)}
        return frozenset(own | short | {f"{name}.local" for name in short})

    @property
    def address(self) -> str:
        """Address to open in a browser, with the access token where one is needed."""
        if not self.names:
            return _address(self.host, self.port)
        host = _own_address(self.sock.family) if self.host in _ANY else self.host
        return f"{_address(host, self.port)}?token={derived(self.store.secret, 'access')}"

    def run(self) -> None:
        """Serve until Ctrl-C, or a signal to end."""
        import uvicorn

        from ordinalgp.ask.application import build

        service = Service(self.items, self.store)
        app = build(service, defences(self.store.secret, self.names, self.port))
        server = uvicorn.Server(_config(uvicorn, app))
        with suppress(KeyboardInterrupt), _ending_by_signal(), asyncio.Runner() as runner:
            background = _background(service, runner.get_loop())
            with _without_interrupts():
                background.start()
            try:
                background.notify()
                runner.run(server.serve(sockets=[self.sock]))
            finally:
                background.stop()


def _config(uvicorn: Any, app: Any) -> Any:
    return uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=1000,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_GRACE,
        h11_max_incomplete_event_size=16_384,
    )


def _background(service: Service, loop: asyncio.AbstractEventLoop) -> Background:
    """Analyses of a service whose methods run in the thread of a loop."""
    survey, items = service.store.survey, service.items
    top = survey.top_of(len(items))
    analyst = Analyst(len(items), items.X, survey.levels, top, survey.strategy)

    async def wishes() -> Any:
        return service.wishes()

    def read() -> Snapshot | None:
        wanted = asyncio.run_coroutine_threadsafe(wishes(), loop).result(_PATIENCE)
        return service.snapshot(wanted)

    def publish(result: Result) -> None:
        with suppress(RuntimeError):  # the loop is closed: the server has ended
            loop.call_soon_threadsafe(service.take, result)

    background = Background(analyst, read, publish)
    service.changed = background.notify
    return background


@contextmanager
def _ending_by_signal() -> Iterator[None]:
    """Let a signal to end do what Ctrl-C does."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C, also in processes that are started in the ``with`` block."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def _own_address(family: int) -> str:
    """Address of this machine on its network; its name where that is not known."""
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((_OUTSIDE[family], 9))  # sends nothing: it only chooses the way out
        return str(probe.getsockname()[0])
    return socket.gethostname()
