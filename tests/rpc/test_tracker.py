"""The tracker: servers by name, queues, priorities, servers that go."""

from __future__ import annotations

import threading
import time

import pytest

from loopwright import rpc
from loopwright.rpc.message import PeerError

from . import functions

pytest.importorskip("websockets")
FUNCTIONS = functions.__name__


@pytest.fixture
def tracker():
    with rpc.Tracker(port=0, secret="s") as made:
        yield made


def served(tracker, key, **options):
    where = (tracker.host, tracker.port)
    return rpc.Server(
        port=0, tracker_addr=where, key=key, secret="s", modules=[FUNCTIONS], **options
    )


def until(condition):
    for _ in range(300):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not come to be in 30 s")


def test_request_and_summary(tracker):
    client = rpc.connect_tracker(tracker.host, tracker.port, secret="s")
    with served(tracker, "a") as server, served(tracker, "b"):
        until(lambda: set(client.summary()["queue_info"]) == {"a", "b"})
        with client.request("a") as remote:
            assert remote.get_function("test.rpc.echo")("x") == "x"
            assert client.summary()["queue_info"]["a"] == {"free": 0, "pending": 0}
            assert client.summary()["queue_info"]["b"] == {"free": 1, "pending": 0}
            assert f"{server.host}:{server.port}" in client.text_summary()
        until(lambda: client.summary()["queue_info"]["a"]["free"] == 1)
        assert client.request_and_run("b", lambda r: r.listdir()) == []
    until(lambda: client.summary()["queue_info"] == {})


def test_who_waits_is_served_by_priority(tracker):
    client = rpc.connect_tracker(tracker.host, tracker.port, secret="s")
    order = []

    def ask(name, priority):
        with client.request("a", priority):
            order.append(name)

    with served(tracker, "a"):
        until(lambda: "a" in client.summary()["queue_info"])
        first = client.request("a")
        threads = []
        for name, priority in (("low", 1), ("high", 5)):
            threads.append(threading.Thread(target=ask, args=(name, priority)))
            threads[-1].start()
            count = len(threads)
            until(lambda: client.summary()["queue_info"]["a"]["pending"] == count)  # noqa: B023
        first.close()
        for thread in threads:
            thread.join(60)
    assert order == ["high", "low"]


def test_who_waits_and_goes_is_forgotten(tracker):
    client = rpc.connect_tracker(tracker.host, tracker.port, secret="s")
    with pytest.raises(PeerError, match="does not answer"):
        client._ask(0.5, do="request", key="a", priority=1)
    until(lambda: client.summary()["queue_info"] == {})


def test_errors(tracker):
    with pytest.raises(PeerError, match="the secret is wrong"):
        rpc.connect_tracker(tracker.host, tracker.port, secret="t")
    with pytest.raises(PeerError, match="a secret is needed"):
        rpc.Server(port=0, tracker_addr=(tracker.host, tracker.port), key="a")
    client = rpc.connect_tracker(tracker.host, tracker.port, secret="s")
    with served(tracker, "a"):
        until(lambda: "a" in client.summary()["queue_info"])
        with pytest.raises(PeerError, match="has ended"):
            client.request_and_run("a", lambda r: r.get_function("test.rpc.crash")(), max_retry=2)
    tracker.terminate()
    with pytest.raises(PeerError, match="cannot connect"):
        client.summary()


def test_a_server_that_lies_about_its_place(tracker):
    client = rpc.connect_tracker(tracker.host, tracker.port, secret="s")
    with served(tracker, "a", custom_addr="127.0.0.2") as server:
        until(lambda: "a" in client.summary()["queue_info"])
        assert client.summary()["server_info"][0]["addr"] == ["127.0.0.2", server.port]
        with pytest.raises(PeerError, match="no server 'a' could be reached"):
            client.request("a", max_retry=1)
