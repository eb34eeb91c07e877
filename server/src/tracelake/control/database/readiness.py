"""Readiness: whether a process can do its work now, and if not, why."""

from dataclasses import dataclass

from tracelake.control.database import migrations
from tracelake.control.database.transactions import Database
from tracelake.loops import Loops, Reason, not_ready
from tracelake_sdk.errors import TracelakeError


@dataclass(frozen=True)
class Readiness:
    """Ready means: the database answers and takes writes, its schema fits this program, and no loop is failing.

    Storage is not checked: if it fails, the loops that need it fail.
    """

    database: Database
    loops: Loops
    sets: tuple[str, ...] = migrations.ALL_SETS

    def check(self) -> None:
        """Raises NotReady, with every reason."""
        if reasons := [*self._of_database(), *self.loops.reasons()]:
            raise not_ready(reasons)

    def _of_database(self) -> list[Reason]:
        try:
            self.database.check()
            with self.database.looking() as tx:
                migrations.compare(tx.tuples(migrations.APPLIED), sets=self.sets)
        except TracelakeError as error:
            return [{"what": "database", "code": error.code, "detail": error.detail}]
        return []
