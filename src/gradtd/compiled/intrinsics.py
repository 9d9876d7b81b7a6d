"""LLVM code that Numba does not expose: prefetch instructions, and arguments read from a table of words (`packing`).

Interpreted, plain functions replace them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core import types as numba_types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from gradtd.compiled import prefetch
from gradtd.core.arrays import Plain


def _row_prefetcher(table: Any, row: Any) -> Plain:
    return _prefetching if isinstance(table, numba_types.Array) else prefetch.prefetch_row


def _prefetching(table: Any, row: Any) -> None:
    _prefetch(table, row)  # type: ignore[call-arg]


def _prefetching_one(array: Any, k: Any) -> None:
    _prefetch_one(array, k)  # type: ignore[call-arg]


@intrinsic
def _prefetch_one(typing_context: Any, array: Any, k: Any) -> Any:
    """Prefetch the cache line of one entry of an array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = context.make_array(signature.args[0])(context, builder, arguments[0])
        unpack: Plain = cgutils.unpack_tuple
        at = arguments[1]
        word = context.get_value_type(numba_types.intp)
        at = builder.mul(builder.zext(at, word) if at.type.width < 64 else at, unpack(builder, found.strides)[0])
        place = builder.gep(builder.bitcast(found.data, cgutils.voidptr_t), [at])
        builder.call(_prefetch_instruction(builder), [place, *(ir.IntType(32)(n) for n in (0, 3, 1))])
        return context.get_dummy_value()

    return numba_types.void(array, k), generate


def _prefetch_instruction(builder: Any) -> Any:
    words = [cgutils.voidptr_t, *[ir.IntType(32)] * 3]
    return builder.module.declare_intrinsic(
        "llvm.prefetch", (cgutils.voidptr_t,), ir.FunctionType(ir.VoidType(), words)
    )


@intrinsic
def _prefetch(typing_context: Any, table: Any, row: Any) -> Any:
    """Prefetch every cache line of a row of a dense table."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        unpack: Plain = cgutils.unpack_tuple
        count, stride = unpack(builder, array.shape), unpack(builder, array.strides)
        word, integer = context.get_value_type(numba_types.intp), ir.IntType(32)
        begin = builder.mul(
            builder.zext(arguments[1], word) if arguments[1].type.width < 64 else arguments[1], stride[0]
        )
        data = builder.bitcast(array.data, cgutils.voidptr_t)
        prefetch = _prefetch_instruction(builder)
        # A row need not begin at a cache line, so it may reach into one more: that of its last number.
        length = builder.mul(count[1], stride[1])
        last = builder.sub(length, stride[1])
        end = builder.add(last, word(_CACHE_LINE))
        with cgutils.for_range_slice(builder, word(0), end, word(_CACHE_LINE), word) as (at, _):
            within = builder.select(builder.icmp_signed("<", at, last), at, last)
            place = builder.gep(data, [builder.add(begin, within)])
            builder.call(prefetch, [place, integer(0), integer(3), integer(1)])
        return context.get_dummy_value()

    return numba_types.void(table, row), generate


_CACHE_LINE = 64


INSTEAD: dict[Plain, Plain] = {
    prefetch.prefetch_row: _row_prefetcher,
    prefetch.prefetch_entry: lambda array, k: _prefetching_one,
}
"""The code that is compiled in place of a plain function."""


def reading(kind: Any) -> Plain:
    """Code in place of ``unpack(packed, i)``: argument i of this Numba type, from words at an address."""

    @intrinsic
    def read(typing_context: Any, packed: Any, i: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            base = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
            words = _Words(context, builder, base, builder.mul(arguments[1], ir.IntType(64)(_length(kind))))
            return words.value(kind)

        return kind(packed, i), generate

    def unpacked(packed: Any, i: Any) -> Any:
        return read(packed, i)  # type: ignore[call-arg]

    return unpacked


def _length(kind: Any) -> int:
    """Number of words of a value of this type."""
    if isinstance(kind, numba_types.NoneType):
        return 0
    if isinstance(kind, numba_types.BaseTuple):
        parts: Any = kind.types  # type: ignore[attr-defined]
        return sum(_length(part) for part in parts)
    return 3 + 2 * kind.ndim if isinstance(kind, numba_types.Array) else 1


class _Words:
    """Generates code that reads one value after the other. An array is stored as address, size, item size, shape and
    strides.

    The caller that packed the values owns the memory, so no references are counted.
    """

    def __init__(self, context: Any, builder: Any, base: Any, first: Any) -> None:
        self.context, self.builder, self.base, self.first, self.at = context, builder, base, first, 0

    def word(self) -> Any:
        place = self.builder.add(self.first, ir.IntType(64)(self.at))
        self.at += 1
        return self.builder.load(self.builder.gep(self.base, [place]))

    def value(self, kind: Any) -> Any:
        builder = self.builder
        if isinstance(kind, numba_types.NoneType):
            return self.context.get_dummy_value()
        if isinstance(kind, numba_types.BaseTuple):
            parts = [self.value(part) for part in kind.types]  # type: ignore[attr-defined]
            return self.context.make_tuple(builder, kind, parts)
        if isinstance(kind, numba_types.Array):
            return self.array(kind)
        if isinstance(kind, numba_types.Float):
            return builder.bitcast(self.word(), ir.DoubleType())
        if isinstance(kind, numba_types.Boolean):
            return builder.trunc(self.word(), ir.IntType(1))
        return self.word()

    def array(self, kind: Any) -> Any:
        made = self.context.make_array(kind)(self.context, self.builder)
        data, _, itemsize = self.word(), self.word(), self.word()
        pack: Plain = cgutils.pack_array
        shape, strides = (pack(self.builder, [self.word() for _ in range(kind.ndim)]) for _ in range(2))
        populate: Plain = populate_array
        address = self.builder.inttoptr(data, made.data.type)
        populate(made, data=address, shape=shape, strides=strides, itemsize=itemsize, meminfo=None)
        return made._getvalue()
