"""The features of a processor, as LLVM knows them; a cached model queries them, too, without any IR.

The features are found out by LLVM's inliner: a function that needs one more feature is inlined only
into one whose processor has it. Flags that only tune code do not count there, and are all reported
for x86.
"""

from __future__ import annotations

from functools import cache

from ...base.host import FOR_SYSTEMS, this_machine
from .compiler import CompileError
from .machine import known_names, run_apart

# LLVM ends the process for features that cannot be together: then the halves are queried separately.
_QUERY = """
import os, re
def probe(i, name):
    return f'''
define internal i32 @need{{i}}(i32 %x) "target-cpu"="{cpu}" "target-features"="{features}+{{name}}" {{{{
  %y = add i32 %x, 1
  ret i32 %y
}}}}
define i32 @query{{i}}(i32 %x) "target-cpu"="{cpu}" "target-features"="{features}" {{{{
  %y = call i32 @need{{i}}(i32 %x)
  ret i32 %y
}}}}'''

def inline(names):
    module = llvm.parse_assembly("".join(map(probe, range(len(names)), names)))
    machine = target.create_target_machine(cpu="{cpu}", features="{features}")
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(2))
    builder.getModulePassManager().run(module, builder)
    kept = set(map(int, re.findall("call[^@]* @need([0-9]+)", str(module))))
    print(*(name for i, name in enumerate(names) if i not in kept), flush=True)

def query(names):
    child = os.fork()
    if not child:
        inline(names)
        os._exit(0)
    half = len(names) // 2
    if os.waitpid(child, 0)[1] and half:
        query(names[:half])
        query(names[half:])

query({names!r})
"""


@cache
def features_of(triple: str, cpu: str, features: str) -> frozenset[str]:
    """The features of a processor with others added (+) or left out (-)."""
    names = known_names(triple)[1]
    more = f"{features}," if features else ""
    done = run_apart(triple, _QUERY.format(cpu=cpu, features=more, names=names))
    if done.returncode:
        raise CompileError(f"LLVM does not report the features of {cpu!r}: {done.stderr[-300:]}")
    return frozenset(done.stdout.split())


def required_features(triple: str, cpu: str, features: str) -> frozenset[str]:
    """The instruction sets that code for a machine of this architecture takes."""
    here = this_machine()
    if cpu in ("", here.name) and features in ("", here.flags):
        return here.record.features - FOR_SYSTEMS
    return features_of(triple, cpu, features) - FOR_SYSTEMS


def missing_features(triple: str, cpu: str, features: str) -> frozenset[str]:
    """The instruction sets that code for a machine of this architecture takes and this one lacks."""
    return required_features(triple, cpu, features) & this_machine().lacks
