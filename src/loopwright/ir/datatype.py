"""User-defined types: `custom[name]32` is a number stored as 32 bits, with operations that the user
registers.

    datatype.register("myfloat", 150)
    datatype.register_op(datatype.create_lower_func({(32, 32): "FloatToMine"}),
                         "Cast", "llvm", "float", "myfloat")
    datatype.register_op(datatype.create_lower_func({32: "MineAdd"}), "Add", "llvm", "myfloat")

`tir.transform.LowerCustomDatatypes` replaces every operation on such values by the result of the
function registered for it: a call of a C function (`create_lower_func`), or any expression on the
bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import explain
from ..base.registry import Registry
from .dtype import CUSTOM_TYPES, DataType
from .prim_expr import BinaryOpExpr, Call, Cast, FloatImm, PrimExpr, StringImm

Lower = Callable[[Any], PrimExpr]
FIRST_CODE = 129  # smaller ones are those of the types that everybody has

# (target kind, operation, type, other type or intrinsic; "" for none) -> the function
LOWERINGS: Registry[tuple[str, str, str, str], Lower] = Registry("lowering of custom types")
LEAST: Registry[str, Callable[[int], PrimExpr]] = Registry("least value of custom types")


def register(type_name: str, type_code: int) -> None:
    """Make `custom[type_name]bits` a type. Raises ValueError for a name or code that is taken."""
    if type_code < FIRST_CODE:
        hint = f"use {FIRST_CODE} or more"
        raise ValueError(
            explain("the codes below are those of known types", got=type_code, instead=hint)
        )
    registered = CUSTOM_TYPES.get(type_name)
    names = [name for name, code in CUSTOM_TYPES.items() if code == type_code]
    if registered not in (None, type_code) or (names and names != [type_name]):
        what = "a custom type's name and code belong together"
        got = f"{type_name} with {type_code}"
        has = names[0] if names else type_name
        raise ValueError(explain(what, got=got, instead=f"{CUSTOM_TYPES[has]} is {has}"))
    CUSTOM_TYPES.register(type_name, type_code, override=True)


def get_type_name(type_code: int) -> str:
    """The name of a registered code."""
    for name, code in CUSTOM_TYPES.items():
        if code == type_code:
            return name
    raise ValueError(explain("no custom type has this code", got=type_code))


def get_type_code(type_name: str) -> int:
    """The code of a registered name."""
    if type_name not in CUSTOM_TYPES:
        raise ValueError(explain("no custom type has this name", got=type_name, instead=_known()))
    return CUSTOM_TYPES[type_name]


def get_type_registered(type_code: int) -> bool:
    """Whether a code is a custom type's."""
    return type_code in CUSTOM_TYPES.values()


def _known() -> str:
    return "one of " + ", ".join(CUSTOM_TYPES) if CUSTOM_TYPES else "register it first"


def register_op(
    lower_func: Lower,
    op_name: str,
    target: str,
    src_type_name: str,
    dest_type_name: str | None = None,
    intrinsic_name: str | None = None,
) -> None:
    """Register the lowering of an operation on a custom type.

    `op_name` is the class of the expression: "Add", "LT", "FloatImm", "Cast" (which takes
    `dest_type_name`; an ordinary side is named "float", "int", "uint"), or "Call" (which takes
    `intrinsic_name`, "tir.exp"). `lower_func` gets the expression, its operands lowered to unsigned
    integers already, and returns the expression that replaces it.
    """
    other = dest_type_name if op_name == "Cast" else intrinsic_name if op_name == "Call" else ""
    if other is None:
        what = "dest_type_name" if op_name == "Cast" else "intrinsic_name"
        raise ValueError(explain(f"{op_name} of a custom type needs {what}", got="none"))
    LOWERINGS.register((target, op_name, src_type_name, other), lower_func, override=True)


def register_min_func(func: Callable[[int], PrimExpr], type_name: str) -> None:
    """Register the least value of a type: `func(bits)` returns the expression."""
    LEAST.register(type_name, func, override=True)


def lowering(kinds: Sequence[str], op_name: str, type_name: str, other: str = "") -> Lower | None:
    """The function registered for an operation, for the first of these kinds that has one."""
    keys = ((kind, op_name, type_name, other) for kind in kinds)
    return next((LOWERINGS[key] for key in keys if key in LOWERINGS), None)


def least(dtype: DataType) -> PrimExpr:
    """The least value of a custom type. Raises ValueError if none is registered."""
    name = type_name(dtype)
    if name not in LEAST:
        hint = "give it with datatype.register_min_func"
        raise ValueError(
            explain("the least value of this type is not known", got=str(dtype), instead=hint)
        )
    return LEAST[name](dtype.bits)


def type_name(dtype: DataType) -> str:
    """The name by which operations are registered: "myfloat", or "float", "int"..."""
    return dtype.base.partition("[")[2].partition("]")[0] if dtype.code == "custom" else dtype.code


def create_lower_func(extern_func_map: dict[Any, str]) -> Lower:
    """Lower to calls of C functions, by width: `{32: "MineAdd"}`, for casts `{(from, to): name}`.

    The result raises RuntimeError for a width that has no function, and for an expression that is
    no cast, literal, call or binary operation.
    """

    def lower(op: PrimExpr) -> PrimExpr:
        dtype = bits_type(op.dtype) if op.dtype.code == "custom" else op.dtype
        width: Any = op.dtype.bits
        args: Any = op.args if isinstance(op, Call) else ()
        if isinstance(op, Cast):
            width, args = (op.value.dtype.bits, width), (op.value,)
        elif isinstance(op, FloatImm):
            args = (FloatImm("float32", op.value),)
        elif isinstance(op, BinaryOpExpr):
            width, args = op.a.dtype.bits, (op.a, op.b)
        elif not isinstance(op, Call):
            what = f"{type(op).__name__} of a custom type is not lowered to a call"
            hint = "register_op takes any function from the expression to what replaces it"
            raise RuntimeError(explain(what, got=str(op), instead=hint))
        if width not in extern_func_map:
            what = f"no function is registered for {type(op).__name__} of this width"
            widths = ", ".join(map(str, extern_func_map)) or "none"
            raise RuntimeError(explain(what, got=width, instead=f"those registered are {widths}"))
        return _extern(dtype, extern_func_map[width], *args)

    return lower


def create_min_lower_func(
    extern_func_map: dict[int, str], type_name: str
) -> Callable[[int], PrimExpr]:
    """The least value as a call of a C function, by width."""

    def lower(num_bits: int) -> PrimExpr:
        if num_bits not in extern_func_map:
            what = f"no function is registered for the least value of {type_name} of this width"
            raise RuntimeError(explain(what, got=num_bits))
        return Call(
            f"custom[{type_name}]{num_bits}",
            "tir.call_pure_extern",
            [StringImm(extern_func_map[num_bits])],
        )

    return lower


def _extern(dtype: DataType, name: str, *args: PrimExpr) -> PrimExpr:
    return Call(dtype, "tir.call_pure_extern", [StringImm(name), *args])


def bits_type(dtype: DataType) -> DataType:
    """The unsigned integer that stores a type."""
    return DataType(f"uint{dtype.bits}").with_lanes(dtype.lanes)


def lower_ite(ite_op: Call) -> PrimExpr:
    """Lower `if_then_else` of a custom type: a choice of bits."""
    return ite_op.replace(dtype=bits_type(ite_op.dtype))


def lower_call_pure_extern(op: Call) -> PrimExpr:
    """Lower a call of a C function that returns a custom type to a call that returns the bits."""
    return op.replace(dtype=bits_type(op.dtype))
