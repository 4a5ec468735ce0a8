"""A server's connection to the tracker that hands it out."""

from __future__ import annotations

import contextlib
import threading

from .channel import Channel, Tls, open_channel
from .message import PeerError

_AGAIN_SECONDS = 2.0  # between attempts to reach a tracker that does not answer


class TrackerLink:
    """Offers a server to a tracker, and again where the tracker was gone for a while.

    Raises PeerError where no tracker answers at the start.
    """

    def __init__(
        self, tracker: tuple[str, int], secret: str, tls: Tls, key: str, host: str, port: int
    ) -> None:
        self._tracker, self._secret = tracker, secret
        self._tls = tls if tls is None else True
        self._about = {"role": "server", "key": key, "host": host, "port": port}
        self._closed = threading.Event()
        self._channel = self._open()
        threading.Thread(target=self._keep, daemon=True).start()

    def _open(self) -> Channel:
        channel, _ = open_channel(*self._tracker, self._secret, self._tls, self._about)
        return channel

    def _keep(self) -> None:
        while not self._closed.is_set():
            try:
                self._channel.receive()
            except PeerError:
                if self._closed.wait(_AGAIN_SECONDS):
                    return
                try:
                    self._channel = self._open()
                except PeerError:
                    continue

    def tell(self, free: bool) -> None:
        """Report that a session has begun, or ended."""
        with contextlib.suppress(PeerError):  # a new connection starts as free
            self._channel.send_json(free=free)

    def close(self) -> None:
        """Take the server back."""
        self._closed.set()
        self._channel.close()
