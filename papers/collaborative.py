"""Tables 1 and 2 of Yu et al. (2006): raters who learn from each other, on MovieLens.

EachMovie was withdrawn, so that figures are compared in shape, not digit by digit.
"""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ordinalgp import CollaborativeOrdinalGP
from ordinalgp.decisions import decide
from papers.data import LEVELS, FloatArray, Home, IntArray, load_movies, nearest_level, star_errors
from papers.models import Build, Model
from papers.pages import Panel, Part, Table, counts_of, draw_curves, entries, row_of
from papers.runner import Cell, Experiment, Record, fit_quietly
from papers.statistics import figure, paired_difference, present, published, select, sizes_of

RATERS = 100
SIZES = {"movielens": (100, 200, 300, 400)}


def _raters(likelihood: str, prior: str, smoothing: float | None = None) -> Build:
    options: dict[str, Any] = {"likelihood": likelihood, "prior": prior, "tol": 1e-3}
    options |= {"categories": LEVELS, "covariance_smoothing": smoothing}
    return lambda seed, n_inputs: CollaborativeOrdinalGP("correlation", **options)


class BiasedMeans:
    """Overall mean + movie's deviation among other users + rater's own deviation, shrunk.

    The other users' own deviations are taken out first, as the correlation kernel does; a
    deviation of n ratings counts n / (n + 5).
    """

    def fit(
        self, raters: IntArray, items: IntArray, ratings: FloatArray, item_features: FloatArray
    ) -> "BiasedMeans":
        """Raters and items are numbered from 0; ``item_features`` are other users' ratings."""
        centred = item_features - np.nanmean(item_features, axis=0)
        self.mean_ = float(np.mean(ratings))
        seen = np.sum(~np.isnan(centred), axis=1)
        self.movie_ = np.nansum(centred, axis=1) / (seen + 5)
        rest = ratings - self.mean_ - self.movie_[items]
        count = np.bincount(raters)
        self.rater_ = np.bincount(raters, rest) / (count + 5)
        return self

    def predict(self, raters: IntArray, items: IntArray) -> FloatArray:
        """Stars, not rounded."""
        stars: FloatArray = self.mean_ + self.movie_[items] + self.rater_[raters]
        return stars


# The last two have one virtual rater an item, where the default is four.
MODELS = {
    "gpr": Model("GPR", _raters("gaussian", "fixed")),
    "cgpr": Model("CGPR", _raters("gaussian", "learned")),
    "gpor": Model("GPOR", _raters("ordinal", "fixed")),
    "cgpor": Model("CGPOR", _raters("ordinal", "learned")),
    "biased-means": Model("biased means", lambda *_: BiasedMeans()),
    "cgpr-450": Model("CGPR, 450 virtual raters", _raters("gaussian", "learned", 450.0)),
    "cgpor-450": Model("CGPOR, 450 virtual raters", _raters("ordinal", "learned", 450.0)),
}


def compute(cell: Cell, data_home: Home = None) -> Record:
    """Train on ``cell.size`` random movies, test on the raters' ratings of all others."""
    stars = load_movies(data_home).stars
    train = np.random.default_rng(cell.split).permutation(len(stars))[: cell.size]
    mine, others = stars[:, :RATERS], stars[:, RATERS:]
    trained = np.isin(np.arange(len(stars)), train)[:, None]
    seen = ~np.isnan(mine)
    items, raters = np.nonzero(seen & trained)
    what, who = np.nonzero(seen & ~trained)
    truth = mine[what, who]
    model = MODELS[cell.model].build(cell.seed, others.shape[1])
    fit_quietly(model, raters, items, mine[items, raters], item_features=others)
    if cell.model == "biased-means":
        found = star_errors(truth, rounded=nearest_level(model.predict(who, what)))
        return {**found, "zero_one": found["zero_one_rounded"], "stars": found["stars_rounded"]}
    return _scores(model, who, what, truth)


def _scores(model: Any, who: IntArray, what: IntArray, truth: FloatArray) -> Record:
    """Errors under each decision; the tables take the mode for one and the median for the other."""
    proba = model.category_proba(who, what)
    if model.likelihood == "gaussian":
        rounded = nearest_level(model.latent_mean_and_variance(who, what)[0])
    else:
        rounded = LEVELS[decide(proba, "mean")]
    mode, median = (LEVELS[decide(proba, rule)] for rule in ("mode", "median"))
    found = star_errors(truth, mode=mode, median=median, rounded=rounded)
    place = np.searchsorted(LEVELS, truth)
    return {
        **found,
        "zero_one": found["zero_one_mode"],
        "stars": found["stars_median"],
        "log_score": float(-np.mean(np.log(proba[np.arange(len(place)), place]))),
        "objective": float(model.objective_path_[-1]),
        "iterations": model.n_iter_,
        "converged": bool(model.converged_),
        "least_gain": float(np.min(np.diff(model.objective_path_))),
    }


# ------------------------------------------------------------------------------------ page

_TABLES = {
    "stars": "Absolute error in stars; each model decides for its median level",
    "zero_one": "Zero-one error in percent; each model decides for its most probable level",
    "log_score": "Mean -ln p(true level)",
}


def page(records: Sequence[Record], experiment: Experiment) -> list[Part]:
    """One table for each measure, sizes down and models across, the paper's, and its shape."""
    models = present(MODELS, records, "model")
    parts: list[Part] = [_measure(records, m, t, models) for m, t in _TABLES.items()]
    source = published("collaborative-table1")
    header = ["training movies", *(MODELS[m].label for m in ("gpr", "cgpr", "gpor", "cgpor"))]
    for table, title in (("absolute", "Table 1, absolute error"), ("zero_one", "Table 2, %")):
        rows = [
            entries(size, *(f"{x:g}" for x in row.values()))
            for size, row in source["figures"][table].items()
        ]
        note = f"On EachMovie, 809 movies. {source['source']}."
        parts.append(Table(f"Published: {title}", header, rows, note))
    return [*parts, _shape(records)]


def _measure(records: Sequence[Record], measure: str, title: str, models: Sequence[str]) -> Table:
    shown = [m for m in models if figure(select(records, model=m), measure) is not None]
    rows, digits = [], 2 if measure == "zero_one" else 4
    for size in sizes_of(records):
        found = [figure(select(records, size=size, model=m), measure) for m in shown]
        rows.append([*entries(str(size), counts_of(found)), *row_of(found, digits=digits)])
    note = "Where n is a range, some models have only the first repetitions."
    return Table(title, ["training movies", "n", *(MODELS[m].label for m in shown)], rows, note)


def _shape(records: Sequence[Record]) -> str:
    """Count where the paper's order of the models is found, and name where it is not."""
    lines, compared = [], 0
    collaborative, ordinal = (
        [("cgpr", "gpr"), ("cgpor", "gpor")],
        [("gpor", "gpr"), ("cgpor", "cgpr")],
    )
    for measure, pairs in (("stars", collaborative), ("zero_one", collaborative + ordinal)):
        for size, (low, high) in product(SIZES["movielens"], pairs):
            found = (select(records, size=size, model=m) for m in (low, high))
            mean, se, n = paired_difference(measure, *found)
            compared += n > 1
            if mean > 0:
                lines.append(
                    f"- {measure}, {size} movies: {MODELS[low].label} above {MODELS[high].label} "
                    f"by {mean:.4f} (paired standard error {se:.4f})"
                )
    text = (
        "The paper's shape (collaborative at or below individual in both errors, ordinal below "
        f"metric in zero-one error) is found in {compared - len(lines)} of {compared} comparisons."
    )
    return "\n".join([text, "", *lines]) if lines else text


def draw(folder: Path, records: Sequence[Record]) -> list[Part]:
    """Draw all three measures."""
    panels = [
        Panel("zero_one", "zero-one error, %", 100.0),
        Panel("stars", "absolute error, stars"),
        Panel("log_score", "mean -ln p"),
    ]
    caption = "MovieLens: errors against the number of training movies"
    path = folder / "collaborative-table1.png"
    return draw_curves(path, caption, records, MODELS, panels, x="training movies")


EXPERIMENTS = (
    Experiment(
        "collaborative-table1",
        "Yu et al. (2006), Tables 1 and 2: raters who learn from each other",
        compute,
        page,
        tuple(MODELS),
        trials=10,
        results="collaborative",
        published=("collaborative-table1",),
        draw=draw,
        registry=MODELS,
        sizes=SIZES,
    ),
)
