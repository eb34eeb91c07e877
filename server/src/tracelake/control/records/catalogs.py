"""The kinds of each tenant, kept in this process and looked at again when there are more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from tracelake.control.database.transactions import Transaction
from tracelake.control.records import store
from tracelake_sdk.errors.records import KindUnknown
from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.kinds.builtin import builtin_kinds
from tracelake_sdk.suggestions import did_you_mean


@dataclass(frozen=True)
class Catalog:
    """All versions of all kinds of one tenant, its own and the built-in ones, by name."""

    versions: Mapping[str, Sequence[Kind]]
    number: int = 0  # of its own

    def newest(self) -> list[Kind]:
        return [versions[-1] for _, versions in sorted(self.versions.items())]

    def of(self, name: str) -> Sequence[Kind]:
        """All versions; empty where it is not registered."""
        return self.versions.get(name, ())

    def kind(self, name: str, version: int | None = None) -> Kind:
        """Raises KindUnknown."""
        versions = self.versions.get(name)
        if not versions or not 1 <= (version or 1) <= len(versions):
            advice = "see `tracelake kind list`." if versions else did_you_mean(name, self.versions, "see `tracelake kind list`.")
            raise KindUnknown(f"No kind {name}{f' version {version}' if version else ''} is registered; {advice}")
        return versions[(version or len(versions)) - 1]


@dataclass
class Catalogs:
    """One look counts the tenant's kinds, and only more of them are read again."""

    _known: dict[UUID, Catalog] = field(default_factory=dict)

    def of(self, tx: Transaction, org: UUID, *, number: int | None = None) -> Catalog:
        """`number` is how many kinds of its own the tenant has, where that was just counted."""
        known = self._known.get(org)
        if known is None or known.number != (store.number_of_kinds(tx, org) if number is None else number):
            known = self._known[org] = _read(tx, org)
        return known


def _read(tx: Transaction, org: UUID) -> Catalog:
    own = [Kind.model_validate_json(definition) for definition in store.kinds(tx, org)]
    versions: dict[str, list[Kind]] = {}
    for kind in (*builtin_kinds(), *own):
        versions.setdefault(kind.name, []).append(kind)
    return Catalog(versions, len(own))
