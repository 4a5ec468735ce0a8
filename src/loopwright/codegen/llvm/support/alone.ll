; tvm-ffi's C API for exported libraries that are used without it.
;
;   ptr @lw_last_error()
;       What went wrong last, as a C string; for C programs.
;
; Linked into each exported library (codegen/llvm/export.py). The functions of tvm-ffi are weak: where
; its own library is in the process, that one is used. Without it the text of the last error is kept
; in one buffer, and no function is registered and no tensor object is made.

@TVMFFI.lw.error = weak global [1024 x i8] zeroinitializer
@lw.error.form = private unnamed_addr constant [7 x i8] c"%s: %s\00"
declare i32 @snprintf(ptr, i64, ptr, ...)

define ptr @lw_last_error() {
  ret ptr @TVMFFI.lw.error
}

define weak void @TVMFFIErrorSetRaisedFromCStr(ptr %kind, ptr %message) {
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @TVMFFI.lw.error, i64 1024, ptr @lw.error.form, ptr %kind, ptr %message)
  ret void
}

define weak void @TVMFFIErrorMoveFromRaised(ptr %out) {
  store ptr @TVMFFI.lw.error, ptr %out, align 8
  ret void
}

define weak void @TVMFFIErrorSetRaised(ptr %error) {
  ret void
}

define weak i32 @TVMFFIFunctionGetGlobal(ptr %name, ptr %out) {
  store ptr null, ptr %out, align 8
  ret i32 -1
}

define weak i32 @TVMFFIFunctionCall(ptr %f, ptr %args, i32 %n, ptr %ret) {
  ret i32 -1
}

define weak i32 @TVMFFITensorFromDLPack(ptr %from, i32 %align, i32 %contiguous, ptr %out) {
  store ptr null, ptr %out, align 8
  ret i32 -1
}

define weak i32 @TVMFFIObjectDecRef(ptr %object) {
  ret i32 0
}
