"""MovieLens as a table of movies and users, filtered as in section 4 of Yu et al. (2006)."""

import os
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.benchmark.protocol import fetch

LEVELS: FloatArray = np.arange(1, 11) / 2
"""half stars"""


@dataclass(frozen=True, eq=False)
class Movies:
    """Ratings in stars, movies down in the order of their ids, users across, gaps as nan."""

    movies: IntArray
    users: IntArray
    """those with the most ratings first"""
    stars: FloatArray


def load_movies(data_home: str | os.PathLike[str] | None = None) -> Movies:
    """Movies rated at least 50 times, then users with at least 20 ratings of these."""
    return _load(None if data_home is None else os.fspath(data_home))


@lru_cache(maxsize=2)
def _load(data_home: str | None) -> Movies:
    """Reading takes longer than many a fit: kept for the next cell."""
    data = fetch("movielens_small_ratings", data_home)
    places = [data.id_names.index(name) for name in ("movie_id", "user_id")]
    ids, stars = data.ids[:, places].astype(np.intp), data.target
    for column, least in ((0, 50), (1, 20)):
        _, group, counts = np.unique(ids[:, column], return_inverse=True, return_counts=True)
        kept = counts[group] >= least
        ids, stars = ids[kept], stars[kept]
    movies, row = np.unique(ids[:, 0], return_inverse=True)
    users, column_of = np.unique(ids[:, 1], return_inverse=True)
    table = np.full((len(movies), len(users)), np.nan)
    table[row, column_of] = stars
    order = np.argsort(-np.sum(~np.isnan(table), axis=0), kind="stable")
    return Movies(movies, users[order], table[:, order])


def nearest_level(values: FloatArray) -> FloatArray:
    """Round to half stars within the scale."""
    rounded: FloatArray = np.clip(np.rint(2 * values) / 2, LEVELS[0], LEVELS[-1])
    return rounded


def star_errors(truth: FloatArray, **predictions: FloatArray) -> dict[str, float]:
    """Zero-one error, and absolute error in stars, of each way to decide."""
    found = {}
    for name, predicted in predictions.items():
        found[f"zero_one_{name}"] = float(np.mean(predicted != truth))
        found[f"stars_{name}"] = float(np.mean(np.abs(predicted - truth)))
    return found
