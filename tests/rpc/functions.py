"""Functions that sessions of the tests import."""

from __future__ import annotations

import ctypes
import os
import time

import numpy as np

import loopwright as lw


@lw.register_func("test.rpc.describe")
def describe(*args):
    return [type(a).__name__ for a in args]


@lw.register_func("test.rpc.echo")
def echo(value):
    return value


@lw.register_func("test.rpc.adder")
def adder(first):
    return lambda second: first + second


@lw.register_func("test.rpc.fail")
def fail(text):
    raise KeyError(text)


@lw.register_func("test.rpc.made")
def made(count):
    return lw.runtime.tensor(np.arange(count))


@lw.register_func("test.rpc.mapping")
def mapping():
    return {"a": 1}


@lw.register_func("test.rpc.sleep")
def sleep(seconds):
    time.sleep(seconds)


@lw.register_func("test.rpc.crash")
def crash():
    ctypes.string_at(0)


@lw.register_func("test.rpc.cores")
def cores():
    return sorted(os.sched_getaffinity(0))
