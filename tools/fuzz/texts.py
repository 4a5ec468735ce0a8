"""Hostile programs as text, and target strings.

A text is read, or refused with an error of ours; nothing in it runs, and it takes at most 5 s.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import sys
import tempfile
import time
import tokenize
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import loopwright as lw
from loopwright.ir.target import KINDS
from loopwright.relax.transform import LegalizeOps
from loopwright.script import from_source
from loopwright.script import tir as T
from tests.tir.schedule.families import random_program

from .files import SECONDS, clear
from .judge import Outcome
from .relax_graphs import relax_case
from .relax_module import to_module
from .report import FAULTS, Report
from .workers import Limits, Pool

BASES = 24
ESCAPES = """
__import__('os').system('true')
open('escaped', 'w')
().__class__.__base__.__subclasses__()
[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == 'Popen'][0]('true')
(lambda: __import__('subprocess').run('true'))()
T.prim_func.__init__.__globals__['__builtins__']['__import__']('os').system('true')
T.prim_func.__class__._apply.__globals__['os'].system('true')
lw.base.config.os.system('true')
lw.runtime.c_compiler.subprocess.run('true')
lw.runtime.c_compiler.run_tool(['true'])
loopwright.compile
loopwright.runtime.register_func('x', print, override=True)
I.__loader__.load_module('os')
T.__builtins__
getattr(T, '__builtins__')
eval('1')
exec('import os')
compile('1', 'a', 'eval')
globals()
vars(T)
type('X', (), {})
print('x')
breakpoint()
exit(3)
quit()
f'{T.__class__.__mro__}'
'{0.__class__}'.format(T)
'a' * 10**10
[0] * 10**10
9**9**9**9
1 << 10**12
10**400
1e999
-(2**70)
[x for x in range(10**10)]
sum(range(10**10))
list(range(10**9))
(x := 3)
(yield)
lambda: 0
...
{}
T.evaluate(T.call_packed('runtime.SystemLib'))
T.call_extern('int32', 'system', 'true')
T.float32('nan')
T.int32(2**40)
T.Buffer((2**62, 2**62), 'float32')
T.handle
T.bool(T.bool)
R.Tensor(('n', 'n * (', 2), 'float32')
R.Tensor(("__import__('os').system('true')",), 'float32')
R.call_packed('x', sinfo_args=R.Object)
metadata['relax.expr.Constant'][10**9]
metadata['__class__']
I.GlobalVar('\\0')
T.meta_var
""".strip().split("\n")
STATEMENTS = """
import os
from os import system
from . import x
while True: pass
while 1: break
raise ValueError
assert False
del T
global T
nonlocal T
return
return T
class A(metaclass=print): pass
def f(x=print('x')): pass
async def f(): pass
with open('escaped', 'w') as f: pass
try: pass
T = 3
T.prim_func = 3
T.x, I.y = 3, 4
x: int = 3
x += 1
for T in range(3): pass
for i in range(2**62): x = i
for i in T.thread_binding(2**40, 'threadIdx.x'): pass
@print
match T:
lambda: 0
""".strip("\n").split("\n")
NAMES = [
    "T",
    "I",
    "R",
    "n",
    "i",
    "self",
    "cls",
    "range",
    "True",
    "None",
    "int64",
    "float32",
    "__class__",
    "__dict__",
    "script",
    "x" * 3000,
]
NUMBERS = [
    "0",
    "1",
    "-1",
    "2147483648",
    "9223372036854775808",
    "1e999",
    "0x1p",
    "10**400",
    "1_0",
    "3j",
    "08",
]
STRINGS = ["''", "'float33'", "'int0'", "'int9999999999'", "'\\0'", "'float32x0'", "'void'", "'handle'", "b'x'", "'é' 'x'", "'n +'", "'NCHW0c'", "'" + "(" * 500 + "'"]  # fmt: skip


@lru_cache(BASES)
def base(number: int) -> str:
    """One of some valid programs."""
    if number % 3 == 0:
        return lw.ir.IRModule({"main": random_program(random.Random(number)).func}).script()
    mod = to_module(relax_case(number))
    return (LegalizeOps()(mod) if number % 3 == 1 else mod).script()


def text(seed: int) -> str:
    """The text of a seed: a valid one with some tokens changed."""
    rng = random.Random(seed)
    if rng.random() < 0.02:
        return rng.choice(ABSURD)()
    source = base(rng.randrange(BASES))
    for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
        source = changed(rng, source)
    return source


def changed(rng: random.Random, source: str) -> str:
    """One token or line changed."""
    if rng.random() < 0.15:
        lines = source.split("\n")
        at = rng.randrange(len(lines))
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        new = rng.choice([*STATEMENTS, *ESCAPES, rng.choice(lines).strip()])
        lines[at : at + rng.choice([0, 0, 1])] = [indent + new]
        return "\n".join(lines)
    try:
        tokens = [
            t for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.string.strip()
        ]
    except (tokenize.TokenError, SyntaxError, ValueError):
        tokens = []
    if not tokens:
        return source[: rng.randrange(len(source) + 1)]
    token = rng.choice(tokens)
    pool = {tokenize.NAME: NAMES, tokenize.NUMBER: NUMBERS, tokenize.STRING: STRINGS}.get(token.type, [",", ".", "(", ")", "*", "**", ":", "=", "@", "%", "//", "<", "->", "[", "]"])  # fmt: skip
    same = [t.string for t in tokens if t.type == token.type]
    new = rng.choice(
        [
            rng.choice(pool),
            rng.choice(same),
            rng.choice(same),
            "",
            token.string * 2,
            rng.choice(ESCAPES),
        ]
    )
    lines = source.split("\n")
    (row, start), (last, end) = token.start, token.end
    if row != last:
        return source
    lines[row - 1] = lines[row - 1][:start] + new + lines[row - 1][end:]
    return "\n".join(lines)


def _function(body: str, more: str = "") -> str:
    return f"@T.prim_func\ndef f(A: T.Buffer((8,), 'float32'){more}):\n{body}\n"


def _loops(count: int) -> str:
    lines = [" " * (k + 1) + f"for i{k} in range(2):" for k in range(count)]
    return _function("\n".join([*lines, " " * (count + 1) + "A[0] = 1.0"]))


ABSURD: list[Callable[[], str]] = [
    lambda: _function("    A[0] = " + "(" * 3000 + "1.0" + ")" * 3000),
    lambda: _function("    A[0] = " + "1.0 + " * 20000 + "1.0"),
    lambda: _function("    A[0] = " + "-" * 5000 + "1.0"),
    lambda: _function("    A[0] = A" + "[0]" * 2000),
    lambda: _function("    A[0] = T" + ".x" * 5000),
    lambda: _loops(90),
    lambda: _function("    A[0] = 1.0\n" * 20000),
    lambda: _function("    A[0] = 1.0", "".join(f", a{k}: T.int32" for k in range(5000))),
    lambda: "I" * 10**6,
    lambda: "\0",
    lambda: "@I.ir_module\nclass Module:\n" + "".join(f"    @T.prim_func\n    def f{k}(a: T.int32):\n        T.evaluate(a)\n" for k in range(2000)),
    lambda: "\t" * 10**5,
    lambda: _function("    A[0] = " + "min(" * 80 + "1.0" + ")" * 80),
    lambda: _function("    A[0] = " + "lambda: " * 2000 + "1"),
    lambda: "@T.prim_func\n" * 5000 + "def f(): pass",
    lambda: "\ud800",
]  # fmt: skip


def target(seed: int) -> str:
    """A target's text: options of its kind with good and bad values."""
    rng = random.Random(seed)
    kind = rng.choice(["llvm", "llvm", "llvm", "c", *KINDS, "nothing", "", "{", "llvm --", "\0"])
    some = list(KINDS[kind].options) if kind in KINDS else ["mcpu"]
    values = ["native", "skylake-avx512", "skylakeX", "cortex-a72", "generic", "x86-64", "+avx2", "-avx2", "+nothing,+avx512f", "aarch64-linux-gnu", "x86_64-linux-gnu", "riscv64-unknown-elf", "thumbv7em-none-eabi", "wasm32", "nothing-at-all", "a" * 5000, "", "-1", "0", "4", "2147483648", "1e9", "true", "x,y", "%s", "é", "\"", "'", "`touch x`", "$(true)", "hard", "soft", "sm_90", "sm_0"]  # fmt: skip
    parts = [kind]
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        option = rng.choice([*some, *some, "mcpu", "mtriple", "mattr", "nothing", ""])
        parts.append(
            f"{rng.choice(['-', '-', '-', '--', ''])}{option}{rng.choice(['=', '=', '=', ' ', ''])}{rng.choice(values)}"
        )
    made = " ".join(parts)
    if rng.random() < 0.1:
        made = '{{"kind": "{}", "{}": {}}}'.format(
            kind,
            rng.choice(some),
            rng.choice(["1", '"x"', "[]", "{}", "null", "1e999"]),
        )
    return made


# ---------------------------------------------------------------------- judging

_HEARD: list[str] = []
_LISTENS = [False]
_EVENTS = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "os.remove", "os.rename", "shutil.rmtree", "ctypes.dlopen", "pty.spawn")  # fmt: skip


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if _LISTENS[0]:
        writes = event == "open" and isinstance(args[1], str) and set("wax+") & set(args[1])
        if event in _EVENTS or writes:
            _HEARD.append(f"{event}{args!r}"[:200])


@lru_cache(1)
def listen() -> None:
    """Hear what a text makes this process do, in a folder where it harms nothing; a hook cannot
    be taken away again."""
    os.chdir(tempfile.mkdtemp(prefix="fuzz-"))
    sys.addaudithook(_audit)


def judge_text(item: tuple[str, Any], say: Callable[[str], None]) -> Outcome:
    """Read a text ("text", seed or words), or make a target of it ("target", ...)."""
    what, given = item
    listen()
    make = text if what == "text" else target
    source = make(given) if isinstance(given, int) else given
    say(what)
    started = time.process_time()
    _HEARD.clear()
    _LISTENS[0] = what == "text"
    try:
        if what == "text":
            _read(source)
        else:
            _compile(source, given, say)
        outcome = Outcome("right", "read")
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        outcome = Outcome("right" if clear(error) else "raw", what, words)
    except SystemExit:
        outcome = Outcome("wrong", what, "it ends the process")
    finally:
        _LISTENS[0] = False
    seconds = time.process_time() - started
    if _HEARD:
        return Outcome("wrong", what, f"it did {_HEARD[0]}")
    if seconds > SECONDS:
        return Outcome("slow", what, f"{seconds:.1f} s; {outcome.message}")
    return outcome


def _read(source: str) -> None:
    made = from_source(source)
    made.script()


@T.prim_func
def tiny(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("b"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi] * T.float32(2)


def _compile(source: str, given: Any, say: Callable[[str], None]) -> None:
    made = lw.Target(source)
    str(made), made.features
    if not isinstance(given, int) or given % 3 == 0:
        say("compile")
        lw.compile(tiny, made)


def search(options: argparse.Namespace) -> int:
    """Three texts, then a target, and so on."""
    report = Report("texts")
    items = [
        ("target" if s % 4 == 3 else "text", s)
        for s in range(options.seed, options.seed + options.count)
    ]
    for number in range(BASES):  # made before the workers fork
        base(number)
    limits = Limits(seconds=6 * SECONDS, memory=4 << 30)
    for (what, seed), outcome, _ in Pool(judge_text, options.processes, limits).run(items):
        if report.add(seed, outcome) and outcome.kind in FAULTS:
            path = Path(options.save) / f"{outcome.kind}-{what}-{seed}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(
                text(seed) if what == "text" else target(seed), errors="backslashreplace"
            )
            print(f"{path}: {outcome.group()}", flush=True)
    print(report.text())
    return 1 if report.faults() else 0
