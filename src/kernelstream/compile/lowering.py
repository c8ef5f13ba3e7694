"""How our functions are written for LLVM: variables as values, records in one piece.

Part of `kernelstream.compile.passes`, and like it made of private classes of Numba's compiler.
"""

import operator
from collections import Counter
from typing import Any

from numba.core import cgutils, ir, types
from numba.core.analysis import compute_use_defs, must_use_alloca
from numba.core.callconv import CPUCallConv
from numba.core.cpu import CPUContext
from numba.core.lowering import Lower
from numba.core.typing import signature as signature_of
from numba.np.arrayobj import fix_integer_index, load_item, store_item

__all__ = ["Lowering", "PieceContext"]


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


class PieceContext(CPUContext):
    """The compiler's context, as it declares and calls pieces."""

    def __init__(self, context: CPUContext) -> None:
        self.__dict__ = context.__dict__

    @property
    def call_conv(self) -> AsTheyAre:
        return AsTheyAre(self)


class Lowering(Lower):
    """Writes a function in LLVM's form, where a variable that is assigned once is a value.

    Numba keeps it on the stack if another block of the function reads it, and each of these then
    loads all arrays of a record. References to arrays are not counted: there is nothing to delete.
    """

    def _find_singly_assigned_variable(self) -> None:
        blocks = self.func_ir.blocks
        times: Counter[str] = Counter()
        made_in: dict[str, int] = {}
        for label, block in blocks.items():
            for statement in block.find_insts(ir.Assign):
                times[statement.target.name] += 1
                made_in[statement.target.name] = label
        on_stack = {name for name in times if times[name] > 1} | must_use_alloca(blocks)
        # A block that reads what it has not made comes after the one that makes it, which every
        # way to it passes (`ReconstructSSA`), unless it is a loop's and reads what a turn has left.
        for label, names in compute_use_defs(blocks).usemap.items():
            on_stack |= {name for name in names if made_in.get(name, label) >= label}
        self._singly_assigned_vars = made_in.keys() - on_stack
        self._blk_local_varmap: dict[str, Any] = {}

    def alloca_lltype(self, name: str, kind: Any, datamodel: Any = None) -> Any:
        # Numba also asks for the size of each variable, to tell debuggers, and LLVM for each size.
        return cgutils.alloca_once(self.builder, kind, name=name, zfill=False)

    # Numba writes an array to the stack to read an element, and looks for a way to do so each time.

    def lower_inst(self, statement: Any) -> Any:
        if isinstance(statement, ir.StaticSetItem) and self._is_array(statement.target):
            signature = self.fndesc.calltypes[statement]
            target, index, value = statement.target, statement.index_var, statement.value
            return self.lower_setitem(target, index, value, signature)
        return super().lower_inst(statement)

    def lower_expr(self, kind: Any, expression: Any) -> Any:
        op = expression.op
        if op == "static_getitem" and self._is_array(expression.value):
            signature = self.fndesc.calltypes[expression]
            index = expression.index_var
            return self.lower_getitem(kind, expression, expression.value, index, signature)
        if op == "getattr" and expression.attr == "shape" and self._is_array(expression.value):
            return self._part_of(expression.value, "shape")
        return super().lower_expr(kind, expression)

    def lower_getitem(
        self, kind: Any, expression: Any, array: Any, index: Any, signature: Any
    ) -> Any:
        place = self._element(array, index, signature)
        if place is None:
            return super().lower_getitem(kind, expression, array, index, signature)
        value = load_item(self.context, self.builder, self.typeof(array.name), place)
        return self.context.cast(self.builder, value, signature.return_type, kind)

    def lower_setitem(self, array: Any, index: Any, value: Any, signature: Any) -> Any:
        given = self.typeof(value.name)
        is_number = isinstance(given, types.Number)
        place = self._element(array, index, signature) if is_number else None
        if place is None:
            return super().lower_setitem(array, index, value, signature)
        kind = self.typeof(array.name)
        number = self.context.cast(self.builder, self.loadvar(value.name), given, kind.dtype)
        return store_item(self.context, self.builder, kind, number, place)

    def lower_binop(self, kind: Any, expression: Any, op: Any) -> Any:
        signature = self.fndesc.calltypes[expression]
        function = self.context.typing_context.resolve_value_type(op)
        is_plain = all(isinstance(each, types.Integer | types.Float) for each in signature.args)
        if op is operator.pow and self._is_square(expression):
            # Numba compiles a function that multiplies in a loop, to the same result.
            number, given = self.loadvar(expression.lhs.name), self.typeof(expression.lhs.name)
            multiply = self.context.get_function(operator.mul, signature_of(given, given, given))
            return self.context.cast(
                self.builder, multiply(self.builder, [number] * 2), given, kind
            )
        if not (is_plain and signature.args in function._impl_keys) or op is operator.pow:
            return super().lower_binop(kind, expression, op)
        values = [
            self.context.cast(self.builder, self.loadvar(each.name), self.typeof(each.name), wanted)
            for each, wanted in zip((expression.lhs, expression.rhs), signature.args, strict=True)
        ]
        result = self.context.get_function(function, signature)(self.builder, values)
        return self.context.cast(self.builder, result, signature.return_type, kind)

    def _is_square(self, expression: Any) -> bool:
        exponent = self.typeof(expression.rhs.name)
        is_two = isinstance(exponent, types.IntegerLiteral) and exponent.literal_value == 2
        return is_two and isinstance(self.typeof(expression.lhs.name), types.Float)

    def _is_array(self, variable: Any) -> bool:
        return isinstance(self.typeof(variable.name), types.Array)

    def _part_of(self, array: Any, name: str) -> Any:
        model = self.context.data_model_manager[self.typeof(array.name)]
        return model.get(self.builder, self.loadvar(array.name), name)

    def _element(self, array: Any, index: Any, signature: Any) -> Any:
        """Return where an element of an array is; None, if the index is of another kind."""
        context, builder = self.context, self.builder
        kind, index_kind = signature.args[:2]
        is_tuple = isinstance(index_kind, types.BaseTuple)
        kinds = tuple(index_kind) if is_tuple else (index_kind,)
        is_element = isinstance(kind, types.Array) and len(kinds) == kind.ndim
        if not (is_element and self.typeof(array.name) == kind):
            return None
        if not all(isinstance(each, types.Integer) for each in kinds):
            return None
        given = context.cast(builder, self.loadvar(index.name), self.typeof(index.name), index_kind)
        numbers = cgutils.unpack_tuple(builder, given) if is_tuple else [given]
        shape = cgutils.unpack_tuple(builder, self._part_of(array, "shape"))
        strides = cgutils.unpack_tuple(builder, self._part_of(array, "strides"))
        places = [
            fix_integer_index(context, builder, each, number, size)
            for each, number, size in zip(kinds, numbers, shape, strict=True)
        ]
        data = self._part_of(array, "data")
        return cgutils.get_item_pointer2(
            context, builder, data, shape, strides, kind.layout, places
        )

    @property
    def call_conv(self) -> AsTheyAre:
        return AsTheyAre(self.context)

    def setup_function(self, descriptor: Any) -> None:
        context = self.context
        self.context = PieceContext(context)
        super().setup_function(descriptor)
        self.context = context  # the functions that it calls need not be pieces
