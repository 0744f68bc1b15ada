"""Calibration of intervals' page, against probabilities of known calibration."""

import numpy as np
from numpy.testing import assert_allclose

from papers.intervals import calibration_error


def test_true_probabilities_are_calibrated_and_certain_ones_are_not():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([1.0, 2.0, 1.0], 40_000)
    codes = (rng.random(len(proba))[:, None] > np.cumsum(proba, axis=1)).sum(axis=1)
    assert calibration_error(proba, codes) < 0.005
    assert calibration_error(proba**2 / np.sum(proba**2, axis=1, keepdims=True), codes) > 0.03


def test_two_groups_by_hand():
    # P(y <= 0) of four rows; the level comes true in rows 0 and 2.
    low = np.array([0.2, 0.4, 0.6, 0.8])
    proba = np.column_stack([low, 1 - low])
    found = calibration_error(proba, np.array([0, 1, 0, 1]), n_groups=2)
    assert_allclose(found, (abs(0.3 - 0.5) + abs(0.7 - 0.5)) / 2)
