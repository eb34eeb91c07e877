"""Another definition of an active DAG: what makes the same rows is activated, what does not is refused with the jobs named."""

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from support.controls import NOOP, ControlPlane, failed, fresh_claim_id, running_control, settings_for, succeeded
from support.databases import StateDatabase
from support.lakes import Lake
from support.lines import tasks_of
from support.people import begun_and_waiting, user
from support.registries import REPORTS, SAMPLE, deploy_reports, deploy_sample, fill

from tracelake.control.dags import store as dags
from tracelake.control.database.ids import new_id
from tracelake.control.registry import store as registry
from tracelake.control.tasks.new_tasks import WantedTask, make_tasks
from tracelake_sdk.access import DagRight
from tracelake_sdk.datasets.scopes import CursorScope
from tracelake_sdk.errors import NameTaken, RebuildNeeded
from tracelake_sdk.errors.dags import InputNotReadable
from tracelake_sdk.tasks import ClaimRequest, TriggerKind
from tracelake_sdk.tasks.events import EventDraft

from .test_deploying import TABLES, counts

ROWS = SAMPLE.format(name="sample", max_attempts=3)
NAMED = NOOP.format(name="sample", max_attempts=3)


@pytest.fixture
def lake(database: StateDatabase, tmp_path):
    with running_control(settings_for(database, tmp_path / "home", tasks={"housekeeping_seconds": 60}), database) as control_plane:
        control_plane.control.movers.stop()
        lake = Lake(control_plane.control, database)
        deploy_sample(lake)
        yield lake


def redeploy(control_plane: ControlPlane, text: str, **how):
    return control_plane.services.deploys.deploy(control_plane.admin, text, **how)


def facts(control_plane: ControlPlane) -> dict[str, list]:
    return {table: control_plane.query(f"SELECT * FROM {table} ORDER BY 1, 2") for table in TABLES if table not in ("dag",)}


KEPT = ("generation", "line", "dataset", "dataset_version", "job_key", "task", "dataset_event")


@pytest.mark.proves("T7.3")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max_attempts: 3", "max_attempts: 9"),
        ("unique_key: [id]\n  - name: clean", "unique_key: [id]\n    timeout_seconds: 77\n  - name: clean"),
        ("update_strategy: append\n    unique_key: [id]\npublish", "update_strategy: append\n    unique_key: [id]\n    scaling: {max_concurrency: 4}\npublish"),
        ("  sample_clean:", "  another:"),
        ("description: Clean rows", "description: Rows that are clean"),
        ("owner: test", "owner: somebody else"),
    ],
)
def test_a_definition_with_the_same_rows_is_the_next_version_and_everything_else_stays(lake: Lake, old: str, new: str):
    fill(lake, 1)
    lake.run()
    before = facts(lake)
    assert old in ROWS
    text = ROWS.replace(old, new)
    would = redeploy(lake, text, dry_run=True)
    assert facts(lake) == before
    deployed = redeploy(lake, text)
    assert deployed == would
    assert (deployed.version, deployed.created) == (2, True)
    after = facts(lake)
    assert {table: after[table] for table in KEPT} == {table: before[table] for table in KEPT}
    assert lake.query("SELECT dag_version.number, dataset_id, dataset_version_id FROM pointer JOIN dag_version ON dag_version.id = dag_version_id WHERE number = 2"
                      " EXCEPT SELECT 2, dataset_id, dataset_version_id FROM pointer JOIN dag_version ON dag_version.id = dag_version_id WHERE number = 1") == []
    assert lake.query("SELECT number FROM dag JOIN dag_version ON dag_version.id = active_version_id") == [(2,)]
    [(hashes, previous)] = lake.query("SELECT count(DISTINCT pointer_set_hash), count(previous_id) FROM dag_activation")
    assert (hashes, previous) == (1, 1)
    assert redeploy(lake, text).created is False
    [task] = tasks_of(lake, "load")
    assert task.payload.dag.version == 2
    assert lake.write(task, [(2, "b")], state={"rows": 2}).result == "committing"
    lake.move()
    assert [version for (version,) in lake.query("SELECT version FROM data_version JOIN dataset ON dataset.id = dataset_id WHERE layer = 'bronze' ORDER BY 1")] == [1, 2]


@pytest.mark.proves("T7.3")
@pytest.mark.parametrize(
    ("old", "new", "jobs"),
    [
        ("SELECT * FROM input_0", "SELECT id FROM input_0", {"edited": ["clean"]}),
        ("path: nowhere", "path: nowhere/else", {"edited": ["load"], "downstream": ["clean"]}),
        ("unique_key: [id]\npublish", "unique_key: [value]\npublish", {"edited": ["clean"]}),
        ("- name: clean", "- name: cleaner", {"new": ["cleaner"], "removed": ["clean"]}),
        ("description: Rows as they came", "description: Rows as they came, partition_by: {column: value}", {"edited": ["load"], "downstream": ["clean"]}),
    ],
)
def test_a_definition_with_other_rows_is_refused_with_its_jobs_and_nothing_is_stored(lake: Lake, old: str, new: str, jobs: dict):
    before = facts(lake)
    assert old in ROWS
    text = ROWS.replace(old, new).replace("job: clean,", "job: cleaner," if "cleaner" in new else "job: clean,")
    for dry_run in (True, False):
        with pytest.raises(RebuildNeeded) as refused:
            redeploy(lake, text, dry_run=dry_run)
        assert {reason: names for reason, names in refused.value.extra["jobs"].items() if names} == jobs
        for name in [name for names in jobs.values() for name in names]:
            assert name in refused.value.detail
        assert refused.value.detail.endswith("deploy it with another `name` and with other names under `publish`.")
    assert facts(lake) == before


def test_a_mixture_is_refused_whole(lake: Lake):
    before = facts(lake)
    with pytest.raises(RebuildNeeded):
        redeploy(lake, ROWS.replace("SELECT * FROM input_0", "SELECT id FROM input_0").replace("max_attempts: 3", "max_attempts: 5").replace("  sample_clean:", "  x:"))
    assert facts(lake) == before


@pytest.mark.proves("T7.2")
def test_an_earlier_definition_is_activated_again_and_makes_no_version(lake: Lake):
    other = ROWS.replace("max_attempts: 3", "max_attempts: 5")
    assert [redeploy(lake, text).version for text in (other, ROWS, other)] == [2, 1, 2]
    assert lake.one("SELECT count(*) FROM dag_version") == 2
    assert lake.one("SELECT count(*) FROM dag_activation") == 4
    assert lake.one("SELECT count(*) FROM dag_activation WHERE previous_id IS NOT NULL") == 3
    assert lake.services.tasks.views.status(lake.admin, "sample")[0].version == 2


@pytest.mark.proves("T4.3", "T4.5")
def test_names_are_given_moved_swapped_and_dropped_and_no_data_changes(lake: Lake):
    fill(lake, 1)
    ids = dict(lake.query("SELECT name, dataset_id FROM dataset_name"))
    raw, clean = ids["sample_raw"], ids["sample_clean"]
    facts_before = [lake.query(f"SELECT * FROM {table} ORDER BY 1, 2") for table in ("data_version", "dataset_version", "task", "dataset_event", "data_file")]
    head = ROWS[: ROWS.index("publish:")]

    def publish(**names: str) -> dict[str, str]:
        lines = "".join(f"  {name}: {{job: {job}, output_index: 0}}\n" for name, job in names.items())
        return redeploy(lake, head + (f"publish:\n{lines}" if lines else "")).published

    assert publish(sample_raw="clean", sample_clean="load") == {"sample_raw": str(clean), "sample_clean": str(raw)}
    assert lake.services.explaining.dataset(lake.admin, "sample_raw").job == "clean"
    assert lake.services.explaining.version(lake.admin, "sample_raw", 1).version == 1, "a name shows at once what is there"
    assert publish(sample_raw="clean") == {"sample_raw": str(clean)}
    assert lake.services.explaining.dataset(lake.admin, str(raw)).name is None
    assert publish() == {}
    assert dict(lake.query("SELECT name, dataset_id FROM dataset_name")) == {}
    assert publish(fresh="load") == {"fresh": str(raw)}
    with lake.control.database.transaction("test") as tx:
        [resolved] = registry.resolve(tx, lake.admin.org_id, ["fresh"])
    assert (resolved.dataset_id, resolved.version) == (raw, 1)
    assert [lake.query(f"SELECT * FROM {table} ORDER BY 1, 2") for table in ("data_version", "dataset_version", "task", "dataset_event", "data_file")] == facts_before


@pytest.mark.proves("T4.1")
def test_a_name_of_another_dag_is_not_taken_by_a_redeploy(lake: Lake):
    deploy_reports(lake)
    before = facts(lake)
    with pytest.raises(NameTaken):
        redeploy(lake, ROWS.replace("  sample_raw:", "  sales:"))
    assert facts(lake) == before


@pytest.mark.proves("T7.3")
def test_a_name_that_refers_to_another_dataset_needs_a_rebuild_of_its_reader(lake: Lake):
    deploy_reports(lake)
    redeploy(lake, ROWS.replace("  sample_clean:", "  sample_cleaned:"))
    redeploy(lake, SAMPLE.format(name="other", max_attempts=3).replace("  other_clean:", "  sample_clean:"))
    with pytest.raises(RebuildNeeded) as refused:
        redeploy(lake, REPORTS.replace("max_attempts: 3", "max_attempts: 4"))
    assert refused.value.extra["jobs"]["moved"] == ["sum_up"]


@pytest.mark.proves("T7.3")
def test_queued_tasks_follow_new_attempts_and_timeouts(control_plane: ControlPlane):
    control_plane.deploy(max_attempts=3)
    control_plane.run_source()
    redeploy(control_plane, NAMED.replace("max_attempts: 3", "max_attempts: 1, timeout_seconds: 5"))
    [task] = control_plane.claim()
    assert task.payload.job.timeout_seconds == 5
    control_plane.complete(failed(task))
    assert control_plane.query("SELECT state::text, failures FROM task") == [("failed", 1)]


def limited(turns: int | None) -> str:
    return NAMED if turns is None else NAMED.replace("operator: noop\n    outputs", f"operator: noop\n    scaling: {{max_concurrency: {turns}}}\n    outputs")


def waiting(control_plane: ControlPlane) -> list[tuple]:
    return control_plane.query("SELECT state::text, waits::text, ordinal IS NOT NULL FROM task ORDER BY id")


@pytest.mark.proves("T7.3")
def test_queued_tasks_follow_new_turns_up_and_down(control_plane: ControlPlane):
    redeploy(control_plane, limited(None))
    for _ in range(4):
        control_plane.run_source()
    [first] = control_plane.claim(1)
    redeploy(control_plane, limited(1))
    assert waiting(control_plane) == [("running", None, False), ("queued", None, True), ("queued", "turn", True), ("queued", "turn", True)]
    redeploy(control_plane, limited(2))
    assert [waits for _, waits, _ in waiting(control_plane)] == [None, None, None, "turn"]
    redeploy(control_plane, limited(1))
    assert [waits for _, waits, _ in waiting(control_plane)] == [None, None, "turn", "turn"]
    control_plane.complete(succeeded(first))
    done = 0
    while claimed := control_plane.claim():
        assert len(claimed) == 1, "one at a time"
        control_plane.complete(succeeded(claimed[0]))
        done += 1
    assert done == 3
    for _ in range(3):
        control_plane.run_source()
    assert [waits for _, waits, _ in waiting(control_plane)][4:] == [None, "turn", "turn"]
    redeploy(control_plane, limited(None))
    assert len(control_plane.claim()) == 3
    assert control_plane.one("SELECT count(*) FROM task WHERE ordinal IS NOT NULL AND state = 'running'") == 0


@pytest.mark.proves("T7.3")
def test_queued_tasks_go_to_the_new_pool_also_behind_its_watermark(control_plane: ControlPlane):
    control_plane.query("INSERT INTO worker_pool (id, org_id, runtime, name) SELECT %s, id, 'dispatcher', 'fast' FROM org", uuid4())
    redeploy(control_plane, NAMED)
    running, *queued = [control_plane.run_source() for _ in range(4)]
    [held] = control_plane.claim(1)
    control_plane.services.deploys.deploy(control_plane.admin, NAMED.replace("name: sample", "name: other").replace("operator: noop\n    outputs", "operator: noop\n    scaling: {worker_pool: fast}\n    outputs"))
    def claim(pool: str) -> list:
        request = ClaimRequest(worker="w", claim_id=fresh_claim_id(), runtime="dispatcher", room={pool: 10}, wait_s=0)
        return [claimed["fence"]["task_id"] for claimed in control_plane.services.tasks.claims.claim(control_plane.worker, request)]

    for _ in range(3):  # so that the new pool's watermark is past the old tasks' places
        control_plane.run_source("other")
    assert len(claim("fast")) == 3
    redeploy(control_plane, NAMED.replace("operator: noop\n    outputs", "operator: noop\n    scaling: {worker_pool: fast}\n    outputs"))
    assert claim("default") == []
    assert claim("fast") == queued, "in their order"
    control_plane.complete(failed(held))
    control_plane.query("UPDATE task SET due_at = now() WHERE id = %s", running)
    control_plane.services.tasks.reaper.run_once()
    assert claim("fast") == [running], "what ran goes there with its next attempt"


def test_a_task_that_is_emitted_during_a_redeploy_belongs_to_one_version(control_plane: ControlPlane):
    """Events and redeploys at once: every event has its task, in the order of turns, and the last definition counts."""
    redeploy(control_plane, limited(None))
    stop = threading.Event()
    errors: list[BaseException] = []

    def tell() -> None:
        try:
            while not stop.is_set():
                control_plane.run_source()
                for claimed in control_plane.claim(3):
                    control_plane.complete(succeeded(claimed, events=[EventDraft(output=0, scope=CursorScope(value=1))] if claimed.payload.job.name == "start" else []))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=tell) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(6):
        redeploy(control_plane, limited([1, 3, None, 2, None, 1][number]))
    stop.set()
    for thread in threads:
        thread.join(timeout=60)
    assert errors == []
    while claimed := control_plane.claim(100):
        for one in claimed:
            control_plane.complete(succeeded(one))
    assert control_plane.query("SELECT DISTINCT state::text FROM task") == [("completed",)]
    assert control_plane.one("SELECT count(*) FROM dataset_event WHERE id NOT IN (SELECT event_id FROM event_ledger)") == 0


@pytest.mark.proves("T5.3")
def test_a_dag_reads_with_the_permissions_of_its_last_deployer(lake: Lake):
    deploy_reports(lake)
    walter = user(lake, "walter", "writer", "analysts")
    lake.services.granting.grant(lake.admin, "reports", DagRight.DEPLOY, "analysts")
    other = REPORTS.replace("max_attempts: 3", "max_attempts: 4")
    with pytest.raises(InputNotReadable):
        lake.services.deploys.deploy(walter, other)
    lake.services.reading.set_read_roles(lake.admin, "sample_clean", ["analysts"])
    assert lake.services.deploys.deploy(walter, other).version == 2
    assert [name for (name,) in lake.query(
        "SELECT app_user.name FROM dag_activation JOIN app_user ON app_user.id = user_id JOIN dag ON dag.id = dag_id WHERE dag.name = 'reports' ORDER BY at"
    )] == ["admin", "walter"]


def test_a_paused_dag_stays_paused(control_plane: ControlPlane):
    control_plane.deploy()
    control_plane.run_source()
    control_plane.services.tasks.pauses.pause(control_plane.admin, "sample", None)
    redeploy(control_plane, limited(1))
    assert control_plane.claim() == []
    control_plane.services.tasks.pauses.resume(control_plane.admin, "sample", None)
    assert len(control_plane.claim()) == 1


def test_equal_redeploys_at_once_make_one_version(control_plane: ControlPlane):
    control_plane.deploy()
    versions: list[int] = []
    threads = [threading.Thread(target=lambda: versions.append(redeploy(control_plane, limited(2)).version)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert versions == [2] * 6
    assert counts(control_plane)["dag_version"] == 2
    assert counts(control_plane)["dag_activation"] == 2


def test_a_redeploy_waits_for_events_being_emitted_and_sees_their_tasks(control_plane: ControlPlane):
    control_plane.deploy()
    [dag] = control_plane.query("SELECT id FROM dag")[0]
    with ThreadPoolExecutor(1) as pool:
        with control_plane.control.database.transaction("test") as tx:
            dags.lock_routing_shared(tx, [dag])
            waits = begun_and_waiting(control_plane, tx, pool, lambda: redeploy(control_plane, limited(1)))
            job = dags.find_job(tx, org=control_plane.admin.org_id, dag="sample", job="start")
            make_tasks(tx, control_plane.admin.org_id, [WantedTask(new_id(), job, TriggerKind.REQUEST, new_id(), request={}) for _ in range(2)])
        assert waits.result(timeout=30).version == 2
    assert waiting(control_plane) == [("queued", None, True), ("queued", "turn", True)]
