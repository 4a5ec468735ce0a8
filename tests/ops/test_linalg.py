"""Linear algebra and special functions: what the samples of the operators do not show."""

from __future__ import annotations

import math

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.driver import compile
from loopwright.relax import op
from loopwright.relax.struct_info import TensorStructInfo


def run(build, *arrays: np.ndarray):
    params = [
        relax.Var(f"x{k}", TensorStructInfo(a.shape, str(a.dtype))) for k, a in enumerate(arrays)
    ]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(build(*params))
        bb.emit_func_output(out)
    result = compile(bb.get(), "llvm")["main"](*arrays)
    return [r.numpy() for r in result] if isinstance(result, (list, tuple)) else result.numpy()


def test_a_rank_deficient_matrix_has_its_singular_values(rng) -> None:
    x = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 4))
    u, s, vt = run(op.linalg.svd, x)
    np.testing.assert_allclose(s, np.linalg.svd(x, compute_uv=False), atol=1e-12)
    np.testing.assert_allclose(u * s @ vt, x, atol=1e-12)


def test_eigenvalues_that_are_equal(rng) -> None:
    q, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    x = q * [2.0, 2.0, -1.0, 0.0, 2.0] @ q.T
    values, vectors = run(op.linalg.eigh, x)
    np.testing.assert_allclose(values, [-1, 0, 2, 2, 2], atol=1e-12)
    np.testing.assert_allclose(vectors * values @ vectors.T, x, atol=1e-12)


def test_a_check_raises_its_message() -> None:
    x, codes = np.ones(2, np.float32), np.array([0, 3], np.int32)
    with pytest.raises(ValueError, match="no such factor"):
        run(lambda a, b: op.linalg.check(a, b, "no such factor"), x, codes)


@pytest.mark.parametrize(
    ("name", "x", "value"),
    [  # 6.1, 6.3, 7.1, 9.8, 9.9, 10.4 of Abramowitz and Stegun
        ("lgamma", -1.5, math.lgamma(-1.5)),
        ("digamma", -0.5, 0.03648997397857652),
        ("erfc", 5.0, math.erfc(5.0)),
        ("erfcx", 30.0, 0.018795888861416751),
        ("k0", 1.0, 0.42102443824070833),
        ("y1", 2.5, 0.14591813796678577),
        ("airy_ai", -9.0, -0.02213372154734084),
        ("airy_ai", 6.0, 9.947694360252889e-06),
    ],
)
def test_special_functions_in_float64(name: str, x: float, value: float) -> None:
    out = run(getattr(op.special, name), np.array([x]))
    np.testing.assert_allclose(out, [value], rtol=1e-7)


REFUSED = {
    "solve_triangular: b has rows": lambda x: op.linalg.solve_triangular(
        op.zeros((3, 3), "float32"), x
    ),
    "eigh is of square matrices\n  got: (2, 3)": op.linalg.eigh,
    "unknown family\n  got: 'legendre'": lambda x: op.special.polynomial(x, x, "legendre"),
    "reflect: of matrices (..., m, n)": lambda x: op.linalg.reflect(
        x, op.zeros((3,), "float32"), op.zeros((2, 1), "float32")
    ),
    "there are more exchanges than rows\n  got: 3 of 2": lambda x: op.linalg.permutation(
        op.astype(x, "int32"), 2
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    x = relax.Var("x", TensorStructInfo((2, 3), "float32"))
    bb = relax.BlockBuilder()
    with pytest.raises(lw.LoopwrightError) as error, bb.function("main", [x]), bb.dataflow():
        bb.emit(REFUSED[message](x))
    assert message in str(error.value)
