"""``ordinalgp rank``: from two files to a ranking."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

import ordinalgp

pytest.importorskip("typer")
from ordinalgp.cli.main import build

ITEMS = (
    "film,year,genre\nAlien,1979,horror\nBrazil,1985,satire\nCasablanca,1942,drama\nDune,2021,\n"
)
DUELS = "winner,loser\nCasablanca,Dune\nCasablanca,Brazil\nAlien,Brazil\nAlien,Dune\n"
GRADED = "left,right,outcome\nAlien,Dune,better\nBrazil,Alien,worse\nDune,Brazil,same\n"


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "items.csv").write_text(ITEMS)
    (tmp_path / "duels.csv").write_text(DUELS)

    def call(*args):
        with pytest.raises(SystemExit) as stopped:
            build()(["rank", *args])
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return call


def features():
    """Year scaled, genre one-hot with its gap as a value, and a feature for new values."""
    year = np.array([1979.0, 1985, 1942, 2021])
    genre = np.eye(5)[[1, 2, 0, 3]]  # drama, horror, satire, missing, new
    return np.column_stack([(year - year.mean()) / year.std(), genre])


PAIRS = [[2, 3], [2, 1], [0, 1], [0, 3]]


def test_it_equals_the_python_api(run, tmp_path):
    code, out, err = run("items.csv", "duels.csv", "-o", "ranking.csv", "--json")
    assert code == 0
    assert "Feature genre: nominal, 3 values; 1 missing -> own value" in err
    X = features()
    truth = ordinalgp.PreferenceGP(random_state=0).fit(X, PAIRS)
    told = json.loads(out)["ranking"]
    order = truth.rank(X).order
    names = np.array(["Alien", "Brazil", "Casablanca", "Dune"])
    assert [row["item"] for row in told] == names[order].tolist()
    mean, var = truth.latent_mean_and_variance(X)
    assert_allclose([row["utility"] for row in told], mean[order], rtol=0, atol=1e-12)
    assert_allclose([row["utility_sd"] for row in told], np.sqrt(var)[order], rtol=0, atol=1e-9)
    lines = (tmp_path / "ranking.csv").read_text().splitlines()
    assert lines[0] == "rank,item,utility,utility_sd,probability_best"
    assert [line.split(",")[1] for line in lines[1:]] == names[order].tolist()


def test_a_kernel_of_the_features_alone(run):
    _, out, _ = run("items.csv", "duels.csv", "--kernel", "rbf", "--json")
    truth = ordinalgp.PreferenceGP("features", random_state=0).fit(features(), PAIRS)
    told = [row["utility"] for row in json.loads(out)["ranking"]]
    assert_allclose(told, sorted(truth.predict(features()), reverse=True), rtol=0, atol=1e-12)


def test_without_features_and_with_grades(run, tmp_path):
    (tmp_path / "graded.csv").write_text(GRADED)
    grades = ["--outcome", "outcome", "--levels", "worse,same,better"]
    code, out, _ = run("items.csv", "graded.csv", "--kernel", "none", *grades)
    assert code == 0
    assert out.splitlines()[4].split()[:2] == ["1", "Alien"]
    truth = ordinalgp.PreferenceGP("independent", levels=["worse", "same", "better"])
    names = ["Alien", "Brazil", "Casablanca", "Dune"]
    pairs = [["Alien", "Dune"], ["Brazil", "Alien"], ["Dune", "Brazil"]]
    truth.fit(names, pairs, ["better", "worse", "same"])
    assert f"{truth.predict(['Alien'])[0]:.3f}" in out


def test_bad_comparisons_are_named(run, tmp_path):
    (tmp_path / "bad.csv").write_text(
        "a,b,o\nAlien,Dune,1\nBrazil,Nemo,-1\nDune,Dune,1\n,Dune,1\nDune,Brazil,x\nDune,Brazil,0\n"
    )
    code, _, err = run("items.csv", "bad.csv", "--outcome", "o")
    assert code == 2
    assert "line 3, column b: there is no item 'Nemo'" in err
    assert "line 4, column b: an item cannot be compared with itself" in err
    assert "line 5, column a: the item is missing" in err
    assert "line 6, column o: 'x' is not a number" in err
    code, _, err = run("items.csv", "bad.csv", "--outcome", "o", "--on-bad-rows", "skip")
    assert code == 0
    assert "4 bad rows of bad.csv were skipped" in err


def test_bad_items_are_named(run, tmp_path):
    (tmp_path / "twice.csv").write_text(ITEMS + "Alien,1,drama\n,2,drama\n")
    code, _, err = run("twice.csv", "duels.csv")
    assert code == 2
    assert "line 6, column film: 'Alien' was named before" in err
    assert "line 7, column film: the name is missing" in err
    assert "no column 'title'" in run("items.csv", "duels.csv", "--name", "title")[2]
    assert "There is no file no.csv" in run("items.csv", "no.csv")[2]


def test_help_has_an_example(run):
    code, out, _ = run("--help")
    assert code == 0
    assert "Example: ordinalgp rank items.csv comparisons.csv" in " ".join(out.split())
