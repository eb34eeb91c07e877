"""Builds the task services of one control process; an overview of this slice."""

from dataclasses import dataclass, field
from datetime import timedelta

from tracelake.control.database.transactions import Database
from tracelake.control.tasks.canceling import Cancels
from tracelake.control.tasks.claims.claiming import Claims
from tracelake.control.tasks.claims.heartbeats import Heartbeats
from tracelake.control.tasks.claims.long_polls import WaitingRoom
from tracelake.control.tasks.claims.reaping import Reaper
from tracelake.control.tasks.claims.revoked_access import RevokedTasks
from tracelake.control.tasks.claims.unchanged import UnchangedTasks
from tracelake.control.tasks.completions.completing import Completions
from tracelake.control.tasks.completions.joining import Joining
from tracelake.control.tasks.completions.posting import Posting
from tracelake.control.tasks.completions.recording import Recording
from tracelake.control.tasks.finishing import Finisher
from tracelake.control.tasks.judgement import RetryDelay
from tracelake.control.tasks.notifications import NotifyLines, WakePools
from tracelake.control.tasks.pausing import Pauses
from tracelake.control.tasks.requesting import Requests
from tracelake.control.tasks.routing import Routes
from tracelake.control.tasks.sweeping import Sweeper
from tracelake.control.tasks.views import TaskViews
from tracelake.settings import Settings
from tracelake.storage.contract import Storage, Watch


@dataclass(frozen=True)
class TaskServices:
    requests: Requests        # requests for runs
    waiting: WaitingRoom      # workers wait for a task
    claims: Claims            # a worker takes tasks
    heartbeats: Heartbeats    # and keeps their leases
    posting: Posting          # and posts finished batches
    joining: Joining          # and reports; reports of one line are taken together
    completions: Completions  # each with its own answer
    reaper: Reaper            # leases end, and waiting tasks are queued
    cancels: Cancels
    pauses: Pauses
    views: TaskViews


@dataclass(frozen=True)
class TaskBuilder:
    """What the task services of one process share."""

    settings: Settings
    database: Database
    wake: WakePools
    waiting: WaitingRoom
    routes: Routes = field(default_factory=Routes)

    def recording(self) -> Recording:
        """Records what was committed. Built before the services: they notify the movers of lines, and the movers call it."""
        return Recording(self.database, self.wake, self._finisher, self.routes)

    def services(self, notify_lines: NotifyLines) -> TaskServices:
        database, wake = self.database, self.wake
        completions = Completions(database, wake, self._backoff, self._finisher, notify_lines, self.routes)
        return TaskServices(
            requests=Requests(database, wake),
            waiting=self.waiting,
            claims=self._claims(),
            heartbeats=Heartbeats(database, self._lease),
            posting=Posting(database, wake),
            joining=Joining(completions.complete, self.routes.line_of),
            completions=completions,
            reaper=Reaper(database, wake, self._lease, self._backoff, self._finisher, self.settings.storage.max_unrecorded),
            cancels=Cancels(database, wake, self._finisher),
            pauses=Pauses(database, wake),
            views=TaskViews(database),
        )

    def sweeper(self, storage: Storage, watch: Watch) -> Sweeper:
        return Sweeper(self.database, storage, timedelta(seconds=self.settings.storage.staging_retention_seconds), watch)

    def _claims(self) -> Claims:
        unchanged = UnchangedTasks(self.database, self.wake, self._finisher)
        revoked = RevokedTasks(self.database, self.wake, self._finisher)
        return Claims(self.database, self.waiting, self._lease, unchanged, revoked, self.settings.storage.max_unrecorded, routes=self.routes)

    @property
    def _finisher(self) -> Finisher:
        return Finisher(notifies_webhook=self.settings.webhook.url is not None)

    @property
    def _lease(self) -> timedelta:
        return timedelta(seconds=self.settings.tasks.lease_seconds)

    @property
    def _backoff(self) -> RetryDelay:
        tasks = self.settings.tasks
        return RetryDelay(timedelta(seconds=tasks.backoff_seconds), timedelta(seconds=tasks.max_backoff_seconds))
