"""What can be wrong with records, kinds and repositories."""

from tracelake_sdk.errors.base import TracelakeError


class KindUnknown(TracelakeError, code="kind_unknown", status=422):
    """No kind of this name and version is registered; see `tracelake kind list`, or register it first."""


class KindInvalid(TracelakeError, code="kind_invalid", status=422):
    """The kind cannot be registered as it is written; the detail says what to change."""


class KindIncompatible(TracelakeError, code="kind_incompatible", status=409):
    """The new schema breaks what the kind's mode promises; keep to it, or register a new kind."""


class KindConflict(TracelakeError, code="kind_conflict", status=409):
    """This version of the kind is registered with other content; register the next version."""


class RecordRefused(TracelakeError, code="record_refused", status=422):
    """The record does not fit its kind; the detail says where."""


class ClockAhead(TracelakeError, code="clock_ahead", status=422):
    """The record says that it was produced more than five minutes from now; set the producer's clock."""


class RecordConflict(TracelakeError, code="record_conflict", status=409):
    """A record with this identity is stored with other content, and records never change; a new try has a run id of its own."""


class TenantMismatch(TracelakeError, code="tenant_mismatch", status=403):
    """The context names another tenant than the token's or the folder's; leave it to them."""


class OffsetUnknown(TracelakeError, code="offset_unknown", status=422):
    """This offset or page is not one of this repository; start without one."""


class OffsetOfAnotherEpoch(OffsetUnknown, code="offset_of_another_epoch", status=422):
    """This offset belongs to another copy of the database (for example from before a restore); start without an offset and skip known record ids."""


class RepositoryUnavailable(TracelakeError, code="repository_unavailable", status=503):
    """The repository does not answer; what was emitted is kept in the spool, `tracelake record flush` sends it."""


class RepositoryDamaged(TracelakeError, code="repository_damaged", status=500):
    """A file of the repository is gone or cannot be read; `EmbeddedRepository.rebuild()` mends what can be mended."""


class ColdUnreadable(TracelakeError, code="cold_unreadable", status=503):
    """Older records lie in files that cannot be read from here, so the answer would be shorter than the truth; the detail says what is missing."""


class CompactionFailed(TracelakeError, code="compaction_failed", status=500):
    """Old records could not be turned into files; every one is still where it was. The detail says what to mend before the next run."""


class SpoolFull(TracelakeError, code="spool_full", status=503):
    """The spool holds as much as it may; let the repository answer, or give the spool more room."""


class BusUnavailable(TracelakeError, code="bus_unavailable", status=503):
    """The bus does not take or give messages now; what was not told is told when it answers again."""


class RecordsElsewhere(TracelakeError, code="records_elsewhere", status=409):
    """This system keeps its records in another place, which the detail names; ask there."""


class TooManyTails(TracelakeError, code="too_many_tails", status=429):
    """As many streams of records are open here as there is room for; try again shortly, or read page by page."""


class ProducerFailed(TracelakeError, code="producer_failed", status=500):
    """The producer raised an error of its own, which its result carries; the others ran."""
