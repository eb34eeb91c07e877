"""Whether every value that one schema accepts is accepted by another; decided from the schemas, without reading records.

The check is conservative: it refuses what it cannot prove. A property that a schema neither names nor forbids may
contain anything, so naming one is a breaking change unless the earlier schema had `additionalProperties: false`.
"""

from dataclasses import dataclass, field
from typing import Any

from tracelake_sdk.records.kinds.schemas import ANNOTATIONS, KindFinding, Schema, properties_of, types_of, validator_of

# Codes of a difference: if the old schema accepts more than the new one, and if the new one accepts more than the old.
NAMES = {
    "type": ("type_narrowed", "type_widened"),
    "value": ("value_removed", "value_added"),
    "enum": ("enum_added", "enum_removed"),
    "minimum": ("minimum_raised", "minimum_lowered"),
    "maximum": ("maximum_lowered", "maximum_raised"),
    "minLength": ("min_length_raised", "min_length_lowered"),
    "maxLength": ("max_length_lowered", "max_length_raised"),
    "pattern": ("pattern_added", "pattern_removed"),
    "format": ("format_added", "format_removed"),
    "minItems": ("min_items_raised", "min_items_lowered"),
    "maxItems": ("max_items_lowered", "max_items_raised"),
    "uniqueItems": ("unique_items_added", "unique_items_removed"),
    "required": ("required_added", "required_removed"),
    "property": ("property_removed", "property_added"),
    "constrained": ("property_constrained", "property_released"),
    "additional": ("additional_closed", "additional_opened"),
}


@dataclass(frozen=True)
class SchemaComparison:
    """Finds values that `narrow` accepts and `wide` does not; `filled`: the defaults of `wide` are filled in first."""

    narrow: str  # its name in sentences
    wide: str
    forward: bool
    filled: bool
    findings: list[KindFinding] = field(default_factory=list)

    def compare(self, narrow: Schema, wide: Schema, path: str = "payload") -> None:
        if not wide.keys() - ANNOTATIONS:
            return  # it accepts anything
        if (values := _values(narrow)) is not None:
            self._values(values, narrow, wide, path)
            return
        if "enum" in wide or "const" in wide:
            self._find("enum", path, "values outside a list")
        types = types_of(narrow)
        for missing in sorted(types - types_of(wide) - ({"integer"} if "number" in types else set())):
            self._find("type", path, f"the type `{missing}`")
        shared = types & types_of(wide)
        if "integer" in shared:
            self._numbers(narrow, wide, path)
        if "string" in shared:
            self._texts(narrow, wide, path)
        if "array" in shared:
            self._lists(narrow, wide, path)
        if "object" in shared:
            self._objects(narrow, wide, path)

    def _find(self, name: str, path: str, what: str) -> None:
        self.findings.append(KindFinding(NAMES[name][self.forward], path, f"{self.narrow} accepts {what}, {self.wide} does not."))

    def _values(self, values: list[Any], narrow: Schema, wide: Schema, path: str) -> None:
        admitted, again = validator_of(narrow), validator_of(wide)
        refused = [value for value in values if admitted.is_valid(value) and not again.is_valid(value)]
        if refused:
            self._find("value", path, "a value")

    def _numbers(self, narrow: Schema, wide: Schema, path: str) -> None:
        for name, exclusive, sign in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)):
            if _bound(wide, name, exclusive, sign) > _bound(narrow, name, exclusive, sign):
                self._find(name, path, f"numbers beyond the {name}")

    def _texts(self, narrow: Schema, wide: Schema, path: str) -> None:
        self._sizes(narrow, wide, path, "minLength", "maxLength", "texts")
        for name in ("pattern", "format"):
            if name in wide and wide[name] != narrow.get(name):
                self._find(name, path, f"texts of another {name}")

    def _lists(self, narrow: Schema, wide: Schema, path: str) -> None:
        self._sizes(narrow, wide, path, "minItems", "maxItems", "lists")
        if wide.get("uniqueItems") and not narrow.get("uniqueItems"):
            self._find("uniqueItems", path, "lists with equal items")
        self.compare(narrow.get("items", {}), wide.get("items", {}), f"{path}.[]")

    def _sizes(self, narrow: Schema, wide: Schema, path: str, least: str, most: str, what: str) -> None:
        if wide.get(least, 0) > narrow.get(least, 0):
            self._find(least, path, f"shorter {what}")
        if most in wide and wide[most] < narrow.get(most, float("inf")):
            self._find(most, path, f"longer {what}")

    def _objects(self, narrow: Schema, wide: Schema, path: str) -> None:
        for name in wide.get("required", []):
            if name not in narrow.get("required", []) and not (self.filled and "default" in properties_of(wide).get(name, {})):
                self._find("required", f"{path}.{name}", f"objects without `{name}`")
        # None represents all properties that neither schema names.
        for name in [*dict.fromkeys([*properties_of(narrow), *properties_of(wide)]), None]:
            before, after = _property(narrow, name), _property(wide, name)
            at = f"{path}.{'*' if name is None else name}"
            if before is None:
                continue
            if after is None:
                self._find("additional" if name is None or name not in properties_of(narrow) else "property", at, "the property" if name else "further properties")
            elif name is None or name in properties_of(narrow):
                self.compare(before, after, at)
            elif self._beside().differs(before, after):
                self._find("constrained", at, f"a further property `{name}` that may have other values")

    def _beside(self) -> "SchemaComparison":
        return SchemaComparison(self.narrow, self.wide, self.forward, self.filled)

    def differs(self, narrow: Schema, wide: Schema) -> bool:
        self.compare(narrow, wide)
        return bool(self.findings)


def _values(schema: Schema) -> list[Any] | None:
    """All values that it accepts, if that is a short list."""
    if "const" in schema:
        return [schema["const"]]
    if "enum" in schema:
        return schema["enum"]
    types = types_of(schema)
    return [value for kind, value in (("null", None), ("boolean", True), ("boolean", False)) if kind in types] if types <= {"null", "boolean"} else None


def _bound(schema: Schema, name: str, exclusive: str, sign: int) -> tuple[float, bool]:
    """The tighter of the two bounds, as a pair; a greater pair accepts less."""
    bounds = [(sign * schema[word], word == exclusive) for word in (name, exclusive) if word in schema]
    return max(bounds, default=(float("-inf"), False))


def _property(schema: Schema, name: str | None) -> Schema | None:
    """The schema of a property; None if the property is forbidden."""
    if name is not None and name in properties_of(schema):
        return properties_of(schema)[name]
    rest = schema.get("additionalProperties", True)
    return ({} if rest else None) if isinstance(rest, bool) else rest
