"""Real comparisons: held-out log scores with and without features, and whether ties are calibrated.

``python -m benchmarks.order_real [name ...]`` prints one Markdown table row for each model. Scores
are means of -ln p(outcome) over comparisons that were held out; smaller is better.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import StandardScaler

from ordinalgp import PreferenceGP
from ordinalgp.benchmark.protocol import data_folder
from ordinalgp.kernels import Independent
from ordinalgp.model_selection import ComparisonClassifier, ComparisonKFold

Folds = list[tuple[NDArray[np.intp], NDArray[np.intp]]]
Problem = tuple[dict[str, tuple[Any, Any]], NDArray[np.intp], NDArray[np.float64], dict[str, Folds]]


def _table(name: str) -> pd.DataFrame:
    return pd.read_csv(data_folder() / name)


def _folds(pairs: NDArray[np.intp], n: int = 5, **options: Any) -> Folds:
    return list(ComparisonKFold(n, random_state=0, **options).split(pairs))


def _codes(column: pd.Series, names: NDArray[Any]) -> NDArray[np.intp]:
    return pd.Index(names).get_indexer(column)


def _with_own(kernel: Any) -> Any:
    return kernel + ConstantKernel(0.1, (1e-4, 1e4)) * Independent()


def chameleons() -> Problem:
    """35 chameleons with 7 features, 106 contests; features can also predict new animals."""
    items, games = _table("chameleons_items.csv"), _table("chameleons_pairs.csv")
    X = StandardScaler().fit_transform(items.drop(columns="item"))
    pairs = np.column_stack([_codes(games[c], items["item"]) for c in ("item_a", "item_b")])
    models = {
        "featureless": (PreferenceGP("independent"), len(X)),
        "features": (PreferenceGP(), X),
        "features and own": (PreferenceGP(_with_own(RBF(np.sqrt(7)))), X),
    }
    folds = {"pairs": _folds(pairs, 10), "items": _folds(pairs, 7, hold_out="items")}
    return models, pairs, games["target"].to_numpy(), folds


def cems() -> Problem:
    """6 schools and 303 students: an item is a school as seen by students of one profile."""
    games = _table("cems_pairs.csv").merge(_table("cems_users.csv"), on="user")
    schools = np.unique(games[["item_a", "item_b"]])
    profile = ["stud", "fra", "spa", "ita"]
    students = (games[profile] == games[profile].iloc[0]).to_numpy(dtype=float)
    kinds, kind = np.unique(students, axis=0, return_inverse=True)
    number = kind.ravel()[:, None] * len(schools)
    pairs = number + np.column_stack([_codes(games[c], schools) for c in ("item_a", "item_b")])
    onehot = np.tile(np.eye(len(schools)), (len(kinds), 1))
    X = np.hstack([2 * onehot, np.repeat(kinds, len(schools), axis=0)])
    folds = list(GroupKFold(5).split(games, groups=games["user"]))
    models = {
        "schools only": (PreferenceGP(), 2 * onehot),
        "schools and students": (PreferenceGP(), X),
    }
    return models, pairs, games["target"].to_numpy(), {"students": folds}


def _league(games: pd.DataFrame) -> Problem:
    teams = np.unique(games[["home", "away"]])
    pairs = np.column_stack([_codes(games[side], teams) for side in ("home", "away")])
    learned = PreferenceGP("independent", position_bias="learned")
    models = {
        "teams": (PreferenceGP("independent"), len(teams)),
        "teams and home": (learned, len(teams)),
    }
    folds = {"games": _folds(pairs, 5, hold_out="comparisons")}
    return models, pairs, games["target"].to_numpy(), folds


def football() -> Problem:
    """1,900 matches of 29 teams, the home team first; a quarter are draws."""
    return _league(
        _table("football_pairs.csv").rename(columns={"item_a": "home", "item_b": "away"})
    )


def icehockey() -> Problem:
    """1,083 games of 58 teams, the home team first where there is one."""
    games = _table("icehockey_pairs.csv").rename(columns={"item_b": "home", "item_a": "away"})
    return _league(games.assign(target=1 - games["target"]))


def car_choice(n_people: int = 120) -> Problem:
    """The car that each of some people chose, against the five others that they were shown."""
    cars = _table("car_choice.csv.gz")
    cars = cars[cars["choice_set"] < n_people].reset_index(drop=True)
    features = cars.drop(columns=["choice_set", "alternative", "target"])
    X = StandardScaler().fit_transform(pd.get_dummies(features, dtype=float))
    chosen = cars.index[cars["target"] == 1]
    rows = [
        (best, other)
        for best in chosen
        for other in cars.index[cars["choice_set"] == cars["choice_set"][best]]
        if other != best
    ]
    pairs = np.array(rows)
    folds = list(GroupKFold(3).split(pairs, groups=cars["choice_set"].to_numpy()[pairs[:, 0]]))
    models = {
        "featureless": (PreferenceGP("independent"), len(X)),
        "features": (PreferenceGP(RBF(np.sqrt(X.shape[1]), (1e-1, 1e3))), X),
    }
    return models, pairs, np.ones(len(pairs)), {"people": folds}


PROBLEMS: dict[str, Callable[[], Problem]] = {
    f.__name__: f for f in (chameleons, cems, icehockey, football, car_choice)
}


def held_out(
    model: PreferenceGP, X: Any, pairs: NDArray[np.intp], y: Any, folds: Folds
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Probabilities of all levels for the tested comparisons, and their codes."""
    parts, truth = [], []
    for train, test in folds:
        fitted = ComparisonClassifier(model, X).fit(pairs[train], y[train])
        parts.append(fitted.category_proba(pairs[test]))
        truth.append(np.searchsorted(fitted.categories_, y[test]))
    return np.vstack(parts), np.concatenate(truth)


def rows(name: str) -> Iterator[str]:
    """One table row for each model of a problem."""
    models, pairs, target, settings = PROBLEMS[name]()
    y = np.round(2 * target - 1).astype(int)
    for held, folds in settings.items():
        for label, (model, X) in models.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                proba, codes = held_out(model, X, pairs, y, folds)
            loss = -np.log(proba[np.arange(len(codes)), codes])
            se = loss.std() / np.sqrt(len(loss))
            top = np.isclose(proba, proba.max(axis=1, keepdims=True))  # equal chances share it
            accuracy = np.mean(top[np.arange(len(codes)), codes] / top.sum(axis=1))
            ties = ""
            if proba.shape[1] == 3:
                expected, spread = (
                    proba[:, 1].sum(),
                    np.sqrt((proba[:, 1] * (1 - proba[:, 1])).sum()),
                )
                ties = f"{np.sum(codes == 1)} of {expected:.0f}±{spread:.0f} expected"
            score = f"{loss.mean():.4f}±{se:.4f}"
            yield f"| {name} | {held} | {label} | {score} | {accuracy:.1%} | {ties} |"


def main() -> None:
    print("| data | held out | model | log score | right | ties seen |\n|---|---|---|---|---|---|")
    for name in sys.argv[1:] or PROBLEMS:
        for row in rows(name):
            print(row, flush=True)


if __name__ == "__main__":
    main()
