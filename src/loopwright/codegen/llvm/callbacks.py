"""Native helpers for calls back into the runtime, as LLVM text.

    i32  @lw_call_packed(ptr name, ptr args, i32 n, ptr ret)
        Call the function registered under `name`. `args` are n 16-byte values, the first of them
        the name; a DLTensor* among them becomes a tensor object that borrows the data. `ret`
        becomes the number that it returned (an object is released and None stays).
    void @lw_task_failed(ptr slot)
        In a task of a parallel loop, after an error was raised: move it to `slot` of the launching
        thread. The first one stays.
    void @lw_task_raise(ptr error)
        In the launching thread: raise the error that a task left.
    i64  @lw_clock()
        Nanoseconds of a clock that only goes forward.

A packed function is looked up each time it is called: first by "loopwright.call_packed", which a
process with Python registers, else in tvm-ffi's own table.
"""

from __future__ import annotations

DISPATCHER = "loopwright.call_packed"
IMPORT_PREFIX = "lw.import."  # of the symbols that hold the names of imported functions

DECLARATIONS = {
    "lw_call_packed": "declare i32 @lw_call_packed(ptr, ptr, i32, ptr)",
    "lw_task_failed": "declare void @lw_task_failed(ptr)",
    "lw_task_raise": "declare void @lw_task_raise(ptr)",
    "lw_clock": "declare i64 @lw_clock()",
}

STRINGS = {
    "dispatcher": DISPATCHER,
    "RuntimeError": "RuntimeError",
    "task": "a task of a parallel loop failed",
    "missing": "cannot find global function '%s'; register it with register_func('%s', f)",
}

TEXT = """
declare void @TVMFFIErrorMoveFromRaised(ptr)
declare void @TVMFFIErrorSetRaised(ptr)
declare i64 @strlen(ptr)
declare noalias ptr @malloc(i64)
declare ptr @memcpy(ptr, ptr, i64)
declare i32 @clock_gettime(i32, ptr)

define internal ptr @lw.find(ptr %text) {
  %name = alloca { ptr, i64 }, align 8
  %out = alloca ptr, align 8
  store ptr %text, ptr %name, align 8
  %lp = getelementptr i8, ptr %name, i64 8
  %n = call i64 @strlen(ptr %text)
  store i64 %n, ptr %lp, align 8
  store ptr null, ptr %out, align 8
  %rc = call i32 @TVMFFIFunctionGetGlobal(ptr %name, ptr %out)
  %f = load ptr, ptr %out, align 8
  ret ptr %f
}

; A tensor object with its own shape and strides that borrows the data of a DLTensor.
define internal ptr @lw.view(ptr %t) {
entry:
  %out = alloca ptr, align 8
  %np = getelementptr i8, ptr %t, i64 16
  %n = load i32, ptr %np, align 8
  %wide = zext i32 %n to i64
  %bytes = shl i64 %wide, 3
  %both = shl i64 %wide, 4
  %all = add i64 %both, 64
  %block = call ptr @malloc(i64 %all)
  %c0 = call ptr @memcpy(ptr %block, ptr %t, i64 48)
  %dims = getelementptr i8, ptr %block, i64 64
  %strides = getelementptr i8, ptr %dims, i64 %bytes
  %sp = getelementptr i8, ptr %t, i64 24
  %shape = load ptr, ptr %sp, align 8
  %c1 = call ptr @memcpy(ptr %dims, ptr %shape, i64 %bytes)
  %f24 = getelementptr i8, ptr %block, i64 24
  store ptr %dims, ptr %f24, align 8
  %f32 = getelementptr i8, ptr %block, i64 32
  store ptr %strides, ptr %f32, align 8
  %f48 = getelementptr i8, ptr %block, i64 48
  store ptr null, ptr %f48, align 8
  %f56 = getelementptr i8, ptr %block, i64 56
  store ptr @free, ptr %f56, align 8
  %gp = getelementptr i8, ptr %t, i64 32
  %given = load ptr, ptr %gp, align 8
  %has = icmp ne ptr %given, null
  br i1 %has, label %copy, label %row
copy:
  %c2 = call ptr @memcpy(ptr %strides, ptr %given, i64 %bytes)
  br label %make
row:
  %k = phi i64 [ %wide, %entry ], [ %k1, %step ]
  %s = phi i64 [ 1, %entry ], [ %s1, %step ]
  %end = icmp eq i64 %k, 0
  br i1 %end, label %make, label %step
step:
  %k1 = sub i64 %k, 1
  %at = getelementptr i64, ptr %strides, i64 %k1
  store i64 %s, ptr %at, align 8
  %dp = getelementptr i64, ptr %dims, i64 %k1
  %d = load i64, ptr %dp, align 8
  %s1 = mul i64 %s, %d
  br label %row
make:
  store ptr null, ptr %out, align 8
  %rc = call i32 @TVMFFITensorFromDLPack(ptr %block, i32 0, i32 0, ptr %out)
  %made = load ptr, ptr %out, align 8
  ret ptr %made
}

; DLTensors among the arguments become objects (type 70); 70 is released again.
define internal i32 @lw.open(ptr %args, i32 %n) {
entry:
  br label %each
each:
  %i = phi i32 [ 0, %entry ], [ %i1, %next ]
  %end = icmp eq i32 %i, %n
  br i1 %end, label %exit, label %one
one:
  %vp = getelementptr { i64, ptr }, ptr %args, i32 %i
  %type = load i32, ptr %vp, align 8
  %is = icmp eq i32 %type, 7
  br i1 %is, label %view, label %next
view:
  %op = getelementptr i8, ptr %vp, i64 8
  %t = load ptr, ptr %op, align 8
  %o = call ptr @lw.view(ptr %t)
  store ptr %o, ptr %op, align 8
  store i64 70, ptr %vp, align 8
  br label %next
next:
  %i1 = add i32 %i, 1
  br label %each
exit:
  ret i32 0
}

define internal i32 @lw.close(ptr %args, i32 %n) {
entry:
  br label %each
each:
  %i = phi i32 [ 0, %entry ], [ %i1, %next ]
  %end = icmp eq i32 %i, %n
  br i1 %end, label %exit, label %one
one:
  %vp = getelementptr { i64, ptr }, ptr %args, i32 %i
  %type = load i32, ptr %vp, align 8
  %is = icmp eq i32 %type, 70
  br i1 %is, label %drop, label %next
drop:
  %op = getelementptr i8, ptr %vp, i64 8
  %o = load ptr, ptr %op, align 8
  %rc = call i32 @TVMFFIObjectDecRef(ptr %o)
  br label %next
next:
  %i1 = add i32 %i, 1
  br label %each
exit:
  ret i32 0
}

define i32 @lw_call_packed(ptr %name, ptr %args, i32 %n, ptr %ret) {
entry:
  %opened = call i32 @lw.open(ptr %args, i32 %n)
  store i64 0, ptr %ret, align 8
  %rp = getelementptr i8, ptr %ret, i64 8
  store i64 0, ptr %rp, align 8
  %d = call ptr @lw.find(ptr @lw.s.dispatcher)
  %dispatched = icmp ne ptr %d, null
  br i1 %dispatched, label %call, label %find
find:
  %f = call ptr @lw.find(ptr %name)
  %found = icmp ne ptr %f, null
  br i1 %found, label %direct, label %missing
direct:
  %rest = getelementptr i8, ptr %args, i64 16
  %fewer = sub i32 %n, 1
  br label %call
call:
  %g = phi ptr [ %d, %entry ], [ %f, %direct ]
  %a = phi ptr [ %args, %entry ], [ %rest, %direct ]
  %m = phi i32 [ %n, %entry ], [ %fewer, %direct ]
  %rc = call i32 @TVMFFIFunctionCall(ptr %g, ptr %a, i32 %m, ptr %ret)
  %dr = call i32 @TVMFFIObjectDecRef(ptr %g)
  %closed = call i32 @lw.close(ptr %args, i32 %n)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %good, label %bad
good:
  %type = load i32, ptr %ret, align 8
  %is_object = icmp sge i32 %type, 64
  br i1 %is_object, label %release, label %done
release:
  %o = load ptr, ptr %rp, align 8
  %do = call i32 @TVMFFIObjectDecRef(ptr %o)
  store i64 0, ptr %ret, align 8
  store i64 0, ptr %rp, align 8
  br label %done
done:
  ret i32 0
missing:
  %unused = call i32 @lw.close(ptr %args, i32 %n)
  %buf = alloca [512 x i8], align 1
  %len = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %buf, i64 512, ptr @lw.s.missing, ptr %name, ptr %name)
  call void @TVMFFIErrorSetRaisedFromCStr(ptr @lw.s.ValueError, ptr %buf)
  br label %bad
bad:
  ret i32 -1
}

define void @lw_task_failed(ptr %slot) cold {
entry:
  %out = alloca ptr, align 8
  store ptr null, ptr %out, align 8
  call void @TVMFFIErrorMoveFromRaised(ptr %out)
  %first = load ptr, ptr %out, align 8
  %have = icmp ne ptr %first, null
  br i1 %have, label %put, label %make
make:
  call void @TVMFFIErrorSetRaisedFromCStr(ptr @lw.s.RuntimeError, ptr @lw.s.task)
  call void @TVMFFIErrorMoveFromRaised(ptr %out)
  br label %put
put:
  %error = load ptr, ptr %out, align 8
  %pair = cmpxchg ptr %slot, ptr null, ptr %error acq_rel monotonic
  %kept = extractvalue { ptr, i1 } %pair, 1
  br i1 %kept, label %exit, label %drop
drop:
  %rc = call i32 @TVMFFIObjectDecRef(ptr %error)
  br label %exit
exit:
  ret void
}

define void @lw_task_raise(ptr %error) cold {
  call void @TVMFFIErrorSetRaised(ptr %error)
  %rc = call i32 @TVMFFIObjectDecRef(ptr %error)
  ret void
}

define i64 @lw_clock() {
  %time = alloca { i64, i64 }, align 8
  %rc = call i32 @clock_gettime(i32 1, ptr %time)
  %s = load i64, ptr %time, align 8
  %np = getelementptr i8, ptr %time, i64 8
  %n = load i64, ptr %np, align 8
  %big = mul i64 %s, 1000000000
  %all = add i64 %big, %n
  ret i64 %all
}
"""
