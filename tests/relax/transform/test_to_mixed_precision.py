"""ToMixedPrecision: which types values have afterwards, and that results stay close."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import relax
from loopwright.relax.analysis import assert_well_formed
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import BindParams, ToMixedPrecision
from loopwright.script import from_source

from ...programs import graph

# the program, its parameters, the operators afterwards: "h" where the result is float16
CASES = {
    "a result stays": ("a = R.matmul(x, w)", "astype:h astype:h matmul"),
    "what follows": (
        "a = R.matmul(x, w); b = R.nn.relu(a); c = R.reshape(b, (8,))",
        "astype:h astype:h matmul astype:h nn.relu:h reshape:h astype",
    ),
    "an argument of float32": (
        "a = R.matmul(x, w); b = R.add(a, v)",
        "astype:h astype:h matmul astype:h astype add",
    ),
    "a constant": (
        "a = R.matmul(x, w); b = R.add(a, small)",
        "astype:h astype:h matmul astype:h astype:h add:h astype",
    ),
    "a constant that does not fit": (
        "a = R.matmul(x, w); b = R.add(a, large)",
        "astype:h astype:h matmul astype:h astype add",
    ),
    "what never does": (
        "a = R.matmul(x, w); b = R.nn.softmax(a)",
        "astype:h astype:h matmul astype:h astype nn.softmax",
    ),
    "in a tuple": (
        "a = R.matmul(x, w); t = (a, (a, v)); b = t[1]; c = R.nn.relu(b[0])",
        "astype:h astype:h matmul astype:h nn.relu:h astype",
    ),
    "a tuple as the result": (
        "a = R.matmul(x, w); t = (a, v)",
        "astype:h astype:h matmul astype:h astype",
    ),
    "joined": (
        "a = R.matmul(x, w); b = R.concat([a, a], axis=0)",
        "astype:h astype:h matmul astype:h concat:h astype",
    ),
    "used in both types": (
        "b = R.nn.softmax(x); a = R.matmul(x, w); c = R.matmul(x, w); d = (a, b, c)",
        "astype:h nn.softmax astype:h matmul astype:h matmul astype:h astype astype",
    ),
    "a result of two tensors": (
        "a = R.matmul(x, w); b = R.split(a, 2, axis=1)",
        "astype:h astype:h matmul astype:h split astype astype",
    ),
    "a result of two tensors, taken apart": (
        "a = R.matmul(x, w); b = R.split(a, 2, axis=1); c = (b, v); d = R.nn.relu(c[0][1])",
        "astype:h astype:h matmul astype:h split nn.relu:h astype",
    ),
    "a cast": (
        'a = R.matmul(x, w); b = R.match_cast(a, R.Tensor((2, 4), "float32")); c = R.nn.relu(b)',
        "astype:h astype:h matmul astype:h astype nn.relu",
    ),
    "a weight that is float16": (
        'u = R.wrap_param(h, "float32"); a = R.matmul(x, u); b = R.add(u, w); c = (a, b)',
        "astype:h matmul astype:h astype add astype",
    ),
    "a weight that is float32": (
        'u = R.wrap_param(w, "float32"); a = R.matmul(x, u)',
        "astype:h wrap_param astype:h matmul",
    ),
    "nothing to do": ("a = R.add(x, x)", None),
    "integers": ("a = R.matmul(i, i)", None),
}
SHAPES = {"x": (2, 3), "w": (3, 4), "v": (2, 4), "small": (4,), "large": (4,)}


def program(text: str):
    others = {"i": 'R.Tensor((3, 3), "int8")', "h": 'R.Tensor((3, 4), "float16")'}
    mod = graph(text, **SHAPES, **others)
    constants = {"small": np.ones(4, "float32"), "large": np.full(4, 1e5, "float32")}
    return BindParams("main", constants)(mod)


def inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, SHAPES[k]).astype("float32") for k in "xwv"]
    return [*arrays, np.ones((3, 3), "int8"), rng.uniform(-1, 1, (3, 4)).astype("float16")]


def operators(mod) -> str:
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    calls = [v for v in values if isinstance(v, relax.Call)]
    half = {v: ":h" if getattr(v.struct_info, "dtype", "") == "float16" else "" for v in calls}
    return " ".join(v.op.name.removeprefix("relax.") + half[v] for v in calls)


def arrays_of(value):
    return [a for v in value for a in arrays_of(v)] if isinstance(value, tuple) else [value.numpy()]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("out_dtype", ["float32", "float16"])
def test_types(name, out_dtype):
    text, expected = CASES[name]
    mod = program(text)
    after = ToMixedPrecision(out_dtype)(mod)
    assert_well_formed(after)
    if expected is None:
        assert after is mod
        return
    if out_dtype == "float32":
        assert operators(after) == expected
    got, want = (arrays_of(Interpreter(m)["main"](*inputs())) for m in (after, mod))
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-2)


def test_a_product_that_gives_half_precision():
    after = ToMixedPrecision("float16")(program("a = R.matmul(x, w); b = R.nn.relu(a)"))
    assert operators(after) == "astype:h astype:h matmul:h nn.relu:h astype"


def test_parameters_of_half_precision():
    mod = program("a = R.matmul(x, w); b = R.add(a, v)")
    after = ToMixedPrecision(fp16_input_names=["w", "v"])(mod)
    assert [str(p.struct_info.dtype) for p in after["main"].params[:3]] == [
        "float32",
        "float16",
        "float16",
    ]
    assert operators(after) == "astype:h matmul astype:h add:h astype"
    mod = program("a = R.nn.softmax(v)")
    after = ToMixedPrecision(fp16_input_names=["v"])(mod)
    assert operators(after) == "astype nn.softmax"  # what needs float32 gets it


def test_a_function_inside_keeps_its_types():
    mod = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.relu(a)
            @R.function
            def inner(y: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
                c = R.nn.softmax(b)
                return R.add(c, y)
            d = inner(a)
            R.output(d)
        return d
""")
    after = ToMixedPrecision()(mod)
    assert_well_formed(after)
    got, want = (Interpreter(m)["main"](*inputs()[:2]).numpy() for m in (after, mod))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-2, atol=1e-2)
