; Results: tensors that native code makes, and how they and tuples of them are handed out.
;
;   ptr @lw_tensor_alloc(i32 ndim, ptr shape, i32 dtype, ptr name)
;       A row-major tensor on the CPU, its contents not defined; null after raising when memory is
;       out, or when the size exceeds 2**47. `name`, a C string, is for the message. One block: a DLManagedTensor (64 bytes), shape, strides, then the data, aligned to 64
;       bytes; the data's address is the block's first word.
;   void @lw_tensor_drop(ptr block)
;       Free one that was not handed out.
;   i32 @lw_ret_tensor(ptr block, ptr ret)
;       Hand it out as a tvm-ffi tensor in the value `ret`.
;   i32 @lw_ret_tuple(ptr values, i32 n, ptr ret)
;       Hand out n values as one array, which takes over their references.
;
; Entries call them (codegen/llvm/entry.py). i32 results are 0, or -1 after raising. A tensor's deleter
; is libc's `free`, so a result may outlive the code that made it.

; DLManagedTensor: the DLTensor (see arguments.ll), the manager's context, the deleter.
%lw.tensor = type { ptr, i32, i32, i32, i32, ptr, ptr, i64 }
%lw.managed = type { %lw.tensor, ptr, ptr }
; A value of tvm-ffi: type index (with 4 bytes of zero), payload. Those from 64 on are objects.
%lw.value = type { i64, ptr }
; A name for it: text, length.
%lw.name = type { ptr, i64 }

@lw.s.MemoryError = private unnamed_addr constant [12 x i8] c"MemoryError\00"
@lw.s.memory = private unnamed_addr constant [48 x i8] c"%.1900s: cannot allocate a tensor of %lld bytes\00"
@lw.s.large = private unnamed_addr constant [59 x i8] c"%.1900s: cannot allocate a tensor of %lld elements or more\00"
@lw.s.array = private unnamed_addr constant [10 x i8] c"ffi.Array\00"
; The constructor of arrays: looked up once, its reference held for the life of the process.
@lw.array = internal global ptr null, align 8

declare i32 @TVMFFITensorFromDLPack(ptr, i32, i32, ptr)
declare i32 @TVMFFIFunctionGetGlobal(ptr, ptr)
declare i32 @TVMFFIFunctionCall(ptr, ptr, i32, ptr)
declare i32 @TVMFFIObjectDecRef(ptr)
declare noalias ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i64 @llvm.umax.i64(i64, i64)
declare i128 @llvm.umin.i128(i128, i128)
declare void @lw_raise(ptr, ptr)
declare i32 @snprintf(ptr, i64, ptr, ...)
declare void @lw.huge_pages(ptr, i64)

; Make %block a tensor of %shape that owns itself: shape and strides after the DLManagedTensor,
; row-major, freed with the block. Data, device, ndim, dtype and offset are left to the caller.
define internal void @lw.own(ptr %block, i64 %ndim, ptr %shape) alwaysinline {
entry:
  %dims = getelementptr %lw.managed, ptr %block, i64 1
  %sp = getelementptr %lw.tensor, ptr %block, i32 0, i32 5
  store ptr %dims, ptr %sp, align 8
  %strides = getelementptr i64, ptr %dims, i64 %ndim
  %tp = getelementptr %lw.tensor, ptr %block, i32 0, i32 6
  store ptr %strides, ptr %tp, align 8
  %mp = getelementptr %lw.managed, ptr %block, i32 0, i32 1
  store ptr null, ptr %mp, align 8
  %fp = getelementptr %lw.managed, ptr %block, i32 0, i32 2
  store ptr @free, ptr %fp, align 8
  br label %copy
copy:
  %j = phi i64 [ %ndim, %entry ], [ %j1, %copied ]
  %stride = phi i64 [ 1, %entry ], [ %stride1, %copied ]
  %last = icmp eq i64 %j, 0
  br i1 %last, label %done, label %copied
copied:
  %j1 = sub i64 %j, 1
  %from = getelementptr i64, ptr %shape, i64 %j1
  %size = load i64, ptr %from, align 8
  %dp = getelementptr i64, ptr %dims, i64 %j1
  store i64 %size, ptr %dp, align 8
  %xp = getelementptr i64, ptr %strides, i64 %j1
  store i64 %stride, ptr %xp, align 8
  %stride1 = mul i64 %stride, %size
  br label %copy
done:
  ret void
}

define internal void @lw.raise_memory(ptr %format, ptr %name, i64 %size) noinline cold {
  %buf = alloca [2048 x i8], align 1
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %buf, i64 2048, ptr %format, ptr %name, i64 %size)
  call void @lw_raise(ptr @lw.s.MemoryError, ptr %buf)
  ret void
}

define ptr @lw_tensor_alloc(i32 %ndim, ptr %shape, i32 %dtype, ptr %name) {
entry:
  %wide = zext i32 %ndim to i64
  %some = icmp ne i32 %ndim, 0
  br i1 %some, label %count, label %sized
count:
  %i = phi i64 [ 0, %entry ], [ %i1, %count ]
  %e0 = phi i64 [ 1, %entry ], [ %e1, %count ]
  %c0 = phi i64 [ 1, %entry ], [ %c1, %count ]
  %sp = getelementptr i64, ptr %shape, i64 %i
  %s = load i64, ptr %sp, align 8
  ; An extent of 0 counts as 1; nothing wraps as long as no product exceeds the limit below.
  %s1 = call i64 @llvm.umax.i64(i64 %s, i64 1)
  %w0 = zext i64 %c0 to i128
  %w1 = zext i64 %s1 to i128
  %w2 = mul i128 %w0, %w1
  %w3 = call i128 @llvm.umin.i128(i128 %w2, i128 140737488355329)
  %c1 = trunc i128 %w3 to i64
  %e1 = mul i64 %e0, %s
  %i1 = add nuw i64 %i, 1
  %more = icmp ult i64 %i1, %wide
  br i1 %more, label %count, label %sized
sized:
  %elements = phi i64 [ 1, %entry ], [ %e1, %count ]
  %counted = phi i64 [ 1, %entry ], [ %c1, %count ]
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
  ; The DLManagedTensor, shape, strides, then the data on the next line of the cache.
  %meta0 = shl i64 %wide, 4
  %meta1 = add i64 %meta0, 127
  %head = and i64 %meta1, -64
  %all0 = add i64 %head, %bytes
  %all1 = add i64 %all0, 63
  %all = and i64 %all1, -64
  %many = icmp ugt i64 %counted, 140737488355328
  br i1 %many, label %overflow, label %counts
overflow:
  call void @lw.raise_memory(ptr @lw.s.large, ptr %name, i64 %counted)
  ret ptr null
counts:
  %much = icmp ugt i64 %all, 140737488355328
  br i1 %much, label %fail, label %alloc
alloc:
  %block = call ptr @aligned_alloc(i64 64, i64 %all)
  %got = icmp ne ptr %block, null
  br i1 %got, label %sizable, label %fail
sizable:
  %big = icmp sge i64 %all, 4194304
  br i1 %big, label %huge, label %fill
huge:
  call void @lw.huge_pages(ptr %block, i64 %all)
  br label %fill
fill:
  %data = getelementptr i8, ptr %block, i64 %head
  store ptr %data, ptr %block, align 8
  %vp = getelementptr %lw.tensor, ptr %block, i32 0, i32 1
  store i64 1, ptr %vp, align 8
  %np = getelementptr %lw.tensor, ptr %block, i32 0, i32 3
  store i32 %ndim, ptr %np, align 8
  %tp = getelementptr %lw.tensor, ptr %block, i32 0, i32 4
  store i32 %dtype, ptr %tp, align 4
  %op = getelementptr %lw.tensor, ptr %block, i32 0, i32 7
  store i64 0, ptr %op, align 8
  call void @lw.own(ptr %block, i64 %wide, ptr %shape)
  ret ptr %block
fail:
  call void @lw.raise_memory(ptr @lw.s.memory, ptr %name, i64 %bytes)
  ret ptr null
}

define void @lw_tensor_drop(ptr %block) {
  call void @free(ptr %block)
  ret void
}

define i32 @lw_ret_tensor(ptr %block, ptr %ret) {
entry:
  %hp = getelementptr %lw.value, ptr %ret, i32 0, i32 1
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

define i32 @lw_ret_tuple(ptr %values, i32 %n, ptr %ret) {
entry:
  %name = alloca %lw.name, align 8
  %cached = load atomic ptr, ptr @lw.array acquire, align 8
  %have = icmp ne ptr %cached, null
  br i1 %have, label %call, label %find
find:
  store ptr @lw.s.array, ptr %name, align 8
  %lp = getelementptr %lw.name, ptr %name, i32 0, i32 1
  store i64 9, ptr %lp, align 8
  %handle = alloca ptr, align 8
  %frc = call i32 @TVMFFIFunctionGetGlobal(ptr %name, ptr %handle)
  %fok = icmp eq i32 %frc, 0
  br i1 %fok, label %keep, label %drop
keep:
  ; Two threads that look it up at once hold two references.
  %constructor = load ptr, ptr %handle, align 8
  store atomic ptr %constructor, ptr @lw.array release, align 8
  br label %call
call:
  %f = phi ptr [ %cached, %entry ], [ %constructor, %keep ]
  store i64 0, ptr %ret, align 8
  %rp = getelementptr %lw.value, ptr %ret, i32 0, i32 1
  store i64 0, ptr %rp, align 8
  %crc = call i32 @TVMFFIFunctionCall(ptr %f, ptr %values, i32 %n, ptr %ret)
  br label %drop
drop:
  ; The array holds its own references: give back those of the values that are objects.
  %rc = phi i32 [ %frc, %find ], [ %crc, %call ]
  call void @lw.release(ptr %values, i32 %n, i32 64, i32 2147483647)
  ret i32 %rc
}

; Give back the references of those of n values whose type indices are in %low..%high.
define internal void @lw.release(ptr %values, i32 %n, i32 %low, i32 %high) {
entry:
  br label %each
each:
  %i = phi i32 [ 0, %entry ], [ %i1, %next ]
  %end = icmp eq i32 %i, %n
  br i1 %end, label %exit, label %one
one:
  %vp = getelementptr %lw.value, ptr %values, i32 %i
  %type = load i32, ptr %vp, align 8
  %above = icmp sge i32 %type, %low
  %below = icmp sle i32 %type, %high
  %is = and i1 %above, %below
  br i1 %is, label %drop, label %next
drop:
  %op = getelementptr %lw.value, ptr %vp, i32 0, i32 1
  %o = load ptr, ptr %op, align 8
  %rc = call i32 @TVMFFIObjectDecRef(ptr %o)
  br label %next
next:
  %i1 = add i32 %i, 1
  br label %each
exit:
  ret void
}
