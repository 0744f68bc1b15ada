"""``ordinalgp rank votes.csv``: judges, counts, models that go on, and unusable votes."""

import csv
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

import ordinalgp

pytest.importorskip("typer")
from ordinalgp.cli.main import build


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*args):
        with pytest.raises(SystemExit) as stopped:
            build()(["rank", *args])
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return call


def votes(m=600, n=8, seed=0):
    """Rows of (left, right, outcome, judge): the last of four judges is careless."""
    rng = np.random.default_rng(seed)
    f = np.linspace(-1.5, 1.5, n)
    left = rng.integers(0, n, m)
    right = (left + rng.integers(1, n, m)) % n
    judge = rng.integers(0, 4, m)
    noise = np.array([0.7, 0.7, 0.7, 8.0])[judge]
    u = f[left] - f[right] + noise * rng.normal(size=m)
    words = np.array(["loss", "draw", "win"])[np.digitize(u, [-0.3, 0.3])]
    rows = zip(left.tolist(), right.tolist(), words.tolist(), judge.tolist(), strict=True)
    return [(f"m{a}", f"m{b}", word, f"judge {j}") for a, b, word, j in rows]


def write(path, rows, head="item_a,item_b,result,judge"):
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def fitted(rows, **options):
    """The same from Python."""
    left, right, words, judge = zip(*rows, strict=True)
    names = list(dict.fromkeys([*left, *right]))
    codes = [{"loss": -1, "draw": 0, "win": 1}[word] for word in words]
    pairs = list(zip(left, right, strict=True))
    who = {"judges": judge} if options.pop("judged", False) else {}
    model = ordinalgp.PreferenceGP("independent", random_state=0, **options)
    return names, model.fit(names, pairs, codes, **who)


def test_judges_are_reported(run, tmp_path):
    rows = votes()
    write(tmp_path / "votes.csv", rows)
    options = ["--judge", "judge", "--judge-table", "judges.csv"]
    code, out, err = run("votes.csv", *options, "--json")
    assert code == 0, err
    told = json.loads(out)
    names, model = fitted(rows, judged=True)
    found = model.judge_reliability()
    assert [row["judge"] for row in told["judges"]] == found.judges.tolist()
    assert told["judges"][-1]["judge"] == "judge 3"
    assert_allclose([row["noise_factor"] for row in told["judges"]], found.factor, rtol=1e-9)
    written = table(tmp_path / "judges.csv")
    assert [row["judge"] for row in written] == found.judges.tolist()
    assert sum(int(row["votes"]) for row in written) == 600
    utilities = {row["item"]: row["utility"] for row in told["ranking"]}
    assert_allclose([utilities[name] for name in names], model.predict(names), rtol=1e-9)
    code, out, _ = run("votes.csv", *options)
    assert "noise in units of the typical judge's" in out


def test_counts_are_copies(run, tmp_path):
    rows = [row[:3] for row in votes(m=80)]
    often = np.random.default_rng(1).integers(0, 4, 80)
    repeated = [row for row, count in zip(rows, often, strict=True) for _ in range(count)]
    write(tmp_path / "once.csv", repeated, "item_a,item_b,result")
    counted = [(*row, count) for row, count in zip(rows, often, strict=True)]
    write(tmp_path / "counted.csv", counted, "item_a,item_b,result,times")
    one, two = (
        json.loads(run(*args, "--json")[1])
        for args in (["once.csv"], ["counted.csv", "--count", "times"])
    )
    assert one["comparisons"] == two["comparisons"] == int(often.sum())
    told = [
        {r["item"]: (r["utility"], r["comparisons"]) for r in each["ranking"]}
        for each in (one, two)
    ]
    for name, (utility, number) in told[0].items():
        assert told[1][name] == (pytest.approx(utility, abs=1e-6), number)


def test_votes_are_added_to_a_model(run, tmp_path):
    rows = votes(m=500)
    new = [("m0", "newcomer", "loss", "judge 0"), ("newcomer", "m7", "loss", "judge 9")] * 5
    write(tmp_path / "first.csv", rows)
    write(tmp_path / "more.csv", new)
    write(tmp_path / "all.csv", rows + new)
    judged = ["--judge", "judge"]
    code, out, _ = run("first.csv", *judged, "--model", "league.ogp")
    assert code == 0
    assert "Saved in league.ogp" in out
    more = ["more.csv", *judged, "--start", "league.ogp", "--model", "league.ogp"]
    code, out, err = run(*more, "--json")
    assert code == 0, err
    told, whole = json.loads(out), json.loads(run("all.csv", *judged, "--json")[1])
    assert told["comparisons"] == whole["comparisons"] == 510
    assert told["rows"] == 10
    one, two = ({r["item"]: r["utility"] for r in each["ranking"]} for each in (told, whole))
    assert one.keys() == two.keys()
    assert_allclose([one[k] for k in two], list(two.values()), atol=0.02)
    names = ordinalgp.load(tmp_path / "league.ogp").items_
    assert names[-1] == "newcomer"


def test_a_model_that_cannot_go_on(run, tmp_path):
    write(tmp_path / "votes.csv", votes(m=60))
    ordinalgp.OrdinalGPClassifier().fit([[0.0], [1.0], [2.0]], [0, 1, 1]).save(tmp_path / "gp.ogp")
    assert run("votes.csv", "--model", "plain.ogp")[0] == 0
    X = [[0.0], [1.0]]
    ordinalgp.PreferenceGP("features").fit(X, [[1, 0]]).save(tmp_path / "features.ogp")
    for options, message in [
        (["--start", "gp.ogp"], "needs a model of comparisons"),
        (["--start", "features.ogp"], "without features"),
        (["--start", "plain.ogp", "--position-bias"], "was fitted without"),
        (["--start", "plain.ogp", "--judge", "judge"], "always or never"),
        (["--judge", "nobody"], "no column 'nobody' for --judge"),
        (["--count", "nothing"], "no column 'nothing' for --count"),
        (["--judge-table", "judges.csv"], "needs --judge"),
    ]:
        code, _, err = run("votes.csv", *options)
        assert code == 2, options
        assert message in err


def test_bad_judges_and_counts_are_named_by_line(run, tmp_path):
    rows = [("a", "b", "x", 1), ("b", "c", "", 1), ("a", "c", "x", -2), ("a", "b", "y", "many")]
    write(tmp_path / "bad.csv", rows, "winner,loser,who,times")
    options = ["bad.csv", "--judge", "who", "--count", "times"]
    code, _, err = run(*options)
    assert code == 2
    assert "line 3, column who: the judge is missing" in err
    assert "line 4, column times: '-2'" in err
    assert "line 5, column times: 'many'" in err
    code, out, err = run(*options, "--on-bad-rows", "skip", "--json")
    assert code == 0
    assert json.loads(out)["comparisons"] == 1
    assert "Skipped 3 bad rows" in err


def test_two_islands_are_said(run, tmp_path):
    write(tmp_path / "islands.csv", [("a", "b"), ("b", "c"), ("x", "y")] * 3, "winner,loser")
    code, out, _ = run("islands.csv")
    assert code == 0
    assert "2 sets that were never compared" in out
    assert "on the prior alone" in out
    told = json.loads(run("islands.csv", "--json")[1])
    assert told["never_compared"] == [["a", "b", "c"], ["x", "y"]]
    write(tmp_path / "joined.csv", [("a", "b"), ("b", "c"), ("x", "y"), ("c", "x")], "winner,loser")
    assert json.loads(run("joined.csv", "--json")[1])["never_compared"] == []


def test_an_item_that_never_lost_has_a_place(run, tmp_path):
    rows = [("best", name) for name in "abc"] * 40 + [("a", "b"), ("b", "c"), ("c", "a")] * 20
    write(tmp_path / "votes.csv", rows, "winner,loser")
    code, out, _ = run("votes.csv", "--json")
    assert code == 0
    first = json.loads(out)["ranking"][0]
    assert first["item"] == "best"
    assert np.isfinite(first["utility"])
    assert first["rank_high"] == 1
    assert first["utility"] < 20


def test_a_judge_with_one_vote(run, tmp_path):
    rows = votes(m=200)
    rows[5] = (*rows[5][:3], "once")
    write(tmp_path / "votes.csv", rows)
    told = json.loads(run("votes.csv", "--judge", "judge", "--json")[1])
    once = next(row for row in told["judges"] if row["judge"] == "once")
    assert once["votes"] == 1
    assert once["factor_low"] < 1 < once["factor_high"]


def test_one_broken_line_among_many(run, tmp_path):
    rows = votes(m=20_000)
    rows[12_344] = ("m1", "m2", "perhaps", "judge 0")
    rows[15_000] = ("m1", "m1", "win", "judge 0")
    write(tmp_path / "votes.csv", rows)
    code, _, err = run("votes.csv")
    assert code == 2
    assert "line 12346, column result: 'perhaps' is not an outcome" in err
    assert "line 15002, column item_b: an item cannot be compared with itself" in err
    code, out, _ = run("votes.csv", "--on-bad-rows", "skip", "--json")
    assert code == 0
    assert json.loads(out)["comparisons"] == 19_998
