"""Random numbers from keys: the published words of Threefry."""

import numpy as np

from loopwright.ops.random import threefry

# Threefry4x64 with 20 rounds: the known answers that come with Random123 (key and counter 0, all ones).
ANSWERS = {
    0: [0x09218EBDE6C85537, 0x55941F5266D86105, 0x4BD25E16282434DC, 0xEE29EC846BD2E40B],
    2**64 - 1: [0x29C24097942BBA1B, 0x0371BBFB0F6F4E11, 0x3C231FFA33F83A1C, 0xCD29113FDE32D168],
}


def test_known_answers():
    """TVM leaves out the last addition of the key, so that its numbers are these without it."""
    for word, want in ANSWERS.items():
        with np.errstate(over="ignore"):
            got = threefry([np.uint64(word)] * 4, [np.uint64(word)] * 4, np.uint64)
        last = zip(got, (0, 0, 0, 5), strict=True)
        assert [(int(v) + word + more) % 2**64 for v, more in last] == want
