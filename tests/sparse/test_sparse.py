"""SparseBayesOrdinalClassifier: scikit-learn's contract, sparsity, growth, limits, messages."""

import pickle
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process.kernels import RBF, PairwiseKernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.model_files import with_field

import ordinalgp
from ordinalgp import OrdinalGPClassifier, SparseBayesOrdinalClassifier
from ordinalgp.kernels import Exponential
from ordinalgp.metrics import make_ordinal_scorer
from ordinalgp.runtime.progress import listening
from ordinalgp.sparse.training import TrainingLimits
from ordinalgp.sparse.width import WidthSearch, WidthSettings
from ordinalgp.validation.memory import check_bytes

LEVELS = ["low", "mid", "high"]  # alphabetical order is high, low, mid
TRAININGS = ["incremental", "batch"]


def make_data(n=120, r=3, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = X[:, 0] + 0.5 * X[:, 1] ** 2 + noise * rng.normal(size=n)
    return X, np.searchsorted(np.quantile(f, np.arange(1, r) / r), f)


def quick(**options):
    """Return a model that keeps its kernel."""
    return SparseBayesOrdinalClassifier(**{"kernel": RBF(1.5), "random_state": 0, **options})


def chosen_by(coarse, fine):
    """Return settings for a width that is chosen by these numbers of rows."""
    usual = WidthSettings()
    stages = replace(usual.coarse, n_rows=coarse), replace(usual.fine, n_rows=fine)
    return replace(usual, coarse=stages[0], fine=stages[1])


@parametrize_with_checks(
    [SparseBayesOrdinalClassifier(kernel=RBF(3.0)), quick(training="batch")],
    expected_failed_checks=lambda estimator: {
        "check_classifiers_classes": "feeds strings without an order, which this model refuses"
    },
)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The kernel .* is so (narrow|wide)")
        check(estimator)


def test_pipeline_and_cross_validation():
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), SparseBayesOrdinalClassifier(random_state=0))
    assert cross_val_score(model, X[::3], y[::3], cv=2).mean() > 0.85


# ------------------------------------------------------------------------------- the model


@pytest.mark.parametrize("training", TRAININGS)
def test_probabilities_include_the_weights_uncertainty(training):
    """The weighted sum as printed, its variance, and the levels by scipy's normal distribution."""
    X, y = make_data()
    model = quick(training=training).fit(X, y)
    new = np.random.default_rng(1).normal(size=(9, 2))
    distance = ((new[:, None] - X[model.relevance_]) ** 2).sum(-1)
    phi = np.exp(-0.5 * distance / 1.5**2)
    sd = np.sqrt(1 + np.einsum("ij,jk,ik->i", phi, model.weights_covariance_, phi))
    below = norm.cdf((model.thresholds_ - (phi @ model.weights_)[:, None]) / sd[:, None])
    assert_allclose(model.category_proba(new).cumsum(axis=1)[:, :-1], below, atol=1e-10)
    assert_array_equal(model.relevance_vectors_, X[model.relevance_])
    assert model.noise_ == 1.0
    assert len(model.relevance_) < 20


def test_it_predicts_like_the_full_process():
    X, y = make_data(150, noise=0.5)
    new, truth = make_data(500, seed=1, noise=0.5)
    sparse = SparseBayesOrdinalClassifier(random_state=0).fit(X, y)
    full = OrdinalGPClassifier().fit(X, y)
    assert len(sparse.relevance_) < 30
    assert sparse.score(new, truth) > full.score(new, truth) - 0.03


def test_sharp_levels_need_few_wide_functions():
    """Weights of thousands of times the noise that nearly cancel; a product of the inputs."""
    X = np.random.default_rng(0).uniform(-1.7, 1.7, (800, 2))
    y = np.digitize(X[:, 0] * X[:, 1], [-0.8, -0.12, 0.2, 0.8])
    model = quick(kernel=RBF(8.0)).fit(X[:400], y[:400])
    assert len(model.relevance_) < 15
    assert np.abs(model.weights_).max() > 1e3
    assert model.score(X[400:], y[400:]) > 0.97


def test_batch_training_of_wide_functions_is_as_good():
    """They share a constant, which thresholds carry; what is left of each is small."""
    X, y = make_data(150)
    few, all_in = (quick(kernel=RBF(20.0), training=how).fit(X, y) for how in TRAININGS)
    gap = few.log_marginal_likelihood_value_ - all_in.log_marginal_likelihood_value_
    assert abs(gap) < 3
    assert all_in.score(X, y) > 0.75


def test_the_path_is_reported():
    X, y = make_data()
    model = quick().fit(X, y)
    kinds, values = model.evidence_moves_, model.evidence_path_
    assert set(kinds) <= {"start", "add", "re-estimate", "delete", "linearise", "thresholds"}
    assert {"add", "linearise"} <= set(kinds)
    assert set(kinds[1:][np.diff(values) < -1e-9]) <= {"linearise"}
    assert values[-1] == model.log_marginal_likelihood_value_
    assert model.converged_


def test_the_path_begins_where_the_chosen_width_did():
    X, y = make_data()
    searched = SparseBayesOrdinalClassifier(random_state=0).fit(X, y)
    # Both begin with the same functions, and widths are tried with a tolerance of one.
    given = SparseBayesOrdinalClassifier(searched.kernel_, tol=1.0, random_state=0).fit(X, y)
    kinds, values = searched.evidence_moves_, searched.evidence_path_
    assert np.count_nonzero(kinds == "start") == 1
    assert set(kinds[1:][np.diff(values) < -1e-9]) <= {"linearise"}
    assert values[-1] == searched.log_marginal_likelihood_value_
    n = len(given.evidence_path_)
    assert n > 5
    assert_allclose(values[:n], given.evidence_path_, rtol=1e-10)
    assert_array_equal(kinds[:n], given.evidence_moves_)


def test_steps_of_another_training_are_not_in_the_path(monkeypatch):
    X, y = make_data()
    batch = SparseBayesOrdinalClassifier(training="batch", random_state=0).fit(X, y)
    assert batch.evidence_moves_[0] == "start"
    assert (
        "add" not in batch.evidence_moves_
    )  # all are in from the start; widths were tried by ISBOR
    monkeypatch.setattr(SparseBayesOrdinalClassifier, "width_settings", chosen_by(40, 60))
    some = SparseBayesOrdinalClassifier(random_state=0).fit(X, y)
    assert some.width_rows_ < len(X)
    # Fewer rows have a larger evidence, from which the path would fall.
    assert np.diff(some.evidence_path_).min() > -3


def test_same_seed_same_model_and_rows_in_any_order():
    X, y = make_data()
    a, b = quick().fit(X, y), quick().fit(X, y)
    assert_array_equal(a.predict_proba(X), b.predict_proba(X))
    order = np.random.default_rng(0).permutation(len(X))
    c = quick().fit(X[order], y[order])
    assert_array_equal(order[c.relevance_], a.relevance_)
    assert_array_equal(a.predict_proba(X), c.predict_proba(X))


def test_weights_are_copies():
    X, y = make_data(60)
    counts = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = quick().fit(X, y, sample_weight=counts)
    copied = quick().fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), atol=1e-12)


def test_named_levels_and_decisions():
    X, y = make_data()
    names = np.array(LEVELS)[y]
    model = quick(categories=[*LEVELS, "top"]).fit(X, names)
    assert_array_equal(model.categories_, [*LEVELS, "top"])
    assert_array_equal(model.classes_, sorted(LEVELS))
    assert model.category_proba(X).shape == (len(X), 4)
    ordered = pd.Series(pd.Categorical(names, LEVELS, ordered=True))
    plain = quick(decision="median").fit(X, ordered)
    assert set(plain.predict(X)) <= set(LEVELS)


# --------------------------------------------------------------------------------- width


@pytest.mark.parametrize("grid", [(-3.0, -1.0, 1.0, 3.0), (-1.0, 0.0, 1.0)])
def test_width_search_finds_the_top_of_a_curve(grid):
    def curve(width):
        return -(np.log2(width / 9.1) ** 2), width

    settings = WidthSettings()
    search = WidthSearch(settings, TrainingLimits(1.0, 9, 9, 1e6), np.random.RandomState(0))
    stage = replace(settings.coarse, grid=grid)
    path, best = search.maximise(curve, 1.0, stage)
    assert abs(np.log2(best.width / 9.1)) <= 0.125
    assert best.result == best.width
    assert np.all(np.diff(path[:, 0]) > 0)
    assert_allclose(path[:, 1], -(np.log2(path[:, 0] / 9.1) ** 2))
    path, best = search.maximise(lambda width: (0.0, None), 1.0, stage)
    assert best.width == path[:, 0].max()


def test_the_width_is_the_best_of_those_tried():
    X, y = make_data()
    model = SparseBayesOrdinalClassifier(random_state=0).fit(1000 * X, y)  # far from standardised
    widths, values = model.width_path_.T
    assert model.kernel_.length_scale == widths[values.argmax()]
    assert 300 < model.kernel_.length_scale < 30000
    assert model.score(1000 * X, y) > 0.8
    assert quick().fit(X, y).width_path_.shape == (0, 2)


def make_waves(n, seed=0):
    """A line with small waves: few rows see the line alone."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 1))
    f = X[:, 0] + 0.9 * np.sin(6 * X[:, 0]) + rng.normal(size=n)
    return X, np.digitize(f, [-1, 1])


@pytest.fixture
def few_rows(monkeypatch):
    """Forty rows choose from the grid, and at most 800 among its neighbours."""
    monkeypatch.setattr(SparseBayesOrdinalClassifier, "width_settings", chosen_by(40, 800))


def test_more_rows_than_the_grid_saw_have_the_last_word(few_rows):
    X, y = make_waves(700)
    model = SparseBayesOrdinalClassifier(random_state=0).fit(X, y)
    assert model.width_rows_ == 700
    widths, values = model.width_path_.T
    width = model.kernel_.length_scale
    assert width == widths[values.argmax()] < 0.8
    # Trials end at a tolerance of 1 with fewer candidates; given kernels are trained to the end.
    for other in (0.5 * width, 2 * width, 3.0):
        given = quick(kernel=RBF(other)).fit(X, y)
        gap = model.log_marginal_likelihood_value_ - given.log_marginal_likelihood_value_
        assert gap - 2.3 * (len(model.relevance_) - len(given.relevance_)) > 0


def test_rows_in_parts_go_on_from_the_width(few_rows):
    X, y = make_waves(1500)
    X[699], y[699] = X[0], y[0]  # merged, and counted all the same
    model = SparseBayesOrdinalClassifier(random_state=0)
    seen = []
    for part in (slice(30), slice(30, 350), slice(350, 700), slice(700, 1500)):
        model.partial_fit(X[part], y[part])
        seen.append((model.width_rows_, len(model.width_path_)))
    # A grid, then a grid and its neighbours, then neighbours alone, and no search in vain.
    assert [rows for rows, _ in seen] == [30, 350, 700, 700]
    assert seen[0][1] >= 9
    assert seen[2][1] <= 7
    widths, values = model.width_path_.T
    assert model.kernel_.length_scale == widths[values.argmax()]


def test_equal_rows_are_more_rows_too():
    """Answers on a scale: twice as many rows, though hardly any new ones among them."""
    rng = np.random.default_rng(0)
    X = rng.integers(1, 4, size=(200, 2)).astype(float)
    y = np.digitize(X.sum(axis=1) + rng.normal(size=200), [3.5, 4.5])
    model = SparseBayesOrdinalClassifier(random_state=0)
    model.partial_fit(X[:100], y[:100], classes=[0, 1, 2]).partial_fit(X[100:], y[100:])
    assert len(model._result.model.rows.codes) < 1.2 * len(np.unique(np.c_[X, y][:100], axis=0))
    assert model.width_rows_ == 200


def test_grid_search_over_the_kernel():
    X, y = make_data(90)
    grid = {"kernel": [RBF(0.05), RBF(1.5)]}
    scorer = make_ordinal_scorer("mean_absolute_error")
    found = GridSearchCV(quick(), grid, scoring=scorer, cv=3).fit(X, y)
    assert found.best_params_["kernel"] == RBF(1.5)


def drawn_from(kernel, n=150):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    f = 3 * np.linalg.cholesky(kernel(X) + 1e-8 * np.eye(n)) @ rng.normal(size=n)
    f += 0.3 * rng.normal(size=n)
    return X, np.searchsorted(np.quantile(f, [0.25, 0.5, 0.75]), f)


@pytest.mark.parametrize("truth", [RBF(1.0), Exponential(4.0)])
def test_the_evidence_finds_the_kind_of_function(truth):
    X, y = drawn_from(truth)
    models = {
        word: SparseBayesOrdinalClassifier(word, random_state=0).fit(X, y)
        for word in (None, "gaussian", "exponential", "auto")
    }
    assert_array_equal(models[None].alpha_, models["gaussian"].alpha_)
    found = {type(models[word].kernel_): models[word] for word in ("gaussian", "exponential")}
    assert set(found) == {RBF, Exponential}
    best = max(found.values(), key=lambda model: model.width_path_[:, 1].max())
    assert type(models["auto"].kernel_) is type(best.kernel_) is type(truth)
    assert_array_equal(models["auto"].category_proba(X), best.category_proba(X))
    assert_array_equal(models["auto"].width_path_, best.width_path_)


def test_kinds_of_functions_are_compared_on_the_same_rows(few_rows, monkeypatch):
    """A row more costs evidence; and those who see most rows have the last word."""
    found = []
    compare = WidthSearch.compare
    monkeypatch.setattr(WidthSearch, "compare", lambda *a: found.append(compare(*a)) or found[-1])
    X, y = drawn_from(Exponential(4.0), 160)
    model = SparseBayesOrdinalClassifier("auto", random_state=0).fit(X, y)
    assert [[type(each.kernel) for each in both] for both in found] == [[RBF, Exponential]] * 2
    for both, n_rows in zip(found, (range(40, 45), [160]), strict=True):
        assert both[0].n_rows == both[1].n_rows
        assert both[0].n_rows in n_rows  # and the first of each level
    best = max(found[1], key=lambda each: each.path[:, 1].max())
    assert model.kernel_ == best.kernel
    assert_array_equal(model.width_path_, best.path)


def test_the_kind_of_function_is_chosen_again_with_more_rows(tmp_path):
    X, y = drawn_from(Exponential(4.0), 250)
    model = SparseBayesOrdinalClassifier("auto", random_state=0)
    model.partial_fit(X[:30], y[:30], classes=[0, 1, 2, 3])
    assert type(model.kernel_) is RBF
    model.save(tmp_path / "m.ogp")
    model = ordinalgp.load(tmp_path / "m.ogp")
    assert model.kernel == "auto"
    model.partial_fit(X[30:], y[30:])
    assert type(model.kernel_) is Exponential
    assert model.width_rows_ == 250


def test_another_kind_of_function_can_be_asked_for_on_the_way(few_rows):
    X, y = make_waves(200)
    model = SparseBayesOrdinalClassifier("gaussian", random_state=0).fit(X[:100], y[:100])
    assert type(model.kernel_) is RBF
    model.set_params(kernel="exponential").partial_fit(X[100:], y[100:])
    assert type(model.kernel_) is Exponential


def test_kernels_that_refuse_to_be_asked_for_nothing():
    X, y = make_data(60)
    kernel = PairwiseKernel(gamma=0.3, metric="laplacian")
    with pytest.raises(ValueError, match="0 sample"):
        kernel(X, X[:0])
    model = quick(kernel=kernel, tol=1e3).fit(X, y)  # no candidate is worth as much
    assert model.converged_
    assert 1 <= len(model.relevance_) <= 3  # those of the start


# ------------------------------------------------------------------------ memory and growth


def test_streaming_and_holding_the_matrix_agree():
    X, y = make_data(300)
    held, streamed = quick().fit(X, y), quick(memory_limit=10_000).fit(X, y)
    assert_array_equal(held.relevance_, streamed.relevance_)
    assert_allclose(held.predict_proba(X), streamed.predict_proba(X), atol=1e-6)


def test_candidates_can_be_few():
    X, y = make_data(300)
    model = quick(candidates=40).fit(X, y)
    assert 40 <= len(model.candidates_) <= 43  # and the first row of each level
    assert set(model.relevance_) <= set(model.candidates_)
    assert len(quick(candidates=None).fit(X, y).candidates_) == 300
    assert model.score(X, y) > 0.8


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of the largest memory varies")
def test_many_rows_stay_within_the_memory_limit():
    """The matrix of 20,000 x 2,000 would take 320 MB; a limit of 50 MB keeps the peak below."""
    code = """
import resource
import numpy as np
from sklearn.gaussian_process.kernels import RBF
from ordinalgp import SparseBayesOrdinalClassifier
rng = np.random.default_rng(0)
X = rng.normal(size=(20000, 2))
y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=20000), [-0.5, 0.5])
model = SparseBayesOrdinalClassifier(RBF(2.0), memory_limit="50MB", max_iter=2, random_state=0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model.fit(X, y)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 250


def test_partial_fit_on_halves_is_near_the_whole():
    X, y = make_data(400, r=4, noise=0.5)
    new, truth = make_data(2000, r=4, seed=1, noise=0.5)
    whole = quick().fit(X, y)
    half = quick().partial_fit(X[:200], y[:200])
    first = half.relevance_.max()
    half.partial_fit(X[200:], y[200:])
    errors = [np.abs(m.predict(new) - truth).mean() for m in (whole, half)]
    assert errors[1] <= 1.02 * errors[0]
    assert half.n_rows_seen_ == 400
    assert first < 200 <= half.candidates_.max()
    assert_array_equal(half.relevance_vectors_, X[half.relevance_])
    assert half.evidence_moves_[0] == "start"


def test_partial_fit_keeps_kernel_and_learns_levels():
    X, y = make_data(150)
    model = SparseBayesOrdinalClassifier(random_state=0)
    low = y < 2
    model.partial_fit(X[low], y[low], classes=[0, 1, 2])
    width = model.kernel_.length_scale
    assert_array_equal(model.classes_, [0, 1])
    model.partial_fit(X[~low], y[~low])  # rows of a single, new level
    assert_array_equal(model.classes_, [0, 1, 2])
    assert model.kernel_.length_scale == width
    assert model.score(X, y) > 0.7
    with pytest.raises(ValueError, match="only the levels of categories"):
        model.partial_fit(X[:3], [0, 1, 7])
    assert model.n_rows_seen_ == 150  # what fails leaves the model as it was


def test_saved_models_predict_the_same_and_go_on(tmp_path):
    X, y = make_data(150)
    model = SparseBayesOrdinalClassifier(random_state=0).fit(X[:100], y[:100])
    model.save(tmp_path / "model.ogp")
    loaded = ordinalgp.load(tmp_path / "model.ogp")
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert_array_equal(loaded.relevance_, model.relevance_)
    again = pickle.loads(pickle.dumps(model))
    for other in (loaded, again):
        other.partial_fit(X[100:], y[100:])
    model.partial_fit(X[100:], y[100:])
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("basis.likelihood.noise", 2.0, "the likelihood and the rest of the model disagree"),
        ("basis.likelihood.gaps", np.ones(3), "the likelihood and the rest of the model disagree"),
        ("basis.index", np.zeros(3, dtype=int), "the basis and the rest of the model disagree"),
        ("basis.index", np.array([0, 1, 40]), "index must lie from 0 to below 40"),
        ("basis.weights", np.array([0.0, 1.0, np.nan]), "weights must lie from"),
        ("basis.alpha", np.zeros(3), "alpha must lie from"),
        ("candidates", np.zeros(40, dtype=int), "candidates and the rest of the model disagree"),
        ("candidates", np.arange(1, 41), "candidates must lie from 0 to below 40"),
        ("rows.first_row", np.full(40, 99), "first_row and the rest of the model disagree"),
        ("rows.codes", np.full(40, 3), "codes must lie from 0 to below 3"),
        ("rows.counts", np.zeros(40), "counts must lie from"),
        ("rows.inputs", np.full((40, 2), np.nan), "the inputs and the rest of the model disagree"),
        ("rows.inputs", np.ones((40, 3)), "the inputs and the rest of the model disagree"),
        ("covariance", np.eye(2), "covariance has kind f and shape"),
        ("width_path", np.ones((2, 3)), "width_path and the rest of the model disagree"),
        ("path.values", np.ones(1), "values has kind f and shape"),
        ("converged", "yes", "converged must be a bool"),
        ("n_rows_seen", 0, "n_rows_seen must lie from 1"),
    ],
)
def test_a_file_whose_parts_disagree_is_refused(name, value, reason):
    X, y = make_data(40)
    model = quick(tol=100.0).fit(X, y)  # no move is worth as much: one function per level
    assert len(model.relevance_) == 3
    with pytest.raises(ValueError, match=reason):
        with_field(model, name, value)


# -------------------------------------------------------------------------- limits, messages


@pytest.mark.parametrize(("width", "word"), [(1e-6, "narrow"), (1e8, "wide")])
@pytest.mark.parametrize("training", TRAININGS)
def test_extreme_widths_warn_and_stay_finite(width, word, training):
    X, y = make_data(40)
    with pytest.warns(UserWarning, match=word):
        model = quick(kernel=RBF(width), training=training).fit(X, y)
    proba = model.predict_proba(X)
    assert np.isfinite(proba).all()
    assert_allclose(proba.sum(axis=1), 1.0)
    assert np.isfinite(model.log_marginal_likelihood_value_)
    if word == "wide":  # nothing but the shares of the levels is left to learn
        assert_allclose(proba[0], np.bincount(y) / 40, atol=0.02)


def test_an_unfinished_training_warns():
    X, y = make_data()
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = quick(max_iter=1).fit(X, y)
    assert not model.converged_
    assert np.isfinite(model.predict_proba(X)).all()


def test_rounds_and_widths_are_reported(capsys):
    X, y = make_data(60)
    seen = []
    with listening(seen.append):
        model = SparseBayesOrdinalClassifier(random_state=0).fit(X, y)
    assert capsys.readouterr() == ("", "")
    stages = [progress.stage for progress in seen]
    assert stages == sorted(stages, reverse=True)  # widths first, then rounds
    searched = [progress for progress in seen if progress.stage == "search"]
    assert searched[-1].done
    assert searched[-1].step == len(model.width_path_)
    assert searched[-1].value == model.width_path_[:, 1].max()
    assert seen[-1].done
    assert seen[-1].step == model.n_iter_
    assert seen[-1].value == model.log_marginal_likelihood_value_
    assert seen[-1].text == f"{len(model.relevance_)} functions"


@pytest.mark.parametrize("verbose", [0, 1, 2])
def test_verbose_prints_results_or_every_round(capsys, verbose):
    X, y = make_data(60)
    model = quick(verbose=verbose).fit(X, y)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("basis: round") == [0, 1, model.n_iter_][verbose]
    assert (f"{len(model.relevance_)} functions" in err) == (verbose > 0)


def test_max_basis_bounds_the_model():
    X, y = make_data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert len(quick(kernel=RBF(0.3), max_basis=5).fit(X, y).relevance_) <= 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"training": "both"}, "training must be one of"),
        ({"max_basis": 0}, "max_basis must be a number of at least 1"),
        ({"memory_limit": "many"}, "memory_limit must be a positive number of bytes"),
        ({"candidates": "all"}, "candidates must be one of"),
        ({"candidates": 0}, "candidates must be a number of at least 1"),
        ({"candidates": 40.0}, "candidates must be a whole number, but is 40.0"),
        ({"max_basis": 5.5}, "max_basis must be a whole number"),
        ({"max_iter": 0}, "max_iter must be a number of at least 1"),
        ({"max_iter": 10.0}, "max_iter must be a whole number, but is 10.0"),
        ({"tol": 0}, "tol must be a number above 0"),
        ({"decision": "best"}, "must be one of 'mode'"),
    ],
)
def test_bad_options_say_what_to_do(options, message):
    X, y = make_data(20)
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(X, y)


def test_bad_kernel_and_bad_input():
    X, y = make_data(20)
    with pytest.raises(ValueError, match="kernel must be one of 'gaussian', 'exponential', 'auto'"):
        quick(kernel="rbf").fit(X, y)
    with pytest.raises(TypeError, match="kernel must be one scikit-learn kernel"):
        quick(kernel=RBF).fit(X, y)
    with pytest.raises(ValueError, match="at least 2 classes"):
        quick().fit(X, np.zeros(20))
    with pytest.raises(ValueError, match="say how its labels are ordered"):
        quick().fit(X, np.array(LEVELS)[y])
    with pytest.raises(ValueError, match="sample_weight"):
        quick().fit(X, y, sample_weight=-np.ones(20))
    with pytest.raises(NotFittedError):
        quick().predict(X)
    assert clone(quick(tol=0.5)).tol == 0.5


def test_sizes_in_words():
    sizes = [check_bytes("size", value) for value in (5, "5", "5B", "1.5 gb", "512MB", "2kb")]
    assert sizes == [5, 5, 5, 1.5e9, 512e6, 2e3]
    for bad in ("", "GB", "-1GB", "1 apple", True, None, float("nan"), 0):
        with pytest.raises(ValueError, match="size must be a positive number of bytes"):
            check_bytes("size", bad)


@pytest.mark.parametrize("training", TRAININGS)
def test_a_few_rows_are_enough(training):
    model = quick(kernel=RBF(1.0), training=training).fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    assert_array_equal(model.predict([[0.0], [2.0]]), [0, 2])


@pytest.mark.parametrize("scale", [1e-150, 1e6, 1e200])
def test_the_width_is_found_at_any_scale_of_the_inputs(scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    plain, scaled = (
        SparseBayesOrdinalClassifier(random_state=0).fit(s * X, y) for s in (1.0, scale)
    )
    assert_allclose(scaled.kernel_.length_scale, scale * plain.kernel_.length_scale, rtol=1e-6)
    assert_allclose(scaled.predict_proba(scale * X), plain.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("training", ["incremental", "batch"])
@pytest.mark.parametrize("weight", [1e5, 1e12])
def test_rows_may_count_very_often(training, weight):
    """The mode puts every row between the thresholds of its level, as the data are separable.

    Laplace's variances are as large as the prior's there, so that predictions are vaguer than that.
    A weight of 1e12 made an inverse Hessian not definite.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.digitize(X[:, 0] + 0.05 * rng.normal(size=40), [-0.7, 0.7])
    model = SparseBayesOrdinalClassifier(RBF(3.0), training=training)
    model.fit(X, y, sample_weight=np.full(40, weight))
    mean, var = model.latent_mean_and_variance(X)
    np.testing.assert_array_equal(np.digitize(mean, model.thresholds_), y)
    assert np.all(np.isfinite(var))
    assert np.all(np.isfinite(model.category_proba(X)))


@pytest.mark.parametrize("dtype", ["U4", object])
def test_partial_fit_takes_words(dtype):
    X = np.linspace(-2, 2, 60)[:, None]
    ranks = np.digitize(X[:, 0], [-0.7, 0.7])
    names = np.array(["low", "mid", "high"], dtype=dtype)
    words = SparseBayesOrdinalClassifier(RBF(1.0), categories=["low", "mid", "high"])
    numbers = SparseBayesOrdinalClassifier(RBF(1.0))
    for part in (slice(0, None, 2), slice(1, None, 2)):
        words.partial_fit(X[part], names[ranks[part]], classes=["low", "mid", "high"])
        numbers.partial_fit(X[part], ranks[part], classes=[0, 1, 2])
    np.testing.assert_allclose(words.category_proba(X), numbers.category_proba(X), rtol=1e-10)
