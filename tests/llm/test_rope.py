"""Frequencies of rotary embeddings beside numbers that transformers 5.24 computed."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.llm.rope import Rope

_LONG = {
    "short_factor": [1 + 0.1 * i for i in range(8)],
    "long_factor": [1.0 + i for i in range(8)],
}
# kind, base, options, context: frequencies of a head of 16 channels, and the factor.
CASES = [
    ("linear", 1e4, {"factor": 4.0}, 0,
     [0.25, 0.0790569, 0.025, 0.00790569, 0.0025, 0.000790569, 0.00025, 7.90569e-05], 1.0),
    ("llama3", 5e5, {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}, 0,
     [1.0, 0.193923, 0.037606, 0.00729267, 0.000524846, 3.4281e-05, 6.64787e-06, 1.28917e-06], 1.0),
    ("yarn", 1e6, {"factor": 4.0, "original_max_position_embeddings": 32768}, 0,
     [1.0, 0.177828, 0.0316228, 0.00421756, 0.0005, 4.4457e-05, 7.90569e-06, 1.40585e-06], 1.138629),
    ("yarn", 1e4, {"factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 0.707}, 0,
     [1.0, 0.316228, 0.1, 0.0239147, 0.005125, 0.000849862, 2.5e-05, 7.90569e-06], 1.085726),
    ("longrope", 1e4, {"factor": 32.0, "original_max_position_embeddings": 4096, **_LONG}, 2048,
     [1.0, 0.28748, 0.0833333, 0.0243252, 0.00714286, 0.00210819, 0.000625, 0.000186016], 1.190238),
    ("longrope", 1e4, {"factor": 32.0, "original_max_position_embeddings": 4096, **_LONG}, 9000,
     [1.0, 0.158114, 0.0333333, 0.00790569, 0.002, 0.000527046, 0.000142857, 3.95285e-05], 1.190238),
    ("table", 1e4, {"factors": [2.0] * 8}, 0, 0.5 * 10.0 ** -np.arange(0, 4, 0.5), 1.0),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "theta", "options", "context", "expected", "factor"), CASES)
def test_frequencies(kind, theta, options, context, expected, factor):
    got, scale = Rope(16, theta, kind, options).frequencies(context)
    np.testing.assert_allclose(got, expected, 1e-5)
    assert scale == pytest.approx(factor, 1e-6)
