"""Translation of calls: intrinsics, C functions, packed functions, functions of the module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir import prim_expr as pe
from ...ir.expr import GlobalVar
from ...ir.op import Op
from ...ir.prim_expr import Call, IntImm
from ..expr import BufferLoad
from . import lanes, meaning, structs, threads
from .machine import MACHINE
from .vector import VectorTranslator

_BITWISE = {"tir.bitwise_and": "&", "tir.bitwise_or": "|", "tir.bitwise_xor": "^"}
_THROUGH = {"tir.likely", "tir.assume", "tir.ignore_loop_partition", "tir.tvm_thread_invariant"}
_ROUNDING = {"floor", "ceil", "trunc", "round", "nearbyint"}
_NOTHING = {
    "tir.prefetch",
    "tir.start_profile_intrinsic",
    "tir.end_profile_intrinsic",
    "tir.type_annotation",
}


class CallTranslator(VectorTranslator):
    """Translates calls to source text."""

    def vector_call(self, node: Call) -> str:
        name = node.op.name if isinstance(node.op, Op) else ""
        if name == "tir.if_then_else":
            return self.vector_choice(*node.args)
        if name in _THROUGH:
            return self.value(node.args[0])
        if name == "tir.checked_index":
            index, extent = (self.value(a) for a in node.args)
            fn = self.helper(lanes.vector_index_from_data)
            return f"{fn}({index}, {extent}, {self.mask}, {str(node.span or '')!r})"
        same = all(a.dtype.lanes in (1, node.dtype.lanes) for a in node.args)
        args = [self.value(a) for a in node.args] if same else self.unmasked(node.args)
        np_name = self.use("np", meaning.np)
        if name in ("tir.vectorlow", "tir.vectorhigh"):
            half = node.dtype.lanes
            return f"{args[0]}[{':' if name.endswith('low') else ''}{half}{'' if name.endswith('low') else ':'}]"
        if name == "tir.vectorcombine":
            return f"{np_name}.concatenate([{args[0]}, {args[1]}])"
        if name == "tir.get_active_lane_mask":
            return f"({np_name}.arange({node.dtype.lanes}) + {args[0]} < {args[1]})"
        if name == "tir.reinterpret":
            return self.reinterpret(node, args[0])
        if name.removeprefix("tir.") in _ROUNDING and node.dtype.is_integer:
            return args[0]
        if name == "tir.fma":
            return self.as_float32(self.helper(lanes.vector_fma), args, node.dtype)
        if name == "tir.nextafter":
            return f"{self.helper(lanes.vector_nextafter)}({args[0]}, {args[1]})"
        if name == "tir.clz":
            fn = meaning.count_leading_zeros(node.args[0].dtype.bits)
            return f"{np_name}.array([{self.use('clz', fn)}(int(v)) for v in {args[0]}])"
        if name == "tir.popcount":
            return f"{self.helper(lanes.vector_popcount)}({args[0]}, {node.args[0].dtype.bits})"
        if name == "tir.pow" and node.dtype.is_integer:
            fn = self.helper(lanes.vector_pow)
            return f"{fn}({args[0]}, {args[1]}, {node.dtype.bits})"
        if name in ("tir.shift_left", "tir.shift_right"):
            fn = self.use(name.removeprefix("tir."), lanes.vector_shift(name[10:], node.dtype))
            return f"{fn}({args[0]}, {args[1]})"
        numpy_fn = node.op.get_attr("numpy") if isinstance(node.op, Op) else None
        if numpy_fn is not None:
            fn = self.use(name.removeprefix("tir."), numpy_fn)
            if node.dtype.is_bool:
                return f"{fn}({', '.join(args)})"
            return self.as_float32(fn, args, node.dtype)
        return self.element_call(node, args)

    def element_call(self, node: Call, args: list[str]) -> str:
        """A scalar function applied to each lane."""
        python = self.extern_meaning(node)
        if python is None:
            return f"{self.helper(meaning.no_meaning)}({self.call_name(node)!r})"
        np_name = self.use("np", meaning.np)
        first = 1 if isinstance(node.args[0], pe.StringImm) else 0
        if first and node.args[0].value in MACHINE:  # these take whole vectors
            return f"{self.use('machine', python)}({', '.join(args[1:])})"
        fn = self.use("fn", np_vectorized(python))
        return f"{fn}({', '.join(args[first:])}).astype({self.kind(node.dtype)})" if np_name else ""

    # -- calls ---------------------------------------------------------------------------------

    def call_name(self, node: Call) -> str:
        if isinstance(node.op, GlobalVar):
            return node.op.name_hint
        name = getattr(node.op, "name", str(node.op))
        if node.args and isinstance(node.args[0], pe.StringImm):
            return f"{name}({node.args[0].value})"
        return name

    def extern_meaning(self, node: Call) -> Callable[..., Any] | None:
        """The Python equivalent of a C or LLVM function."""
        if not (node.args and isinstance(node.args[0], pe.StringImm)):
            return None
        return meaning.library_function(str(node.args[0].value))

    def library(self, name: str, *args: str) -> str:
        return f"{self.use(name, meaning.FLOAT[name])}({', '.join(args)})"

    def reinterpret(self, node: Call, arg: str) -> str:
        fn = meaning.reinterpret(node.args[0].dtype, node.dtype)
        return f"{self.use(f'reinterpret_{node.dtype}', fn)}({arg})"

    def call(self, node: Call) -> tuple[str, bool]:
        if isinstance(node.op, GlobalVar):
            return self.call_function(node.op.name_hint, node.args), False
        name = getattr(node.op, "name", "")
        short = name.removeprefix("tir.")
        rule = None if short == name else getattr(self, f"tir_{short}", None)
        if rule is not None:
            return rule(node)
        if name in _THROUGH:
            return self.raw(node.args[0])
        if name in _NOTHING:
            return "None", False
        if name in _BITWISE:
            a, b = (self.scalar(x) for x in node.args)
            return f"({a} {_BITWISE[name]} {b})", False
        if short in _ROUNDING and node.dtype.is_integer:
            return self.raw(node.args[0])  # already rounded
        if short in meaning.FLOAT:
            text = self.library(short, *(self.exact(a) for a in node.args))
            return self.low_precision(text, node.dtype), False
        return f"{self.helper(meaning.no_meaning)}({self.call_name(node)!r})", False

    # The method of the intrinsic `tir.name` is `tir_name`.

    def tir_if_then_else(self, node: Call) -> tuple[str, bool]:
        return self.choice(*node.args)

    def tir_checked_index(self, node: Call) -> tuple[str, bool]:
        index, extent = (self.scalar(a) for a in node.args)
        where = repr("" if node.span is None else str(node.span))
        return f"{self.helper(meaning.index_from_data)}({index}, {extent}, {where})", False

    def tir_shift_left(self, node: Call) -> tuple[str, bool]:
        a, b = (self.scalar(x) for x in node.args)
        left = self.call_name(node) == "tir.shift_left"
        by, bits = node.args[1], node.dtype.bits
        if isinstance(by, IntImm) and 0 <= by.value < bits:
            return (f"({a} << {b})", True) if left else (f"({a} >> {b})", False)
        fn = self.helper(meaning.shifted_left if left else meaning.shifted_right)
        return f"{fn}({a}, {b}, {bits})", left

    tir_shift_right = tir_shift_left

    def tir_bitwise_not(self, node: Call) -> tuple[str, bool]:
        text = self.scalar(node.args[0])
        if node.dtype.is_bool:
            return f"(not {text})", False
        return f"(~{text})", node.dtype.is_uint

    def tir_popcount(self, node: Call) -> tuple[str, bool]:
        mask = (1 << node.args[0].dtype.bits) - 1
        return f"({self.scalar(node.args[0])} & {mask}).bit_count()", False

    def tir_clz(self, node: Call) -> tuple[str, bool]:
        bits = node.args[0].dtype.bits
        key = f"_clz{bits}"
        self.names.setdefault(key, meaning.count_leading_zeros(bits))
        return f"{key}({self.scalar(node.args[0])})", False

    def tir_ldexp(self, node: Call) -> tuple[str, bool]:
        x, e = (self.exact(a) for a in node.args)
        return f"{self.helper(meaning.ldexp)}({x}, {e})", False

    def tir_nextafter(self, node: Call) -> tuple[str, bool]:
        key = f"_nextafter_{node.dtype}"
        self.names.setdefault(key, meaning.nextafter(node.dtype))
        return f"{key}({self.exact(node.args[0])}, {self.exact(node.args[1])})", False

    def tir_reinterpret(self, node: Call) -> tuple[str, bool]:
        return self.reinterpret(node, self.value(node.args[0])), False

    def tir_pow(self, node: Call) -> tuple[str, bool]:
        a, b = (self.exact(x) for x in node.args)
        if node.dtype.is_integer:
            return f"{self.helper(meaning.int_pow)}({a}, {b}, {node.dtype.bits})", True
        return self.low_precision(self.library("pow", a, b), node.dtype), False

    def tir_fabs(self, node: Call) -> tuple[str, bool]:
        return f"abs({self.scalar(node.args[0])})", node.dtype.is_int

    def tir_q_multiply_shift(self, node: Call) -> tuple[str, bool]:
        fn = getattr(meaning, self.call_name(node).removeprefix("tir."))
        return f"{self.helper(fn)}({', '.join(self.scalar(a) for a in node.args)})", True

    tir_q_multiply_shift_per_axis = tir_q_multiply_shift

    def tir_large_uint_imm(self, node: Call) -> tuple[str, bool]:
        low, high = (self.scalar(a) for a in node.args)
        return f"(({high} << 32) | {low})", False

    def tir_call_extern(self, node: Call) -> tuple[str, bool]:
        python = self.extern_meaning(node)
        args = ", ".join(self.value(a) for a in node.args[1:])
        if python is not None:
            return f"{self.use(str(node.args[0].value), python)}({args})", False
        return self.packed(node), False

    tir_call_pure_extern = tir_call_llvm_intrin = tir_call_llvm_pure_intrin = tir_call_extern

    def tir_call_packed(self, node: Call) -> tuple[str, bool]:
        return self.packed(node), False

    tir_call_cpacked = tir_call_packed

    def tir_tvm_call_trace_packed(self, node: Call) -> tuple[str, bool]:
        args = ", ".join(self.value(a) for a in node.args)
        return f"{self.helper(meaning.traced)}(_call, {args})", False

    def packed(self, node: Call) -> str:
        """A function of the module or of the runtime's registry, looked up at each call."""
        return f"_call({', '.join(self.value(a) for a in node.args)})"

    def call_function(self, name: str, args: Sequence[pe.PrimExpr]) -> str:
        return f"_call.kernel({', '.join([repr(name), *(self.value(a) for a in args)])})"

    def tir_address_of(self, node: Call) -> tuple[str, bool]:
        (load,) = node.args
        if not isinstance(load, BufferLoad):
            return self.value(load), False
        indices = [i.base if isinstance(i, pe.Ramp) else i for i in load.indices]
        strides, offset = self.layout(load.buffer)
        terms = [f"{self.scalar(i)} * {s}" for i, (s, _) in zip(indices, strides, strict=True)]
        terms += [] if offset is None else [offset[0]]
        return f"{self.view(load.buffer, 'n')}[{' + '.join(terms) or '0'}:]", False

    def tir_tvm_access_ptr(self, node: Call) -> tuple[str, bool]:
        kind, data, offset = node.args[:3]
        base = self.scalar(data)
        if isinstance(kind, Call) and not kind.dtype.is_handle:
            element = str(kind.dtype.element)
            base = f"{self.helper(meaning.view_bytes)}({base}, {element!r})"
        return f"{base}[{self.scalar(offset)}:]", False

    def tir_handle_add_byte_offset(self, node: Call) -> tuple[str, bool]:
        base, offset = (self.scalar(a) for a in node.args)
        return f"{self.helper(meaning.byte_offset)}({base}, {offset})", False

    def tir_tvm_tuple(self, node: Call) -> tuple[str, bool]:
        return f"({''.join(self.value(a) + ', ' for a in node.args)})", False

    tir_tvm_stack_make_shape = tir_tvm_tuple

    def tir_tvm_stack_make_array(self, node: Call) -> tuple[str, bool]:
        data, shape, strides, _, kind, offset = node.args
        steps = "None" if isinstance(strides, IntImm) else self.value(strides)
        args = f"{self.value(data)}, {self.value(shape)}, {steps}, {str(kind.dtype)!r}"
        pointed = data.type_annotation if isinstance(data, pe.Var) else None
        apart = pointed is not None and meaning.elements_per_byte(str(pointed[0])) > 1
        array = self.helper(meaning.borrowed if apart else meaning.tensor_view)
        return f"{array}({args}, {self.scalar(offset)})", False

    def tir_tvm_storage_sync(self, node: Call) -> tuple[str, bool]:
        return f"{self.helper(threads.sync)}()", False

    def tir_tvm_warp_shuffle(self, node: Call) -> tuple[str, bool]:
        """The value of another thread of the warp, by number or by distance."""
        _, value, lane, width, _ = (self.value(a) for a in node.args)
        steps = {"tir.tvm_warp_shuffle": 0, "tir.tvm_warp_shuffle_up": -1}
        step = steps.get(self.call_name(node), 1)
        return f"{self.helper(threads.shuffle)}({value}, {lane}, {width}, {step})", False

    tir_tvm_warp_shuffle_up = tir_tvm_warp_shuffle_down = tir_tvm_warp_shuffle

    def tir_tvm_warp_activemask(self, node: Call) -> tuple[str, bool]:
        return "0xFFFFFFFF", False

    def tir_TVMBackendAllocWorkspace(self, node: Call) -> tuple[str, bool]:
        size = self.scalar(node.args[2])
        return f"{self.helper(meaning.allocate)}('uint8', {size})", False

    def tir_TVMBackendFreeWorkspace(self, node: Call) -> tuple[str, bool]:
        return "0", False

    def tir_tvm_throw_last_error(self, node: Call) -> tuple[str, bool]:
        return f"{self.helper(meaning.throw_last_error)}()", False

    def tir_tvm_struct_get(self, node: Call) -> tuple[str, bool]:
        base, index, code = (self.scalar(a) for a in node.args[:3])
        return f"{self.helper(structs.struct_get)}({base}, {index}, {code})", False

    def tir_tvm_struct_set(self, node: Call) -> tuple[str, bool]:
        base, index, code = (self.scalar(a) for a in node.args[:3])
        value = self.value(node.args[3])
        return f"{self.helper(structs.struct_set)}({base}, {index}, {code}, {value})", False

    def tir_tvm_stack_alloca(self, node: Call) -> tuple[str, bool]:
        kind, count = (self.value(a) for a in node.args)
        return f"{self.helper(structs.stack_alloca)}({kind}, {count})", False

    def tir_call_packed_lowered(self, node: Call) -> tuple[str, bool]:
        """The arguments are structs `begin` to `end` of an array; the result follows them."""
        name, stack, begin, end = (self.value(a) for a in node.args[:4])
        return (
            f"{self.helper(structs.call_on_stack)}(_call, {name}, {stack}, {begin}, {end})",
            False,
        )

    tir_call_cpacked_lowered = tir_call_packed_lowered

    def tir_isnullptr(self, node: Call) -> tuple[str, bool]:
        return f"({self.value(node.args[0])} is None)", False

    def tir_dp4a(self, node: Call) -> tuple[str, bool]:
        a, b, total = (self.value(x) for x in node.args)
        return f"{self.helper(meaning.dp4a)}({a}, {b}, {total})", True

    def tir_undef(self, node: Call) -> tuple[str, bool]:
        return "0", False

    def tir_atomic_add(self, node: Call) -> tuple[str, bool]:
        pointer, value = (self.value(a) for a in node.args[:2])
        return f"{self.helper(meaning.atomic_add)}({pointer}, {value})", False


def np_vectorized(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A scalar function applied to each lane."""
    vectorized = meaning.np.vectorize(fn, otypes=[meaning.np.float64])
    return lambda *args: vectorized(*args)
