"""The search for hyperparameters."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    WhiteKernel,
)
from tests.gp.common import KERNELS, OBJECTIVES, make_data, quick

from ordinalgp import OrdinalGPClassifier


def test_fixed_hyperparameters_stay(inference):
    X, y = make_data()
    kernel = ConstantKernel(1.5, "fixed") * RBF(0.7, "fixed")
    model = OrdinalGPClassifier(kernel, inference=inference).fit(X, y)
    assert model.kernel_ == kernel
    assert model.kernel_.theta.size == 0
    start = clone(model).set_params(optimizer=None).fit(X, y)
    assert model.log_marginal_likelihood_value_ > start.log_marginal_likelihood_value_ + 0.1
    half = RBF(0.7, "fixed") * ConstantKernel(1.5)
    found = OrdinalGPClassifier(half, inference=inference).fit(X, y).kernel_
    assert found.k1.length_scale == 0.7
    assert found.k2.constant_value != 1.5


@pytest.mark.parametrize("bounds", [(0.05, 0.1), (30.0, 50.0)])
def test_bounds_are_honoured(inference, bounds):
    X, y = make_data()
    kernel = RBF(np.mean(bounds), bounds)
    model = OrdinalGPClassifier(kernel, inference=inference).fit(X, y)
    assert bounds[0] * (1 - 1e-9) <= model.kernel_.length_scale <= bounds[1] * (1 + 1e-9)
    low, high = model.likelihood_.bounds.T
    assert np.all((model.likelihood_.theta >= low) & (model.likelihood_.theta <= high))


def test_a_start_outside_the_bounds_is_moved_inside(inference):
    X, y = make_data()
    model = OrdinalGPClassifier(RBF(5.0, (0.5, 2.0)), inference=inference).fit(X, y)
    assert 0.5 * (1 - 1e-9) <= model.kernel_.length_scale <= 2 * (1 + 1e-9)


@pytest.mark.parametrize("variance", [1e-6, 1e6])
def test_the_unit_of_the_latent_function_does_not_matter(inference, variance):
    """Latent variance, noise and thresholds share one scale: the fit may take any."""
    X, y = make_data()
    unit = OrdinalGPClassifier(RBF(), inference=inference).fit(X, y)
    kernel = ConstantKernel(variance, "fixed") * RBF()
    model = OrdinalGPClassifier(kernel, inference=inference).fit(X, y)
    assert_allclose(
        model.log_marginal_likelihood_value_, unit.log_marginal_likelihood_value_, rtol=1e-4
    )
    assert_allclose(model.category_proba(X), unit.category_proba(X), atol=0.01)
    assert_allclose(model.thresholds_ / np.sqrt(variance), unit.thresholds_, atol=0.05)


@pytest.mark.parametrize("kernel", [RBF(3.0), ConstantKernel(0.7) * RBF([3.0, 0.3])], ids=str)
def test_without_an_optimizer_the_kernel_stays(inference, kernel):
    X, y = make_data()
    model = OrdinalGPClassifier(kernel, inference=inference, optimizer=None).fit(X, y)
    assert_allclose(model.kernel_.theta, kernel.theta, rtol=1e-14, atol=1e-15)
    assert model.converged_
    assert len(model.evidence_path_) == 0


def test_a_callable_optimizer_is_used(inference):
    X, y = make_data()
    seen = []

    def climb(obj_func, initial_theta, bounds):
        seen.append((initial_theta.copy(), np.asarray(bounds)))
        result = minimize(obj_func, initial_theta, jac=True, method="L-BFGS-B", bounds=bounds)
        return result.x, result.fun

    model = OrdinalGPClassifier(inference=inference, optimizer=climb).fit(X, y)
    ((start, bounds),) = seen
    assert bounds.shape == (len(start), 2)
    built_in = OrdinalGPClassifier(inference=inference).fit(X, y)
    assert_allclose(
        model.log_marginal_likelihood_value_, built_in.log_marginal_likelihood_value_, rtol=1e-5
    )


def test_a_callable_optimizer_may_do_without_the_gradient(inference):
    """scikit-learn hands its optimisers a function with the flag ``eval_gradient``."""
    X, y = make_data()

    def compass(obj_func, initial_theta, bounds):
        best, value = initial_theta, obj_func(initial_theta, eval_gradient=False)
        assert np.ndim(value) == 0
        assert_allclose(obj_func(initial_theta, eval_gradient=True)[0], value, rtol=1e-6)
        for step in 0.3 * np.vstack([np.eye(len(best)), -np.eye(len(best))]):
            trial = np.clip(best + step, *np.transpose(bounds))
            if obj_func(trial, eval_gradient=False) < value:
                best, value = trial, obj_func(trial, eval_gradient=False)
        return best, value

    model = OrdinalGPClassifier(inference=inference, optimizer=compass).fit(X, y)
    start = OrdinalGPClassifier(inference=inference, optimizer=None).fit(X, y)
    assert model.log_marginal_likelihood_value_ > start.log_marginal_likelihood_value_


@pytest.mark.parametrize("kernel", [None, ConstantKernel() * RBF() + WhiteKernel()], ids=str)
@pytest.mark.parametrize(("inference", "objective"), OBJECTIVES)
def test_every_corner_of_the_bounds_has_a_value(inference, objective, kernel):
    X, y = make_data(n=12)
    values = []

    def visit(obj_func, initial_theta, bounds):
        for corner in itertools.product(*bounds):
            value, gradient = obj_func(np.array(corner))
            assert np.isfinite(value)
            assert np.isfinite(gradient).all()
            values.append(-value)
        return initial_theta, obj_func(initial_theta)[0]

    model = OrdinalGPClassifier(kernel, inference=inference, objective=objective, optimizer=visit)
    model.fit(X, y)
    assert len(values) == 2 ** len(np.r_[model.kernel_.theta, model.likelihood_.theta])
    assert model.log_marginal_likelihood_value_ >= max(values) - 1e-6
    assert np.isfinite(model.category_proba(X)).all()


@pytest.mark.parametrize(("inference", "objective"), OBJECTIVES)
@pytest.mark.parametrize("kernel", ["default", "matern", "linear"])
def test_the_search_ends_higher_than_it_began(inference, objective, kernel):
    X, y = make_data(n=25, r=4)
    options = {"inference": inference, "objective": objective}
    options["noise_bounds"] = (1e-3, 1e3)  # of any width: a single search, its maximum unchecked
    model = OrdinalGPClassifier(KERNELS[kernel], **options).fit(X, y)
    start = OrdinalGPClassifier(KERNELS[kernel], optimizer=None, **options).fit(X, y)
    value = model.log_marginal_likelihood_value_
    assert value > start.log_marginal_likelihood_value_
    assert_allclose(model.evidence_path_[0], start.log_marginal_likelihood_value_, rtol=1e-6)
    assert value >= model.evidence_path_.max() - 1e-5 * abs(value)


@pytest.mark.parametrize(("verbose", "lines"), [(0, 0), (1, 1), (2, 2)])
def test_verbose_speaks_on_the_error_stream(capsys, verbose, lines):
    X, y = make_data(n=15)
    model = OrdinalGPClassifier(inference="laplace", verbose=verbose).fit(X, y)
    out, err = capsys.readouterr()
    assert out == ""
    assert (len(err.splitlines()) >= lines) if lines else err == ""
    assert err.count("converged:") == (verbose > 0)
    expected = [0, 1, len(model.evidence_path_) + 1][verbose]
    assert err.count("search: evaluation ") == expected


@pytest.mark.parametrize("scale", [1e10, 1e5, 1e-10])
def test_the_default_kernel_survives_unscaled_features(inference, scale):
    X, y = make_data()
    model = OrdinalGPClassifier(inference=inference).fit(scale * X, y)
    assert np.isfinite(model.log_marginal_likelihood_value_)
    proba = model.category_proba(np.vstack([scale * X, X, 0 * X]))
    assert np.isfinite(proba).all()
    assert_allclose(proba.sum(axis=1), 1, rtol=1e-9)


def test_an_unfinished_inference_warns(inference):
    X, y = make_data()
    with pytest.warns(ConvergenceWarning, match=rf"{inference}: sites still move .*max_sweeps"):
        model = quick(inference=inference, max_sweeps=2, tol=1e-12).fit(X, y)
    assert not model.converged_
    assert model.n_iter_ == 2
