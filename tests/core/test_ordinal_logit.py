"""The logistic likelihood averaged over a normal, against quadrature with 30 digits."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

from ordinalgp.core.ordinal_logit import OrdinalLogit

DIGITS = 30
NOISE, FIRST = 0.3, 0.1
ratios = [0.05, 0.7, 3.0, 11.9, 12.1, 60.0, 1e4]
"""standard deviation / noise"""
widths = [1e-6, 0.5, 20.0, 3e3]
"""of the level, in units of the noise"""
places = [0.0, -3.0, 15.0, 40.0, -40.0]
"""mean in units of all that varies: far tails on both sides"""
CASES = [
    (ratio, widths[(i + j) % 4], places[(2 * i + j) % 5])
    for i, ratio in enumerate(ratios)
    for j in range(3)
]


def trapezoid(log_integrand, parts, lo, hi, step):
    """Sums of exp(log_integrand) times each part, from the mode to a drop by exp(-60)."""
    while hi - lo > step / 4:
        a, b = lo + (hi - lo) / 3, hi - (hi - lo) / 3
        lo, hi = (a, hi) if log_integrand(a) < log_integrand(b) else (lo, b)
    top, total = log_integrand(lo), None
    for sign, k in ((1, 0), (-1, 1)):
        while (log_part := log_integrand(lo + sign * k * step) - top) > -60:
            found = [mp.exp(log_part) * part for part in parts(lo + sign * k * step)]
            total = found if total is None else [a + b for a, b in zip(total, found, strict=True)]
            k += 1
    return top, [step * each for each in total]


def over_latent(noise, lo, hi, mean, sd):
    """log E[p] and three derivatives: cumulants of u under p(y|u) N(u; mean, sd^2)."""
    width = -mp.expm1((lo - hi) / noise)

    def log_integrand(u):
        a, b = mp.exp((lo - u) / noise), mp.exp((u - hi) / noise)
        return mp.log(width / (1 + a) / (1 + b)) - ((u - mean) / sd) ** 2 / 2

    top, moments = trapezoid(
        log_integrand,
        lambda u: [((u - mean) / sd) ** k for k in range(4)],
        min(mean, lo) - noise,
        max(mean, hi) + noise,
        min(noise / 3, sd / 3),
    )
    m1, m2, m3 = (m / moments[0] for m in moments[1:])
    value = top + mp.log(moments[0] / sd / mp.sqrt(2 * mp.pi))
    return value, m1 / sd, (m2 - m1**2 - 1) / sd**2, (m3 - 3 * m1 * m2 + 2 * m1**3) / sd**3


def over_noise(noise, lo, hi, mean, sd):
    """The same from Phi and phi at u + noise L, averaged over L."""

    def edges(x):
        return [(edge - mean - noise * x) / sd for edge in (hi, lo)]

    def mass(x):
        b, a = edges(x)
        if b > 0:
            a, b = -b, -a  # the side where erfc is small and keeps its digits
        return (mp.erfc(-b / mp.sqrt(2)) - mp.erfc(-a / mp.sqrt(2))) / 2

    def log_integrand(x):
        return mp.log(mass(x) / (2 + 2 * mp.cosh(x)))

    def parts(x):
        (b, a), all_of_it = edges(x), mass(x)
        pdf_b, pdf_a = mp.npdf(b) / all_of_it, mp.npdf(a) / all_of_it
        d2, d3 = b * pdf_b - a * pdf_a, (b**2 - 1) * pdf_b - (a**2 - 1) * pdf_a
        return [1, (pdf_a - pdf_b) / sd, -d2 / sd**2, -d3 / sd**3]

    far = (abs(lo - mean) + abs(hi - mean)) / noise + 1
    top, sums = trapezoid(log_integrand, parts, -far, far, mp.mpf(1) / 3)
    e1, e2, e3 = (e / sums[0] for e in sums[1:])
    d2 = e2 - e1**2
    return top + mp.log(sums[0]), e1, d2, e3 - 3 * e1 * d2 - e1**3


def truth(ratio, *args):
    with mp.workdps(DIGITS):
        return (over_latent if ratio < 2 else over_noise)(*(mp.mpf(a) for a in args))


def slope_of_truth(ratio, args, direction):
    """Derivatives of value, d1 and d2 as noise and edges move: central differences."""
    with mp.workdps(DIGITS):
        h = mp.mpf(10) ** -10
        up, down = (
            truth(ratio, *(a + sign * h * d for a, d in zip(args, direction, strict=True)))
            for sign in (1, -1)
        )
        return [float((a - b) / (2 * h)) for a, b in zip(up[:3], down[:3], strict=True)]


def case(ratio, width, place):
    """A model, one observation of its middle level, and the same for the oracle."""
    model = OrdinalLogit(NOISE, FIRST, np.array([width * NOISE]))
    sd = ratio * NOISE
    mean, var = place * float(np.hypot(sd, NOISE)), sd**2
    with mp.workdps(DIGITS):
        exact = (NOISE, FIRST, mp.mpf(FIRST) + model.gaps[0], mean, mp.sqrt(mp.mpf(var)))
    return model, (np.array([1]), np.array([mean]), np.array([var])), exact


@pytest.mark.parametrize(("ratio", "width", "place"), CASES)
def test_value_and_derivatives_have_all_digits(ratio, width, place):
    model, observed, exact = case(ratio, width, place)
    found, value = model.log_expectation(*observed), truth(ratio, *exact)
    assert_allclose(found.value, float(value[0]), rtol=1e-13, atol=1e-13)
    for k, d in enumerate((found.d1, found.d2, found.d3), 1):
        # No derivative is known better than in units of all that varies.
        unit = (observed[2][0] + NOISE**2) ** (-k / 2)
        assert_allclose(d, float(value[k]), rtol=1e-10, atol=1e-10 * unit)


@pytest.mark.parametrize(("ratio", "width", "place"), CASES[::3])
def test_theta_derivatives_have_all_digits(ratio, width, place):
    model, observed, exact = case(ratio, width, place)
    found = model.theta_derivatives(*observed)
    directions = [(NOISE, 0, 0, 0, 0), (0, 1, 1, 0, 0), (0, 0, model.gaps[0], 0, 0)]
    slopes = np.transpose([slope_of_truth(ratio, exact, each) for each in directions])
    for k, name in enumerate(("value", "d1", "d2")):
        unit = (observed[2][0] + NOISE**2) ** (-k / 2)
        assert_allclose(getattr(found, name)[:, 0], slopes[k], rtol=1e-9, atol=1e-9 * unit)


def many(ratio, n=200):
    rng = np.random.default_rng(4)
    sd = ratio * NOISE
    model = OrdinalLogit.from_thresholds(np.hypot(sd, NOISE) * np.array([-0.7, -0.699, 0.8]), NOISE)
    mean = np.hypot(sd, NOISE) * rng.uniform(-12, 12, n)
    return model, (rng.integers(0, 4, n), mean, np.full(n, sd**2))


def everything(model, observed):
    """All that the likelihood computes, in units in which it is of the order of 1."""
    at, by_theta = model.log_expectation(*observed), model.theta_derivatives(*observed)
    sd = np.sqrt(observed[2] + NOISE**2)
    point = [at.value, at.d1 * sd, at.d2 * sd**2, at.d3 * sd**3]
    theta = [by_theta.value, by_theta.d1 * sd, by_theta.d2 * sd**2]
    return np.concatenate([point, *theta])


def variant(model, **constants):
    """The same likelihood with other constants of its quadrature."""
    cls = type("Variant", (OrdinalLogit,), constants)
    return cls(model.noise, model.first, model.gaps, model.unit)


@pytest.mark.parametrize("ratio", [1.5, 6.0, OrdinalLogit.largest_ratio])
def test_both_integrals_agree(ratio):
    model, observed = many(ratio)
    found = []
    for limit in (1e9, 1.0):
        found.append(everything(variant(model, largest_ratio=limit), observed))
    assert_allclose(found[0], found[1], rtol=1e-10, atol=1e-10)


def test_a_known_latent_value_needs_no_integral():
    model, (y, u, _) = many(1.0)
    u = u / 4
    b = np.concatenate([[-np.inf], model.thresholds, [np.inf]])
    truth = expit((b[y + 1] - u) / NOISE) - expit((b[y] - u) / NOISE)
    known, nearly = (everything(model, (y, u, np.full(len(u), v))) for v in (0.0, 1e-20))
    assert_allclose(np.exp(known[0]), truth, rtol=1e-9)
    assert_allclose(known, nearly, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("ratio", [0.0, 0.4, 5.0, 100.0])
def test_blocks_do_not_show(ratio):
    model, observed = many(ratio)
    whole = everything(model, observed)
    small = everything(variant(model, nodes_at_once=500), observed)
    assert_allclose(small, whole, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("ratio", [1e-150, 1e-3, 1.0, 9.0, 17.0, 300.0, 1e6])
@pytest.mark.parametrize("noise", [1e-3, 1e3])
@pytest.mark.parametrize("width", [1e-6, 1.0, 1e6])
def test_far_tails_are_finite_and_log_concave(ratio, noise, width):
    rng = np.random.default_rng(5)
    sd = ratio * noise
    model = OrdinalLogit(noise, noise, np.array([width * noise]))
    mean = np.hypot(sd, noise) * rng.uniform(-40, 40, 100)
    observed = rng.integers(0, 3, 100), mean, np.full(100, sd**2)
    assert np.all(np.isfinite(everything(model, observed)))
    at = model.log_expectation(*observed)
    assert np.all(at.d2 <= 0)
    assert np.all(1 + sd**2 * at.d2 > 0)
    assert np.all(np.abs(at.d1) <= (1 + 1e-9) / noise)


@pytest.mark.parametrize("ratio", [1e-3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("beyond", [1.0, 1e3, 1e12])
def test_beyond_its_noise_a_level_has_an_exponential_tail(ratio, beyond):
    """log E[exp((u - b) / noise)] is that of a log-normal; once beyond 44 + 1.5 ratio^2."""
    model, sd = OrdinalLogit.from_thresholds([FIRST], NOISE), ratio * NOISE
    distance = beyond * (45 + 1.5 * ratio**2)
    observed = np.array([1]), np.array([FIRST - NOISE * distance]), np.array([sd**2])
    at, by_theta = model.log_expectation(*observed), model.theta_derivatives(*observed)
    assert_allclose(at.value, ratio**2 / 2 - distance, rtol=1e-11)
    assert_allclose(at.d1, 1 / NOISE, rtol=1e-12)
    assert_allclose([at.d2, at.d3], 0, atol=1e-15)
    assert_allclose(by_theta.value[:, 0], [distance - ratio**2, -1 / NOISE], rtol=1e-11)


def test_what_is_not_a_number_stays_so():
    model = OrdinalLogit.from_thresholds([FIRST], NOISE)
    mean, var = np.array([np.nan, 0.0, 0.0]), np.array([1.0, np.nan, 1.0])
    value = model.log_expectation(np.ones(3, int), mean, var).value
    assert list(np.isnan(value)) == [True, True, False]
