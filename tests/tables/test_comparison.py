"""Comparisons: the same folds for all, scores and errors as defined, and honest words."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import KFold
from tests.table_cases import LEVELS, encoded, school

from ordinalgp import OrdinalGPClassifier, metrics
from ordinalgp.cli.fit import MODELS
from ordinalgp.runtime.progress import listening
from ordinalgp.tables import Comparison, TableModel, compare
from ordinalgp.tables.cells import BadInput, Table
from ordinalgp.tables.comparison import ComparisonPlan, Outcome, clustered_error
from ordinalgp.tables.contenders import CONTENDERS, Contender, NativeColumns, TrainingRows, chosen
from ordinalgp.tables.folds import make_folds

QUICK = ["logistic", "frequencies"]


def rows(n=60, seed=0):
    """A number and a nominal column, and three levels that follow both."""
    rng = np.random.default_rng(seed)
    dose, drug = rng.normal(size=n), rng.choice(["a", "b"], n)
    y = np.digitize(dose + 0.8 * (drug == "b") + 0.5 * rng.normal(size=n), [-0.3, 0.9])
    return {"dose": dose, "drug": drug}, y


def take(columns, at):
    return {name: [cells[i] for i in at] for name, cells in columns.items()}


# ------------------------------------------------------------------------------ predictions


def test_the_encoding_is_learned_inside_each_fold():
    """Against scikit-learn's transformers, fitted to the training rows of each fold."""
    columns, grade = school()
    result = compare(columns, grade, models={"mine": LogisticRegression()}, cv=4)
    assert_array_equal(result.rows, np.arange(48))
    for fold in range(4):
        test = result.rows[result.folds == fold]
        train = np.setdiff1d(np.arange(48), test)
        assert 11 <= len(test) <= 13
        seen = take(columns, train)
        model = LogisticRegression().fit(encoded(seen), grade[train])
        expected = model.predict_proba(encoded(take(columns, test), seen))
        assert_allclose(result.probabilities["mine"][test], expected, atol=1e-5)


def test_our_models_are_those_of_fit():
    """``gp`` is the table model that the command fits, on the training rows of a fold."""
    X, y = rows(40)
    split = [(np.arange(30), np.arange(30, 40))]
    result = compare(X, y, models=["gp"], cv=split)
    model = TableModel(OrdinalGPClassifier(), kernel="ard").fit(take(X, range(30)), y[:30])
    expected = model.category_proba(take(X, range(30, 40)))
    assert_allclose(result.probabilities["gp"], expected, atol=1e-6)
    assert_array_equal(result.rows, np.arange(30, 40))
    assert set(MODELS) <= set(CONTENDERS)


def test_frequencies_are_those_of_the_training_rows():
    X, y = rows()
    result = compare(X, y, models=["frequencies"], cv=3)
    for fold in range(3):
        test = result.rows[result.folds == fold]
        shares = np.bincount(np.delete(y, test), minlength=3) / (60 - len(test))
        assert_allclose(result.probabilities["frequencies"][test], np.tile(shares, (len(test), 1)))


def test_a_level_that_training_lacks_has_a_share_of_one_row():
    X, y = rows(30)
    y[0] = 7
    names = ["logistic", "boosting", "frequencies", "forest"]
    result = compare(X, y, models=[*names, "gp"], cv=[(np.arange(5, 30), np.arange(5))])
    assert list(result.categories) == [0, 1, 2, 7]
    for name in names:
        assert_allclose(result.probabilities[name][0, 3], 1 / 26, rtol=1e-9)
        assert_allclose(result.probabilities[name].sum(axis=1), 1)
    for row in result.table():
        assert np.isfinite(row["log_score"])


def test_a_nominal_value_that_training_lacks_is_predicted():
    X, y = rows(30)
    X["drug"][0] = "c"
    split = [(np.arange(5, 30), np.arange(5))]
    result = compare(X, y, models=["gp", "logistic", "boosting"], cv=split)
    assert not result.failures
    assert len(result.rows) == 5


def test_a_column_without_values_in_a_fold_is_left_out_there():
    X, y = rows(30)
    X["rare"] = [1.5, 2.5] + [None] * 28
    split = [(np.arange(15, 30), np.arange(15)), (np.arange(15), np.arange(15, 30))]
    result = compare(X, y, models=["gp", *QUICK], cv=split)
    assert not result.failures


def test_groups_are_never_split_also_in_inner_folds():
    X, y = rows(60)
    person = np.repeat(np.arange(15), 4)
    result = compare(X, y, models=["frequencies"], cv=4, groups=person)
    for one in range(15):
        assert len(set(result.folds[person[result.rows] == one])) == 1
    table = Table({"dose": X["dose"]}, np.arange(60))
    inner = TrainingRows(table, y, 3, person, 0).inner_folds
    assert all(not set(person[train]) & set(person[test]) for train, test in inner)


def test_parallel_and_serial_runs_agree():
    X, y = rows()
    one, two = (compare(X, y, models=["gp", "frequencies"], cv=2, n_jobs=n) for n in (1, 2))
    for name in one.probabilities:
        assert_allclose(one.probabilities[name], two.probabilities[name], atol=1e-7)


def test_repeats_use_other_folds_and_average_rows():
    X, y = rows()
    result = compare(X, y, models=QUICK, cv=3, repeats=2)
    assert len(result.rows) == 120
    assert len(result.losses["logistic"]["log_score"]) == 60
    first, second = (result.folds[np.flatnonzero(result.rows == i)] for i in (0, 1))
    assert set(result.folds) == set(range(6))
    assert len(first) == len(second) == 2
    p = result.probabilities["logistic"]
    row = -np.log(p[result.rows == 5, y[5]]).mean()
    assert_allclose(result.losses["logistic"]["log_score"][5], row)


def test_splitters_of_scikit_learn_are_taken():
    X, y = rows()
    result = compare(X, y, models=QUICK, cv=KFold(3))
    assert_array_equal(result.folds, np.repeat([0, 1, 2], 20))


def test_the_seed_makes_results_repeatable():
    X, y = rows()
    one, again, other = (compare(X, y, models=QUICK, cv=2, random_state=s) for s in (0, 0, 1))
    assert_array_equal(one.folds, again.folds)
    assert_array_equal(one.probabilities["logistic"], again.probabilities["logistic"])
    assert not np.array_equal(one.folds, other.folds)


# ------------------------------------------------------------------------------ scores


def test_scores_are_those_of_scikit_learn_and_of_our_metrics():
    X, y = rows()
    result = compare(X, y, models=QUICK, cv=3)
    for row in result.table():
        p = result.probabilities[row["model"]]
        truth = y[result.rows]
        median = (p.cumsum(axis=1) >= 0.5).argmax(axis=1)
        assert_allclose(row["log_score"], log_loss(truth, p))
        assert_allclose(row["zero_one_error"], 1 - accuracy_score(truth, p.argmax(axis=1)))
        assert_allclose(row["absolute_error"], np.mean(np.abs(truth - median)))
        rps = metrics.ranked_probability_score(truth, p)
        assert_allclose(row["ranked_probability_score"], rps)
    assert [row["model"] for row in result.table()] == ["logistic", "frequencies"]


def test_differences_are_paired():
    X, y = rows()
    result = compare(X, y, models=QUICK, cv=3)
    best, worst = result.table()
    a, b = (-np.log(result.probabilities[name][np.arange(60), y]) for name in QUICK)
    assert best["log_score_difference"] == best["log_score_se"] == 0
    assert_allclose(worst["log_score_difference"], np.mean(b - a))
    assert_allclose(worst["log_score_se"], np.std(b - a, ddof=1) / np.sqrt(60))


def test_copies_of_rows_do_not_shrink_the_standard_error():
    values = np.random.default_rng(0).normal(size=40)
    alone = clustered_error(values, np.arange(40))
    assert_allclose(alone, values.std(ddof=1) / np.sqrt(40))
    assert_allclose(clustered_error(np.tile(values, 5), np.tile(np.arange(40), 5)), alone)


def test_standard_errors_cover_the_spread_of_group_means():
    """Values of a group share an effect; against the spread of the mean over many draws."""
    rng = np.random.default_rng(1)
    units = np.repeat(np.arange(30), 6)
    draws = rng.normal(size=(400, 30, 1)) + 0.5 * rng.normal(size=(400, 30, 6))
    means = draws.mean(axis=(1, 2))
    errors = [clustered_error(draw.ravel(), units) for draw in draws]
    assert_allclose(np.mean(errors), means.std(), rtol=0.1)
    naive = draws.reshape(400, -1).std(axis=1).mean() / np.sqrt(180)
    assert naive < 0.6 * means.std()


def test_a_zero_probability_is_an_infinite_score_and_no_failure():
    X, y = rows()
    sure = DummyClassifier(strategy="most_frequent")
    result = compare(X, y, models={"sure": sure, "frequencies": None}, cv=3)
    assert not result.failures
    assert result.table()[-1]["log_score"] == np.inf
    assert np.isnan(result.table()[-1]["log_score_se"])
    assert "frequencies" in result.recommendation


# ------------------------------------------------------------------------------ peers


class Shares(BaseEstimator, ClassifierMixin):
    """Gives the share ``p`` to the second level of two."""

    def __init__(self, p):
        self.p = p

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, X):
        return np.tile([1 - self.p, self.p], (len(X), 1))


def test_settings_are_chosen_by_the_log_score():
    y = np.repeat([0, 1], [9, 21])
    table = Table({"x": np.arange(30.0)}, np.arange(30))
    training = TrainingRows(table, y, 2, None, 0)
    assert chosen(training, Shares, (0.1, 0.5, 0.69, 0.9)) == 0.69


def test_trees_get_numbers_with_gaps_and_codes_of_values():
    cells = {"x": np.array([1.5, np.nan, 3.0]), "t": np.array(["b", None, "a"], dtype=object)}
    native = NativeColumns.of(Table(cells, np.arange(3)))
    new = {"x": np.array([np.nan]), "t": np.array(["c"], dtype=object)}
    assert_array_equal(native.numbers(Table(cells, np.arange(3)))[:, 1], [1, np.nan, 0])
    assert np.isnan(native.numbers(Table(new, np.arange(1)))).all()
    assert native.nominal == [1]


@pytest.mark.parametrize("name", ["logistic", "forest", "boosting"])
def test_peers_learn(name):
    """Each finds a strong signal, and none is far from the truth where there is none."""
    rng = np.random.default_rng(3)
    x, names = rng.normal(size=240), [name, "frequencies"]
    few = [(np.arange(60), np.arange(60, 120))]
    strong = compare({"x": x}, np.digitize(x, [-0.5, 0.5]), models=names, cv=few)
    scores = {row["model"]: row["log_score"] for row in strong.table()}
    assert scores[name] < 0.6 * scores["frequencies"]
    split = [(np.arange(160), np.arange(160, 240))]
    none = compare({"x": x}, rng.integers(0, 3, 240), models=names, cv=split)
    scores = {row["model"]: row["log_score"] for row in none.table()}
    assert abs(scores[name] - scores["frequencies"]) < 0.15


@pytest.mark.parametrize(
    "name, packages", [("ordinal-logistic", ("mord", "statsmodels")), ("catboost", ("catboost",))]
)
def test_optional_peers_learn_or_are_named(name, packages):
    X, y = rows()
    result = compare(X, y, models=[name, "frequencies"], cv=2)
    if CONTENDERS[name].absent is None:
        assert not result.failures
        assert result.models == [name, "frequencies"]
    else:
        assert packages[0] in result.failures[name]
        assert result.models == ["frequencies"]


def test_an_absent_package_is_named():
    assert Contender("x", CONTENDERS["forest"].learn, ("no_such_package",)).absent == (
        "needs no_such_package, not installed"
    )
    assert Contender("x", CONTENDERS["forest"].learn, ("no_such_package", "numpy")).absent is None


# ------------------------------------------------------------------------------ mishaps


class Fails(Shares):
    def fit(self, X, y):
        raise ValueError("this model cannot be fitted\nand more")


class NotProbabilities(Shares):
    def predict_proba(self, X):
        return np.full((len(X), 2), 0.7)


def test_a_model_that_fails_is_named_and_stops_nobody():
    X, y = rows()
    models = {"bad": Fails(0.5), "odd": NotProbabilities(0.5), "logistic": None}
    result = compare(X, np.minimum(y, 1), models=models, cv=3)
    assert result.failures["bad"] == "this model cannot be fitted"
    assert "do not sum to one" in result.failures["odd"]
    assert result.models == ["logistic"]


class Stops(Shares):
    def fit(self, X, y):
        raise KeyboardInterrupt


def test_an_interrupt_keeps_what_is_finished():
    X, y = rows()
    plan = ComparisonPlan.of(X, y, models={"logistic": None, "frequencies": None}, cv=3)
    everything: list[Outcome] = []
    plan.run(everything, 1)
    part = plan.result(everything[:5])  # two folds of two models, and half of the third
    assert set(part.folds) == {0, 1}
    assert "Interrupted: 2 of 3 folds are complete." in part.notes
    first = plan.result(everything[:1])
    assert first.models == ["logistic"]
    assert plan.result([]).recommendation == "No model has finished."

    stopped: list[Outcome] = []
    models = {"frequencies": None, "stops": Stops(0.5)}
    with pytest.raises(KeyboardInterrupt):
        ComparisonPlan.of(X, y, models=models, cv=3).run(stopped, 1)
    assert [each.model for each in stopped] == ["frequencies"]


def test_a_sample_of_rows_is_drawn_in_whole_groups():
    X, y = rows(90)
    person = np.repeat(np.arange(30), 3)
    plan = ComparisonPlan.of(X, y, models=QUICK, groups=person, max_rows=41)
    assert len(plan.codes) == 39  # 13 whole groups
    assert np.bincount(plan.units).tolist() == [3] * 13
    assert plan.notes == ("39 of 90 rows, drawn at random.",)
    assert len(ComparisonPlan.of(X, y, models=QUICK, max_rows=50).codes) == 50
    assert len(ComparisonPlan.of(X, y, models=QUICK, max_rows=None).codes) == 90
    with pytest.raises(BadInput, match="more than the 10 rows"):
        ComparisonPlan.of(X, y, models=QUICK, groups=np.zeros(90), max_rows=10)


def test_progress_is_reported_for_every_fit():
    X, y = rows()
    seen = []
    with listening(seen.append):
        compare(X, y, models=["gp", "frequencies"], cv=2)
    assert [each.step for each in seen] == [1, 2, 3, 4]
    assert "fold 1 of 2: Gaussian process" in seen[0].text
    assert seen[-1].done


@pytest.mark.parametrize(
    "change, message",
    [
        ({"models": ["gpp"]}, "'gpp', but the known ones are auto, gp"),
        ({"models": []}, "models is empty"),
        ({"cv": 1}, "cv"),
        ({"repeats": 0}, "repeats"),
        ({"max_rows": 2}, "max_rows"),
        ({"groups": [1, 2]}, "one group per row"),
    ],
)
def test_bad_arguments_are_explained(change, message):
    X, y = rows()
    with pytest.raises(ValueError, match=message):
        compare(X, y, **({"models": QUICK} | change))


def test_rows_and_levels_must_agree():
    X, y = rows()
    with pytest.raises(ValueError, match="X has 60 rows, but y has 59"):
        compare(X, y[:-1], models=QUICK)


# ------------------------------------------------------------------------------ words


def made(probabilities, seconds, ours=("auto",), n=100):
    """Comparison of models that give these probabilities to the level of each row."""
    names = list(probabilities)
    labels = {name: CONTENDERS[name].label for name in names}
    p = {name: np.column_stack([q, 1 - np.asarray(q)]) for name, q in probabilities.items()}
    times = {name: np.full(3, seconds[name]) for name in names}
    every = np.arange(n)
    return Comparison(
        np.array([0, 1]),
        np.zeros(n, dtype=int),
        every,
        every,
        every % 3,
        p,
        times,
        labels,
        ours,
        {},
    )


def behind(p, errors, seed=0):
    """Probabilities whose mean log score is so many standard errors above that of ``p``."""
    away = np.random.default_rng(seed).normal(size=len(p))
    away = (away - away.mean()) / away.std(ddof=1) + errors / np.sqrt(len(p))
    return p * np.exp(-0.2 * away)


HALF = np.full(100, 0.5)


def test_a_tie_is_called_a_tie():
    p = {"auto": HALF, "logistic": behind(HALF, 0.9), "forest": behind(HALF, 9)}
    said = made(p, {"auto": 40.0, "logistic": 1.0, "forest": 2.0}).recommendation
    assert said == (
        "The mixture has the lowest log score; logistic regression is within one standard error "
        "and 40 times faster."
    )


def test_several_ties_name_the_fastest():
    p = {"auto": HALF, "logistic": behind(HALF, 0.9), "forest": behind(HALF, 0.5, seed=1)}
    p |= {"frequencies": behind(HALF, 7)}
    times = {"auto": 5.0, "logistic": 1.0, "forest": 4.9, "frequencies": 0.01}
    assert made(p, times).recommendation == (
        "The mixture has the lowest log score; random forest and logistic regression are within "
        "one standard error, of which logistic regression is 5.0 times faster."
    )


def test_a_clear_winner_is_named_with_its_lead():
    p = {"logistic": HALF, "forest": behind(HALF, 5), "auto": behind(HALF, 8)}
    assert made(p, dict.fromkeys(p, 1.0)).recommendation == (
        "Logistic regression has the lowest log score; random forest is 0.100 ± 0.020 behind; "
        "the best of ordinalgp, the mixture, is 0.160 ± 0.020 behind."
    )


def test_a_lead_below_two_standard_errors_may_be_chance():
    p = {"auto": HALF, "logistic": behind(HALF, 1.5)}
    said = made(p, dict.fromkeys(p, 1.0)).recommendation
    assert "logistic regression is 0.030 ± 0.020 behind, which chance may explain." in said


def test_frequencies_that_are_hardly_worse_are_named():
    p = {"auto": HALF, "logistic": behind(HALF, 0.9), "frequencies": behind(HALF, 1.5, seed=1)}
    said = made(p, dict.fromkeys(p, 1.0)).recommendation
    assert said.endswith("; even the level frequencies are only 0.030 ± 0.020 behind.")


def test_columns_without_signal_are_said_to_have_none():
    p = {"auto": HALF, "frequencies": behind(HALF, 0.5)}
    said = made(p, dict.fromkeys(p, 1.0)).recommendation
    assert said.startswith("No model predicts better than the level frequencies")


def test_names_of_texts_and_ordered_levels():
    columns, grade = school()
    labels = [LEVELS[g - 1] for g in grade]
    result = compare(columns, labels, categories=LEVELS, models=QUICK, cv=3)
    assert result.categories.tolist() == LEVELS
    with pytest.raises(ValueError, match="no order of their own"):
        compare(columns, labels, models=QUICK)


def test_folds_hold_the_shares_of_levels():
    _, y = rows()
    for _, test in make_folds(y, 5):
        assert np.all(np.abs(np.bincount(y[test], minlength=3) - np.bincount(y) / 5) <= 1)


def test_dates_and_ordered_columns_are_compared():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    day, size = rng.integers(0, 400, 60), rng.integers(0, 3, 60)
    table = pd.DataFrame(
        {
            "day": pd.Timestamp("2023-01-01") + pd.to_timedelta(day, "D"),
            "size": pd.Categorical.from_codes(size, ["s", "m", "l"], ordered=True),
        }
    )
    split = [(np.arange(40), np.arange(40, 60))]
    names = ["gp", "logistic", "boosting", "frequencies"]
    result = compare(table, np.digitize(day / 150 + size, [1, 2.5]), models=names, cv=split)
    assert not result.failures
    assert result.models[-1] == "frequencies"


def test_columns_that_are_no_features_are_named():
    X, y = rows()
    X["empty"] = [None] * 60
    result = compare(X, y, models=["frequencies"], cv=2)
    assert any("empty" in note for note in result.notes)
