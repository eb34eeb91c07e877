"""The settings of a Spark session and its connection to an object store, shared by the settings file and the Spark programs."""

from pathlib import Path

from pydantic import ConfigDict, Field

from tracelake_sdk.deferred import Deferred

MEMORY = r"^[1-9][0-9]{0,6}[mg]$"


class LocalSpark(Deferred):
    """A session on this machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cores: int = Field(default=2, ge=1, le=1024, description="Cores on this machine; on a cluster, of all executors.")
    memory: str = Field(default="1g", pattern=MEMORY, description="Memory of the driver and of each executor, such as `512m` or `4g`.")
    conf: dict[str, str] = Field(default_factory=dict, description="Additional settings by their Spark names.")


class SparkSettings(LocalSpark):
    """A session on this machine or on a cluster, with further jars."""

    master: str | None = Field(default=None, min_length=1, description="URL of a cluster; if empty, `local[cores]` on this machine.")
    packages: tuple[str, ...] = Field(default=(), description="Additional jars as Maven coordinates, `group:artifact:version`.")
    jars_folder: str | None = Field(default=None, description="Folder of fetched jars; if empty, `cache/jars` of the home.")


class S3Connection(Deferred):
    """How Spark reaches the object store; credentials are issued per task and are not part of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: str | None
    region: str
    allow_http: bool
    timeout_seconds: float


def jars_folder(home: Path) -> Path:
    """The default folder of fetched jars."""
    return home / "cache" / "jars"
