"""The benchmarks of comparisons: nothing leaks, errors are counted as they say, runs go on."""

import json

import numpy as np
import pytest
from benchmarks import order_active, order_tables
from benchmarks.order_tables import Cell, _error, draw_pairs
from numpy.testing import assert_allclose, assert_array_equal

from ordinalgp.benchmark.protocol import data_folder
from ordinalgp.datasets import DataUnavailableError


def test_pairs_are_won_and_training_is_not_tested():
    y = np.random.default_rng(0).integers(0, 9, 40).astype(float)
    train, test = draw_pairs(y, 50, seed=3)
    both = np.vstack([train, test])
    assert len(train) == 50
    assert np.all(y[both[:, 0]] > y[both[:, 1]])
    assert len(np.unique(np.sort(both, axis=1), axis=0)) == len(both)
    assert len(both) == np.sum(np.triu(y[:, None] != y, 1))
    assert_array_equal(draw_pairs(y, 50, seed=3)[0], train)


def test_errors_count_equal_utilities_half():
    utility = np.array([2.0, 1.0, 1.0, 3.0])
    assert _error(utility, np.array([[0, 1], [1, 2], [0, 3], [3, 1]])) == (1 + 0.5) / 4


def test_the_table_has_means_over_repetitions():
    cell = Cell("pyrimidines", 100, 1, "ep2")._asdict()
    records = [
        cell | {"repetition": i, "error": e, "error_all": e / 2, "log_score": 0.3, "evidence": -9.0}
        for i, e in enumerate((0.1, 0.3))
    ]
    text = order_tables.table(records)
    assert "| 2 | 20.00±10.00 | 10.00±5.00 | 12.70±1.08 | 0.300 | -9.0 |" in text
    assert_allclose(order_tables.curve(records, "pyrimidines", "ep2")[0][1], [0.1, 0.3])


def test_savings_are_read_from_the_mean_curves():
    records = [
        {"problem": "sine", "strategy": "information", "path": [[6, 0.2], [36, 0.05]]},
        {"problem": "sine", "strategy": "random", "path": [[6, 0.2], [60, 0.065]]},
    ]
    # Lines of slope -0.005 and -0.0025: each point beyond the start takes half as many.
    for _, size, share in order_active.savings(records, "sine"):
        assert_allclose(share * size, 6 + (size - 6) / 2, atol=0.51)


@pytest.mark.data
def test_a_stopped_run_goes_on(tmp_path, monkeypatch):
    try:
        data_folder()
    except DataUnavailableError as error:
        pytest.skip(str(error))
    path, cells = tmp_path / "order.jsonl", [Cell("pyrimidines", 30, i, "ep2") for i in (1, 2)]
    order_tables.run(cells[:1], path)
    monkeypatch.setattr(order_tables, "run_cell", lambda cell: cell._asdict() | {"new": True})
    order_tables.run(cells, path)
    first, second = map(json.loads, path.read_text().splitlines())
    assert first["error"] < 0.4
    assert second == cells[1]._asdict() | {"new": True}
