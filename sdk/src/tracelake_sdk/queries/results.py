"""Results of queries as Python: rows with Python values, or Arrow and pandas if those are installed."""

import base64
import importlib
from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from tracelake_sdk.errors import PackageMissing
from tracelake_sdk.queries.query import QueryAnswer, QueryColumn, Receipt, Replay

_TIMES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
_WHOLE = ("BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT")
_ARROW_TYPES = {
    "BOOLEAN": "bool_", "TINYINT": "int8", "SMALLINT": "int16", "INTEGER": "int32", "BIGINT": "int64", "UTINYINT": "uint8", "USMALLINT": "uint16",
    "UINTEGER": "uint32", "UBIGINT": "uint64", "FLOAT": "float32", "DOUBLE": "float64", "VARCHAR": "string", "BLOB": "binary", "DATE": "date32",
}  # fmt: skip


class QueryResult:
    """The rows of an answer, and its receipt. Iterating gives tuples."""

    def __init__(self, answer: QueryAnswer) -> None:
        self.columns: list[QueryColumn] = answer.columns
        self.receipt: Receipt = answer.receipt
        self.more: bool = answer.more
        self.replay: Replay | None = answer.replay
        readers = [_reader(column.type) for column in answer.columns]
        self.rows: list[tuple[Any, ...]] = [
            tuple(value if value is None or read is None else read(value) for read, value in zip(readers, row, strict=True)) for row in answer.rows
        ]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def arrow(self) -> Any:
        """A `pyarrow.Table`."""
        pyarrow = _package("pyarrow", "arrow()")
        arrays = [_arrow_array(pyarrow, [row[index] for row in self.rows], column.type) for index, column in enumerate(self.columns)]
        return pyarrow.Table.from_arrays(arrays, names=[column.name for column in self.columns])

    def pandas(self) -> Any:
        """A `pandas.DataFrame`."""
        return _package("pandas", "pandas()").DataFrame(self.rows, columns=[column.name for column in self.columns])


def _package(name: str, needed_by: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise PackageMissing(f"{needed_by} needs the package `{name}`, which is not installed here; install it with `pip install {name}`.") from None


def _reader(type: str) -> Callable[[Any], Any] | None:
    """Converts a value of the wire to Python; None: no conversion."""
    if type in _WHOLE:
        return int
    if type.startswith("DECIMAL("):
        return Decimal
    if type in ("FLOAT", "DOUBLE"):
        return float
    readers: dict[str, Callable[[Any], Any]] = {
        "DATE": _or_text(date.fromisoformat),
        "TIME": _or_text(time.fromisoformat),
        "TIMESTAMP": _or_text(datetime.fromisoformat),
        "TIMESTAMP WITH TIME ZONE": _or_text(datetime.fromisoformat),
        "BLOB": base64.b64decode,
    }
    return readers.get(type)


def _or_text(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Python's times end in the year 9999; later times stay text."""

    def reading(text: str) -> Any:
        try:
            return read(text)
        except ValueError:
            return text

    return reading


def _arrow_array(pyarrow: Any, values: list[Any], type: str) -> Any:
    if type in _TIMES and any(isinstance(value, str) for value in values):
        return pyarrow.array([None if value is None else str(value) for value in values], type=pyarrow.string())
    return pyarrow.array(values, type=_arrow_type(pyarrow, type))


def _arrow_type(pyarrow: Any, type: str) -> Any:
    """None: inferred from the values."""
    if type.startswith("DECIMAL("):
        precision, scale = type.removeprefix("DECIMAL(").removesuffix(")").split(",")
        return pyarrow.decimal128(int(precision), int(scale))
    if type in ("HUGEINT", "UHUGEINT"):
        return pyarrow.decimal256(39, 0)
    if type in ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
        return pyarrow.timestamp("us", tz="UTC" if type != "TIMESTAMP" else None)
    return getattr(pyarrow, _ARROW_TYPES[type])() if type in _ARROW_TYPES else None
