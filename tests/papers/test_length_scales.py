"""Length scales per feature on real rows, without and with a prior."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from ordinalgp import OrdinalGPClassifier
from ordinalgp.hyperpriors import HyperPrior
from ordinalgp.metrics import log_score
from papers.data import DataUnavailableError, data_folder
from papers.runner import Cell, load_split

LEVELS = np.arange(1, 6)


@pytest.mark.data
def test_a_prior_on_length_scales_lowers_the_log_score_on_pyrimidines():
    """27 inputs and 50 rows. Six partitions gave 1.645 without the prior and 1.156 with it."""
    try:
        splits = [load_split(Cell("pyrimidines", 5, s, "ep"), data_folder()) for s in (1, 2, 3, 4)]
    except DataUnavailableError as absent:
        pytest.skip(str(absent))

    def score(hyperprior):
        found = []
        for data in splits:
            d = data.X_train.shape[1]
            model = OrdinalGPClassifier(
                RBF(np.full(d, np.sqrt(d))), hyperprior=hyperprior, categories=LEVELS
            ).fit(data.X_train, data.y_train)
            proba = model.category_proba(data.X_test)
            found.append(log_score(data.y_test, proba, categories=LEVELS))
        return np.mean(found)

    assert score(HyperPrior()) < score(None) - 0.3
