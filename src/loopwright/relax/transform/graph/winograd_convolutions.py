"""WinogradConvolutions: convolutions of 3 x 3 by products of tiles, with fewer multiplications.

Pass::

    WinogradConvolutions(tile=2, pays=100)

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((1, 1, 4, 4, 1), dtype="float32")) -> R.Tensor((1, 1, 2, 2, 1), dtype="float32"):
          with R.dataflow():
    -         lv: R.Tensor((1, 1, 3, 3, 1, 1), dtype="float32") = R.nn.pack_weight(R.const([[[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]], "float32"), layout="OIHW1i1o")
    -         gv: R.Tensor((1, 1, 2, 2, 1), dtype="float32") = R.nn.conv2d(x, lv, data_layout="NCHW1c", kernel_layout="OIHW1i1o", out_layout="NCHW1c")
    +         lv: R.Tensor((4, 4, 1, 1, 1, 1), dtype="float32") = R.nn.winograd_tiles(x, tile=2, padding=[0, 0, 0, 0])
    +         lv1: R.Tensor((16, 1, 1), dtype="float32") = R.reshape(lv, R.shape([16, 1, 1]))
    +         lv2: R.Tensor((16, 1, 1), dtype="float32") = R.nn.winograd_weight(R.const([[[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]], "float32"), tile=2, block=1)
    +         lv3: R.Tensor((16, 1, 1), dtype="float32") = R.matmul(lv1, lv2, out_dtype="void")
    +         lv4: R.Tensor((4, 4, 1, 1, 1, 1), dtype="float32") = R.reshape(lv3, R.shape([4, 4, 1, 1, 1, 1]))
    +         gv: R.Tensor((1, 1, 2, 2, 1), dtype="float32") = R.nn.winograd_join(lv4, tile=2, sides=[2, 2], block=1)
              R.output(gv)
          return gv

Enabled by the option `relax.winograd_tile`: the most results of a tile along an axis, 2 or 4. They take 2.25 and 4
times fewer multiplications than windows; the pass picks the tile, or leaves the convolution, by counting
these, the transforms, and the weights that are read. Errors relative to the largest result are about 2e-6 and
1e-5; an infinity makes the tile around it NaN. The weights take 1.8 and 4 times the memory.
"""

from __future__ import annotations

import math
from typing import Any

from ....base.errors import explain
from ....ir.literals import int_value
from ....ir.target import Target
from ....ir.transform import IRModule, ModulePass, PassContext
from ... import op as relax_op
from ...expr import Call, Constant
from ..legalize_ops.common import may_be_taken
from ..products import is_call
from ..rewriting import SweepingRewriter

SIZE = 3
TILES = (2, 4)
# Both from the times of 64 to 512 channels, see "Winograd's algorithm on request" in docs/performance.md.
TRANSFORM = 12  # multiply-adds in the time of one element of a transformed tile
READ = 10  # multiply-adds in the time in which a factor of a weight is read from memory


class WinogradConvolutions(ModulePass):
    """Replaces convolutions of 3 x 3 where that pays. tile: 0 changes nothing; default: the option's. pays: the part of the
    time by windows that they may take."""

    tile: int | None = None
    pays: float = 0.8

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite every function."""
        most = ctx.option("relax.winograd_tile") if self.tile is None else self.tile
        if most not in (0, *TILES):
            raise ValueError(explain("relax.winograd_tile is 0, 2 or 4", got=str(most)))
        return _Rewriter(mod, most, self.pays).run() if most else mod


class _Rewriter(SweepingRewriter):
    def __init__(self, mod: IRModule, most: int, pays: float) -> None:
        super().__init__(mod)
        self.most, self.pays = most, pays

    def call(self, call: Call) -> Any:
        weight = self._window(call)
        if weight is None or may_be_taken(call, Target.current(allow_none=True)):
            return call
        n, *sizes = call.args[0].struct_info.get_shape()
        literals: list[Any] = [int_value(d) for d in sizes]
        if None in literals:
            return call
        blocks, rows, cols, block = literals
        top, left, bottom, right = padding = [int(p) for p in call.attrs.padding]
        sides = [rows + top + bottom - SIZE + 1, cols + left + right - SIZE + 1]
        channels: Any = int_value(call.struct_info.get_shape()[1])
        inputs, outputs = blocks * block, channels * block
        tile, cost = _best(int_value(n) or 1, inputs, outputs, sides, self.most)
        if cost > self.pays:
            return call
        matrix = relax_op.nn.winograd_weight(weight, tile, block)
        tiles = self.builder.emit(relax_op.nn.winograd_tiles(call.args[0], tile, padding))
        shape = tiles.struct_info.get_shape()
        count = (tile + SIZE - 1) ** 2
        rows = self.builder.emit(relax_op.reshape(tiles, (count, -1, inputs)))
        products = relax_op.reshape(relax_op.matmul(rows, matrix), (*shape[:-1], outputs))
        return relax_op.nn.winograd_join(products, tile, sides, block)

    def _window(self, call: Call) -> Constant | None:
        """The weight of a convolution in blocks with windows of 3 x 3 and stride 1, or None."""
        if not is_call(call, "relax.nn.conv2d"):
            return None
        attrs, packed = call.attrs, self.definition(call.args[1])
        block = call.struct_info.ndim == 5 and int_value(call.struct_info.get_shape()[-1])
        layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout)
        if layouts != (f"NCHW{block}c", f"OIHW{block}i{block}o", f"NCHW{block}c"):
            return None
        if {*map(int, (*attrs.strides, *attrs.dilation, attrs.groups))} != {1}:
            return None
        weight = (
            self.definition(packed.args[0]) if is_call(packed, "relax.nn.pack_weight") else None
        )
        if not isinstance(weight, Constant) or weight.data.shape[2:] != (SIZE, SIZE):
            return None
        kinds = {str(t.struct_info.dtype) for t in (call.args[0], weight, call)}
        return weight if kinds == {"float32"} else None


def _best(n: int, inputs: int, outputs: int, sides: list[int], most: int) -> tuple[int, float]:
    """The tile that takes the least time, and its share of the time by windows."""

    def cost(tile: int) -> float:
        tiles = n * math.prod(-(-side // tile) for side in sides)
        products = (tiles + READ) * inputs * outputs
        return (tile + SIZE - 1) ** 2 * (products + TRANSFORM * tiles * (inputs + outputs))

    tile = min((t for t in TILES if t <= most), key=cost)
    return tile, cost(tile) / (SIZE**2 * (n * math.prod(sides) + READ) * inputs * outputs)
