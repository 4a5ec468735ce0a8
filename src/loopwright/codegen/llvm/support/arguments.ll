; The checks of an entry's arguments: 16-byte values { i32 type index, i32 zero, 8 bytes payload }.
;
;   i32 @lw_arg_count(i32 got, i32 expected, ptr name)
;       The number of arguments; `name` is the function's, a C string.
;   i32 @lw_arg_placed(ptr args, i32 count, i32 params, i32 results, ptr name)
;       The same where None and memory for the results may follow: 1 if they do, else 0.
;   ptr @lw_arg_tensor(ptr arg, ptr desc, ptr vars)
;       The DLTensor of a tensor: DLTensor* (type 7) or a tensor object (type 70), whose DLTensor is
;       24 bytes in. Checks device, ndim, dtype, shape, and that strides are row-major.
;   ptr @lw_out_tensor(ptr args, i32 k, ptr desc, ptr vars, i32 over)
;       The DLTensor of argument k, memory for a result: checked like a parameter, and that it shares
;       none with the arguments before it, unless it is the memory of argument `over`.
;   ptr @lw_arg_shape(ptr arg, ptr desc, ptr vars)
;       The cell { ptr data, i64 size } of a shape (type 69), its sizes checked like a tensor's.
;   ptr @lw_arg_tuple(ptr arg, ptr desc)
;       The elements of a tuple (71 array, 75 list); the descriptor's ndim is the expected length.
;   i32 @lw_arg_int(ptr arg, ptr desc, ptr out)
;       An int or bool into the i64 at `out`; the descriptor's dtype has to hold it.
;   i32 @lw_arg_float(ptr arg, ptr desc, ptr out)
;       A float, int or bool into the double at `out`.
;   i32 @lw_check_dim(ptr desc, i64 axis, i64 got, i64 want)
;       A dimension that was computed from others.
;
; Entries call them (codegen/llvm/entry.py). i32 results are 0 (or as said) or -1, and pointers null after raising: a
; TypeError for a value of another kind or a wrong number of arguments, else a ValueError. `desc` is
; a constant written by `abi.descriptor`. A dimension there is a number, -1 (any), or -2 - k: the
; first argument that has it binds `vars[k]` (an i64, -1 before), later ones must agree.

%lw.desc = type { ptr, ptr, i32, i32, i32, i32, [0 x i64] }
; DLTensor: data, device type and number, ndim, dtype, shape, strides, offset of the data in bytes.
%lw.tensor = type { ptr, i32, i32, i32, i32, ptr, ptr, i64 }
%lw.cell = type { ptr, i64 }

@lw.s.ndim = private unnamed_addr constant [30 x i8] c"has ndim %d, expected ndim %d\00"
@lw.s.length = private unnamed_addr constant [33 x i8] c"has %lld elements, expected %lld\00"
@lw.s.dim = private unnamed_addr constant [36 x i8] c"has shape[%d] = %lld, expected %lld\00"
@lw.s.device = private unnamed_addr constant [51 x i8] c"is on a device of DLPack type %d, expected type %d\00"
@lw.s.strides = private unnamed_addr constant [86 x i8] c"is not contiguous in row-major order; pass a copy, such as numpy.ascontiguousarray(x)\00"
@lw.s.shared = private unnamed_addr constant [50 x i8] c"shares memory with argument %lld; give it its own\00"
@lw.s.twice = private unnamed_addr constant [48 x i8] c"shares memory with output %lld; give it its own\00"

declare void @lw.raise_count(i32, i32, ptr)
declare void @lw.raise_kind(ptr, ptr, i32)
declare void @lw.raise_dtype(ptr, i32, i32)
declare void @lw.raise_range(ptr, i64, i32)
declare void @lw.raise_numbers(ptr, ptr, i64, i64, i64)

define i32 @lw_arg_count(i32 %got, i32 %expected, ptr %name) {
entry:
  %ok = icmp eq i32 %got, %expected
  br i1 %ok, label %fine, label %bad
fine:
  ret i32 0
bad:
  call void @lw.raise_count(i32 %got, i32 %expected, ptr %name)
  ret i32 -1
}

define i32 @lw_arg_placed(ptr %args, i32 %count, i32 %params, i32 %results, ptr %name) {
entry:
  %plain = icmp eq i32 %count, %params
  br i1 %plain, label %inputs, label %more
inputs:
  ret i32 0
more:
  %both = add i32 %params, %results
  %all = add i32 %both, 1
  %same = icmp eq i32 %count, %all
  br i1 %same, label %look, label %bad
look:
  %mark = getelementptr [2 x i64], ptr %args, i32 %params
  %type = load i32, ptr %mark, align 8
  %none = icmp eq i32 %type, 0
  br i1 %none, label %placed, label %bad
placed:
  ret i32 1
bad:
  call void @lw.raise_count(i32 %count, i32 %params, ptr %name)
  ret i32 -1
}

; Compare %n sizes with the descriptor's, binding symbolic ones; false after raising.
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
  call void @lw.raise_numbers(ptr %desc, ptr @lw.s.dim, i64 %wide, i64 %got, i64 %expected)
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
  %vp = getelementptr %lw.tensor, ptr %t, i32 0, i32 1
  %device = load i32, ptr %vp, align 8
  %wvp = getelementptr %lw.desc, ptr %desc, i32 0, i32 5
  %want_device = load i32, ptr %wvp, align 4
  %same_device = icmp eq i32 %device, %want_device
  br i1 %same_device, label %rank, label %bad_device
rank:
  %np = getelementptr %lw.tensor, ptr %t, i32 0, i32 3
  %ndim = load i32, ptr %np, align 8
  %wnp = getelementptr %lw.desc, ptr %desc, i32 0, i32 3
  %want_ndim = load i32, ptr %wnp, align 4
  %same_ndim = icmp eq i32 %ndim, %want_ndim
  %any_ndim = icmp eq i32 %want_ndim, -1
  %good_ndim = or i1 %same_ndim, %any_ndim
  br i1 %good_ndim, label %dtype, label %bad_ndim
dtype:
  %tp = getelementptr %lw.tensor, ptr %t, i32 0, i32 4
  %dt = load i32, ptr %tp, align 4
  %wtp = getelementptr %lw.desc, ptr %desc, i32 0, i32 4
  %want_dt = load i32, ptr %wtp, align 4
  %same_dt = icmp eq i32 %dt, %want_dt
  %any_dt = icmp eq i32 %want_dt, 0
  %good_dt = or i1 %same_dt, %any_dt
  br i1 %good_dt, label %dims, label %bad_dtype
dims:
  %sp = getelementptr %lw.tensor, ptr %t, i32 0, i32 5
  %shape = load ptr, ptr %sp, align 8
  br i1 %any_ndim, label %layout, label %match
match:
  %matched = call i1 @lw.match_dims(ptr %shape, i32 %ndim, ptr %desc, ptr %vars)
  br i1 %matched, label %layout, label %fail
layout:
  %stp = getelementptr %lw.tensor, ptr %t, i32 0, i32 6
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
  call void @lw.raise_kind(ptr %arg, ptr %desc, i32 70)
  br label %fail
bad_device:
  %d64 = zext i32 %device to i64
  %wd64 = zext i32 %want_device to i64
  call void @lw.raise_numbers(ptr %desc, ptr @lw.s.device, i64 %d64, i64 %wd64, i64 0)
  br label %fail
bad_ndim:
  %n64 = zext i32 %ndim to i64
  %wn64 = zext i32 %want_ndim to i64
  call void @lw.raise_numbers(ptr %desc, ptr @lw.s.ndim, i64 %n64, i64 %wn64, i64 0)
  br label %fail
bad_dtype:
  call void @lw.raise_dtype(ptr %desc, i32 %dt, i32 %want_dt)
  br label %fail
bad_strides:
  call void @lw.raise_numbers(ptr %desc, ptr @lw.s.strides, i64 0, i64 0, i64 0)
  br label %fail
fail:
  ret ptr null
}

; Where the data of a tensor begin and end. It is contiguous.
define internal { i64, i64 } @lw.extent(ptr %t) {
entry:
  %data = load ptr, ptr %t, align 8
  %op = getelementptr %lw.tensor, ptr %t, i32 0, i32 7
  %offset = load i64, ptr %op, align 8
  %address = ptrtoint ptr %data to i64
  %begin = add i64 %address, %offset
  %np = getelementptr %lw.tensor, ptr %t, i32 0, i32 3
  %ndim = load i32, ptr %np, align 8
  %dp = getelementptr %lw.tensor, ptr %t, i32 0, i32 4
  %dtype = load i32, ptr %dp, align 4
  %b0 = lshr i32 %dtype, 8
  %b1 = and i32 %b0, 255
  %lanes = lshr i32 %dtype, 16
  %bits = mul i32 %b1, %lanes
  ; Integers below 8 bits share bytes; other types take whole bytes per element.
  %b2 = add i32 %bits, 7
  %whole = and i32 %b2, -8
  %code = and i32 %dtype, 255
  %integer = icmp ule i32 %code, 1
  %each = select i1 %integer, i32 %bits, i32 %whole
  %bits64 = zext i32 %each to i64
  %sp = getelementptr %lw.tensor, ptr %t, i32 0, i32 5
  %shape = load ptr, ptr %sp, align 8
  br label %count
count:
  %i = phi i32 [ 0, %entry ], [ %i1, %next ]
  %total = phi i64 [ %bits64, %entry ], [ %total1, %next ]
  %done = icmp eq i32 %i, %ndim
  br i1 %done, label %exit, label %next
next:
  %xp = getelementptr i64, ptr %shape, i32 %i
  %size = load i64, ptr %xp, align 8
  %total1 = mul i64 %total, %size
  %i1 = add i32 %i, 1
  br label %count
exit:
  %up = add i64 %total, 7
  %bytes = lshr i64 %up, 3
  %end = add i64 %begin, %bytes
  %r0 = insertvalue { i64, i64 } poison, i64 %begin, 0
  %r1 = insertvalue { i64, i64 } %r0, i64 %end, 1
  ret { i64, i64 } %r1
}

define ptr @lw_out_tensor(ptr %args, i32 %k, ptr %desc, ptr %vars, i32 %over) {
entry:
  %arg = getelementptr [2 x i64], ptr %args, i32 %k
  %t = call ptr @lw_arg_tensor(ptr %arg, ptr %desc, ptr %vars)
  %ok = icmp ne ptr %t, null
  br i1 %ok, label %measure, label %fail
measure:
  %mine = call { i64, i64 } @lw.extent(ptr %t)
  %begin = extractvalue { i64, i64 } %mine, 0
  %end = extractvalue { i64, i64 } %mine, 1
  br label %each
each:
  %i = phi i32 [ 0, %measure ], [ %i1, %next ]
  %done = icmp eq i32 %i, %k
  br i1 %done, label %good, label %look
look:
  %op = getelementptr [2 x i64], ptr %args, i32 %i
  %type = load i32, ptr %op, align 8
  %pp = getelementptr i8, ptr %op, i64 8
  %payload = load ptr, ptr %pp, align 8
  %is_object = icmp eq i32 %type, 70
  %is_plain = icmp eq i32 %type, 7
  %is_tensor = or i1 %is_object, %is_plain
  br i1 %is_tensor, label %compare, label %next
compare:
  %object = getelementptr i8, ptr %payload, i64 24
  %u = select i1 %is_object, ptr %object, ptr %payload
  %other = call { i64, i64 } @lw.extent(ptr %u)
  %ubegin = extractvalue { i64, i64 } %other, 0
  %uend = extractvalue { i64, i64 } %other, 1
  ; Tensors without elements share nothing.
  %some = icmp ult i64 %begin, %end
  %usome = icmp ult i64 %ubegin, %uend
  %before = icmp ult i64 %begin, %uend
  %after = icmp ult i64 %ubegin, %end
  %both = and i1 %some, %usome
  %cross = and i1 %before, %after
  %crossed = and i1 %both, %cross
  %named = icmp eq i32 %i, %over
  %from = icmp eq i64 %begin, %ubegin
  %to = icmp eq i64 %end, %uend
  %equal = and i1 %from, %to
  %allowed = and i1 %named, %equal
  %shared = select i1 %allowed, i1 false, i1 %crossed
  br i1 %shared, label %bad, label %next
next:
  %i1 = add i32 %i, 1
  br label %each
bad:
  ; The results' memory stands last among the arguments.
  %rp = getelementptr %lw.desc, ptr %desc, i32 0, i32 2
  %number = load i32, ptr %rp, align 8
  %mine1 = add i32 %k, %number
  %first = add i32 %mine1, 1
  %twice = icmp sge i32 %i, %first
  %rel = sub i32 %i, %first
  %shown = select i1 %twice, i32 %rel, i32 %i
  %form = select i1 %twice, ptr @lw.s.twice, ptr @lw.s.shared
  %wide = zext i32 %shown to i64
  call void @lw.raise_numbers(ptr %desc, ptr %form, i64 %wide, i64 0, i64 0)
  br label %fail
good:
  ret ptr %t
fail:
  ret ptr null
}

; The cell of a shape or tuple with as many elements as the descriptor says; null after raising.
define internal ptr @lw.sized(ptr %arg, ptr %desc) {
entry:
  %pp = getelementptr i8, ptr %arg, i64 8
  %payload = load ptr, ptr %pp, align 8
  %cell = getelementptr i8, ptr %payload, i64 24
  %np = getelementptr %lw.cell, ptr %cell, i32 0, i32 1
  %n = load i64, ptr %np, align 8
  %wnp = getelementptr %lw.desc, ptr %desc, i32 0, i32 3
  %want32 = load i32, ptr %wnp, align 4
  %want = sext i32 %want32 to i64
  %same = icmp eq i64 %n, %want
  %any = icmp eq i64 %want, -1
  %ok = or i1 %same, %any
  br i1 %ok, label %good, label %bad
good:
  ret ptr %cell
bad:
  call void @lw.raise_numbers(ptr %desc, ptr @lw.s.length, i64 %n, i64 %want, i64 0)
  ret ptr null
}

define ptr @lw_arg_shape(ptr %arg, ptr %desc, ptr %vars) {
entry:
  %type = load i32, ptr %arg, align 8
  %is = icmp eq i32 %type, 69
  br i1 %is, label %size, label %bad_kind
size:
  %cell = call ptr @lw.sized(ptr %arg, ptr %desc)
  %sized = icmp ne ptr %cell, null
  br i1 %sized, label %match, label %fail
match:
  %wnp = getelementptr %lw.desc, ptr %desc, i32 0, i32 3
  %want = load i32, ptr %wnp, align 4
  %data = load ptr, ptr %cell, align 8
  %ok = call i1 @lw.match_dims(ptr %data, i32 %want, ptr %desc, ptr %vars)
  br i1 %ok, label %good, label %fail
good:
  ret ptr %cell
bad_kind:
  call void @lw.raise_kind(ptr %arg, ptr %desc, i32 69)
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
  br i1 %is, label %size, label %bad_kind
size:
  %cell = call ptr @lw.sized(ptr %arg, ptr %desc)
  %sized = icmp ne ptr %cell, null
  br i1 %sized, label %good, label %fail
good:
  %data = load ptr, ptr %cell, align 8
  %none = icmp eq ptr %data, null
  %elements = select i1 %none, ptr %cell, ptr %data
  ret ptr %elements
bad_kind:
  call void @lw.raise_kind(ptr %arg, ptr %desc, i32 71)
  br label %fail
fail:
  ret ptr null
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
  call void @lw.raise_kind(ptr %arg, ptr %desc, i32 1)
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
  call void @lw.raise_kind(ptr %arg, ptr %desc, i32 3)
  ret i32 -1
}

define i32 @lw_check_dim(ptr %desc, i64 %axis, i64 %got, i64 %want) {
entry:
  %same = icmp eq i64 %got, %want
  br i1 %same, label %good, label %bad
good:
  ret i32 0
bad:
  call void @lw.raise_numbers(ptr %desc, ptr @lw.s.dim, i64 %axis, i64 %got, i64 %want)
  ret i32 -1
}
