"""SetupTrainer: all functions that training a model takes.

The model is the function `backbone`, of the inputs, the parameters and the states, which returns
predictions, then the new states; the module's attributes `param_num` and `state_num` say how many.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import LoopwrightError, explain
from ...ir.expr import GlobalVar
from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax.expr import Function, Tuple
from ...relax.struct_info import StructInfo
from ...relax.transform.graph.legalize import LegalizeOps
from ..relax_transform.append_loss import AppendLoss
from ..relax_transform.gradient import Gradient
from .loss import Loss
from .optimizer import Optimizer

BACKBONE, LOSS, ADJOINT, OPTIMIZER = (
    "backbone",
    "backbone_loss",
    "backbone_loss_adjoint",
    "optimizer",
)


class SetupTrainer(ModulePass, repr=False):
    """Add `backbone_loss`, `backbone_loss_adjoint` and `optimizer`, which a `Trainer` runs, and the
    attributes `input_num` and `optim_state` (the optimizer's initial state).

    loss_args: the types of the loss's parameters, the predictions first. legalize: also lower the
    operators to kernels.

    Raises ValueError for a module without `backbone`, LoopwrightError for another form.
    """

    loss: Loss
    optimizer: Optimizer
    loss_args: Sequence[StructInfo]
    legalize: bool = True

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        backbone = mod[mod.get_global_var(BACKBONE)]
        for key in ("param_num", "state_num"):
            if mod.get_attr(key) is None:
                what = f"SetupTrainer: the module has no attribute {key}"
                hint = 'I.module_attrs({"param_num": 2, "state_num": 0})'
                raise LoopwrightError(explain(what, instead=hint))
        parameters, states = int(mod.attrs["param_num"]), int(mod.attrs["state_num"])
        inputs = self._inputs(backbone, parameters, states)
        count = self.loss.num_backbone_outputs
        mod = AppendLoss(BACKBONE, self.loss(*self.loss_args), count, LOSS)(mod)
        optimizer = self.optimizer.init(list(backbone.params[inputs : inputs + parameters]))
        function = optimizer.get_function().with_attr("global_symbol", OPTIMIZER)
        trainable = mod[LOSS].params[inputs : inputs + parameters]
        mod = Gradient(LOSS, trainable)(mod).with_functions({GlobalVar(OPTIMIZER): function})
        mod = mod.with_attrs({"input_num": inputs, "optim_state": optimizer.state})
        return LegalizeOps()(mod) if self.legalize else mod

    def _inputs(self, backbone: Function, parameters: int, states: int) -> int:
        """The number of the model's inputs."""
        body = backbone.body.body
        results = len(body.fields) if isinstance(body, Tuple) else 1
        expected = self.loss.num_backbone_outputs + states
        inputs = len(backbone.params) - parameters - states
        if inputs < 0 or results != expected:
            what = f"SetupTrainer: {BACKBONE} takes inputs, {parameters} parameters and {states} "
            what += f"states, and returns {expected} values, the new states last"
            got = f"{len(backbone.params)} parameters, {results} results"
            raise LoopwrightError(explain(what, got=got))
        return inputs
