"""A tensor expression against numpy, in the interpreter and compiled."""

from __future__ import annotations

import numpy as np

import loopwright as lw
from loopwright import te
from loopwright.tir.interpreter import run


def check(make, arrays, expected, rtol=1e-5, atol=1e-6):
    tensors = [te.placeholder(a.shape, str(a.dtype), f"a{n}") for n, a in enumerate(arrays)]
    made = make(*tensors)
    outs = list(made) if isinstance(made, (list, tuple)) else [made]
    wanted = expected if isinstance(expected, (list, tuple)) else [expected]
    func = te.create_prim_func([*tensors, *outs])
    for way in (lambda *a: run(func, list(a)), lw.compile(func, "llvm")["main"]):
        got = [np.zeros([int(e) for e in o.shape], str(o.dtype)) for o in outs]
        way(*arrays, *got)
        for ours, theirs in zip(got, wanted, strict=True):
            assert ours.shape == np.shape(theirs)
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)


def floats(rng, *shape):
    return rng.random(shape).astype("float32") + np.float32(0.1)
