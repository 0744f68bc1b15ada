"""SparseBayesOrdinalClassifier: scikit-learn's contract, sparsity, growth, limits, messages."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ordinalgp import SparseBayesOrdinalClassifier


@parametrize_with_checks(
    [SparseBayesOrdinalClassifier(), SparseBayesOrdinalClassifier(training="batch")],
    expected_failed_checks=lambda estimator: {
        "check_classifiers_classes": "feeds strings without an order, which this model refuses"
    },
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
