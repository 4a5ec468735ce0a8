"""What the functions of compiled programs give and refuse, called by name."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from loopwright.runtime import ShapeTuple, Tensor, empty, get_global_func, tensor
from loopwright.runtime.vm.builtins import view_of
from loopwright.runtime.vm.dynamic_sizes import mel_weight_matrix
from loopwright.runtime.vm.paged_cache import Kernels, PagedKVCache, Rope

Shape = ShapeTuple


def run(name: str, *args: Any) -> Any:
    """A function's result, arrays as lists."""

    def plain(value: Any) -> Any:
        if isinstance(value, (Tensor, np.ndarray)):
            return np.asarray(value).tolist()
        return [plain(v) for v in value] if isinstance(value, list) else value

    full = name if "." in name else f"vm.builtin.{name}"
    return plain(get_global_func(full)(*args))


def ints(*values: int) -> Tensor:
    return tensor(np.array(values, "int64"))


def ramp(*shape: int) -> Tensor:
    return tensor(np.arange(np.prod(shape), dtype="float32").reshape(shape))


def words(*texts: str) -> np.ndarray:
    return np.array([*texts, None], object)[:-1]


X = ramp(2, 3, 4)
S = Shape((2, 3, 4))


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (("check_tensor_info", X, 3, "float32", ""), None),
        (("check_tensor_info", X, 3, "void", ""), None),
        (("check_tensor_info", X, 2, ""), "ndim 2\n  got: 3, shape .2, 3, 4"),
        (("check_shape_info", Shape((2, 3)), -1), None),
        (("check_shape_info", Shape((2, 3)), 1, "at "), "at the shape must have ndim 1"),
        (("check_prim_value_info", True, "bool"), None),
        (("check_prim_value_info", 1, "bool"), None),
        (("check_prim_value_info", 1.0, "bool"), "a number of bool"),
        (("check_prim_value_info", 2, "float16"), None),
        (("check_prim_value_info", "2", "int64", "at "), "at expected a number of int64"),
        (("check_tuple_info", Shape((2, 3)), 2), "expected a tuple"),
        (("make_tuple", 1, "b"), [1, "b"]),
        (("make_tuple",), []),
        (("check_tuple_info", [1.5, "b"], 3, "at "), "at the tuple must have 3 elements\n  got: 2"),
        (("shape_of", X), (2, 3, 4)),
        (("shape_of", S), (2, 3, 4)),
        (("shape_of", 3), "a tensor or shape"),
        (("match_shape", X, None, 3, 0, 2, 2, 0, 0, 4, ""), None),
        (("match_shape", X, None, 3, 0, 2, 2, 0, 0, 5, "at"), "at dimension 2 must be 5\n  got: 4"),
        (("match_shape", X, None, 2, "at"), "at the value must have ndim 2\n  got: .*2, 3, 4"),
        (("match_prim_value", 4, None, 0, 4), None),
        (("match_prim_value", 4, None, 0, 3, "at"), "at the value must be 3\n  got: 4"),
        (("make_shape", None, 2, 0, 7, 0, 8), (7, 8)),
        (("tensor_to_shape", X), "integers"),
        (("relax.run.sizes", tensor(np.array([[2.0, 0.0]]))), (2, 0)),
        (("relax.run.sizes", ints(2, -1)), "a size may not be negative\n  got: .2, -1"),
        (("relax.run.reshape_sizes", X, ints(0, -1), False), (2, 12)),
        (("relax.run.reshape_sizes", X, ints(4, 0, 2), False), (4, 3, 2)),
        (("relax.run.reshape_sizes", X, ints(24), True), (24,)),
        (("relax.run.reshape_sizes", X, ints(0, 12), True), "cannot be reshaped\n  got: .0, 12"),
        (("relax.run.reshape_sizes", X, ints(-1, -1), False), "cannot be reshaped"),
        (("relax.run.reshape_sizes", X, ints(-1, 5), False), "cannot be reshaped"),
        (("relax.run.reshape_sizes", X, ints(-1, -2), False), "cannot be reshaped"),
        (("relax.run.reshape_sizes", X, ints(2, 3, 4, 0), False), "cannot be reshaped"),
        (("relax.run.reshape_sizes", ramp(0, 3), ints(5, -1), False), (5, 0)),
        (("relax.run.reshape_sizes", ramp(0, 3), ints(0, -1), False), "cannot be reshaped"),
        (("relax.run.shape_to_tensor", S), [2, 3, 4]),
        (("ensure_zero_offset", X), X.numpy().tolist()),
        (("tensor_dtype_code", X), 2),
        (("tensor_dtype_bits", X), 32),
        (("tensor_dtype_lanes", X), 1),
        (("tensor_ndim", X), 3),
        (("tensor_shape_i", X, 0), 2),
        (("tensor_shape_i", X, 2), 4),
        (("tensor_shape_i", X, 3), "no axis 3\n  got: 3 dimensions"),
        (("tensor_shape_i", X, -1), "no axis -1"),
        (("tensor_stride_i", X, 0), 12),
        (("tensor_byte_offset", X), 0),
        (("to_device", X, 1, 0), X.numpy().tolist()),
        (("null_value",), None),
        (("read_if_cond", 0), False),
        (("read_if_cond", tensor(np.array([[2.5]]))), True),
        (("read_if_cond", tensor(np.array([0]))), False),
        (("read_if_cond", ints(1, 1)), "a tensor of one number\n  got: shape .2,"),
        (("read_bool", tensor(np.array(True))), True),
        (("tuple_getitem", [5, "b"], 1), "b"),
        (("tuple_reset_item", [5, "b"], 0), 5),
        (("invoke_debug_func", 3, "test.builtins.none", "line"), "cannot find global function"),
        (("relax.run.stack", None, Shape((2, 3)), "int32"), []),
        (("relax.run.stack", [[None, ints(1, 2)], ints(3, 4)], Shape((2,)), "int64"), [[1, 2], [3, 4]]),
        (("relax.run.stack", [[None, ints(1, 2)], ints(3)], Shape((2,)), "int64"), "the same shape"),
        (("relax.run.stack", [[None, words("a")], words("b")], Shape((1,)), "object"), [["a"], ["b"]]),
        (("multinomial_from_uniform", ramp(2, 2), tensor(np.array([[0.5], [0.5]])), ints(1, 0)),
         [[0], [1]]),
    ],
)  # fmt: skip
def test_values(call, wanted):
    check(call, wanted)


def check(call: tuple[Any, ...], wanted: Any) -> None:
    """A call gives a value, or is refused with a message (a text)."""
    refused = isinstance(wanted, str) and "get" not in call[0] and "reset" not in call[0]
    if not refused:
        assert run(*call) == wanted
        return
    with pytest.raises((ValueError, TypeError), match=wanted):
        run(*call)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (("opened_sizes", S, ints(0, -1), False), (1, 2, 3, 1, 1, 4)),
        (("opened_sizes", S, ints(), False), (1, 2, 1, 3, 1, 4)),
        (("opened_sizes", S, ints(), True), (2, 1, 3, 1, 4, 1)),
        (("kept_sizes", S, ints(1), False), (2, 4)),
        (("kept_sizes", S, ints(), False), ()),
        (("kept_sizes", S, ints(), True), (2, 3, 4)),
        (("kept_sizes", S, ints(-4), False), "axes of a tensor of rank 3\n  got: .-4"),
        (("kept_sizes", S, ints(3), False), "axes of a tensor of rank 3"),
        (("kept_sizes", S, ints(0, -3), False), "axes of a tensor of rank 3"),
        (("squeezed_sizes", Shape((1, 3, 1)), ints(0, -1)), (3,)),
        (("squeezed_sizes", Shape((1, 3, 1)), ints(1)), "must have extent 1"),
        (("lasting_sizes", Shape((1, 3)), Shape((3,))), (3,)),
        (("lasting_sizes", Shape((1, 3)), Shape((1, 3))), "Squeeze without axes"),
        (("unsqueezed_sizes", Shape((5, 6)), ints(0, -1)), (1, 5, 6, 1)),
        (("sizes_around", S, ints(1)), (2, 3, 4)),
        (("sizes_around", S, ints(-1)), (6, 4, 1)),
        (("sizes_around", S, ints(0, 1)), "a tensor of one number"),
        (("sizes_with", S, ints(0), 7, 9), (7, 3, 9)),
        (("sizes_with", S, ints(1), 7, 9), (2, 7, 9)),
        (("sizes_with", S, ints(2), 7, 9), "not the last one"),
        (("within", ints(0), 5), (0,)),
        (("within", ints(5), 5), (5,)),
        (("within", ints(6), 5), "a number from 0 to 5\n  got: 6"),
        (("within", ints(-1), 5), "a number from 0 to 5"),
        (("broadcast_sizes", Shape((3, 1)), ints(2, 1, 4)), (2, 3, 4)),
        (("broadcast_sizes", Shape((3, 1)), ints(2, 4)), "cannot be expanded"),
        (("range_count", ints(0), ints(7), ints(3)), (3,)),
        (("range_count", ints(0), ints(6), ints(3)), (2,)),
        (("range_count", ints(6), ints(0), ints(-4)), (2,)),
        (("range_count", ints(6), ints(0), ints(1)), (0,)),
        (("range_count", ramp(1), tensor(np.array(1.0)), tensor(np.array(0.25))), (4,)),
        (("range_count", ramp(1), tensor(np.array(1.0)), tensor(np.array(0.3))), (4,)),
        (("range_count", ints(0), ints(6), ints(0)), "a step that is not 0"),
        (("range_count", ramp(1), tensor(np.array(np.inf)), ints(1)), "finite bounds"),
        (("pads", ints(1, 2, 3, 4), ints(0, -1), 3), (1, 0, 2, 3, 0, 4)),
        (("pads", ints(1, 2, 3), ints(0), 3), "two widths for each axis"),
        (("pad", ramp(1, 3), ints(0, 1, 0, 2), "edge"), [[0, 0, 1, 2, 2, 2]]),
        (("pad", ramp(1, 3), Shape((0, -1, 1, 0)), "edge"), [[1, 2], [1, 2]]),
        (("pad", ramp(1, 3), Shape((0, 2, 0, -1)), "wrap"), [[0, 1, 0, 1]]),
        (("pad", ramp(1, 3), ints(0, 1, 0), "edge"), "two widths for each axis"),
        (("pad", ramp(3), ints(1, 0), "reflect"), [1, 0, 1, 2]),
        (("pad", ramp(3), ints(1, 0, 0), "edge"), "two widths for each axis\n  got: .*for rank 1"),
        (("sizes", tensor(np.array([[2.0], [3.0]]))), (2, 3)),
        (("pad", ramp(1, 0), ints(0, 1, 0, 0), "edge"), "cannot be padded"),
        (("slice", ramp(2, 5), ints(1), ints(9), ints(-1)), [[1, 2, 3, 4], [6, 7, 8, 9]]),
        (("slice", ramp(1, 5), ints(-9), ints(-3), ints(1)), [[0, 1]]),
        (("slice", ramp(1, 5), ints(9), ints(-9), ints(1), ints(-2)), [[4, 2, 0]]),
        (("slice", ramp(1, 5), ints(-1), ints(0), ints(1), ints(-1)), [[4, 3, 2, 1]]),
        (("slice", ramp(1, 5), ints(-9), ints(-9), ints(1), ints(-1)), [[0]]),
        (("slice", ramp(1, 5), ints(3), ints(1), ints(1)), [[]]),
        (("slice", ramp(1, 0), ints(0), ints(4), ints(1), ints(-1)), [[]]),
        (("slice", ramp(1, 5), ints(0), ints(4), ints(1), ints(0)), "a step may not be 0"),
        (("slice", ramp(1, 5), ints(0, 1), ints(4), ints(1)), "must have one length"),
        (("slice", ramp(1, 5), ints(0), ints(4), ints(1), ints(1, 1)), "must have one length"),
        (("resized_sizes", Shape((4, 5)), ramp(2), False, "stretch"), "one positive number per axis"),
        (("resized_sizes", Shape((4, 5)), ints(2), False, "stretch"), "one positive number"),
        (("resized_sizes", Shape((4, 5)), ints(8, 1 << 31), False, "stretch"), "positive"),
        (("resized_sizes", Shape((4, 5)), ints(8, 5), False, "stretch"), (8, 5)),
        (("resized_sizes", Shape((4, 5)), ints(8, 5), False, "not_larger"), (4, 5)),
        (("resized_sizes", Shape((4, 5)), ints(8, 5), False, "not_smaller"), (8, 10)),
        (("resized_sizes", Shape((4, 5)), ints(2, 3), False, "not_smaller"), (2, 3)),
        (("resized_sizes", Shape((4, 5)), tensor(np.float32([1.5, 0.3])), True, "stretch"), (6, 1)),
        (("resized_sizes", Shape((4,)), tensor(np.float32([2])), True, "", tensor([0.25, 1.0])), (6,)),
        (("resize_places", Shape((4, 0)), ints(2, 3), False, "stretch"),
         [[0.5, 0, 1], [1, 0, 1]]),
        (("resize_places", Shape((4, 6)), ints(2, 2), False, "not_larger"),
         [[1 / 3, 0, 1], [1 / 3, 0, 1]]),
        (("resize_places", Shape((4,)), tensor(np.float32([2])), True, "", tensor([0.25, 1.0])),
         [[2, 0.25, 1]]),
    ],
)  # fmt: skip
def test_sizes_of_the_run(call, wanted):
    check((f"relax.run.{call[0]}", *call[1:]), wanted)


ABC = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (("sequence_at", ABC, ints(2)), "=c"),
        (("sequence_at", ABC, ints(-3)), "=a"),
        (("sequence_at", ABC, ints(3)), "out of range\n  got: 3 of 3"),
        (("sequence_at", ABC, ints(-4)), "out of range"),
        (("sequence_at", "abc", ints(0)), "a sequence of values\n  got: str"),
        (("sequence_insert", ABC, "x"), ["a", "b", "c", "x"]),
        (("sequence_insert", ABC, "x", ints(1)), ["a", "x", "b", "c"]),
        (("sequence_insert", ABC, "x", ints(3)), ["a", "b", "c", "x"]),
        (("sequence_insert", ABC, "x", ints(0)), ["x", "a", "b", "c"]),
        (("sequence_insert", ABC, "x", ints(-1)), ["a", "b", "x", "c"]),
        (("sequence_insert", ABC, "x", ints(4)), "out of range\n  got: 4 of 3"),
        (("sequence_insert", ABC, "x", ints(-3)), ["x", "a", "b", "c"]),
        (("sequence_insert", ABC, "x", ints(-4)), "out of range"),
        (("sequence_insert", [], "x", ints(0)), ["x"]),
        (("sequence_erase", ABC), ["a", "b"]),
        (("sequence_erase", ABC, ints(0)), ["b", "c"]),
        (("sequence_erase", ABC, ints(-2)), ["a", "c"]),
        (("sequence_erase", ABC, ints(3)), "out of range"),
        (("sequence_length", ABC), 3),
        (("sequence_joined", [ints(1), ints(2)], 0, True), [[1], [2]]),
        (("sequence_joined", [ints(1), ints(2)], 0, False), [1, 2]),
        (("sequence_joined", [ints(1), ints(2, 3)], 0, True), "cannot be joined"),
        (("sequence_split", ints(1, 2, 3), tensor(np.array(2)), 0, True), [[1, 2], [3]]),
        (("sequence_split", ints(1, 2, 3), tensor(np.array(1)), 0, True), [[1], [2], [3]]),
        (("sequence_split", ints(1, 2), tensor(np.array(1)), 0, False), [1, 2]),
        (("sequence_split", ints(1, 2, 3), ints(1, 0, 2), 0, True), [[1], [], [2, 3]]),
        (("sequence_split", ints(), tensor(np.array(2)), 0, True), []),
        (("sequence_split", ints(1, 2), tensor(np.array(0)), 0, True), "must be positive"),
        (("sequence_split", ints(1, 2), ints(1, 2), 0, True), "must add up to 2"),
        (("sequence_split", ints(1, 2), ints(3, -1), 0, True), "must add up to 2"),
        (("has_element", None), False),
        (("has_element", 0), True),
        (("element", "x"), "=x"),
        (("element", None), "an optional value is empty"),
        (("rows_as_maps", ramp(2, 2), '["p", "q"]'), [{"p": 0, "q": 1}, {"p": 2, "q": 3}]),
        (("rows_as_maps", ramp(2), '["p", "q"]'), [{"p": 0, "q": 1}]),
        (("rows_as_maps", ramp(2, 2), '["p"]'), "a number for each of 1 keys"),
        (("numbers_of_map", {"q": 2}, '["p", "q"]', "int64"), [[0, 2]]),
        (("numbers_of_map", [2], '["p"]', "int64"), "a map is a dict"),
        (("values_of_map", {3: "1.5", 0: 2}, -1, "float32"), [[2, 1.5]]),
        (("values_of_map", {3: 1, 0: 2}, 3, "float32"), [[2, 0, 0]]),
        (("values_of_map", [2], 3, "float32"), "a map is a dict"),
        (("pool", words("b", "a"), words("b")), ["", "a", "b"]),
        (("places", words("b", "a", "b"), words("b", "c", "a")), [0, -1, 1]),
        (("places", ints(1), words("b")), "a tensor of texts"),
        (("texts_at", words("b", "a"), ints(1, -1, 0)), ["a", "a", "b"]),
        (("texts_joined", words("b", "a"), words("x")), ["bx", "ax"]),
        (("texts_split", words("a b  c", " "), "", 1), [[["a", "b  c"], ["", ""]], [2, 0]]),
        (("texts_split", words("a,b", "c"), ",", -1), [[["a", "b"], ["c", ""]], [2, 1]]),
        (("texts_match", words("ab", "abc"), "ab|b"), [True, False]),
        (("texts_normalized", words("A", "b", "B"), "LOWER", True, '["B"]'), ["a", "b"]),
        (("texts_normalized", words("A", "b", "B"), "NONE", False, '["B"]'), ["A"]),
        (("texts_normalized", words("a")[None], "UPPER", True, '["a"]'), [[""]]),
        (("texts_normalized", words("a", "b")[:, None], "UPPER", True, "[]"), "shape .n,"),
        (("texts_normalized", words("a").reshape(()), "UPPER", True, "[]"), "shape .n,"),
        (("texts_of", tensor(np.array([True, False]))), ["1", "0"]),
        (("texts_of", tensor([0.5, 2.0, np.nan, np.inf, -np.inf])), ["0.5", "2", "NaN", "INF", "-INF"]),
        (("numbers_in", words("2.7", "3"), "int64"), [2, 3]),
        (("numbers_in", words("2.5"), "float32"), [2.5]),
        (("numbers_in", words("inf"), "int32"), "a text is not a number"),
    ],
)  # fmt: skip
def test_sequences_maps_and_texts(call, wanted):
    name, *args = call
    if isinstance(wanted, str) and wanted[0] != "=":
        with pytest.raises((ValueError, TypeError), match=wanted):
            run(f"relax.run.{name}", *args)
    else:
        assert run(f"relax.run.{name}", *args) == (
            wanted[1:] if isinstance(wanted, str) else wanted
        )


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ({"separators": [""], "least": 1, "marked": False}, [["a", "b", " ", "c"]]),
        ({"separators": [" "], "least": 1, "marked": True}, [["\x02", "ab", "c", "\x03"]]),
        ({"separators": [" ", "b"], "least": 0, "marked": False}, [["a", "", "c"]]),
        ({"separators": [" "], "least": 2, "marked": False}, [["ab"]]),
        ({"separators": [" "], "least": 3, "marked": True}, [[]]),
        ({"separators": [], "token": "a|ab", "least": 1, "marked": False}, [["ab"]]),
    ],
)
def test_tokens(how, wanted):
    data = {"token": "", "filler": "#", **how}
    texts = words("ab c")[None]
    found = np.asarray(get_global_func("relax.run.texts_tokens")(texts, json.dumps(data)))
    assert found.shape == (1, 1, len(wanted[0])) and found[0].tolist() == wanted


def test_tokens_are_filled_up():
    data = {"separators": [" "], "token": "", "filler": "#", "least": 1, "marked": False}
    call = get_global_func("relax.run.texts_tokens")
    assert call(words("a b", "c"), json.dumps(data)).tolist() == [["a", "b"], ["c", "#"]]
    with pytest.raises(ValueError, match=re.escape("texts of shape (c,) or (n, c)")):
        call(words("a").reshape(1, 1, 1), json.dumps(data))


@pytest.mark.parametrize(
    ("mode", "weights", "wanted"),
    [
        ("TF", [2, 5], [0, 3, 3]),
        ("IDF", [2, 5], [0, 2, 5]),
        ("TFIDF", [2, 5], [0, 6, 15]),
        ("TFIDF", None, [0, 3, 3]),
    ],
)
def test_counts_of_grams(mode, weights, wanted):
    """Of 1, and of 1 with 2 behind it, or behind the next one."""
    data = {"grams": [[1], [1, 2]], "columns": [1, 2], "weights": weights, "mode": mode}
    how = json.dumps({**data, "lengths": [1, 2], "skips": 1})
    row = ints(1, 2, 1, 1, 2)
    assert run("relax.run.count_grams", row, how) == wanted
    rows = tensor(np.array([row.numpy(), [1, 1, 2, 3, 1], [3, 3, 3, 3, 2]]))
    first, second, third = run("relax.run.count_grams", rows, how)
    assert first == wanted and third == [0, 0, 0]
    weight = dict(zip(("one", "both"), weights or (1, 1), strict=True))
    times = [3, 2] if mode != "IDF" else [1, 1]
    scale = [1, 1] if mode == "TF" else [weight["one"], weight["both"]]
    assert second == [0, times[0] * scale[0], times[1] * scale[1]]
    once = json.dumps({**data, "lengths": [2, 2], "skips": 0})
    counts = {"TF": 1, "IDF": (weights or (1, 1))[1], "TFIDF": (weights or (1, 1))[1]}
    assert run("relax.run.count_grams", ints(1, 2), once) == [0, 0, counts[mode]]
    rare = json.dumps({**data, "lengths": [2, 2], "skips": 0})
    assert [n > 0 for n in run("relax.run.count_grams", row, rare)] == [False, False, True]


def test_memory():
    storage = get_global_func("vm.builtin.alloc_storage")
    alloc = get_global_func("vm.builtin.alloc_tensor")
    place = storage(None, Shape([6]))
    assert (place.data.nbytes, place.scope) == (6, "global")
    assert storage(None, Shape([3]), 0, "int4").data.nbytes == 2
    assert storage(None, Shape([3, 2]), 0, "float64").data.nbytes == 48
    assert alloc(place, 2, Shape([4]), "uint8").shape == (4,)  # up to the end
    with pytest.raises(ValueError, match="at byte 3 does not fit\n  got: a storage of 6 bytes"):
        alloc(place, 3, Shape([4]), "uint8")
    with pytest.raises(TypeError, match="expected a storage"):
        alloc(X, 0, Shape([1]), "uint8")
    assert alloc(place, 0, Shape([3]), "int4").dtype == "int4"
    part = X._create_view((2,), None, 8)
    assert run("tensor_byte_offset", part) == 8 and run("tensor_elem_offset", part) == 2
    moved = get_global_func("vm.builtin.ensure_zero_offset")(part)
    assert moved.numpy().tolist() == [2, 3] and run("tensor_byte_offset", moved) == 0
    assert get_global_func("vm.builtin.ensure_zero_offset")(X) is X
    assert get_global_func("runtime.TVMArrayCreateView")(X).data_ptr() == X.data_ptr()


def test_calls(capsys):
    make, call = (get_global_func(f"vm.builtin.{n}") for n in ("make_closure", "call_tir_dyn"))
    assert make(lambda *a: list(a), 7, 8)(1) == [1, 7, 8]

    class Machine:
        def callable(self, function):
            return {"f": lambda *a: list(a)}[function]

    assert make(Machine(), "f", 9)(1) == [1, 9]
    assert get_global_func("vm.builtin.invoke_closure")(Machine(), "f", 1, 2) == [1, 2]
    assert call(Machine(), "f", 1, Shape((2, 3))) == [1, 2, 3]
    assert call(Machine(), "f", Shape((2, 3)), 1) == [(2, 3), 1] and call(Machine(), "f") == []
    run("debug_print", "a.py:3", [ints(1, 2), 3])
    run("relax.run.print", "{} and {}", [ints(1)], ints(2))
    run("relax.run.print", "", ints(3), [1, ints(2)])
    shown = ["[a.py:3] (array([1, 2]), 3)", "([1],) and [2]", "[3] (1, [2])"]
    assert capsys.readouterr().out.splitlines() == shown
    run("relax.run.assert_op", tensor(np.array([True])), "")
    for condition, text, message in (
        (tensor(np.array([True, False])), "{} is small", "3 is small"),
        (False, "", "Assertion Failed: 3"),
    ):
        with pytest.raises(AssertionError, match=f"^{message}$"):
            run("relax.run.assert_op", condition, text, 3)
    with pytest.raises(AssertionError, match="^Assertion Failed$"):
        run("relax.run.assert_op", 0, "")


@pytest.mark.parametrize(
    ("least", "most", "tokens", "given", "wanted"),
    [
        (1, 3, [9], (0, [1, 2, 9]), ([9, 1, 2, 9], 4)),  # up to the first that differs
        (1, 3, [9], (2, [3, 9]), ([9, 3, 9], 4)),
        (1, 3, [9], (5, [2]), ([9, 2], 5)),  # 2 is there twice, 9 2 once
        (1, 1, [9], (5, [2]), ([9, 2], -1)),
        (2, 2, [9, 1], (0, [1, 2, 3]), ([9, 1, 1, 2, 3], 3)),
        (1, 1, [3], (), ([3], 3)),
        (1, 1, [2], (), ([2], -1)),
        (1, 2, [1, 2], (), ([1, 2], 2)),
        (1, 2, [8], (), ([8], -1)),
        (1, 1, [3], (6, [1]), "is an index into the source\n  got: 6\n  instead: 0 to 5"),
        (1, 1, [3], (-1, [1]), "is an index into the source\n  got: -1"),
    ],
)  # fmt: skip
def test_predicted_tokens(least, most, tokens, given, wanted):
    start, *predicted = given or (0,)
    args = (ints(1, 2, 3, 9, 2), ints(*tokens), ints(start), *(ints(*p) for p in predicted))
    if isinstance(wanted, str):
        with pytest.raises(ValueError, match=wanted):
            run("relax.run.bifurcation", least, most, *args)
    else:
        made, end = get_global_func("relax.run.bifurcation")(least, most, *args)
        assert (made.numpy().tolist(), int(end.numpy())) == wanted


def test_filters_that_are_too_many():
    """Before any is made; a rate of 0 stops the largest that are taken, too."""
    args = [np.array(v, "float32") for v in (0, 20, 4000)]
    with pytest.raises(MemoryError, match="131072 filters of 131072 numbers"):
        mel_weight_matrix(np.array(1 << 17), np.array(1 << 17), *args)
    with pytest.raises(ValueError, match="a sample rate is positive"):
        mel_weight_matrix(np.array((1 << 17) - 1), np.array(1 << 17), *args)


def test_rows_that_grow():
    create, append, view = (
        get_global_func(f"vm.builtin.attention_kv_cache_{n}") for n in ("create", "append", "view")
    )
    cache = create(ramp(2, 1), Shape([3, 1]), 2)
    assert append(cache, ramp(1, 1)).rows.shape == (3, 1)  # it has room
    assert append(cache, ramp(1, 1)).rows.shape == (6, 1)  # doubled
    assert append(cache, ramp(9, 1)).rows.shape == (13, 1)
    assert view(cache, Shape([13])).numpy().tolist() == [0, 1, 0, 0, *range(9)]
    with pytest.raises(ValueError, match="holds 13 elements\n  got: a view of 12"):
        view(cache, Shape([12]))
    cut = create(ramp(4, 1), Shape([2, 1]), 1)
    assert view(cut, Shape([1, 1])).numpy().tolist() == [[0]]
    turn = get_global_func("vm.builtin.attention_kv_cache_window_override")
    ring = create(empty((0, 1)), Shape([3, 1]), 0)
    turn(ring, ramp(2, 1), 3)
    assert view(ring, Shape([2, 1])).numpy().tolist() == [[0], [1]]
    turn(ring, ramp(2, 1), 3)
    assert view(ring, Shape([3, 1])).numpy().tolist() == [[1], [1], [0]]


def test_pages():
    """One head of one channel, with kernels in Python; what has no kernel is done by numpy."""

    def split(qkv, positions, q, k, v, rotated):
        for n, out in enumerate((q, k, v)):
            view_of(out)[:, 0, 0] = view_of(qkv)[0, :, n]

    def append(pages, k, v, slots):
        page, token = np.divmod(view_of(slots), 2)
        view_of(pages)[page, 0, 0, token], view_of(pages)[page, 1, 0, token] = (
            view_of(x)[:, 0] for x in (k, v)
        )

    seen = []

    def prefill(q, starts, pages, page_starts, ids, last, zeros, positions, out, logs, *numbers):
        seen.append([view_of(x).tolist() for x in (starts, page_starts, last, positions)])
        seen.append(numbers)
        view_of(out)[:] = view_of(q).sum()

    kernels = Kernels(split=split, append=append, prefill=prefill)
    kinds, rope = (0,) * 5, Rope(mode=0)
    cache = PagedKVCache((2, 5, 4, 2, 0), (3, 5), (1, 1, 1), kinds, rope, "float32", kernels)
    assert len(cache.layers) == 2 and cache.layers[0].shape == (3 + 2, 2, 1, 2, 1)
    names = ("add_sequence", "fork_sequence", "popn", "begin_forward", "remove_sequence", "clear")
    state = {n: get_global_func(f"vm.builtin.kv_state_{n}") for n in names}
    of_cache = lambda n: get_global_func(f"vm.builtin.attention_kv_cache_{n}")  # noqa: E731
    assert of_cache("empty")(cache)
    state["add_sequence"](cache, 4)
    assert not of_cache("empty")(cache)
    state["begin_forward"](cache, Shape([4]), Shape([5]))
    assert len(cache.sequences[4].pages) == 3 and len(cache.pool.free) == 2
    qkv, out = np.arange(15, dtype="float32").reshape(1, 5, 3), np.zeros((5, 1, 1), "float32")
    attend = of_cache("attention_with_fused_qkv")
    attend(cache, 4, 2, tensor(qkv), out)
    assert seen == [[[0, 5], [0, 3], [1], [0, 1, 2, 3, 4]], (1, 0, 1.0, 10000.0, 2.0)]
    assert not cache.layers[0].any() and out.ravel().tolist() == [qkv[0, :, 0].sum()] * 5
    with pytest.raises(ValueError, match="cache has the layers from 3 on, 2 of them"):
        attend(cache, 2, 2, tensor(qkv), out)
    with pytest.raises(ValueError, match="cannot take this one\n  got: 4; it has: .4"):
        state["add_sequence"](cache, 4)
    with pytest.raises(ValueError, match="sequence 4 has 5 tokens\n  got: 6"):
        state["fork_sequence"](cache, 4, 5, 6)
    assert sorted(cache.sequences) == [4]
    state["fork_sequence"](cache, 4, 5, 3)
    assert cache.sequences[5].pages == cache.sequences[4].pages[:2] and len(cache.pool.free) == 2
    state["begin_forward"](cache, Shape([5]), Shape([1]))
    first = cache.layers[1][cache.sequences[5].pages][:, 0, 0, :, 0].ravel()[:3]
    assert first.tolist() == [1, 4, 7] and len(cache.pool.free) == 1
    with pytest.raises(ValueError, match="all pages of the cache are taken"):
        state["begin_forward"](cache, Shape([5]), Shape([3]))
    k, v = (tensor(np.zeros((2, 2, 1, 1), "float32")) for _ in range(2))
    of_cache("debug_get_kv")(cache, 4, 1, 3, k, v)
    assert k.numpy()[1].ravel().tolist() == [4, 7] and v.numpy()[1].ravel().tolist() == [5, 8]
    state["popn"](cache, 4, 5)
    state["remove_sequence"](cache, 5)
    assert len(cache.pool.free) == 5 and sorted(cache.sequences) == [4]
    state["fork_sequence"](cache, 4, 0)
    assert cache.sequences[0].length == 0
    state["clear"](cache)
    assert of_cache("empty")(cache)


def test_moves_without_a_kernel():
    """The tokens of an accepted path follow each other."""
    cache = PagedKVCache((1, 6, 6, 4, 0), (0, 1), (1, 1, 1), (0,), Rope(0), "int32", Kernels())
    cache.add(0)
    cache.begin([0], [5], [-1, 0, 0, 2, 2])
    cache.layers[0][:] = np.arange(cache.layers[0].size).reshape(cache.layers[0].shape)
    wanted = cache.layers[0][cache.sequences[0].pages][:, 0, 0, :, 0].ravel()[[0, 2, 4]]
    cache.commit([0], [4])
    assert cache.sequences[0].length == 3
    pages = cache.layers[0][cache.sequences[0].pages]
    assert pages[:, 0, 0, :, 0].ravel()[:3].tolist() == wanted.tolist()
    cache.begin([], [])
    with pytest.raises(ValueError, match="committed after its call"):
        cache.commit([0], [-1])
