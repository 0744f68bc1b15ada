"""The choice of an approximation by held-out rows, and models made of several fits."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, Matern

from ordinalgp import OrdinalGPClassifier, SequentialOrdinalGP, StackedOrdinalGP, load
from ordinalgp.many_rows.neighbour_model import NeighbourGP
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.metrics import log_score
from ordinalgp.runtime.progress import listening
from ordinalgp.stacking.training import StackingSettings

SETTINGS = ManyRowsSettings(
    exact_rows=150,
    subset_rows=120,
    sample_rows=300,
    block_rows=60,
    halo_rows=30,
    block_search_rows=120,
    refine_rows=180,
    choice_places=5,
    choice_points=12,
    auto_points=12,
    auto_neighbours=40,
)


def rows(frequency, n=900, seed=0):
    """Levels of a function of the first input that turns so often."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    f = np.sin(frequency * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)
    return X, np.digitize(f, [-1.0, 0.0, 1.0])


def model(settings=SETTINGS, **options):
    made = OrdinalGPClassifier(Matern([1.0, 1.0], nu=0.5), **options)
    made.many_rows_settings = settings
    return made


# ------------------------------------------------------------------------ the choice


def test_a_rough_function_gets_neighbours_and_predicts_better():
    X, y = rows(12.0)
    new = rows(12.0, seed=1)
    seen = []
    with listening(seen.append):
        chosen = model().fit(X, y)
    told = [each.text for each in seen if each.stage == "model"]
    assert len(told) == 1
    assert "neighbours chosen" in told[0]
    assert chosen.approximation_ == "neighbours"
    points = model(approximation="inducing").fit(X, y)
    assert points.approximation_ == "inducing"
    scores = [log_score(new[1], each.category_proba(new[0])) for each in (chosen, points)]
    assert scores[0] < scores[1] - 0.1


def test_a_smooth_function_gets_inducing_points(capsys):
    X, y = rows(0.7)
    chosen = model(verbose=1).set_params(kernel=RBF([1.0, 1.0])).fit(X, y)
    assert chosen.approximation_ == "inducing"
    assert len(chosen.inducing_points_) <= 12
    few = model().fit(X[:100], y[:100])
    assert few.approximation_ == "exact"
    assert not hasattr(few, "inducing_points_")


def test_verbose_says_what_was_chosen(capsys):
    X, y = rows(12.0, n=400)
    model(verbose=1, optimizer=None).fit(X, y)
    text = capsys.readouterr().err
    assert "held-out rows" in text
    assert "chosen" in text


def test_rows_held_out_are_not_learned_from():
    """Levels without any signal: held-out scores are those of the frequencies, not better."""
    X, _ = rows(1.0)
    y = np.random.default_rng(3).integers(0, 4, len(X))
    seen = []
    with listening(seen.append):
        model().fit(X, y)
    text = next(each.text for each in seen if each.stage == "model")
    words = text.replace(",", "").split()
    found = [float(word) for word in words if word.startswith(("1.", "2."))]
    assert len(found) == 2
    assert min(found) > np.log(4) - 0.03


# ------------------------------------------------------------------------ models of several fits


@pytest.mark.parametrize("direction", ["middle", "up"])
def test_sequential_models_with_all_rows_as_neighbours_are_exact(direction):
    X, y = rows(3.0, n=160)
    options = {"direction": direction, "optimizer": None, "tol": 1e-10}
    kernel = Matern([1.0, 1.0], nu=0.5)
    truth = SequentialOrdinalGP(kernel, approximation="exact", **options).fit(X, y)
    found = SequentialOrdinalGP(kernel, neighbours=1000, **options)
    found._settings = replace(SETTINGS, block_rows=1000, subset_rows=1000)
    found.fit(X, y)
    assert all(isinstance(step.model, NeighbourGP) for step in found.steps_)
    new = rows(3.0, n=50, seed=1)[0]
    assert_allclose(found.category_proba(new), truth.category_proba(new), atol=1e-8)
    assert_allclose(found.loo_proba(), truth.loo_proba(), atol=1e-8)


def test_sequential_models_choose_for_each_step(tmp_path):
    X, y = rows(12.0)
    found = SequentialOrdinalGP(Matern([1.0, 1.0], nu=0.5))
    found._settings = SETTINGS
    found.fit(X, y)
    assert any(isinstance(step.model, NeighbourGP) for step in found.steps_)
    proba = found.category_proba(X[:50])
    assert_allclose(proba.sum(axis=1), 1.0)
    assert np.isfinite(found.loo_proba()).all()
    found.save(tmp_path / "model.ogp")
    assert_array_equal(load(tmp_path / "model.ogp").category_proba(X[:50]), proba)


def test_mixtures_have_models_that_predict_from_neighbours(tmp_path, monkeypatch):
    monkeypatch.setattr(OrdinalGPClassifier, "many_rows_settings", SETTINGS)
    monkeypatch.setattr(SequentialOrdinalGP, "_settings", SETTINGS)
    X, y = rows(6.0)
    new, levels = rows(6.0, seed=1)
    kernel = Matern([1.0, 1.0], nu=0.5)
    models = {
        "auto": OrdinalGPClassifier(kernel),
        "sequential": SequentialOrdinalGP(kernel),
        "exact": OrdinalGPClassifier(RBF(1.0), approximation="exact"),
    }
    mixture = StackedOrdinalGP(models, random_state=0)
    mixture._settings = replace(
        StackingSettings(), full_rows=60, screen_rows=50, exact_rows=300, judge_rows=200
    )
    mixture.fit(X, y)
    kept = mixture.models_
    assert kept["auto"].approximation_ == "neighbours"
    exact = kept.get("exact")
    assert exact is None or len(exact.loo_proba()) == 300  # never fitted on all rows
    few = OrdinalGPClassifier(kernel).fit(X[:140], y[:140])
    scores = [log_score(levels, each.category_proba(new)) for each in (mixture, few)]
    assert scores[0] < scores[1] - 0.05
    assert mixture.loo_proba().shape == (900, 4)
    mixture.save(tmp_path / "model.ogp")
    again = load(tmp_path / "model.ogp")
    assert_array_equal(again.category_proba(new), mixture.category_proba(new))
    assert_array_equal(again.loo_proba(), mixture.loo_proba())
