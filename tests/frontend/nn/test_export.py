"""Export of nn modules: what functions come out, parameter by parameter."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, tir
from loopwright.frontend import nn
from loopwright.frontend.nn import op, spec
from loopwright.ir import assert_structural_equal
from loopwright.runtime import Module
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T


class MLP(nn.Module):
    def __init__(self):
        self.fc1 = nn.Linear(4, 8)
        self.fc2 = nn.Linear(8, "m", bias=False)

    def forward(self, x: nn.Tensor):
        return self.fc2(op.relu(self.fc1(x)))


def test_forward():
    @I.ir_module
    class Expected:
        @R.function
        def forward(
            x: R.Tensor(("n", 4), dtype="float32"),
            fc1_weight: R.Tensor((8, 4), dtype="float32"),
            fc1_bias: R.Tensor((8,), dtype="float32"),
            fc2_weight: R.Tensor(("m", 8), dtype="float32"),
        ) -> R.Tensor(("n", "m"), dtype="float32"):
            n = T.int64()
            m = T.int64()
            R.func_attr({"num_input": 1})
            with R.dataflow():
                permute_dims = R.permute_dims(fc1_weight)
                matmul = R.matmul(x, permute_dims)
                add = R.add(matmul, fc1_bias)
                relu = R.nn.relu(add)
                permute_dims1 = R.permute_dims(fc2_weight)
                matmul1: R.Tensor((n, m), dtype="float32") = R.matmul(relu, permute_dims1)
                gv: R.Tensor((n, m), dtype="float32") = matmul1
                R.output(gv)
            return gv

    mod, params = MLP().export_tvm({"forward": {"x": spec.Tensor(("n", 4), "float32")}})
    assert_structural_equal(mod, Expected)
    assert [name for name, _ in params] == ["fc1.weight", "fc1.bias", "fc2.weight"]


def test_parameters_are_bound_by_the_names_that_the_export_gives(rng):
    mod, params = MLP().export_tvm({"forward": {"x": spec.Tensor((2, 4), "float32")}})
    shapes = {"fc1.weight": (8, 4), "fc1.bias": (8,), "fc2.weight": (3, 8)}
    values = {n: rng.normal(size=shapes[n]).astype("float32") for n, _ in params}
    bound = relax.transform.BindParams("forward", values)(mod)
    assert [p.name_hint for p in bound["forward"].params] == ["x"]
    x = rng.normal(size=(2, 4)).astype("float32")
    hidden = np.maximum(x @ values["fc1.weight"].T + values["fc1.bias"], 0)
    want = hidden @ values["fc2.weight"].T
    np.testing.assert_allclose(lw.compile(bound)["forward"](x), want, rtol=1e-5, atol=1e-6)
    by_name = lw.compile(mod).run({"x": x, **values}, function="forward")
    np.testing.assert_allclose(*by_name.values(), want, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="no parameter 'fc1.wight'(.|\n)*did you mean fc1_weight"):
        relax.transform.BindParams("forward", {"fc1.wight": values["fc1.weight"]})(mod)


def test_names_of_bindings_follow_the_operators():
    mod, _ = MLP().export_tvm({"forward": {"x": spec.Tensor((2, 4), "float32")}})
    (block,) = mod["forward"].body.blocks
    names = [b.var.name_hint for b in block.bindings]
    assert names == ["permute_dims", "matmul", "add", "relu", "permute_dims1", "matmul1", "gv"]


def test_weight_and_bias_share_a_symbolic_dimension():
    class Wide(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(4, "n")

        def forward(self, x):
            return self.fc(x)

    mod, _ = Wide().export_tvm({"forward": {"x": spec.Tensor((1, 4), "float32")}})
    _, weight, bias = mod["forward"].params
    assert weight.struct_info.shape[0] is bias.struct_info.shape[0]
    assert mod["forward"].ret_struct_info.shape[1] is bias.struct_info.shape[0]


def test_symbols_are_one_for_each_name_and_function():
    class Two(nn.Module):
        def forward(self, x, y):
            return x + y

        def twice(self, x):
            return x + x

    given = spec.Tensor(("n", 4), "float32")
    mod, _ = Two().export_tvm({"forward": {"x": given, "y": given}, "twice": {"x": given}})
    x, y = mod["forward"].params
    assert x.struct_info.shape[0] is y.struct_info.shape[0]
    assert mod["twice"].params[0].struct_info.shape[0] is not x.struct_info.shape[0]


def test_a_given_variable_is_kept():
    n = tir.Var("n", "int64")
    mod, _ = MLP().export_tvm({"forward": {"x": spec.Tensor((n * 2, 4), "float32")}})
    dim = mod["forward"].params[0].struct_info.shape[0]
    assert_structural_equal(dim, n * 2, map_free_vars=True)


def test_debug_passes_an_effect_through(capsys):
    class Shown(nn.Module):
        def forward(self, x):
            op.print_(x)
            return x + 1.0

    @I.ir_module
    class Expected:
        @R.function
        def _initialize_effect() -> R.Tuple(R.Object):
            with R.dataflow():
                _io: R.Object = R.null_value()
                lv: R.Tuple(R.Object) = (_io,)
                gv: R.Tuple(R.Object) = lv
                R.output(gv)
            return gv

        @R.function
        def forward(x: R.Tensor((2,), dtype="float32"), _io: R.Object) -> R.Tuple(
            R.Tensor((2,), dtype="float32"), R.Tuple(R.Object)
        ):
            R.func_attr({"num_input": 2})
            with R.dataflow():
                _io1: R.Object = R.call_pure_packed(
                    "vm.builtin.invoke_debug_func",
                    _io,
                    R.str("vm.builtin.debug_print"),
                    R.str("HERE"),
                    x,
                    sinfo_args=(R.Object,),
                )
                add: R.Tensor((2,), dtype="float32") = R.add(x, R.const(1.0, "float32"))
                gv1: R.Tuple(R.Tensor((2,), dtype="float32"), R.Tuple(R.Object)) = add, (_io1,)
                R.output(gv1)
            return gv1

    given = {"forward": {"x": spec.Tensor((2,), "float32")}}
    mod, _ = Shown().export_tvm(given, debug=True)
    call = mod["forward"].body.blocks[0].bindings[0].value
    line = call.args[3].value
    assert line.startswith(__file__) and line.rsplit(":", 1)[1].isdigit()
    text = mod.script().replace(line, "HERE")
    assert_structural_equal(lw.script.from_source(text), Expected)

    vm = relax.interpreter.Interpreter(mod)
    (state,) = vm["_initialize_effect"]()
    y, _ = vm["forward"](np.array([1, 2], "float32"), state)
    np.testing.assert_array_equal(y.numpy(), [2, 3])
    assert "] [1. 2.]" in capsys.readouterr().out


def test_printing_needs_debug():
    class Shown(nn.Module):
        def forward(self, x):
            op.print_(x)
            return x

    with pytest.raises(RuntimeError, match="export the module with debug=True"):
        Shown().export_tvm({"forward": {"x": spec.Tensor((2,), "float32")}})


def test_tuples_integers_and_packing():
    class Model(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(4, 7)

        def forward(self, x, pair, n):
            return self.fc(x) + pair[0], op.full([n], 1.0), pair[1][0]

    @I.ir_module
    class Expected:
        @R.function
        def forward(
            x: R.Tensor((1, 4), dtype="float32"),
            pair: R.Tuple(
                R.Tensor((1, 7), dtype="float32"), R.Tuple(R.Tensor((3,), dtype="float32"))
            ),
            n_1: R.Shape(["n"]),
            packed_params: R.Tuple(
                R.Tensor((7, 4), dtype="float32"), R.Tensor((7,), dtype="float32")
            ),
        ):
            n = T.int64()
            R.func_attr({"num_input": 3})
            with R.dataflow():
                fc_weight = packed_params[0]
                fc_bias = packed_params[1]
                pair_0 = pair[0]
                pair_1 = pair[1]
                pair_1_0 = pair_1[0]
                permute_dims = R.permute_dims(fc_weight)
                matmul = R.matmul(x, permute_dims)
                add = R.add(matmul, fc_bias)
                add1 = R.add(add, pair_0)
                full = R.full(R.shape([n]), R.const(1.0, "float32"), dtype="float32")
                gv = add1, full, pair_1_0
                R.output(gv)
            return gv

    pair = (spec.Tensor((1, 7), "float32"), [spec.Tensor((3,), "float32")])
    given = {"x": spec.Tensor((1, 4), "float32"), "pair": pair, "n": int}
    modes = {"param_mode": "packed", "effect_mode": "none"}
    mod, _ = Model().export_tvm({"forward": {**given, "$": modes}})
    assert_structural_equal(mod, Expected)


def test_computed_weight_is_no_parameter():
    class Model(nn.Module):
        def __init__(self):
            self.whole = nn.Parameter((8, 4))
            self.fc = nn.Linear(4, 4, bias=False)
            self.fc.weight = op.split(self.whole, 2)[0]

        def forward(self, x):
            return self.fc(x)

    mod, params = Model().export_tvm({"forward": {"x": spec.Tensor((2, 4), "float32")}})
    assert [name for name, _ in params] == ["whole"]
    whole = np.arange(32, dtype="float32").reshape(8, 4)
    x = np.ones((2, 4), "float32")
    got = relax.interpreter.Interpreter(mod)["forward"](x, whole).numpy()
    np.testing.assert_allclose(got, x @ whole[:4].T)


def test_subroutine():
    class Layer(nn.Module):
        define_subroutine = True

        def __init__(self):
            self.fc = nn.Linear(4, 4, bias=False)

        def forward(self, x):
            return op.relu(self.fc(x))

    class Model(nn.Module):
        def __init__(self):
            self.layers = nn.ModuleList([Layer(), Layer()])

        def forward(self, x):
            return self.layers(x)

    @I.ir_module
    class Expected:
        @R.function
        def forward(
            x: R.Tensor(("n", 4), dtype="float32"),
            a: R.Tensor((4, 4), dtype="float32"),
            b: R.Tensor((4, 4), dtype="float32"),
        ) -> R.Tensor(("n", 4), dtype="float32"):
            n = T.int64()
            R.func_attr({"num_input": 1})
            cls = Expected
            with R.dataflow():
                layer_output: R.Tensor((n, 4), dtype="float32") = cls.layer(x, a)
                layer_output1: R.Tensor((n, 4), dtype="float32") = cls.layer(layer_output, b)
                gv: R.Tensor((n, 4), dtype="float32") = layer_output1
                R.output(gv)
            return gv

        @R.function(private=True)
        def layer(
            x: R.Tensor(("n", 4), dtype="float32"), w: R.Tensor((4, 4), dtype="float32")
        ) -> R.Tensor(("n", 4), dtype="float32"):
            with R.dataflow():
                permute_dims = R.permute_dims(w)
                matmul = R.matmul(x, permute_dims)
                relu = R.nn.relu(matmul)
                gv = relu
                R.output(gv)
            return gv

    mod, params = Model().export_tvm({"forward": {"x": spec.Tensor(("n", 4), "float32")}})
    assert [name for name, _ in params] == ["layers.0.fc.weight", "layers.1.fc.weight"]
    assert_structural_equal(mod, Expected)


def test_kv_cache():
    class Model(nn.Module):
        def __init__(self):
            self.cache = nn.KVCache(2, [3])

        def forward(self, x):
            self.cache.append(x)
            return self.cache.view(4)

    mod, _ = Model().export_tvm({"forward": {"x": spec.Tensor((2, 3), "float32")}})
    vm = relax.interpreter.Interpreter(mod)
    (cache,) = vm["_initialize_effect"]()
    a, b = np.ones((2, 3), "float32"), np.full((2, 3), 2, "float32")
    with pytest.raises(ValueError, match="the cache holds 2 elements"):
        vm["forward"](a, cache)
    got, (cache,) = vm["forward"](b, cache)  # `a` was appended before its view failed
    np.testing.assert_array_equal(got.numpy(), np.concatenate([a, b]))


def test_jit():
    class Model(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(4, 3)

        def forward(self, x):
            return self.fc(x)

    model = Model()
    given = {"forward": {"x": spec.Tensor(("n", 4), "float32")}}
    with pytest.raises(ValueError, match="fc.weight, fc.bias"):
        model.jit(given, out_format="tvm")
    w, b = np.arange(12, dtype="float32").reshape(3, 4), np.ones(3, "float32")
    model.load_state_dict({"fc.weight": w, "fc.bias": b})
    x = np.ones((5, 4), "float32")
    got = model.jit(given, out_format="tvm")["forward"](x).numpy()
    np.testing.assert_allclose(got, x @ w.T + b, rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"forward": {"y": spec.Tensor((1, 4), "float32")}}, TypeError, "missing x; unknown y"),
        ({"run": {}}, AttributeError, "MLP has no method to export"),
        ({"forward": {"x": "float32"}}, TypeError, "no spec for argument x"),
        (
            {"forward": {"x": int, "$": {"param_mode": "all"}}},
            ValueError,
            "use one of plain, packed, none",
        ),
        (
            {"forward": {"x": int, "$": {"effect_mode": "all"}}},
            ValueError,
            "unknown mode of passing",
        ),
    ],
)
def test_wrong_specs(given, error, text):
    with pytest.raises(error, match=text):
        MLP().export_tvm(given)


def test_wrong_shape_in_a_spec():
    with pytest.raises(TypeError, match="as a list of dimensions"):
        spec.Tensor("n", "float32")


def test_wrong_result():
    class Model(nn.Module):
        def forward(self, x):
            return x.shape

    with pytest.raises(TypeError, match="forward must return nn.Tensors"):
        Model().export_tvm({"forward": {"x": spec.Tensor((1, 4), "float32")}})


def test_effects_of_compiled_modules(capsys):
    class Model(nn.Module):
        def __init__(self):
            self.cache = nn.KVCache(1, [2])

        def forward(self, x, n: int):
            op.print_(x)
            self.cache.append(x)
            return self.cache.view(n)

    given = {"forward": {"x": spec.Tensor((1, 2), "float32"), "n": int}}
    model = Model().jit(given, out_format="tvm", debug=True)
    for n in (1, 2, 3):
        made = model["forward"](np.full((1, 2), n, "float32"), n).numpy()
        np.testing.assert_array_equal(made, [[k, k] for k in range(1, n + 1)])
    assert "] [[3. 3.]]" in capsys.readouterr().out


def test_a_debug_function_gets_numbers_as_they_are():
    seen = []

    class Model(nn.Module):
        def forward(self, x, n):
            nn.op.debug_func("tests.nn.seen", x, 1, 2.5, "text", n)
            return x

    lw.register_func("tests.nn.seen", lambda _line, *args: seen.append(args), override=True)
    given = {"forward": {"x": spec.Tensor((2,), "float32"), "n": int}}
    model = Model().jit(given, out_format="tvm", debug=True)
    model["forward"](np.zeros(2, "float32"), 8)
    assert seen[0][0].shape == (2,) and seen[0][1:] == (1, 2.5, "text", 8)


@pytest.mark.parametrize("kind", [list, tuple])
def test_groups_of_arguments(kind):
    class Model(nn.Module):
        def forward(self, x):
            assert isinstance(x, kind)
            return nn.reshape(nn.subtract(x[0], x[1][0]), (x[1][1], 2))

    tensor = spec.Tensor((2, 3), "float32")
    model = Model().jit({"forward": {"x": kind([tensor, (tensor, int)])}}, out_format="tvm")
    a, b = np.arange(12, dtype="float32").reshape(2, 2, 3) ** 2
    got = model["forward"]((a, [b, 3])).numpy()
    np.testing.assert_array_equal(got, (a - b).reshape(3, 2))
    with pytest.raises(ValueError, match="shorter"):
        model["forward"]((a, [b]))


def test_jit_for_torch():
    torch = pytest.importorskip("torch")

    class Model(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(2, 3)

        def forward(self, x):
            return self.fc(x), x

    model, theirs = Model(), torch.nn.Linear(2, 3)
    model.load_state_dict({f"fc.{n}": p for n, p in theirs.named_parameters()})
    x = torch.ones(4, 2)
    got, same = model.jit(
        spec.ModuleSpec(model, ["forward"], [spec.MethodSpec.from_torch([x], model.forward)])
    )["forward"](x)
    assert torch.allclose(got, theirs(x), atol=1e-6) and torch.equal(same, x)


def test_subroutines_call_each_other():
    class Activation(nn.Module):
        define_subroutine = True

        def forward(self, state):
            return op.silu(state)

    class Layer(nn.Module):
        define_subroutine = True

        def __init__(self):
            self.weights = nn.Parameter((4, 3))
            self.activation = Activation()

        def forward(self, input):
            return self.activation(op.matmul(input, self.weights))

    mod, _ = Layer().export_tvm(
        {"forward": {"input": spec.Tensor(("n", 4), "float32")}}, debug=True
    )
    names = {gvar.name_hint for gvar in mod.functions}
    assert names == {"_initialize_effect", "forward", "layer", "activation"}
    assert [p.name_hint for p in mod["layer"].params] == ["input", "weights"]
    assert relax.analysis.well_formed(mod)
    x, w = np.ones((2, 4), "float32"), np.full((4, 3), 0.25, "float32")
    vm = relax.interpreter.Interpreter(mod)
    got, _ = vm["forward"](x, *vm["_initialize_effect"](), w)
    np.testing.assert_allclose(got.numpy(), np.full((2, 3), 1 / (1 + np.exp(-1))), rtol=1e-6)


def test_printing_in_a_subroutine():
    class Layer(nn.Module):
        define_subroutine = True

        def forward(self, x):
            op.print_(x)
            return x

    with pytest.raises(RuntimeError, match="set define_subroutine = False to look inside"):
        Layer().export_tvm({"forward": {"x": spec.Tensor((2,), "float32")}}, debug=True)


def test_layers_of_other_shapes_are_other_subroutines():
    class Layer(nn.Module):
        define_subroutine = True

        def __init__(self, size):
            self.weights = nn.Parameter((size, 3))

        def forward(self, x):
            return op.matmul(x, self.weights)

    class Model(nn.Module):
        def __init__(self):
            self.a, self.b, self.c = Layer(4), Layer(5), Layer(4)

        def forward(self, x, y):
            return self.a(x) + self.b(y) + self.c(x)

    given = {"x": spec.Tensor(("n", 4), "float32"), "y": spec.Tensor(("n", 5), "float32")}
    mod, _ = Model().export_tvm({"forward": given})
    assert len(mod.functions) == 3


@pytest.mark.no_roundtrip  # a library has no text
def test_functions_of_an_external_module():
    def scale(x, out):
        np.copyto(np.from_dlpack(out), 3 * np.from_dlpack(x))

    library = Module({"scale": scale})
    external = nn.ExternModule(
        {"scale": lambda x: nn.Tensor.placeholder(x.shape, x.dtype)}, library
    )

    class Calls(nn.Module):
        def forward(self, x: nn.Tensor):
            nn.add_extern(external)
            return external["scale"](x)

    spec_of = {"forward": {"x": spec.Tensor((4,), "float32")}}
    mod, _, externs = Calls().export_tvm(spec_of, allow_extern=True)
    assert externs == [external]
    exe = lw.compile(relax.transform.AttachExternModules(externs)(mod))
    x = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(exe["forward"](x).numpy(), 3 * x)
    with pytest.raises(NotImplementedError, match="nothing says where the functions are"):
        nn.ExternModule(external.symbols).load()


def test_what_methods_take():
    def method(self, x, *rest, n=1, **more):
        return x

    class OfTorch:
        shape, dtype = (2, 3), "torch.float16"

    tensor = spec.Tensor(("n", 2), "int8")
    given = {"z": (tensor, [int]), "n": "int", "self": spec.Object(), "x": nn.Object}
    made = spec.MethodSpec.from_raw(given, method)
    assert made.arg_names == ["self", "x", "n", "z"]  # in the method's order; others last
    assert made.arg_specs[:3] == [spec.Object(), spec.Object(nn.Object), spec.Int()]
    assert spec.MethodSpec.from_raw(made, method) is made
    args = "self: Object(object_type=Object), x: Object(object_type=Object), n: Int(), z: "
    text = (
        args.replace("=Object", f"={nn.Object!r}") + "Tuple(Tensor([n, 2], 'int8'), Tuple(Int()))"
    )
    assert repr(made) == f"method({text}), param_mode='plain', effect_mode='plain'"
    of_examples = spec.MethodSpec.from_torch([OfTorch(), 3], MLP().forward)
    assert of_examples.arg_names == ["x"]
    assert repr(of_examples.arg_specs) == "[Tensor([2, 3], 'float16'), Int()]"
    with pytest.raises(TypeError, match="missing x; unknown y\n.*it takes x$"):
        spec.MethodSpec.from_raw({"y": int}, MLP().forward)
    with pytest.raises(TypeError, match="it takes no argument"):
        spec.MethodSpec.from_raw({"y": int}, lambda: None)


@pytest.mark.parametrize("effects", ["plain", "packed"])
@pytest.mark.parametrize("params", ["plain", "packed"])
def test_ways_of_passing_when_compiled(params, effects):
    class Model(nn.Module):
        def __init__(self):
            self.caches = nn.ModuleList([Kept(nn.KVCache(2, [2])), Kept(nn.KVCache(2, [1]))])
            self.weight, self.bias = nn.Parameter([2]), nn.Parameter([2])

        def forward(self, x, n):
            first, second = (kept.cache for kept in self.caches)
            first.append(x * self.weight)
            second.append(op.sum(x + self.bias, 1, keepdims=True))
            return [first.view(n), (second.view(n),)]

    class Kept(nn.Module):
        def __init__(self, cache):
            self.cache = cache

    model = Model()
    x, weight, bias = (np.float32(v) for v in ([[1, 2]], [3, 5], [7, 9]))
    model.load_state_dict({"weight": weight, "bias": bias})
    given = {"x": spec.Tensor([1, 2], "float32"), "n": int}
    modes = {"param_mode": params, "effect_mode": effects}
    compiled = model.jit({"forward": {**given, "$": modes}}, out_format="tvm")
    compiled.forward(x, 1)
    got, (sums,) = compiled.forward(2 * x, 2)
    np.testing.assert_array_equal(got.numpy(), [[3, 10], [6, 20]])
    np.testing.assert_array_equal(sums.numpy(), [[19], [22]])
    with pytest.raises(KeyError, match="no method 'run'; one of: forward"):
        compiled["run"]
    with pytest.raises(ValueError, match='use "torch" or "tvm"'):
        model.jit({"forward": given}, out_format="numpy")


def test_subroutines_only_of_what_a_function_can_say():
    class Scaled(nn.Module):
        define_subroutine = True

        def forward(self, x, factor):
            return x * factor

    class Cached(nn.Module):
        define_subroutine = True

        def __init__(self):
            self.cache = nn.KVCache(2, [2])

        def forward(self, x, y):
            self.cache.append(x)
            return self.cache.view(1)

    class Model(nn.Module):
        def __init__(self, of):
            self.of = of

        def forward(self, x, y):
            return self.of(x, y)

        def number(self, x):
            return self.of(x, 2.0)

    tensor = spec.Tensor((1, 2), "float32")
    computed = spec.Tensor((tir.Var("n", "int64") + 1, 2), "float32")  # no shape defines n
    cases = [
        (Scaled(), "forward", {"x": tensor, "y": tensor}, {"scaled"}),
        (Scaled(), "number", {"x": tensor}, set()),
        (Scaled(), "forward", {"x": computed, "y": tensor}, set()),
        (Cached(), "forward", {"x": tensor, "y": tensor}, set()),
    ]
    for of, method, given, wanted in cases:
        mod, _ = Model(of).export_tvm({method: given})
        names = {gvar.name_hint for gvar in mod.functions}
        assert names - {method, "_initialize_effect"} == wanted


@pytest.mark.no_roundtrip  # a library has no text
def test_an_external_module_must_be_taken_along():
    class Calls(nn.Module):
        def forward(self, x):
            nn.add_extern(library)
            nn.add_extern(library)
            return x

    library, given = Module({}), {"forward": {"x": spec.Tensor((4,), "float32")}}
    assert Calls().export_tvm(given, allow_extern=True)[2] == [library]
    with pytest.raises(ValueError, match="pass allow_extern=True"):
        Calls().export_tvm(given)


def test_what_a_growing_cache_refuses():
    class Model(nn.Module):
        def __init__(self):
            self.cache = nn.KVCache(2, [2])

        def forward(self, x):
            self.cache.append(x)
            return x

    with pytest.raises(TypeError, match="KVCache holds float32, got float16"):
        Model().export_tvm({"forward": {"x": spec.Tensor((1, 2), "float16")}})
