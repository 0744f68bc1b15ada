"""Threads of the linear algebra libraries: the one place that sets them.

Public methods of the estimators run with one thread of BLAS. Inside them, single factorisations
of large matrices have more (:func:`threads_for`), where cores are free. They never have more than
the user allows, by an environment variable or by an enclosing ``threadpool_limits``. The numbers of
threads belong to the whole process, so regions of all Python threads are kept together: while
several run at once, each has one thread, and the last one to end restores what the user had.

numpy and scipy may each bring an OpenBLAS with threads of its own. These wait for work in a loop.
Where both have threads, they take the cores from each other: a fit of 1,000 rows on two cores took
2 to 6 times as long as with one thread. Only scipy's library, which factorises, gets more than one.

Threads that share a core with another process wait for each other at every step: on two cores
beside two busy processes, a factorisation of 1,000 rows took up to 5 s instead of 0.01. So each
large call asks first whether cores are free, and after an interrupted call there is a pause.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from inspect import isfunction
from multiprocessing import parent_process
from pathlib import Path
from threading import Lock, get_ident
from typing import Any, ParamSpec, TypeVar

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

from joblib import cpu_count
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController, threadpool_limits

# Rows per thread from which on a fit is faster: with two threads, 1.2 times as fast at 600 rows,
# 1.5 at 1,000 and 1.6 at 2,000. Below, little is gained, and more is lost beside other processes.
_ROWS_PER_THREAD = 400
_MOST_THREADS = 16  # beyond, passes over memory dominate
_LOOKS = 3  # at busy cores, a millisecond apart: most other work is as short
_SHORTEST, _LONGEST = 0.25, 30.0  # seconds of one thread after other processes needed the cores
_INTERRUPTIONS = 10  # of one call; on free cores there were 0 to 7, else up to 800

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


def worthwhile(order: int) -> int:
    """Number of threads that pay for factorisations of matrices of this order, on free cores."""
    return max(1, min(order // _ROWS_PER_THREAD, _MOST_THREADS))


def free_cores() -> int:
    """Cores that this process may use and that no other process needs now, at least one."""
    return max(1, min(_cores(), (os.cpu_count() or 1) - _running_elsewhere()))


@cache
def _cores() -> int:
    """Cores of this process, by affinity and the limits of its container."""
    return int(cpu_count())


def _running_elsewhere() -> int:
    """Threads of other processes that run or wait for a core; 0 where the system does not tell.

    Linux counts all that run at this moment. Our own include threads of BLAS that wait in a loop.
    """
    try:
        running = Path("/proc/loadavg").read_text().split()[3].partition("/")[0]
        states = [_state(task) for task in Path("/proc/self/task").iterdir()]
        return max(0, int(running) - states.count("R"))
    except (OSError, ValueError, IndexError):
        return 0


def _state(task: Path) -> str:
    """State of a thread, "R" if it runs."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:  # it has ended
        return ""


def in_worker() -> bool:
    """Whether this is a worker of joblib, or any process of a pool: others share the cores."""
    nested = getattr(get_active_backend()[0], "nesting_level", 0)
    return bool(nested) or parent_process() is not None


class _Library:
    """A BLAS library: the user's number of threads, and the one that is set."""

    def __init__(self, controller: Any, threaded: bool) -> None:
        self._controller = controller
        self._threaded = threaded
        """whether it may have more than one thread"""
        self._per_thread = getattr(controller, "threading_layer", "") == "openmp"
        """whether each thread of Python has a number of its own"""
        self.users = self._now = 1

    def read(self) -> None:
        """Note the user's number."""
        self.users = self._now = self._controller.get_num_threads() or 1

    def limit(self, number: int) -> None:
        """Set a number of threads, at most the user's."""
        self._set(min(number if self._threaded else 1, self.users))

    def restore(self) -> None:
        """Set the user's number."""
        self._set(self.users)

    def leave(self) -> None:
        """Restore the number of this thread of Python, if it has one of its own."""
        if self._per_thread:
            self._now = 0
            self.restore()

    def _set(self, number: int) -> None:
        if number != self._now or self._per_thread:
            self._release()
            self._controller.set_num_threads(number)
            self._release()
            self._now = number

    def _release(self) -> None:
        """Let any thread set the number: threadpoolctl 3.8 ignores all but the first that did."""
        if hasattr(self._controller, "clear_controlling_thread"):
            self._controller.clear_controlling_thread(force=True)


def _libraries() -> list[_Library]:
    """All BLAS libraries of the process. Finding them takes milliseconds."""
    import scipy.linalg.lapack  # noqa: F401  (its library must be there to be found)

    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return [_Library(one, len(found) == 1 or "scipy.libs" in one.filepath) for one in found]


class Regions:
    """Regions of code with a number of threads, of all Python threads of the process."""

    def __init__(self, find: Callable[[], list[_Library]] = _libraries) -> None:
        self._find = find
        self._libraries: list[_Library] | None = None
        self.forget()

    def forget(self) -> None:
        """Begin anew, in a forked process: other threads are gone, perhaps with the lock."""
        self._lock = Lock()
        self._stacks: dict[int, list[tuple[int, int]]] = {}
        """by thread: number and most threads of each region, the innermost last"""

    @contextmanager
    def of(self, number: int, most: int | None = None) -> Iterator[None]:
        """A region with a number of threads; regions inside it have at most ``most``."""
        thread = get_ident()
        with self._lock:
            self._enter(thread, number, most)
        try:
            yield
        finally:
            with self._lock:
                self._leave(thread)

    def _enter(self, thread: int, number: int, most: int | None) -> None:
        if self._libraries is None:
            self._libraries = self._find()
        if not self._stacks:
            for library in self._libraries:
                library.read()
        stack = self._stacks.get(thread)
        users = max((library.users for library in self._libraries), default=1)
        ceiling = stack[-1][1] if stack else users
        if most is not None:
            ceiling = min(ceiling, most)
        self._stacks.setdefault(thread, []).append((min(number, ceiling), ceiling))
        self._apply()

    def _leave(self, thread: int) -> None:
        stack = self._stacks.get(thread)
        if not stack:  # entered before a fork
            return
        stack.pop()
        if not stack:
            del self._stacks[thread]
        self._apply()
        if not stack:
            for library in self._libraries or ():
                library.leave()

    def _apply(self) -> None:
        stacks = list(self._stacks.values())
        for library in self._libraries or ():
            if not stacks:
                library.restore()
            else:
                library.limit(stacks[0][-1][0] if len(stacks) == 1 else 1)

    def ceiling(self) -> int:
        """Most threads that a region may have here: one while other threads have regions too."""
        with self._lock:
            stack = self._stacks.get(get_ident())
            return stack[-1][1] if stack and len(self._stacks) == 1 else 1


class Neighbours:
    """Memory of other processes that needed the cores."""

    def __init__(self) -> None:
        self._pause = _SHORTEST
        self._until = -float("inf")

    def free(self, wanted: int) -> int:
        """Number of the wanted threads that find a free core now."""
        if time.monotonic() < self._until:
            return 1
        for _ in range(_LOOKS):
            found = min(wanted, free_cores())
            if found > 1:
                return found
            time.sleep(0.001)
        self._wait()
        return 1

    def _wait(self) -> None:
        self._until = time.monotonic() + self._pause
        self._pause = min(2.0 * self._pause, _LONGEST)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note whether a call with several threads was interrupted by other processes."""
        before = interruptions()
        try:
            yield
        finally:
            if interruptions() - before >= _INTERRUPTIONS:
                self._wait()
            else:
                self._pause = max(0.5 * self._pause, _SHORTEST)


def interruptions() -> int:
    """Number of times that threads of this process left a core to others; 0 if unknown."""
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


_regions, _neighbours = Regions(), Neighbours()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _regions.forget())


@contextmanager
def threads_for(order: int) -> Iterator[None]:
    """As many threads as pay for one factorisation of a matrix of this order, and are free."""
    with _regions.of(1):
        number = min(worthwhile(order), _regions.ceiling())
        number = 1 if number == 1 or in_worker() else _neighbours.free(number)
        if number == 1:
            yield
            return
        with _regions.of(number), _neighbours.watched():
            yield


def threaded(function: Callable[..., R]) -> Callable[..., R]:
    """Give a function of LAPACK, whose first argument is a matrix, the threads that pay for it."""

    def run(matrix: Any, *args: Any, **kwargs: Any) -> R:
        if worthwhile(len(matrix)) == 1:
            return function(matrix, *args, **kwargs)
        with threads_for(len(matrix)):
            return function(matrix, *args, **kwargs)

    return run


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread inside the ``with`` block or the decorated function, for matrices of any size."""
    with _regions.of(1, most=1):
        yield


@contextmanager
def one_thread_everywhere() -> Iterator[None]:
    """One thread of BLAS and of OpenMP inside the ``with`` block, so that times compare."""
    with one_thread(), threadpool_limits(1, "openmp"):
        yield


def managed(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function with one thread, except where it asks for more by :func:`threads_for`."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with _regions.of(1):
            return function(*args, **kwargs)

    run.manages_threads = True  # type: ignore[attr-defined]
    return run


def manage(cls: C) -> C:
    """Manage the threads of all public methods that a class defines."""
    for name, member in list(vars(cls).items()):
        if isfunction(member) and not name.startswith("_"):
            setattr(cls, name, managed(member))
    return cls
