"""Chats in the shape of OpenAI's API: python examples/serve/openai_app.py MODEL [PORT]"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue

from loopwright import llm
from loopwright.llm.sampling import Sampler


class Server(ThreadingHTTPServer):
    def __init__(self, model, port):
        super().__init__(("127.0.0.1", port), Chat)
        self.model, self.chats, self.thread = model, [], ThreadPoolExecutor(1)

    def join(self, chat):
        chat.state = self.model.prefill(chat.ids)
        self.model.reserve(chat.state, chat.most)
        self.chats.append(chat)
        if len(self.chats) == 1:
            self.thread.submit(self.step)

    def step(self):  # one of all chats; between two of them others join
        for chat in self.chats:
            (token,) = chat.choose(chat.state.logits[None], [0], [chat.state.ids])
            ends = token in self.model.tokens.last or len(chat.state) >= len(chat.ids) + chat.most
            chat.token = None if ends else token
            chat.tokens.put(chat.token)
        self.chats = [chat for chat in self.chats if chat.token is not None]
        if self.chats:
            self.model.decode([c.state for c in self.chats], [c.token for c in self.chats])
            self.thread.submit(self.step)


class Chat(BaseHTTPRequestHandler):
    def do_POST(self):
        try:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            options = {n: body[n] for n in ("temperature", "top_p", "seed") if n in body}
            self.choose = Sampler(llm.Sampling(**options), self.server.model.config.vocabulary, 1)
            self.ids, self.tokens = self.server.model.encoded(body["messages"]), SimpleQueue()
            self.most, stream = int(body.get("max_tokens", 128)), body.get("stream")
            self.server.thread.submit(self.server.join, self).result()
        except (ValueError, TypeError, LookupError, RuntimeError) as error:
            return self.send_error(400, explain=str(error))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if stream else "application/json")
        self.end_headers()
        parts = self.server.model.tokens.stream(iter(self.tokens.get, None))
        key, form = ("delta", "data: %s\n\n") if stream else ("message", "%s")
        for text in parts if stream else ["".join(parts)]:
            choice = {"index": 0, key: {"role": "assistant", "content": text}}
            self.wfile.write((form % json.dumps({"choices": [choice]})).encode())
        self.wfile.write(b"data: [DONE]\n\n" if stream else b"")


if __name__ == "__main__":
    Server(llm.load(sys.argv[1]), int([*sys.argv, 8000][2])).serve_forever()
