"""From one version of a kind to the next: declared renames, then declared defaults, and nothing else."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from tracelake_sdk.records.kinds.kind import Kind
from tracelake_sdk.records.kinds.schemas import KindFinding, Schema, below, properties_of

ITEMS = "[]"  # the step of a path into the items of a list
RESERVED = frozenset({"window_start", "window_end", "slice_filter"})  # used for identity and windows


@dataclass
class Renames:
    """The renames of one object: names of its properties, and the renames of nested objects."""

    names: dict[str, str] = field(default_factory=dict)
    deeper: dict[str, "Renames"] = field(default_factory=dict)

    @classmethod
    def of(cls, declared: dict[str, str]) -> Self:
        root = cls()
        for path, name in declared.items():
            *steps, last = path.split(".")
            node = root
            for step in steps:
                node = node.deeper.setdefault(step, cls())
            node.names[last] = name
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
        """A schema under the new names."""
        renamed = dict(schema)
        if "properties" in schema:
            renamed["properties"] = {self.names.get(name, name): self._below(name).schema(child) for name, child in properties_of(schema).items()}
        if "required" in schema:
            renamed["required"] = [self.names.get(name, name) for name in schema["required"]]
        if "items" in schema and ITEMS in self.deeper:
            renamed["items"] = self.deeper[ITEMS].schema(schema["items"])
        return renamed

    def path(self, path: str) -> str:
        """A path of the previous version under the new names."""
        node, steps = self, list[str]()
        for step in path.split("."):
            steps.append(node.names.get(step, step))
            node = node._below(step)
        return ".".join(steps)

    def _below(self, step: str) -> "Renames":
        return self.deeper.get(step, _NONE)


_NONE = Renames()


def filled(value: Any, schema: Schema) -> Any:
    """With the defaults of missing properties; a default is used unchanged."""
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
    """A payload of the previous version, in the version of `kind`."""
    return filled(Renames.of(kind.renames).value(payload) if kind.renames else payload, kind.json_schema)


def rename_findings(kind: Kind, before: Kind | None) -> Iterator[KindFinding]:
    """The problems of a version's renames; the new name must not already exist as a property."""
    if before is None:
        yield from (KindFinding("rename_unknown", f"payload.{path}", "The first version has nothing to rename.") for path in kind.renames)
        return
    renames = Renames.of(kind.renames)
    targets = Counter(renames.path(path) for path in kind.renames)
    for path, name in kind.renames.items():
        *steps, last = path.split(".")
        at = f"payload.{path}"
        holder = below(before.json_schema, steps)
        if holder is None or last not in properties_of(holder):
            yield KindFinding("rename_unknown", at, f"Version {before.version} does not have this property.")
            continue
        renamed_away = {step for step in properties_of(holder) if ".".join([*steps, step]) in kind.renames}
        if path in RESERVED or (not steps and name in RESERVED):
            yield KindFinding("rename_reserved", at, f"{', '.join(sorted(RESERVED))} identify records and cannot be renamed.")
        if holder.get("additionalProperties", True) is not False:
            yield KindFinding("rename_ambiguous", at, f"Objects of version {before.version} may have a further property `{name}`: only objects with `additionalProperties: false` support renames.")
        if name in properties_of(holder).keys() - renamed_away or targets[renames.path(path)] > 1:
            yield KindFinding("rename_taken", at, f"`{name}` is the name of another property.")
        target = below(kind.json_schema, renames.path(path).split("."))
        if target is None or ITEMS in name:
            yield KindFinding("rename_leads_nowhere", at, f"Version {kind.version} has no property `{name}` there.")
