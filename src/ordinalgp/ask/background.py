"""Analyses in a process of their own, so that pages never wait for one.

The process has a low priority and one thread of BLAS. It ends when its connection does: with the
server, however that ends. A thread of the server sends it the newest answers whenever it is free.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from threading import Lock, Thread
from typing import Any

from ordinalgp.ask.analysis import Analysis, Analyst, Snapshot
from ordinalgp.ask.forecast import Outlook
from ordinalgp.runtime.threads import one_thread

_NICE = 10
_OUTLOOK_SHARE = 0.25  # of its time, at most, that the process looks ahead while answers come in
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0  # seconds before a process that died is started again
_LONGEST_ANALYSIS = 900.0  # seconds, after which the process is started again


@dataclass(frozen=True)
class Failure:
    """An analysis that was not possible."""

    reason: str


Result = Analysis | Outlook | Failure

# --------------------------------------------------------------------------- the process


def serve(connection: Connection, analyst: Analyst) -> None:
    """Answer requests until the connection ends: the main function of the process.

    Each request has one answer, an analysis or a failure. An outlook may follow: at once, or
    where that would take too much of the time, when no other request has come for a while.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    if hasattr(os, "nice"):
        os.nice(_NICE)
    due = 0.0
    with suppress(EOFError, OSError), one_thread():
        while True:
            results = _without_errors(analyst.analyse(connection.recv()))
            for place, result in enumerate(results):
                connection.send(result)
                if place == 0 and connection.poll(max(0.0, due - time.perf_counter())):
                    break
                began = time.perf_counter()
            else:
                ended = time.perf_counter()
                due = ended + (ended - began) * (1 / _OUTLOOK_SHARE - 1)


def _without_errors(results: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from results
    except Exception as error:  # whatever it is, answers are kept, and the page says that it was
        yield Failure(f"{type(error).__name__}: {error}")


# ---------------------------------------------------------------------------- the thread


class Background:
    """A thread that sends requests to the process, and hands on its results.

    ``read`` makes a request, or None if there is nothing to do; ``publish`` gets the results. Both
    are called in the thread.
    """

    def __init__(
        self,
        analyst: Analyst,
        read: Callable[[], Snapshot | None],
        publish: Callable[[Result], None],
    ) -> None:
        self._analyst, self._read, self._publish = analyst, read, publish
        self._bell, self._ring = get_context("spawn").Pipe(duplex=False)
        self._rung, self._lock = False, Lock()
        self._stopped = False
        self._process: Any = None
        self._connection: Any = None
        self._thread = Thread(target=self._run, name="analysis", daemon=True)

    def start(self) -> None:
        """Start the process and the thread."""
        self._start_process()
        self._thread.start()

    def notify(self) -> None:
        """Say that there are new answers."""
        with self._lock:
            if not self._rung:
                self._ring.send_bytes(b"!")
            self._rung = True

    def stop(self) -> None:
        """End the process and the thread, without waiting for an analysis."""
        self._stopped = True
        self.notify()
        self._end_process()
        if self._thread.is_alive():
            self._thread.join(timeout=10.0)

    def _start_process(self) -> None:
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=serve, args=(theirs, self._analyst), daemon=True, name="ordinalgp ask: analysis"
        )
        self._process.start()
        theirs.close()

    def _end_process(self) -> None:
        self._process.kill()
        self._process.join(timeout=10.0)

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopped:
            try:
                self._exchange()
            except (EOFError, OSError):  # the process has ended
                if self._stopped:
                    return
                self._publish(Failure("the analysis stopped, and is started again"))
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                self._end_process()
                self._connection.close()
                self._start_process()
                self.notify()

    def _exchange(self) -> None:
        """Send requests and publish results, until one of both ends."""
        news, asked_at = False, 0.0
        while not self._stopped:
            ready = wait([self._bell, self._connection], None if not asked_at else 1.0)
            if self._bell in ready:
                news = True
                with self._lock:
                    self._bell.recv_bytes()
                    self._rung = False
            if self._connection in ready:
                result = self._connection.recv()
                self._publish(result)
                if not isinstance(result, Outlook):
                    asked_at = 0.0
            if asked_at and time.monotonic() - asked_at > _LONGEST_ANALYSIS:
                raise TimeoutError
            if news and not asked_at and not self._stopped:
                news = False
                request = self._read()
                if request is not None:
                    self._connection.send(request)
                    asked_at = time.monotonic()
