"""DecomposeOpsForInference: batch norms become elementwise operators, by their moving mean and variance.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((2, 3, 4), dtype="float32"), gamma: R.Tensor((3,), dtype="float32"), beta: R.Tensor((3,), dtype="float32"), mean: R.Tensor((3,), dtype="float32"), var: R.Tensor((3,), dtype="float32")) -> R.Tensor((2, 3, 4), dtype="float32"):
          with R.dataflow():
    -         norm: R.Tuple(R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((3,), dtype="float32"), R.Tensor((3,), dtype="float32")) = R.nn.batch_norm(x, gamma, beta, mean, var, axis=1, scale=False)
    +         lv: R.Tensor((1, 3, 1), dtype="float32") = R.expand_dims(mean, axis=[0, 2])
    +         lv1: R.Tensor((2, 3, 4), dtype="float32") = R.subtract(x, lv)
    +         lv2: R.Tensor((1, 3, 1), dtype="float32") = R.expand_dims(var, axis=[0, 2])
    +         lv3: R.Tensor((1, 3, 1), dtype="float32") = R.add(lv2, R.const(1e-05, "float32"))
    +         lv4: R.Tensor((1, 3, 1), dtype="float32") = R.sqrt(lv3)
    +         lv5: R.Tensor((2, 3, 4), dtype="float32") = R.divide(lv1, lv4)
    +         lv6: R.Tensor((1, 3, 1), dtype="float32") = R.expand_dims(beta, axis=[0, 2])
    +         lv7: R.Tensor((2, 3, 4), dtype="float32") = R.add(lv5, lv6)
    +         norm: R.Tuple(R.Tensor((2, 3, 4), dtype="float32"), R.Tensor((3,), dtype="float32"), R.Tensor((3,), dtype="float32")) = (lv7, mean, var)
              gv: R.Tensor((2, 3, 4), dtype="float32") = norm[0]
              R.output(gv)
          return gv

Calls of `tensor_to_shape` become calls of the function of the virtual machine, and new symbolic variables
are the dimensions of the result.
"""

from __future__ import annotations

from ._decompose import DecomposePass, batch_norm_for_inference, tensor_to_shape


class DecomposeOpsForInference(DecomposePass):
    """Batch norms become elementwise operators, by their moving mean and variance; calls of
    `relax.tensor_to_shape` become calls of the function of the virtual machine.

    func_name: the function to rewrite; None: all of them.
    """

    rules = {
        "relax.nn.batch_norm": batch_norm_for_inference,
        "relax.tensor_to_shape": tensor_to_shape,
    }
