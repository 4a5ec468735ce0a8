; Tasks in the calling thread, for pool.ll and no_pool.ll.

define internal void @lw.serial(ptr %fn, ptr %data, i32 %n) {
entry:
  %any = icmp sgt i32 %n, 0
  br i1 %any, label %loop, label %exit
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  call void %fn(ptr %data, i32 %i, i32 %n)
  %next = add nuw nsw i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %exit
exit:
  ret void
}
