"""Readers by roles by datasets, on every path that reads, over HTTP. The people and their rights are made by the admin commands alone."""

import json
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from unittest.mock import patch
from uuid import UUID

import pytest
from support.commands import Commands
from support.compactions import OldIds, by_arrow
from support.controls import failed
from support.databases import fresh_database
from support.queries import QueryLake, query_lake
from support.registries import REPORTS, SAMPLE, fill

from tracelake.control.emission.service import Emission
from tracelake.control.emission.storing import into_repositories
from tracelake.control.records.service import Records, Tenant
from tracelake.control.records.validation import RecordValidation
from tracelake.embedded.postgres import EmbeddedPostgres
from tracelake_sdk.client import Client
from tracelake_sdk.errors import Forbidden, TracelakeError
from tracelake_sdk.errors.records import TenantMismatch
from tracelake_sdk.records import Aggregation, MetadataContext, MetadataRecord, MetadataTarget, PathFilter, RecordFilters, StoredRecord
from tracelake_sdk.records.repository.admission import RecordAdmission
from tracelake_sdk.records.repository.remote import RemoteRepository

pytestmark = [pytest.mark.proves("T5.1", "T5.2", "T5.3", "M2.4"), pytest.mark.xdist_group("readers")]

RAW, CLEAN, SALES = "sample_raw", "sample_clean", "sales"
ALL, NONE = frozenset({RAW, CLEAN, SALES}), frozenset[str]()
THEN = {RAW: "raw_then", CLEAN: "clean_then", SALES: "sales_then"}  # a snapshot of each


DAGS_OF_ALL = frozenset({"sample", "reports", "chores"})
CHORES = """
name: chores
jobs:
  - {name: tidy, activation: source, source: {kind: manual}, runtime: dispatcher, operator: noop}
"""  # a DAG without a dataset


@dataclass(frozen=True)
class Person:
    """Somebody, what their rows are, and what more they know of."""

    reads: frozenset[str]
    knows: frozenset[str] | None = None  # None: what they read
    dags: frozenset[str] = frozenset()
    creates: bool = False

    @property
    def known(self) -> frozenset[str]:
        return self.reads if self.knows is None else self.knows


PEOPLE = {
    "admin": Person(ALL, dags=DAGS_OF_ALL, creates=True),
    "wanda": Person(frozenset({RAW, CLEAN}), dags=frozenset({"sample"}), creates=True),  # created `sample`
    "walter": Person(NONE, creates=True),                                                # another writer
    "dora": Person(frozenset({RAW, CLEAN}), dags=frozenset({"sample"})),                 # may deploy `sample`
    "tom": Person(frozenset({SALES}), dags=frozenset({"reports", "chores"})),            # may trigger `reports` and `chores`
    "ada": Person(frozenset({SALES})),                                                   # her role reads `sales`
    "rex": Person(frozenset({CLEAN})),                                                   # the reserved role reads `sample_clean`
    "both": Person(frozenset({SALES, CLEAN})),                                           # has both roles
    "otto": Person(NONE, ALL, dags=DAGS_OF_ALL),                                         # an auditor knows and reads no row
    "board": Person(frozenset({SALES})),                                                 # a service with ada's role
}
# Somebody without a role, a service without the scope, and a worker may not even ask.
SHUT_OUT = ("nemo", "mute", "digger")


@dataclass(frozen=True)
class Org:
    lake: QueryLake
    tokens: dict[str, str]
    decisions: dict[str, str]                  # by dataset: a decision about it
    runs: dict[str, str]                       # by dataset: the run of that decision
    receipts: dict[str, tuple[str, str]]       # by dataset: the admin's query of it, and its statement
    tasks: dict[str, str]                      # by DAG: a task of it

    def client(self, name: str) -> Client:
        return self.lake.client(self.tokens[name])

    def repository(self, name: str) -> RemoteRepository:
        return RemoteRepository(self.lake.api_url, self.tokens[name])

    def uuid(self, name: str) -> str:
        return str(self.lake.one("SELECT dataset_id FROM dataset_name WHERE name = %s", name))


@pytest.fixture(scope="module")
def org(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Org]:
    """Once for all: the tests only look."""
    folder = tmp_path_factory.mktemp("org")
    with fresh_database(postgres) as database, query_lake(database, folder, waiting=64, patience_seconds=120, max_seconds=60) as lake:
        shell = Commands(lake.control.settings.home, lake.api_url)
        tokens = {"admin": _admin_token(lake)}
        _people(shell, tokens)
        wanda = Commands(lake.control.settings.home, lake.api_url, token=tokens["wanda"])
        wanda("deploy", "-", stdin=SAMPLE.format(name="sample", max_attempts=3))
        shell("deploy", "-", stdin=REPORTS)
        shell("admin", "grant", "add", "sample", "deploy", "deployers")
        shell("admin", "grant", "add", "reports", "trigger", "operators")
        shell("deploy", "-", stdin=CHORES)
        shell("admin", "grant", "add", "chores", "trigger", "operators")
        shell("admin", "read-roles", "set", SALES, "analysts")
        shell("admin", "read-roles", "set", CLEAN, "reader")
        for name in ALL:
            shell("rule", "add", name, "ROW_COUNT", ">= 1")
        fill(lake, 1, 2)
        lake.run("tidy", "chores")
        lake.complete(*[failed(task, retry=False) for task in lake.claim()])
        for name, then in THEN.items():
            shell("dataset", "pin", name, "--as", then)
        org = _facts(lake, tokens)
        _tell_records(org)
        yield org


def _admin_token(lake: QueryLake) -> str:
    return json.loads((lake.control.settings.home / "credentials.json").read_text())["admin_token"]


def _people(shell: Commands, tokens: dict[str, str]) -> None:
    for role in ("deployers", "operators", "analysts"):
        shell("admin", "role", "create", role)
    for name, roles in (
        ("wanda", ["writer"]), ("walter", ["writer"]), ("dora", ["deployers"]), ("tom", ["operators"]), ("ada", ["analysts"]), ("rex", ["reader"]),
        ("both", ["analysts"]), ("otto", ["auditor"]), ("nemo", []),
    ):  # fmt: skip
        shell("admin", "user", "create", name, *(word for role in roles for word in ("--role", role)))
        tokens[name] = shell.json("admin", "token", "create", name, "--user", name)["token"]
    shell("admin", "role", "add", "reader", "both")
    tokens["board"] = shell.json("admin", "token", "create", "board", "--service", "--scope", "read", "--scope", "operate", "--scope", "records:read", "--role", "analysts")["token"]
    tokens["mute"] = shell.json("admin", "token", "create", "mute", "--service", "--scope", "deploy", "--role", "analysts")["token"]
    tokens["digger"] = shell.json("admin", "token", "create", "digger", "--worker", "--pool", "default")["token"]


def _facts(lake: QueryLake, tokens: dict[str, str]) -> Org:
    with lake.client() as admin:
        decided = {promotion.dataset_name: promotion for promotion in admin.promotions.list().items}
        statements = {name: f"SELECT id, value FROM {name}" for name in ALL}
        receipts = {name: (str(admin.query(statement).receipt.id), statement) for name, statement in statements.items()}
        tasks = {task.dag: str(task.id) for task in admin.tasks.list().items}
    assert set(decided) == ALL
    return Org(lake, tokens, {name: str(decided[name].id) for name in ALL}, {name: decided[name].run_id for name in ALL}, receipts, tasks)


LAYERS = {RAW: "bronze", CLEAN: "silver", SALES: "gold"}
FREE = MetadataTarget(source_id="shop", schema="public", table="free")      # about no dataset
SHARED = MetadataTarget(source_id="shop", schema="public", table="shared")  # records about several, and about none
KIND = "ingestion_runtime"
PAYLOAD = {"duration_seconds": 1.5, "retries": 0, "outcome": "success", "window_start": None, "window_end": None, "slice_filter": []}
CONTEXT = MetadataContext(run_id="emitted", cluster="test", workspace="test", tenant="main")
ARCHIVED = patch("tracelake.control.records.validation.retention_class", return_value="archive_30")  # so that a later test can let them leave Postgres
LONG_AGO = RecordValidation(RecordAdmission(), OldIds(100))                                                     # as old as that needs
MINE = RecordFilters(kinds=[KIND], producer_id="matrix.v1")  # without the platform's own records


def own_target(org: Org, name: str) -> MetadataTarget:
    return MetadataTarget(source_id="lake", schema=LAYERS[name], table=org.uuid(name))


def named_target(name: str) -> MetadataTarget:
    return MetadataTarget(source_id="lake", schema=LAYERS[name], table=name)


def source_target(name: str) -> MetadataTarget:
    """Not the dataset itself, but what it was loaded from."""
    return MetadataTarget(source_id="shop", schema="public", table=f"{name}_source")


def _tell_records(org: Org) -> None:
    """Two records about each dataset, one by its target and one by what it names; one about a shared target each; and two about no dataset."""

    def emitted(target: MetadataTarget, name: str | None, minute: int) -> MetadataRecord:
        extras = {"dataset": {"uuid": org.uuid(name)}} if name else {}
        at = datetime(2026, 1, 1, 0, minute, tzinfo=UTC)
        return MetadataRecord(target=target, kind=KIND, payload=PAYLOAD | {"retries": minute}, produced_at=at, producer_id="matrix.v1", extras=extras)

    records = [emitted(FREE, None, 1), emitted(SHARED, None, 2)]
    for minute, name in enumerate(sorted(ALL), 10):
        own = emitted(own_target(org, name), None, minute)
        records += [own, emitted(source_target(name), name, minute), emitted(SHARED, name, minute).model_copy(update={"producer_id": f"matrix.{name}.v1"})]
    with ARCHIVED, patch.object(org.lake.control.records, "_validation", LONG_AGO), org.repository("admin") as repository:
        assert [result for result in repository.bulk_store(records, CONTEXT) if result.result != "stored"] == []
    # Another tenant's records about the same targets are nowhere.
    other = UUID(int=7)
    org.lake.query("INSERT INTO org (id, name) VALUES (%s, 'other')", other)
    elsewhere = CONTEXT.model_copy(update={"tenant": "other"})
    late = [record.model_copy(update={"produced_at": datetime(2026, 2, 1, tzinfo=UTC)}) for record in records]
    elder = Records(org.lake.control.database)
    with ARCHIVED, patch.object(elder, "_validation", LONG_AGO):
        elder.bulk_store(Tenant(other, "other"), late, elsewhere)


def about(records: Iterable[StoredRecord]) -> set[tuple[str, int]]:
    """Of whom they are, and which."""
    return {(stored.record.target.table, stored.record.payload["retries"]) for stored in records}


Recorded = Callable[[Org, RemoteRepository, str], object]
# About a dataset: visible to those who may read its rows, and for all others as if it had never been emitted.
RECORDS: dict[str, Recorded] = {
    "GET /v1/records/latest": lambda org, repository, name: repository.latest(own_target(org, name), KIND, CONTEXT),
    "GET /v1/records/latest by name": lambda org, repository, name: repository.latest(named_target(name), KIND, CONTEXT),
    "GET /v1/records/latest of its source": lambda org, repository, name: repository.latest(source_target(name), KIND, CONTEXT),
    "GET /v1/records/history": lambda org, repository, name: repository.history(own_target(org, name), KIND, CONTEXT).items,
    "GET /v1/records/history by name": lambda org, repository, name: repository.history(named_target(name), KIND, CONTEXT).items,
    "POST /v1/records/query": lambda org, repository, name: repository.query(MINE.model_copy(update={"source_id": "lake", "table": name}), CONTEXT).items,
    "POST /v1/records/query by run": lambda org, repository, name: [
        stored for stored in repository.query(MINE.model_copy(update={"run_id": "emitted"}), CONTEXT) if stored.record.target == own_target(org, name)
    ],
    "POST /v1/records/query by what it names": lambda org, repository, name: repository.query(
        MINE.model_copy(update={"where": [PathFilter.model_validate({"path": "extras.dataset.uuid", "op": "eq", "value": org.uuid(name)})]}), CONTEXT
    ).items,
    "POST /v1/records/aggregate": lambda org, repository, name: repository.aggregate(
        MINE.model_copy(update={"source_id": "lake", "table": name}), Aggregation(), CONTEXT
    )[0].records,
    "GET /v1/records/query": lambda org, repository, name: _get(org, repository, f"query?kinds={KIND}&source_id=lake&table={name}")["items"],
    "GET /v1/records/aggregate": lambda org, repository, name: _get(org, repository, f"aggregate?kinds={KIND}&source_id=lake&table={name}")[0]["records"],
}
# All that somebody sees, by each path that lists.
RECORD_LISTS: dict[str, Callable[[RemoteRepository], set[tuple[str, int]]]] = {
    "POST /v1/records/query": lambda repository: about(repository.query(MINE.model_copy(update={"producer_id": None, "limit": 10_000}), CONTEXT)),
    "GET /v1/records/tail": lambda repository: about(repository.tail(CONTEXT, kinds=[KIND]).items),
    "GET /v1/records/tail as a stream": lambda repository: about(next(iter(repository.follow(CONTEXT, kinds=[KIND]))).items),
}


def _get(org: Org, repository: RemoteRepository, path: str):
    """As somebody asks who has no SDK."""
    token = next(org.tokens[who] for who in org.tokens if org.tokens[who] in str(repository._http.headers["authorization"]))
    request = urllib.request.Request(f"{org.lake.api_url}/v1/records/{path}", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request) as answered:
        return json.load(answered)


def seen_by(org: Org, person: Person) -> set[tuple[str, int]]:
    minutes = dict(zip(sorted(ALL), range(10, 13), strict=True))
    seen = {(FREE.table, 1), (SHARED.table, 2)}
    for name in person.reads:
        seen |= {(org.uuid(name), minutes[name]), (f"{name}_source", minutes[name]), (SHARED.table, minutes[name])}
    return seen


def reading_dag(name: str) -> str:
    """A DAG that reads one dataset, whatever its layer."""
    layer = {RAW: "silver", CLEAN: "gold", SALES: "gold"}[name]
    more = f", {{from: {{dataset: {CLEAN}}}, trigger: false}}" if name == SALES else ""
    return f"""
name: hers
jobs:
  - name: read
    activation: reactive
    inputs: [{{from: {{dataset: {name}}}}}{more}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {{query: SELECT * FROM {name}}}
    outputs: [{{layer: {layer}, domain: d, owner: o}}]
    update_strategy: append
    unique_key: [id]
"""


Asking = Callable[[Org, Client, str], object]
# Answered for those who read the rows; for all others the dataset does not exist.
ROWS: dict[str, Asking] = {
    "POST /v1/query": lambda org, client, name: client.query(f"SELECT count(*) FROM {name}").rows,
    "POST /v1/query of a version": lambda org, client, name: client.query(f'SELECT count(*) FROM "{name}@1"').rows,
    "POST /v1/query of a snapshot": lambda org, client, name: client.query(f"SELECT count(*) FROM {THEN[name]}").rows,
    "POST /v1/query in a subquery": lambda org, client, name: client.query(f"WITH hidden AS (SELECT * FROM {name}) SELECT count(*) FROM hidden").rows,
    "POST /v1/queries/{id}/replay": lambda org, client, name: client.queries.replay(org.receipts[name][0], sql=org.receipts[name][1]).rows,
}
# Answered for those who may know of it.
FACTS: dict[str, Asking] = {
    "GET /v1/datasets/{name}": lambda org, client, name: client.datasets.get(name),
    "GET /v1/datasets/{name} by snapshot": lambda org, client, name: client.datasets.get(THEN[name]),
    "GET /v1/datasets/{name} by uuid": lambda org, client, name: client.datasets.get(org.lake.one("SELECT dataset_id FROM dataset_name WHERE name = %s", name)),
    "GET /v1/datasets/{name}/versions": lambda org, client, name: client.datasets.versions(name).items,
    "GET /v1/datasets/{name}/versions/{number}": lambda org, client, name: client.datasets.version(name, 1),
    "GET /v1/datasets/{name}/explain": lambda org, client, name: client.datasets.explain(name),
    "GET /v1/rules": lambda org, client, name: client.rules.list(dataset=name).items,
    "GET /v1/promotions": lambda org, client, name: client.promotions.list(dataset=name).items,
    "GET /v1/promotions/{decision}": lambda org, client, name: client.promotions.get(org.decisions[name]),
    "GET /v1/runs/{run_id}": lambda org, client, name: client.runs.get(org.runs[name]),
    "GET /v1/promotions/{decision} by run": lambda org, client, name: client.promotions.get(org.runs[name]),
}
# Lists, with the datasets that they name; each holds exactly what may be known of.
LISTS: dict[str, Callable[[Client], set[str | None]]] = {
    "GET /v1/datasets": lambda client: {dataset.name for dataset in client.datasets.list().items},
    "GET /v1/datasets by words": lambda client: {dataset.name for dataset in client.datasets.list(search="id value").items},
    "GET /v1/rules": lambda client: {rule.dataset_name for rule in client.rules.list().items},
    "GET /v1/promotions": lambda client: {promotion.dataset_name for promotion in client.promotions.list().items},
    "GET /v1/events": lambda client: {event.dataset_name for event in client.events.list().items},
    "GET /v1/runs": lambda client: {_of_job(run.job) for run in client.runs.list().items if run.job != "tidy"},
    "GET /v1/snapshots": lambda client: {snapshot.dataset for snapshot in client.snapshots.list()},
}
# Of DAGs, for those who have a right on one, and for auditors.
DAGS: dict[str, Callable[[Org, Client, str], object]] = {
    "GET /v1/dags/{dag}": lambda org, client, dag: client.dags.get(dag),
    "GET /v1/tasks/{task_id}": lambda org, client, dag: client.tasks.get(org.tasks[dag]),
    "GET /v1/tasks/{task_id}/caused": lambda org, client, dag: client.tasks.caused(org.tasks[dag]),
}
DAG_LISTS: dict[str, Callable[[Client], set[str]]] = {
    "GET /v1/dags": lambda client: {dag.name for dag in client.dags.list()},
    "GET /v1/tasks": lambda client: {task.dag for task in client.tasks.list().items},
}
# Of runs of a job without outputs, for those who may look at its DAG.
CHORE = MetadataTarget(source_id="jobs", schema="chores", table="tidy")
RUNS: dict[str, Callable[[Client, RemoteRepository], object]] = {
    "GET /v1/runs": lambda client, repository: client.runs.list(dag="chores").items,
    "GET /v1/records/latest": lambda client, repository: repository.latest(CHORE, "task_run", CONTEXT),
    "GET /v1/records/history": lambda client, repository: repository.history(CHORE, "task_run", CONTEXT).items,
    "POST /v1/records/query": lambda client, repository: repository.query(RecordFilters(kinds=["task_run"], source_id="jobs"), CONTEXT).items,
    "POST /v1/records/aggregate": lambda client, repository: repository.aggregate(RecordFilters(kinds=["task_run"], source_id="jobs"), Aggregation(), CONTEXT)[0].records,
    "GET /v1/records/targets": lambda client, repository: CHORE in repository.targets(CONTEXT, "task_run"),
    "GET /v1/records/tail": lambda client, repository: "chores" in str(repository.tail(CONTEXT, kinds=["task_run"], limit=10_000).items),
}
# Of no dataset: who calls, what holds for layers, and a caller's own questions; and what only admins are shown.
ELSEWHERE = {
    "GET /v1/me", "GET /v1/kinds", "GET /v1/kinds/{name}", "GET /v1/policies", "GET /v1/queries", "GET /v1/queries/{id}", "GET /v1/saved-queries", "GET /v1/saved-queries/{name}",
    "GET /v1/admin/audit", "GET /v1/admin/grants", "GET /v1/admin/locations", "GET /v1/admin/orgs", "GET /v1/admin/read-roles/{dataset}", "GET /v1/admin/roles", "GET /v1/admin/tokens", "GET /v1/admin/users",
    "GET /healthz", "GET /readyz", "GET /metrics", "GET /internal/task-fetch",
}  # fmt: skip


def _of_job(job: str) -> str:
    return {"load": RAW, "clean": CLEAN, "sum_up": SALES}[job]


def answer(ask: Callable[[], object]) -> str:
    """`yes`, or the code of the refusal; an empty list does not count as an answer."""
    try:
        return "yes" if ask() else "nothing"
    except TracelakeError as error:
        return error.code


def test_every_reader_sees_what_its_roles_let_it_see_on_every_path(org: Org):
    wrong: list[tuple[str, str, str, str]] = []

    def expect(who: str, path: str, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            wrong.append((who, path, what, f"{found} instead of {wanted}"))

    for who, person in PEOPLE.items():
        with org.client(who) as client:
            for name in sorted(ALL):
                for path, ask in ROWS.items():
                    expect(who, path, name, answer(lambda ask=ask, name=name: ask(org, client, name)), "yes" if name in person.reads else "not_found")
                for path, ask in FACTS.items():
                    expect(who, path, name, answer(lambda ask=ask, name=name: ask(org, client, name)), "yes" if name in person.known else "not_found")
            for path, listed in LISTS.items():
                expect(who, path, "", listed(client), set(person.known))
            for dag in sorted(DAGS_OF_ALL):
                for path, look in DAGS.items():
                    expect(who, path, dag, answer(lambda look=look, dag=dag: look(org, client, dag)), "yes" if dag in person.dags else "not_found")
            for path, dags in DAG_LISTS.items():
                expect(who, path, "", dags(client), set(person.dags))
    assert wrong == []


def test_a_run_of_a_job_without_outputs_is_there_for_those_who_may_look_at_its_dag(org: Org):
    control = org.lake.control
    assert Emission(control.database, into_repositories(control.record_repositories.repository_of), control.record_loops.installation).run_once() > 0
    for who, person in PEOPLE.items():
        with org.client(who) as client, org.repository(who) as repository:
            found = {path: answer(lambda ask=ask, c=client, r=repository: ask(c, r)) for path, ask in RUNS.items()}
            assert found == dict.fromkeys(RUNS, "yes" if "chores" in person.dags else "nothing"), who


def test_a_record_about_a_dataset_is_there_for_those_who_read_it_and_nowhere_else(org: Org):
    assert seen_wrongly(org) == []


@pytest.mark.proves("M2.4")
def test_a_compacted_record_is_readable_for_the_same_users_only(org: Org):
    assert replace(org.lake.control.compactor, compacting=by_arrow).compact()
    assert org.lake.one("SELECT count(*) FROM metadata_record WHERE kind = %s", KIND) == 0
    assert seen_wrongly(org) == []


def seen_wrongly(org: Org) -> list[tuple[str, str, str, object]]:
    """Who asked, where, about what, and what came that should not have."""
    wrong: list[tuple[str, str, str, object]] = []
    for who, person in PEOPLE.items():
        with org.repository(who) as repository:
            for name in sorted(ALL):
                for path, ask in RECORDS.items():
                    if (found := answer(lambda ask=ask, name=name: ask(org, repository, name))) != ("yes" if name in person.reads else "nothing"):
                        wrong.append((who, path, name, found))
            seen = seen_by(org, person)
            for path, listed in RECORD_LISTS.items():
                if (found := listed(repository)) != seen:
                    wrong.append((who, path, "", found ^ seen))
            counted = repository.aggregate(MINE.model_copy(update={"producer_id": None}), Aggregation(), CONTEXT)[0].records
            if counted != len(seen):
                wrong.append((who, "POST /v1/records/aggregate", "", counted))
            targets = {target.table for target in repository.targets(CONTEXT, KIND)}
            if targets != {table for table, _ in seen}:
                wrong.append((who, "GET /v1/records/targets", "", targets))
            newest = repository.latest(SHARED, KIND, CONTEXT)
            if newest is None or (SHARED.table, newest.record.payload["retries"]) != max((one for one in seen if one[0] == SHARED.table), key=lambda one: one[1]):
                wrong.append((who, "GET /v1/records/latest", "shared", newest))
    return wrong


def test_another_tenant_is_refused_by_name_and_hidden(org: Org):
    other = CONTEXT.model_copy(update={"tenant": "other"})
    for who in PEOPLE:
        with org.repository(who) as repository:
            for ask in (
                lambda r=repository: r.latest(FREE, KIND, other), lambda r=repository: r.history(FREE, KIND, other), lambda r=repository: r.query(MINE, other),
                lambda r=repository: r.aggregate(MINE, Aggregation(), other), lambda r=repository: r.targets(other), lambda r=repository: r.tail(other),
            ):  # fmt: skip
                with pytest.raises(TenantMismatch):
                    ask()
            assert {stored.context.tenant for stored in repository.query(RecordFilters(limit=10_000), CONTEXT)} <= {"main"}
    with org.repository("admin") as repository, pytest.raises(TenantMismatch):
        repository.bulk_store([], other)


def test_a_dag_reads_what_its_deployer_reads(org: Org):
    for who, person in PEOPLE.items():
        with org.client(who) as client:
            for name in sorted(ALL):
                found = answer(lambda name=name: client.dags.deploy(reading_dag(name), dry_run=True))
                reads = {name} | ({CLEAN} if name == SALES else set())
                wanted = "forbidden" if who == "board" or not person.creates else "yes" if reads <= person.reads else "input_not_readable"
                assert found == wanted, (who, name)


def test_who_pins_a_version_reads_it(org: Org):
    for who, person in PEOPLE.items():
        with org.client(who) as client:
            for name in sorted(ALL):
                wanted = "yes" if name in person.reads else "forbidden" if name in person.known else "not_found"
                assert answer(lambda name=name: client.snapshots.pin(name, "mine", dry_run=True)) == wanted, (who, name)


def test_those_who_may_not_ask_are_refused_everywhere(org: Org):
    for who in SHUT_OUT:
        with org.client(who) as client:
            asked = [*(lambda ask=ask: ask(org, client, SALES) for ask in (*ROWS.values(), *FACTS.values()))]
            asked += [lambda listed=listed: listed(client) for listed in (*LISTS.values(), *DAG_LISTS.values())]
            asked += [lambda look=look: look(org, client, "sample") for look in DAGS.values()]
            with org.repository(who) as repository:
                asked += [lambda ask=ask, r=repository: ask(org, r, SALES) for path, ask in RECORDS.items() if not path.startswith("GET /v1/records/query")
                          and not path.startswith("GET /v1/records/aggregate")]
                asked += [lambda listed=listed, r=repository: listed(r) for listed in RECORD_LISTS.values()]
                asked += [lambda r=repository: r.targets(CONTEXT), lambda r=repository: r.kinds(), lambda r=repository: r.kind(KIND)]
                for ask in asked:
                    with pytest.raises(Forbidden):
                        ask()


@pytest.mark.proves("T5.2", "T5.3")
@pytest.mark.parametrize("who", PEOPLE)
def test_the_subscribers_of_an_event_are_shown_to_those_who_see_their_dag(org: Org, who: str):
    with org.client(who) as client:
        emitted = {line.job.split("/")[0] for event in client.events.list().items for line in event.ledger}
    assert emitted == {dag for dag, read in {"sample": RAW, "reports": CLEAN}.items() if dag in PEOPLE[who].dags and read in PEOPLE[who].known}


def test_what_a_refusal_says_is_what_it_says_of_a_name_that_is_not_there(org: Org):
    with org.client("ada") as client:
        for path, ask in (*ROWS.items(), *FACTS.items()):
            if "replay" in path or "decision" in path or "run_id" in path or "uuid" in path or "snapshot" in path:
                continue
            there, nowhere = (_detail(lambda ask=ask, name=name: ask(org, client, name)).replace(name, "…") for name in (CLEAN, "sample_klean"))
            assert there == nowhere, path


def _detail(ask: Callable[[], object]) -> str:
    with pytest.raises(TracelakeError) as refused:
        ask()
    return refused.value.detail


def test_no_path_that_reads_is_left_out(org: Org):
    with urllib.request.urlopen(f"{org.lake.api_url}/openapi.json") as answered:
        paths = json.load(answered)["paths"]
    there = {f"GET {path}" for path, methods in paths.items() if "get" in methods}
    tried = {" ".join(path.split()[:2]) for path in (*ROWS, *FACTS, *LISTS, *DAGS, *DAG_LISTS, *RECORDS, *RECORD_LISTS)} | {"GET /v1/records/targets"}
    assert there - {path for path in tried if path.startswith("GET")} == ELSEWHERE
    assert {path for path in tried if path.startswith("POST")} == {
        "POST /v1/query", "POST /v1/queries/{id}/replay", "POST /v1/records/query", "POST /v1/records/aggregate",
    }  # fmt: skip
