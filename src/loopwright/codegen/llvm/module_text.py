"""The text of one LLVM module: definitions, constants and declarations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any

from ...ir.dtype import DataType
from ...ir.target import Target
from ...tir.function import PrimFunc
from ..lowered import returned_type
from . import support
from .abi import IMPORT_PREFIX, c_string
from .debug_info import DebugInfo
from .types import global_name, llvm_type
from .vecmath import VecMath

if TYPE_CHECKING:
    from ...runtime.tensor import Tensor


class ModuleText:
    """Collects a module. `owner` makes the names of constants unique within the program;
    `functions` are the program's other functions by name, `imports` its private packed functions,
    `externs` the C functions of external libraries, `silent` functions without `T.ret`."""

    def __init__(
        self,
        owner: str = "",
        functions: Mapping[str, PrimFunc] | None = None,
        imports: Container[str] = (),
        externs: Container[str] = (),
        target: Target | None = None,
        silent: Container[str] = (),
    ) -> None:
        self.silent = silent
        self.imports = imports
        self.externs = externs
        self.owner = owner.replace(" ", "_")
        self.functions = functions or {}
        self.definitions: list[list[str]] = []
        self.globals: list[str] = []
        self.declared: dict[str, str] = {}
        self.defined: set[str] = set()
        features = target.features if target is not None else frozenset[str]()
        wide = target is not None and target.vector_bits >= 512 and "avx512f" in features
        self.vecmath = VecMath(scales=wide)
        # Whether the machine rounds float32 to int32 in one instruction, in vectors, too.
        self.rounds = target is not None and target.arch == "x86_64"
        # The bits of elements whose masked loads are one instruction.
        long = {32, 64} if "avx" in features else set[int]()
        self.masked_bits = {8, 16, 32, 64} if "avx512bw" in features else long
        self.constants: dict[str, Any] = {}
        self._strings: dict[str, str] = {}
        self._extras: dict[str, str] = {}
        self._returned: dict[str, DataType | None] = {}
        self._numbers = itertools.count()
        self.debug: DebugInfo | None = None  # set: instructions have the lines of TensorIR

    def declare(self, name: str, line: str) -> None:
        """Declare an external function once."""
        self.declared.setdefault(name, line)

    def unique(self, hint: str) -> str:
        """A fresh global name."""
        return f"{hint}.{next(self._numbers)}"

    def string(self, value: str) -> str:
        """The name of a constant C string."""
        name = self._strings.get(value)
        if name is None:
            name = self._strings[value] = self.unique("str")
            self.globals.append(c_string(name, value).rstrip("\n"))
        return name

    def packed_name(self, name: str) -> str:
        """The C string that a packed function is looked up by: one private to the program is
        registered under a unique name when the program is loaded."""
        if name not in self.imports:
            return self.string(name)
        symbol = global_name(f"{IMPORT_PREFIX}{name}")
        self.declare(symbol, f"@{symbol} = external constant i8")
        return symbol

    def constant(self, data: Tensor) -> str:
        """The name of a constant whose memory the program provides."""
        name = self.unique(f"{self.owner}.const")
        self.constants[name] = data
        name = global_name(name)
        self.globals.append(f"@{name} = external global i8")
        return name

    # -- helper functions ----------------------------------------------------------------------

    def helper(self, name: str, text: Callable[[], str]) -> str:
        """A constant or function that the module defines itself, emitted when first used."""
        if name not in self._extras:
            self._extras[name] = text()
        return name

    def integer_power(self, dtype: DataType) -> str:
        """The function x ** n on integers, wrapping around; for a negative n rounded toward zero."""
        element, lanes = dtype.element, dtype.lanes
        name = f"lw_ipow_{element}"
        if name not in self._extras:
            text = support.read("integer_power").split("\n\n", 1)[1].rstrip()
            text = text.replace("lw_ipow_int32", name).replace("i32", llvm_type(element))
            self._extras[name] = text if dtype.is_int else text.replace("slt", "ult")
        if lanes == 1:
            return name
        wide = f"{name}x{lanes}"
        if wide not in self._extras:
            self._extras[wide] = _lanewise(wide, name, dtype)
        return wide

    # -- other functions -----------------------------------------------------------------------

    def is_function(self, name: str) -> bool:
        """Whether a call by that name refers to a function of the program: a kernel may have the
        name of a C function."""
        return name in self.functions and name not in self.externs and name != self.owner

    def returned(self, name: str) -> DataType | None:
        """The type that T.ret returns in a function; None without T.ret. The 0 of functions of
        the packed convention says only that all went well."""
        if name not in self._returned:
            func = None if name in self.silent else self.functions.get(name)
            self._returned[name] = None if func is None else returned_type(func)
        return self._returned[name]

    # -- text ----------------------------------------------------------------------------------

    def code(self) -> list[str]:
        """The module's lines, with comments."""
        declarations = {**self.vecmath.declarations(), **self.declared}
        lines = [*self.globals, *(e for e in self._extras.values() if e)]
        lines += [line for name, line in declarations.items() if name not in self.defined]
        lines.append(self.vecmath.definitions())
        for definition in self.definitions:
            lines += definition
        return lines if self.debug is None else [*lines, *self.debug.text()]


def text_of(lines: list[str]) -> str:
    """Lines joined into text."""
    return "\n".join(line for line in lines if line) + "\n"


def without_comments(lines: list[str]) -> list[str]:
    """The lines without comments: the text that is compiled and hashed, independent of source positions."""
    return [line for line in lines if not line.startswith("  ;")]


def _lanewise(wide: str, name: str, dtype: DataType) -> str:
    kind, base = llvm_type(dtype), llvm_type(dtype.element)
    rows, result = [], "poison"
    for k in range(dtype.lanes):
        rows += [
            f"  %a{k} = extractelement {kind} %x, i64 {k}",
            f"  %b{k} = extractelement {kind} %y, i64 {k}",
            f"  %p{k} = call {base} @{name}({base} %a{k}, {base} %b{k})",
            f"  %r{k} = insertelement {kind} {result}, {base} %p{k}, i64 {k}",
        ]
        result = f"%r{k}"
    head = f"define internal {kind} @{wide}({kind} %x, {kind} %y) nounwind {{"
    return "\n".join([head, *rows, f"  ret {kind} {result}", "}"])
