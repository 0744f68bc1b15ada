"""``ordinalgp rate`` and ``ordinalgp recommend``: raters, items and their ratings."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from typer import Argument, Option

import ordinalgp
from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.cli import common
from ordinalgp.kernels import Independent
from ordinalgp.runtime.files import check_different, check_output
from ordinalgp.tables.cells import BadCell, BadInput, Table, gaps, texts
from ordinalgp.tables.encoding import learn, parse_columns, read_target
from ordinalgp.tables.files import Rows, TableFile, check_table_output, records, table_writer

_RATERS = ("rater", "user", "person", "reviewer", "judge", "customer", "reader", "viewer")
_ITEMS = ("item", "movie", "film", "product", "book", "title", "object", "song", "option")
_RATINGS = ("rating", "ratings", "stars", "score", "grade", "target", "level", "outcome")
_MOST_SHOWN = 10  # items and raters printed
_OWN_SHARE = (0.3, 0.5, 0.5)  # prior variance of a rater's level, of features, and of each item

Name = Annotated[str | None, Option(metavar="NAME", help="Column with who rated.")]
ItemName = Annotated[str | None, Option(metavar="NAME", help="Column with what was rated.")]
RatingName = Annotated[str | None, Option(metavar="NAME", help="Column with the ratings.")]
Categories = Annotated[
    list[str] | None, Option(metavar="LOW,...,HIGH", help="Levels from lowest to highest.")
]
Features = Annotated[
    Path | None,
    Option(
        metavar="FILE", help="Features: one row per item, rated or not; its name, then columns."
    ),
]
Rank = Annotated[
    str,
    Option(
        metavar="auto|full|N",
        help="Covariance of the items: full, or N tastes; auto is full up to 1,000 items.",
    ),
]
Model = Annotated[Path, Argument(help="Model that ordinalgp rate wrote.")]
New = Annotated[
    Path | None,
    Option("--ratings", metavar="FILE", help="Ratings of raters that the model does not know."),
]


def rate(
    ratings: Annotated[Path, Argument(help="File with one row per rating: who, what, and level.")],
    output: Annotated[Path, common.output("Model file.")] = Path("model.ogp"),
    rater: Name = None,
    item: ItemName = None,
    rating: RatingName = None,
    categories: Categories = None,
    item_features: Features = None,
    rank: Rank = "auto",
    items_table: Annotated[
        Path | None, Option("--items", metavar="FILE", help="Table of the items to write.")
    ] = None,
    raters_table: Annotated[
        Path | None, Option("--raters", metavar="FILE", help="Table of the raters to write.")
    ] = None,
    coverage: Annotated[float, Option(help="Probability of the intervals of levels.")] = 0.9,
    on_bad_rows: common.OnBadRows = "error",
    separator: common.Separator = None,
    decimal: common.Decimal = None,
    encoding: common.Encoding = None,
    missing: common.Missing = None,
    as_json: common.Json = False,
) -> None:
    """Fit a model to ratings of items by many raters, and save it.

    Every rater has thresholds and noise of their own. ordinalgp predict and ordinalgp recommend use
    the model; ordinalgp report writes a page about it.
    """
    started = time.perf_counter()
    common.check_coverage(coverage)
    inputs = [path for path in (ratings, item_features) if path is not None]
    check_output(output, inputs)
    for path in (items_table, raters_table):
        if path is not None:
            check_table_output(path, inputs)
    outputs = [path for path in (output, items_table, raters_table) if path is not None]
    for one, other in combinations(outputs, 2):
        check_different(one, other)
    reading = on_bad_rows, separator, decimal, encoding, missing
    file = common.table_file(ratings, *reading)
    found = read_ratings(file, (rater, item, rating), common.words(categories))
    features = kernel = None
    if item_features is not None:
        feature_file = common.table_file(item_features, *reading)
        features, kernel = _features(feature_file)
        common.tell_skipped(feature_file.bad)
        _check_listed(found, features, item_features)
    common.tell_skipped(file.bad)
    common.note(found.told(ratings))
    model = ordinalgp.CollaborativeOrdinalGP(
        "correlation" if kernel is None else kernel,
        categories=found.order,
        rank=_rank(rank),
        n_jobs=1,
    )
    with common.showing_progress(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(found.raters, found.items, found.levels, features)
    for warning in caught:
        common.note(f"Warning: {warning.message}")
    model.save(output)
    board = _Summary.of(model, coverage)
    for path, rows in ((items_table, board.items), (raters_table, board.raters)):
        if path is not None:
            with table_writer(path) as writer:
                writer.write(rows)
    seconds = time.perf_counter() - started
    if as_json:
        common.print_json(board.as_json(found) | {"output": str(output), "seconds": seconds})
    else:
        board.tell(found, output, seconds)


def recommend(
    model: Model,
    rater: Annotated[list[str], Argument(help="Raters to recommend items to.")],
    number: Annotated[int, Option("--number", "-n", min=1, help="Number of items.")] = 10,
    new: New = None,
    coverage: Annotated[float, Option(help="Probability of the intervals of levels.")] = 0.9,
    as_json: common.Json = False,
) -> None:
    """Recommend items that a rater has not rated, those with the highest expected rating first.

    A rater whom the model does not know needs ratings, in a file given by --ratings.
    """
    common.check_coverage(coverage)
    fitted = load(model)
    add_raters(fitted, new)
    told = {}
    for name in rater:
        who = _known([name], fitted.raters_, "rater", str(model))[0]
        best = fitted.recommend(who, number).tolist()
        pairs: Any = [who] * len(best), best
        expected: Any = fitted.expected_rating(*pairs) if best else []
        ends: Any = fitted.predict_interval(*pairs, coverage=coverage) if best else []
        rows = zip(best, expected, ends, strict=True)
        told[name] = [
            {"item": item, "expected": float(value), "lower": low, "upper": high}
            for item, value, (low, high) in ((a, b, np.asarray(c).tolist()) for a, b, c in rows)
        ]
    if as_json:
        common.print_json(told)
        return
    for name, rows_ in told.items():
        common.tell(f"\nFor {name}:\n")
        table = common.grid("item", "expected", "from", "to")
        for row in rows_:
            cells = f"{row['expected']:.2f}", str(row["lower"]), str(row["upper"])
            table.add_row(Text(str(row["item"])), *cells)
        common.console().print(table)


# ------------------------------------------------------------------------------- reading


@dataclass(frozen=True, eq=False)
class RatingColumns:
    """Ratings as they were read, without bad rows."""

    columns: list[str]
    """with raters, items and ratings"""
    raters: list[str]
    items: list[str]
    levels: NDArray[Any]
    order: list[Any] | None
    unused: list[str]

    def told(self, path: Path) -> str:
        """A sentence on what was read."""
        rater, item, rating = self.columns
        n = len(self.levels)
        text = f"{path}: rater in {rater}, item in {item}, rating in {rating}. Read {n:,} ratings "
        text += f"of {len(set(self.items)):,} items by {len(set(self.raters)):,} raters."
        return text + (f" Not used: {', '.join(self.unused)}." if self.unused else "")


def rating_columns(table: Table, given: Sequence[str | None], path: Path) -> list[str]:
    """Columns with raters, items and, if there is a third, ratings: as given, or by their names."""
    names, options = list(table.columns), ("--rater", "--item", "--rating")[: len(given)]
    chosen: list[str] = []
    for option, column, stems in zip(options, given, (_RATERS, _ITEMS, _RATINGS), strict=False):
        if column is not None:
            if column not in names:
                listed = ", ".join(names)
                raise BadInput(f"{path} has no column {column!r} for {option}. It has {listed}.")
            chosen.append(column)
            continue
        fits = [name for name in names if _stem(name) in stems and name not in chosen]
        if len(fits) != 1:
            doubt = f"{', '.join(fits)} may be" if fits else "none of its columns is called so"
            raise BadInput(
                f"Which column of {path} has the {option[2:]}s? {doubt[0].upper() + doubt[1:]}. "
                f"Its columns are {', '.join(names)}. Say it with {option} NAME."
            )
        chosen.append(fits[0])
    return chosen


def _stem(name: str) -> str:
    """A column's name without case and "id"."""
    low = name.casefold().replace(" ", "_")
    return low.removesuffix("_id").removesuffix("id") if low.endswith("id") else low


def read_ratings(
    file: TableFile, given: Sequence[str | None], categories: Sequence[str]
) -> RatingColumns:
    """Read the ratings of a file; bad rows are named by line."""
    table = file.read()
    columns = rating_columns(table, given, file.path)
    levels, order, bad = read_target(table, columns[2], categories or None, table.decimal or ".")
    bad = list(bad)
    for column in columns[:2]:
        bad += table.bad_cells(column, gaps(table.columns[column]), lambda cell: "is missing")
    good = file.bad.drop(table, bad)
    who, what = (texts(table.columns[column])[good].tolist() for column in columns[:2])
    if not len(who):
        raise BadInput(f"{file.path} has no ratings that can be used.")
    unused = [name for name in table.columns if name not in columns]
    return RatingColumns(columns, who, what, levels[good], order, unused)


def _features(file: TableFile) -> tuple[dict[str, FloatArray], Any]:
    """Encoded features of the items of a file, and a kernel for them."""
    table = file.read()
    key = next(iter(table.columns))
    names = texts(table.columns[key]).tolist()
    seen: set[str | None] = set()
    bad = []
    for line, name in zip(table.lines.tolist(), names, strict=True):
        if name is None or name in seen:
            bad.append(BadCell(line, key, "the name is missing or was named before"))
        seen.add(name)
    parsed, wrong = parse_columns(table.without([key]))
    good = file.bad.drop(table, bad + wrong)
    common.tell_left_out(parsed.left_out)
    if not parsed.columns:
        raise BadInput(f"{file.path} has no features: columns beside {key} are needed.")
    parsed = parsed.take(good)
    X = learn(parsed).encode(parsed)[0]
    level, smooth, own = _OWN_SHARE
    kernel = ConstantKernel(level) + ConstantKernel(smooth) * RBF(np.sqrt(X.shape[1]))
    kernel = kernel + ConstantKernel(own) * Independent()
    kept = (name for name, fits in zip(names, good.tolist(), strict=True) if fits)
    return dict(zip(kept, X, strict=True)), kernel


def _check_listed(found: RatingColumns, features: dict[str, FloatArray], path: Path) -> None:
    unknown = sorted(set(found.items) - set(features))
    if unknown:
        raise BadInput(
            f"{path} has no row for {len(unknown)} of the items that were rated: "
            f"{', '.join(unknown[:5])}. Give features of every item, or leave --item-features out."
        )


def _rank(word: str) -> Any:
    if word in ("auto", "full"):
        return word
    if not word.isdecimal() or int(word) < 1:
        raise BadInput(f"--rank must be auto, full or a number of tastes, but is {word!r}.")
    return int(word)


def load(path: Path) -> ordinalgp.CollaborativeOrdinalGP:
    """Read a model that ``ordinalgp rate`` wrote."""
    model = ordinalgp.load(path)
    if not isinstance(model, ordinalgp.CollaborativeOrdinalGP):
        raise BadInput(
            f"{path} holds a {type(model).__name__}, but a model of raters is needed. Make one "
            "with ordinalgp rate."
        )
    return model


def _known(names: Sequence[str], ids: NDArray[Any], what: str, path: str) -> list[Any]:
    """Ids that are written so; numbers saved from Python are found by their text."""
    by_text = {str(value): value for value in ids.tolist()}
    unknown = [name for name in names if name not in by_text]
    if unknown:
        remedy = (
            "Give their ratings with --ratings FILE, or fit again with them."
            if what == "rater"
            else "Fit again with it."
        )
        raise BadInput(f"{path} does not know the {what} {unknown[0]!r}. {remedy}")
    return [by_text[name] for name in names]


def add_raters(model: ordinalgp.CollaborativeOrdinalGP, path: Path | None) -> None:
    """Add the raters of a file whom the model does not know."""
    if path is None:
        return
    file = common.table_file(path, "error", None, None, None)
    words = [str(level) for level in model.categories_.tolist()]
    named = words if model.categories_.dtype.kind in "OUS" else []
    found = read_ratings(file, (None, None, None), named)
    known = {str(value) for value in model.raters_.tolist()}
    who = np.array(found.raters, dtype=object)
    for name in dict.fromkeys(found.raters):
        if name in known:
            common.note(f"{name} is known already; the ratings of {path} are not added.")
            continue
        own = np.flatnonzero(who == name)
        items = _known([found.items[row] for row in own], model.items_, "item", str(path))
        model.add_rater(items, found.levels[own], rater=name)


# ------------------------------------------------------------------------------ predicting


def predict_pairs(
    model: ordinalgp.CollaborativeOrdinalGP, file: TableFile, new: Path | None, coverage: float
) -> Rows:
    """Level, interval and probabilities of each row of a file with raters and items."""
    add_raters(model, new)
    table = file.read()
    columns = rating_columns(table, (None, None), file.path)
    bad: list[BadCell] = []
    ids = []
    for column, known in zip(columns, (model.raters_, model.items_), strict=True):
        by_text = {str(value): value for value in known.tolist()}
        cells = texts(table.columns[column]).tolist()
        where = np.array([cell not in by_text for cell in cells], dtype=bool)
        bad += table.bad_cells(column, where, lambda cell: f"{cell!r} is not known to the model")
        ids.append([by_text.get(cell) for cell in cells])
    good = np.flatnonzero(file.bad.drop(table, bad))
    who, what = ([column[row] for row in good] for column in ids)
    rows: Rows = {table.unit: table.lines[good].tolist(), columns[0]: who, columns[1]: what}
    proba = np.empty((0, len(model.categories_)))
    if len(who):
        proba = model.category_proba(who, what)
        rows["level"] = model.predict(who, what).tolist()
        lower, upper = model.predict_interval(who, what, coverage=coverage).T.tolist()
    else:
        rows["level"], lower, upper = [], [], []
    expected = (proba @ model._result.values).tolist()
    rows |= {"lower": lower, "upper": upper, "expected": expected}
    levels = model.categories_.tolist()
    return rows | {f"p_{level}": proba[:, at].tolist() for at, level in enumerate(levels)}


# -------------------------------------------------------------------------------- telling


@dataclass(frozen=True, eq=False)
class _Summary:
    """Facts that are told of a fitted model."""

    model: ordinalgp.CollaborativeOrdinalGP
    items: Rows
    raters: Rows
    coverage: float

    @classmethod
    def of(cls, model: ordinalgp.CollaborativeOrdinalGP, coverage: float) -> "_Summary":
        """The summary of a model."""
        items, raters = model.item_summary(coverage), model.rater_summary()
        item_rows: Rows = {
            "item": items.items.tolist(),
            "expected": items.expected.tolist(),
            "lower": items.low.tolist(),
            "upper": items.high.tolist(),
            "ratings": items.ratings.tolist(),
        }
        rater_rows: Rows = {
            "rater": raters.raters.tolist(),
            "ratings": raters.ratings.tolist(),
            "mean": raters.mean.tolist(),
            "noise": raters.noise.tolist(),
        }
        shares = zip(model.categories_.tolist(), raters.shares.T, strict=True)
        rater_rows |= {f"p_{level}": share.tolist() for level, share in shares}
        return cls(model, item_rows, rater_rows, coverage)

    def as_json(self, found: RatingColumns) -> dict[str, Any]:
        """The content of ``--json``."""
        model = self.model
        scores = getattr(model, "rank_scores_", {})
        return {
            "ratings": len(found.levels),
            "columns": found.columns,
            "unused_columns": found.unused,
            "levels": model.categories_.tolist(),
            "rank": model.rank_,
            "left_out_log_score": {str(rank): -score for rank, score in scores.items()},
            "log_evidence": float(model.log_evidence_path_[-1]),
            "iterations": model.n_iter_,
            "converged": bool(model.converged_),
            "coverage": self.coverage,
            "items": records(self.items),
            "raters": records(self.raters),
        }

    def tell(self, found: RatingColumns, output: Path, seconds: float) -> None:
        """Print it."""
        model = self.model
        kind = "full covariance" if model.rank_ is None else f"{model.rank_} tastes"
        common.tell(
            f"{len(found.levels):,} ratings, {len(model.raters_):,} raters, "
            f"{len(model.items_):,} items; {kind}, {model.n_iter_} iterations.\n"
        )
        shown = records(self.items)[:_MOST_SHOWN]
        table = common.grid("item", "expected", "from", "to", "ratings")
        for row in shown:
            ends = str(row["lower"]), str(row["upper"])
            table.add_row(
                Text(str(row["item"])), f"{row['expected']:.2f}", *ends, str(row["ratings"])
            )
        common.console().print(table)
        common.tell(
            f"\nexpected, from, to: rating by a rater of whom nothing is known, with its "
            f"{self.coverage:.0%} interval\n"
        )
        order = np.argsort(-np.array(self.raters["noise"]), kind="stable")
        chosen: IntArray = order[:_MOST_SHOWN]
        rows = records(self.raters)
        table = common.grid("rater, most erratic first", "noise", "mean", "ratings")
        for place in chosen.tolist():
            row = rows[place]
            numbers = f"{row['noise']:.2f}", f"{row['mean']:.2f}", str(row["ratings"])
            table.add_row(Text(str(row["rater"])), *numbers)
        common.console().print(table)
        common.tell("\nnoise: in units of the typical rater's; all raters with --raters FILE")
        common.tell(f"\nSaved in {output} after {seconds:.1f} s.")
