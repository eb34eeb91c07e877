"""Reads with Polars."""

import polars as pl
import pyarrow as pa
from serving import serve


def read(path: str, version: int | None, where: str) -> pa.Table:
    lazy = pl.scan_delta(path, version=version)
    return (lazy if where == "1 = 1" else lazy.filter(pl.sql_expr(where))).collect().to_arrow()


if __name__ == "__main__":
    serve({"read": read})
