"""Input checks: what passes keeps its meaning, what fails says what to do."""

import datetime
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.exceptions import DataConversionWarning
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, PairwiseKernel

from ordinalgp.validation import memory as _validation
from ordinalgp.validation.labels import class_positions, encode_levels
from ordinalgp.validation.memory import available_memory, check_memory
from ordinalgp.validation.options import check_kernel, check_option
from ordinalgp.validation.weights import check_weights

LEVELS = ["low", "mid", "high"]  # not alphabetical


def assert_levels(levels, y, categories):
    """The codes lead back to ``y`` through ``categories``; classes are the sorted labels."""
    assert_array_equal(levels.categories, categories)
    assert_array_equal(levels.classes, sorted(set(y)))
    assert_array_equal(levels.categories[levels.codes], y)
    assert levels.codes.dtype == np.intp


@pytest.mark.parametrize(
    "y",
    [
        [3, 1, 2, 1],
        [True, False, True],
        [0.5, 1.5, 1.0, 5.0],
        [-1, 1],
        np.array([7, 3], dtype=np.uint8),
        np.array([2, 1], dtype=object),
        pd.Series([2, 1, 5], dtype="Int64"),
        pd.Series([True, False], dtype="boolean"),
        pd.Series(pd.Categorical([3, 1, 2])),
        pl.Series([3, 1, 2]),
        range(4),
    ],
    ids=repr,
)
def test_numbers_are_ordered_by_size(y):
    levels = encode_levels(y)
    assert_levels(levels, list(y), sorted(set(y)))
    assert levels.classes.dtype.kind in "biuf"


@given(st.lists(st.integers(-5, 5), min_size=2).filter(lambda y: len(set(y)) > 1))
def test_codes_count_the_smaller_levels(y):
    assert_array_equal(encode_levels(y).codes, [sum(k < v for k in set(y)) for v in y])


DECLARED = {
    "series": pd.Series(pd.Categorical(["high", "low"], categories=LEVELS, ordered=True)),
    "categorical": pd.Categorical(["high", "low"], categories=LEVELS, ordered=True),
    "index": pd.CategoricalIndex(["high", "low"], categories=LEVELS, ordered=True),
    "enum": pl.Series(["high", "low"], dtype=pl.Enum(LEVELS)),
}


@pytest.mark.parametrize("kind", DECLARED)
def test_a_declared_order_is_kept_with_its_unused_levels(kind):
    levels = encode_levels(DECLARED[kind])
    assert_levels(levels, ["high", "low"], LEVELS)
    assert_array_equal(levels.codes, [2, 0])
    assert levels.classes.dtype.kind == levels.categories.dtype.kind == "U"


def test_a_declared_order_of_numbers_beats_their_size():
    y = pd.Series(pd.Categorical([1, 3, 2], categories=[3, 2, 1], ordered=True))
    assert_array_equal(encode_levels(y).codes, [2, 0, 1])
    with pytest.warns(DataConversionWarning):
        assert_array_equal(encode_levels(y.to_frame()).codes, [2, 0, 1])


def test_bins_cut_by_pandas_are_levels():
    y = pd.cut(pd.Series([0.1, 0.5, 0.9, 2.9]), bins=[0, 1, 2, 3])
    levels = encode_levels(y)
    assert_array_equal(levels.codes, [0, 0, 0, 2])
    assert list(levels.categories) == list(y.cat.categories)
    assert list(levels.classes) == list(np.unique(y))


def test_categories_beat_a_declared_order():
    levels = encode_levels(DECLARED["series"], ["high", "mid", "low"])
    assert_array_equal(levels.codes, [0, 2])


@pytest.mark.parametrize(
    "categories",
    [LEVELS, tuple(LEVELS), np.array(LEVELS), np.array(LEVELS, dtype=object), pd.Index(LEVELS)],
    ids=["list", "tuple", "array", "objects", "index"],
)
@pytest.mark.parametrize("y", [["low", "mid"], np.array(["mid", "low"], dtype=object)])
def test_absent_levels_keep_their_place(y, categories):
    levels = encode_levels(y, categories)
    assert_levels(levels, y, LEVELS)
    assert levels.classes.dtype.kind == levels.categories.dtype.kind == np.asarray(y).dtype.kind


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(["mid", "low"]),
        pd.Series(["mid", "low"], dtype="string"),
        pl.Series(["mid", "low"]),
    ],
)
def test_string_columns_take_an_order(y):
    levels = encode_levels(y, LEVELS)
    assert_levels(levels, ["mid", "low"], LEVELS)
    assert all(isinstance(label, str) for label in levels.classes.tolist())


@pytest.mark.parametrize(
    ("y", "categories", "kind"),
    [
        ([1.0, 2.0], [1, 2, 3], "f"),
        ([1, 2], [1.0, 2.0, 3.0], "i"),
        ([1, 2], [0.5, 1.0, 1.5, 2.0], "f"),
        ([True, False], [0, 1], "b"),
        ([1, 0], [False, True], "i"),
        (np.array([0.1, 0.2], dtype=np.float32), [0.1, 0.2, 0.3], "f"),
        ([1, 2], [1, 2, 1e30], "f"),
    ],
)
def test_numbers_match_by_value_whatever_their_type(y, categories, kind):
    levels = encode_levels(y, categories)
    assert levels.categories.dtype.kind == kind
    assert_array_equal(levels.categories[levels.codes], y)
    assert len(levels.categories) == len(categories)


def test_other_sortable_labels_need_categories():
    days = [datetime.date(2020, 1, day) for day in (1, 2)]
    assert_array_equal(encode_levels(days, days[::-1]).codes, [1, 0])
    with pytest.raises(ValueError, match=r"holds 2 different times .* Cut them as numbers of"):
        encode_levels(days)


@pytest.mark.parametrize(
    "y",
    [
        LEVELS,
        np.array(LEVELS, dtype=object),
        pd.Series(LEVELS),
        pd.Series(pd.Categorical(LEVELS)),
        pl.Series(LEVELS),
        pl.Series(LEVELS, dtype=pl.Categorical),
    ],
    ids=["list", "objects", "series", "unordered", "polars", "polars categorical"],
)
def test_names_without_an_order_show_how_to_give_one(y):
    with pytest.raises(
        ValueError,
        match=r"'high', 'low', 'mid' have no order.*categories=\['low', 'mid', 'high'\]",
    ):
        encode_levels(y)


def test_long_lists_of_names_are_cut():
    with pytest.raises(ValueError, match=r"'h', \.\.\. have no order"):
        encode_levels(list("abcdefghijkl"))


@pytest.mark.parametrize(
    "y",
    [
        ["low", None, "mid"],
        ["low", np.nan, "mid"],
        [1, None, 2],
        [1.0, np.nan, np.nan],
        np.array(["low", np.nan, "mid"], dtype=object),
        pd.Series([1, pd.NA, 2], dtype="Int64"),
        pd.Series(["low", pd.NA, "mid"], dtype="string"),
        pd.Series(["low", None, "mid"]),
        pd.Categorical(["low", None, "mid"], categories=LEVELS, ordered=True),
        pd.Categorical([1, None, 2], ordered=True),
        pl.Series(["low", None, "mid"], dtype=pl.Enum(LEVELS)),
        pl.Series([1, None, 2]),
        [pd.NaT, np.float32("nan")],
    ],
    ids=repr,
)
@pytest.mark.parametrize("categories", [None, LEVELS])
def test_a_missing_label_is_named_by_its_row(y, categories):
    row = 0 if len(y) == 2 else 1
    with pytest.raises(ValueError, match=rf"y must not have missing values, but row {row} is"):
        encode_levels(y, categories)


@pytest.mark.parametrize("container", [list, np.array, pd.Series, pl.Series])
def test_an_infinite_label_is_named_by_its_row(container):
    with pytest.raises(ValueError, match="y must be finite, but row 2 is inf"):
        encode_levels(container([1.0, 2.0, np.inf]))


def test_mixed_strings_and_numbers_raise():
    with pytest.raises(ValueError, match=r"y mixes strings with others \('low', 2\)"):
        encode_levels(["low", 2])


def test_a_value_outside_categories_is_named_by_its_first_row():
    with pytest.raises(ValueError, match=r"\['low', 'mid', 'high'\].*row 1 is 'hihg'.*\(2 in all"):
        encode_levels(["low", "hihg", "mid", "top"], LEVELS)
    with pytest.raises(ValueError, match=r"\['1', '2'\], but row 0 is 1\."):
        encode_levels([1, 2], ["1", "2"])


@pytest.mark.parametrize(
    ("categories", "message"),
    [
        (["low", "mid", "low"], "name each level once, but repeats 'low'"),
        ([1, 2, 1.0], "repeats 1"),
        (["low"], r"at least 2 levels, but has 1 \('low'\)"),
        ([], "at least 2 levels, but has 0"),
        (["low", None], "categories must not have missing values, but row 1 is None"),
        (["low", 1], "categories mixes strings"),
        ("low", "a list of levels from lowest to highest.*'low' was given"),
        ({"low", "mid"}, "a list of levels"),
        ([["low"], ["mid"]], "a list of levels"),
    ],
)
def test_bad_categories_raise(categories, message):
    with pytest.raises(ValueError, match=message):
        encode_levels(["low", "mid"], categories)


@pytest.mark.parametrize(
    ("y", "categories"), [(np.ones(10), None), ([1], None), (["low"] * 3, LEVELS), ([], None)]
)
def test_a_single_class_raises(y, categories):
    with pytest.raises(ValueError, match=r"y has [01] class(es)? \(.*at least 2 classes"):
        encode_levels(y, categories)


def test_a_continuous_target_raises_unless_its_values_are_named():
    y = np.random.default_rng(0).normal(size=20)
    with pytest.raises(ValueError, match=r"^Unknown label type: continuous.*20 different.*Cut"):
        encode_levels(y)
    assert_array_equal(encode_levels(y, np.sort(y)).codes, np.argsort(np.argsort(y)))


@pytest.mark.parametrize("y", [np.arange(1, 21) / 2, [0.1, 0.2, 0.7] * 4, [0.1, 0.7], range(20)])
def test_steps_and_repeated_fractions_are_levels(y):
    assert_levels(encode_levels(y), y, np.unique(y))


def test_a_column_warns_and_a_table_raises():
    with pytest.warns(DataConversionWarning, match="column-vector y was passed"):
        assert_array_equal(encode_levels(np.array([[2], [1]])).codes, [1, 0])
    with pytest.raises(ValueError, match="y should be a 1d array"):
        encode_levels(np.ones((3, 2)))
    with pytest.raises(ValueError, match="y should be a 1d array"):
        encode_levels(None)


def test_labels_are_left_as_they_were():
    y = np.array([2, 1, 3])
    encode_levels(y, [3, 2, 1])
    assert_array_equal(y, [2, 1, 3])


def test_class_positions_lead_from_sorted_to_ranked():
    levels = encode_levels(["low", "high"], LEVELS)
    places = class_positions(levels.categories, levels.classes)
    assert_array_equal(levels.categories[places], levels.classes)
    assert_array_equal(class_positions(np.array(LEVELS), np.array(["top", "mid"])), [-1, 1])


def test_weights_default_to_ones_and_are_copied():
    assert_array_equal(check_weights(None, 3), np.ones(3))
    assert_array_equal(check_weights(2, 3), [2.0, 2.0, 2.0])
    given_weights = np.array([1.0, 0.0])
    checked = check_weights(given_weights, 2)
    checked[0] = 9
    assert_array_equal(given_weights, [1.0, 0.0])


@pytest.mark.parametrize("container", [list, pd.Series, pl.Series])
def test_weights_may_come_in_any_column(container):
    assert_array_equal(check_weights(container([1, 2]), 2), [1.0, 2.0])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2, 3], r"shape \(2,\), one weight for each row, but has shape \(3,\)"),
        (np.ones((2, 1)), r"but has shape \(2, 1\)"),
        ([1, np.nan], "finite and not negative, but row 1 is nan"),
        ([np.inf, 1], "row 0 is inf"),
        ([1, -0.5], r"row 1 is -0\.5\. Use 0"),
        ([0, 0], "sample_weight is zero for every row"),
        (0, "sample_weight is zero for every row"),
    ],
)
def test_bad_weights_raise(weights, message):
    with pytest.raises(ValueError, match=message):
        check_weights(weights, 2)


def test_kernels_pass():
    for kernel in (RBF(1.0), 2.0 * RBF([1.0, 2.0]) + 1.0, PairwiseKernel()):
        check_kernel(kernel)


@pytest.mark.parametrize(
    ("kernel", "shown"),
    [
        (RBF, "the class RBF"),
        ("rbf", "'rbf'"),
        (1.0, r"1\.0"),
        (None, "None"),
        (CompoundKernel([RBF(1.0)]), "CompoundKernel"),
    ],
)
def test_what_is_no_kernel_raises(kernel, shown):
    with pytest.raises(TypeError, match=rf"kernel object, but .*{shown}.* given.*RBF\(1\.0\)"):
        check_kernel(kernel)


def test_options_pass_and_others_get_a_suggestion():
    allowed = ("ep", "laplace")
    check_option("inference", "ep", allowed)
    with pytest.raises(
        ValueError,
        match=r"inference must be one of 'ep', 'laplace', but 'Laplce' .*Did you mean 'laplace'\?",
    ):
        check_option("inference", "Laplce", allowed)
    with pytest.raises(ValueError, match=r"but 'mcmc' was given\.$"):
        check_option("inference", "mcmc", allowed)


@pytest.mark.parametrize("value", [None, 3, ["ep"], np.array(["ep", "laplace"])])
def test_an_option_that_is_no_word_raises(value):
    with pytest.raises(ValueError, match="inference must be one of"):
        check_option("inference", value, ("ep", "laplace"))


def test_memory_is_checked_before_it_is_taken(monkeypatch):
    monkeypatch.setattr(_validation, "available_memory", lambda: 8 * 8 * 1000**2)
    check_memory(1000)
    check_memory(2000, n_matrices=2)
    with pytest.raises(
        MemoryError, match=r"2000 rows need about 0\.3 GB .* 0\.1 GB is free.* at most 1000 rows"
    ):
        check_memory(2000)


def test_memory_is_not_checked_where_the_system_does_not_tell(monkeypatch):
    monkeypatch.setattr(_validation, "available_memory", lambda: None)
    check_memory(10**9)


def test_this_machine_has_room_for_a_small_matrix_but_not_for_a_huge_one():
    check_memory(10)
    if available_memory() is not None:
        with pytest.raises(MemoryError, match="subsample"):
            check_memory(10**8)


def test_memory_falls_back_to_free_pages_and_then_to_unknown(monkeypatch):
    def no_file(*args, **kwargs):
        raise FileNotFoundError

    monkeypatch.setattr(_validation.Path, "read_text", no_file)
    monkeypatch.setattr(
        _validation.os,
        "sysconf",
        {"SC_AVPHYS_PAGES": 10, "SC_PAGE_SIZE": 4096}.get,
        raising=False,
    )
    assert available_memory() == 40960
    monkeypatch.delattr(_validation.os, "sysconf")
    assert available_memory() is None


STAMPS = 1_600_000_000 + 61 * np.arange(4800)


@pytest.mark.parametrize("y", [STAMPS, STAMPS.astype(float), np.arange(51), np.arange(51) / 2])
def test_more_than_fifty_unnamed_levels_are_shown(y):
    n, low, high = f"{len(y):,}", re.escape(str(y[0])), re.escape(str(y[-1]))
    with pytest.raises(ValueError, match=rf"target has {n} different values, from {low} to {high}"):
        encode_levels(y, name="target")
    for advice in (r"cut_levels\(y, 5\)", "--cut 5", r"name them all by categories=\[...\]"):
        with pytest.raises(ValueError, match=advice):
            encode_levels(y)


def test_many_levels_can_be_named():
    y = np.arange(60)
    assert len(encode_levels(y, y).categories) == 60
    assert len(encode_levels(pd.Series(pd.Categorical(y, ordered=True))).categories) == 60
    assert len(encode_levels(np.arange(50)).categories) == 50
