"""topi's boxes, regions, sparse matrices and planes of bits against numpy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from loopwright import topi
from loopwright.ops import OPERATORS
from loopwright.topi import testing

from ..drawing import drawn
from .common import check

TABLE = drawn("test_vision")
IMAGE = TABLE.normal(size=(2, 4, 6, 8)).astype("float32")
VIEWS = {
    "multibox_prior": topi.vision.multibox_prior,
    "multibox_transform_loc": topi.vision.multibox_transform_loc,
    "proposal": topi.vision.proposal,
    "regular_non_max_suppression": topi.vision.regular_non_max_suppression,
    "get_valid_counts": topi.vision.get_valid_counts,
    "non_max_suppression": topi.vision.non_max_suppression,
    "all_class_non_max_suppression": topi.vision.all_class_non_max_suppression,
}


def sample(rng, name):
    """(arguments, attributes, result) of a case of an operator of the graph."""
    operator = OPERATORS[f"relax.vision.{name}"]
    case = operator.cases[0]
    args = [rng.normal(size=a).astype("float32") if isinstance(a, tuple) else a for a in case.args]
    return args, case.attrs, operator.op.get_attr("FNumpy")(*args, **case.attrs)


@pytest.mark.parametrize("name", VIEWS)
def test_the_same_as_the_graph(rng, name):
    args, attrs, want = sample(rng, name)
    # What is a tensor without axes in the graph is a number here.
    tensors, numbers = [a for a in args if a.ndim], [a.item() for a in args if not a.ndim]
    made = partial(VIEWS[name], **attrs)
    check(lambda *given: made(*given, *numbers), tensors, want, 1e-4, 1e-5)


def test_regions(rng):
    args, _, _ = sample(rng, "roi_align")
    for layout in ("nchw", "nhwc"):
        image = IMAGE if layout == "nchw" else np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1))
        reference = getattr(testing, f"roi_align_{layout}_python")
        fn = getattr(topi.vision, f"roi_align_{layout}")
        want = reference(image, args[1], (2, 3), 0.5, 2, b"max")
        check(
            lambda x, r, fn=fn: fn(x, r, (2, 3), 0.5, b"max", 2), [image, args[1]], want, 1e-4, 1e-5
        )
    want = testing.roi_pool_nchw_python(IMAGE, args[1], 3, 0.5)
    check(lambda x, r: topi.vision.roi_pool_nchw(x, r, 3, 0.5), [IMAGE, args[1]], want)


def test_reorg():
    check(lambda x: topi.vision.reorg(x, 2), [IMAGE], testing.reorg_python(IMAGE, 2))


def test_detection_is_suppression_of_moved_boxes(rng):
    args, attrs, (boxes, count) = sample(rng, "multibox_transform_loc")
    suppress = OPERATORS["relax.vision.non_max_suppression"].op.get_attr("FNumpy")
    want = suppress(boxes, count, count, -1, 0.3, return_indices=False)
    made = partial(topi.vision.multibox_detection, nms_threshold=0.3, **attrs)
    check(made, args, want, 1e-4, 1e-5)


def test_bits_are_highest_first(rng):
    numbers = rng.integers(0, 4, (3, 16)).astype("uint8")
    want = np.stack([np.packbits(numbers >> b & 1, axis=1) for b in (0, 1)], 2)
    check(lambda x: topi.nn.bitpack(x, 2, 1, 2, "uint8"), [numbers], want)
    with pytest.raises(ValueError, match="multiple of 8"):
        check(lambda x: topi.nn.bitpack(x, 1, 0, 1, "uint8"), [numbers], want)


def test_sparse_blocks(rng):
    values, whole = rng.normal(size=(2, 2, 3)).astype("float32"), np.zeros((4, 6), "float32")
    whole[:2, 3:], whole[2:, :3] = values
    parts = [values, np.array([1, 0], "int32"), np.array([0, 1, 2], "int32")]
    dense = rng.normal(size=(5, 6)).astype("float32")
    check(topi.nn.sparse_dense, [dense, *parts], dense @ whole.T)
    left = partial(topi.nn.sparse_dense, sparse_lhs=True)
    check(left, [dense, *parts], whole @ dense.T)
