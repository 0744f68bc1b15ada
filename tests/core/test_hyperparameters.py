"""Hyperparameters of kernels, against scikit-learn's own."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.gaussian_process import kernels as sk

from ordinalgp import kernels as ours
from ordinalgp.core.hyperparameters import (
    NAMES,
    free_parameters,
    kernel_at,
    n_free,
    tells_copies_apart,
    theta_of,
)


class Own(sk.RBF):
    """A subclass, whose names must be looked for."""


KERNELS = [
    sk.RBF(1.5),
    sk.RBF([1.0, 2.0]),
    sk.RBF([3.0]),
    sk.RBF(2.0, "fixed"),
    sk.RBF([1.0, 2.0], [(0.1, 1.0), (0.2, 3.0)]),
    sk.Matern([1.0, 2.0], nu=0.5),
    sk.RationalQuadratic(1.0, 2.0),
    sk.RationalQuadratic(1.0, 2.0, length_scale_bounds="fixed"),
    sk.RationalQuadratic(1.0, 2.0, alpha_bounds="fixed"),
    sk.ConstantKernel(2.0) * sk.RBF(1.0) + sk.WhiteKernel(0.1),
    sk.ConstantKernel(2.0, "fixed") * sk.DotProduct(0.5) + sk.RBF([1.0, 2.0]),
    sk.Exponentiation(sk.RBF(1.2), 2.0) + sk.ExpSineSquared(1.0, 2.0),
    ours.Additive([1.0, 2.0], size=1),
    ours.ARDLinear([0.5, 0.1]),
    ours.Exponential(3.0) * sk.ConstantKernel(2.0),
    ours.PerColumn(sk.Matern([1.0, 2.0]) + ours.Additive(1.0), [0, 0, 1]),
    ours.Projected(sk.Matern([1.0, 2.0]) + sk.WhiteKernel(0.1), np.eye(2)),
    ours.Independent() + ours.Correlation(),
    Own(1.5),
]


def known_leaves(kernel):
    """All parts of a kernel that are no sums or products."""
    parts = [getattr(kernel, name, None) for name in ("k1", "k2", "kernel")]
    inner = [leaf for part in parts if part is not None for leaf in known_leaves(part)]
    return inner or [kernel]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_a_kernel_elsewhere_is_the_one_that_scikit_learn_clones(kernel):
    before = kernel.theta
    theta = before + np.linspace(-0.3, 0.4, len(before))
    found, true = kernel_at(kernel, theta), kernel.clone_with_theta(theta)
    assert n_free(kernel) == kernel.n_dims
    assert_array_equal(theta_of(kernel), before)
    assert found == true
    assert type(found) is type(kernel)
    assert_array_equal(found.theta, true.theta)
    assert_array_equal(found.bounds, true.bounds)
    assert_array_equal(kernel.theta, before)
    for leaf in known_leaves(kernel):
        assert free_parameters(leaf) == [not each.fixed for each in leaf.hyperparameters]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_copies_are_told_apart_by_white_noise_alone(kernel):
    row = (
        np.array([[0.3, -0.2, 1.0]])
        if isinstance(kernel, ours.PerColumn)
        else np.array([[0.3, -0.2]])
    )
    apart = kernel(row)[0, 0] != kernel(row, row)[0, 0]
    assert tells_copies_apart(kernel, row) == apart == ("WhiteKernel" in repr(kernel))


def test_every_known_kernel_is_compared():
    seen = {type(leaf) for kernel in KERNELS for leaf in known_leaves(kernel)}
    assert set(NAMES) <= seen
