"""Compilation, cached on disk so that a second process starts warm.

Numba notices an edit of the compiled function's own file only, while our rules live in other files.
So the cache folder carries a hash of the whole package's source.
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

__all__ = ["compiled", "entry_point", "seconds_compiling"]

_seconds = 0.0  # spent on compiling so far


def _source_hash() -> str:
    package = Path(__file__).resolve().parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _cache_folder() -> Path | None:
    """A folder that can be written, the user's own if possible; None: compile in every process."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME")
    candidates = [
        Path(chosen) if chosen else None,
        Path(home) if home else Path("~/.cache").expanduser(),
        Path(tempfile.gettempdir()) / f"kernelstream-{os.environ.get('USER', 'user')}",
    ]
    name = _source_hash()
    for candidate in candidates:
        if candidate is None:
            continue
        folder = candidate / "kernelstream" / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return None


_FOLDER = _cache_folder()


def compiled(function: Callable[..., Any], any_order: bool = False, nogil: bool = False) -> Any:
    """``numba.njit`` with the package's own cache folder; ``.py_func`` is the plain function.

    `any_order` lets the compiler sum in any order, several terms at a time. `nogil` lets several
    threads of Python run it at once.
    """
    fastmath = {"reassoc", "contract"} if any_order else False
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    if _FOLDER is not None:
        numba.config.CACHE_DIR = str(_FOLDER)  # type: ignore[attr-defined]  # read while decorating
    try:
        return numba.njit(
            cache=_FOLDER is not None, error_model="numpy", fastmath=fastmath, nogil=nogil
        )(function)
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]


def seconds_compiling() -> float:
    """How long this process has been compiling our functions so far."""
    return _seconds


def entry_point(function: Any, *arguments: Any) -> Callable[..., Any]:
    """The machine code of a compiled function for arguments of just these types.

    Calling it skips finding out the types, which for our nested records takes longer than a step.
    The caller answers for never passing other types.
    """
    global _seconds
    signature = tuple(numba.typeof(argument) for argument in arguments)
    begin = time.perf_counter()
    function.compile(signature)
    _seconds += time.perf_counter() - begin
    code = function.overloads[signature].entry_point

    # a plain function: whoever follows a model's references, to measure it, stops here and does not
    # walk through the compiler
    def call(*arguments: Any) -> Any:
        return code(*arguments)

    return call
