"""Threads, shared memory and kernel launches. No pipeline runs these passes yet."""
