"""Default fits where inputs say nothing about levels: about the frequencies of the levels.

Sizes are on both sides of every switch: from all rows to a subset, from exact models to inducing
points, from one inference to passes, from passes to those that begin with samples.
"""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import DotProduct
from tests.contracts.test_properties import examples

from ordinalgp import OrdinalGPClassifier, SequentialOrdinalGP, StackedOrdinalGP
from ordinalgp.many_rows.inducing import greedy_points
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.stacking.training import StackingSettings
from papers.data import DataUnavailableError, data_folder, fetch_benchmark

SIZES = ManyRowsSettings(
    exact_rows=90,
    auto_points=16,
    subset_rows=80,
    sample_rows=150,
    pool_rows=250,
    warm_rows=(100,),
    kept_rows=280,
    chunk_rows=64,
)
STACKING = StackingSettings(
    full_rows=40, screen_rows=35, exact_rows=90, judge_rows=60, kept_rows=280
)
ROWS = [38, 42, 88, 92, 148, 152, 290, 320]
INPUTS = {
    "normal": lambda rng, n: rng.normal(size=(n, 2)),
    "all equal": lambda _, n: np.full((n, 2), 3.0),
    "all zero": lambda _, n: np.zeros((n, 1)),
    "constant column": lambda rng, n: np.column_stack([rng.normal(size=n), np.ones(n)]),
    "two values": lambda rng, n: rng.integers(0, 2, (n, 3)).astype(float),
    "large": lambda rng, n: 1e6 * rng.normal(size=(n, 2)) + 1e7,
    "tiny": lambda rng, n: 1e-9 * rng.normal(size=(n, 2)),
    "heavy tails": lambda rng, n: rng.standard_cauchy(size=(n, 2)),
    "many": lambda rng, n: rng.normal(size=(n, 30)),
}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch):
    monkeypatch.setattr(OrdinalGPClassifier, "many_rows_settings", SIZES)
    monkeypatch.setattr(SequentialOrdinalGP, "_settings", SIZES)
    monkeypatch.setattr(StackedOrdinalGP, "_settings", STACKING)


def excess(model, X, y, X_new):
    """Log score of new rows, whose levels have the training rows' frequencies, above theirs."""
    share = np.bincount(y) / len(y)
    proba = model.fit(X, y).category_proba(X_new)
    assert np.all(np.isfinite(proba))
    assert_allclose(proba.sum(axis=1), 1.0)
    return float(np.mean(np.log(share) @ share - np.log(proba) @ share))


@st.composite
def weak_signals(draw):
    """Inputs, levels that hardly depend on them, and new inputs."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    inputs, n = INPUTS[draw(st.sampled_from(sorted(INPUTS)))], draw(st.sampled_from(ROWS))
    X = inputs(rng, n)
    y = rng.choice(4, n, p=[0.1, 0.4, 0.3, 0.2])
    y = np.where(rng.random(n) < draw(st.sampled_from([0.0, 0.1])), X[:, 0] > X[0, 0], y)
    y[:4] = range(4)
    return X, y.astype(int), inputs(rng, 200)


@examples(8)
@given(weak_signals())
def test_a_weak_signal_gives_about_the_frequencies(rows):
    assert excess(OrdinalGPClassifier(), *rows) < 0.25


@examples(4)
@given(weak_signals())
def test_so_it_does_step_by_step(rows):
    assert excess(SequentialOrdinalGP(), *rows) < 0.25


@pytest.mark.parametrize(
    ("inputs", "n"), [("normal", 92), ("all equal", 42), ("all equal", 92), ("constant column", 42)]
)
def test_so_does_the_mixture(inputs, n):
    rng = np.random.default_rng(0)
    X, X_new = INPUTS[inputs](rng, n), INPUTS[inputs](rng, 200)
    y = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    assert excess(StackedOrdinalGP(), X, y, X_new) < 0.15


def test_many_copies_of_few_rows_are_a_mixture_of_these():
    """Above the switches as well: copies are weights, and each is left out by itself."""
    rng = np.random.default_rng(0)
    X, y = np.repeat(np.arange(3.0), 50)[:, None], rng.integers(0, 3, 150)
    models = {"a": OrdinalGPClassifier(optimizer=None), "b": SequentialOrdinalGP(optimizer=None)}
    copies = StackedOrdinalGP(models).fit(X, y)
    table, place, counts = np.unique(
        np.column_stack([X, y]), axis=0, return_inverse=True, return_counts=True
    )
    weighted = StackedOrdinalGP(models).fit(table[:, :1], table[:, 1].astype(int), counts)
    assert_allclose(copies.category_proba(X), weighted.category_proba(X), atol=1e-6)
    assert_allclose(copies.loo_proba(), weighted.loo_proba()[place.ravel()], atol=1e-6)


def test_at_least_one_inducing_point_is_chosen():
    X = np.arange(6.0)[:, None]
    assert len(greedy_points(DotProduct(1.0), X, 3, enough=1e9)) == 1
    assert len(greedy_points(DotProduct(0.0), 0 * X, 3)) == 1


def real_sets():
    """Sets with levels and features; ratings of films have none."""
    try:
        facts = json.loads((data_folder() / "datasets.json").read_text("utf-8"))["datasets"]
    except DataUnavailableError:
        return []
    found = [each for each in facts if each["target_kind"].startswith(("ordinal", "continuous"))]
    return [each["name"] for each in found if each["name"] != "movielens_small_ratings"]


def permuted(name, n, n_new=100, most_columns=20):
    """Some rows of a real set with the levels of others, and inputs of further rows."""
    data, rng = fetch_benchmark(name, data_folder()), np.random.default_rng(0)
    X = np.nan_to_num(data.features())
    X = X[:, np.sort(rng.permutation(X.shape[1])[:most_columns])]
    y = data.labels[5] if data.labels else np.unique(data.target, return_inverse=True)[1]
    order, mixed = rng.permutation(len(X)), rng.permutation(len(X))
    n = min(n, len(X) - 10)
    X = (X - X[order[:n]].mean(axis=0)) / np.maximum(X[order[:n]].std(axis=0), 1e-9)
    y = np.unique(y[mixed][:n], return_inverse=True)[1]
    return X[order[:n]], y, X[order[n : n + n_new]]


@pytest.mark.data
@pytest.mark.parametrize(("name", "steps"), [(name, k % 2) for k, name in enumerate(real_sets())])
def test_permuted_levels_of_real_sets_give_about_the_frequencies(name, steps):
    model, n = (SequentialOrdinalGP(), 152) if steps else (OrdinalGPClassifier(), 92)
    rows = permuted(name, n)
    # Exact models of a few dozen rows can take chance for a signal.
    assert excess(model, *rows) < (0.4 if len(rows[1]) > 50 else 1.5)
