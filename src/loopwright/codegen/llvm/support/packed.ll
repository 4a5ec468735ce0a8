; Calls back into the runtime: packed functions, errors of parallel loops, the clock.
;
;   i32 @lw_call_packed(ptr name, ptr args, i32 n, ptr ret)
;       Call the function registered under `name`. `args` are n 16-byte values, the first of them
;       the name; a DLTensor* among them becomes a tensor object that borrows the data. `ret`
;       becomes the number that it returned (an object is released and None stays).
;   void @lw_task_failed(ptr slot)
;       In a task of a parallel loop, after an error was raised: move it to `slot` of the launching
;       thread. The first one stays.
;   void @lw_task_raise(ptr error)
;       In the launching thread: raise the error that a task left.
;   i64 @lw_clock()
;       Nanoseconds of a clock that only goes forward.
;
; Kernels call them. i32 results are 0, or -1 after raising. A packed function is looked up each time
; it is called: first by "loopwright.call_packed", which a process with Python registers
; (codegen/llvm/support), else in tvm-ffi's own table.

; See tensors.ll.
%lw.tensor = type { ptr, i32, i32, i32, i32, ptr, ptr, i64 }
%lw.managed = type { %lw.tensor, ptr, ptr }
%lw.value = type { i64, ptr }
%lw.name = type { ptr, i64 }

@lw.s.dispatcher = private unnamed_addr constant [23 x i8] c"loopwright.call_packed\00"
@lw.s.RuntimeError = private unnamed_addr constant [13 x i8] c"RuntimeError\00"
@lw.s.task = private unnamed_addr constant [33 x i8] c"a task of a parallel loop failed\00"
@lw.s.missing = private unnamed_addr constant [74 x i8] c"cannot find global function '%s'; register it with register_func('%s', f)\00"

declare i32 @TVMFFITensorFromDLPack(ptr, i32, i32, ptr)
declare i32 @TVMFFIFunctionGetGlobal(ptr, ptr)
declare i32 @TVMFFIFunctionCall(ptr, ptr, i32, ptr)
declare i32 @TVMFFIObjectDecRef(ptr)
declare void @TVMFFIErrorMoveFromRaised(ptr)
declare void @TVMFFIErrorSetRaised(ptr)
declare i64 @strlen(ptr)
declare noalias ptr @malloc(i64)
declare ptr @memcpy(ptr, ptr, i64)
declare i32 @snprintf(ptr, i64, ptr, ...)
declare i32 @clock_gettime(i32, ptr)
declare void @lw_raise(ptr, ptr)
declare void @lw.value_error(ptr)
declare void @lw.own(ptr, i64, ptr)
declare void @lw.release(ptr, i32, i32, i32)

; The function registered with tvm-ffi under a name, a reference to it; null for none.
define internal ptr @lw.find(ptr %text) {
  %name = alloca %lw.name, align 8
  %out = alloca ptr, align 8
  store ptr %text, ptr %name, align 8
  %lp = getelementptr %lw.name, ptr %name, i32 0, i32 1
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
  %np = getelementptr %lw.tensor, ptr %t, i32 0, i32 3
  %n = load i32, ptr %np, align 8
  %wide = zext i32 %n to i64
  %bytes = shl i64 %wide, 3
  %both = shl i64 %wide, 4
  %all = add i64 %both, 64
  %block = call ptr @malloc(i64 %all)
  %c0 = call ptr @memcpy(ptr %block, ptr %t, i64 48)
  %sp = getelementptr %lw.tensor, ptr %t, i32 0, i32 5
  %shape = load ptr, ptr %sp, align 8
  call void @lw.own(ptr %block, i64 %wide, ptr %shape)
  %gp = getelementptr %lw.tensor, ptr %t, i32 0, i32 6
  %given = load ptr, ptr %gp, align 8
  %has = icmp ne ptr %given, null
  br i1 %has, label %copy, label %hand
copy:
  %tp = getelementptr %lw.tensor, ptr %block, i32 0, i32 6
  %strides = load ptr, ptr %tp, align 8
  %c1 = call ptr @memcpy(ptr %strides, ptr %given, i64 %bytes)
  br label %hand
hand:
  store ptr null, ptr %out, align 8
  %rc = call i32 @TVMFFITensorFromDLPack(ptr %block, i32 0, i32 0, ptr %out)
  %object = load ptr, ptr %out, align 8
  ret ptr %object
}

; DLTensors (type 7) among n values become tensor objects (type 70).
define internal void @lw.open(ptr %args, i32 %n) {
entry:
  br label %each
each:
  %i = phi i32 [ 0, %entry ], [ %i1, %next ]
  %end = icmp eq i32 %i, %n
  br i1 %end, label %exit, label %one
one:
  %vp = getelementptr %lw.value, ptr %args, i32 %i
  %type = load i32, ptr %vp, align 8
  %is = icmp eq i32 %type, 7
  br i1 %is, label %view, label %next
view:
  %op = getelementptr %lw.value, ptr %vp, i32 0, i32 1
  %t = load ptr, ptr %op, align 8
  %o = call ptr @lw.view(ptr %t)
  store ptr %o, ptr %op, align 8
  store i64 70, ptr %vp, align 8
  br label %next
next:
  %i1 = add i32 %i, 1
  br label %each
exit:
  ret void
}

define i32 @lw_call_packed(ptr %name, ptr %args, i32 %n, ptr %ret) {
entry:
  call void @lw.open(ptr %args, i32 %n)
  store i64 0, ptr %ret, align 8
  %rp = getelementptr %lw.value, ptr %ret, i32 0, i32 1
  store i64 0, ptr %rp, align 8
  %d = call ptr @lw.find(ptr @lw.s.dispatcher)
  %dispatched = icmp ne ptr %d, null
  br i1 %dispatched, label %call, label %find
find:
  %f = call ptr @lw.find(ptr %name)
  %registered = icmp ne ptr %f, null
  br i1 %registered, label %direct, label %missing
direct:
  %rest = getelementptr %lw.value, ptr %args, i32 1
  %fewer = sub i32 %n, 1
  br label %call
call:
  %g = phi ptr [ %d, %entry ], [ %f, %direct ]
  %a = phi ptr [ %args, %entry ], [ %rest, %direct ]
  %m = phi i32 [ %n, %entry ], [ %fewer, %direct ]
  %rc = call i32 @TVMFFIFunctionCall(ptr %g, ptr %a, i32 %m, ptr %ret)
  %dr = call i32 @TVMFFIObjectDecRef(ptr %g)
  call void @lw.release(ptr %args, i32 %n, i32 70, i32 70)
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
  call void @lw.release(ptr %args, i32 %n, i32 70, i32 70)
  %buf = alloca [512 x i8], align 1
  %len = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %buf, i64 512, ptr @lw.s.missing, ptr %name, ptr %name)
  call void @lw.value_error(ptr %buf)
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
  call void @lw_raise(ptr @lw.s.RuntimeError, ptr @lw.s.task)
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
