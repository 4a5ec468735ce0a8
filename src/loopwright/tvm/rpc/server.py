"""The server: sessions in processes of their own, so that a crash ends one session only.

    python -m loopwright.rpc server --host 0.0.0.0 --port 9090

The processes share the listening socket; one waits for a client while others serve theirs.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...base.errors import explain
from .channel import Tls, check_safe, is_loopback, secret_of, server_context, websockets
from .link import TrackerLink

_SESSIONS = 64  # at a time


def listen(host: str, port: int, port_end: int) -> socket.socket:
    """A listening socket on the first free port; port 0 for any. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in range(port, max(port_end, port + 1)):
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, number))
        except OSError:
            sock.close()
            continue
        sock.listen(64)
        return sock
    raise OSError(explain(f"no port is free on {host}", got=f"{port} to {port_end}"))


class Server:
    """Serves sessions until `terminate`, or until it is collected. `host` and `port` are its
    address.

    host: the address to listen on. Off this machine ("0.0.0.0") a secret is needed, or TLS that
        requires certificates of clients.
    port, port_end: the first free port of these is taken; 0 for any.
    tracker_addr: (host, port) of a tracker that hands this server out, under the name `key`.
    custom_addr: the host that the tracker reports to clients.
    load_library: exported or other shared libraries that each session loads, as names joined by ":".
    secret: what clients must know; by default LOOPWRIGHT_RPC_SECRET.
    tls: (certificate, key) files, and as a third the certificate authority of clients.
    modules: Python modules that each session imports, for instance to register functions.
    command: what runs Python for a session, such as ["taskset", "-c", "3", "python3"].
    silent, no_fork, reuse_addr, timeout: taken for TVM's sake.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = 9091, port_end: int = 9199,
        is_proxy: bool = False, tracker_addr: tuple[str, int] | None = None, key: str = "",
        load_library: str | None = None, custom_addr: str | None = None, silent: bool = False,
        no_fork: bool = False, server_init_callback: Callable[..., Any] | None = None,
        reuse_addr: bool = True, timeout: float | None = None, *, secret: str | None = None,
        tls: Tls = None, modules: Sequence[str] = (), command: Sequence[str] = (sys.executable,),
    ) -> None:  # fmt: skip
        for option, name, hint in (
            (is_proxy, "is_proxy", "connect through a tunnel of ssh"),
            (server_init_callback, "server_init_callback", "modules=[...] to import"),
        ):
            if option:
                raise ValueError(explain(f"rpc.Server has no {name}", instead=hint))
        websockets()
        shared_secret, context = secret_of(secret), server_context(tls)
        check_safe(host, shared_secret, context)
        if context is tls and context is not None:
            what = "a server's tls is files, which its sessions read"
            raise ValueError(explain(what, instead="(certificate, key) or (certificate, key, ca)"))
        self.host, self.key = host, key
        self._socket = listen(host, port, port_end)
        self.port: int = self._socket.getsockname()[1]
        libraries = [p for p in (load_library or "").split(":") if p]
        config = {"key": key, "secret": shared_secret, "tls": tls, "modules": list(modules)}
        self._pool = _Sessions(self._socket, {**config, "libraries": libraries}, list(command))
        link = None
        if tracker_addr is not None:
            public = custom_addr or (host if not is_loopback(host) else "127.0.0.1")
            link = TrackerLink(tracker_addr, shared_secret, tls, key, public, self.port)
            self._pool.tell = link.tell
        self._finalize = weakref.finalize(self, _stop, self._pool, link)
        atexit.register(self._finalize)

    def terminate(self) -> None:
        """End all sessions, and serve no more."""
        self._finalize()

    def wait(self) -> None:
        """Until the server is terminated."""
        while not self._pool.ended.wait(1):  # a signal that another thread took is seen then
            pass

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()


def _stop(pool: _Sessions, link: TrackerLink | None) -> None:
    if link is not None:
        link.close()
    pool.stop()


class _Sessions:
    """The processes of sessions: one waits, the others serve."""

    def __init__(self, sock: socket.socket, config: dict[str, Any], command: list[str]) -> None:
        self.socket, self.config, self.command = sock, config, command
        self.ended = threading.Event()
        self.tell: Callable[[bool], None] = lambda free: None
        self.running: dict[subprocess.Popen[str], str] = {}  # with the sessions' folders
        self._room = threading.Semaphore(_SESSIONS)
        self._lock = threading.Lock()
        threading.Thread(target=self._keep_one_waiting, daemon=True).start()

    def _keep_one_waiting(self) -> None:
        while not self.ended.is_set():
            self._room.acquire()
            process = self._start()
            if process is None:
                return
            line = process.stdout.readline() if process.stdout is not None else ""
            if line:
                self.tell(False)
            threading.Thread(
                target=self._until_end, args=(process, bool(line)), daemon=True
            ).start()
            if not line and self.ended.wait(0.5):  # a process that did not start is tried again
                return

    def _start(self) -> subprocess.Popen[str] | None:
        fd = self.socket.fileno()
        root = str(Path(__file__).resolve().parents[3])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        hidden = {k: v for k, v in os.environ.items() if k != "LOOPWRIGHT_RPC_SECRET"}
        with self._lock:
            if self.ended.is_set():
                return None
            folder = tempfile.mkdtemp(prefix="loopwright-rpc-")
            process = subprocess.Popen(
                [*self.command, "-m", f"{__package__}.session", str(fd)], pass_fds=[fd], text=True,
                env={**hidden, "PYTHONPATH": path}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            self.running[process] = folder
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({**self.config, "folder": folder}) + "\n")
            process.stdin.flush()
        except OSError:
            pass  # it has ended, which its output shows
        return process

    def _until_end(self, process: subprocess.Popen[str], served: bool) -> None:
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        folder = self.running.get(process)  # forgotten once it is gone: `stop` may end this thread
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        with self._lock:
            self.running.pop(process, None)
        self._room.release()
        if served and not self.ended.is_set():
            self.tell(True)

    def stop(self) -> None:
        with self._lock:
            self.ended.set()
            processes, self.running = self.running, {}
            self.socket.close()
        for process in processes:
            process.kill()
        for process, folder in processes.items():
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)
