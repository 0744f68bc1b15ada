"""What strangers pass: a finite answer, or an error that says what was given and what to do."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from ordinalgp import (
    CollaborativeOrdinalGP,
    IncrementalOrdinalSVC,
    KernelDiscriminantOrdinal,
    LeastSquaresOrdinalClassifier,
    OrdinalGPClassifier,
    OrdinalSVC,
    PreferenceGP,
    SequentialOrdinalGP,
    StackedOrdinalGP,
)
from ordinalgp.datasets import make_product_ranks, make_ratings, make_three_ranks
from ordinalgp.kernels import ARDLinear

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.digitize(X[:, 0] + 0.3 * RNG.normal(size=40), [-0.7, 0.7])
MODELS = {
    "ep": OrdinalGPClassifier(optimizer=None),
    "laplace": OrdinalGPClassifier(inference="laplace", optimizer=None),
    "points": OrdinalGPClassifier(inducing=5, optimizer=None),
    "sequential": SequentialOrdinalGP(optimizer=None),
    "stacked": StackedOrdinalGP(
        {"a": OrdinalGPClassifier(optimizer=None), "b": SequentialOrdinalGP(optimizer=None)}
    ),
    "least squares": LeastSquaresOrdinalClassifier(optimizer=None),
    "svm": OrdinalSVC(),
    "incremental svm": IncrementalOrdinalSVC(random_state=0),
    "discriminant": KernelDiscriminantOrdinal(),
}


def frozen(values):
    values = values.copy()
    values.setflags(write=False)
    return values


LAYOUTS = {
    "read-only": (frozen(X), frozen(Y)),
    "strided": (np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2], np.repeat(Y, 2)[::2]),
    "backwards": (X[::-1], Y[::-1]),
    "columns first": (np.asfortranarray(X), Y),
    "big-endian": (X.astype(">f8"), Y.astype(">i4")),
    "half precision": (X.astype(np.float16), Y.astype(np.int8)),
    "objects": (X.astype(object), Y.astype(object)),
    "lists": (X.tolist(), Y.tolist()),
    "booleans": (X > 0, Y > 0),
}
ROWS = {
    "a row per level": (X[:6], np.arange(6)),
    "fifty levels": (np.linspace(-2, 2, 100)[:, None], np.repeat(np.arange(50), 2)),
    "a constant column": (np.column_stack([X, np.full(40, 7.0)]), Y),
    "far from zero": (X + 1e9, Y),
    "more columns than rows": (RNG.normal(size=(8, 200)), np.arange(8) % 3),
}


def assert_sensible(model, rows, labels):
    model.fit(rows, labels)
    assert set(model.predict(rows).tolist()) <= set(np.unique(labels).tolist())
    if hasattr(model, "category_proba"):
        proba = model.category_proba(rows)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        assert np.all(proba >= 0)
    if hasattr(model, "latent_mean_and_variance"):
        mean, var = model.latent_mean_and_variance(rows)
        assert np.all(np.isfinite(mean))
        assert np.all(np.isfinite(var) & (var >= 0))
    elif not hasattr(model, "category_proba"):
        assert np.all(np.isfinite(model.latent(rows)))


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param].__class__(**MODELS[request.param].get_params())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_of_arrays(layout):
    """Inputs are read by one function for all models, so that one model stands for them."""
    assert_sensible(OrdinalGPClassifier(optimizer=None), *LAYOUTS[layout])


@pytest.mark.parametrize("rows", ROWS)
def test_every_kind_of_rows(model, rows):
    assert_sensible(model, *ROWS[rows])


# ---------------------------------------------------------------------- far from standardised


@pytest.mark.parametrize("scale", [1e-140, 1e-10, 1e5, 1e10, 1e140])
@pytest.mark.parametrize("name", ["ep", "laplace", "points", "least squares"])
def test_the_default_kernel_learns_at_any_scale(name, scale):
    options = {"optimizer": "fmin_l_bfgs_b"} | ({"inducing": 12} if name == "points" else {})
    fits = [MODELS[name].__class__(**MODELS[name].get_params()) for _ in range(2)]
    plain, scaled = (model.set_params(**options) for model in fits)
    proba = plain.fit(X, Y).category_proba(X)
    np.testing.assert_allclose(scaled.fit(scale * X, Y).category_proba(scale * X), proba, atol=0.02)


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e200, 1e307])
@pytest.mark.parametrize("name", ["ep", "laplace", "points", "least squares"])
def test_inputs_whose_squares_are_no_numbers(name, scale):
    model = MODELS[name].__class__(**MODELS[name].get_params())
    with pytest.raises(ValueError, match=r"standard deviation of about .* Standardise"):
        model.fit(scale * X, Y)


@pytest.mark.parametrize("name", ["svm", "incremental svm"])
@pytest.mark.parametrize("scale", [0.0, 1e-200, 1e200])
def test_baselines_stay_finite(name, scale):
    assert_sensible(MODELS[name].__class__(), scale * X, Y)


@pytest.mark.parametrize("kernel", [None, ARDLinear(np.ones(3))])
@pytest.mark.parametrize("scale", [0.0, 1e-200])
def test_levels_with_the_same_inputs_get_the_median_level(kernel, scale):
    model = KernelDiscriminantOrdinal(kernel)
    with pytest.warns(UserWarning, match="No direction was found"):
        assert_sensible(model, scale * X, Y)
    np.testing.assert_array_equal(model.predict(scale * X), int(np.median(Y)))
    assert model.separation_ == 0.0


def test_levels_out_of_order_along_a_line():
    x, y = np.array([[0.0], [0.1], [2.0], [2.1], [1.0], [1.1]]), np.array([0, 0, 1, 1, 2, 2])
    with pytest.warns(UserWarning, match="Join such levels"):
        KernelDiscriminantOrdinal(ARDLinear([1.0])).fit(x, y)
    right = KernelDiscriminantOrdinal(ARDLinear([1.0])).fit(x, [0, 0, 2, 2, 1, 1])
    np.testing.assert_array_equal(right.predict(x), [0, 0, 2, 2, 1, 1])


# ----------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.full(40, 1e200), "counts copies of rows, but sums to"),
        (["much"] * 40, "must hold numbers"),
        (np.full(40, np.inf), "finite and not negative, but row 0 is inf"),
        (np.zeros(40), "zero for every row"),
    ],
)
def test_weights(model, weights, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y, sample_weight=weights)


def test_scores_take_the_same_weights(model):
    model.fit(X, Y)
    with pytest.raises(ValueError, match="zero for every row"):
        model.score(X, Y, sample_weight=np.zeros(40))
    some = (Y == 1).astype(float)
    assert model.score(X, Y, some) == np.mean(model.predict(X[Y == 1]) == 1)


def test_iterators(model):
    with pytest.raises(TypeError):
        model.fit((row for row in X), Y)
    with pytest.raises(TypeError, match="is a list_iterator, which can be read only once"):
        model.set_params(**({"inducing": 5} if "inducing" in model.get_params() else {})).fit(
            iter(X.tolist()), Y
        )


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (OrdinalGPClassifier(n_restarts_optimizer=1.5), "n_restarts_optimizer must be a whole"),
        (OrdinalGPClassifier(max_sweeps=2.5), "max_sweeps must be a whole number"),
        (OrdinalGPClassifier(inducing=2.5), "inducing must be a whole number, but is 2.5"),
        (OrdinalGPClassifier(decision="best"), "decision rule must be one of 'mode'"),
        (OrdinalSVC(rank=2.5), "rank must be a whole number"),
        (OrdinalSVC(C=np.inf), "C must be a number above 0, and finite"),
        (KernelDiscriminantOrdinal(regularization=np.inf), "above 0, and finite"),
    ],
)
def test_parameters(made, message):
    with pytest.raises(ValueError, match=message):
        made.fit(X, Y)


def test_hyperparameters_that_are_no_numbers():
    fitted = OrdinalGPClassifier(optimizer=None).fit(X, Y)
    with pytest.raises(ValueError, match=r"theta must be finite, but is \[nan"):
        fitted.log_marginal_likelihood(np.full(4, np.nan))


def test_a_new_level_is_named_by_its_own_row():
    fitted = OrdinalGPClassifier(optimizer=None).fit(X, Y)
    with pytest.raises(ValueError, match="but row 1 is 7"):
        fitted.partial_fit(X[:3], [0, 7, 7])
    assert fitted.partial_fit(X[:3], [1, 1, 1]).categories_.tolist() == [0, 1, 2]


def test_raters():
    raters, items, stars = ["a", "a", "b", "b"], ["x", "y", "x", "y"], [1, 2, 2, 3]
    with pytest.raises(ValueError, match="max_iter must be a whole number"):
        CollaborativeOrdinalGP(max_iter=1.5).fit(raters, items, stars)
    with pytest.raises(ValueError, match="as many for each item as for all others"):
        CollaborativeOrdinalGP(RBF()).fit(raters, items, stars, {"x": [0.0], "y": [0.0, 1.0]})
    fitted = CollaborativeOrdinalGP(max_iter=1, tol=10.0).fit(raters, items, stars)
    with pytest.raises(ValueError, match="n must be a number of at least 0"):
        fitted.recommend("a", n=-1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_three_ranks(0), "n_samples must be a number of at least 1"),
        (lambda: make_three_ranks(2.5), "n_samples must be a whole number"),
        (lambda: make_product_ranks(5, noise=-1.0), "noise must be a number of at least 0"),
        (lambda: make_ratings(5, 5, n_levels=1), "n_levels must be a number of at least 2"),
        (lambda: make_ratings(0, 5), "n_raters must be a number of at least 1"),
    ],
)
def test_generators(make, message):
    with pytest.raises(ValueError, match=message):
        make()


NO_INPUTS = {
    "infinite and missing": ([[1.0], [np.inf], [None]], [0, 1, 2], "Input X contains (NaN|inf)"),
    "one row of these": ([1, np.inf, None], [0, 1, 2], "Expected 2D array, got 1D array"),
    "infinite": ([[1.0], [np.inf], [2.0]], [0, 1, 2], "Input X contains infinity"),
    "no rows": (np.empty((0, 2)), [], r"Found array with 0 sample\(s\)"),
    "no columns": (np.empty((3, 0)), [0, 1, 2], r"Found array with 0 feature\(s\)"),
    "words": ([["a"], ["b"], ["c"]], [0, 1, 2], "could not convert string to float"),
}


@pytest.mark.parametrize("kind", NO_INPUTS)
def test_what_is_no_table_of_numbers_is_refused(model, kind):
    rows, labels, message = NO_INPUTS[kind]
    with pytest.raises(ValueError, match=message):
        model.fit(rows, labels)
    model.fit(X[:, :1], Y)
    with pytest.raises(ValueError, match=message):
        model.predict(rows)


def test_time_stamps_are_no_levels(model):
    stamps = 1_600_000_000 + 60 * np.arange(60)
    with pytest.raises(ValueError, match=r"y has 60 different values.*cut_levels\(y, 5\)"):
        model.fit(np.arange(60.0)[:, None], stamps)


def test_time_stamps_are_no_ratings():
    stamps = 1_600_000_000 + 60 * np.arange(60)
    with pytest.raises(ValueError, match="ratings has 60 different values"):
        CollaborativeOrdinalGP().fit(np.arange(60) % 3, np.arange(60) % 20, stamps)
    with pytest.raises(ValueError, match="outcomes must be among"):
        PreferenceGP().fit(X, np.arange(40).reshape(20, 2), stamps[:20])
