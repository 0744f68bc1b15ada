"""``ordinalgp rank --store`` gives what the estimator gives for the same answers."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.ask.common import DRINKS

pytest.importorskip("typer")

from ordinalgp import PreferenceGP
from ordinalgp.ask import Answer, Items, Store, Survey, named_items
from ordinalgp.cli.main import build
from ordinalgp.preference import read_store


@pytest.fixture
def run(capsys):
    def call(*words):
        with pytest.raises(SystemExit) as stopped:
            build()(["rank", *map(str, words)])
        told = capsys.readouterr()
        return stopped.value.code, told.out, told.err

    return call


def collect(path, X=None, judges=("",), n=60, tie=0.3):
    """A file of answers about drinks, the earlier the better."""
    rng = np.random.default_rng(0)
    utility = np.linspace(1.5, -1.5, len(DRINKS))
    names = list(DRINKS)
    items = Items(names, named_items(names).parts, X, () if X is None else ("x",))
    survey = Survey("Which would you rather drink?", named_judges=judges != ("",))
    with Store.open(path, items, survey) as store:
        for k in range(n):
            i, j = rng.choice(len(DRINKS), 2, replace=False)
            d = utility[i] - utility[j] + 0.3 * rng.standard_normal()
            outcome = 0 if abs(d) < tie else int(np.sign(d))
            judge = judges[k % len(judges)]
            store.record(Answer(f"key-{k:020}", int(i) + 1, int(j) + 1, outcome, judge))
        store.record(Answer(f"key-{n:020}", 1, 2, None, judges[0]))  # skipped
    return path


def test_the_ranking_is_that_of_the_estimator(run, tmp_path):
    path = collect(tmp_path / "a.db")
    code, out, err = run("--store", path, "--json", "-o", tmp_path / "ranking.csv")
    assert code == 0
    assert "Which would you rather drink?" in err
    found = json.loads(out)
    assert (found["items"], found["comparisons"]) == (12, 60)
    answers = read_store(path)
    model = PreferenceGP("independent", levels=answers.levels, random_state=0)
    model.fit(answers.items, answers.named_comparisons, answers.outcomes)
    ranking = model.rank(answers.items)
    assert [row["item"] for row in found["ranking"]] == ranking.items.tolist()
    assert_allclose([row["utility"] for row in found["ranking"]], ranking.mean, rtol=1e-6)
    assert found["ranking"][0]["item"] in DRINKS[:3]
    assert found["outcomes"]["ties"] == int(np.sum(answers.outcomes == 0)) > 0
    assert (tmp_path / "ranking.csv").read_text().startswith("rank,item,utility")


def test_features_of_the_items_are_used(run, tmp_path):
    X = np.linspace(1, -1, len(DRINKS))[:, None]
    path = collect(tmp_path / "a.db", X, n=20)
    with_features = json.loads(run("--store", path, "--json")[1])
    without = json.loads(run("--store", path, "--json", "--kernel", "none")[1])
    model = PreferenceGP(levels=[-1, 0, 1], random_state=0)
    answers = read_store(path)
    model.fit(answers.X, answers.comparisons, answers.outcomes)
    order = [answers.items[i] for i in model.rank(answers.X).order]
    assert [row["item"] for row in with_features["ranking"]] == order
    assert without["log_evidence"] != with_features["log_evidence"]


def test_judges_have_their_own_reliability(run, tmp_path):
    path = collect(tmp_path / "a.db", judges=("Ann", "Bo", "Cy"), n=90)
    found = json.loads(run("--store", path, "--judge", "judge", "--json")[1])
    assert {row["judge"] for row in found["judges"]} == {"Ann", "Bo", "Cy"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--store", "{path}", "items.csv"], "no other file is read"),
        (["--store", "{path}", "--levels", "a,b"], "Leave out files"),
        (["--store", "{path}", "--judge", "who"], "is judge, but --judge is 'who'"),
        (["--store", "none.db"], "'none.db' does not exist"),
        (["--store", "{path}", "-o", "{path}"], "is the input"),
        ([], "or a file of answers with --store"),
    ],
)
def test_wrong_uses_are_named(run, tmp_path, words, message):
    path = collect(tmp_path / "a.db", n=5)
    code, _, err = run(*(word.format(path=path) for word in words))
    assert code == 2
    assert message in " ".join(err.split())


def test_a_store_without_wins_says_so(run, tmp_path):
    code, _, err = run("--store", collect(tmp_path / "a.db", n=4, tie=99))
    assert code == 2
    assert "ties" in err
    code, _, err = run("--store", collect(tmp_path / "b.db", n=0))
    assert code == 2
    assert "has no comparison" in err
