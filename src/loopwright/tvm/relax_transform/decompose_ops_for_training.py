"""DecomposeOpsForTraining: norms become operators that have gradients; batch norms, by the mean and variance of the batch.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((2, 3, 4), dtype="float32"), gamma: R.Tensor((4,), dtype="float32"), beta: R.Tensor((4,), dtype="float32")) -> R.Tensor((2, 3, 4), dtype="float32"):
          with R.dataflow():
    -         gv: R.Tensor((2, 3, 4), dtype="float32") = R.nn.layer_norm(x, gamma, beta, axes=[-1])
    +         lv: R.Tensor((2, 3, 1), dtype="float32") = R.mean(x, axis=[-1], keepdims=True)
    +         lv1: R.Tensor((2, 3, 4), dtype="float32") = R.subtract(x, lv)
    +         lv2: R.Tensor((2, 3, 1), dtype="float32") = R.variance(x, axis=[-1], keepdims=True)
    +         lv3: R.Tensor((2, 3, 1), dtype="float32") = R.add(lv2, R.const(1e-05, "float32"))
    +         lv4: R.Tensor((2, 3, 1), dtype="float32") = R.sqrt(lv3)
    +         lv5: R.Tensor((2, 3, 4), dtype="float32") = R.divide(lv1, lv4)
    +         lv6: R.Tensor((2, 3, 4), dtype="float32") = R.multiply(lv5, gamma)
    +         gv: R.Tensor((2, 3, 4), dtype="float32") = R.add(lv6, beta)
              R.output(gv)
          return gv

A batch norm's second and third result are the moving mean and variance, moved by its `momentum`.
"""

from __future__ import annotations

from ._decompose import DecomposePass, batch_norm_for_training, layer_norm, tensor_to_shape


class DecomposeOpsForTraining(DecomposePass):
    """Norms become operators that have gradients; batch norms, by the mean and variance of the
    batch.

    func_name: the function to rewrite; None: all of them.
    """

    rules = {
        "relax.nn.batch_norm": batch_norm_for_training,
        "relax.nn.layer_norm": layer_norm,
        "relax.tensor_to_shape": tensor_to_shape,
    }
