"""Sessions as users have them: `connect`, and `LocalSession` for the same without a network."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...base.errors import explain
from ...runtime import Device
from .channel import Channel, Tls, open_channel
from .message import CHUNK, PeerError
from .remote import Link, RemoteDevice, RemoteFunction, RemoteModule
from .serving import Serving

_BUSY_SECONDS = 20.0  # for a server whose next session is being started


class RPCSession:
    """A session on another machine: files, modules, functions and tensors there.

    Its files are in a folder of the session, which is removed with it.
    """

    def __init__(self, link: Link, channel: Channel | None = None) -> None:
        self.link, self._channel = link, channel

    def close(self) -> None:
        """End the session."""
        if self._channel is not None:
            self._channel.close()

    def __enter__(self) -> RPCSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- devices, functions, modules -------------------------------------------------------------

    def device(self, dev_type: str | int, dev_id: int = 0) -> Device:
        """A device of the other machine."""
        return RemoteDevice(self.link, dev_type, dev_id)

    def cpu(self, dev_id: int = 0) -> Device:
        """The CPU of the other machine."""
        return self.device("cpu", dev_id)

    def get_function(self, name: str) -> RemoteFunction:
        """A registered function of the other process. Raises RemoteError for an unknown name."""
        head, _ = self.link.request("function", name=name)
        return RemoteFunction(self.link, head["function"], name)

    def load_module(self, path: str | Path) -> RemoteModule:
        """Load an exported library that was uploaded. Raises RemoteError."""
        head, _ = self.link.request("module", file=str(path))
        return RemoteModule(self.link, head)

    # -- files -----------------------------------------------------------------------------------

    def upload(self, data: str | Path | bytes | bytearray, target: str | None = None) -> None:
        """Send a file, by path or as bytes; target: its name there, by default the path's."""
        if isinstance(data, (bytes, bytearray)):
            if target is None:
                what = "bytes that are uploaded need a name"
                raise ValueError(explain(what, instead='upload(data, "name")'))
            content = bytes(data)
        else:
            content, target = Path(data).read_bytes(), target or Path(data).name
        for at in range(0, max(len(content), 1), CHUNK):
            self.link.request("upload", content[at : at + CHUNK], name=target, at=at)

    def download(self, path: str) -> bytearray:
        """The content of a file of the session."""
        content = bytearray()
        while True:
            _, (part,) = self.link.request("download", name=str(path), at=len(content))
            content += part
            if len(part) < CHUNK:
                return content

    def remove(self, path: str) -> None:
        """Remove a file of the session."""
        self.link.request("remove", name=str(path))

    def listdir(self, path: str = "") -> list[str]:
        """The names of the session's files. Raises ValueError for another folder."""
        if str(path) not in ("", ".", "/"):
            raise ValueError(explain("a session has one folder", got=repr(path), instead='""'))
        return list(self.link.request("listdir")[0]["names"])


class LocalSession(RPCSession):
    """A session in this process: what works here works on another machine."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="loopwright-rpc-")
        self._serving = Serving(self._folder.name)
        super().__init__(Link(self._serving.answer, "this process"))

    def close(self) -> None:
        """End the session."""
        self._folder.cleanup()


def connect(
    url: str, port: int, key: str = "", session_timeout: int = 0,
    session_constructor_args: Sequence[str] | None = None, enable_logging: bool = False, *,
    secret: str | None = None, tls: Tls = None,
) -> RPCSession:  # fmt: skip
    """A session on the machine `url`, whose server listens on `port`.

    key: the tracker's name of such servers; a server with another name refuses.
    session_timeout: seconds after which the server ends the session; 0 for never.
    secret: the same as the server's; by default LOOPWRIGHT_RPC_SECRET.
    tls: True, the file of the server's certificate authority, or (that, certificate, key).
    enable_logging: taken for TVM's sake.
    Raises PeerError where no server answers, or one that does not know the secret; ValueError for
    another machine without a secret or TLS.
    """
    if session_constructor_args:
        what = "sessions through other sessions are not supported"
        raise ValueError(explain(what, got=session_constructor_args, instead="a tunnel of ssh"))
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        about = {"key": key, "session_timeout": float(session_timeout)}
        channel, _ = open_channel(url, port, secret, tls, about)
        state = channel.receive_json(_BUSY_SECONDS)
        if state.get("ready"):
            break
        channel.close()
        if state.get("refused") or time.monotonic() > deadline:
            why = state.get("refused") or "all sessions are taken"
            raise PeerError(explain(f"{channel.peer} refuses: {why}"))
        time.sleep(0.1)

    def exchange(data: bytes) -> Any:
        channel.send(data)
        return channel.receive()

    return RPCSession(Link(exchange, channel.peer), channel)
