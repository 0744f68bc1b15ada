"""Saved estimators come back as they were, and nothing else comes in."""

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tracemalloc
import types
import typing
import zipfile
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, clone
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
from tests import mutants, saved_models
from tests.model_files import Stored

import ordinalgp
from ordinalgp import (
    LeastSquaresOrdinalClassifier,
    OrdinalGPClassifier,
    SequentialOrdinalGP,
    SparseBayesOrdinalClassifier,
    StackedOrdinalGP,
    load,
)
from ordinalgp._typing import Axes, Plain, Tagged
from ordinalgp.kernels import (
    Additive,
    ARDLinear,
    Correlation,
    Exponential,
    Independent,
    PerColumn,
    Projected,
)
from ordinalgp.persistence import registry
from ordinalgp.persistence.codec import NPY_KINDS, Decoder, Encoder
from ordinalgp.tables import TableModel

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


UP = SequentialOrdinalGP(RBF(2.0), direction="up", optimizer=None)
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
    "weights": (fixed(), X, CODES, np.arange(24) % 4 + 1.5, X_NEW),
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
    "sequential": (SequentialOrdinalGP(), X, CODES, None, X_NEW),
    "sequential, words and weights": (
        clone(UP).set_params(categories=LEVELS),
        FRAME.round(),
        NAMES,
        np.arange(24) % 4,
        FRAME[:5],
    ),
    "mixture": (StackedOrdinalGP({"one": fixed(), "2, up": UP}), FRAME, CODES, None, FRAME[:5]),
    "Fortran order": (gp(RBF() + WhiteKernel()), np.asfortranarray(X), CODES, None, X_NEW),
}


@pytest.fixture(autouse=True)
def _correlation_takes_gaps(monkeypatch):
    monkeypatch.setattr(Correlation, "accepts_missing", True, raising=False)


@contextmanager
def about(*what):
    """Say in a failure which of many cases it was."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {what}")
        raise


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
    elif isinstance(left, sk.Kernel | BaseEstimator):
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
    return next((getattr(model, name) for name in names if hasattr(model, name)), None)


def assert_same_model(left, right, inputs):
    """Not one bit differs."""
    assert_same(left.get_params(deep=False), right.get_params(deep=False))
    objects = ("likelihood_", "steps_", "models_")  # equal only in what they predict
    public = [name for name in vars(left) if name.endswith("_") and name not in objects]
    assert public == [name for name in public if hasattr(right, name)]
    for name in public:
        assert_same(getattr(left, name), getattr(right, name), name)
    for method in ("predict", "predict_proba", "category_proba", "latent_mean_and_variance"):
        if hasattr(left, method):
            assert_same(getattr(left, method)(inputs), getattr(right, method)(inputs), method)
    if not hasattr(left, "loo_proba"):  # a sparse model: relevance vectors, no task to evaluate
        return
    assert_same(left.loo_proba(), right.loo_proba())
    one, other = (objective_of(model) for model in (left, right))
    if one is None or other is None:
        assert one is other
        return
    assert one() == other()
    (value, slope), (value_too, slope_too) = one(eval_gradient=True), other(eval_gradient=True)
    assert value == value_too
    assert_same(slope, slope_too)


# ---------------------------------------------------------------------------- round trip


def test_nothing_changes_on_the_way(tmp_path):
    one, other = tmp_path / "model.ogp", tmp_path / "again.ogp"
    for name, (estimator, inputs, y, weights, new) in CASES.items():
        with about(name):
            model = clone(estimator).fit(inputs, y, weights)
            assert model.save(one) is None
            loaded = load(one)
            assert type(loaded) is type(model)
            assert_same_model(model, loaded, new)
            loaded.save(other)
            assert other.read_bytes() == one.read_bytes()


def test_every_estimator_comes_back_and_equal_models_make_equal_files(tmp_path):
    saved = set()
    one, other = tmp_path / "model.ogp", tmp_path / "again.ogp"
    for name, make in saved_models.MODELS.items():
        with about(name):
            model = make()
            saved.add(type(model))
            model.save(one)
            loaded = load(one)
            assert type(loaded) is type(model)
            assert saved_models.predictions(loaded) == saved_models.predictions(model)
            for again in (loaded, make()):
                again.save(other)
                assert other.read_bytes() == one.read_bytes()
    estimators = {cls for tag, cls in registry.tags().items() if tag.startswith("estimator.")}
    assert saved == estimators


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


def test_paths_and_ranges_come_back_as_text_and_lists(tmp_path):
    model = fixed(categories=range(4)).fit(X, CODES).set_params(checkpoint=tmp_path / "sites.npz")
    model.save(tmp_path / "model.ogp")
    loaded = load(tmp_path / "model.ogp")
    assert_same(loaded.categories, [0, 1, 2, 3])
    assert_same(loaded.checkpoint, str(tmp_path / "sites.npz"))
    assert_same(loaded.predict_proba(X_NEW), model.predict_proba(X_NEW))


def test_a_memory_map_is_saved_with_its_values(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = fixed(decision=np.load(tmp_path / "X.npy", mmap_mode="r")[:3, :3] ** 2)
    model.fit(mapped, CODES).save(tmp_path / "model.ogp")
    (tmp_path / "X.npy").unlink()
    loaded = load(tmp_path / "model.ogp")
    assert type(loaded.decision) is np.ndarray
    assert_same(loaded.category_proba(X_NEW), fixed().fit(X, CODES).category_proba(X_NEW))


def test_an_estimator_inside_another_need_not_be_fitted(tmp_path):
    table = {"a": X[:, 0], "b": X[:, 1]}
    TableModel(gp(Matern(), tol=1e-5)).fit(table, CODES).save(tmp_path / "model.ogp")
    inside = load(tmp_path / "model.ogp").classifier
    assert inside.tol == 1e-5
    assert not hasattr(inside, "kernel_")


def test_the_file_has_no_square_matrix(path):
    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("model.json"))
        arrays = [np.load(io.BytesIO(archive.read(n))) for n in archive.namelist()[1:]]
    assert document["format"] == "ordinalgp-model"
    assert document["schema"] == 2
    assert document["library"] == ordinalgp.__version__
    assert document["tag"] == "estimator.gp"
    assert max(array.size for array in arrays) <= X.size


def there_and_back(value):
    encoder = Encoder()
    text = json.dumps(encoder.encode(value, "here"), allow_nan=False)
    return Decoder(lambda name: Stored(encoder.arrays[name])).decode(json.loads(text))


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.floats().map(np.float64),
    st.floats(width=32).map(np.float32),
    st.integers(0, 255).map(np.uint8),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.booleans().map(np.bool_),
    st.lists(st.floats(), max_size=3).map(np.array),
    st.lists(st.text(max_size=3), max_size=3).map(lambda words: np.array(words, dtype=object)),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from(["a", "b_", "C1", "a key: $"]), inner, max_size=3),
        inner.map(lambda value: ConstantKernel(value, "fixed")),
    ),
    max_leaves=6,
)


@given(VALUES)
def test_values_survive_json(value):
    assert_same(there_and_back(value), value)


KERNELS = {
    "Additive": Additive(np.array([0.5, 2.0]), "fixed", size=2),
    "ARDLinear": ARDLinear([1.0, 2.0]),
    "CompoundKernel": sk.CompoundKernel([RBF(), WhiteKernel()]),
    "ConstantKernel": ConstantKernel(2.0, (0, np.inf)),
    "Correlation": Correlation(),
    "DotProduct": DotProduct(0.5, "fixed"),
    "ExpSineSquared": sk.ExpSineSquared(1.0, 2.0),
    "Exponential": Exponential(np.array([0.5, 2.0]), np.array([[0.1, 10.0], [1.0, 5.0]])),
    "Exponentiation": RBF() ** 1.5,
    "Independent": Independent(),
    "Matern": Matern(np.array([1.0, 2.0]), np.array([[1, 2], [3, 4.0]]), nu=np.inf),
    "PairwiseKernel": sk.PairwiseKernel(metric="poly", pairwise_kernels_kwargs={"degree": 2}),
    "PerColumn": PerColumn(RBF([1.0, 2.0]), np.array([0, 1, 1])),
    "Product": RBF() * Matern(),
    "Projected": Projected(RBF([1.0, 2.0]), np.eye(3, 2)),
    "RBF": RBF(np.float64(1.5)),
    "RationalQuadratic": RationalQuadratic(),
    "Sum": RBF() + WhiteKernel() + 1.0,
    "WhiteKernel": WhiteKernel(),
}


def test_every_kernel_survives():
    assert KERNELS.keys() == registry.KERNELS.keys()
    assert set(ordinalgp.kernels.__all__) & KERNELS.keys() == {
        name
        for name in ordinalgp.kernels.__all__
        if isinstance(getattr(ordinalgp.kernels, name), type)
    }
    for name, kernel in KERNELS.items():
        with about(name):
            assert_same(there_and_back(kernel), kernel)


# ---------------------------------------------------------------------- what classes declare


def declares(hint):
    """Whether an annotation says enough for a file's value to be checked against it."""
    base, marks = (
        (hint.__origin__, hint.__metadata__)
        if typing.get_origin(hint) is typing.Annotated
        else (hint, (Axes(),))
    )
    assert len(marks) == 1
    origin, arguments = typing.get_origin(base), typing.get_args(base)
    match marks[0]:
        case Tagged(group):
            return group == "kernel" or any(tag.startswith(f"{group}.") for tag in registry.tags())
        case Plain():
            return base is typing.Any or origin in (list, tuple)
        case Axes(names, _, _, kinds) if origin is np.ndarray:
            scalar = typing.get_args(arguments[1])[0]
            known = kinds or (scalar is not typing.Any and np.dtype(scalar).kind)
            return bool(names) and bool(known) and set(known) <= set(NPY_KINDS + "O")
        case Axes(names) if names:
            return False  # axes of what is no array
    if origin in (types.UnionType, typing.Union):
        rest = [each for each in arguments if each is not type(None)]
        return all(map(declares, rest)) and (len(rest) == 1 or all(map(is_dataclass, rest)))
    if origin in (list, tuple):
        return arguments[-1] in (..., arguments[0]) and declares(arguments[0])
    if is_dataclass(base):
        return base in registry.tags().values()
    return origin is typing.Literal or base in (float, int, bool, str)


def test_every_saved_field_says_what_it_may_hold():
    for tag, cls in registry.tags().items():
        form = registry.record_of(cls)
        if tag.startswith("estimator."):
            continue
        assert is_dataclass(form), f"{tag} is saved field by field, but has none"
        assert form.__dataclass_params__.frozen, f"{tag} is not frozen"
        hints = typing.get_type_hints(form, include_extras=True)
        for name in registry.saved_fields(form):
            assert declares(hints[name]), f"{tag}.{name} is {hints[name]}"


def test_every_public_estimator_has_a_tag():
    public = {getattr(ordinalgp, name) for name in ordinalgp.__all__}
    public = {each for each in public if isinstance(each, type) and issubclass(each, BaseEstimator)}
    tagged = {cls for tag, cls in registry.tags().items() if tag.startswith("estimator.")}
    assert public | {TableModel} == tagged


def test_a_tag_belongs_to_one_class():
    with pytest.raises(ValueError, match=r"The tag 'estimator.gp' belongs to OrdinalGPClassifier"):
        registry.saved_as("estimator.gp")(type("Other", (), {}))


# -------------------------------------------------------------------------------- golden files


def test_files_of_this_schema_predict_what_they_did():
    expected = json.loads((saved_models.GOLDEN / "predictions.json").read_text(encoding="utf-8"))
    assert expected.keys() == saved_models.MODELS.keys()
    for name, methods in expected.items():
        with about(name):
            found = saved_models.predictions(load(saved_models.GOLDEN / f"{name}.ogp"))
            assert found.keys() == methods.keys()
            for method, values in methods.items():
                if isinstance(np.ravel(values)[0], str):
                    assert found[method] == values
                else:
                    # A solution is rounded relative to its largest part (many items).
                    close = {"rtol": 1e-9, "atol": 1e-9 * np.abs(values).max()}
                    assert_allclose(found[method], values, **close, err_msg=method)


# -------------------------------------------------------------------------------- saving


class MyKernel(RBF):
    pass


class SameName(RBF):
    pass


SameName.__name__ = "RBF"


def my_optimizer(obj_func, initial_theta, bounds):
    return initial_theta, obj_func(initial_theta)[0]


def test_what_a_file_cannot_hold_is_not_written(tmp_path):
    for params, reason in (
        ({"kernel": MyKernel()}, r"params.kernel is MyKernel\(.* which a model file cannot hold"),
        ({"kernel": ConstantKernel() * SameName()}, "params.kernel.k2 is"),
        ({"kernel": sk.PairwiseKernel(metric=np.dot)}, "params.kernel.metric is"),
        ({"optimizer": my_optimizer}, "params.optimizer is .* Replace it with set_params"),
        ({"verbose": np.longdouble(0)}, "params.verbose is"),
        ({"n_jobs": {1: "a key"}}, "params.n_jobs is"),
        ({"categories": pd.Index([0, 1, 2])}, "params.categories is Index.* load a pickle only if"),
        ({"categories": np.array([RBF(), 1], dtype=object)}, "params.categories is array"),
        ({"categories": {0, 1}}, "params.categories is {0, 1} of type set"),
    ):
        model = fixed().fit(X, CODES).set_params(**params)
        with about(params), pytest.raises(TypeError, match=reason):
            model.save(tmp_path / "model.ogp")
        assert list(tmp_path.iterdir()) == []


def test_invalid_parameters_are_not_written(fitted, tmp_path):
    for params, reason in (
        ({"inference": "guess"}, "inference must be one of"),
        ({"decision": np.ones((2, 2))}, r"must have shape \(4, 4\)"),
    ):
        model = pickle.loads(pickle.dumps(fitted)).set_params(**params)
        with pytest.raises(ValueError, match=reason):
            model.save(tmp_path / "model.ogp")
    assert list(tmp_path.iterdir()) == []


def test_a_fitted_kernel_of_ones_own_is_not_written(tmp_path):
    model = gp(MyKernel(), optimizer=None).fit(X, CODES).set_params(kernel=None)
    with pytest.raises(TypeError, match=r"result.model.task.kernel is MyKernel"):
        model.save(tmp_path / "model.ogp")


def test_subclasses_and_unfitted_estimators_are_not_written(tmp_path):
    class Mine(OrdinalGPClassifier):
        pass

    with pytest.raises(TypeError, match=r"Mine cannot be saved, only .*OrdinalGPClassifier"):
        Mine().fit(X, CODES).save(tmp_path / "model.ogp")
    for cls in registry.tags().values():
        if issubclass(cls, BaseEstimator):
            with about(cls), pytest.raises(NotFittedError):
                cls().save(tmp_path / "model.ogp")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_named(fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no folder .*nowhere.* Create it first"):
        fitted.save(tmp_path / "nowhere" / "model.ogp")


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("old", [None, b"precious"])
def test_a_failure_leaves_the_folder_as_it_was(fitted, tmp_path, monkeypatch, step, old):
    target = tmp_path / "model.ogp"
    if old is not None:
        target.write_bytes(old)
    for error in (OSError("disk full"), KeyboardInterrupt("disk full")):

        def fail(*args, error=error):
            raise error

        monkeypatch.setattr(os, step, fail)
        with pytest.raises(type(error), match="disk full"):
            fitted.save(target)
        assert [p.read_bytes() for p in tmp_path.iterdir()] == ([] if old is None else [old])


def test_a_file_that_cannot_be_replaced_is_left_and_named(fitted, tmp_path, monkeypatch):
    """Windows replaces no file that another program has open."""
    target = tmp_path / "model.ogp"
    target.write_bytes(b"precious")

    def refuse(*args):
        raise PermissionError(13, "Access is denied")

    monkeypatch.setattr(os, "replace", refuse)
    told = r"model\.ogp' cannot be replaced: Access is denied\. .* close it there"
    with pytest.raises(PermissionError, match=told):
        fitted.save(target)
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"precious"]


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
def test_a_process_killed_while_writing_leaves_the_old_file(fitted, tmp_path):
    fitted.save(tmp_path / "model.ogp")
    before = (tmp_path / "model.ogp").read_bytes()
    script = (
        "import os, signal, sys, ordinalgp\n"
        "os.replace = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\n"
        "ordinalgp.load(sys.argv[1]).save(sys.argv[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "model.ogp"], check=False)
    assert done.returncode == -9
    assert (tmp_path / "model.ogp").read_bytes() == before
    assert_same_model(fitted, load(tmp_path / "model.ogp"), X_NEW)


@pytest.mark.skipif(os.name == "nt", reason="rights of Unix")
def test_a_file_is_replaced_with_its_rights_and_through_links(fitted, tmp_path):
    target, link = tmp_path / "model.ogp", tmp_path / "latest.ogp"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    fitted.save(link)
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert_same_model(fitted, load(target), X_NEW)


def test_what_deflates_too_well_is_stored(tmp_path):
    points = np.zeros((3_750_000, 3))  # 90 MB become 90 kB, which a reader takes for a bomb
    fixed().fit(X, CODES).set_params(inducing=points).save(tmp_path / "model.ogp")
    assert (tmp_path / "model.ogp").stat().st_size > points.nbytes
    assert load(tmp_path / "model.ogp").inducing.shape == points.shape


def test_too_many_names_are_not_written(tmp_path):
    model = fixed().fit(X, CODES).set_params(categories=["name"] * 800_000)
    with pytest.raises(ValueError, match=r"16 MB or 750,000 values.* fewer or shorter names"):
        model.save(tmp_path / "model.ogp")
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------- loading


def edit(path, change):
    """Apply ``change`` to the document."""
    members = mutants.members_of(path)
    document = json.loads(members["model.json"])
    change(document)
    mutants.write_members(path, members | {"model.json": json.dumps(document).encode()})


def put(path, name, content):
    mutants.write_members(path, mutants.members_of(path) | {name: content})


def assert_refused(path, reason):
    """A ValueError with its reason, its advice and the path; the file stays as it is."""
    before = path.read_bytes()
    with about(reason), pytest.raises(ValueError, match=reason) as caught:
        load(path)
    assert type(caught.value) is ValueError
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def assert_each_refused(path, change, cases):
    """Refuse a good file after ``change(path, *case)``, for the reason that the case ends with."""
    whole = path.read_bytes()
    for *case, reason in cases:
        path.write_bytes(whole)
        change(path, *case)
        assert_refused(path, reason)


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file .*none.ogp.* Check the path"):
        load(tmp_path / "none.ogp")


def test_other_files_are_refused(path):
    for content in (b"", b"PK", b"not a zip at all", b"{}"):
        path.write_bytes(content)
        assert_refused(path, "it is not a zip file, so estimator.save did not write it. Check")


def test_a_pickle_is_refused_and_not_run(path, tmp_path):
    marker = tmp_path / "marker"
    path.write_bytes(pickle.dumps(Payload(marker)))
    assert_refused(path, "it is not a zip file")
    assert not marker.exists()


def test_a_pickle_inside_an_array_is_refused_and_not_run(path, tmp_path):
    marker, name = tmp_path / "marker", "arrays/result.model.sites.tau.npy"
    array = np.full(24, None)
    array[0] = Payload(marker)
    put(path, name, mutants.npy(array, allow_pickle=True))
    assert_refused(path, "sites.tau.npy has dtype object")
    put(path, name, pickle.dumps(Payload(marker)))
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
    mutants.write_members(path, {"readme.txt": b"hello"})
    assert_refused(path, "it is a zip file without model.json, so not a model. Check the path")


def test_garbage_for_a_document_is_refused(path):
    cases = (
        (b"{", "JSONDecodeError"),
        (b"\xff\xfe\xff", "UnicodeDecodeError"),
        (b"[" * 200_000, "RecursionError"),
        (b'{"a":' * 200_000, "RecursionError"),
        (b"[]", "does not have the format 'ordinalgp-model'"),
        (b'{"format": "ordinalgp-model"}', "KeyError: 'schema'"),
    )
    assert_each_refused(path, lambda path, text: put(path, "model.json", text), cases)


NEWER = r"written by a newer version of ordinalgp \(9.9; schema 3, .* reads 2\). Upgrade"
OLDER = r"written by an older version of ordinalgp \(0.0.9; schema 1, .* reads 2\). Fit the model"


def test_a_document_that_save_did_not_write_is_refused(path):
    cases = (
        ({"format": "other"}, "does not have the format 'ordinalgp-model'. Check the path"),
        ({"schema": 3, "library": "9.9"}, NEWER),
        ({"schema": 1, "library": "0.0.9"}, OLDER),
        ({"schema": 1, "library": "0.0.9", "class": "OrdinalGPClassifier", "state": {}}, OLDER),
        ({"schema": 0}, "unknown schema 0"),
        ({"schema": 0.5}, "unknown schema 0.5"),
        ({"schema": None}, "unknown schema None"),
        ({"tag": "estimator.forest"}, "its part 'estimator.forest' is unknown to this version"),
        ({"tag": "os"}, "os is no estimator"),
        ({"tag": "sites"}, "sites is no estimator"),
        ({"tag": ["estimator.gp"]}, "damaged or inconsistent"),
        ({"params": None}, "damaged or inconsistent"),
        ({"params": {"colour": 1}}, "unexpected keyword argument 'colour'"),
        ({"params": {"inference": "guess"}}, "inference must be one of"),
        ({"params": {"kernel": "RBF"}}, "kernel must be one scikit-learn kernel"),
        ({"result": None}, "it has no result"),
        ({"result": {}}, "the result is not a classifier's"),
        ({"result": {"$": "eval", "code": "1"}}, "unknown kind of value 'eval'"),
    )

    def change(path, values):
        edit(path, lambda document: document.update(values))

    assert_each_refused(path, change, cases)


def array(name):
    return {"$": "array", "name": name}


def kernel(name, **params):
    return {"$": "kernel", "class": name, "params": params}


def record(tag, **fields):
    return {"$": "record", "tag": tag, "fields": fields}


def inside(document, place):
    """The fields of a record inside the result, by names with dots."""
    fields = document["result"]["fields"]
    for name in filter(None, place.split(".")):
        fields = fields[name]["fields"]
    return fields


FIXED = {"length_scale_bounds": "fixed"}
NAN = {"$": "float", "value": "nan"}


def test_a_wrong_part_is_refused(path):
    task, link = "model.task", "model.task.likelihood"
    cases = (
        (task, "kernel", kernel("Popen", args="ls"), "its kernel 'Popen' is unknown .* Upgrade"),
        (task, "kernel", kernel("KernelOperator"), "its kernel 'KernelOperator' is unknown"),
        (task, "kernel", kernel("RBF", width=1.0), "unexpected keyword argument 'width'"),
        (task, "kernel", kernel("RBF", length_scale=0.0), "kernel is not what it must be"),
        (task, "kernel", kernel("RBF", length_scale=NAN, **FIXED), "kernel is not what it must be"),
        (task, "kernel", kernel("RBF", length_scale=0.0, **FIXED), "damaged or inconsistent"),
        (task, "kernel", kernel("RBF", length_scale="wide"), "damaged or inconsistent"),
        (task, "kernel", kernel("RBF", length_scale=[1.0, 2.0]), "damaged or inconsistent"),
        (task, "kernel", kernel("CompoundKernel", kernels=[]), "damaged or inconsistent"),
        (task, "kernel", "RBF", "kernel is not what it must be"),
        (task, "kernel", None, "kernel is not what it must be"),
        (task, "likelihood", record("sites"), "likelihood is not what it must be"),
        (task, "projection", record("projection.identity", n=10**12), "the projection and the"),
        (task, "projection", record("projection.identity", n=True), "n must be a whole number"),
        (task, "max_sweeps", 0, "max_sweeps must lie from 1"),
        (task, "max_sweeps", 1.5, "max_sweeps must be a int"),
        (task, "objective", "laplace bound", "objective is not what it must be"),
        ("model.sites", "tau", array("nothing"), "no item named 'arrays/nothing.npy'"),
        ("model.sites", "tau", array("../../../etc/passwd"), "no item named"),
        ("model.sites", "nu", array("result.model.sites.tau"), "has two places in model.json"),
        ("model.sites", "tau", 1.0, "tau must be an array"),
        (link, "noise", 0.0, "noise must lie from"),
        (link, "noise", NAN, "noise must lie from"),
        (link, "noise", {"$": "float", "value": "1.0"}, "unknown kind of value 'float'"),
        (link, "noise", {"$": "scalar", "dtype": "O", "value": 1}, "unknown kind of .* 'scalar'"),
        (link, "noise", {"$": "scalar", "dtype": "V99", "value": 1}, "unknown kind of .* 'scalar'"),
        (link, "noise", {"$": "scalar", "dtype": "float64", "value": [1]}, "is not a number"),
        (link, "first", {"$": "float", "value": "-inf"}, "first must lie from"),
        ("model.summary", "converged", "yes", "converged must be a bool"),
        ("model.summary", "extra", 1, "missing or unknown: .'extra'"),
        ("model", "summary", record("sites"), "damaged or inconsistent"),
        ("", "signature", kernel("RBF"), "signature is not what it must be"),
        ("", "model", record("estimator.gp"), "model is not what it must be"),
    )

    def change(path, place, key, value):
        edit(path, lambda document: inside(document, place).update({key: value}))

    assert_each_refused(path, change, cases)


N = len(X)


def test_a_wrong_array_is_refused(path):
    cases = (
        ("sites.tau", np.ones(N - 1), r"tau has kind f and shape \(23,\)"),
        ("sites.tau", np.ones((N, 1)), r"tau has kind f and shape \(24, 1\)"),
        ("sites.tau", np.ones(N, dtype=int), "tau has kind i"),
        ("sites.tau", np.full(N, -1.0), "tau must lie from 0.0"),
        ("sites.tau", np.full(N, np.inf), "tau must lie from 0.0 to below inf"),
        ("sites.nu", np.full(N, np.nan), "nu must lie from"),
        ("task.counts", np.zeros(N), "counts must lie from"),
        ("task.y", np.full(N, 4), "y must lie from 0 to below 4"),
        ("task.y", np.full(N, -1), "y must lie from 0 to below 4"),
        ("task.y", np.zeros(N), "y has kind f"),
        ("rows.observation", np.full(N, N), "observation must lie from -1 to below 24"),
        ("rows.observation", np.full(N, -1), "the rows that were left out disagree"),
        ("task.likelihood.gaps", np.array([1.0, 0.0]), "gaps must lie from"),
        ("task.likelihood.gaps", np.array([1.0]), "damaged or inconsistent"),
        ("task.X", np.full((N, 3), np.nan), "damaged or inconsistent"),
        ("task.X", np.ones((N, 2)), "damaged or inconsistent"),
        ("task.X", np.ones(N), r"X has kind f and shape \(24,\)"),
        ("task.X", np.ones((N, 3), dtype=[("a", "f8")]), "task.X.npy has dtype"),
    )

    def change(path, name, content):
        assert f"arrays/result.model.{name}.npy" in mutants.members_of(path)
        put(path, f"arrays/result.model.{name}.npy", mutants.npy(content))

    assert_each_refused(path, change, cases)


def test_wrong_labels_are_refused(path):
    cases = (
        ("categories", np.array(["a", "b", "c", "d"]), "categories and classes disagree"),
        ("categories", np.array([*LEVELS[:3], "low"]), "categories and classes disagree"),
        ("classes", np.array(["low", "odd"]), "categories and classes disagree"),
        ("classes", np.array([], dtype="U1"), "categories and classes disagree"),
        ("classes", np.array(["low"] * 3), "categories and classes disagree"),
    )

    def change(path, name, content):
        put(path, f"arrays/result.signature.{name}.npy", mutants.npy(content))

    assert_each_refused(path, change, cases)


@pytest.mark.parametrize(
    "value", [kernel("RBF"), {"a": 1}, [array("x")], record("sites"), [[], {}], 3, "items", None]
)
def test_ids_are_plain(value, tmp_path):
    saved_models.MODELS["collaborative"]().save(tmp_path / "model.ogp")
    edit(tmp_path / "model.ogp", lambda document: inside(document, "items").update(values=value))
    assert_refused(tmp_path / "model.ogp", r"ids.distinct.values is not what it must be")


def test_lengths_of_sparse_rows_cannot_overflow(tmp_path):
    path, name = tmp_path / "model.ogp", "arrays/result.model.task.projection.lengths.npy"
    saved_models.MODELS["preference-relations"]().save(path)
    put(path, name, mutants.npy(np.array([2**62] * 4)))
    assert_refused(path, "damaged or inconsistent")


# -------------------------------------------------------------------------------- bounds


def test_a_false_shape_is_refused_before_memory_is_taken(path):
    reason = r"sites.tau.npy of shape .* needs -?\d+ bytes, but has 192"

    def change(path, shape):
        put(path, "arrays/result.model.sites.tau.npy", mutants.claimed(shape, "<f8", bytes(8 * N)))

    shapes = [(10**15,), (N + 1,), (N - 1,), (-1,), (10**10, 0)]
    assert_each_refused(path, change, [(shape, reason) for shape in shapes])
    put(path, "arrays/result.model.task.X.npy", mutants.claimed((10**10, 0), "<f8", b""))
    assert_refused(path, r"X.npy has shape \(10000000000, 0\), but no values")


def test_a_bomb_is_refused_before_it_is_unpacked(path):
    whole = bytearray(path.read_bytes())
    size_field = whole.index(b"PK\x01\x02") + 24
    whole[size_field : size_field + 4] = struct.pack("<I", 4 * 10**9)
    path.write_bytes(bytes(whole))
    assert_refused(path, r"claim 4.0 GB, more than .* Do not trust its source")


def test_tricks_of_zips_are_refused(path):
    members = mutants.members_of(path)
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        mutants.write_members(path, members, method)
        assert_refused(path, "model.json is compressed in an unknown way")
    mutants.write_members(path, [*members.items(), *members.items()])
    assert_refused(path, "two of its members have the same name")
    mutants.write_members(path, members | {f"{i:0200}": b"" for i in range(6000)})
    assert_refused(path, "its directory is larger than any model's. Do not trust its source")


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


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the largest memory")
def test_refusing_takes_little_memory(path, tmp_path):
    """The largest files that pass every bound, in a process of its own."""
    mutants.write_bombs(path, tmp_path)
    script = "import sys; from tests import mutants; mutants.print_peaks(sys.argv[1:])"
    bombs = sorted(tmp_path.glob("bomb-*.ogp"))
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, *map(str, bombs)]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    peaks = json.loads(done.stdout)
    assert len(peaks) == len(bombs) >= 19
    for name, megabytes in peaks.items():
        assert megabytes < 200, name


WRONG_AT_THE_END = {
    "byte": {},
    "range": {"rows.observation": np.arange(1, 2_500_001)},
    "rows": {},
    "not a number": {"sites.nu": np.full(2_500_000, np.nan)},
}


@pytest.mark.parametrize("wrong", WRONG_AT_THE_END)
def test_refusing_a_large_file_takes_little_memory(wrong, path, tmp_path):
    """What is wrong in 140 MB is found while their arrays lie on disk."""
    members = mutants.many_rows(mutants.members_of(path), 2_500_000)
    for name, array in WRONG_AT_THE_END[wrong].items():
        members[f"arrays/result.model.{name}.npy"] = mutants.npy(array)
    mutants.write_members(path, members, zipfile.ZIP_STORED)
    if wrong == "byte":
        whole = bytearray(path.read_bytes())
        whole[whole.index(b"task.counts.npy") + 10**7] ^= 1
        path.write_bytes(whole)
    tracemalloc.start()
    try:
        with pytest.raises((ValueError, MemoryError)) as refused:
            load(path)
        peak = tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()
    reasons = {"byte": "Bad CRC-32", "rows": "2500000 rows need about"}
    reasons |= {"range": "rows.index.observation must lie", "not a number": "sites.nu must lie"}
    assert reasons[wrong] in str(refused.value)
    assert peak < 20


def test_a_sample_of_mutants_loads_or_is_refused(tmp_path):
    """``python -m tests.mutants 300`` tries many more, from the same seed."""
    found = []
    for name, kind, number, path in mutants.campaign(tmp_path, 6, seed=0):
        with about(name, kind, number):
            found.append(mutants.outcome(path))
    assert len(found) == 6 * 4 * len(saved_models.MODELS)
    assert sum(each.startswith("refused") for each in found) > len(found) / 2
