"""The names of TVM's `tir.transform` and `tir.analysis` (v0.21), with their parameters: what is here
takes the same, missing names are listed with the reason."""

from __future__ import annotations

import inspect

import pytest

import loopwright
from loopwright.base.config import PASS_OPTIONS
from loopwright.base.errors import LoopwrightError
from loopwright.ir.module import IRModule
from loopwright.ir.transform import PassContext
from loopwright.script import from_source

TRANSFORM = """
Apply(ftransform) LoopPartition() VectorizeLoop(enable_vectorize=True) InjectVirtualThread()
InjectDoubleBuffer() InjectRollingBuffer() StorageRewrite() InlinePrivateFunctions()
PointerValueTypeRewrite() UnrollLoop() ReduceBranchingThroughOvercompute() RemoveNoOp()
RemoveAssume() RemoveStoreUndef() BF16ComputeLegalize()
FP8ComputeLegalize(promote_dtype_str='float32') BF16StorageLegalize() FP8StorageLegalize()
CommonSubexprElimTIR(enable_cse_tir=True,identify_equiv_terms=False) RewriteUnsafeSelect()
Simplify() ConvertSSA() InstrumentBoundCheckers() LowerCustomDatatypes() MakePackedAPI()
MakeUnpackedAPI() AnnotateDeviceRegions() SplitHostDevice() LowerDeviceKernelLaunch()
DecorateDeviceScope() SkipAssert() ThreadSync(storage_scope) LowerThreadAllreduce()
InferFragment() LowerWarpMemory() LowerTVMBuiltin() LowerIntrin() LowerDeviceStorageAccessInfo()
CombineContextCall() NarrowDataType(target_bits) ForceNarrowIndexToInt32() VerifyMemory()
VerifyVTCMLimit(limit=None) HoistIfThenElse(variant=None) HoistExpression()
LowerCrossThreadReduction() LowerInitBlock() PlanAndUpdateBufferAllocationLocation()
ConvertBlocksToOpaque() LiftThreadBinding() CompactBufferAllocation(is_strict=True)
LowerMatchBuffer() LowerOpaqueBlock() FlattenBuffer() TransformMmaBufferLayout()
InjectPermutedLayout() UnifyThreadBinding() MergeSharedMemoryAllocations()
ConvertForLoopsToSerial() InjectSoftwarePipeline() ExtractPrimFuncConstants() LowerAutoCopy()
RenormalizeSplitPattern() BindTarget(target) AnnotateEntryFunc() Filter(fcond)
InjectPTXAsyncCopy() RemoveWeightLayoutRewriteBlock(skip_ndarray_rewrite=False)
ManifestSharedMemoryLocalStage() InstrumentProfileIntrinsics() DefaultGPUSchedule()
UseAssumeToReduceBranches() LowerAsyncDMA() InjectPTXLDG32(enable_inject_ptx_intrin=True)
LowerVtcmAlloc() HoistedConditionals HoistedLetBindings PrimFuncPass
prim_func_pass(pass_func=None,opt_level=None,name=None,required=None,traceable=False)
"""
ANALYSIS = """
expr_deep_equal(lhs,rhs) verify_ssa(func) verify_memory(func) verify_gpu_code(func,constraints)
get_block_access_region(block,buffer_var_map) get_block_read_write_region(block,buffer_var_map)
calculate_allocated_bytes(func_or_mod) detect_buffer_access_lca(func)
estimate_tir_flops(stmt_or_mod) undefined_vars(node,defs=None)
verify_well_formed(obj,assert_mode=True) OOBChecker() find_anchor_block(mod)
get_vtcm_compaction_passes() is_pure_function(func) assert_pure_function(func)
"""
_NVIDIA = "for instructions of NVIDIA's GPUs, for which there is no code generator here"
_HEXAGON = "for Hexagon's DMA and VTCM, for which there is no code generator here"
ABSENT = {
    "InferFragment": _NVIDIA,
    "TransformMmaBufferLayout": _NVIDIA,
    "InjectPermutedLayout": _NVIDIA,
    "InjectPTXAsyncCopy": _NVIDIA,
    "InjectPTXLDG32": _NVIDIA,
    "LowerAutoCopy": _NVIDIA,
    "ManifestSharedMemoryLocalStage": _NVIDIA,
    "LowerAsyncDMA": _HEXAGON,
    "LowerVtcmAlloc": _HEXAGON,
    "CombineContextCall": "joins calls of an intrinsic that nothing makes (tvm_thread_context)",
    "InjectRollingBuffer": "the schedule primitive rolling_buffer does it on blocks",
    "LiftThreadBinding": "UnifyThreadBinding puts all launches outermost already",
    "ExtractPrimFuncConstants": "constants stay where they are used, the code generator shares them",
    "RemoveWeightLayoutRewriteBlock": "only the meta schedule of TVM makes such blocks",
    "UseAssumeToReduceBranches": "Simplify and LoopPartition use what T.assume says of bounds only",
}
OPTIONS = [
    *("tir.UnrollLoop", "tir.HoistIfThenElse", "tir.HoistExpression", "tir.LoopPartition"),
    *("tir.Simplify", "tir.RemoveNoOp", "tir.disable_vectorize", "tir.disable_assert"),
    *("tir.add_lower_pass", "tir.disable_cse_tir", "tir.enable_equiv_terms_in_cse_tir"),
    *("tir.instrument_bound_checkers", "tir.disable_storage_rewrite"),
]


def listed(text):
    for item in text.split():
        name, _, params = item.partition("(")
        made = [p.partition("=") for p in params.rstrip(")").split(",") if p]
        yield name, "(" in item, [(p, default or None) for p, _, default in made]


@pytest.mark.parametrize("space", ["transform", "analysis"])
def test_names_and_parameters(space):
    where = getattr(loopwright.tir, space)
    for name, callable_, params in listed(TRANSFORM if space == "transform" else ANALYSIS):
        if name in ABSENT:
            assert not hasattr(where, name), f"{name} is here: take it off the list"
            continue
        found = getattr(where, name, None)
        assert found is not None, f"tir.{space} has no {name}"
        if not callable_:
            continue
        own = list(inspect.signature(found).parameters.values())
        assert [p.name for p in own[: len(params)]] == [p for p, _ in params], name
        for mine, (_, default) in zip(own, params, strict=False):
            if default is not None:
                assert repr(mine.default) == default, f"{name}({mine.name})"
        more = own[len(params) :]  # what TVM has not must not be needed
        assert all(p.default is not p.empty or p.kind is p.VAR_KEYWORD for p in more), name


def test_the_list_of_what_is_not_here():
    names = {name for name, _, _ in listed(TRANSFORM + ANALYSIS)}
    assert set(ABSENT) <= names and all(ABSENT.values())


def test_options():
    """Those of TVM's that a script for the CPU gives are known."""
    loopwright.tir.transform.default_tir_pipeline()
    assert set(OPTIONS) <= set(PASS_OPTIONS)


ASSERTED = """
@T.prim_func
def main(A: T.Buffer((10,), "float32"), n: T.int32):
    assert n < 5, "n is too large"
    for io in range(2):
        for ii in T.vectorized(8):
            if io * 8 + ii < 10:
                A[io * 8 + ii] = T.float32(1)
"""


def test_what_options_do():
    lower = loopwright.tir.transform.lower_to_loops()
    mod = IRModule({"main": from_source(ASSERTED)})
    assert "assert n < 5" in lower(mod).script()
    with PassContext(config={"tir.disable_assert": True}):
        assert "assert" not in lower(mod).script()
    whole = loopwright.tir.transform.LoopPartition()(mod).script()
    assert "io == 0" in whole
    with PassContext(config={"tir.LoopPartition": {"partition_const_loop": False}}):
        assert loopwright.tir.transform.LoopPartition()(mod)["main"] is mod["main"]
    shared = "A[0] = T.Cast('float32', n * n + 1) * T.Cast('float32', n * n + 1)"
    text = f"@T.prim_func\ndef main(A: T.Buffer((10,), 'float32'), n: T.int32):\n    {shared}\n"
    mod = IRModule({"main": from_source(text)})
    assert "cse_v1" in loopwright.tir.transform.CommonSubexprElimTIR()(mod).script()
    with PassContext(config={"tir.disable_cse_tir": True}):
        assert loopwright.tir.transform.CommonSubexprElimTIR()(mod)["main"] is mod["main"]


def test_a_condition_that_fails_is_refused_by_the_function_it_fails_for() -> None:
    func = from_source(
        "@T.prim_func(private=True)\ndef main(A: T.Buffer((1,), 'float32')):\n    A[0] = T.float32(1)"
    )
    with pytest.raises(
        LoopwrightError, match=r"condition of tir.Filter fails for function 'f'\n  got: KeyError"
    ):
        loopwright.tir.transform.Filter(lambda f: f.attrs["missing"] == "x")(IRModule({"f": func}))
