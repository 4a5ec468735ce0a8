; What linux.ll has, for other systems.

define internal void @lw.huge_pages(ptr %block, i64 %bytes) alwaysinline {
  ret void
}
