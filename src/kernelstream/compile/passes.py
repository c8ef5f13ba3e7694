"""Numba's compiler without the steps that our functions do not need. It makes compiling fast.

Numba expects any program. Ours are loops over numbers and over existing arrays: they count no
references, and have no closures, contexts or lists. So they pass fewer steps, keep variables as
values, pass records in one piece, and are optimized once, together with what calls them. That takes
a quarter of the time. All of it derives from classes of Numba's compiler, private ones among them;
nothing of Numba itself is changed, so that other code of a process is compiled as always.
"""

import operator
from functools import cache
from typing import Any, ClassVar

import llvmlite.binding as llvm
from numba.core import types
from numba.core.codegen import CPUCodegen, JITCodeLibrary
from numba.core.compiler import Compiler, CompilerBase, Flags
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.ir_utils import build_definitions
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

from kernelstream.compile.lowering import Lowering, PieceContext

__all__ = ["CountingPieceCompiler", "EntryCompiler", "PieceCompiler", "as_called"]


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
    """Return the signature of a call with plain numbers of one type; None: leave it to Numba."""
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


# --- what LLVM makes of it ------------------------------------------------------------------------

# Older versions of Numba have other tools than these. There, functions are optimized as Numba does.
_QUICK_PASSES = ("add_sroa_pass", "add_simplify_cfg_pass", "add_instruction_combine_pass")
_HAS_PASSES = hasattr(CPUCodegen, "_pass_builder") and all(
    hasattr(llvm.newpassmanagers.FunctionPassManager, name) for name in _QUICK_PASSES
)


class _Piece(JITCodeLibrary):
    """What LLVM knows of a function that is only called by other compiled code.

    It becomes a part of its callers, is optimized there with them, and is never entered by itself.
    So there is no machine code of it.
    """

    def _optimize_functions(self, module: Any) -> None:
        """Return the passes that shorten a function; its callers are optimized with it."""
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
        pass

    def _finalize_final_module(self) -> None:
        # What is missing, or wrong, shows in the function that Python calls.
        self._finalize_dynamic_globals()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """Return itself, where Numba would copy it for linking."""
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


class _Entry(_Piece):
    """What LLVM knows of a function that Python enters, with all that it calls."""

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0


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
class _LowerPiece(BaseNativeLowering):
    _name: Any = "kernelstream_piece"
    lowering_class = Lowering


class PieceCompiler(CompilerBase):
    """The compiler of functions that only compiled code calls, and that make no arrays."""

    library: type[_Piece] = _Piece

    def __init__(
        self, typing: Any, target: Any, library: Any, arguments: Any, returned: Any, flags: Any,
        names: Any,
    ) -> None:  # fmt: skip
        typing, flags = _remembering(typing), _Settled(flags)
        super().__init__(typing, target, library, arguments, returned, flags, names)

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
            (_LowerPiece, "native lowering"),
            (NoPythonBackend, "nopython mode backend"),
        ]
        passes.finalize()
        return [passes]


def as_called(context: Any, function: Any) -> Any:
    """Return the context in which a call of a compiled function is written."""
    is_piece = function.dispatcher._compiler.pipeline_class is PieceCompiler
    return PieceContext(context) if is_piece else context


class EntryCompiler(PieceCompiler):
    """The compiler of functions that Python enters."""

    library = _Entry


class CountingPieceCompiler(Compiler):
    """Numba's own steps, for functions that only compiled code calls and that make arrays."""

    def compile_extra(self, function: Any) -> Any:
        self.state.library = _Piece(self.state.targetctx.codegen(), function.__qualname__)
        return super().compile_extra(function)
