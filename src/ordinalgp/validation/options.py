"""Constructor options: words, numbers and kernels."""

import difflib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel
from sklearn.utils import check_random_state

_DEFAULT_SEED = 0


def check_kernel(kernel: Any) -> None:
    """Raise TypeError unless ``kernel`` is an instance of a scikit-learn kernel of one output."""
    if isinstance(kernel, Kernel) and not isinstance(kernel, CompoundKernel):
        return
    what = f"the class {kernel.__name__}" if isinstance(kernel, type) else repr(kernel)
    raise TypeError(
        f"kernel must be one scikit-learn kernel object, but {what} was given. "
        "Use for example sklearn.gaussian_process.kernels.RBF(1.0)."
    )


def allows_missing(kernel: Any) -> bool:
    """Whether every part of ``kernel`` that looks at inputs says it can take gaps (NaN)."""
    parts = [getattr(kernel, name) for name in ("k1", "k2", "kernel") if hasattr(kernel, name)]
    if parts:
        return all(map(allows_missing, parts))
    return getattr(kernel, "accepts_missing", not kernel.requires_vector_input)


def check_option(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Raise ValueError unless ``value`` is one of the ``allowed`` words."""
    if isinstance(value, str) and value in allowed:
        return
    close = difflib.get_close_matches(value.lower(), allowed, 1) if isinstance(value, str) else []
    hint = f" Did you mean {close[0]!r}?" if close else ""
    words = ", ".join(map(repr, allowed))
    raise ValueError(f"{name} must be one of {words}, but {value!r} was given.{hint}")


def check_number(
    name: str, value: Any, *, least: float | None = None, above: float | None = None
) -> None:
    """Raise ValueError unless ``value`` is a number, at least ``least``, above ``above``."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or (least is not None and not value >= least):
        raise ValueError(f"{name} must be a number of at least {least or 0}, but is {value!r}.")
    if above is not None and not above < value < math.inf:
        raise ValueError(f"{name} must be a number above {above}, and finite, but is {value!r}.")


def check_whole(name: str, value: Any, *, least: int) -> None:
    """Raise ValueError unless ``value`` is a whole number, at least ``least``."""
    check_number(name, value, least=least)
    if not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be a whole number, but is {value!r}.")


def check_coverage(coverage: Any) -> None:
    """Raise ValueError unless ``coverage`` is a number from 0 to 1."""
    if not (isinstance(coverage, int | float | np.number) and 0 <= coverage <= 1):
        raise ValueError(
            f"coverage must be a number between 0 and 1, but is {coverage!r}. "
            "Use 0.9 for intervals that hold in 9 of 10 cases."
        )


def fit_generator(random_state: Any) -> np.random.RandomState:
    """Random numbers of a fit; None is one fixed seed, so that fits of equal rows are equal."""
    return check_random_state(_DEFAULT_SEED if random_state is None else random_state)


def check_limit(name: str, value: Any) -> None:
    """Raise ValueError unless ``value`` is "auto", None or a whole number, at least one."""
    if isinstance(value, str):
        check_option(name, value, ("auto",))
    elif value is not None:
        check_whole(name, value, least=1)
