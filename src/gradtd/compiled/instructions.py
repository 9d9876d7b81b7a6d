"""Instructions of a processor for which Numba has no word; where Python interprets, plain functions stand for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core import types as numba_types
from numba.extending import intrinsic

from gradtd.compiled import memory, rows, tiles
from gradtd.core.arrays import Plain


def _touch(table: Any, row: Any) -> Plain:
    return _prefetching if isinstance(table, numba_types.Array) else rows.touch_row


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
        # A row need not begin with a cache line, so it may end in one more: the last number's. A line beyond costs as
        # much as any.
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


def _tiling(a: Any, b: Any, first: Any, last: Any, i: Any, j: Any, spot: Any) -> None:
    _tile(a, b, first, last, i, j, spot)  # type: ignore[call-arg]


@intrinsic
def _tile(typing_context: Any, a: Any, b: Any, first: Any, last: Any, i: Any, j: Any, spot: Any) -> Any:
    """`gradtd.compiled.tiles.tile` with all its sums in registers, four numbers in each."""

    def put(builder: Any, array: Any, sums: list[Any], i: Any, j: Any) -> None:
        for n, found in enumerate(sums):
            builder.store(found, _fours(builder, array.data, 4 * n), align=8)

    return _of_tile(a, b, spot, put)


def _adding_tile(a: Any, b: Any, first: Any, last: Any, i: Any, j: Any, out: Any) -> None:
    _add_tile(a, b, first, last, i, j, out)  # type: ignore[call-arg]


@intrinsic
def _add_tile(typing_context: Any, a: Any, b: Any, first: Any, last: Any, i: Any, j: Any, out: Any) -> Any:
    """`gradtd.compiled.tiles.add_tile`: sums go from their registers to where they are added."""

    def put(builder: Any, array: Any, sums: list[Any], i: Any, j: Any) -> None:
        across = tiles.ACROSS // 4
        for n, found in enumerate(sums):
            line = _entry(builder, (out, array), builder.add(i, ir.IntType(64)(n // across)), j)
            place = _fours(builder, line, 4 * (n % across))
            builder.store(builder.fadd(builder.load(place, align=8), found), place, align=8)

    return _of_tile(a, b, out, put)


def _of_tile(a: Any, b: Any, out: Any, put: Callable[..., None]) -> Any:
    """The signature of an instruction that makes a tile of a'b, and its code; ``put`` writes the sums to ``out``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        of_a, of_b, of_out = (context.make_array(signature.args[n])(context, builder, arguments[n]) for n in (0, 1, 6))
        sums = _sums_of_products(builder, ((a, of_a), (b, of_b)), arguments[2:6])
        put(builder, of_out, sums, *arguments[4:6])
        return context.get_dummy_value()

    return numba_types.void(a, b, *[numba_types.intp] * 4, out), generate


_FOUR = ir.VectorType(ir.DoubleType(), 4)


def _sums_of_products(builder: Any, tables: Any, arguments: Any) -> list[Any]:
    """A loop over rows, and what the sums are behind it."""
    word, (first, last, i, j) = ir.IntType(64), arguments
    across, down = range(tiles.ACROSS // 4), range(tiles.DOWN)
    before, loop, behind = builder.block, *(builder.append_basic_block(name) for name in ("rows", "behind"))
    ahead = builder.icmp_signed("<", first, last)
    builder.cbranch(ahead, loop, behind)
    builder.position_at_end(loop)
    k = builder.phi(word)
    sums = [[builder.phi(_FOUR) for _ in across] for _ in down]
    line = _entry(builder, tables[1], k, j)
    right = [builder.load(_fours(builder, line, 4 * n), align=8) for n in across]
    added = []
    for n in down:
        left = _spread(builder, builder.load(_entry(builder, tables[0], k, builder.add(i, word(n)))))
        added.append([builder.call(_fused(builder), [left, right[m], sums[n][m]]) for m in across])
    following = builder.add(k, word(1))
    k.add_incoming(first, before)
    k.add_incoming(following, loop)
    nothing = ir.Constant(_FOUR, [0.0] * 4)
    builder.cbranch(builder.icmp_signed("<", following, last), loop, behind)
    builder.position_at_end(behind)
    found = []
    for n in down:
        for m in across:
            sums[n][m].add_incoming(nothing, before)
            sums[n][m].add_incoming(added[n][m], loop)
            found.append(builder.phi(_FOUR))
            found[-1].add_incoming(nothing, before)
            found[-1].add_incoming(added[n][m], loop)
    return found


def _entry(builder: Any, table: Any, row: Any, column: Any) -> Any:
    """Where an entry of a table is, which is given with its kind."""
    unpack: Plain = cgutils.unpack_tuple
    kind, array = table
    down, across = unpack(builder, array.strides)
    if kind.layout == "C":
        across = across.type(8)  # known, so that addresses need not be computed
    at = builder.add(builder.mul(row, down), builder.mul(column, across))
    place = builder.gep(builder.bitcast(array.data, cgutils.voidptr_t), [at])
    return builder.bitcast(place, ir.DoubleType().as_pointer())


def _fours(builder: Any, place: Any, number: int) -> Any:
    return builder.bitcast(builder.gep(place, [ir.IntType(64)(number)]), _FOUR.as_pointer())


def _spread(builder: Any, number: Any) -> Any:
    """The same number four times."""
    integer, nothing = ir.IntType(32), ir.Constant(_FOUR, ir.Undefined)
    one = builder.insert_element(nothing, number, integer(0))
    return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(integer, 4), [0] * 4))


def _fused(builder: Any) -> Any:
    """x y + z, rounded once where the processor can."""
    kind = ir.FunctionType(_FOUR, [_FOUR] * 3)
    insert: Plain = cgutils.get_or_insert_function
    return insert(builder.module, kind, "llvm.fmuladd.v4f64")


def _reading(address: Any, k: Any) -> Any:
    return _read(address, k)  # type: ignore[call-arg]


@intrinsic
def _read(typing_context: Any, address: Any, k: Any) -> Any:
    """`gradtd.compiled.memory.number_at`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ir.DoubleType().as_pointer())
        return builder.load(builder.gep(place, [arguments[1]]))

    return numba_types.float64(numba_types.int64, numba_types.int64), generate


INSTEAD: dict[Plain, Plain] = {
    rows.touch_row: _touch,
    rows.touch: lambda array, k: _prefetching_one,
    tiles.tile: lambda a, b, first, last, i, j, spot: _tiling,
    tiles.add_tile: lambda a, b, first, last, i, j, out: _adding_tile,
    memory.number_at: lambda address, k: _reading,
}
"""What is compiled in place of a plain function."""
