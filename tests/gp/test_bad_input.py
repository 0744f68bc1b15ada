"""Bad input is refused with a reason."""

import inspect
import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
)
from tests.gp.common import in_levels, make_data, quick

from ordinalgp import OrdinalGPClassifier
from ordinalgp.validation import memory as _validation

PUBLIC = {
    "predict": lambda model, X, y: model.predict(X),
    "predict_proba": lambda model, X, y: model.predict_proba(X),
    "predict_log_proba": lambda model, X, y: model.predict_log_proba(X),
    "category_proba": lambda model, X, y: model.category_proba(X),
    "latent_mean_and_variance": lambda model, X, y: model.latent_mean_and_variance(X),
    "log_marginal_likelihood": lambda model, X, y: model.log_marginal_likelihood(),
    "loo_proba": lambda model, X, y: model.loo_proba(),
    "loo_category_proba": lambda model, X, y: model.loo_category_proba(),
    "predict_interval": lambda model, X, y: model.predict_interval(X),
    "interval_from_proba": lambda model, X, y: model.interval_from_proba([[0.5, 0.5]]),
    "effects": lambda model, X, y: model.effects(X),
    "sample_proba": lambda model, X, y: model.sample_proba(X, 2),
    "score": lambda model, X, y: model.score(X, y),
    "save": lambda model, X, y: model.save("never-written"),
}
TAKES_ROWS = [
    "predict",
    "predict_proba",
    "predict_log_proba",
    "category_proba",
    "predict_interval",
    "score",
]


def own_methods():
    inherited = set(dir(BaseEstimator)) | set(dir(ClassifierMixin)) - {"score"}
    return {
        name
        for name, member in inspect.getmembers(OrdinalGPClassifier, callable)
        if not name.startswith("_") and name not in inherited and not name.startswith("set_")
    } - {"fit", "partial_fit"}


def test_every_public_method_is_tried_before_fit():
    assert own_methods() <= set(PUBLIC)


@pytest.mark.parametrize("name", sorted(own_methods()))
def test_methods_ask_for_fit_first(name):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        PUBLIC[name](OrdinalGPClassifier(), *make_data())


@pytest.mark.parametrize("name", [*TAKES_ROWS, "latent_mean_and_variance"])
def test_methods_check_the_width(name):
    X, y = make_data()
    model = quick().fit(X, y)
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 2 features"):
        PUBLIC[name](model, np.hstack([X, X[:, :1]]), y)


BAD_X = {
    "nan": (lambda X: np.where(np.arange(len(X))[:, None] == 3, np.nan, X), "contains NaN"),
    "inf": (lambda X: np.where(np.arange(len(X))[:, None] == 3, np.inf, X), "infinity"),
    "empty": (lambda X: X[:0], r"Found array with 0 sample"),
    "no columns": (lambda X: X[:, :0], r"0 feature\(s\)"),
    "one-dimensional": (lambda X: X[:, 0], "Expected 2D array, got 1D array"),
    "three-dimensional": (lambda X: X[:, :, None], "dim 3"),
    "strings": (lambda X: np.full(X.shape, "a"), "could not convert string to float"),
}


@pytest.mark.parametrize(("spoil", "message"), BAD_X.values(), ids=BAD_X.keys())
def test_bad_inputs(spoil, message):
    X, y = make_data()
    with pytest.raises(ValueError, match=message):
        quick().fit(spoil(X), y[: len(spoil(X))])
    model = quick().fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.predict(spoil(X))


def test_sparse_inputs_are_refused():
    X, y = make_data()
    with pytest.raises(TypeError, match="Sparse data was passed"):
        quick().fit(sparse.csr_array(X), y)


BAD_Y = {
    "none": (lambda y: None, {}, "requires y to be passed"),
    "too short": (lambda y: y[:-1], {}, "inconsistent numbers of samples"),
    "one class": (lambda y: 0 * y, {}, "at least 2 classes are needed"),
    "nan": (lambda y: np.where(y == 2, np.nan, y), {}, "must not have missing values, but row"),
    "infinity": (lambda y: np.where(y == 2, np.inf, y), {}, "must be finite, but row"),
    "words": (lambda y: in_levels(y), {}, r"must say how its labels are ordered.*categories="),
    "measurements": (lambda y: y + np.linspace(0, 1, len(y)) ** 2, {}, "continuous.*Cut it first"),
    "unknown": (lambda y: y, {"categories": [0, 1]}, r"only the levels of categories, \[0, 1\]"),
    "unknown word": (
        lambda y: in_levels(y),
        {"categories": ["low", "high"]},
        r"but row \d+ is 'mid'. Add this level",
    ),
    "repeated category": (lambda y: y, {"categories": [0, 1, 2, 2]}, "repeats 2"),
    "two columns": (lambda y: np.stack([y, y], axis=1), {}, "1d array"),
}


@pytest.mark.parametrize(("spoil", "options", "message"), BAD_Y.values(), ids=BAD_Y.keys())
def test_bad_labels(spoil, options, message):
    X, y = make_data()
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(X, spoil(y))


BAD_WEIGHTS = {
    "negative": (lambda w: w - 1.5, "finite and not negative, but row 0 is -0.5"),
    "nan": (lambda w: w * np.nan, "finite and not negative, but row 0 is nan"),
    "zero": (lambda w: 0 * w, "zero for every row"),
    "short": (lambda w: w[1:], r"must be a number or have shape \(30,\)"),
    "one class left": (lambda w: np.where(make_data()[1] == 1, w, 0), "classes"),
}


@pytest.mark.parametrize(("spoil", "message"), BAD_WEIGHTS.values(), ids=BAD_WEIGHTS.keys())
def test_bad_weights(spoil, message):
    X, y = make_data()
    with pytest.raises(ValueError, match=message):
        quick().fit(X, y, sample_weight=spoil(np.ones(30)))


BAD_OPTIONS = {
    "kernel word": ({"kernel": "rbf"}, TypeError, "one scikit-learn kernel object, but 'rbf'"),
    "kernel class": ({"kernel": RBF}, TypeError, "but the class RBF was given"),
    "kernel number": ({"kernel": 1.0}, TypeError, "but 1.0 was given. Use for example"),
    "kernel list": ({"kernel": CompoundKernel([RBF()])}, TypeError, "CompoundKernel"),
    "inference": ({"inference": "EP"}, ValueError, "one of 'ep', 'laplace'.*mean 'ep'"),
    "inference number": ({"inference": 3}, ValueError, "inference must be one of .* but 3"),
    "objective": ({"objective": "elbo"}, ValueError, "one of 'evidence', 'bound', but 'elbo'"),
    "decision": (
        {"decision": "mediam"},
        ValueError,
        "'balanced', 'mean' or a matrix",
    ),
    "costs": ({"decision": np.eye(2)}, ValueError, r"shape \(3, 3\), but has shape \(2, 2\)"),
    "optimizer": ({"optimizer": "adam"}, ValueError, "optimizer must be one of 'fmin_l_bfgs_b'"),
    "bound": (
        {"inference": "laplace", "objective": "bound"},
        ValueError,
        "defined for EP, but inference='laplace' was given. Use",
    ),
    "inducing": ({"inducing": 100}, ValueError, "inducing=100 points .* but there are 30 rows"),
    "inducing array": ({"inducing": np.eye(3)}, ValueError, "3 columns, but X has 2"),
    "max_sweeps": ({"max_sweeps": 0}, ValueError, "max_sweeps must be .*0"),
    "tol": ({"tol": -1.0}, ValueError, "tol must be .*-1"),
    "restarts": ({"n_restarts_optimizer": -1}, ValueError, "n_restarts_optimizer must be .*-1"),
    "categories": ({"categories": "abc"}, ValueError, "categories must be a list of levels"),
}


@pytest.mark.parametrize(
    ("options", "error", "message"), BAD_OPTIONS.values(), ids=BAD_OPTIONS.keys()
)
def test_bad_options(options, error, message):
    X, y = make_data()
    with pytest.raises(error, match=message):
        OrdinalGPClassifier(**options).fit(X, y)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (1, 4)])
def test_theta_of_the_wrong_shape(shape):
    model = quick().fit(*make_data())
    message = r"theta must have shape \(4,\): 1 kernel and 3 likelihood parameters, but has "
    with pytest.raises(ValueError, match=message + re.escape(str(shape))):
        model.log_marginal_likelihood(np.zeros(shape))


def test_too_many_rows_are_refused_before_anything_is_allocated(monkeypatch):
    X, y = make_data(n=500)
    monkeypatch.setattr(_validation, "available_memory", lambda: 8 * 8 * 100**2)

    def no_matrix(*_args, **_kwargs):
        raise AssertionError("a kernel matrix was asked for")

    monkeypatch.setattr("ordinalgp.core.search.kernel_matrix", no_matrix)
    with pytest.raises(MemoryError, match=r"500 rows need .* subsample of at most 100 rows"):
        quick().fit(X, y)


@pytest.mark.parametrize("labels", [[1], [1, 2], np.ones((30, 2))], ids=["one", "two", "matrix"])
def test_score_needs_a_label_for_every_row(labels):
    X, y = make_data()
    with pytest.raises(ValueError, match=r"inconsistent|1d array"):
        quick().fit(X, y).score(X, labels)


def test_a_failed_fit_leaves_the_old_model_whole():
    X, y = make_data()
    model = quick().fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X, y + 10, sample_weight=-np.ones(30))
    assert_array_equal(model.predict(X), before)
    assert_array_equal(model.classes_, [0, 1, 2])


def test_probabilities_that_are_not_finite_are_an_error(monkeypatch):
    """300 rows that count 1e9 times each gave NaN, after minutes."""
    X, y = make_data()
    model = quick().fit(X, y)
    before = model.category_proba(X)
    monkeypatch.setattr(
        OrdinalGPClassifier, "loo_category_proba", lambda self: np.full((len(y), 3), np.nan)
    )
    with pytest.raises(ValueError, match=r"weights up to 2 on .* rows.*divide sampling weights"):
        model.fit(X, y, sample_weight=np.full(len(y), 2.0))
    assert_array_equal(model.category_proba(X), before)


def test_a_failed_first_fit_leaves_no_model():
    X, y = make_data()
    model = quick()
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X, y, sample_weight=-np.ones(30))
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_feature_names_are_checked():
    X, y = make_data()
    frame = pd.DataFrame(X, columns=["age", "dose"])
    model = quick().fit(frame, y)
    assert_array_equal(model.feature_names_in_, ["age", "dose"])
    assert_array_equal(model.predict(frame), quick().fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["dose", "age"]])
