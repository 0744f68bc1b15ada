"""Progress of long work, reported upward through a callback."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

Stage = Literal["search", "pass", "em", "basis", "model", "fold"]


@dataclass(frozen=True)
class Progress:
    """One step of long work."""

    stage: Stage
    """search: evaluations of an objective; pass: passes over all rows; em: iterations of EM;
    basis: rounds of sparse training; model: whole models; fold: folds of a cross-validation"""
    step: int
    """number of the step, from 1; of a fold also 0, when the first begins"""
    total: int | None
    """number of steps, where it is known"""
    value: float | None
    """objective after the step"""
    seconds: float
    """time since the stage began"""
    text: str = ""
    """further information for people"""
    done: bool = False
    """whether the stage is complete"""


Report = Callable[[Progress], None]
_listener: ContextVar[Report | None] = ContextVar("ordinalgp_listener", default=None)


@contextmanager
def listening(report: Report) -> Iterator[None]:
    """Send the progress of every fit inside the ``with`` block to ``report``.

    Parameters
    ----------
    report : callable
        Called with a :class:`Progress` in the thread that fits. Other threads are not affected.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.runtime.progress import listening
    >>> X = np.linspace(-2, 2, 30)[:, None]
    >>> seen = []
    >>> with listening(seen.append):
    ...     model = OrdinalGPClassifier().fit(X, np.digitize(X[:, 0], [-1, 1]))
    >>> seen[0].stage, seen[-1].done
    ('search', True)
    """
    token = _listener.set(report)
    try:
        yield
    finally:
        _listener.reset(token)


def reporter(verbose: int) -> Report:
    """Callback for one fit: the listener's, and lines on the error stream if ``verbose`` is set.

    1 prints completed stages and long steps such as passes, 2 every step.
    """
    listener = _listener.get()

    def report(progress: Progress) -> None:
        if listener is not None:
            listener(progress)
        if verbose > 1 or (verbose and (progress.done or progress.stage in _ALWAYS_PRINTED)):
            print(_line(progress), file=sys.stderr, flush=True)

    return report


def silent(progress: Progress) -> None:
    """Report nothing."""


_ALWAYS_PRINTED = ("pass", "em", "model")  # steps that take long
STEP_NAMES: dict[Stage, str] = {
    "search": "evaluation",
    "pass": "pass",
    "em": "iteration",
    "basis": "round",
    "model": "model",
    "fold": "fold",
}


def _line(progress: Progress) -> str:
    number = f"{progress.step}" if progress.total is None else f"{progress.step}/{progress.total}"
    parts = [f"{STEP_NAMES[progress.stage]} {number}"]
    if progress.value is not None:
        parts.append(f"objective {progress.value:.6f}")
    parts.append(f"{progress.seconds:.1f} s")
    return f"{progress.stage}: {', '.join(parts)}" + (f", {progress.text}" if progress.text else "")
