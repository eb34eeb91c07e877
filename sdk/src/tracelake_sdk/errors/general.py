"""Errors that any part of the system may raise; the docstring of each is its default message and says what to do."""

from tracelake_sdk.errors.base import TracelakeError


# What the caller sent
class Malformed(TracelakeError, code="malformed", status=400):
    """The request is not understood; check it against the API's schema."""


class Invalid(TracelakeError, code="invalid", status=422):
    """The request is understood but does not hold together; the detail says where."""


class TooLarge(TracelakeError, code="too_large", status=413):
    """The request is larger than is accepted; send it in smaller parts."""


class BodyTooSlow(TracelakeError, code="body_too_slow", status=408):
    """The request's body did not arrive in time; send it in smaller parts or over a faster connection."""


class IdempotencyConflict(TracelakeError, code="idempotency_conflict", status=409):
    """This key was used before with other content; use a new key for a new request."""


# Who the caller is
class Unauthenticated(TracelakeError, code="unauthenticated", status=401):
    """No valid token came with the request; send `Authorization: Bearer <token>`."""


class Forbidden(TracelakeError, code="forbidden", status=403):
    """The token is valid but lacks the right for this; ask an admin for the role that the detail names."""


class NotFound(TracelakeError, code="not_found", status=404):
    """There is no such object in this org; check the name with `tracelake status`."""


# Users, roles, tokens
class AccessConflict(TracelakeError, code="access_conflict", status=409):
    """A user of this name, or of this issuer and subject, is there already with other facts; choose another name."""


class LocationConflict(TracelakeError, code="location_conflict", status=409):
    """A location of this name already exists with another root or other roles; change that one, or choose another name."""


class LocationRefused(TracelakeError, code="location_refused", status=422):
    """The root of a location is an absolute folder or an S3 prefix, and must not overlap the home or the lake; choose another."""


class LastAdmin(TracelakeError, code="last_admin", status=409):
    """The org would be left without an admin; give somebody else the role first."""


class TokenShownOnce(TracelakeError, code="token_shown_once", status=409):
    """This token was made by the first request with this key, and is not shown again; if it was lost, revoke it and make another."""


# Tasks and attempts
class StaleAttempt(TracelakeError, code="stale_attempt", status=409):
    """A newer attempt of this task has started, or this fence was never given out; drop the result."""


class AttemptFinal(TracelakeError, code="attempt_final", status=409):
    """This attempt was closed before the report came; drop the result."""


class CompletionConflict(TracelakeError, code="completion_conflict", status=409):
    """This attempt was completed before with another body; the recorded result stands."""


class IllegalTransition(TracelakeError, code="illegal_transition", status=409):
    """A task in this state cannot do that."""


class TaskCanceled(TracelakeError, code="task_canceled", status=409):
    """The task is canceled; stop the operator and report the attempt as canceled."""


class AlreadyDecided(TracelakeError, code="already_decided", status=409):
    """The task is decided and being committed; nothing can stop it any more."""


class AlreadyFinal(TracelakeError, code="already_final", status=409):
    """The task is final; start a new run instead."""


# Events
class EventConflict(TracelakeError, code="event_conflict", status=409):
    """This event was told before with other content; an event never changes, tell a rewrite with a revision of its own."""


class EventInvalid(TracelakeError, code="event_invalid", status=422):
    """The event names an output that its job does not have, or a scope that the output cannot carry."""


class BatchConflict(TracelakeError, code="batch_conflict", status=409):
    """A batch of this name was posted before with other files; give a new batch a new name."""


class BatchesDiffer(TracelakeError, code="batches_differ", status=409):
    """The report does not list exactly the batches that were posted for the task; the detail names the difference."""


# DAGs and the registry
class RebuildNeeded(TracelakeError, code="rebuild_needed", status=409):
    """The definition changes what rows the jobs make that the detail names, and building them anew is not supported yet; deploy it under a new name."""


class NameTaken(TracelakeError, code="name_taken", status=409):
    """This org has a dataset or a snapshot of this name already; choose another name."""


class DatasetCycle(TracelakeError, code="dataset_cycle", status=409):
    """Over all DAGs of the org, datasets would be made from each other; remove one of the inputs."""


class JobNotRunnable(TracelakeError, code="job_not_runnable", status=409):
    """Only a job with `activation: source` can be started by a request; run its source instead."""


# Rules and policies
class RuleInvalid(TracelakeError, code="rule_invalid", status=422):
    """The rule's expression is not understood; the detail says where and what to write."""


class PolicyInvalid(TracelakeError, code="policy_invalid", status=422):
    """There is no such policy; the detail says which there are."""


# Queries
class QueryRefused(TracelakeError, code="query_refused", status=422):
    """Queries are one SELECT over published datasets, with functions that only compute; the detail says what to write instead."""


class QueryInvalid(TracelakeError, code="query_invalid", status=422):
    """The engine cannot do what the statement says; the detail says where."""


class QueryOverLimit(TracelakeError, code="query_over_limit", status=422):
    """The query needs more time, memory or space than one may have; ask for less, or in parts."""


class QueryAbandoned(TracelakeError, code="query_abandoned", status=409):
    """Whoever asked had hung up before there was an answer, so the query was ended; ask again, and stay until it comes."""


class TooManyQueries(TracelakeError, code="too_many_queries", status=429):
    """As many queries run and wait as there is room for; try again shortly."""


class NotReplayable(TracelakeError, code="not_replayable", status=409):
    """Asked again on the same versions, this query may answer otherwise; the detail says why."""


class Purged(TracelakeError, code="purged", status=410):
    """The files of this version are gone; ask for a version that is there."""


class PackageMissing(TracelakeError, code="package_missing", status=503):
    """This needs a package that is not installed here; the detail names it."""


# The system
class Unavailable(TracelakeError, code="unavailable", status=503):
    """The service cannot answer now; try again shortly."""


class Busy(Unavailable, code="busy", status=503):
    """The server holds as many bytes of request bodies as it has memory for; try again shortly, in smaller parts."""


class NotReady(TracelakeError, code="not_ready", status=503):
    """A process is up but cannot do all of its work now; `reasons` names what fails, and it becomes ready by itself."""


class LoopFailed(TracelakeError, code="loop_failed", status=500):
    """A background loop of this process fails again and again, so the process ends in order to be started again; its log says where."""


class NotRunning(TracelakeError, code="not_running", status=503):
    """No Tracelake system answers; start one with `tracelake up` or set TRACELAKE_API_URL."""


class OutcomeUnknown(TracelakeError, code="outcome_unknown", status=504):
    """The connection broke after the request was sent: it may or may not have happened; repeat it with the same idempotency key."""


class StorageUnavailable(TracelakeError, code="storage_unavailable", status=503):
    """The storage does not answer; check the settings of `storage` and try again."""


class StorageOutcomeUnknown(StorageUnavailable, code="storage_outcome_unknown", status=504):
    """The storage did not answer a write: the file may be there or not; write it again."""


class SettingInvalid(TracelakeError, code="setting_invalid", status=422):
    """A setting cannot be used; the detail names it and says what it takes."""


class MigrationRefused(TracelakeError, code="migration_refused", status=409):
    """The database's schema does not match this program; the detail says which migration and what to do."""


class SystemBusy(TracelakeError, code="system_busy", status=409):
    """Another `tracelaked up` already runs this home; stop it first or choose another TRACELAKE_HOME."""


class StartFailed(TracelakeError, code="start_failed", status=503):
    """A part of the system did not start; the detail names its log."""


class ServerMissing(TracelakeError, code="server_missing", status=503):
    """The programs of a Tracelake system are not installed here; install the package `tracelake`."""


class JavaMissing(TracelakeError, code="java_missing", status=503):
    """No Java that Spark can use was found; install Java 17, 21 or 25, or set JAVA_HOME to one."""


class JarsMissing(TracelakeError, code="jars_missing", status=503):
    """The jars that Spark needs cannot be fetched; check the network and the Maven repository, or copy them into `spark.jars_folder`."""


class OperatorCredentialsRefused(TracelakeError, code="operator_credentials_refused", status=503):
    """The object store did not issue credentials for an operator; check `storage.operator_role` and the trust policy of the role."""


class ProjectRefused(TracelakeError, code="project_refused", status=409):
    """A project cannot be made in this folder; name one that has no such files and may be written to."""
