"""The thread pool and the workspace allocator, as LLVM IR text.

One copy of this code serves the process; kernels call it by symbol:

    i32  @lw_parallel_launch(ptr fn, ptr data, i32 num_tasks)   fn: void (ptr data, i32 task, i32 num_tasks)
    void @lw_set_num_threads(i32 n)                             n counts the caller
    i32  @lw_num_threads()
    void @lw_pool_reset()                                       in a forked child: the workers are gone
    void @lw_pool_set_pinning(i32 on)                           before the first launch
    ptr  @lw_workspace_alloc(i64 bytes)                         64-byte aligned, of the calling thread
    void @lw_workspace_free(ptr)                                by the same thread; latest first is cheapest

The pool. A 64-bit ticket holds `generation << 32 | tasks left`. Publishing a ticket starts a region;
everyone, the caller included, claims one task per compare-and-swap. The caller waits until all
*tasks* are done, never for workers to check in, so a sleeping worker delays nothing. A claim that
succeeded pins the region (it cannot end before the claimed task does), so `fn`, `data` and the
number of tasks are read after it. Workers spin for about 3000 pauses, then sleep on a futex. They
are pinned to CPUs of the process's mask other than the caller's, and give way when it moves. Nested
and concurrent launches find the pool busy and run serially in their own thread, as does everything
when no thread could be started or where the pool has no implementation (other than Linux on x86-64
and aarch64). The code must stay loaded while workers live; see `load`.

The workspace. Each thread keeps an arena, grown between uses to the most that was ever live, so a
steady state allocates by moving a pointer and reuses warm pages. Every block has a 64-byte header
before it: the arena, the previous block's offset, whether it is free. What does not fit comes from
`aligned_alloc` (header with a null arena).
"""

from __future__ import annotations

_SPIN = 3000

_PAUSE = {
    "x86_64": "call void @llvm.x86.sse2.pause()",
    # `yield` is a no-op on most cores; `isb` waits some tens of cycles.
    "aarch64": "call void @llvm.aarch64.isb(i32 15)",
}
_FUTEX = {"x86_64": 202, "aarch64": 98}


def architecture(triple: str) -> str:
    """The triple's architecture in one spelling: `x86_64`, `aarch64`, or as written."""
    arch = triple.split("-", 1)[0]
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(arch, arch)


def has_pool(triple: str) -> bool:
    """Whether the pool has a threaded implementation for the triple."""
    return "linux" in triple and architecture(triple) in _FUTEX


def text(triple: str) -> str:
    """The support code for a target, as one LLVM module's text."""
    linux = "linux" in triple
    pool = _pool(architecture(triple)) if has_pool(triple) else _SERIAL
    return pool + _WORKSPACE.replace("{MADVISE}", _MADVISE if linux else "")


DECLARATIONS = {
    "lw_parallel_launch": "declare i32 @lw_parallel_launch(ptr, ptr, i32)",
    "lw_set_num_threads": "declare void @lw_set_num_threads(i32)",
    "lw_num_threads": "declare i32 @lw_num_threads()",
    "lw_pool_reset": "declare void @lw_pool_reset()",
    "lw_pool_set_pinning": "declare void @lw_pool_set_pinning(i32)",
    "lw_workspace_alloc": "declare noalias align 64 ptr @lw_workspace_alloc(i64)",
    "lw_workspace_free": "declare void @lw_workspace_free(ptr)",
}


# Runs tasks 0..n-1 in the calling thread; shared by both pools.
_RUN_SERIAL = """
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
"""

_SERIAL = (
    _RUN_SERIAL
    + """
@lw.limit = internal global i32 1
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
"""
)


def _pool(arch: str) -> str:
    return _RUN_SERIAL + _POOL.replace("{PAUSE}", _PAUSE[arch]).replace(
        "{FUTEX}", str(_FUTEX[arch])
    ).replace("{SPIN}", str(_SPIN))


# Each word that one side spins on has a cache line of its own (align 128: prefetchers take pairs).
_POOL = """
@lw.ticket  = internal global i64 0, align 128
@lw.fn      = internal global ptr null, align 128
@lw.data    = internal global ptr null
@lw.tasks   = internal global i32 0
@lw.done    = internal global i32 0, align 128
@lw.wake    = internal global i32 0, align 128
@lw.asleep  = internal global i32 0
@lw.busy    = internal global i32 0, align 128
@lw.limit   = internal global i32 1, align 128
@lw.started = internal global i32 0
@lw.failed  = internal global i32 0
@lw.pinning = internal global i32 1
@lw.home    = internal global i32 -1
@lw.cpus    = internal global [1025 x i32] zeroinitializer
@lw.ids     = internal global [1025 x i64] zeroinitializer

declare i64 @syscall(i64, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
declare i32 @sched_yield()

; Claim one task of a region and run it; false when none is left.
define internal i1 @lw.claim() {
entry:
  %seen = load atomic i64, ptr @lw.ticket acquire, align 8
  br label %try
try:
  %t = phi i64 [ %seen, %entry ], [ %now, %lost ]
  %left = trunc i64 %t to i32
  %none = icmp eq i32 %left, 0
  br i1 %none, label %empty, label %swap
swap:
  %less = add i64 %t, -1
  %pair = cmpxchg ptr @lw.ticket, i64 %t, i64 %less acq_rel acquire, align 8
  %won = extractvalue { i64, i1 } %pair, 1
  %now = extractvalue { i64, i1 } %pair, 0
  br i1 %won, label %run, label %lost
lost:
  br label %try
run:
  %fn = load ptr, ptr @lw.fn, align 8
  %data = load ptr, ptr @lw.data, align 8
  %n = load i32, ptr @lw.tasks, align 4
  %task = sub i32 %n, %left
  call void %fn(ptr %data, i32 %task, i32 %n)
  %d = atomicrmw add ptr @lw.done, i32 1 release, align 4
  ret i1 true
empty:
  ret i1 false
}

define internal ptr @lw.worker(ptr %arg) {
entry:
  %index = ptrtoint ptr %arg to i32
  br label %work
work:
  ; A worker beyond the limit sleeps on the limit itself, so that wake-ups reach those within it.
  %limit = load atomic i32, ptr @lw.limit seq_cst, align 4
  %over = icmp sge i32 %index, %limit
  br i1 %over, label %bench, label %claim
bench:
  %b = call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr @lw.limit, i32 128, i32 %limit, ptr null, ptr null, i32 0)
  br label %work
claim:
  %ran = call i1 @lw.claim()
  br i1 %ran, label %work, label %spin
spin:
  %s = phi i32 [ 0, %claim ], [ %s1, %again ]
  {PAUSE}
  %t = load atomic i64, ptr @lw.ticket monotonic, align 8
  %left = trunc i64 %t to i32
  %some = icmp ne i32 %left, 0
  br i1 %some, label %work, label %again
again:
  %s1 = add i32 %s, 1
  %tired = icmp sge i32 %s1, {SPIN}
  br i1 %tired, label %park, label %spin
park:
  ; Announce the sleep, then look once more: the launcher publishes, then looks for sleepers.
  %w = load atomic i32, ptr @lw.wake seq_cst, align 4
  %a = atomicrmw add ptr @lw.asleep, i32 1 seq_cst, align 4
  %t2 = load atomic i64, ptr @lw.ticket seq_cst, align 8
  %left2 = trunc i64 %t2 to i32
  %some2 = icmp ne i32 %left2, 0
  br i1 %some2, label %up, label %sleep
sleep:
  %f = call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr @lw.wake, i32 128, i32 %w, ptr null, ptr null, i32 0)
  br label %up
up:
  %u = atomicrmw sub ptr @lw.asleep, i32 1 seq_cst, align 4
  br label %work
}

; Let a worker run on one CPU only.
define internal void @lw.pin(i32 %index, i32 %cpu) noinline cold {
  %one = alloca [128 x i8], align 16
  call void @llvm.memset.p0.i64(ptr align 16 %one, i8 0, i64 128, i1 false)
  %word = lshr i32 %cpu, 6
  %bit = and i32 %cpu, 63
  %wide = zext i32 %bit to i64
  %val = shl i64 1, %wide
  %p = getelementptr i64, ptr %one, i32 %word
  store i64 %val, ptr %p, align 8
  %xp = getelementptr i64, ptr @lw.ids, i32 %index
  %id = load i64, ptr %xp, align 8
  %rc = call i32 @pthread_setaffinity_np(i64 %id, i64 128, ptr %one)
  %cp = getelementptr i32, ptr @lw.cpus, i32 %index
  store i32 %cpu, ptr %cp, align 4
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
  %xp = getelementptr i64, ptr @lw.ids, i32 %index
  store i64 %id, ptr %xp, align 8
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
  store ptr %fn, ptr @lw.fn, align 8
  store ptr %data, ptr @lw.data, align 8
  store i32 %n, ptr @lw.tasks, align 4
  store atomic i32 0, ptr @lw.done monotonic, align 4
  %t0 = load atomic i64, ptr @lw.ticket monotonic, align 8
  %g0 = lshr i64 %t0, 32
  %g1 = add i64 %g0, 1
  %g2 = shl i64 %g1, 32
  %nw = zext i32 %n to i64
  %t1 = or i64 %g2, %nw
  ; An exchange is also the full barrier between publishing and looking for sleepers.
  %was = atomicrmw xchg ptr @lw.ticket, i64 %t1 seq_cst, align 8
  %asleep = load atomic i32, ptr @lw.asleep seq_cst, align 4
  %any = icmp sgt i32 %asleep, 0
  br i1 %any, label %wake, label %work
wake:
  %home = load i32, ptr @lw.home, align 4
  %pinned = icmp sge i32 %home, 0
  br i1 %pinned, label %where, label %ring
where:
  %here = call i32 @sched_getcpu()
  %stayed = icmp eq i32 %here, %home
  br i1 %stayed, label %ring, label %moved
moved:
  call void @lw.follow(i32 %home, i32 %here)
  br label %ring
ring:
  %bump = atomicrmw add ptr @lw.wake, i32 1 seq_cst, align 4
  %others = add i32 %n, -1
  %howmany = call i32 @llvm.smin.i32(i32 %asleep, i32 %others)
  %f = call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr @lw.wake, i32 129, i32 %howmany, ptr null, ptr null, i32 0)
  br label %work
work:
  %ran = call i1 @lw.claim()
  br i1 %ran, label %work, label %wait
wait:
  ; The last tasks run elsewhere. Spin; when it takes long, let others have this CPU now and then.
  %spins = phi i32 [ 0, %work ], [ %spins1, %waiting ]
  %done = load atomic i32, ptr @lw.done acquire, align 4
  %all = icmp eq i32 %done, %n
  br i1 %all, label %release, label %pause
pause:
  {PAUSE}
  %spins1 = add i32 %spins, 1
  %masked = and i32 %spins1, 4095
  %long = icmp eq i32 %masked, 0
  br i1 %long, label %yield, label %waiting
yield:
  %y = call i32 @sched_yield()
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
  %f = call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr @lw.limit, i32 129, i32 2147483647, ptr null, ptr null, i32 0)
  ; Sleepers look at the limit only when woken, and sleep again at once if nothing is to be done.
  %bump = atomicrmw add ptr @lw.wake, i32 1 seq_cst, align 4
  %g = call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr @lw.wake, i32 129, i32 2147483647, ptr null, ptr null, i32 0)
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
  store i64 0, ptr @lw.ticket, align 8
  store i32 0, ptr @lw.done, align 4
  store i32 0, ptr @lw.asleep, align 4
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

declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.smax.i32(i32, i32)
declare i64 @llvm.ctpop.i64(i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""

# %lw.arena: base, capacity, top, last block's offset (-1: none), peak, bytes live outside.
# A block's header (64 bytes before it): arena or null, previous block's offset, freed, size.
_WORKSPACE = """
%lw.arena = type { ptr, i64, i64, i64, i64, i64 }
%lw.block = type { ptr, i64, i64, i64 }

@lw.key       = internal global i32 0, align 4
@lw.key_state = internal global i32 0, align 4

declare i32 @pthread_key_create(ptr, ptr)
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare noalias ptr @aligned_alloc(i64, i64)
declare noalias ptr @calloc(i64, i64)
declare void @free(ptr)
declare i64 @llvm.smax.i64(i64, i64)
declare i32 @madvise(ptr, i64, i32)

define internal void @lw.arena_drop(ptr %a) {
  %base = load ptr, ptr %a, align 8
  call void @free(ptr %base)
  call void @free(ptr %a)
  ret void
}

; This thread's arena, made when first asked for; null when memory is out.
define internal ptr @lw.arena_new() noinline cold {
entry:
  %state = cmpxchg ptr @lw.key_state, i32 0, i32 1 acq_rel acquire, align 4
  %first = extractvalue { i32, i1 } %state, 1
  br i1 %first, label %make_key, label %await
make_key:
  %rc = call i32 @pthread_key_create(ptr @lw.key, ptr @lw.arena_drop)
  %ok = icmp eq i32 %rc, 0
  %next = select i1 %ok, i32 2, i32 3
  store atomic i32 %next, ptr @lw.key_state release, align 4
  br label %await
await:
  %now = load atomic i32, ptr @lw.key_state acquire, align 4
  switch i32 %now, label %await [ i32 2, label %ready
                                  i32 3, label %none ]
ready:
  %key = load i32, ptr @lw.key, align 4
  %a = call ptr @calloc(i64 1, i64 48)
  %got = icmp ne ptr %a, null
  br i1 %got, label %keep, label %none
keep:
  %lp = getelementptr %lw.arena, ptr %a, i32 0, i32 3
  store i64 -1, ptr %lp, align 8
  %s = call i32 @pthread_setspecific(i32 %key, ptr %a)
  ret ptr %a
none:
  ret ptr null
}

; Make the empty arena hold at least %need bytes; false when memory is out.
define internal i1 @lw.arena_grow(ptr %a, i64 %need) noinline cold {
entry:
  %pp = getelementptr %lw.arena, ptr %a, i32 0, i32 4
  %peak = load i64, ptr %pp, align 8
  %m0 = call i64 @llvm.smax.i64(i64 %need, i64 %peak)
  %m1 = call i64 @llvm.smax.i64(i64 %m0, i64 65536)
  %big = icmp sge i64 %m1, 4194304
  %round = select i1 %big, i64 2097152, i64 4096
  %r1 = sub i64 %round, 1
  %up = add i64 %m1, %r1
  %inv = sub i64 0, %round
  %size = and i64 %up, %inv
  %base = load ptr, ptr %a, align 8
  call void @free(ptr %base)
  %new = call ptr @aligned_alloc(i64 %round, i64 %size)
  store ptr %new, ptr %a, align 8
  %got = icmp ne ptr %new, null
  %cap = select i1 %got, i64 %size, i64 0
  %cp = getelementptr %lw.arena, ptr %a, i32 0, i32 1
  store i64 %cap, ptr %cp, align 8
  %advise = and i1 %got, %big
  br i1 %advise, label %huge, label %exit
huge:
  {MADVISE}
  br label %exit
exit:
  ret i1 %got
}

define noalias ptr @lw_workspace_alloc(i64 %bytes) {
entry:
  %b63 = add i64 %bytes, 127
  %size = and i64 %b63, -64
  %state = load atomic i32, ptr @lw.key_state acquire, align 4
  %keyed = icmp eq i32 %state, 2
  br i1 %keyed, label %lookup, label %fresh
lookup:
  %key = load i32, ptr @lw.key, align 4
  %mine = call ptr @pthread_getspecific(i32 %key)
  %known = icmp ne ptr %mine, null
  br i1 %known, label %have, label %fresh
fresh:
  %made = call ptr @lw.arena_new()
  %ok = icmp ne ptr %made, null
  br i1 %ok, label %have, label %outside_plain
have:
  %a = phi ptr [ %mine, %lookup ], [ %made, %fresh ]
  %cp = getelementptr %lw.arena, ptr %a, i32 0, i32 1
  %tp = getelementptr %lw.arena, ptr %a, i32 0, i32 2
  %lp = getelementptr %lw.arena, ptr %a, i32 0, i32 3
  %pp = getelementptr %lw.arena, ptr %a, i32 0, i32 4
  %op = getelementptr %lw.arena, ptr %a, i32 0, i32 5
  %top = load i64, ptr %tp, align 8
  %after = add i64 %top, %size
  %out = load i64, ptr %op, align 8
  %total = add i64 %after, %out
  %peak = load i64, ptr %pp, align 8
  %peak1 = call i64 @llvm.smax.i64(i64 %peak, i64 %total)
  store i64 %peak1, ptr %pp, align 8
  %cap = load i64, ptr %cp, align 8
  %last = load i64, ptr %lp, align 8
  %empty = icmp eq i64 %last, -1
  %small = icmp slt i64 %cap, %peak1
  %grow = and i1 %empty, %small
  br i1 %grow, label %enlarge, label %fits
enlarge:
  %grown = call i1 @lw.arena_grow(ptr %a, i64 %size)
  br i1 %grown, label %take, label %outside
fits:
  %room = icmp sle i64 %after, %cap
  br i1 %room, label %take, label %outside
take:
  %base = load ptr, ptr %a, align 8
  %block = getelementptr i8, ptr %base, i64 %top
  store ptr %a, ptr %block, align 8
  %bp = getelementptr %lw.block, ptr %block, i32 0, i32 1
  store i64 %last, ptr %bp, align 8
  %bf = getelementptr %lw.block, ptr %block, i32 0, i32 2
  store i64 0, ptr %bf, align 8
  store i64 %top, ptr %lp, align 8
  store i64 %after, ptr %tp, align 8
  %p = getelementptr i8, ptr %block, i64 64
  ret ptr %p
outside:
  %out1 = add i64 %out, %size
  store i64 %out1, ptr %op, align 8
  br label %outside_plain
outside_plain:
  %owner = phi ptr [ null, %fresh ], [ %a, %outside ]
  %raw = call ptr @aligned_alloc(i64 64, i64 %size)
  %got = icmp ne ptr %raw, null
  br i1 %got, label %mark, label %fail
mark:
  store ptr null, ptr %raw, align 8
  %rp = getelementptr %lw.block, ptr %raw, i32 0, i32 1
  %oi = ptrtoint ptr %owner to i64
  store i64 %oi, ptr %rp, align 8
  %rs = getelementptr %lw.block, ptr %raw, i32 0, i32 3
  store i64 %size, ptr %rs, align 8
  %q = getelementptr i8, ptr %raw, i64 64
  ret ptr %q
fail:
  ret ptr null
}

define void @lw_workspace_free(ptr %p) {
entry:
  %nothing = icmp eq ptr %p, null
  br i1 %nothing, label %exit, label %some
some:
  %block = getelementptr i8, ptr %p, i64 -64
  %a = load ptr, ptr %block, align 8
  %inside = icmp ne ptr %a, null
  br i1 %inside, label %pop, label %outside
pop:
  %bf = getelementptr %lw.block, ptr %block, i32 0, i32 2
  store i64 1, ptr %bf, align 8
  %tp = getelementptr %lw.arena, ptr %a, i32 0, i32 2
  %lp = getelementptr %lw.arena, ptr %a, i32 0, i32 3
  %base = load ptr, ptr %a, align 8
  %last0 = load i64, ptr %lp, align 8
  br label %look
look:
  ; Take off every freed block at the top of the stack.
  %last = phi i64 [ %last0, %pop ], [ %prev, %off ]
  %done = icmp eq i64 %last, -1
  br i1 %done, label %exit, label %peek
peek:
  %lb = getelementptr i8, ptr %base, i64 %last
  %ff = getelementptr %lw.block, ptr %lb, i32 0, i32 2
  %freed = load i64, ptr %ff, align 8
  %isfree = icmp ne i64 %freed, 0
  br i1 %isfree, label %off, label %exit
off:
  %pf = getelementptr %lw.block, ptr %lb, i32 0, i32 1
  %prev = load i64, ptr %pf, align 8
  store i64 %prev, ptr %lp, align 8
  store i64 %last, ptr %tp, align 8
  br label %look
outside:
  %rp = getelementptr %lw.block, ptr %block, i32 0, i32 1
  %oi = load i64, ptr %rp, align 8
  %owned = icmp ne i64 %oi, 0
  br i1 %owned, label %settle, label %drop
settle:
  %owner = inttoptr i64 %oi to ptr
  %op = getelementptr %lw.arena, ptr %owner, i32 0, i32 5
  %rs = getelementptr %lw.block, ptr %block, i32 0, i32 3
  %size = load i64, ptr %rs, align 8
  %out = load i64, ptr %op, align 8
  %out1 = sub i64 %out, %size
  store i64 %out1, ptr %op, align 8
  br label %drop
drop:
  call void @free(ptr %block)
  br label %exit
exit:
  ret void
}
"""

# MADV_HUGEPAGE: large activations otherwise pay for a page fault and a TLB entry every 4 KiB.
_MADVISE = "%adv = call i32 @madvise(ptr %new, i64 %size, i32 14)"
