"""Tags of the classes that a model file may hold; files never name a class or a module."""

from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from inspect import isabstract, isclass
from typing import Any

from sklearn.gaussian_process import kernels as sk

from ordinalgp import kernels as own

KERNELS: dict[str, Any] = {
    kernel.__name__: kernel
    for module in (sk, own)
    for kernel in vars(module).values()
    if isclass(kernel) and issubclass(kernel, sk.Kernel) and not isabstract(kernel)
}
_CLASSES: dict[str, type] = {}
_TAGS: dict[type, str] = {}
_RECORDS: dict[type, type] = {}
# Classes register when their module is imported, which a file may be the first to need.
_HOMES = (
    "baselines",
    "collaborative",
    "gp",
    "least_squares",
    "preference",
    "sequential",
    "sparse",
    "stacking",
    "tables",
)


class Refused(ValueError):
    """A file that is not loaded: the message says why and what to do."""


def saved_as(tag: str, record: type | None = None) -> Callable[[type], type]:
    """Register a class under ``tag``, of the form "group.name".

    A frozen dataclass is saved field by field. Another class needs ``record``, a dataclass with
    ``of(value)`` and ``restored()``.
    """

    def register(cls: Any) -> Any:
        if _CLASSES.setdefault(tag, cls) is not cls:
            raise ValueError(f"The tag {tag!r} belongs to {_CLASSES[tag].__name__}.")
        _TAGS[cls] = tag
        if record is not None:
            _RECORDS[cls] = record
        return cls

    return register


def tag_of(value: Any) -> str | None:
    """The tag of a value's class, if it has one; subclasses have none."""
    return _TAGS.get(type(value))


def class_of(tag: str) -> Any:
    """The class with this tag."""
    if tag not in _CLASSES:
        _import_homes()
    if tag not in _CLASSES:
        raise Refused(f"its part {tag!r} is unknown to this version. Upgrade ordinalgp.")
    return _CLASSES[tag]


def kernel_of(name: str) -> Any:
    """The kernel class with this name."""
    if name not in KERNELS:
        raise Refused(f"its kernel {name!r} is unknown to this version. Upgrade ordinalgp.")
    return KERNELS[name]


def record_of(cls: type) -> type:
    """The dataclass whose fields are saved for ``cls``."""
    return _RECORDS.get(cls, cls)


def tags() -> dict[str, type]:
    """Every tag with its class."""
    _import_homes()
    return dict(_CLASSES)


def _import_homes() -> None:
    for name in _HOMES:
        import_module(f"ordinalgp.{name}")


def saved_fields(cls: Any) -> list[str]:
    """Names of the fields of a dataclass that a file holds."""
    return [field.name for field in fields(cls) if field.metadata.get("saved", True)]
