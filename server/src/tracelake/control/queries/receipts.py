"""Receipts: the queries that ran, and whether they can be replayed."""

from dataclasses import dataclass
from uuid import UUID

from tracelake.control.access.callers import Caller, Permission
from tracelake.control.database.pages import next_token
from tracelake.control.database.transactions import Database
from tracelake.control.queries import resolving, store
from tracelake.control.queries.pins import sql_sha256
from tracelake.control.queries.store import QueryRunRow
from tracelake_sdk.errors import NotFound, NotReplayable
from tracelake_sdk.pages import Page
from tracelake_sdk.queries import QueryPin, QueryRun, QueryStatus


@dataclass(frozen=True)
class Receipts:
    database: Database

    def get(self, caller: Caller, id: UUID) -> QueryRun:
        """The caller's own queries; admins and auditors see all queries, without the statement."""
        caller.require(Permission.READ)
        with self.database.transaction("query_run") as tx:
            rows = store.runs(tx, caller, everybody=caller.sees_all, id=id)
        if not rows:
            raise NotFound(f"Query {id} of {caller.name} was not found in this org.")
        return _query_run(caller, rows[0])

    def list_runs(self, caller: Caller, *, before: UUID | None, limit: int) -> Page[QueryRun]:
        caller.require(Permission.READ)
        with self.database.transaction("query_runs") as tx:
            rows = store.runs(tx, caller, everybody=caller.sees_all, before=before, limit=limit + 1)
        return Page(items=[_query_run(caller, row) for row in rows[:limit]], next=next_token(rows, limit, lambda row: row.id))

    def to_replay(self, caller: Caller, id: UUID, sql: str | None) -> str:
        """The statement to run again; raises NotReplayable if there is no result to compare with.

        Pinning checks whether the caller may still read the datasets.
        """
        caller.require(Permission.READ)
        with self.database.transaction("query_to_replay") as tx:
            run = resolving.get_run(tx, caller, id)
        mine = _is_author(caller, run)
        if not mine and (sql is None or sql_sha256(sql) != run.sql_sha256):
            raise NotFound(f"Query {id} of {caller.name} was not found in this org; to replay a query of another user, send its receipt with the statement.")
        if sql is not None and sql_sha256(sql) != run.sql_sha256:
            raise NotReplayable("The statement differs from the one in the receipt.")
        if not run.replayable:
            raise NotReplayable(run.why_not or "The query has no result to compare with.")
        return run.sql


def _is_author(caller: Caller, run: QueryRunRow) -> bool:
    return (caller.user_id, caller.token_id) == (run.user_id, run.token_id)


def _query_run(caller: Caller, run: QueryRunRow) -> QueryRun:
    return QueryRun(
        id=run.id,
        at=run.at,
        actor=run.actor,
        sql=run.sql if _is_author(caller, run) else None,
        sql_sha256=run.sql_sha256,
        pins=[QueryPin.model_validate(pin) for pin in run.pins],
        status=QueryStatus(run.status),
        error_code=run.error_code,
        result_hash=run.result_hash,
        left_out=run.left_out,
        row_count=run.row_count,
        milliseconds=run.milliseconds,
        engine_version=run.engine_version,
        replayable=run.replayable,
        why_not=run.why_not,
        replay_of=run.replay_of,
    )
