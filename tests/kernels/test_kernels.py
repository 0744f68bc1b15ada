"""One contract that every kernel of ours must pass, and the facts particular to each."""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Kernel, Matern, WhiteKernel

from ordinalgp import kernels
from ordinalgp.kernels import (
    Additive,
    ARDLinear,
    Correlation,
    Exponential,
    Independent,
    PerColumn,
    Projected,
)
from ordinalgp.kernels.relevance import ard_weights

MATRIX = np.round(np.random.default_rng(7).normal(size=(5, 3)), 3)
CASES = {
    "linear": ARDLinear(0.5),
    "linear-array-of-one": ARDLinear([0.5]),
    "linear-ard": ARDLinear([0.5, 2.0, 0.25, 1.0, 4.0], (1e-3, 1e3)),
    "linear-fixed": ARDLinear([0.5, 2.0, 0.25, 1.0, 4.0], "fixed"),
    "correlation": Correlation(),
    "independent": Independent(),
    "additive": Additive(0.7),
    "additive-groups": Additive(2.0, (1e-2, 1e2), size=5),
    "additive-fixed": Additive(0.7, "fixed"),
    "additive-ard": Additive([0.5, 2.0, 0.25, 1.0, 4.0], (1e-3, 1e3)),
    "additive-groups-ard": Additive([0.5, 2.0, 0.25, 1.0, 4.0], size=5),
    "exponential": Exponential(3.0),
    "exponential-array-of-one": Exponential([3.0]),
    "exponential-ard": Exponential(np.array([5.0, 2.0, 2.5, 1.0, 4.0])),
    "exponential-fixed": Exponential(3.0, "fixed"),
    "per-column": PerColumn(Exponential([3.0, 1.0, 2.0]), [0, 1, 1, 1, 2]),
    "per-column-shared": PerColumn(Additive(0.8), [0, 1, 1, 1, 2]),
    "per-column-fixed": PerColumn(Additive([0.8, 1.0, 2.0], "fixed"), [0, 1, 1, 1, 2]),
    "per-column-array": PerColumn(Exponential([3.0, 1.0]), np.array([1, 0, 1, 0, 0])),
    "per-column-sum": PerColumn(
        4.0 * Additive([0.8, 1.0, 2.0]) + Exponential(2.0) ** 2, [0, 1, 1, 1, 2]
    ),
    "projected": Projected(Exponential([3.0, 1.0, 2.0]), MATRIX),
    "projected-fixed": Projected(Additive(0.8, "fixed"), MATRIX.tolist()),
}
GAPPY = np.array(
    [
        [1.0, 2.0, np.nan, 4.0, 5.0],
        [np.nan, 3.0, 3.0, 1.0, np.nan],
        [2.0, 2.0, 2.0, 2.0, 2.0],
        [np.nan, np.nan, np.nan, np.nan, np.nan],
        [np.nan, 4.0, np.nan, np.nan, np.nan],
        [5.0, 4.0, 1.0, 3.0, 2.0],
    ]
)


@pytest.fixture(params=CASES)
def kernel(request):
    return CASES[request.param]


@pytest.fixture
def X(kernel):
    rng = np.random.default_rng(0)
    return GAPPY if isinstance(kernel, Correlation) else rng.normal(size=(6, 5))


def test_no_kernel_is_forgotten():
    public = {getattr(kernels, name) for name in kernels.__all__}
    assert public == {type(kernel) for kernel in CASES.values()}
    defined = {c for _, c in inspect.getmembers(kernels, inspect.isclass) if issubclass(c, Kernel)}
    assert public == {c for c in defined if not inspect.isabstract(c)}


def test_symmetric_and_positive_semi_definite(kernel, X):
    K = kernel(X)
    assert K.shape == (6, 6)
    assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-12 * np.trace(K)


def test_diagonal_and_cross_matrix_agree(kernel, X):
    assert_allclose(kernel.diag(X), np.diag(kernel(X)), rtol=1e-12, atol=1e-15)
    assert_allclose(kernel(X, X[:2]), kernel(X)[:, :2], rtol=1e-12, atol=1e-15)
    assert_allclose(kernel(X.tolist()), kernel(X))


def test_gradient_is_the_slope_in_theta(kernel, X):
    K, gradient = kernel(X, eval_gradient=True)
    assert_array_equal(K, kernel(X))
    assert gradient.shape == (6, 6, kernel.n_dims)
    for p, step in enumerate(1e-5 * np.eye(kernel.n_dims)):
        up, down = (kernel.clone_with_theta(kernel.theta + s)(X) for s in (step, -step))
        assert_allclose(gradient[..., p], (up - down) / 2e-5, rtol=1e-6, atol=1e-9)


def test_no_gradient_between_two_sets(kernel, X):
    with pytest.raises(ValueError, match="Leave out Y"):
        kernel(X, X, eval_gradient=True)


def test_clone_theta_and_bounds(kernel, X):
    copy = clone(kernel)
    assert copy == kernel
    assert copy is not kernel
    assert kernel.bounds.shape == ((kernel.n_dims, 2) if kernel.n_dims else (0,))
    same = kernel.clone_with_theta(kernel.theta)
    assert_allclose(same(X), kernel(X))
    assert_allclose(same.theta, kernel.theta)


def test_repr_evaluates_to_the_kernel(kernel, X):
    again = eval(repr(kernel), {name: getattr(kernels, name) for name in kernels.__all__})
    assert type(again) is type(kernel)
    assert_allclose(again(X), kernel(X))


def test_arithmetic(kernel, X):
    combined = (2.0 * kernel + WhiteKernel(0.5)) ** 2
    assert_allclose(combined(X), (2.0 * kernel(X) + 0.5 * np.eye(6)) ** 2)
    assert combined.theta.shape == (kernel.n_dims + 2,)
    assert combined.bounds.shape == (kernel.n_dims + 2, 2)
    assert (
        combined.is_stationary()
        == kernel.is_stationary()
        == isinstance(kernel, (Additive, Exponential, Independent, PerColumn, Projected))
    )
    assert (kernel * kernel)(X).shape == (6, 6)


# -- ARDLinear ------------------------------------------------------------------------------------


def test_linear_is_the_weighted_inner_product():
    X, Y = np.random.default_rng(1).normal(size=(2, 4, 3))
    relevance = np.array([0.5, 0.0, 3.0])
    assert_allclose(ARDLinear(relevance)(X, Y), X @ np.diag(relevance) @ Y.T)
    assert_allclose(ARDLinear(2.0)(X, Y), 2.0 * X @ Y.T)


def test_linear_one_bound_per_feature():
    kernel = ARDLinear([1.0, 2.0], [(0.1, 10.0), (1.0, 5.0)])
    assert_allclose(np.exp(kernel.bounds), [(0.1, 10.0), (1.0, 5.0)])


@pytest.mark.parametrize("d", [1, 3])
def test_linear_wrong_number_of_features(d):
    with pytest.raises(ValueError, match=f"relevance has 2 values, but X has {d} features"):
        ARDLinear([1.0, 2.0])(np.zeros((4, d)))


@pytest.mark.filterwarnings("ignore:The optimal value found")  # an idle feature leaves the model
def test_linear_fits_in_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    kernel = ARDLinear(np.ones(3), (1e-9, 1e3)) + WhiteKernel(0.1)
    fitted = GaussianProcessRegressor(kernel).fit(X, y).kernel_
    assert fitted.k1.relevance[0] > 100 * fitted.k1.relevance[1:].max()


# -- Correlation ----------------------------------------------------------------------------------


def test_correlation_without_gaps_is_pearsons():
    X = np.random.default_rng(2).integers(1, 6, size=(8, 30)).astype(float)
    assert_allclose(Correlation()(X), np.corrcoef(X), atol=1e-14)


def test_correlation_with_gaps_is_the_sum_over_z_scores():
    rows = GAPPY[[0, 1, 5]]
    z = (rows - np.nanmean(rows, axis=1)[:, None]) / np.nanstd(rows, axis=1)[:, None]
    z[np.isnan(z)] = 0.0
    seen = np.sum(~np.isnan(rows), axis=1)
    assert_allclose(Correlation()(rows), z @ z.T / np.sqrt(np.outer(seen, seen)), atol=1e-15)


def test_correlation_of_rows_without_variance_is_zero():
    K = Correlation()(GAPPY)
    assert_array_equal(K[2:5], 0.0)
    assert_allclose(np.diag(K), [1, 1, 0, 0, 0, 1])
    tenths = np.full((2, 7), 0.1)  # whose mean is not 0.1 in floating point
    assert_array_equal(Correlation()(tenths), 0.0)


def test_correlation_ignores_units_of_a_row():
    rows = GAPPY[[0, 1, 5]]
    units = np.array([[1e-6], [1.0], [1e6]])
    shifts = np.array([[-3.0], [0.0], [1e8]])
    assert_allclose(Correlation()(rows * units + shifts), Correlation()(rows), atol=1e-9)


@given(arrays(float, (5, 4), elements=st.sampled_from([np.nan, 0.5, 1.0, 2.0, 5.0, 1e6])))
def test_correlation_is_finite_bounded_and_positive(X):
    K = Correlation()(X)
    assert np.all(np.abs(K) <= 1 + 1e-12)  # and so not nan
    assert np.linalg.eigvalsh(K).min() > -1e-12
    assert_allclose(np.diag(K), [len(set(row[~np.isnan(row)])) > 1 for row in X])


def test_correlation_knows_one_way_to_fill_gaps():
    with pytest.raises(ValueError, match="missing is 'median', but only 'mean' is known"):
        Correlation(missing="median")(GAPPY)


def test_independent_rows_remember_themselves():
    X = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 1.0]])
    K = Independent()(X)
    assert_array_equal(K, [[1, 0, 1], [0, 1, 0], [1, 0, 1]])
    assert_array_equal(Independent()(X, X[1:]), K[:, 1:])  # where WhiteKernel would forget
    assert_array_equal(Independent().diag(X), np.ones(3))
    assert Independent()(X, eval_gradient=True)[1].shape == (3, 3, 0)
    assert Independent().is_stationary()
    both = 2.0 * Independent() + 1.0
    assert_array_equal(both.clone_with_theta(both.theta)(X), 2 * K + 1)


# -- Additive -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3])
def test_additive_is_the_mean_of_gaussian_kernels(size):
    X, Y = np.random.default_rng(0).normal(size=(2, 7, 6))
    parts = [slice(i, i + size) for i in range(0, 6, size)]
    expected = np.mean([RBF(0.8)(X[:, g], Y[:, g]) for g in parts], axis=0)
    assert_allclose(Additive(0.8, size=size)(X, Y), expected)


def test_additive_functions_are_added():
    """What two features do together is unknown to it: the mixed difference has no variance."""
    square = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    mixed = np.array([1.0, -1.0, -1.0, 1.0])
    assert_allclose(mixed @ Additive()(square) @ mixed, 0, atol=1e-15)
    assert mixed @ RBF()(square) @ mixed > 0.5


def test_additive_groups_must_fit():
    with pytest.raises(ValueError, match="size is 2, but X has 3 features"):
        Additive(size=2)(np.zeros((4, 3)))
    for size in (0, -1, 1.5):
        with pytest.raises(ValueError, match="size must be a whole number from 1 on, but is"):
            Additive(size=size)(np.zeros((4, 3)))


# -- Exponential ----------------------------------------------------------------------------------


def test_exponential_is_the_product_over_features():
    X, Y = np.random.default_rng(0).normal(size=(2, 7, 3))
    parts = [Matern(0.8, nu=0.5)(X[:, [i]], Y[:, [i]]) for i in range(3)]
    assert_allclose(Exponential(0.8)(X, Y), np.prod(parts, axis=0))


def test_exponential_functions_have_kinks():
    """A step to either side changes the function by the square root of the step, not by it."""
    steps = np.array([1e-2, 1e-4, 1e-6])
    far = Exponential()(np.zeros((1, 1)), steps[:, None])[0]
    assert_allclose(2 - 2 * far, 2 * steps, rtol=0.01)  # the variance of the difference


@pytest.mark.parametrize("kind", [Additive, Exponential])
def test_a_length_scale_per_feature_divides_it(kind):
    X, scales = np.random.default_rng(0).normal(size=(7, 3)), np.array([0.5, 2.0, 8.0])
    kernel = kind(scales, [(0.1, 10.0), (1.0, 5.0), (1.0, 9.0)])
    assert kernel.anisotropic
    assert_allclose(kernel(X), kind(1.0)(X / scales))
    assert_allclose(np.exp(kernel.bounds), [(0.1, 10.0), (1.0, 5.0), (1.0, 9.0)])
    assert kernel.hyperparameter_length_scale.n_elements == 3
    assert "length_scale=[0.5, 2, 8]" in repr(kernel)
    assert_allclose(ard_weights(2.0 * kernel), scales**-2.0)
    assert ard_weights(2.0 * kind(1.0)) is None


@pytest.mark.parametrize("kind", [Additive, Exponential])
def test_wrong_number_of_length_scales(kind):
    with pytest.raises(ValueError, match="length_scale has 3 values, but X has 2 features"):
        kind([1.0, 2.0, 3.0])(np.zeros((4, 2)))


def test_exponential_stays_finite_at_any_distance():
    X = np.array([[0.0, 1e306], [1e-300, -1e306]])
    assert_array_equal(Exponential(1e-5)(X), np.eye(2))


# -- PerColumn ------------------------------------------------------------------------------------


def town_rows():
    """A number and a nominal column of four towns, of which one occurs in each row."""
    rng = np.random.default_rng(3)
    number, town = rng.normal(size=9), np.array([0, 1, 2, 3, 0, 1, 2, 2, 0])
    return number, town, np.column_stack([number, np.eye(4)[town]])


def test_values_of_a_nominal_column_are_equal_or_not():
    number, town, X = town_rows()
    same, r = town[:, None] == town, np.abs(number[:, None] - number)
    groups, lengths = [0, 1, 1, 1, 1], [0.8, 1.7]
    differ = np.where(same, 0.0, 2 / 1.7**2)
    smooth = np.exp(-0.5 * (r**2 / 0.64 + differ))
    rough = np.exp(-np.sqrt(r**2 / 0.64 + differ))
    steps = np.exp(-(r / 0.8 + np.where(same, 0.0, 2 / 1.7)))
    one_each = (np.exp(-0.5 * r**2 / 0.64) + np.exp(-0.5 * differ)) / 2
    linear = 0.8 * np.outer(number, number) + 1.7 * same
    for kernel, expected in (
        (RBF(lengths), smooth),
        (Matern(lengths, nu=0.5), rough),
        (Exponential(lengths), steps),
        (Additive(lengths), one_each),
        (ARDLinear(lengths), linear),
    ):
        found = PerColumn(kernel, groups)
        assert_allclose(found(X), expected, rtol=1e-12, err_msg=str(kernel))
        assert found.n_dims == 2


def test_the_order_of_a_columns_features_does_not_matter():
    X = town_rows()[2]
    kernel = PerColumn(RBF([0.8, 1.7]) + Additive([1.0, 2.0]), [0, 1, 1, 1, 1])
    mixed = PerColumn(RBF([0.8, 1.7]) + Additive([1.0, 2.0]), [1, 1, 0, 1, 1])
    assert_allclose(mixed(X[:, [3, 1, 0, 4, 2]]), kernel(X), rtol=1e-12)


def test_one_bound_per_column():
    kernel = PerColumn(RBF([0.8, 1.7], [(0.1, 1.0), (0.5, 50.0)]), [0, 1, 1, 1, 1])
    assert_allclose(np.exp(kernel.bounds), [(0.1, 1.0), (0.5, 50.0)])
    assert kernel(town_rows()[2], eval_gradient=True)[1].shape == (9, 9, 2)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([0, 1], r"groups has shape \(2,\), but X has 5 features"),
        ([0, 2, 2, 2, 2], "whole numbers from 0 to the number of columns less 1"),
        ([-1, 0, 0, 0, 0], "whole numbers from 0"),
        ([0.0, 1.0, 1.0, 1.0, 1.0], "whole numbers from 0"),
        (["a", "b", "b", "b", "b"], r"numpy.unique\(names, return_inverse=True\)"),
        ([0, 1, 2, 2, 2], "length_scale has 2 values, but there are 3 columns"),
    ],
)
def test_columns_must_fit(groups, message):
    with pytest.raises(ValueError, match=message):
        PerColumn(RBF([1.0, 2.0]), groups)(town_rows()[2])


def test_functions_of_columns_have_no_size():
    with pytest.raises(ValueError, match="Leave out size"):
        PerColumn(Additive(size=5), [0, 1, 1, 1, 1])(town_rows()[2])


def test_columns_and_parameters_by_name():
    kernel = PerColumn(RBF([0.8, 1.7]), [0, 1, 1, 1, 1])
    assert kernel != PerColumn(RBF([0.8, 1.7]), [0, 0, 1, 1, 1])
    assert kernel != RBF([0.8, 1.7])
    other = clone(kernel).set_params(kernel__length_scale=[2.0, 3.0], groups=[0, 0, 0, 1, 1])
    assert other == PerColumn(RBF([2.0, 3.0]), [0, 0, 0, 1, 1])
    assert kernel == PerColumn(RBF([0.8, 1.7]), np.array([0, 1, 1, 1, 1]))


def test_features_of_a_column_have_its_weight():
    kernel = 2.0 * PerColumn(RBF([0.5, 2.0]), [1, 0, 1])
    assert_allclose(ard_weights(kernel), [0.25, 4.0, 0.25])
    assert_allclose(ard_weights(PerColumn(ARDLinear([3.0, 1.0]), [0, 1, 1])), [3.0, 1.0, 1.0])
    assert ard_weights(PerColumn(RBF(2.0), [0, 1, 1])) is None


def test_columns_fit_in_scikit_learn():
    X = town_rows()[2]
    y = X[:, 0] + X @ [0.0, 1.0, -1.0, 2.0, 0.0]
    kernel = PerColumn(RBF([1.0, 1.0]), [0, 1, 1, 1, 1]) + WhiteKernel(1e-4, "fixed")
    fitted = GaussianProcessRegressor(kernel, random_state=0).fit(X, y)
    assert_allclose(fitted.predict(X), y, atol=0.1)
    assert fitted.kernel_.theta.shape == (2,)


# -- Projected ------------------------------------------------------------------------------------


def test_a_projection_measures_distances_along_its_directions():
    rng = np.random.default_rng(2)
    X, M = rng.normal(size=(7, 4)), rng.normal(size=(4, 4))
    gaps = X[:, None] - X[None]
    squares = np.einsum("ijk,kl,ijl->ij", gaps, M @ M.T, gaps)
    assert_allclose(Projected(RBF(1.5), M)(X), np.exp(-0.5 * squares / 1.5**2), rtol=1e-12)


@pytest.mark.parametrize(
    ("projection", "message"),
    [
        (np.eye(3), "projection has 3 rows, but X has 2 features"),
        ([1.0, 2.0], "projection must be a matrix of finite numbers"),
        ([[1.0], [np.inf]], "projection must be a matrix of finite numbers"),
    ],
)
def test_projections_must_fit(projection, message):
    with pytest.raises(ValueError, match=message):
        Projected(RBF(), projection)([[0.0, 1.0]])


def test_projections_and_parameters_by_name():
    kernel = Projected(RBF([0.8, 1.7]), np.eye(2))
    assert kernel == Projected(RBF([0.8, 1.7]), [[1.0, 0.0], [0.0, 1.0]])
    assert kernel not in (Projected(RBF([0.8, 1.7]), 2 * np.eye(2)), RBF([0.8, 1.7]))
    other = clone(kernel).set_params(kernel__length_scale=[2.0, 3.0])
    assert other == Projected(RBF([2.0, 3.0]), np.eye(2))


def test_combinations_have_no_weights_of_features():
    assert ard_weights(Projected(RBF([0.8, 1.7]), np.eye(2))) is None
    mixed = Projected(RBF(2.0), np.ones((3, 1))) + RBF([1.0, 2.0, 4.0])
    assert_allclose(ard_weights(mixed), [1.0, 0.25, 0.0625])


def test_a_long_projection_is_not_shown():
    shown = repr(Projected(RBF(), np.eye(30)))
    assert shown == "Projected(RBF(length_scale=1), projection=matrix of shape (30, 30))"
