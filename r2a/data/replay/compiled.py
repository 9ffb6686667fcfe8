"""Compilation to machine code, and the copying of bytes in it.

Loops that copy bytes one by one do not become fast copies by themselves, hence the functions here. Copying past the
caches ("streaming") spares reading what is about to be overwritten: a third of the traffic, where more is written than
the caches can hold until it is read.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, no_type_check

from r2a.errors import UserError

try:
    import numba
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils, config
    from numba.extending import intrinsic
except ModuleNotFoundError as error:
    raise UserError("Learning while acting needs numba: pip install 'r2a[online]'.") from error


@functools.cache
def _cache_folder() -> Path:
    """Where machine code is kept: a folder for this state of all files that have functions to compile.

    By itself numba looks at a function's own file only, and would go on using what a function in another file was.
    """
    sources = sorted(path.read_bytes() for path in Path(__file__).parent.glob("*.py"))
    state = hashlib.sha256(b"".join(source for source in sources if b"@compiled" in source)).hexdigest()[:16]
    return Path(os.environ.get("R2A_CACHE", Path.home() / ".cache" / "r2a")) / f"compiled-{state}"


def compiled(function: Callable[..., Any]) -> Any:
    """Decorator: compile to machine code, and keep it on disk if that is possible.

    Below it stands `no_type_check`, for what checks shapes in tests would wrap the function beyond recognition.
    """
    dispatcher = numba.njit(nogil=True)(function)
    settings: Any = config
    folder, before = _cache_folder(), settings.CACHE_DIR
    try:
        folder.mkdir(parents=True, exist_ok=True)
        settings.CACHE_DIR = str(folder)
        dispatcher.enable_caching()
    except (OSError, RuntimeError):
        pass  # nowhere to keep it: it is compiled anew
    finally:
        settings.CACHE_DIR = before
    return dispatcher


STREAM_FROM = 4 << 20
"""Bytes that one call writes from which on it copies past the caches."""
_LINE = 64


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    """The byte `offset` bytes after the beginning of an array's elements, which lie side by side."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [offset])


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
def fill_bytes(typing_context, target, offset, count, value):
    """Give `count` bytes of an array, from the byte `offset` on, the value."""

    def generate(context, builder, signature, arguments):
        target, offset, count, value = arguments
        to = _pointer(context, builder, signature.args[0], target, offset)
        cgutils.memset(builder, to, count, builder.trunc(value, ir.IntType(8)))
        return context.get_dummy_value()

    return types.void(target, types.intp, types.intp, types.intp), generate


@intrinsic
@no_type_check
def _fetch_line(typing_context, source, offset):
    def generate(context, builder, signature, arguments):
        origin = _pointer(context, builder, signature.args[0], *arguments)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [origin.type, number, number, number])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(fetch, [origin, number(0), number(3), number(1)])  # to read, into all caches, data
        return context.get_dummy_value()

    return types.void(source, types.intp), generate


@compiled
@no_type_check
def fetch_bytes(source, offset, count):
    """Begin to bring bytes into the caches, without waiting for them."""
    for line in range(offset, offset + count, _LINE):
        _fetch_line(source, line)


@compiled
@no_type_check
def copy_bytes(target, target_offset, source, source_offset, count, stream):
    """Copy `count` bytes between arrays, from and to so many bytes after their beginnings.

    `stream`: past the caches.
    """
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
