"""Saving and loading fitted estimators: a zip of JSON and arrays, nothing executed.

``model.json`` names the format, the schema version, the library version and the class, and holds
the constructor's parameters and the fitted state. Arrays lie beside it, ``arrays/<name>.npy``.
What JSON lacks is an object with the key ``$``: arrays, tuples, numpy scalars, kernels. Classes are
found by name in two registries only.

An estimator joins with a line in ``_ESTIMATORS``, the methods ``_get_state() -> dict`` and
``_set_state(state)``, and ``_state_spec``: for each entry of the state its kind (letters of
``dtype.kind``), its shape (words, each a length that is the same wherever it occurs) and, where
there are limits, its least value and the number or length that it stays below.
"""

import io
import json
import math
import os
import zipfile
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from inspect import isabstract, isclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import kernels as sk
from sklearn.utils.validation import check_is_fitted

from ordinalgp import kernels as own
from ordinalgp.runtime.files import whole_file

__all__ = ["load", "save"]

FORMAT, SCHEMA = "ordinalgp-model", 1

_ESTIMATORS = {
    "OrdinalGPClassifier": "ordinalgp.gp",
    "LeastSquaresOrdinalClassifier": "ordinalgp.least_squares",
    "TableModel": "ordinalgp.tables.model",
    "PreferenceGP": "ordinalgp.preference",
    "SparseBayesOrdinalClassifier": "ordinalgp.sparse",
    "OrdinalSVC": "ordinalgp.baselines.svc",
    "IncrementalOrdinalSVC": "ordinalgp.baselines.incremental_svc",
    "KernelDiscriminantOrdinal": "ordinalgp.baselines.discriminant",
    "CollaborativeOrdinalGP": "ordinalgp.collaborative",
}
_KERNELS: dict[str, Any] = {
    kernel.__name__: kernel
    for module in (sk, own)
    for kernel in vars(module).values()
    if isclass(kernel) and issubclass(kernel, sk.Kernel) and not isabstract(kernel)
}
_KINDS = "biufUSMm"  # of arrays in .npy files: all that numpy reads without pickle
_LARGEST, _LARGEST_RATIO = 10**9, 1000  # bytes when unpacked; refused when above both
_TRUST = "Pickle keeps any object; load a pickle only if you trust its source: it can run any code."

Arrays = Callable[[str], NDArray[Any]]


class _Refused(ValueError):
    """Says why a file is not loaded, and what to do."""


def save(estimator: Any, path: str | PathLike[str]) -> None:
    """Write a fitted estimator to ``path``, all of it or nothing."""
    members = _members(estimator)
    with whole_file(path) as file:
        _write_zip(file, members)


def _write_zip(file: Any, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            # A bare ZipInfo carries no time: equal models make equal files.
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)


def _members(estimator: Any) -> dict[str, bytes]:
    """Every file of the archive, in memory: what cannot be saved fails here."""
    name = type(estimator).__name__
    if not _is_registered(estimator):
        raise TypeError(f"{name} cannot be saved, only {', '.join(_ESTIMATORS)}. {_TRUST}")
    check_is_fitted(estimator)
    arrays: dict[str, NDArray[Any]] = {}
    document = {
        "format": FORMAT,
        "schema": SCHEMA,
        "library": import_module("ordinalgp").__version__,
        **_parts(estimator, "", arrays),
    }
    files = {f"arrays/{key}.npy": _npy(array) for key, array in arrays.items()}
    return {"model.json": json.dumps(document, indent=1, allow_nan=False).encode(), **files}


def _is_registered(value: Any) -> bool:
    name = type(value).__name__
    return name in _ESTIMATORS and _estimator_class(name) is type(value)


def _parts(estimator: Any, at: str, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Class, parameters and, if it is fitted, the state of an estimator as JSON."""
    params = estimator.get_params(deep=False)
    if isinstance(params.get("random_state"), np.random.RandomState):
        params["random_state"] = None
    state = estimator._get_state() if _is_fitted(estimator) else None
    parts = {
        "class": type(estimator).__name__,
        "params": _encode(params, f"{at}params", arrays),
        "state": _encode(state, f"{at}state", arrays),
    }
    if state is not None:
        check_state(state, estimator._state_spec)
    return parts


def _is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _encode(value: Any, at: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return ``value`` as JSON; arrays go to ``arrays``, named by the path ``at`` to them."""
    kind = type(value).__name__
    if _is_registered(value):  # an estimator inside of another
        return {"$": "estimator", **_parts(value, f"{at}.", arrays)}
    if _KERNELS.get(kind) is type(value):
        params = _encode(value.get_params(deep=False), at, arrays)
        return {"$": "kernel", "class": kind, "params": params}
    match value:
        case np.generic() if value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
            inner = _encode(value.item(), at, arrays)
            return {"$": "scalar", "dtype": value.dtype.name, "value": inner}
        case float() if not math.isfinite(value):
            return {"$": "float", "value": str(value)}
        case None | bool() | int() | float() | str():
            return value
        case list():
            return [_encode(item, f"{at}.{place}", arrays) for place, item in enumerate(value)]
        case tuple():
            return {"$": "tuple", "items": _encode(list(value), at, arrays)}
        case dict() if all(isinstance(key, str) and key.isidentifier() for key in value):
            return {key: _encode(item, f"{at}.{key}", arrays) for key, item in value.items()}
        case np.ndarray() if value.dtype.kind in _KINDS:
            arrays[at] = value
            return {"$": "array", "name": at}
        case np.ndarray() if value.dtype.kind == "O":
            items = _encode(list(value.flat), at, arrays)
            return {"$": "objects", "shape": list(value.shape), "items": items}
    raise TypeError(
        f"{at} is {value!r:.100} of type {kind}, which a model file cannot hold: only numbers, "
        "strings, lists, arrays and the kernels of scikit-learn and ordinalgp. Replace it with "
        f"set_params before saving, or fit with one of these. {_TRUST}"
    )


def load(path: str | PathLike[str]) -> Any:
    """Read an estimator that its method ``save`` wrote.

    Nothing in the file is executed. One that is damaged, inconsistent or not a model raises a
    ``ValueError`` that says so, and is left as it is.

    Parameters
    ----------
    path : str or path-like
        The file to read.

    Returns
    -------
    estimator
        Fitted as it was saved: on the same machine it gives the same numbers to the last digit.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import ordinalgp
    >>> X = np.linspace(-2, 2, 30)[:, None]
    >>> y = np.digitize(X[:, 0] ** 3, [-1, 1])
    >>> model = ordinalgp.OrdinalGPClassifier().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.ogp")
    ...     loaded = ordinalgp.load(f"{folder}/model.ogp")
    >>> loaded.predict([[-1.8], [0.0], [1.8]])
    array([0, 1, 2])
    """
    try:
        with open(path, "rb") as file:
            return _read(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no file {os.fspath(path)!r}. Check the path.") from None
    except _Refused as error:
        raise ValueError(f"{os.fspath(path)!r} cannot be loaded: {error}") from error.__cause__


def _read(file: Any) -> Any:
    if file.read(4) != b"PK\x03\x04":
        raise _Refused("it is not a zip file, so estimator.save did not write it. Check the path.")
    file.seek(0)
    content = file.read()  # from memory, damaged addresses lead nowhere
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _refuse_bomb(archive, len(content))
            return _rebuild(_document(archive), cache(partial(_array, archive)))
    except (_Refused, MemoryError):
        raise
    except Exception as error:  # by zipfile, json, numpy or the estimator, whatever it met
        raise _Refused(
            f"its content is damaged or inconsistent ({type(error).__name__}: {error}). Copy it "
            "again from where it came, or save the model again."
        ) from error


def _refuse_bomb(archive: zipfile.ZipFile, packed: int) -> None:
    unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > max(_LARGEST, _LARGEST_RATIO * packed):
        size = f"{unpacked / 1e9:.1f} GB"
        raise _Refused(f"it would unpack to {size}, which no model does. Do not trust its source.")


def _document(archive: zipfile.ZipFile) -> dict[str, Any]:
    if "model.json" not in archive.namelist():
        raise _Refused("it is a zip file without model.json, so not a model. Check the path.")
    document: dict[str, Any] = json.loads(archive.read("model.json"))
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _Refused(f"its model.json does not have the format {FORMAT!r}. Check the path.")
    schema = document["schema"]
    if schema > SCHEMA:
        raise _Refused(
            f"it was written by a newer version of ordinalgp ({document.get('library')}; schema "
            f"{schema}, where this version reads up to {SCHEMA}). Upgrade ordinalgp."
        )
    if type(schema) is not int or schema < 1:
        raise ValueError(f"unknown schema {schema}")
    if not isinstance(document.get("state"), dict):
        raise ValueError("it has no state")
    return document


def _rebuild(document: dict[str, Any], arrays: Arrays) -> Any:
    cls = _estimator_class(document["class"])
    params, state = (_decode(document[part], arrays) for part in ("params", "state"))
    estimator = cls(**params)
    if state is not None:
        check_state(state, cls._state_spec)
        estimator._set_state(state)
    return estimator


def _estimator_class(name: str) -> Any:
    return getattr(import_module(_known("estimator", name, _ESTIMATORS)), name)


def _known(what: str, name: str, registry: Mapping[str, Any]) -> Any:
    if name not in registry:
        raise _Refused(f"its {what} {name!r} is unknown to this version. Upgrade ordinalgp.")
    return registry[name]


def _decode(value: Any, arrays: Arrays) -> Any:
    """Return what ``_encode`` was given; ``arrays`` reads an array by its name."""
    match value:
        case {"$": "scalar", "dtype": str(name), "value": inner} if np.dtype(name).kind in "biuf":
            return np.dtype(name).type(_decode(inner, arrays))
        case {"$": "float", "value": "inf" | "-inf" | "nan" as number}:
            return float(number)
        case {"$": "tuple", "items": list(items)}:
            return tuple(_decode(items, arrays))
        case {"$": "array", "name": str(name)}:
            return arrays(name)
        case {"$": "objects", "shape": list(shape), "items": list(items)}:
            return np.fromiter(_decode(items, arrays), object, len(items)).reshape(shape)
        case {"$": "kernel", "class": str(name), "params": dict(params)}:
            return _known("kernel", name, _KERNELS)(**_decode(params, arrays))
        case {"$": "estimator", "class": str()}:
            return _rebuild(value, arrays)
        case {"$": kind}:
            raise ValueError(f"unknown kind of value {kind!r}")
        case dict():
            return {key: _decode(item, arrays) for key, item in value.items()}
        case list():
            return [_decode(item, arrays) for item in value]
    return value


def _array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read one array; its header must account for every byte before memory is set aside."""
    content = archive.read(f"arrays/{name}.npy")
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError(f"array {name} has an unknown version of the .npy format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.kind not in _KINDS:
        raise ValueError(f"array {name} has dtype {dtype}")
    found, needed = len(content) - stream.tell(), math.prod(shape) * dtype.itemsize
    if found != needed:
        raise ValueError(f"array {name} of shape {shape} needs {needed} bytes, but has {found}")
    array: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    return array


def check_state(state: dict[str, Any], spec: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise ValueError unless the entries are those of ``spec``, in kind, shape and range."""
    if state.keys() != spec.keys():
        raise ValueError(f"missing or unknown: {', '.join(sorted(state.keys() ^ spec.keys()))}")
    lengths: dict[str, int] = {}
    for name, (kinds, axes, *limits) in spec.items():
        array = np.asarray(state[name])
        words, shape = axes.split(), array.shape
        agree = list(map(lengths.setdefault, words, shape)) == list(shape)
        if array.dtype.kind not in kinds or array.ndim != len(words) or not agree:
            raise ValueError(f"{name} has dtype {array.dtype} and shape {shape}")
        if limits:
            low, high = limits[0], lengths.get(limits[1], limits[1])
            if not np.all((low <= array) & (array < high)):
                raise ValueError(f"{name} must lie from {low} to below {high}")
