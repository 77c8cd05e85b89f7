"""Threads for large nests: a pool that runs the chunks of one nest at a time.

A nest is cut into chunks by its size alone, never by the number of threads, and partial results are
combined in the order of the chunks, so results do not depend on how many threads there are.  The
workers are daemon threads that wait in native code, without the GIL.  A call that finds the pool at
work, or that may use one thread only, runs its chunks itself.  A forked child starts with an empty pool.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading

from . import jit

CHUNK = 40.0  # microseconds of work that a chunk should hold
LEAST = 150.0  # microseconds of work from which threads pay
MOST = 64  # chunks of a nest

TEXT = """
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_cond_signal(ptr)
declare void @llvm.x86.sse2.pause()

%pool = type { [8 x i64], [8 x i64], [8 x i64], i64, i64, ptr, ptr, i64, i64, i64, i64, i64 }

define internal void @chunks(ptr %p, ptr %f, ptr %context, i64 %total) {
entry:
  %next = getelementptr %pool, ptr %p, i32 0, i32 8
  br label %more
more:
  %c = atomicrmw add ptr %next, i64 1 seq_cst
  %some = icmp ult i64 %c, %total
  br i1 %some, label %one, label %done
one:
  call void %f(ptr %context, i64 %c)
  br label %more
done:
  ret void
}

define void @parallel(ptr %p, ptr %f, ptr %context, i64 %total, i64 %limit) {
entry:
  %busy = getelementptr %pool, ptr %p, i32 0, i32 3
  %cond.work = getelementptr %pool, ptr %p, i32 0, i32 1
  %cond.done = getelementptr %pool, ptr %p, i32 0, i32 2
  %open = getelementptr %pool, ptr %p, i32 0, i32 4
  %pf = getelementptr %pool, ptr %p, i32 0, i32 5
  %pc = getelementptr %pool, ptr %p, i32 0, i32 6
  %pt = getelementptr %pool, ptr %p, i32 0, i32 7
  %next = getelementptr %pool, ptr %p, i32 0, i32 8
  %active = getelementptr %pool, ptr %p, i32 0, i32 9
  %seq = getelementptr %pool, ptr %p, i32 0, i32 10
  %plimit = getelementptr %pool, ptr %p, i32 0, i32 11
  %help = icmp ugt i64 %limit, 1
  br i1 %help, label %ask, label %alone
ask:
  %was = atomicrmw xchg ptr %busy, i64 1 seq_cst
  %free = icmp eq i64 %was, 0
  br i1 %free, label %submit, label %alone
alone:
  %i = phi i64 [ 0, %entry ], [ 0, %ask ], [ %i.next, %alone.one ]
  %i.more = icmp ult i64 %i, %total
  br i1 %i.more, label %alone.one, label %return
alone.one:
  call void %f(ptr %context, i64 %i)
  %i.next = add i64 %i, 1
  br label %alone
submit:
  %l1 = call i32 @pthread_mutex_lock(ptr %p)
  store ptr %f, ptr %pf
  store ptr %context, ptr %pc
  store i64 %total, ptr %pt
  store i64 %limit, ptr %plimit
  store atomic i64 0, ptr %next seq_cst, align 8
  store i64 1, ptr %open
  %s = atomicrmw add ptr %seq, i64 1 seq_cst
  %b = call i32 @pthread_cond_broadcast(ptr %cond.work)
  %u1 = call i32 @pthread_mutex_unlock(ptr %p)
  call void @chunks(ptr %p, ptr %f, ptr %context, i64 %total)
  br label %spin
spin:
  %n = phi i64 [ 0, %submit ], [ %n.next, %spin.more ]
  %a = load atomic i64, ptr %active seq_cst, align 8
  %quiet = icmp eq i64 %a, 0
  br i1 %quiet, label %close, label %spin.on
spin.on:
  %patient = icmp ult i64 %n, 4000
  br i1 %patient, label %spin.more, label %close
spin.more:
  PAUSE
  %n.next = add i64 %n, 1
  br label %spin
close:
  %l2 = call i32 @pthread_mutex_lock(ptr %p)
  store i64 0, ptr %open
  br label %wait
wait:
  %a2 = load atomic i64, ptr %active seq_cst, align 8
  %left = icmp ne i64 %a2, 0
  br i1 %left, label %sleep, label %finish
sleep:
  %w = call i32 @pthread_cond_wait(ptr %cond.done, ptr %p)
  br label %wait
finish:
  %u2 = call i32 @pthread_mutex_unlock(ptr %p)
  store atomic i64 0, ptr %busy seq_cst, align 8
  ret void
return:
  ret void
}

define void @worker(ptr %p) {
entry:
  %cond.work = getelementptr %pool, ptr %p, i32 0, i32 1
  %cond.done = getelementptr %pool, ptr %p, i32 0, i32 2
  %open = getelementptr %pool, ptr %p, i32 0, i32 4
  %pf = getelementptr %pool, ptr %p, i32 0, i32 5
  %pc = getelementptr %pool, ptr %p, i32 0, i32 6
  %pt = getelementptr %pool, ptr %p, i32 0, i32 7
  %active = getelementptr %pool, ptr %p, i32 0, i32 9
  %seq = getelementptr %pool, ptr %p, i32 0, i32 10
  %plimit = getelementptr %pool, ptr %p, i32 0, i32 11
  br label %idle
idle:
  %seen = phi i64 [ 0, %entry ], [ %now, %after ]
  br label %spin
spin:
  %n = phi i64 [ 0, %idle ], [ %n.next, %spin.more ]
  %s = load atomic i64, ptr %seq seq_cst, align 8
  %new = icmp ne i64 %s, %seen
  br i1 %new, label %enter, label %spin.on
spin.on:
  %patient = icmp ult i64 %n, 2000
  br i1 %patient, label %spin.more, label %enter
spin.more:
  PAUSE
  %n.next = add i64 %n, 1
  br label %spin
enter:
  %l = call i32 @pthread_mutex_lock(ptr %p)
  br label %check
check:
  %o = load i64, ptr %open
  %now = load atomic i64, ptr %seq seq_cst, align 8
  %c1 = icmp ne i64 %o, 0
  %c2 = icmp ne i64 %now, %seen
  %limit = load i64, ptr %plimit
  %at.work = load atomic i64, ptr %active seq_cst, align 8
  %with.me = add i64 %at.work, 2
  %c3 = icmp ule i64 %with.me, %limit
  %c12 = and i1 %c1, %c2
  %go = and i1 %c12, %c3
  br i1 %go, label %work, label %sleep
sleep:
  %w = call i32 @pthread_cond_wait(ptr %cond.work, ptr %p)
  br label %check
work:
  %up = atomicrmw add ptr %active, i64 1 seq_cst
  %f = load ptr, ptr %pf
  %context = load ptr, ptr %pc
  %total = load i64, ptr %pt
  %u = call i32 @pthread_mutex_unlock(ptr %p)
  call void @chunks(ptr %p, ptr %f, ptr %context, i64 %total)
  %l3 = call i32 @pthread_mutex_lock(ptr %p)
  %down = atomicrmw sub ptr %active, i64 1 seq_cst
  %last = icmp eq i64 %down, 1
  br i1 %last, label %tell, label %after
tell:
  %d = call i32 @pthread_cond_signal(ptr %cond.done)
  br label %after
after:
  %u3 = call i32 @pthread_mutex_unlock(ptr %p)
  br label %idle
}
"""

POOL = ctypes.create_string_buffer(1024)  # zeros are unlocked locks under glibc
_started: list[threading.Thread] = []
_lock = threading.Lock()


@functools.lru_cache(None)
def count() -> int:
    """Threads that a nest may use, the caller's included."""
    if not sys.platform.startswith("linux"):
        return 1
    return min(len(os.sched_getaffinity(0)), 32)


@functools.lru_cache(None)
def code() -> tuple:
    """(address of `parallel`, address of `worker`, what holds the code)."""
    x86 = jit.target().machine.triple.startswith("x86_64")
    text = TEXT.replace("PAUSE", "call void @llvm.x86.sse2.pause()" if x86 else "fence seq_cst")
    if not x86:
        text = text.replace("declare void @llvm.x86.sse2.pause()\n", "")
    with jit.LOCK:
        module = jit.optimise(text)
        tracker = jit.link(jit.target().machine.emit_object(module), "threads", "parallel", "worker")
        module.close()
    return tracker["parallel"], tracker["worker"], tracker


def start() -> None:
    """Starts the workers of this process."""
    with _lock:
        if _started or count() == 1:
            return
        run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code()[1])
        for k in range(count() - 1):
            worker = threading.Thread(
                target=run, args=(ctypes.addressof(POOL),), name=f"rune-{k}", daemon=True
            )
            worker.start()
            _started.append(worker)


def forget() -> None:
    """In a forked child: the workers are gone, and the pool must not wait for them."""
    global _lock
    _lock = threading.Lock()
    ctypes.memset(POOL, 0, len(POOL))
    restart = bool(_started)
    _started.clear()
    if restart:
        start()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)


def pointer(name: str) -> int:
    """What a program reads through its externs: the pool, or the function that runs chunks on it."""
    if name == "pool":
        start()
        return ctypes.addressof(POOL)
    return code()[0]


def chunks(n: int, work: float) -> tuple[int, int] | None:
    """(number of chunks, size of one) for n outer iterations of `work` microseconds in all, or None.

    It does not ask how many threads there are: one thread adds the same partial results.
    """
    if work < LEAST or n < 2:
        return None
    step = max(1, round(n * CHUNK / work), -(-n // MOST))
    if n > 4096:
        step = -(-step // 64) * 64
    number = -(-n // step)
    return (number, step) if number > 1 else None
