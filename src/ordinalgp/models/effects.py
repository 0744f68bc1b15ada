"""Effects of features: the posterior of the functions that an additive kernel adds up."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.core.posterior import Moments
from ordinalgp.kernels.feature_share import Features, FeatureShare, feature_shares

_BLOCK = 2**22  # covariances computed at a time: 32 MB


@dataclass(frozen=True, eq=False)
class Effects:
    """Posterior of each feature's own function, on the latent scale.

    Each function has mean zero over the training rows, so that
    ``latent mean = constant + mean.sum(axis=1)`` if the whole kernel is additive. Otherwise the
    rest is the part of the other kernels, which also has mean zero.
    """

    mean: FloatArray
    """posterior mean at each row, (n_samples, n_features)"""
    std: FloatArray
    """posterior standard deviation, (n_samples, n_features)"""
    constant: float
    """mean of the latent mean over the training rows"""
    feature_names: list[str]


@dataclass(frozen=True, eq=False)
class Reference:
    """Rows over which functions have mean zero, with weights that sum to one."""

    X: FloatArray
    weights: FloatArray

    def centred(
        self, share: FeatureShare, support: FloatArray, X: FloatArray
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Covariances with f(support) and variances of a centred function, in blocks of rows.

        The function is g(x) = h(x) - w'h(R) with cov(h(x), f(z)) = cov(h(x), h(z)) = k(x, z).
        Hence cov(g(x), f(z)) = k(x, z) - w'k(R, z), and var(g(x)) = k(x, x) - 2 k(x, R) w
        + w'k(R, R) w.
        """
        mean_cross = self._mean(share, support)
        mean_var = float(self.weights @ self._mean(share, self.X))
        block = max(1, _BLOCK // len(support))
        for i in range(0, len(X), block):
            rows = X[i : i + block]
            var = share.diag(rows) - 2 * self._mean(share, rows) + mean_var
            yield share(rows, support) - mean_cross, np.maximum(var, 0.0)

    def _mean(self, share: FeatureShare, X: FloatArray) -> FloatArray:
        """w'k(R, x) for every row x of X, in blocks."""
        block = max(1, _BLOCK // len(self.X))
        starts = range(0, len(X), block)
        parts = [share(X[i : i + block], self.X) @ self.weights for i in starts]
        return np.concatenate([np.empty(0), *parts])


def effects(
    model: Any, X: FloatArray, groups: Mapping[str, Sequence[int]], reference: Reference
) -> Effects:
    """Posterior of the own functions of groups of features, centred over the reference rows."""
    shares = feature_shares(model.kernel, X.shape[1])
    if not shares:
        raise ValueError(
            f"The kernel {model.kernel} has no part of a single feature, so that features have no "
            "functions of their own. Use Additive() or ARDLinear() of ordinalgp.kernels, alone or "
            "in a sum such as Additive() + RBF(). For any other model, plots.EffectDisplay draws "
            "the average probability of each level along a feature."
        )
    known = {at for places in shares for at in places}
    for name, group in groups.items():
        if not len(group) or not set(group) <= known:
            raise ValueError(
                f"groups[{name!r}] must hold columns of X, numbers from 0 to {X.shape[1] - 1}, "
                f"but is {list(group)}."
            )
    found = [
        _moments(model, FeatureShare(_touched(shares, group)), X, reference)
        for group in groups.values()
    ]
    mean = np.column_stack([np.empty((len(X), 0)), *(moments.mean for moments in found)])
    std = np.sqrt(np.column_stack([np.empty((len(X), 0)), *(moments.var for moments in found)]))
    constant = float(reference.weights @ model.latent(reference.X).mean)
    return Effects(mean, std, constant, list(groups))


def _touched(shares: dict[Features, Any], group: Sequence[int]) -> dict[Features, Any]:
    """Functions in which some feature of the group has a part."""
    return {places: share for places, share in shares.items() if set(places) & set(group)}


def _moments(model: Any, share: FeatureShare, X: FloatArray, reference: Reference) -> Moments:
    blocks = reference.centred(share, model.task.support, X)
    found = [model.posterior.predict(*covariances) for covariances in blocks]
    mean, var = ([getattr(part, name) for part in found] for name in ("mean", "var"))
    return Moments(np.concatenate([np.empty(0), *mean]), np.concatenate([np.empty(0), *var]))
