"""Gaps in rating tables: means, and the EM of Srebro and Jaakkola."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from ordinalgp.imputation import LowRankImputer, MeanImputer
from ordinalgp.kernels import Correlation

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(12, 2)) @ RNG.normal(size=(2, 9)) + 3 + 0.3 * RNG.normal(size=(12, 9))
GAPS = np.where(RNG.random(TABLE.shape) < 0.3, np.nan, TABLE)


@pytest.mark.parametrize("imputer", [MeanImputer(), MeanImputer(by="rater"), LowRankImputer(2)])
def test_ratings_stay_and_gaps_are_filled(imputer):
    filled = imputer.fit_transform(GAPS)
    seen = ~np.isnan(GAPS)
    assert np.array_equal(filled[seen], GAPS[seen])
    assert np.isfinite(filled).all()
    assert_allclose(imputer.transform(GAPS), filled)


def test_means_are_those_of_pandas():
    import pandas as pd

    frame = pd.DataFrame(GAPS)
    by_rater = MeanImputer(by="rater").fit_transform(GAPS)
    assert_allclose(by_rater, frame.fillna(frame.mean()))
    assert_allclose(MeanImputer().fit_transform(GAPS), frame.T.fillna(frame.T.mean()).T)


def test_mean_imputation_is_what_the_correlation_kernel_does():
    filled = MeanImputer().fit_transform(GAPS)
    assert_allclose(Correlation()(GAPS), Correlation()(filled), atol=1e-12)


def test_empty_rows_and_columns_have_finite_values():
    table = GAPS.copy()
    table[3], table[:, 4] = np.nan, np.nan
    for imputer in (MeanImputer(), MeanImputer(by="rater"), LowRankImputer(2)):
        assert np.isfinite(imputer.fit_transform(table)).all()


def test_the_error_never_rises_and_ends_at_a_minimum():
    """No other optimiser, begun at the end of EM, finds a better product of the same rank."""
    imputer = LowRankImputer(rank=2, tol=1e-12, max_iter=5000).fit(GAPS)
    assert np.all(np.diff(imputer.error_path_) <= 1e-12)
    seen = ~np.isnan(GAPS)
    V = imputer.components_
    rows = zip(GAPS, seen, strict=True)
    U = np.array([np.linalg.lstsq(V[:, s].T, row[s], rcond=None)[0] for row, s in rows])

    def loss(flat):
        low = flat[:24].reshape(12, 2) @ flat[24:].reshape(2, 9)
        return np.sum((GAPS - low)[seen] ** 2)

    begin = np.concatenate([U.ravel(), V.ravel()])
    assert_allclose(loss(begin), imputer.error_path_[-1] ** 2 * seen.sum(), rtol=1e-6)
    assert minimize(loss, begin, method="BFGS").fun > loss(begin) - 1e-5


def test_a_complete_table_gives_the_best_low_rank_approximation():
    imputer = LowRankImputer(rank=2).fit(TABLE)
    s = np.linalg.svd(TABLE, compute_uv=False)
    assert_allclose(imputer.error_path_[-1], np.sqrt(np.sum(s[2:] ** 2) / TABLE.size))


@pytest.mark.parametrize(
    ("imputer", "message"),
    [
        (MeanImputer(by="column"), "by must be one of 'item', 'rater'"),
        (LowRankImputer(rank=0), "rank must be a number of at least 1"),
        (LowRankImputer(rank=2.0), "rank must be a whole number, but is 2.0"),
        (LowRankImputer(max_iter=9.5), "max_iter must be a whole number, but is 9.5"),
        (LowRankImputer(rank=10), r"rank must be at most 9 for a table of shape \(12, 9\)"),
    ],
)
def test_bad_parameters_are_explained(imputer, message):
    with pytest.raises(ValueError, match=message):
        imputer.fit(GAPS)
