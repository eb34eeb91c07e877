"""The supported subset of JSON Schema: only keywords by which two versions can be compared."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import jsonschema_rs
from pydantic import TypeAdapter, ValidationError

from tracelake_sdk.json_values import Json
from tracelake_sdk.records.identity import canonical
from tracelake_sdk.records.kinds.kind import Kind

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ANNOTATIONS = frozenset({"$comment", "title", "description", "examples", "default", "deprecated"})
KEYWORDS = frozenset({
    "type", "enum", "const",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "minLength", "maxLength", "pattern", "format",
    "items", "minItems", "maxItems", "uniqueItems",
    "properties", "required", "additionalProperties",
})
FORMATS = frozenset({"date-time", "date", "time", "duration", "uuid", "uri", "email", "hostname", "ipv4", "ipv6"})
SCALARS = frozenset({"null", "boolean", "integer", "number", "string"})
MOST_BYTES = 64 * 1024
MOST_DEPTH = 40  # of the schema's JSON
_JSON = TypeAdapter(Json)


@dataclass(frozen=True)
class KindFinding:
    """One reason not to register a kind."""

    code: str
    path: str
    sentence: str

    def as_json(self) -> dict[str, str]:
        return asdict(self)


def validator_of(schema: Schema) -> jsonschema_rs.Draft202012Validator:
    """Patterns without backreferences and lookaround, so that every payload is checked quickly. Raises ValueError."""
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True, pattern_options=jsonschema_rs.RegexOptions())


def schema_findings(kind: Kind) -> list[KindFinding]:
    """The problems of a kind by itself; empty if it is valid."""
    schema = kind.json_schema
    if _deeper_than(MOST_DEPTH, [schema, kind.examples]):
        return [KindFinding("schema_too_deep", "payload", f"The schema or an example is nested deeper than {MOST_DEPTH}.")]
    try:
        definition = _JSON.validate_python({"schema": schema, "examples": kind.examples, "renames": kind.renames, "words": [kind.owner, kind.description]})
    except ValidationError as error:
        return [KindFinding("schema_not_storable", "payload", f"The definition cannot be stored: {error.errors()[0]['msg']}.")]
    if len(canonical(definition)) > MOST_BYTES:
        return [KindFinding("schema_too_large", "payload", f"The definition is larger than {MOST_BYTES // 1024} KiB.")]
    unsupported = [*_unsupported({key: value for key, value in schema.items() if key != "$schema"}, "payload")]
    if schema.get("$schema", DIALECT) != DIALECT:
        unsupported.insert(0, KindFinding("dialect_unsupported", "payload", f"`$schema` must be {DIALECT}, or omitted."))
    if unsupported:
        return unsupported
    try:
        validator = validator_of(schema)
    except ValueError as error:  # includes jsonschema_rs.ValidationError
        return [KindFinding("schema_malformed", "payload", f"The schema is not valid JSON Schema 2020-12: {str(error).splitlines()[0]}.")]
    if schema.get("type") != "object":
        return [KindFinding("payload_not_object", "payload", "The payload must be an object: `type` must be `object`.")]
    return [*_meaning(schema, "payload"), *_examples(kind, validator), *_identity(kind)]


def properties_of(schema: Schema) -> dict[str, Schema]:
    return schema.get("properties", {})


def below(schema: Schema, steps: list[str]) -> Schema | None:
    """The schema at a path of properties, with `[]` for the items of a list."""
    for step in steps:
        found = schema.get("items") if step == "[]" else properties_of(schema).get(step)
        if found is None:
            return None
        schema = found
    return schema


def children(schema: Schema, path: str) -> Iterator[tuple[Schema, str]]:
    for name, child in properties_of(schema).items():
        yield child, f"{path}.{name}"
    if "items" in schema:
        yield schema["items"], f"{path}.[]"
    if isinstance(schema.get("additionalProperties"), dict):
        yield schema["additionalProperties"], f"{path}.*"


def _unsupported(schema: Any, path: str) -> Iterator[KindFinding]:
    """Checks only names of keywords, before anything else reads the schema; its structure may still be invalid."""
    if not isinstance(schema, dict):
        yield KindFinding("schema_malformed", path, "A schema must be an object; to accept anything, write `{}`.")
        return
    for keyword in schema.keys() - KEYWORDS - ANNOTATIONS:
        yield KindFinding("keyword_unsupported", path, f"`{keyword}` is not a supported keyword; supported are: {', '.join(sorted(KEYWORDS))}.")
    properties = schema.get("properties")
    for name, child in properties.items() if isinstance(properties, dict) else ():
        yield from _unsupported(child, f"{path}.{name}")
    if "items" in schema:
        yield from _unsupported(schema["items"], f"{path}.[]")
    if not isinstance(rest := schema.get("additionalProperties", True), bool):
        yield from _unsupported(rest, f"{path}.*")


def _meaning(schema: Schema, path: str) -> Iterator[KindFinding]:
    if "format" in schema and schema["format"] not in FORMATS:
        yield KindFinding("format_unsupported", path, f"`{schema['format']}` is not a supported format; supported are: {', '.join(sorted(FORMATS))}.")
    if any(isinstance(value, (dict, list)) for value in [*schema.get("enum", []), schema.get("const")]):
        yield KindFinding("enum_not_scalar", path, "`enum` and `const` may only list texts, numbers, booleans and null; describe other values by a schema.")
    if schema.get("uniqueItems") and not types_of(schema.get("items", {})) <= SCALARS:
        yield KindFinding("unique_items_not_scalar", path, "`uniqueItems` needs items whose `type` is neither a list nor an object: a default could make two of them equal.")
    if "default" in schema and not validator_of(schema).is_valid(schema["default"]):
        yield KindFinding("default_invalid", path, "The default does not match its own schema.")
    for child, child_path in children(schema, path):
        yield from _meaning(child, child_path)


def types_of(schema: Schema) -> set[str]:
    """All types that it accepts; every integer is a number, so `number` includes both."""
    declared = schema.get("type", [*SCALARS, "array", "object"])
    types = {declared} if isinstance(declared, str) else set(declared)
    return types | {"integer"} if "number" in types else types


def _examples(kind: Kind, validator: jsonschema_rs.Draft202012Validator) -> Iterator[KindFinding]:
    for number, example in enumerate(kind.examples, 1):
        if not validator.is_valid(example):
            yield KindFinding("example_invalid", "payload", f"Example {number} does not match the schema.")


def _identity(kind: Kind) -> Iterator[KindFinding]:
    for path in kind.identity:
        root, *steps = path.split(".")
        if root == "payload" and below(kind.json_schema, steps) is None:
            yield KindFinding("identity_unknown", path, "The identity names a property that the schema does not have.")


def _deeper_than(most: int, value: Any) -> bool:
    level = [value]
    for _ in range(most):
        level = [child for item in level for child in (item.values() if isinstance(item, dict) else item) if isinstance(child, (dict, list))]
        if not level:
            return False
    return True
