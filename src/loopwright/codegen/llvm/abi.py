"""The native calling convention: text of entry functions and of the helpers they call.

An entry is a tvm-ffi safe call, so tvm-ffi, this package and C can all call it:

    i32 @name(ptr self, ptr args, i32 num_args, ptr ret)          0: done, -1: an error was raised

`args` points at 16-byte values {i32 type_index, i32 zero, 8 bytes payload}. How an entry reads them:

- *Tensors* (type 7: DLTensor*, type 70: a tensor object, its DLTensor 24 bytes in):
  `ptr @lw_arg_tensor(ptr arg, ptr desc, ptr vars)` checks type, device, ndim, dtype, shape and that
  strides are row-major, and returns the DLTensor or null after raising (TypeError for a non-tensor,
  ValueError for the rest, saying what was got). The data is at `data + byte_offset`. `desc` is a
  constant made by `descriptor`; a dimension there is a number, ANY, or `symbol(k)`: the first argument
  that has it binds `vars[k]` (an i64; the entry sets all to -1 before), later ones must agree.
- *Shapes* (69): `ptr @lw_arg_shape(ptr arg, ptr desc, ptr vars)`, same checks; returns {ptr data, i64 size}.
- *Tuples* (71 array, 75 list): `ptr @lw_arg_tuple(ptr arg, ptr desc)` returns its elements, which are
  read like arguments; the descriptor's ndim is the expected length.
- *Scalars*: `i32 @lw_arg_int(ptr arg, ptr desc, ptr out_i64)`, `i32 @lw_arg_float(ptr arg, ptr desc, ptr out_f64)`.
- the number of them: `i32 @lw_arg_count(i32 got, i32 expected, ptr name)`.

How results leave: `ptr @lw_tensor_alloc(i32 ndim, ptr shape, i32 dtype)` makes one block holding a
DLManagedTensor, its shape and strides and the data (64-byte aligned, address in the block's first
word; null after raising when memory is out). Its deleter is libc's `free`, so a result may outlive
the code that made it. `i32 @lw_ret_tensor(ptr block, ptr ret)` hands it out as a tvm-ffi tensor
(about 60 ns for both); `void @lw_tensor_drop(ptr block)` frees it on an error path.
`i32 @lw_ret_tuple(ptr values, i32 n, ptr ret)` hands out n values as one array and takes over
their references. Scalars are stored into `ret` directly. Measured against letting Python make the
output with numpy and pass it in, this saves about 0.4 us a call.

`entry.emit_entry` writes a whole entry for a kernel that takes pointers and sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.codegen.llvm import callbacks
from loopwright.runtime.dtype import dl_dtype

ANY = -1  # a dimension (or, as ndim, a rank) that is not checked


def symbol(k: int) -> int:
    """The descriptor's code for symbolic dimension number `k`."""
    return -2 - k


def pack_dtype(dtype: str) -> int:
    """A DLDataType as the i32 found at offset 20 of a DLTensor; `void` (0 lanes) accepts any."""
    if dtype == "void":
        return 0
    code, bits, lanes = dl_dtype(dtype)
    return code | bits << 8 | lanes << 16


def c_string(name: str, value: str) -> str:
    """A private constant with the text and a closing zero."""
    data = value.encode() + b"\0"
    body = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in data)
    return f'@{name} = private unnamed_addr constant [{len(data)} x i8] c"{body}"\n'


def constant_bytes(name: str, data: bytes, align: int) -> str:
    """A constant array of bytes that other modules can find."""
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
    """The constant `@name` that the `lw_arg_*` helpers read, with the strings it points to.

    `dims=None` leaves the rank unchecked. For tuples pass as many dims as elements.
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


DECLARATIONS = {
    "lw_arg_count": "declare i32 @lw_arg_count(i32, i32, ptr)",
    "lw_arg_tensor": "declare ptr @lw_arg_tensor(ptr, ptr, ptr)",
    "lw_arg_shape": "declare ptr @lw_arg_shape(ptr, ptr, ptr)",
    "lw_arg_tuple": "declare ptr @lw_arg_tuple(ptr, ptr)",
    "lw_check_dim": "declare i32 @lw_check_dim(ptr, i64, i64, i64)",
    "lw_arg_int": "declare i32 @lw_arg_int(ptr, ptr, ptr)",
    "lw_arg_float": "declare i32 @lw_arg_float(ptr, ptr, ptr)",
    "lw_tensor_alloc": "declare ptr @lw_tensor_alloc(i32, ptr, i32)",
    "lw_tensor_drop": "declare void @lw_tensor_drop(ptr)",
    "lw_ret_tensor": "declare i32 @lw_ret_tensor(ptr, ptr)",
    "lw_ret_tuple": "declare i32 @lw_ret_tuple(ptr, i32, ptr)",
    "lw_raise": "declare void @lw_raise(ptr, ptr)",
    "lw_raise_value": "declare void @lw_raise_value(ptr, ptr, i64)",
    **callbacks.DECLARATIONS,
}


def text(triple: str) -> str:
    """The helpers' module. It refers to tvm-ffi's C API, so that must be loaded first."""
    known = _STRINGS | callbacks.STRINGS
    strings = "".join(c_string(f"lw.s.{key}", value) for key, value in known.items())
    names = "".join(c_string(f"lw.dt{i}", value) for i, value in enumerate(_DTYPE_NAMES))
    count = len(_DTYPE_NAMES)
    table = ", ".join(f"ptr @lw.dt{i}" for i in range(count))
    names += f"@lw.dtypes = private unnamed_addr constant [{count} x ptr] [{table}]\n"
    helpers = _HELPERS.replace("{DTYPES}", str(count))
    helpers = helpers.replace("{MADVISE}", _MADVISE if "linux" in triple else "")
    return strings + names + helpers + callbacks.TEXT


_WHO = "%s: argument %d `%s` "
_STRINGS = {
    "TypeError": "TypeError",
    "ValueError": "ValueError",
    "MemoryError": "MemoryError",
    "array": "ffi.Array",
    "count": "%s: expected %d arguments, got %d",
    "kind": _WHO + "must be %s, got %s",
    "ndim": _WHO + "has ndim %d, expected ndim %d",
    "length": _WHO + "has %lld elements, expected %lld",
    "dtype": _WHO + "has dtype %s, expected dtype %s",
    "range": _WHO + "is %lld, which %s cannot hold",
    "shape": _WHO + "has shape[%d] = %lld, expected %lld",
    "strides": _WHO
    + "is not contiguous in row-major order; pass a copy, such as numpy.ascontiguousarray(x)",
    "device": _WHO + "is on a device of DLPack type %d, expected type %d",
    "memory": "cannot allocate a tensor of %lld bytes",
    "bits": "%s%d",
    "lanes": "%sx%d",
    "plain": "%s",
    "tensor": "a tensor",
    "shape_": "a shape",
    "tuple": "a tuple",
    "int": "an int",
    "float": "a float",
    "none": "None",
    "bool": "a bool",
    "aint": "an int",
    "afloat": "a float",
    "astr": "a str",
    "atensor": "a tensor",
    "ashape": "a shape",
    "atuple": "a tuple",
    "afunction": "a function",
    "object": "another object",
}

# By DLPack type code; codes above 5 name the whole type, its bits included.
_DTYPE_NAMES = (
    "int", "uint", "float", "handle", "bfloat", "complex", "bool",
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn",
)  # fmt: skip

# Huge pages, as numpy asks for too: 40 MB filled for the first time take 3 ms instead of 20.
_MADVISE = """%at = ptrtoint ptr %block to i64
  %a0 = add i64 %at, 4095
  %a1 = and i64 %a0, -4096
  %page = inttoptr i64 %a1 to ptr
  %len0 = sub i64 %all, 4096
  %len1 = and i64 %len0, -4096
  %adv = call i32 @madvise(ptr %page, i64 %len1, i32 14)"""

_HELPERS = """
%lw.desc = type { ptr, ptr, i32, i32, i32, i32, [0 x i64] }

declare void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)
declare i32 @TVMFFITensorFromDLPack(ptr, i32, i32, ptr)
declare i32 @TVMFFIFunctionGetGlobal(ptr, ptr)
declare i32 @TVMFFIFunctionCall(ptr, ptr, i32, ptr)
declare i32 @TVMFFIObjectDecRef(ptr)
declare i32 @snprintf(ptr, i64, ptr, ...)
declare i32 @madvise(ptr, i64, i32)
declare noalias ptr @aligned_alloc(i64, i64)
declare void @free(ptr)

define void @lw_raise(ptr %kind, ptr %message) cold {
  call void @TVMFFIErrorSetRaisedFromCStr(ptr %kind, ptr %message)
  ret void
}

define void @lw_raise_value(ptr %kind, ptr %format, i64 %value) cold {
  %buf = alloca [2048 x i8], align 1
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %buf, i64 2048, ptr %format, i64 %value)
  call void @lw_raise(ptr %kind, ptr %buf)
  ret void
}

define i32 @lw_arg_count(i32 %got, i32 %expected, ptr %name) {
entry:
  %ok = icmp eq i32 %got, %expected
  br i1 %ok, label %fine, label %bad
fine:
  ret i32 0
bad:
  %buf = alloca [512 x i8], align 1
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %buf, i64 512, ptr @lw.s.count, ptr %name, i32 %expected, i32 %got)
  call void @TVMFFIErrorSetRaisedFromCStr(ptr @lw.s.TypeError, ptr %buf)
  ret i32 -1
}

; Name a value's type for a message.
define internal ptr @lw.kind_name(i32 %type) {
entry:
  switch i32 %type, label %other [ i32 0, label %none
    i32 1, label %int
    i32 2, label %bool
    i32 3, label %float
    i32 7, label %tensor
    i32 11, label %str
    i32 65, label %str
    i32 68, label %function
    i32 69, label %shape
    i32 70, label %tensor
    i32 71, label %tuple
    i32 75, label %tuple ]
none:
  ret ptr @lw.s.none
int:
  ret ptr @lw.s.aint
bool:
  ret ptr @lw.s.bool
float:
  ret ptr @lw.s.afloat
str:
  ret ptr @lw.s.astr
function:
  ret ptr @lw.s.afunction
shape:
  ret ptr @lw.s.ashape
tensor:
  ret ptr @lw.s.atensor
tuple:
  ret ptr @lw.s.atuple
other:
  ret ptr @lw.s.object
}

define internal void @lw.raise_kind(ptr %arg, ptr %desc, ptr %wanted) noinline cold {
  %buf = alloca [512 x i8], align 1
  %type = load i32, ptr %arg, align 8
  %got = call ptr @lw.kind_name(i32 %type)
  %f = load ptr, ptr %desc, align 8
  %ap = getelementptr %lw.desc, ptr %desc, i32 0, i32 1
  %a = load ptr, ptr %ap, align 8
  %ip = getelementptr %lw.desc, ptr %desc, i32 0, i32 2
  %i = load i32, ptr %ip, align 8
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %buf, i64 512, ptr @lw.s.kind, ptr %f, i32 %i, ptr %a, ptr %wanted, ptr %got)
  call void @TVMFFIErrorSetRaisedFromCStr(ptr @lw.s.TypeError, ptr %buf)
  ret void
}

; A ValueError about an argument with up to three numbers in its message.
define internal void @lw.raise_value(ptr %desc, ptr %format, i64 %x, i64 %y, i64 %z) noinline cold {
  %buf = alloca [512 x i8], align 1
  %f = load ptr, ptr %desc, align 8
  %ap = getelementptr %lw.desc, ptr %desc, i32 0, i32 1
  %a = load ptr, ptr %ap, align 8
  %ip = getelementptr %lw.desc, ptr %desc, i32 0, i32 2
  %i = load i32, ptr %ip, align 8
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %buf, i64 512, ptr %format, ptr %f, i32 %i, ptr %a, i64 %x, i64 %y, i64 %z)
  call void @TVMFFIErrorSetRaisedFromCStr(ptr @lw.s.ValueError, ptr %buf)
  ret void
}

define internal void @lw.name_dtype(ptr %out, i32 %dtype) noinline cold {
entry:
  %code = and i32 %dtype, 255
  %b0 = lshr i32 %dtype, 8
  %bits = and i32 %b0, 255
  %lanes = lshr i32 %dtype, 16
  %known = icmp ult i32 %code, {DTYPES}
  %index = select i1 %known, i32 %code, i32 3
  %np = getelementptr ptr, ptr @lw.dtypes, i32 %index
  %name = load ptr, ptr %np, align 8
  %whole = icmp ugt i32 %code, 5
  %format = select i1 %whole, ptr @lw.s.plain, ptr @lw.s.bits
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %out, i64 32, ptr %format, ptr %name, i32 %bits)
  %vector = icmp ugt i32 %lanes, 1
  br i1 %vector, label %more, label %exit
more:
  %at = sext i32 %n to i64
  %end = getelementptr i8, ptr %out, i64 %at
  %nothing = getelementptr i8, ptr @lw.s.plain, i64 2
  %m = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %end, i64 16, ptr @lw.s.lanes, ptr %nothing, i32 %lanes)
  br label %exit
exit:
  ret void
}

define internal void @lw.raise_dtype(ptr %desc, i32 %got, i32 %want) noinline cold {
  %buf = alloca [512 x i8], align 1
  %g = alloca [64 x i8], align 1
  %w = alloca [64 x i8], align 1
  call void @lw.name_dtype(ptr %g, i32 %got)
  call void @lw.name_dtype(ptr %w, i32 %want)
  %f = load ptr, ptr %desc, align 8
  %ap = getelementptr %lw.desc, ptr %desc, i32 0, i32 1
  %a = load ptr, ptr %ap, align 8
  %ip = getelementptr %lw.desc, ptr %desc, i32 0, i32 2
  %i = load i32, ptr %ip, align 8
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %buf, i64 512, ptr @lw.s.dtype, ptr %f, i32 %i, ptr %a, ptr %g, ptr %w)
  call void @TVMFFIErrorSetRaisedFromCStr(ptr @lw.s.ValueError, ptr %buf)
  ret void
}

; Compare %n sizes with the descriptor's, binding symbolic ones; false after raising.
define internal void @lw.raise_range(ptr %desc, i64 %value, i32 %dtype) noinline cold {
  %buf = alloca [512 x i8], align 1
  %w = alloca [64 x i8], align 1
  call void @lw.name_dtype(ptr %w, i32 %dtype)
  %f = load ptr, ptr %desc, align 8
  %ap = getelementptr %lw.desc, ptr %desc, i32 0, i32 1
  %a = load ptr, ptr %ap, align 8
  %ip = getelementptr %lw.desc, ptr %desc, i32 0, i32 2
  %i = load i32, ptr %ip, align 8
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %buf, i64 512, ptr @lw.s.range, ptr %f, i32 %i, ptr %a, i64 %value, ptr %w)
  call void @TVMFFIErrorSetRaisedFromCStr(ptr @lw.s.ValueError, ptr %buf)
  ret void
}

define internal i1 @lw.match_dims(ptr %dims, i32 %n, ptr %desc, ptr %vars) {
entry:
  %some = icmp sgt i32 %n, 0
  br i1 %some, label %loop, label %good
loop:
  %i = phi i32 [ 0, %entry ], [ %i1, %next ]
  %dp = getelementptr i64, ptr %dims, i32 %i
  %got = load i64, ptr %dp, align 8
  %wp = getelementptr %lw.desc, ptr %desc, i32 0, i32 6, i32 %i
  %want = load i64, ptr %wp, align 8
  %fixed = icmp sge i64 %want, 0
  br i1 %fixed, label %compare, label %free
free:
  %any = icmp eq i64 %want, -1
  br i1 %any, label %next, label %bound
bound:
  %k = sub i64 -2, %want
  %vp = getelementptr i64, ptr %vars, i64 %k
  %known = load i64, ptr %vp, align 8
  %unset = icmp slt i64 %known, 0
  br i1 %unset, label %bind, label %compare
bind:
  store i64 %got, ptr %vp, align 8
  br label %next
compare:
  %expected = phi i64 [ %want, %loop ], [ %known, %bound ]
  %same = icmp eq i64 %got, %expected
  br i1 %same, label %next, label %bad
next:
  %i1 = add i32 %i, 1
  %more = icmp slt i32 %i1, %n
  br i1 %more, label %loop, label %good
good:
  ret i1 true
bad:
  %wide = zext i32 %i to i64
  call void @lw.raise_value(ptr %desc, ptr @lw.s.shape, i64 %wide, i64 %got, i64 %expected)
  ret i1 false
}

define ptr @lw_arg_tensor(ptr %arg, ptr %desc, ptr %vars) {
entry:
  %type = load i32, ptr %arg, align 8
  %pp = getelementptr i8, ptr %arg, i64 8
  %payload = load ptr, ptr %pp, align 8
  %object = getelementptr i8, ptr %payload, i64 24
  %is_object = icmp eq i32 %type, 70
  %is_plain = icmp eq i32 %type, 7
  %is_tensor = or i1 %is_object, %is_plain
  br i1 %is_tensor, label %tensor, label %bad_kind
tensor:
  %t = select i1 %is_object, ptr %object, ptr %payload
  %vp = getelementptr i8, ptr %t, i64 8
  %device = load i32, ptr %vp, align 8
  %wvp = getelementptr %lw.desc, ptr %desc, i32 0, i32 5
  %want_device = load i32, ptr %wvp, align 4
  %same_device = icmp eq i32 %device, %want_device
  br i1 %same_device, label %rank, label %bad_device
rank:
  %np = getelementptr i8, ptr %t, i64 16
  %ndim = load i32, ptr %np, align 8
  %wnp = getelementptr %lw.desc, ptr %desc, i32 0, i32 3
  %want_ndim = load i32, ptr %wnp, align 4
  %same_ndim = icmp eq i32 %ndim, %want_ndim
  %any_ndim = icmp eq i32 %want_ndim, -1
  %good_ndim = or i1 %same_ndim, %any_ndim
  br i1 %good_ndim, label %dtype, label %bad_ndim
dtype:
  %tp = getelementptr i8, ptr %t, i64 20
  %dt = load i32, ptr %tp, align 4
  %wtp = getelementptr %lw.desc, ptr %desc, i32 0, i32 4
  %want_dt = load i32, ptr %wtp, align 4
  %same_dt = icmp eq i32 %dt, %want_dt
  %any_dt = icmp eq i32 %want_dt, 0
  %good_dt = or i1 %same_dt, %any_dt
  br i1 %good_dt, label %dims, label %bad_dtype
dims:
  %sp = getelementptr i8, ptr %t, i64 24
  %shape = load ptr, ptr %sp, align 8
  br i1 %any_ndim, label %layout, label %match
match:
  %matched = call i1 @lw.match_dims(ptr %shape, i32 %ndim, ptr %desc, ptr %vars)
  br i1 %matched, label %layout, label %fail
layout:
  %stp = getelementptr i8, ptr %t, i64 32
  %strides = load ptr, ptr %stp, align 8
  %compact = icmp eq ptr %strides, null
  br i1 %compact, label %good, label %walk
walk:
  %i = phi i32 [ %ndim, %layout ], [ %j, %fine ]
  %expected = phi i64 [ 1, %layout ], [ %expected1, %fine ]
  %done = icmp eq i32 %i, 0
  br i1 %done, label %good, label %step
step:
  %j = sub i32 %i, 1
  %xp = getelementptr i64, ptr %strides, i32 %j
  %stride = load i64, ptr %xp, align 8
  %yp = getelementptr i64, ptr %shape, i32 %j
  %size = load i64, ptr %yp, align 8
  %expected1 = mul i64 %expected, %size
  %right = icmp eq i64 %stride, %expected
  %single = icmp eq i64 %size, 1
  %okay = or i1 %right, %single
  br i1 %okay, label %fine, label %check_empty
fine:
  br label %walk
check_empty:
  ; A tensor without elements is contiguous whatever its strides say.
  %c = phi i32 [ 0, %step ], [ %c1, %seek ]
  %end = icmp eq i32 %c, %ndim
  br i1 %end, label %bad_strides, label %seek
seek:
  %zp = getelementptr i64, ptr %shape, i32 %c
  %zs = load i64, ptr %zp, align 8
  %zero = icmp eq i64 %zs, 0
  %c1 = add i32 %c, 1
  br i1 %zero, label %good, label %check_empty
good:
  ret ptr %t
bad_kind:
  call void @lw.raise_kind(ptr %arg, ptr %desc, ptr @lw.s.tensor)
  br label %fail
bad_device:
  %d64 = zext i32 %device to i64
  %wd64 = zext i32 %want_device to i64
  call void @lw.raise_value(ptr %desc, ptr @lw.s.device, i64 %d64, i64 %wd64, i64 0)
  br label %fail
bad_ndim:
  %n64 = zext i32 %ndim to i64
  %wn64 = zext i32 %want_ndim to i64
  call void @lw.raise_value(ptr %desc, ptr @lw.s.ndim, i64 %n64, i64 %wn64, i64 0)
  br label %fail
bad_dtype:
  call void @lw.raise_dtype(ptr %desc, i32 %dt, i32 %want_dt)
  br label %fail
bad_strides:
  call void @lw.raise_value(ptr %desc, ptr @lw.s.strides, i64 0, i64 0, i64 0)
  br label %fail
fail:
  ret ptr null
}

define ptr @lw_arg_shape(ptr %arg, ptr %desc, ptr %vars) {
entry:
  %type = load i32, ptr %arg, align 8
  %is = icmp eq i32 %type, 69
  br i1 %is, label %rank, label %bad_kind
rank:
  %pp = getelementptr i8, ptr %arg, i64 8
  %payload = load ptr, ptr %pp, align 8
  %cell = getelementptr i8, ptr %payload, i64 24
  %np = getelementptr i8, ptr %cell, i64 8
  %n = load i64, ptr %np, align 8
  %wnp = getelementptr %lw.desc, ptr %desc, i32 0, i32 3
  %want32 = load i32, ptr %wnp, align 4
  %want = sext i32 %want32 to i64
  %any = icmp eq i64 %want, -1
  br i1 %any, label %good, label %length
length:
  %same = icmp eq i64 %n, %want
  br i1 %same, label %match, label %bad_length
match:
  %data = load ptr, ptr %cell, align 8
  %ok = call i1 @lw.match_dims(ptr %data, i32 %want32, ptr %desc, ptr %vars)
  br i1 %ok, label %good, label %fail
good:
  ret ptr %cell
bad_kind:
  call void @lw.raise_kind(ptr %arg, ptr %desc, ptr @lw.s.shape_)
  br label %fail
bad_length:
  call void @lw.raise_value(ptr %desc, ptr @lw.s.length, i64 %n, i64 %want, i64 0)
  br label %fail
fail:
  ret ptr null
}

define ptr @lw_arg_tuple(ptr %arg, ptr %desc) {
entry:
  %type = load i32, ptr %arg, align 8
  %is_array = icmp eq i32 %type, 71
  %is_list = icmp eq i32 %type, 75
  %is = or i1 %is_array, %is_list
  br i1 %is, label %length, label %bad_kind
length:
  %pp = getelementptr i8, ptr %arg, i64 8
  %payload = load ptr, ptr %pp, align 8
  %cell = getelementptr i8, ptr %payload, i64 24
  %np = getelementptr i8, ptr %cell, i64 8
  %n = load i64, ptr %np, align 8
  %wnp = getelementptr %lw.desc, ptr %desc, i32 0, i32 3
  %want32 = load i32, ptr %wnp, align 4
  %want = sext i32 %want32 to i64
  %same = icmp eq i64 %n, %want
  %any = icmp eq i64 %want, -1
  %ok = or i1 %same, %any
  br i1 %ok, label %good, label %bad_length
good:
  %data = load ptr, ptr %cell, align 8
  %none = icmp eq ptr %data, null
  %elements = select i1 %none, ptr %cell, ptr %data
  ret ptr %elements
bad_kind:
  call void @lw.raise_kind(ptr %arg, ptr %desc, ptr @lw.s.tuple)
  ret ptr null
bad_length:
  call void @lw.raise_value(ptr %desc, ptr @lw.s.length, i64 %n, i64 %want, i64 0)
  ret ptr null
}

define i32 @lw_check_dim(ptr %desc, i64 %axis, i64 %got, i64 %want) {
entry:
  %same = icmp eq i64 %got, %want
  br i1 %same, label %good, label %bad
good:
  ret i32 0
bad:
  call void @lw.raise_value(ptr %desc, ptr @lw.s.shape, i64 %axis, i64 %got, i64 %want)
  ret i32 -1
}

define i32 @lw_arg_int(ptr %arg, ptr %desc, ptr %out) {
entry:
  %type = load i32, ptr %arg, align 8
  %is_int = icmp eq i32 %type, 1
  %is_bool = icmp eq i32 %type, 2
  %is = or i1 %is_int, %is_bool
  br i1 %is, label %good, label %bad
good:
  %pp = getelementptr i8, ptr %arg, i64 8
  %value = load i64, ptr %pp, align 8
  store i64 %value, ptr %out, align 8
  %dp = getelementptr %lw.desc, ptr %desc, i32 0, i32 4
  %dtype = load i32, ptr %dp, align 8
  %code = and i32 %dtype, 255
  %b0 = lshr i32 %dtype, 8
  %bits = and i32 %b0, 255
  %small = icmp ult i32 %bits, 64
  %whole = icmp ult i32 %code, 2
  %checked = and i1 %small, %whole
  br i1 %checked, label %range, label %done
range:
  ; -2^(bits-1) <= value < 2^(bits-1), or 0 <= value < 2^bits: nothing is left above those bits.
  %signed = icmp eq i32 %code, 0
  %less = sub i32 %bits, 1
  %used = select i1 %signed, i32 %less, i32 %bits
  %wide = zext i32 %used to i64
  %above = ashr i64 %value, %wide
  %zero = icmp eq i64 %above, 0
  %minus = icmp eq i64 %above, -1
  %negative = and i1 %signed, %minus
  %fits = or i1 %zero, %negative
  br i1 %fits, label %done, label %large
done:
  ret i32 0
large:
  call void @lw.raise_range(ptr %desc, i64 %value, i32 %dtype)
  ret i32 -1
bad:
  call void @lw.raise_kind(ptr %arg, ptr %desc, ptr @lw.s.int)
  ret i32 -1
}

define i32 @lw_arg_float(ptr %arg, ptr %desc, ptr %out) {
entry:
  %type = load i32, ptr %arg, align 8
  %pp = getelementptr i8, ptr %arg, i64 8
  switch i32 %type, label %bad [ i32 1, label %int
                                 i32 2, label %int
                                 i32 3, label %float ]
int:
  %i = load i64, ptr %pp, align 8
  %d = sitofp i64 %i to double
  store double %d, ptr %out, align 8
  ret i32 0
float:
  %f = load double, ptr %pp, align 8
  store double %f, ptr %out, align 8
  ret i32 0
bad:
  call void @lw.raise_kind(ptr %arg, ptr %desc, ptr @lw.s.float)
  ret i32 -1
}

define ptr @lw_tensor_alloc(i32 %ndim, ptr %shape, i32 %dtype) {
entry:
  %wide = zext i32 %ndim to i64
  %some = icmp ne i32 %ndim, 0
  br i1 %some, label %count, label %sized
count:
  %i = phi i64 [ 0, %entry ], [ %i1, %count ]
  %e0 = phi i64 [ 1, %entry ], [ %e1, %count ]
  %sp = getelementptr i64, ptr %shape, i64 %i
  %s = load i64, ptr %sp, align 8
  %e1 = mul i64 %e0, %s
  %i1 = add nuw i64 %i, 1
  %more = icmp ult i64 %i1, %wide
  br i1 %more, label %count, label %sized
sized:
  %elements = phi i64 [ 1, %entry ], [ %e1, %count ]
  %b0 = lshr i32 %dtype, 8
  %b1 = and i32 %b0, 255
  %l0 = lshr i32 %dtype, 16
  %bits = mul i32 %b1, %l0
  %bits64 = zext i32 %bits to i64
  ; Integers below 8 bits share bytes; other types take whole bytes per element.
  %by0 = add i64 %bits64, 7
  %by1 = lshr i64 %by0, 3
  %apart = mul i64 %elements, %by1
  %sum0 = mul i64 %elements, %bits64
  %sum1 = add i64 %sum0, 7
  %together = lshr i64 %sum1, 3
  %code = and i32 %dtype, 255
  %integer = icmp ule i32 %code, 1
  %bytes = select i1 %integer, i64 %together, i64 %apart
  ; One block: DLManagedTensor (64 bytes), shape, strides, then the data on the next line.
  %meta0 = shl i64 %wide, 4
  %meta1 = add i64 %meta0, 127
  %head = and i64 %meta1, -64
  %all0 = add i64 %head, %bytes
  %all1 = add i64 %all0, 63
  %all = and i64 %all1, -64
  %negative = icmp slt i64 %all, 64
  br i1 %negative, label %fail, label %alloc
alloc:
  %block = call ptr @aligned_alloc(i64 64, i64 %all)
  %got = icmp ne ptr %block, null
  br i1 %got, label %sizable, label %fail
sizable:
  %big = icmp sge i64 %all, 4194304
  br i1 %big, label %huge, label %fill
huge:
  {MADVISE}
  br label %fill
fill:
  %data = getelementptr i8, ptr %block, i64 %head
  store ptr %data, ptr %block, align 8
  %f8 = getelementptr i8, ptr %block, i64 8
  store i64 1, ptr %f8, align 8
  %f16 = getelementptr i8, ptr %block, i64 16
  store i32 %ndim, ptr %f16, align 8
  %f20 = getelementptr i8, ptr %block, i64 20
  store i32 %dtype, ptr %f20, align 4
  %f24 = getelementptr i8, ptr %block, i64 24
  %dims = getelementptr i8, ptr %block, i64 64
  store ptr %dims, ptr %f24, align 8
  %f32 = getelementptr i8, ptr %block, i64 32
  %strides = getelementptr i64, ptr %dims, i64 %wide
  store ptr %strides, ptr %f32, align 8
  %f40 = getelementptr i8, ptr %block, i64 40
  store i64 0, ptr %f40, align 8
  %f48 = getelementptr i8, ptr %block, i64 48
  store ptr null, ptr %f48, align 8
  %f56 = getelementptr i8, ptr %block, i64 56
  store ptr @free, ptr %f56, align 8
  br label %copy
copy:
  %j = phi i64 [ %wide, %fill ], [ %j1, %copied ]
  %stride = phi i64 [ 1, %fill ], [ %stride1, %copied ]
  %last = icmp eq i64 %j, 0
  br i1 %last, label %done, label %copied
copied:
  %j1 = sub i64 %j, 1
  %fp = getelementptr i64, ptr %shape, i64 %j1
  %size = load i64, ptr %fp, align 8
  %dp = getelementptr i64, ptr %dims, i64 %j1
  store i64 %size, ptr %dp, align 8
  %xp = getelementptr i64, ptr %strides, i64 %j1
  store i64 %stride, ptr %xp, align 8
  %stride1 = mul i64 %stride, %size
  br label %copy
done:
  ret ptr %block
fail:
  %buf = alloca [128 x i8], align 1
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %buf, i64 128, ptr @lw.s.memory, i64 %bytes)
  call void @TVMFFIErrorSetRaisedFromCStr(ptr @lw.s.MemoryError, ptr %buf)
  ret ptr null
}

define void @lw_tensor_drop(ptr %block) {
  call void @free(ptr %block)
  ret void
}

define i32 @lw_ret_tensor(ptr %block, ptr %ret) {
entry:
  %hp = getelementptr i8, ptr %ret, i64 8
  %rc = call i32 @TVMFFITensorFromDLPack(ptr %block, i32 0, i32 0, ptr %hp)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %good, label %bad
good:
  store i64 70, ptr %ret, align 8
  ret i32 0
bad:
  call void @free(ptr %block)
  store i64 0, ptr %ret, align 8
  ret i32 -1
}

@lw.array = internal global ptr null, align 8

define i32 @lw_ret_tuple(ptr %values, i32 %n, ptr %ret) {
entry:
  %name = alloca { ptr, i64 }, align 8
  %cached = load atomic ptr, ptr @lw.array acquire, align 8
  %have = icmp ne ptr %cached, null
  br i1 %have, label %call, label %find
find:
  store ptr @lw.s.array, ptr %name, align 8
  %lp = getelementptr i8, ptr %name, i64 8
  store i64 9, ptr %lp, align 8
  %handle = alloca ptr, align 8
  %frc = call i32 @TVMFFIFunctionGetGlobal(ptr %name, ptr %handle)
  %fok = icmp eq i32 %frc, 0
  br i1 %fok, label %keep, label %drop
keep:
  ; A reference held for the life of the process; two threads finding it at once hold two.
  %found = load ptr, ptr %handle, align 8
  store atomic ptr %found, ptr @lw.array release, align 8
  br label %call
call:
  %f = phi ptr [ %cached, %entry ], [ %found, %keep ]
  store i64 0, ptr %ret, align 8
  %rp = getelementptr i8, ptr %ret, i64 8
  store i64 0, ptr %rp, align 8
  %crc = call i32 @TVMFFIFunctionCall(ptr %f, ptr %values, i32 %n, ptr %ret)
  br label %drop
drop:
  ; The array holds its own references: give back those of the values that are objects.
  %rc = phi i32 [ %frc, %find ], [ %crc, %call ]
  br label %each
each:
  %i = phi i32 [ 0, %drop ], [ %i1, %next ]
  %end = icmp eq i32 %i, %n
  br i1 %end, label %exit, label %one
one:
  %vp = getelementptr { i64, ptr }, ptr %values, i32 %i
  %type = load i32, ptr %vp, align 8
  %is_object = icmp sge i32 %type, 64
  br i1 %is_object, label %release, label %next
release:
  %op = getelementptr i8, ptr %vp, i64 8
  %o = load ptr, ptr %op, align 8
  %d = call i32 @TVMFFIObjectDecRef(ptr %o)
  br label %next
next:
  %i1 = add i32 %i, 1
  br label %each
exit:
  ret i32 %rc
}
"""
