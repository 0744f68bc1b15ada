"""Priors on hyperparameters: values against scipy, gradients against central differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.ordinal_logit import OrdinalLogit
from ordinalgp.hyperpriors import HyperPrior
from ordinalgp.kernels import ARDLinear
from ordinalgp.preference.symmetric_thresholds import SymmetricLogit, SymmetricProbit

LENGTHS, MORE, RELEVANCE = [0.5, 2.0, 3.0], [4.0, 0.1, 1.0], [0.2, 0.3, 5.0]
KERNEL = (
    ConstantKernel(2.0) * RBF(LENGTHS) ** 2
    + ConstantKernel(3.0, "fixed") * Matern(MORE, nu=1.5)
    + Matern([1.0, 9.0, 9.0], length_scale_bounds="fixed")
    + ARDLinear(RELEVANCE)
    + RBF(7.0)
    + WhiteKernel(0.1)
)
LIKELIHOOD = OrdinalProbit(0.4, -1.0, np.array([0.5, 0.7]), unit=2.0)
FULL = HyperPrior(0.5, noise=(-1.0, 0.8), amplitudes=(0.3, 1.5), gaps=0.4)


def around_their_mean(values, sd):
    logs = np.log(values)
    return norm.logpdf(logs, np.mean(logs), sd).sum()


def test_the_value_is_a_sum_of_normal_log_densities():
    parts = [
        around_their_mean(LENGTHS, 0.5),
        around_their_mean(MORE, 0.5),
        # A relevance is an inverse squared length scale.
        around_their_mean(RELEVANCE, 1.0),
        norm.logpdf(np.log(0.4 / 2.0), -1.0, 0.8),
        norm.logpdf(np.log(2.0), 0.3, 1.5),
        around_their_mean([0.5, 0.7], 0.4),
    ]
    assert_allclose(FULL.log_density(KERNEL, LIKELIHOOD)[0], np.sum(parts), rtol=1e-12)
    assert_allclose(HyperPrior().log_density(KERNEL, LIKELIHOOD)[0], np.sum(parts[:3]))
    nothing = HyperPrior(None).log_density(KERNEL, LIKELIHOOD)
    assert nothing[0] == 0.0
    assert not nothing[1].any()


def test_the_gradient_is_the_slope_of_the_value():
    theta, p = np.concatenate([KERNEL.theta, LIKELIHOOD.theta]), KERNEL.n_dims

    def value(at):
        parts = KERNEL.clone_with_theta(at[:p]), LIKELIHOOD.clone_with_theta(at[p:])
        return FULL.log_density(*parts)[0]

    h = 1e-5
    slopes = [(value(theta + h * e) - value(theta - h * e)) / (2 * h) for e in np.eye(len(theta))]
    gradient = FULL.log_density(KERNEL, LIKELIHOOD)[1]
    assert_allclose(gradient, slopes, atol=1e-8)
    assert np.sum(np.abs(gradient) > 1e-6) == 3 * 3 + 2 + 2


def test_one_length_scale_is_free():
    value, gradient = HyperPrior().log_density(RBF(3.0) + ConstantKernel(9.0), LIKELIHOOD)
    assert value == 0.0
    assert not gradient.any()


def test_a_single_gap_is_free():
    prior = HyperPrior(None, gaps=0.1)
    value, gradient = prior.log_density(RBF(), OrdinalProbit(0.4, -1.0, np.array([0.5])))
    assert value == 0.0
    assert not gradient.any()


def noise_sd(likelihood):
    """Standard deviation of one item's noise, from the spread of the difference of two."""
    u = np.linspace(-60, 60, 240_001)
    density = np.gradient(likelihood.probabilities(u, np.zeros_like(u))[:, -1], u)
    return np.sqrt(np.trapezoid(u**2 * density, u) / 2)


@pytest.mark.parametrize("kind", [SymmetricProbit, SymmetricLogit])
def test_noise_is_in_prior_standard_deviations(kind):
    """Of a comparison, the noise of one item; by quadrature over the outcome's probability."""
    likelihood = kind(0.4, np.empty(0), unit=2.0)
    value = HyperPrior(None, noise=(-1.0, 0.8)).log_density(RBF(), likelihood)[0]
    assert_allclose(value, norm.logpdf(np.log(noise_sd(likelihood) / 2.0), -1.0, 0.8), rtol=1e-5)
    kept = kind(0.4, np.empty(0), free_noise=False)
    assert HyperPrior(None, noise=(-1.0, 0.8)).log_density(RBF(), kept)[0] == 0.0


def test_the_noise_of_the_logit_is_its_standard_deviation():
    likelihood = OrdinalLogit(0.4, -1.0, np.array([0.5]), unit=2.0)
    value = HyperPrior(None, noise=(-1.0, 0.8)).log_density(RBF(), likelihood)[0]
    sd = 0.4 * np.pi / np.sqrt(3)
    assert_allclose(value, norm.logpdf(np.log(sd / 2.0), -1.0, 0.8))


@pytest.mark.parametrize(
    "options",
    [
        {"length_scales": 0.0},
        {"length_scales": -1.0},
        {"gaps": 0.0},
        {"gaps": np.nan},
        {"noise": 0.3},
        {"noise": (0.3, 0.0)},
        {"amplitudes": (np.nan, 1.0)},
        {"amplitudes": (0.0, 1.0, 2.0)},
    ],
)
def test_bad_parameters_are_refused(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
        HyperPrior(**options)


@pytest.mark.parametrize("name", ["noise", "gaps"])
def test_a_likelihood_without_a_place_for_them_is_refused(name):
    prior = HyperPrior(**{name: {"noise": (-1.0, 0.8), "gaps": 0.5}[name]})
    with pytest.raises(TypeError, match=f"{name}_place"):
        prior.log_density(RBF(), type("Own", (), {"theta": np.zeros(1)})())
