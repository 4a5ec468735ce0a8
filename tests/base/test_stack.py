"""Room on Python's stack."""

import resource

from loopwright.base.stack import roomy


def down(left: int) -> int:
    return down(left - 1) if left else 0


def faults(depth: int) -> int:
    """Page faults of 1,000 calls, of two frames each, from a depth."""
    if depth:
        return faults(depth - 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(1000):
        down(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_calls_across_the_end_of_a_chunk_take_no_memory_each_time():
    assert max(roomy(faults)(depth) for depth in range(300)) < 100


def test_a_function_with_room_is_called_as_before():
    def scaled(x: int, *more: int, by: int = 2) -> list[int]:
        """Scaled."""
        return [v * by for v in (x, *more)]

    assert roomy(scaled)(1, 2, by=3) == [3, 6]
    assert roomy(scaled).__name__ == "scaled" and roomy(scaled).__doc__ == "Scaled."
