"""Readers by roles by datasets, on every path that reads, over HTTP. The people and their rights are made by the admin commands alone."""

import json
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from support.databases import fresh_database
from support.queries import QueryLake, query_lake
from support.registries import REPORTS, SAMPLE, fill

from tracelake.embedded.postgres import EmbeddedPostgres
from tracelake_sdk.client import Client
from tracelake_sdk.errors import Forbidden, TracelakeError

from .test_cli import Shell

pytestmark = [pytest.mark.proves("T5.1", "T5.2", "T5.3"), pytest.mark.xdist_group("readers")]

RAW, CLEAN, SALES = "sample_raw", "sample_clean", "sales"
ALL, NONE = frozenset({RAW, CLEAN, SALES}), frozenset[str]()
THEN = {RAW: "raw_then", CLEAN: "clean_then", SALES: "sales_then"}  # a snapshot of each


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
    "admin": Person(ALL, dags=frozenset({"sample", "reports"}), creates=True),
    "wanda": Person(frozenset({RAW, CLEAN}), dags=frozenset({"sample"}), creates=True),  # created `sample`
    "walter": Person(NONE, creates=True),                                                # another writer
    "dora": Person(frozenset({RAW, CLEAN}), dags=frozenset({"sample"})),                 # may deploy `sample`
    "tom": Person(frozenset({SALES}), dags=frozenset({"reports"})),                      # may trigger `reports`
    "ada": Person(frozenset({SALES})),                                                   # her role reads `sales`
    "rex": Person(frozenset({CLEAN})),                                                   # the reserved role reads `sample_clean`
    "both": Person(frozenset({SALES, CLEAN})),                                           # has both roles
    "otto": Person(NONE, ALL, dags=frozenset({"sample", "reports"})),                    # an auditor knows and reads no row
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


@pytest.fixture(scope="module")
def org(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Org]:
    """Once for all: the tests only look."""
    folder = tmp_path_factory.mktemp("org")
    with fresh_database(postgres) as database, query_lake(database, folder, waiting=64, patience_seconds=120, max_seconds=60) as lake:
        shell = Shell(lake.control.settings.home, lake.api_url)
        tokens = {"admin": _admin_token(lake)}
        _people(shell, tokens)
        wanda = Shell(lake.control.settings.home, lake.api_url)
        wanda.environment |= {"TRACELAKE_TOKEN": tokens["wanda"]}
        wanda("deploy", "-", stdin=SAMPLE.format(name="sample", max_attempts=3))
        shell("deploy", "-", stdin=REPORTS)
        shell("admin", "grant", "add", "sample", "deploy", "deployers")
        shell("admin", "grant", "add", "reports", "trigger", "operators")
        shell("admin", "read-roles", "set", SALES, "analysts")
        shell("admin", "read-roles", "set", CLEAN, "reader")
        for name in ALL:
            shell("rule", "add", name, "ROW_COUNT", ">= 1")
        fill(lake, 1, 2)
        for name, then in THEN.items():
            shell("dataset", "pin", name, "--as", then)
        yield _facts(lake, tokens)


def _admin_token(lake: QueryLake) -> str:
    return json.loads((lake.control.settings.home / "credentials.json").read_text())["admin_token"]


def _people(shell: Shell, tokens: dict[str, str]) -> None:
    for role in ("deployers", "operators", "analysts"):
        shell("admin", "role", "create", role)
    for name, roles in (
        ("wanda", ["writer"]), ("walter", ["writer"]), ("dora", ["deployers"]), ("tom", ["operators"]), ("ada", ["analysts"]), ("rex", ["reader"]),
        ("both", ["analysts"]), ("otto", ["auditor"]), ("nemo", []),
    ):  # fmt: skip
        shell("admin", "user", "create", name, *(word for role in roles for word in ("--role", role)))
        tokens[name] = shell.json("admin", "token", "create", name, "--user", name)["token"]
    shell("admin", "role", "add", "reader", "both")
    tokens["board"] = shell.json("admin", "token", "create", "board", "--service", "--scope", "read", "--scope", "operate", "--role", "analysts")["token"]
    tokens["mute"] = shell.json("admin", "token", "create", "mute", "--service", "--scope", "deploy", "--role", "analysts")["token"]
    tokens["digger"] = shell.json("admin", "token", "create", "digger", "--worker", "--pool", "default")["token"]


def _facts(lake: QueryLake, tokens: dict[str, str]) -> Org:
    with lake.client() as admin:
        decided = {promotion.dataset_name: promotion for promotion in admin.promotions().items}
        statements = {name: f"SELECT id, value FROM {name}" for name in ALL}
        receipts = {name: (str(admin.query(statement).receipt.id), statement) for name, statement in statements.items()}
        tasks = {task.dag: str(task.id) for task in admin.tasks().items}
    assert set(decided) == ALL
    return Org(lake, tokens, {name: str(decided[name].id) for name in ALL}, {name: decided[name].run_id for name in ALL}, receipts, tasks)


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
    "POST /v1/queries/{id}/replay": lambda org, client, name: client.replay(org.receipts[name][0], sql=org.receipts[name][1]).rows,
}
# Answered for those who may know of it.
FACTS: dict[str, Asking] = {
    "GET /v1/datasets/{name}": lambda org, client, name: client.dataset(name),
    "GET /v1/datasets/{name} by snapshot": lambda org, client, name: client.dataset(THEN[name]),
    "GET /v1/datasets/{name} by uuid": lambda org, client, name: client.dataset(org.lake.one("SELECT dataset_id FROM dataset_name WHERE name = %s", name)),
    "GET /v1/datasets/{name}/versions": lambda org, client, name: client.versions(name).items,
    "GET /v1/datasets/{name}/versions/{number}": lambda org, client, name: client.version(name, 1),
    "GET /v1/datasets/{name}/explain": lambda org, client, name: client.explain(name),
    "GET /v1/rules": lambda org, client, name: client.rules(dataset=name).items,
    "GET /v1/promotions": lambda org, client, name: client.promotions(dataset=name).items,
    "GET /v1/promotions/{decision}": lambda org, client, name: client.promotion(org.decisions[name]),
    "GET /v1/promotions/{decision} by run": lambda org, client, name: client.promotion(org.runs[name]),
}
# Lists, with the datasets that they name; each holds exactly what may be known of.
LISTS: dict[str, Callable[[Client], set[str | None]]] = {
    "GET /v1/datasets": lambda client: {dataset.name for dataset in client.datasets().items},
    "GET /v1/datasets by words": lambda client: {dataset.name for dataset in client.datasets(search="id value").items},
    "GET /v1/rules": lambda client: {rule.dataset_name for rule in client.rules().items},
    "GET /v1/promotions": lambda client: {promotion.dataset_name for promotion in client.promotions().items},
    "GET /v1/events": lambda client: {event.dataset_name for event in client.events().items},
    "GET /v1/runs": lambda client: {_of_job(run.job) for run in client.runs().items},
    "GET /v1/snapshots": lambda client: {snapshot.dataset for snapshot in client.snapshots()},
}
# Of DAGs, for those who have a right on one, and for auditors.
DAGS: dict[str, Callable[[Org, Client, str], object]] = {
    "GET /v1/dags/{dag}": lambda org, client, dag: client.dag(dag),
    "GET /v1/tasks/{task_id}": lambda org, client, dag: client.task(org.tasks[dag]),
}
DAG_LISTS: dict[str, Callable[[Client], set[str]]] = {
    "GET /v1/dags": lambda client: {dag.name for dag in client.dags()},
    "GET /v1/tasks": lambda client: {task.dag for task in client.tasks().items},
}
# Of no dataset: who calls, what holds for layers, and a caller's own questions; and what only admins are shown.
ELSEWHERE = {
    "GET /v1/me", "GET /v1/policies", "GET /v1/queries", "GET /v1/queries/{id}", "GET /v1/saved-queries", "GET /v1/saved-queries/{name}",
    "GET /v1/admin/audit", "GET /v1/admin/grants", "GET /v1/admin/read-roles/{dataset}", "GET /v1/admin/roles", "GET /v1/admin/tokens", "GET /v1/admin/users",
    "GET /healthz", "GET /readyz", "GET /metrics", "GET /internal/task-fetch",
}  # fmt: skip


def _of_job(job: str) -> str:
    return {"load": RAW, "clean": CLEAN, "sum_up": SALES}[job]


def answer(ask: Callable[[], object]) -> str:
    """`yes`, or the code of the refusal; an empty list is no answer."""
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
            for dag in ("sample", "reports"):
                for path, look in DAGS.items():
                    expect(who, path, dag, answer(lambda look=look, dag=dag: look(org, client, dag)), "yes" if dag in person.dags else "not_found")
            for path, dags in DAG_LISTS.items():
                expect(who, path, "", dags(client), set(person.dags))
    assert wrong == []


def test_a_dag_reads_what_its_deployer_reads(org: Org):
    for who, person in PEOPLE.items():
        with org.client(who) as client:
            for name in sorted(ALL):
                found = answer(lambda name=name: client.deploy(reading_dag(name), dry_run=True))
                reads = {name} | ({CLEAN} if name == SALES else set())
                wanted = "forbidden" if who == "board" else "input_not_readable" if not reads <= person.reads else "yes" if person.creates else "forbidden"
                assert found == wanted, (who, name)


def test_who_pins_a_version_reads_it(org: Org):
    for who, person in PEOPLE.items():
        with org.client(who) as client:
            for name in sorted(ALL):
                wanted = "yes" if name in person.reads else "forbidden" if name in person.known else "not_found"
                assert answer(lambda name=name: client.pin(name, "mine", dry_run=True)) == wanted, (who, name)


def test_those_who_may_not_ask_are_refused_everywhere(org: Org):
    for who in SHUT_OUT:
        with org.client(who) as client:
            asked = [*(lambda ask=ask: ask(org, client, SALES) for ask in (*ROWS.values(), *FACTS.values()))]
            asked += [lambda listed=listed: listed(client) for listed in (*LISTS.values(), *DAG_LISTS.values())]
            asked += [lambda look=look: look(org, client, "sample") for look in DAGS.values()]
            for ask in asked:
                with pytest.raises(Forbidden):
                    ask()


def test_what_a_refusal_says_is_what_it_says_of_a_name_that_is_not_there(org: Org):
    with org.client("ada") as client:
        for path, ask in (*ROWS.items(), *FACTS.items()):
            if "replay" in path or "decision" in path or "uuid" in path or "snapshot" in path:
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
    tried = {" ".join(path.split()[:2]) for path in (*ROWS, *FACTS, *LISTS, *DAGS, *DAG_LISTS)}
    assert there - {path for path in tried if path.startswith("GET")} == ELSEWHERE
    assert {path for path in tried if path.startswith("POST")} == {"POST /v1/query", "POST /v1/queries/{id}/replay"}
