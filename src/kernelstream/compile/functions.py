"""Compiled functions, and functions that these may call.

Machine code is found in the user's cache folder, or compiled now and kept there
(`kernelstream.compile.code_files`). It is entered with one table of addresses
(`kernelstream.compile.tables`). Numba is imported only where something must be compiled.
"""

import ctypes
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from kernelstream.compile import code_files
from kernelstream.compile.tables import FAILED, Kind, OtherTypesError, RecordKind, Table, kind_of

__all__ = [
    "Compiled", "checks_bounds", "compiled", "compiles", "declare", "entry_point", "helper",
    "no_message_while_compiling", "note", "seconds_compiling", "stands_in_for",
]  # fmt: skip

_logger = logging.getLogger("kernelstream.compile")

_PACKAGE = __name__.partition(".")[0]


def _switch(name: str) -> bool:
    return os.environ.get(name, "").strip() not in ("", "0")


@cache
def compiles() -> bool:
    """Return whether functions are compiled; not with ``NUMBA_DISABLE_JIT=1``."""
    return not _switch("NUMBA_DISABLE_JIT")


@cache
def checks_bounds() -> bool:
    """Return whether compiled code checks every index, which ``NUMBA_BOUNDSCHECK=1`` asks for."""
    return _switch("NUMBA_BOUNDSCHECK")


def note(name: str) -> Path | None:
    """Return a file for notes about what is kept on disk; None where nothing is kept."""
    place = code_files.folder() if compiles() else None
    return None if place is None else place / name


# --- functions that compiled code calls -----------------------------------------------------------

# What Numba is told of a function before the first one is compiled that may call it.
_declarations: deque[Callable[[Any], None]] = deque()


def declare(tell: Callable[[Any], None]) -> None:
    """Let `tell` be called with `kernelstream.compile.making` before anything is compiled."""
    if compiles():
        _declarations.append(tell)


def helper(
    function: Callable[..., Any] | None = None, *, inlines: bool = False, allocates: bool = False,
    apart: bool = False, any_order: bool = False,
) -> Any:  # fmt: skip
    """Let compiled code call a plain function, compiled with the options of its caller.

    `inlines` puts it, and all that it calls, into the caller. One that makes arrays, or is handed
    new ones by what it calls, must say so by `allocates`. What stays `apart` is never put into a
    caller, and may sum in `any_order`, whatever its callers do: for long work that is rare.
    """
    if function is None:
        return partial(
            helper, inlines=inlines, allocates=allocates, apart=apart, any_order=any_order
        )
    plain: Callable[..., Any] = function
    declare(lambda making: making.add_helper(plain, inlines, allocates, apart, any_order))
    return plain


def stands_in_for(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: a function that says which one compiled code calls instead of `plain`.

    It is given the names of the arguments' types. The function that it answers is put into its
    caller, and compiled as its caller is.
    """

    def register(choose: Callable[..., Any]) -> Callable[..., Any]:
        declare(lambda making: making.add_substitute(plain, choose))
        return choose

    return register


# --- functions that Python calls ------------------------------------------------------------------


def compiled(
    function: Callable[..., Any] | None = None, *, any_order: bool = False, nogil: bool = False,
    fused: bool = False, allocates: bool = False, inlines: bool = False,
) -> Any:  # fmt: skip
    """Decorator: a function that is compiled for the types of its arguments when it is called.

    Arguments are arrays, numbers, and records of such; it returns a number, a flag or nothing.

    Parameters
    ----------
    any_order : bool, default=False
        Whether sums may be taken in any order, several terms at a time.
    nogil : bool, default=False
        Whether several threads of Python may run it at once.
    fused : bool, default=False
        Whether a product and a sum may be rounded once.
    allocates : bool, default=False
        Whether it makes arrays.
    inlines : bool, default=False
        Whether all that it calls is put into it: for loops that pass many arrays at every row.
    """
    if function is None:
        return partial(
            compiled, any_order=any_order, nogil=nogil, fused=fused, allocates=allocates,
            inlines=inlines,
        )  # fmt: skip
    return Compiled(function, any_order, nogil, fused, allocates, inlines)


class Compiled:
    """A compiled function; ``py_func`` is the plain one."""

    def __init__(
        self, function: Callable[..., Any], any_order: bool, nogil: bool, fused: bool,
        allocates: bool, inlines: bool,
    ) -> None:  # fmt: skip
        self.py_func, self.nogil = function, nogil
        self.any_order, self.fused = any_order, fused
        self.allocates, self.inlines = allocates, inlines
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__
        self.__wrapped__ = function
        self._entries: list[Callable[..., Any]] = []
        self.addresses: dict[tuple[Kind, ...], int] = {}
        self._lock = threading.Lock()
        declare(lambda making: making.add_compiled(self))

    def __call__(self, *arguments: Any) -> Any:
        """Call the machine code for arguments of these types."""
        if not compiles():
            return self.py_func(*arguments)
        for entry in self._entries:
            try:
                return entry(*arguments)
            except OtherTypesError:
                continue
        arguments = tuple(map(_aligned, arguments))
        entry = entry_point(self, *arguments)
        self._entries = [entry, *self._entries[:3]]
        return entry(*arguments)

    def address_for(self, kinds: tuple[Kind, ...]) -> int:
        """Return the address of the machine code for arguments of these types."""
        if kinds not in self.addresses:
            with self._lock:
                if kinds not in self.addresses:
                    self.addresses[kinds] = self._made(kinds)
        return self.addresses[kinds]

    def code_name(self, kinds: tuple[Kind, ...]) -> str:
        """Return the name of the code for arguments of these types."""
        where = f"{self.__module__}.{self.__qualname__}:{self.py_func.__code__.co_firstlineno}"
        types = ", ".join(map(str, kinds))
        return code_files.entry_name(where, types, "bounds" if checks_bounds() else "")

    def _made(self, kinds: tuple[Kind, ...]) -> int:
        name = self.code_name(kinds)
        is_kept = _is_ours(self.py_func) and all(map(_is_of_ours, kinds))
        code = code_files.find(name) if is_kept else None
        address = None if code is None else _loaded(code)
        if code is None or address is None:
            # errors of functions from outside, and indices that are checked, have to come through
            may_fail = checks_bounds() or not is_kept

            def make(making: Any) -> code_files.Code:
                made = making.machine_code(self, kinds, name, may_fail)
                if is_kept:
                    code_files.keep(made)
                return made

            code = _compile(make)
            address = _loaded(code)
        if address is None:
            raise RuntimeError(f"{self.__name__} calls functions that are not there: {code.needs}.")
        return address


def _aligned(argument: Any) -> Any:
    """Return a copy of an array that is only read and whose numbers lie at odd places."""
    if isinstance(argument, np.ndarray) and not argument.flags.aligned:
        return argument if argument.flags.writeable else argument.copy()
    return argument


def _loaded(code: code_files.Code) -> int | None:
    address = code_files.load(code)
    if address is None:  # code that makes arrays calls functions of Numba's
        from kernelstream.compile import making

        making.start_runtime()
        address = code_files.load(code)
    return address


def _is_ours(thing: Any) -> bool:
    is_closure = getattr(thing, "__closure__", None) is not None
    return thing.__module__.partition(".")[0] == _PACKAGE and not is_closure


def _is_of_ours(kind: Kind) -> bool:
    """Return whether a kind is made of records of this package alone.

    A part of the user's may change while our source, and with it the folder, stays the same.
    """
    if not isinstance(kind, RecordKind):
        return True
    return (kind.cls is tuple or _is_ours(kind.cls)) and all(map(_is_of_ours, kind.fields))


def entry_point(function: Any, *arguments: Any) -> Callable[..., Any]:
    """Return the machine code of a compiled function for arguments of just these types.

    Arguments are checked at every call; what is the same object as in the call before is not looked
    at again. Each thread writes a table of its own.
    """
    if not compiles():
        return function.py_func
    kinds = tuple(map(kind_of, arguments))
    make = ctypes.CFUNCTYPE if function.nogil else ctypes.PYFUNCTYPE
    run = make(ctypes.c_int64, ctypes.c_void_p)(function.address_for(kinds))
    name, plain = function.__name__, function.py_func
    spare: list[Table] = []

    # a plain function: whoever follows a model's references, to measure it, stops here
    def call(*arguments: Any) -> Any:
        try:
            table = spare.pop()
        except IndexError:
            table = Table(kinds)
        try:
            table.fill(arguments)
        except OtherTypesError:
            raise OtherTypesError(
                f"{name} was compiled for arguments of other types, ranks or layouts: "
                f"{', '.join(map(str, kinds))}."
            ) from None
        run(table.address)
        answer = table.answer()
        if answer is FAILED:
            plain(*arguments)  # which raises the error
            raise RuntimeError(f"{name} has failed in compiled code, and not in plain Python.")
        spare.append(table)
        return answer

    return call


# --- compiling ------------------------------------------------------------------------------------


class _Watch:
    """Measures how long our functions take to compile, and says so while it takes long."""

    patience = 1.0  # seconds

    def __init__(self) -> None:
        self.seconds = 0.0
        self.is_quiet = False

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Note that something is compiled meanwhile."""
        began = time.perf_counter()
        timer = threading.Timer(self.patience, self._say)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            self.seconds += time.perf_counter() - began

    def _say(self) -> None:
        if self.is_quiet:
            return
        if code_files.folder() is None:
            again = "No folder can be written to keep the result."
        else:
            again = "The result is kept; `kernelstream warmup` compiles the Auto estimators."
        _logger.warning(
            "kernelstream compiles this combination of parts, which takes some seconds. %s", again
        )


_watch = _Watch()


@contextmanager
def no_message_while_compiling() -> Iterator[None]:
    """Say nothing while a block compiles: whoever uses this says it better."""
    before, _watch.is_quiet = _watch.is_quiet, True
    try:
        yield
    finally:
        _watch.is_quiet = before


def seconds_compiling() -> float:
    """Return how long this process has been compiling our functions so far."""
    return _watch.seconds


_STACK = 2**26  # bytes: compilers call themselves deeply
_compiling = threading.Lock()


def _compile(make: Callable[[Any], code_files.Code]) -> code_files.Code:
    """Compile on a thread of its own.

    Python interrupts the main thread alone. Had it interrupted Numba, what Numba remembers of types
    and functions would be incomplete, and errors would follow in later calls. So an interrupt ends
    the waiting here, and the compiler finishes what it has begun.
    """
    outcome: list[tuple[code_files.Code | None, BaseException | None]] = []

    def work() -> None:
        try:
            with _compiling, _watch.compiling():
                from kernelstream.compile import making

                while _declarations:
                    _declarations.popleft()(making)
                outcome.append((make(making), None))
        except BaseException as error:
            outcome.append((None, error))

    before = threading.stack_size(_STACK)
    try:
        thread = threading.Thread(target=work, name="kernelstream compiles")
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    code, error = outcome[0]
    if error is not None:
        raise error
    assert code is not None
    return code
