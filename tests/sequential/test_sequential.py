"""Sequential models against binary models, refits and generated processes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.gp.common import make_data
from tests.gp.test_scikit_learn import NEEDS_AN_ORDER

from ordinalgp import OrdinalGPClassifier, SequentialOrdinalGP, load
from ordinalgp.kernels import Additive
from ordinalgp.runtime.progress import listening
from ordinalgp.sequential.model import splits

DIRECTIONS = ["middle", "up", "down"]


@parametrize_with_checks(
    [SequentialOrdinalGP()], expected_failed_checks=lambda estimator: NEEDS_AN_ORDER
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def binary(model, X, y, step, weights=None, **options):
    """The step fitted as a classifier of its own."""
    within = (step.low <= y) & (y < step.high)
    kept = OrdinalGPClassifier(model.kernel, inference=model.inference, **options)
    w = None if weights is None else weights[within]
    return kept.fit(X[within], (y[within] >= step.cut).astype(int), w), within


# ------------------------------------------------------------------------------- the steps


def test_the_steps_of_each_direction():
    counts = np.array([5.0, 1, 1, 5])
    assert splits(counts, "up") == [(0, 1, 4), (1, 2, 4), (2, 3, 4)]
    assert splits(counts, "down") == [(0, 3, 4), (0, 2, 3), (0, 1, 2)]
    assert splits(counts, "middle") == [(0, 2, 4), (0, 1, 2), (2, 3, 4)]
    assert splits(np.array([9.0, 1, 1]), "middle") == [(0, 1, 3), (1, 2, 3)]
    assert splits(np.array([1.0, 0, 0, 0, 0]), "middle")[0] == (0, 1, 5)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_any_steps_lead_to_every_level_once(direction):
    rng = np.random.default_rng(0)
    for r in range(2, 12):
        counts = rng.integers(0, 5, r).astype(float)
        leaves = np.zeros(r)
        found = splits(counts, direction)
        assert len(found) == r - 1
        for low, cut, high in found:
            for a, b in ((low, cut), (cut, high)):
                leaves[a:b] += b - a == 1
        assert_array_equal(leaves, 1)


def test_the_middle_counts_weights():
    X, y = make_data(n=30, r=3)
    model = SequentialOrdinalGP(RBF(1.0), optimizer=None)
    heavy = clone(model).fit(X, y, np.where(y == 0, 50, 1))
    assert [step.split for step in heavy.steps_] == [(0, 1, 3), (1, 2, 3)]
    heavy = clone(model).fit(X, y, np.where(y == 2, 50, 1))
    assert [step.split for step in heavy.steps_] == [(0, 2, 3), (0, 1, 2)]


# ------------------------------------------------------------------- against binary models


@pytest.mark.parametrize("inference", ["ep", "laplace"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_evidence_is_the_sum_and_probability_the_product(direction, inference):
    X, y = make_data(n=60, r=4, noise=0.6)
    model = SequentialOrdinalGP(direction=direction, inference=inference).fit(X, y)
    value, proba = 0.0, np.ones((60, 4))
    for step in model.steps_:
        alone, _ = binary(model, X, y, step)
        value += alone.log_marginal_likelihood_value_
        two = alone.predict_proba(X)
        proba[:, step.low : step.cut] *= two[:, :1]
        proba[:, step.cut : step.high] *= two[:, 1:]
    assert_allclose(model.log_marginal_likelihood_value_, value, rtol=1e-9)
    assert_allclose(model.category_proba(X), proba, rtol=0, atol=1e-9)
    assert_allclose(proba.sum(axis=1), 1)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_two_levels_are_the_threshold_model(direction):
    X, y = make_data(n=40, r=2)
    ours = SequentialOrdinalGP(direction=direction).fit(X, y)
    threshold = OrdinalGPClassifier().fit(X, y)
    assert_allclose(ours.predict_proba(X), threshold.predict_proba(X), rtol=1e-10)
    assert_allclose(ours.loo_proba(), threshold.loo_proba(), rtol=1e-10)


def refitted(model, X, y, weights, i):
    """Probabilities of row ``i`` by steps fitted without one copy of it."""
    left = weights - (np.arange(len(y)) == i)
    proba = np.ones(len(model.categories_))
    for step in model.steps_:
        held = {"likelihood": step.model.likelihood, "optimizer": None, "tol": 1e-9}
        at_row = clone(model).set_params(kernel=step.model.kernel)
        two = binary(at_row, X, y, step, left, **held)[0].predict_proba(X[i : i + 1])[0]
        proba[step.low : step.cut] *= two[0]
        proba[step.cut : step.high] *= two[1]
    return proba


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_leave_one_out_against_refits(direction):
    X, y = make_data(n=36, r=3, noise=0.5)
    weights = np.where(np.arange(36) % 7, 1.0, 2.0)
    model = SequentialOrdinalGP(Matern(1.5, nu=1.5), direction=direction).fit(X, y, weights)
    truth = np.array([refitted(model, X, y, weights, i) for i in range(36)])
    error = np.abs(model.loo_proba() - truth).max(axis=1)
    in_sample = np.abs(model.predict_proba(X) - truth).max(axis=1)
    assert np.median(error) < 0.02
    assert error.max() < 0.15
    assert np.median(error) < np.median(in_sample) / 3


def test_rows_of_weight_zero_are_predicted_like_new_ones():
    X, y = make_data(n=30, r=3)
    weights = np.ones(30)
    weights[[0, 7, 29]] = 0
    model = SequentialOrdinalGP(RBF(1.0), optimizer=None).fit(X, y, weights)
    unused = weights == 0
    assert_allclose(model.loo_proba()[unused], model.predict_proba(X[unused]), rtol=1e-8)
    assert np.all(np.abs(model.loo_proba() - model.predict_proba(X)).max(axis=1)[~unused] > 1e-7)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_weights_are_copies(direction):
    X, y = make_data(n=25, r=4)
    copies = np.random.default_rng(0).integers(1, 4, 25)
    model = SequentialOrdinalGP(direction=direction)
    weighted = clone(model).fit(X, y, copies)
    repeated = clone(model).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    assert_allclose(weighted.category_proba(X), repeated.category_proba(X), rtol=0, atol=1e-9)
    loo = np.repeat(weighted.loo_proba(), copies, axis=0)
    assert_allclose(loo, repeated.loo_proba(), rtol=0, atol=1e-9)


# ------------------------------------------------------------------------- known processes


def process(n, seed=0):
    """Levels drawn upwards: P(y > 0) by one function of x, P(y > 1 | y > 0) by another."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 1))
    up = [ndtr(1.2 * np.sin(2 * X[:, 0])), ndtr(0.8 - X[:, 0] ** 2)]
    proba = np.column_stack([1 - up[0], up[0] * (1 - up[1]), up[0] * up[1]])
    return X, (rng.random(n)[:, None] > proba.cumsum(axis=1)).sum(axis=1), proba


def test_a_sequential_process_is_recovered():
    X, y, truth = process(500)
    error = {}
    for name, model in {
        "up": SequentialOrdinalGP(direction="up"),
        "thresholds": OrdinalGPClassifier(),
    }.items():
        found = model.fit(X, y).category_proba(X)
        error[name] = np.abs(found - truth).mean()
    assert error["up"] < 0.04
    assert error["thresholds"] > 2 * error["up"]  # one function cannot describe it


# --------------------------------------------------------------------------- missing sides


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("shown", [[1, 3], [0, 1], [4, 5], [0, 5], [0, 2, 3]], ids=str)
def test_absent_levels_keep_their_column(direction, shown):
    X, y = make_data(n=40, r=len(shown))
    y = np.array(shown)[y]
    model = SequentialOrdinalGP(RBF(1.0), direction=direction, categories=range(6)).fit(X, y)
    proba, absent = model.category_proba(X), np.setdiff1d(range(6), shown)
    assert proba.shape == (40, 6)
    assert np.all(proba > 0)
    assert_allclose(proba.sum(axis=1), 1)
    assert np.all(proba[:, absent] < 0.5 / np.bincount(y)[shown].min())
    assert sum(step.model is not None for step in model.steps_) == len(shown) - 1
    assert model.loo_proba().shape == (40, len(shown))
    assert set(model.predict(X)) <= set(shown)


def test_a_step_with_rows_on_one_side_leaves_a_row_out_too():
    X, y = make_data(n=12, r=2)
    model = SequentialOrdinalGP(RBF(1.0), optimizer=None, direction="up", categories=[0, 1, 2])
    top = model.fit(X, y).steps_[1]
    n = int(np.sum(y == 1))
    assert_allclose(top.probabilities(X)[0], [(n + 0.5) / (n + 1), 0.5 / (n + 1)])
    within = y == 1
    left = top.left_out_probabilities(X, within)
    assert_allclose(left[within], [[(n - 0.5) / n, 0.5 / n]] * n)
    assert_allclose(left[~within], top.probabilities(X[~within]))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_one_row_for_each_level(direction):
    X = np.random.default_rng(0).normal(size=(6, 2))
    model = SequentialOrdinalGP(direction=direction).fit(X, np.arange(6))
    assert np.isfinite(model.predict_log_proba(X)).all()
    assert_allclose(model.loo_proba().sum(axis=1), 1)


# ------------------------------------------------------------------------------- the rest


def test_steps_in_parallel_are_the_same():
    X, y = make_data(n=40, r=3)
    seen = []
    one = SequentialOrdinalGP(Additive(1.0)).fit(X, y)
    with listening(seen.append):
        two = SequentialOrdinalGP(Additive(1.0), n_jobs=2).fit(X, y)
    assert_allclose(two.category_proba(X), one.category_proba(X), rtol=1e-10)
    assert [(p.stage, p.step, p.total, p.done) for p in seen] == [
        ("model", 1, 2, False),
        ("model", 2, 2, True),
    ]


@pytest.mark.parametrize("inducing", [8, "auto"])
def test_many_rows_take_inducing_points(inducing, tmp_path):
    X, y = make_data(n=60, r=3, noise=0.5)
    model = SequentialOrdinalGP(RBF(1.5), inducing=inducing, random_state=0)
    if inducing == "auto":
        settings = type(model)._settings
        model._settings = type(settings)(exact_rows=50, auto_points=10)
    model.fit(X, y)
    kinds = [type(step.model).__name__ for step in model.steps_]
    assert kinds[0] == "InducedGP"
    truth = SequentialOrdinalGP(RBF(1.5), inducing=None).fit(X, y)
    assert np.abs(model.loo_proba() - truth.loo_proba()).mean() < 0.1
    model.save(tmp_path / "model.ogp")
    loaded = load(tmp_path / "model.ogp")
    assert_array_equal(loaded.loo_proba(), model.loo_proba())
    assert_array_equal(loaded.category_proba(X), model.category_proba(X))


def test_there_is_no_single_latent_function():
    model = SequentialOrdinalGP()
    assert hasattr(model, "loo_proba")
    assert not hasattr(model, "latent_mean_and_variance")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"direction": "sideways"}, "direction must be one of 'up', 'down', 'middle'"),
        ({"likelihood": "gauss"}, "likelihood must be one of"),
        ({"inference": "exact"}, "inference must be one of"),
        ({"inducing": 0}, "inducing must be a number of at least 1"),
    ],
)
def test_bad_options(options, message):
    X, y = make_data()
    with pytest.raises(ValueError, match=message):
        SequentialOrdinalGP(**options).fit(X, y)


@pytest.mark.parametrize(
    "steps", [[0], [0, 0], [1, 0], []], ids=["too few", "twice", "out of order", "none"]
)
def test_a_file_whose_steps_do_not_fit_is_refused(steps, tmp_path):
    X, y = make_data(n=20, r=3)
    model = SequentialOrdinalGP(RBF(1.0), optimizer=None, direction="up").fit(X, y)
    broken = type(model._result.model)(
        tuple(model.steps_[i] for i in steps), model._result.model.left_out
    )
    object.__setattr__(model._result, "model", broken)
    model.save(tmp_path / "model.ogp")
    with pytest.raises(ValueError, match="the steps"):
        load(tmp_path / "model.ogp")


# ------------------------------------------------------------------------------- effects


def test_effects_are_averages_with_the_feature_set_in_all_rows():
    X, y = make_data(n=40, d=3)
    model = SequentialOrdinalGP(RBF(1.5), optimizer=None).fit(X, y)
    found = model.effects(X)
    assert found.mean.shape == found.std.shape == (40, 3, len(model.categories_))
    for row, feature in [(0, 0), (7, 1), (39, 2)]:
        varied = X.copy()
        varied[:, feature] = X[row, feature]
        own = model.category_proba(varied).mean(axis=0)
        assert_allclose(found.mean[row, feature], own, rtol=0, atol=1e-12)
        drawn = model.sample_proba(varied, 4000, random_state=1).mean(axis=1)
        # 200 draws know a standard deviation to a twentieth; 30 % are six of these.
        assert_allclose(found.std[row, feature], drawn.std(axis=0), rtol=0.3, atol=1e-4)


def test_effects_of_many_values_are_interpolated():
    X, y = make_data(n=90, d=2)
    model = SequentialOrdinalGP(RBF(1.5), optimizer=None).fit(X, y)
    found = model.effects(X).mean
    varied = np.repeat(X[None], len(X), axis=0)
    varied[:, :, 0] = X[:, :1]
    exact = model.category_proba(varied.reshape(-1, 2)).reshape(90, 90, -1).mean(axis=1)
    assert_allclose(found[:, 0], exact, rtol=0, atol=0.01)
    assert_allclose(found.sum(axis=2), 1, rtol=0, atol=1e-12)


def test_effects_find_the_feature_that_moves_the_levels():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 3))
    y = np.digitize(X[:, 1] + 0.3 * X[:, 2], [-0.5, 0.5])
    model = SequentialOrdinalGP(RBF(2.0)).fit(X, y)
    size = model.effects(X).size
    assert size[1] > size[2] > size[0]
    grouped = model.effects(X, groups={"both": [1, 2], "none": [0]})
    assert grouped.feature_names == ["both", "none"]
    assert grouped.size[0] > size[1]
