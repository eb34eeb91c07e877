"""The platform's own facts as records: one for each run, decision and result, whatever happens in between."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from support.controls import ControlPlane, failed, running_control, settings_for, succeeded
from support.databases import StateDatabase
from support.lakes import Lake
from support.lines import tasks_of
from support.registries import deploy_reports, deploy_sample, fill

from tracelake.control.emission.checking import check
from tracelake.control.emission.facts import Installation
from tracelake.control.emission.service import Emission
from tracelake.control.emission.storing import into_repositories
from tracelake.control.records.repositories import RecordRepositories
from tracelake.control.records.service import Records
from tracelake_sdk.errors import TracelakeError, Unauthenticated
from tracelake_sdk.errors.records import RepositoryUnavailable, TenantMismatch
from tracelake_sdk.records import MetadataContext, MetadataTarget, RecordFilters, StoredRecord, StoreResult
from tracelake_sdk.rules import RuleMeasurement
from tracelake_sdk.testing import MemoryRepository

INSTALLATION = Installation("embedded", "main")
CONTEXT = MetadataContext(cluster="embedded", workspace="main", tenant="main")


@pytest.fixture
def lake(database: StateDatabase, tmp_path: Path):
    with running_control(settings_for(database, tmp_path / "home", tasks={"housekeeping_seconds": 60}), database) as control_plane:
        control_plane.control.movers.stop()
        yield Lake(control_plane.control, database)


@pytest.fixture
def repository() -> MemoryRepository:
    return MemoryRepository()


def emission(control_plane: ControlPlane, repository: MemoryRepository, **parts) -> Emission:
    return Emission(control_plane.control.database, into_repositories(lambda tenant: repository), INSTALLATION, **parts)


def all_of(repository: MemoryRepository, kind: str) -> list[StoredRecord]:
    return repository.query(RecordFilters(kinds=[kind], limit=1000), CONTEXT).items


def emit_all(emitting: Emission) -> int:
    total = 0
    while done := emitting.run_once():
        total += done
    return total


def begin_again(control_plane: ControlPlane) -> None:
    """As after a crash that lost every offset."""
    control_plane.query("UPDATE emission SET xid = '0', seq = 0, held_until = NULL")


@pytest.mark.proves("M3.8")
def test_each_run_each_decision_and_each_result_is_one_record(lake: Lake, repository: MemoryRepository):
    deploy_sample(lake)
    deploy_reports(lake)
    fill(lake, 1, 2)
    fill(lake, 3)
    assert emit_all(emission(lake, repository, batch=2)) == lake.one("SELECT (SELECT count(*) FROM run_history) + (SELECT count(*) FROM promotion_status)")
    runs, decisions, results = (all_of(repository, kind) for kind in ("task_run", "promotion_decision", "gate_result"))
    assert {stored.record.payload["run_id"] for stored in runs} == {run for (run,) in lake.query("SELECT run_id FROM run_history")}
    assert {stored.record.payload["promotion_id"] for stored in decisions} == {str(id) for (id,) in lake.query("SELECT id FROM promotion_status")}
    assert len(results) == lake.one("SELECT (SELECT count(*) FROM quality_result) + (SELECT count(*) FROM policy_result)")
    assert check(lake.control.database, lambda tenant: repository, INSTALLATION).whole


@pytest.mark.proves("M3.8")
@pytest.mark.proves("M1.3")
def test_a_record_says_which_dataset_which_run_and_which_job_it_is_of(lake: Lake, repository: MemoryRepository):
    deploy_sample(lake)
    fill(lake, 1)
    emit_all(emission(lake, repository))
    [run] = [stored for stored in all_of(repository, "task_run") if stored.record.payload["job"] == "clean"]
    [(uuid, generation, end)] = lake.query(
        "SELECT run.dataset_id, run.generation_id, run.end_time FROM run_history AS run JOIN generation ON generation.id = generation_id"
        " JOIN job_key ON job_key.id = job_key_id WHERE job_key.name = 'clean'"
    )
    assert run.record.target == MetadataTarget(source_id="lake", schema="silver", table=str(uuid))
    assert run.record.extras["dataset"] == {"uuid": str(uuid), "generation": str(generation), "version": 1}
    assert (run.context.job_id, run.context.run_id, run.context.tenant) == ("sample/clean", run.record.payload["run_id"], "main")
    assert run.record.produced_at == end and run.record.payload["status"] == "SUCCESS"
    assert all(stored.context.run_id == stored.record.payload["run_id"] for stored in repository.tail(CONTEXT).items)


@pytest.mark.proves("M3.8")
def test_a_database_whose_clock_is_ahead_costs_no_record_of_the_platform(lake: Lake):
    """Facts carry the times of the database; the repository has another clock, here one that is an hour behind."""
    deploy_sample(lake)
    fill(lake, 1)
    begin_again(lake)
    repositories = RecordRepositories(Records(lake.control.database, now=lambda: datetime.now(UTC) - timedelta(hours=1)))
    emit_all(Emission(lake.control.database, into_repositories(repositories.repository_of), INSTALLATION))
    assert check(lake.control.database, repositories.repository_of, INSTALLATION).whole


@pytest.mark.proves("M3.8")
def test_row_values_reach_no_record(lake: Lake, repository: MemoryRepository):
    deploy_sample(lake)
    rule = lake.services.guard.add_rule(lake.admin, "sample_raw", "NOT_NULL", "value")
    lake.run("load")
    [task] = tasks_of(lake, "load")
    measured = RuleMeasurement(rule_id=rule.id, revision=rule.revision, violations=1, examined=1, method="scan", samples=["hush-4711"])
    assert lake.report(task, lake.measured([lake.stage(task, [(4711, None)])], rules=[measured])).result == "blocked"
    emit_all(emission(lake, repository))
    assert lake.one("SELECT count(*) FROM quality_result WHERE samples::text LIKE '%%hush-4711%%'") == 1
    texts = [json.dumps(stored.model_dump(mode="json")) for stored in repository.tail(CONTEXT).items]
    assert texts and not any("hush" in text for text in texts)
    [decision] = all_of(repository, "promotion_decision")
    assert decision.record.payload["allowed"] is False and decision.record.payload["stage"] == "quality"
    verdicts = {stored.record.payload["rule_type"]: stored.record.payload["verdict"] for stored in all_of(repository, "gate_result")}
    assert verdicts["NOT_NULL"] == "fail"


@pytest.mark.proves("M3.8")
def test_emitting_everything_again_stores_nothing_new_and_nothing_is_refused(lake: Lake, repository: MemoryRepository):
    deploy_sample(lake)
    lake.run("load")
    [task] = tasks_of(lake, "load")
    assert lake.write(task, [(1, "a")], state={"rows": 1}).result == "committing"
    emitting = emission(lake, repository)
    assert emitting.run_once() == 1, "decided, and not recorded yet"
    lake.move()  # now it has a version, which the decision did not know
    emit_all(emitting)
    before = len(repository.tail(CONTEXT).items)
    lake.query("UPDATE dataset_name SET name = name || '_renamed'")
    begin_again(lake)
    assert emit_all(emission(lake, repository)) > 0
    assert len(repository.tail(CONTEXT).items) == before
    assert lake.one("SELECT count(*) FROM emission_refusal") == 0


@pytest.mark.proves("M3.8")
def test_a_failed_try_and_the_next_one_are_two_records(control_plane: ControlPlane, repository: MemoryRepository):
    control_plane.deploy()
    control_plane.run_source()
    [first] = control_plane.claim()
    control_plane.complete(failed(first))
    control_plane.query("UPDATE task SET due_at = now() WHERE waits = 'retry'")
    control_plane.services.tasks.reaper.run_once()
    [second] = control_plane.claim()
    control_plane.complete(succeeded(second))
    emit_all(emission(control_plane, repository))
    runs = sorted(all_of(repository, "task_run"), key=lambda stored: stored.record.payload["attempt"])
    assert [(stored.record.payload["status"], stored.record.payload["error_code"]) for stored in runs] == [("FAILED", "broken"), ("SUCCESS", None)]
    assert {stored.context.run_id for stored in runs} == {f"{first.payload.task_id}:1", f"{first.payload.task_id}:2"}


@pytest.mark.proves("M3.8")
def test_a_run_that_is_committed_late_is_not_passed_over(control_plane: ControlPlane, repository: MemoryRepository):
    control_plane.deploy()
    control_plane.run_source()
    control_plane.run_source()
    early, late = control_plane.claim()
    emitting = emission(control_plane, repository)
    with psycopg.connect(control_plane.database.superuser_url) as slow:
        slow.execute("SELECT pg_current_xact_id()")  # began before, and is still open
        control_plane.complete(succeeded(early))
        assert emitting.run_once() == 0, "somebody may still commit something that belongs before it"
        slow.execute(
            "INSERT INTO run_history (run_id, org_id, task_id, attempt, generation_id, status, start_time, end_time, triggered_by)"
            " SELECT task_id || ':late', org_id, task_id, attempt, generation_id, status, start_time, end_time, 'late' FROM run_history"
        )
    control_plane.complete(succeeded(late))
    assert emit_all(emitting) == 3
    assert check(control_plane.control.database, lambda tenant: repository, INSTALLATION).whole


@pytest.mark.proves("M3.8")
@pytest.mark.parametrize("why", [RepositoryUnavailable, Unauthenticated, TenantMismatch])
def test_a_repository_that_does_not_answer_or_refuses_the_token_loses_nothing(control_plane: ControlPlane, repository: MemoryRepository, why: type[TracelakeError]):
    control_plane.deploy()
    control_plane.run_source()
    control_plane.complete(*[succeeded(task) for task in control_plane.claim()])
    away = True

    def storing(records):
        if away:
            raise why
        return into_repositories(lambda tenant: repository)(records)

    emitting = Emission(control_plane.control.database, storing, INSTALLATION)
    for _ in range(3):
        with pytest.raises(RepositoryUnavailable):
            emitting.run_once()
    away = False
    assert emit_all(emitting) == 1
    assert len(all_of(repository, "task_run")) == 1


@pytest.mark.proves("M3.8")
def test_one_process_at_a_time_emits_and_one_that_died_is_followed(control_plane: ControlPlane, repository: MemoryRepository):
    control_plane.deploy()
    control_plane.run_source()
    control_plane.complete(*[succeeded(task) for task in control_plane.claim()])

    def dies(records):
        raise RepositoryUnavailable

    dead = Emission(control_plane.control.database, dies, INSTALLATION)
    with pytest.raises(RepositoryUnavailable):
        dead.run_once()
    other = emission(control_plane, repository)
    assert other.run_once() == 0, "its time is not over"
    control_plane.query("UPDATE emission SET held_until = now() - interval '1 second' WHERE held_until IS NOT NULL")
    assert other.run_once() == 1


def _without_the_first(records: list[StoredRecord]) -> list[StoredRecord]:
    return records[1:]


def _with_the_first_twice(records: list[StoredRecord]) -> list[StoredRecord]:
    return [records[0], *records]


@pytest.mark.proves("M3.8")
@pytest.mark.parametrize(("damage", "found"), [(_without_the_first, "missing"), (_with_the_first_twice, "doubled")])
def test_the_checker_finds_missing_and_doubled_records(
    control_plane: ControlPlane, repository: MemoryRepository, damage: Callable[[list[StoredRecord]], list[StoredRecord]], found: str
):
    control_plane.deploy()
    for _ in range(3):
        control_plane.run_source()
    control_plane.complete(*[succeeded(task) for task in control_plane.claim()])
    behind = check(control_plane.control.database, lambda tenant: repository, INSTALLATION)
    assert behind.behind == 3 and not behind.whole
    emit_all(emission(control_plane, repository))
    assert check(control_plane.control.database, lambda tenant: repository, INSTALLATION).whole
    repository._newest_last = damage(repository._newest_last)
    checked = check(control_plane.control.database, lambda tenant: repository, INSTALLATION)
    assert len(getattr(checked, found)) == 1 and not checked.whole


def test_refused_records_are_noted_and_stop_nothing(control_plane: ControlPlane, repository: MemoryRepository):
    control_plane.deploy()
    for _ in range(2):
        control_plane.run_source()
    control_plane.complete(*[succeeded(task) for task in control_plane.claim()])

    def refuses_the_first(records):
        return [StoreResult(result="refused", problem={"code": "record_refused"}), *into_repositories(lambda tenant: repository)(records[1:])]

    emitting = Emission(control_plane.control.database, refuses_the_first, INSTALLATION, lease=timedelta(seconds=5))
    assert emit_all(emitting) == 2
    assert Counter(control_plane.query("SELECT kind, code FROM emission_refusal")) == {("task_run", "record_refused"): 1}
    checked = check(control_plane.control.database, lambda tenant: repository, INSTALLATION)
    assert checked.refused == 1 and len(checked.missing) == 1 and not checked.whole
