"""How compiled code is entered: its arguments, as the words of eight bytes that it takes.

Python hands over a tuple of records. Numba takes each array of them out by some forty lines of its
own, counts a reference to it, and gives that back: for a loop over records of fifty arrays, as many
lines as the loop has. Here one function of a few lines reads any array of a rank. Whoever calls has
found out that the types are right, and keeps the arguments alive.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.callconv import CPUCallConv
from numba.core.callwrapper import PyCallWrapper
from numba.np.numpy_support import as_dtype

__all__ = ["WORD", "WORDS", "AsTheyAre", "Wrapper", "can_be_words", "word"]

WORD = ir.IntType(64)
WORDS = WORD.as_pointer()

# An array of NumPy, after what all objects begin with: its memory, its rank, its shape, its strides
# and other things. An array of Numba: two owners, the number of elements, the size of one, the
# memory, the shape and the strides.
_DATA, _SHAPE, _STRIDES = (object.__basicsize__ + 8 * word for word in (0, 2, 3))
_N_BEFORE_SHAPE = 5


def can_be_words(kind: Any) -> bool:
    """Whether values of a type are arrays or numbers, or records of such."""
    if isinstance(kind, types.BaseTuple):
        return all(map(can_be_words, kind))  # type: ignore[call-overload]
    numbers = types.Boolean, types.Integer, types.Float, types.Array
    return isinstance(kind, numbers) and not isinstance(kind, types.Literal)


def word(builder: Any, words: Any, i: int, kind: Any) -> Any:
    """One of the words, as a value of a type of LLVM."""
    place = builder.gep(words, [ir.Constant(WORD, i)])
    if isinstance(kind, ir.IntType) and kind.width < WORD.width:
        return builder.trunc(builder.load(place), kind)
    return builder.load(builder.bitcast(place, kind.as_pointer()))


# --- calls whose arguments need not be taken apart ------------------------------------------------


class _Unchanged:
    """Arguments of a call, which Numba would take apart down to every number of every record."""

    def __init__(self, context: Any, kinds: Any) -> None:
        self.argument_types = [context.get_value_type(kind) for kind in kinds]

    def as_arguments(self, builder: Any, values: Any) -> Any:
        return values

    def from_arguments(self, builder: Any, values: Any) -> Any:
        return values

    def assign_names(self, values: Any, names: Any) -> None:
        for value, name in zip(values, names, strict=True):
            value.name = name


class AsTheyAre(CPUCallConv):
    """A way to call functions, which passes the values that it is given."""

    def _get_arg_packer(self, kinds: Any) -> _Unchanged:
        return _Unchanged(self.context, kinds)


# --- the function that Python calls ---------------------------------------------------------------


class Wrapper(PyCallWrapper):
    """Reads the arguments of a call from Python, and calls the compiled function."""

    def build_wrapper(self, api: Any, builder: Any, closure: Any, args: Any, kws: Any) -> None:
        """Write the body of the function."""
        # It moves words from here to there, some four hundred for a loop over records. To optimize
        # that would take LLVM a tenth of the time of a loop.
        builder.function.attributes.add("noinline")
        builder.function.attributes.add("optnone")
        name, kinds = self.fndesc.qualname, self.fndesc.argtypes
        convention, returned = self.context.call_conv, self.fndesc.restype
        given = [api.alloca_obj() for _ in kinds]
        has_all = api.unpack_tuple(args, name, len(kinds), len(kinds), *given)
        with builder.if_then(cgutils.is_null(builder, has_all), likely=False):
            builder.ret(api.get_null_object())

        _, _, *flat = convention.get_function_type(returned, kinds).args
        reader = _Reader(api, builder, len(flat))
        for kind, place in zip(kinds, given, strict=True):
            reader.read(kind, builder.load(place))
        if reader.n_read != len(flat):
            raise TypeError(f"{name} takes {len(flat)} words, not {reader.n_read}.")
        with builder.if_then(cgutils.is_not_null(builder, api.err_occurred()), likely=False):
            builder.ret(api.get_null_object())

        environment = self.get_env(api, builder)
        values = [word(builder, reader.words, i, kind) for i, kind in enumerate(flat)]
        thread = api.save_thread() if self.release_gil else None
        call = AsTheyAre(self.context).call_function
        status, result = call(builder, self.func, returned, kinds, values, attrs=("noinline",))
        if thread is not None:
            api.restore_thread(thread)
        with builder.if_then(status.is_ok, likely=True):
            with builder.if_then(status.is_none):
                api.return_none()
            kind = self._simplified_return_type()
            builder.ret(api.from_native_return(kind, result, environment))
        convention.raise_error(builder, api, status)
        builder.ret(api.get_null_object())


class _Reader:
    """Writes the code that reads values of Python into words."""

    def __init__(self, api: Any, builder: Any, n_words: int) -> None:
        self._api, self._builder = api, builder
        self.words = builder.alloca(WORD, n_words)
        self.n_read = 0

    def read(self, kind: Any, value: Any) -> None:
        """Read a value of a type into the words that come next."""
        api, builder = self._api, self._builder
        if isinstance(kind, types.BaseTuple):
            for i, inner in enumerate(kind):  # type: ignore[arg-type, var-annotated]
                self.read(inner, api.tuple_getitem(value, i))
        elif isinstance(kind, types.Array):
            size = ir.Constant(WORD, as_dtype(kind.dtype).itemsize)
            builder.call(_reader_of_arrays(builder.module, kind.ndim), [value, size, self._place()])
            self.n_read += _N_BEFORE_SHAPE + 2 * kind.ndim
        elif isinstance(kind, types.Float):
            number = builder.fptrunc if kind.bitwidth < WORD.width else builder.bitcast
            self._note(number(api.float_as_double(value), api.context.get_value_type(kind)))
        elif isinstance(kind, types.Boolean):
            self._note(builder.zext(api.object_istrue(value), WORD))
        else:  # of any sign and size, also one of NumPy's
            kind_of_reader = ir.FunctionType(WORD, [value.type])
            name = "PyLong_AsUnsignedLongLongMask"
            reader = cgutils.get_or_insert_function(builder.module, kind_of_reader, name)
            self._note(builder.call(reader, [value]))

    def _place(self) -> Any:
        return self._builder.gep(self.words, [ir.Constant(WORD, self.n_read)])

    def _note(self, value: Any) -> None:
        place = self._builder.bitcast(self._place(), value.type.as_pointer())
        self._builder.store(value, place)
        self.n_read += 1


def _reader_of_arrays(module: Any, rank: int) -> Any:
    """The function that reads an array of a rank, whose elements have a size, into words."""
    name = f"kernelstream_read_array_{rank}"
    if name in module.globals:
        return module.globals[name]
    place = ir.IntType(8).as_pointer()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [place, WORD, WORDS]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    array, size, words = function.args
    builder = ir.IRBuilder(function.append_basic_block())

    def at(offset: int, kind: Any) -> Any:
        field = builder.gep(array, [ir.Constant(WORD, offset)])
        return builder.load(builder.bitcast(field, kind.as_pointer()))

    shape, strides = (
        [word(builder, at(offset, WORDS), axis, WORD) for axis in range(rank)]
        for offset in (_SHAPE, _STRIDES)
    )
    n = ir.Constant(WORD, 1)
    for length in shape:
        n = builder.mul(n, length)
    nothing = ir.Constant(WORD, 0)
    for i, value in enumerate([nothing, nothing, n, size, at(_DATA, WORD), *shape, *strides]):
        builder.store(value, builder.gep(words, [ir.Constant(WORD, i)]))
    builder.ret_void()
    return function
