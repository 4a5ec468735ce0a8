; The thread pool, for Linux on x86-64 and aarch64.
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
;
; Kernels launch; `loopwright.runtime.threads` calls the others. One copy serves the process and has to
; stay loaded while workers live.
;
; Tasks stand in as many queues as there are threads, each a stretch of neighbours; a thread takes the next
; one of its own queue, then of the others. So what a task reads ahead for the next one is in the right
; cache, and so is much of what the kernel before wrote. Threads may be far apart (200 ns from cache to
; cache), so each queue has a cache line of its own, which says all about its tasks, and what a thread ran
; it counts when it finds no more.
;
; A queue's 64-bit ticket holds `generation << 32 | tasks left`. Publishing tickets starts a region;
; everyone, the caller included, claims one task per compare-and-swap of one of them. The caller waits until
; all *tasks* are done, never for workers to check in, so a sleeping worker delays nothing. A claim that
; succeeded pins the region (it cannot end before that task is counted), so what else stands in the
; queue is read after it.
; Workers spin for about 3000 pauses, then sleep on a futex. They are pinned to CPUs
; of the process's mask other than the caller's, and give way when it moves. Nested and concurrent
; launches find the pool busy and run serially in their own thread, as does everything when no thread
; could be started.
;
; Where other threads want the CPUs, too (another pool whose threads spin), a worker may lose its CPU in the
; middle of a task, for 3 ms or more. A caller that waits looks whether the CPU time of the workers with tasks
; increases; one whose does not gets the caller's CPU, while that sleeps.

; ticket, fn, data, n, the task after its last; of the first queue: how many there are in use
%lw.queue = type { i64, ptr, ptr, i32, i32, i32, [92 x i8] }

; Each word that one side spins on has a cache line of its own (align 128: prefetchers take pairs).
@lw.queues  = internal global [64 x %lw.queue] zeroinitializer, align 128
@lw.done    = internal global i32 0, align 128 ; tasks that workers have run, ever
@lw.wake    = internal global i32 0, align 128
@lw.asleep  = internal global i32 0
@lw.waiting = internal global i32 0, align 128 ; whether the caller sleeps until workers have run tasks
@lw.busy    = internal global i32 0, align 128
@lw.limit   = internal global i32 1, align 128
@lw.started = internal global i32 0
@lw.failed  = internal global i32 0
@lw.pinning = internal global i32 1
@lw.home    = internal global i32 -1
@lw.cpus    = internal global [1025 x i32] zeroinitializer
@lw.ids     = internal global [1025 x i64] zeroinitializer
@lw.times   = internal global [1025 x i64] zeroinitializer ; CPU time of workers when the caller looked last
@lw.inside  = internal global [1025 x [16 x i32]] zeroinitializer, align 128 ; whether they may have a task

declare void @lw.pause()
declare void @lw.futex(ptr, i32, i32)
declare void @lw.serial(ptr, ptr, i32)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
declare i32 @sched_yield()
declare i32 @pthread_getcpuclockid(i64, ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.smax.i32(i32, i32)
declare i64 @llvm.ctpop.i64(i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; The first of %n tasks in queue %k of %queues.
define internal i32 @lw.first(i32 %k, i32 %n, i32 %queues) alwaysinline {
  %wide_k = zext i32 %k to i64
  %wide_n = zext i32 %n to i64
  %wide_queues = zext i32 %queues to i64
  %all = mul i64 %wide_k, %wide_n
  %first = udiv i64 %all, %wide_queues
  %task = trunc i64 %first to i32
  ret i32 %task
}

; Put tasks into queue %k of %queues: its new ticket, which is still to be stored.
define internal i64 @lw.fill(ptr %queue, i32 %k, i32 %queues, ptr %fn, ptr %data, i32 %n) alwaysinline {
  %fn_at = getelementptr %lw.queue, ptr %queue, i32 0, i32 1
  store ptr %fn, ptr %fn_at, align 8
  %data_at = getelementptr %lw.queue, ptr %queue, i32 0, i32 2
  store ptr %data, ptr %data_at, align 8
  %n_at = getelementptr %lw.queue, ptr %queue, i32 0, i32 3
  store i32 %n, ptr %n_at, align 8
  %k1 = add i32 %k, 1
  %first = call i32 @lw.first(i32 %k, i32 %n, i32 %queues)
  %end = call i32 @lw.first(i32 %k1, i32 %n, i32 %queues)
  %end_at = getelementptr %lw.queue, ptr %queue, i32 0, i32 4
  store i32 %end, ptr %end_at, align 4
  %old = load atomic i64, ptr %queue monotonic, align 8
  %g0 = lshr i64 %old, 32
  %g1 = add i64 %g0, 1
  %g2 = shl i64 %g1, 32
  %left = sub i32 %end, %first
  %wide = zext i32 %left to i64
  %ticket = or i64 %g2, %wide
  ret i64 %ticket
}

; Run tasks of a region as thread %me until none is left: how many. They are not counted yet.
define internal i32 @lw.run(i32 %me) {
entry:
  %own = and i32 %me, 63
  br label %look
look:
  %k = phi i32 [ %own, %entry ], [ %k2, %next ]
  %tried = phi i32 [ 0, %entry ], [ %tried1, %next ]
  %before = phi i32 [ 0, %entry ], [ %ran, %next ]
  %queue = getelementptr %lw.queue, ptr @lw.queues, i32 %k
  %seen = load atomic i64, ptr %queue acquire, align 8
  br label %try
try:
  %ran = phi i32 [ %before, %look ], [ %ran, %swap ], [ %ran1, %call ]
  %t = phi i64 [ %seen, %look ], [ %now, %swap ], [ %less, %call ]
  %left = trunc i64 %t to i32
  %none = icmp eq i32 %left, 0
  br i1 %none, label %empty, label %swap
swap:
  %less = add i64 %t, -1
  %pair = cmpxchg ptr %queue, i64 %t, i64 %less acq_rel acquire, align 8
  %won = extractvalue { i64, i1 } %pair, 1
  %now = extractvalue { i64, i1 } %pair, 0
  br i1 %won, label %call, label %try
call:
  %fn_at = getelementptr %lw.queue, ptr %queue, i32 0, i32 1
  %fn = load ptr, ptr %fn_at, align 8
  %data_at = getelementptr %lw.queue, ptr %queue, i32 0, i32 2
  %data = load ptr, ptr %data_at, align 8
  %n_at = getelementptr %lw.queue, ptr %queue, i32 0, i32 3
  %n = load i32, ptr %n_at, align 8
  %end_at = getelementptr %lw.queue, ptr %queue, i32 0, i32 4
  %end = load i32, ptr %end_at, align 4
  %task = sub i32 %end, %left
  call void %fn(ptr %data, i32 %task, i32 %n)
  %ran1 = add i32 %ran, 1
  br label %try
empty:
  ; A count of another region only makes this look at too many or too few queues, all of which exist.
  %count_at = getelementptr %lw.queue, ptr @lw.queues, i32 0, i32 5
  %count = load atomic i32, ptr %count_at monotonic, align 4
  %all = icmp uge i32 %tried, %count
  br i1 %all, label %exit, label %next
next:
  %tried1 = add i32 %tried, 1
  %k1 = add i32 %k, 1
  %last = icmp uge i32 %k1, %count
  %k2 = select i1 %last, i32 0, i32 %k1
  br label %look
exit:
  ret i32 %ran
}

define internal ptr @lw.worker(ptr %arg) {
entry:
  %index = ptrtoint ptr %arg to i32
  %own = and i32 %index, 63
  %queue = getelementptr %lw.queue, ptr @lw.queues, i32 %own
  %inside = getelementptr [16 x i32], ptr @lw.inside, i32 %index
  br label %work
work:
  ; A worker beyond the limit sleeps on the limit itself, so that wake-ups reach those within it.
  %limit = load atomic i32, ptr @lw.limit seq_cst, align 4
  %over = icmp sge i32 %index, %limit
  br i1 %over, label %bench, label %run
bench:
  call void @lw.futex(ptr @lw.limit, i32 128, i32 %limit)
  br label %work
run:
  %ticket = load atomic i64, ptr %queue acquire, align 8
  %empty = and i64 %ticket, -4294967296
  store atomic i32 1, ptr %inside monotonic, align 4
  %ran = call i32 @lw.run(i32 %index)
  store atomic i32 0, ptr %inside monotonic, align 4
  %any = icmp ne i32 %ran, 0
  br i1 %any, label %count, label %spin
count:
  ; The caller announces its sleep, then looks at the count once more.
  %d = atomicrmw add ptr @lw.done, i32 %ran seq_cst, align 4
  %waits = load atomic i32, ptr @lw.waiting seq_cst, align 4
  %none = icmp eq i32 %waits, 0
  br i1 %none, label %spin, label %tell
tell:
  call void @lw.futex(ptr @lw.done, i32 129, i32 1)
  br label %spin
spin:
  %s = phi i32 [ 0, %run ], [ 0, %count ], [ 0, %tell ], [ %s1, %again ]
  call void @lw.pause()
  %t = load atomic i64, ptr %queue monotonic, align 8
  %same = icmp eq i64 %t, %empty
  br i1 %same, label %again, label %work
again:
  %s1 = add i32 %s, 1
  %tired = icmp sge i32 %s1, 3000
  br i1 %tired, label %park, label %spin
park:
  ; Announce the sleep, then look once more: the launcher publishes, then looks for sleepers.
  %w = load atomic i32, ptr @lw.wake seq_cst, align 4
  %a = atomicrmw add ptr @lw.asleep, i32 1 seq_cst, align 4
  %t2 = load atomic i64, ptr %queue seq_cst, align 8
  %still = icmp eq i64 %t2, %empty
  br i1 %still, label %sleep, label %up
sleep:
  call void @lw.futex(ptr @lw.wake, i32 128, i32 %w)
  br label %up
up:
  %u = atomicrmw sub ptr @lw.asleep, i32 1 seq_cst, align 4
  br label %work
}

; Let a worker run on one CPU only, or, for -1, wherever the caller may.
define internal void @lw.pin(i32 %index, i32 %cpu) noinline cold {
entry:
  %mask = alloca [128 x i8], align 16
  call void @llvm.memset.p0.i64(ptr align 16 %mask, i8 0, i64 128, i1 false)
  %any = icmp slt i32 %cpu, 0
  br i1 %any, label %all, label %one
all:
  %got = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  br label %set
one:
  %word = lshr i32 %cpu, 6
  %bit = and i32 %cpu, 63
  %wide = zext i32 %bit to i64
  %val = shl i64 1, %wide
  %p = getelementptr i64, ptr %mask, i32 %word
  store i64 %val, ptr %p, align 8
  br label %set
set:
  %xp = getelementptr i64, ptr @lw.ids, i32 %index
  %id = load i64, ptr %xp, align 8
  %rc = call i32 @pthread_setaffinity_np(i64 %id, i64 128, ptr %mask)
  %cp = getelementptr i32, ptr @lw.cpus, i32 %index
  store i32 %cpu, ptr %cp, align 4
  ret void
}

; A worker that may have a task and did not run since the last look, or 0.
define internal i32 @lw.stuck() noinline cold {
entry:
  %clock = alloca i32, align 4
  %time = alloca [2 x i64], align 8
  %started = load i32, ptr @lw.started, align 4
  br label %loop
loop:
  %i = phi i32 [ 1, %entry ], [ %i1, %next ]
  %end = icmp sgt i32 %i, %started
  br i1 %end, label %exit, label %look
look:
  %inside = getelementptr [16 x i32], ptr @lw.inside, i32 %i
  %in = load atomic i32, ptr %inside monotonic, align 4
  %out = icmp eq i32 %in, 0
  br i1 %out, label %next, label %read
read:
  %xp = getelementptr i64, ptr @lw.ids, i32 %i
  %id = load i64, ptr %xp, align 8
  %r1 = call i32 @pthread_getcpuclockid(i64 %id, ptr %clock)
  %c = load i32, ptr %clock, align 4
  %r2 = call i32 @clock_gettime(i32 %c, ptr %time)
  %failed = or i32 %r1, %r2
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %compare, label %next
compare:
  %seconds = load i64, ptr %time, align 8
  %rest_at = getelementptr i64, ptr %time, i32 1
  %rest = load i64, ptr %rest_at, align 8
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  %tp = getelementptr i64, ptr @lw.times, i32 %i
  %before = load i64, ptr %tp, align 8
  store i64 %now, ptr %tp, align 8
  %same = icmp eq i64 %now, %before
  br i1 %same, label %exit, label %next
next:
  %i1 = add i32 %i, 1
  br label %loop
exit:
  %which = phi i32 [ 0, %loop ], [ %i, %compare ]
  ret i32 %which
}

; Lend the caller's CPU to a worker until more tasks than %seen are done.
define internal void @lw.lend(i32 %worker, i32 %seen) noinline cold {
entry:
  store atomic i32 1, ptr @lw.waiting seq_cst, align 4
  %done = load atomic i32, ptr @lw.done seq_cst, align 4
  %same = icmp eq i32 %done, %seen
  br i1 %same, label %sleep, label %exit
sleep:
  %cp = getelementptr i32, ptr @lw.cpus, i32 %worker
  %old = load i32, ptr %cp, align 4
  %here = call i32 @sched_getcpu()
  call void @lw.pin(i32 %worker, i32 %here)
  call void @lw.futex(ptr @lw.done, i32 128, i32 %seen)
  call void @lw.pin(i32 %worker, i32 %old)
  call void @lw.settle()
  br label %exit
exit:
  store atomic i32 0, ptr @lw.waiting monotonic, align 4
  ret void
}

; Where the caller moved to a worker's CPU, let that one take the caller's old place.
define internal void @lw.settle() noinline cold {
entry:
  %home = load i32, ptr @lw.home, align 4
  %pinned = icmp sge i32 %home, 0
  br i1 %pinned, label %where, label %exit
where:
  %here = call i32 @sched_getcpu()
  %stayed = icmp eq i32 %here, %home
  br i1 %stayed, label %exit, label %moved
moved:
  call void @lw.follow(i32 %home, i32 %here)
  br label %exit
exit:
  ret void
}

; The caller moved from %home to %here: a worker pinned there takes the caller's old place.
define internal void @lw.follow(i32 %home, i32 %here) noinline cold {
entry:
  store i32 %here, ptr @lw.home, align 4
  %started = load i32, ptr @lw.started, align 4
  br label %loop
loop:
  %i = phi i32 [ 1, %entry ], [ %i1, %next ]
  %end = icmp sgt i32 %i, %started
  br i1 %end, label %exit, label %look
look:
  %cp = getelementptr i32, ptr @lw.cpus, i32 %i
  %cpu = load i32, ptr %cp, align 4
  %hit = icmp eq i32 %cpu, %here
  br i1 %hit, label %move, label %next
next:
  %i1 = add i32 %i, 1
  br label %loop
move:
  call void @lw.pin(i32 %i, i32 %home)
  br label %exit
exit:
  ret void
}

; Start the workers that the limit asks for; called with @lw.busy held. A failure is final.
define internal void @lw.start(i32 %limit) noinline cold {
entry:
  %all = alloca [128 x i8], align 16
  %old = alloca [128 x i8], align 16
  %mask = alloca [128 x i8], align 16
  %thread = alloca i64, align 8
  %failed = load i32, ptr @lw.failed, align 4
  %give_up = icmp ne i32 %failed, 0
  br i1 %give_up, label %exit, label %prepare
prepare:
  ; Signals are for the program's own threads: workers inherit a full mask.
  %s0 = call i32 @sigfillset(ptr %all)
  %s1 = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  call void @llvm.memset.p0.i64(ptr align 16 %mask, i8 0, i64 128, i1 false)
  %got = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  %here = call i32 @sched_getcpu()
  ; Pin only where every thread can have a CPU of its own.
  br label %count
count:
  %ci = phi i64 [ 0, %prepare ], [ %ci1, %count ]
  %cn = phi i64 [ 0, %prepare ], [ %cn1, %count ]
  %cp = getelementptr i64, ptr %mask, i64 %ci
  %cw = load i64, ptr %cp, align 8
  %cb = call i64 @llvm.ctpop.i64(i64 %cw)
  %cn1 = add i64 %cn, %cb
  %ci1 = add i64 %ci, 1
  %cd = icmp eq i64 %ci1, 16
  br i1 %cd, label %counted, label %count
counted:
  %cpus = trunc i64 %cn1 to i32
  %enough = icmp sge i32 %cpus, %limit
  %asked = load i32, ptr @lw.pinning, align 4
  %wanted = icmp ne i32 %asked, 0
  %pin = and i1 %enough, %wanted
  %first = load i32, ptr @lw.started, align 4
  br label %next
next:
  ; %index counts workers from 1 (0 is the caller); %cpu walks the mask cyclically after the caller's.
  %have = phi i32 [ %first, %counted ], [ %index, %pinned ]
  %index = add i32 %have, 1
  %enough_now = icmp sge i32 %index, %limit
  br i1 %enough_now, label %finish, label %create
create:
  %wide = zext i32 %index to i64
  %arg = inttoptr i64 %wide to ptr
  %rc = call i32 @pthread_create(ptr %thread, ptr null, ptr @lw.worker, ptr %arg)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %created, label %refused
refused:
  store i32 1, ptr @lw.failed, align 4
  br label %finish
created:
  store i32 %index, ptr @lw.started, align 4
  %id = load i64, ptr %thread, align 8
  %xp = getelementptr i64, ptr @lw.ids, i32 %index
  store i64 %id, ptr %xp, align 8
  %unpinned_at = getelementptr i32, ptr @lw.cpus, i32 %index
  store i32 -1, ptr %unpinned_at, align 4
  br i1 %pin, label %choose, label %detach
choose:
  ; The index-th allowed CPU after the caller's: walk until that many were passed.
  %k = phi i32 [ 0, %created ], [ %k1, %walk ]
  %cpu = phi i32 [ %here, %created ], [ %cpu1, %walk ]
  %enough_k = icmp eq i32 %k, %index
  br i1 %enough_k, label %set, label %walk
walk:
  %c0 = add i32 %cpu, 1
  %cpu1 = and i32 %c0, 1023
  %word = lshr i32 %cpu1, 6
  %bit = and i32 %cpu1, 63
  %wp = getelementptr i64, ptr %mask, i32 %word
  %wv = load i64, ptr %wp, align 8
  %bw = zext i32 %bit to i64
  %sh = lshr i64 %wv, %bw
  %isset64 = and i64 %sh, 1
  %isset = trunc i64 %isset64 to i32
  %k1 = add i32 %k, %isset
  br label %choose
set:
  call void @lw.pin(i32 %index, i32 %cpu)
  store i32 %here, ptr @lw.home, align 4
  br label %detach
detach:
  %dr = call i32 @pthread_detach(i64 %id)
  br label %pinned
pinned:
  br label %next
finish:
  %s2 = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  br label %exit
exit:
  ret void
}

define i32 @lw_parallel_launch(ptr %fn, ptr %data, i32 %n) {
entry:
  %limit = load atomic i32, ptr @lw.limit monotonic, align 4
  %alone = icmp sle i32 %limit, 1
  %single = icmp sle i32 %n, 1
  %small = or i1 %alone, %single
  br i1 %small, label %serial, label %acquire
acquire:
  %lock = cmpxchg ptr @lw.busy, i32 0, i32 1 acquire monotonic, align 4
  %mine = extractvalue { i32, i1 } %lock, 1
  br i1 %mine, label %staff, label %serial
staff:
  %s0 = load i32, ptr @lw.started, align 4
  %need = add i32 %s0, 1
  %short = icmp slt i32 %need, %limit
  br i1 %short, label %start, label %publish
start:
  call void @lw.start(i32 %limit)
  br label %publish
publish:
  %base = load atomic i32, ptr @lw.done monotonic, align 4
  %some = call i32 @llvm.smin.i32(i32 %limit, i32 %n)
  %queues = call i32 @llvm.smin.i32(i32 %some, i32 64)
  br label %fill
fill:
  ; The caller's own queue is the last one.
  %k1 = phi i32 [ %queues, %publish ], [ %k, %filled ]
  %k = add i32 %k1, -1
  %queue = getelementptr %lw.queue, ptr @lw.queues, i32 %k
  %ticket = call i64 @lw.fill(ptr %queue, i32 %k, i32 %queues, ptr %fn, ptr %data, i32 %n)
  %own = icmp eq i32 %k, 0
  br i1 %own, label %open, label %filled
filled:
  store atomic i64 %ticket, ptr %queue release, align 8
  br label %fill
open:
  %count_at = getelementptr %lw.queue, ptr @lw.queues, i32 0, i32 5
  store atomic i32 %queues, ptr %count_at monotonic, align 4
  ; An exchange is also the full barrier between publishing and looking for sleepers.
  %was = atomicrmw xchg ptr @lw.queues, i64 %ticket seq_cst, align 8
  %asleep = load atomic i32, ptr @lw.asleep seq_cst, align 4
  %any = icmp sgt i32 %asleep, 0
  br i1 %any, label %wake, label %work
wake:
  call void @lw.settle()
  %bump = atomicrmw add ptr @lw.wake, i32 1 seq_cst, align 4
  %others = add i32 %n, -1
  %howmany = call i32 @llvm.smin.i32(i32 %asleep, i32 %others)
  call void @lw.futex(ptr @lw.wake, i32 129, i32 %howmany)
  br label %work
work:
  %ran = call i32 @lw.run(i32 0)
  %elsewhere = sub i32 %n, %ran
  br label %wait
wait:
  ; The last tasks run elsewhere. Spin; when it takes long, let others have this CPU now and then, and a worker
  ; that has none.
  %spins = phi i32 [ 0, %work ], [ %spins1, %waiting ]
  %done = load atomic i32, ptr @lw.done acquire, align 4
  %since = sub i32 %done, %base
  %all = icmp eq i32 %since, %elsewhere
  br i1 %all, label %release, label %pause
pause:
  call void @lw.pause()
  %spins1 = add i32 %spins, 1
  %masked = and i32 %spins1, 2047
  %long = icmp eq i32 %masked, 0
  br i1 %long, label %look, label %waiting
look:
  %stuck = call i32 @lw.stuck()
  %running = icmp eq i32 %stuck, 0
  br i1 %running, label %yield, label %lend
yield:
  %y = call i32 @sched_yield()
  br label %waiting
lend:
  call void @lw.lend(i32 %stuck, i32 %done)
  br label %waiting
waiting:
  br label %wait
release:
  store atomic i32 0, ptr @lw.busy release, align 4
  ret i32 0
serial:
  call void @lw.serial(ptr %fn, ptr %data, i32 %n)
  ret i32 0
}

define void @lw_set_num_threads(i32 %n) {
entry:
  %least = call i32 @llvm.smax.i32(i32 %n, i32 1)
  %limit = call i32 @llvm.smin.i32(i32 %least, i32 1024)
  store atomic i32 %limit, ptr @lw.limit seq_cst, align 4
  call void @lw.futex(ptr @lw.limit, i32 129, i32 2147483647)
  ; Sleepers look at the limit only when woken, and sleep again at once if nothing is to be done.
  %bump = atomicrmw add ptr @lw.wake, i32 1 seq_cst, align 4
  call void @lw.futex(ptr @lw.wake, i32 129, i32 2147483647)
  ret void
}

define i32 @lw_num_threads() {
  %limit = load atomic i32, ptr @lw.limit monotonic, align 4
  %failed = load atomic i32, ptr @lw.failed monotonic, align 4
  %started = load atomic i32, ptr @lw.started monotonic, align 4
  %running = add i32 %started, 1
  %less = call i32 @llvm.smin.i32(i32 %limit, i32 %running)
  %full = icmp eq i32 %failed, 0
  %n = select i1 %full, i32 %limit, i32 %less
  ret i32 %n
}

define void @lw_pool_reset() {
  call void @llvm.memset.p0.i64(ptr align 128 @lw.queues, i8 0, i64 8192, i1 false)
  store i32 0, ptr @lw.done, align 4
  store i32 0, ptr @lw.asleep, align 4
  store i32 0, ptr @lw.waiting, align 4
  call void @llvm.memset.p0.i64(ptr align 128 @lw.inside, i8 0, i64 65600, i1 false)
  store i32 0, ptr @lw.started, align 4
  store i32 0, ptr @lw.failed, align 4
  store i32 -1, ptr @lw.home, align 4
  store atomic i32 0, ptr @lw.busy seq_cst, align 4
  ret void
}

define void @lw_pool_set_pinning(i32 %on) {
  store i32 %on, ptr @lw.pinning, align 4
  ret void
}
