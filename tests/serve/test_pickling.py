"""Compiled models in pickles: every kind, what is checked where they arrive, and what is copied."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import cloudpickle
import numpy as np
import pytest

import loopwright as lw
from loopwright.base import host
from loopwright.base.errors import LoopwrightError
from loopwright.ir.prim_expr import Var
from loopwright.runtime import load_module
from loopwright.runtime.library import LoadedLibrary

from .models import batch, expected, mlp, module

FEW = 5


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Any:
    path = tmp_path_factory.mktemp("library") / "model.so"
    mlp().export_library(path)
    return load_module(path)


def _kinds(library: Any) -> dict[str, Any]:
    c_model = lw.compile(module(FEW), target="c")
    return {"llvm": mlp(), "library": library, "c": c_model, "c library": c_model.build()}


def test_each_kind_is_pickled_and_copied(library):
    x = batch(FEW)
    for kind, model in _kinds(library).items():
        before = np.asarray(model["main"](x))
        np.testing.assert_allclose(before, expected(x), rtol=1e-5, atol=1e-5)
        for protocol in range(2, 6):
            again = pickle.loads(pickle.dumps(model, protocol))
            again = pickle.loads(cloudpickle.dumps(again))  # and once more
            assert np.array_equal(again["main"](x), before), kind
        assert np.array_equal(copy.deepcopy(model)["main"](x), before)
        assert np.array_equal(copy.deepcopy(again)["main"](x), before)


def test_weights_are_out_of_band_and_stay_where_they_are():
    model = lw.compile(module(width=64, hidden=512))
    buffers: list[Any] = []
    data = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
    sizes = [b.raw().nbytes for b in buffers]
    assert len(data) < 64_000 and sum(sizes) > 64 * 512 * 4
    again = pickle.loads(data, buffers=buffers)
    own = {a.ctypes.data for a in model.program.constants.values() if a.nbytes >= 4096}
    assert own and own <= {a.ctypes.data for a in again.program.constants.values()}
    shifted = [np.empty(n + 1, np.uint8)[1:] for n in sizes]  # code assumes an alignment
    for room, buffer in zip(shifted, buffers, strict=True):
        room[:] = np.frombuffer(buffer, np.uint8)
    x = batch(FEW, 64)
    moved = pickle.loads(data, buffers=shifted)
    assert np.array_equal(moved["main"](x), model["main"](x))
    assert all(a.ctypes.data % 64 == 0 for a in moved.program.constants.values() if a.nbytes > 64)


def _run(model: Any, x: np.ndarray) -> np.ndarray:
    return np.asarray(model["main"](x))


@pytest.mark.budget(8)
@pytest.mark.parametrize(
    "method",
    ["fork", *(pytest.param(m, marks=pytest.mark.slow) for m in ("spawn", "forkserver"))],
)
def test_start_methods(method, library):
    x = batch(FEW)
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        for model in (mlp(), library):
            assert np.array_equal(pool.submit(_run, model, x).result(60), _run(model, x))


def test_what_arrives_describes_itself(library):
    model = mlp(threads=1)
    again = pickle.loads(pickle.dumps(model))
    assert again.inputs() == model.inputs() and again.outputs() == model.outputs()
    assert repr(again) == repr(model) and str(again.target) == str(model.target)
    assert again.program.threads == 1 and "main" in str(again.profile(batch(2)))
    with pytest.raises(LoopwrightError, match="from a pickle has no modules or texts"):
        again.mod
    assert copy.deepcopy(model).mod is model.mod  # in this process it has
    loaded = pickle.loads(pickle.dumps(library))
    assert isinstance(loaded, LoadedLibrary) and loaded.inputs() == library.inputs()


def test_a_damaged_pickle_is_refused(library):
    for model, size in ((mlp(), 3000), (library, 3000)):
        data = pickle.dumps(model, protocol=5)
        for end in (10, size, len(data) - 1):
            with pytest.raises((pickle.UnpicklingError, EOFError)):
                pickle.loads(data[:end])
        function, args = model.__reduce__()
        for k, value in enumerate(args):
            if isinstance(value, bytes):
                with pytest.raises(LoopwrightError, match="that can be loaded here"):
                    function(*args[:k], b"x" + value[1:], *args[k + 1 :])
    function, args = mlp().__reduce__()
    with pytest.raises(LoopwrightError, match=r"one of version 0\.0"):
        function("0.0", *args[1:])
    with pytest.raises(LoopwrightError, match="that can be loaded here"):
        function(*args[:4], args[4][:1])


def test_another_machine_is_refused(monkeypatch, library):
    data, stored = pickle.dumps(mlp()), pickle.dumps(library)
    here = host.this_machine()
    poor = replace(here, flags="-avx2,-fma,+sse2")
    monkeypatch.setattr(host, "this_machine", lambda: poor)
    if host.native_arch() == "x86_64":
        for pickled in (data, stored):
            with pytest.raises(LoopwrightError, match="a processor without avx2, fma"):
                pickle.loads(pickled)
    monkeypatch.setattr(host, "native_arch", lambda: "riscv64")
    with pytest.raises(LoopwrightError, match=r"code for \w+ on riscv64"):
        pickle.loads(data)


def test_code_for_less_than_this_machine_arrives():
    if host.native_arch() != "x86_64":
        pytest.skip("names a CPU of x86")
    model = mlp(target="llvm -mcpu=x86-64-v3")
    needs = pickle.loads(pickle.dumps(model)).needs.split("\n")
    assert "avx2" in needs and "avx512f" not in needs


def test_what_cannot_be_pickled(tmp_path):
    path = tmp_path / "model.so"
    mlp().export_library(path)
    loaded = load_module(path)
    path.unlink()
    with pytest.raises(LoopwrightError, match="was removed or written since it was loaded"):
        pickle.dumps(loaded)


def test_pointers_keep_their_types():
    """The variables of a C model's loops, which arrive with it."""
    pointer = Var("p", "handle", type_annotation=("float32", "global"))
    for twin in (pickle.loads(pickle.dumps(pointer)), copy.deepcopy(pointer)):
        assert twin.type_annotation == ("float32", "global") and twin.name == "p"
