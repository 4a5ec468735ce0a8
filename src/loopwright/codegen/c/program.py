"""A whole program as C files: `model.c`, `model.h`, and the weights apart.

    int32_t model_main_run(const struct model_main_inputs* inputs,
                           const struct model_main_outputs* outputs, uint8_t* workspace);

One such function for each entry. Everything else is static. The workspace is MODEL_WORKSPACE_BYTES
bytes; NULL stands for the static array that `model.c` brings (leave it out with
-DMODEL_NO_WORKSPACE). The weights are C arrays in `model_weights.c`, or one file `model.weights`
whose bytes the caller hands over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType
from ...ir.expr import GlobalVar
from ...ir.prim_expr import Call, StringImm, Var
from ...runtime.dtype import elements_per_byte
from ...runtime.extern import CType, ExternLibrary
from ...runtime.tensor import PackedTensor
from ...tir.function import PrimFunc
from ...tir.transform.verify_externs import prototypes_of
from .calls import extern_header
from .emit import ALIGNMENT, FunctionEmitter, rounded, written_pointers
from .helpers import Helpers
from .types import c_type, identifier, literal, memory_type, real

STACK_BYTES = 1024  # larger arrays of kernels come from the workspace
ARRAYS, BINARY = "arrays", "binary"
_EXTERN = ("tir.call_extern", "tir.call_pure_extern")
# Functions of string.h that write through their first argument only.
_WRITES_FIRST = ("memcpy", "memmove", "memset")


@dataclass(frozen=True)
class Argument:
    """A tensor or scalar of an entry: `dims` are numbers and expressions; None: a scalar."""

    name: str
    field: str
    dtype: str
    dims: tuple[Any, ...] | None


@dataclass(frozen=True)
class Entry:
    """A function of the program that C programs call."""

    name: str
    symbol: str  # "model_main": `_run`, `_inputs` and `_outputs` are added to it
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    symbols: tuple[Var, ...]
    fields: tuple[str, ...]  # the symbols' fields in the inputs
    pools: tuple[tuple[str, int, int], ...]
    order: tuple[Argument, ...]  # all arguments as the function has them
    returns: bool  # whether the outputs are results, and no arguments


@dataclass(frozen=True)
class CFiles:
    """The texts of a program, its entries, and what it needs."""

    prefix: str
    source: str
    header: str
    weights_source: str
    weights: bytes
    entries: dict[str, Entry]
    scratch_bytes: int  # of the parameter `workspace`
    workspace_bytes: int  # and of all pools
    kernels: dict[str, str] = field(default_factory=dict)


class ProgramText:
    """Collects a program: what function emitters share."""

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
        self.helpers = Helpers()
        self.prototypes = prototypes_of(_Libraries(self.libraries))
        self.externs: dict[str, tuple[list[str], str]] = {}
        self.done: dict[str, FunctionEmitter | None] = {}
        self.order: list[FunctionEmitter] = []
        self.written: dict[str, set[Var]] = {}
        self.constants: dict[int, tuple[str, str]] = {}
        self.data = bytearray()
        self.declared: list[str] = []
        self.arrays: list[str] = []
        self.kept: list[Any] = []  # so that no two constants have one id
        self.reserved: set[str] = {f"{prefix}_weights"}

    # -- functions -----------------------------------------------------------------------------

    def has(self, name: Any) -> bool:
        """Whether the program has a function of that name."""
        return isinstance(name, StringImm) and name.value in self.functions

    def require(self, name: str, span: Any = None) -> FunctionEmitter:
        """The emitter of a function, which is written before the ones that call it."""
        found = self.done.get(name)
        if found is not None:
            return found
        func = self.functions.get(name)
        if func is None or name in self.done:
            what = f"{name} calls itself" if func is not None else f"no function {name}"
            raise LoopwrightError(explain(what, instead="C code has no recursion", span=span))
        self.done[name] = None
        symbol = base = identifier(f"{self.prefix}_{name}")
        k = 0
        while symbol in self.reserved:
            k += 1
            symbol = f"{base}_{k}"
        self.reserved.add(symbol)
        emitter = FunctionEmitter(self, symbol, func, 0 if _is_graph(func) else self.stack_bytes)
        emitter.run(self.written_by(name))
        self.done[name] = emitter
        self.order.append(emitter)
        return emitter

    def written_by(self, name: str) -> set[Var]:
        """The parameters through which a function writes."""
        if name not in self.written:
            self.written[name] = set()
            self.written[name] = written_pointers(self.functions[name], self.written_args)
        return self.written[name]

    def written_args(self, call: Call) -> list[Any]:
        """The arguments of a call through which the called function may write."""
        name = getattr(call.op, "name", "")
        if isinstance(call.op, GlobalVar):
            return self._of_callee(call.op.name_hint, call.args)
        if name == "tir.atomic_add":
            return [call.args[0]]
        if name not in _EXTERN or not isinstance(call.args[0], StringImm):
            return []
        called, args = call.args[0].value, call.args[1:]
        if called in self.functions:
            return self._of_callee(called, args)
        if called in _WRITES_FIRST:
            return list(args[:1])
        known = self.prototypes.get(called)
        if known is None:
            return [a for a in args if a.dtype.is_handle]
        pairs = zip(args, known[0].params, strict=True)
        return [a for a, p in pairs if p.pointer and not p.const]

    def _of_callee(self, name: str, args: Any) -> list[Any]:
        if name not in self.functions:
            return []
        written = self.written_by(name)
        pairs = zip(args, self.functions[name].params, strict=True)
        return [a for a, p in pairs if p in written]

    def extern(self, name: str, call: Call) -> list[str]:
        """The C types of an external function's parameters; it is declared where nobody does."""
        if name not in self.externs:
            self.externs[name] = self._extern(name, call)
        params = self.externs[name][0]
        if len(params) != len(call.args) - 1:
            what = f"{name} is called with different numbers of arguments"
            raise LoopwrightError(explain(what, got=str(call), span=call.span))
        return params

    def _extern(self, name: str, call: Call) -> tuple[list[str], str]:
        known = self.prototypes.get(name)
        if known is not None:
            return [_c_param(p) for p in known[0].params], ""
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
        """(what a constant is called, what it points to)."""
        found = self.constants.get(id(data))
        if found is None:
            self.kept.append(data)
            found = self.constants[id(data)] = self._constant(data, hint)
        return found

    def _constant(self, data: Any, hint: str) -> tuple[str, str]:
        dtype = DataType(str(data.dtype))
        packed = isinstance(data, PackedTensor)
        kind = "uint8_t" if packed else memory_type(dtype)
        array = data.bytes() if packed else np.ascontiguousarray(data.view())
        if self.binary:
            at = rounded(len(self.data))
            self.data.extend(bytes(at - len(self.data)))
            self.data.extend(array.tobytes())
            place = f"({self.prefix}_weights + {at})"
            return f"((const {kind}*){place})", f"const {kind}"
        name = base = identifier(f"{self.prefix}_{hint}")
        k = 0
        while name in self.reserved:
            k += 1
            name = f"{base}_{k}"
        self.reserved.add(name)
        declared = f"const {kind} {name}[{max(array.size, 1)}] {self.macro}_ALIGNED"
        self.declared.append(f"extern {declared};")
        self.arrays.append(f"{declared} = {{\n{_items(array, dtype, packed)}\n}};")
        return name, f"const {kind}"

    # -- files ---------------------------------------------------------------------------------

    def files(self, entries: Mapping[str, Any], names: Mapping[str, Any]) -> CFiles:
        """The program's files. `entries`: by name how a function is called (an EntrySpec); `names`:
        the model's own "input_names" and "output_names"."""
        made = {name: self._entry(name, spec, names) for name, spec in entries.items()}
        scratch = max((self.require(n).scratch_bytes for n in made), default=0)
        runs = [self._run(e) for e in made.values()]
        pools = {p[0]: p for e in made.values() for p in e.pools}
        header = self._header(list(made.values()), scratch, pools)
        return CFiles(
            self.prefix,
            self._source(runs, scratch),
            header,
            self._weights_source(),
            bytes(self.data),
            made,
            scratch,
            scratch + sum(p[1] for p in pools.values()),
            {e.symbol: e.text() for e in self.order},
        )

    def _entry(self, name: str, spec: Any, names: Mapping[str, Any]) -> Entry:
        params, pools = list(self.functions[name].params), []
        order: list[Argument] = []
        taken: set[str] = set()

        def argument(item: Any, label: str) -> Argument:
            made = base = identifier(label)
            k = 0
            while made in taken:
                k += 1
                made = f"{base}_{k}"
            taken.add(made)
            return Argument(label, made, str(item.dtype), getattr(item, "dims", None))

        def labels(key: str, items: Sequence[Any]) -> list[str]:
            given = names.get(key)
            named = given is not None and len(given) == len(items) and name == "main"
            return list(given) if named and given else [i.name for i in items]

        if spec.results:
            inputs = [argument(*p) for p in zip(spec.params, labels("input_names", spec.params))]
            fields = tuple(argument(_Symbol(v), v.name).field for v in spec.symbols)
            taken = set()
            outs = zip(spec.results, labels("output_names", spec.results))
            outputs = [argument(*p) for p in outs]
            rest = params[len(inputs) + len(outputs) :]
            extra = [p for p in rest if p.dtype.is_handle]
            noted = self.functions[name].attrs.get("pools") or ()
            for var, (pool, size, alignment) in zip(extra, noted, strict=True):
                del var
                pools.append((identifier(str(pool)), int(size), int(alignment)))
        else:
            written = self.written_by(name)
            pointers = iter([p for p in params if p.dtype.is_handle])
            inputs, outputs = [], []
            for item in spec.params:
                tensor = getattr(item, "dims", None) is not None
                writes = tensor and next(pointers) in written
                order.append(argument(item, item.name))
                (outputs if writes else inputs).append(order[-1])
            fields = tuple(argument(_Symbol(v), v.name).field for v in spec.symbols)
        symbol = identifier(f"{self.prefix}_{name}")
        return Entry(
            name,
            symbol,
            tuple(inputs),
            tuple(outputs),
            tuple(spec.symbols),
            fields,
            tuple(pools),
            tuple(order or [*inputs, *outputs]),
            bool(spec.results),
        )

    def _run(self, entry: Entry) -> str:
        """The public function of an entry."""
        emitter = self.require(entry.name)
        given, lines = self._given(entry, emitter), []
        if emitter.scratch_bytes:
            lines += [
                f"#ifdef {self.macro}_NO_WORKSPACE",
                "  if (workspace == NULL) return -2;",
                "#else",
                f"  if (workspace == NULL) workspace = {self.prefix}_arena.bytes;",
                "#endif",
            ]
            given.append("workspace")
        else:
            lines.append("  (void)workspace;")
        if self.binary:
            lines.append(f"  {self.prefix}_weights = (const uint8_t*)weights;")
        text = f"{emitter.symbol}({', '.join(given)})"
        lines += [f"  return {text};"] if emitter.can_fail else [f"  {text};", "  return 0;"]
        used = " ".join(given)
        for struct in ("inputs", "outputs"):
            if f"{struct}->" not in used:
                lines.insert(0, f"  (void){struct};")
        return f"{self._declaration(entry)} {{\n" + "\n".join(lines) + "\n}"

    def _given(self, entry: Entry, emitter: FunctionEmitter) -> list[str]:
        """What the public function passes to the one it stands for: its parameters in order."""
        order = list(entry.order)
        if not entry.returns:  # a kernel takes its tensors first
            order.sort(key=lambda a: a.dims is None)
        given = []
        for arg, (_, kind) in zip(order, emitter.params):
            text = f"{'inputs' if arg in entry.inputs else 'outputs'}->{arg.field}"
            if arg.dims is None:
                text = f"({text} != 0)" if DataType(arg.dtype).is_bool else text
            elif kind.removeprefix("const ") != f"{_in_struct(arg.dtype)}*":
                text = f"({kind}){text}"
            given.append(text)
        rest = emitter.params[len(given) :]
        pools, fields = iter(entry.pools), iter(entry.fields)
        for p, kind in rest:
            if p.dtype.is_handle:
                given.append(next(pools)[0])
            else:
                field_name = next(fields)
                cast = "" if kind == "int64_t" else f"({kind})"
                given.append(f"{cast}inputs->{field_name}")
        return given

    def _declaration(self, entry: Entry) -> str:
        params = [
            f"const struct {entry.symbol}_inputs* inputs",
            f"const struct {entry.symbol}_outputs* outputs",
        ]
        params += [f"uint8_t* {p[0]}" for p in entry.pools]
        params.append("uint8_t* workspace")
        if self.binary:
            params.append("const void* weights")
        return f"int32_t {entry.symbol}_run({', '.join(params)})"

    def _header(self, entries: Sequence[Entry], scratch: int, pools: Mapping[str, Any]) -> str:
        m = self.macro
        sizes = [f"/* Bytes of the workspace, and what its address must be a multiple of. */"]  # noqa: F541
        sizes += [
            f"#define {m}_WORKSPACE_BYTES {scratch}",
            f"#define {m}_WORKSPACE_ALIGNMENT {ALIGNMENT}",
        ]
        for name, size, alignment in pools.values():
            sizes += [
                f"#define {m}_{name.upper()}_BYTES {size}",
                f"#define {m}_{name.upper()}_ALIGNMENT {alignment}",
            ]
        if self.binary:
            sizes.append(
                f"#define {m}_WEIGHTS_BYTES {len(self.data)} /* of {self.prefix}.weights */"
            )
        lines = [f"#ifndef {m}_H", f"#define {m}_H", "", "#include <stdint.h>", ""]
        lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", "", *sizes]
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

    def _source(self, runs: Sequence[str], scratch: int) -> str:
        m, p = self.macro, self.prefix
        parts = [f'#include "{p}.h"', "#include <math.h>", "#include <stdbool.h>"]
        parts += ["#include <stddef.h>", "#include <string.h>"]
        included = [
            h if h.startswith("#") else f"#include {h}"
            for lib in self.libraries
            for h in lib.headers
        ]
        parts += list(dict.fromkeys(included))
        text = "\n".join(parts) + "\n\n"
        text += f"#ifndef {m}_ERROR /* called with a message before a function returns -1 */\n"
        text += f"#define {m}_ERROR(message) ((void)0)\n#endif\n{_ALIGNED.format(m=m)}\n"
        declared = [
            f"{found.text};"
            for lib in self.libraries
            if not lib.headers
            for found in lib.prototypes.values()
        ]
        declared += [line for _, line in self.externs.values() if line]
        if declared:
            text += "/* Functions from outside. */\n" + "\n".join(dict.fromkeys(declared)) + "\n\n"
        if self.binary:
            text += f"static const uint8_t* {p}_weights;\n\n"
        if self.declared:
            text += f"/* Weights: in {p}_weights.c. */\n" + "\n".join(self.declared) + "\n\n"
        if scratch:
            text += (
                f"#ifndef {m}_NO_WORKSPACE\n"
                f"static union {{\n  uint8_t bytes[{m}_WORKSPACE_BYTES];\n  double alignment;\n"
                f"}} {p}_arena {m}_ALIGNED;\n#endif\n\n"
            )
        pieces = [*self.helpers.texts.values(), *(e.text() for e in self.order), *runs]
        return text + "\n\n".join(pieces) + "\n"

    def _weights_source(self) -> str:
        if self.binary or not self.arrays:
            return ""
        text = f"#include <math.h>\n#include <stdint.h>\n{_ALIGNED.format(m=self.macro)}\n"
        pairs = zip(self.declared, self.arrays, strict=True)
        return text + "\n\n".join(f"{d}\n{a}" for d, a in pairs) + "\n"


_ALIGNED = """
#ifndef {m}_ALIGNED
#if defined(__GNUC__)
#define {m}_ALIGNED __attribute__((aligned(64)))
#else
#define {m}_ALIGNED
#endif
#endif
"""


@dataclass(frozen=True)
class _Libraries:
    """What `prototypes_of` reads of a module."""

    libraries: list[ExternLibrary]

    @property
    def attrs(self) -> dict[str, Any]:
        return {"external_mods": self.libraries}


class _Symbol:
    """A symbolic extent as a scalar."""

    def __init__(self, var: Var) -> None:
        self.dtype = var.dtype


def _is_graph(func: PrimFunc) -> bool:
    return "native_entry" in func.attrs


def _field(arg: Argument, const: str) -> str:
    if arg.dims is None:
        dtype = DataType(arg.dtype)
        return f"{memory_type(dtype)} {arg.field}; /* {arg.dtype} */"
    shape = ", ".join(str(getattr(d, "value", d)) for d in arg.dims)
    kind = _in_struct(arg.dtype)
    label = "" if arg.name == arg.field else f" {_comment(arg.name)}"
    return f"{const}{kind}* {arg.field}; /* {arg.dtype}[{shape}]{label} */"


def _in_struct(dtype: str) -> str:
    """What a struct's pointer to a tensor points to."""
    return "uint8_t" if elements_per_byte(dtype) > 1 else memory_type(DataType(dtype))


def _comment(text: str) -> str:
    return text.replace("*/", "* /").replace("/*", "/ *")


def _described(entry: Entry, program: ProgramText) -> list[str]:
    """The comment above an entry's declaration."""
    lines = ["Tensors are in row-major order. Returns 0, or -1 after an error."]
    if program.require(entry.name).scratch_bytes:
        m = program.macro
        lines.append(
            f"workspace: {m}_WORKSPACE_BYTES bytes, or NULL for the array of {program.prefix}.c;"
        )
        lines.append("calls at the same time need a workspace each.")
    else:
        lines.append("workspace: not needed, may be NULL.")
    if entry.fields:
        lines.append(f"Extents in the inputs: {', '.join(entry.fields)}.")
    if program.binary:
        lines.append(f"weights: the bytes of {program.prefix}.weights, aligned to {ALIGNMENT}.")
    return ["/* " + "\n * ".join(lines) + " */"]


def _c_param(param: CType) -> str:
    const = "const " if param.const else ""
    if param.pointer:
        kind = "void" if param.dtype == "void" else memory_type(DataType(param.dtype))
        return f"{const}{kind}*"
    return c_type(DataType(param.dtype))


def _passed(arg: Any) -> str:
    """The C type by which an undeclared function takes an argument."""
    if isinstance(arg, StringImm):
        return "const char*"
    if not arg.dtype.is_handle:
        return c_type(arg.dtype)
    return "void*"


def _items(array: np.ndarray, dtype: DataType, packed: bool) -> str:
    """The elements of a constant, some to a line."""
    flat = array.reshape(-1)
    if not flat.size:
        return "  0"
    if packed or dtype.is_bool or (dtype.is_float and dtype.base not in ("float32", "float64")):
        texts = list(map(str, flat.view(f"u{flat.itemsize}").tolist()))
    elif dtype.is_float:
        texts = _reals(flat)
    else:
        texts = [literal(v, dtype).strip("()") for v in flat.tolist()]
    return "\n".join("  " + ", ".join(texts[k : k + 12]) + "," for k in range(0, len(texts), 12))


def _reals(flat: np.ndarray) -> list[str]:
    if not np.isfinite(flat).all():
        return [real(v if flat.dtype == np.float32 else float(v)) for v in flat]
    form, end = ("%.9g", "f") if flat.dtype == np.float32 else ("%.17g", "")
    texts = (form % v for v in flat.tolist())
    return [f"{t if '.' in t or 'e' in t else t + '.0'}{end}" for t in texts]


__all__ = ["ARRAYS", "BINARY", "Argument", "CFiles", "Entry", "ProgramText"]
