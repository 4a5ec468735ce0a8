"""Parts of the search for faults, on small programs and on what they are made of."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.explore import command, notebook, origins, recording, work
from loopwright.explore.bisect import (
    Finding,
    _distance,
    _elements,
    _first,
    _RightValues,
    _shown,
    replay,
)
from loopwright.explore.explored import Explored
from loopwright.explore.running import Event, Runner, copied
from loopwright.ir.functor import Rewriter
from loopwright.script import from_source
from loopwright.tir.transform import default_tir_pipeline, prim_func_pass

from ..programs import graph, pointwise

# Kernels that are wrong.
pytestmark = [pytest.mark.no_roundtrip, pytest.mark.no_verify]

X = np.arange(1, 9, dtype="float32")


def model():
    return graph("a = R.multiply(x, x); b = R.add(a, x)", x=(8,))


class _Other(Rewriter):
    def visit_Mul(self, node):
        a, b = self.visit(node.a), self.visit(node.b)
        return a + b + 1 if node.dtype.is_float else a * b


@prim_func_pass(opt_level=0, name="ProductsAreSums")
def other(func, mod, ctx):
    return func.with_body(_Other().visit(func.body))


def faulty():
    return default_tir_pipeline().insert_before("tir.LoopPartition", other)


def test_a_loop_pass_of_a_small_model(tmp_path):
    found = lw.bisect(model(), {"x": X}, tir_pipeline=faulty())
    assert (found.pass_name, found.interpreted) == ("ProductsAreSums", False), str(found)
    assert found.before[found.entry] is not None and found.line > 0 and "+" in found.statement
    assert found.difference > 0.1 and found.element is not None
    found.save(tmp_path)
    assert replay(tmp_path, found.entry, found.interpreted) == 1


def test_a_kernel_is_no_model():
    kernel = pointwise("main", "X[vi, vj] * X[vi, vj]")
    with pytest.raises(lw.LoopwrightError, match="the search is for models, whose main is a graph"):
        lw.bisect(kernel, {}, [])


def test_what_nobody_else_can_judge():
    """The imported module is wrong by what is given, and nothing tells where."""
    found = lw.bisect(model(), {"x": X}, lambda feeds: X * 0)
    assert (found.pass_name, found.kernel, found.nodes) == ("import", "", ())
    assert found.difference == 72 and found.tolerance == 1e-4
    assert str(found) == (
        "the numbers differ: greatest relative difference 7.2e+01, tolerance 1.0e-04\n"
        "first pass: import"
    )
    agree = lw.bisect(model(), {"x": X}, [X * X + X + 36], 1 / 3)
    assert not agree and agree.difference == 1 / 3 and "the numbers agree" in str(agree)


def test_findings_are_told():
    found = Finding(0.5, 0.25, "Pass", "kernel", ("a", "b"), "x = 1", 3, (0, 2), 1.5, 2.0)
    assert found and str(found) == (
        "the numbers differ: greatest relative difference 5.0e-01, tolerance 2.5e-01\n"
        "first pass: Pass\n"
        "first kernel: kernel (a, b)\n"
        "first statement, line 3: x = 1\n"
        "    element [0, 2]: 1.5, should be 2"
    )
    short = str(Finding(0.5, 0.25, "Pass", "kernel", statement="call"))
    assert short.splitlines()[2:] == ["first kernel: kernel", "first statement: call"]


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_the_first_of_many(count):
    for wrong in range(count + 1):
        asked = []
        assert _first(count, lambda k: asked.append(k) or k >= wrong) == wrong  # noqa: B023
        assert all(0 <= k < count for k in asked) and len(asked) == len(set(asked))


def test_distances():
    assert _distance([], []) == 0 and _distance([X], []) == np.inf
    assert _distance([X, X], [X, X + 4]) == pytest.approx(4 / 12)
    assert _distance([X], [X[:4]]) == np.inf
    assert _elements(np.array([[0, 3.0], [-1, 0]])).tolist() == [-1, 3]


def event(nodes, *values, makes=(), reads=(), alloc=False, func=None):
    made = SimpleNamespace(
        nodes=tuple(nodes), values=[np.array(v) for v in values], makes=set(makes),
        reads=set(reads), allocates=alloc, func=func,
    )  # fmt: skip
    return made


def known(*events, args=()):
    search = SimpleNamespace(differ=lambda got, want: _distance(got, want) > 1e-4, args=args)
    return _RightValues(list(events), search)


def test_values_that_are_known():
    right = known(event("a", [1.0, 2, 0]), event("b", [5.0]), args=[np.array([[7.0]]), 3])
    for nodes, value, has in (
        ("a", [1.0, 2, 0], True),
        ("b", [1.0, 2, 0], True),  # any node's, of that shape
        ("c", [[7.0]], True),  # an input
        ("a", [1.0, 3, 0], False),
        ("a", [[2.0, 1]], True),  # in another layout, padded or not
        ("a", [[0, 2.0, 0, 1]], True),
        ("b", [[2.0, 1]], False),  # not of that node
        ("a", [[2.0, 2]], False),
        ("a", [[2.0, 1, 1]], False),
    ):
        assert right.has(event(nodes, value)) == has, (nodes, value)
    assert right.has(event("a", [1.0, 2, 0], [5.0])) and not right.has(event("a", [5.0], [6.0]))
    first, last = event("a", [1.0]), event("ab", [2.0])
    both = known(first, last, event("b", [3.0]), event("a", [4.0], alloc=True), event("a"))
    assert both.like(event("a", [9.0])) is last and both.like(event("c", [9.0])) is None
    assert both.like(event("a", [9.0, 9])) is None and len(both.events) == 3


def test_the_first_call_that_leads_to_a_wrong_result():
    right = known(event("a", [1.0]), event("b", [2.0]), event("c", [3.0]))
    new = event("x", [8.0], makes="p")
    same = event("b", [2.0], makes="q", reads="p")
    wrong = event("c", [9.0], makes="r", reads="q")
    memory = event("d", [9.0], alloc=True)
    silent = event("e", makes="s", reads="r")
    assert right.first_wrong([new, same]) is None  # the same, of new parts
    assert right.first_wrong([new, same, wrong]) is wrong
    assert right.first_wrong([event("x", [8.0], makes="q"), wrong]).nodes == ("x",)
    assert right.first_wrong([memory, same, silent]) is None
    assert right.first_wrong([new]) is new and right.first_wrong([]) is None


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_the_statement_that_stored_it(dtype):
    kernel = from_source(f"""
@T.prim_func
def kernel(a: T.handle, b: T.Buffer((3,), "{dtype}")):
    n = T.int32()
    A = T.match_buffer(a, (n,), "{dtype}")
    own = T.alloc_buffer((n,), "{dtype}")
    for i in T.parallel(n):
        own[i] = A[i] + A[i]
    for i in range(3):
        b[i] = own[i]
    b[1] = own[0]
""")
    note = recording.recorded(kernel)
    run = lambda f, a: Runner(interpreted=True).in_place(f, a, lw.IRModule({"kernel": kernel}))  # noqa: E731
    given = [np.arange(1, 5).astype(dtype), np.zeros(3, dtype)]
    stored = note.run(copied(given), run)
    own, b = sorted(stored, key=lambda s: s.buffer.name, reverse=True)
    assert (own.param, b.param) == (None, 1)
    assert own.who.tolist() == [0] * 4 and own.values.tolist() == [2, 4, 6, 8]
    assert b.who.tolist() == [1, 2, 1] and b.values.tolist() == [2, 2, 6]
    right = np.array([2, 4, 7], dtype)
    assert recording.first_wrong(stored, [right], [], 1e-4) == (1, (2,), 6, 7)
    assert recording.first_wrong(stored, [np.array([2, 4, 6], dtype)], [], 1e-4) == (2, (1,), 2, 4)
    assert recording.first_wrong(stored, [b.values], [], 1e-4) is None
    assert recording.first_wrong(stored, [right], [], 0.5) is None  # 3 of 7
    assert recording.first_wrong(stored, [np.zeros(2)], [], 1e-4) is None  # of another size
    like = recording.Stored(own.buffer, None, own.who, own.values + np.array([0, 1, 1, 0], dtype))
    assert recording.first_wrong(stored, [b.values], [like], 1e-4) == (0, (1,), 4, 5)
    like.who[:2] = -1  # nothing is known of these
    assert recording.first_wrong(stored, [b.values], [like], 1e-4) == (0, (2,), 6, 7)
    sizes = recording.sizes_of(kernel, given)
    assert {v.name: n for v, n in sizes.items()} == {"n": 4}


def test_results_that_are_not_given_are_to_be_finite():
    buffer = tir.decl_buffer((2,), "float32")
    stored = [recording.Stored(buffer, 0, np.array([0, 1]), np.array([1.0, np.inf], "float32"))]
    assert recording.first_wrong(stored, [], [], 1e-4) == (1, (1,), np.inf, 0)


def test_work_that_only_data_tell():
    kernel = from_source("""
@T.prim_func
def kernel(A: T.Buffer((4,), "int32"), B: T.Buffer((4, 2), "float32x4")):
    while A[0] > 0:
        B[0, 0] = B[0, 0] + B[0, 0]
""")
    assert work.work_of(kernel, {}) == {"bytes": 4 * 4 + 4 * 2 * 16}
    pairs = pointwise("pairs", "X[vi, vj] + X[vi, vj]")
    assert work.work_of(pairs, {"n": 3, "m": 5}) == {"flops": 15, "bytes": 2 * 15 * 4}
    assert work.work_of(pairs, {}) == {"flops": 1, "bytes": 8}


def test_what_is_served(monkeypatch, tmp_path):
    said, served = [], []

    class Serving:
        server_address = ("127.0.0.1", 7)

        def __enter__(self):
            return self

        def __exit__(self, *args):
            served.append("closed")

        def serve_forever(self):
            raise KeyboardInterrupt

    def server(text, port):
        served.append((text, port))
        return Serving()

    explored = SimpleNamespace(exe=SimpleNamespace(runs=True))
    monkeypatch.setattr(command, "say", said.append)
    monkeypatch.setattr(command, "server", server)
    monkeypatch.setattr(command.Explored, "compiled", lambda model, target: explored)
    shown = []
    monkeypatch.setattr(
        command,
        "page_data",
        lambda e, inputs, title, number: shown.append((inputs, title, number)) or {},
    )
    monkeypatch.setattr(command, "html_of", lambda data: "é")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "deep" / "net.onnx"
    feeds = lambda exe: {"x": 1}  # noqa: E731
    command.explore(file, "llvm", None, True, 5, feeds, 0)
    assert said == ["http://127.0.0.1:7/ (Ctrl+C ends it)", "ended"]
    assert served == [("é", 5), "closed"] and shown == [(None, "net.onnx", 0)]
    assert not list(tmp_path.iterdir())
    said.clear()
    command.explore(file, "llvm", None, False, 5, feeds, 2)
    assert said == ["net.html: 2 bytes"] and shown[1] == ({"x": 1}, "net.onnx", 2)
    command.explore(file, "llvm", tmp_path / "a" / "b.html", True, 0, feeds, 1)
    assert (tmp_path / "a" / "b.html").read_text() == "é" and served[2:] == [("é", 0), "closed"]
    explored.exe.runs = False
    command.explore(file, "llvm", None, False, 5, feeds, 2)
    assert shown[-1][0] is None


def test_passes_that_failed():
    failed = SimpleNamespace(error="a < b", name="P", ms=1.0, group=False, changed=False)
    assert notebook._opens(failed) == "failed: a &lt; b"
    assert origins.origins_of(SimpleNamespace()) == {}


def test_what_cannot_be_explored():
    with pytest.raises(lw.LoopwrightError, match="this trace has no passes"):
        Explored(SimpleNamespace(records=[]))
    exe = lw.compile(model())
    exe.compilation = None
    with pytest.raises(lw.LoopwrightError, match="it is not known what this was compiled from"):
        Explored.of(exe)


def test_statements_by_their_lines():
    lines = SimpleNamespace(numbers=lambda: {id(X): 2}, texts=["a", "  b "])
    assert _shown(lines, X) == {"statement": "b", "line": 2}
    assert _shown(lines, 5) == {"statement": "", "line": 0}


def test_calls_that_write_to_what_they_are_given():
    """Their event has what they wrote, and makes it."""
    mod = from_source("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def twice(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            y[i] = x[i] * T.float32(2)

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")):
        cls = Module
        y = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0))
        _: R.Tuple = cls.twice(x, y)
        return y
""")
    found = Runner(interpreted=True).events(mod, [X[:4]])
    assert [e.allocates for e in found] == [True, False]
    (written,) = found[1].values
    assert written.tolist() == [2, 4, 6, 8] and {v.name_hint for v in found[1].makes} >= {"y"}
    assert isinstance(found[1], Event) and found[1].func is mod["twice"]
    (result,) = Runner(interpreted=True).outputs(mod, [X[:4]])
    assert result.tolist() == [2, 4, 6, 8]
