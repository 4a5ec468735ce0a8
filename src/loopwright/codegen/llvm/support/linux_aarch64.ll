; What pool.ll needs of Linux on aarch64.

declare void @llvm.aarch64.isb(i32)
declare i64 @syscall(i64, ...)

; Wait some cycles in a loop that spins.
define internal void @lw.pause() alwaysinline {
  ; `yield` is a no-op on most cores; `isb` waits some tens of cycles.
  call void @llvm.aarch64.isb(i32 15)
  ret void
}

; The system call futex. Operation 128: sleep while the i32 at %word is %value; 129: wake up to %value
; sleepers.
define internal void @lw.futex(ptr %word, i32 %operation, i32 %value) alwaysinline {
  %rc = call i64 (i64, ...) @syscall(i64 98, ptr %word, i32 %operation, i32 %value, ptr null, ptr null, i32 0)
  ret void
}
