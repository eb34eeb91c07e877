"""From one version of a kind to the next: declared renames, then declared defaults, and nothing else."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from tracelake_sdk.records.kinds.kind import Kind
from tracelake_sdk.records.kinds.schemas import Finding, Schema, below, properties_of

ITEMS = "[]"  # the step of a path that goes through the items of a list
RESERVED = frozenset({"window_start", "window_end", "slice_filter"})  # what identity and windows are read from


@dataclass
class Renames:
    """The renames below one place: names of this object's properties, and what lies deeper."""

    names: dict[str, str] = field(default_factory=dict)
    deeper: dict[str, "Renames"] = field(default_factory=dict)

    @classmethod
    def of(cls, declared: dict[str, str]) -> Self:
        root = cls()
        for path, name in declared.items():
            *steps, last = path.split(".")
            place = root
            for step in steps:
                place = place.deeper.setdefault(step, cls())
            place.names[last] = name
        return root

    def value(self, value: Any) -> Any:
        """A payload, or a part of one, under its new names."""
        match value:
            case dict():
                return {self.names.get(name, name): self._below(name).value(item) for name, item in value.items()}
            case list() if ITEMS in self.deeper:
                return [self.deeper[ITEMS].value(item) for item in value]
            case _:
                return value

    def schema(self, schema: Schema) -> Schema:
        """What a schema admits, under the new names."""
        renamed = dict(schema)
        if "properties" in schema:
            renamed["properties"] = {self.names.get(name, name): self._below(name).schema(child) for name, child in properties_of(schema).items()}
        if "required" in schema:
            renamed["required"] = [self.names.get(name, name) for name in schema["required"]]
        if "items" in schema and ITEMS in self.deeper:
            renamed["items"] = self.deeper[ITEMS].schema(schema["items"])
        return renamed

    def path(self, path: str) -> str:
        """Where a path of the version before leads now."""
        place, steps = self, list[str]()
        for step in path.split("."):
            steps.append(place.names.get(step, step))
            place = place._below(step)
        return ".".join(steps)

    def _below(self, step: str) -> "Renames":
        return self.deeper.get(step, _NONE)


_NONE = Renames()


def filled(value: Any, schema: Schema) -> Any:
    """With the defaults of properties that are not there; a default is taken as it stands."""
    match value:
        case dict():
            properties, rest = properties_of(schema), schema.get("additionalProperties")
            present = {name: filled(item, properties.get(name, rest if isinstance(rest, dict) else {})) for name, item in value.items()}
            return present | {name: child["default"] for name, child in properties.items() if name not in value and "default" in child}
        case list() if "items" in schema:
            return [filled(item, schema["items"]) for item in value]
        case _:
            return value


def next_payload(payload: dict[str, Any], kind: Kind) -> dict[str, Any]:
    """A payload of the version before `kind`, as one of `kind`."""
    return filled(Renames.of(kind.renames).value(payload) if kind.renames else payload, kind.json_schema)


def rename_findings(kind: Kind, before: Kind | None) -> Iterator[Finding]:
    """What is wrong with the renames of a version; a rename must never meet a property that has the name already."""
    if before is None:
        yield from (Finding("rename_unknown", f"payload.{path}", "The first version has nothing to rename.") for path in kind.renames)
        return
    renames = Renames.of(kind.renames)
    targets = Counter(renames.path(path) for path in kind.renames)
    for path, name in kind.renames.items():
        *steps, last = path.split(".")
        place = f"payload.{path}"
        holder = below(before.json_schema, steps)
        if holder is None or last not in properties_of(holder):
            yield Finding("rename_unknown", place, f"Version {before.version} has no such property.")
            continue
        renamed_away = {step for step in properties_of(holder) if ".".join([*steps, step]) in kind.renames}
        if path in RESERVED or (not steps and name in RESERVED):
            yield Finding("rename_reserved", place, f"{', '.join(sorted(RESERVED))} identify records and cannot be renamed.")
        if holder.get("additionalProperties", True) is not False:
            yield Finding("rename_ambiguous", place, f"Objects of version {before.version} may have a further property `{name}`: only objects with `additionalProperties: false` support renames.")
        if name in properties_of(holder).keys() - renamed_away or targets[renames.path(path)] > 1:
            yield Finding("rename_taken", place, f"`{name}` is the name of another property.")
        target = below(kind.json_schema, renames.path(path).split("."))
        if target is None or ITEMS in name:
            yield Finding("rename_leads_nowhere", place, f"Version {kind.version} has no property `{name}` there.")
