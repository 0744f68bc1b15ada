"""fetch_benchmark: the local folder, OpenML over a local server, and what can go wrong."""

import gzip
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from urllib.parse import urlparse
from urllib.request import Request, urlopen

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from papers import data as papers_data
from papers.data import (
    OPENML,
    DataUnavailableError,
    Listed,
    data_folder,
    equal_width_labels,
    fetch_benchmark,
)
from papers.runner import DATASETS

# ------------------------------------------------------------------------------ the folder


def write_set(folder, *, rows="1.5,a,7,10\n,b,8,12.5\n2.5,,9,20\n", n_rows=3):
    content = f"x,colour,who,target\n{rows}".encode()
    facts = {
        "name": "toy",
        "file": "toy.csv",
        "n_rows": n_rows,
        "n_features": 3,
        "nominal": ["colour", "who"],
        "id_columns": ["who"],
        "target_kind": "continuous",
        "partitions": ["partitions/toy_labels.csv", "partitions/toy_splits_5bins.csv"],
        "aux": ["toy_items.csv", "README.txt"],
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    (folder / "partitions").mkdir(exist_ok=True)
    (folder / "toy.csv").write_bytes(content)
    (folder / "toy_items.csv").write_text("item,weight\nA,3\n")
    (folder / facts["partitions"][0]).write_text("row,label_5,label_10\n0,1,1\n1,2,3\n2,5,9\n")
    (folder / facts["partitions"][1]).write_text("split_1,split_2\n1,0\n0,1\n1,1\n")
    (folder / "datasets.json").write_text(json.dumps({"datasets": [facts]}))


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No local folder: neither in the environment nor beside the project."""
    monkeypatch.delenv("ORDINALGP_DATA", raising=False)
    monkeypatch.setattr(papers_data, "BESIDE", tmp_path / "absent")


@pytest.fixture
def folder(tmp_path):
    write_set(tmp_path)
    return tmp_path


def test_a_set_of_the_folder(folder):
    data = fetch_benchmark("toy", folder)
    assert data.numeric_names == ("x",)
    assert_array_equal(data.numeric, [[1.5], [np.nan], [2.5]])
    assert data.nominal.tolist() == [["a"], ["b"], [""]]
    assert (data.id_names, data.ids.tolist()) == (("who",), [["7"], ["8"], ["9"]])
    assert_array_equal(data.target, [10, 12.5, 20])
    assert_array_equal(data.labels[5], [1, 2, 5])
    assert_array_equal(data.labels[10], [1, 3, 10])
    assert_array_equal(data.published_labels[10], [1, 3, 9])
    assert_array_equal(data.partitions[5], [[True, False, True], [False, True, True]])
    assert data.tables["toy_items"]["weight"].tolist() == ["3"]
    assert data.origin == str(folder / "toy.csv")
    assert "array" not in repr(data)


def test_nominal_features_become_numbers(folder):
    data = fetch_benchmark("toy", folder)
    expected = [[1.5, 1, 0], [np.nan, 0, 1], [2.5, 0, 0]]
    assert_array_equal(data.features(), expected)
    assert_array_equal(data.features(one_hot="all"), expected)
    with pytest.raises(ValueError, match='"words" or "all", but is \'none\''):
        data.features(one_hot="none")


def test_number_codes_stay_one_column_unless_asked(folder):
    write_set(folder, rows="1,4,7,10\n2,8,8,12\n3,4,9,20\n")
    data = fetch_benchmark("toy", folder)
    assert_array_equal(data.features(), [[1, 4], [2, 8], [3, 4]])
    assert_array_equal(data.features(one_hot="all"), [[1, 1, 0], [2, 0, 1], [3, 1, 0]])


def test_the_folder_beside_the_project_is_used_without_being_named(folder, nowhere, monkeypatch):
    monkeypatch.setattr(papers_data, "BESIDE", folder)
    assert data_folder() == folder
    assert fetch_benchmark("toy").origin == str(folder / "toy.csv")


def test_the_environment_names_the_folder(folder, monkeypatch):
    monkeypatch.setenv("ORDINALGP_DATA", str(folder))
    assert fetch_benchmark("toy").origin == str(folder / "toy.csv")


def test_a_changed_file_is_refused(folder):
    with open(folder / "toy.csv", "a") as file:
        file.write("1,a,7,10\n")
    with pytest.raises(DataUnavailableError, match=r"SHA-256 .* but datasets.json promises"):
        fetch_benchmark("toy", folder)


def test_another_shape_is_refused(folder):
    write_set(folder, n_rows=4)
    with pytest.raises(DataUnavailableError, match=r"3 rows and 3 columns .* promises 4 and 3"):
        fetch_benchmark("toy", folder)


def test_a_missing_file_is_named(folder):
    (folder / "toy.csv").unlink()
    with pytest.raises(DataUnavailableError, match=r"toy\.csv is listed .* but is not there"):
        fetch_benchmark("toy", folder)


def test_partitions_of_another_length_are_refused(folder):
    (folder / "partitions" / "toy_splits_5bins.csv").write_text("split_1\n1\n0\n")
    with pytest.raises(DataUnavailableError, match=r"each of the 3 rows .* but has 2 rows"):
        fetch_benchmark("toy", folder)


def test_a_set_that_can_be_had_nowhere(folder, nowhere):
    with pytest.raises(DataUnavailableError, match=r"'irisses' is neither .* choose one of: abal"):
        fetch_benchmark("irisses", folder)
    with pytest.raises(DataUnavailableError, match="neither data_home nor ORDINALGP_DATA"):
        fetch_benchmark("diabetes")


def test_a_folder_without_a_list_is_explained(tmp_path):
    with pytest.raises(DataUnavailableError, match=r"no datasets\.json\. Set data_home or"):
        fetch_benchmark("abalone", tmp_path)


@pytest.mark.parametrize("bins", [1, 5, 10, 7])
def test_bins_are_closed_on_the_right(bins):
    borders = 3.0 + 1.1 * np.arange(bins + 1)  # decimals that are not exact in the computer
    assert_array_equal(equal_width_labels(borders, bins), [1, *range(1, bins + 1)])
    inside = np.concatenate([borders[[0, -1]], borders[:-1] + 0.01])
    assert_array_equal(equal_width_labels(inside, bins)[2:], range(1, bins + 1))


@pytest.mark.parametrize(
    "target, bins, message",
    [
        ([1.0, np.nan], 5, "column of finite numbers"),
        ([2.0, 2.0], 5, "5 bins were asked for of a target from 2.0 to 2.0"),
        ([1.0, 2.0], 0, "0 bins"),
    ],
)
def test_bins_need_a_target_that_varies(target, bins, message):
    with pytest.raises(ValueError, match=message):
        equal_width_labels(target, bins)


# ----------------------------------------------------------------- every set of the folder


@pytest.fixture(scope="module")
def shared():
    try:
        return data_folder()
    except DataUnavailableError as absent:
        pytest.skip(str(absent))


@pytest.fixture(scope="module")
def readme(shared):
    """Rows, numeric and nominal features of every set, from the tables of the README."""
    counts = {}
    for line in (shared / "README.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 8:
            numeric, nominal = map(int, cells[2].split(" + "))
            counts[cells[0].strip("`").split(".")[0]] = (int(cells[1]), numeric, nominal)
    return counts


# Rows whose published label is another than that of our rule (counted from 0).
EXCEPTIONS = {("diabetes", 10): [5, 8, 24, 26, 31, 37]}


@pytest.mark.data
def test_every_set_has_the_counts_of_the_readme(shared, readme):
    facts = json.loads((shared / "datasets.json").read_text("utf-8"))["datasets"]
    assert {each["name"] for each in facts} == set(readme)
    assert len(facts) == 33
    for each in facts:
        data = fetch_benchmark(each["name"], shared)
        n, numeric, nominal = readme[data.name]
        assert data.numeric.shape == (n, numeric), data.name
        assert data.nominal.shape == (n, nominal), data.name
        assert data.target.shape == (n,)
        assert (data.target.min(), data.target.max()) == (each["target_min"], each["target_max"])
        assert len(np.unique(data.target)) == each["target_values"], data.name
        missing = np.isnan(data.numeric).sum() + (data.nominal == "").sum()
        assert missing == each["n_missing_cells"], data.name
        continuous = each["target_kind"].startswith("continuous")
        assert set(data.labels) == ({5, 10} if continuous else set())
        # One item and rater table for each file of the listing.
        assert set(data.tables) == {a.split(".")[0] for a in each["aux"] if a.endswith(".csv")}
        for masks in data.partitions.values():
            assert masks.shape[1] == n
            assert 0 < masks.sum(axis=1).min() <= masks.sum(axis=1).max() < n


@pytest.mark.data
@pytest.mark.parametrize("bins", [5, 10])
def test_published_labels_follow_from_the_target(shared, bins):
    for name in set(DATASETS) - {"pyrimidines", "machine_cpu"}:
        data = fetch_benchmark(name, shared)
        differs = np.flatnonzero(data.labels[bins] != data.published_labels[bins])
        assert differs.tolist() == EXCEPTIONS.get((name, bins), []), name
        change = data.labels[bins] - data.published_labels[bins]
        assert_array_equal(np.abs(change[differs]), 1)


@pytest.mark.data
def test_published_labels_of_machine_cpu_follow_from_lowered_targets(shared):
    data = fetch_benchmark("machine_cpu", shared)
    lowered = {489: 439, 636: 500, 915: 500, 1144: 500, 1150: 500, 465: 425, 510: 460}
    target = np.array([lowered.get(int(y), y) for y in data.target])
    assert np.sum(target != data.target) == 9
    for bins in (5, 10):
        assert_array_equal(equal_width_labels(target, bins), data.published_labels[bins])


@pytest.mark.data
def test_published_labels_of_pyrimidines_follow_from_another_minimum(shared):
    data = fetch_benchmark("pyrimidines", shared)
    assert np.argmin(data.target) == 9
    target = np.where(np.arange(74) == 9, 0.44, data.target)
    assert_array_equal(equal_width_labels(target, 10), data.published_labels[10])
    assert np.sum(equal_width_labels(target, 5) != data.published_labels[5]) == 8
    target = np.maximum(target, 0.45)
    assert_array_equal(equal_width_labels(target, 5), data.published_labels[5])


@pytest.mark.data
def test_published_partitions_are_stratified(shared):
    for name in ("diabetes", "machine_cpu", "abalone"):
        data = fetch_benchmark(name, shared)
        for bins in (5, 10):
            labels = data.published_labels[bins]
            counts = [
                np.bincount(labels[mask], minlength=bins + 1) for mask in data.partitions[bins]
            ]
            assert len(counts) == 20
            assert_array_equal(np.ptp(counts, axis=0), 0)
            assert counts[0][1:].min() >= 2


# ------------------------------------------------------- OpenML, played by a local server


class Recorded(ThreadingHTTPServer):
    """Answers scikit-learn's four questions about a data set the way OpenML does."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.asked = {}, []

    def record(self, number, arff, features, n_rows, *, md5=None):
        """``features``: (name, type, is target)."""
        described = [
            {
                "index": str(index),
                "name": name,
                "data_type": kind,
                "is_target": str(target).lower(),
                "is_ignore": "false",
                "is_row_identifier": "false",
                "number_of_missing_values": "0",
            }
            for index, (name, kind, target) in enumerate(features)
        ]
        description = {
            "id": str(number),
            "name": "recorded",
            "version": "1",
            "format": "ARFF",
            "status": "active",
            "licence": "Public",
            "description": "recorded",
            "file_id": str(number),
            "url": f"https://www.openml.org/data/v1/download/{number}/recorded.arff",
            "md5_checksum": md5 or hashlib.md5(arff).hexdigest(),
        }
        rows = [{"name": "NumberOfInstances", "value": str(n_rows)}]
        base = "/api/v1/json/data"
        answers = {
            f"{base}/{number}": {"data_set_description": description},
            f"{base}/features/{number}": {"data_features": {"feature": described}},
            f"{base}/qualities/{number}": {"data_qualities": {"quality": rows}},
        }
        self.answers |= {path: json.dumps(value).encode() for path, value in answers.items()}
        self.answers[f"/data/v1/download/{number}/recorded.arff"] = arff
        self.answers[f"/data/v1/download/{number}"] = arff  # what scikit-learn 1.6 asks for


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        body = self.server.answers.get(self.path)
        if body is None:
            self.send_error(404)
            return
        body = gzip.compress(body)
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def openml(monkeypatch, tmp_path, nowhere):
    """A server in place of OpenML for scikit-learn, with an empty store of downloads."""
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "store"))
    with Recorded() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()

        def to_server(request, *rest, **options):
            path = urlparse(request.full_url).path
            local = Request(f"http://127.0.0.1:{server.server_port}{path}")
            return urlopen(local, *rest, **options)

        monkeypatch.setattr("sklearn.datasets._openml.urlopen", to_server)
        yield server
        server.shutdown()
        thread.join()


TINY = b"""@RELATION recorded
@ATTRIBUTE power NUMERIC
@ATTRIBUTE origin {europe,japan,usa}
@ATTRIBUTE mpg NUMERIC
@DATA
130,usa,9
?,europe,25
90,japan,46.6
70,europe,20
"""
TINY_FEATURES = [
    ("power", "numeric", False),
    ("origin", "nominal", False),
    ("mpg", "numeric", True),
]


def list_as(monkeypatch, name, **facts):
    monkeypatch.setitem(OPENML, name, Listed(**facts))


def test_openml_gives_features_target_and_bins(openml, monkeypatch):
    list_as(monkeypatch, "auto_mpg", number=196, n_rows=3, n_features=2, target_range=(9, 46.6))
    openml.record(196, TINY, TINY_FEATURES, 4)
    data = fetch_benchmark("auto_mpg")
    assert_array_equal(data.numeric, [[130], [90], [70]])  # the row with a gap is left out
    assert data.nominal.tolist() == [["usa"], ["japan"], ["europe"]]
    assert_array_equal(data.target, [9, 46.6, 20])
    assert_array_equal(data.labels[5], [1, 5, 2])
    assert data.partitions == data.published_labels == {}
    assert "openml.org/d/196" in data.origin
    before = len(openml.asked)
    fetch_benchmark("auto_mpg")
    assert len(openml.asked) == before  # scikit-learn keeps a copy


def test_openml_words_become_levels_in_their_order(openml, monkeypatch):
    arff = b"@RELATION r\n@ATTRIBUTE x NUMERIC\n@ATTRIBUTE class {L,B,R}\n@DATA\n1,R\n2,L\n3,B\n"
    facts = {"kind": "ordinal", "levels": ("L", "B", "R")}
    list_as(monkeypatch, "scale", number=11, n_rows=3, n_features=1, target_range=(1, 3), **facts)
    openml.record(11, arff, [("x", "numeric", False), ("class", "nominal", True)], 3)
    data = fetch_benchmark("scale")
    assert_array_equal(data.target, [3, 1, 2])
    assert data.labels == {}


def test_openml_with_other_contents_is_refused(openml):
    openml.record(196, TINY, TINY_FEATURES, 4)
    with pytest.raises(
        DataUnavailableError, match=r"\(3, 2, 9.0, 46.6\), but \(392, 7, 9.0, 46.6\)"
    ):
        fetch_benchmark("auto_mpg")


def test_openml_with_a_wrong_checksum_is_refused(openml):
    openml.record(196, TINY, TINY_FEATURES, 4, md5="0" * 32)
    with pytest.raises(DataUnavailableError, match="md5 checksum"):
        fetch_benchmark("auto_mpg")


def test_without_a_network_the_error_says_what_to_do(openml):
    with pytest.raises(DataUnavailableError, match=r"did not give it: .*404.* Set data_home or"):
        fetch_benchmark("abalone")


def as_arff(data):
    lines = ["@RELATION recorded"]
    for name in data.nominal_names:
        column = data.nominal[:, data.nominal_names.index(name)]
        lines.append(f"@ATTRIBUTE {name} {{{','.join(np.unique(column))}}}")
    lines += [f"@ATTRIBUTE {name} NUMERIC" for name in (*data.numeric_names, "target")]
    rows = np.column_stack([data.nominal, data.numeric.astype(str), data.target.astype(str)])
    lines += ["@DATA", *(",".join(row) for row in rows)]
    features = [(name, "nominal", False) for name in data.nominal_names]
    features += [(name, "numeric", False) for name in data.numeric_names]
    return "\n".join(lines).encode(), [*features, ("target", "numeric", True)]


@pytest.mark.data
@pytest.mark.parametrize("name", ["machine_cpu", "boston_housing", "lev"])
def test_openml_and_the_folder_agree(openml, shared, name):
    local = fetch_benchmark(name, shared)
    openml.record(OPENML[name].number, *as_arff(local), len(local.target))
    fetched = fetch_benchmark(name)
    assert fetched.nominal_names == local.nominal_names
    assert_array_equal(fetched.nominal, local.nominal)
    assert_allclose(fetched.features(), local.features())
    assert_array_equal(fetched.target, local.target)
    for bins, labels in local.labels.items():
        assert_array_equal(fetched.labels[bins], labels)


# ------------------------------------ OpenML's own answers, as scikit-learn has recorded them


def replay(server, number):
    """Put the answers of the real server, which scikit-learn ships for its tests, into ours."""
    try:
        folder = files(f"sklearn.datasets.tests.data.openml.id_{number}")
    except ModuleNotFoundError:
        pytest.skip("this scikit-learn came without its recorded answers of OpenML")
    parts = {"": "jd", "features/": "jdf", "qualities/": "jdq"}
    for part, short in parts.items():
        packed = (folder / f"api-v1-{short}-{number}.json.gz").read_bytes()
        server.answers[f"/api/v1/json/data/{part}{number}"] = gzip.decompress(packed)
    answer = json.loads(server.answers[f"/api/v1/json/data/{number}"])
    description = answer["data_set_description"]
    (arff,) = (f for f in folder.iterdir() if f.name.endswith(".arff.gz"))
    for path in (urlparse(description["url"]).path, f"/data/v1/download/{description['file_id']}"):
        server.answers[path] = gzip.decompress(arff.read_bytes())


def test_recorded_answers_for_machine_cpu(openml, monkeypatch):
    """Number 561 has the machines of number 230, their vendors, and another target (estimates)."""
    facts = {"number": 561, "n_rows": 209, "n_features": 7, "target_range": (15, 1238)}
    list_as(monkeypatch, "machine_cpu", **facts)
    replay(openml, 561)
    data = fetch_benchmark("machine_cpu")
    assert data.nominal_names == ("vendor",)
    assert data.numeric_names == ("MYCT", "MMIN", "MMAX", "CACH", "CHMIN", "CHMAX")
    assert data.nominal[:2].tolist() == [["adviser"], ["amdahl"]]
    assert data.numeric[0].tolist() == [125, 256, 6000, 256, 16, 128]
    assert data.target[:3].tolist() == [199, 253, 253]
    assert set(data.labels) == {5, 10}
    assert data.facts["name"] == "cpu"


@pytest.mark.data
def test_recorded_inputs_of_machine_cpu_are_those_of_the_folder(openml, shared, monkeypatch):
    facts = {"number": 561, "n_rows": 209, "n_features": 7, "target_range": (15, 1238)}
    local = fetch_benchmark("machine_cpu", shared)
    list_as(monkeypatch, "machine_cpu", **facts)
    replay(openml, 561)
    fetched = fetch_benchmark("machine_cpu")
    assert_array_equal(fetched.numeric, local.numeric)
    assert np.corrcoef(fetched.target, local.target)[0, 1] > 0.95  # estimates of the same


def test_recorded_answers_with_a_target_of_words(openml, monkeypatch):
    words = ("Iris-setosa", "Iris-versicolor", "Iris-virginica")
    facts = {"number": 61, "n_rows": 150, "n_features": 4, "target_range": (1, 3)}
    list_as(monkeypatch, "flowers", kind="ordinal", levels=words, **facts)
    replay(openml, 61)
    data = fetch_benchmark("flowers")
    assert np.bincount(data.target.astype(int)).tolist() == [0, 50, 50, 50]
    assert data.numeric[0].tolist() == [5.1, 3.5, 1.4, 0.2]


@pytest.mark.data
def test_openml_itself_agrees_with_the_folder(shared, nowhere, monkeypatch, tmp_path):
    """The real server, where there is a network."""
    try:
        with urlopen("https://api.openml.org/api/v1/json/data/230", timeout=5):
            pass
    except OSError as error:
        pytest.skip(f"OpenML cannot be reached from here: {error}")
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    local, fetched = fetch_benchmark("machine_cpu", shared), fetch_benchmark("machine_cpu")
    assert_array_equal(fetched.numeric, local.numeric)
    assert_array_equal(fetched.target, local.target)


@pytest.mark.data
def test_what_is_expected_of_openml_is_what_the_folder_holds(shared):
    facts = json.loads((shared / "datasets.json").read_text("utf-8"))["datasets"]
    listed = {each["name"]: each for each in facts if each["openml"]}
    assert set(listed) == set(OPENML)
    for name, expected in OPENML.items():
        each = listed[name]
        assert expected.number == each["openml"]["id"]
        assert (expected.n_rows, expected.n_features) == (each["n_rows"], each["n_features"])
        assert expected.target_range == (each["target_min"], each["target_max"])
        assert each["target_kind"].startswith(expected.kind)
