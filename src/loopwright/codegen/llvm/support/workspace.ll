; The workspace: memory for the intermediate results of kernels.
;
;   ptr @lw_workspace_alloc(i64 bytes)
;       Memory of the calling thread, aligned to 64 bytes; null when memory is out or `bytes`
;       exceeds 2**47.
;   void @lw_workspace_free(ptr p)
;       Give it back, by the same thread; the latest first is cheapest. Null is ignored.
;
; Kernels and graph functions call them. Each thread keeps an arena, grown between uses to the most
; that was ever live, so a steady state allocates by moving a pointer and reuses warm pages. What does
; not fit comes from `aligned_alloc`.

; base, capacity, top, offset of the last block (-1: none), peak, bytes live outside.
%lw.arena = type { ptr, i64, i64, i64, i64, i64 }
; The 64 bytes before a block: its arena or null, offset of the block before it (outside: the owner),
; whether it was freed, its size.
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
declare void @lw.huge_pages(ptr, i64)

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
  call void @lw.huge_pages(ptr %new, i64 %size)
  br label %exit
exit:
  ret i1 %got
}

define noalias align 64 ptr @lw_workspace_alloc(i64 %bytes) {
start:
  %large = icmp ugt i64 %bytes, 140737488355328
  br i1 %large, label %fail, label %entry
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
  %new = call ptr @lw.arena_new()
  %ok = icmp ne ptr %new, null
  br i1 %ok, label %have, label %outside_plain
have:
  %a = phi ptr [ %mine, %lookup ], [ %new, %fresh ]
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
