"""Sixty-four comparisons at once: the few vector instructions that matching stands on.

Numba has no vector type, but LLVM has, on every processor: a comparison of 64 lanes whose result is cast to a
64-bit integer becomes a handful of SIMD instructions. These intrinsics are for use inside Numba functions.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types as _types
from numba.extending import intrinsic as _intrinsic

intrinsic: Any = _intrinsic  # a type checker sees other signatures than Numba functions call
types: Any = _types
LANES = 64  # boxes that one comparison decides
COUNTED = 16  # values that one count looks at
COMPRESSES = binding.get_host_cpu_features().get("avx512f", False)  # whether `write_chosen` is an instruction or a loop

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
_REGISTER_BITS = 512


def _load(context: Any, builder: Any, array_type: Any, array: Any, offset: Any, lanes: int) -> Any:
    element = context.get_data_type(array_type.dtype)
    pointer = builder.gep(context.make_array(array_type)(context, builder, array).data, [offset])
    vector = ir.VectorType(element, lanes)
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=array_type.dtype.bitwidth // 8)


def _splat(builder: Any, value: Any, lanes: int) -> Any:
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes))


def _bounds(context: Any, builder: Any, array_type: Any, array: Any, start: Any) -> tuple[Any, Any]:
    lows = _load(context, builder, array_type, array, start, LANES)
    highs = _load(context, builder, array_type, array, builder.add(start, ir.Constant(_I64, LANES)), LANES)
    return lows, highs


@intrinsic
def meeting(typing_context: Any, bounds: Any, offset: Any, low: Any, high: Any) -> Any:  # noqa: ARG001
    """Bit j is set where the interval from bounds[offset + j] to bounds[offset + 64 + j] meets [low, high]."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, start, low_end, high_end = arguments
        lows, highs = _bounds(context, builder, signature.args[0], array, start)
        begins = builder.icmp_signed("<=", lows, _splat(builder, high_end, LANES))
        ends = builder.icmp_signed("<=", _splat(builder, low_end, LANES), highs)
        return builder.bitcast(builder.and_(begins, ends), _I64)

    return types.uint64(bounds, types.int64, bounds.dtype, bounds.dtype), codegen


@intrinsic
def meeting_and_surely(typing_context: Any, bounds: Any, offset: Any, low: Any, high: Any) -> Any:  # noqa: ARG001
    """The bits of `meeting`, and those of them where the intervals share more than an end."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, start, low_end, high_end = arguments
        lows, highs = _bounds(context, builder, signature.args[0], array, start)
        low_ends, high_ends = _splat(builder, low_end, LANES), _splat(builder, high_end, LANES)
        masks = [
            builder.and_(builder.icmp_signed(less, lows, high_ends), builder.icmp_signed(less, low_ends, highs))
            for less in ("<=", "<")
        ]
        return context.make_tuple(builder, signature.return_type, [builder.bitcast(mask, _I64) for mask in masks])

    return types.Tuple((types.uint64, types.uint64))(bounds, types.int64, bounds.dtype, bounds.dtype), codegen


@intrinsic
def meeting_bytes(typing_context: Any, bounds: Any, offset: Any, low: Any, high: Any) -> Any:  # noqa: ARG001
    """The same as `meeting`, of bytes without a sign."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, start, low_end, high_end = arguments
        lows, highs = _bounds(context, builder, signature.args[0], array, start)
        begins = builder.icmp_unsigned("<=", lows, _splat(builder, high_end, LANES))
        ends = builder.icmp_unsigned("<=", _splat(builder, low_end, LANES), highs)
        return builder.bitcast(builder.and_(begins, ends), _I64)

    return types.uint64(bounds, types.int64, types.uint8, types.uint8), codegen


@intrinsic
def write_chosen(typing_context: Any, source: Any, start: Any, chosen: Any, target: Any, at: Any) -> Any:  # noqa: ARG001
    """Write those of the 64 values source[start:] whose bits are set to target[at:]; return where the next belongs.

    As many places after them as a register holds are overwritten too.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source_type, target_type = signature.args[0], signature.args[3]
        array, first, bits, out, place = arguments
        values = context.get_data_type(source_type.dtype)
        lanes = _REGISTER_BITS // source_type.dtype.bitwidth
        register, mask_bits = ir.VectorType(values, lanes), ir.IntType(lanes)
        mask_type = ir.VectorType(_I1, lanes)
        compress = builder.module.declare_intrinsic(
            f"llvm.experimental.vector.compress.v{lanes}i{source_type.dtype.bitwidth}",
            fnty=ir.FunctionType(register, [register, mask_type, register]),
        )
        wide = ir.VectorType(context.get_data_type(target_type.dtype), lanes)
        data = context.make_array(target_type)(context, builder, out).data
        for number in range(LANES // lanes):
            lane = ir.Constant(_I64, number * lanes)
            loaded = _load(context, builder, source_type, array, builder.add(first, lane), lanes)
            some = builder.trunc(builder.lshr(bits, lane), mask_bits)
            packed = builder.call(
                compress, [loaded, builder.bitcast(some, mask_type), ir.Constant(register, ir.Undefined)]
            )
            if target_type.dtype.bitwidth > source_type.dtype.bitwidth:
                packed = builder.sext(packed, wide)
            pointer = builder.bitcast(builder.gep(data, [place]), wide.as_pointer())
            builder.store(packed, pointer, align=target_type.dtype.bitwidth // 8)
            place = builder.add(place, builder.zext(builder.ctpop(some), _I64))
        return place

    return types.int64(source, types.int64, types.uint64, target, types.int64), codegen


@intrinsic
def count_up_to(typing_context: Any, values: Any, offset: Any, limit: Any) -> Any:  # noqa: ARG001
    """How many of the 16 values from `offset` on are <= limit."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, start, value = arguments
        loaded = _load(context, builder, signature.args[0], array, start, COUNTED)
        splat = _splat(builder, value, COUNTED)
        compare = builder.fcmp_ordered if isinstance(signature.args[2], types.Float) else builder.icmp_signed
        bits = builder.bitcast(compare("<=", loaded, splat), ir.IntType(COUNTED))
        return builder.zext(builder.ctpop(bits), _I64)

    return types.int64(values, types.int64, values.dtype), codegen


@intrinsic
def count_bits(typing_context: Any, bits: Any) -> Any:  # noqa: ARG001
    """How many bits of a 64-bit word are set."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), codegen


@intrinsic
def lowest_bit(typing_context: Any, bits: Any) -> Any:  # noqa: ARG001
    """The number of the lowest set bit of a 64-bit word; 64 where none is set."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.cttz(arguments[0], ir.Constant(_I1, 0))

    return types.int64(types.uint64), codegen
