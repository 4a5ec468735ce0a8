"""Programs built step by step in Python, with the names of TVMScript:

with IRBuilder() as ib:
    with T.prim_func():
        T.func_name("main")
        ...
func = ib.get()
"""

from . import base, ir, relax, tir
from .base import IRBuilder
