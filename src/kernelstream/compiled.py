"""Compilation, cached on disk so that a second process starts warm.

Numba notices an edit of the compiled function's own file only, while our rules live in other files.
So the cache folder carries a hash of the whole package's source. Where that source lies, and since
when, does not matter: all environments of a user share what one of them has compiled.
"""

import gc
import hashlib
import logging
import os
import pickle
import re
import stat
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite.binding import get_host_cpu_name
from numba import types
from numba.core import event
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.core.targetconfig import ConfigStack
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import lower_builtin

from kernelstream.compiler import (
    CountingPieceCompiler,
    PieceCompiler,
    WholeCompiler,
    as_called,
    rebuilt_piece,
    reduced_piece,
)

__all__ = [
    "as_argument",
    "as_caller",
    "calling",
    "check_of",
    "compiled",
    "entry_point",
    "helper",
    "kept",
    "makes_arrays",
    "no_message_while_compiling",
    "seconds_compiling",
    "stands_in_for",
    "type_of",
]

_logger = logging.getLogger("kernelstream.compile")


# Packages that define no compiled function. An edit of their files leaves machine code as it is.
_NEVER_COMPILED = frozenset(["cli", "datasets", "files", "serve", "spark", "streams", "tables"])


def _fingerprint() -> str:
    """Return a hash of all that machine code depends on, except the types of its arguments."""
    package = Path(__file__).resolve().parent
    digest = hashlib.sha256()
    machine = sys.implementation.cache_tag, numba.__version__, get_host_cpu_name()
    digest.update(repr(machine).encode())
    for path in sorted(package.rglob("*.py")):
        inner = path.relative_to(package)
        if inner.parts[0] not in _NEVER_COMPILED:
            digest.update(inner.as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _is_private(folder: Path) -> bool:
    """Return whether only this user, or root, can exchange a folder or anything above it.

    Machine code is executed, so a folder that another user can write is never read.
    """
    if not hasattr(os, "getuid"):  # Windows keeps the folders of a user to that user
        return True
    for place in (folder, *folder.parents):
        status = place.stat()
        others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        is_sticky = place != folder and status.st_mode & stat.S_ISVTX  # nobody else's can be moved
        if status.st_uid not in (os.getuid(), 0) or (others_write and not is_sticky):
            return False
    return folder.stat().st_uid == os.getuid()


def _cache_folder() -> Path | None:
    """Return a writable folder that nobody else can write; None: compile in every process."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME")
    candidates = [
        Path(chosen) if chosen else None,
        Path(home) if home else Path("~/.cache").expanduser(),
        Path(tempfile.gettempdir()) / f"kernelstream-{os.environ.get('USER', 'user')}",
    ]
    name = _fingerprint()
    for candidate in candidates:
        if candidate is None:
            continue
        folder = candidate.absolute() / "kernelstream" / name
        try:
            for place in (*reversed(folder.parents), folder):
                place.mkdir(mode=0o700, exist_ok=True)
            if os.access(folder, os.W_OK) and _is_private(folder.resolve()):
                return folder
        except OSError:
            continue
    return None


_FOLDER = _cache_folder()


def kept(name: str) -> Path | None:
    """A file beside what is kept on disk, for notes about it; None where nothing is kept."""
    compiles = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]
    return _FOLDER / name if _FOLDER is not None and compiles else None


def compiled(
    function: Callable[..., Any], any_order: bool = False, nogil: bool = False, fused: bool = False,
    allocates: bool = False, inlines: bool = False,
) -> Any:  # fmt: skip
    """``numba.njit`` with the package's own cache folder; ``.py_func`` is the plain function.

    `any_order` lets the compiler sum in any order, several terms at a time; `fused` lets it round
    once after a product and a sum. `nogil` lets several threads of Python run it at once. One that
    makes or returns arrays must say so by `allocates`: all others count no references to arrays,
    which their callers keep alive. To count them takes a third of the time to compile.
    `inlines` puts all that it calls into it: for loops that pass many arrays at every row.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        function.py_func = function  # type: ignore[attr-defined]
        return function
    options: dict[str, Any] = {
        "error_model": "numpy", "fastmath": set(_fastmath(any_order, fused)), "nogil": nogil,
        "forceinline": inlines, "_nrt": allocates, "no_cfunc_wrapper": True,
    }  # fmt: skip
    if not allocates:
        options["pipeline_class"] = WholeCompiler
    return _cached(function, options)


def _fastmath(any_order: bool, fused: bool = False) -> frozenset[str]:
    return frozenset(["reassoc", "contract"] if any_order else ["contract"] if fused else [])


# --- functions that compiled code calls -----------------------------------------------------------
# numba.extending has `register_jitable` and `overload_method` for this. What they compile is not
# kept on disk, so that each process would compile all that a new combination of parts has in common
# with the others; and every attribute of every record would be looked for among all methods of all
# rules, which takes a sixth of the time that a loop takes to compile.


def helper(
    function: Callable[..., Any] | None = None, *, inlines: bool = False, allocates: bool = False,
    apart: bool = False, any_order: bool = False,
) -> Any:  # fmt: skip
    """Decorator: a plain function that compiled code may call too, compiled as its caller is.

    `inlines` puts it, and all that it calls, into the caller. One that makes arrays, or is handed
    new ones by what it calls, must say so by `allocates`. What stays `apart` is never put into a
    caller, and may sum in `any_order`, whatever its callers do: for long work that is rare.
    """
    if function is None:
        return partial(
            helper, inlines=inlines, allocates=allocates, apart=apart, any_order=any_order
        )
    if allocates:
        makes_arrays(function)
    plain: Callable[..., Any] = function
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function

    def variant(kinds: Any) -> Any:
        return _variant(plain, _fastmath(any_order)) if apart else as_caller(plain, inlines)

    _make_callable(plain, variant)
    return plain


def stands_in_for(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: a function that says, by types, which one compiled code calls instead of `plain`.

    That one is put into its caller, and compiled as its caller is.
    """

    def register(choose: Callable[..., Any]) -> Callable[..., Any]:
        _make_callable(plain, lambda kinds: as_caller(choose(*kinds), inlines=True))
        return choose

    return register


def _make_callable(plain: Callable[..., Any], variant: Callable[[Any], Any]) -> None:
    """Let compiled code call a function; `variant` answers what it calls, by types."""

    class Called(AbstractTemplate):
        key = plain

        def generic(self, arguments: Any, keywords: Any) -> Any:
            return variant(arguments).get_call_type(self.context, arguments, keywords)

    infer_global(plain, types.Function(Called))
    lower_builtin(plain, types.VarArg(types.Any))(
        calling(lambda signature: variant(signature.args))
    )


def calling(choose: Callable[[Any], Any]) -> Callable[..., Any]:
    """What the compiler writes for a call, where `choose` says what is called, by its signature."""

    def call(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        callee = choose(signature)
        function = as_called(context, callee).get_function(callee, signature)
        context.add_linking_libs(getattr(function, "libs", ()))
        return function(builder, arguments)

    return call


def as_caller(function: Callable[..., Any], inlines: bool = False) -> Any:
    """The compiler's type of a function, with the options of the function that calls it."""
    flags = ConfigStack.top_or_none()
    return _variant(function, frozenset(flags.fastmath.flags), inlines or flags.forceinline)


def _variant(function: Callable[..., Any], fastmath: frozenset[str], inlines: bool = False) -> Any:
    """The compiler's type of a function that compiled code calls, compiled with these options."""
    variant = function, fastmath, inlines
    if variant not in _variants:
        # What makes arrays counts references, so that these are freed. To do so for all arrays of
        # a model at every call takes as long as the rest of a step.
        counts = function in _making_arrays or not _is_of_package(function)
        options: dict[str, Any] = {
            "error_model": "numpy", "fastmath": set(fastmath), "forceinline": inlines,
            "_nrt": counts, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
        }  # fmt: skip
        if _is_of_package(function):
            options["pipeline_class"] = CountingPieceCompiler if counts else PieceCompiler
        folder = "-".join(["called", *sorted(fastmath), *(["inlined"] if inlines else [])])
        _variants[variant] = _cached(function, options, folder)
    return types.Dispatcher(_variants[variant])


_variants: dict[tuple[Any, frozenset[str], bool], Any] = {}
_making_arrays: set[Callable[..., Any]] = set()


def makes_arrays(function: Callable[..., Any]) -> None:
    """Let a function that compiled code calls make arrays; users' functions always may."""
    _making_arrays.add(function)


# --- what is kept on disk -------------------------------------------------------------------------


def _cached(function: Callable[..., Any], options: dict[str, Any], folder: str = "") -> Any:
    """What the compiler makes of a function; on disk, if the function is ours, in `folder`."""
    made = numba.njit(**options)(function)
    if _FOLDER is not None and _is_of_package(function) and function.__closure__ is None:
        is_piece = options.get("pipeline_class") in (PieceCompiler, CountingPieceCompiler)
        made._cache = _Keeper(_FOLDER / folder / function.__module__, function, is_piece)  # noqa: SLF001
    return made


class _Keeper(NullCache):
    """Keeps on disk what was compiled for parts of this package, and nothing else.

    Each result is one file, named by a hash of all that it was made for. Numba keeps two files, of
    which one lists the others and is read and written again for each; and where two processes do so
    at the same time, results of one are lost.

    The folder is that of our source. A part of the user's may change while ours does not; machine
    code made of its old lines would then be taken for that of the new ones.
    """

    def __init__(self, folder: Path, function: Any, is_piece: bool) -> None:
        self._folder = folder
        name = re.sub(r"\W+", "-", function.__qualname__)
        self._stem = f"{name}-{function.__code__.co_firstlineno}"
        self._is_piece = is_piece

    @property
    def cache_path(self) -> str:
        return str(self._folder)

    def load_overload(self, kinds: Any, target: Any) -> Any:
        """What was made for arguments of these types; None, if it must be made again."""
        if ConfigStack.top_or_none() is None:  # else it was done for the function that calls it
            target.refresh()
        try:
            known, kept = pickle.loads(self._path(kinds, target).read_bytes())
        except (FileNotFoundError, EOFError, pickle.UnpicklingError):  # it may not be complete
            return None
        if known != kinds:
            return None
        return (rebuilt_piece if self._is_piece else CompileResult._rebuild)(target, *kept)  # noqa: SLF001

    def save_overload(self, kinds: Any, made: Any) -> None:
        """Keep what was made for arguments of these types."""
        if not all(map(_is_known, kinds)) or made.library.has_dynamic_globals:
            return
        kept = (reduced_piece if self._is_piece else CompileResult._reduce)(made)  # noqa: SLF001
        path = self._path(kinds, made.target_context)
        written = path.with_suffix(f".{uuid.uuid4().hex}")  # which no other process writes
        self._folder.mkdir(parents=True, exist_ok=True)
        written.write_bytes(dumps((kinds, kept)))
        written.replace(path)

    def kept(self) -> list[Path]:
        """The files of all that is kept of this function."""
        return list(self._folder.glob(f"{self._stem}.*.nbc"))

    def _path(self, kinds: Any, target: Any) -> Path:
        made_for = *map(_description, kinds), *_machine_of(target.codegen())
        name = hashlib.sha256("\n".join(made_for).encode()).hexdigest()[:32]
        return self._folder / f"{self._stem}.{name}.nbc"


@cache
def _machine_of(generator: Any) -> tuple[str, ...]:
    """The processor and its instructions, for which a generator of code writes."""
    return tuple(map(str, generator.magic_tuple()))


@cache
def _description(kind: Any) -> str:
    """A type of the compiler in words, which are the same in all processes."""
    record = getattr(kind, "instance_class", None)
    home = "" if record is None else record.__module__
    kinds: Any = kind if isinstance(kind, types.BaseTuple) else ()
    return f"{home} {kind} ({', '.join(map(_description, kinds))})"


def _is_known(kind: Any) -> bool:
    """Whether a type of the compiler is made of records of this package alone."""
    record = getattr(kind, "instance_class", None)
    if record is not None and not _is_of_package(record):
        return False
    return all(map(_is_known, getattr(kind, "types", ())))


# --- entering compiled code without its search for types ------------------------------------------

_LAYOUT_FLAGS = {"C": 0x1, "F": 0x2, "A": 0x0}  # of numpy's array flags, which C code calls so
_ALIGNED, _WRITEABLE = 0x100, 0x400


def entry_point(function: Any, *arguments: Any) -> Callable[..., Any]:
    """The machine code of a compiled function for arguments of just these types.

    Calling it skips Numba's search for the types, which for our nested records takes longer than a
    step. Machine code believes what it is told, so that every array is checked here for its dtype,
    rank and layout; what is the same object as in the call before is not looked at again.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    signature = tuple(map(type_of, arguments))
    function.compile(signature)
    code = function.overloads[signature].entry_point
    are_as_compiled = check_of(arguments)

    # a plain function: whoever follows a model's references, to measure it, stops here and does not
    # walk through the compiler
    def call(*arguments: Any) -> Any:
        if not are_as_compiled(arguments):
            raise TypeError(
                f"{function.__name__} was compiled for arguments of other types, ranks or layouts: "
                f"{', '.join(map(str, signature))}."
            )
        return code(*arguments)

    return call


def type_of(value: Any) -> Any:
    """The compiler's type of an argument.

    Numba has a function for this, which takes five milliseconds for each class of records that it
    has not seen: it asks whether that class belongs to any of those that it knows.
    """
    if isinstance(value, tuple):
        return types.BaseTuple.from_types(tuple(map(type_of, value)), type(value))
    return numba.typeof(value)


def check_of(example: Any) -> Callable[[Any], bool]:
    """A function that tells whether a value has the type of `example`, as compiled code sees it."""
    cls = type(example)
    if isinstance(example, np.ndarray):
        kind = numba.typeof(example)
        dtype, rank = example.dtype, kind.ndim
        wanted = _LAYOUT_FLAGS[kind.layout] | _ALIGNED | (_WRITEABLE if kind.mutable else 0)
        return lambda value: (
            type(value) is cls
            and (value.dtype is dtype or value.dtype == dtype)
            and value.ndim == rank
            and value.flags.num & wanted == wanted
        )
    if not isinstance(example, tuple):
        return lambda value: type(value) is cls
    checks = [check_of(value) for value in example]
    known: list[Any] = [None] * len(checks)  # what was found right before

    def is_tuple(values: Any) -> bool:
        if type(values) is not cls or len(values) != len(checks):
            return False
        for i, value in enumerate(values):
            if value is not known[i]:
                if not checks[i](value):
                    return False
                known[i] = value
        return True

    return is_tuple


def as_argument(values: Any, dtype: Any = np.float64) -> np.ndarray:
    """`values` as an array that compiled code may be given: contiguous, aligned and writeable.

    Read-only arrays (memory maps, broadcasts) are copied, others only where they must be.
    """
    if type(values) is np.ndarray and values.dtype == dtype and values.flags.carray:
        return values
    return np.require(values, dtype, ["C_CONTIGUOUS", "ALIGNED", "WRITEABLE"]).view(np.ndarray)


# --- telling that it compiles ---------------------------------------------------------------------


class _Watch(event.Listener):
    """Measures how long our functions take to compile, and says so while it takes long.

    No garbage is collected meanwhile.
    """

    PATIENCE = 1.0  # seconds

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._began = 0.0
        self._collects = False
        self._timer: threading.Timer | None = None
        self.is_quiet = False
        self._lock = threading.Lock()

    def on_start(self, event: Any) -> None:
        if not _is_ours(event):
            return
        with self._lock:
            self._depth += 1
            if self._depth == 1:  # what this function calls is compiled within
                # a tenth of the time to compile goes into looking for garbage, of which there is
                # little: types and code are kept
                self._collects = gc.isenabled()
                gc.disable()
                self._began = time.perf_counter()
                self._timer = threading.Timer(self.PATIENCE, _say_that_it_compiles)
                self._timer.daemon = True
                self._timer.start()

    def on_end(self, event: Any) -> None:
        if not _is_ours(event):
            return
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._timer is not None:
                self._timer.cancel()
                if self._collects:
                    gc.enable()
                self.seconds += time.perf_counter() - self._began


@contextmanager
def no_message_while_compiling() -> Iterator[None]:
    """Nothing is said while a block compiles: whoever uses this says it better."""
    before, _watch.is_quiet = _watch.is_quiet, True
    try:
        yield
    finally:
        _watch.is_quiet = before


def _is_ours(event: Any) -> bool:
    return _is_of_package(getattr((event.data or {}).get("dispatcher"), "py_func", None))


def _is_of_package(thing: Any) -> bool:
    return getattr(thing, "__module__", "").partition(".")[0] == __name__.partition(".")[0]


def _say_that_it_compiles() -> None:
    if _watch.is_quiet:
        return
    if _FOLDER is None:
        again = "No folder can be written to keep the result."
    else:
        again = "The result is kept; `kernelstream warmup` compiles the Auto estimators beforehand."
    _logger.warning(
        "kernelstream compiles this combination of parts, which takes some seconds. %s", again
    )


_watch = _Watch()
event.register("numba:compile", _watch)


def seconds_compiling() -> float:
    """How long this process has been compiling our functions so far."""
    return _watch.seconds
