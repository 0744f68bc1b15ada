"""One length scale per column of a table, however many features encode it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import ordinalgp
from ordinalgp import OrdinalGPClassifier, StackedOrdinalGP
from ordinalgp.kernels import PerColumn
from ordinalgp.metrics import log_score
from ordinalgp.models.default_kernel import gaussian_kernel
from ordinalgp.tables import TableModel


def survey(n=60, seed=0):
    """A number with gaps, a town of four and an answer of two; the town and the number matter."""
    rng = np.random.default_rng(seed)
    hours, town = rng.normal(size=n), rng.integers(0, 4, n)
    u = hours + np.array([-1.0, 0.0, 1.0, 0.0])[town] + 0.3 * rng.normal(size=n)
    table = {
        "hours": np.where(rng.random(n) < 0.1, np.nan, hours),
        "town": np.array(["Ay", "Bex", "Cham", "Dole"])[town],
        "answer": np.array(["no", "yes"])[rng.integers(0, 2, n)],
    }
    return table, np.digitize(u, [-1.0, 1.0])


@pytest.mark.parametrize("kernel", ["ard", "linear"])
def test_a_kernel_with_values_per_column(kernel, tmp_path):
    table, y = survey()
    model = TableModel(kernel=kernel).fit(table, y)
    fitted = model.classifier_.kernel_
    assert isinstance(fitted, PerColumn)
    assert fitted.n_dims == 3
    assert_array_equal(fitted.groups, model.encoder_.owner)
    model.save(tmp_path / "model.ogp")
    loaded = ordinalgp.load(tmp_path / "model.ogp")
    assert loaded.classifier_.kernel_ == fitted
    assert_array_equal(loaded.category_proba(table), model.category_proba(table))


def test_a_table_of_numbers_has_the_kernel_of_its_features():
    table, y = survey()
    model = TableModel(kernel="ard").fit({"hours": np.nan_to_num(table["hours"]), "rank": y}, y)
    assert type(model.classifier_.kernel_) is type(gaussian_kernel(2, per_feature=True))


def test_an_additive_kernel_has_one_function_per_column():
    table, y = survey()
    model = TableModel(kernel="additive").fit(table, y)
    found = model.effects(table)
    assert found.feature_names == ["hours", "town", "answer"]
    latent = model.latent_mean_and_variance(table)[0]
    assert_allclose(found.constant + found.mean.sum(axis=1), latent, atol=1e-9)
    # Towns have the order of their true effects, and the answer has hardly any.
    towns = {name: found.mean[table["town"] == name, 1][0] for name in table["town"]}
    assert towns["Ay"] < min(towns["Bex"], towns["Dole"])
    assert towns["Cham"] > max(towns["Bex"], towns["Dole"])
    assert np.ptp(found.mean[:, 2]) < 0.5 * np.ptp(list(towns.values()))


def test_the_mixture_knows_the_columns():
    table, y = survey(n=20)
    model = TableModel(StackedOrdinalGP(random_state=0)).fit(table, y)
    assert_array_equal(model.classifier_.feature_groups, model.encoder_.owner)
    assert all(each.n_features_in_ == 10 for each in model.classifier_.models_.values())
    # Columns or models of one's own are kept.
    own = list(range(10))
    kept = TableModel(StackedOrdinalGP(feature_groups=own, random_state=0)).fit(table, y)
    assert kept.classifier_.feature_groups == own
    models = {"smooth": OrdinalGPClassifier(optimizer=None)}
    assert TableModel(StackedOrdinalGP(models)).fit(table, y).classifier_.feature_groups is None


def test_nominal_columns_of_noise_do_not_overfit():
    """Leave-one-out at fitted hyperparameters is near the score of new rows; it was not.

    Four columns of eight values are noise; one of three values, and a number, are not.
    """
    rng = np.random.default_rng(1)
    n = 400
    cells = rng.integers(0, 8, (n, 4))
    town, x = rng.integers(0, 3, n), rng.normal(size=n)
    y = np.digitize(x + town + rng.normal(size=n), [0.0, 1.0, 2.0])
    table = {f"noise {j}": np.array(list("abcdefgh"))[cells[:, j]] for j in range(4)}
    table |= {"town": np.array(["u", "v", "w"])[town], "x": x}
    few, rest = np.arange(n) < 100, np.arange(n) >= 100
    train, test = ({k: v[mask] for k, v in table.items()} for mask in (few, rest))
    by_column = TableModel(kernel="ard").fit(train, y[few])
    features = by_column.encode(train), by_column.encode(test)
    kernel = gaussian_kernel(features[0].shape[1], (1e-3, 1e5), per_feature=True)
    by_feature = OrdinalGPClassifier(kernel).fit(features[0], y[few])
    optimism, scores = {}, {}
    for name, model in (("column", by_column.classifier_), ("feature", by_feature)):
        scores[name] = log_score(y[rest], model.category_proba(features[1]))
        optimism[name] = scores[name] - log_score(y[few], model.loo_proba())
    assert scores["column"] < scores["feature"] - 0.05
    assert optimism["column"] < 0.5 * optimism["feature"]


def test_persons_are_natural():
    """A column of 40 persons with five rows each: their effects are found, and help."""
    rng = np.random.default_rng(2)
    person, item = np.repeat(np.arange(40), 8), np.tile(np.arange(8), 40)
    u = rng.normal(size=40)[person] + rng.normal(size=8)[item] + 0.5 * rng.normal(size=320)
    y = np.digitize(u, np.quantile(u, [0.3, 0.7]))
    few = rng.permutation(320) < 200
    table = {
        "person": np.array([f"p{i}" for i in person]),
        "item": np.array(list("abcdefgh"))[item],
    }
    train, test = ({k: v[mask] for k, v in table.items()} for mask in (few, ~few))
    model = TableModel(kernel="ard", nominal=["person"]).fit(train, y[few])
    without = TableModel(kernel="ard").fit({"item": train["item"]}, y[few])
    frequencies = np.tile(np.bincount(y[few]) / few.sum(), (np.sum(~few), 1))
    score = log_score(y[~few], model.category_proba(test))
    dropped = log_score(y[~few], without.category_proba({"item": test["item"]}))
    assert score < dropped - 0.1 < log_score(y[~few], frequencies) - 0.1
