"""Small models on their way down: what each pass made, what was chosen, and the code."""

from __future__ import annotations

from typing import Any

import pytest

import loopwright as lw

from .models import GRAPHS
from .models import model as made
from .stages import ARM, CPU, c_text, choices, passes, stages


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("name", GRAPHS)
def test_way_down(name: str, replay: Any) -> None:
    mod = made(name)
    trace = lw.lower(mod, CPU)
    rows = {
        "x86": passes(trace),
        "arm": stages(lw.lower(mod, ARM), ARM),
        "c": {"code": c_text(mod)},
    }
    rows["x86"] |= {"code": stages(trace, CPU)["llvm"], "choices": choices(trace)}
    replay(f"models/{name}", rows)
