"""Bodies that nobody asked for: who calls is known before a byte of a body is read, and how much is read is known for each route."""

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest
from fastapi.routing import APIRoute
from support.controls import ControlPlane, running_control, served, settings_for
from support.databases import StateDatabase
from support.processes import wait_until
from support.slow_clients import HUGE, Connection

from tracelake.control.api import app as apps
from tracelake.control.api.bodies import LIMITS, RIGHTS, SMALL
from tracelake.control.api.guarded_routes import GuardedRoute, UserRoute
from tracelake.settings import ApiSettings
from tracelake_sdk.access import TokenKind
from tracelake_sdk.client import Client
from tracelake_sdk.home import HomeFiles

OPEN = {"/healthz", "/readyz"}  # answered to everybody


def addressed(path: str) -> str:
    return re.sub(r"{(\w+)}", lambda part: str(uuid4()) if part[1].endswith("id") else "sample", path)


def changing(api_url: str) -> Iterator[tuple[str, str]]:
    """Every (method, path) of the API that takes a body, from its own document."""
    for path, operations in httpx2.get(f"{api_url}/openapi.json", timeout=60).json()["paths"].items():
        for method in operations:
            if method in ("post", "put", "patch", "delete"):
                yield method.upper(), path


@pytest.mark.proves("T3.1")
@pytest.mark.parametrize("authorization", ["", "Authorization: Bearer tl_wrong"])
def test_a_caller_without_a_valid_token_is_answered_before_its_body_is_sent(api_url: str, authorization: str):
    for method, path in changing(api_url):
        for length in (f"Content-Length: {HUGE}", "Transfer-Encoding: chunked"):
            with Connection(api_url) as connection:
                connection.head(method, addressed(path), length, *([authorization] if authorization else []))
                status, headers, problem = connection.answer()
                assert (status, problem["code"], headers["connection"]) == (401, "unauthenticated", "close"), (method, path)
                assert connection.sends_until_it_is_closed() < HUGE, (method, path)
    assert httpx2.get(f"{api_url}/healthz", timeout=60).json() == {"status": "alive"}


@pytest.mark.proves("T3.1")
def test_a_token_of_another_kind_is_answered_before_its_body_is_sent(api_url: str, control_plane: ControlPlane):
    files = HomeFiles(control_plane.control.settings.home)
    for method, path in changing(api_url):
        token = files.admin_token() if path.startswith("/internal/") else files.worker_token()
        with Connection(api_url) as connection:
            connection.head(method, addressed(path), f"Content-Length: {HUGE}", f"Authorization: Bearer {token}")
            status, _, problem = connection.answer()
            assert (status, problem["code"]) == (403, "forbidden"), (method, path)


def test_a_body_beyond_the_limit_of_its_route_is_refused_before_it_is_sent(api_url: str, control_plane: ControlPlane):
    files = HomeFiles(control_plane.control.settings.home)
    for method, path in changing(api_url):
        token = files.worker_token() if path.startswith("/internal/") else files.admin_token()
        if path.startswith("/internal/pins"):
            token = files.query_token()
        most = LIMITS.get(path, SMALL)
        with Connection(api_url) as connection:
            connection.head(method, addressed(path), f"Content-Length: {most + 1}", f"Authorization: Bearer {token}")
            status, _, problem = connection.answer()
            assert (status, problem["code"]) == (413, "too_large"), (method, path)


@pytest.mark.parametrize("begins", ["GET /v1/dags HTTP/1.1\r\nHost: x\r\nX-Long: ", "GET /v1/dags?search="])
def test_a_head_without_end_is_refused(api_url: str, begins: str):
    with Connection(api_url) as connection:
        connection.socket.sendall(begins.encode())
        assert connection.sends_until_it_is_closed() < HUGE
    assert httpx2.get(f"{api_url}/healthz", timeout=60).json() == {"status": "alive"}


def test_a_refused_caller_that_sent_little_keeps_its_connection(api_url: str, control_plane: ControlPlane):
    with Connection(api_url) as connection:
        connection.head("POST", "/v1/dags", "Content-Length: 2")
        connection.socket.sendall(b"{}")
        assert connection.answer()[0] == 401
        connection.head("GET", "/healthz")
        assert connection.answer()[2] == {"status": "alive"}


def test_a_body_that_stops_half_way_is_given_up(database: StateDatabase, tmp_path: Path):
    settings = settings_for(database, tmp_path / "home", api={"body_seconds": 0.2})
    with running_control(settings, database) as control_plane, served(control_plane.control) as api_url, Connection(api_url) as connection:
        token = HomeFiles(settings.home).admin_token()
        connection.head("POST", "/v1/dags", "Content-Length: 100", f"Authorization: Bearer {token}")
        connection.socket.sendall(b'{"definition"')
        status, headers, problem = connection.answer()
    assert (status, problem["code"], headers["connection"]) == (408, "body_too_slow", "close")


@pytest.mark.proves("T3.1")
def test_a_caller_that_lacks_the_permission_is_answered_before_a_large_body_is_sent(api_url: str, control_plane: ControlPlane):
    with Client(api_url, HomeFiles(control_plane.control.settings.home).admin_token()) as admin:
        tokens = (
            admin.admin.create_token(TokenKind.SERVICE, "scraper", scopes=["metrics"]).token,
            admin.admin.create_token(TokenKind.USER, "nobody", user=admin.admin.create_user("nobody", roles=[]).name).token,
        )
    for method, path in changing(api_url):
        for token in tokens if LIMITS.get(path, SMALL) > SMALL and method != "DELETE" else ():
            with Connection(api_url) as connection:
                connection.head(method, addressed(path), "Content-Length: 1000", f"Authorization: Bearer {token}")
                status, _, problem = connection.answer()
                assert (status, problem["code"]) == (403, "forbidden"), (method, path)


def test_every_user_route_with_a_large_body_names_the_permission_that_it_needs(control_plane: ControlPlane):
    kinds = {path: type(route) for route, path in routes(apps.create_app(control_plane.services, ApiSettings()))}
    assert {path for path in LIMITS if kinds[path] is UserRoute} == set(RIGHTS)


def bytes_of_bodies(api_url: str, token: str | None) -> float:
    scraped = httpx2.get(f"{api_url}/metrics", headers={"Authorization": f"Bearer {token}"}, timeout=60).text
    return float(re.search(r"^tracelake_request_body_bytes (\S+)$", scraped, re.MULTILINE)[1])  # pyright: ignore[reportOptionalSubscript]


class Slow:
    """Clients that send most of a body each, and then wait."""

    def __init__(self, api_url: str, token: str) -> None:
        self._api_url, self._token = api_url, token
        self.connections: list[Connection] = []

    def begin(self, path: str, size: int) -> Connection:
        connection = Connection(self._api_url)
        self.connections.append(connection)
        connection.head("POST", path, f"Content-Length: {size + 1}", f"Authorization: Bearer {self._token}")
        connection.socket.sendall(b" " * size)
        return connection

    def leave(self) -> None:
        for connection in self.connections:
            connection.socket.close()


@pytest.mark.proves("T3.1")
def test_bodies_in_flight_together_have_one_limit_and_leave_room_for_workers(database: StateDatabase, tmp_path: Path):
    settings = settings_for(database, tmp_path / "home", api={"bodies_mib": 64})
    with running_control(settings, database) as control_plane, served(control_plane.control) as api_url:
        files = HomeFiles(settings.home)
        slow = Slow(api_url, files.admin_token() or "")

        def hold(mib: int) -> None:
            wait_until(lambda: bytes_of_bodies(api_url, files.admin_token()) == mib * 2**20, f"{mib} MiB are held")

        for held in (23, 46):
            slow.begin("/v1/records/bulk", 23 * 2**20)
            hold(held)
        status, headers, problem = slow.begin("/v1/dags", 3 * 2**20).answer()
        assert (status, problem["code"], headers["retry-after"], headers["connection"]) == (503, "busy", "1", "close")
        hold(46)
        workers = Slow(api_url, files.worker_token() or "")
        worker = workers.begin("/internal/task-complete", 3 * 2**20)
        hold(49)
        worker.socket.sendall(b" ")
        assert worker.answer()[0] == 400  # it was read, and is not a request
        hold(46)
        slow.leave()
        workers.leave()
        hold(0)


def test_a_head_that_does_not_end_is_given_up(database: StateDatabase, tmp_path: Path):
    settings = settings_for(database, tmp_path / "home", api={"head_seconds": 0.3})
    with running_control(settings, database) as control_plane, served(control_plane.control) as api_url:
        for sent in (b"", b"\r\n", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"):
            with Connection(api_url) as connection:
                connection.socket.sendall(sent)
                assert connection.socket.recv(1) == b"", sent
        with Connection(api_url) as connection:  # also after a request that was whole
            connection.head("GET", "/healthz")
            assert connection.answer()[0] == 200
            connection.socket.sendall(b"GET /")
            assert connection.socket.recv(1) == b""


NO_REQUESTS = {
    "a deep list": b"[" * 60_000,
    "a deep object": b'{"dag": ' * 5_000,
    "a number of 50,000 digits": b'{"dag": "d", "job": "j", "request": {"n": ' + b"9" * 50_000 + b"}}",
    "no UTF-8": b"\xff" * 1000,
    "beyond floats": b'{"dag": 1e999999}',
    "null": b"null",
    "NaN": b"NaN",
    "nothing": b"",
}
PARSING = ("/v1/runs", "/v1/dags", "/v1/rules", "/v1/query", "/v1/records", "/v1/records/bulk", "/v1/records/query", "/v1/kinds", "/v1/admin/users")


def test_json_that_is_not_a_request_is_malformed_on_every_route(api_url: str, control_plane: ControlPlane):
    token = HomeFiles(control_plane.control.settings.home).admin_token()
    with httpx2.Client(base_url=api_url, headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"}, timeout=60) as client:
        answers = {(path, what): client.post(path, content=body) for path in PARSING for what, body in NO_REQUESTS.items()}
    assert {key: (answer.status_code, answer.text) for key, answer in answers.items() if (answer.status_code, answer.json()["code"]) != (400, "malformed")} == {}


def test_a_packed_body_is_refused_with_a_sentence(api_url: str, control_plane: ControlPlane):
    token = HomeFiles(control_plane.control.settings.home).admin_token()
    answer = httpx2.post(f"{api_url}/v1/runs", content=b"\x1f\x8b", headers={"Authorization": f"Bearer {token}", "Content-Encoding": "gzip"}, timeout=60)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert "gzip" in answer.json()["detail"]


def test_every_route_but_the_open_ones_names_its_callers(control_plane: ControlPlane):
    for app in (apps.create_app(control_plane.services, ApiSettings()), apps.create_records_app(control_plane.services, ApiSettings())):
        found = {path: type(route) for route, path in routes(app)}
        assert {path for path, kind in found.items() if not issubclass(kind, GuardedRoute)} == OPEN
        assert len(found) > 20


def test_limits_are_of_routes_that_exist_and_only_small_bodies_are_parsed_on_the_event_loop(control_plane: ControlPlane):
    app = apps.create_app(control_plane.services, ApiSettings())
    found = {path: route for route, path in routes(app)}
    assert set(LIMITS) <= set(found)
    assert {path for path, route in found.items() if route.body_field is not None and LIMITS.get(path, SMALL) > SMALL} == set()


def routes(app) -> list[tuple[APIRoute, str]]:
    routers = [route.original_router for route in app.routes if hasattr(route, "original_router")]
    return [(route, route.path_format) for router in routers for route in router.routes if isinstance(route, APIRoute)]
