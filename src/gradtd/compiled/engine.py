"""Compiles plain Python functions. Only this module, `cache` and `intrinsics` import Numba.

Rules and helpers stay plain functions, so the whole library also runs interpreted
(``GRADTD_INTERPRET=1``). To compile a rule, gradtd registers every plain function that it reaches with Numba, and makes
a fingerprint of all their code part of the key of Numba's disk cache. An unedited rule is loaded in a fraction of a
second; an edit anywhere in its code compiles it again.

Compiled code runs without reference counts. Counting references to the arrays inside named tuples
costs more than a TD update (160 against 18 ns); it is needed only by code that allocates. A rule that allocates is
compiled again with reference counts.
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import dis
import hashlib
import logging
import os
import types as python_types
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import types as numba_types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.errors import NumbaError
from numba.core.typed_passes import NativeLowering
from numba.extending import overload, register_jitable

from gradtd.compiled import intrinsics
from gradtd.compiled.cache import keep_safely, kernel_names, say_once
from gradtd.compiled.dispatch import CHOICES, Choice
from gradtd.compiled.intrinsics import INSTEAD, reading
from gradtd.core.arrays import Plain
from gradtd.core.checks import InputError
from gradtd.core.fork_locks import fork_lock

log = logging.getLogger(__name__)
_known: set[Plain] = set()
_one_at_a_time = fork_lock()
_OWN_CODE = b"".join(Path(file).read_bytes() for file in (__file__, intrinsics.__file__))
"""The compiler's own source is part of every fingerprint."""


def interpreted() -> bool:
    """Whether the environment asks for plain Python: by ``GRADTD_INTERPRET=1`` or Numba's ``NUMBA_DISABLE_JIT=1``."""
    return os.environ.get("GRADTD_INTERPRET", "") not in ("", "0") or _jit_disabled()


def _jit_disabled() -> bool:
    return bool(getattr(numba.config, "DISABLE_JIT", False))


def checks_bounds() -> bool:
    """Whether compiled code checks every index (``NUMBA_BOUNDSCHECK=1`` in the environment): slow, for tests."""
    return os.environ.get("NUMBA_BOUNDSCHECK", "") not in ("", "0")


def compile_function(function: Plain, compile: bool | None = None) -> Plain:
    """Compile a plain function lazily: at its first call with arguments of some types, or load it from disk.

    Every plain function that it reaches, by name or in its closure, is compiled with it. Their code and the constants
    that they read are inspected in every call, so that a function that was edited between two calls is compiled again.
    """
    reached = _reachable([function])
    if (interpreted() if compile is None else not compile) or _jit_disabled():
        return _wrapping_integers(function)
    with _one_at_a_time:
        _make_known(reached)
        return _kernel(_digest(reached), function)


def compile_once(function: Plain) -> Plain:
    """`compile_function` without the inspection at every call: for the library's own code, which does not change."""
    return _compile_once(function, interpreted(), checks_bounds())


@lru_cache(maxsize=64)
def _compile_once(function: Plain, _interpreted: bool, _checked: bool) -> Plain:
    return compile_function(function)


def compile_packed(make: Callable[[Plain], Plain], arguments: Any, compile: bool | None = None) -> tuple[Plain, bool]:
    """``make(unpack)`` compiled for packed arguments of this kind, and whether it is compiled.

    ``unpack(packed, i)`` returns the arguments of run i.
    """
    if (interpreted() if compile is None else not compile) or _jit_disabled():
        return _wrapping_integers(make(_taken)), False
    kind = numba.typeof(arguments)
    unpack = _unpacker(str(kind))
    with _one_at_a_time:
        if unpack not in INSTEAD:
            reader = reading(kind)
            INSTEAD[unpack] = lambda packed, i: reader
    return compile_function(make(unpack), compile), True


def _taken(packed: Any, i: int) -> Any:
    return packed[i]


@lru_cache(maxsize=256)
def _unpacker(kind: str) -> Plain:
    """The ``unpack`` function for one type of arguments. The engine compiles `intrinsics.reading` in its place."""

    def unpack(packed: Any, i: int) -> Any:
        return packed[i] if kind else None

    return unpack


@lru_cache(maxsize=256)
def _kernel(mark: str, function: Plain) -> _Kernel:
    """Return one kernel per process for the same code. The mark changes when a constant that the code reads changes."""
    log.debug("kernel %s of %s", mark, ", ".join(kernel_names(function)))
    return _Kernel(_jit(function, mark, _nrt=False), lambda: _jit(_counted(function), mark))


class _Kernel:
    """A compiled function that turns reference counts on if its code needs them."""

    def __init__(self, lean: Plain, counted: Callable[[], Plain]) -> None:
        self._call, self._make_counted = lean, counted
        self.lean = True

    def __call__(self, *arguments: Any) -> Any:
        if self.lean:
            try:
                return self._call(*arguments)
            except (NumbaError, RuntimeError, NotImplementedError):
                log.debug("the kernel allocates: compiled again with reference counts")
                self._call, self.lean = self._make_counted(), False
        try:
            return self._call(*arguments)
        except (NumbaError, NotImplementedError) as error:
            raise InputError(f"the rule does not compile; {_gist(error)}") from error

    @property
    def direct(self) -> Plain:
        """The compiled function itself, for callers that know that it compiles."""
        return self._call

    @property
    def stats(self) -> Any:
        return self._call.stats  # type: ignore[attr-defined]


_TELLING = (
    *("Unknown attribute", "Untyped global", "NameError", "Cannot unify", "Use of unsupported"),
    *("missing a required", "too many positional", "No conversion", "Invalid use", "cannot assign"),
)


def _gist(error: BaseException) -> str:
    """The fault that a Numba message reports, and its place in the user's file."""
    lines = [line.strip() for line in str(error).splitlines()]
    if any("setattr" in line or "No definition for lowering" in line for line in lines):
        return "state is a record whose fields cannot be assigned to: write into the array, state.theta[:] = ..."
    frame = ("Failed in", "During:", "raised from", "<source elided>", "^", "File ")
    telling = [line for line in lines if any(word in line for word in _TELLING)]
    plain = [line for line in lines if line and not line.startswith(frame)]
    places = [line for line in lines if line.startswith("File ") and "site-packages" not in line]
    theirs = [line for line in places if "gradtd/" not in line.replace("\\", "/")]
    where = f" ({(theirs or places)[-1].rstrip(':')})" if places else ""
    return f"Numba says: {' '.join((telling or plain)[-1:])}{where}"


def _counted(function: Any) -> Plain:
    """A copy of a function, and of the functions in its closure, that may allocate: with reference counts on."""
    cells = []
    for cell in function.__closure__ or ():
        inside = cell.cell_contents
        if isinstance(inside, python_types.FunctionType) and inside not in INSTEAD and inside not in CHOICES:
            inside = _counted(inside)
            register_jitable(inside)
        cells.append(python_types.CellType(inside))
    return _copied(function, tuple(cells))


def _copied(function: Any, closure: tuple[Any, ...] | None) -> Any:
    code, names = function.__code__, function.__globals__
    return python_types.FunctionType(code, names, function.__name__, function.__defaults__, closure)


def _jit(function: Plain, mark: str, **options: Any) -> Plain:
    """Compile lazily, with the disk cache if there is a folder for it.

    No fastmath: it deletes the checks for numbers that are not finite, and it may change the order of additions.
    """
    try:
        return keep_safely(numba.njit(function, nogil=True, **options), mark)
    except (RuntimeError, OSError) as error:
        say_once(f"compiled code is not kept on disk: {error}")
        return numba.njit(function, nogil=True, **options)


def _wrapping_integers(function: Plain) -> Plain:
    """The plain Python function, with the silent 64-bit overflow of compiled code."""

    def call(*arguments: Any) -> Any:
        with np.errstate(over="ignore"):
            return function(*arguments)

    return call


# Pieces. By default, Numba makes machine code and two wrappers for each of the hundred small functions that a kernel
# reaches, then links them into the kernel, which is optimised and turned into machine code again. Only the last is ever
# executed. Here a piece is typed and lowered, and optimised in the kernel alone: half the time to compile, the same
# bytes, the same speed (`docs/decisions.md`).


class _Piece(JITCodeLibrary):
    """Code that is linked into other code, and never turned into machine code alone."""

    def _optimize_final_module(self) -> None:
        """Does nothing: the kernel that contains this code is optimised as a whole."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=False, analysis_only=False)
class _MakeCallable(LoweringPass):
    """Let other compiled functions find a compiled piece, which Numba looks up by the object that Python would call."""

    _name = "gradtd_make_callable"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        key = [state.func_id].append  # Numba requires a built-in function; this is a new one each time
        state.targetctx.insert_user_function(key, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=key)
        return True


class PieceCompiler(Compiler):
    """Numba's compilation steps without wrappers and machine code."""

    def define_pipelines(self) -> list[Any]:
        flags = self.state.flags
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        self.state.library = _Piece(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        steps = DefaultPassBuilder.define_nopython_pipeline(self.state)
        steps.add_pass_after(_MakeCallable, NativeLowering)
        steps.finalize()
        return [steps]


_LEAN: Any = {"_nrt": False, "forceinline": True, "pipeline_class": PieceCompiler}


def _make_known(functions: Iterable[Plain]) -> None:
    """Register plain functions with Numba."""
    for function in functions:
        if function in _known:
            continue
        if function in INSTEAD:
            overload(function, jit_options=_LEAN, strict=False)(INSTEAD[function])
        elif function in CHOICES:
            overload(function, jit_options=_LEAN, strict=False)(_chooser(CHOICES[function]))
        else:
            register_jitable(**_LEAN)(function)
        _known.add(function)


def _chooser(choice: Choice) -> Plain:
    def choose(first: Any, *rest: Any) -> Plain | None:
        given = (first, *rest)[choice.place]
        if isinstance(given, numba_types.NoneType):
            return choice.records.get(type(None))
        if isinstance(given, numba_types.NamedTuple | numba_types.NamedUniTuple):
            return choice.records.get(given.instance_class)
        return choice.dense

    return choose


def fingerprint(*functions: Plain) -> str:
    """A digest of the code of these functions, of all they call, and of the constants they read."""
    return _digest(_reachable(functions))


def _digest(reached: Mapping[Any, Outside]) -> str:
    digest = hashlib.sha256(_OWN_CODE + (b"bounds are checked" if checks_bounds() else b""))
    for function, outside in reached.items():
        digest.update(f"{function.__module__}.{function.__qualname__}|".encode())
        digest.update(_code_text(function.__code__).encode())
        for name, value in outside:
            if not callable(value) and not isinstance(value, python_types.ModuleType):
                digest.update(f"{name}={_constant_text(value)};".encode())
    return digest.hexdigest()[:24]


def _constant_text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, (int, float, complex, str, bytes, tuple, np.generic, type(None))):
        return repr(value)
    return type(value).__name__


@lru_cache(maxsize=4096)
def _code_text(code: python_types.CodeType) -> str:
    constants = [_code_text(c) if isinstance(c, python_types.CodeType) else repr(c) for c in code.co_consts]
    return "|".join([code.co_code.hex(), *constants, *code.co_names, *code.co_varnames, *code.co_freevars])


Outside = list[tuple[str, Any]]


def _reachable(functions: Iterable[Plain]) -> dict[Any, Outside]:
    """The given functions and all that they call, in the order in which they are found, each with the outside values
    that it reads."""
    found: dict[Any, Outside] = {}
    waiting = list(functions)
    while waiting:
        function = waiting.pop()
        if not isinstance(function, python_types.FunctionType) or function in found:
            continue
        if function.__module__.split(".")[0] in ("numpy", "math", "numba", "builtins"):
            continue
        found[function] = list(_outside_values(function))
        waiting.extend(value for _, value in found[function])
        if function in CHOICES:
            waiting.extend([CHOICES[function].dense, *CHOICES[function].records.values()])
    return found


def _outside_values(function: Any) -> Iterator[tuple[str, Any]]:
    """The names that a function takes from its closure, its globals, or modules among its globals, with their
    values."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue
    for default in function.__defaults__ or ():
        yield "default", default
    for names in _names_read(function.__code__):
        value = function.__globals__.get(names[0], _MISSING)
        for name in names[1:]:
            value = getattr(value, name, _MISSING) if isinstance(value, python_types.ModuleType) else _MISSING
        if value is not _MISSING:
            yield ".".join(names), value


_MISSING = object()


@lru_cache(maxsize=4096)
def _names_read(code: python_types.CodeType) -> tuple[tuple[str, ...], ...]:
    """The global names that a function's code reads, each with the attributes that the code takes from it."""
    found: list[tuple[str, ...]] = []
    chain: tuple[str, ...] = ()
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            chain = (instruction.argval,)
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and chain:
            chain = (*chain, instruction.argval)
        else:
            chain = ()
        if chain:
            found.append(chain)
    for constant in code.co_consts:
        if isinstance(constant, python_types.CodeType):
            found.extend(_names_read(constant))
    return tuple(dict.fromkeys(found))
