"""Connections that are kept, over real sockets: used again while they are open, and never trusted to be."""

import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from support.ports import refusing

from tracelake import kept_connections
from tracelake.kept_connections import KeptConnections, NoAnswer, NotSent

from .answering import Speaker, answer, speaking
from .processes import until

WELL = answer(200, b"{}")
NO_LENGTH = b"HTTP/1.1 200 Said\r\ncontent-type: application/json\r\n\r\n{}"


@pytest.fixture
def closed() -> Iterator[list[KeptConnections]]:
    made: list[KeptConnections] = []
    yield made
    for connections in made:
        connections.close()


def to(speaker: Speaker, closed: list[KeptConnections]) -> KeptConnections:
    closed.append(KeptConnections(speaker.url))
    return closed[-1]


def ask(connections: KeptConnections, *, repeat: bool = False) -> bytes:
    return connections.request("POST", "/", b"question", {}, seconds=30, repeat=repeat).body


def test_a_connection_is_used_again(closed: list[KeptConnections]):
    with speaking(WELL) as speaker:
        connections = to(speaker, closed)
        assert [ask(connections) for _ in range(3)] == [b"{}"] * 3
        assert speaker.connections == 1


def test_what_breaks_on_a_kept_connection_is_repeated_only_where_it_may_be(closed: list[KeptConnections]):
    with speaking(WELL, b"", WELL, b"", WELL) as speaker:
        connections = to(speaker, closed)
        ask(connections)
        with pytest.raises(NoAnswer):
            ask(connections)
        ask(connections)
        assert ask(connections, repeat=True) == b"{}"
        assert len(speaker.requests) == 5


def test_what_breaks_on_a_new_connection_is_not_repeated(closed: list[KeptConnections]):
    with speaking(b"", WELL) as speaker, pytest.raises(NoAnswer):
        ask(to(speaker, closed), repeat=True)
    assert len(speaker.requests) == 1


def test_a_connection_that_the_other_side_closed_is_not_used(closed: list[KeptConnections]):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed.append(connections := KeptConnections(f"http://127.0.0.1:{listener.getsockname()[1]}"))

        def answer_once() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(WELL)

        for _ in range(2):
            server = threading.Thread(target=answer_once)
            server.start()
            assert ask(connections) == b"{}"
            server.join()
            until(lambda: not kept_connections._is_silent(connections._kept[0][0]))


def test_a_connection_that_was_idle_for_long_is_not_used(closed: list[KeptConnections], monkeypatch: pytest.MonkeyPatch):
    with speaking(WELL) as speaker:
        connections = to(speaker, closed)
        ask(connections)
        monkeypatch.setattr(kept_connections, "_IDLE_SECONDS", 0.0)
        ask(connections)
        assert speaker.connections == 2


def test_an_answer_without_a_known_end_is_refused(closed: list[KeptConnections]):
    with speaking(NO_LENGTH) as speaker, pytest.raises(NoAnswer, match="length"):
        ask(to(speaker, closed))


def test_nothing_is_kept_after_the_close(closed: list[KeptConnections]):
    with speaking(WELL) as speaker:
        connections = to(speaker, closed)
        connections.close()
        ask(connections)
        ask(connections)
        assert speaker.connections == 2


def test_a_request_without_a_connection_was_not_sent():
    with refusing() as url, pytest.raises(NotSent):
        ask(KeptConnections(url))


def test_a_request_that_was_sent_once_may_have_arrived(closed: list[KeptConnections], monkeypatch: pytest.MonkeyPatch):
    with refusing() as nobody, speaking(WELL, b"") as speaker:
        connections = to(speaker, closed)
        ask(connections)
        monkeypatch.setattr(connections, "_port", urlsplit(nobody).port)
        with pytest.raises(NoAnswer) as caught:
            ask(connections, repeat=True)
    assert type(caught.value) is NoAnswer
