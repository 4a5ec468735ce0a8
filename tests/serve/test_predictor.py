"""`Predictor`: batches of every kind, of any length, without copies, loaded once in a process."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.base.errors import LoopwrightError
from loopwright.frontend import nn
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T
from loopwright.serve import Predictor
from loopwright.serve import predictor as module_of

from .models import CLASSES, WIDTH, batch, expected, mlp, module


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_dicts_and_arrays():
    predict, x = Predictor(mlp()), batch(7)
    assert predict.rows == "n"
    close(predict({"x": x, "id": np.arange(7)})["out"], expected(x))
    close(predict(x), expected(x))
    close(predict(x.astype("float64")), expected(x))
    assert predict(x[:0]).shape == (0, CLASSES)
    with_id = Predictor(mlp(), outputs=["id", "out"])
    result = with_id({"x": x, "id": np.arange(7)})
    assert list(result) == ["id", "out"] and (result["id"] == np.arange(7)).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": batch(3)}, r"inputs are x float32\[n, 16\]\s+got: no x in y"),
        ({"x": batch(3)[:, :5]}, r"has shape\[1\] = 5, expected 16"),
        ({"x": batch(3)[0]}, "ndim 1, expected ndim 2"),
        ({"x": batch(3).astype(complex)}, r"`x` takes float32\s+got: values of complex128"),
        ({"x": np.array([["a"]])}, r"`x` takes float32\s+got: values of <U1"),
    ],
)
def test_what_does_not_fit(given, message):
    with pytest.raises(ValueError, match=message):
        Predictor(mlp())(given)
    with pytest.raises(
        ValueError, match=r"outputs are out\s+got: score, which the batch does not have"
    ):
        Predictor(mlp(), outputs=["score"])({"x": batch(2)})
    with pytest.raises(ValueError, match=r"has 1 inputs\s+got: 2 arrays"):
        Predictor(mlp())(batch(1), batch(1))
    with pytest.raises(TypeError, match="made of a path or a compiled model"):
        Predictor(3)
    with pytest.raises(FileNotFoundError, match="no such model"):
        Predictor("nowhere.so")


@pytest.mark.parametrize("count", [0, 1, 4, 9])
def test_a_fixed_number_of_rows_takes_any(count):
    predict, x = Predictor(mlp(4)), batch(count)
    assert predict.rows == 4
    result = predict({"x": x})["out"]
    assert result.shape == (count, CLASSES)
    close(result, expected(x))


@I.ir_module
class Address:
    @T.prim_func
    def address(x: T.handle, out: T.Buffer((1,), "int64")):
        n = T.int64()
        X = T.match_buffer(x, (n, 16), "float32")
        with T.block("address"):
            T.reads(X[0:n, 0:16])
            T.writes(out[0])
            T.evaluate(T.call_extern("int32", "address_of", X.data, out.data))

    @R.function
    def main(x: R.Tensor(("n", 16), "float32")) -> R.Tensor((1,), "int64"):
        return R.call_tir(Address.address, (x,), R.Tensor((1,), "int64"))


@pytest.mark.no_roundtrip  # the text of a module names its libraries
def test_no_copies(tmp_path):
    """Native code reads the batch at its own address, of read-only memory, too."""
    source = tmp_path / "address.c"
    source.write_text("int address_of(const float* x, long* out) { out[0] = (long)x; return 0; }")
    declared = ["int address_of(const float* x, int64_t* out)"]
    library = lw.ExternLibrary("address", declared, sources=[source])
    predict = Predictor(lw.compile(Address.with_attr("external_mods", [library])), threads=None)
    x = batch(8)
    assert predict(x)[0] == x.ctypes.data
    x.flags.writeable = False
    assert predict({"x": x})["out"][0] == x.ctypes.data
    mapped = np.memmap(tmp_path / "rows", "float32", "w+", shape=x.shape)
    mapped.flush()
    mapped = np.memmap(tmp_path / "rows", "float32", "r", shape=x.shape)
    assert predict(mapped)[0] == mapped.ctypes.data
    assert predict(x[:, ::-1])[0] != x.ctypes.data  # an order that code does not read


def test_pickles_share_one_model(tmp_path):
    path, x = tmp_path / "model.so", batch(5)
    mlp().export_library(path)
    for predict in (Predictor(mlp()), Predictor(path)):
        again = pickle.loads(pickle.dumps(predict))
        assert again.model is predict.model
        assert np.array_equal(again(x), predict(x))
    assert len(pickle.dumps(Predictor(path))) < 1000
    module_of._LOADED.clear()
    other = pickle.loads(pickle.dumps(again))
    assert other.model is not again.model and np.array_equal(other(x), again(x))
    copy = tmp_path / "copy.so"
    copy.write_bytes(path.read_bytes())
    assert Predictor(copy).model is Predictor(path).model  # the same content
    assert Predictor(path, threads=None).model is not Predictor(path).model


def test_threads_at_once():
    predict, inputs = Predictor(mlp()), [batch(n) for n in range(1, 60)]
    with ThreadPoolExecutor(8) as pool:
        for x, result in zip(inputs, pool.map(predict, inputs), strict=True):
            close(result, expected(x))


class Counter(nn.Module):
    def __init__(self) -> None:
        self.count = nn.Parameter((1,), "float32")

    def main(self, x: nn.Tensor, y: nn.Tensor) -> Any:
        return x + y, x * y


def test_several_inputs_and_outputs():
    spec = {"main": {n: nn.spec.Tensor(["n", 3], "float32") for n in "xy"}}
    mod, _ = Counter().export_tvm(spec)
    bound = relax.transform.BindParams("main", {"count": np.zeros(1, "float32")})(mod)
    predict = Predictor(lw.compile(bound))
    x = np.arange(6, dtype="float32").reshape(2, 3)
    first, second = predict(x, x).values()
    assert np.array_equal(first, x + x) and np.array_equal(second, x * x)


def test_state_is_refused():
    model = lw.compile(module())
    model.border.state = object()
    with pytest.raises(LoopwrightError, match="write its buffers"):
        Predictor(model, threads=None)


def test_pandas():
    pandas = pytest.importorskip("pandas")
    x, predict = batch(6), Predictor(mlp(), outputs=["id", "out"])
    wide = pandas.DataFrame(x.astype("float64"), index=list("abcdef")).assign(id=range(6))
    listed = pandas.DataFrame({"id": range(6), "x": list(x)}, index=list("abcdef"))
    for frame in (wide, listed):
        result = predict(frame)
        assert list(result.columns) == ["id", "out"] and list(result.index) == list("abcdef")
        close(np.stack(result["out"]), expected(x))


def test_arrow():
    arrow = pytest.importorskip("pyarrow")
    x = batch(6)
    column = arrow.FixedSizeListArray.from_arrays(x.reshape(-1), WIDTH)
    assert np.shares_memory(module_of._of_arrow(column), x)  # read where it is
    table = arrow.table({"x": column, "id": list(range(6))})
    parts = arrow.concat_tables([table.slice(0, 4), table.slice(4)])
    for batch_of in (table, parts, table.to_batches()[0]):
        result = Predictor(mlp(), outputs=["id", "out"])(batch_of)
        assert type(result) is type(batch_of) and result.column("id").to_pylist() == list(range(6))
        close(np.stack(result.column("out").to_pylist()), expected(x))
