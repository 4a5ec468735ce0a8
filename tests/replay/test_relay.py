"""Networks and single operators in Relay after every pass, and translated to Relax."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from loopwright import relay, te
from loopwright.ir.module import IRModule
from loopwright.ir.serialize import load_json
from loopwright.ir.transform import Pass, PassContext
from loopwright.relay import testing, transform
from loopwright.relay.backend import te_compiler
from loopwright.relay.frontend import from_relax
from loopwright.relay.strategy import placeholders
from loopwright.relay.testing import densenet, resnet, vgg
from loopwright.relay.translate import to_relax
from loopwright.relay.walk import free_vars, post_order

from ..relay.programs import PROGRAMS as OF_PASSES
from ..relay.test_fold_scale_axis import FOLDED, KEPT
from ..relay.test_layouts import AFTER, NHWC, InBlocks
from ..relay.test_operators import ROWS
from ..relay.test_operators_nn import CASES
from ..relay.test_passes import after
from .stages import CPU, graph_text, said

NETWORKS = {
    "mlp": lambda: testing.mlp.get_workload(1),
    "lenet": lambda: testing.lenet.get_workload(1),
    "mobilenet": lambda: testing.mobilenet.get_workload(image_shape=(3, 32, 32)),
    "squeezenet": lambda: testing.squeezenet.get_workload(image_shape=(3, 64, 64)),
    "dqn": lambda: testing.dqn.get_workload(1),
    "dcgan": lambda: testing.dcgan.get_workload(1, ngf=4, random_len=8),
    "lstm": lambda: testing.lstm.get_workload(2, 8),
    "synthetic": lambda: testing.synthetic.get_workload(),
}
SIZES = {
    **{
        f"densenet{n}": partial(testing.densenet.get_net, n, 10, (1, 3, 64, 64), "float32")
        for n in densenet.SIZES
    },
    **{
        f"vgg{n}": partial(testing.vgg.get_net, 1, (3, 32, 32), 10, "float32", n, n > 13)
        for n in vgg.SIZES
    },
    **{f"resnet{n}": partial(testing.resnet.get_net, 1, 10, n, (3, 64, 64)) for n in resnet.UNITS},
    **{
        f"small resnet{n}": partial(testing.resnet.get_net, 1, 10, n, (28, 28, 3), "NHWC")
        for n in (20, 164)
    },
    **{
        f"squeezenet{v}": partial(testing.squeezenet.get_net, 1, (3, 64, 64), 10, v, "float32")
        for v in ("1.0", "1.1")
    },
    "inception": partial(testing.inception_v3.get_net, 1, 1000, (3, 299, 299), "float32"),
}
PASSES = {
    name: made
    for name, made in vars(transform).items()
    if isinstance(made, type)
    and issubclass(made, Pass)
    and made.__module__.startswith(transform.__name__)
}


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("network", NETWORKS)
def test_network(network: str, replay: Any) -> None:
    mod, _ = NETWORKS[network]()
    rows = {"as it is": {"": _texts(mod)}}
    for name, made in PASSES.items():
        with PassContext(opt_level=4):
            rows[name] = {"": said(lambda made=made: _texts(made()(mod)))}
    replay(f"relay/{network}", rows)


@pytest.mark.no_roundtrip
def test_networks_of_all_sizes(replay: Any) -> None:
    rows = {name: {"": IRModule({"main": make()}).astext()} for name, make in SIZES.items()}
    replay("relay/sizes", rows)


def _of_operators() -> Iterator[tuple[str, Any]]:
    for row in ROWS:
        yield row.name, row.body
    for name, (build, arrays, _) in CASES.items():
        pairs = enumerate(arrays)
        out = build(*(relay.var(f"x{k}", shape=a.shape, dtype=str(a.dtype)) for k, a in pairs))
        yield name, out.astuple() if isinstance(out, relay.TupleWrapper) else out


# Of the passes, what changes a single operator.
ALONE = (
    *("CanonicalizeOps", "DynamicToStatic", "FastMath", "FoldConstant", "FuseOps", "SimplifyExpr"),
    *("SimplifyInference", "ToMixedPrecision"),
)
PROGRAMS: dict[str, Callable[[], Iterator[tuple[str, Any]]]] = {
    "operators": _of_operators,
    "layouts": lambda: ((str(k), body) for k, (body, *_) in enumerate(AFTER)),
    "factors": lambda: ((name, row[1]) for name, row in (FOLDED | KEPT).items()),
}


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("programs", PROGRAMS)
def test_programs(programs: str, replay: Any) -> None:
    rows = {}
    chosen = [*PASSES.items(), ("InBlocks", InBlocks), ("NHWC", lambda: NHWC)]
    if programs == "operators":
        chosen = [(name, PASSES[name]) for name in ALONE]
    for name, body in PROGRAMS[programs]():
        params = sorted(free_vars(body), key=lambda p: p.name_hint)
        mod = IRModule({"main": relay.Function(params, body)})
        texts = {"typed": typed(mod), "relax": said(lambda mod=mod: graph_text(to_relax(mod)))}
        for title, made in chosen:
            with PassContext(opt_level=4):
                text = said(lambda made=made, mod=mod: made()(mod).astext(show_meta_data=False))
            if text not in texts.values():
                texts[title] = text
        if programs == "operators":
            texts["back"] = said(lambda mod=mod: _back(from_relax(to_relax(mod))))
            texts["kernel"] = said(lambda mod=mod: _kernel(mod))
        rows[name] = texts
    replay(f"relay/{programs}", rows)


@pytest.mark.no_roundtrip
def test_programs_of_passes(replay: Any) -> None:
    rows = {}
    for kind, (step, programs) in OF_PASSES.items():
        for name, body in programs.items():
            rows[f"{kind}: {name}"] = {"": after(body, step).astext(show_meta_data=False)}
    replay("relay/passes", rows)


def _back(mod: IRModule) -> str:
    """A module's text, with that of calls that Relax has alone, which are JSON with places in it."""
    text = re.sub(r'function="([^"\\]|\\.)*"', "", typed(mod))
    calls = (n for n in post_order(mod["main"]) if isinstance(n, relay.Call) and n.attrs)
    kept = [c.attrs["function"] for c in calls if "function" in c.attrs.keys()]  # noqa: SIM118
    return "\n".join([text, *(load_json(function).script() for function in kept)])


def _kernel(mod: IRModule) -> str:
    """The tensor expression of a call, by its strategy."""
    body = transform.InferType()(mod)["main"].body
    call = body.tuple_value if isinstance(body, relay.TupleGetItem) else body
    if not isinstance(call, relay.Call):
        return "no call"
    inputs = [p for arg in call.args for p in placeholders(arg.checked_type)]
    outputs = te_compiler.lower_call(call, inputs, CPU).outputs
    return te.create_prim_func([*inputs, *outputs]).script()


def typed(mod: IRModule) -> str:
    return transform.InferType()(mod).astext(show_meta_data=False)


def _texts(mod: IRModule) -> str:
    return f"{mod.astext(show_meta_data=False)}\n{graph_text(to_relax(mod))}"
