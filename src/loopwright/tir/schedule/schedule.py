"""`Schedule`: every primitive as a method. Each has a file of its own in `primitives/`."""

from __future__ import annotations

from ...base.examples import add_examples
from .machinery import ScheduleBase
from .machinery.errors import ScheduleError as ScheduleError
from .machinery.random_variables import BlockRV as BlockRV
from .machinery.random_variables import LoopRV as LoopRV
from .primitives.add_unit_loop import add_unit_loop
from .primitives.annotate import annotate, annotate_buffer_access, enter_postproc, unannotate
from .primitives.blockize import blockize
from .primitives.buffer_properties import (
    set_axis_separator,
    unsafe_hide_buffer_access,
    unsafe_set_dtype,
)
from .primitives.cache_index import cache_index
from .primitives.cache_inplace import cache_inplace
from .primitives.cache_read_write import cache_read, cache_write
from .primitives.compute_at import compute_at
from .primitives.compute_inline import compute_inline
from .primitives.decompose_padding import can_decompose_padding, decompose_padding
from .primitives.decompose_reduction import decompose_reduction
from .primitives.full_tiles import compute_full_tiles, hoist_padding
from .primitives.fuse import fuse
from .primitives.fuse_reduction_axes import fuse_reduction_axes
from .primitives.get_blocks_loops import (
    get_block,
    get_child_blocks,
    get_consumers,
    get_loops,
    get_output_blocks,
    get_producers,
)
from .primitives.loop_kinds import bind, parallel, unroll, vectorize
from .primitives.loop_partition import loop_partition
from .primitives.merge import merge
from .primitives.pad_axis import pad_reduction, pad_rows
from .primitives.pad_einsum import pad_einsum
from .primitives.prefetch import prefetch
from .primitives.read_write_at import read_at, write_at
from .primitives.reindex import reindex, reindex_cache_read, reindex_cache_write
from .primitives.reorder import reorder
from .primitives.reorder_block_iter_var import reorder_block_iter_var
from .primitives.reverse_compute_at import reverse_compute_at
from .primitives.reverse_compute_inline import reverse_compute_inline
from .primitives.rfactor import rfactor
from .primitives.rolling_buffer import rolling_buffer
from .primitives.sample import (
    decide,
    sample_categorical,
    sample_compute_location,
    sample_partitioned_tile,
    sample_perfect_tile,
)
from .primitives.separate_reductions import separate_reductions
from .primitives.set_scope import set_scope
from .primitives.split import split
from .primitives.split_few_rows import split_few_rows
from .primitives.storage_align import storage_align
from .primitives.tensorize import tensorize
from .primitives.transform_block_layout import transform_block_layout
from .primitives.transform_layout import transform_layout
from .primitives.unsafe import unsafe_ignore_nan, unsafe_reuse_buffer


class Schedule(ScheduleBase):
    """A program and the steps that change how it runs.

    Each step keeps the program's meaning or raises `ScheduleError` and leaves it as it is.
    Blocks and loops are named by random variables, which stay valid while the program changes.

        sch = tir.Schedule(func)
        i, j, k = sch.get_loops(sch.get_block("C"))
        i0, i1 = sch.split(i, [None, 8])
        sch.reorder(i0, k, i1)
        sch.mod.show(); sch.trace.show()

    seed: for the sampling steps. debug_mask: "all" verifies the program after each step.
    error_render_level: "detail", "fast" (without the program) or "none". enable_check: False
    leaves out the checks that a step keeps the meaning, for rules that are known to keep it.
    """

    get_block = get_block
    get_loops = get_loops
    get_child_blocks = get_child_blocks
    get_producers = get_producers
    get_consumers = get_consumers
    get_output_blocks = get_output_blocks
    split = split
    fuse = fuse
    reorder = reorder
    parallel = parallel
    vectorize = vectorize
    unroll = unroll
    bind = bind
    annotate = annotate
    unannotate = unannotate
    compute_inline = compute_inline
    reverse_compute_inline = reverse_compute_inline
    compute_at = compute_at
    reverse_compute_at = reverse_compute_at
    cache_read = cache_read
    cache_write = cache_write
    decompose_reduction = decompose_reduction
    set_scope = set_scope
    add_unit_loop = add_unit_loop
    merge = merge
    transform_layout = transform_layout
    set_axis_separator = set_axis_separator
    unsafe_hide_buffer_access = unsafe_hide_buffer_access
    unsafe_set_dtype = unsafe_set_dtype
    annotate_buffer_access = annotate_buffer_access
    enter_postproc = enter_postproc
    storage_align = storage_align
    reorder_block_iter_var = reorder_block_iter_var
    rfactor = rfactor
    sample_categorical = sample_categorical
    sample_compute_location = sample_compute_location
    sample_partitioned_tile = sample_partitioned_tile
    sample_perfect_tile = sample_perfect_tile
    blockize = blockize
    tensorize = tensorize
    cache_inplace = cache_inplace
    pad_einsum = pad_einsum
    reindex = reindex
    reindex_cache_read = reindex_cache_read
    reindex_cache_write = reindex_cache_write
    read_at = read_at
    write_at = write_at
    cache_index = cache_index
    can_decompose_padding = can_decompose_padding
    decompose_padding = decompose_padding
    loop_partition = loop_partition
    rolling_buffer = rolling_buffer
    transform_block_layout = transform_block_layout
    # Not in TVM: primitives of the default rules.
    decide = decide
    separate_reductions = separate_reductions
    fuse_reduction_axes = fuse_reduction_axes
    pad_reduction = pad_reduction
    pad_rows = pad_rows
    compute_full_tiles = compute_full_tiles
    hoist_padding = hoist_padding
    prefetch = prefetch
    split_few_rows = split_few_rows
    unsafe_ignore_nan = unsafe_ignore_nan
    unsafe_reuse_buffer = unsafe_reuse_buffer


add_examples(
    vars(Schedule),
    """
    A = te.placeholder((8, 6), name="A");
    B = te.compute((8, 6), lambda i, j: A[i, j] * 2.0, "B");
    C = te.compute((8, 6), lambda i, j: B[i, j] + 1.0, "C");
    sch = tir.Schedule(te.create_prim_func([A, C]), seed=0);
    i, j = sch.get_loops("B")
    """,
    """
    get_block: sch.get(sch.get_block("B")).name_hint  # 'B'
    get_loops: [sch.get(loop).extent for loop in sch.get_loops("B")]  # [8, 6]
    get_child_blocks: [sch.get(b).name_hint for b in sch.get_child_blocks(i)]  # ['B']
    get_producers: [sch.get(b).name_hint for b in sch.get_producers("C")]  # ['B']
    get_consumers: [sch.get(b).name_hint for b in sch.get_consumers("B")]  # ['C']
    get_output_blocks: [sch.get(b).name_hint for b in sch.get_output_blocks("root")]  # ['C']
    sample_categorical: sch.get(sch.sample_categorical([16, 32], [0.0, 1.0]))  # 32
    sample_perfect_tile: [sch.get(n) for n in sch.sample_perfect_tile(i, 2, decision=[4, 2])]  # [4, 2]
    sample_partitioned_tile: [sch.get(n) for n in sch.sample_partitioned_tile(i, 2, 1, 2, decision=[4, 2])]  # [4, 2]
    sample_compute_location: sch.get(sch.sample_compute_location("B", decision=0)).loop_var  # i
    sch.can_decompose_padding("B", i)  # False
    sch.decide("rows", [4, 6, 8], 6)
    sch.enter_postproc()
    blockize: sch.get(sch.blockize(j)).name_hint  # 'B_o'
    """,
)
