"""Warnings that point at the user's code."""

import sys
import warnings


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the first frame outside of this package and of scikit-learn's wrappers."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.split(".")[0] not in ("ordinalgp", "sklearn", "contextlib", "joblib"):
            break
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
