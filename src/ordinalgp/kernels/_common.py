"""What the kernels share."""

from typing import Literal

from numpy.typing import ArrayLike

Bounds = tuple[float, float] | ArrayLike | Literal["fixed"]


def refuse_gradient(eval_gradient: bool) -> None:
    """Raise ValueError where a gradient is asked for together with ``Y``."""
    if eval_gradient:
        raise ValueError(
            "eval_gradient=True was given together with Y, but the gradient is defined for "
            "k(X, X) only. Leave out Y or set eval_gradient=False."
        )
