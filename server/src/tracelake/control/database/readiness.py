"""Readiness: whether a process can do its work now, and what keeps it from it."""

from dataclasses import dataclass

from tracelake.control.database import migrations
from tracelake.control.database.transactions import Database
from tracelake.loops import Loops
from tracelake_sdk.errors import NotReady, TracelakeError


@dataclass(frozen=True)
class Readiness:
    """Ready means: the database answers and takes writes, its schema fits this program, and no loop is failing.

    Storage is not asked: where it refuses, the loops that need it fail.
    """

    database: Database
    loops: Loops
    sets: tuple[str, ...] = migrations.ALL_SETS

    def check(self) -> None:
        """Raises NotReady, with every reason."""
        reasons = [*self._of_database(), *({"what": f"loop {status.name}", "code": status.code} for status in self.loops.failing())]
        if reasons:
            named = ", ".join(f"{reason['what']} ({reason['code']})" for reason in reasons)
            raise NotReady(f"This process is not ready: {named}. It becomes ready by itself when these work again.", retry_after=1, reasons=reasons)

    def _of_database(self) -> list[dict[str, str | None]]:
        try:
            self.database.check()
            with self.database.looking() as tx:
                migrations.compare(tx.tuples(migrations.APPLIED), sets=self.sets)
        except TracelakeError as error:
            return [{"what": "database", "code": error.code, "detail": error.detail}]
        return []
