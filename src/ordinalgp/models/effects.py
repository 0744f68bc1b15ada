"""Effects of features: the functions that an additive kernel adds up, or average probabilities."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.core.posterior import Moments
from ordinalgp.kernels.feature_share import Features, FeatureShare, feature_shares

_BLOCK = 2**22  # covariances computed at a time: 32 MB
_AVERAGED = 100  # rows over which probabilities are averaged
DRAWS = 200  # of the posterior, for standard deviations of averages
_GRID = 40  # values of a number at which averages are computed; interpolated between them

Probabilities = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Effects:
    """Posterior of each feature's own function, on the latent scale.

    Each function has mean zero over the training rows, so that
    ``latent mean = constant + mean.sum(axis=1)`` if the whole kernel is additive. Otherwise the
    rest is the part of the other kernels, which also has mean zero.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.kernels import Additive
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = np.digitize(X[:, 0], [-0.5, 0.5])
    >>> found = OrdinalGPClassifier(Additive()).fit(X, y).effects(X)
    >>> int(found.mean.std(axis=0).argmax())
    0
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


@dataclass(frozen=True, eq=False)
class LevelEffects:
    """Average probabilities of the levels along each feature (partial dependence).

    For models without a single latent scale: the feature is set to the row's value in all rows,
    and the probabilities of the levels are averaged over them.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp import SequentialOrdinalGP
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = np.digitize(X[:, 0], [-0.5, 0.5])
    >>> found = SequentialOrdinalGP().fit(X, y).effects(X[:5])
    >>> found.mean.shape, int(found.size.argmax())
    ((5, 2, 3), 0)
    """

    mean: FloatArray
    """average probabilities, (n_samples, n_features, n_categories)"""
    std: FloatArray
    """posterior standard deviation of the averages, of the shape of ``mean``"""
    feature_names: list[str]

    @property
    def size(self) -> FloatArray:
        """Share of probability that each feature moves between levels, (n_features,).

        Half the sum of absolute differences to the average over the rows, averaged over them.
        """
        moved = np.abs(self.mean - self.mean.mean(axis=0)).sum(axis=2) / 2
        return np.asarray(moved.mean(axis=0))


def level_effects(
    predict: Probabilities, draw: Probabilities, X: FloatArray, groups: Mapping[str, Sequence[int]]
) -> LevelEffects:
    """Average probabilities along groups of features, over the rows of X.

    ``predict`` has probabilities of rows, (n, r), and ``draw`` draws them jointly, (s, n, r).
    """
    spaced = np.linspace(0, len(X) - 1, min(len(X), _AVERAGED)).round().astype(np.intp)
    found = [_average(predict, draw, X, X[spaced], list(group)) for group in groups.values()]
    mean, std = (np.stack([each[k] for each in found], axis=1) for k in (0, 1))
    return LevelEffects(mean, std, list(groups))


def _average(
    predict: Probabilities, draw: Probabilities, X: FloatArray, rows: FloatArray, group: list[int]
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of the averages at the values of a group in each row of X."""
    values, place = np.unique(X[:, group], axis=0, return_inverse=True)
    grid = values
    if len(group) == 1 and len(values) > _GRID:
        grid = np.unique(np.quantile(X[:, group], np.linspace(0, 1, _GRID), axis=0), axis=0)
    curves = []
    for value in grid:
        varied = rows.copy()
        varied[:, group] = value
        curves.append((predict(varied).mean(axis=0), draw(varied).mean(axis=1).std(axis=0)))
    both = np.moveaxis(np.array(curves), 1, 0)
    if len(grid) < len(values):
        at = grid[:, 0]
        both = np.array([[np.interp(values[:, 0], at, c) for c in part.T] for part in both])
        both = np.moveaxis(both, 1, 2)
    return both[0][place.ravel()], both[1][place.ravel()]
