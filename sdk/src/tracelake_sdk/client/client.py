"""The control plane as Python: one typed, synchronous client for people, services and the command line.

It finds the embedded system by itself. An error of the service arrives as the class that the service raised, and
every call may be repeated, so that a connection that breaks once is not the caller's concern.
"""

from __future__ import annotations  # what methods answer with is made when it is asked for, not at import

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast
from urllib.parse import quote
from uuid import UUID

import httpx2
from pydantic import TypeAdapter, ValidationError

import tracelake_sdk.errors.dags  # noqa: F401  # pyright: ignore[reportUnusedImport] every class that the service may raise must be known here
from tracelake_sdk.client.addresses import find_system
from tracelake_sdk.client.wire import CONNECT_SECONDS, Unanswered, Unreached, connect, error_in, send
from tracelake_sdk.dags import Layer
from tracelake_sdk.dags.status import DagStatus, Deployed, WhoAmI
from tracelake_sdk.datasets import Dataset, Explanation, Snapshot, Version
from tracelake_sdk.errors import Invalid, NotRunning, OutcomeUnknown, TracelakeError, Unavailable
from tracelake_sdk.pages import Page
from tracelake_sdk.queries import MORE_HEADER, RECEIPT_HEADER, QueryAnswer, QueryRun, RawAnswer, Receipt, ResultFormat, SavedQuery
from tracelake_sdk.queries.results import QueryResult
from tracelake_sdk.rules import RuleScope, Severity
from tracelake_sdk.rules.promotions import Enforcement, Policy, Promotion, Rule
from tracelake_sdk.tasks import Task, TaskState
from tracelake_sdk.tasks.cascades import Cascade
from tracelake_sdk.tasks.events import DatasetEvent
from tracelake_sdk.tasks.runs import Run, RunDetail, RunStatus

if TYPE_CHECKING:
    from tracelake_sdk.client.admin import Administration

Answer = TypeVar("Answer")
Item = TypeVar("Item")

FINAL = frozenset({TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED})

_WHOLE_PAGE = 500
_QUERY_TIMEOUT = httpx2.Timeout(3700, connect=CONNECT_SECONDS)  # the service itself ends a query that takes too long


class Client:
    """Everything a user may ask of one Tracelake system.

    The address is `api_url`, else TRACELAKE_API_URL, else that of the embedded system in TRACELAKE_HOME; the token is
    `token`, else TRACELAKE_TOKEN, else the first admin's of that home, which is sent to this machine alone. An embedded system that is
    starting has `patience` seconds to do so.
    """

    def __init__(self, api_url: str | None = None, token: str | None = None, *, timeout: float = 30.0, patience: float = 180.0) -> None:
        found, token = find_system(api_url, token, patience=patience)
        self.api_url: str = found
        self._http: httpx2.Client = connect(found, token, timeout=timeout)

    @cached_property
    def admin(self) -> Administration:
        """What an admin may ask."""
        from tracelake_sdk.client.admin import Administration  # noqa: PLC0415  # few need it

        return Administration(self._get, self._post)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def me(self) -> WhoAmI:
        return self._get(WhoAmI, "/v1/me")

    # DAGs
    def deploy(self, definition: str, *, dry_run: bool = False) -> Deployed:
        """Activate the DAG of this file's text; the same definition again makes nothing. A dry run only judges it."""
        return self._post(Deployed, "/v1/dags", {"definition": definition, "dry_run": dry_run})

    def dags(self) -> list[DagStatus]:
        return self._get(list[DagStatus], "/v1/dags")

    def dag(self, name: str) -> DagStatus:
        return self._get(DagStatus, f"/v1/dags/{_part(name)}")

    def pause(self, dag: str, job: str | None = None) -> DagStatus:
        """Hold the tasks of a DAG or of one of its jobs; running tasks continue."""
        return self._post(DagStatus, f"{_place(dag, job)}/pause")

    def resume(self, dag: str, job: str | None = None) -> DagStatus:
        """End a pause; jobs that were paused by themselves wait for a resume of their own."""
        return self._post(DagStatus, f"{_place(dag, job)}/resume")

    # Tasks
    def run(self, dag: str, job: str, request: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None) -> Task:
        """Ask a source job for a run, which is one task; the same key with the same request is the same task."""
        body = {"dag": dag, "job": job, "request": dict(request or {})}
        return self._post(Task, "/v1/runs", body, {"Idempotency-Key": idempotency_key or str(uuid.uuid4())})

    def task(self, id: UUID | str) -> Task:
        """A task with its attempts."""
        return self._get(Task, f"/v1/tasks/{_part(id)}")

    def cancel(self, id: UUID | str) -> Task:
        """A queued task is canceled at once, a running one is asked to stop; a final one is refused."""
        return self._post(Task, f"/v1/tasks/{_part(id)}/cancel")

    def caused(self, id: UUID | str) -> Cascade:
        """The task and everything that it caused, as of now."""
        return self._get(Cascade, f"/v1/tasks/{_part(id)}/caused")

    def follow(self, id: UUID | str, *, every: float = 0.2, patience: float = 30.0) -> Iterator[Task]:
        """The task now and whenever it was looked at again, up to its final state; a system that restarts has `patience` seconds to answer."""
        return _follow(lambda: self.task(id), lambda task: task.state in FINAL, every, patience)

    def follow_cascade(self, id: UUID | str, *, every: float = 0.2, patience: float = 30.0) -> Iterator[Cascade]:
        """The task with everything that it caused, until nothing more happens by itself."""
        return _follow(lambda: self.caused(id), lambda cascade: cascade.over, every, patience)

    # Lists, newest first
    def tasks(
        self, *, dag: str | None = None, job: str | None = None, state: TaskState | None = None, limit: int = 50, token: str | None = None
    ) -> Page[Task]:
        return self._get(Page[Task], "/v1/tasks", {"dag": dag, "job": job, "state": state, "limit": limit, "token": token})

    def events(
        self, *, dag: str | None = None, job: str | None = None, producer: UUID | str | None = None, limit: int = 50, token: str | None = None
    ) -> Page[DatasetEvent]:
        """Events with their ledger: what each subscriber made of them. `dag` and `job` name who told them, `producer` the very task."""
        return self._get(Page[DatasetEvent], "/v1/events", {"dag": dag, "job": job, "producer": producer, "limit": limit, "token": token})

    def runs(
        self, *, dag: str | None = None, job: str | None = None, status: RunStatus | None = None, limit: int = 50, token: str | None = None
    ) -> Page[Run]:
        """The run history: one row for each finished attempt and output."""
        return self._get(Page[Run], "/v1/runs", {"dag": dag, "job": job, "status": status, "limit": limit, "token": token})

    def run_detail(self, run_id: str) -> RunDetail:
        """One run with everything behind it: the versions it read, its rule and policy results, the decision, what its operator noted."""
        return self._get(RunDetail, f"/v1/runs/{_part(run_id)}")

    def iterate_tasks(self, *, dag: str | None = None, job: str | None = None, state: TaskState | None = None) -> Iterator[Task]:
        return _each(lambda token: self.tasks(dag=dag, job=job, state=state, limit=_WHOLE_PAGE, token=token))

    def iterate_events(self, *, dag: str | None = None, job: str | None = None, producer: UUID | str | None = None) -> Iterator[DatasetEvent]:
        return _each(lambda token: self.events(dag=dag, job=job, producer=producer, limit=_WHOLE_PAGE, token=token))

    def iterate_runs(self, *, dag: str | None = None, job: str | None = None, status: RunStatus | None = None) -> Iterator[Run]:
        return _each(lambda token: self.runs(dag=dag, job=job, status=status, limit=_WHOLE_PAGE, token=token))

    # LakeGuard: rules, policies, and what was decided
    def add_rule(
        self,
        dataset: UUID | str,
        type: str,
        expression: str,
        *,
        severity: Severity = Severity.FAIL,
        scope: RuleScope = RuleScope.BATCH,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Rule:
        """Define what good data means for a dataset, by its name or uuid. A dry run only judges it."""
        body = {"dataset": str(dataset), "type": type, "expression": expression, "severity": severity, "scope": scope, "dry_run": dry_run}
        return self._define(Rule, "/v1/rules", body, idempotency_key)

    def revise_rule(
        self,
        id: UUID | str,
        *,
        expression: str | None = None,
        severity: Severity | None = None,
        scope: RuleScope | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Rule:
        """Append a revision with what is given; a rule that was off is on again. One that says nothing new makes nothing."""
        body = {"expression": expression, "severity": severity, "scope": scope, "dry_run": dry_run}
        return self._define(Rule, f"/v1/rules/{_part(id)}/revise", body, idempotency_key)

    def deactivate_rule(self, id: UUID | str, *, dry_run: bool = False, idempotency_key: str | None = None) -> Rule:
        """Switch a rule off; what it said stays on record."""
        return self._define(Rule, f"/v1/rules/{_part(id)}/deactivate", {"dry_run": dry_run}, idempotency_key)

    def rules(self, *, dataset: UUID | str | None = None, inactive: bool = False, limit: int = 50, token: str | None = None) -> Page[Rule]:
        return self._get(Page[Rule], "/v1/rules", {"dataset": dataset, "inactive": inactive, "limit": limit, "token": token})

    def add_policy(
        self,
        layer: Layer,
        type: str,
        expression: str,
        *,
        enforcement: Enforcement = Enforcement.BLOCK,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Policy:
        """Define what the platform guarantees for every dataset of a layer. A dry run only judges it."""
        body = {"layer": layer, "type": type, "expression": expression, "enforcement": enforcement, "dry_run": dry_run}
        return self._define(Policy, "/v1/policies", body, idempotency_key)

    def revise_policy(
        self,
        id: UUID | str,
        *,
        expression: str | None = None,
        enforcement: Enforcement | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Policy:
        """Append a revision with what is given; a policy that was off is on again. One that says nothing new makes nothing."""
        body = {"expression": expression, "enforcement": enforcement, "dry_run": dry_run}
        return self._define(Policy, f"/v1/policies/{_part(id)}/revise", body, idempotency_key)

    def deactivate_policy(self, id: UUID | str, *, dry_run: bool = False, idempotency_key: str | None = None) -> Policy:
        """Switch a policy off; what it said stays on record."""
        return self._define(Policy, f"/v1/policies/{_part(id)}/deactivate", {"dry_run": dry_run}, idempotency_key)

    def policies(self, *, layer: Layer | None = None, inactive: bool = False, limit: int = 50, token: str | None = None) -> Page[Policy]:
        return self._get(Page[Policy], "/v1/policies", {"layer": layer, "inactive": inactive, "limit": limit, "token": token})

    def promotions(
        self, *, dataset: UUID | str | None = None, allowed: bool | None = None, limit: int = 50, token: str | None = None
    ) -> Page[Promotion]:
        """What was decided, with every result, the newest first."""
        return self._get(Page[Promotion], "/v1/promotions", {"dataset": dataset, "allowed": allowed, "limit": limit, "token": token})

    def promotion(self, decision: UUID | str) -> Promotion:
        """One decision, by its id or by the id of its run."""
        return self._get(Promotion, f"/v1/promotions/{_part(decision)}")

    # Datasets
    def datasets(
        self,
        *,
        search: str | None = None,
        layer: Layer | None = None,
        domain: str | None = None,
        owner: str | None = None,
        dag: str | None = None,
        limit: int = 50,
        token: str | None = None,
    ) -> Page[Dataset]:
        """Every word of `search` stands in a name, layer, domain, owner, description, column or producer; the other filters are exact."""
        query = {"search": search, "layer": layer, "domain": domain, "owner": owner, "dag": dag, "limit": limit, "token": token}
        return self._get(Page[Dataset], "/v1/datasets", query)

    def dataset(self, name: UUID | str) -> Dataset:
        """One dataset, by its name or its uuid."""
        return self._get(Dataset, f"/v1/datasets/{_part(name)}")

    def versions(self, name: UUID | str, *, limit: int = 50, token: str | None = None) -> Page[Version]:
        """A dataset's versions with the runs behind them, the newest first."""
        return self._get(Page[Version], f"/v1/datasets/{_part(name)}/versions", {"limit": limit, "token": token})

    def version(self, name: UUID | str, number: int) -> Version:
        return self._get(Version, f"/v1/datasets/{_part(name)}/versions/{number}")

    def explain(self, name: UUID | str) -> Explanation:
        """Why a dataset is as it is, the most pressing first."""
        return self._get(Explanation, f"/v1/datasets/{_part(name)}/explain")

    def pin(self, dataset: UUID | str, name: str, *, version: int | None = None, dry_run: bool = False) -> Snapshot:
        """Give a name to one version, the one that readers see now if left out; the same pin again changes nothing."""
        return self._post(Snapshot, f"/v1/datasets/{_part(dataset)}/snapshots", {"name": name, "version": version, "dry_run": dry_run})

    def unpin(self, name: str, *, dry_run: bool = False) -> Snapshot:
        """Take the name of a snapshot away."""
        return self._post(Snapshot, f"/v1/snapshots/{_part(name)}/unpin", {"dry_run": dry_run})

    def snapshots(self) -> list[Snapshot]:
        return self._get(list[Snapshot], "/v1/snapshots")

    # Queries
    def query(self, sql: str, *, limit: int | None = None) -> QueryResult:
        """The rows of one SELECT over published datasets, all of them of one moment; iterating gives tuples."""
        return QueryResult(self.query_answer(sql, limit=limit))

    def replay(self, id: UUID | str, *, sql: str | None = None) -> QueryResult:
        """The same query on the same versions; `.replay.same` says whether the same rows came out. Who did not ask it gives its statement along."""
        return QueryResult(self.replay_answer(id, sql=sql))

    def query_answer(self, sql: str, *, limit: int | None = None) -> QueryAnswer:
        """As it is on the wire."""
        return self._read(QueryAnswer, self._send("POST", "/v1/query", json={"sql": sql, "limit": limit}, timeout=_QUERY_TIMEOUT))

    def replay_answer(self, id: UUID | str, *, sql: str | None = None) -> QueryAnswer:
        return self._read(QueryAnswer, self._send("POST", f"/v1/queries/{_part(id)}/replay", json={"sql": sql}, timeout=_QUERY_TIMEOUT))

    def query_bytes(self, sql: str, format: ResultFormat, *, limit: int | None = None) -> RawAnswer:
        """The answer as CSV or as an Arrow stream, as it comes."""
        response = self._send("POST", "/v1/query", json={"sql": sql, "limit": limit, "format": format}, timeout=_QUERY_TIMEOUT)
        if not response.is_success:
            raise self._error(response)
        receipt = Receipt.model_validate_json(response.headers[RECEIPT_HEADER])
        return RawAnswer(response.content, response.headers[MORE_HEADER] == "true", receipt)

    def query_run(self, id: UUID | str) -> QueryRun:
        """A line of the query log."""
        return self._get(QueryRun, f"/v1/queries/{_part(id)}")

    def query_runs(self, *, limit: int = 50, token: str | None = None) -> Page[QueryRun]:
        """The query log, the newest first."""
        return self._get(Page[QueryRun], "/v1/queries", {"limit": limit, "token": token})

    def save_query(self, name: str, sql: str, *, description: str = "") -> SavedQuery:
        """Keep a statement under a name, in the place of what the name stood for."""
        return self._read(SavedQuery, self._send("PUT", f"/v1/saved-queries/{_part(name)}", json={"sql": sql, "description": description}))

    def saved_query(self, name: str) -> SavedQuery:
        return self._get(SavedQuery, f"/v1/saved-queries/{_part(name)}")

    def saved_queries(self) -> list[SavedQuery]:
        return self._get(list[SavedQuery], "/v1/saved-queries")

    def forget_query(self, name: str) -> None:
        response = self._send("DELETE", f"/v1/saved-queries/{_part(name)}")
        if not response.is_success:
            raise self._error(response)

    # The wire
    def _define(self, kind: type[Answer], path: str, body: Mapping[str, Any], key: str | None) -> Answer:
        return self._post(kind, path, body, {"Idempotency-Key": key or str(uuid.uuid4())})

    def _get(self, kind: type[Answer], path: str, query: Mapping[str, Any] | None = None) -> Answer:
        asked = {name: str(value) for name, value in (query or {}).items() if value is not None}
        return self._read(kind, self._send("GET", path, params=asked))

    def _post(self, kind: type[Answer], path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        return self._read(kind, self._send("POST", path, json=body, headers=headers))

    def _send(self, method: str, path: str, **parts: Any) -> httpx2.Response:
        """What is still unknown after it was sent again is said so."""
        try:
            return send(self._http, method, path, **parts)
        except ValueError as error:  # before any of it is sent
            raise Invalid("The request cannot be JSON: a number in it is not finite, or a text holds half of a surrogate pair; remove it.") from error
        except Unreached as error:
            raise NotRunning(f"Nothing answers at {self.api_url}; start a system with `tracelake up`, or set TRACELAKE_API_URL.") from error
        except Unanswered as error:
            raise self._unanswered(method, cast("Mapping[str, str]", parts.get("headers") or {}).get("Idempotency-Key")) from error

    def _unanswered(self, method: str, key: str | None) -> TracelakeError:
        if method == "GET":
            return Unavailable(f"{self.api_url} took the question and gave no answer; try again shortly.")
        again = f"repeat it with the idempotency key {key}" if key else "repeat it, which is safe"
        return OutcomeUnknown(f"The connection to {self.api_url} broke after the request was sent: it may or may not have happened; {again}.")

    def _read(self, kind: type[Answer], response: httpx2.Response) -> Answer:
        if not response.is_success:
            raise self._error(response)
        try:
            return _adapter(kind).validate_json(response.content)
        except ValidationError as error:
            raise NotRunning(f"What answers at {self.api_url} is no Tracelake of this release; check TRACELAKE_API_URL.") from error

    def _error(self, response: httpx2.Response) -> TracelakeError:
        if (found := error_in(response)) is not None:
            return found
        if response.status_code >= 500:
            return Unavailable(f"{self.api_url} answered {response.status_code} without a reason; try again shortly.")
        return NotRunning(f"What answers at {self.api_url} is no Tracelake (HTTP {response.status_code}); check TRACELAKE_API_URL.")


def _each(page: Callable[[str | None], Page[Item]]) -> Iterator[Item]:
    token: str | None = None
    while True:
        found = page(token)
        yield from found.items
        token = found.next
        if token is None:
            return


@cache
def _adapter(kind: type[Answer]) -> TypeAdapter[Answer]:
    return TypeAdapter(kind)


def _part(name: UUID | str) -> str:
    return quote(str(name), safe="")


def _place(dag: str, job: str | None) -> str:
    return f"/v1/dags/{_part(dag)}" if job is None else f"/v1/dags/{_part(dag)}/jobs/{_part(job)}"


def _follow(look: Callable[[], Answer], over: Callable[[Answer], bool], every: float, patience: float) -> Iterator[Answer]:
    heard = time.monotonic()
    while True:
        began = time.monotonic()
        try:
            seen = look()
        except (NotRunning, Unavailable):
            if time.monotonic() - heard > patience:
                raise
            time.sleep(every)
            continue
        heard = time.monotonic()
        yield seen
        if over(seen):
            return
        # A look that takes long, because there is much to look at, is taken less often.
        time.sleep(max(every, 4 * (heard - began)))
