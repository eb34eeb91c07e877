"""Table rules: how many rows of a table break a rule about the whole table, stored with the last change, so that the next change only counts its own rows."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from tracelake.control.database.transactions import Pending, Transaction
from tracelake.control.promotion import store
from tracelake.control.promotion.store import TableRuleRow
from tracelake_sdk.rules import TableRuleState


@dataclass(frozen=True)
class TableRules:
    """The counts of some tables, updated as changes are allowed in one transaction."""

    _rows: dict[tuple[UUID, UUID], TableRuleRow]  # by dataset version and rule
    _noted: dict[tuple[UUID, UUID], TableRuleRow] = field(default_factory=dict)

    @staticmethod
    def load(tx: Transaction, dataset_versions: Iterable[UUID]) -> Pending["TableRules"]:
        return store.send_table_rules(tx, dataset_versions).then(lambda rows: TableRules({(row.dataset_version_id, row.rule_id): row for row in rows}))

    def known(self, dataset_version: UUID, *, place: int) -> list[TableRuleState]:
        """Counts of the table after this place, the last one that changed it; counts of other places do not apply."""
        mine = [row for row in self._rows.values() if row.dataset_version_id == dataset_version and row.place == place]
        return [TableRuleState(rule_id=row.rule_id, revision=row.revision, violations=row.violations) for row in mine]

    def note(self, row: TableRuleRow) -> None:
        key = (row.dataset_version_id, row.rule_id)
        self._rows[key] = self._noted[key] = row

    def write(self, tx: Transaction) -> None:
        if self._noted:
            store.note_table_rules(tx, list(self._noted.values()))
