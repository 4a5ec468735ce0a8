"""The native calling convention: how entry functions and the helpers they call agree.

An entry is a tvm-ffi safe call, so tvm-ffi, this package and C can all call it:

    i32 @name(ptr self, ptr args, i32 num_args, ptr ret)          0: done, -1: an error was raised

`args` points to 16-byte values {i32 type_index, i32 zero, 8 bytes payload}. An entry reads them
with the functions of `support/arguments.ll`, which check them against constants emitted by
`descriptor`, and returns results with those of `support/tensors.ll`; a tensor's data is at `data +
byte_offset`. Scalars are stored into `ret` directly. Compared with numpy allocating the output and
passing it in, native results measured about 0.4 us a call faster.

`entry.Entry` emits a whole entry around a kernel that takes pointers and sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.runtime.dtype import dl_dtype

IMPORT_PREFIX = "lw.import."  # prefix of symbols that hold the names of imported functions
ANY = -1  # a dimension (or, as ndim, a rank) that is not checked


def symbol(k: int) -> int:
    """The descriptor's code for symbolic dimension number `k`."""
    return -2 - k


def pack_dtype(dtype: str) -> int:
    """A DLDataType as the i32 at offset 20 of a DLTensor; `void` (0 lanes) accepts any."""
    if dtype == "void":
        return 0
    code, bits, lanes = dl_dtype(dtype)
    return code | bits << 8 | lanes << 16


def c_string(name: str, value: str) -> str:
    """A private constant with the text and a terminating zero."""
    data = value.encode() + b"\0"
    body = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in data)
    return f'@{name} = private unnamed_addr constant [{len(data)} x i8] c"{body}"\n'


def constant_bytes(name: str, data: bytes, align: int) -> str:
    """A constant array of bytes that other modules can link to."""
    body = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in data)
    return f'@"{name}" = constant [{len(data)} x i8] c"{body}", align {align}\n'


def descriptor(
    name: str,
    function: str,
    argument: str,
    index: int,
    dtype: str = "void",
    dims: Sequence[int] | None = None,
    device_type: int = 1,
) -> str:
    """The constant `@name` that the `lw_arg_*` helpers read, and the strings it points to.

    `dims=None` leaves the rank unchecked. For tuples pass dims for each element.
    """
    ndim = -1 if dims is None else len(dims)
    sizes = ", ".join(f"i64 {d}" for d in dims or ())
    return (
        c_string(f"{name}.f", function)
        + c_string(f"{name}.a", argument)
        + f"@{name} = private unnamed_addr constant {{ ptr, ptr, i32, i32, i32, i32, [{max(ndim, 0)} x i64] }} "
        f"{{ ptr @{name}.f, ptr @{name}.a, i32 {index}, i32 {ndim}, i32 {pack_dtype(dtype)}, "
        f"i32 {device_type}, [{max(ndim, 0)} x i64] {f'[{sizes}]' if sizes else 'zeroinitializer'} }}, align 8\n"
    )
