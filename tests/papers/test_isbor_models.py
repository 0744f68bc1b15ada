"""More models and sizes for the sparse paper, and SWD: searches, growth, grids, the decision."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF

from ordinalgp import OrdinalSVC, SparseBayesOrdinalClassifier
from papers import isbor
from papers.__main__ import EXPERIMENTS
from papers.data import RESULTS
from papers.isbor import (
    REGISTRY,
    SIZES,
    SWD,
    SYNTHETIC,
    growth_lines,
    model_cells,
    paired_lines,
    swd_cells,
)
from papers.models import Tuned
from papers.pages import make_page, to_markdown
from papers.runner import Cell, Split, by_cell, read_records
from papers.statistics import published


def make_data(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.digitize(X[:, 0] + X[:, 1] ** 2 + 0.2 * rng.normal(size=n), [0.0, 1.5])


def record(n, model="isbor", **changes):
    cell = Cell(SYNTHETIC, 0, 1, model, n)._asdict()
    found = {"absolute": 0.1, "absolute_median": 0.2, "n_relevance": 7, "n_iter": 2}
    return {**cell, **found, "fit_seconds": n**1.5 / 1e4, **changes}


def test_the_best_of_a_grid_learns_all_rows():
    X, y = make_data()
    tuned = Tuned(OrdinalSVC(C=10.0), {"kernel": [RBF(0.01), RBF(1.5)]}, seed=0).fit(X, y)
    assert tuned.best == {"kernel": RBF(1.5)}
    whole = OrdinalSVC(RBF(1.5), C=10.0).fit(X, y)
    assert_array_equal(tuned.predict(X), whole.predict(X))


def test_rows_can_be_learned_in_two_halves_and_vectors_are_counted(monkeypatch):
    X, y = make_data(110)
    split = Split(X[:70], y[:70], X[70:], y[70:], "drawn")
    monkeypatch.setattr(isbor, "load", lambda cell, data_home: split)
    halves, svor = (isbor.compute(Cell("swd", 0, 1, m, 70)) for m in ("halves", "svor"))
    assert halves["absolute_median"] < 0.3
    assert 1 <= halves["n_relevance"] < 40
    assert svor["absolute_median"] == svor["absolute"] < 0.3  # margins know one rule alone
    assert svor["n_relevance"] <= 70
    assert svor["log_score"] is None


def test_the_median_level_is_where_the_latent_mean_lies():
    """What makes ``decision="median"`` the rule of the paper's section 3.1."""
    X, y = make_data(200)
    model = SparseBayesOrdinalClassifier(RBF(1.0), decision="median", random_state=0).fit(X, y)
    mean, _ = model.latent_mean_and_variance(X)
    assert_array_equal(model.predict(X), np.searchsorted(model.thresholds_, mean))


def test_growth_finds_the_exponent():
    (text,) = growth_lines([record(n) for n in (1000, 2000, 4000)])
    assert "isbor grows as N^1.50, per round as N^1.50" in text
    assert growth_lines([record(1000)]) == []


def test_errors_are_compared_split_by_split():
    swd = {"dataset": "swd"}
    ours = [record(750, split=k, absolute_median=0.4 + k / 10, **swd) for k in (1, 2, 3)]
    theirs = [record(750, "ep", split=k, absolute_median=0.4, **swd) for k in (2, 3, 4)]
    (text,) = paired_lines([*ours, *theirs])
    assert text == "- swd, 750 rows, 2 splits: ISBOR less ep +0.2500 (standard error 0.0500)"


def test_the_records_of_both_pages_are_among_those_of_all_models():
    known = by_cell(read_records(RESULTS / "isbor.jsonl"))
    assert set(known) <= set(EXPERIMENTS["isbor-models"].cells())
    figure = [cell for cell in EXPERIMENTS["isbor-figure2"].cells() if cell in known]
    assert {cell.size for cell in figure} == set(range(1000, 10_001, 1000))
    table = [cell for cell in EXPERIMENTS["isbor-table3"].cells() if cell in known]
    assert {(c.dataset, (c.size,)) for c in table if c.size not in (1000, 2000)} == set(
        SIZES.items()
    )
    drawn = {(c.dataset, c.size) for c, r in known.items() if r["partition"] == "drawn"}
    assert not drawn & {("balance_scale", 468), (SYNTHETIC, 1000)}


def test_the_page_has_ours_beside_the_papers_at_its_size():
    found = [record(468, split=k, dataset="balance_scale", absolute_median=k / 5) for k in (1, 2)]
    found += [record(750, "ep", dataset="swd", n_relevance=None), record(1000, dataset="swd")]
    text = to_markdown(make_page(EXPERIMENTS["isbor-models"], found))
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines()]
    rows = {tuple(row[:3]): row[3:] for row in rows if len(row) == 12}
    ours = rows["balance_scale", "468", "ISBOR"]
    assert ours[:3] == ["2", "30.00±14.14", "2.00±1.00"]
    assert ours[4:7] == ["10.00±0.00", "7.0", "17"]
    assert rows["swd", "750", "EP"][:3] == ["1", "20.00", "41.00±3.00"]
    assert rows["swd", "1000", "ISBOR"][1:3] == ["20.00", "–"]  # not the paper's size


def test_every_set_has_its_splits():
    wanted = model_cells(20)
    for name in SIZES:
        splits = {c.split for c in wanted if (c.dataset, c.model) == (name, "isbor")}
        assert splits == set(range(1, 21))
    for model in ("sbor", "ep", "svor", "isvor-path", "kdlor"):
        for name in ("balance_scale", "swd"):
            found = {c.split for c in wanted if (c.dataset, c.model) == (name, model)}
            assert found == set(range(1, 21))
    printed = published("isbor-table3")["figures"]
    assert all(list(printed[table]) == list(SIZES) for table in ("absolute", "vectors", "seconds"))


def test_wins_are_wilcoxons_and_hours_are_powers():
    found = [record(750, split=k, dataset="swd", absolute_median=0.4) for k in range(1, 9)]
    found += [
        record(750, "ep", split=k, dataset="swd", absolute_median=0.5 + k / 100)
        for k in range(1, 9)
    ]
    wins = isbor.wins_table(found)
    (row,) = wins.rows
    texts = [entry.text for entry in row]
    assert texts == ["swd", "EP", "8", "-14.50", "0.008", "ISBOR"]
    assert isbor.wins_table(found[:-3]) is None  # five pairs: never significant
    times = {1000: 2.0, 2000: 16.0}  # a cube
    grown = [record(n, "ep", split=1, dataset="bank8fm", fit_seconds=t) for n, t in times.items()]
    (row,) = isbor.not_run_table(grown).rows
    assert [entry.text for entry in row][:5] == ["bank8fm", "GPOR", "8,000", "3.0", "0.28"]
    done = record(8000, "ep", split=1, dataset="bank8fm", fit_seconds=1.0)
    assert isbor.not_run_table([*grown, done]) is None


def test_the_search_of_a_machine_does_not_grow():
    """Of 1,000 s 996 are the search; the rest is a cube."""
    times = {1000: 0.5, 2000: 4.0}
    grown = [
        record(n, "svor", dataset=SYNTHETIC, fit_seconds=996.0 + t, final_seconds=t)
        for n, t in times.items()
    ]
    rows = {row[0].text: row[3].text for row in isbor.not_run_table(grown).rows}
    hours = {row[0].text: float(row[4].text) for row in isbor.not_run_table(grown).rows}
    assert set(rows) == set(SIZES)
    assert rows["census_house16h"] == "3.0"
    assert hours["census_house16h"] == pytest.approx((996 + 4 * 11.292**3) / 3600, abs=0.05)


def test_machines_with_limited_functions_grow_with_the_rows():
    one = record(8000, "svor", dataset="bank8fm", fit_seconds=40.0, final_seconds=4.0)
    rows = {row[0].text: [e.text for e in row] for row in isbor.not_run_table([one]).rows}
    assert "bank8fm" not in rows
    assert rows["census_house16h"][3:5] == ["1.0", f"{(36 + 4 * 22584 / 8000) / 3600:.2g}"]
    fast = {1000: 0.01, 2000: 1.0}  # a power of 6.6
    grown = [record(n, "ep", dataset="bank8fm", fit_seconds=t) for n, t in fast.items()]
    (row,) = isbor.not_run_table(grown).rows
    assert [e.text for e in row][3:5] == ["3.0", f"{64 / 3600:.2g}"]


def test_a_node_that_is_refused_is_not_chosen():
    """A cost below one over the rows of the rarest level."""
    X, y = make_data()
    tuned = REGISTRY["isvor-path"].build(0, 2)
    tuned.grid = {"C": [0.01, 0.5], "kernel": [RBF(1.0)]}
    assert tuned.fit(X, y).best["C"] == 0.5
    tuned.grid = {"C": [0.01], "kernel": [RBF(1.0)]}
    with pytest.raises(ValueError, match="C must be at least"):
        tuned.fit(X, y)


def test_the_last_fit_of_a_search_is_timed():
    X, y = make_data()
    tuned = Tuned(OrdinalSVC(C=10.0), {"kernel": [RBF(0.01), RBF(1.5)]}, seed=0).fit(X, y)
    assert tuned.final_seconds > 0


def test_wins_are_counted_as_in_table_4():
    """ISBOR is far better than all others, which are alike."""
    models = ("kdlor", "ep", "svor", "sbor", "isvor-path", "isbor")
    found = [
        record(750, m, split=k, dataset="swd", absolute_median=0.1 * k + (m != "isbor"))
        for m in models
        for k in range(1, 11)
    ]
    counts = [[e.text for e in row[:4]] for row in isbor.counts_table(found).rows]
    assert counts[-1] == ["ISBOR", "5", "0", "0"]
    assert all(row[1:] == ["0", "4", "1"] for row in counts[:-1])
    assert isbor.counts_table(found[1:]) is None  # nine splits cannot reach the level


def test_the_published_isvor_is_the_sum_of_margins():
    X = np.random.default_rng(0).normal(size=(80, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    tuned = REGISTRY["isvor-path"].build(0, 2)
    tuned.grid = {"C": [0.1, 0.5], "kernel": [RBF(1.0)]}
    tuned.fit(X, y)
    assert tuned.fitted.algorithm == "path"
    whole = OrdinalSVC(RBF(1.0), constraints="sum_of_margins", C=tuned.best["C"]).fit(X, y)
    assert_allclose(tuned.fitted.latent(X), whole.latent(X), atol=1e-6)


def test_no_fit_is_done_twice():
    for wanted in (model_cells(20), swd_cells(100)):
        assert len(wanted) == len(set(wanted))
    drawn = [cell for cell in swd_cells(100) if cell.dataset in ("random", "by-level")]
    assert min(cell.split for cell in drawn) > 20  # the splits of the tables


def test_splits_of_swd_hold_what_they_say():
    y = np.repeat([0, 1, 2, 3], [32, 352, 399, 217])
    drawn, by_level = (
        isbor.swd_rows(Cell(kind, 0, 101, "ep"), y) for kind in ("random", "by-level")
    )
    assert drawn.sum() == by_level.sum() == 750
    assert_array_equal(np.bincount(y[by_level]), [24, 264, 299, 163])
    folds = [isbor.swd_rows(Cell("folds", 0, k, "ep"), y) for k in range(1, 21)]
    assert_array_equal(np.sum(folds, axis=0), 19)
    assert {int(fold.sum()) for fold in folds} == {950}


def test_means_of_groups_spread_less():
    found = [
        Cell("random", 0, k, "ep")._asdict() | {"median": 0.4 + 0.1 * (k % 2), "mode": 0.5}
        for k in range(4)
    ]
    (table,) = isbor.swd_page(found, EXPERIMENTS["isbor-swd"])
    texts = [entry.text for entry in table.rows[0]]
    assert texts == ["random", "EP", "4", "0.4500", "0.058", "0.0129", "0.5000", "nan"]


@pytest.mark.parametrize("name", ["isbor", "ep-raw", "logit"])
def test_models_of_swd_can_be_built(name):
    assert hasattr(SWD[name].build(0, 10), "predict")
