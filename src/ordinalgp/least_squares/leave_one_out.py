"""Probabilistic least squares: regression on ranks, judged by leaving one row out ([Srijith12]_).

The latent function has Gaussian sites, one per observation, so its posterior is exact. An ordinal
probit links it to the levels; all parameters maximise the log probability of each level given
all the other rows. Leaving an observation out is taking one copy of its site from the posterior.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from scipy.linalg import blas

from ordinalgp._typing import FINITE, POSITIVE, Axes, FloatArray
from ordinalgp.core.curvature import MOST_OF_KERNEL
from ordinalgp.core.gaussian import Moments, Posterior, Prior, Sites, condition
from ordinalgp.core.hyperparameters import n_free
from ordinalgp.core.kernel_gradient import kernel_slope
from ordinalgp.core.kernel_matrix import kernel_matrix
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.linalg import Workspace, invert_in_place, matrix
from ordinalgp.core.objectives import UpperTriangle
from ordinalgp.core.search import ExactTask, Step
from ordinalgp.runtime.threads import one_thread

_STRIP = 256  # rows of a product at a time
_STEP = 1e-4  # of finite differences
# In ranks. A rank stands for an interval of values that is one rank wide, so its noise is at least
# that of rounding, 1/sqrt(12). Left-out rows cannot say so where none has a close neighbour: their
# own variance is then large, and the noises of the ranks and of the link may both vanish at no
# cost. A new row that equals a training row got a level with probability zero (Triazines, 5 bins).
RANK_NOISE_BOUNDS = (12**-0.5, 1e3)


@dataclass(frozen=True, eq=False)
class RankLikelihood:
    """Likelihoods of the ranks in training, and of the levels in prediction.

    ``noise`` is that of the ranks around the latent function: eq. (2) of [Srijith12]_.
    ``link`` has noise 1/slope and thresholds on the scale of the ranks: eq. (7) of [Srijith12]_
    with its slope and thresholds divided by the slope. theta = [log noise, link.theta].
    """

    noise: Annotated[float, Axes("", *POSITIVE)]
    link: OrdinalProbit
    noise_bounds: tuple[float, float] = RANK_NOISE_BOUNDS
    noise_place: ClassVar[int] = 0
    noise_unit: ClassVar[float] = 1.0

    @property
    def theta(self) -> FloatArray:
        """[log noise, link.theta]."""
        return np.concatenate([[np.log(self.noise)], self.link.theta])

    @property
    def bounds(self) -> FloatArray:
        """Search bounds of theta."""
        return np.vstack([np.log(self.noise_bounds), self.link.bounds])

    def clone_with_theta(self, theta: FloatArray) -> Self:
        """Return the same with other parameters."""
        link = self.link.clone_with_theta(theta[1:])
        return replace(self, noise=float(np.exp(theta[0])), link=link)


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Latent moments of every observation without one copy of itself, and what they came from."""

    moments: Moments
    R: FloatArray
    """(K + T^-1)^-1 with T the precision of all sites at an input, (N, N)"""
    w: FloatArray
    """R (mean rank at each input - prior mean), (N,)"""
    T: FloatArray
    share: FloatArray
    """of the sites at an observation's input, the part that is left out, (M,)"""
    kept: FloatArray
    """1 - share (1 - R_jj/T_j): what is left of the precision at the input, (M,)"""


@dataclass(frozen=True, eq=False)
class LeastSquaresTask(ExactTask):
    """Regression on ranks: everything that stays the same while hyperparameters vary."""

    prior_mean: Annotated[float, Axes("", *FINITE)]

    @property
    def link(self) -> OrdinalProbit:
        """The likelihood that turns latent moments into probabilities."""
        return self.likelihood.link

    def sites(self) -> Sites:
        """The Gaussian sites of the ranks."""
        precision = np.full(len(self.y), self.likelihood.noise**-2)
        return Sites(precision, precision * self.y)

    @one_thread()  # whose rounding is always the same, also when a file is loaded
    def posterior(self, sites: Sites) -> Posterior:
        """The latent function given all rows: eqs. (4) and (5) of [Srijith12]_."""
        K = self._kernel()
        h = np.full(len(K), self.prior_mean)
        return condition(Prior(K, self.projection, self.counts, h), sites)

    def left_out(self, posterior: Posterior, sites: Sites) -> Moments:
        """Latent moments of every observation without one copy of itself."""
        return self.leave_out(self._kernel()).moments

    def _kernel(self, workspace: Workspace | None = None) -> FloatArray:
        return kernel_matrix(self.kernel, self.X, workspace)

    def leave_out(self, K: FloatArray, workspace: Workspace | None = None) -> LeaveOneOut:
        """Leave-one-out moments from one factorisation: eqs. (12) and (13), for copies too.

        The variance is that of the latent function, as in prediction; eq. (13) has the noise in.
        """
        A, noise = self.projection, self.likelihood.noise
        copies = A.adjoint(self.counts)
        offset = A.adjoint(self.counts * (self.y - self.prior_mean)) / copies
        T = copies / noise**2
        C = matrix(workspace, "inverse", len(K))
        C[:] = K
        C.flat[:: len(C) + 1] += 1.0 / T
        R = invert_in_place(C)
        q = np.diagonal(R) / T
        w = R @ offset
        share = np.minimum(self.counts, 1.0) / A.apply(copies)
        kept = 1.0 - share + share * A.apply(q)
        rank = self.y - self.prior_mean
        # Written so that nothing cancels: for a single row, y_i - alpha_i / C_ii.
        mean = self.y + (A.apply(offset - w / T) - rank) / kept
        var = np.maximum(A.apply((1.0 - q) / T) / kept, 0.0)
        return LeaveOneOut(Moments(mean, var), R, w, T, share, kept)

    @property
    def tells_curvature_often(self) -> bool:
        """Curvatures take a factorisation per hyperparameter, too many but for the start."""
        return False

    def step(self, start: Any = None, workspace: Workspace | None = None) -> Step:
        """Sum of log leave-one-out probabilities, eq. (11), with its gradient by the adjoint."""
        K = self._kernel(workspace)
        out = self.leave_out(K, workspace)
        value, d_kernel, d_likelihood = self._adjoint(out, workspace)
        slope = kernel_slope(self.kernel, self.X, UpperTriangle(d_kernel), K, workspace)
        gradient = np.concatenate([slope, d_likelihood])
        curvature = partial(self._curvature, out.moments, workspace)
        return Step(value, gradient, None, curvature=curvature)

    def _curvature(self, at: Moments, workspace: Workspace | None) -> FloatArray | None:
        """Minus the second derivatives, those of the left-out moments neglected: Gauss-Newton.

        It overwrites what the workspace holds.
        """
        n = n_free(self.kernel) + 1  # hyperparameters that move the moments
        if n > MOST_OF_KERNEL:
            return None
        theta, places, slopes = self.theta, [], []
        for k, unit in enumerate(np.eye(len(theta))):
            near = self.at(theta + _STEP * unit)
            moved = near.leave_out(near._kernel(workspace), workspace).moments if k < n else at
            places.append(near._place(moved))
            slopes.append(near._slopes(moved))
        moves = np.array(places) - self._place(at)
        return -moves @ (np.array(slopes) - self._slopes(at)).T / _STEP**2

    def _place(self, at: Moments) -> FloatArray:
        """All that the objective is a function of: left-out moments and the link, (2M + r,)."""
        return np.concatenate([at.mean, at.var, self.likelihood.link.theta])

    def _slopes(self, at: Moments) -> FloatArray:
        """Slopes of the objective in the same, (2M + r,)."""
        link, counts = self.likelihood.link, self.counts
        smoothed = link.log_expectation(self.y, at.mean, at.var)
        by_var = counts * (smoothed.d2 + smoothed.d1**2) / 2
        by_link = link.theta_derivatives(self.y, at.mean, at.var, smoothed).value @ counts
        return np.concatenate([counts * smoothed.d1, by_var, by_link])

    def _adjoint(
        self, out: LeaveOneOut, workspace: Workspace | None
    ) -> tuple[float, FloatArray, FloatArray]:
        """Value, dL/dK (its upper triangle) and dL/d likelihood.theta."""
        A, at, m = self.projection, out.moments, len(self.y)
        value = self.likelihood.link.log_expectation(self.y, at.mean, at.var).value @ self.counts
        d_mean, d_var, d_link = np.split(self._slopes(at), [m, 2 * m])
        T = A.apply(out.T)
        q = np.diagonal(out.R) / out.T
        d_w = A.adjoint(-d_mean / (T * out.kept))
        d_q = -d_mean * (at.mean - self.y) * out.share / out.kept - d_var / (T * out.kept**2)
        d_q = A.adjoint(d_q)
        step = -d_mean * A.apply(out.w) / (T * out.kept)  # of the mean, by the noise in 1/T
        d_noise = 2 * (d_q @ q + np.sum(d_var * at.var + step))
        G = matrix(workspace, "slope", len(out.R))
        _pull_back(out.R, d_q / out.T, d_w, out.w, G)
        d_noise += 2 * np.sum(np.diagonal(G) / out.T)
        return float(value), G, np.concatenate([[d_noise], d_link])


def _pull_back(
    R: FloatArray, g: FloatArray, d_w: FloatArray, w: FloatArray, out: FloatArray
) -> None:
    """-R diag(g) R - (R d_w w' + w d_w' R)/2: both w and diag(R) back to K, above the diagonal.

    Rows of R with g of one sign form a symmetric product, which is half of a general one. ``out``
    is in C order, as its transpose is what BLAS fills.
    """
    half = R @ d_w
    np.matmul(np.column_stack([half, w]) / -2, np.vstack([w, half]), out=out)
    for sign, places in ((1.0, np.flatnonzero(g < 0)), (-1.0, np.flatnonzero(g > 0))):
        for i in range(0, len(places), _STRIP):
            some = places[i : i + _STRIP]
            rows = R[some]
            rows *= np.sqrt(np.abs(g[some]))[:, None]
            blas.dsyrk(sign, rows.T, beta=1.0, c=out.T, lower=1, overwrite_c=1)
