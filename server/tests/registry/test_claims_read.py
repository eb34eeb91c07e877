"""A DAG reads other DAGs' datasets with the roles of its activator, at deploy and again at each claim."""

import pytest
from support.controls import NOOP, ControlPlane, succeeded
from support.lakes import Lake
from support.lines import load, tasks_of, waiting
from support.people import service, user
from support.registries import REPORTS, deploy_sample, fill

from tracelake.control.access.callers import Caller
from tracelake_sdk.datasets.scopes import CursorScope
from tracelake_sdk.errors import NotFound
from tracelake_sdk.errors.dags import DagDatasetUnknown, InputNotReadable
from tracelake_sdk.tasks.events import EventDraft

pytestmark = [pytest.mark.proves("T5.2"), pytest.mark.proves("T5.3")]


def outcomes(lake: ControlPlane, job: str) -> list[tuple]:
    return lake.query(
        "SELECT task.state::text, task.attempt, attempt.outcome::text, attempt.error_class, run.status::text FROM task"
        " JOIN generation ON generation.id = task.generation_id JOIN job_key ON job_key.id = job_key_id"
        " LEFT JOIN task_attempt AS attempt ON attempt.task_id = task.id LEFT JOIN run_history AS run ON run.task_id = task.id AND run.attempt = attempt.attempt"
        " WHERE job_key.name = %s ORDER BY task.id",
        job,
    )


@pytest.fixture
def wanda(lake: Lake) -> Caller:
    deploy_sample(lake)
    lake.services.administration.create_role(lake.admin, "analysts")
    lake.services.reading.set_read_roles(lake.admin, "sample_clean", ["analysts"])
    return user(lake, "wanda", "writer", "analysts")


def test_what_a_deployer_may_not_read_is_refused_with_its_name_and_place(lake: Lake, wanda: Caller):
    walter = user(lake, "walter", "writer")
    with pytest.raises(InputNotReadable) as refused:
        lake.services.deploys.deploy(walter, REPORTS)
    assert "`sample_clean`" in refused.value.detail
    assert (refused.value.code, refused.value.extra["place"]) == ("input_not_readable", "jobs[0].inputs[0].from.dataset")
    with pytest.raises(DagDatasetUnknown) as unknown:
        lake.services.deploys.deploy(walter, REPORTS.replace("sample_clean", "sample_cleen"))
    assert "sample_clean" not in unknown.value.detail.replace("sample_cleen", ""), "what may not be read is not suggested"
    assert lake.one("SELECT count(*) FROM dag WHERE name = 'reports'") == 0
    assert lake.services.deploys.deploy(wanda, REPORTS).created
    assert lake.query("SELECT app_user.name FROM dag_activation JOIN app_user ON app_user.id = user_id JOIN dag ON dag.id = dag_id WHERE dag.name = 'reports'") == [("wanda",)]


@pytest.mark.parametrize("how", ["read role", "membership", "disabled"])
def test_a_task_with_an_unreadable_input_goes_to_no_worker_and_waits_for_the_permission(lake: Lake, wanda: Caller, how: str):
    lake.services.deploys.deploy(wanda, REPORTS)
    fill(lake, 1)
    assert outcomes(lake, "sum_up") == [("completed", 1, "succeeded", None, "SUCCESS")]
    match how:
        case "read role":
            lake.services.reading.set_read_roles(lake.admin, "sample_clean", [])
        case "membership":
            lake.services.administration.remove_member(lake.admin, "analysts", "wanda")
        case "disabled":
            lake.services.administration.disable_user(lake.admin, "wanda")
    load(lake, 2)
    [clean] = tasks_of(lake, "clean")
    lake.write(clean, [(2, "x")])
    lake.move()
    assert tasks_of(lake, "sum_up") == []
    assert outcomes(lake, "sum_up")[1:] == [("queued", 1, "failed", "input_not_readable", "FAILED")]
    assert waiting(lake, "sum_up") == ["right"]
    [message] = lake.query("SELECT error_message FROM run_history WHERE status = 'FAILED'")[0]
    assert "sample_clean" in message
    assert lake.one("SELECT count(*) FROM data_version WHERE dataset_id = (SELECT dataset_id FROM dataset_name WHERE name = 'sales')") == 1
    assert tasks_of(lake, "load") == [], "the queue is empty, and nothing waits for a lease"
    reasons = lake.services.explaining.explain(lake.admin, "sales").reasons
    assert [reason.code for reason in reasons] == ["retrying", "waiting", "behind", "serving"]
    assert reasons[1].sentence == "1 task of its job waits for a permission: the user or service that activated the DAG may not read an input or use a location of the job."
    assert reasons[1].remedy is not None and "deploy the DAG again" in reasons[1].remedy
    [status] = lake.services.tasks.views.status(lake.admin, "reports")
    assert status.jobs[0].tasks.waiting == {"right": 1}
    lake.services.tasks.reaper.run_once()
    assert waiting(lake, "sum_up") == ["right"], "it is not tried again before anything has changed"
    match how:
        case "read role":
            lake.services.reading.set_read_roles(lake.admin, "sample_clean", ["analysts"])
        case "membership":
            lake.services.administration.add_member(lake.admin, "analysts", "wanda")
        case "disabled":
            lake.services.deploys.deploy(lake.admin, REPORTS)
    lake.services.tasks.reaper.run_once()
    [made] = tasks_of(lake, "sum_up")
    assert lake.write(made, [(2, "x")]).result == "committing"
    lake.move()
    assert lake.one("SELECT count(*) FROM data_version WHERE dataset_id = (SELECT dataset_id FROM dataset_name WHERE name = 'sales')") == 2
    assert lake.query("SELECT failures FROM task WHERE id = %s", made.fence.task_id) == [(0,)], "lacking a right costs no attempt"


def test_a_user_who_may_read_takes_the_dag_over_with_the_same_definition(lake: Lake, wanda: Caller):
    lake.services.deploys.deploy(wanda, REPORTS)
    assert lake.services.deploys.deploy(lake.admin, REPORTS).created is False
    assert lake.one("SELECT count(*) FROM dag_activation") == 2, "as long as it reads, the same definition makes nothing"
    lake.services.administration.disable_user(lake.admin, "wanda")
    assert lake.services.deploys.deploy(lake.admin, REPORTS).created is False
    assert lake.query(
        "SELECT app_user.name, previous_id IS NOT NULL FROM dag_activation JOIN app_user ON app_user.id = user_id JOIN dag ON dag.id = dag_id"
        " WHERE dag.name = 'reports' ORDER BY at"
    ) == [("wanda", False), ("admin", True)]
    fill(lake, 1)
    assert outcomes(lake, "sum_up") == [("completed", 1, "succeeded", None, "SUCCESS")]


def test_a_dag_that_a_service_activated_reads_with_the_tokens_roles(lake: Lake, wanda: Caller):
    made = service(lake, "ci", scopes=("deploy",), roles=("writer", "analysts"))
    lake.services.deploys.deploy(made, REPORTS)
    fill(lake, 1)
    lake.services.administration.revoke_token(lake.admin, made.token_id)
    load(lake, 2)
    [clean] = tasks_of(lake, "clean")
    lake.write(clean, [(2, "x")])
    lake.move()
    assert tasks_of(lake, "sum_up") == []
    assert [(state, error) for state, _, _, error, _ in outcomes(lake, "sum_up")] == [("completed", None), ("queued", "input_not_readable")]


def test_a_dag_reads_its_own_datasets_with_any_activator(lake: Lake, wanda: Caller):
    walter = user(lake, "walter", "writer")
    lake.services.deploys.deploy(walter, NOOP.format(name="own", max_attempts=3))
    lake.services.administration.disable_user(lake.admin, "walter")
    lake.run_source("own")
    [task] = lake.claim()
    assert task.payload.dag.name == "own"


def test_events_without_rows_are_read_with_rights_too(control_plane: ControlPlane):
    published = NOOP + "publish: {{emitted: {{job: start, output_index: 0}}}}\n"
    control_plane.deploy(published)
    wanda = user(control_plane, "wanda", "writer", "analysts")
    control_plane.services.reading.set_read_roles(control_plane.admin, "emitted", ["analysts"])
    hears = """
name: hears
jobs:
  - name: listen
    activation: reactive
    inputs: [{from: {dataset: emitted}}]
    execution_strategy: PerUpdate
    runtime: dispatcher
    operator: noop
"""
    control_plane.services.deploys.deploy(wanda, hears)
    control_plane.services.reading.set_read_roles(control_plane.admin, "emitted", [])
    control_plane.run_source()
    [task] = control_plane.claim()
    control_plane.complete(succeeded(task, events=[EventDraft(output=0, scope=CursorScope(value=5))]))
    claimed = control_plane.claim()
    assert [one.payload.job.name for one in claimed] == ["end"]
    assert control_plane.claim() == []
    assert outcomes(control_plane, "listen") == [("queued", 1, "failed", "input_not_readable", "FAILED")]
    with pytest.raises(NotFound):
        control_plane.services.tasks.views.status(user(control_plane, "rex", "reader"), "hears")
