"""One small fitted model of every kind, and its predictions: for files and for golden files.

``python -m tests.saved_models`` writes the golden files of the present schema; do so once per
schema, as older files must still be read, or be refused with the reason.
"""

import json
from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from ordinalgp import (
    CollaborativeOrdinalGP,
    IncrementalOrdinalSVC,
    KernelDiscriminantOrdinal,
    LeastSquaresOrdinalClassifier,
    OrdinalGPClassifier,
    OrdinalSVC,
    PreferenceGP,
    SequentialOrdinalGP,
    SparseBayesOrdinalClassifier,
    StackedOrdinalGP,
)
from ordinalgp.hyperpriors import HyperPrior
from ordinalgp.kernels import Additive, ARDLinear, PerColumn
from ordinalgp.tables import TableModel

GOLDEN = Path(__file__).parent / "contracts" / "golden" / "schema-2"
LEVELS = ["low", "mid", "high", "never"]
N = 18
# No random numbers: these are the same under every version of numpy.
X = np.column_stack([np.sin(1.0 + 7.0 * np.arange(N)), np.cos(3.0 * np.arange(N) ** 1.5)])
X_NEW = np.column_stack([np.linspace(-1.0, 1.0, 5), np.linspace(0.8, -1.0, 5)])
CODES = np.digitize(X[:, 0] + 0.7 * np.sin(np.arange(N) ** 2), [-0.4, 0.4])
NAMES = np.array(LEVELS)[CODES]
PAIRS = np.column_stack([np.arange(N), (np.arange(N) * 5 + 1) % N])
WINNER = np.sign(np.round(X[PAIRS[:, 0], 0] - X[PAIRS[:, 1], 0], 1)).astype(int)
RATERS, ITEMS = np.divmod(np.arange(24), 6)
RATINGS = np.digitize(np.sin(1.0 * ITEMS) + 0.5 * np.cos(2.0 * RATERS + ITEMS), [-0.5, 0.5]) + 1
TABLE = {"hours": [*X[1:, 0], None], "tutor": [None, "no", "yes"] * (N // 3)}
ROWS = {"hours": [*X_NEW[:, 0]], "tutor": ["no", "yes", None, "no", "yes"]}


def _gp(*args, **options):
    return OrdinalGPClassifier(*args, optimizer=None, **options)


def _rated(**options):
    model = CollaborativeOrdinalGP(max_iter=3, tol=1.0, **options)
    return model.fit([f"r{j}" for j in RATERS], ITEMS, RATINGS, item_features=X[:6])


def _league(likelihood):
    teams = [f"team {i}" for i in range(N)]
    model = PreferenceGP("independent", likelihood=likelihood, position_bias="learned", noise=0.7)
    return model.fit(teams, [(teams[i], teams[j]) for i, j in PAIRS], WINNER)


def _judged():
    model = PreferenceGP("independent", position_bias="learned")
    return model.fit(N, PAIRS, WINNER, judges=np.array(["Ann", "Bob", "Cy"])[np.arange(N) % 3])


MODELS = {
    "gp": lambda: OrdinalGPClassifier(RBF([1.0, 2.0]), categories=LEVELS).fit(X, NAMES),
    "gp-repeated": lambda: _gp(RBF(2.0) + WhiteKernel(0.1)).fit(X.round(1), CODES, CODES),
    "gp-laplace": lambda: _gp(Matern(nu=1.5), inference="laplace").fit(X, CODES / 2),
    "gp-logit": lambda: _gp(ConstantKernel(2.0) * RBF(), likelihood="logit").fit(X, NAMES == "low"),
    "gp-inducing": lambda: _gp(ARDLinear([1.0, 2.0]) + RBF(), inducing=5).fit(X, CODES),
    "gp-columns": lambda: _gp(PerColumn(RBF([1.5]) + Additive(1.0), [0, 0])).fit(X, CODES),
    "gp-prior": lambda: _gp(RBF([1.0, 2.0]), hyperprior=HyperPrior(noise=(-1.0, 1.0))).fit(
        X, CODES
    ),
    "gp-monotone": lambda: _gp(Additive(1.0), monotone=[1, -1]).fit(X, CODES),
    "sequential": lambda: SequentialOrdinalGP(RBF(2.0), categories=LEVELS).fit(X, NAMES, CODES + 1),
    "stacked": lambda: StackedOrdinalGP(
        {"thresholds": _gp(RBF(2.0)), "no. 2": SequentialOrdinalGP(RBF(1.0), optimizer=None)},
        categories=LEVELS,
        random_state=0,
    ).fit(X, NAMES),
    "least-squares": lambda: LeastSquaresOrdinalClassifier(RBF()).fit(X, CODES),
    "sparse": lambda: SparseBayesOrdinalClassifier(RBF(0.7), random_state=0).fit(X, CODES),
    "svc": lambda: OrdinalSVC(RBF(), categories=LEVELS).fit(X, NAMES),
    "incremental-svc": lambda: IncrementalOrdinalSVC(RBF()).fit(X, CODES),
    "path-svc": lambda: IncrementalOrdinalSVC(RBF(), algorithm="path").fit(X, CODES),
    "discriminant": lambda: KernelDiscriminantOrdinal(RBF()).fit(X, CODES),
    "preference": lambda: PreferenceGP(RBF(2.0)).fit(X, PAIRS, WINNER),
    "preference-names": lambda: _league("logit"),
    "preference-judges": lambda: _judged(),
    "preference-many-items": lambda: PreferenceGP(RBF(2.0), solver="sparse").fit(X, PAIRS, WINNER),
    "preference-relations": lambda: PreferenceGP(RBF(2.0)).fit_relations(X[:3], [[1, -2, 1]]),
    "collaborative": lambda: _rated(),
    "collaborative-gaussian": lambda: _rated(kernel=RBF(1.5), likelihood="gaussian"),
    "collaborative-tastes": lambda: CollaborativeOrdinalGP(rank=2, max_iter=9, tol=0.5).fit(
        [f"r{j}" for j in RATERS], [*map(str, ITEMS)], RATINGS
    ),
    "table": lambda: TableModel(_gp(RBF(2.0), categories=LEVELS)).fit(TABLE, NAMES),
    "table-sparse": lambda: TableModel(
        SparseBayesOrdinalClassifier(RBF(1.0), random_state=0), nominal=["tutor"], folds=2
    ).fit(TABLE, CODES),
}


def predictions(model):
    """Everything that a loaded model can say of new rows, as lists by method."""
    queries, methods = (X_NEW,), ("predict", "category_proba", "latent_mean_and_variance")
    if isinstance(model, TableModel):
        queries, methods = (ROWS,), ("predict", "category_proba")
    if isinstance(model, PreferenceGP):
        items = model.items_[:5] if hasattr(model, "items_") else X_NEW
        pairs = model.comparison_proba(items[:-1], items[1:])
        return {"predict": model.predict(items).tolist(), "comparison_proba": pairs.tolist()}
    if isinstance(model, CollaborativeOrdinalGP):
        queries = (["r0", "r1", "r3"], [0, 5, "new"], {"new": [0.3, 0.1]})
        if model.rank_ is not None:
            queries = (["r0", "r1", "r3"], ["0", "5", "2"])
    found = {name: getattr(model, name)(*queries) for name in methods if hasattr(model, name)}
    return {name: np.asarray(values).tolist() for name, values in found.items()}


def _write_golden():
    GOLDEN.mkdir(parents=True, exist_ok=True)
    models = {name: fitted() for name, fitted in MODELS.items()}
    for name, model in models.items():
        model.save(GOLDEN / f"{name}.ogp")
    text = json.dumps({name: predictions(model) for name, model in models.items()}, indent=1)
    (GOLDEN / "predictions.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write_golden()
