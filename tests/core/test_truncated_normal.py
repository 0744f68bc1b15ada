"""The interval function against 50-digit arithmetic."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from ordinalgp.core.truncated_normal import cut_normal, hermite

EDGES = [-40.0, -37.5, -20.0, -8.3, -5.0, -2.1, -1.9, -1.0, -0.3, -1e-7, 0.0]
EDGES += [-edge for edge in EDGES[:-1]]
WIDTHS = [1e-12, 1e-9, 1e-6, 1e-3, 0.03, 0.249, 0.251, 0.5, 1.0, 2.0, 5.0, 16.0, 39.0, 80.0, np.inf]
GRID = [(lo, width) for lo in EDGES for width in WIDTHS] + [(-np.inf, hi) for hi in EDGES]


def exact(lo: float, hi: mpmath.mpf) -> dict[str, mpmath.mpf]:
    """Moments of the cut normal by recursion on its edges, in 50 digits and more."""
    with mpmath.workdps(50):
        # Differences of tails cancel by up to exp(800) * 1e-12: take digits to spare.
        mpmath.mp.dps = 450
        lo = mpmath.mpf(lo)
        mass = (mpmath.erfc(lo / mpmath.sqrt(2)) - mpmath.erfc(hi / mpmath.sqrt(2))) / 2
        density = [mpmath.npdf(e) / mass if mpmath.isfinite(e) else 0 for e in (lo, hi)]
        edges = [e if mpmath.isfinite(e) else mpmath.mpf(0) for e in (lo, hi)]
        raw = [mpmath.mpf(1), density[0] - density[1]]
        for k in (2, 3):  # E x^k = (k-1) E x^(k-2) + lo^(k-1) phi(lo)/Z - hi^(k-1) phi(hi)/Z
            boundary = edges[0] ** (k - 1) * density[0] - edges[1] ** (k - 1) * density[1]
            raw.append((k - 1) * raw[k - 2] + boundary)
        mean = raw[1]
        return {
            "log_mass": mpmath.log(mass),
            "mean": mean,
            "var": raw[2] - mean**2,
            "third": raw[3] - 3 * mean * raw[2] + 2 * mean**3,
            "information": 1 - raw[2] + mean**2,
            "lo_density": density[0],
            "hi_density": density[1],
            "below": mean - lo,
            "above": hi - mean,
        }


@pytest.fixture(scope="module")
def truths():
    found = []
    for lo, width in GRID:
        if np.isneginf(lo):
            found.append(exact(mpmath.mpf("-inf"), mpmath.mpf(width)))
        else:
            with mpmath.workdps(450):
                hi = mpmath.mpf(lo) + mpmath.mpf(width)
            found.append(exact(lo, hi))
    return found


@pytest.fixture(scope="module")
def ours():
    lo = np.array([lo for lo, _ in GRID])
    width = np.array([np.inf if np.isneginf(lo) else width for lo, width in GRID])
    hi = np.array([width if np.isneginf(lo) else lo + width for lo, width in GRID])
    return cut_normal(lo, hi, width)


def relative_errors(ours, truths, name):
    values = getattr(ours, name)
    errors = []
    for value, truth in zip(values, truths, strict=True):
        with mpmath.workdps(50):
            true = truth[name]
            if not mpmath.isfinite(true):
                continue
            scale = abs(true)
            if name in ("mean", "third"):
                # These cross zero: measure against the cut variable's spread as well.
                power = 1 if name == "mean" else 3
                scale = max(scale, mpmath.sqrt(truth["var"]) ** power)
            tiny = mpmath.mpf("1e-300")  # below this a double is zero
            errors.append(float(abs(mpmath.mpf(float(value)) - true) / max(scale, tiny)))
    return np.array(errors)


@pytest.mark.parametrize(
    "name, tolerance",
    [
        ("log_mass", 1e-12),
        ("mean", 1e-8),
        ("information", 1e-8),
        ("third", 1e-8),
        ("var", 1e-8),
        ("lo_density", 1e-8),
        ("hi_density", 1e-8),
        ("below", 1e-8),
        ("above", 1e-8),
    ],
)
def test_matches_fifty_digits(ours, truths, name, tolerance):
    errors = relative_errors(ours, truths, name)
    assert len(errors) > 250
    assert errors.max() < tolerance


def test_every_field_is_finite_even_at_absurd_distances():
    lo = np.array([-np.inf, -1e8, 1e8, 1e12, -np.inf, -np.inf, 3.0, 1e200])
    hi = np.array([-1e8, 1e8, 1e8 + 1, np.inf, np.inf, -1e12, 3.0 + 1e-15, np.inf])
    interval = cut_normal(lo, hi)
    names = [
        name for name in dir(interval) if not name.startswith("_") and name not in ("flip", "edges")
    ]
    assert len(names) == 13
    for name in names:
        assert np.all(np.isfinite(getattr(interval, name))), name
    assert np.all(interval.log_mass <= 0)
    assert np.all((interval.information >= 0) & (interval.information <= 1))


def test_the_whole_line_is_the_normal_itself():
    whole = cut_normal(np.array([-np.inf]), np.array([np.inf]))
    assert_allclose(
        [whole.log_mass[0], whole.mean[0], whole.var[0], whole.third[0]], [0, 0, 1, 0], atol=1e-15
    )


def test_hermite_rule_integrates_moments_of_the_normal():
    nodes, log_weights = hermite(32)
    moments = [np.sum(np.exp(log_weights) * nodes**k) for k in (0, 2, 4, 6)]
    assert_allclose(moments, [1, 1, 3, 15], rtol=1e-12)
