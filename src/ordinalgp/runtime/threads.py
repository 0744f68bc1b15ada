"""Threads of the linear algebra libraries: the one place that limits them."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

_ROWS_FOR_THREADS = 2000  # matrices below this are factorised faster by one thread


def one_thread() -> AbstractContextManager[Any]:
    """One BLAS thread inside the ``with`` block; matrices of a few hundred rows gain from it."""
    return threadpool_limits(1, "blas")


def one_thread_everywhere() -> AbstractContextManager[Any]:
    """One thread of BLAS and of OpenMP inside the ``with`` block, so that times compare."""
    return threadpool_limits(1)


def one_thread_per_worker(n_jobs: int | None) -> AbstractContextManager[Any]:
    """One BLAS thread while several workers share the cores; no limit for a single worker."""
    return one_thread() if effective_n_jobs(n_jobs) > 1 else nullcontext()


def threads_for(n_rows: int) -> AbstractContextManager[Any]:
    """One BLAS thread for models of few rows; no limit for larger ones."""
    return one_thread() if n_rows < _ROWS_FOR_THREADS else nullcontext()
