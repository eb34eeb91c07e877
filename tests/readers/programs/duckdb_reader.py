"""Reads with DuckDB's Delta extension, in a separate environment."""

from pathlib import Path

import duckdb
import duckdb_extension_delta
import pyarrow as pa
from serving import serve


def read(path: str, version: int | None, where: str) -> pa.Table:
    extension = next(Path(duckdb_extension_delta.__file__).parent.glob("extensions/*/delta.duckdb_extension"))
    with duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}) as connection:
        connection.execute(f"LOAD '{extension}'")
        source = f"delta_scan('{path}')" if version is None else f"delta_scan('{path}', version => {version})"
        return connection.execute(f"SELECT * FROM {source} WHERE {where}").to_arrow_table()


if __name__ == "__main__":
    serve({"read": read})
