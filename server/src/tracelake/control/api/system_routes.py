"""State of the process: alive, ready, metrics, and the authenticated caller."""

from datetime import UTC, datetime, timedelta

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from tracelake.control.access.service import SCRAPE_PATIENCE
from tracelake.control.api.context import Services, Serving, User
from tracelake.control.api.guarded_routes import ScraperRoute, UserRoute
from tracelake.control.bus import store as bus
from tracelake.control.database.clock import read_clock
from tracelake.control.database.ids import first_id_of, time_of
from tracelake.control.database.transactions import Transaction
from tracelake.control.emission import store as emission
from tracelake.control.emission.loops import RecordLoops
from tracelake.control.events import store as events
from tracelake.control.outbox import store as outbox
from tracelake.control.tasks import store as tasks
from tracelake.control.tasks.rows import UnfinishedCount
from tracelake.control.worker_loops import store as worker_loops
from tracelake.loop_metrics import add_loop_metrics
from tracelake.request_bodies import BodyMemory
from tracelake_sdk.dags.status import WhoAmI
from tracelake_sdk.errors import Unavailable
from tracelake_sdk.tasks import TaskState, Waits

router = APIRouter(tags=["system"])  # of every service; no token needed
me_router = APIRouter(tags=["user"], route_class=UserRoute)
metrics_router = APIRouter(tags=["system"], route_class=ScraperRoute)
_LOOKED_BACK = timedelta(hours=1)  # of events that are not verified yet
_MOST_COUNTED = 10_000
_MOST_SERIES = 1_000  # metrics of single jobs


@router.get("/healthz")
def healthz() -> dict[str, str]:
    return {"status": "alive"}


@router.get("/readyz")
def readyz(services: Serving) -> dict[str, str]:
    """Ready when the state database takes writes, its schema fits and no loop fails; else 503 with the reasons."""
    services.readiness.check()
    return {"status": "ready"}


@me_router.get("/v1/me")
def me(user: User) -> WhoAmI:
    return WhoAmI(org=user.org, name=user.name, kind=user.kind.value, roles=sorted(user.roles), scopes=sorted(user.scopes))


@metrics_router.get("/metrics")
def metrics(request: Request, services: Serving) -> Response:
    """Metrics of the whole installation, for a scraper with a service token of the scope `metrics`. While the database is unavailable, only those of this process."""
    local, stored = CollectorRegistry(), CollectorRegistry()
    _measure_process(request, services, local)
    up = Gauge("tracelake_database_up", "1 while the state database answers; while it is 0, the metrics that are counted there are omitted.", registry=local)
    try:
        with services.database.looking(patience=SCRAPE_PATIENCE) as tx:
            _measure_database(tx, stored)
    except Unavailable:
        return _exposed(local)
    up.set(1)
    return _exposed(local, stored)


def _exposed(*registries: CollectorRegistry) -> Response:
    return Response(b"".join(generate_latest(registry) for registry in registries), media_type="text/plain; version=0.0.4")


def _measure_process(request: Request, services: Services, registry: CollectorRegistry) -> None:
    memory: BodyMemory = request.app.state.body_memory
    Gauge("tracelake_waiting_polls", "Long polls that wait for a task.", registry=registry).set(services.tasks.waiting.number_waiting)
    Gauge("tracelake_open_tails", "Streams of records that are open.", registry=registry).set(services.tails.number_open)
    Gauge("tracelake_request_body_bytes", "Bytes of request bodies that the process holds.", registry=registry).set(memory.held)
    _count_emitted(services.record_loops, registry)
    add_loop_metrics(registry, services.readiness.loops.statuses())


def _measure_database(tx: Transaction, registry: CollectorRegistry) -> None:
    backlog = Gauge("tracelake_outbox_backlog", "Side effects that are not performed yet.", registry=registry)
    unaccounted = Gauge("tracelake_events_unaccounted", "Pairs of event and subscriber without a ledger row; must be 0.", registry=registry)
    unverified = Gauge(
        "tracelake_events_unverified_seconds", "Age of the oldest event whose ledger lines are not verified yet; tracelake_events_unaccounted may lack events older than an hour until it is below that.", registry=registry
    )
    behind = Gauge("tracelake_emission_behind", "Runs and decisions that are not emitted as records yet, counted up to a limit.", registry=registry)
    refused = Gauge("tracelake_emission_refused", "Records of the platform itself that its repository refused; must be 0.", registry=registry)
    unread = Gauge("tracelake_bus_unread_seconds", "Age of the oldest message on Postgres that a subscriber has not read.", ["topic", "subscriber"], registry=registry)
    of_workers = Gauge("tracelake_worker_loop_failing", "1 for each background loop that a worker reports as failing.", ["worker", "loop"], registry=registry)
    _count_tasks(tasks.unfinished(tx), registry)
    backlog.set(outbox.backlog(tx))
    unaccounted.set(events.unaccounted(tx, since=first_id_of(datetime.now(UTC) - _LOOKED_BACK)))
    oldest = events.first_unverified(tx)
    unverified.set(max(0.0, (datetime.now(UTC) - time_of(oldest)).total_seconds()) if oldest else 0)
    behind.set(emission.behind(tx, most=_MOST_COUNTED))
    refused.set(emission.refusals(tx))
    for failing in worker_loops.failing(tx):
        of_workers.labels(failing.worker, failing.loop).set(1)
    now = read_clock(tx)
    for one in bus.subscribers(tx):
        unread.labels(one.topic, one.subscriber).set((now - one.unread_since).total_seconds() if one.unread_since else 0)


def _count_tasks(counts: list[UnfinishedCount], registry: CollectorRegistry) -> None:
    """Every state is listed for all jobs together, also at 0; single jobs are listed only for the largest counts, so that a scrape stays small."""
    depth = Gauge("tracelake_tasks", "Unfinished tasks by state.", ["state"], registry=registry)
    of_job = Gauge("tracelake_job_tasks", "Unfinished tasks by job, pool and state.", ["org", "dag", "job", "runtime", "pool", "state"], registry=registry)
    for state in (TaskState.QUEUED, TaskState.RUNNING, TaskState.COMMITTING):
        depth.labels(state.value)
    for waits in Waits:
        depth.labels(f"waits_{waits.value}")
    for count in counts:
        depth.labels(count.name).inc(count.number)
    for count in counts[:_MOST_SERIES]:
        of_job.labels(count.org, count.dag, count.job, count.runtime, count.pool, count.name).inc(count.number)


def _count_emitted(loops: RecordLoops, registry: CollectorRegistry) -> None:
    """Counts of what this process read from the bus, if there is one."""
    emitted = Counter("tracelake_records_emitted", "Records that were emitted on the bus, by kind and outcome.", ["kind", "outcome"], registry=registry)
    aside = Counter("tracelake_bus_set_aside", "Messages that a subscriber of the bus set aside.", ["subscriber"], registry=registry)
    for (kind, outcome), number in loops.counts.now().items():
        emitted.labels(kind, outcome).inc(number)
    for subscriber, number in loops.set_aside().items():
        aside.labels(subscriber).inc(number)
