"""Sums of margins, row by row: against batch solutions, their conditions, and refits."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from sklearn.gaussian_process.kernels import RBF, DotProduct
from tests.baselines.random_paths import WIDE, certificate, walk

import ordinalgp
from ordinalgp import IncrementalOrdinalSVC, OrdinalSVC
from ordinalgp.baselines.cuts import LevelRows
from ordinalgp.baselines.path_model import solve_path
from ordinalgp.models.training_rows import numbered_rows

# Labels with noise leave thresholds without a margin; here the solution counts.
pytestmark = pytest.mark.filterwarnings("ignore:.* thresholds? ha(s|ve) .* margin")


def make_data(n=60, r=3, seed=0, d=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    f = X[:, 0] + 0.5 * X[:, -1] ** 2 + 0.3 * rng.normal(size=n)
    return X, np.argsort(np.argsort(f)) * r // n


def machine(kernel=None, C=1.0, **options):
    kernel = RBF(1.0) if kernel is None else kernel
    return IncrementalOrdinalSVC(kernel, algorithm="path", C=C, **options)


@pytest.mark.parametrize("seed", range(60))
def test_every_joining_or_leaving_row_gives_the_batch_solution(seed):
    """Duplicates, ties, random labels and singular kernels among them; see random_paths."""
    found = np.array(list(walk(seed)))
    assert len(found) >= 5
    assert found.max() <= 1e-8, found.max(axis=0)


@pytest.mark.parametrize("kernel", WIDE)
@pytest.mark.parametrize("seed", [*range(100, 106), 322, 367])  # the last two need a nugget
def test_nearly_singular_kernels_reach_the_dual(seed, kernel):
    """The dual value bounds the primal one, whatever digits the kernel matrix leaves."""
    found = np.array(list(walk(seed, kernel, certificate)))
    gap, infeasible, violation = found.max(axis=0)
    assert gap <= 1e-7
    assert infeasible <= 1e-10
    assert violation <= 1e-9


@pytest.mark.parametrize("kernel", [RBF(1.0), RBF(5.0), DotProduct()])
@pytest.mark.parametrize("C", [0.2, 1.0, 50.0])
def test_conditions_of_the_solution(kernel, C):
    """As the literal problem has them, for nearly singular kernels too."""
    X, y = make_data(80, 4)
    model = machine(kernel, C).fit(X, y)
    found = model._result.model
    above, below = found.multipliers.T
    f, codes = model.latent(found.rows.inputs)[found.rows.latent], found.rows.codes
    cost = C * found.rows.counts
    assert np.all((found.multipliers >= 0) & (found.multipliers <= cost[:, None] * (1 + 1e-9)))
    for cut in range(3):
        low, high = -found.edges[2 * cut], found.edges[2 * cut + 1]  # b - rho and b + rho
        total = np.sum(above[codes == cut + 1]), np.sum(below[codes == cut])
        assert_allclose(total, 1 + found.excess[cut], rtol=1e-8)
        assert low <= high + 1e-8
        assert found.excess[cut] * (high - low) <= 1e-8 * (1 + found.excess[cut])
        for level, mine, slack in [
            (cut + 1, above[codes == cut + 1], f[codes == cut + 1] - high),
            (cut, below[codes == cut], low - f[codes == cut]),
        ]:
            share = mine / cost[codes == level]
            assert np.all(slack[share < 1 - 1e-6] >= -1e-7)
            assert np.all(slack[share > 1e-6] <= 1e-7)
    assert model.converged_


@pytest.mark.parametrize("seed", range(8))
def test_a_fit_may_begin_at_the_batch_solution(seed):
    """Both beginnings end at the same solution; rows on a grid are duplicates with other levels."""
    rng = np.random.default_rng(seed)
    n, r = int(rng.integers(90, 200)), int(rng.integers(2, 5))
    X = rng.normal(size=(n, 2))
    X = np.round(2 * X) / 2 if seed % 3 == 0 else X
    y = np.argsort(np.argsort(X.sum(axis=1) + 0.5 * rng.normal(size=n))) * r // n
    rows = numbered_rows(X, y, np.ones(n), RBF(0.7))
    data = LevelRows(rows, n, RBF(0.7), r)
    batch, path = (solve_path(data, 0.1, batch_from=first) for first in (1, 10**9))
    assert batch.converged
    assert path.converged
    if seed == 0:  # the batch solution does not have the sets of all problems
        assert batch.n_steps < 0.1 * path.n_steps
    assert_allclose(batch.latent(X), path.latent(X), atol=1e-9)
    assert_allclose(batch.thresholds, path.thresholds, atol=1e-9)


@pytest.mark.parametrize("n, r", [(60, 3), (90, 4), (120, 5)])
@pytest.mark.parametrize("C", [0.06, 0.08, 0.1, 0.2])
def test_the_batch_machine_is_the_same(C, n, r):
    X, y = make_data(n, r)
    whole = OrdinalSVC(RBF(1.0), constraints="sum_of_margins", C=C).fit(X, y)
    followed = machine(C=C).fit(X, y)
    f = followed.latent(X)
    assert_allclose(whole.latent(X), f, atol=1e-5 * np.ptp(f))
    assert_allclose(whole.thresholds_, followed.thresholds_, atol=1e-5 * np.ptp(f))


@pytest.mark.parametrize("C", [0.3, 0.6, 1.0, 3.0])
def test_a_function_of_small_margins_has_its_digits(C):
    """With C this large the function is 1e-4 of the kernel; the objective alone cannot see it."""
    X, y = make_data(90, 4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whole = OrdinalSVC(RBF(1.0), constraints="sum_of_margins", C=C).fit(X, y)
    f = machine(C=C).fit(X, y).latent(X)
    assert np.ptp(f) < 2e-4
    assert_allclose(whole.latent(X), f, atol=0.01 * np.ptp(f))
    told = " ".join(str(each.message) for each in caught)
    assert whole.converged_ or "lower C, or raise tol" in told


@pytest.mark.parametrize("C, n", [(0.1, 0), (1.0, 2)])
def test_thresholds_without_a_margin_are_told(C, n):
    X, y = make_data(90, 4)
    for model in (OrdinalSVC(RBF(1.0), constraints="sum_of_margins", C=C), machine(C=C)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, y)
        told = [str(each.message) for each in caught if "no margin" in str(each.message)]
        assert len(told) == (n > 0)
        assert not n or told[0].startswith(f"{n} of 3 thresholds have no margin, with C=1")


def overlapping(seed, noise):
    """Few different inputs, each with several levels; the median is level 2 of 0 to 3."""
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(30, 4))
    at = rng.integers(0, 30, size=300)
    f = places[at, 0] + noise * rng.normal(size=300)
    return places[at], np.digitize(f, np.quantile(f, [0.2, 0.4, 0.8]))


def zero_is_best(X, y, C):
    """Whether multipliers exist whose function is zero, by linear programming."""
    inputs, at = np.unique(X, axis=0, return_inverse=True)
    extended = [(i, j, s) for i, k in enumerate(y) for j, s in ((k, -1), (k - 1, 1)) if 0 <= j < 3]
    A = np.zeros((len(inputs) + 6, len(extended) + 3))
    b = np.concatenate([np.zeros(len(inputs)), np.ones(6)])
    for column, (i, j, s) in enumerate(extended):
        A[np.ravel(at)[i], column] = s
        A[len(inputs) + 2 * j + (s > 0), column] = 1.0
    A[len(inputs) + np.arange(6), len(extended) + np.arange(6) // 2] = -1.0  # e_j >= 0
    bounds = [(0, C)] * len(extended) + [(0, None)] * 3
    return linprog(np.zeros(A.shape[1]), A_eq=A, b_eq=b, bounds=bounds).status == 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("length", [0.7, 7.0])
def test_a_function_that_is_zero_gives_the_median_level(seed, length):
    seen = set()
    for noise, C in [(0.1, 0.02), (1.0, 0.04), (1.0, 0.1), (1.0, 1.0), (1.0, 30.0)]:
        X, y = overlapping(seed, noise)
        zero = zero_is_best(X, y, C)
        seen.add(zero)
        for model in (OrdinalSVC(constraints="sum_of_margins"), machine()):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model.set_params(kernel=RBF(length), C=C).fit(X, y)
            assert zero == (not model.latent(X).any())
            if zero:
                assert set(model.predict(X)) == {np.median(y)}
                assert np.abs(model.thresholds_).max() < 1e-300
                assert model.converged_
                assert "No threshold has a margin" in str(caught[-1].message)
    assert seen == {True, False}


def test_rows_that_join_and_leave_again_change_nothing():
    X, y = make_data(120, 4, seed=3)
    model = machine(C=0.5).fit(X[:80], y[:80])
    before, cuts = model.latent(X), model.thresholds_
    model.partial_fit(X[80:], y[80:])
    assert_allclose(model.latent(X), machine(C=0.5).fit(X, y).latent(X), atol=1e-10)
    model.remove_rows(X[80:], y[80:])
    assert_allclose(model.latent(X), before, atol=1e-10)
    assert_allclose(model.thresholds_, cuts, atol=1e-10)
    assert_array_equal(model.support_, machine(C=0.5).fit(X[:80], y[:80]).support_)


def test_a_level_can_come_and_go():
    X, y = make_data(60, 4, seed=1)
    model = machine(categories=[0, 1, 2, 3]).fit(X[y != 2], y[y != 2])
    assert_array_equal(model.classes_, [0, 1, 3])
    model.partial_fit(X[y == 2], y[y == 2])
    whole = machine().fit(X, y)
    assert_allclose(model.latent(X), whole.latent(X), atol=1e-10)
    model.remove_rows(X[y == 0], y[y == 0])
    assert_array_equal(model.classes_, [1, 2, 3])
    rest = machine().fit(X[y > 0], y[y > 0])
    assert_allclose(model.latent(X), rest.latent(X), atol=1e-10)


def test_weights_are_copies_that_can_leave_one_by_one():
    X, y = make_data(40)
    twice = machine(C=0.4).fit(X, y, sample_weight=np.full(40, 2.0))
    once = machine(C=0.4).fit(X, y)
    twice.remove_rows(X, y)
    assert_allclose(twice.latent(X), once.latent(X), atol=1e-10)
    with pytest.raises(ValueError, match="only 1 times among the training rows"):
        twice.remove_rows(X[:1], y[:1], sample_weight=[2.0])
    with pytest.raises(ValueError, match="row 0 of X with its level is not among"):
        twice.remove_rows(X[:1] + 1.0, y[:1])
    assert_allclose(twice.latent(X), once.latent(X), atol=1e-10)


def test_a_saved_model_goes_on(tmp_path):
    X, y = make_data(80)
    model = machine(C=0.7).fit(X[:60], y[:60])
    model.save(tmp_path / "model.ogp")
    loaded = ordinalgp.load(tmp_path / "model.ogp")
    assert_array_equal(loaded.latent(X), model.latent(X))
    for one in (model, loaded):
        one.partial_fit(X[60:], y[60:]).remove_rows(X[:10], y[:10])
    assert_allclose(loaded.latent(X), model.latent(X), atol=1e-10)
    assert_allclose(model.latent(X), machine(C=0.7).fit(X[10:], y[10:]).latent(X), atol=1e-10)


def test_a_window_that_slides_keeps_no_old_rows():
    X, y = make_data(200, 2, d=1)
    model = machine(C=0.5).fit(X[:40], y[:40])
    for i in range(40, 200, 8):
        model.partial_fit(X[i : i + 8], y[i : i + 8])
        model.remove_rows(X[i - 40 : i - 32], y[i - 40 : i - 32])
    fresh = machine(C=0.5).fit(X[160:], y[160:])
    assert_allclose(model.latent(X), fresh.latent(X), atol=1e-10)
    assert len(model._result.model.rows.inputs) <= 2 * 40 + 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "fast"}, "algorithm must be one of"),
        ({"algorithm": "path", "constraints": "implicit"}, "cannot have constraints"),
        ({"algorithm": "working_set", "constraints": "sum_of_margins"}, "cannot have constraints"),
        ({"algorithm": "path", "C": 0.04}, "C must be at least 0.05"),
    ],
)
def test_bad_options_say_what_to_do(options, message):
    X, y = make_data()
    with pytest.raises(ValueError, match=message):
        IncrementalOrdinalSVC(**options).fit(X, y)


def test_a_level_that_becomes_too_rare_is_refused():
    X, y = make_data()
    model = machine(C=0.05).fit(X, y)
    before = model.latent(X)
    with pytest.raises(ValueError, match="as the rarest level counts 19 rows"):
        model.remove_rows(X[:1], y[:1])
    assert_array_equal(model.latent(X), before)


def test_only_the_path_can_remove_rows():
    X, y = make_data()
    model = IncrementalOrdinalSVC(algorithm="working_set").fit(X, y)
    assert not hasattr(model, "remove_rows")
    with pytest.raises(ValueError, match="no row would be left"):
        machine().fit(X, y).remove_rows(X, y)
