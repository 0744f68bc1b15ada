"""Encoding of frozen dataclasses, kernels and estimators as JSON and arrays, and back.

What JSON lacks is an object with the key ``$``. The types of a dataclass's fields, with the marks
of :mod:`ordinalgp._typing`, say what each may hold; ``decode`` checks it, sizes before values.
"""

import math
import os
import types
import typing
from collections import ChainMap
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import Axes, Plain, Tagged
from ordinalgp.persistence import registry
from ordinalgp.persistence.archive import NPY_KINDS, NpyMember

_SCALARS = {
    name: np.dtype(name).type
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    )
}
TRUST = "Pickle keeps any object; load a pickle only if you trust its source: it can run any code."

# ------------------------------------------------------------------------------- encoding


@dataclass(frozen=True, eq=False)
class Encoder:
    """Turns values into JSON; arrays are collected under the path that leads to them."""

    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)

    def encode(self, value: Any, at: str) -> Any:
        """Return ``value`` as JSON."""
        tag, kind = registry.tag_of(value), type(value).__name__
        if tag is not None and tag.startswith("estimator."):
            return {"$": "estimator", **self.estimator(value, f"{at}.")}
        if tag is not None:
            return {"$": "record", "tag": tag, "fields": self.fields(value, at)}
        if registry.KERNELS.get(kind) is type(value):
            params = self.encode(value.get_params(deep=False), at)
            return {"$": "kernel", "class": kind, "params": params}
        match value:
            case np.generic() if value.dtype.name in _SCALARS:
                inner = self.encode(value.item(), at)
                return {"$": "scalar", "dtype": value.dtype.name, "value": inner}
            case float() if not math.isfinite(value):
                return {"$": "float", "value": str(value)}
            case None | bool() | int() | float() | str():
                return value
            case list():
                return [self.encode(item, f"{at}.{place}") for place, item in enumerate(value)]
            case tuple():
                return {"$": "tuple", "items": self.encode(list(value), at)}
            case range():
                return list(value)
            case os.PathLike():
                return os.fsdecode(value)
            case dict() if all(isinstance(key, str) and key.isidentifier() for key in value):
                return {key: self.encode(item, f"{at}.{key}") for key, item in value.items()}
            case dict() if all(isinstance(key, str) for key in value):
                return {
                    "$": "dict",
                    "keys": list(value),
                    "items": self.encode([*value.values()], at),
                }
            case np.ndarray() if value.dtype.kind in NPY_KINDS:
                self.arrays[at] = value
                return {"$": "array", "name": at}
            case np.ndarray() if value.dtype.kind == "O":
                items = self.encode(list(value.flat), at)
                if _is_plain(items):
                    return {"$": "objects", "shape": list(value.shape), "items": items}
        raise TypeError(
            f"{at} is {value!r:.100} of type {kind}, which a model file cannot hold: only numbers, "
            "strings, lists, arrays and the kernels of scikit-learn and ordinalgp. Replace it with "
            f"set_params before saving, or fit with one of these. {TRUST}"
        )

    def fields(self, value: Any, at: str) -> dict[str, Any]:
        """The saved fields of a registered class as JSON."""
        form: Any = registry.record_of(type(value))
        record = value if form is type(value) else form.of(value)
        return {
            name: self.encode(getattr(record, name), f"{at}.{name}")
            for name in registry.saved_fields(form)
        }

    def estimator(self, value: Any, at: str) -> dict[str, Any]:
        """Tag, parameters and, if it is fitted, the result of an estimator as JSON."""
        params = value.get_params(deep=False)
        if isinstance(params.get("random_state"), np.random.RandomState):
            params["random_state"] = None
        return {
            "tag": registry.tag_of(value),
            "params": self.encode(params, f"{at}params"),
            "result": self.encode(value._result, f"{at}result")
            if hasattr(value, "_result")
            else None,
        }


# ------------------------------------------------------------------------------- decoding


Lengths = MutableMapping[str, int]


@dataclass(frozen=True, eq=False)
class Decoder:
    """Turns JSON back into values; ``arrays`` finds an array by its name.

    A model whose class ``derives`` has parts that are not in the file, and may be far larger. It is
    made without them unless ``derive``.
    """

    arrays: Callable[[str], NpyMember]
    derive: bool = True

    def decode(self, value: Any) -> Any:
        """Return a value of any kind, as a parameter may be."""
        match value:
            case {"$": "scalar", "dtype": str(name), "value": inner} if name in _SCALARS:
                return _SCALARS[name](_number(self.decode(inner)))
            case {"$": "float", "value": "inf" | "-inf" | "nan" as number}:
                return float(number)
            case {"$": "tuple", "items": list(items)}:
                return tuple(self.decode(items))
            case {"$": "dict", "keys": list(keys), "items": list(items)} if _are_names(keys):
                return dict(zip(keys, self.decode(items), strict=True))
            case {"$": "array", "name": str(name)}:
                return self.arrays(name).read()
            case {"$": "objects", "shape": list(shape), "items": list(items)} if _is_plain(items):
                return np.fromiter(self.decode(items), object, len(items)).reshape(shape)
            case {"$": "kernel", "class": str(name), "params": dict(params)}:
                return self._kernel(name, params)
            case {"$": "record", "tag": str(tag), "fields": dict(items)}:
                return self.record(tag, items, {})
            case {"$": "estimator", "tag": str()}:
                return self.estimator(value)
            case {"$": kind}:
                raise ValueError(f"unknown kind of value {kind!r}")
            case dict():
                return {key: self.decode(item) for key, item in value.items()}
            case list():
                return [self.decode(item) for item in value]
        return value

    def _kernel(self, name: str, params: dict[str, Any]) -> Any:
        kernel = registry.kernel_of(name)(**self.decode(params))
        parts = [params[each] for each in ("k1", "k2", "kernel") if each in params]
        return _checked(kernel, all(part["$"] == "kernel" for part in parts), f"kernel {name}")

    def estimator(self, value: dict[str, Any]) -> Any:
        """An estimator with its parameters and, if it was fitted, its result."""
        if not value["tag"].startswith("estimator."):
            raise ValueError(f"{value['tag']} is no estimator")
        estimator = registry.class_of(value["tag"])(**self.decode(value["params"]))
        if value["result"] is not None:
            estimator._restore(self.decode(value["result"]))
        return estimator

    def record(self, tag: str, items: dict[str, Any], lengths: Lengths) -> Any:
        """An instance of the class with this tag, every field checked."""
        cls = registry.class_of(tag)
        form: Any = registry.record_of(cls)
        if tag.startswith("estimator."):
            raise ValueError(f"{tag} is no record")
        names = registry.saved_fields(form)
        if set(items) != set(names):
            raise ValueError(f"{tag}: missing or unknown: {sorted(set(items) ^ set(names))}")
        hints = _hints(form)
        found = {
            name: self.field(items[name], hints[name], f"{tag}.{name}", lengths) for name in names
        }
        derived = {"derive": self.derive} if getattr(form, "derives", False) else {}
        if form is not cls:
            return form(**found).restored(**derived)
        return getattr(cls, "restored", cls)(**found, **derived)

    def field(self, value: Any, hint: Any, at: str, lengths: Lengths) -> Any:
        """A field's value, of the type and within the limits that its annotation says."""
        base, marks = _unwrapped(hint)
        mark = marks[0] if marks else Axes()
        origin, arguments = typing.get_origin(base), typing.get_args(base)
        if origin in (types.UnionType, typing.Union):
            rest = [each for each in arguments if each is not type(None)]
            if value is None and len(rest) < len(arguments):
                return None
            return self._one_of(value, rest, marks, at, lengths)
        if isinstance(mark, Plain):
            found = self.decode(_checked(value, _is_plain(value), at))
            return _checked(found, base is Any or isinstance(found, origin), at)
        if isinstance(mark, Tagged):
            return self._tagged(value, mark.group, at, lengths)
        if origin is np.ndarray:
            return self._array(value, mark, base, at, lengths)
        if origin is typing.Literal:
            return _checked(value, value in arguments, at)
        if origin in (tuple, list) and len(arguments) and arguments[-1] in (..., arguments[0]):
            return self._sequence(value, origin, arguments[0], at, lengths)
        if is_dataclass(base):
            found = self._tagged(value, "", at, lengths)
            return _checked(found, type(found) is base, at)
        return _word_or_number(self.decode(value), base, mark, at, lengths)

    def _one_of(self, value: Any, hints: list[Any], marks: Any, at: str, lengths: Lengths) -> Any:
        if len(hints) > 1:  # classes, told apart by their tags
            found = self._tagged(value, "", at, lengths)
            return _checked(found, type(found) in hints, at)
        hint = typing.Annotated[hints[0], marks[0]] if marks else hints[0]
        return self.field(value, hint, at, lengths)

    def _tagged(self, value: Any, group: str, at: str, lengths: Lengths) -> Any:
        match value:
            case {"$": "kernel"} if group == "kernel":
                kernel = self.decode(value)
                return _checked(kernel, _is_finite(kernel), at)
            case {"$": "estimator", "tag": str(tag)} if group == "estimator":
                return self.estimator(value)
            case {"$": "record", "tag": str(tag), "fields": dict(items)}:
                _checked(value, not group or tag.startswith(f"{group}."), at)
                return self.record(tag, items, lengths)
        raise ValueError(f"{at} is not what it must be")

    def _sequence(self, value: Any, kind: Any, hint: Any, at: str, lengths: Lengths) -> Any:
        items = value.get("items") if isinstance(value, dict) else value
        if not isinstance(items, list):
            raise ValueError(f"{at} must be a sequence")
        # Each item has lengths of its own, beside those known before.
        return kind(self.field(item, hint, at, ChainMap({}, lengths)) for item in items)

    def _array(self, value: Any, mark: Axes, base: Any, at: str, lengths: Lengths) -> Any:
        kinds = mark.kinds or _kind_of(base)
        match value:
            case {"$": "array", "name": str(name)}:
                stored = self.arrays(name)
                _check_shape(stored.dtype.kind, stored.shape, mark, kinds, at, lengths)
                array = stored.read()
            case {"$": "objects"}:
                array = self.decode(value)
                _check_shape("O", array.shape, mark, kinds, at, lengths)
            case _:
                raise ValueError(f"{at} must be an array")
        _check_range(array, mark, at, lengths)
        return array


def _unwrapped(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    if typing.get_origin(hint) is typing.Annotated:
        return hint.__origin__, hint.__metadata__
    return hint, ()


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)


def _kind_of(base: Any) -> str:
    """Letter of an array type such as NDArray[np.float64]."""
    scalar = typing.get_args(typing.get_args(base)[1])[0]
    return "" if scalar is Any else str(np.dtype(scalar).kind)


def _checked(value: Any, fits: bool, at: str) -> Any:
    if not fits:
        raise ValueError(f"{at} is not what it must be")
    return value


def _is_plain(value: Any) -> bool:
    """Whether JSON has only numbers, text, None, and lists or tuples of these."""
    match value:
        case {"$": "scalar" | "float"} | None | bool() | int() | float() | str():
            return True
        case {"$": "tuple", "items": list(items)} | list(items):
            return all(map(_is_plain, items))
    return False


def _are_names(keys: list[Any]) -> bool:
    """Whether all are strings, each once."""
    return all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys)


def _is_finite(kernel: Any) -> bool:
    """Whether all hyperparameters are numbers, also those that are fixed."""
    params = kernel.get_params()
    fixed = [params[each.name] for each in kernel.hyperparameters if each.fixed]
    return all(np.all(np.isfinite(each)) for each in (kernel.theta, *fixed))


def _check_shape(
    kind: str, shape: tuple[int, ...], mark: Axes, kinds: str, at: str, lengths: Lengths
) -> None:
    words = mark.names.split()
    known = [lengths.setdefault(*pair) for pair in zip(words, shape, strict=False)]
    if kind not in kinds or len(words) != len(shape) or known != list(shape):
        raise ValueError(f"{at} has kind {kind} and shape {shape}")


def _check_range(values: Any, mark: Axes, at: str, lengths: Lengths) -> None:
    high = lengths.get(mark.high, 0) if isinstance(mark.high, str) else mark.high
    if not np.size(values):
        return
    # Without a truth value per number, which of large arrays take memory; none is below NaN.
    below = mark.low is not None and not mark.low <= np.min(values)
    if below or (high is not None and not np.max(values) < high):
        raise ValueError(f"{at} must lie from {mark.low} to below {high}")


def _number(value: Any) -> int | float:
    """A number that JSON holds as such, or one that is not finite."""
    if not isinstance(value, int | float):
        raise ValueError(f"{value!r:.50} is not a number")
    return value


def _word_or_number(value: Any, base: Any, mark: Axes, at: str, lengths: Lengths) -> Any:
    """A number, a truth value or text, of exactly its declared type."""
    if base is float and type(value) is int:
        value = float(value)
    if base not in (float, int, bool, str) or not isinstance(value, base):
        raise ValueError(f"{at} must be a {getattr(base, '__name__', base)}, but is {value!r:.50}")
    if base is int and isinstance(value, bool):
        raise ValueError(f"{at} must be a whole number, but is {value!r}")
    if base is not str:
        _check_range(value, mark, at, lengths)
    return value
