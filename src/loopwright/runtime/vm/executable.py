"""The result of `relay.vm.compile`: TVM 0.18's `runtime.vm.Executable`.

    code, lib = exe.save()
    lib.export_library("model.so")
    exe = Executable.load_exec(code, runtime.load_module("model.so"))

All of the program is in the library; the code only says what there is in it.
"""

from __future__ import annotations

import json
from typing import Any

from ...base.errors import explain

_FORMAT = "loopwright.vm"


class Executable:
    """A compiled program. lib, mod: the compiled model, to which unknown attributes are forwarded."""

    def __init__(self, lib: Any) -> None:
        self.lib = self.mod = self.executable = lib

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "lib"), name)

    def __getitem__(self, name: str) -> Any:
        return self.lib[name]

    def __call__(self, *args: int, **options: bool) -> Any:
        return self.lib(*args, **options)

    @property
    def module(self) -> Executable:
        """Itself: TVM keeps the runtime's module here."""
        return self

    def save(self) -> tuple[bytearray, Any]:
        """(what describes the program, its library)."""
        functions = {name: self.get_function_params(name) for name in self.globals}
        return bytearray(json.dumps({"format": _FORMAT, "functions": functions}).encode()), self.lib

    @staticmethod
    def load_exec(bytecode: bytes | bytearray, lib: Any) -> Executable:
        """The program of a library, and of what `save` gave with it. Raises TypeError and ValueError
        for other code."""
        if not isinstance(bytecode, (bytes, bytearray)):
            what = "the code is a bytearray"
            raise TypeError(explain(what, got=type(bytecode).__name__, instead="what save() gave"))
        try:
            data = json.loads(bytes(bytecode))
        except ValueError:
            data = None
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            what = "this code was not written by save() here"
            raise ValueError(
                explain(what, got=f"{len(bytecode)} bytes", instead="compile it again")
            )
        missing = set(data["functions"]) - set(lib.function_names())
        if missing:
            what = "the library is not that of the code: it lacks functions"
            raise ValueError(explain(what, got=", ".join(sorted(missing))))
        return Executable(lib)

    @property
    def globals(self) -> list[str]:
        """The functions that can be called."""
        return self.lib.function_names()

    @property
    def primitive_ops(self) -> list[str]:
        """The names of the kernels; of a program that was compiled here."""
        functions = [gvar.name_hint for gvar in self.lib.mod.functions]
        return [name for name in functions if name not in self.globals]

    def get_function_params(self, func_name: str) -> list[str]:
        """The names of a function's parameters."""
        return self.lib.input_names(func_name)

    @property
    def bytecode(self) -> str:
        """The functions with their parameters, and the code that was generated, as text."""
        heads = [f"{n}({', '.join(self.get_function_params(n))})" for n in self.globals]
        return "\n".join([*heads, "", self.lib.get_source()])

    @property
    def stats(self) -> str:
        """The parts of the program, in one line each."""
        names = self.globals
        heads = [f"  {n}({', '.join(self.get_function_params(n))})" for n in names]
        return "\n".join([f"functions: {len(names)}", *heads])
