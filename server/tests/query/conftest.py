"""A lake with two datasets and a query process, once for a module: what its tests ask changes nothing in it."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from support.databases import fresh_database
from support.queries import QueryLake, query_lake

from tracelake.embedded.postgres import EmbeddedPostgres

ORDERS = pa.schema(
    [
        ("id", pa.int64()), ("country", pa.string()), ("amount", pa.decimal128(12, 2)), ("weight", pa.float64()), ("placed_at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()), ("tags", pa.list_(pa.string())), ("customer_id", pa.int64()),
    ]
)  # fmt: skip
CUSTOMERS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("vip", pa.bool_())])


@pytest.fixture(scope="module")
def asked(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryLake]:
    with fresh_database(postgres) as database, query_lake(database, tmp_path_factory.mktemp("queries"), max_seconds=3, waiting=100) as lake:
        lake.publish("orders")
        lake.publish("customers")
        at = datetime(2024, 1, 10, 5, tzinfo=UTC)
        orders = [(n, "de" if n % 2 else "fr", Decimal(n) / 4, n / 3, at, date(2024, 1, n % 28 + 1), ["a", "b"][: n % 3], n % 5) for n in range(1, 41)]
        lake.commit("orders", orders[:20], schema=ORDERS)
        lake.commit("orders", orders[20:], schema=ORDERS)
        lake.commit("customers", [(n, f"customer {n}", n == 1) for n in range(5)], schema=CUSTOMERS)
        yield lake
