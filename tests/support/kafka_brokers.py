"""A real Kafka broker for tests: one process with its own port and folder, which can be restarted."""

import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from support.fetched import jars, run
from support.ports import free_port
from support.processes import AT_ONCE, wait_until
from tracelake.embedded.processes import Child
from tracelake_spark.java import find_java

_KAFKA = """\
<ivy-module version="2.0">
  <info organisation="tests" module="kafka-broker"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="4.3.1" conf="default"/>
  </dependencies>
</ivy-module>
"""
_QUICK = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")  # to start; nothing here runs long


class KafkaBroker:
    """Broker and controller in one process; what was acknowledged outlives a restart."""

    def __init__(self, folder: Path) -> None:
        self.port: int = free_port()
        self._folder: Path = folder
        self._java: Path = find_java().path / "bin" / "java"
        self._classes: str = ":".join(str(jar) for jar in jars("kafka-broker", _KAFKA, "kafka_*.jar"))
        self._process: Child | None = None
        folder.mkdir(parents=True)
        self._settings: Path = folder / "server.properties"
        self._settings.write_text(_properties(self.port, free_port(), folder / "data"))
        self._call("kafka.tools.StorageTool", "format", "--config", str(self._settings), "--cluster-id", str(uuid.uuid4()))

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [str(self._java), *_QUICK, "-cp", self._classes, "kafka.Kafka", str(self._settings)]
        self._process = Child("kafka", command, log=self._folder / "broker.log", environment={"LANG": "C.UTF-8"}, folder=self._folder)
        wait_until(self._answers, "the broker answers", pause=0.1)

    def stop(self) -> None:
        """By SIGKILL: what it acknowledged is there afterwards all the same."""
        if self._process is not None:
            self._process.stop(AT_ONCE)
            self._process = None

    def _answers(self) -> bool:
        assert self._process is not None and self._process.exit_code is None, f"the broker ended; see {self._folder / 'broker.log'}"
        try:
            return bool(AdminClient({"bootstrap.servers": self.servers, "log_level": 0}).list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def _call(self, *words: str) -> None:
        run([self._java, *_QUICK, "-cp", self._classes, *words], self._folder, {"LANG": "C.UTF-8"})


@contextmanager
def running_broker(folder: Path) -> Generator[KafkaBroker]:
    broker = KafkaBroker(folder)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def _properties(port: int, controller_port: int, data: Path) -> str:
    return f"""\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
num.partitions=1
num.network.threads=1
num.io.threads=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
auto.create.topics.enable=true
"""
