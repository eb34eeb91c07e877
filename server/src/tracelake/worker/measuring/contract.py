"""The protocol of the measuring process: orders and results, one JSON line each.

The worker starts `python -m tracelake.worker.measuring` with a clean environment, writes one `MeasureOrder` a line to its stdin and
reads one `MeasureResult` a line from its stdout, in the same order. The process ends when its stdin does.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tracelake_sdk.datasets.measurements import MAX_FILES, OutputMeasured
from tracelake_sdk.datasets.scopes import Scope
from tracelake_sdk.rules import RuleToMeasure
from tracelake_sdk.tasks import MovedOutput, StagedOutput

CHAOS_VARIABLE = "TRACELAKE__CHAOS__KILL_AT"  # passed through: the moments here are `measuring:sealed` and `measuring:measured`


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Limits(_Line):
    """The resources that one measurement may use."""

    threads: int = Field(default=2, ge=1, le=256)
    memory: str = Field(default="1GB", pattern=r"^[1-9][0-9]{0,5}(MB|GB)$")


class OutputToMeasure(_Line):
    """One output of an attempt.

    A first measurement has no `previous`. A rebase has `previous` and `moved`; rules of `staged` are those known so far. Rules that came
    later (the answer `measure`) have `previous` and `rules`: just these are measured, over the files of `previous`, and join its own.
    """

    index: int = Field(ge=0)
    staged: StagedOutput               # as in the claim; `location` and `staging` are below the storage's root
    files: list[str] = Field(max_length=MAX_FILES)  # from the manifest, relative to `staged.staging`
    adopted: bool = False              # `files` are those of a batch: relative to the table, where an earlier attempt left them
    scopes: list[Scope] | None = None  # the scopes of the manifest; None (a batch): the scopes of their folders
    unique_key: list[str] = Field(default_factory=list)
    update_strategy: str | None = None
    previous: OutputMeasured | None = None
    moved: list[MovedOutput] = Field(default_factory=list)  # every answer `base_moved` since the claim, oldest first
    rules: list[RuleToMeasure] | None = None                # rules that came later; None: those of `staged`


class MeasureOrder(_Line):
    id: str
    storage: dict[str, Any]            # the section `storage` of the settings, secrets in the clear
    scratch: str                       # local folder for copies of remote files and for spilled data
    outputs: list[OutputToMeasure]
    limits: Limits = Limits()


RefusalClass = Literal[
    "unsafe_path",         # a name that is not plain, or that leads out of the attempt's folder
    "file_missing",
    "not_parquet",
    "schema_not_carried",  # a column that a Delta table cannot have
    "schemas_differ",      # the files of one output do not agree on their columns
    "key_missing",         # a column of the unique key is missing, or has a type that keys do not support
    "scope_unknown",       # a file is in a folder that is not a scope of the output
    "seal_broken",         # a file is no longer what was measured
    "storage_unavailable", # worth another try
    "unmeasurable",        # anything else; the log says more
]


class Refusal(_Line):
    """Why nothing was measured: the attempt's failure, usually final because the same files would be refused again."""

    error_class: RefusalClass
    message: str = Field(max_length=2000)
    retry: bool = False


class MeasureResult(_Line):
    """Either every output, in the order of the request, or one refusal."""

    id: str
    outputs: list[OutputMeasured] = Field(default_factory=list)
    refusal: Refusal | None = None
    milliseconds: float = 0


class Refused(Exception):
    """Ends a measurement with a refusal."""

    def __init__(self, error_class: RefusalClass, message: str, *, retry: bool = False) -> None:
        super().__init__(message)
        self.refusal: Refusal = Refusal(error_class=error_class, message=message[:2000], retry=retry)
