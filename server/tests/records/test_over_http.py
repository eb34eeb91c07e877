"""Records over HTTP: what a token lets through, what is refused and how, and streams that cost nothing while nothing comes."""

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from support.controls import ControlPlane, fresh_claim_id, served
from support.processes import LONGEST, wait_until

from tracelake.control.access.administration import NewTokenRequest
from tracelake_sdk.access import TokenKind
from tracelake_sdk.client import Client
from tracelake_sdk.errors import Forbidden, OutcomeUnknown, Unauthenticated
from tracelake_sdk.errors.records import RecordRefused, RepositoryUnavailable, TenantMismatch, TooManyTails
from tracelake_sdk.home import HomeFiles
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget, RecordFilters
from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.repository.remote import RemoteRepository

NOTE = Kind(name="note", owner="tests", description="Something was noted.", schema={"type": "object", "required": ["n"]})
TARGET = MetadataTarget(source_id="erp", schema="sales", table="orders")
CONTEXT = MetadataContext(cluster="c", workspace="w", tenant="main")
STREAMS = 200


def note(number: int, target: MetadataTarget = TARGET) -> MetadataRecord:
    return MetadataRecord(target=target, kind="note", payload={"n": number}, produced_at=datetime.now(UTC), producer_id="tests.v1")


def admin_token(control_plane: ControlPlane) -> str:
    return HomeFiles(control_plane.control.settings.home).admin_token() or ""


@pytest.fixture
def remote(control_plane: ControlPlane, api_url: str) -> Iterator[RemoteRepository]:
    with RemoteRepository(api_url, admin_token(control_plane), tenant="main") as repository:
        repository.register(NOTE)
        yield repository


def service_token(control_plane: ControlPlane, *scopes: str) -> str:
    return control_plane.services.administration.create_token(control_plane.admin, NewTokenRequest(TokenKind.SERVICE, "-".join(scopes), scopes=scopes)).token or ""


@pytest.mark.proves("M2.4")
def test_a_scope_lets_through_what_it_names(control_plane: ControlPlane, api_url: str, remote: RemoteRepository):
    remote.store(note(1), CONTEXT)
    with RemoteRepository(api_url, service_token(control_plane, "records:read")) as reader:
        assert reader.latest(TARGET, "note", CONTEXT) is not None
        for act in (lambda: reader.store(note(2), CONTEXT), lambda: reader.bulk_store([note(2)], CONTEXT), lambda: reader.register(NOTE)):
            with pytest.raises(Forbidden, match="records:write"):
                act()
    with RemoteRepository(api_url, service_token(control_plane, "records:write")) as writer:
        assert writer.store(note(2), CONTEXT).result == "stored"
        for act in (lambda: writer.latest(TARGET, "note", CONTEXT), lambda: writer.tail(CONTEXT), lambda: next(iter(writer.follow(CONTEXT)))):
            with pytest.raises(Forbidden, match="records:read"):
                act()
    with RemoteRepository(api_url, "no such token") as nobody, pytest.raises(Unauthenticated):
        nobody.kinds()


@pytest.mark.proves("M2.4", "M3.8")
def test_only_the_system_stores_records_as_the_system(control_plane: ControlPlane, api_url: str, remote: RemoteRepository):
    forged = note(1).model_copy(update={"producer_id": "tracelake.dispatcher.v1"})
    with RemoteRepository(api_url, service_token(control_plane, "records:write")) as writer:
        with pytest.raises(RecordRefused, match="records:publish"):
            writer.store(forged, CONTEXT)
        assert [each.result for each in writer.bulk_store([forged, note(2)], CONTEXT)] == ["refused", "stored"]
    assert [stored.record.producer_id for stored in remote.query(RecordFilters(), CONTEXT)] == [note(2).producer_id]
    with RemoteRepository(api_url, service_token(control_plane, "records:write", "records:publish")) as system:
        assert system.store(forged, CONTEXT).result == "stored"


@pytest.mark.proves("M2.4")
def test_readers_read_and_writers_store(control_plane: ControlPlane, api_url: str, remote: RemoteRepository):
    for name, role in (("rita", "reader"), ("wim", "writer")):
        control_plane.services.administration.create_user(control_plane.admin, name, roles=[role])
    tokens = {name: control_plane.services.administration.create_token(control_plane.admin, NewTokenRequest(TokenKind.USER, name, user=name)).token or "" for name in ("rita", "wim")}
    with RemoteRepository(api_url, tokens["wim"]) as wim, RemoteRepository(api_url, tokens["rita"]) as rita:
        assert wim.store(note(1), CONTEXT).result == "stored"
        assert rita.latest(TARGET, "note", CONTEXT) is not None
        with pytest.raises(Forbidden, match="admin, writer"):
            rita.store(note(2), CONTEXT)


def post(api_url: str, path: str, body: object, token: str) -> tuple[int, Any]:
    request = urllib.request.Request(
        f"{api_url}{path}", data=json.dumps(body).encode(), headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request) as answered:
            return answered.status, json.load(answered)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def test_a_malformed_record_of_a_bulk_harms_no_other(control_plane: ControlPlane, api_url: str, remote: RemoteRepository):
    good = [json.loads(note(number).model_dump_json()) for number in range(3)]
    bad = [good[0] | {"producer_id": "no version"}, {}, "nothing", good[0] | {"extras": {"\u0000": 1}}, good[0] | {"kind": "unheard_of"}, good[0] | {"payload": {}}]
    context = json.loads(CONTEXT.model_dump_json())
    status, answer = post(api_url, "/v1/records/bulk", {"records": [good[0], *bad, good[1], good[2]], "context": context}, admin_token(control_plane))
    assert status == 200
    assert [result["result"] for result in answer["results"]] == ["stored", *["refused"] * 6, "stored", "stored"]
    codes = [result["problem"]["code"] for result in answer["results"][1:7]]
    assert codes == ["record_refused"] * 4 + ["kind_unknown", "record_refused"]
    assert answer["results"][4]["problem"]["detail"] == "The record is wrong at extras: text contains a NUL character."
    assert len(remote.tail(CONTEXT).items) == 3


@pytest.mark.parametrize("body", [{}, {"records": []}, {"records": {}, "context": {}}, {"records": [], "context": {"tenant": "main"}}, [], "x", {"records": [], "context": None, "more": 1}])
def test_an_invalid_bulk_is_refused_whole(control_plane: ControlPlane, api_url: str, body: object):
    status, problem = post(api_url, "/v1/records/bulk", body, admin_token(control_plane))
    assert (status, problem["code"]) == (400, "malformed")


def test_records_name_a_dataset_by_its_uuid(remote: RemoteRepository):
    with pytest.raises(RecordRefused, match="uuid"):
        remote.store(note(1, MetadataTarget(source_id="lake", schema="gold", table="orders")), CONTEXT)


def test_another_tenant_is_refused(control_plane: ControlPlane, api_url: str):
    other = CONTEXT.model_copy(update={"tenant": "other"})
    with RemoteRepository(api_url, admin_token(control_plane)) as repository:
        for act in (
            lambda: repository.store(note(1), other), lambda: repository.bulk_store([note(1)], other), lambda: repository.latest(TARGET, "note", other),
            lambda: repository.tail(other), lambda: repository.targets(other), lambda: next(iter(repository.follow(other))),
        ):  # fmt: skip
            with pytest.raises(TenantMismatch):
                act()


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Generator[str]:
    """A server that takes a request and does with its connection what the test says."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(LONGEST)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(LONGEST)


@pytest.mark.proves("M2.3")
def test_a_connection_that_breaks_leaves_a_store_unknown_and_a_question_unanswered():
    with answering(lambda connection: None) as url, RemoteRepository(url, "token", tenant="main") as repository:
        with pytest.raises(OutcomeUnknown):
            repository.store(note(1), CONTEXT)
        with pytest.raises(RepositoryUnavailable):
            repository.tail(CONTEXT)
    with RemoteRepository(url, "token") as repository, pytest.raises(RepositoryUnavailable):
        repository.store(note(1), CONTEXT)
    unready = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with answering(lambda connection: connection.sendall(unready)) as url, RemoteRepository(url, "token") as repository, pytest.raises(RepositoryUnavailable):
        repository.store(note(1), CONTEXT)


# Streams
class Stream:
    """A tail that is held open."""

    def __init__(self, api_url: str, token: str, offset: str | None = None) -> None:
        address = urlsplit(api_url)
        behind = f"&offset={offset}" if offset else ""
        self._connection = socket.create_connection((address.hostname, address.port or 80))
        self._connection.settimeout(LONGEST)
        head = f"GET /v1/records/tail?follow=true{behind} HTTP/1.1\r\nHost: records\r\nAuthorization: Bearer {token}\r\n\r\n"
        self._connection.sendall(head.encode())
        self._file = self._connection.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        while self._file.readline().strip():
            pass

    def page(self) -> dict[str, Any]:
        """The next line that says something."""
        while True:
            length = int(self._file.readline(), 16)
            assert length, "the stream has ended"
            line = self._file.read(length)
            self._file.readline()
            if line.strip():
                return json.loads(line)

    def ends(self) -> bool:
        try:
            while length := int(self._file.readline() or b"0", 16):
                self._file.read(length + 2)
        except ConnectionResetError:
            pass
        return True

    def close(self) -> None:
        self._file.close()
        self._connection.close()


@contextmanager
def open_streams(control_plane: ControlPlane, api_url: str, number: int, offset: str | None = None) -> Generator[list[Stream]]:
    with ExitStack() as stack:
        streams: list[Stream] = []
        for _ in range(number):
            streams.append(Stream(api_url, admin_token(control_plane), offset))
            stack.callback(streams[-1].close)
        for stream in streams:
            assert stream.status == 200
            stream.page()
        yield streams


def numbers(page: dict[str, Any]) -> list[int]:
    return [item["record"]["payload"]["n"] for item in page["items"]]


def connections(control_plane: ControlPlane) -> int:
    return control_plane.one("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'tracelake_service'")


def busy(control_plane: ControlPlane) -> int:
    return control_plane.one("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'tracelake_service' AND state <> 'idle'")


@pytest.mark.proves("M2.5")
def test_a_stream_returns_each_record_once_and_continues_where_it_ended(control_plane: ControlPlane, api_url: str, remote: RemoteRepository):
    remote.bulk_store([note(n) for n in range(500)], CONTEXT)
    stream = Stream(api_url, admin_token(control_plane))
    streamed: list[int] = []
    while len(streamed) < 500:
        page = stream.page()
        streamed += numbers(page)
    assert streamed == list(range(500))
    remote.store(note(500), CONTEXT)
    page = stream.page()
    assert numbers(page) == [500]
    stream.close()
    remote.store(note(501), CONTEXT)
    with open_streams(control_plane, api_url, 0):
        resumed = Stream(api_url, admin_token(control_plane), page["offset"])
        assert numbers(resumed.page()) == [501]
        resumed.close()


@pytest.mark.proves("M2.5")
def test_200_open_streams_hold_no_connection_and_a_claim_beside_them_is_answered(control_plane: ControlPlane, api_url: str, remote: RemoteRepository):
    with Client(api_url, admin_token(control_plane)) as client, open_streams(control_plane, api_url, STREAMS) as streams:
        tails = control_plane.services.tails
        assert tails.number_open == STREAMS
        assert connections(control_plane) <= control_plane.control.settings.database.pool_size + 2  # and those of the wake-ups
        wait_until(lambda: busy(control_plane) == 0, "nobody asks the database anything")
        # While all of them wait, a claim still finds a thread and a connection.
        claimed = [post_claim(api_url, control_plane) for _ in range(20)]
        assert claimed == [200] * 20
        assert client.me().name == "admin"
        remote.store(note(1), CONTEXT)
        claimed = [post_claim(api_url, control_plane) for _ in range(20)]  # and while all of them receive records
        assert claimed == [200] * 20
        for stream in streams:
            assert numbers(stream.page()) == [1]
        assert tails.number_open == STREAMS
    wait_until(lambda: control_plane.services.tails.number_open == 0, "streams that hung up are gone")


def post_claim(api_url: str, control_plane: ControlPlane) -> int:
    worker = HomeFiles(control_plane.control.settings.home).worker_token() or ""
    body = {"worker": "w", "claim_id": fresh_claim_id(), "runtime": "dispatcher", "room": {"default": 1}, "wait_s": 0}
    return post(api_url, "/internal/task-claim", body, worker)[0]


def test_without_a_stream_the_log_is_not_queried(control_plane: ControlPlane, api_url: str, remote: RemoteRepository, monkeypatch: pytest.MonkeyPatch):
    looks: list[int] = []
    inner = control_plane.services.tails.run_once
    monkeypatch.setattr(control_plane.services.tails, "run_once", lambda: looks.append(control_plane.services.tails.number_open) or inner())
    with open_streams(control_plane, api_url, 1) as [stream]:
        remote.store(note(1), CONTEXT)
        assert numbers(stream.page()) == [1]
        wait_until(lambda: len(looks) > 2, "somebody looks")
    wait_until(lambda: control_plane.services.tails.number_open == 0, "the stream that hung up is gone")
    remote.store(note(2), CONTEXT)
    assert control_plane.services.tails.run_once() == 0  # although the log has grown


def test_streams_beyond_the_limit_are_refused(control_plane: ControlPlane, api_url: str, remote: RemoteRepository, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(control_plane.services.tails, "_most", 2)
    with open_streams(control_plane, api_url, 2):
        with pytest.raises(TooManyTails):
            next(iter(remote.follow(CONTEXT)))
        assert remote.tail(CONTEXT).items == []


def test_a_stream_ends_when_its_token_is_revoked(control_plane: ControlPlane, api_url: str, remote: RemoteRepository):
    token = service_token(control_plane, "records:read")
    stream = Stream(api_url, token)
    stream.page()
    [made] = [one for one in control_plane.services.administration.list_tokens(control_plane.admin, limit=100).items if one.label == "records:read"]
    control_plane.services.administration.revoke_token(control_plane.admin, made.id)
    control_plane.services.access._remembered.clear()  # which a second does otherwise
    remote.store(note(1), CONTEXT)
    assert stream.ends()
    stream.close()


def test_streams_are_sent_home_when_the_process_stops(control_plane: ControlPlane):
    with served(control_plane.control) as url:
        stream = Stream(url, admin_token(control_plane))
        stream.page()
        assert control_plane.services.tails.number_open == 1
    assert stream.ends()
    stream.close()


def test_records_stored_by_another_process_reach_streams_here(control_plane: ControlPlane, api_url: str, remote: RemoteRepository):
    """Without a wake-up, by the look every second."""
    with open_streams(control_plane, api_url, 1) as [stream]:
        from tracelake.control.records.service import Records, Tenant  # noqa: PLC0415

        quiet = Records(control_plane.control.database)
        quiet.store(Tenant(control_plane.admin.org_id, "main"), note(7), CONTEXT)
        assert numbers(stream.page()) == [7]


def test_a_record_behind_an_older_transaction_is_streamed_when_that_ends(control_plane: ControlPlane, api_url: str, remote: RemoteRepository):
    with open_streams(control_plane, api_url, 1) as [stream], psycopg.connect(control_plane.database.owner_url) as late:
        late.execute("CREATE TABLE wrote (id integer)")
        remote.store(note(3), CONTEXT)
        assert remote.tail(CONTEXT).items == []
        late.commit()
        assert numbers(stream.page()) == [3]


def test_history_and_windows_over_http(remote: RemoteRepository):
    start = datetime(2020, 1, 1, tzinfo=UTC)
    records = [note(n).model_copy(update={"produced_at": start + timedelta(days=n)}) for n in range(5)]
    remote.bulk_store(records, CONTEXT)
    assert [stored.record.payload["n"] for stored in remote.history(TARGET, "note", CONTEXT, limit=2)] == [4, 3]
    assert remote.history(TARGET, "note", CONTEXT, limit=2).next is not None
