"""A cluster of two processes: the serial answer, also when one of them dies in mid-fit."""

import functools
import os
import signal

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, Matern

from ordinalgp import OrdinalGPClassifier
from ordinalgp.many_rows import block_sites
from ordinalgp.many_rows import dask_rows as _dask
from ordinalgp.many_rows.settings import ManyRowsSettings

distributed = pytest.importorskip("distributed", reason="dask is an extra")
da = pytest.importorskip("dask.array", reason="dask is an extra")
dask = pytest.importorskip("dask", reason="dask is an extra")

pytestmark = pytest.mark.filterwarnings("default")  # dask's own are not ours to mend
N, BLOCK = 2000, 300


def make_data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    f = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] + 0.4 * rng.normal(size=N)
    return X, np.digitize(f, [-0.7, 0.0, 0.7])


X, Y = make_data()


@pytest.fixture(scope="module")
def client():
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    )
    with cluster, distributed.Client(cluster) as connected:
        yield connected


def model(**options):
    kernel = RBF([1.5, 1.5, 10.0])
    made = OrdinalGPClassifier(kernel, inducing=25, random_state=0, **options)
    made.many_rows_settings = ManyRowsSettings(subset_rows=100, sample_rows=300, chunk_rows=BLOCK)
    return made


@pytest.fixture(scope="module")
def serial():
    return model().fit(X, Y)


def assert_same(there, serial):
    assert there.n_iter_ == serial.n_iter_ > 1
    assert_allclose(there.evidence_path_, serial.evidence_path_, rtol=1e-10)
    assert_allclose(there.thresholds_, serial.thresholds_, rtol=1e-10)
    assert_allclose(there.category_proba(X[:200]), serial.category_proba(X[:200]), atol=1e-10)


def blocks(X, y):
    return da.from_array(X, chunks=(BLOCK, 2)), da.from_array(y, chunks=BLOCK)


@pytest.mark.usefixtures("client")
def test_dask_arrays_give_the_serial_answer(serial):
    there = model().fit(*blocks(X, Y))
    assert_same(there, serial)
    assert_array_equal(there.categories_, serial.categories_)
    weighted = model().fit(*blocks(X, Y), da.ones(N, chunks=N))
    assert_same(weighted, serial)


def test_dask_arrays_need_no_cluster(serial):
    assert_same(model().fit(*blocks(X, Y)), serial)


def test_what_travels_does_not_grow_with_the_rows(client, monkeypatch):
    """Between passes the workers keep the sites; a block's answer has the size of the points."""
    run, held = _dask.DaskSweeps.run, []

    def watched(self, sweep):
        sums = run(self, sweep)
        where = client.who_has(distributed.futures_of(self.sites))
        held.append(sorted({worker for workers in where.values() for worker in workers}))
        assert len(where) == -(-N // BLOCK)
        assert sums.precision.shape == (25, 25)
        return sums

    monkeypatch.setattr(_dask.DaskSweeps, "run", watched)
    model(optimizer=None).fit(*blocks(X, Y))
    assert {len(workers) for workers in held} == {2}


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("backend", ["dask", "loky"])
def test_chunk_files_through_joblib_give_the_serial_answer(backend, serial, tmp_path):
    def read(path):
        with np.load(path) as file:
            return file["X"], file["y"]

    paths = []
    for i in range(0, N, BLOCK):
        paths.append(tmp_path / f"{i:05}.npz")
        np.savez(paths[-1], X=X[i : i + BLOCK], y=Y[i : i + BLOCK])

    def factory():
        return [functools.partial(read, path) for path in paths]

    with joblib.parallel_config(backend=backend, n_jobs=2):
        there = model(checkpoint=tmp_path / "sites").fit(factory, None)
    assert_same(there, serial)


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
def test_a_worker_that_dies_changes_nothing(client, serial, tmp_path, monkeypatch):
    armed, died = tmp_path / "armed", tmp_path / "died"

    def read(i):  # one process that reads while this is armed ends at once
        try:
            armed.unlink()
        except FileNotFoundError:
            return X[i : i + BLOCK]
        died.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)

    starts = range(0, N, BLOCK)
    parts = [
        da.from_delayed(dask.delayed(read)(i), (min(BLOCK, N - i), 3), dtype=float) for i in starts
    ]
    run, passes = _dask.DaskSweeps.run, []

    def interrupted(self, sweep):
        passes.append(1)
        if len(passes) == 2:  # the sites of the first pass are on the workers
            armed.touch()
        return run(self, sweep)

    monkeypatch.setattr(_dask.DaskSweeps, "run", interrupted)
    before = {worker["pid"] for worker in client.run(lambda: {"pid": os.getpid()}).values()}
    there = model().fit(da.concatenate(parts), da.from_array(Y, chunks=BLOCK))
    assert int(died.read_text()) in before
    assert_same(there, serial)


# ------------------------------------------------------------------------ neighbours


FEW = slice(0, 600)  # rows for models that predict from neighbours


def near(**options):
    kernel = Matern([1.5, 1.5, 10.0], nu=0.5)
    made = OrdinalGPClassifier(kernel, approximation="neighbours", neighbours=30, **options)
    made.many_rows_settings = ManyRowsSettings(
        subset_rows=100, block_rows=60, halo_rows=30, block_search_rows=120, refine_rows=180
    )
    return made


@pytest.fixture(scope="module")
def serial_near():
    return near().fit(X[FEW], Y[FEW])


def assert_same_neighbours(there, serial):
    assert_allclose(there.evidence_path_, serial.evidence_path_, rtol=1e-10)
    assert_allclose(there.category_proba(X[:200]), serial.category_proba(X[:200]), atol=1e-10)
    assert_allclose(there.loo_proba(), serial.loo_proba(), atol=1e-10)


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("backend", ["dask", "loky"])
def test_blocks_through_joblib_give_the_serial_answer(backend, serial_near):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        there = near(n_jobs=2).fit(X[FEW], Y[FEW])
    assert_same_neighbours(there, serial_near)


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
def test_a_worker_that_dies_in_a_block_changes_nothing(client, serial_near, tmp_path, monkeypatch):
    armed, died = tmp_path / "armed", tmp_path / "died"
    infer = block_sites.infer_block

    def fatal(*given):  # one process that works while this is armed ends at once
        try:
            armed.unlink()
        except FileNotFoundError:
            return infer(*given)
        died.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(block_sites, "infer_block", fatal)
    armed.touch()
    before = {worker["pid"] for worker in client.run(lambda: {"pid": os.getpid()}).values()}
    there = near().fit(*blocks(X[FEW], Y[FEW]))
    assert int(died.read_text()) in before
    assert_same_neighbours(there, serial_near)


def test_labels_and_shapes_of_blocks_are_checked():
    dX, dy = blocks(X, Y)
    wrong = da.from_array(np.where(np.arange(N) == BLOCK + 3, 9, Y), chunks=BLOCK)
    with pytest.raises(ValueError, match=r"Chunk 1, row 3: the label .*9"):
        model(categories=[0, 1, 2, 3]).fit(dX, wrong)
    with pytest.raises(ValueError, match="y must have one value for each of the 2000 rows"):
        model().fit(dX, dy[:-1])
    with pytest.raises(ValueError, match=r"row 0, column 2: .*NaN"):
        model().fit(da.from_array(np.full((N, 3), [1.0, 1.0, np.nan]), chunks=(BLOCK, 3)), dy)
    with pytest.raises(ValueError, match="stay with their workers"):
        model(checkpoint="anywhere").fit(dX, dy)
    with pytest.raises(ValueError, match="X is a dask array"):
        model().set_params(inducing=None).fit(dX, dy)
