"""Compiled models kept on disk: hits, misses, and models that are never kept."""

from __future__ import annotations

import dataclasses
import json
import mmap
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import loopwright as lw
from loopwright import relax
from loopwright.base.errors import LoopwrightError
from loopwright.base.host import OTHER, RECORDS, host, native_arch
from loopwright.base.registry import customised, is_own
from loopwright.codegen.llvm.cache import default_cache
from loopwright.driver import disk_cache
from loopwright.driver.options import Described
from loopwright.ir import transform
from loopwright.ir.op import Op
from loopwright.runtime.signature import few
from loopwright.runtime.vm import Machine

DEFAULT = "llvm -mcpu=native"
X = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)


@pytest.fixture(autouse=True)
def plain(monkeypatch, tmp_path, forgotten):
    """Nothing watches the passes, nothing is customised, and the cache is empty."""
    monkeypatch.setenv("LOOPWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("LOOPWRIGHT_CACHE", "1")
    transform.AFTER_PASS.remove("verify")
    for registry in customised():
        monkeypatch.setattr(registry, "_lost", {})
        for entry in registry.entries():
            if not is_own(entry.origin):
                registry.remove(entry.key)


def model(scale: float = 1.0) -> onnx.ModelProto:
    weight = numpy_helper.from_array(np.full((4, 2), scale, "float32"), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Relu", ["y"], ["z:0"]),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    made = helper.make_tensor_value_info("z:0", TensorProto.FLOAT, ["n", 2])
    graph = helper.make_graph(nodes, "g", [given], [made], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.fixture
def path(tmp_path) -> Path:
    file = tmp_path / "model.onnx"
    file.write_bytes(model().SerializeToString())
    return file


def entries(kind: str = "executables") -> list[Path]:
    return sorted(default_cache(kind).folder.glob("??/*"))


def result(exe) -> np.ndarray:
    return np.asarray(exe.run({"x": X})["z:0"])


def test_the_number_of_threads_is_no_part_of_what_is_kept(path):
    exes = [lw.compile(path, threads=n) for n in (2, 1, None)]
    assert [type(exe) for exe in exes] == [
        lw.driver.Executable,
        disk_cache.Restored,
        disk_cache.Restored,
    ]
    assert [exe.program.threads for exe in exes] == [2, 1, None]
    assert len({result(exe).tobytes() for exe in exes}) == 1 and len(entries()) == 1
    assert exes[1].profile(X).total_us > 0


def test_the_text_of_an_executable_is_short(path):
    says = "main(x float32[n, 4]) -> z:0 float32[n, 2]>"
    exes = [lw.compile(path), lw.compile(path)]
    assert [type(exe) for exe in exes] == [lw.driver.Executable, disk_cache.Restored]
    for exe in exes:
        assert repr(exe.program).startswith("<") and len(repr(exe.program)) < 250
        assert repr(exe).startswith("<Executable for llvm -keys=cpu -mcpu=native: ")
        assert repr(exe).endswith(says)
    assert few(range(9)) == "0, 1, 2, 3 and 5 more"


def test_a_second_compile_finds_the_first(path):
    first = lw.compile(path)
    assert not isinstance(first, disk_cache.Restored) and len(entries()) == 1
    second = lw.compile(str(path))
    assert isinstance(second, disk_cache.Restored)
    np.testing.assert_array_equal(result(second), result(first))
    np.testing.assert_allclose(result(second), np.maximum(X @ np.ones((4, 2)), 0), rtol=1e-6)
    assert second.inputs() == first.inputs() == [("x", "float32", ("n", 4))]
    assert second.outputs() == first.outputs() == [("z:0", "float32", ("n", 2))]
    assert second.function_names() == first.function_names()
    assert second.stats() == first.stats()
    with pytest.raises(ValueError, match="missing x"):
        second.run({"other": X})
    with pytest.raises(ValueError, match="dim|shape|4"):
        second["main"](np.zeros((3, 5), "float32"))


def test_a_described_module_is_built_once(path):
    built = []

    def described(text: str) -> Described:
        def build() -> object:
            built.append(text)
            return lw.frontend.onnx.from_onnx(onnx.load(path))

        return Described(text, build)

    first, again = (lw.compile(described("a location")) for _ in range(2))
    assert built == ["a location"]
    np.testing.assert_array_equal(result(first), result(again))
    lw.compile(described("another"))
    assert built == ["a location", "another"]
    assert again.mod is not None  # is built for it
    assert built[2:] == ["a location"]


def with_a_machine() -> onnx.ModelProto:
    """The columns of the elements that are not 0, times 2: how many there are, the run tells."""
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("NonZero", ["y"], ["places"]),
        helper.make_node("Add", ["places", "places"], ["z"]),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    made = helper.make_tensor_value_info("z", TensorProto.INT64, [2, None])
    graph = helper.make_graph(nodes, "g", [given], [made])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_a_model_that_the_virtual_machine_runs_is_kept(path):
    path.write_bytes(with_a_machine().SerializeToString())
    first, second = lw.compile(path), lw.compile(path, threads=1)
    assert first.machine and isinstance(second, disk_cache.Restored)
    for exe in (first, second):
        np.testing.assert_array_equal(exe.run({"x": X})["z"], 2 * np.array(np.nonzero(X > 0)))
    assert second.inputs() == first.inputs() and second.outputs() == first.outputs()
    assert second.function_names() == first.function_names()
    assert second.signature("main") == first.signature("main").plain()
    assert repr(second).partition("threads")[0] == repr(first)
    assert second.mod.script() == first.mod.script() and [*second.machine] == [*first.machine]
    assert len(second.profile(X)) == len(first.profile(X)) > 0


def test_a_program_that_calls_what_is_gone_is_compiled_anew(path, monkeypatch):
    path.write_bytes(with_a_machine().SerializeToString())
    lw.compile(path)

    def gone(self, name):
        raise ValueError(f"there is no {name}")

    place = disk_cache.entry_for(path, None, DEFAULT)
    with monkeypatch.context() as patch:
        patch.setattr(Machine, "_outside", gone)
        assert disk_cache.find(place, lambda: None) is None
    assert not entries()


def test_a_program_with_constants_that_are_not_written_is_not_kept(path, monkeypatch):
    def refused(program):
        raise TypeError("an object")

    monkeypatch.setattr(disk_cache, "to_bytes", refused)
    path.write_bytes(with_a_machine().SerializeToString())
    assert not isinstance(lw.compile(path), disk_cache.Restored) and not entries()
    assert not isinstance(lw.compile(path), disk_cache.Restored)


def test_what_is_not_kept_is_made_again(path):
    first, second = lw.compile(path), lw.compile(path)
    assert isinstance(second, disk_cache.Restored)
    assert second.mod.script() == first.mod.script()
    assert second.as_python() == first.as_python()
    assert second.as_text() == first.as_text()
    name = next(iter(first.program.texts))
    assert second.program.assembly(name) == first.program.assembly(name)
    assert len(second.profile(X)) == len(first.profile(X)) > 0
    third = lw.compile(path)
    path.write_bytes(model(2.0).SerializeToString())
    with pytest.raises(LoopwrightError, match="the model is not the one that was compiled"):
        _ = third.lowered


def test_another_process_loads_it_without_the_compiler(path):
    lw.compile(path)
    program = f"""
import sys
import numpy as np
import loopwright as lw
exe = lw.compile({str(path)!r})
print(np.asarray(exe.run([np.ones((2, 4), "float32")])["z:0"]).ravel().tolist())
heavy = ["loopwright.ir", "loopwright.tir", "loopwright.relax", "loopwright.driver.steps", "onnx"]
print([name for name in heavy if name in sys.modules])
"""
    source = str(Path(lw.__file__).parent.parent)
    # The same site-packages and search path as here: they are part of the key.
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["[4.0, 4.0, 4.0, 4.0]", "[]"]


def test_a_proto_is_kept_by_its_content():
    proto = model()
    first = lw.compile(proto)
    second = lw.compile(model())
    assert isinstance(second, disk_cache.Restored)
    np.testing.assert_array_equal(result(second), result(first))
    other = lw.compile(model(2.0))
    assert not isinstance(other, disk_cache.Restored)
    np.testing.assert_array_equal(result(other), 2 * result(first))
    proto.graph.node[0].op_type = "Gemm"
    assert (
        disk_cache.entry_for(proto, None, DEFAULT).key
        != disk_cache.entry_for(model(), None, DEFAULT).key
    )


def test_the_key_has_every_ingredient(path, monkeypatch):
    def key(target=None):
        return disk_cache.entry_for(path, target, DEFAULT).key

    seen = {key()}
    assert key() in seen and key(DEFAULT) in seen

    def is_new():
        made = key()
        fresh = made not in seen
        seen.add(made)
        return fresh

    assert key("llvm -mcpu=x86-64-v3") not in seen
    with lw.Target("llvm -mcpu=x86-64-v3"):
        assert is_new()
    with monkeypatch.context() as patch:
        known = disk_cache._software()
        patch.setattr(disk_cache, "_software", lambda: (*known[:-1], "another"))
        assert is_new()
    for change in ({"name": "another"}, {"flags": "-avx2"}, {"record": OTHER}):
        with monkeypatch.context() as patch:
            another = dataclasses.replace(host(), **change)
            patch.setattr(disk_cache, "host", lambda another=another: another)
            assert is_new(), change
    with monkeypatch.context() as patch:
        patch.setenv("LOOPWRIGHT_HOST_CPU", next(iter(RECORDS[native_arch()])))
        assert is_new()
    with monkeypatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: range(77), raising=False)
        assert is_new()
    with monkeypatch.context() as patch:
        patch.setenv("LOOPWRIGHT_NUM_THREADS", "7")
        assert is_new()
    with monkeypatch.context() as patch:
        patch.setattr(disk_cache, "_FORMAT", -1)
        assert is_new()
    with monkeypatch.context() as patch:
        patch.setenv("LOOPWRIGHT_CACHE_MB", "100")
        assert key() in seen, "the bound says nothing about the code"
    path.write_bytes(model(3.0).SerializeToString())
    assert is_new()


def test_the_package_s_sources_are_told_apart(tmp_path):
    file = tmp_path / "a.py"
    file.write_text("x = 1\n")
    os.utime(file, ns=(0, 1))
    first = disk_cache.state_of(file)
    assert disk_cache.state_of(file) == first
    os.utime(file, ns=(0, 2))
    assert disk_cache.state_of(file) != first
    file.write_text("x = 12\n")
    os.utime(file, ns=(0, 1))
    assert disk_cache.state_of(file) != first
    assert disk_cache.state_of() != first
    (tmp_path / ".#a.py").symlink_to("an editor's lock")
    assert disk_cache.state_of(*tmp_path.iterdir()) == disk_cache.state_of(file)


@pytest.mark.parametrize("kind", ["executables", "constants"])
@pytest.mark.parametrize("damage", ["torn", "flipped", "empty"])
def test_a_damaged_entry_is_a_miss(path, kind, damage):
    expected = result(lw.compile(path))
    (entry,) = entries(kind)
    data = bytearray(entry.read_bytes())
    if damage == "flipped":
        data[len(data) // 2] ^= 1
    entry.write_bytes({"torn": data[:-7], "flipped": data, "empty": b""}[damage])
    again = lw.compile(path)
    assert not isinstance(again, disk_cache.Restored)
    np.testing.assert_array_equal(result(again), expected)
    assert isinstance(lw.compile(path), disk_cache.Restored), "it was written anew"


@pytest.mark.parametrize("body", [b"", b"12345678", b"\x02" + bytes(7) + b"{}", b"\xff" * 64])
def test_an_entry_of_something_else_is_a_miss(path, body):
    place = disk_cache.entry_for(path, None, DEFAULT)
    default_cache("executables").put(place.key, body)
    assert disk_cache.find(place, lambda: None) is None
    assert entries() == [], "it is removed"
    assert not isinstance(lw.compile(path), disk_cache.Restored)
    assert isinstance(lw.compile(path), disk_cache.Restored), "it was written anew"


def changed(value: object, odd: object) -> Iterator[object]:
    """The value with each of its parts, in turn, replaced."""
    yield odd
    if isinstance(value, dict | list):
        for key, part in [*(value.items() if isinstance(value, dict) else enumerate(value))]:
            for other in changed(part, odd):
                copy = value.copy()
                copy[key] = other
                yield copy


ODD = {"null": None, "number": -1, "large": 1 << 62, "text": "x", "list": [[]], "object": {"a": 1}}


@pytest.mark.sample(2)
@pytest.mark.parametrize("made", [model, with_a_machine])
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_a_header_of_another_shape_is_a_miss(path, odd, made):
    path.write_bytes(made().SerializeToString())
    lw.compile(path)
    place, store = disk_cache.entry_for(path, None, DEFAULT), default_cache("executables")
    body = store.get(place.key)
    (length,) = struct.unpack_from("<Q", body)
    header, rest = json.loads(body[8 : 8 + length]), body[8 + length :]
    headers = [json.dumps(h).encode() for h in changed(header, odd)]
    assert len(headers) > 30
    for text in [*headers, b"[" * 100_000]:
        store.put(place.key, struct.pack("<Q", len(text)) + text + rest)
        found = disk_cache.find(place, lambda: None)
        if found is None:
            assert store.get(place.key) is None
        else:  # another name
            assert [*found.inputs(), *found.outputs()]


def test_an_object_that_cannot_be_loaded_is_a_miss(path):
    expected = result(lw.compile(path))
    place, store = disk_cache.entry_for(path, None, DEFAULT), default_cache("executables")
    body = store.get(place.key)
    for at in (body.index(b"\x7fELF") + 64, len(body) - 300):
        store.put(place.key, body[:at] + bytes(255 - k % 256 for k in range(at, len(body))))
        exe = lw.compile(path)
        assert not isinstance(exe, disk_cache.Restored)
        np.testing.assert_array_equal(result(exe), expected)
        assert store.get(place.key) == body


def test_a_model_compiles_without_a_folder_of_its_own(path, monkeypatch, tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("LOOPWRIGHT_CACHE_DIR", str(folder))
    with pytest.warns(RuntimeWarning, match="shared can be written by everybody"):
        lw.compile(path)
    assert not isinstance(lw.compile(path), disk_cache.Restored) and not [*folder.iterdir()]


def test_watched_and_customised_compilations_are_not_kept(path, monkeypatch, tmp_path):
    def place():
        return disk_cache.entry_for(path, None, DEFAULT)

    assert place() is not None
    with lw.trace():
        assert place() is None
    with lw.transform.PassContext(opt_level=3):
        assert place() is None
    with lw.transform.PassContext(instruments=[lw.instrument.PassTimingInstrument()]):
        assert place() is None
    with lw.transform.PassContext(config={"tir.disable_vectorize": True}):
        assert place() is None
    with monkeypatch.context() as patch:
        patch.setenv("LOOPWRIGHT_DUMP", str(tmp_path / "dump"))
        assert place() is None
    with monkeypatch.context() as patch:
        patch.setenv("LOOPWRIGHT_CACHE", "0")
        assert place() is None
    from loopwright.frontend.importers import IMPORTERS

    with IMPORTERS.snapshot():
        IMPORTERS.register("mine", lambda model: None)
        assert place() is None
    assert place() is not None
    assert entries() == []


@pytest.mark.parametrize(
    "change",
    [
        lambda: relax.register_legalize("test.kept", lambda bb, call: call),
        lambda: Op.get("relax.nn.relu").set_attr("test.kept", 1),
        lambda: lw.sched.apply.register_schedule_rule("test.kept", "test.kept")(lambda f, t: None),
        lambda: lw.frontend.onnx.register_converter("TestKept", 1, lambda cx, node, x: x, "test"),
    ],
    ids=["legalize", "op", "schedule", "converter"],
)
def test_a_registration_ends_it(path, change):
    assert disk_cache.entry_for(path, None, DEFAULT) is not None
    change()
    assert customised()
    assert disk_cache.entry_for(path, None, DEFAULT) is None
    assert not isinstance(lw.compile(path), disk_cache.Restored) and entries() == []


def test_the_package_does_not_customise_itself():
    program = """
import loopwright as lw
from loopwright.base.registry import customised, is_own
import loopwright.driver.steps, loopwright.frontend.nn, loopwright.script, loopwright.topi
lw.relax.op, lw.tir, lw.ops
print([(r.name, e.key) for r in customised() for e in r.entries() if not is_own(e.origin)])
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(lw.__file__).parent.parent)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_files_that_name_others_are_not_kept(path, tmp_path):
    proto = model()
    onnx.save_model(
        proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    assert disk_cache.entry_for(path, None, DEFAULT) is None
    assert disk_cache.entry_for(tmp_path / "none.onnx", None, DEFAULT) is None
    assert disk_cache.entry_for(lw.IRModule({}), None, DEFAULT) is None
    assert disk_cache.entry_for(path.with_suffix(".bin"), None, DEFAULT) is None


def test_a_model_that_changes_meanwhile_is_not_kept(path):
    place = disk_cache.entry_for(path, None, DEFAULT)
    exe = lw.compile(path)
    for entry in entries():
        entry.unlink()
    path.write_bytes(model(2.0).SerializeToString())
    disk_cache.keep(place, exe)
    assert entries() == []


def test_a_file_that_nobody_wrote_is_not_read_again(path, monkeypatch):
    os.utime(path, (1e9, 1e9))
    place = disk_cache.entry_for(path, None, DEFAULT)
    with monkeypatch.context() as patch:
        patch.setattr(disk_cache, "_content", lambda model: pytest.fail("it is read"))
        assert place.unchanged()
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert not place.unchanged()
    path.write_bytes(data)
    assert place.unchanged(), "what counts is the content"


def test_the_digest_of_a_file_that_nobody_wrote_is_kept(path, monkeypatch):
    os.utime(path, (1e9, 1e9))
    lw.compile(path)
    with monkeypatch.context() as patch:
        patch.setattr(disk_cache, "_digested", lambda *_: pytest.fail("it is read"))
        assert isinstance(lw.compile(path), disk_cache.Restored)
    path.write_bytes(model(2.0).SerializeToString())
    os.utime(path, (1e9, 1e9))
    assert not isinstance(lw.compile(path), disk_cache.Restored)


def test_constants_are_mapped_not_copied(path):
    lw.compile(path)
    (weight,) = lw.compile(path).program.constants.values()
    owner = weight
    while isinstance(owner, np.ndarray):
        owner = owner.base
    assert isinstance(owner.obj, mmap.mmap) and not weight.flags.writeable


def test_a_model_too_large_for_the_cache_is_not_read_for_it(path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_CACHE_MB", "1")
    assert disk_cache.entry_for(path, None, DEFAULT) is not None
    proto = model()
    proto.doc_string = "x" * (1 << 18)
    onnx.save(proto, path)
    assert disk_cache.entry_for(path, None, DEFAULT) is None
    assert not isinstance(lw.compile(path), disk_cache.Restored) and entries() == []


def test_many_write_at_once(path):
    exe = lw.compile(path)
    place = disk_cache.entry_for(path, None, DEFAULT)
    errors: list[Exception] = []

    def write() -> None:
        try:
            for _ in range(5):
                disk_cache.keep(place, exe)
                assert disk_cache.find(place, lambda: exe) is not None
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and len(entries()) == 1
    np.testing.assert_array_equal(result(lw.compile(path)), result(exe))


def test_what_is_too_large_for_the_folder_is_not_kept(path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_CACHE_MB", "0")
    lw.compile(path)
    assert entries() == []
