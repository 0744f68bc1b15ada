"""The benchmarks of the sparse paper: searches, growth, tables, and the paper's decision."""

import numpy as np
import pytest
from benchmarks import isbor_swd
from benchmarks.isbor_records import chosen, renamed
from benchmarks.isbor_tables import PAPER_MAE, SETS, cells, growth, paired, report
from numpy.testing import assert_array_equal
from sklearn.gaussian_process.kernels import RBF

from ordinalgp import OrdinalSVC, SparseBayesOrdinalClassifier
from ordinalgp.benchmark.baselines import BASELINES, Tuned
from ordinalgp.benchmark.isbor import SIZES, SYNTHETIC


def make_data(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.digitize(X[:, 0] + X[:, 1] ** 2 + 0.2 * rng.normal(size=n), [0.0, 1.5])


def record(n, model="isbor", **changes):
    cell = {"dataset": "synthetic", "n_train": n, "split": 1, "model": model}
    found = {"mae": 0.1, "mae_median": 0.2, "n_relevance": 7, "rounds": 2, "cpu": n**1.5 / 1e4}
    return {**cell, **found, **changes}


def test_the_best_of_a_grid_learns_all_rows():
    X, y = make_data()
    tuned = Tuned(OrdinalSVC(C=10.0), {"kernel": [RBF(0.01), RBF(1.5)]}, seed=0).fit(X, y)
    assert tuned.best == {"kernel": RBF(1.5)}
    whole = OrdinalSVC(RBF(1.5), C=10.0).fit(X, y)
    assert_array_equal(tuned.predict(X), whole.predict(X))


@pytest.mark.parametrize("name", BASELINES)
def test_every_model_can_be_built(name):
    assert BASELINES[name].is_available
    model = BASELINES[name].build(0, 2)
    assert hasattr(model, "fit")
    assert hasattr(model, "predict")


def test_the_median_level_is_where_the_latent_mean_lies():
    """What makes ``decision="median"`` the rule of the paper's section 3.1."""
    X, y = make_data(200)
    model = SparseBayesOrdinalClassifier(RBF(1.0), decision="median", random_state=0).fit(X, y)
    mean, _ = model.latent_mean_and_variance(X)
    assert_array_equal(model.predict(X), np.searchsorted(model.thresholds_, mean))


def test_growth_finds_the_exponent():
    text = growth([record(n) for n in (1000, 2000, 4000)])
    assert "isbor grows as N^1.50, per round as N^1.50" in text
    assert growth([record(1000)]) == ""


def test_errors_are_compared_split_by_split():
    ours = [record(750, dataset="SWD", split=k, mae_median=0.4 + k / 10) for k in (1, 2, 3)]
    theirs = [record(750, "ep", dataset="SWD", split=k, mae_median=0.4) for k in (2, 3, 4)]
    text = paired([*ours, *theirs])
    assert text == "SWD, 750 rows, 2 splits: ISBOR less ep +0.2500 (standard error 0.0500).\n"


def test_records_for_the_pages_have_the_names_of_the_command():
    more = {"kernel": "RBF", "evidence": -1.0, "converged": True, "n_test": 9}
    found = [record(n, **more) for n in (1000, 2000, 2500)]
    found += [record(n, dataset="SWD", **more) for n in (750, 500)]
    pages = chosen([*found, record(1000, "svor", **more)])
    assert [r["n_train"] for r in pages["isbor-figure2"]] == [1000, 2000]
    assert [r["n_train"] for r in pages["isbor-table3"]] == [750]
    first, second = (renamed(r) for r in pages["isbor-figure2"])
    assert (first["dataset"], first["size"], first["partition"]) == (SYNTHETIC, 1000, "published")
    assert second["partition"] == "drawn"
    assert renamed(found[3])["dataset"] in SIZES
    assert renamed(record(1000, "ep", **(more | {"n_relevance": None}))).keys() < first.keys()


def test_the_report_has_ours_beside_the_papers():
    found = [record(468, dataset="BS"), record(468, dataset="BS", split=2, mae_median=0.4)]
    text = report([*found, record(750, "ep", dataset="SWD", n_relevance=None)])
    assert "| BS | 468 | isbor | 2 | 0.300 (0.100) | 0.02 | 0.100 | 7.0 | 17 |" in text
    assert "| SWD | 750 | ep | 1 | 0.200 (0.000) | 0.41 |" in text


def test_every_set_has_its_splits():
    wanted = cells(20, 5)
    assert len(set(wanted)) == len(wanted)
    for name in SETS:
        splits = {c.split for c in wanted if (c.dataset, c.model) == (name, "isbor")}
        assert splits == set(range(1, 21 if name in ("BS", "SWD") else 6))
    assert all(len(values) == len(SETS) for values in PAPER_MAE.values())


def test_no_fit_is_done_twice():
    for wanted in (cells(20, 5), isbor_swd.cells(100)):
        assert len(wanted) == len(set(wanted))
    drawn = [cell for cell in isbor_swd.cells(100) if cell.kind in ("random", "by level")]
    assert min(cell.split for cell in drawn) > 20  # the splits of the tables


def test_splits_of_swd_hold_what_they_say():
    y = np.repeat([0, 1, 2, 3], [32, 352, 399, 217])
    drawn, by_level = (
        isbor_swd.train_rows(isbor_swd.Cell(kind, 101, "EP"), y) for kind in ("random", "by level")
    )
    assert drawn.sum() == by_level.sum() == 750
    assert_array_equal(np.bincount(y[by_level]), [24, 264, 299, 163])
    folds = [isbor_swd.train_rows(isbor_swd.Cell("folds", k, "EP"), y) for k in range(1, 21)]
    assert_array_equal(np.sum(folds, axis=0), 19)
    assert {int(fold.sum()) for fold in folds} == {950}


def test_means_of_groups_spread_less():
    found = [
        {"kind": "random", "split": k, "model": "EP", "median": 0.4 + 0.1 * (k % 2), "mode": 0.5}
        for k in range(4)
    ]
    line = isbor_swd.report(found).splitlines()[-1]
    assert line == "| random | EP | 4 | 0.4500 | 0.058 | 0.0129 | 0.5000 | nan |"
