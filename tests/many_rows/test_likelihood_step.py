"""Noise, thresholds and the common scale: slopes of the evidence, and steps that keep to bounds."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF

from ordinalgp.core.gaussian import Sites
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.problem import match
from ordinalgp.many_rows.induced_evidence import InducedTask
from ordinalgp.many_rows.inducing import ChunkObservations, InducedPosterior, Inducing
from ordinalgp.many_rows.likelihood_step import (
    LikelihoodStep,
    ScaleEvidence,
    ShiftEvidence,
    _scale_reach,
    likelihood_step,
)

RNG = np.random.default_rng(0)
N, KERNEL = 60, RBF([0.8, 2.0])
X = RNG.normal(size=(N, 2))
Y = np.digitize(np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=N), [-0.5, 0.1, 0.5])
COUNTS = RNG.integers(1, 4, N).astype(float)
LIKELIHOOD = OrdinalProbit.from_thresholds([-0.5, 0.1, 0.5], 0.3)
Z = X[:7]  # few: the residuals are large


def task_at(likelihood, smoothing):
    return InducedTask(X, KERNEL, likelihood, Z, Y, COUNTS, smoothing=smoothing, tol=1e-11)


def settled(smoothing, likelihood=LIKELIHOOD):
    """The posterior at the fixed point and the sums of a sweep from there."""
    task = task_at(likelihood, smoothing)
    sites = task.evaluate(task.theta).start.sites
    inducing = Inducing(KERNEL, Z)
    posterior = InducedPosterior.prior(inducing).given(inducing.rows(X), sites, COUNTS)
    view = posterior.view()
    sums = ChunkObservations(Y, COUNTS, likelihood, smoothing).sweep(view.project(X), sites, view)[
        1
    ]
    return posterior, sums, sites


@pytest.mark.parametrize("smoothing", ["cavity", "mode"])
def test_the_slope_in_the_common_scale_is_that_of_the_evidence(smoothing):
    """Against central differences of the evidence in noise and thresholds together."""
    posterior, sums, _ = settled(smoothing)
    prior = ScaleEvidence.of(posterior).slope(0.0)
    rows = (sums.slopes + sums.coupling @ sums.pull)[-1]
    mode = -2.0 * sums.pull @ (posterior.inverse_factor @ posterior.mean)
    h, values = 1e-4, []
    for x in (h, -h):
        task = task_at(LIKELIHOOD.rescaled(x), smoothing)
        values.append(task.evaluate(task.theta).value)
    assert abs(rows) > 1.0  # residuals have their share
    assert_allclose(prior + rows + mode, (values[0] - values[1]) / (2 * h), rtol=1e-5)


def shifted(likelihood, d):
    return OrdinalProbit.from_thresholds(likelihood.thresholds + d, likelihood.noise)


@pytest.mark.parametrize("smoothing", ["cavity", "mode"])
def test_the_slope_in_the_common_shift_is_that_of_the_evidence(smoothing):
    """Against differences of the evidence in all thresholds together; the curvature, nearly."""
    posterior, sums, _ = settled(smoothing)
    found = ShiftEvidence.of(sums, posterior, posterior)
    h, values = 1e-3, []
    for d in (h, 0.0, -h):
        task = task_at(shifted(LIKELIHOOD, d), smoothing)
        values.append(task.evaluate(task.theta).value)
    assert abs(found.slope) > 1.0
    assert_allclose(found.slope, (values[0] - values[2]) / (2 * h), rtol=1e-6)
    curvature = (2 * values[1] - values[0] - values[2]) / h**2
    assert_allclose(found.curvature, curvature, rtol=0.01)  # sites change a little too


def test_the_evidence_of_a_shift_is_the_gaussian_integral():
    """Against solves: sites of means nu / tau + d, their normalisers included, over u."""
    posterior, sums, _ = settled("cavity")
    view = posterior.view()
    sites = (
        ChunkObservations(Y, COUNTS, LIKELIHOOD)
        .sweep(view.project(X), settled("cavity")[2], view)[0]
        .sites
    )
    A, tau, nu = posterior.inducing.rows(X).A, COUNTS * sites.tau, COUNTS * sites.nu
    after = posterior.after(sums)
    found = ShiftEvidence.of(sums, posterior, after)

    def literal(d):
        s, m = A @ (nu + d * tau), nu / tau + d
        return 0.5 * s @ np.linalg.solve(np.eye(len(Z)) + (A * tau) @ A.T, s) - 0.5 * tau @ m**2

    for d in (-0.7, 0.2):
        parabola = found.slope * d - 0.5 * found.curvature * d**2
        assert_allclose(parabola, literal(d) - literal(0.0), rtol=1e-8)
    best, gain = found.best(10.0)
    assert_allclose(literal(best) - literal(0.0), gain, rtol=1e-8)
    assert literal(best) > max(literal(best + 1e-3), literal(best - 1e-3))
    assert found.best(0.1 * abs(best))[0] == pytest.approx(0.1 * best)
    flat = dataclasses.replace(found, curvature=1e-12 * found.total)
    assert flat.best(1.0) == (0.0, 0.0)


def test_likelihood_sites_and_posterior_shift_together():
    posterior, sums, sites = settled("cavity")
    d, (mean, var) = 0.3, RNG.uniform(0.1, 1.0, (2, N))
    here = LIKELIHOOD.log_expectation(Y, mean, var)
    there = shifted(LIKELIHOOD, d).log_expectation(Y, mean + d, var)
    assert_allclose(there.value, here.value, rtol=1e-10)
    moments = dataclasses.make_dataclass("At", ["mean", "var"])
    site, direct = match(here, moments(mean, var)), match(there, moments(mean + d, var))
    assert_allclose(direct.tau, site.tau, rtol=1e-9)
    assert_allclose(direct.nu, site.nu + d * site.tau, rtol=1e-8, atol=1e-12)
    step = likelihood_step(sums, LIKELIHOOD, posterior, posterior, together=True)
    step = dataclasses.replace(step, offset=d, log_scale=0.2)
    prior, carried = InducedPosterior.prior(posterior.inducing), step.carry(posterior)
    moved = Sites(sites.tau, sites.nu + d * sites.tau).rescaled(0.2)
    given = prior.given(posterior.inducing.rows(X), moved, COUNTS)
    assert_allclose(carried.precision, given.precision, atol=1e-10)
    assert_allclose(carried.shift, given.shift, atol=1e-7)


@pytest.mark.parametrize("smoothing", ["cavity", "mode"])
def test_two_steps_reach_the_best_shift(smoothing):
    """From thresholds far below, by the slope of the evidence itself: nothing creeps."""
    likelihood, slopes = shifted(LIKELIHOOD, -1.0), []
    for _ in range(3):
        posterior, sums, _ = settled(smoothing, likelihood)
        task = task_at(likelihood, smoothing)
        slopes.append(task.evaluate(task.theta).gradient[KERNEL.n_dims + 1])
        step = likelihood_step(sums, likelihood, posterior, posterior, together=True)
        likelihood = shifted(likelihood, step.offset)
    assert slopes[0] > 1.0
    assert abs(slopes[2]) < 1e-3 * slopes[0]


def test_the_evidence_of_a_scale_is_the_gaussian_integral():
    """Against determinants and solves: N(u; 0, I/c^2) times the sites, over u."""
    posterior, _, _ = settled("cavity")
    T, s, m = posterior.precision - np.eye(len(Z)), posterior.shift, len(Z)
    evidence = ScaleEvidence.of(posterior)

    def literal(x):
        B = np.exp(2 * x) * np.eye(m) + T
        return m * x - 0.5 * np.linalg.slogdet(B)[1] + 0.5 * s @ np.linalg.solve(B, s)

    for x in (-0.7, 0.2):
        assert_allclose(evidence.value(x) - evidence.value(0.0), literal(x) - literal(0.0))
        slope = (literal(x + 1e-5) - literal(x - 1e-5)) / 2e-5
        assert_allclose(evidence.slope(x), slope, rtol=1e-7)
    assert_allclose(evidence.determined, m - np.trace(np.linalg.inv(np.eye(m) + T)))


def test_likelihood_sites_and_posterior_grow_together():
    posterior, _, sites = settled("cavity")
    x, (mean, var) = 0.3, RNG.uniform(0.1, 1.0, (2, N))
    c = np.exp(x)
    here = LIKELIHOOD.log_expectation(Y, mean, var)
    there = LIKELIHOOD.rescaled(x).log_expectation(Y, c * mean, c**2 * var)
    assert_allclose(there.value, here.value, rtol=1e-12)
    moments = dataclasses.make_dataclass("At", ["mean", "var"])
    grown = match(here, moments(mean, var)).rescaled(x)
    direct = match(there, moments(c * mean, c**2 * var))
    assert_allclose(direct.tau, grown.tau, rtol=1e-10)
    assert_allclose(direct.nu, grown.nu, rtol=1e-9, atol=1e-12)
    prior = InducedPosterior.prior(posterior.inducing)
    given = prior.given(posterior.inducing.rows(X), sites.rescaled(x), COUNTS)
    assert_allclose(posterior.rescaled(x).precision, given.precision, atol=1e-10)
    assert_allclose(posterior.rescaled(x).shift, given.shift, atol=1e-10)


@pytest.mark.parametrize("smoothing", ["cavity", "mode"])
def test_half_steps_climb_the_evidence_to_the_best_scale(smoothing):
    """From a scale more than three times too large; the evidence is computed anew each time."""
    likelihood, values = LIKELIHOOD.rescaled(1.2), []
    for _ in range(12):
        posterior, sums, _ = settled(smoothing, likelihood)
        task = task_at(likelihood, smoothing)
        step = task.evaluate(task.theta)
        values.append(step.value)
        along = step.gradient[KERNEL.n_dims :] @ [1.0, likelihood.theta[1], 1.0, 1.0]
        step = likelihood_step(sums, likelihood, posterior, posterior, together=True).part(0.5)
        moved = likelihood.clone_with_theta(likelihood.theta + step.change)
        likelihood = moved.rescaled(step.log_scale)
    assert np.all(np.diff(values) > 0)
    assert abs(along) < 0.05
    assert abs(step.log_scale) < 0.01


def test_a_parameter_at_its_bound_or_without_rows_stays():
    y = np.where(Y == 3, 2, Y)  # nothing is in the highest level
    low = dataclasses.replace(LIKELIHOOD, noise=1e-3)
    inducing = Inducing(KERNEL, Z)
    posterior = InducedPosterior.prior(inducing)
    view = posterior.view()
    sums = ChunkObservations(y, COUNTS, low).sweep(view.project(X), Sites.flat(N), view)[1]
    after = posterior.after(sums)
    down = dataclasses.replace(sums, slopes=np.where(np.arange(5) == 0, -1e3, sums.slopes))
    step = likelihood_step(down, low, posterior, after, together=False)
    assert step.change[0] == 0.0
    assert step.log_scale == 0.0
    assert np.all(np.abs(step.change[2:]) <= 1.0)
    up = dataclasses.replace(sums, slopes=np.where(np.arange(5) == 0, 1e9, sums.slopes))
    longest = likelihood_step(up, low, posterior, after, together=False)
    assert 0.0 < np.max(np.abs(longest.change)) <= 1.0
    blind = sums.information.copy()
    blind[3], blind[:, 3] = 0.0, 0.0
    step = likelihood_step(
        dataclasses.replace(sums, information=blind), low, posterior, after, together=True
    )
    assert step.change[3] == 0.0
    assert np.all(np.isfinite(step.change))


def test_part_of_a_step():
    step = LikelihoodStep(np.array([1.0, -2.0]), 0.6, np.ones(2), 0.4, 3.0).part(0.5)
    assert_array_equal(step.change, [0.5, -1.0])
    assert (step.offset, step.log_scale, step.gain) == (0.3, 0.2, 3.0)
    assert_array_equal(LikelihoodStep.none(2).change, [0.0, 0.0])


def test_noise_at_its_bound_holds_the_common_scale():
    """Without signal the noise is at its bound; thresholds that grow without it go to and fro."""
    likelihood = OrdinalProbit.from_thresholds([-1.0, 1.0], 1.0)
    high = float(np.exp(likelihood.bounds[0, 1]))
    at_bound = OrdinalProbit.from_thresholds([-1.0, 1.0], high)
    assert_allclose(_scale_reach(at_bound, (0.0, 0.0)), [-0.5, 0.0], atol=1e-9)
    # A step of the noise by -0.1 makes room for as much; if it also follows by half, for twice.
    assert_allclose(_scale_reach(at_bound, (-0.1, 0.0)), [-0.5, 0.1], atol=1e-9)
    assert_allclose(_scale_reach(at_bound, (-0.1, 0.5)), [-0.5, 0.2], atol=1e-9)
    for free in (_scale_reach(likelihood, (0.0, 0.0)), _scale_reach(at_bound, None)):
        assert_allclose(free, [-0.5, 0.5])
