"""Pinned queries, their log, and statements that are saved under a name, reached as `client.queries` and `client.saved_queries`."""

from __future__ import annotations  # return types are resolved on demand, not at import

from uuid import UUID

import httpx2

from tracelake_sdk.client.connection import Connection, quoted
from tracelake_sdk.client.wire import CONNECT_SECONDS
from tracelake_sdk.pages import Page
from tracelake_sdk.queries import MORE_HEADER, RECEIPT_HEADER, QueryAnswer, QueryRun, RawAnswer, Receipt, ResultFormat, SavedQuery
from tracelake_sdk.queries.results import QueryResult

SavedQueryList = list[SavedQuery]
QUERY_TIMEOUT = httpx2.Timeout(3700, connect=CONNECT_SECONDS)  # the service stops a query that takes too long


class Queries:
    """Queries over published datasets, and their log."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection

    def run(self, sql: str, *, limit: int | None = None) -> QueryResult:
        """The rows of one SELECT over published datasets, all as of one point in time; iterating gives tuples."""
        return QueryResult(self.answer(sql, limit=limit))

    def replay(self, id: UUID | str, *, sql: str | None = None) -> QueryResult:
        """The same query on the same versions; `.replay.same` is true if it returned the same rows. Only the author of the query may omit its statement."""
        return QueryResult(self.replay_answer(id, sql=sql))

    def answer(self, sql: str, *, limit: int | None = None) -> QueryAnswer:
        """The JSON answer of the service, without conversion."""
        return self._connection.read(QueryAnswer, self._connection.send("POST", "/v1/query", json={"sql": sql, "limit": limit}, timeout=QUERY_TIMEOUT))

    def replay_answer(self, id: UUID | str, *, sql: str | None = None) -> QueryAnswer:
        return self._connection.read(QueryAnswer, self._connection.send("POST", f"/v1/queries/{quoted(id)}/replay", json={"sql": sql}, timeout=QUERY_TIMEOUT))

    def bytes(self, sql: str, format: ResultFormat, *, limit: int | None = None) -> RawAnswer:
        """The answer as a stream of CSV or Arrow."""
        sent = self._connection.send("POST", "/v1/query", json={"sql": sql, "limit": limit, "format": format}, timeout=QUERY_TIMEOUT)
        response = self._connection.accepted(sent)
        receipt = Receipt.model_validate_json(response.headers[RECEIPT_HEADER])
        return RawAnswer(response.content, response.headers[MORE_HEADER] == "true", receipt)

    def list(self, *, limit: int = 50, token: str | None = None) -> Page[QueryRun]:
        """The query log, the newest first."""
        return self._connection.get(Page[QueryRun], "/v1/queries", {"limit": limit, "token": token})

    def get(self, id: UUID | str) -> QueryRun:
        """A line of the query log."""
        return self._connection.get(QueryRun, f"/v1/queries/{quoted(id)}")


class SavedQueries:
    """Statements that users saved under a name."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection

    def list(self) -> SavedQueryList:
        return self._connection.get(SavedQueryList, "/v1/saved-queries")

    def get(self, name: str) -> SavedQuery:
        return self._connection.get(SavedQuery, f"/v1/saved-queries/{quoted(name)}")

    def save(self, name: str, sql: str, *, description: str = "") -> SavedQuery:
        """Save a statement under a name; an earlier statement of that name is overwritten."""
        return self._connection.read(SavedQuery, self._connection.send("PUT", f"/v1/saved-queries/{quoted(name)}", json={"sql": sql, "description": description}))

    def forget(self, name: str) -> None:
        self._connection.accepted(self._connection.send("DELETE", f"/v1/saved-queries/{quoted(name)}"))
