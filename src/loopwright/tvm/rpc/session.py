"""A process that serves one session: `python -m loopwright.tvm.rpc.session SOCKET`, started by `Server`.

Its configuration comes as a line of JSON on standard input, whose end shows that the server has
ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
import threading
from importlib import import_module
from typing import Any

from . import channel
from .channel import Channel, greet
from .message import PeerError
from .serving import Serving


class Worker:
    """Listens until a client is let in, then serves that client."""

    def __init__(self, sock: socket.socket, config: dict[str, Any]) -> None:
        self.config = config
        self._in_session = threading.Lock()
        self.server = channel.serve(self._handle, sock, config["tls"])

    def _handle(self, client: Channel) -> None:
        try:
            about = greet(client, self.config["secret"])
            if about.get("key", "") not in ("", self.config["key"]) and self.config["key"]:
                client.send_json(refused=f"this server is called {self.config['key']!r}")
            elif not self._in_session.acquire(blocking=False):
                client.send_json(busy=True)
            else:
                self._serve(client, about)
        except PeerError as error:
            print(f"loopwright.rpc: {error}", file=sys.stderr)

    def _serve(self, client: Channel, about: dict[str, Any]) -> None:
        print("taken", flush=True)  # the server starts the next process
        self.server.socket.close()
        seconds = about.get("session_timeout")
        if isinstance(seconds, (int, float)) and seconds > 0:
            threading.Timer(seconds, _time_out, [client, seconds]).start()
        serving = Serving(self.config["folder"])
        try:
            client.send_json(ready=True)
            while True:
                client.send(serving.answer(client.receive()))
        except PeerError:
            pass  # the client has ended the session
        finally:
            os._exit(0)


def _time_out(client: Channel, seconds: float) -> None:
    threading.Timer(2, os._exit, [0]).start()
    client.close(1000, f"session_timeout of {seconds:g} s")


def _watch_server() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    """Serve one session."""
    config = json.loads(sys.stdin.readline())
    threading.Thread(target=_watch_server, daemon=True).start()
    for name in config["modules"]:
        import_module(name)
    for path in config["libraries"]:
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    Worker(socket.socket(fileno=int(sys.argv[1])), config).server.serve_forever()
    threading.Event().wait()  # the session's thread ends the process


if __name__ == "__main__":
    main()
