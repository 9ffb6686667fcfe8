"""Compilation to machine code, and the copying of bytes in it.

Loops that copy bytes one by one do not become fast copies by themselves, hence the functions here. Copying past the
caches ("streaming") spares reading what is about to be overwritten: a third of the traffic, where more is written than
the caches can hold until it is read.
"""

from __future__ import annotations

from typing import Any, no_type_check

from r2a.errors import UserError

try:
    from llvmlite import ir
    from numba import njit, types
    from numba.core import cgutils
    from numba.extending import intrinsic
except ModuleNotFoundError as error:
    raise UserError("Learning while acting needs numba: pip install 'r2a[online]'.") from error

# Functions that are compiled are marked with no_type_check as well: what checks shapes in tests would wrap them.
compiled: Any = njit(cache=True, nogil=True)

STREAM_FROM = 4 << 20
"""Bytes that one call writes from which on it copies past the caches."""
_LINE = 64


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [offset])


@intrinsic
@no_type_check
def _copy(typing_context, target, target_offset, source, source_offset, count):
    def generate(context, builder, signature, arguments):
        target, target_offset, source, source_offset, count = arguments
        to = _pointer(context, builder, signature.args[0], target, target_offset)
        origin = _pointer(context, builder, signature.args[2], source, source_offset)
        cgutils.raw_memcpy(builder, to, origin, count, 1)
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, types.intp), generate


@intrinsic
@no_type_check
def _stream_line(typing_context, target, target_offset, source, source_offset):
    """Copy 64 bytes past the caches, to an address that is a multiple of 64."""

    def generate(context, builder, signature, arguments):
        target, target_offset, source, source_offset = arguments
        to = _pointer(context, builder, signature.args[0], target, target_offset)
        origin = _pointer(context, builder, signature.args[2], source, source_offset)
        words = ir.VectorType(ir.IntType(64), 8)
        line = builder.load(builder.bitcast(origin, words.as_pointer()), align=1)
        store = builder.store(line, builder.bitcast(to, words.as_pointer()), align=_LINE)
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp), generate


@intrinsic
@no_type_check
def _address(typing_context, array):
    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(data, context.get_value_type(types.intp))

    return types.intp(array), generate


@intrinsic
@no_type_check
def finish_streams(typing_context):
    """Wait until what was copied past the caches is there for other threads to see."""

    def generate(context, builder, signature, arguments):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
@no_type_check
def clear_bytes(typing_context, target, offset, count):
    """Fill with zeros."""

    def generate(context, builder, signature, arguments):
        to = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        cgutils.memset(builder, to, arguments[2], 0)
        return context.get_dummy_value()

    return types.void(target, types.intp, types.intp), generate


@compiled
@no_type_check
def copy_bytes(target, target_offset, source, source_offset, count, stream):
    """Copy `count` bytes between arrays of bytes with one axis; `stream`: past the caches."""
    if not stream or count < 4 * _LINE:
        _copy(target, target_offset, source, source_offset, count)
        return
    head = -(_address(target) + target_offset) % _LINE
    _copy(target, target_offset, source, source_offset, head)
    done = head
    while done + _LINE <= count:
        _stream_line(target, target_offset + done, source, source_offset + done)
        done += _LINE
    _copy(target, target_offset + done, source, source_offset + done, count - done)
