"""A table with everything in it, and scikit-learn's word on how to encode it."""

import gzip

import numpy as np
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

LEVELS = ["poor", "fair", "good"]


def school(n=48, seed=0):
    """Columns of a table: numbers and texts, with gaps (None) in one of each; and grades 1..3."""
    rng = np.random.default_rng(seed)
    hours, sleep = rng.gamma(3.0, 2.0, n), rng.normal(7, 1, n)
    # Few digits, which every reader of CSV files gives back exactly; pandas 2.1 not all of 17.
    hours, sleep = np.round(hours, 6), np.round(sleep, 6)
    tutor = rng.choice(["no", "yes"], n)
    town = rng.choice(["Aix, upper", 'B"urg', "Celle"], n)
    latent = hours - 6 + 2 * (tutor == "yes") + rng.normal(size=n)
    grade = 1 + np.digitize(latent, [-1.5, 1.5])
    columns = {
        "hours": [None if i % 7 == 3 else float(v) for i, v in enumerate(hours)],
        "sleep": [float(v) for v in sleep],
        "tutor": [None if i % 11 == 5 else str(v) for i, v in enumerate(tutor)],
        "home town": [str(v) for v in town],
    }
    return columns, grade


def encoded(columns, train=None):
    """Features by scikit-learn's transformers, learned from the columns ``train``."""
    parts = []
    for name, cells in columns.items():
        seen = (train or columns)[name]
        is_text = any(isinstance(cell, str) for cell in seen)
        gap = None if is_text else np.nan
        kind = object if is_text else float
        new, old = (np.array([[gap if c is None else c] for c in x], kind) for x in (cells, seen))
        if is_text:
            parts.append(_one_hot(new, old))
            continue
        steps = SimpleImputer(strategy="median"), StandardScaler()
        steps[1].fit(steps[0].fit_transform(old))
        parts.append(steps[1].transform(steps[0].transform(new)))
        if None in seen:
            marks = MissingIndicator(missing_values=gap, features="all").fit(old)
            parts.append(marks.transform(new).astype(float))
    return np.hstack(parts)


def _one_hot(new, old):
    """One feature per value, gaps as the last value, and one feature for all other values."""
    last = SimpleImputer(missing_values=None, strategy="constant", fill_value="\uffff")
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    encoder.fit(last.fit_transform(old))
    known = encoder.transform(last.transform(new))
    return np.column_stack([known, 1 - known.sum(axis=1)])


def write_csv(path, columns, separator=",", decimal="."):
    """Write columns by hand: every text quoted, None as an empty cell."""

    def cell(value):
        if value is None:
            return ""
        if isinstance(value, str):
            return '"' + value.replace('"', '""') + '"'
        return repr(value).replace(".", decimal)

    rows = [separator.join(map(cell, columns))]
    rows += [separator.join(map(cell, row)) for row in zip(*columns.values(), strict=True)]
    text = "\n".join(rows) + "\n"
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.write(text)
    return path
