"""Pins: taken in one snapshot, leased, renewed, given back with the query's line, and dropped when their holder is gone."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import httpx2
import orjson
import pytest
from support.controls import running_control, served, settings_for
from support.databases import StateDatabase
from support.lakes import BRONZE, Lake

from tracelake_sdk.errors import NotFound, QueryRefused, Unavailable
from tracelake_sdk.home import HomeFiles
from tracelake_sdk.queries import Pinned, QueryStatus, ReleaseRequest, RequestedName, RunFacts

QUIET = {"housekeeping_seconds": 60}


@pytest.fixture
def lake(database: StateDatabase, tmp_path: Path) -> Iterator[Lake]:
    with running_control(settings_for(database, tmp_path / "home", tasks=QUIET), database) as control_plane:
        control_plane.control.movers.stop()
        lake = Lake(control_plane.control, database)
        lake.deploy(BRONZE, name="sample")
        yield lake


def commit(lake: Lake, *keys: int) -> None:
    lake.run()
    assert lake.write(lake.take_one(), [(key, "x") for key in keys], state={"rows": 1}).result == "committing"
    lake.move()


def take(lake: Lake, *names: RequestedName) -> Pinned:
    return Pinned.model_validate_json(orjson.dumps(lake.services.pins.take(lake.admin, names)))


def done(**facts: object) -> RunFacts:
    known = {"sql": "SELECT 1", "status": QueryStatus.DONE, "result_hash": "h", "row_count": 1, "row_limit": 10, "milliseconds": 1.5, "engine_version": "e", "replayable": True}
    return RunFacts.model_validate(known | facts)


@pytest.mark.proves("T6.2")
def test_a_pin_is_the_version_and_its_files_and_does_not_move(lake: Lake):
    commit(lake, 1)
    first = take(lake, RequestedName(name="sample_raw"))
    commit(lake, 2)
    second = take(lake, RequestedName(name="sample_raw"), RequestedName(name="sample_raw", version=1))
    assert [(table.pin.name, table.pin.version, len(table.table.files)) for table in first.tables] == [("sample_raw", 1, 1)]
    assert [(table.pin.name, table.pin.version, len(table.table.files)) for table in second.tables] == [("sample_raw", 2, 2), ("sample_raw@1", 1, 1)]
    assert second.tables[1].table == first.tables[0].table
    assert first.tables[0].table.unique_key == ["id"]
    assert lake.query("SELECT name, version FROM pin_dataset WHERE pin_id = %s", first.id) == [("sample_raw", 1)]


def test_an_unknown_name_is_reported_with_the_nearest_one(lake: Lake):
    with pytest.raises(NotFound, match="has no version yet"):
        take(lake, RequestedName(name="sample_raw"))
    commit(lake, 1)
    with pytest.raises(NotFound, match="did you mean sample_raw"):
        take(lake, RequestedName(name="sample_rw"))
    with pytest.raises(NotFound, match="has no version 2; its newest is 1"):
        take(lake, RequestedName(name="sample_raw", version=2))
    assert lake.one("SELECT count(*) FROM pin") == 0


def test_a_dataset_of_events_has_no_rows_to_ask_for(lake: Lake):
    lake.deploy(
        "name: {name}\ndefaults: {{domain: test, owner: test, max_attempts: {max_attempts}}}\njobs:\n  - name: start\n    activation: source\n"
        "    source: {{kind: manual}}\n    runtime: dispatcher\n    operator: emit\n    config: {{cursor: integer}}\n"
        "    outputs: [{{layer: bronze, description: Cursors}}]\npublish:\n  cursors: {{job: start, output_index: 0}}\n",
        name="emitting",
    )
    with pytest.raises(QueryRefused, match="events and ranges"):
        take(lake, RequestedName(name="cursors"))


@pytest.mark.proves("T6.2", "T6.7")
def test_giving_back_writes_the_line_once(lake: Lake):
    commit(lake, 1)
    pinned = take(lake, RequestedName(name="sample_raw"))
    request = ReleaseRequest(pin=pinned.id, run=done(sql="SELECT 'my words'"))
    first = lake.services.pins.release(request, None)
    assert lake.services.pins.release(request, None) == first
    [(actor, pins, status, sql)] = lake.query("SELECT actor, pins, status::text, sql FROM query_run")
    assert (actor, status, sql) == ("admin", "done", "SELECT 'my words'")
    assert [(pin["name"], pin["version"]) for pin in pins] == [("sample_raw", 1)]
    assert lake.one("SELECT released_at IS NOT NULL FROM pin")


@pytest.mark.proves("T6.2")
def test_a_pin_whose_holder_died_expires_and_is_dropped(lake: Lake):
    commit(lake, 1)
    held, lost = take(lake, RequestedName(name="sample_raw")), take(lake, RequestedName(name="sample_raw"))
    lease = timedelta(seconds=held.lease_seconds)
    later = datetime.now(UTC) + lease - timedelta(seconds=10)
    assert lake.services.pins.renew([held.id], now=later).lost == []
    after = datetime.now(UTC) + lease + timedelta(seconds=1)
    assert lake.services.pins.renew([lost.id], now=after).lost == [lost.id]
    assert lake.services.pins.run_once(now=after) == 1
    assert lake.query("SELECT id FROM pin") == [(held.id,)]
    with pytest.raises(Unavailable, match="ran longer than its pins"):
        lake.services.pins.release(ReleaseRequest(pin=lost.id, run=done()), None)
    assert lake.one("SELECT count(*) FROM query_run") == 0


def test_a_query_that_ran_beyond_its_lease_is_not_believed(lake: Lake):
    commit(lake, 1)
    pinned = take(lake, RequestedName(name="sample_raw"))
    after = datetime.now(UTC) + timedelta(seconds=pinned.lease_seconds + 1)
    with pytest.raises(Unavailable, match="ran longer than its pins"):
        lake.services.pins.release(ReleaseRequest(pin=pinned.id, run=done()), None, now=after)


def test_pins_that_were_given_back_are_dropped_after_their_lease(lake: Lake):
    pinned = take(lake)
    lake.services.pins.release(ReleaseRequest(pin=pinned.id, run=done()), None)
    assert lake.services.pins.run_once() == 0
    assert lake.services.pins.run_once(now=datetime.now(UTC) + timedelta(seconds=pinned.lease_seconds + 1)) == 1


@pytest.mark.proves("T6.2")
def test_only_a_query_process_takes_pins_and_it_does_so_with_somebodys_token(lake: Lake):
    commit(lake, 1)
    files = HomeFiles(lake.control.settings.home)
    body = {"caller": files.admin_token(), "names": [{"name": "sample_raw"}]}
    with served(lake.control) as url:
        def post(token: str | None, path: str = "", **changed: object) -> tuple[int, str]:
            answer = httpx2.post(f"{url}/internal/pins{path}", json=body | changed, headers={"Authorization": f"Bearer {token}"}, timeout=60)
            return answer.status_code, answer.json().get("code", "")

        assert post(files.query_token()) == (200, "")
        assert post(files.query_token(), caller="tl_nobody") == (401, "unauthenticated")
        assert post(files.query_token(), caller=files.worker_token()) == (403, "forbidden")
        assert post(files.query_token(), caller=files.query_token()) == (403, "forbidden")
        for other in (files.admin_token(), files.worker_token()):
            assert post(other) == (403, "forbidden")
            assert post(other, "/admit") == (403, "forbidden")
            assert post(other, "/renew") == (403, "forbidden")
            assert post(other, "/release") == (403, "forbidden")
        # And that token does nothing else.
        for path in ("/v1/datasets", "/v1/dags", "/v1/queries"):
            assert httpx2.get(url + path, headers={"Authorization": f"Bearer {files.query_token()}"}, timeout=60).status_code == 403


def test_a_home_of_an_earlier_release_gets_the_token_of_its_query_process(lake: Lake, database: StateDatabase):
    files = HomeFiles(lake.control.settings.home)
    known = orjson.loads(files.credentials.read_bytes())
    files.credentials.write_bytes(orjson.dumps({name: token for name, token in known.items() if name != "query_token"}))
    lake.control.stop()
    with running_control(settings_for(database, lake.control.settings.home, tasks=QUIET), database) as again:
        token = files.query_token()
        assert token is not None and token != known["query_token"]
        assert again.services.access.authenticate(token).scopes == {"pin"}
        assert (files.admin_token(), files.worker_token()) == (known["admin_token"], known["worker_token"])
        assert files.credentials.stat().st_mode & 0o777 == 0o600


def test_ids_of_queries_are_those_of_their_pins(lake: Lake):
    pinned = take(lake)
    released = lake.services.pins.release(ReleaseRequest(pin=pinned.id, run=done()), None)
    assert released.id == pinned.id == UUID(str(lake.one("SELECT id FROM query_run")))
