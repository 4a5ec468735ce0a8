"""Compiling and loading LLVM text: levels, targets, errors, processes."""

import ctypes
import gc
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from loopwright.codegen.llvm import compiler, jit, machine, workers
from loopwright.codegen.llvm.cache import ObjectCache

SQUARE = """
define i32 @square(i32 %x) {
  %slot = alloca i32
  store i32 %x, ptr %slot
  %y = load i32, ptr %slot
  %z = mul i32 %y, %y
  ret i32 %z
}
"""
INT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


def constant(value: int, padding: int = 0) -> str:
    lines = "".join(f"  %p{i} = add i32 {i}, {value}\n" for i in range(padding))
    return f"define i32 @f{value}(i32 %x) {{\n{lines}  ret i32 {value}\n}}\n"


@pytest.mark.parametrize("opt", compiler.LEVELS)
def test_every_level_computes_the_same(opt):
    library = jit.load_objects([jit.compile_object(SQUARE, opt=opt)], exports=["square"])
    assert INT(library["square"])(7) == 49
    assert ("alloca" in jit.optimized_ir(SQUARE, opt=opt)) == (opt == "none")


@pytest.mark.parametrize("opt", compiler.LEVELS)
def test_every_level_sums_the_same(opt):
    rng = np.random.default_rng(0)
    image, weight = (rng.integers(-4, 5, s).astype(np.int32) for s in ((2, 7, 6), (4, 2, 2, 2)))
    sums = np.zeros((4, 8, 7), np.int32)
    text = Path(__file__).with_name("padded_conv.ll").read_text()
    library = jit.load_objects([jit.compile_object(text, opt=opt)], exports=["conv"])
    conv = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)
    conv(library["conv"])(image.ctypes.data, weight.ctypes.data, sums.ctypes.data)
    parts = [(u, v) for u in range(2) for v in range(2)]
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)))
    at = lambda u, v: padded[:, u : u + 8, v : v + 7]  # noqa: E731
    wanted = sum(np.einsum("cyx,oc->oyx", at(u, v), weight[:, :, u, v]) for u, v in parts)
    assert (sums == wanted).all()


def test_assembly_is_readable():
    text = jit.assembly(SQUARE)
    assert "square:" in text
    if platform.machine() == "x86_64":
        assert "imul" in text


@pytest.mark.parametrize(
    "triple, magic",
    [
        ("aarch64-linux-gnu", b"\x7fELF"),
        ("riscv64-linux-gnu", b"\x7fELF"),
        ("arm64-apple-macosx", b"\xcf\xfa\xed\xfe"),
        ("wasm32-unknown-unknown", b"\0asm"),
    ],
)
def test_other_targets(triple, magic):
    assert jit.compile_object(SQUARE, triple).startswith(magic)


def test_the_host_is_described():
    assert machine.resolve(None, "native", None) == machine.resolve(None, None, None)
    assert machine.resolve("wasm32", None, None) == ("wasm32", "", "")


def test_errors_name_the_function_and_the_line():
    with pytest.raises(jit.CompileError, match="in `square`, line 6"):
        jit.compile_object(SQUARE.replace("%z = mul i32 %y, %y", "%z = mul i64 %y, %y"))
    swapped = "define i32 @f(i1 %c) {\n  br i1 %c, label %a, label %b\na:\n  %x = add i32 1, 2\n"
    swapped += "  br label %b\nb:\n  ret i32 %x\n}\n"
    with pytest.raises(jit.CompileError, match="refuses the module.*dominate"):
        jit.compile_object(swapped.replace("\n\n", "\n"), verify=True)
    with pytest.raises(ValueError, match="opt must be one of none, short, O1, O2, O3, got 'O9'"):
        jit.compile_object(SQUARE, opt="O9")


def test_objects_meet_each_other_and_given_symbols():
    user = "declare i32 @square(i32)\ndeclare i32 @outside(i32)\n"
    user += "define i32 @both(i32 %x) {\n  %a = call i32 @square(i32 %x)\n"
    user += "  %b = call i32 @outside(i32 %a)\n  ret i32 %b\n}\n"
    outside = INT(lambda x: x + 1)
    address = ctypes.cast(outside, ctypes.c_void_p).value
    objects = [jit.compile_object(t) for t in (user, SQUARE)]
    library = jit.load_objects(objects, {"outside": address}, ["both"])
    assert INT(library["both"])(5) == 26
    with pytest.raises(jit.CompileError, match=r"nothing defines outside\n.*libraries="):
        jit.load_objects(objects, exports=["both"])
    with pytest.raises(ValueError, match="'outside' has a null address"):
        jit.load_objects(objects, {"outside": 0}, ["both"])


def test_libraries_do_not_share_names():
    one, two = (
        jit.load_objects([jit.compile_object(constant(v).replace(f"f{v}", "f"))], exports=["f"])
        for v in (1, 2)
    )
    assert (INT(one["f"])(0), INT(two["f"])(0)) == (1, 2)


@pytest.mark.slow
def test_many_modules_in_processes():
    workers.close_workers()  # those of earlier tests
    texts = [constant(i, padding=3000) for i in range(8)]
    objects = jit.compile_objects(texts, jobs=2, cache=ObjectCache(None), opt="none")
    assert len(workers._idle) == 2, "enough text for two"
    names = [f"f{i}" for i in range(8)]
    library = jit.load_objects(objects, exports=names)
    assert [INT(library[n])(0) for n in names] == list(range(8))
    with pytest.raises(jit.CompileError, match="in `broken`"):
        broken = "define i32 @broken() {\n  ret i64 %x\n}\n"
        jit.compile_objects([*texts, broken], jobs=2, cache=ObjectCache(None), opt="none")
    workers._idle[0].process.kill()  # a worker that dies costs nothing but time
    again = jit.compile_objects(texts, jobs=2, cache=ObjectCache(None), opt="none")
    assert again == objects


def test_compiled_while_others_are_written():
    texts = [constant(i, padding=3000) for i in range(8)]
    with jit.ObjectStream(jobs=2, cache=ObjectCache(None)) as stream:
        keys = [stream.add(text, "none") for text in [*texts, texts[0]]]
        assert stream._threads, "enough text for a worker, before the last is there"
        made = stream.finish()
    assert keys[8] == keys[0] and len(made) == 8
    assert [made[k] for k in keys[:8]] == [jit.compile_object(t, opt="none") for t in texts]
    stream = jit.ObjectStream(jobs=2, cache=ObjectCache(None))
    with pytest.raises(RuntimeError, match="in between"), stream:
        for text in texts:
            stream.add(text, "none")
        raise RuntimeError("in between")
    for thread in stream._threads:
        thread.join(30)
        assert not thread.is_alive(), "nobody waits for modules that never come"


@pytest.mark.parametrize(("limit", "threads"), [(6, 2), (7, 1)])
def test_text_is_enough_for_more_workers(monkeypatch, limit, threads):
    """Two modules of three lines each: six lines."""
    monkeypatch.setattr(jit, "_PARALLEL_LINES", limit)
    texts = [constant(k) for k in range(2)]
    assert [t.count("\n") for t in texts] == [3, 3]
    with jit.ObjectStream(jobs=2, cache=ObjectCache(None)) as stream:
        for text in texts:
            stream.add(text, "none")
        assert len(stream._threads) == threads
        assert len(stream.finish()) == 2


# NewGVN ends the process on it: too many accumulators that are all zero at the start.
ACCUMULATORS = (
    "define void @f(ptr %p, i64 %n) {\nentry:\n  br label %loop\nloop:\n"
    "  %i = phi i64 [0, %entry], [%next, %loop]\n"
    + "".join(f"  %a{k} = phi i64 [0, %entry], [%b{k}, %loop]\n" for k in range(120))
    + "".join(f"  %b{k} = add i64 %a{k}, %a{(k + 1) % 120}\n" for k in range(120))
    + "  %next = add i64 %i, 1\n  %more = icmp slt i64 %next, %n\n"
    "  br i1 %more, label %loop, label %end\nend:\n  store i64 %b0, ptr %p\n  ret void\n}\n"
)


def test_llvm_may_end_its_process():
    assert jit.load_objects([jit.compile_object(ACCUMULATORS)], exports=["f"])["f"]
    bad = "declare i32 @llvm.amdgcn.workitem.id.x()\ndefine i32 @g() {\n"
    bad += "  %x = call i32 @llvm.amdgcn.workitem.id.x()\n  ret i32 %x\n}\n"
    with pytest.raises(jit.CompileError, match=r"no instruction for llvm\.amdgcn(?s:.)*LLVM ERROR"):
        jit.compile_object(bad)


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        ((None, "skylakeX", None), "no such processor\n  got: 'skylakeX' for .*did you mean skyl"),
        (("x86_64-linux-gnu", "cortex-a72", None), "no such processor"),
        (("aarch64-linux-gnu", "cortex-a72", "+avx"), "no such feature\n  got: 'avx'"),
        (("nonsense-linux-gnu", None, None), "unknown target triple\n  got: 'nonsense-linux-gnu'"),
    ],
)
def test_unknown_machines(machine, message):
    with pytest.raises(jit.CompileError, match=f"(?s){message}"):
        jit.compile_object(SQUARE, *machine)


def test_one_level_each():
    a, b = jit.compile_objects([SQUARE, SQUARE], opt=["none", "O1"], cache=ObjectCache(None))
    assert a == jit.compile_object(SQUARE, opt="none") and b == jit.compile_object(SQUARE, opt="O1")
    with pytest.raises(ValueError, match="1 optimisation levels for 2 modules"):
        jit.compile_objects([SQUARE, SQUARE], opt=["none"])


def test_a_forked_child_compiles_on_its_own():
    texts = [constant(i, padding=3000) for i in range(8)]
    jit.compile_objects(texts, jobs=2, cache=ObjectCache(None), opt="none")
    child = os.fork()
    if child == 0:
        made = jit.compile_objects(texts, jobs=2, cache=ObjectCache(None), opt="none")
        os._exit(0 if len(made) == 8 else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="it fills gaps with mmap as Linux does")
def test_code_and_its_constants_are_near_where_memory_has_gaps():
    """A page is free above 6 GiB that are in use, and nothing else but what is below."""
    script = f"""
import ctypes, mmap
from loopwright.codegen.llvm import jit
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

def reserved(size):
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return libc.mmap(None, size, 0, flags, -1, 0)

text = {FAR!r}
data = jit.compile_object(text)
jit.load_objects([data], exports=["f"])  # the engine is there
big, page = reserved(6 << 30), mmap.PAGESIZE
while (last := reserved(page)) > big:
    free = last
libc.munmap(free, page)
library = jit.load_objects([data], exports=["f"])
print(ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_long)(library["f"])(700))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, "700.5\n"), ran.stderr[-2000:]


FAR = (
    "@t = private constant [1024 x double] ["
    + ", ".join(f"double {k}.5" for k in range(1024))
    + """]
define double @f(i64 %i) {
  %p = getelementptr [1024 x double], ptr @t, i64 0, i64 %i
  %v = load double, ptr %p
  ret double %v
}
"""
)


@pytest.mark.slow
def test_what_the_first_compilation_leaves_is_not_looked_at(monkeypatch):
    monkeypatch.setattr(jit, "_looked_at", False)
    old, frozen = [], gc.get_freeze_count()
    gc.unfreeze()  # what other tests froze
    for _ in range(2):
        gc.collect()
        with jit.gc_paused():
            left = [[] for _ in range(3)]
        old.append({id(o) for o in gc.get_objects(generation=2)} >= set(map(id, left)))
        assert gc.isenabled() and not gc.get_freeze_count()
    assert old == [True, False]
    if frozen:
        gc.freeze()
