"""Tasks for choices: data and targets that no reported table has.

What a default is chosen on must not be what its results are reported on. These tasks are other data
sets, other columns of known tables as targets, other questions of surveys, and generated functions
and rules. Tables 2 and 3 of Chu and Ghahramani, TOC-UCO, the real tables and the surveys that the
pages report are not among them, nor is the target of any of them.

``python -m benchmarks.other_tasks`` lists them.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_diabetes, load_iris, load_linnerud, load_wine

from papers.data import (
    FloatArray,
    IntArray,
    equal_width_labels,
    fetch_benchmark,
    quintile_labels,
    read_survey,
    standardise,
)
from papers.real_tables import ORDERED, as_ranks, encode

_MOST_TEST_ROWS = 2000


class Draw(NamedTuple):
    """Rows of one task, drawn at random."""

    X: FloatArray
    y: IntArray
    X_test: FloatArray
    y_test: IntArray


class Task(NamedTuple):
    """A table with levels from 0 on, and the number of rows to learn from."""

    name: str
    table: Callable[[], tuple[FloatArray, IntArray]]
    size: int

    def draw(self, split: int) -> Draw:
        """Training rows, and up to 2,000 others for testing; each level has a training row."""
        X, y = self.table()
        y = np.unique(y, return_inverse=True)[1]
        rng = np.random.default_rng([split, len(y)])
        order = rng.permutation(len(y))
        first = [int(np.flatnonzero(y[order] == level)[0]) for level in np.unique(y)]
        order = np.concatenate([order[first], np.delete(order, first)])
        train = np.zeros(len(y), dtype=bool)
        train[order[: self.size]] = True
        Z, Z_test = standardise(X, train)
        keep = np.sort(rng.permutation(len(Z_test))[:_MOST_TEST_ROWS])
        return Draw(Z, y[train], Z_test[keep], y[~train][keep])


def _levels(target: FloatArray, bins: int) -> IntArray:
    """Equal-width bins as in the papers, a bin of fewer than two rows joined to its neighbour."""
    y = equal_width_labels(target, bins)
    for level in range(bins, 1, -1):
        if np.sum(y == level) < 2:
            y[y == level] = level - 1
    return np.unique(y, return_inverse=True)[1]


# ------------------------------------------------------------------------------- real tables


def _benchmark(name: str, bins: int = 0) -> tuple[FloatArray, IntArray]:
    data = fetch_benchmark(name)
    X = data.features(one_hot="words")
    X = np.where(np.isfinite(X), X, np.nanmedian(X, axis=0))
    if bins:
        return X, _levels(data.target, bins)
    return X, data.target.astype(np.intp)


def _column(name: str, column: str, bins: int) -> tuple[FloatArray, IntArray]:
    """Another column of a table as the target; the table's own target is left out."""
    data = fetch_benchmark(name)
    place = data.numeric_names.index(column)
    target = data.numeric[:, place]
    used = np.isfinite(target)
    X = np.delete(data.features(one_hot="words"), place, axis=1)[used]
    X = np.where(np.isfinite(X), X, np.nanmedian(X, axis=0))
    return X, _levels(target[used], bins)


def _question(survey: str, question: str, bins: int = 0) -> tuple[FloatArray, IntArray]:
    """Another question of a survey as the target; its reported target is left out."""
    columns = dict(read_survey(survey))
    columns.pop("target")
    answers = columns.pop(question)
    if question in ORDERED.get(survey, {}):
        answers = as_ranks(answers, ORDERED[survey][question])
    used = np.isfinite(answers)
    for key, order in ORDERED.get(survey, {}).items():
        if key in columns:
            columns[key] = as_ranks(columns[key], order)
    X = encode({k: v[used] for k, v in columns.items()}, np.ones(int(used.sum()), dtype=bool))
    y = quintile_labels(answers[used]) if bins == 5 else answers[used].astype(np.intp)
    return X, y


def _aggression() -> tuple[FloatArray, IntArray]:
    columns = dict(read_survey("verbal_aggression"))
    y = as_ranks(columns.pop("target"), ("no", "perhaps", "yes")).astype(np.intp)
    columns.pop("person")
    columns.pop("item")
    return encode(columns, np.ones(len(y), dtype=bool)), y


def _bundled(name: str, bins: int) -> tuple[FloatArray, IntArray]:
    if name == "diabetes of scikit-learn":
        X, target = load_diabetes(return_X_y=True, scaled=False)
    elif name == "iris":
        table = load_iris().data
        X, target = table[:, :3], table[:, 3]
    elif name == "wine":
        table = load_wine().data
        X, target = table[:, 1:], table[:, 0]
    else:
        X, target = load_linnerud(return_X_y=True)
        target = target[:, 0]
    return X, _levels(target, bins)


# ---------------------------------------------------------------------------------- generated


def _function(kind: str, bins: int, rows: int = 4000) -> tuple[FloatArray, IntArray]:
    """Functions with noise, cut into bins of equal width (or, for weak ones, fifths)."""
    rng = np.random.default_rng([bins, *map(ord, kind)])
    d = {"friedman": 8, "additive": 10, "weak": 25, "products": 6, "sparse": 30, "scale": 5}[kind]
    X = rng.standard_normal((rows, d)) if kind in ("weak", "sparse") else rng.random((rows, d))
    if kind == "friedman":
        f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
        f = f + 10 * X[:, 3] + 5 * X[:, 4] + 1.5 * rng.standard_normal(rows)
    elif kind == "additive":
        f = np.sum(np.sin(3 * X[:, :6] * np.arange(1, 7) / 2), axis=1)
        f = f + 0.4 * rng.standard_normal(rows)
    elif kind == "weak":
        f = X @ rng.standard_normal(d) / 5 + 1.5 * rng.standard_normal(rows)
    elif kind == "products":
        f = 4 * X[:, 0] * X[:, 1] + 3 * X[:, 2] * X[:, 3] + 0.3 * rng.standard_normal(rows)
    elif kind == "sparse":
        f = X[:, 0] + 0.7 * X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(rows)
    else:
        f = 3 * X[:, 0] + (0.2 + 2 * X[:, 1]) * rng.standard_normal(rows)
    return X, _levels(np.clip(f, *np.quantile(f, [0.002, 0.998])), bins)


# -------------------------------------------------------------------------------------- rules


def _grid(sizes: tuple[int, ...]) -> IntArray:
    return np.array(list(product(*map(range, sizes))))


def _one_hot(grid: IntArray) -> FloatArray:
    columns = [grid[:, [k]] == np.unique(grid[:, k]) for k in range(grid.shape[1])]
    return np.hstack(columns).astype(float)


def _table_of_two(rng: np.random.Generator, a: int, b: int, out: int) -> IntArray:
    """A monotone table that joins two marks, between their mean and their minimum."""
    i, j = np.meshgrid(np.linspace(0, 1, a), np.linspace(0, 1, b), indexing="ij")
    w, c = rng.uniform(0.25, 0.75), rng.uniform(0, 1)
    u = (1 - c) * (w * i + (1 - w) * j) + c * np.minimum(i, j)
    table = np.floor(u * out * 0.999 * rng.uniform(0.85, 1.0) + 1e-9).astype(int)
    if rng.random() < 0.5:
        table[0, :] = 0  # a mark that no other makes up for
    if rng.random() < 0.5:
        table[:, 0] = 0
    return table.clip(0, out - 1)


def _hierarchy(seed: int) -> tuple[FloatArray, IntArray]:
    """Marks of six columns, joined two by two by monotone tables."""
    rng, sizes = np.random.default_rng(seed), (4, 4, 3, 3, 3, 3)
    grid = _grid(sizes)
    nodes = [(grid[:, k], sizes[k]) for k in rng.permutation(6)]
    while len(nodes) > 1:
        i = int(rng.integers(len(nodes) - 1))
        (a, size_a), (b, size_b) = nodes[i], nodes[i + 1]
        out = 4 if len(nodes) == 2 else int(rng.integers(3, 5))
        nodes[i : i + 2] = [(_table_of_two(rng, size_a, size_b, out)[a, b], out)]
    return _one_hot(grid), nodes[0][0]


_BOARD = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


@lru_cache(maxsize=1)
def _tic_tac_toe() -> tuple[FloatArray, IntArray]:
    """All final boards: lost, drawn or won by the player who begins."""
    found: dict[tuple[int, ...], int] = {}

    def play(board: list[int], player: int) -> None:
        for who, result in ((1, 2), (2, 0)):
            if any(all(board[place] == who for place in line) for line in _BOARD):
                found[tuple(board)] = result
                return
        if 0 not in board:
            found[tuple(board)] = 1
            return
        for place in range(9):
            if board[place] == 0:
                play([*board[:place], player, *board[place + 1 :]], 3 - player)

    play([0] * 9, 1)
    return _one_hot(np.array(list(found))), np.array(list(found.values()))


def _tree(seed: int, leaves: int = 12) -> tuple[FloatArray, IntArray]:
    """A random decision tree on nominal columns."""
    rng, sizes = np.random.default_rng(seed), (4, 4, 3, 3, 4, 3)
    grid = _grid(sizes)
    leaf, n = np.zeros(len(grid), dtype=int), 1
    while n < leaves:
        counts = np.bincount(leaf)
        cut, k = rng.choice(n, p=counts / counts.sum()), int(rng.integers(len(sizes)))
        some = (leaf == cut) & (rng.random(sizes[k]) < 0.5)[grid[:, k]]
        if 0 < some.sum() < (leaf == cut).sum():
            leaf[some] = n
            n += 1
    return _one_hot(grid), rng.permutation(np.sort(rng.integers(0, 4, leaves)))[leaf]


def _sums(seed: int) -> tuple[FloatArray, IntArray]:
    """Effects of values and of pairs of values, added and cut."""
    rng, sizes = np.random.default_rng(seed), (4, 4, 3, 3, 4, 3)
    grid = _grid(sizes)
    u = np.sum([rng.standard_normal(size)[grid[:, k]] for k, size in enumerate(sizes)], axis=0)
    u = u + 1.5 * rng.standard_normal(sizes[:2])[grid[:, 0], grid[:, 1]]
    return _one_hot(grid), np.digitize(u, np.quantile(u, [0.6, 0.85, 0.95]))


# ---------------------------------------------------------------------------------- the lists


def _task(
    name: str, size: int, table: Callable[..., tuple[FloatArray, IntArray]], *a: object
) -> Task:
    return Task(f"{name}, {size}", lambda: table(*a), size)


def noisy_tasks() -> list[Task]:
    """Small tables with noise, most of them real."""
    columns = [
        *(("abalone", "shell_weight", 5, 60), ("abalone", "height", 10, 150)),
        *(("auto_mpg", "acceleration", 5, 100), ("auto_mpg", "acceleration", 10, 250)),
        *(("auto_mpg", "horsepower", 10, 150), ("machine_cpu", "cach", 5, 120)),
        *(("boston_housing", "lstat", 5, 100), ("boston_housing", "dis", 10, 250)),
        *(("stocks", "company1", 5, 60), ("stocks", "company6", 10, 200)),
        *(("wisconsin", "tumor_size", 5, 130), ("wisconsin", "texture_mean", 10, 130)),
        *(("california_housing", "medianincome", 10, 250), ("computer_small", "freemem", 5, 150)),
        ("prostate_stamey", "lpsa", 5, 60),
        ("prostate_stamey", "lcavol", 10, 60),
    ]
    questions = [("personality", "N3", 0, 200), ("personality", "C4", 0, 80)]
    questions += [("personality", "E2", 0, 300), ("happiness", "attend", 0, 200)]
    questions += [("happiness", "educ", 5, 150)]
    functions = [("friedman", 5, 60), ("friedman", 10, 150), ("additive", 5, 100)]
    functions += [("weak", 5, 130), ("weak", 10, 130), ("products", 10, 80)]
    functions += [("sparse", 5, 100), ("scale", 5, 100)]
    bundled = [("diabetes of scikit-learn", 5, 60), ("diabetes of scikit-learn", 10, 200)]
    bundled += [("iris", 10, 75), ("wine", 5, 60), ("wine", 10, 110), ("linnerud", 5, 12)]
    whole = [("winequality_white", 0, 100), ("winequality_white", 0, 300), ("marketing", 0, 200)]
    whole += [("bank8fm", 5, 60), ("bank8fm", 10, 200), ("prostate_stamey", 0, 60)]
    whole += [("wine_bitterness", 0, 36)]
    return [
        *(_task(f"{t}: {c}, {b} bins", n, _column, t, c, b) for t, c, b, n in columns),
        *(_task(f"{t}: {q}", n, _question, t, q, b) for t, q, b, n in questions),
        *(_task(f"{kind}, {b} bins", n, _function, kind, b) for kind, b, n in functions),
        *(_task(f"{name}, {b} bins", n, _bundled, name, b) for name, b, n in bundled),
        *(
            _task(f"{name}, {b} bins" if b else name, n, _benchmark, name, b)
            for name, b, n in whole
        ),
        _task("verbal aggression", 200, _aggression),
    ]


def certain_tasks() -> list[Task]:
    """Rules of nominal columns, without noise."""
    return [
        *(_task(f"hierarchy {s}", 500, _hierarchy, s) for s in (3, 20, 27, 31, 32, 35)),
        _task("tic-tac-toe", 500, _tic_tac_toe),
        *(_task(f"tree {s}", 500, _tree, s) for s in (0, 1)),
        *(_task(f"sums {s}", 500, _sums, s) for s in (0, 1)),
    ]


if __name__ == "__main__":
    for task in [*noisy_tasks(), *certain_tasks()]:
        rows = task.draw(0)
        counts = np.bincount(rows.y).tolist()
        print(f"{task.name:45} {rows.X.shape[1]:3} inputs, levels {counts}, {len(rows.y_test)}")
