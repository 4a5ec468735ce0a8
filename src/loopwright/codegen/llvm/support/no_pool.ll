; What stands in for the thread pool (pool.ll) on other systems: tasks run in the calling thread.
;
;   i32 @lw_parallel_launch(ptr fn, ptr data, i32 n)
;       Run fn(data, task, n) for each task 0..n-1, where fn is void (ptr, i32, i32); 0 when all ran.
;   void @lw_set_num_threads(i32 n)
;       The number of threads, the caller counted.
;   i32 @lw_num_threads()
;   void @lw_pool_reset()
;       In a forked child, where the workers are gone.
;   void @lw_pool_set_pinning(i32 on)
;       Whether workers are bound to CPUs; before the first launch.

declare void @lw.serial(ptr, ptr, i32)

define i32 @lw_parallel_launch(ptr %fn, ptr %data, i32 %n) {
  call void @lw.serial(ptr %fn, ptr %data, i32 %n)
  ret i32 0
}

define void @lw_set_num_threads(i32 %n) {
  ret void
}

define i32 @lw_num_threads() {
  ret i32 1
}

define void @lw_pool_reset() {
  ret void
}

define void @lw_pool_set_pinning(i32 %on) {
  ret void
}
