"""The loops of a process as metrics."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge

from tracelake.loops import LoopStatus


def add_loop_metrics(registry: CollectorRegistry, statuses: Iterable[LoopStatus]) -> None:
    failures = Counter("tracelake_loop_failures", "Turns of a background loop that failed since the process started.", ["loop"], registry=registry)
    failing = Gauge("tracelake_loop_failing", "1 while a background loop keeps failing; must be 0.", ["loop"], registry=registry)
    age = Gauge("tracelake_loop_last_success_seconds", "Seconds since the last turn of a background loop that succeeded.", ["loop"], registry=registry)
    for status in statuses:
        failures.labels(status.name).inc(status.failures)
        failing.labels(status.name).set(status.failing)
        age.labels(status.name).set(status.since_success_seconds)
