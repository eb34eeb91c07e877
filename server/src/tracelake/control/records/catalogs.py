"""The kinds of each tenant, cached in this process and read again when their number grows."""

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
class TenantKinds:
    """All versions of all kinds of one tenant, its own and the built-in ones, by name."""

    versions: Mapping[str, Sequence[Kind]]
    number: int = 0  # of the tenant's own versions

    def newest(self) -> list[Kind]:
        return [versions[-1] for _, versions in sorted(self.versions.items())]

    def of(self, name: str) -> Sequence[Kind]:
        """All versions; empty if the kind is not registered."""
        return self.versions.get(name, ())

    def kind(self, name: str, version: int | None = None) -> Kind:
        """Raises KindUnknown."""
        versions = self.versions.get(name)
        if not versions or not 1 <= (version or 1) <= len(versions):
            advice = "see `tracelake kind list`." if versions else did_you_mean(name, self.versions, "see `tracelake kind list`.")
            raise KindUnknown(f"No kind {name}{f' version {version}' if version else ''} is registered; {advice}")
        return versions[(version or len(versions)) - 1]


@dataclass
class KindCache:
    """Each use counts the tenant's kinds and reads them again only if there are more."""

    _known: dict[UUID, TenantKinds] = field(default_factory=dict)

    def of(self, tx: Transaction, org: UUID, *, number: int | None = None) -> TenantKinds:
        """`number`: how many kinds the tenant has, if that was just counted."""
        known = self._known.get(org)
        if known is None or known.number != (store.number_of_kinds(tx, org) if number is None else number):
            known = self._known[org] = _read(tx, org)
        return known


def _read(tx: Transaction, org: UUID) -> TenantKinds:
    own = [Kind.model_validate_json(definition) for definition in store.kinds(tx, org)]
    versions: dict[str, list[Kind]] = {}
    for kind in (*builtin_kinds(), *own):
        versions.setdefault(kind.name, []).append(kind)
    return TenantKinds(versions, len(own))
