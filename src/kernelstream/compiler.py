"""Numba's compiler, without what our functions do not need.

Numba expects any program. Ours are loops over numbers and over arrays that are there already: they
count no references, and have no closures, contexts or lists. So they pass fewer steps, keep their
variables as values, hand records on in one piece, and are optimized once, in the function that
Python calls. Together that takes half of the time to compile. All of it is done by deriving from
classes of Numba's compiler, in the ways that its versions since 0.59 have in common; nothing of
Numba itself is changed, so that other code of a process is compiled as ever.
"""

import operator
from collections import Counter
from functools import cache
from typing import Any, ClassVar

import llvmlite.binding as llvm
from llvmlite.ir import Function
from numba.core import cgutils, config, ir, types
from numba.core.analysis import compute_use_defs, must_use_alloca
from numba.core.codegen import CPUCodegen, JITCodeLibrary
from numba.core.compiler import Compiler, CompilerBase, Flags, compile_result
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.cpu import CPUContext
from numba.core.ir_utils import build_definitions
from numba.core.lowering import Lower
from numba.core.rewrites.static_getitem import RewriteConstGetitems, RewriteConstSetitems
from numba.core.rewrites.static_raise import RewriteConstRaises
from numba.core.ssa import reconstruct_ssa
from numba.core.targetconfig import ConfigStack
from numba.core.transforms import canonicalize_cfg
from numba.core.typed_passes import (
    BaseNativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.typing import Context
from numba.core.typing import signature as signature_of
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    ReconstructSSA,
    RewriteSemanticConstants,
    TranslateByteCode,
)
from numba.cpython.builtins import do_minmax
from numba.extending import lower_builtin
from numba.np.arrayobj import fix_integer_index, load_item, store_item

from kernelstream.stack import with_room
from kernelstream.words import AsTheyAre, Wrapper, can_be_words

__all__ = [
    "CountingPieceCompiler", "PieceCompiler", "WholeCompiler", "as_called", "rebuilt_piece",
    "reduced_piece",
]  # fmt: skip


# --- what a call returns --------------------------------------------------------------------------


class _Settled(Flags):
    """Options of the compiler, which no longer change: Numba compares them at every operation."""

    def __init__(self, flags: Flags) -> None:
        super().__init__(flags)
        self._text = repr(flags)
        self._hash = hash(self._text)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Settled) and self._text == other._text)

    def __hash__(self) -> int:
        return self._hash

    def copy(self) -> "_Settled":
        return self


class _Typing(Context):
    """Numba's context of types, which remembers what its functions return.

    Numba asks a dozen candidates at every operation, and writes down why each one does not fit.
    """

    _known: ClassVar[dict[Any, tuple[Any, Any]]] = {}

    def __init__(self, context: Context) -> None:
        self.__dict__ = context.__dict__

    def resolve_function_type(self, function: Any, arguments: Any, keywords: Any) -> Any:
        kind: Any = function if isinstance(function, types.Type) else self._lookup_global(function)
        if not isinstance(kind, types.Function):
            return super().resolve_function_type(function, arguments, keywords)
        codes = kind._impl_keys  # type: ignore[attr-defined]
        call = kind, tuple(arguments), tuple(keywords.items()), ConfigStack.top_or_none()
        if call in self._known:
            signature, codes[signature.args] = self._known[call]
            return signature
        signature, code = _written_directly(kind, arguments), _DIRECT_CODE.get(kind.typing_key)
        if signature is None:
            signature = super().resolve_function_type(function, arguments, keywords)
            code = None if signature is None else codes.get(signature.args)
        if code is not None:
            codes[signature.args] = code
            self._known[call] = signature, code
        return signature


_remembering = cache(_Typing)

# Numba compiles a function for each kind of numbers, and of callers, that have max(), min() or
# int(): 20 milliseconds for one instruction or two.
_DIRECT_CODE = {max: "kernelstream.max", min: "kernelstream.min", int: "kernelstream.int"}


def _written_directly(function: Any, arguments: Any) -> Any:
    """The signature of a call of these with plain numbers of one kind; None: Numba's own way."""
    name, kinds = function.typing_key, tuple(map(types.unliteral, arguments))
    numbers = (types.Integer, types.Float, types.Boolean)[: 3 if name is int else 2]
    if not kinds or not isinstance(kinds[0], numbers) or set(kinds) != {kinds[0]}:
        return None
    if name is int and len(kinds) == 1:
        return signature_of(kinds[0] if isinstance(kinds[0], types.Integer) else types.intp, *kinds)
    if name in (max, min) and len(kinds) > 1:
        return signature_of(kinds[0], *kinds)
    return None


@lower_builtin(_DIRECT_CODE[max], types.VarArg(types.Any))
def _write_max(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return do_minmax(context, builder, signature.args, arguments, operator.gt)


@lower_builtin(_DIRECT_CODE[min], types.VarArg(types.Any))
def _write_min(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return do_minmax(context, builder, signature.args, arguments, operator.lt)


@lower_builtin(_DIRECT_CODE[int], types.Any)
def _write_int(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return context.cast(builder, arguments[0], signature.args[0], signature.return_type)


# --- variables and arguments ----------------------------------------------------------------------


class _Lowering(Lower):
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

    def create_cpython_wrapper(self, release_gil: bool = False) -> None:
        if not all(map(can_be_words, self.fndesc.argtypes)):
            super().create_cpython_wrapper(release_gil)
            return
        module, convention = self.context.create_module("wrapper"), self.context.call_conv
        kind = convention.get_function_type(self.fndesc.restype, self.fndesc.argtypes)
        function = Function(module, kind, self.fndesc.llvm_func_name)
        Wrapper(
            self.context, module, function, self.fndesc, self.env, self.call_helper, release_gil
        ).build()
        self.library.add_ir_module(module)

    def _is_array(self, variable: Any) -> bool:
        return isinstance(self.typeof(variable.name), types.Array)

    def _part_of(self, array: Any, name: str) -> Any:
        model = self.context.data_model_manager[self.typeof(array.name)]
        return model.get(self.builder, self.loadvar(array.name), name)

    def _element(self, array: Any, index: Any, signature: Any) -> Any:
        """Where an element of an array is; None, if the index is of another kind."""
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


class _PieceContext(CPUContext):
    """The compiler's context, as it declares and calls pieces."""

    def __init__(self, context: CPUContext) -> None:
        self.__dict__ = context.__dict__

    @property
    def call_conv(self) -> AsTheyAre:
        return AsTheyAre(self)


def as_called(context: Any, function: Any) -> Any:
    """The context in which a call of a compiled function is written."""
    is_piece = function.dispatcher._compiler.pipeline_class is PieceCompiler
    return _PieceContext(context) if is_piece else context


class _PieceLowering(_Lowering):
    """As `_Lowering`, of a function that is called as pieces are."""

    @property
    def call_conv(self) -> AsTheyAre:
        return AsTheyAre(self.context)

    def setup_function(self, descriptor: Any) -> None:
        context = self.context
        self.context = _PieceContext(context)
        super().setup_function(descriptor)
        self.context = context  # the functions that it calls need not be pieces


# --- what LLVM makes of it ------------------------------------------------------------------------

# Older versions of Numba have other tools than these. There, functions are optimized as Numba does.
_QUICK_PASSES = ("add_sroa_pass", "add_simplify_cfg_pass", "add_instruction_combine_pass")
_HAS_PASSES = hasattr(CPUCodegen, "_pass_builder") and all(
    hasattr(llvm.newpassmanagers.FunctionPassManager, name) for name in _QUICK_PASSES
)


class _Library(JITCodeLibrary):
    """The code of a function, optimized once, with all that it calls."""

    def _optimize_functions(self, module: Any) -> None:
        """What makes a function shorter; it is optimized with those that call it."""
        if not _HAS_PASSES:
            super()._optimize_functions(module)
            return
        module.data_layout = self._codegen._data_layout
        builder = self._codegen._pass_builder()
        passes = llvm.create_new_function_pass_manager()
        for name in _QUICK_PASSES:
            getattr(passes, name)()
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        """All passes, once: Numba's first round only serves to count fewer references."""
        if not _HAS_PASSES:
            super()._optimize_final_module()
            return
        chosen: Any = config
        options = llvm.create_pipeline_tuning_options(chosen.OPT)
        options.loop_vectorization = chosen.LOOP_VECTORIZE
        options.slp_vectorization = chosen.SLP_VECTORIZE
        # A loop that is worth it takes several numbers at a time anyway. To write out the turns of
        # all others makes code half as long again, and no faster.
        options.loop_unrolling = False
        builder = llvm.create_pass_builder(self._codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)


class _Piece(_Library):
    """What LLVM knows of a function that is only called by other compiled code.

    It becomes a part of its callers, is optimized there with them, and is never entered by itself.
    So there is no machine code of it.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        # What is missing, or wrong, shows in the function that Python calls.
        self._finalize_dynamic_globals()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """Itself, where Numba makes a copy for those that link it: a piece is nothing else."""
        self._ensure_finalized()
        if self._shared_module is None:
            self._shared_module = self._final_module
            for function in self._shared_module.functions:
                if not function.is_declaration and function.linkage == llvm.Linkage.external:
                    function.linkage = llvm.Linkage.linkonce_odr
        return self._shared_module

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, environment: Any) -> None:
        pass  # objects of Python, which our functions do not use

    def serialize_using_object_code(self) -> Any:
        return self.serialize_using_bitcode()


def reduced_piece(made: Any) -> tuple[Any, ...]:
    """What is kept on disk of a piece: what `rebuilt_piece` takes."""
    descriptor = made.fndesc
    descriptor.typemap = descriptor.calltypes = None  # of all its variables, which nobody reads
    environments = tuple(made._find_referenced_environments())
    library = made.library
    code = library.name, library._final_module.as_bitcode()
    return code, descriptor, made.environment, made.signature, made.reload_init, environments


def rebuilt_piece(
    target: Any, code: Any, descriptor: Any, environment: Any, signature: Any, reload_init: Any,
    environments: Any,
) -> Any:  # fmt: skip
    """What was kept on disk of a piece; Numba's own way would make machine code of it."""
    for init in reload_init:
        init()
    name, bitcode = code
    piece = _Piece(target.codegen(), name)
    piece._final_module = llvm.parse_bitcode(bitcode)
    piece._finalize_final_module()
    return compile_result(
        target_context=target, typing_context=target.typing_context, library=piece,
        entry_point=target.get_executable(piece, descriptor, environment),
        environment=environment, fndesc=descriptor, type_annotation="", signature=signature,
        objectmode=False, lifted=(), reload_init=reload_init, referenced_envs=environments,
    )  # fmt: skip


# --- the steps ------------------------------------------------------------------------------------


# Between all steps Numba finds out anew how long each variable lives, to count references.


@register_pass(mutates_CFG=True, analysis_only=False)
class _Rewrite(FunctionPass):
    """Items at constant places of tuples, which may differ in type, and constant errors."""

    _name: Any = "kernelstream_rewrite"
    _rules = RewriteConstGetitems, RewriteConstSetitems, RewriteConstRaises

    def __init__(self) -> None:
        super().__init__()  # which Numba leaves abstract

    def run_pass(self, state: Any) -> bool:
        program = state.func_ir
        program.blocks = canonicalize_cfg(program.blocks)
        for rule in self._rules:
            for label, block in program.blocks.items():
                rewrite, changed = rule(state), block
                while rewrite.match(program, changed, state.typemap, state.calltypes):
                    changed = rewrite.apply()
                program.blocks[label] = changed
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _AssignOnce(ReconstructSSA):
    _name: Any = "kernelstream_assign_once"

    def run_pass(self, state: Any) -> bool:
        state.func_ir = reconstruct_ssa(state.func_ir)
        self._patch_locals(state)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _StripPhis(PreLowerStripPhis):
    _name: Any = "kernelstream_strip_phis"

    def run_pass(self, state: Any) -> bool:
        state.func_ir = self._strip_phi_nodes(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerWhole(BaseNativeLowering):
    _name: Any = "kernelstream_whole"
    lowering_class = _Lowering


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerPiece(BaseNativeLowering):
    _name: Any = "kernelstream_piece"
    lowering_class = _PieceLowering


class WholeCompiler(CompilerBase):
    """The compiler of functions that Python calls, and that count no references to arrays."""

    library: type[_Library] = _Library
    lowering: type[BaseNativeLowering] = _LowerWhole

    def __init__(
        self, typing: Any, target: Any, library: Any, arguments: Any, returned: Any, flags: Any,
        names: Any,
    ) -> None:  # fmt: skip
        typing, flags = _remembering(typing), _Settled(flags)
        super().__init__(typing, target, library, arguments, returned, flags, names)

    @with_room
    def compile_extra(self, function: Any) -> Any:
        library = self.library(self.state.targetctx.codegen(), function.__qualname__)
        library.enable_object_caching()
        self.state.library = library
        return super().compile_extra(function)

    def define_pipelines(self) -> list[PassManager]:
        passes = PassManager("nopython")
        passes.passes = [
            (TranslateByteCode, "analyzing bytecode"),
            (FixupArgs, "fix up args"),
            (RewriteSemanticConstants, "rewrite semantic constants"),
            (DeadBranchPrune, "dead branch pruning"),
            (_Rewrite, "rewrites"),
            (_AssignOnce, "ssa"),
            (NopythonTypeInference, "nopython frontend"),
            (_StripPhis, "remove phis nodes"),
            (self.lowering, "native lowering"),
            (NoPythonBackend, "nopython mode backend"),
        ]
        passes.finalize()
        return [passes]


class PieceCompiler(WholeCompiler):
    """The compiler of functions that only compiled code calls."""

    library = _Piece
    lowering = _LowerPiece


class CountingPieceCompiler(Compiler):
    """Numba's own steps, for functions that only compiled code calls and that make arrays."""

    @with_room
    def compile_extra(self, function: Any) -> Any:
        self.state.library = _Piece(self.state.targetctx.codegen(), function.__qualname__)
        return super().compile_extra(function)
