"""Levels keep their order where scikit-learn's tools replace labels by places among sorted ones."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict

from ordinalgp import OrdinalGPClassifier, OrdinalSVC, SequentialOrdinalGP, load
from ordinalgp.metrics import ranked_probability_score
from ordinalgp.model_selection import OrderedTargetClassifier

LEVELS = ["low", "mid", "high"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 1))
RANKS = np.digitize(X[:, 0] + 0.3 * RNG.normal(size=90), [-0.5, 0.5])
WORDS = np.array(LEVELS)[RANKS]
PLACES = np.array([1, 2, 0])  # of low, mid and high in the alphabet
FOLDS = list(StratifiedKFold(3).split(X, WORDS))
TOLD = pytest.mark.filterwarnings("ignore:y holds 0, 1, 2 where categories names")


def model():
    return OrdinalGPClassifier(categories=LEVELS, optimizer=None)


def score(proba):
    """Ranked probability score of columns in alphabetical order."""
    return ranked_probability_score(WORDS, proba[:, PLACES], categories=LEVELS)


def manual_loop(estimator):
    """Cross-validated probabilities without any tool, in alphabetical order."""
    proba = np.empty((len(X), 3))
    for train, test in FOLDS:
        proba[test] = clone(estimator).fit(X[train], WORDS[train]).predict_proba(X[test])
    return proba


@TOLD
@pytest.mark.parametrize("kind", [OrdinalGPClassifier, SequentialOrdinalGP])
def test_cross_validated_probabilities_are_those_of_a_loop(kind):
    estimator = kind(categories=LEVELS, optimizer=None)
    proba = cross_val_predict(estimator, X, WORDS, cv=FOLDS, method="predict_proba")
    assert_allclose(proba, manual_loop(estimator), atol=1e-8)


@TOLD
def test_the_wrong_order_would_be_noticed():
    """With the alphabet for an order, as before, the score is far worse."""
    wrong = OrdinalGPClassifier(categories=sorted(LEVELS), optimizer=None)
    assert score(manual_loop(wrong)) > score(manual_loop(model())) + 0.01


@TOLD
@pytest.mark.parametrize(
    "tool",
    [
        lambda: VotingClassifier([("gp", model())], voting="soft"),
        lambda: BaggingClassifier(model(), n_estimators=3, bootstrap=False),
    ],
)
def test_tools_with_one_model_are_the_model(tool):
    found = tool().fit(X, WORDS)
    assert_array_equal(found.classes_, sorted(LEVELS))
    assert_allclose(found.predict_proba(X), model().fit(X, WORDS).predict_proba(X), atol=1e-8)


@TOLD
def test_bagging_and_stacking_score_like_the_model():
    best = score(model().fit(X, WORDS).predict_proba(X))
    bagged = BaggingClassifier(model(), n_estimators=5, random_state=0).fit(X, WORDS)
    assert score(bagged.predict_proba(X)) < best + 0.01
    last = LogisticRegression()
    stacked = StackingClassifier([("gp", model())], last, cv=3).fit(X, WORDS)
    assert score(stacked.predict_proba(X)) < best + 0.02
    assert np.mean(stacked.predict(X) == WORDS) > 0.8


def test_places_become_ranks_and_come_back(tmp_path):
    places = PLACES[RANKS]
    with pytest.warns(UserWarning, match=r"sorted labels.*0 = 'high', 1 = 'low', 2 = 'mid'"):
        found = model().fit(X, places)
    assert_array_equal(found.categories_, PLACES)
    assert_array_equal(found.classes_, [0, 1, 2])
    words = model().fit(X, WORDS)
    assert_allclose(found.category_proba(X), words.category_proba(X), atol=1e-8)
    assert_array_equal(np.array(sorted(LEVELS))[found.predict(X)], words.predict(X))
    found.save(tmp_path / "model.ogp")
    assert_array_equal(load(tmp_path / "model.ogp").predict(X), found.predict(X))


def test_no_warning_where_both_readings_agree():
    found = OrdinalGPClassifier(categories=["a", "b", "c"], optimizer=None).fit(X, RANKS)
    assert_array_equal(found.categories_, [0, 1, 2])


def test_numbers_that_were_named_are_recoded_too():
    named = OrdinalGPClassifier(categories=[1, 2, 3], optimizer=None)
    with pytest.warns(UserWarning, match=r"0, 1, 2 where categories names \[1, 2, 3\]"):
        proba = cross_val_predict(named, X, RANKS + 1, cv=FOLDS, method="predict_proba")
    assert_allclose(proba[:, np.argsort(PLACES)], manual_loop(model()), atol=1e-8)


@pytest.mark.parametrize("kind", [OrdinalGPClassifier, OrdinalSVC])
def test_places_without_the_last_level_are_refused(kind):
    few = RANKS != 1  # no "mid", the last in the alphabet
    with pytest.raises(ValueError, match="a level is missing, and places cannot be told") as error:
        kind(categories=LEVELS).fit(X[few], PLACES[RANKS[few]])
    assert "Add this level" not in str(error.value)
    assert "0 for 'low' to 2 for 'high'" in str(error.value)


# ---------------------------------------------------------------- OrderedTargetClassifier

pd = pytest.importorskip("pandas")
ORDERED = pd.Series(pd.Categorical(WORDS, LEVELS, ordered=True))
UNNAMED = [("gp", OrdinalGPClassifier(optimizer=None)), ("linear", LogisticRegression())]
TOOLS = {
    "voting": lambda: VotingClassifier(UNNAMED[:1], voting="soft"),
    "bagging": lambda: BaggingClassifier(UNNAMED[0][1], n_estimators=3, bootstrap=False),
}


@pytest.mark.parametrize("tool", TOOLS)
def test_an_ordered_categorical_keeps_its_order_in_tools(tool):
    """Without a word of its order; the tool alone would take the alphabet."""
    found = OrderedTargetClassifier(TOOLS[tool]()).fit(X, ORDERED)
    expected = model().fit(X, WORDS)
    assert_array_equal(found.categories_, LEVELS)
    assert_allclose(found.category_proba(X), expected.category_proba(X), atol=1e-8)
    assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-8)
    assert_array_equal(found.classes_, sorted(LEVELS))
    assert_array_equal(found.predict(X), expected.predict(X))
    alone = TOOLS[tool]().fit(X, ORDERED)
    assert score(alone.predict_proba(X)) > score(found.predict_proba(X)) + 0.01


def test_stacking_keeps_the_order_too():
    stack = StackingClassifier(UNNAMED, LogisticRegression(), cv=3)
    found = OrderedTargetClassifier(stack).fit(X, ORDERED)
    assert found.score(X, WORDS) > 0.8
    assert score(found.predict_proba(X)) < score(model().fit(X, WORDS).predict_proba(X)) + 0.02


def test_levels_without_rows_have_probability_zero():
    levels = ["none", *LEVELS]
    found = OrderedTargetClassifier(TOOLS["voting"](), levels).fit(X, WORDS)
    proba = found.category_proba(X)
    assert_array_equal(found.categories_, levels)
    assert_allclose(proba[:, 0], 0)
    assert_allclose(proba[:, 1:], model().fit(X, WORDS).category_proba(X), atol=1e-8)


@TOLD
def test_the_tool_may_itself_be_inside_a_tool():
    wrapped = OrderedTargetClassifier(TOOLS["voting"](), LEVELS)
    proba = cross_val_predict(wrapped, X, WORDS, cv=FOLDS, method="predict_proba")
    assert_allclose(proba, manual_loop(model()), atol=1e-8)


def test_models_of_ranks_name_no_levels():
    with pytest.raises(ValueError, match=r"gp__categories=.*ranks\. Give categories to Ordered"):
        OrderedTargetClassifier(VotingClassifier([("gp", model())])).fit(X, WORDS)


def test_weights_and_searches_pass_through():
    weights = 1.0 + (RANKS == 1)
    wrapped = OrderedTargetClassifier(clone(UNNAMED[0][1]), LEVELS)
    found = wrapped.fit(X, WORDS, sample_weight=weights).category_proba(X)
    assert_allclose(found, model().fit(X, WORDS, weights).category_proba(X), atol=1e-8)
    search = GridSearchCV(wrapped, {"estimator__decision": ["mode", "median"]}, cv=3)
    assert search.fit(X, WORDS).best_score_ > 0.7
    assert found.shape == (90, 3)
    assert wrapped.n_features_in_ == 1


def test_methods_are_those_of_the_tool():
    hard = OrderedTargetClassifier(VotingClassifier(UNNAMED, voting="hard"), LEVELS).fit(X, WORDS)
    assert not hasattr(hard, "predict_proba")
    assert hard.score(X, WORDS) > 0.8
