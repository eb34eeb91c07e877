"""The options of `tracelake record query` as filters, and as the arguments of the next page."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import typer
from pydantic import ValidationError

from tracelake_sdk.cli.actions.repositories import condition_of, target_of, window_of
from tracelake_sdk.cli.wording import fault
from tracelake_sdk.records import Aggregation, RecordFilters


@dataclass(frozen=True)
class FilterOptions:
    kinds: list[str] = field(default_factory=list)
    target: str | None = None
    source: str | None = None
    schema: str | None = None
    table: str | None = None
    producer: str | None = None
    job: str | None = None
    run: str | None = None
    namespace: str | None = None
    workspace: str | None = None
    cluster: str | None = None
    quality: str | None = None
    window: str | None = None
    produced: str | None = None
    where: list[str] = field(default_factory=list)
    kind_version: int | None = None
    limit: int = 50
    page: str | None = None

    def filters(self) -> RecordFilters:
        if self.target and (self.source or self.schema or self.table):
            raise typer.BadParameter("it already names source, schema and table; omit --source, --schema and --table", param_hint="--target")
        source, schema, table = target_of(self.target).key if self.target else (self.source, self.schema, self.table)
        try:
            return RecordFilters.model_validate({
                "kinds": self.kinds, "source_id": source, "schema": schema, "table": table, "producer_id": self.producer, "job_id": self.job, "run_id": self.run,
                "namespace": self.namespace, "workspace": self.workspace, "cluster": self.cluster, "quality": self.quality, "window": window_of(self.window),
                "produced": window_of(self.produced), "where": [condition_of(condition) for condition in self.where], "kind_version": self.kind_version,
                "limit": self.limit, "page": self.page,
            })
        except ValidationError as error:
            raise typer.BadParameter(fault(error, placed=True)) from None

    def words(self, repository: str | None, tenant: str | None) -> list[str]:
        """The arguments of the same query, without the page."""
        options: list[tuple[str, str | int | None]] = [("--kind", kind) for kind in self.kinds]
        options += [(f"--{name}", getattr(self, name)) for name in (
            "target", "source", "schema", "table", "producer", "job", "run", "namespace", "workspace", "cluster", "quality", "window", "produced",
        )]  # fmt: skip
        options += [("--where", condition) for condition in self.where]
        options += [("--kind-version", self.kind_version), ("--limit", self.limit), ("--repository", repository), ("--tenant", tenant)]
        return ["record", "query", *(word for option, value in options if value is not None for word in (option, str(value)))]


def aggregation(metric: str | None, of: str | None, group_by: Sequence[str]) -> Aggregation:
    """The default metric is `sum` with a path and `count` without."""
    try:
        return Aggregation.model_validate({"metric": metric or ("sum" if of else "count"), "path": of, "group_by": list(group_by)})
    except ValidationError as error:
        raise typer.BadParameter(fault(error, placed=True)) from None
