"""Model files with something wrong in them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ordinalgp.persistence.codec import Decoder, Encoder


@dataclass(frozen=True, eq=False)
class Stored:
    """An array in memory, as the decoder meets it in a file."""

    array: Any

    @property
    def shape(self):
        return self.array.shape

    @property
    def dtype(self):
        return self.array.dtype

    def read(self):
        return self.array


def damaged_copy(estimator, damage):
    """Decode what was encoded, after ``damage(result)`` has changed the encoded result.

    Arrays that ``damage`` puts there take the place of encoded ones.
    """
    encoder = Encoder()
    document = encoder.estimator(estimator, "")
    damage(document["result"])
    document["result"] = _named(document["result"], encoder.arrays)
    return Decoder(lambda name: Stored(encoder.arrays[name])).estimator(document)


def with_field(estimator, name, value):
    """Decode an estimator whose model has another value in a field; dots lead into its parts."""

    def damage(result):
        *way, last = name.split(".")
        fields = result["fields"]["model"]["fields"]
        for part in way:
            fields = fields[part]["fields"]
        assert last in fields
        fields[last] = value

    return damaged_copy(estimator, damage)


def _named(value, arrays):
    if isinstance(value, np.ndarray):
        name = f"damaged {len(arrays)}"
        arrays[name] = value
        return {"$": "array", "name": name}
    if isinstance(value, dict):
        return {key: _named(item, arrays) for key, item in value.items()}
    return [_named(item, arrays) for item in value] if isinstance(value, list) else value
