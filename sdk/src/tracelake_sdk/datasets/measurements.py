"""Measurements: what trusted code found in the files that an operator staged. Neither operator nor user code writes these."""

from typing import Any

from pydantic import ConfigDict, Field

from tracelake_sdk.datasets.scopes import Scope
from tracelake_sdk.deferred import Deferred
from tracelake_sdk.rules import RuleMeasurement

MAX_FILES = 20_000  # of one output in one completion


class _Wire(Deferred):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FileStatistics(_Wire):
    """Per top-level column, by name; a bound is present only if it is exact, in Delta's format."""

    min: dict[str, Any] = Field(default_factory=dict)
    max: dict[str, Any] = Field(default_factory=dict)
    nulls: dict[str, int] = Field(default_factory=dict)


class TableFile(_Wire):
    """A data file of a dataset version; its path is below the table's directory."""

    path: str
    size: int = Field(ge=0)
    rows: int = Field(ge=0)
    scope: Scope
    # Bounds of the first column of the job's unique key, exact: integers as numbers, everything else as ISO text; None if unknown.
    key_min: int | str | None = None
    key_max: int | str | None = None
    hashes: str | None = None  # path of the sidecar with the sorted 64-bit hashes of its keys, little-endian


class StagedFile(TableFile):
    """A file that was staged, sealed and measured."""

    seal: str = Field(max_length=200)  # identifies the measured content: size with inode and times, or the ETag
    statistics: FileStatistics = Field(default_factory=FileStatistics)


class OutputMeasured(_Wire):
    """Everything the gate needs to know of one output."""

    index: int = Field(ge=0)
    files: list[StagedFile] = Field(max_length=MAX_FILES)
    scopes: list[Scope]                  # what the files cover; includes scopes that are now empty
    table_schema: dict[str, Any]         # Delta's own form: {"type": "struct", "fields": […]}, every column nullable
    schema_hash: str
    rows: int = Field(ge=0)
    bytes: int = Field(ge=0)
    duplicates: int = Field(default=0, ge=0)     # rows that an append removed because their key already existed
    null_keys: int = Field(default=0, ge=0)      # rows of an append with a null in their unique key
    outside_scope: int = Field(default=0, ge=0)  # rows that do not belong to any of `scopes`
    rules: list[RuleMeasurement] = Field(default_factory=list)
