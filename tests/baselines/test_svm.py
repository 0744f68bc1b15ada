"""Support vector and discriminant baselines: optimality, literal solutions, scikit-learn, files."""

import warnings
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.model_files import with_field

import ordinalgp
from ordinalgp import IncrementalOrdinalSVC, KernelDiscriminantOrdinal, OrdinalSVC
from ordinalgp.baselines.soft_margin import margins, middle_cuts, solve_margins
from ordinalgp.core.linalg import pivoted_cholesky

LEVELS = ["low", "mid", "high"]  # alphabetical order is high, low, mid
KINDS = ["implicit", "explicit", "fixed_margin"]
MODELS = [OrdinalSVC(), IncrementalOrdinalSVC(), KernelDiscriminantOrdinal()]


def make_data(n=120, r=3, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = X[:, 0] + 0.5 * X[:, 1] ** 2 + noise * rng.normal(size=n)
    return X, np.searchsorted(np.quantile(f, np.arange(1, r) / r), f)


@parametrize_with_checks(
    [*MODELS, OrdinalSVC(constraints="explicit")],
    expected_failed_checks=lambda estimator: {
        "check_classifiers_classes": "feeds strings without an order, which this model refuses"
    },
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("model", MODELS)
def test_a_fit_that_fails_leaves_the_old_model_whole(model):
    X, y = make_data()
    model = clone(model).fit(X, y)
    before, attributes = model.predict(X), set(vars(model))
    model.set_params(kernel=RBF() + WhiteKernel())
    with pytest.raises(ValueError, match="adds noise of its own"):
        model.fit(np.column_stack([X, X]), np.where(y == 0, 7, y))
    assert set(vars(model)) == attributes
    assert_array_equal(model.set_params(kernel=None).predict(X), before)


# ----------------------------------------------------------------------------- the machine


def literal_rows(y, constraints):
    """Inputs, thresholds and sides of the margins, as printed by Chu and Keerthi."""
    return [
        (i, j, 1.0 if level > j else -1.0)
        for i, level in enumerate(y)
        for j in range(y.max())
        if constraints == "implicit" or j in (level, level - 1)
    ]


def literal_value(model, X, rows):
    """The primal: half the squared length and the cost of every margin that lacks something."""
    f, b, a = model.latent(X), model.thresholds_, model.coefficients_
    short = sum(max(0.0, 1.0 - side * (f[i] - b[j])) for i, j, side in rows)
    return 0.5 * a @ model.kernel_(model.centres_) @ a + model.C * short


def literal_bound(K, rows, C, alpha):
    """The dual: by weak duality no point has a lower value, whichever multipliers are given."""
    i, j, side = (np.array(each) for each in zip(*rows, strict=True))
    alpha = np.clip(alpha, 0.0, C)
    for cut in np.unique(j):  # both sides pull alike on a threshold
        above, below = (alpha[(j == cut) & (side == s)].sum() for s in (1.0, -1.0))
        for s, pull in ((1.0, above), (-1.0, below)):
            alpha[(j == cut) & (side == s)] *= min(above, below) / pull
    beta = np.bincount(i, side * alpha)
    return alpha.sum() - 0.5 * beta @ K @ beta


@pytest.mark.parametrize("constraints", KINDS)
@pytest.mark.parametrize("C", [0.2, 5.0])
def test_no_machine_is_better(constraints, C):
    """Value and lower bound nearly meet; by strong convexity all latent values are right then."""
    X, y = make_data(24, r=4, seed=1)
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(-1))
    rows = literal_rows(y, constraints)
    model = OrdinalSVC(RBF(1.0), constraints=constraints, C=C, tol=1e-9).fit(X, y)
    value = literal_value(model, X, rows)
    wanted = margins(y, np.full(24, C), np.arange(24), constraints)
    found = solve_margins(pivoted_cholesky(lambda j: K[:, j], np.diagonal(K)).matrix, wanted)
    assert list(zip(wanted.input, wanted.cut, wanted.sign, strict=True)) == rows
    bound = literal_bound(K, rows, C, found.multipliers)
    assert -1e-10 * value < value - bound <= 1e-6 * value
    # |w - w*| <= sqrt(2 * gap), which bounds |f - f*| too, as k(x, x) = 1.
    assert 2 * (value - bound) <= 1e-3**2
    if constraints != "fixed_margin":
        assert np.all(np.diff(model.thresholds_) >= -1e-8)


@pytest.mark.parametrize("constraints", KINDS)
def test_optimality_conditions(constraints):
    """Multipliers within their box, each level with its margin, no pull left on a threshold."""
    X, y = make_data(200, r=4, noise=0.8)
    K = RBF(1.0)(X)
    features = pivoted_cholesky(lambda j: K[:, j], np.diagonal(K))
    rows = margins(y, np.full(200, 2.0), np.arange(200), constraints)
    found = solve_margins(features.matrix, rows)
    f = features.matrix @ found.weights
    alpha, margin = found.multipliers, rows.sign * (f[rows.input] - found.cuts[rows.cut])
    assert found.converged
    assert np.all((alpha >= 0) & (alpha <= 2.0))
    assert np.all(margin[alpha < 1e-4] >= 1 - 1e-5)
    assert np.all(margin[alpha > 2 - 1e-4] <= 1 + 1e-5)
    assert_allclose(margin[(alpha > 1e-3) & (alpha < 2 - 1e-3)], 1.0, atol=1e-5)
    beta = np.bincount(rows.input, rows.sign * alpha, 200)
    assert_allclose(K @ beta, f, atol=1e-5)
    pull = np.bincount(rows.cut, rows.sign * alpha)
    if constraints == "explicit":  # a threshold may lean on its neighbour, all together on nothing
        assert_allclose(pull.sum(), 0.0, atol=1e-5)
    else:
        assert_allclose(pull, 0.0, atol=1e-5)


def test_two_levels_are_scikit_learns_machine():
    X, y = make_data(150, r=2, noise=0.6)
    ours = OrdinalSVC(RBF(1.0), C=3.0).fit(X, y)
    theirs = SVC(C=3.0, kernel="rbf", gamma=0.5, tol=1e-8).fit(X, y)
    assert_allclose(ours.latent(X) - ours.thresholds_, theirs.decision_function(X), atol=1e-4)
    assert_array_equal(ours.support_, np.sort(theirs.support_))


def test_ordered_thresholds_can_bind():
    """With fixed margins alone thresholds cross on these rows; explicit constraints keep order."""
    X, _ = make_data(60)
    y = np.searchsorted([-1.0, 0.2, 0.4], X[:, 0] + X[:, 1] ** 2 - 1)
    free = OrdinalSVC(RBF(1.0), constraints="fixed_margin", C=0.1).fit(X, y)
    kept = OrdinalSVC(RBF(1.0), constraints="explicit", C=0.1).fit(X, y)
    assert np.diff(free.thresholds_).min() < -0.01
    assert np.diff(kept.thresholds_).min() > -1e-7


def test_few_features_are_nearly_all():
    X, y = make_data(400, r=4)
    whole = OrdinalSVC(RBF(2.0), rank=None).fit(X, y)
    part = OrdinalSVC(RBF(2.0), rank=25).fit(X, y)
    assert len(part.centres_) == 25
    assert_allclose(part.latent(X), whole.latent(X), atol=0.1)
    assert np.mean(part.predict(X) == whole.predict(X)) > 0.97


def test_pivots_give_the_whole_matrix():
    X = np.random.default_rng(0).normal(size=(80, 2))
    K = RBF(0.7)(X)
    whole = pivoted_cholesky(lambda j: K[:, j], np.diagonal(K))
    assert whole.complete
    assert_allclose(whole.matrix @ whole.matrix.T, K, atol=1e-5)
    part = pivoted_cholesky(lambda j: K[:, j], np.diagonal(K), 10)
    assert not part.complete
    nystrom = K[:, part.pivots] @ np.linalg.solve(
        K[np.ix_(part.pivots, part.pivots)], K[part.pivots]
    )
    assert_allclose(part.matrix @ part.matrix.T, nystrom, atol=1e-10)
    weights = np.random.default_rng(1).normal(size=10)
    assert_allclose(K[:, part.pivots] @ part.expansion(weights), part.matrix @ weights, atol=1e-8)


# ----------------------------------------------------------------------------- row by row


@pytest.mark.parametrize("constraints", KINDS)
def test_row_by_row_is_all_at_once(constraints, tmp_path):
    X, y = make_data(300, r=4, noise=0.6)
    options = {"kernel": RBF(1.0), "constraints": constraints, "C": 2.0}
    whole = OrdinalSVC(**options).fit(X, y)
    small = IncrementalOrdinalSVC(**options, chunk_size=40, random_state=0).fit(X, y)
    assert small.n_rounds_ > 1
    grown = IncrementalOrdinalSVC(**options, chunk_size=40, random_state=0)
    for part in np.array_split(np.arange(300), 4):
        grown.partial_fit(X[part], y[part], classes=[0, 1, 2, 3])
    for model in (small, grown):
        # Strong convexity: a relative gap of 1e-8 in an objective of some 300 bounds |w - w*|, and
        # so the latent values, by sqrt(2 * 3e-6).
        assert_allclose(model.latent(X), whole.latent(X), atol=2.5e-3)
        assert_allclose(model.thresholds_, whole.thresholds_, atol=2.5e-3)
        assert_array_equal(model.predict(X), whole.predict(X))
        assert len(np.setxor1d(model.support_, whole.support_)) <= 2  # a multiplier near zero
        assert model.n_rows_seen_ == 300
        model.save(tmp_path / "model.ogp")
        loaded = ordinalgp.load(tmp_path / "model.ogp")
        assert_array_equal(loaded.latent(X), model.latent(X))


def test_later_levels_are_learned():
    X, y = make_data(150)
    options = {"kernel": RBF(1.0), "C": 10.0}
    model = IncrementalOrdinalSVC(**options).partial_fit(X[y < 2], y[y < 2], [0, 1, 2])
    assert_array_equal(model.classes_, [0, 1])
    assert model.thresholds_[-1] == np.inf  # no row, no room
    model.partial_fit(X[y == 2], y[y == 2])
    assert_allclose(model.latent(X), OrdinalSVC(**options).fit(X, y).latent(X), atol=2.5e-3)
    with pytest.raises(ValueError, match="only the levels of categories"):
        model.partial_fit(X[:3], [0, 1, 7])
    assert model.n_rows_seen_ == 150


# ----------------------------------------------------------------------------- discriminant


def literal_discriminant(K, y, u):
    """Sun et al. (2010) as printed: H, means, the dual by brute force, halfway thresholds."""
    n, r = len(y), y.max() + 1
    H, means = u * np.eye(n), []
    for k in range(r):
        Kk, nk = K[:, y == k], np.sum(y == k)
        H += Kk @ (np.eye(nk) - np.ones((nk, nk)) / nk) @ Kk.T
        means.append(Kk.mean(axis=1))
    means = np.array(means)
    d = np.diff(means, axis=0)
    Q = d @ np.linalg.solve(H, d.T)
    candidates = []
    for k in range(1, r):  # which multipliers are above zero: try all
        for some in map(list, combinations(range(r - 1), k)):
            a = np.zeros(r - 1)
            a[some] = np.linalg.solve(Q[np.ix_(some, some)], np.ones(k))
            if np.all(a >= 0):
                candidates.append(a / a.sum())
    best = min(candidates, key=lambda a: a @ Q @ a)
    assert np.all(Q @ best >= best @ Q @ best * (1 - 1e-9))  # no other multiplier would gain
    beta = np.linalg.solve(H, best @ d)
    return K @ beta, (means[1:] + means[:-1]) @ beta / 2


@pytest.mark.parametrize("r", [2, 3, 5])
@pytest.mark.parametrize("u", [1e-3, 1.0])
def test_the_discriminant_is_the_literal_one(r, u):
    X, y = make_data(60, r=r, seed=2, noise=0.5)
    K = RBF(1.0)(X)
    f, cuts = literal_discriminant(K, y, u)
    model = KernelDiscriminantOrdinal(RBF(1.0), regularization=u).fit(X, y)
    scale = np.std(model.latent(X)) / np.std(f)  # C, and so the scale, is free
    assert_allclose(model.latent(X), scale * f, atol=1e-4 * np.std(f) * scale)
    assert_allclose(model.thresholds_, scale * cuts, atol=1e-4 * np.std(f) * scale)
    assert np.all(np.diff(model.thresholds_) > 0)
    mean = [model.latent(X)[y == k].mean() for k in range(r)]
    assert_allclose(np.diff(mean).min(), model.separation_, rtol=1e-5)


def test_the_discriminant_with_few_features():
    X, y = make_data(400, r=4)
    whole = KernelDiscriminantOrdinal(RBF(2.0), regularization=1.0).fit(X, y)
    part = KernelDiscriminantOrdinal(RBF(2.0), regularization=1.0, rank=40).fit(X, y)
    assert len(part.centres_) == 40
    assert np.mean(part.predict(X) == whole.predict(X)) > 0.95


# ----------------------------------------------------------------------------- all of them


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_weights_are_copies(model):
    X, y = make_data(60)
    counts = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = model.set_params(kernel=RBF(1.5)).fit(X, y, sample_weight=counts)
    latent, cuts = weighted.latent(X), weighted.thresholds_
    copied = model.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert_allclose(copied.latent(X), latent, rtol=1e-4, atol=1e-4)
    assert_allclose(copied.thresholds_, cuts, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_named_levels_without_rows(model):
    X, y = make_data()
    names = np.array(LEVELS)[y]
    levels = ["none", "low", "some", "mid", "high", "top"]
    plain = type(model)(RBF(1.5), categories=LEVELS).fit(X, names)
    padded = type(model)(RBF(1.5), categories=levels).fit(X, names)
    assert_array_equal(plain.predict(X), padded.predict(X))
    assert_array_equal(plain.categories_, LEVELS)
    assert plain.score(X, names) > 0.8
    assert padded.thresholds_.shape == (5,)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_saved_models_come_back(model, tmp_path):
    X, y = make_data(80)
    model = type(model)(RBF(1.5)).fit(X[:60], y[:60])
    model.save(tmp_path / "model.ogp")
    loaded = ordinalgp.load(tmp_path / "model.ogp")
    assert_array_equal(loaded.latent(X), model.latent(X))
    assert_array_equal(loaded.thresholds_, model.thresholds_)
    if hasattr(model, "partial_fit"):
        for one in (model, loaded):
            one.set_params(random_state=0).partial_fit(X[60:], y[60:])
        assert_array_equal(loaded.latent(X), model.latent(X))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("thresholds", np.zeros(3), "the thresholds and the levels disagree"),
        ("thresholds", np.array([0.0, np.nan]), "the thresholds and the levels disagree"),
        ("coefficients", np.zeros(1), "coefficients has kind f and shape"),
        ("centres", np.full((60, 2), np.inf), "the inputs and the rest of the model disagree"),
        ("support", np.array([-1]), "support must lie from 0"),
        ("rows.first_row", np.full(60, 99), "first_row and the rest of the model disagree"),
        ("rows.codes", np.full(60, 3), "codes must lie from 0 to below 3"),
        ("n_rounds", "two", "n_rounds must be a int"),
    ],
)
def test_a_file_whose_parts_disagree_is_refused(name, value, reason):
    X, y = make_data(60)
    model = IncrementalOrdinalSVC(C=1e-3).fit(X, y)
    assert len(model.centres_) == 60  # all margins bind
    with pytest.raises(ValueError, match=reason):
        with_field(model, name, value)


def test_grid_search():
    X, y = make_data(90)
    grid = {"kernel": [RBF(0.01), RBF(1.5)], "C": [1.0, 10.0]}
    assert GridSearchCV(OrdinalSVC(), grid, cv=3).fit(X, y).best_params_["kernel"] == RBF(1.5)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (OrdinalSVC(constraints="none"), "constraints must be one of"),
        (OrdinalSVC(C=0), "C must be a number above 0"),
        (OrdinalSVC(rank="all"), "rank must be one of"),
        (OrdinalSVC(rank=0), "rank must be a number of at least 1"),
        (OrdinalSVC(tol=0), "tol must be a number above 0"),
        (OrdinalSVC(max_iter=0), "max_iter must be a number of at least 1"),
        (OrdinalSVC(RBF() + WhiteKernel()), "adds noise of its own"),
        (OrdinalSVC(max_iter=10.0), "max_iter must be a whole number"),
        (IncrementalOrdinalSVC(chunk_size=2.5), "chunk_size must be a whole number"),
        (IncrementalOrdinalSVC(chunk_size=0), "chunk_size must be a number of at least 1"),
        (KernelDiscriminantOrdinal(regularization=0), "regularization must be a number above 0"),
    ],
)
def test_bad_options_say_what_to_do(model, message):
    X, y = make_data(20)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


@pytest.mark.parametrize("C", [1e5, 1e7, 1e10])
def test_a_very_large_penalty_is_the_hard_margin_of_scikit_learn(C):
    X, y = make_data(80, 2, noise=0.0)
    apart = np.abs(X[:, 0] + 0.5 * X[:, 1] ** 2 - np.median(X[:, 0] + 0.5 * X[:, 1] ** 2)) > 0.1
    ours = OrdinalSVC(RBF(1.0), C=C).fit(X[apart], y[apart])
    theirs = SVC(C=1e6, gamma=0.5, tol=1e-6).fit(X[apart], y[apart])
    assert ours.converged_
    assert_allclose(ours.latent(X) - ours.thresholds_[0], theirs.decision_function(X), atol=0.02)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("C", [1e7, 1e14])
def test_levels_that_can_be_told_apart_are(kind, C):
    X, y = make_data(100, noise=0.0)
    # Rounding may keep the gap above tol; the function is right all the same.
    model = OrdinalSVC(constraints=kind, C=C)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert model.score(X, y) == 1.0
    told = [str(each.message) for each in caught]
    assert model.converged_ or (len(told) == 1 and f"with C={C:g}" in told[0])
    assert all("lower C" in each or "Raise max_iter" in each for each in told)


def test_too_few_steps_ask_for_more():
    with pytest.warns(ConvergenceWarning, match=r"after 2 steps, with C=1. Raise max_iter\."):
        OrdinalSVC(max_iter=2).fit(*make_data(40))


@pytest.mark.parametrize("seed", range(30))
def test_cuts_are_the_middle_of_the_best(seed):
    """Against the objective at every breakpoint and between them."""
    rng = np.random.default_rng(seed)
    n, codes = 12, rng.permutation(np.arange(12) % 3)
    f = np.round(rng.normal(size=n), 1) if seed % 2 else rng.normal(size=n)
    rows = margins(codes, rng.integers(1, 3, n) * 1.0, np.arange(n), "fixed_margin")
    for cut, found in enumerate(middle_cuts(f, rows)):
        mine = rows.cut == cut
        s, c, at = rows.sign[mine], rows.cost[mine], f[rows.input[mine]]

        def cost(b, s=s, c=c, at=at):
            return np.maximum(0.0, 1.0 - s * (at - b)) @ c

        breaks = np.sort(at - s)
        values = np.array([cost(b) for b in breaks])
        best = breaks[values <= values.min() + 1e-9]
        assert_allclose(found, 0.5 * (best[0] + best[-1]), atol=1e-9)
        assert cost(found) <= values.min() + 1e-9


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_a_rough_tolerance_needs_fewer_functions(C):
    """What is left out of a smooth kernel is within the tolerance that was asked for."""
    X, y = make_data(150, 3)
    whole = OrdinalSVC(RBF(5.0), C=C, tol=1e-9).fit(X, y)
    rough = OrdinalSVC(RBF(5.0), C=C, tol=1e-4).fit(X, y)
    size = np.ptp(whole.latent(X))
    assert_allclose(rough.latent(X), whole.latent(X), atol=2e-2 * size)
    assert np.mean(rough.predict(X) == whole.predict(X)) > 0.98
