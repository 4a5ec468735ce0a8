; What the other files need of Linux.

declare i32 @madvise(ptr, i64, i32)

; Ask for huge pages (MADV_HUGEPAGE, as numpy does) in the whole pages of a block: 40 MB filled for the
; first time take 3 ms instead of 20, and later accesses miss the TLB less often.
define internal void @lw.huge_pages(ptr %block, i64 %bytes) alwaysinline {
  %at = ptrtoint ptr %block to i64
  %a0 = add i64 %at, 4095
  %first = and i64 %a0, -4096
  %end = add i64 %at, %bytes
  %last = and i64 %end, -4096
  %length = sub i64 %last, %first
  %page = inttoptr i64 %first to ptr
  %rc = call i32 @madvise(ptr %page, i64 %length, i32 14)
  ret void
}
