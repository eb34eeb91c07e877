"""Leases: renews the pins of all running queries together, well before they expire."""

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from uuid import UUID

import structlog

from tracelake.loops import LONGEST_WAIT, Loop
from tracelake.query.pin_client import PinClient
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.queries import Pinned

_log = structlog.get_logger()


class PinLeases:
    """`run_once` renews what is due; while no query runs it only waits."""

    def __init__(self, control: PinClient) -> None:
        self._control: PinClient = control
        self._change: threading.Condition = threading.Condition()
        self._due: dict[UUID, tuple[float, float]] = {}  # pin → when to renew it, and the interval between two renewals
        self._stopping: bool = False
        self.loop: Loop = Loop("leases", self._renew_and_wait)

    def start(self) -> None:
        self.loop.start()

    def stop(self) -> None:
        self.loop.ask_to_stop()
        with self._change:
            self._stopping = True
            self._change.notify()

    @contextmanager
    def held(self, pinned: Pinned) -> Generator[None]:
        """The pins are renewed until the end of this block."""
        pause = pinned.lease_seconds / 3
        with self._change:
            self._due[pinned.id] = (time.monotonic() + pause, pause)
            self._change.notify()
        try:
            yield
        finally:
            with self._change:
                self._due.pop(pinned.id, None)

    def run_once(self) -> float | None:
        """Renews what is due, and returns in how many seconds the next renewal is due; None if nothing is held."""
        now = time.monotonic()
        with self._change:
            due = [pin for pin, (at, _) in self._due.items() if at <= now]
        if due:
            self._renew(due, now)
        with self._change:
            return max(0.0, min(at for at, _ in self._due.values()) - time.monotonic()) if self._due else None

    def _renew(self, due: list[UUID], now: float) -> None:
        try:
            lost = self._control.renew(due).lost
        except TracelakeError as error:
            _log.warning("pins were not renewed", number=len(due), error=error.code)
            lost = []
        with self._change:
            for pin in due:
                if pin in self._due:
                    pause = self._due[pin][1]
                    self._due[pin] = (now + pause, pause)
            for pin in lost:
                self._due.pop(pin, None)  # its query fails when it releases the pin

    def _renew_and_wait(self) -> None:
        wait = self.run_once()
        with self._change:
            # Unless a pin was added since.
            if not self._stopping and not (wait is None and self._due):
                self._change.wait(LONGEST_WAIT if wait is None else wait)
