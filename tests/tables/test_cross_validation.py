"""Scores of rows that a model has not seen: folds, starts, baselines, chance."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import ordinalgp
from ordinalgp import (
    LeastSquaresOrdinalClassifier,
    OrdinalGPClassifier,
    SequentialOrdinalGP,
    StackedOrdinalGP,
)
from ordinalgp.kernels import Additive
from ordinalgp.runtime.progress import listening
from ordinalgp.tables import TableModel
from ordinalgp.tables.cells import BadInput
from ordinalgp.tables.cross_validation import (
    CrossValidation,
    TrainingTable,
    ValidationSettings,
    begin_halfway,
)
from ordinalgp.tables.encoding import parse_columns
from ordinalgp.tables.frames import as_table
from ordinalgp.tables.summary import held_out_intervals, summarise


def table(n=60, seed=0):
    """Two numbers, one with gaps, words of which some are rare, and levels that follow them."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    words = rng.choice(["u", "v", "w", "x"], n, p=[0.5, 0.4, 0.07, 0.03])
    y = np.digitize(a + 0.5 * (words == "v") + 0.5 * rng.normal(size=n), [-0.5, 0.7])
    b[rng.random(n) < 0.1] = np.nan
    return {"a": a, "b": b, "word": words.astype(object)}, y


def taken(columns, rows):
    return {name: cells[rows] for name, cells in columns.items()}


FIXED = OrdinalGPClassifier(optimizer=None)


@pytest.fixture(scope="module")
def model():
    return TableModel(FIXED, kernel="rbf", folds=5).fit(*table())


def test_too_few_rows_are_rows_where_no_groups_were_given():
    with pytest.raises(BadInput, match="5 folds need at least 5 rows that differ"):
        TableModel(OrdinalGPClassifier(optimizer=None), folds=5).fit({"a": [1, 2, 3]}, [0, 1, 1])


def test_each_row_is_predicted_by_a_model_of_the_other_folds(model):
    """The encoding is learned in each fold as well: the same as a table model of its rows."""
    columns, y = table()
    held = model.held_out_
    assert_array_equal(held.rows, np.arange(60))
    assert_array_equal(held.codes, y)
    for fold in range(5):
        test, train = held.rows[held.fold == fold], held.rows[held.fold != fold]
        assert len(test) == 12
        other = TableModel(FIXED, kernel="rbf", categories=[0, 1, 2]).fit(
            taken(columns, train), y[train]
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # new words
            p = other.category_proba(taken(columns, test))
        assert_allclose(held.proba[held.fold == fold], p, rtol=1e-9)


def test_the_baseline_is_the_frequency_in_the_other_folds(model):
    held = model.held_out_
    for row in (0, 17, 59):
        others = held.codes[held.fold != held.fold[row]]
        expected = [(np.sum(others == level) + 0.5) / (len(others) + 1.5) for level in range(3)]
        assert_allclose(held.baseline[row], expected)


def test_the_gain_is_a_paired_difference(model):
    held, own = model.held_out_, np.arange(60)
    d = np.log(held.proba[own, held.codes]) - np.log(held.baseline[own, held.codes])
    mean, error = held.gain
    assert_allclose(mean, d.mean())
    by_rows = d.std(ddof=1) / np.sqrt(60)
    means = np.array([d[held.fold == k].mean() for k in range(5)])
    assert_allclose(error, max(by_rows, means.std(ddof=1) / np.sqrt(5)))


def test_folds_are_reported(model):
    seen = []
    with listening(seen.append):
        clone(model).fit(*table())
    steps = [(p.step, p.total) for p in seen if p.stage == "fold"]
    assert steps == [(k, 5) for k in range(6)]


def test_no_folds_by_default():
    model = TableModel(FIXED, kernel="rbf").fit(*table(30))
    assert model.held_out_ is None
    assert model.importance_ is None
    told = summarise(model)
    assert told["cross_validation"] is None
    assert "flatters" in told["leave_one_out"]["method"]


def test_folds_in_parallel_are_the_same(model):
    again = clone(model).set_params(n_jobs=2).fit(*table())
    assert_allclose(again.held_out_.proba, model.held_out_.proba, rtol=1e-12)
    assert_allclose(again.importance_.mean, model.importance_.mean, rtol=1e-8, atol=1e-12)


def test_rows_of_a_group_are_in_one_fold():
    columns, y = table(60)
    people = [f"person {row // 3}" for row in range(60)]
    model = TableModel(FIXED, kernel="rbf", folds=4).fit(columns, y, groups=people)
    held = model.held_out_
    assert held.together == "groups"
    for first in range(0, 60, 3):
        assert len(set(held.fold[first : first + 3])) == 1
    assert "group" in summarise(model)["cross_validation"]["method"]
    with pytest.raises(BadInput, match="4 folds need at least 4 groups, but there are 2"):
        clone(model).fit(columns, y, groups=["a", "b"] * 30)


def test_copies_are_in_one_fold():
    columns, y = table(40)
    rows = np.tile(np.arange(40), 2)
    model = TableModel(FIXED, kernel="rbf", folds=5).fit(taken(columns, rows), y[rows])
    held = model.held_out_
    assert held.together == "copies"
    assert_array_equal(held.fold[:40], held.fold[40:])


def test_rows_of_weight_zero_have_no_part():
    columns, y = table(50)
    weights = np.where(np.arange(50) % 10 == 3, 0.0, 1.0)
    used = np.flatnonzero(weights)
    model = TableModel(FIXED, kernel="rbf", folds=5)
    weighted = clone(model).fit(columns, y, sample_weight=weights).held_out_
    fewer = clone(model).fit(taken(columns, used), y[used]).held_out_
    assert_array_equal(weighted.rows, used)
    assert_allclose(weighted.proba, fewer.proba, rtol=1e-9)
    assert_allclose(weighted.counts, fewer.counts)


def test_many_rows_have_one_fold():
    columns, y = table(100)
    parsed = parse_columns(as_table(columns))[0]
    rows = TrainingTable(parsed, y.astype(np.intp), np.arange(3), np.ones(100))
    model = TableModel(FIXED, kernel="rbf")
    fitted = model.fit(columns, y).classifier_
    few = ValidationSettings(all_folds_rows=99)
    held = CrossValidation(rows, model._unfitted, fitted, 5, settings=few).run()
    assert len(held.codes) == 20
    assert held.counts.shape == (1, 3)
    assert held.counts.sum() == 80
    told = summarise(_with(model, held))
    assert "One row in 5" in told["cross_validation"]["method"]


def _with(model, held):
    again = clone(model)
    again._keep(replace(model._result, held_out=held))
    return again


def test_a_fold_that_fails_has_the_level_frequencies():
    class Moody(OrdinalGPClassifier):
        def fit(self, X, y, sample_weight=None):
            if len(X) < 60:
                raise FloatingPointError("too few rows")
            return super().fit(X, y, sample_weight)

    with pytest.warns(UserWarning, match="5 of 5 folds could not be fitted.*too few rows"):
        model = TableModel(Moody(optimizer=None), kernel="rbf", folds=5).fit(*table())
    assert_allclose(model.held_out_.proba, model.held_out_.baseline)
    assert_allclose(model.held_out_.gain, 0, atol=1e-12)


def test_a_level_of_one_row_and_a_column_of_one_value():
    """In one fold nothing is known of them, and all numbers stay finite."""
    columns, y = table(30)
    y[4], columns["rare"] = 3, np.where(np.arange(30) == 4, 7.0, np.nan)
    model = TableModel(kernel="rbf", folds=5).fit(columns, y)
    told = summarise(model)["cross_validation"]
    numbers = [*told["model"].values(), *told["baseline"].values(), *told["gain"].values()]
    assert np.isfinite(numbers).all()
    assert model.importance_.columns == ("a", "b", "word", "rare")


@pytest.mark.parametrize("folds", [-1, 1, 2.5, "five"])
def test_bad_folds(folds):
    with pytest.raises((ValueError, TypeError), match="folds must be"):
        TableModel(kernel="rbf", folds=folds).fit(*table(20))


# ------------------------------------------------------------------------------- starts


class _Recorder:
    """An optimizer that notes where it begins, and ends a little further."""

    def __init__(self):
        self.starts = []

    def __deepcopy__(self, memo):
        return self  # clones note in the same list

    def __call__(self, objective, start, bounds):
        self.starts.append(np.array(start))
        return start + 0.25, 0.0


def _theta(fitted):
    return fitted._result.model.task.theta


@pytest.mark.parametrize("cls", [OrdinalGPClassifier, LeastSquaresOrdinalClassifier])
@pytest.mark.parametrize("kernel", [None, Additive(1.0)])
def test_a_search_begins_halfway_to_the_fit_of_all_rows(cls, kernel):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    full = cls(kernel, random_state=0).fit(X, y)
    default, halfway = _Recorder(), _Recorder()
    cls(kernel, optimizer=default, random_state=0).fit(X[:30], y[:30])
    classifier = cls(kernel, optimizer=halfway, random_state=0)
    begin_halfway(classifier, full)
    classifier.fit(X[:30], y[:30])
    assert_allclose(halfway.starts[0], (default.starts[0] + _theta(full)) / 2)
    for one, other in zip(default.starts[1:], halfway.starts[1:], strict=True):
        if kernel is not None:
            assert_allclose(one[-4:], other[-4:], atol=1e-9)  # the paper's start stays


def test_each_step_of_a_sequential_model_begins_halfway():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    full = SequentialOrdinalGP(direction="up").fit(X, y)
    default, halfway = _Recorder(), _Recorder()
    SequentialOrdinalGP(direction="up", optimizer=default).fit(X[:50], y[:50])
    classifier = SequentialOrdinalGP(direction="up", optimizer=halfway)
    begin_halfway(classifier, full)
    classifier.fit(X[:50], y[:50])
    assert len(halfway.starts) == 2
    found = [step.model.task.theta for step in full.steps_]
    for begin, usual, end in zip(halfway.starts, default.starts, found, strict=True):
        assert_allclose(begin, (usual + end) / 2)


def test_the_models_of_a_mixture_begin_halfway():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    models = {"one": OrdinalGPClassifier(), "two": OrdinalGPClassifier(Additive(1.0))}
    full = StackedOrdinalGP(models, random_state=0).fit(X, y)
    default, halfway = _Recorder(), _Recorder()

    def mixture(optimizer):
        changed = {
            name: clone(each).set_params(optimizer=optimizer) for name, each in models.items()
        }
        return StackedOrdinalGP(changed, random_state=0)

    mixture(default).fit(X[:30], y[:30])
    classifier = mixture(halfway)
    begin_halfway(classifier, full)
    classifier.fit(X[:30], y[:30])
    for name, begin, usual in zip(models, halfway.starts, default.starts, strict=True):
        assert_allclose(begin, (usual + _theta(full.models_[name])) / 2)


def test_other_hyperparameters_leave_the_usual_start():
    """A fold may lack a nominal value, and then has fewer length scales."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    full = OrdinalGPClassifier(Additive([1.0, 1.0, 1.0])).fit(X, y)
    default, halfway = _Recorder(), _Recorder()
    OrdinalGPClassifier(Additive([1.0, 1.0]), optimizer=default).fit(X[:, :2], y)
    classifier = OrdinalGPClassifier(Additive([1.0, 1.0]), optimizer=halfway)
    begin_halfway(classifier, full)
    classifier.fit(X[:, :2], y)
    assert_allclose(halfway.starts[0], default.starts[0])


# ------------------------------------------------------------------------------- chance


def _gains(columns, y, kernel):
    """Gains over the level frequencies: shown, with its error, and by leave-one-out."""
    model = TableModel(kernel=kernel, folds=5).fit(columns, y)
    shares, own = np.bincount(y - y.min()) / len(y), np.arange(len(y))
    left = np.log(model.loo_proba_[own, model.codes_]).mean()
    return *model.held_out_.gain, left - np.log(shares[model.codes_]).mean()


def test_nothing_is_gained_on_permuted_targets():
    """Where leave-one-out shows a gain, since hyperparameters were chosen on the same rows."""
    found = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        columns = {f"x{j}": rng.normal(size=60) for j in range(8)}
        found.append(_gains(columns, rng.permutation(np.arange(60) % 3), "ard"))
    gain, error, left_out = np.transpose(found)
    assert np.all(gain < 2.5 * error)
    assert gain.mean() < 0.02
    assert left_out.mean() > 0.05


@pytest.mark.data
@pytest.mark.parametrize("kernel", ["ard", "rbf"])
def test_nothing_is_gained_on_a_survey_with_permuted_answers(kernel):
    data = pytest.importorskip("papers.data")
    try:
        survey = data.read_survey("personality")
    except data.DataUnavailableError as error:
        pytest.skip(str(error))
    names = [name for name in survey if name != "target"][:12]
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(survey["target"]))[:70]
        y = rng.permutation(np.asarray(survey["target"][rows], dtype=float)).astype(int)
        found.append(_gains({name: survey[name][rows] for name in names}, y, kernel))
    gain, error, left_out = np.transpose(found)
    # One permutation may look good by chance; eight do not, whatever the processor's last digits.
    assert np.median(gain) < 0.02
    assert np.mean(gain / error) < 0.5
    if kernel == "ard":
        assert left_out.mean() > 0.05


# ------------------------------------------------------------------------------- what follows


def test_intervals_are_calibrated_by_the_folds(model):
    """As in conformal prediction: the ceil((n + 1) c)-th smallest score of the held-out rows."""
    known = model.classifier_._result.interval_scores
    held = model.held_out_
    assert len(known.scores) == 60
    # The score of a row whose level is the most probable one is zero.
    top = held.proba.argmax(axis=1) == held.codes
    assert np.sum(known.scores == 0) == top.sum()


def test_lengths_of_intervals_are_chosen_on_other_folds(model):
    """Probabilities of one level each: intervals have it alone, or all levels."""
    n = 40
    codes = np.where(np.arange(n) % 4 == 0, 1, 0)
    proba = np.tile([0.9, 0.06, 0.04], (n, 1))
    fold = (codes == 0).astype(np.intp)  # fold 0 has all the errors
    held = replace(
        model.held_out_, codes=codes, rows=np.arange(n), unit=np.arange(n), proba=proba, fold=fold
    )
    fitted = _with(model, replace(held, counts=model.held_out_.counts[:2]))
    row = held_out_intervals(fitted, fitted.held_out_)[2]
    # Rows of fold 0 (level 1) have intervals chosen on fold 1, where all rows have level 0.
    assert row["coverage"] == 0.9
    assert row["inside"] == 0.75


def test_a_saved_model_has_its_scores(model, tmp_path):
    model.save(tmp_path / "m.ogp")
    again = ordinalgp.load(tmp_path / "m.ogp")
    for name in ("codes", "rows", "fold", "unit", "proba", "counts"):
        assert_array_equal(getattr(again.held_out_, name), getattr(model.held_out_, name))
    assert again.importance_.as_dict() == model.importance_.as_dict()
    assert summarise(again) == summarise(model)


def test_the_verdict_names_models_that_have_learned_nothing():
    rng = np.random.default_rng(3)
    told = summarise(
        TableModel(FIXED, kernel="rbf", folds=5).fit(
            {"x": rng.normal(size=60)}, rng.permutation(np.arange(60) % 3)
        )
    )["cross_validation"]
    assert told["verdict"].startswith("These rows do not show that it predicts better")
    good = summarise(TableModel(FIXED, kernel="rbf", folds=5).fit(*table(100)))["cross_validation"]
    assert "below that of the level frequencies" in good["verdict"]
