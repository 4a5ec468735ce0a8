"""The chats of examples/serve/openai_app.py: real requests, of which several are answered at once."""

from __future__ import annotations

import json
import runpy
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from threading import Thread

import pytest

from loopwright import llm

from ..house.source import ROOT
from .models import config, random_weights, write_gguf
from .test_tokens import _byte_level

pytest.importorskip("gguf")
pytest.importorskip("tokenizers")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    own, fields = _byte_level()
    c = config("llama", vocab_size=own.get_vocab_size(), num_hidden_layers=1)
    fields["tokenizer.chat_template"] = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    path = tmp_path_factory.mktemp("llm") / "m.gguf"
    model = llm.load(write_gguf(path, c, random_weights(c), fields=fields), context=200)
    app = runpy.run_path(str(ROOT / "examples" / "serve" / "openai_app.py"))
    with app["Server"](model, 0) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def _ask(server, text, **options):
    """The status and the body of an answer."""
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 9, **options}
    connection = HTTPConnection(*server.server_address, timeout=60)
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def _meant(server, text, **options):
    return server.model.generate([{"role": "user", "content": text}], 9, **options)


def _plain(server, text, **options):
    return json.loads(_ask(server, text, **options)[1])["choices"][0]["message"]["content"]


def test_several_at_once(server):
    texts = ["the row", "shapes", "wider", "low"]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda text: _plain(server, text), texts))
    assert answers == [_meant(server, text) for text in texts]
    assert len(set(answers)) > 1
    drawn = {"temperature": 0.9, "seed": 3}
    assert _plain(server, "the row", **drawn) == _meant(server, "the row", **drawn)


def test_streamed(server):
    _, body = _ask(server, "the row", stream=True)
    *events, end, rest = body.split("\n\n")
    deltas = [json.loads(e.removeprefix("data: "))["choices"][0]["delta"] for e in events]
    assert "".join(d["content"] for d in deltas) == _meant(server, "the row")
    assert len(deltas) > 1 and (end, rest) == ("data: [DONE]", "")


@pytest.mark.parametrize(
    ("text", "options", "why"),
    [
        ("the row", {"temperature": -1}, "temperature is from 0 to 100"),
        ("the row " * 200, {}, "all pages of the model are in use"),
        ("the row", {"max_tokens": 4000}, "all pages of the model are in use"),
    ],
)
def test_refused(server, text, options, why):
    status, body = _ask(server, text, **options)
    assert status == 400 and why in body
    assert _plain(server, "the row") == _meant(server, "the row")  # others go on


def test_the_example_is_short():
    lines = (ROOT / "examples" / "serve" / "openai_app.py").read_text().splitlines()
    assert len(lines) <= 60
