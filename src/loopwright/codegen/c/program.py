"""A whole program as C files: `model.c`, `model.h` and the weights.

    int32_t model_main_run(const struct model_main_inputs* inputs,
                           const struct model_main_outputs* outputs, uint8_t* workspace);

There is one such function per entry; everything else is static. The workspace has
MODEL_WORKSPACE_BYTES bytes; NULL selects a static array of `model.c` (compile with
-DMODEL_NO_WORKSPACE to leave it out). The weights are C arrays in `model_weights.c`, or one file
`model.weights` whose contents the caller passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...base.names import free_name
from ...ir.dtype import DataType
from ...ir.expr import GlobalVar
from ...ir.prim_expr import Call, PrimExpr, StringImm, Var
from ...ir.target import Target
from ...runtime.dtype import elements_per_byte
from ...runtime.extern import EXTERNAL_MODS, CType, ExternLibrary
from ...runtime.signature import Argument, Signature
from ...runtime.tensor import PackedTensor
from ...tir.byte_size import UPPER_BOUNDS
from ...tir.function import PrimFunc
from ...tir.signature import NATIVE_ENTRY
from ...tir.transform.verify.verify_externs import prototypes_of
from .emit import ALIGNMENT, function_text, rounded, written_pointers
from .function_text import FunctionText
from .macros import ALIGNED, ERRORS, LOOPS, NOINLINE, arena
from .types import c_type, elements, extern_header, identifier, memory_type

if TYPE_CHECKING:
    from ...base.span import Span

# mobilenet_v2 on one thread (Zen 4, gcc 12): -O2 50.6 ms, -O3 34.0, -O2 -march=native 28.3, both 8.4.
HOW_TO_COMPILE = [
    "/* Compile with -O3 and the processor's instructions (-march=native, or -mcpu= of the device):",
    " * with -O2 alone a network takes 6 to 11 times as long. */",
]
WORKSPACE = "workspace"
STACK_BYTES = 1024  # larger arrays of kernels come from the workspace
ARRAYS, BINARY = "arrays", "binary"
# Functions of string.h that write through their first argument only.
_WRITES_FIRST = ("memcpy", "memmove", "memset")


def stack_bytes_for(target: Target | None) -> int:
    """The most bytes of a kernel's array on the stack: at least those of all vector registers."""
    registers = 0 if target is None else target.num_vector_registers * target.vector_bits // 8
    return max(STACK_BYTES, registers)


@dataclass(frozen=True)
class Field(Argument):
    """An argument that is a field of a C struct."""

    field: str = ""


@dataclass(frozen=True)
class Area:
    """Memory that an entry works in: the workspace, or a pool of the memory plan."""

    name: str
    bytes: int
    alignment: int = ALIGNMENT


@dataclass(frozen=True)
class Entry:
    """A function of the program that C programs call."""

    name: str
    symbol: str  # "model_main": the prefix of `_run`, `_inputs`, `_outputs`
    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]
    symbols: tuple[Var, ...]
    fields: tuple[str, ...]  # fields of the inputs that hold symbolic sizes
    areas: tuple[Area, ...]  # memory that the function takes pointers to
    order: tuple[Field, ...]  # all arguments in the function's order
    returns: bool  # whether the outputs are results, not arguments


@dataclass(frozen=True)
class CFiles:
    """The texts of a program, its entries and the memory it needs."""

    prefix: str
    source: str = field(repr=False)
    header: str = field(repr=False)
    weights_source: str = field(repr=False)
    weights: bytes = field(repr=False)
    entries: dict[str, Entry] = field(repr=False)
    areas: dict[str, Area]  # the largest area of each name
    kernels: dict[str, str] = field(default_factory=dict, repr=False)
    bounds: dict[str, int] = field(default_factory=dict)  # of symbolic sizes, by name
    constant_bytes: int = 0


class ProgramText:
    """Collects a program: the state that function emitters share."""

    def __init__(
        self,
        prefix: str,
        functions: Mapping[str, PrimFunc],
        *,
        libraries: Sequence[ExternLibrary] = (),
        weights: str = ARRAYS,
        stack_bytes: int = STACK_BYTES,
    ) -> None:
        if weights not in (ARRAYS, BINARY):
            what = "weights are C arrays or one binary file"
            raise LoopwrightError(explain(what, got=weights, instead=f'"{ARRAYS}" or "{BINARY}"'))
        self.prefix, self.macro = prefix, prefix.upper()
        self.functions = functions
        self.libraries = list(libraries)
        self.binary = weights == BINARY
        self.stack_bytes = stack_bytes
        self.helpers: dict[str, str] = {}
        self.bounds: dict[str, int] = {}  # of symbolic sizes, by name
        for func in functions.values():
            for symbol, most in dict(func.attrs.get(UPPER_BOUNDS) or {}).items():
                self.bounds[symbol] = max(int(most), self.bounds.get(symbol, 0))
        self.prototypes = prototypes_of(_Libraries(self.libraries))
        self.externs: dict[str, tuple[list[str], str]] = {}
        self.done: dict[str, FunctionText | None] = {}
        self.order: list[FunctionText] = []
        self.written: dict[str, set[Var]] = {}
        self.constants: dict[int, tuple[str, str]] = {}
        self.data = bytearray()
        self.constant_bytes = 0
        self.declared: list[str] = []
        self.arrays: list[str] = []
        self.alive: list[Any] = []  # references, so that no two constants have one id
        self.reserved: set[str] = {f"{prefix}_weights"}

    # -- functions -----------------------------------------------------------------------------

    def has(self, name: PrimExpr) -> bool:
        """Whether the program has a function of that name."""
        return isinstance(name, StringImm) and name.value in self.functions

    def require(self, name: str, span: Span | None = None) -> FunctionText:
        """The emitter of a function, emitted before its callers."""
        emitter = self.done.get(name)
        if emitter is not None:
            return emitter
        func = self.functions.get(name)
        if func is None or name in self.done:
            what = f"{name} calls itself" if func is not None else f"no function {name}"
            raise LoopwrightError(explain(what, instead="C code has no recursion", span=span))
        self.done[name] = None
        symbol = free_name(identifier(f"{self.prefix}_{name}"), self.reserved)
        self.reserved.add(symbol)
        room = 0 if _is_graph(func) else self.stack_bytes
        emitter = function_text(self, symbol, func, room, self.written_by(name))
        self.done[name] = emitter
        self.order.append(emitter)
        return emitter

    def written_by(self, name: str) -> set[Var]:
        """The parameters that a function writes through."""
        if name not in self.written:
            self.written[name] = set()
            self.written[name] = written_pointers(self.functions[name], self.written_args)
        return self.written[name]

    def written_args(self, call: Call) -> list[Any]:
        """The arguments of a call that the callee may write through."""
        name = getattr(call.op, "name", "")
        if isinstance(call.op, GlobalVar):
            return self._of_callee(call.op.name_hint, call.args)
        if name == "tir.atomic_add":
            return [call.args[0]]
        if not name.startswith("tir.call_") or not isinstance(call.args[0], StringImm):
            return []
        called, args = call.args[0].value, call.args[1:]
        if called in self.functions:
            return self._of_callee(called, args)
        if called in _WRITES_FIRST:
            return list(args[:1])
        prototype = self.prototypes.get(called)
        if prototype is None:
            return [a for a in args if a.dtype.is_handle]
        pairs = zip(args, prototype[0].params, strict=True)
        return [a for a, p in pairs if p.pointer and not p.const]

    def _of_callee(self, name: str, args: Sequence[PrimExpr]) -> list[Any]:
        if name not in self.functions:
            return []
        written = self.written_by(name)
        pairs = zip(args, self.functions[name].params, strict=True)
        return [a for a, p in pairs if p in written]

    def extern(self, name: str, call: Call) -> list[str]:
        """The C types of an external function's parameters; it is declared here if no header
        declares it."""
        if name not in self.externs:
            self.externs[name] = self._extern(name, call)
        params = self.externs[name][0]
        if len(params) != len(call.args) - 1:
            what = f"{name} is called with different numbers of arguments"
            raise LoopwrightError(explain(what, got=str(call), span=call.span))
        return params

    def _extern(self, name: str, call: Call) -> tuple[list[str], str]:
        prototype = self.prototypes.get(name)
        if prototype is not None:
            return [_c_param(p) for p in prototype[0].params], ""
        args = call.args[1:]
        if extern_header(name) is not None:
            kinds = ["const void*" if a.dtype.is_handle else c_type(a.dtype) for a in args]
            if name in _WRITES_FIRST:
                kinds[0] = "void*"
            return kinds, ""
        kinds = [_passed(a) for a in args]
        return kinds, f"extern {c_type(call.dtype)} {name}({', '.join(kinds) or 'void'});"

    # -- constants -----------------------------------------------------------------------------

    def constant(self, data: Any, hint: str) -> tuple[str, str]:
        """(name of a constant, C type of its elements)."""
        if id(data) not in self.constants:
            self.alive.append(data)
            self.constants[id(data)] = self._constant(data, hint)
        return self.constants[id(data)]

    def _constant(self, data: Any, hint: str) -> tuple[str, str]:
        dtype = DataType(str(data.dtype))
        packed = isinstance(data, PackedTensor)
        kind = "uint8_t" if packed else memory_type(dtype)
        array = data.bytes() if packed else np.ascontiguousarray(data.view())
        self.constant_bytes += array.nbytes
        if self.binary:
            at = rounded(len(self.data))
            self.data.extend(bytes(at - len(self.data)))
            self.data.extend(array.tobytes())
            address = f"({self.prefix}_weights + {at})"
            return f"((const {kind}*){address})", f"const {kind}"
        name = free_name(identifier(f"{self.prefix}_{hint}"), self.reserved)
        self.reserved.add(name)
        declared = f"const {kind} {name}[{max(array.size, 1)}] {self.macro}_ALIGNED"
        self.declared.append(f"extern {declared};")
        self.arrays.append(f"{declared} = {{\n{elements(array, dtype, packed)}\n}};")
        return name, f"const {kind}"

    # -- files ---------------------------------------------------------------------------------

    def files(self, entries: Mapping[str, Signature], names: Mapping[str, Any]) -> CFiles:
        """The program's files. `entries`: signatures by name; `names`: the model's own
        "input_names" and "output_names"."""
        written = {name: self._entry(name, spec, names) for name, spec in entries.items()}
        runs = [self._run(e) for e in written.values()]
        areas: dict[str, Area] = {}
        for area in (a for e in written.values() for a in e.areas):
            if area.name not in areas or areas[area.name].bytes < area.bytes:
                areas[area.name] = area
        header = self._header(list(written.values()), list(areas.values()))
        return CFiles(
            self.prefix,
            self._source(runs, list(areas.values())),
            header,
            self._weights_source(),
            bytes(self.data),
            written,
            areas,
            {e.symbol: e.text() for e in self.order},
            self.bounds,
            self.constant_bytes,
        )

    def _entry(self, name: str, spec: Signature, names: Mapping[str, Any]) -> Entry:
        params = list(self.functions[name].params)
        symbols = [Argument(v.name, str(v.dtype)) for v in spec.symbols]
        order: list[Field] = []
        used: set[str] = set()

        def argument(item: Argument, label: str) -> Field:
            name = base = identifier(label)
            k = 0
            while name in used:
                k += 1
                name = f"{base}_{k}"
            used.add(name)
            return Field(label, item.dtype, item.dims, field=name)

        def labels(key: str, items: Sequence[Any]) -> list[str]:
            chosen = names.get(key)
            named = chosen is not None and len(chosen) == len(items) and name == "main"
            return list(chosen) if named and chosen else [i.name for i in items]

        if spec.results:
            inputs = [argument(*p) for p in zip(spec.params, labels("input_names", spec.params))]
            fields = tuple(argument(s, s.name).field for s in symbols)
            used = set()
            outs = zip(spec.results, labels("output_names", spec.results))
            outputs = [argument(*p) for p in outs]
        else:
            written = self.written_by(name)
            pointers = iter([p for p in params if p.dtype.is_handle])
            inputs, outputs = [], []
            for item in spec.params:
                writes = item.is_tensor and next(pointers) in written
                order.append(argument(item, item.name))
                (outputs if writes else inputs).append(order[-1])
            fields = tuple(argument(s, s.name).field for s in symbols)
        symbol = identifier(f"{self.prefix}_{name}")
        return Entry(
            name,
            symbol,
            tuple(inputs),
            tuple(outputs),
            tuple(spec.symbols),
            fields,
            self._areas(name),
            tuple(order or [*inputs, *outputs]),
            bool(spec.results),
        )

    def _areas(self, name: str) -> tuple[Area, ...]:
        """The memory that a function takes pointers to: its pools, and the workspace if it needs
        one besides them or has no pools."""
        func, scratch = self.functions[name], self.require(name).scratch_bytes
        if func.attrs.get("pool_constants"):
            what = "C code keeps constants outside of its working memory"
            hint = 'give the arenas kinds=("tensor", "scratch")'
            raise LoopwrightError(explain(what, instead=hint, span=func.span))
        areas = [Area(str(p[0]), int(p[1]), int(p[2])) for p in func.attrs.get("pools") or ()]
        areas = [replace(a, name=_area_name(a.name)) for a in areas]
        for k, area in enumerate(areas):
            if area.name == WORKSPACE:
                size = rounded(area.bytes) + scratch if scratch else area.bytes
                areas[k] = Area(WORKSPACE, size, max(area.alignment, ALIGNMENT))
                return tuple(areas)
        return tuple(areas) if areas and not scratch else (*areas, Area(WORKSPACE, scratch))

    def _run(self, entry: Entry) -> str:
        """The public function of an entry."""
        emitter = self.require(entry.name)
        args, lines = self._kernel_args(entry, emitter), []
        needed = [a for a in entry.areas if a.bytes]
        if needed:
            lines.append(f"#ifdef {self.macro}_NO_WORKSPACE")
            lines += [self._fail(f"{a.name} == NULL", f"{a.name} is NULL", -2) for a in needed]
            lines.append("#else")
            arena = f"{self.prefix}_arena_"
            lines += [f"  if ({a.name} == NULL) {a.name} = {arena}{a.name}.bytes;" for a in needed]
            lines.append("#endif")
        lines += [f"  (void){a.name};" for a in entry.areas if not a.bytes]
        if emitter.scratch_bytes:
            size = next(a.bytes for a in entry.areas if a.name == WORKSPACE)
            at = size - emitter.scratch_bytes
            args.append(f"{WORKSPACE} + {at}" if at else WORKSPACE)
        for var, label in zip(entry.symbols, entry.fields, strict=True):
            if var.name in self.bounds:
                text = f"inputs->{label}"
                most = self.bounds[var.name]
                what = f"{entry.name}: {label} must be from 0 to {most}"
                lines.insert(0, self._fail(f"{text} < 0 || {text} > {most}", what, -3))
        if self.binary:
            lines.append(f"  {self.prefix}_weights = (const uint8_t*)weights;")
        text = f"{emitter.symbol}({', '.join(args)})"
        lines += [f"  return {text};"] if emitter.can_fail else [f"  {text};", "  return 0;"]
        used = " ".join(args)
        for struct in ("inputs", "outputs"):
            if f"{struct}->" not in used:
                lines.insert(0, f"  (void){struct};")
        return f"{self._declaration(entry)} {{\n" + "\n".join(lines) + "\n}"

    def _fail(self, condition: str, message: str, code: int) -> str:
        """The check that ends a public function with an error."""
        return f'  if ({condition}) {{ {self.macro}_ERROR("{message}"); return {code}; }}'

    def _kernel_args(self, entry: Entry, emitter: FunctionText) -> list[str]:
        """The arguments that the public function passes to the internal one, in order."""
        tensors = [a for a in entry.order if a.dims is not None]
        scalars = [(a.field, a.dtype) for a in entry.order if a.dims is None]
        scalars += [(f, "int64") for f in entry.fields]
        areas, args = [a.name for a in entry.areas], []
        for p, kind in emitter.params:
            if not p.dtype.is_handle:
                label, dtype = scalars.pop(0)
                text, is_bool = f"inputs->{label}", DataType(dtype).is_bool
                same = kind == c_type(DataType(dtype))
                args.append(f"({text} != 0)" if is_bool else text if same else f"({kind}){text}")
            elif tensors:
                arg = tensors.pop(0)
                text = f"{'inputs' if arg in entry.inputs else 'outputs'}->{arg.field}"
                same = kind.removeprefix("const ") == f"{in_struct(arg.dtype)}*"
                args.append(text if same else f"({kind}){text}")
            else:
                args.append(areas.pop(0))
        return args

    def _declaration(self, entry: Entry) -> str:
        params = [
            f"const struct {entry.symbol}_inputs* inputs",
            f"const struct {entry.symbol}_outputs* outputs",
        ]
        params += [f"uint8_t* {a.name}" for a in entry.areas]
        if self.binary:
            params.append("const void* weights")
        return f"int32_t {entry.symbol}_run({', '.join(params)})"

    def _header(self, entries: Sequence[Entry], areas: Sequence[Area]) -> str:
        m = self.macro
        sizes = ["/* Bytes that a call works in, and what their address must be a multiple of. */"]
        for area in areas:
            sizes += [
                f"#define {m}_{area.name.upper()}_BYTES {area.bytes}",
                f"#define {m}_{area.name.upper()}_ALIGNMENT {area.alignment}",
            ]
        if self.binary:
            sizes.append(
                f"#define {m}_WEIGHTS_BYTES {len(self.data)} /* of {self.prefix}.weights */"
            )
        lines = [
            f"#ifndef {m}_H",
            f"#define {m}_H",
            "",
            *HOW_TO_COMPILE,
            "",
            "#include <stdint.h>",
            "",
        ]
        lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", "", *sizes]
        note = f"where {self.prefix}.c is compiled with -D{m}_LAST_ERROR=1024, its most bytes"
        lines += ["", f"/* The message of this thread's last error, {note}. */"]
        lines += [f"const char* {self.prefix}_last_error(void);"]
        for entry in entries:
            lines += [
                "",
                *self._structs(entry),
                "",
                *_described(entry, self),
                f"{self._declaration(entry)};",
            ]
        return "\n".join(
            [*lines, "", "#ifdef __cplusplus", "}", "#endif", "", f"#endif /* {m}_H */", ""]
        )

    def _structs(self, entry: Entry) -> list[str]:
        lines = []
        for what, args, const in (
            ("inputs", entry.inputs, "const "),
            ("outputs", entry.outputs, ""),
        ):
            body = [f"  {_field(a, const)}" for a in args]
            if what == "inputs":
                body += [f"  int64_t {f}; /* extent */" for f in entry.fields]
            body = body or ["  char none; /* C has no empty structs */"]
            lines += [f"struct {entry.symbol}_{what} {{", *body, "};"]
        return lines

    def _source(self, runs: Sequence[str], areas: Sequence[Area]) -> str:
        m, p = self.macro, self.prefix
        parts = [f'#include "{p}.h"', "#include <math.h>", "#include <stdbool.h>"]
        parts += ["#include <stddef.h>", "#include <string.h>"]
        parts += list(dict.fromkeys(h for lib in self.libraries for h in lib.headers))
        text = "\n".join([*HOW_TO_COMPILE, "", *parts]) + "\n\n"
        text += ERRORS.format(m=m, p=p) + ALIGNED.format(m=m)
        text += f"{NOINLINE.format(m=m)}{LOOPS.format(m=m)}\n"
        declared = [
            f"{prototype.text};"
            for lib in self.libraries
            if not lib.headers
            for prototype in lib.prototypes.values()
        ]
        declared += [line for _, line in self.externs.values() if line]
        if declared:
            text += "/* Functions from outside. */\n" + "\n".join(dict.fromkeys(declared)) + "\n\n"
        if self.binary:
            text += f"static const uint8_t* {p}_weights;\n\n"
        if self.declared:
            text += f"/* Weights: in {p}_weights.c. */\n" + "\n".join(self.declared) + "\n\n"
        text += "".join(arena(m, p, a.name, a.alignment) for a in areas if a.bytes)
        pieces = [*self.helpers.values(), *(e.text() for e in self.order), *runs]
        return text + "\n\n".join(pieces) + "\n"

    def _weights_source(self) -> str:
        if self.binary or not self.arrays:
            return ""
        text = f"#include <math.h>\n#include <stdint.h>\n{ALIGNED.format(m=self.macro)}\n"
        pairs = zip(self.declared, self.arrays, strict=True)
        return text + "\n\n".join(f"{d}\n{a}" for d, a in pairs) + "\n"


def _area_name(name: str) -> str:
    """The parameter name of a pool."""
    return f"{name}_" if name in ("inputs", "outputs", "weights") else identifier(name)


@dataclass(frozen=True)
class _Libraries:
    """The part of a module that `prototypes_of` reads."""

    libraries: list[ExternLibrary]

    @property
    def attrs(self) -> dict[str, Any]:
        return {EXTERNAL_MODS: self.libraries}


def _is_graph(func: PrimFunc) -> bool:
    return NATIVE_ENTRY in func.attrs


def _field(arg: Field, const: str) -> str:
    if arg.dims is None:
        dtype = DataType(arg.dtype)
        return f"{memory_type(dtype)} {arg.field}; /* {arg.dtype} */"
    shape = ", ".join(map(str, arg.shape()))
    kind = in_struct(arg.dtype)
    label = "" if arg.name == arg.field else f" {_comment(arg.name)}"
    return f"{const}{kind}* {arg.field}; /* {arg.dtype}[{shape}]{label} */"


def in_struct(dtype: str) -> str:
    """The element type of a struct's pointer to a tensor."""
    return "uint8_t" if elements_per_byte(dtype) > 1 else memory_type(DataType(dtype))


def _comment(text: str) -> str:
    return text.replace("*/", "* /").replace("/*", "/ *")


def _described(entry: Entry, program: ProgramText) -> list[str]:
    """The comment above an entry's declaration."""
    lines = ["Tensors are in row-major order. Returns 0, or -1 after an error."]
    for area in entry.areas:
        if not area.bytes:
            lines.append(f"{area.name}: not needed, may be NULL.")
            continue
        size = f"{program.macro}_{area.name.upper()}_BYTES bytes"
        lines.append(f"{area.name}: {size}, or NULL for the array of {program.prefix}.c.")
    if any(a.bytes for a in entry.areas):
        lines.append("Concurrent calls need separate memory.")
    if entry.fields:
        bounds = (program.bounds.get(v.name) for v in entry.symbols)
        shown = [
            f if most is None else f"{f} <= {most} (else it returns -3)"
            for f, most in zip(entry.fields, bounds, strict=True)
        ]
        lines.append(f"Extents in the inputs: {', '.join(shown)}.")
    if program.binary:
        lines.append(f"weights: the bytes of {program.prefix}.weights, aligned to {ALIGNMENT}.")
    return ["/* " + "\n * ".join(lines) + " */"]


def _c_param(param: CType) -> str:
    const = "const " if param.const else ""
    if param.pointer:
        kind = "void" if param.dtype == "void" else memory_type(DataType(param.dtype))
        return f"{const}{kind}*"
    return c_type(DataType(param.dtype))


def _passed(arg: PrimExpr) -> str:
    """The C type of an argument to a function without a prototype."""
    if isinstance(arg, StringImm):
        return "const char*"
    if not arg.dtype.is_handle:
        return c_type(arg.dtype)
    return "void*"
