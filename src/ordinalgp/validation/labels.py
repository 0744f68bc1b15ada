"""Ordered labels: values, order and ranks."""

import datetime
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.runtime.warning import warn_user

_MIN_ROWS_TO_CALL_CONTINUOUS = 10
MOST_UNNAMED_LEVELS = 50
"""different numbers that are taken for levels without being named"""
_EXACT = 2**53  # whole numbers up to here are floats without rounding
_MOST_SAVED_LEVELS = 100_000  # no fit takes so many; a file with more is hostile


@dataclass(frozen=True)
class Levels:
    """Labels as ranks: ``categories[codes]`` are the labels again.

    ``categories`` holds every level from lowest to highest, also those the data lack;
    ``classes`` is ``np.unique(y)``; ``codes`` (n,) is each label's place in ``categories``;
    ``counts`` (r,) is how many rows have each level.
    """

    categories: NDArray[Any]
    classes: NDArray[Any]
    codes: IntArray
    counts: FloatArray


def count_levels(codes: IntArray, weights: FloatArray | None, n_levels: int) -> FloatArray:
    """Total weight of the rows of each level, (r,); no weights are ones."""
    return np.bincount(codes, weights, minlength=n_levels).astype(float)


def encode_levels(y: Any, categories: Any = None, *, name: str = "y") -> Levels:
    """Rank the labels ``y`` of shape (n,), which errors call ``name``.

    The order is ``categories``, else that of an ordered pandas categorical or a polars Enum,
    else that of the numbers or booleans themselves.
    """
    values = label_values(y, name)
    classes, inverse = np.unique(values, return_inverse=True)
    order = declared_order(y) if categories is None else categories
    if order is None:
        _require_own_order(classes, len(values), name)
        require_few_levels(classes, name)
    _require_two_classes(classes, name)
    ranked = classes if order is None else check_categories(order, classes)
    if categories is not None:
        ranked = _with_positions(ranked, classes, name)
    codes = class_positions(ranked, classes)[inverse]
    _reject_unknown(values, codes, ranked, name)
    return Levels(ranked, classes, codes, count_levels(codes, None, len(ranked)))


def _with_positions(categories: NDArray[Any], classes: NDArray[Any], name: str) -> NDArray[Any]:
    """``categories``, or the places of its levels among sorted labels if ``classes`` are those.

    ``cross_val_predict`` of scikit-learn, bagging, voting and stacking replace labels by places
    among all sorted labels before they call ``fit``. A highest place of r - 1 shows that none of
    the r levels was missing, so that places can be turned into ranks.
    """
    known = class_positions(categories, classes) >= 0
    if known.all() or classes.dtype.kind not in "iu":
        return categories
    if not 0 <= classes.min() <= classes.max() < len(categories):
        return categories
    in_order = np.sort(categories)
    places = class_positions(in_order, categories).astype(classes.dtype)
    if classes.max() != len(categories) - 1:
        _reject_places(categories, classes, name)
        return categories
    if categories.dtype.kind in "biuf" or not np.array_equal(in_order, categories):
        shown = [f"{k} = {level!r}" for k, level in enumerate(in_order[:8].tolist())]
        warn_user(
            f"{name} holds {show(classes)} where categories names [{show(categories)}]. They are "
            "taken for the places of the sorted labels, which scikit-learn's tools pass on: "
            f"{', '.join(shown + ['...'] * (len(in_order) > 8))}. If they are something else, name "
            "them by categories.",
            UserWarning,
        )
    return places


def _reject_places(categories: NDArray[Any], classes: NDArray[Any], name: str) -> None:
    """Raise if numbers stand where words were named."""
    if categories.dtype.kind in "biuf":
        return
    raise ValueError(
        f"{name} holds {show(classes)}, but categories names [{show(categories)}]. If a tool of "
        "scikit-learn has replaced the labels by their places among all sorted labels, a level is "
        "missing, and places cannot be told from ranks. Give the tool numbers in the order of the "
        f"levels, 0 for {show(categories[:1])} to {len(categories) - 1} for "
        f"{show(categories[-1:])}, and no categories."
    )


def require_few_levels(classes: NDArray[Any], name: str, what: str = "categories=[...]") -> None:
    """Raise if numbers that nobody named as levels are too many to be levels."""
    if len(classes) > MOST_UNNAMED_LEVELS:
        raise ValueError(
            f"{name} has {len(classes):,} different values, from {classes[0]} to {classes[-1]} "
            f"({show(classes, 5)}), where a few ordered levels are needed: is it a measurement, a "
            f"time or an id? Cut it, e.g. ordinalgp.tables.cut_levels({name}, 5), or --cut 5 on "
            f"the command line. If every value is a level, name them all by {what}."
        )


def class_positions(categories: NDArray[Any], classes: NDArray[Any]) -> IntArray:
    """Place of each of ``classes`` in ``categories``, by value; -1 where it has none."""
    if _comparable(categories) and _comparable(classes) and len(categories):
        order = np.argsort(categories, kind="stable")
        ranked = categories[order]
        places = np.maximum(np.searchsorted(ranked, classes, side="right") - 1, 0)
        return np.where(ranked[places] == classes, order[places], -1)
    rank = {level: place for place, level in enumerate(categories.tolist())}
    return np.array([rank.get(label, -1) for label in classes.tolist()], dtype=np.intp)


def _comparable(values: NDArray[Any]) -> bool:
    """Whether values are numbers that numpy compares as Python does, beyond no float's digits."""
    if values.ndim != 1 or values.dtype.kind not in "biuf" or values.dtype.itemsize > 8:
        return False
    small = values.dtype.kind in "bf" or values.dtype.itemsize < 8 or not len(values)
    return small or bool(values.max() <= _EXACT and values.min() >= -_EXACT)


def levels_agree(categories: NDArray[Any], classes: NDArray[Any]) -> bool:
    """Whether saved levels are at least two, each once, and the observed ones are some of them."""
    if not 0 < len(classes) <= len(categories) <= _MOST_SAVED_LEVELS:
        return False
    levels, observed = set(categories.tolist()), set(classes.tolist())
    distinct = (len(levels), len(observed)) == (len(categories), len(classes))
    return distinct and len(levels) >= 2 and observed <= levels


def label_values(labels: Any, name: str) -> NDArray[Any]:
    """One-dimensional array of ``labels``, complete, in the dtype that fits them.

    Lists go through ``object``: numpy would turn ``['low', nan]`` into the strings 'low', 'nan'.
    """
    values = column_or_1d(_raw(labels), warn=True)
    _reject_missing(values, name)
    if values.dtype == object:
        keep_strings = str(getattr(labels, "dtype", "")) == "object"
        values = _natural(values, name, keep_strings=keep_strings)
    _reject_infinite(values, name)
    return values


def _raw(labels: Any) -> NDArray[Any]:
    """Labels as an array: of numbers where a list holds nothing else, else of objects."""
    if not isinstance(labels, list | tuple):
        return np.asarray(labels)
    if labels and isinstance(labels[0], int | float | np.number | np.bool_):
        try:
            values = np.asarray(labels)
        except ValueError:  # lists of different lengths among the numbers
            values = np.empty(0, dtype=object)
        if values.dtype.kind in "biuf":
            return values
    return np.asarray(labels, dtype=object)


def _natural(values: NDArray[Any], name: str, *, keep_strings: bool) -> NDArray[Any]:
    """``values`` of dtype object in the dtype that numpy gives them, strings only if asked."""
    is_string = np.array([isinstance(value, str) for value in values], dtype=bool)
    if is_string.any() and not is_string.all():
        some = values[[is_string.argmax(), is_string.argmin()]]
        raise ValueError(f"{name} mixes strings with others ({show(some)}). Use a single type.")
    return values if keep_strings and is_string.any() else np.array(values.tolist())


def _reject_missing(values: NDArray[Any], name: str) -> None:
    if values.dtype == object:
        missing = np.array([_is_missing(value) for value in values], dtype=bool)
    else:
        missing = values != values
    if missing.any():
        row = np.flatnonzero(missing)[0]
        raise ValueError(
            f"{name} must not have missing values, but row {row} is {show(values[[row]])} "
            f"({missing.sum()} missing in all; {name} contains NaN). Drop these rows first."
        )


def _is_missing(value: Any) -> bool:
    is_nan = isinstance(value, float | np.floating) and bool(np.isnan(value))
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def _reject_infinite(values: NDArray[Any], name: str) -> None:
    if values.dtype.kind == "f" and np.isinf(values).any():
        row = np.flatnonzero(np.isinf(values))[0]
        raise ValueError(
            f"{name} must be finite, but row {row} is {values[row]} ({name} contains infinity). "
            "Drop this row or give the level a finite number."
        )


def declared_order(y: Any) -> NDArray[Any] | None:
    """Levels of an ordered pandas categorical or a polars Enum (or a frame of one such column)."""
    dtypes = [y.dtype] if hasattr(y, "dtype") else list(getattr(y, "dtypes", []))
    for dtype in dtypes[:1]:
        if getattr(dtype, "ordered", False) or type(dtype).__name__ == "Enum":
            return np.asarray(dtype.categories)
    return None


def _are_times(classes: NDArray[Any]) -> bool:
    """Whether labels are dates or times, which nobody means by levels."""
    times = (datetime.date, datetime.time, np.datetime64)
    return classes.dtype.kind == "M" or (len(classes) > 0 and isinstance(classes[0], times))


def _require_own_order(classes: NDArray[Any], n_rows: int, name: str) -> None:
    """Accept numbers, half steps among them, and booleans; not strings nor measurements."""
    if classes.dtype.kind not in "biuf":
        if _are_times(classes):
            raise ValueError(
                f"{name} holds {len(classes)} different times ({classes[0]}, ...), where a few "
                "ordered levels are needed. Cut them as numbers of seconds, e.g. "
                f"ordinalgp.tables.cut_levels(np.asarray({name}, dtype='M8[s]').astype(float), 5)."
            )
        raise ValueError(
            f"{name} must say how its labels are ordered, but {show(classes)} have no order of "
            "their own (alphabetical order would be arbitrary). Name the levels from lowest to "
            f"highest, e.g. categories=['low', 'mid', 'high'], or give {name} as an ordered pandas "
            "categorical."
        )
    many = n_rows >= _MIN_ROWS_TO_CALL_CONTINUOUS and len(classes) > n_rows / 2
    if many and classes.dtype.kind == "f" and (2 * classes % 1 != 0).any():
        raise ValueError(
            f"Unknown label type: continuous. {name} has {len(classes)} different fractional "
            f"values in {n_rows} rows ({show(classes)}), where a few ordered levels are needed. "
            f"Cut it first, e.g. ordinalgp.tables.cut_levels({name}, 5), or --cut 5 on the command "
            "line. If every value is a level, name them all by categories=[...]."
        )


def _require_two_classes(classes: NDArray[Any], name: str) -> None:
    if len(classes) < 2:
        word = "class" if len(classes) == 1 else "classes"
        raise ValueError(
            f"{name} has {len(classes)} {word} ({show(classes)}), but at least 2 classes are "
            "needed. Add rows with another label."
        )


def check_categories(
    categories: Any, classes: NDArray[Any], name: str = "categories"
) -> NDArray[Any]:
    """Levels that a user named, at least two and each once, of the kind of ``classes``."""
    if np.ndim(categories) != 1:
        raise ValueError(
            f"{name} must be a list of levels from lowest to highest, "
            f"e.g. ['low', 'mid', 'high'], but {categories!r} was given."
        )
    levels = _in_kind_of(classes, label_values(list(categories), name))
    if len(levels) < 2:
        raise ValueError(
            f"{name} must name at least 2 levels, but has {len(levels)} ({show(levels)}). "
            "Name every level from lowest to highest."
        )
    distinct, counts = np.unique(levels, return_counts=True)
    if (counts > 1).any():
        raise ValueError(
            f"{name} must name each level once, but repeats {show(distinct[counts > 1])}. "
            "Remove the repetition."
        )
    return levels


def _in_kind_of(classes: NDArray[Any], levels: NDArray[Any]) -> NDArray[Any]:
    """``levels`` in the dtype of ``classes``, where that changes no value."""
    if classes.dtype == object:
        return levels.astype(object)
    if levels.dtype.kind not in "biuf" or classes.dtype.kind not in "biuf":
        return levels
    with np.errstate(invalid="ignore"):
        cast = levels.astype(classes.dtype)
    both_float = levels.dtype.kind == classes.dtype.kind == "f"
    return cast if both_float or np.array_equal(cast, levels) else levels


def _reject_unknown(
    values: NDArray[Any], codes: IntArray, categories: NDArray[Any], name: str
) -> None:
    unknown = np.flatnonzero(codes < 0)
    if len(unknown):
        row = unknown[0]
        advice = f"Add this level to categories or drop such rows ({len(unknown)} in all)."
        if (values.dtype.kind in "biuf") != (categories.dtype.kind in "biuf"):
            advice = "Give both as strings, or both as numbers."
        raise ValueError(
            f"{name} must hold only the levels of categories, [{show(categories)}], but row {row} "
            f"is {show(values[[row]])}. {advice}"
        )


def show(values: NDArray[Any], limit: int = 8) -> str:
    """The first values as text, for messages."""
    shown = [repr(value) for value in values[:limit].tolist()]
    return ", ".join(shown + ["..."] * (len(values) > limit))
