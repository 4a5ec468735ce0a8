"""The well-known tensor intrinsics of CPUs, by name: `TensorIntrin.get("dot_16x4_vnni")`.

Each is a description (the loops that `Schedule.tensorize` looks for) and an implementation that
calls LLVM's intrinsic. They are built on first use. Those with a record in `instructions` are what
schedule rules use by themselves. The interpreter knows what
the called instructions do, so that all of them run there; LLVM generates code for those that
the machine has: VNNI and AVX-512 on x86, NEON and its dot products on ARM, dp4a anywhere. Those of
other processors are TVM's, in `loopwright.tvm.tensor_intrin`, without a code generator.
"""

from . import arm_cpu, dot_product_common, x86
from .arm_cpu import ARM_DOT_4x4_i8_NEON_INTRIN as ARM_DOT_4x4_i8_NEON_INTRIN
from .arm_cpu import ARM_DOT_4x4_i8_SDOT_INTRIN as ARM_DOT_4x4_i8_SDOT_INTRIN
from .arm_cpu import ARM_DOT_4x4_u8_HDOT_INTRIN as ARM_DOT_4x4_u8_HDOT_INTRIN
from .arm_cpu import ARM_DOT_4x4_u8_UDOT_INTRIN as ARM_DOT_4x4_u8_UDOT_INTRIN
from .dot import Dot as Dot
from .dot import lanes as lanes
from .dot import left_of as left_of
from .dot import rows_of as rows_of
from .dot import store as store
from .dot_product_common import DP4A_S8S8S32_INTRIN as DP4A_S8S8S32_INTRIN
from .dot_product_common import DP4A_S8U8S32_INTRIN as DP4A_S8U8S32_INTRIN
from .dot_product_common import DP4A_U8S8S32_INTRIN as DP4A_U8S8S32_INTRIN
from .dot_product_common import DP4A_U8U8U32_INTRIN as DP4A_U8U8U32_INTRIN
from .instructions import register_dot as register_dot
from .instructions import register_instruction as register_instruction
from .x86 import AVX512_DOT_16x4_INTRIN as AVX512_DOT_16x4_INTRIN
from .x86 import VNNI_DOT_16x4_INTRIN as VNNI_DOT_16x4_INTRIN

DOT_SPECS = {**x86.SPECS, **arm_cpu.SPECS, **dot_product_common.SPECS}
