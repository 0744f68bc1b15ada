"""Model files with something wrong in them, drawn at random from a seed.

``python -m tests.mutants 300`` tries so many of each kind on every model and prints the outcomes.
"""

import io
import json
import math
import re
import resource
import struct
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
from tests.saved_models import MODELS, predictions

import ordinalgp

JUNK = [
    None, True, False, 0, 1, -1, 2, 7, 10**9, 10**30, -(10**400), 0.5, -3.7, 1e-320, 1e308, "", "x",
    "ep", "RBF", [], {}, [1], [[]], {"a": 1}, {"$": "tuple", "items": []}, {"$": "tuple"},
    {"$": "float", "value": "nan"}, {"$": "float", "value": "-inf"}, {"$": "eval", "code": "1"},
    {"$": "scalar", "dtype": "float32", "value": 1.5}, {"$": "scalar", "dtype": "O", "value": 1},
    {"$": "scalar", "dtype": "(99999999,)f8", "value": 1}, {"$": "array", "name": "result"},
    {"$": "kernel", "class": "RBF", "params": {}}, {"$": "kernel", "class": "os", "params": {}},
    {"$": "kernel", "class": "WhiteKernel", "params": {"noise_level": 0.0}},
    {"$": "kernel", "class": "RBF", "params": {"length_scale": 0, "length_scale_bounds": "fixed"}},
    {"$": "kernel", "class": "CompoundKernel", "params": {"kernels": []}},
    {"$": "record", "tag": "sites", "fields": {}}, {"$": "record", "tag": "os", "fields": {}},
    {"$": "record", "tag": "projection.identity", "fields": {"n": 10**9}},
    {"$": "estimator", "tag": "estimator.gp", "params": {}, "result": None},
    {"$": "objects", "shape": [10**9], "items": []}, {"$": "objects", "shape": [1], "items": [[]]},
]  # fmt: skip
DTYPES = ["f8", "f4", "f2", "i8", "i4", "u1", "?", "c16", "U3", "S2", "M8[s]", "m8[s]", "V8"]
CLAIMS = [(10**15,), (-1,), (0,), (10**10, 0), (0, 10**12), (1, 1), (), (2**62, 2**62)]


def members_of(path):
    """Every member of a zip file, by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path, members, method=zipfile.ZIP_DEFLATED):
    """Write a zip file; ``members`` is a dict or, to have equal names, pairs."""
    with zipfile.ZipFile(path, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for name, content in members.items() if isinstance(members, dict) else members:
            archive.writestr(name, content)


def npy(array, **options):
    """An array as a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def claimed(shape, dtype, content):
    """A .npy file whose header may not be true."""
    header = io.BytesIO()
    claim = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, claim)
    return header.getvalue() + content


def nodes(value):
    """Every place in a JSON document, as (container, key)."""
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from nodes(value[key])


def _bytes(path, rng):
    """Flip, set, cut out or repeat bytes anywhere in the file."""
    whole = bytearray(path.read_bytes())
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(len(whole)))
        match rng.integers(4):
            case 0:
                whole[place] ^= 1 << int(rng.integers(8))
            case 1:
                whole[place] = int(rng.choice([0, 1, 127, 128, 255]))
            case 2:
                del whole[place : place + int(rng.integers(1, 50))]
            case 3:
                whole[place:place] = whole[place : place + int(rng.integers(1, 50))]
    path.write_bytes(bytes(whole))


def _json(path, rng):
    """Replace, delete, move or repeat nodes of model.json."""
    members = members_of(path)
    document = json.loads(members["model.json"])
    for _ in range(rng.integers(1, 3)):
        places = list(nodes(document))
        (into, key), (other, name) = (places[rng.integers(len(places))] for _ in range(2))
        match rng.integers(5):
            case 0:
                del into[key]
            case 1:
                into[key] = json.loads(json.dumps(other[name]))
            case 2 if isinstance(into, dict):
                into[str(rng.choice(["$", "tag", "extra", "kernel", "value"]))] = into[key]
            case _:
                into[key] = JUNK[rng.integers(len(JUNK))]
    write_members(path, members | {"model.json": json.dumps(document).encode()})


def _values(array, rng):
    """Another array of the same shape and type: bits flipped, or strange numbers in places."""
    array = array.copy()
    if array.size and rng.random() < 0.5:
        raw = array.reshape(-1).view(np.uint8)
        raw[rng.integers(raw.size)] ^= np.uint8(1 << int(rng.integers(8)))
    elif array.size and array.dtype.kind in "if":
        strange = [0, -1, 1, 2, 10**6, 2**62] + [np.nan, np.inf, 1e-310, 1e300, -1e300] * (
            array.dtype.kind == "f"
        )
        array.flat[rng.integers(array.size, size=int(rng.integers(1, 4)))] = rng.choice(strange)
    return array


def _arrays(path, rng):
    """Replace an array by one of another type, shape, value, or with a false header."""
    members = members_of(path)
    names = [name for name in members if name.endswith(".npy")]
    name, other = (names[rng.integers(len(names))] for _ in range(2))
    array = np.load(io.BytesIO(members[name]))
    match rng.integers(6):
        case 0:
            new = claimed(CLAIMS[rng.integers(len(CLAIMS))], array.dtype.str, array.tobytes())
        case 1:
            shape = tuple(int(n) for n in rng.integers(0, 25, rng.integers(0, 4)))
            new = npy(np.zeros(shape, dtype=str(rng.choice(DTYPES))))
        case 2:
            new = members[other]
        case 3:
            new = npy(np.concatenate([array, array]) if array.ndim else array[None])
        case _:
            new = npy(_values(array, rng))
    write_members(path, members | {name: new})


def _zips(path, rng):
    """Tricks with the zip: methods, equal names, flags, false sizes, members dropped."""
    members = members_of(path)
    names = list(members)
    name, other = (names[rng.integers(len(names))] for _ in range(2))
    match rng.integers(6):
        case 0:
            method = [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED][rng.integers(3)]
            return write_members(path, members, method)
        case 1:
            return write_members(path, [*members.items(), (name, members[other])])
        case 2:
            return write_members(path, {key: members[key] for key in names if key != name})
        case 3:
            return write_members(path, members | {name: members[name][: -1 - rng.integers(40)]})
        case 4:
            return write_members(path, members | {name: members[other]})
    whole = bytearray(path.read_bytes())
    starts = [i for i in range(len(whole)) if whole[i : i + 4] == b"PK\x01\x02"]
    start, field = starts[rng.integers(len(starts))], rng.choice([8, 10, 16, 20, 24, 28, 42])
    whole[start + field : start + field + 4] = rng.bytes(4)
    path.write_bytes(bytes(whole))
    return None


KINDS = {"bytes": _bytes, "json": _json, "arrays": _arrays, "zip": _zips}


def outcome(path):
    """Refuse with ValueError or MemoryError, or predict finite numbers; anything else is a bug."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = ordinalgp.load(path)
        except (ValueError, MemoryError) as error:
            if type(error) is ValueError and str(path) not in str(error):
                raise
            return f"refused: {str(error.__cause__ or error).split(':')[0]:.40}"
        return _predicted(model)


def _predicted(model):
    """Predict finite numbers, or ask for other columns or ids than the good model."""
    try:
        found = predictions(model)
    except ValueError as error:
        if re.search("probabilities|definite|rule|cost", str(error)):
            raise
        return f"asked for other inputs: {error!s:.60}"
    for name in ("category_proba", "latent_mean_and_variance", "comparison_proba"):
        assert np.all(np.isfinite(found.get(name, 0.0))), f"{name} is not finite"
    return "loaded"


def campaign(folder, n, seed=0):
    """Try ``n`` mutants of each kind of every model; yield (name, kind, number, path)."""
    for row, (name, fitted) in enumerate(MODELS.items()):
        path = Path(folder) / f"{name}.ogp"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted().save(path)
        whole = path.read_bytes()
        for column, (kind, mutate) in enumerate(KINDS.items()):
            for number in range(n):
                path.write_bytes(whole)
                mutate(path, np.random.default_rng([seed, row, column, number]))
                yield name, kind, number, path


def write_bombs(path, folder):
    """Write files as large inside as any that are read, from a good file of a classifier."""
    good = members_of(path)
    document = json.loads(good["model.json"])

    def model_json(**params):
        params = document["params"] | params | {"colour": "none has one"}
        return json.dumps(document | {"params": params}, ensure_ascii=False).encode()

    x = "arrays/result.model.task.X.npy"
    gaps = "arrays/result.model.task.likelihood.gaps.npy"
    scores = "arrays/result.interval_scores.scores.npy"
    classes = "arrays/result.signature.classes.npy"
    counts = "arrays/result.signature.counts.npy"
    zeros = _zeros(7 * 2**20, 1)
    most = 8_200_000  # numbers: 65.6 of the 67.1 MB
    kernel = json.dumps(document["params"]["kernel"])
    twice = [{"$": "array", "name": "result.model.task.X"}] * 1000
    bombs = {
        "objects": good | {"model.json": model_json(categories=[{"": 0}] * 374_000)},
        "empty-lists": good | {"model.json": model_json(categories=[[]] * 374_000)},
        "words": good | {"model.json": model_json(categories=["😀" * 2**21])},
        "unknown": good | {"model.json": b'{"format": 1, "x": [' + b"{}," * 374_000 + b"1]}"},
        "deep": good | {"model.json": b"[" * 10**6},
        "deep-kernels": good | {"model.json": _nested_kernels(kernel, 5000)},
        "too-many": good | {"model.json": b"[" + b"{}," * 5_000_000 + b"1]"},
        "zeros": good | {x: zeros},
        "many-zeros": good | {x: _zeros(most, 1)},
        "many-scores": good | {scores: _zeros(most)},
        "many-gaps": good | {gaps: _zeros(most)},
        "many-classes": good | {classes: _zeros(most)},
        "nested": good | {x: good["model.json"], "inner.zip": bytes(10**8)},
        "repeated": good | {"model.json": model_json(categories=twice), x: zeros},
        "rows-and-scores": many_rows(good) | {scores: npy(np.array([np.nan]))},
        "rows-and-counts": many_rows(good) | {counts: npy(np.zeros(3))},
        "levels": good | {"arrays/result.signature.categories.npy": npy(np.zeros(2**22, "U1"))},
    }
    for name, members in bombs.items():
        write_members(folder / f"bomb-{name}.ogp", members)
    for kind, name in (("json", "model.json"), ("npy", x)):
        place = folder / f"bomb-false-size-{kind}.ogp"
        write_members(place, good | {name: bytes(2**28)})
        _claim_size(place, name, 1000)


def many_rows(good, n=7000):
    """A good file with so many rows that their matrix takes 400 MB, and the file 50 kB."""
    start = "arrays/result.model."
    rows = {
        "task.X": np.zeros((n, 3)),
        "task.y": np.zeros(n, dtype=np.int64),
        "task.counts": np.ones(n),
        "sites.tau": np.ones(n),
        "sites.nu": np.zeros(n),
        "rows.observation": np.arange(n),
    }
    document = json.loads(good["model.json"])
    fields = document["result"]["fields"]["model"]["fields"]
    fields["task"]["fields"]["projection"]["fields"]["n"] = n
    told = {f"{start}{name}.npy": npy(array) for name, array in rows.items()}
    return good | told | {"model.json": json.dumps(document).encode()}


def _zeros(*shape):
    """A .npy file of zeros."""
    return claimed(shape, "<f8", bytes(8 * math.prod(shape)))


def _claim_size(path, name, size):
    """Make the directory of a zip file say that a member unpacks to so many bytes."""
    whole, entry = bytearray(path.read_bytes()), b"PK\x01\x02"
    at = whole.index(entry)
    while whole[at + 46 : at + 46 + len(name)] != name.encode():
        at = whole.index(entry, at + 4)
    whole[at + 24 : at + 28] = struct.pack("<I", size)
    path.write_bytes(bytes(whole))


def _nested_kernels(kernel, depth):
    head = '{"$": "kernel", "class": "Exponentiation", "params": {"exponent": 1, "kernel": '
    text = head * depth + kernel + "}}" * depth
    return ('{"format": "ordinalgp-model", "schema": 2, "params": ' + text + "}").encode()


def print_peaks(paths):
    """Print as JSON how many MB the refusal of each file takes, beyond what was there before."""
    peaks = {}
    for path in paths:
        _reset_peak()
        before = _memory("VmRSS")
        found = outcome(Path(path))
        assert found.startswith("refused"), (path, found)
        peaks[Path(path).stem] = round(_memory("VmHWM") - before, 1)
    print(json.dumps(peaks))


def _reset_peak():
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _memory(key):
    """MB of this process now (VmRSS), or at most since the last reset (VmHWM)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(key))


def _main(n):
    counts = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for name, kind, number, path in campaign(folder, n):
            try:
                found = outcome(path)
            except Exception as error:
                found = f"BUG {type(error).__name__}"
                print(name, kind, number, repr(error)[:200], flush=True)
            counts[kind, found.split(":")[0]] += 1
    for (kind, found), count in sorted(counts.items()):
        print(f"{kind:8} {found:30} {count}")
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    _main(int(sys.argv[1]))
