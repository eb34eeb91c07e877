"""One frozen object per process: the environment over `tracelake.yaml` over these defaults, read once at the start."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from tracelake_sdk.dags.locations import absolute_root, check_name
from tracelake_sdk.errors import SettingInvalid
from tracelake_sdk.home import default_home
from tracelake_sdk.spark_settings import MEMORY, SparkSettings, jars_folder
from tracelake_sdk.suggestions import nearest


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DatabaseSettings(_Section):
    """If empty, the embedded Postgres of the home is used."""

    url: SecretStr | None = Field(default=None, description="URL of the state database with the login role of the service.")
    owner_url: SecretStr | None = Field(default=None, description="URL with the role that owns the schema; only migrations use it.")
    data_url: SecretStr | None = Field(default=None, description="URL of the data database with the login role of the service.")
    pool_size: int = Field(default=8, ge=2, le=200, description="Connections of one process.")


class ApiSettings(_Section):
    """The HTTP API of control."""

    host: str = Field(default="127.0.0.1", description="Address that control listens on.")
    port: int = Field(default=0, ge=0, le=65535, description="Port that control listens on; with 0 the embedded system keeps one free port for its home.")
    max_waiting_polls: int = Field(default=256, ge=1, le=5000, description="Long polls of workers that may wait at a time.")
    body_seconds: float = Field(default=120, gt=0, description="Seconds in which the body of a request must have arrived; a slower one is refused with `body_too_slow`.")
    head_seconds: float = Field(default=30, gt=0, description="Seconds in which the request line and headers must have arrived; a slower connection is closed.")
    bodies_mib: int = Field(
        default=256, ge=64, description="Memory in MiB for the bodies of all requests that control reads and handles at a time; users may fill three quarters of it. Beyond it a request is refused with `busy`."
    )


class IssuerSettings(_Section):
    """An issuer of JWTs. Its tokens identify a user; they never decide about org or roles."""

    issuer: str = Field(description="`iss` of its tokens.")
    audience: str = Field(description="`aud` of its tokens.")
    public_key: str = Field(description="Its key as PEM; EdDSA, ES256 or RS256 (2048 bits or more).")
    org: str | None = Field(default=None, description="Org whose users its tokens name; if empty, the first org.")


class AccessSettings(_Section):
    """The first org and its admin, and the trusted issuers of signed tokens."""

    org: str = Field(default="main", description="Name of the first org, which the first start creates.")
    admin_issuer: str = Field(default="tracelake", description="With `admin_subject`: the first admin's issuer in a JWT.")
    admin_subject: str = Field(default="admin", description="Name of the first admin, and its `sub` in a JWT.")
    issuers: tuple[IssuerSettings, ...] = Field(default=(), description="Issuers of JWTs that are trusted.")


class TaskSettings(_Section):
    """Leases, retries and housekeeping of tasks."""

    lease_seconds: float = Field(default=30, ge=0.2, le=3600, description="Length of a worker's lease on a task; heartbeats renew it.")
    backoff_seconds: float = Field(default=2, ge=0, le=3600, description="Pause before the second attempt; it doubles with each further one, with jitter.")
    max_backoff_seconds: float = Field(default=300, ge=0, le=86400, description="Longest pause between two attempts.")
    housekeeping_seconds: float = Field(default=1, ge=0.02, le=60, description="Pause between two turns of the background loops, such as the one that reaps leases.")


class StorageSettings(_Section):
    """Where tables are stored."""

    url: str | None = Field(default=None, description="`file:///folder` or `s3://bucket/prefix`; if empty, the folder `lake` of the home.")
    endpoint: str | None = Field(default=None, description="URL of an S3-compatible store that is not Amazon's.")
    region: str = Field(default="us-east-1", description="Region of the bucket.")
    access_key_id: str | None = Field(default=None, description="The platform's key; if empty, the credentials that the environment provides.")
    secret_access_key: SecretStr | None = Field(default=None, description="Secret of the platform's key.")
    operator_role: str | None = Field(default=None, description="ARN of a role that the store's STS narrows to the prefixes of each task; operators then never get the platform's key.")
    sts_endpoint: str | None = Field(default=None, description="URL of the STS; if empty, `endpoint`, or Amazon's for the region.")
    operator_access_key_id: str | None = Field(default=None, description="For a store without STS: a second key, limited by an admin, that operators get instead of the platform's.")
    operator_secret_access_key: SecretStr | None = Field(default=None, description="Secret of the second key.")
    allow_http: bool = Field(default=False, description="Whether to allow connections to the store without TLS.")
    timeout_seconds: float = Field(default=30, gt=0, le=600, description="Longest time for one request to the store.")
    staging_retention_seconds: float = Field(default=86400, ge=0, description="Time before files of a final attempt that no table names are deleted.")
    max_unrecorded: int = Field(default=100, ge=1, description="Versions of a line that may wait to be recorded before its tasks are held.")

    @property
    def is_s3(self) -> bool:
        return self.url is not None and self.url.startswith("s3:")


class LocationSettings(_Section):
    """A location that DAGs read files from. In a settings file a path is enough; a relative one is below the folder of the file."""

    url: str = Field(description="`/folder`, `file:///folder` or `s3://bucket/prefix`.")
    roles: tuple[str, ...] = Field(default=(), description="Roles that may use it in a DAG, besides the admins.")

    @model_validator(mode="before")
    @classmethod
    def _of_a_path(cls, value: Any) -> Any:
        return {"url": value} if isinstance(value, str) else value


class WebhookSettings(_Section):
    """A URL that is called when a task is final."""

    url: str | None = Field(default=None, description="URL that is called when a task is final; if empty, none is.")
    secret: SecretStr | None = Field(default=None, description="Key that signs each body: `Tracelake-Signature: sha256=…`.")
    timeout_seconds: float = Field(default=10, gt=0, le=60, description="Longest time for one call.")
    allow_private_addresses: bool = Field(default=False, description="Whether the URL may be in a private network.")


class WorkerSettings(_Section):
    """A worker: which tasks it claims, and how many."""

    name: str | None = Field(default=None, description="Name of the worker; if empty, a random one.")
    api_url: str | None = Field(default=None, description="URL of control; not needed in an embedded system.")
    token: SecretStr | None = Field(default=None, description="Token of the worker.")
    prefetch: int = Field(default=100, ge=1, le=500, description="Tasks of the dispatcher that are claimed at a time.")
    poll_seconds: float = Field(default=20, ge=0, le=60, description="Longest time that a claim waits for a task.")
    runtimes: tuple[Literal["dispatcher", "spark"], ...] = Field(default=("dispatcher", "spark"), description="Runtimes whose tasks the worker claims.")
    slots: int = Field(default=2, ge=1, le=64, description="Tasks of runtime `spark` at a time.")
    host_idle_seconds: float = Field(default=600, ge=0, le=86400, description="Time before a Spark host without a task ends.")
    commands: dict[str, list[str]] = Field(default_factory=dict, description="Operator → program that runs it instead of Spark; its last argument is the path of its order.")


class MeasuringSettings(_Section):
    """Resources of the process that measures outputs."""

    cores: int = Field(default=2, ge=1, le=256, description="Threads of the process.")
    memory: str = Field(default="1g", pattern=MEMORY, description="Memory of the process, such as `512m` or `4g`.")


class QuerySettings(_Section):
    """The query process, and the resources of each query."""

    url: str | None = Field(default=None, description="URL at which control finds the query process; not needed in an embedded system.")
    host: str = Field(default="127.0.0.1", description="Address that the query process listens on.")
    port: int = Field(default=0, ge=0, le=65535, description="Port that it listens on; with 0 the embedded system keeps one free port for its home.")
    api_url: str | None = Field(default=None, description="URL at which the query process finds control.")
    token: SecretStr | None = Field(default=None, description="Token of the query process.")
    engines: int = Field(default=2, ge=1, le=64, description="Queries at a time.")
    waiting: int = Field(default=32, ge=0, le=1000, description="Queries that may wait for an engine.")
    patience_seconds: float = Field(default=30, ge=0, le=600, description="Longest wait for an engine before a query is refused.")
    threads: int = Field(default=0, ge=0, le=256, description="Threads of one query; 0: one for each core.")
    memory_mib: int = Field(default=1024, ge=64, description="Memory of one query in MiB.")
    spill_mib: int = Field(default=4096, ge=0, description="Disk of one query in MiB.")
    max_seconds: float = Field(default=30, gt=0, le=3600, description="Longest time of one query.")
    default_rows: int = Field(default=10_000, ge=1, description="Rows of a result if the query has no limit.")
    max_rows: int = Field(default=100_000, ge=1, le=1_000_000, description="Maximum rows of a result.")
    max_bytes: int = Field(default=64 * 2**20, ge=1024, description="Maximum bytes of a result.")
    max_copied_bytes: int = Field(default=4 * 2**30, ge=0, description="Maximum bytes of object-store files that are copied for one query.")
    lease_seconds: float = Field(default=60, ge=1, le=3600, description="Length of a pin; it is renewed while its query runs.")
    idle_seconds: float = Field(default=300, ge=0, le=86400, description="Time before an engine without a query ends.")


class BusSettings(_Section):
    """Where records are published before they are stored. Without a url they are stored at once."""

    url: str | None = Field(default=None, description="`postgres:`, or `kafka://host:port,host:port`.")
    options: dict[str, SecretStr] = Field(default_factory=dict, description="Options of Kafka's driver by their own names: `security.protocol`, `sasl.username`, …")
    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{0,100}$", description="Prefix of this installation's topics and groups on Kafka; if empty, a generated one.")
    keep: timedelta = Field(default=timedelta(days=7), description="Time before a message on Postgres is removed, once every subscriber has read it.")


class RecordSettings(_Section):
    """Metadata records: where the platform stores its own, and limits of the service."""

    url: str | None = Field(default=None, description="`file:///folder`, `s3://bucket/prefix` or `https://service`; if empty, the Postgres of this system.")
    token: SecretStr | None = Field(default=None, description="Token of the service there.")
    cluster: str = Field(default="embedded", min_length=1, max_length=500, description="With `workspace`: the name of this system in its own records.")
    workspace: str = Field(default="main", min_length=1, max_length=500, description="See `cluster`.")
    max_tails: int = Field(default=1000, ge=1, le=100_000, description="Streams of records that may be open at a time.")
    compact_every_hours: float = Field(default=24, gt=0, le=24 * 366, description="Time between two compactions of records that are older than their retention.")


class ChaosSettings(_Section):
    """For the chaos suite: kill this process when it reaches a named point (`claim:before_commit`)."""

    kill_at: str | None = Field(default=None, description="Name of the point.")


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="TRACELAKE__", env_nested_delimiter="__", frozen=True, extra="forbid")

    home: Path = Field(default_factory=default_home, description="Folder of the embedded system; also `TRACELAKE_HOME`.")
    locations: dict[str, LocationSettings] = Field(default_factory=dict, description="Locations that DAGs read files from, by name. Control creates those that its first org does not have.")
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
    """The file that settings are read from, in the working folder of the process; raises if TRACELAKE_CONFIG names a file that does not exist."""
    named = os.environ.get("TRACELAKE_CONFIG")
    file = Path(named or "tracelake.yaml")
    if file.is_file():
        return file
    if named:
        raise SettingInvalid("TRACELAKE_CONFIG: the file does not exist; correct the path, or unset it")
    return None


def _values_of(file: Path | None) -> dict[str, Any]:
    """The content of the file; no error quotes it, because it may contain secrets."""
    if file is None:
        return {}
    try:
        found: Any = yaml.safe_load(file.read_text("utf-8"))
    except OSError as error:
        raise SettingInvalid(f"{file} cannot be read: {error.strerror}; correct its permissions") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        line = error.problem_mark.line + 1 if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark else None
        raise SettingInvalid(f"{file.resolve()}: this file is not valid YAML{f', see line {line}' if line else ''}; correct it, or remove it") from None
    if found is not None and not isinstance(found, dict):
        raise SettingInvalid(f"{file}: write settings as names and values, like `home: /data/tracelake`")
    values = cast("dict[str, Any]", found or {})
    for name, what in _REMOVED.items():
        if name in values:
            raise SettingInvalid(f"{file}: {what}")
    return _below_folder(values, file.resolve().parent)


def _below_folder(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The values with the relative paths of locations made absolute: they are below the file's folder, whatever the working folder of a process."""
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


# Settings of earlier versions.
_REMOVED = {
    "vars": "`vars` is no longer supported; define the folders under `locations`, such as `locations: {landing: ./landing}`, and write `path: landing/orders` in the DAG file",
}

# Short names, beside the systematic ones.
_SHORT_NAMES = {
    "TRACELAKE_HOME": ("home",),
    "TRACELAKE_DATABASE_URL": ("database", "url"),
}


def read_settings(**overrides: Any) -> Settings:
    """The settings of this process; the error for an invalid one names the setting and never its value."""
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
        # A missing key is most likely a misspelt one.
        first = min(error.errors(include_input=False, include_url=False), key=lambda problem: problem["type"] == "missing")
        raise SettingInvalid(_complaint([str(part) for part in first["loc"]], first["msg"].removeprefix("Value error, "), first["type"])) from None


def _complaint(place: list[str], what: str, problem: str) -> str:
    """What is wrong with one setting: with the file and the key where it is written in the file, else with the environment variable."""
    variable, key = f"TRACELAKE__{'__'.join(place).upper()}", ".".join(place)
    file = settings_file()
    in_file = file is not None and not _is_set(variable) and _is_written(_values_of(file), place[:-1] if problem == "missing" else place)
    if problem == "extra_forbidden":
        near = nearest(place[-1], _keys_beside(place))
        known = [*place[:-1], near] if near else None
        if not in_file:
            advice = f"did you mean TRACELAKE__{'__'.join(known).upper()}?" if known else "correct its name, or remove it"
            return f"{variable}: unknown setting; {advice}"
        advice = f"did you mean `{'.'.join(known)}`?" if known else "correct its name, or remove it"
        return f"{_resolved(file)}: unknown setting `{key}`; {advice}"
    return f"{_resolved(file)}: `{key}`: {what}" if in_file else f"{variable}: {what}"


def _resolved(file: Path | None) -> Path:
    return (file or Path("tracelake.yaml")).resolve()


def _is_set(variable: str) -> bool:
    """Whether the environment has this setting, a part of it, or the section that it belongs to."""
    names = [name.upper() for name in os.environ if name.upper().startswith(Settings.model_config.get("env_prefix", ""))]
    return any(f"{name}__".startswith(f"{variable}__") or f"{variable}__".startswith(f"{name}__") for name in names)


def _is_written(values: Any, place: list[str]) -> bool:
    """Whether the file has a value at this path; list items are numbers."""
    for key in place:
        known = {str(index): value for index, value in enumerate(cast("list[Any]", values))} if isinstance(values, list) else values
        if not isinstance(known, dict) or key not in known:
            return False
        values = cast("dict[str, Any]", known)[key]
    return True


def _keys_beside(place: list[str]) -> list[str]:
    """The known keys of the section that a key is in."""
    section: Any = Settings
    for key in place[:-1]:
        match get_origin(section):
            case origin if origin is dict:
                section = get_args(section)[1]
            case origin if origin is tuple:
                section = get_args(section)[0]
            case _:
                section = section.model_fields[key].annotation
    return list(section.model_fields)
