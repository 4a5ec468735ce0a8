"""Builders of the operators `vm.*`.

Made by `python -m tools.make_stubs`.
"""

from loopwright.relax.op.storage import (
    vm_alloc_storage as _vm_alloc_storage, vm_alloc_tensor as _vm_alloc_tensor,
    vm_call_tir_dyn as _vm_call_tir_dyn, vm_kill_object as _vm_kill_object,
)

alloc_storage = _vm_alloc_storage
alloc_tensor = _vm_alloc_tensor
call_tir_dyn = _vm_call_tir_dyn
kill_object = _vm_kill_object
