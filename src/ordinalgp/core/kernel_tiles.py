"""Kernels between two sets of rows, one rectangle of pairs at a time.

Each class below is the home of a kernel's formula: its values, and the sums of its derivatives over
pairs with given weights. A rectangle stays in the cache, and no n x n x d array is ever made.

Length scales have ``dk/dlog(length_scale_l) = w (x_il - x_jl)^2`` in kernels of
``r^2 = sum_l (x_il - x_jl)^2``, x in units of the length scales, with ``w = -2 dk/d(r^2)``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gamma, kv
from sklearn.gaussian_process import kernels as sk

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.hyperparameters import free_parameters, n_free
from ordinalgp.kernels import Additive, ARDLinear, Exponential, PerColumn, Projected
from ordinalgp.kernels.per_column import per_feature

At = tuple[slice, slice]  # some rows of the left, some of the right
Sums = tuple[float, FloatArray]  # of weights times k, and times dk/dtheta

ROWS, COLUMNS = 64, 512  # pairs at a time: a few such arrays fit into the cache
_FEW = 16  # distinct values in a column up to which products with indicators are faster
# 0/1 features of a column from which comparing its values is faster: than distances, than products
_SEVERAL, _MANY = 5, 32
_CLOSE = 1e-4  # share of the largest square: below it, differences cancel in products
_SMALLEST = float(np.finfo(float).eps)  # distance of equal rows where 0 will not do
_FARTHEST = 3e4  # squares up to which distances from products are as good as exact ones


def strips(n: int) -> Iterator[slice]:
    """Ranges of rows, one after the other."""
    return (slice(i, min(i + ROWS, n)) for i in range(0, n, ROWS))


def columns(start: int, stop: int) -> Iterator[slice]:
    """Ranges of columns, one after the other."""
    return (slice(j, min(j + COLUMNS, stop)) for j in range(start, stop, COLUMNS))


def scaled(X: Any, length_scale: Any) -> FloatArray:
    """Return the rows of ``X`` in units of the length scale."""
    X = np.atleast_2d(np.asarray(X, dtype=float))
    scale = np.squeeze(np.asarray(length_scale, dtype=float))
    if scale.ndim and scale.size != X.shape[1]:
        given = f"length_scale has {scale.size} values, but X has {X.shape[1]} features. "
        raise ValueError(given + "Give one value per feature, or a single number for all of them.")
    if not np.all(scale):
        raise ValueError("length_scale is 0, but must be positive. Give a positive number.")
    with np.errstate(over="ignore"):
        return np.clip(X / scale, -1e140, 1e140)  # squares stay finite: 0 * inf would be nan


class Tiles(ABC):
    """A kernel between two sets of rows."""

    @abstractmethod
    def values(self, at: At) -> FloatArray:
        """The kernel, as a new array."""

    @abstractmethod
    def sums(self, at: At, G: FloatArray) -> Sums:
        """Sums over pairs of ``G`` k, and of ``G`` dk/dtheta."""


class Leaf(Tiles):
    """A kernel between the rows of ``X`` and those of ``Y``; None means ``X``.

    ``groups`` is the column of each feature, where features of a column share their length scale.
    """

    def __init__(self, kernel: Any, X: Any, Y: Any = None, groups: IntArray | None = None) -> None:
        self.kernel = kernel if groups is None else per_feature(kernel, groups)
        self.groups = groups
        self.free = np.array(free_parameters(kernel), dtype=bool)
        self.left = self.rows(X)
        self.right = self.left if Y is None else self.rows(Y)
        self.n_features = self.right.shape[1]

    def rows(self, X: Any) -> FloatArray:
        """Return the rows of ``X`` as the kernel compares them."""
        return scaled(X, getattr(self.kernel, "length_scale", 1.0))

    def sums(self, at: At, G: FloatArray) -> Sums:
        """The sums, without those of fixed hyperparameters."""
        total, slopes = self._sums(at, G)
        return total, slopes if self.free.all() else slopes[:0]

    @abstractmethod
    def _sums(self, at: At, G: FloatArray) -> Sums:
        """The sums as if no hyperparameter were fixed."""

    def _per_scale(self, slopes: FloatArray) -> FloatArray:
        """Return the slopes in the length scales, given those of each feature."""
        if not self.kernel.anisotropic:
            return slopes.sum(keepdims=True)
        return slopes if self.groups is None else np.bincount(self.groups, slopes).astype(float)

    def _split_one_hot(self, X: Any, Y: Any, least: int) -> None:
        """Take nominal columns of at least so many features out of the rows."""
        self.one_hot: list[_OneHot] = []
        self.rest = np.arange(self.n_features)
        if self.groups is None:
            return
        X = np.atleast_2d(np.asarray(X, dtype=float))
        Y = X if Y is None else np.atleast_2d(np.asarray(Y, dtype=float))
        scale = np.squeeze(np.asarray(self.kernel.length_scale, dtype=float))
        self.one_hot = _one_hot_columns(X, Y, self.groups, scale, least)
        if self.one_hot:
            self.rest = np.delete(self.rest, np.hstack([each.features for each in self.one_hot]))
            same = self.right is self.left
            self.left = self.left[:, self.rest]
            self.right = self.left if same else self.right[:, self.rest]


class _OneHot:
    """A nominal column of 0/1 features, of which one is 1 in every row.

    Any two different values differ by ``unit`` in two features.
    """

    def __init__(self, features: IntArray, unit: float, codes: list[IntArray]) -> None:
        self.features, self.unit, self.codes = features, unit, codes

    def differ(self, at: At) -> FloatArray:
        """1 where the values of two rows differ, else 0."""
        left, right = (codes[part] for codes, part in zip(self.codes, at, strict=True))
        return np.not_equal.outer(left, right).astype(float)

    def indicators(self, side: int) -> FloatArray:
        """The 0/1 features of the left rows (0) or the right rows (1)."""
        return np.equal.outer(self.codes[side], np.arange(len(self.features))).astype(float)

    def add(self, out: FloatArray, at: At, step: float) -> None:
        """Add ``step`` where the values of two rows differ."""
        part = self.differ(at)
        part *= step
        out += part

    def sum(self, M: FloatArray, at: At) -> float:
        """Sum of ``M`` over pairs whose values differ."""
        return float(np.vdot(M, self.differ(at)))


def _one_hot_columns(
    X: FloatArray, Y: FloatArray, groups: IntArray, scale: FloatArray, least: int
) -> list[_OneHot]:
    """Columns of at least so many features whose rows all have one 1 and else 0."""
    found = []
    for column in np.flatnonzero(np.bincount(groups) >= least):
        at = np.flatnonzero(groups == column)
        parts = [X[:, at]] if Y is X else [X[:, at], Y[:, at]]
        if all(_is_one_hot(part) for part in parts):
            codes = [part.argmax(axis=1).astype(np.int32) for part in parts]
            unit = float(scaled([[1.0]], scale[at[0]] if scale.ndim else scale)[0, 0])
            found.append(_OneHot(at, unit, [codes[0], codes[-1]]))
    return found


def _is_one_hot(rows: FloatArray) -> bool:
    return bool(np.all((rows == 0) | (rows == 1)) and np.all(rows.sum(axis=1) == 1))


def _differences(left: FloatArray, right: FloatArray) -> Iterator[FloatArray]:
    """Differences in each column, all in the same memory."""
    out = np.empty((len(left), len(right)))
    for a, b in zip(left.T.copy(), right.T.copy(), strict=True):  # copies: without gaps in memory
        yield np.subtract.outer(a, b, out=out)


def _each_square(M: FloatArray, left: FloatArray, right: FloatArray) -> FloatArray:
    """Sum of ``M`` times squared differences for each column, pair by pair."""
    gaps = _differences(left, right)
    return np.array([np.vdot(M, np.multiply(gap, gap, out=gap)) for gap in gaps])


def _decay(r2: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """exp(-r2 / 2)."""
    out = np.multiply(r2, -0.5, out=out)
    return np.exp(out, out=out)


class _FewValues:
    """Columns of the right rows with few distinct values, such as answers on a scale.

    A sum over them of f(x_il, x_jl) is a product: f of the left row and each value, times
    indicators of the right row's value.
    """

    def __init__(self, right: FloatArray) -> None:
        found = [(column, *_distinct(right[:, column])) for column in range(right.shape[1])]
        few = [each for each in found if len(each[1])]
        self.columns = [column for column, _, _ in few]
        self.values = np.concatenate([np.empty(0), *(values for _, values, _ in few)])
        sizes = [len(values) for _, values, _ in few]
        self._owner = np.repeat(np.array(self.columns, dtype=np.intp), sizes)
        self._starts = np.cumsum([0, *sizes[:-1]])
        indicators = [np.empty((len(right), 0)), *(np.eye(len(v))[codes] for _, v, codes in few)]
        self.indicators = np.hstack(indicators)

    def others(self, n: int) -> list[int]:
        """Places of the other columns, of n in all."""
        return sorted(set(range(n)) - set(self.columns))

    def gaps(self, left: FloatArray) -> FloatArray:
        """Differences of left rows to each value of each column."""
        return left[:, self._owner] - self.values

    def per_column(self, each: FloatArray) -> FloatArray:
        """Sum up what belongs to each value, by columns."""
        return np.add.reduceat(each, self._starts) if self.columns else np.empty(0)


def _distinct(x: FloatArray) -> tuple[FloatArray, Any]:
    """Distinct values and where each is; none at all if there are many."""
    if len(np.unique(x[: 4 * _FEW])) > _FEW:
        return np.empty(0), None
    values, codes = np.unique(x, return_inverse=True)
    return (values, codes) if len(values) <= _FEW else (np.empty(0), None)


class _Additive(Leaf):
    """Functions of single features, of nominal columns, and of other groups of features."""

    def __init__(self, kernel: Any, X: Any, Y: Any = None, groups: IntArray | None = None) -> None:
        super().__init__(kernel, X, Y, groups)
        self._split_one_hot(X, Y, least=2)
        found = self._functions()
        self.n_functions = len(found) + len(self.one_hot)
        # Nominal columns with few values go with the other features that have few.
        hot = [column for column in self.one_hot if len(column.features) < _MANY]
        self.one_hot = [column for column in self.one_hot if len(column.features) >= _MANY]
        self.alone = np.array([g[0] for g in found if len(g) == 1], dtype=np.intp)
        self.several = [g for g in found if len(g) > 1]
        self.few = _FewValues(self.right[:, self.alone])
        self.others = self.alone[self.few.others(len(self.alone))]
        self.hot = np.array([at for column in hot for at in column.features], dtype=np.intp)
        apart = [2.0 * column.unit**2 * (1.0 - column.indicators(0)) for column in hot]
        self.hot_squares = np.hstack([np.empty((len(self.left), 0)), *apart])
        of_right = [column.indicators(1) for column in hot]
        self.indicators = np.hstack([self.few.indicators, *of_right])

    def _functions(self) -> list[IntArray]:
        """Features of each function that is not one of a nominal column: places in the rows."""
        if self.groups is None:
            each = self.kernel.groups(self.n_features)
            return [np.arange(self.n_features)[places] for places in each]
        of_rest = self.groups[self.rest]
        return [np.flatnonzero(of_rest == g) for g in np.unique(of_rest)]

    def _parts(self, at: At) -> Iterator[tuple[IntArray, FloatArray]]:
        """Groups of features, and squared distances in them, all in the same memory."""
        left, right = self.left[at[0]], self.right[at[1]]
        gaps = _differences(left[:, self.others], right[:, self.others])
        for feature, d in zip(self.others, gaps, strict=True):
            yield np.array([feature]), np.multiply(d, d, out=d)
        for g in self.several:
            yield g, cdist(left[:, g], right[:, g], "sqeuclidean")

    def values(self, at: At) -> FloatArray:
        near = _decay(self._few_squares(at[0]))
        out: FloatArray = near @ self.indicators[at[1]].T
        for _, r2 in self._parts(at):
            out += _decay(r2, out=r2)
        for column in self.one_hot:  # exp(-unit^2) where values differ, else 1
            column.add(out, at, np.expm1(-(column.unit**2)))
        out += len(self.one_hot)
        out /= self.n_functions
        return out

    def _sums(self, at: At, G: FloatArray) -> Sums:
        slopes = np.zeros(self.n_features)
        total = sum(part(at, G, slopes) for part in (self._few, self._other, self._nominal))
        return total / self.n_functions, self._per_scale(slopes) / self.n_functions

    def _few_squares(self, rows: slice) -> FloatArray:
        """Squared differences of left rows to each value of features and columns with few."""
        gaps = self.few.gaps(self.left[rows][:, self.alone])
        return np.hstack([np.square(gaps, out=gaps), self.hot_squares[rows]])

    def _few(self, at: At, G: FloatArray, slopes: FloatArray) -> float:
        """Sum over functions of features and columns with few values; their slopes are set."""
        r2 = self._few_squares(at[0])
        part = _decay(r2)
        part *= G @ self.indicators[at[1]]
        each, n = np.einsum("iu,iu->u", part, r2), len(self.few.values)
        slopes[self.rest[self.alone[self.few.columns]]] = self.few.per_column(each[:n])
        slopes[self.hot] = each[n:]
        return float(part.sum())

    def _other(self, at: At, G: FloatArray, slopes: FloatArray) -> float:
        total, memory = 0.0, np.empty_like(G)
        for g, r2 in self._parts(at):
            part, places = _decay(r2, out=memory), self.rest[g]
            part *= G
            total += float(part.sum())
            if len(g) == 1 or self.groups is not None or not self.kernel.anisotropic:
                slopes[places[0]] = np.vdot(part, r2)  # the only one, or that of the column
            else:
                left, right = self.left[at[0]], self.right[at[1]]
                slopes[places] = _each_square(part, left[:, g], right[:, g])
        return total

    def _nominal(self, at: At, G: FloatArray, slopes: FloatArray) -> float:
        total = len(self.one_hot) * float(G.sum())
        for column in self.one_hot:
            square, differing = column.unit**2, column.sum(G, at)
            total += np.expm1(-square) * differing
            slopes[column.features[0]] = 2.0 * square * np.exp(-square) * differing
        return total


class _Exponential(Leaf):
    def __init__(self, kernel: Any, X: Any, Y: Any = None, groups: IntArray | None = None) -> None:
        super().__init__(kernel, X, Y, groups)
        self._split_one_hot(X, Y, _SEVERAL)
        self.few = _FewValues(self.right if self.kernel.anisotropic else self.right[:, :0])
        self.others = self.few.others(self.right.shape[1])

    def _distance(self, at: At) -> FloatArray:
        out: FloatArray = cdist(self.left[at[0]], self.right[at[1]], "cityblock")
        for column in self.one_hot:
            column.add(out, at, 2.0 * column.unit)
        return out

    def values(self, at: At) -> FloatArray:
        out = self._distance(at)
        np.negative(out, out=out)
        return np.exp(out, out=out)

    def _sums(self, at: At, G: FloatArray) -> Sums:
        left, right = self.left[at[0]], self.right[at[1]]
        distance = self._distance(at)
        part = np.exp(-distance)
        part *= G
        if not self.kernel.anisotropic:
            return float(part.sum()), np.array([np.vdot(part, distance)])
        slopes, gaps = np.zeros(self.n_features), np.abs(self.few.gaps(left))
        each = np.einsum("iu,iu->u", part @ self.few.indicators[at[1]], gaps)
        slopes[self.rest[self.few.columns]] = self.few.per_column(each)
        gaps_of_others = _differences(left[:, self.others], right[:, self.others])
        found = [np.vdot(part, np.abs(gap, out=gap)) for gap in gaps_of_others]
        slopes[self.rest[self.others]] = found
        for column in self.one_hot:
            slopes[column.features[0]] = 2.0 * column.unit * column.sum(part, at)
        return float(part.sum()), self._per_scale(slopes)


def _of(both: list[FloatArray], at: At) -> tuple[FloatArray, FloatArray]:
    """Some rows of the left, and of the right."""
    return both[0][at[0]], both[1][at[1]]


class _Distances(Leaf):
    """A function of the squared distance."""

    exact = True  # whether the function may be too steep for any rounding of small distances

    def __init__(self, kernel: Any, X: Any, Y: Any = None, groups: IntArray | None = None) -> None:
        super().__init__(kernel, X, Y, groups)
        self._split_one_hot(X, Y, _SEVERAL if self.exact else _MANY)
        self.symmetric = Y is None
        centre = self.right.mean(axis=0)  # products are off by eps times their terms
        self.centred = [self.left - centre, self.right - centre]
        self.norms = [np.einsum("il,il->i", rows, rows) for rows in self.centred]
        # Up to 16 columns products gain nothing (n = 2000, 16: 28 and 29 ms; 60: 59 and 34).
        few = self.left.shape[1] <= 16
        far = max(norm.max(initial=0.0) for norm in self.norms) > _FARTHEST
        self.exact = self.exact or few or bool(far)
        self.close = _CLOSE * max(np.abs(rows).max(initial=0.0) for rows in self.centred) ** 2

    def squared(self, at: At) -> FloatArray:
        """Squared distances as a new array."""
        out = self._squared_of_rest(at)
        for column in self.one_hot:
            column.add(out, at, 2.0 * column.unit**2)
        return out

    def _squared_of_rest(self, at: At) -> FloatArray:
        """Squared distances in the features that are not those of nominal columns."""
        if self.exact:
            return cdist(self.left[at[0]], self.right[at[1]], "sqeuclidean")
        (left, right), norms = _of(self.centred, at), _of(self.norms, at)
        out: FloatArray = (-2.0 * left) @ right.T
        out += np.add.outer(*norms)
        np.maximum(out, 0.0, out=out)
        if self._on_diagonal(at):
            np.fill_diagonal(out, 0.0)
        return out

    def _on_diagonal(self, at: At) -> bool:
        return self.symmetric and at[0].start == at[1].start

    def each_square(self, M: FloatArray, r2: FloatArray, at: At) -> FloatArray:
        """Sum of ``M`` times squared differences for each feature; ``M`` is overwritten.

        That of a nominal column is in the place of its first feature.
        """
        slopes = np.zeros(self.n_features)
        for column in self.one_hot:
            slopes[column.features[0]] = 2.0 * column.unit**2 * column.sum(M, at)
        slopes[self.rest] = self._each_square_of_rest(M, r2, at)
        return slopes

    def _each_square_of_rest(self, M: FloatArray, r2: FloatArray, at: At) -> FloatArray:
        """Sum for each feature that is not one of a nominal column; ``M`` is overwritten.

        The product form |x|^2 + |x'|^2 - 2 x x' cancels for close pairs, whose weight may be
        large: these are summed one by one, and so are all pairs where many are close.
        """
        left, right = self.left[at[0]], self.right[at[1]]
        i, j = np.nonzero(r2 <= self.close)
        if len(i) > 0.1 * M.size:
            return _each_square(M, left, right)
        near = np.square(left[i] - right[j]).T @ M[i, j]
        M[i, j] = 0.0
        left, right = _of(self.centred, at)
        far = M.sum(axis=1) @ left**2 + M.sum(axis=0) @ right**2
        return np.asarray(near + far - 2.0 * np.einsum("il,il->l", left, M @ right))


# Half-integer orders are a polynomial times exp(-z), z = sqrt(2 nu) r: that of k, that of w.
_Profile = Callable[[FloatArray], FloatArray]
_MATERN: dict[float, tuple[_Profile, _Profile]] = {
    0.5: (np.ones_like, lambda z: 1.0 / z),
    1.5: (lambda z: 1.0 + z, lambda z: np.full_like(z, 3.0)),
    2.5: (lambda z: 1.0 + z * (1.0 + z / 3.0), lambda z: 5.0 / 3.0 * (1.0 + z)),
}


def _bessel(z: FloatArray, nu: float) -> tuple[FloatArray, FloatArray]:
    """k and w of any other order; z > 0."""
    factor = 2.0 ** (1.0 - nu) / gamma(nu)
    k, w = factor * z**nu * kv(nu, z), 2.0 * nu * factor * z ** (nu - 1.0) * kv(nu - 1.0, z)
    return k, w


class _Matern(_Distances):
    """The Matern kernel and its limit, the RBF kernel."""

    def __init__(self, kernel: Any, X: Any, Y: Any = None, groups: IntArray | None = None) -> None:
        self.nu = getattr(kernel, "nu", np.inf)
        self.exact = self.nu <= 1.0  # exp(-r) makes 1e-8 of an error of 1e-16 in r^2
        super().__init__(kernel, X, Y, groups)

    def _profile(self, r2: FloatArray, *, slope: bool) -> tuple[FloatArray, FloatArray]:
        """k and, where it is asked for, w: finite at r = 0 too, where it meets a factor 0."""
        if self.nu == np.inf:
            return (k := _decay(r2)), k
        z = np.sqrt(2.0 * self.nu * r2)
        positive = np.maximum(z, _SMALLEST) if slope or self.nu not in _MATERN else z
        if self.nu not in _MATERN:
            return _bessel(positive, self.nu)
        value, weight = _MATERN[self.nu]
        decay = np.exp(-z)
        return value(z) * decay, weight(positive) * decay if slope else decay

    def values(self, at: At) -> FloatArray:
        out = self._profile(self.squared(at), slope=False)[0]
        if self.nu not in (*_MATERN, np.inf) and self._on_diagonal(at):
            np.fill_diagonal(out, 1.0)  # a Bessel function has no value at 0
        return out

    def _sums(self, at: At, G: FloatArray) -> Sums:
        r2 = self.squared(at)
        k, w = self._profile(r2, slope=True)
        total = float(np.vdot(G, k))
        w *= G
        if not self.kernel.anisotropic:
            return total, np.array([np.vdot(w, r2)])
        return total, self._per_scale(self.each_square(w, r2, at))


class _RationalQuadratic(_Distances):
    """``k = (1 + t)^-alpha``, ``t = r^2 / (2 alpha)``."""

    def values(self, at: At) -> FloatArray:
        t = self.squared(at) / (2.0 * self.kernel.alpha)
        return np.asarray((1.0 + t) ** -self.kernel.alpha)

    def sums(self, at: At, G: FloatArray) -> Sums:
        total, slopes = self._sums(at, G)
        return total, slopes[self.free]

    def _sums(self, at: At, G: FloatArray) -> Sums:
        alpha = self.kernel.alpha
        t = self.squared(at) / (2.0 * alpha)
        part = G * (1.0 + t) ** -alpha
        share = t / (1.0 + t)
        slopes = [np.vdot(part, alpha * (share - np.log1p(t))), 2.0 * alpha * np.vdot(part, share)]
        return float(part.sum()), np.array(slopes)


class _DotProduct(Leaf):
    def values(self, at: At) -> FloatArray:
        return np.asarray(self.left[at[0]] @ self.right[at[1]].T + self.kernel.sigma_0**2)

    def _sums(self, at: At, G: FloatArray) -> Sums:
        products = float(np.vdot(self.left[at[0]], G @ self.right[at[1]]))
        bias = self.kernel.sigma_0**2 * float(G.sum())
        return products + bias, np.array([2.0 * bias])


class _ARDLinear(Leaf):
    def values(self, at: At) -> FloatArray:
        weighted = self.left[at[0]] * self.kernel.relevance
        return np.asarray(weighted @ self.right[at[1]].T)

    def _sums(self, at: At, G: FloatArray) -> Sums:
        products = np.einsum("il,il->l", self.left[at[0]], G @ self.right[at[1]])
        slopes: FloatArray = self.kernel.relevance * products
        return float(slopes.sum()), self._per_scale(slopes)


class _Constant(Leaf):
    def values(self, at: At) -> FloatArray:
        shape = [len(each[part]) for each, part in zip((self.left, self.right), at, strict=True)]
        return np.full(shape, float(self.kernel.constant_value))

    def _sums(self, at: At, G: FloatArray) -> Sums:
        total = self.kernel.constant_value * float(G.sum())
        return total, np.array([total])


class _Sum(Tiles):
    def __init__(self, first: Tiles, second: Tiles) -> None:
        self.parts = first, second

    def values(self, at: At) -> FloatArray:
        out = self.parts[0].values(at)
        out += self.parts[1].values(at)
        return out

    def sums(self, at: At, G: FloatArray) -> Sums:
        (total, slopes), (other, others) = (part.sums(at, G) for part in self.parts)
        return total + other, np.concatenate([slopes, others])


class _Multiple(Tiles):
    """A kernel times a constant, which comes first or last."""

    def __init__(self, constant: Any, part: Tiles, *, first: bool) -> None:
        self.value, self.n_dims = constant.constant_value, n_free(constant)
        self.part, self.first = part, first

    def values(self, at: At) -> FloatArray:
        out = self.part.values(at)
        out *= self.value
        return out

    def sums(self, at: At, G: FloatArray) -> Sums:
        total, slopes = self.part.sums(at, G)
        both = [np.repeat(self.value * total, self.n_dims), self.value * slopes]
        return self.value * total, np.concatenate(both if self.first else both[::-1])


LEAVES: dict[type, type[Leaf]] = {
    Additive: _Additive,
    ARDLinear: _ARDLinear,
    Exponential: _Exponential,
    sk.ConstantKernel: _Constant,
    sk.DotProduct: _DotProduct,
    sk.Matern: _Matern,
    sk.RBF: _Matern,
    sk.RationalQuadratic: _RationalQuadratic,
}


def split(kernel: Any) -> tuple[Any, Any]:
    """Return the two operands, one that is a mere number last."""
    constant_first = type(kernel.k1) is sk.ConstantKernel
    return (kernel.k2, kernel.k1) if constant_first else (kernel.k1, kernel.k2)


def tiles(kernel: Any, X: Any, Y: Any = None, groups: IntArray | None = None) -> Tiles | None:
    """The kernel between two sets of rows; None if some part of it has no formula here.

    ``groups`` is the column of each feature, where features of a column share their length scale.
    """
    kind = type(kernel)
    if kind is Projected:
        left, right = kernel.combinations(X), None if Y is None else kernel.combinations(Y)
        return tiles(kernel.kernel, left, right) if groups is None else None
    if kind is PerColumn:
        return (
            tiles(kernel.kernel, X, Y, kernel.columns(np.shape(X)[1])) if groups is None else None
        )
    if kind is sk.Sum:
        one, two = tiles(kernel.k1, X, Y, groups), tiles(kernel.k2, X, Y, groups)
        return None if one is None or two is None else _Sum(one, two)
    if kind is sk.Product and sk.ConstantKernel in (type(kernel.k1), type(kernel.k2)):
        other, constant = split(kernel)
        part = tiles(other, X, Y, groups)
        return None if part is None else _Multiple(constant, part, first=constant is kernel.k1)
    leaf = LEAVES.get(kind)  # not for subclasses, which may compute something else
    return None if leaf is None else leaf(kernel, X, Y, groups)
