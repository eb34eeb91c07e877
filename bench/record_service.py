"""The setup of the row `records`: a service with many records, raw connections to it, and open streams."""

import http.client
import json
import socket
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

import psycopg

from bench.figures import BenchFailed
from tracelake.control.records.copy_lines import retention_class
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget
from tracelake_sdk.records.kinds.builtin import builtin_kinds

[KIND] = [kind for kind in builtin_kinds() if kind.name == "ingestion_volume"]
CONTEXT = MetadataContext(run_id="bench", job_id="bench/load", cluster="bench", workspace="bench", tenant="main")
EACH = 100         # records of a target that are there before
_FILLED = 500_000  # rows of one statement
_LONGEST_WAIT = 60.0

# The same rows as bulk_store writes, generated in the database: ten million would otherwise take a day.
_FILL = """
WITH emitted AS (
    SELECT number, 'filled_' || number / %(each)s AS name, timestamptz '2026-01-01' + number * interval '1 second' AS at,
           (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(number %% 4096), 3, '0') || '8' || lpad(to_hex(number), 15, '0'))::uuid AS id
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS number
), keyed AS (
    SELECT emitted.*, encode(substr(sha256(convert_to('["bench","public","' || name || '"]', 'UTF8')), 1, 16), 'hex')::uuid AS target_key FROM emitted
), stored AS (
    INSERT INTO metadata_record (
        retention_class, id, org_id, kind, kind_version, target_key, source_id, schema_name, table_name, producer_id, produced_at,
        run_id, cluster, workspace, window_start, record, context, stored_at
    )
    SELECT %(class)s, id, %(org)s, %(kind)s, 1, target_key, 'bench', 'public', name, 'bench.v1', at, 'filled ' || number / 1000, 'bench', 'bench', at,
           format('{"produced_at":"%%s","version":null,"extras":{},"kind":"%%s","payload":%%s,"producer_id":"bench.v1","quality":null,'
                  '"target":{"extras":{},"schema":"public","source_id":"bench","table":"%%s"}}', to_json(at) #>> '{}', %(kind)s::text, %(payload)s::text, name)::json,
           %(context)s::json, now()
    FROM keyed
), same AS (
    INSERT INTO record_identity (identity, content, record_id, retention_class) SELECT sha256(id::text::bytea), sha256(name::bytea), id, %(class)s FROM keyed
)
INSERT INTO metadata_latest (org_id, kind, target_key, produced_at, record_id, retention_class, target)
SELECT DISTINCT ON (target_key) %(org)s, %(kind)s, target_key, at, id, %(class)s,
       format('{"source_id":"bench","schema":"public","table":"%%s","extras":{}}', name)::json
FROM keyed ORDER BY target_key, at DESC
"""


def fill(url: str, n: int) -> None:
    """Stores n records, EACH of them per target."""
    given: dict[str, Any] = {
        "each": EACH, "class": retention_class(KIND), "kind": KIND.name, "payload": json.dumps(KIND.examples[0]), "context": CONTEXT.model_dump_json()
    }  # fmt: skip
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT ensure_record_partition(%s, now())", [given["class"]])
        [org] = connection.execute("SELECT id FROM org").fetchone() or [None]
        step = _FILLED // EACH * EACH
        for first in range(0, n, step):
            connection.execute(_FILL, given | {"org": org, "first": first, "last": min(first + step, n) - 1})
        connection.execute("VACUUM ANALYZE metadata_record, record_identity, metadata_latest")


def record(number: int, run: int, *, targets: int = 1000) -> MetadataRecord:
    """A record that was not emitted before."""
    moment = datetime(2026, 6, 1, tzinfo=UTC) + timedelta(seconds=number)
    payload = KIND.examples[0] | {"rows": number, "window_start": moment.isoformat(), "window_end": (moment + timedelta(days=run + 1)).isoformat()}
    target = MetadataTarget(source_id="bench", schema="public", table=f"emitted_{number % targets}")
    return MetadataRecord(target=target, kind=KIND.name, payload=payload, produced_at=moment, producer_id=f"bench.run{run}.v1")


def bulk(records: list[MetadataRecord]) -> bytes:
    return f'{{"records":[{",".join(one.model_dump_json() for one in records)}],"context":{CONTEXT.model_dump_json()}}}'.encode()


class Line:
    """One connection that is kept; what the client costs is not what is measured."""

    def __init__(self, api_url: str, token: str) -> None:
        address = urlsplit(api_url)
        self._connection: http.client.HTTPConnection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=600)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._headers: dict[str, str] = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def post(self, path: str, body: bytes) -> bytes:
        return self._ask("POST", path, body)

    def get(self, path: str, **query: str | int) -> bytes:
        return self._ask("GET", f"{path}?{urlencode(query)}", None)

    def close(self) -> None:
        self._connection.close()

    def _ask(self, method: str, path: str, body: bytes | None) -> bytes:
        self._connection.request(method, path, body, self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise BenchFailed(f"{method} {path} was answered {answer.status}: {content[:300].decode(errors='replace')}")
        return content


@contextmanager
def open_streams(api_url: str, token: str, number: int) -> Generator[None]:
    """Open tails, all of them at the end of the log."""
    address = urlsplit(api_url)
    end = json.loads(_end_of_log(api_url, token))["offset"]
    with ExitStack() as stack:
        for _ in range(number):
            connection = stack.enter_context(socket.create_connection((address.hostname or "", address.port or 80), timeout=_LONGEST_WAIT))
            connection.sendall(f"GET /v1/records/tail?follow=true&offset={end} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
            if not connection.recv(64).startswith(b"HTTP/1.1 200"):
                raise BenchFailed("a stream of records was refused")
        time.sleep(0.5)  # a new tail polls once more
        yield


def _end_of_log(api_url: str, token: str) -> bytes:
    """By a kind that has no record: nothing is read, and the offset is the end."""
    line = Line(api_url, token)
    try:
        return line.get("/v1/records/tail", kinds="catalog_diff", limit=1)
    finally:
        line.close()
