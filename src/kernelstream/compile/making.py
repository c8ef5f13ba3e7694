"""Machine code, made by Numba and LLVM."""

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from numba import carray, farray, types
from numba.core.targetconfig import ConfigStack
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_getattr,
    infer_global,
)
from numba.extending import intrinsic, lower_builtin, overload, register_jitable
from numpy.lib.stride_tricks import as_strided

from kernelstream.compile.code_files import Code, host, target
from kernelstream.compile.functions import Compiled, checks_bounds
from kernelstream.compile.passes import (
    CountingPieceCompiler,
    EntryCompiler,
    PieceCompiler,
    as_called,
)
from kernelstream.compile.tables import (
    ANSWER,
    KIND_OF_ANSWER,
    N_RESERVED,
    ArrayKind,
    Kind,
    NumberKind,
    RecordKind,
    n_words,
)

__all__ = [
    "add_compiled", "add_helper", "add_method", "add_substitute", "add_views", "machine_code",
    "start_runtime",
]  # fmt: skip


@cache
def start_runtime() -> None:
    """Let code that makes arrays find what it calls."""
    numba.njit(lambda: None)


def _fastmath(any_order: bool, fused: bool = False) -> frozenset[str]:
    return frozenset(["reassoc", "contract"] if any_order else ["contract"] if fused else [])


# --- functions that compiled code calls -----------------------------------------------------------


def add_helper(
    plain: Callable[..., Any], inlines: bool, allocates: bool, apart: bool, any_order: bool
) -> None:
    """Let compiled code call a function."""
    if allocates:
        _making_arrays.add(plain)

    def variant(kinds: Any) -> Any:
        return _variant(plain, _fastmath(any_order)) if apart else _as_caller(plain, inlines)

    _make_callable(plain, variant)


def add_substitute(plain: Callable[..., Any], choose: Callable[..., Any]) -> None:
    """Let compiled code call what `choose` answers, by types, instead of a function."""
    _make_callable(plain, lambda kinds: _as_caller(choose(*map(str, kinds)), inlines=True))


def add_compiled(function: Compiled) -> None:
    """Let compiled code call a compiled function."""
    if function.allocates:
        _making_arrays.add(function.py_func)
    fastmath = _fastmath(function.any_order, function.fused)
    _make_callable(function, lambda kinds: _variant(function.py_func, fastmath, function.inlines))


def add_method(name: str, allocates: Callable[..., Any] | None) -> None:
    """Let compiled code call the methods of a name of all rules."""
    if allocates is not None:
        _making_arrays.add(allocates)
    if name not in _methods:
        _methods.add(name)
        lower_builtin((_RuleMethods, name), types.BaseNamedTuple, types.VarArg(types.Any))(
            _calling(lambda signature: _method(signature.args[0], name))
        )


def _make_callable(plain: Any, variant: Callable[[Any], Any]) -> None:
    """Let compiled code call a function; `variant` answers what it calls, by types."""

    class Called(AbstractTemplate):
        key = plain

        def generic(self, arguments: Any, keywords: Any) -> Any:
            return variant(arguments).get_call_type(self.context, arguments, keywords)

    infer_global(plain, types.Function(Called))
    lower_builtin(plain, types.VarArg(types.Any))(
        _calling(lambda signature: variant(signature.args))
    )


def _calling(choose: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return the code generator of a call; `choose` selects the callee by signature."""

    def call(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        callee = choose(signature)
        function = as_called(context, callee).get_function(callee, signature)
        context.add_linking_libs(getattr(function, "libs", ()))
        return function(builder, arguments)

    return call


def _as_caller(function: Callable[..., Any], inlines: bool = False) -> Any:
    """Return the compiler's type of a function, with the options of the function that calls it."""
    flags = ConfigStack.top_or_none()
    return _variant(function, frozenset(flags.fastmath.flags), inlines or flags.forceinline)


def _variant(function: Callable[..., Any], fastmath: frozenset[str], inlines: bool = False) -> Any:
    """Return the compiler's type of a function, compiled with these options."""
    variant = function, fastmath, inlines
    if variant not in _variants:
        _variants[variant] = numba.njit(**_options(function, fastmath, inlines))(function)
    return types.Dispatcher(_variants[variant])


def _options(function: Callable[..., Any], fastmath: frozenset[str], inlines: bool) -> Any:
    # What makes arrays counts references, so that these are freed. To do so for all arrays of
    # a model at every call takes as long as the rest of a step.
    is_ours = function.__module__.partition(".")[0] == "kernelstream"
    counts = function in _making_arrays or not is_ours
    options: dict[str, Any] = {
        "error_model": "numpy", "fastmath": set(fastmath), "forceinline": inlines,
        "_nrt": counts, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
    }  # fmt: skip
    if checks_bounds():
        options["boundscheck"] = True
    elif is_ours:
        options["pipeline_class"] = CountingPieceCompiler if counts else PieceCompiler
    return options


_variants: dict[tuple[Any, frozenset[str], bool], Any] = {}
_making_arrays: set[Callable[..., Any]] = set()
_methods: set[str] = set()


@infer_getattr
class _RuleMethods(AttributeTemplate):
    """How the compiler finds the methods of all rules: in the class of the record."""

    key = types.BaseNamedTuple

    def generic_resolve(self, record: Any, name: str) -> Any:  # type: ignore[override]
        is_method = inspect.isfunction(vars(record.instance_class).get(name))
        if name not in _methods or not is_method:
            return None

        class Method(AbstractTemplate):
            key = (_RuleMethods, name)

            # The compiler may use one such type for several callers, whose options differ: which
            # variant of the method they call is asked only here.
            def generic(self, arguments: Any, keywords: Any) -> Any:
                method = _method(record, name)
                signature = method.get_call_type(self.context, (record, *arguments), keywords)
                return None if signature is None else signature.as_method()

        return types.BoundFunction(Method, record)


def _method(record: Any, name: str) -> Any:
    """Return the compiler's type of a record's method."""
    return _as_caller(vars(record.instance_class)[name])


# --- tables, as machine code reads them -----------------------------------------------------------


@cache
def _pointer(dtype: str) -> Any:
    """Return a function that makes an address a pointer to numbers."""
    kind = numba.from_dtype(np.dtype(dtype))

    @intrinsic
    def pointer(typing_context, address):
        def generate(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), generate

    return pointer


def _arguments(kinds: tuple[Kind, ...], scope: dict[str, Any]) -> str:
    """Return the lines of Python that read arguments from a table."""

    def read(kind: Kind, at: int) -> str:
        if isinstance(kind, RecordKind):
            fields = []
            for field in kind.fields:
                fields.append(read(field, at))
                at += n_words(field)
            inner = ", ".join(fields)
            if kind.cls is tuple:
                return f"({inner},)" if fields else "()"
            return f"{_name(kind.cls, scope)}({inner})"
        if isinstance(kind, ArrayKind):
            return _array(kind, at, _name(_pointer(kind.dtype), scope))
        return _number(kind, at)

    found, at = [], N_RESERVED
    for kind in kinds:
        found.append(read(kind, at))
        at += n_words(kind)
    return ", ".join(found)


def _array(kind: ArrayKind, at: int, pointer: str) -> str:
    shape = " ".join(f"w[{at + 1 + axis}]," for axis in range(kind.rank))
    if kind.layout != "A":
        read = "carray" if kind.layout == "C" else "farray"
        return f"{read}({pointer}(w[{at}]), ({shape}))"
    strides = " ".join(f"w[{at + 1 + kind.rank + axis}]," for axis in range(kind.rank))
    return f"as_strided(carray({pointer}(w[{at}]), (1,)), ({shape}), ({strides}))"


def _number(kind: NumberKind, at: int) -> str:
    if kind.dtype in ("int64", "float64"):
        return f"{'w' if kind.dtype == 'int64' else 'v'}[{at}]"
    if kind.dtype == "bool":
        return f"(w[{at}] != 0)"
    return f"np.{kind.dtype}({'v' if kind.dtype.startswith('f') else 'w'}[{at}])"


def _name(thing: Any, scope: dict[str, Any]) -> str:
    name = f"{thing.__name__}_{id(thing)}"
    scope[name] = thing
    return name


def _give(w, v, answer):
    """Write what a function has returned; return whether it did not say no."""
    raise NotImplementedError  # compiled code has its own


@overload(_give)
def _overload_give(w, v, answer):
    if isinstance(answer, types.NoneType):

        def give(w, v, answer):
            w[KIND_OF_ANSWER] = 0
            return 1

    elif isinstance(answer, types.Float):

        def give(w, v, answer):
            v[ANSWER] = answer
            w[KIND_OF_ANSWER] = 3
            return 1

    elif isinstance(answer, types.Boolean | types.Integer):
        number = 1 if isinstance(answer, types.Boolean) else 2

        def give(w, v, answer):
            w[ANSWER] = answer
            w[KIND_OF_ANSWER] = number
            return 1 if answer else 0

    else:
        raise TypeError(f"A compiled function returns a number, a flag or nothing, not {answer}.")
    return give


_ENTER = """
def enter(address):
    w, v = carray(whole(address), ({n},)), carray(real(address), ({n},))
    return give(w, v, function({arguments}))
"""
_ENTER_AND_TRY = """
def enter(address):
    w, v = carray(whole(address), ({n},)), carray(real(address), ({n},))
    try:
        return give(w, v, function({arguments}))
    except Exception:
        w[{failed}] = -1
        return 0
"""


def machine_code(function: Compiled, kinds: tuple[Kind, ...], name: str, may_fail: bool) -> Code:
    """Compile a function for arguments of these kinds, which it reads from a table."""
    scope: dict[str, Any] = {
        "__name__": "kernelstream.compile.entries", "carray": carray, "farray": farray,
        "as_strided": as_strided, "np": np, "give": _give,
        "function": function, "whole": _pointer("int64"), "real": _pointer("float64"),
    }  # fmt: skip
    n = N_RESERVED + sum(map(n_words, kinds))
    source = _ENTER_AND_TRY if may_fail else _ENTER
    exec(source.format(n=n, arguments=_arguments(kinds, scope), failed=KIND_OF_ANSWER), scope)
    options = _options(
        scope["enter"], _fastmath(function.any_order, function.fused), function.inlines
    )
    if "pipeline_class" in options:
        options["pipeline_class"] = EntryCompiler
    del options["no_cpython_wrapper"], options["no_cfunc_wrapper"], options["_nrt"]
    signature = types.int64(types.int64)
    made = numba.cfunc(signature, **options)(scope["enter"])
    return _object_code(made.inspect_llvm(), made.native_name, name)


# --- object code ----------------------------------------------------------------------------------


def _object_code(text: str, given_name: str, name: str) -> Code:
    """Optimize what Numba has written, as one function, and let LLVM make object code of it."""
    module = llvm.parse_assembly(text)
    for function in module.functions:
        if function.name == given_name:
            function.name = name
            function.linkage = llvm.Linkage.external
        elif not function.is_declaration:
            function.linkage = llvm.Linkage.internal
    processor, instructions = host()
    machine = target().create_target_machine(
        cpu=processor, features=instructions, opt=3, codemodel="jitdefault", jit=True
    )
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = True
    # A loop that is worth it takes several numbers at a time anyway. To write out the turns of all
    # others makes code half as long again, and no faster.
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    needs = sorted(set(_called(module)))
    return Code(name, tuple(needs), machine.emit_object(module))


def _called(module: Any) -> Iterator[str]:
    """Yield the functions of other libraries that a module calls."""
    for function in module.functions:
        if function.is_declaration and not function.name.startswith("llvm."):
            yield function.name


# --- views of arrays, moved along in memory -------------------------------------------------------


def add_views(moved: Callable[..., Any]) -> None:
    """Let compiled code move views (`kernelstream.learner.views`)."""

    # with references, without which Numba lets nobody return an array that was made here
    counting: Any = {"_nrt": True}

    @overload(moved, jit_options=counting)
    def _overload_moved(views, m, float_bytes, integer_bytes):
        scope: dict[str, Any] = {"__name__": __name__}
        source = (
            "def move(views, m, float_bytes, integer_bytes):\n"
            "    for_floats, for_integers = m * float_bytes, m * integer_bytes\n"
            f"    return {_moved(views, 'views', scope)}\n"
        )
        exec(source, scope)
        return scope["move"]


def _moved(kind: Any, name: str, scope: dict[str, Any]) -> str:
    """Return the expression that moves a view of a type of Numba."""
    if isinstance(kind, types.BaseTuple):
        record: Any = kind
        inner = "".join(f"{_moved(each, f'{name}[{i}]', scope)}, " for i, each in enumerate(record))
        cls = getattr(kind, "instance_class", None)
        return f"({inner})" if cls is None else f"{_name(cls, scope)}({inner})"
    if not isinstance(kind, types.Array):
        return name  # of an option that is a type and no more
    distance = "for_floats" if isinstance(kind.dtype, types.Float) else "for_integers"
    view = _view(str(kind.dtype), kind.layout)
    return f"{_name(view, scope)}({name}, {distance})"


@cache
def _view(dtype: str, layout: str) -> Any:
    """Return a function that moves an array by bytes. What it returns owns nothing."""
    pointer = _pointer(dtype)
    if layout == "C":

        def view(array, distance):
            return carray(pointer(np.int64(array.ctypes.data) + distance), array.shape)

    else:

        def view(array, distance):
            first = carray(pointer(np.int64(array.ctypes.data) + distance), (1,))
            return as_strided(first, array.shape, array.strides)

    return register_jitable(_nrt=True)(view)
