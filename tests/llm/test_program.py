"""`loopwright chat` and `loopwright bench` with models of language."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from loopwright import llm
from loopwright.driver.cli import app

from .models import config, random_weights, write_folder
from .test_tokens import _byte_level


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    own, _ = _byte_level()
    c = config(
        "llama",
        vocab_size=own.get_vocab_size(),
        num_hidden_layers=1,
        bos_token_id=0,
        eos_token_id=1,
    )
    path = write_folder(tmp_path_factory.mktemp("llm") / "m", c, random_weights(c))
    own.save(str(path / "tokenizer.json"))
    return path


def _call(*args, text=None):
    result = CliRunner().invoke(app, [str(a) for a in args], input=text)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.budget(6)
def test_chat(folder):
    options = ("--max-new-tokens", 9, "--context", 64)
    answer = _call("chat", folder, "--prompt", "the row", *options)
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    )
    first, second = "the row", "shapes"
    lines = _call("chat", folder, *options, text=f"{first}\n{second}\n")
    model = llm.load(folder, context=64)
    assert answer.strip() == model.generate("the row", max_new_tokens=9).strip()
    messages = [{"role": "user", "content": first}]
    answers = [model.generate(messages, 9)]
    messages += [{"role": "assistant", "content": answers[0]}, {"role": "user", "content": second}]
    answers.append(model.generate(messages, 9))
    assert lines.strip() == "".join(f"> {a}\n" for a in [*answers, ""]).strip()


@pytest.mark.budget(6)
def test_bench(folder):
    text = _call("bench", folder, "--dims", "8,20")
    assert "context 8: prefill" in text
    assert "context 20: prefill" in text
    assert "attention_paged" in text  # a kernel of a layer, which is a function of its own
