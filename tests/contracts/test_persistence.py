"""Saved estimators come back as they were, and nothing else comes in."""

import io
import json
import os
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import kernels as sk
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

import ordinalgp
from ordinalgp import (
    LeastSquaresOrdinalClassifier,
    OrdinalGPClassifier,
    SparseBayesOrdinalClassifier,
    load,
    persistence,
)
from ordinalgp.kernels import Additive, ARDLinear, Correlation, Exponential, Independent

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3))
X_NEW = RNG.normal(size=(7, 3))
CODES = np.digitize(X[:, 0] + 0.4 * RNG.normal(size=24), [-0.5, 0.5])
LEVELS = ["low", "mid", "high", "never"]
NAMES = np.array(LEVELS)[CODES]
RATINGS = np.where(RNG.random((24, 6)) < 0.2, np.nan, RNG.integers(1, 6, (24, 6)))
RATED = np.digitize(np.nanmean(RATINGS, axis=1), [2.8, 3.2])
FRAME = pd.DataFrame(X, columns=["height", "weight", "age"])
COST = np.array([[0.0, 1.0, 4.0], [3.0, 0.0, 1.0], [9.0, 3.0, 0.0]])


def gp(*args, **options):
    return OrdinalGPClassifier(*args, **options)


def fixed(**options):
    return gp(RBF(2.0), optimizer=None, **options)


# name: (estimator, X, y, sample_weight, X_new)
CASES = {
    "numbers": (gp(), X, CODES, None, X_NEW),
    "half steps": (fixed(), X, CODES / 2 + 1, None, X_NEW),
    "booleans": (fixed(), X, CODES > 0, None, X_NEW),
    "strings": (fixed(categories=LEVELS), X, NAMES, None, X_NEW),
    "object strings": (fixed(categories=tuple(LEVELS)), X, NAMES.astype(object), None, X_NEW),
    "array of categories": (fixed(categories=np.array(LEVELS)), X, NAMES, None, X_NEW),
    "ordered categorical": (
        fixed(),
        X,
        pd.Series(pd.Categorical(NAMES, categories=LEVELS, ordered=True)),
        None,
        X_NEW,
    ),
    "laplace": (gp(inference="laplace"), X, CODES, None, X_NEW),
    "bound": (gp(objective="bound"), X, CODES, None, X_NEW),
    "ARD": (gp(RBF([1.0, 2.0, 3.0], (1e-2, 1e2))), X, CODES, None, X_NEW),
    "white": (gp(ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1)), X, CODES, None, X_NEW),
    "Matern": (gp(Matern([1.0, 1.0, 1.0], nu=2.5)), X, CODES, None, X_NEW),
    "infinitely smooth": (gp(Matern(nu=np.inf)), X, CODES, None, X_NEW),
    "rational": (gp(RationalQuadratic(alpha_bounds="fixed")), X, CODES, None, X_NEW),
    "polynomial": (gp(DotProduct(1.0, (0.1, 10.0)) ** 2), X, CODES, None, X_NEW),
    "linear": (gp(ARDLinear(np.ones(3)) + ConstantKernel()), X, CODES, None, X_NEW),
    "single precision": (gp(RBF(np.float32(2)), optimizer=None), X, CODES, None, X_NEW),
    "gaps": (gp(Correlation(), n_restarts_optimizer=1), RATINGS, RATED, None, RATINGS[:5]),
    "cost matrix": (fixed(decision=COST), X, CODES, None, X_NEW),
    "cost list": (fixed(decision=COST.tolist()), X, CODES, None, X_NEW),
    "repeated rows": (fixed(), X.round(), CODES, None, X_NEW),
    "weights": (fixed(), X, CODES, np.arange(24) % 4 + 0.5, X_NEW),
    "column names": (fixed(), FRAME, CODES, None, FRAME[:5]),
    "least squares": (LeastSquaresOrdinalClassifier(), X, CODES, None, X_NEW),
    "least squares, words and weights": (
        LeastSquaresOrdinalClassifier(RBF(2.0), optimizer=None, categories=LEVELS),
        FRAME.round(),
        NAMES,
        np.arange(24) % 4,
        FRAME[:5],
    ),
    "sparse": (SparseBayesOrdinalClassifier(random_state=0), X, CODES, None, X_NEW),
    "sparse, words and weights": (
        SparseBayesOrdinalClassifier(RBF(2.0), random_state=0, categories=LEVELS),
        FRAME.round(),
        NAMES,
        np.arange(24) % 4,
        FRAME[:5],
    ),
    "Fortran order": (gp(RBF() + WhiteKernel()), np.asfortranarray(X), CODES, None, X_NEW),
}


@pytest.fixture(autouse=True)
def _correlation_takes_gaps(monkeypatch):
    monkeypatch.setattr(Correlation, "accepts_missing", True, raising=False)


@pytest.fixture(params=CASES)
def case(request):
    """A fitted estimator and new inputs."""
    estimator, inputs, y, weights, new = CASES[request.param]
    return clone(estimator).fit(inputs, y, weights), new


@pytest.fixture(scope="module")
def fitted():
    return gp(RBF([1.0, 2.0, 3.0]), categories=LEVELS).fit(X, NAMES)


@pytest.fixture
def path(fitted, tmp_path):
    """A good file, which a test may spoil."""
    fitted.save(tmp_path / "model.ogp")
    return tmp_path / "model.ogp"


def assert_same(left, right, where=""):
    """Equal in value, type and dtype, also inside containers and kernels."""
    assert type(left) is type(right), where
    if isinstance(left, np.ndarray):
        assert left.dtype == right.dtype, where
        assert_array_equal(left, right, err_msg=where)
    elif isinstance(left, list | tuple):
        assert len(left) == len(right), where
        for i, (a, b) in enumerate(zip(left, right, strict=True)):
            assert_same(a, b, f"{where}[{i}]")
    elif isinstance(left, sk.Kernel):
        assert_same(left.get_params(deep=False), right.get_params(deep=False), where)
    elif isinstance(left, dict):
        assert left.keys() == right.keys(), where
        for key in left:
            assert_same(left[key], right[key], f"{where}.{key}")
    else:
        assert left == right or (left != left and right != right), where


def objective_of(model):
    """Return the method that evaluates what the search of this model maximised."""
    names = ("log_marginal_likelihood", "loo_log_probability")
    return next(getattr(model, name) for name in names if hasattr(model, name))


def assert_same_model(left, right, inputs):
    """Not one bit differs."""
    assert_same(left.get_params(deep=False), right.get_params(deep=False))
    public = [name for name in vars(left) if name.endswith("_") and name != "likelihood_"]
    assert public == [name for name in public if hasattr(right, name)]
    for name in public:
        assert_same(getattr(left, name), getattr(right, name), name)
    for method in ("predict", "predict_proba", "category_proba", "latent_mean_and_variance"):
        assert_same(getattr(left, method)(inputs), getattr(right, method)(inputs), method)
    if not hasattr(left, "loo_proba"):  # a sparse model: relevance vectors, no task to evaluate
        return
    assert_same(left.loo_proba(), right.loo_proba())
    one, other = (objective_of(model) for model in (left, right))
    assert one() == other()
    (value, slope), (value_too, slope_too) = one(eval_gradient=True), other(eval_gradient=True)
    assert value == value_too
    assert_same(slope, slope_too)


# ---------------------------------------------------------------------------- round trip


def test_nothing_changes_on_the_way(case, tmp_path):
    model, new = case
    assert model.save(tmp_path / "model.ogp") is None
    loaded = load(tmp_path / "model.ogp")
    assert type(loaded) is type(model)
    assert_same_model(model, loaded, new)
    loaded.save(tmp_path / "again.ogp")
    assert (tmp_path / "again.ogp").read_bytes() == (tmp_path / "model.ogp").read_bytes()


def test_a_loaded_model_is_an_ordinary_estimator(path, fitted):
    loaded = load(path)
    again = clone(loaded)
    assert not hasattr(again, "kernel_")
    assert_same_model(again.fit(X, NAMES), fitted, X_NEW)
    assert_same_model(pickle.loads(pickle.dumps(loaded)), fitted, X_NEW)
    loaded.set_params(kernel=None, decision="median").fit(X[:12], NAMES[:12])
    assert len(loaded.loo_proba()) == 12


def test_feature_names_are_still_asked_for(tmp_path):
    gp().fit(FRAME, CODES).save(tmp_path / "model.ogp")
    with pytest.raises(ValueError, match="feature names should match"):
        load(tmp_path / "model.ogp").predict(FRAME.rename(columns={"age": "size"}))


def test_parameters_changed_after_fit_do_not_change_the_fit(tmp_path):
    model = gp(inference="laplace").fit(X, CODES)
    model.set_params(inference="ep", max_sweeps=1, tol=0.5, decision="median")
    model.save(tmp_path / "model.ogp")
    assert_same_model(model, load(tmp_path / "model.ogp"), X_NEW)


def test_strings_are_paths_too_and_any_suffix_will_do(fitted, tmp_path):
    fitted.save(str(tmp_path / "grades"))
    assert_same_model(fitted, load(str(tmp_path / "grades")), X_NEW)


def test_a_random_state_stays_with_its_program(tmp_path):
    model = gp(random_state=np.random.RandomState(0)).fit(X, CODES)
    model.save(tmp_path / "model.ogp")
    assert load(tmp_path / "model.ogp").random_state is None
    assert isinstance(model.random_state, np.random.RandomState)


def test_the_file_has_no_square_matrix(path):
    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("model.json"))
        arrays = [np.load(io.BytesIO(archive.read(n))) for n in archive.namelist()[1:]]
    assert document["format"] == "ordinalgp-model"
    assert document["schema"] == 1
    assert document["library"] == ordinalgp.__version__
    assert document["class"] == "OrdinalGPClassifier"
    assert max(array.size for array in arrays) <= X.size


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.floats().map(np.float64),
    st.floats(width=32).map(np.float32),
    st.integers(0, 255).map(np.uint8),
    st.booleans().map(np.bool_),
    st.lists(st.floats(), max_size=3).map(np.array),
    st.lists(st.text(max_size=3), max_size=3).map(lambda words: np.array(words, dtype=object)),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from(["a", "b_", "C1"]), inner, max_size=3),
        inner.map(lambda value: ConstantKernel(value, "fixed")),
    ),
    max_leaves=6,
)


@given(VALUES)
def test_values_survive_json(value):
    arrays = {}
    text = json.dumps(persistence._encode(value, "here", arrays), allow_nan=False)
    assert_same(persistence._decode(json.loads(text), arrays.__getitem__), value)


KERNELS = {
    "Additive": Additive(0.5, "fixed", size=2),
    "ARDLinear": ARDLinear([1.0, 2.0]),
    "CompoundKernel": sk.CompoundKernel([RBF(), WhiteKernel()]),
    "ConstantKernel": ConstantKernel(2.0, (0, np.inf)),
    "Correlation": Correlation(),
    "DotProduct": DotProduct(0.5, "fixed"),
    "ExpSineSquared": sk.ExpSineSquared(1.0, 2.0),
    "Exponential": Exponential(0.5, (0.1, 10.0)),
    "Exponentiation": RBF() ** 1.5,
    "Independent": Independent(),
    "Matern": Matern(np.array([1.0, 2.0]), np.array([[1, 2], [3, 4.0]]), nu=np.inf),
    "PairwiseKernel": sk.PairwiseKernel(metric="poly", pairwise_kernels_kwargs={"degree": 2}),
    "Product": RBF() * Matern(),
    "RBF": RBF(np.float64(1.5)),
    "RationalQuadratic": RationalQuadratic(),
    "Sum": RBF() + WhiteKernel() + 1.0,
    "WhiteKernel": WhiteKernel(),
}


@pytest.mark.parametrize("name", persistence._KERNELS)
def test_every_kernel_survives(name):
    arrays = {}
    encoded = json.loads(json.dumps(persistence._encode(KERNELS[name], "kernel", arrays)))
    assert_same(persistence._decode(encoded, arrays.__getitem__), KERNELS[name])


def test_every_public_estimator_with_a_state_is_registered():
    stateful = [
        name for name in ordinalgp.__all__ if hasattr(getattr(ordinalgp, name), "_get_state")
    ]
    assert sorted([*stateful, "TableModel"]) == sorted(persistence._ESTIMATORS)


# -------------------------------------------------------------------------------- saving


class MyKernel(RBF):
    pass


class SameName(RBF):
    pass


SameName.__name__ = "RBF"


def my_optimizer(obj_func, initial_theta, bounds):
    return initial_theta, obj_func(initial_theta)[0]


@pytest.mark.parametrize(
    "params, reason",
    [
        ({"kernel": MyKernel()}, r"params.kernel is MyKernel\(.* which a model file cannot hold"),
        ({"kernel": ConstantKernel() * SameName()}, "params.kernel.k2 is"),
        ({"kernel": sk.PairwiseKernel(metric=np.dot)}, "params.kernel.metric is"),
        ({"optimizer": my_optimizer}, "params.optimizer is .* Replace it with set_params"),
        ({"verbose": np.longdouble(0)}, "params.verbose is"),
        ({"n_jobs": {"a key": 1}}, "params.n_jobs is"),
        ({"categories": pd.Index([0, 1, 2])}, "params.categories is Index.* load a pickle only if"),
    ],
)
def test_what_a_file_cannot_hold_is_not_written(params, reason, tmp_path):
    model = gp().fit(X, CODES).set_params(**params)
    with pytest.raises(TypeError, match=reason):
        model.save(tmp_path / "model.ogp")
    assert list(tmp_path.iterdir()) == []


def test_a_fitted_kernel_of_ones_own_is_not_written(tmp_path):
    model = gp(MyKernel(), optimizer=None).fit(X, CODES).set_params(kernel=None)
    with pytest.raises(TypeError, match=r"state.kernel is MyKernel"):
        model.save(tmp_path / "model.ogp")


def test_invalid_parameters_are_not_written(fitted, tmp_path):
    model = pickle.loads(pickle.dumps(fitted)).set_params(inference="guess")
    with pytest.raises(ValueError, match="inference must be one of"):
        model.save(tmp_path / "model.ogp")
    assert list(tmp_path.iterdir()) == []


def test_subclasses_and_unfitted_estimators_are_not_written(tmp_path):
    class Mine(OrdinalGPClassifier):
        pass

    with pytest.raises(TypeError, match="Mine cannot be saved, only OrdinalGPClassifier"):
        Mine().fit(X, CODES).save(tmp_path / "model.ogp")
    with pytest.raises(NotFittedError):
        gp().save(tmp_path / "model.ogp")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_named(fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no folder .*nowhere.* Create it first"):
        fitted.save(tmp_path / "nowhere" / "model.ogp")


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("old", [None, b"precious"])
def test_a_failure_leaves_the_folder_as_it_was(fitted, tmp_path, monkeypatch, step, old):
    def fail(*args):
        raise OSError("disk full")

    target = tmp_path / "model.ogp"
    if old is not None:
        target.write_bytes(old)
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="disk full"):
        fitted.save(target)
    assert [p.read_bytes() for p in tmp_path.iterdir()] == ([] if old is None else [old])


def test_a_file_is_replaced_with_its_rights_and_through_links(fitted, tmp_path):
    target, link = tmp_path / "model.ogp", tmp_path / "latest.ogp"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    fitted.save(link)
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert_same_model(fitted, load(target), X_NEW)


# ------------------------------------------------------------------------------- loading


def contents(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def edit(path, change):
    """Apply ``change`` to the document."""
    members = contents(path)
    document = json.loads(members["model.json"])
    change(document)
    write(path, members | {"model.json": json.dumps(document).encode()})


def put(path, name, content):
    write(path, contents(path) | {name: content})


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def assert_refused(path, reason):
    """A ValueError with its reason, its advice and the path; the file stays as it is."""
    before = path.read_bytes()
    with pytest.raises(ValueError, match=reason) as caught:
        load(path)
    assert type(caught.value) is ValueError
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file .*none.ogp.* Check the path"):
        load(tmp_path / "none.ogp")


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip at all", b"{}"])
def test_other_files_are_refused(path, content):
    path.write_bytes(content)
    assert_refused(path, "it is not a zip file, so estimator.save did not write it. Check the path")


def test_a_pickle_is_refused_and_not_run(path, tmp_path):
    marker = tmp_path / "marker"
    path.write_bytes(pickle.dumps(Payload(marker)))
    assert_refused(path, "it is not a zip file")
    assert not marker.exists()


def test_a_pickle_inside_an_array_is_refused_and_not_run(path, tmp_path):
    marker = tmp_path / "marker"
    array = np.full(24, None)
    array[0] = Payload(marker)
    put(path, "arrays/state.tau.npy", npy(array, allow_pickle=True))
    assert_refused(path, "array state.tau has dtype object")
    put(path, "arrays/state.tau.npy", pickle.dumps(Payload(marker)))
    assert_refused(path, "damaged or inconsistent .*magic string")
    assert not marker.exists()


def test_truncated_files_are_refused(path):
    whole = path.read_bytes()
    for length in range(4, len(whole), 97):
        path.write_bytes(whole[:length])
        assert_refused(path, "damaged or inconsistent .*BadZipFile.* or save the model again")


def load_unless_refused(path):
    try:
        return load(path)
    except ValueError:
        return None


def test_no_damaged_byte_goes_unnoticed(path, fitted):
    whole, expected = path.read_bytes(), fitted.predict_proba(X_NEW)
    refused = 0
    places = [*range(0, len(whole), 13), *range(len(whole) - 200, len(whole))]
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        loaded = load_unless_refused(path)
        refused += loaded is None
        if loaded is not None:  # the byte means nothing here, such as one of a time stamp
            assert_array_equal(loaded.predict_proba(X_NEW), expected)
    assert refused > len(places) / 2


def test_a_wrong_checksum_is_refused(path):
    whole = bytearray(path.read_bytes())
    whole[whole.index(b"PK\x01\x02") + 16] ^= 1
    path.write_bytes(bytes(whole))
    assert_refused(path, "damaged or inconsistent .*Bad CRC-32")


def test_another_zip_is_refused(path):
    write(path, {"readme.txt": b"hello"})
    assert_refused(path, "it is a zip file without model.json, so not a model. Check the path")


@pytest.mark.parametrize(
    "text, reason",
    [
        (b"{", "JSONDecodeError"),
        (b"\xff\xfe\xff", "UnicodeDecodeError"),
        (b"[" * 200_000, "RecursionError"),
        (b"[]", "does not have the format 'ordinalgp-model'"),
        (b'{"format": "ordinalgp-model"}', "KeyError: 'schema'"),
    ],
)
def test_garbage_for_a_document_is_refused(path, text, reason):
    put(path, "model.json", text)
    assert_refused(path, reason)


NEWER = r"written by a newer version of ordinalgp \(9.9; schema 2, .* up to 1\). Upgrade"
UNKNOWN_CLASS = "its estimator '(os|Path|SVC)' is unknown to this version. Upgrade"


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"format": "other"}, "does not have the format 'ordinalgp-model'. Check the path"),
        ({"schema": 2, "library": "9.9"}, NEWER),
        ({"schema": 0}, "unknown schema 0"),
        ({"schema": 0.5}, "unknown schema 0.5"),
        ({"schema": None}, "TypeError"),
        ({"class": "SVC"}, UNKNOWN_CLASS),
        ({"class": "os"}, UNKNOWN_CLASS),
        ({"class": ["SVC"]}, "unhashable"),
        ({"params": None}, "damaged or inconsistent"),
        ({"params": {"colour": 1}}, "unexpected keyword argument 'colour'"),
        ({"params": {"inference": "guess"}}, "inference must be one of"),
        ({"params": {"kernel": "RBF"}}, "kernel must be one scikit-learn kernel"),
        ({"state": {}}, "missing or unknown: categories_, classes_"),
        ({"state": {"$": "eval", "code": "1"}}, "unknown kind of value 'eval'"),
    ],
)
def test_a_document_that_save_did_not_write_is_refused(path, changes, reason):
    edit(path, lambda document: document.update(changes))
    assert_refused(path, reason)


def array(name):
    return {"$": "array", "name": name}


def kernel(name, **params):
    return {"$": "kernel", "class": name, "params": params}


@pytest.mark.parametrize(
    "key, value, reason",
    [
        ("kernel", kernel("Popen", args="ls"), "its kernel 'Popen' is unknown .* Upgrade"),
        ("kernel", kernel("KernelOperator"), "its kernel 'KernelOperator' is unknown"),
        ("kernel", kernel("RBF", width=1.0), "unexpected keyword argument 'width'"),
        ("kernel", kernel("RBF", length_scale=0.0), "kernel and the rest of the state disagree"),
        ("kernel", kernel("RBF", length_scale="wide"), "damaged or inconsistent"),
        ("kernel", kernel("RBF", length_scale=[1.0, 2.0]), "damaged or inconsistent"),
        ("kernel", "RBF", "kernel has dtype <U3"),
        ("kernel", None, "kernel must be one scikit-learn kernel object"),
        ("tau", array("state.nothing"), "no item named 'arrays/state.nothing.npy'"),
        ("tau", array("../../../etc/passwd"), "no item named"),
        ("tau", 1.0, r"tau has dtype float64 and shape \(\)"),
        ("noise", 0.0, "noise must lie from"),
        ("noise", {"$": "float", "value": "nan"}, "noise must lie from"),
        ("noise", {"$": "float", "value": "1.0"}, "unknown kind of value 'float'"),
        ("noise", {"$": "scalar", "dtype": "O", "value": 1}, "unknown kind of value 'scalar'"),
        ("noise", {"$": "scalar", "dtype": "V99", "value": 1}, "unknown kind of value 'scalar'"),
        ("first", {"$": "float", "value": "-inf"}, "first must lie from"),
        ("objective", "laplace bound", "objective and the rest of the state disagree"),
        ("converged_", "yes", "converged_ has dtype <U3"),
        ("extra", 1, "missing or unknown: extra"),
    ],
)
def test_a_wrong_state_is_refused(path, key, value, reason):
    edit(path, lambda document: document["state"].update({key: value}))
    with np.errstate(divide="ignore"):
        assert_refused(path, reason)


N = len(X)


@pytest.mark.parametrize(
    "name, content, reason",
    [
        ("tau", np.ones(N - 1), r"tau has dtype float64 and shape \(23,\)"),
        ("tau", np.ones((N, 1)), r"tau has dtype float64 and shape \(24, 1\)"),
        ("tau", np.ones(N, dtype=int), "tau has dtype int64"),
        ("tau", np.full(N, -1.0), "tau must lie from 0.0"),
        ("tau", np.full(N, np.inf), "tau must lie from 0.0 to below inf"),
        ("nu", np.full(N, np.nan), "nu must lie from"),
        ("counts", np.zeros(N), "counts must lie from"),
        ("codes", np.full(N, 4), "codes must lie from 0 to below 4"),
        ("codes", np.full(N, -1), "codes must lie from 0 to below 4"),
        ("codes", np.zeros(N), "codes has dtype float64"),
        ("latent", np.full(N, N), "latent must lie from 0 to below 24"),
        ("observation", np.full(N, N), "observation must lie from -1 to below 24"),
        ("gaps", np.array([1.0, 0.0]), "gaps must lie from"),
        ("gaps", np.array([1.0]), "gaps and the rest of the state disagree"),
        ("inputs", np.full((N, 3), np.nan), "inputs and the rest of the state disagree"),
        ("inputs", np.ones((N, 2)), "damaged or inconsistent"),
        ("inputs", np.ones(N), r"inputs has dtype float64 and shape \(24,\)"),
        ("inputs", np.ones((N, 3), dtype=[("a", "f8")]), "array state.inputs has dtype"),
        ("categories_", np.array(["a", "b", "c", "d"]), "classes_ and the rest of the state"),
        ("classes_", np.array(["low", "odd"]), "classes_ and the rest of the state disagree"),
    ],
)
def test_a_wrong_array_is_refused(path, name, content, reason):
    assert f"arrays/state.{name}.npy" in contents(path)
    put(path, f"arrays/state.{name}.npy", npy(content))
    assert_refused(path, reason)


@pytest.mark.parametrize("shape", [(10**15,), (N + 1,), (N - 1,), (-1,), (10**10, 0)])
def test_a_false_shape_is_refused_before_memory_is_taken(path, shape):
    header = io.BytesIO()
    claim = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, claim)
    put(path, "arrays/state.tau.npy", header.getvalue() + bytes(8 * N))
    assert_refused(path, r"array state.tau of shape .* needs -?\d+ bytes, but has 192")


def test_a_bomb_is_refused_before_it_is_unpacked(path):
    whole = bytearray(path.read_bytes())
    size_field = whole.index(b"PK\x01\x02") + 24
    whole[size_field : size_field + 4] = struct.pack("<I", 4 * 10**9)
    path.write_bytes(bytes(whole))
    assert_refused(path, r"would unpack to 4.0 GB, which no model does. Do not trust its source")


def test_an_encrypted_member_is_refused(path):
    whole = bytearray(path.read_bytes())
    for signature, flags in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        whole[whole.index(signature) + flags] |= 1
    path.write_bytes(bytes(whole))
    assert_refused(path, "damaged or inconsistent .*encrypted")


def test_nothing_is_unpacked_to_disk(path, fitted, tmp_path, monkeypatch):
    folder = tmp_path / "deep" / "inside"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    for name in ("../evil", "../../evil", "arrays/../../evil.npy", str(tmp_path / "evil")):
        put(path, name, b"evil")
    before = sorted(tmp_path.rglob("*"))
    assert_same_model(fitted, load(path), X_NEW)
    assert sorted(tmp_path.rglob("*")) == before


def test_too_many_rows_for_memory_are_said(path, monkeypatch):
    monkeypatch.setattr("ordinalgp.validation.memory.available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="24 rows need"):
        load(path)
