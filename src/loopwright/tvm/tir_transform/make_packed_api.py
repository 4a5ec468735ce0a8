"""`MakePackedAPI`: adds to a public function an entry with the tvm-ffi calling convention, which
checks the arguments and calls the function with pointers and sizes.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func
          def f(A: T.Buffer((4,), "float32"), k: T.int32):
              T.func_attr({"global_symbol": "f"})
              A[0] = T.Cast("float32", k)
    +
    +     @T.prim_func
    +     def __tvm_ffi_f(self_handle: T.handle, args: T.handle, num_args: T.int32, result: T.handle) -> T.int32:
    +         T.func_attr({"calling_conv": 1, "global_symbol": "__tvm_ffi_f"})
    +         assert num_args == 2, "f: expected 2 arguments"
    +         A_index: T.int32 = T.tvm_struct_get(args, 0, 13, "int32")
    +         assert A_index == 7 or A_index == 70, "f: argument A (#0) must be a tensor"
    +         A_value: T.handle = T.tvm_struct_get(args, 0, 15, "handle")
    +         A_tensor: T.handle = T.if_then_else(A_index == 70, T.handle_add_byte_offset(A_value, 24), A_value)
    +         assert T.tvm_struct_get(A_tensor, 0, 10, "int32") == 1, "f: argument A (#0) must be on the cpu"
    +         assert T.tvm_struct_get(A_tensor, 0, 4, "int32") == 1, "f: argument A (#0) must have ndim 1"
    +         assert T.tvm_struct_get(A_tensor, 0, 5, "uint8") == T.uint8(2) and T.tvm_struct_get(A_tensor, 0, 6, "uint8") == T.uint8(32) and T.tvm_struct_get(A_tensor, 0, 7, "uint16") == T.uint16(1), "f: argument A (#0) must have dtype float32"
    +         A_shape_data: T.handle("int64", "global") = T.tvm_struct_get(A_tensor, 0, 2, "handle")
    +         A_shape = T.Buffer((1,), "int64", data=A_shape_data)
    +         assert A_shape[0] == T.int64(4), "f: argument A (#0) must have shape[0] == 4"
    +         A_strides_data: T.handle("int64", "global") = T.tvm_struct_get(A_tensor, 0, 3, "handle")
    +         A_strides = T.Buffer((1,), "int64", data=A_strides_data)
    +         assert T.isnullptr(A_strides_data) or A_strides[0] == T.int64(1), "f: argument A (#0) must have row-major strides"
    +         A: T.handle("float32", "global") = T.handle_add_byte_offset(T.tvm_struct_get(A_tensor, 0, 1, "handle"), T.tvm_struct_get(A_tensor, 0, 8, "uint64"))
    +         k_index: T.int32 = T.tvm_struct_get(args, 1, 13, "int32")
    +         assert k_index == 1 or k_index == 2, "f: argument k (#1) must be an int"
    +         k: T.int32 = T.Cast("int32", T.tvm_struct_get(args, 1, 15, "int64"))
    +         Module.f(A, k)
    +         return 0

A symbolic dimension is defined by the first tensor that has it and checked against later ones.
`UnpackSignatures` then rewrites the functions to the signatures that the entries call. The native
entries of `codegen` perform the same checks and also report the actual value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ...base.errors import explain
from ...ir.dtype import DataType
from ...ir.expr import GlobalVar
from ...ir.prim_expr import EQ, Call, IntImm, Or, PrimExpr, PrimType, StringImm, Var
from ...ir.prim_op import cast, const, multiply
from ...ir.transform import IRModule, ModulePass, PassContext
from ...ir.variables import vars_in
from ...runtime.dtype import dl_dtype
from ...tir.buffer import Buffer, decl_buffer
from ...tir.expr import BufferLoad
from ...tir.function import PrimFunc
from ...tir.op import all as all_of
from ...tir.op import handle_add_byte_offset, if_then_else, isnullptr, ret, tvm_struct_get
from ...tir.stmt import AssertStmt, Evaluate, LetStmt, Stmt, seq
from ...tir.stmt_functor import renew_defs
from ...tir.transform.lower.unpack_signatures import unpacked_params

ENTRY_PREFIX = "__tvm_ffi_"
# Fields that tvm_struct_get reads: of a DLTensor, and of a TVMFFIAny.
DATA, SHAPE, STRIDES, NDIM, CODE, BITS, LANES, BYTE_OFFSET, DEVICE_TYPE = 1, 2, 3, 4, 5, 6, 7, 8, 10
TYPE_INDEX, VALUE = 13, 15
# TVMFFIAny's type indices.
INT, BOOL, FLOAT, DLTENSOR_PTR, TENSOR = 1, 2, 3, 7, 70
_TENSOR_HEADER = 24  # bytes of an object before its DLTensor

Wrap = Callable[[Stmt], Stmt]


class _Entry:
    """The statements that read and check the arguments, outermost first."""

    def __init__(self, func: PrimFunc, gvar: GlobalVar) -> None:
        name = gvar.name_hint
        self.func = renew_defs(func)
        self.gvar = gvar
        self.name = name
        self.args = Var("args", "handle")
        self.num_args = Var("num_args", "int32")
        self.steps: list[Wrap] = []
        self.defined: set[Var] = set()
        self.later: list[tuple[PrimExpr, str]] = []

    def check(self, condition: PrimExpr, message: str) -> None:
        text = StringImm(message)
        self.steps.append(lambda body: AssertStmt(condition, text, body))

    def let(self, var: Var, value: PrimExpr) -> Var:
        self.steps.append(lambda body: LetStmt(var, value, body))
        self.defined.add(var)
        return var

    def run(self) -> PrimFunc:
        params = self.func.params
        plural = "argument" if len(params) == 1 else "arguments"
        count = const(len(params), "int32")
        self.check(EQ(self.num_args, count), f"{self.name}: expected {len(params)} {plural}")
        for i, param in enumerate(params):
            buffer = self.func.buffer_map.get(param)
            shown = param.name if buffer is None else buffer.name
            what = f"{self.name}: argument {shown} (#{i})"
            index = Var(f"{shown}_index", "int32")
            self.let(index, tvm_struct_get(self.args, i, TYPE_INDEX, "int32"))
            if buffer is not None:
                self.tensor(i, index, buffer, what)
            else:
                self.scalar(i, index, param, what)
        for condition, message in self.later:
            self.check(condition, message)
        called = Call("void", self.gvar, unpacked_params(self.func))
        body = seq(Evaluate(called), Evaluate(ret(const(0, "int32"))))
        for step in reversed(self.steps):
            body = step(body)
        attrs = {"calling_conv": 1, "global_symbol": ENTRY_PREFIX + self.name}
        handles = (Var("self_handle", "handle"), self.args, self.num_args, Var("result", "handle"))
        return PrimFunc(handles, body, PrimType(DataType("int32")), {}, attrs, span=self.func.span)

    def check_defined(self) -> None:
        """Raise ValueError for a dimension that no argument defines."""
        defined = {*self.defined, *self.func.params}
        for buffer in self.func.buffers:
            for dim in buffer.shape:
                missing = [v for v in vars_in(dim) if v not in defined]
                if missing:
                    what = f"dimension {missing[0].name} of buffer {buffer.name} is never defined"
                    hint = "some argument needs a dimension that is this variable alone"
                    raise ValueError(explain(what, got=str(dim), instead=hint, span=self.func.span))

    # ------------------------------------------------------------------ arguments

    def scalar(self, i: int, index: Var, param: Var, what: str) -> None:
        def of_type(*kinds: int) -> PrimExpr:
            condition: Any = EQ(index, const(kinds[0], "int32"))
            for kind in kinds[1:]:
                condition = Or(condition, EQ(index, const(kind, "int32")))
            return condition

        if param.dtype.is_handle:
            self.let(param, tvm_struct_get(self.args, i, VALUE, "handle"))
        elif param.dtype.is_float:
            self.check(of_type(FLOAT, INT, BOOL), f"{what} must be a float")
            as_float = tvm_struct_get(self.args, i, VALUE, "float64")
            as_int = cast("float64", tvm_struct_get(self.args, i, VALUE, "int64"))
            value = if_then_else(of_type(FLOAT), as_float, as_int)
            self.let(param, cast(param.dtype, value))
        else:
            noun = "a bool" if param.dtype.is_bool else "an int"
            self.check(of_type(INT, BOOL), f"{what} must be {noun}")
            self.let(param, cast(param.dtype, tvm_struct_get(self.args, i, VALUE, "int64")))

    def tensor(self, i: int, index: Var, buffer: Buffer, what: str) -> None:
        shown = buffer.name
        is_object = EQ(index, const(TENSOR, "int32"))
        is_tensor = Or(EQ(index, const(DLTENSOR_PTR, "int32")), is_object)
        self.check(is_tensor, f"{what} must be a tensor")
        value = self.let(
            Var(f"{shown}_value", "handle"), tvm_struct_get(self.args, i, VALUE, "handle")
        )
        inside = handle_add_byte_offset(value, const(_TENSOR_HEADER, "int32"))
        tensor = self.let(Var(f"{shown}_tensor", "handle"), if_then_else(is_object, inside, value))

        def field(code: int, dtype: str) -> PrimExpr:
            return tvm_struct_get(tensor, 0, code, dtype)

        def equals(code: int, dtype: str, number: int) -> PrimExpr:
            return EQ(field(code, dtype), const(number, dtype))

        self.check(equals(DEVICE_TYPE, "int32", 1), f"{what} must be on the cpu")
        rank = len(buffer.shape)
        self.check(equals(NDIM, "int32", rank), f"{what} must have ndim {rank}")
        code, bits, lanes = dl_dtype(str(buffer.dtype))
        same = (equals(CODE, "uint8", code), equals(BITS, "uint8", bits))
        dtype = all_of(*same, equals(LANES, "uint16", lanes))
        self.check(dtype, f"{what} must have dtype {buffer.dtype}")
        if rank:
            self.dims(buffer, field, what)
        self.let(
            buffer.data, handle_add_byte_offset(field(DATA, "handle"), field(BYTE_OFFSET, "uint64"))
        )
        if isinstance(buffer.elem_offset, Var) and buffer.elem_offset not in self.defined:
            self.let(buffer.elem_offset, const(0, buffer.elem_offset.dtype))

    def dims(self, buffer: Buffer, field: Callable[..., Any], what: str) -> None:
        rank = len(buffer.shape)

        def array(name: str, code: int) -> Buffer:
            data = Var(f"{buffer.name}_{name}_data", "handle", type_annotation=("int64", "global"))
            self.let(data, field(code, "handle"))
            return decl_buffer((rank,), "int64", f"{buffer.name}_{name}", data)

        shape = array("shape", SHAPE)
        for k, extent in enumerate(buffer.shape):
            got = BufferLoad(shape, [k])
            self.bind(extent, got, f"{what} must have shape[{k}] == {_plain(extent)}")
        strides = array("strides", STRIDES)
        if buffer.strides:
            self.check_strides(buffer, strides, what)
            return
        steps, step = [], const(1, "int64")
        for k in reversed(range(rank)):
            steps.append(EQ(BufferLoad(strides, [k]), step))
            step = multiply(step, BufferLoad(shape, [k]))
        compact = Or(isnullptr(strides.data), all_of(*steps))
        self.check(compact, f"{what} must have row-major strides")

    def check_strides(self, buffer: Buffer, strides: Buffer, what: str) -> None:
        self.check(
            EQ(isnullptr(strides.data), const(False, "bool")), f"{what} must come with strides"
        )
        for k, step in enumerate(buffer.strides):
            got = BufferLoad(strides, [k])
            self.bind(step, got, f"{what} must have strides[{k}] == {_plain(step)}")

    def bind(self, expected: PrimExpr, got: PrimExpr, message: str) -> None:
        """Define a variable by the actual value, or check it (once its variables are known)."""
        if (
            isinstance(expected, Var)
            and expected not in self.defined
            and expected not in self.func.params
        ):
            self.let(expected, cast(expected.dtype, got))
            return
        check = (EQ(got, cast("int64", expected)), message)
        if isinstance(expected, IntImm):
            self.check(*check)
            return
        free = [v for v in vars_in(expected) if v not in self.defined]
        (self.later.append if free else lambda pair: self.check(*pair))(check)


def _plain(expr: PrimExpr) -> str:
    """An extent for a message, without the types of literals."""
    return re.sub(r"T\.int\d+\((-?\d+)\)", r"\1", str(expr))


class MakePackedAPI(ModulePass):
    """Adds to a public function an entry with the tvm-ffi calling convention, which checks the
    arguments and calls the function with pointers and sizes. Functions without `global_symbol` are
    not changed."""

    name = "tir.MakePackedAPI"

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Add an entry for each public PrimFunc that has buffers or scalars as parameters."""
        functions = {}
        for gvar, func in mod.functions.items():
            if (
                isinstance(func, PrimFunc)
                and not func.is_private
                and not func.attrs.get("calling_conv")
            ):
                entry = _Entry(func, gvar)
                functions[GlobalVar(ENTRY_PREFIX + gvar.name_hint)] = entry.run()
                entry.check_defined()
        return mod.with_functions(functions)
