"""One meaning of the bus, whatever carries it: in this process, on Postgres, on Kafka."""

import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from confluent_kafka import KafkaError
from support.databases import StateDatabase
from support.kafka_brokers import KafkaBroker, running_broker

from tracelake.control.bus.health import check, forget
from tracelake.control.bus.kafka import KafkaBus
from tracelake.control.bus.opening import bus_name, open_bus
from tracelake.control.bus.postgres import PostgresBus
from tracelake.control.database.transactions import Database
from tracelake.settings import BusSettings, Settings
from tracelake_sdk.errors import NotFound, Unauthenticated
from tracelake_sdk.errors.records import BusUnavailable, RepositoryUnavailable
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget
from tracelake_sdk.records.bus import STORED, Bus, MemoryBus, Message, Received, Subscription
from tracelake_sdk.records.subscribers import MemoryOffsets, RecordCounts, Refused, StoredRelay, Subscriber, from_message, storing, to_message
from tracelake_sdk.testing import MemoryRepository

LONGEST = 180.0
KAFKA = pytest.param("kafka", marks=pytest.mark.xdist_group("kafka"))  # one broker a run
CONTEXT = MetadataContext(job_id="shop/load", run_id="run:1", cluster="test", workspace="test", tenant="main")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with running_broker(tmp_path_factory.mktemp("kafka") / "broker") as running:
        yield running


@pytest.fixture(params=["memory", "postgres", KAFKA])
def bus(request: pytest.FixtureRequest) -> Iterator[Bus]:
    match request.param:
        case "memory":
            yield MemoryBus()
        case "postgres":
            database: StateDatabase = request.getfixturevalue("database")
            with Database(database.service_url, size=4) as opened:
                yield PostgresBus(opened)
        case _:
            running: KafkaBroker = request.getfixturevalue("broker")
            opened_bus = KafkaBus(running.servers, patience=0.2)
            yield opened_bus
            opened_bus.close()


@pytest.fixture
def topic() -> str:
    """Of this test alone: the broker serves them all."""
    return f"test.{uuid.uuid4().hex}"


def numbers(*values: int, key: str | None = None) -> list[Message]:
    return [Message({"n": value}, key) for value in values]


def read_until(subscription: Subscription, number: int, *, limit: int = 100) -> list[Received]:
    """What is behind the last commit, once there is so much of it."""
    deadline = time.monotonic() + LONGEST
    while len(found := subscription.read(limit)) < number:
        assert time.monotonic() < deadline, f"only {len(found)} of {number} messages came"
    return found


def run_until(subscriber: Subscriber, handled: int, set_aside: int = 0) -> None:
    deadline = time.monotonic() + LONGEST
    while subscriber.handled + subscriber.set_aside < handled + set_aside:
        subscriber.run_once()
        assert time.monotonic() < deadline, f"{subscriber.name} handled {subscriber.handled} and set aside {subscriber.set_aside}"
    assert (subscriber.handled, subscriber.set_aside) == (handled, set_aside)


def bodies(messages: Sequence[Received]) -> list[int]:
    return [message.body["n"] for message in messages]


def record(number: int, kind: str = "ingestion_runtime", **payload: object) -> MetadataRecord:
    return MetadataRecord(
        target=MetadataTarget(source_id="pg", schema="public", table=f"t{number}"),
        kind=kind,
        payload={"duration_seconds": 1.5, "retries": 0, "outcome": "success", "window_start": None, "window_end": None, "slice_filter": []} | payload,
        produced_at=datetime(2026, 1, 1, tzinfo=UTC),
        producer_id="test.v1",
    )


@pytest.mark.proves("M4.1")
def test_messages_come_in_order_and_again_until_they_are_committed(bus: Bus, topic: str):
    bus.publish(topic, numbers(1, 2))
    bus.publish(topic, numbers(3))
    subscription = bus.subscribe(topic, f"{topic}.reader")
    assert bodies(read_until(subscription, 3)) == [1, 2, 3]
    assert bodies(subscription.read()) == [1, 2, 3]
    subscription.commit(subscription.read(2))
    assert bodies(read_until(subscription, 1)) == [3]
    subscription.commit(subscription.read())
    assert subscription.read() == []
    subscription.close()


@pytest.mark.proves("M4.1")
def test_subscribers_have_offsets_of_their_own_and_a_new_one_begins_at_the_beginning(bus: Bus, topic: str):
    bus.publish(topic, numbers(1, 2))
    quick = bus.subscribe(topic, f"{topic}.quick")
    quick.commit(read_until(quick, 2))
    bus.publish(topic, numbers(3))
    assert bodies(read_until(quick, 1)) == [3]
    late = bus.subscribe(topic, f"{topic}.late")
    assert bodies(read_until(late, 3)) == [1, 2, 3]
    quick.close()
    late.close()


@pytest.mark.proves("M4.1")
def test_uncommitted_messages_are_delivered_to_the_next_subscriber(bus: Bus, topic: str):
    bus.publish(topic, numbers(1, 2, 3))
    first = bus.subscribe(topic, f"{topic}.reader")
    first.commit(read_until(first, 3)[:1])
    first.close()
    again = bus.subscribe(topic, f"{topic}.reader")
    assert bodies(read_until(again, 2)) == [2, 3]
    again.close()


def test_an_empty_topic_gives_nothing_and_topics_do_not_mix(bus: Bus, topic: str):
    bus.publish(f"{topic}.other", numbers(9))
    bus.publish(topic, [])
    subscription = bus.subscribe(topic, f"{topic}.reader")
    assert subscription.read() == []
    bus.publish(topic, [Message({"n": 1, "text": "ß → 日本", "nothing": None, "float": 1.0, "long": 10**38 - 1}, key="a/b")])
    [message] = read_until(subscription, 1)
    assert message.body == {"n": 1, "text": "ß → 日本", "nothing": None, "float": 1.0, "long": 10**38 - 1} and message.key == "a/b"
    assert isinstance(message.body["float"], float)
    subscription.close()


@pytest.mark.proves("M4.1")
def test_one_failing_subscriber_never_stops_another(bus: Bus, topic: str):
    seen: list[int] = []

    def keeps(messages: Sequence[Received]) -> Sequence[Refused]:
        seen.extend(bodies(messages))
        return []

    def breaks(messages: Sequence[Received]) -> Sequence[Refused]:
        raise RepositoryUnavailable

    bus.publish(topic, numbers(*range(20)))
    broken, sound = Subscriber(bus, topic, f"{topic}.broken", breaks), Subscriber(bus, topic, f"{topic}.sound", keeps)
    run_until(sound, 20)
    deadline = time.monotonic() + LONGEST
    failed = 0
    while failed < 3:  # it keeps failing, and loses no message
        try:
            broken.run_once()
        except RepositoryUnavailable:
            failed += 1
        assert time.monotonic() < deadline
    assert seen == list(range(20)) and (broken.handled, broken.set_aside) == (0, 0)
    broken._handle = keeps  # fixed
    run_until(broken, 20)
    assert seen == [*range(20), *range(20)]
    broken.close()
    sound.close()


@pytest.mark.proves("M4.1")
def test_a_poisoned_message_is_set_aside_after_its_tries_and_later_ones_are_delivered(bus: Bus, topic: str):
    seen: list[int] = []
    tries = 0

    def chokes_on_3(messages: Sequence[Received]) -> Sequence[Refused]:
        nonlocal tries
        if 3 in bodies(messages):
            tries += len(messages) == 1
            raise ValueError("secret words of the message")
        seen.extend(bodies(messages))
        return []

    bus.publish(topic, numbers(*range(6)))
    subscriber = Subscriber(bus, topic, f"{topic}.reader", chokes_on_3, tries=4)
    run_until(subscriber, 5, 1)
    assert seen == [0, 1, 2, 4, 5] and tries == 4
    aside = bus.subscribe(subscriber.aside, f"{topic}.looker")
    [message] = read_until(aside, 1)
    assert message.body["body"] == {"n": 3} and message.body["problem"] == {"code": "internal", "title": "ValueError"}
    aside.close()
    subscriber.close()


@pytest.mark.proves("M4.1")
def test_the_repository_and_the_counts_are_two_subscribers_of_the_same_records(bus: Bus, topic: str):
    repository, counts = MemoryRepository(), RecordCounts()
    good = [record(number, outcome="failed" if number == 2 else "success") for number in range(5)]
    bus.publish(topic, [to_message(one, CONTEXT) for one in good])
    bus.publish(topic, [to_message(record(9, outcome=17), CONTEXT), Message({"no": "record"})])
    stores, counter = Subscriber(bus, topic, f"{topic}.repository", storing(lambda tenant: repository)), Subscriber(bus, topic, f"{topic}.counts", counts.handle)
    run_until(stores, 5, 2)
    run_until(counter, 6, 1)
    assert {stored.record.target.table for stored in repository.tail(CONTEXT).items} == {f"t{number}" for number in range(5)}
    assert counts.now() == {("ingestion_runtime", "success"): 4, ("ingestion_runtime", "failed"): 1, ("ingestion_runtime", ""): 1}
    aside = bus.subscribe(stores.aside, f"{topic}.looker")
    assert {message.body["problem"]["code"] for message in read_until(aside, 2)} == {"record_refused"}
    for open_one in (stores, counter, aside):
        open_one.close()


@pytest.mark.proves("M4.1")
def test_a_repository_that_refuses_everybody_loses_no_message(bus: Bus, topic: str):
    locked = True
    repository = MemoryRepository()

    def repository_of(tenant: str) -> MemoryRepository:
        if locked:
            raise Unauthenticated
        return repository

    bus.publish(topic, [to_message(record(1), CONTEXT)])
    subscriber = Subscriber(bus, topic, f"{topic}.repository", storing(repository_of), tries=1)
    deadline = time.monotonic() + LONGEST
    turned_away = 0
    while turned_away < 3:
        try:
            subscriber.run_once()
        except RepositoryUnavailable:
            turned_away += 1
        assert time.monotonic() < deadline
    locked = False
    run_until(subscriber, 1)
    subscriber.close()


@pytest.mark.proves("M2.5")
def test_what_a_repository_accepted_is_published_with_its_offset(bus: Bus):
    repository = MemoryRepository(tenant := f"tenant_{uuid.uuid4().hex}")
    context = CONTEXT.model_copy(update={"tenant": tenant})
    offsets = MemoryOffsets()
    relay = StoredRelay(bus, repository, context, offsets, batch=2)
    repository.bulk_store([record(number) for number in range(3)], context)
    assert [relay.run_once() for _ in range(3)] == [2, 1, 0]
    subscription = bus.subscribe(STORED, f"looker.{tenant}")
    deadline = time.monotonic() + LONGEST
    mine: list[Received] = []
    while len(mine) < 3:
        batch = subscription.read()
        mine += [message for message in batch if message.body["stored"]["context"]["tenant"] == tenant]
        subscription.commit(batch)
        assert time.monotonic() < deadline
    assert [message.body["stored"]["record"]["target"]["table"] for message in mine] == ["t0", "t1", "t2"]
    assert repository.tail(context, mine[-1].body["offset"]).items == []
    subscription.close()


def test_an_emitted_record_is_delivered_unchanged(bus: Bus, topic: str):
    bus.publish(topic, [to_message(record(1), CONTEXT)])
    subscription = bus.subscribe(topic, f"{topic}.reader")
    assert from_message(read_until(subscription, 1)[0]) == (record(1), CONTEXT)
    subscription.close()


class Interrupted:
    """The driver's consumer, which finds something wrong between two messages of one batch, once."""

    def __init__(self, consumer: Any, found: Any) -> None:
        self._consumer: Any = consumer
        self._found: list[Any] = [found]

    def consume(self, number: int, timeout: float) -> list[Any]:
        messages = self._consumer.consume(number, timeout=timeout)
        return [messages[0], self._found.pop(), *messages[1:]] if len(messages) > 1 and self._found else messages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


class WrongMessage:
    def error(self) -> KafkaError:
        return KafkaError(KafkaError._ALL_BROKERS_DOWN)


@pytest.mark.proves("M4.1")
@pytest.mark.xdist_group("kafka")
def test_an_error_in_the_middle_of_a_batch_costs_no_message_behind_it(broker: KafkaBroker, topic: str):
    bus = KafkaBus(broker.servers, patience=0.2)
    bus.publish(topic, numbers(*range(10)))
    subscription = bus.subscribe(topic, f"{topic}.reader")
    subscription._consumer = Interrupted(subscription._consumer, WrongMessage())  # pyright: ignore[reportAttributeAccessIssue]
    seen: list[int] = []
    deadline = time.monotonic() + LONGEST
    while len(seen) < 10:
        assert time.monotonic() < deadline, f"only {seen} came"
        try:
            batch = subscription.read()
        except BusUnavailable:
            continue
        seen += bodies(batch)
        subscription.commit(batch)
    assert seen == list(range(10))
    subscription.close()
    bus.close()


@pytest.mark.proves("M4.1")
@pytest.mark.xdist_group("kafka")
def test_two_installations_on_one_broker_do_not_read_each_others_messages(broker: KafkaBroker, topic: str):
    one, two = (KafkaBus(broker.servers, name=name, patience=0.2) for name in ("one", "two"))
    one.publish(topic, numbers(1, 2))
    two.publish(topic, numbers(3, 4))
    readers = [bus.subscribe(topic, f"{topic}.reader") for bus in (one, two)]
    for reader, expected in zip(readers, ([1, 2], [3, 4]), strict=True):
        found = read_until(reader, 2)
        assert bodies(found) == expected and reader.topic == topic
        reader.commit(found)
    assert [reader.read() for reader in readers] == [[], []]
    for open_one in (*readers, one, two):
        open_one.close()


def test_a_new_installation_has_its_own_name_on_a_shared_broker(database: StateDatabase):
    with Database(database.service_url, size=1) as opened:
        own = bus_name(BusSettings(), opened)
        assert own.startswith("tracelake-") and bus_name(BusSettings(), opened) == own
        assert bus_name(BusSettings(name="shop"), opened) == "shop"


@pytest.mark.proves("M4.1")
def test_postgres_keeps_what_a_subscriber_has_not_read_and_names_it_until_it_is_forgotten(database: StateDatabase, topic: str):
    settings = Settings(bus=BusSettings(url="postgres:"))
    with Database(database.service_url, size=4) as opened:
        bus = PostgresBus(opened, keep=timedelta(days=7))
        bus.publish(topic, numbers(1, 2, 3))
        quick, gone = bus.subscribe(topic, "quick"), bus.subscribe(topic, "gone")
        quick.commit(quick.read())
        gone.commit(gone.read(1))
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            connection.execute("UPDATE bus_message SET at = at - interval '8 days'")
        assert check(settings, database.service_url) == (
            False, f"messages are kept for subscribers that do not read: gone of {topic}", f"start them; for one that is no longer used: `tracelaked forget {topic} 'gone'`"
        )
        assert bus.run_once() == 1  # what both have read
        assert bodies(gone.read()) == [2, 3]
        forget(database.service_url, topic, "gone")
        assert check(settings, database.service_url)[0]
        assert bus.run_once() == 2
        with pytest.raises(NotFound, match="quick"):
            forget(database.service_url, topic, "gone")


@pytest.mark.proves("M4.1")
@pytest.mark.xdist_group("kafka")
def test_a_broker_that_restarts_loses_nothing_and_its_subscribers_go_on(broker: KafkaBroker, topic: str):
    bus = open_bus(BusSettings(url=f"kafka://{broker.servers}", name="shop"), Database("postgresql://nobody@nowhere", size=2))  # as control opens it
    assert isinstance(bus, KafkaBus)
    repository = MemoryRepository()
    records = [record(number) for number in range(6)]
    bus.publish(topic, [to_message(one, CONTEXT) for one in records[:3]])
    subscriber = Subscriber(bus, topic, f"{topic}.repository", storing(lambda tenant: repository), batch=2)
    run_until(subscriber, 3)
    broker.stop()
    broker.start()
    bus.publish(topic, [to_message(one, CONTEXT) for one in records[3:]])
    run_until(subscriber, 6)
    subscriber.close()
    # A subscriber of the same name continues after it; another one gets every message.
    again = Subscriber(bus, topic, f"{topic}.repository", storing(lambda tenant: repository))
    bus.publish(topic, [to_message(record(6), CONTEXT)])
    run_until(again, 1)
    other = Subscriber(bus, topic, f"{topic}.other", storing(lambda tenant: repository))
    run_until(other, 7)
    assert len(repository.tail(CONTEXT).items) == 7
    for open_one in (again, other, bus):
        open_one.close()
