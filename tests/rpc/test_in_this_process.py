"""Servers, sessions and their programs without a network: parts that otherwise run in other processes."""

from __future__ import annotations

import io
import itertools
import json
import os
import pickle
import signal
import socket
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from loopwright import rpc
from loopwright.rpc import __main__ as program
from loopwright.rpc import client, link, session, tracker
from loopwright.rpc.message import PeerError, pack, unpack
from loopwright.rpc.server import Server, _Sessions, listen
from loopwright.runtime import cpu, nd, register_func
from loopwright.runtime.packed_func import remove_global_func


class Peer:
    """The other side of a connection: what comes from it, then its end."""

    peer = "there"

    def __init__(self, *comes):
        self.comes, self.sent, self.closed = list(comes), [], []

    def receive(self, timeout=None):
        if not self.comes:
            raise PeerError("the end")
        return self.comes.pop(0)

    receive_json = receive

    def send(self, data):
        self.sent.append(data)

    def send_json(self, **values):
        self.sent.append(values)

    def close(self, *why):
        self.closed.append(why)


@pytest.fixture
def ends(monkeypatch):
    """The codes with which the process would have ended."""
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    return codes


@pytest.fixture
def timers(monkeypatch):
    """(seconds, function, arguments) of timers that were started."""
    started = []

    class Timer:
        def __init__(self, seconds, act, args):
            self.what = (seconds, act, args)

        def start(self):
            started.append(self.what)

    monkeypatch.setattr(threading, "Timer", Timer)
    return started


def worker(tmp_path, key=""):
    made = session.Worker.__new__(session.Worker)
    made.config = {"key": key, "secret": "", "folder": tmp_path}
    made._in_session, made.closed = threading.Lock(), []
    made.server = SimpleNamespace(socket=SimpleNamespace(close=lambda: made.closed.append(1)))
    return made


@pytest.mark.parametrize(
    ("asked", "own", "taken", "answer"),
    [
        ("", "", False, {"ready": True}),
        ("a", "a", False, {"ready": True}),
        ("", "a", False, {"ready": True}),
        ("b", "", False, {"ready": True}),
        (None, "a", False, {"ready": True}),
        ("b", "a", False, {"refused": "this server is called 'a'"}),
        ("b", "a", True, {"refused": "this server is called 'a'"}),
        ("a", "a", True, {"busy": True}),
    ],
)
def test_who_is_let_in(asked, own, taken, answer, monkeypatch, tmp_path, ends, capfd):
    about = {} if asked is None else {"key": asked}
    monkeypatch.setattr(session, "greet", lambda client, secret: about)
    made, peer = worker(tmp_path, own), Peer(pack({"do": "listdir"}))
    if taken:
        assert made._in_session.acquire(blocking=False)
    made._handle(peer)
    served = "ready" in answer
    assert peer.sent[0] == answer and len(peer.sent) == 1 + served
    if served:
        assert unpack(peer.sent[1])[0]["names"] == []
    assert ends == [0] * served and made.closed == [1] * served
    assert capfd.readouterr().out == "taken\n" * served


def test_who_does_not_greet_is_told_of(monkeypatch, tmp_path, ends, capfd):
    def greet(client, secret):
        raise PeerError("no greeting")

    monkeypatch.setattr(session, "greet", greet)
    worker(tmp_path)._handle(Peer())
    assert capfd.readouterr().err == "loopwright.rpc: no greeting\n" and ends == []


@pytest.mark.parametrize(
    ("seconds", "limited"), [(0, False), (1, True), (0.5, True), (-1, False), ("5", False)]
)
def test_the_time_of_a_session(seconds, limited, tmp_path, ends, timers):
    peer = Peer()
    worker(tmp_path)._serve(peer, {"session_timeout": seconds})
    assert timers == [(seconds, session._time_out, [peer, seconds])] * limited
    timers.clear()
    session._time_out(peer, 2.5)
    assert timers == [(2, os._exit, [0])] and peer.closed == [(1000, "session_timeout of 2.5 s")]


def test_the_program_of_a_session(monkeypatch, ends):
    config = {"modules": ["tests.rpc.functions"], "libraries": ["libc.so.6"], "key": "k"}
    made, watched = [], threading.Event()

    class Watched(io.StringIO):
        def read(self, *args):
            watched.set()
            return super().read(*args)

    def worker(sock, given):
        made.append((sock, given))
        return SimpleNamespace(server=SimpleNamespace(serve_forever=lambda: made.append("served")))

    monkeypatch.setattr(sys, "stdin", Watched(json.dumps(config) + "\n"))
    monkeypatch.setattr(sys, "argv", ["session", "7"])
    monkeypatch.setattr(session.socket, "socket", lambda fileno: ("socket", fileno))
    monkeypatch.setattr(session, "Worker", worker)
    monkeypatch.setattr(session.ctypes, "CDLL", lambda path, mode: made.append((path, mode)))
    with monkeypatch.context() as patch:
        patch.setattr(session, "threading", SimpleNamespace(
            Thread=threading.Thread, Event=lambda: SimpleNamespace(wait=lambda: made.append("wait"))
        ))  # fmt: skip
        session.main()
    assert watched.wait(10)
    mode = session.ctypes.RTLD_GLOBAL
    assert made == [("libc.so.6", mode), (("socket", 7), config), "served", "wait"]


@pytest.mark.parametrize(
    ("given", "kind", "args", "options"),
    [
        ("tracker", "Tracker", ("127.0.0.1", 9090, 9091), {"tls": None}),
        ("tracker --host h --port 5 --tls a b", "Tracker", ("h", 5, 6), {"tls": ["a", "b"]}),
        ("server", "Server", ("127.0.0.1", 9090, 9091),
         {"tracker_addr": None, "key": "", "tls": None}),
        ("server --port 0 --key board --tracker ::1:9190 --tls a b c", "Server", ("127.0.0.1", 0, 1),
         {"tracker_addr": ("::1", 9190), "key": "board", "tls": ["a", "b", "c"]}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", [KeyboardInterrupt, None])
def test_the_program(given, kind, args, options, end, monkeypatch, capsys):
    seen, signals = [], {}

    class Serving:
        host, port = "there", 1

        def __init__(self, *args, **options):
            seen.append((args, options))

        def wait(self):
            seen.append("wait")
            if end is not None:
                raise end

        def terminate(self):
            seen.append("end")

    monkeypatch.setattr(program, kind, Serving)
    monkeypatch.setattr(sys, "argv", ["rpc", *given.split()])
    monkeypatch.setattr(signal, "signal", signals.__setitem__)
    program.main()
    assert seen == [(args, options), "wait", "end"]
    assert capsys.readouterr().out == f"{given.split()[0]} on there:1\n"
    with pytest.raises(SystemExit) as ended:
        signals[signal.SIGTERM](15, None)
    assert ended.value.code == 0


def test_waiting_for_the_end():
    waits = iter([False, False, True])
    made = Server.__new__(Server)
    made._pool = SimpleNamespace(ended=SimpleNamespace(wait=lambda seconds: next(waits)))
    made.wait()
    assert next(waits, "all") == "all"
    alive, joined = iter([True, True, False]), []
    other = tracker.Tracker.__new__(tracker.Tracker)
    other._thread = SimpleNamespace(is_alive=lambda: next(alive), join=joined.append)
    other.wait()
    assert joined == [1, 1]


def test_free_ports():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        first = taken.getsockname()[1]
        with pytest.raises(
            OSError, match=f"no port is free on 127.0.0.1\n  got: {first} to {first}"
        ):
            listen("127.0.0.1", first, first)
        with listen("127.0.0.1", first, first + 20) as sock:
            assert first < sock.getsockname()[1] < first + 20
    with listen("127.0.0.1", 0, 0) as sock:
        assert sock.family == socket.AF_INET and sock.getsockname()[1] > 0


def test_sessions_that_cannot_start(monkeypatch):
    """A process that ended before it was told anything is no error; after the end none is started."""
    ended = SimpleNamespace(
        ended=threading.Event(), _room=threading.Semaphore(), _start=lambda: None
    )
    _Sessions._keep_one_waiting(ended)  # comes back
    monkeypatch.setattr(_Sessions, "_keep_one_waiting", lambda self: None)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        made = _Sessions(sock, {"key": "x" * (1 << 17)}, ["/bin/false"])
        process = made._start()
        assert list(made.running) == [process] and os.path.isdir(made.running[process])
        folder = made.running[process]
        told = []
        made.tell = told.append
        made._until_end(process, False)
        assert not made.running and not os.path.exists(folder) and told == []
        made.stop()
        assert made._start() is None
        assert made.ended.is_set()


def test_a_link_is_opened_again(monkeypatch):
    monkeypatch.setattr(link, "_AGAIN_SECONDS", 0)
    opened = iter([Peer("hello"), PeerError("not yet"), last := Peer()])
    made = link.TrackerLink.__new__(link.TrackerLink)
    count = itertools.count()

    def again():
        if next(count) == 3:
            made._closed.set()
        peer = next(opened, last)
        if isinstance(peer, PeerError):
            raise peer
        return peer

    made._closed, made._open = threading.Event(), again
    made._channel = made._open()
    made._keep()
    assert made._channel is last and next(opened, None) is None
    made.tell(True)
    made.close()
    assert last.sent == [{"free": True}] and last.closed == [()]


def test_a_server_whose_client_went_is_free_again():
    end = threading.Event()

    class Waits(Peer):
        def receive(self, timeout=None):
            end.wait()

    class Gone(Waits):
        def send_json(self, **values):
            super().send_json(**values)
            raise PeerError("gone")

    desk = tracker._Desk()
    offer = tracker._Offer("a", "host", 7)
    desk.offers.append(offer)
    for kind, free in ((Gone, True), (Waits, False)):
        peer = kind({"do": "request", "key": "a", "priority": "3"})
        if free:
            with pytest.raises(PeerError, match="gone"):
                tracker._answer(desk, peer)
        else:
            tracker._answer(desk, peer)
        assert offer.free == free and peer.sent == [{"host": "host", "port": 7}]
    end.set()


@pytest.mark.parametrize(
    ("states", "late", "why"),
    [
        ([{}, {"busy": True}, {"ready": True}], False, None),
        ([{"busy": True}], True, "refuses: all sessions are taken"),
        ([{"refused": "no"}], False, "refuses: no"),
    ],
)
def test_a_server_that_is_busy(states, late, why, monkeypatch):
    peers, slept = [Peer(state) for state in states], []
    left, asked = iter(peers), []

    def opened(*args):
        asked.append(args)
        return next(left), {}

    monkeypatch.setattr(client, "open_channel", opened)
    now = itertools.count(0, 100 if late else 0)
    clock = SimpleNamespace(sleep=slept.append, monotonic=lambda: next(now))
    monkeypatch.setattr(client, "time", clock)
    if why is None:
        rpc.connect("host", 7, "board", 3, secret="s", tls=True)
        assert slept == [0.1, 0.1] and [p.closed for p in peers] == [[()], [()], []]
    else:
        with pytest.raises(PeerError, match=why):
            rpc.connect("host", 7, "board", 3, secret="s", tls=True)
        assert slept == [] and peers[0].closed == [()]
    about = {"key": "board", "session_timeout": 3.0}
    assert asked == [("host", 7, "s", True, about)] * len(peers)


def test_values_of_numpy_cross():
    with rpc.LocalSession() as remote:
        results = iter([np.float32(1.5), np.array(3), np.arange(3), np.bool_(True), np.arange(0)])
        register_func("test.rpc.next", lambda: next(results))
        try:
            call = remote.get_function("test.rpc.next")
        finally:
            remove_global_func("test.rpc.next")
        assert call() == 1.5
        assert call().numpy().tolist() == 3
        there = call()
        assert there.numpy().tolist() == [0, 1, 2]
        assert call() is True and call().shape == (0,)
        again = pickle.loads(pickle.dumps(there))
        assert again.numpy().tolist() == [0, 1, 2] and again.device == cpu()
        with pytest.raises(ValueError, match="in the memory of another machine"):
            there.__tvm_ffi_object__()
        one = nd.array(np.array([7]), remote.cpu())
        assert (one.item(), int(one), float(one), bool(one)) == (7, 7, 7.0, True)
        assert there[1] == 1 and there[1:].numpy().tolist() == [1, 2]
        assert np.asarray(there, "float32").dtype == np.float32
        assert repr(there).startswith("<Tensor[3], remote cpu:0 of ")
