"""The doctor's check of the bus: where it is, and which subscribers have not read for so long that messages pile up."""

from tracelake.control.bus import store
from tracelake.control.bus.opening import bus_name
from tracelake.control.bus.store import SubscriberRow
from tracelake.control.database.clock import read_clock
from tracelake.control.database.transactions import Database, DatabaseRole
from tracelake.settings import Settings
from tracelake_sdk.errors import NotFound
from tracelake_sdk.wording import counted

_NAMED = 3  # subscribers, as examples


def check(settings: Settings, state_url: str) -> tuple[bool, str, str]:
    """Whether the bus is healthy, what was found, and what to do."""
    if settings.bus.url is None:
        return True, "none; records are stored directly", ""
    with Database(state_url, size=1) as database:
        if not settings.bus.url.startswith("postgres:"):
            name = bus_name(settings.bus, database)
            return True, f"on Kafka; topics and consumer groups {f'begin with `{name}.`' if name else 'have no prefix: set TRACELAKE__BUS__NAME to share a broker'}", ""
        with database.transaction("bus_subscribers") as tx:
            now, subscribers = read_clock(tx), store.subscribers(tx)
    late = [one for one in subscribers if one.unread_since is not None and now - one.unread_since > settings.bus.keep]
    if not late:
        return True, f"on Postgres; {counted(len(subscribers), 'subscriber')}, all up to date", ""
    more = f" and {len(late) - _NAMED} more" if len(late) > _NAMED else ""
    named = ", ".join(f"{one.subscriber} of {one.topic}" for one in late[:_NAMED])
    return False, f"messages are kept for subscribers that do not read: {named}{more}", _remedy(late[0])


def _remedy(late: SubscriberRow) -> str:
    return f"start them; for one that is no longer used: `tracelaked forget {late.topic} {late.subscriber!r}`"


def forget(state_url: str, topic: str, subscriber: str) -> None:
    """Removes a subscriber that is gone, so that messages are no longer kept for it. Raises NotFound."""
    with Database(state_url, size=1) as database, database.transaction("bus_forget", role=DatabaseRole.DEFINE) as tx:
        if not store.forget(tx, topic, subscriber):
            known = ", ".join(f"{one.subscriber} of {one.topic}" for one in store.subscribers(tx)) or "none"
            raise NotFound(f"Subscriber {subscriber} of topic {topic} not found; subscribers on Postgres: {known}.")
