"""Calls of compiled code with arguments that stay the same: one after the other, in one call.

To write the arguments of a single row into a table takes about as long as to learn the row. A
`Call` does so once. What changes from row to row lies in the arrays.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from kernelstream.compile import code_files
from kernelstream.compile.functions import compiles
from kernelstream.compile.tables import OtherTypesError, Table, kind_of

__all__ = ["Call", "in_one_call", "one_by_one"]


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
    >>> import numpy as np
    >>> from kernelstream.compile import Call, compiled, in_one_call
    >>> @compiled
    ... def count_down(n):
    ...     n[0] -= 1
    ...     return n[0] >= 0
    >>> n = np.array([3])
    >>> run = in_one_call([Call(count_down, n), Call(count_down, n)])
    >>> run(), run(), n
    (2, 1, array([-1]))
    """

    __slots__ = ("_code", "_function", "_table", "arguments")

    def __init__(self, function: Any, *arguments: Any) -> None:
        # behind a plain function, as in `entry_point`: whoever follows a model's references, to
        # measure it, does not walk through the compiler
        self._function: Callable[[], Any] = lambda: function
        self.arguments = list(arguments)
        self._table: Table | None = None
        self._code = 0

    @property
    def function(self) -> Any:
        """Return the compiled function."""
        return self._function()

    def replace(self, position: int, argument: Any) -> None:
        """Take another argument of the same type. If this is interrupted, the call is of no use."""
        if self._table is not None:
            try:
                self._table.replace(position, argument)
            except OtherTypesError as error:
                name = self.function.__name__
                raise TypeError(f"argument {position} of {name} {error}.") from None
        self.arguments[position] = argument

    def plainly(self) -> bool:
        """Make the call by the function's own lines of Python."""
        answer = self.function.py_func(*self.arguments)
        return answer is None or bool(answer)

    def in_machine_code(self) -> tuple[int, int]:
        """Return the addresses of the machine code and of its table."""
        if self._table is None:
            kinds = tuple(map(kind_of, self.arguments))
            self._code = self.function.address_for(kinds)
            table = Table(kinds)
            table.fill(self.arguments)
            self._table = table
        return self._code, self._table.address


def in_one_call(calls: Sequence[Call]) -> Callable[[], int]:
    """Return a function that makes these calls in order, up to one that answers no.

    It answers how many said yes. Nothing can interrupt it, and it does not let go of Python's lock.
    """
    if not compiles():
        return lambda: one_by_one(calls)
    calls = list(calls)
    program = np.array([word for call in calls for word in call.in_machine_code()], np.uint64)
    kept, run, place, n = (calls, program), _runner(), program.ctypes.data, len(calls)

    def go() -> int:
        assert kept
        return run(place, n)

    return go


def one_by_one(calls: Sequence[Call]) -> int:
    """Make the same calls by the functions' own lines of Python."""
    return next((i for i, call in enumerate(calls) if not call.plainly()), len(calls))


# A program is pairs of addresses, of code and of its table. Code answers 1 to go on, else 0.
_RUNNER = """
define i64 @run(ptr %program, i64 %n) {
begin:
  br label %next
next:
  %i = phi i64 [ 0, %begin ], [ %following, %again ]
  %is_left = icmp slt i64 %i, %n
  br i1 %is_left, label %body, label %end
body:
  %pair = getelementptr [2 x ptr], ptr %program, i64 %i
  %code = load ptr, ptr %pair
  %second = getelementptr ptr, ptr %pair, i64 1
  %table = load ptr, ptr %second
  %answer = call i64 %code(ptr %table)
  %goes_on = icmp ne i64 %answer, 0
  br i1 %goes_on, label %again, label %end
again:
  %following = add i64 %i, 1
  br label %next
end:
  ret i64 %i
}
"""


@cache
def _runner() -> Callable[[int, int], int]:
    """Return code that makes calls in order, and counts those that answered yes before a no."""
    machine = code_files.target().create_target_machine(jit=True, codemodel="jitdefault")
    module = llvm.parse_assembly(_RUNNER)
    address = code_files.load(code_files.Code("run", (), machine.emit_object(module)))
    assert address is not None
    # with Python's lock: others would get it, and keep it for long, at every row
    return ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(address)
