"""One run with everything behind it, and for whom."""

from datetime import UTC, datetime, timedelta

import pytest
from support.controls import served
from support.lakes import BRONZE, Lake
from support.lines import REPLACING, load, move_line, tasks_of
from support.people import user
from support.registries import deploy_reports, deploy_sample, fill

from tracelake.control.access.callers import Caller
from tracelake_sdk.client import Client
from tracelake_sdk.datasets.scopes import FullScope
from tracelake_sdk.errors import NotFound
from tracelake_sdk.home import HomeFiles
from tracelake_sdk.rules import RuleMeasurement
from tracelake_sdk.rules.promotions import GateVerdict
from tracelake_sdk.tasks import Completion, OperatorError, Outcome
from tracelake_sdk.tasks.runs import RunStatus


def run_of(lake: Lake, job: str) -> str:
    """The newest run of a job."""
    return lake.services.tasks.views.runs(lake.admin, dag=None, job=job, status=None, limit=1, before=None).items[0].run_id


def test_a_run_shows_its_pins_decision_results_and_version(lake: Lake):
    deploy_sample(lake)
    deploy_reports(lake)
    fill(lake, 1, 2)
    fill(lake, 3)
    gold = lake.services.explaining.run(lake.admin, run_of(lake, "sum_up"))
    assert (gold.dag, gold.job, gold.dataset_name, gold.layer, gold.status) == ("reports", "sum_up", "sales", "gold", RunStatus.SUCCESS)
    assert gold.version == 2
    assert [(pin.name, pin.version) for pin in gold.inputs] == [("sample_clean", 2)]
    assert gold.scopes == [FullScope()]
    assert gold.decision is not None and gold.decision.allowed and gold.decision.run_id == gold.run_id
    assert [result.policy_type for result in gold.decision.policy_results] == ["SCHEMA"]
    assert [result.verdict for result in gold.decision.quality_results] == [GateVerdict.PASS]


def test_a_blocked_run_shows_its_planned_scopes_and_the_reason(lake: Lake):
    deploy_sample(lake)
    rule = lake.services.guard.add_rule(lake.admin, "sample_raw", "NOT_NULL", "value")
    lake.run("load")
    [task] = tasks_of(lake, "load")
    measured = lake.measured([lake.stage(task, [(1, None)])], rules=[RuleMeasurement(rule_id=rule.id, revision=rule.revision, violations=1, examined=1, method="scan")])
    assert lake.report(task, measured).result == "blocked"
    run = lake.services.explaining.run(lake.admin, run_of(lake, "load"))
    assert run.status is RunStatus.BLOCKED and run.version is None
    assert run.decision is not None and not run.decision.allowed
    assert run.scopes == [FullScope()]


def test_gold_names_paused_datasets_far_upstream(lake: Lake):
    deploy_sample(lake)
    deploy_reports(lake)
    fill(lake, 1, 2)

    def explained(caller: Caller = lake.admin, dataset: str = "sales") -> list[tuple[str, str, str | None]]:
        return [(reason.code, reason.sentence, reason.remedy) for reason in lake.services.explaining.explain(caller, dataset).reasons]

    assert [code for code, _, _ in explained()] == ["fresh"]
    rule = lake.services.guard.add_rule(lake.admin, "sample_raw", "NOT_NULL", "value")
    lake.run("load")
    [task] = lake.take(1)
    measured = lake.measured([lake.stage(task, [(9, None)])], rules=[RuleMeasurement(rule_id=rule.id, revision=rule.revision, violations=1, examined=1, method="scan")])
    assert lake.report(task, measured).result == "blocked"
    sentence = "Its input sample_raw has no new versions: its job sample/load is paused."
    assert explained()[:-1] == [("waiting", sentence, "`tracelake explain sample_raw`")]
    assert explained()[-1][0] == "fresh"
    lake.services.tasks.pauses.resume(lake.admin, "sample", "load")
    assert explained()[0][1] == sentence.replace("its job sample/load is paused", "its newest candidate was blocked")
    assert not [sentence for _, sentence, _ in explained(dataset="sample_raw") if "no new versions" in sentence]

    ada = user(lake, "ada", "analysts")
    lake.services.reading.set_read_roles(lake.admin, "sales", ["analysts"])
    assert [code for code, _, _ in explained(ada)] == ["fresh"]
    lake.services.guard.deactivate_rule(lake.admin, rule.id)
    fill(lake, 3)
    assert [code for code, _, _ in explained()] == ["fresh"]


@pytest.mark.proves("T5.1")
def test_a_run_of_a_dataset_that_a_caller_may_not_know_of_is_not_there(lake: Lake):
    deploy_sample(lake)
    deploy_reports(lake)
    fill(lake, 1)
    stranger = user(lake, "stranger", "night_shift")
    gold, silver = run_of(lake, "sum_up"), run_of(lake, "clean")
    for run in (gold, silver, "no-such-run:1"):
        with pytest.raises(NotFound, match="was not found"):
            lake.services.explaining.run(stranger, run)
    lake.services.reading.set_read_roles(lake.admin, "sales", ["night_shift"])
    seen = lake.services.explaining.run(stranger, gold)
    assert seen.inputs == [] and seen.hidden_inputs == 1, "what it read is another's"
    assert seen.decision is not None and seen.decision.evidence.get("pins") == []
    with pytest.raises(NotFound):
        lake.services.explaining.run(stranger, silver)


def test_the_client_asks_for_one_run(lake: Lake):
    deploy_sample(lake)
    fill(lake, 1)
    run_id = run_of(lake, "clean")
    with served(lake.control) as url, Client(url, HomeFiles(lake.control.settings.home).admin_token()) as client:
        assert client.runs.get(run_id) == lake.services.explaining.run(lake.admin, run_id)
        with pytest.raises(NotFound):
            client.runs.get("nothing:1")


def explained(lake: Lake, dataset: str) -> list[tuple[str, str]]:
    return [(reason.code, reason.sentence) for reason in lake.services.explaining.explain(lake.admin, dataset).reasons]


@pytest.mark.proves("X.7")
def test_explain_calls_no_superseded_attempt_failed(lake: Lake):
    lake.deploy(REPLACING + "  sample_clean: {{job: clean, output_index: 0}}\n")
    load(lake, 1)
    load(lake, 2)
    older, newer = tasks_of(lake, "clean")
    assert lake.write(newer, [(1, "a"), (2, "a")]).result == "committing"
    move_line(lake, "clean")
    assert lake.write(older, [(1, "a")]).result == "superseded"
    codes = [code for code, _ in explained(lake, "sample_clean")]
    assert codes == ["waiting", "fresh"], "its task is queued again, and that is all there is to say"
    assert tasks_of(lake, "clean") == [], "what it would write is there already"
    assert [code for code, _ in explained(lake, "sample_clean")] == ["fresh"]


@pytest.mark.proves("X.7")
def test_explain_distinguishes_a_failure_that_is_retried_from_one_that_is_final(lake: Lake):
    lake.deploy(BRONZE, max_attempts=2)
    lake.run("load")

    def fail() -> list[tuple[str, str]]:
        task = lake.take_one()
        lake.complete(Completion(fence=task.fence, outcome=Outcome.FAILED, error=OperatorError(error_class="broken", message="No luck.")))
        return explained(lake, "sample_raw")

    code, sentence = fail()[0]
    assert code == "retrying" and sentence.startswith("Attempt 1 of task") and sentence.endswith("failed and is retried: No luck.")
    lake.services.tasks.reaper.run_once(now=datetime.now(UTC) + timedelta(hours=1))
    assert fail()[0][0] == "paused", "a job in order stops at a task that failed"
    assert [code for code, _ in explained(lake, "sample_raw")] == ["paused", "failed", "empty"]


@pytest.mark.proves("X.7")
def test_explain_calls_a_canceled_task_canceled(lake: Lake):
    lake.deploy(BRONZE, max_attempts=2)
    id = lake.run("load")
    task = lake.take_one()
    lake.services.tasks.cancels.cancel(lake.admin, id)
    lake.complete(Completion(fence=task.fence, outcome=Outcome.CANCELED))
    assert [code for code, _ in explained(lake, "sample_raw")] == ["canceled", "empty"]


@pytest.mark.proves("G1.6")
def test_a_run_keeps_the_dag_version_that_it_ran_under(lake: Lake):
    lake.deploy(BRONZE, max_attempts=2)
    load(lake, 1)
    lake.deploy(BRONZE, max_attempts=5)
    load(lake, 2)
    runs = lake.services.tasks.views.runs(lake.admin, dag=None, job=None, status=None, limit=9, before=None).items
    assert [run.dag_version for run in runs] == [2, 1]
    assert [lake.services.explaining.run(lake.admin, run.run_id).dag_version for run in runs] == [2, 1]
    detail = lake.services.tasks.views.task(lake.admin, runs[1].task_id)
    assert [attempt.dag_version for attempt in detail.attempts] == [1]
    versions = lake.services.explaining.versions(lake.admin, "sample_raw", before=None, limit=9).items
    assert [part.dag_version for version in versions for part in version.parts] == [2, 1], "also of a version, whatever is active now"
