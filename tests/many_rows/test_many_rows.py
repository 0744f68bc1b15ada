"""Many rows: inducing points, chunks, checkpoints, further rows."""

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF

from ordinalgp import OrdinalGPClassifier, load
from ordinalgp.many_rows.chunks import ArrayRows, Chunk
from ordinalgp.many_rows.passes import PassState
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.many_rows.site_store import SiteStore
from ordinalgp.metrics import log_score
from ordinalgp.runtime.progress import listening

KERNEL = RBF([1.5, 1.5, 10.0])


def make_data(n, seed=0):
    """Two inputs that matter and one that does not; four levels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    f = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] + 0.4 * rng.normal(size=n)
    return X, np.digitize(f, [-0.7, 0.0, 0.7])


X, Y = make_data(2500)
X_NEW, Y_NEW = make_data(500, seed=1)


SMALL = ManyRowsSettings(subset_rows=100, sample_rows=300, chunk_rows=400, report_seconds=0.0)


def model(settings=None, **options):
    """A model of some rows; SMALL has stages for hundreds, so that passes over chunks happen."""
    made = OrdinalGPClassifier(**{"kernel": KERNEL, "inducing": 30, "random_state": 0, **options})
    if settings is not None:
        made.many_rows_settings = settings
    return made


def small(**options):
    return model(SMALL, **options)


def factory():
    for i in range(0, len(X), 700):
        yield X[i : i + 700], Y[i : i + 700]


# ----------------------------------------------------------------------------- the answer


@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_a_point_at_every_row_is_the_exact_model(inference):
    options = {"inference": inference, "optimizer": None, "tol": 1e-10}
    exact = model(inducing=None, **options).fit(X[:80], Y[:80])
    points = model(inducing=X[:80], **options).fit(X[:80], Y[:80])
    assert_allclose(
        points.log_marginal_likelihood_value_, exact.log_marginal_likelihood_value_, rtol=1e-9
    )
    assert_allclose(points.category_proba(X_NEW), exact.category_proba(X_NEW), atol=1e-8)
    assert_allclose(points.loo_proba(), exact.loo_proba(), atol=1e-7)
    theta = np.append(exact.kernel_.theta, exact.likelihood_.theta) + 0.1
    (value, slope), (value_too, slope_too) = (
        m.log_marginal_likelihood(theta, eval_gradient=True) for m in (exact, points)
    )
    assert_allclose(value_too, value, rtol=1e-9)
    assert_allclose(slope_too, slope, atol=1e-6)


@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_passes_settle_where_one_inference_does(inference):
    """Chunks and passes against all rows in one problem, at the same hyperparameters."""
    options = {"inference": inference, "optimizer": None}
    patient = replace(SMALL, promise=1e-22)
    chunked = model(patient, **options).fit(X, Y)
    whole = replace(patient, sample_rows=10_000)
    at_once = model(whole, **options, inducing=chunked.inducing_points_).fit(X, Y)
    assert chunked.n_iter_ > 1
    assert_allclose(
        chunked.log_marginal_likelihood_value_, at_once.log_marginal_likelihood_value_, rtol=1e-8
    )
    assert_allclose(chunked.category_proba(X_NEW), at_once.category_proba(X_NEW), atol=1e-6)
    assert_allclose(chunked.loo_proba(), at_once.loo_proba(), atol=1e-6)


@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_the_score_is_near_the_exact_models(inference):
    exact = model(inference=inference, inducing=None).fit(X[:600], Y[:600])
    many = small(inference=inference).fit(X, Y)
    assert many.converged_
    scores = [log_score(Y_NEW, m.category_proba(X_NEW)) for m in (many, exact)]
    assert scores[0] < scores[1] + 0.005
    assert many.inducing_points_.shape == (30, 3)


def test_a_warm_start_leaves_fewer_passes_and_the_same_answer():
    cold = small().fit(X, Y)
    warm = model(replace(SMALL, warm_rows=(600,))).fit(X, Y)
    assert warm.n_iter_ <= cold.n_iter_
    scores = [log_score(Y_NEW, m.category_proba(X_NEW)) for m in (warm, cold)]
    assert_allclose(scores[0], scores[1], atol=2e-3)


@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_the_common_scale_and_shift_do_not_creep(inference):
    """Few rows for each point: the best scale and place of everything, and in few passes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1200, 3))
    f = np.sin(2 * x[:, 0]) * np.cos(1.5 * x[:, 1]) + 0.7 * x[:, 2] + 0.3 * rng.normal(size=1200)
    options = {"inference": inference, "inducing": 120}
    y = np.digitize(f, [-0.7, 0.0, 0.7])
    fitted = small(**options).fit(x, y)
    assert fitted.converged_
    assert fitted.n_iter_ <= 10

    def evidence(log_scale=0.0, shift=0.0):
        theta = fitted.likelihood_.rescaled(log_scale).theta
        theta[1] += shift
        return fitted.log_marginal_likelihood(np.append(fitted.kernel_.theta, theta))

    best = evidence()
    assert best > max(evidence(log_scale=x) for x in (-0.02, 0.02))
    assert best > max(evidence(shift=d) for d in (-0.02, 0.02))

    alone = model(replace(SMALL, move_together=False), **options, max_sweeps=3 * fitted.n_iter_)
    with pytest.warns(ConvergenceWarning, match="still moves"):
        slow = alone.fit(x, y)
    assert slow.log_marginal_likelihood_value_ < best - 0.01


def test_auto_is_exact_up_to_2000_rows():
    quick = {"inducing": "auto", "optimizer": None, "kernel": RBF(0.3)}
    few, many = model(**quick).fit(X[:60], Y[:60]), model(**quick).fit(X, Y)
    assert (few.approximation_, hasattr(few, "inducing_points_")) == ("exact", False)
    assert many.approximation_ != "exact"
    points = model(**quick, approximation="inducing").fit(X, Y)
    assert (points.approximation_, len(points.inducing_points_)) == ("inducing", 512)


def test_auto_stops_where_the_points_leave_nothing_beside_the_noise():
    fitted = model(inducing="auto", optimizer=None, kernel=RBF(4.0)).fit(X, Y)
    K, Z = fitted.kernel_, fitted.inducing_points_
    assert len(Z) < 100
    left = 1.0 - np.sum(K(X, Z) * np.linalg.lstsq(K(Z), K(Z, X), rcond=None)[0].T, axis=1)
    assert left.max() <= 1.01e-4 * fitted.noise_**2  # every row was a candidate


def test_weights_are_copies():
    all_rows = replace(SMALL, subset_rows=10_000)  # thresholds from all rows at the start
    counts = np.arange(800) % 3
    one = model(all_rows, optimizer=None, inducing=X[:20]).fit(X[:800], Y[:800], counts)
    rows = np.repeat(np.arange(800), counts)
    other = model(all_rows, optimizer=None, inducing=X[:20]).fit(X[rows], Y[rows])
    assert_allclose(one.category_proba(X_NEW), other.category_proba(X_NEW), atol=1e-3)


def test_samples_are_of_rows_that_count():
    """Most rows have the weight zero, so that a blind sample would have none that counts."""
    weights = np.where(np.arange(2500) % 250 == 0, 1.0, 0.0)
    few = replace(SMALL, subset_rows=8)
    fitted = model(few, optimizer=None, inducing=X[:5]).fit(X, Y, weights)
    assert fitted.converged_
    used = np.flatnonzero(weights)
    rows = ArrayRows(Chunk(X, Y, weights)).sample(6, np.random.RandomState(0))
    assert np.isin(rows.X[:, 0], X[used, 0]).all()
    with pytest.raises(ValueError, match="Leave out the rows of weight zero"):
        ArrayRows(Chunk(X, Y, 0 * weights)).sample(6, np.random.RandomState(0))


@pytest.mark.parametrize("settings", [SMALL, None])
def test_weights_that_leave_no_cavity_are_told(settings):
    """In passes over chunks and at once: all rows together count less than one."""
    made = model(settings, optimizer=None, inducing=X[:15])
    with pytest.warns(ConvergenceWarning, match=r"EP has no cavity .* \(of [0-9]+ rows\)"):
        made.fit(X[:800], Y[:800], np.full(800, 1e-3))
    assert not made.converged_
    assert model(settings, optimizer=None, inducing=X[:15]).fit(X[:800], Y[:800]).converged_


# ---------------------------------------------------------------------------- where rows lie


def test_chunks_memory_maps_and_single_precision_give_the_model_of_the_array(tmp_path):
    whole = small(optimizer=None, inducing=X[:30]).fit(X, Y)
    chunks = small(optimizer=None, inducing=X[:30]).fit(factory, None)
    assert_array_equal(chunks.categories_, whole.categories_)
    assert chunks.n_features_in_ == 3
    assert_allclose(chunks.category_proba(X_NEW), whole.category_proba(X_NEW), atol=1e-10)
    np.save(tmp_path / "X.npy", X)
    on_disk = np.load(tmp_path / "X.npy", mmap_mode="r")
    mapped = small(optimizer=None, inducing=X[:30]).fit(on_disk, Y)
    assert_array_equal(mapped.category_proba(X_NEW), whole.category_proba(X_NEW))
    single = small(optimizer=None, inducing=X[:30]).fit(X.astype(np.float32), Y)
    assert_allclose(single.category_proba(X_NEW), whole.category_proba(X_NEW), atol=1e-4)


def test_workers_give_the_same_numbers():
    one, two = (small(n_jobs=n).fit(X, Y) for n in (1, 2))
    assert_allclose(one.category_proba(X_NEW), two.category_proba(X_NEW), rtol=1e-12)


def test_a_long_pass_reports_how_far_it_is(capsys):
    seen = []
    with listening(seen.append):
        small(verbose=1, optimizer=None).fit(factory, None)
    within = [step.step for step in seen if step.stage == "pass" and step.total == len(X)]
    assert within[:4] == [700, 1400, 2100, 2500]
    printed = capsys.readouterr().err
    assert re.search(r"^pass: pass 700/2500, .*700 of 2,500 rows, [\d,]+ rows/s$", printed, re.M)
    assert re.search(r"^pass: pass 1, objective .*2,500 rows, [\d,]+ rows/s", printed, re.M)


def test_chunks_have_no_leave_one_out():
    with pytest.raises(ValueError, match="Leave-one-out moments of the rows were not kept"):
        small(optimizer=None).fit(factory, None).loo_proba()


# ------------------------------------------------------------------------------- checkpoints


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("chunk", [1, 9, 12])
def test_an_interrupted_fit_goes_on_to_the_same_answer(chunk, tmp_path):
    whole = small().fit(X, Y)
    calls, folder = [], tmp_path / "fit"

    def stop(progress):
        if progress.stage == "pass" and progress.total:  # after every chunk
            calls.append(progress)
            if len(calls) == chunk:
                raise Interrupted

    with listening(stop):
        with pytest.raises(Interrupted):
            small(checkpoint=folder).fit(X, Y)
        assert (folder / "state.npz").exists()
        first = len(calls)
        resumed = small(checkpoint=folder).fit(X, Y)
    assert_allclose(resumed.category_proba(X_NEW), whole.category_proba(X_NEW), rtol=1e-12)
    assert_allclose(resumed.evidence_path_, whole.evidence_path_, rtol=1e-12)
    # Finished passes (7 chunks each) are not repeated.
    assert len(calls) - first == 7 * (whole.n_iter_ - (chunk - 1) // 7)
    assert not folder.exists()


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    def stop(progress):
        if progress.stage == "pass":
            raise Interrupted

    with listening(stop), pytest.raises(Interrupted):
        small(checkpoint=tmp_path).fit(X, Y)
    with pytest.raises(ValueError, match="belongs to a fit with other parameters or other rows"):
        small(checkpoint=tmp_path, inducing=20).fit(X, Y)
    with pytest.raises(ValueError, match="belongs to a fit with other parameters or other rows"):
        small(checkpoint=tmp_path).fit(X, 3 - Y)


def cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


def change(path):
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "sites-0.bin").unlink(),
        lambda folder: cut(folder / "sites-0.bin", 4000),
        lambda folder: cut(folder / "sites-0.bin", -8),
        lambda folder: change(folder / "sites-0.bin"),
        lambda folder: cut(folder / "state.npz", 2000),
        lambda folder: cut(folder / "state.npz", 0),
        lambda folder: change(folder / "state.npz"),
        lambda folder: (folder / "state.npz").write_bytes(b"no archive"),
    ],
)
def test_a_damaged_checkpoint_is_refused(damage, tmp_path):
    """It used to give a worse model without a word."""
    calls = []

    def stop(progress):
        if progress.stage == "pass" and progress.total:
            calls.append(progress)
            if len(calls) == 16:  # in the third pass, which reads sites-0
                raise KeyboardInterrupt

    with listening(stop), pytest.raises(KeyboardInterrupt) as interrupt:
        small(checkpoint=tmp_path).fit(X, Y)
    (note,) = interrupt.value.__notes__
    assert "The same fit resumes from there." in note
    damage(tmp_path)
    with pytest.raises(ValueError, match=r"is damaged: .*\. Delete the folder to start again"):
        small(checkpoint=tmp_path).fit(X, Y)


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_store_writes_beside_what_it_reads(on_disk, tmp_path):
    store = SiteStore(3, tmp_path if on_disk else None)
    for value in (1.0, 2.0):
        for rows in ((0, 2), (2, 3)):
            slot = store.slot(*rows)
            old = slot.read()
            assert (old is None) if value == 1.0 else np.all(old == 1.0)
            handed = slot.write(np.full((rows[1] - rows[0], 5), value))
            assert (handed is None) == on_disk
            if not on_disk:
                store.put(slot, handed)
        store.finish_pass()
    assert_array_equal(store.left_out(), np.full((3, 2), 2.0))


# ----------------------------------------------------------------------------- further rows


def test_further_rows_join_the_posterior():
    all_rows = replace(SMALL, subset_rows=10_000)  # thresholds from all rows at the start
    options = {"optimizer": None, "inducing": X[:30]}
    whole = model(all_rows, **options).fit(X, Y)
    parts = model(all_rows, **options).fit(X[:1000], Y[:1000])
    before = log_score(Y_NEW, parts.category_proba(X_NEW))
    parts.partial_fit(X[1000:], Y[1000:])
    # Thresholds come from the frequencies in the first part, so only nearly the same.
    assert log_score(Y_NEW, parts.category_proba(X_NEW)) < before
    gap = np.abs(parts.category_proba(X_NEW) - whole.category_proba(X_NEW))
    assert gap.mean() < 0.01
    var, var_whole = (m.latent_mean_and_variance(X_NEW)[1] for m in (parts, whole))
    assert_allclose(var, var_whole, atol=5e-3)  # as certain as from all rows, not as from 1,000


def test_partial_fit_begins_with_a_fit():
    fresh = model(inducing="auto", optimizer=None).partial_fit(X[:50], Y[:50])
    whole = model(inducing=None, optimizer=None).fit(X[:50], Y[:50])
    assert_array_equal(fresh.category_proba(X_NEW), whole.category_proba(X_NEW))
    fresh.partial_fit(X[:1], Y[:1], sample_weight=[1e-9])  # the exact posterior, in other words
    assert len(fresh.inducing_points_) == 50
    assert_allclose(fresh.category_proba(X_NEW), whole.category_proba(X_NEW), atol=1e-6)
    with pytest.raises(ValueError, match="99"):
        fresh.partial_fit(X[:2], [0, 99])


def test_classes_name_numbers_that_come_later():
    first = Y[:60] < 2
    fresh = model(optimizer=None).partial_fit(X[:60][first], Y[:60][first], classes=[0, 1, 2, 3])
    fresh.partial_fit(X[60:120], Y[60:120])
    assert_array_equal(fresh.categories_, [0, 1, 2, 3])
    assert_array_equal(fresh.classes_, [0, 1, 2, 3])


# ------------------------------------------------------------------------------ model files


def test_a_model_file_has_the_points_and_no_rows(tmp_path):
    fitted = model(inference="laplace").fit(X, Y)
    fitted.save(tmp_path / "model.ogp")
    again = load(tmp_path / "model.ogp")
    assert_array_equal(again.category_proba(X_NEW), fitted.category_proba(X_NEW))
    assert_array_equal(again.inducing_points_, fitted.inducing_points_)
    assert (tmp_path / "model.ogp").stat().st_size < 20_000
    assert again.log_marginal_likelihood() == fitted.log_marginal_likelihood()
    with pytest.raises(ValueError, match="needs the training rows"):
        again.log_marginal_likelihood(eval_gradient=True)
    with pytest.raises(ValueError, match="Leave-one-out"):
        again.loo_proba()
    again.partial_fit(X_NEW[:20], Y_NEW[:20])


# --------------------------------------------------------------------------------- messages


def once():
    chunks = iter([(X[:50], Y[:50]), (X[50:90], Y[50:90])])
    return lambda: chunks


def chunks_of(*parts):
    return lambda: iter(parts)


GOOD = (X[:50], Y[:50])


@pytest.mark.parametrize(
    ("options", "rows", "message"),
    [
        (
            {"inducing": 100},
            (X[:50], Y[:50]),
            "inducing=100 points .* but there are 50",
        ),
        ({"inducing": 0}, (X[:50], Y[:50]), "inducing must be a number of at least 1"),
        ({"inducing": "some"}, (X[:50], Y[:50]), "inducing must be one of 'auto'"),
        ({"inducing": X[:5, :2]}, (X[:50], Y[:50]), "have 2 columns, but X has 3"),
        ({"inducing": [[np.nan] * 3]}, (X[:50], Y[:50]), "holds NaN"),
        ({"inducing": 5, "objective": "bound"}, (X[:50], Y[:50]), "objective='bound'"),
        ({"inducing": None}, (factory, None), "needs all rows at once"),
        ({}, (factory, Y), "Pass y=None"),
        ({}, (once(), None), "can be read only once"),
        ({}, (chunks_of(), None), "gave no chunk with rows"),
        (
            {},
            (chunks_of(GOOD, (X[:5, :2], Y[:5])), None),
            "Chunk 1 has 2 columns, but chunk",
        ),
        (
            {},
            (chunks_of(GOOD, (X[:5], Y[:4])), None),
            r"Chunk 1 has 5 rows, but labels of shape \(4,",
        ),
        ({}, (chunks_of(GOOD, X[:5]), None), r"Chunk 1 is 'ndarray', but a tuple \(X, y\)"),
        (
            {"categories": [0, 1, 2, 3]},
            (chunks_of(GOOD, (X[:3], [0, 7, 1])), None),
            "Chunk 1, row 1: the label .*7.* is not one of the categories",
        ),
        (
            {},
            (chunks_of(GOOD, (np.where(np.eye(3) > 0, np.nan, 0.0), [0, 1, 2])), None),
            "Chunk 1, row 0, column 0: .*NaN",
        ),
    ],
)
def test_bad_rows_and_points_are_named(options, rows, message):
    with pytest.raises(ValueError, match=message):
        model(**{"inducing": 10, "optimizer": None, **options}).fit(*rows)


def test_empty_chunks_are_no_chunks():
    empty = X[:0], Y[:0]
    fitted = model(inducing=10, optimizer=None).fit(chunks_of(empty, GOOD, empty), None)
    assert fitted.n_features_in_ == 3


def test_equal_points_are_taken_once():
    fitted = model(inducing=np.repeat(X[:10], 3, axis=0), optimizer=None).fit(X[:60], Y[:60])
    assert len(fitted.inducing_points_) == 10


def test_too_few_passes_warn():
    with pytest.warns(ConvergenceWarning, match="still moves after 2 passes"):
        small(max_sweeps=1, tol=1e-12).fit(X[:400], Y[:400])


def test_clone_forgets_the_points():
    fitted = model(optimizer=None, inducing=10).fit(X[:60], Y[:60])
    assert not hasattr(clone(fitted), "inducing_points_")
    again = fitted.set_params(inducing=None).fit(X[:60], Y[:60])
    assert not hasattr(again, "inducing_points_")


def test_passes_without_a_gain_are_told_from_passes_with_one():
    gain = 2e-6 * 1000
    creeping = tuple(-500.0 + 1e-4 * k for k in range(12))  # 1e-3 nats in ten passes
    assert PassState(values=creeping).idle(gain, 10)
    assert not PassState(values=creeping[:10]).idle(gain, 10)  # too few to judge
    assert not PassState(values=tuple(10 * v for v in creeping)).idle(gain / 10, 10)
    assert not PassState(values=(*creeping, -510.0)).idle(gain, 10)  # the evidence fell
