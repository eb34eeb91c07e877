"""The doctor looks whether the newest runs and decisions have their records, at a cost that does not grow with history."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.controls import Desk, running_control, settings_for, succeeded
from support.databases import StateDatabase
from support.lakes import Lake
from support.registries import deploy_reports, deploy_sample, fill

from tracelake.control.emission import checking
from tracelake.control.emission.checking import Checked, check_recent
from tracelake.control.emission.examining import judge, verdict
from tracelake.control.emission.facts import Emitted, Place
from tracelake.control.emission.service import Emission
from tracelake.control.emission.storing import into_repositories
from tracelake.embedded.doctor import Check, examine
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.errors.records import RepositoryUnavailable
from tracelake_sdk.records import StoreResult

pytestmark = pytest.mark.proves("M3.8")

PLACE = Place("embedded", "main")


@pytest.fixture
def lake(database: StateDatabase, tmp_path: Path):
    with running_control(settings_for(database, tmp_path / "home", tasks={"housekeeping_seconds": 60}), database) as desk:
        desk.control.movers.stop()
        yield Lake(desk.control, database)


def ran(desk: Desk, *ages: str) -> None:
    """One run of now, and for each age one that ended so long ago."""
    desk.deploy()
    desk.ask()
    desk.complete(*(succeeded(task) for task in desk.claim()))
    for number, age in enumerate(ages):
        ended(desk, f"old-{number}", age)


def ended(desk: Desk, name: str, age: str) -> None:
    desk.query(
        "INSERT INTO run_history (run_id, org_id, task_id, attempt, generation_id, status, start_time, end_time, triggered_by)"
        f" SELECT task_id || ':{name}', org_id, task_id, attempt, generation_id, status, now() - interval '9 days', now() - interval '{age}', 'old'"
        " FROM run_history WHERE triggered_by <> 'old'"
    )


def emit_all(desk: Desk, *, losing: Callable[[Emitted], bool] = lambda emitted: False) -> int:
    """How many records were lost on the way, by a repository that said that it has them."""
    stores, lost = into_repositories(desk.control.keeping.repository_of), 0

    def storing(records: Sequence[Emitted]) -> list[StoreResult]:
        nonlocal lost
        kept = [emitted for emitted in records if not losing(emitted)]
        lost += len(records) - len(kept)
        stores(kept)
        return [StoreResult(result="stored") for _ in records]

    emission = Emission(desk.control.database, storing, PLACE)
    while emission.run_once():
        pass
    return lost


def judged(desk: Desk) -> tuple[bool, str, str]:
    return judge(desk.control.settings, desk.database.service_url)


def test_a_run_of_the_last_day_without_its_record_is_named_with_what_to_do(desk: Desk) -> None:
    assert judged(desk) == (True, "no run or decision of the last day to look at", "")
    ran(desk, "1 hour", "2 hours", "2 days")
    assert emit_all(desk, losing=lambda emitted: emitted.fact.endswith(":old-2")) == 1  # of the day before yesterday
    assert judged(desk) == (True, "the newest 3 facts of the last day have their records", "")
    ended(desk, "lost", "3 hours")
    assert emit_all(desk, losing=lambda emitted: True) == 1
    ok, detail, remedy = judged(desk)
    assert ok is False
    assert detail.startswith("1 fact of the last day without a record: task_run ") and detail.endswith(":lost")
    assert "TRACELAKE__RECORDS__URL" in remedy


def test_decisions_and_their_results_are_looked_for_too(lake: Lake) -> None:
    deploy_sample(lake)
    deploy_reports(lake)
    fill(lake, 1, 2)

    def looked() -> Checked:
        return check_recent(lake.control.database, lake.control.keeping.repository_of, PLACE, now=datetime.now(UTC))

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


def test_only_the_newest_are_looked_at(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    ran(desk, *["1 hour"] * 5)
    emit_all(desk, losing=lambda emitted: emitted.fact.endswith(":old-2"))
    assert judged(desk)[0] is False
    monkeypatch.setattr(checking, "_RECENT", 2)
    assert judged(desk) == (True, "the newest 2 facts of the last day have their records", "")
    monkeypatch.setattr(checking, "_RECENT", 3)
    assert judged(desk)[0] is False


def test_what_waits_for_long_is_said_and_what_came_just_now_is_on_its_way(desk: Desk) -> None:
    ran(desk)
    assert judged(desk) == (True, "no run or decision of the last day to look at; 1 on the way", "")
    desk.query("INSERT INTO emission_refusal (kind, fact, code) VALUES ('task_run', 'x', 'record_refused')")
    assert judged(desk)[:2] == (False, "1 record of the platform itself was refused")
    desk.query("TRUNCATE emission_refusal")
    emit_all(desk)
    ended(desk, "late", "61 minutes")
    ok, detail, remedy = judged(desk)
    assert (ok, detail) == (False, "1 run or decision waits to become a record, the oldest for 61 minutes")
    assert "start control" in remedy


def test_behind_a_bus_the_youngest_may_be_on_their_way(desk: Desk) -> None:
    ran(desk, "10 minutes")
    assert emit_all(desk, losing=lambda emitted: not emitted.fact.endswith(":old-0")) == 1
    assert judged(desk)[0] is False
    bus = settings_for(desk.database, desk.control.settings.home, bus={"url": "postgres:"})
    assert judge(bus, desk.database.service_url) == (True, "1 fact of the last day has its record", "")


def test_a_fact_with_two_records_is_an_error_of_its_own() -> None:
    ok, detail, remedy = verdict(Checked(facts=5, doubled=[("task_run", str(number)) for number in range(5)]), datetime.now(UTC))
    assert (ok, detail) == (False, "5 facts of the last day with more than one record: task_run 0, task_run 1, task_run 2 and 2 more")
    assert remedy


def test_a_repository_that_does_not_answer_is_what_the_doctor_says(desk: Desk) -> None:
    ran(desk, "1 hour")
    emit_all(desk)
    away = settings_for(desk.database, desk.control.settings.home, records={"url": "http://127.0.0.1:9", "token": "a token"})
    with pytest.raises(RepositoryUnavailable):
        judge(away, desk.database.service_url)

    def raises(url: str) -> tuple[bool, str, str]:
        raise TracelakeError("It sleeps.")

    assert examine(away, {"records": raises})[-1] == Check("records", False, "It sleeps.", "fix what it names, then run the check again")
    assert examine(desk.control.settings, {"records": lambda url: judge(desk.control.settings, url)})[-1] == Check("records", True, "the newest 2 facts of the last day have their records")
