"""Saving and loading fitted estimators: a zip of JSON and arrays, nothing executed.

``model.json`` names the format, the schema number and the library's version, and holds the
estimator: its tag, its parameters and its result, a frozen dataclass. Arrays lie beside it as
``arrays/<name>.npy``. A class joins with :func:`saved_as`; the annotations of its fields say what
they may hold. An estimator keeps its result in ``_result`` and takes one back by ``_restore``.
"""

import json
import os
from importlib import import_module
from os import PathLike
from typing import Any, BinaryIO

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ordinalgp.persistence.archive import Archive, npy_bytes, write_zip
from ordinalgp.persistence.codec import TRUST, Decoder, Encoder
from ordinalgp.persistence.registry import Refused, saved_as, tag_of, tags
from ordinalgp.runtime.files import whole_file
from ordinalgp.runtime.threads import managed

__all__ = ["load", "save", "saved_as"]

FORMAT, SCHEMA = "ordinalgp-model", 2
_INDENTED = 2**20  # characters of a document up to which it is easy to read


def save(estimator: Any, path: str | PathLike[str]) -> None:
    """Write a fitted estimator to ``path``, all of it or nothing."""
    if not (tag_of(estimator) or "").startswith("estimator."):
        known = [cls.__name__ for tag, cls in tags().items() if tag.startswith("estimator.")]
        name = type(estimator).__name__
        raise TypeError(f"{name} cannot be saved, only {', '.join(known)}. {TRUST}")
    check_is_fitted(estimator)
    encoder = Encoder()
    document = {
        "format": FORMAT,
        "schema": SCHEMA,
        "library": import_module("ordinalgp").__version__,
        **encoder.estimator(estimator, ""),
    }
    members = {"model.json": _as_text(document).encode()}
    members |= {f"arrays/{key}.npy": npy_bytes(array) for key, array in encoder.arrays.items()}
    with whole_file(path) as file:
        write_zip(file, members)


def _as_text(document: dict[str, Any]) -> str:
    """A document as JSON; a large one without blanks, which are a third of it."""
    text = json.dumps(document, indent=1, allow_nan=False)
    if len(text) <= _INDENTED:
        return text
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


@managed
def load(path: str | PathLike[str]) -> Any:
    """Read an estimator that its method ``save`` wrote.

    Nothing in the file is executed. A file that is damaged, inconsistent or not a model raises a
    ``ValueError`` that says so, and is left as it is.

    Parameters
    ----------
    path : str or path-like
        The file to read.

    Returns
    -------
    estimator
        The estimator as it was saved: on the same machine it gives the same numbers to the last
        digit.

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
    except IsADirectoryError:
        told = "it is a folder, and models are files. Check the path."
        raise ValueError(f"{os.fspath(path)!r} cannot be loaded: {told}") from None
    except Refused as error:
        raise ValueError(f"{os.fspath(path)!r} cannot be loaded: {error}") from error.__cause__


def _read(file: BinaryIO) -> Any:
    if file.read(4) != b"PK\x03\x04":
        raise Refused("it is not a zip file, so estimator.save did not write it. Check the path.")
    try:
        archive = Archive.open(file)
        document = _checked(archive.document())
        with np.errstate(all="ignore"):
            # First all that is in the file, so that a wrong one is refused in little memory.
            Decoder(archive.array, derive=False).estimator(document)
            return Decoder(archive.in_memory().array).estimator(document)
    except (Refused, MemoryError):
        raise
    except Exception as error:  # by zipfile, json, numpy or the estimator, whatever it met
        raise Refused(
            f"its content is damaged or inconsistent ({type(error).__name__}: {error}). Copy it "
            "again from where it came, or save the model again."
        ) from error


def _checked(document: dict[str, Any]) -> dict[str, Any]:
    if document.get("format") != FORMAT:
        raise Refused(f"its model.json does not have the format {FORMAT!r}. Check the path.")
    schema, library = document["schema"], document.get("library")
    if type(schema) is not int or schema < 1:
        raise ValueError(f"unknown schema {schema}")
    if schema != SCHEMA:
        advice = "Upgrade ordinalgp" if schema > SCHEMA else "Fit the model again and save it"
        age = "a newer" if schema > SCHEMA else "an older"
        raise Refused(
            f"it was written by {age} version of ordinalgp ({library}; schema {schema}, where "
            f"this version reads {SCHEMA}). {advice}."
        )
    if not isinstance(document.get("result"), dict):
        raise ValueError("it has no result")
    return document
