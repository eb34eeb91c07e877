"""Kinds: the registered, versioned JSON schemas of record payloads, who owns them, and how long their records are kept."""

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from tracelake_sdk.deferred import Deferred
from tracelake_sdk.records.record import KindName


class Compatibility(StrEnum):
    """Which readers must keep working when the schema of a kind changes."""

    BACKWARD = "backward"  # the new schema accepts everything that the old one accepts, after upcasting
    FORWARD = "forward"    # the old schema accepts everything that the new one accepts
    FULL = "full"          # both


class Retention(Deferred):
    """How long records of a kind are kept, and what happens to them then."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    keep: Literal["full", "rolling"] = "full"
    days: int | None = Field(default=None, ge=1, le=36500)
    then: Literal["archive", "drop"] | None = None  # archived records stay readable, from files

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.keep == "rolling") != (self.days is not None) or (self.keep == "rolling") != (self.then is not None):
            raise ValueError("a rolling retention has `days` and `then`, a full one has neither")
        return self


class Kind(Deferred):
    """One version of a kind."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    name: KindName
    version: int = Field(default=1, ge=1)
    json_schema: dict[str, Any] = Field(alias="schema")  # 2020-12, of the payload
    owner: str = Field(min_length=1, max_length=200)
    description: str = Field(min_length=1, max_length=2000)
    mode: Compatibility = Compatibility.BACKWARD
    retention: Retention = Field(default_factory=Retention)
    # Paths that identify a record of a run, besides tenant, kind, target, producer, run, window and slice filter.
    identity: list[Annotated[str, Field(pattern=r"^(payload|extras)(\.[^.\x00]{1,200}){1,16}$")]] = Field(default_factory=list, max_length=10)
    renames: dict[str, str] = Field(default_factory=dict)  # of properties since the previous version: old path → new name, below `payload`
    examples: list[dict[str, Any]] = Field(default_factory=list)
    built_in: bool = False  # exists for every tenant, and cannot be changed
