"""Which kinds and versions may be registered, and how stored records are read in a newer version.

A definition contains its version: the first is 1, a change is the newest plus one, and an identical definition is the
registered one. The mode of a kind never changes, so compatibility from each version to the next means compatibility
from the first to the last.
"""

from collections.abc import Sequence
from typing import Any

from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.errors.records import KindConflict, KindIncompatible, KindInvalid
from tracelake_sdk.records.identity import canonical
from tracelake_sdk.records.kinds.compatibility import SchemaComparison
from tracelake_sdk.records.kinds.kind import Compatibility, Kind
from tracelake_sdk.records.kinds.schemas import KindFinding, schema_findings
from tracelake_sdk.records.kinds.upcasting import Renames, next_payload, rename_findings
from tracelake_sdk.records.record import StoredRecord

_MOST_FINDINGS = 5  # in the sentence; the error has all of them


def admit(kind: Kind, versions: Sequence[Kind]) -> Kind:
    """The kind to register after `versions` (1, 2, …), or the identical one that is already registered.

    Raises KindInvalid, KindIncompatible or KindConflict; the first two have `findings` with code, path and sentence.
    """
    for registered in versions:
        if registered.version == kind.version and _content(registered) == _content(kind):
            return registered
    if versions and versions[-1].built_in:
        raise KindConflict(f"{kind.name} is built in and cannot be changed; choose another name.")
    if kind.version <= len(versions):
        raise KindConflict(f"{kind.name} version {kind.version} is registered with other content; `tracelake kind evolve` registers version {len(versions) + 1}.")
    _raise(KindInvalid, f"{kind.name} cannot be registered", [*_numbering(kind, len(versions)), *schema_findings(kind)])
    before = versions[-1] if versions else None
    _raise(KindInvalid, f"{kind.name} cannot be registered", [*rename_findings(kind, before)])
    if before is not None:
        _raise(KindIncompatible, f"{kind.name} version {kind.version} is not compatible with mode `{before.mode}`", differences(kind, before))
    return kind


def differences(kind: Kind, before: Kind) -> list[KindFinding]:
    """How a version breaks the compatibility of its mode; empty if it does not."""
    old, new = f"Version {before.version}", f"version {kind.version}"
    backward = SchemaComparison(old, new, forward=False, filled=True)
    forward = SchemaComparison(new.capitalize(), old.lower(), forward=True, filled=False)
    renames = Renames.of({f"payload.{path}": name for path, name in kind.renames.items()})
    fixed: list[KindFinding] = []
    if kind.mode is not before.mode:
        fixed.append(KindFinding("mode_changed", "", f"The mode of a kind cannot change from `{before.mode}`; for another mode, register a new kind."))
    if kind.identity != [renames.path(path) for path in before.identity]:
        fixed.append(KindFinding("identity_changed", "", "The identity of a kind cannot change; records that are emitted again would be stored twice."))
    if before.mode is not Compatibility.FORWARD:
        backward.compare(Renames.of(kind.renames).schema(before.json_schema), kind.json_schema)
    if before.mode is not Compatibility.BACKWARD:
        forward.compare(kind.json_schema, before.json_schema)
    return [*fixed, *backward.findings, *forward.findings]


def upcast(stored: StoredRecord, versions: Sequence[Kind], version: int | None = None) -> StoredRecord:
    """The record with its payload in a newer version, by default the newest; for an older version it is returned unchanged."""
    steps = versions[stored.kind_version : version]
    if not steps:
        return stored
    payload = stored.record.payload
    for kind in steps:
        payload = next_payload(payload, kind)
    reached = steps[-1].version
    return stored.model_copy(update={"record": stored.record.model_copy(update={"payload": payload, "version": reached}), "kind_version": reached})


def same_but_for_version(one: Kind, other: Kind) -> bool:
    """Whether both definitions are the same apart from the version."""
    return _content(one.model_copy(update={"version": other.version})) == _content(other)


def _content(kind: Kind) -> bytes:
    return canonical(kind.model_dump(mode="json", exclude={"built_in"}))


def _numbering(kind: Kind, registered: int) -> list[KindFinding]:
    found: list[KindFinding] = []
    if kind.version != registered + 1:
        found.append(KindFinding("version_not_next", "", f"The next version of {kind.name} is {registered + 1}."))
    if kind.built_in:
        found.append(KindFinding("built_in_reserved", "", "Built-in kinds come with Tracelake; omit `built_in`."))
    return found


def _raise(error: type[TracelakeError], what: str, findings: list[KindFinding]) -> None:
    if not findings:
        return
    sentences = [f"{finding.path + ': ' if finding.path else ''}{finding.sentence} [{finding.code}]" for finding in findings[:_MOST_FINDINGS]]
    more: dict[str, Any] = {"findings": [finding.as_json() for finding in findings]}
    raise error(f"{what}. {' '.join(sentences)}", **more)
