"""How names of models are spelled in generated code."""

from collections.abc import Callable
from typing import Any

import pytest

from loopwright.base.errors import TVMError
from loopwright.relay.backend import name_transforms as nt
from loopwright.relay.backend.utils import mangle_module_name


@pytest.mark.parametrize(
    ("fn", "given", "wanted"),
    [
        (nt.to_c_function_style, "TVM_model_run", "TVMModelRun"),
        (nt.to_c_variable_style, "TVMGen_Net", "tvmgen_net"),
        (nt.to_c_constant_style, "TVM_net_Size", "TVM_NET_SIZE"),
        (nt.prefix_name, ["a", "B"], "TVM_a_B"),
        (nt.prefix_generated_name, "a", "TVMGen_a"),
        (nt.sanitize_name, "in+put:1", "in_put_1"),
        (mangle_module_name, "net", "tvmgen_net"),
        (mangle_module_name, "", "tvmgen"),
    ],
)
def test_spelling(fn: Callable[[Any], str], given: Any, wanted: str) -> None:
    assert fn(given) == wanted


@pytest.mark.parametrize(
    ("fn", "given", "message"),
    [
        (nt.to_c_function_style, "net", "Function not TVM prefixed"),
        (nt.to_c_variable_style, "", "Variable name is empty"),
        (nt.prefix_name, [], "Name segments empty"),
        (nt.prefix_generated_name, ["a", ""], "Name segment is empty"),
        (nt.sanitize_name, "", "Name is empty"),
    ],
)
def test_names_that_cannot_be_spelled(fn: Callable[[Any], str], given: Any, message: str) -> None:
    with pytest.raises(TVMError, match=message):
        fn(given)
    with pytest.raises(ValueError, match="ASCII"):
        mangle_module_name("é")
