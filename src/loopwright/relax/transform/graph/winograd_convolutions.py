"""WinogradConvolutions: convolutions of 3 x 3 by products of tiles, with fewer multiplications.

Pass::

    WinogradConvolutions(tile=2, pays=100)

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((1, 1, 4, 4, 1), dtype="float32")) -> R.Tensor((1, 1, 2, 2, 1), dtype="float32"):
          with R.dataflow():
    -         lv: R.Tensor((1, 1, 3, 3, 1, 1), dtype="float32") = R.nn.pack_weight(R.const([[[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]], "float32"), layout="OIHW1i1o")
    -         gv: R.Tensor((1, 1, 2, 2, 1), dtype="float32") = R.nn.conv2d(x, lv, data_layout="NCHW1c", kernel_layout="OIHW1i1o", out_layout="NCHW1c")
    +         lv: R.Tensor((4, 4, 1, 1, 1, 1), dtype="float32") = R.nn.winograd_tiles(x, R.const(0.0, "float32"), tile=2, padding=[0, 0, 0, 0])
    +         lv1: R.Tensor((16, 1, 1), dtype="float32") = R.memory.view(lv, R.shape([16, 1, 1]), R.tuple(), R.tuple())
    +         lv2: R.Tensor((16, 1, 1), dtype="float32") = R.nn.winograd_weight(R.const([[[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]], "float32"), tile=2, block=1)
    +         lv3: R.Tensor((16, 1, 1), dtype="float32") = R.matmul(lv1, lv2, out_dtype="float32")
    +         lv4: R.Tensor((4, 4, 1, 1, 1, 1), dtype="float32") = R.memory.view(lv3, R.shape([4, 4, 1, 1, 1, 1]), R.tuple(), R.tuple())
    +         gv: R.Tensor((1, 1, 2, 2, 1), dtype="float32") = R.nn.winograd_join(lv4, tile=2, sides=[2, 2], block=1)
              R.output(gv)
          return gv

Of float32 it is enabled by the option `relax.winograd_tile`: the most results of a tile along an axis, 2 or 4. They take
2.25 and 4 times fewer multiplications than windows; the pass picks the tile, or leaves the convolution, by counting
these, the transforms, and the weights that are read. Errors relative to the largest result are about 2e-6 and
1e-5; an infinity makes the tile around it NaN. The weights take 1.8 and 4 times the memory. Of bytes it is exact where
the weights bound the results, and needs no option: products of words, an instruction of the target, are
compared with those of bytes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ....base.errors import explain
from ....ir.literals import int_value
from ....ir.target import Target
from ....ir.transform import IRModule, ModulePass, PassContext
from ....tir.tensor_intrin.instructions import PAIRS_FIT, WORDS, dot_product
from ... import op as relax_op
from ...expr import Call, Constant, Expr, ShapeExpr, const
from ..legalize_ops.common import may_be_taken
from ..products import is_call
from ..rewriting import SweepingRewriter

SIZE = 3
TILES = (2, 4)
BITS = {2: 29, 4: 25}  # by tile: results of bytes must be less than 2**BITS, see `ops.winograd`
# From the times of 64 to 512 channels, see "Winograd's algorithm on request" in docs/notebook.md.
TRANSFORM = 12  # multiply-adds in the time of one element of a transformed tile
READ = 1  # multiply-adds in the time in which a byte of a weight is read from memory


class WinogradConvolutions(ModulePass):
    """Replaces convolutions of 3 x 3 where that pays. tile: 0 changes nothing; default: the option's for float32, 4 for
    bytes. pays: the part of the time by windows that they may take, of bytes all of it."""

    tile: int | None = None
    pays: float = 0.8

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite every function."""
        most = ctx.option("relax.winograd_tile") if self.tile is None else self.tile
        if most not in (0, *TILES):
            raise ValueError(explain("relax.winograd_tile is 0, 2 or 4", got=str(most)))
        of_bytes = max(TILES) if self.tile is None else self.tile
        return _Rewriter(mod, most, of_bytes, self.pays).run() if of_bytes else mod


class Form(NamedTuple):
    """What counts of a convolution: the tiles that it may take, the bytes of a factor of its weight, and the costs of a
    product by windows and by tiles, in multiply-adds of float32."""

    tiles: list[int]
    size: int = 4
    direct: float = 1
    tiled: float = 1

    def best(self, n: int, inputs: int, outputs: int, sides: list[int]) -> tuple[int, float]:
        """The tile that takes the least time, and its share of the time by windows."""

        def cost(tile: int) -> float:
            tiles = n * math.prod(-(-side // tile) for side in sides)
            products = (tiles * self.tiled + READ * min(2 * self.size, 4)) * inputs * outputs
            return (tile + SIZE - 1) ** 2 * (products + TRANSFORM * tiles * (inputs + outputs))

        if not self.tiles:
            return 0, math.inf
        tile = min(self.tiles, key=cost)
        windows = n * math.prod(sides) * self.direct + READ * self.size
        return tile, cost(tile) / (SIZE**2 * windows * inputs * outputs)


def byte_form(
    target: Target, weights: np.ndarray, data: str, narrow: bool, most: int = max(TILES)
) -> Form | None:
    """That of data of a dtype with weights (outputs, ...) in int8, with tiles up to `most` whose results are exact; None
    for a target without an instruction. narrow: whether pairs of products fit 16 bits."""
    lanes, facts = target.vector_lanes("int32"), [PAIRS_FIT] * narrow
    direct = dot_product(target, (data, "int8", "int32"), lanes, facts)
    words = dot_product(target, WORDS, lanes)
    if direct is None or words is None:
        return None
    bounds, wide = np.iinfo(data), weights.astype(np.int64).reshape(len(weights), -1)
    above, below = (w.sum(1) for w in (wide.clip(0), -wide.clip(max=0)))
    ends = [above * bounds.max - below * bounds.min, below * bounds.max - above * bounds.min]
    largest = max(int(end.max(initial=0)) for end in ends)
    tiles = [t for t in TILES if t <= most and largest < 1 << BITS[t]]
    return Form(tiles, 1, direct.cost / direct.depth, words.cost / words.depth)


def takes_tiles(call: Call, weight: tuple[int, ...]) -> bool:
    """Whether the windows of a convolution with a weight OIHW are of 3 x 3, one pixel apart."""
    ones = {*map(int, (*call.attrs.strides, *call.attrs.dilation, call.attrs.groups))} == {1}
    return ones and weight[2:] == (SIZE, SIZE)


class _Rewriter(SweepingRewriter):
    def __init__(self, mod: IRModule, most: int, of_bytes: int, pays: float) -> None:
        super().__init__(mod)
        self.most, self.of_bytes, self.pays = most, of_bytes, pays
        self.target = Target.current(allow_none=True)

    def call(self, call: Call) -> Any:
        weight = self.window(call)
        form = None if weight is None else self.form(call, weight)
        if weight is None or form is None or may_be_taken(call, self.target):
            return call
        data, (n, *sizes) = call.args[0], call.args[0].struct_info.get_shape()
        literals: list[Any] = [int_value(d) for d in sizes]
        outputs, block = (int_value(call.struct_info.get_shape()[k]) or 1 for k in (1, -1))
        if None in literals:
            return call
        plain, (blocks, rows, cols) = len(sizes) == 3, literals[:3]
        inputs = (-(-blocks // block) if plain else blocks) * block
        top, left, bottom, right = padding = [int(p) for p in call.attrs.padding]
        sides = [rows + top + bottom - SIZE + 1, cols + left + right - SIZE + 1]
        tile, cost = form.best(int_value(n) or 1, inputs, outputs * block, sides)
        if cost > (self.pays if form.size == 4 else max(self.pays, 1)):
            return call
        zero = const(0.0, "float32") if form.size == 4 else call.args[2]
        data = self.builder.emit(relax_op.nn.pack_channels(data, block)) if plain else data
        matrix = relax_op.nn.winograd_weight(weight, tile, block)
        tiles = self.builder.emit(relax_op.nn.winograd_tiles(data, zero, tile, padding))
        *shape, _ = tiles.struct_info.get_shape()
        count = math.prod(shape[3:], start=shape[2])
        rows = self.view(tiles, [(tile + SIZE - 1) ** 2, count, inputs])
        total = self.builder.emit(relax_op.matmul(rows, matrix, call.struct_info.dtype))
        products = self.view(total, [*shape, outputs * block])
        return relax_op.nn.winograd_join(products, tile, sides, block)

    def view(self, var: Expr, shape: list[Any]) -> Expr:
        """A variable in another shape, without a copy also where a batch is unknown."""
        return self.builder.emit(relax_op.memory.view(var, ShapeExpr(shape)))

    def window(self, call: Call) -> Constant | None:
        """The weight of a convolution in blocks with windows of 3 x 3 and stride 1, or None."""
        names = "relax.nn.conv2d", "relax.nn.byte_conv2d"
        if not any(is_call(call, name) for name in names) or call.struct_info.ndim != 5:
            return None
        attrs, packed = call.attrs, self.definition(call.args[1])
        if attrs.out_layout != f"NCHW{int_value(call.struct_info.get_shape()[-1])}c":
            return None
        if attrs.data_layout not in ("NCHW", attrs.out_layout):
            return None
        weight = packed.args[0] if is_call(packed, "relax.nn.pack_weight") else None
        weight = None if weight is None else self.definition(weight)
        if not isinstance(weight, Constant) or not takes_tiles(call, weight.data.shape):
            return None
        return weight

    def form(self, call: Call, weight: Constant) -> Form | None:
        data, kind, total = (str(t.struct_info.dtype) for t in (call.args[0], weight, call))
        if {data, kind, total} == {"float32"}:
            in_blocks = call.attrs.data_layout == call.attrs.out_layout
            return Form([t for t in TILES if t <= self.most]) if in_blocks else None
        if kind != "int8" or weight.is_weight or self.target is None:
            return None
        numbers = weight.data.numpy()
        return byte_form(self.target, numbers, data, call.attrs.narrow, self.of_bytes)
