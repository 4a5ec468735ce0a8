"""Connections: WebSockets, on which both sides prove that they know the secret.

The secret itself does not cross: each side sends a random number and answers the other's with an
HMAC. Off this machine a secret is needed, or TLS with certificates of both sides.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import secrets
import ssl
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from ...base.config import knob
from ...base.errors import explain
from .message import LIMIT, PeerError, parse

VERSION = 1
GREETING_SECONDS = 10.0  # for the greeting of who connected
OPEN_SECONDS = 30.0  # for a server that is starting a session
# A side that does not answer for so long is dead; a busy one answers from a thread.
_OPTIONS: dict[str, Any] = {
    "compression": None,
    "max_size": LIMIT,
    "ping_interval": 10,
    "ping_timeout": 30,
    "close_timeout": 2,
}

Tls = bool | str | Sequence[str] | ssl.SSLContext | None


def websockets() -> Any:
    """The library, which is an extra. Raises PeerError without it."""
    try:
        import websockets.sync.client
        import websockets.sync.server
    except ImportError:
        what, hint = "rpc needs the package websockets", "pip install loopwright[rpc]"
        raise PeerError(explain(what, instead=hint)) from None
    return websockets


def secret_of(secret: str | None) -> str:
    """The secret given, or that of the environment; "" for none."""
    return str(knob("LOOPWRIGHT_RPC_SECRET")) if secret is None else secret


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, which others cannot reach."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_safe(host: str, secret: str, tls: ssl.SSLContext | None) -> None:
    """Raise ValueError where strangers could take part: off this machine without a secret, and
    without TLS that requires the peer's certificate."""
    proven = tls is not None and tls.verify_mode == ssl.CERT_REQUIRED
    if not is_loopback(host) and not secret and not proven:
        what = "off this machine, rpc needs a secret, or TLS with certificates of both sides"
        hint = "pass secret=..., or set LOOPWRIGHT_RPC_SECRET on both sides"
        raise ValueError(explain(what, got=f"host {host!r}", instead=hint))


def server_context(tls: Tls) -> ssl.SSLContext | None:
    """A server's TLS: (certificate, key) files, and as a third the authority of its clients."""
    if tls is None or isinstance(tls, ssl.SSLContext):
        return tls
    if isinstance(tls, (bool, str)) or len(tls) not in (2, 3):
        what, hint = "a server's tls is its files", "(certificate, key) or (certificate, key, ca)"
        raise ValueError(explain(what, got=repr(tls), instead=hint))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tls[0], tls[1])
    if len(tls) == 3:
        context.load_verify_locations(tls[2])
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(tls: Tls) -> ssl.SSLContext | None:
    """A client's TLS: True, the file of the server's authority, or (that, certificate, key)."""
    if tls is None or isinstance(tls, ssl.SSLContext):
        return tls
    if isinstance(tls, bool):
        return ssl.create_default_context() if tls else None
    if isinstance(tls, str):
        return ssl.create_default_context(cafile=tls)
    if len(tls) != 3:
        what, hint = "a client's tls is True or files", "ca or (ca, certificate, key)"
        raise ValueError(explain(what, got=repr(tls), instead=hint))
    context = ssl.create_default_context(cafile=tls[0])
    context.load_cert_chain(tls[1], tls[2])
    return context


class Channel:
    """A connection to the other side, for texts and bytes."""

    def __init__(self, connection: Any, peer: str) -> None:
        self.connection, self.peer = connection, peer

    def send(self, data: str | bytes) -> None:
        """Raises PeerError where the other side is gone."""
        self._guarded(lambda: self.connection.send(data))

    def receive(self, timeout: float | None = None) -> Any:
        """The next message. Raises PeerError where the other side is gone, or silent for
        `timeout` seconds."""
        return self._guarded(lambda: self.connection.recv(timeout=timeout))

    def send_json(self, **values: Any) -> None:
        """Send a JSON object as text."""
        self.send(json.dumps(values))

    def receive_json(self, timeout: float | None = None) -> dict[str, Any]:
        """The next message, a JSON object. Raises PeerError."""
        text = self.receive(timeout)
        if not isinstance(text, str) or len(text) > 1 << 16:
            raise PeerError(explain(f"{self.peer} does not speak this protocol"))
        return parse(text)

    def close(self, code: int = 1000, reason: str = "") -> None:
        """End the connection; a second time does nothing."""
        self.connection.close(code, reason[:120])

    def _guarded(self, act: Callable[[], Any]) -> Any:
        exceptions = websockets().exceptions
        try:
            return act()
        except exceptions.ConnectionClosed as error:
            frame = error.rcvd or error.sent
            why = frame.reason or f"code {frame.code}" if frame else "no answer"
            raise PeerError(explain(f"the connection to {self.peer} has ended", got=why)) from None
        except TimeoutError:
            raise PeerError(explain(f"{self.peer} does not answer")) from None
        except OSError as error:
            raise PeerError(explain(f"the connection to {self.peer} failed", got=error)) from None


def _proof(secret: str, role: str, *nonces: str) -> str:
    content = "|".join((role, str(VERSION), *nonces)).encode()
    return hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()


def greet(channel: Channel, secret: str) -> dict[str, Any]:
    """The server's side of a greeting: the client's description of itself. Raises PeerError for one
    that does not know the secret."""
    nonce = secrets.token_hex(16)
    channel.send_json(rpc=VERSION, nonce=nonce, secret=bool(secret))
    answer = channel.receive_json(GREETING_SECONDS)
    other, proof = str(answer.get("nonce", "")), str(answer.get("proof", ""))
    expected = _proof(secret, "client", nonce, other)
    if secret and not (proof.isascii() and hmac.compare_digest(proof, expected)):
        channel.send_json(error="the secret is wrong" if proof else "a secret is needed")
        channel.close(1008, "wrong secret")
        raise PeerError(explain(f"{channel.peer} does not know the secret"))
    channel.send_json(ok=True, proof=_proof(secret, "server", nonce, other) if secret else "")
    return answer


def answer_greeting(channel: Channel, secret: str, about: dict[str, Any]) -> dict[str, Any]:
    """The client's side: the server's description of itself. Raises PeerError."""
    hello = channel.receive_json(GREETING_SECONDS)
    if hello.get("rpc") != VERSION or not isinstance(hello.get("nonce"), str):
        what, hint = f"{channel.peer} speaks another version", "use one version on both sides"
        raise PeerError(explain(what, got=hello.get("rpc"), instead=hint))
    nonce, peer_nonce = secrets.token_hex(16), hello["nonce"]
    proof = _proof(secret, "client", peer_nonce, nonce) if secret else ""
    channel.send_json(**about, nonce=nonce, proof=proof)
    answer = channel.receive_json(GREETING_SECONDS)
    if "error" in answer:
        what, hint = f"{channel.peer} refuses: {answer['error']}", "pass secret=..."
        raise PeerError(explain(what, instead=hint))
    shown = str(answer.get("proof", ""))
    if secret and not hmac.compare_digest(
        shown.encode(), _proof(secret, "server", peer_nonce, nonce).encode()
    ):
        raise PeerError(explain(f"{channel.peer} does not know the secret", got="no proof of it"))
    return hello


def open_channel(
    host: str, port: int, secret: str | None, tls: Tls, about: dict[str, Any]
) -> tuple[Channel, dict[str, Any]]:
    """A connection as a client, and the server's description of itself. Raises PeerError,
    ValueError."""
    shared_secret, context = secret_of(secret), client_context(tls)
    check_safe(host, shared_secret, context)
    peer = f"{host}:{port}"
    library = websockets()
    address = f"[{host}]" if ":" in host else host
    url = f"{'ws' if context is None else 'wss'}://{address}:{port}/"
    options = {"ssl": context, "proxy": None, "open_timeout": OPEN_SECONDS, **_OPTIONS}

    def opened() -> Any:
        context_manager = library.sync.client.connect(url, **options)
        return ExitStack().enter_context(context_manager)  # `Channel.close` closes it

    try:
        try:
            connection = opened()
        except library.exceptions.InvalidMessage:
            if context is None:
                raise
            connection = opened()  # the server's threads may lose a TLS handshake (websockets 17.4)
    except (OSError, library.exceptions.WebSocketException, TimeoutError) as error:
        hint = "is the server running, with or without TLS as here?"
        got = f"{type(error).__name__}: {error}"
        raise PeerError(explain(f"cannot connect to {peer}", got=got, instead=hint)) from None
    channel = Channel(connection, peer)
    try:
        return channel, answer_greeting(channel, shared_secret, about)
    except PeerError:
        channel.close()
        raise


def serve(handler: Callable[[Channel], None], sock: Any, tls: Tls) -> Any:
    """A server on a listening socket, a thread for each connection."""

    def handle(connection: Any) -> None:
        address = connection.remote_address
        handler(Channel(connection, f"{address[0]}:{address[1]}" if address else "a client"))

    options = {**_OPTIONS, "open_timeout": GREETING_SECONDS}
    return websockets().sync.server.serve(handle, sock=sock, ssl=server_context(tls), **options)
