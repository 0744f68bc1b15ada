"""What all pictures have in common."""

from typing import Any, Self

import numpy as np


class _Display:
    """What all pictures have in common: ``plot``, and where the picture is after it."""

    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax``, a matplotlib Axes, or on a new figure; return the display itself."""
        if ax is None:
            _, ax = _pyplot().subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        self._draw(ax)
        return self

    def _draw(self, ax: Any) -> None:
        raise TypeError(f"{type(self).__name__} does not say how to draw")


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Pictures need matplotlib, which cannot be imported. "
            "Install it with: pip install 'ordinalgp[plot]'"
        ) from error
    return plt


def _colors(n: int) -> Any:
    return _pyplot().get_cmap("viridis")(np.linspace(0.05, 0.95, n))
