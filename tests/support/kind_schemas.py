"""Random schemas over the keywords that kinds may use, changes to them, and instances made from a schema alone."""

import copy
from random import Random
from typing import Any
from uuid import UUID

Schema = dict[str, Any]

NAMES = ["a", "b", "c", "d", "é 🙂"]
WORDS = ["", "x", "aaa", "zebra", "é🙂", "aaaaaaaaaaaa"]
PATTERNS = {"^a+$": "aa", "^[0-9]{2}$": "42"}
FORMATS = {"date-time": "2026-03-01T10:00:00Z", "date": "2026-03-01", "uuid": str(UUID(int=7)), "ipv4": "10.0.0.1"}
SCALARS = ["null", "boolean", "integer", "number", "string"]
ENUM = ["x", "y", "zebra", 1, 2.5, True, None]


def random_object(random: Random, depth: int = 2) -> Schema:
    names = random.sample(NAMES, random.randint(0, 4))
    schema: Schema = {"type": "object", "properties": {name: random_schema(random, depth - 1) for name in names}}
    if names and random.random() < 0.7:
        schema["required"] = random.sample(names, random.randint(0, len(names)))
    match random.randint(0, 5):
        case 0:
            pass
        case 1:
            schema["additionalProperties"] = random_schema(random, 0)
        case _:
            schema["additionalProperties"] = False
    return schema


def random_schema(random: Random, depth: int) -> Schema:
    choices = [*SCALARS, "enum", "many", "any"] + (["object", "object", "array"] if depth > 0 else [])
    match random.choice(choices):
        case "object":
            schema = random_object(random, depth)
        case "array":
            unique = random.random() < 0.3
            schema = {"type": "array", "items": {"type": random.choice(SCALARS)} if unique else random_schema(random, depth - 1)}
            schema |= {"uniqueItems": True} if unique else {}
            schema |= {"minItems": random.randint(0, 1)} | ({"maxItems": random.randint(1, 4)} if random.random() < 0.5 else {})
        case "enum":
            schema = {"enum": random.sample(ENUM, random.randint(1, 4))} if random.random() < 0.7 else {"const": random.choice(ENUM)}
        case "any":
            schema = {}
        case "many":
            schema = {"type": random.sample(SCALARS, random.randint(2, 4))} | _limits(random)
        case kind:
            schema = {"type": kind} | _limits(random)
    if random.random() < 0.25:
        schema["default"] = instance(schema, random)
    return schema


def _limits(random: Random) -> Schema:
    limits: Schema = {
        random.choice(["minimum", "exclusiveMinimum"]): random.choice([-3, 0, 0.5]),
        random.choice(["maximum", "exclusiveMaximum"]): random.choice([3, 4.5, 100]),
    }
    match random.randint(0, 3):
        case 0:
            limits["pattern"] = random.choice(list(PATTERNS))
        case 1:
            limits["format"] = random.choice(list(FORMATS))
        case _:
            limits |= {"minLength": random.choice([0, 1, 3]), "maxLength": random.choice([3, 5, 40])}
    return {name: value for name, value in limits.items() if random.random() < 0.5}


def instance(schema: Schema, random: Random) -> Any:
    """A value that the schema admits, on the edges more often than not; one that it does not where limits contradict each other."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return random.choice(schema["enum"])
    said = schema.get("type", [*SCALARS, "array", "object"])
    match said if isinstance(said, str) else random.choice(said):
        case "null":
            return None
        case "boolean":
            return random.random() < 0.5
        case "integer":
            return _number(schema, random, whole=True)
        case "number":
            return _number(schema, random, whole=random.random() < 0.3)
        case "string":
            return _text(schema, random)
        case "array":
            return _list(schema, random)
        case _:
            return _object(schema, random)


def _number(schema: Schema, random: Random, *, whole: bool) -> int | float:
    low = max(schema.get("minimum", -1000), schema.get("exclusiveMinimum", -1000))
    high = min(schema.get("maximum", 1000), schema.get("exclusiveMaximum", 1000))
    steps: list[int | float] = [low, high, low + 1, high - 1, int(low) + 1, 1, 2, float(int(high) - 1)] if whole else [low, high, low + 0.25, high - 0.25, (low + high) / 2]
    fits = [
        step for step in steps
        if (not whole or step == int(step)) and low <= step <= high and step > schema.get("exclusiveMinimum", -2000) and step < schema.get("exclusiveMaximum", 2000)
    ]
    return random.choice(fits or [low])


def _text(schema: Schema, random: Random) -> str:
    if "pattern" in schema:
        return PATTERNS[schema["pattern"]]
    if "format" in schema:
        return FORMATS[schema["format"]]
    least, most = schema.get("minLength", 0), schema.get("maxLength", 50)
    return random.choice([word for word in [*WORDS, "x" * least, "🙂" * most] if least <= len(word) <= most] or [""])


def _list(schema: Schema, random: Random) -> list[Any]:
    least = schema.get("minItems", 0)
    wanted = random.randint(least, schema.get("maxItems", least + 3))
    items = [instance(schema.get("items", {"type": "integer"}), random) for _ in range(wanted)]
    if schema.get("uniqueItems"):
        # One item at most: whether 1, 1.0 and true are equal is the validator's to know.
        return items[: max(least, 1)]
    return items


def _object(schema: Schema, random: Random) -> dict[str, Any]:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    made = {name: instance(child, random) for name, child in properties.items() if name in required or random.random() < 0.5}
    rest = schema.get("additionalProperties", True)
    if rest is not False:
        open_to = {} if rest is True else rest
        further = [name for name in [*NAMES, "further"] if name not in properties and random.random() < 0.3]
        made |= {name: instance(open_to if open_to else {"type": random.choice([*SCALARS])}, random) for name in further}
    return made


def changed(schema: Schema, random: Random) -> tuple[Schema, dict[str, str]]:
    """Another version of an object's schema, with the renames that it declares; some break a promise and some do not."""
    new = copy.deepcopy(schema)
    renames: dict[str, str] = {}
    for _ in range(random.randint(0, 3)):
        _edit(new, random)
    if new.get("properties") and random.random() < 0.3:
        old = random.choice(list(new["properties"]))
        name = random.choice([*NAMES, "renamed"])
        if old in schema["properties"] and name not in new["properties"]:
            new["properties"] = {name if key == old else key: child for key, child in new["properties"].items()}
            new |= {"required": [name if key == old else key for key in new["required"]]} if "required" in new else {}
            renames[old] = name
    return new, renames


def _edit(schema: Schema, random: Random) -> None:
    nested = [child for child in schema["properties"].values() if child.get("type") == "object"] + [
        child["items"] for child in schema["properties"].values() if child.get("type") == "array" and child.get("items", {}).get("type") == "object"
    ]
    if nested and random.random() < 0.4:
        _edit(random.choice(nested), random)
        return
    properties = schema["properties"]
    name = random.choice(list(properties)) if properties else None
    match random.randint(0, 8):
        case 0 | 1:
            added = random_schema(random, 1)
            properties[random.choice(NAMES)] = added
        case 2:
            added = random_schema(random, 1)
            added["default"] = instance(added, random)
            properties[fresh := random.choice(NAMES)] = added
            schema["required"] = sorted({*schema.get("required", []), fresh})
        case 3 if name is not None:
            properties.pop(name)
            schema["required"] = [one for one in schema.get("required", []) if one != name]
        case 4 if name is not None:
            schema["required"] = [one for one in schema.get("required", []) if one != name] if random.random() < 0.6 else sorted({*schema.get("required", []), name})
        case 5 if name is not None:
            _loosen_or_tighten(properties[name], random)
        case 6:
            schema["additionalProperties"] = random.choice([True, False, {"type": "string"}])
        case 7 if name is not None:
            properties[name] = random_schema(random, 1)
        case _:
            pass


def _loosen_or_tighten(schema: Schema, random: Random) -> None:
    held = [word for word in schema if word not in ("type", "properties", "default", "enum", "const", "items")]
    if "enum" in schema:
        schema["enum"] = [*dict.fromkeys([*schema["enum"], random.choice(["x", "y", "new"])])] if random.random() < 0.6 else schema["enum"][:1]
    elif "minimum" in schema and random.random() < 0.4:
        schema["exclusiveMinimum"] = schema.pop("minimum")
    elif held and random.random() < 0.6:
        schema.pop(random.choice(held))
    elif isinstance(schema.get("type"), str) and schema["type"] in SCALARS:
        schema["type"] = [*dict.fromkeys([schema["type"], random.choice(SCALARS)])]
    else:
        schema |= _limits(random)
    schema.pop("default", None)
