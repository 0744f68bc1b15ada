"""The papers' real data sets: from a local folder, else from OpenML."""

import os
from pathlib import Path

from ordinalgp.datasets._local import list_local, read_local
from ordinalgp.datasets._openml import OPENML, read_openml
from ordinalgp.datasets.benchmarks import BenchmarkData, DataUnavailableError

__all__ = ["fetch_benchmark"]


def fetch_benchmark(name: str, data_home: str | os.PathLike[str] | None = None) -> BenchmarkData:
    """Get a data set of the papers from a local folder, else from OpenML.

    Parameters
    ----------
    name : str
        For example "diabetes", "boston_housing", "abalone". An unknown one is answered with a list.
    data_home : path, optional
        Folder with a ``datasets.json``; without it the environment variable ``ORDINALGP_DATA``
        names the folder. A set that is not in the folder, or all of them where there is no folder,
        come from OpenML (scikit-learn's ``fetch_openml``, which keeps a copy). Published labels and
        partitions exist only in the folder.

    Returns
    -------
    BenchmarkData
        Features, raw target, labels in 5 and 10 bins, published labels and partitions.

    Raises
    ------
    DataUnavailableError
        If the set can be had nowhere, or its shape or checksum is not the expected one.

    Examples
    --------
    >>> from ordinalgp.datasets import fetch_benchmark
    >>> data = fetch_benchmark("abalone")  # doctest: +SKIP
    >>> data.features().shape, data.labels[5][:4]  # doctest: +SKIP
    ((4177, 10), array([3, 2, 2, 2]))
    """
    folder = data_home or os.environ.get("ORDINALGP_DATA")
    known = list_local(Path(folder)) if folder else {}
    if folder and name in known:
        return read_local(Path(folder), known[name])
    if name in OPENML:
        return read_openml(name)
    everything = ", ".join(sorted({*known, *OPENML}))
    nowhere = "in a local folder (neither data_home nor ORDINALGP_DATA names one)"
    looked = f"in {folder}" if folder else nowhere
    raise DataUnavailableError(
        f"The data set {name!r} is neither on OpenML nor {looked}. Set data_home or "
        f"ORDINALGP_DATA to a folder that holds it, or choose one of: {everything}."
    )
