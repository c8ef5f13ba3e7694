"""Calls of compiled code with arguments that stay the same: one after the other, in one call.

Python hands a tuple of records to compiled code, which looks up every array in it: for a single row
that takes as long as the row, and much longer where other work has emptied the processor's cache
meanwhile. A `Call` does so once, and keeps its arguments as the words that machine code takes. What
changes from row to row lies in the arrays.

The compiler of the words' reader is LLVM alone, without optimization: it takes some milliseconds,
and is not kept on disk.
"""

import ctypes
import struct
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock

from kernelstream.compiled import check_of, type_of
from kernelstream.words import WORD, WORDS, word

__all__ = ["Call", "in_one_call"]

_STEP = ir.FunctionType(WORD, [WORDS])  # whether a call answered yes, from its words
_RETURNED = 0  # what machine code of Numba returns where there was no error


class Call:
    """A call of a compiled function, which answers whether to go on, or nothing.

    It keeps its arguments alive. Arrays among them are read and written where they are now.

    Parameters
    ----------
    function : compiled function
    *arguments
        Arrays, numbers, and records of such.

    Examples
    --------
    >>> import numba
    >>> import numpy as np
    >>> from kernelstream.steps import Call, in_one_call
    >>> @numba.njit
    ... def count_down(n):
    ...     n[0] -= 1
    ...     return n[0] >= 0
    >>> n = np.array([3])
    >>> run = in_one_call([Call(count_down, n), Call(count_down, n)])
    >>> run(), run(), n
    (2, 1, array([-1]))
    """

    __slots__ = ("_checks", "_code", "_function", "_kinds", "_places", "_words", "arguments")

    def __init__(self, function: Any, *arguments: Any) -> None:
        # behind plain functions, as in `entry_point`: whoever follows a model's references, to
        # measure it, does not walk through the compiler
        self._function: Callable[[], Any] = lambda: function
        self._kinds: Callable[[], tuple[Any, ...]]
        self.arguments = list(arguments)
        self._words: np.ndarray | None = None

    @property
    def function(self) -> Any:
        """The compiled function."""
        return self._function()

    def replace(self, position: int, argument: Any) -> None:
        """Take another argument of the same type. If this is interrupted, the call is of no use."""
        if self._words is not None and not self._checks[position](argument):
            raise TypeError(
                f"argument {position} of {self.function.__name__} was {self._kinds()[position]}, "
                f"and cannot become {numba.typeof(argument)}."
            )
        self.arguments[position] = argument
        if self._words is not None:
            packed = np.frombuffer(_packed(self._kinds()[position], argument), np.uint64)
            begin = self._places[position]
            self._words[begin : begin + len(packed)] = packed

    def plainly(self) -> bool:
        """Make the call by the function's own lines of Python."""
        answer = self.function.py_func(*self.arguments)
        return answer is None or bool(answer)

    def in_machine_code(self) -> tuple[int, int]:
        """The addresses of the code that reads the words, and of the words."""
        if self._words is None:
            kinds = tuple(map(type_of, self.arguments))
            self._kinds = lambda: kinds
            self.function.compile(kinds)
            made = self.function.overloads[kinds]
            address = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
            pieces = [struct.pack("=Q", address)]
            self._places = []
            self._checks = [check_of(argument) for argument in self.arguments]
            for kind, argument in zip(kinds, self.arguments, strict=True):
                self._places.append(sum(map(len, pieces)) // 8)
                pieces.append(_packed(kind, argument))
            words = np.frombuffer(bytearray(b"".join(pieces)), np.uint64)
            self._code = _reader_of(made, len(words) - 1)
            self._words = words
        return self._code, self._words.ctypes.data


def in_one_call(calls: Sequence[Call]) -> Callable[[], int]:
    """A function that makes these calls in order, up to one that answers no.

    It answers how many said yes. Nothing can interrupt it, and it does not let go of Python's lock.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return lambda: one_by_one(calls)
    calls = list(calls)
    program = np.array([word for call in calls for word in call.in_machine_code()], np.uint64)
    kept, run, place, n = (calls, program), _runner(), program.ctypes.data, len(calls)

    def go() -> int:
        assert kept
        return run(place, n)

    return go


def one_by_one(calls: Sequence[Call]) -> int:
    """The same by the functions' own lines of Python."""
    return next((i for i, call in enumerate(calls) if not call.plainly()), len(calls))


# --- arguments as words ---------------------------------------------------------------------------


def _packed(kind: Any, value: Any) -> bytes:
    """A value as machine code takes it, in words of eight bytes."""
    if isinstance(kind, types.Array):  # without an owner: `Call` keeps it alive
        place, _ = value.__array_interface__["data"]
        numbers = 0, 0, value.size, value.itemsize, place, *value.shape, *value.strides
        return struct.pack(f"={len(numbers)}q", *numbers)
    if isinstance(kind, types.BaseTuple):
        inner: list[Any] = list(kind)  # type: ignore[call-overload]
        return b"".join(_packed(*pair) for pair in zip(inner, value, strict=True))
    if isinstance(kind, types.Float):
        return struct.pack("=d" if kind.bitwidth == 64 else "=f4x", value)
    if isinstance(kind, types.Boolean | types.Integer):
        return struct.pack("=q" if value < 2**63 else "=Q", value)
    raise TypeError(f"{value!r} cannot be kept as an argument of compiled code.")


# --- code that reads them -------------------------------------------------------------------------


class _Assembler:
    """LLVM, which makes machine code at once."""

    def __init__(self) -> None:
        self.triple = llvm.get_process_triple()
        machine = llvm.Target.from_triple(self.triple).create_target_machine(opt=0, jit=True)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self.made: dict[Any, Any] = {}
        self._numbers = count()  # of functions: one that was interrupted is not made again

    def address_of(self, kind: Any, write: Callable[[Any, Any], None]) -> int:
        """The machine code of a function whose body `write` writes."""
        name = f"kernelstream_step_{next(self._numbers)}"
        module = ir.Module(name)
        module.triple = self.triple
        function = ir.Function(module, kind, name)
        write(ir.IRBuilder(function.append_basic_block()), function)
        self._engine.add_module(llvm.parse_assembly(str(module)))
        self._engine.finalize_object()
        return self._engine.get_function_address(name)


_assemblers: list[_Assembler] = []  # one, once there is anything to compile


def _assembler() -> _Assembler:
    if not _assemblers:
        _assemblers.append(_Assembler())
    return _assemblers[0]


@global_compiler_lock
def _reader_of(made: Any, n_words: int) -> int:
    """The address of code that takes words, and calls a compiled function by them."""
    signature, convention = made.signature, made.target_context.call_conv
    kind = convention.get_function_type(signature.return_type, signature.args)
    result, error, *flat = kind.args
    if len(flat) != n_words:
        raise TypeError(f"{made.fndesc.qualname} takes {len(flat)} words, not {n_words}.")
    assembler, key = _assembler(), str(kind)
    if key in assembler.made:
        return assembler.made[key]

    def write(builder: Any, function: Any) -> None:
        words = function.args[0]
        code = builder.inttoptr(word(builder, words, 0, WORD), kind.as_pointer())
        answer = builder.alloca(result.pointee)
        builder.store(cgutils.get_null_value(result.pointee), answer)
        given = [word(builder, words, i, wanted) for i, wanted in enumerate(flat, 1)]
        status = builder.call(code, [answer, builder.alloca(error.pointee), *given])
        goes_on = builder.icmp_signed("==", status, ir.Constant(status.type, _RETURNED))
        if signature.return_type is not types.none:
            value = builder.load(answer)
            is_yes = builder.icmp_signed("!=", value, ir.Constant(value.type, 0))
            goes_on = builder.and_(goes_on, is_yes)
        builder.ret(builder.zext(goes_on, WORD))

    assembler.made[key] = assembler.address_of(_STEP, write)
    return assembler.made[key]


@global_compiler_lock
def _runner() -> Callable[[int, int], int]:
    """Code that makes calls in order, and counts those that answered yes before the first no."""
    assembler = _assembler()
    if "run" not in assembler.made:
        kind = ir.FunctionType(WORD, [WORDS, WORD])
        address = assembler.address_of(kind, _write_runner)
        # which holds Python's lock: others would get it, and keep it for long, at every row
        c_type = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
        assembler.made["run"] = c_type(address)
    return assembler.made["run"]


def _write_runner(builder: Any, function: Any) -> None:
    program, n = function.args
    before = builder.block
    begin, body, again, end = (function.append_basic_block() for _ in range(4))
    builder.branch(begin)
    builder.position_at_end(begin)
    i = builder.phi(WORD)
    builder.cbranch(builder.icmp_signed("<", i, n), body, end)
    builder.position_at_end(body)
    place = builder.gep(program, [builder.mul(i, ir.Constant(WORD, 2))])
    code = builder.inttoptr(builder.load(place), _STEP.as_pointer())
    words = builder.load(builder.gep(place, [ir.Constant(WORD, 1)]))
    answer = builder.call(code, [builder.inttoptr(words, WORDS)])
    builder.cbranch(builder.icmp_signed("!=", answer, ir.Constant(WORD, 0)), again, end)
    builder.position_at_end(again)
    following = builder.add(i, ir.Constant(WORD, 1))
    builder.branch(begin)
    i.add_incoming(ir.Constant(WORD, 0), before)
    i.add_incoming(following, again)
    builder.position_at_end(end)
    builder.ret(i)
