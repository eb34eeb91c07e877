"""The pin of a running query is renewed as long as it runs."""

from pathlib import Path

import pytest
from support.databases import StateDatabase
from support.queries import query_lake

from tracelake_sdk.errors import QueryOverLimit


@pytest.mark.proves("T6.2")
def test_a_query_that_runs_longer_than_a_lease_keeps_its_pin(database: StateDatabase, tmp_path: Path):
    with query_lake(database, tmp_path, lease_seconds=4, max_seconds=6) as lake:
        lake.publish("orders")
        lake.commit("orders", [(1, "x")])
        with lake.client() as client:
            with pytest.raises(QueryOverLimit):
                client.query("SELECT count(*) FROM orders_raw, range(1000000000000)")
            [run] = client.queries.list().items
            assert (run.status.value, [pin.version for pin in run.pins]) == ("over_limit", [1])
        [(held,)] = lake.query("SELECT extract(epoch FROM lease_expires_at - taken_at) FROM pin")
        assert held > 6  # it was renewed
