"""Monotone columns of tables, in Python and on the command line."""

import json

import numpy as np
import pytest
from tests.table_cases import write_csv

import ordinalgp
from ordinalgp import OrdinalGPClassifier, StackedOrdinalGP
from ordinalgp.tables import TableModel

LEVELS = ["low", "mid", "high"]


def trial(n=50, seed=0):
    """Levels that rise with dose and fall with age; doses have gaps."""
    rng = np.random.default_rng(seed)
    dose, age = rng.uniform(0, 10, n).round(1), rng.normal(50, 12, n).round()
    f = 0.4 * (dose - 5) - 0.05 * (age - 50) + 0.7 * rng.normal(size=n)
    known = [None if i % 10 == 0 else float(value) for i, value in enumerate(dose)]
    columns = {"dose": known, "age": age.tolist(), "sex": rng.choice(["f", "m"], n).tolist()}
    return columns, np.array(LEVELS)[np.digitize(f, [-0.7, 0.7])]


def along(columns, name, values):
    """One row of the table, with many values of a column."""
    return {key: [cells[1]] * len(values) for key, cells in columns.items()} | {name: values}


def test_columns_are_monotone_on_their_own_scale():
    columns, y = trial()
    gp = OrdinalGPClassifier(categories=LEVELS)
    model = TableModel(gp, kernel="additive", monotone={"dose": 1, "age": -1}).fit(columns, y)
    doses = along(columns, "dose", np.linspace(-5, 15, 300).tolist())
    ages = along(columns, "age", np.linspace(0, 110, 300).tolist())
    assert np.diff(model.latent_mean_and_variance(doses)[0]).min() > -1e-7
    assert np.diff(model.latent_mean_and_variance(ages)[0]).max() < 1e-7
    assert model.classifier_.monotone[0] == 1
    assert model.effects(columns).mean.shape == (50, 3)


def test_the_default_classifier_is_additive():
    columns, y = trial()
    codes = [LEVELS.index(level) for level in y]
    model = TableModel(monotone={"dose": 1}).fit(columns, codes)
    assert isinstance(model.classifier_, OrdinalGPClassifier)
    assert "Additive" in str(model.classifier_.kernel_)
    with pytest.raises(ValueError, match="StackedOrdinalGP has no monotone columns"):
        TableModel(StackedOrdinalGP(), monotone={"dose": 1}).fit(columns, codes)


def test_ordered_columns_have_a_direction():
    pd = pytest.importorskip("pandas")
    columns, y = trial()
    grades = np.array(["weak", "fair", "strong"])[np.digitize(columns["age"], [45, 55])]
    frame = pd.DataFrame(
        {"grade": pd.Categorical(grades, ["weak", "fair", "strong"], ordered=True)}
    )
    model = TableModel(monotone={"grade": 1}, categories=LEVELS).fit(frame, y)
    free = TableModel(kernel="additive", categories=LEVELS).fit(frame, y)
    values = {"grade": ["weak", "fair", "strong"]}
    rising, falling = (each.latent_mean_and_variance(values)[0] for each in (model, free))
    assert np.all(np.diff(rising) > 0)
    assert falling[2] < falling[0]  # the levels fall with age


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    pytest.importorskip("typer")
    from ordinalgp.cli.main import build

    monkeypatch.chdir(tmp_path)
    columns, y = trial()
    write_csv(tmp_path / "trial.csv", columns | {"outcome": y.tolist()})

    def call(*options):
        order = ["--target", "outcome", "--categories", ",".join(LEVELS)]
        with pytest.raises(SystemExit) as stopped:
            build()(["fit", "trial.csv", *order, *options])
        return stopped.value.code or 0, *capsys.readouterr()

    return call


def test_the_command_line_says_whether_the_data_object(run):
    code, out, _ = run("--increasing", "dose,age")
    assert code == 0
    assert "dose is increasing: the data do not object (log Bayes factor" in out
    assert "age is increasing: the data object (log Bayes factor -" in out
    assert "--kernel ard" not in out  # which would not go together
    loaded = ordinalgp.load("model.ogp")
    assert loaded.monotone == {"dose": 1, "age": 1}
    assert np.diff(loaded.latent_mean_and_variance(along(*_ages()))[0]).min() > -1e-7


def _ages():
    return trial()[0], "age", np.linspace(20, 90, 200).tolist()


def test_both_directions_as_json(run):
    code, out, _ = run("--increasing", "dose", "--decreasing", "age", "--json")
    assert code == 0
    found = json.loads(out)["monotone"]
    assert [(each["column"], each["direction"]) for each in found] == [
        ("dose", "increasing"),
        ("age", "decreasing"),
    ]
    assert not any(each["data_object"] for each in found)
    assert json.loads(run("--kernel", "additive", "--json")[1])["monotone"] is None


def test_a_column_with_a_direction_is_a_feature_even_if_it_numbers_the_rows(run, tmp_path):
    columns, y = trial()
    table = columns | {"week": list(range(1, len(y) + 1)), "outcome": y.tolist()}
    write_csv(tmp_path / "trial.csv", table)
    code, out, err = run("--increasing", "week", "--folds", "0")
    assert (code, "week" in out, "left out" in err) == (0, True, False)
    assert "Column week numbers the rows: left out" in run("--kernel", "rbf", "--folds", "0")[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--increasing", "dose", "--decreasing", "dose"), "dose is in --increasing and in"),
        (("--increasing", "sex"), "sex: a nominal column has no order"),
        (("--increasing", "height"), "height: no such column. There are dose, age, sex."),
        (("--increasing", "dose", "--model", "auto"), "need --model gp, but --model auto"),
        (("--increasing", "dose", "--kernel", "ard"), "--kernel linear, but --kernel ard"),
    ],
)
def test_errors_speak_of_options(options, message, run):
    code, _, err = run(*options)
    assert code == 2
    assert message in " ".join(err.split())


def test_too_many_rows(run, monkeypatch):
    few = ordinalgp.OrdinalGPClassifier.many_rows_settings.__class__(exact_rows=40)
    monkeypatch.setattr(ordinalgp.OrdinalGPClassifier, "many_rows_settings", few)
    code, _, err = run("--increasing", "dose")
    assert code == 2
    assert "take at most 40 rows, but the table has 50" in " ".join(err.split())
