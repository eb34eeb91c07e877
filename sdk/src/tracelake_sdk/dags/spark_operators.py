"""Spark operators: the models of the configs and requests of the operators that come with the runtime `spark`."""

from enum import StrEnum
from typing import Self

from pydantic import ConfigDict, Field, model_validator

from tracelake_sdk.deferred import Deferred


class _Config(Deferred):
    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True, validate_by_name=True, validate_by_alias=True)


class FileFormat(StrEnum):
    CSV = "csv"
    JSON = "json"        # one object per line
    PARQUET = "parquet"


class BadRecords(StrEnum):
    """What happens to rows that do not match the schema."""

    FAIL = "fail"            # the task fails, and no row is written
    SET_ASIDE = "set_aside"  # valid rows are written; bad rows are counted and the first ones are named; their text is deleted with the attempt's staging


class IngestFilesConfig(_Config):
    """Each run reads the files below `path` that are new or changed since the last run."""

    path: str = Field(min_length=1, max_length=4096, description="a folder, a file, or a file name prefix, below a location, such as `landing/orders`; wildcards are not supported")
    format: FileFormat = Field(description="`csv`, `json` (one object a line) or `parquet`")
    # pydantic's BaseModel already has an attribute `schema`.
    columns: str | None = Field(
        default=None, alias="schema", min_length=1, max_length=100_000,
        description="the columns and their types, such as `order_id BIGINT, amount DECIMAL(10,2)`; without it those of the table, and for the first run those inferred from the files",
    )
    header: bool = Field(default=True, description="`true` or `false`: whether the first line of each CSV file names its columns")
    delimiter: str = Field(default=",", min_length=1, max_length=1, description="the character that separates the columns of a CSV file")
    multiline: bool = Field(
        default=False,
        description="`true` or `false`: whether a quoted value of a CSV file may continue on the next line; `true` reads each file on one core",
    )
    cursor_column: str | None = Field(
        default=None, min_length=1, max_length=255, description="a column of whole numbers or times; only rows with a greater value than any row so far are read",
    )
    bad_records: BadRecords = Field(default=BadRecords.FAIL, description="`fail`, or `set_aside` to continue without the rows that do not match the schema")
    max_bad_records: int | None = Field(default=None, ge=0, description="a whole number, with `set_aside`: how many rows of one run may be set aside before it fails")
    batch_files: int | None = Field(default=None, ge=1, description="a whole number of at least 1: publish a batch each time this many files are done, while the task runs; without it everything is published at the end")

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if self.max_bad_records is not None and self.bad_records is BadRecords.FAIL:
            raise ValueError("`max_bad_records` is for `bad_records: set_aside`")
        if self.format is FileFormat.CSV and not self.header and self.columns is None:
            raise ValueError("CSV files without a header need `schema`")
        return self


class IngestFilesRequest(_Config):
    """Read the new files; the request has no fields."""


class SqlConfig(_Config):
    query: str = Field(min_length=1, max_length=100_000, description="one SELECT over `input_0`, `input_1`, … and the names of the inputs")
