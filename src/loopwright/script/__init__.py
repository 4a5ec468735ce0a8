"""TVMScript: programs as Python text, read and printed."""

from __future__ import annotations

from ..base.late import public_names as _public_names
from . import ir, ir_builder, printer, relax, tir
from .ir import ir_module
from .parser import ir_parser as _ir_parser
from .parser import relax_parser as _relax_parser
from .parser import tir_parser as _tir_parser
from .parser.entry import PRELUDE, from_source, parse

for _name, _module in {"I": ir, "ir": ir, "T": tir, "tir": tir, "R": relax, "relax": relax}.items():
    PRELUDE.register(_name, _module)

__dir__ = _public_names(__name__)
