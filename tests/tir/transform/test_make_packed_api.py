"""The checks of packed entries, evaluated on made-up arguments."""

from __future__ import annotations

import pytest

from loopwright.ir.module import IRModule
from loopwright.ir.op import Op
from loopwright.ir.prim_expr import EQ, And, Call, Cast, IntImm, Mul, Or, Var
from loopwright.ir.target import Target
from loopwright.script import from_source
from loopwright.tir import transform as tt
from loopwright.tir.expr import BufferLoad
from loopwright.tir.stmt import AssertStmt, Evaluate, LetStmt, SeqStmt

TEXT = """
@T.prim_func
def main(a: T.handle, b: T.handle, k: T.float32):
    T.func_attr({"global_symbol": "main"})
    n = T.int64()
    A = T.match_buffer(a, (n, 4), "float32")
    B = T.match_buffer(b, (n * 2,), "int8")
    A[0, 0] = k
    B[0] = T.int8(1)
"""

INT, FLOAT, DLTENSOR = 1, 3, 7


class Tensor:
    """Fields of a DLTensor by their codes."""

    def __init__(self, shape, code=2, bits=32, device=1, strides=None):
        self.shape = shape
        self.fields = {1: 4096, 2: shape, 3: strides, 4: len(shape), 5: code, 6: bits, 7: 1}
        self.fields |= {8: 16, 10: device}


class Machine:
    """Runs an entry: lets, assertions, and the call at the end."""

    def __init__(self, entry, args):
        self.entry = entry
        _, args_var, num_args, _ = entry.params
        self.env = {num_args: len(args), args_var: args}
        self.called = None

    def run(self):
        node = self.entry.body
        while True:
            if isinstance(node, LetStmt):
                self.env[node.var] = self.eval(node.value)
            elif isinstance(node, AssertStmt):
                if not self.eval(node.condition):
                    raise ValueError(node.message.value)
            else:
                break
            node = node.body
        assert isinstance(node, SeqStmt) and isinstance(node.seq[0], Evaluate)
        call = node.seq[0].value
        return call.op.name_hint, [self.eval(a) for a in call.args]

    def eval(self, e):
        kind = type(e)
        if kind is IntImm:
            return e.value
        if isinstance(e, Var):
            return self.env[e]
        if kind is Cast:
            return self.eval(e.value)
        if kind is BufferLoad:
            return self.env[e.buffer.data][self.eval(e.indices[0])]
        if kind is And:
            return self.eval(e.a) and self.eval(e.b)
        if kind is Or:
            return self.eval(e.a) or self.eval(e.b)
        if kind is EQ:
            return self.eval(e.a) == self.eval(e.b)
        if kind is Mul:
            return self.eval(e.a) * self.eval(e.b)
        assert kind is Call and isinstance(e.op, Op), e
        return getattr(self, e.op.name.removeprefix("tir."))(*e.args)

    def tvm_struct_get(self, at, index, field):
        target, code = self.eval(at), self.eval(field)
        if isinstance(target, Tensor):
            return target.fields[code]
        return target[self.eval(index)][0 if code == 13 else 1]

    def if_then_else(self, c, t, f):
        return self.eval(t if self.eval(c) else f)

    def isnullptr(self, x):
        return self.eval(x) is None

    def handle_add_byte_offset(self, handle, offset):
        return self.eval(handle) + self.eval(offset)


def entry():
    mod = tt.MakePackedAPI()(IRModule({"main": from_source(TEXT)}))
    return mod["__tvm_ffi_main"]


def good(**changes):
    a = Tensor((3, 4), **changes)
    return [(DLTENSOR, a), (DLTENSOR, Tensor((6,), code=0, bits=8)), (FLOAT, 2.5)]


def test_good_arguments_reach_the_kernel():
    assert Machine(entry(), good()).run() == ("main", [4112, 4112, 2.5, 3])
    with_strides = good(strides=(4, 1))
    with_strides[2] = (INT, 2)
    assert Machine(entry(), with_strides).run()[1][2] == 2


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (good()[:2], "main: expected 3 arguments"),
        ([(INT, 1), *good()[1:]], "main: argument A (#0) must be a tensor"),
        (good(device=2), "main: argument A (#0) must be on the cpu"),
        (good(code=0), "main: argument A (#0) must have dtype float32"),
        (good(bits=64), "main: argument A (#0) must have dtype float32"),
        ([(DLTENSOR, Tensor((3,))), *good()[1:]], "main: argument A (#0) must have ndim 2"),
        (
            [(DLTENSOR, Tensor((3, 5))), *good()[1:]],
            "main: argument A (#0) must have shape[1] == 4",
        ),
        (good(strides=(5, 1)), "main: argument A (#0) must have row-major strides"),
        (
            [good()[0], (DLTENSOR, Tensor((7,), code=0, bits=8)), good()[2]],
            "main: argument B (#1) must have shape[0] == n * 2",
        ),
        ([*good()[:2], (DLTENSOR, 0)], "main: argument k (#2) must be a float"),
    ],
)
def test_bad_arguments_are_named(args, message):
    with pytest.raises(ValueError) as caught:
        Machine(entry(), args).run()
    assert str(caught.value) == message


@pytest.mark.no_roundtrip
def test_a_dimension_that_nobody_tells():
    text = """
@T.prim_func(check_well_formed=False)
def main(a: T.handle):
    T.func_attr({"global_symbol": "main"})
    n = T.int64()
    A = T.match_buffer(a, (n * 2,), "float32")
    A[0] = T.float32(0)
"""
    with pytest.raises(ValueError, match="dimension n of buffer A is never defined"):
        tt.MakePackedAPI()(IRModule({"main": from_source(text)}))


def test_private_functions_get_no_entry():
    mod = IRModule({"f": from_source(TEXT).without_attr("global_symbol")})
    assert tt.MakePackedAPI()(mod) is mod


@pytest.mark.parametrize(("target", "host"), [(Target("cuda", host="c"), "c"), ("cuda", "llvm")])
def test_a_function_of_the_host_has_the_host_of_the_target(target, host):
    func = from_source(
        '@T.prim_func\ndef main(A: T.Buffer((4,), "float32")):\n'
        '    T.func_attr({"tir.is_host_func": True})\n    A[0] = T.float32(1)\n'
    )
    made = tt.BindTarget(target)(IRModule({"main": func}))["main"]
    own = made.attrs["target"]
    assert (own.kind.name, own.host.kind.name) == (host, host)
    assert "tir.is_host_func" not in made.attrs


@pytest.mark.parametrize(
    ("private", "own", "target", "host"),
    [(False, "", "cuda", "llvm"), (True, "", "cuda", None), (False, "nvptx", "nvptx", "llvm")],
)
def test_functions_called_from_outside_have_the_host(private, own, target, host):
    func = from_source("@T.prim_func\ndef main():\n    T.evaluate(0)\n")
    func = func.without_attr("global_symbol") if private else func
    func = func.with_attr("target", Target(own)) if own else func
    made = tt.BindTarget(Target("cuda", host="llvm"))(IRModule({"main": func}))["main"]
    bound = made.attrs["target"]
    assert bound.kind.name == target
    assert (bound.host and bound.host.kind.name) == host
