"""The database's clock: the only clock for the age of rows."""

from datetime import datetime

from tracelake.control.database.named_queries import load
from tracelake.control.database.transactions import Transaction

sql = load(__name__, "clock.sql")


def read_clock(tx: Transaction) -> datetime:
    """The time at which the transaction began."""
    return tx.value(sql["clock"])
