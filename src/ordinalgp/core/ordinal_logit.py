"""Proportional odds: the ordinal likelihood with logistic instead of Gaussian noise."""

from typing import ClassVar

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.likelihoods import Smoothed, ThetaDerivatives, Thresholds
from ordinalgp.core.truncated_normal import hermite


class OrdinalLogit(Thresholds):
    """P(y|u) = expit((b_y - u)/noise) - expit((b_{y-1} - u)/noise): proportional odds.

    Expectations under a Gaussian have no closed form: they are taken by Gauss-Hermite
    quadrature around the mode of the tilted distribution. That is accurate to 1e-8 while the
    latent variance is of the order of noise squared, and loses digits as it grows beyond.
    """

    order = 64
    noise_sd: ClassVar[float] = float(np.pi / np.sqrt(3))

    def _point(self, y: IntArray, u: FloatArray) -> tuple[Smoothed, list[FloatArray]]:
        """Log p(y|u), three derivatives in u, and what the theta derivatives reuse."""
        lo, hi, width = self.edges(y, u, self.noise)
        lo, hi = np.clip(lo, -1e6, 1e6), np.clip(hi, -1e6, 1e6)
        width = np.minimum(width, 700.0)
        # p = expit(hi) expit(-lo) (1 - exp(-width)): no difference of two numbers near 1.
        value = log_expit(hi) + log_expit(-lo) + np.log(-np.expm1(-width))
        g_lo, g_hi = expit(lo) * expit(-lo), expit(hi) * expit(-hi)
        k_lo, k_hi = g_lo * (1 - 2 * expit(lo)), g_hi * (1 - 2 * expit(hi))
        s = self.noise
        d1 = (expit(lo) - expit(-hi)) / s
        smoothed = Smoothed(value, d1, -(g_lo + g_hi) / s**2, (k_lo + k_hi) / s**3)
        return smoothed, [lo, hi, width, g_lo, g_hi, k_lo, k_hi]

    def _point_theta(self, y: IntArray, u: FloatArray) -> ThetaDerivatives:
        """Derivatives in theta of log p(y|u) and of its first two derivatives in u."""
        point, (lo, hi, width, g_lo, g_hi, k_lo, k_hi) = self._point(y, u)
        s, squeeze = self.noise, 1 / np.expm1(width)
        stretch = lo * expit(lo) - hi * expit(-hi) - width * squeeze
        return ThetaDerivatives(
            self.pack(y, -(expit(lo) + squeeze) / s, (expit(-hi) + squeeze) / s, stretch),
            self.pack(y, g_lo / s**2, g_hi / s**2, -point.d1 - (lo * g_lo + hi * g_hi) / s),
            self.pack(
                y, -k_lo / s**3, -k_hi / s**3, -2 * point.d2 + (lo * k_lo + hi * k_hi) / s**2
            ),
        )

    def _mode(self, y: IntArray, mean: FloatArray, var: FloatArray) -> FloatArray:
        """Distance from ``mean`` to the mode of p(y|u) N(u; mean, var).

        The slope falls everywhere (log-concavity), so the mode lies between 0 and the
        first gradient step; Newton inside that bracket, bisection where it leaves it.
        """
        slope = var * self._point(y, mean)[0].d1
        lo, hi = np.minimum(slope, 0), np.maximum(slope, 0)
        step = np.zeros_like(mean)
        for _ in range(30):
            point, _unused = self._point(y, mean + step)
            gradient = point.d1 - step / var
            lo, hi = np.where(gradient > 0, step, lo), np.where(gradient > 0, hi, step)
            newton = step + gradient / (1 / var - point.d2)
            step = np.where((newton > lo) & (newton < hi), newton, 0.5 * (lo + hi))
        return step

    def _tilted(
        self, y: IntArray, mean: FloatArray, var: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log E[p], nodes u and normalised weights of p(y|u) N(u; mean, var), (k, m)."""
        v = np.maximum(var, 1e-200)
        step = self._mode(y, mean, v)
        point, _unused = self._point(y, mean + step)
        scale = 1 / np.sqrt(1 / v - point.d2)
        x, log_weights = hermite(self.order)
        offset = step + x[:, None] * scale
        ys = np.broadcast_to(y, offset.shape).ravel()
        log_p = self._point(ys, (mean + offset).ravel())[0].value.reshape(offset.shape)
        log_q = log_weights[:, None] + 0.5 * x[:, None] ** 2 + np.log(scale) - 0.5 * np.log(v)
        terms = log_p + log_q - 0.5 * offset**2 / v
        value = logsumexp(terms, axis=0)
        return value, mean + offset, np.exp(terms - value)

    def log_expectation(self, y: IntArray, mean: FloatArray, var: FloatArray) -> Smoothed:
        """Log E[p(y|u)]; its derivatives are cumulants of those of log p (Bartlett)."""
        value, u, weights = self._tilted(y, mean, var)
        ys = np.broadcast_to(y, u.shape).ravel()
        point = self._point(ys, u.ravel())[0]
        l1, l2, l3 = (d.reshape(u.shape) for d in (point.d1, point.d2, point.d3))
        m1, m2 = (weights * l1).sum(0), (weights * l2).sum(0)
        c1, c2 = l1 - m1, l2 - m2
        d2 = m2 + (weights * c1**2).sum(0)
        d3 = (weights * (l3 + 3 * c1 * c2 + c1**3)).sum(0)
        # Log-concavity: d2 <= 0, and the tilted variance v + v^2 d2 cannot be negative.
        floor = -1 / np.maximum(var, 1e-200)
        return Smoothed(value, m1, np.clip(d2, floor * (1 - 1e-12), 0.0), d3)

    def theta_derivatives(
        self, y: IntArray, mean: FloatArray, var: FloatArray, known: Smoothed | None = None
    ) -> ThetaDerivatives:
        """Derivatives in theta, by the same quadrature."""
        _, u, weights = self._tilted(y, mean, var)
        ys = np.broadcast_to(y, u.shape).ravel()
        point, theta = self._point(ys, u.ravel())[0], self._point_theta(ys, u.ravel())
        l1, l2 = point.d1.reshape(u.shape), point.d2.reshape(u.shape)
        t0, t1, t2 = (t.reshape(-1, *u.shape) for t in (theta.value, theta.d1, theta.d2))
        c1, c2 = l1 - (weights * l1).sum(0), l2 - (weights * l2).sum(0)
        c0 = t0 - (weights * t0).sum(1)[:, None]
        square = c1**2 - (weights * c1**2).sum(0)
        return ThetaDerivatives(
            (weights * t0).sum(1),
            (weights * (t1 + c1 * c0)).sum(1),
            (weights * (t2 + c2 * c0 + 2 * c1 * t1 + square * c0)).sum(1),
        )
