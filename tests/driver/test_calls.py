"""What compiled functions are called with: any array, lists, numbers, and memory for results."""

from __future__ import annotations

import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import loopwright as lw
from loopwright import runtime
from loopwright.script import from_source

from ..house.source import ROOT
from ..programs import graph

X = np.arange(6, dtype="float32").reshape(2, 3)
WIDE = np.arange(24, dtype="float32").reshape(4, 6)


def model():
    return graph("y = R.multiply(x, k); z = R.concat([x, y], axis=0)", x=("n", 3), k=())


def right(x, k=2.0):
    x = np.asarray(x, "float32")
    return np.concatenate([x, x * np.float32(k)])


@pytest.fixture(scope="module", params=["executable", "library", "virtual machine"])
def callee(request, tmp_path_factory):
    """What has `main`: compiled, loaded from a file, or run by the virtual machine."""
    if request.param == "virtual machine":
        packed = 'R.call_pure_packed("test.same", c, sinfo_args=R.Tensor(dtype="float32", ndim=2))'
        body = f"y = R.multiply(x, k)\nc = R.concat([x, y], axis=0)\nz = {packed}"
        mod = graph(body, x=("n", 3), k=())
        runtime.register_func("test.same", lambda x: x, override=True)
        exe = lw.compile(mod)
        assert list(exe.machine) == ["main"]
        yield exe
        runtime.remove_global_func("test.same")
        return
    exe = lw.compile(model())
    if request.param == "executable":
        yield exe
    else:
        folder = tmp_path_factory.mktemp("calls")
        yield runtime.load_module(exe.export_library(folder / "model.so"))


# ---------------------------------------------------------------------- inputs

ACCEPTED = {
    "rows": WIDE[::2, ::2],
    "backwards": X[::-1, ::-1],
    "by columns": np.asfortranarray(X),
    "the other byte order": X.astype(X.dtype.newbyteorder()),
    "one row for all": np.broadcast_to(X[:1], (5, 3)),
    "read-only": np.frombuffer(X.tobytes(), "float32").reshape(2, 3),
    "a slice of a tensor": runtime.tensor(WIDE)[1:, 1:4],
    "no rows": WIDE[:0, ::2],
    "lists": X.tolist(),
    "tuples of ints": ((1, 2, 3), (4, 5, 6)),
    "bools": [[True, False, True]],
    "arrays in a list": [X[0], np.array([7, 8, 9])],
}


@pytest.mark.parametrize("what", ACCEPTED)
def test_accepted(callee, what):
    x = ACCEPTED[what]
    before = np.array(x, copy=True)
    for k in (2, 2.0, np.float32(2), np.array(2, "float32")):
        np.testing.assert_array_equal(callee["main"](x, k), right(x))
    got = list(callee.run({"x": x, "k": 3}).values())
    np.testing.assert_array_equal(got[0], right(x, 3))
    np.testing.assert_array_equal(np.array(x), before)


def test_c_code_takes_the_same():
    bounded = model()["main"].with_attr("tir_var_upper_bound", {"n": 8})
    run = lw.compile(lw.IRModule({"main": bounded}), "c").build(flags=["-O1"])
    for x in ACCEPTED.values():
        np.testing.assert_array_equal(run(x, 2), right(x))
    out = np.zeros((4, 3), "float32")
    assert run(X, 3, out=out) is out
    np.testing.assert_array_equal(out, right(X, 3))
    with pytest.raises(ValueError, match="main: argument 0 `x` takes values of float32"):
        run([["a"] * 3], 2)
    with pytest.raises(TypeError, match="main: x has dtype float32"):
        run(X.astype("float64"), 2)


REFUSED = {
    "wide floats": (X.astype("float64"), ValueError, "float64"),
    "a wide strided array": (WIDE.astype("float64")[:, ::2], ValueError, "float64"),
    "ints": (X.astype("int32"), ValueError, "int32"),
    "a complex list": ([[1j, 2, 3]], ValueError, "takes values of float32"),
    "texts": ([["a", "b", "c"]], ValueError, "takes values of float32"),
    "rows of other lengths": ([[1.0], [1.0, 2.0]], ValueError, "parts differ in length"),
    "another shape": ([[1.0, 2.0]], ValueError, "expected 3|must be 3"),
    "nothing": (None, TypeError, "must be a tensor|expected a tensor"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(callee, what):
    x, kind, message = REFUSED[what]
    with pytest.raises(kind, match=message) as info:
        callee["main"](x, 2)
    assert info.value.__cause__ is None and "main" in str(info.value)
    with pytest.raises(ValueError, match="float64"):
        callee["main"](X, np.float64(2))  # a number of numpy's has a dtype


DTYPES = {
    "int8": ([-128, 127], [1, 300], [1.5]),
    "uint8": ([0, 255], [-1], [0.5]),
    "int64": ([2**40, -1], [2**70], [1.0]),
    "bool": ([True, False], [0, 1], [1.0]),
    "bfloat16": ([1.5, 2], [1j], ["x"]),
    "float16": ([1.5, 2], [1j], ["x"]),
    "int4": ([-8, 7], [8], [1.5]),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_lists_become_the_dtype_that_is_asked_for(dtype):
    good, *bad = DTYPES[dtype]
    mod = graph("y = R.concat([x, x], axis=0)", x=f'R.Tensor((2,), "{dtype}")')
    main = lw.compile(mod)["main"]
    assert main(good).numpy().tolist() == [*good, *good]
    for values in bad:
        with pytest.raises(ValueError, match=rf"main: argument 0 `x` .*{dtype}"):
            main(values)


def test_a_kernel_writes_to_arrays_of_any_layout():
    kernel = lw.compile(
        from_source("""
@T.prim_func
def main(x: T.Buffer((4, 6), "float32"), y: T.Buffer((4, 6), "float32")):
    for i, j in T.grid(4, 6):
        y[i, j] = x[i, j] + T.float32(1)
""")
    )["main"]
    wide = np.zeros((8, 12), "float32")
    kernel(np.asfortranarray(WIDE), wide[::2, ::2])
    np.testing.assert_array_equal(wide[::2, ::2], WIDE + 1)
    assert not wide[1::2].any() and not wide[:, 1::2].any()
    swapped = np.zeros((4, 6), WIDE.dtype.newbyteorder())
    kernel(WIDE.astype(swapped.dtype), swapped)
    np.testing.assert_array_equal(swapped, WIDE + 1)
    with pytest.raises(TypeError, match="argument 0 `x` must be a tensor, got a tuple"):
        kernel(WIDE.tolist(), wide[::2, ::2])  # it may be written
    with pytest.raises(TypeError, match="main has no results"):
        kernel(WIDE, out=WIDE)


# ---------------------------------------------------------------------- memory for results


def test_results_are_written_to_out(callee):
    out = np.full((4, 3), -1, "float32")
    assert callee["main"](X, 2.0, out=out) is out
    np.testing.assert_array_equal(out, right(X))
    tensor = runtime.empty((8, 3))
    assert callee["main"](WIDE[:, ::2], 2, out=tensor) is tensor
    np.testing.assert_array_equal(tensor, right(WIDE[:, ::2]))
    (name,) = callee.output_names()
    for given in (out, [out], {name: out}):
        assert callee.run({"x": X[::-1], "k": 2}, out=given) == {name: out}
        np.testing.assert_array_equal(out, right(X[::-1]))
        out[...] = -1
    with pytest.raises(ValueError, match=f"the outputs are {name}\n  got: other"):
        callee.run({"x": X, "k": 2}, out={"other": out})


def test_out_at_any_address(callee):
    room = np.zeros(2 * 3 * 101 + 7, "float32")
    x = np.arange(303, dtype="float32").reshape(101, 3)
    for offset in range(7):
        out = room[offset : offset + 606].reshape(202, 3)
        callee["main"](x, 2, out=out)
        np.testing.assert_array_equal(out, right(x))


PLAIN = np.zeros((4, 3), "float32")
WRONG_OUT = {
    "shape": (PLAIN[:3], ValueError, r"output 0 .*shape"),
    "rank": (PLAIN.ravel(), ValueError, r"output 0 .*(ndim|shape)"),
    "dtype": (PLAIN.astype("float64"), ValueError, r"output 0 .*dtype float64"),
    "byte order": (PLAIN.astype(">f4"), TypeError, "output 0 cannot be written\n  got: dtype >f4"),
    "read-only": (np.broadcast_to(X[:1], (4, 3)), TypeError, "output 0 cannot be written"),
    "too many": ([PLAIN, PLAIN], TypeError, "main has one result\n  got: 2 arrays as out"),
    "none": ([], TypeError, "main has one result\n  got: 0 arrays as out"),
    "a list": ([[0.0] * 3] * 4, TypeError, "got: 12 arrays as out"),
    "a text": ("out", TypeError, "output 0 is not an array\n  got: str"),
}


@pytest.mark.parametrize("what", WRONG_OUT)
def test_wrong_out(callee, what):
    out, kind, message = WRONG_OUT[what]
    with pytest.raises(kind, match=message):
        callee["main"](X, 2, out=out)
    assert not PLAIN.any()


def test_out_shares_no_memory_with_inputs():
    main = lw.compile(model())["main"]
    room = np.zeros(18, "float32")
    x = room[6:12].reshape(2, 3)
    for begin in (0, 1, 5, 6):
        with pytest.raises(ValueError, match="output 0 `out` shares memory with argument 0; give"):
            main(x, 2, out=room[begin : begin + 12].reshape(4, 3))
    apart = np.zeros(18, "float32")
    main(apart[:6].reshape(2, 3), 2, out=apart[6:].reshape(4, 3))
    strided = np.zeros((4, 3), "float32")[:, ::-1]
    with pytest.raises(ValueError, match="output 0 `out` is not contiguous"):
        main(X, 2, out=strided)
    main(X[:0], 2, out=X[:0])  # nothing is shared where there is nothing


def test_several_results():
    body = "a = R.add(x, x); b = R.concat([x, x], axis=0); s = R.sum(x); r = (a, (b, s))"
    exe = lw.compile(graph(body, x=("n", 3)))
    want = [X + X, np.concatenate([X, X]), X.sum()]
    outs = [np.zeros_like(w) for w in want]
    for out in (outs, tuple(outs), (outs[0], outs[1:])):
        for o in outs:
            o[...] = 0
        assert exe["main"](X, out=out) is out
        for got, w in zip(outs, want, strict=True):
            np.testing.assert_array_equal(got, w)
    names = exe.output_names()
    assert exe.run({"x": X}, out=dict(zip(reversed(names), reversed(outs), strict=True))) == dict(
        zip(names, outs, strict=True)
    )
    (a, (b, s)) = exe["main"](X)
    assert a.shape == (2, 3) and b.shape == (4, 3) and s.shape == ()
    with pytest.raises(ValueError, match="output 1 `out1` shares memory with output 0; give"):
        exe["main"](X[:1], out=[PLAIN[:1], PLAIN[:2], outs[2]])
    with pytest.raises(ValueError, match=r"output 1 `out1` has shape\[0\] = 3, expected 4"):
        exe["main"](X, out=[outs[0], outs[1][:3], outs[2]])
    with pytest.raises(TypeError, match="main has 3 results\n  got: 2 arrays as out"):
        exe["main"](X, out=outs[:2])


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.int4, np.bool_, np.int8])
def test_out_of_every_kind_of_dtype(dtype):
    name = np.dtype(dtype).name
    values = np.array([1, 0, 1, 1, 0], dtype)
    main = lw.compile(graph("y = R.concat([x, x], axis=0)", x=f'R.Tensor((5,), "{name}")'))["main"]
    out = np.zeros(10, dtype)
    assert main(values, out=out) is out
    assert out.tolist() == [*values.tolist(), *values.tolist()]
    packed = runtime.tensor(np.zeros(10, dtype))
    main(values, out=packed)
    assert packed.numpy().tolist() == out.tolist()


def test_an_extra_argument_is_not_taken_for_memory():
    main = lw.compile(model())["main"]
    for count in (3, 4, 5):
        with pytest.raises(TypeError, match=f"main: expected 2 arguments, got {count}"):
            main(*([X] * count))


def test_sizes_of_outputs_are_shown_as_written(callee):
    (_, dtype, shape) = callee.outputs()[0]
    unknown = ("out_dim0", "out_dim1")  # where a packed call makes it
    assert dtype == "float32" and shape in (("n * 2", 3), unknown)
    assert callee.inputs() == [("x", "float32", ("n", 3)), ("k", "float32", ())]


# ---------------------------------------------------------------------- threads


def wide_model():
    body = "y = R.nn.softmax(x); z = R.matmul(y, R.const(w)); s = R.sum(z, axis=0); r = (z, s)"
    weight = np.random.default_rng(2).standard_normal((96, 80)).astype("float32")
    return graph(body, values={"w": weight}, x=("n", 96))


def test_results_do_not_depend_on_the_number_of_threads(tmp_path):
    x = np.random.default_rng(3).standard_normal((301, 96)).astype("float32")
    before = runtime.num_threads()
    found = set()
    for threads in (None, 1, 2, 3, 7):
        exe = lw.compile(wide_model(), threads=threads)
        path = exe.export_library(tmp_path / f"model{threads}.so")
        libraries = [runtime.load_module(path), runtime.load_module(path, threads=2)]
        for model in (exe, *libraries):
            z, s = model["main"](x)
            found.add(z.numpy().tobytes() + s.numpy().tobytes())
    assert len(found) == 1 and runtime.num_threads() == before


COUNT = """
import os, sys
import numpy as np
import loopwright as lw
from loopwright import runtime
from tests.driver.test_calls import wide_model

def started(f):
    before = len(os.listdir("/proc/self/task"))
    f(x)
    return len(os.listdir("/proc/self/task")) - before

x = np.ones((4000, 96), "float32")
runtime.set_num_threads(4)
models = {n: lw.compile(wide_model(), threads=n) for n in (1, 3)}
path = models[3].export_library(sys.argv[1])
counts = [started(models[1]["main"]), started(models[3]["main"])]
counts += [started(lw.compile(wide_model(), threads=3)["main"])]  # the same pool
runtime.set_num_threads(2)
counts += [started(lw.compile(wide_model())["main"]), runtime.num_threads()]
counts += [started(runtime.load_module(path)["main"])]
child = os.fork()
if not child:
    os._exit(started(models[3]["main"]))
print(*counts, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_a_model_has_the_threads_that_it_asks_for(tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", COUNT, str(tmp_path / "model.so")]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    assert done.stdout.split() == ["0", "2", "0", "1", "2", "2", "2"], done.stderr


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_wrong_numbers_of_threads(threads):
    with pytest.raises(ValueError, match=f"number of threads must be positive, got {threads}"):
        lw.compile(model(), threads=threads)


def test_c_code_has_one_thread():
    small = graph("y = R.exp(x)", x=(4,))
    assert lw.compile(small, "c", threads=1).source == lw.compile(small, "c").source
    with pytest.raises(lw.LoopwrightError, match="C code runs in the thread that calls it"):
        lw.compile(small, "c", threads=2)


# ---------------------------------------------------------------------- names


def test_an_input_may_be_called_out():
    exe = lw.compile(graph("y = R.add(out, out)", out=("n", 3)))
    np.testing.assert_array_equal(exe.run(out=X)["out"], 2 * X)


def test_functions_are_called_by_their_global_symbol():
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def inside(A: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "outside"})
        for i in range(4):
            A[i] = T.float32(2)
"""
    exe = lw.compile(from_source(text), "llvm")
    values = np.zeros(4, "float32")
    exe["outside"](values)
    assert values.tolist() == [2] * 4
