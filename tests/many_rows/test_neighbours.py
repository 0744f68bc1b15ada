"""Neighbours: identities with the exact model, gradients, options, hostile inputs."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import norm, t
from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel

from ordinalgp import OrdinalGPClassifier, SequentialOrdinalGP, load
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.hyperpriors import HyperPrior
from ordinalgp.kernels import Additive
from ordinalgp.many_rows.block_evidence import on_blocks
from ordinalgp.many_rows.noise_by_region import NoiseByRegion, log_probability
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.metrics import log_score

KERNEL = Matern([1.0, 1.0, 3.0], nu=0.5) + Additive([1.0, 1.0, 1.0])


def make_data(n, seed=0):
    """Two inputs that matter and one that does not; four levels; some rows twice."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[: n // 20] = X[n // 20 : 2 * (n // 20)]
    f = np.sin(3 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.normal(size=n)
    return X, np.digitize(f, [-0.7, 0.0, 0.7])


X, Y = make_data(120)
X_NEW, Y_NEW = make_data(50, seed=1)
SETTINGS = ManyRowsSettings(
    subset_rows=150, block_rows=40, halo_rows=20, block_search_rows=120, refine_rows=200
)


def model(settings=SETTINGS, **options):
    given = {"kernel": KERNEL, "approximation": "neighbours", "random_state": 0, **options}
    made = OrdinalGPClassifier(**given)
    made.many_rows_settings = settings
    return made


def exact(**options):
    return OrdinalGPClassifier(**{"kernel": KERNEL, "approximation": "exact", **options})


# ------------------------------------------------------------------------ the exact model


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
@pytest.mark.parametrize("inference", ["ep", "laplace"])
@pytest.mark.parametrize("size", [500, 17], ids=["one block", "all as halo"])
def test_with_all_rows_it_is_the_exact_model(inference, likelihood, size):
    """One block, or all earlier rows as halo: evidence, sites and predictions are exact ones."""
    options = {"inference": inference, "likelihood": likelihood, "optimizer": None, "tol": 1e-10}
    truth = exact(**options).fit(X, Y)
    settings = replace(SETTINGS, block_rows=size, halo_rows=1000)
    found = model(settings, neighbours=1000, **options).fit(X, Y)
    assert (len(found._result.model.rows.blocks) == 1) == (size == 500)
    assert_allclose(
        found.log_marginal_likelihood_value_, truth.log_marginal_likelihood_value_, rtol=1e-9
    )
    latent, true = (m.latent_mean_and_variance(X_NEW) for m in (found, truth))
    assert_allclose(latent, true, atol=1e-8)
    assert_allclose(found.category_proba(X_NEW), truth.category_proba(X_NEW), atol=1e-8)
    assert_allclose(found.loo_proba(), truth.loo_proba(), atol=1e-8)
    theta = np.append(truth.kernel_.theta, truth.likelihood_.theta) + 0.1
    (value, slope), (true_value, true_slope) = (
        m.log_marginal_likelihood(theta, eval_gradient=True) for m in (found, truth)
    )
    assert_allclose(value, true_value, rtol=1e-8)
    assert_allclose(slope, true_slope, atol=1e-6)


def test_sites_are_those_of_the_exact_model():
    options = {"optimizer": None, "tol": 1e-10}
    truth = exact(**options).fit(X, Y)._result.model
    found = model(replace(SETTINGS, halo_rows=1000), **options).fit(X, Y)._result.model
    true = np.column_stack([truth.sites.tau, truth.sites.nu])[truth.rows.observation]
    assert_allclose(found.columns[found.rows.index.observation, :2], true, atol=1e-8)


def test_fewer_near_rows_come_close():
    truth = exact(optimizer=None).fit(X, Y)
    near = model(optimizer=None, neighbours=60).fit(X, Y)
    latent, true = (m.latent_mean_and_variance(X_NEW)[0] for m in (near, truth))
    assert 1e-6 < np.abs(latent - true).max() < 0.1 * np.std(true)
    assert_allclose(
        near.log_marginal_likelihood_value_, truth.log_marginal_likelihood_value_, rtol=0.01
    )


@pytest.mark.parametrize("inference", ["ep", "laplace"])
@pytest.mark.parametrize("hyperprior", [None, HyperPrior(0.7)])
def test_the_gradient_against_central_differences(inference, hyperprior):
    options = {"optimizer": None, "inference": inference, "hyperprior": hyperprior, "tol": 1e-10}
    fitted = model(**options).fit(X, Y)
    assert len(fitted._result.model.rows.blocks) > 2
    theta = np.append(fitted.kernel_.theta, fitted.likelihood_.theta)
    slope = fitted.log_marginal_likelihood(theta, eval_gradient=True)[1]
    for i, step in enumerate(1e-5 * np.eye(len(theta))):
        up, down = (fitted.log_marginal_likelihood(theta + s) for s in (step, -step))
        assert_allclose(slope[i], (up - down) / 2e-5, rtol=1e-4, atol=2e-5)


def test_a_sample_of_blocks_estimates_the_evidence_of_all():
    x, y = make_data(1500, seed=4)
    found = model(optimizer=None).fit(x, y)._result.model
    whole = found.evaluate(None)[0]
    half = on_blocks(found.task, found.rows, found.halo, 750, whole=True)
    assert len(half.patches) < 0.6 * len(found.rows.blocks)
    assert_allclose(half.evaluate(half.theta).value, whole, rtol=0.05)
    unscaled = on_blocks(found.task, found.rows, found.halo, 750)
    assert_allclose(half.scale * unscaled.evaluate(half.theta).value, half.evaluate(half.theta).value)


@pytest.mark.parametrize("jobs", [2, 3])
def test_workers_give_the_serial_answer(jobs):
    serial, parallel = model(max_sweeps=50).fit(X, Y), model(n_jobs=jobs, max_sweeps=50).fit(X, Y)
    assert_array_equal(parallel.evidence_path_, serial.evidence_path_)
    assert_array_equal(parallel.category_proba(X_NEW), serial.category_proba(X_NEW))
