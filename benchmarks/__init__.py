"""Loopwright beside its peers: every figure comes from one interleaved run on one machine."""
