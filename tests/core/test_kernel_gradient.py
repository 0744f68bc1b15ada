"""Every rule against scikit-learn's own gradient and against central differences."""

import inspect
import itertools
import logging
import tracemalloc

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from ordinalgp import kernels as ours
from ordinalgp.core.kernel_gradient import contract
from ordinalgp.core.kernel_matrix import cross_covariance, kernel_matrix
from ordinalgp.kernels import ARDLinear, Correlation, Independent, PerColumn, Projected

H = 1e-5
ARD_ORDERS = (0.3, 0.5, 1.5, 2.2, 2.5, np.inf)
FALLBACK = {ExpSineSquared, PairwiseKernel}
NOT_A_COVARIANCE = {sk.CompoundKernel}  # a stack of kernels, for one-vs-rest classifiers


def kernels(d):
    """One kernel for every rule and the compositions that matter, for ``d`` features."""
    scales = np.geomspace(0.5, 3.0, d) * np.sqrt(d)
    base, pairs = np.sqrt(d), np.arange(d) // 2
    per_pair = scales[: pairs[-1] + 1]
    return {
        "rbf": RBF(0.8 * base),
        "rbf-array-of-one": RBF([0.8 * base]),
        "rbf-ard": RBF(scales),
        **{f"matern-{nu}": Matern(0.8 * base, nu=nu) for nu in ARD_ORDERS},
        **{f"matern-ard-{nu}": Matern(scales, nu=nu) for nu in ARD_ORDERS},
        "quadratic": RationalQuadratic(0.8 * base, 1.3),
        "quadratic-large-alpha": RationalQuadratic(0.8 * base, 1e3),
        "dot": DotProduct(0.7),
        "constant": ConstantKernel(2.5),
        "white": WhiteKernel(0.3),
        "linear": ARDLinear(0.4),
        "linear-ard": ARDLinear(1.0 / scales),
        "correlation": Correlation(),
        "additive": ours.Additive(0.8),
        "additive-ard": ours.Additive(scales),
        "additive-groups": ours.Additive(base, size=d),
        "additive-groups-ard": ours.Additive(scales, size=d),
        "exponential": ours.Exponential(0.8),
        "exponential-ard": ours.Exponential(scales),
        "additive-and-rough": 0.7 * ours.Additive(scales) + Matern(scales, nu=0.5) * 2.0,
        "many-parts": ours.Additive(0.8) + 0.5 * ours.Exponential(scales) + 0.3 + DotProduct(0.7),
        "parts-with-and-without-rules": ours.Additive(scales) + ExpSineSquared(1.1, 2.3),
        "sine": ExpSineSquared(1.1, 2.3),
        "per-column": PerColumn(RBF(per_pair), pairs),
        "per-column-of-power": PerColumn((1.5 * RBF(per_pair)) ** 2, pairs),
        "per-column-without-a-rule": PerColumn(ours.Additive(per_pair) * RBF(base), pairs),
        "per-column-rough": PerColumn(Matern(per_pair, nu=0.5), pairs),
        "per-column-additive": PerColumn(ours.Additive(0.8), pairs),
        "per-column-additive-ard": PerColumn(ours.Additive(per_pair), pairs),
        "per-column-exponential": PerColumn(ours.Exponential(3.0 * per_pair), pairs),
        "per-column-linear": PerColumn(0.5 * ARDLinear(1.0 / per_pair), pairs),
        "projected": Projected(RBF(0.8), np.cos(np.arange(2.0 * d)).reshape(d, 2)),
        "projected-sum": Projected(2.0 * RBF(scales) + Matern(scales, nu=0.5), np.tri(d)),
        "projected-without-a-rule": Projected(ours.Additive(scales) * RBF(base), np.tri(d)),
        "scaled": 2.0 * RBF(scales),
        "scaled-right": Matern(0.8 * base, nu=1.5) * ConstantKernel(0.5),
        "scaled-by-zero": ConstantKernel(0.0, "fixed") * RBF(base),
        "constants": ConstantKernel(2.0) * ConstantKernel(3.0),
        "sum": 2.0 * RBF(scales) + WhiteKernel(0.2),
        "sum-left": WhiteKernel(0.2) + Correlation(),
        "bias": 0.5 + ARDLinear(1.0 / scales),
        "product": RBF(base) * RationalQuadratic(base, 0.7),
        "product-without-parameters": Correlation() * DotProduct(1.2),
        "power": DotProduct(0.9) ** 3,
        "power-of-product": (1.5 * RBF(scales)) ** 2,
        "nested": ((1.5 * RBF(scales) + DotProduct(0.4)) * Matern(base, nu=2.5)) ** 2
        + 0.1 * RationalQuadratic(base, 2.0) * ExpSineSquared(1.1, 2.3),
    }


def by_columns(scales):
    """Kernels with a value for each column, or with one for all."""
    return {
        **{f"matern-ard-{nu}": Matern(scales, nu=nu) for nu in ARD_ORDERS},
        "rbf": RBF(1.5),
        "quadratic": RationalQuadratic(1.5, 1.3),
        "linear": ARDLinear(1.0 / scales),
        "dot": DotProduct(0.7),
        "additive": ours.Additive(0.8),
        "additive-ard": ours.Additive(scales),
        "exponential": ours.Exponential(0.8),
        "exponential-ard": ours.Exponential(3.0 * scales),
        "sum": 0.7 * ours.Additive(scales) + Matern(scales, nu=0.5) * 2.0 + ARDLinear(1.0 / scales),
    }


def inputs(name):
    rng = np.random.default_rng(5)
    X = rng.normal(size={"n<d": (4, 7), "wide": (90, 20), "one row": (1, 3)}.get(name, (12, 3)))
    if name == "constant column":
        X[:, 1] = 7.0
    elif name == "duplicated rows":
        X[6:] = X[:6]
    elif name == "identical rows":
        X[:] = X[0]
    elif name == "offset":
        X += 1e5
    elif name == "scales":
        X *= [1e-4, 1.0, 1e4]
    elif name == "answers":  # many rows, of which two columns have few values
        X = np.column_stack([rng.normal(size=80), rng.integers(0, 5, 80), rng.integers(0, 2, 80)])
    elif name == "one column":
        X = X[:, :1]
    return X


INPUTS = ["plain", "n<d", "wide", "constant column", "duplicated rows", "offset"]
INPUTS += ["answers", "one column"]


def each(X, leave_out=()):
    """Kernels for the columns of ``X``, but those whose names end so."""
    made = kernels(X.shape[1])
    return [(k, kernel) for k, kernel in made.items() if not k.endswith(tuple(leave_out))]


def symmetric(n, seed=0):
    U = np.random.default_rng(seed).normal(size=(n, n))
    return U + U.T


def by_eval_gradient(kernel, X, upstream):
    return np.einsum("ij,ijp->p", upstream, kernel(X, eval_gradient=True)[1])


def by_differences(kernel, X, upstream):
    steps = H * np.eye(kernel.n_dims)
    total = [np.sum(upstream * kernel.clone_with_theta(kernel.theta + s)(X)) for s in steps]
    back = [np.sum(upstream * kernel.clone_with_theta(kernel.theta - s)(X)) for s in steps]
    return (np.array(total) - back) / (2 * H)


def assert_close(actual, expected, rtol=1e-6, name=""):
    assert actual.dtype == float, name
    assert actual.shape == expected.shape, name
    atol = 0.1 * rtol * np.abs(expected).max(initial=1)
    assert_allclose(actual, expected, rtol=rtol, atol=atol, err_msg=name)


# For other orders scikit-learn takes differences with a step of 1e-10: good for few digits.
@pytest.mark.parametrize("x", [*INPUTS, "one row", "identical rows"])
def test_agrees_with_scikit_learn(x):
    X = inputs(x)
    upstream = symmetric(len(X))
    rtol = 1e-8 if x == "offset" else 1e-9  # X / length_scale rounds to 1e-11 of a length scale
    for k, kernel in each(X, leave_out=("0.3", "2.2")):
        expected = by_eval_gradient(kernel, X, upstream)
        assert_close(contract(kernel, X, upstream), expected, rtol, k)


@pytest.mark.parametrize("x", [x for x in INPUTS if x != "offset"])
def test_agrees_with_central_differences(x):
    X = inputs(x)
    upstream = symmetric(len(X))
    for k, kernel in each(X):
        assert_close(contract(kernel, X, upstream), by_differences(kernel, X, upstream), name=k)


def test_fixed_parameters_are_dropped():
    """Every subset of fixed hyperparameters keeps the entries of the others, in their order."""
    X = inputs("plain")
    upstream = symmetric(len(X))
    for k, kernel in each(X, leave_out=["scaled-by-zero"]):
        names = [h.name for h in kernel.hyperparameters]
        ends = np.cumsum([h.n_elements for h in kernel.hyperparameters])[:-1]
        blocks = dict(zip(names, np.split(contract(kernel, X, upstream), ends), strict=False))
        for fixed in subsets(names):
            partly = clone(kernel).set_params(**{f"{name}_bounds": "fixed" for name in fixed})
            expected = [blocks[name] for name in names if name not in fixed]
            actual = contract(partly, X, upstream)
            assert actual.shape == partly.theta.shape, k
            assert_allclose(actual, np.concatenate([[], *expected]), rtol=1e-12, err_msg=k)


def subsets(names):
    sizes = range(1, len(names) + 1)
    return itertools.chain.from_iterable(itertools.combinations(names, n) for n in sizes)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_known_matrix_and_the_memory_order_change_nothing(order):
    X = inputs("plain")
    upstream = symmetric(len(X))
    for k, kernel in each(X):
        K = kernel(X).astype(float)
        before = upstream.copy(), K.copy()
        given = np.asarray(upstream, order=order), np.asarray(K, order=order)
        found = contract(kernel, X, given[0], K=given[1])
        expected = contract(kernel, X, upstream)
        assert_allclose(found, expected, rtol=1e-10, atol=1e-12, err_msg=k)
        assert_array_equal(upstream, before[0], err_msg=k)
        assert_array_equal(K, before[1], err_msg=k)


# -- Extremes: the sum over pairs must not drown in cancellation ----------------------------------


def extreme(name):
    X = np.random.default_rng(2).normal(size=(30, 3))
    if name == "outlier":
        X[4, 1] = 1e8
    elif name == "two clusters":
        X[15:, 1] += 1e8
    elif name == "far offset":
        X[:, 1] = np.round(X[:, 1], 3) + 1e9
    elif name == "many jittered duplicates":
        X = X[np.arange(90) % 30] + 1e-6 * np.random.default_rng(3).normal(size=(90, 3))
    elif name == "jittered duplicates":
        X[15:] = X[:15] + 1e-9 * np.random.default_rng(3).normal(size=(15, 3))
    return X


EXTREMES = ["outlier", "two clusters", "jittered duplicates", "far offset"]


@pytest.mark.parametrize("name", [*EXTREMES, "many jittered duplicates"])
@pytest.mark.parametrize("family", [RBF, Matern, "exponential", ours.Additive, ours.Exponential])
def test_extreme_inputs_keep_their_gradient(name, family):
    X = extreme(name)
    upstream = symmetric(len(X))
    rtol = 1e-6 if family == "exponential" else 1e-8
    for scale in (1.0, [0.7, 1.0, 2.0], 1e-5, [1e-5, 1.0, 1.0], 1e5):
        kernel = Matern(scale, nu=0.5) if family == "exponential" else family(scale)
        expected = by_eval_gradient(kernel, X, upstream)
        found = contract(kernel, X, upstream)
        assert_allclose(found, expected, rtol=rtol, atol=rtol, err_msg=str(scale))


@pytest.mark.parametrize("close", [1e-9, 1e-6, 1e-4, 1e-2, 3e-2, 0.1])
@pytest.mark.parametrize("nu", [0.5, 1.5])
def test_close_rows_with_many_digits(nu, close):
    """Each slope against sums over pairs with 40 digits, mostly of rows that nearly coincide."""
    rng = np.random.default_rng(4)
    centres = np.repeat([[0.0, 0.0], [30.0, 4.0], [-20.0, -3.0]], 8, axis=0)
    X = centres + close * rng.normal(size=(24, 2))
    upstream, scales = symmetric(24), [0.7, 1.5]
    with mpmath.workdps(40):
        expected = [mpmath.mpf(0)] * 2
        for i, j in itertools.permutations(range(24), 2):
            gap = [(mpmath.mpf(X[i, k]) - mpmath.mpf(X[j, k])) / scales[k] for k in (0, 1)]
            r = mpmath.sqrt(sum(each**2 for each in gap))
            w = mpmath.exp(-r) / r if nu == 0.5 else 3 * mpmath.exp(-mpmath.sqrt(3) * r)
            expected = [expected[k] + upstream[i, j] * w * gap[k] ** 2 for k in (0, 1)]
    found = contract(Matern(scales, nu=nu), X, upstream)
    rounding = 1e-14 / close  # of X / length_scale, in relation to differences
    assert_allclose(found, np.array(expected, dtype=float), rtol=1e-11 + 10 * rounding)


@pytest.mark.parametrize("kernel", [RBF([1.0, 2.0]), Matern([1.0, 2.0], nu=1.5)])
def test_a_small_spread_far_from_the_origin(kernel):
    X = 900.0 + 1e-3 * np.random.default_rng(0).normal(size=(30, 2))
    upstream = symmetric(len(X))
    expected = by_eval_gradient(kernel, X, upstream)
    assert_allclose(contract(kernel, X, upstream), expected, rtol=1e-8)


@pytest.mark.parametrize("k", ["rbf", "rbf-ard", "scaled", "matern-0.5", "matern-ard-1.5"])
def test_a_large_diagonal_does_not_drown_the_length_scales(k):
    X, kernel = inputs("plain"), kernels(3)[k]
    upstream = symmetric(len(X))
    expected = contract(kernel, X, upstream)[-3:]
    actual = contract(kernel, X, upstream + 1e12 * np.eye(len(X)))[-3:]
    assert_allclose(actual, expected, rtol=1e-10)


def test_quadratic_near_its_gaussian_limit():
    """With a large alpha, k = exp(-r^2/2) (1 + r^4/(8 alpha)) up to terms in 1/alpha^2."""
    X = inputs("plain")
    upstream = symmetric(len(X))
    r2 = cdist(X, X, "sqeuclidean")
    limit = -np.sum(upstream * np.exp(-r2 / 2) * r2**2) / 8e7
    kernel = RationalQuadratic(1.0, 1e7, length_scale_bounds="fixed", alpha_bounds=(1.0, 1e9))
    assert_allclose(contract(kernel, X, upstream), [limit], rtol=1e-5)


@pytest.mark.parametrize("k", ["rbf", "rbf-ard", "scaled", "quadratic", "matern-ard-1.5"])
def test_a_huge_column_stays_finite(k):
    check_a_huge_column(k, inputs("plain"))


@pytest.mark.parametrize("k", ["additive-ard", "exponential-ard", "additive-and-rough"])
@pytest.mark.parametrize("x", ["plain", "answers"])
def test_a_huge_column_of_many_or_few_values_stays_finite(k, x):
    check_a_huge_column(k, inputs(x))


def check_a_huge_column(k, X):
    X[:, 2] *= 1e200
    assert np.isfinite(kernel_matrix(kernels(3)[k], X)).all()
    assert np.isfinite(contract(kernels(3)[k], X, symmetric(len(X)))).all()


@pytest.mark.parametrize("few", [False, True])
def test_more_rows_than_a_tile(few):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(650, 2))
    if few:
        X[:, 1] = X[:, 1].round()
    upstream = symmetric(len(X))
    for k in ("additive-and-rough", "many-parts", "rbf", "quadratic"):
        kernel = kernels(2)[k]
        assert_allclose(kernel_matrix(kernel, X), kernel(X), rtol=1e-12, err_msg=k)
        expected = by_eval_gradient(kernel, X, upstream)
        assert_close(contract(kernel, X, upstream), expected, 1e-9, k)
        assert_allclose(cross_covariance(kernel, X[:70], X), kernel(X[:70], X), rtol=1e-9)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(np.ones(500)),
        Matern(np.ones(500), nu=2.5),
        Matern(np.ones(500), nu=0.5) + 2.0 * ours.Additive(np.ones(500)),
        ours.Exponential(np.full(500, 50.0)),
    ],
)
def test_memory_is_a_few_matrices(kernel):
    n, d = 400, 500
    X = np.random.default_rng(0).normal(size=(n, d)) / 10
    upstream = symmetric(n)
    assert peak_bytes(contract, kernel, X, upstream) < 20 * n * n * 8 < n * n * d * 8 / 20
    assert peak_bytes(cross_covariance, kernel, X, X) < 20 * n * n * 8


def test_memory_with_answers():
    """Indicators of distinct values take a few numbers per cell."""
    n, d = 400, 100
    X = np.random.default_rng(0).integers(0, 5, size=(n, d)).astype(float)
    kernel = ours.Additive(np.ones(d)) + ours.Exponential(np.full(d, 50.0))
    assert peak_bytes(contract, kernel, X, symmetric(n)) < 20 * n * n * 8 < n * n * d * 8 / 4


def test_memory_with_many_features():
    n, d = 26, 12_600
    X = np.random.default_rng(0).normal(size=(n, d))
    kernel = ARDLinear(np.full(d, 1 / d))
    assert peak_bytes(contract, kernel, X, symmetric(n)) < 6 * n * d * 8


def peak_bytes(function, *args):
    tracemalloc.start()
    try:
        function(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# -- Columns of several features ------------------------------------------------------------------


def nominal(n=90, seed=6):
    """Two numbers and nominal columns of 2, 6 and 40 values, and the column of each feature."""
    rng = np.random.default_rng(seed)
    sizes = (2, 6, 40)
    hot = [np.eye(size)[rng.integers(0, size, n)] for size in sizes]
    groups = np.repeat(np.arange(5), (1, *sizes, 1))
    return np.column_stack([rng.normal(size=n), *hot, rng.normal(size=n).round()]), groups


def on_columns(groups):
    """Kernels of the five columns."""
    scales = np.array([1.1, 0.8, 1.7, 1.3, 2.0])
    return {k: PerColumn(kernel, groups) for k, kernel in by_columns(scales).items()}


@pytest.mark.parametrize("gap", [False, True])
def test_nominal_columns_agree_with_scikit_learn_and_central_differences(gap):
    X, groups = nominal()
    if gap:  # a value that is none of the known ones: not one-hot any more
        X[3, groups == 3] = X[4, groups == 2] = 0.0
    upstream = symmetric(len(X))
    for k, kernel in on_columns(groups).items():
        assert_allclose(kernel_matrix(kernel, X), kernel(X), rtol=1e-10, atol=1e-13, err_msg=k)
        found = contract(kernel, X, upstream)
        assert_close(found, by_differences(kernel, X, upstream), name=k)
        if not k.endswith(("0.3", "2.2")):
            assert_close(found, by_eval_gradient(kernel, X, upstream), 1e-9, k)


@pytest.mark.parametrize("new", [False, True])
def test_nominal_columns_between_two_sets(new):
    X, groups = nominal()
    Z = nominal(30, seed=7)[0]
    if new:
        Z[3, groups == 3] = 0.0
    for k, kernel in on_columns(groups).items():
        expected = kernel(Z, X)
        assert_allclose(cross_covariance(kernel, Z, X), expected, rtol=1e-9, atol=1e-13, err_msg=k)


def test_columns_of_single_features_are_the_kernel_itself():
    X = inputs("answers")
    upstream = symmetric(len(X))
    for k, kernel in by_columns(np.array([1.1, 0.8, 1.7])).items():
        tied = PerColumn(kernel, [0, 1, 2])
        assert_array_equal(kernel_matrix(tied, X), kernel_matrix(kernel, X), err_msg=k)
        assert_array_equal(contract(tied, X, upstream), contract(kernel, X, upstream), err_msg=k)


def test_memory_with_a_column_of_many_values():
    n, d = 400, 300
    X = np.eye(d)[np.random.default_rng(0).integers(0, d, n)]
    X = np.column_stack([np.random.default_rng(1).normal(size=n), X])
    scales = np.array([1.0, 2.0])
    kernel = PerColumn(Matern(scales, nu=0.5) + ours.Additive(scales), [0] + d * [1])
    assert peak_bytes(contract, kernel, X, symmetric(n)) < 20 * n * n * 8 < n * n * d * 8 / 10


# -- The matrix itself ----------------------------------------------------------------------------


@pytest.mark.parametrize("x", [*INPUTS, "scales", "one row", "identical rows"])
def test_kernel_matrix_is_the_kernel(x):
    X = inputs(x)
    for k, kernel in each(X):
        K = kernel_matrix(kernel, X)
        assert K.dtype == float
        atol = 1e-13 if "0.3" in k else 1e-300
        assert_allclose(K, kernel(X), rtol=1e-10, atol=atol, err_msg=k)
        assert_array_equal(K, K.T, err_msg=k)


@pytest.mark.parametrize("x", [*INPUTS, "scales", "one row", "identical rows"])
def test_cross_covariance_is_the_kernel_between_two_sets(x):
    X = inputs(x)
    Z = np.concatenate([X[:2], X[:3] + 0.1 * X.std(axis=0)])
    for k, kernel in each(X):
        K = cross_covariance(kernel, Z, X)
        assert K.dtype == float
        assert_allclose(K, kernel(Z, X), rtol=1e-9, atol=1e-13, err_msg=k)


def test_cross_covariance_of_no_rows():
    X = inputs("plain")
    for k in ("additive-ard", "exponential-ard", "additive-and-rough", "quadratic"):
        assert cross_covariance(kernels(3)[k], X[:0], X).shape == (0, 12), k


@pytest.mark.parametrize("change", ["none", "offset", "outlier", "scales", "duplicates"])
@pytest.mark.parametrize("family", [RBF, Matern, "exponential", RationalQuadratic])
def test_kernel_matrix_with_many_columns(change, family):
    """Beyond 16 columns distances may come from a matrix product, but not at any price."""
    X = np.random.default_rng(4).normal(size=(150, 40))
    if change == "offset":
        X += 1e6
    elif change == "outlier":
        X[3, 5] = 1e9
    elif change == "scales":
        X *= np.geomspace(1e-6, 1e3, 40)
    elif change == "duplicates":
        X[75:] = X[:75]
    for scale in (1e-5, 0.1, 1.0, 30.0, 1e5):
        kernel = Matern(scale, nu=0.5) if family == "exponential" else family(scale)
        K = kernel_matrix(kernel, X)
        assert_allclose(K, kernel(X), rtol=1e-10, atol=1e-300, err_msg=str(scale))
        assert_array_equal(K, K.T)
        assert_array_equal(np.diag(K), 1.0)


def test_kernel_matrix_never_hands_out_the_kernels_own_array():
    class Stored(WhiteKernel):
        matrix = np.eye(3)

        def __call__(self, X, Y=None, eval_gradient=False):
            return self.matrix

    kernel_matrix(Stored() + RBF(), np.zeros((3, 1)))
    kernel_matrix(Stored(), np.zeros((3, 1)))[:] = 5.0
    assert_array_equal(Stored.matrix, np.eye(3))


@pytest.mark.parametrize("d", [1, 3])
def test_wrong_number_of_length_scales(d):
    with pytest.raises(ValueError, match=f"2 values, but X has {d} features"):
        kernel_matrix(RBF([1.0, 2.0]), np.zeros((4, d)))


# -- Dispatch -------------------------------------------------------------------------------------


class Cosine(sk.Kernel):
    """A kernel nobody wrote a rule for: cos(period (x - x'))."""

    def __init__(self, period=1.5, period_bounds=(1e-2, 1e2)):
        self.period = period
        self.period_bounds = period_bounds

    @property
    def hyperparameter_period(self):
        return sk.Hyperparameter("period", "numeric", self.period_bounds)

    def __call__(self, X, Y=None, eval_gradient=False):
        a = self.period * (X[:, :1] - (X if Y is None else Y)[:, 0])
        return (np.cos(a), (-np.sin(a) * a)[:, :, np.newaxis]) if eval_gradient else np.cos(a)

    def diag(self, X):
        return np.ones(len(X))

    def is_stationary(self):
        return True


def test_unknown_kernels_fall_back_and_say_so_once(caplog):
    X = inputs("plain")
    upstream = symmetric(len(X))
    kernel = 2.0 * Cosine() + RBF()
    with caplog.at_level(logging.INFO, logger="ordinalgp"):
        gradient = contract(kernel, X, upstream)
        contract(kernel, X, upstream)
    assert_close(gradient, by_differences(kernel, X, upstream))
    assert [record.getMessage() for record in caplog.records] == [
        "Cosine has no contraction rule: slow gradient."
    ]
    assert contract(Cosine(period_bounds="fixed"), X, upstream).shape == (0,)


def test_subclasses_that_compute_something_else_do_not_inherit_the_rule():
    class Doubled(RBF):
        def __call__(self, X, Y=None, eval_gradient=False):
            result = super().__call__(X, Y, eval_gradient)
            return (2 * result[0], 2 * result[1]) if eval_gradient else 2 * result

    class Renamed(RBF):
        pass

    X = inputs("plain")
    upstream = symmetric(len(X))
    for kernel in (Doubled(0.8), 3.0 * Doubled([0.7, 1.0, 2.0]), Renamed(1.3)):
        assert_close(contract(kernel, X, upstream), by_differences(kernel, X, upstream))
        assert_allclose(kernel_matrix(kernel, X), kernel(X), rtol=1e-12)


def test_a_gradient_of_the_wrong_shape_is_an_error():
    kernel = sk.CompoundKernel([RBF(), RBF()])
    with pytest.raises(ValueError, match=r"has shape \(4, 4, 1, 2\), but \(n, n, 2\) with n = 4"):
        contract(kernel, np.zeros((4, 2)), np.eye(4))


def concrete(module):
    return {
        cls
        for name, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, sk.Kernel) and not name.startswith("_") and not inspect.isabstract(cls)
    }


def test_no_kernel_is_forgotten():
    ruled = set(contract.registry)
    assert concrete(sk) - ruled == FALLBACK | NOT_A_COVARIANCE
    assert concrete(ours) - ruled == {Correlation, Independent}  # without hyperparameters


def test_every_rule_is_tested():
    def members(kernel):
        parts = [getattr(kernel, name, None) for name in ("k1", "k2", "kernel")]
        return {type(kernel)}.union(*(members(p) for p in parts if p is not None))

    tested = set().union(*(members(kernel) for kernel in kernels(3).values()))
    assert set(contract.registry) - {object} <= tested
