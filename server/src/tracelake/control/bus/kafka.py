"""The bus on Kafka: a subscriber is a consumer group, and offsets are the broker's.

The driver is the extra `tracelake[kafka]`; this module is imported only when a bus on Kafka is opened.
"""

from collections.abc import Sequence
from typing import Any

import confluent_kafka as driver

from tracelake import wire_json
from tracelake_sdk.errors.records import BusUnavailable
from tracelake_sdk.records.bus import Message, Received, Subscription

_LONGEST_UNREADABLE = 1000
# A missing topic counts as empty.
_NOTHING_THERE = {driver.KafkaError.UNKNOWN_TOPIC_OR_PART, driver.KafkaError._PARTITION_EOF, driver.KafkaError._UNKNOWN_TOPIC}  # pyright: ignore[reportPrivateUsage]


class KafkaBus:
    """`servers` is `host:port`, several joined by commas; `options` go to the driver as they are (`security.protocol`, `sasl.username`, …).

    Topics and groups begin with `name`, so that installations that share a broker do not read each other's messages.
    """

    def __init__(self, servers: str, *, name: str = "", options: dict[str, str] | None = None, patience: float = 1.0, timeout: float = 10.0) -> None:
        self._prefix: str = f"{name}." if name else ""
        self._common: dict[str, Any] = {"bootstrap.servers": servers, "log_level": 0, "reconnect.backoff.max.ms": 1000, **(options or {})}
        self._patience: float = patience  # how long a read waits for a message
        self._timeout: float = timeout
        self._producer: Any = driver.Producer(
            self._common | {"acks": "all", "enable.idempotence": True, "message.timeout.ms": int(timeout * 1000), "linger.ms": 5}
        )

    def publish(self, topic: str, messages: Sequence[Message]) -> None:
        failures: list[str] = []

        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                failures.append(error.name())

        for message in messages:
            self._produce(topic, message, delivered)
        left = self._producer.flush(self._timeout + 5)
        if left:
            self._producer.purge()  # the batch is published again; messages left in the queue would arrive twice
            self._producer.flush(0)
        if left or failures:
            raise BusUnavailable(f"Kafka did not accept {left + len(failures)} of {len(messages)} messages ({failures[0] if failures else 'no answer'}).")

    def subscribe(self, topic: str, name: str) -> Subscription:
        return _KafkaSubscription(topic, name, self._prefix, self._common, self._patience)

    def close(self) -> None:
        self._producer.flush(self._timeout)

    def _produce(self, topic: str, message: Message, delivered: Any) -> None:
        while True:
            try:
                self._producer.produce(self._prefix + topic, wire_json.encode(message.body), key=message.key, on_delivery=delivered)
            except BufferError:
                self._producer.poll(0.1)  # its queue is full: wait until it drains
            else:
                return


class _KafkaSubscription:
    def __init__(self, topic: str, name: str, prefix: str, common: dict[str, Any], patience: float) -> None:
        self.topic: str = topic
        self.name: str = name
        self._topic: str = prefix + topic  # the topic's name on the broker
        self._patience: float = patience
        self._unfinished: list[tuple[Received, int, int]] = []  # with partition and offset: read again until they are committed
        self._consumer: Any = driver.Consumer(
            common
            | {
                "group.id": prefix + name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 10_000,
                "topic.metadata.refresh.interval.ms": 1000,
                "allow.auto.create.topics": True,
            }
        )
        self._consumer.subscribe([self._topic], on_revoke=self._revoked, on_lost=self._revoked)

    def read(self, limit: int = 100) -> list[Received]:
        if len(self._unfinished) < limit:
            patience = 0.0 if self._unfinished else self._patience
            errors: list[str] = []
            # The whole batch is kept, even if one message is invalid: the driver does not return these messages again.
            for message in self._consumer.consume(limit - len(self._unfinished), timeout=patience):
                error = message.error()
                if error is None:
                    self._keep(message)
                elif error.code() not in _NOTHING_THERE:
                    errors.append(error.name())
            if errors and not self._unfinished:
                raise BusUnavailable(f"Kafka does not deliver messages of {self.topic} ({errors[0]}).")
        return [received for received, _, _ in self._unfinished[:limit]]

    def _keep(self, message: Any) -> None:
        key = message.key()
        received = Received(f"{message.partition()}.{message.offset()}", _body(message.value()), key.decode(errors="replace") if key is not None else None)
        self._unfinished.append((received, message.partition(), message.offset()))

    def commit(self, done: Sequence[Received]) -> None:
        places = {one.offset for one in done}
        ends: dict[int, int] = {}
        for received, partition, offset in self._unfinished:
            if received.offset in places:
                ends[partition] = max(ends.get(partition, 0), offset + 1)
        if not ends:
            return
        try:
            self._consumer.commit(offsets=[driver.TopicPartition(self._topic, partition, end) for partition, end in ends.items()], asynchronous=False)
        except driver.KafkaException as error:
            raise BusUnavailable(f"Kafka did not accept the offset of {self.name} ({error.args[0].name()}).") from None
        self._unfinished = [one for one in self._unfinished if one[0].offset not in places]

    def close(self) -> None:
        self._consumer.close()

    def _revoked(self, consumer: Any, partitions: Any) -> None:
        """Another process of this subscriber now reads these partitions, from the last commit."""
        gone = {partition.partition for partition in partitions}
        self._unfinished = [one for one in self._unfinished if one[1] not in gone]


def _body(value: bytes | None) -> dict[str, Any]:
    """Another program may write anything into the topic; it is passed on, so that the reader can set it aside."""
    try:
        found = wire_json.decode(value or b"")
    except wire_json.JSONDecodeError:
        found = None
    return found if isinstance(found, dict) else {"unreadable": (value or b"").decode(errors="replace")[:_LONGEST_UNREADABLE]}
