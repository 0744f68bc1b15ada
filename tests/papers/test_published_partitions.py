"""Errors on the first published partitions of the paper's sets against its Table 2 (5 bins).

The claim is that of the whole table (20 partitions, ``python -m papers gpor-table2``): the
mean error is no more than one published standard deviation above the published mean; for the
absolute error also when deciding for the median, the decision that minimises it. The first
four partitions, two for boston_housing and ten for triazines, give the same verdict as all 20 in
every case here. Other numbers need not: one has triazines (EP) 2.5 and auto_mpg 1.04 deviations
above, four have triazines (MAP) 1.09 and fourteen 1.15.
"""

from functools import cache

import pytest

from papers.data import DataUnavailableError, data_folder
from papers.runner import Cell, fit_and_score
from papers.statistics import figure, published

pytestmark = pytest.mark.data

SPLITS = {
    "diabetes": 4,
    "pyrimidines": 4,
    "triazines": 10,
    "wisconsin": 4,
    "machine_cpu": 4,
    "auto_mpg": 4,
    "boston_housing": 2,
}

# What all 20 partitions show as well. Strict: whoever mends one is asked to remove it here.
_MOST_PROBABLE = (
    "With a weak signal the most probable level is mostly the lowest, the largest class: fewer "
    "wrong labels than published, but farther off. Deciding for the median does better."
)
WORSE = {
    ("wisconsin", "map", "absolute"): _MOST_PROBABLE,
    ("wisconsin", "ep", "absolute"): _MOST_PROBABLE,
}


@pytest.fixture(autouse=True)
def data_present():
    try:
        data_folder()
    except DataUnavailableError as absent:
        pytest.skip(str(absent))


@cache
def fitted(dataset: str, model: str) -> list[dict]:
    splits = range(1, SPLITS[dataset] + 1)
    return [fit_and_score(Cell(dataset, 5, split, model), data_folder()) for split in splits]


def _cases():
    for dataset in SPLITS:
        for model in ("map", "ep"):
            for measure in ("zero_one", "absolute", "absolute_median"):
                reason = WORSE.get((dataset, model, measure))
                marks = [] if reason is None else [pytest.mark.xfail(reason=reason)]
                yield pytest.param(dataset, model, measure, marks=marks)


@pytest.mark.parametrize("dataset, model, measure", list(_cases()))
def test_error_is_within_one_published_deviation_of_the_published_mean(dataset, model, measure):
    printed = published("gpor-table2")["figures"][dataset][measure.removesuffix("_median")][model]
    found = figure(fitted(dataset, model), measure, printed)
    assert found.excess <= 1, found
