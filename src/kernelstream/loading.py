"""Reading whatever was saved."""

from typing import Any

from kernelstream import persistence
from kernelstream.estimators.files import MAX_BYTES, rebuild
from kernelstream.fleet import Fleet

__all__ = ["load"]


def load(path: Any, kernel: Any = None, max_bytes: int | None = MAX_BYTES) -> Any:
    """Read a model, or a fleet, that `save` wrote.

    Nothing that a file says is run. A file that is cut short, changed, from a newer version, or
    that describes no sound model is a `FileError`.

    Parameters
    ----------
    path : str or path-like
    kernel : callable, default=None
        The kernel function, for a model that was saved with one: a file holds no code.
    max_bytes : int or None, default=2**34
        Refuse a model that would take more memory than this. None: no limit.

    Returns
    -------
    KernelClassifier, KernelRegressor, NoveltyDetector or Fleet

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
    header, arrays = persistence.from_bytes(persistence.read(path))
    with persistence.strange_headers(str(path)):
        if header["class"] == "Fleet":
            return Fleet._rebuild(header, arrays, max_bytes)
        return rebuild(header, arrays, kernel, max_bytes)
