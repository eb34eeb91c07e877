"""The doctor looks whether the newest runs and decisions have their records, at a cost that does not grow with history."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.controls import ControlPlane, running_control, settings_for, succeeded
from support.databases import StateDatabase
from support.lakes import Lake
from support.registries import deploy_reports, deploy_sample, fill

from tracelake.control.emission import checking
from tracelake.control.emission.checking import Checked, check_recent
from tracelake.control.emission.facts import Emitted, Installation
from tracelake.control.emission.health import check, verdict
from tracelake.control.emission.service import Emission
from tracelake.control.emission.storing import into_repositories
from tracelake.embedded.doctor import Check, examine
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.errors.records import RepositoryUnavailable
from tracelake_sdk.records import StoreResult

pytestmark = pytest.mark.proves("M3.8")

INSTALLATION = Installation("embedded", "main")


@pytest.fixture
def lake(database: StateDatabase, tmp_path: Path):
    with running_control(settings_for(database, tmp_path / "home", tasks={"housekeeping_seconds": 60}), database) as control_plane:
        control_plane.control.movers.stop()
        yield Lake(control_plane.control, database)


def ran(control_plane: ControlPlane, *ages: str) -> None:
    """One run of now, and for each age one that ended so long ago."""
    control_plane.deploy()
    control_plane.run_source()
    control_plane.complete(*(succeeded(task) for task in control_plane.claim()))
    for number, age in enumerate(ages):
        ended(control_plane, f"old-{number}", age)


def ended(control_plane: ControlPlane, name: str, age: str) -> None:
    control_plane.query(
        "INSERT INTO run_history (run_id, org_id, task_id, attempt, generation_id, status, start_time, end_time, triggered_by)"
        f" SELECT task_id || ':{name}', org_id, task_id, attempt, generation_id, status, now() - interval '9 days', now() - interval '{age}', 'old'"
        " FROM run_history WHERE triggered_by <> 'old'"
    )


def emit_all(control_plane: ControlPlane, *, losing: Callable[[Emitted], bool] = lambda emitted: False) -> int:
    """How many records were lost on the way, by a repository that said that it has them."""
    stores, lost = into_repositories(control_plane.control.record_repositories.repository_of), 0

    def storing(records: Sequence[Emitted]) -> list[StoreResult]:
        nonlocal lost
        kept = [emitted for emitted in records if not losing(emitted)]
        lost += len(records) - len(kept)
        stores(kept)
        return [StoreResult(result="stored") for _ in records]

    emission = Emission(control_plane.control.database, storing, INSTALLATION)
    while emission.run_once():
        pass
    return lost


def judged(control_plane: ControlPlane) -> tuple[bool, str, str]:
    return check(control_plane.control.settings, control_plane.database.service_url)


def test_a_run_of_the_last_day_without_its_record_is_named_with_what_to_do(control_plane: ControlPlane) -> None:
    assert judged(control_plane) == (True, "no run or decision in the last day", "")
    ran(control_plane, "1 hour", "2 hours", "2 days")
    assert emit_all(control_plane, losing=lambda emitted: emitted.fact.endswith(":old-2")) == 1  # of the day before yesterday
    assert judged(control_plane) == (True, "the newest 3 facts of the last day have their records", "")
    ended(control_plane, "lost", "3 hours")
    assert emit_all(control_plane, losing=lambda emitted: True) == 1
    ok, detail, remedy = judged(control_plane)
    assert ok is False
    assert detail.startswith("1 fact of the last day without a record: task_run ") and detail.endswith(":lost")
    assert "TRACELAKE__RECORDS__URL" in remedy


def test_decisions_and_their_results_are_looked_for_too(lake: Lake) -> None:
    deploy_sample(lake)
    deploy_reports(lake)
    fill(lake, 1, 2)

    def looked() -> Checked:
        return check_recent(lake.control.database, lake.control.record_repositories.repository_of, INSTALLATION, now=datetime.now(UTC))

    [(lost,)] = lake.query("SELECT id::text FROM promotion_status LIMIT 1")
    gone = emit_all(lake, losing=lambda emitted: emitted.record.payload.get("promotion_id") == lost)
    every = "SELECT (SELECT count(*) FROM run_history) + (SELECT count(*) FROM promotion_status) + (SELECT count(*) FROM quality_result)"
    found = looked()
    assert found.facts == lake.one(f"{every} + (SELECT count(*) FROM policy_result)") > 5
    assert len(found.missing) == gone > 1
    assert {kind for kind, _ in found.missing} == {"gate_result", "promotion_decision"}
    lake.query("UPDATE emission SET xid = '0', seq = 0, held_until = NULL")
    assert looked().missing == [] and looked().behind > 0  # not emitted is not lost
    assert emit_all(lake) == 0
    assert looked().whole and looked().facts == found.facts


def test_only_the_newest_are_looked_at(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    ran(control_plane, *["1 hour"] * 5)
    emit_all(control_plane, losing=lambda emitted: emitted.fact.endswith(":old-2"))
    assert judged(control_plane)[0] is False
    monkeypatch.setattr(checking, "_RECENT", 2)
    assert judged(control_plane) == (True, "the newest 2 facts of the last day have their records", "")
    monkeypatch.setattr(checking, "_RECENT", 3)
    assert judged(control_plane)[0] is False


def test_facts_that_wait_for_long_are_reported_and_new_ones_are_on_the_way(control_plane: ControlPlane) -> None:
    ran(control_plane)
    assert judged(control_plane) == (True, "no run or decision in the last day; 1 on the way", "")
    control_plane.query("INSERT INTO emission_refusal (kind, fact, code) VALUES ('task_run', 'x', 'record_refused')")
    assert judged(control_plane)[:2] == (False, "1 record of the platform itself was refused")
    control_plane.query("TRUNCATE emission_refusal")
    emit_all(control_plane)
    ended(control_plane, "late", "61 minutes")
    ok, detail, remedy = judged(control_plane)
    assert (ok, detail) == (False, "1 run or decision waits to become a record, the oldest for 61 minutes")
    assert "start control" in remedy


def test_behind_a_bus_the_youngest_may_be_on_their_way(control_plane: ControlPlane) -> None:
    ran(control_plane, "10 minutes")
    assert emit_all(control_plane, losing=lambda emitted: not emitted.fact.endswith(":old-0")) == 1
    assert judged(control_plane)[0] is False
    bus = settings_for(control_plane.database, control_plane.control.settings.home, bus={"url": "postgres:"})
    assert check(bus, control_plane.database.service_url) == (True, "1 fact of the last day has its record", "")


def test_a_fact_with_two_records_is_an_error_of_its_own() -> None:
    ok, detail, remedy = verdict(Checked(facts=5, doubled=[("task_run", str(number)) for number in range(5)]), datetime.now(UTC))
    assert (ok, detail) == (False, "5 facts of the last day with more than one record: task_run 0, task_run 1, task_run 2 and 2 more")
    assert remedy


def test_the_doctor_reports_a_repository_that_does_not_answer(control_plane: ControlPlane) -> None:
    ran(control_plane, "1 hour")
    emit_all(control_plane)
    away = settings_for(control_plane.database, control_plane.control.settings.home, records={"url": "http://127.0.0.1:9", "token": "a token"})
    with pytest.raises(RepositoryUnavailable):
        check(away, control_plane.database.service_url)

    def raises(url: str) -> tuple[bool, str, str]:
        raise TracelakeError("It sleeps.")

    assert examine(away, {"records": raises})[-1] == Check("records", False, "It sleeps.", "fix what it names, then run the check again")
    assert examine(control_plane.control.settings, {"records": lambda url: check(control_plane.control.settings, url)})[-1] == Check("records", True, "the newest 2 facts of the last day have their records")
