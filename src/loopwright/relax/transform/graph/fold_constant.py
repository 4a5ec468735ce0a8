"""FoldConstant: evaluates calls whose arguments are constants.

Operators are evaluated by their numpy definition, so it is cheapest before LegalizeOps; kernel
calls run as native code (or by the `evaluator` of the pass) if they do little more than move data. A result larger than its arguments
is not folded if it has many elements (a large `full`, a `broadcast_to`), nor is a product or window
that takes long, nor a result beyond the budget of a model file: these run with the model.
Of the runtime's functions those that compute sizes are evaluated, and the symbols that a match_cast defines by these
are replaced, so that a model whose inputs get their sizes late (`BindSymbolicVars`) is as static as one that is
imported with them.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
          with R.dataflow():
    -         lv = R.add(R.const(1.0, "float32"), R.const(2.0, "float32"))
    -         gv = R.multiply(x, lv)
    +         gv = R.multiply(x, R.const(3.0, "float32"))
              R.output(gv)
          return gv
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....base import budget
from ....base.budget import BudgetError
from ....base.late import Slot
from ....ir import trace
from ....ir.expr import GlobalVar
from ....ir.op import Op
from ....ir.prim_expr import IntImm
from ....ir.structural import structural_equal
from ....ir.transform import FunctionPass, IRModule, PassContext
from ....runtime.dtype import elements_per_byte
from ....runtime.tensor import Tensor, aligned, tensor
from ....tir.function import PrimFunc
from ....tir.stmt import (
    Allocate,
    AttrStmt,
    BlockRealize,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from ... import expr as rx
from ...analysis.variables import overwritten_vars
from ...functor import GraphRewriter
from ...interpreter import Interpreter, _Frame
from ...op.base import CALL_PURE_PACKED, CALL_TIR
from ...struct_info import ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from ...weights import computed, weights_in
from ..queries import is_outlined, tensor_fields
from .canonicalize import canonicalize

_SMALL = 1 << 14  # elements of a result that is always small enough
_GROWTH = 4  # allowed growth over the arguments: weights are padded to blocks
_PRODUCT = 1 << 32  # multiplications of a matrix product
_WINDOWS = 1 << 26  # the same of a convolution, elements that a pool looks at
_WINDOW = 1 << 10  # largest attribute of a window: numpy pads before it looks
_SIZES = 64  # elements of a tensor that holds sizes
_OURS = ("relax.run.", "vm.builtin.tensor_to_shape")  # functions of the runtime that only compute
_OF_WINDOWS = {"strides", "padding", "dilation", "pool_size", "pad_width", "output_padding"}
_OF_PRODUCTS = ("matmul", "einsum", "conv", "attention")

Evaluator = Callable[[PrimFunc, list[Any]], None]
RUN_KERNEL: Slot[Evaluator] = Slot("relax.run_kernel")  # compiles for this machine


class FoldConstant(FunctionPass, repr=False):
    """Evaluate the values that depend on constants only.

    evaluator: runs a PrimFunc in place on a list of arrays, the results last; native code if None.
    """

    evaluator: Evaluator | None = None

    function_type = rx.Function

    def run_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> Any:
        if is_outlined(func):
            return func
        while True:
            folder = _Folder(mod, overwritten_vars(func), self.evaluator)
            func = folder.function(func)
            if not folder.folds_sizes:
                return func
            func = canonicalize(func, mod)


class _Folder(GraphRewriter):
    mod: IRModule

    def __init__(self, mod: IRModule, written: set[rx.Var], evaluator: Evaluator | None) -> None:
        super().__init__(mod)
        self.evaluator = evaluator
        self.bound: dict[rx.Expr, Any] = {}
        self.folded: dict[Any, Any] = {}
        self.written = written
        self.fresh = False  # whether each run of the function needs a value of its own
        self.folds_sizes = False  # whether a call that computes sizes is folded

    def binding(self, binding: rx.Binding) -> None:
        self.fresh = binding.var in self.written
        super().binding(binding)
        value = self.builder.lookup_binding(binding.var)
        if isinstance(value, rx.Constant) or (isinstance(value, rx.Tuple) and self.constant(value)):
            self.bound[binding.var] = value

    def emit(self, binding: rx.Binding, value: rx.Expr) -> None:
        """Constants that are bound here replace the uses of their variables."""
        var, folded = binding.var, isinstance(value, rx.Constant) and value is not binding.value
        if folded and not self.fresh and structural_equal(value.struct_info, var.struct_info):
            self.var_map[var] = value
            return
        super().emit(binding, value)

    def tuple_get_item(self, node: rx.TupleGetItem) -> Any:
        value = self.bound.get(node.tuple_value)
        return value.fields[node.index] if isinstance(value, rx.Tuple) else node

    def call(self, call: rx.Call) -> Any:
        if self.fresh or not isinstance(call.op, Op) or not self.can_fold(call):
            return call
        args = [self.literal(a) for a in call.args]
        if any(a is None for a in args):
            return call
        if call.struct_info is None:
            call = self.builder.normalize(call)
        key = _key(call, args)
        if key in self.folded:
            return self.folded[key]
        if _takes_long(call, args) or not _worth(call, args):
            return call
        ready = call.replace(args=tuple(args))
        ready._update_struct_info(call.struct_info)
        if weights_in(args):
            kernel = self.mod[args[0]] if call.op is CALL_TIR else None
            result = None if call.op is CALL_PURE_PACKED else computed(ready, kernel)
            if result is not None:
                self.folded[key] = result
            return result or call
        try:
            interpreter = Interpreter(self.mod, run_tir=self.evaluator or RUN_KERNEL.get())
            value = interpreter.value(ready, _Frame("FoldConstant", {}, {}))
        except BudgetError:
            raise
        except Exception as error:  # leave the error to run time; the call may never run
            trace.note("fold", call.op.name, reason=f"{type(error).__name__}: {error}")
            return call
        result = _constant(value, call.struct_info)
        if result is None:
            return call
        self.folded[key] = result  # so a weight that many calls use stays one
        self.folds_sizes = self.folds_sizes or call.op is CALL_PURE_PACKED
        return result

    def can_fold(self, call: rx.Call) -> bool:
        """Whether the callee can be evaluated here."""
        op = call.op
        if op is CALL_TIR:
            gvar = call.args[0]
            func = self.mod.get(gvar) if self.mod and isinstance(gvar, GlobalVar) else None
            elements = sum(_elements(f) for f in tensor_fields(call.sinfo_args[0]))
            most = max(elements * _GROWTH, _SMALL)
            return isinstance(func, PrimFunc) and _turns(func.body) <= most
        if op is CALL_PURE_PACKED:
            callee, infos = call.args[0], call.sinfo_args
            internal = isinstance(callee, rx.ExternFunc) and callee.global_symbol.startswith(_OURS)
            return internal and all(
                isinstance(t, ShapeStructInfo) or _elements(t) <= _SIZES for t in infos
            )
        if not (op.get_attr("folds", True) and op.get_attr("FPurity", False)):
            return False
        return op.has_attr("FNumpy")

    def literal(self, arg: GlobalVar | rx.Expr) -> Any:
        """An argument as constants only, or None."""
        if isinstance(arg, rx.Var):
            return self.bound.get(arg)
        if isinstance(arg, rx.Tuple):
            fields = [self.literal(f) for f in arg.fields]
            return None if any(f is None for f in fields) else rx.Tuple(fields)
        if isinstance(arg, rx.ShapeExpr):
            return arg if all(isinstance(v, IntImm) for v in arg.values) else None
        if isinstance(arg, rx.PrimValue):
            return arg if hasattr(arg.value, "value") else None
        literals = (rx.Constant, rx.DataTypeImm, rx.StringImm, rx.ExternFunc, GlobalVar)
        return arg if isinstance(arg, literals) else None

    def constant(self, value: rx.Tuple) -> bool:
        """Whether a tuple holds constants only."""
        return all(
            isinstance(f, rx.Constant) or (isinstance(f, rx.Tuple) and self.constant(f))
            for f in value.fields
        )


def _key(call: rx.Call, args: list[Any]) -> Any:
    """The key of a call; calls with equal keys have equal results."""

    def leaf(arg: GlobalVar | rx.Expr) -> Any:
        if isinstance(arg, rx.Tuple):
            return tuple(map(leaf, arg.fields))
        return id(arg.data) if isinstance(arg, rx.Constant) else str(arg)

    return call.op, str(call.attrs), *map(str, call.sinfo_args), *map(leaf, args)


# A count that is not known: more than any real one, also in a sum or a product with others.
_UNKNOWN = 1 << 62


def _turns(body: Stmt) -> int:
    """The number of iterations of the innermost statements of a kernel, at most; a large number if unknown."""
    most = 0

    def look(node: Stmt, times: int) -> None:
        nonlocal most
        most = max(most, times)
        if type(node) is While:
            most = _UNKNOWN
        elif type(node) is For:
            literal = isinstance(node.extent, IntImm)
            look(node.body, times * node.extent.value if literal else _UNKNOWN)
        else:
            for child in _INSIDE.get(type(node), lambda n: ())(node):
                look(child, times)

    look(body, 1)
    return most


_INSIDE: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    SeqStmt: lambda n: n.seq,
    BlockRealize: lambda n: (n.block.body,),
    IfThenElse: lambda n: (n.then_case, n.else_case),
    **dict.fromkeys((LetStmt, AttrStmt, Allocate, DeclBuffer), lambda n: (n.body,)),
}


def _elements(info: StructInfo) -> int:
    """The number of elements of a tensor of static shape, else a large number."""
    dims = info.get_shape() if isinstance(info, TensorStructInfo) else None
    extents = None if dims is None else [d.value for d in dims if isinstance(d, IntImm)]
    if dims is None or extents is None or len(extents) < len(dims):
        return _UNKNOWN
    return math.prod(extents)


def _worth(call: rx.Call, args: list[Any]) -> bool:
    """Whether the result is not much larger than the arguments, and there is room for it."""
    input_bytes = sum(_constant_sizes(args))
    fields = _result_fields(call)
    size = sum(map(_elements, fields))
    if size >= _UNKNOWN:
        return True
    if size > max(input_bytes * _GROWTH, _SMALL):
        return False
    return budget.room(sum(_elements(f) * f.dtype.lane_bytes for f in fields))


def _constant_sizes(args: list[Any]) -> list[int]:
    """The elements of each constant among the arguments."""
    leaves = [f for a in args for f in (a.fields if isinstance(a, rx.Tuple) else [a])]
    return [math.prod(f.data.shape) for f in leaves if isinstance(f, rx.Constant)]


def _result_fields(call: rx.Call) -> list[Any]:
    info = call.struct_info
    complete = isinstance(info, (TensorStructInfo, TupleStructInfo))
    return tensor_fields(info) if complete else []


def _takes_long(call: rx.Call, args: list[Any]) -> bool:
    """Whether numpy takes long for the call: a large product, large windows."""
    name = getattr(call.op, "name", "")
    attrs = {} if call.attrs is None else dict(call.attrs.items())
    extents = [attrs[k] for k in _OF_WINDOWS & attrs.keys()]
    windows = [abs(int(n)) for v in extents for n in (v if hasattr(v, "__iter__") else [v])]
    size = sum(map(_elements, _result_fields(call)))
    if any(n > _WINDOW for n in windows):
        return True
    if any(word in name for word in _OF_PRODUCTS):
        # The sizes of a [m, k], b [k, n] and their product [m, n] multiply to (m * n * k) ** 2.
        work = math.isqrt(math.prod(sorted(_constant_sizes(args))[-2:]) * size)
        return work > (_PRODUCT if "matmul" in name else _WINDOWS)
    area = math.prod(abs(int(n)) for n in attrs.get("pool_size", ()))
    return bool(windows) and size * area > _WINDOWS


def _constant(value: Any, info: StructInfo | None) -> Any:
    """The result as constants, or None if it is something else."""
    if isinstance(value, tuple) and isinstance(info, TupleStructInfo):
        fields = [_constant(v, i) for v, i in zip(value, info.fields, strict=True)]
        return None if any(f is None for f in fields) else rx.Tuple(fields)
    if isinstance(value, tuple) and all(type(v) is int for v in value):
        return rx.ShapeExpr(value)
    if not isinstance(value, np.ndarray) or not isinstance(info, TensorStructInfo):
        return None
    if elements_per_byte(str(info.dtype)) > 1:  # numpy has a byte for each
        return rx.Constant(tensor(value, dtype=str(info.dtype)))
    return rx.Constant(Tensor(value if value.flags.c_contiguous else aligned(value)))
