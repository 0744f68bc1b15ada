"""``ordinalgp rate``, ``recommend``, and ``predict`` and ``report`` of its models."""

import csv
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

import ordinalgp
from ordinalgp import CollaborativeOrdinalGP

pytest.importorskip("typer")
from ordinalgp.cli.main import build


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*args):
        with pytest.raises(SystemExit) as stopped:
            build()(list(args))
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return call


def ratings(n=12, m=8, seed=0):
    rng = np.random.default_rng(seed)
    appeal, shift = np.linspace(-1.5, 1.5, m), 0.5 * rng.normal(size=n)
    rows = []
    for j in range(n):
        for i in rng.permutation(m)[: m - 2]:
            value = appeal[i] + shift[j] + 0.5 * rng.normal()
            rows.append((f"r{j}", f"i{i}", int(np.digitize(value, [-1, 0, 1])) + 1))
    return rows


def write(path, rows, head="user,movie,stars"):
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def model(run, tmp_path):
    write(tmp_path / "ratings.csv", ratings())
    code, _, err = run("rate", "ratings.csv", "-o", "model.ogp")
    assert code == 0, err
    return tmp_path / "model.ogp"


def test_it_equals_the_python_api(run, tmp_path):
    rows = ratings()
    write(tmp_path / "ratings.csv", rows)
    files = ["--items", "items.csv", "--raters", "raters.csv"]
    code, out, err = run("rate", "ratings.csv", *files, "--json")
    assert code == 0, err
    assert "rater in user, item in movie, rating in stars" in err
    told = json.loads(out)
    truth = CollaborativeOrdinalGP().fit(*zip(*rows, strict=True))
    assert told["log_evidence"] == pytest.approx(truth.log_evidence_path_[-1])
    summary = truth.item_summary()
    assert [row["item"] for row in told["items"]] == summary.items.tolist()
    assert_allclose([row["expected"] for row in told["items"]], summary.expected)
    assert told["items"][0]["item"] == "i7"
    assert [row["item"] for row in table(tmp_path / "items.csv")] == summary.items.tolist()
    written = table(tmp_path / "raters.csv")
    assert sum(int(row["ratings"]) for row in written) == len(rows)
    shares = [sum(float(row[f"p_{level}"]) for level in (1, 2, 3, 4)) for row in written]
    assert_allclose(shares, 1.0)
    saved = ordinalgp.load(tmp_path / "model.ogp")
    assert_allclose(saved.covariance_, truth.covariance_, rtol=1e-10)


def test_words_and_named_columns(run, tmp_path):
    words = np.array(["bad", "fair", "good", "great"])
    rows = [(item, rater, words[level - 1], "x") for rater, item, level in ratings()]
    write(tmp_path / "words.csv", rows, "thing,who,verdict,note")
    named = ["--rater", "who", "--item", "thing", "--rating", "verdict"]
    code, out, err = run("rate", "words.csv", *named, "--categories", "bad,fair,good,great")
    assert code == 0, err
    assert "Not used: note" in err
    assert "72 ratings, 12 raters, 8 items; full covariance" in out
    code, _, err = run("rate", "words.csv")
    assert code == 2
    assert "Say it with --rater NAME" in err


def test_tastes(run, tmp_path):
    write(tmp_path / "ratings.csv", ratings(n=100))
    code, out, _ = run("rate", "ratings.csv", "--rank", "2", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["rank"] == 2
    assert "2" in told["left_out_log_score"]
    assert run("rate", "ratings.csv", "--rank", "many")[0] == 2


def test_predict(run, model, tmp_path):
    write(tmp_path / "pairs.csv", [("r1", "i2"), ("r3", "i7")], "user,movie")
    code, out, _ = run("predict", str(model), "pairs.csv", "-o", "out.csv")
    assert code == 0
    assert "2 ratings predicted" in out
    rows, fitted = table(tmp_path / "out.csv"), ordinalgp.load(model)
    assert [int(row["level"]) for row in rows] == fitted.predict(
        ["r1", "r3"], ["i2", "i7"]
    ).tolist()
    proba = fitted.category_proba(["r1", "r3"], ["i2", "i7"])
    told = [[float(row[f"p_{level}"]) for level in (1, 2, 3, 4)] for row in rows]
    assert_allclose(told, proba, rtol=1e-6)
    assert all(int(row["lower"]) <= int(row["level"]) <= int(row["upper"]) for row in rows)
    lines = run("predict", str(model), "pairs.csv", "--json")[1].splitlines()
    assert json.loads(lines[0])["user"] == "r1"


def test_unknown_raters_and_items_are_named_by_line(run, model, tmp_path):
    write(tmp_path / "pairs.csv", [("r1", "i2"), ("nobody", "i7"), ("r2", "nothing")], "user,movie")
    code, _, err = run("predict", str(model), "pairs.csv")
    assert code == 2
    assert "line 3, column user: 'nobody' is not known to the model" in err
    assert "line 4, column movie: 'nothing' is not known" in err
    code, out, _ = run("predict", str(model), "pairs.csv", "--on-bad-rows", "skip", "--json")
    assert code == 0
    assert len(out.splitlines()) == 1


def test_recommend(run, model, tmp_path):
    fitted = ordinalgp.load(model)
    told = json.loads(run("recommend", str(model), "r1", "r2", "-n", "2", "--json")[1])
    for rater in ("r1", "r2"):
        assert [row["item"] for row in told[rater]] == fitted.recommend(rater, 2).tolist()
    code, _, err = run("recommend", str(model), "Dora")
    assert code == 2
    assert "does not know the rater 'Dora'" in err
    assert "--ratings FILE" in err
    write(tmp_path / "new.csv", [("Dora", "i0", 4), ("Dora", "i1", 4), ("r1", "i0", 1)])
    options = ["--ratings", "new.csv", "-n", "3"]
    code, out, err = run("recommend", str(model), "Dora", *options, "--json")
    assert code == 0, err
    assert "r1 is known already" in err
    best = [row["item"] for row in json.loads(out)["Dora"]]
    fitted.add_rater(["i0", "i1"], [4, 4], rater="Dora")
    assert best == fitted.recommend("Dora", 3).tolist()
    assert not {"i0", "i1"} & set(best)
    assert "For Dora" in run("recommend", str(model), "Dora", *options)[1]


def test_features_of_items(run, tmp_path):
    write(tmp_path / "ratings.csv", ratings())
    write(
        tmp_path / "items.csv",
        [(f"i{i}", i, "a" if i % 2 else "b") for i in range(10)],
        "n,size,kind",
    )
    code, out, err = run("rate", "ratings.csv", "--item-features", "items.csv", "--json")
    assert code == 0, err
    assert {row["item"] for row in json.loads(out)["items"]} == {f"i{i}" for i in range(10)}
    new = {row["item"]: row for row in json.loads(out)["items"]}
    assert new["i9"]["ratings"] == 0
    assert new["i9"]["expected"] > new["i0"]["expected"]
    write(tmp_path / "few.csv", [("i0", 1), ("i1", 2)], "n,size")
    code, _, err = run("rate", "ratings.csv", "--item-features", "few.csv")
    assert code == 2
    assert "no row for 6 of the items" in err


def test_report(run, model, tmp_path):
    code, out, _ = run("report", str(model), "-o", "report.html")
    assert code == 0
    assert "Written to report.html" in out
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for text in ("<h2>Items</h2>", "<h2>What is uncertain</h2>", "<h2>Raters</h2>", "i7", "r11"):
        assert text in page
    assert "http" not in page


def test_the_report_escapes_names(tmp_path):
    from ordinalgp.report import rating_report_html

    who, what = ["<b>", "c", "<b>", "c"], ["<script>", "<script>", "y", "y"]
    page = rating_report_html(CollaborativeOrdinalGP(tol=1.0).fit(who, what, [1, 2, 2, 3]))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_bad_ratings_are_named_by_line(run, tmp_path):
    rows = [*ratings(), ("", "i1", 3), ("r1", "", 3), ("r1", "i1", "many")]
    write(tmp_path / "bad.csv", rows)
    n = len(rows)
    code, _, err = run("rate", "bad.csv")
    assert code == 2
    assert f"line {n - 1}, column user: is missing" in err
    assert f"line {n}, column movie: is missing" in err
    assert f"line {n + 1}, column stars" in err
    code, out, err = run("rate", "bad.csv", "--on-bad-rows", "skip", "--json")
    assert code == 0
    assert json.loads(out)["ratings"] == n - 3
    assert "Skipped 3 bad rows" in err


def test_models_of_another_kind(run, model, tmp_path):
    ordinalgp.OrdinalGPClassifier().fit([[0.0], [1.0], [2.0]], [0, 1, 1]).save(tmp_path / "gp.ogp")
    code, _, err = run("recommend", "gp.ogp", "r1")
    assert code == 2
    assert "a model of raters is needed" in err
    code, _, err = run("evaluate", str(model), "ratings.csv")
    assert code == 2
    assert "CollaborativeOrdinalGP" in err
