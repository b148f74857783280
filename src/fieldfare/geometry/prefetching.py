"""A hint to the processor: load a place of an array, it will be read soon. What waits for memory waits together."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_READ, _KEEP, _DATA = 0, 3, 1


@intrinsic
def prefetch(_: Any, array: Any, index: Any) -> Any:
    """Begin to load array[index]; the index must be one of the array."""

    def generated(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = cgutils.get_item_pointer(  # type: ignore[no-untyped-call]
            context, builder, signature.args[0], view, [arguments[1]], wraparound=False, boundscheck=False
        )
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        name = "llvm.prefetch.p0i8"
        hint = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]
        options = [ir.Constant(number, option) for option in (_READ, _KEEP, _DATA)]
        builder.call(hint, [builder.bitcast(place, pointer), *options])
        return context.get_dummy_value()

    return types.void(array, index), generated
