"""Reads with delta-rs and its own engine."""

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from serving import serve


def read(path: str, version: int | None, where: str) -> pa.Table:
    table = DeltaTable(path, version=version)
    return pa.table(QueryBuilder().register("t", table).execute(f"SELECT * FROM t WHERE {where}"))


if __name__ == "__main__":
    serve({"read": read})
