"""Reading whatever was saved."""

from typing import Any

from kernelstream import committee as _committee  # noqa: F401 (whose estimators files may hold)
from kernelstream.estimators.files import most_bytes, rebuild
from kernelstream.files.bytes import from_bytes, read, strange_headers
from kernelstream.fleet import Fleet, KeyedFleet
from kernelstream.stores import as_device

__all__ = ["load", "load_with_header"]

_FLEETS: dict[str, Any] = {"Fleet": Fleet, "KeyedFleet": KeyedFleet}


def load(path: Any, kernel: Any = None, max_bytes: Any = "auto", device: Any = None) -> Any:
    """Read a model, or a fleet, that `save` wrote.

    Nothing that a file says is run. A file that is cut short, changed, from a newer version, or
    that describes no sound model is a `FileError`.

    Parameters
    ----------
    path : str or path-like
    kernel : callable, default=None
        The kernel function, for a model that was saved with one: a file holds no code.
    max_bytes : int, "auto" or None, default="auto"
        Refuse a model that would take more memory than this, before any is taken: its points with
        the rows that are being learned, its state and its labels. "auto": 1 GiB, or eight times
        the size of the file where that is more. None: no limit.
    device : str, `Device` or None, default=None
        Where the model's points shall live, "cuda", say; files do not say where they were. The
        precision stays that of the file.

    Returns
    -------
    estimator, Fleet or KeyedFleet

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import kernelstream as ks
    >>> model = ks.KernelRegressor().partial_fit([[0.0], [1.0]], [0.0, 1.0])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.ks"
    >>> model.save(path)
    >>> ks.load(path).n_seen_
    2
    """
    return load_with_header(path, kernel, max_bytes, device)[0]


def load_with_header(
    path: Any, kernel: Any = None, max_bytes: Any = "auto", device: Any = None
) -> tuple[Any, dict[str, Any]]:
    """Load a model and its file's header, which may hold more than the model.

    Parameters
    ----------
    path, kernel, max_bytes, device
        As in `kernelstream.load`.

    Examples
    --------
    >>> import tempfile
    >>> import kernelstream as ks
    >>> from kernelstream.loading import load_with_header
    >>> path = tempfile.mkdtemp() + "/model.ks"
    >>> ks.KernelRegressor().partial_fit([[0.0], [1.0]], [0.0, 1.0]).save(path)
    >>> model, header = load_with_header(path)
    >>> model.n_seen_, type(header).__name__
    (2, 'dict')
    """
    content = read(path)
    header, arrays = from_bytes(content)
    limit, chosen = most_bytes(max_bytes, content), as_device(device)
    with strange_headers(str(path)):
        fleet = _FLEETS.get(header["class"])
        if fleet is not None:
            return fleet.rebuild(header, arrays, limit), header
        return rebuild(header, arrays, kernel, limit, chosen), header
