"""Peers that are wrong, broken, dead or gone: clear errors, never a hang."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from loopwright import rpc
from loopwright.rpc import channel, message
from loopwright.rpc.message import PeerError, pack, unpack

from . import functions

pytest.importorskip("websockets")
FUNCTIONS = functions.__name__
SOURCES = Path(rpc.__file__).parent


@pytest.fixture(scope="module")
def server():
    with rpc.Server(port=0, secret="open sesame", modules=[FUNCTIONS]) as made:
        yield made


def working(server, **options):
    """The server lets a client in that knows the secret."""
    with rpc.connect(server.host, server.port, secret="open sesame", **options) as remote:
        return remote.get_function("test.rpc.echo")(5) == 5


def websocket(server):
    """A connection that speaks as the test likes."""
    from websockets.sync.client import connect

    return connect(f"ws://{server.host}:{server.port}", proxy=None)


def closed():
    from websockets.exceptions import ConnectionClosed

    return ConnectionClosed


def test_the_secret(server, monkeypatch):
    assert working(server)
    with pytest.raises(PeerError, match="refuses: the secret is wrong"):
        rpc.connect(server.host, server.port, secret="other")
    with pytest.raises(PeerError, match="refuses: a secret is needed\n  instead: pass secret="):
        rpc.connect(server.host, server.port)
    monkeypatch.setenv("LOOPWRIGHT_RPC_SECRET", "open sesame")
    rpc.connect(server.host, server.port).close()
    assert working(server)


def test_a_server_proves_that_it_knows_the_secret():
    with rpc.Server(port=0) as impostor, pytest.raises(PeerError, match="got: no proof of it"):
        rpc.connect(impostor.host, impostor.port, secret="open sesame")


def test_the_secret_does_not_cross(server):
    with websocket(server) as raw:
        hello = json.loads(raw.recv(timeout=30))
        assert set(hello) == {"rpc", "nonce", "secret"}
        raw.send(json.dumps({"nonce": "1", "proof": "é" * 64}))
        assert json.loads(raw.recv(timeout=30)) == {"error": "the secret is wrong"}
        with pytest.raises(closed()):
            raw.recv(timeout=30)


def test_off_this_machine_strangers_are_kept_out():
    with pytest.raises(ValueError, match="off this machine, rpc needs a secret"):
        rpc.Server("0.0.0.0", 0)
    with pytest.raises(ValueError, match="off this machine, rpc needs a secret"):
        rpc.Tracker("0.0.0.0", 0)
    with pytest.raises(ValueError, match="got: host '192.0.2.1'"):
        rpc.connect("192.0.2.1", 9090)
    with rpc.Server("0.0.0.0", 0, secret="s") as made:
        rpc.connect("127.0.0.1", made.port, secret="s").close()


def test_nobody_is_there():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(PeerError, match=r"cannot connect to 127.0.0.1:\d+\n  got: Connection"):
            rpc.connect("127.0.0.1", free.getsockname()[1])


@pytest.mark.parametrize("content", [b"\x00" * 4096, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01"])
def test_garbage_before_the_greeting(server, content):
    with socket.create_connection((server.host, server.port), timeout=30) as raw:
        raw.sendall(content)
        raw.shutdown(socket.SHUT_WR)
        while raw.recv(4096):
            pass
    assert working(server)


def test_a_server_that_is_none():
    with socket.create_server(("127.0.0.1", 0)) as other:

        def speak():
            client, _ = other.accept()
            client.recv(4096)
            client.sendall(b"220 mail ready\r\n")
            client.close()

        threading.Thread(target=speak, daemon=True).start()
        with pytest.raises(PeerError, match="cannot connect to"):
            rpc.connect("127.0.0.1", other.getsockname()[1])


@pytest.mark.parametrize("content", ["text", "[]", "{", "{}", json.dumps({"nonce": "x" * 70_000})])
def test_garbage_as_greeting(server, content):
    with websocket(server) as raw:
        raw.recv(timeout=30)
        raw.send(content)
        with pytest.raises(closed()):
            while True:
                raw.recv(timeout=30)
    assert working(server)


GARBAGE = [
    b"",
    b"abc",
    b"\xff\xff\xff\xff",
    b"\x02\x00\x00\x00{}",
    b"\x02\x00\x00\x00[]",
    b"\x05\x00\x00\x00" + b"[" * 5,
    (100_000).to_bytes(4, "little") + b"[" * 100_000,
    pack({"do": "call"})[:-1],
    pack({"do": "call"}) + b"x",
    pack({"do": "upload"}, b"content") + b"x",
]


@pytest.mark.parametrize("content", GARBAGE, ids=range(len(GARBAGE)))
def test_what_is_no_message(content):
    with pytest.raises(PeerError):
        unpack(content)
    with rpc.LocalSession() as session:
        assert "error" in unpack(session._serving.answer(content))[0]


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"do": "nothing"}, "no such request"),
        ({"do": ["call"]}, "no such request"),
        ({"do": "__init__"}, "no such request"),
        ({"do": "call"}, "missing"),
        ({"do": "call", "function": 99, "args": []}, "no such object"),
        ({"do": "call", "function": "os.system", "args": []}, "no such object"),
        ({"do": "read", "tensor": None, "at": 0}, "no such object"),
        ({"do": "empty", "shape": [-1], "dtype": "float32"}, ""),
        ({"do": "empty", "shape": [1], "dtype": "object"}, ""),
        ({"do": "download", "name": "../../etc/passwd", "at": 0}, "plain name"),
        ({"do": "call", "function": 1, "args": [{"pickle": "gASVBQAAAA=="}]}, "no such object"),
    ],
)
def test_requests_that_cannot_be(request_, said):
    with rpc.LocalSession() as session:
        head, _ = unpack(session._serving.answer(pack(request_)))
        assert said in head["message"]


def test_writes_stay_in_their_tensor():
    with rpc.LocalSession() as session:
        number = session.link.request("empty", shape=[2], dtype="int8")[0]["tensor"]
        for at, content in ((0, b"abc"), (2, b"a"), (-1, b"a")):
            with pytest.raises(rpc.RemoteError, match="the bytes do not fit the tensor"):
                session.link.request("write", content, tensor=number, at=at)


def test_a_message_that_is_too_large_ends_the_session_only(server):
    remote = rpc.connect(server.host, server.port, secret="open sesame")
    with pytest.raises(PeerError, match="the connection to 127.0.0.1:.* has ended"):
        remote._channel.send(b"x" * (message.LIMIT + 1))
        remote._channel.receive(timeout=60)
    remote.close()
    assert working(server)


def test_a_crash_ends_the_session_only(server):
    with rpc.connect(server.host, server.port, secret="open sesame") as remote:
        crash = remote.get_function("test.rpc.crash")
        with pytest.raises(PeerError, match="has ended"):
            crash()
        with pytest.raises(PeerError):
            remote.listdir()
    assert working(server)


def forwarded(server, silent):
    """A port that leads to the server, until `silent` is set: then what comes is lost."""
    listening = socket.create_server(("127.0.0.1", 0))

    def pass_on(source, target):
        while data := source.recv(65536):
            if not silent.is_set():
                target.sendall(data)

    def accept():
        near = listening.accept()[0]
        far = socket.create_connection((server.host, server.port))
        for ends in ((near, far), (far, near)):
            threading.Thread(target=pass_on, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listening.getsockname()[1]


def test_a_peer_that_is_silent_is_dead(server, monkeypatch):
    monkeypatch.setitem(channel._OPTIONS, "ping_interval", 0.2)
    monkeypatch.setitem(channel._OPTIONS, "ping_timeout", 1)
    silent = threading.Event()
    port = forwarded(server, silent)
    with rpc.connect("127.0.0.1", port, secret="open sesame") as remote:
        assert remote.listdir() == []
        silent.set()
        with pytest.raises(PeerError, match="has ended\n  got: keepalive ping timeout"):
            remote.listdir()
    assert working(server)


def test_the_folder_of_a_session_goes_with_it(server):
    with rpc.connect(server.host, server.port, secret="open sesame") as remote:
        remote.upload(b"content", "file")
        folders = [*server._pool.running.values()]  # a thread of the server's adds to it
        (folder,) = [f for f in folders if Path(f, "file").exists()]
        with pytest.raises(PeerError):
            remote.get_function("test.rpc.crash")()
    for _ in range(100):
        if not Path(folder).exists():
            return
        time.sleep(0.1)
    raise AssertionError(f"{folder} is still there")


def test_the_time_of_a_session_ends(server):
    options = {"secret": "open sesame", "session_timeout": 1}
    with rpc.connect(server.host, server.port, **options) as remote:
        begin = time.monotonic()
        with pytest.raises(PeerError, match="has ended\n  got: session_timeout of 1 s"):
            remote.get_function("test.rpc.sleep")(30)
        assert time.monotonic() - begin < 20


def test_a_server_that_ends():
    server = rpc.Server(port=0)
    remote = rpc.connect(server.host, server.port)
    server.terminate()
    server.terminate()
    with pytest.raises(PeerError, match="has ended"):
        remote.listdir()
    with pytest.raises(PeerError, match="cannot connect"):
        rpc.connect(server.host, server.port)


def test_names_of_servers():
    with rpc.Server(port=0, key="board") as made:
        rpc.connect(made.host, made.port).close()
        rpc.connect(made.host, made.port, key="board").close()
        with pytest.raises(PeerError, match="refuses: this server is called 'board'"):
            rpc.connect(made.host, made.port, key="other")


def test_options_that_are_not_here():
    with pytest.raises(ValueError, match="rpc.Server has no is_proxy"):
        rpc.Server(is_proxy=True)
    with pytest.raises(ValueError, match="rpc.Server has no server_init_callback"):
        rpc.Server(server_init_callback=print)
    with pytest.raises(ValueError, match="sessions through other sessions"):
        rpc.connect("127.0.0.1", 1, session_constructor_args=["rpc.Connect"])
    with pytest.raises(ValueError, match="a server's tls is its files"):
        rpc.Server(tls=True)


def test_nothing_is_unpickled():
    for path in SOURCES.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "import pickle" not in text and "marshal" not in text, path
        assert "eval(" not in text and "allow_pickle" not in text, path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority with a certificate for 127.0.0.1."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj"]
    files = ["-keyout", "key.pem", "-out", "cert.pem"]
    names = ["/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", *files]
    subprocess.run([*command, *names], cwd=folder, check=True, capture_output=True)
    return str(folder / "cert.pem"), str(folder / "key.pem")


def test_tls(certificates):
    cert, key = certificates
    with rpc.Server(port=0, tls=(cert, key)) as made:
        with rpc.connect(made.host, made.port, tls=cert) as remote:
            assert remote.listdir() == []
        with pytest.raises(PeerError, match="CERTIFICATE_VERIFY_FAILED"):
            rpc.connect(made.host, made.port, tls=True)
        with pytest.raises(PeerError, match="cannot connect to"):
            rpc.connect(made.host, made.port)
    with rpc.Server("0.0.0.0", 0, tls=(cert, key, cert)) as made:
        with rpc.connect("127.0.0.1", made.port, tls=(cert, cert, key)) as remote:
            assert remote.listdir() == []
        with pytest.raises(PeerError):
            rpc.connect("127.0.0.1", made.port, tls=cert)
