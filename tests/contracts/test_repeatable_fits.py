"""Two fits without arguments give the same numbers, on both sides of every switch of sizes."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.gaussian_process.kernels import RBF

from ordinalgp import (
    CollaborativeOrdinalGP,
    IncrementalOrdinalSVC,
    KernelDiscriminantOrdinal,
    LeastSquaresOrdinalClassifier,
    OrdinalGPClassifier,
    OrdinalSVC,
    PreferenceGP,
    SequentialOrdinalGP,
    SparseBayesOrdinalClassifier,
    StackedOrdinalGP,
)
from ordinalgp.datasets import make_ratings, make_sine_comparisons
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.stacking.training import StackingSettings

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
Y = np.digitize(X[:, 0] + 0.5 * RNG.normal(size=200), [-0.7, 0.7])
SMALL = ManyRowsSettings(
    exact_rows=40, auto_points=8, subset_rows=30, sample_rows=50, pool_rows=100, warm_rows=(60,)
)
FEW = StackingSettings(full_rows=30, screen_rows=25, exact_rows=60, judge_rows=40)


def two_models():
    kernels = {"smooth": RBF(1.0), "rough": RBF(0.3)}
    return {name: OrdinalGPClassifier(kernel) for name, kernel in kernels.items()}


CLASSIFIERS = {
    "gp": OrdinalGPClassifier,
    "restarts": lambda: OrdinalGPClassifier(n_restarts_optimizer=1),
    "sequential": SequentialOrdinalGP,
    "stacked": lambda: StackedOrdinalGP(two_models()),
    "least squares": lambda: LeastSquaresOrdinalClassifier(n_restarts_optimizer=1),
    "sparse": SparseBayesOrdinalClassifier,
    "svm": OrdinalSVC,
    "incremental svm": lambda: IncrementalOrdinalSVC(chunk_size=20),
    "discriminant": KernelDiscriminantOrdinal,
}


def twice(fit):
    """The same twice: global random numbers have moved on in between."""
    first = fit()
    np.random.rand()  # noqa: NPY002
    return first, fit()


@pytest.mark.parametrize("n", [35, 150])
@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_default_fits_are_repeatable(name, n, monkeypatch):
    monkeypatch.setattr(OrdinalGPClassifier, "many_rows_settings", SMALL)
    monkeypatch.setattr(SequentialOrdinalGP, "_settings", SMALL)
    monkeypatch.setattr(StackedOrdinalGP, "_settings", FEW)

    def predictions():
        model = CLASSIFIERS[name]().fit(X[:n], Y[:n])
        return model.predict_proba(X) if hasattr(model, "predict_proba") else model.latent(X)

    assert_array_equal(*twice(predictions))


def test_other_seeds_draw_other_rows():
    def points(seed):
        options = {"approximation": "inducing", "optimizer": None}
        model = OrdinalGPClassifier(RBF(0.1), **options, random_state=seed)
        model.many_rows_settings = SMALL
        return model.fit(X, Y).inducing_points_

    assert not np.array_equal(points(1), points(2))
    assert_array_equal(points(None), points(None))


def test_default_preferences_are_repeatable():
    items, pairs = make_sine_comparisons(40, random_state=0)

    def ranking():
        found = PreferenceGP().fit(items, pairs).rank(items)
        return np.asarray(found.best_proba)

    assert_array_equal(*twice(ranking))


def test_default_ratings_are_repeatable():
    table = make_ratings(6, 8, random_state=0)

    def predictions():
        model = CollaborativeOrdinalGP().fit(table.raters, table.items, table.ratings)
        return model.predict_proba(table.raters[:10], table.items[:10])

    assert_array_equal(*twice(predictions))
