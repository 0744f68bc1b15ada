"""Packages that only some installations have."""

from importlib import import_module
from typing import Any


def import_extra(module: str, use: str, extra: str) -> Any:
    """Import a module of an optional package, or raise an error that says how to install it.

    ``use`` begins the error, for example "Plots need".
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{use} {module.split('.')[0]}, which cannot be imported. "
            f"Install it with: pip install 'ordinalgp[{extra}]'"
        ) from error
