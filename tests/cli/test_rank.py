"""``ordinalgp rank``: from two files to a ranking."""

import json
import re
import shlex

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF

import ordinalgp
from ordinalgp.kernels import PerColumn
from papers.data import DataUnavailableError, data_folder

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
    columns = "rank,item,utility,utility_sd,rank_low,rank_high,group,probability_best,comparisons"
    assert lines[0] == columns
    assert [line.split(",")[1] for line in lines[1:]] == names[order].tolist()


def test_a_kernel_of_the_features_alone(run):
    _, out, _ = run("items.csv", "duels.csv", "--kernel", "rbf", "--json")
    truth = ordinalgp.PreferenceGP("features", random_state=0).fit(features(), PAIRS)
    told = [row["utility"] for row in json.loads(out)["ranking"]]
    assert_allclose(told, sorted(truth.predict(features()), reverse=True), rtol=0, atol=1e-12)


def test_a_length_scale_per_column_of_the_items(run):
    """The year and the genre: two length scales, not one for each of six features."""
    _, out, _ = run("items.csv", "duels.csv", "--kernel", "ard", "--json")
    kernel = PerColumn(RBF(np.full(2, np.sqrt(2)), (1e-3, 1e5)), [0, 1, 1, 1, 1, 1])
    truth = ordinalgp.PreferenceGP(kernel, random_state=0).fit(features(), PAIRS)
    told = [row["utility"] for row in json.loads(out)["ranking"]]
    assert_allclose(told, sorted(truth.predict(features()), reverse=True), rtol=0, atol=1e-10)


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
    assert "Skipped 4 bad rows of bad.csv:" in err


def test_bad_items_are_named(run, tmp_path):
    (tmp_path / "twice.csv").write_text(ITEMS + "Alien,1,drama\n,2,drama\n")
    code, _, err = run("twice.csv", "duels.csv")
    assert code == 2
    assert "line 6, column film: 'Alien' was named before" in err
    assert "line 7, column film: the name is missing" in err
    assert "no column 'title'" in run("items.csv", "duels.csv", "--name", "title")[2]
    assert "There is no file no.csv" in run("items.csv", "no.csv")[2]


# ------------------------------------------------------------------------------- outcomes

# Alien beats Dune from the left and Brazil from the right; Dune and Brazil tie, or Dune wins.
READABLE = {
    "-1, 0, 1": ("left,right,target", "1", "-1", "0"),
    "0, 0.5, 1": ("item_a,item_b,target", "1.0", "0.0", "0.5"),
    "words": ("item a,item b,result", "Left", "right", "tie"),
    "results": ("left,right,outcome", "win", "loss", "draw"),
    "letters": ("left,right,outcome", "a", "b", "tie"),
    "answers": ("left,right,choice", "yes", "no", "tie"),
    "sides": ("home,away,result", "home", "away", "draw"),
    "the winner": ("left,right,winner", "Alien", "Alien", "tie"),
    "the winner, in any column": ("left,right,note", "Alien", "Alien", "draw"),
    "grades": ("left,right,outcome", "2", "-1", "0"),
}


def votes(header, *outcomes):
    pairs = ("Alien,Dune", "Brazil,Alien", "Dune,Brazil")
    rows = [f"{pair},{outcome}" for pair, outcome in zip(pairs, outcomes, strict=True)]
    return "\n".join([header, *rows, ""])


@pytest.mark.parametrize("name", READABLE)
def test_outcomes_are_read_as_people_write_them(run, tmp_path, name):
    header, *outcomes = READABLE[name]
    (tmp_path / "votes.csv").write_text(votes(header, *outcomes))
    code, out, err = run("votes.csv", "--json")
    assert code == 0, err
    assert "Read 1 left, 1 ties, 1 right, 3 items." in err
    told = json.loads(out)
    assert told["outcomes"]["column"] == header.split(",")[2]
    assert f"outcomes in {header.split(',')[2]}: " in err
    assert [told["outcomes"][side] for side in ("left", "ties", "right")] == [1, 1, 1]
    assert told["ranking"][0]["item"] == "Alien"


def test_the_winners_name_may_be_a_number(run, tmp_path):
    (tmp_path / "votes.csv").write_text("a,b,vote\n1,2,2\n2,3,2\n3,1,1\n7,2,2\n")
    code, out, err = run("votes.csv", "--json")
    assert code == 0
    assert "Read 1 left, 0 ties, 3 right, 4 items." in err
    assert json.loads(out)["ranking"][0]["item"] == "2"


def offered(err):
    """Options that an error offers, as a shell reads them."""
    lines = [line for line in err.splitlines() if line.startswith("  ")]
    return [shlex.split(line[line.index("--") :]) for line in lines]


@pytest.mark.parametrize("column", ["target", "my result; $HOME", "-x"])
def test_wins_of_the_right_that_never_occur_are_a_question(run, tmp_path, column):
    rows = "".join(f"Alien,Dune,{k % 2}\n" for k in range(9)) + "Dune,Brazil,0\n"
    (tmp_path / "votes.csv").write_text(f"left,right,{column}\n{rows}")
    code, out, err = run("votes.csv")
    assert (code, out) == (2, "")
    if column == "target":
        assert "The column target has 6 x 0, 4 x 1, but never -1." in err
    right, tie = offered(err)[:2]
    assert right[-2:] == ["--levels", "0,1"]
    assert "Read 4 left, 0 ties, 6 right, 3 items." in run("votes.csv", *right)[2]
    assert "Read 4 left, 6 ties, 0 right, 3 items." in run("votes.csv", *tie)[2]


@pytest.mark.parametrize(
    ("text", "message", "n_ways"),
    [
        (votes("left,right,x", "1", "-1", "0"), "but x may be", 2),
        (votes("left,right,at home", "0", "1", "0"), "at home may be", 3),
        (votes("left,right,mobile", "yes", "no", "no"), "but mobile may be", 2),
        (votes("winner,loser,outcome", "1", "-1", "1"), "but outcome may be", 2),
        (votes("left,right,outcome", "L", "L", "tie"), "Which is meant?", 2),
        (votes("left,right,outcome", "1", "2", "1"), "Which means that the left", 3),
        (votes("left,right,outcome", "gut", "schlecht", "gut"), "meaning is not known", 1),
        (votes("left,right,result", "2-1", "0-1", "1-1"), "meaning is not known", 1),
    ],
)
def test_doubtful_columns_are_a_question_with_answers(run, tmp_path, text, message, n_ways):
    (tmp_path / "votes.csv").write_text(text)
    code, out, err = run("votes.csv")
    assert (code, out) == (2, "")
    assert message in err
    assert "levels=" not in err.replace("--levels=", "")
    ways = offered(err)
    assert len(ways) == n_ways
    for way in ways:
        code, _, err = run("votes.csv", *way)
        assert code == 0, err
    assert "--outcome none" in err or run("votes.csv", "--outcome", "none")[0] == 0


@pytest.mark.parametrize(
    ("table", "asked", "n_ways"),
    [
        ("links,rechts,wer\n" + "a,b,links gut\nb,c,rechts gut\n" * 3, "wer may be", 3),
        (
            "home,away,goals,against\n" + "a,b,0,2\nb,c,3,1\nc,a,2,3\n" * 3,
            "goals, against may be",
            3,
        ),
    ],
)
def test_a_column_of_few_values_is_not_passed_over(table, asked, n_ways, run, tmp_path):
    """That the left item was preferred each time would be a wrong guess, without a word."""
    (tmp_path / "votes.csv").write_text(table)
    code, out, err = run("votes.csv")
    assert (code, out) == (2, "")
    assert asked in err
    assert ("scores of the two sides" in err) == ("goals" in table)
    ways = re.findall(r":  +(--outcome.*)", err)
    assert len(ways) == n_ways
    for way in ways:
        code, _, err = run("votes.csv", *shlex.split(way))
        assert code == 0, err


def test_columns_that_are_not_used_are_named(run, tmp_path):
    (tmp_path / "votes.csv").write_text("judge,day,winner,loser\n7,1,Alien,Dune\n8,1,Dune,Brazil\n")
    code, out, err = run("items.csv", "votes.csv", "--kernel", "none", "--json")
    assert code == 0
    assert "left item in winner, right item in loser; column winner has the preferred item" in err
    assert "Columns of votes.csv that are not used: judge, day." in err
    assert "Columns of items.csv that are not used: year, genre." in err
    told = json.loads(out)
    assert told["unused_columns"] == {"items": ["year", "genre"], "comparisons": ["judge", "day"]}
    assert told["outcomes"]["column"] is None
    assert (told["items"], told["comparisons"], told["outcomes"]["left"]) == (4, 2, 2)
    _, out, err = run("items.csv", "votes.csv", "--drop", "genre", "--json")
    assert "Columns of items.csv that are not used: genre." in err


def test_items_are_found_in_the_comparisons(run, tmp_path):
    """Columns without telling names: those that hold the items."""
    (tmp_path / "votes.csv").write_text("judge,one,two\n7,Alien,Dune\n8,Dune,Brazil\n")
    _, _, err = run("items.csv", "votes.csv")
    assert "left item in one, right item in two" in err


def test_without_a_file_of_items_names_are_those_compared(run):
    code, out, _ = run("duels.csv", "--json")
    assert code == 0
    with_items = run("items.csv", "duels.csv", "--kernel", "none", "--json")[1]
    ours, theirs = (json.loads(text)["ranking"] for text in (out, with_items))
    known = {row["item"]: row["utility"] for row in theirs}
    assert {row["item"] for row in ours} == set(known)
    for row in ours:
        assert_allclose(row["utility"], known[row["item"]], rtol=0, atol=1e-6)
    assert "does not look like comparisons" in run("items.csv")[2]
    assert "--kernel is about a file of items" in run("duels.csv", "--kernel", "rbf")[2]


def test_comparisons_that_order_nothing_are_refused_in_words_of_the_command_line(run, tmp_path):
    (tmp_path / "votes.csv").write_text(votes("left,right,outcome", "0", "0", "0"))
    _, _, err = run("votes.csv", "--levels=-1,0,1")
    assert "All 3 comparisons of votes.csv are ties (-1 = right, 0 = tie, 1 = left)" in err
    assert "--levels" in err
    assert "at least two different outcomes" in run("votes.csv", "--levels", "0,0")[2]
    assert "no columns of votes.csv hold only these" in run("votes.csv", "--levels", "3,4")[2]
    assert "no column 'x' for --outcome" in run("votes.csv", "--outcome", "x")[2]
    (tmp_path / "votes.csv").write_text("left,right\nAlien,Alien\n")
    _, _, err = run("items.csv", "votes.csv", "--on-bad-rows", "skip")
    assert "no comparison that can be used" in err


def test_an_unfinished_fit_says_what_to_do(run):
    code, out, err = run("duels.csv", "--max-sweeps", "1", "--json")
    assert code == 0
    assert json.loads(out)["converged"] is False
    assert "NOT converged after 1 sweeps. Allow more sweeps: --max-sweeps 10." in err
    assert "max_sweeps" not in err


# Counts of 1, 0.5 and 0 in the files, by grep.
PAIR_FILES = {"cems": (2595, 487, 1372), "icehockey": (366, 125, 592), "football": (882, 505, 513)}


@pytest.mark.data
@pytest.mark.parametrize("name", PAIR_FILES)
def test_benchmark_files_just_work(run, name):
    try:
        path = data_folder() / f"{name}_pairs.csv"
    except DataUnavailableError as error:
        pytest.skip(str(error))
    code, out, err = run(str(path), "--json")
    assert code == 0
    told = json.loads(out)
    assert tuple(told["outcomes"][side] for side in ("left", "ties", "right")) == PAIR_FILES[name]
    assert "outcomes in target: 1 = left, 0.5 = tie, 0 = right" in err


def test_help_has_an_example(run):
    code, out, _ = run("--help")
    assert code == 0
    assert "Example: ordinalgp rank items.csv comparisons.csv" in " ".join(out.split())


# -------------------------------------------------------------------------------- leaderboard


@pytest.fixture
def league(tmp_path):
    """Six teams of known strength, the home side listed first."""
    rng = np.random.default_rng(3)
    strength = np.array([2.0, 1.9, 1.0, 0.0, -1.0, -2.0])
    home, away = rng.integers(0, 6, (2, 500))
    home, away = home[home != away], away[home != away]
    margin = strength[home] - strength[away] + 0.5 + rng.normal(size=len(home))
    word = np.where(np.abs(margin) < 0.3, "draw", np.where(margin > 0, "win", "loss"))
    lines = [f"{'ABCDEF'[h]},{'ABCDEF'[a]},{w}" for h, a, w in zip(home, away, word, strict=True)]
    (tmp_path / "games.csv").write_text("home,away,result\n" + "\n".join(lines) + "\n")
    return len(lines)


def test_a_leaderboard_has_intervals_groups_and_votes(run, tmp_path, league):
    options = ["--position-bias", "--next", "2", "--coverage", "0.8", "--plot", "board.png"]
    code, out, err = run("games.csv", "--json", *options)
    assert code == 0, err
    told = json.loads(out)
    rows = told["ranking"]
    assert {row["item"] for row in rows[:2]} == {"A", "B"}
    assert [row["group"] for row in rows] == [1, 1, 2, 3, 4, 5]
    assert all(row["rank_low"] <= row["rank"] <= row["rank_high"] for row in rows)
    assert sum(row["comparisons"] for row in rows) == 2 * league
    low, high = told["position_bias"]["interval"]
    assert 0 < low < told["position_bias"]["advantage"] < high
    assert told["position_bias"]["against_equal"]["wins"] > 0.5
    assert len(told["ask_next"]) == 2
    assert (tmp_path / "board.png").stat().st_size > 10_000


def test_the_printed_leaderboard_explains_its_columns(run, league):
    code, out, _ = run("games.csv", "--position-bias", "--next", "1")
    assert code == 0
    assert "Left side: advantage +0." in out
    assert "Against an equal item it wins with probability" in out
    assert "ranks: the item's rank lies between these with probability 90%" in out
    assert "To ask next:\n" in out


def test_wrong_options_of_a_leaderboard_stop_before_the_fit(run, tmp_path, league):
    for options, words in (
        (["--next", "16"], "asks for more pairs than the 15 that 6 items have"),
        (["--coverage", "1.5"], "--coverage must be between 0 and 1"),
        (["--plot", "board.doc"], "the name must end in one of"),
        (["--plot", "games.csv"], "games.csv"),
    ):
        code, _, err = run("games.csv", *options)
        assert code == 2
        assert words in " ".join(err.split())
    many = "\n".join(f"a{i},b{i}" for i in range(501))
    (tmp_path / "many.csv").write_text(f"winner,loser\n{many}\n")
    assert "at most 1,000 items, but there are 1,002" in run("many.csv", "--next", "1")[2]
