"""Frozen parameters: dynamo keeps them as attributes of the graph, so that no call passes or guards them."""

from __future__ import annotations

from typing import Any

import torch._inductor.config as config
from torch._dynamo.callback import callback_handler
from torch._dynamo.exc import TensorifyScalarRestartAnalysis

_set_here = False


def retrace_frozen() -> None:
    """Have dynamo trace again with `freezing`, which is set until this compilation ends. Unlike dynamo's own
    `prepare_freezing` this guards the parameters' identities: another model does not get their values.

    A backend is called after the trace: the first time this raises dynamo's exception for that.
    """
    global _set_here
    if not config.freezing:
        if _restore not in callback_handler.end_callbacks:  # a reset of dynamo clears these
            callback_handler.register_end_callback(_restore)
        config.freezing = _set_here = True
        raise TensorifyScalarRestartAnalysis


def _restore(_: Any) -> None:
    global _set_here
    if _set_here:
        config.freezing = _set_here = False
