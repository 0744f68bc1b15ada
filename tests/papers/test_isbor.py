"""The experiments with sparse Bayesian regression: sizes, levels, pages."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from papers import isbor
from papers.__main__ import EXPERIMENTS
from papers.data import DataUnavailableError, data_folder
from papers.pages import make_page, to_markdown
from papers.runner import Cell, Split

# Training rows, features and levels of the paper's Table 2.
TABLE_2 = {
    "balance_scale": (468, 4, 3),
    "swd": (750, 10, 4),
    "marketing": (6744, 74, 9),
    "bank8fm": (8000, 8, 5),
    "computer_small": (8092, 12, 5),
    "california_housing": (20490, 8, 5),
    "census_house16h": (22584, 16, 5),
}


@pytest.mark.data
@pytest.mark.parametrize("name", TABLE_2)
def test_sets_have_the_sizes_of_table_2(name):
    try:
        folder = data_folder()
    except DataUnavailableError as absent:
        pytest.skip(str(absent))
    rows, features, levels = TABLE_2[name]
    assert isbor.SIZES[name] == (rows,)
    data = isbor.load(Cell(name, 0, 1, "isbor", rows), folder)
    assert data.X_train.shape == (rows, features)
    assert set(data.y_train) == set(range(levels))
    assert set(data.y_test) <= set(range(levels))
    assert np.isfinite(data.X_train).all()
    assert data.partition == ("published" if name == "balance_scale" else "drawn")
    if name == "bank8fm":  # five levels of equal frequency
        counts = np.bincount(np.concatenate([data.y_train, data.y_test]))
        assert np.ptp(counts) <= 2


@pytest.mark.data
def test_the_synthetic_set_has_published_partitions():
    try:
        folder = data_folder()
    except DataUnavailableError as absent:
        pytest.skip(str(absent))
    first, last = (isbor.load(Cell(isbor.SYNTHETIC, 0, s, "isbor", 1000), folder) for s in (1, 30))
    assert first.partition == last.partition == "published"
    assert (len(first.y_train), len(first.y_test)) == (1000, 20_000)
    assert not np.array_equal(first.y_train, last.y_train)
    drawn = isbor.load(Cell(isbor.SYNTHETIC, 0, 1, "isbor", 2000), folder)
    assert drawn.partition == "drawn"
    # The five classes of the paper.
    counts = np.bincount(np.concatenate([drawn.y_train, drawn.y_test]))
    assert_array_equal(counts, [4431, 4535, 3949, 3780, 4305])


def test_a_cell_tells_how_sparse_its_model_is(monkeypatch):
    def small(cell, data_home=None):
        X = np.random.default_rng(cell.split).normal(size=(160, 2))
        y = np.digitize(X[:, 0], [-0.5, 0.5])
        return Split(X[:100], y[:100], X[100:], y[100:], "drawn")

    monkeypatch.setattr(isbor, "load", small)
    found = isbor.compute(Cell("swd", 0, 1, "isbor", 100))
    assert found["absolute"] < 0.15
    assert 1 <= found["n_relevance"] < 40
    assert (found["n_test"], found["n_iter"] >= 1) == (60, True)


def record(model: str, split: int, size: int, **scores) -> dict:
    dataset = "swd" if size == 750 else isbor.SYNTHETIC
    cell = Cell(dataset, 0, split, model, size)._asdict()
    defaults = {"absolute": 0.4, "absolute_median": 0.39, "n_relevance": 6, "n_iter": 3}
    return cell | defaults | {"fit_seconds": 2.0, "version": "1.2"} | scores


def test_the_table_stands_beside_the_papers():
    records = [
        record("isbor", s, 750, absolute_median=0.4 + 0.02 * s, absolute=0.5) for s in (1, 2)
    ]
    records += [record("ep", s, 750, n_relevance=None, absolute_median=0.4) for s in (1, 2)]
    text = to_markdown(make_page(EXPERIMENTS["isbor-table3"], records))
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| swd")
    ]
    assert rows[0][1:] == ["not run", "40.00±0.00 (2)", *["not run"] * 3, "43.00±1.41 (2)"]
    assert rows[1][1:] == ["58±3", "41±3", "41±3", "52±6", "56±4", "43±2"]  # all published
    rows = rows[2:]
    assert rows[0][:6] == ["swd", "750", "EP", "2", "**40.00±0.00**", "41.00±3.00"]
    assert rows[1][2:6] == ["ISBOR", "2", "43.00±1.41", "43.00±2.00"]
    assert rows[1][7] == "50.00±0.00"  # by mode
    assert rows[1][8:] == ["6.0", "58.5", "2.0", "1.35"]
    assert rows[0][8:] == ["–", "–", "2.0", "205.6"]


def test_the_growth_of_time_is_an_exponent(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    records = [
        record("isbor", 1, size, fit_seconds=3e-6 * size**1.5) for size in (1000, 2000, 4000)
    ]
    text = to_markdown(make_page(EXPERIMENTS["isbor-figure2"], records))
    assert "ISBOR: processor time grows as N^1.50" in text
    (picture,) = isbor.draw(tmp_path, records)
    assert (tmp_path / picture.file).stat().st_size > 5_000
