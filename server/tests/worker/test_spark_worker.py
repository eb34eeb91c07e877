"""The wrapper of programs that write files: one attempt, every answer of control, cancels, lost leases and stops."""

import json
import threading
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from structlog.testing import capture_logs
from support.relays import relayed
from support.s3_faults import faulty_s3
from support.s3_servers import S3Server

from tracelake.worker.spark.operator_processes import OperatorProcesses
from tracelake_sdk.datasets.measurements import TableFile
from tracelake_sdk.datasets.scopes import FullScope
from tracelake_sdk.rules import NotNull, RuleScope, RuleToMeasure
from tracelake_sdk.tasks import Completion, CompletionResult, MissingRules, MovedOutput

from .processes import until
from .workshop import LOCATION, Workshop, ended, payload, processes_with, wait_gone

SUCCEEDED = [("succeeded", None)]


def scratch(shop: Workshop) -> list[Path]:
    return list((shop.settings.home / "scratch").glob("*-*"))


@pytest.mark.proves("T3.2")
def test_an_attempt_is_run_measured_and_reported(shop: Workshop):
    shop.spec(rows=[[1, "a"], [2, "b"]], files=2, leftover=True, state={"seen": 2}, custom={"note": "x"})
    task = shop.task()
    shop.run(task)
    [report] = shop.control.completions
    assert (report.outcome, report.base, report.state, report.custom, report.posted) == ("succeeded", 7, {"seen": 2}, {"note": "x"}, [])
    [output] = report.outputs
    assert (output.index, output.rows) == (0, 2)
    # By the committer's manifest: what is left over is not named.
    assert [file.path for file in output.files] == [f"{task.task_id}-1/full/part-{number:05}.parquet" for number in range(2)]
    assert (shop.settings.home / "lake" / LOCATION / f"{task.task_id}-1" / "full" / "left-over.parquet").exists()
    assert shop.moments == ["operator_started", "operator_ended", "measured", "complete_sent", "complete_answered"]
    assert scratch(shop) == []


def test_a_free_slot_asks_for_one_task_and_nothing_is_prefetched(shop: Workshop):
    assert not shop.worker.run_once()
    [claim] = shop.control.claims
    assert (claim["runtime"], claim["room"]) == ("spark", {"default": 1})


@pytest.mark.parametrize("result", ["done", "committing", "blocked", "unchanged", "superseded", "stale", "conflict"])
def test_answers_that_end_an_attempt_end_it(result: str, shop: Workshop):
    shop.spec(rows=[[1, "a"]])
    shop.control.answer(CompletionResult(result), 409 if result in ("stale", "conflict") else 200)
    shop.run(shop.task())
    assert shop.control.outcomes == SUCCEEDED


def test_a_moved_base_is_measured_against_only_what_moved(shop: Workshop):
    shop.spec(rows=[[1, "a"]])
    moved = [TableFile(path=f"x/{name}.parquet", size=1, rows=1, scope=FullScope()) for name in ("one", "two")]
    for base, file in ((8, moved[0]), (9, moved[1])):
        shop.control.answer(CompletionResult.BASE_MOVED, 409, base=base, moved=[MovedOutput(index=0, added=[file], removed=[]).model_dump(mode="json")])
    shop.run(shop.task())
    assert [report.base for report in shop.control.completions] == [7, 8, 9]
    first, second, third = [asked["outputs"][0] for asked in shop.measured]
    assert (first["previous"], first["moved"]) == (None, [])
    assert [file["path"] for move in second["moved"] for file in move["added"]] == ["x/one.parquet"]
    assert second["previous"]["rows"] == 1
    assert [file["path"] for move in third["moved"] for file in move["added"]] == ["x/one.parquet", "x/two.parquet"]
    # What was found then is what is reported.
    assert [report.outputs[0].duplicates for report in shop.control.completions] == [0, 1, 2]
    assert [report.summary for report in shop.control.completions] == [
        [], ["Skipped 1 row whose key (id) already exists; `append` never changes rows."], ["Skipped 2 rows whose keys (id) already exist; `append` never changes rows."]
    ]
    assert shop.moments.count("measured") == 3


def test_rules_that_came_later_are_measured_and_stay_measured(shop: Workshop):
    shop.spec(rows=[[1, "a"]])
    rule = RuleToMeasure(id=uuid4(), revision=3, scope=RuleScope.BATCH, tree=NotNull(column="id"))
    shop.control.answer(CompletionResult.MEASURE, 409, measure=[MissingRules(index=0, rules=[rule]).model_dump(mode="json")])
    file = TableFile(path="x/one.parquet", size=1, rows=1, scope=FullScope())
    shop.control.answer(CompletionResult.BASE_MOVED, 409, base=8, moved=[MovedOutput(index=0, added=[file], removed=[]).model_dump(mode="json")])
    shop.run(shop.task())
    asked = [order["outputs"][0] for order in shop.measured]
    assert [output["rules"] and [found["id"] for found in output["rules"]] for output in asked] == [None, [str(rule.id)], None]
    assert [found["id"] for found in asked[2]["staged"]["rules"]] == [str(rule.id)]
    assert [[found.rule_id for found in report.outputs[0].rules] for report in shop.control.completions] == [[], [rule.id], [rule.id]]


def test_a_report_that_must_wait_is_sent_again_as_it_is(shop: Workshop):
    shop.spec(rows=[[1, "a"]])
    for _ in range(3):
        shop.control.answer(CompletionResult.WAIT, 409)
    shop.run(shop.task())
    assert len(shop.control.completions) == 4
    assert len({report.model_dump_json() for report in shop.control.completions}) == 1
    assert len(shop.measured) == 1


def test_a_wait_ends_when_the_task_is_lost(shop: Workshop):
    shop.spec(rows=[[1, "a"]])
    task = shop.task()
    shop.control.answers = [{"result": "wait", "status": 409}] * 10_000
    shop.at["complete_answered"] = lambda: (shop.control.lost.add(task.task_id), shop.hear())
    shop.run(task)
    assert set(shop.control.outcomes) == {("succeeded", None)}


def test_a_refused_report_is_reported_as_a_final_failure(shop: Workshop):
    shop.spec(rows=[[1, "a"]])
    shop.control.answer(CompletionResult.REFUSED, 422, code="output_invalid", detail="It is wrong.")
    shop.run(shop.task())
    last = shop.control.completions[-1]
    assert shop.control.outcomes == [("succeeded", None), ("failed", "output_invalid")]
    assert last.error is not None and not last.error.retry and last.error.message == "It is wrong."


def test_a_refused_failure_is_the_end(shop: Workshop):
    shop.spec(fail="No.")
    shop.control.answer(CompletionResult.REFUSED, 422, code="x")
    shop.run(shop.task())
    assert shop.control.outcomes == [("failed", "told_to_fail")]


def test_a_success_that_comes_after_a_cancel_is_reported_as_stopped(shop: Workshop):
    shop.spec(rows=[[1, "a"]])
    shop.control.answer(CompletionResult.CANCELED, 409, code="task_canceled")
    shop.run(shop.task())
    assert shop.control.outcomes == [("succeeded", None), ("canceled", None)]


def test_a_request_whose_answer_was_lost_is_repeated_unchanged(shop: Workshop):
    shop.spec(rows=[[1, "a"]])
    shop.control.loses["task-complete"] = 2
    shop.run(shop.task())
    assert len({report.model_dump_json() for report in shop.control.completions}) == 1
    assert len(shop.control.completions) == 3


@pytest.mark.proves("T3.6")
def test_a_cancel_ends_the_program_and_is_reported(shop: Workshop):
    shop.spec(touch=shop.path("started"), wait_for=shop.path("never"))
    task = shop.task()
    thread = shop.running(task)
    programs = processes_with(f"{task.task_id}-1/order.json")
    assert programs
    shop.control.cancel.add(task.task_id)
    shop.hear()
    ended(thread)
    assert shop.control.outcomes == [("canceled", None)]
    wait_gone(programs)


def test_a_lost_lease_ends_the_program_and_nothing_is_reported(shop: Workshop):
    shop.spec(touch=shop.path("started"), wait_for=shop.path("never"))
    task = shop.task()
    thread = shop.running(task)
    programs = processes_with(f"{task.task_id}-1/order.json")
    shop.control.lost.add(task.task_id)
    shop.hear()
    ended(thread)
    assert shop.control.completions == []
    wait_gone(programs)
    assert scratch(shop) == []


@pytest.mark.proves("T3.7")
def test_without_heartbeats_the_program_is_gone_before_its_lease(shop: Workshop):
    shop.spec(touch=shop.path("started"), wait_for=shop.path("never"))
    task = shop.task(lease_seconds=9)
    thread = shop.running(task)
    programs = processes_with(f"{task.task_id}-1/order.json")
    remaining: list[float] = []
    shop.at["operator_ended"] = lambda: remaining.append(shop.worker.leases.remaining(task.task_id))
    shop.control.fails.add("heartbeat")
    ended(thread)
    wait_gone(programs)
    assert remaining[0] > 0  # by the worker's own clock, which began before control's
    assert shop.control.outcomes == [("failed", "lease_ended")]


def test_a_program_that_takes_too_long_is_ended(shop: Workshop):
    shop.spec(touch=shop.path("started"), wait_for=shop.path("never"))
    task = shop.task(timeout_seconds=1)
    shop.run(task)
    [report] = shop.control.completions
    assert report.error is not None and (report.error.error_class, report.error.retry) == ("timed_out", True)
    assert processes_with(f"{task.task_id}-1/order.json") == []


def test_a_stopping_worker_gives_a_running_task_back(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tracelake.worker.spark.spark_worker.STOP_SECONDS", 0.2)
    shop.spec(touch=shop.path("started"), wait_for=shop.path("never"))
    task = shop.task()
    thread = shop.running(task)
    shop.worker.stop()
    ended(thread)
    assert shop.control.outcomes == [("given_back", "given_back")]
    [report] = shop.control.completions
    assert report.error is not None and report.error.message == "The worker stopped before it finished."
    assert processes_with(f"{task.task_id}-1/order.json") == []


def test_a_stopping_worker_lets_a_task_that_is_nearly_done_finish(shop: Workshop):
    shop.spec(touch=shop.path("started"), wait_for=shop.path("go"), rows=[[1, "a"]])
    thread = shop.running(shop.task())
    shop.worker.stop()
    Path(shop.path("go")).touch()
    ended(thread)
    assert shop.control.outcomes == SUCCEEDED


@pytest.mark.xdist_group("s3")
@pytest.mark.proves("X.10")
def test_what_fails_while_the_store_is_away_is_given_back_once_it_answers(shop: Workshop, s3_server: S3Server):
    with relayed(s3_server.endpoint) as relay:
        relay.passes = False
        shop.worker = shop.hire(storage=s3_server.open(s3_server.fresh_url(), endpoint=relay.url, timeout_seconds=1))
        shop.spec(touch=shop.path("started"), fail="It could not write.")
        thread = shop.running(shop.task())
        until(lambda: relay.came >= 3)
        assert shop.control.outcomes == []
        relay.passes = True
        ended(thread)
    assert shop.control.outcomes == [("given_back", "storage_unavailable")]


@pytest.mark.xdist_group("s3")
@pytest.mark.proves("X.10")
def test_what_fails_while_the_store_lists_and_refuses_every_write_is_given_back_once_it_takes_them(shop: Workshop, s3_server: S3Server):
    with faulty_s3(s3_server) as faulty:
        faulty.read_only = True
        storage = s3_server.open(s3_server.fresh_url(), endpoint=faulty.endpoint)
        assert storage.list("any") == []
        shop.worker = shop.hire(storage=storage)
        shop.spec(touch=shop.path("started"), fail="It could not write.")
        thread = shop.running(shop.task())
        until(lambda: faulty.refused_writes >= 3)
        assert shop.control.outcomes == []
        faulty.read_only = False
        ended(thread)
        assert storage.list(LOCATION) == []
    assert shop.control.outcomes == [("given_back", "storage_unavailable")]


@pytest.mark.xdist_group("s3")
def test_what_fails_while_the_store_takes_files_is_the_tasks_own_failure(shop: Workshop, s3_server: S3Server):
    storage = s3_server.open(s3_server.fresh_url())
    shop.worker = shop.hire(storage=storage)
    shop.spec(fail="It could not write.")
    shop.run(shop.task())
    assert [outcome for outcome, _ in shop.control.outcomes] == ["failed"]
    assert storage.list(LOCATION) == []


@pytest.mark.proves("X.10")
def test_what_was_staged_is_kept_and_measured_when_the_store_answers_again(shop: Workshop):
    shop.spec(touch=shop.path("started"), rows=[[1, "a"]])
    away = shop.asked.parent / "away"
    away.touch()
    thread = shop.running(shop.task())
    until(lambda: len(shop.measured) >= 2)
    away.unlink()
    ended(thread)
    assert shop.control.outcomes == SUCCEEDED
    assert shop.moments.count("operator_started") == 1


def test_a_stopped_worker_claims_nothing(shop: Workshop):
    shop.control.queue(shop.task())
    shop.worker.stop()
    assert not shop.worker.run_once()
    assert shop.control.claims == []


def test_a_task_that_is_given_back_by_a_stopping_worker_is_not_claimed_by_its_other_slot(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tracelake.worker.spark.spark_worker.STOP_SECONDS", 0.2)
    shop.control.requeues = True
    worker = shop.worker = shop.hire(slots=2, poll_seconds=30)
    shop.spec(touch=shop.path("started"), wait_for=shop.path("never"))
    shop.control.queue(shop.task())
    life = threading.Thread(target=worker.run, daemon=True)
    life.start()
    until(lambda: Path(shop.path("started")).exists() and shop.control.polls == 1)
    worker.stop()
    ended(life)
    until(lambda: shop.control.polls == 0)
    assert shop.control.outcomes == [("given_back", "given_back")]
    assert len(shop.control.queued) == 1


def test_what_control_handed_out_in_the_moment_of_the_stop_is_given_back(shop: Workshop):
    shop.spec(touch=shop.path("started"), rows=[[1, "a"]])
    task = shop.task()
    held = shop.control.queue(task)
    worker = shop.worker = shop.hire(poll_seconds=30)
    hand_out = shop.control._claim  # pyright: ignore[reportPrivateUsage]

    def claim(body: dict[str, Any]) -> dict[str, Any]:
        if body["room"]:
            hand_out(body)
            worker.stop()
            return {"claimed": []}  # which never arrives: the worker has hung up
        return {"claimed": [shop.control.handed_out[held.task_id].model_dump(mode="json")]}

    shop.control._claim = claim  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    shop.start_threads()
    assert worker.run_once()
    assert shop.control.outcomes == [("given_back", None)]
    assert not Path(shop.path("started")).exists()


def test_a_worker_runs_as_many_tasks_at_a_time_as_it_has_slots(shop: Workshop):
    worker = shop.worker = shop.hire(slots=2)
    shop.spec("one.json", touch=shop.path("one"), wait_for=shop.path("two"), rows=[[1, "a"]])
    shop.spec("two.json", touch=shop.path("two"), wait_for=shop.path("one"), rows=[[1, "a"]])
    shop.control.queue(shop.task("one.json"))
    shop.control.queue(shop.task("two.json"))
    life = threading.Thread(target=worker.run, daemon=True)
    life.start()
    until(lambda: len(shop.control.completions) == 2)
    worker.stop()
    ended(life)
    assert shop.control.outcomes == SUCCEEDED * 2


def test_the_lease_is_counted_from_when_the_claim_was_sent(shop: Workshop):
    shop.spec(rows=[[1, "a"]])
    task = shop.task(lease_seconds=30)
    shop.control.queue(task)
    shop.control.fails.add("heartbeat")
    found: list[float] = []
    now = [100.0]
    shop.worker = shop.hire(clock=lambda: now[0])
    queued = shop.control._claim  # pyright: ignore[reportPrivateUsage]

    def slow(body: dict[str, object]) -> dict[str, object]:
        now[0] += 12  # a poll that took twelve seconds
        return queued(body)

    shop.control._claim = slow  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    shop.at["operator_started"] = lambda: found.append(shop.worker.leases.remaining(task.task_id))
    assert shop.worker.run_once()
    assert found == [18.0]


@pytest.mark.proves("T2.2")
def test_a_batch_is_measured_in_place_without_any_program(shop: Workshop):
    files = [f"{uuid4()}-1/full/batch-0001.parquet"]
    shop.spec(rows=[[1, "a"], [2, "b"]])
    source = shop.task()
    shop.run(source)
    written = f"{source.task_id}-1/full/part-00000.parquet"
    task = shop.task("nowhere.json", batch={"id": str(uuid4()), "name": "batch-0001", "output": 0, "files": [written]})
    shop.run(task)
    assert shop.moments.count("operator_started") == 1
    report = shop.control.completions[-1]
    assert [file.path for file in report.outputs[0].files] == [written] != files
    assert shop.measured[-1]["outputs"][0]["adopted"] is True
    assert (report.posted, report.state) == ([], None)


@pytest.mark.proves("T2.2")
@pytest.mark.proves("T2.3")
def test_batches_are_sealed_and_posted_while_the_program_runs(shop: Workshop):
    shop.spec(rows={"from": 0, "to": 4, "value": "a"}, batches=2, wait_before_outcome=shop.path("go"), touch=shop.path("started"), state={"end": True})
    task = shop.task()
    thread = shop.running(task)
    until(lambda: len(shop.control.batches) == 2)
    assert shop.control.completions == []
    Path(shop.path("go")).touch()
    ended(thread)
    assert [(batch.name, batch.output, batch.files, batch.state) for batch in shop.control.posts] == [
        (f"batch-{number:04}", 0, [f"{task.task_id}-1/full/batch-{number:04}.parquet"], {"batch": number}) for number in (1, 2)
    ]
    for batch in shop.control.posts:
        assert (shop.settings.home / "lake" / LOCATION / batch.files[0]).stat().st_mode & 0o222 == 0
    [report] = shop.control.completions
    assert report.posted == list(shop.control.batches.values())
    assert ([output.files for output in report.outputs], report.state) == ([[]], {"end": True})


def test_a_batch_whose_answer_was_lost_is_posted_again_under_its_name(shop: Workshop):
    shop.spec(rows={"from": 0, "to": 4, "value": "a"}, batches=1)
    shop.control.loses["events"] = 2
    shop.run(shop.task())
    assert [batch.name for batch in shop.control.posts] == ["batch-0001"] * 3
    assert shop.control.completions[0].posted == list(shop.control.batches.values())
    assert len(shop.control.batches) == 1


def test_batches_of_a_program_that_died_are_posted_all_the_same(shop: Workshop):
    shop.spec(rows={"from": 0, "to": 4, "value": "a"}, batches=2, die_at="batch_ready")
    shop.run(shop.task())
    assert [batch.name for batch in shop.control.posts] == ["batch-0001"]
    [report] = shop.control.completions
    assert report.error is not None and report.error.error_class == "no_outcome"
    assert report.posted == list(shop.control.batches.values())


def test_a_later_attempt_posts_only_what_is_missing_and_names_everything(shop: Workshop):
    shop.spec(rows={"from": 0, "to": 4, "value": "a"}, batches=2, state={"end": True})
    ids = [UUID(int=1), UUID(int=2)]
    task = shop.task(attempt=2, posted=["batch-0001"])
    shop.control.at_post = lambda batch: {"status": 200, "id": str(ids[1])}
    shop.control.answer(CompletionResult.REFUSED, 409, code="batches_differ", posted=ids)
    shop.run(task)
    assert [batch.name for batch in shop.control.posts] == ["batch-0002"]
    assert [report.posted for report in shop.control.completions] == [[ids[1]], ids[::-1]]
    assert shop.control.outcomes == SUCCEEDED * 2


def test_a_batch_that_control_does_not_know_any_more_is_a_failure(shop: Workshop):
    shop.spec(rows={"from": 0, "to": 4, "value": "a"}, batches=1)
    id = UUID(int=1)
    shop.control.at_post = lambda batch: {"status": 200, "id": str(id)}
    shop.control.answer(CompletionResult.REFUSED, 409, code="batches_differ", posted=[])
    shop.run(shop.task())
    assert shop.control.outcomes == [("succeeded", None), ("failed", "batches_differ")]


def test_a_batch_that_cannot_be_taken_yet_is_posted_again(shop: Workshop):
    shop.spec(rows={"from": 0, "to": 4, "value": "a"}, batches=1)
    answers = [{"status": 503, "code": "unavailable"}]
    shop.control.at_post = lambda batch: answers.pop() if answers else None
    shop.run(shop.task())
    assert [batch.name for batch in shop.control.posts] == ["batch-0001"] * 2
    assert shop.control.outcomes == SUCCEEDED


def test_an_attempt_that_waits_leaves_its_slot_to_what_it_waits_for(shop: Workshop):
    worker = shop.worker
    shop.spec("first.json", rows=[[1, "a"]])
    shop.spec("second.json", rows=[[1, "a"]], touch=shop.path("second ran"))
    first, second = shop.task("first.json"), shop.task("second.json")
    shop.control.queue(first)
    shop.control.answers = [{"result": "wait", "status": 200}] * 10_000
    life = threading.Thread(target=worker.run, daemon=True)
    life.start()
    until(lambda: len(shop.control.completions) > 1)
    shop.control.queue(second)  # the worker has one slot
    until(Path(shop.path("second ran")).exists)
    shop.control.answers.clear()
    until(lambda: {report.fence.task_id for report in shop.control.completions} == {first.task_id, second.task_id} and worker.polling)
    worker.stop()
    ended(life)


def test_a_batch_that_control_refuses_ends_the_attempt(shop: Workshop):
    shop.spec(rows={"from": 0, "to": 4, "value": "a"}, batches=1, wait_before_outcome=shop.path("never"))
    shop.control.at_post = lambda batch: {"status": 422, "code": "batch_wrong", "detail": "No."}
    task = shop.task()
    shop.run(task)
    assert shop.control.outcomes == [("failed", "batch_wrong")]
    assert processes_with(f"{task.task_id}-1/order.json") == []


def test_a_failure_is_reported_with_its_class_and_whether_to_retry(shop: Workshop):
    shop.spec(fail="The landing folder is empty.", retry=False)
    shop.run(shop.task())
    [report] = shop.control.completions
    assert report.error is not None
    assert (report.error.error_class, report.error.message, report.error.retry) == ("told_to_fail", "The landing folder is empty.", False)
    assert shop.measured == []


@pytest.mark.proves("T3.12")
@pytest.mark.parametrize("root", ["home", "home/lake", "home/logs/deep", "", "link"])
def test_a_location_in_or_around_the_home_is_refused_before_a_program_starts(root: str, shop: Workshop):
    (shop.folder / "link").symlink_to(shop.settings.home)
    url = (shop.folder / root).as_uri()
    shop.run(payload(config={"path": "here/credentials.json", "format": "csv"}, locations={"here": url}))
    [report] = shop.control.completions
    assert report.error is not None and (report.error.error_class, report.error.retry) == ("location_refused", False)
    assert str(shop.folder) not in report.error.message
    assert "operator_started" not in shop.moments


def test_a_location_on_s3_is_unreachable_from_a_lake_that_is_a_folder(shop: Workshop):
    shop.run(payload(config={"path": "there/a.csv", "format": "csv"}, locations={"there": "s3://bucket/landing"}))
    [report] = shop.control.completions
    assert report.error is not None and (report.error.error_class, report.error.retry) == ("location_unreachable", False)
    assert "`there`" in report.error.message
    assert "operator_started" not in shop.moments


@pytest.mark.parametrize("point", ["operator_start", "half_the_files", "all_files"])
def test_a_program_that_dies_has_no_outcome_and_is_tried_again(point: str, shop: Workshop):
    shop.spec(rows={"from": 0, "to": 9, "value": "secret-row"}, files=3, die_at=point)
    shop.run(shop.task())
    [report] = shop.control.completions
    assert report.error is not None and (report.error.error_class, report.error.retry) == ("no_outcome", True)
    assert "-9" in report.error.message and "secret-row" not in report.error.message
    assert shop.measured == []


@pytest.mark.parametrize("trouble", ["die", "garbage"])
def test_a_measuring_that_dies_is_an_attempt_to_repeat_and_the_next_one_has_a_new_process(trouble: str, shop: Workshop):
    shop.spec(rows=[[1, "a"]])
    mark = shop.asked.parent / trouble
    mark.touch()
    shop.run(shop.task())
    [report] = shop.control.completions
    assert report.error is not None and (report.error.error_class, report.error.retry) == ("measuring_died", True)
    mark.unlink(missing_ok=True)
    shop.run(shop.task())
    assert shop.control.outcomes[-1] == ("succeeded", None)


def test_files_that_measuring_refuses_are_a_final_failure(shop: Workshop):
    shop.spec(rows=[[1, "a"]])
    (shop.asked.parent / "refuse").touch()
    shop.run(shop.task())
    [report] = shop.control.completions
    assert report.error is not None and (report.error.error_class, report.error.retry) == ("not_parquet", False)


def test_a_cancel_also_ends_a_measurement(shop: Workshop):
    shop.spec(rows=[[1, "a"]], touch=shop.path("started"))
    (shop.asked.parent / "hang").touch()
    task = shop.task()
    thread = shop.running(task)
    until(lambda: len(shop.measured) == 1)
    shop.control.cancel.add(task.task_id)
    shop.hear()
    ended(thread)
    assert shop.control.outcomes == [("canceled", None)]


def test_a_measuring_process_is_kept_for_the_next_attempt(shop: Workshop):
    shop.spec(rows=[[1, "a"]])
    shop.run(shop.task())
    first = shop.measuring.pid
    shop.run(shop.task())
    assert first is not None and shop.measuring.pid == first


def test_progress_and_outcome_reach_the_log_without_data(shop: Workshop):
    shop.spec(rows=[[1, "personal"]], say="personal")
    with capture_logs() as logs:
        shop.run(shop.task())
    assert "personal" not in json.dumps(logs, default=str)
    assert [entry["event"] for entry in logs if entry["event"] == "reported"] == ["reported"]


def test_a_worker_without_spark_says_so_and_claims_nothing(shop: Workshop):
    worker = shop.hire(operators=OperatorProcesses({}, None))
    with capture_logs() as logs:
        life = threading.Thread(target=worker.run, daemon=True)
        life.start()
        until(lambda: any(entry["event"] == "Spark is not installed" for entry in logs))
        worker.stop()
        ended(life)
    assert [entry["event"] for entry in logs].count("Spark is not installed") == 1
    assert shop.control.claims == []


def test_a_report_names_the_attempt_that_it_is_of(shop: Workshop):
    shop.spec(rows=[[1, "a"]])
    task = shop.task(attempt=3)
    fence = shop.control.queue(task)
    shop.start_threads()
    shop.worker.run_once()
    reports: list[Completion] = shop.control.completions
    assert [report.fence for report in reports] == [fence]
