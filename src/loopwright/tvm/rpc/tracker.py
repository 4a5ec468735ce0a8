"""The tracker: hands out servers by name, to the clients with the highest priority first.

tracker = Tracker(port=9190)                             # on one machine
Server(tracker_addr=("tracker", 9190), key="board")      # on each board
remote = connect_tracker("tracker", 9190).request("board")
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import math
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ...base.errors import explain
from .channel import Channel, Tls, check_safe, greet, open_channel, secret_of, serve, server_context
from .client import RPCSession, connect
from .message import PeerError
from .server import listen

T = TypeVar("T")
_PROMISE_SECONDS = 60.0  # then a server whose client did not come is free again


@dataclass(eq=False)
class _Offer:
    """A server: where it is, and whether it is free."""

    key: str
    host: str
    port: int
    free: bool = True
    promised: float = math.inf  # till when one that was handed out waits for its client

    def hand_out(self) -> bool:
        """Take it if it is free, or if the client it was given to did not come."""
        now = time.monotonic()
        if not self.free and now < self.promised:
            return False
        self.free, self.promised = False, now + _PROMISE_SECONDS
        return True


@dataclass(eq=False)
class _Desk:
    """Servers and who waits for them, by name; `changed` guards both."""

    offers: list[_Offer] = field(default_factory=list)
    waiting: list[tuple[str, int, int]] = field(default_factory=list)  # (key, -priority, number)
    changed: threading.Condition = field(default_factory=threading.Condition)
    numbers: Any = field(default_factory=itertools.count)

    def take(self, key: str, priority: int, closed: threading.Event) -> _Offer | None:
        """A free server, when it is this one's turn; None if the client has closed its
        connection."""
        ticket = (key, -priority, next(self.numbers))
        with self.changed:
            self.waiting.append(ticket)
            try:
                while not closed.is_set():
                    first = min(w for w in self.waiting if w[0] == key)
                    matching = (o for o in self.offers if o.key == key)
                    offer = (
                        next((o for o in matching if o.hand_out()), None)
                        if first == ticket
                        else None
                    )
                    if offer is not None:
                        return offer
                    self.changed.wait(1)
                return None
            finally:
                self.waiting.remove(ticket)
                self.changed.notify_all()

    def summary(self) -> dict[str, Any]:
        with self.changed:
            servers = [
                {"key": o.key, "addr": [o.host, o.port], "free": o.free} for o in self.offers
            ]
            keys = sorted({o.key for o in self.offers} | {w[0] for w in self.waiting})
            queues = {
                key: {
                    "free": sum(o.free for o in self.offers if o.key == key),
                    "pending": sum(w[0] == key for w in self.waiting),
                }
                for key in keys
            }
        return {"server_info": servers, "queue_info": queues}


class Tracker:
    """Serves until `terminate`, or until it is collected. Its arguments are those of `Server`."""

    def __init__(
        self, host: str = "127.0.0.1", port: int = 9190, port_end: int = 9199, silent: bool = False,
        reuse_addr: bool = True, timeout: float | None = None, *, secret: str | None = None,
        tls: Tls = None,
    ) -> None:  # fmt: skip
        shared_secret = secret_of(secret)
        check_safe(host, shared_secret, server_context(tls))
        sock = listen(host, port, port_end)
        self.host, self.port = host, int(sock.getsockname()[1])
        desk = _Desk()
        self._server = serve(lambda client: _handle(desk, client, shared_secret), sock, tls)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self._finalize = weakref.finalize(self, self._server.shutdown)
        atexit.register(self._finalize)

    def terminate(self) -> None:
        """Close all connections; servers look for the tracker again, and serve on."""
        self._finalize()

    def wait(self) -> None:
        """Until the tracker is terminated."""
        while self._thread.is_alive():  # a signal that another thread took is seen then
            self._thread.join(1)

    def __enter__(self) -> Tracker:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()


def _handle(desk: _Desk, client: Channel, secret: str) -> None:
    """Serve one connection: of a server, or of a client."""
    try:
        about = greet(client, secret)
        if about.get("role") == "server":
            _keep_offer(desk, client, about)
        else:
            _answer(desk, client)
    except (PeerError, KeyError, TypeError, ValueError):
        pass  # who speaks otherwise is left
    finally:
        client.close()


def _keep_offer(desk: _Desk, client: Channel, about: dict[str, Any]) -> None:
    offer = _Offer(str(about["key"]), str(about["host"]), int(about["port"]))
    with desk.changed:
        desk.offers.append(offer)
        desk.changed.notify_all()
    try:
        while True:
            free = bool(client.receive_json()["free"])
            with desk.changed:
                offer.free, offer.promised = free, math.inf
                desk.changed.notify_all()
    finally:
        with desk.changed:
            desk.offers.remove(offer)


def _answer(desk: _Desk, client: Channel) -> None:
    while True:
        asked = client.receive_json()
        if asked.get("do") == "summary":
            client.send_json(**desk.summary())
            continue
        closed = threading.Event()
        closer = threading.Thread(target=_watch, args=(client, closed), daemon=True)
        closer.start()
        offer = desk.take(str(asked["key"]), int(asked["priority"]), closed)
        if offer is None:
            return
        try:
            client.send_json(host=offer.host, port=offer.port)
        except PeerError:
            with desk.changed:
                offer.free = True
                desk.changed.notify_all()
            raise
        return


def _watch(client: Channel, closed: threading.Event) -> None:
    """A client that waits sends nothing; its next message is its end."""
    with contextlib.suppress(PeerError):
        client.receive()
    closed.set()


class TrackerSession:
    """A client of a tracker."""

    def __init__(self, addr: tuple[str, int], secret: str | None = None, tls: Tls = None) -> None:
        self._addr, self._secret, self._tls = addr, secret, tls
        self.summary()  # the tracker is there, and lets us in

    def _ask(self, timeout: float | None = None, **question: str | int) -> dict[str, Any]:
        channel, _ = open_channel(*self._addr, self._secret, self._tls, {"role": "client"})
        try:
            channel.send_json(**question)
            return channel.receive_json(timeout)
        finally:
            channel.close()

    def summary(self) -> dict[str, Any]:
        """{"server_info": [...], "queue_info": {key: {"free", "pending"}}}. Raises PeerError."""
        return self._ask(10, do="summary")

    def text_summary(self) -> str:
        """The servers and the queues as tables."""
        summary = self.summary()
        lines = ["Server List", f"{'address':<28}key"]
        for server in summary["server_info"]:
            lines.append(f"{':'.join(map(str, server['addr'])):<28}{server['key']}")
        lines += ["", "Queue Status", f"{'key':<16}{'total':<8}{'free':<8}pending"]
        for key, queue in summary["queue_info"].items():
            total = sum(server["key"] == key for server in summary["server_info"])
            lines.append(f"{key:<16}{total:<8}{queue['free']:<8}{queue['pending']}")
        return "\n".join(lines)

    def request(
        self,
        key: str,
        priority: int = 1,
        session_timeout: int = 0,
        max_retry: int = 5,
        session_constructor_args: Any = None,
    ) -> RPCSession:
        """A session on a free server of that name, when it is our turn. Raises PeerError where the
        tracker is gone, or `max_retry` servers in turn do not answer."""
        errors = []
        for _ in range(max(max_retry, 1)):
            grant = self._ask(do="request", key=key, priority=priority)
            try:
                return connect(
                    grant["host"], grant["port"], key, session_timeout, session_constructor_args,
                    secret=self._secret, tls=self._tls,
                )  # fmt: skip
            except PeerError as error:
                errors.append(str(error).splitlines()[0])
        raise PeerError(explain(f"no server {key!r} could be reached", got="; ".join(errors)))

    def request_and_run(
        self,
        key: str,
        func: Callable[[RPCSession], T],
        priority: int = 1,
        session_timeout: int = 0,
        max_retry: int = 2,
    ) -> T:
        """`func(session)` on a server of that name; on another where the connection ends in it."""
        for left in reversed(range(max(max_retry, 1))):
            try:
                with self.request(key, priority, session_timeout) as session:
                    return func(session)
            except PeerError:
                if not left:
                    raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Taken for TVM's sake: each question has a connection of its own."""


def connect_tracker(
    url: str, port: int, *, secret: str | None = None, tls: Tls = None
) -> TrackerSession:
    """A client of the tracker on the machine `url`. Raises PeerError."""
    return TrackerSession((url, port), secret, tls)
