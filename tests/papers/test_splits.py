"""Published and drawn partitions, labels and inputs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from papers import runner
from papers.data import BenchmarkData, DataUnavailableError, data_folder, fetch_benchmark
from papers.runner import DATASETS, Cell, draw_training_rows, load_split

TABLE_1 = {
    "diabetes": (2, 30, 13),
    "pyrimidines": (27, 50, 24),
    "triazines": (60, 100, 86),
    "wisconsin": (32, 130, 64),
    "machine_cpu": (6, 150, 59),
    "auto_mpg": (7, 200, 192),
    "boston_housing": (13, 300, 206),
    "stocks": (9, 600, 350),
    "abalone": (10, 1000, 3177),  # the nominal attribute of Table 1 takes three columns
}


@pytest.fixture
def shared():
    try:
        return data_folder()
    except DataUnavailableError as absent:
        pytest.skip(str(absent))


def test_absent_data_are_explained(monkeypatch, tmp_path):
    monkeypatch.setenv("ORDINALGP_DATA", str(tmp_path))
    with pytest.raises(DataUnavailableError, match="Set data_home or ORDINALGP_DATA"):
        data_folder()
    with pytest.raises(DataUnavailableError, match=r"no datasets\.json"):
        fetch_benchmark("abalone")


@pytest.mark.data
@pytest.mark.parametrize("bins", [5, 10])
@pytest.mark.parametrize("name", DATASETS)
def test_partitions_have_the_sizes_of_table_1_and_standardised_inputs(name, bins, shared):
    data = load_split(Cell(name, bins, 20, "ep"), shared)
    d, n_train, n_test = TABLE_1[name]
    assert data.partition == "published"
    assert data.X_train.shape == (n_train, d)
    assert data.X_test.shape == (n_test, d)
    assert data.y_train.shape == (n_train,)
    assert data.y_test.shape == (n_test,)
    assert set(data.y_train) == set(range(1, bins + 1))
    assert set(data.y_test) <= set(data.y_train)
    assert_allclose(data.X_train.mean(axis=0), 0.0, atol=1e-12)
    sd = data.X_train.std(axis=0)
    assert_allclose(sd[sd > 0], 1.0)
    assert not data.X_test[:, sd == 0].any()


@pytest.mark.data
def test_the_published_labels_are_used_where_binning_would_give_others(shared):
    # machine_cpu: targets up to 1150 were lowered to 500 before binning.
    data = load_split(Cell("machine_cpu", 5, 1, "ep"), shared)
    labels = np.concatenate([data.y_train, data.y_test])
    assert len(labels) == 209
    assert (labels == 5).sum() > 4


@pytest.mark.data
def test_ordinal_sets_have_their_own_levels_and_holdout(shared):
    data = load_split(Cell("lev", 0, 1, "ep"), shared)
    assert (len(data.y_train), len(data.y_test)) == (750, 250)
    assert set(data.y_train) == {1, 2, 3, 4, 5}
    with pytest.raises(ValueError, match="lev has no labels in 5 bins: its target is ordinal"):
        load_split(Cell("lev", 5, 1, "ep"), shared)
    with pytest.raises(ValueError, match="has 1 published partitions, but number 2 was asked for"):
        load_split(Cell("lev", 0, 2, "ep"), shared)


def unpublished(name, data_home=None):
    """An imitation of the rows of OpenML, without partitions."""
    rng = np.random.default_rng(0)
    target = rng.uniform(size=506)
    return BenchmarkData(
        name=name,
        numeric=rng.normal(size=(506, 3)),
        numeric_names=("a", "b", "c"),
        nominal=np.empty((506, 0)),
        nominal_names=(),
        target=target,
        target_kind="continuous",
        origin="nowhere",
        facts={},
    )


def test_without_partitions_ones_of_the_papers_size_are_drawn(monkeypatch):
    monkeypatch.setattr(runner, "fetch_benchmark", unpublished)
    one = load_split(Cell("boston_housing", 5, 1, "ep"))
    assert one.partition == "drawn"
    assert (len(one.y_train), len(one.y_test)) == (300, 206)
    shares = [np.bincount(y, minlength=6)[1:] / len(y) for y in (one.y_train, one.y_test)]
    assert_allclose(*shares, atol=0.01)  # stratified
    other_model = load_split(Cell("boston_housing", 5, 1, "map"))
    assert_array_equal(one.X_train, other_model.X_train)
    second = load_split(Cell("boston_housing", 5, 2, "ep"))
    assert not np.array_equal(one.X_train, second.X_train)


def test_a_level_of_one_row_can_be_drawn():
    y = np.repeat([1, 2, 3], [50, 49, 1])
    assert draw_training_rows(y, 60, 0).sum() == 60
