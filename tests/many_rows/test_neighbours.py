"""Neighbours: identities with the exact model, gradients, options, hostile inputs."""

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import t
from sklearn.gaussian_process.kernels import RBF, Matern

from ordinalgp import OrdinalGPClassifier, load
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
    assert_allclose(
        half.scale * unscaled.evaluate(half.theta).value, half.evaluate(half.theta).value
    )


@pytest.mark.parametrize("jobs", [2, 3])
def test_workers_give_the_serial_answer(jobs):
    serial, parallel = model(max_sweeps=50).fit(X, Y), model(n_jobs=jobs, max_sweeps=50).fit(X, Y)
    assert_array_equal(parallel.evidence_path_, serial.evidence_path_)
    assert_array_equal(parallel.category_proba(X_NEW), serial.category_proba(X_NEW))


# ------------------------------------------------------------------------ further rows


def test_further_rows_in_one_block_give_the_exact_model_of_all():
    options = {"optimizer": None, "tol": 1e-10}
    settings = replace(SETTINGS, block_rows=500)
    found = model(settings, neighbours=1000, **options).fit(X[:70], Y[:70])
    truth = exact(likelihood=found.likelihood_, **options).fit(X, Y)
    found.partial_fit(X[70:], Y[70:])
    assert_allclose(found.category_proba(X_NEW), truth.category_proba(X_NEW), atol=1e-8)
    assert_allclose(found.loo_proba(), truth.loo_proba(), atol=1e-8)


def test_further_rows_join_their_blocks_which_are_cut_when_they_grow():
    x, y = make_data(400, seed=5)
    found = model(optimizer=None).fit(x[:120], y[:120])
    before = found._result.model.rows
    weights = np.ones(280)
    weights[::7] = 0.0
    weights[::5] = 2.0
    found.partial_fit(x[120:], y[120:], sample_weight=weights)
    rows = found._result.model.rows
    rows.check()
    assert len(rows.blocks) > len(before.blocks)
    assert np.diff(rows.blocks.starts).max() <= 2 * SETTINGS.block_rows
    used = np.append(np.ones(120), weights) > 0
    at = rows.index.observation[used]
    assert_array_equal(rows.X[rows.latent[at]], x[used])
    assert_array_equal(rows.codes[at], y[used])
    assert_allclose(np.bincount(at, np.append(np.ones(120), weights)[used]), rows.counts)
    assert found.loo_proba().shape == (400, 4)
    assert np.isfinite(found.loo_proba()).all()

    # Rows of a region change only its blocks, and no other prediction.
    near = x[np.argsort(np.linalg.norm(x - x[0], axis=1))[:15]]
    again = model(optimizer=None).fit(x, y)
    old = again._result.model
    changed = again.partial_fit(near + 1e-3, np.full(15, 3))._result.model
    kept = [
        np.allclose(changed.columns[a.start : a.stop], old.columns[b.start : b.stop], rtol=0)
        for a, b in (
            (changed.rows.observations(j), old.rows.observations(j))
            for j in range(len(old.rows.blocks))
        )
        if a.stop - a.start == b.stop - b.start
    ]
    assert len(kept) > 3
    assert all(kept)


def test_further_rows_without_weight_change_nothing():
    found = model(optimizer=None).fit(X, Y)
    before = found.category_proba(X_NEW)
    once = np.array([1.0, 0.0, 0.0])
    found.partial_fit(X[:3], Y[:3], sample_weight=once)
    alone = model(optimizer=None).fit(X, Y).partial_fit(X[:1], Y[:1])
    assert np.abs(alone.category_proba(X_NEW) - before).max() > 1e-6
    assert_array_equal(found.category_proba(X_NEW), alone.category_proba(X_NEW))
    assert len(found.loo_proba()) == len(X) + 3


# ------------------------------------------------------------------------ weights, files, chunks


def test_weights_are_copies():
    weights = np.random.default_rng(0).integers(0, 4, len(Y))
    weighted = model().fit(X, Y, sample_weight=weights)
    options = {"optimizer": None, "kernel": weighted.kernel_, "likelihood": weighted.likelihood_}
    once = model(**options).fit(X, Y, sample_weight=weights)
    copies = model(**options).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights))
    assert_allclose(once.category_proba(X_NEW), copies.category_proba(X_NEW), atol=1e-7)
    assert_allclose(np.repeat(once.loo_proba(), weights, axis=0), copies.loo_proba(), atol=1e-7)
    assert len(once._result.model.rows.X) == len(copies._result.model.rows.X)


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_a_saved_model_is_the_same(tmp_path, likelihood):
    weights = np.ones(len(Y))
    weights[3] = 0.0
    found = model(replace(SETTINGS, auto_neighbours=30), likelihood=likelihood).fit(X, Y, weights)
    found.save(tmp_path / "model.ogp")
    again = load(tmp_path / "model.ogp")
    assert again.approximation_ == "neighbours"
    assert (again._result.model.noise is None) == (likelihood == "logit")
    assert_array_equal(again.category_proba(X_NEW), found.category_proba(X_NEW))
    assert_array_equal(again.loo_proba(), found.loo_proba())
    assert_allclose(again.log_marginal_likelihood(), found.log_marginal_likelihood())
    theta = np.append(found.kernel_.theta, found.likelihood_.theta)
    assert_array_equal(again.log_marginal_likelihood(theta), found.log_marginal_likelihood(theta))
    extended = [m.partial_fit(X_NEW, Y_NEW).category_proba(X_NEW) for m in (again, found)]
    assert_array_equal(*extended)


def test_chunks_and_memory_maps_give_the_same(tmp_path):
    found = model(optimizer=None).fit(X, Y)

    def chunks():
        for i in range(0, len(X), 50):
            yield X[i : i + 50], Y[i : i + 50]

    assert_array_equal(
        model(optimizer=None).fit(chunks, None).category_proba(X_NEW), found.category_proba(X_NEW)
    )
    np.save(tmp_path / "X.npy", X)
    mapped = model(optimizer=None).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), Y)
    assert_array_equal(mapped.category_proba(X_NEW), found.category_proba(X_NEW))
    single = model(optimizer=None).fit(X.astype(np.float32), Y)
    assert_allclose(single.category_proba(X_NEW), found.category_proba(X_NEW), atol=1e-4)


def test_an_interrupted_fit_resumes(tmp_path, monkeypatch):
    x, y = make_data(400, seed=6)
    short = {"subset_steps": 3, "trial_steps": 1, "block_search_steps": 2, "refine_steps": 1}
    settings = replace(SETTINGS, block_rows=4, halo_rows=4, **short)
    whole = model(settings).fit(x, y)
    from ordinalgp.many_rows import block_sites

    seen, infer = [], block_sites.infer_block

    def failing(*given):
        seen.append(1)
        if len(seen) > 80:
            raise KeyboardInterrupt
        return infer(*given)

    monkeypatch.setattr(block_sites, "infer_block", failing)
    started = model(settings, checkpoint=tmp_path / "notes")
    with pytest.raises(KeyboardInterrupt) as caught:
        started.fit(x, y)
    assert "resumes" in "".join(caught.value.__notes__)
    monkeypatch.undo()
    counted = []
    monkeypatch.setattr(block_sites, "infer_block", lambda *a: counted.append(1) or infer(*a))
    resumed = started.fit(x, y)
    n_blocks = len(resumed._result.model.rows.blocks)
    assert len(counted) == n_blocks - 64  # one batch was complete
    assert_array_equal(resumed.category_proba(X_NEW), whole.category_proba(X_NEW))
    assert_array_equal(resumed.thresholds_, whole.thresholds_)
    assert not (tmp_path / "notes").exists()
    started.checkpoint = tmp_path / "notes"
    seen.clear()
    monkeypatch.setattr(block_sites, "infer_block", failing)
    with pytest.raises(KeyboardInterrupt):
        started.fit(x, y)
    with pytest.raises(ValueError, match="other parameters or other rows"):
        started.fit(x + 1, y)


# ------------------------------------------------------------------------ noise by region


LIKELIHOOD = OrdinalProbit.from_thresholds([-1.0, 0.0, 1e-9, 1.5], 0.3)


@pytest.mark.parametrize("dof", [2.0, 5.5, 100.0])
def test_probabilities_are_those_of_students_t(dof):
    at = Moments(np.array([-40.0, -1.2, 0.3, 8.0]), np.array([0.1, 0.5, 2.0, 0.01]))
    noise = NoiseByRegion(0.2, dof, np.zeros(4), np.ones(4))
    log_scales = np.array([-0.3, 0.0, 0.4, 1.0])
    found = noise.probabilities(LIKELIHOOD, at, log_scales)
    scale = np.exp(log_scales) * np.sqrt(at.var + 0.3**2)
    edges = np.concatenate([[-np.inf], LIKELIHOOD.thresholds, [np.inf]])
    for row in range(4):
        density = t(dof, at.mean[row], scale[row]).pdf
        truth = [
            quad(density, max(a, -200), min(b, 200), epsabs=0, points=None)[0]
            for a, b in itertools.pairwise(edges)
        ]
        inner = slice(1, -1)
        assert_allclose(found[row, inner], truth[inner], rtol=1e-6)
    assert_allclose(found.sum(axis=1), 1.0)


def test_many_degrees_of_freedom_are_the_normal_distribution():
    at = Moments(np.linspace(-3, 3, 7), np.full(7, 0.4))
    y = np.array([0, 1, 1, 2, 3, 4, 4])
    found = log_probability(LIKELIHOOD, at, y, 0.0, 1e7)
    assert_allclose(found, LIKELIHOOD.log_expectation(y, at.mean, at.var).value, atol=1e-5)


def test_slopes_and_curvatures_lead_to_the_scale_of_a_region():
    """Rows of two regions, of which one has twice the noise that the model knows."""
    rng = np.random.default_rng(0)
    n = 4000
    mean, far = rng.normal(size=n), np.arange(n) >= n // 2
    likelihood = OrdinalProbit.from_thresholds([-1.0, 0.0, 1.0], 0.5)
    left = Moments(mean, np.full(n, 0.2))
    sd = np.sqrt(0.45) * np.where(far, 2.0, 1.0)
    y = np.digitize(mean + sd * rng.normal(size=n), likelihood.thresholds)
    noise = NoiseByRegion.learn(likelihood, left, y, np.ones(n))
    sums = [[a[part].sum() for part in (~far, far)] for a in (noise.slopes, noise.curvatures)]
    scales = np.exp(noise.log_scales(*np.array(sums)))
    assert 0.75 < scales[0] < 1.1
    assert 1.6 < scales[1] < 2.3
    weighted = NoiseByRegion.learn(likelihood, left, y, np.where(far, 0.0, 1.0) + 1e-9)
    assert abs(weighted.log_scale) < 0.1
    assert weighted.dof > 20


def test_noise_by_region_helps_where_noise_differs():
    rng = np.random.default_rng(2)
    x = rng.uniform(-2, 2, size=(1600, 2))
    f = np.sin(2 * x[:, 0]) + np.where(x[:, 1] > 0, 1.0, 0.1) * rng.standard_normal(1600)
    y = np.digitize(f, [-0.5, 0.5])
    kernel = RBF([1.0, 3.0])
    fitted = model(ManyRowsSettings(subset_rows=300), kernel=kernel).fit(x[:1200], y[:1200])
    plain = replace(fitted._result.model, noise=None)
    new = x[1200:], y[1200:]
    scores = [log_score(new[1], p(new[0])) for p in (fitted.category_proba, plain.probabilities)]
    assert scores[0] < scores[1] - 0.02
    own = [
        np.mean(np.log(m.left_out_probabilities()[np.arange(1200), y[:1200]]))
        for m in (fitted._result.model, plain)
    ]
    assert own[0] > own[1] + 0.02


def test_draws_have_the_mean_of_the_probabilities():
    x, y = make_data(300, seed=3)
    fitted = model(replace(SETTINGS, auto_neighbours=30), optimizer=None).fit(x, y)
    assert fitted._result.model.noise is not None
    draws = fitted.sample_proba(X_NEW[:20], 4000, random_state=0)
    assert_allclose(draws.sum(axis=2), 1.0)
    assert_allclose(draws.mean(axis=0), fitted.category_proba(X_NEW[:20]), atol=0.03)


# ------------------------------------------------------------------------ hostile inputs


def hostile(name, n=1000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=n), [-0.5, 0.5])
    if name == "all rows equal":
        X[:] = 1.0
    elif name == "duplicates":
        X = np.repeat(rng.normal(size=(5, 4)), n // 5, axis=0)
    elif name == "constant column":
        X[:, 1] = 7.0
    elif name == "nominal only":
        X = rng.integers(0, 2, (n, 8)).astype(float)
        y = (X[:, 0] + X[:, 1]).astype(int)
    elif name == "a block with one level":
        y = np.where(X[:, 0] > 0, 2, y)
    elif name == "200 features":
        X = np.column_stack([X, rng.normal(size=(n, 196))])
    elif name == "far apart":
        X[::2] *= 1e6
    elif name == "levels apart":
        y = np.where(X[:, 0] > 0, 2, 0)
    return X, y


HOSTILE = (
    *("all rows equal", "duplicates", "constant column", "nominal only"),
    *("a block with one level", "200 features", "far apart", "levels apart"),
)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_inputs(name):
    x, y = hostile(name)
    settings = ManyRowsSettings(
        subset_rows=100,
        subset_steps=8,
        block_rows=100,
        halo_rows=50,
        block_search_rows=200,
        trial_steps=2,
        block_search_steps=3,
        refine_rows=300,
        refine_steps=2,
        auto_neighbours=40,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        fitted = model(settings, kernel=None).fit(x, y)
        new = np.vstack([x[:40], x[:3] + 1e3])
        proba = fitted.category_proba(new)
    assert np.isfinite(proba).all()
    assert np.isfinite(fitted.loo_proba()).all()
    assert np.isfinite(fitted.log_marginal_likelihood_value_)
    frequencies = np.bincount(y) / len(y)
    known = frequencies[frequencies > 0]
    assert log_score(y, fitted.category_proba(x)) < -known @ np.log(known) + 0.05
