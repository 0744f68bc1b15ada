"""``TableModel`` as a classifier of scikit-learn, on frames with gaps, rare and new values."""

import datetime as dt
import pickle
import warnings

import numpy as np
import pytest
import sklearn
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    parametrize_with_checks,
)
from tests.table_cases import LEVELS, encoded, school

import ordinalgp
from ordinalgp import (
    OrdinalGPClassifier,
    SparseBayesOrdinalClassifier,
    StackedOrdinalGP,
    plots,
)
from ordinalgp.tables import TableModel
from ordinalgp.tables.cells import BadInput

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

NEW = "X has values that training did not have"


def quick(**options):
    """A model without a search."""
    return TableModel(OrdinalGPClassifier(optimizer=None), **options)


def frame(n=48, seed=0):
    """The school as a frame with gaps, a rare value and an ordered column; and grades."""
    columns, grade = school(n, seed)
    X = pd.DataFrame(columns, index=np.arange(n)[::-1])
    X["tutor"] = X["tutor"].astype("category")
    X["size"] = pd.Categorical(np.array(["S", "M", "L"])[grade - 1], ["S", "M", "L"], ordered=True)
    X.loc[X.index[1], "home town"] = "Ulm"  # once: some folds lack it
    return X, grade


# --------------------------------------------------------------------------- the contract

EXPECTED = {
    "check_classifiers_classes": "feeds the strings 'one', 'two', 'three' without an order, and "
    "this model does not guess one",
}


@parametrize_with_checks(
    [TableModel(kernel="rbf")], expected_failed_checks=lambda estimator: EXPECTED
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_columns_are_found_by_name_where_scikit_learn_wants_their_order():
    """Its check of names passes up to the place where it shuffles the columns."""
    with pytest.raises(AssertionError, match="did not raise"):
        check_dataframe_column_names_consistency("TableModel", quick())
    X, y = frame()
    model = quick().fit(X, y)
    assert_array_equal(model.category_proba(X[X.columns[::-1]]), model.category_proba(X))


def test_it_is_a_classifier_of_gaps_and_texts():
    model = TableModel()
    assert is_classifier(model)
    tags = model.__sklearn_tags__().input_tags
    assert (tags.allow_nan, tags.categorical, tags.string) == (True, True, True)


def test_fitted_attributes():
    X, y = frame()
    words = np.array(LEVELS)[y - 1]
    model = quick(categories=LEVELS).fit(X, words)
    assert model.categories_.tolist() == LEVELS
    assert model.classes_.tolist() == sorted(LEVELS)
    assert model.n_features_in_ == 5
    assert model.feature_names_in_.tolist() == list(X.columns)
    in_order = model.category_proba(X)
    assert_allclose(model.predict_proba(X), in_order[:, [LEVELS.index(c) for c in sorted(LEVELS)]])
    assert_allclose(model.predict_log_proba(X), np.log(model.predict_proba(X)))
    assert_array_equal(model.predict(X), np.array(LEVELS)[in_order.argmax(axis=1)])
    assert model.score(X, words) == np.mean(model.predict(X) == words)
    weights = np.arange(48.0)
    expected = np.average(model.predict(X) == words, weights=weights)
    assert_allclose(model.score(X, words, sample_weight=weights), expected)
    assert_array_equal(model.loo_proba(), model.classifier_.loo_proba())
    assert set(model.predict_interval(X, 0.8).ravel()) <= set(LEVELS)
    draws = model.sample_proba(X[:3], 4, random_state=0)
    assert draws.shape == (4, 3, 3)


def test_effects_are_one_per_column():
    X, y = frame()
    found = quick(kernel="additive").fit(X, y).effects(X)
    assert list(found.feature_names) == list(X.columns)
    assert found.mean.shape == (48, 5)


def test_the_decision_is_a_parameter():
    X, y = frame()
    model = quick(decision="median").fit(X, y)
    at_most = np.cumsum(model.category_proba(X), axis=1)
    assert_array_equal(model.predict(X), model.categories_[(at_most < 0.5).sum(axis=1)])
    assert model.classifier_.decision == "median"
    model.set_params(decision="mode")  # as for other classifiers, without another fit
    assert_array_equal(model.predict(X), model.categories_[model.category_proba(X).argmax(axis=1)])


def test_the_classifiers_decision_may_change_after_the_fit():
    X, y = frame()
    model = TableModel(OrdinalGPClassifier(optimizer=None)).fit(X, y)
    highest = np.ones((3, 3))
    highest[:, 2] = 0.0
    assert model.decision_ == "mode"
    model.set_params(classifier__decision=highest)
    assert_array_equal(model.predict(X), np.full(len(X), model.categories_[-1]))


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "categories"])
def test_the_order_of_levels(kind):
    X, y = frame()
    words, order = np.array(LEVELS)[y - 1].tolist(), [*LEVELS, "never"]
    labels = {
        "pandas": pd.Series(pd.Categorical(words, order, ordered=True)),
        "polars": pl.Series(words, dtype=pl.Enum(order)),
        "pyarrow": pa.DictionaryArray.from_arrays(pa.array(y - 1), order, ordered=True),
        "categories": words,
    }
    model = quick(categories=order if kind == "categories" else None)
    model.fit(X, labels[kind])
    assert model.categories_.tolist() == order
    assert_array_equal(model.codes_, y - 1)
    truth = quick(categories=[1, 2, 3, 4]).fit(X, y)
    assert_allclose(model.predict_proba(X), truth.predict_proba(X)[:, [1, 2, 0]], rtol=1e-6)
    assert model.score(X, labels[kind]) == truth.score(X, y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1.0, np.nan, 2.0], "row 1 is nan"),
        ([1, None, 2], r"row 1 is None \(1 missing in all"),
        (["a", None, "b"], "row 1 is None"),
        (pd.Series([1, pd.NA, 2], dtype="Int64"), "must not have missing values, but row 1"),
        (pl.Series([1, None, 2]), "must not have missing values, but row 1"),
        (pd.Series(pd.Categorical(["a", None, "b"], ordered=True)), "but row 1"),
        (pa.array([1, None, 2]), "but row 1"),
        (None, "requires y"),
        ([1, 2], "inconsistent numbers of samples"),
    ],
)
def test_labels_must_be_complete(y, message):
    with pytest.raises(ValueError, match=message):
        quick().fit({"x": [1.0, 2.0, 3.0]}, y)


def test_the_target_is_never_a_feature():
    X, y = frame()
    model = quick(target="grade").fit(X.assign(grade=y), y)
    assert model.feature_names_in_.tolist() == list(X.columns)
    assert_array_equal(model.predict(X), model.predict(X.assign(grade=0)))
    with pytest.raises(BadInput, match="no columns beside the target"):
        quick(target="grade").fit({"grade": y}, y)


def test_names_that_are_no_texts():
    X, y = frame()
    numbered = X.set_axis(range(5), axis=1)
    model = quick(nominal=[1]).fit(numbered, y)
    assert model.encoder_.columns[1].kind == "nominal"
    assert model.feature_names_in_.tolist() == ["0", "1", "2", "3", "4"]
    pairs = X.set_axis(pd.MultiIndex.from_product([["a"], list("uvwxy")]), axis=1)
    model = quick(nominal=[("a", "v")]).fit(pairs, y)
    assert model.encoder_.columns[1].kind == "nominal"
    assert model.predict(pairs).shape == (48,)


# --------------------------------------------------------------------------------- arrays


def test_arrays_and_frames():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 3
    by_place = quick().fit(X, y)
    assert not hasattr(by_place, "feature_names_in_")
    assert by_place.n_features_in_ == 2
    by_name = quick().fit(pd.DataFrame(X, columns=["a", "b"]), y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        found = by_name.category_proba(X)
    assert_array_equal(found, by_place.category_proba(X))
    with pytest.warns(UserWarning, match="fitted without feature names"):
        found = by_place.category_proba(pd.DataFrame(X, columns=["a", "b"]))
    assert_array_equal(found, by_place.category_proba(X))
    for model in (by_place, by_name):
        with pytest.raises(ValueError, match="X has 1 features, but TableModel is expecting 2"):
            model.predict(X[:, :1])
    objects = np.array([["x", 1.0], ["y", None], ["x", 3]], dtype=object)
    assert quick().fit(objects, [1, 2, 3]).encoder_.features == [
        *("x0 = x", "x0 = y", "x0 new"),
        *("x1", "x1 missing"),
    ]


def test_a_saved_model_knows_whether_columns_had_names(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    quick().fit(X, y).save(tmp_path / "m.ogp")
    again = ordinalgp.load(tmp_path / "m.ogp")
    assert not hasattr(again, "feature_names_in_")
    assert again.predict(X).shape == (20,)  # without a warning


# -------------------------------------------------------------------------- new values


def test_a_new_value_is_equally_far_from_all_known_ones():
    table = {"town": ["a", "b", "c", None], "size": [1.0, 2.0, 3.0, 4.0]}
    model = quick().fit(table, [1, 2, 3, 1])
    known = model.encode(table | {"size": [0.0] * 4})
    with pytest.warns(UserWarning, match=r"2 in column town \('d', 'e'\)"):
        new = model.encode({"town": ["d", "e"], "size": [0.0] * 2})
    assert_array_equal(new[0], new[1])
    assert_allclose(((known - new[0]) ** 2).sum(axis=1), 2)
    distances = ((known[:, None] - known) ** 2).sum(axis=2)
    assert_allclose(distances, 2 * (1 - np.eye(4)))


def test_a_new_value_is_equally_far_to_the_kernel_of_columns():
    X, y = frame()
    model = TableModel(kernel="ard").fit(X, y)
    towns = sorted(set(X["home town"]))
    rows = pd.DataFrame({name: X[name].iloc[[0] * 5].tolist() for name in X.columns})
    rows["home town"] = [*towns, "Bonn"]
    with pytest.warns(UserWarning, match=NEW):
        K = model.classifier_.kernel_(model.encode(rows))
    off = K[~np.eye(5, dtype=bool)]
    assert_allclose(off, off[0], rtol=1e-12)


def test_new_values_predict_between_the_known_ones():
    """Of two opposite groups a third is predicted as neither: by the share of each level."""
    town = np.repeat(["a", "b"], 20)
    y = np.repeat([1, 3], 20)
    model = TableModel(OrdinalGPClassifier()).fit({"town": town}, y)
    with pytest.warns(UserWarning, match=NEW):
        p = model.category_proba({"town": ["c"]})[0]
    assert_allclose(p, [0.5, 0.5], atol=1e-3)
    assert model.category_proba({"town": ["a"]})[0, 0] > 0.9


def test_new_values_can_be_an_error():
    X, y = frame()
    model = quick(on_new_values="error").fit(X, y)
    new = X.assign(**{"home town": "Bonn"})[:2]
    with pytest.raises(BadInput, match="row 1, column home town: 'Bonn' did not occur in training"):
        model.predict(new)
    with pytest.raises(BadInput, match="a missing value did not occur in training"):
        model.predict(X.assign(**{"home town": None}))
    with pytest.raises(ValueError, match="on_new_values must be one of 'use', 'error'"):
        quick(on_new_values="stop").fit(X, y)


def test_missing_values_where_training_had_none():
    """New values of nominal columns; the median of numbers."""
    X, y = frame()
    model = quick().fit(X, y)
    new = X.astype({"home town": object})[:3].assign(sleep=np.nan, **{"home town": None})
    with pytest.warns(UserWarning, match=r"3 in column home town \(missing\)"):
        features = model.encode(new)
    at = model.encoder_.features.index
    assert_array_equal(features[:, at("home town new")], 1)
    expected = (np.median(X["sleep"]) - np.mean(X["sleep"])) / np.std(X["sleep"])
    assert_allclose(features[:, at("sleep")], expected)


def test_many_values_of_a_nominal_column():
    """Hundreds of groups, some of them with a single row."""
    rng = np.random.default_rng(0)
    group = np.append(rng.integers(0, 300, 600), 999)
    X = pd.DataFrame({"group": [f"g{k}" for k in group], "x": rng.normal(size=601)})
    model = quick().fit(X, group % 3)
    assert len(model.encoder_.features) == len(set(group)) + 2
    assert model.score(X, group % 3) > 0.9


# ------------------------------------------------------------------------------ weights


def test_a_weight_is_a_number_of_copies_to_the_last_digit():
    X, y = frame()
    weights = np.tile([1, 2, 0, 3], 12)
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(48), weights))
    weighted = quick().fit(X, y, weights)
    copied = quick().fit(X.iloc[rows], y[rows])
    assert weighted.encoder_ == copied.encoder_
    assert_array_equal(weighted.level_counts_, copied.level_counts_)
    assert_allclose(weighted.spread_, copied.spread_, rtol=1e-12)
    kept = X[weights > 0]
    assert_allclose(weighted.category_proba(kept), copied.category_proba(kept), rtol=1e-6)


def test_rows_of_weight_zero_have_no_part():
    """Neither their values, nor their gaps, nor the looks of their cells."""
    table = {
        "town": ["a", "b", "a", "b", "c"],
        "size": [1.0, 2.0, 3.0, 4.0, None],
        "code": ["x", "y", "x", "y", "7"],
    }
    model = quick().fit(table, [1, 2, 1, 2, 2], [1, 1, 1, 1, 0])
    assert model.encoder_.features == [
        *("town = a", "town = b", "town new", "size"),
        *("code = x", "code = y", "code new"),
    ]
    assert_allclose(model.encoder_.columns[1].mean, 2.5)
    assert model.loo_proba_.shape == (5, 2)


def test_medians_count_copies():
    """Against numpy, for odd and even numbers of copies."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        values, weights = rng.normal(size=9).round(1), rng.integers(0, 4, 9)
        values[rng.integers(0, 9)] = np.nan
        if np.isnan(np.repeat(values, weights)).all():
            continue
        table = {"x": np.append(values, [0.0, 1.0])}
        weights = np.append(weights, [1, 1])
        model = quick().fit(table, np.arange(11) % 2, weights)
        copies = np.repeat(table["x"], weights)
        (column,) = model.encoder_.columns
        assert column.median == np.nanmedian(copies)
        filled = np.where(np.isnan(copies), column.median, copies)
        assert_allclose([column.mean, column.scale], [filled.mean(), filled.std()], atol=1e-14)
        assert column.missing == np.isnan(copies).sum()


def test_metadata_routing_delivers_the_weights():
    X, y = frame()
    weights = np.tile([1.0, 1.0, 0.0, 2.0], 12)
    train, test = np.arange(32), np.arange(32, 48)
    by_hand = quick().fit(X.iloc[train], y[train], weights[train])
    with sklearn.config_context(enable_metadata_routing=True):
        model = quick().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        found = cross_validate(
            Pipeline([("model", model)]),
            X,
            y,
            params={"sample_weight": weights},
            cv=[(train, test)],
            return_estimator=True,
            error_score="raise",
        )
    (pipeline,) = found["estimator"]
    assert_array_equal(pipeline.predict_proba(X[:5]), by_hand.predict_proba(X[:5]))
    expected = by_hand.score(X.iloc[test], y[test], weights[test])
    assert_allclose(found["test_score"], [expected])


# ------------------------------------------------------------------- tools of scikit-learn


@pytest.fixture
def using_new_values():
    """Folds lack values that others have: this warns, as it should."""
    with pytest.warns(UserWarning, match=NEW):
        yield


FORMS = {
    "pandas": lambda columns: pd.DataFrame(columns, index=range(48, 0, -1)),
    "convert_dtypes": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "pyarrow": lambda columns: pd.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_cross_validation(form, using_new_values):
    """With gaps, and a value that a fold lacks; against a loop that encodes by hand."""
    columns, y = school()
    columns["home town"][1] = "Ulm"
    X, folds = form(columns), KFold(3)
    scores = cross_val_score(quick(), X, y, cv=folds, error_score="raise")
    p = cross_val_predict(quick(), X, y, cv=folds, method="predict_proba")
    for (train, test), score in zip(folds.split(y), scores, strict=True):
        seen, new = ({k: [v[i] for i in at] for k, v in columns.items()} for at in (train, test))
        truth = OrdinalGPClassifier(optimizer=None).fit(encoded(seen), y[train])
        assert_allclose(p[test], truth.predict_proba(encoded(new, train=seen)), rtol=1e-6)
        assert score == truth.score(encoded(new, train=seen), y[test])


def test_cross_validated_probabilities_keep_the_order_of_named_levels():
    """scikit-learn replaces words by their places in the alphabet there."""
    X, y = frame()
    X, words = X[["hours", "tutor"]], np.array(LEVELS)[y - 1]
    truth = cross_val_predict(quick(), X, y, cv=3, method="predict_proba")
    with pytest.warns(UserWarning, match="places of the sorted labels"):
        found = cross_val_predict(quick(categories=LEVELS), X, words, cv=3, method="predict_proba")
    assert_allclose(found, truth[:, [1, 2, 0]], rtol=1e-9)


def test_searches_and_pipelines(using_new_values):
    X, y = frame()
    tidy = FunctionTransformer(lambda X: X.drop(columns="sleep"))
    grid = {"model__kernel": ["rbf", "linear"], "model__classifier__inference": ["ep", "laplace"]}
    search = GridSearchCV(
        Pipeline([("tidy", tidy), ("model", quick())]), grid, cv=KFold(3), error_score="raise"
    ).fit(X, y)
    assert search.best_estimator_["model"].feature_names_in_.tolist() == [
        *("hours", "tutor", "home town", "size")
    ]
    assert search.predict(X).shape == (48,)


def test_permutation_importance_finds_the_column():
    X, y = frame()
    found = permutation_importance(quick().fit(X, y), X, y, n_repeats=3, random_state=0)
    assert X.columns[found.importances_mean.argmax()] == "size"


def test_partial_dependence():
    """Numbers with gaps, nominal and ordered columns; averages over rows, by hand."""
    X, y = frame()
    model = quick().fit(X, y)
    found = partial_dependence(model, X, ["sleep"], grid_resolution=5)
    (grid,) = found["grid_values"]
    by_hand = [model.predict_proba(X.assign(sleep=value)).mean(axis=0) for value in grid]
    assert_allclose(found["average"], np.transpose(by_hand))
    found = partial_dependence(model, X, ["home town"], categorical_features=["home town"])
    assert len(found["grid_values"][0]) == 4
    by_hand = [
        model.predict_proba(X.assign(**{"home town": value})).mean(axis=0)
        for value in found["grid_values"][0]
    ]
    assert_allclose(found["average"], np.transpose(by_hand))
    found = partial_dependence(model, X, ["size"], categorical_features=["size"])
    assert found["average"].shape == (3, 3)


def test_partial_dependence_display():
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot
    from sklearn.inspection import PartialDependenceDisplay

    X, y = frame()
    shown = PartialDependenceDisplay.from_estimator(
        quick().fit(X, y),
        X,
        ["sleep", "home town"],
        categorical_features=["home town"],
        target=3,
        grid_resolution=4,
    )
    assert len(shown.axes_.ravel()) >= 2
    pyplot.close("all")


def test_calibration(using_new_values):
    X, y = frame()
    model = CalibratedClassifierCV(quick(), cv=KFold(3, shuffle=True, random_state=1)).fit(X, y)
    p = model.predict_proba(X)
    assert_allclose(p.sum(axis=1), 1)
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("classifier", [None, OrdinalGPClassifier(optimizer=None)])
def test_clones_and_pickles(classifier):
    X, y = frame(24)
    if classifier is None:
        classifier = StackedOrdinalGP({"gp": OrdinalGPClassifier(optimizer=None)})
    model = TableModel(classifier, categories=[1, 2, 3, 4], nominal=["tutor"], decision="mean")
    model.fit(X, y)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))
    unfitted = clone(model)
    assert not hasattr(unfitted, "classes_")
    assert repr(unfitted.get_params()) == repr(model.get_params())
    assert clone(model).set_params(kernel=None, on_new_values="error").on_new_values == "error"


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, y = frame()
    model = quick().fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="no rows"):
        model.fit(X[:0], y[:0])
    with pytest.raises(ValueError, match="missing values"):
        model.fit(X[["sleep"]], np.where(y == 1, np.nan, y))
    assert_array_equal(model.predict_proba(X), before)
    with pytest.raises(BadInput, match="no rows"):
        model.predict(X[:0])


def test_a_reading_of_another_type_is_refused(tmp_path):
    X, y = frame()
    with pytest.raises(ValueError, match="reading must be a Reading or None, but is"):
        quick().set_params(reading=["no"]).fit(X, y)
    model = quick().fit(X, y).set_params(reading=["no"])
    model.save(tmp_path / "model.ogp")
    with pytest.raises(ValueError, match="reading must be a Reading or None"):
        ordinalgp.load(tmp_path / "model.ogp")


# --------------------------------------------------------------------------------- plots


@pytest.fixture
def axes():
    pytest.importorskip("matplotlib").use("agg")
    from ordinalgp.plots.base import file_axes

    return file_axes


DISPLAYS = {
    "calibration": lambda m, X, y, **o: plots.CalibrationDisplay.from_estimator(m, X, y, **o),
    "confusion": lambda m, X, y, **o: plots.ConfusionDisplay.from_estimator(m, X, y, **o),
    "intervals": lambda m, X, y, **o: plots.IntervalDisplay.from_estimator(m, X, y, **o),
    "effects": lambda m, X, y, **o: plots.EffectDisplay.from_estimator(m, X, resolution=5, **o),
    "latent": lambda m, X, y, **o: plots.LatentDisplay.from_estimator(m, X, y, **o),
    "posterior": lambda m, X, y, **o: plots.PosteriorDisplay.from_estimator(
        m, X, y, feature="sleep", **o
    ),
    "contour": lambda m, X, y, **o: plots.ContourDisplay.from_estimator(
        m, X, y, features=("hours", "sleep"), resolution=10, **o
    ),
    "relevance": lambda m, X, y, **o: plots.RelevanceDisplay.from_estimator(m, X, **o),
    "evidence": lambda m, X, y, **o: plots.EvidenceDisplay.from_estimator(m, **o),
}


@pytest.fixture(scope="module")
def half():
    """A model of half of the rows, which lack some values; the other half; and its levels."""
    X, y = frame()
    first = X["home town"] != "Ulm"
    first &= np.arange(48) < 30
    classifier = OrdinalGPClassifier(max_sweeps=20)
    model = TableModel(classifier, kernel="ard").fit(X[first], y[first])
    return model, X[~first], y[~first]


@pytest.mark.filterwarnings(f"ignore:{NEW}:UserWarning")
@pytest.mark.parametrize("form", ["pandas", "convert_dtypes", "arrow types", "polars"])
@pytest.mark.parametrize("draw", DISPLAYS.values(), ids=DISPLAYS)
def test_displays_of_tables_with_gaps_and_new_values(draw, form, half, axes):
    model, X, y = half
    if form == "convert_dtypes":
        X = X.convert_dtypes()
    if form == "arrow types":
        X = X.convert_dtypes(dtype_backend="pyarrow")
    if form == "polars":
        X = pl.DataFrame({name: [None if v != v else v for v in X[name]] for name in X.columns})
    ax = axes()
    draw(model, X, y, ax=ax)
    ax.figure.draw_without_rendering()
    assert any(each.has_data() for each in ax.figure.axes)


def test_slices_of_a_table_are_those_of_the_model(half, axes):
    """Other columns are at their medians and most frequent values; rows with gaps are left out."""
    model, X, y = half
    options = {"features": ("sleep", "hours"), "resolution": 4, "ax": axes()}
    with pytest.warns(UserWarning, match=NEW):
        shown = plots.ContourDisplay.from_estimator(model, X, y, **options)
    cells = {
        "hours": shown.x1.ravel(),
        "sleep": shown.x0.ravel(),
        "tutor": [model.encoder_.columns[2].frequent] * 16,
        "home town": [model.encoder_.columns[3].frequent] * 16,
        "size": [model.encoder_.columns[4].typical] * 16,
    }
    mean, _ = model.latent_mean_and_variance(cells)
    assert_array_equal(shown.mean.ravel(), mean)
    known = ~X["hours"].isna()
    assert_allclose(shown.points, X.loc[known, ["sleep", "hours"]], rtol=1e-11)
    assert_array_equal(shown.codes, y[known] - 1)
    with (
        pytest.warns(UserWarning, match=NEW),
        pytest.raises(ValueError, match=r"'tutor' has none\. Choose from hours, sleep"),
    ):
        plots.PosteriorDisplay.from_estimator(model, X, y, feature="tutor")


def test_relevance_is_shown_by_column(half, axes):
    model, X, _ = half
    with pytest.warns(UserWarning, match=NEW):
        shown = plots.RelevanceDisplay.from_estimator(model, X, ax=axes())
    assert shown.names == list(X.columns)
    assert_allclose(shown.shares.sum(), 1)


def test_relevance_vectors_are_shown_in_the_units_of_the_table(axes):
    X, y = frame()
    classifier = SparseBayesOrdinalClassifier("gaussian", random_state=0)
    model = TableModel(classifier).fit(X, y)
    options = {"features": ("sleep", "hours"), "resolution": 5, "ax": axes()}
    shown = plots.RelevanceVectorsDisplay.from_estimator(model, X, y, **options)
    assert np.isin(shown.vectors[:, 0].round(6), X["sleep"].to_numpy().round(6)).all()


# --------------------------------------------------------------------------- any columns

N = 12
COLUMNS = {
    "numbers": st.one_of(st.none(), st.floats(), st.sampled_from([1e308, -1e308, 5e-324, 1, 2])),
    "texts": st.sampled_from(["a", "b", " ", "NA", "1", "2.5", "é", None, "inf"]),
    "flags": st.sampled_from([True, False, None]),
    "dates": st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)),
    "anything": st.one_of(st.none(), st.text(max_size=3), st.integers(), st.booleans()),
}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    columns=st.lists(
        st.sampled_from(sorted(COLUMNS)).flatmap(
            lambda kind: st.lists(COLUMNS[kind], min_size=N, max_size=N)
        ),
        min_size=1,
        max_size=3,
    ),
    form=st.sampled_from(["pandas", "convert_dtypes", "arrow types", "categories"]),
    weights=st.sampled_from([None, [0, 1, 2] * 4]),
)
def test_any_columns_give_an_answer_or_a_reason(columns, form, weights):
    """The same answer for a frame as for a dict of its columns."""
    plain = {f"c{i}": cells for i, cells in enumerate(columns)}
    X = pd.DataFrame(plain)
    if form == "convert_dtypes":
        X = X.convert_dtypes()
    if form == "arrow types":
        try:
            X = X.convert_dtypes(dtype_backend="pyarrow")
        except (pa.ArrowException, OverflowError):
            return  # no frame
    if form == "categories":
        X = X.astype("category")
    try:
        model = quick().fit(X, np.arange(N) % 3, weights)
    except BadInput as refused:
        event(str(refused)[:30])
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", NEW)  # in rows of weight zero
        p = model.predict_proba(X)
        assert_allclose(p.sum(axis=1), 1)
        assert_array_equal(model.predict_proba(plain), p)
