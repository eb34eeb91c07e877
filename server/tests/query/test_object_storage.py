"""Files of an object store are copied for one query, up to a limit, by the front; an engine has no key to it."""

from pathlib import Path
from uuid import uuid4

import pytest
from support.s3_servers import S3Server

from tracelake.query.copies import Copies
from tracelake_sdk.errors import Purged, QueryOverLimit
from tracelake_sdk.queries import PinnedTable, QueryPin, TableFacts

pytestmark = pytest.mark.xdist_group("s3")


def pinned(*paths: str) -> PinnedTable:
    facts = TableFacts(location="org/a", table_schema={"type": "struct", "fields": []}, schema_hash="h", unique_key=[], files=[(path, "h") for path in paths])
    return PinnedTable(pin=QueryPin(name="t", dataset_uuid=uuid4(), dataset_version=uuid4(), version=1), table=facts)


def test_objects_are_copied_and_the_copies_are_gone_after_the_query(s3_server: S3Server, tmp_path: Path):
    storage = s3_server.open(s3_server.fresh_url())
    for name in ("one", "two"):
        storage.replace(f"org/a/{name}.parquet", name.encode() * 100)
    copies = Copies(storage, tmp_path, most_bytes=1000)
    with copies.local([pinned("one.parquet", "two.parquet")]) as [table]:
        assert [Path(path).read_bytes() for path in table.files["h"]] == [b"one" * 100, b"two" * 100]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Purged), copies.local([pinned("one.parquet", "gone.parquet")]):
        pytest.fail("a file is not there")
    with pytest.raises(QueryOverLimit, match="not on this machine"), Copies(storage, tmp_path, most_bytes=500).local([pinned("one.parquet", "two.parquet")]):
        pytest.fail("it is too much")
    assert list(tmp_path.iterdir()) == []
