"""Instruments that watch passes on graphs."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.instrument import PassInstrument
from ...ir.module import IRModule
from ...ir.pass_context import PassInfo
from ...relax.analysis.well_formed import assert_well_formed

# Passes that fix modules that are not well-formed.
MENDING = frozenset({"Normalize", "NormalizeGlobalVar", "ResolveGlobals"})


@dataclass
class WellFormedInstrument(PassInstrument):
    """Raises LoopwrightError, with all violations, at a pass whose module is not well formed.

    check_struct_info: also compare the struct infos that the module declares with what follows from
        its operators.
    validate_before_transform: check the input of each pass as well as its output.
    """

    check_struct_info: bool = True
    validate_before_transform: bool = True

    def run_before_pass(self, mod: IRModule, pass_info: PassInfo) -> None:
        if self.validate_before_transform and pass_info.name not in MENDING:
            assert_well_formed(mod, self.check_struct_info)

    def run_after_pass(self, mod: IRModule, pass_info: PassInfo) -> None:
        if pass_info.name not in MENDING:
            assert_well_formed(mod, self.check_struct_info)
