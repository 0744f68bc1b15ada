"""The parameters ``hyperprior`` and ``noise_bounds`` of every estimator that searches."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from ordinalgp import LeastSquaresOrdinalClassifier, OrdinalGPClassifier, PreferenceGP, load
from ordinalgp.hyperpriors import HyperPrior
from ordinalgp.kernels import ARDLinear, PerColumn
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.metrics import log_score

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 3))
Y = np.digitize(X[:, 0] + 0.4 * RNG.normal(size=40), [-0.6, 0.4])
PAIRS = RNG.permutation(np.column_stack([np.arange(40), (np.arange(40) * 7 + 3) % 40]))
WINNER = np.where(X[PAIRS[:, 0], 0] > X[PAIRS[:, 1], 0], 1, -1)
KERNEL = ConstantKernel(2.0) * RBF([1.0, 2.0, 3.0])
PRIOR = HyperPrior(0.5, noise=(-1.0, 0.7), amplitudes=(0.0, 1.0))
ESTIMATORS = {
    "ep": lambda **more: OrdinalGPClassifier(KERNEL, **more),
    "laplace": lambda **more: OrdinalGPClassifier(KERNEL, inference="laplace", **more),
    "bound": lambda **more: OrdinalGPClassifier(KERNEL, objective="bound", **more),
    "inducing": lambda **more: OrdinalGPClassifier(KERNEL, inducing=9, random_state=0, **more),
    "least squares": lambda **more: LeastSquaresOrdinalClassifier(KERNEL, random_state=0, **more),
    "preference": lambda **more: PreferenceGP(KERNEL, **more),
}


def fit(model):
    if isinstance(model, PreferenceGP):
        return model.fit(X, PAIRS, WINNER)
    return model.fit(X, Y)


def objective(model, theta=None):
    """Value and gradient of the objective of the search."""
    if isinstance(model, LeastSquaresOrdinalClassifier):
        return model.loo_log_probability(theta, eval_gradient=True)
    return model.log_marginal_likelihood(theta, eval_gradient=True)


def path(model):
    least_squares = isinstance(model, LeastSquaresOrdinalClassifier)
    return model.objective_path_ if least_squares else model.evidence_path_


@pytest.mark.parametrize("name", ESTIMATORS)
def test_value_and_gradient_gain_those_of_the_prior(name):
    least_squares = name == "least squares"  # exact
    options = {"optimizer": None, **({} if least_squares else {"tol": 1e-10})}
    with_prior, flat = (fit(ESTIMATORS[name](hyperprior=p, **options)) for p in (PRIOR, None))
    task = with_prior._result.model.task
    theta = task.theta + 0.1
    (value, slope), (plain, plain_slope) = objective(with_prior, theta), objective(flat, theta)
    there = task.at(theta)
    density, gradient = PRIOR.log_density(there.kernel, there.likelihood)
    assert_allclose(value - plain, density, rtol=1e-9)
    assert_allclose(slope - plain_slope, gradient, rtol=1e-6, atol=1e-9)
    assert np.max(np.abs(gradient)) > 0.1


def test_the_prior_counts_columns_and_not_their_features():
    """Three log length scales around their mean, and relevances with twice the deviation."""
    kernel = PerColumn(RBF([1.0, 2.0, 4.0]) + ARDLinear([1.0, 8.0, 1.0]), [0, 1, 1, 1, 2])
    likelihood = OrdinalGPClassifier(optimizer=None).fit(X, Y).likelihood_
    value, slope = HyperPrior(0.5).log_density(kernel, likelihood)
    expected = norm.logpdf(np.log([0.5, 1.0, 2.0]), 0.0, 0.5).sum()
    expected += norm.logpdf(np.log([1.0, 8.0, 1.0]), np.log(2.0), 1.0).sum()
    assert_allclose(value, expected)
    assert_allclose(slope[:6], np.log([2.0, 1.0, 0.5, 2.0, 0.25, 2.0]) * [4, 4, 4, 1, 1, 1])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_flat_prior_is_none_to_the_bit(name):
    flat, none = (fit(ESTIMATORS[name](hyperprior=p)) for p in (HyperPrior(None), None))
    assert_array_equal(path(flat), path(none))
    assert_array_equal(flat.kernel_.theta, none.kernel_.theta)
    assert_array_equal(flat.likelihood_.theta, none.likelihood_.theta)


@pytest.mark.parametrize("name", sorted({*ESTIMATORS} - {"inducing"}))  # its points move after
def test_the_search_ends_where_the_penalised_slope_vanishes(name):
    model, none = (fit(ESTIMATORS[name](hyperprior=p)) for p in (PRIOR, None))
    theta, bounds = model._result.model.task.theta, model._result.model.task.bounds
    inside = np.all(np.abs(bounds.T - theta) > 1e-6, axis=0)
    assert_allclose(objective(model)[1][inside], 0.0, atol=0.02)
    spreads = [np.std(m.kernel_.theta[1:]) for m in (model, none)]
    assert spreads[0] < spreads[1]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_saved_and_loaded_it_is_the_same(name, tmp_path):
    model = fit(ESTIMATORS[name](hyperprior=PRIOR))
    model.save(tmp_path / "model.ogp")
    found = load(tmp_path / "model.ogp")
    assert found.hyperprior == PRIOR
    assert found._result.model.task.hyperprior == PRIOR
    if name != "inducing":  # keeps no rows in a file
        (value, slope), (value_too, slope_too) = objective(model), objective(found)
        assert value == value_too
        assert_array_equal(slope, slope_too)


def test_weights_are_repetitions():
    weights = np.arange(40) % 3
    one = OrdinalGPClassifier(KERNEL, hyperprior=PRIOR).fit(X, Y, weights)
    other = OrdinalGPClassifier(KERNEL, hyperprior=PRIOR).fit(
        X.repeat(weights, 0), Y.repeat(weights)
    )
    assert_allclose(one.log_marginal_likelihood_value_, other.log_marginal_likelihood_value_)
    assert_allclose(one.kernel_.theta, other.kernel_.theta, atol=1e-4)


def test_the_leave_one_out_score_is_that_of_the_rows():
    model = LeastSquaresOrdinalClassifier(KERNEL, hyperprior=PRIOR).fit(X, Y)
    assert_allclose(model.loo_log_score_, log_score(Y, model.loo_proba()))


@pytest.mark.parametrize("inference", ["ep", "laplace"])
@pytest.mark.parametrize("own", [False, True])
def test_passes_over_all_rows_end_at_the_penalised_maximum(inference, own):
    """Against the slope of the objective of all rows at once, which knows no passes."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 2))
    y = np.digitize(np.sin(2 * rows[:, 0]) + 0.4 * rng.normal(size=2000), [-0.7, 0.0, 0.7])
    prior = ThresholdPrior() if own else HyperPrior(noise=(0.0, 0.05))
    settings = ManyRowsSettings(subset_rows=100, sample_rows=300, chunk_rows=500, promise=1e-9)
    settings = replace(settings, promise_few_rows=1e-9)
    model = OrdinalGPClassifier(
        RBF([1.0, 1.0]), inducing=20, random_state=0, hyperprior=prior, inference=inference
    )
    model.many_rows_settings = settings
    model.fit(rows, y)
    assert model.n_iter_ > 2
    value, slope = model.log_marginal_likelihood(eval_gradient=True)
    assert_allclose(value, model.log_marginal_likelihood_value_, atol=1e-2)
    pull = np.max(np.abs(prior.log_density(model.kernel_, model.likelihood_)[1][2:]))
    assert pull > 5
    assert_allclose(slope[2:], 0.0, atol=0.02 * pull)


class ThresholdPrior:
    """A prior of a user's own: on the first threshold, and on all gaps together."""

    def log_density(self, kernel, likelihood):
        theta, gradient = likelihood.theta, np.zeros(kernel.n_dims + len(likelihood.theta))
        gradient[kernel.n_dims + 1 :] = (-3.0 - theta[1]) / 0.3**2, *(-0.2 - theta[2:]) / 0.1**2
        value = norm.logpdf(theta[1], -3.0, 0.3) + np.sum(norm.logpdf(theta[2:], -0.2, 0.1))
        return float(value), gradient


def test_an_object_of_ones_own_is_a_prior():
    model = OrdinalGPClassifier(RBF(2.0), hyperprior=ThresholdPrior()).fit(X, Y)
    assert abs(model.likelihood_.theta[1] + 3.0) < 0.5


@pytest.mark.parametrize("wrong", [HyperPrior, 0.5, "normal"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_prior_at_all_is_refused(name, wrong):
    with pytest.raises(TypeError, match="hyperprior must be None or an object"):
        fit(ESTIMATORS[name](hyperprior=wrong))


# --------------------------------------------------------------------------- noise bounds


def noise_in_prior_deviations(model):
    """Standard deviation of the noise over that of the latent function at the start."""
    if isinstance(model, LeastSquaresOrdinalClassifier):
        return model.noise_  # in ranks
    logistic = np.pi / np.sqrt(3 if isinstance(model, OrdinalGPClassifier) else 6)
    sd = model.noise_ * (logistic if model.likelihood == "logit" else 1.0)
    return sd / np.sqrt(2.0)


BOUNDED = {
    **ESTIMATORS,
    "logit": lambda **more: OrdinalGPClassifier(KERNEL, likelihood="logit", **more),
    "preference, logit": lambda **more: PreferenceGP(KERNEL, likelihood="logit", **more),
}


@pytest.mark.parametrize("bounds", [(0.9, 1.1), (4.0, 5.0), (1.3, 1.3)])
@pytest.mark.parametrize("name", BOUNDED)
def test_noise_stays_within_its_bounds(name, bounds, tmp_path):
    model = fit(BOUNDED[name](noise_bounds=bounds))
    assert bounds[0] - 1e-9 <= noise_in_prior_deviations(model) <= bounds[1] + 1e-9
    model.save(tmp_path / "model.ogp")
    found = load(tmp_path / "model.ogp")
    assert_array_equal(found._result.model.task.bounds, model._result.model.task.bounds)


def test_passes_over_all_rows_keep_to_the_bounds():
    model = OrdinalGPClassifier(RBF(1.0), inducing=9, random_state=0, noise_bounds=(1.5, 2.0))
    model.many_rows_settings = ManyRowsSettings(subset_rows=15, sample_rows=20)
    model.fit(X, Y)
    assert model.n_iter_ > 1
    assert_allclose(model.noise_, 1.5)
    _, slope = model.log_marginal_likelihood(eval_gradient=True)
    assert slope[1] < -0.5  # of log noise: held
    assert_allclose(slope[2:], 0.0, atol=0.05)


@pytest.mark.parametrize(
    "wrong", [0.3, (0.0, 1.0), (2.0, 1.0), (0.1, np.inf), ("a", "b"), (1, 2, 3)]
)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_wrong_bounds_are_refused(name, wrong):
    with pytest.raises(ValueError, match="noise_bounds must be None or a pair"):
        fit(ESTIMATORS[name](noise_bounds=wrong))


def test_gaps_near_their_mean_widen_a_level_with_few_rows():
    """Of five levels of equal width on the latent scale, one is rarely named."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 2, size=(60, 1))
    y = np.digitize(x[:, 0] + 0.2 * rng.normal(size=60), [-1.2, -0.4, 0.4, 1.2])
    rare = np.flatnonzero(y == 2)[1:]
    x, y = np.delete(x, rare, axis=0), np.delete(y, rare)
    flat, drawn = (
        OrdinalGPClassifier(RBF(1.0), hyperprior=prior).fit(x, y).likelihood_.gaps
        for prior in (None, HyperPrior(None, gaps=0.2))
    )
    assert flat[1] < 0.5 * flat.mean()
    assert drawn[1] > 0.6 * drawn.mean()
