"""One frozen object per process: the environment over `tracelake.yaml` over these defaults, read once at the start."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from tracelake_sdk.errors import SettingInvalid
from tracelake_sdk.home import default_home
from tracelake_sdk.locations import absolute_root, check_name
from tracelake_sdk.spark_settings import MEMORY, SparkSettings, jars_folder


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DatabaseSettings(_Section):
    """Left empty, the embedded Postgres of the home is used."""

    url: SecretStr | None = None        # the service's login role on the state database
    owner_url: SecretStr | None = None  # the role that owns the schema; only migrations use it
    data_url: SecretStr | None = None   # the service's login role on the data database
    pool_size: int = Field(default=8, ge=2, le=200)


class ApiSettings(_Section):
    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)  # 0: the embedded system keeps one free port for its home
    max_waiting_polls: int = Field(default=256, ge=1, le=5000)
    body_seconds: float = Field(default=120, gt=0)  # in which the body of a request must have arrived


class IssuerSettings(_Section):
    """Someone whose signed tokens are believed about who a user is; never about org or roles."""

    issuer: str
    audience: str
    public_key: str  # PEM; EdDSA, ES256 or RS256 (2048 bits or more)
    org: str | None = None  # whose users its tokens speak of; left empty, those of the org that operates the installation


class AccessSettings(_Section):
    org: str = "main"                    # the org that the first start makes
    admin_issuer: str = "tracelake"      # with admin_subject: who the first admin is in a JWT
    admin_subject: str = "admin"
    issuers: tuple[IssuerSettings, ...] = ()


class TaskSettings(_Section):
    lease_seconds: float = Field(default=30, ge=0.2, le=3600)
    backoff_seconds: float = Field(default=2, ge=0, le=3600)        # before the second attempt; doubles, with jitter
    max_backoff_seconds: float = Field(default=300, ge=0, le=86400)
    housekeeping_seconds: float = Field(default=1, ge=0.02, le=60)  # between two looks of the reaper and its neighbours


class StorageSettings(_Section):
    """Where tables live."""

    url: str | None = None          # `file:///folder` or `s3://bucket/prefix`; left empty, the folder `lake` of the home
    endpoint: str | None = None     # of an S3-compatible store that is not Amazon's
    region: str = "us-east-1"
    access_key_id: str | None = None  # left empty, what the machine's environment offers
    secret_access_key: SecretStr | None = None
    operator_role: str | None = None  # ARN of a role that the store's STS narrows to each task's own prefixes; operators never get the key above
    sts_endpoint: str | None = None   # left empty, `endpoint`, or Amazon's for the region
    operator_access_key_id: str | None = None  # for a store without STS: a second key, limited by an admin, that operators get instead
    operator_secret_access_key: SecretStr | None = None
    allow_http: bool = False
    timeout_seconds: float = Field(default=30, gt=0, le=600)
    staging_retention_seconds: float = Field(default=86400, ge=0)  # before files of a final attempt that no table names are deleted
    max_unrecorded: int = Field(default=100, ge=1)  # places of a line that may wait to be recorded before its tasks are held

    @property
    def is_s3(self) -> bool:
        return self.url is not None and self.url.startswith("s3:")


class LocationSettings(_Section):
    """A place that DAGs read files from. In a file a path alone is enough, and a relative one is below the file's folder."""

    url: str                     # `/folder`, `file:///folder` or `s3://bucket/prefix`
    roles: tuple[str, ...] = ()  # that may use it in a DAG, beside the admins

    @model_validator(mode="before")
    @classmethod
    def _of_a_path(cls, value: Any) -> Any:
        return {"url": value} if isinstance(value, str) else value


class WebhookSettings(_Section):
    """Who is told when a task is final. Without a url nobody is."""

    url: str | None = None
    secret: SecretStr | None = None  # signs each body: `Tracelake-Signature: sha256=…`
    timeout_seconds: float = Field(default=10, gt=0, le=60)
    allow_private_addresses: bool = False


class WorkerSettings(_Section):
    name: str | None = None
    api_url: str | None = None
    token: SecretStr | None = None
    prefetch: int = Field(default=100, ge=1, le=500)
    poll_seconds: float = Field(default=20, ge=0, le=60)
    runtimes: tuple[Literal["dispatcher", "spark"], ...] = ("dispatcher", "spark")
    slots: int = Field(default=2, ge=1, le=64)                       # tasks of runtime `spark` at a time
    host_idle_seconds: float = Field(default=600, ge=0, le=86400)    # before a Spark that has nothing to do ends
    commands: dict[str, list[str]] = Field(default_factory=dict)     # operator → program that runs it instead of Spark; it is given the path of its order


class MeasuringSettings(_Section):
    """What the process that measures outputs may use of its machine."""

    cores: int = Field(default=2, ge=1, le=256)
    memory: str = Field(default="1g", pattern=MEMORY)


class QuerySettings(_Section):
    """Queries: where their process is, what it may take of its machine, and what one query may take of it."""

    url: str | None = None      # where control finds the query process; the embedded system knows its own
    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)  # 0: the embedded system keeps one free port for its home
    api_url: str | None = None  # where the query process finds control
    token: SecretStr | None = None
    engines: int = Field(default=2, ge=1, le=64)               # queries at a time
    waiting: int = Field(default=32, ge=0, le=1000)            # queries that wait for one of them
    patience_seconds: float = Field(default=30, ge=0, le=600)  # before one that waits is sent away
    threads: int = Field(default=0, ge=0, le=256)              # of one query; 0: as many as there are cores
    memory_mib: int = Field(default=1024, ge=64)               # of one query
    spill_mib: int = Field(default=4096, ge=0)                 # on disk, of one query
    max_seconds: float = Field(default=30, gt=0, le=3600)
    default_rows: int = Field(default=10_000, ge=1)            # of an answer whose question gives no limit
    max_rows: int = Field(default=100_000, ge=1, le=1_000_000)
    max_bytes: int = Field(default=64 * 2**20, ge=1024)        # of an answer
    max_copied_bytes: int = Field(default=4 * 2**30, ge=0)     # of files of an object store, copied for one query
    lease_seconds: float = Field(default=60, ge=1, le=3600)    # of a pin; it is renewed while its query runs
    idle_seconds: float = Field(default=300, ge=0, le=86400)   # before an engine that has nothing to do ends


class BusSettings(_Section):
    """Where records are told before they are stored. Without a url they are stored at once."""

    url: str | None = None  # `postgres:`, or `kafka://host:port,host:port`
    options: dict[str, SecretStr] = Field(default_factory=dict)  # of Kafka's driver, by its own names: `security.protocol`, `sasl.username`, …
    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{0,100}$")  # how this installation's topics and groups on Kafka begin; its own, if not set
    keep: timedelta = timedelta(days=7)  # before a message on Postgres is removed, once every subscriber has read it


class RecordSettings(_Section):
    """Metadata records: where the platform keeps its own, and what the service offers."""

    url: str | None = None           # `file:///folder`, `s3://bucket/prefix` or `https://service`; left empty, this system's Postgres
    token: SecretStr | None = None   # of the service there
    cluster: str = Field(default="embedded", min_length=1, max_length=500)  # with `workspace`: where this system stands among others, in its own records
    workspace: str = Field(default="main", min_length=1, max_length=500)
    max_tails: int = Field(default=1000, ge=1, le=100_000)  # streams that are open at a time
    compact_every_hours: float = Field(default=24, gt=0, le=24 * 366)  # between two looks for records that are older than their kind keeps them


class ChaosSettings(_Section):
    """For the chaos suite: kill this very process when it reaches a named point (`claim:before_commit`)."""

    kill_at: str | None = None


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="TRACELAKE__", env_nested_delimiter="__", frozen=True, extra="forbid")

    home: Path = Field(default_factory=default_home)
    locations: dict[str, LocationSettings] = Field(default_factory=dict)  # by name; control defines those that its first org does not have
    database: DatabaseSettings = DatabaseSettings()
    api: ApiSettings = ApiSettings()
    access: AccessSettings = AccessSettings()
    tasks: TaskSettings = TaskSettings()
    storage: StorageSettings = StorageSettings()
    webhook: WebhookSettings = WebhookSettings()
    worker: WorkerSettings = WorkerSettings()
    spark: SparkSettings = SparkSettings()
    measuring: MeasuringSettings = MeasuringSettings()
    query: QuerySettings = QuerySettings()
    bus: BusSettings = BusSettings()
    records: RecordSettings = RecordSettings()
    chaos: ChaosSettings = ChaosSettings()

    @property
    def jars_folder(self) -> Path:
        return jars_folder(self.home) if self.spark.jars_folder is None else Path(self.spark.jars_folder)

    @field_validator("locations")
    @classmethod
    def _named_plainly(cls, locations: dict[str, LocationSettings]) -> dict[str, LocationSettings]:
        for name in locations:
            check_name(name)
        return locations

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=_values_of(settings_file()))


def settings_file() -> Path | None:
    """The file that settings are read from, in the folder where the process is started; raises where one is named that is not there."""
    named = os.environ.get("TRACELAKE_CONFIG")
    file = Path(named or "tracelake.yaml")
    if file.is_file():
        return file
    if named:
        raise SettingInvalid("TRACELAKE_CONFIG: it names a file that is not there; correct the path, or unset it")
    return None


def _values_of(file: Path | None) -> dict[str, Any]:
    """What stands in it; no error repeats a line of it, since secrets may be among them."""
    if file is None:
        return {}
    try:
        found: Any = yaml.safe_load(file.read_text("utf-8"))
    except OSError as error:
        raise SettingInvalid(f"{file}: it cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        line = error.problem_mark.line + 1 if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark else None
        raise SettingInvalid(f"{file}: it is no YAML{f', see line {line}' if line else ''}; correct it, or take it away") from None
    if found is not None and not isinstance(found, dict):
        raise SettingInvalid(f"{file}: settings are written as names with their values, like `home: /data/tracelake`")
    values = cast("dict[str, Any]", found or {})
    for name, what in _REMOVED.items():
        if name in values:
            raise SettingInvalid(f"{file}: {what}")
    return _below_folder(values, file.resolve().parent)


def _below_folder(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The values with the relative paths of locations made absolute: they are below the file's folder, wherever a process is started."""
    given = values.get("locations")
    if not isinstance(given, dict):
        return values
    located = cast("dict[Any, Any]", given)
    return values | {"locations": {name: _absolute(value, folder) for name, value in located.items()}}


def _absolute(value: Any, folder: Path) -> Any:
    if isinstance(value, dict):
        known = cast("dict[Any, Any]", value)
        return known | ({"url": _absolute(known["url"], folder)} if "url" in known else {})
    return absolute_root(value, folder) if isinstance(value, str) else value


# Settings that earlier versions had.
_REMOVED = {
    "vars": "`vars` does not exist any more; define the folders under `locations`, such as `locations: {landing: ./landing}`, and write `path: landing/orders` in the DAG file",
}

# The names that people know, beside the systematic ones.
_SHORT_NAMES = {
    "TRACELAKE_HOME": ("home",),
    "TRACELAKE_DATABASE_URL": ("database", "url"),
}


def read_settings(**overrides: Any) -> Settings:
    """This process's settings; a wrong one is an error that names it and never repeats its value."""
    for name, what in _REMOVED.items():
        if (variable := f"TRACELAKE__{name.upper()}") in os.environ:
            raise SettingInvalid(f"{variable}: {what}")
    given: dict[str, Any] = {}
    for name, path in _SHORT_NAMES.items():
        if value := os.environ.get(name):
            section = given
            for part in path[:-1]:
                section = cast("dict[str, Any]", section.setdefault(part, {}))
            section[path[-1]] = value
    try:
        return Settings(**(given | overrides))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = "__".join(str(part).upper() for part in first["loc"])
        what = "there is no such setting; correct its name, or take it away" if first["type"] == "extra_forbidden" else first["msg"]
        raise SettingInvalid(f"TRACELAKE__{place}: {what}") from None
