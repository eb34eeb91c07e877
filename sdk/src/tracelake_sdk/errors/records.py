"""Errors of records, kinds and repositories."""

from tracelake_sdk.errors.base import TracelakeError


class KindUnknown(TracelakeError, code="kind_unknown", status=422):
    """No kind of this name and version is registered; see `tracelake kind list`, or register it first."""


class KindInvalid(TracelakeError, code="kind_invalid", status=422):
    """The kind is not valid; the detail says what to change."""


class KindIncompatible(TracelakeError, code="kind_incompatible", status=409):
    """The new schema is not compatible with the kind's mode; change it, or register a new kind."""


class KindConflict(TracelakeError, code="kind_conflict", status=409):
    """This version of the kind is registered with other content; register the next version."""


class RecordRefused(TracelakeError, code="record_refused", status=422):
    """The record does not match its kind; the detail says where."""


class ClockAhead(TracelakeError, code="clock_ahead", status=422):
    """The record's `produced_at` is more than five minutes in the future; correct the producer's clock."""


class RecordConflict(TracelakeError, code="record_conflict", status=409):
    """A record with this identity is stored with other content, and records never change; a retry needs a new run id."""


class TenantMismatch(TracelakeError, code="tenant_mismatch", status=403):
    """The context names another tenant than the token or the folder; use the tenant of the token, or of the folder."""


class OffsetUnknown(TracelakeError, code="offset_unknown", status=422):
    """This offset or page does not belong to this repository; start without one."""


class OffsetOfAnotherEpoch(OffsetUnknown, code="offset_of_another_epoch", status=422):
    """This offset belongs to another copy of the database (for example from before a restore); start without an offset and skip known record ids."""


class RepositoryUnavailable(TracelakeError, code="repository_unavailable", status=503):
    """The repository does not answer; emitted records are kept in the spool, and `tracelake record flush` sends them."""


class RepositoryDamaged(TracelakeError, code="repository_damaged", status=500):
    """A file of the repository is missing or cannot be read; `EmbeddedRepository.rebuild()` repairs what it can."""


class ColdUnreadable(TracelakeError, code="cold_unreadable", status=503):
    """Older records are stored in files that cannot be read from here, so the result would be incomplete; the detail says what is missing."""


class CompactionFailed(TracelakeError, code="compaction_failed", status=500):
    """Old records could not be compacted; no record was moved. The detail says what to fix before the next run."""


class SpoolFull(TracelakeError, code="spool_full", status=503):
    """The spool is full; make the repository available, or increase the size of the spool."""


class BusUnavailable(TracelakeError, code="bus_unavailable", status=503):
    """The bus is not available; messages that were not published are published when it is available again."""


class RecordsElsewhere(TracelakeError, code="records_elsewhere", status=409):
    """This system stores its records in another repository, which the detail names; use that one."""


class TooManyTails(TracelakeError, code="too_many_tails", status=429):
    """Too many streams of records are open; try again shortly, or read page by page."""


class ProducerFailed(TracelakeError, code="producer_failed", status=500):
    """The producer raised an error, which its result contains; the other producers ran."""
