"""EM for a shared prior against the literal algorithm, direct likelihoods and box probabilities."""

from dataclasses import replace

import numpy as np
import pytest
from joblib import Parallel
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.stats import invwishart, multivariate_normal
from tests.reference import collaborative_em as literal

from ordinalgp.collaborative.hierarchy import (
    EMState,
    Hyperprior,
    Prior,
    Rater,
    SharedNoise,
    SharedThresholds,
    expectation,
    fit_rater,
    infer_rater,
    learn,
)
from ordinalgp.core.likelihoods import Gaussian, OrdinalProbit
from ordinalgp.core.objectives import ep_evidence
from ordinalgp.core.variational_bound import bound_value

SITE_TOL = 1e-8
M, N = 7, 9


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def some_prior(rng, m=M):
    root = rng.normal(size=(m, m))
    return Prior(rng.normal(size=m), root @ root.T / m + 0.3 * np.eye(m))


def some_ratings(rng, kind, n=N, m=M):
    """Raters who rated one to all of the items."""
    raters = []
    for j in range(n):
        index = rng.permutation(m)[: 1 + j % m]
        if kind == "gaussian":
            raters.append(Rater(index, rng.normal(size=len(index)), Gaussian(0.5 + 0.1 * j)))
        else:
            link = OrdinalProbit.from_thresholds(rng.normal() + np.array([-1.0, 0.0, 1.5]), 1.0)
            raters.append(Rater(index, rng.integers(0, 4, len(index)), link))
    return raters


def shared(kind, strength=0.0):
    if kind == "gaussian":
        return SharedNoise(Gaussian(0.8), strength)
    return SharedThresholds(OrdinalProbit.from_thresholds([-1.0, 0.0, 1.0], 1.0), strength)


def run(prior, raters, model, hyperprior, **options):
    settings = {"max_iter": 40, "tol": 0.0, "site_tol": SITE_TOL} | options
    return learn(EMState(prior, raters, model, hyperprior), **settings)


def path(found):
    return np.array(found.objectives)[:, 0]


def evidence_path(found):
    return np.array(found.objectives)[:, 1]


def bound_path(found):
    return np.array(found.objectives)[:, 2]


@pytest.mark.parametrize(("for_mean", "for_covariance"), [(0.0, 0.0), (2.0, 0.0), (1.5, 6.0)])
@pytest.mark.parametrize("kind", ["gaussian", "ordinal"])
def test_the_m_step_is_the_literal_sum(kind, for_mean, for_covariance, rng):
    prior, base, raters = some_prior(rng), some_prior(rng), some_ratings(rng, kind)
    model = shared(kind)
    sums, visited, _ = expectation(EMState(prior, raters, model), SITE_TOL, Parallel())
    posteriors = []
    for rater in visited:
        sites = rater.sites
        posteriors.append(
            literal.site_posterior(prior.mean, prior.covariance, rater.index, sites.tau, sites.nu)
        )
        if kind == "gaussian":  # the sites are exact
            noise = rater.likelihood.noise
            exact = literal.posterior(prior.mean, prior.covariance, rater.index, rater.y, noise)
            assert_allclose(posteriors[-1][0], exact[0], atol=1e-10)
            assert_allclose(posteriors[-1][1], exact[1], atol=1e-10)
    new = Hyperprior(base, for_mean, for_covariance).mode(prior, sums, len(raters))
    h, Sigma = literal.update(posteriors, base.mean, base.covariance, for_mean, for_covariance)
    assert_allclose(new.mean, h, atol=1e-10)
    assert_allclose(new.covariance, Sigma, atol=1e-10)


def test_the_noise_follows_the_literal_update(rng):
    prior, raters = some_prior(rng), some_ratings(rng, "gaussian")
    found = run(prior, raters, shared("gaussian"), None, max_iter=1)
    for before, after in zip(raters, found.raters, strict=True):
        h, Sigma, i = prior.mean, prior.covariance, before.index
        f, C = literal.posterior(h, Sigma, i, before.y, before.likelihood.noise)
        expected = np.mean((before.y - f[i]) ** 2 + np.diagonal(C)[i])
        assert_allclose(after.likelihood.noise**2, expected, rtol=1e-9)


def test_the_log_likelihood_is_direct_and_never_falls(rng):
    prior, raters = some_prior(rng), some_ratings(rng, "gaussian", n=15)
    plain = {"max_iter": 200, "extrapolate": False}
    found = run(prior, raters, shared("gaussian"), Hyperprior(prior, 0.0, 0.0), **plain)
    pairs, noises = [(r.index, r.y) for r in raters], [r.likelihood.noise for r in raters]
    start = literal.log_likelihood(prior.mean, prior.covariance, pairs, noises)
    noises = [r.likelihood.noise for r in found.raters]
    end = literal.log_likelihood(found.prior.mean, found.prior.covariance, pairs, noises)
    assert_allclose(evidence_path(found)[0], start, rtol=1e-10)
    assert_allclose(evidence_path(found)[-1], end, rtol=1e-8)
    assert np.array_equal(path(found), evidence_path(found))
    assert_allclose(bound_path(found), evidence_path(found), rtol=1e-7)  # no gap if q is exact
    assert len(path(found)) > 100
    assert np.all(np.diff(path(found)) > 0)
    assert end > start + 5


def test_the_penalised_objective_is_direct_and_never_falls(rng):
    prior, raters = some_prior(rng), some_ratings(rng, "gaussian", n=20)
    hyperprior = Hyperprior(prior, 1.0, 5.0)
    found = run(prior, raters, shared("gaussian", 3.0), hyperprior, max_iter=100)
    assert len(path(found)) > 20
    assert np.all(np.diff(path(found)) > 0)
    held = sum(found.shared.log_density(r.likelihood) for r in found.raters)
    held += hyperprior.log_density(found.prior)
    assert_allclose(path(found)[-1], evidence_path(found)[-1] + held, rtol=1e-12)


def test_the_hyperprior_is_normal_inverse_wishart(rng):
    base, one, two = (some_prior(rng, 4) for _ in range(3))
    nu, pi = 20.0, 3.0

    def log_density(prior):
        K = prior.covariance
        # Eq. (3)'s smoothing has density |K|^(-nu/2) exp(-nu tr(K0 K^-1)/2) and an unnormalised
        # normal one of the mean.
        scatter = invwishart.logpdf(K, df=nu - 5, scale=nu * base.covariance)
        mean = multivariate_normal.logpdf(prior.mean, base.mean, K / pi)
        return scatter + mean + 0.5 * np.linalg.slogdet(K)[1]

    hyperprior = Hyperprior(base, pi, nu)
    assert_allclose(hyperprior.log_density(base), 0.0, atol=1e-10)
    ours = hyperprior.log_density(one) - hyperprior.log_density(two)
    assert_allclose(ours, log_density(one) - log_density(two), rtol=1e-9)


def test_the_sums_are_slopes_of_the_direct_likelihood(rng):
    """Central differences of the literal likelihood in mean and covariance."""
    prior, raters = some_prior(rng), some_ratings(rng, "gaussian")
    sums, *_ = expectation(EMState(prior, raters, shared("gaussian")), SITE_TOL, Parallel())
    pairs, noises = [(r.index, r.y) for r in raters], [r.likelihood.noise for r in raters]
    h, K = prior.mean, prior.covariance
    tilt = rng.normal(size=K.shape)
    for move, turn in [(rng.normal(size=M), 0 * K), (0 * h, tilt + tilt.T)]:
        up, down = (
            literal.log_likelihood(h + s * move, K + s * turn, pairs, noises) for s in (1e-5, -1e-5)
        )
        slope = sums.weights @ move + np.sum(sums.slope * turn)
        assert_allclose(slope, (up - down) / 2e-5, rtol=1e-6)


@pytest.mark.parametrize("strength", [0.0, 2.0])
@pytest.mark.parametrize("kind", ["gaussian", "ordinal"])
def test_the_covariance_stays_positive_definite(kind, strength, rng):
    raters = some_ratings(rng, kind) if kind == "gaussian" else some_ratings(rng, kind, n=3, m=5)
    prior = some_prior(rng, 7 if kind == "gaussian" else 5)
    hyperprior = Hyperprior(prior, 1.0, strength)
    options = {
        "max_iter": 200 if kind == "gaussian" else 100,
        "tol": -np.inf,
        "site_tol": 1e-6,
    }
    for extrapolate in (False, True):
        ways = options | {"extrapolate": extrapolate}
        found = run(prior, raters, shared(kind, 2.0), hyperprior, **ways)
        if not extrapolate:
            assert len(path(found)) > (150 if kind == "gaussian" else 20)
        least = np.linalg.eigvalsh(found.prior.covariance)[0]
        share = strength / (strength + len(raters))
        assert least > 0
        assert least >= 0.999 * share * np.linalg.eigvalsh(prior.covariance)[0]
        assert_allclose(found.prior.covariance, found.prior.covariance.T, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["gaussian", "ordinal"])
def test_extrapolation_is_sooner_as_high(kind, rng):
    prior, raters = some_prior(rng), some_ratings(rng, kind, n=40)
    model, hyperprior = shared(kind, 2.0), Hyperprior(prior, 1.0, 7.0)
    options = {"max_iter": 300, "tol": 1e-4, "site_tol": 1e-7}
    plain = run(prior, raters, model, hyperprior, extrapolate=False, **options)
    fast = run(prior, raters, model, hyperprior, **options)
    assert np.all(np.diff(path(fast)) >= 0)
    assert path(fast)[-1] > path(plain)[-1] - 0.01
    assert len(path(fast)) < 0.7 * len(path(plain))


@pytest.mark.parametrize("kind", ["gaussian", "ordinal"])
def test_raters_at_once_are_as_raters_one_by_one(kind, rng):
    """Stacked matrices, padding and all, against the inference of a single rater."""
    m = 70
    prior, model = some_prior(rng, m), shared(kind, 2.0)
    raters = some_ratings(rng, kind, n=75, m=m)
    raters[3] = replace(raters[3], index=np.array([5, 5, 2, 5]))  # an item several times
    sums, visited, likelihoods = expectation(EMState(prior, raters, model), 1e-9, Parallel())
    value = bound = 0.0
    weights, slope = np.zeros(m), np.zeros((m, m))
    for before, after, likelihood in zip(raters, visited, likelihoods, strict=True):
        problem, found = infer_rater(prior, before, model, 1e-10)
        assert_allclose(after.sites.tau, found.sites.tau, rtol=1e-6, atol=1e-7)
        assert_allclose(after.sites.nu, found.sites.nu, rtol=1e-6, atol=1e-7)
        value += ep_evidence(problem, found).value
        bound += bound_value(problem, found)
        w, R = found.posterior.weights, found.posterior.inverse()
        weights[before.items] += w
        slope[np.ix_(before.items, before.items)] += 0.5 * (np.outer(w, w) - R)
        if kind == "gaussian":
            assert_allclose(likelihood.noise, model.m_step(problem, found).noise, rtol=1e-9)
        else:  # fewer steps of another method: no lower, up to what these leave
            at = [
                model._evaluate(before.y, found.at, each.theta)[0]
                for each in (likelihood, model.m_step(problem, found), before.likelihood)
            ]
            assert at[0] > at[2]
            assert at[0] > at[1] - 0.05
    assert_allclose(sums.value, value, rtol=1e-9)
    assert_allclose(sums.bound, bound, rtol=1e-6)
    assert_allclose(sums.weights, weights, rtol=1e-6, atol=1e-6)
    assert_allclose(sums.slope, slope, rtol=1e-6, atol=1e-6)


def box(prior, rater):
    """Exact evidence: the probability of a box under a multivariate normal distribution."""
    i, link = rater.index, rater.likelihood
    b = np.concatenate([[-40.0], link.thresholds, [40.0]])
    S = prior.covariance[np.ix_(i, i)] + link.noise**2 * np.eye(len(i))
    p = multivariate_normal.cdf(
        b[rater.y + 1], prior.mean[i], S, lower_limit=b[rater.y], abseps=1e-8, releps=1e-8
    )
    return float(np.log(p))


def test_tiny_ordinal_cases_match_box_probabilities(rng):
    prior, raters = some_prior(rng, 4), some_ratings(rng, "ordinal", n=5, m=4)
    found = run(prior, raters, shared("ordinal", 1.0), Hyperprior(prior, 1.0, 4.0), max_iter=5)
    assert_allclose(evidence_path(found)[0], sum(box(prior, r) for r in raters), atol=0.03)
    exact = sum(box(found.prior, r) for r in found.raters)
    assert_allclose(evidence_path(found)[-1], exact, atol=0.03)
    assert exact - 0.3 < bound_path(found)[-1] < exact


def test_the_ordinal_objective_settles(rng):
    prior, raters = some_prior(rng), some_ratings(rng, "ordinal", n=8)
    model, hyperprior = shared("ordinal", 2.0), Hyperprior(prior, 1.0, 7.0)
    options = {"max_iter": 100, "tol": 1e-5, "site_tol": 1e-6}
    found = run(prior, raters, model, hyperprior, **options)
    assert found.converged
    assert found.n_failed == 0
    assert np.all(np.diff(path(found)) >= 0)
    assert abs(bound_path(found)[-1] - bound_path(found)[-2]) < 0.01
    assert bound_path(found)[-1] > bound_path(found)[0] + 1


def test_own_thresholds_end_where_the_evidence_is_flat(rng):
    prior, model = some_prior(rng), shared("ordinal", 1.0)
    rater = Rater(np.arange(M), np.array([0, 1, 2, 3, 2, 1, 2]), model.center)
    theta = fit_rater(
        prior, rater, model, tol=1e-13, site_tol=SITE_TOL, max_iter=500
    ).likelihood.theta

    def objective(theta):
        link = model.center.clone_with_theta(theta)
        problem, found = infer_rater(prior, Rater(rater.index, rater.y, link), model, SITE_TOL)
        return ep_evidence(problem, found).value + model.log_density(link)

    slopes = [(objective(theta + 1e-4 * e) - objective(theta - 1e-4 * e)) / 2e-4 for e in np.eye(4)]
    assert_allclose(slopes, 0.0, atol=1e-4)
    assert objective(theta) > objective(model.center.theta)


@pytest.mark.parametrize("kind", ["gaussian", "ordinal"])
def test_few_ratings_stay_near_the_others(kind, rng):
    """More ratings of the same kind move a rater's parameters further from the centre."""
    prior, model = Prior(np.zeros(60), np.eye(60)), shared(kind, 5.0)

    def distance(n):
        y = np.full(n, 3) if kind == "ordinal" else 4.0 * (-1.0) ** np.arange(n)
        found = fit_rater(
            prior, Rater(np.arange(n), y, model.center), model, tol=1e-9, site_tol=SITE_TOL
        )
        return -model.log_density(found.likelihood)

    assert 0 < distance(1) < distance(10) < distance(60)


def test_recentring_maximises_the_density():
    for model, others in [
        (shared("gaussian", 2.0), [Gaussian(s) for s in (0.5, 1.0, 3.0)]),
        (
            shared("ordinal", 2.0),
            [OrdinalProbit.from_thresholds(b, 1.0) for b in ([-1, 0, 1], [0, 2, 2.5])],
        ),
    ]:
        best = model.with_center_of(others)

        def total(center, model=model, others=others):
            held = type(model)(center, model.strength)
            return sum(held.log_density(each) for each in others)

        for step in np.vstack([np.eye(len(best.center.theta)), -np.eye(len(best.center.theta))]):
            moved = best.center.clone_with_theta(best.center.theta + 0.01 * step)
            assert total(moved) < total(best.center)


def test_workers_change_nothing(rng):
    prior, raters = some_prior(rng), some_ratings(rng, "ordinal")
    one, two = (
        run(prior, raters, shared("ordinal", 1.0), Hyperprior(prior, 1, 5), max_iter=3, n_jobs=n)
        for n in (None, 2)
    )
    assert one.objectives == two.objectives
    assert np.array_equal(one.prior.covariance, two.prior.covariance)


@pytest.mark.parametrize(("n", "strength"), [(1, 5.0), (3, 0.5), (7, 5.0)])
def test_a_rater_alone_settles_at_the_maximum_of_its_penalised_evidence(n, strength, rng):
    """Against a search without slopes over all of theta, with EP at every point."""
    prior, model = some_prior(rng), shared("ordinal", strength)
    rater = Rater(rng.permutation(M)[:n], rng.integers(0, 4, n), model.center)

    def objective(theta):
        at = Rater(rater.index, rater.y, model.center.clone_with_theta(theta))
        problem, found = infer_rater(prior, at, model, SITE_TOL)
        return ep_evidence(problem, found).value + model.log_density(at.likelihood)

    start = model.center.theta
    options = {"xatol": 1e-4, "fatol": 1e-7, "maxiter": 250}
    best = minimize(lambda theta: -objective(theta), start, method="Nelder-Mead", options=options)
    found = fit_rater(prior, rater, model, tol=1e-4)
    assert objective(found.likelihood.theta) > -best.fun - 3e-4 * n
    assert objective(start) < -best.fun - 1e-3 * n  # there was something to gain
