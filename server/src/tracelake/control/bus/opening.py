"""Opens the bus that the settings configure."""

import importlib
from urllib.parse import urlsplit

from tracelake.control.bus import store
from tracelake.control.bus.postgres import PostgresBus
from tracelake.control.database.transactions import Database
from tracelake.settings import BusSettings
from tracelake_sdk.errors import SettingInvalid
from tracelake_sdk.records.bus import Bus


def bus_name(settings: BusSettings, database: Database) -> str:
    """The prefix of the installation's topics and groups on a shared broker."""
    if settings.name is not None:
        return settings.name
    with database.transaction("bus_name") as tx:
        return store.bus_name(tx)


def open_bus(settings: BusSettings, database: Database) -> Bus | None:
    """None if no bus is configured."""
    if settings.url is None:
        return None
    parts = urlsplit(settings.url)
    match parts.scheme:
        case "postgres":
            return PostgresBus(database, keep=settings.keep)
        case "kafka" if parts.netloc:
            try:
                kafka = importlib.import_module("tracelake.control.bus.kafka")  # its driver is an extra
            except ModuleNotFoundError:
                raise SettingInvalid("TRACELAKE__BUS__URL: a bus on Kafka needs the extra `tracelake[kafka]`; install it") from None
            options = {name: value.get_secret_value() for name, value in settings.options.items()}
            return kafka.KafkaBus(parts.netloc, name=bus_name(settings, database), options=options)
        case _:
            raise SettingInvalid("TRACELAKE__BUS__URL: write `postgres:`, or `kafka://host:port,host:port`")
