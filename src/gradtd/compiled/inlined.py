"""How Numba compiles a function that kernels call: as a piece of them, not as something that can be called from Python.

By default Numba makes machine code and two wrappers for each of the hundred small functions that a kernel reaches, then
links them into the kernel, which is optimised and turned into machine code again. Only the last is ever executed. Here
a piece is typed and lowered, and optimised in the kernel alone: half the time to compile, the same bytes, the same
speed (`docs/decisions.md`).
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.typed_passes import NativeLowering


class _Piece(JITCodeLibrary):
    """Code that is linked into other code, and never turned into machine code by itself."""

    def _optimize_final_module(self) -> None:
        """The kernel's turn."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=False, analysis_only=False)
class _MakeCallable(LoweringPass):
    """Let other compiled functions find a piece: Numba looks it up by the object that Python would call."""

    _name = "gradtd_make_callable"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        key = [state.func_id].append  # a built-in function, as Numba demands, and another one every time
        state.targetctx.insert_user_function(key, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=key)
        return True


class PieceCompiler(Compiler):
    """Numba's own steps without the wrappers and the machine code."""

    def define_pipelines(self) -> list[Any]:
        flags = self.state.flags
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        self.state.library = _Piece(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        steps = DefaultPassBuilder.define_nopython_pipeline(self.state)
        steps.add_pass_after(_MakeCallable, NativeLowering)
        steps.finalize()
        return [steps]
