; Errors: how they are raised, and the messages about arguments.
;
;   void @lw_raise(ptr kind, ptr message)
;       Raise an error. Both are C strings; `kind` is the name of a Python exception.
;   void @lw_raise_value(ptr kind, ptr format, i64 value)
;       The same with a number in the message.
;   void @lw_raise_index(ptr place, i64 index, i64 extent)
;       An IndexError: an index is out of range. `place` names the node, a C string.
;
; Kernels call them where an assertion fails, arguments.ll and tensors.ll where they refuse. The
; error waits in tvm-ffi's slot of the calling thread; the function that raised returns -1 or null.
; A message is cut at 512 bytes (2048 for lw_raise_value).

; Of a parameter: function, parameter, its number, ndim (-1: any), dtype (0: any), device type, dims.
; The number of a result that the caller gives memory for is -1 - its number.
%lw.desc = type { ptr, ptr, i32, i32, i32, i32, [0 x i64] }

@lw.s.TypeError = private unnamed_addr constant [10 x i8] c"TypeError\00"
@lw.s.ValueError = private unnamed_addr constant [11 x i8] c"ValueError\00"
@lw.s.IndexError = private unnamed_addr constant [11 x i8] c"IndexError\00"
@lw.s.index = private unnamed_addr constant [63 x i8] c"%.1900s: index %lld is out of range for an axis of extent %lld\00"
@lw.s.about = private unnamed_addr constant [24 x i8] c"%s: argument %d `%s` %s\00"
@lw.s.output = private unnamed_addr constant [22 x i8] c"%s: output %d `%s` %s\00"
@lw.s.count = private unnamed_addr constant [34 x i8] c"%s: expected %d arguments, got %d\00"
@lw.s.kind = private unnamed_addr constant [19 x i8] c"must be %s, got %s\00"
@lw.s.dtype = private unnamed_addr constant [32 x i8] c"has dtype %s, expected dtype %s\00"
@lw.s.range = private unnamed_addr constant [30 x i8] c"is %lld, which %s cannot hold\00"
@lw.s.plain = private unnamed_addr constant [3 x i8] c"%s\00"
@lw.s.bits = private unnamed_addr constant [5 x i8] c"%s%d\00"
@lw.s.lanes = private unnamed_addr constant [4 x i8] c"x%d\00"

@lw.s.none = private unnamed_addr constant [5 x i8] c"None\00"
@lw.s.bool = private unnamed_addr constant [7 x i8] c"a bool\00"
@lw.s.int = private unnamed_addr constant [7 x i8] c"an int\00"
@lw.s.float = private unnamed_addr constant [8 x i8] c"a float\00"
@lw.s.str = private unnamed_addr constant [6 x i8] c"a str\00"
@lw.s.tensor = private unnamed_addr constant [9 x i8] c"a tensor\00"
@lw.s.shape = private unnamed_addr constant [8 x i8] c"a shape\00"
@lw.s.tuple = private unnamed_addr constant [8 x i8] c"a tuple\00"
@lw.s.function = private unnamed_addr constant [11 x i8] c"a function\00"
@lw.s.object = private unnamed_addr constant [15 x i8] c"another object\00"

; Names of DLPack's type codes; those above 5 name the whole type, its bits included.
@lw.dt0 = private unnamed_addr constant [4 x i8] c"int\00"
@lw.dt1 = private unnamed_addr constant [5 x i8] c"uint\00"
@lw.dt2 = private unnamed_addr constant [6 x i8] c"float\00"
@lw.dt3 = private unnamed_addr constant [7 x i8] c"handle\00"
@lw.dt4 = private unnamed_addr constant [7 x i8] c"bfloat\00"
@lw.dt5 = private unnamed_addr constant [8 x i8] c"complex\00"
@lw.dt6 = private unnamed_addr constant [5 x i8] c"bool\00"
@lw.dt7 = private unnamed_addr constant [12 x i8] c"float8_e3m4\00"
@lw.dt8 = private unnamed_addr constant [12 x i8] c"float8_e4m3\00"
@lw.dt9 = private unnamed_addr constant [19 x i8] c"float8_e4m3b11fnuz\00"
@lw.dt10 = private unnamed_addr constant [14 x i8] c"float8_e4m3fn\00"
@lw.dt11 = private unnamed_addr constant [16 x i8] c"float8_e4m3fnuz\00"
@lw.dt12 = private unnamed_addr constant [12 x i8] c"float8_e5m2\00"
@lw.dt13 = private unnamed_addr constant [16 x i8] c"float8_e5m2fnuz\00"
@lw.dt14 = private unnamed_addr constant [15 x i8] c"float8_e8m0fnu\00"
@lw.dt15 = private unnamed_addr constant [14 x i8] c"float6_e2m3fn\00"
@lw.dt16 = private unnamed_addr constant [14 x i8] c"float6_e3m2fn\00"
@lw.dt17 = private unnamed_addr constant [14 x i8] c"float4_e2m1fn\00"
@lw.dtypes = private unnamed_addr constant [18 x ptr] [
  ptr @lw.dt0, ptr @lw.dt1, ptr @lw.dt2, ptr @lw.dt3, ptr @lw.dt4, ptr @lw.dt5, ptr @lw.dt6,
  ptr @lw.dt7, ptr @lw.dt8, ptr @lw.dt9, ptr @lw.dt10, ptr @lw.dt11, ptr @lw.dt12, ptr @lw.dt13,
  ptr @lw.dt14, ptr @lw.dt15, ptr @lw.dt16, ptr @lw.dt17 ]

declare void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)
declare i32 @snprintf(ptr, i64, ptr, ...)

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

define void @lw_raise_index(ptr %place, i64 %index, i64 %extent) noinline cold {
  %buf = alloca [2048 x i8], align 1
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %buf, i64 2048, ptr @lw.s.index, ptr %place, i64 %index, i64 %extent)
  call void @lw_raise(ptr @lw.s.IndexError, ptr %buf)
  ret void
}

define internal void @lw.value_error(ptr %message) cold {
  call void @lw_raise(ptr @lw.s.ValueError, ptr %message)
  ret void
}

define internal void @lw.raise_count(i32 %got, i32 %expected, ptr %name) noinline cold {
  %buf = alloca [512 x i8], align 1
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %buf, i64 512, ptr @lw.s.count, ptr %name, i32 %expected, i32 %got)
  call void @lw_raise(ptr @lw.s.TypeError, ptr %buf)
  ret void
}

; Raise an error that says which argument or result it is about, then %what.
define internal void @lw.raise_about(ptr %desc, ptr %kind, ptr %what) noinline cold {
  %buf = alloca [512 x i8], align 1
  %f = load ptr, ptr %desc, align 8
  %ap = getelementptr %lw.desc, ptr %desc, i32 0, i32 1
  %a = load ptr, ptr %ap, align 8
  %ip = getelementptr %lw.desc, ptr %desc, i32 0, i32 2
  %i = load i32, ptr %ip, align 8
  %result = icmp slt i32 %i, 0
  %ri = sub i32 -1, %i
  %k = select i1 %result, i32 %ri, i32 %i
  %format = select i1 %result, ptr @lw.s.output, ptr @lw.s.about
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %buf, i64 512, ptr %format, ptr %f, i32 %k, ptr %a, ptr %what)
  call void @lw_raise(ptr %kind, ptr %buf)
  ret void
}

; A ValueError with up to three numbers in what it says.
define internal void @lw.raise_numbers(ptr %desc, ptr %format, i64 %x, i64 %y, i64 %z) noinline cold {
  %what = alloca [256 x i8], align 1
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %what, i64 256, ptr %format, i64 %x, i64 %y, i64 %z)
  call void @lw.raise_about(ptr %desc, ptr @lw.s.ValueError, ptr %what)
  ret void
}

; A TypeError: an argument is of another kind than %wanted, one of tvm-ffi's type indices.
define internal void @lw.raise_kind(ptr %arg, ptr %desc, i32 %wanted) noinline cold {
  %what = alloca [128 x i8], align 1
  %type = load i32, ptr %arg, align 8
  %got = call ptr @lw.kind_name(i32 %type)
  %want = call ptr @lw.kind_name(i32 %wanted)
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %what, i64 128, ptr @lw.s.kind, ptr %want, ptr %got)
  call void @lw.raise_about(ptr %desc, ptr @lw.s.TypeError, ptr %what)
  ret void
}

; What to call a value with a type index.
define internal ptr @lw.kind_name(i32 %type) cold {
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
  ret ptr @lw.s.int
bool:
  ret ptr @lw.s.bool
float:
  ret ptr @lw.s.float
str:
  ret ptr @lw.s.str
function:
  ret ptr @lw.s.function
shape:
  ret ptr @lw.s.shape
tensor:
  ret ptr @lw.s.tensor
tuple:
  ret ptr @lw.s.tuple
other:
  ret ptr @lw.s.object
}

define internal void @lw.raise_dtype(ptr %desc, i32 %got, i32 %want) noinline cold {
  %what = alloca [192 x i8], align 1
  %g = alloca [64 x i8], align 1
  %w = alloca [64 x i8], align 1
  call void @lw.name_dtype(ptr %g, i32 %got)
  call void @lw.name_dtype(ptr %w, i32 %want)
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %what, i64 192, ptr @lw.s.dtype, ptr %g, ptr %w)
  call void @lw.raise_about(ptr %desc, ptr @lw.s.ValueError, ptr %what)
  ret void
}

define internal void @lw.raise_range(ptr %desc, i64 %value, i32 %dtype) noinline cold {
  %what = alloca [192 x i8], align 1
  %w = alloca [64 x i8], align 1
  call void @lw.name_dtype(ptr %w, i32 %dtype)
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %what, i64 192, ptr @lw.s.range, i64 %value, ptr %w)
  call void @lw.raise_about(ptr %desc, ptr @lw.s.ValueError, ptr %what)
  ret void
}

; Write the name of a DLDataType, as at offset 20 of a DLTensor, to 64 bytes at %out.
define internal void @lw.name_dtype(ptr %out, i32 %dtype) noinline cold {
entry:
  %code = and i32 %dtype, 255
  %b0 = lshr i32 %dtype, 8
  %bits = and i32 %b0, 255
  %lanes = lshr i32 %dtype, 16
  %known = icmp ult i32 %code, 18
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
  %m = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %end, i64 16, ptr @lw.s.lanes, i32 %lanes)
  br label %exit
exit:
  ret void
}
