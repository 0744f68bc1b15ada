"""Analyses in a process of their own, so that pages never wait for one.

The process has a low priority and one thread of BLAS. It reads the next request when the last one
is done, and ends when the connection does: with the server, however that ends.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Event, Thread
from typing import Any

from ordinalgp.ask.analysis import Analysis, Analyst, Snapshot
from ordinalgp.ask.forecast import Outlook
from ordinalgp.runtime.threads import one_thread

_NICE = 10
_OUTLOOK_SHARE = 0.25  # of the time of the process, at most, that it looks ahead
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0  # seconds before a process that died is started again
_LONGEST_ANALYSIS = 900.0  # seconds, after which the process is started again
_TICK = 0.2  # seconds between looks at whether to stop


@dataclass(frozen=True)
class Failure:
    """An analysis that was not possible."""

    reason: str


Result = Analysis | Outlook | Failure


def serve(connection: Connection, analyst: Analyst) -> None:
    """Answer requests until the connection ends: the main function of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    if hasattr(os, "nice"):
        os.nice(_NICE)
    ahead = _Ahead()
    with suppress(EOFError, OSError), one_thread():
        while True:
            for result in _results(analyst, connection.recv(), ahead):
                connection.send(result)
            connection.send(None)


@dataclass(eq=False)
class _Ahead:
    """Time of the last look ahead, which is left out while it would take too much of all time."""

    due: float = 0.0

    def look(self, results: Any) -> Any:
        began = time.perf_counter()
        found = next(results)
        ended = time.perf_counter()
        self.due = ended + (ended - began) * (1 / _OUTLOOK_SHARE - 1)
        return found


def _results(analyst: Analyst, snapshot: Snapshot, ahead: _Ahead) -> Any:
    try:
        results = analyst.analyse(snapshot)
        yield next(results)
        if time.perf_counter() >= ahead.due:
            yield ahead.look(results)
    except Exception as error:  # whatever it is, the answers are kept, and the page says so
        yield Failure(f"{type(error).__name__}: {error}")


class Background:
    """A thread that keeps the process busy: with the newest answers, whenever there are new ones.

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
        self._news, self._stopped = Event(), Event()
        self._process: Any = None
        self._connection: Any = None
        self._thread = Thread(target=self._run, name="analysis", daemon=True)

    def start(self) -> None:
        """Start the process and the thread."""
        self._start_process()
        self._thread.start()

    def notify(self) -> None:
        """There are new answers."""
        self._news.set()

    def stop(self) -> None:
        """End the process and the thread, without waiting for an analysis."""
        self._stopped.set()
        self._news.set()
        self._end_process()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    def _start_process(self) -> None:
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=serve, args=(theirs, self._analyst), daemon=True, name="ordinalgp ask: analysis"
        )
        self._process.start()
        theirs.close()

    def _end_process(self) -> None:
        with suppress(OSError):
            self._connection.close()
        self._process.kill()
        self._process.join(timeout=5.0)

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            self._news.wait()
            self._news.clear()
            if self._stopped.is_set():
                return
            try:
                request = self._read()
                if request is not None:
                    self._exchange(request)
                pause = _FIRST_PAUSE
            except (EOFError, OSError):
                if self._stopped.wait(pause):
                    return
                self._publish(Failure("The analysis stopped, and is started again."))
                pause = min(2 * pause, _LONGEST_PAUSE)
                self._end_process()
                self._start_process()
                self._news.set()

    def _exchange(self, request: Snapshot) -> None:
        """Send a request, and publish all results of it."""
        self._connection.send(request)
        until = time.monotonic() + _LONGEST_ANALYSIS
        while not self._stopped.is_set():
            if not self._connection.poll(_TICK):
                if time.monotonic() > until:
                    raise TimeoutError
                continue
            result = self._connection.recv()
            if result is None:
                return
            self._publish(result)
