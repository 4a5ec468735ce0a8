"""Messages and requests without a connection: what is taken, and what is refused."""

from __future__ import annotations

import ssl
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from loopwright.rpc import channel, message, tracker
from loopwright.rpc.message import PeerError, pack, unpack
from loopwright.rpc.remote import Link, RemoteDevice, RemoteFunction, RemoteModule, RemoteTensor
from loopwright.rpc.server import Server
from loopwright.rpc.serving import Serving
from loopwright.runtime import Module, ShapeTuple, Tensor, cpu, register_func, tensor
from loopwright.runtime.packed_func import remove_global_func


def test_messages():
    data = pack({"do": "x"}, b"abc", bytearray(b""), memoryview(b"de"))
    head, blobs = unpack(data)
    assert head == {"do": "x", "sizes": [3, 0, 2]}
    assert [bytes(b) for b in blobs] == [b"abc", b"", b"de"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("text", "not a message"),
        (b"\0\0\0", "not a message"),
        (b"\0\0\0\0", "not JSON"),
        (b"\1\0\0\0", "longer than the message\n  got: 5 bytes"),
        (b"\2\0\0\0[]", "a JSON object\n  got: list"),
        (b"\2\0\0\0{}", "lists the sizes of its blobs$"),
        (b'\x0e\0\0\0{"sizes":[-1]}x', "lists the sizes"),
        (b'\x0d\0\0\0{"sizes":"a"}', "lists the sizes|not JSON|longer"),
        (b'\x0d\0\0\0{"sizes":[2]}x', "another length than its head says\n  got: 18 bytes, not 19"),
        (b'\x0d\0\0\0{"sizes":[0]}x', "got: 18 bytes, not 17"),
    ],
)
def test_what_is_no_message(data, why):
    with pytest.raises(PeerError, match=why):
        unpack(data)


def test_the_size_of_messages(monkeypatch):
    monkeypatch.setattr(message, "_HEAD_LIMIT", 30)
    monkeypatch.setattr(message, "LIMIT", 60)
    head = {"k": "x" * 8}  # with the sizes, 30 bytes
    assert len(pack(head)) == 34
    with pytest.raises(ValueError, match="too large\n  got: 31 bytes"):
        pack({"k": "x" * 9})
    assert len(pack({}, b"x" * 41)) == 60
    with pytest.raises(ValueError, match="a message between machines is too large"):
        pack({}, b"x" * 42)
    assert unpack(pack(head))[0]["k"] == "x" * 8
    monkeypatch.setattr(message, "_HEAD_LIMIT", 29)
    with pytest.raises(PeerError, match="longer than the message\n  got: 34 bytes"):
        unpack((30).to_bytes(4, "little") + b" " * 30)


@pytest.fixture
def link(tmp_path):
    """Requests that are answered here; `link.serving` keeps the objects."""
    serving = Serving(tmp_path)
    made = Link(serving.answer, "there")
    made.serving = serving
    yield made


def test_values_cross(link):
    register_func("test.protocol.echo", lambda *args: list(args))
    try:
        number = link.request("function", name="test.protocol.echo")[0]["function"]
    finally:
        remove_global_func("test.protocol.echo")
    echo = RemoteFunction(link, number, "")
    values = [None, True, 2, 2.5, "text", ShapeTuple((1, 2)), [1, [2]], np.int8(3), np.float32(0.5)]
    assert echo(*values) == [*values[:-2], 3, 0.5]
    assert repr(echo) == "<function 1 of there>"
    assert repr(RemoteFunction(link, 77, "f")) == "<function f of there>"
    there = RemoteDevice(link, "cpu").put(np.float32([[1, 2], [3, 4]]), "float32")
    (back,) = echo(there)
    assert isinstance(back, RemoteTensor) and back.numpy().tolist() == [[1, 2], [3, 4]]
    assert (back.strides, back.ndim, back.size, back.nbytes) == ((2, 1), 2, 4, 16)
    with pytest.raises(PeerError, match="a value of no known kind\n  got: .*'device': 1"):
        link.arrived(link.departing(cpu(1)))
    (function,) = echo(echo)
    assert function(5) == [5]
    for wrong in (np.ones(2), {1: 2}, object()):
        with pytest.raises(TypeError, match="does not cross between machines"):
            echo(wrong)
    with pytest.raises(PeerError, match="a value of no known kind"):
        link.arrived({"other": 3})


def test_tensors_there(link, monkeypatch):
    monkeypatch.setattr("loopwright.rpc.remote.CHUNK", 5)
    monkeypatch.setattr("loopwright.rpc.serving.CHUNK", 7)
    device = RemoteDevice(link, "cpu")
    values = np.arange(6, dtype="int32").reshape(2, 3)
    there = device.put(values, "int32")
    np.testing.assert_array_equal(there.numpy(), values)
    assert there[1].numpy().tolist() == [3, 4, 5] and there[1, 2] == 5
    assert np.asarray(there).shape == (2, 3) and there.device == device
    one = device.put(np.array([7.5]), "float64")
    assert (one.item(), float(one), int(one), bool(one)) == (7.5, 7.5, 7, True)
    assert not bool(device.put(np.array(0), "int8")) and device.put(np.array(3), "int8").shape == ()
    again = there.copyto(device)
    assert again.number != there.number and again.numpy().tolist() == values.tolist()
    here = there.copyto(cpu())
    assert type(here) is Tensor and there.copyto(tensor(values * 0)).numpy()[1, 2] == 5
    assert there.copyfrom(again).numpy().tolist() == values.tolist()
    assert repr(there) == "<Tensor[2, 3], remote cpu:0 of there, int32>"
    assert device != cpu() and device == RemoteDevice(link, "cpu") and hash(device) == hash(cpu())
    assert device != RemoteDevice(link, "cpu", 1) and device != RemoteDevice(Link(len, ""), "cpu")
    assert not RemoteDevice(link, "cuda").exist and device.exist
    with pytest.raises(ValueError, match="only the CPU of the other machine runs code"):
        RemoteDevice(link, "cuda").empty((2,), "int8")


def answered(link: Link, do: Any, *blobs: bytes, **values: Any) -> str:
    """The message of an error."""
    return unpack(link.serving.answer(pack({"do": do, **values}, *blobs)))[0].get("message", "")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (("nothing",), "no such request\n  got: 'nothing'"),
        ((3,), "no such request\n  got: 3"),
        (("read",), "missing"),
        (("read", {"tensor": 9, "at": 0}), "no such object\n  got: 9"),
        (("read", {"tensor": "a", "at": 0}), "no such object\n  got: 'a'"),
        (("call", {"function": 1, "args": []}), "no such object"),
        (("empty", {"shape": [2, -1], "dtype": "int8"}), "a shape has whole numbers"),
        (("empty", {"shape": [2.5], "dtype": "int8"}), "a shape has whole numbers"),
        (("empty", {"shape": [2], "dtype": "int4"}), "tensors of parts of bytes"),
        (("upload", {"name": "a/b", "at": 0}, b"x"), "a plain name"),
        (("upload", {"name": "..", "at": 0}, b"x"), "a plain name"),
        (("download", {"name": "none", "at": 0}), "No such file"),
    ],
)
def test_requests_that_are_wrong(link, request_, message):
    name, values, *blobs = (*request_, {})[:2] + request_[2:]
    assert message in answered(link, name, *blobs, **values)


def test_bytes_of_tensors(link):
    number = link.request("empty", shape=[4], dtype="int8")[0]["tensor"]
    assert answered(link, "write", b"abcd", tensor=number, at=0) == ""
    assert answered(link, "write", b"z", tensor=number, at=3) == ""
    assert bytes(link.request("read", tensor=number, at=1)[1][0]) == b"bcz"
    for at, blob in ((1, b"abcd"), (-1, b"a"), (4, b"a")):
        assert "do not fit the tensor" in answered(link, "write", blob, tensor=number, at=at)
    assert answered(link, "write", b"", tensor=number, at=4) == ""
    function = link.serving._keep(len)
    assert "no such object" in answered(link, "read", tensor=function, at=0)
    for value in ({"a": 1, "b": 2}, {"other": 1}, {}):
        assert "no known kind" in answered(link, "call", function=function, args=[value])
    link.serving._objects[99] = lambda *a: {1: 2}
    assert "a mapping does not cross" in answered(link, "call", function=99, args=[])
    link.serving._objects[99] = lambda *a: object()
    assert "this value does not cross" in answered(link, "call", function=99, args=[])
    link.serving._objects[99] = lambda *a: a[0].index
    head = unpack(
        link.serving.answer(pack({"do": "call", "function": 99, "args": [{"device": 3}]}))
    )[0]
    assert head["result"] == 3
    long = lambda *a: (_ for _ in ()).throw(ValueError("x" * 20_000))  # noqa: E731
    link.serving._objects[99] = long
    assert answered(link, "call", function=99, args=[]) == "x" * 10_000
    gone = pack({"do": "listdir", "drop": [99, function, 12345]})
    assert unpack(link.serving.answer(gone))[0]["names"] == [] and 99 not in link.serving._objects


def test_files_in_parts(link, tmp_path):
    for at, part in ((0, b"abc"), (3, b"de"), (1, b"X")):
        link.request("upload", part, name="f", at=at)
    assert bytes(link.request("download", name="f", at=1)[1][0]) == b"Xcde"
    link.request("upload", b"new", name="f", at=0)
    assert (tmp_path / "f").read_bytes() == b"new"
    link.request("remove", name="f")
    link.request("remove", name="f")
    assert link.request("listdir")[0]["names"] == []


def test_modules_there(link, monkeypatch):
    calls: list[Any] = []
    module = Module({"f": lambda x: calls.append(x) or x + 1, "g": lambda x: calls.append("g")})
    monkeypatch.setattr("loopwright.rpc.serving.load_module", lambda path: module)
    made = RemoteModule(link, link.request("module", file="a.so")[0])
    assert made.function_names() == ["f", "g"] and made.entry_name == "main"
    assert "f" in made and "h" not in made and made.input_names("f") == []
    assert made["f"] is made["f"] and made["f"](2) == 3
    with pytest.raises(AttributeError, match="no function 'main'; it has: f, g"):
        made(2)
    calls.clear()
    result = made.time_evaluator("f", number=2, repeat=2, f_preproc="g")(5)
    assert len(result.results) == 2 and calls == [5, "g", 5, 5, "g", 5, 5]
    one = Module({"only": lambda: 7})
    monkeypatch.setattr("loopwright.rpc.serving.load_module", lambda path: one)
    made = RemoteModule(link, link.request("module", file="a.so")[0])
    assert made.entry_name == "only" and made() == 7 and repr(made) == "<module of there: only>"
    with pytest.raises(TypeError, match="a function of the other machine\n  got: function"):
        made.time_evaluator("only", f_preproc=lambda: None)


def test_a_peer_that_sends_other_bytes():
    tensor_of = {"tensor": 1, "shape": [4], "dtype": "int8"}
    for part in (b"", b"abcde"):
        link = Link(lambda data, part=part: pack({}, part), "there")
        with pytest.raises(PeerError, match=f"there sent another array\n  got: {len(part)}"):
            link.arrived(tensor_of).numpy()
    link = Link(lambda data: pack({}, b"ab"), "there")
    assert link.arrived(tensor_of).numpy().tobytes() == b"abab"


@pytest.mark.parametrize(
    ("host", "here"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("example.org", False), ("10.0.0.1", False)],
)  # fmt: skip
def test_hosts(host, here):
    assert channel.is_loopback(host) is here
    channel.check_safe(host, "secret", None)
    proven, open_ = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    proven.verify_mode = ssl.CERT_REQUIRED
    channel.check_safe(host, "", proven)
    for context in (None, open_):
        if here:
            channel.check_safe(host, "", context)
            continue
        with pytest.raises(ValueError, match="off this machine, rpc needs a secret"):
            channel.check_safe(host, "", context)


def test_files_of_tls():
    for wrong in (True, "a", ("a",), ("a", "b", "c", "d")):
        with pytest.raises(ValueError, match="a server's tls is its files"):
            channel.server_context(wrong)
    for wrong in (("a", "b"), ("a", "b", "c", "d")):
        with pytest.raises(ValueError, match="a client's tls is True or files"):
            channel.client_context(wrong)
    with pytest.raises(ValueError, match="a server's tls is files"):
        Server("127.0.0.1", tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    assert channel.client_context(False) is None and channel.server_context(None) is None
    assert channel.client_context(True).verify_mode == ssl.CERT_REQUIRED


def test_other_versions_and_broken_connections(monkeypatch):
    for hello in ({"rpc": channel.VERSION + 1, "nonce": "a"}, {"rpc": channel.VERSION, "nonce": 1}):
        peer = SimpleNamespace(peer="there", receive_json=lambda seconds, hello=hello: hello)
        with pytest.raises(
            PeerError, match="there speaks another version\n  got: .\n  instead: use one"
        ):
            channel.answer_greeting(peer, "", {})

    def broken(data):
        raise OSError("no route")

    connection = channel.Channel(SimpleNamespace(send=broken), "there")
    with pytest.raises(PeerError, match="the connection to there failed\n  got: no route"):
        connection.send("x")
    monkeypatch.setitem(sys.modules, "websockets.sync.client", None)
    with pytest.raises(PeerError, match="needs the package websockets\n  instead: pip install"):
        connection.send("x")


def test_offers_are_promised_for_a_while(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(tracker.time, "monotonic", lambda: clock[0])
    offer = tracker._Offer("k", "host", 1)
    assert offer.hand_out() and not offer.free
    clock[0] += 59.9
    assert not offer.hand_out()
    clock[0] += 0.1
    assert offer.hand_out() and not offer.hand_out()


def test_who_waits_is_served_by_priority():
    desk = tracker._Desk()
    gone = threading.Event()
    desk.offers += [tracker._Offer("a", "h", 1), tracker._Offer("b", "h", 2)]
    assert desk.take("b", 1, gone).port == 2 and desk.waiting == []
    assert desk.summary() == {
        "server_info": [
            {"key": "a", "addr": ["h", 1], "free": True},
            {"key": "b", "addr": ["h", 2], "free": False},
        ],
        "queue_info": {"a": {"free": 1, "pending": 0}, "b": {"free": 0, "pending": 0}},
    }
    desk.waiting.append(("c", -5, -1))  # with a higher priority, and one for another
    assert desk.summary()["queue_info"]["c"] == {"free": 0, "pending": 1}
    assert desk.take("a", 1, gone).port == 1
    gone.set()
    assert desk.take("a", 1, gone) is None


def test_the_tables_of_a_tracker(monkeypatch):
    told = {
        "server_info": [{"key": "a", "addr": ["h", 1]}, {"key": "a", "addr": ["h", 2]}],
        "queue_info": {"a": {"free": 1, "pending": 3}},
    }
    monkeypatch.setattr(tracker.TrackerSession, "_ask", lambda self, *a, **k: told)
    shown = tracker.TrackerSession(("h", 1)).text_summary().splitlines()
    assert shown[0] == "Server List" and shown[2] == f"{'h:1':<28}a"
    assert shown[4:] == [
        "",
        "Queue Status",
        f"{'key':<16}{'total':<8}{'free':<8}pending",
        f"{'a':<16}{'2':<8}{'1':<8}3",
    ]


def test_how_often_servers_are_asked(monkeypatch):
    asked = []

    def ask(self, *a, **question):
        asked.append(question)
        return {"host": "h", "port": 1}

    def connect(*args, **options):
        raise PeerError("gone\nmore")

    monkeypatch.setattr(tracker.TrackerSession, "_ask", ask)
    monkeypatch.setattr(tracker, "connect", connect)
    session = tracker.TrackerSession(("h", 1))
    for most, times in ((None, 5), (2, 2), (0, 1)):
        asked.clear()
        options = {} if most is None else {"max_retry": most}
        with pytest.raises(
            PeerError, match="no server 'k' could be reached\n  got: gone(; gone)*$"
        ):
            session.request("k", **options)
        assert asked == [{"do": "request", "key": "k", "priority": 1}] * times
    runs = []

    def run(remote):
        runs.append(remote)
        raise PeerError("ended")

    monkeypatch.setattr(tracker, "connect", lambda *a, **k: Session())
    for most, times in ((None, 2), (3, 3), (0, 1)):
        runs.clear()
        options = {} if most is None else {"max_retry": most}
        with pytest.raises(PeerError, match="ended"):
            session.request_and_run("k", run, **options)
        assert len(runs) == times


class Session:
    """A session of which nothing is asked."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """The end."""
